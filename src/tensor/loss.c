/* loss.c -- losses of single examples and the gradient of their mean.
 *
 * Each is computed in the form that neither overflows nor loses the small difference it is about:
 * log(1 + e^-|x|) instead of log(sigmoid), logits less their largest before they are raised. */
#include "tensor/tensor.h"

#include <math.h>

static float weight_of(const float *weights, size_t i)
{
    return weights ? weights[i] : 1.0f;
}

void tensor_sigmoid_loss(const float *logits, const float *labels, const float *weights,
                         size_t rows, size_t batch, float *loss, float *dlogits)
{
    float share = 1.0f / (float)batch;
    for (size_t i = 0; i < rows; i++) {
        float x = logits[i], z = labels[i], w = weight_of(weights, i);
        float small = expf(-fabsf(x)); /* of the two, the one below 1 */
        if (loss)
            loss[i] = w * ((x > 0 ? x : 0) - x * z + log1pf(small));
        if (dlogits)
            dlogits[i] = w * share * ((x >= 0 ? 1 / (1 + small) : small / (1 + small)) - z);
    }
}

void tensor_softmax_loss(const float *logits, const int32_t *labels, const float *weights,
                         size_t rows, size_t n, size_t batch, float *loss, float *dlogits)
{
    float share = 1.0f / (float)batch;
    for (size_t i = 0; i < rows; i++, logits += n) {
        size_t label = (size_t)labels[i];
        float most = logits[0], sum = 0, w = weight_of(weights, i);
        ty_assert(label < n);
        for (size_t j = 1; j < n; j++)
            most = logits[j] > most ? logits[j] : most;
        for (size_t j = 0; j < n; j++)
            sum += expf(logits[j] - most);
        if (loss)
            loss[i] = w * (logf(sum) - (logits[label] - most));
        for (size_t j = 0; dlogits && j < n; j++)
            dlogits[i * n + j] =
                w * share * (expf(logits[j] - most) / sum - (j == label ? 1.0f : 0.0f));
    }
}

void tensor_square_loss(const float *y, const float *labels, const float *weights, size_t rows,
                        size_t batch, float *loss, float *dy)
{
    float share = 2.0f / (float)batch;
    for (size_t i = 0; i < rows; i++) {
        float off = y[i] - labels[i], w = weight_of(weights, i);
        if (loss)
            loss[i] = w * off * off;
        if (dy)
            dy[i] = w * share * off;
    }
}

void tensor_absolute_loss(const float *y, const float *labels, const float *weights, size_t rows,
                          size_t batch, float *loss, float *dy)
{
    float share = 1.0f / (float)batch;
    for (size_t i = 0; i < rows; i++) {
        float off = y[i] - labels[i], w = weight_of(weights, i);
        if (loss)
            loss[i] = w * fabsf(off);
        if (dy)
            dy[i] = off > 0 ? w * share : off < 0 ? -w * share : 0;
    }
}

void tensor_huber_loss(const float *y, const float *labels, const float *weights, float delta,
                       size_t rows, size_t batch, float *loss, float *dy)
{
    float share = 1.0f / (float)batch;
    for (size_t i = 0; i < rows; i++) {
        float off = y[i] - labels[i], size = fabsf(off), w = weight_of(weights, i);
        bool near = size <= delta;
        if (loss)
            loss[i] = w * (near ? 0.5f * off * off : delta * size - 0.5f * delta * delta);
        if (dy)
            dy[i] = w * share * (near ? off : off > 0 ? delta : -delta);
    }
}
