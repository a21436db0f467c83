/* hammer.c -- the same HTTP request again and again over kept-alive connections; prints what came
 * of it.
 *
 *   build/bench/hammer PORT CONNECTIONS COUNT METHOD TARGET [BODY-BYTES]
 *
 * COUNT requests in all, each connection a thread that sends one and reads its whole answer before
 * the next. A "%d" in TARGET becomes the request's number. One line on stdout: requests, seconds,
 * bytes of bodies received, and milliseconds of the median and the slowest request. Any status but
 * 200 ends it. Plain blocking sockets and one buffer a thread, so that the client's own cost is
 * small and the same whoever answers. */
#define TY_SEAM
#include "base/base.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

enum { MAX_CONNECTIONS = 512, BUFFER = 256 << 10, HEAD = 4096 };

static struct {
    uint16_t port;
    int64_t count, next, received;
    const char *method, *target;
    size_t body_bytes;
    char *body;
    double *taken_ms; /* by request */
} work;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "hammer: %s %s: %s\n", work.method, work.target, what);
    exit(1);
}

static double seconds(void)
{
    return (double)ty_boot_ns() / 1e9;
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(work.port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        die(strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(int fd, const char *p, size_t n, int flags)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL | flags);
        if (sent <= 0)
            die(strerror(errno));
        p += sent;
        n -= (size_t)sent;
    }
}

static void send_request(int fd, int64_t number)
{
    char head[HEAD];
    const char *mark = strstr(work.target, "%d");
    int before = mark ? (int)(mark - work.target) : (int)strlen(work.target);
    int n = snprintf(head, sizeof head, "%s %.*s", work.method, before, work.target);
    if (mark)
        n += snprintf(head + n, sizeof head - (size_t)n, "%" PRId64 "%s", number, mark + 2);
    n += snprintf(head + n, sizeof head - (size_t)n,
                  " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
                  "Content-Length: %zu\r\n\r\n",
                  work.body_bytes);
    if (n >= (int)sizeof head)
        die("the target is too long");
    send_all(fd, head, (size_t)n, work.body_bytes > 0 ? MSG_MORE : 0);
    send_all(fd, work.body, work.body_bytes, 0);
}

/* Read one answer; returns the size of its body. *ret_close: its connection ends here. */
static int64_t read_answer(int fd, char *buffer, bool *ret_close)
{
    size_t have = 0;
    char *end;
    do {
        ssize_t n = have < BUFFER - 1 ? recv(fd, buffer + have, BUFFER - 1 - have, 0) : 0;
        if (n <= 0)
            die("the connection ended in an answer's headers");
        have += (size_t)n;
        buffer[have] = '\0';
    } while (!(end = strstr(buffer, "\r\n\r\n")));
    char *length = strcasestr(buffer, "\r\nContent-Length:");
    if (strncmp(buffer, "HTTP/1.1 200", 12) != 0 || !length || length > end)
        die(buffer);
    char *close_it = strcasestr(buffer, "\r\nConnection: close");
    *ret_close = close_it && close_it < end;
    int64_t size = strtoll(length + 17, NULL, 10), got = (int64_t)(buffer + have - (end + 4));
    while (got < size) {
        ssize_t n = recv(fd, buffer, BUFFER, 0);
        if (n <= 0)
            die("the connection ended in an answer's body");
        got += n;
    }
    return size;
}

static void *run(void *arg)
{
    (void)arg;
    char *buffer = malloc(BUFFER);
    ty_assert(buffer);
    int fd = dial();
    int64_t number;
    while ((number = __atomic_fetch_add(&work.next, 1, __ATOMIC_RELAXED)) < work.count) {
        double start = seconds();
        send_request(fd, number);
        bool ends = false;
        __atomic_add_fetch(&work.received, read_answer(fd, buffer, &ends), __ATOMIC_RELAXED);
        if (ends) { /* who closes, pays for the next connection */
            close(fd);
            fd = dial();
        }
        work.taken_ms[number] = (seconds() - start) * 1e3;
    }
    close(fd);
    free(buffer);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int64_t port = 0, connections = 0, body = 0;
    bool ok = argc >= 6 && ty_parse_i64(ty_str_of(argv[1]), &port) == TY_OK &&
              ty_parse_i64(ty_str_of(argv[2]), &connections) == TY_OK &&
              ty_parse_i64(ty_str_of(argv[3]), &work.count) == TY_OK &&
              (argc < 7 || ty_parse_i64(ty_str_of(argv[6]), &body) == TY_OK);
    if (!ok || connections < 1 || connections > MAX_CONNECTIONS || work.count < 1 || body < 0) {
        fprintf(stderr, "usage: %s PORT CONNECTIONS COUNT METHOD TARGET [BODY-BYTES]\n", argv[0]);
        return 2;
    }
    work.port = (uint16_t)port;
    work.method = argv[4];
    work.target = argv[5];
    work.body_bytes = (size_t)body;
    work.body = malloc(work.body_bytes + 1);
    work.taken_ms = calloc((size_t)work.count, sizeof *work.taken_ms);
    ty_assert(work.body && work.taken_ms);
    for (size_t i = 0; i < work.body_bytes; i++)
        work.body[i] = (char)(i * 2654435761u >> 13);
    pthread_t threads[MAX_CONNECTIONS];
    double start = seconds();
    for (int64_t i = 0; i < connections; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0)
            die("no more threads");
    for (int64_t i = 0; i < connections; i++)
        pthread_join(threads[i], NULL);
    double took = seconds() - start;
    qsort(work.taken_ms, (size_t)work.count, sizeof *work.taken_ms, compare);
    printf("%" PRId64 " %.6f %" PRId64 " %.3f %.3f\n", work.count, took, work.received,
           work.taken_ms[work.count / 2], work.taken_ms[work.count - 1]);
    free(work.body);
    free(work.taken_ms);
    return 0;
}
