/* crc32c.c -- CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected), as iSCSI, TFRecord,
 * TensorFlow's bundles and Cloud Storage use it.
 *
 * The reference takes eight bytes at a time from eight tables of 256. The fast path is the
 * processor's crc32 instruction. One instruction waits three cycles for the one before it, so long
 * runs go in three strands of STRAND bytes at once; a strand's crc is then carried over the bytes
 * of the next one by a table, because crc(A ++ B) is crc(A ++ zeros) xor crc(B). */
#include "wire/wire.h"

enum { STRAND = 1024 };
static const uint32_t polynomial = 0x82f63b78u; /* reflected */

/* by_byte[k][v]: what byte v, with k zero bytes after it, adds to the crc.
 * over_strand[k][v]: what byte k of a crc, having the value v, becomes after STRAND zero bytes. */
static uint32_t by_byte[8][256];
static uint32_t over_strand[4][256];

static uint32_t crc_zeros(uint32_t crc, size_t n)
{
    while (n--)
        crc = crc >> 8 ^ by_byte[0][crc & 0xff];
    return crc;
}

/* Before main, so that no thread ever sees half a table. */
__attribute__((constructor)) static void tables_make(void)
{
    for (uint32_t v = 0; v < 256; v++) {
        uint32_t crc = v;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        by_byte[0][v] = crc;
    }
    for (uint32_t v = 0; v < 256; v++)
        for (size_t k = 1; k < 8; k++)
            by_byte[k][v] = by_byte[k - 1][v] >> 8 ^ by_byte[0][by_byte[k - 1][v] & 0xff];
    for (unsigned k = 0; k < 4; k++) {
        for (unsigned bit = 0; bit < 8; bit++)
            over_strand[k][1u << bit] = crc_zeros(1u << (8 * k + bit), STRAND);
        for (uint32_t v = 1; v < 256; v++) /* linear: the xor of its bits' */
            over_strand[k][v] = over_strand[k][v & (v - 1)] ^ over_strand[k][v & -v];
    }
}

uint32_t wire_crc32c_plain(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t x = wire_load_le64(p) ^ crc;
        crc = 0;
        for (unsigned k = 0; k < 8; k++)
            crc ^= by_byte[7 - k][x >> (8 * k) & 0xff];
    }
    while (n--)
        crc = crc >> 8 ^ by_byte[0][(crc ^ *p++) & 0xff];
    return ~crc;
}

#ifdef __x86_64__
#include <nmmintrin.h>

static uint32_t skip_strand(uint64_t crc)
{
    return over_strand[0][crc & 0xff] ^ over_strand[1][crc >> 8 & 0xff] ^
           over_strand[2][crc >> 16 & 0xff] ^ over_strand[3][crc >> 24 & 0xff];
}

static uint64_t load64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t start, const void *bytes,
                                                               size_t n)
{
    const unsigned char *p = bytes;
    uint64_t crc = ~start;
    for (; n >= 3 * STRAND; n -= 3 * STRAND, p += 3 * STRAND) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < STRAND; i += 8) {
            crc = _mm_crc32_u64(crc, load64(p + i));
            second = _mm_crc32_u64(second, load64(p + STRAND + i));
            third = _mm_crc32_u64(third, load64(p + 2 * STRAND + i));
        }
        crc = skip_strand(skip_strand(crc) ^ second) ^ third;
    }
    for (; n >= 8; n -= 8, p += 8)
        crc = _mm_crc32_u64(crc, load64(p));
    while (n--)
        crc = _mm_crc32_u8((uint32_t)crc, *p++);
    return ~(uint32_t)crc;
}

uint32_t wire_crc32c(uint32_t crc, const void *p, size_t n)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, p, n)
                                            : wire_crc32c_plain(crc, p, n);
}
#else
uint32_t wire_crc32c(uint32_t crc, const void *p, size_t n)
{
    return wire_crc32c_plain(crc, p, n);
}
#endif
