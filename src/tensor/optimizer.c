/* optimizer.c -- one step of each optimizer, in Keras 2.15's order of operations.
 *
 * tensor_adam_idle gives, bit for bit, what tensor_adam gives for a gradient of zero: rows of an
 * embedding that a step did not touch may have their step later. */
#include "tensor/tensor_int.h"

#include <math.h>

/* m += (g - m) (1 - beta1); v += (g^2 - v) (1 - beta2); w -= m alpha / (sqrt(v) + epsilon) */
TENSOR_BODY void tensor_adam_body(float *restrict w, float *restrict m, float *restrict v,
                                  const float *restrict g, size_t count, float alpha, float beta1,
                                  float beta2, float epsilon)
{
    float one = 1 - beta1, two = 1 - beta2;
    for (size_t i = 0; i < count; i++) {
        m[i] += (g[i] - m[i]) * one;
        v[i] += (g[i] * g[i] - v[i]) * two;
        w[i] -= m[i] * alpha / (sqrtf(v[i]) + epsilon);
    }
}
TENSOR_KERNEL(tensor_adam,
              (float *w, float *m, float *v, const float *g, size_t count, float alpha, float beta1,
               float beta2, float epsilon),
              (w, m, v, g, count, alpha, beta1, beta2, epsilon))

TENSOR_BODY void tensor_adam_idle_body(float *restrict w, float *restrict m, float *restrict v,
                                       size_t count, float alpha, float beta1, float beta2,
                                       float epsilon)
{
    float one = 1 - beta1, two = 1 - beta2;
    for (size_t i = 0; i < count; i++) {
        m[i] += -m[i] * one;
        v[i] += -v[i] * two;
        w[i] -= m[i] * alpha / (sqrtf(v[i]) + epsilon);
    }
}
TENSOR_KERNEL(tensor_adam_idle,
              (float *w, float *m, float *v, size_t count, float alpha, float beta1, float beta2,
               float epsilon),
              (w, m, v, count, alpha, beta1, beta2, epsilon))

/* m = momentum m - lr g; w += m, or with Nesterov momentum m - lr g */
TENSOR_BODY void tensor_momentum_body(float *restrict w, float *restrict m, const float *restrict g,
                                      size_t count, float lr, float momentum, bool nesterov)
{
    for (size_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] - lr * g[i];
        w[i] += nesterov ? momentum * m[i] - lr * g[i] : m[i];
    }
}
TENSOR_KERNEL(tensor_momentum,
              (float *w, float *m, const float *g, size_t count, float lr, float momentum,
               bool nesterov),
              (w, m, g, count, lr, momentum, nesterov))

TENSOR_BODY void tensor_adagrad_body(float *restrict w, float *restrict sum,
                                     const float *restrict g, size_t count, float lr, float epsilon)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] += g[i] * g[i];
        w[i] -= lr * g[i] / sqrtf(sum[i] + epsilon);
    }
}
TENSOR_KERNEL(tensor_adagrad,
              (float *w, float *sum, const float *g, size_t count, float lr, float epsilon),
              (w, sum, g, count, lr, epsilon))

TENSOR_BODY void tensor_rmsprop_body(float *restrict w, float *restrict v, float *restrict m,
                                     const float *restrict g, size_t count, float lr, float rho,
                                     float momentum, float epsilon)
{
    for (size_t i = 0; i < count; i++) {
        v[i] = rho * v[i] + (1 - rho) * g[i] * g[i];
        float step = lr * g[i] / sqrtf(v[i] + epsilon);
        if (m)
            step = m[i] = momentum * m[i] + step;
        w[i] -= step;
    }
}
TENSOR_KERNEL(tensor_rmsprop,
              (float *w, float *v, float *m, const float *g, size_t count, float lr, float rho,
               float momentum, float epsilon),
              (w, v, m, g, count, lr, rho, momentum, epsilon))

void tensor_ftrl(float *w, float *n, float *z, const float *g, size_t count, float lr, float power,
                 float l1, float l2)
{
    for (size_t i = 0; i < count; i++) {
        float sum = n[i] + g[i] * g[i];
        bool root = power == -0.5f; /* nearly always */
        float before = root ? sqrtf(n[i]) : powf(n[i], -power);
        float after = root ? sqrtf(sum) : powf(sum, -power);
        z[i] += g[i] - (after - before) / lr * w[i];
        float cut = z[i] > l1 ? l1 : z[i] < -l1 ? -l1 : z[i];
        w[i] = (cut - z[i]) / (after / lr + 2 * l2);
        n[i] = sum;
    }
}
