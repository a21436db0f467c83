/* output.c -- from the replicas' pipes to the attempt's log.
 *
 * Lines are staged as they come and written once a round of the event loop. A replica has a
 * ceiling: lines past it are counted and dropped, and the log says so when it begins and how much
 * it was at the end. A disk that is full is not a reason to drop: pipes are left unread, so the
 * replicas block in their next write, and everything goes on when there is space again. Only what
 * still cannot be written GIVE_UP_MS after the last replica has gone is lost, and the end record
 * says so. */
#include "exec/exec_int.h"

enum {
    READ_BYTES = 65536,
    FLUSH_BYTES =
        1 << 20, /* a newline takes 25 staged bytes: one more read still fits joblog's 8 MB */
    RETRY_MS = 200,
    SYNC_MS = 1000,
    GIVE_UP_MS = 10000,
};

/* ---- lines ---- */

void output_say(struct conductor *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    joblog_append(&c->log, -1, -1, 's', false, ty_str_of(text));
}

static void add_line(struct conductor *c, const struct stream *s, bool continues, ty_str text)
{
    struct replica *r = s->source.replica;
    char name[REPLICA_NAME_BYTES];
    int64_t size = (int64_t)text.len + 1;
    if (!r->log_over && r->log_bytes + size > c->plan.log_limit_bytes) {
        r->log_over = true;
        output_say(c,
                   "%s has written %" PRId64
                   " bytes, its limit: what it writes from here on is dropped (log_limit_bytes).",
                   replica_name(r->plan, name), r->log_bytes);
    }
    if (r->log_over) {
        r->dropped_bytes += size;
        r->dropped_lines += !continues;
        return;
    }
    r->log_bytes += size;
    joblog_append(&c->log, r->plan->pool, r->plan->index,
                  s->source.stream == STREAM_OUT ? 'o' : 'e', continues, text);
}

static void end_line(struct conductor *c, struct stream *s, bool continues)
{
    add_line(c, s, continues, ty_buf_str(&s->line));
    s->line.len = 0;
    s->line_continues = continues;
}

/* Bytes of a stream: whole lines go to the log, the rest waits for its newline. */
static void feed(struct conductor *c, struct stream *s, ty_str bytes)
{
    size_t most = (size_t)c->plan.log_line_bytes;
    while (bytes.len > 0) {
        const char *newline = memchr(bytes.ptr, '\n', bytes.len);
        size_t take = newline ? (size_t)(newline - bytes.ptr) : bytes.len;
        if (take > most - s->line.len) { /* too long for one record */
            take = most - s->line.len;
            ty_buf_add(&s->line, bytes.ptr, take);
            end_line(c, s, true);
            bytes = ty_str_drop(bytes, take);
            continue;
        }
        ty_buf_add(&s->line, bytes.ptr, take);
        if (newline)
            end_line(c, s, false);
        bytes = ty_str_drop(bytes, take + (newline != NULL));
    }
}

/* No more will come: what is there of a last line is a line. */
static void end_stream(struct conductor *c, struct stream *s)
{
    if (s->line.len > 0 || s->line_continues)
        end_line(c, s, false);
    ty_buf_clear(&s->line);
    source_close(&s->source);
}

/* ---- reading ---- */

/* False: nothing more to read now. */
static bool read_once(struct conductor *c, struct stream *s)
{
    static char bytes[READ_BYTES];
    if (s->source.fd < 0 || c->log_stuck)
        return false;
    ssize_t n = read(s->source.fd, bytes, sizeof bytes);
    if (n < 0)
        return errno == EINTR;
    if (n == 0) {
        end_stream(c, s);
        return false;
    }
    feed(c, s, (ty_str){bytes, (size_t)n});
    if (c->log.out.len > FLUSH_BYTES)
        output_flush(c);
    return true;
}

void output_read(struct conductor *c, struct stream *s)
{
    read_once(c, s);
}

void output_drain(struct conductor *c, struct replica *r)
{
    for (int i = 0; i < STREAM_COUNT; i++) {
        struct stream *s = &r->streams[i];
        while (read_once(c, s))
            ;
        if (s->source.fd >= 0 && !c->log_stuck)
            end_stream(c, s); /* its other end was passed to a process that is none of ours */
    }
}

