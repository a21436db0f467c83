/* decode.c -- which kind of image a file is, how large it may be, and where its pixels go.
 *
 * The size a file claims costs it nothing, so it is judged before any memory is taken for it. */
#include "images/images_int.h"

/* A kind, and the bytes its files begin with ('?' stands for any). */
static const struct kind {
    const char *name;
    ty_str first;
    ty_err (*decode)(struct decode *d); /* NULL: we know what it is, and cannot read it */
} kinds[] = {
    {"JPEG", {"\xff\xd8\xff", 3}, jpeg_decode},
    {"PNG", {"\x89PNG\r\n\x1a\n", 8}, png_decode},
    {"GIF", {"GIF8", 4}, NULL},
    {"BMP", {"BM", 2}, NULL},
    {"WebP", {"RIFF????WEBP", 12}, NULL},
    {"TIFF", {"II*\0", 4}, NULL},
    {"TIFF", {"MM\0*", 4}, NULL},
};

static const struct kind *kind_find(ty_str file)
{
    for (size_t i = 0; i < TY_COUNT(kinds); i++) {
        ty_str first = kinds[i].first;
        size_t n = 0;
        while (n < first.len && n < file.len &&
               (first.ptr[n] == '?' || first.ptr[n] == file.ptr[n]))
            n++;
        if (n == first.len)
            return &kinds[i];
    }
    return NULL;
}

const char *image_kind(ty_str file)
{
    const struct kind *k = kind_find(file);
    return k ? k->name : NULL;
}

ty_err decode_size(struct decode *d)
{
    struct image *m = &d->image;
    uint64_t most = d->options->most_pixels ? d->options->most_pixels : IMAGE_MOST_PIXELS;
    if (m->height == 0 || m->width == 0)
        return ty_fail(TY_DATA_LOSS, "the image has no pixels");
    if (m->height > IMAGE_MOST_SIDE || m->width > IMAGE_MOST_SIDE ||
        (uint64_t)m->height * m->width > most)
        return ty_fail(TY_RESOURCE_EXHAUSTED,
                       "an image of %" PRIu32 " x %" PRIu32 " pixels is larger than the %" PRIu64
                       " pixels (%d a side) that are allowed",
                       m->width, m->height, most, IMAGE_MOST_SIDE);
    size_t size = (size_t)m->height * m->width * m->channels;
    m->pixels = d->take(d, size);
    if (!m->pixels)
        return ty_fail(TY_OUT_OF_RANGE,
                       "an image of %" PRIu32 " x %" PRIu32 " pixels takes %zu bytes, more than "
                       "there is room for",
                       m->width, m->height, size);
    return TY_OK;
}

static ty_err decode_run(struct decode *d, struct image *ret_image)
{
    const struct kind *k = kind_find(d->file);
    uint32_t channels = d->options->channels;
    ty_assert(channels == 0 || channels == 1 || channels == 3);
    if (d->file.len == 0)
        return ty_fail(TY_DATA_LOSS, "the file is empty");
    if (!k)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "this is no image: it begins neither as a JPEG nor as a PNG");
    if (!k->decode)
        return ty_fail(TY_INVALID_ARGUMENT, "this is a %s: only JPEG and PNG images are read",
                       k->name);
    ty_err err = k->decode(d);
    if (err == TY_OK)
        *ret_image = d->image;
    return err;
}

static uint8_t *take_arena(struct decode *d, size_t size)
{
    return ty_alloc(d->arena, size);
}

ty_err image_decode(struct ty_arena *a, ty_str file, const struct image_options *o,
                    struct image *ret_image)
{
    struct decode d = {.file = file, .options = o, .take = take_arena, .arena = a};
    return decode_run(&d, ret_image);
}

static uint8_t *take_fixed(struct decode *d, size_t size)
{
    return size <= d->room->size ? d->room->ptr : NULL;
}

ty_err image_decode_into(uint8_t *pixels, size_t size, ty_str file, const struct image_options *o,
                         struct image *ret_image)
{
    struct image_room room = {pixels, size};
    struct decode d = {.file = file, .options = o, .take = take_fixed, .room = &room};
    return decode_run(&d, ret_image);
}

/* A half more than is needed, so that a few images settle it. */
static uint8_t *take_room(struct decode *d, size_t size)
{
    if (size > d->room->size) {
        image_room_clear(d->room);
        d->room->ptr = malloc(size + size / 2);
        d->room->size = d->room->ptr ? size + size / 2 : 0;
    }
    return d->room->ptr;
}

ty_err image_decode_room(struct image_room *r, ty_str file, const struct image_options *o,
                         struct image *ret_image)
{
    struct decode d = {.file = file, .options = o, .take = take_room, .room = r};
    return decode_run(&d, ret_image);
}

void image_room_clear(struct image_room *r)
{
    free(r->ptr);
    *r = (struct image_room){0};
}

ty_err image_load(struct image_room *r, ty_str file, const struct image_options *o,
                  enum image_method method, uint32_t height, uint32_t width, float *out,
                  uint64_t *warnings)
{
    ty_assert(o->channels != 0); /* a batch has one shape */
    struct image image;
    ty_err err = image_decode_room(r, file, o, &image);
    if (err)
        return err;
    image_resize(&image, method, height, width, out);
    *warnings += image.warnings;
    return TY_OK;
}
