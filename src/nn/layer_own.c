/* layer_own.c -- kinds of layers that a program registers, behind the same verbs as ours. */
#include "nn/nn_int.h"

static struct own {
    struct nn_layer_kind kind;
    const struct nn_own_layer *layer;
} OWN[NN_MAX_OWN];
static size_t own_count;

const struct nn_layer_kind *nn_own_kind(size_t i)
{
    return i < own_count ? &OWN[i].kind : NULL;
}

/* `kind` is the first field of its struct own. */
static const struct nn_own_layer *own_of(const struct nn_layer *l)
{
    return ((const struct own *)l->kind)->layer;
}

static ty_err own_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    const struct nn_own_layer *o = own_of(l);
    const json_t *value = json_object_get(object, o->name);
    ty_err err = TY_OK;
    if (l->input_count != 1)
        return nn_fail(r, "%s reads one layer", o->name);
    for (size_t i = 0; o->fields[i] && err == TY_OK; i++) {
        l->fields[i] = o->defaults[i];
        err = nn_read_float(r, object, o->fields[i], -1e30, 1e30, &l->fields[i]);
    }
    if (err == TY_OK && !json_is_null(value)) {
        if (o->fields[0] == NULL || json_object_get(object, o->fields[0]))
            return nn_fail(r, "%s: leave its value empty", o->name);
        err = nn_read_float(r, object, o->name, -1e30, 1e30, &l->fields[0]);
    }
    return err;
}

static ty_err own_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_layer *in = &r->model->layers[l->inputs[0]];
    const struct nn_own_layer *o = own_of(l);
    if (o->width == NULL) {
        l->height = in->height;
        l->width = in->width;
        l->channels = in->channels;
        return TY_OK;
    }
    l->channels = o->width(nn_layer_width(in), l->fields);
    if (l->channels == 0 || l->channels > NN_MAX_UNITS)
        return nn_fail(r, "%s: %zu numbers; 1 to %d are possible", o->name, l->channels,
                       NN_MAX_UNITS);
    return TY_OK;
}

static size_t size_of(const struct nn_net *n, const struct nn_layer *l, enum nn_own_size size)
{
    return size == NN_ONE  ? 1
           : size == NN_IN ? nn_layer_width(&n->layers[l->inputs[0]])
                           : nn_layer_width(l);
}

static void own_plan(struct nn_net *n, struct nn_layer *l)
{
    const struct nn_own_param *p = own_of(l)->params;
    for (size_t i = 0; i < NN_LAYER_PARAMS && p[i].name; i++)
        l->params[i] = nn_param_add(
            n, l, p[i].name,
            SHAPE((int64_t)size_of(n, l, p[i].rows), (int64_t)size_of(n, l, p[i].columns)));
}

static void own_init(struct nn_net *n, const struct nn_layer *l)
{
    const struct nn_own_param *p = own_of(l)->params;
    for (size_t i = 0; i < NN_LAYER_PARAMS && p[i].name; i++) {
        const struct nn_param *to = nn_layer_param(n, l, i);
        if (p[i].first == NN_GLOROT)
            nn_init_glorot(n, to, (size_t)to->shape.dims[0], (size_t)to->shape.dims[1]);
        else
            for (size_t k = 0; k < to->count; k++)
                to->data[k] = p[i].first;
    }
}

static struct nn_own_call call_of(const struct nn_net *n, const struct nn_layer *l,
                                  const struct nn_shard *s)
{
    struct nn_own_call c = {.rows = s->rows,
                            .in = nn_layer_width(&n->layers[l->inputs[0]]),
                            .out = nn_layer_width(l),
                            .training = n->batch.training,
                            .fields = l->fields,
                            .x = s->y[l->inputs[0]],
                            .y = s->y[nn_layer_index(n, l)]};
    for (size_t i = 0; i < NN_LAYER_PARAMS && own_of(l)->params[i].name; i++)
        c.params[i] = nn_layer_param(n, l, i)->data;
    return c;
}

static void own_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    struct nn_own_call c = call_of(n, l, s);
    own_of(l)->forward(&c);
}

/* Room for dx where it is to be added to what other readers of the input gave. */
static size_t own_scratch(const struct nn_net *n, const struct nn_layer *l, size_t rows)
{
    return rows * nn_layer_width(&n->layers[l->inputs[0]]);
}

static void own_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    struct nn_own_call c = call_of(n, l, s);
    bool add;
    float *dx = nn_input_grad(n, l, s, 0, &add);
    c.dy = s->dy[nn_layer_index(n, l)];
    c.dx = dx && add ? s->scratch : dx;
    for (size_t i = 0; i < NN_LAYER_PARAMS && own_of(l)->params[i].name; i++)
        c.grads[i] = nn_shard_grad(s, nn_layer_param(n, l, i));
    own_of(l)->backward(&c);
    if (dx && add)
        tensor_axpy(1.0f, s->scratch, dx, c.rows * c.in);
}

static struct graph_out own_export(struct nn_exporter *x, const struct nn_layer *l,
                                   const struct graph_out *inputs)
{
    struct graph_out params[NN_LAYER_PARAMS] = {{0}};
    for (size_t i = 0; i < NN_LAYER_PARAMS && own_of(l)->params[i].name; i++)
        params[i] = nn_export_param(x, nn_layer_param(x->net, l, i));
    return own_of(l)->export(x->graph, l->name.ptr, l->fields, inputs[0], params);
}

ty_err nn_layer_register(const struct nn_own_layer *kind)
{
    static const char *const ours[] = {
#define LAYER(name) #name,
#include "nn/layers.def"
#undef LAYER
    };
    ty_assert(kind->name && kind->forward && kind->backward);
    for (size_t i = 0; i < TY_COUNT(ours) + own_count; i++)
        if (strcmp(i < TY_COUNT(ours) ? ours[i] : OWN[i - TY_COUNT(ours)].layer->name,
                   kind->name) == 0)
            return ty_fail(TY_ALREADY_EXISTS, "there is a layer '%s' already", kind->name);
    if (own_count == NN_MAX_OWN)
        return ty_fail(TY_RESOURCE_EXHAUSTED, "more than %d kinds of layers", NN_MAX_OWN);
    OWN[own_count].layer = kind;
    OWN[own_count++].kind = (struct nn_layer_kind){.name = kind->name,
                                                   .keys = kind->fields,
                                                   .read = own_read,
                                                   .shape = own_shape,
                                                   .plan = own_plan,
                                                   .scratch = own_scratch,
                                                   .init = own_init,
                                                   .forward = own_forward,
                                                   .backward = own_backward,
                                                   .export = kind->export ? own_export : NULL};
    return TY_OK;
}
