/* operation.c -- long-running operations. All of ours are done when they are made (a delete is one
 * commit), so wait answers at once and cancel has nothing to do. They are kept by location and
 * number; the resource some clients put between the two is read over. */
#include "vertex/vertex_int.h"

/* The operation's number is the last capture: after project and location, or after the resource
 * too. */
static ty_err operation_read(struct http_request *req, struct http_response *res, int64_t *ret_id)
{
    return vertex_id_read(req, res, req->capture[4].len > 0 ? 4 : 2, "operation", ret_id);
}

static ty_err operation_find(struct http_request *req, struct http_response *res, struct vertex *v,
                             struct operation *ret_op)
{
    int64_t id;
    ty_err err = operation_read(req, res, &id);
    if (err == TY_OK)
        err =
            store_operation_get(v->store, req->arena, req->capture[0], req->capture[1], id, ret_op);
    return err;
}

ty_err operation_get(struct http_request *req, struct http_response *res, void *ctx)
{
    struct operation op;
    ty_err err = operation_find(req, res, ctx, &op);
    if (err == TY_OK)
        vertex_operation_json(&res->body, &op);
    return err;
}

ty_err operation_wait(struct http_request *req, struct http_response *res, void *ctx)
{
    return operation_get(req, res, ctx);
}

ty_err operation_cancel(struct http_request *req, struct http_response *res, void *ctx)
{
    struct operation op;
    ty_err err = operation_find(req, res, ctx, &op);
    if (err == TY_OK)
        ty_buf_addz(&res->body, "{}");
    return err;
}

ty_err operation_delete(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    int64_t id;
    ty_err err = operation_read(req, res, &id);
    if (err == TY_OK)
        err = store_operation_delete(v->store, req->capture[0], req->capture[1], id);
    if (err == TY_OK)
        ty_buf_addz(&res->body, "{}");
    return err;
}

ty_err operation_list(struct http_request *req, struct http_response *res, void *ctx)
{
    struct vertex *v = ctx;
    struct vertex_page page;
    struct operation *ops;
    size_t count;
    ty_err err = vertex_parent_check(req, res);
    if (err == TY_OK)
        err = vertex_page_read(req, res, &page);
    if (err == TY_OK && http_query(req, "filter").len > 0)
        err = vertex_fail_field(req, res, "filter",
                                "operations cannot be filtered here; all of them are done");
    if (err != TY_OK)
        return err;
    if (page.size >= STORE_OPERATION_PAGE)
        page.size = STORE_OPERATION_PAGE - 1;
    /* one more than asked for tells whether there is a next page */
    err = store_operation_list(v->store, req->arena, req->capture[0], req->capture[1], page.before,
                               page.size + 1, &ops, &count);
    if (err != TY_OK)
        return err;

    size_t shown = count < page.size ? count : page.size;
    for (size_t i = 0; i < shown; i++) {
        ty_buf_addz(&res->body, i == 0 ? "{\"operations\":[" : ",");
        vertex_operation_json(&res->body, &ops[i]);
    }
    ty_buf_addz(&res->body, shown > 0 ? "]" : "{");
    if (count > shown)
        ty_buf_addf(&res->body, ",\"nextPageToken\":\"%" PRId64 "\"", ops[shown - 1].id);
    ty_buf_addc(&res->body, '}');
    return TY_OK;
}
