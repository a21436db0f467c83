/* peer.c -- which user is at the other end of a loopback TCP connection.
 *
 * The kernel knows: the peer's socket is on this machine too, and sock_diag
 * finds it by its exact 4-tuple (its source is our peer address). The answer
 * counts only if all of these hold; each closes a way in that exists:
 *   - it is that 4-tuple and not a listener: for a connection that is gone the
 *     kernel falls back to whoever listens on the port;
 *   - it has an inode: a socket its owner has closed reports uid 0 and inode 0;
 *   - its uid is the one asked for (root is not special);
 *   - our own end is still connected *after* the lookup: a peer that resets the
 *     connection frees its port, and another user's new connection from that
 *     port would answer for it.
 * Where sock_diag is missing (some sandboxes), /proc/net/tcp and tcp6 say the
 * same and are read under the same rule. */
#include "http/http_int.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

/* A connection as the peer's own socket sees it. Addresses in network order; IPv4 in word 0. */
struct tuple {
    int family;
    uint32_t src[4], dst[4];
    uint16_t sport, dport; /* network order */
};
struct owner {
    uint64_t inode;
    uid_t uid;
    int state;
    uint32_t unread; /* bytes; only by sock_diag */
};

static _Atomic enum peer_method chosen = PEER_NONE;

enum peer_method peer_method_chosen(void)
{
    return chosen;
}

static ty_err address_split(const struct sockaddr_storage *ss, int *ret_family,
                            uint32_t ret_words[4], uint16_t *ret_port)
{
    memset(ret_words, 0, 4 * sizeof(uint32_t));
    if (ss->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)ss;
        *ret_family = AF_INET;
        ret_words[0] = in->sin_addr.s_addr;
        *ret_port = in->sin_port;
        return TY_OK;
    }
    if (ss->ss_family != AF_INET6)
        return ty_fail(TY_PERMISSION_DENIED, "the peer's address is neither IPv4 nor IPv6");
    const struct sockaddr_in6 *in6 = (const void *)ss;
    uint32_t words[4];
    memcpy(words, &in6->sin6_addr, sizeof(words));
    *ret_port = in6->sin6_port;
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        *ret_family = AF_INET;
        ret_words[0] = words[3];
        return TY_OK;
    }
    *ret_family = AF_INET6;
    memcpy(ret_words, words, sizeof(words));
    return TY_OK;
}

static ty_err tuple_of(int fd, struct tuple *ret_tuple)
{
    struct sockaddr_storage us = {0}, them = {0};
    socklen_t us_len = sizeof(us), them_len = sizeof(them);
    if (getsockname(fd, (struct sockaddr *)&us, &us_len) != 0 ||
        getpeername(fd, (struct sockaddr *)&them, &them_len) != 0)
        return ty_fail(TY_PERMISSION_DENIED, "the peer is gone: %s", strerror(errno));
    struct tuple t = {0};
    int family = 0;
    ty_err err = address_split(&them, &t.family, t.src, &t.sport);
    if (err == TY_OK)
        err = address_split(&us, &family, t.dst, &t.dport);
    if (err == TY_OK && family != t.family)
        err = ty_fail(TY_PERMISSION_DENIED, "the two ends have different address families");
    if (err == TY_OK)
        *ret_tuple = t;
    return err;
}

/* ---- sock_diag ---- */

static bool diag_send(struct peer *p, const struct tuple *t)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 req;
    } m = {
        .head = {.nlmsg_len = sizeof(m),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST,
                 .nlmsg_seq = ++p->seq},
        .req = {.sdiag_family = (uint8_t)t->family,
                .sdiag_protocol = IPPROTO_TCP,
                .idiag_states = ~0u},
    };
    m.req.id.idiag_sport = t->sport;
    m.req.id.idiag_dport = t->dport;
    memcpy(m.req.id.idiag_src, t->src, sizeof(t->src));
    memcpy(m.req.id.idiag_dst, t->dst, sizeof(t->dst));
    m.req.id.idiag_cookie[0] = m.req.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    return sendto(p->netlink, &m, sizeof(m), 0, (struct sockaddr *)&kernel, sizeof(kernel)) ==
           (ssize_t)sizeof(m);
}

/* Is this the socket asked for? An AF_INET6 socket with v4-mapped addresses is listed as AF_INET6.
 */
