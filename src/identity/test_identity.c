/* test_identity.c -- what clients ask before their real call, through the router. */
#include "base/test.h"
#include "auth/auth.h"
#include "identity/identity_int.h"
#include "wire/wire.h"

enum { DOC_BYTES = 1 << 20 };

#define JWT_BEARER "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"

static struct identity identity = {"demo", "us-central1"};

struct client {
    struct ty_arena life;
    struct http_router *router;
    struct http_response res;
    struct http_replica replica; /* who calls; 0: the user */
};

static void client_open(struct client *c)
{
    *c = (struct client){0};
    struct http_routes table = identity_routes(&identity);
    assert_ok(http_router_new(&table, 1, &c->router));
    ty_buf_init(&c->res.body, 1 << 20);
}

static void client_close(struct client *c)
{
    http_router_free(c->router);
    ty_buf_clear(&c->res.body);
    ty_arena_clear(&c->life);
}

static struct http_param *query_parse(struct ty_arena *a, ty_str text)
{
    struct http_param *first = NULL, **tail = &first;
    ty_str pair, name;
    while (text.len > 0) {
        ty_str_split(&text, '&', &pair);
        ty_str_split(&pair, '=', &name);
        struct http_param *p = ty_new(a, struct http_param);
        *p = (struct http_param){name, pair, NULL};
        *tail = p;
        tail = &p->next;
    }
    return first;
}

static ty_err call(struct client *c, enum http_method method, const char *target, const char *body)
{
    struct ty_buf out = c->res.body;
    out.len = 0;
    c->res = (struct http_response){.body = out};
    ty_str query = ty_str_of(target), path;
    ty_str_split(&query, '?', &path);
    struct http_request req = {
        .method = method, .path = path, .body = ty_str_of(body), .arena = &c->life};
    req.query = query_parse(&c->life, query);
    req.replica = c->replica;
    http_handler handler;
    void *ctx;
    ty_err err = http_router_match(c->router, &req, &handler, &ctx);
    return err == TY_OK ? handler(&req, &c->res, ctx) : err;
}

static const char *reply_text(struct client *c, const char *key)
{
    json_t *value = NULL;
    assert_ok(wire_json_parse(ty_buf_str(&c->res.body), &value));
    const char *text = ty_cstr(&c->life, wire_json_get_str(value, key));
    json_decref(value);
    return text;
}

/* The claims of a JWT as JSON text, as google-auth decodes them. */
static const char *claims_of(struct client *c, const char *jwt)
{
    ty_str rest = ty_str_of(jwt), head, claims, json;
    assert_true(ty_str_split(&rest, '.', &head));
    assert_true(ty_str_split(&rest, '.', &claims));
    assert_true(rest.len > 0 && memchr(rest.ptr, '.', rest.len) == NULL);
    char *text = ty_format(&c->life, TY_STR_FMT "===", TY_STR_ARG(claims));
    size_t n = (claims.len + 3) / 4 * 4;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i]);
    assert_ok(wire_base64_decode(&c->life, (ty_str){text, n}, &json));
    return json.ptr;
}

static const char *assertion(struct client *c, const char *claims)
{
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    wire_base64_encode(&b, ty_str_of(claims));
    while (b.len > 0 && b.ptr[b.len - 1] == '=')
        b.ptr[--b.len] = '\0';
    for (size_t i = 0; i < b.len; i++)
        b.ptr[i] = (char)(b.ptr[i] == '+' ? '-' : b.ptr[i] == '/' ? '_' : b.ptr[i]);
    const char *text =
        ty_format(&c->life, "%s&assertion=eyJhbGciOiJSUzI1NiJ9.%s.c2ln", JWT_BEARER, b.ptr);
    ty_buf_clear(&b);
    return text;
}

/* ---- tokens ---- */

