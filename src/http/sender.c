/* sender.c -- the bytes of large files, moved by the kernel from its page cache to the client.
 *
 * An answer whose source is a file (http.h) and that is not small goes out in two parts. MHD sends
 * the headers, with the whole length in them; then the connection is suspended and a sender's
 * thread writes to the socket itself, past MHD, all but the last HTTP_SOURCE_BYTES; those MHD takes
 * from the source's `read` as ever, which looks once more whether the file is what it was before it
 * gives the last bytes away; if not, the answer ends short of its length. MHD sends what it has not
 * counted only to a connection that ends with it: one large download, one connection.
 *
 * sendfile copies nothing: until the client takes the bytes, what lies in the two sockets' buffers
 * are the pages of the file, and a program that writes into it changes what the client is going to
 * read. So a look at the file says nothing about bytes still on their way: before the last part the
 * sender waits until none of these are pages (S3). So that there is seldom anything to wait for,
 * the stretch before the last part is copied: while the client reads the one, the other is sent.
 * Where nobody can tell what the client has read (a Unix socket, no sock_diag) all bytes are
 * copied, which is slower and needs no wait. TLS copies in MHD.
 *
 * S1 A transfer is in one of three hands: in `sending` and armed in send_epoll (EPOLLONESHOT: one
 *    thread gets it), in `draining` until its time, or with the thread that took it.
 * S2 A turn is at most TURN_BYTES; then the others have theirs. A thread waits for the disk and for
 *    nothing else, and it holds up no request but large downloads: HTTP_SENDERS slow reads at once.
 * S3 Before the last bytes: what our socket has unacknowledged (SIOCOUTQ) and then the peer's has
 *    unread (sock_diag) is no more than what was copied at the end, so every byte that sendfile
 * sent is in the client's own memory. S4 A transfer's end, good or bad, is one
 * MHD_resume_connection, after which it is MHD's again. */
#include "http/http_int.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

enum {
    WINDOW_BYTES = 1 << 20, /* between two looks at the file */
    TURN_BYTES = 4 << 20,
    COPIED_BYTES = 4 << 20, /* of the end: about what two sockets hold; at most a quarter */
    DRAIN_LOOKS = 10,       /* a client that keeps up is done within a moment: worth staying for */
    DRAIN_LOOK_NS = 100 * 1000,
    DRAIN_MOST_MS = 32,
};

enum turn { TURN_MORE, TURN_SENT, TURN_FAILED };

int64_t sender_share(const struct exchange *x)
{
    const struct http_source *source = &x->res.source;
    if (!source->same || source->size < HTTP_SENDER_LEAST || x->conn->tls ||
        x->req.method == HTTP_HEAD)
        return 0;
    return source->size - HTTP_SOURCE_BYTES;
}

/* ---- bytes ---- */

static ssize_t copy_some(const struct http_source *source, int fd, int64_t at, size_t max)
{
    char piece[HTTP_SOURCE_BYTES];
    ssize_t n = pread(source->file, piece, max < sizeof(piece) ? max : sizeof(piece), at);
    return n > 0 ? send(fd, piece, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) : n;
}

static enum turn send_turn(struct exchange *x)
{
    const struct http_source *source = &x->res.source;
    struct transfer *t = &x->transfer;
    int64_t window_end = t->sent, turn_end = t->sent + TURN_BYTES;
    turn_end = turn_end < t->share ? turn_end : t->share;
    if (t->sent < t->pages_end && turn_end > t->pages_end)
        turn_end = t->pages_end;
    while (t->sent < turn_end) {
        if (t->sent >= window_end) {
            if (!source->same(source->arg))
                return TURN_FAILED;
            window_end = t->sent + WINDOW_BYTES;
        }
        int64_t to = window_end < turn_end ? window_end : turn_end;
        size_t max = (size_t)(to - t->sent);
        off_t at = source->file_first + t->sent;
        ssize_t n = t->sent < t->pages_end ? sendfile(x->conn->fd, source->file, &at, max)
                                           : copy_some(source, x->conn->fd, at, max);
        if (n < 0 && errno == EAGAIN)
            return TURN_MORE;
        if (n == 0 || (n < 0 && errno != EINTR)) /* 0: the file is shorter than it was */
            return TURN_FAILED;
        t->sent += n > 0 ? n : 0;
    }
    return t->sent == t->share ? TURN_SENT : TURN_MORE;
}

