/* journal.c -- what happened to an attempt, one line a record.
 *
 *   5a3c9e01 1795000000123456789 begin format=1\n
 *   |        |                   |     key=value, values percent-escaped
 *   |        |                   begin, preparing, provisioned, running, restart, used, end;
 *   |        |                   or fenced, alone
 *   |        nanoseconds since 1970
 *   crc32 of the rest of the line, hexadecimal
 *
 * Who creates the file decides whether the attempt runs (O_EXCL): the conductor with "begin", or
 * the server with "fenced". A last line that is cut short or fails its checksum was being written
 * when somebody died: it is not there. Any other bad line is damage, and is said so.
 *
 * Space for the end record is allocated at the beginning, because an attempt must be able to end on
 * a full disk. That is also why a failed record is overwritten by the next one instead of being cut
 * off: cutting would give the space back. */
#include "exec/exec_int.h"

#include "wire/wire.h"

/* zlib's crc32, four bits at a time: records are few and short. */
uint32_t journal_crc32(ty_str s)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < s.len; i++) {
        crc ^= (unsigned char)s.ptr[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

/* ---- writing ---- */

ty_err journal_create(struct journal *j, int dirfd)
{
    int fd = openat(dirfd, "journal", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST)
        return ty_fail(TY_ALREADY_EXISTS, "the journal is there already");
    if (fd < 0)
        return ty_fail_errno(errno, "cannot create the journal");
    *j = (struct journal){.fd = fd};
    return TY_OK;
}

/* Keep room for the end record. File systems that cannot do that just go without, and an attempt
 * that runs already is not stopped for want of it. */
static ty_err reserve(struct journal *j)
{
    if (fallocate(j->fd, FALLOC_FL_KEEP_SIZE, j->size, JOURNAL_RESERVE_BYTES) == 0 ||
        errno == EOPNOTSUPP || errno == ENOSYS || j->size > 0)
        return TY_OK;
    return ty_fail_errno(errno, "cannot reserve %d bytes for the journal", JOURNAL_RESERVE_BYTES);
}

void journal_field(struct ty_buf *b, const char *key, ty_str value)
{
    ty_buf_addf(b, " %s=", key);
    wire_url_encode(b, value);
}

void journal_field_int(struct ty_buf *b, const char *key, int64_t value)
{
    ty_buf_addf(b, " %s=%" PRId64, key, value);
}

void journal_line(struct ty_buf *b, ty_str rest)
{
    ty_buf_addf(b, "%08x ", journal_crc32(rest));
    ty_buf_adds(b, rest);
    ty_buf_addc(b, '\n');
}

ty_err journal_add(struct journal *j, const char *kind, ty_str fields)
{
    struct ty_buf rest, line;
    ty_buf_init(&rest, JOURNAL_RESERVE_BYTES);
    ty_buf_init(&line, JOURNAL_RESERVE_BYTES);
    ty_buf_addf(&rest, "%019" PRId64 " %s", ty_now_ns(), kind);
    ty_buf_adds(&rest, fields);
    journal_line(&line, ty_buf_str(&rest));
    ty_err err = ty_buf_check(&rest, "a journal record");
    if (err == TY_OK)
        err = ty_buf_check(&line, "a journal record");
    if (err == TY_OK && strcmp(kind, "end") != 0)
        err = reserve(j);
    if (err == TY_OK && lseek(j->fd, j->size, SEEK_SET) < 0)
        err = ty_fail_errno(errno, "cannot seek in the journal");
    if (err == TY_OK)
        err = ty_write_all(j->fd, line.ptr, line.len);
    if (err == TY_OK)
        j->size += (int64_t)line.len;
    ty_buf_clear(&rest);
    ty_buf_clear(&line);
    return err ? ty_wrap(err, "journal record '%s'", kind) : TY_OK;
}

void journal_close(struct journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}

/* ---- reading ---- */

struct record {
    int64_t time_ns;
    ty_str kind, fields;
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: not a record. */
static bool record_parse(ty_str line, struct record *ret)
{
    uint32_t crc = 0;
    if (line.len < 10 || line.ptr[8] != ' ')
        return false;
    for (int i = 0; i < 8; i++) {
        int digit = hex_digit(line.ptr[i]);
        if (digit < 0)
            return false;
        crc = crc << 4 | (uint32_t)digit;
    }
    ty_str rest = ty_str_drop(line, 9), time;
    if (journal_crc32(rest) != crc || !ty_str_split(&rest, ' ', &time))
        return false;
    struct record r = {0};
    if (ty_parse_i64(time, &r.time_ns) != TY_OK)
        return false;
    if (!ty_str_split(&rest, ' ', &r.kind))
        rest = (ty_str){0};
    r.fields = rest;
    *ret = r;
    return true;
}

/* The value of a field; an empty string when it is not there. */
static ty_str record_get(struct ty_arena *a, const struct record *r, const char *key)
{
    ty_str rest = r->fields, field, name, value;
    bool more = true;
    while (more) {
        more = ty_str_split(&rest, ' ', &field);
        if (ty_str_split(&field, '=', &name) && ty_str_is(name, key))
            return wire_url_decode(a, field, false, &value) == TY_OK ? value : (ty_str){0};
    }
    return (ty_str){0};
}

static int64_t record_get_int(struct ty_arena *a, const struct record *r, const char *key)
{
    int64_t value = 0;
    return ty_parse_i64(record_get(a, r, key), &value) == TY_OK ? value : 0;
}

static ty_err check_first(struct ty_arena *a, const struct record *r)
{
    int64_t format = record_get_int(a, r, "format");
    if (format > JOURNAL_FORMAT)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "the journal has format %" PRId64
                       ", newer than this program knows (%d): use the newer program",
                       format, JOURNAL_FORMAT);
    if (format < 1)
        return ty_fail(TY_DATA_LOSS, "journal line 1: no format");
    return TY_OK;
}

static void add_used(struct ty_arena *a, const struct record *r, struct exec_look *look)
{
    struct exec_used *u = ty_new(a, struct exec_used);
    *u = (struct exec_used){.pool = (int)record_get_int(a, r, "pool"),
                            .index = (int)record_get_int(a, r, "index"),
                            .cpu_us = record_get_int(a, r, "cpu_us"),
                            .wall_ms = record_get_int(a, r, "wall_ms"),
                            .peak_bytes = record_get_int(a, r, "peak"),
                            .read_bytes = record_get_int(a, r, "read"),
                            .written_bytes = record_get_int(a, r, "written"),
                            .limit_bytes = record_get_int(a, r, "limit"),
                            .limit_enforced = record_get_int(a, r, "enforced") == 1,
                            .method = record_get(a, r, "method"),
                            .end_ns = r->time_ns};
    *(look->used_last ? &look->used_last->next : &look->used) = u;
    look->used_last = u;
}

static void apply(struct ty_arena *a, const struct record *r, struct exec_look *look)
{
    if (ty_str_is(r->kind, "begin")) {
        look->begin_ns = r->time_ns;
    } else if (ty_str_is(r->kind, "running")) {
        look->running_ns = r->time_ns;
    } else if (ty_str_is(r->kind, "preparing")) {
        look->preparing_ns = r->time_ns;
    } else if (ty_str_is(r->kind, "stopping")) {
        look->stopping = record_get(a, r, "outcome");
    } else if (ty_str_is(r->kind, "restart")) {
        look->restarts++;
        look->restarted = record_get(a, r, "why");
    } else if (ty_str_is(r->kind, "provisioned")) {
        look->provisioned.limit_bytes = record_get_int(a, r, "limit");
        look->provisioned.limit_enforced = record_get_int(a, r, "enforced") == 1;
        look->provisioned.method = record_get(a, r, "method");
    } else if (ty_str_is(r->kind, "used")) {
        add_used(a, r, look);
    } else if (ty_str_is(r->kind, "fenced")) {
        look->phase = EXEC_FENCED;
    } else if (ty_str_is(r->kind, "end")) {
        look->phase = EXEC_ENDED;
        look->end_ns = r->time_ns;
        look->ran_ms = record_get_int(a, r, "ran_ms");
        look->outcome = record_get(a, r, "outcome");
        look->retry = record_get_int(a, r, "retry") == 1;
        look->error_code = (int)record_get_int(a, r, "code");
        look->message = record_get(a, r, "message");
    } /* other kinds may come without a new format, where not knowing them does no harm */
}

ty_err journal_parse(struct ty_arena *a, ty_str text, struct exec_look *ret_look)
{
    struct exec_look look = {.phase = EXEC_LOST};
    ty_str line;
    for (int number = 1; ty_str_split(&text, '\n', &line); number++) {
        struct record r;
        if (!record_parse(line, &r)) {
            if (memchr(text.ptr, '\n', text.len) == NULL)
                break;
            return ty_fail(TY_DATA_LOSS, "journal line %d: bad checksum", number);
        }
        ty_err err = number == 1 ? check_first(a, &r) : TY_OK;
        if (err)
            return err;
        apply(a, &r, &look);
    }
    *ret_look = look;
    return TY_OK;
}
