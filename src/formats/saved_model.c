/* saved_model.c -- saved_model.pb and fingerprint.pb, written.
 *
 *   SavedModel   { saved_model_schema_version = 1; repeated MetaGraphDef meta_graphs = 2; }
 *   MetaGraphDef { meta_info_def = 1; graph_def = 2; saver_def = 3; map collection_def = 4;
 *                  map signature_def = 5; }
 *
 * The TF1 form: variables are named resources, and a subgraph "save/" reads them from the bundle
 * when it runs. TensorFlow Serving and tf.saved_model.load run save/restore_all with the bundle's
 * path fed to save/Const; tf.saved_model.load finds the variables through the collection
 * "variables". */
#include "formats/formats_int.h"

static ty_str text_of(struct ty_arena *a, ty_str name, const char *suffix)
{
    return ty_str_of(ty_format(a, TY_STR_FMT "%s", TY_STR_ARG(name), suffix));
}

/* ---- the save subgraph ---- */

struct saver {
    struct graph *graph;
    const struct graph_variable *variables;
    size_t count;
    struct graph_out path, names, slices;
    enum dtype *types;
    ty_str path_name, save_name, restore_name;
};

/* The path, fed by whoever loads the model; and the tensors' names. */
static void saver_constants(struct saver *s)
{
    struct graph *g = s->graph;
    struct ty_arena *a = graph_arena(g);
    ty_str model = TY_STR("model");
    struct graph_out input = graph_const_strings(g, "save/filename/input", &SHAPE_SCALAR, &model);
    struct graph_node *path = graph_node(g, "PlaceholderWithDefault", "save/Const");
    graph_input(path, input);
    graph_attr_type(path, "dtype", DTYPE_STRING);
    graph_attr_shape(path, "shape", &SHAPE_SCALAR);
    s->path = graph_out(path, 0);
    s->path_name = text_of(a, graph_node_name(path), ":0");

    ty_str *names = ty_new_array(a, ty_str, s->count), *slices = ty_new_array(a, ty_str, s->count);
    s->types = ty_new_array(a, enum dtype, s->count);
    for (size_t i = 0; i < s->count; i++) {
        names[i] = s->variables[i].name;
        slices[i] = (ty_str){"", 0};
        s->types[i] = s->variables[i].dtype;
    }
    struct shape all = SHAPE((int64_t)s->count);
    s->names = graph_const_strings(g, "save/tensor_names", &all, names);
    s->slices = graph_const_strings(g, "save/shape_and_slices", &all, slices);
}

static void saver_restore(struct saver *s)
{
    struct graph *g = s->graph;
    struct graph_node *restore = graph_node(g, "RestoreV2", "save/RestoreV2");
    graph_input(restore, s->path);
    graph_input(restore, s->names);
    graph_input(restore, s->slices);
    graph_attr_types(restore, "dtypes", s->types, s->count);
    struct graph_node *all = graph_node(g, "NoOp", "save/restore_all");
    for (size_t i = 0; i < s->count; i++) {
        struct graph_node *assign = graph_node(g, "AssignVariableOp", "save/AssignVariableOp");
        graph_input(assign, graph_out(s->variables[i].handle, 0));
        graph_input(assign, graph_out(restore, (int)i));
        graph_attr_type(assign, "dtype", s->types[i]);
        graph_control(all, assign);
    }
    s->restore_name = graph_node_name(all);
}

static void saver_save(struct saver *s)
{
    struct graph *g = s->graph;
    struct graph_node *save = graph_node(g, "SaveV2", "save/SaveV2");
    graph_input(save, s->path);
    graph_input(save, s->names);
    graph_input(save, s->slices);
    for (size_t i = 0; i < s->count; i++) {
        struct graph_node *read = graph_node(g, "ReadVariableOp", "save/ReadVariableOp");
        graph_input(read, graph_out(s->variables[i].handle, 0));
        graph_attr_type(read, "dtype", s->types[i]);
        graph_input(save, graph_out(read, 0));
    }
    graph_attr_types(save, "dtypes", s->types, s->count);
    struct graph_node *done = graph_node(g, "Identity", "save/control_dependency");
    graph_input(done, s->path);
    graph_control(done, save);
    graph_attr_type(done, "T", DTYPE_STRING);
    s->save_name = text_of(graph_arena(g), graph_node_name(done), ":0");
}

static void saver_encode(const struct saver *s, struct ty_buf *b)
{
    enum { KEEP = 5, EVERY_HOURS = 10000, VERSION_2 = 2 };
    size_t saver = wire_pb_begin(b, 3);
    wire_pb_bytes(b, 1, s->path_name);
    wire_pb_bytes(b, 2, s->save_name);
    wire_pb_bytes(b, 3, s->restore_name);
    wire_pb_int(b, 4, KEEP);
    wire_pb_float(b, 6, EVERY_HOURS);
    wire_pb_int(b, 7, VERSION_2);
    wire_pb_end(b, saver);
}

