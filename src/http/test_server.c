/* test_server.c -- a live server, mostly spoken to with raw sockets: what no well-behaved client
 * sends. */
#define TY_SEAM
#include "base/test.h"
#include "http/http_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>

enum { NOBODY = 65534, REQUEST_LIMIT = 65536, HEADER_MS = 200, IDLE_MS = 200 };

static struct {
    char dir[64], socket[128];
    struct ty_arena arena;
    struct ty_config config;
    struct http_router *router;
    struct http_server *server;
    int port;
} yard;
static atomic_int echo_runs, park_runs, park_open, slow_running;

/* ---- handlers ---- */

static ty_err echo(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    echo_runs++;
    ty_buf_addf(&res->body, "[%.*s][%.*s]%zu:", TY_STR_ARG(req->capture[0]),
                TY_STR_ARG(http_query(req, "q")), req->body.len);
    ty_buf_adds(&res->body, req->body);
    return TY_OK;
}

static ty_err nothing(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)ctx;
    res->header_name = "Metadata-Flavor";
    res->header_value = "Google";
    return TY_OK;
}

static ty_err failing(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    ty_buf_addz(&res->body, "half an answer");
    res->error_details = TY_STR("[{\"@type\":\"x\"}]");
    if (ty_str_is(req->capture[0], "internal"))
        return ty_fail(TY_UNAVAILABLE, "on purpose");
    return ty_fail(TY_NOT_FOUND, "no \"%.*s\" here", TY_STR_ARG(req->capture[0]));
}

static ty_err parking(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    park_runs++;
    int64_t limit_ms;
    ty_err err = http_query_i64(req, "limit", 60000, &limit_ms);
    if (err != TY_OK)
        return err;
    if (!park_open && req->waited_ms < limit_ms)
        return http_park(req, limit_ms - req->waited_ms);
    ty_buf_addz(&res->body, park_open ? "open" : "timed out");
    return TY_OK;
}

/* What it waits for comes true after it looked and before it is parked. */
static ty_err racing(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    static atomic_int runs;
    if (runs++ == 0) {
        http_server_wake(yard.server);
        return http_park(req, 60000);
    }
    ty_buf_addz(&res->body, "woken");
    return TY_OK;
}

static ty_err slow(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)ctx;
    slow_running++;
    usleep(300 * 1000);
    ty_buf_addz(&res->body, "slow");
    return TY_OK;
}

static ty_err large(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)ctx;
    for (int i = 0; i < 1 << 16; i++)
        ty_buf_addz(&res->body, "0123456789abcdef0123456789abcdef");
    return TY_OK;
}

static const struct http_route rows[] = {
    {HTTP_GET, "/echo/{name}", echo}, {HTTP_POST, "/echo/{name}", echo},
    {HTTP_GET, "/nothing", nothing},  {HTTP_GET, "/fail/{what}", failing},
    {HTTP_GET, "/park", parking},     {HTTP_GET, "/slow", slow},
    {HTTP_GET, "/large", large},      {HTTP_GET, "/race", racing},
};

/* ---- handlers of bodies and answers in pieces ---- */

struct sink {
    int64_t bytes;
    uint32_t sum;
    int pieces;
};
static atomic_int sinks_open, sinks_ended, source_closed;
static atomic_llong sink_largest;

static void sink_end(void *state)
{
    free(state);
    sinks_open--;
    sinks_ended++;
}

static ty_err sink_body(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    struct sink *k = req->state;
    if (!k) {
        k = req->state = calloc(1, sizeof(*k));
        req->state_end = sink_end;
        sinks_open++;
    }
    for (size_t i = 0; i < req->body.len; i++)
        k->sum = k->sum * 31 + (unsigned char)req->body.ptr[i];
    k->bytes += (int64_t)req->body.len;
    k->pieces++;
    if ((long long)req->body.len > sink_largest)
        sink_largest = (long long)req->body.len;
    if (ty_str_is(req->capture[0], "slow"))
        usleep(2000);
    if (ty_str_is(req->capture[0], "fails") && k->bytes > 100000)
        return ty_fail(TY_ALREADY_EXISTS, "enough of it");
    if (ty_str_is(req->capture[0], "says") && k->bytes > 100000) {
        res->status = 412;
        ty_buf_addz(&res->body, "its own words");
    }
    return TY_OK;
}

static ty_err sink_done(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    const struct sink *k = req->state;
    ty_buf_addf(&res->body, "%" PRId64 " bytes, sum %u.", k ? k->bytes : 0, k ? k->sum : 0);
    http_header_add(req, res, "X-Seen", http_header(req, "x-sENT"));
    http_header_add(req, res, "X-Bad", TY_STR("a\r\nSet-Cookie: b"));
    http_header_add(req, res, "Cache-Control", TY_STR("private"));
    return TY_OK;
}

/* 1 MB of letters. "waits" is never ready at once, "fails" ends early, "long" has no size. */
enum { SOURCE_SIZE = 1 << 20 };
struct letters {
    char kind;
};

static int64_t letters_read(void *arg, int64_t offset, char *buf, size_t max, bool wait)
{
    char kind = ((struct letters *)arg)->kind;
    int64_t left = SOURCE_SIZE - offset;
    if (kind == 'w' && !wait)
        return HTTP_SOURCE_WAIT;
    if (kind == 'f' && offset > SOURCE_SIZE / 2)
        return HTTP_SOURCE_FAILED;
    size_t n = left < (int64_t)max ? (size_t)left : max;
    for (size_t i = 0; i < n; i++)
        buf[i] = (char)('a' + (offset + (int64_t)i) % 26);
    return (int64_t)n;
}

static void letters_close(void *arg)
{
    (void)arg;
    source_closed++;
}

static ty_err letters(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    struct letters *x = ty_new(req->arena, struct letters);
    x->kind = req->capture[0].ptr[0];
    res->content_type = "text/plain";
    res->source = (struct http_source){.size = x->kind == 'l' ? -1 : SOURCE_SIZE,
                                       .read = letters_read,
                                       .close = letters_close,
                                       .arg = x};
    return ty_str_is(req->capture[0], "error") ? ty_fail(TY_NOT_FOUND, "changed its mind") : TY_OK;
}

static ty_err anything(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    ty_buf_addf(&res->body, "last resort: %.*s", TY_STR_ARG(req->capture[1]));
    return TY_OK;
}