bool output_drained(const struct replica *r)
{
    return r->streams[STREAM_OUT].source.fd < 0 && r->streams[STREAM_ERR].source.fd < 0;
}

/* As the logs of AI Platform's jobs ended, each replica for itself; scripts wait for these. */
static void say_closing(struct conductor *c)
{
    static const char *const words[] = {"Clean up finished.",
                                        "Finished tearing down training program."};
    for (size_t i = 0; i < c->replica_count && !c->preparing; i++)
        for (size_t k = 0; k < TY_COUNT(words); k++)
            joblog_append(&c->log, c->replicas[i].plan->pool, c->replicas[i].plan->index, 's',
                          false, ty_str_of(words[k]));
}

void output_finish(struct conductor *c)
{
    if (c->log_finished)
        return;
    c->log_finished = true;
    char name[REPLICA_NAME_BYTES];
    for (size_t i = 0; i < c->replica_count; i++) {
        const struct replica *r = &c->replicas[i];
        if (r->dropped_lines > 0)
            output_say(c,
                       "%s wrote %" PRId64 " lines (%" PRId64
                       " bytes) past its limit; they were dropped.",
                       replica_name(r->plan, name), r->dropped_lines, r->dropped_bytes);
    }
    usage_say_used(c);
    if (c->plan.ml)
        say_closing(c);
    output_flush(c);
}

/* ---- writing ---- */

/* Take the pipes out of the event loop, or back in. */
static void watch_streams(struct conductor *c, int op)
{
    for (size_t i = 0; i < c->replica_count; i++)
        for (int k = 0; k < STREAM_COUNT; k++) {
            struct source *s = &c->replicas[i].streams[k].source;
            struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
            if (s->fd >= 0)
                epoll_ctl(c->epoll_fd, op, s->fd, &event);
        }
}

void output_flush(struct conductor *c)
{
    if (c->log.out.len == 0 && !c->log_stuck)
        return;
    ty_err err = joblog_flush(&c->log);
    if (err == TY_OK) {
        if (!c->log_unsynced)
            c->log_sync_ms = ty_boot_ms() + SYNC_MS;
        c->log_unsynced = c->log_news = true;
        if (c->log_stuck) {
            c->log_stuck = false;
            watch_streams(c, EPOLL_CTL_ADD);
        }
        return;
    }
    if (!c->log_stuck) {
        log_warn("conductor.log_stuck", "job=%" PRId64 " attempt=%d error='%s'", c->job_id,
                 c->attempt, ty_err_message());
        c->log_stuck = true;
        watch_streams(c, EPOLL_CTL_DEL);
    }
    c->log_retry_ms = ty_boot_ms() + RETRY_MS;
}

/* Let go of what cannot be written. */
static void give_up(struct conductor *c)
{
    c->log_lost = true;
    c->log.out.len = 0;
    for (size_t i = 0; i < c->replica_count; i++)
        for (int k = 0; k < STREAM_COUNT; k++) {
            ty_buf_clear(&c->replicas[i].streams[k].line);
            source_close(&c->replicas[i].streams[k].source);
        }
}

void output_tick(struct conductor *c, int64_t now_ms)
{
    if (!c->log_stuck || now_ms >= c->log_retry_ms)
        output_flush(c);
    if (c->log_stuck && c->gone_ms && now_ms >= c->gone_ms + GIVE_UP_MS)
        give_up(c);
    if (c->log_unsynced && now_ms >= c->log_sync_ms) {
        if (joblog_sync(&c->log) != TY_OK)
            log_warn("conductor.log_sync", "job=%" PRId64 " error='%s'", c->job_id,
                     ty_err_message());
        c->log_unsynced = false;
    }
}

int64_t output_next_ms(const struct conductor *c)
{
    if (c->log_stuck)
        return c->log_retry_ms;
    return c->log_unsynced ? c->log_sync_ms : INT64_MAX;
}

bool output_settled(const struct conductor *c)
{
    return c->log_lost || c->log.out.len == 0;
}
