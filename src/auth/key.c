/* key.c -- key.json, a service-account key that only this server believes.
 *
 * Google's client libraries insist on signing something before they talk; this gives them a key to
 * sign with. Nothing here checks the signature (who may call is decided by http's peer check), so
 * the key protects nothing and is made once, 2048 bits, PKCS#8 like Google's own.
 * libcrypto is loaded for that one moment and not linked: a client command must start with few
 * libraries (DESIGN.md). */
#include "auth/auth_int.h"

#include <dlfcn.h>

#include "wire/wire.h"

typedef struct evp_pkey_st EVP_PKEY;
typedef struct pkcs8_priv_key_info_st PKCS8_PRIV_KEY_INFO;

/* The few functions of OpenSSL 3 we use, by their C signatures. */
struct crypto {
    void *lib;
    EVP_PKEY *(*keygen)(void *libctx, const char *propq, const char *type, ...);
    PKCS8_PRIV_KEY_INFO *(*to_pkcs8)(const EVP_PKEY *key);
    int (*encode)(const PKCS8_PRIV_KEY_INFO *p8, unsigned char **out);
    void (*pkcs8_free)(PKCS8_PRIV_KEY_INFO *p8);
    void (*key_free)(EVP_PKEY *key);
};

static ty_err crypto_open(struct crypto *c)
{
    c->lib = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (c->lib == NULL)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot load libcrypto.so.3 (Debian package libssl3): %s", dlerror());
    const struct {
        const char *name;
        void **slot;
    } wanted[] = {
        {"EVP_PKEY_Q_keygen", (void **)&c->keygen},
        {"EVP_PKEY2PKCS8", (void **)&c->to_pkcs8},
        {"i2d_PKCS8_PRIV_KEY_INFO", (void **)&c->encode},
        {"PKCS8_PRIV_KEY_INFO_free", (void **)&c->pkcs8_free},
        {"EVP_PKEY_free", (void **)&c->key_free},
    };
    for (size_t i = 0; i < TY_COUNT(wanted); i++) {
        *wanted[i].slot = dlsym(c->lib, wanted[i].name);
        if (*wanted[i].slot == NULL) {
            dlclose(c->lib);
            return ty_fail(TY_FAILED_PRECONDITION, "libcrypto.so.3 has no '%s'", wanted[i].name);
        }
    }
    return TY_OK;
}

/* DER into *ret_der. Encoding asks for the length first, so the bytes are ours to allocate. */
static ty_err key_make_der(struct crypto *c, struct ty_arena *a, ty_str *ret_der)
{
    ty_err err = ty_fail(TY_INTERNAL, "libcrypto cannot make an RSA key");
    PKCS8_PRIV_KEY_INFO *p8 = NULL;
    EVP_PKEY *key = c->keygen(NULL, NULL, "RSA", (size_t)2048);
    if (key == NULL)
        goto out;
    p8 = c->to_pkcs8(key);
    if (p8 == NULL)
        goto out;
    int len = c->encode(p8, NULL);
    if (len <= 0 || len > 65536)
        goto out;
    unsigned char *der = ty_alloc(a, (size_t)len), *end = der;
    if (c->encode(p8, &end) != len)
        goto out;
    *ret_der = (ty_str){(const char *)der, (size_t)len};
    err = TY_OK;
out:
    c->pkcs8_free(p8);
    c->key_free(key);
    return err;
}

/* Base64 in lines of 64 between two markers. */
ty_str auth_pem(struct ty_arena *a, const char *what, ty_str der)
{
    struct ty_buf base64, pem;
    ty_buf_init(&base64, AUTH_FILE_LIMIT);
    ty_buf_init(&pem, AUTH_FILE_LIMIT);
    wire_base64_encode(&base64, der);
    ty_buf_addf(&pem, "-----BEGIN %s-----\n", what);
    for (size_t i = 0; i < base64.len; i += 64) {
        ty_buf_add(&pem, base64.ptr + i, base64.len - i < 64 ? base64.len - i : 64);
        ty_buf_addc(&pem, '\n');
    }
    ty_buf_addf(&pem, "-----END %s-----\n", what);
    ty_str text = ty_str_dup(a, ty_buf_str(&pem));
    ty_buf_clear(&base64);
    ty_buf_clear(&pem);
    return text;
}

