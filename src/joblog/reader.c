/* reader.c -- reading a log file: forwards, backwards, and from a time.
 *
 * The reader holds a window of the file in buf; the cursor buf[used] is always the start of a line.
 *
 *   offset          offset + used       offset + buf.len
 *     | lines before  |  lines after ...   |
 *
 * joblog_next grows the window at its end, joblog_prev at its front, each dropping what lies on the
 * other side of the cursor, so no more than a line and a block are held. Bytes of a line that has
 * no newline yet are read again at the next call: its writer may cut it and write something else.
 *
 * The times in a file increase strictly, so a seek is a binary search over byte offsets. A probe
 * lands inside a line and goes on to the next one's start. */
#include "joblog/joblog_int.h"

enum { BLOCK_BYTES = 64 << 10, PROBE_BYTES = 4 << 10 };

ty_err joblog_reader_open(struct joblog_reader *r, int dirfd, const char *name)
{
    *r = (struct joblog_reader){.fd = -1};
    ty_buf_init(&r->buf, JOBLOG_LINE_BYTES + 4 * BLOCK_BYTES);
    r->fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return ty_fail_errno(errno, "cannot open the log '%s'", name);
    return TY_OK;
}

void joblog_reader_close(struct joblog_reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    ty_buf_clear(&r->buf);
}

static int64_t cursor(const struct joblog_reader *r)
{
    return r->offset + (int64_t)r->used;
}

static void move_to(struct joblog_reader *r, int64_t offset)
{
    r->offset = offset;
    r->buf.len = r->used = 0;
}

