/* authority.c -- the certificate that this server shows where TLS is spoken, and who believes it.
 *
 *   client/ca.pem       an authority of this data folder's own. The only names it may vouch for are
 *                       googleapis.com's and localhost (name constraints; on addresses there are
 *                       none, because the TLS inside TensorFlow gives up where it meets them), and
 *                       its key is never written: it signs one certificate and is forgotten
 *   client/server.pem   that certificate: Google's storage hosts, localhost, 127.0.0.1, ::1
 *   client/server.key   its key
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

/* ---- to files ---- */

static ty_err write_certificate(struct crypto *c, struct ty_arena *a, const X509 *cert,
                                const char *path)
{
    int len = c->i2d_X509(cert, NULL);
    if (len <= 0 || len > DER_BYTES)
        return ty_fail(TY_INTERNAL, "libcrypto cannot encode a certificate");
    unsigned char *der = ty_alloc(a, (size_t)len), *end = der;
    if (c->i2d_X509(cert, &end) != len)
        return ty_fail(TY_INTERNAL, "libcrypto cannot encode a certificate");
    ty_str pem = auth_pem(a, "CERTIFICATE", (ty_str){(const char *)der, (size_t)len});
    return ty_file_replace(AT_FDCWD, path, pem, 0600);
}

static ty_err write_key(struct crypto *c, struct ty_arena *a, const EVP_PKEY *key, const char *path)
{
    ty_err err = ty_fail(TY_INTERNAL, "libcrypto cannot encode a key");
    PKCS8_PRIV_KEY_INFO *p8 = c->EVP_PKEY2PKCS8(key);
    int len = p8 ? c->i2d_PKCS8_PRIV_KEY_INFO(p8, NULL) : -1;
    if (len > 0 && len <= DER_BYTES) {
        unsigned char *der = ty_alloc(a, (size_t)len), *end = der;
        if (c->i2d_PKCS8_PRIV_KEY_INFO(p8, &end) == len)
            err = ty_file_replace(
                AT_FDCWD, path,
                auth_pem(a, "PRIVATE KEY", (ty_str){(const char *)der, (size_t)len}), 0600);
    }
    c->PKCS8_PRIV_KEY_INFO_free(p8);
    return err;
}

/* server.pem is written last: while it is missing, all of it is made again. */
static ty_err make_files(struct ty_arena *a, const char *client)
{
    struct crypto c = {0};
    ty_err err = crypto_open(&c);
    if (err != TY_OK)
        return err;
    EVP_PKEY *ca_key = c.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    EVP_PKEY *key = c.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *ca = NULL, *cert = NULL;
    const char *server = ty_format(a, "%s/server.pem", client);
    if (ca_key != NULL && key != NULL)
        ca = certificate_make(&c, "Trainyard (this data folder only)", ca_key, NULL, ca_key,
                              ca_extensions);
    if (ca != NULL)
        cert = certificate_make(&c, "Trainyard", key, ca, ca_key, server_extensions);
    if (cert == NULL)
        err = ty_fail(TY_INTERNAL, "libcrypto cannot make a certificate");
    if (err == TY_OK && unlink(server) != 0 && errno != ENOENT)
        err = ty_fail_errno(errno, "cannot remove '%s'", server);
    if (err == TY_OK)
        err = write_certificate(&c, a, ca, ty_format(a, "%s/ca.pem", client));
    if (err == TY_OK)
        err = write_key(&c, a, key, ty_format(a, "%s/server.key", client));
    if (err == TY_OK)
        err = write_certificate(&c, a, cert, server);
    c.X509_free(cert);
    c.X509_free(ca);
    c.EVP_PKEY_free(key);
    c.EVP_PKEY_free(ca_key);
    dlclose(c.lib);
    return err;
}

static bool files_are_young(struct ty_arena *a, const char *client)
{
    static const char *const names[] = {"ca.pem", "server.key", "server.pem"};
    int64_t now_s = ty_now_ns() / 1000000000;
    for (size_t i = 0; i < TY_COUNT(names); i++) {
        struct stat st;
        if (stat(ty_format(a, "%s/%s", client, names[i]), &st) != 0 || st.st_size == 0 ||
            now_s - st.st_mtime > RENEW_S)
            return false;
    }
    return true;
}

/* ---- the bundle ---- */

/* Where this machine, or the user by variable, has authorities. */
static const char *system_bundle(void)
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
static ty_err write_bundle(struct ty_arena *a, const char *client)
{
    const char *path = ty_format(a, "%s/bundle.pem", client), *from = system_bundle();
    ty_str theirs, ours;
    struct ty_buf b;
    if (from == NULL)
        return unlink(path) == 0 || errno == ENOENT
                   ? TY_OK
                   : ty_fail_errno(errno, "cannot remove '%s'", path);
    ty_err err = ty_file_read(AT_FDCWD, from, BUNDLE_BYTES, a, &theirs);
    if (err == TY_OK)
        err = ty_file_read(AT_FDCWD, ty_format(a, "%s/ca.pem", client), DER_BYTES, a, &ours);
    if (err != TY_OK)
        return err;
    ty_buf_init(&b, BUNDLE_BYTES + DER_BYTES);
    ty_buf_adds(&b, theirs);
    ty_buf_addc(&b, '\n');
    ty_buf_adds(&b, ours);
    err = ty_file_replace(AT_FDCWD, path, ty_buf_str(&b), 0600);
    ty_buf_clear(&b);
    return err;
}

ty_err auth_authority_write(struct ty_arena *a, const char *client)
{
    ty_err err = files_are_young(a, client) ? TY_OK : make_files(a, client);
    return err == TY_OK ? write_bundle(a, client) : err;
}

ty_err auth_server_certificate(struct ty_arena *a, const char *data_dir, const char **ret_cert,
                               const char **ret_key)
{
    ty_str cert, key;
    ty_err err =
        ty_file_read(AT_FDCWD, ty_format(a, "%s/client/server.pem", data_dir), DER_BYTES, a, &cert);
    if (err == TY_OK)
        err = ty_file_read(AT_FDCWD, ty_format(a, "%s/client/server.key", data_dir), DER_BYTES, a,
                           &key);
    if (err != TY_OK)
        return err;
    *ret_cert = cert.ptr;
    *ret_key = key.ptr;
    return TY_OK;
}
