/* png_write.c -- pixels to a PNG, through zlib alone: libpng is not loaded for it.
 *
 * A PNG is its signature and then chunks:
 *   bytes 0..3      N, the length of the data, big-endian
 *   bytes 4..7      the kind, four letters
 *   bytes 8..8+N    the data, followed by the crc32 (4 bytes, big-endian) of kind and data
 * The pixels are one zlib stream, cut into IDAT chunks wherever the buffer was full. Before each
 * row is a byte that says how it was filtered: 1, each byte minus the one a pixel to the left,
 * which turns the flat areas of a drawing into zeros. */
#include "images/images.h"

#include <zlib.h>

enum { CHUNK = 1 << 15, FILTER_LEFT = 1, DEPTH = 8, TYPE_GREY = 0, TYPE_RGB = 2 };

static void be32_store(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void chunk_add(struct ty_buf *b, const char *kind, const uint8_t *data, size_t len)
{
    uint8_t number[4];
    be32_store(number, (uint32_t)len);
    ty_buf_add(b, number, sizeof number);
    ty_buf_add(b, kind, 4);
    ty_buf_add(b, data, len);
    uLong crc = crc32(crc32(0, (const Bytef *)kind, 4), data, (uInt)len);
    be32_store(number, (uint32_t)crc);
    ty_buf_add(b, number, sizeof number);
}

struct writer {
    z_stream z;
    struct ty_buf *b;
    uint8_t out[CHUNK];
};

/* Deflate `len` bytes; each full buffer becomes a chunk, and with `last` what is left, too. */
static void writer_feed(struct writer *w, uint8_t *bytes, size_t len, bool last)
{
    w->z.next_in = bytes;
    w->z.avail_in = (uInt)len;
    int rc = Z_OK;
    do {
        rc = deflate(&w->z, last ? Z_FINISH : Z_NO_FLUSH);
        ty_assert(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
        if (w->z.avail_out > 0 && rc != Z_STREAM_END)
            continue; /* all was taken, and the buffer is not full */
        chunk_add(w->b, "IDAT", w->out, CHUNK - w->z.avail_out);
        w->z.next_out = w->out;
        w->z.avail_out = CHUNK;
    } while (w->z.avail_in > 0 || (last && rc != Z_STREAM_END));
}

static void writer_row(struct writer *w, const uint8_t *row, size_t len, size_t channels)
{
    uint8_t filter = FILTER_LEFT, block[512];
    writer_feed(w, &filter, 1, false);
    for (size_t at = 0; at < len; at += sizeof block) {
        size_t n = len - at < sizeof block ? len - at : sizeof block;
        for (size_t i = 0; i < n; i++) {
            uint8_t left = at + i < channels ? 0 : row[at + i - channels];
            block[i] = (uint8_t)(row[at + i] - left);
        }
        writer_feed(w, block, n, false);
    }
}

void image_encode_png(struct ty_buf *b, const struct image *from)
{
    ty_assert(from->channels == 1 || from->channels == 3);
    uint8_t head[13] = {[8] = DEPTH, [9] = from->channels == 1 ? TYPE_GREY : TYPE_RGB};
    be32_store(head, from->width);
    be32_store(head + 4, from->height);
    ty_buf_add(b, "\x89PNG\r\n\x1a\n", 8);
    chunk_add(b, "IHDR", head, sizeof head);
    struct writer w = {.b = b};
    w.z.next_out = w.out;
    w.z.avail_out = CHUNK;
    ty_assert(deflateInit(&w.z, Z_DEFAULT_COMPRESSION) == Z_OK);
    size_t stride = (size_t)from->width * from->channels;
    for (uint32_t y = 0; y < from->height; y++)
        writer_row(&w, from->pixels + y * stride, stride, from->channels);
    writer_feed(&w, NULL, 0, true);
    deflateEnd(&w.z);
    chunk_add(b, "IEND", head, 0);
}
