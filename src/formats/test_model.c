/* test_model.c -- bundles, graphs and SavedModels against TensorFlow's own files, and broken ones.
 */
#include "formats/test_formats.h"

/* ---- bundles ---- */

static void bundle_reads_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct bundle b;
    ty_str data = golden(&a, "mixed.data-00000-of-00001"), bytes, *words;
    const struct bundle_entry *e;
    size_t count;
    assert_ok(bundle_open(&a, golden(&a, "mixed.index"), &b));
    assert_int_equal(b.count, 6);
    assert_int_equal(b.shards, 1);
    assert_ok(bundle_find(&b, TY_STR("b/kernel"), &e));
    assert_true(e->dtype == DTYPE_FLOAT && e->shape.rank == 2 && e->shape.dims[1] == 3);
    assert_ok(bundle_tensor(e, data, &bytes));
    float kernel[6];
    assert_int_equal(bytes.len, sizeof kernel);
    memcpy(kernel, bytes.ptr, sizeof kernel);
    assert_true(kernel[5] == 1.25f);
    assert_ok(bundle_find(&b, TY_STR("c/words"), &e));
    assert_ok(bundle_strings(&a, e, data, &words, &count));
    assert_true(count == 3 && words[0].len == 0 && words[1].len == 300 && ty_str_is(words[2], "é"));
    assert_err(TY_DATA_LOSS, bundle_tensor(e, data, &bytes)); /* strings are no plain bytes */
    assert_err(TY_NOT_FOUND, bundle_find(&b, TY_STR("b/kernel2"), &e));
    assert_message("'b/kernel2'");
    ty_arena_clear(&a);
}

/* The same tensors, written by us: the same bytes. */
static void bundle_bytes_are_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct bundle b;
    struct bundle_writer w;
    struct ty_buf copy, index;
    ty_str file = golden(&a, "mixed.index"), data = golden(&a, "mixed.data-00000-of-00001");
    ty_buf_init(&copy, 10000);
    ty_buf_init(&index, 10000);
    bundle_writer_init(&w, &a);
    assert_ok(bundle_open(&a, file, &b));
    for (size_t i = 0; i < b.count; i++) {
        const struct bundle_entry *e = &b.entries[i];
        ty_str bytes, *words;
        size_t count;
        if (e->dtype == DTYPE_STRING) {
            assert_ok(bundle_strings(&a, e, data, &words, &count));
            assert_ok(bundle_add_strings(&w, e->name, &e->shape, words, &copy));
        } else {
            assert_ok(bundle_tensor(e, data, &bytes));
            assert_ok(bundle_add(&w, e->name, e->dtype, &e->shape, bytes));
            ty_buf_adds(&copy, bytes);
        }
    }
    assert_ok(bundle_index(&w, &index));
    assert_true(ty_str_eq(ty_buf_str(&index), file));
    assert_true(ty_str_eq(ty_buf_str(&copy), data));
    ty_buf_clear(&copy);
    ty_buf_clear(&index);
    ty_arena_clear(&a);
}

/* Names in any order, enough of them for several blocks; all are found again. */
static void bundle_of_many_blocks(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct ty_arena a = {0};
    struct bundle_writer w;
    struct bundle b;
    struct ty_buf index;
    ty_buf_init(&index, 1 << 24);
    bundle_writer_init(&w, &a);
    for (int64_t i = 0; i < COUNT; i++) {
        char *name = ty_format(&a, "model/layer_%" PRId64 "/kernel/optimizer", i * 7919 % COUNT);
        ty_str bytes = {(const char *)&i, sizeof i};
        assert_ok(bundle_add(&w, ty_str_of(name), DTYPE_INT64, &SHAPE_SCALAR, bytes));
    }
    assert_ok(bundle_index(&w, &index));
    assert_true(index.len > 2 << 18);
    assert_ok(bundle_open(&a, ty_buf_str(&index), &b));
    assert_int_equal(b.count, COUNT);
    for (int64_t i = 0; i < COUNT; i += 97) {
        const struct bundle_entry *e;
        char *name = ty_format(&a, "model/layer_%" PRId64 "/kernel/optimizer", i * 7919 % COUNT);
        assert_ok(bundle_find(&b, ty_str_of(name), &e));
        assert_int_equal(e->offset, 8 * i);
    }
    ty_buf_clear(&index);
    ty_arena_clear(&a);
}

