/* model_head.c -- the section head, or heads: labels, losses, classes, metrics.
 *
 * Heads are read before the network, which must know how many numbers they need, and connected to
 * its layers after it. */
#include "nn/nn_int.h"

static const char *const TYPES[] = {"regression", "binary", "multiclass", NULL};
static const char *const LOSSES[] = {"mse", "mae", "huber", "cross_entropy", NULL};

static ty_err classes_read(struct nn_reader *r, const json_t *head, struct nn_head *h)
{
    const json_t *list = json_object_get(head, "classes");
    bool binary = h->type == NN_BINARY;
    int64_t count = binary ? 2 : 0;
    ty_err err = TY_OK;
    h->class_count = 1;
    if (h->type == NN_REGRESSION)
        return list ? nn_fail(r, "'classes' is not for a regression") : TY_OK;
    if (json_is_array(list)) {
        ty_str *names = ty_new_array(r->arena, ty_str, json_array_size(list) + 1);
        err = nn_read_names(r, head, "classes", names, 65536, &h->class_count);
        h->classes = names;
        count = (int64_t)h->class_count;
    } else {
        err = nn_read_int(r, head, "classes", !binary, 2, 65536, &count);
    }
    if (err == TY_OK && (binary ? count != 2 : count < 2))
        err = nn_fail(r, "'classes': %s has %s", TYPES[h->type], binary ? "two" : "two or more");
    h->class_count = binary ? 1 : (size_t)count;
    return err;
}

static ty_err weights_read(struct nn_reader *r, const json_t *head, struct nn_head *h)
{
    size_t wanted = h->type == NN_BINARY ? 2 : h->class_count, count = 0;
    if (json_object_get(head, "class_weights") == NULL)
        return TY_OK;
    double *numbers = ty_new_array(r->arena, double, wanted);
    float *weights = ty_new_array(r->arena, float, wanted);
    ty_err err = nn_read_numbers(r, head, "class_weights", numbers, wanted, &count);
    if (err == TY_OK && (h->type == NN_REGRESSION || count != wanted))
        err = nn_fail(r, "'class_weights' needs a number for each class");
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        weights[i] = (float)numbers[i];
        if (!(numbers[i] >= 0 && numbers[i] <= 1e9))
            err = nn_fail(r, "'class_weights' must be 0 or more");
    }
    h->class_weights = weights;
    return err;
}

static ty_err label_find(struct nn_reader *r, const json_t *head, struct nn_head *h)
{
    const struct nn_model *m = r->model;
    ty_str label = {0};
    bool is_image = m->images.height > 0;
    ty_err err = nn_read_str(r, head, "label", !is_image, &label);
    if (err != TY_OK)
        return err;
    if (is_image && (label.len > 0 || h->type == NN_REGRESSION))
        return nn_fail(r, "%s",
                       label.len ? "'label': an image's class is its folder"
                                 : "images have classes: 'type' must be another");
    if (is_image)
        return TY_OK;
    for (size_t i = 0; i < m->column_count; i++)
        if (ty_str_eq(m->columns[i].name, label)) {
            if (m->columns[i].type == CSV_SKIP)
                break;
            if (m->columns[i].type == CSV_STRING && h->classes == NULL)
                return nn_fail(r, "label '%s' is a text: name the 'classes'", label.ptr);
            h->label = i;
            return TY_OK;
        }
    return nn_fail(r, "label: the input has no column '%s'", label.ptr);
}

static ty_err loss_read(struct nn_reader *r, const json_t *head, struct nn_head *h)
{
    int type = 0, loss = -1;
    ty_err err = nn_read_word(r, head, "type", TYPES, &type);
    if (err == TY_OK)
        err = nn_read_word(r, head, "loss", LOSSES, &loss);
    h->type = (enum nn_head_type)type;
    h->loss = loss >= 0 ? (enum nn_loss)loss : h->type == NN_REGRESSION ? NN_MSE : NN_CROSS_ENTROPY;
    if (err == TY_OK && (h->type == NN_REGRESSION) == (h->loss == NN_CROSS_ENTROPY))
        err = nn_fail(r, "loss '%s' does not fit type '%s'", LOSSES[h->loss], TYPES[h->type]);
    h->huber_delta = h->weight = 1;
    if (err == TY_OK)
        err = nn_read_float(r, head, "huber_delta", 1e-6, 1e9, &h->huber_delta);
    if (err == TY_OK)
        err = nn_read_float(r, head, "weight", 0, 1e9, &h->weight);
    return err;
}

