/* test_http.c -- the parts that need no socket: router, targets and queries, the reply parser. */
#include "base/test.h"
#include "http/http_int.h"

/* ---- router ---- */

static ty_err handler_a(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)res;
    (void)ctx;
    return TY_OK;
}
static ty_err handler_b(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)res;
    (void)ctx;
    return TY_ABORTED;
}

static const struct http_route rows[] = {
    {HTTP_GET, "/projects/{project}/jobs/{job}", handler_a},
    {HTTP_DELETE, "/projects/{project}/jobs/{job}", handler_a},
    {HTTP_GET, "/projects/{project}/jobs/{job}:check", handler_b},
    {HTTP_POST, "/projects/{project}/jobs/{job}:cancel", handler_b},
    {HTTP_GET, "/projects/{project}/jobs/latest", handler_b},
    {HTTP_GET, "/projects/{project}/{kind}/latest", handler_a},
    {HTTP_POST, "/entries:list", handler_a},
    {HTTP_GET, "/b/{bucket}/o/{object...}", handler_a},
    {HTTP_GET, "/b/{bucket}/o", handler_b},
    {HTTP_GET, "/", handler_a},
};
static int context;

struct routed {
    struct ty_arena arena;
    struct http_request req;
    struct http_router *router;
    http_handler handler;
    void *ctx;
};

static void routed_init(struct routed *t, const char *const *prefixes)
{
    *t = (struct routed){0};
    t->req.arena = &t->arena;
    struct http_routes table = {
        .rows = rows, .count = TY_COUNT(rows), .prefixes = prefixes, .ctx = &context};
    assert_ok(http_router_new(&table, 1, &t->router));
}

static ty_err route(struct routed *t, enum http_method method, const char *path)
{
    t->req.method = method;
    t->req.path = ty_str_of(path);
    t->req.route = NULL;
    memset(t->req.capture, 0, sizeof(t->req.capture));
    return http_router_match(t->router, &t->req, &t->handler, &t->ctx);
}

static void routed_clear(struct routed *t)
{
    http_router_free(t->router);
    ty_arena_clear(&t->arena);
}

#define assert_str(s_, text_)                                                                      \
    do {                                                                                           \
        ty_str have_ = (s_);                                                                       \
        assert_int_equal(have_.len, strlen(text_));                                                \
        assert_memory_equal(have_.ptr, text_, have_.len);                                          \
    } while (0)

static void router_captures(void **state)
{
    (void)state;
    struct routed t;
    routed_init(&t, NULL);
    assert_ok(route(&t, HTTP_GET, "/projects/p%20one/jobs/17"));
    assert_str(t.req.capture[0], "p one");
    assert_str(t.req.capture[1], "17");
    assert_ptr_equal(t.handler, handler_a);
    assert_ptr_equal(t.ctx, &context);
    assert_ptr_equal(t.req.route, &rows[0]);
    assert_ok(route(&t, HTTP_GET, "/"));
    assert_ptr_equal(t.req.route, &rows[9]);
    routed_clear(&t);
}

static void router_prefixes(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"/v1", "/v1beta1", "/ui", NULL};
    struct routed t;
    routed_init(&t, prefixes);
    assert_ok(route(&t, HTTP_GET, "/v1/projects/p/jobs/1"));
    assert_ok(route(&t, HTTP_GET, "/v1beta1/projects/p/jobs/1"));
    assert_ok(route(&t, HTTP_POST, "/ui/entries:list"));
    assert_err(TY_NOT_FOUND, route(&t, HTTP_GET, "/projects/p/jobs/1"));
    assert_err(TY_NOT_FOUND, route(&t, HTTP_GET, "/v2/projects/p/jobs/1"));
    routed_clear(&t);
}

static void router_literal_beats_capture(void **state)
{
    (void)state;
    struct routed t;
    routed_init(&t, NULL);
    assert_ok(route(&t, HTTP_GET, "/projects/p/jobs/latest"));
    assert_ptr_equal(t.req.route, &rows[4]);
    assert_ok(route(&t, HTTP_GET, "/projects/p/models/latest"));
    assert_ptr_equal(t.req.route, &rows[5]);
    assert_ok(route(&t, HTTP_GET, "/projects/p/jobs/later"));
    assert_ptr_equal(t.req.route, &rows[0]);
    routed_clear(&t);
}