static bool diag_same(const struct inet_diag_msg *d, const struct tuple *t)
{
    if (d->id.idiag_sport != t->sport || d->id.idiag_dport != t->dport)
        return false;
    if (d->idiag_family == t->family)
        return memcmp(d->id.idiag_src, t->src, t->family == AF_INET ? 4 : 16) == 0 &&
               memcmp(d->id.idiag_dst, t->dst, t->family == AF_INET ? 4 : 16) == 0;
    return t->family == AF_INET && d->idiag_family == AF_INET6 &&
           d->id.idiag_src[2] == htonl(0xffff) && d->id.idiag_dst[2] == htonl(0xffff) &&
           d->id.idiag_src[3] == t->src[0] && d->id.idiag_dst[3] == t->dst[0];
}

static bool diag_receive(struct peer *p, const struct tuple *t, struct owner *ret_owner)
{
    /* Stale answers (to a question that timed out) are skipped by their number. */
    for (int i = 0; i < 16; i++) {
        _Alignas(struct nlmsghdr) char buf[4096];
        struct sockaddr_nl from = {0};
        socklen_t from_len = sizeof(from);
        ssize_t n = recvfrom(p->netlink, buf, sizeof(buf), 0, (struct sockaddr *)&from, &from_len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < (ssize_t)sizeof(struct nlmsghdr))
            return false; /* the receive timeout, too */
        const struct nlmsghdr *h = (const void *)buf;
        if (from.nl_pid != 0 || h->nlmsg_seq != p->seq || h->nlmsg_len > (size_t)n)
            continue;
        if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
            h->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
            return false;
        const struct inet_diag_msg *d = NLMSG_DATA(h);
        if (!diag_same(d, t))
            return false;
        *ret_owner = (struct owner){d->idiag_inode, d->idiag_uid, d->idiag_state, d->idiag_rqueue};
        return true;
    }
    return false;
}

static bool diag_find(struct peer *p, const struct tuple *t, struct owner *ret_owner)
{
    return diag_send(p, t) && diag_receive(p, t, ret_owner);
}

/* ---- /proc/net/tcp: "sl local:port remote:port st tx:rx tr:when retrnsmt uid timeout inode" ----
 */

/* Addresses are printed as words in the machine's own order, ports as plain numbers. */
static void proc_address(int words, const uint32_t *addr, uint16_t port, char *out, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < words; i++)
        at += (size_t)snprintf(out + at, size - at, "%08X", addr[i]);
    snprintf(out + at, size - at, ":%04X", ntohs(port));
}

static bool proc_line(const char *line, const char *local, const char *remote,
                      struct owner *ret_owner)
{
    char have_local[48], have_remote[48];
    unsigned state, uid;
    uint64_t inode;
    if (sscanf(line, " %*[0-9]: %47s %47s %X %*s %*s %*s %u %*s %" SCNu64, have_local, have_remote,
               &state, &uid, &inode) != 5)
        return false;
    if (strcmp(have_local, local) != 0 || strcmp(have_remote, remote) != 0)
        return false;
    *ret_owner = (struct owner){.inode = inode, .uid = uid, .state = (int)state};
    return true;
}

static bool proc_search(const char *path, int words, const uint32_t *src, const uint32_t *dst,
                        const struct tuple *t, struct owner *ret_owner)
{
    char local[48], remote[48], line[512];
    proc_address(words, src, t->sport, local, sizeof(local));
    proc_address(words, dst, t->dport, remote, sizeof(remote));
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof(line), f))
        found = proc_line(line, local, remote, ret_owner);
    fclose(f);
    return found;
}

static bool proc_find(const struct tuple *t, struct owner *ret_owner)
{
    if (t->family == AF_INET6)
        return proc_search("/proc/net/tcp6", 4, t->src, t->dst, t, ret_owner);
    const uint32_t src6[4] = {0, 0, htonl(0xffff), t->src[0]},
                   dst6[4] = {0, 0, htonl(0xffff), t->dst[0]};
    return proc_search("/proc/net/tcp", 1, t->src, t->dst, t, ret_owner) ||
           proc_search("/proc/net/tcp6", 4, src6, dst6, t, ret_owner);
}

/* ---- the rule ---- */

static bool state_is_live(int state)
{
    return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 ||
           state == TCP_CLOSE_WAIT;
}

static bool still_connected(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT;
}

static bool owner_find(struct peer *p, const struct tuple *t, struct owner *ret_owner)
{
    return p->netlink >= 0 ? diag_find(p, t, ret_owner) : proc_find(t, ret_owner);
}

