/* resize.c -- tf.image.resize without antialias, bit for bit.
 *
 * An output pixel's centre, x + 0.5, lies at (x + 0.5) * in / out in the input. Bilinear mixes the
 * four input pixels whose centres are around it: first along the two rows, then between them, each
 * mix being a + (b - a) * part. At the edges the nearest pixel stands in for the missing one.
 *
 * To give TensorFlow's bits each product and each sum must be rounded for itself, so this file is
 * compiled without fused multiply-adds (meson.build). The fast path mixes the channels of one pixel
 * at once, in a vector of four floats: four bytes are read, three of them the pixel, and four
 * floats are written, the fourth being the next pixel's and written again by it. */
#include "images/images_int.h"

#include <math.h>

enum { BLOCK = 256 }; /* output columns whose places are worked out at a time */

/* Where an output row or column lies in the input. */
struct place {
    uint32_t low, high; /* the two neighbours */
    float part;         /* how much of the upper one */
};

static inline struct place place_find(uint32_t at, uint32_t in, float scale)
{
    float middle = ((float)at + 0.5f) * scale - 0.5f, below = floorf(middle);
    int64_t low = (int64_t)below, high = (int64_t)ceilf(middle), last = (int64_t)in - 1;
    low = low < 0 ? 0 : low > last ? last : low;
    high = high < 0 ? 0 : high > last ? last : high;
    return (struct place){(uint32_t)low, (uint32_t)high, middle - below};
}

static inline uint32_t place_nearest(uint32_t at, uint32_t in, float scale)
{
    int64_t place = (int64_t)floorf(((float)at + 0.5f) * scale);
    return place < in ? (uint32_t)place : in - 1;
}

static inline float mix(float a, float b, float part)
{
    return a + (b - a) * part;
}

static float scale_of(uint32_t in, uint32_t out)
{
    return (float)in / (float)out;
}

/* ---- plain: one value at a time ---- */

static float pixel_plain(const struct image *m, uint32_t y, uint32_t x, uint32_t channel)
{
    return (float)m->pixels[((size_t)y * m->width + x) * m->channels + channel];
}

static float bilinear_plain(const struct image *m, struct place y, struct place x, uint32_t channel)
{
    float top = mix(pixel_plain(m, y.low, x.low, channel), pixel_plain(m, y.low, x.high, channel),
                    x.part),
          bottom = mix(pixel_plain(m, y.high, x.low, channel),
                       pixel_plain(m, y.high, x.high, channel), x.part);
    return mix(top, bottom, y.part);
}

void image_resize_plain(const struct image *from, enum image_method method, uint32_t height,
                        uint32_t width, float *out)
{
    float down = scale_of(from->height, height), across = scale_of(from->width, width);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t channel = 0; channel < from->channels; channel++)
                *out++ = method == IMAGE_NEAREST
                             ? pixel_plain(from, place_nearest(y, from->height, down),
                                           place_nearest(x, from->width, across), channel)
                             : bilinear_plain(from, place_find(y, from->height, down),
                                              place_find(x, from->width, across), channel);
}

/* ---- fast ---- */

typedef float vec4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t ints4 __attribute__((vector_size(16)));
typedef uint8_t bytes16 __attribute__((vector_size(16)));
enum { PIXEL_BYTES = 4 }; /* what is read for one */

/* Columns first..first + count of one output row. */
struct strip {
    const uint8_t *top, *bottom; /* the input rows */
    float part;                  /* between them */
    uint32_t channels;
    const struct place *columns; /* their low and high count bytes */
    uint32_t count;
    float *out;
};

__attribute__((always_inline)) static inline vec4 pixel_load(const uint8_t *p)
{
    bytes16 b = {0};
    memcpy(&b, p, PIXEL_BYTES);
    /* each byte with three zeros behind it (or before it): written so, every compiler finds its
     * machine's instruction; from a plain conversion gcc 12 makes four single ones */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bytes16 wide = __builtin_shufflevector(b, b, 0, 4, 4, 4, 1, 4, 4, 4, 2, 4, 4, 4, 3, 4, 4, 4);
#else
    bytes16 wide = __builtin_shufflevector(b, b, 4, 4, 4, 0, 4, 4, 4, 1, 4, 4, 4, 2, 4, 4, 4, 3);
#endif
    return __builtin_convertvector((ints4)wide, vec4);
}