static ty_err key_make_pem(struct ty_arena *a, ty_str *ret_pem)
{
    struct crypto c = {0};
    ty_str der = {0};
    ty_err err = crypto_open(&c);
    if (err != TY_OK)
        return err;
    ty_assert(c.keygen && c.to_pkcs8 && c.encode && c.pkcs8_free && c.key_free);
    err = key_make_der(&c, a, &der);
    dlclose(c.lib);
    if (err == TY_OK)
        *ret_pem = auth_pem(a, "PRIVATE KEY", der);
    return err;
}

static ty_str random_digits(struct ty_arena *a, size_t count, const char *alphabet)
{
    size_t n = strlen(alphabet);
    unsigned char bytes[64];
    char *text = ty_alloc(a, count + 1);
    ty_assert(count <= sizeof(bytes));
    ty_random(bytes, count);
    for (size_t i = 0; i < count; i++)
        text[i] = alphabet[bytes[i] % n];
    return (ty_str){text, count};
}

static void add_field(struct ty_buf *b, const char *name, ty_str value)
{
    ty_buf_addf(b, "%s\n  \"%s\": ", b->len > 1 ? "," : "", name);
    wire_json_string(b, value);
}

ty_err auth_key_write(struct ty_arena *a, const char *client_dir, const char *url, ty_str project)
{
    const char *path = ty_format(a, "%s/key.json", client_dir);
    ty_str text, pem = {0}, key_id = {0}, client_id = {0};
    json_t *old = NULL;
    /* No file yet, or one that is no key: make a new one. */
    if (ty_file_read(AT_FDCWD, path, AUTH_FILE_LIMIT, a, &text) == TY_OK &&
        wire_json_parse(text, &old) == TY_OK) {
        pem = ty_str_dup(a, wire_json_get_str(old, "private_key"));
        key_id = ty_str_dup(a, wire_json_get_str(old, "private_key_id"));
        client_id = ty_str_dup(a, wire_json_get_str(old, "client_id"));
        json_decref(old);
    }
    if (!ty_str_starts(pem, TY_STR("-----BEGIN PRIVATE KEY-----\n")) || key_id.len == 0) {
        ty_err err = key_make_pem(a, &pem);
        if (err != TY_OK)
            return err;
        key_id = random_digits(a, 40, "0123456789abcdef");
        client_id = random_digits(a, 21, "123456789");
    }
    struct ty_buf b;
    ty_buf_init(&b, AUTH_FILE_LIMIT);
    ty_buf_addc(&b, '{');
    add_field(&b, "type", TY_STR("service_account"));
    add_field(&b, "project_id", project);
    add_field(&b, "private_key_id", key_id);
    add_field(&b, "private_key", pem);
    add_field(&b, "client_email",
              ty_str_of(ty_format(a, "trainyard@" TY_STR_FMT ".iam.gserviceaccount.com",
                                  TY_STR_ARG(project))));
    add_field(&b, "client_id", client_id);
    add_field(&b, "auth_uri", ty_str_of(ty_format(a, "%s/auth", url)));
    add_field(&b, "token_uri", ty_str_of(ty_format(a, "%s/token", url)));
    add_field(&b, "universe_domain", TY_STR(AUTH_UNIVERSE));
    ty_buf_addz(&b, "\n}\n");
    ty_err err = ty_buf_check(&b, "key.json");
    if (err == TY_OK)
        err = auth_file_write(path, ty_buf_str(&b), 0600);
    ty_buf_clear(&b);
    return err;
}
