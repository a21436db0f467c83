/* tar.c -- the archive: POSIX tar, of plain files and folders only.
 *
 *   header   512 bytes: name, mode, size and mtime in octal, type, checksum, "ustar", prefix
 *   content  size bytes, then zeros up to a multiple of 512
 *   ...
 *   end      two blocks of zeros
 *
 * A path that does not fit name (100) and prefix (155), or a size past eight gigabytes of octal
 * digits, goes before its entry as a pax header: an entry of type 'x' whose content is lines
 * "LENGTH key=value\n".
 *
 * The reader takes what the writer writes and nothing more: every byte has one right value (padding
 * is zero, numbers are digits and an end), so that no flipped bit goes unnoticed. Ours and not
 * libarchive's because that one reads forty formats and loads twelve libraries. */
#include "backup/backup_int.h"

enum { NAME_BYTES = 100, PREFIX_BYTES = 155, OCTAL_DIGITS = 11 };
static const int64_t octal_most = 077777777777;

struct header {
    char name[NAME_BYTES], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
    char type;
    char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
    char prefix[PREFIX_BYTES], rest[12];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is one block");

/* With spaces where the sum itself goes. */
static unsigned header_sum(const struct header *h)
{
    const unsigned char *p = (const unsigned char *)h;
    size_t from = offsetof(struct header, checksum);
    unsigned sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= from && i < from + sizeof h->checksum ? ' ' : p[i];
    return sum;
}

/* ---- writing ---- */

void tar_writer_init(struct tar_writer *w, int fd)
{
    w->fd = fd;
    w->bytes = w->left = w->entries = 0;
    w->used = 0;
    wire_sha256_init(&w->hash);
}

static ty_err flush(struct tar_writer *w)
{
    size_t used = w->used;
    w->used = 0;
    return used > 0 ? ty_write_all(w->fd, w->out, used) : TY_OK;
}

static ty_err put(struct tar_writer *w, const void *ptr, size_t len)
{
    const char *p = ptr;
    wire_sha256_add(&w->hash, p, len);
    w->bytes += (int64_t)len;
    while (len > 0) {
        size_t take = sizeof w->out - w->used;
        take = take < len ? take : len;
        memcpy(w->out + w->used, p, take);
        w->used += take;
        p += take;
        len -= take;
        ty_err err = w->used == sizeof w->out ? flush(w) : TY_OK;
        if (err)
            return err;
    }
    return TY_OK;
}

static ty_err put_padding(struct tar_writer *w)
{
    static const char zeros[TAR_BLOCK];
    return put(w, zeros, (size_t)(-w->bytes & (TAR_BLOCK - 1)));
}

static void octal(char *field, size_t bytes, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%0*" PRIo64, (int)bytes - 1, value);
    memcpy(field, text, bytes - 1); /* the NUL is there already */
}

/* Where to cut a path into prefix and name; 0: no prefix is needed; SIZE_MAX: it does not fit. */
static size_t prefix_bytes(ty_str path)
{
    if (path.len <= NAME_BYTES)
        return 0;
    for (size_t i = path.len - NAME_BYTES - 1; i < path.len && i <= PREFIX_BYTES; i++)
        if (i > 0 && path.ptr[i] == '/')
            return i;
    return SIZE_MAX;
}

static ty_err put_header(struct tar_writer *w, const struct tar_entry *e, char type)
{
    struct header h = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    size_t cut = prefix_bytes(e->path);
    ty_str name = e->path;
    if (cut == SIZE_MAX) /* a pax header has the path; this is for old readers */
        name.len = NAME_BYTES;
    else if (cut > 0)
        name = ty_str_drop(name, cut + 1);
    memcpy(h.name, name.ptr, name.len);
    if (cut > 0 && cut != SIZE_MAX)
        memcpy(h.prefix, e->path.ptr, cut);
    octal(h.mode, sizeof h.mode, e->mode & 0777);
    octal(h.uid, sizeof h.uid, 0); /* whoever restores it owns it */
    octal(h.gid, sizeof h.gid, 0);
    octal(h.size, sizeof h.size, e->size <= octal_most ? e->size : 0);
    octal(h.mtime, sizeof h.mtime, e->mtime_s > 0 && e->mtime_s <= octal_most ? e->mtime_s : 0);
    snprintf(h.checksum, sizeof h.checksum, "%06o", header_sum(&h));
    h.checksum[7] = ' ';
    return put(w, &h, sizeof h);
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
static void pax_field(struct ty_buf *b, const char *key, ty_str value)
{
    size_t rest = strlen(key) + value.len + 3, total = rest + 1;
    char digits[24];
    while (rest + (size_t)snprintf(digits, sizeof digits, "%zu", total) != total)
        total = rest + strlen(digits);
    ty_buf_addf(b, "%zu %s=", total, key);
    ty_buf_adds(b, value);
    ty_buf_addc(b, '\n');
}

static ty_err put_pax(struct tar_writer *w, const struct tar_entry *e)
{
    struct ty_buf b;
    char size[24];
    ty_buf_init(&b, TAR_PAX_BYTES);
    if (prefix_bytes(e->path) == SIZE_MAX)
        pax_field(&b, "path", e->path);
    if (e->size > octal_most) {
        snprintf(size, sizeof size, "%" PRId64, e->size);
        pax_field(&b, "size", ty_str_of(size));
    }
    struct tar_entry pax = {.path = TY_STR("pax"), .mode = 0600, .size = (int64_t)b.len};
    ty_err err = ty_buf_check(&b, "a pax header");
    if (err == TY_OK && b.len > 0)
        err = put_header(w, &pax, 'x');
    if (err == TY_OK && b.len > 0)
        err = put(w, b.ptr, b.len);
    ty_buf_clear(&b);
    return err ? err : put_padding(w);
}

ty_err tar_add(struct tar_writer *w, const struct tar_entry *e)
{
    ty_assert(w->left == 0 && e->path.len > 0 && e->path.len <= TAR_PATH_BYTES && e->size >= 0);
    w->entries++;
    w->left = e->folder ? 0 : e->size;
    ty_err err = put_pax(w, e);
    return err ? err : put_header(w, e, e->folder ? '5' : '0');
}

ty_err tar_add_bytes(struct tar_writer *w, const void *ptr, size_t len)
{
    ty_assert((int64_t)len <= w->left);
    w->left -= (int64_t)len;
    ty_err err = put(w, ptr, len);
    return err == TY_OK && w->left == 0 ? put_padding(w) : err;
}

ty_err tar_add_note(struct tar_writer *w, const char *path, ty_str bytes)
{
    struct tar_entry e = {.path = ty_str_of(path),
                          .mode = 0600,
                          .size = (int64_t)bytes.len,
                          .mtime_s = ty_now_ns() / 1000000000};
    ty_err err = tar_add(w, &e);
    return err ? err : tar_add_bytes(w, bytes.ptr, bytes.len);
}

static void manifest_text(struct wire_sha256 hash, int64_t entries, struct ty_buf *b)
{
    char hex[WIRE_SHA256_HEX_BYTES];
    wire_sha256_end(&hash, hex);
    ty_buf_addf(b, "format %d\nentries %" PRId64 "\nsha256 %s\n", BACKUP_FORMAT, entries, hex);
}

ty_err tar_writer_finish(struct tar_writer *w)
{
    static const char zeros[2 * TAR_BLOCK];
    struct ty_buf b;
    ty_buf_init(&b, BACKUP_NOTE_BYTES);
    manifest_text(w->hash, w->entries, &b);
    ty_err err = tar_add_note(w, BACKUP_MANIFEST, ty_buf_str(&b));
    ty_buf_clear(&b);
    if (err == TY_OK)
        err = put(w, zeros, sizeof zeros);
    return err ? err : flush(w);
}

/* ---- reading ---- */

void tar_reader_init(struct tar_reader *r, tar_source source, void *arg)
{
    r->source = source;
    r->arg = arg;
    r->offset = r->left = r->padding = r->entries = 0;
    r->path[0] = '\0';
    wire_sha256_init(&r->running);
    r->hash = r->running;
}

/* Exactly `len` bytes. */
static ty_err take(struct tar_reader *r, char *ptr, size_t len)
{
    while (len > 0) {
        size_t n = 0;
        ty_err err = r->source(r->arg, ptr, len, &n);
        if (err)
            return err;
        if (n == 0)
            return ty_fail(TY_DATA_LOSS, "it is cut short: it ends at byte %" PRId64, r->offset);
        wire_sha256_add(&r->running, ptr, n);
        r->offset += (int64_t)n;
        ptr += n;
        len -= n;
    }
    return TY_OK;
}

static ty_err damaged(const struct tar_reader *r, const char *what)
{
    return ty_fail(TY_DATA_LOSS, "it is damaged before byte %" PRId64 ": %s", r->offset, what);
}

static bool all_zero(const char *ptr, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (ptr[i])
            return false;
    return true;
}

/* Digits up to the last byte, which ends them. */
static bool parse_octal(const char *field, size_t bytes, int64_t *ret_value)
{
    int64_t value = 0;
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (field[i] < '0' || field[i] > '7')
            return false;
        value = value * 8 + (field[i] - '0');
    }
    *ret_value = value;
    return field[bytes - 1] == '\0';
}

static bool header_is_ours(const struct header *h)
{
    char sum[8];
    snprintf(sum, sizeof sum, "%06o", header_sum(h) & 0777777);
    sum[7] = ' ';
    return memcmp(sum, h->checksum, sizeof sum) == 0 && memcmp(h->magic, "ustar", 6) == 0 &&
           memcmp(h->version, "00", 2) == 0;
}

/* prefix/name into r->path. */
static void header_path(struct tar_reader *r, const struct header *h)
{
    size_t prefix = strnlen(h->prefix, sizeof h->prefix), name = strnlen(h->name, sizeof h->name);
    snprintf(r->path, sizeof r->path, "%.*s%s%.*s", (int)prefix, h->prefix, prefix ? "/" : "",
             (int)name, h->name);
}

struct pax {
    bool has_path;
    int64_t size; /* -1: not given */
};

static ty_err pax_apply(struct tar_reader *r, ty_str key, ty_str value, struct pax *pax)
{
    if (ty_str_is(key, "path")) {
        if (value.len == 0 || value.len > TAR_PATH_BYTES || memchr(value.ptr, '\0', value.len))
            return damaged(r, "a path that is too long");
        memcpy(r->path, value.ptr, value.len);
        r->path[value.len] = '\0';
        pax->has_path = true;
    } else if (ty_str_is(key, "size")) {
        if (ty_parse_i64(value, &pax->size) != TY_OK || pax->size < 0)
            return damaged(r, "a size that is no number");
    }
    return TY_OK;
}

static ty_err pax_parse(struct tar_reader *r, ty_str text, struct pax *pax)
{
    while (text.len > 0) {
        ty_str rest = text, digits, key;
        int64_t length = 0;
        if (!ty_str_split(&rest, ' ', &digits) || ty_parse_i64(digits, &length) != TY_OK ||
            length <= (int64_t)digits.len + 1 || (uint64_t)length > text.len ||
            text.ptr[length - 1] != '\n')
            return damaged(r, "a pax header that is none");
        rest = (ty_str){rest.ptr, (size_t)length - digits.len - 2};
        if (!ty_str_split(&rest, '=', &key))
            return damaged(r, "a pax header that is none");
        ty_err err = pax_apply(r, key, rest, pax);
        if (err)
            return err;
        text = ty_str_drop(text, (size_t)length);
    }
    return TY_OK;
}

static ty_err take_padding(struct tar_reader *r)
{
    char bytes[TAR_BLOCK];
    size_t n = (size_t)r->padding;
    r->padding = 0;
    ty_err err = take(r, bytes, n);
    return err == TY_OK && !all_zero(bytes, n) ? damaged(r, "bytes after the end of a file") : err;
}

static ty_err take_pax(struct tar_reader *r, int64_t size, struct pax *pax)
{
    char text[TAR_PAX_BYTES];
    if (size <= 0 || size > TAR_PAX_BYTES)
        return damaged(r, "a pax header that is too long");
    ty_err err = take(r, text, (size_t)size);
    r->padding = -size & (TAR_BLOCK - 1);
    if (err == TY_OK)
        err = take_padding(r);
    return err ? err : pax_parse(r, (ty_str){text, (size_t)size}, pax);
}

/* TY_OUT_OF_RANGE: the end, of which this was the first block. */
static ty_err take_header(struct tar_reader *r, struct header *h, int64_t *ret_size)
{
    ty_err err = take(r, (char *)h, sizeof *h);
    if (err)
        return err;
    if (all_zero((const char *)h, sizeof *h)) {
        err = take(r, (char *)h, sizeof *h);
        if (err)
            return err;
        return all_zero((const char *)h, sizeof *h) ? TY_OUT_OF_RANGE
                                                    : damaged(r, "bytes after the end");
    }
    if (!header_is_ours(h))
        return damaged(r, "not a header that 'trainyard backup' writes");
    if (!parse_octal(h->size, sizeof h->size, ret_size))
        return damaged(r, "a size that is no number");
    return TY_OK;
}

static ty_err skip_rest(struct tar_reader *r)
{
    char bytes[4096];
    size_t n = 1;
    ty_err err = TY_OK;
    while (err == TY_OK && n > 0)
        err = tar_read(r, bytes, sizeof bytes, &n);
    return err;
}

ty_err tar_next(struct tar_reader *r, struct tar_entry *ret_entry)
{
    struct header h;
    struct pax pax = {.size = -1};
    int64_t size = 0, mode = 0, mtime = 0;
    ty_err err = skip_rest(r);
    if (err)
        return err;
    r->hash = r->running;
    err = take_header(r, &h, &size);
    if (err == TY_OK && h.type == 'x') {
        err = take_pax(r, size, &pax);
        if (err == TY_OK)
            err = take_header(r, &h, &size);
        if (err == TY_OUT_OF_RANGE)
            err = damaged(r, "a pax header without its file");
    }
    if (err)
        return err;
    if (h.type != '0' && h.type != '5')
        return damaged(r, "an entry that is neither a file nor a folder");
    if (!parse_octal(h.mode, sizeof h.mode, &mode) || !parse_octal(h.mtime, sizeof h.mtime, &mtime))
        return damaged(r, "a mode or time that is no number");
    if (!pax.has_path)
        header_path(r, &h);
    if (pax.size >= 0)
        size = pax.size;
    if (h.type == '5' && size != 0)
        return damaged(r, "a folder with content");
    size_t len = strlen(r->path);
    if (h.type == '5' && len > 1 && r->path[len - 1] == '/') /* as others write folders */
        r->path[len - 1] = '\0';
    r->entries++;
    r->left = size;
    r->padding = -size & (TAR_BLOCK - 1);
    *ret_entry = (struct tar_entry){.path = ty_str_of(r->path),
                                    .folder = h.type == '5',
                                    .mode = (mode_t)mode & 0777,
                                    .size = size,
                                    .mtime_s = mtime};
    return TY_OK;
}

ty_err tar_read(struct tar_reader *r, char *ptr, size_t len, size_t *ret_len)
{
    size_t n = (uint64_t)r->left < len ? (size_t)r->left : len;
    ty_err err = take(r, ptr, n);
    if (err)
        return err;
    r->left -= (int64_t)n;
    if (r->left == 0 && r->padding > 0)
        err = take_padding(r);
    if (err == TY_OK)
        *ret_len = n;
    return err;
}

/* ---- the two notes ---- */

ty_err head_check(ty_str text)
{
    ty_str line, word;
    int64_t format = 0;
    ty_str_split(&text, '\n', &line);
    if (!ty_str_split(&line, ' ', &word) || !ty_str_is(word, "format") ||
        ty_parse_i64(line, &format) != TY_OK || format < 1)
        return ty_fail(TY_DATA_LOSS, "its first entry does not say which format it has");
    if (format > BACKUP_FORMAT)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "it has format %" PRId64
                       " and this program knows formats up to %d: it was written by a newer "
                       "trainyard; use that one",
                       format, BACKUP_FORMAT);
    return TY_OK;
}

ty_err manifest_check(const struct tar_reader *r, ty_str text)
{
    struct ty_buf b;
    ty_buf_init(&b, BACKUP_NOTE_BYTES);
    manifest_text(r->hash, r->entries - 1, &b);
    bool same = ty_str_eq(text, ty_buf_str(&b));
    ty_buf_clear(&b);
    return same ? TY_OK
                : ty_fail(TY_DATA_LOSS, "it is damaged: its checksum is not that of its bytes");
}