__attribute__((always_inline)) static inline void strip_colour_body(const struct strip *s)
{
    const uint8_t *above = s->top, *below = s->bottom; /* out could alias *s, not these */
    const struct place *c = s->columns, *end = c + s->count;
    vec4 down = {s->part, s->part, s->part, s->part};
    for (float *out = s->out; c < end; c++, out += 3) {
        vec4 across = {c->part, c->part, c->part, c->part};
        vec4 a = pixel_load(above + c->low), b = pixel_load(above + c->high);
        vec4 top = a + (b - a) * across;
        a = pixel_load(below + c->low), b = pixel_load(below + c->high);
        vec4 bottom = a + (b - a) * across;
        vec4 mixed = top + (bottom - top) * down;
        memcpy(out, &mixed, sizeof mixed);
    }
}

/* The body for any x86-64, and with AVX2's conversions of bytes; chosen at run time. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void strip_colour_avx2(const struct strip *s)
{
    strip_colour_body(s);
}

static void strip_colour(const struct strip *s)
{
    if (__builtin_cpu_supports("avx2"))
        strip_colour_avx2(s);
    else
        strip_colour_body(s);
}
#else
static void strip_colour(const struct strip *s)
{
    strip_colour_body(s);
}
#endif

static void strip_any(const struct strip *s)
{
    float *out = s->out;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct place *c = &s->columns[i];
        for (uint32_t k = 0; k < s->channels; k++) {
            float top = mix((float)s->top[c->low + k], (float)s->top[c->high + k], c->part),
                  bottom =
                      mix((float)s->bottom[c->low + k], (float)s->bottom[c->high + k], c->part);
            *out++ = mix(top, bottom, s->part);
        }
    }
}

/* How many of a block's columns the vectors may do in an output row: reading must end inside the
 * image, writing inside the row. */
static uint32_t strip_safe(const struct strip *s, const uint8_t *end, bool ends_row)
{
    uint32_t n = ends_row ? s->count - 1 : s->count;
    while (n > 0 && (size_t)(end - s->bottom) < (size_t)s->columns[n - 1].high + PIXEL_BYTES)
        n--;
    return n;
}

static void bilinear_strip(struct strip s, const uint8_t *end, bool ends_row)
{
    if (s.channels == 3) {
        struct strip safe = s;
        safe.count = strip_safe(&s, end, ends_row);
        strip_colour(&safe);
        s.columns += safe.count;
        s.out += (size_t)safe.count * s.channels;
        s.count -= safe.count;
    }
    strip_any(&s);
}

static void bilinear_resize(const struct image *from, uint32_t height, uint32_t width, float *out)
{
    struct place columns[BLOCK];
    uint32_t channels = from->channels;
    size_t stride = (size_t)from->width * channels;
    const uint8_t *end = from->pixels + from->height * stride;
    float down = scale_of(from->height, height), across = scale_of(from->width, width);
    for (uint32_t first = 0; first < width; first += BLOCK) {
        uint32_t count = width - first < BLOCK ? width - first : BLOCK;
        for (uint32_t i = 0; i < count; i++) {
            columns[i] = place_find(first + i, from->width, across);
            columns[i].low *= channels;
            columns[i].high *= channels;
        }
        for (uint32_t y = 0; y < height; y++) {
            struct place row = place_find(y, from->height, down);
            struct strip s = {from->pixels + row.low * stride,
                              from->pixels + row.high * stride,
                              row.part,
                              channels,
                              columns,
                              count,
                              out + ((size_t)y * width + first) * channels};
            bilinear_strip(s, end, first + count == width);
        }
    }
}

static void nearest_resize(const struct image *from, uint32_t height, uint32_t width, float *out)
{
    uint32_t channels = from->channels;
    float down = scale_of(from->height, height), across = scale_of(from->width, width);
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *row =
            from->pixels + (size_t)place_nearest(y, from->height, down) * from->width * channels;
        for (uint32_t x = 0; x < width; x++) {
            const uint8_t *pixel = row + (size_t)place_nearest(x, from->width, across) * channels;
            for (uint32_t k = 0; k < channels; k++)
                *out++ = (float)pixel[k];
        }
    }
}

void image_resize(const struct image *from, enum image_method method, uint32_t height,
                  uint32_t width, float *out)
{
    ty_assert(height > 0 && width > 0 && from->height > 0 && from->width > 0);
    if (method == IMAGE_NEAREST)
        nearest_resize(from, height, width, out);
    else
        bilinear_resize(from, height, width, out);
}
