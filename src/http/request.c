/* request.c -- what happens on MHD's thread: look at the headers, collect the body, hand over.
 *
 *   request_begin      request line read: make the exchange
 *   request_access     called with the headers, then with pieces of the body, then at its end;
 *                      and once more when a worker has resumed it, to queue the answer
 *   request_completed  answer sent or connection lost: free the exchange
 *
 * MHD accepts a missing Host, two Content-Lengths, and Content-Length with
 * Transfer-Encoding. We refuse those, and whatever a web page of another origin
 * would cause: a browser always sends Host, and Origin or Sec-Fetch-Site, and a
 * page cannot forge them. */
#include "http/http_int.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <strings.h>

/* ---- connections ---- */

static struct conn *conn_of(struct http_server *s, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        s->mhd->MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info->socket_context;
}

static struct conn *conn_new(struct http_server *s, struct MHD_Connection *mhd)
{
    struct conn *c = calloc(1, sizeof(*c));
    ty_assert(c != NULL);
    c->fd = s->mhd->MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    c->local = s->mhd->MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                   ->client_addr->sa_family == AF_UNIX;
    c->tls = s->mhd->MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION) != NULL;
    c->foreign = foreign_is(s, c->fd);
    c->phase = CONN_HEADERS;
    c->deadline_ms = ty_boot_ms() + s->header_timeout_ms;
    return c;
}

/* MHD closes without a word when the first line makes no sense. Whoever sent it is told. */
static void answer_not_http(const struct conn *c)
{
    static const char reply[] =
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    char byte;
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (c->local || c->tls || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return;
    bool left =
        recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0; /* its end counts as a byte received */
    if (info.tcpi_bytes_sent == 0 && info.tcpi_bytes_received > (left ? 1 : 0))
        (void)send(c->fd, reply, sizeof(reply) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void request_connection(void *cls, struct MHD_Connection *mhd, void **state,
                        enum MHD_ConnectionNotificationCode code)
{
    struct http_server *s = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct conn *c = conn_new(s, mhd);
        pthread_mutex_lock(&s->conn_lock);
        bool first = s->conns == NULL;
        c->next = s->conns;
        if (c->next)
            c->next->prev = c;
        s->conns = c;
        s->stats.connections++;
        pthread_mutex_unlock(&s->conn_lock);
        *state = c;
        if (first)
            event_kick(s); /* nothing was being watched until now */
        return;
    }
    struct conn *c = *state;
    pthread_mutex_lock(&s->conn_lock);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->stats.connections--;
    pthread_mutex_unlock(&s->conn_lock);
    atomic_fetch_sub(&s->live, 1);
    /* Now the sweep does not see it, and MHD closes the socket when we return. */
    if (!c->begun && !c->dropped && !c->foreign)
        answer_not_http(c);
    if (c->foreign)
        foreign_closed(s, c->fd);
    shutdown(c->fd, SHUT_WR); /* a lingering copy may keep the socket: this sends the end */
    free(c);
    *state = NULL;
}

/* ---- the life of an exchange ---- */

void *request_begin(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct http_server *s = cls;
    struct exchange *x = calloc(1, sizeof(*x));
    ty_assert(x != NULL);
    x->server = s;
    x->mhd = mhd;
    x->conn = conn_of(s, mhd);
    x->conn->begun = true;
    x->req.arena = &x->arena;
    x->req.local_socket = x->conn->local;
    x->req.tls = x->conn->tls;
    x->req.foreign = x->conn->foreign;
    x->req.fd = x->conn->fd;
    uint64_t id;
    ty_random(&id, sizeof(id));
    snprintf(x->req.id, sizeof(x->req.id), "%016" PRIx64, id);
    ty_buf_init(&x->body, (size_t)s->request_bytes);
    ty_buf_init(&x->res.body, HTTP_RESPONSE_BYTES);
    x->target = ty_str_dup(&x->arena, ty_str_of(uri)); /* MHD's pool bounds it */
    (void)target_host_take(&x->target, &x->proxied);
    if (x->conn->phase == CONN_IDLE) /* only this thread sets phases */
        conn_phase_set(s, x->conn, CONN_HEADERS, ty_boot_ms() + s->header_timeout_ms);
    return x;
}

void exchange_free(struct exchange *x)
{
    atomic_fetch_sub(&x->server->buffered, x->body.len);
    ty_buf_clear(&x->body);
    source_end(x);
    ty_buf_clear(&x->res.body);
    ty_arena_clear(&x->arena);
    free(x);
}

void request_completed(void *cls, struct MHD_Connection *mhd, void **state,
                       enum MHD_RequestTerminationCode code)
{
    struct http_server *s = cls;
    struct exchange *x = *state;
    (void)mhd;
    (void)code;
    if (!x)
        return;
    conn_phase_set(s, x->conn, CONN_IDLE, ty_boot_ms() + s->idle_timeout_ms);
    *state = NULL;
    if (stream_release(x))
        exchange_free(x);
}

/* ---- headers ---- */

struct headers {
    struct exchange *x;
    unsigned hosts, lengths, encodings;
    bool bad_name, bad_encoding, bad_origin, bad_site;
    bool identity; /* Transfer-Encoding: identity, which says nothing */
    int64_t length;
    struct http_param **tail;
};

/* "127.0.0.1", "localhost" or "[::1]", alone or with our port. */
static bool host_is_ours(ty_str host, int port, bool need_port)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < TY_COUNT(names); i++) {
        size_t n = strlen(names[i]);
        if (host.len < n || strncasecmp(host.ptr, names[i], n) != 0)
            continue;
        ty_str after = ty_str_drop(host, n);
        if (after.len == 0)
            return !need_port || port == 80;
        int64_t sent;
        return after.ptr[0] == ':' && after.len <= 6 &&
               ty_parse_i64(ty_str_drop(after, 1), &sent) == TY_OK && sent == port;
    }
    return false;
}

