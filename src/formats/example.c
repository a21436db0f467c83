/* example.c -- tf.Example: decoded into a schema of wanted features, and encoded.
 *
 *   Example   { Features features = 1; }
 *   Features  { map<string, Feature> feature = 1; }      entry: key = 1, value = 2
 *   Feature   { oneof: BytesList 1, FloatList 2, Int64List 3 }
 *   *List     { repeated value = 1; }                    floats and int64s packed or one by one
 *
 * One walk over the bytes: names are looked up by a small hash table, values go straight to the
 * caller's arrays, strings stay where they are. Parts that protobuf would merge (two Features, two
 * lists of one kind) are joined as protobuf does. */
#include "formats/formats.h"

#include "wire/wire.h"

static const size_t ABSENT = SIZE_MAX;
static const char *const type_names[] = {"nothing", "bytes", "floats", "int64s"};

/* A name's ends and length tell apart almost all sets of names. */
static size_t name_hash(ty_str s)
{
    uint64_t h = s.len * 0x9e3779b97f4a7c15u;
    if (s.len >= 8)
        h ^= wire_load_le64(s.ptr) * 0xff51afd7ed558ccdu + wire_load_le64(s.ptr + s.len - 8);
    else
        for (size_t i = 0; i < s.len; i++)
            h = (h ^ (unsigned char)s.ptr[i]) * 0x100000001b3u;
    h *= 0xc4ceb9fe1a85ec53u;
    return (size_t)(h >> 32);
}

/* The table's place of a name: its own, or the empty one where it would go. */
static size_t name_place(const struct example_schema *s, ty_str name)
{
    size_t at = name_hash(name) & s->mask;
    while (s->table[at] && !ty_str_eq(s->features[s->table[at] - 1].name, name))
        at = (at + 1) & s->mask;
    return at;
}

ty_err example_schema_init(struct example_schema *s, struct ty_arena *a,
                           const struct example_feature *features, size_t count)
{
    if (count == 0 || count > EXAMPLE_MAX_FEATURES)
        return ty_fail(TY_INVALID_ARGUMENT, "%zu features are wanted: 1 to %d can be", count,
                       EXAMPLE_MAX_FEATURES);
    struct example_schema made = {.features = features, .count = count, .mask = 15};
    while (made.mask < 2 * count)
        made.mask = made.mask * 2 + 1;
    made.table = ty_new_array(a, uint16_t, made.mask + 1);
    for (size_t i = 0; i < count; i++) {
        const struct example_feature *f = &features[i];
        if (f->most > EXAMPLE_MAX_VALUES || f->least > f->most)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "feature '" TY_STR_FMT "': between %zu and %zu values",
                           TY_STR_ARG(f->name), f->least, f->most);
        size_t at = name_place(&made, f->name);
        if (made.table[at])
            return ty_fail(TY_INVALID_ARGUMENT, "feature '" TY_STR_FMT "' is wanted twice",
                           TY_STR_ARG(f->name));
        made.table[at] = (uint16_t)(i + 1);
    }
    *s = made;
    return TY_OK;
}

/* ---- lists ---- */

static ty_err too_many(const struct example_feature *f)
{
    return ty_fail(TY_INVALID_ARGUMENT, "feature '" TY_STR_FMT "' has more than %zu values",
                   TY_STR_ARG(f->name), f->most);
}

static ty_err broken_list(const struct example_feature *f)
{
    return ty_fail(TY_DATA_LOSS, "no tf.Example: the list of feature '" TY_STR_FMT "' is broken",
                   TY_STR_ARG(f->name));
}

static ty_err bytes_take(const struct example_feature *f, const struct wire_pb_field *value,
                         struct example_slot *slot)
{
    if (value->type != WIRE_PB_BYTES)
        return broken_list(f);
    if (slot->count == f->most)
        return too_many(f);
    slot->bytes[slot->count++] = value->bytes;
    return TY_OK;
}

static ty_err floats_take(const struct example_feature *f, const struct wire_pb_field *value,
                          struct example_slot *slot)
{
    if (value->type == WIRE_PB_FIXED32) {
        if (slot->count == f->most)
            return too_many(f);
        slot->floats[slot->count++] = wire_float_of((uint32_t)value->value);
        return TY_OK;
    }
    if (value->type != WIRE_PB_BYTES || value->bytes.len % 4)
        return broken_list(f);
    size_t n = value->bytes.len / 4;
    if (n > f->most - slot->count)
        return too_many(f);
    for (size_t i = 0; i < n; i++)
        slot->floats[slot->count + i] = wire_float_of(wire_load_le32(value->bytes.ptr + 4 * i));
    slot->count += n;
    return TY_OK;
}

