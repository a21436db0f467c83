/* graph_ops.c -- shorthands for the nodes every exported model has. Each is graph_node with the
 * inputs and attributes that op wants; what is not here is written with graph_node itself. */
#include "formats/formats_int.h"

enum { CONST_BYTES = 1 << 30 };

/* Not in the header: the one attribute that only constants have. */
static void attr_tensor(struct graph_node *n, struct ty_buf *tensor)
{
    ty_assert(!tensor->full);
    graph_attr_encoded(n, "value", 8, ty_buf_str(tensor));
    ty_buf_clear(tensor);
}

struct graph_out graph_op1(struct graph *g, const char *op, const char *name, enum dtype t,
                           struct graph_out x)
{
    struct graph_node *n = graph_node(g, op, name);
    graph_input(n, x);
    graph_attr_type(n, "T", t);
    return graph_out(n, 0);
}

struct graph_out graph_op2(struct graph *g, const char *op, const char *name, enum dtype t,
                           struct graph_out x, struct graph_out y)
{
    struct graph_node *n = graph_node(g, op, name);
    graph_input(n, x);
    graph_input(n, y);
    graph_attr_type(n, "T", t);
    return graph_out(n, 0);
}

struct graph_out graph_placeholder(struct graph *g, const char *name, enum dtype t,
                                   const struct shape *s)
{
    struct graph_node *n = graph_node(g, "Placeholder", name);
    graph_attr_type(n, "dtype", t);
    graph_attr_shape(n, "shape", s);
    graph_attr_output_shape(n, s);
    return graph_out(n, 0);
}

struct graph_out graph_const(struct graph *g, const char *name, enum dtype t, const struct shape *s,
                             const void *values)
{
    int64_t count = shape_count(s);
    ty_assert(count >= 0 && dtype_bytes(t) > 0);
    struct graph_node *n = graph_node(g, "Const", name);
    struct ty_buf b;
    ty_buf_init(&b, CONST_BYTES);
    tensor_encode(&b, t, s, (ty_str){values, (size_t)count * dtype_bytes(t)});
    graph_attr_type(n, "dtype", t);
    attr_tensor(n, &b);
    return graph_out(n, 0);
}

struct graph_out graph_const_i32(struct graph *g, const char *name, int32_t v)
{
    return graph_const(g, name, DTYPE_INT32, &SHAPE_SCALAR, &v);
}

struct graph_out graph_const_i64(struct graph *g, const char *name, int64_t v)
{
    return graph_const(g, name, DTYPE_INT64, &SHAPE_SCALAR, &v);
}

struct graph_out graph_const_f32(struct graph *g, const char *name, float v)
{
    return graph_const(g, name, DTYPE_FLOAT, &SHAPE_SCALAR, &v);
}

struct graph_out graph_const_strings(struct graph *g, const char *name, const struct shape *s,
                                     const ty_str *values)
{
    int64_t count = shape_count(s);
    ty_assert(count >= 0);
    struct graph_node *n = graph_node(g, "Const", name);
    struct ty_buf b;
    ty_buf_init(&b, CONST_BYTES);
    tensor_encode_strings(&b, s, values, (size_t)count);
    graph_attr_type(n, "dtype", DTYPE_STRING);
    attr_tensor(n, &b);
    return graph_out(n, 0);
}

struct graph_out graph_hash_bucket(struct graph *g, const char *name, struct graph_out strings,
                                   int64_t buckets)
{
    struct graph_node *n = graph_node(g, "StringToHashBucketFast", name);
    graph_input(n, strings);
    graph_attr_int(n, "num_buckets", buckets);
    return graph_out(n, 0);
}

/* SparseCross with dense columns of shape (batch, 1) and no sparse ones: one combination a row, so
 * the values of the sparse result are the ids, in the order of rows. The op hashes with
 * internal_type int64 whatever the columns are, which is TensorFlow's id of strings too. */
struct graph_out graph_cross(struct graph *g, const char *name, const struct graph_out *columns,
                             const enum dtype *types, size_t count, int64_t buckets)
{
    struct ty_arena *a = graph_arena(g);
    struct graph_out last = graph_const_i32(g, ty_format(a, "%s/dim", name), -1);
    struct graph_out *wide = ty_new_array(a, struct graph_out, count);
    for (size_t i = 0; i < count; i++) {
        struct graph_node *n = graph_node(g, "ExpandDims", ty_format(a, "%s/column%zu", name, i));
        graph_input(n, columns[i]);
        graph_input(n, last);
        graph_attr_type(n, "T", types[i]);
        graph_attr_type(n, "Tdim", DTYPE_INT32);
        wide[i] = graph_out(n, 0);
    }
    struct graph_node *cross = graph_node(g, "SparseCross", name);
    for (size_t i = 0; i < count; i++)
        graph_input(cross, wide[i]);
    graph_attr_int(cross, "N", 0);
    graph_attr_bool(cross, "hashed_output", true);
    graph_attr_int(cross, "num_buckets", buckets);
    graph_attr_int(cross, "hash_key", (int64_t)CROSS_HASH_KEY);
    graph_attr_types(cross, "sparse_types", NULL, 0);
    graph_attr_types(cross, "dense_types", types, count);
    graph_attr_type(cross, "out_type", DTYPE_INT64);
    graph_attr_type(cross, "internal_type", DTYPE_INT64);
    return graph_out(cross, 1);
}

struct graph_out graph_bucketize(struct graph *g, const char *name, enum dtype t,
                                 struct graph_out x, const float *edges, size_t count)
{
    struct graph_node *n = graph_node(g, "Bucketize", name);
    graph_input(n, x);
    graph_attr_type(n, "T", t);
    graph_attr_floats(n, "boundaries", edges, count);
    return graph_out(n, 0);
}
