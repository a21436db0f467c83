/* object.c -- one object's metadata, and lists. */
#include "gcs/gcs_int.h"

#include <strings.h>

static ty_err object_answer(struct http_request *req, struct http_response *res, ty_err err,
                            const struct object *object)
{
    if (err != TY_OK)
        return answer_with(req, res, err);
    object_json(&res->body, link_base(req), object);
    return answer_with(req, res, fields_apply(req, res));
}

/* ---- get ---- */

ty_err object_get(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    if (ty_str_is(http_query(req, "alt"), "media"))
        return object_download(req, res, ctx);
    struct object_conditions c;
    struct object_ref ref;
    struct object object = {0};
    ty_err err = ref_parse(req, &ref);
    if (err == TY_OK)
        err = conditions_parse(req, "", &c);
    if (err == TY_OK)
        err = objects_get(g->objects, req->arena, ref, &c, &object);
    if (err == TY_ABORTED) {
        res->status = 304;
        return TY_OK;
    }
    return object_answer(req, res, err, &object);
}

/* ---- patch, update, delete ---- */

struct object_change {
    const json_t *in;
    bool whole;
};

static ty_err object_change_fn(struct ty_arena *a, struct object_settings *s, void *arg)
{
    const struct object_change *change = arg;
    if (change->whole)
        *s = (struct object_settings){.storage_class = s->storage_class};
    return change->in ? settings_apply(a, change->in, s) : TY_OK;
}

static ty_err object_change(struct http_request *req, struct http_response *res, struct gcs *g,
                            bool whole)
{
    struct object_conditions c;
    struct object_ref ref;
    struct object object = {0};
    json_t *in = NULL;
    ty_err err = ref_parse(req, &ref);
    if (err == TY_OK)
        err = conditions_parse(req, "", &c);
    if (err == TY_OK)
        err = body_parse(req->body, &in);
    struct object_change change = {in, whole};
    if (err == TY_OK)
        err = change_check(g, req, ref.bucket, ref.name);
    if (err == TY_OK)
        err = objects_patch(g->objects, req->arena, ref, &c, object_change_fn, &change, &object);
    json_decref(in);
    return object_answer(req, res, err, &object);
}

ty_err object_patch(struct http_request *req, struct http_response *res, void *ctx)
{
    return object_change(req, res, ctx, false);
}

ty_err object_update(struct http_request *req, struct http_response *res, void *ctx)
{
    return object_change(req, res, ctx, true);
}

ty_err object_delete(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct object_conditions c;
    struct object_ref ref;
    ty_err err = ref_parse(req, &ref);
    if (err == TY_OK)
        err = conditions_parse(req, "", &c);
    if (err == TY_OK)
        err = change_check(g, req, ref.bucket, ref.name);
    if (err == TY_OK)
        err = objects_delete(g->objects, ref, &c);
    res->status = 204;
    return answer_with(req, res, err);
}

/* ---- lists ---- */

static ty_err query_parse(struct http_request *req, struct object_query *ret_query)
{
    int64_t limit;
    ty_err err = http_query_i64(req, "maxResults", OBJECTS_PAGE, &limit);
    if (err == TY_OK && limit < 0)
        err = ty_fail(TY_INVALID_ARGUMENT, "maxResults: must not be negative");
    if (err != TY_OK)
        return err;
    *ret_query = (struct object_query){
        .bucket = req->capture[0],
        .prefix = http_query(req, "prefix"),
        .delimiter = http_query(req, "delimiter"),
        .start = http_query(req, "startOffset"),
        .end = http_query(req, "endOffset"),
        .glob = http_query(req, "matchGlob"),
        .token = http_query(req, "pageToken"),
        .limit = limit < OBJECTS_PAGE ? (size_t)limit : OBJECTS_PAGE,
        .versions = query_bool(req, "versions"),
        .soft_deleted = query_bool(req, "softDeleted"),
        .include_trailing_delimiter = query_bool(req, "includeTrailingDelimiter"),
        .hash_bytes = OBJECTS_HASH_BYTES,
    };
    return TY_OK;
}

ty_err object_list(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct object_query query;
    struct object_page page = {0};
    ty_err err = query_parse(req, &query);
    if (err == TY_OK)
        err = objects_list(g->objects, req->arena, &query, &page);
    if (err != TY_OK)
        return answer_with(req, res, err);
    const char *base = link_base(req);
    struct ty_buf *b = &res->body;
    ty_buf_addz(b, "{\"kind\":\"storage#objects\"");
    for (size_t i = 0; i < page.prefix_count; i++) {
        ty_buf_addz(b, i == 0 ? ",\"prefixes\":[" : ",");
        wire_json_string(b, page.prefixes[i]);
    }
    ty_buf_addz(b, page.prefix_count > 0 ? "]" : "");
    for (size_t i = 0; i < page.item_count; i++) {
        ty_buf_addz(b, i == 0 ? ",\"items\":[" : ",");
        object_json(b, base, &page.items[i]);
    }
    ty_buf_addz(b, page.item_count > 0 ? "]" : "");
    if (page.next_token.len > 0)
        member_str(b, "nextPageToken", page.next_token);
    ty_buf_addc(b, '}');
    return answer_with(req, res, fields_apply(req, res));
}
