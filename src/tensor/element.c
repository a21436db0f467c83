/* element.c -- kernels that go over rows and elements once. */
#include "tensor/tensor_int.h"

#include <math.h>

TENSOR_BODY void tensor_bias_body(float *y, const float *bias, size_t rows, size_t n, bool relu)
{
    for (size_t i = 0; i < rows; i++, y += n)
        for (size_t j = 0; j < n; j++) {
            float v = y[j] + bias[j];
            y[j] = relu && v < 0 ? 0 : v;
        }
}
TENSOR_KERNEL(tensor_bias, (float *y, const float *bias, size_t rows, size_t n, bool relu),
              (y, bias, rows, n, relu))

TENSOR_BODY void tensor_relu_backward_body(float *restrict dy, const float *restrict y,
                                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}
TENSOR_KERNEL(tensor_relu_backward, (float *dy, const float *y, size_t count), (dy, y, count))

/* Both in one pass. */
TENSOR_BODY void tensor_relu_backward_sum_body(float *restrict dy, const float *restrict y,
                                               size_t rows, size_t n, float *restrict sum)
{
    for (size_t j = 0; j < n; j++)
        sum[j] = 0;
    for (size_t i = 0; i < rows; i++, y += n, dy += n)
        for (size_t j = 0; j < n; j++) {
            dy[j] = y[j] > 0 ? dy[j] : 0;
            sum[j] += dy[j];
        }
}
TENSOR_KERNEL(tensor_relu_backward_sum,
              (float *dy, const float *y, size_t rows, size_t n, float *sum), (dy, y, rows, n, sum))

TENSOR_BODY void tensor_row_sum_body(const float *restrict x, size_t rows, size_t n,
                                     float *restrict sum)
{
    for (size_t j = 0; j < n; j++)
        sum[j] = 0;
    for (size_t i = 0; i < rows; i++, x += n)
        for (size_t j = 0; j < n; j++)
            sum[j] += x[j];
}
TENSOR_KERNEL(tensor_row_sum, (const float *x, size_t rows, size_t n, float *sum),
              (x, rows, n, sum))

enum { EXACT_COLUMNS = 8 };

/* A product of floats is exact in double, so it does not matter whether the CPU fuses it. */
TENSOR_BODY void tensor_exact_product_body(const float *restrict x, const float *restrict w,
                                           size_t rows, size_t n, size_t k, float *restrict y)
{
    for (size_t i = 0; i < rows; i++, x += k, y += n) {
        size_t j = 0;
        for (; j + EXACT_COLUMNS <= n; j += EXACT_COLUMNS) {
            double sum[EXACT_COLUMNS] = {0};
            for (size_t p = 0; p < k; p++)
                for (size_t c = 0; c < EXACT_COLUMNS; c++)
                    sum[c] += (double)x[p] * (double)w[p * n + j + c];
            for (size_t c = 0; c < EXACT_COLUMNS; c++)
                y[j + c] = (float)sum[c];
        }
        for (; j < n; j++) {
            double sum = 0;
            for (size_t p = 0; p < k; p++)
                sum += (double)x[p] * (double)w[p * n + j];
            y[j] = (float)sum;
        }
    }
}
TENSOR_KERNEL(tensor_exact_product,
              (const float *x, const float *w, size_t rows, size_t n, size_t k, float *y),
              (x, w, rows, n, k, y))

TENSOR_BODY void tensor_axpy_body(float a, const float *restrict x, float *restrict y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] += a * x[i];
}
TENSOR_KERNEL(tensor_axpy, (float a, const float *x, float *y, size_t count), (a, x, y, count))

void tensor_softmax(float *x, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++, x += n) {
        float most = x[0], sum = 0;
        for (size_t j = 1; j < n; j++)
            most = x[j] > most ? x[j] : most;
        for (size_t j = 0; j < n; j++)
            sum += x[j] = expf(x[j] - most);
        for (size_t j = 0; j < n; j++)
            x[j] /= sum;
    }
}

