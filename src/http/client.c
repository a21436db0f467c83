/* client.c -- our own HTTP client: one request at a time to a server on this machine.
 *
 * Hand-written because a `list` is to take a millisecond: no library to load,
 * one connect, one write, one read. All waiting is poll with one deadline for
 * the whole call.
 *
 * A kept connection may have been closed by the server meanwhile. One that is
 * visibly closed is replaced before anything is sent. If it ends after that
 * without a byte of reply, the request is sent once more on a new connection,
 * but never a POST: the server may have died after doing the work.
 *
 * An exchange is the same with headers, and bodies in pieces: its deadline is anew with each piece,
 * and a body that has been read for sending cannot be sent once more. */
#include "http/http_int.h"

#include "wire/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>

enum { READ_BYTES = 16 * 1024, IN_LIMIT_BYTES = 256 * 1024, PIECE_BYTES = 256 * 1024 };

static bool host_is_loopback(ty_str host)
{
    return ty_str_is(host, "127.0.0.1") || ty_str_is(host, "localhost") || ty_str_is(host, "[::1]");
}

/* "HOST:PORT", HOST loopback. */
static ty_err host_split(ty_str text, ty_str *ret_host, int *ret_port)
{
    size_t colon = text.len;
    while (colon > 0 && text.ptr[colon - 1] != ':')
        colon--;
    int64_t port;
    if (colon == 0 || ty_parse_i64(ty_str_drop(text, colon), &port) != TY_OK || port < 1 ||
        port > 65535)
        return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' is not HOST:PORT", TY_STR_ARG(text));
    ty_str host = {text.ptr, colon - 1};
    if (!host_is_loopback(host))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "'" TY_STR_FMT "' is not this machine: use 127.0.0.1, localhost or [::1]",
                       TY_STR_ARG(host));
    *ret_host = host;
    *ret_port = (int)port;
    return TY_OK;
}

ty_err http_client_open(struct http_client *c, const char *url)
{
    struct http_client fresh = {.fd = -1};
    ty_str text = ty_str_of(url);
    ty_buf_init(&fresh.in, IN_LIMIT_BYTES);
    if (ty_str_starts(text, TY_STR("unix:")) && text.len > 5) {
        fresh.socket_path = strdup(url + 5);
        ty_assert(fresh.socket_path != NULL);
        *c = fresh;
        return TY_OK;
    }
    ty_str scheme = TY_STR("http://");
    if (!ty_str_starts(text, scheme))
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' is not http://HOST:PORT or unix:/path", url);
    text = ty_str_drop(text, scheme.len);
    if (ty_str_ends(text, TY_STR("/")))
        text.len--;
    ty_str host = {0};
    int port = 0;
    ty_err err = host_split(text, &host, &port);
    if (err != TY_OK)
        return ty_wrap(err, "url '%s'", url);
    fresh.host = strndup(text.ptr, text.len);
    ty_assert(fresh.host != NULL);
    *c = fresh;
    return TY_OK;
}

static void disconnect(struct http_client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    ty_buf_clear(&c->in);
    c->in.full = false;
}

void http_client_close(struct http_client *c)
{
    disconnect(c);
    free(c->socket_path);
    free(c->host);
    *c = (struct http_client){.fd = -1};
}

/* ---- waiting ---- */

static ty_err wait_for(int fd, short events, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - ty_boot_ms();
        if (left <= 0)
            return ty_fail(TY_DEADLINE_EXCEEDED, "no answer from the server in time");
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left);
        if (n > 0)
            return TY_OK;
        if (n < 0 && errno != EINTR)
            return ty_fail_errno(errno, "cannot wait for the server");
    }
}

/* ---- connecting ---- */

