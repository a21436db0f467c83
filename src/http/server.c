/* server.c -- a server's start and end, and where it listens.
 *
 * Until there are accounts only loopback is served: 127.0.0.1 and [::1] on one
 * port, and a Unix socket. The end comes in an order: accept no more, let the
 * workers answer what they have, give the answers a moment to leave, cut off what is left, stop MHD
 * (which must not have a suspended connection then). */
#include "http/http_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { BACKLOG = 1024, PORT_TRIES = 16, FLUSH_MS = 1000, POOL_BYTES = 64 * 1024 };

/* ---- listening ---- */

static ty_err listen_parse(const char *text, int *ret_port)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *colon = strrchr(text, ':');
    int64_t port;
    if (!colon || ty_parse_i64(ty_str_of(colon + 1), &port) != TY_OK || port < 0 || port > 65535)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "listen: '%s' is not ADDRESS:PORT, as in 127.0.0.1:7575", text);
    ty_str host = {text, (size_t)(colon - text)};
    for (size_t i = 0; i < TY_COUNT(hosts); i++) {
        if (ty_str_is(host, hosts[i])) {
            *ret_port = (int)port;
            return TY_OK;
        }
    }
    return ty_fail(TY_INVALID_ARGUMENT,
                   "listen: '" TY_STR_FMT
                   "' is refused: only 127.0.0.1, [::1] and localhost are served until there "
                   "are accounts, because a job runs as the server's user",
                   TY_STR_ARG(host));
}

/* *ret_errno says why when it fails. */
static ty_err listen_on(const struct sockaddr *addr, socklen_t len, const char *name, int *ret_fd,
                        int *ret_errno)
{
    int one = 1;
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        *ret_errno = errno;
        return ty_fail_errno(*ret_errno, "cannot make a socket for %s", name);
    }
    if (addr->sa_family == AF_UNIX)
        fchmod(fd, 0600); /* before bind: the file is never open to others */
    else
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (addr->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(fd, addr, len) != 0 || listen(fd, BACKLOG) != 0) {
        *ret_errno = errno;
        close(fd);
        return ty_fail_errno(*ret_errno, "cannot listen on %s", name);
    }
    *ret_fd = fd;
    return TY_OK;
}

static ty_err listen_tcp(struct http_server *s, int port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof(in);
    int err_no = 0;
    char name[64];
    snprintf(name, sizeof(name), "127.0.0.1:%d", port);
    ty_err err = listen_on((struct sockaddr *)&in, len, name, &s->tcp4.fd, &err_no);
    if (err != TY_OK)
        return err;
    if (getsockname(s->tcp4.fd, (struct sockaddr *)&in, &len) != 0)
        return ty_fail_errno(errno, "cannot tell the port of %s", name);
    s->port = ntohs(in.sin_port);

    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = in.sin_port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    snprintf(name, sizeof(name), "[::1]:%d", s->port);
    err = listen_on((struct sockaddr *)&in6, sizeof(in6), name, &s->tcp6.fd, &err_no);
    if (err != TY_OK && (err_no == EAFNOSUPPORT || err_no == EADDRNOTAVAIL))
        err = TY_OK; /* a machine without IPv6 */
    if (err != TY_OK) {
        close(s->tcp4.fd);
        s->tcp4.fd = -1;
    }
    return err;
}

/* Port 0 is the kernel's choice for IPv4, which may be taken for IPv6: try again. */
static ty_err listen_port(struct http_server *s, int port)
{
    ty_err err = listen_tcp(s, port);
    for (int i = 1; i < PORT_TRIES && port == 0 && err == TY_ALREADY_EXISTS; i++)
        err = listen_tcp(s, port);
    return err;
}