/* TURN_SENT: nothing that was sent is still a page of the file. */
static enum turn drained(struct peer *peer, struct exchange *x)
{
    const struct transfer *t = &x->transfer;
    struct pollfd p = {.fd = x->conn->fd};
    int64_t copied = t->sent - t->pages_end;
    int unacknowledged = 0;
    uint32_t unread = 0;
    if (t->pages_end == 0)
        return TURN_SENT;
    if (poll(&p, 1, 0) < 0 || (p.revents & (POLLERR | POLLHUP)) != 0 ||
        ioctl(x->conn->fd, SIOCOUTQ, &unacknowledged) != 0)
        return TURN_FAILED;
    if (unacknowledged > copied)
        return TURN_MORE;
    if (!peer_unread(peer, x->conn->fd, &unread))
        return TURN_FAILED;
    return unacknowledged + (int64_t)unread > copied ? TURN_MORE : TURN_SENT;
}

static enum turn drained_soon(struct peer *peer, struct exchange *x)
{
    enum turn turn = drained(peer, x);
    for (int i = 1; i < DRAIN_LOOKS && turn == TURN_MORE; i++) {
        nanosleep(&(struct timespec){.tv_nsec = DRAIN_LOOK_NS}, NULL);
        turn = drained(peer, x);
    }
    return turn;
}

/* ---- hands (S1) ---- */

static void transfer_end(struct http_server *s, struct exchange *x, bool good)
{
    pthread_mutex_lock(&s->send_lock);
    exchange_list_remove(&s->sending, x);
    pthread_mutex_unlock(&s->send_lock);
    epoll_ctl(s->send_epoll, EPOLL_CTL_DEL, x->conn->fd, NULL);
    x->transfer.failed = !good;
    s->mhd->MHD_resume_connection(x->mhd);
}

static bool transfer_arm(struct http_server *s, struct exchange *x, int how)
{
    struct epoll_event ev = {.events = EPOLLOUT | EPOLLONESHOT, .data.ptr = x};
    return epoll_ctl(s->send_epoll, how, x->conn->fd, &ev) == 0;
}

static void transfer_drain_later(struct http_server *s, struct exchange *x)
{
    struct transfer *t = &x->transfer;
    t->drain_ms = t->drain_ms * 2 < DRAIN_MOST_MS ? t->drain_ms * 2 + 1 : DRAIN_MOST_MS;
    t->look_ms = ty_boot_ms() + t->drain_ms;
    pthread_mutex_lock(&s->send_lock);
    t->draining = true;
    pthread_mutex_unlock(&s->send_lock);
}

/* One whose time has come, now this thread's; or NULL, and how long until one comes. */
static struct exchange *draining_take(struct http_server *s, int *ret_wait_ms)
{
    struct exchange *due = NULL;
    int64_t now = ty_boot_ms(), wait = -1;
    pthread_mutex_lock(&s->send_lock);
    for (struct exchange *x = s->sending.first; x && !due; x = x->next) {
        int64_t left = x->transfer.look_ms - now;
        if (!x->transfer.draining)
            continue;
        if (left <= 0)
            due = x;
        else if (wait < 0 || left < wait)
            wait = left;
    }
    if (due)
        due->transfer.draining = false;
    pthread_mutex_unlock(&s->send_lock);
    *ret_wait_ms = (int)wait;
    return due;
}

/* ---- the threads ---- */

