/* export.c -- the network as a graph that takes what was in the CSV.
 *
 * Placeholders are the columns that the features read, each of shape (batch); every feature and
 * layer adds its own nodes; the head adds the outputs that Keras or the Estimator would give. */
#include "nn/nn_int.h"

enum { OUTPUTS_OF_A_HEAD = 5 };

const char *nn_export_name(struct nn_exporter *x, ty_str scope, const char *name)
{
    return ty_format(x->arena, TY_STR_FMT "/%s", TY_STR_ARG(scope), name);
}

struct graph_out nn_export_value(struct nn_exporter *x, size_t value)
{
    const struct nn_value *v = &x->net->model->values[value];
    if (x->values[value].node == NULL)
        x->values[value] = v->kind->export(x, v);
    return x->values[value];
}

struct graph_out nn_export_param(struct nn_exporter *x, const struct nn_param *p)
{
    return graph_variable(x->graph, p->name.ptr, DTYPE_FLOAT, &p->shape);
}

struct graph_out nn_export_cast(struct nn_exporter *x, const char *name, struct graph_out in,
                                enum dtype from, enum dtype to)
{
    struct graph_node *node = graph_node(x->graph, "Cast", name);
    graph_input(node, in);
    graph_attr_type(node, "SrcT", from);
    graph_attr_type(node, "DstT", to);
    return graph_out(node, 0);
}

struct graph_out nn_export_column(struct nn_exporter *x, const char *name, struct graph_out in,
                                  enum dtype t)
{
    struct graph_node *node = graph_node(x->graph, "ExpandDims", name);
    graph_input(node, in);
    graph_input(node, graph_const_i32(x->graph, ty_format(x->arena, "%s/axis", name), 1));
    graph_attr_type(node, "T", t);
    graph_attr_type(node, "Tdim", DTYPE_INT32);
    return graph_out(node, 0);
}

/* Rows of a table; zeros for an id of -1, which the op itself would refuse. */
struct graph_out nn_export_gather(struct nn_exporter *x, const char *name, struct graph_out table,
                                  struct graph_out ids)
{
    struct graph *g = x->graph;
    struct graph_out zero = graph_const_i64(g, ty_format(x->arena, "%s/zero", name), 0);
    struct graph_out safe =
        graph_op2(g, "Maximum", ty_format(x->arena, "%s/safe", name), DTYPE_INT64, ids, zero);
    struct graph_node *node = graph_node(g, "GatherV2", name);
    graph_input(node, table);
    graph_input(node, safe);
    graph_input(node, graph_const_i32(g, ty_format(x->arena, "%s/axis", name), 0));
    graph_attr_type(node, "Tparams", DTYPE_FLOAT);
    graph_attr_type(node, "Tindices", DTYPE_INT64);
    graph_attr_type(node, "Taxis", DTYPE_INT32);
    graph_attr_int(node, "batch_dims", 0);
    struct graph_node *there = graph_node(g, "GreaterEqual", ty_format(x->arena, "%s/there", name));
    graph_input(there, ids);
    graph_input(there, zero);
    graph_attr_type(there, "T", DTYPE_INT64);
    struct graph_out mask = nn_export_cast(x, ty_format(x->arena, "%s/mask", name),
                                           graph_out(there, 0), DTYPE_BOOL, DTYPE_FLOAT);
    return graph_op2(
        g, "Mul", ty_format(x->arena, "%s/masked", name), DTYPE_FLOAT, graph_out(node, 0),
        nn_export_column(x, ty_format(x->arena, "%s/column", name), mask, DTYPE_FLOAT));
}

struct graph_out nn_export_concat(struct nn_exporter *x, const char *name,
                                  const struct graph_out *parts, size_t count)
{
    if (count == 1)
        return parts[0];
    struct graph_node *node = graph_node(x->graph, "ConcatV2", name);
    for (size_t i = 0; i < count; i++)
        graph_input(node, parts[i]);
    graph_input(node, graph_const_i32(x->graph, ty_format(x->arena, "%s/axis", name), -1));
    graph_attr_int(node, "N", (int64_t)count);
    graph_attr_type(node, "T", DTYPE_FLOAT);
    graph_attr_type(node, "Tidx", DTYPE_INT32);
    return graph_out(node, 0);
}

