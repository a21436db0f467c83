/* bucket.c -- buckets and their IAM policies. Policies are recorded and given back; who may call is
 * decided before a request gets here. */
#include "gcs/gcs_int.h"

#include <ctype.h>

static ty_err bucket_answer(struct http_request *req, struct http_response *res, ty_err err,
                            const struct bucket *b)
{
    if (err != TY_OK)
        return answer_with(req, res, err);
    bucket_json(&res->body, link_base(req), b);
    return answer_with(req, res, fields_apply(req, res));
}

/* ---- insert, get, list, delete ---- */

static ty_str upper(struct ty_arena *a, ty_str s)
{
    char *text = ty_cstr(a, s);
    for (size_t i = 0; i < s.len; i++)
        text[i] = (char)toupper((unsigned char)text[i]);
    return (ty_str){text, s.len};
}

static ty_err bucket_make(struct http_request *req, struct gcs *g, struct bucket *b)
{
    json_t *in = NULL;
    ty_err err = http_request_may(req, http_query(req, "project"));
    if (err == TY_OK)
        err = body_parse(req->body, &in);
    if (err != TY_OK)
        return err;
    b->name = ty_str_dup(req->arena, wire_json_get_str(in, "name"));
    b->project = http_query(req, "project");
    b->location = upper(req->arena, wire_json_get_str(in, "location"));
    if (b->location.len == 0)
        b->location = TY_STR("US");
    if (b->name.len == 0)
        err = ty_fail(TY_INVALID_ARGUMENT, "name: is required");
    if (err == TY_OK && in)
        err = bucket_apply(req->arena, in, b);
    if (b->storage_class.len == 0)
        b->storage_class = TY_STR("STANDARD");
    json_decref(in);
    return err == TY_OK ? objects_bucket_insert(g->objects, b) : err;
}

ty_err bucket_insert(struct http_request *req, struct http_response *res, void *ctx)
{
    struct bucket b = {0};
    ty_err err = bucket_make(req, ctx, &b);
    return bucket_answer(req, res, err, &b);
}

ty_err bucket_get(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct object_conditions c;
    struct bucket b = {0};
    ty_err err = conditions_parse(req, "", &c);
    if (err == TY_OK)
        err = objects_bucket_get(g->objects, req->arena, req->capture[0], &c, &b);
    if (err == TY_ABORTED) {
        res->status = 304;
        return TY_OK;
    }
    return bucket_answer(req, res, err, &b);
}

ty_err bucket_list(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct bucket *buckets;
    size_t count;
    bool more;
    int64_t limit;
    ty_err err = http_query_i64(req, "maxResults", OBJECTS_PAGE, &limit);
    if (err == TY_OK && limit < 1)
        err = ty_fail(TY_INVALID_ARGUMENT, "maxResults: must be at least 1");
    if (err == TY_OK)
        err = http_request_may(req, http_query(req, "project"));
    if (err == TY_OK)
        err = objects_bucket_list(g->objects, req->arena, http_query(req, "project"),
                                  http_query(req, "prefix"), http_query(req, "pageToken"),
                                  limit < OBJECTS_PAGE ? (size_t)limit : OBJECTS_PAGE, &buckets,
                                  &count, &more);
    if (err != TY_OK)
        return answer_with(req, res, err);
    const char *base = link_base(req);
    ty_buf_addz(&res->body, "{\"kind\":\"storage#buckets\"");
    for (size_t i = 0; i < count; i++) {
        ty_buf_addz(&res->body, i == 0 ? ",\"items\":[" : ",");
        bucket_json(&res->body, base, &buckets[i]);
    }
    ty_buf_addz(&res->body, count > 0 ? "]" : "");
    if (more && count > 0)
        member_str(&res->body, "nextPageToken", buckets[count - 1].name);
    ty_buf_addc(&res->body, '}');
    return answer_with(req, res, fields_apply(req, res));
}

ty_err bucket_delete(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct object_conditions c;
    ty_err err = conditions_parse(req, "", &c);
    if (err == TY_OK)
        err = objects_bucket_delete(g->objects, req->capture[0], &c);
    if (err == TY_ABORTED) /* gsutil looks for these words */
        err = ty_fail(
            err,
            "The bucket you tried to delete is not empty. Delete the objects of '" TY_STR_FMT
            "' first, old generations too",
            TY_STR_ARG(req->capture[0]));
    res->status = 204;
    return answer_with(req, res, err);
}

/* ---- patch and update ---- */

struct bucket_change {
    const json_t *in;
    bool whole; /* update: what is not named goes back to its default */
};

static ty_err bucket_change_fn(struct ty_arena *a, struct bucket *b, void *arg)
{
    const struct bucket_change *change = arg;
    if (change->whole) {
        b->versioning = false;
        b->soft_delete_s = 0;
        b->labels = b->lifecycle = b->extra = TY_STR("");
    }
    return change->in ? bucket_apply(a, change->in, b) : TY_OK;
}

