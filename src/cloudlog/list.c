/* list.c -- POST /v2/entries:list, for `gcloud logging read` and `gcloud ai custom-jobs
 * stream-logs`.
 *
 * A page token is a place in the order, "a" or "d" for its direction, then time and insertId of the
 * last line looked at: no state is kept. A page ends when it is full, or after SCAN_LINES lines
 * that did not match; then it may be empty and still have a next page, which is how Cloud Logging
 * itself does it.
 *
 * stream-logs needs help (read in gcloud's own source, command_lib/logs/stream.py). It asks for the
 * job once, and goes on for ever if that had no endTime; with one it stops after two empty polls.
 * So vertex tells it an endTime, and here a poll waits while the job runs: for a line, or, when
 * WAIT_MS are over, to say that the job still runs. That line is one nanosecond younger than the
 * newest the client has, because it drops what is older than what it has seen and must not drop the
 * job's next line. It never asks for lines younger than five seconds; its bound is taken off, as
 * our lines come in order. */
#include "cloudlog/cloudlog_int.h"

enum {
    DEFAULT_PAGE = 50,
    MAX_PAGE = 1000,
    PAGE_BYTES = 8 << 20,
    SCAN_LINES = 200000,
    POLL_MS = 1000,
    WAIT_MS = 50000,
};

static const struct wire_field list_fields[] = {
    {.name = "resourceNames",
     .type = WIRE_STRING,
     .flags = WIRE_REPEATED | WIRE_REQUIRED,
     .most = 100},
    {.name = "filter", .type = WIRE_STRING, .most = 65536},
    {.name = "orderBy", .type = WIRE_STRING, .most = 100},
    {.name = "pageSize", .type = WIRE_INT32, .least = 0, .most = INT32_MAX},
    {.name = "pageToken", .type = WIRE_STRING, .most = 200},
    {0},
};
static const struct wire_message list_message = {.name = "ListLogEntriesRequest",
                                                 .fields = list_fields};

/* A place in the order. */
struct place {
    int64_t time_ns;
    ty_str insert_id; /* empty: before all of that time */
};

struct query {
    ty_str project;
    struct wire_filter *filter;
    bool back;
    int64_t job_id; /* 0: any */
    enum log_words words;
    bool nothing; /* it asks for a job that is not there */
    int64_t lower_ns;
    int64_t page_size;
    bool resumes;
    struct place after;
};

static ty_err bad_field(struct wire_violations *v, struct http_request *req,
                        struct http_response *res)
{
    struct ty_buf details;
    ty_buf_init(&details, 64 << 10);
    wire_violations_json(v, &details);
    res->error_details = ty_str_dup(req->arena, ty_buf_str(&details));
    ty_buf_clear(&details);
    return wire_violations_fail(v);
}

/* "projects/P" or anything below it. One project: the others' logs are not merged. */
static void read_project(const json_t *in, struct ty_arena *a, struct query *q,
                         struct wire_violations *v)
{
    const json_t *names = json_object_get(in, "resourceNames"), *name;
    size_t i;
    json_array_foreach ((json_t *)names, i, name) {
        ty_str rest = {json_string_value(name), json_string_length(name)}, head, project;
        if (!rest.ptr)
            continue; /* not a string: wire_normalise has said so */
        ty_str_split(&rest, '/', &head);
        bool below = ty_str_split(&rest, '/', &project);
        if (!ty_str_is(head, "projects") || project.len == 0 || (below && rest.len == 0))
            wire_violation_add(v, "resourceNames", "must be \"projects/PROJECT\"");
        else if (q->project.len > 0 && !ty_str_eq(q->project, project))
            wire_violation_add(v, "resourceNames", "only one project can be read at a time");
        else
            q->project = ty_str_dup(a, project);
    }
}

static void read_order(const json_t *in, struct query *q, struct wire_violations *v)
{
    ty_str order = ty_str_trim(wire_json_get_str(in, "orderBy")), name;
    if (!ty_str_split(&order, ' ', &name))
        order = TY_STR("asc");
    order = ty_str_trim(order);
    q->back = ty_str_is(order, "desc");
    bool known = name.len == 0 || ty_str_is(name, "timestamp");
    if (!known || (!q->back && !ty_str_is(order, "asc")))
        wire_violation_add(v, "orderBy", "must be \"timestamp asc\" or \"timestamp desc\"");
}

static void read_token(const json_t *in, struct ty_arena *a, struct query *q,
                       struct wire_violations *v)
{
    ty_str token = ty_str_dup(a, wire_json_get_str(in, "pageToken")), time;
    if (token.len == 0)
        return;
    char direction = token.ptr[0];
    ty_str rest = ty_str_drop(token, 1);
    bool split = ty_str_split(&rest, '-', &time);
    if (!split || ty_parse_i64(time, &q->after.time_ns) != TY_OK || q->after.time_ns < 0 ||
        (direction != 'a' && direction != 'd'))
        wire_violation_add(v, "pageToken", "is not a token that this server gave");
    else if ((direction == 'd') != q->back)
        wire_violation_add(v, "pageToken", "belongs to a list in the other order");
    q->after.insert_id = rest;
    q->resumes = true;
}

