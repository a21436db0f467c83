/* layer_features.c -- the first layer: floats of a row as they are, indicators as ones among zeros,
 * embeddings looked up. */
#include "nn/nn_int.h"

#include <math.h>

static ty_err features_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_part *last = &l->parts[l->part_count - 1];
    (void)r;
    l->channels = last->from + last->width;
    return TY_OK;
}

static ty_err features_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    (void)r, (void)object, (void)l;
    return TY_OK; /* model_net.c has read the parts */
}

static void features_plan(struct nn_net *n, struct nn_layer *l)
{
    struct nn_part *parts = ty_new_array(&n->arena, struct nn_part, l->part_count);
    memcpy(parts, l->parts, l->part_count * sizeof *parts);
    l->parts = parts;
    for (size_t i = 0; i < l->part_count; i++) {
        const struct nn_value *v = &n->model->values[parts[i].value];
        if (parts[i].kind == NN_EMBEDDING)
            parts[i].param = nn_param_add_table(
                n, l, ty_format(&n->arena, "%s/%s_embedding", l->name.ptr, v->name.ptr),
                (size_t)v->buckets, parts[i].width, parts[i].slot, parts[i].from);
    }
}

enum { DRAWN_AT_ONCE = 1 << 15 };
struct drawing {
    const struct nn_net *net;
    const struct nn_param *param;
};

/* A piece of a table; what is drawn depends on its place alone, so any thread may draw it. */
static void table_draw(void *arg, int index)
{
    const struct drawing *d = arg;
    size_t from = (size_t)index * DRAWN_AT_ONCE, left = d->param->count - from;
    tensor_truncated_normal(d->net->seed, (uint64_t)(d->param - d->net->params), from, 0,
                            1 / sqrtf((float)d->param->width), d->param->data + from,
                            left < DRAWN_AT_ONCE ? left : DRAWN_AT_ONCE);
}

/* As embedding_column: truncated normal with a deviation of 1 / sqrt(size). */
static void features_init(struct nn_net *n, const struct nn_layer *l)
{
    for (size_t i = 0; i < l->part_count; i++) {
        if (l->parts[i].kind != NN_EMBEDDING)
            continue;
        struct drawing d = {n, &n->params[l->parts[i].param]};
        tensor_team_run(n->team, table_draw, &d,
                        (int)((d.param->count + DRAWN_AT_ONCE - 1) / DRAWN_AT_ONCE));
    }
}

static void part_forward(const struct nn_net *n, const struct nn_part *p, size_t pick, float *y)
{
    const struct nn_rows *rows = n->batch.rows;
    if (p->kind == NN_NUMBER) {
        *y = rows->floats[pick * rows->floats_each + p->slot];
        return;
    }
    int32_t id = rows->ids[pick * rows->ids_each + p->slot];
    if (p->kind == NN_EMBEDDING && id >= 0) {
        memcpy(y, n->params[p->param].data + (size_t)id * p->width, p->width * sizeof *y);
        return;
    }
    memset(y, 0, p->width * sizeof *y);
    if (p->kind == NN_INDICATOR && id >= 0)
        y[id] = 1;
}

static void features_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    float *y = s->y[nn_layer_index(n, l)];
    if (n->has_first)
        return;
    for (size_t i = 0; i < s->rows; i++, y += l->channels) {
        size_t pick = nn_shard_pick(n, s->first + i);
        for (size_t k = 0; k < l->part_count; k++)
            part_forward(n, &l->parts[k], pick, y + l->parts[k].from);
    }
}

/* The gradient stays where it is: net.c gathers it into the tables' rows. */
static void features_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    (void)n, (void)l, (void)s;
}

/* (batch) ids to (batch, buckets) ones; an id of -1 gives zeros. */
static struct graph_out one_hot(struct nn_exporter *x, const char *name, struct graph_out ids,
                                size_t width)
{
    struct graph *g = x->graph;
    struct graph_node *node = graph_node(g, "OneHot", name);
    graph_input(node, ids);
    graph_input(node, graph_const_i32(g, ty_format(x->arena, "%s/depth", name), (int32_t)width));
    graph_input(node, graph_const_f32(g, ty_format(x->arena, "%s/on", name), 1));
    graph_input(node, graph_const_f32(g, ty_format(x->arena, "%s/off", name), 0));
    graph_attr_int(node, "axis", -1);
    graph_attr_type(node, "T", DTYPE_FLOAT);
    graph_attr_type(node, "TI", DTYPE_INT64);
    return graph_out(node, 0);
}

static struct graph_out features_export(struct nn_exporter *x, const struct nn_layer *l,
                                        const struct graph_out *inputs)
{
    (void)inputs;
    struct graph_out *parts = ty_new_array(x->arena, struct graph_out, l->part_count);
    for (size_t i = 0; i < l->part_count; i++) {
        const struct nn_part *p = &l->parts[i];
        const struct nn_value *v = &x->net->model->values[p->value];
        struct graph_out in = nn_export_value(x, p->value);
        if (p->kind == NN_INDICATOR) {
            parts[i] = one_hot(x, nn_export_name(x, v->name, "indicator"), in, p->width);
        } else if (p->kind == NN_EMBEDDING) {
            struct graph_out table = nn_export_param(x, &x->net->params[p->param]);
            parts[i] = nn_export_gather(x, nn_export_name(x, v->name, "embedding"), table, in);
        } else {
            if (v->type == NN_INT)
                in = nn_export_cast(x, nn_export_name(x, v->name, "float"), in, DTYPE_INT64,
                                    DTYPE_FLOAT);
            parts[i] = nn_export_column(x, nn_export_name(x, v->name, "column"), in, DTYPE_FLOAT);
        }
    }
    return nn_export_concat(x, nn_export_name(x, l->name, "concat"), parts, l->part_count);
}

const struct nn_layer_kind nn_layer_features = {
    .name = "features",
    .read = features_read,
    .shape = features_shape,
    .plan = features_plan,
    .init = features_init,
    .forward = features_forward,
    .backward = features_backward,
    .export = features_export,
};
