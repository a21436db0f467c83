/* tensor.h -- the arithmetic of training: matrix products, convolutions, pooling, element-wise
 * kernels, optimizer steps, random numbers, and the team of threads that runs them.
 *
 * All arrays are float32, row-major, the caller's. Images are (batch, height, width, channels),
 * filters (height, width, in, out), as TensorFlow has them.
 *
 * A kernel runs on the thread that calls it. Threads are used one level up: a batch is cut into
 * shards, tensor_team_run computes whole shards on whatever thread is free, and what is summed over
 * examples is summed per shard and then by tensor_tree_sum, whose order depends on the number of
 * shards alone. So the bits of a result depend on its shapes, not on threads.
 *
 * Under nearly everything is one kernel, the tile (tile.c): 6 x 16 sums of products, with strides
 * for its inputs. A matrix product walks tiles over matrices; a convolution walks them over a
 * padded image, where the taps of one filter row lie side by side and nothing need be copied. AVX2
 * is chosen at run time; the same C without it is compiled for every other CPU.
 *
 * Beside every fast kernel is a plain one that is easy to believe (reference.c, tensor_plain_*);
 * one list of cases in test_tensor.c compares the two, checks gradients by differences and is what
 * bench/tensor times.
 *
 * Where to start: tensor_gemm in gemm.c. Who frees: nothing here is allocated but a team.
 * Threads: kernels share nothing. Errors: none; shapes that do not fit are bugs and asserted.
 * One test: build/test_tensor gemm/odd_sizes. */
#ifndef TY_TENSOR_H
#define TY_TENSOR_H

#include "base/base.h"

/* ---- threads ---- */

struct tensor_team;
/* `threads` in all, the caller's one included; 0: one for each CPU this process may use. */
struct tensor_team *tensor_team_new(int threads);
void tensor_team_free(struct tensor_team *t);
int tensor_team_threads(const struct tensor_team *t);
/* Call fn(arg, 0) to fn(arg, count - 1), each once, in any order on any thread of the team; returns
 * when all have returned. One caller at a time, and not from inside fn. Threads that have nothing
 * to do spin for a moment before they sleep: a step of a small model is over in less time than a
 * wake-up takes. */
void tensor_team_run(struct tensor_team *t, void (*fn)(void *arg, int index), void *arg, int count);

/* ---- products ---- */

enum tensor_order {
    TENSOR_PLAIN,     /* element (row, column) is at row * stride + column */
    TENSOR_TRANSPOSED /* ... at column * stride + row: the matrix as stored is turned */
};
struct tensor_matrix {
    const float *data;
    size_t stride;
    enum tensor_order order;
};
/* c (m, n) = a (m, k) b (k, n), or c += with `add`. Rows of c are c_stride apart. `scratch` has
 * tensor_gemm_scratch(m, n, k, b.order) floats. */
void tensor_gemm(size_t m, size_t n, size_t k, struct tensor_matrix a, struct tensor_matrix b,
                 float *c, size_t c_stride, bool add, float *scratch);
size_t tensor_gemm_scratch(size_t m, size_t n, size_t k, enum tensor_order b_order);
void tensor_plain_gemm(size_t m, size_t n, size_t k, struct tensor_matrix a, struct tensor_matrix b,
                       float *c, size_t c_stride, bool add);

/* ---- convolutions ---- */

/* Zeros are put around the image: `top` rows above, and so many below that out_height fits. */
struct tensor_conv {
    size_t batch, height, width, in; /* images */
    size_t filter_height, filter_width, out;
    size_t stride;    /* of both directions, 1 or more */
    size_t top, left; /* padding */
    size_t out_height, out_width;
    const float *bias; /* (out), which forward adds; NULL: none */
    bool relu;         /* then negative ones to 0 */
};
/* Sizes as TensorFlow has them for padding="same" or "valid". */
void tensor_conv_shape(struct tensor_conv *c, bool same);
/* Floats of scratch, enough for all three. */
size_t tensor_conv_scratch(const struct tensor_conv *c);
/* y (batch, out_height, out_width, out) = x * filter, and what bias and relu say */
void tensor_conv_forward(const struct tensor_conv *c, const float *x, const float *filter, float *y,
                         float *scratch);
/* dx = the gradient of x, from dy */
void tensor_conv_backward_data(const struct tensor_conv *c, const float *filter, const float *dy,
                               float *dx, float *scratch);
/* dfilter = the gradient of the filter */
void tensor_conv_backward_filter(const struct tensor_conv *c, const float *x, const float *dy,
                                 float *dfilter, float *scratch);
void tensor_plain_conv_forward(const struct tensor_conv *c, const float *x, const float *filter,
                               float *y);
void tensor_plain_conv_backward_data(const struct tensor_conv *c, const float *filter,
                                     const float *dy, float *dx);
void tensor_plain_conv_backward_filter(const struct tensor_conv *c, const float *x, const float *dy,
                                       float *dfilter);

/* ---- pooling ---- */

struct tensor_pool {
    size_t batch, height, width, channels;
    size_t size, stride; /* of both directions */
    size_t top, left;    /* padding; it takes no part in a maximum or a mean */
    size_t out_height, out_width;
};
void tensor_pool_shape(struct tensor_pool *p, bool same);
/* `which` gets, for each output, the index in x of the largest; the first of equals. */
void tensor_max_pool(const struct tensor_pool *p, const float *x, float *y, uint32_t *which);
void tensor_max_pool_backward(const struct tensor_pool *p, const float *dy, const uint32_t *which,
                              float *dx);
