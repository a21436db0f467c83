/* fuzz_http.c -- bytes a client or a server could send: request targets, routes, headers, replies.
 *
 * The first byte picks: an even one is a method and a request target, routed
 * and decoded; an odd one is a reply, fed to the client's parser in two pieces
 * cut at a place that the second byte picks. The outcome must not depend on
 * that cut. */
#include "http/http_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ty_err handler(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)res;
    (void)ctx;
    return TY_OK;
}

static struct http_router *router(void)
{
    static const struct http_route rows[] = {
        {HTTP_GET, "/projects/{project}/locations/{location}/customJobs", handler},
        {HTTP_POST, "/projects/{project}/locations/{location}/customJobs/{job}:cancel", handler},
        {HTTP_GET, "/projects/{project}/locations/{location}/customJobs/{job}", handler},
        {HTTP_GET, "/b/{bucket}/o/{object...}", handler},
        {HTTP_POST, "/entries:list", handler},
        {HTTP_GET, "/", handler},
    };
    static const char *const prefixes[] = {"/v1", "", NULL};
    static struct http_router *r;
    const struct http_routes table = {.rows = rows, .count = TY_COUNT(rows), .prefixes = prefixes};
    if (!r)
        ty_assert(http_router_new(&table, 1, &r) == TY_OK);
    return r;
}

static void fuzz_target(int method, ty_str target)
{
    struct ty_arena a = {0};
    struct http_request req = {.arena = &a, .method = (enum http_method)(method % (HTTP_HEAD + 1))};
    ty_str host = {0};
    if (target_host_take(&target, &host))
        ty_assert(host.len > 0 && target.len > 0 && target.ptr[0] == '/');
    if (target_parse(&req, target) == TY_OK) {
        http_handler found = NULL;
        void *ctx;
        int64_t n;
        if (http_router_match(router(), &req, &found, &ctx) == TY_OK)
            ty_assert(found == handler && req.route != NULL);
        if (http_query_i64(&req, "pageSize", 7, &n) != TY_OK)
            ty_assert(http_query(&req, "pageSize").len != 0);
    }
    ty_arena_clear(&a);
}

/* Feed the first `cut` bytes, then all; returns the outcome. */
static ty_err feed(struct reply_parser *p, ty_str bytes, size_t cut)
{
    size_t used = 0, more = 0;
    ty_err err = reply_parser_feed(p, (ty_str){bytes.ptr, cut}, &used);
    if (err == TY_OK)
        err = reply_parser_feed(p, ty_str_drop(bytes, used), &more);
    return err == TY_OK ? reply_parser_eof(p) : err;
}

static void fuzz_reply(bool head, uint8_t cut, ty_str bytes)
{
    struct reply_parser whole, parts;
    reply_parser_init(&whole, head);
    reply_parser_init(&parts, head);
    ty_err a = feed(&whole, bytes, bytes.len);
    ty_err b = feed(&parts, bytes, bytes.len * cut / 256);
    ty_assert(a == b && whole.status == parts.status && whole.state == parts.state);
    ty_assert(ty_str_eq(ty_buf_str(&whole.body), ty_buf_str(&parts.body)));
    if (a == TY_OK) {
        struct ty_arena arena = {0};
        struct http_reply reply = {whole.status, ty_str_dup(&arena, ty_buf_str(&whole.body))};
        ty_assert(http_reply_fail(&reply) != TY_OK || reply.status < 400);
        ty_arena_clear(&arena);
    }
    reply_parser_clear(&whole);
    reply_parser_clear(&parts);
}

/* The headers of a stranger. What is found lies inside them, and does not change with more bytes.
 */
static void fuzz_head(ty_str bytes)
{
    ty_str token, shorter;
    bool whole = head_token(bytes, &token);
    if (whole && token.len != 0)
        ty_assert(token.ptr >= bytes.ptr && token.ptr + token.len <= bytes.ptr + bytes.len);
    for (size_t n = 0; n < bytes.len && n < 64; n++)
        if (head_token((ty_str){bytes.ptr, n}, &shorter))
            ty_assert(whole && ty_str_eq(token, shorter));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    ty_str rest = {(const char *)data + 2, size - 2};
    fuzz_head(rest);
    if (data[0] % 2 == 0)
        fuzz_target(data[1], rest);
    else
        fuzz_reply(data[0] & 2, data[1], rest);
    return 0;
}
