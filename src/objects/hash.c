/* hash.c -- md5 and crc32c of files that we did not write.
 *
 * They are computed when somebody asks for one object (hash_file), for a page of a list (rows_hash)
 * and in the background (scan.c); whoever is first records them, and nobody reads the bytes again.
 * A file may be written while it is read: its stat is taken before and after, and hashes of one
 * that changed are thrown away. */
#include "objects/objects_int.h"

#include "wire/wire.h"

struct hashed {
    struct row **rows;
    size_t count;
};

static ty_err hashed_row(struct db_conn *c, const struct row *row)
{
    const struct object *x = &row->object;
    struct db_stmt *s;
    int64_t md5_a, md5_b;
    ty_err err = db_prepare(
        c,
        x->delete_ns ? "UPDATE old SET hashes = 3, md5_a = ?4, md5_b = ?5, crc32c = ?6 WHERE "
                       "bucket = ?1 AND name = ?2 AND generation = ?3 AND mtime_ns = ?7"
                     : "UPDATE object SET hashes = 3, md5_a = ?4, md5_b = ?5, crc32c = ?6 WHERE "
                       "bucket = ?1 AND name = ?2 AND generation = ?3 AND mtime_ns = ?7",
        &s);
    if (err != TY_OK)
        return err;
    md5_to_ints(x->md5, &md5_a, &md5_b);
    db_bind_i64(s, 1, row->bucket_id);
    db_bind_str(s, 2, x->name);
    db_bind_i64(s, 3, x->generation);
    db_bind_i64(s, 4, md5_a);
    db_bind_i64(s, 5, md5_b);
    db_bind_i64(s, 6, x->crc32c);
    db_bind_i64(s, 7, x->mtime_ns);
    return db_run(s);
}

static ty_err hashed_fn(struct db_conn *c, void *arg)
{
    struct hashed *x = arg;
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->count && err == TY_OK; i++)
        err = hashed_row(c, x->rows[i]);
    return err;
}

/* A write in the same tick as the row's time stamp would not show: let the tick pass. */
static void wait_stale(const struct row *const *rows, size_t count)
{
    int64_t now_ns = ty_now_ns(), wait_ns = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t age_ns = now_ns - rows[i]->object.mtime_ns;
        if (age_ns >= 0 && FRESH_NS - age_ns > wait_ns)
            wait_ns = FRESH_NS - age_ns;
    }
    if (wait_ns > 0)
        usleep((useconds_t)(wait_ns / 1000 + 1));
}

/* *ret_same: the file stayed the same while it was read; then *row has its hashes. */
static ty_err row_hash(struct objects *o, struct row *row, int fd, bool *ret_same)
{
    enum { PIECE = 1 << 20 };
    struct md5 md5;
    uint32_t crc = 0;
    int64_t at = 0;
    *ret_same = false;
    if (!row_is_file(row, fd))
        return TY_OK;
    char *piece = malloc(PIECE);
    ty_assert(piece);
    md5_init(&md5);
    ssize_t n = 1;
    bool stopping = false;
    while (at < row->object.size && n != 0 && !(stopping = scan_stopping(o))) {
        n = pread(fd, piece, PIECE, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        md5_add(&md5, piece, (size_t)n);
        crc = wire_crc32c(crc, piece, (size_t)n);
        at += n;
    }
    free(piece);
    if (n < 0)
        return ty_fail_errno(errno, "cannot read '" TY_STR_FMT "'", TY_STR_ARG(row->object.name));
    if (stopping)
        return ty_fail(TY_CANCELLED, "the buckets are being closed");
    *ret_same = at == row->object.size && row_is_file(row, fd);
    if (!*ret_same)
        return TY_OK;
    md5_end(&md5, row->object.md5);
    row->object.crc32c = crc;
    row->object.has_md5 = row->object.has_crc32c = true;
    return TY_OK;
}

ty_err hash_file(struct objects *o, struct row *row, int fd, bool *ret_same)
{
    const struct row *waited = row;
    wait_stale(&waited, 1);
    ty_err err = row_hash(o, row, fd, ret_same);
    return err == TY_OK && *ret_same ? write_freeing(o, hashed_fn, &(struct hashed){&row, 1}) : err;
}

/* One of many. A file that is gone, changes or cannot be read stays without: who asks for it alone
 * is told why. */
static ty_err row_hash_or_skip(struct objects *o, ty_str bucket, struct row *row, bool *ret_hashed)
{
    int fd;
    *ret_hashed = false;
    if (row_open(o, bucket, row, &fd) != 0)
        return TY_OK;
    ty_err err = row_hash(o, row, fd, ret_hashed);
    close(fd);
    if (err == TY_OK || err == TY_CANCELLED)
        return err;
    log_warn("objects.hash", "bucket=" TY_STR_FMT " error=\"%s\"", TY_STR_ARG(bucket),
             ty_err_message());
    return TY_OK;
}

ty_err rows_hash(struct objects *o, ty_str bucket, struct row **rows, size_t count)
{
    ty_err err = TY_OK;
    int64_t bytes = 0; /* not recorded yet: what a stop may lose */
    size_t kept = 0;   /* hashed and not recorded yet: rows[0] to rows[kept - 1] */
    wait_stale((const struct row *const *)rows, count);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        bool hashed;
        struct row *row = rows[i];
        err = row_hash_or_skip(o, bucket, row, &hashed);
        if (err != TY_OK || !hashed)
            continue;
        rows[kept++] = row;
        bytes += row->object.size;
        if (kept < SETTLE_ROWS && bytes < OBJECTS_HASH_BYTES)
            continue;
        err = write_freeing(o, hashed_fn, &(struct hashed){rows, kept});
        kept = 0;
        bytes = 0;
    }
    return err == TY_OK && kept > 0 ? write_freeing(o, hashed_fn, &(struct hashed){rows, kept})
                                    : err;
}
