/* test_sender.c -- large files as answers: whole, cut short when they change, clients that leave.
 */
#define TY_SEAM
#include "base/test.h"
#include "http/http_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

enum { FILE_BYTES = 12 << 20, FIRST = (1 << 20) + 3, UNREAD = 200 << 10 };

static struct {
    char dir[64], socket[128], path[128];
    struct ty_arena arena;
    struct ty_config config;
    struct http_router *router;
    struct http_server *server;
    struct timespec mtime; /* the file's, when it was made */
} yard;
static atomic_int closed;

/* ---- the file as an answer ---- */

struct letters {
    int fd;
    int64_t first, size;
};

static char letter(int64_t at)
{
    return (char)('a' + at % 23);
}

static bool letters_same(void *arg)
{
    struct stat st;
    return fstat(((struct letters *)arg)->fd, &st) == 0 && st.st_mtim.tv_sec == yard.mtime.tv_sec &&
           st.st_mtim.tv_nsec == yard.mtime.tv_nsec;
}

static int64_t letters_read(void *arg, int64_t offset, char *buf, size_t max, bool wait)
{
    struct letters *x = arg;
    (void)wait;
    int64_t left = x->size - offset;
    ssize_t n = pread(x->fd, buf, left < (int64_t)max ? (size_t)left : max, x->first + offset);
    return n == left && !letters_same(x) ? HTTP_SOURCE_FAILED : n;
}

static void letters_close(void *arg)
{
    close(((struct letters *)arg)->fd);
    closed++;
}

static ty_err letters(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)ctx;
    struct letters *x = ty_new(req->arena, struct letters);
    int64_t first;
    ty_err err = http_query_i64(req, "first", 0, &first);
    if (err != TY_OK)
        return err;
    *x = (struct letters){open(yard.path, O_RDONLY | O_CLOEXEC), first, FILE_BYTES - first};
    res->content_type = "text/plain";
    res->source = (struct http_source){.size = x->size,
                                       .read = letters_read,
                                       .close = letters_close,
                                       .arg = x,
                                       .same = letters_same,
                                       .file = x->fd,
                                       .file_first = first};
    return TY_OK;
}

static const struct http_route rows[] = {{HTTP_GET, "/letters", letters},
                                         {HTTP_HEAD, "/letters", letters}};

/* ---- a yard ---- */

static void file_make(void)
{
    char *text = malloc(FILE_BYTES);
    for (int64_t i = 0; i < FILE_BYTES; i++)
        text[i] = letter(i);
    int fd = open(yard.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, FILE_BYTES), FILE_BYTES);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    yard.mtime = st.st_mtim;
    close(fd);
    free(text);
    usleep(20 * 1000); /* the next write has another time */
}

static void file_spoil(int64_t at)
{
    int fd = open(yard.path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "!!!!", 4, at), 4);
    close(fd);
}

static int yard_open(void **state)
{
    (void)state;
    snprintf(yard.dir, sizeof(yard.dir), "/tmp/test_sender.XXXXXX");
    if (!mkdtemp(yard.dir))
        return -1;
    snprintf(yard.socket, sizeof(yard.socket), "%s/api.sock", yard.dir);
    snprintf(yard.path, sizeof(yard.path), "%s/letters", yard.dir);
    file_make();
    ty_config_init(&yard.config, &yard.arena);
    yard.config.listen = (char *)"127.0.0.1:0";
    struct http_routes table = {.rows = rows, .count = TY_COUNT(rows)};
    closed = 0;
    return http_router_new(&table, 1, &yard.router) == TY_OK &&
                   http_server_start(&yard.config, yard.socket, yard.router, NULL, &yard.server) ==
                       TY_OK
               ? 0
               : -1;
}

static int yard_close(void **state)
{
    (void)state;
    http_server_stop(yard.server);
    http_router_free(yard.router);
    ty_arena_clear(&yard.arena);
    unlink(yard.path);
    return rmdir(yard.dir);
}

/* ---- a client ---- */

static int dial(int family)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    in.sin_port = htons((uint16_t)http_server_port(yard.server));
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", yard.socket);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(family == AF_INET ? connect(fd, (struct sockaddr *)&in, sizeof(in))
                                       : connect(fd, (struct sockaddr *)&un, sizeof(un)),
                     0);
    struct timeval limit = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

/* Ask, and read the headers of the answer. */
static int begin(int family, const char *line, char *head, size_t size)
{
    char request[256];
    size_t n = 0;
    int fd = dial(family);
    snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", line);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    do
        assert_int_equal(recv(fd, head + n, 1, 0), 1);
    while (++n < size - 1 && (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0));
    head[n] = '\0';
    return fd;
}

/* Read up to `max` bytes of the body, which begins at byte `first` of the file; fewer: it ended. */
static int64_t body_read(int fd, int64_t first, int64_t max)
{
    static char piece[1 << 16];
    int64_t got = 0;
    while (got < max) {
        int64_t left = max - got;
        ssize_t n =
            recv(fd, piece, left < (int64_t)sizeof(piece) ? (size_t)left : sizeof(piece), 0);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            if (piece[i] != letter(first + got + i) && piece[i] != '!')
                fail_msg("byte %" PRId64 " is '%c'", first + got + i, piece[i]);
        got += n;
    }
    return got;
}

static void wait_closed(int count)
{
    for (int i = 0; i < 1000 && closed < count; i++)
        usleep(10000);
    assert_int_equal(closed, count);
}

/* ---- cases ---- */

