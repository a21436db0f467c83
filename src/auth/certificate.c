/* certificate.c -- the certificate that this server shows where TLS is spoken, and who believes it.
 *
 *   tls/ca.pem          an authority of this data folder's own. The only names it may vouch for are
 *                       googleapis.com's and localhost (name constraints; on addresses there are
 *                       none, because the TLS inside TensorFlow gives up where it meets them), and
 *                       its key is never written: it signs one certificate and is forgotten
 *   tls/cert.pem        that certificate (Google's storage hosts, localhost, 127.0.0.1, ::1), and
 *                       the authority behind it: a client that names this file trusts the server
 *   tls/key.pem         its key
 *   client/bundle.pem   the machine's authorities and ours, for the programs of jobs alone
 *
 * Nothing is ever installed for the whole machine. The pair is made anew when it is older than
 * RENEW_S; the bundle at every start, because the machine's authorities change. libcrypto is loaded
 * for the making only, as in key.c. */
#include "auth/auth_int.h"

#include <dlfcn.h>

enum { VALID_S = 10 * 365 * 86400, EARLY_S = 86400, RENEW_S = 300 * 86400 };
enum { BUNDLE_BYTES = 16 << 20, DER_BYTES = 64 << 10 };
enum { NID_SKI = 82, NID_KEY_USAGE = 83, NID_SAN = 85, NID_BASIC = 87, NID_AKI = 90 };
enum { NID_EXT_KEY_USAGE = 126, NID_NAME_CONSTRAINTS = 666, NAME_ASCII = 0x1001 };

typedef struct evp_pkey_st EVP_PKEY;
typedef struct x509_st X509;
typedef struct x509_name_st X509_NAME;
typedef struct x509_ext_st X509_EXTENSION;
typedef struct asn1_st ASN1;
typedef struct pkcs8_priv_key_info_st PKCS8_PRIV_KEY_INFO;
/* OpenSSL's X509V3_CTX is eight words; it fills it in itself. */
union extension_context {
    void *words[32];
};

/* OpenSSL 3's functions by their C signatures. */
#define CRYPTO_FUNCTIONS(X)                                                                        \
    X(EVP_PKEY *, EVP_PKEY_Q_keygen, (void *, const char *, const char *, ...))                    \
    X(void, EVP_PKEY_free, (EVP_PKEY *))                                                           \
    X(PKCS8_PRIV_KEY_INFO *, EVP_PKEY2PKCS8, (const EVP_PKEY *))                                   \
    X(int, i2d_PKCS8_PRIV_KEY_INFO, (const PKCS8_PRIV_KEY_INFO *, unsigned char **))               \
    X(void, PKCS8_PRIV_KEY_INFO_free, (PKCS8_PRIV_KEY_INFO *))                                     \
    X(const void *, EVP_sha256, (void))                                                            \
    X(X509 *, X509_new, (void))                                                                    \
    X(void, X509_free, (X509 *))                                                                   \
    X(int, X509_set_version, (X509 *, long))                                                       \
    X(ASN1 *, X509_get_serialNumber, (X509 *))                                                     \
    X(int, ASN1_INTEGER_set_uint64, (ASN1 *, uint64_t))                                            \
    X(ASN1 *, X509_getm_notBefore, (const X509 *))                                                 \
    X(ASN1 *, X509_getm_notAfter, (const X509 *))                                                  \
    X(ASN1 *, X509_gmtime_adj, (ASN1 *, long))                                                     \
    X(int, X509_set_pubkey, (X509 *, EVP_PKEY *))                                                  \
    X(X509_NAME *, X509_get_subject_name, (const X509 *))                                          \
    X(int, X509_NAME_add_entry_by_txt,                                                             \
      (X509_NAME *, const char *, int, const unsigned char *, int, int, int))                      \
    X(int, X509_set_issuer_name, (X509 *, const X509_NAME *))                                      \
    X(void, X509V3_set_ctx, (void *, X509 *, X509 *, void *, void *, int))                         \
    X(X509_EXTENSION *, X509V3_EXT_conf_nid, (void *, void *, int, const char *))                  \
    X(int, X509_add_ext, (X509 *, X509_EXTENSION *, int))                                          \
    X(void, X509_EXTENSION_free, (X509_EXTENSION *))                                               \
    X(int, X509_sign, (X509 *, EVP_PKEY *, const void *))                                          \
    X(int, i2d_X509, (const X509 *, unsigned char **))

