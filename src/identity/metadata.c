/* metadata.c -- the metadata server of a Compute Engine machine, as far as google-auth, gcloud and
 * TensorFlow ask it: project, zone, and the default service account with its tokens.
 *
 * Answers are plain text unless they say otherwise, and all carry Metadata-Flavor: Google, which is
 * how clients tell a metadata server from a captive portal. They send that header too; a real
 * server insists on it against web pages, which here never get as far as a handler (http.h). */
#include "auth/auth.h"
#include "identity/identity_int.h"

#include "wire/wire.h"

#define CLOUD_PLATFORM "https://www.googleapis.com/auth/cloud-platform"

enum { AUDIENCE_BYTES = 4096 };

typedef ty_err (*metadata_fn)(const struct identity *i, struct http_request *req,
                              struct http_response *res);

static ty_err text(struct http_response *res, const char *fmt, ...) TY_PRINTF(2, 3);
static ty_err text(struct http_response *res, const char *fmt, ...)
{
    char out[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out, sizeof out, fmt, ap);
    va_end(ap);
    res->content_type = "application/text";
    ty_buf_addz(&res->body, out);
    return TY_OK;
}

static long long number(const struct identity *i)
{
    return (long long)identity_project_number(ty_str_of(i->project));
}

static ty_err get_project_id(const struct identity *i, struct http_request *req,
                             struct http_response *res)
{
    (void)req;
    return text(res, "%s", i->project);
}

static ty_err get_project_number(const struct identity *i, struct http_request *req,
                                 struct http_response *res)
{
    (void)req;
    return text(res, "%lld", number(i));
}

static ty_err get_zone(const struct identity *i, struct http_request *req,
                       struct http_response *res)
{
    (void)req;
    return text(res, "projects/%lld/zones/%s-a", number(i), i->region);
}

static ty_err get_region(const struct identity *i, struct http_request *req,
                         struct http_response *res)
{
    (void)req;
    return text(res, "projects/%lld/regions/%s", number(i), i->region);
}

static ty_err get_instance_id(const struct identity *i, struct http_request *req,
                              struct http_response *res)
{
    (void)req;
    return text(res, "%lld", number(i));
}

static ty_err get_universe(const struct identity *i, struct http_request *req,
                           struct http_response *res)
{
    (void)i;
    (void)req;
    return text(res, "%s", AUTH_UNIVERSE); /* the key's own: no client takes us for Google */
}

static ty_err get_accounts(const struct identity *i, struct http_request *req,
                           struct http_response *res)
{
    return text(res, "default/\n%s/\n", identity_email(i, req->arena));
}

/* What is in an account's folder, or with recursive=true all of it. */
static ty_err get_account(const struct identity *i, struct http_request *req,
                          struct http_response *res)
{
    if (!ty_str_is(http_query(req, "recursive"), "true"))
        return text(res, "aliases\nemail\nidentity\nscopes\ntoken\n");
    ty_buf_addf(&res->body,
                "{\"aliases\":[\"default\"],\"email\":\"%s\",\"scopes\":[\"" CLOUD_PLATFORM "\"]}",
                identity_email(i, req->arena));
    return TY_OK;
}

static ty_err get_aliases(const struct identity *i, struct http_request *req,
                          struct http_response *res)
{
    (void)i;
    (void)req;
    return text(res, "default\n");
}

static ty_err get_email(const struct identity *i, struct http_request *req,
                        struct http_response *res)
{
    return text(res, "%s", identity_email(i, req->arena));
}

static ty_err get_scopes(const struct identity *i, struct http_request *req,
                         struct http_response *res)
{
    (void)i;
    (void)req;
    return text(res, CLOUD_PLATFORM "\n");
}

static ty_err get_token(const struct identity *i, struct http_request *req,
                        struct http_response *res)
{
    (void)i;
    identity_access_token_json(req, &res->body);
    return TY_OK;
}

static ty_err get_identity(const struct identity *i, struct http_request *req,
                           struct http_response *res)
{
    ty_str audience = http_query(req, "audience");
    if (audience.len == 0 || audience.len > AUDIENCE_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "audience: is required, at most %d bytes",
                       AUDIENCE_BYTES);
    res->content_type = "application/text";
    ty_buf_addz(&res->body, identity_id_token(i, req->arena, audience));
    return TY_OK;
}

/* Below /computeMetadata/v1/; ACCOUNT stands for "default" or the account's email. A trailing slash
 * is read over. */
#define ACCOUNT "instance/service-accounts/*"
static const struct {
    const char *path;
    metadata_fn get;
} entries[] = {
    {"project/project-id", get_project_id},
    {"project/numeric-project-id", get_project_number},
    {"instance/id", get_instance_id},
    {"instance/zone", get_zone},
    {"instance/region", get_region},
    {"instance/service-accounts", get_accounts},
    {ACCOUNT, get_account},
    {ACCOUNT "/aliases", get_aliases},
    {ACCOUNT "/email", get_email},
    {ACCOUNT "/scopes", get_scopes},
    {ACCOUNT "/token", get_token},
    {ACCOUNT "/identity", get_identity},
    {"universe/universe-domain", get_universe},
    {"universe/universe_domain", get_universe},
};

static bool path_matches(ty_str path, const char *pattern, ty_str email)
{
    ty_str rest = ty_str_of(pattern), want, have;
    bool more_want, more_have;
    do {
        more_want = ty_str_split(&rest, '/', &want);
        more_have = ty_str_split(&path, '/', &have);
        bool account =
            ty_str_is(want, "*") && (ty_str_is(have, "default") || ty_str_eq(have, email));
        if (!account && !ty_str_eq(want, have))
            return false;
    } while (more_want && more_have);
    return more_want == more_have;
}

ty_err metadata_get(struct http_request *req, struct http_response *res, void *ctx)
{
    const struct identity *i = ctx;
    ty_str path, email = ty_str_of(identity_email(i, req->arena));
    ty_err err = wire_url_decode(req->arena, req->capture[0], false, &path);
    if (err != TY_OK)
        return err;
    if (ty_str_ends(path, TY_STR("/")))
        path.len--;
    res->header_name = "Metadata-Flavor";
    res->header_value = "Google";
    for (size_t n = 0; n < TY_COUNT(entries); n++) {
        if (path_matches(path, entries[n].path, email))
            return entries[n].get(i, req, res);
    }
    return ty_fail(TY_NOT_FOUND, "there is no metadata '%.200s'", ty_cstr(req->arena, path));
}

ty_err metadata_root(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    (void)ctx;
    res->header_name = "Metadata-Flavor";
    res->header_value = "Google";
    ty_buf_addf(&res->body, "{\"service\":\"trainyard\",\"version\":\"%s\"}", TY_VERSION);
    return TY_OK;
}
