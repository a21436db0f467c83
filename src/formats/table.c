/* table.c -- the sorted table of keys and values that a bundle's index file is (LevelDB's format).
 *
 *   file    := data block*, metaindex block (empty), index block, footer
 *   block   := entry*, restart offsets (4 bytes each), their number (4 bytes)
 *              then one byte of compression (0: none) and the masked crc32c of block and that byte
 *   entry   := varint shared, varint unshared, varint value length, key bytes, value bytes
 *              shared: how many bytes the key has in common with the one before; 0 at a restart
 *   index   := one entry a data block: a key at or after its last one -> handle of the block
 *   handle  := varint offset, varint size (without the five bytes after it)
 *   footer  := metaindex handle, index handle, zeros up to 40 bytes, magic (8 bytes)
 *
 * TensorFlow writes data blocks of 256 KiB, a restart every 16 entries, never compressed: so do we,
 * byte for byte. The reader takes any block size, walks blocks in the index's order and wants keys
 * in strictly rising order over the whole file. */
#include "formats/formats_int.h"

enum {
    BLOCK_BYTES = 256 << 10,
    RESTART_EVERY = 16,
    TRAILER_BYTES = 5,
    HANDLE_BYTES = 40,
    FOOTER_BYTES = HANDLE_BYTES + 8,
    KEY_BYTES = 1 << 16,
    ALL_KEYS_BYTES = 64 << 20, /* shared prefixes make a few bytes of file a long name */
};
static const uint64_t magic = 0xdb4775248b80fb57u;

/* ---- writing ---- */

struct block {
    struct ty_buf *out;
    size_t start;
    struct ty_buf restarts; /* 4 bytes each */
    size_t since_restart;
    bool any;
    ty_str last_key;
    size_t index_every; /* restart interval */
};

static void put_le32(struct ty_buf *b, uint32_t v)
{
    char bytes[4];
    wire_store_le32(bytes, v);
    ty_buf_add(b, bytes, sizeof bytes);
}

static void block_begin(struct block *k, struct ty_buf *out, size_t restart_every)
{
    *k = (struct block){.out = out, .start = out->len, .index_every = restart_every};
    ty_buf_init(&k->restarts, SIZE_MAX / 2);
    put_le32(&k->restarts, 0);
}

static size_t shared_bytes(ty_str a, ty_str b)
{
    size_t n = 0, least = a.len < b.len ? a.len : b.len;
    while (n < least && a.ptr[n] == b.ptr[n])
        n++;
    return n;
}

static void block_add(struct block *k, ty_str key, ty_str value)
{
    size_t shared = 0;
    if (k->since_restart < k->index_every) {
        shared = k->any ? shared_bytes(k->last_key, key) : 0;
    } else {
        put_le32(&k->restarts, (uint32_t)(k->out->len - k->start));
        k->since_restart = 0;
    }
    wire_pb_put_varint(k->out, shared);
    wire_pb_put_varint(k->out, key.len - shared);
    wire_pb_put_varint(k->out, value.len);
    ty_buf_adds(k->out, ty_str_drop(key, shared));
    ty_buf_adds(k->out, value);
    k->since_restart++;
    k->any = true;
    k->last_key = key;
}

/* Closes the block and appends its handle to `handle`. */
static void block_end(struct block *k, struct ty_buf *handle)
{
    struct ty_buf *b = k->out;
    ty_buf_adds(b, ty_buf_str(&k->restarts));
    put_le32(b, (uint32_t)(k->restarts.len / 4));
    ty_buf_clear(&k->restarts);
    size_t size = b->len - k->start;
    ty_buf_addc(b, 0);
    if (!b->full)
        put_le32(b, wire_crc32c_mask(wire_crc32c(0, b->ptr + k->start, size + 1)));
    wire_pb_put_varint(handle, k->start);
    wire_pb_put_varint(handle, size);
}

/* A short key between a block's last one and the next block's first: at or after one, before the
 * other. As LevelDB does: cut after the first differing byte, raised by one. */
static ty_str key_between(ty_str last, ty_str next, char room[KEY_BYTES])
{
    size_t n = shared_bytes(last, next);
    if (n >= last.len || n >= next.len || n >= KEY_BYTES)
        return last;
    unsigned char c = (unsigned char)last.ptr[n];
    if (c == 0xff || c + 1 >= (unsigned char)next.ptr[n])
        return last;
    memcpy(room, last.ptr, n);
    room[n] = (char)(c + 1);
    return (ty_str){room, n + 1};
}

