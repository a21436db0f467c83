/* token.c -- POST /token, OAuth's token endpoint, and the tokens themselves.
 *
 * Who may call is known before any handler runs (http.h), so a token proves nothing here, a
 * replica's apart.
 * Assertions are read, never verified: their only use is to tell an ID-token request (claim
 * target_audience) from one for an access token. Errors are OAuth's own form, RFC 6749 section 5.2:
 * google-auth shows error and error_description to the user. */
#include "identity/identity_int.h"

#include "auth/auth.h"
#include "wire/wire.h"

enum { FORM_BYTES = 64 * 1024, JWT_BYTES = 16 * 1024 };

const char *identity_email(const struct identity *i, struct ty_arena *a)
{
    return ty_format(a, "trainyard@%s.iam.gserviceaccount.com", i->project);
}

void identity_access_token_json(const struct http_request *req, struct ty_buf *b)
{
    ty_buf_addz(b, "{\"access_token\":");
    wire_json_string(b, req->replica.job != 0 ? req->replica.token : ty_str_of(auth_token()));
    ty_buf_addf(b, ",\"expires_in\":%d,\"token_type\":\"Bearer\"}", IDENTITY_TOKEN_SECONDS);
}

/* base64url without padding, as JWTs have it. */
static void add_base64url(struct ty_buf *b, ty_str bytes)
{
    size_t start = b->len;
    wire_base64_encode(b, bytes);
    while (b->len > start && b->ptr[b->len - 1] == '=')
        b->ptr[--b->len] = '\0';
    for (size_t n = start; n < b->len; n++) {
        if (b->ptr[n] == '+')
            b->ptr[n] = '-';
        else if (b->ptr[n] == '/')
            b->ptr[n] = '_';
    }
}

const char *identity_id_token(const struct identity *i, struct ty_arena *a, ty_str audience)
{
    int64_t now_s = ty_now_ns() / 1000000000;
    const char *email = identity_email(i, a);
    int64_t number = identity_project_number(ty_str_of(i->project));
    struct ty_buf claims, jwt;
    ty_buf_init(&claims, JWT_BYTES);
    ty_buf_init(&jwt, 4 * JWT_BYTES);
    ty_buf_addz(&claims, "{\"aud\":");
    wire_json_string(&claims, audience);
    ty_buf_addf(&claims,
                ",\"azp\":\"%s\",\"email\":\"%s\",\"email_verified\":true,\"exp\":%" PRId64
                ",\"iat\":%" PRId64 ",\"iss\":\"https://accounts.google.com\",\"sub\":\"%" PRId64
                "\"}",
                email, email, now_s + IDENTITY_TOKEN_SECONDS, now_s, number);
    add_base64url(&jwt, TY_STR("{\"alg\":\"RS256\",\"kid\":\"trainyard\",\"typ\":\"JWT\"}"));
    ty_buf_addc(&jwt, '.');
    add_base64url(&jwt, ty_buf_str(&claims));
    ty_buf_addc(&jwt, '.');
    add_base64url(&jwt, TY_STR("not signed"));
    const char *text = ty_cstr(a, ty_buf_str(&jwt));
    ty_buf_clear(&claims);
    ty_buf_clear(&jwt);
    return text;
}

static ty_err oauth_error(struct http_response *res, const char *error, const char *description)
{
    res->status = 400;
    ty_buf_addf(&res->body, "{\"error\":\"%s\",\"error_description\":\"%s\"}", error, description);
    return TY_OK;
}

/* First value of a form's field, decoded; empty when absent. */
static ty_err form_get(struct ty_arena *a, ty_str form, const char *name, ty_str *ret_value)
{
    ty_str pair, key, text;
    *ret_value = TY_STR("");
    while (form.len > 0) {
        ty_str_split(&form, '&', &pair);
        ty_str_split(&pair, '=', &key);
        ty_err err = wire_url_decode(a, key, true, &text);
        if (err == TY_OK && ty_str_is(text, name))
            return wire_url_decode(a, pair, true, ret_value);
        if (err != TY_OK)
            return err;
    }
    return TY_OK;
}

/* The claims of a JWT, not verified. */
static ty_err jwt_claims(struct ty_arena *a, ty_str jwt, json_t **ret_claims)
{
    ty_str head, claims, json;
    bool two = ty_str_split(&jwt, '.', &head);
    bool three = ty_str_split(&jwt, '.', &claims);
    if (!two || !three || head.len == 0 || claims.len == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "not three parts");
    /* to plain base64: its letters, and padded */
    char *text = ty_alloc(a, claims.len + 4);
    size_t n = 0;
    for (; n < claims.len; n++) {
        char c = claims.ptr[n];
        text[n] = (char)(c == '-' ? '+' : c == '_' ? '/' : c);
    }
    while (n > 0 && text[n - 1] == '=')
        n--;
    while (n % 4 != 0)
        text[n++] = '=';
    ty_err err = wire_base64_decode(a, (ty_str){text, n}, &json);
    return err == TY_OK ? wire_json_parse(json, ret_claims) : err;
}

/* The assertion's target_audience; empty when it asks for an access token. */
static ty_err assertion_audience(struct ty_arena *a, ty_str assertion, ty_str *ret_audience)
{
    json_t *claims = NULL;
    ty_err err = jwt_claims(a, assertion, &claims);
    if (err == TY_OK && !json_is_object(claims))
        err = ty_fail(TY_INVALID_ARGUMENT, "claims are no object");
    if (err == TY_OK)
        *ret_audience = ty_str_dup(a, wire_json_get_str(claims, "target_audience"));
    json_decref(claims);
    return err;
}

ty_err token_create(struct http_request *req, struct http_response *res, void *ctx)
{
    const struct identity *i = ctx;
    ty_str grant, assertion, audience = TY_STR("");
    if (req->body.len > FORM_BYTES)
        return oauth_error(res, "invalid_request", "the form is longer than 65536 bytes");
    if (form_get(req->arena, req->body, "grant_type", &grant) != TY_OK ||
        form_get(req->arena, req->body, "assertion", &assertion) != TY_OK)
        return oauth_error(res, "invalid_request", "the form is not URL-encoded");
    if (grant.len == 0)
        return oauth_error(res, "invalid_request", "grant_type is missing");
    if (ty_str_is(grant, "urn:ietf:params:oauth:grant-type:jwt-bearer")) {
        if (assertion_audience(req->arena, assertion, &audience) != TY_OK)
            return oauth_error(res, "invalid_grant", "assertion is not a JWT");
    } else if (!ty_str_is(grant, "refresh_token")) {
        return oauth_error(res, "unsupported_grant_type",
                           "grant_type must be jwt-bearer or refresh_token");
    }
    if (audience.len > JWT_BYTES / 4)
        return oauth_error(res, "invalid_grant", "target_audience is too long");
    if (audience.len > 0)
        ty_buf_addf(&res->body, "{\"id_token\":\"%s\"}",
                    identity_id_token(i, req->arena, audience));
    else
        identity_access_token_json(req, &res->body);
    return TY_OK;
}
