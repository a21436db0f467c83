/* test_server.c -- answers, refusals, connections, parking, our client, starting. */
#include "http/test_server.h"

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

static const struct CMUnitTest tests[] = {
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
};
TEST_SERVER_MAIN("http_server", tests)