static void sender_whole(void **state)
{
    (void)state;
    static const int families[] = {AF_INET, AF_UNIX};
    char head[2048], *length;
    for (size_t i = 0; i < TY_COUNT(families); i++) {
        int fd = begin(families[i], "GET /letters", head, sizeof(head));
        assert_non_null(length = strstr(head, "Content-Length: 12582912\r\n"));
        assert_null(strstr(length + 1, "Content-Length"));
        assert_null(strstr(head, "chunked"));
        assert_int_equal(body_read(fd, 0, INT64_MAX), FILE_BYTES);
        close(fd);
        fd = begin(families[i], "GET /letters?first=1048579", head, sizeof(head));
        assert_int_equal(body_read(fd, FIRST, INT64_MAX), FILE_BYTES - FIRST);
        close(fd);
    }
    int fd = begin(AF_INET, "HEAD /letters", head, sizeof(head));
    assert_non_null(strstr(head, "Content-Length: 12582912\r\n"));
    close(fd);
    wait_closed(5);
}

static void sender_many(void **state)
{
    (void)state;
    enum { MANY = 24 };
    int fds[MANY];
    char head[2048];
    for (int i = 0; i < MANY; i++)
        fds[i] = begin(i % 2 ? AF_INET : AF_UNIX, "GET /letters", head, sizeof(head));
    for (int64_t at = 0; at < FILE_BYTES; at += 1 << 20)
        for (int i = 0; i < MANY; i++)
            assert_int_equal(body_read(fds[i], at, 1 << 20), 1 << 20);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    wait_closed(MANY);
}

/* It is noticed between two stretches. */
static void sender_file_changes(void **state)
{
    (void)state;
    char head[2048];
    int fd = begin(AF_INET, "GET /letters", head, sizeof(head));
    usleep(100 * 1000); /* the sockets are full */
    file_spoil(FILE_BYTES - 100);
    assert_true(body_read(fd, 0, INT64_MAX) < FILE_BYTES - HTTP_SOURCE_BYTES);
    close(fd);
    wait_closed(1);
}

/* Bytes lie in the sockets as pages of the file when these are written to: the client gets wrong
 * ones, so it must not get all of them. */
static void sender_pages_on_their_way_change(void **state)
{
    (void)state;
    char head[2048];
    int fd = begin(AF_INET, "GET /letters", head, sizeof(head));
    int64_t share = FILE_BYTES - HTTP_SOURCE_BYTES, pages = share - share / 4;
    assert_int_equal(body_read(fd, 0, pages - UNREAD), pages - UNREAD);
    usleep(100 * 1000);
    file_spoil(pages - 100);
    assert_true(body_read(fd, pages - UNREAD, INT64_MAX) < FILE_BYTES - pages + UNREAD);
    close(fd);
    wait_closed(1);
}

static void sender_file_shrinks(void **state)
{
    (void)state;
    char head[2048];
    int fd = begin(AF_UNIX, "GET /letters", head, sizeof(head));
    assert_int_equal(truncate(yard.path, FILE_BYTES / 2), 0);
    assert_true(body_read(fd, 0, INT64_MAX) < FILE_BYTES);
    close(fd);
    wait_closed(1);
}

static void sender_client_leaves(void **state)
{
    (void)state;
    char head[2048];
    int first = begin(AF_INET, "GET /letters", head, sizeof(head));
    int second = begin(AF_INET, "GET /letters", head, sizeof(head));
    int64_t most = FILE_BYTES - HTTP_SOURCE_BYTES - UNREAD;
    body_read(first, 0, 1 << 20);
    body_read(second, 0, most); /* leaves while the server waits for it to read the rest */
    usleep(100 * 1000);
    close(first);
    close(second);
    wait_closed(2);
}

static void sender_server_stops(void **state)
{
    (void)state;
    char head[2048];
    int fd = begin(AF_INET, "GET /letters", head, sizeof(head));
    http_server_stop(yard.server);
    yard.server = NULL;
    assert_int_equal(closed, 1);
    assert_true(body_read(fd, 0, INT64_MAX) < FILE_BYTES);
    close(fd);
}

static void peer_tells_what_is_unread(void **state)
{
    (void)state;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    struct peer p;
    uint32_t unread = 77;
    char some[100] = "";
    if (peer_open(&p, PEER_SOCK_DIAG) != TY_OK) {
        print_message("no sock_diag here\n");
        skip();
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&in, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&in, &len);
    assert_int_equal(connect(client, (struct sockaddr *)&in, len), 0);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(peer_unread(&p, fd, &unread));
    assert_int_equal(unread, 0);
    assert_int_equal(send(fd, some, sizeof(some), 0), sizeof(some));
    assert_true(peer_unread(&p, fd, &unread));
    assert_int_equal(unread, sizeof(some));
    assert_int_equal(recv(client, some, 60, 0), 60);
    assert_true(peer_unread(&p, fd, &unread));
    assert_int_equal(unread, sizeof(some) - 60);
    close(client);
    assert_false(peer_unread(&p, fd, &unread));
    close(fd);
    close(listener);
    peer_close(&p);
}

#define YARD_TEST(name_, fn_)                                                                      \
    {                                                                                              \
        .name = (name_), .test_func = (fn_), .setup_func = yard_open, .teardown_func = yard_close  \
    }

static const struct CMUnitTest tests[] = {
    YARD_TEST("sender/whole", sender_whole),
    YARD_TEST("sender/many", sender_many),
    YARD_TEST("sender/file_changes", sender_file_changes),
    YARD_TEST("sender/pages_on_their_way_change", sender_pages_on_their_way_change),
    YARD_TEST("sender/file_shrinks", sender_file_shrinks),
    YARD_TEST("sender/client_leaves", sender_client_leaves),
    YARD_TEST("sender/server_stops", sender_server_stops),
    TEST("peer/tells_what_is_unread", peer_tells_what_is_unread),
};
TEST_MAIN("http_sender", tests)
