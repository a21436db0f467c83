/* feature_category.c -- features that are ids: bucketize, identity, vocabulary, hash, cross.
 *
 * Ids are TensorFlow's, number by number: a bucket is how many edges are at or below the value,
 * hashes are FarmHash's, a cross of crosses is the cross of all their leaves. */
#include "nn/nn_int.h"

static int64_t *own(const struct nn_model *m, const struct nn_value *v,
                    const union csv_values *values)
{
    return values[v - m->values].ints;
}

static ty_err one_input(struct nn_reader *r, const struct nn_value *v)
{
    if (v->input_count == 1)
        return TY_OK;
    return nn_fail(r, "%s: one name is needed", v->kind->name);
}

static ty_err buckets_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    v->type = NN_CATEGORY;
    return nn_read_int(r, object, "buckets", true, 1, INT32_MAX, &v->buckets);
}

/* ---- bucketize ---- */

/* {from: 0, to: 1, count: 10}: points at equal distances, both ends included */
static ty_err edges_even(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    static const char *const keys[] = {"from", "to", "count", NULL};
    double from = 0, to = 0;
    int64_t count = 0;
    nn_enter(r, "edges");
    ty_err err = nn_keys_check(r, object, keys);
    if (err == TY_OK)
        err = nn_read_number(r, object, "from", true, -1e30, 1e30, &from);
    if (err == TY_OK)
        err = nn_read_number(r, object, "to", true, -1e30, 1e30, &to);
    if (err == TY_OK)
        err = nn_read_int(r, object, "count", true, 2, NN_MAX_EDGES, &count);
    nn_leave(r);
    if (err != TY_OK)
        return err;
    float *edges = ty_new_array(r->arena, float, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        edges[i] = (float)(from + (to - from) * ((double)i / (double)(count - 1)));
    v->edges = edges;
    v->edge_count = (size_t)count;
    return TY_OK;
}

static ty_err bucketize_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    const json_t *given = json_object_get(object, "edges");
    ty_err err = one_input(r, v);
    v->type = NN_CATEGORY;
    if (err == TY_OK && json_is_object(given)) {
        err = edges_even(r, given, v);
    } else if (err == TY_OK) {
        size_t most = json_array_size(given) < NN_MAX_LIST ? NN_MAX_LIST : NN_MAX_EDGES;
        double *numbers = ty_new_array(r->arena, double, most);
        float *edges = ty_new_array(r->arena, float, most);
        err = nn_read_numbers(r, object, "edges", numbers, most, &v->edge_count);
        for (size_t i = 0; i < v->edge_count && err == TY_OK; i++)
            edges[i] = (float)numbers[i];
        v->edges = edges;
    }
    for (size_t i = 1; i < v->edge_count && err == TY_OK; i++)
        if (v->edges[i] <= v->edges[i - 1])
            err = nn_fail(r, "'edges' must rise");
    v->buckets = (int64_t)v->edge_count + 1;
    return err;
}

static ty_err bucketize_compute(const struct nn_model *m, const struct nn_value *v,
                                const union csv_values *values, size_t count, size_t *ret_bad)
{
    (void)ret_bad;
    int64_t *out = own(m, v, values);
    size_t from = v->inputs[0];
    bool is_float = m->values[from].type == NN_FLOAT;
    for (size_t i = 0; i < count; i++) {
        float x = is_float ? values[from].floats[i] : (float)values[from].ints[i];
        size_t low = 0, high = v->edge_count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (v->edges[middle] <= x)
                low = middle + 1;
            else
                high = middle;
        }
        out[i] = (int64_t)low;
    }
    return TY_OK;
}

static struct graph_out bucketize_export(struct nn_exporter *x, const struct nn_value *v)
{
    const struct nn_value *in = &x->net->model->values[v->inputs[0]];
    struct graph_out buckets =
        graph_bucketize(x->graph, nn_export_name(x, v->name, "Bucketize"),
                        in->type == NN_FLOAT ? DTYPE_FLOAT : DTYPE_INT64,
                        nn_export_value(x, v->inputs[0]), v->edges, v->edge_count);
    return nn_export_cast(x, nn_export_name(x, v->name, "Cast"), buckets, DTYPE_INT32, DTYPE_INT64);
}

