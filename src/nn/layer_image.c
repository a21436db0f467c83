/* layer_image.c -- layers of images (height, width, channels): reshape, flatten, rescale, conv2d,
 * max_pool, average_pool. */
#include "nn/nn_int.h"

enum { KERNEL, BIAS, LARGEST_SIDE = 4096 };

static ty_err one_input(struct nn_reader *r, const struct nn_layer *l)
{
    return l->input_count == 1 ? TY_OK : nn_fail(r, "%s reads one layer", l->kind->name);
}

static const struct nn_layer *input_of(const struct nn_net *n, const struct nn_layer *l)
{
    return &n->layers[l->inputs[0]];
}

/* The input, if it is an image. */
static ty_err image_in(struct nn_reader *r, const struct nn_layer *l, const struct nn_layer **ret)
{
    *ret = &r->model->layers[l->inputs[0]];
    if ((*ret)->height > 0)
        return TY_OK;
    return nn_fail(r, "%s reads images, and '%s' gives a vector; reshape it", l->kind->name,
                   (*ret)->name.ptr);
}

static size_t count_of(const struct nn_layer *l, const struct nn_shard *s)
{
    return s->rows * nn_layer_width(l);
}

/* ---- reshape, flatten: the same numbers under another shape ---- */

static ty_err reshape_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    double dims[3];
    size_t count = 0;
    ty_err err = one_input(r, l);
    if (err == TY_OK)
        err = nn_read_numbers(r, object, "reshape", dims, 3, &count);
    if (err != TY_OK)
        return err;
    for (size_t i = 0; i < count; i++)
        if (!(dims[i] >= 1 && dims[i] <= LARGEST_SIDE))
            return nn_fail(r, "reshape: sides are from 1 to %d", LARGEST_SIDE);
    if (count != 3)
        return nn_fail(r, "reshape: [height, width, channels] are needed");
    l->height = (size_t)dims[0];
    l->width = (size_t)dims[1];
    l->channels = (size_t)dims[2];
    return TY_OK;
}

static ty_err reshape_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_layer *in = &r->model->layers[l->inputs[0]];
    if (nn_layer_width(in) == nn_layer_width(l))
        return TY_OK;
    return nn_fail(r, "reshape: '%s' gives %zu numbers, and %zu are needed", in->name.ptr,
                   nn_layer_width(in), nn_layer_width(l));
}

static ty_err flatten_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    (void)object;
    return one_input(r, l);
}

static ty_err flatten_shape(struct nn_reader *r, struct nn_layer *l)
{
    l->channels = nn_layer_width(&r->model->layers[l->inputs[0]]);
    return TY_OK;
}

static void same_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    memcpy(s->y[nn_layer_index(n, l)], s->y[l->inputs[0]], count_of(l, s) * sizeof(float));
}

static void scaled_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s,
                            float scale)
{
    bool add;
    float *dx = nn_input_grad(n, l, s, 0, &add);
    if (dx == NULL)
        return;
    if (!add)
        memset(dx, 0, count_of(l, s) * sizeof *dx);
    tensor_axpy(scale, s->dy[nn_layer_index(n, l)], dx, count_of(l, s));
}

static void same_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    scaled_backward(n, l, s, 1);
}

static struct graph_out reshaped(struct nn_exporter *x, const struct nn_layer *l,
                                 struct graph_out in, const int32_t *dims, int64_t rank)
{
    struct graph_node *node =
        graph_node(x->graph, "Reshape", nn_export_name(x, l->name, "Reshape"));
    graph_input(node, in);
    graph_input(node, graph_const(x->graph, nn_export_name(x, l->name, "shape"), DTYPE_INT32,
                                  &SHAPE(rank), dims));
    graph_attr_type(node, "T", DTYPE_FLOAT);
    graph_attr_type(node, "Tshape", DTYPE_INT32);
    return graph_out(node, 0);
}

static struct graph_out reshape_export(struct nn_exporter *x, const struct nn_layer *l,
                                       const struct graph_out *inputs)
{
    int32_t dims[4] = {-1, (int32_t)l->height, (int32_t)l->width, (int32_t)l->channels};
    return reshaped(x, l, inputs[0], dims, 4);
}

