/* test_tool.c -- build/formats_tool: formats at the command line, for
 * tests/clients/test_formats.py.
 *
 * Each command is a row of the table below: what it reads from stdin or files and writes to stdout
 * or files, so that real TensorFlow can judge both directions. Not installed. */
#define TY_SEAM
#include "formats/formats.h"
#include "wire/wire.h"

static const size_t LIMIT = (size_t)1 << 31;

static struct ty_arena arena;

static void must(ty_err err)
{
    if (err == TY_OK)
        return;
    fprintf(stderr, "%s: %s\n", ty_err_name(err), ty_err_message());
    exit(1);
}

static ty_str input(void)
{
    struct ty_buf b;
    ty_buf_init(&b, LIMIT);
    char block[1 << 16];
    ssize_t n;
    while ((n = read(0, block, sizeof block)) > 0)
        ty_buf_add(&b, block, (size_t)n);
    must(ty_buf_check(&b, "stdin"));
    return ty_buf_str(&b); /* kept until exit */
}

static ty_str file(const char *path)
{
    ty_str bytes;
    must(ty_file_read(AT_FDCWD, path, LIMIT, &arena, &bytes));
    return bytes;
}

static void output(const struct ty_buf *b, const char *path)
{
    must(ty_buf_check(b, "the output"));
    if (path)
        must(ty_file_replace(AT_FDCWD, path, ty_buf_str(b), 0644));
    else
        must(ty_write_all(1, b->ptr, b->len));
}

/* ---- TFRecord and tf.Example ---- */

static void tfrecord_copy(char **args)
{
    (void)args;
    struct tfrecord_reader r = {.file = input()};
    struct ty_buf out;
    ty_buf_init(&out, LIMIT);
    ty_str record;
    ty_err err;
    while ((err = tfrecord_read(&r, &record)) == TY_OK)
        tfrecord_write(&out, record);
    if (err != TY_OUT_OF_RANGE)
        must(err);
    output(&out, NULL);
}

static void gunzip_all(char **args)
{
    (void)args;
    ty_str in = input();
    struct ty_buf out;
    ty_buf_init(&out, LIMIT);
    struct inflater *z = inflater_new();
    for (size_t before = 1; in.len || before != out.len;) {
        before = out.len;
        must(inflater_feed(z, &in, &out, 1000));
    }
    must(inflater_finish(z));
    inflater_free(z);
    output(&out, NULL);
}

/* Room for a record's values as listed. */
static struct example_slot *slots_make(const struct example_feature *features, size_t count)
{
    struct example_slot *slots = ty_new_array(&arena, struct example_slot, count);
    for (size_t i = 0; i < count; i++)
        slots[i].bytes = ty_alloc(&arena, features[i].most * sizeof(ty_str));
    return slots;
}

/* Decode each example by what it lists, encode it again. */
static void example_copy(char **args)
{
    (void)args;
    struct tfrecord_reader r = {.file = input()};
    struct ty_buf out, one;
    ty_buf_init(&out, LIMIT);
    ty_buf_init(&one, LIMIT);
    ty_str record;
    while (tfrecord_read(&r, &record) == TY_OK) {
        struct example_feature *features;
        struct example_schema schema;
        size_t count;
        must(example_list(&arena, record, &features, &count));
        must(example_schema_init(&schema, &arena, features, count));
        struct example_slot *slots = slots_make(features, count);
        must(example_decode(&schema, record, slots));
        example_encode(&one, features, slots, count);
        tfrecord_write(&out, ty_buf_str(&one));
        ty_buf_clear(&one);
    }
    output(&out, NULL);
}

/* ---- CSV ---- */

enum { ROWS = 1000 };

static void cell_print(const struct csv_column *c, const union csv_values *v, size_t row,
                       struct ty_buf *b)
{
    if (c->type == CSV_FLOAT) {
        uint32_t bits;
        memcpy(&bits, &v->floats[row], sizeof bits);
        ty_buf_addf(b, "%" PRIu32, bits);
    } else if (c->type == CSV_INT64) {
        ty_buf_addf(b, "%" PRId64, v->ints[row]);
    } else {
        wire_json_string(b, v->strings[row]);
    }
}