ty_err unix_address(const char *path, struct sockaddr_un *ret_addr, int *ret_dirfd)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len < sizeof(addr.sun_path)) {
        memcpy(addr.sun_path, path, len);
        *ret_addr = addr;
        *ret_dirfd = -1;
        return TY_OK;
    }
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path || len >= PATH_MAX)
        return ty_fail(TY_INVALID_ARGUMENT, "the socket path '%s' is too long", path);
    char folder[PATH_MAX];
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", folder);
    int n = snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d%s", fd, slash);
    if (n >= (int)sizeof(addr.sun_path)) {
        close(fd);
        return ty_fail(TY_INVALID_ARGUMENT, "the socket's name '%s' is too long", slash + 1);
    }
    *ret_addr = addr;
    *ret_dirfd = fd;
    return TY_OK;
}

static ty_err listen_unix(struct http_server *s, const char *path)
{
    struct sockaddr_un addr = {0};
    int dirfd = -1, err_no = 0;
    ty_err err = unix_address(path, &addr, &dirfd);
    if (err != TY_OK)
        return err;
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
    err = listen_on((struct sockaddr *)&addr, sizeof(addr), path, &s->local.fd, &err_no);
    if (dirfd >= 0)
        close(dirfd);
    if (err == TY_OK) {
        s->socket_path = strdup(path);
        ty_assert(s->socket_path != NULL);
    }
    return err;
}

/* ---- MHD ---- */

/* We route on the raw path; MHD's own decoding would turn %2F into a slash and cut at %00. */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

/* MHD's own limit is out of reach: at it, 0.9.75 keeps a lock and its thread stops for ever
 * (new_connection_process_). accept_burst holds ours. */
ty_err daemon_start(struct http_server *s, bool tls, struct MHD_Daemon **ret_daemon)
{
    sigset_t all, before; /* MHD's thread inherits the mask */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_OptionItem secrets[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, s->tls_certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, s->tls_key},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    struct MHD_Daemon *daemon = s->mhd->MHD_start_daemon(
        (tls ? MHD_USE_TLS : MHD_NO_FLAG) | MHD_USE_EPOLL_INTERNAL_THREAD |
            MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
            MHD_USE_TURBO, /* for one thing: that request_connection may still send */
        0, NULL, NULL, request_access, s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_LIMIT, HTTP_LOOPS * (2 * (unsigned)s->connection_limit + 1024),
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)HTTP_LOOPS, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)HTTP_STACK_BYTES, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, request_begin, s, MHD_OPTION_NOTIFY_COMPLETED,
        request_completed, s, MHD_OPTION_NOTIFY_CONNECTION, request_connection, s, MHD_OPTION_ARRAY,
        tls ? secrets : none, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!daemon)
        return ty_fail(TY_INTERNAL, "libmicrohttpd does not start%s", tls ? " with TLS" : "");
    *ret_daemon = daemon;
    return TY_OK;
}

/* ---- start and stop ---- */

static struct http_server *server_new(const struct ty_config *config,
                                      const struct http_router *router,
                                      const struct http_tokens *tokens)
{
    struct http_server *s = calloc(1, sizeof(*s));
    ty_assert(s != NULL);
    s->router = router;
    s->request_bytes = config->request_bytes;
    s->header_timeout_ms = config->header_timeout_ms;
    s->idle_timeout_ms = config->idle_timeout_ms;
    s->connection_limit = (size_t)config->connections;
    s->tokens = tokens ? *tokens : (struct http_tokens){0};
    for (size_t i = 0; i < HTTP_MAX_STRANGERS; i++)
        s->strangers[i] = (struct source){.kind = SOURCE_STRANGER, .fd = -1};
    for (size_t i = 0; i < HTTP_MAX_FOREIGN; i++)
        s->handed[i] = -1;
    s->epoll = s->spare_fd = s->peer.netlink = s->send_epoll = s->send_stop_fd = -1;
    s->kick = (struct source){.kind = SOURCE_KICK, .fd = -1};
    s->tcp4 = s->tcp6 = (struct source){.kind = SOURCE_TCP, .fd = -1};
    s->local = (struct source){.kind = SOURCE_UNIX, .fd = -1};
    pthread_mutex_init(&s->conn_lock, NULL);
    pthread_mutex_init(&s->work_lock, NULL);
    pthread_mutex_init(&s->send_lock, NULL);
    pthread_cond_init(&s->work_ready, NULL);
    return s;
}

