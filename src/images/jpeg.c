/* jpeg.c -- JPEG through libjpeg-turbo, with the settings that tf.io.decode_jpeg and decode_image
 * choose by default: the fast integer DCT and smooth ("fancy") upsampling of colour.
 *
 * libjpeg ends a failing call with longjmp. It is caught in one place, jpeg_guard, which runs one
 * step of the work; a step keeps everything that outlives it in struct jpeg, so no local variable
 * is in doubt after a jump, and takes nothing that a jump could leak (decode_size runs outside).
 *
 * Three things libjpeg leaves to its caller: the end of the bytes is an error here (libjpeg would
 * make up an end marker and paint the rest grey), warnings are counted and not printed, and the
 * number of scans has a ceiling, because each scan of a few bytes costs a walk over the whole
 * picture. */
#include "images/images_int.h"

#include <jerror.h>
#include <setjmp.h>

enum { MOST_SCANS = 200, ROWS = 8 };

struct jpeg {
    struct jpeg_decompress_struct c; /* first: libjpeg hands it back to us */
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    const struct jpeg_library *lib;
    struct decode *decode;
    JSAMPARRAY cmyk; /* one row of four channels, in libjpeg's own memory */
    jmp_buf jump;
    ty_err err;     /* what the jump was for */
    bool cut_short; /* it was for the end of the bytes */
};

static struct jpeg *jpeg_of(void *c)
{
    return c;
}

/* ---- what libjpeg calls ---- */

static _Noreturn void jpeg_fail(j_common_ptr c)
{
    struct jpeg *j = jpeg_of(c);
    char why[JMSG_LENGTH_MAX];
    c->err->format_message(c, why);
    j->err = c->err->msg_code == JERR_OUT_OF_MEMORY
                 ? ty_fail(TY_RESOURCE_EXHAUSTED, "cannot decode a JPEG: out of memory")
                 : ty_fail(TY_DATA_LOSS, "the JPEG is damaged: %s", why);
    longjmp(j->jump, 1);
}

/* Warnings have the level -1; the others are a trace of what is read. */
static void jpeg_warn(j_common_ptr c, int level)
{
    if (level < 0)
        c->err->num_warnings++;
}

static _Noreturn void jpeg_cut_short(struct jpeg *j)
{
    j->err = ty_fail(TY_DATA_LOSS, "the JPEG is cut short: it goes on after its last byte, %zu",
                     j->decode->file.len);
    j->cut_short = true;
    longjmp(j->jump, 1);
}

static void source_begin(j_decompress_ptr c)
{
    (void)c;
}

static boolean source_fill(j_decompress_ptr c)
{
    jpeg_cut_short(jpeg_of(c));
}

static void source_skip(j_decompress_ptr c, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > c->src->bytes_in_buffer)
        jpeg_cut_short(jpeg_of(c));
    c->src->next_input_byte += count;
    c->src->bytes_in_buffer -= (size_t)count;
}

static void source_end(j_decompress_ptr c)
{
    (void)c;
}

static void scans_watch(j_common_ptr c)
{
    struct jpeg *j = jpeg_of(c);
    if (j->c.input_scan_number <= MOST_SCANS)
        return;
    j->err = ty_fail(TY_RESOURCE_EXHAUSTED, "the JPEG has more than %d scans", MOST_SCANS);
    longjmp(j->jump, 1);
}

/* ---- steps ---- */

static void jpeg_open(struct jpeg *j)
{
    j->lib->jpeg_CreateDecompress(&j->c, JPEG_LIB_VERSION, sizeof j->c);
    j->c.progress = &j->progress;
    j->progress.progress_monitor = scans_watch;
    j->c.src = &j->source;
    j->source = (struct jpeg_source_mgr){
        .next_input_byte = (const JOCTET *)j->decode->file.ptr,
        .bytes_in_buffer = j->decode->file.len,
        .init_source = source_begin,
        .fill_input_buffer = source_fill,
        .skip_input_data = source_skip,
        .resync_to_restart = j->lib->jpeg_resync_to_restart,
        .term_source = source_end,
    };
    j->lib->jpeg_read_header(&j->c, TRUE);
}

