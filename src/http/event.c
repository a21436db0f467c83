/* event.c -- the thread that accepts connections and ends overdue ones.
 *
 * We accept ourselves, so that a peer that is not ours never reaches the HTTP
 * parser: foreign.c closes it without a byte, unless it shows a token. libmicrohttpd's own timeout
 * counts idle time only, which a client that sends a byte now and then never meets; the sweep here
 * looks at each connection's phase instead: headers   header_timeout_ms from the start of the
 * connection or request line body      20 s, and a second more for each 64 KB that arrived work
 * none: the request is with a worker or parked send      20 s, and a second more for each 64 KB of
 * the answer idle      idle_timeout_ms An overdue socket is shut down, which MHD's thread sees as
 * its end. */
#include "http/http_int.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

enum {
    ACCEPT_BURST = 64,
    SWEEP_MS = 250,
    LINGER_MS = 5000,
    LINGER_READ_BYTES = 65536,
    LINGER_READS = 8,
};

/* ---- connections ---- */

void conn_phase_set(struct http_server *s, struct conn *c, enum conn_phase phase,
                    int64_t deadline_ms)
{
    pthread_mutex_lock(&s->conn_lock);
    c->phase = phase;
    c->deadline_ms = deadline_ms;
    c->ended = false;
    pthread_mutex_unlock(&s->conn_lock);
}

/* MHD misses a client's end that arrived together with its last bytes (it takes a short read for
 * "no more to come"). Seen in two sweeps running, MHD is not going to notice by itself. */
static bool conn_has_ended(struct conn *c)
{
    char byte;
    if (c->phase == CONN_WORK || c->phase == CONN_SEND)
        return false;
    bool before = c->ended;
    c->ended = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    return before && c->ended;
}

/* Shut down what is overdue. Returns ms until the next look; -1 when there is nothing to look at.
 */
static int64_t sweep_conns(struct http_server *s, int64_t now)
{
    pthread_mutex_lock(&s->conn_lock);
    bool any = s->conns != NULL;
    for (struct conn *c = s->conns; c; c = c->next) {
        if (c->dropped)
            continue;
        bool overdue = c->deadline_ms != 0 && now >= c->deadline_ms;
        if (!overdue && !conn_has_ended(c))
            continue;
        c->dropped = true;
        s->stats.dropped_slow += overdue && c->phase != CONN_IDLE;
        shutdown(c->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&s->conn_lock);
    if (!any)
        return -1;
    int64_t least =
        s->header_timeout_ms < s->idle_timeout_ms ? s->header_timeout_ms : s->idle_timeout_ms;
    return least / 4 < SWEEP_MS ? least / 4 : SWEEP_MS;
}

/* ---- lingering: read and forget, so that our close is no reset ---- */

void event_linger(struct http_server *s, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return;
    struct source *src = calloc(1, sizeof(*src));
    ty_assert(src != NULL);
    *src =
        (struct source){.kind = SOURCE_LINGER, .fd = copy, .deadline_ms = ty_boot_ms() + LINGER_MS};
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = src};

    pthread_mutex_lock(&s->conn_lock);
    bool kept =
        s->linger_count < HTTP_MAX_LINGER && epoll_ctl(s->epoll, EPOLL_CTL_ADD, copy, &ev) == 0;
    if (kept) {
        src->next = s->lingering;
        s->lingering = src;
        s->linger_count++;
    }
    pthread_mutex_unlock(&s->conn_lock);
    if (!kept) {
        close(copy);
        free(src);
        return;
    }
    event_kick(s);
}

static void linger_end(struct http_server *s, struct source *src)
{
    pthread_mutex_lock(&s->conn_lock);
    struct source **at = &s->lingering;
    while (*at != src)
        at = &(*at)->next;
    *at = src->next;
    s->linger_count--;
    pthread_mutex_unlock(&s->conn_lock);
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, src->fd, NULL);
    close(src->fd);
    free(src);
}

static void linger_read(struct http_server *s, struct source *src)
{
    static _Thread_local char sink[LINGER_READ_BYTES];
    for (int i = 0; i < LINGER_READS; i++) {
        ssize_t n = recv(src->fd, sink, sizeof(sink), MSG_DONTWAIT);
        if (n > 0)
            continue;
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            linger_end(s, src);
        return;
    }
}

static int64_t sweep_lingering(struct http_server *s, int64_t now)
{
    for (;;) {
        pthread_mutex_lock(&s->conn_lock);
        bool any = s->lingering != NULL;
        struct source *src = s->lingering;
        while (src && now < src->deadline_ms)
            src = src->next;
        pthread_mutex_unlock(&s->conn_lock);
        if (!src)
            return any ? SWEEP_MS : -1;
        linger_end(s, src);
    }
}