/* By TLS also Google's own names, which programs that know no others are sent here by (a preloaded
 * resolver, auth.h). No browser believes our certificate, so no page gets this far. */
static bool host_is_googles(ty_str host)
{
    static const char *const names[] = {"storage.googleapis.com", "www.googleapis.com",
                                        "oauth2.googleapis.com"};
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (host.len == strlen(names[i]) && strncasecmp(host.ptr, names[i], host.len) == 0)
            return true;
    return false;
}

static bool origin_is_ours(ty_str origin, int port)
{
    ty_str plain = TY_STR("http://"), tls = TY_STR("https://");
    ty_str scheme = ty_str_starts(origin, tls) ? tls : plain;
    return ty_str_starts(origin, scheme) &&
           host_is_ours(ty_str_drop(origin, scheme.len), port, true);
}

static enum MHD_Result header_see(void *cls, enum MHD_ValueKind kind, const char *key,
                                  const char *text)
{
    struct headers *h = cls;
    struct http_request *req = &h->x->req;
    ty_str value = ty_str_of(text);
    (void)kind;
    struct http_param *header = ty_new(req->arena, struct http_param);
    header->name = ty_str_dup(req->arena, ty_str_of(key));
    header->value = ty_str_dup(req->arena, value);
    *h->tail = header;
    h->tail = &header->next;
    if (key[0] == '\0' || strpbrk(key, " \t"))
        h->bad_name = true;
    if (strcasecmp(key, "Host") == 0) {
        h->hosts++;
        req->host = ty_str_dup(req->arena, value);
    } else if (strcasecmp(key, "Content-Length") == 0) {
        h->lengths++;
        if (ty_parse_i64(value, &h->length) != TY_OK)
            h->length = INT64_MAX; /* MHD took it as a number, so it is a large one */
    } else if (strcasecmp(key, "Transfer-Encoding") == 0) {
        if (strcasecmp(text ? text : "", "identity") == 0) {
            h->identity = true;
            return MHD_YES;
        }
        h->encodings++;
        h->bad_encoding = h->bad_encoding || strcasecmp(text ? text : "", "chunked") != 0;
    } else if (strcasecmp(key, "Origin") == 0) {
        h->bad_origin = h->bad_origin || !origin_is_ours(value, h->x->server->port);
    } else if (strcasecmp(key, "Sec-Fetch-Site") == 0) {
        h->bad_site = h->bad_site || !(ty_str_is(value, "same-origin") || ty_str_is(value, "none"));
    } else if (strcasecmp(key, "User-Agent") == 0) {
        req->user_agent = ty_str_dup(req->arena, value);
    } else if (strcasecmp(key, "Content-Type") == 0) {
        req->content_type = ty_str_dup(req->arena, value);
    } else if (strcasecmp(key, "Authorization") == 0) {
        req->authorization = ty_str_dup(req->arena, value);
        if (h->x->token.len == 0)
            h->x->token = bearer_token(req->authorization);
    } else if (strcasecmp(key, "X-Trainyard-Token") == 0) {
        h->x->token = ty_str_dup(req->arena, value);
    }
    return MHD_YES;
}

