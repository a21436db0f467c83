/* certificate.c -- the server's own TLS certificate, for clients that insist on TLS (gsutil).
 *
 * Self-signed, for 127.0.0.1, ::1 and localhost only, made once: data/tls/key.pem and cert.pem
 * (0600). A client trusts it by naming cert.pem; it is installed nowhere. libcrypto is loaded for
 * that one moment, as in key.c. */
#include "auth/auth_int.h"

#include <dlfcn.h>

#include "wire/wire.h"

enum { NID_SUBJECT_ALT_NAME = 85, NID_BASIC_CONSTRAINTS = 87, NID_EXT_KEY_USAGE = 126 };
enum { MBSTRING_ASCII = 0x1001, X509_VERSION_3 = 2, DAY_S = 86400, YEARS_DAYS = 3650 };

/* The functions of OpenSSL 3 we use, by their C signatures. */
#define CRYPTO_FUNCTIONS(X)                                                                        \
    X(void *, EVP_PKEY_Q_keygen, (void *libctx, const char *propq, const char *type, ...))         \
    X(void *, EVP_PKEY2PKCS8, (const void *key))                                                   \
    X(int, i2d_PKCS8_PRIV_KEY_INFO, (const void *p8, unsigned char **out))                         \
    X(void, PKCS8_PRIV_KEY_INFO_free, (void *p8))                                                  \
    X(void, EVP_PKEY_free, (void *key))                                                            \
    X(void *, X509_new, (void))                                                                    \
    X(void, X509_free, (void *cert))                                                               \
    X(int, X509_set_version, (void *cert, long version))                                           \
    X(void *, X509_get_serialNumber, (void *cert))                                                 \
    X(int, ASN1_INTEGER_set_uint64, (void *integer, uint64_t value))                               \
    X(void *, X509_getm_notBefore, (const void *cert))                                             \
    X(void *, X509_getm_notAfter, (const void *cert))                                              \
    X(void *, X509_gmtime_adj, (void *time, long seconds))                                         \
    X(void *, X509_get_subject_name, (const void *cert))                                           \
    X(int, X509_NAME_add_entry_by_txt,                                                             \
      (void *name, const char *field, int type, const unsigned char *bytes, int len, int loc,      \
       int set))                                                                                   \
    X(int, X509_set_issuer_name, (void *cert, const void *name))                                   \
    X(int, X509_set_pubkey, (void *cert, void *key))                                               \
    X(void *, X509V3_EXT_conf_nid, (void *conf, void *ctx, int nid, const char *value))            \
    X(int, X509_add_ext, (void *cert, void *ext, int loc))                                         \
    X(void, X509_EXTENSION_free, (void *ext))                                                      \
    X(const void *, EVP_sha256, (void))                                                            \
    X(int, X509_sign, (void *cert, void *key, const void *digest))                                 \
    X(int, i2d_X509, (const void *cert, unsigned char **out))

struct crypto {
    void *lib;
#define CRYPTO_FIELD(result, name, args) result(*name) args;
    CRYPTO_FUNCTIONS(CRYPTO_FIELD)
#undef CRYPTO_FIELD
};

