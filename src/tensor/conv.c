/* conv.c -- convolutions, by tiles over padded images.
 *
 * In an image with its zeros around it, the filter_width * in values that one filter row meets at
 * an output pixel lie side by side, and those of the next pixel begin stride * in further on. That
 * is a matrix for the tile as it is: output pixels are its rows, the taps of a filter row its
 * columns, and the filter's rows are its parts. The gradient of x is the same walk over dy with the
 * filter turned; the gradient of the filter has taps as rows, pixels as columns and the image's
 * rows as parts. Only the padding is a copy, of one image at a time. */
#include "tensor/tensor_int.h"

/* Of dy, for the filter's gradient: few enough to stay in the second cache, and not so many that
 * one long sum would lose digits. */
enum { ROWS_AT_ONCE = 8 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void shape_one(size_t size, size_t filter, size_t stride, bool same, size_t *ret_out,
                      size_t *ret_before)
{
    if (!same) {
        *ret_out = size < filter ? 0 : (size - filter) / stride + 1;
        *ret_before = 0;
        return;
    }
    *ret_out = (size + stride - 1) / stride;
    size_t wanted = (*ret_out - 1) * stride + filter;
    *ret_before = wanted > size ? (wanted - size) / 2 : 0;
}

void tensor_conv_shape(struct tensor_conv *c, bool same)
{
    shape_one(c->height, c->filter_height, c->stride, same, &c->out_height, &c->top);
    shape_one(c->width, c->filter_width, c->stride, same, &c->out_width, &c->left);
}

void tensor_pool_shape(struct tensor_pool *p, bool same)
{
    shape_one(p->height, p->size, p->stride, same, &p->out_height, &p->top);
    shape_one(p->width, p->size, p->stride, same, &p->out_width, &p->left);
}

/* An image with zeros around it, or in it. */
struct padded {
    size_t height, width, channels;
};

/* What the filter walks over: every row and column it touches. */
static struct padded padded_input(const struct tensor_conv *c)
{
    return (struct padded){(c->out_height - 1) * c->stride + c->filter_height,
                           (c->out_width - 1) * c->stride + c->filter_width, c->in};
}

/* dy with stride - 1 zeros between its values and filter - 1 around them: the turned filter,
 * walking over it by single steps, gives the gradient of the padded x. */
static struct padded padded_output(const struct tensor_conv *c)
{
    struct padded x = padded_input(c);
    return (struct padded){x.height + c->filter_height - 1, x.width + c->filter_width - 1, c->out};
}

static size_t padded_size(struct padded p)
{
    return p.height * p.width * p.channels;
}

size_t tensor_conv_scratch(const struct tensor_conv *c)
{
    struct padded in = padded_input(c), out = padded_output(c);
    size_t filter = c->filter_height * c->filter_width;
    size_t forward = padded_size(in) + panels_size(filter * c->in, c->out);
    size_t data = padded_size(out) + filter * c->out * c->in + panels_size(filter * c->out, c->in) +
                  padded_size(in);
    size_t sums = padded_size(in);
    size_t most = forward > data ? forward : data;
    return most > sums ? most : sums;
}

/* An image (height, width, channels) into `to`, its rows and columns `step` apart from (top, left)
 * on; what does not fit is left out. Around it are zeros, which the image before it leaves: only
 * the `first` of a batch writes them. */
static void pad(const float *x, size_t height, size_t width, size_t step, size_t top, size_t left,
                struct padded p, bool first, float *to)
{
    size_t bytes = p.channels * sizeof *to;
    if (first)
        memset(to, 0, padded_size(p) * sizeof *to);
    for (size_t y = 0; y < height && top + y * step < p.height; y++) {
        float *row = to + (top + y * step) * p.width * p.channels;
        const float *from = x + y * width * p.channels;
        size_t fit = left < p.width ? (p.width - left + step - 1) / step : 0;
        if (step == 1) {
            memcpy(row + left * p.channels, from, least(width, fit) * bytes);
            continue;
        }
        for (size_t i = 0; i < least(width, fit); i++)
            memcpy(row + (left + i * step) * p.channels, from + i * p.channels, bytes);
    }
}

/* y (height, width, out) = the filter (panels of `taps` rows a filter row) over a padded image. */
struct walk {
    const float *image;
    struct padded padded;
    size_t stride, filter_height, taps;
    const float *panels;
    size_t height, width, out;
    const float *bias;
    bool relu;
};
static void walk(const struct walk *w, float *y)
{
    size_t rows = w->filter_height * w->taps; /* of a panel */
    size_t line = w->padded.width * w->padded.channels, step = w->stride * w->padded.channels;
    for (size_t oy = 0; oy < w->height; oy++)
        for (size_t j = 0; j < w->out; j += TILE_COLUMNS)
            for (size_t ox = 0; ox < w->width; ox += TILE_ROWS) {
                struct tile t = {
                    .a = w->image + oy * w->stride * line + ox * step,
                    .a_row = step,
                    .a_column = 1,
                    .a_part = line,
                    .b = w->panels + j * rows,
                    .b_row = panel_width(w->out, j),
                    .b_part = w->taps * panel_width(w->out, j),
                    .c = y + (oy * w->width + ox) * w->out + j,
                    .c_row = w->out,
                    .rows = least(w->width - ox, TILE_ROWS),
                    .columns = least(w->out - j, TILE_COLUMNS),
                    .k = w->taps,
                    .parts = w->filter_height,
                    .bias = w->bias ? w->bias + j : NULL,
                    .relu = w->relu,
                };
                tile_run(&t);
            }
}

void tensor_conv_forward(const struct tensor_conv *c, const float *x, const float *filter, float *y,
                         float *scratch)
{
    struct padded p = padded_input(c);
    size_t taps = c->filter_width * c->in;
    float *image = scratch, *panels = scratch + padded_size(p);
    panels_pack(filter, c->out, 1, c->filter_height * taps, c->out, panels);
    struct walk w = {.image = image,
                     .padded = p,
                     .stride = c->stride,
                     .filter_height = c->filter_height,
                     .taps = taps,
                     .panels = panels,
                     .height = c->out_height,
                     .width = c->out_width,
                     .out = c->out,
                     .bias = c->bias,
                     .relu = c->relu};
    for (size_t n = 0; n < c->batch; n++) {
        pad(x + n * c->height * c->width * c->in, c->height, c->width, 1, c->top, c->left, p,
            n == 0, image);
        walk(&w, y + n * c->out_height * c->out_width * c->out);
    }
}

/* (ky, kx, in, out) to (last - ky, last - kx, out, in) */
static void filter_turn(const struct tensor_conv *c, const float *filter, float *turned)
{
    for (size_t ky = 0; ky < c->filter_height; ky++)
        for (size_t kx = 0; kx < c->filter_width; kx++) {
            const float *from = filter + (ky * c->filter_width + kx) * c->in * c->out;
            float *to = turned + ((c->filter_height - 1 - ky) * c->filter_width +
                                  (c->filter_width - 1 - kx)) *
                                     c->in * c->out;
            for (size_t i = 0; i < c->in; i++)
                for (size_t o = 0; o < c->out; o++)
                    to[o * c->in + i] = from[i * c->out + o];
        }
}

void tensor_conv_backward_data(const struct tensor_conv *c, const float *filter, const float *dy,
                               float *dx, float *scratch)
{
    struct padded in = padded_input(c), out = padded_output(c);
    size_t taps = c->filter_width * c->out, weights = c->filter_height * taps * c->in;
    float *image = scratch, *turned = image + padded_size(out), *panels = turned + weights;
    float *whole =
        panels + panels_size(c->filter_height * taps, c->in); /* the padded x's gradient */
    filter_turn(c, filter, turned);
    panels_pack(turned, c->in, 1, c->filter_height * taps, c->in, panels);
    struct walk w = {.image = image,
                     .padded = out,
                     .stride = 1,
                     .filter_height = c->filter_height,
                     .taps = taps,
                     .panels = panels,
                     .height = in.height,
                     .width = in.width,
                     .out = c->in};
    bool all = c->top + c->height <= in.height && c->left + c->width <= in.width;
    if (all) { /* every pixel of x was met: no others need be computed */
        w.image += (c->top * out.width + c->left) * out.channels;
        w.height = c->height;
        w.width = c->width;
    }
    for (size_t n = 0; n < c->batch; n++) {
        pad(dy + n * c->out_height * c->out_width * c->out, c->out_height, c->out_width, c->stride,
            c->filter_height - 1, c->filter_width - 1, out, n == 0, image);
        walk(&w, all ? dx + n * c->height * c->width * c->in : whole);
        if (all)
            continue;
        float *to = dx + n * c->height * c->width * c->in;
        size_t width = c->left < in.width ? least(c->width, in.width - c->left) : 0;
        for (size_t y = 0; y < c->height; y++, to += c->width * c->in) {
            size_t there = c->top + y < in.height ? width * c->in : 0;
            memcpy(to, whole + ((c->top + y) * in.width + c->left) * c->in, there * sizeof *to);
            memset(to + there, 0, (c->width * c->in - there) * sizeof *to);
        }
    }
}

/* dfilter += what `rows` rows of output pixels add to one row of taps; `row` is the first that
 * those meet. */
static void filter_row_add(const struct tensor_conv *c, const float *row, const float *dy,
                           size_t rows, float *dfilter)
{
    size_t taps = c->filter_width * c->in;
    struct padded p = padded_input(c);
    for (size_t j = 0; j < c->out; j += TILE_COLUMNS)
        for (size_t i = 0; i < taps; i += TILE_ROWS) {
            struct tile t = {
                .a = row + i,
                .a_row = 1,
                .a_column = c->stride * c->in,
                .b = dy + j,
                .b_row = c->out,
                .c = dfilter + i * c->out + j,
                .c_row = c->out,
                .rows = least(taps - i, TILE_ROWS),
                .columns = least(c->out - j, TILE_COLUMNS),
                .k = c->out_width,
                .parts = rows,
                .a_part = c->stride * p.width * p.channels,
                .b_part = c->out_width * c->out,
                .add = true,
            };
            tile_run(&t);
        }
}

void tensor_conv_backward_filter(const struct tensor_conv *c, const float *x, const float *dy,
                                 float *dfilter, float *scratch)
{
    struct padded p = padded_input(c);
    size_t row = c->filter_width * c->in * c->out; /* of the filter */
    memset(dfilter, 0, c->filter_height * row * sizeof *dfilter);
    for (size_t n = 0; n < c->batch; n++) {
        const float *from = dy + n * c->out_height * c->out_width * c->out;
        pad(x + n * c->height * c->width * c->in, c->height, c->width, 1, c->top, c->left, p,
            n == 0, scratch);
        for (size_t oy = 0; oy < c->out_height; oy += ROWS_AT_ONCE)
            for (size_t ky = 0; ky < c->filter_height; ky++)
                filter_row_add(c, scratch + (oy * c->stride + ky) * p.width * p.channels,
                               from + oy * c->out_width * c->out,
                               least(c->out_height - oy, ROWS_AT_ONCE), dfilter + ky * row);
    }
}