static const struct http_route letter_rows[] = {{HTTP_GET, "/letters/{kind}", letters}};
static const struct http_route sink_rows[] = {{HTTP_POST, "/sink/{kind}", sink_done}};
static const struct http_route last_rows[] = {{HTTP_GET, "/{first}/{rest...}", anything}};

static int yard_open(void **state)
{
    (void)state;
    snprintf(yard.dir, sizeof(yard.dir), "/tmp/test_http.XXXXXX");
    if (!mkdtemp(yard.dir))
        return -1;
    snprintf(yard.socket, sizeof(yard.socket), "%s/api.sock", yard.dir);
    ty_config_init(&yard.config, &yard.arena);
    yard.config.listen = (char *)"127.0.0.1:0";
    yard.config.request_bytes = REQUEST_LIMIT;
    yard.config.header_timeout_ms = HEADER_MS;
    yard.config.idle_timeout_ms = IDLE_MS;
    yard.config.workers = 3;
    struct http_routes tables[] = {
        {.rows = rows, .count = TY_COUNT(rows)},
        {.rows = letter_rows, .count = TY_COUNT(letter_rows)},
        {.rows = sink_rows, .count = TY_COUNT(sink_rows), .body = sink_body},
        {.rows = last_rows, .count = TY_COUNT(last_rows), .last = true},
    };
    if (http_router_new(tables, TY_COUNT(tables), &yard.router) != TY_OK ||
        http_server_start(&yard.config, yard.socket, yard.router, NULL, &yard.server) != TY_OK) {
        fprintf(stderr, "%s\n", ty_err_message());
        return -1;
    }
    yard.port = http_server_port(yard.server);
    return 0;
}

static int yard_close(void **state)
{
    (void)state;
    http_server_stop(yard.server);
    http_router_free(yard.router);
    ty_arena_clear(&yard.arena);
    return rmdir(yard.dir); /* the socket must be gone */
}

/* ---- raw sockets ---- */

static int dial_family(int family)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)yard.port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = in.sin_port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path, yard.socket, sizeof(un.sun_path));
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const void *addr = family == AF_INET    ? (void *)&in
                       : family == AF_INET6 ? (void *)&in6
                                            : (void *)&un;
    socklen_t len = family == AF_INET ? sizeof(in) : family == AF_INET6 ? sizeof(in6) : sizeof(un);
    if (connect(fd, addr, len) != 0) {
        close(fd);
        return -1;
    }
    struct timeval limit = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    return fd;
}

