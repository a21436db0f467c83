/* usage.c -- GET /trainyard/v1/projects/{project}/jobs/{job}/usage: receipts of a job's attempts,
 * and the samples of one of them, for `trainyard usage` and `describe`.
 *
 *   {"name":…, "state":…, "attempts":[{"attempt":1, "ended":true, "memoryLimitBytes":…,
 *     "memoryLimitEnforced":true, "method":"cgroup v1", "replicas":[
 *      {"replica":"workerpool0-0", "runs":1, "ended":true, "cpuSeconds":1.5, "wallSeconds":2.1,
 *       "peakMemoryBytes":…, "readBytes":…, "writtenBytes":…, "memoryLimitBytes":…,
 *       "memoryLimitEnforced":true, "method":"cgroup v1",
 *       "samples":[[time in ms, CPU in µs, memory, read, written], …]}]}]}
 *
 * Only the attempt that is asked for (?attempt=N; the newest) has samples, at most ?points=N (300)
 * of each replica. A replica that runs has what its newest sample says and "ended":false. A
 * conductor that was killed leaves no receipts: such an attempt has what its samples say. */
#include "server/server_int.h"

#include "exec/exec.h"
#include "wire/wire.h"

enum { POINTS = 300, MOST_POINTS = 10000, MOST_SAMPLES = 20000 };

/* A replica's runs together. */
struct total {
    struct exec_used used; /* of runs with a receipt */
    int runs;
    const struct exec_sample *last; /* of a run without one: it runs, or its conductor was killed */
    int64_t last_peak_bytes;
    struct total *next;
};
/* In the order they came. Samples come in that order again and again: the next one is tried first.
 */
struct totals {
    struct ty_arena *arena;
    struct total *first, *last, *found;
    size_t count;
};

static bool total_is(const struct total *t, int pool, int index)
{
    return t && t->used.pool == pool && t->used.index == index;
}

static struct total *total_of(struct totals *list, int pool, int index)
{
    struct total *t = list->found && list->found->next ? list->found->next : list->first;
    if (!total_is(t, pool, index))
        for (t = list->first; t && !total_is(t, pool, index);)
            t = t->next;
    if (!t) {
        t = ty_new(list->arena, struct total);
        t->used.pool = pool;
        t->used.index = index;
        *(list->last ? &list->last->next : &list->first) = t;
        list->last = t;
        list->count++;
    }
    return list->found = t;
}

static int64_t larger(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static void add_used(struct total *t, const struct exec_used *u)
{
    t->runs++;
    t->used.cpu_us += u->cpu_us;
    t->used.wall_ms += u->wall_ms;
    t->used.peak_bytes = larger(t->used.peak_bytes, u->peak_bytes);
    t->used.read_bytes += u->read_bytes;
    t->used.written_bytes += u->written_bytes;
    t->used.limit_bytes = u->limit_bytes;
    t->used.limit_enforced = u->limit_enforced;
    t->used.method = u->method;
    t->used.end_ns = u->end_ns;
}

static void add_sample(struct total *t, const struct exec_sample *s)
{
    if (s->time_ms * 1000000 <= t->used.end_ns)
        return;
    t->last = s;
    t->last_peak_bytes = larger(t->last_peak_bytes, s->memory_bytes);
}

/* A run without a receipt is as its newest sample says. */
static void total_finish(struct total *t, const struct exec_look *look)
{
    if (!t->last)
        return;
    t->runs++;
    int64_t since_ms = larger(t->used.end_ns, larger(look->running_ns, look->begin_ns)) / 1000000;
    t->used.cpu_us += t->last->cpu_us;
    t->used.wall_ms += larger(t->last->time_ms - since_ms, 0);
    t->used.peak_bytes = larger(t->used.peak_bytes, t->last_peak_bytes);
    t->used.read_bytes += t->last->read_bytes;
    t->used.written_bytes += t->last->written_bytes;
}

static void add_samples(struct ty_buf *b, const struct exec_used *who,
                        const struct exec_sample *samples, size_t count)
{
    bool first = true;
    ty_buf_addz(b, ",\"samples\":[");
    for (size_t i = 0; i < count; i++) {
        const struct exec_sample *s = &samples[i];
        if (s->pool != who->pool || s->index != who->index)
            continue;
        ty_buf_addf(b, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]",
                    first ? "" : ",", s->time_ms, s->cpu_us, s->memory_bytes, s->read_bytes,
                    s->written_bytes);
        first = false;
    }
    ty_buf_addc(b, ']');
}

/* How it is measured and held to its memory, if that is known. */
static void add_limit(struct ty_buf *b, const struct exec_used *u)
{
    if (u->method.len == 0)
        return;
    ty_buf_addf(b, ",\"memoryLimitBytes\":%" PRId64 ",\"memoryLimitEnforced\":%s,\"method\":",
                u->limit_bytes, u->limit_enforced ? "true" : "false");
    wire_json_string(b, u->method);
}