static const char *const bucketize_keys[] = {"edges", NULL};
const struct nn_feature_kind nn_feature_bucketize = {
    "bucketize",       NN_BIT(NN_FLOAT) | NN_BIT(NN_INT),
    bucketize_keys,    bucketize_read,
    bucketize_compute, bucketize_export};

/* ---- identity: the number is the id ---- */

static ty_err identity_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    ty_err err = one_input(r, v);
    if (err == TY_OK)
        err = buckets_read(r, object, v);
    v->strict = json_object_get(object, "otherwise") == NULL;
    if (err == TY_OK)
        err = nn_read_int(r, object, "otherwise", false, -1, v->buckets - 1, &v->otherwise);
    return err;
}

static ty_err identity_compute(const struct nn_model *m, const struct nn_value *v,
                               const union csv_values *values, size_t count, size_t *ret_bad)
{
    int64_t *out = own(m, v, values);
    const int64_t *in = values[v->inputs[0]].ints;
    for (size_t i = 0; i < count; i++) {
        bool fits = in[i] >= 0 && in[i] < v->buckets;
        if (!fits && v->strict) {
            *ret_bad = i;
            return ty_fail(TY_INVALID_ARGUMENT, "'%s' is %" PRId64 ", not from 0 to %" PRId64,
                           v->name.ptr, in[i], v->buckets - 1);
        }
        out[i] = fits ? in[i] : v->otherwise;
    }
    return TY_OK;
}

/* Ids out of range to `otherwise`, as TensorFlow's column with a default value does. */
static struct graph_out identity_export(struct nn_exporter *x, const struct nn_value *v)
{
    struct graph_out in = nn_export_value(x, v->inputs[0]);
    struct graph *g = x->graph;
    struct graph_node *low = graph_node(g, "Less", nn_export_name(x, v->name, "Less"));
    struct graph_node *high =
        graph_node(g, "GreaterEqual", nn_export_name(x, v->name, "GreaterEqual"));
    graph_input(low, in);
    graph_input(low, graph_const_i64(g, nn_export_name(x, v->name, "zero"), 0));
    graph_attr_type(low, "T", DTYPE_INT64);
    graph_input(high, in);
    graph_input(high, graph_const_i64(g, nn_export_name(x, v->name, "buckets"), v->buckets));
    graph_attr_type(high, "T", DTYPE_INT64);
    struct graph_node *out = graph_node(g, "LogicalOr", nn_export_name(x, v->name, "LogicalOr"));
    graph_input(out, graph_out(low, 0));
    graph_input(out, graph_out(high, 0));
    struct graph_node *pick = graph_node(g, "SelectV2", nn_export_name(x, v->name, "SelectV2"));
    graph_input(pick, graph_out(out, 0));
    graph_input(pick, graph_const_i64(g, nn_export_name(x, v->name, "otherwise"), v->otherwise));
    graph_input(pick, in);
    graph_attr_type(pick, "T", DTYPE_INT64);
    return graph_out(pick, 0);
}

static const char *const identity_keys[] = {"buckets", "otherwise", NULL};
const struct nn_feature_kind nn_feature_identity = {
    "identity", NN_BIT(NN_INT), identity_keys, identity_read, identity_compute, identity_export};

/* ---- vocabulary: a word's place in a list ---- */

static int word_cmp(const void *a, const void *b, void *words)
{
    const ty_str *all = words;
    return ty_str_cmp(all[*(const uint32_t *)a], all[*(const uint32_t *)b]);
}

