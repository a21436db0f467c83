/* first.c -- plain or TLS, told by a connection's first byte.
 *
 * Both are served on one port. A TLS client begins with a handshake record (22), and no HTTP
 * request begins with that byte. Most clients have sent something by the time they are accepted;
 * the others wait here, looked after by the event thread, for no longer than a header may take.
 * TLS connections go to a daemon of their own, whose callbacks are the same: what a request may do
 * does not depend on how it came, except that only TLS is spoken to for Google's own hosts
 * (request.c). */
#include "http/http_int.h"

#include <sys/epoll.h>

enum { TLS_HANDSHAKE = 22 };

/* ---- handing over ---- */

static void hand_over(struct http_server *s, bool tls, int fd, const struct sockaddr_storage *addr,
                      socklen_t len)
{
    struct MHD_Daemon *daemon = tls ? s->tls_daemon : s->daemon;
    if (s->mhd->MHD_add_connection(daemon, fd, (const struct sockaddr *)addr, len) != MHD_YES)
        atomic_fetch_sub(&s->live, 1); /* MHD has closed it */
}

/* 1: TLS, 0: not, or it has ended already, which MHD sees; -1: nothing has come yet. */
static int first_is_tls(int fd)
{
    unsigned char byte = 0;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return -1;
    return n == 1 && byte == TLS_HANDSHAKE;
}

/* ---- those that have said nothing yet; the list is guarded by conn_lock ---- */

static void first_wait(struct http_server *s, int fd, const struct sockaddr_storage *addr,
                       socklen_t len)
{
    struct source *src = calloc(1, sizeof(*src));
    ty_assert(src != NULL);
    *src = (struct source){.kind = SOURCE_FIRST,
                           .fd = fd,
                           .deadline_ms = ty_boot_ms() + s->header_timeout_ms,
                           .addr = *addr,
                           .addr_len = len};
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = src};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        free(src);
        hand_over(s, false, fd, addr, len);
        return;
    }
    pthread_mutex_lock(&s->conn_lock);
    src->next = s->silent;
    s->silent = src;
    s->silent_count++;
    pthread_mutex_unlock(&s->conn_lock);
}

static void silent_remove(struct http_server *s, struct source *src)
{
    pthread_mutex_lock(&s->conn_lock);
    struct source **at = &s->silent;
    while (*at != src)
        at = &(*at)->next;
    *at = src->next;
    s->silent_count--;
    pthread_mutex_unlock(&s->conn_lock);
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, src->fd, NULL);
}

void first_read(struct http_server *s, struct source *src)
{
    int tls = first_is_tls(src->fd);
    if (tls < 0)
        return;
    silent_remove(s, src);
    hand_over(s, tls == 1, src->fd, &src->addr, src->addr_len);
    free(src);
}

void first_take(struct http_server *s, int fd, const struct sockaddr_storage *addr, socklen_t len)
{
    bool plain = !atomic_load(&s->tls_ready) || addr->ss_family == AF_UNIX;
    int tls = plain ? 0 : first_is_tls(fd);
    if (tls < 0)
        first_wait(s, fd, addr, len);
    else
        hand_over(s, tls == 1, fd, addr, len);
}

static void silent_end(struct http_server *s, struct source *src)
{
    silent_remove(s, src);
    close(src->fd);
    free(src);
    atomic_fetch_sub(&s->live, 1);
}

int64_t first_sweep(struct http_server *s, int64_t now)
{
    int64_t next = -1;
    for (struct source *src = s->silent, *after; src; src = after) { /* this thread changes it */
        after = src->next;
        int64_t left = src->deadline_ms - now;
        if (left > 0) {
            next = next < 0 || left < next ? left : next;
            continue;
        }
        silent_end(s, src);
        pthread_mutex_lock(&s->conn_lock);
        s->stats.dropped_slow++;
        pthread_mutex_unlock(&s->conn_lock);
    }
    return next;
}

void first_clear(struct http_server *s)
{
    while (s->silent)
        silent_end(s, s->silent);
}