/* Block by block, so that what one level of the tree wrote is still near when the next reads it. */
void tensor_tree_sum(float *const *parts, size_t parts_count, size_t count)
{
    enum { BLOCK = 2048 };
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        for (size_t step = 1; step < parts_count; step *= 2)
            for (size_t i = 0; i + step < parts_count; i += 2 * step)
                tensor_axpy(1, parts[i + step] + at, parts[i] + at, n);
    }
}

/* ---- batch normalisation ---- */

TENSOR_BODY void tensor_norm_sums_body(const float *restrict x, size_t rows, size_t n,
                                       double *restrict sum, double *restrict squares)
{
    for (size_t j = 0; j < n; j++)
        sum[j] = squares[j] = 0;
    for (size_t i = 0; i < rows; i++, x += n)
        for (size_t j = 0; j < n; j++) {
            sum[j] += (double)x[j];
            squares[j] += (double)x[j] * (double)x[j];
        }
}
TENSOR_KERNEL(tensor_norm_sums,
              (const float *x, size_t rows, size_t n, double *sum, double *squares),
              (x, rows, n, sum, squares))

TENSOR_BODY void tensor_norm_apply_body(const float *x, const float *mean, const float *rstd,
                                        const float *gamma, const float *beta, size_t rows,
                                        size_t n, float *y)
{
    for (size_t i = 0; i < rows; i++, x += n, y += n)
        for (size_t j = 0; j < n; j++)
            y[j] = (x[j] - mean[j]) * (rstd[j] * gamma[j]) + beta[j];
}
TENSOR_KERNEL(tensor_norm_apply,
              (const float *x, const float *mean, const float *rstd, const float *gamma,
               const float *beta, size_t rows, size_t n, float *y),
              (x, mean, rstd, gamma, beta, rows, n, y))

TENSOR_BODY void tensor_norm_backward_sums_body(const float *x, const float *dy, const float *mean,
                                                const float *rstd, size_t rows, size_t n,
                                                double *restrict dgamma, double *restrict dbeta)
{
    for (size_t j = 0; j < n; j++)
        dgamma[j] = dbeta[j] = 0;
    for (size_t i = 0; i < rows; i++, x += n, dy += n)
        for (size_t j = 0; j < n; j++) {
            dgamma[j] += (double)dy[j] * (double)(x[j] - mean[j]);
            dbeta[j] += (double)dy[j];
        }
    for (size_t j = 0; j < n; j++)
        dgamma[j] *= (double)rstd[j];
}
TENSOR_KERNEL(tensor_norm_backward_sums,
              (const float *x, const float *dy, const float *mean, const float *rstd, size_t rows,
               size_t n, double *dgamma, double *dbeta),
              (x, dy, mean, rstd, rows, n, dgamma, dbeta))

TENSOR_BODY void tensor_norm_backward_body(const float *x, const float *dy, const float *mean,
                                           const float *rstd, const float *gamma,
                                           const float *dgamma, const float *dbeta, size_t rows,
                                           size_t n, size_t batch, float *dx)
{
    float share = 1.0f / (float)batch;
    for (size_t i = 0; i < rows; i++, x += n, dy += n, dx += n)
        for (size_t j = 0; j < n; j++) {
            float normal = (x[j] - mean[j]) * rstd[j];
            dx[j] = gamma[j] * rstd[j] * (dy[j] - share * (dbeta[j] + normal * dgamma[j]));
        }
}
TENSOR_KERNEL(tensor_norm_backward,
              (const float *x, const float *dy, const float *mean, const float *rstd,
               const float *gamma, const float *dgamma, const float *dbeta, size_t rows, size_t n,
               size_t batch, float *dx),
              (x, dy, mean, rstd, gamma, dgamma, dbeta, rows, n, batch, dx))
