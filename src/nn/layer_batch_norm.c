/* layer_batch_norm.c -- y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, over the whole
 * batch while training, by moving means otherwise.
 *
 * Sums of a shard are doubles, as long as the last axis: forward, sum and sum of squares; after
 * them, backward, dgamma and dbeta, for what a unit's examples leave of each other may be little.
 * Of all shards: mean, 1/deviation, dgamma, dbeta, as floats. */
#include "nn/nn_int.h"

#include <math.h>

enum { GAMMA, BETA, MEAN, VARIANCE };

static ty_err norm_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    l->momentum = 0.99f;
    l->epsilon = 1e-3f;
    if (l->input_count != 1)
        return nn_fail(r, "batch_norm reads one layer");
    ty_err err = nn_read_float(r, object, "momentum", 0, 1, &l->momentum);
    return err == TY_OK ? nn_read_float(r, object, "epsilon", 1e-9, 1, &l->epsilon) : err;
}

static ty_err norm_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_layer *in = &r->model->layers[l->inputs[0]];
    l->height = in->height;
    l->width = in->width;
    l->channels = in->channels;
    return TY_OK;
}

static void norm_plan(struct nn_net *n, struct nn_layer *l)
{
    static const char *const names[] = {"gamma", "beta", "moving_mean", "moving_variance"};
    for (size_t i = 0; i < TY_COUNT(names); i++) {
        l->params[i] = nn_param_add(n, l, names[i], SHAPE((int64_t)l->channels));
        n->params[l->params[i]].frozen = i >= MEAN;
    }
}

static void norm_init(struct nn_net *n, const struct nn_layer *l)
{
    for (size_t i = 0; i < l->channels; i++) {
        nn_layer_param(n, l, GAMMA)->data[i] = 1;
        nn_layer_param(n, l, VARIANCE)->data[i] = 1;
    }
}

static size_t rows_of(const struct nn_layer *l, size_t examples)
{
    return examples * (nn_layer_width(l) / l->channels);
}

static float *all_sums(const struct nn_net *n, const struct nn_layer *l)
{
    return n->sums + l->state;
}

static double *own_sums(const struct nn_shard *s, const struct nn_layer *l, bool backward)
{
    return (double *)(s->sums + l->state) + (backward ? 2 * l->channels : 0);
}

static void norm_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    size_t rows = rows_of(l, s->rows), c = l->channels;
    const float *x = s->y[l->inputs[0]], *variance = nn_layer_param(n, l, VARIANCE)->data;
    float *sums = s->sums + l->state;
    if (n->batch.training) {
        double *own = own_sums(s, l, false);
        tensor_norm_sums(x, rows, c, own, own + c);
        return;
    }
    for (size_t i = 0; i < c; i++)
        sums[i] = 1 / sqrtf(variance[i] + l->epsilon);
    tensor_norm_apply(x, nn_layer_param(n, l, MEAN)->data, sums, nn_layer_param(n, l, GAMMA)->data,
                      nn_layer_param(n, l, BETA)->data, rows, c, s->y[nn_layer_index(n, l)]);
}

static void norm_forward_after(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const float *sums = all_sums(n, l);
    tensor_norm_apply(s->y[l->inputs[0]], sums, sums + l->channels,
                      nn_layer_param(n, l, GAMMA)->data, nn_layer_param(n, l, BETA)->data,
                      rows_of(l, s->rows), l->channels, s->y[nn_layer_index(n, l)]);
}

static void norm_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const float *sums = all_sums(n, l);
    size_t c = l->channels;
    double *own = own_sums(s, l, true);
    tensor_norm_backward_sums(s->y[l->inputs[0]], s->dy[nn_layer_index(n, l)], sums, sums + c,
                              rows_of(l, s->rows), c, own, own + c);
    float *dgamma = nn_shard_grad(s, nn_layer_param(n, l, GAMMA));
    float *dbeta = nn_shard_grad(s, nn_layer_param(n, l, BETA));
    for (size_t i = 0; i < c; i++) {
        dgamma[i] = (float)own[i];
        dbeta[i] = (float)own[c + i];
    }
}