static struct graph_out flatten_export(struct nn_exporter *x, const struct nn_layer *l,
                                       const struct graph_out *inputs)
{
    int32_t dims[2] = {-1, (int32_t)l->channels};
    return reshaped(x, l, inputs[0], dims, 2);
}

const struct nn_layer_kind nn_layer_reshape = {
    .name = "reshape",
    .read = reshape_read,
    .shape = reshape_shape,
    .forward = same_forward,
    .backward = same_backward,
    .export = reshape_export,
};
const struct nn_layer_kind nn_layer_flatten = {
    .name = "flatten",
    .read = flatten_read,
    .shape = flatten_shape,
    .forward = same_forward,
    .backward = same_backward,
    .export = flatten_export,
};

/* ---- rescale: x times a number, plus an offset ---- */

static ty_err rescale_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    ty_err err = one_input(r, l);
    if (err == TY_OK)
        err = nn_read_float(r, object, "rescale", -1e6, 1e6, &l->scale);
    return err == TY_OK ? nn_read_float(r, object, "offset", -1e6, 1e6, &l->offset) : err;
}

static ty_err rescale_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_layer *in = &r->model->layers[l->inputs[0]];
    l->height = in->height;
    l->width = in->width;
    l->channels = in->channels;
    return TY_OK;
}

static void rescale_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const float *x = s->y[l->inputs[0]];
    float *y = s->y[nn_layer_index(n, l)];
    for (size_t i = 0; i < count_of(l, s); i++)
        y[i] = x[i] * l->scale + l->offset;
}

static void rescale_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    scaled_backward(n, l, s, l->scale);
}

static struct graph_out rescale_export(struct nn_exporter *x, const struct nn_layer *l,
                                       const struct graph_out *inputs)
{
    struct graph *g = x->graph;
    struct graph_out y =
        graph_op2(g, "Mul", nn_export_name(x, l->name, "Mul"), DTYPE_FLOAT, inputs[0],
                  graph_const_f32(g, nn_export_name(x, l->name, "scale"), l->scale));
    return graph_op2(g, "AddV2", nn_export_name(x, l->name, "Add"), DTYPE_FLOAT, y,
                     graph_const_f32(g, nn_export_name(x, l->name, "offset"), l->offset));
}

static const char *const rescale_keys[] = {"offset", NULL};
const struct nn_layer_kind nn_layer_rescale = {
    .name = "rescale",
    .keys = rescale_keys,
    .read = rescale_read,
    .shape = rescale_shape,
    .forward = rescale_forward,
    .backward = rescale_backward,
    .export = rescale_export,
};

/* ---- conv2d ---- */

static const char *const ACTIVATIONS[] = {"linear", "relu", "sigmoid", "tanh", NULL};
static const char *const PADDINGS[] = {"valid", "same", NULL};

/* size, stride and padding, which pools have, too. */
static ty_err window_read(struct nn_reader *r, const json_t *object, struct nn_layer *l,
                          const char *size_key, int64_t size, int64_t stride)
{
    int padding = 0;
    ty_err err = one_input(r, l);
    if (err == TY_OK)
        err = nn_read_int(r, object, size_key, false, 1, 255, &size);
    if (stride == 0)
        stride = size;
    if (err == TY_OK)
        err = nn_read_int(r, object, "stride", false, 1, 255, &stride);
    if (err == TY_OK)
        err = nn_read_word(r, object, "padding", PADDINGS, &padding);
    l->size = (size_t)size;
    l->stride = (size_t)stride;
    l->same = padding == 1;
    return err;
}

static ty_err conv_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    int activation = 0;
    int64_t filters = 0;
    ty_err err = nn_read_int(r, object, "conv2d", true, 1, 65536, &filters);
    if (err == TY_OK)
        err = window_read(r, object, l, "size", 3, 1);
    if (err == TY_OK)
        err = nn_read_word(r, object, "activation", ACTIVATIONS, &activation);
    l->units = (size_t)filters;
    l->activation = (enum nn_activation)activation;
    return err;
}

static struct tensor_conv conv_of(const struct nn_layer *in, const struct nn_layer *l, size_t batch)
{
    struct tensor_conv c = {.batch = batch,
                            .height = in->height,
                            .width = in->width,
                            .in = in->channels,
                            .filter_height = l->size,
                            .filter_width = l->size,
                            .out = l->units,
                            .stride = l->stride};
    tensor_conv_shape(&c, l->same);
    return c;
}

