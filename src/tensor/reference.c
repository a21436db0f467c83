/* reference.c -- the same results, computed so plainly that one can see they are right. Sums are in
 * double: the fast kernels are compared with the truth, not with another rounding. */
#include "tensor/tensor.h"

static float at(struct tensor_matrix x, size_t row, size_t column)
{
    return x.order == TENSOR_PLAIN ? x.data[row * x.stride + column]
                                   : x.data[column * x.stride + row];
}

void tensor_plain_gemm(size_t m, size_t n, size_t k, struct tensor_matrix a, struct tensor_matrix b,
                       float *c, size_t c_stride, bool add)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = add ? (double)c[i * c_stride + j] : 0;
            for (size_t p = 0; p < k; p++)
                sum += (double)at(a, i, p) * (double)at(b, p, j);
            c[i * c_stride + j] = (float)sum;
        }
}

/* Where output pixel (oy, ox) meets x by tap (ky, kx); false: in the padding. */
static bool meets(const struct tensor_conv *c, size_t oy, size_t ox, size_t ky, size_t kx,
                  size_t *ret_pixel)
{
    size_t y = oy * c->stride + ky, x = ox * c->stride + kx;
    if (y < c->top || x < c->left || y - c->top >= c->height || x - c->left >= c->width)
        return false;
    *ret_pixel = (y - c->top) * c->width + (x - c->left);
    return true;
}

/* Calls with every (image, output pixel, input pixel, tap). */
#define EACH_MEETING(c)                                                                            \
    for (size_t n = 0; n < (c)->batch; n++)                                                        \
        for (size_t oy = 0; oy < (c)->out_height; oy++)                                            \
            for (size_t ox = 0; ox < (c)->out_width; ox++)                                         \
                for (size_t ky = 0; ky < (c)->filter_height; ky++)                                 \
                    for (size_t kx = 0, pixel; kx < (c)->filter_width; kx++)                       \
                        if (meets(c, oy, ox, ky, kx, &pixel))

void tensor_plain_conv_forward(const struct tensor_conv *c, const float *x, const float *filter,
                               float *y)
{
    size_t size = c->batch * c->out_height * c->out_width * c->out;
    double *sums = calloc(size + 1, sizeof *sums);
    ty_assert(sums);
    EACH_MEETING(c)
    {
        const float *from = x + (n * c->height * c->width + pixel) * c->in;
        double *to = sums + ((n * c->out_height + oy) * c->out_width + ox) * c->out;
        const float *f = filter + (ky * c->filter_width + kx) * c->in * c->out;
        for (size_t i = 0; i < c->in; i++)
            for (size_t o = 0; o < c->out; o++)
                to[o] += (double)from[i] * (double)f[i * c->out + o];
    }
    for (size_t i = 0; i < size; i++) {
        y[i] = (float)(sums[i] + (c->bias ? (double)c->bias[i % c->out] : 0));
        y[i] = c->relu && y[i] < 0 ? 0 : y[i];
    }
    free(sums);
}

void tensor_plain_conv_backward_data(const struct tensor_conv *c, const float *filter,
                                     const float *dy, float *dx)
{
    size_t size = c->batch * c->height * c->width * c->in;
    double *sums = calloc(size + 1, sizeof *sums);
    ty_assert(sums);
    EACH_MEETING(c)
    {
        double *to = sums + (n * c->height * c->width + pixel) * c->in;
        const float *from = dy + ((n * c->out_height + oy) * c->out_width + ox) * c->out;
        const float *f = filter + (ky * c->filter_width + kx) * c->in * c->out;
        for (size_t i = 0; i < c->in; i++)
            for (size_t o = 0; o < c->out; o++)
                to[i] += (double)from[o] * (double)f[i * c->out + o];
    }
    for (size_t i = 0; i < size; i++)
        dx[i] = (float)sums[i];
    free(sums);
}

void tensor_plain_conv_backward_filter(const struct tensor_conv *c, const float *x, const float *dy,
                                       float *dfilter)
{
    size_t size = c->filter_height * c->filter_width * c->in * c->out;
    double *sums = calloc(size + 1, sizeof *sums);
    ty_assert(sums);
    EACH_MEETING(c)
    {
        const float *from = x + (n * c->height * c->width + pixel) * c->in;
        const float *d = dy + ((n * c->out_height + oy) * c->out_width + ox) * c->out;
        double *to = sums + (ky * c->filter_width + kx) * c->in * c->out;
        for (size_t i = 0; i < c->in; i++)
            for (size_t o = 0; o < c->out; o++)
                to[i * c->out + o] += (double)from[i] * (double)d[o];
    }
    for (size_t i = 0; i < size; i++)
        dfilter[i] = (float)sums[i];
    free(sums);
}
