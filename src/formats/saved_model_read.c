/* saved_model_read.c -- saved_model.pb, read as far as people and importers ask: signatures, nodes,
 * saver. Functions (TensorFlow 2 keeps the model's body there) are counted, not opened.
 *
 * Arrays are sized by counting a message's fields first, so memory is a small multiple of the
 * file. */
#include "formats/formats_int.h"

/* How many fields of that number a message has. */
static ty_err fields_count(ty_str message, uint32_t number, size_t *ret_count)
{
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    size_t count = 0;
    ty_err err;
    while ((err = wire_pb_next(&m, &f)) == TY_OK)
        count += f.number == number && f.type == WIRE_PB_BYTES;
    if (err != TY_OUT_OF_RANGE)
        return err;
    *ret_count = count;
    return TY_OK;
}

/* The next field of bytes; others are passed over. TY_OUT_OF_RANGE at the end. */
static ty_err bytes_next(struct wire_pb *m, struct wire_pb_field *f)
{
    ty_err err;
    do
        err = wire_pb_next(m, f);
    while (!err && f->type != WIRE_PB_BYTES);
    return err;
}

static ty_err end_of(ty_err err)
{
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

/* The last field of that number; empty if there is none. For strings and single messages. */
static ty_err bytes_of(ty_str message, uint32_t number, ty_str *ret_bytes)
{
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    ty_str found = {"", 0};
    ty_err err;
    while ((err = bytes_next(&m, &f)) == TY_OK)
        if (f.number == number)
            found = f.bytes;
    *ret_bytes = found;
    return end_of(err);
}

/* All fields of that number. */
static ty_err strings_of(struct ty_arena *a, ty_str message, uint32_t number,
                         const ty_str **ret_strings, size_t *ret_count)
{
    size_t count, n = 0;
    ty_err err = fields_count(message, number, &count);
    if (err)
        return err;
    ty_str *strings = ty_new_array(a, ty_str, count);
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    while ((err = bytes_next(&m, &f)) == TY_OK)
        if (f.number == number)
            strings[n++] = f.bytes;
    *ret_strings = strings;
    *ret_count = n;
    return end_of(err);
}

/* ---- signatures ---- */

/* TensorInfo { name = 1; dtype = 2; tensor_shape = 3; } */
static ty_err tensor_info(ty_str message, struct saved_tensor *t)
{
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    ty_err err;
    t->shape = SHAPE_ANY;
    while ((err = wire_pb_next(&m, &f)) == TY_OK) {
        if (f.number == 1 && f.type == WIRE_PB_BYTES)
            t->tensor = f.bytes;
        else if (f.number == 2 && f.type == WIRE_PB_VARINT && f.value < 200)
            t->dtype = (enum dtype)f.value;
        else if (f.number == 3 && f.type == WIRE_PB_BYTES &&
                 (err = shape_decode(f.bytes, &t->shape)) != TY_OK)
            return err;
    }
    return end_of(err);
}

/* map<string, TensorInfo> in field `number`. */
static ty_err tensors_of(struct ty_arena *a, ty_str message, uint32_t number,
                         struct saved_tensor **ret_tensors, size_t *ret_count)
{
    const ty_str *entries;
    ty_err err = strings_of(a, message, number, &entries, ret_count);
    if (err)
        return err;
    struct saved_tensor *tensors = ty_new_array(a, struct saved_tensor, *ret_count);
    for (size_t i = 0; i < *ret_count; i++) {
        ty_str info;
        if ((err = bytes_of(entries[i], 1, &tensors[i].key)) ||
            (err = bytes_of(entries[i], 2, &info)) || (err = tensor_info(info, &tensors[i])))
            return err;
    }
    *ret_tensors = tensors;
    return TY_OK;
}

static ty_err signatures_of(struct ty_arena *a, ty_str meta, struct saved_model *model)
{
    const ty_str *entries;
    ty_err err = strings_of(a, meta, 5, &entries, &model->signature_count);
    if (err)
        return err;
    model->signatures = ty_new_array(a, struct saved_signature, model->signature_count);
    for (size_t i = 0; i < model->signature_count; i++) {
        struct saved_signature *s = &model->signatures[i];
        ty_str body;
        if ((err = bytes_of(entries[i], 1, &s->key)) || (err = bytes_of(entries[i], 2, &body)) ||
            (err = tensors_of(a, body, 1, &s->inputs, &s->input_count)) ||
            (err = tensors_of(a, body, 2, &s->outputs, &s->output_count)) ||
            (err = bytes_of(body, 3, &s->method)))
            return err;
    }
    return TY_OK;
}

/* ---- nodes ---- */

/* An attribute that says what the node's values are. */
static ty_err attr_take(ty_str entry, struct saved_node *n)
{
    ty_str name, value;
    ty_err err = bytes_of(entry, 1, &name);
    if (err || (err = bytes_of(entry, 2, &value)))
        return err;
    bool is_type = ty_str_is(name, "dtype") || (ty_str_is(name, "T") && !n->dtype);
    if (!is_type && !ty_str_is(name, "shape"))
        return TY_OK;
    struct wire_pb m = wire_pb_of(value);
    struct wire_pb_field f;
    while ((err = wire_pb_next(&m, &f)) == TY_OK) {
        if (is_type && f.number == 6 && f.type == WIRE_PB_VARINT && f.value < 200)
            n->dtype = (enum dtype)f.value;
        else if (!is_type && f.number == 7 && f.type == WIRE_PB_BYTES &&
                 (err = shape_decode(f.bytes, &n->shape)) != TY_OK)
            return err;
    }
    return end_of(err);
}

static ty_err node_take(struct ty_arena *a, ty_str message, struct saved_node *n)
{
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    ty_err err = strings_of(a, message, 3, &n->inputs, &n->input_count);
    if (err)
        return err;
    n->shape = SHAPE_ANY;
    while ((err = bytes_next(&m, &f)) == TY_OK) {
        if (f.number == 1)
            n->name = f.bytes;
        else if (f.number == 2)
            n->op = f.bytes;
        else if (f.number == 5 && (err = attr_take(f.bytes, n)) != TY_OK)
            return err;
    }
    return end_of(err);
}

static ty_err nodes_of(struct ty_arena *a, ty_str graph, struct saved_model *model)
{
    const ty_str *nodes;
    ty_str library;
    ty_err err = strings_of(a, graph, 1, &nodes, &model->node_count);
    if (err || (err = bytes_of(graph, 2, &library)) ||
        (err = fields_count(library, 1, &model->function_count)))
        return err;
    model->nodes = ty_new_array(a, struct saved_node, model->node_count);
    for (size_t i = 0; i < model->node_count && !err; i++)
        err = node_take(a, nodes[i], &model->nodes[i]);
    return err;
}

/* ---- the whole ---- */

static ty_err meta_parse(struct ty_arena *a, ty_str meta, struct saved_model *model)
{
    ty_str info, graph, saver, objects;
    ty_err err = bytes_of(meta, 1, &info);
    if (err || (err = bytes_of(meta, 2, &graph)) || (err = bytes_of(meta, 3, &saver)) ||
        (err = bytes_of(meta, 7, &objects)) ||
        (err = strings_of(a, info, 4, &model->tags, &model->tag_count)) ||
        (err = bytes_of(info, 5, &model->tensorflow_version)) ||
        (err = bytes_of(saver, 1, &model->filename_tensor)) ||
        (err = bytes_of(saver, 3, &model->restore_op)) || (err = signatures_of(a, meta, model)) ||
        (err = nodes_of(a, graph, model)))
        return err;
    model->has_object_graph = objects.len > 0;
    return TY_OK;
}

static ty_err has_tag(struct ty_arena *a, ty_str meta, bool *ret_has)
{
    ty_str info;
    const ty_str *tags;
    size_t count;
    ty_err err = bytes_of(meta, 1, &info);
    if (err || (err = strings_of(a, info, 4, &tags, &count)))
        return err;
    *ret_has = false;
    for (size_t i = 0; i < count; i++)
        *ret_has |= ty_str_is(tags[i], "serve");
    return TY_OK;
}

ty_err saved_model_parse(struct ty_arena *a, ty_str bytes, struct saved_model *ret_model)
{
    if (bytes.len > SAVED_MODEL_BYTES)
        return ty_fail(TY_RESOURCE_EXHAUSTED, "saved_model.pb is larger than %d bytes",
                       SAVED_MODEL_BYTES);
    const ty_str *metas = NULL;
    size_t count = 0, pick = 0;
    ty_err err = strings_of(a, bytes, 2, &metas, &count);
    if (!err && count == 0)
        err = ty_fail(TY_DATA_LOSS, "it has no MetaGraph");
    for (size_t i = count; i-- > 0 && !err;) {
        bool has = false;
        err = has_tag(a, metas[i], &has);
        pick = has ? i : pick;
    }
    struct saved_model model = {0};
    if (!err)
        err = meta_parse(a, metas[pick], &model);
    if (err)
        return ty_wrap(err, "no saved_model.pb");
    *ret_model = model;
    return TY_OK;
}