static bool jpeg_is_cmyk(const struct jpeg *j)
{
    return j->c.jpeg_color_space == JCS_CMYK || j->c.jpeg_color_space == JCS_YCCK;
}

/* Ink to light. Adobe's files hold the inks inverted. */
static void cmyk_convert(const struct jpeg *j, uint8_t *rgb)
{
    const uint8_t *from = j->cmyk[0];
    unsigned invert = j->c.saw_Adobe_marker ? 0 : 255;
    for (uint32_t x = 0; x < j->decode->image.width; x++, from += 4, rgb += 3)
        for (int i = 0; i < 3; i++)
            rgb[i] = (uint8_t)((from[3] ^ invert) * (from[i] ^ invert) / 255);
}

static void jpeg_pixels(struct jpeg *j)
{
    struct image *m = &j->decode->image;
    j->c.dct_method = JDCT_IFAST;
    j->c.do_fancy_upsampling = TRUE;
    j->c.out_color_space = m->channels == 1 ? JCS_GRAYSCALE : jpeg_is_cmyk(j) ? JCS_CMYK : JCS_RGB;
    j->lib->jpeg_start_decompress(&j->c);
    if (j->c.out_color_space == JCS_CMYK)
        j->cmyk =
            j->c.mem->alloc_sarray((j_common_ptr)&j->c, JPOOL_IMAGE, m->width * (JDIMENSION)4, 1);
    size_t stride = (size_t)m->width * m->channels;
    while (j->c.output_scanline < m->height) {
        uint8_t *at = m->pixels + j->c.output_scanline * stride;
        if (j->cmyk) {
            j->lib->jpeg_read_scanlines(&j->c, j->cmyk, 1);
            cmyk_convert(j, at);
            continue;
        }
        JSAMPROW rows[ROWS];
        for (size_t i = 0; i < ROWS; i++)
            rows[i] = at + i * stride; /* those past the end are not asked for */
        uint32_t left = m->height - j->c.output_scanline;
        j->lib->jpeg_read_scanlines(&j->c, rows, left < ROWS ? left : ROWS);
    }
}

static void jpeg_finish(struct jpeg *j)
{
    j->lib->jpeg_finish_decompress(&j->c);
}

/* Run a step; what libjpeg failed at, if it did. */
static ty_err jpeg_guard(struct jpeg *j, void (*step)(struct jpeg *j))
{
    if (setjmp(j->jump) != 0)
        return j->err;
    step(j);
    return TY_OK;
}

ty_err jpeg_decode(struct decode *d)
{
    struct jpeg j = {.decode = d};
    ty_err err = jpeg_library_get(&j.lib);
    if (err)
        return err;
    j.c.err = j.lib->jpeg_std_error(&j.errors);
    j.errors.error_exit = jpeg_fail;
    j.errors.emit_message = jpeg_warn;
    err = jpeg_guard(&j, jpeg_open);
    if (err)
        goto out;
    d->image.height = j.c.image_height;
    d->image.width = j.c.image_width;
    d->image.channels = d->options->channels;
    if (d->image.channels == 0)
        d->image.channels = j.c.num_components == 1 ? 1 : 3;
    if (d->image.channels == 1 && jpeg_is_cmyk(&j)) {
        err =
            ty_fail(TY_INVALID_ARGUMENT, "a CMYK JPEG cannot be read as grey: ask for 3 channels");
        goto out;
    }
    err = decode_size(d);
    if (err)
        goto out;
    err = jpeg_guard(&j, jpeg_pixels);
    if (err)
        goto out;
    err = jpeg_guard(&j, jpeg_finish);
    if (err && j.cut_short && j.source.bytes_in_buffer > 0) {
        err = TY_OK; /* every pixel is there, and half of the end mark: TensorFlow reads it */
        j.errors.num_warnings++;
    }
    d->image.warnings = (uint32_t)j.errors.num_warnings;
out:
    j.lib->jpeg_destroy_decompress(&j.c);
    return err;
}