static void norm_backward_after(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const float *sums = all_sums(n, l);
    size_t c = l->channels, i = nn_layer_index(n, l), count = s->rows * nn_layer_width(l);
    bool add;
    float *dx = nn_input_grad(n, l, s, 0, &add);
    if (dx == NULL)
        return;
    float *to = add ? s->y[i] : dx; /* the output is not needed any more */
    tensor_norm_backward(s->y[l->inputs[0]], s->dy[i], sums, sums + c,
                         nn_layer_param(n, l, GAMMA)->data, sums + 2 * c, sums + 3 * c,
                         rows_of(l, s->rows), c, rows_of(l, n->batch.count), to);
    if (add)
        tensor_axpy(1.0f, to, dx, count);
}

static void mean_combine(struct nn_net *n, const struct nn_layer *l)
{
    float *sums = all_sums(n, l), step = 1 - l->momentum;
    size_t c = l->channels;
    float *mean = nn_layer_param(n, l, MEAN)->data;
    float *variance = nn_layer_param(n, l, VARIANCE)->data;
    double share = 1.0 / (double)rows_of(l, n->batch.count);
    for (size_t i = 0; i < c; i++) {
        double sum = 0, squares = 0;
        for (size_t k = 0; k < n->shard_count; k++) {
            const double *own = own_sums(&n->shards[k], l, false);
            sum += own[i];
            squares += own[c + i];
        }
        double m = sum * share, v = squares * share - m * m;
        v = v > 0 ? v : 0;
        sums[i] = (float)m;
        sums[c + i] = (float)(1 / sqrt(v + (double)l->epsilon));
        mean[i] -= (mean[i] - (float)m) * step;
        variance[i] -= (variance[i] - (float)v) * step;
    }
}

static void norm_combine(struct nn_net *n, const struct nn_layer *l, bool backward)
{
    size_t c = l->channels;
    if (!backward) {
        mean_combine(n, l);
        return;
    }
    for (size_t i = 0; i < 2 * c; i++) {
        double sum = 0;
        for (size_t k = 0; k < n->shard_count; k++)
            sum += own_sums(&n->shards[k], l, true)[i];
        all_sums(n, l)[2 * c + i] = (float)sum;
    }
}

static struct graph_out norm_export(struct nn_exporter *x, const struct nn_layer *l,
                                    const struct graph_out *inputs)
{
    const struct nn_net *n = x->net;
    struct graph *g = x->graph;
    struct graph_out p[4];
    for (size_t i = 0; i < TY_COUNT(p); i++)
        p[i] = nn_export_param(x, nn_layer_param(n, l, i));
    struct graph_out v =
        graph_op2(g, "AddV2", nn_export_name(x, l->name, "add"), DTYPE_FLOAT, p[VARIANCE],
                  graph_const_f32(g, nn_export_name(x, l->name, "epsilon"), l->epsilon));
    v = graph_op1(g, "Rsqrt", nn_export_name(x, l->name, "Rsqrt"), DTYPE_FLOAT, v);
    v = graph_op2(g, "Mul", nn_export_name(x, l->name, "scale"), DTYPE_FLOAT, v, p[GAMMA]);
    struct graph_out y =
        graph_op2(g, "Sub", nn_export_name(x, l->name, "Sub"), DTYPE_FLOAT, inputs[0], p[MEAN]);
    y = graph_op2(g, "Mul", nn_export_name(x, l->name, "Mul"), DTYPE_FLOAT, y, v);
    return graph_op2(g, "AddV2", nn_export_name(x, l->name, "shift"), DTYPE_FLOAT, y, p[BETA]);
}

static const char *const keys[] = {"momentum", "epsilon", NULL};
const struct nn_layer_kind nn_layer_batch_norm = {
    .name = "batch_norm",
    .keys = keys,
    .read = norm_read,
    .shape = norm_shape,
    .plan = norm_plan,
    .init = norm_init,
    .forward = norm_forward,
    .backward = norm_backward,
    .forward_after = norm_forward_after,
    .backward_after = norm_backward_after,
    .combine = norm_combine,
    .export = norm_export,
};