/* ---- the signature ---- */

static void tensor_add(struct nn_exporter *x, struct saved_tensor *list, size_t *count, ty_str key,
                       struct graph_out out, enum dtype t, struct shape s)
{
    ty_str name = graph_node_name(out.node);
    list[(*count)++] = (struct saved_tensor){
        key, ty_str_of(ty_format(x->arena, TY_STR_FMT ":%d", TY_STR_ARG(name), out.port)), t, s};
}

/* Which columns some feature of the network reads. */
static void used_mark(const struct nn_model *m, size_t value, bool *used)
{
    used[value] = true;
    for (size_t i = 0; i < m->values[value].input_count; i++)
        used_mark(m, m->values[value].inputs[i], used);
}

static void inputs_export(struct nn_exporter *x, struct saved_signature *sig)
{
    const struct nn_model *m = x->net->model;
    bool *used = ty_new_array(x->arena, bool, m->value_count + 1);
    if (m->images.height > 0) {
        struct shape any = SHAPE(-1, -1, -1, (int64_t)m->images.channels);
        x->image = graph_placeholder(x->graph, "image", DTYPE_FLOAT, &any);
        tensor_add(x, sig->inputs, &sig->input_count, TY_STR("image"), x->image, DTYPE_FLOAT, any);
    }
    for (size_t i = 0; i < m->slots_float; i++)
        used_mark(m, m->float_values[i], used);
    for (size_t i = 0; i < m->slots_id; i++)
        used_mark(m, m->id_values[i], used);
    for (size_t i = 0; i < m->column_count; i++) {
        static const enum dtype types[] = {DTYPE_FLOAT, DTYPE_INT64, DTYPE_STRING};
        if (!used[i])
            continue;
        enum dtype t = types[m->columns[i].type];
        x->values[i] = graph_placeholder(x->graph, m->columns[i].name.ptr, t, &SHAPE(-1));
        tensor_add(x, sig->inputs, &sig->input_count, m->columns[i].name, x->values[i], t,
                   SHAPE(-1));
    }
}

/* Names of a head's nodes, and of its outputs if there are several heads. */
static const char *scoped(struct nn_exporter *x, const struct nn_head *h, const char *name)
{
    return ty_format(x->arena, "%s/%s", h->name.len ? h->name.ptr : "head", name);
}

static ty_str output_key(struct nn_exporter *x, const struct nn_head *h, const char *name)
{
    return ty_str_of(h->name.len ? ty_format(x->arena, "%s_%s", h->name.ptr, name) : name);
}

/* The names of the classes of (batch) ids: (batch, 1) strings. */
static struct graph_out class_names(struct nn_exporter *x, const struct nn_head *h,
                                    struct graph_out ids, size_t count)
{
    ty_str *names = ty_new_array(x->arena, ty_str, count);
    for (size_t i = 0; i < count; i++)
        names[i] = h->classes ? h->classes[i] : ty_str_of(ty_format(x->arena, "%zu", i));
    struct graph_node *node = graph_node(x->graph, "GatherV2", scoped(x, h, "classes"));
    graph_input(
        node, graph_const_strings(x->graph, scoped(x, h, "names"), &SHAPE((int64_t)count), names));
    graph_input(node, ids);
    graph_input(node, graph_const_i32(x->graph, scoped(x, h, "names/axis"), 0));
    graph_attr_type(node, "Tparams", DTYPE_STRING);
    graph_attr_type(node, "Tindices", DTYPE_INT64);
    graph_attr_type(node, "Taxis", DTYPE_INT32);
    graph_attr_int(node, "batch_dims", 0);
    return nn_export_column(x, scoped(x, h, "classes/column"), graph_out(node, 0), DTYPE_STRING);
}

static struct graph_out class_ids(struct nn_exporter *x, const struct nn_head *h,
                                  struct graph_out logits)
{
    struct graph_node *top = graph_node(x->graph, "ArgMax", scoped(x, h, "class_ids"));
    graph_input(top, logits);
    graph_input(top, graph_const_i32(x->graph, scoped(x, h, "class_ids/axis"), -1));
    graph_attr_type(top, "T", DTYPE_FLOAT);
    graph_attr_type(top, "Tidx", DTYPE_INT32);
    graph_attr_type(top, "output_type", DTYPE_INT64);
    return graph_out(top, 0);
}

