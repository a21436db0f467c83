/* bundle.c -- TensorFlow's tensor bundles: an index of names and one file of values.
 *
 *   NAME.index                a table (table.c): "" -> BundleHeaderProto, name -> BundleEntryProto
 *   NAME.data-00000-of-00001  the tensors' bytes, one after the other
 *   BundleHeaderProto { num_shards = 1; endianness = 2; VersionDef version = 3 { producer = 1; } }
 *   BundleEntryProto  { dtype = 1; shape = 2; shard_id = 3; offset = 4; size = 5; fixed32 crc32c =
 * 6; slices = 7; }
 *
 * A string tensor's bytes: the lengths as varints, the masked crc32c of the lengths (each as four
 * bytes, or eight if it needs them), then the strings. Its entry's crc goes over the lengths in
 * that form, their crc, and the strings. Fields that have their default value are left out, as
 * protobuf does, so that an index is TensorFlow's own byte for byte. */
#include "formats/formats_int.h"

/* ---- writing ---- */

void bundle_writer_init(struct bundle_writer *w, struct ty_arena *a)
{
    *w = (struct bundle_writer){.arena = a};
}

static void entry_push(struct bundle_writer *w, const struct bundle_entry *e)
{
    if (w->count == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 32;
        struct bundle_entry *grown = ty_new_array(w->arena, struct bundle_entry, cap);
        if (w->count)
            memcpy(grown, w->entries, w->count * sizeof *grown);
        w->entries = grown;
        w->cap = cap;
    }
    w->entries[w->count++] = *e;
    w->offset += e->size_bytes;
}

ty_err bundle_add(struct bundle_writer *w, ty_str name, enum dtype t, const struct shape *s,
                  ty_str bytes)
{
    int64_t count = shape_count(s);
    size_t each = dtype_bytes(t);
    if (each == 0 || count < 0 || bytes.len != (uint64_t)count * each)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "tensor '" TY_STR_FMT "': %zu bytes are not %" PRId64 " values of %s",
                       TY_STR_ARG(name), bytes.len, count, dtype_name(t));
    struct bundle_entry e = {.name = ty_str_dup(w->arena, name),
                             .dtype = t,
                             .shape = *s,
                             .offset = w->offset,
                             .size_bytes = bytes.len,
                             .crc = wire_crc32c_mask(wire_crc32c(0, bytes.ptr, bytes.len))};
    entry_push(w, &e);
    return TY_OK;
}

/* A length as the checksum sees it. */
static uint32_t crc_length(uint32_t crc, uint64_t length)
{
    char bytes[8];
    wire_store_le64(bytes, length);
    return wire_crc32c(crc, bytes, length <= UINT32_MAX ? 4 : 8);
}

ty_err bundle_add_strings(struct bundle_writer *w, ty_str name, const struct shape *s,
                          const ty_str *values, struct ty_buf *data)
{
    int64_t count = shape_count(s);
    if (count < 0)
        return ty_fail(TY_INVALID_ARGUMENT, "tensor '" TY_STR_FMT "': its shape is not known",
                       TY_STR_ARG(name));
    size_t start = data->len;
    uint32_t crc = 0;
    for (int64_t i = 0; i < count; i++) {
        wire_pb_put_varint(data, values[i].len);
        crc = crc_length(crc, values[i].len);
    }
    char lengths_crc[4];
    wire_store_le32(lengths_crc, wire_crc32c_mask(crc));
    ty_buf_add(data, lengths_crc, sizeof lengths_crc);
    crc = wire_crc32c(crc, lengths_crc, sizeof lengths_crc);
    for (int64_t i = 0; i < count; i++) {
        ty_buf_adds(data, values[i]);
        crc = wire_crc32c(crc, values[i].ptr, values[i].len);
    }
    ty_err err = ty_buf_check(data, "the tensors");
    if (err)
        return err;
    struct bundle_entry e = {.name = ty_str_dup(w->arena, name),
                             .dtype = DTYPE_STRING,
                             .shape = *s,
                             .offset = w->offset,
                             .size_bytes = data->len - start,
                             .crc = wire_crc32c_mask(crc)};
    entry_push(w, &e);
    return TY_OK;
}

static int entry_order(const void *a, const void *b)
{
    const struct bundle_entry *x = a, *y = b;
    return ty_str_cmp(x->name, y->name);
}

static void header_encode(struct ty_buf *b)
{
    wire_pb_int(b, 1, 1);
    size_t version = wire_pb_begin(b, 3);
    wire_pb_int(b, 1, 1);
    wire_pb_end(b, version);
}

