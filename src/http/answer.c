/* answer.c -- from a handler's result to bytes: google.rpc error bodies and MHD responses.
 *
 *   {"error":{"code":404,"message":"…","status":"NOT_FOUND","details":[…,
 *     {"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":"…"}]}}
 *
 * No answer ever carries a CORS header: a page of another origin must not read us. */
#include "http/http_int.h"

#include "wire/wire.h"

#include <strings.h>

static const char json_content_type[] = "application/json; charset=UTF-8";

static void error_details(struct ty_buf *b, ty_str details, const char *id)
{
    details = ty_str_trim(details);
    if (ty_str_starts(details, TY_STR("[")) && ty_str_ends(details, TY_STR("]")) &&
        details.len >= 2) {
        ty_str inner = ty_str_trim((ty_str){details.ptr + 1, details.len - 2});
        if (inner.len != 0) {
            ty_buf_adds(b, inner);
            ty_buf_addc(b, ',');
        }
    }
    ty_buf_addf(
        b, "{\"@type\":\"type.googleapis.com/google.rpc.RequestInfo\",\"requestId\":\"%s\"}", id);
}

void answer_error(struct exchange *x, int status, ty_err err)
{
    struct ty_buf *b = &x->res.body;
    source_end(x);
    ty_buf_clear(b);
    b->full = false;
    ty_buf_addf(b, "{\"error\":{\"code\":%d,\"message\":", status);
    wire_json_string(b, ty_str_of(ty_err_message()));
    ty_buf_addf(b, ",\"status\":\"%s\",\"details\":[", ty_err_name(err));
    error_details(b, x->res.error_details, x->req.id);
    ty_buf_addz(b, "]}}");
    x->res.status = status;
    x->res.content_type = NULL;
    if (status >= 500)
        log_error("http.error", "request=%s status=%d target='%.*s' error='%s'", x->req.id, status,
                  x->target.len > 512 ? 512 : (int)x->target.len, x->target.ptr, ty_err_message());
}

void answer_raw(struct exchange *x, int fd)
{
    struct ty_buf b;
    ty_buf_init(&b, 64 * 1024);
    ty_str body = ty_buf_str(&x->res.body);
    const char *reason = x->res.status == 413   ? "Content Too Large"
                         : x->res.status == 429 ? "Too Many Requests"
                                                : "Refused";
    ty_buf_addf(
        &b,
        "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
        x->res.status, reason, json_content_type, body.len);
    ty_buf_adds(&b, body);
    /* It fits in an empty socket buffer; a client that left none free is not reading anyway. */
    (void)send(fd, b.ptr, b.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    ty_buf_clear(&b);
}

static void count_answer(struct exchange *x)
{
    struct http_server *s = x->server;
    int64_t budget = HTTP_RATE_GRACE_MS + (int64_t)x->res.body.len / HTTP_RATE_BYTES_MS;
    x->send_start_ms = ty_boot_ms();
    pthread_mutex_lock(&s->conn_lock);
    s->stats.requests++;
    s->stats.errors_4xx += x->res.status >= 400 && x->res.status < 500;
    s->stats.errors_5xx += x->res.status >= 500;
    x->conn->phase = CONN_SEND;
    x->conn->deadline_ms = x->send_start_ms + budget;
    pthread_mutex_unlock(&s->conn_lock);
}

static void add_header(struct exchange *x, struct MHD_Response *r, const char *name,
                       const char *value)
{
    if (x->server->mhd->MHD_add_response_header(r, name, value) != MHD_YES)
        log_error("http.bad_header", "request=%s header='%s'", x->req.id, name);
}

static bool header_given(const struct http_response *res, const char *name)
{
    for (const struct http_param *h = res->headers; h; h = h->next)
        if (strcasecmp(h->name.ptr, name) == 0)
            return true;
    return false;
}

static void add_headers(struct exchange *x, struct MHD_Response *r)
{
    struct http_response *res = &x->res;
    add_header(x, r, "Content-Type", res->content_type ? res->content_type : json_content_type);
    add_header(x, r, "X-Content-Type-Options", "nosniff");
    if (!header_given(res, "Cache-Control"))
        add_header(x, r, "Cache-Control", "no-store");
    add_header(x, r, "X-Request-Id", x->req.id);
    if (x->allow)
        add_header(x, r, "Allow", x->allow);
    if (res->header_name)
        add_header(x, r, res->header_name, res->header_value);
    for (const struct http_param *h = res->headers; h; h = h->next)
        add_header(x, r, h->name.ptr, h->value.ptr);
    if (x->close_after)
        add_header(x, r, "Connection", "close");
}

enum MHD_Result answer_queue(struct exchange *x)
{
    const struct mhd *mhd = x->server->mhd;
    struct http_response *res = &x->res;
    if (res->status == 0)
        res->status = 200;
    if (res->status == 200 && res->body.len == 0 && !res->content_type && !res->source.read)
        ty_buf_addz(&res->body, "{}");
    count_answer(x);

    /* The buffer lives until request_completed, which MHD calls after its last use. */
    struct MHD_Response *r = res->source.read
                                 ? source_response(x)
                                 : mhd->MHD_create_response_from_buffer(
                                       res->body.len, res->body.len ? res->body.ptr : (char *)"",
                                       MHD_RESPMEM_PERSISTENT);
    if (!r)
        return MHD_NO;
    add_headers(x, r);
    enum MHD_Result ok = mhd->MHD_queue_response(x->mhd, (unsigned)res->status, r);
    mhd->MHD_destroy_response(r);
    return ok;
}