/* The loss is always there: it is the first row and not to be named. */
static const struct {
    const char *name;
    int heads;
} METRICS[] = {
#define METRIC(name, heads, add, value) {#name, heads},
#include "nn/metrics.def"
#undef METRIC
};

static ty_err metric_check(struct nn_reader *r, ty_str name, enum nn_head_type type)
{
    struct ty_buf b;
    ty_buf_init(&b, 400);
    for (size_t i = 1; i < TY_COUNT(METRICS); i++) {
        if (!(METRICS[i].heads & 1 << type))
            continue;
        if (ty_str_is(name, METRICS[i].name)) {
            ty_buf_clear(&b);
            return TY_OK;
        }
        ty_buf_addf(&b, "%s%s", b.len ? ", " : "", METRICS[i].name);
    }
    nn_enter(r, "metrics");
    ty_err err =
        nn_fail(r, "no '%.60s' for a head of type %s; there are %s", name.ptr, TYPES[type], b.ptr);
    nn_leave(r);
    ty_buf_clear(&b);
    return err;
}

ty_err nn_read_metrics(struct nn_reader *r, const json_t *object, struct nn_head *h)
{
    ty_err err = nn_read_names(r, object, "metrics", h->metrics, NN_MAX_METRICS, &h->metric_count);
    for (size_t i = 0; i < h->metric_count && err == TY_OK; i++)
        err = metric_check(r, h->metrics[i], h->type);
    return err;
}

static ty_err head_read(struct nn_reader *r, const json_t *head, bool alone)
{
    static const char *const keys[] = {"type",    "label",         "output",      "loss",
                                       "name",    "input",         "weight",      "metrics",
                                       "classes", "class_weights", "huber_delta", NULL};
    struct nn_model *m = r->model;
    struct nn_head *h = &m->heads[m->head_count];
    ty_err err = nn_keys_check(r, head, keys);
    if (err == TY_OK)
        err = loss_read(r, head, h);
    if (err == TY_OK && !alone)
        err = nn_read_str(r, head, "name", true, &h->name);
    for (size_t i = 0; i < m->head_count && err == TY_OK; i++)
        if (ty_str_eq(m->heads[i].name, h->name))
            err = nn_fail(r, "two heads are named '%s'", h->name.ptr);
    h->output = alone ? TY_STR("output") : h->name;
    if (err == TY_OK)
        err = nn_read_str(r, head, "output", false, &h->output);
    for (size_t i = 0; i < m->head_count && err == TY_OK; i++)
        if (ty_str_eq(m->heads[i].output, h->output))
            err = nn_fail(r, "two heads have the output '%s'", h->output.ptr);
    if (err == TY_OK)
        err = classes_read(r, head, h);
    if (err == TY_OK)
        err = weights_read(r, head, h);
    if (err == TY_OK)
        err = label_find(r, head, h);
    if (err == TY_OK && json_object_get(head, "metrics"))
        err = nn_read_metrics(r, head, h);
    h->from = m->logits_each;
    m->logits_each += h->class_count;
    m->head_count += err == TY_OK;
    return err;
}

