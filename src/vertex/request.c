/* request.c -- what handlers have in common: names in the path, paging, and field violations.
 *
 * Every refusal names a field, as google.rpc.BadRequest does, because that is what gcloud prints
 * and what a user can act on; so even a wrong path segment or query parameter becomes a violation.
 */
#include "vertex/vertex_int.h"

enum { NAME_MOST = 63, PAGE_DEFAULT = 100, PAGE_MOST = 1000, SHOWN_BYTES = 80 };

ty_err vertex_violations_reply(const struct wire_violations *v, struct http_response *res)
{
    ty_err err = wire_violations_fail(v);
    if (err == TY_OK)
        return TY_OK;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    wire_violations_json(v, &b);
    if (!b.full)
        res->error_details = ty_str_dup(v->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    return err;
}

ty_err vertex_fail_field(struct http_request *req, struct http_response *res, const char *field,
                         const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct wire_violations v;
    wire_violations_init(&v, req->arena);
    wire_violation_add(&v, field, "%s", text);
    return vertex_violations_reply(&v, res);
}

/* Letters allowed in a name: lower case, digits, and those in `more`. */
static bool name_is_valid(ty_str s, const char *more)
{
    if (s.len == 0 || s.len > NAME_MOST)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  (c != '\0' && strchr(more, c) != NULL);
        if (!ok)
            return false;
    }
    return true;
}

/* A path segment can be long; a message shows its beginning. */
static ty_str shown(ty_str s)
{
    while (s.len > SHOWN_BYTES || (s.len > 0 && !ty_utf8_valid(s)))
        s.len = s.len > SHOWN_BYTES ? SHOWN_BYTES : s.len - 1;
    return s;
}

bool vertex_location_is_valid(ty_str name)
{
    return name_is_valid(name, "-");
}

ty_err vertex_project_check(struct http_request *req, struct http_response *res)
{
    ty_str project = req->capture[0];
    if (!name_is_valid(project, "-.:"))
        return vertex_fail_field(req, res, "project",
                                 "'" TY_STR_FMT "' is not a project id: 1 to %d lower-case "
                                 "letters, digits and - . :",
                                 TY_STR_ARG(shown(project)), NAME_MOST);
    return TY_OK;
}

ty_err vertex_parent_check(struct http_request *req, struct http_response *res)
{
    ty_str location = req->capture[1];
    ty_err err = vertex_project_check(req, res);
    if (err != TY_OK)
        return err;
    if (!vertex_location_is_valid(location))
        return vertex_fail_field(req, res, "location",
                                 "'" TY_STR_FMT "' is not a location: 1 to %d lower-case "
                                 "letters, digits and -",
                                 TY_STR_ARG(shown(location)), NAME_MOST);
    return TY_OK;
}

ty_err vertex_id_read(struct http_request *req, struct http_response *res, int n, const char *field,
                      int64_t *ret_id)
{
    ty_err err = vertex_parent_check(req, res);
    if (err != TY_OK)
        return err;
    ty_str text = req->capture[n];
    int64_t id;
    if (ty_parse_i64(text, &id) != TY_OK || id <= 0)
        return vertex_fail_field(req, res, field, "'" TY_STR_FMT "' is not an id: ids are numbers",
                                 TY_STR_ARG(shown(text)));
    *ret_id = id;
    return TY_OK;
}

ty_err vertex_page_read(struct http_request *req, struct http_response *res,
                        struct vertex_page *ret_page)
{
    int64_t size, before = 0;
    ty_str token = http_query(req, "pageToken");
    if (http_query_i64(req, "pageSize", 0, &size) != TY_OK || size < 0)
        return vertex_fail_field(req, res, "pageSize",
                                 "must be a whole number from 0 (meaning %d) to %d", PAGE_DEFAULT,
                                 PAGE_MOST);
    if (token.len > 0 && (ty_parse_i64(token, &before) != TY_OK || before <= 0))
        return vertex_fail_field(req, res, "pageToken",
                                 "'" TY_STR_FMT "' is not a token this server gave",
                                 TY_STR_ARG(shown(token)));
    if (size == 0)
        size = PAGE_DEFAULT;
    if (size > PAGE_MOST)
        size = PAGE_MOST;
    *ret_page = (struct vertex_page){(size_t)size, before};
    return TY_OK;
}