static ty_err conv_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_layer *in;
    ty_err err = image_in(r, l, &in);
    if (err != TY_OK)
        return err;
    if (!l->same && (in->height < l->size || in->width < l->size))
        return nn_fail(r, "conv2d: the image is smaller than the filter");
    struct tensor_conv c = conv_of(in, l, 1);
    l->height = c.out_height;
    l->width = c.out_width;
    l->channels = l->units;
    return TY_OK;
}

static void conv_plan(struct nn_net *n, struct nn_layer *l)
{
    const struct nn_layer *in = input_of(n, l);
    l->params[KERNEL] = nn_param_add(
        n, l, "kernel",
        SHAPE((int64_t)l->size, (int64_t)l->size, (int64_t)in->channels, (int64_t)l->units));
    l->params[BIAS] = nn_param_add(n, l, "bias", SHAPE((int64_t)l->units));
}

static void conv_init(struct nn_net *n, const struct nn_layer *l)
{
    size_t window = l->size * l->size;
    nn_init_glorot(n, nn_layer_param(n, l, KERNEL), window * input_of(n, l)->channels,
                   window * l->units);
}

static size_t conv_scratch(const struct nn_net *n, const struct nn_layer *l, size_t rows)
{
    struct tensor_conv c = conv_of(input_of(n, l), l, rows);
    return tensor_conv_scratch(&c) + rows * nn_layer_width(input_of(n, l));
}

static void conv_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    struct tensor_conv c = conv_of(input_of(n, l), l, s->rows);
    float *y = s->y[nn_layer_index(n, l)];
    size_t places = s->rows * l->height * l->width;
    c.bias = nn_layer_param(n, l, BIAS)->data;
    c.relu = l->activation == NN_RELU;
    tensor_conv_forward(&c, s->y[l->inputs[0]], nn_layer_param(n, l, KERNEL)->data, y, s->scratch);
    if (l->activation > NN_RELU)
        nn_activate(y, places, l->units, l->activation);
}

static void conv_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const struct nn_layer *in = input_of(n, l);
    struct tensor_conv c = conv_of(in, l, s->rows);
    const struct nn_param *kernel = nn_layer_param(n, l, KERNEL);
    size_t at = nn_layer_index(n, l), places = s->rows * l->height * l->width;
    float *dy = s->dy[at];
    bool add;
    float *dx = nn_input_grad(n, l, s, 0, &add);
    float *bias = nn_shard_grad(s, nn_layer_param(n, l, BIAS));
    if (l->activation == NN_RELU) {
        tensor_relu_backward_sum(dy, s->y[at], places, l->units, bias);
    } else {
        nn_activate_backward(dy, s->y[at], places, l->units, l->activation);
        tensor_row_sum(dy, places, l->units, bias);
    }
    tensor_conv_backward_filter(&c, s->y[l->inputs[0]], dy, nn_shard_grad(s, kernel), s->scratch);
    if (dx == NULL)
        return;
    float *to = add ? s->scratch + tensor_conv_scratch(&c) : dx;
    tensor_conv_backward_data(&c, kernel->data, dy, to, s->scratch);
    if (add)
        tensor_axpy(1, to, dx, s->rows * nn_layer_width(in));
}

/* Attributes of an op that moves a window. */
static void window_attr(struct graph_node *node, const struct nn_layer *l)
{
    int64_t strides[4] = {1, (int64_t)l->stride, (int64_t)l->stride, 1};
    graph_attr_type(node, "T", DTYPE_FLOAT);
    graph_attr_ints(node, "strides", strides, 4);
    graph_attr_str(node, "padding", l->same ? "SAME" : "VALID");
    graph_attr_str(node, "data_format", "NHWC");
}

static struct graph_out conv_export(struct nn_exporter *x, const struct nn_layer *l,
                                    const struct graph_out *inputs)
{
    const struct nn_net *n = x->net;
    struct graph_node *node = graph_node(x->graph, "Conv2D", nn_export_name(x, l->name, "Conv2D"));
    graph_input(node, inputs[0]);
    graph_input(node, nn_export_param(x, nn_layer_param(n, l, KERNEL)));
    window_attr(node, l);
    struct graph_out y =
        graph_op2(x->graph, "BiasAdd", nn_export_name(x, l->name, "BiasAdd"), DTYPE_FLOAT,
                  graph_out(node, 0), nn_export_param(x, nn_layer_param(n, l, BIAS)));
    return nn_export_activation(x, l->name.ptr, y, l->activation);
}

