/* model_net.c -- the sections network and wide. */
#include "nn/nn_int.h"

static const struct nn_layer_kind *const KINDS[] = {
#define LAYER(name) &nn_layer_##name,
#include "nn/layers.def"
#undef LAYER
};
enum { FIRST_KIND = 3 }; /* that `layers` may name; those before are made of other fields */

/* ---- what features and wide layers read ---- */

/* The slot of a row that holds this value, a new one if none does yet. */
static size_t slot_of(struct nn_model *m, size_t value)
{
    bool id = m->values[value].type == NN_CATEGORY;
    size_t *list = id ? m->id_values : m->float_values,
           *count = id ? &m->slots_id : &m->slots_float;
    for (size_t i = 0; i < *count; i++)
        if (list[i] == value)
            return i;
    list[*count] = value;
    return (*count)++;
}

static ty_err part_kind_read(struct nn_reader *r, const json_t *item, struct nn_part *p,
                             ty_str *ret_name)
{
    static const char *const keys[] = {"number", "indicator", "embedding", "size", NULL};
    int64_t size = 0;
    if (json_is_string(item)) {
        *ret_name = ty_str_dup(r->arena, ty_str_of(json_string_value(item)));
        return TY_OK;
    }
    ty_err err = nn_keys_check(r, item, keys);
    for (int i = 0; i < 3 && err == TY_OK; i++)
        if (json_object_get(item, keys[i])) {
            p->kind = (enum nn_part_kind)i;
            err = nn_read_str(r, item, keys[i], true, ret_name);
        }
    if (err == TY_OK && ret_name->len == 0)
        err = nn_fail(r, "must be a name, or one of number, indicator, embedding");
    if (err == TY_OK)
        err = nn_read_int(r, item, "size", p->kind == NN_EMBEDDING, 1, 65536, &size);
    p->width = (size_t)size;
    return err;
}

static ty_err part_read(struct nn_reader *r, const json_t *item, struct nn_layer *l, bool wide)
{
    struct nn_model *m = r->model;
    struct nn_part *p = &l->parts[l->part_count], *before = p - 1;
    ty_str name = {0};
    ty_err err = part_kind_read(r, item, p, &name);
    unsigned types = NN_BIT(NN_FLOAT) | NN_BIT(NN_INT);
    if (wide)
        types |= NN_BIT(NN_CATEGORY);
    else if (p->kind != NN_NUMBER)
        types = NN_BIT(NN_CATEGORY);
    if (err == TY_OK)
        err = nn_value_find(r, name, types, &p->value);
    if (err != TY_OK)
        return err;
    const struct nn_value *v = &m->values[p->value];
    if (wide) {
        p->kind = v->type == NN_CATEGORY ? NN_EMBEDDING : NN_NUMBER;
        p->width = m->heads[0].class_count;
    } else if (p->kind == NN_NUMBER) {
        p->width = 1;
    } else if (p->kind == NN_INDICATOR) {
        if (v->buckets > NN_MAX_UNITS)
            return nn_fail(r, "an indicator of %" PRId64 " buckets; use an embedding", v->buckets);
        p->width = (size_t)v->buckets;
    }
    p->slot = slot_of(m, p->value);
    p->from = l->part_count == 0 ? 0 : before->from + before->width;
    if (p->from + p->width > NN_MAX_UNITS)
        return nn_fail(r, "the input is wider than %d", NN_MAX_UNITS);
    l->part_count++;
    return TY_OK;
}

static ty_err parts_read(struct nn_reader *r, const json_t *list, struct nn_layer *l, bool wide)
{
    ty_err err = TY_OK;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > NN_MAX_VALUES)
        return nn_fail(r, "must be a list of 1 to %d names", NN_MAX_VALUES);
    l->parts = ty_new_array(r->arena, struct nn_part, json_array_size(list));
    for (size_t i = 0; i < json_array_size(list) && err == TY_OK; i++) {
        nn_enter_index(r, i);
        err = part_read(r, json_array_get(list, i), l, wide);
        nn_leave(r);
    }
    return err;
}

/* ---- layers ---- */

static ty_err layer_place(struct nn_reader *r, const struct nn_layer *layer)
{
    struct nn_model *m = r->model;
    if (m->layer_count == NN_MAX_LAYERS)
        return nn_fail(r, "more than %d layers", NN_MAX_LAYERS);
    for (size_t i = 0; i < m->layer_count; i++)
        if (ty_str_eq(m->layers[i].name, layer->name))
            return nn_fail(r, "two layers are named '%s'", layer->name.ptr);
    struct nn_layer *l = &m->layers[m->layer_count];
    *l = *layer;
    ty_err err = l->kind->shape(r, l);
    if (err == TY_OK && nn_layer_width(l) > (size_t)1 << 26)
        err = nn_fail(r, "the layer's output is too large");
    if (err == TY_OK)
        m->layer_count++;
    return err;
}

