/* layer_shape.c -- layers without parameters: dropout, concat, add. */
#include "nn/nn_int.h"

static ty_err nothing_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    (void)r, (void)object, (void)l;
    return TY_OK;
}

static ty_err same_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_layer *in = &r->model->layers[l->inputs[0]];
    l->height = in->height;
    l->width = in->width;
    l->channels = in->channels;
    return TY_OK;
}

static size_t count_of(const struct nn_layer *l, const struct nn_shard *s)
{
    return s->rows * nn_layer_width(l);
}

/* dx = dy, or += */
static void pass(float *dx, const float *dy, size_t count, bool add)
{
    if (dx == NULL)
        return;
    if (add)
        tensor_axpy(1.0f, dy, dx, count);
    else
        memcpy(dx, dy, count * sizeof *dx);
}

/* ---- dropout ---- */

static ty_err dropout_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    if (l->input_count != 1)
        return nn_fail(r, "dropout reads one layer");
    return nn_read_float(r, object, "dropout", 0, 0.999, &l->rate);
}

/* An element's place in the random stream is its own in the whole batch, so shards do not matter.
 */
static void dropout_apply(const struct nn_net *n, const struct nn_layer *l,
                          const struct nn_shard *s, const float *x, float *y)
{
    size_t width = nn_layer_width(l), i = nn_layer_index(n, l);
    uint64_t stream = (n->batch.step << 16) + 0x8000 + i; /* parameters have the streams below */
    tensor_dropout(n->seed, stream, s->first * width, l->rate, x, y, s->rows * width);
}

static void dropout_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    float *y = s->y[nn_layer_index(n, l)];
    const float *x = s->y[l->inputs[0]];
    if (n->batch.training)
        dropout_apply(n, l, s, x, y);
    else
        memcpy(y, x, count_of(l, s) * sizeof *y);
}

static void dropout_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    bool add;
    float *dy = s->dy[nn_layer_index(n, l)], *dx = nn_input_grad(n, l, s, 0, &add);
    dropout_apply(n, l, s, dy, dy); /* the same elements, by the same numbers */
    pass(dx, dy, count_of(l, s), add);
}

static struct graph_out dropout_export(struct nn_exporter *x, const struct nn_layer *l,
                                       const struct graph_out *inputs)
{
    (void)x, (void)l;
    return inputs[0];
}

const struct nn_layer_kind nn_layer_dropout = {
    .name = "dropout",
    .read = dropout_read,
    .shape = same_shape,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .export = dropout_export,
};

/* ---- concat: outputs side by side ---- */

static ty_err concat_shape(struct nn_reader *r, struct nn_layer *l)
{
    ty_err err = same_shape(r, l);
    l->channels = 0;
    for (size_t i = 0; i < l->input_count && err == TY_OK; i++) {
        const struct nn_layer *in = &r->model->layers[l->inputs[i]];
        l->channels += in->channels;
        if (in->height != l->height || in->width != l->width)
            err = nn_fail(r, "concat: '%s' has another size", in->name.ptr);
    }
    return err;
}

static void concat_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    float *y = s->y[nn_layer_index(n, l)];
    size_t places = count_of(l, s) / l->channels;
    for (size_t k = 0, from = 0; k < l->input_count; k++) {
        size_t width = n->layers[l->inputs[k]].channels;
        const float *x = s->y[l->inputs[k]];
        for (size_t i = 0; i < places; i++)
            memcpy(y + i * l->channels + from, x + i * width, width * sizeof *y);
        from += width;
    }
}

static void concat_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const float *dy = s->dy[nn_layer_index(n, l)];
    size_t places = count_of(l, s) / l->channels;
    for (size_t k = 0, from = 0; k < l->input_count; k++) {
        size_t width = n->layers[l->inputs[k]].channels;
        bool add;
        float *dx = nn_input_grad(n, l, s, k, &add);
        for (size_t i = 0; i < places && dx; i++)
            pass(dx + i * width, dy + i * l->channels + from, width, add);
        from += width;
    }
}

static struct graph_out concat_export(struct nn_exporter *x, const struct nn_layer *l,
                                      const struct graph_out *inputs)
{
    return nn_export_concat(x, nn_export_name(x, l->name, "concat"), inputs, l->input_count);
}

const struct nn_layer_kind nn_layer_concat = {
    .name = "concat",
    .read = nothing_read,
    .shape = concat_shape,
    .forward = concat_forward,
    .backward = concat_backward,
    .export = concat_export,
};

/* ---- add: outputs of one size, added (a residual connection) ---- */

static ty_err add_shape(struct nn_reader *r, struct nn_layer *l)
{
    ty_err err = same_shape(r, l);
    for (size_t i = 1; i < l->input_count && err == TY_OK; i++) {
        const struct nn_layer *in = &r->model->layers[l->inputs[i]];
        if (in->height != l->height || in->width != l->width || in->channels != l->channels)
            err = nn_fail(r, "add: '%s' has another size", in->name.ptr);
    }
    if (err == TY_OK && l->input_count < 2)
        err = nn_fail(r, "add: 'input' must name two layers or more");
    return err;
}

static void add_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    float *y = s->y[nn_layer_index(n, l)];
    memcpy(y, s->y[l->inputs[0]], count_of(l, s) * sizeof *y);
    for (size_t k = 1; k < l->input_count; k++)
        tensor_axpy(1.0f, s->y[l->inputs[k]], y, count_of(l, s));
}

static void add_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const float *dy = s->dy[nn_layer_index(n, l)];
    for (size_t k = 0; k < l->input_count; k++) {
        bool add;
        float *dx = nn_input_grad(n, l, s, k, &add);
        pass(dx, dy, count_of(l, s), add);
    }
}

static struct graph_out add_export(struct nn_exporter *x, const struct nn_layer *l,
                                   const struct graph_out *inputs)
{
    struct graph_out sum = inputs[0];
    for (size_t i = 1; i < l->input_count; i++)
        sum = graph_op2(x->graph, "AddV2", nn_export_name(x, l->name, "add"), DTYPE_FLOAT, sum,
                        inputs[i]);
    return sum;
}

const struct nn_layer_kind nn_layer_add = {
    .name = "add",
    .read = nothing_read,
    .shape = add_shape,
    .forward = add_forward,
    .backward = add_backward,
    .export = add_export,
};
