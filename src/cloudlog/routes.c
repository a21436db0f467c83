/* routes.c -- the two routes. To add one: a row here, its handler, and a line in docs/compat.md. */
#include "cloudlog/cloudlog_int.h"

static const struct http_route rows[] = {
    {HTTP_POST, "/v2/entries:list", cloudlog_list},
    {HTTP_GET, "/trainyard/v1/projects/{project}/jobs/{job}/log", cloudlog_tail},
};

struct http_routes cloudlog_routes(struct cloudlog *c)
{
    return (struct http_routes){.rows = rows, .count = TY_COUNT(rows), .ctx = c};
}