static void router_verb_beats_plain(void **state)
{
    (void)state;
    struct routed t;
    routed_init(&t, NULL);
    assert_ok(route(&t, HTTP_GET, "/projects/p/jobs/17:check"));
    assert_ptr_equal(t.req.route, &rows[2]);
    assert_str(t.req.capture[1], "17");
    assert_ok(route(&t, HTTP_GET, "/projects/p/jobs/17:other"));
    assert_ptr_equal(t.req.route, &rows[0]);
    assert_str(t.req.capture[1], "17:other");
    assert_ok(route(&t, HTTP_GET, "/projects/p/jobs/17%3Acheck"));
    assert_ptr_equal(t.req.route, &rows[0]);
    routed_clear(&t);
}

static void router_encoded_slash_stays_in_its_segment(void **state)
{
    (void)state;
    struct routed t;
    routed_init(&t, NULL);
    assert_ok(route(&t, HTTP_GET, "/projects/a%2Fb/jobs/x%2F..%2Fy"));
    assert_str(t.req.capture[0], "a/b");
    assert_str(t.req.capture[1], "x/../y");
    routed_clear(&t);
}

static void router_rest_is_raw(void **state)
{
    (void)state;
    struct routed t;
    routed_init(&t, NULL);
    assert_ok(route(&t, HTTP_GET, "/b/my%2Dbucket/o/a/b%2Fc//d"));
    assert_str(t.req.capture[0], "my-bucket");
    assert_str(t.req.capture[1], "a/b%2Fc//d");
    assert_ok(route(&t, HTTP_GET, "/b/x/o/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20"));
    assert_str(t.req.capture[1], "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20");
    assert_err(TY_NOT_FOUND, route(&t, HTTP_GET, "/b/x/o/"));
    assert_ok(route(&t, HTTP_GET, "/b/x/o"));
    assert_ptr_equal(t.handler, handler_b);
    routed_clear(&t);
}

static void router_refuses(void **state)
{
    (void)state;
    struct routed t;
    routed_init(&t, NULL);
    assert_err(TY_NOT_FOUND, route(&t, HTTP_GET, "/nothing"));
    assert_string_equal(ty_err_message(), "no route for GET '/nothing'");
    static const char *const unknown[] = {
        "",
        "projects/p/jobs/1",
        "/projects//jobs/1",
        "/projects/p/jobs/",
        "/projects/p/jobs/1/",
        "//",
        "/projects/p/jobs",
        "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20",
    };
    for (size_t i = 0; i < TY_COUNT(unknown); i++)
        assert_err(TY_NOT_FOUND, route(&t, HTTP_GET, unknown[i]));
    assert_err(TY_UNIMPLEMENTED,
               route(&t, HTTP_POST, "/projects/p/jobs/:cancel")); /* only a {job} of GET */
    assert_err(TY_UNIMPLEMENTED, route(&t, HTTP_PUT, "/projects/p/jobs/1"));
    assert_err(TY_INVALID_ARGUMENT, route(&t, HTTP_GET, "/projects/p/jobs/a%00b"));
    assert_err(TY_INVALID_ARGUMENT, route(&t, HTTP_GET, "/projects/p/jobs/a%zz"));
    assert_err(TY_INVALID_ARGUMENT, route(&t, HTTP_GET, "/projects/p/jobs/a%2"));
    assert_null(t.req.route);
    routed_clear(&t);
}

static void router_allow_lists_methods(void **state)
{
    (void)state;
    struct routed t;
    routed_init(&t, NULL);
    struct ty_buf b;
    ty_buf_init(&b, 256);
    router_allow(t.router, TY_STR("/projects/p/jobs/1"), &b);
    assert_str(ty_buf_str(&b), "GET, DELETE, HEAD");
    ty_buf_clear(&b);
    router_allow(t.router, TY_STR("/nothing"), &b);
    assert_int_equal(b.len, 0);
    assert_ok(route(&t, HTTP_HEAD, "/projects/p/jobs/1"));
    ty_buf_clear(&b);
    routed_clear(&t);
}