static ty_err inputs_find(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    struct nn_model *m = r->model;
    ty_str *names = ty_new_array(r->arena, ty_str, NN_MAX_INPUTS);
    if (json_object_get(object, "input") == NULL) {
        l->inputs[l->input_count++] = m->layer_count - 1;
        return TY_OK;
    }
    ty_err err = nn_read_names(r, object, "input", names, NN_MAX_INPUTS, &l->input_count);
    for (size_t i = 0; i < l->input_count && err == TY_OK; i++) {
        size_t k = 0;
        while (k < m->layer_count && !ty_str_eq(m->layers[k].name, names[i]))
            k++;
        l->inputs[i] = k;
        if (k == m->layer_count)
            err = nn_fail(r, "input: there is no layer '%s' before this one", names[i].ptr);
    }
    return err;
}

/* The kind whose name is a key of the object; NULL, and *ret_err, if there is none. */
static const struct nn_layer_kind *kind_find(struct nn_reader *r, const json_t *object,
                                             ty_err *ret_err)
{
    struct ty_buf b;
    if (!json_is_object(object)) {
        *ret_err = nn_fail(r, "must be a mapping, such as {dense: 32}");
        return NULL;
    }
    for (size_t i = FIRST_KIND; i < TY_COUNT(KINDS); i++)
        if (json_object_get(object, KINDS[i]->name))
            return KINDS[i];
    for (size_t i = 0; nn_own_kind(i); i++)
        if (json_object_get(object, nn_own_kind(i)->name))
            return nn_own_kind(i);
    ty_buf_init(&b, 400);
    for (size_t i = FIRST_KIND; i < TY_COUNT(KINDS); i++)
        ty_buf_addf(&b, "%s%s", i > FIRST_KIND ? ", " : "", KINDS[i]->name);
    for (size_t i = 0; nn_own_kind(i); i++)
        ty_buf_addf(&b, ", %s", nn_own_kind(i)->name);
    *ret_err = nn_fail(r, "names no kind of layer; there are %s", b.ptr);
    ty_buf_clear(&b);
    return NULL;
}

/* A dense stack may ask for batch_norm and dropout after each of its layers. */
static ty_err after_dense(struct nn_reader *r, const json_t *object, const struct nn_layer *dense)
{
    static const char *const keys[] = {"dropout", "batch_norm", NULL};
    ty_err err = TY_OK;
    for (int i = 0; keys[i] && err == TY_OK; i++) {
        const json_t *value = json_object_get(object, keys[i]);
        if (value == NULL || json_is_false(value) ||
            (json_is_number(value) && json_number_value(value) == 0))
            continue;
        struct nn_layer l = {.kind = i == 0 ? &nn_layer_dropout : &nn_layer_batch_norm,
                             .place = dense->place,
                             .inputs = {r->model->layer_count - 1},
                             .input_count = 1};
        l.name = ty_str_of(ty_format(r->arena, "%s/%s", dense->name.ptr, keys[i]));
        err = l.kind->read(r, object, &l);
        if (err == TY_OK && (i == 1 || l.rate > 0))
            err = layer_place(r, &l);
    }
    return err;
}

/* {dense: [32, 8], name: h} is h0 and h1. */
static ty_err dense_place(struct nn_reader *r, const json_t *object, struct nn_layer *l)
{
    double units[NN_MAX_LIST];
    size_t count = 0;
    ty_str name = l->name;
    ty_err err = nn_read_numbers(r, object, "dense", units, NN_MAX_LIST, &count);
    const json_t *given = json_object_get(object, "dense");
    bool list = json_is_array(given) || json_is_object(given) ||
                (json_is_string(given) &&
                 nn_parameter_find(r->model, ty_str_of(json_string_value(given))) != NULL &&
                 nn_parameter_find(r->model, ty_str_of(json_string_value(given)))->is_list);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        if (!(units[i] >= 1 && units[i] <= NN_MAX_UNITS) || units[i] != (double)(size_t)units[i])
            return nn_fail(r, "dense: %.10g units; 1 to %d are possible", units[i], NN_MAX_UNITS);
        l->units = (size_t)units[i];
        if (list)
            l->name = ty_str_of(ty_format(r->arena, "%s%zu", name.ptr, i));
        err = layer_place(r, l);
        if (err == TY_OK)
            err = after_dense(r, object, l);
        l->inputs[0] = r->model->layer_count - 1;
        l->input_count = 1;
    }
    return err;
}

