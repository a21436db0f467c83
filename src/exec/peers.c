/* peers.c -- the conductor's connections: who is told that something happened, and who may cancel.
 *
 * One byte a message. To the server: 'j' the journal grew, 'l' the log grew. From it: 'c' cancel.
 * The first connection comes with the order to run; a server that comes back connects to `ctl`. A
 * byte carries no data, so an 'l' is as good as sent where many bytes are unread; the room that is
 * left then is for 'j', which must not get lost. */
#include "exec/exec_int.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    LOG_NEWS_MS = 50,
    UNREAD_BYTES = 65536, /* as the kernel counts: some 80 messages of the 250 that fit */
};

ty_err peers_listen(struct conductor *c)
{
    struct sockaddr_un address;
    attempt_ctl_address(c->dirfd, &address);
    c->listener = (struct source){.kind = SOURCE_LISTEN, .fd = -1};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot make the control socket");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 16) != 0) {
        int err_no = errno;
        close(fd);
        return ty_fail_errno(err_no, "cannot listen on 'ctl'");
    }
    c->listener.fd = fd;
    return TY_OK;
}

void peers_add(struct conductor *c, int fd)
{
    for (int i = 0; i < CONDUCTOR_PEERS; i++)
        if (c->peers[i].fd < 0) {
            c->peers[i] = (struct source){.kind = SOURCE_PEER, .fd = fd};
            source_open(c, &c->peers[i]);
            return;
        }
    close(fd); /* more servers than can be: one of them will come again */
}

void peers_accept(struct conductor *c)
{
    int fd;
    while ((fd = accept4(c->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        peers_add(c, fd);
}

void peers_read(struct conductor *c, struct source *peer)
{
    char bytes[64];
    ssize_t n;
    while ((n = recv(peer->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        if (memchr(bytes, 'c', (size_t)n))
            c->cancel_asked = true;
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        source_close(peer);
}

void peers_tell(struct conductor *c, char what)
{
    for (int i = 0; i < CONDUCTOR_PEERS; i++) {
        int unread = 0;
        if (c->peers[i].fd < 0)
            continue;
        if (what == 'l' && ioctl(c->peers[i].fd, SIOCOUTQ, &unread) == 0 && unread > UNREAD_BYTES)
            continue;
        send(c->peers[i].fd, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

int64_t peers_next_ms(const struct conductor *c)
{
    return c->log_news ? c->log_told_ms + LOG_NEWS_MS : INT64_MAX;
}

void peers_tell_log(struct conductor *c, int64_t now_ms)
{
    if (now_ms < peers_next_ms(c))
        return;
    peers_tell(c, 'l');
    c->log_news = false;
    c->log_told_ms = now_ms;
}

void peers_close(struct conductor *c)
{
    source_close(&c->listener);
    for (int i = 0; i < CONDUCTOR_PEERS; i++)
        source_close(&c->peers[i]);
}
