/* batch.c -- several calls in one: multipart/mixed of application/http, in and out.
 *
 * Each call is a request of its own, routed and answered as if it had come alone, one after the
 * other. Only metadata: no uploads, no downloads, no batch in a batch. */
#include "gcs/gcs_int.h"

struct batch {
    struct ty_arena *arena;
    struct batch_call *calls;
    size_t count;
    struct ty_buf text; /* of the part being read */
};

/* ---- in ---- */

static bool method_of(ty_str name, enum http_method *ret_method)
{
    static const struct {
        const char *name;
        enum http_method method;
    } rows[] = {{"GET", HTTP_GET},
                {"POST", HTTP_POST},
                {"PUT", HTTP_PUT},
                {"PATCH", HTTP_PATCH},
                {"DELETE", HTTP_DELETE}};
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        if (ty_str_is(name, rows[i].name)) {
            *ret_method = rows[i].method;
            return true;
        }
    }
    return false;
}

/* "http://host/path" or "/path". */
static ty_str target_path(ty_str target)
{
    const char *scheme = memmem(target.ptr, target.len, "://", 3);
    if (!scheme || (target.len > 0 && target.ptr[0] == '/'))
        return target;
    ty_str rest = ty_str_drop(target, (size_t)(scheme - target.ptr) + 3);
    const char *slash = memchr(rest.ptr, '/', rest.len);
    return slash ? ty_str_drop(rest, (size_t)(slash - rest.ptr)) : TY_STR("/");
}

/* "PATCH /storage/v1/… HTTP/1.1", headers, an empty line, a body. */
static ty_err call_parse(ty_str text, struct batch_call *call)
{
    ty_str line, method, target, rest = text;
    do { /* a generator may put an empty line first */
        if (!ty_str_split(&rest, '\n', &line) && ty_str_trim(line).len == 0)
            return ty_fail(TY_INVALID_ARGUMENT, "batch: a part has no request line");
        line = ty_str_trim(line);
    } while (line.len == 0);
    ty_str words = line;
    if (!ty_str_split(&words, ' ', &method) || !method_of(method, &call->method))
        return ty_fail(TY_INVALID_ARGUMENT, "batch: '%.*s' is no request line",
                       line.len > 128 ? 128 : (int)line.len, line.ptr);
    ty_str_split(&words, ' ', &target);
    call->target = target_path(target);
    bool more = rest.len > 0;
    while (more) {
        more = ty_str_split(&rest, '\n', &line);
        if (ty_str_trim(line).len == 0)
            break;
    }
    call->body = more ? ty_str_trim(rest) : TY_STR("");
    return TY_OK;
}

/* The part that has been collected is over. */
static ty_err part_close(struct batch *b)
{
    if (b->count == 0)
        return TY_OK;
    ty_str text = ty_str_dup(b->arena, ty_buf_str(&b->text));
    b->text.len = 0;
    return call_parse(text, &b->calls[b->count - 1]);
}

static ty_err part_open(void *arg, size_t index, ty_str headers)
{
    struct batch *b = arg;
    ty_err err = part_close(b);
    if (err != TY_OK)
        return err;
    if (index >= GCS_BATCH_CALLS)
        return ty_fail(TY_INVALID_ARGUMENT, "batch: there are more than %d calls", GCS_BATCH_CALLS);
    b->calls[b->count++] =
        (struct batch_call){.id = ty_str_dup(b->arena, part_header(headers, "Content-ID"))};
    return TY_OK;
}

static ty_err part_data(void *arg, size_t index, ty_str bytes)
{
    struct batch *b = arg;
    (void)index;
    ty_buf_adds(&b->text, bytes);
    return ty_buf_check(&b->text, "a call of the batch");
}

ty_err batch_parse(struct ty_arena *a, ty_str content_type, ty_str body,
                   struct batch_call **ret_calls, size_t *ret_count)
{
    static const struct multipart_events events = {part_open, part_data};
    struct batch b = {.arena = a, .calls = ty_new_array(a, struct batch_call, GCS_BATCH_CALLS)};
    struct multipart m;
    ty_err err = multipart_init(&m, content_type, &events, &b);
    if (err != TY_OK)
        return err;
    ty_buf_init(&b.text, GCS_METADATA_BYTES);
    err = multipart_feed(&m, body);
    if (err == TY_OK)
        err = multipart_end(&m);
    if (err == TY_OK)
        err = part_close(&b);
    multipart_clear(&m);
    ty_buf_clear(&b.text);
    if (err != TY_OK)
        return err;
    *ret_calls = b.calls;
    *ret_count = b.count;
    return TY_OK;
}

/* ---- out ---- */

static void call_run(struct http_request *req, struct gcs *g, const struct batch_call *call,
                     struct http_response *res)
{
    if (!ty_str_starts(call->target, TY_STR("/storage/v1/"))) {
        answer_with(req, res,
                    ty_fail(TY_INVALID_ARGUMENT,
                            "batch: only calls of /storage/v1/ may be in one, not '%.*s'",
                            call->target.len > 128 ? 128 : (int)call->target.len,
                            call->target.ptr));
        return;
    }
    ty_err err = http_router_call(g->router, req, call->method, call->target, call->body, res);
    if (err == TY_OK && res->source.read) {
        res->source.close(res->source.arg);
        res->source = (struct http_source){0};
        err = ty_fail(TY_INVALID_ARGUMENT, "batch: downloads may not be in one");
    }
    answer_with(req, res, err);
}

static void call_print(struct ty_buf *b, const char *boundary, const struct batch_call *call,
                       const struct http_response *res)
{
    int status = res->status ? res->status : 200;
    ty_str id = call->id;
    if (ty_str_starts(id, TY_STR("<")))
        id = ty_str_drop(id, 1);
    ty_buf_addf(b, "--%s\r\nContent-Type: application/http\r\n", boundary);
    if (id.len > 0)
        ty_buf_addf(b, "Content-ID: <response-" TY_STR_FMT "%s\r\n", TY_STR_ARG(id),
                    ty_str_ends(id, TY_STR(">")) ? "" : ">");
    ty_buf_addf(b,
                "\r\nHTTP/1.1 %d %s\r\nContent-Type: application/json; charset=UTF-8\r\n"
                "Content-Length: %zu\r\n\r\n",
                status, status < 300 ? "OK" : "Error", res->body.len);
    ty_buf_adds(b, ty_buf_str(&res->body));
    ty_buf_addz(b, "\r\n");
}

ty_err batch_run(struct http_request *req, struct http_response *res, void *ctx)
{
    struct batch_call *calls;
    size_t count;
    ty_err err = batch_parse(req->arena, req->content_type, req->body, &calls, &count);
    if (err != TY_OK)
        return answer_with(req, res, err);
    const char *boundary = ty_format(req->arena, "batch_%s", req->id);
    for (size_t i = 0; i < count; i++) {
        struct http_response one = {0};
        ty_buf_init(&one.body, res->body.limit);
        call_run(req, ctx, &calls[i], &one);
        call_print(&res->body, boundary, &calls[i], &one);
        ty_buf_clear(&one.body);
    }
    ty_buf_addf(&res->body, "--%s--\r\n", boundary);
    res->content_type = ty_format(req->arena, "multipart/mixed; boundary=%s", boundary);
    return TY_OK;
}