/* csv TYPES: f, i, s or x (skip) a column; a JSON array a row, floats as their bits. */
static void csv_print(char **args)
{
    size_t count = strlen(args[0]);
    struct csv_column *columns = ty_new_array(&arena, struct csv_column, count);
    union csv_values *out = ty_new_array(&arena, union csv_values, count);
    for (size_t i = 0; i < count; i++) {
        columns[i].type = (enum csv_type)(strchr("fisx", args[0][i]) - "fisx");
        columns[i].default_float = -1;
        columns[i].default_int = -1;
        columns[i].default_str = TY_STR("na");
        out[i].strings = ty_new_array(&arena, ty_str, ROWS);
    }
    struct csv_reader *r = ty_new(&arena, struct csv_reader);
    must(csv_reader_init(r, &arena, input(), ',', columns, count));
    struct ty_buf b;
    ty_buf_init(&b, LIMIT);
    size_t rows;
    ty_err err;
    while ((err = csv_read(r, ROWS, out, &rows)) == TY_OK)
        for (size_t row = 0; row < rows; row++)
            for (size_t i = 0; i < count; i++) {
                ty_buf_addz(&b, i ? "," : "[");
                if (columns[i].type == CSV_SKIP)
                    ty_buf_addz(&b, "null");
                else
                    cell_print(&columns[i], &out[i], row, &b);
                ty_buf_addz(&b, i + 1 == count ? "]\n" : "");
            }
    if (err != TY_OUT_OF_RANGE)
        must(err);
    output(&b, NULL);
}

/* ---- hashes ---- */

/* A line each: fingerprint64 and its bucket of 100. */
static void hash_print(char **args)
{
    (void)args;
    ty_str rest = input(), line;
    while (rest.len && (ty_str_split(&rest, '\n', &line) || line.len))
        printf("%" PRIu64 " %" PRId64 "\n", fingerprint64(line), hash_bucket(line, 100));
}

/* cross BUCKETS: a line of tab-separated columns each, "i:7" or "s:text"; the id. */
static void cross_print(char **args)
{
    int64_t buckets;
    must(ty_parse_i64(ty_str_of(args[0]), &buckets));
    ty_str rest = input(), line, word;
    while (rest.len && (ty_str_split(&rest, '\n', &line) || line.len)) {
        uint64_t features[16];
        size_t n = 0;
        for (bool more = true; more && n < TY_COUNT(features);) {
            more = ty_str_split(&line, '\t', &word);
            int64_t number = 0;
            ty_str value = ty_str_drop(word, 2);
            if (word.ptr[0] == 'i')
                must(ty_parse_i64(value, &number));
            features[n++] = word.ptr[0] == 'i' ? (uint64_t)number : fingerprint64(value);
        }
        printf("%" PRId64 "\n", cross_bucket(features, n, (uint64_t)buckets, CROSS_HASH_KEY));
    }
}

/* ---- events ---- */

static void events_write(char **args)
{
    (void)args;
    struct ty_buf b, graph_def;
    ty_buf_init(&b, LIMIT);
    ty_buf_init(&graph_def, LIMIT);
    event_version(&b, 1700000000.25);
    struct graph *g = graph_new(&arena);
    struct graph_out x = graph_placeholder(g, "x", DTYPE_FLOAT, &SHAPE(-1, 4));
    graph_op1(g, "Relu", "hidden/relu", DTYPE_FLOAT, x);
    graph_encode(g, &graph_def);
    event_graph(&b, 1700000000.5, ty_buf_str(&graph_def));
    for (int64_t step = 0; step < 100; step++)
        event_scalar(&b, 1700000001.0 + (double)step, step, TY_STR("epoch_loss"),
                     1.0f / (float)(step + 1));
    float values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = (float)((i * 7919) % 1000) / 100.0f - 3.0f;
    event_histogram(&b, 1700000200.0, 1, TY_STR("dense/kernel"), values, 1000);
    float same[5] = {2, 2, 2, 2, 2};
    event_histogram(&b, 1700000201.0, 2, TY_STR("dense/kernel"), same, 5);
    event_text(&b, 1700000202.0, 3, TY_STR("model"), TY_STR("a *small* net"));
    output(&b, NULL);
}

