/* tail.c -- our own command's way to follow a job's log: GET …/jobs/{job}/log.
 *
 * The cursor is "TIME,ORDINAL": the time of the newest line from the files and the ordinal of the
 * newest line from the rows that were given. Two parts, because a row is often committed a moment
 * after lines that are younger than it: with one time as the cursor, a follower would never see
 * "all replicas are running". */
#include "cloudlog/cloudlog_int.h"

enum {
    DEFAULT_LINES = 1000,
    MAX_LINES = 10000,
    ANSWER_BYTES = 4 << 20,
    SCAN_LINES = 200000,
    MAX_WAIT_MS = 60000,
    POLL_MS = 200, /* a log file that grows wakes nobody */
};

/* A time alone is taken as well: then the rows' lines, too, are those after it. */
enum { BY_TIME = -2, NONE_YET = -1 };
struct cursor {
    int64_t time_ns, ordinal;
};

struct request {
    int64_t job_id, limit, wait_ms;
    enum log_words words;
    ty_str task;
    struct cursor after;
};

static bool parse_cursor(ty_str text, struct cursor *ret_cursor)
{
    struct cursor c = {.time_ns = 0, .ordinal = NONE_YET};
    if (text.len > 0) {
        ty_str ordinal = text, time;
        if (!ty_str_split(&ordinal, ',', &time))
            c.ordinal = BY_TIME;
        else if (ty_parse_i64(ordinal, &c.ordinal) != TY_OK || c.ordinal < NONE_YET)
            return false;
        if (ty_parse_i64(time, &c.time_ns) != TY_OK || c.time_ns < 0 || c.time_ns == INT64_MAX)
            return false;
    }
    *ret_cursor = c;
    return true;
}

ty_err log_job_find(const struct cloudlog *c, struct ty_arena *a, ty_str project, ty_str name,
                    int64_t *ret_id, enum log_words *ret_words)
{
    struct job job;
    int64_t number;
    bool is_number = ty_parse_i64(name, &number) == TY_OK;
    ty_err err = is_number ? store_job_find(c->store, a, project, number, &job)
                           : store_ml_get(c->store, a, project, name, &job);
    if (err == TY_OK) {
        *ret_id = job.id;
        *ret_words = is_number ? LOG_WORDS_VERTEX : LOG_WORDS_ML;
    }
    return err;
}

static ty_err read_request(const struct cloudlog *c, const struct http_request *req,
                           struct request *r)
{
    if (!parse_cursor(http_query(req, "after"), &r->after))
        return ty_fail(TY_INVALID_ARGUMENT, "after: must be the \"next\" of an earlier answer");
    ty_err err = http_query_i64(req, "limit", DEFAULT_LINES, &r->limit);
    if (!err)
        err = http_query_i64(req, "waitMs", 0, &r->wait_ms);
    if (err)
        return err;
    if (r->limit < 1 || r->limit > MAX_LINES)
        return ty_fail(TY_INVALID_ARGUMENT, "limit: must be from 1 to %d", MAX_LINES);
    if (r->wait_ms < 0 || r->wait_ms > MAX_WAIT_MS)
        return ty_fail(TY_INVALID_ARGUMENT, "waitMs: must be from 0 to %d", MAX_WAIT_MS);
    r->task = http_query(req, "task");
    return log_job_find(c, req->arena, req->capture[0], req->capture[1], &r->job_id, &r->words);
}

static void add_line(struct ty_buf *b, const struct entry *e, bool first)
{
    ty_buf_addf(b,
                "%s{\"t\":\"%" PRId64
                "\",\"task\":\"%s\",\"severity\":\"%s\",\"stream\":\"%c\",\"text\":",
                first ? "" : ",", e->line->time_ns, e->task, e->severity, e->line->stream);
    wire_json_string(b, e->text);
    ty_buf_addz(b, e->line->continues ? ",\"continues\":true}" : "}");
}

/* Lines into b. *ret_end: there are no more now. *cursor moves over what was looked at. */
static ty_err add_lines(struct log_source *s, const struct request *r, struct ty_buf *b,
                        struct cursor *cursor, int64_t *ret_count, bool *ret_end)
{
    int64_t count = 0, scanned = 0;
    struct log_line line;
    ty_err err = TY_OK;
    while (count < r->limit && b->len < ANSWER_BYTES && scanned++ < SCAN_LINES &&
           (err = log_source_peek(s, &line)) == TY_OK) {
        struct entry e;
        line.words = r->words;
        entry_init(&e, &line);
        if (r->task.len == 0 || ty_str_is(r->task, e.task))
            add_line(b, &e, count++ == 0);
        entry_clear(&e);
        if (line.attempt > 0)
            cursor->time_ns = line.time_ns;
        else
            cursor->ordinal = line.ordinal;
        log_source_pass(s);
    }
    *ret_count = count;
    *ret_end = err == TY_OUT_OF_RANGE;
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

ty_err cloudlog_tail(struct http_request *req, struct http_response *res, void *ctx)
{
    struct request r = {0};
    ty_err err = read_request(ctx, req, &r);
    if (err)
        return err;
    struct log_source s;
    err =
        log_source_open(&s, ctx, req->arena, req->capture[0], r.job_id, false, r.after.time_ns + 1);
    if (err)
        return err;
    struct cursor cursor = r.after;
    if (cursor.ordinal == BY_TIME)
        cursor.ordinal = s.line_next > 0 ? s.lines[s.line_next - 1].ordinal : NONE_YET;
    log_source_lines_after(&s, cursor.ordinal);
    int64_t count = 0;
    bool end = false, final = job_state_is_final(s.job.state);
    ty_buf_addz(&res->body, "{\"lines\":[");
    err = add_lines(&s, &r, &res->body, &cursor, &count, &end);
    log_source_close(&s);
    bool wait = count == 0 && end && !final && req->waited_ms < r.wait_ms;
    if (err || wait) {
        int64_t left_ms = r.wait_ms - req->waited_ms;
        res->body.len = 0;
        return err ? err : http_park(req, left_ms < POLL_MS ? left_ms : POLL_MS);
    }
    ty_buf_addf(&res->body, "],\"state\":\"%s\",\"next\":\"%" PRId64 ",%" PRId64 "\",\"done\":%s}",
                job_state_name(s.job.state), cursor.time_ns, cursor.ordinal,
                final && end ? "true" : "false");
    return ty_buf_check(&res->body, "the answer");
}