static ty_err ints_take(const struct example_feature *f, const struct wire_pb_field *value,
                        struct example_slot *slot)
{
    if (value->type == WIRE_PB_VARINT) {
        if (slot->count == f->most)
            return too_many(f);
        slot->ints[slot->count++] = (int64_t)value->value;
        return TY_OK;
    }
    if (value->type != WIRE_PB_BYTES)
        return broken_list(f);
    struct wire_pb packed = wire_pb_of(value->bytes);
    while (packed.at != packed.end) {
        uint64_t v;
        if (slot->count == f->most)
            return too_many(f);
        if (!wire_pb_take_varint(&packed, &v))
            return broken_list(f);
        slot->ints[slot->count++] = (int64_t)v;
    }
    return TY_OK;
}

static ty_err list_take(const struct example_feature *f, ty_str list, struct example_slot *slot)
{
    struct wire_pb m = wire_pb_of(list);
    struct wire_pb_field value;
    ty_err err;
    while ((err = wire_pb_next(&m, &value)) == TY_OK) {
        if (value.number != 1)
            continue;
        if (f->type == EXAMPLE_FLOAT)
            err = floats_take(f, &value, slot);
        else
            err =
                f->type == EXAMPLE_INT64 ? ints_take(f, &value, slot) : bytes_take(f, &value, slot);
        if (err)
            return err;
    }
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

/* ---- features ---- */

/* A Feature: the last kind that is set counts. */
static ty_err feature_take(const struct example_feature *f, ty_str feature,
                           struct example_slot *slot)
{
    struct wire_pb m = wire_pb_of(feature);
    struct wire_pb_field kind;
    uint32_t last = 0;
    ty_err err;
    slot->count = ABSENT;
    while ((err = wire_pb_next(&m, &kind)) == TY_OK) {
        if (kind.number > EXAMPLE_INT64 || kind.type != WIRE_PB_BYTES)
            continue;
        if (kind.number != last)
            slot->count = 0;
        last = kind.number;
        if (last == f->type && (err = list_take(f, kind.bytes, slot)) != TY_OK)
            return err;
    }
    if (err != TY_OUT_OF_RANGE)
        return err;
    if (last && last != f->type)
        return ty_fail(TY_INVALID_ARGUMENT, "feature '" TY_STR_FMT "' holds %s, not %s",
                       TY_STR_ARG(f->name), type_names[last], type_names[f->type]);
    return TY_OK;
}

static ty_err entry_split(ty_str entry, ty_str *ret_key, ty_str *ret_value)
{
    struct wire_pb m = wire_pb_of(entry);
    struct wire_pb_field f;
    ty_err err;
    ty_str key = {"", 0}, value = {"", 0};
    while ((err = wire_pb_next(&m, &f)) == TY_OK) {
        if (f.number == 1 && f.type == WIRE_PB_BYTES)
            key = f.bytes;
        else if (f.number == 2 && f.type == WIRE_PB_BYTES)
            value = f.bytes;
    }
    if (err != TY_OUT_OF_RANGE)
        return err;
    *ret_key = key;
    *ret_value = value;
    return TY_OK;
}

/* Calls `each` for every entry of every Features of an Example. */
static inline __attribute__((always_inline)) ty_err entries_walk(
    ty_str record, ty_err (*each)(void *data, ty_str key, ty_str value), void *data)
{
    struct wire_pb example = wire_pb_of(record);
    struct wire_pb_field features, entry;
    ty_err err;
    while ((err = wire_pb_next(&example, &features)) == TY_OK) {
        if (features.number != 1 || features.type != WIRE_PB_BYTES)
            continue;
        struct wire_pb map = wire_pb_of(features.bytes);
        while ((err = wire_pb_next(&map, &entry)) == TY_OK) {
            ty_str key, value;
            if (entry.number != 1 || entry.type != WIRE_PB_BYTES)
                continue;
            if ((err = entry_split(entry.bytes, &key, &value)) || (err = each(data, key, value)))
                return err;
        }
        if (err != TY_OUT_OF_RANGE)
            return err;
    }
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

struct decoding {
    const struct example_schema *schema;
    struct example_slot *slots;
};

static ty_err entry_decode(void *data, ty_str key, ty_str value)
{
    const struct decoding *d = data;
    size_t found = d->schema->table[name_place(d->schema, key)];
    if (!found)
        return TY_OK;
    return feature_take(&d->schema->features[found - 1], value, &d->slots[found - 1]);
}

static ty_err slot_check(const struct example_feature *f, struct example_slot *slot)
{
    if (slot->count == ABSENT) {
        slot->count = 0;
        if (f->optional)
            return TY_OK;
        return ty_fail(TY_INVALID_ARGUMENT, "the record has no feature '" TY_STR_FMT "'",
                       TY_STR_ARG(f->name));
    }
    if (slot->count >= f->least)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT, "feature '" TY_STR_FMT "' has %zu values, not %zu",
                   TY_STR_ARG(f->name), slot->count, f->least);
}

ty_err example_decode(const struct example_schema *s, ty_str record, struct example_slot *slots)
{
    for (size_t i = 0; i < s->count; i++)
        slots[i].count = ABSENT;
    struct decoding d = {s, slots};
    ty_err err = entries_walk(record, entry_decode, &d);
    for (size_t i = 0; i < s->count && !err; i++)
        err = slot_check(&s->features[i], &slots[i]);
    return err;
}

/* ---- what is in a record ---- */

struct listing {
    struct ty_arena *arena;
    struct example_feature *features;
    size_t count, cap;
};

/* How many values a list has; packed ones by length or by their last bytes. */
static ty_err list_count(ty_str list, uint32_t type, size_t *count)
{
    struct wire_pb m = wire_pb_of(list);
    struct wire_pb_field value;
    ty_err err;
    while ((err = wire_pb_next(&m, &value)) == TY_OK) {
        if (value.type != WIRE_PB_BYTES || type == EXAMPLE_BYTES) {
            ++*count;
        } else if (type == EXAMPLE_FLOAT) {
            *count += value.bytes.len / 4;
        } else {
            for (size_t i = 0; i < value.bytes.len; i++)
                *count += (unsigned char)value.bytes.ptr[i] < 0x80;
        }
    }
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

static ty_err entry_list(void *data, ty_str key, ty_str value)
{
    struct listing *l = data;
    struct wire_pb m = wire_pb_of(value);
    struct wire_pb_field kind;
    struct example_feature found = {.name = key};
    ty_err err;
    while ((err = wire_pb_next(&m, &kind)) == TY_OK) {
        if (kind.number > EXAMPLE_INT64 || kind.type != WIRE_PB_BYTES)
            continue;
        if (kind.number != found.type)
            found.most = 0;
        found.type = (enum example_type)kind.number;
        if ((err = list_count(kind.bytes, kind.number, &found.most)) != TY_OK)
            return err;
    }
    if (err != TY_OUT_OF_RANGE)
        return err;
    if (l->count == EXAMPLE_MAX_FEATURES)
        return ty_fail(TY_RESOURCE_EXHAUSTED, "the record has more than %d features",
                       EXAMPLE_MAX_FEATURES);
    if (l->count == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        struct example_feature *grown = ty_new_array(l->arena, struct example_feature, cap);
        if (l->count)
            memcpy(grown, l->features, l->count * sizeof *grown);
        l->features = grown;
        l->cap = cap;
    }
    found.least = found.most;
    l->features[l->count++] = found;
    return TY_OK;
}

ty_err example_list(struct ty_arena *a, ty_str record, struct example_feature **ret_features,
                    size_t *ret_count)
{
    struct listing l = {.arena = a};
    ty_err err = entries_walk(record, entry_list, &l);
    if (err)
        return err;
    *ret_features = l.features;
    *ret_count = l.count;
    return TY_OK;
}

/* ---- encode ---- */

static void list_encode(struct ty_buf *b, enum example_type type, const struct example_slot *slot)
{
    if (type == EXAMPLE_BYTES) {
        for (size_t i = 0; i < slot->count; i++)
            wire_pb_bytes(b, 1, slot->bytes[i]);
        return;
    }
    if (slot->count == 0)
        return;
    size_t packed = wire_pb_begin(b, 1);
    for (size_t i = 0; i < slot->count; i++) {
        if (type == EXAMPLE_INT64) {
            wire_pb_put_varint(b, (uint64_t)slot->ints[i]);
            continue;
        }
        char bytes[4];
        uint32_t bits;
        memcpy(&bits, &slot->floats[i], sizeof bits);
        wire_store_le32(bytes, bits);
        ty_buf_add(b, bytes, sizeof bytes);
    }
    wire_pb_end(b, packed);
}

void example_encode(struct ty_buf *b, const struct example_feature *features,
                    const struct example_slot *slots, size_t count)
{
    size_t all = wire_pb_begin(b, 1);
    for (size_t i = 0; i < count; i++) {
        size_t entry = wire_pb_begin(b, 1);
        wire_pb_bytes(b, 1, features[i].name);
        size_t feature = wire_pb_begin(b, 2);
        size_t list = wire_pb_begin(b, features[i].type);
        list_encode(b, features[i].type, &slots[i]);
        wire_pb_end(b, list);
        wire_pb_end(b, feature);
        wire_pb_end(b, entry);
    }
    wire_pb_end(b, all);
}
