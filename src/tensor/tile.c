/* tile.c -- the kernel under everything: 12 x 32 sums of products in registers.
 *
 * With AVX-512, the sums are 24 registers of 16, two registers hold a row of b, one the element of
 * a that goes with it: 24 multiply-adds for 2 loads and 12 broadcasts. With AVX2 it is done in four
 * parts of 6 x 16, each 12 registers of 8: 12 multiply-adds for 2 loads and 6 broadcasts. Either is
 * what the two multiply-add units of a core need to be always busy. Fewer rows or columns are the
 * same code with smaller constants; columns that do not fill a register are masked.
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

/* ---- AVX2 ---- */

enum { HALF = TILE_ROWS / 2 };

TENSOR_AVX2 static inline __m256i mask_of(size_t columns)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones + TILE_LANES - columns));
}

/* `rows` (1 to HALF), `vectors` (1 or 2) and `masked` are constants where it is inlined. */
TENSOR_AVX2 __attribute__((always_inline)) static inline void tile_avx2(const struct tile *t,
                                                                        const size_t rows,
                                                                        const size_t vectors,
                                                                        const bool masked)
{
    __m256 sum[HALF][2];
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
static void (*const halves[HALF][4])(const struct tile *t) = {ROW(1), ROW(2), ROW(3),
                                                              ROW(4), ROW(5), ROW(6)};
/* clang-format on */

/* At most HALF rows and QUARTER columns at a time. */
static void tile_run_avx2(const struct tile *t)
{
    enum { QUARTER = 2 * TILE_LANES };
    struct tile part = *t;
    for (size_t j = 0; j < t->columns; j += QUARTER)
        for (size_t i = 0; i < t->rows; i += HALF) {
            part.a = t->a + i * t->a_row;
            part.b = t->b + j;
            part.c = t->c + i * t->c_row + j;
            part.bias = t->bias ? t->bias + j : NULL;
            part.rows = t->rows - i < HALF ? t->rows - i : HALF;
            part.columns = t->columns - j < QUARTER ? t->columns - j : QUARTER;
            halves[part.rows - 1]
                  [(part.columns > TILE_LANES) * 2 + (part.columns % TILE_LANES != 0)](&part);
        }
}

/* ---- AVX-512 ---- */

#define TENSOR_AVX512 __attribute__((target("avx512f")))

/* `rows` (1 to TILE_ROWS), `vectors` (1 or 2) and `masked` are constants where it is inlined. Every
 * third row has a pointer: the two after it are at once and twice the stride from there, which an
 * address can say. */
TENSOR_AVX512 __attribute__((always_inline)) static inline void tile_avx512(const struct tile *t,
                                                                            const size_t rows,
                                                                            const size_t vectors,
                                                                            const bool masked)
{
    enum { LANES = 16 };
    __m512 sum[TILE_ROWS][2];
    size_t next = t->a_row, last = t->columns - (vectors - 1) * LANES;
    const __mmask16 all = 0xffff, cut = masked ? (__mmask16)((1u << last) - 1) : all;
#pragma GCC unroll 12
    for (size_t i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (size_t part = 0; part < t->parts; part++) {
        const float *b = t->b + part * t->b_part, *a = t->a + part * t->a_part;
        const float *third[] = {a, a + 3 * next, a + 6 * next, a + 9 * next};
        for (size_t p = 0; p < t->k; p++, b += t->b_row) {
            const float *end = b + (vectors - 1) * LANES;
            __m512 row1 = masked ? _mm512_maskz_loadu_ps(cut, end) : _mm512_loadu_ps(end);
            __m512 row0 = vectors == 2 ? _mm512_loadu_ps(b) : row1;
#pragma GCC unroll 12
            for (size_t i = 0; i < rows; i++) {
                __m512 x = _mm512_set1_ps(third[i / 3][i % 3 * next]);
                sum[i][0] = _mm512_fmadd_ps(x, row0, sum[i][0]);
                if (vectors == 2)
                    sum[i][1] = _mm512_fmadd_ps(x, row1, sum[i][1]);
            }
#pragma GCC unroll 4
            for (size_t i = 0; i < (rows + 2) / 3; i++)
                third[i] += t->a_column;
        }
    }
#pragma GCC unroll 2
    for (size_t v = 0; v < vectors; v++) {
        const __mmask16 mask = v == vectors - 1 ? cut : all;
        const float *from = t->bias ? t->bias + v * LANES : NULL;
        __m512 bias = from ? _mm512_maskz_loadu_ps(mask, from) : _mm512_setzero_ps();
#pragma GCC unroll 12
        for (size_t i = 0; i < rows; i++) {
            float *c = t->c + i * t->c_row + v * LANES;
            __m512 s = sum[i][v];
            if (t->add)
                s = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, c), s);
            if (from)
                s = _mm512_add_ps(s, bias);
            if (t->relu) /* the second of two where one is no number: NaN stays */
                s = _mm512_max_ps(_mm512_setzero_ps(), s);
            _mm512_mask_storeu_ps(c, mask, s);
        }
    }
}

#define WHOLE(rows, vectors, masked)                                                               \
    TENSOR_AVX512 static void whole_##rows##_##vectors##_##masked(const struct tile *t)            \
    {                                                                                              \
        tile_avx512(t, rows, vectors, masked);                                                     \
    }
#define ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
/* clang-format off */
#define FOUR(rows) WHOLE(rows, 1, 0) WHOLE(rows, 1, 1) WHOLE(rows, 2, 0) WHOLE(rows, 2, 1)
ROWS(FOUR)
#define LINE(rows) {whole_##rows##_1_0, whole_##rows##_1_1, whole_##rows##_2_0, whole_##rows##_2_1},
static void (*const wholes[TILE_ROWS][4])(const struct tile *t) = {ROWS(LINE)};
/* clang-format on */

static void tile_run_avx512(const struct tile *t)
{
    wholes[t->rows - 1]
          [(t->columns > TILE_COLUMNS / 2) * 2 + (t->columns % (TILE_COLUMNS / 2) != 0)](t);
}

/* ---- which ---- */

void (*tile_choose(enum tile_way most))(const struct tile *t)
{
    if (most >= TILE_AVX512 && __builtin_cpu_supports("avx512f"))
        return tile_run_avx512;
    return most >= TILE_AVX2 && tensor_has_avx2() ? tile_run_avx2 : tile_run_plain;
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

void (*tile_choose(enum tile_way most))(const struct tile *t)
{
    (void)most;
    return tile_run_plain;
}

bool tensor_has_avx2(void)
{
    return false;
}

#endif

void tile_run(const struct tile *t)
{
    static void (*chosen)(const struct tile *t); /* every thread chooses the same */
    void (*run)(const struct tile *t) = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (run == NULL) {
        run = tile_choose(TILE_AVX512);
        __atomic_store_n(&chosen, run, __ATOMIC_RELAXED);
    }
    run(t);
}

void panels_pack(const float *b, size_t row_stride, size_t column_stride, size_t k, size_t n,
                 float *panels)
{
    for (size_t j = 0; j < n; j += TILE_COLUMNS) {
        size_t columns = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS, width = panel_width(n, j);
        const float *from = b + j * column_stride;
        for (size_t p = 0; p < k; p++, from += row_stride, panels += width) {
            if (column_stride == 1 && columns == TILE_COLUMNS) {
                memcpy(panels, from, TILE_COLUMNS * sizeof *panels);
                continue;
            }
            for (size_t i = 0; i < columns; i++)
                panels[i] = from[i * column_stride];
            for (size_t i = columns; i < width; i++)
                panels[i] = 0;
        }
    }
}
