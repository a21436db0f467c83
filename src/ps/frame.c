/* frame.c -- frames: what goes over the wire and into the log. Numbers are little-endian.
 *
 *   bytes 0..3    "TYps"             4..5   version of this layout    6..7   kind
 *   8..15         the cluster        16..19 worker                    20..23 flags
 *   24..31        incarnation        32..39 sequence
 *   40..63        a, b, c: by kind (ps_int.h)
 *   64..67        bytes of the body  68..71 crc32c of all before and of the body, masked
 *   72..          the body, a multiple of 4 bytes, so that numbers in it are aligned
 *
 * Bodies:
 *   pull    for each table: u32 variable, u32 n, n x u32 id
 *   push    f32 rate scale; f32 of the server's range of plain numbers; then for each table:
 *           u32 variable, u32 n, n x u32 id, n x width x f32
 *   read    u32 variable, u32 array, u64 from, u64 count
 *   hold, failed, refused: text, filled up with zeros
 *
 * Floats are copied as they are: all machines of a cluster have one byte order, and the magic
 * number would not be right with another. */
#include "ps/ps_int.h"

enum { VERSION = 1, LENGTH_AT = 64, CHECK_AT = 68 };
static const char MAGIC[4] = {'T', 'Y', 'p', 's'};

void ps_frame_begin(struct ty_buf *b)
{
    static const char zeros[PS_HEADER_BYTES];
    b->len = 0;
    ty_buf_add(b, zeros, sizeof zeros);
}

static uint32_t frame_check(const char *frame, ty_str body)
{
    uint32_t crc = wire_crc32c(0, frame, CHECK_AT);
    return wire_crc32c_mask(wire_crc32c(crc, body.ptr, body.len));
}

void ps_frame_end(struct ty_buf *b, const struct ps_frame *f)
{
    static const char zeros[4];
    ty_buf_add(b, zeros, (4 - b->len % 4) % 4);
    if (b->full)
        return;
    char *h = b->ptr;
    ty_str body = {h + PS_HEADER_BYTES, b->len - PS_HEADER_BYTES};
    memcpy(h, MAGIC, sizeof MAGIC);
    wire_store_le32(h + 4, VERSION | (uint32_t)f->kind << 16);
    wire_store_le64(h + 8, f->cluster);
    wire_store_le32(h + 16, f->worker);
    wire_store_le32(h + 20, f->flags);
    wire_store_le64(h + 24, f->incarnation);
    wire_store_le64(h + 32, f->sequence);
    wire_store_le64(h + 40, f->a);
    wire_store_le64(h + 48, f->b);
    wire_store_le64(h + 56, f->c);
    wire_store_le32(h + LENGTH_AT, (uint32_t)body.len);
    wire_store_le32(h + CHECK_AT, frame_check(h, body));
}

ty_err ps_frame_read(ty_str bytes, struct ps_frame *ret_frame, size_t *ret_bytes)
{
    const char *h = bytes.ptr;
    if (bytes.len < PS_HEADER_BYTES)
        return ty_fail(TY_DATA_LOSS, "a frame of %zu bytes is cut short", bytes.len);
    if (memcmp(h, MAGIC, sizeof MAGIC) != 0)
        return ty_fail(TY_DATA_LOSS, "this is no frame of a parameter server");
    uint32_t word = wire_load_le32(h + 4), length = wire_load_le32(h + LENGTH_AT);
    size_t left = bytes.len - PS_HEADER_BYTES;
    if ((word & 0xffff) != VERSION || word >> 16 >= PS_KIND_COUNT)
        return ty_fail(TY_DATA_LOSS,
                       "a frame of version %u, kind %u: all replicas need the same "
                       "trainyard",
                       word & 0xffff, word >> 16);
    if (length % 4 != 0 || length > left || (ret_bytes == NULL && length != left))
        return ty_fail(TY_DATA_LOSS, "a frame has %zu bytes and says %" PRIu32, left, length);
    ty_str body = {h + PS_HEADER_BYTES, length};
    if (frame_check(h, body) != wire_load_le32(h + CHECK_AT))
        return ty_fail(TY_DATA_LOSS, "a frame fails its checksum");
    *ret_frame = (struct ps_frame){.kind = (enum ps_kind)(word >> 16),
                                   .worker = wire_load_le32(h + 16),
                                   .flags = wire_load_le32(h + 20),
                                   .cluster = wire_load_le64(h + 8),
                                   .incarnation = wire_load_le64(h + 24),
                                   .sequence = wire_load_le64(h + 32),
                                   .a = wire_load_le64(h + 40),
                                   .b = wire_load_le64(h + 48),
                                   .c = wire_load_le64(h + 56),
                                   .body = body};
    if (ret_bytes)
        *ret_bytes = PS_HEADER_BYTES + length;
    return TY_OK;
}

/* ---- rows ---- */

void ps_rows_put(struct ty_buf *b, const struct ps_layout *l, size_t server, size_t variable,
                 const struct ps_part *part)
{
    size_t width = l->variables[variable].width;
    uint32_t head[2] = {(uint32_t)variable, 0};
    for (size_t i = 0; i < part->count; i++)
        head[1] += part->ids[i] % l->servers == server;
    if (head[1] == 0)
        return;
    ty_buf_add(b, head, sizeof head);
    for (size_t i = 0; i < part->count; i++)
        if (part->ids[i] % l->servers == server)
            ty_buf_add(b, &part->ids[i], sizeof *part->ids);
    for (size_t i = 0; part->gradient && i < part->count; i++)
        if (part->ids[i] % l->servers == server)
            ty_buf_add(b, part->gradient + i * width, width * sizeof(float));
}

