/* tail.c -- the last lines a replica printed, for error messages.
 *
 * Read backwards, so the cost is what is printed and not the size of the log. Other replicas may
 * have printed a lot since: past SCAN_BYTES the answer is what was found till then. */
#include "joblog/joblog_int.h"

enum { SCAN_BYTES = 64 << 20 };

struct tail {
    struct ty_arena arena;
    ty_str *lines; /* newest first */
    int count, most;
    size_t bytes_left;
};

/* False: that is enough. */
static bool tail_add(struct tail *t, ty_str text)
{
    size_t need = text.len + (t->count > 0 ? 1 : 0);
    if (need > t->bytes_left && t->count > 0)
        return false;
    if (need > t->bytes_left) {
        text = ty_str_drop(text, text.len - t->bytes_left);
        while (text.len > 0 && ((unsigned char)text.ptr[0] & 0xc0) == 0x80)
            text = ty_str_drop(text, 1); /* not from the middle of a character */
        need = t->bytes_left;
    }
    t->lines[t->count++] = ty_str_dup(&t->arena, text);
    t->bytes_left -= need;
    return t->count < t->most;
}

ty_err joblog_tail(int dirfd, const char *name, int pool, int index, int lines, size_t bytes,
                   struct ty_buf *out)
{
    if (lines <= 0 || bytes == 0)
        return TY_OK;
    struct tail t = {.most = lines, .bytes_left = bytes};
    t.lines = ty_new_array(&t.arena, ty_str, (size_t)lines);
    struct joblog_reader r;
    ty_err err = joblog_reader_open(&r, dirfd, name);
    if (err)
        goto out;
    err = joblog_seek(&r, INT64_MAX);
    if (err)
        goto out;
    int64_t stop = r.offset + (int64_t)r.used - SCAN_BYTES;
    bool more = true;
    while (more && r.offset + (int64_t)r.used > stop) {
        struct joblog_record record;
        err = joblog_prev(&r, &record);
        if (err == TY_DATA_LOSS)
            continue;
        if (err)
            break;
        if (record.pool == pool && record.index == index && record.stream != 's')
            more = tail_add(&t, record.text);
    }
    if (err == TY_OUT_OF_RANGE || err == TY_DATA_LOSS)
        err = TY_OK;
    for (int i = t.count; !err && i-- > 0;) {
        ty_buf_adds(out, t.lines[i]);
        if (i > 0)
            ty_buf_addc(out, '\n');
    }
out:
    joblog_reader_close(&r);
    ty_arena_clear(&t.arena);
    return err;
}