void tensor_mean_pool(const struct tensor_pool *p, const float *x, float *y);
void tensor_mean_pool_backward(const struct tensor_pool *p, const float *dy, float *dx);

/* ---- rows and elements ---- */

/* y (rows, n) += bias (n), then negative ones to 0 if `relu`. */
void tensor_bias(float *y, const float *bias, size_t rows, size_t n, bool relu);
/* dy to 0 where y is not above 0 */
void tensor_relu_backward(float *dy, const float *y, size_t count);
/* dy (rows, n) to 0 where y is not above 0, then sum (n) = the sum over its rows */
void tensor_relu_backward_sum(float *dy, const float *y, size_t rows, size_t n, float *sum);
/* sum (n) = the sum over rows of x (rows, n), in a fixed order */
void tensor_row_sum(const float *x, size_t rows, size_t n, float *sum);
/* y (rows, n) = x (rows, k) w (k, n), summed in double: for a few inputs of very different sizes,
 * whose products may nearly cancel. */
void tensor_exact_product(const float *x, const float *w, size_t rows, size_t n, size_t k,
                          float *y);
/* y += a x */
void tensor_axpy(float a, const float *x, float *y, size_t count);
/* Each row of x (rows, n) to its softmax. */
void tensor_softmax(float *x, size_t rows, size_t n);
/* parts[0] = the sum of all parts, by a binary tree: (0+1)+(2+3), ... The others are used up. */
void tensor_tree_sum(float *const *parts, size_t parts_count, size_t count);

/* ---- losses: per example, and the gradient of their mean over `batch` examples ---- */

/* `labels` are 0 or 1, `weights` may be NULL. loss (rows) and dlogits may be NULL. */
void tensor_sigmoid_loss(const float *logits, const float *labels, const float *weights,
                         size_t rows, size_t batch, float *loss, float *dlogits);
/* logits (rows, n); labels are class numbers below n. */
void tensor_softmax_loss(const float *logits, const int32_t *labels, const float *weights,
                         size_t rows, size_t n, size_t batch, float *loss, float *dlogits);
void tensor_square_loss(const float *y, const float *labels, const float *weights, size_t rows,
                        size_t batch, float *loss, float *dy);
void tensor_absolute_loss(const float *y, const float *labels, const float *weights, size_t rows,
                          size_t batch, float *loss, float *dy);
void tensor_huber_loss(const float *y, const float *labels, const float *weights, float delta,
                       size_t rows, size_t batch, float *loss, float *dy);

/* ---- batch normalisation, over everything but the last axis ---- */

/* sum and sum of squares of (rows, n), for a mean and variance over all shards; doubles, for their
 * difference is what counts */
void tensor_norm_sums(const float *x, size_t rows, size_t n, double *sum, double *squares);
/* y = (x - mean) * rstd * gamma + beta */
void tensor_norm_apply(const float *x, const float *mean, const float *rstd, const float *gamma,
                       const float *beta, size_t rows, size_t n, float *y);
/* dgamma = sum of dy * (x - mean) * rstd, dbeta = sum of dy: over this shard */
void tensor_norm_backward_sums(const float *x, const float *dy, const float *mean,
                               const float *rstd, size_t rows, size_t n, double *dgamma,
                               double *dbeta);
/* dx, from the sums over all shards; `batch` is their number of rows */
void tensor_norm_backward(const float *x, const float *dy, const float *mean, const float *rstd,
                          const float *gamma, const float *dgamma, const float *dbeta, size_t rows,
                          size_t n, size_t batch, float *dx);

/* ---- optimizer steps, as Keras 2.15 computes them ---- */

/* alpha = lr * sqrt(1 - beta2^t) / (1 - beta1^t), the caller's. */
void tensor_adam(float *w, float *m, float *v, const float *g, size_t count, float alpha,
                 float beta1, float beta2, float epsilon);
/* The same with g = 0: what happens to a row that had no gradient in this step. */
void tensor_adam_idle(float *w, float *m, float *v, size_t count, float alpha, float beta1,
                      float beta2, float epsilon);
void tensor_momentum(float *w, float *m, const float *g, size_t count, float lr, float momentum,
                     bool nesterov);
void tensor_adagrad(float *w, float *sum, const float *g, size_t count, float lr, float epsilon);
void tensor_rmsprop(float *w, float *v, float *m, const float *g, size_t count, float lr, float rho,
                    float momentum, float epsilon); /* m may be NULL with momentum 0 */
void tensor_ftrl(float *w, float *n, float *z, const float *g, size_t count, float lr, float power,
                 float l1, float l2);

/* ---- random numbers: a function of seed, stream and place, so any thread may make any part ----
 */

/* Four 32-bit numbers (Philox 4x32, 10 rounds) of place `counter`. */
void tensor_random(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]);
/* `count` numbers in [low, high), from place 0 of the stream. */
void tensor_uniform(uint64_t seed, uint64_t stream, float low, float high, float *out,
                    size_t count);
void tensor_normal(uint64_t seed, uint64_t stream, float mean, float stddev, float *out,
                   size_t count);
/* Normal, drawn again beyond two standard deviations; element i is at place `first` + i. */
void tensor_truncated_normal(uint64_t seed, uint64_t stream, uint64_t first, float mean,
                             float stddev, float *out, size_t count);
/* y = x / (1 - rate), or 0 with probability `rate`; element i is at place `first` + i. */
void tensor_dropout(uint64_t seed, uint64_t stream, uint64_t first, float rate, const float *x,
                    float *y, size_t count);

#endif