static int dial(void)
{
    int fd = dial_family(AF_INET);
    assert_true(fd >= 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static char heard[1 << 18];

/* All until the server closes (or 5 s have passed, which fails). */
static const char *hear(int fd)
{
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(fd, heard + n, sizeof(heard) - 1 - n, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            fail_msg("the server did not close; it said: %s", heard);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    heard[n] = '\0';
    return heard;
}

/* All until `end` has been seen. */
static const char *hear_until(int fd, const char *end)
{
    size_t n = 0;
    heard[0] = '\0';
    while (!strstr(heard, end)) {
        ssize_t got = recv(fd, heard + n, sizeof(heard) - 1 - n, 0);
        if (got <= 0)
            fail_msg("'%s' did not come; the server said: %s", end, heard);
        n += (size_t)got;
        heard[n] = '\0';
    }
    return heard;
}

/* One request on a new connection that asks to be closed, or is refused. */
static const char *ask(const char *request)
{
    int fd = dial();
    say(fd, request);
    const char *reply = hear(fd);
    close(fd);
    return reply;
}

static const char *ask_headers(const char *line, const char *headers)
{
    char request[4096];
    snprintf(request, sizeof(request), "%s HTTP/1.1\r\n%sConnection: close\r\n\r\n", line, headers);
    return ask(request);
}

/* These two are not inlined: gcc with UBSan then sees a NULL that cannot be. */
__attribute__((noinline)) static void assert_status(const char *reply, int status)
{
    char want[32];
    snprintf(want, sizeof(want), "HTTP/1.1 %d ", status);
    if (strncmp(reply, want, strlen(want)) != 0)
        fail_msg("expected status %d, got: %s", status, reply);
}

__attribute__((noinline)) static void assert_has(const char *reply, const char *part)
{
    if (!strstr(reply, part))
        fail_msg("'%s' is not in: %s", part, reply);
}

static struct http_stats stats(void)
{
    struct http_stats s;
    http_server_stats(yard.server, &s);
    return s;
}

#define HOST "Host: localhost\r\n"

/* ---- answers ---- */

static void serve_answers(void **state)
{
    (void)state;
    const char *reply = ask_headers("GET /echo/a%2Fb?q=x+y", HOST);
    assert_status(reply, 200);
    assert_has(reply, "[a/b][x y]0:");
    assert_has(reply, "Content-Type: application/json; charset=UTF-8\r\n");
    assert_has(reply, "X-Content-Type-Options: nosniff\r\n");
    assert_has(reply, "Cache-Control: no-store\r\n");
    assert_null(strcasestr(reply, "Access-Control"));
    reply = ask_headers("GET /nothing", HOST);
    assert_has(reply, "\r\n\r\n{}");
    assert_has(reply, "Metadata-Flavor: Google\r\n");
    reply = ask_headers("HEAD /nothing", HOST);
    assert_status(reply, 200);
    assert_string_equal(strstr(reply, "\r\n\r\n"), "\r\n\r\n");
}

static void serve_ipv6_and_unix(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat(yard.socket, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    int families[] = {AF_INET6, AF_UNIX};
    for (size_t i = 0; i < TY_COUNT(families); i++) {
        int fd = dial_family(families[i]);
        if (fd < 0 && families[i] == AF_INET6) {
            print_message("no IPv6 here: [::1] is not tested\n");
            continue;
        }
        say(fd, families[i] == AF_UNIX
                    ? "GET /echo/x HTTP/1.1\r\nHost: trainyard\r\nConnection: close\r\n\r\n"
                    : "GET /echo/x HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n");
        assert_has(hear(fd), "[x][]0:");
        close(fd);
    }
}

static void serve_errors(void **state)
{
    (void)state;
    const char *reply = ask_headers("GET /fail/thing", HOST);
    assert_status(reply, 404);
    assert_has(
        reply,
        "{\"error\":{\"code\":404,\"message\":\"no \\\"thing\\\" here\",\"status\":\"NOT_FOUND\","
        "\"details\":[{\"@type\":\"x\"},{\"@type\":\"type.googleapis.com/google.rpc.RequestInfo\","
        "\"requestId\":\"");
    assert_null(strstr(reply, "half an answer"));
    reply = ask_headers("GET /fail/internal", HOST);
    assert_status(reply, 503);
    reply = ask_headers("GET /nosuch", HOST);
    assert_status(reply, 404);
    assert_has(reply, "no route for GET '/nosuch'");
    reply = ask_headers("DELETE /nothing", HOST);
    assert_status(reply, 405);
    assert_has(reply, "Allow: GET, HEAD\r\n");
    reply = ask_headers("OPTIONS /echo/x", HOST);
    assert_status(reply, 405);
    assert_has(reply, "Allow: GET, POST, HEAD\r\n");
    assert_status(ask_headers("FROB /x", HOST), 404);
    assert_status(ask_headers("GET /echo/%00", HOST), 400);
    assert_status(ask_headers("GET /echo/%zz", HOST), 400);
    assert_status(ask_headers("GET /echo/a b", HOST), 400);
    assert_status(ask_headers("GET *", HOST), 400);
}

/* ---- requests nobody should send ---- */

static void refuse_headers(void **state)
{
    (void)state;
    char ours[128];
    int before = echo_runs;
    snprintf(ours, sizeof(ours), "Host: 127.0.0.1:%d\r\n", yard.port);
    static const struct {
        int status;
        const char *headers, *says;
    } cases[] = {
        {400, "", "Host header is missing"},
        {400, HOST HOST, "2 Host headers"},
        {400, "Host: evil.example\r\n", "Host 'evil.example' is not this server"},
        {400, "Host: localhost.evil.example\r\n", "not this server"},
        {400, "Host: 127.0.0.1:1\r\n", "not this server"},
        {400, "Host: \r\n", "not this server"},
        {400, HOST "Content-Length: 0\r\nContent-Length: 0\r\n", "2 Content-Length headers"},
        {400, HOST "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "exclude each other"},
        {400, HOST "Transfer-Encoding: gzip\r\n", "must be 'chunked'"},
        {400, HOST "Content-Length: 5\r\nTransfer-Encoding: identity\r\n", "must be 'chunked'"},
        {400, "Host: storage.googleapis.com\r\n", "not this server"}, /* by TLS only */
        {403, HOST "Origin: http://evil.example\r\n", "Origin"},
        {403, HOST "Origin: null\r\n", "Origin"},
        {403, HOST "Origin: http://localhost\r\n", "Origin"}, /* port 80 is another server */
        {403, HOST "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site"},
        {403, HOST "Sec-Fetch-Site: same-site\r\n", "Sec-Fetch-Site"},
        {403, HOST "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        const char *reply = ask_headers("GET /echo/x", cases[i].headers);
        assert_status(reply, cases[i].status);
        assert_has(reply, cases[i].says);
        assert_has(reply, "\"requestId\"");
        assert_null(strcasestr(reply, "Access-Control"));
    }
    assert_status(ask("GET /echo/x HTTP/1.0\r\n\r\n"), 400);
    assert_int_equal(echo_runs, before);
    assert_status(ask_headers("GET /echo/x", ours), 200);
    /* As TensorFlow says that there is no body; the answer comes at once. */
    assert_status(ask("POST /echo/x HTTP/1.1\r\n" HOST
                      "Content-Length: 0\r\nTransfer-Encoding: identity\r\n\r\n"),
                  200);
    /* To a proxy: whom the target names counts, not the header. */
    assert_status(ask_headers("GET http://evil.example/echo/x", ours), 400);
    assert_status(ask_headers("GET http://127.0.0.1:1/echo/x", ours), 400);
    char proxied[256];
    snprintf(proxied, sizeof(proxied), "GET http://us-central1-127.0.0.1:%d/echo/x", yard.port);
    assert_status(ask_headers(proxied, "Host: us-central1-127.0.0.1\r\n"), 200);
    assert_status(ask_headers("GET /echo/x", "Host: us-central1-127.0.0.1\r\n"), 400);
    char same[256];
    snprintf(same, sizeof(same), "%sOrigin: http://127.0.0.1:%d\r\nSec-Fetch-Site: same-origin\r\n",
             ours, yard.port);
    assert_status(ask_headers("GET /echo/x", same), 200);
}

static void refuse_what_is_not_http(void **state)
{
    (void)state;
    static const char *const bytes[] = {
        "hello\r\n\r\n",
        "\x16\x03\x01\x02 \x01\x01\xfc\x03\x03 \r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        "GET /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /echo/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };
    int before = echo_runs;
    for (size_t i = 0; i < TY_COUNT(bytes); i++) {
        const char *reply = ask(bytes[i]);
        if (strncmp(reply, "HTTP/1.", 7) != 0 || (reply[9] != '4' && !strstr(reply, " 505 ")) ||
            strstr(reply + 1, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0"))
            fail_msg("case %zu: %s", i, reply);
    }
    int fd = dial(); /* and a client that only looks in is not spoken to */
    shutdown(fd, SHUT_WR);
    assert_string_equal(hear(fd), "");
    close(fd);
    assert_int_equal(echo_runs, before);
    assert_status(ask_headers("GET /echo/x", HOST), 200);
}

static void refuse_long_headers(void **state)
{
    (void)state;
    char *request = calloc(1, 200 * 1024);
    int n = snprintf(request, 100, "GET /echo/");
    memset(request + n, 'x', 40 * 1024);
    snprintf(request + n + 40 * 1024, 100, " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_status(ask(request), 414);
    n = snprintf(request, 100, "GET /echo/x HTTP/1.1\r\n" HOST "X: ");
    memset(request + n, 'x', 150 * 1024);
    snprintf(request + n + 150 * 1024, 100, "\r\n\r\n");
    int fd = dial();
    (void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
    const char *reply = hear(fd);
    assert_true(reply[0] == '\0' || strstr(reply, " 431 "));
    close(fd);
    free(request);
}

/* ---- bodies ---- */

static void body_declared_too_large(void **state)
{
    (void)state;
    int fd = dial();
    char head[256];
    snprintf(head, sizeof(head), "POST /echo/x HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
             8 << 20);
    say(fd, head);
    /* Goes on sending, as a client that reads only afterwards does: it meets no reset. */
    char piece[16384] = {0};
    for (int i = 0; i < 512; i++)
        assert_int_equal(send(fd, piece, sizeof(piece), MSG_NOSIGNAL), sizeof(piece));
    const char *reply = hear(fd);
    assert_status(reply, 413);
    assert_has(reply, "larger than 65536 bytes");
    close(fd);
}

static void body_chunked_too_large(void **state)
{
    (void)state;
    int fd = dial(), before = echo_runs;
    say(fd, "POST /echo/x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    char chunk[4096 + 16];
    int n = snprintf(chunk, sizeof(chunk), "1000\r\n");
    memset(chunk + n, 'x', 4096);
    memcpy(chunk + n + 4096, "\r\n", 2);
    for (int i = 0; i < 512; i++)
        assert_int_equal(send(fd, chunk, (size_t)n + 4098, MSG_NOSIGNAL), n + 4098);
    const char *reply = hear(fd);
    assert_status(reply, 413);
    assert_has(reply, "\"requestId\"");
    close(fd);
    assert_int_equal(echo_runs, before);
}

static void body_arrives_whole(void **state)
{
    (void)state;
    int fd = dial();
    say(fd, "POST /echo/x HTTP/1.1\r\n" HOST
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhel");
    usleep(20000);
    say(fd, "lo\r\n3\r\n yo\r\n0\r\n\r\n");
    assert_has(hear(fd), "8:hello yo");
    close(fd);

    struct http_client c;
    struct http_reply reply;
    struct ty_arena a = {0};
    char url[160];
    snprintf(url, sizeof(url), "unix:%s", yard.socket);
    assert_ok(http_client_open(&c, url));
    char *full = ty_alloc(&a, REQUEST_LIMIT);
    memset(full, 'y', REQUEST_LIMIT);
    assert_ok(http_client_call(&c, &a, HTTP_POST, "/echo/x", (ty_str){full, REQUEST_LIMIT}, 5000,
                               &reply));
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body.len, REQUEST_LIMIT + strlen("[x][]65536:"));
    http_client_close(&c);
    ty_arena_clear(&a);
}

/* ---- keep-alive ---- */

static void keep_alive_and_pipelined(void **state)
{
    (void)state;
    int fd = dial();
    say(fd, "GET /echo/one HTTP/1.1\r\n" HOST "\r\nPOST /echo/two HTTP/1.1\r\n" HOST
            "Content-Length: 3\r\n\r\nabc"
            "GET /echo/three HTTP/1.1\r\n" HOST "\r\n");
    const char *reply = hear_until(fd, "[three][]0:");
    assert_has(reply, "[one][]0:");
    assert_has(reply, "[two][]3:abc");
    say(fd, "GET /echo/four HTTP/1.1\r\n" HOST "\r\n");
    hear_until(fd, "[four][]0:");
    close(fd);
}

/* Past the ceiling connections are closed at once, and served again when there is room. */
static void connection_ceiling(void **state)
{
    (void)state;
    enum { CEILING = 16, MANY = 200 };
    struct ty_config config = yard.config;
    struct http_server *s = NULL;
    int usual = yard.port, fds[MANY];
    config.connections = CEILING;
    config.header_timeout_ms = 10000;
    assert_ok(http_server_start(&config, NULL, yard.router, NULL, &s));
    yard.port = http_server_port(s);
    for (int i = 0; i < MANY; i++)
        fds[i] = dial();
    for (int i = CEILING; i < MANY; i++)
        assert_string_equal(hear(fds[i]), "");
    say(fds[0], "GET /echo/x HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_status(hear(fds[0]), 200);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    struct http_stats st = {.connections = 1};
    for (int i = 0; i < 2000 && st.connections != 0; i++) {
        usleep(1000);
        http_server_stats(s, &st);
    }
    assert_status(ask_headers("GET /echo/x", HOST), 200);
    http_server_stop(s);
    yard.port = usual;
}

/* The last bytes and the end in one packet: MHD alone would keep the connection. */
static void connection_end_is_noticed(void **state)
{
    (void)state;
    struct ty_config config = yard.config;
    struct http_server *s = NULL;
    int usual = yard.port;
    config.header_timeout_ms = 10000;
    assert_ok(http_server_start(&config, NULL, yard.router, NULL, &s));
    yard.port = http_server_port(s);
    for (int i = 0; i < 200; i++) {
        int fd = dial();
        say(fd, "GET /echo/x HTT");
        if (i % 2)
            usleep(200);
        say(fd, "P/1.1\r\nHos");
        close(fd);
    }
    struct http_stats st = {.connections = 1};
    for (int i = 0; i < 3000 && st.connections != 0; i++) {
        usleep(1000);
        http_server_stats(s, &st);
    }
    assert_int_equal(st.connections, 0);
    http_server_stop(s);
    yard.port = usual;
}

static void idle_connection_is_closed(void **state)
{
    (void)state;
    int fd = dial();
    uint64_t before = stats().dropped_slow;
    say(fd, "GET /echo/x HTTP/1.1\r\n" HOST "\r\n");
    hear_until(fd, "[x][]0:");
    int64_t start = ty_boot_ms();
    assert_string_equal(hear(fd), "");
    assert_in_range(ty_boot_ms() - start, IDLE_MS - 50, IDLE_MS + 1500);
    assert_int_equal(stats().dropped_slow, before);
    close(fd);
}

/* ---- slow clients ---- */

static void slow_clients_are_dropped_and_hold_up_nobody(void **state)
{
    (void)state;
    enum { SLOW = 64 };
    int fds[SLOW];
    uint64_t before = stats().dropped_slow;
    int64_t start = ty_boot_ms();
    for (int i = 0; i < SLOW; i++) {
        fds[i] = dial();
        if (i % 2 == 0)
            say(fds[i], "GET /echo/x HTTP/1.1\r\nHost: loc");
    }
    for (int i = 0; i < 10; i++) {
        int64_t asked = ty_boot_ms();
        assert_status(ask_headers("GET /echo/x", HOST), 200);
        assert_true(ty_boot_ms() - asked < HEADER_MS / 2);
        if (i % 2 == 0)
            (void)!send(fds[0], "a", 1, MSG_NOSIGNAL); /* a trickle is no excuse */
    }
    for (int i = 0; i < SLOW; i++) {
        assert_string_equal(hear(fds[i]), "");
        close(fds[i]);
    }
    assert_in_range(ty_boot_ms() - start, HEADER_MS - 50, HEADER_MS + 1500);
    assert_int_equal(stats().dropped_slow - before, SLOW);
}

static void slow_reader_holds_up_nobody(void **state)
{
    (void)state;
    int fd = dial();
    say(fd, "GET /large HTTP/1.1\r\n" HOST "\r\n");
    assert_status(ask_headers("GET /echo/x", HOST), 200);
    close(fd);
}

static void *ask_slow(void *arg)
{
    (void)arg;
    int fd = dial_family(AF_INET);
    static const char request[] = "GET /slow HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    char reply[1024] = "";
    size_t n = 0;
    ssize_t got = send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
    while (got > 0 && n < sizeof(reply) - 1) {
        got = recv(fd, reply + n, sizeof(reply) - 1 - n, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    return strstr(reply, "\r\n\r\nslow") ? NULL : (void *)1;
}

static void slow_handler_has_no_deadline(void **state)
{
    (void)state;
    pthread_t threads[2]; /* of three workers: one is left */
    for (size_t i = 0; i < TY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_slow, NULL), 0);
    while (slow_running < (int)TY_COUNT(threads))
        usleep(1000);
    int64_t start = ty_boot_ms();
    assert_status(ask_headers("GET /echo/x", HOST), 200);
    assert_true(ty_boot_ms() - start < 250);
    for (size_t i = 0; i < TY_COUNT(threads); i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

/* ---- parking ---- */

static void wait_parked(uint64_t count)
{
    for (int i = 0; i < 2000 && stats().parked != count; i++)
        usleep(1000);
    assert_int_equal(stats().parked, count);
}

static void park_is_woken(void **state)
{
    (void)state;
    enum { MANY = 20 }; /* more than there are workers */
    int fds[MANY];
    park_open = 0;
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial();
        say(fds[i], "GET /park HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    }
    wait_parked(MANY);
    usleep((HEADER_MS + 100) * 1000); /* a parked request has no deadline of the connection's */
    http_server_wake(yard.server);    /* for nothing: parked again */
    wait_parked(MANY);
    assert_status(ask_headers("GET /echo/x", HOST), 200);
    park_open = 1;
    http_server_wake(yard.server);
    for (int i = 0; i < MANY; i++) {
        assert_has(hear(fds[i]), "\r\n\r\nopen");
        close(fds[i]);
    }
    assert_int_equal(stats().parked, 0);
}

static void park_ends_at_its_time(void **state)
{
    (void)state;
    park_open = 0;
    int64_t start = ty_boot_ms();
    assert_has(ask_headers("GET /park?limit=150", HOST), "timed out");
    assert_in_range(ty_boot_ms() - start, 150, 1500);
    int fd = dial(); /* a client that leaves */
    say(fd, "GET /park?limit=100 HTTP/1.1\r\n" HOST "\r\n");
    wait_parked(1);
    close(fd);
    wait_parked(0);
}

static void park_loses_no_wake(void **state)
{
    (void)state;
    assert_has(ask_headers("GET /race", HOST), "woken");
}

static void park_past_the_ceiling_still_ends(void **state)
{
    (void)state;
    enum { MANY = HTTP_MAX_PARKED + 4 };
    static int fds[MANY];
    park_open = 0;
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial();
        say(fds[i], "GET /park HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    }
    wait_parked(MANY);
    park_open = 1;
    http_server_wake(yard.server);
    for (int i = 0; i < MANY; i++) {
        assert_has(hear(fds[i]), "\r\n\r\nopen");
        close(fds[i]);
    }
}

/* ---- our client ---- */

static void client_keeps_its_connection(void **state)
{
    (void)state;
    struct http_client c;
    struct http_reply reply;
    struct ty_arena a = {0};
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", yard.port);
    assert_ok(http_client_open(&c, url));
    assert_ok(http_client_call(&c, &a, HTTP_GET, "/echo/x", TY_STR(""), 5000, &reply));
    int first = c.fd;
    assert_true(first >= 0);
    assert_ok(http_client_call(&c, &a, HTTP_POST, "/echo/y?q=1", TY_STR("{}"), 5000, &reply));
    assert_int_equal(c.fd, first);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body.ptr, "[y][1]2:{}");
    assert_ok(http_client_call(&c, &a, HTTP_HEAD, "/nothing", TY_STR(""), 5000, &reply));
    assert_int_equal(reply.body.len, 0);
    assert_ok(http_client_call(&c, &a, HTTP_GET, "/large", TY_STR(""), 5000, &reply));
    assert_int_equal(reply.body.len, 32 << 16);
    assert_ok(http_client_call(&c, &a, HTTP_GET, "/fail/x", TY_STR(""), 5000, &reply));
    assert_err(TY_NOT_FOUND, http_reply_fail(&reply));
    assert_string_equal(ty_err_message(), "no \"x\" here");
    assert_err(TY_INVALID_ARGUMENT,
               http_client_call(&c, &a, HTTP_GET, "/a\r\nX: y", TY_STR(""), 5000, &reply));
    usleep((IDLE_MS + 200) * 1000); /* closed by the server meanwhile */
    assert_ok(http_client_call(&c, &a, HTTP_POST, "/echo/x", TY_STR("b"), 5000, &reply));
    assert_string_equal(reply.body.ptr, "[x][]1:b");
    http_client_close(&c);
    ty_arena_clear(&a);
}

static void client_failures(void **state)
{
    (void)state;
    struct http_client c;
    struct http_reply reply;
    struct ty_arena a = {0};
    char url[160];
    snprintf(url, sizeof(url), "unix:%s/none.sock", yard.dir);
    assert_ok(http_client_open(&c, url));
    assert_err(TY_UNAVAILABLE, http_client_call(&c, &a, HTTP_GET, "/", TY_STR(""), 5000, &reply));
    http_client_close(&c);
    snprintf(url, sizeof(url), "unix:%s", yard.socket);
    assert_ok(http_client_open(&c, url));
    int64_t start = ty_boot_ms();
    assert_err(TY_DEADLINE_EXCEEDED,
               http_client_call(&c, &a, HTTP_GET, "/slow", TY_STR(""), 50, &reply));
    assert_in_range(ty_boot_ms() - start, 50, 280);
    char *body = ty_alloc(&a, 4 << 20);
    memset(body, 'x', 4 << 20);
    assert_ok(
        http_client_call(&c, &a, HTTP_POST, "/echo/x", (ty_str){body, 4 << 20}, 5000, &reply));
    assert_int_equal(reply.status, 413);
    http_client_close(&c);
    ty_arena_clear(&a);
}

/* A server that takes the request and dies: a GET is sent again, a POST is not. */
static void *dying_server(void *arg)
{
    int listener = *(int *)arg;
    static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    char buf[1024];
    intptr_t requests = 0;
    for (int connection = 0; connection < 3; connection++) {
        int fd = accept(listener, NULL, NULL);
        for (int i = 0; i < 2; i++) { /* answers the first, closes on the second */
            if (recv(fd, buf, sizeof(buf), 0) <= 0)
                break;
            requests++;
            if (i == 0)
                (void)!send(fd, ok, sizeof(ok) - 1, MSG_NOSIGNAL);
        }
        close(fd);
    }
    return (void *)requests;
}

static void client_never_repeats_a_post(void **state)
{
    (void)state;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&in, len), 0);
    assert_int_equal(listen(listener, 4), 0);
    getsockname(listener, (struct sockaddr *)&in, &len);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, dying_server, &listener), 0);

    struct http_client c;
    struct http_reply reply;
    struct ty_arena a = {0};
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(in.sin_port));
    assert_ok(http_client_open(&c, url));
    assert_ok(http_client_call(&c, &a, HTTP_GET, "/1", TY_STR(""), 5000, &reply));
    assert_ok(
        http_client_call(&c, &a, HTTP_GET, "/2", TY_STR(""), 5000, &reply)); /* second connection */
    assert_err(TY_UNAVAILABLE,
               http_client_call(&c, &a, HTTP_POST, "/3", TY_STR("{}"), 5000, &reply));
    assert_ok(http_client_call(&c, &a, HTTP_GET, "/4", TY_STR(""), 5000, &reply)); /* third */
    http_client_close(&c);
    void *requests;
    pthread_join(thread, &requests);
    assert_int_equal((intptr_t)requests, 5);
    close(listener);
    ty_arena_clear(&a);
}

/* ---- starting ---- */

static void start_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {"0.0.0.0:7575",   "192.168.1.1:80", "[::]:80",
                                      "example.com:80", ":7575",          "127.0.0.1",
                                      "127.0.0.1:x",    "127.0.0.1:70000"};
    struct ty_config config = yard.config;
    struct http_server *s = NULL;
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        config.listen = (char *)bad[i];
        assert_err(TY_INVALID_ARGUMENT, http_server_start(&config, NULL, yard.router, NULL, &s));
        assert_non_null(strstr(ty_err_message(), "listen: '"));
    }
    char taken[64];
    snprintf(taken, sizeof(taken), "127.0.0.1:%d", yard.port);
    config.listen = taken;
    assert_err(TY_ALREADY_EXISTS, http_server_start(&config, NULL, yard.router, NULL, &s));
    assert_null(s);
}

static void start_with_a_long_path_and_an_old_socket(void **state)
{
    (void)state;
    char folder[400], path[420], url[440];
    snprintf(folder, sizeof(folder), "%s/%0100d/%0100d", yard.dir, 1, 2);
    snprintf(path, sizeof(path), "%s/api.sock", folder);
    snprintf(url, sizeof(url), "unix:%s", path);
    assert_ok(ty_mkdirs(folder, 0700));
    struct sockaddr_un un;
    int dirfd, old = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_ok(unix_address(path, &un, &dirfd));
    assert_int_equal(bind(old, (struct sockaddr *)&un, sizeof(un)),
                     0); /* left by a killed server */
    close(old);
    close(dirfd);

    struct http_server *s = NULL;
    struct http_client c;
    struct http_reply reply;
    struct ty_arena a = {0};
    assert_ok(http_server_start(&yard.config, path, yard.router, NULL, &s));
    assert_ok(http_client_open(&c, url));
    assert_ok(http_client_call(&c, &a, HTTP_GET, "/echo/x", TY_STR(""), 5000, &reply));
    assert_int_equal(reply.status, 200);
    /* Stopping answers what is parked. */
    int before = park_runs;
    park_open = 0;
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)http_server_port(s))};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    say(fd, "GET /park HTTP/1.1\r\n" HOST "\r\n");
    while (park_runs == before)
        usleep(1000);
    http_server_stop(s);
    assert_status(hear(fd), 503);
    close(fd);
    assert_int_equal(access(path, F_OK), -1);
    assert_err(TY_UNAVAILABLE,
               http_client_call(&c, &a, HTTP_GET, "/echo/x", TY_STR(""), 5000, &reply));
    http_client_close(&c);
    ty_arena_clear(&a);
    char top[200];
    snprintf(top, sizeof(top), "%s/%0100d", yard.dir, 1);
    assert_ok(ty_remove_tree(AT_FDCWD, top));
}

/* ---- who the peer is ---- */

static int listen_here(struct sockaddr_in *addr)
{
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(*addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)addr, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    getsockname(fd, (struct sockaddr *)addr, &len);
    return fd;
}

static int client_socket(uint16_t port)
{
    struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    return fd;
}

static uint16_t socket_port(int fd)
{
    struct sockaddr_in in = {0};
    socklen_t len = sizeof(in);
    getsockname(fd, (struct sockaddr *)&in, &len);
    return in.sin_port;
}

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
}

static void peer_rules(enum peer_method method)
{
    struct peer p;
    struct sockaddr_in addr;
    int listener = listen_here(&addr);
    assert_ok(peer_open(&p, method));

    int client = client_socket(0);
    assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
    int accepted = accept(listener, NULL, NULL);
    assert_ok(peer_check(&p, accepted, geteuid()));
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid() + 1));
    shutdown(client, SHUT_WR); /* half closed is still there */
    assert_ok(peer_check(&p, accepted, geteuid()));
    close(client); /* an owner that has left: uid 0, inode 0 */
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid()));
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, 0));
    close(accepted);

    /* Reset, and then the same port is used again by us: that one does not speak for the first. */
    client = client_socket(0);
    uint16_t port = socket_port(client);
    assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(send(client, "x", 1, 0), 1);
    reset(client);
    int again = client_socket(port);
    assert_int_equal(connect(again, (struct sockaddr *)&addr, sizeof(addr)), 0);
    accepted = accept(listener, NULL, NULL);
    int second = accept(listener, NULL, NULL);
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid()));
    assert_ok(peer_check(&p, second, geteuid()));
    reset(again);
    close(accepted);
    close(second);

    /* Reset, and then someone of ours listens on that port. */
    client = client_socket(0);
    port = socket_port(client);
    assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
    accepted = accept(listener, NULL, NULL);
    reset(client);
    int other = client_socket(port);
    assert_int_equal(listen(other, 1), 0);
    assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid()));
    close(other);
    close(accepted);
    close(listener);
    peer_close(&p);
}