static void events_print(char **args)
{
    (void)args;
    struct tfrecord_reader r = {.file = input()};
    ty_str record;
    while (tfrecord_read(&r, &record) == TY_OK) {
        struct event e;
        must(event_parse(record, &e));
        struct event_value v;
        if (e.kind == EVENT_VERSION)
            printf("version " TY_STR_FMT "\n", TY_STR_ARG(e.body));
        if (e.kind != EVENT_SUMMARY)
            continue;
        ty_err err;
        while ((err = event_value_next(&e.body, &v)) == TY_OK)
            printf("%" PRId64 " " TY_STR_FMT " [" TY_STR_FMT "] %s %.9g\n", e.step,
                   TY_STR_ARG(v.tag), TY_STR_ARG(v.plugin), v.is_scalar ? "scalar" : "other",
                   v.scalar);
        if (err != TY_OUT_OF_RANGE)
            must(err);
    }
}

/* ---- bundles ---- */

static void bundle_print(char **args)
{
    struct bundle b;
    must(bundle_open(&arena, file(args[0]), &b));
    for (size_t i = 0; i < b.count; i++) {
        const struct bundle_entry *e = &b.entries[i];
        printf(TY_STR_FMT " %s [", TY_STR_ARG(e->name), dtype_name(e->dtype));
        for (int d = 0; d < e->shape.rank; d++)
            printf("%s%" PRId64, d ? "," : "", e->shape.dims[d]);
        printf("]\n");
    }
}

/* bundle-copy FROM TO: every tensor of one bundle, checked, into another. */
static void bundle_copy(char **args)
{
    struct bundle b;
    must(bundle_open(&arena, file(ty_format(&arena, "%s.index", args[0])), &b));
    ty_str data = file(ty_format(&arena, "%s.data-00000-of-00001", args[0]));
    struct bundle_writer w;
    struct ty_buf copy, index;
    bundle_writer_init(&w, &arena);
    ty_buf_init(&copy, LIMIT);
    ty_buf_init(&index, LIMIT);
    for (size_t i = 0; i < b.count; i++) {
        const struct bundle_entry *e = &b.entries[i];
        ty_str bytes, *strings;
        size_t count;
        if (e->dtype == DTYPE_STRING) {
            must(bundle_strings(&arena, e, data, &strings, &count));
            must(bundle_add_strings(&w, e->name, &e->shape, strings, &copy));
            continue;
        }
        must(bundle_tensor(e, data, &bytes));
        must(bundle_add(&w, e->name, e->dtype, &e->shape, bytes));
        ty_buf_adds(&copy, bytes);
    }
    must(bundle_index(&w, &index));
    output(&index, ty_format(&arena, "%s.index", args[1]));
    output(&copy, ty_format(&arena, "%s.data-00000-of-00001", args[1]));
}

/* bundle-many N PREFIX: N scalars, to make an index of several blocks. */
static void bundle_many(char **args)
{
    int64_t n;
    must(ty_parse_i64(ty_str_of(args[0]), &n));
    struct bundle_writer w;
    struct ty_buf data, index;
    bundle_writer_init(&w, &arena);
    ty_buf_init(&data, LIMIT);
    ty_buf_init(&index, LIMIT);
    for (int64_t i = 0; i < n; i++) {
        char *name = ty_format(&arena, "layer_%" PRId64 "/a_rather_long_name/kernel", i * 7919 % n);
        ty_str bytes = {(const char *)&i, sizeof i};
        must(bundle_add(&w, ty_str_of(name), DTYPE_INT64, &SHAPE_SCALAR, bytes));
        ty_buf_adds(&data, bytes);
    }
    must(bundle_index(&w, &index));
    output(&index, ty_format(&arena, "%s.index", args[1]));
    output(&data, ty_format(&arena, "%s.data-00000-of-00001", args[1]));
}

/* ---- SavedModel ---- */

static struct saved_tensor tensor(const char *key, struct graph_out out, enum dtype t,
                                  struct shape s)
{
    ty_str name = graph_node_name(out.node);
    return (struct saved_tensor){
        ty_str_of(key), ty_str_of(ty_format(&arena, TY_STR_FMT ":%d", TY_STR_ARG(name), out.port)),
        t, s};
}

/* One of everything the reference trainers' models need: the hour of a timestamp's characters,
 * buckets, a hash, a cross, an embedding, dense layers. */
struct demo {
    struct graph *g;
    struct bundle_writer bundle;
    struct ty_buf data;
};

static struct graph_out weights(struct demo *d, const char *name, struct shape s, float scale)
{
    size_t n = (size_t)shape_count(&s);
    float *values = ty_new_array(&arena, float, n);
    for (size_t i = 0; i < n; i++)
        values[i] = scale * ((float)(i * 37 % 101) / 101.0f - 0.5f);
    ty_str bytes = {(const char *)values, n * sizeof *values};
    must(bundle_add(&d->bundle, ty_str_of(name), DTYPE_FLOAT, &s, bytes));
    ty_buf_adds(&d->data, bytes);
    return graph_variable(d->g, name, DTYPE_FLOAT, &s);
}

