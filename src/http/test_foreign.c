/* test_foreign.c -- connections of other uids: what they must show, and what they may ask for.
 *
 * Tokens here are words: "good..." was made by us and counts, "over..." was made and counts no
 * more.
 */
#define TY_SEAM
#include "base/test.h"
#include "http/http_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/wait.h>

enum { NOBODY = 65534, ANSWER_BYTES = 4096 };

static struct {
    struct ty_arena arena;
    struct ty_config config;
    struct http_router *router;
    struct http_server *server;
} yard;

static bool made(void *ctx, ty_str token)
{
    (void)ctx;
    return ty_str_starts(token, TY_STR("good")) || ty_str_starts(token, TY_STR("over"));
}

static ty_err live(void *ctx, struct ty_arena *a, ty_str token, struct http_replica *ret_replica)
{
    (void)ctx;
    if (!ty_str_starts(token, TY_STR("good")))
        return ty_fail(TY_PERMISSION_DENIED, "over");
    *ret_replica = (struct http_replica){
        .job = 7, .attempt = 2, .pool = 1, .index = 3, .project = ty_str_dup(a, TY_STR("mine"))};
    return TY_OK;
}

/* Who the server takes the caller for. */
static ty_err who(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    const struct http_replica *r = &req->replica;
    ty_buf_addf(&res->body, "%s %d/%d/%d-%d " TY_STR_FMT, req->foreign ? "foreign" : "own",
                (int)r->job, r->attempt, r->pool, r->index, TY_STR_ARG(r->token));
    return TY_OK;
}

static atomic_int pieces; /* of streamed bodies that reached their handler */

static ty_err piece(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)res;
    (void)ctx;
    pieces++;
    return TY_OK;
}

static const struct http_route rows[] = {
    {HTTP_GET, "/who", who},
    {HTTP_POST, "/who", who},
    {HTTP_GET, "/v1/{x}/projects/{project}/jobs", who},
};
static const struct http_route streamed[] = {
    {HTTP_POST, "/pieces", who},
    {HTTP_POST, "/pieces/{project}", who},
};

static int yard_open(void **state)
{
    (void)state;
    ty_config_init(&yard.config, &yard.arena);
    yard.config.listen = (char *)"127.0.0.1:0";
    yard.config.workers = 2;
    struct http_routes tables[] = {
        {.rows = rows, .count = TY_COUNT(rows)},
        {.rows = streamed, .count = TY_COUNT(streamed), .body = piece},
    };
    struct http_tokens tokens = {.made = made, .live = live};
    if (http_router_new(tables, TY_COUNT(tables), &yard.router) != TY_OK)
        return -1;
    return http_server_start(&yard.config, NULL, yard.router, &tokens, &yard.server) == TY_OK ? 0
                                                                                              : -1;
}

static int yard_close(void **state)
{
    (void)state;
    http_server_stop(yard.server);
    http_router_free(yard.router);
    ty_arena_clear(&yard.arena);
    return 0;
}

/* Send `text` and read to the end. Returns the bytes that came. */
static size_t converse(const char *text, char *out)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)http_server_port(yard.server))};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size_t got = 0;
    ssize_t n;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof(in)) != 0)
        _exit(2);
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
    while (got < ANSWER_BYTES - 1 && (n = recv(fd, out + got, ANSWER_BYTES - 1 - got, 0)) > 0)
        got += (size_t)n;
    out[got] = '\0';
    close(fd);
    return got;
}

/* The same as another user; what came back, or "" where that was nothing. */
static const char *converse_as_nobody(const char *text)
{
    static char out[ANSWER_BYTES];
    int pipes[2], status = 0;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setuid(NOBODY) != 0)
            _exit(4);
        size_t n = converse(text, out);
        _exit(ty_write_all(pipes[1], out, n) == TY_OK ? 0 : 5);
    }
    close(pipes[1]);
    size_t got = 0;
    ssize_t n;
    while ((n = read(pipes[0], out + got, sizeof(out) - 1 - got)) > 0)
        got += (size_t)n;
    out[got] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return out;
}

#define HEAD        "Host: 127.0.0.1\r\nConnection: close\r\n"
#define WITH(token) "Authorization: Bearer " token "\r\n"

static void assert_has(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' is not in '%s'", words, text ? text : "");
}

static void need_root(void)
{
    if (geteuid() != 0) {
        print_message("needs root to become another user: skipped\n");
        skip();
    }
}

static uint64_t refusals(void)
{
    struct http_stats stats;
    http_server_stats(yard.server, &stats);
    return stats.refused_peers;
}