/* ---- collections ---- */

static void variable_encode(struct graph *g, const struct graph_variable *v, struct ty_buf *b)
{
    struct ty_arena *a = graph_arena(g);
    size_t variable = wire_pb_begin(b, 1);
    wire_pb_bytes(b, 1, text_of(a, v->name, ":0"));
    wire_pb_bytes(b, 2, graph_node_name(v->initializer));
    wire_pb_bytes(b, 3, text_of(a, v->read_name, ":0"));
    wire_pb_int(b, 5, 1);
    wire_pb_bytes(b, 6, text_of(a, v->zeros_name, ":0"));
    wire_pb_int(b, 7, 1);
    wire_pb_end(b, variable);
}

static void collection_encode(const struct saver *s, ty_str name, struct ty_buf *b)
{
    size_t entry = wire_pb_begin(b, 4);
    wire_pb_bytes(b, 1, name);
    size_t collection = wire_pb_begin(b, 2);
    size_t list = wire_pb_begin(b, 2);
    for (size_t i = 0; i < s->count; i++)
        variable_encode(s->graph, &s->variables[i], b);
    wire_pb_end(b, list);
    wire_pb_end(b, collection);
    wire_pb_end(b, entry);
}

/* ---- signatures ---- */

static void tensors_encode(struct ty_buf *b, uint32_t field, const struct saved_tensor *tensors,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t entry = wire_pb_begin(b, field);
        wire_pb_bytes(b, 1, tensors[i].key);
        size_t info = wire_pb_begin(b, 2);
        wire_pb_bytes(b, 1, tensors[i].tensor);
        wire_pb_int(b, 2, tensors[i].dtype);
        size_t shape = wire_pb_begin(b, 3);
        shape_encode(b, &tensors[i].shape);
        wire_pb_end(b, shape);
        wire_pb_end(b, info);
        wire_pb_end(b, entry);
    }
}

static void signature_encode(struct ty_buf *b, const struct saved_signature *s)
{
    size_t entry = wire_pb_begin(b, 5);
    wire_pb_bytes(b, 1, s->key);
    size_t signature = wire_pb_begin(b, 2);
    tensors_encode(b, 1, s->inputs, s->input_count);
    tensors_encode(b, 2, s->outputs, s->output_count);
    wire_pb_bytes(b, 3, s->method);
    wire_pb_end(b, signature);
    wire_pb_end(b, entry);
}

/* ---- the whole ---- */

static void meta_info_encode(struct ty_buf *b)
{
    size_t info = wire_pb_begin(b, 1);
    wire_pb_bytes(b, 4, TY_STR("serve"));
    wire_pb_bytes(b, 5, TY_STR("2.15.1")); /* the version whose form this is */
    wire_pb_bytes(b, 6, TY_STR("trainyard-" TY_VERSION));
    wire_pb_end(b, info);
}

ty_err saved_model_encode(struct graph *g, const struct saved_signature *signatures, size_t count,
                          struct ty_buf *b)
{
    struct saver s = {.graph = g};
    s.count = graph_variables(g, &s.variables);
    if (s.count) { /* without variables there is nothing to restore, and no bundle */
        saver_constants(&s);
        saver_restore(&s);
        saver_save(&s);
    }
    wire_pb_int(b, 1, 1);
    size_t meta = wire_pb_begin(b, 2);
    meta_info_encode(b);
    size_t graph = wire_pb_begin(b, 2);
    graph_encode(g, b);
    wire_pb_end(b, graph);
    if (s.count) {
        saver_encode(&s, b);
        collection_encode(&s, TY_STR("trainable_variables"), b);
        collection_encode(&s, TY_STR("variables"), b);
    }
    for (size_t i = 0; i < count; i++)
        signature_encode(b, &signatures[i]);
    wire_pb_end(b, meta);
    return ty_buf_check(b, "saved_model.pb");
}

/* FingerprintDef { fixed by TensorFlow: saved_model_checksum = 1, graph_def_program_hash = 2,
 * signature_def_hash = 3, saved_object_graph_hash = 4, checkpoint_hash = 5, version = 6 }. The
 * first and the fifth are TensorFlow's own (Fingerprint64 of the files); 2 and 3 are its hashes of
 * forms it makes inside: here they follow from the first, so equal models have equal ones. */
void saved_model_fingerprint(ty_str saved_model_pb, ty_str variables_index, struct ty_buf *b)
{
    uint64_t model = fingerprint64(saved_model_pb);
    wire_pb_varint(b, 1, model);
    wire_pb_varint(b, 2, fingerprint_cat64(model, 2));
    wire_pb_varint(b, 3, fingerprint_cat64(model, 3));
    wire_pb_varint(b, 5, fingerprint64(variables_index));
    size_t version = wire_pb_begin(b, 6);
    wire_pb_int(b, 1, 1);
    wire_pb_end(b, version);
}