static ty_err vocabulary_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    const json_t *list = json_object_get(object, "words");
    size_t count = json_is_array(list) ? json_array_size(list) : 1;
    ty_str *words = ty_new_array(r->arena, ty_str, count);
    uint32_t *order = ty_new_array(r->arena, uint32_t, count);
    ty_err err = one_input(r, v);
    v->type = NN_CATEGORY;
    if (err == TY_OK)
        err = nn_read_names(r, object, "words", words, count, &v->word_count);
    if (err == TY_OK)
        err = nn_read_int(r, object, "oov_buckets", false, 0, INT32_MAX / 2, &v->oov_buckets);
    if (err == TY_OK)
        err = nn_read_int(r, object, "otherwise", false, -1, (int64_t)count - 1, &v->otherwise);
    if (err != TY_OK)
        return err;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, count, sizeof *order, word_cmp, words);
    for (size_t i = 1; i < count; i++)
        if (ty_str_eq(words[order[i]], words[order[i - 1]]))
            return nn_fail(r, "'words' has '%s' twice", words[order[i]].ptr);
    v->words = words;
    v->order = order;
    v->buckets = (int64_t)count + v->oov_buckets;
    return TY_OK;
}

static int64_t word_find(const struct nn_value *v, ty_str word)
{
    size_t low = 0, high = v->word_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int cmp = ty_str_cmp(v->words[v->order[middle]], word);
        if (cmp == 0)
            return v->order[middle];
        if (cmp < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (v->oov_buckets > 0)
        return (int64_t)v->word_count + hash_bucket(word, (uint64_t)v->oov_buckets);
    return v->otherwise;
}

static ty_err vocabulary_compute(const struct nn_model *m, const struct nn_value *v,
                                 const union csv_values *values, size_t count, size_t *ret_bad)
{
    (void)ret_bad;
    int64_t *out = own(m, v, values);
    const ty_str *in = values[v->inputs[0]].strings;
    for (size_t i = 0; i < count; i++)
        out[i] = word_find(v, in[i]);
    return TY_OK;
}

/* 1 for the first word, 2 for the second, ..., 0 for none: each row's text is compared with all
 * words. A table would need an initialiser, and lists in model files are short. */
static struct graph_out word_places(struct nn_exporter *x, const struct nn_value *v,
                                    struct graph_out in)
{
    struct graph *g = x->graph;
    struct shape row = SHAPE(1, (int64_t)v->word_count);
    int64_t *places = ty_new_array(x->arena, int64_t, v->word_count);
    for (size_t i = 0; i < v->word_count; i++)
        places[i] = (int64_t)i + 1;
    struct graph_node *equal = graph_node(g, "Equal", nn_export_name(x, v->name, "Equal"));
    graph_input(equal, nn_export_column(x, nn_export_name(x, v->name, "column"), in, DTYPE_STRING));
    graph_input(equal, graph_const_strings(g, nn_export_name(x, v->name, "words"), &row, v->words));
    graph_attr_type(equal, "T", DTYPE_STRING);
    graph_attr_bool(equal, "incompatible_shape_error", true);
    struct graph_out hit = nn_export_cast(x, nn_export_name(x, v->name, "Cast"),
                                          graph_out(equal, 0), DTYPE_BOOL, DTYPE_INT64);
    struct graph_out all =
        graph_op2(g, "Mul", nn_export_name(x, v->name, "Mul"), DTYPE_INT64, hit,
                  graph_const(g, nn_export_name(x, v->name, "places"), DTYPE_INT64, &row, places));
    struct graph_node *sum = graph_node(g, "Sum", nn_export_name(x, v->name, "Sum"));
    graph_input(sum, all);
    graph_input(sum, graph_const_i32(g, nn_export_name(x, v->name, "axis"), 1));
    graph_attr_type(sum, "T", DTYPE_INT64);
    graph_attr_type(sum, "Tidx", DTYPE_INT32);
    graph_attr_bool(sum, "keep_dims", false);
    return graph_out(sum, 0);
}

/* The id of a text that is none of the words. */
static struct graph_out other_word(struct nn_exporter *x, const struct nn_value *v,
                                   struct graph_out in)
{
    struct graph *g = x->graph;
    if (v->oov_buckets == 0)
        return graph_const_i64(g, nn_export_name(x, v->name, "otherwise"), v->otherwise);
    return graph_op2(
        g, "Add", nn_export_name(x, v->name, "Add"), DTYPE_INT64,
        graph_hash_bucket(g, nn_export_name(x, v->name, "hash"), in, v->oov_buckets),
        graph_const_i64(g, nn_export_name(x, v->name, "after"), (int64_t)v->word_count));
}

static struct graph_out vocabulary_export(struct nn_exporter *x, const struct nn_value *v)
{
    struct graph *g = x->graph;
    struct graph_out in = nn_export_value(x, v->inputs[0]);
    struct graph_out id =
        graph_op2(g, "Sub", nn_export_name(x, v->name, "Sub"), DTYPE_INT64, word_places(x, v, in),
                  graph_const_i64(g, nn_export_name(x, v->name, "one"), 1));
    struct graph_node *none = graph_node(g, "Less", nn_export_name(x, v->name, "Less"));
    graph_input(none, id);
    graph_input(none, graph_const_i64(g, nn_export_name(x, v->name, "zero"), 0));
    graph_attr_type(none, "T", DTYPE_INT64);
    struct graph_node *pick = graph_node(g, "SelectV2", nn_export_name(x, v->name, "SelectV2"));
    graph_input(pick, graph_out(none, 0));
    graph_input(pick, other_word(x, v, in));
    graph_input(pick, id);
    graph_attr_type(pick, "T", DTYPE_INT64);
    return graph_out(pick, 0);
}

static const char *const vocabulary_keys[] = {"words", "oov_buckets", "otherwise", NULL};
const struct nn_feature_kind nn_feature_vocabulary = {"vocabulary",       NN_BIT(NN_STRING),
                                                      vocabulary_keys,    vocabulary_read,
                                                      vocabulary_compute, vocabulary_export};

/* ---- hash ---- */

static ty_err hash_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    ty_err err = one_input(r, v);
    return err == TY_OK ? buckets_read(r, object, v) : err;
}