/* The bytes before the last are with the kernel; are they with the client? */
static void transfer_drain(struct http_server *s, struct peer *peer, struct exchange *x)
{
    enum turn turn = x->transfer.drain_ms == 0 ? drained_soon(peer, x) : drained(peer, x);
    if (turn == TURN_MORE)
        transfer_drain_later(s, x);
    else
        transfer_end(s, x, turn == TURN_SENT);
}

static void transfer_turn(struct http_server *s, struct peer *peer, struct exchange *x)
{
    struct transfer *t = &x->transfer;
    uint32_t unread;
    int one = 1;
    if (t->sent == 0) {
        int64_t copied = t->share / 4 < COPIED_BYTES ? t->share / 4 : COPIED_BYTES;
        t->pages_end = peer_unread(peer, x->conn->fd, &unread) ? t->share - copied : 0;
        if (!x->conn->local) /* what MHD holds back to fill a packet would never be drained */
            setsockopt(x->conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    enum turn turn = send_turn(x);
    int64_t budget = HTTP_RATE_GRACE_MS + t->sent / HTTP_RATE_BYTES_MS;
    conn_phase_set(s, x->conn, CONN_SEND, x->send_start_ms + budget);
    if (turn == TURN_SENT)
        transfer_drain(s, peer, x);
    else if (turn == TURN_FAILED || !transfer_arm(s, x, EPOLL_CTL_MOD))
        transfer_end(s, x, false);
}

static void *sender_main(void *arg)
{
    struct http_server *s = arg;
    struct peer peer;
    if (peer_open(&peer, peer_method_chosen()) != TY_OK)
        peer.netlink = -1; /* then it copies */
    for (bool stop = false; !stop;) {
        struct epoll_event ready;
        int wait_ms;
        struct exchange *x = draining_take(s, &wait_ms);
        if (x)
            transfer_drain(s, &peer, x);
        else if (epoll_wait(s->send_epoll, &ready, 1, wait_ms) == 1 && !(stop = !ready.data.ptr))
            transfer_turn(s, &peer, ready.data.ptr);
    }
    peer_close(&peer);
    return NULL;
}

bool sender_submit(struct http_server *s, struct exchange *x)
{
    pthread_mutex_lock(&s->send_lock);
    bool taken = !s->send_stopping;
    if (taken)
        exchange_list_add(&s->sending, x);
    pthread_mutex_unlock(&s->send_lock);
    if (taken && !transfer_arm(s, x, EPOLL_CTL_ADD)) {
        pthread_mutex_lock(&s->send_lock);
        exchange_list_remove(&s->sending, x);
        pthread_mutex_unlock(&s->send_lock);
        taken = false;
    }
    return taken;
}

ty_err sender_start(struct http_server *s)
{
    s->send_epoll = epoll_create1(EPOLL_CLOEXEC);
    s->send_stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN}; /* no pointer: the end, for every thread */
    if (s->send_epoll < 0 || s->send_stop_fd < 0 ||
        epoll_ctl(s->send_epoll, EPOLL_CTL_ADD, s->send_stop_fd, &ev) != 0)
        return ty_fail_errno(errno, "cannot prepare to send files");
    ty_err err = TY_OK;
    while (s->sender_count < HTTP_SENDERS && err == TY_OK) {
        err = thread_start(&s->senders[s->sender_count], sender_main, s);
        s->sender_count += err == TY_OK;
    }
    return err;
}

void sender_stop(struct http_server *s)
{
    pthread_mutex_lock(&s->send_lock);
    s->send_stopping = true;
    pthread_mutex_unlock(&s->send_lock);
    if (s->send_stop_fd >= 0)
        (void)eventfd_write(s->send_stop_fd, 1);
    while (s->sender_count > 0)
        pthread_join(s->senders[--s->sender_count], NULL);
    while (s->sending.first)
        transfer_end(s, s->sending.first, false);
}