static void peer_sock_diag(void **state)
{
    (void)state;
    struct peer p;
    if (peer_open(&p, PEER_SOCK_DIAG) != TY_OK) {
        print_message("no sock_diag here\n");
        skip();
    }
    peer_close(&p);
    peer_rules(PEER_SOCK_DIAG);
}

static void peer_proc(void **state)
{
    (void)state;
    peer_rules(PEER_PROC);
}

/* An AF_INET6 socket connected to ::ffff:127.0.0.1, and a plain IPv6 one. */
static void peer_ipv6(void **state)
{
    (void)state;
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)yard.port)};
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        print_message("no IPv6 here\n");
        skip();
    }
    assert_int_equal(connect(fd, (struct sockaddr *)&mapped, sizeof(mapped)), 0);
    say(fd, "GET /echo/mapped HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_has(hear(fd), "[mapped]");
    close(fd);

    static const enum peer_method methods[] = {PEER_SOCK_DIAG, PEER_PROC};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6}; /* dual stack: [::] */
    socklen_t len = sizeof(in6);
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&in6, len), 0);
    assert_int_equal(listen(listener, 8), 0);
    getsockname(listener, (struct sockaddr *)&in6, &len);
    static const char *const hosts[] = {"::1", "::ffff:127.0.0.1"};
    for (size_t i = 0; i < TY_COUNT(hosts); i++) {
        inet_pton(AF_INET6, hosts[i], &in6.sin6_addr);
        int client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(client, (struct sockaddr *)&in6, sizeof(in6)), 0);
        int accepted = accept(listener, NULL, NULL);
        for (size_t m = 0; m < TY_COUNT(methods); m++) {
            struct peer p;
            assert_ok(peer_open(&p, methods[m]));
            assert_ok(peer_check(&p, accepted, geteuid()));
            assert_err(TY_PERMISSION_DENIED, peer_check(&p, accepted, geteuid() + 1));
            peer_close(&p);
        }
        assert_ok(http_peer_check(accepted, geteuid()));
        close(client);
        close(accepted);
    }
    close(listener);
}