static ty_err read_at(const struct joblog_reader *r, char *ptr, size_t len, int64_t offset,
                      size_t *ret_read)
{
    ssize_t n;
    do
        n = pread(r->fd, ptr, len, offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return ty_fail_errno(errno, "cannot read the log at byte %" PRId64, offset);
    *ret_read = (size_t)n;
    return TY_OK;
}

/* Room for `n` more bytes at the end of buf, which pread then fills: threads that read logs have
 * small stacks. */
static char *add_room(struct joblog_reader *r, size_t n)
{
    static const char blank[BLOCK_BYTES];
    ty_assert(n <= sizeof blank);
    ty_buf_add(&r->buf, blank, n);
    return r->buf.ptr + r->buf.len - n;
}

/* More bytes after the window. TY_OUT_OF_RANGE at the end of the file. */
static ty_err grow_after(struct joblog_reader *r, size_t want)
{
    if (r->used > 0) {
        r->buf.len -= r->used;
        memmove(r->buf.ptr, r->buf.ptr + r->used, r->buf.len);
        r->offset += (int64_t)r->used;
        r->used = 0;
    }
    size_t n = 0;
    int64_t end = r->offset + (int64_t)r->buf.len;
    ty_err err = read_at(r, add_room(r, want), want, end, &n);
    r->buf.len -= want - n;
    if (err)
        return err;
    return n > 0 ? TY_OK : TY_OUT_OF_RANGE;
}

/* More bytes before the window; what is after the cursor is dropped. */
static ty_err grow_before(struct joblog_reader *r)
{
    size_t want = r->offset < BLOCK_BYTES ? (size_t)r->offset : BLOCK_BYTES, n = 0;
    if (want == 0)
        return TY_OUT_OF_RANGE;
    size_t kept = r->buf.len = r->used;
    add_room(r, want);
    memmove(r->buf.ptr + want, r->buf.ptr, kept);
    ty_err err = read_at(r, r->buf.ptr, want, r->offset - (int64_t)want, &n);
    if (!err && n != want)
        err = ty_fail(TY_ABORTED, "the log became shorter than %" PRId64 " bytes while read",
                      r->offset);
    if (err) {
        move_to(r, r->offset + (int64_t)kept);
        return err;
    }
    r->used += want;
    r->offset -= (int64_t)want;
    return TY_OK;
}

/* Pass the rest of a line that is longer than any record. */
static ty_err skip_line(struct joblog_reader *r, size_t want)
{
    for (;;) {
        size_t left = r->buf.len - r->used;
        const char *end = left ? memchr(r->buf.ptr + r->used, '\n', left) : NULL;
        if (end) {
            r->used = (size_t)(end + 1 - r->buf.ptr);
            return TY_OK;
        }
        move_to(r, r->offset + (int64_t)r->buf.len);
        ty_err err = grow_after(r, want);
        if (err)
            return err;
    }
}

static ty_err bad_line(int64_t start, ty_err err)
{
    return err ? ty_wrap(err, "log line at byte %" PRId64, start) : TY_OK;
}

/* The line after the cursor, reading `want` bytes at a time. */
static ty_err next_record(struct joblog_reader *r, size_t want, struct joblog_record *ret_record)
{
    int64_t start = cursor(r);
    size_t seen = 0; /* bytes after the cursor known to hold no newline */
    for (;;) {
        size_t left = r->buf.len - r->used;
        const char *line = r->buf.ptr + r->used;
        const char *end = left > seen ? memchr(line + seen, '\n', left - seen) : NULL;
        if (end) {
            r->used += (size_t)(end + 1 - line);
            return bad_line(start, joblog_parse((ty_str){line, (size_t)(end - line)}, ret_record));
        }
        seen = left;
        ty_err err = seen > JOBLOG_LINE_BYTES ? skip_line(r, want) : grow_after(r, want);
        if (err == TY_OUT_OF_RANGE)
            move_to(r, start);
        if (err)
            return err;
        if (seen > JOBLOG_LINE_BYTES)
            return ty_fail(TY_DATA_LOSS, "log line at byte %" PRId64 ": longer than %d bytes",
                           start, JOBLOG_LINE_BYTES);
    }
}

ty_err joblog_next(struct joblog_reader *r, struct joblog_record *ret_record)
{
    return next_record(r, BLOCK_BYTES, ret_record);
}

/* The cursor is behind a line (its newline is buf[used - 1]) that is longer than any record:
 * go to its start. */
static ty_err skip_line_back(struct joblog_reader *r)
{
    for (;;) {
        const char *before = r->used ? memrchr(r->buf.ptr, '\n', r->used) : NULL;
        if (before) {
            r->used = (size_t)(before + 1 - r->buf.ptr);
            return TY_OK;
        }
        move_to(r, r->offset);
        ty_err err = grow_before(r);
        if (err)
            return err == TY_OUT_OF_RANGE ? TY_OK : err;
    }
}

ty_err joblog_prev(struct joblog_reader *r, struct joblog_record *ret_record)
{
    if (cursor(r) == 0)
        return TY_OUT_OF_RANGE;
    for (;;) {
        size_t text = r->used ? r->used - 1 : 0; /* without the newline before the cursor */
        const char *before = text ? memrchr(r->buf.ptr, '\n', text) : NULL;
        if (before || (r->offset == 0 && r->used > 0)) {
            size_t start = before ? (size_t)(before + 1 - r->buf.ptr) : 0;
            r->used = start;
            return bad_line(cursor(r),
                            joblog_parse((ty_str){r->buf.ptr + start, text - start}, ret_record));
        }
        if (text > JOBLOG_LINE_BYTES) {
            r->used = text;
            ty_err err = skip_line_back(r);
            return err ? err
                       : ty_fail(TY_DATA_LOSS, "log line at byte %" PRId64 ": longer than %d bytes",
                                 cursor(r), JOBLOG_LINE_BYTES);
        }
        ty_err err = grow_before(r);
        if (err)
            return err;
    }
}

/* Go to the first line that starts at or after `offset`, or to the torn end of the file if there is
 * none (TY_OUT_OF_RANGE). */
static ty_err resync(struct joblog_reader *r, int64_t offset)
{
    move_to(r, offset ? offset - 1 : 0); /* a line starts at `offset` if a newline is before it */
    return offset ? skip_line(r, PROBE_BYTES) : TY_OK;
}

/* The first record that starts in [from, to). TY_OUT_OF_RANGE: there is none. The cursor is behind
 * it. */
static ty_err probe(struct joblog_reader *r, int64_t from, int64_t to, int64_t *ret_time)
{
    struct joblog_record record;
    ty_err err = resync(r, from);
    while (!err) {
        if (cursor(r) >= to)
            return TY_OUT_OF_RANGE;
        err = next_record(r, PROBE_BYTES, &record);
        if (!err) {
            *ret_time = record.time_ns;
            return TY_OK;
        }
        if (err == TY_DATA_LOSS)
            err = TY_OK; /* not a record: the next line may be one */
    }
    return err;
}

/* The end of the last whole line. */
static ty_err seek_end(struct joblog_reader *r, int64_t size)
{
    move_to(r, size);
    return skip_line_back(r);
}

/* Every record before lo is older than time_ns, and every record that starts at or after hi is not.
 * lo is the start of a line throughout. */
ty_err joblog_seek(struct joblog_reader *r, int64_t time_ns)
{
    struct stat st;
    if (fstat(r->fd, &st) != 0)
        return ty_fail_errno(errno, "cannot look at the log");
    if (time_ns == INT64_MAX)
        return seek_end(r, st.st_size);
    int64_t lo = 0, hi = st.st_size;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2, time;
        ty_err err = probe(r, mid, hi, &time);
        if (err && err != TY_OUT_OF_RANGE)
            return err;
        if (!err && time < time_ns)
            lo = cursor(r);
        else
            hi = mid;
    }
    move_to(r, lo);
    return TY_OK;
}
