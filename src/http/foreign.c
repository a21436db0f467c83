/* foreign.c -- peers that are not of our uid: replicas in containers, and strangers.
 *
 * Only a token of ours opens the door to one (http.h). So that a stranger never reaches the HTTP
 * parser, nor an answer of its, we look at a connection's first headers without taking them
 * (MSG_PEEK): with a token that we made it is handed over as any other, without one it is closed
 * without a byte. This look is a filter and no proof: each request is asked for its token again,
 * as MHD has read it (request.c), and whether that token still counts is found out by a worker,
 * before a handler sees a byte.
 *
 * Who speaks TLS would have to be answered before it could show anything, so it shows its token
 * first, in the clear, as the head of a request that nobody answers, and TLS comes behind it:
 *
 *   CONNECT trainyard HTTP/1.1 CRLF  X-Trainyard-Token: ty1.… CRLF CRLF  <TLS>
 *
 * auth's preloaded library does so. From our own uid it is taken and means nothing (first.c).
 *
 * F1 At most HTTP_MAX_STRANGERS wait at the door; one more, and who has waited longest is closed.
 *    A program that has a token sends it as soon as it is connected, so that strangers who hold
 *    places do not keep it out.
 * F2 They have HTTP_STRANGER_MS for their headers, and HTTP_STRANGER_BYTES.
 * F3 At most HTTP_MAX_FOREIGN connections of other uids are handed over at a time.
 * The waiting ones belong to the event thread; the list of those handed over to conn_lock. */
#include "http/http_int.h"

#include <strings.h>
#include <sys/epoll.h>

/* ---- tokens in headers ---- */

ty_str bearer_token(ty_str authorization)
{
    static const char scheme[] = "Bearer ";
    size_t n = sizeof(scheme) - 1;
    if (authorization.len <= n || strncasecmp(authorization.ptr, scheme, n) != 0)
        return TY_STR("");
    return ty_str_trim(ty_str_drop(authorization, n));
}

static bool name_is(ty_str name, const char *text)
{
    return name.len == strlen(text) && strncasecmp(name.ptr, text, name.len) == 0;
}

bool head_token(ty_str head, ty_str *ret_token)
{
    ty_str line, name, token = TY_STR("");
    if (!ty_str_split(&head, '\n', &line)) /* the request line */
        return false;
    while (ty_str_split(&head, '\n', &line)) {
        if (ty_str_ends(line, TY_STR("\r")))
            line.len--;
        if (line.len == 0) {
            *ret_token = token;
            return true;
        }
        ty_str value = line;
        if (!ty_str_split(&value, ':', &name))
            continue;
        value = ty_str_trim(value);
        if (name_is(name, "X-Trainyard-Token"))
            token = value;
        else if (name_is(name, "Authorization") && token.len == 0)
            token = bearer_token(value);
    }
    return false;
}

/* ---- at the door ---- */

enum verdict { STRANGER_WAITS, STRANGER_REFUSED, STRANGER_ADMITTED, STRANGER_INTRODUCED };

size_t introduction_bytes(ty_str head)
{
    static const char end[] = "\r\n\r\n";
    if (!ty_str_starts(head, TY_STR("CONNECT trainyard HTTP/1.1\r\n")))
        return 0;
    const char *at = memmem(head.ptr, head.len, end, strlen(end));
    return at ? (size_t)(at - head.ptr) + strlen(end) : 0;
}

/* `ended`: nothing more will come. */
static enum verdict look(const struct http_server *s, int fd, bool ended)
{
    char head[HTTP_STRANGER_BYTES];
    ty_str token;
    ssize_t n = recv(fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !ended)
        return STRANGER_WAITS;
    if (n <= 0 || head[0] == HTTP_TLS_HANDSHAKE)
        return STRANGER_REFUSED;
    if (!head_token((ty_str){head, (size_t)n}, &token))
        return ended || n == (ssize_t)sizeof(head) ? STRANGER_REFUSED : STRANGER_WAITS;
    if (!s->tokens.made(s->tokens.ctx, token))
        return STRANGER_REFUSED;
    size_t taken = introduction_bytes((ty_str){head, (size_t)n});
    if (taken == 0)
        return STRANGER_ADMITTED;
    return s->tls_ready && recv(fd, head, taken, MSG_DONTWAIT) == (ssize_t)taken
               ? STRANGER_INTRODUCED
               : STRANGER_REFUSED;
}

void foreign_refused(struct http_server *s)
{
    pthread_mutex_lock(&s->conn_lock);
    s->stats.refused_peers++;
    pthread_mutex_unlock(&s->conn_lock);
}

static void refuse(struct http_server *s, int fd)
{
    foreign_refused(s); /* who sees that it is closed can read that it was counted */
    close(fd);
}