static struct graph_out gather(struct demo *d, const char *name, struct graph_out table,
                               struct graph_out ids)
{
    struct graph_node *n = graph_node(d->g, "GatherV2", name);
    graph_input(n, table);
    graph_input(n, ids);
    graph_input(n, graph_const_i32(d->g, ty_format(&arena, "%s/axis", name), 0));
    graph_attr_type(n, "Tparams", DTYPE_FLOAT);
    graph_attr_type(n, "Tindices", DTYPE_INT64);
    graph_attr_type(n, "Taxis", DTYPE_INT32);
    return graph_out(n, 0);
}

static struct graph_out cast(struct demo *d, const char *name, struct graph_out x, enum dtype from,
                             enum dtype to)
{
    struct graph_node *n = graph_node(d->g, "Cast", name);
    graph_input(n, x);
    graph_attr_type(n, "SrcT", from);
    graph_attr_type(n, "DstT", to);
    return graph_out(n, 0);
}

/* Characters 11 and 12 of "2011-01-28 20:42:59 UTC" as a number. */
static struct graph_out hour(struct demo *d, struct graph_out when)
{
    struct graph_node *sub = graph_node(d->g, "Substr", "hour/Substr");
    graph_input(sub, when);
    graph_input(sub, graph_const_i32(d->g, "hour/pos", 11));
    graph_input(sub, graph_const_i32(d->g, "hour/len", 2));
    graph_attr_type(sub, "T", DTYPE_INT32);
    struct graph_node *n = graph_node(d->g, "StringToNumber", "hour/number");
    graph_input(n, graph_out(sub, 0));
    graph_attr_type(n, "out_type", DTYPE_INT64);
    return graph_out(n, 0);
}

static struct graph_out dense(struct demo *d, struct graph_out x, const char *name, int64_t in,
                              int64_t units)
{
    struct graph_out kernel =
        weights(d, ty_format(&arena, "%s/kernel", name), SHAPE(in, units), 1.0f);
    struct graph_out bias = weights(d, ty_format(&arena, "%s/bias", name), SHAPE(units), 0.5f);
    struct graph_out product =
        graph_op2(d->g, "MatMul", ty_format(&arena, "%s/MatMul", name), DTYPE_FLOAT, x, kernel);
    return graph_op2(d->g, "BiasAdd", ty_format(&arena, "%s/BiasAdd", name), DTYPE_FLOAT, product,
                     bias);
}

static struct graph_out concat(struct demo *d, const char *name, const struct graph_out *parts,
                               size_t count)
{
    struct graph_node *n = graph_node(d->g, "ConcatV2", name);
    for (size_t i = 0; i < count; i++)
        graph_input(n, parts[i]);
    graph_input(n, graph_const_i32(d->g, ty_format(&arena, "%s/axis", name), 1));
    graph_attr_int(n, "N", (int64_t)count);
    graph_attr_type(n, "T", DTYPE_FLOAT);
    graph_attr_type(n, "Tidx", DTYPE_INT32);
    return graph_out(n, 0);
}

static void demo_write(struct demo *d, const char *folder, const struct saved_signature *signature)
{
    struct ty_buf model, index, fingerprint;
    ty_buf_init(&model, LIMIT);
    ty_buf_init(&index, LIMIT);
    ty_buf_init(&fingerprint, LIMIT);
    must(saved_model_encode(d->g, signature, 1, &model));
    must(bundle_index(&d->bundle, &index));
    saved_model_fingerprint(ty_buf_str(&model), ty_buf_str(&index), &fingerprint);
    must(ty_mkdirs(ty_format(&arena, "%s/variables", folder), 0755));
    output(&model, ty_format(&arena, "%s/saved_model.pb", folder));
    output(&fingerprint, ty_format(&arena, "%s/fingerprint.pb", folder));
    output(&index, ty_format(&arena, "%s/variables/variables.index", folder));
    output(&d->data, ty_format(&arena, "%s/variables/variables.data-00000-of-00001", folder));
}

