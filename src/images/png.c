/* png.c -- PNG through libpng, with the transformations that tf.io.decode_png asks it for.
 *
 * libpng's errors jump, as libjpeg's do; png_guard catches them (see jpeg.c for the rule that makes
 * this safe). Colour becomes grey as 0.299 red + 0.587 green + 0.114 blue. */
#include "images/images_int.h"

#include <setjmp.h>

enum { SILENTLY = 1 }; /* libpng's word for "colour may become grey without a complaint" */

struct png {
    png_structp png;
    png_infop info;
    const struct png_library *lib;
    struct decode *decode;
    size_t offset; /* first unread byte of the file */
    jmp_buf jump;
    ty_err err; /* what the jump was for */
};

/* ---- what libpng calls ---- */

static struct png *png_of(png_structp p)
{
    const struct png_library *lib = NULL;
    ty_err err = png_library_get(&lib);
    ty_assert(err == TY_OK && lib); /* it is what calls us */
    return lib->png_get_error_ptr(p);
}

static _Noreturn void png_fail(png_structp p, png_const_charp why)
{
    struct png *g = png_of(p);
    g->err = ty_fail(TY_DATA_LOSS, "the PNG is damaged: %s", why);
    longjmp(g->jump, 1);
}

static void png_warn(png_structp p, png_const_charp why)
{
    (void)why;
    png_of(p)->decode->image.warnings++;
}

static void png_read(png_structp p, png_bytep to, size_t size)
{
    struct png *g = png_of(p);
    ty_str file = g->decode->file;
    if (size > file.len - g->offset) {
        g->err = ty_fail(TY_DATA_LOSS, "the PNG is cut short: it goes on after its last byte, %zu",
                         file.len);
        longjmp(g->jump, 1);
    }
    memcpy(to, file.ptr + g->offset, size);
    g->offset += size;
}

/* ---- steps ---- */

static void png_open(struct png *g)
{
    g->png = g->lib->png_create_read_struct(PNG_LIBPNG_VER_STRING, g, png_fail, png_warn);
    if (g->png)
        g->info = g->lib->png_create_info_struct(g->png);
    if (!g->info) {
        g->err = ty_fail(TY_RESOURCE_EXHAUSTED, "cannot start libpng: out of memory");
        longjmp(g->jump, 1);
    }
    g->lib->png_set_user_limits(g->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* decode_size judges */
    g->lib->png_set_read_fn(g->png, g, png_read);
    g->lib->png_read_info(g->png, g->info);
}

/* Ask libpng for 8 bits and the channels that are wanted. */
static void png_transform(struct png *g)
{
    const struct png_library *lib = g->lib;
    int type = lib->png_get_color_type(g->png, g->info),
        bits = lib->png_get_bit_depth(g->png, g->info);
    bool is_grey = !(type & PNG_COLOR_MASK_COLOR), to_grey = g->decode->image.channels == 1;
    if (type & PNG_COLOR_MASK_ALPHA || lib->png_get_valid(g->png, g->info, PNG_INFO_tRNS))
        lib->png_set_strip_alpha(g->png);
    if (bits == 16)
        lib->png_set_strip_16(g->png);
    lib->png_set_packing(g->png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        lib->png_set_palette_to_rgb(g->png);
    if (is_grey && bits < 8)
        lib->png_set_expand_gray_1_2_4_to_8(g->png);
    if (is_grey && !to_grey)
        lib->png_set_gray_to_rgb(g->png);
    if (!is_grey && to_grey)
        lib->png_set_rgb_to_gray(g->png, SILENTLY, 0.299, 0.587);
}

/* The passes of an interlaced file fill in the same rows one after another. */
static void png_pixels(struct png *g)
{
    struct image *m = &g->decode->image;
    size_t stride = (size_t)m->width * m->channels;
    png_transform(g);
    int passes = g->lib->png_set_interlace_handling(g->png);
    g->lib->png_read_update_info(g->png, g->info);
    if (g->lib->png_get_rowbytes(g->png, g->info) != stride)
        png_fail(g->png, "its rows have another length than its size says");
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < m->height; y++)
            g->lib->png_read_row(g->png, m->pixels + y * stride, NULL);
    g->lib->png_read_end(g->png, NULL);
}

/* Run a step; what libpng failed at, if it did. */
static ty_err png_guard(struct png *g, void (*step)(struct png *g))
{
    if (setjmp(g->jump) != 0)
        return g->err;
    step(g);
    return TY_OK;
}

ty_err png_decode(struct decode *d)
{
    struct png g = {.decode = d};
    ty_err err = png_library_get(&g.lib);
    if (err)
        return err;
    err = png_guard(&g, png_open);
    if (err)
        goto out;
    d->image.height = g.lib->png_get_image_height(g.png, g.info);
    d->image.width = g.lib->png_get_image_width(g.png, g.info);
    d->image.channels = d->options->channels;
    if (d->image.channels == 0)
        d->image.channels = g.lib->png_get_color_type(g.png, g.info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
    err = decode_size(d);
    if (err)
        goto out;
    err = png_guard(&g, png_pixels);
out:
    g.lib->png_destroy_read_struct(&g.png, &g.info, NULL);
    return err;
}
