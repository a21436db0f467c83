/* why.c -- GET /trainyard/v1/projects/{project}/jobs/{job}/why: sched_why as JSON, for `trainyard
 * why`. It is here because it needs scheduler, rows and settings together. */
#include "server/server_int.h"

#include "wire/wire.h"

static void add_text(struct ty_buf *b, const char *key, ty_str text)
{
    ty_buf_addf(b, ",\"%s\":", key);
    wire_json_string(b, text);
}

static void add_time(struct ty_buf *b, const char *key, int64_t ns)
{
    char text[WIRE_TIME_BYTES];
    ty_buf_addf(b, ",\"%s\":\"%s\"", key, wire_time_format(ns, 6, text));
}

static void add_jobs(struct ty_buf *b, const char *key, const struct sched_why_job *jobs,
                     size_t count)
{
    ty_buf_addf(b, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        ty_buf_addf(b, "%s{\"job\":\"%" PRId64 "\",\"state\":\"%s\",\"replicas\":%d",
                    i > 0 ? "," : "", jobs[i].id, job_state_name(jobs[i].state), jobs[i].replicas);
        add_text(b, "project", jobs[i].project);
        add_text(b, "displayName", jobs[i].display_name);
        add_time(b, "since", jobs[i].since_ns);
        ty_buf_addc(b, '}');
    }
    ty_buf_addc(b, ']');
}

static void add_earlier(struct ty_buf *b, const struct sched_why *why)
{
    ty_buf_addz(b, ",\"earlier\":[");
    for (size_t i = 0; i < why->earlier_count; i++) {
        ty_buf_addf(b, "%s{\"attempt\":%d", i > 0 ? "," : "", why->earlier[i].number);
        add_text(b, "reason", ty_str_of(why->earlier[i].line));
        ty_buf_addc(b, '}');
    }
    ty_buf_addc(b, ']');
}

static void add_wait(struct ty_buf *b, const struct sched_why *why)
{
    size_t named = why->ahead_count < SCHED_WHY_AHEAD ? why->ahead_count : SCHED_WHY_AHEAD;
    ty_buf_addf(b, ",\"slots\":%d,\"slotsUsed\":%d,\"aheadCount\":%zu", why->all.replicas,
                why->used.replicas, why->ahead_count);
    ty_buf_addf(b, ",\"jobSlots\":%d,\"jobSlotsUsed\":%d", why->all.jobs, why->used.jobs);
    if (why->fit)
        ty_buf_addf(b,
                    ",\"cpus\":%g,\"cpusUsed\":%g,\"cpusAsked\":%g,\"memoryBytes\":%" PRId64
                    ",\"memoryBytesUsed\":%" PRId64 ",\"memoryBytesAsked\":%" PRId64,
                    (double)why->all.cpu_milli / 1000, (double)why->used.cpu_milli / 1000,
                    (double)why->ask.cpu_milli / 1000, why->all.memory_bytes,
                    why->used.memory_bytes, why->ask.memory_bytes);
    if (why->ask.devices > 0)
        ty_buf_addf(b, ",\"devices\":%d,\"devicesUsed\":%d,\"devicesAsked\":%d", why->all.devices,
                    why->used.devices, why->ask.devices);
    if (why->remedy)
        add_text(b, "startsWith", ty_str_of(why->remedy));
    if (why->wait_left_ms != INT64_MAX)
        ty_buf_addf(b, ",\"waitLeftMs\":%" PRId64, why->wait_left_ms);
    add_jobs(b, "heldBy", why->holders, why->holder_count);
    add_jobs(b, "ahead", why->ahead, named);
}

static ty_err job_why(struct http_request *req, struct http_response *res, void *ctx)
{
    struct server *s = ctx;
    struct sched_why why;
    struct ty_buf *b = &res->body;
    int64_t id;
    if (ty_parse_i64(req->capture[1], &id) != TY_OK)
        return ty_fail(TY_INVALID_ARGUMENT, "job: '" TY_STR_FMT "' is not a job id",
                       (int)(req->capture[1].len < 64 ? req->capture[1].len : 64),
                       req->capture[1].ptr);
    struct sched_why_setup setup = {s->store, &s->config, &s->host, s->data_dir};
    ty_err err = sched_why(&setup, req->arena, req->capture[0], id, &why);
    if (err != TY_OK)
        return err;
    const struct job *job = &why.job;
    ty_buf_addf(b,
                "{\"state\":\"%s\",\"waits\":%s,\"replicas\":%d,\"attempt\":%d,\"retries\":%d,"
                "\"restarts\":%d",
                job_state_name(job->state), why.waits ? "true" : "false", job->replicas,
                job->attempt, job->retries, why.restarts);
    add_text(b, "name",
             ty_str_of(ty_format(
                 req->arena, "projects/" TY_STR_FMT "/locations/" TY_STR_FMT "/customJobs/%" PRId64,
                 TY_STR_ARG(job->project), TY_STR_ARG(job->region), job->id)));
    add_text(b, "displayName", job->display_name);
    add_time(b, "since", why.since_ns);
    add_text(b, "reason", ty_str_of(why.reason));
    add_text(b, "asked", ty_str_of(why.asked));
    if (why.note)
        add_text(b, "note", ty_str_of(why.note));
    if (why.before)
        add_text(b, "before", ty_str_of(why.before));
    if (why.earlier_count > 0)
        add_earlier(b, &why);
    if (why.restarted)
        add_text(b, "restarted", ty_str_of(why.restarted));
    if (why.slow)
        add_text(b, "slow", ty_str_of(why.slow));
    if (why.waits)
        add_wait(b, &why);
    ty_buf_addc(b, '}');
    return ty_buf_check(b, "the answer");
}

static const struct http_route rows[] = {
    {HTTP_GET, "/trainyard/v1/projects/{project}/jobs/{job}/why", job_why},
};

struct http_routes why_routes(struct server *s)
{
    return (struct http_routes){.rows = rows, .count = TY_COUNT(rows), .ctx = s};
}
