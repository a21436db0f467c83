/* gcs.h -- Cloud Storage's JSON API over HTTP, and what clients use of its XML paths.
 *
 * Where to start: routes.def (one row a route); json.c (what a client is told about a bucket or an
 * object); upload.c and download.c, where bytes go through. What exists, and where its bytes are,
 * is objects'. A method that is not here is answered with 501 and a sentence.
 *
 * Who frees: requests own everything; an upload in progress is ended when its request is over.
 * Threads: handlers run on the server's workers; bytes of a download are read on the event loop
 * where that does not block. Memory: an upload holds at most http's two buffers, a download one
 * piece; metadata, batches and pages have ceilings.
 * Errors: Google's storage errors: {"error":{"code","message","errors":[{"reason"}],"status"}}, 412
 * and 304 for conditions, 409 for what is there or not empty, 416 for ranges.
 * One test: build/test_gcs multipart/single_quotes. */
#ifndef TY_GCS_H
#define TY_GCS_H

#include "base/base.h"
#include "http/http.h"
#include "objects/objects.h"

/* What handlers work with; outlives the server. */
struct gcs {
    struct objects *objects;
    const struct http_router *router; /* set once it is built: a batch's calls go through it */
    /* May this request write, change or delete the object? TY_PERMISSION_DENIED with a sentence.
     * NULL: yes. On a worker. */
    ty_err (*may_change)(void *ctx, const struct http_request *req, ty_str bucket, ty_str name);
    void *may_change_ctx;
};
enum { GCS_TABLES = 3 };
/* The tables for http_router_new: plain calls, uploads, and paths that nobody else serves. */
void gcs_routes(struct gcs *g, struct http_routes ret_tables[GCS_TABLES]);

#endif
