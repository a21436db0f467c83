/* pool.c -- maximum and mean over windows of an image.
 *
 * Maxima of 2 x 2 windows side by side, which is what networks have, are loops over channels that
 * the compiler vectorises; all other shapes go window by window. */
#include "tensor/tensor_int.h"

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

static bool is_two_by_two(const struct tensor_pool *p)
{
    return p->size == 2 && p->stride == 2 && p->top == 0 && p->left == 0 &&
           2 * p->out_height <= p->height && 2 * p->out_width <= p->width;
}

/* A row of windows: `count` of them, n channels. x is the upper row of pixels, `line` floats long;
 * `base` its place in the whole. */
TENSOR_BODY void max_row_body(const float *restrict x, size_t line, uint32_t base, size_t count,
                              size_t n, float *restrict y, uint32_t *restrict which)
{
    for (size_t i = 0; i < count; i++, x += 2 * n, base += (uint32_t)(2 * n), y += n, which += n)
        for (size_t c = 0; c < n; c++) {
            float most = x[c], right = x[n + c], below = x[line + c], last = x[line + n + c];
            uint32_t at = 0;
            at = right > most ? (uint32_t)n : at;
            most = right > most ? right : most;
            at = below > most ? (uint32_t)line : at;
            most = below > most ? below : most;
            at = last > most ? (uint32_t)(line + n) : at;
            most = last > most ? last : most;
            y[c] = most;
            which[c] = base + (uint32_t)c + at;
        }
}
static void max_row(const float *x, size_t line, uint32_t base, size_t count, size_t n, float *y,
                    uint32_t *which);
TENSOR_KERNEL(max_row,
              (const float *x, size_t line, uint32_t base, size_t count, size_t n, float *y,
               uint32_t *which),
              (x, line, base, count, n, y, which))

/* All four pixels of each window: its gradient for the one that was the largest, 0 for others. */
TENSOR_BODY void max_row_backward_body(const float *restrict dy, const uint32_t *restrict which,
                                       size_t line, uint32_t base, size_t count, size_t n,
                                       float *restrict dx)
{
    for (size_t i = 0; i < count; i++, dx += 2 * n, base += (uint32_t)(2 * n), dy += n, which += n)
        for (size_t c = 0; c < n; c++) {
            uint32_t at = which[c] - base - (uint32_t)c;
            dx[c] = at == 0 ? dy[c] : 0;
            dx[n + c] = at == n ? dy[c] : 0;
            dx[line + c] = at == line ? dy[c] : 0;
            dx[line + n + c] = at == line + n ? dy[c] : 0;
        }
}
static void max_row_backward(const float *dy, const uint32_t *which, size_t line, uint32_t base,
                             size_t count, size_t n, float *dx);
TENSOR_KERNEL(max_row_backward,
              (const float *dy, const uint32_t *which, size_t line, uint32_t base, size_t count,
               size_t n, float *dx),
              (dy, which, line, base, count, n, dx))

static void max_pool_fast(const struct tensor_pool *p, const float *x, float *y, uint32_t *which)
{
    size_t line = p->width * p->channels, out = p->out_width * p->channels, at = 0;
    for (size_t n = 0; n < p->batch; n++)
        for (size_t oy = 0; oy < p->out_height; oy++, at += out) {
            size_t from = (n * p->height + 2 * oy) * line;
            max_row(x + from, line, (uint32_t)from, p->out_width, p->channels, y + at, which + at);
        }
}

static void max_pool_backward_fast(const struct tensor_pool *p, const float *dy,
                                   const uint32_t *which, float *dx)
{
    size_t line = p->width * p->channels, out = p->out_width * p->channels, at = 0;
    for (size_t n = 0; n < p->batch; n++) {
        for (size_t oy = 0; oy < p->out_height; oy++, at += out) {
            size_t from = (n * p->height + 2 * oy) * line;
            max_row_backward(dy + at, which + at, line, (uint32_t)from, p->out_width, p->channels,
                             dx + from);
            for (size_t row = 0; row < 2; row++) /* a column that no window covers */
                memset(dx + from + row * line + 2 * out, 0, (line - 2 * out) * sizeof *dx);
        }
        size_t rest = p->height - 2 * p->out_height;
        memset(dx + (n * p->height + 2 * p->out_height) * line, 0, rest * line * sizeof *dx);
    }
}

void tensor_max_pool(const struct tensor_pool *p, const float *x, float *y, uint32_t *which)
{
    if (is_two_by_two(p)) {
        max_pool_fast(p, x, y, which);
        return;
    }
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
    if (is_two_by_two(p)) {
        max_pool_backward_fast(p, dy, which, dx);
        return;
    }
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