static void other_user(bool wait)
{
    static const char request[] =
        "GET /echo/stranger HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    for (int i = 0; i < 200; i++) {
        char byte;
        int fd = dial_family(AF_INET);
        if (fd < 0)
            _exit(2);
        (void)!send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
        if (wait && recv(fd, &byte, 1, 0) > 0)
            _exit(1); /* we were answered */
        close(fd);
    }
    _exit(dial_family(AF_UNIX) < 0 ? 0 : 3);
}

static void peer_other_users_get_nothing(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("needs root to become another user: skipped\n");
        skip();
    }
    int before = echo_runs;
    uint64_t refused = stats().refused_peers;
    pid_t children[4];
    for (size_t i = 0; i < TY_COUNT(children); i++) {
        children[i] = fork();
        if (children[i] == 0) {
            if (setuid(NOBODY) != 0)
                _exit(4);
            other_user(i % 2 == 0);
        }
    }
    for (size_t i = 0; i < TY_COUNT(children); i++) {
        int status = 0;
        assert_status(ask_headers("GET /echo/x", HOST), 200);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 2000 && stats().refused_peers - refused < 800; i++)
        usleep(1000);
    assert_int_equal(stats().refused_peers - refused, 800);
    assert_int_equal(echo_runs - before, TY_COUNT(children));
}