static ty_err server_open(struct http_server *s, const struct ty_config *config,
                          const char *socket_path)
{
    int port = 0;
    ty_err err = listen_parse(config->listen, &port);
    if (err == TY_OK)
        err = http_peer_init();
    if (err == TY_OK)
        err = peer_open(&s->peer, peer_method_chosen());
    if (err == TY_OK)
        err = mhd_load(&s->mhd);
    if (err != TY_OK)
        return err;
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->kick.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (s->epoll < 0 || s->kick.fd < 0 || s->spare_fd < 0)
        return ty_fail_errno(errno, "cannot prepare to serve");
    err = listen_port(s, port);
    if (err == TY_OK && socket_path)
        err = listen_unix(s, socket_path);
    if (err == TY_OK)
        err = daemon_start(s, false, &s->daemon);
    if (err == TY_OK)
        err = worker_start(s, (size_t)config->workers);
    if (err == TY_OK)
        err = sender_start(s);
    if (err == TY_OK)
        err = event_start(s);
    return err;
}

ty_err http_server_start(const struct ty_config *config, const char *socket_path,
                         const struct http_router *router, const struct http_tokens *tokens,
                         struct http_server **ret_server)
{
    struct http_server *s = server_new(config, router, tokens);
    ty_err err = server_open(s, config, socket_path);
    if (err != TY_OK) {
        http_server_stop(s);
        return err;
    }
    *ret_server = s;
    return TY_OK;
}

void http_server_tls(struct http_server *s, ty_str certificate, ty_str key)
{
    s->tls_certificate = strndup(certificate.ptr, certificate.len);
    s->tls_key = strndup(key.ptr, key.len);
    ty_assert(s->tls_certificate != NULL && s->tls_key != NULL);
    s->tls_ready = true;
}

int http_server_port(const struct http_server *s)
{
    return s->port;
}

void http_server_stats(struct http_server *s, struct http_stats *ret_stats)
{
    pthread_mutex_lock(&s->conn_lock);
    struct http_stats stats = s->stats;
    pthread_mutex_unlock(&s->conn_lock);
    pthread_mutex_lock(&s->work_lock);
    stats.parked = s->parked.count;
    pthread_mutex_unlock(&s->work_lock);
    *ret_stats = stats;
}

static bool answers_pending(struct http_server *s)
{
    pthread_mutex_lock(&s->conn_lock);
    struct conn *c = s->conns;
    while (c && c->phase != CONN_SEND && c->phase != CONN_WORK)
        c = c->next;
    pthread_mutex_unlock(&s->conn_lock);
    return c != NULL;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void http_server_stop(struct http_server *s)
{
    if (!s)
        return;
    event_stop(s);
    close_fd(&s->tcp4.fd);
    close_fd(&s->tcp6.fd);
    close_fd(&s->local.fd);
    if (s->socket_path)
        unlink(s->socket_path);
    worker_stop(s);
    for (int waited = 0; waited < FLUSH_MS && answers_pending(s); waited += 5)
        poll(NULL, 0, 5);
    sender_stop(s);
    first_clear(s);
    if (s->daemon)
        s->mhd->MHD_stop_daemon(s->daemon);
    if (s->tls_daemon)
        s->mhd->MHD_stop_daemon(s->tls_daemon);
    while (s->lingering) {
        struct source *next = s->lingering->next;
        close(s->lingering->fd);
        free(s->lingering);
        s->lingering = next;
    }
    for (size_t i = 0; i < HTTP_MAX_STRANGERS; i++)
        close_fd(&s->strangers[i].fd);
    peer_close(&s->peer);
    close_fd(&s->epoll);
    close_fd(&s->kick.fd);
    close_fd(&s->spare_fd);
    close_fd(&s->send_epoll);
    close_fd(&s->send_stop_fd);
    pthread_mutex_destroy(&s->conn_lock);
    pthread_mutex_destroy(&s->work_lock);
    pthread_mutex_destroy(&s->send_lock);
    pthread_cond_destroy(&s->work_ready);
    free(s->tls_certificate);
    free(s->tls_key);
    free(s->socket_path);
    free(s);
}
