/* sha256.c -- SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104), for cache keys, backups and the
 * replicas' tokens.
 *
 * Ours and not libcrypto's because `prepare` runs before every package job: loading a library of
 * 5 MB costs more than hashing a trainer. */
#include "wire/wire.h"

enum { BLOCK_BYTES = 64, DIGEST_BYTES = 32 };

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* Round n on the words a..h of v, by their places: the words stay, the places go round. */
#define ROUND(a, b, c, d, e, f, g, h, n)                                                           \
    {                                                                                              \
        uint32_t one = v[h] + (rotate(v[e], 6) ^ rotate(v[e], 11) ^ rotate(v[e], 25)) +            \
                       ((v[e] & v[f]) ^ (~v[e] & v[g])) + round_constants[n] + w[n];               \
        uint32_t two = (rotate(v[a], 2) ^ rotate(v[a], 13) ^ rotate(v[a], 22)) +                   \
                       ((v[a] & v[b]) ^ (v[a] & v[c]) ^ (v[b] & v[c]));                            \
        v[d] += one;                                                                               \
        v[h] = one + two;                                                                          \
    }

static void mix(uint32_t state[8], const unsigned char *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i += 8) { /* eight rounds, and every word is back in its place */
        ROUND(0, 1, 2, 3, 4, 5, 6, 7, i)
        ROUND(7, 0, 1, 2, 3, 4, 5, 6, i + 1)
        ROUND(6, 7, 0, 1, 2, 3, 4, 5, i + 2)
        ROUND(5, 6, 7, 0, 1, 2, 3, 4, i + 3)
        ROUND(4, 5, 6, 7, 0, 1, 2, 3, i + 4)
        ROUND(3, 4, 5, 6, 7, 0, 1, 2, i + 5)
        ROUND(2, 3, 4, 5, 6, 7, 0, 1, i + 6)
        ROUND(1, 2, 3, 4, 5, 6, 7, 0, i + 7)
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void wire_sha256_init(struct wire_sha256 *h)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *h = (struct wire_sha256){0};
    memcpy(h->state, first, sizeof first);
}

void wire_sha256_add(struct wire_sha256 *h, const void *ptr, size_t len)
{
    const unsigned char *p = ptr;
    while (len > 0) {
        size_t used = h->bytes % 64, take = len < 64 - used ? len : 64 - used;
        if (take == 64) { /* a whole block: no need to copy it */
            mix(h->state, p);
            h->bytes += 64;
            p += 64;
            len -= 64;
            continue;
        }
        memcpy(h->block + used, p, take);
        h->bytes += take;
        p += take;
        len -= take;
        if (used + take == 64)
            mix(h->state, h->block);
    }
}

void wire_sha256_adds(struct wire_sha256 *h, ty_str s)
{
    uint64_t len = s.len;
    wire_sha256_add(h, &len, sizeof len);
    wire_sha256_add(h, s.ptr, s.len);
}

/* Close it; the digest is in h->state. */
static void finish(struct wire_sha256 *h)
{
    uint64_t bits = h->bytes * 8;
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)(bits >> (56 - 8 * i));
    wire_sha256_add(h, "\x80", 1);
    while (h->bytes % 64 != 56)
        wire_sha256_add(h, "", 1);
    wire_sha256_add(h, size, sizeof size);
}

void wire_sha256_end(struct wire_sha256 *h, char out[WIRE_SHA256_HEX_BYTES])
{
    finish(h);
    for (int i = 0; i < 8; i++)
        snprintf(out + 8 * i, 9, "%08x", h->state[i]);
}

static void finish_bytes(struct wire_sha256 *h, unsigned char out[DIGEST_BYTES])
{
    finish(h);
    for (int i = 0; i < DIGEST_BYTES; i++)
        out[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* H(key ^ opad, H(key ^ ipad, text)), where a key longer than a block is its hash. */
void wire_hmac_sha256(ty_str key, ty_str text, char out[WIRE_SHA256_HEX_BYTES])
{
    unsigned char block[BLOCK_BYTES] = {0}, inner[DIGEST_BYTES];
    struct wire_sha256 h;
    if (key.len > BLOCK_BYTES) {
        wire_sha256_init(&h);
        wire_sha256_add(&h, key.ptr, key.len);
        finish_bytes(&h, block);
    } else if (key.len > 0) {
        memcpy(block, key.ptr, key.len);
    }
    for (int i = 0; i < BLOCK_BYTES; i++)
        block[i] ^= 0x36;
    wire_sha256_init(&h);
    wire_sha256_add(&h, block, sizeof block);
    wire_sha256_add(&h, text.ptr, text.len);
    finish_bytes(&h, inner);
    for (int i = 0; i < BLOCK_BYTES; i++)
        block[i] ^= 0x36 ^ 0x5c;
    wire_sha256_init(&h);
    wire_sha256_add(&h, block, sizeof block);
    wire_sha256_add(&h, inner, sizeof inner);
    wire_sha256_end(&h, out);
}

bool wire_same_bytes(ty_str a, ty_str b)
{
    unsigned char different = 0;
    for (size_t i = 0; a.len == b.len && i < a.len; i++)
        different |= (unsigned char)a.ptr[i] ^ (unsigned char)b.ptr[i];
    return a.len == b.len && different == 0;
}
