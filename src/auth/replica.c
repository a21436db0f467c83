/* replica.c -- the tokens of replicas, and the secret they are made with.
 *
 *   ty1.<job>.<attempt>.<pool>-<index>.<64 hexadecimal digits>
 *
 * The digits are the HMAC-SHA256 of all before the last dot, keyed with the yard's secret. So there
 * is nothing to keep: whoever holds the secret can tell a token of this yard, after any number of
 * restarts, and what it says is true. Whether it still counts is in the attempt's row.
 *
 * The secret is data/secret, 32 random bytes, made once. It is not under data/client, which
 * containers can see and backups hold: a restored yard is another one, and makes its own. */
#include "auth/auth_int.h"

#include "wire/wire.h"

enum { TOKEN_TEXT_BYTES = 96 }; /* all before the HMAC */

ty_err auth_secret_open(const char *data_dir, struct auth_secret *ret_secret)
{
    struct ty_arena a = {0};
    struct auth_secret secret;
    const char *path = ty_format(&a, "%s/secret", data_dir);
    ty_str text = {0};
    ty_err err = ty_file_read(AT_FDCWD, path, 4096, &a, &text);
    if (err == TY_OK && text.len != sizeof secret.bytes)
        err = ty_fail(TY_DATA_LOSS,
                      "'%s' has %zu bytes instead of %zu: remove it, and a new one is made (tokens "
                      "of jobs that run now end with it)",
                      path, text.len, sizeof secret.bytes);
    else if (err == TY_OK)
        memcpy(secret.bytes, text.ptr, sizeof secret.bytes);
    if (err == TY_NOT_FOUND) {
        ty_random(secret.bytes, sizeof secret.bytes);
        err = ty_file_replace(AT_FDCWD, path, (ty_str){secret.bytes, sizeof secret.bytes}, 0600);
    }
    ty_arena_clear(&a);
    if (err == TY_OK)
        *ret_secret = secret;
    return err;
}

static void sign(const struct auth_secret *secret, ty_str text, char out[WIRE_SHA256_HEX_BYTES])
{
    wire_hmac_sha256((ty_str){secret->bytes, sizeof secret->bytes}, text, out);
}

char *auth_replica_token(struct ty_arena *a, const struct auth_secret *secret,
                         const struct http_replica *r)
{
    char text[TOKEN_TEXT_BYTES], mac[WIRE_SHA256_HEX_BYTES];
    int n = snprintf(text, sizeof text, "ty1.%" PRId64 ".%d.%d-%d", r->job, r->attempt, r->pool,
                     r->index);
    ty_assert(n > 0 && n < (int)sizeof text);
    sign(secret, (ty_str){text, (size_t)n}, mac);
    return ty_format(a, "%s.%s", text, mac);
}

/* The next part of *rest, up to `end`, a number from 0 up. */
static bool take_number(ty_str *rest, char end, int64_t most, int64_t *ret_value)
{
    ty_str part;
    bool found = ty_str_split(rest, end, &part);
    return found && ty_parse_i64(part, ret_value) == TY_OK && *ret_value >= 0 && *ret_value <= most;
}

bool auth_replica_read(const struct auth_secret *secret, ty_str token, struct http_replica *ret)
{
    enum { MAC = WIRE_SHA256_HEX_BYTES - 1 };
    char mac[WIRE_SHA256_HEX_BYTES];
    int64_t job, attempt, pool, index;
    if (token.len <= MAC + 1 || token.len > TOKEN_TEXT_BYTES + MAC + 1)
        return false;
    ty_str text = {token.ptr, token.len - MAC}; /* with the dot at its end */
    ty_str sent = {token.ptr + text.len, MAC};
    sign(secret, (ty_str){text.ptr, text.len - 1}, mac);
    if (!wire_same_bytes(sent, (ty_str){mac, MAC}) || !ty_str_starts(text, TY_STR("ty1.")))
        return false;
    /* From here on the text is our own. */
    ty_str rest = ty_str_drop(text, strlen("ty1."));
    if (!take_number(&rest, '.', INT64_MAX, &job) || !take_number(&rest, '.', INT_MAX, &attempt) ||
        !take_number(&rest, '-', INT_MAX, &pool) || !take_number(&rest, '.', INT_MAX, &index))
        return false;
    *ret = (struct http_replica){
        .job = job, .attempt = (int)attempt, .pool = (int)pool, .index = (int)index};
    return true;
}
