/* request.c -- what requests have in common: conditions, generations, errors in Google's shape.
 *
 *   {"error":{"code":412,"message":"…","errors":[{"message":"…","domain":"global",
 *     "reason":"conditionNotMet"}],"status":"FAILED_PRECONDITION"}}
 *
 * `errors` is what storage's own clients read, `status` what gcloud prints. */
#include "gcs/gcs_int.h"

/* ---- errors ---- */

static const struct {
    ty_err err;
    int status;
    const char *reason;
} shapes[] = {
    {TY_INVALID_ARGUMENT, 400, "invalid"},
    {TY_OUT_OF_RANGE, 400, "invalid"},
    {TY_PERMISSION_DENIED, 403, "forbidden"},
    {TY_NOT_FOUND, 404, "notFound"},
    {TY_ABORTED, 409, "conflict"},
    {TY_ALREADY_EXISTS, 409, "conflict"},
    {TY_FAILED_PRECONDITION, 412, "conditionNotMet"},
    {TY_RESOURCE_EXHAUSTED, 429, "rateLimitExceeded"},
    {TY_UNIMPLEMENTED, 501, "notImplemented"},
    {TY_UNAVAILABLE, 503, "backendError"},
};

ty_err answer_with(struct http_request *req, struct http_response *res, ty_err err)
{
    if (err == TY_OK)
        return TY_OK;
    int status = 500;
    const char *reason = "internalError";
    for (size_t i = 0; i < TY_COUNT(shapes); i++) {
        if (shapes[i].err == err) {
            status = shapes[i].status;
            reason = shapes[i].reason;
        }
    }
    ty_str message = ty_str_of(ty_err_message());
    struct ty_buf *b = &res->body;
    b->len = 0;
    b->full = false;
    ty_buf_addf(b, "{\"error\":{\"code\":%d,\"message\":", status);
    wire_json_string(b, message);
    ty_buf_addz(b, ",\"errors\":[{\"message\":");
    wire_json_string(b, message);
    ty_buf_addf(b, ",\"domain\":\"global\",\"reason\":\"%s\"}],\"status\":\"%s\"}}", reason,
                ty_err_name(err));
    res->status = status;
    res->content_type = NULL;
    if (status >= 500)
        log_error("gcs.error", "request=%s status=%d path='%.*s' error='%s'", req->id, status,
                  req->path.len > 512 ? 512 : (int)req->path.len, req->path.ptr, message.ptr);
    else if (err == TY_RESOURCE_EXHAUSTED) /* a full disk is the operator's trouble, too */
        log_warn("gcs.refused", "request=%s status=%d path='%.*s' error='%s'", req->id, status,
                 req->path.len > 512 ? 512 : (int)req->path.len, req->path.ptr, message.ptr);
    return TY_OK;
}

/* ---- queries ---- */

bool query_bool(const struct http_request *req, const char *name)
{
    ty_str text = http_query(req, name);
    return ty_str_is(text, "true") || ty_str_is(text, "True") || ty_str_is(text, "1");
}

ty_err conditions_parse(const struct http_request *req, const char *source,
                        struct object_conditions *ret_conditions)
{
    struct object_conditions c = {0};
    const struct {
        const char *name;
        unsigned bit;
        int64_t *value;
    } rows[] = {
        {"GenerationMatch", OBJECTS_IF_GENERATION, &c.generation_match},
        {"GenerationNotMatch", OBJECTS_IF_GENERATION_NOT, &c.generation_not_match},
        {"MetagenerationMatch", OBJECTS_IF_METAGENERATION, &c.metageneration_match},
        {"MetagenerationNotMatch", OBJECTS_IF_METAGENERATION_NOT, &c.metageneration_not_match},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        char name[64];
        snprintf(name, sizeof name, "if%s%s", source, rows[i].name);
        if (http_query(req, name).len == 0)
            continue;
        ty_err err = http_query_i64(req, name, 0, rows[i].value);
        if (err != TY_OK)
            return err;
        c.given |= rows[i].bit;
    }
    *ret_conditions = c;
    return TY_OK;
}

ty_err ref_parse(const struct http_request *req, struct object_ref *ret_ref)
{
    int64_t generation;
    ty_err err = http_query_i64(req, "generation", 0, &generation);
    if (err != TY_OK)
        return err;
    if (generation < 0)
        return ty_fail(TY_INVALID_ARGUMENT, "generation: %" PRId64 " is no generation", generation);
    *ret_ref = (struct object_ref){.bucket = req->capture[0],
                                   .name = req->capture[1],
                                   .generation = generation,
                                   .soft_deleted = query_bool(req, "softDeleted")};
    return TY_OK;
}

ty_err body_parse(ty_str body, json_t **ret_object)
{
    json_t *value;
    if (ty_str_trim(body).len == 0) {
        *ret_object = NULL;
        return TY_OK;
    }
    ty_err err = wire_json_parse(body, &value);
    if (err != TY_OK)
        return ty_wrap(err, "the request's body");
    if (!json_is_object(value)) {
        json_decref(value);
        return ty_fail(TY_INVALID_ARGUMENT, "the request's body must be a JSON object");
    }
    *ret_object = value;
    return TY_OK;
}

ty_err change_check(const struct gcs *g, const struct http_request *req, ty_str bucket, ty_str name)
{
    return g->may_change ? g->may_change(g->may_change_ctx, req, bucket, name) : TY_OK;
}

ty_err encryption_refuse(const struct http_request *req)
{
    static const char *const headers[] = {"X-Goog-Encryption-Key",
                                          "X-Goog-Copy-Source-Encryption-Key"};
    bool asked =
        http_query(req, "kmsKeyName").len > 0 || http_query(req, "destinationKmsKeyName").len > 0;
    for (size_t i = 0; i < TY_COUNT(headers); i++)
        asked = asked || http_header(req, headers[i]).len > 0;
    if (asked)
        return ty_fail(TY_UNIMPLEMENTED,
                       "encryption keys: objects are plain files in your own folder and are not "
                       "encrypted; leave the key out, or encrypt the bytes yourself");
    return TY_OK;
}