/* Is this a request that one of our own clients sends? *ret_status is the refusal's. */
static ty_err headers_check(const struct headers *h, int *ret_status)
{
    const struct exchange *x = h->x;
    *ret_status = 400;
    if (h->bad_name)
        return ty_fail(TY_INVALID_ARGUMENT, "a header has an empty name or a space in its name");
    if (h->hosts == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "the Host header is missing");
    if (h->hosts > 1)
        return ty_fail(TY_INVALID_ARGUMENT, "there are %u Host headers; one is allowed", h->hosts);
    if (h->lengths > 1)
        return ty_fail(TY_INVALID_ARGUMENT, "there are %u Content-Length headers; one is allowed",
                       h->lengths);
    bool googles = x->conn->tls && host_is_googles(x->req.host);
    /* TensorFlow sends both; chunks count then. Nobody between it and us could read it otherwise.
     */
    if (h->lengths != 0 && h->encodings != 0 && !googles)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "Content-Length and Transfer-Encoding exclude each other");
    /* TensorFlow sends it with an empty body. MHD would take all that follows for a body. */
    if (h->encodings > 1 || h->bad_encoding || (h->identity && x->has_body))
        return ty_fail(TY_INVALID_ARGUMENT, "Transfer-Encoding must be 'chunked'");
    if (!x->conn->local && !host_is_ours(x->req.host, x->server->port, false) && !googles)
        return ty_fail(TY_INVALID_ARGUMENT, "Host '%.*s' is not this server; use 127.0.0.1:%d",
                       x->req.host.len > 256 ? 256 : (int)x->req.host.len, x->req.host.ptr,
                       x->server->port);
    *ret_status = 403;
    if (h->bad_origin)
        return ty_fail(TY_PERMISSION_DENIED,
                       "Origin is not this server: pages of other sites may not call it");
    if (h->bad_site)
        return ty_fail(TY_PERMISSION_DENIED,
                       "Sec-Fetch-Site must be 'same-origin' or 'none': pages of other "
                       "sites may not call this server");
    *ret_status = 414;
    if (x->target.len > HTTP_URI_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "the request's URI is longer than %d bytes",
                       HTTP_URI_BYTES);
    *ret_status = 413;
    if (h->lengths != 0 && h->length > x->server->request_bytes && !x->stream.handler)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the request body is larger than %" PRId64 " bytes (request_bytes)",
                       x->server->request_bytes);
    return TY_OK;
}

static enum MHD_Result refuse(struct exchange *x, int status, ty_err err)
{
    x->close_after = true;
    x->step = STEP_ANSWER;
    answer_error(x, status, err);
    if (x->has_body && !x->conn->tls)
        event_linger(x->server, x->conn->fd);
    return answer_queue(x);
}

/* A body that goes in pieces must be known before its first byte. A request that has no route is
 * refused by a worker, when its body is there, like any other. */
static void headers_route(struct exchange *x)
{
    struct router_match match;
    if (!x->known_method || !x->has_body || !router_streams(x->server->router) ||
        target_parse(&x->req, x->target) != TY_OK ||
        router_find(x->server->router, &x->req, &match) != TY_OK || !match.body)
        return;
    x->handler = match.handler;
    x->ctx = match.ctx;
    x->routed = true;
    stream_begin(x, match.body);
}

static enum MHD_Result body_done(struct exchange *x);