struct crypto {
    void *lib;
#define CRYPTO_FIELD(type, name, args) type(*name) args;
    CRYPTO_FUNCTIONS(CRYPTO_FIELD)
#undef CRYPTO_FIELD
};

static ty_err crypto_open(struct crypto *c)
{
    c->lib = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (c->lib == NULL)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot load libcrypto.so.3 (Debian package libssl3): %s", dlerror());
#define CRYPTO_LOAD(type, name, args)                                                              \
    *(void **)&c->name = dlsym(c->lib, #name);                                                     \
    if (c->name == NULL) {                                                                         \
        dlclose(c->lib);                                                                           \
        return ty_fail(TY_FAILED_PRECONDITION, "libcrypto.so.3 has no '%s'", #name);               \
    }
    CRYPTO_FUNCTIONS(CRYPTO_LOAD)
#undef CRYPTO_LOAD
    return TY_OK;
}

/* ---- one certificate ---- */

struct extension {
    int nid;
    const char *value;
};
static const struct extension ca_extensions[] = {
    {NID_BASIC, "critical,CA:TRUE,pathlen:0"},
    {NID_KEY_USAGE, "critical,keyCertSign"},
    {NID_SKI, "hash"},
    {NID_NAME_CONSTRAINTS, "critical,permitted;DNS:googleapis.com,permitted;DNS:localhost"},
    {0, NULL},
};
static const struct extension server_extensions[] = {
    {NID_BASIC, "critical,CA:FALSE"},
    {NID_KEY_USAGE, "critical,digitalSignature"},
    {NID_EXT_KEY_USAGE, "serverAuth"},
    {NID_SKI, "hash"},
    {NID_AKI, "keyid:always"},
    {NID_SAN, "DNS:storage.googleapis.com,DNS:www.googleapis.com,DNS:oauth2.googleapis.com,"
              "DNS:localhost,IP:127.0.0.1,IP:::1"},
    {0, NULL},
};

static bool add_extensions(struct crypto *c, X509 *cert, X509 *issuer, const struct extension *list)
{
    union extension_context context = {{0}};
    c->X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    for (; list->value; list++) {
        X509_EXTENSION *e = c->X509V3_EXT_conf_nid(NULL, &context, list->nid, list->value);
        bool added = e != NULL && c->X509_add_ext(cert, e, -1) == 1;
        c->X509_EXTENSION_free(e);
        if (!added)
            return false;
    }
    return true;
}

/* Without an issuer it signs itself. NULL: libcrypto refuses. */
static X509 *certificate_make(struct crypto *c, const char *name, EVP_PKEY *key, X509 *issuer,
                              EVP_PKEY *issuer_key, const struct extension *extensions)
{
    X509 *cert = c->X509_new();
    uint64_t serial;
    ty_random(&serial, sizeof serial);
    bool ok = cert != NULL && c->X509_set_version(cert, 2) == 1 &&
              c->ASN1_INTEGER_set_uint64(c->X509_get_serialNumber(cert), serial >> 1) == 1 &&
              c->X509_gmtime_adj(c->X509_getm_notBefore(cert), -EARLY_S) != NULL &&
              c->X509_gmtime_adj(c->X509_getm_notAfter(cert), VALID_S) != NULL &&
              c->X509_set_pubkey(cert, key) == 1;
    ok = ok && c->X509_NAME_add_entry_by_txt(c->X509_get_subject_name(cert), "CN", NAME_ASCII,
                                             (const unsigned char *)name, -1, -1, 0) == 1;
    ok = ok &&
         c->X509_set_issuer_name(cert, c->X509_get_subject_name(issuer ? issuer : cert)) == 1 &&
         add_extensions(c, cert, issuer ? issuer : cert, extensions) &&
         c->X509_sign(cert, issuer_key, c->EVP_sha256()) > 0;
    if (ok)
        return cert;
    c->X509_free(cert);
    return NULL;
}

/* ---- as text ---- */

static ty_err certificate_pem(struct crypto *c, struct ty_arena *a, const X509 *cert,
                              ty_str *ret_pem)
{
    int len = c->i2d_X509(cert, NULL);
    if (len <= 0 || len > DER_BYTES)
        return ty_fail(TY_INTERNAL, "libcrypto cannot encode a certificate");
    unsigned char *der = ty_alloc(a, (size_t)len), *end = der;
    if (c->i2d_X509(cert, &end) != len)
        return ty_fail(TY_INTERNAL, "libcrypto cannot encode a certificate");
    *ret_pem = auth_pem(a, "CERTIFICATE", (ty_str){(const char *)der, (size_t)len});
    return TY_OK;
}

static ty_err key_pem(struct crypto *c, struct ty_arena *a, const EVP_PKEY *key, ty_str *ret_pem)
{
    ty_err err = ty_fail(TY_INTERNAL, "libcrypto cannot encode a key");
    PKCS8_PRIV_KEY_INFO *p8 = c->EVP_PKEY2PKCS8(key);
    int len = p8 ? c->i2d_PKCS8_PRIV_KEY_INFO(p8, NULL) : -1;
    if (len > 0 && len <= DER_BYTES) {
        unsigned char *der = ty_alloc(a, (size_t)len), *end = der;
        if (c->i2d_PKCS8_PRIV_KEY_INFO(p8, &end) == len) {
            *ret_pem = auth_pem(a, "PRIVATE KEY", (ty_str){(const char *)der, (size_t)len});
            err = TY_OK;
        }
    }
    c->PKCS8_PRIV_KEY_INFO_free(p8);
    return err;
}

/* An authority and a certificate of it, with the authority behind it. */
static ty_err pair_make(struct ty_arena *a, ty_str *ret_ca, struct auth_certificate *ret)
{
    struct crypto c = {0};
    ty_str pem = {0};
    ty_err err = crypto_open(&c);
    if (err != TY_OK)
        return err;
    EVP_PKEY *ca_key = c.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    EVP_PKEY *key = c.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *ca = NULL, *cert = NULL;
    if (ca_key != NULL && key != NULL)
        ca = certificate_make(&c, "Trainyard (this data folder only)", ca_key, NULL, ca_key,
                              ca_extensions);
    if (ca != NULL)
        cert = certificate_make(&c, "Trainyard", key, ca, ca_key, server_extensions);
    if (cert == NULL)
        err = ty_fail(TY_INTERNAL, "libcrypto cannot make a certificate");
    if (err == TY_OK)
        err = certificate_pem(&c, a, ca, ret_ca);
    if (err == TY_OK)
        err = certificate_pem(&c, a, cert, &pem);
    if (err == TY_OK)
        err = key_pem(&c, a, key, &ret->key);
    if (err == TY_OK)
        ret->certificate =
            ty_str_of(ty_format(a, TY_STR_FMT TY_STR_FMT, TY_STR_ARG(pem), TY_STR_ARG(*ret_ca)));
    c.X509_free(cert);
    c.X509_free(ca);
    c.EVP_PKEY_free(key);
    c.EVP_PKEY_free(ca_key);
    dlclose(c.lib);
    return err;
}

/* ---- the files ---- */

static bool is_young(struct ty_arena *a, const char *folder, const char *name)
{
    struct stat st;
    return stat(ty_format(a, "%s/%s", folder, name), &st) == 0 &&
           ty_now_ns() / 1000000000 - st.st_mtime < RENEW_S;
}

static bool pair_read(struct ty_arena *a, const char *folder, struct auth_certificate *ret)
{
    return is_young(a, folder, "ca.pem") && is_young(a, folder, "cert.pem") &&
           ty_file_read(AT_FDCWD, ty_format(a, "%s/key.pem", folder), AUTH_FILE_LIMIT, a,
                        &ret->key) == TY_OK &&
           ty_file_read(AT_FDCWD, ty_format(a, "%s/cert.pem", folder), AUTH_FILE_LIMIT, a,
                        &ret->certificate) == TY_OK &&
           ty_str_starts(ret->key, TY_STR("-----BEGIN PRIVATE KEY-----\n")) &&
           ty_str_starts(ret->certificate, TY_STR("-----BEGIN CERTIFICATE-----\n"));
}

/* cert.pem is removed first and written last: where it is, the others belong to it. */
static ty_err pair_write(struct ty_arena *a, const char *folder, ty_str ca,
                         const struct auth_certificate *pair)
{
    const char *last = ty_format(a, "%s/cert.pem", folder);
    ty_err err = ty_mkdirs(folder, 0700);
    if (err == TY_OK && unlink(last) != 0 && errno != ENOENT)
        err = ty_fail_errno(errno, "cannot remove '%s'", last);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/ca.pem", folder), ca, 0600);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/key.pem", folder), pair->key, 0600);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, last, pair->certificate, 0600);
    return err;
}