static void router_bad_templates(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "v1/x",
        "/a/{b",
        "/a/x{b}",
        "/a/{b}c",
        "/a/{b...}/c",
        "/a/{b}:v/c",
        "/a/{b}:",
        "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}",
        "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17",
    };
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        struct http_route row = {HTTP_GET, bad[i], handler_a};
        struct http_routes table = {.rows = &row, .count = 1};
        struct http_router *r = NULL;
        assert_err(TY_INVALID_ARGUMENT, http_router_new(&table, 1, &r));
        assert_null(r);
    }
    struct http_route twice[] = {{HTTP_GET, "/a/{b}", handler_a},
                                 {HTTP_GET, "/a/{other}", handler_b}};
    struct http_routes table = {.rows = twice, .count = 2};
    struct http_router *r = NULL;
    assert_err(TY_INVALID_ARGUMENT, http_router_new(&table, 1, &r));
    assert_non_null(strstr(ty_err_message(), "two routes for GET"));
}

/* ---- targets ---- */

static void target_splits_and_decodes(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct http_request req = {.arena = &a};
    assert_ok(target_parse(
        &req, TY_STR("/v1/a%2Fb?pageSize=10&filter=a+b%3D%22c%22&flag&&x=1=2&page_token=t")));
    assert_str(req.path, "/v1/a%2Fb");
    assert_str(http_query(&req, "filter"), "a b=\"c\"");
    assert_str(http_query(&req, "flag"), "");
    assert_str(http_query(&req, "x"), "1=2");
    assert_str(http_query(&req, "pageToken"), "t");
    assert_str(http_query(&req, "page_size"), "10");
    int64_t n = 0;
    assert_ok(http_query_i64(&req, "pageSize", 5, &n));
    assert_int_equal(n, 10);
    assert_ok(http_query_i64(&req, "absent", 5, &n));
    assert_int_equal(n, 5);
    assert_err(TY_INVALID_ARGUMENT, http_query_i64(&req, "x", 5, &n));
    assert_string_equal(ty_err_message(), "x: '1=2' is not a whole number");
    ty_arena_clear(&a);
}

static void target_for_a_proxy(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"http://127.0.0.1:7575/v1/a?b=c", "127.0.0.1:7575", "/v1/a?b=c"},
        {"HTTP://us-central1-127.0.0.1:7575/v1", "127.0.0.1:7575", "/v1"},
        {"http://northamerica-northeast1-localhost/", "localhost", "/"},
        {"http://localhost", "localhost", "/"},
        {"http://localhost?x=1", NULL, "http://localhost?x=1"},
        {"http://e-/1", "e-", "/1"},
        {"http://evil.example/x", "evil.example", "/x"},
        {"http://evil.example-127.0.0.1/x", "evil.example-127.0.0.1", "/x"},
        {"http://a@us-127.0.0.1/x", "a@us-127.0.0.1", "/x"},
        {"http://-127.0.0.1/x", "-127.0.0.1", "/x"},
        {"http:///x", NULL, "http:///x"},
        {"/http://x", NULL, "/http://x"},
        {"https://localhost/x", NULL, "https://localhost/x"},
        {"", NULL, ""},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        ty_str target = ty_str_of(cases[i][0]), host = {0};
        assert_int_equal(target_host_take(&target, &host), cases[i][1] != NULL);
        assert_true(ty_str_is(target, cases[i][2]));
        assert_true(cases[i][1] == NULL || ty_str_is(host, cases[i][1]));
    }
}

static void target_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {"",       "*",        "http://x/", "/a b",
                                      "/a\x01", "/a?b=%zz", "/a?%00=1",  "/a\x7f"};
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        struct ty_arena a = {0};
        struct http_request req = {.arena = &a};
        assert_err(TY_INVALID_ARGUMENT, target_parse(&req, ty_str_of(bad[i])));
        ty_arena_clear(&a);
    }
    struct ty_arena a = {0};
    struct http_request req = {.arena = &a};
    char *many = ty_alloc(&a, 4096);
    memset(many, 'a', 4000);
    many[0] = '/';
    many[1] = '?';
    for (size_t i = 2; i < 2 + 2 * 257; i += 2)
        many[i] = '&';
    assert_err(TY_INVALID_ARGUMENT, target_parse(&req, ty_str_of(many)));
    char *longer = ty_alloc(&a, HTTP_URI_BYTES + 2);
    memset(longer, '/', HTTP_URI_BYTES + 1);
    assert_err(TY_INVALID_ARGUMENT, target_parse(&req, ty_str_of(longer)));
    ty_arena_clear(&a);
}