ty_err nn_read_heads(struct nn_reader *r, const json_t *root)
{
    const json_t *head = json_object_get(root, "head"), *heads = json_object_get(root, "heads");
    ty_err err = TY_OK;
    if ((head == NULL) == (heads == NULL))
        return nn_fail(r, head ? "'head' or 'heads', not both" : "'head' is missing");
    nn_enter(r, head ? "head" : "heads");
    if (head)
        err = head_read(r, head, true);
    else if (!json_is_array(heads) || json_array_size(heads) == 0 ||
             json_array_size(heads) > NN_MAX_HEADS)
        err = nn_fail(r, "must be a list of 1 to %d heads", NN_MAX_HEADS);
    else if (r->model->images.height > 0)
        err = nn_fail(r, "images have one 'head': their class");
    for (size_t i = 0; heads && err == TY_OK && i < json_array_size(heads); i++) {
        nn_enter_index(r, i);
        err = head_read(r, json_array_get(heads, i), false);
        nn_leave(r);
    }
    nn_leave(r);
    return err;
}

/* ---- and the layers ---- */

static ty_err head_connect(struct nn_reader *r, const json_t *head, struct nn_head *h)
{
    const struct nn_model *m = r->model;
    ty_str name = m->layers[m->layer_count - 1].name;
    ty_err err = nn_read_str(r, head, "input", false, &name);
    if (err != TY_OK)
        return err;
    h->layer = 0;
    while (h->layer < m->layer_count && !ty_str_eq(m->layers[h->layer].name, name))
        h->layer++;
    if (h->layer == m->layer_count)
        return nn_fail(r, "input: there is no layer '%s'", name.ptr);
    const struct nn_layer *l = &m->layers[h->layer];
    if (l->activation != NN_LINEAR)
        return nn_fail(r, "the layer '%s' must have no activation: the head adds its own",
                       name.ptr);
    if (nn_layer_width(l) != h->class_count)
        return nn_fail(r, "the layer '%s' gives %zu numbers and the head needs %zu", name.ptr,
                       nn_layer_width(l), h->class_count);
    return TY_OK;
}

/* A mistake of a layer, at its line. One field may be several: {dense: [8, 4]} is h0, h1. */
static ty_err layer_fail(struct nn_reader *r, const struct nn_layer *l, const char *what)
{
    size_t depth = r->depth;
    nn_enter(r, l->kind == &nn_layer_wide ? "wide" : "network");
    if (l->place > 0) {
        nn_enter(r, "layers");
        nn_enter_index(r, l->place - 1);
    }
    ty_err err = nn_fail(r, "the layer '%s' %s", l->name.ptr, what);
    r->depth = depth;
    return err;
}

/* Each layer but the heads' has readers, and those have none but their head. */
static ty_err layers_check(struct nn_reader *r)
{
    const struct nn_model *m = r->model;
    size_t readers[NN_MAX_LAYERS] = {0}, heads[NN_MAX_LAYERS] = {0};
    for (size_t i = 0; i < m->layer_count; i++)
        for (size_t k = 0; k < m->layers[i].input_count; k++)
            readers[m->layers[i].inputs[k]]++;
    for (size_t i = 0; i < m->head_count; i++)
        heads[m->heads[i].layer]++;
    for (size_t i = 0; i < m->layer_count; i++) {
        if (readers[i] + heads[i] == 0)
            return layer_fail(r, &m->layers[i], "is read by nothing");
        if (heads[i] > 1 || (heads[i] == 1 && readers[i] > 0))
            return layer_fail(r, &m->layers[i], "is a head's and is read by another, too");
    }
    return TY_OK;
}

ty_err nn_heads_connect(struct nn_reader *r, const json_t *root)
{
    const json_t *head = json_object_get(root, "head"), *heads = json_object_get(root, "heads");
    ty_err err = TY_OK;
    nn_enter(r, head ? "head" : "heads");
    for (size_t i = 0; i < r->model->head_count && err == TY_OK; i++) {
        if (heads)
            nn_enter_index(r, i);
        err = head_connect(r, head ? head : json_array_get(heads, i), &r->model->heads[i]);
        if (heads)
            nn_leave(r);
    }
    nn_leave(r);
    return err == TY_OK ? layers_check(r) : err;
}

bool nn_is_label(const struct nn_model *m, size_t column)
{
    for (size_t i = 0; i < m->head_count; i++)
        if (m->heads[i].label == column)
            return true;
    return false;
}
