/* pb.c -- the protobuf wire format, written and read field by field.
 *
 *   message  := field*
 *   field    := key value, key being the varint (number << 3 | type)
 *   value    := varint (type 0) | 8 bytes (1) | varint length, then that many bytes (2) | 4 bytes
 * (5) varint   := 7 bits a byte, low ones first, the top bit set on all bytes but the last
 *
 * No schemas: the formats that use this have a dozen small messages whose numbers never change, and
 * a walk over the bytes is shorter and faster than generated code. */
#include "wire/wire.h"

enum { VARINT_BYTES = 10 };

static size_t varint_encode(char out[VARINT_BYTES], uint64_t value)
{
    size_t n = 0;
    while (value >= 0x80) {
        out[n++] = (char)(value | 0x80);
        value >>= 7;
    }
    out[n++] = (char)value;
    return n;
}

void wire_pb_put_varint(struct ty_buf *b, uint64_t value)
{
    char bytes[VARINT_BYTES];
    ty_buf_add(b, bytes, varint_encode(bytes, value));
}

static void put_key(struct ty_buf *b, uint32_t field, enum wire_pb_type type)
{
    wire_pb_put_varint(b, (uint64_t)field << 3 | type);
}

void wire_pb_varint(struct ty_buf *b, uint32_t field, uint64_t value)
{
    put_key(b, field, WIRE_PB_VARINT);
    wire_pb_put_varint(b, value);
}

void wire_pb_int(struct ty_buf *b, uint32_t field, int64_t value)
{
    wire_pb_varint(b, field, (uint64_t)value);
}

void wire_pb_fixed32(struct ty_buf *b, uint32_t field, uint32_t value)
{
    char bytes[4];
    wire_store_le32(bytes, value);
    put_key(b, field, WIRE_PB_FIXED32);
    ty_buf_add(b, bytes, sizeof bytes);
}

void wire_pb_fixed64(struct ty_buf *b, uint32_t field, uint64_t value)
{
    char bytes[8];
    wire_store_le64(bytes, value);
    put_key(b, field, WIRE_PB_FIXED64);
    ty_buf_add(b, bytes, sizeof bytes);
}

void wire_pb_float(struct ty_buf *b, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    wire_pb_fixed32(b, field, bits);
}

void wire_pb_double(struct ty_buf *b, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    wire_pb_fixed64(b, field, bits);
}

void wire_pb_bytes(struct ty_buf *b, uint32_t field, ty_str bytes)
{
    put_key(b, field, WIRE_PB_BYTES);
    wire_pb_put_varint(b, bytes.len);
    ty_buf_adds(b, bytes);
}

/* One byte is kept for the length; a longer length moves the content along. */
size_t wire_pb_begin(struct ty_buf *b, uint32_t field)
{
    put_key(b, field, WIRE_PB_BYTES);
    ty_buf_addc(b, 0);
    return b->len;
}

void wire_pb_end(struct ty_buf *b, size_t mark)
{
    if (b->full) /* ty_buf_check will say so; marks may lie beyond what was kept */
        return;
    ty_assert(mark > 0 && mark <= b->len);
    size_t n = b->len - mark;
    char length[VARINT_BYTES];
    size_t extra = varint_encode(length, n) - 1;
    ty_buf_add(b, length, extra); /* room, whatever it holds */
    if (b->full)
        return;
    memmove(b->ptr + mark + extra, b->ptr + mark, n);
    memcpy(b->ptr + mark - 1, length, extra + 1);
}

static bool take_value(struct wire_pb *m, struct wire_pb_field *f)
{
    size_t left = (size_t)(m->end - m->at);
    switch (f->type) {
    case WIRE_PB_VARINT:
        return wire_pb_take_varint(m, &f->value);
    case WIRE_PB_FIXED64:
        if (left < 8)
            return false;
        f->value = wire_load_le64(m->at);
        m->at += 8;
        return true;
    case WIRE_PB_FIXED32:
        if (left < 4)
            return false;
        f->value = wire_load_le32(m->at);
        m->at += 4;
        return true;
    case WIRE_PB_BYTES:
        if (!wire_pb_take_varint(m, &f->value) || f->value > (size_t)(m->end - m->at))
            return false;
        f->bytes = (ty_str){m->at, (size_t)f->value};
        m->at += f->value;
        return true;
    }
    return false; /* groups, and the two types that do not exist */
}

ty_err wire_pb_next_any(struct wire_pb *m, struct wire_pb_field *ret_field)
{
    if (m->at == m->end)
        return TY_OUT_OF_RANGE;
    struct wire_pb at = *m;
    struct wire_pb_field f = {0};
    uint64_t key;
    if (!wire_pb_take_varint(&at, &key) || key >> 3 == 0 || key > UINT32_MAX)
        return ty_fail(TY_DATA_LOSS, "no protobuf message: a field's key is broken");
    f.number = (uint32_t)(key >> 3);
    f.type = (enum wire_pb_type)(key & 7);
    if (!take_value(&at, &f))
        return ty_fail(TY_DATA_LOSS,
                       "no protobuf message: field %" PRIu32 " is cut short or broken", f.number);
    *m = at;
    *ret_field = f;
    return TY_OK;
}
