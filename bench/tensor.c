/* tensor.c -- how near the kernels come to what this machine can do.
 *
 * First the peak: multiply-adds on registers alone, on one thread. Then every case of
 * src/tensor/cases.h, best of several runs, as billions of operations a second and as a share of
 * that peak. Time is the thread's own, so that a busy machine does not show. */
#define TY_SEAM
#include "tensor/cases.h"

#include <math.h>

enum { TRIES = 7, LEAST_NS = 20000000 };

static double peak;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#if defined(__x86_64__)
#include <immintrin.h>
/* 12 sums that do not wait for each other. */
__attribute__((target("avx512f"))) static double peak_avx512(size_t rounds)
{
    __m512 sum[12], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-6f);
    for (int i = 0; i < 12; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum[i] = _mm512_fmadd_ps(sum[i], x, y);
    for (int i = 1; i < 12; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return (double)_mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx2,fma"))) static double peak_avx2(size_t rounds)
{
    __m256 sum[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-6f);
    float out[8];
    for (int i = 0; i < 12; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            sum[i] = _mm256_fmadd_ps(sum[i], x, y);
    for (int i = 1; i < 12; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    _mm256_storeu_ps(out, sum[0]);
    return (double)out[0];
}
/* Half as many rounds of twice as many. */
static double peak_loop(size_t rounds)
{
    return __builtin_cpu_supports("avx512f") ? peak_avx512(rounds / 2) : peak_avx2(rounds);
}
enum { PEAK_OPERATIONS = 12 * 8 * 2 };
#else
static double peak_loop(size_t rounds)
{
    float sum[16] = {0};
    for (size_t r = 0; r < rounds; r++)
        for (int i = 0; i < 16; i++)
            sum[i] = sum[i] * 0.999f + 1e-6f;
    return (double)sum[0];
}
enum { PEAK_OPERATIONS = 32 };
#endif

static void peak_measure(void)
{
    volatile double sink;
    for (int i = 0; i < 20; i++) {
        int64_t start = now_ns();
        sink = peak_loop(2000000);
        peak = fmax(peak, 2e6 * PEAK_OPERATIONS / (double)(now_ns() - start));
    }
    (void)sink;
    printf("peak of one thread: %.1f billion operations a second\n\n", peak);
    printf("%-30s %-16s %9s %7s\n", "CASE", "KERNEL", "GFLOP/S", "OF PEAK");
}

static float *numbers(size_t count)
{
    float *x = malloc((count + 1) * sizeof *x);
    ty_assert(x);
    tensor_uniform(1, 0, -1, 1, x, count);
    return x;
}

/* Best time of `work`, which does `operations`. */
static void measure(const char *name, const char *kernel, double operations, void (*work)(void *),
                    void *arg)
{
    double best = 1e30;
    for (int i = 0; i < TRIES; i++) {
        int64_t start = now_ns(), now = start, runs = 0;
        for (; now - start < LEAST_NS; runs++) {
            work(arg);
            now = now_ns();
        }
        best = fmin(best, (double)(now - start) / (double)runs);
    }
    printf("%-30s %-16s %9.2f %6.0f%%\n", name, kernel, operations / best,
           100 * operations / best / peak);
    fflush(stdout);
}

/* ---- a dense layer: forward, gradient of its input, gradient of its weights ---- */

struct gemm {
    size_t m, n, k;
    float *a, *b, *c, *scratch;
    enum tensor_order a_order, b_order;
};
static void gemm_run(void *arg)
{
    struct gemm *g = arg;
    size_t a_stride = g->a_order == TENSOR_PLAIN ? g->k : g->m;
    size_t b_stride = g->b_order == TENSOR_PLAIN ? g->n : g->k;
    tensor_gemm(g->m, g->n, g->k, (struct tensor_matrix){g->a, a_stride, g->a_order},
                (struct tensor_matrix){g->b, b_stride, g->b_order}, g->c, g->n, false, g->scratch);
}

static void gemm_measure(const char *name, size_t m, size_t n, size_t k)
{
    static const char *const kernels[] = {"forward", "backward data", "backward weight"};
    const size_t sizes[3][3] = {{m, n, k}, {m, k, n}, {k, n, m}};
    const enum tensor_order orders[3][2] = {{TENSOR_PLAIN, TENSOR_PLAIN},
                                            {TENSOR_PLAIN, TENSOR_TRANSPOSED},
                                            {TENSOR_TRANSPOSED, TENSOR_PLAIN}};
    for (int i = 0; i < 3; i++) {
        struct gemm g = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2]};
        g.a_order = orders[i][0];
        g.b_order = orders[i][1];
        g.a = numbers(g.m * g.k);
        g.b = numbers(g.k * g.n);
        g.c = numbers(g.m * g.n);
        g.scratch = numbers(tensor_gemm_scratch(g.m, g.n, g.k, g.b_order));
        measure(name, kernels[i], 2 * (double)m * (double)n * (double)k, gemm_run, &g);
        free(g.a);
        free(g.b);
        free(g.c);
        free(g.scratch);
    }
}

/* ---- a convolution ---- */

struct conv {
    struct tensor_conv shape;
    float *x, *filter, *y, *scratch;
};
static void conv_forward(void *arg)
{
    struct conv *c = arg;
    tensor_conv_forward(&c->shape, c->x, c->filter, c->y, c->scratch);
}
static void conv_data(void *arg)
{
    struct conv *c = arg;
    tensor_conv_backward_data(&c->shape, c->filter, c->y, c->x, c->scratch);
}
static void conv_filter(void *arg)
{
    struct conv *c = arg;
    tensor_conv_backward_filter(&c->shape, c->x, c->y, c->filter, c->scratch);
}

static void conv_measure(const char *name, size_t batch, size_t size, size_t in, size_t filter,
                         size_t out, size_t stride, bool same)
{
    struct conv c = {.shape = {.batch = batch,
                               .height = size,
                               .width = size,
                               .in = in,
                               .filter_height = filter,
                               .filter_width = filter,
                               .out = out,
                               .stride = stride}};
    struct tensor_conv *s = &c.shape;
    tensor_conv_shape(s, same);
    size_t pixels = batch * s->out_height * s->out_width, weights = filter * filter * in * out;
    double operations = 2 * (double)pixels * (double)weights;
    c.x = numbers(batch * size * size * in);
    c.filter = numbers(weights);
    c.y = numbers(pixels * out);
    c.scratch = numbers(tensor_conv_scratch(s));
    measure(name, "forward", operations, conv_forward, &c);
    measure(name, "backward data", operations, conv_data, &c);
    measure(name, "backward filter", operations, conv_filter, &c);
    free(c.x);
    free(c.filter);
    free(c.y);
    free(c.scratch);
}

int main(void)
{
    peak_measure();
#define X(name, m, n, k) gemm_measure(name, m, n, k);
    GEMM_CASES(X)
#undef X
#define X(name, batch, size, in, filter, out, stride, same)                                        \
    conv_measure(name, batch, size, in, filter, out, stride, same);
    CONV_CASES(X)
#undef X
    return 0;
}