static ty_err crypto_open(struct crypto *c)
{
    c->lib = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (c->lib == NULL)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot load libcrypto.so.3 (Debian package libssl3): %s", dlerror());
#define CRYPTO_LOAD(result, name, args)                                                            \
    *(void **)&c->name = dlsym(c->lib, #name);                                                     \
    if (c->name == NULL) {                                                                         \
        dlclose(c->lib);                                                                           \
        return ty_fail(TY_FAILED_PRECONDITION, "libcrypto.so.3 has no '%s'", #name);               \
    }
    CRYPTO_FUNCTIONS(CRYPTO_LOAD)
#undef CRYPTO_LOAD
    return TY_OK;
}

/* ---- PEM ---- */

/* What i2d_ makes of `x`, as base64 lines between two markers. */
static ty_err pem_make(struct ty_arena *a, int (*encode)(const void *x, unsigned char **out),
                       const void *x, const char *label, ty_str *ret_pem)
{
    int len = encode(x, NULL);
    if (len <= 0 || len > 65536)
        return ty_fail(TY_INTERNAL, "libcrypto cannot encode the %s", label);
    unsigned char *der = ty_alloc(a, (size_t)len), *end = der;
    if (encode(x, &end) != len)
        return ty_fail(TY_INTERNAL, "libcrypto cannot encode the %s", label);
    struct ty_buf base64, pem;
    ty_buf_init(&base64, AUTH_FILE_LIMIT);
    ty_buf_init(&pem, AUTH_FILE_LIMIT);
    wire_base64_encode(&base64, (ty_str){(const char *)der, (size_t)len});
    ty_buf_addf(&pem, "-----BEGIN %s-----\n", label);
    for (size_t i = 0; i < base64.len; i += 64) {
        ty_buf_add(&pem, base64.ptr + i, base64.len - i < 64 ? base64.len - i : 64);
        ty_buf_addc(&pem, '\n');
    }
    ty_buf_addf(&pem, "-----END %s-----\n", label);
    *ret_pem = ty_str_dup(a, ty_buf_str(&pem));
    ty_buf_clear(&base64);
    ty_buf_clear(&pem);
    return TY_OK;
}

/* ---- the certificate ---- */

static bool extension_add(const struct crypto *c, void *cert, int nid, const char *value)
{
    void *ext = c->X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    bool ok = ext != NULL && c->X509_add_ext(cert, ext, -1) == 1;
    if (ext != NULL)
        c->X509_EXTENSION_free(ext);
    return ok;
}

static bool certificate_fill(const struct crypto *c, void *cert, void *key)
{
    uint64_t serial;
    ty_random(&serial, sizeof serial);
    void *name = c->X509_get_subject_name(cert);
    return c->X509_set_version(cert, X509_VERSION_3) == 1 &&
           c->ASN1_INTEGER_set_uint64(c->X509_get_serialNumber(cert), serial >> 1) == 1 &&
           c->X509_gmtime_adj(c->X509_getm_notBefore(cert), -DAY_S) != NULL &&
           c->X509_gmtime_adj(c->X509_getm_notAfter(cert), (long)DAY_S * YEARS_DAYS) != NULL &&
           c->X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASCII,
                                         (const unsigned char *)"Trainyard on this machine", -1, -1,
                                         0) == 1 &&
           c->X509_set_issuer_name(cert, name) == 1 && c->X509_set_pubkey(cert, key) == 1 &&
           extension_add(c, cert, NID_BASIC_CONSTRAINTS, "critical,CA:FALSE") &&
           extension_add(c, cert, NID_EXT_KEY_USAGE, "serverAuth") &&
           extension_add(c, cert, NID_SUBJECT_ALT_NAME, "IP:127.0.0.1,IP:::1,DNS:localhost") &&
           c->X509_sign(cert, key, c->EVP_sha256()) > 0;
}

static ty_err certificate_make(struct ty_arena *a, struct auth_certificate *ret)
{
    struct crypto c = {0};
    void *p8 = NULL;
    ty_err err = crypto_open(&c);
    if (err != TY_OK)
        return err;
    void *key = c.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    void *cert = c.X509_new();
    if (key != NULL)
        p8 = c.EVP_PKEY2PKCS8(key);
    if (p8 == NULL || cert == NULL || !certificate_fill(&c, cert, key))
        err = ty_fail(TY_INTERNAL, "libcrypto cannot make a certificate");
    if (err == TY_OK)
        err = pem_make(a, c.i2d_PKCS8_PRIV_KEY_INFO, p8, "PRIVATE KEY", &ret->key);
    if (err == TY_OK)
        err = pem_make(a, c.i2d_X509, cert, "CERTIFICATE", &ret->certificate);
    c.PKCS8_PRIV_KEY_INFO_free(p8);
    c.X509_free(cert);
    c.EVP_PKEY_free(key);
    dlclose(c.lib);
    return err;
}

/* ---- the files ---- */

static bool certificate_read(struct ty_arena *a, const char *folder, struct auth_certificate *ret)
{
    return ty_file_read(AT_FDCWD, ty_format(a, "%s/key.pem", folder), AUTH_FILE_LIMIT, a,
                        &ret->key) == TY_OK &&
           ty_file_read(AT_FDCWD, ty_format(a, "%s/cert.pem", folder), AUTH_FILE_LIMIT, a,
                        &ret->certificate) == TY_OK &&
           ty_str_starts(ret->key, TY_STR("-----BEGIN PRIVATE KEY-----\n")) &&
           ty_str_starts(ret->certificate, TY_STR("-----BEGIN CERTIFICATE-----\n"));
}

/* cert.pem is written last: where it is, its key is. */
ty_err auth_certificate_prepare(struct ty_arena *a, const char *data_dir,
                                struct auth_certificate *ret_certificate)
{
    const char *folder = ty_format(a, "%s/tls", data_dir);
    struct auth_certificate made = {0};
    if (certificate_read(a, folder, ret_certificate))
        return TY_OK;
    ty_err err = ty_mkdirs(folder, 0700);
    if (err == TY_OK)
        err = certificate_make(a, &made);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/key.pem", folder), made.key, 0600);
    if (err == TY_OK)
        err =
            ty_file_replace(AT_FDCWD, ty_format(a, "%s/cert.pem", folder), made.certificate, 0600);
    if (err != TY_OK)
        return ty_wrap(err, "the TLS certificate in '%s'", folder);
    *ret_certificate = made;
    return TY_OK;
}