/* Take ` AND timestamp<"…"` off the end. */
static ty_str without_upper_bound(ty_str filter)
{
    static const char bound[] = " AND timestamp<\"";
    size_t n = sizeof bound - 1;
    for (size_t at = filter.len; at-- > 0;) {
        ty_str rest = ty_str_drop(filter, at);
        if (!ty_str_starts(rest, (ty_str){bound, n}))
            continue;
        ty_str value = ty_str_drop(rest, n);
        bool last = value.len > 0 && memchr(value.ptr, '"', value.len) == value.ptr + value.len - 1;
        return last ? (ty_str){filter.ptr, at} : filter;
    }
    return filter;
}

/* The job and the words of a filter that names one. */
static ty_err read_job(const struct cloudlog *c, struct ty_arena *a, struct query *q)
{
    ty_str name;
    if (!wire_filter_equal(q->filter, TY_STR("resource.labels.job_id"), &name))
        return TY_OK;
    ty_err err = log_job_find(c, a, q->project, name, &q->job_id, &q->words);
    q->nothing |= err == TY_NOT_FOUND;
    return err == TY_NOT_FOUND ? TY_OK : err;
}

static ty_err read_filter(const json_t *in, struct ty_arena *a, bool streaming, struct query *q)
{
    ty_str text = wire_json_get_str(in, "filter"), value;
    ty_err err = wire_filter_parse(a, streaming ? without_upper_bound(text) : text, &q->filter);
    if (!err)
        err = filter_check(q->filter);
    if (err)
        return err;
    if (wire_filter_equal(q->filter, TY_STR("resource.type"), &value) &&
        !ty_str_is(value, "ml_job"))
        q->nothing = true;
    if (wire_filter_lower_bound(q->filter, TY_STR("timestamp"), &value) &&
        wire_time_parse(value, &q->lower_ns) != TY_OK)
        q->lower_ns = 0;
    return TY_OK;
}

static ty_err read_query(const struct cloudlog *c, struct http_request *req,
                         struct http_response *res, bool streaming, struct query *q)
{
    json_t *body;
    ty_err err = wire_json_parse(req->body, &body);
    if (err)
        return err;
    struct wire_violations v;
    wire_violations_init(&v, req->arena);
    json_t *in = wire_normalise(&list_message, body, "", &v);
    json_decref(body);
    read_project(in, req->arena, q, &v);
    read_order(in, q, &v);
    read_token(in, req->arena, q, &v);
    const json_t *size = json_object_get(in, "pageSize");
    q->page_size = json_is_integer(size) && json_integer_value(size) > 0 ? json_integer_value(size)
                                                                         : DEFAULT_PAGE;
    if (q->page_size > MAX_PAGE)
        q->page_size = MAX_PAGE;
    err = v.count > 0 ? bad_field(&v, req, res) : read_filter(in, req->arena, streaming, q);
    json_decref(in);
    if (err == TY_OK)
        err = http_request_may(req, q->project);
    return err == TY_OK ? read_job(c, req->arena, q) : err;
}

/* ---- one page ---- */

struct page {
    struct ty_buf *out;
    int64_t count;
    bool fresh;      /* one of them is younger than the lower bound: the client does not have it */
    bool more;       /* there may be more after that */
    int64_t last_ns; /* the place of the last line looked at */
    char last_id[INSERT_ID_BYTES];
};

/* Is the line at or before the place the page starts after? */
static bool is_before_page(const struct query *q, const struct log_line *l)
{
    if (!q->resumes || l->time_ns != q->after.time_ns)
        return q->resumes &&
               (q->back ? l->time_ns > q->after.time_ns : l->time_ns < q->after.time_ns);
    char id[INSERT_ID_BYTES];
    int order = ty_str_cmp(ty_str_of(log_line_insert_id(l, id)), q->after.insert_id);
    return q->back ? order >= 0 : order <= 0;
}

static bool page_is_full(const struct query *q, const struct page *p)
{
    return p->count >= q->page_size || p->out->len > PAGE_BYTES;
}

static void page_add(struct page *p, const struct query *q, struct log_line *l)
{
    struct entry e;
    l->words = q->words;
    entry_init(&e, l);
    if (entry_matches(&e, q->filter)) {
        ty_buf_addz(p->out, p->count++ > 0 ? "," : "\"entries\":[");
        entry_json(&e, p->out);
        p->fresh = p->fresh || l->time_ns > q->lower_ns;
    }
    p->last_ns = l->time_ns;
    log_line_insert_id(l, p->last_id);
    entry_clear(&e);
}

