/* project.c -- the resource manager's projects, and locations.
 *
 * Projects are not made here: a job names one and it is. So every well-formed id exists, which is
 * what `gcloud config set project X` wants to hear; only the default is listed. Locations likewise:
 * this machine stands for every region a client may name. */
#include "identity/identity_int.h"

#include "wire/wire.h"

enum { NAME_MOST = 63, PERMISSIONS_MOST = 100 };

static const int64_t NUMBER_LEAST = 100000000000; /* 12 digits */

static const struct http_route routes[] = {
#define ROUTE(method, path, handler) {HTTP_##method, path, handler},
#include "identity/routes.def"
#undef ROUTE
};

struct http_routes identity_routes(struct identity *i)
{
    return (struct http_routes){.rows = routes, .count = TY_COUNT(routes), .ctx = i};
}

int64_t identity_project_number(ty_str project_id)
{
    int64_t given;
    if (project_id.len == 12 && ty_parse_i64(project_id, &given) == TY_OK && given >= NUMBER_LEAST)
        return given;                      /* a number already */
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t n = 0; n < project_id.len; n++)
        hash = (hash ^ (unsigned char)project_id.ptr[n]) * 1099511628211u;
    return NUMBER_LEAST + (int64_t)(hash % (uint64_t)(9 * NUMBER_LEAST));
}

ty_str identity_project_id(const struct identity *i, ty_str id_or_number)
{
    ty_str own = ty_str_of(i->project);
    int64_t n;
    if (ty_parse_i64(id_or_number, &n) == TY_OK && n == identity_project_number(own))
        return own;
    return id_or_number;
}

static bool name_is_valid(ty_str s, const char *more)
{
    for (size_t n = 0; n < s.len; n++) {
        char c = s.ptr[n];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr(more, c))))
            return false;
    }
    return s.len > 0 && s.len <= NAME_MOST;
}

/* The project in capture 0. A name that no project could have does not exist. */
static ty_err project_read(const struct identity *i, const struct http_request *req,
                           ty_str *ret_project)
{
    ty_str id = req->capture[0];
    if (!name_is_valid(id, "-.:"))
        return ty_fail(TY_NOT_FOUND,
                       "there is no project '%.80s': ids are 1 to %d lower-case letters, digits "
                       "and - . :",
                       ty_cstr(req->arena, id), NAME_MOST);
    *ret_project = identity_project_id(i, id);
    return TY_OK;
}

static void add_project(struct ty_buf *b, ty_str id)
{
    ty_buf_addf(b,
                "{\"projectNumber\":\"%" PRId64 "\",\"projectId\":\"" TY_STR_FMT
                "\",\"lifecycleState\":\"ACTIVE\",\"name\":\"" TY_STR_FMT "\"}",
                identity_project_number(id), TY_STR_ARG(id), TY_STR_ARG(id));
}

ty_err project_get(struct http_request *req, struct http_response *res, void *ctx)
{
    ty_str id = {"", 0};
    ty_err err = project_read(ctx, req, &id);
    if (err == TY_OK)
        add_project(&res->body, id);
    return err;
}

ty_err project_get_v3(struct http_request *req, struct http_response *res, void *ctx)
{
    ty_str id = {"", 0};
    ty_err err = project_read(ctx, req, &id);
    if (err == TY_OK)
        ty_buf_addf(&res->body,
                    "{\"name\":\"projects/%" PRId64 "\",\"projectId\":\"" TY_STR_FMT
                    "\",\"state\":\"ACTIVE\",\"displayName\":\"" TY_STR_FMT "\"}",
                    identity_project_number(id), TY_STR_ARG(id), TY_STR_ARG(id));
    return err;
}

ty_err project_list(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    const struct identity *i = ctx;
    ty_buf_addz(&res->body, "{\"projects\":[");
    add_project(&res->body, ty_str_of(i->project));
    ty_buf_addz(&res->body, "]}");
    return TY_OK;
}

/* Who gets an answer at all may do everything. */
ty_err project_test_permissions(struct http_request *req, struct http_response *res, void *ctx)
{
    ty_str id = {"", 0};
    json_t *in = NULL;
    ty_err err = project_read(ctx, req, &id);
    if (err == TY_OK)
        err = wire_json_parse(req->body, &in);
    if (err != TY_OK)
        return err;
    const json_t *asked = json_object_get(in, "permissions");
    size_t count = json_array_size(asked);
    bool ok = json_is_array(asked) && count <= PERMISSIONS_MOST;
    for (size_t n = 0; ok && n < count; n++)
        ok = json_is_string(json_array_get(asked, n));
    if (ok) {
        ty_buf_addz(&res->body, "{\"permissions\":");
        wire_json_dump(&res->body, asked);
        ty_buf_addc(&res->body, '}');
    } else {
        err = ty_fail(TY_INVALID_ARGUMENT, "permissions: must be a list of at most %d strings",
                      PERMISSIONS_MOST);
    }
    json_decref(in);
    return err;
}

/* ---- locations ---- */

static void add_location(struct ty_buf *b, ty_str project, ty_str location)
{
    ty_buf_addf(b,
                "{\"name\":\"projects/" TY_STR_FMT "/locations/" TY_STR_FMT
                "\",\"locationId\":\"" TY_STR_FMT "\"}",
                TY_STR_ARG(project), TY_STR_ARG(location), TY_STR_ARG(location));
}

ty_err location_list(struct http_request *req, struct http_response *res, void *ctx)
{
    const struct identity *i = ctx;
    ty_str project = {"", 0};
    ty_err err = project_read(i, req, &project);
    if (err != TY_OK)
        return err;
    ty_buf_addz(&res->body, "{\"locations\":[");
    add_location(&res->body, project, ty_str_of(i->region));
    ty_buf_addz(&res->body, "]}");
    return TY_OK;
}

ty_err location_get(struct http_request *req, struct http_response *res, void *ctx)
{
    ty_str project = {"", 0};
    ty_err err = project_read(ctx, req, &project);
    if (err != TY_OK)
        return err;
    if (!name_is_valid(req->capture[1], "-"))
        return ty_fail(TY_NOT_FOUND, "there is no location '%.80s'",
                       ty_cstr(req->arena, req->capture[1]));
    add_location(&res->body, project, req->capture[1]);
    return TY_OK;
}