/* A short key after all: the first byte that can be raised, raised. */
static ty_str key_after(ty_str last, char room[KEY_BYTES])
{
    for (size_t n = 0; n < last.len && n < KEY_BYTES; n++) {
        if ((unsigned char)last.ptr[n] == 0xff)
            continue;
        memcpy(room, last.ptr, n);
        room[n] = (char)(last.ptr[n] + 1);
        return (ty_str){room, n + 1};
    }
    return last;
}

static void footer_put(struct ty_buf *b, struct ty_buf *handles)
{
    char footer[FOOTER_BYTES] = {0};
    memcpy(footer, handles->ptr, handles->len);
    wire_store_le64(footer + HANDLE_BYTES, magic);
    ty_buf_add(b, footer, sizeof footer);
}

void table_encode(struct ty_buf *b, const struct table_entry *entries, size_t count)
{
    struct ty_arena keys = {0}; /* of the index, until it is written */
    struct ty_buf index, handle, footer;
    struct block data, inner;
    char room[KEY_BYTES];
    size_t base = b->len;
    ty_assert(base == 0); /* handles are offsets in the file */
    ty_buf_init(&index, b->limit);
    ty_buf_init(&handle, HANDLE_BYTES);
    ty_buf_init(&footer, HANDLE_BYTES);
    block_begin(&inner, &index, 1);
    for (size_t i = 0; i < count;) {
        block_begin(&data, b, RESTART_EVERY);
        do
            block_add(&data, entries[i].key, entries[i].value);
        while (++i < count && b->len - data.start + data.restarts.len + 4 < BLOCK_BYTES);
        block_end(&data, &handle);
        ty_str key = i < count ? key_between(entries[i - 1].key, entries[i].key, room)
                               : key_after(entries[i - 1].key, room);
        block_add(&inner, ty_str_dup(&keys, key), ty_buf_str(&handle));
        ty_buf_clear(&handle);
    }
    block_begin(&data, b, RESTART_EVERY);
    block_end(&data, &footer); /* the metaindex, which nobody uses */
    /* The index was made apart, because data blocks came between its entries. */
    inner.start = 0;
    struct ty_buf unused;
    ty_buf_init(&unused, HANDLE_BYTES);
    size_t at = b->len;
    block_end(&inner, &unused);
    ty_buf_adds(b, ty_buf_str(&index));
    wire_pb_put_varint(&footer, at);
    wire_pb_put_varint(&footer, index.len - TRAILER_BYTES);
    footer_put(b, &footer);
    ty_buf_clear(&unused);
    ty_buf_clear(&index);
    ty_buf_clear(&handle);
    ty_buf_clear(&footer);
    ty_arena_clear(&keys);
}

/* ---- reading ---- */

struct table {
    struct ty_arena *arena;
    ty_str file;
    struct table_entry *entries;
    size_t count, cap, most;
    size_t key_bytes;   /* of all names so far */
    uint64_t block_end; /* of the last data block: they follow each other */
};

static ty_err table_fail(const char *what)
{
    return ty_fail(TY_DATA_LOSS, "no bundle index: %s", what);
}

static bool handle_take(struct wire_pb *m, uint64_t *ret_offset, uint64_t *ret_size)
{
    return wire_pb_take_varint(m, ret_offset) && wire_pb_take_varint(m, ret_size);
}

/* A block's entries, without restarts and trailer, its checksum having been checked. */
static ty_err block_open(ty_str file, uint64_t offset, uint64_t size, ty_str *ret_entries)
{
    if (offset > file.len || size > file.len - offset || file.len - offset - size < TRAILER_BYTES)
        return table_fail("a block lies outside the file");
    const char *p = file.ptr + offset;
    if (wire_crc32c_mask(wire_crc32c(0, p, size + 1)) != wire_load_le32(p + size + 1))
        return table_fail("a block fails its checksum");
    if (p[size] != 0)
        return table_fail("a block is compressed, which TensorFlow's bundles never are");
    uint64_t restarts = size >= 4 ? wire_load_le32(p + size - 4) : UINT64_MAX;
    if (restarts > size / 4 - 1)
        return table_fail("a block's restarts do not fit it");
    *ret_entries = (ty_str){p, (size_t)(size - 4 * (restarts + 1))};
    return TY_OK;
}