static void add_replica(struct ty_buf *b, const struct total *t, bool alive)
{
    const struct exec_used *u = &t->used;
    if (u->pool < 0)
        ty_buf_addz(b, "{\"replica\":\"prepare\"");
    else
        ty_buf_addf(b, "{\"replica\":\"workerpool%d-%d\"", u->pool, u->index);
    ty_buf_addf(b,
                ",\"runs\":%d,\"ended\":%s,\"cpuSeconds\":%.3f,\"wallSeconds\":%.3f,"
                "\"peakMemoryBytes\":%" PRId64 ",\"readBytes\":%" PRId64
                ",\"writtenBytes\":%" PRId64,
                t->runs, alive && t->last ? "false" : "true", (double)u->cpu_us / 1e6,
                (double)u->wall_ms / 1e3, u->peak_bytes, u->read_bytes, u->written_bytes);
    add_limit(b, u);
}

static int total_compare(const void *pa, const void *pb)
{
    const struct total *a = pa, *b = pb;
    int by = (a->used.pool > b->used.pool) - (a->used.pool < b->used.pool);
    return by ? by : (a->used.index > b->used.index) - (a->used.index < b->used.index);
}

/* Pool by pool, whoever ended first. */
static struct total *totals_sort(const struct totals *list)
{
    struct total *sorted = ty_new_array(list->arena, struct total, list->count + 1);
    size_t n = 0;
    for (const struct total *t = list->first; t; t = t->next)
        sorted[n++] = *t;
    qsort(sorted, n, sizeof *sorted, total_compare);
    return sorted;
}

static ty_err add_attempt(struct server *s, struct ty_arena *a, struct ty_buf *b,
                          const struct job *job, int attempt, int64_t points, bool with_samples)
{
    struct exec_look look;
    struct exec_sample *samples;
    struct totals totals = {.arena = a};
    size_t count;
    int64_t most = larger(MOST_SAMPLES / larger(job->replicas, 1), 2);
    ty_err err = exec_attempt_look(a, s->data_dir, job->id, attempt, &look);
    if (err == TY_OK)
        err = exec_usage_read(a, s->data_dir, job->id, attempt,
                              (size_t)(points < most ? points : most), &samples, &count);
    if (err != TY_OK)
        return err;
    for (const struct exec_used *u = look.used; u; u = u->next)
        add_used(total_of(&totals, u->pool, u->index), u);
    for (size_t i = 0; i < count; i++)
        add_sample(total_of(&totals, samples[i].pool, samples[i].index), &samples[i]);
    bool alive = look.phase == EXEC_ALIVE;
    ty_buf_addf(b, "%s{\"attempt\":%d,\"ended\":%s", attempt > 1 ? "," : "", attempt,
                alive || look.phase == EXEC_ABSENT ? "false" : "true");
    add_limit(b, &look.provisioned);
    ty_buf_addz(b, ",\"replicas\":[");
    struct total *sorted = totals_sort(&totals);
    for (size_t i = 0; i < totals.count; i++) {
        total_finish(&sorted[i], &look);
        if (i > 0)
            ty_buf_addc(b, ',');
        add_replica(b, &sorted[i], alive);
        if (with_samples)
            add_samples(b, &sorted[i].used, samples, count);
        ty_buf_addc(b, '}');
    }
    ty_buf_addz(b, "]}");
    return ty_buf_check(b, "the answer");
}

static ty_err job_usage(struct http_request *req, struct http_response *res, void *ctx)
{
    struct server *s = ctx;
    struct ty_buf *b = &res->body;
    struct job job;
    int64_t id, asked, points;
    if (ty_parse_i64(req->capture[1], &id) != TY_OK)
        return ty_fail(TY_INVALID_ARGUMENT, "job: '" TY_STR_FMT "' is not a job id",
                       (int)(req->capture[1].len < 64 ? req->capture[1].len : 64),
                       req->capture[1].ptr);
    ty_err err = store_job_find(s->store, req->arena, req->capture[0], id, &job);
    if (err == TY_OK)
        err = http_query_i64(req, "attempt", job.attempt, &asked);
    if (err == TY_OK)
        err = http_query_i64(req, "points", POINTS, &points);
    if (err == TY_OK && (points < 1 || points > MOST_POINTS))
        err = ty_fail(TY_INVALID_ARGUMENT, "points: %" PRId64 " is not between 1 and %d", points,
                      MOST_POINTS);
    if (err == TY_OK && job.attempt > 0 && (asked < 1 || asked > job.attempt))
        err = ty_fail(TY_INVALID_ARGUMENT, "attempt: the job has attempts 1 to %d", job.attempt);
    if (err != TY_OK)
        return err;
    ty_buf_addf(b,
                "{\"name\":\"projects/" TY_STR_FMT "/locations/" TY_STR_FMT "/customJobs/%" PRId64
                "\",\"state\":\"%s\",\"attempts\":[",
                TY_STR_ARG(job.project), TY_STR_ARG(job.region), job.id, job_state_name(job.state));
    for (int n = 1; n <= job.attempt && err == TY_OK; n++)
        err = add_attempt(s, req->arena, b, &job, n, points, n == asked);
    ty_buf_addz(b, "]}");
    return err != TY_OK ? err : ty_buf_check(b, "the answer");
}

static const struct http_route rows[] = {
    {HTTP_GET, "/trainyard/v1/projects/{project}/jobs/{job}/usage", job_usage},
};

struct http_routes usage_routes(struct server *s)
{
    return (struct http_routes){.rows = rows, .count = TY_COUNT(rows), .ctx = s};
}