/* ---- bodies in pieces ---- */

/* Send `total` bytes as a body; returns the sum that sink_body makes of them. */
static uint32_t pour(int fd, size_t total)
{
    uint32_t sum = 0;
    char block[5000];
    for (size_t sent = 0; sent < total;) {
        size_t n = total - sent < sizeof(block) ? total - sent : sizeof(block);
        for (size_t i = 0; i < n; i++) {
            block[i] = (char)((sent + i) * 7 % 251);
            sum = sum * 31 + (unsigned char)block[i];
        }
        for (size_t at = 0; at < n;) {
            ssize_t w = send(fd, block + at, n - at, MSG_NOSIGNAL);
            assert_true(w > 0);
            at += (size_t)w;
        }
        sent += n;
    }
    return sum;
}

static const char *pour_to(const char *path, size_t total, uint32_t *ret_sum)
{
    char head[256];
    int fd = dial();
    snprintf(head, sizeof(head),
             "POST %s HTTP/1.1\r\n" HOST "X-Sent: hello\r\nContent-Length: %zu\r\nConnection: "
             "close\r\n\r\n",
             path, total);
    say(fd, head);
    *ret_sum = pour(fd, total);
    const char *reply = hear(fd);
    close(fd);
    return reply;
}

static void stream_any_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 32767, 32768, 65536, 100000, 5000000};
    for (size_t i = 0; i < TY_COUNT(sizes); i++) {
        uint32_t sum;
        char want[64];
        const char *reply = pour_to(i % 2 ? "/sink/slow" : "/sink/fast", sizes[i], &sum);
        assert_status(reply, 200);
        snprintf(want, sizeof(want), "%zu bytes, sum %u.", sizes[i], sum);
        assert_has(reply, want);
        assert_has(reply, "X-Seen: hello\r\n");
        assert_has(reply, "Cache-Control: private\r\n");
        assert_null(strstr(reply, "X-Bad"));
        assert_null(strstr(reply, "no-store"));
    }
    assert_int_equal(sinks_open, 0);
    assert_true(sink_largest <= HTTP_STREAM_MOST);
}

