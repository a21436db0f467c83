/* random.c -- random numbers that are a function of their place: Philox 4x32 with 10 rounds
 * (Salmon and others, 2011). A round multiplies two of the four words by constants and swaps the
 * halves of the products, mixed with a key that moves on by two more constants. */
#include "tensor/tensor.h"

#include <math.h>

enum { ROUNDS = 10, MOST_DRAWS = 64 };

void tensor_random(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4])
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream,
                     (uint32_t)(stream >> 32)};
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ key0, (uint32_t)b,
                            (uint32_t)(a >> 32) ^ c[3] ^ key1, (uint32_t)a};
        memcpy(c, next, sizeof next);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

/* 24 bits: every value of [0, 1) that it gives is a float */
static float unit(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

void tensor_uniform(uint64_t seed, uint64_t stream, float low, float high, float *out, size_t count)
{
    uint32_t four[4];
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            tensor_random(seed, stream, i / 4, four);
        out[i] = low + (high - low) * unit(four[i % 4]);
    }
}

/* Two from two, by Box and Muller. */
static void normal_pair(const uint32_t bits[2], float pair[2])
{
    float radius = sqrtf(-2 * logf(1 - unit(bits[0]))), angle = 2 * (float)M_PI * unit(bits[1]);
    pair[0] = radius * cosf(angle);
    pair[1] = radius * sinf(angle);
}

void tensor_normal(uint64_t seed, uint64_t stream, float mean, float stddev, float *out,
                   size_t count)
{
    uint32_t four[4];
    float pair[2];
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            tensor_random(seed, stream, i / 4, four);
        if (i % 2 == 0)
            normal_pair(four + i % 4, pair);
        out[i] = mean + stddev * pair[i % 2];
    }
}

/* Element i draws from places i * MOST_DRAWS on; that all of them are refused never happens. */
void tensor_truncated_normal(uint64_t seed, uint64_t stream, uint64_t first, float mean,
                             float stddev, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = 0;
        for (uint64_t draw = 0; draw < MOST_DRAWS; draw++) {
            uint32_t four[4];
            tensor_random(seed, stream, (first + i) * MOST_DRAWS + draw, four);
            x = sqrtf(-2 * logf(1 - unit(four[0]))) * cosf(2 * (float)M_PI * unit(four[1]));
            if (fabsf(x) <= 2)
                break;
        }
        out[i] = mean + stddev * x;
    }
}

void tensor_dropout(uint64_t seed, uint64_t stream, uint64_t first, float rate, const float *x,
                    float *y, size_t count)
{
    uint32_t four[4];
    float scale = 1 / (1 - rate);
    for (size_t i = 0; i < count; i++) {
        uint64_t place = first + i;
        if (i == 0 || place % 4 == 0)
            tensor_random(seed, stream, place / 4, four);
        y[i] = unit(four[place % 4]) < rate ? 0 : x[i] * scale;
    }
}