/* Whatever bit of index or data is wrong, no wrong value comes out. */
static void bundle_flipped_bits(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str index = golden(&a, "mixed.index"), data = golden(&a, "mixed.data-00000-of-00001");
    char *bad = ty_cstr(&a, index), *bad_data = ty_cstr(&a, data);
    struct bundle good, b;
    assert_ok(bundle_open(&a, index, &good));
    int refused = 0;
    for (size_t i = 0; i < 8 * index.len; i++) {
        bad[i / 8] = (char)(bad[i / 8] ^ 1 << i % 8);
        if (bundle_open(&a, (ty_str){bad, index.len}, &b) == TY_OK)
            assert_true(b.count == good.count && b.entries[3].crc == good.entries[3].crc);
        else
            refused++;
        bad[i / 8] = (char)(bad[i / 8] ^ 1 << i % 8);
    }
    assert_true(refused > 4 * (int)index.len);
    for (size_t i = 0; i < 8 * data.len; i++) {
        bad_data[i / 8] = (char)(bad_data[i / 8] ^ 1 << i % 8);
        int failed = 0;
        for (size_t k = 0; k < good.count; k++) {
            ty_str bytes, *words, all = {bad_data, data.len};
            size_t count;
            failed += good.entries[k].dtype == DTYPE_STRING
                          ? bundle_strings(&a, &good.entries[k], all, &words, &count) != TY_OK
                          : bundle_tensor(&good.entries[k], all, &bytes) != TY_OK;
        }
        assert_int_equal(failed, 1);
        bad_data[i / 8] = (char)(bad_data[i / 8] ^ 1 << i % 8);
    }
    for (size_t n = 0; n < index.len; n++)
        assert_err(TY_DATA_LOSS, bundle_open(&a, (ty_str){index.ptr, n}, &b));
    ty_arena_clear(&a);
}

static void bundle_refuses_wrong_tensors(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct bundle_writer w;
    struct ty_buf index;
    ty_buf_init(&index, 10000);
    bundle_writer_init(&w, &a);
    assert_err(TY_INVALID_ARGUMENT,
               bundle_add(&w, TY_STR("k"), DTYPE_FLOAT, &SHAPE(2, 3), TY_STR("12345678")));
    assert_message("'k': 8 bytes are not 6 values of DT_FLOAT");
    assert_err(TY_INVALID_ARGUMENT,
               bundle_add(&w, TY_STR("k"), DTYPE_FLOAT, &SHAPE(-1), TY_STR("1234")));
    assert_ok(bundle_add(&w, TY_STR("k"), DTYPE_FLOAT, &SHAPE_SCALAR, TY_STR("1234")));
    assert_ok(bundle_add(&w, TY_STR("k"), DTYPE_FLOAT, &SHAPE_SCALAR, TY_STR("1234")));
    assert_err(TY_INVALID_ARGUMENT, bundle_index(&w, &index));
    assert_message("'k'");
    ty_buf_clear(&index);
    ty_arena_clear(&a);
}

/* ---- SavedModel ---- */

static void saved_model_reads_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct saved_model m;
    assert_ok(saved_model_parse(&a, golden(&a, "saved_model.pb"), &m));
    assert_true(ty_str_is(m.tensorflow_version, "2.15.1") && m.has_object_graph);
    assert_true(m.tag_count == 1 && ty_str_is(m.tags[0], "serve"));
    assert_true(m.function_count > 0 && m.node_count > 0);
    size_t at = 0;
    while (at < m.signature_count && !ty_str_is(m.signatures[at].key, "serving_default"))
        at++;
    assert_true(at < m.signature_count);
    const struct saved_signature *s = &m.signatures[at];
    assert_true(s->input_count == 1 && ty_str_is(s->inputs[0].key, "x"));
    assert_true(s->inputs[0].dtype == DTYPE_FLOAT && s->inputs[0].shape.rank == 2);
    assert_true(s->inputs[0].shape.dims[0] == -1 && s->inputs[0].shape.dims[1] == 2);
    assert_true(s->output_count == 1 && ty_str_is(s->outputs[0].key, "y"));
    bool variable = false;
    for (size_t i = 0; i < m.node_count; i++)
        variable |= ty_str_is(m.nodes[i].op, "VarHandleOp") && ty_str_is(m.nodes[i].name, "w") &&
                    m.nodes[i].dtype == DTYPE_FLOAT && m.nodes[i].shape.dims[0] == 2;
    assert_true(variable);
    ty_arena_clear(&a);
}

static void small_model(struct ty_arena *a, struct ty_buf *b)
{
    struct graph *g = graph_new(a);
    struct graph_out x = graph_placeholder(g, "x", DTYPE_FLOAT, &SHAPE(-1, 2));
    struct graph_out w = graph_variable(g, "dense/kernel", DTYPE_FLOAT, &SHAPE(2, 1));
    struct graph_out y = graph_op2(g, "MatMul", "dense/MatMul", DTYPE_FLOAT, x, w);
    struct saved_tensor in = {TY_STR("x"), TY_STR("x:0"), DTYPE_FLOAT, SHAPE(-1, 2)};
    struct saved_tensor out = {TY_STR("y"), graph_node_name(y.node), DTYPE_FLOAT, SHAPE(-1, 1)};
    struct saved_signature s = {
        TY_STR("serving_default"), TY_STR("tensorflow/serving/predict"), &in, &out, 1, 1};
    assert_ok(saved_model_encode(g, &s, 1, b));
}

