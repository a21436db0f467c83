/* tfrecord.c -- TFRecord framing. All integers are little-endian.
 *
 *   bytes 0..7      N, the length of the data
 *   bytes 8..11     masked crc32c of bytes 0..7
 *   bytes 12..12+N  the data, followed by its own masked crc32c (4 bytes)
 *
 * The length has its own checksum because we act on it before seeing the data:
 * believing a torn length would silently skip the rest of the file. */
#include "formats/formats.h"

#include "wire/wire.h"

enum { HEADER_BYTES = 12, FOOTER_BYTES = 4, FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES };

/* Masked, because the crc of bytes that themselves embed crcs is a weak check. */
static uint32_t masked_crc(ty_str s)
{
    return wire_crc32c_mask(wire_crc32c(0, s.ptr, s.len));
}

ty_err tfrecord_read(struct tfrecord_reader *r, ty_str *ret_record)
{
    size_t left = r->file.len - r->offset;
    if (left == 0)
        return TY_OUT_OF_RANGE;
    if (left < FRAME_BYTES)
        return ty_fail(TY_DATA_LOSS, "record at byte %zu: truncated header", r->before + r->offset);

    const char *p = r->file.ptr + r->offset;
    if (masked_crc((ty_str){p, 8}) != wire_load_le32(p + 8))
        return ty_fail(TY_DATA_LOSS,
                       "record at byte %zu: bad length checksum (is this a TFRecord file? a gzip'd "
                       "one must be inflated first)",
                       r->before + r->offset);

    uint64_t n = wire_load_le64(p);
    if (n > left - FRAME_BYTES) /* compare before adding: n is untrusted and may be 2^64-1 */
        return ty_fail(TY_DATA_LOSS, "record at byte %zu: truncated data", r->before + r->offset);

    ty_str data = {p + HEADER_BYTES, n};
    if (masked_crc(data) != wire_load_le32(data.ptr + n))
        return ty_fail(TY_DATA_LOSS, "record at byte %zu: bad data checksum",
                       r->before + r->offset);

    *ret_record = data;
    r->offset += FRAME_BYTES + n;
    return TY_OK;
}

bool tfrecord_skip(struct tfrecord_reader *r)
{
    size_t left = r->file.len - r->offset;
    const char *p = r->file.ptr + r->offset;
    if (left < FRAME_BYTES || masked_crc((ty_str){p, 8}) != wire_load_le32(p + 8) ||
        wire_load_le64(p) > left - FRAME_BYTES)
        return false;
    r->offset += FRAME_BYTES + wire_load_le64(p);
    return true;
}

size_t tfrecord_whole(ty_str text)
{
    size_t at = 0;
    while (text.len - at >= FRAME_BYTES) {
        uint64_t n = wire_load_le64(text.ptr + at);
        if (n > text.len - at - FRAME_BYTES)
            break;
        at += FRAME_BYTES + n;
    }
    return at;
}

void tfrecord_write(struct ty_buf *b, ty_str record)
{
    char header[HEADER_BYTES], footer[FOOTER_BYTES];
    wire_store_le64(header, record.len);
    wire_store_le32(header + 8, masked_crc((ty_str){header, 8}));
    wire_store_le32(footer, masked_crc(record));
    ty_buf_add(b, header, sizeof header);
    ty_buf_adds(b, record);
    ty_buf_add(b, footer, sizeof footer);
}
