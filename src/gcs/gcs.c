/* gcs.c -- the route tables, made from routes.def, and the answer to methods that are not here. */
#include "gcs/gcs_int.h"

#define ROW(method, path, handler) {HTTP_##method, path, handler},
#define NO_ROW(method, path, handler)

static const struct http_route plain[] = {
#define ROUTE  ROW
#define UPLOAD NO_ROW
#define LAST   NO_ROW
#include "gcs/routes.def"
#undef ROUTE
#undef UPLOAD
};

static const struct http_route uploads[] = {
#define ROUTE  NO_ROW
#define UPLOAD ROW
#include "gcs/routes.def"
#undef UPLOAD
#undef LAST
};

static const struct http_route last[] = {
#define UPLOAD NO_ROW
#define LAST   ROW
#include "gcs/routes.def"
#undef ROUTE
#undef UPLOAD
#undef LAST
};

void gcs_routes(struct gcs *g, struct http_routes ret_tables[GCS_TABLES])
{
    ret_tables[0] = (struct http_routes){
        .rows = plain, .count = TY_COUNT(plain), .ctx = g, .now = download_now};
    ret_tables[1] = (struct http_routes){
        .rows = uploads, .count = TY_COUNT(uploads), .ctx = g, .body = upload_body};
    ret_tables[2] =
        (struct http_routes){.rows = last, .count = TY_COUNT(last), .ctx = g, .last = true};
}

ty_err method_missing(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    int shown = req->path.len > 512 ? 512 : (int)req->path.len;
    return answer_with(
        req, res,
        ty_fail(TY_UNIMPLEMENTED,
                "'%.*s' is no method of Cloud Storage that Trainyard has: there are buckets, "
                "objects, uploads, bucket IAM policies and batches, but no ACLs, notifications, "
                "HMAC keys, folders to write, anywhere caches or object IAM",
                shown, req->path.ptr));
}
