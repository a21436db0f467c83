/* test_server.h -- a live server for a whole test program, with handlers of all kinds, and raw
 * sockets to speak to it: what no well-behaved client sends. */
#ifndef TY_TEST_SERVER_H
#define TY_TEST_SERVER_H

#define TY_SEAM
#include "base/test.h"
#include "http/http_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>

/* Each test program uses some of these. */
#define HELPER static __attribute__((unused))

enum { NOBODY = 65534, REQUEST_LIMIT = 65536, HEADER_MS = 200, IDLE_MS = 200 };

HELPER struct {
    char dir[64], socket[128];
    struct ty_arena arena;
    struct ty_config config;
    struct http_router *router;
    struct http_server *server;
    int port;
} yard;
HELPER atomic_int echo_runs, park_runs, park_open, slow_running;

/* ---- handlers ---- */

HELPER ty_err echo(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    echo_runs++;
    ty_buf_addf(&res->body, "[%.*s][%.*s]%zu:", TY_STR_ARG(req->capture[0]),
                TY_STR_ARG(http_query(req, "q")), req->body.len);
    ty_buf_adds(&res->body, req->body);
    return TY_OK;
}

HELPER ty_err nothing(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)ctx;
    res->header_name = "Metadata-Flavor";
    res->header_value = "Google";
    return TY_OK;
}

HELPER ty_err failing(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    ty_buf_addz(&res->body, "half an answer");
    res->error_details = TY_STR("[{\"@type\":\"x\"}]");
    if (ty_str_is(req->capture[0], "internal"))
        return ty_fail(TY_UNAVAILABLE, "on purpose");
    return ty_fail(TY_NOT_FOUND, "no \"%.*s\" here", TY_STR_ARG(req->capture[0]));
}

HELPER ty_err parking(struct http_request *req, struct http_response *res, void *ctx)
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
HELPER ty_err racing(struct http_request *req, struct http_response *res, void *ctx)
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

HELPER ty_err slow(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)ctx;
    slow_running++;
    usleep(300 * 1000);
    ty_buf_addz(&res->body, "slow");
    return TY_OK;
}

HELPER ty_err large(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)ctx;
    for (int i = 0; i < 1 << 16; i++)
        ty_buf_addz(&res->body, "0123456789abcdef0123456789abcdef");
    return TY_OK;
}

HELPER const struct http_route rows[] = {
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
HELPER atomic_int sinks_open, sinks_ended, source_closed;
HELPER atomic_llong sink_largest;

HELPER void sink_end(void *state)
{
    free(state);
    sinks_open--;
    sinks_ended++;
}

HELPER ty_err sink_body(struct http_request *req, struct http_response *res, void *ctx)
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

HELPER ty_err sink_done(struct http_request *req, struct http_response *res, void *ctx)
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

HELPER int64_t letters_read(void *arg, int64_t offset, char *buf, size_t max, bool wait)
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

HELPER void letters_close(void *arg)
{
    (void)arg;
    source_closed++;
}

HELPER ty_err letters(struct http_request *req, struct http_response *res, void *ctx)
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

HELPER ty_err anything(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    ty_buf_addf(&res->body, "last resort: %.*s", TY_STR_ARG(req->capture[1]));
    return TY_OK;
}

/* "quick" is answered on the event loop; anything else has a worker, after a first try that leaves
 * half an answer. */
HELPER atomic_int now_tries, now_runs;

HELPER bool now_try(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    now_tries++;
    assert_true(req->route->handler != NULL);
    http_header_add(req, res, "X-Way", TY_STR("loop"));
    ty_buf_addf(&res->body, "at once: %.*s", TY_STR_ARG(http_query(req, "q")));
    return ty_str_is(req->capture[0], "quick");
}

HELPER ty_err now_later(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    now_runs++;
    ty_buf_addf(&res->body, "later: %.*s", TY_STR_ARG(http_query(req, "q")));
    return ty_str_is(req->capture[0], "fails") ? ty_fail(TY_NOT_FOUND, "not here") : TY_OK;
}

HELPER const struct http_route now_rows[] = {{HTTP_GET, "/now/{kind}", now_later},
                                             {HTTP_POST, "/now/{kind}", now_later}};
HELPER const struct http_route letter_rows[] = {{HTTP_GET, "/letters/{kind}", letters}};
HELPER const struct http_route sink_rows[] = {{HTTP_POST, "/sink/{kind}", sink_done}};
HELPER const struct http_route last_rows[] = {{HTTP_GET, "/{first}/{rest...}", anything}};

HELPER int yard_open(void **state)
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
        {.rows = now_rows, .count = TY_COUNT(now_rows), .now = now_try},
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

HELPER int yard_close(void **state)
{
    (void)state;
    http_server_stop(yard.server);
    http_router_free(yard.router);
    ty_arena_clear(&yard.arena);
    return rmdir(yard.dir); /* the socket must be gone */
}

/* ---- raw sockets ---- */

HELPER int dial_family(int family)
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

HELPER int dial(void)
{
    int fd = dial_family(AF_INET);
    assert_true(fd >= 0);
    return fd;
}

HELPER void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

HELPER char heard[1 << 18];

/* All until the server closes (or 5 s have passed, which fails). */
HELPER const char *hear(int fd)
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
HELPER const char *hear_until(int fd, const char *end)
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
HELPER const char *ask(const char *request)
{
    int fd = dial();
    say(fd, request);
    const char *reply = hear(fd);
    close(fd);
    return reply;
}

HELPER const char *ask_headers(const char *line, const char *headers)
{
    char request[4096];
    snprintf(request, sizeof(request), "%s HTTP/1.1\r\n%sConnection: close\r\n\r\n", line, headers);
    return ask(request);
}

static void assert_status(const char *reply, int status)
{
    char want[32];
    snprintf(want, sizeof(want), "HTTP/1.1 %d ", status);
    if (strncmp(reply, want, strlen(want)) != 0)
        fail_msg("expected status %d, got: %s", status, reply);
}

static void assert_has(const char *reply, const char *part)
{
    if (!strstr(reply, part))
        fail_msg("'%s' is not in: %s", part, reply);
}

HELPER struct http_stats stats(void)
{
    struct http_stats s;
    http_server_stats(yard.server, &s);
    return s;
}

#define HOST "Host: localhost\r\n"

#define TEST_SERVER_MAIN(name, tests)                                                              \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        if (argc > 1)                                                                              \
            cmocka_set_test_filter(argv[1]);                                                       \
        return cmocka_run_group_tests_name(name, tests, yard_open, yard_close) != 0;               \
    }

#endif
