/* test_stream.c -- bodies and answers in pieces; answers at once; the last table. */
#include "http/test_server.h"

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

static void now_or_later(void **state)
{
    (void)state;
    const char *reply = ask_headers("GET /now/quick?q=1", HOST);
    assert_status(reply, 200);
    assert_has(reply, "X-Way: loop\r\n");
    assert_has(reply, "at once: 1");
    assert_int_equal(now_runs, 0);
    reply = ask_headers("GET /now/slow?q=2", HOST);
    assert_status(reply, 200);
    assert_has(reply, "\r\n\r\nlater: 2");
    assert_null(strstr(reply, "X-Way"));
    assert_status(reply = ask_headers("GET /now/fails", HOST), 404);
    assert_null(strstr(reply, "X-Way"));
    int tries = now_tries;
    assert_has(ask_headers("POST /now/quick?q=3", HOST), "later: 3");
    assert_status(ask_headers("GET /now/quick", ""), 400); /* no Host */
    assert_status(ask_headers("GET /now/qui%2", HOST), 400);
    assert_int_equal(now_tries, tries);
    assert_int_equal(now_runs, 3);
}

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
    TEST("serve/now_or_later", now_or_later),
};
TEST_SERVER_MAIN("http_stream", tests)