static void stream_chunked(void **state)
{
    (void)state;
    int fd = dial();
    say(fd,
        "POST /sink/fast HTTP/1.1\r\n" HOST
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_has(hear(fd), "5 bytes");
    close(fd);
}

/* The client hears why, although it goes on sending. */
static void stream_refused_midway(void **state)
{
    (void)state;
    uint32_t sum;
    int ended = sinks_ended;
    const char *reply = pour_to("/sink/fails", 3000000, &sum);
    assert_status(reply, 409);
    assert_has(reply, "enough of it");
    reply = pour_to("/sink/says", 3000000, &sum);
    assert_status(reply, 412);
    assert_has(reply, "its own words");
    assert_int_equal(sinks_open, 0);
    assert_int_equal(sinks_ended, ended + 2);
}

static void wait_for_sinks(int open)
{
    for (int i = 0; i < 500 && sinks_open != open; i++)
        usleep(10000);
    assert_int_equal(sinks_open, open);
}

/* What the module holds is ended, whether a worker has the body just then or not. */
static void stream_client_leaves(void **state)
{
    (void)state;
    static const size_t sent[] = {10, 100000, 700000};
    for (size_t i = 0; i < TY_COUNT(sent); i++) {
        int fd = dial();
        say(fd, "POST /sink/slow HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n");
        pour(fd, sent[i]);
        wait_for_sinks(i > 0);
        close(fd);
        wait_for_sinks(0);
    }
    for (int i = 0; i < 500 && yard.server->streams != 0; i++)
        usleep(10000);
    assert_int_equal(yard.server->streams, 0);
}

static void stream_many_at_once(void **state)
{
    (void)state;
    enum { MANY = 60, SIZE = 200000 };
    int fds[MANY];
    uint32_t sum = 0;
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial();
        say(fds[i], "POST /sink/fast HTTP/1.1\r\n" HOST
                    "Content-Length: 200000\r\nConnection: close\r\n\r\n");
    }
    for (int i = 0; i < MANY; i++)
        sum = pour(fds[i], SIZE);
    char want[64];
    snprintf(want, sizeof(want), "200000 bytes, sum %u.", sum);
    for (int i = 0; i < MANY; i++) {
        assert_has(hear(fds[i]), want);
        close(fds[i]);
    }
    assert_int_equal(yard.server->streams, 0);
}

