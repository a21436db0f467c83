/* router.c -- which handler a path belongs to.
 *
 * A few hundred templates, compiled to segments and sorted so that the first
 * match is the best one: comparing kinds segment by segment, a literal comes
 * before a capture with a verb, that before a bare capture, that before
 * {rest...}. A plain scan in that order is a few microseconds and has no
 * special cases.
 *
 * Matching works on the raw path and captures are decoded afterwards, so that
 * %2F stays inside its segment. */
#include "http/http_int.h"

#include "wire/wire.h"

enum { MAX_SEGMENTS = 16 };
enum segment_kind { SEGMENT_LITERAL, SEGMENT_VERB, SEGMENT_CAPTURE, SEGMENT_REST };

struct segment {
    enum segment_kind kind;
    ty_str text; /* LITERAL: the segment; VERB: ":cancel" */
};

struct entry {
    const struct http_route *route;
    const struct http_routes *table; /* ctx, body, last: in the router's arena */
    ty_str path;                     /* with its prefix, for messages */
    struct segment segments[MAX_SEGMENTS];
    size_t count;
};

struct http_router {
    struct ty_arena arena;
    struct entry *entries;
    size_t count;
    bool streams, nows;
};

static const char *const method_names[] = {
    [HTTP_GET] = "GET",     [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",
    [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE", [HTTP_HEAD] = "HEAD",
};

const char *method_name(enum http_method m)
{
    return method_names[m];
}

bool method_parse(const char *name, enum http_method *ret_method)
{
    for (size_t i = 0; i < TY_COUNT(method_names); i++) {
        if (strcmp(name, method_names[i]) == 0) {
            *ret_method = (enum http_method)i;
            return true;
        }
    }
    return false;
}

/* ---- compiling ---- */

static ty_err compile_segment(struct entry *e, ty_str text, bool last)
{
    struct segment *seg = &e->segments[e->count++];
    if (text.len == 0 || text.ptr[0] != '{') {
        if (text.len != 0 && memchr(text.ptr, '{', text.len))
            goto bad;
        *seg = (struct segment){SEGMENT_LITERAL, text};
        return TY_OK;
    }
    const char *close = memchr(text.ptr, '}', text.len);
    if (!close)
        goto bad;
    ty_str name = {text.ptr + 1, (size_t)(close - text.ptr) - 1};
    ty_str after = ty_str_drop(text, name.len + 2);
    if (ty_str_ends(name, TY_STR("..."))) {
        if (!last || after.len != 0)
            goto bad;
        seg->kind = SEGMENT_REST;
        return TY_OK;
    }
    if (after.len == 0) {
        seg->kind = SEGMENT_CAPTURE;
        return TY_OK;
    }
    if (after.len < 2 || after.ptr[0] != ':' || !last)
        goto bad;
    *seg = (struct segment){SEGMENT_VERB, after};
    return TY_OK;
bad:
    return ty_fail(TY_INVALID_ARGUMENT, "route '" TY_STR_FMT "': bad segment '" TY_STR_FMT "'",
                   TY_STR_ARG(e->path), TY_STR_ARG(text));
}

static ty_err compile_entry(struct entry *e)
{
    if (e->path.len == 0 || e->path.ptr[0] != '/')
        return ty_fail(TY_INVALID_ARGUMENT, "route '" TY_STR_FMT "' does not begin with '/'",
                       TY_STR_ARG(e->path));
    ty_str rest = ty_str_drop(e->path, 1);
    size_t captures = 0;
    for (bool more = true; more;) {
        ty_str text;
        more = ty_str_split(&rest, '/', &text);
        if (e->count == MAX_SEGMENTS)
            return ty_fail(TY_INVALID_ARGUMENT, "route '" TY_STR_FMT "' has more than %d segments",
                           TY_STR_ARG(e->path), MAX_SEGMENTS);
        ty_err err = compile_segment(e, text, !more);
        if (err != TY_OK)
            return err;
        captures += e->segments[e->count - 1].kind != SEGMENT_LITERAL;
    }
    if (captures > HTTP_MAX_CAPTURES)
        return ty_fail(TY_INVALID_ARGUMENT, "route '" TY_STR_FMT "' has more than %d captures",
                       TY_STR_ARG(e->path), HTTP_MAX_CAPTURES);
    return TY_OK;
}

/* Best match first. Entries that compare equal in kind keep a stable order by their text. */
static int entry_compare(const void *va, const void *vb)
{
    const struct entry *a = va, *b = vb;
    size_t common = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < common; i++) {
        if (a->segments[i].kind != b->segments[i].kind)
            return a->segments[i].kind < b->segments[i].kind ? -1 : 1;
    }
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    for (size_t i = 0; i < a->count; i++) {
        int c = ty_str_cmp(a->segments[i].text, b->segments[i].text);
        if (c != 0)
            return c;
    }
    return (a->route->method > b->route->method) - (a->route->method < b->route->method);
}

static ty_err compile_table(struct http_router *r, const struct http_routes *t)
{
    static const char *const no_prefix[] = {"", NULL};
    struct http_routes *table = ty_new(&r->arena, struct http_routes);
    *table = *t;
    r->streams = r->streams || t->body != NULL;
    r->nows = r->nows || t->now != NULL;
    const char *const *prefixes = t->prefixes ? t->prefixes : no_prefix;
    for (; *prefixes; prefixes++) {
        for (size_t i = 0; i < t->count; i++) {
            struct entry *e = &r->entries[r->count++];
            e->route = &t->rows[i];
            e->table = table;
            e->path = ty_str_of(ty_format(&r->arena, "%s%s", *prefixes, t->rows[i].path));
            ty_err err = compile_entry(e);
            if (err != TY_OK)
                return err;
        }
    }
    return TY_OK;
}

static size_t table_entries(const struct http_routes *t)
{
    size_t n = 0;
    for (const char *const *p = t->prefixes; p && *p; p++)
        n++;
    return t->count * (t->prefixes ? n : 1);
}

ty_err http_router_new(const struct http_routes *tables, size_t count,
                       struct http_router **ret_router)
{
    struct http_router *r = calloc(1, sizeof(*r));
    ty_assert(r != NULL);
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += table_entries(&tables[i]);
    r->entries = ty_new_array(&r->arena, struct entry, total);

    ty_err err = TY_OK;
    for (size_t i = 0; i < count && err == TY_OK; i++)
        err = compile_table(r, &tables[i]);
    if (err == TY_OK && r->count > 1)
        qsort(r->entries, r->count, sizeof(*r->entries), entry_compare);
    for (size_t i = 1; i < r->count && err == TY_OK; i++) {
        const struct entry *e = &r->entries[i];
        if (entry_compare(e - 1, e) == 0)
            err = ty_fail(TY_INVALID_ARGUMENT, "two routes for %s '" TY_STR_FMT "'",
                          method_name(e->route->method), TY_STR_ARG(e->path));
    }
    if (err != TY_OK) {
        http_router_free(r);
        return err;
    }
    *ret_router = r;
    return TY_OK;
}

void http_router_free(struct http_router *r)
{
    if (!r)
        return;
    ty_arena_clear(&r->arena);
    free(r);
}

/* ---- matching ---- */

struct path {
    ty_str segments[MAX_SEGMENTS];
    size_t count;    /* MAX_SEGMENTS + 1 when there are more */
    const char *end; /* of the path */
};

static void path_split(ty_str raw, struct path *ret_path)
{
    ty_str rest = ty_str_drop(raw, 1);
    ret_path->count = 0;
    ret_path->end = raw.ptr + raw.len;
    for (bool more = true; more;) {
        ty_str text;
        more = ty_str_split(&rest, '/', &text);
        if (ret_path->count == MAX_SEGMENTS) {
            ret_path->count++;
            return;
        }
        ret_path->segments[ret_path->count++] = text;
    }
}

/* Raw captures into `capture`; their number, or -1 when the path is another. */
static int entry_match(const struct entry *e, const struct path *p,
                       ty_str capture[HTTP_MAX_CAPTURES])
{
    bool rest = e->segments[e->count - 1].kind == SEGMENT_REST;
    if (rest ? p->count < e->count : p->count != e->count)
        return -1;
    int captures = 0;
    for (size_t i = 0; i < e->count; i++) {
        const struct segment *seg = &e->segments[i];
        ty_str text = p->segments[i];
        switch (seg->kind) {
        case SEGMENT_LITERAL:
            if (!ty_str_eq(seg->text, text))
                return -1;
            continue;
        case SEGMENT_VERB:
            if (!ty_str_ends(text, seg->text))
                return -1;
            text.len -= seg->text.len;
            break;
        case SEGMENT_CAPTURE:
            break;
        case SEGMENT_REST:
            text.len = (size_t)(p->end - text.ptr);
            break;
        }
        if (text.len == 0)
            return -1;
        capture[captures++] = text;
    }
    return captures;
}

static bool method_serves(enum http_method have, enum http_method want)
{
    return have == want || (have == HTTP_GET && want == HTTP_HEAD);
}

static ty_err captures_decode(struct http_request *req, const struct entry *e, const ty_str *raw,
                              int count)
{
    bool rest = e->segments[e->count - 1].kind == SEGMENT_REST;
    ty_str decoded[HTTP_MAX_CAPTURES] = {0};
    for (int i = 0; i < count; i++) {
        if (rest && i == count - 1) {
            decoded[i] = raw[i];
            continue;
        }
        ty_err err = wire_url_decode(req->arena, raw[i], false, &decoded[i]);
        if (err != TY_OK)
            return ty_wrap(err, "path segment '" TY_STR_FMT "'", TY_STR_ARG(raw[i]));
    }
    memcpy(req->capture, decoded, sizeof(decoded));
    return TY_OK;
}

ty_err router_find(const struct http_router *r, struct http_request *req,
                   struct router_match *ret_match)
{
    bool other_method = false;
    struct path path = {0};
    if (req->path.len != 0 && req->path.ptr[0] == '/')
        path_split(req->path, &path);
    for (size_t i = 0; i < r->count && path.count != 0; i++) {
        const struct entry *e = &r->entries[i];
        ty_str raw[HTTP_MAX_CAPTURES];
        int count = entry_match(e, &path, raw);
        if (count < 0)
            continue;
        if (!method_serves(e->route->method, req->method)) {
            other_method = other_method || !e->table->last;
            continue;
        }
        ty_err err = captures_decode(req, e, raw, count);
        if (err != TY_OK)
            return err;
        req->route = e->route;
        *ret_match =
            (struct router_match){e->route->handler, e->table->body, e->table->now, e->table->ctx};
        return TY_OK;
    }
    int shown = req->path.len > 512 ? 512 : (int)req->path.len;
    if (other_method)
        return ty_fail(TY_UNIMPLEMENTED, "'%.*s' has no method %s", shown, req->path.ptr,
                       method_name(req->method));
    return ty_fail(TY_NOT_FOUND, "no route for %s '%.*s'", method_name(req->method), shown,
                   req->path.ptr);
}

ty_err http_router_match(const struct http_router *r, struct http_request *req,
                         http_handler *ret_handler, void **ret_ctx)
{
    struct router_match match;
    ty_err err = router_find(r, req, &match);
    if (err != TY_OK)
        return err;
    *ret_handler = match.handler;
    *ret_ctx = match.ctx;
    return TY_OK;
}

ty_err http_router_call(const struct http_router *r, const struct http_request *outer,
                        enum http_method method, ty_str target, ty_str body,
                        struct http_response *res)
{
    struct router_match match;
    struct http_request req = *outer;
    req.method = method;
    req.query = NULL;
    req.body = body;
    req.state = NULL;
    ty_err err = target_parse(&req, target);
    if (err == TY_OK)
        err = router_find(r, &req, &match);
    if (err == TY_OK && match.body)
        err = ty_fail(TY_INVALID_ARGUMENT, "an upload cannot be part of another request");
    if (err == TY_OK)
        err = foreign_route_check(&req);
    return err == TY_OK ? match.handler(&req, res, match.ctx) : err;
}

bool router_streams(const struct http_router *r)
{
    return r->streams;
}

bool router_nows(const struct http_router *r)
{
    return r->nows;
}

void router_allow(const struct http_router *r, ty_str path, struct ty_buf *b)
{
    struct path p = {0};
    if (path.len != 0 && path.ptr[0] == '/')
        path_split(path, &p);
    bool has[TY_COUNT(method_names)] = {0};
    for (size_t i = 0; i < r->count && p.count != 0; i++) {
        ty_str raw[HTTP_MAX_CAPTURES];
        if (!r->entries[i].table->last && entry_match(&r->entries[i], &p, raw) >= 0)
            has[r->entries[i].route->method] = true;
    }
    has[HTTP_HEAD] = has[HTTP_HEAD] || has[HTTP_GET];
    for (size_t i = 0; i < TY_COUNT(has); i++) {
        if (has[i])
            ty_buf_addf(b, "%s%s", b->len ? ", " : "", method_names[i]);
    }
}
