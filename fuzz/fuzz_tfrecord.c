/* fuzz_tfrecord.c -- any bytes as a TFRecord file, and as a gzip stream of one.
 *
 * What must hold: records that are read, written again, are the bytes they were read from. */
#define TY_SEAM
#include "formats/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void records_check(ty_str file)
{
    struct tfrecord_reader r = {.file = file};
    struct ty_buf copy;
    ty_buf_init(&copy, (size_t)1 << 24);
    ty_str record;
    ty_err err;
    while ((err = tfrecord_read(&r, &record)) == TY_OK)
        tfrecord_write(&copy, record);
    ty_assert(err == TY_OUT_OF_RANGE || err == TY_DATA_LOSS);
    ty_assert(copy.len == r.offset && tfrecord_whole(file) >= r.offset);
    ty_assert(copy.len == 0 || memcmp(copy.ptr, file.ptr, copy.len) == 0);
    ty_buf_clear(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ty_str file = {(const char *)data, size};
    records_check(file);
    struct inflater *z = inflater_new();
    struct ty_buf out;
    ty_buf_init(&out, 1 << 20);
    while (file.len && inflater_feed(z, &file, &out, 5000) == TY_OK)
        ;
    records_check(ty_buf_str(&out));
    ty_buf_clear(&out);
    inflater_free(z);
    return 0;
}