static ty_err bucket_change(struct http_request *req, struct http_response *res, struct gcs *g,
                            bool whole)
{
    struct object_conditions c;
    struct bucket b = {0};
    json_t *in = NULL;
    ty_err err = conditions_parse(req, "", &c);
    if (err == TY_OK)
        err = body_parse(req->body, &in);
    struct bucket_change change = {in, whole};
    if (err == TY_OK)
        err = objects_bucket_patch(g->objects, req->arena, req->capture[0], &c, bucket_change_fn,
                                   &change, &b);
    json_decref(in);
    return bucket_answer(req, res, err, &b);
}

ty_err bucket_patch(struct http_request *req, struct http_response *res, void *ctx)
{
    return bucket_change(req, res, ctx, false);
}

ty_err bucket_update(struct http_request *req, struct http_response *res, void *ctx)
{
    return bucket_change(req, res, ctx, true);
}

/* ---- what clients ask before they copy or remove folders ---- */

ty_err bucket_layout(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct bucket b;
    ty_err err = objects_bucket_get(g->objects, req->arena, req->capture[0], NULL, &b);
    if (err != TY_OK)
        return answer_with(req, res, err);
    ty_buf_addz(&res->body, "{\"kind\":\"storage#storageLayout\"");
    member_str(&res->body, "bucket", b.name);
    member_str(&res->body, "location", b.location);
    ty_buf_addz(&res->body, ",\"locationType\":\"region\",\"hierarchicalNamespace\":{\"enabled\":"
                            "false}}");
    return TY_OK;
}

/* There are none: folders here are what names with slashes make. */
ty_err bucket_folders(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct bucket b;
    return answer_with(req, res,
                       objects_bucket_get(g->objects, req->arena, req->capture[0], NULL, &b));
}

/* ---- IAM ---- */

static void policy_json(struct ty_buf *b, const struct bucket *x)
{
    if (x->iam.len > 0) {
        ty_buf_adds(b, x->iam);
        return;
    }
    ty_buf_addf(b,
                "{\"kind\":\"storage#policy\",\"resourceId\":\"projects/_/buckets/" TY_STR_FMT
                "\",\"version\":1,\"etag\":\"CAE=\",\"bindings\":[]}",
                TY_STR_ARG(x->name));
}

ty_err iam_get(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct bucket b;
    ty_err err = objects_bucket_get(g->objects, req->arena, req->capture[0], NULL, &b);
    if (err == TY_OK)
        policy_json(&res->body, &b);
    return answer_with(req, res, err);
}

static ty_err iam_set_fn(struct ty_arena *a, struct bucket *b, void *arg)
{
    (void)a;
    b->iam = *(const ty_str *)arg;
    return TY_OK;
}

static ty_err policy_make(struct http_request *req, ty_str *ret_policy)
{
    json_t *in = NULL;
    struct ty_buf text;
    ty_err err = body_parse(req->body, &in);
    if (err != TY_OK)
        return err;
    if (!in || (json_object_get(in, "bindings") && !json_is_array(json_object_get(in, "bindings"))))
        err = ty_fail(TY_INVALID_ARGUMENT, "bindings: must be an array of roles and members");
    ty_buf_init(&text, OBJECTS_SETTINGS_BYTES);
    if (err == TY_OK) {
        json_object_set_new(in, "kind", json_string("storage#policy"));
        if (!json_object_get(in, "etag"))
            json_object_set_new(in, "etag", json_string("CAE="));
        wire_json_dump(&text, in);
        err = ty_buf_check(&text, "the policy");
    }
    if (err == TY_OK)
        *ret_policy = ty_str_dup(req->arena, ty_buf_str(&text));
    ty_buf_clear(&text);
    json_decref(in);
    return err;
}

ty_err iam_set(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct bucket b;
    ty_str policy;
    ty_err err = policy_make(req, &policy);
    if (err == TY_OK)
        err = objects_bucket_patch(g->objects, req->arena, req->capture[0], NULL, iam_set_fn,
                                   &policy, &b);
    if (err == TY_OK)
        policy_json(&res->body, &b);
    return answer_with(req, res, err);
}

/* Whoever may call may do everything. */
ty_err iam_test(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct bucket b;
    ty_err err = objects_bucket_get(g->objects, req->arena, req->capture[0], NULL, &b);
    if (err != TY_OK)
        return answer_with(req, res, err);
    ty_buf_addz(&res->body, "{\"kind\":\"storage#testIamPermissionsResponse\",\"permissions\":[");
    bool first = true;
    for (const struct http_param *p = req->query; p; p = p->next) {
        if (!ty_str_is(p->name, "permissions"))
            continue;
        ty_buf_addz(&res->body, first ? "" : ",");
        wire_json_string(&res->body, p->value);
        first = false;
    }
    ty_buf_addz(&res->body, "]}");
    return TY_OK;
}
