/* gemm.c -- matrix products, by tiles.
 *
 * Small ones (the layers of a tabular model) read their matrices where they are: packing would cost
 * as much as the arithmetic. Large ones go block by block: K_BLOCK x N_BLOCK of b packed into
 * panels that stay in the second cache, M_BLOCK rows of a packed so that a tile reads them in
 * sequence. Only b of a small product whose columns are not side by side is packed always. A large
 * matrix that meets only a few rows (a wide layer and a shard of a batch) is read once, where it
 * is: nothing would be gained by packing it. */
#include "tensor/tensor_int.h"

enum {
    K_BLOCK = 256,
    M_BLOCK = 96,                  /* a multiple of TILE_ROWS; 96 KB of a */
    N_BLOCK = 512,                 /* 512 KB of b */
    SMALL_PRODUCTS = 96 * 96 * 96, /* below: no blocks */
    FEW = 16,                      /* rows of one of the matrices */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_small(size_t m, size_t n, size_t k)
{
    return m * n * k <= SMALL_PRODUCTS;
}

/* a or b has few rows, and the other is not small. */
static bool is_thin(size_t m, size_t k, enum tensor_order b_order)
{
    return m <= FEW || (k <= FEW && b_order == TENSOR_PLAIN);
}

size_t tensor_gemm_scratch(size_t m, size_t n, size_t k, enum tensor_order b_order)
{
    if (is_small(m, n, k))
        return b_order == TENSOR_PLAIN ? 0 : panels_size(k, n);
    if (is_thin(m, k, b_order))
        return b_order == TENSOR_PLAIN ? 0 : panels_size(k, m) + n * m;
    return panels_size(K_BLOCK, N_BLOCK) + M_BLOCK * K_BLOCK;
}

/* Strides of the element (row, column). */
static size_t row_stride(struct tensor_matrix x)
{
    return x.order == TENSOR_PLAIN ? x.stride : 1;
}

static size_t column_stride(struct tensor_matrix x)
{
    return x.order == TENSOR_PLAIN ? 1 : x.stride;
}

/* c (m, n) of tiles. `a` by its strides; b by panels, or where it is if b_row is not 0. */
static void tiles(size_t m, size_t n, size_t k, const float *a, size_t a_panel, size_t a_row,
                  size_t a_column, const float *b, size_t b_row, float *c, size_t c_row, bool add)
{
    for (size_t j = 0; j < n; j += TILE_COLUMNS)
        for (size_t i = 0; i < m; i += TILE_ROWS) {
            struct tile t = {
                .a = a + i / TILE_ROWS * a_panel,
                .a_row = a_row,
                .a_column = a_column,
                .b = b_row ? b + j : b + j * k,
                .b_row = b_row ? b_row : panel_width(n, j),
                .c = c + i * c_row + j,
                .c_row = c_row,
                .rows = least(m - i, TILE_ROWS),
                .columns = least(n - j, TILE_COLUMNS),
                .k = k,
                .parts = 1,
                .add = add,
            };
            tile_run(&t);
        }
}

static void gemm_small(size_t m, size_t n, size_t k, struct tensor_matrix a, struct tensor_matrix b,
                       float *c, size_t c_stride, bool add, float *scratch)
{
    const float *from = b.data;
    size_t b_row = b.stride;
    if (b.order == TENSOR_TRANSPOSED) {
        panels_pack(b.data, row_stride(b), column_stride(b), k, n, scratch);
        from = scratch;
        b_row = 0;
    }
    tiles(m, n, k, a.data, row_stride(a) * TILE_ROWS, row_stride(a), column_stride(a), from, b_row,
          c, c_stride, add);
}

/* (rows, k) of a as panels of TILE_ROWS rows, column by column; the last panel may have fewer. */
static void pack_a(const float *a, size_t row, size_t column, size_t rows, size_t k, float *out)
{
    for (size_t i = 0; i < rows; i += TILE_ROWS, out += TILE_ROWS * k) {
        size_t count = least(rows - i, TILE_ROWS);
        const float *from = a + i * row;
        for (size_t p = 0; p < k; p++)
            for (size_t r = 0; r < count; r++)
                out[p * TILE_ROWS + r] = from[r * row + p * column];
    }
}

/* Few rows of a: b's rows in blocks that stay near while a's tiles pass over them. Few rows of b:
 * it is near anyway; c is written from top to bottom. */
static void gemm_thin(size_t m, size_t n, size_t k, struct tensor_matrix a, struct tensor_matrix b,
                      float *c, size_t c_stride, bool add)
{
    if (m <= FEW) {
        for (size_t p = 0; p < k; p += K_BLOCK)
            tiles(m, n, least(k - p, K_BLOCK), a.data + p * column_stride(a),
                  row_stride(a) * TILE_ROWS, row_stride(a), column_stride(a), b.data + p * b.stride,
                  b.stride, c, c_stride, add || p > 0);
        return;
    }
    for (size_t i = 0; i < m; i += TILE_ROWS)
        tiles(least(m - i, TILE_ROWS), n, k, a.data + i * row_stride(a), 0, row_stride(a),
              column_stride(a), b.data, b.stride, c + i * c_stride, c_stride, add);
}

/* Few rows of a, and b stored by its columns: c turned is b turned times a turned, whose rows are
 * those of b as it lies. */
static void gemm_thin_turned(size_t m, size_t n, size_t k, struct tensor_matrix a,
                             struct tensor_matrix b, float *c, size_t c_stride, bool add,
                             float *scratch)
{
    float *turned = scratch + panels_size(k, m); /* (n, m) */
    panels_pack(a.data, column_stride(a), row_stride(a), k, m, scratch);
    for (size_t i = 0; i < n; i += TILE_ROWS)
        tiles(least(n - i, TILE_ROWS), m, k, b.data + i * b.stride, 0, b.stride, 1, scratch, 0,
              turned + i * m, m, false);
    for (size_t i = 0; i < m; i++, c += c_stride)
        for (size_t j = 0; j < n; j++)
            c[j] = add ? c[j] + turned[j * m + i] : turned[j * m + i];
}

void tensor_gemm(size_t m, size_t n, size_t k, struct tensor_matrix a, struct tensor_matrix b,
                 float *c, size_t c_stride, bool add, float *scratch)
{
    if (is_small(m, n, k)) {
        gemm_small(m, n, k, a, b, c, c_stride, add, scratch);
        return;
    }
    if (is_thin(m, k, b.order)) {
        if (b.order == TENSOR_PLAIN)
            gemm_thin(m, n, k, a, b, c, c_stride, add);
        else
            gemm_thin_turned(m, n, k, a, b, c, c_stride, add, scratch);
        return;
    }
    float *panels = scratch, *packed = scratch + panels_size(K_BLOCK, N_BLOCK);
    for (size_t j = 0; j < n; j += N_BLOCK) {
        size_t columns = least(n - j, N_BLOCK);
        for (size_t p = 0; p < k; p += K_BLOCK) {
            size_t depth = least(k - p, K_BLOCK);
            panels_pack(b.data + p * row_stride(b) + j * column_stride(b), row_stride(b),
                        column_stride(b), depth, columns, panels);
            for (size_t i = 0; i < m; i += M_BLOCK) {
                size_t rows = least(m - i, M_BLOCK);
                pack_a(a.data + i * row_stride(a) + p * column_stride(a), row_stride(a),
                       column_stride(a), rows, depth, packed);
                tiles(rows, columns, depth, packed, TILE_ROWS * depth, 1, TILE_ROWS, panels, 0,
                      c + i * c_stride + j, c_stride, add || p > 0);
            }
        }
    }
}