static void token_jwt_bearer(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    assert_ok(call(&c, HTTP_POST, "/token",
                   assertion(&c, "{\"iss\":\"a@b\",\"scope\":\"openid ü?>\",\"aud\":\"x\"}")));
    assert_int_equal(c.res.status, 0);
    assert_string_equal(reply_text(&c, "access_token"), auth_token());
    assert_string_equal(reply_text(&c, "token_type"), "Bearer");
    assert_non_null(strstr(c.res.body.ptr, "\"expires_in\":3600"));
    assert_string_equal(reply_text(&c, "id_token"), "");
    client_close(&c);
}

static void token_target_audience(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    assert_ok(call(&c, HTTP_POST, "/token",
                   assertion(&c, "{\"target_audience\":\"https://a.b/\\\"c\"}")));
    const char *claims = claims_of(&c, reply_text(&c, "id_token"));
    assert_non_null(strstr(claims, "\"aud\":\"https://a.b/\\\"c\""));
    assert_non_null(strstr(claims, "\"exp\":"));
    assert_string_equal(reply_text(&c, "access_token"), "");
    client_close(&c);
}

static void token_refresh(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    assert_ok(call(&c, HTTP_POST, "/token",
                   "client_id=x&client_secret=y&refresh_token=z&grant_type=refresh_token"));
    assert_string_equal(reply_text(&c, "access_token"), auth_token());
    client_close(&c);
}

static void token_of_a_replica_is_its_own(void **state)
{
    (void)state;
    static const char path[] = "/computeMetadata/v1/instance/service-accounts/default/token";
    struct client c;
    client_open(&c);
    c.replica = (struct http_replica){.job = 7, .attempt = 1, .token = TY_STR("ty1.7.1.0-0.aa")};
    assert_ok(call(&c, HTTP_POST, "/token", "grant_type=refresh_token"));
    assert_string_equal(reply_text(&c, "access_token"), "ty1.7.1.0-0.aa");
    assert_ok(call(&c, HTTP_GET, path, ""));
    assert_string_equal(reply_text(&c, "access_token"), "ty1.7.1.0-0.aa");
    c.replica = (struct http_replica){0};
    assert_ok(call(&c, HTTP_GET, path, ""));
    assert_string_equal(reply_text(&c, "access_token"), auth_token());
    client_close(&c);
}

static void token_errors(void **state)
{
    (void)state;
    static const struct {
        const char *form, *error;
    } cases[] = {
        {"", "invalid_request"},
        {"assertion=x", "invalid_request"},
        {"grant_type=%zz", "invalid_request"},
        {"grant_type=password", "unsupported_grant_type"},
        {JWT_BEARER, "invalid_grant"},
        {JWT_BEARER "&assertion=abc", "invalid_grant"},
        {JWT_BEARER "&assertion=a.b", "invalid_grant"},
        {JWT_BEARER "&assertion=a.%21%21.c", "invalid_grant"},
        {JWT_BEARER "&assertion=a.bm90IGpzb24.c", "invalid_grant"}, /* "not json" */
        {JWT_BEARER "&assertion=a.W10.c", "invalid_grant"},         /* [] */
    };
    struct client c;
    client_open(&c);
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        assert_ok(call(&c, HTTP_POST, "/token", cases[i].form));
        assert_int_equal(c.res.status, 400);
        assert_string_equal(reply_text(&c, "error"), cases[i].error);
        assert_true(reply_text(&c, "error_description")[0] != '\0');
    }
    client_close(&c);
}

/* ---- metadata ---- */

#define METADATA "/computeMetadata/v1/"
#define ACCOUNTS METADATA "instance/service-accounts/"
#define EMAIL    "trainyard@demo.iam.gserviceaccount.com"