/* ---- replies ---- */

/* Feed `text` in pieces of `piece` bytes. */
static ty_err feed(struct reply_parser *p, ty_str text, size_t piece, size_t *ret_left)
{
    size_t start = 0, end = 0;
    while (end < text.len && p->state != REPLY_DONE) {
        end = end + piece < text.len ? end + piece : text.len;
        size_t used = 0;
        ty_err err = reply_parser_feed(p, (ty_str){text.ptr + start, end - start}, &used);
        if (err != TY_OK)
            return err;
        start += used;
    }
    *ret_left = text.len - start;
    return TY_OK;
}

static void check_reply(const char *text, bool head, int status, const char *body, bool keep,
                        size_t left)
{
    for (size_t piece = 1; piece <= strlen(text); piece += piece < 8 ? 1 : 1000) {
        struct reply_parser p;
        size_t over = 0;
        reply_parser_init(&p, head);
        assert_ok(feed(&p, ty_str_of(text), piece, &over));
        assert_ok(reply_parser_eof(&p));
        assert_int_equal(p.status, status);
        assert_str(ty_buf_str(&p.body), body);
        assert_int_equal(p.keep_alive, keep);
        if (piece > strlen(text) - left)
            assert_int_equal(over, left);
        reply_parser_clear(&p);
    }
}

static void reply_framings(void **state)
{
    (void)state;
    check_reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", true, 0);
    check_reply("HTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhelloHTTP/1.1", false, 200, "hello",
                true, 8);
    check_reply("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false,
                404, "", false, 0);
    check_reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n, "
                "world!!!\r\n0\r\nT: "
                "1\r\n\r\n",
                false, 200, "hello, world!!!", true, 0);
    check_reply("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 \r\nContent-Length: 2\r\n\r\nok", false,
                201, "ok", true, 0);
    check_reply("HTTP/1.1 204 No Content\r\n\r\n", false, 204, "", true, 0);
    check_reply("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", true, 200, "", true, 0);
    check_reply("HTTP/1.0 200 OK\n\nuntil the end", false, 200, "until the end", false, 0);
}

static void reply_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    };
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        struct reply_parser p;
        size_t left;
        reply_parser_init(&p, false);
        assert_err(TY_DATA_LOSS, feed(&p, ty_str_of(bad[i]), 3, &left));
        reply_parser_clear(&p);
    }
}

static void reply_has_ceilings(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    ty_buf_addz(&b, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 5000; i++)
        ty_buf_addf(&b, "X-Header-%d: some value\r\n", i);
    struct reply_parser p;
    size_t left;
    reply_parser_init(&p, false);
    assert_err(TY_RESOURCE_EXHAUSTED, feed(&p, ty_buf_str(&b), 4096, &left));
    reply_parser_clear(&p);

    reply_parser_init(&p, false);
    ty_str large = TY_STR("HTTP/1.1 200 OK\r\nContent-Length: 67108865\r\n\r\n");
    assert_err(TY_RESOURCE_EXHAUSTED, feed(&p, large, 4096, &left));
    reply_parser_clear(&p);

    reply_parser_init(&p, false);
    ty_str chunk = TY_STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n");
    assert_err(TY_RESOURCE_EXHAUSTED, feed(&p, chunk, 4096, &left));
    reply_parser_clear(&p);
    ty_buf_clear(&b);
}

/* What an exchange gets of a reply. */
struct seen {
    int64_t bytes;
    int headers;
    ty_err answer;
};

static void see_header(void *arg, ty_str name, ty_str value)
{
    (void)name;
    ((struct seen *)arg)->headers += value.len > 0;
}

static ty_err see_bytes(void *arg, ty_str bytes)
{
    struct seen *s = arg;
    s->bytes += (int64_t)bytes.len;
    return s->answer;
}

/* A body that goes elsewhere has no ceiling; an error's body is kept; what the taker says ends it.
 */