static void saved_model_write(char **args)
{
    struct demo d = {.g = graph_new(&arena)};
    bundle_writer_init(&d.bundle, &arena);
    ty_buf_init(&d.data, LIMIT);
    struct graph_out lat = graph_placeholder(d.g, "lat", DTYPE_FLOAT, &SHAPE(-1)),
                     lon = graph_placeholder(d.g, "lon", DTYPE_FLOAT, &SHAPE(-1)),
                     when = graph_placeholder(d.g, "when", DTYPE_STRING, &SHAPE(-1)),
                     company = graph_placeholder(d.g, "company", DTYPE_STRING, &SHAPE(-1));
    static const float edges[] = {0, 0.25f, 0.5f, 0.75f, 1};
    struct graph_out blat = graph_bucketize(d.g, "lat/bucket", DTYPE_FLOAT, lat, edges, 5),
                     blon = graph_bucketize(d.g, "lon/bucket", DTYPE_FLOAT, lon, edges, 5);
    struct graph_out ids[3] = {cast(&d, "lat/id", blat, DTYPE_INT32, DTYPE_INT64),
                               cast(&d, "lon/id", blon, DTYPE_INT32, DTYPE_INT64), company};
    static const enum dtype types[3] = {DTYPE_INT64, DTYPE_INT64, DTYPE_STRING};
    struct graph_out crossed = graph_cross(d.g, "cross", ids, types, 3, 1000);
    struct graph_out bucket = graph_hash_bucket(d.g, "company/bucket", company, 100);
    struct graph_out hours = hour(&d, when);
    struct graph_out table = weights(&d, "embedding/table", SHAPE(1000, 4), 2.0f);
    struct graph_out hour_table = weights(&d, "hour/table", SHAPE(24, 3), 1.0f);
    struct graph_out parts[2] = {gather(&d, "embedding", table, crossed),
                                 gather(&d, "hour/embedding", hour_table, hours)};
    struct graph_out wide = concat(&d, "features", parts, 2);
    struct graph_out hidden =
        graph_op1(d.g, "Relu", "h0/Relu", DTYPE_FLOAT, dense(&d, wide, "h0", 7, 8));
    struct graph_out fare = dense(&d, hidden, "fare", 8, 1);
    struct saved_tensor inputs[] = {tensor("lat", lat, DTYPE_FLOAT, SHAPE(-1)),
                                    tensor("lon", lon, DTYPE_FLOAT, SHAPE(-1)),
                                    tensor("when", when, DTYPE_STRING, SHAPE(-1)),
                                    tensor("company", company, DTYPE_STRING, SHAPE(-1))};
    struct saved_tensor outputs[] = {tensor("fare", fare, DTYPE_FLOAT, SHAPE(-1, 1)),
                                     tensor("crossed", crossed, DTYPE_INT64, SHAPE(-1)),
                                     tensor("bucket", bucket, DTYPE_INT64, SHAPE(-1)),
                                     tensor("hour", hours, DTYPE_INT64, SHAPE(-1))};
    struct saved_signature signature = {TY_STR("serving_default"),
                                        TY_STR("tensorflow/serving/predict"),
                                        inputs,
                                        outputs,
                                        TY_COUNT(inputs),
                                        TY_COUNT(outputs)};
    demo_write(&d, args[0], &signature);
}

/* A convolution or a pool, of NHWC, padded to the same size. */
static struct graph_out window_op(struct demo *d, const char *op, const char *name,
                                  struct graph_out x, const struct graph_out *filter, int64_t step)
{
    struct graph_node *n = graph_node(d->g, op, name);
    const int64_t strides[4] = {1, step, step, 1};
    graph_input(n, x);
    if (filter)
        graph_input(n, *filter);
    else
        graph_attr_ints(n, "ksize", strides, 4);
    graph_attr_type(n, "T", DTYPE_FLOAT);
    graph_attr_ints(n, "strides", strides, 4);
    graph_attr_str(n, "padding", "SAME");
    graph_attr_str(n, "data_format", "NHWC");
    return graph_out(n, 0);
}