/* An empty text is a missing value, as in TensorFlow's column. */
static ty_err hash_compute(const struct nn_model *m, const struct nn_value *v,
                           const union csv_values *values, size_t count, size_t *ret_bad)
{
    (void)ret_bad;
    int64_t *out = own(m, v, values);
    size_t from = v->inputs[0];
    bool text = m->values[from].type == NN_STRING;
    for (size_t i = 0; i < count; i++)
        out[i] = !text ? hash_bucket_int64(values[from].ints[i], (uint64_t)v->buckets)
                 : values[from].strings[i].len == 0
                     ? -1
                     : hash_bucket(values[from].strings[i], (uint64_t)v->buckets);
    return TY_OK;
}

static struct graph_out hash_export(struct nn_exporter *x, const struct nn_value *v)
{
    struct graph *g = x->graph;
    struct graph_out in = nn_export_value(x, v->inputs[0]);
    if (x->net->model->values[v->inputs[0]].type == NN_INT) {
        struct graph_node *text = graph_node(g, "AsString", nn_export_name(x, v->name, "AsString"));
        graph_input(text, in);
        graph_attr_type(text, "T", DTYPE_INT64);
        return graph_hash_bucket(g, nn_export_name(x, v->name, "hash"), graph_out(text, 0),
                                 v->buckets);
    }
    struct graph_node *empty = graph_node(g, "Equal", nn_export_name(x, v->name, "Equal"));
    ty_str nothing = TY_STR("");
    graph_input(empty, in);
    graph_input(empty, graph_const_strings(g, nn_export_name(x, v->name, "empty"), &SHAPE_SCALAR,
                                           &nothing));
    graph_attr_type(empty, "T", DTYPE_STRING);
    graph_attr_bool(empty, "incompatible_shape_error", true);
    struct graph_node *pick = graph_node(g, "SelectV2", nn_export_name(x, v->name, "SelectV2"));
    graph_input(pick, graph_out(empty, 0));
    graph_input(pick, graph_const_i64(g, nn_export_name(x, v->name, "none"), -1));
    graph_input(pick, graph_hash_bucket(g, nn_export_name(x, v->name, "hash"), in, v->buckets));
    graph_attr_type(pick, "T", DTYPE_INT64);
    return graph_out(pick, 0);
}

