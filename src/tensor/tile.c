/* tile.c -- the kernel under everything: 6 x 16 sums of products in registers.
 *
 * With AVX2, the sums are 12 registers of 8, two registers hold a row of b, one the element of a
 * that goes with it: 12 multiply-adds for 2 loads and 6 broadcasts, which is what the two
 * multiply-add units of a core need to be always busy. Fewer rows or columns are the same code with
 * smaller constants; columns that are no multiple of 8 are masked.
 *
 * The order of the sums over k is the same in every variant: products are added one by one, so a
 * result depends on neither the tile's size nor its place. */
#include "tensor/tensor_int.h"

void tile_run_plain(const struct tile *t)
{
    for (size_t i = 0; i < t->rows; i++) {
        float sum[TILE_COLUMNS] = {0};
        for (size_t part = 0; part < t->parts; part++) {
            const float *a = t->a + part * t->a_part + i * t->a_row, *b = t->b + part * t->b_part;
            for (size_t p = 0; p < t->k; p++, a += t->a_column, b += t->b_row)
                for (size_t j = 0; j < t->columns; j++)
                    sum[j] += *a * b[j];
        }
        float *c = t->c + i * t->c_row;
        for (size_t j = 0; j < t->columns; j++) {
            float v = t->add ? c[j] + sum[j] : sum[j];
            v = t->bias ? v + t->bias[j] : v;
            c[j] = t->relu && v < 0 ? 0 : v;
        }
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

TENSOR_AVX2 static inline __m256i mask_of(size_t columns)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones + TILE_LANES - columns));
}

/* `rows` (1 to 6), `vectors` (1 or 2) and `masked` are constants where it is inlined. */
TENSOR_AVX2 __attribute__((always_inline)) static inline void tile_avx2(const struct tile *t,
                                                                        const size_t rows,
                                                                        const size_t vectors,
                                                                        const bool masked)
{
    __m256 sum[TILE_ROWS][2];
    __m256i mask = mask_of(masked ? t->columns - (vectors - 1) * TILE_LANES : TILE_LANES);
#pragma GCC unroll 6
    for (size_t i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    for (size_t part = 0; part < t->parts; part++) {
        const float *a = t->a + part * t->a_part, *b = t->b + part * t->b_part;
        for (size_t p = 0; p < t->k; p++) {
            __m256 row0 = masked && vectors == 1 ? _mm256_maskload_ps(b, mask) : _mm256_loadu_ps(b);
            __m256 row1 = row0;
            if (vectors == 2)
                row1 = masked ? _mm256_maskload_ps(b + TILE_LANES, mask)
                              : _mm256_loadu_ps(b + TILE_LANES);
#pragma GCC unroll 6
            for (size_t i = 0; i < rows; i++) {
                __m256 x = _mm256_broadcast_ss(a + i * t->a_row);
                sum[i][0] = _mm256_fmadd_ps(x, row0, sum[i][0]);
                if (vectors == 2)
                    sum[i][1] = _mm256_fmadd_ps(x, row1, sum[i][1]);
            }
            a += t->a_column;
            b += t->b_row;
        }
    }
#pragma GCC unroll 6
    for (size_t i = 0; i < rows; i++) {
#pragma GCC unroll 2
        for (size_t v = 0; v < vectors; v++) {
            float *c = t->c + i * t->c_row + v * TILE_LANES;
            bool cut = masked && v == vectors - 1;
            __m256 s = sum[i][v];
            if (t->add)
                s = _mm256_add_ps(cut ? _mm256_maskload_ps(c, mask) : _mm256_loadu_ps(c), s);
            if (t->bias) {
                const float *bias = t->bias + v * TILE_LANES;
                s = _mm256_add_ps(s, cut ? _mm256_maskload_ps(bias, mask) : _mm256_loadu_ps(bias));
            }
            if (t->relu) /* the second of two where one is no number: NaN stays */
                s = _mm256_max_ps(_mm256_setzero_ps(), s);
            if (cut)
                _mm256_maskstore_ps(c, mask, s);
            else
                _mm256_storeu_ps(c, s);
        }
    }
}

#define VARIANT(rows, vectors, masked)                                                             \
    TENSOR_AVX2 static void tile_##rows##_##vectors##_##masked(const struct tile *t)               \
    {                                                                                              \
        tile_avx2(t, rows, vectors, masked);                                                       \
    }
#define VARIANTS(rows)                                                                             \
    VARIANT(rows, 1, 0) VARIANT(rows, 1, 1) VARIANT(rows, 2, 0) VARIANT(rows, 2, 1)
/* clang-format off */
VARIANTS(1) VARIANTS(2) VARIANTS(3) VARIANTS(4) VARIANTS(5) VARIANTS(6)

#define ROW(rows) {tile_##rows##_1_0, tile_##rows##_1_1, tile_##rows##_2_0, tile_##rows##_2_1}
static void (*const variants[TILE_ROWS][4])(const struct tile *t) = {ROW(1), ROW(2), ROW(3),
                                                                     ROW(4), ROW(5), ROW(6)};
/* clang-format on */

void tile_run(const struct tile *t)
{
    if (tensor_has_avx2())
        variants[t->rows - 1][(t->columns > TILE_LANES) * 2 + (t->columns % TILE_LANES != 0)](t);
    else
        tile_run_plain(t);
}

bool tensor_has_avx2(void)
{
    static int known = -1; /* every thread finds the same answer */
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer < 0) {
        answer = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer;
}

#else

void tile_run(const struct tile *t)
{
    tile_run_plain(t);
}

bool tensor_has_avx2(void)
{
    return false;
}

#endif

void panels_pack(const float *b, size_t row_stride, size_t column_stride, size_t k, size_t n,
                 float *panels)
{
    for (size_t j = 0; j < n; j += TILE_COLUMNS) {
        size_t columns = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS;
        const float *from = b + j * column_stride;
        for (size_t p = 0; p < k; p++, from += row_stride, panels += TILE_COLUMNS) {
            if (column_stride == 1 && columns == TILE_COLUMNS) {
                memcpy(panels, from, TILE_COLUMNS * sizeof *panels);
                continue;
            }
            for (size_t i = 0; i < columns; i++)
                panels[i] = from[i * column_stride];
            for (size_t i = columns; i < TILE_COLUMNS; i++)
                panels[i] = 0;
        }
    }
}