static void metadata_texts(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    const char *number = ty_format(&c.life, "%" PRId64, identity_project_number(TY_STR("demo")));
    const struct {
        const char *path, *want;
    } cases[] = {
        {METADATA "project/project-id", "demo"},
        {METADATA "project/numeric-project-id", number},
        {METADATA "instance/zone", ty_format(&c.life, "projects/%s/zones/us-central1-a", number)},
        {METADATA "instance/region", ty_format(&c.life, "projects/%s/regions/us-central1", number)},
        {METADATA "universe/universe-domain", AUTH_UNIVERSE},
        {ACCOUNTS, "default/\n" EMAIL "/\n"},
        {ACCOUNTS "default/email", EMAIL},
        {ACCOUNTS EMAIL "/email", EMAIL},
        {ACCOUNTS "default/scopes", "https://www.googleapis.com/auth/cloud-platform\n"},
        {ACCOUNTS "default/", "aliases\nemail\nidentity\nscopes\ntoken\n"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        assert_ok(call(&c, HTTP_GET, cases[i].path, ""));
        assert_string_equal(c.res.body.ptr, cases[i].want);
        assert_string_equal(c.res.header_name, "Metadata-Flavor");
        assert_string_equal(c.res.header_value, "Google");
        assert_string_equal(c.res.content_type, "application/text");
    }
    client_close(&c);
}

static void metadata_account_and_tokens(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    assert_ok(call(&c, HTTP_GET, ACCOUNTS "default/?recursive=true", ""));
    assert_null(c.res.content_type); /* JSON */
    assert_string_equal(reply_text(&c, "email"), EMAIL);
    assert_ok(call(&c, HTTP_GET, ACCOUNTS "default/token?scopes=a,b", ""));
    assert_null(c.res.content_type);
    assert_string_equal(reply_text(&c, "access_token"), auth_token());
    assert_ok(call(&c, HTTP_GET, ACCOUNTS EMAIL "/token", ""));
    assert_string_equal(reply_text(&c, "access_token"), auth_token());
    assert_ok(call(&c, HTTP_GET, ACCOUNTS "default/identity?audience=me&format=full", ""));
    assert_non_null(strstr(claims_of(&c, c.res.body.ptr), "\"aud\":\"me\""));
    assert_err(TY_INVALID_ARGUMENT, call(&c, HTTP_GET, ACCOUNTS "default/identity", ""));
    assert_err(TY_NOT_FOUND, call(&c, HTTP_GET, ACCOUNTS "other/token", ""));
    assert_err(TY_NOT_FOUND, call(&c, HTTP_GET, ACCOUNTS "default/token/x", ""));
    assert_err(TY_NOT_FOUND, call(&c, HTTP_GET, METADATA "instance/attributes/x", ""));
    client_close(&c);
}

static void metadata_ping(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    assert_ok(call(&c, HTTP_GET, "/", ""));
    assert_string_equal(c.res.header_name, "Metadata-Flavor");
    assert_string_equal(reply_text(&c, "service"), "trainyard");
    client_close(&c);
}

/* ---- projects and locations ---- */

static void project_number_is_stable(void **state)
{
    (void)state;
    int64_t demo = identity_project_number(TY_STR("demo"));
    assert_true(demo >= 100000000000 && demo <= 999999999999);
    assert_int_equal(demo, 441258804118); /* must not change between versions: clients keep it */
    assert_true(demo != identity_project_number(TY_STR("demo2")));
    assert_int_equal(identity_project_number(TY_STR("123456789012")), 123456789012);
}

static void project_any_valid_id(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    assert_ok(call(&c, HTTP_GET, "/v1/projects/my-project-1", ""));
    assert_string_equal(reply_text(&c, "projectId"), "my-project-1");
    assert_string_equal(reply_text(&c, "lifecycleState"), "ACTIVE");
    assert_int_equal(strlen(reply_text(&c, "projectNumber")), 12);
    const char *number = reply_text(&c, "projectNumber");
    assert_ok(call(&c, HTTP_GET, "/v3/projects/my-project-1", ""));
    assert_string_equal(reply_text(&c, "name"), ty_format(&c.life, "projects/%s", number));
    assert_string_equal(reply_text(&c, "state"), "ACTIVE");
    assert_err(TY_NOT_FOUND, call(&c, HTTP_GET, "/v1/projects/Bad_Name", ""));
    assert_err(TY_NOT_FOUND, call(&c, HTTP_GET, "/v3/projects/a%22b", ""));
    client_close(&c);
}

static void project_by_its_number(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    int64_t number = identity_project_number(TY_STR("demo"));
    assert_ok(call(&c, HTTP_GET, ty_format(&c.life, "/v1/projects/%" PRId64, number), ""));
    assert_string_equal(reply_text(&c, "projectId"), "demo");
    assert_ok(call(&c, HTTP_GET, "/v1/projects", ""));
    assert_non_null(strstr(c.res.body.ptr, "\"projectId\":\"demo\""));
    client_close(&c);
}

static void permissions_are_echoed(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    const char *path = "/v1/projects/demo:testIamPermissions";
    assert_ok(call(&c, HTTP_POST, path, "{\"permissions\":[\"a.b.get\",\"c\"]}"));
    assert_string_equal(c.res.body.ptr, "{\"permissions\":[\"a.b.get\",\"c\"]}");
    assert_err(TY_INVALID_ARGUMENT, call(&c, HTTP_POST, path, "{}"));
    assert_err(TY_INVALID_ARGUMENT, call(&c, HTTP_POST, path, "{\"permissions\":[1]}"));
    assert_err(TY_INVALID_ARGUMENT, call(&c, HTTP_POST, path, "[]"));
    assert_err(TY_INVALID_ARGUMENT, call(&c, HTTP_POST, path, "{"));
    client_close(&c);
}

static void locations(void **state)
{
    (void)state;
    struct client c;
    client_open(&c);
    assert_ok(call(&c, HTTP_GET, "/v1/projects/demo/locations", ""));
    assert_string_equal(c.res.body.ptr,
                        "{\"locations\":[{\"name\":\"projects/demo/locations/us-central1\","
                        "\"locationId\":\"us-central1\"}]}");
    assert_ok(call(&c, HTTP_GET, "/ui/projects/demo/locations/europe-west4", ""));
    assert_string_equal(reply_text(&c, "locationId"), "europe-west4");
    assert_err(TY_NOT_FOUND, call(&c, HTTP_GET, "/v1beta1/projects/demo/locations/EU", ""));
    client_close(&c);
}

/* ---- the document ---- */

static void document_has_the_routes(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct http_routes table = identity_routes(&identity);
    ty_str doc, line, section = TY_STR("");
    assert_ok(ty_file_read(AT_FDCWD, COMPAT_MD, DOC_BYTES, &a, &doc));
    const char *start = strstr(doc.ptr, "## Routes: identity");
    if (start == NULL)
        fail_msg("%s has no section for identity", COMPAT_MD);
    else
        section = (ty_str){start, (size_t)(strstr(start, "\n## ") - start)};
    size_t rows = 0;
    for (size_t i = 0; i < table.count; i++) {
        const char *row =
            ty_format(&a, "| `%s %s` |", table.rows[i].method == HTTP_GET ? "GET" : "POST",
                      table.rows[i].path);
        if (memmem(section.ptr, section.len, row, strlen(row)) == NULL)
            fail_msg("compat.md lacks %s", row);
    }
    while (section.len > 0) {
        ty_str_split(&section, '\n', &line);
        rows += ty_str_starts(line, TY_STR("| `"));
    }
    assert_int_equal(rows, table.count); /* all of ours are there, so these are all */
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("token/jwt_bearer", token_jwt_bearer),
    TEST("token/target_audience", token_target_audience),
    TEST("token/refresh", token_refresh),
    TEST("token/of_a_replica_is_its_own", token_of_a_replica_is_its_own),
    TEST("token/errors", token_errors),
    TEST("metadata/texts", metadata_texts),
    TEST("metadata/account_and_tokens", metadata_account_and_tokens),
    TEST("metadata/ping", metadata_ping),
    TEST("project/number_is_stable", project_number_is_stable),
    TEST("project/any_valid_id", project_any_valid_id),
    TEST("project/by_its_number", project_by_its_number),
    TEST("project/permissions_are_echoed", permissions_are_echoed),
    TEST("location/every_valid_one", locations),
    TEST("compat/document_has_the_routes", document_has_the_routes),
};
TEST_MAIN("identity", tests)
