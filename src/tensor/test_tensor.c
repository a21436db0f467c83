/* test_tensor.c -- products and convolutions against the plain reference, for every case of
 * cases.h. Larger ones are for the benchmark: the reference would take seconds. */
#include "tensor/cases.h"
#include "tensor/tensor_int.h"

#include <math.h>

#include "base/test.h"

enum { MOST_PRODUCTS = 1 << 20 };

static float *numbers(size_t count, uint64_t stream)
{
    float *x = malloc((count + 1) * sizeof *x);
    assert_non_null(x);
    tensor_uniform(1, stream, -1, 1, x, count);
    return x;
}

/* Of the largest element, as rounding goes. */
static void same(const char *what, const float *got, const float *want, size_t count, double limit)
{
    double most = 1e-30, off = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)want[i]));
        off = fmax(off, fabs((double)got[i] - (double)want[i]));
        assert_true(isfinite(got[i]));
    }
    if (off > limit * most)
        fail_msg("%s: off by %g of %g", what, off, most);
}

static void gemm_one(const char *name, size_t m, size_t n, size_t k, int orders, bool add)
{
    enum tensor_order ao = orders & 1 ? TENSOR_TRANSPOSED : TENSOR_PLAIN;
    enum tensor_order bo = orders & 2 ? TENSOR_TRANSPOSED : TENSOR_PLAIN;
    size_t as = (ao == TENSOR_PLAIN ? k : m) + 3, bs = (bo == TENSOR_PLAIN ? n : k) + 1, cs = n + 2;
    float *a = numbers((m > k ? m : k) * as, 1), *b = numbers((n > k ? n : k) * bs, 2);
    float *c = numbers(m * cs, 3), *want = numbers(m * cs, 3);
    float *scratch = malloc((tensor_gemm_scratch(m, n, k, bo) + 1) * sizeof *scratch);
    struct tensor_matrix am = {a, as, ao}, bm = {b, bs, bo};
    tensor_gemm(m, n, k, am, bm, c, cs, add, scratch);
    tensor_plain_gemm(m, n, k, am, bm, want, cs, add);
    same(name, c, want, m * cs, 1e-5); /* what lies between the rows, too */
    free(a);
    free(b);
    free(c);
    free(want);
    free(scratch);
}

static void gemm_matches_reference(void **state)
{
    (void)state;
#define X(name, m, n, k)                                                                           \
    for (int orders = 0; orders < 4 && (size_t)(m) * (n) * (k) < MOST_PRODUCTS; orders++)          \
        gemm_one(name, m, n, k, orders, orders & 1);
    GEMM_CASES(X)
#undef X
}

static void gemm_odd_sizes(void **state)
{
    (void)state;
    for (size_t m = 1; m <= 13; m += 2)
        for (size_t n = 1; n <= 34; n++)
            gemm_one("odd sizes", m, n, 1 + (m * n) % 11, (int)(n % 4), n % 3 == 0);
}

/* The bits of a row do not depend on how many rows there are: shards of any size agree. */
static void gemm_rows_are_independent(void **state)
{
    (void)state;
    enum { M = 13, N = 21, K = 50 };
    float *a = numbers((size_t)M * K, 1), *b = numbers((size_t)K * N, 2), c[M * N], one[N];
    tensor_gemm(M, N, K, (struct tensor_matrix){a, K, TENSOR_PLAIN},
                (struct tensor_matrix){b, N, TENSOR_PLAIN}, c, N, false, NULL);
    for (size_t i = 0; i < M; i++) {
        tensor_gemm(1, N, K, (struct tensor_matrix){a + i * K, K, TENSOR_PLAIN},
                    (struct tensor_matrix){b, N, TENSOR_PLAIN}, one, N, false, NULL);
        assert_memory_equal(one, c + i * N, sizeof one);
    }
    free(a);
    free(b);
}

