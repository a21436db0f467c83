/* target.c -- a request's target, "/path?a=b", and its query parameters.
 *
 * The path stays raw (the router decodes captures); names and values of the
 * query are decoded here, once, into the request's arena.
 *
 * To a proxy a client sends "http://HOST/path". Real gcloud puts a region before the host of some
 * of its older commands, whatever endpoint it was given (us-central1-127.0.0.1:7575), a name that
 * no resolver knows: with this server as its proxy it gets here all the same. */
#include "http/http_int.h"

#include "wire/wire.h"

#include <strings.h>

static ty_err query_parse(struct http_request *req, ty_str query)
{
    struct http_param **tail = &req->query;
    size_t count = 0;
    for (bool more = query.len != 0; more;) {
        ty_str pair, name;
        more = ty_str_split(&query, '&', &pair);
        if (pair.len == 0)
            continue;
        if (++count > HTTP_MAX_PARAMS)
            return ty_fail(TY_INVALID_ARGUMENT, "the query has more than %d parameters",
                           HTTP_MAX_PARAMS);
        ty_str value = pair;
        if (!ty_str_split(&value, '=', &name))
            value = TY_STR("");
        struct http_param *p = ty_new(req->arena, struct http_param);
        ty_err err = wire_url_decode(req->arena, name, true, &p->name);
        if (err == TY_OK)
            err = wire_url_decode(req->arena, value, true, &p->value);
        if (err != TY_OK)
            return ty_wrap(err, "query parameter '%.*s'", name.len > 128 ? 128 : (int)name.len,
                           name.ptr);
        *tail = p;
        tail = &p->next;
    }
    return TY_OK;
}

static ty_str host_without_region(ty_str host)
{
    size_t at = host.len;
    while (at > 0 && host.ptr[at - 1] != '-')
        at--;
    for (size_t i = 0; i < at; i++) {
        char c = host.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && i > 0)))
            return host;
    }
    return at > 1 && at < host.len ? ty_str_drop(host, at) : host;
}

bool target_host_take(ty_str *target, ty_str *ret_host)
{
    ty_str scheme = TY_STR("http://"), rest = *target;
    if (rest.len < scheme.len || strncasecmp(rest.ptr, scheme.ptr, scheme.len) != 0)
        return false;
    rest = ty_str_drop(rest, scheme.len);
    size_t n = 0;
    while (n < rest.len && rest.ptr[n] != '/' && rest.ptr[n] != '?')
        n++;
    if (n == 0 || (n < rest.len && rest.ptr[n] == '?')) /* a query needs a path before it */
        return false;
    *ret_host = host_without_region((ty_str){rest.ptr, n});
    *target = n < rest.len ? ty_str_drop(rest, n) : TY_STR("/");
    return true;
}

ty_err target_parse(struct http_request *req, ty_str target)
{
    if (target.len > HTTP_URI_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "the request's URI is longer than %d bytes",
                       HTTP_URI_BYTES);
    if (target.len == 0 || target.ptr[0] != '/')
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the request's target must be a path that begins with '/'");
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.ptr[i];
        if (c <= ' ' || c == 0x7f)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "the request's URI has a space or control character at byte %zu", i);
    }
    ty_str path = target, query = target;
    if (ty_str_split(&query, '?', &path)) {
        ty_err err = query_parse(req, query);
        if (err != TY_OK)
            return err;
    }
    req->path = path;
    return TY_OK;
}

ty_str http_query(const struct http_request *req, const char *name)
{
    for (const struct http_param *p = req->query; p; p = p->next) {
        if (wire_name_eq(p->name, ty_str_of(name)))
            return p->value;
    }
    return TY_STR("");
}

ty_str http_header(const struct http_request *req, const char *name)
{
    for (const struct http_param *h = req->headers; h; h = h->next) {
        if (h->name.len == strlen(name) && strncasecmp(h->name.ptr, name, h->name.len) == 0)
            return h->value;
    }
    return TY_STR("");
}

void http_header_add(struct http_request *req, struct http_response *res, const char *name,
                     ty_str value)
{
    if (value.len == 0)
        return;
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return;
    }
    struct http_param **tail = &res->headers;
    while (*tail)
        tail = &(*tail)->next;
    *tail = ty_new(req->arena, struct http_param);
    (*tail)->name = ty_str_dup(req->arena, ty_str_of(name));
    (*tail)->value = ty_str_dup(req->arena, value);
}

ty_err http_query_i64(const struct http_request *req, const char *name, int64_t otherwise,
                      int64_t *ret_value)
{
    ty_str text = http_query(req, name);
    if (text.len == 0) {
        *ret_value = otherwise;
        return TY_OK;
    }
    int64_t value;
    if (ty_parse_i64(text, &value) != TY_OK)
        return ty_fail(TY_INVALID_ARGUMENT, "%s: '%.*s' is not a whole number", name,
                       text.len > 64 ? 64 : (int)text.len, text.ptr);
    *ret_value = value;
    return TY_OK;
}
