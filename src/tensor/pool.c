/* pool.c -- maximum and mean over windows of an image. */
#include "tensor/tensor.h"

/* The rows or columns of x that output `o` covers. */
struct span {
    size_t first, end;
};
static struct span covered(size_t o, size_t stride, size_t size, size_t before, size_t limit)
{
    size_t from = o * stride, to = from + size;
    struct span s = {from > before ? from - before : 0, to > before ? to - before : 0};
    s.end = s.end < limit ? s.end : limit;
    return s;
}

#define EACH_WINDOW(p)                                                                             \
    for (size_t n = 0, at = 0; n < (p)->batch; n++)                                                \
        for (size_t oy = 0; oy < (p)->out_height; oy++)                                            \
            for (size_t ox = 0; ox < (p)->out_width; ox++, at += (p)->channels)

void tensor_max_pool(const struct tensor_pool *p, const float *x, float *y, uint32_t *which)
{
    EACH_WINDOW(p)
    {
        struct span rows = covered(oy, p->stride, p->size, p->top, p->height);
        struct span columns = covered(ox, p->stride, p->size, p->left, p->width);
        bool first = true;
        for (size_t iy = rows.first; iy < rows.end; iy++)
            for (size_t ix = columns.first; ix < columns.end; ix++, first = false) {
                size_t from = ((n * p->height + iy) * p->width + ix) * p->channels;
                for (size_t c = 0; c < p->channels; c++) {
                    bool more = first || x[from + c] > y[at + c];
                    y[at + c] = more ? x[from + c] : y[at + c];
                    which[at + c] = more ? (uint32_t)(from + c) : which[at + c];
                }
            }
    }
}

void tensor_max_pool_backward(const struct tensor_pool *p, const float *dy, const uint32_t *which,
                              float *dx)
{
    size_t outputs = p->batch * p->out_height * p->out_width * p->channels;
    memset(dx, 0, p->batch * p->height * p->width * p->channels * sizeof *dx);
    for (size_t i = 0; i < outputs; i++)
        dx[which[i]] += dy[i];
}

void tensor_mean_pool(const struct tensor_pool *p, const float *x, float *y)
{
    EACH_WINDOW(p)
    {
        struct span rows = covered(oy, p->stride, p->size, p->top, p->height);
        struct span columns = covered(ox, p->stride, p->size, p->left, p->width);
        size_t count = (rows.end - rows.first) * (columns.end - columns.first);
        memset(y + at, 0, p->channels * sizeof *y);
        for (size_t iy = rows.first; iy < rows.end; iy++)
            for (size_t ix = columns.first; ix < columns.end; ix++) {
                const float *from = x + ((n * p->height + iy) * p->width + ix) * p->channels;
                for (size_t c = 0; c < p->channels; c++)
                    y[at + c] += from[c];
            }
        for (size_t c = 0; c < p->channels; c++)
            y[at + c] /= (float)count;
    }
}

void tensor_mean_pool_backward(const struct tensor_pool *p, const float *dy, float *dx)
{
    memset(dx, 0, p->batch * p->height * p->width * p->channels * sizeof *dx);
    EACH_WINDOW(p)
    {
        struct span rows = covered(oy, p->stride, p->size, p->top, p->height);
        struct span columns = covered(ox, p->stride, p->size, p->left, p->width);
        float share = 1.0f / (float)((rows.end - rows.first) * (columns.end - columns.first));
        for (size_t iy = rows.first; iy < rows.end; iy++)
            for (size_t ix = columns.first; ix < columns.end; ix++) {
                float *to = dx + ((n * p->height + iy) * p->width + ix) * p->channels;
                for (size_t c = 0; c < p->channels; c++)
                    to[c] += dy[at + c] * share;
            }
    }
}
