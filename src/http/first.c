/* first.c -- plain or TLS on one port: a connection's first byte says which.
 *
 * A TLS record of a handshake begins with 22, and no HTTP method does. The byte is looked at, not
 * taken. Few clients have sent it by the time they are accepted, so most wait here for a moment, in
 * the event thread's own epoll; the deadline for headers holds here too. The TLS daemon is made for
 * the first client that wants one: its library costs memory that most servers never need. */
#include "http/http_int.h"

#include <sys/epoll.h>

/* The daemon for TLS, made at need; NULL if it cannot be. */
static struct MHD_Daemon *tls_daemon(struct http_server *s)
{
    struct MHD_Daemon *made;
    if (s->tls_daemon)
        return s->tls_daemon;
    if (daemon_start(s, true, &made) != TY_OK) {
        log_error("http.no_tls", "error='%s'", ty_err_message());
        return NULL;
    }
    s->tls_daemon = made;
    return made;
}

/* Close one that MHD does not get. */
static void drop(struct http_server *s, int fd)
{
    foreign_closed(s, fd);
    close(fd);
    atomic_fetch_sub(&s->live, 1);
}

static void hand_over(struct http_server *s, int fd, const struct sockaddr_storage *addr,
                      socklen_t len, bool tls)
{
    struct MHD_Daemon *daemon = tls ? tls_daemon(s) : s->daemon;
    if (!daemon) {
        drop(s, fd);
        return;
    }
    if (s->mhd->MHD_add_connection(daemon, fd, (const struct sockaddr *)addr, len) != MHD_YES) {
        foreign_closed(s, fd); /* MHD has closed it */
        atomic_fetch_sub(&s->live, 1);
    }
}

/* A replica's introduction is taken: what counts comes behind it. One that is in pieces is left to
 * the HTTP parser, which refuses it: ours comes whole. */
static void introduction_take(int fd)
{
    char head[HTTP_STRANGER_BYTES];
    ssize_t n = recv(fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
    size_t taken = n > 0 ? introduction_bytes((ty_str){head, (size_t)n}) : 0;
    if (taken > 0)
        (void)!recv(fd, head, taken, MSG_DONTWAIT);
}

/* 1: there is one, in *ret_byte; 0: not yet; -1: the client has left. */
static int first_byte(int fd, unsigned char *ret_byte)
{
    ssize_t n = recv(fd, ret_byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 1 && *ret_byte == 'C') {
        introduction_take(fd);
        n = recv(fd, ret_byte, 1, MSG_PEEK | MSG_DONTWAIT);
    }
    if (n == 1)
        return 1;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

void first_accept(struct http_server *s, int fd, const struct sockaddr_storage *addr, socklen_t len)
{
    unsigned char byte;
    int there = first_byte(fd, &byte);
    if (there == 1) {
        hand_over(s, fd, addr, len, byte == HTTP_TLS_HANDSHAKE);
        return;
    }
    struct source *src = calloc(1, sizeof(*src));
    ty_assert(src != NULL);
    *src = (struct source){.kind = SOURCE_FIRST,
                           .fd = fd,
                           .deadline_ms = ty_boot_ms() + s->header_timeout_ms,
                           .addr = *addr,
                           .addr_len = len,
                           .next = s->first_wanted};
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = src};
    if (there < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        drop(s, fd);
        free(src);
        return;
    }
    s->first_wanted = src;
}

/* Take it out of the list and the epoll; the descriptor stays open. */
static void forget(struct http_server *s, struct source *src)
{
    struct source **at = &s->first_wanted;
    while (*at != src)
        at = &(*at)->next;
    *at = src->next;
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, src->fd, NULL);
    free(src);
}

void first_ready(struct http_server *s, struct source *src)
{
    unsigned char byte = 0;
    struct source copy = *src;
    int there = first_byte(src->fd, &byte);
    if (there == 0)
        return;
    forget(s, src);
    if (there == 1) {
        hand_over(s, copy.fd, &copy.addr, copy.addr_len, byte == HTTP_TLS_HANDSHAKE);
        return;
    }
    drop(s, copy.fd);
}

int64_t first_sweep(struct http_server *s, int64_t now_ms)
{
    int64_t wait = -1;
    for (struct source *src = s->first_wanted, *next; src; src = next) {
        next = src->next;
        int64_t left = src->deadline_ms - now_ms;
        if (left > 0) {
            wait = wait < 0 || left < wait ? left : wait;
            continue;
        }
        int fd = src->fd;
        forget(s, src);
        drop(s, fd);
        pthread_mutex_lock(&s->conn_lock);
        s->stats.dropped_slow++;
        pthread_mutex_unlock(&s->conn_lock);
    }
    return wait;
}

void first_clear(struct http_server *s)
{
    while (s->first_wanted) {
        int fd = s->first_wanted->fd;
        forget(s, s->first_wanted);
        close(fd);
    }
}