/* The entry at m->at; its key is `last` with its end exchanged, in the arena. */
static ty_err entry_take(struct table *t, struct wire_pb *m, ty_str last,
                         struct table_entry *ret_entry)
{
    uint64_t shared, unshared, size;
    if (!wire_pb_take_varint(m, &shared) || !wire_pb_take_varint(m, &unshared) ||
        !wire_pb_take_varint(m, &size))
        return table_fail("an entry is cut short");
    size_t left = (size_t)(m->end - m->at);
    if (shared > last.len || unshared > left || size > left - unshared)
        return table_fail("an entry does not fit its block");
    t->key_bytes += shared + unshared;
    if (shared + unshared > KEY_BYTES || t->key_bytes > ALL_KEYS_BYTES)
        return table_fail("a name is longer than 64 KiB, or all are longer than 64 MiB");
    char *key = ty_alloc(t->arena, (size_t)(shared + unshared) + 1);
    if (shared)
        memcpy(key, last.ptr, (size_t)shared);
    memcpy(key + shared, m->at, (size_t)unshared);
    ret_entry->key = (ty_str){key, (size_t)(shared + unshared)};
    ret_entry->value = (ty_str){m->at + unshared, (size_t)size};
    m->at += unshared + size;
    return TY_OK;
}

static ty_err table_push(struct table *t, const struct table_entry *e)
{
    if (t->count == t->most)
        return ty_fail(TY_RESOURCE_EXHAUSTED, "the bundle has more than %zu tensors", t->most);
    if (t->count && ty_str_cmp(t->entries[t->count - 1].key, e->key) >= 0)
        return table_fail("its names are not in order");
    if (t->count == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        struct table_entry *grown = ty_new_array(t->arena, struct table_entry, cap);
        if (t->count)
            memcpy(grown, t->entries, t->count * sizeof *grown);
        t->entries = grown;
        t->cap = cap;
    }
    t->entries[t->count++] = *e;
    return TY_OK;
}

/* Blocks follow each other: a file that named one block a thousand times would cost that much. */
static ty_err data_read(struct table *t, uint64_t offset, uint64_t size)
{
    ty_str entries;
    if (offset < t->block_end)
        return table_fail("its blocks are not in order");
    ty_err err = block_open(t->file, offset, size, &entries);
    if (err)
        return err;
    t->block_end = offset + size;
    struct wire_pb m = wire_pb_of(entries);
    struct table_entry e = {0};
    while (m.at < m.end) {
        if ((err = entry_take(t, &m, e.key, &e)) || (err = table_push(t, &e)))
            return err;
    }
    return TY_OK;
}

static ty_err index_read(struct table *t, ty_str entries)
{
    struct wire_pb m = wire_pb_of(entries);
    struct table_entry e = {0};
    while (m.at < m.end) {
        uint64_t offset, size;
        ty_err err = entry_take(t, &m, e.key, &e);
        if (err)
            return err;
        struct wire_pb handle = wire_pb_of(e.value);
        if (!handle_take(&handle, &offset, &size))
            return table_fail("its index is broken");
        if ((err = data_read(t, offset, size)) != TY_OK)
            return err;
    }
    return TY_OK;
}

ty_err table_decode(struct ty_arena *a, ty_str file, size_t most, struct table_entry **ret_entries,
                    size_t *ret_count)
{
    if (file.len < FOOTER_BYTES || wire_load_le64(file.ptr + file.len - 8) != magic)
        return table_fail("it does not end with the mark of one");
    struct wire_pb footer = wire_pb_of((ty_str){file.ptr + file.len - FOOTER_BYTES, HANDLE_BYTES});
    uint64_t offset, size;
    bool whole = handle_take(&footer, &offset, &size); /* of what nobody reads */
    if (!whole || !handle_take(&footer, &offset, &size))
        return table_fail("its footer is broken");
    struct table t = {.arena = a, .file = file, .most = most};
    ty_str index;
    ty_err err = block_open(file, offset, size, &index);
    if (!err)
        err = index_read(&t, index);
    if (err)
        return err;
    *ret_entries = t.entries;
    *ret_count = t.count;
    return TY_OK;
}