static const char *const buckets_keys[] = {"buckets", NULL};
const struct nn_feature_kind nn_feature_hash = {
    "hash", NN_BIT(NN_STRING) | NN_BIT(NN_INT), buckets_keys, hash_read, hash_compute, hash_export};

/* ---- cross ---- */

static ty_err cross_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    const struct nn_model *m = r->model;
    size_t leaves[NN_MAX_INPUTS], count = 0;
    if (v->input_count < 2)
        return nn_fail(r, "cross: two names or more are needed");
    for (size_t i = 0; i < v->input_count; i++) {
        const struct nn_value *in = &m->values[v->inputs[i]];
        bool is_cross = in->kind == &nn_feature_cross;
        size_t n = is_cross ? in->input_count : 1;
        if (in->kind == &nn_feature_hash)
            return nn_fail(r, "cross: '%s' is a hash; name the column it is made of", in->name.ptr);
        if (count + n > NN_MAX_INPUTS)
            return nn_fail(r, "cross: more than %d leaves", NN_MAX_INPUTS);
        memcpy(leaves + count, is_cross ? in->inputs : &v->inputs[i], n * sizeof *leaves);
        count += n;
    }
    memcpy(v->inputs, leaves, count * sizeof *leaves);
    v->input_count = count;
    return buckets_read(r, object, v);
}

/* What TensorFlow hashes for an input: a text's fingerprint, or the number cut to a whole one. */
static bool leaf(const struct nn_value *v, const union csv_values *x, size_t row, uint64_t *ret)
{
    if (v->type == NN_STRING)
        *ret = fingerprint64(x->strings[row]);
    else if (v->type == NN_FLOAT)
        *ret = (uint64_t)(int64_t)x->floats[row];
    else
        *ret = (uint64_t)x->ints[row];
    return v->type != NN_CATEGORY || x->ints[row] >= 0;
}

static ty_err cross_compute(const struct nn_model *m, const struct nn_value *v,
                            const union csv_values *values, size_t count, size_t *ret_bad)
{
    int64_t *out = own(m, v, values);
    uint64_t leaves[NN_MAX_INPUTS];
    for (size_t i = 0; i < count; i++) {
        bool whole = true;
        for (size_t k = 0; k < v->input_count; k++) {
            const struct nn_value *in = &m->values[v->inputs[k]];
            const union csv_values *x = &values[v->inputs[k]];
            if (in->type == NN_FLOAT && !(x->floats[i] > -9.2e18f && x->floats[i] < 9.2e18f)) {
                *ret_bad = i;
                return ty_fail(TY_INVALID_ARGUMENT, "'%s' is too large to cross", in->name.ptr);
            }
            whole &= leaf(in, x, i, &leaves[k]);
        }
        out[i] =
            whole ? cross_bucket(leaves, v->input_count, (uint64_t)v->buckets, CROSS_HASH_KEY) : -1;
    }
    return TY_OK;
}

static struct graph_out cross_export(struct nn_exporter *x, const struct nn_value *v)
{
    struct graph_out leaves[NN_MAX_INPUTS];
    enum dtype types[NN_MAX_INPUTS];
    for (size_t i = 0; i < v->input_count; i++) {
        enum nn_type t = x->net->model->values[v->inputs[i]].type;
        leaves[i] = nn_export_value(x, v->inputs[i]);
        types[i] = t == NN_STRING ? DTYPE_STRING : DTYPE_INT64;
        if (t == NN_FLOAT)
            leaves[i] = nn_export_cast(x, nn_export_name(x, v->name, "Cast"), leaves[i],
                                       DTYPE_FLOAT, DTYPE_INT64);
    }
    return graph_cross(x->graph, nn_export_name(x, v->name, "cross"), leaves, types, v->input_count,
                       v->buckets);
}

const struct nn_feature_kind nn_feature_cross = {
    "cross",       NN_BIT(NN_FLOAT) | NN_BIT(NN_INT) | NN_BIT(NN_STRING) | NN_BIT(NN_CATEGORY),
    buckets_keys,  cross_read,
    cross_compute, cross_export};
