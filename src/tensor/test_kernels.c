/* test_kernels.c -- everything that is no product: known answers, and gradients by differences. */
#include "tensor/tensor.h"

#include <math.h>

#include "base/test.h"

static void near(double got, double want, double limit)
{
    if (!(fabs(got - want) <= limit * (1 + fabs(want))))
        fail_msg("%.9g is not %.9g", got, want);
}

/* ---- pools ---- */

static const struct tensor_pool pools[] = {
    {.batch = 2, .height = 6, .width = 5, .channels = 3, .size = 2, .stride = 2},
    {.batch = 1, .height = 7, .width = 7, .channels = 9, .size = 3, .stride = 2},
    {.batch = 2, .height = 4, .width = 4, .channels = 1, .size = 4, .stride = 4},
    {.batch = 1, .height = 5, .width = 8, .channels = 2, .size = 3, .stride = 1},
};

/* sum(y * dy) changes with x[i] by dx[i]. The maximum's inputs are far apart, so no step changes
 * which one is largest. */
static void pool_check(struct tensor_pool p, bool same, bool max)
{
    tensor_pool_shape(&p, same);
    size_t nx = p.batch * p.height * p.width * p.channels;
    size_t ny = p.batch * p.out_height * p.out_width * p.channels;
    float *x = calloc(nx, sizeof *x), *dx = calloc(nx, sizeof *x), *y = calloc(ny, sizeof *y);
    float *dy = calloc(ny, sizeof *dy);
    uint32_t *which = calloc(ny, sizeof *which);
    for (size_t i = 0; i < nx; i++)
        x[i] = (float)((i * 7919) % nx) * 0.1f;
    tensor_uniform(3, 0, -1, 1, dy, ny);
    if (max)
        tensor_max_pool(&p, x, y, which);
    else
        tensor_mean_pool(&p, x, y);
    if (max)
        tensor_max_pool_backward(&p, dy, which, dx);
    else
        tensor_mean_pool_backward(&p, dy, dx);
    for (size_t i = 0; i < nx; i++) {
        double sum[2] = {0, 0};
        for (int side = 0; side < 2; side++) {
            float keep = x[i];
            x[i] += side ? 0.01f : -0.01f;
            if (max)
                tensor_max_pool(&p, x, y, which);
            else
                tensor_mean_pool(&p, x, y);
            for (size_t j = 0; j < ny; j++)
                sum[side] += (double)y[j] * (double)dy[j];
            x[i] = keep;
        }
        near((double)dx[i], (sum[1] - sum[0]) / 0.02, 2e-3);
    }
    free(x);
    free(dx);
    free(y);
    free(dy);
    free(which);
}

static void pool_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < TY_COUNT(pools); i++)
        for (int kind = 0; kind < 4; kind++)
            pool_check(pools[i], kind & 1, kind & 2);
}

static void pool_first_of_equals(void **state)
{
    (void)state;
    struct tensor_pool p = {
        .batch = 1, .height = 2, .width = 2, .channels = 1, .size = 2, .stride = 2};
    float x[4] = {1, 5, 5, 5}, y[1];
    uint32_t which[1];
    tensor_pool_shape(&p, false);
    tensor_max_pool(&p, x, y, which);
    assert_int_equal(which[0], 1);
}

/* ---- losses ---- */

enum { ROWS = 6, CLASSES = 5 };
enum loss { SIGMOID, SOFTMAX, SQUARE, ABSOLUTE, HUBER, LOSSES };

static void loss_run(enum loss kind, const float *x, const float *weights, float *loss, float *dx)
{
    static const float targets[ROWS] = {1, 0, 1, 1, 0, 0};
    static const int32_t labels[ROWS] = {0, 4, 2, 2, 1, 3};
    switch (kind) {
    case SIGMOID:
        tensor_sigmoid_loss(x, targets, weights, ROWS, 8, loss, dx);
        break;
    case SOFTMAX:
        tensor_softmax_loss(x, labels, weights, ROWS, CLASSES, 8, loss, dx);
        break;
    case SQUARE:
        tensor_square_loss(x, targets, weights, ROWS, 8, loss, dx);
        break;
    case ABSOLUTE:
        tensor_absolute_loss(x, targets, weights, ROWS, 8, loss, dx);
        break;
    default:
        tensor_huber_loss(x, targets, weights, 1.0f, ROWS, 8, loss, dx);
    }
}

static double loss_sum(enum loss kind, const float *x, const float *weights)
{
    float loss[ROWS];
    double sum = 0;
    loss_run(kind, x, weights, loss, NULL);
    for (size_t i = 0; i < ROWS; i++)
        sum += (double)loss[i];
    return sum;
}