static ty_err connect_to(const struct sockaddr *addr, socklen_t len, const char *name,
                         int64_t deadline_ms, int *ret_fd)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot make a socket");
    int err_no = connect(fd, addr, len) == 0 ? 0 : errno;
    ty_err err = TY_OK;
    if (err_no == EINPROGRESS) {
        socklen_t size = sizeof(err_no);
        err = wait_for(fd, POLLOUT, deadline_ms);
        if (err == TY_OK && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err_no, &size) != 0)
            err_no = errno;
    }
    if (err == TY_OK && err_no != 0)
        err = ty_fail(TY_UNAVAILABLE, "cannot connect to %s: %s", name, strerror(err_no));
    if (err != TY_OK) {
        close(fd);
        return err;
    }
    int one = 1;
    if (addr->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *ret_fd = fd;
    return TY_OK;
}

static ty_err connect_unix(struct http_client *c, int64_t deadline_ms)
{
    struct sockaddr_un addr = {0};
    int dirfd = -1;
    ty_err err = unix_address(c->socket_path, &addr, &dirfd);
    if (err == TY_NOT_FOUND)
        return ty_wrap(TY_UNAVAILABLE, "cannot connect to '%s'", c->socket_path);
    if (err != TY_OK)
        return err;
    err = connect_to((struct sockaddr *)&addr, sizeof(addr), c->socket_path, deadline_ms, &c->fd);
    if (dirfd >= 0)
        close(dirfd);
    return err;
}

static ty_err connect_tcp(struct http_client *c, int64_t deadline_ms)
{
    ty_str host = {0};
    int port = 0;
    ty_err err = host_split(ty_str_of(c->host), &host, &port);
    if (err != TY_OK)
        return err;
    if (ty_str_is(host, "[::1]")) {
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                                   .sin6_port = htons((uint16_t)port),
                                   .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        return connect_to((struct sockaddr *)&in6, sizeof(in6), c->host, deadline_ms, &c->fd);
    }
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect_to((struct sockaddr *)&in, sizeof(in), c->host, deadline_ms, &c->fd);
}

/* ---- one exchange ---- */

/* Nothing may arrive between requests: readable means closed, or out of step. */
static bool connection_is_stale(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

static ty_err send_all(int fd, ty_str bytes, int64_t deadline_ms)
{
    while (bytes.len != 0) {
        ssize_t n = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (n >= 0) {
            bytes = ty_str_drop(bytes, (size_t)n);
        } else if (errno == EAGAIN) {
            ty_err err = wait_for(fd, POLLOUT, deadline_ms);
            if (err != TY_OK)
                return err;
        } else if (errno != EINTR) {
            return ty_fail(TY_UNAVAILABLE, "the server went away: %s", strerror(errno));
        }
    }
    return TY_OK;
}

static ty_err send_pieces(struct http_client *c, const struct http_exchange *x)
{
    char *piece = malloc(PIECE_BYTES);
    ty_assert(piece != NULL);
    int64_t left = x->body_bytes;
    ty_err err = TY_OK;
    while (err == TY_OK && left > 0) {
        size_t n = 0, most = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        err = x->read(x->arg, piece, most, &n);
        if (err == TY_OK && n == 0)
            err = ty_fail(TY_DATA_LOSS, "the body ended %" PRId64 " bytes early", left);
        if (err == TY_OK)
            err = send_all(c->fd, (ty_str){piece, n}, ty_boot_ms() + x->idle_ms);
        left -= (int64_t)n;
    }
    free(piece);
    return err;
}

static ty_err send_request(struct http_client *c, const struct http_exchange *x,
                           int64_t deadline_ms)
{
    struct ty_buf head;
    int64_t length = x->read != NULL ? x->body_bytes : (int64_t)x->body.len;
    ty_buf_init(&head, HTTP_URI_BYTES + 64 * 1024);
    ty_buf_addf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: trainyard/" TY_VERSION "\r\n",
                method_name(x->method), x->target, c->host ? c->host : "localhost");
    if (c->token && !c->socket_path)
        ty_buf_addf(&head, "Authorization: Bearer %s\r\n", c->token);
    if (x->headers != NULL)
        ty_buf_addz(&head, x->headers);
    if (length != 0 || (x->method != HTTP_GET && x->method != HTTP_HEAD))
        ty_buf_addf(&head, "%sContent-Length: %" PRId64 "\r\n",
                    x->headers != NULL ? "" : "Content-Type: application/json\r\n", length);
    ty_buf_addz(&head, "\r\n");
    bool small = x->body.len <= 4096; /* then one packet carries all */
    head.limit += small ? x->body.len : 0;
    if (small)
        ty_buf_adds(&head, x->body);
    ty_err err = ty_buf_check(&head, "the request's head");
    if (err == TY_OK)
        err = send_all(c->fd, ty_buf_str(&head), deadline_ms);
    if (err == TY_OK && !small)
        err = send_all(c->fd, x->body, deadline_ms);
    if (err == TY_OK && x->read != NULL)
        err = send_pieces(c, x);
    ty_buf_clear(&head);
    return err;
}

