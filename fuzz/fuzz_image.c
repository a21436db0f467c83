/* fuzz_image.c -- any bytes as a JPEG or PNG.
 *
 * What must hold: a file decodes or is refused with a reason; what decodes lies within the ceiling,
 * is the same a second time, resizes as the plain reference does, and survives being written as a
 * PNG. */
#define TY_SEAM
#include "images/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_PIXELS = 1 << 16, SIDE = 9 };

static void resize_check(const struct image *m)
{
    float fast[SIDE * SIDE * 3], plain[SIDE * SIDE * 3];
    image_resize(m, IMAGE_BILINEAR, SIDE, SIDE, fast);
    image_resize_plain(m, IMAGE_BILINEAR, SIDE, SIDE, plain);
    ty_assert(memcmp(fast, plain, sizeof(float) * SIDE * SIDE * m->channels) == 0);
}

static void copy_check(const struct image *m)
{
    struct image_options o = {.channels = m->channels, .most_pixels = MOST_PIXELS};
    struct image_room room = {0};
    struct image back;
    struct ty_buf b;
    ty_buf_init(&b, (size_t)1 << 20);
    image_encode_png(&b, m);
    ty_err err = image_decode_room(&room, ty_buf_str(&b), &o, &back);
    ty_assert(err == TY_OK && back.height == m->height && back.width == m->width);
    ty_assert(memcmp(back.pixels, m->pixels, (size_t)m->height * m->width * m->channels) == 0);
    ty_buf_clear(&b);
    image_room_clear(&room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ty_str file = {(const char *)data, size};
    for (uint32_t channels = 0; channels <= 3; channels += channels + 1) {
        struct image_options o = {.channels = channels, .most_pixels = MOST_PIXELS};
        struct ty_arena a = {0};
        struct image m, again;
        ty_err err = image_decode(&a, file, &o, &m);
        ty_assert(err == TY_OK || err == TY_DATA_LOSS || err == TY_INVALID_ARGUMENT ||
                  err == TY_RESOURCE_EXHAUSTED);
        if (err != TY_OK) {
            ty_assert(ty_err_message()[0]);
        } else {
            ty_assert(m.height > 0 && m.width > 0 && (uint64_t)m.height * m.width <= MOST_PIXELS);
            ty_assert(m.channels == channels || channels == 0);
            ty_assert(image_decode(&a, file, &o, &again) == TY_OK);
            ty_assert(memcmp(m.pixels, again.pixels, (size_t)m.height * m.width * m.channels) == 0);
            resize_check(&m);
            copy_check(&m);
        }
        ty_arena_clear(&a);
    }
    return 0;
}