static void loss_gradients(void **state)
{
    (void)state;
    float x[ROWS * CLASSES], dx[ROWS * CLASSES];
    const float weights[ROWS] = {1, 2, 0.5f, 1, 0, 3};
    tensor_uniform(5, 0, -3, 3, x, TY_COUNT(x));
    for (enum loss kind = 0; kind < LOSSES; kind++)
        for (int weighted = 0; weighted < 2; weighted++) {
            const float *w = weighted ? weights : NULL;
            loss_run(kind, x, w, NULL, dx);
            for (size_t i = 0; i < (size_t)ROWS * (kind == SOFTMAX ? CLASSES : 1); i++) {
                float keep = x[i];
                x[i] = keep + 0.01f;
                double more = loss_sum(kind, x, w);
                x[i] = keep - 0.01f;
                double less = loss_sum(kind, x, w);
                x[i] = keep;
                near((double)dx[i], (more - less) / 0.02 / 8, 1e-3);
            }
        }
}

static void loss_far_out_is_finite(void **state)
{
    (void)state;
    const float logits[4] = {1000, -1000, 1000, -1000}, labels[4] = {1, 0, 0, 1};
    const float wide[3] = {-10000, 0, 10000};
    const int32_t first = 0;
    float loss[4], d[4];
    tensor_sigmoid_loss(logits, labels, NULL, 4, 4, loss, d);
    near((double)loss[0], 0, 1e-6);
    near((double)loss[2], 1000, 1e-6);
    near((double)d[3], -0.25, 1e-6);
    tensor_softmax_loss(wide, &first, NULL, 1, 3, 1, loss, d);
    near((double)loss[0], 20000, 1e-6);
    near((double)d[0], -1, 1e-6);
}

/* ---- rows and elements ---- */

static void element_kernels(void **state)
{
    (void)state;
    float y[6] = {1, -2, 3, -4, 5, -6}, dy[6] = {1, 1, 1, 1, 1, 1}, sum[2];
    const float bias[2] = {0.5f, 3};
    tensor_bias(y, bias, 3, 2, true);
    const float want[6] = {1.5f, 1, 3.5f, 0, 5.5f, 0};
    assert_memory_equal(y, want, sizeof y);
    tensor_relu_backward(dy, y, 6);
    tensor_row_sum(dy, 3, 2, sum);
    near((double)sum[0], 3, 0);
    near((double)sum[1], 1, 0);
    float both[6] = {1, 1, 1, 1, 1, 1}, sums[2];
    tensor_relu_backward_sum(both, y, 3, 2, sums);
    assert_memory_equal(both, dy, sizeof dy);
    assert_memory_equal(sums, sum, sizeof sum);
    float rows[4] = {1, 1, 1000, 0};
    tensor_softmax(rows, 2, 2);
    near((double)rows[0], 0.5, 1e-7);
    near((double)rows[2], 1, 1e-7);
}

/* Terms of a million that leave a thousandth: floats would leave noise. */
static void exact_product_survives_cancelling(void **state)
{
    (void)state;
    enum { N = 11, K = 3 };
    const float x[2 * K] = {1e6f, 1, -1e6f, 3, 0.5f, -3};
    float w[K * N], y[2 * N];
    for (size_t j = 0; j < N; j++) {
        w[j] = w[2 * N + j] = 1.1f + (float)j;
        w[N + j] = 1e-3f * (float)(j + 1);
    }
    tensor_exact_product(x, w, 2, N, K, y);
    for (size_t j = 0; j < N; j++) {
        near((double)y[j], (double)w[N + j], 1e-7);
        near((double)y[N + j], (double)(0.5f * w[N + j]), 1e-7);
    }
}

static void tree_order_is_fixed(void **state)
{
    (void)state;
    float v[5] = {1e8f, 1, -1e8f, 1, 0.5f};
    float *parts[5] = {&v[0], &v[1], &v[2], &v[3], &v[4]};
    float want = ((1e8f + 1.0f) + (-1e8f + 1.0f)) + 0.5f;
    tensor_tree_sum(parts, 5, 1);
    assert_true(v[0] == want);
}