static void reply_in_pieces(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct reply_parser p;
    size_t left;
    reply_parser_init(&p, false);
    p.header = see_header;
    p.sink = see_bytes;
    p.header_arg = p.sink_arg = &seen;
    assert_ok(feed(&p,
                   TY_STR("HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 99999999999\r\n\r\nabc"), 7,
                   &left));
    assert_int_equal(seen.bytes, 3);
    assert_int_equal(seen.headers, 2);
    assert_int_equal(p.body.len, 0);
    seen.answer = TY_CANCELLED;
    assert_err(TY_CANCELLED, feed(&p, TY_STR("def"), 3, &left));
    reply_parser_clear(&p);

    reply_parser_init(&p, false);
    p.sink = see_bytes;
    p.sink_arg = &seen;
    assert_ok(feed(&p, TY_STR("HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nabc"), 5, &left));
    assert_str(ty_buf_str(&p.body), "abc");
    reply_parser_clear(&p);
}

static void reply_cut_short(void **state)
{
    (void)state;
    struct reply_parser p;
    size_t left;
    reply_parser_init(&p, false);
    assert_ok(feed(&p, TY_STR("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), 4096, &left));
    assert_err(TY_UNAVAILABLE, reply_parser_eof(&p));
    reply_parser_clear(&p);
}

static void reply_fail_takes_the_servers_words(void **state)
{
    (void)state;
    struct http_reply r = {.status = 409,
                           .body = TY_STR("{\"error\":{\"code\":409,\"message\":\"job 'x' "
                                          "exists\",\"status\":\"ALREADY_EXISTS\"}}")};
    assert_err(TY_ALREADY_EXISTS, http_reply_fail(&r));
    assert_string_equal(ty_err_message(), "job 'x' exists");
    r = (struct http_reply){.status = 503, .body = TY_STR("<html>busy</html>")};
    assert_err(TY_UNAVAILABLE, http_reply_fail(&r));
    assert_string_equal(ty_err_message(), "the server answered with status 503: <html>busy</html>");
    r = (struct http_reply){.status = 404, .body = TY_STR("{\"error\":{\"status\":\"OK\"}}")};
    assert_err(TY_NOT_FOUND, http_reply_fail(&r));
    r = (struct http_reply){.status = 418, .body = TY_STR("[1]")};
    assert_err(TY_INVALID_ARGUMENT, http_reply_fail(&r));
}

static void client_urls(void **state)
{
    (void)state;
    static const char *const good[] = {"http://127.0.0.1:7575", "http://localhost:1/",
                                       "http://[::1]:80", "unix:/x/y"};
    static const char *const bad[] = {"https://127.0.0.1:1",
                                      "http://10.0.0.1:80",
                                      "http://example.com:80",
                                      "http://127.0.0.1",
                                      "http://127.0.0.1:70000",
                                      "ftp://localhost:1",
                                      "unix:",
                                      "http://127.0.0.1.x.org:1",
                                      ""};
    for (size_t i = 0; i < TY_COUNT(good); i++) {
        struct http_client c;
        assert_ok(http_client_open(&c, good[i]));
        http_client_close(&c);
    }
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        struct http_client c;
        assert_err(TY_INVALID_ARGUMENT, http_client_open(&c, bad[i]));
    }
}

static const struct CMUnitTest tests[] = {
    TEST("router/captures", router_captures),
    TEST("router/prefixes", router_prefixes),
    TEST("router/literal_beats_capture", router_literal_beats_capture),
    TEST("router/verb_beats_plain", router_verb_beats_plain),
    TEST("router/encoded_slash_stays_in_its_segment", router_encoded_slash_stays_in_its_segment),
    TEST("router/rest_is_raw", router_rest_is_raw),
    TEST("router/refuses", router_refuses),
    TEST("router/allow_lists_methods", router_allow_lists_methods),
    TEST("router/bad_templates", router_bad_templates),
    TEST("target/splits_and_decodes", target_splits_and_decodes),
    TEST("target/for_a_proxy", target_for_a_proxy),
    TEST("target/refuses", target_refuses),
    TEST("reply/framings", reply_framings),
    TEST("reply/refuses", reply_refuses),
    TEST("reply/has_ceilings", reply_has_ceilings),
    TEST("reply/in_pieces", reply_in_pieces),
    TEST("reply/cut_short", reply_cut_short),
    TEST("reply/fail_takes_the_servers_words", reply_fail_takes_the_servers_words),
    TEST("client/urls", client_urls),
};
TEST_MAIN("http", tests)