/* Add what has arrived to c->in. *ret_eof when the server has closed. */
static ty_err receive_some(struct http_client *c, int64_t deadline_ms, bool *ret_eof)
{
    char piece[READ_BYTES];
    for (;;) {
        ssize_t n = recv(c->fd, piece, sizeof(piece), 0);
        if (n >= 0) {
            ty_buf_add(&c->in, piece, (size_t)n);
            *ret_eof = n == 0;
            return ty_buf_check(&c->in, "the server's reply");
        }
        if (errno == ECONNRESET) {
            *ret_eof = true;
            return TY_OK;
        }
        if (errno != EAGAIN && errno != EINTR)
            return ty_fail_errno(errno, "cannot read from the server");
        ty_err err = wait_for(c->fd, POLLIN, deadline_ms);
        if (err != TY_OK)
            return err;
    }
}

/* *ret_any tells whether a byte of reply has come. With `idle_ms` each piece has its own deadline.
 */
static ty_err receive_reply(struct http_client *c, struct reply_parser *p, int64_t deadline_ms,
                            int64_t idle_ms, bool *ret_any)
{
    while (p->state != REPLY_DONE) {
        bool eof = false;
        if (idle_ms > 0)
            deadline_ms = ty_boot_ms() + idle_ms;
        ty_err err = receive_some(c, deadline_ms, &eof);
        if (err != TY_OK)
            return err;
        if (eof)
            return *ret_any ? reply_parser_eof(p)
                            : ty_fail(TY_UNAVAILABLE,
                                      "the server closed the connection without a reply");
        *ret_any = true;
        size_t used = 0;
        err = reply_parser_feed(p, ty_buf_str(&c->in), &used);
        if (err != TY_OK)
            return err;
        memmove(c->in.ptr, c->in.ptr + used, c->in.len - used);
        c->in.len -= used;
    }
    return TY_OK;
}

/* One try. *ret_unanswered: it failed before a byte of reply came. */
static ty_err call_once(struct http_client *c, struct reply_parser *p,
                        const struct http_exchange *x, int64_t deadline_ms, bool *ret_unanswered)
{
    ty_err err = TY_OK;
    bool any = false;
    if (c->fd < 0)
        err = c->socket_path ? connect_unix(c, deadline_ms) : connect_tcp(c, deadline_ms);
    if (err == TY_OK)
        err = send_request(c, x, deadline_ms);
    /* A server that refuses a large body answers and closes while we still send: read that. */
    if (err == TY_OK || (err == TY_UNAVAILABLE && c->fd >= 0)) {
        ty_err read_err = receive_reply(c, p, deadline_ms, x->idle_ms, &any);
        err = err == TY_OK || any ? read_err : err;
    }
    *ret_unanswered = !any;
    if (err != TY_OK || !p->keep_alive || c->in.len != 0)
        disconnect(c);
    return err;
}

static bool target_is_plain(const char *target)
{
    for (const char *p = target; *p; p++) {
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return false;
    }
    return target[0] == '/' && strlen(target) <= HTTP_URI_BYTES;
}

/* A list of headers being made. */
struct header_list {
    struct ty_arena *arena;
    struct http_param *first, **tail;
};

static void header_keep(void *arg, ty_str name, ty_str value)
{
    struct header_list *list = arg;
    struct http_param *p = ty_new(list->arena, struct http_param);
    p->name = ty_str_dup(list->arena, name);
    p->value = ty_str_dup(list->arena, value);
    *list->tail = p;
    list->tail = &p->next;
}

