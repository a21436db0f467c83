/* ml.c -- the route table, made from routes.def; the project's configuration; operations. */
#include "ml/ml_int.h"

#include "identity/identity.h"

static const struct http_route routes[] = {
#define ROUTE(method, path, handler) {HTTP_##method, path, handler},
#include "ml/routes.def"
#undef ROUTE
};

static const char *const prefixes[] = {"/v1", NULL};

struct http_routes ml_routes(struct vertex *v)
{
    return (struct http_routes){
        .rows = routes, .count = TY_COUNT(routes), .prefixes = prefixes, .ctx = v};
}

/* Who a job's programs are to Google's other services; here that is nobody in particular. */
ty_err ml_config_get(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    ty_err err = vertex_project_check(req, res);
    if (err != TY_OK)
        return err;
    ty_str project = req->capture[0];
    int64_t number = identity_project_number(project);
    ty_buf_addf(&res->body,
                "{\"serviceAccount\":\"trainyard@" TY_STR_FMT ".iam.gserviceaccount.com\","
                "\"serviceAccountProject\":\"%" PRId64 "\","
                "\"config\":{\"tpuServiceAccount\":\"trainyard@" TY_STR_FMT
                ".iam.gserviceaccount.com\"}}",
                TY_STR_ARG(project), number, TY_STR_ARG(project));
    return TY_OK;
}

/* Calls on jobs are done when they are answered, so this API never has an operation. */
ty_err ml_operation_list(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    ty_err err = vertex_project_check(req, res);
    if (err == TY_OK)
        ty_buf_addz(&res->body, "{}");
    return err;
}

ty_err ml_operation_get(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    ty_err err = vertex_project_check(req, res);
    if (err != TY_OK)
        return err;
    return ty_fail(
        TY_NOT_FOUND,
        "operation 'projects/" TY_STR_FMT
        "/operations/%.*s' does not exist: calls on jobs are done when they are answered",
        TY_STR_ARG(req->capture[0]), (int)(req->capture[1].len < 128 ? req->capture[1].len : 128),
        req->capture[1].ptr);
}