/* Going back, lines below the lower bound match nothing: there is no need to look at them. */
static bool is_past_bound(const struct query *q, const struct log_line *l)
{
    return q->back && l->time_ns < q->lower_ns;
}

static ty_err fill_page(const struct cloudlog *c, struct ty_arena *a, const struct query *q,
                        struct page *p)
{
    int64_t start_ns = q->back ? INT64_MAX : q->lower_ns;
    if (q->resumes && (q->back || q->after.time_ns > start_ns))
        start_ns = q->after.time_ns;
    struct merge m;
    struct log_line line;
    ty_err err = cloudlog_merge(&m, c, a, q->project, q->job_id, q->back, start_ns);
    int64_t scanned = 0;
    while (!err && (err = merge_next(&m, &line)) == TY_OK && !is_past_bound(q, &line)) {
        if (is_before_page(q, &line))
            continue;
        if (page_is_full(q, p) || scanned++ == SCAN_LINES) {
            p->more = true;
            break;
        }
        page_add(p, q, &line);
    }
    /* More jobs than a merge takes: the next page starts with those after the last line. */
    if (err == TY_OUT_OF_RANGE && m.cut && scanned > 0)
        p->more = true;
    merge_close(&m);
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

/* ---- stream-logs ---- */

/* A line to keep the client from stopping; see the top of this file. */
static void add_still_running(struct page *p, const struct query *q, const struct job *job)
{
    int64_t time_ns = q->lower_ns + 1 > job->create_ns ? q->lower_ns + 1 : job->create_ns;
    int64_t minutes = (ty_now_ns() - job->create_ns) / INT64_C(60000000000);
    char text[160];
    snprintf(text, sizeof text,
             "Nothing new: the job is %s, %" PRId64 " minute%s after it was accepted.",
             job->state == JOB_STATE_RUNNING      ? "running"
             : job->state == JOB_STATE_CANCELLING ? "being cancelled"
                                                  : "waiting",
             minutes, minutes == 1 ? "" : "s");
    struct log_line line = {.time_ns = time_ns,
                            .job = job,
                            .severity = "INFO",
                            .pool = -1,
                            .index = -1,
                            .stream = 's',
                            .words = q->words,
                            .text = ty_str_of(text)};
    struct entry e;
    entry_init(&e, &line);
    snprintf(e.insert_id, sizeof e.insert_id, "0still-running"); /* before any other of that time */
    ty_buf_addz(p->out, p->count++ > 0 ? "," : "\"entries\":[");
    entry_json(&e, p->out);
    entry_clear(&e);
}

/* Nothing new for a client that streams. *ret_wait: ask again later. */
static ty_err stream_quiet(const struct cloudlog *c, struct http_request *req,
                           const struct query *q, struct page *p, bool *ret_wait)
{
    struct job job;
    ty_err err = store_job_find(c->store, req->arena, q->project, q->job_id, &job);
    if (err)
        return err == TY_NOT_FOUND ? TY_OK : err;
    if (job_state_is_final(job.state)) /* the end may have come since the page was read */
        return TY_OK;
    if (req->waited_ms < WAIT_MS)
        *ret_wait = true;
    else
        add_still_running(p, q, &job);
    return TY_OK;
}

static bool agent_has(const struct http_request *req, const char *words)
{
    return req->user_agent.len > 0 &&
           memmem(req->user_agent.ptr, req->user_agent.len, words, strlen(words)) != NULL;
}

ty_err cloudlog_list(struct http_request *req, struct http_response *res, void *ctx)
{
    const struct cloudlog *c = ctx;
    bool streaming = agent_has(req, "custom-jobs.stream-logs");
    /* That of the older API asks for the job again and again, so its polls need not wait. */
    bool recent = streaming || agent_has(req, "ai-platform.jobs.");
    struct query q = {0};
    ty_err err = read_query(c, req, res, recent, &q);
    if (err)
        return err;
    struct page p = {.out = &res->body};
    ty_buf_addc(p.out, '{');
    if (!q.nothing)
        err = fill_page(c, req->arena, &q, &p);
    bool wait = false;
    if (!err && streaming && q.job_id > 0 && !p.fresh && !p.more)
        err = stream_quiet(c, req, &q, &p, &wait);
    if (err || wait) {
        res->body.len = 0;
        return err ? err : http_park(req, POLL_MS);
    }
    if (p.count > 0)
        ty_buf_addc(p.out, ']');
    if (p.more)
        ty_buf_addf(p.out, "%s\"nextPageToken\":\"%c%" PRId64 "-%s\"", p.count > 0 ? "," : "",
                    q.back ? 'd' : 'a', p.last_ns, p.last_id);
    ty_buf_addc(p.out, '}');
    return ty_buf_check(p.out, "the page of log entries");
}