ty_err ps_rows_next(const struct ps_layout *l, size_t server, bool gradients, struct ps_cursor *c,
                    struct ps_rows *ret)
{
    uint32_t head[2];
    if (c->left.len == 0)
        return TY_OUT_OF_RANGE;
    if (c->left.len < sizeof head)
        return ty_fail(TY_INVALID_ARGUMENT, "a list of rows is cut short");
    memcpy(head, c->left.ptr, sizeof head);
    if (head[0] >= l->variable_count || l->variables[head[0]].width == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "variable %" PRIu32 " is no table", head[0]);
    const struct ps_variable *v = &l->variables[head[0]];
    size_t rows = v->count / v->width, each = 1 + (gradients ? v->width : 0);
    size_t left = (c->left.len - sizeof head) / sizeof(float);
    if (head[1] > rows || head[1] > left / each)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%" PRIu32 " rows of variable %" PRIu32 " are cut short", head[1], head[0]);
    const uint32_t *ids = (const uint32_t *)(const void *)(c->left.ptr + sizeof head);
    for (size_t i = 0; i < head[1]; i++)
        if (ids[i] >= rows || ids[i] % l->servers != server)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "row %" PRIu32 " of variable %" PRIu32 " is not here", ids[i], head[0]);
    *ret =
        (struct ps_rows){head[0], head[1], ids, gradients ? (const float *)(ids + head[1]) : NULL};
    c->left = ty_str_drop(c->left, sizeof head + head[1] * each * sizeof(float));
    return TY_OK;
}

/* ---- pieces ---- */

void ps_piece_put(struct ty_buf *b, const struct ps_piece *p)
{
    char bytes[PS_PIECE_BYTES];
    wire_store_le32(bytes, p->variable);
    wire_store_le32(bytes + 4, p->array);
    wire_store_le64(bytes + 8, p->from);
    wire_store_le64(bytes + 16, p->count);
    ty_buf_add(b, bytes, sizeof bytes);
}

static bool segment_find(const struct ps_layout *l, size_t server, size_t variable,
                         struct ps_segment *ret)
{
    *ret = (struct ps_segment){0};
    while (ps_layout_next(l, server, ret))
        if (ret->variable == variable)
            return true;
    return false;
}

/* What the server has of a variable: numbers [*from, *to), or rows of its own. */
static void bounds(const struct ps_layout *l, size_t server, size_t variable, uint64_t *from,
                   uint64_t *to)
{
    struct ps_segment s;
    *from = *to = 0;
    if (l->variables[variable].width) {
        *to = ps_layout_rows(l, server, variable);
    } else if (segment_find(l, server, variable, &s)) {
        *from = s.from;
        *to = s.from + s.count;
    }
}

ty_err ps_piece_read(const struct ps_layout *l, size_t server, ty_str body, struct ps_piece *ret)
{
    if (body.len != PS_PIECE_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "a piece of %zu bytes", body.len);
    struct ps_piece p = {wire_load_le32(body.ptr), wire_load_le32(body.ptr + 4),
                         wire_load_le64(body.ptr + 8), wire_load_le64(body.ptr + 16)};
    uint64_t from, to;
    if (p.variable >= l->variable_count || p.array >= PS_ARRAYS ||
        l->variables[p.variable].arrays[p.array] == NULL)
        return ty_fail(TY_INVALID_ARGUMENT, "variable %" PRIu32 " has no array %" PRIu32,
                       p.variable, p.array);
    bounds(l, server, p.variable, &from, &to);
    if (p.from < from || p.from > to || p.count == 0 || p.count > to - p.from ||
        (p.count > 1 && ps_piece_floats(l, &p) > PS_PIECE_FLOATS))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "variable %" PRIu32 " has no piece from %" PRIu64 " on here", p.variable,
                       p.from);
    *ret = p;
    return TY_OK;
}

size_t ps_piece_floats(const struct ps_layout *l, const struct ps_piece *p)
{
    size_t width = l->variables[p->variable].width;
    return p->count * (width ? width : 1);
}

bool ps_piece_next(const struct ps_layout *l, size_t server, struct ps_piece *walk)
{
    uint64_t at = walk->from + walk->count;
    bool first = walk->count == 0;
    for (uint32_t v = walk->variable; v < l->variable_count; v++, first = true)
        for (uint32_t k = v == walk->variable ? walk->array : 0; k < PS_ARRAYS; k++, first = true) {
            uint64_t from, to;
            size_t width = l->variables[v].width;
            if (l->variables[v].arrays[k] == NULL)
                continue;
            bounds(l, server, v, &from, &to);
            from = first ? from : at;
            if (from >= to)
                continue;
            uint64_t most = width > PS_PIECE_FLOATS ? 1 : PS_PIECE_FLOATS / (width ? width : 1);
            *walk = (struct ps_piece){v, k, from, to - from < most ? to - from : most};
            return true;
        }
    return false;
}

void ps_piece_copy(const struct ps_layout *l, size_t server, const struct ps_piece *p, float *out,
                   const float *in)
{
    const struct ps_variable *v = &l->variables[p->variable];
    size_t width = v->width ? v->width : p->count, rows = v->width ? p->count : 1;
    for (size_t i = 0; i < rows; i++) {
        size_t row = v->width ? (server + (p->from + i) * l->servers) * width : p->from;
        if (out)
            memcpy(out + i * width, v->arrays[p->array] + row, width * sizeof(float));
        else
            memcpy(v->arrays[p->array] + row, in + i * width, width * sizeof(float));
    }
}
