/* digest.c -- MD5 and SHA-256 from libcrypto, and joining two crc32c.
 *
 * libcrypto is loaded when the first objects are opened and not linked: a client command must start
 * with few libraries (DESIGN.md). Its older MD5_* functions are used because their state is a plain
 * struct of 92 bytes, unchanged since it was written: a resumable upload keeps it in its row and
 * goes on after a restart without reading its bytes again. */
#include "objects/objects_int.h"

#include <dlfcn.h>

static struct {
    int (*md5_init)(struct md5 *h);
    int (*md5_update)(struct md5 *h, const void *ptr, size_t len);
    int (*md5_final)(unsigned char *out, struct md5 *h);
    unsigned char *(*sha256)(const unsigned char *ptr, size_t len, unsigned char *out);
    ty_err err;
    char message[256];
} crypto;

static void load(void)
{
    const struct {
        const char *name;
        void **slot;
    } wanted[] = {
        {"MD5_Init", (void **)&crypto.md5_init},
        {"MD5_Update", (void **)&crypto.md5_update},
        {"MD5_Final", (void **)&crypto.md5_final},
        {"SHA256", (void **)&crypto.sha256},
    };
    void *lib = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; lib && i < TY_COUNT(wanted); i++)
        *wanted[i].slot = dlsym(lib, wanted[i].name);
    if (lib && crypto.md5_init && crypto.md5_update && crypto.md5_final && crypto.sha256)
        return;
    crypto.err = TY_FAILED_PRECONDITION;
    snprintf(crypto.message, sizeof crypto.message,
             "cannot load MD5 and SHA-256 of libcrypto.so.3 (Debian package libssl3): %s",
             lib ? "a function is missing" : dlerror());
}

ty_err digest_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return crypto.err == TY_OK ? TY_OK : ty_fail(crypto.err, "%s", crypto.message);
}

void md5_init(struct md5 *h)
{
    crypto.md5_init(h);
}

void md5_add(struct md5 *h, const void *ptr, size_t len)
{
    crypto.md5_update(h, ptr, len);
}

void md5_end(struct md5 *h, unsigned char out[16])
{
    crypto.md5_final(out, h);
}

void sha256_hex(ty_str s, char out[65])
{
    unsigned char digest[32];
    crypto.sha256((const unsigned char *)s.ptr, s.len, digest);
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* ---- crc32c of two pieces ----
 *
 * A crc is a polynomial over GF(2), its highest power in the lowest bit. Putting n bytes behind A
 * multiplies A's by x^(8n) modulo the generator; the rest is an exclusive or. */

static const uint32_t generator = 0x82f63b78u;

static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b >> 1 ^ (b & 1 ? generator : 0);
    }
    return product;
}

uint32_t crc32c_join(uint32_t a, uint32_t b, int64_t len_b)
{
    uint32_t power = 0x00800000u, shift = 0x80000000u; /* x^8, and 1 */
    for (uint64_t n = (uint64_t)len_b; n; n >>= 1) {
        if (n & 1)
            shift = times(shift, power);
        power = times(power, power);
    }
    return times(a, shift) ^ b;
}