/* As the Estimator's heads: logits, logistic (binary), probabilities, class_ids, classes. */
static void classes_export(struct nn_exporter *x, const struct nn_head *h, struct graph_out logits,
                           struct saved_signature *sig)
{
    bool binary = h->type == NN_BINARY;
    size_t count = binary ? 2 : h->class_count, *at = &sig->output_count;
    struct saved_tensor *to = sig->outputs;
    struct graph *g = x->graph;
    struct graph_out both = logits;
    tensor_add(x, to, at, output_key(x, h, "logits"), logits, DTYPE_FLOAT,
               SHAPE(-1, (int64_t)h->class_count));
    if (binary) {
        struct graph_out logistic =
            graph_op1(g, "Sigmoid", scoped(x, h, "logistic"), DTYPE_FLOAT, logits);
        tensor_add(x, to, at, output_key(x, h, "logistic"), logistic, DTYPE_FLOAT, SHAPE(-1, 1));
        struct graph_out pair[2] = {
            graph_op1(g, "ZerosLike", scoped(x, h, "zeros"), DTYPE_FLOAT, logits), logits};
        both = nn_export_concat(x, scoped(x, h, "two_class_logits"), pair, 2);
    }
    struct graph_out p = graph_op1(g, "Softmax", scoped(x, h, "probabilities"), DTYPE_FLOAT, both);
    tensor_add(x, to, at, output_key(x, h, "probabilities"), p, DTYPE_FLOAT,
               SHAPE(-1, (int64_t)count));
    struct graph_out ids = class_ids(x, h, both);
    tensor_add(x, to, at, output_key(x, h, "class_ids"),
               nn_export_column(x, scoped(x, h, "class_ids/column"), ids, DTYPE_INT64), DTYPE_INT64,
               SHAPE(-1, 1));
    tensor_add(x, to, at, output_key(x, h, "classes"), class_names(x, h, ids, count), DTYPE_STRING,
               SHAPE(-1, 1));
}

const struct nn_layer *nn_export_obstacle(const struct nn_model *m)
{
    for (size_t i = 0; i < m->layer_count; i++)
        if (m->layers[i].kind->export == NULL)
            return &m->layers[i];
    return NULL;
}

ty_err nn_export(const struct nn_net *n, struct ty_arena *a, struct graph *g,
                 struct saved_signature *ret_signature)
{
    const struct nn_model *m = n->model;
    const struct nn_layer *obstacle = nn_export_obstacle(m);
    if (obstacle)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "the layer '%s' cannot be exported: its kind, %s, has no 'export'",
                       obstacle->name.ptr, obstacle->kind->name);
    struct nn_exporter x = {.net = n, .arena = a, .graph = g};
    struct saved_signature sig = {.key = TY_STR("serving_default"),
                                  .method = TY_STR("tensorflow/serving/predict")};
    sig.inputs = ty_new_array(a, struct saved_tensor, m->column_count + 1);
    sig.outputs = ty_new_array(a, struct saved_tensor, OUTPUTS_OF_A_HEAD * m->head_count);
    x.values = ty_new_array(a, struct graph_out, m->value_count + 1);
    inputs_export(&x, &sig);
    struct graph_out *outs = ty_new_array(a, struct graph_out, n->layer_count);
    for (size_t i = 0; i < n->layer_count; i++) {
        struct graph_out inputs[NN_MAX_INPUTS];
        for (size_t k = 0; k < n->layers[i].input_count; k++)
            inputs[k] = outs[n->layers[i].inputs[k]];
        outs[i] = n->layers[i].kind->export(&x, &n->layers[i], inputs);
    }
    for (size_t i = 0; i < m->head_count; i++) {
        const struct nn_head *h = &m->heads[i];
        if (h->type == NN_REGRESSION)
            tensor_add(&x, sig.outputs, &sig.output_count, h->output, outs[h->layer], DTYPE_FLOAT,
                       SHAPE(-1, 1));
        else
            classes_export(&x, h, outs[h->layer], &sig);
    }
    *ret_signature = sig;
    return TY_OK;
}
