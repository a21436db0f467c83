/* writer.c -- appending to a log file.
 *
 * Records are staged in memory and written by one call, so a busy job costs a write for many lines.
 * What the file holds is always whole records, and maybe one torn line at its end that no reader
 * looks at. A flush that fails half way keeps the records that got in whole, because a reader may
 * have been given them already and what was given must stay. */
#include "joblog/joblog_int.h"

/* Cut what a killed writer left at the end, and find the newest time. */
static ty_err continue_file(struct joblog_writer *w, int dirfd, const char *name)
{
    struct joblog_reader r;
    ty_err err = joblog_reader_open(&r, dirfd, name);
    if (err)
        return err;
    struct joblog_record record;
    err = joblog_seek(&r, INT64_MAX);
    if (err)
        goto out;
    w->size = r.offset + (int64_t)r.used;
    do
        err = joblog_prev(&r, &record);
    while (err == TY_DATA_LOSS);
    if (err == TY_OK && record.time_ns > w->last_ns)
        w->last_ns = record.time_ns;
    if (err == TY_OUT_OF_RANGE)
        err = TY_OK;
    if (!err && ftruncate(w->fd, w->size) != 0)
        err = ty_fail_errno(errno, "cannot cut the torn last line of '%s'", name);
out:
    joblog_reader_close(&r);
    return err;
}

ty_err joblog_writer_open(struct joblog_writer *w, int dirfd, const char *name, int64_t floor_ns)
{
    *w = (struct joblog_writer){.fd = -1, .last_ns = floor_ns};
    ty_buf_init(&w->out, JOBLOG_STAGED_BYTES);
    w->fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (w->fd < 0)
        return ty_fail_errno(errno, "cannot open the log '%s'", name);
    ty_err err = continue_file(w, dirfd, name);
    if (err)
        joblog_writer_close(w);
    return err;
}

static void stage(struct joblog_writer *w, int pool, int index, char stream, bool continues,
                  ty_str text)
{
    if (w->out.len + text.len + JOBLOG_HEAD_BYTES > JOBLOG_STAGED_BYTES) {
        w->dropped++;
        return;
    }
    int64_t now = ty_now_ns();
    w->last_ns = now > w->last_ns ? now : w->last_ns + 1;
    if (pool >= 0)
        ty_buf_addf(&w->out, "%019" PRId64 " %d-%d ", w->last_ns, pool, index);
    else
        ty_buf_addf(&w->out, "%019" PRId64 " - ", w->last_ns);
    ty_buf_addc(&w->out, continues ? (char)(stream - 0x20) : stream);
    ty_buf_addc(&w->out, ' ');
    ty_buf_adds(&w->out, text);
    ty_buf_addc(&w->out, '\n');
}

void joblog_append(struct joblog_writer *w, int pool, int index, char stream, bool continues,
                   ty_str text)
{
    ty_assert(stream == 'o' || stream == 'e' || stream == 's');
    bool more = true;
    while (more) {
        ty_str line;
        more = ty_str_split(&text, '\n', &line);
        while (line.len > JOBLOG_TEXT_BYTES) {
            stage(w, pool, index, stream, true, (ty_str){line.ptr, JOBLOG_TEXT_BYTES});
            line = ty_str_drop(line, JOBLOG_TEXT_BYTES);
        }
        stage(w, pool, index, stream, continues && !more, line);
    }
}

static void unstage(struct joblog_writer *w, size_t n)
{
    w->out.len -= n;
    memmove(w->out.ptr, w->out.ptr + n, w->out.len);
    w->size += (int64_t)n;
}

/* After a failed write: keep whole records, cut the rest. */
static void settle(struct joblog_writer *w)
{
    struct stat st;
    w->torn = true;
    if (fstat(w->fd, &st) != 0)
        return;
    if (st.st_size < w->size) /* somebody else cut it: there is nothing of ours to cut */
        w->size = st.st_size;
    size_t written = (size_t)(st.st_size - w->size);
    if (written > w->out.len)
        written = w->out.len;
    const char *last = written ? memrchr(w->out.ptr, '\n', written) : NULL;
    if (last)
        unstage(w, (size_t)(last + 1 - w->out.ptr));
    w->torn = ftruncate(w->fd, w->size) != 0;
}

ty_err joblog_flush(struct joblog_writer *w)
{
    if (w->torn && ftruncate(w->fd, w->size) != 0)
        return ty_fail_errno(errno, "cannot cut a torn record off the log");
    w->torn = false;
    if (w->out.len == 0)
        return TY_OK;
    ty_err err = ty_write_all(w->fd, w->out.ptr, w->out.len);
    if (err) {
        settle(w);
        return ty_wrap(err, "cannot write the log");
    }
    unstage(w, w->out.len);
    if (w->dropped == 0)
        return TY_OK;
    char words[96];
    int n = snprintf(words, sizeof words,
                     "%" PRId64 " log lines were lost here: they came faster than they could be "
                     "written to disk",
                     w->dropped);
    w->dropped = 0;
    stage(w, -1, -1, 's', false, (ty_str){words, (size_t)n});
    return joblog_flush(w);
}

ty_err joblog_sync(struct joblog_writer *w)
{
    return ty_sync(w->fd);
}

void joblog_writer_close(struct joblog_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    ty_buf_clear(&w->out);
}