static void saved_model_round_trip(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct ty_buf b, again;
    struct saved_model m;
    ty_buf_init(&b, 1 << 20);
    ty_buf_init(&again, 1 << 20);
    small_model(&a, &b);
    small_model(&a, &again);
    assert_true(ty_str_eq(ty_buf_str(&b), ty_buf_str(&again)));
    assert_ok(saved_model_parse(&a, ty_buf_str(&b), &m));
    assert_true(ty_str_is(m.restore_op, "save/restore_all"));
    assert_true(ty_str_is(m.filename_tensor, "save/Const:0"));
    assert_true(!m.has_object_graph && m.signature_count == 1);
    assert_true(ty_str_is(m.nodes[1].name, "dense/kernel") &&
                ty_str_is(m.nodes[1].op, "VarHandleOp"));
    for (size_t i = 0; i < m.node_count; i++)
        if (ty_str_is(m.nodes[i].op, "MatMul"))
            assert_true(m.nodes[i].input_count == 2 && ty_str_is(m.nodes[i].inputs[0], "x"));
    for (size_t n = 1; n < b.len; n++) /* two fields: a version, then all the rest */
        assert_err(TY_DATA_LOSS, saved_model_parse(&a, (ty_str){b.ptr, n}, &m));
    ty_buf_clear(&b);
    ty_buf_clear(&again);
    ty_arena_clear(&a);
}

static void saved_model_larger_than_its_limit(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct ty_buf b;
    ty_buf_init(&b, 500);
    struct graph *g = graph_new(&a);
    graph_variable(g, "v", DTYPE_FLOAT, &SHAPE(2, 1));
    assert_err(TY_RESOURCE_EXHAUSTED, saved_model_encode(g, NULL, 0, &b));
    assert_message("saved_model.pb");
    ty_buf_clear(&b);
    ty_arena_clear(&a);
}

static void graph_makes_names_fit(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct graph *g = graph_new(&a);
    assert_true(ty_str_is(graph_node_name(graph_node(g, "NoOp", "a b")), "a_b"));
    assert_true(ty_str_is(graph_node_name(graph_node(g, "NoOp", "a b")), "a_b_1"));
    assert_true(ty_str_is(graph_node_name(graph_node(g, "NoOp", "_x")), "x_x"));
    assert_true(ty_str_is(graph_node_name(graph_node(g, "NoOp", "")), "node"));
    for (int i = 2; i < 500; i++)
        assert_string_equal(graph_node_name(graph_node(g, "NoOp", "a b")).ptr,
                            ty_format(&a, "a_b_%d", i));
    ty_arena_clear(&a);
}

static void fingerprint_file(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 1000);
    saved_model_fingerprint(TY_STR("model"), TY_STR("index"), &b);
    struct wire_pb m = wire_pb_of(ty_buf_str(&b));
    struct wire_pb_field f;
    assert_ok(wire_pb_next(&m, &f));
    assert_true(f.number == 1 && f.value == fingerprint64(TY_STR("model")));
    ty_buf_clear(&b);
}

static void shape_counts(void **state)
{
    (void)state;
    assert_int_equal(shape_count(&SHAPE_SCALAR), 1);
    assert_int_equal(shape_count(&SHAPE(3, 0, 5)), 0);
    assert_int_equal(shape_count(&SHAPE(3, 4)), 12);
    assert_int_equal(shape_count(&SHAPE(-1, 4)), -1);
    assert_int_equal(shape_count(&SHAPE(INT64_MAX, 4)), -1);
    assert_int_equal(shape_count(&SHAPE_ANY), -1);
    assert_string_equal(dtype_name(DTYPE_HALF), "DT_HALF");
    assert_string_equal(dtype_name((enum dtype)111), "DT_?");
    assert_int_equal(dtype_bytes(DTYPE_INT64), 8);
    assert_int_equal(dtype_bytes(DTYPE_STRING), 0);
}

static const struct CMUnitTest tests[] = {
    TEST("bundle/reads_tensorflows", bundle_reads_tensorflows),
    TEST("bundle/bytes_are_tensorflows", bundle_bytes_are_tensorflows),
    TEST("bundle/of_many_blocks", bundle_of_many_blocks),
    TEST("bundle/flipped_bits", bundle_flipped_bits),
    TEST("bundle/refuses_wrong_tensors", bundle_refuses_wrong_tensors),
    TEST("saved_model/reads_tensorflows", saved_model_reads_tensorflows),
    TEST("saved_model/round_trip", saved_model_round_trip),
    TEST("saved_model/larger_than_its_limit", saved_model_larger_than_its_limit),
    TEST("graph/makes_names_fit", graph_makes_names_fit),
    TEST("fingerprint/file", fingerprint_file),
    TEST("shape/counts", shape_counts),
};
RUN_GROUP(model)