static void entry_encode(struct ty_buf *b, const struct bundle_entry *e)
{
    wire_pb_int(b, 1, e->dtype);
    size_t shape = wire_pb_begin(b, 2);
    shape_encode(b, &e->shape);
    wire_pb_end(b, shape);
    if (e->offset)
        wire_pb_varint(b, 4, e->offset);
    if (e->size_bytes)
        wire_pb_varint(b, 5, e->size_bytes);
    if (e->crc)
        wire_pb_fixed32(b, 6, e->crc);
}

ty_err bundle_index(struct bundle_writer *w, struct ty_buf *b)
{
    if (w->count)
        qsort(w->entries, w->count, sizeof *w->entries, entry_order);
    struct table_entry *table = ty_new_array(w->arena, struct table_entry, w->count + 1);
    struct ty_buf value;
    ty_buf_init(&value, 4096);
    header_encode(&value);
    table[0] = (struct table_entry){{"", 0}, ty_str_dup(w->arena, ty_buf_str(&value))};
    ty_err err = TY_OK;
    for (size_t i = 0; i < w->count && !err; i++) {
        ty_str name = w->entries[i].name;
        if (name.len == 0 || (i && ty_str_eq(name, w->entries[i - 1].name)))
            err = ty_fail(TY_INVALID_ARGUMENT,
                          "two tensors are named '" TY_STR_FMT "', or one has no name",
                          TY_STR_ARG(name));
        ty_buf_clear(&value);
        entry_encode(&value, &w->entries[i]);
        table[i + 1] = (struct table_entry){name, ty_str_dup(w->arena, ty_buf_str(&value))};
    }
    if (!err) {
        table_encode(b, table, w->count + 1);
        err = ty_buf_check(b, "the bundle's index");
    }
    ty_buf_clear(&value);
    return err;
}

/* ---- reading ---- */

static ty_err header_decode(ty_str message, int32_t *ret_shards)
{
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    ty_err err;
    uint64_t shards = 0, endianness = 0;
    while ((err = wire_pb_next(&m, &f)) == TY_OK) {
        if (f.number == 1 && f.type == WIRE_PB_VARINT)
            shards = f.value;
        else if (f.number == 2 && f.type == WIRE_PB_VARINT)
            endianness = f.value;
    }
    if (err != TY_OUT_OF_RANGE)
        return err;
    if (shards < 1 || shards > 99999 || endianness != 0)
        return ty_fail(TY_DATA_LOSS,
                       "no bundle index: its header is broken or from a big-endian machine");
    *ret_shards = (int32_t)shards;
    return TY_OK;
}

static ty_err entry_field(const struct wire_pb_field *f, struct bundle_entry *e)
{
    bool number = f->type == WIRE_PB_VARINT;
    if (f->number == 1 && number && f->value < 200)
        e->dtype = (enum dtype)f->value;
    else if (f->number == 2 && f->type == WIRE_PB_BYTES)
        return shape_decode(f->bytes, &e->shape);
    else if (f->number == 3 && number && f->value <= INT32_MAX)
        e->shard = (int32_t)f->value;
    else if (f->number == 4 && number)
        e->offset = f->value;
    else if (f->number == 5 && number)
        e->size_bytes = f->value;
    else if (f->number == 6 && f->type == WIRE_PB_FIXED32)
        e->crc = (uint32_t)f->value;
    else if (f->number == 7)
        e->sliced = true;
    return TY_OK;
}

static ty_err entry_decode(const struct table_entry *from, struct bundle_entry *e)
{
    struct wire_pb m = wire_pb_of(from->value);
    struct wire_pb_field f;
    ty_err err;
    *e = (struct bundle_entry){.name = from->key};
    while ((err = wire_pb_next(&m, &f)) == TY_OK)
        if ((err = entry_field(&f, e)) != TY_OK)
            break;
    if (err == TY_OUT_OF_RANGE)
        return TY_OK;
    return ty_wrap(err, "tensor '" TY_STR_FMT "'", TY_STR_ARG(from->key));
}

ty_err bundle_open(struct ty_arena *a, ty_str index, struct bundle *ret_bundle)
{
    struct table_entry *table;
    size_t count;
    struct bundle b = {0};
    ty_err err = table_decode(a, index, BUNDLE_MAX_ENTRIES, &table, &count);
    if (err)
        return err;
    if (count == 0 || table[0].key.len != 0)
        return ty_fail(TY_DATA_LOSS, "no bundle index: it has no header");
    if ((err = header_decode(table[0].value, &b.shards)) != TY_OK)
        return err;
    b.count = count - 1;
    b.entries = ty_new_array(a, struct bundle_entry, b.count);
    for (size_t i = 0; i < b.count; i++) {
        if ((err = entry_decode(&table[i + 1], &b.entries[i])) != TY_OK)
            return err;
        if (b.entries[i].shard >= b.shards)
            return ty_fail(TY_DATA_LOSS,
                           "tensor '" TY_STR_FMT "' is in a data file that does not exist",
                           TY_STR_ARG(b.entries[i].name));
    }
    *ret_bundle = b;
    return TY_OK;
}

