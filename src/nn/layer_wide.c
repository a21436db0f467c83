/* layer_wide.c -- the linear part beside a deep one: logits plus a weight for each category that a
 * row has and each number times a weight, and a bias. All start at 0. */
#include "nn/nn_int.h"

enum { BIAS };

static ty_err wide_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    (void)r, (void)object, (void)l;
    return TY_OK;
}

static ty_err wide_shape(struct nn_reader *r, struct nn_layer *l)
{
    l->channels = r->model->heads[0].class_count;
    return TY_OK;
}

static void wide_plan(struct nn_net *n, struct nn_layer *l)
{
    struct nn_part *parts = ty_new_array(&n->arena, struct nn_part, l->part_count);
    memcpy(parts, l->parts, l->part_count * sizeof *parts);
    l->parts = parts;
    l->params[BIAS] = nn_param_add(n, l, "bias", SHAPE((int64_t)l->channels));
    for (size_t i = 0; i < l->part_count; i++) {
        const struct nn_value *v = &n->model->values[parts[i].value];
        const char *name = ty_format(&n->arena, "%s_weights", v->name.ptr);
        if (parts[i].kind == NN_EMBEDDING)
            parts[i].param =
                nn_param_add_table(n, l, ty_format(&n->arena, "%s/%s", l->name.ptr, name),
                                   (size_t)v->buckets, l->channels, parts[i].slot, 0);
        else
            parts[i].param = nn_param_add(n, l, name, SHAPE(1, (int64_t)l->channels));
        n->params[parts[i].param].wide = true;
    }
    n->params[l->params[BIAS]].wide = true;
}

static void wide_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const struct nn_rows *rows = n->batch.rows;
    const float *bias = nn_layer_param(n, l, BIAS)->data;
    size_t k = l->channels;
    float *y = s->y[nn_layer_index(n, l)];
    if (l->input_count)
        memcpy(y, s->y[l->inputs[0]], s->rows * k * sizeof *y);
    else
        memset(y, 0, s->rows * k * sizeof *y);
    for (size_t i = 0; i < s->rows; i++, y += k) {
        size_t pick = nn_shard_pick(n, s->first + i);
        for (size_t p = 0; p < l->part_count; p++) {
            const struct nn_part *part = &l->parts[p];
            const float *w = n->params[part->param].data;
            float x = 1;
            if (part->kind == NN_EMBEDDING) {
                int32_t id = rows->ids[pick * rows->ids_each + part->slot];
                if (id < 0)
                    continue;
                w += (size_t)id * k;
            } else {
                x = rows->floats[pick * rows->floats_each + part->slot];
            }
            for (size_t c = 0; c < k; c++)
                y[c] += x * w[c];
        }
        for (size_t c = 0; c < k; c++)
            y[c] += bias[c];
    }
}

static void number_backward(const struct nn_net *n, const struct nn_part *part,
                            const struct nn_shard *s, const float *dy, size_t k)
{
    const struct nn_rows *rows = n->batch.rows;
    float *dw = nn_shard_grad(s, &n->params[part->param]);
    memset(dw, 0, k * sizeof *dw);
    for (size_t i = 0; i < s->rows; i++, dy += k) {
        size_t pick = nn_shard_pick(n, s->first + i);
        float x = rows->floats[pick * rows->floats_each + part->slot];
        for (size_t c = 0; c < k; c++)
            dw[c] += x * dy[c];
    }
}

static void wide_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const float *dy = s->dy[nn_layer_index(n, l)];
    size_t k = l->channels;
    tensor_row_sum(dy, s->rows, k, nn_shard_grad(s, nn_layer_param(n, l, BIAS)));
    for (size_t p = 0; p < l->part_count; p++)
        if (l->parts[p].kind == NN_NUMBER)
            number_backward(n, &l->parts[p], s, dy, k);
    if (l->input_count && s->dy[l->inputs[0]])
        memcpy(s->dy[l->inputs[0]], dy, s->rows * k * sizeof *dy);
}

static struct graph_out wide_export(struct nn_exporter *x, const struct nn_layer *l,
                                    const struct graph_out *inputs)
{
    const struct nn_net *n = x->net;
    struct graph_out sum = l->input_count ? inputs[0] : (struct graph_out){0};
    for (size_t i = 0; i < l->part_count; i++) {
        const struct nn_part *p = &l->parts[i];
        const struct nn_value *v = &n->model->values[p->value];
        struct graph_out in = nn_export_value(x, p->value), w, y;
        w = nn_export_param(x, &n->params[p->param]);
        if (p->kind == NN_EMBEDDING) {
            y = nn_export_gather(x, nn_export_name(x, v->name, "wide"), w, in);
        } else {
            if (v->type == NN_INT)
                in = nn_export_cast(x, nn_export_name(x, v->name, "float"), in, DTYPE_INT64,
                                    DTYPE_FLOAT);
            in = nn_export_column(x, nn_export_name(x, v->name, "column"), in, DTYPE_FLOAT);
            y = graph_op2(x->graph, "MatMul", nn_export_name(x, v->name, "wide"), DTYPE_FLOAT, in,
                          w);
        }
        sum = sum.node ? graph_op2(x->graph, "AddV2", nn_export_name(x, l->name, "Add"),
                                   DTYPE_FLOAT, sum, y)
                       : y;
    }
    return graph_op2(x->graph, "BiasAdd", nn_export_name(x, l->name, "BiasAdd"), DTYPE_FLOAT, sum,
                     nn_export_param(x, nn_layer_param(n, l, BIAS)));
}

const struct nn_layer_kind nn_layer_wide = {
    .name = "wide",
    .read = wide_read,
    .shape = wide_shape,
    .plan = wide_plan,
    .forward = wide_forward,
    .backward = wide_backward,
    .export = wide_export,
};
