/* inflate.c -- gzip and zlib streams through zlib, a block at a time, with a ceiling a call.
 *
 * The ceiling is what keeps a few kilobytes of zeros from becoming gigabytes in one call: the
 * caller uses up what came out (tfrecord_whole, csv_whole) before asking for more. */
#include "formats/formats.h"

#include <zlib.h>

enum { EITHER_HEADER = 15 + 32, CHUNK = 1 << 16 };

struct inflater {
    z_stream z;
    bool inside; /* a member has begun and not ended */
    bool any;    /* one has ended: bytes that follow must begin another */
};

struct inflater *inflater_new(void)
{
    struct inflater *z = calloc(1, sizeof *z);
    ty_assert(z && inflateInit2(&z->z, EITHER_HEADER) == Z_OK);
    return z;
}

void inflater_free(struct inflater *z)
{
    if (!z)
        return;
    inflateEnd(&z->z);
    free(z);
}

bool inflater_wanted(ty_str first_bytes)
{
    return ty_str_starts(first_bytes, TY_STR("\x1f\x8b"));
}

/* One call of zlib's: some bytes of *in, some bytes of out. */
static ty_err inflate_chunk(struct inflater *z, ty_str *in, unsigned char *chunk, size_t room,
                            size_t *ret_made)
{
    size_t give = in->len < CHUNK ? in->len : CHUNK;
    z->z.next_in = (unsigned char *)(uintptr_t)in->ptr; /* zlib reads only, without saying const */
    z->z.avail_in = (unsigned)give;
    z->z.next_out = chunk;
    z->z.avail_out = (unsigned)room;
    int rc = inflate(&z->z, Z_NO_FLUSH);
    *in = ty_str_drop(*in, give - z->z.avail_in);
    *ret_made = room - z->z.avail_out;
    z->inside = true;
    if (rc == Z_STREAM_END) {
        z->inside = false;
        z->any = true;
        rc = inflateReset(&z->z);
    }
    if (rc == Z_OK || rc == Z_BUF_ERROR)
        return TY_OK;
    return ty_fail(TY_DATA_LOSS, "cannot inflate: %s",
                   z->z.msg ? z->z.msg : "no gzip or zlib stream");
}

ty_err inflater_feed(struct inflater *z, ty_str *in, struct ty_buf *out, size_t most)
{
    unsigned char chunk[CHUNK];
    size_t made = 1;
    while (most > 0 && (in->len > 0 || (z->inside && made > 0))) {
        ty_err err = inflate_chunk(z, in, chunk, most < CHUNK ? most : CHUNK, &made);
        if (err)
            return err;
        ty_buf_add(out, chunk, made);
        most -= made;
    }
    return ty_buf_check(out, "the inflated block");
}

ty_err inflater_finish(const struct inflater *z)
{
    if (z->inside || !z->any)
        return ty_fail(TY_DATA_LOSS, "cannot inflate: the compressed file is cut short");
    return TY_OK;
}