/* ---- answers in pieces ---- */

static size_t hear_letters(const char *kind, char *head, size_t size)
{
    char request[128];
    int fd = dial();
    snprintf(request, sizeof(request),
             "GET /letters/%s HTTP/1.0\r\n" HOST "Connection: close\r\n\r\n", kind);
    say(fd, request);
    size_t n = 0, body = 0, got_head = 0;
    char block[8192];
    ssize_t got;
    while ((got = recv(fd, block, sizeof(block), 0)) > 0) {
        for (ssize_t i = 0; i < got; i++, n++) {
            if (!got_head && n + 1 < size) {
                head[n] = block[i];
                head[n + 1] = '\0';
                got_head = strstr(head, "\r\n\r\n") != NULL;
            } else {
                assert_int_equal(block[i], 'a' + body % 26);
                body++;
            }
        }
    }
    close(fd);
    return body;
}

static void source_whole(void **state)
{
    (void)state;
    static const char *const kinds[] = {"now", "waits", "long"};
    for (size_t i = 0; i < TY_COUNT(kinds); i++) {
        char head[2048] = "";
        int closed = source_closed;
        assert_int_equal(hear_letters(kinds[i], head, sizeof(head)), SOURCE_SIZE);
        assert_status(head, 200);
        if (i < 2)
            assert_has(head, "Content-Length: 1048576\r\n");
        for (int wait = 0; wait < 500 && source_closed == closed; wait++)
            usleep(10000);
        assert_int_equal(source_closed, closed + 1);
    }
}

static void source_ends_early(void **state)
{
    (void)state;
    char head[2048] = "";
    int closed = source_closed;
    size_t n = hear_letters("fails", head, sizeof(head));
    assert_has(head, "Content-Length: 1048576\r\n");
    assert_true(n < SOURCE_SIZE);
    assert_status(ask_headers("GET /letters/error", HOST), 404);
    for (int wait = 0; wait < 500 && source_closed < closed + 2; wait++)
        usleep(10000);
    assert_int_equal(source_closed, closed + 2);
}

/* ---- the last resort ---- */

static void last_table(void **state)
{
    (void)state;
    assert_has(ask_headers("GET /a/b/c%2Fd", HOST), "last resort: b/c%2Fd");
    assert_status(ask_headers("DELETE /a/b", HOST), 404); /* not 405 */
    assert_status(ask_headers("POST /letters/now", HOST), 405);
}

static const struct CMUnitTest tests[] = {
    TEST("stream/any_size", stream_any_size),
    TEST("stream/chunked", stream_chunked),
    TEST("stream/refused_midway", stream_refused_midway),
    TEST("stream/client_leaves", stream_client_leaves),
    TEST("stream/many_at_once", stream_many_at_once),
    TEST("source/whole", source_whole),
    TEST("source/ends_early", source_ends_early),
    TEST("serve/last_resort", last_table),
    TEST("serve/answers", serve_answers),
    TEST("serve/ipv6_and_unix", serve_ipv6_and_unix),
    TEST("serve/errors", serve_errors),
    TEST("refuse/headers", refuse_headers),
    TEST("refuse/what_is_not_http", refuse_what_is_not_http),
    TEST("refuse/long_headers", refuse_long_headers),
    TEST("body/declared_too_large", body_declared_too_large),
    TEST("body/chunked_too_large", body_chunked_too_large),
    TEST("body/arrives_whole", body_arrives_whole),
    TEST("connection/keep_alive_and_pipelined", keep_alive_and_pipelined),
    TEST("connection/ceiling", connection_ceiling),
    TEST("connection/end_is_noticed", connection_end_is_noticed),
    TEST("connection/idle_is_closed", idle_connection_is_closed),
    TEST("slow/clients_are_dropped_and_hold_up_nobody",
         slow_clients_are_dropped_and_hold_up_nobody),
    TEST("slow/reader_holds_up_nobody", slow_reader_holds_up_nobody),
    TEST("slow/handler_has_no_deadline", slow_handler_has_no_deadline),
    TEST("park/is_woken", park_is_woken),
    TEST("park/ends_at_its_time", park_ends_at_its_time),
    TEST("park/loses_no_wake", park_loses_no_wake),
    TEST("park/past_the_ceiling_still_ends", park_past_the_ceiling_still_ends),
    TEST("client/keeps_its_connection", client_keeps_its_connection),
    TEST("client/failures", client_failures),
    TEST("client/never_repeats_a_post", client_never_repeats_a_post),
    TEST("start/refuses", start_refuses),
    TEST("start/long_path_and_old_socket", start_with_a_long_path_and_an_old_socket),
    TEST("peer/sock_diag", peer_sock_diag),
    TEST("peer/proc", peer_proc),
    TEST("peer/ipv6", peer_ipv6),
    TEST("peer/other_users_get_nothing", peer_other_users_get_nothing),
};

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("http_server", tests, yard_open, yard_close) == 0 ? 0 : 1;
}
