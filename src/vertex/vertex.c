/* vertex.c -- the route table, made from routes.def. */
#include "vertex/vertex_int.h"

static const struct http_route routes[] = {
#define ROUTE(method, path, handler) {HTTP_##method, path, handler},
#include "vertex/routes.def"
#undef ROUTE
};

/* gcloud's release track speaks /v1, its beta track and some of its pollers /v1beta1, and the
 * Python REST client polls operations under /ui: all are one API here. */
static const char *const prefixes[] = {"/v1", "/v1beta1", "/ui", NULL};

struct http_routes vertex_routes(struct vertex *v)
{
    return (struct http_routes){
        .rows = routes, .count = TY_COUNT(routes), .prefixes = prefixes, .ctx = v};
}
