/* layer_dense.c -- y = f(x kernel + bias). */
#include "nn/nn_int.h"

#include <math.h>

enum { KERNEL, BIAS };

static const char *const ACTIVATIONS[] = {"linear", "relu", "sigmoid", "tanh", NULL};

static ty_err dense_read(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    int activation = 0; /* model_net.c reads the units: there may be several */
    ty_err err = nn_read_word(r, object, "activation", ACTIVATIONS, &activation);
    l->activation = (enum nn_activation)activation;
    if (err == TY_OK && l->input_count != 1)
        err = nn_fail(r, "dense reads one layer; put a concat before it");
    return err;
}

static ty_err dense_shape(struct nn_reader *r, struct nn_layer *l)
{
    (void)r;
    l->channels = l->units;
    return TY_OK;
}

static size_t width_in(const struct nn_net *n, const struct nn_layer *l)
{
    return nn_layer_width(&n->layers[l->inputs[0]]);
}

static void dense_plan(struct nn_net *n, struct nn_layer *l)
{
    size_t in = width_in(n, l);
    l->params[KERNEL] = nn_param_add(n, l, "kernel", SHAPE((int64_t)in, (int64_t)l->units));
    l->params[BIAS] = nn_param_add(n, l, "bias", SHAPE((int64_t)l->units));
}

static void dense_init(struct nn_net *n, const struct nn_layer *l)
{
    nn_init_glorot(n, nn_layer_param(n, l, KERNEL), width_in(n, l), l->units);
}

static size_t dense_scratch(const struct nn_net *n, const struct nn_layer *l, size_t rows)
{
    size_t in = width_in(n, l), out = l->units;
    size_t a = tensor_gemm_scratch(rows, out, in, TENSOR_PLAIN);
    size_t b = tensor_gemm_scratch(in, out, rows, TENSOR_PLAIN);
    size_t c = tensor_gemm_scratch(rows, in, out, TENSOR_TRANSPOSED);
    return a > b ? (a > c ? a : c) : (b > c ? b : c);
}

void nn_activate(float *y, size_t rows, size_t n, enum nn_activation f)
{
    size_t count = rows * n;
    if (f == NN_RELU)
        for (size_t i = 0; i < count; i++)
            y[i] = y[i] > 0 ? y[i] : 0;
    else if (f == NN_SIGMOID)
        for (size_t i = 0; i < count; i++)
            y[i] = 1 / (1 + expf(-y[i]));
    else if (f == NN_TANH)
        for (size_t i = 0; i < count; i++)
            y[i] = tanhf(y[i]);
}

void nn_activate_backward(float *dy, const float *y, size_t rows, size_t n, enum nn_activation f)
{
    size_t count = rows * n;
    if (f == NN_RELU)
        tensor_relu_backward(dy, y, count);
    else if (f == NN_SIGMOID)
        for (size_t i = 0; i < count; i++)
            dy[i] *= y[i] * (1 - y[i]);
    else if (f == NN_TANH)
        for (size_t i = 0; i < count; i++)
            dy[i] *= 1 - y[i] * y[i];
}

static void dense_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    size_t in = width_in(n, l), out = l->units;
    float *y = s->y[nn_layer_index(n, l)];
    struct tensor_matrix x = {s->y[l->inputs[0]], in, TENSOR_PLAIN};
    struct tensor_matrix w = {nn_layer_param(n, l, KERNEL)->data, out, TENSOR_PLAIN};
    tensor_gemm(s->rows, out, in, x, w, y, out, false, s->scratch);
    tensor_bias(y, nn_layer_param(n, l, BIAS)->data, s->rows, out, l->activation == NN_RELU);
    if (l->activation > NN_RELU)
        nn_activate(y, s->rows, out, l->activation);
}

static void dense_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    size_t i = nn_layer_index(n, l), in = width_in(n, l), out = l->units;
    const struct nn_param *kernel = nn_layer_param(n, l, KERNEL);
    float *dy = s->dy[i];
    bool add;
    float *dx = nn_input_grad(n, l, s, 0, &add);
    nn_activate_backward(dy, s->y[i], s->rows, out, l->activation);
    struct tensor_matrix x = {s->y[l->inputs[0]], in, TENSOR_TRANSPOSED};
    struct tensor_matrix g = {dy, out, TENSOR_PLAIN};
    tensor_gemm(in, out, s->rows, x, g, nn_shard_grad(s, kernel), out, false, s->scratch);
    tensor_row_sum(dy, s->rows, out, nn_shard_grad(s, nn_layer_param(n, l, BIAS)));
    if (dx == NULL)
        return;
    /* only the columns that somebody needs: of the features, those of embeddings */
    size_t from = n->need_from[l->inputs[0]], to = n->need_to[l->inputs[0]];
    struct tensor_matrix w = {kernel->data + from * out, out, TENSOR_TRANSPOSED};
    tensor_gemm(s->rows, to - from, out, g, w, dx + from, in, add, s->scratch);
}

struct graph_out nn_export_activation(struct nn_exporter *x, const char *name, struct graph_out in,
                                      enum nn_activation f)
{
    static const char *const ops[] = {"Identity", "Relu", "Sigmoid", "Tanh", "Softmax"};
    return f == NN_LINEAR ? in
                          : graph_op1(x->graph, ops[f], ty_format(x->arena, "%s/%s", name, ops[f]),
                                      DTYPE_FLOAT, in);
}

static struct graph_out dense_export(struct nn_exporter *x, const struct nn_layer *l,
                                     const struct graph_out *inputs)
{
    const struct nn_net *n = x->net;
    struct graph_out product =
        graph_op2(x->graph, "MatMul", nn_export_name(x, l->name, "MatMul"), DTYPE_FLOAT, inputs[0],
                  nn_export_param(x, nn_layer_param(n, l, KERNEL)));
    struct graph_out y =
        graph_op2(x->graph, "BiasAdd", nn_export_name(x, l->name, "BiasAdd"), DTYPE_FLOAT, product,
                  nn_export_param(x, nn_layer_param(n, l, BIAS)));
    return nn_export_activation(x, l->name.ptr, y, l->activation);
}

static const char *const keys[] = {"activation", "dropout", "batch_norm", "momentum", NULL};
const struct nn_layer_kind nn_layer_dense = {
    .name = "dense",
    .keys = keys,
    .read = dense_read,
    .shape = dense_shape,
    .plan = dense_plan,
    .scratch = dense_scratch,
    .init = dense_init,
    .forward = dense_forward,
    .backward = dense_backward,
    .export = dense_export,
};
