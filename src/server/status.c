/* status.c -- /healthz for probes, /metrics for Prometheus. */
#include "server/server_int.h"

static ty_err healthz(struct http_request *req, struct http_response *res, void *ctx)
{
    (void)req;
    struct server *s = ctx;
    ty_buf_addf(&res->body, "{\"status\":\"ok\",\"version\":\"%s\",\"uptimeSeconds\":%" PRId64 "}",
                TY_VERSION, (ty_boot_ms() - s->start_boot_ms) / 1000);
    return TY_OK;
}

static void metric(struct ty_buf *b, const char *name, const char *type, const char *help,
                   int64_t value)
{
    ty_buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n%s %" PRId64 "\n", name, help, name, type, name,
                value);
}

static int64_t resident_bytes(struct ty_arena *a)
{
    ty_str text, field;
    if (ty_file_read(AT_FDCWD, "/proc/self/statm", 256, a, &text) != TY_OK)
        return 0;
    int64_t pages = 0;
    ty_str_split(&text, ' ', &field);
    ty_str_split(&text, ' ', &field);
    return ty_parse_i64(field, &pages) == TY_OK ? pages * sysconf(_SC_PAGESIZE) : 0;
}

static ty_err metrics(struct http_request *req, struct http_response *res, void *ctx)
{
    struct server *s = ctx;
    int64_t counts[8] = {0};
    ty_err err = store_job_counts(s->store, counts);
    if (err != TY_OK)
        return err;
    struct http_stats http;
    http_server_stats(s->http, &http);
    struct sched_stats sched = {0};
    pthread_mutex_lock(&s->gate);
    if (s->sched)
        sched_stats(s->sched, &sched);
    pthread_mutex_unlock(&s->gate);

    struct ty_buf *b = &res->body;
    res->content_type = "text/plain; version=0.0.4";
    ty_buf_addz(b, "# HELP trainyard_jobs Jobs by state\n# TYPE trainyard_jobs gauge\n");
    for (int state = JOB_STATE_QUEUED; state <= JOB_STATE_CANCELLED; state++)
        ty_buf_addf(b, "trainyard_jobs{state=\"%s\"} %" PRId64 "\n",
                    job_state_name((enum job_state)state), counts[state]);
    metric(b, "trainyard_replica_slots", "gauge", "Replicas that may run at once", sched.slots);
    metric(b, "trainyard_replica_slots_used", "gauge", "Replicas placed now", sched.slots_used);
    metric(b, "trainyard_jobs_waiting", "gauge", "Jobs waiting for a place", sched.queued);
    metric(b, "trainyard_http_requests_total", "counter", "Requests answered",
           (int64_t)http.requests);
    metric(b, "trainyard_http_errors_4xx_total", "counter", "Answers with a client's error",
           (int64_t)http.errors_4xx);
    metric(b, "trainyard_http_errors_5xx_total", "counter", "Answers with our error",
           (int64_t)http.errors_5xx);
    metric(b, "trainyard_http_refused_peers_total", "counter",
           "Connections closed because they came from another user", (int64_t)http.refused_peers);
    metric(b, "trainyard_http_dropped_slow_total", "counter", "Connections dropped for slowness",
           (int64_t)http.dropped_slow);
    metric(b, "trainyard_http_connections", "gauge", "Open connections", (int64_t)http.connections);
    metric(b, "trainyard_http_parked", "gauge", "Requests waiting for news", (int64_t)http.parked);
    metric(b, "process_resident_memory_bytes", "gauge", "Resident memory",
           resident_bytes(req->arena));
    metric(b, "trainyard_uptime_seconds", "counter", "Seconds since the start",
           (ty_boot_ms() - s->start_boot_ms) / 1000);
    return TY_OK;
}

static const struct http_route rows[] = {
    {HTTP_GET, "/healthz", healthz},
    {HTTP_GET, "/metrics", metrics},
};

struct http_routes status_routes(struct server *s)
{
    return (struct http_routes){.rows = rows, .count = TY_COUNT(rows), .ctx = s};
}
