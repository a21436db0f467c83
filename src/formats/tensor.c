/* tensor.c -- element types, shapes and tensors in TensorFlow's messages.
 *
 *   TensorShapeProto { repeated Dim { int64 size = 1; } dim = 2; bool unknown_rank = 3; }
 *   TensorProto { dtype = 1; tensor_shape = 2; tensor_content = 4; repeated string_val = 8; } */
#include "formats/formats_int.h"

static const struct {
    enum dtype type;
    const char *name;
    size_t bytes;
} dtypes[] = {
#define DTYPE_ROW(name, number, bytes) {DTYPE_##name, "DT_" #name, bytes},
    DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

const char *dtype_name(enum dtype t)
{
    for (size_t i = 0; i < TY_COUNT(dtypes); i++)
        if (dtypes[i].type == t)
            return dtypes[i].name;
    return "DT_?";
}

size_t dtype_bytes(enum dtype t)
{
    for (size_t i = 0; i < TY_COUNT(dtypes); i++)
        if (dtypes[i].type == t)
            return dtypes[i].bytes;
    return 0;
}

int64_t shape_count(const struct shape *s)
{
    const int64_t most = (int64_t)1 << 53;
    int64_t count = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->dims[i] < 0 || (s->dims[i] > 0 && count > most / s->dims[i]))
            return -1;
        count *= s->dims[i];
    }
    return s->rank < 0 ? -1 : count;
}

void shape_encode(struct ty_buf *b, const struct shape *s)
{
    if (s->rank < 0)
        wire_pb_int(b, 3, 1);
    for (int i = 0; i < s->rank; i++) {
        size_t dim = wire_pb_begin(b, 2);
        if (s->dims[i] != 0)
            wire_pb_int(b, 1, s->dims[i]);
        wire_pb_end(b, dim);
    }
}

static ty_err dim_decode(ty_str message, int64_t *ret_size)
{
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    ty_err err;
    int64_t size = 0;
    while ((err = wire_pb_next(&m, &f)) == TY_OK)
        if (f.number == 1 && f.type == WIRE_PB_VARINT)
            size = (int64_t)f.value;
    if (err != TY_OUT_OF_RANGE)
        return err;
    *ret_size = size < 0 ? -1 : size;
    return TY_OK;
}

ty_err shape_decode(ty_str message, struct shape *ret_shape)
{
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    struct shape s = {0};
    bool unknown = false;
    ty_err err;
    while ((err = wire_pb_next(&m, &f)) == TY_OK) {
        if (f.number == 3 && f.type == WIRE_PB_VARINT)
            unknown = f.value != 0;
        if (f.number != 2 || f.type != WIRE_PB_BYTES)
            continue;
        if (s.rank == SHAPE_MAX_RANK)
            return ty_fail(TY_DATA_LOSS, "a tensor of more than %d dimensions", SHAPE_MAX_RANK);
        if ((err = dim_decode(f.bytes, &s.dims[s.rank++])) != TY_OK)
            return err;
    }
    if (err != TY_OUT_OF_RANGE)
        return err;
    *ret_shape = unknown ? SHAPE_ANY : s;
    return TY_OK;
}

static void tensor_head(struct ty_buf *b, enum dtype t, const struct shape *s)
{
    wire_pb_int(b, 1, t);
    size_t shape = wire_pb_begin(b, 2);
    shape_encode(b, s);
    wire_pb_end(b, shape);
}

void tensor_encode(struct ty_buf *b, enum dtype t, const struct shape *s, ty_str bytes)
{
    tensor_head(b, t, s);
    if (bytes.len)
        wire_pb_bytes(b, 4, bytes);
}

void tensor_encode_strings(struct ty_buf *b, const struct shape *s, const ty_str *values,
                           size_t count)
{
    tensor_head(b, DTYPE_STRING, s);
    for (size_t i = 0; i < count; i++)
        wire_pb_bytes(b, 8, values[i]);
}