static ty_err run(struct http_client *c, struct ty_arena *a, const struct http_exchange *x,
                  int64_t deadline_ms, struct header_list *headers, struct http_reply *ret_reply)
{
    if (!target_is_plain(x->target))
        return ty_fail(TY_INVALID_ARGUMENT, "'%.256s' is not a request target", x->target);
    if (c->fd >= 0 && connection_is_stale(c->fd))
        disconnect(c);
    bool reused = c->fd >= 0, unanswered = false;
    struct reply_parser p;
    reply_parser_init(&p, x->method == HTTP_HEAD);
    p.sink = x->sink;
    p.sink_arg = x->arg;
    p.header = headers != NULL ? header_keep : NULL;
    p.header_arg = headers;
    ty_err err = call_once(c, &p, x, deadline_ms, &unanswered);
    if (err == TY_UNAVAILABLE && reused && unanswered && x->method != HTTP_POST && x->read == NULL)
        err = call_once(c, &p, x, deadline_ms, &unanswered);
    if (err == TY_OK)
        *ret_reply = (struct http_reply){.status = p.status,
                                         .body = ty_str_dup(a, ty_buf_str(&p.body)),
                                         .headers = headers != NULL ? headers->first : NULL};
    reply_parser_clear(&p);
    return err;
}

ty_err http_client_call(struct http_client *c, struct ty_arena *a, enum http_method method,
                        const char *target, ty_str body, int64_t timeout_ms,
                        struct http_reply *ret_reply)
{
    struct http_exchange x = {.method = method, .target = target, .body = body};
    return run(c, a, &x, ty_boot_ms() + timeout_ms, NULL, ret_reply);
}

ty_err http_client_exchange(struct http_client *c, struct ty_arena *a,
                            const struct http_exchange *x, struct http_reply *ret_reply)
{
    struct header_list headers = {.arena = a};
    headers.tail = &headers.first;
    return run(c, a, x, ty_boot_ms() + x->idle_ms, &headers, ret_reply);
}

ty_str http_reply_header(const struct http_reply *reply, const char *name)
{
    for (const struct http_param *p = reply->headers; p != NULL; p = p->next)
        if (p->name.len == strlen(name) && strncasecmp(p->name.ptr, name, p->name.len) == 0)
            return p->value;
    return (ty_str){"", 0};
}

/* ---- errors in replies ---- */

static ty_err code_of_status(int status)
{
#define CODE_ROW(name, code, http)                                                                 \
    if (status == (http))                                                                          \
        return TY_##name;
    TY_ERR_MAP(CODE_ROW)
#undef CODE_ROW
    return status < 500 ? TY_INVALID_ARGUMENT : TY_UNKNOWN;
}

static bool code_of_name(ty_str text, ty_err *ret_code)
{
#define NAME_ROW(name, code, http)                                                                 \
    if (ty_str_is(text, #name)) {                                                                  \
        *ret_code = TY_##name;                                                                     \
        return true;                                                                               \
    }
    TY_ERR_MAP(NAME_ROW)
#undef NAME_ROW
    return false;
}

ty_err http_reply_fail(const struct http_reply *reply)
{
    json_t *root = NULL;
    ty_err code = code_of_status(reply->status);
    if (wire_json_parse(reply->body, &root) != TY_OK)
        return ty_fail(code, "the server answered with status %d: %.*s", reply->status,
                       reply->body.len > 200 ? 200 : (int)reply->body.len, reply->body.ptr);
    const json_t *error = json_object_get(root, "error");
    ty_str message = wire_json_get_str(error, "message");
    if (!code_of_name(wire_json_get_str(error, "status"), &code) || code == TY_OK)
        code = code_of_status(reply->status);
    ty_err err =
        message.len != 0
            ? ty_fail(code, TY_STR_FMT, message.len > 8192 ? 8192 : (int)message.len, message.ptr)
            : ty_fail(code, "the server answered with status %d", reply->status);
    json_decref(root);
    return err;
}
