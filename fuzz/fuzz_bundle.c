/* fuzz_bundle.c -- any bytes as a bundle: the index, its length in the first two bytes, then data.
 *
 * Checksums would stop every mutation, so the block's own are made right first. What must hold: the
 * entries are in order, and tensors that are given out lie inside the data. */
#define TY_SEAM
#include "formats/formats_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The checksum of the block that the footer or the index names, so that a mutated block is read. */
static void block_mend(char *file, size_t n, uint64_t offset, uint64_t size)
{
    if (offset > n || size > n - offset || n - offset - size < 5)
        return;
    wire_store_le32(file + offset + size + 1,
                    wire_crc32c_mask(wire_crc32c(0, file + offset, size + 1)));
}

static void index_mend(char *file, size_t n)
{
    if (n < 48)
        return;
    wire_store_le64(file + n - 8, 0xdb4775248b80fb57u);
    struct wire_pb footer = wire_pb_of((ty_str){file + n - 48, 40});
    uint64_t offset, size, first, first_size;
    if (!wire_pb_take_varint(&footer, &first) || !wire_pb_take_varint(&footer, &first_size) ||
        !wire_pb_take_varint(&footer, &offset) || !wire_pb_take_varint(&footer, &size))
        return;
    block_mend(file, n, 0, first > 5 ? first - 5 : 0); /* one data block, before the metaindex */
    block_mend(file, n, offset, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t n = data[0] | (size_t)data[1] << 8;
    if (n > size - 2)
        n = size - 2;
    struct ty_arena a = {0};
    char *file = ty_alloc(&a, n + 1);
    memcpy(file, data + 2, n);
    index_mend(file, n);
    ty_str values = {(const char *)data + 2 + n, size - 2 - n};
    struct bundle b;
    if (bundle_open(&a, (ty_str){file, n}, &b) == TY_OK) {
        for (size_t i = 0; i < b.count; i++) {
            ty_str bytes, *strings;
            size_t count;
            ty_assert(i == 0 || ty_str_cmp(b.entries[i - 1].name, b.entries[i].name) < 0);
            if (bundle_tensor(&b.entries[i], values, &bytes) == TY_OK)
                ty_assert(bytes.ptr >= values.ptr && bytes.len <= values.len);
            if (bundle_strings(&a, &b.entries[i], values, &strings, &count) == TY_OK)
                ty_assert(count <= values.len);
        }
    }
    ty_arena_clear(&a);
    return 0;
}
