/* tensor_int.h -- shared by the files of tensor. */
#ifndef TY_TENSOR_INT_H
#define TY_TENSOR_INT_H

#include "tensor/tensor.h"

enum {
    TILE_ROWS = 12,
    TILE_COLUMNS = 32,
    TILE_LANES = 8,
};

/* The tile's work: c (rows, columns) = or += a (rows, k) b (k, columns), with rows at most
 * TILE_ROWS and columns at most TILE_COLUMNS; summed over `parts` such products, whose a and b
 * begin a_part and b_part further on each. Then, if there is one, the bias (columns) is added, and
 * negative ones are 0 with `relu`. */
struct tile {
    const float *a;
    size_t a_row, a_column; /* strides */
    const float *b;
    size_t b_row; /* columns of b lie side by side */
    float *c;
    size_t c_row;
    size_t rows, columns, k;
    size_t parts, a_part, b_part;
    const float *bias;
    bool add, relu;
};
void tile_run(const struct tile *t);
/* All ways give the same bits but the plain one, whose products may be rounded before they are
 * added. The best that this CPU has, up to `most`: for tests and comparisons. */
enum tile_way { TILE_PLAIN, TILE_AVX2, TILE_AVX512 };
void (*tile_choose(enum tile_way most))(const struct tile *t);
void tile_run_plain(const struct tile *t); /* in C */

/* A function whose body (name##_body, static inline) is compiled twice, for AVX2 and for any CPU,
 * and chosen at run time. The compiler vectorises the loops. */
bool tensor_has_avx2(void);
#if defined(__x86_64__)
#define TENSOR_AVX2 __attribute__((target("avx2,fma")))
#else
#define TENSOR_AVX2
#endif
#define TENSOR_BODY __attribute__((always_inline)) static inline
#define TENSOR_KERNEL(name, parameters, arguments)                                                 \
    TENSOR_AVX2 static void name##_avx2 parameters                                                 \
    {                                                                                              \
        name##_body arguments;                                                                     \
    }                                                                                              \
    void name parameters                                                                           \
    {                                                                                              \
        if (tensor_has_avx2())                                                                     \
            name##_avx2 arguments;                                                                 \
        else                                                                                       \
            name##_body arguments;                                                                 \
    }

/* b (k, n) as panels of TILE_COLUMNS columns; the last one may be half as wide, and is filled with
 * zeros. The panel of column j, where one begins, is at j * k; so many floats are from row to row.
 */
static inline size_t panel_width(size_t n, size_t j)
{
    return n - j > TILE_COLUMNS / 2 ? TILE_COLUMNS : TILE_COLUMNS / 2;
}
static inline size_t panels_size(size_t k, size_t n)
{
    return (n + TILE_COLUMNS / 2 - 1) / (TILE_COLUMNS / 2) * (TILE_COLUMNS / 2) * k;
}
/* element (row, column) of b is at row * row_stride + column * column_stride */
void panels_pack(const float *b, size_t row_stride, size_t column_stride, size_t k, size_t n,
                 float *panels);

#endif