/* Plain C to the last digits, AVX2 and AVX-512 to the bit: a run may go on on another CPU. */
static void tile_is_the_same_in_all_ways(void **state)
{
    (void)state;
    float *a = numbers((size_t)TILE_ROWS * 40, 1), *b = numbers((size_t)TILE_COLUMNS * 40, 2);
    float *bias = numbers(TILE_COLUMNS, 3);
    for (size_t rows = 1; rows <= TILE_ROWS; rows++)
        for (size_t columns = 1; columns <= TILE_COLUMNS; columns++) {
            float c[3][TILE_ROWS * TILE_COLUMNS] = {{0}};
            struct tile t = {.a = a,
                             .a_row = 40,
                             .a_column = 1,
                             .b = b,
                             .b_row = TILE_COLUMNS,
                             .c_row = TILE_COLUMNS,
                             .rows = rows,
                             .columns = columns,
                             .k = 20,
                             .parts = 2,
                             .a_part = 20,
                             .b_part = 20 * TILE_COLUMNS,
                             .bias = rows % 2 ? bias : NULL,
                             .add = true,
                             .relu = columns % 2 == 1};
            for (enum tile_way way = TILE_PLAIN; way <= TILE_AVX512; way++) {
                t.c = c[way];
                tile_choose(way)(&t);
            }
            same("tile", c[TILE_AVX2], c[TILE_PLAIN], TY_COUNT(c[0]), 1e-6);
            assert_memory_equal(c[TILE_AVX512], c[TILE_AVX2], sizeof c[0]);
        }
    free(a);
    free(b);
    free(bias);
}

static struct tensor_conv conv_of(size_t batch, size_t size, size_t in, size_t filter, size_t out,
                                  size_t stride, bool padded)
{
    struct tensor_conv c = {.batch = batch,
                            .height = size,
                            .width = size > 4 ? size - 1 : size, /* not square */
                            .in = in,
                            .filter_height = filter,
                            .filter_width = filter,
                            .out = out,
                            .stride = stride};
    tensor_conv_shape(&c, padded);
    return c;
}

static void conv_one(const char *name, struct tensor_conv c)
{
    size_t nx = c.batch * c.height * c.width * c.in,
           nf = c.filter_height * c.filter_width * c.in * c.out;
    size_t ny = c.batch * c.out_height * c.out_width * c.out;
    float *x = numbers(nx, 1), *f = numbers(nf, 2), *dy = numbers(ny, 3);
    float *got = numbers(nx + nf + ny, 4), *want = numbers(nx + nf + ny, 5);
    float *scratch = malloc((tensor_conv_scratch(&c) + 1) * sizeof *scratch);
    tensor_conv_forward(&c, x, f, got, scratch);
    tensor_plain_conv_forward(&c, x, f, want);
    same(name, got, want, ny, 1e-5);
    c.bias = dy; /* any numbers */
    c.relu = true;
    tensor_conv_forward(&c, x, f, got, scratch);
    tensor_plain_conv_forward(&c, x, f, want);
    same(name, got, want, ny, 1e-5);
    tensor_conv_backward_data(&c, f, dy, got, scratch);
    tensor_plain_conv_backward_data(&c, f, dy, want);
    same(name, got, want, nx, 1e-5);
    tensor_conv_backward_filter(&c, x, dy, got, scratch);
    tensor_plain_conv_backward_filter(&c, x, dy, want);
    same(name, got, want, nf, 2e-5);
    free(x);
    free(f);
    free(dy);
    free(got);
    free(want);
    free(scratch);
}

static void conv_matches_reference(void **state)
{
    (void)state;
#define X(name, batch, size, in, filter, out, stride, padded)                                      \
    if ((size_t)(batch) * (size) * (size) * (in) * (filter) * (filter) * (out) < MOST_PRODUCTS)    \
        conv_one(name, conv_of(batch, size, in, filter, out, stride, padded));                     \
    else                                                                                           \
        conv_one(name, conv_of(1, 7 + (size) / 16, in, filter, out, stride, padded));
    CONV_CASES(X)
#undef X
}

/* TensorFlow's own numbers for padding="same" and "valid". */
static void conv_shape_is_tensorflows(void **state)
{
    (void)state;
    struct tensor_conv c = {
        .height = 180, .width = 7, .filter_height = 3, .filter_width = 3, .stride = 2};
    tensor_conv_shape(&c, true);
    assert_int_equal(c.out_height, 90);
    assert_int_equal(c.top, 0);
    assert_int_equal(c.out_width, 4);
    assert_int_equal(c.left, 1);
    tensor_conv_shape(&c, false);
    assert_int_equal(c.out_height, 89);
    assert_int_equal(c.out_width, 3);
    c.height = 2;
    tensor_conv_shape(&c, false);
    assert_int_equal(c.out_height, 0);
}

static const struct CMUnitTest tests[] = {
    TEST("gemm/matches_reference", gemm_matches_reference),
    TEST("gemm/odd_sizes", gemm_odd_sizes),
    TEST("gemm/rows_are_independent", gemm_rows_are_independent),
    TEST("tile/is_the_same_in_all_ways", tile_is_the_same_in_all_ways),
    TEST("conv/matches_reference", conv_matches_reference),
    TEST("conv/shape_is_tensorflows", conv_shape_is_tensorflows),
};
TEST_MAIN("tensor", tests)