/* A place for `fd` in the list of those handed over, or for -1 the place it had. */
static bool handed_replace(struct http_server *s, int from, int to)
{
    pthread_mutex_lock(&s->conn_lock);
    size_t i = 0;
    while (i < HTTP_MAX_FOREIGN && s->handed[i] != from)
        i++;
    if (i < HTTP_MAX_FOREIGN)
        s->handed[i] = to;
    pthread_mutex_unlock(&s->conn_lock);
    return i < HTTP_MAX_FOREIGN;
}

static void hand_over(struct http_server *s, int fd, bool introduced)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof(addr);
    if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0 || !handed_replace(s, -1, fd)) {
        refuse(s, fd);
        return;
    }
    if (introduced ? !event_add_introduced(s, fd, &addr, len)
                   : !event_add_connection(s, fd, (struct sockaddr *)&addr, len))
        handed_replace(s, fd, -1);
}

bool foreign_is(struct http_server *s, int fd)
{
    return handed_replace(s, fd, fd);
}

void foreign_closed(struct http_server *s, int fd)
{
    handed_replace(s, fd, -1);
}

static void decide(struct http_server *s, int fd, enum verdict verdict)
{
    if (verdict == STRANGER_ADMITTED || verdict == STRANGER_INTRODUCED)
        hand_over(s, fd, verdict == STRANGER_INTRODUCED);
    else
        refuse(s, fd);
}

/* Take `fd` out of its place, for good or for MHD. */
static int stranger_leave(struct http_server *s, struct source *src)
{
    int fd = src->fd;
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, fd, NULL);
    src->fd = -1;
    return fd;
}

/* A free place; else that of the one who has waited longest. */
static struct source *stranger_place(struct http_server *s)
{
    struct source *oldest = &s->strangers[0];
    for (size_t i = 0; i < HTTP_MAX_STRANGERS; i++) {
        struct source *src = &s->strangers[i];
        if (src->fd < 0)
            return src;
        if (src->deadline_ms < oldest->deadline_ms)
            oldest = src;
    }
    refuse(s, stranger_leave(s, oldest));
    return oldest;
}

void foreign_accept(struct http_server *s, int fd)
{
    enum verdict verdict = s->tokens.made ? look(s, fd, false) : STRANGER_REFUSED;
    if (verdict != STRANGER_WAITS) {
        decide(s, fd, verdict);
        return;
    }
    struct source *src = stranger_place(s);
    *src = (struct source){
        .kind = SOURCE_STRANGER, .fd = fd, .deadline_ms = ty_boot_ms() + HTTP_STRANGER_MS};
    /* Edges: what we only look at stays readable. What is there already is an edge, too. */
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = src};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
        refuse(s, stranger_leave(s, src));
}

void foreign_look(struct http_server *s, struct source *src, uint32_t events)
{
    if (src->fd < 0) /* closed by an event before this one */
        return;
    enum verdict verdict = look(s, src->fd, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
    if (verdict != STRANGER_WAITS)
        decide(s, stranger_leave(s, src), verdict);
}

int64_t foreign_sweep(struct http_server *s, int64_t now_ms)
{
    int64_t wait = -1;
    for (size_t i = 0; i < HTTP_MAX_STRANGERS; i++) {
        struct source *src = &s->strangers[i];
        int64_t left = src->deadline_ms - now_ms;
        if (src->fd < 0)
            continue;
        if (left <= 0)
            refuse(s, stranger_leave(s, src));
        else if (wait < 0 || left < wait)
            wait = left;
    }
    return wait;
}

/* ---- a request ---- */

/* What the route's template calls {project}; empty: it has none. */
static ty_str request_project(const struct http_request *req)
{
    size_t n = 0;
    for (const char *p = strchr(req->route->path, '{'); p; p = strchr(p + 1, '{'), n++)
        if (strncmp(p, "{project}", strlen("{project}")) == 0)
            return req->capture[n];
    return TY_STR("");
}

ty_err http_request_may(const struct http_request *req, ty_str project)
{
    if (!req->foreign || ty_str_eq(project, req->replica.project))
        return TY_OK;
    return ty_fail(TY_PERMISSION_DENIED,
                   "project '%.*s': a replica that runs as another user may use its own project "
                   "only, '" TY_STR_FMT "'",
                   project.len > 128 ? 128 : (int)project.len, project.ptr,
                   TY_STR_ARG(req->replica.project));
}

ty_err foreign_route_check(const struct http_request *req)
{
    ty_str project = request_project(req);
    return project.len == 0 ? TY_OK : http_request_may(req, project);
}

bool foreign_identify(struct exchange *x)
{
    const struct http_tokens *tokens = &x->server->tokens;
    struct http_request *req = &x->req;
    if (x->token.len == 0 || !tokens->made || !tokens->made(tokens->ctx, x->token))
        return !req->foreign;
    ty_err err = tokens->live(tokens->ctx, req->arena, x->token, &req->replica);
    if (err == TY_OK)
        req->replica.token = x->token;
    else if (err != TY_PERMISSION_DENIED)
        log_error("http.token", "request=%s error='%s'", req->id, ty_err_message());
    return err == TY_OK || !req->foreign;
}