ty_err auth_certificate_prepare(struct ty_arena *a, const char *data_dir,
                                struct auth_certificate *ret_certificate)
{
    const char *folder = ty_format(a, "%s/tls", data_dir);
    struct auth_certificate pair = {0};
    ty_str ca;
    ty_err err = TY_OK;
    if (!pair_read(a, folder, &pair)) {
        err = pair_make(a, &ca, &pair);
        if (err == TY_OK)
            err = pair_write(a, folder, ca, &pair);
    }
    if (err != TY_OK)
        return ty_wrap(err, "the TLS certificate in '%s'", folder);
    *ret_certificate = pair;
    return TY_OK;
}

/* ---- the bundle ---- */

const char *auth_system_bundle(void)
{
    static const char *const variables[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE",
                                            "REQUESTS_CA_BUNDLE"};
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    };
    for (size_t i = 0; i < TY_COUNT(variables); i++) {
        const char *path = getenv(variables[i]);
        if (path != NULL && path[0] == '/' && access(path, R_OK) == 0)
            return path;
    }
    for (size_t i = 0; i < TY_COUNT(files); i++)
        if (access(files[i], R_OK) == 0)
            return files[i];
    return NULL;
}

/* Without authorities of the machine there is no bundle: one of ours alone would keep a job's
 * programs from every other host. */
ty_err auth_bundle_write(struct ty_arena *a, const char *client)
{
    const char *path = ty_format(a, "%s/bundle.pem", client), *from = auth_system_bundle();
    ty_str theirs, ours;
    struct ty_buf b;
    ty_err err =
        ty_file_read(AT_FDCWD, ty_format(a, "%s/../tls/ca.pem", client), DER_BYTES, a, &ours);
    if (from == NULL || err == TY_NOT_FOUND)
        return unlink(path) == 0 || errno == ENOENT
                   ? TY_OK
                   : ty_fail_errno(errno, "cannot remove '%s'", path);
    if (err == TY_OK)
        err = ty_file_read(AT_FDCWD, from, BUNDLE_BYTES, a, &theirs);
    if (err != TY_OK)
        return err;
    ty_buf_init(&b, BUNDLE_BYTES + DER_BYTES);
    ty_buf_adds(&b, theirs);
    ty_buf_addc(&b, '\n');
    ty_buf_adds(&b, ours);
    /* A container's user may be another one: the folder above keeps others of the machine out. */
    err = auth_file_write(path, ty_buf_str(&b), 0644);
    ty_buf_clear(&b);
    return err;
}
