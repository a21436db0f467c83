/* fingerprint.c -- FarmHash's Fingerprint64 and what TensorFlow makes of it: bucket and cross ids.
 *
 * Fingerprint64 is fixed for ever (that is what "fingerprint" means there): ids in exported models
 * and in other people's embeddings depend on every bit. Strings up to 64 bytes are mixed from their
 * first and last words, by length class; longer ones go through 56 bytes of state, 64 bytes a step,
 * and end with the last 64 bytes, which may overlap those before. */
#include "formats/formats.h"

#include "wire/wire.h"

static const uint64_t k0 = 0xc3a5c85c97cb3127u, k1 = 0xb492b66fbe98f273u, k2 = 0x9ae16a3b2f90404fu;

static uint64_t word(const char *p)
{
    return wire_load_le64(p);
}

static uint64_t rotate(uint64_t v, unsigned by)
{
    return v >> by | v << (64 - by);
}

static uint64_t shift_mix(uint64_t v)
{
    return v ^ v >> 47;
}

static uint64_t mix2(uint64_t u, uint64_t v, uint64_t mul)
{
    uint64_t a = shift_mix((u ^ v) * mul);
    return shift_mix((v ^ a) * mul) * mul;
}

static uint64_t hash_to_16(const char *s, size_t n)
{
    uint64_t mul = k2 + n * 2;
    if (n >= 8) {
        uint64_t a = word(s) + k2, b = word(s + n - 8);
        return mix2(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul);
    }
    if (n >= 4)
        return mix2(n + ((uint64_t)wire_load_le32(s) << 3), wire_load_le32(s + n - 4), mul);
    if (n == 0)
        return k2;
    const unsigned char *u = (const unsigned char *)s;
    uint64_t y = (uint32_t)u[0] + ((uint32_t)u[n >> 1] << 8);
    uint64_t z = n + ((uint32_t)u[n - 1] << 2);
    return shift_mix(y * k2 ^ z * k0) * k2;
}

static uint64_t hash_to_32(const char *s, size_t n)
{
    uint64_t mul = k2 + n * 2;
    uint64_t a = word(s) * k1, b = word(s + 8);
    uint64_t c = word(s + n - 8) * mul, d = word(s + n - 16) * k2;
    return mix2(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + k2, 18) + c, mul);
}

static uint64_t hash_to_64(const char *s, size_t n)
{
    uint64_t mul = k2 + n * 2;
    uint64_t a = word(s) * k2, b = word(s + 8);
    uint64_t c = word(s + n - 8) * mul, d = word(s + n - 16) * k2;
    uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d;
    uint64_t z = mix2(y, a + rotate(b + k2, 18) + c, mul);
    uint64_t e = word(s + 16) * mul, f = word(s + 24);
    uint64_t g = (y + word(s + n - 32)) * mul, h = (z + word(s + n - 24)) * mul;
    return mix2(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, mul);
}

struct pair {
    uint64_t first, second;
};

/* 32 bytes into two words, started from a and b. */
static struct pair mix32(const char *s, uint64_t a, uint64_t b)
{
    uint64_t w = word(s), x = word(s + 8), y = word(s + 16), z = word(s + 24);
    a += w;
    b = rotate(b + a + z, 21);
    uint64_t c = a;
    a += x + y;
    b += rotate(a, 44);
    return (struct pair){a + z, b + c};
}

struct state {
    uint64_t x, y, z;
    struct pair v, w;
};

/* 64 bytes; the last round has another multiplier and weighs two words by nine. */
static void round64(struct state *t, const char *s, uint64_t mul, uint64_t weight)
{
    t->x = rotate(t->x + t->y + t->v.first + word(s + 8), 37) * mul;
    t->y = rotate(t->y + t->v.second + word(s + 48), 42) * mul;
    t->x ^= t->w.second * weight;
    t->y += t->v.first * weight + word(s + 40);
    t->z = rotate(t->z + t->w.first, 33) * mul;
    t->v = mix32(s, t->v.second * mul, t->x + t->w.first);
    t->w = mix32(s + 32, t->z + t->w.second, t->y + word(s + 16));
    uint64_t swap = t->z;
    t->z = t->x;
    t->x = swap;
}

static uint64_t hash_long(const char *s, size_t n)
{
    const uint64_t seed = 81;
    struct state t = {.x = seed * k2 + word(s), .y = seed * k1 + 113};
    t.z = shift_mix(t.y * k2 + 113) * k2;
    const char *end = s + (n - 1) / 64 * 64;
    for (; s != end; s += 64)
        round64(&t, s, k1, 1);
    size_t rest = (n - 1) & 63;
    uint64_t mul = k1 + ((t.z & 0xff) << 1);
    t.w.first += rest;
    t.v.first += t.w.first;
    t.w.first += t.v.first;
    round64(&t, end + rest - 63, mul, 9);
    return mix2(mix2(t.v.first, t.w.first, mul) + shift_mix(t.y) * k0 + t.z,
                mix2(t.v.second, t.w.second, mul) + t.x, mul);
}

uint64_t fingerprint64(ty_str s)
{
    if (s.len <= 16)
        return hash_to_16(s.ptr, s.len);
    if (s.len <= 32)
        return hash_to_32(s.ptr, s.len);
    return s.len <= 64 ? hash_to_64(s.ptr, s.len) : hash_long(s.ptr, s.len);
}

uint64_t fingerprint_cat64(uint64_t a, uint64_t b)
{
    const uint64_t mul = 0xc6a4a7935bd1e995u;
    uint64_t h = a ^ mul;
    h ^= shift_mix(b * mul) * mul;
    h *= mul;
    return shift_mix(shift_mix(h) * mul);
}

int64_t hash_bucket(ty_str s, uint64_t buckets)
{
    ty_assert(buckets > 0 && buckets <= INT64_MAX);
    return (int64_t)(fingerprint64(s) % buckets);
}

int64_t hash_bucket_int64(int64_t value, uint64_t buckets)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, value);
    return hash_bucket((ty_str){text, (size_t)n}, buckets);
}

int64_t cross_bucket(const uint64_t *features, size_t count, uint64_t buckets, uint64_t key)
{
    uint64_t h = key;
    for (size_t i = 0; i < count; i++)
        h = fingerprint_cat64(h, features[i]);
    return (int64_t)(h % (buckets ? buckets : INT64_MAX));
}