static void token_is_found_in_headers(void **state)
{
    (void)state;
    static const struct {
        const char *head, *token; /* NULL: not complete */
    } cases[] = {
        {"", NULL},
        {"GET / HTTP/1.1", NULL},
        {"GET / HTTP/1.1\r\n", NULL},
        {"GET / HTTP/1.1\r\nAuthorization: Bearer a\r\n", NULL},
        {"GET / HTTP/1.1\r\nAuthorization: Bearer a\r\n\r", NULL},
        {"GET / HTTP/1.1\r\n\r\n", ""},
        {"GET / HTTP/1.1\r\n\r\nAuthorization: Bearer a\r\n\r\n", ""},
        {"GET / HTTP/1.1\r\nAuthorization: Bearer a\r\n\r\n", "a"},
        {"GET / HTTP/1.1\nauthorization:bearer   a  \n\n", "a"},
        {"GET / HTTP/1.1\r\nAuthorization: Basic a\r\n\r\n", ""},
        {"GET / HTTP/1.1\r\nAuthorization: Bearer\r\n\r\n", ""},
        {"GET / HTTP/1.1\r\nno colon\r\nX-Trainyard-Token: b\r\nAuthorization: Bearer a\r\n\r\n",
         "b"},
        {"GET / HTTP/1.1\r\nAuthorization: Bearer a\r\nx-trainyard-token: b\r\n\r\n", "b"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        ty_str token = TY_STR("untouched");
        bool whole = head_token(ty_str_of(cases[i].head), &token);
        assert_int_equal(whole, cases[i].token != NULL);
        assert_true(ty_str_is(token, whole ? cases[i].token : "untouched"));
    }
}

static void own_uid_needs_none(void **state)
{
    (void)state;
    char out[ANSWER_BYTES];
    converse("GET /who HTTP/1.1\r\n" HEAD "\r\n", out);
    assert_has(out, "own 0/0/0-0 ");
    converse("GET /who HTTP/1.1\r\n" HEAD WITH("good1") "\r\n", out);
    assert_has(out, "own 7/2/1-3 good1");
    converse("GET /who HTTP/1.1\r\n" HEAD WITH("over1") "\r\n", out);
    assert_has(out, "own 0/0/0-0 ");
    converse("GET /v1/a/projects/other/jobs HTTP/1.1\r\n" HEAD WITH("good1") "\r\n", out);
    assert_has(out, "HTTP/1.1 200");
}

static void foreign_needs_a_live_one(void **state)
{
    (void)state;
    need_root();
    uint64_t before = refusals();
    assert_has(converse_as_nobody("GET /who HTTP/1.1\r\n" HEAD WITH("good1") "\r\n"),
               "foreign 7/2/1-3 good1");
    assert_has(converse_as_nobody("GET /who HTTP/1.1\r\n" HEAD "X-Trainyard-Token: good2\r\n\r\n"),
               "foreign 7/2/1-3 good2");
    assert_int_equal(refusals(), before);
    static const char *const bad[] = {
        "GET /who HTTP/1.1\r\n" HEAD "\r\n",
        "GET /who HTTP/1.1\r\n" HEAD WITH("bad") "\r\n",
        "GET /who HTTP/1.1\r\n" HEAD WITH("over1") "\r\n",
        "GET /none HTTP/1.1\r\n" HEAD WITH("over1") "\r\n",
        "POST /who HTTP/1.1\r\n" HEAD WITH("over1") "Content-Length: 3\r\n\r\nabc",
        "rubbish\r\n\r\n",
    };
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_string_equal(converse_as_nobody(bad[i]), "");
    assert_int_equal(refusals(), before + TY_COUNT(bad));
}

static void each_request_needs_it(void **state)
{
    (void)state;
    need_root();
    const char *out = converse_as_nobody("GET /who HTTP/1.1\r\nHost: 127.0.0.1\r\n" WITH(
        "good1") "\r\n"
                 "GET /who HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_has(out, "foreign 7/2/1-3 good1");
    assert_null(strstr(strstr(out, "good1"), "HTTP/1.1"));
}

static void foreign_has_its_project(void **state)
{
    (void)state;
    need_root();
    assert_has(
        converse_as_nobody("GET /v1/a/projects/mine/jobs HTTP/1.1\r\n" HEAD WITH("good1") "\r\n"),
        "HTTP/1.1 200");
    const char *out = converse_as_nobody(
        "GET /v1/mine/projects/other/jobs HTTP/1.1\r\n" HEAD WITH("good1") "\r\n");
    assert_has(out, "HTTP/1.1 403");
    assert_has(out, "project 'other'");
}

/* A body in pieces is not begun before it is known whose it is. */
static void foreign_bodies_in_pieces(void **state)
{
    (void)state;
    need_root();
    uint64_t before = refusals();
    pieces = 0;
    assert_string_equal(converse_as_nobody("POST /pieces HTTP/1.1\r\n" HEAD WITH(
                            "over1") "Content-Length: 3\r\n\r\nabc"),
                        "");
    assert_int_equal(refusals(), before + 1);
    assert_has(converse_as_nobody("POST /pieces/other HTTP/1.1\r\n" HEAD WITH(
                   "good1") "Content-Length: 3\r\n\r\nabc"),
               "HTTP/1.1 403");
    assert_int_equal(pieces, 0);
    assert_has(converse_as_nobody("POST /pieces/mine HTTP/1.1\r\n" HEAD WITH(
                   "good1") "Content-Length: 3\r\n\r\nabc"),
               "foreign 7/2/1-3 good1");
    assert_int_equal(pieces, 1);
}

/* It is closed at its first byte, long before its time is over. */
static void foreign_tls_is_closed(void **state)
{
    (void)state;
    need_root();
    uint64_t before = refusals();
    int64_t start_ms = ty_boot_ms();
    assert_string_equal(converse_as_nobody("\x16\x03\x01"), "");
    assert_int_equal(refusals(), before + 1);
    print_message("closed after %d ms\n", (int)(ty_boot_ms() - start_ms));
}

/* What comes before TLS: all of it or nothing, and only ours. */
static void introduction_is_measured(void **state)
{
    (void)state;
    static const char whole[] = "CONNECT trainyard HTTP/1.1\r\n" WITH("good1") "\r\n";
    assert_int_equal(introduction_bytes(TY_STR("")), 0);
    for (size_t n = 0; n < strlen(whole); n++)
        assert_int_equal(introduction_bytes((ty_str){whole, n}), 0);
    char more[sizeof whole + 3];
    snprintf(more, sizeof more, "%s\x16\x03\x01", whole);
    assert_int_equal(introduction_bytes(ty_str_of(more)), strlen(whole));
    assert_int_equal(introduction_bytes(TY_STR("CONNECT other HTTP/1.1\r\n\r\n")), 0);
}

/* Without a token, with one that is none of ours, or where no TLS is spoken: not a byte. */
static void introduction_needs_a_token(void **state)
{
    (void)state;
    need_root();
    uint64_t before = refusals();
    assert_string_equal(converse_as_nobody("CONNECT trainyard HTTP/1.1\r\n\r\n\x16\x03\x01"), "");
    assert_string_equal(
        converse_as_nobody("CONNECT trainyard HTTP/1.1\r\n" WITH("bad") "\r\n\x16\x03\x01"), "");
    assert_string_equal(
        converse_as_nobody("CONNECT trainyard HTTP/1.1\r\n" WITH("good1") "\r\n\x16\x03\x01"), "");
    assert_int_equal(refusals(), before + 3);
}

/* Whoever sends nothing, or too little, is closed at its time, and places come free again. */
static void silent_ones_are_closed(void **state)
{
    (void)state;
    need_root();
    uint64_t before = refusals();
    assert_string_equal(converse_as_nobody("GET /who HTTP/1.1\r\nHost: 127"), "");
    assert_int_equal(refusals(), before + 1);
    assert_has(converse_as_nobody("GET /who HTTP/1.1\r\n" HEAD WITH("good1") "\r\n"), "good1");
}

static void places_are_given_back(void **state)
{
    (void)state;
    need_root();
    for (int i = 0; i < HTTP_MAX_FOREIGN + 8; i++)
        assert_has(converse_as_nobody("GET /who HTTP/1.1\r\n" HEAD WITH("good1") "\r\n"), "good1");
}

static const struct CMUnitTest tests[] = {
    TEST("token/is_found_in_headers", token_is_found_in_headers),
    TEST("own/needs_none", own_uid_needs_none),
    TEST("foreign/needs_a_live_one", foreign_needs_a_live_one),
    TEST("foreign/each_request_needs_it", each_request_needs_it),
    TEST("foreign/has_its_project", foreign_has_its_project),
    TEST("foreign/bodies_in_pieces", foreign_bodies_in_pieces),
    TEST("foreign/tls_is_closed", foreign_tls_is_closed),
    TEST("foreign/introduction_is_measured", introduction_is_measured),
    TEST("foreign/introduction_needs_a_token", introduction_needs_a_token),
    TEST("foreign/silent_ones_are_closed", silent_ones_are_closed),
    TEST("foreign/places_are_given_back", places_are_given_back),
};

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("http_foreign", tests, yard_open, yard_close) == 0 ? 0 : 1;
}