static enum MHD_Result headers_done(struct exchange *x, const char *method)
{
    struct headers h = {.x = x, .tail = &x->req.headers};
    int status;
    x->server->mhd->MHD_get_connection_values(x->mhd, MHD_HEADER_KIND, header_see, &h);
    if (x->proxied.len > 0)
        x->req.host = x->proxied;
    x->method = ty_cstr(&x->arena, ty_str_of(method));
    x->known_method = method_parse(method, &x->req.method);
    x->has_body = h.encodings != 0 || h.length > 0;
    const struct http_tokens *tokens = &x->server->tokens;
    if (x->conn->foreign && !tokens->made(tokens->ctx, x->token)) {
        foreign_refused(x->server);
        return MHD_NO; /* not a byte, and nothing of its body */
    }
    headers_route(x);
    ty_err err = headers_check(&h, &status);
    if (err != TY_OK)
        return refuse(x, status, err);
    x->step = STEP_BODY;
    x->body_start_ms = ty_boot_ms();
    conn_phase_set(x->server, x->conn, CONN_BODY, x->body_start_ms + HTTP_RATE_GRACE_MS);
    if (!h.identity)
        return MHD_YES;
    x->close_after = true; /* MHD goes on waiting for a body */
    return body_done(x);
}

/* ---- body ---- */

/* Nothing else is on its way to the client at this point. Returning MHD_NO then closes the
 * connection. */
enum MHD_Result refuse_now(struct exchange *x)
{
    struct http_server *s = x->server;
    pthread_mutex_lock(&s->conn_lock);
    s->stats.requests++;
    s->stats.errors_4xx++;
    pthread_mutex_unlock(&s->conn_lock);
    if (x->conn->tls)
        return MHD_NO; /* past MHD there is no way to say it */
    event_linger(s, x->conn->fd);
    answer_raw(x, x->conn->fd);
    return MHD_NO;
}

static enum MHD_Result refuse_midway(struct exchange *x, int status, ty_err err)
{
    answer_error(x, status, err);
    return refuse_now(x);
}

static enum MHD_Result body_add(struct exchange *x, const char *data, size_t *size)
{
    struct http_server *s = x->server;
    if (*size > (size_t)s->request_bytes - x->body.len)
        return refuse_midway(x, 413,
                             ty_fail(TY_INVALID_ARGUMENT,
                                     "the request body is larger than %" PRId64
                                     " bytes (request_bytes)",
                                     s->request_bytes));
    if (atomic_fetch_add(&s->buffered, *size) + *size > HTTP_BUFFERED_BYTES) {
        atomic_fetch_sub(&s->buffered, *size);
        return refuse_midway(
            x, 429,
            ty_fail(TY_RESOURCE_EXHAUSTED, "too many large requests at once; try again later"));
    }
    ty_buf_add(&x->body, data, *size);
    *size = 0;
    int64_t budget = HTTP_RATE_GRACE_MS + (int64_t)x->body.len / HTTP_RATE_BYTES_MS;
    conn_phase_set(s, x->conn, CONN_BODY, x->body_start_ms + budget);
    return MHD_YES;
}

static enum MHD_Result body_done(struct exchange *x)
{
    struct http_server *s = x->server;
    x->req.body = ty_buf_str(&x->body);
    if (exchange_now(x)) {
        x->step = STEP_ANSWER;
        return answer_queue(x);
    }
    x->step = STEP_WORK;
    conn_phase_set(s, x->conn, CONN_WORK, 0);
    s->mhd->MHD_suspend_connection(x->mhd); /* before a worker can resume it */
    if (!worker_submit(s, x)) {
        x->close_after = true;
        answer_error(x, 503, ty_fail(TY_UNAVAILABLE, "the server is stopping"));
        x->step = STEP_ANSWER;
        s->mhd->MHD_resume_connection(x->mhd);
    }
    return MHD_YES;
}

enum MHD_Result request_access(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *size, void **state)
{
    struct exchange *x = *state;
    (void)cls;
    (void)mhd;
    (void)url;
    (void)version;
    switch (x->step) {
    case STEP_HEADERS:
        return headers_done(x, method);
    case STEP_BODY:
        if (x->stream.handler)
            return *size != 0 ? stream_add(x, data, size) : stream_finish(x);
        return *size != 0 ? body_add(x, data, size) : body_done(x);
    case STEP_ANSWER:
        if (x->unanswered)
            foreign_refused(x->server);
        return x->unanswered ? MHD_NO : answer_queue(x);
    case STEP_WORK: /* suspended: MHD does not call */
        break;
    }
    return MHD_NO;
}