static void norm_gradient(void **state)
{
    (void)state;
    enum { R = 7, N = 3 };
    float x[R * N], dy[R * N], dx[R * N], y[R * N], mean[N], rstd[N], dgamma[N], dbeta[N];
    double sum[N], squares[N], gammas[N], betas[N];
    const float gamma[N] = {1, 0.5f, 2}, beta[N] = {0, 1, -1};
    tensor_uniform(7, 0, -2, 2, x, TY_COUNT(x));
    tensor_uniform(7, 1, -1, 1, dy, TY_COUNT(dy));
    for (size_t i = 0; i <= TY_COUNT(x); i++) { /* the first round is the gradient's own */
        double total[2] = {0, 0};
        for (int side = 0; side < 2; side++) {
            float keep = i ? x[i - 1] : 0;
            if (i)
                x[i - 1] += side ? 0.01f : -0.01f;
            tensor_norm_sums(x, R, N, sum, squares);
            for (size_t j = 0; j < N; j++) {
                mean[j] = (float)(sum[j] / R);
                rstd[j] = (float)(1 / sqrt(squares[j] / R - sum[j] * sum[j] / (R * R) + 1e-3));
            }
            tensor_norm_apply(x, mean, rstd, gamma, beta, R, N, y);
            for (size_t j = 0; j < TY_COUNT(y); j++)
                total[side] += (double)y[j] * (double)dy[j];
            if (i)
                x[i - 1] = keep;
        }
        if (i) {
            near((double)dx[i - 1], (total[1] - total[0]) / 0.02, 5e-3);
        } else {
            tensor_norm_backward_sums(x, dy, mean, rstd, R, N, gammas, betas);
            for (size_t j = 0; j < N; j++) {
                dgamma[j] = (float)gammas[j];
                dbeta[j] = (float)betas[j];
            }
            tensor_norm_backward(x, dy, mean, rstd, gamma, dgamma, dbeta, R, N, R, dx);
        }
    }
}

/* ---- optimizers ---- */

/* First steps, computed by hand from Keras's formulas. */
static void optimizer_first_steps(void **state)
{
    (void)state;
    float w = 1, a = 0, b = 0, g = 0.5f;
    float alpha = 0.001f * sqrtf(1 - 0.999f) / (1 - 0.9f);
    tensor_adam(&w, &a, &b, &g, 1, alpha, 0.9f, 0.999f, 1e-7f);
    near((double)w, 0.999, 1e-6);
    near((double)a, 0.05, 1e-6);
    near((double)b, 0.00025, 1e-5);
    w = 1, a = 0;
    tensor_momentum(&w, &a, &g, 1, 0.1f, 0.9f, false);
    near((double)w, 0.95, 1e-6);
    tensor_momentum(&w, &a, &g, 1, 0.1f, 0.9f, true); /* m = -0.095; w += 0.9 m - 0.05 */
    near((double)w, 0.95 - 0.0855 - 0.05, 1e-6);
    w = 1, a = 0.1f;
    tensor_adagrad(&w, &a, &g, 1, 0.1f, 1e-7f);
    near((double)w, 1 - 0.05 / sqrt(0.35), 1e-6);
    w = 1, a = 0, b = 0;
    tensor_rmsprop(&w, &a, NULL, &g, 1, 0.01f, 0.9f, 0, 1e-7f);
    near((double)w, 1 - 0.005 / sqrt(0.025 + 1e-7), 1e-5);
    w = 0, a = 0.1f, b = 0;
    tensor_ftrl(&w, &a, &b, &g, 1, 0.1f, -0.5f, 0, 0);
    near((double)w, -0.5 / (sqrt(0.35) / 0.1), 1e-5);
    w = 0.3f, a = 0.1f, b = 0;
    tensor_ftrl(&w, &a, &b, &g, 1, 0.1f, -0.5f, 100, 0); /* l1 holds it at nothing */
    near((double)w, 0, 1e-9);
}

static void adam_idle_is_adam_without_gradient(void **state)
{
    (void)state;
    enum { N = 101 };
    float w[2][N], m[2][N], v[2][N], g[N], zero[N] = {0};
    tensor_uniform(9, 0, -1, 1, w[0], N);
    tensor_uniform(9, 1, -1, 1, g, N);
    memcpy(w[1], w[0], sizeof w[0]);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    for (int step = 0; step < 500; step++) {
        const float *now = step % 100 == 0 ? g : zero;
        float alpha =
            0.001f * sqrtf(1 - powf(0.999f, (float)step + 1)) / (1 - powf(0.9f, (float)step + 1));
        tensor_adam(w[0], m[0], v[0], now, N, alpha, 0.9f, 0.999f, 1e-7f);
        if (now == g)
            tensor_adam(w[1], m[1], v[1], g, N, alpha, 0.9f, 0.999f, 1e-7f);
        else
            tensor_adam_idle(w[1], m[1], v[1], N, alpha, 0.9f, 0.999f, 1e-7f);
        assert_memory_equal(w[0], w[1], sizeof w[0]);
    }
}