static ty_err layer_read(struct nn_reader *r, const json_t *object, size_t index)
{
    static const char *const common[] = {"name", "input", NULL};
    struct nn_layer l = {.place = index + 1};
    const char *keys[16];
    size_t n = 0;
    ty_err err = TY_OK;
    l.kind = kind_find(r, object, &err);
    if (l.kind == NULL)
        return err;
    keys[n++] = l.kind->name;
    for (size_t i = 0; common[i]; i++)
        keys[n++] = common[i];
    for (size_t i = 0; l.kind->keys && l.kind->keys[i] && n < TY_COUNT(keys) - 1; i++)
        keys[n++] = l.kind->keys[i];
    keys[n] = NULL;
    err = nn_keys_check(r, object, keys);
    l.name = ty_str_of(ty_format(r->arena, "%s_%zu", l.kind->name, index));
    if (err == TY_OK)
        err = nn_read_str(r, object, "name", false, &l.name);
    if (err == TY_OK)
        err = inputs_find(r, object, &l);
    if (err == TY_OK)
        err = l.kind->read(r, object, &l);
    if (err == TY_OK)
        err = l.kind == &nn_layer_dense ? dense_place(r, object, &l) : layer_place(r, &l);
    return err;
}

static ty_err layers_read(struct nn_reader *r, const json_t *list)
{
    ty_err err = TY_OK;
    nn_enter(r, "layers");
    if (!json_is_array(list) || json_array_size(list) == 0)
        err = nn_fail(r, "must be a list of layers");
    for (size_t i = 0; i < json_array_size(list) && err == TY_OK; i++) {
        nn_enter_index(r, i);
        err = layer_read(r, json_array_get(list, i), i);
        nn_leave(r);
    }
    nn_leave(r);
    return err;
}

static ty_err network_read(struct nn_reader *r, const json_t *network)
{
    static const char *const keys[] = {"input", "layers", NULL};
    struct nn_layer l = {.name = TY_STR("features"), .kind = &nn_layer_features};
    bool is_image = r->model->images.height > 0;
    ty_err err = nn_keys_check(r, network, keys);
    if (err == TY_OK && is_image) {
        l = (struct nn_layer){.name = TY_STR("image"), .kind = &nn_layer_pixels};
        if (json_object_get(network, "input"))
            err = nn_fail(r, "'input' is for columns; layers of images begin with the image");
    } else if (err == TY_OK) {
        nn_enter(r, "input");
        err = parts_read(r, json_object_get(network, "input"), &l, false);
        nn_leave(r);
    }
    if (err == TY_OK)
        err = layer_place(r, &l);
    if (err == TY_OK)
        err = layers_read(r, json_object_get(network, "layers"));
    return err;
}

static ty_err wide_read(struct nn_reader *r, const json_t *wide)
{
    static const char *const keys[] = {"input", NULL};
    struct nn_layer l = {.name = TY_STR("wide"), .kind = &nn_layer_wide};
    ty_err err = nn_keys_check(r, wide, keys);
    if (err == TY_OK && r->model->head_count > 1)
        err = nn_fail(r, "a wide part is for a single head");
    if (r->model->layer_count > 0) {
        const struct nn_layer *last = &r->model->layers[r->model->layer_count - 1];
        l.inputs[l.input_count++] = r->model->layer_count - 1;
        if (err == TY_OK && nn_layer_width(last) != r->model->heads[0].class_count)
            err = nn_fail(r, "the last layer gives %zu numbers and the head needs %zu",
                          nn_layer_width(last), r->model->heads[0].class_count);
        if (err == TY_OK && last->activation != NN_LINEAR)
            err = nn_fail(r, "the last layer must have no activation: the head adds its own");
    }
    if (err == TY_OK) {
        nn_enter(r, "input");
        err = parts_read(r, json_object_get(wide, "input"), &l, true);
        nn_leave(r);
    }
    return err == TY_OK ? layer_place(r, &l) : err;
}

ty_err nn_read_network(struct nn_reader *r, const json_t *root)
{
    struct nn_model *m = r->model;
    const json_t *network = json_object_get(root, "network"), *wide = json_object_get(root, "wide");
    ty_err err = TY_OK;
    if (wide && m->images.height > 0)
        return nn_fail(r, "'wide' is for columns, not for images");
    if (network == NULL && wide == NULL)
        return nn_fail(r, "'network' is missing");
    m->float_values = ty_new_array(r->arena, size_t, NN_MAX_VALUES);
    m->id_values = ty_new_array(r->arena, size_t, NN_MAX_VALUES);
    if (network) {
        nn_enter(r, "network");
        err = network_read(r, network);
        nn_leave(r);
    }
    if (wide && err == TY_OK) {
        nn_enter(r, "wide");
        err = wide_read(r, wide);
        nn_leave(r);
    }
    return err;
}