static const char *const conv_keys[] = {"size", "stride", "padding", "activation", NULL};
const struct nn_layer_kind nn_layer_conv2d = {
    .name = "conv2d",
    .keys = conv_keys,
    .read = conv_read,
    .shape = conv_shape,
    .plan = conv_plan,
    .scratch = conv_scratch,
    .init = conv_init,
    .forward = conv_forward,
    .backward = conv_backward,
    .export = conv_export,
};

/* ---- pools ---- */

static ty_err max_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    return window_read(r, object, l, "max_pool", 2, 0);
}

static ty_err mean_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    return window_read(r, object, l, "average_pool", 2, 0);
}

static struct tensor_pool pool_of(const struct nn_layer *in, const struct nn_layer *l, size_t batch)
{
    struct tensor_pool p = {.batch = batch,
                            .height = in->height,
                            .width = in->width,
                            .channels = in->channels,
                            .size = l->size,
                            .stride = l->stride};
    tensor_pool_shape(&p, l->same);
    return p;
}

static ty_err pool_shape(struct nn_reader *r, struct nn_layer *l)
{
    const struct nn_layer *in;
    ty_err err = image_in(r, l, &in);
    if (err != TY_OK)
        return err;
    if (!l->same && (in->height < l->size || in->width < l->size))
        return nn_fail(r, "%s: the image is smaller than the window", l->kind->name);
    struct tensor_pool p = pool_of(in, l, 1);
    l->height = p.out_height;
    l->width = p.out_width;
    l->channels = in->channels;
    return TY_OK;
}

/* For the gradient, where it is added to another's. */
static size_t pool_scratch(const struct nn_net *n, const struct nn_layer *l, size_t rows)
{
    return rows * nn_layer_width(input_of(n, l));
}

static void max_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    struct tensor_pool p = pool_of(input_of(n, l), l, s->rows);
    size_t at = nn_layer_index(n, l);
    tensor_max_pool(&p, s->y[l->inputs[0]], s->y[at], s->which[at]);
}

static void mean_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    struct tensor_pool p = pool_of(input_of(n, l), l, s->rows);
    tensor_mean_pool(&p, s->y[l->inputs[0]], s->y[nn_layer_index(n, l)]);
}

static void pool_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    struct tensor_pool p = pool_of(input_of(n, l), l, s->rows);
    size_t at = nn_layer_index(n, l);
    bool add;
    float *dx = nn_input_grad(n, l, s, 0, &add), *to = add ? s->scratch : dx;
    if (dx == NULL)
        return;
    if (l->kind == &nn_layer_max_pool)
        tensor_max_pool_backward(&p, s->dy[at], s->which[at], to);
    else
        tensor_mean_pool_backward(&p, s->dy[at], to);
    if (add)
        tensor_axpy(1, to, dx, s->rows * nn_layer_width(input_of(n, l)));
}

static struct graph_out pool_export(struct nn_exporter *x, const struct nn_layer *l,
                                    const struct graph_out *inputs)
{
    const char *op = l->kind == &nn_layer_max_pool ? "MaxPool" : "AvgPool";
    int64_t size[4] = {1, (int64_t)l->size, (int64_t)l->size, 1};
    struct graph_node *node = graph_node(x->graph, op, nn_export_name(x, l->name, op));
    graph_input(node, inputs[0]);
    graph_attr_ints(node, "ksize", size, 4);
    window_attr(node, l);
    return graph_out(node, 0);
}

static const char *const pool_keys[] = {"stride", "padding", NULL};
const struct nn_layer_kind nn_layer_max_pool = {
    .name = "max_pool",
    .keys = pool_keys,
    .read = max_read,
    .shape = pool_shape,
    .scratch = pool_scratch,
    .forward = max_forward,
    .backward = pool_backward,
    .export = pool_export,
};
const struct nn_layer_kind nn_layer_average_pool = {
    .name = "average_pool",
    .keys = pool_keys,
    .read = mean_read,
    .shape = pool_shape,
    .scratch = pool_scratch,
    .forward = mean_forward,
    .backward = pool_backward,
    .export = pool_export,
};