ty_err peer_check(struct peer *p, int fd, uid_t uid)
{
    struct tuple t = {0};
    ty_err err = tuple_of(fd, &t);
    if (err != TY_OK)
        return err;
    struct owner o = {0};
    bool found = owner_find(p, &t, &o);
    if (!found || o.inode == 0 || o.uid != uid || !state_is_live(o.state) || !still_connected(fd))
        return ty_fail(TY_PERMISSION_DENIED, "the peer on port %u is not a live socket of user %u",
                       ntohs(t.sport), (unsigned)uid);
    return TY_OK;
}

bool peer_unread(struct peer *p, int fd, uint32_t *ret_bytes)
{
    struct tuple t = {0};
    struct owner o = {0};
    bool known = p->netlink >= 0 && tuple_of(fd, &t) == TY_OK && diag_find(p, &t, &o) &&
                 o.inode != 0 && state_is_live(o.state);
    if (known)
        *ret_bytes = o.unread;
    return known;
}

ty_err peer_open(struct peer *p, enum peer_method method)
{
    *p = (struct peer){.netlink = -1};
    if (method == PEER_PROC)
        return TY_OK;
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return ty_fail(TY_FAILED_PRECONDITION, "cannot open a sock_diag socket: %s",
                       strerror(errno));
    struct timeval wait = {.tv_sec = 1};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    p->netlink = fd;
    return TY_OK;
}

void peer_close(struct peer *p)
{
    if (p->netlink >= 0)
        close(p->netlink);
    p->netlink = -1;
}

/* A connection of our own, to see whether a method tells us who we are. */
static ty_err loopback_pair(int ret_fd[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int accepted = -1;
    if (listener >= 0 && client >= 0 && bind(listener, (struct sockaddr *)&addr, len) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&addr, &len) == 0 &&
        connect(client, (struct sockaddr *)&addr, len) == 0)
        accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    int err_no = errno;
    if (listener >= 0)
        close(listener);
    if (accepted < 0) {
        if (client >= 0)
            close(client);
        return ty_fail(TY_FAILED_PRECONDITION, "cannot connect to ourselves on 127.0.0.1: %s",
                       strerror(err_no));
    }
    ret_fd[0] = client;
    ret_fd[1] = accepted;
    return TY_OK;
}

ty_err http_peer_init(void)
{
    if (chosen != PEER_NONE)
        return TY_OK;
    int pair[2] = {-1, -1};
    ty_err err = loopback_pair(pair);
    if (err != TY_OK)
        return err;
    static const enum peer_method order[] = {PEER_SOCK_DIAG, PEER_PROC};
    for (size_t i = 0; i < TY_COUNT(order) && chosen == PEER_NONE; i++) {
        struct peer p;
        err = peer_open(&p, order[i]);
        if (err != TY_OK)
            continue;
        err = peer_check(&p, pair[1], geteuid());
        peer_close(&p);
        if (err == TY_OK)
            chosen = order[i];
    }
    close(pair[0]);
    close(pair[1]);
    if (chosen == PEER_NONE)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot tell which user connects: neither sock_diag nor "
                       "/proc/net/tcp answers here, so serving would be open to every "
                       "user of this machine");
    return TY_OK;
}

ty_err http_peer_check(int fd, uid_t uid)
{
    ty_err err = http_peer_init();
    struct peer p;
    if (err == TY_OK)
        err = peer_open(&p, chosen);
    if (err != TY_OK)
        return ty_wrap(TY_PERMISSION_DENIED, "cannot ask who the peer is");
    err = peer_check(&p, fd, uid);
    peer_close(&p);
    return err;
}

bool http_request_peer(const struct http_request *req, struct http_peer *ret_peer)
{
    struct ucred who;
    socklen_t len = sizeof(who);
    struct tuple t = {0};
    struct owner o = {0};
    struct peer p;
    if (req->local_socket) {
        bool known = getsockopt(req->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0;
        *ret_peer = (struct http_peer){.pid = known ? who.pid : 0};
        return ret_peer->pid > 0;
    }
    if (tuple_of(req->fd, &t) != TY_OK || peer_open(&p, chosen) != TY_OK)
        return false;
    bool found = owner_find(&p, &t, &o);
    peer_close(&p);
    *ret_peer = (struct http_peer){.inode = found ? o.inode : 0};
    return ret_peer->inode != 0;
}

const char *http_peer_method(void)
{
    if (http_peer_init() != TY_OK)
        return "none";
    return chosen == PEER_SOCK_DIAG ? "sock_diag" : "/proc/net/tcp";
}