/* The layers of an image net: (batch, 8, 8, 3) to 5 probabilities and the class. */
static void saved_cnn_write(char **args)
{
    struct demo d = {.g = graph_new(&arena)};
    bundle_writer_init(&d.bundle, &arena);
    ty_buf_init(&d.data, LIMIT);
    struct graph_out image = graph_placeholder(d.g, "image", DTYPE_FLOAT, &SHAPE(-1, 8, 8, 3));
    struct graph_out filter = weights(&d, "conv/kernel", SHAPE(3, 3, 3, 4), 1.0f);
    struct graph_out bias = weights(&d, "conv/bias", SHAPE(4), 0.5f);
    struct graph_out x = window_op(&d, "Conv2D", "conv/Conv2D", image, &filter, 1);
    x = graph_op2(d.g, "BiasAdd", "conv/BiasAdd", DTYPE_FLOAT, x, bias);
    x = graph_op1(d.g, "Relu", "conv/Relu", DTYPE_FLOAT, x);
    x = window_op(&d, "MaxPool", "pool", x, NULL, 2);
    static const int32_t flat[2] = {-1, 64};
    struct graph_out shape = graph_const(d.g, "flat/shape", DTYPE_INT32, &SHAPE(2), flat);
    x = graph_op2(d.g, "Reshape", "flat", DTYPE_FLOAT, x, shape);
    struct graph_out p =
        graph_op1(d.g, "Softmax", "probabilities", DTYPE_FLOAT, dense(&d, x, "dense", 64, 5));
    struct graph_node *best = graph_node(d.g, "ArgMax", "class_ids");
    graph_input(best, p);
    graph_input(best, graph_const_i32(d.g, "class_ids/dim", 1));
    graph_attr_type(best, "T", DTYPE_FLOAT);
    graph_attr_type(best, "output_type", DTYPE_INT64);
    struct saved_tensor inputs[] = {tensor("image", image, DTYPE_FLOAT, SHAPE(-1, 8, 8, 3))};
    struct saved_tensor outputs[] = {
        tensor("probabilities", p, DTYPE_FLOAT, SHAPE(-1, 5)),
        tensor("class_ids", graph_out(best, 0), DTYPE_INT64, SHAPE(-1))};
    struct saved_signature signature = {TY_STR("serving_default"),
                                        TY_STR("tensorflow/serving/predict"),
                                        inputs,
                                        outputs,
                                        TY_COUNT(inputs),
                                        TY_COUNT(outputs)};
    demo_write(&d, args[0], &signature);
}

static void tensor_print(const char *what, const struct saved_tensor *t)
{
    printf("  %s " TY_STR_FMT " " TY_STR_FMT " %s rank %d\n", what, TY_STR_ARG(t->key),
           TY_STR_ARG(t->tensor), dtype_name(t->dtype), t->shape.rank);
}

static void model_print(char **args)
{
    struct saved_model m;
    must(saved_model_parse(&arena, file(args[0]), &m));
    printf("version " TY_STR_FMT " nodes %zu functions %zu object_graph %d restore " TY_STR_FMT
           "\n",
           TY_STR_ARG(m.tensorflow_version), m.node_count, m.function_count, m.has_object_graph,
           TY_STR_ARG(m.restore_op));
    for (size_t i = 0; i < m.signature_count; i++) {
        struct saved_signature *s = &m.signatures[i];
        printf("signature " TY_STR_FMT " " TY_STR_FMT "\n", TY_STR_ARG(s->key),
               TY_STR_ARG(s->method));
        for (size_t k = 0; k < s->input_count; k++)
            tensor_print("input", &s->inputs[k]);
        for (size_t k = 0; k < s->output_count; k++)
            tensor_print("output", &s->outputs[k]);
    }
}

static const struct {
    const char *name;
    int args;
    void (*run)(char **args);
} commands[] = {
    {"tfrecord-copy", 0, tfrecord_copy},
    {"gunzip", 0, gunzip_all},
    {"example-copy", 0, example_copy},
    {"csv", 1, csv_print},
    {"hash", 0, hash_print},
    {"cross", 1, cross_print},
    {"events-write", 0, events_write},
    {"events", 0, events_print},
    {"bundle", 1, bundle_print},
    {"bundle-copy", 2, bundle_copy},
    {"bundle-many", 2, bundle_many},
    {"saved-model", 1, saved_model_write},
    {"saved-cnn", 1, saved_cnn_write},
    {"model", 1, model_print},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < TY_COUNT(commands); i++)
        if (argc > 1 && strcmp(argv[1], commands[i].name) == 0 && argc == 2 + commands[i].args) {
            commands[i].run(argv + 2);
            ty_arena_clear(&arena);
            return 0;
        }
    fprintf(stderr, "usage: formats_tool COMMAND ARGUMENT...; see src/formats/test_tool.c\n");
    return 2;
}