/* ---- accepting ---- */

static bool peer_allowed(struct http_server *s, enum source_kind kind, int fd)
{
    if (kind == SOURCE_TCP)
        return peer_check(&s->peer, fd, geteuid()) == TY_OK;
    struct ucred cred = {0};
    socklen_t len = sizeof(cred);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

/* Out of descriptors: give up the spare one to take the connection and close it, else
 * epoll would report it for ever. */
static void accept_and_drop(struct http_server *s, int listener)
{
    log_warn("http.no_descriptors", "error='%s'", strerror(errno));
    close(s->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        close(fd);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* One more for MHD; closed, if it is one too many. */
static bool connection_count(struct http_server *s, int fd)
{
    if (atomic_fetch_add(&s->live, 1) < s->connection_limit)
        return true;
    atomic_fetch_sub(&s->live, 1);
    close(fd);
    return false;
}

bool event_add_connection(struct http_server *s, int fd, const struct sockaddr *addr, socklen_t len)
{
    if (!connection_count(s, fd))
        return false;
    if (s->mhd->MHD_add_connection(s->daemon, fd, addr, len) == MHD_YES)
        return true;
    atomic_fetch_sub(&s->live, 1); /* MHD has closed it */
    return false;
}

bool event_add_introduced(struct http_server *s, int fd, const struct sockaddr_storage *addr,
                          socklen_t len)
{
    if (!connection_count(s, fd))
        return false;
    first_accept(s, fd, addr, len);
    return true;
}

static void accept_burst(struct http_server *s, const struct source *src)
{
    for (int i = 0; i < ACCEPT_BURST; i++) {
        struct sockaddr_storage addr = {0};
        socklen_t len = sizeof(addr);
        int fd = accept4(src->fd, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if (errno == EMFILE || errno == ENFILE)
                accept_and_drop(s, src->fd);
            return;
        }
        if (!peer_allowed(s, src->kind, fd))
            foreign_accept(s, fd);
        else if (src->kind != SOURCE_TCP || !s->tls_ready)
            event_add_connection(s, fd, (struct sockaddr *)&addr, len);
        else if (connection_count(s, fd))
            first_accept(s, fd, &addr, len);
    }
}

/* ---- the loop ---- */

static int64_t sooner(int64_t a, int64_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a < b ? a : b;
}

static int64_t event_tick(struct http_server *s)
{
    int64_t now = ty_boot_ms();
    int64_t wait = sooner(sweep_conns(s, now), sweep_lingering(s, now));
    wait = sooner(wait, first_sweep(s, now));
    wait = sooner(wait, foreign_sweep(s, now));
    return sooner(wait, worker_tick(s, now));
}

static void *event_main(void *arg)
{
    struct http_server *s = arg;
    while (!s->event_stop) {
        struct epoll_event ready[16];
        int64_t wait = event_tick(s);
        int n = epoll_wait(s->epoll, ready, TY_COUNT(ready), wait > 60000 ? 60000 : (int)wait);
        for (int i = 0; i < n; i++) {
            struct source *src = ready[i].data.ptr;
            if (src->kind == SOURCE_KICK) {
                eventfd_t ignored;
                (void)eventfd_read(src->fd, &ignored);
            } else if (src->kind == SOURCE_LINGER) {
                linger_read(s, src);
            } else if (src->kind == SOURCE_FIRST) {
                first_ready(s, src);
            } else if (src->kind == SOURCE_STRANGER) {
                foreign_look(s, src, ready[i].events);
            } else {
                accept_burst(s, src);
            }
        }
    }
    return NULL;
}

void event_kick(struct http_server *s)
{
    (void)eventfd_write(s->kick.fd, 1);
}

ty_err event_start(struct http_server *s)
{
    struct source *sources[] = {&s->kick, &s->tcp4, &s->tcp6, &s->local};
    for (size_t i = 0; i < TY_COUNT(sources); i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = sources[i]};
        if (sources[i]->fd >= 0 && epoll_ctl(s->epoll, EPOLL_CTL_ADD, sources[i]->fd, &ev) != 0)
            return ty_fail_errno(errno, "cannot wait for connections");
    }
    ty_err err = thread_start(&s->event_thread, event_main, s);
    s->event_running = err == TY_OK;
    return err;
}

void event_stop(struct http_server *s)
{
    if (!s->event_running)
        return;
    s->event_stop = true;
    event_kick(s);
    pthread_join(s->event_thread, NULL);
    s->event_running = false;
}