static int name_order(const void *name, const void *entry)
{
    return ty_str_cmp(*(const ty_str *)name, ((const struct bundle_entry *)entry)->name);
}

ty_err bundle_find(const struct bundle *b, ty_str name, const struct bundle_entry **ret_entry)
{
    const struct bundle_entry *e =
        b->count ? bsearch(&name, b->entries, b->count, sizeof *b->entries, name_order) : NULL;
    if (!e)
        return ty_fail(TY_NOT_FOUND, "the bundle has no tensor '" TY_STR_FMT "'", TY_STR_ARG(name));
    *ret_entry = e;
    return TY_OK;
}

/* The entry's bytes in the data file, unchecked. */
static ty_err entry_bytes(const struct bundle_entry *e, ty_str data, ty_str *ret_bytes)
{
    if (e->sliced)
        return ty_fail(TY_UNIMPLEMENTED,
                       "tensor '" TY_STR_FMT "' is stored in slices (a partitioned variable)",
                       TY_STR_ARG(e->name));
    if (e->offset > data.len || e->size_bytes > data.len - e->offset)
        return ty_fail(TY_DATA_LOSS, "tensor '" TY_STR_FMT "': the data file is cut short",
                       TY_STR_ARG(e->name));
    *ret_bytes = (ty_str){data.ptr + e->offset, (size_t)e->size_bytes};
    return TY_OK;
}

static ty_err checksum_fail(const struct bundle_entry *e)
{
    return ty_fail(TY_DATA_LOSS, "tensor '" TY_STR_FMT "' fails its checksum", TY_STR_ARG(e->name));
}

ty_err bundle_tensor(const struct bundle_entry *e, ty_str data, ty_str *ret_bytes)
{
    ty_str bytes = {0};
    ty_err err = entry_bytes(e, data, &bytes);
    if (err)
        return err;
    size_t each = dtype_bytes(e->dtype);
    int64_t count = shape_count(&e->shape);
    if (each == 0 || count < 0 || bytes.len != (uint64_t)count * each)
        return ty_fail(TY_DATA_LOSS,
                       "tensor '" TY_STR_FMT "': %zu bytes are not %" PRId64 " values of %s",
                       TY_STR_ARG(e->name), bytes.len, count, dtype_name(e->dtype));
    if (wire_crc32c_mask(wire_crc32c(0, bytes.ptr, bytes.len)) != e->crc)
        return checksum_fail(e);
    *ret_bytes = bytes;
    return TY_OK;
}

/* The lengths and their checksum; *crc goes on from there. */
static ty_err lengths_take(const struct bundle_entry *e, struct wire_pb *m, ty_str *values,
                           size_t count, uint32_t *crc)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t n;
        if (!wire_pb_take_varint(m, &n) || n > (size_t)(m->end - m->at))
            return checksum_fail(e);
        values[i].len = (size_t)n;
        *crc = crc_length(*crc, n);
    }
    if (m->end - m->at < 4 || wire_load_le32(m->at) != wire_crc32c_mask(*crc))
        return checksum_fail(e);
    *crc = wire_crc32c(*crc, m->at, 4);
    m->at += 4;
    return TY_OK;
}

ty_err bundle_strings(struct ty_arena *a, const struct bundle_entry *e, ty_str data,
                      ty_str **ret_values, size_t *ret_count)
{
    ty_str bytes = {0};
    ty_err err = entry_bytes(e, data, &bytes);
    if (err)
        return err;
    int64_t count = shape_count(&e->shape);
    if (e->dtype != DTYPE_STRING || count < 0 || (uint64_t)count > bytes.len)
        return ty_fail(TY_DATA_LOSS, "tensor '" TY_STR_FMT "' is no string tensor of its shape",
                       TY_STR_ARG(e->name));
    ty_str *values = ty_new_array(a, ty_str, (size_t)count);
    struct wire_pb m = wire_pb_of(bytes);
    uint32_t crc = 0;
    if ((err = lengths_take(e, &m, values, (size_t)count, &crc)) != TY_OK)
        return err;
    for (int64_t i = 0; i < count; i++) {
        if (values[i].len > (size_t)(m.end - m.at))
            return checksum_fail(e);
        values[i].ptr = m.at;
        m.at += values[i].len;
        crc = wire_crc32c(crc, values[i].ptr, values[i].len);
    }
    if (m.at != m.end || wire_crc32c_mask(crc) != e->crc)
        return checksum_fail(e);
    *ret_values = values;
    *ret_count = (size_t)count;
    return TY_OK;
}