/* ---- random ---- */

/* The algorithm's published answer for zeros. */
static void random_known_answer(void **state)
{
    (void)state;
    uint32_t out[4];
    tensor_random(0, 0, 0, out);
    const uint32_t want[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    assert_memory_equal(out, want, sizeof out);
    tensor_random(UINT64_MAX, UINT64_MAX, UINT64_MAX, out);
    const uint32_t ones[4] = {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu};
    assert_memory_equal(out, ones, sizeof out);
}

/* Drawn in pieces it is the same. */
static void random_by_place(void **state)
{
    (void)state;
    float whole[100], parts[100];
    tensor_truncated_normal(5, 3, 0, 1, 2, whole, 100);
    tensor_truncated_normal(5, 3, 0, 1, 2, parts, 37);
    tensor_truncated_normal(5, 3, 37, 1, 2, parts + 37, 63);
    assert_memory_equal(whole, parts, sizeof whole);
}

static void random_moments(void **state)
{
    (void)state;
    enum { N = 40000 };
    float *x = malloc(N * sizeof *x);
    for (int kind = 0; kind < 3; kind++) {
        double sum = 0, squares = 0, most = 0;
        if (kind == 0)
            tensor_uniform(11, 0, -1, 1, x, N);
        else if (kind == 1)
            tensor_normal(11, 1, 0, 1, x, N);
        else
            tensor_truncated_normal(11, 2, 0, 0, 1, x, N);
        for (size_t i = 0; i < N; i++) {
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
            most = fmax(most, fabs((double)x[i]));
        }
        near(sum / N, 0, 0.02);
        near(squares / N, kind == 0 ? 1.0 / 3 : kind == 1 ? 1 : 0.7737, 0.02);
        assert_true(kind == 1 ? most > 3 : kind == 0 ? most <= 1 : most <= 2);
    }
    free(x);
}

static void dropout_depends_on_place_alone(void **state)
{
    (void)state;
    enum { N = 1003 };
    float x[N], whole[N], part[N];
    size_t zeros = 0;
    for (size_t i = 0; i < N; i++)
        x[i] = 1;
    tensor_dropout(13, 4, 0, 0.25f, x, whole, N);
    tensor_dropout(13, 4, 0, 0.25f, x, part, 501);
    tensor_dropout(13, 4, 501, 0.25f, x + 501, part + 501, N - 501);
    assert_memory_equal(whole, part, sizeof whole);
    for (size_t i = 0; i < N; i++) {
        assert_true(whole[i] == 0 || fabsf(whole[i] - 4.0f / 3) < 1e-6f);
        zeros += whole[i] == 0;
    }
    assert_in_range(zeros, 200, 300);
}

/* ---- team ---- */

static void count_up(void *arg, int index)
{
    __atomic_add_fetch(&((int *)arg)[index], 1, __ATOMIC_RELAXED);
}

static void team_runs_each_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        struct tensor_team *team = tensor_team_new(threads);
        int counts[17] = {0};
        for (int round = 1; round <= 2000; round++) {
            tensor_team_run(team, count_up, counts, round % 17 + 1);
            if (round % 500 == 0) { /* let them fall asleep */
                struct timespec pause = {.tv_nsec = 2000000};
                nanosleep(&pause, NULL);
            }
        }
        for (int i = 0; i < 17; i++) {
            int want = 0;
            for (int round = 1; round <= 2000; round++)
                want += round % 17 + 1 > i;
            assert_int_equal(counts[i], want);
        }
        tensor_team_free(team);
    }
}

static const struct CMUnitTest tests[] = {
    TEST("pool/gradients", pool_gradients),
    TEST("pool/first_of_equals", pool_first_of_equals),
    TEST("loss/gradients", loss_gradients),
    TEST("loss/far_out_is_finite", loss_far_out_is_finite),
    TEST("element/kernels", element_kernels),
    TEST("element/exact_product_survives_cancelling", exact_product_survives_cancelling),
    TEST("element/tree_order_is_fixed", tree_order_is_fixed),
    TEST("norm/gradient", norm_gradient),
    TEST("optimizer/first_steps", optimizer_first_steps),
    TEST("optimizer/adam_idle_is_adam_without_gradient", adam_idle_is_adam_without_gradient),
    TEST("random/known_answer", random_known_answer),
    TEST("random/moments", random_moments),
    TEST("random/by_place", random_by_place),
    TEST("random/dropout_depends_on_place_alone", dropout_depends_on_place_alone),
    TEST("team/runs_each_once", team_runs_each_once),
};
TEST_MAIN("tensor_kernels", tests)
