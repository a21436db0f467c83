/* csv_scan.c -- where a CSV text's fields end: 64 bytes at a time, as bits.
 *
 * Each block becomes two 64-bit masks: separators or line ends, and quotes. A byte is inside quotes
 * if the number of quotes before it is odd, so the xor of all quote bits below each bit says where
 * separators do not count; "" inside a field turns it off and on again, which is right. Blocks
 * without quotes, almost all of them, skip that step. What is left is written out as places.
 *
 * Only the masks differ between processors: AVX2 if there is one, SSE2 on any x86-64, plain C
 * elsewhere and as the reference. */
#include "formats/formats_int.h"

struct masks {
    uint64_t ends, quotes;
};
typedef struct masks mask_maker(const char *p, char separator);

static inline struct masks masks_plain(const char *p, char separator)
{
    struct masks m = {0};
    for (unsigned i = 0; i < CSV_BLOCK; i++) {
        m.ends |= (uint64_t)(p[i] == separator || p[i] == '\n') << i;
        m.quotes |= (uint64_t)(p[i] == '"') << i;
    }
    return m;
}

/* Bit i of the result: is the number of bits set in 0..i odd? */
static inline uint64_t prefix_xor(uint64_t bits)
{
    for (unsigned by = 1; by < 64; by *= 2)
        bits ^= bits << by;
    return bits;
}

/* The places of the bits, eight at a time: a loop that ended at the last bit would be guessed wrong
 * at nearly every block. */
static inline size_t places_write(uint64_t bits, uint32_t base, uint32_t *at)
{
    size_t n = (size_t)__builtin_popcountll(bits);
    for (size_t done = 0; done < n; done += 8)
        for (unsigned k = 0; k < 8; k++) {
            at[done + k] = base + (uint32_t)__builtin_ctzll(bits | (uint64_t)1 << 63);
            bits &= bits - 1;
        }
    return n;
}

static inline __attribute__((always_inline)) size_t block_scan(struct csv_scan *s, const char *p,
                                                               uint32_t base, uint64_t keep,
                                                               uint32_t *at, mask_maker *make)
{
    struct masks m = make(p, s->separator);
    if (__builtin_expect(m.quotes != 0 || s->inside, 0)) {
        m.quotes &= keep;
        uint64_t inside = prefix_xor(m.quotes) ^ (s->inside ? ~(uint64_t)0 : 0);
        s->inside = inside >> 63;
        s->quotes |= m.quotes != 0;
        m.ends &= ~inside;
    }
    return places_write(m.ends & keep, base, at);
}

static inline __attribute__((always_inline)) size_t text_scan(struct csv_scan *s, const char *text,
                                                              size_t n, uint32_t *at,
                                                              mask_maker *make)
{
    size_t found = 0, i = 0;
    for (; i + CSV_BLOCK <= n; i += CSV_BLOCK)
        found += block_scan(s, text + i, (uint32_t)i, ~(uint64_t)0, at + found, make);
    if (i < n) {
        char last[CSV_BLOCK] = {0};
        memcpy(last, text + i, n - i);
        found += block_scan(s, last, (uint32_t)i, ~(uint64_t)0 >> (CSV_BLOCK - (n - i)), at + found,
                            make);
    }
    return found;
}

size_t csv_scan_plain(struct csv_scan *s, const char *text, size_t n, uint32_t *at)
{
    return text_scan(s, text, n, at, masks_plain);
}

#ifdef __x86_64__
#include <immintrin.h>

static inline uint64_t equal16(__m128i v, __m128i c)
{
    return (uint16_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, c));
}

static inline struct masks masks_sse2(const char *p, char separator)
{
    const __m128i sep = _mm_set1_epi8(separator), line = _mm_set1_epi8('\n'),
                  quote = _mm_set1_epi8('"');
    struct masks m = {0};
    for (unsigned i = 0; i < CSV_BLOCK; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        m.ends |= (equal16(v, sep) | equal16(v, line)) << i;
        m.quotes |= equal16(v, quote) << i;
    }
    return m;
}

__attribute__((target("avx2"))) static inline struct masks masks_avx2(const char *p, char separator)
{
    const __m256i sep = _mm256_set1_epi8(separator), line = _mm256_set1_epi8('\n'),
                  quote = _mm256_set1_epi8('"');
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
    __m256i a_ends = _mm256_or_si256(_mm256_cmpeq_epi8(a, sep), _mm256_cmpeq_epi8(a, line));
    __m256i b_ends = _mm256_or_si256(_mm256_cmpeq_epi8(b, sep), _mm256_cmpeq_epi8(b, line));
    return (struct masks){(uint32_t)_mm256_movemask_epi8(a_ends) |
                              (uint64_t)(uint32_t)_mm256_movemask_epi8(b_ends) << 32,
                          (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, quote)) |
                              (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, quote))
                                  << 32};
}

static size_t csv_scan_sse2(struct csv_scan *s, const char *text, size_t n, uint32_t *at)
{
    return text_scan(s, text, n, at, masks_sse2);
}

__attribute__((target("avx2,bmi,popcnt"))) static size_t csv_scan_avx2(struct csv_scan *s,
                                                                       const char *text, size_t n,
                                                                       uint32_t *at)
{
    return text_scan(s, text, n, at, masks_avx2);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi");
}

size_t csv_scan_fast(struct csv_scan *s, const char *text, size_t n, uint32_t *at)
{
    return has_avx2() ? csv_scan_avx2(s, text, n, at) : csv_scan_sse2(s, text, n, at);
}

csv_scanner *const *csv_scanners(void)
{
    static csv_scanner *const all[] = {csv_scan_plain, csv_scan_sse2, csv_scan_avx2, NULL};
    static csv_scanner *const old[] = {csv_scan_plain, csv_scan_sse2, NULL};
    return has_avx2() ? all : old;
}
#else
size_t csv_scan_fast(struct csv_scan *s, const char *text, size_t n, uint32_t *at)
{
    return csv_scan_plain(s, text, n, at);
}

csv_scanner *const *csv_scanners(void)
{
    static csv_scanner *const all[] = {csv_scan_plain, NULL};
    return all;
}
#endif

size_t csv_count_byte(ty_str text, char c)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) /* the compiler makes vectors of this */
        n += text.ptr[i] == c;
    return n;
}
