/* test_cloudlog.c -- entries:list and the tail, over a real store and real log files. */
#define TY_SEAM
#include "base/test.h"

#include "cloudlog/cloudlog_int.h"

enum { MS = 1000000 };

/* ---- a yard: a folder with a store, and jobs in it ---- */

struct yard {
    char dir[64];
    struct store *store;
    struct cloudlog log;
    struct ty_arena arena;
};

static void yard_open(struct yard *y)
{
    /* in memory where that is to be had: some cases commit thousands of times */
    *y = (struct yard){.dir = "/dev/shm/test_cloudlog.XXXXXX"};
    if (!mkdtemp(y->dir)) {
        snprintf(y->dir, sizeof y->dir, "/tmp/test_cloudlog.XXXXXX");
        assert_non_null(mkdtemp(y->dir));
    }
    assert_ok(store_open(y->dir, &y->store));
    y->log = (struct cloudlog){.store = y->store, .data_dir = y->dir};
}

static void yard_close(struct yard *y)
{
    store_close(y->store);
    ty_arena_clear(&y->arena);
    assert_ok(ty_remove_tree(AT_FDCWD, y->dir));
}

static struct job add_job(struct yard *y, const char *region)
{
    struct job job = {.project = TY_STR("demo"),
                      .region = ty_str_of(region),
                      .display_name = TY_STR("t1"),
                      .body = TY_STR("\"displayName\":\"t1\""),
                      .replicas = 2};
    assert_ok(store_job_create(y->store, &job));
    return job;
}

static void change(struct yard *y, const struct job *job, struct store_change c)
{
    c.job_id = job->id;
    assert_ok(store_apply(y->store, &c, 1));
}

static void start_attempt(struct yard *y, const struct job *job, int number, int64_t start_ns)
{
    struct attempt a = {.job_id = job->id,
                        .number = number,
                        .state = ATTEMPT_RUNNING,
                        .start_ns = start_ns,
                        .running_ns = start_ns + MS};
    change(y, job, (struct store_change){.state = JOB_STATE_RUNNING, .attempt = &a});
}

static void end_attempt(struct yard *y, const struct job *job, int number, int64_t end_ns,
                        enum job_state state, const char *message)
{
    struct attempt a = {.job_id = job->id,
                        .number = number,
                        .state = ATTEMPT_ENDED,
                        .end_ns = end_ns,
                        .outcome = TY_STR("failed"),
                        .message = ty_str_of(message)};
    struct store_change c = {.state = state, .attempt = &a};
    if (job_state_is_final(state)) {
        c.end_ns = end_ns;
        c.error_message = message;
    }
    change(y, job, c);
}

/* Append a line to an attempt's file. */
static void print(struct yard *y, const struct job *job, int attempt, int64_t time_ns,
                  const char *rest)
{
    struct ty_buf b;
    ty_buf_init(&b, 4 << 20);
    ty_buf_addf(&b, "%s/jobs/%" PRId64 "/%d", y->dir, job->id, attempt);
    assert_ok(ty_mkdirs(b.ptr, 0700));
    ty_buf_addz(&b, "/log");
    int fd = open(b.ptr, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    b.len = 0;
    ty_buf_addf(&b, "%019" PRId64 " %s\n", time_ns, rest);
    assert_int_equal(write(fd, b.ptr, b.len), (ssize_t)b.len);
    close(fd);
    ty_buf_clear(&b);
}

/* A job with two lines a replica that has ended well. */
static struct job add_finished(struct yard *y)
{
    struct job job = add_job(y, "us-central1");
    int64_t t = job.create_ns;
    start_attempt(y, &job, 1, t + 10 * MS);
    print(y, &job, 1, t + 20 * MS, "0-0 o hello");
    print(y, &job, 1, t + 21 * MS, "0-1 e careful");
    print(y, &job, 1, t + 22 * MS,
          "0-0 o {\"message\":\"loss\",\"severity\":\"warning\",\"step\":{\"n\":3}}");
    print(y, &job, 1, t + 23 * MS, "0-1 o bye");
    end_attempt(y, &job, 1, t + 30 * MS, JOB_STATE_SUCCEEDED, "");
    return job;
}

/* ---- calls ---- */

static ty_err call(struct yard *y, http_handler handler, struct http_request *req,
                   json_t **ret_reply)
{
    struct http_response res = {0};
    req->arena = &y->arena;
    ty_buf_init(&res.body, 64 << 20);
    ty_err err = handler(req, &res, &y->log);
    *ret_reply = NULL;
    if (!err && req->park_ms == 0)
        assert_ok(wire_json_parse(ty_buf_str(&res.body), ret_reply));
    if (req->park_ms > 0)
        assert_int_equal(res.body.len, 0);
    ty_buf_clear(&res.body);
    return err;
}

static json_t *list_body(struct yard *y, const char *body)
{
    struct http_request req = {.body = ty_str_of(body)};
    json_t *reply;
    assert_ok(call(y, cloudlog_list, &req, &reply));
    return reply;
}

/* `more`: members after the filter. */
static json_t *list(struct yard *y, const char *filter, const char *more)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    ty_buf_addz(&b, "{\"resourceNames\":[\"projects/demo\"],\"filter\":");
    wire_json_string(&b, ty_str_of(filter));
    ty_buf_addf(&b, "%s}", more);
    json_t *reply = list_body(y, b.ptr);
    ty_buf_clear(&b);
    return reply;
}

static const char *entry_text(const json_t *entry)
{
    const char *text = json_string_value(json_object_get(entry, "textPayload"));
    const json_t *json = json_object_get(entry, "jsonPayload");
    return text ? text : json_string_value(json_object_get(json, "message"));
}

/* The texts of the entries, joined by '|'. Takes the reply. */
static const char *texts(struct yard *y, json_t *reply)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    size_t i;
    json_t *e;
    json_array_foreach (json_object_get(reply, "entries"), i, e)
        ty_buf_addf(&b, "%s%s", i > 0 ? "|" : "", entry_text(e));
    const char *out = ty_cstr(&y->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(reply);
    return out;
}

static const char *job_filter(struct yard *y, const struct job *job, const char *more)
{
    return ty_format(&y->arena,
                     "resource.type=\"ml_job\" AND resource.labels.job_id=\"%" PRId64 "\"%s",
                     job->id, more);
}

static const char *stamp(struct yard *y, int64_t ns)
{
    char out[WIRE_TIME_BYTES];
    return ty_cstr(&y->arena, ty_str_of(wire_time_format(ns, 9, out)));
}

/* ---- merge ---- */

static const char finished_lines[] =
    "Job 't1' accepted: 2 replicas.|"
    "Starting 2 replicas (attempt 1), 0.010 seconds after the job was accepted.|"
    "hello|careful|loss|bye|Job completed successfully.";

static void merge_rows_and_lines(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    assert_string_equal(texts(&y, list(&y, job_filter(&y, &job, ""), "")), finished_lines);
    yard_close(&y);
}

static void merge_attempts_in_order(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_job(&y, "us-central1");
    int64_t t = job.create_ns;
    start_attempt(&y, &job, 1, t + MS);
    print(&y, &job, 1, t + 50 * MS, "0-0 o first"); /* younger than the end: a clock set back */
    end_attempt(&y, &job, 1, t + 10 * MS, JOB_STATE_PENDING, "replica 0-0 exited with status 1");
    start_attempt(&y, &job, 2, t + 11 * MS);
    print(&y, &job, 2, t + 60 * MS, "0-0 o second");
    end_attempt(&y, &job, 2, t + 20 * MS, JOB_STATE_FAILED, "out of luck");
    const char *want =
        "Job 't1' accepted: 2 replicas.|"
        "Starting 2 replicas (attempt 1), 0.001 seconds after the job was accepted.|"
        "first|"
        "Attempt 1 ended (failed), the job is tried again: replica 0-0 exited with status 1|"
        "Starting 2 replicas again (attempt 2).|"
        "second|Job failed: out of luck";
    assert_string_equal(texts(&y, list(&y, job_filter(&y, &job, ""), "")), want);
    yard_close(&y);
}

static void merge_times_increase_strictly(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_job(&y, "us-central1");
    start_attempt(&y, &job, 1, job.create_ns); /* all at once */
    end_attempt(&y, &job, 1, job.create_ns, JOB_STATE_FAILED, "");
    json_t *reply = list(&y, job_filter(&y, &job, ""), ""), *e;
    size_t i;
    const char *last = "";
    json_array_foreach (json_object_get(reply, "entries"), i, e) {
        const char *time = json_string_value(json_object_get(e, "timestamp"));
        assert_int_equal(strlen(time), 30);
        assert_true(strcmp(last, time) < 0);
        last = time;
    }
    assert_int_equal(i, 3);
    json_decref(reply);
    yard_close(&y);
}

static void merge_passes_bad_lines_and_missing_files(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    ty_log_level_set(TY_LOG_ERROR);
    struct job job = add_job(&y, "us-central1");
    int64_t t = job.create_ns;
    start_attempt(&y, &job, 1, t + MS);
    end_attempt(&y, &job, 1, t + 5 * MS, JOB_STATE_PENDING, "lost");
    start_attempt(&y, &job, 2, t + 6 * MS);
    print(&y, &job, 2, t + 10 * MS, "0-0 o a");
    print(&y, &job, 2, t + 11 * MS, "rubbish");
    print(&y, &job, 2, t + 12 * MS, "0-0 o b");
    assert_string_equal(
        texts(&y,
              list(&y, job_filter(&y, &job, " AND resource.labels.task_name=workerpool0-0"), "")),
        "a|b");
    yard_close(&y);
}

static void merge_all_jobs_of_a_project(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job one = add_job(&y, "us-central1"), two = add_job(&y, "europe-west4");
    struct job other = {.project = TY_STR("other"), .region = TY_STR("us-central1"), .replicas = 1};
    assert_ok(store_job_create(y.store, &other));
    int64_t t = two.create_ns;
    start_attempt(&y, &one, 1, t + MS);
    start_attempt(&y, &two, 1, t + 2 * MS);
    print(&y, &one, 1, t + 10 * MS, "0-0 o a1");
    print(&y, &two, 1, t + 11 * MS, "0-0 o b1");
    print(&y, &one, 1, t + 12 * MS, "0-0 o a2");
    print(&y, &two, 1, t + 12 * MS, "0-0 o b2"); /* at the same time as a2: by job */
    end_attempt(&y, &one, 1, t + 20 * MS, JOB_STATE_SUCCEEDED, "");
    const char *filter = "resource.type=ml_job resource.labels.task_name=workerpool0-0";
    assert_string_equal(texts(&y, list(&y, filter, "")), "a1|b1|a2|b2");
    assert_string_equal(texts(&y, list(&y, filter, ",\"orderBy\":\"timestamp desc\"")),
                        "b2|a2|b1|a1");
    assert_string_equal(texts(&y, list(&y, "resource.type=gce_instance", "")), "");
    yard_close(&y);
}

/* ---- the words of two APIs ---- */

/* Job id and task of each entry, "id:task|id:task". */
static const char *names(struct yard *y, const json_t *reply)
{
    const char *all = "";
    size_t i;
    json_t *entry;
    json_array_foreach (json_object_get(reply, "entries"), i, entry) {
        const json_t *labels = json_object_get(json_object_get(entry, "resource"), "labels");
        all = ty_format(&y->arena, "%s%s%s:%s", all, i ? "|" : "",
                        json_string_value(json_object_get(labels, "job_id")),
                        json_string_value(json_object_get(labels, "task_name")));
    }
    return all;
}

static const char *names_by(struct yard *y, const char *filter)
{
    json_t *reply = list(y, filter, "");
    const char *text = names(y, reply);
    json_decref(reply);
    return text;
}

static void words_are_those_asked_by(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job old = {.project = TY_STR("demo"),
                      .region = TY_STR("r"),
                      .display_name = TY_STR("old"),
                      .body = TY_STR("\"displayName\":\"old\""),
                      .replicas = 2,
                      .ml_id = TY_STR("old"),
                      .ml_input = TY_STR("{}")};
    assert_ok(store_job_create(y.store, &old));
    start_attempt(&y, &old, 1, old.create_ns + MS);
    print(&y, &old, 1, old.create_ns + 20 * MS, "0-0 o hello");
    print(&y, &old, 1, old.create_ns + 21 * MS, "2-1 o hello");
    print(&y, &old, 1, old.create_ns + 22 * MS, "- s The replica workerpool2-1 hello");
    const char *number = ty_format(&y.arena, "%" PRId64, old.id);
    const char *tasks = "AND textPayload:hello";
    assert_string_equal(
        names_by(&y, ty_format(&y.arena, "resource.labels.job_id=\"old\" %s", tasks)),
        "old:master-replica-0|old:ps-replica-1|old:service");
    assert_string_equal(
        names_by(&y, ty_format(&y.arena, "resource.labels.job_id=\"%s\" %s", number, tasks)),
        ty_format(&y.arena, "%s:workerpool0-0|%s:workerpool2-1|%s:service", number, number,
                  number));
    assert_string_equal(names_by(&y, "textPayload:hello"), /* nobody was named: its own */
                        "old:master-replica-0|old:ps-replica-1|old:service");
    assert_string_equal(names_by(&y, "resource.labels.job_id=\"old\" AND "
                                     "resource.labels.task_name=\"ps-replica-1\""),
                        "old:ps-replica-1");
    json_t *reply = list(&y, "resource.labels.job_id=\"old\" AND textPayload:ps", "");
    assert_string_equal(texts(&y, reply), "The replica ps 1 hello");
    struct job custom = add_job(&y, "r");
    assert_string_equal(
        names_by(
            &y, ty_format(&y.arena, "resource.labels.job_id=\"customjob_%" PRId64 "\"", custom.id)),
        ty_format(&y.arena, "customjob_%" PRId64 ":service", custom.id));
    yard_close(&y);
}

/* ---- service lines ---- */

static void two_warnings(const struct job *job, struct ty_buf *out)
{
    assert_true(ty_str_starts(job->body, TY_STR("\"displayName\"")));
    ty_buf_addz(out, "network is only recorded\nserviceAccount is only recorded\n");
}

static void service_warnings_and_queue(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    y.log.warnings = two_warnings;
    struct job job = add_job(&y, "us-central1");
    change(&y, &job,
           (struct store_change){.state = JOB_STATE_QUEUED,
                                 .wait_reason = "64 of 64 slots are in use"});
    assert_string_equal(
        texts(&y, list(&y, job_filter(&y, &job, ""), "")),
        "Job 't1' accepted: 2 replicas.|network is only recorded|serviceAccount is only "
        "recorded|Job is queued: 64 of 64 slots are in use");
    assert_string_equal(texts(&y, list(&y, job_filter(&y, &job, " severity=WARNING"), "")),
                        "network is only recorded|serviceAccount is only recorded");
    yard_close(&y);
}

/* ---- entries ---- */

static void entry_has_all_members(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    json_t *reply = list(&y, job_filter(&y, &job, " AND careful"), "");
    struct ty_buf got;
    ty_buf_init(&got, 4096);
    wire_json_dump(&got, json_array_get(json_object_get(reply, "entries"), 0));
    const char *time = stamp(&y, job.create_ns + 21 * MS);
    const char *want = ty_format(
        &y.arena,
        "{\"insertId\":\"%" PRId64 "t000001%016" PRIx64
        "\",\"logName\":\"projects/demo/logs/workerpool0-1\","
        "\"resource\":{\"type\":\"ml_job\",\"labels\":{\"job_id\":\"%" PRId64
        "\",\"project_id\":\"demo\",\"task_name\":\"workerpool0-1\"}},\"timestamp\":\"%s\","
        "\"receiveTimestamp\":\"%s\",\"severity\":\"ERROR\",\"labels\":{\"ml.googleapis.com/"
        "task_name\":"
        "\"workerpool0-1\",\"trainyard/attempt\":\"1\"},\"textPayload\":\"careful\"}",
        job.id, (uint64_t)(job.create_ns + 21 * MS), job.id, time, time);
    assert_string_equal(got.ptr, want);
    ty_buf_clear(&got);
    json_decref(reply);
    yard_close(&y);
}

static void entry_structured_line(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    json_t *reply = list(&y, job_filter(&y, &job, " AND jsonPayload.step.n=3"), "");
    const json_t *e = json_array_get(json_object_get(reply, "entries"), 0);
    assert_string_equal(json_string_value(json_object_get(e, "severity")), "WARNING");
    const json_t *payload = json_object_get(e, "jsonPayload");
    assert_string_equal(json_string_value(json_object_get(payload, "message")), "loss");
    assert_null(json_object_get(payload, "severity"));
    assert_null(json_object_get(e, "textPayload"));
    json_decref(reply);
    yard_close(&y);
}

static void entry_odd_lines_stay_text(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_job(&y, "us-central1");
    int64_t t = job.create_ns;
    start_attempt(&y, &job, 1, t + MS);
    print(&y, &job, 1, t + 11 * MS, "0-0 o {\"a\":1}");
    print(&y, &job, 1, t + 12 * MS, "0-0 o {\"message\":");
    print(&y, &job, 1, t + 13 * MS, "0-0 O {\"message\":\"part\"}");
    print(&y, &job, 1, t + 14 * MS, "0-0 o \xff\xfe!");
    print(&y, &job, 1, t + 15 * MS, "0-0 o ");
    assert_string_equal(
        texts(&y, list(&y, job_filter(&y, &job, " AND resource.labels.task_name:workerpool"), "")),
        "{\"a\":1}|{\"message\":|{\"message\":\"part\"}|\xef\xbf\xbd\xef\xbf\xbd!|");
    yard_close(&y);
}

/* ---- filters ---- */

static void filter_members(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    const struct {
        const char *filter, *want;
    } cases[] = {
        {" AND severity>=ERROR", "careful"},
        {" AND severity>=WARNING", "careful|loss"},
        {" AND resource.labels.task_name=\"workerpool0-1\"", "careful|bye"},
        {" AND labels.\"ml.googleapis.com/task_name\"=workerpool0-1", "careful|bye"},
        {" AND resource.labels.project_id=demo AND HELLO", "hello"},
        {" AND textPayload:ell", "hello"},
        {" AND textPayload=\"bye\"", "bye"},
        {" AND jsonPayload.message=loss", "loss"},
        {" AND jsonPayload.nothing=loss", ""},
        {" AND no.such.member=1", ""},
        {" AND logName=\"projects/demo/logs/workerpool0-1\"", "careful|bye"},
        {" AND NOT resource.labels.task_name=service AND NOT loss", "hello|careful|bye"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++)
        assert_string_equal(texts(&y, list(&y, job_filter(&y, &job, cases[i].filter), "")),
                            cases[i].want);
    yard_close(&y);
}

static void filter_times_as_stream_logs_sends_them(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    int64_t t = job.create_ns;
    const char *careful = stamp(&y, t + 21 * MS);
    assert_string_equal(
        texts(&y, list(&y,
                       job_filter(&y, &job,
                                  ty_format(&y.arena, " AND timestamp>=\"%s\" AND timestamp<\"%s\"",
                                            careful, stamp(&y, t + 23 * MS))),
                       "")),
        "careful|loss");
    json_t *reply = list(&y, job_filter(&y, &job, " AND careful"), "");
    const json_t *e = json_array_get(json_object_get(reply, "entries"), 0);
    const char *later =
        ty_format(&y.arena, " AND ((timestamp=\"%s\" AND insertId>\"%s\") OR timestamp>\"%s\")",
                  careful, json_string_value(json_object_get(e, "insertId")), careful);
    json_decref(reply);
    assert_string_equal(texts(&y, list(&y, job_filter(&y, &job, later), "")),
                        "loss|bye|Job completed successfully.");
    yard_close(&y);
}

static void filter_unknown_job_is_empty(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    add_finished(&y);
    assert_string_equal(texts(&y, list(&y, "resource.labels.job_id=\"1\"", "")), "");
    assert_string_equal(texts(&y, list(&y, "resource.labels.job_id=\"x\"", "")), "");
    yard_close(&y);
}

/* ---- requests ---- */

static void expect_refused(struct yard *y, const char *body, const char *words)
{
    struct http_request req = {.body = ty_str_of(body)};
    json_t *reply;
    assert_err(TY_INVALID_ARGUMENT, call(y, cloudlog_list, &req, &reply));
    if (!strstr(ty_err_message(), words))
        fail_msg("'%s' does not say '%s'", ty_err_message(), words);
}

static void request_refusals_name_the_field(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    expect_refused(&y, "{}", "resourceNames");
    expect_refused(&y, "{\"resourceNames\":[\"folders/1\"]}", "resourceNames");
    expect_refused(&y, "{\"resourceNames\":[\"projects/a\",\"projects/b\"]}", "one project");
    expect_refused(&y, "{\"resourceNames\":[1]}", "resourceNames");
    expect_refused(&y, "{\"resourceNames\":[\"projects/demo\"],\"orderBy\":\"severity\"}",
                   "orderBy");
    expect_refused(&y, "{\"resourceNames\":[\"projects/demo\"],\"orderBy\":\"timestamp up\"}",
                   "orderBy");
    expect_refused(&y, "{\"resourceNames\":[\"projects/demo\"],\"pageSize\":-1}", "pageSize");
    expect_refused(&y, "{\"resourceNames\":[\"projects/demo\"],\"pageToken\":\"x\"}", "pageToken");
    expect_refused(&y, "{\"resourceNames\":[\"projects/demo\"],\"pageToken\":\"d5-x\"}",
                   "other order");
    expect_refused(&y, "{\"resourceNames\":[\"projects/demo\"],\"surprise\":1}", "surprise");
    expect_refused(&y, "{\"resourceNames\":[\"projects/demo\"],\"filter\":\"a=(\"}", "byte");
    expect_refused(&y, "[]", "");
    expect_refused(&y, "", "");
    yard_close(&y);
}

/* ---- pages ---- */

/* All pages of this size, joined; checks that no page is larger. */
static const char *all_pages(struct yard *y, const char *filter, const char *order, int size)
{
    struct ty_buf all;
    ty_buf_init(&all, 1 << 20);
    const char *token = "";
    for (int pages = 0; pages < 200; pages++) {
        json_t *reply =
            list(y, filter,
                 ty_format(&y->arena,
                           ",\"pageSize\":%d,\"orderBy\":\"timestamp %s\",\"pageToken\":\"%s\"",
                           size, order, token));
        assert_true(json_array_size(json_object_get(reply, "entries")) <= (size_t)size);
        ty_str next = wire_json_get_str(reply, "nextPageToken");
        token = ty_cstr(&y->arena, next);
        const char *page = texts(y, reply);
        if (*page)
            ty_buf_addf(&all, "%s%s", all.len > 0 ? "|" : "", page);
        if (!*token)
            break;
    }
    const char *out = ty_cstr(&y->arena, ty_buf_str(&all));
    ty_buf_clear(&all);
    return out;
}

static void pages_join_to_the_whole(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    const char *filter = job_filter(&y, &job, "");
    for (int size = 1; size <= 9; size++)
        assert_string_equal(all_pages(&y, filter, "asc", size), finished_lines);
    const char *back = all_pages(&y, filter, "desc", 1000);
    assert_true(ty_str_starts(
        ty_str_of(back), TY_STR("Job completed successfully.|bye|loss|careful|hello|Starting")));
    for (int size = 1; size <= 9; size++)
        assert_string_equal(all_pages(&y, filter, "desc", size), back);
    yard_close(&y);
}

static void pages_over_several_jobs(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    for (int i = 0; i < 4; i++)
        add_finished(&y);
    const char *all = all_pages(&y, "", "asc", 1000), *back = all_pages(&y, "", "desc", 1000);
    assert_int_equal(strlen(all), 4 * strlen(finished_lines) + 3);
    for (int size = 1; size < 12; size += 5) {
        assert_string_equal(all_pages(&y, "", "asc", size), all);
        assert_string_equal(all_pages(&y, "", "desc", size), back);
    }
    yard_close(&y);
}

/* More jobs than are merged at once: the pages go on over the others. */
static void pages_over_more_jobs_than_fit(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    enum { JOBS = CLOUDLOG_MAX_JOBS + 30 };
    for (int i = 0; i < JOBS; i++) {
        struct job job = add_job(&y, "us-central1");
        change(&y, &job, (struct store_change){.state = JOB_STATE_CANCELLED});
    }
    for (int back = 0; back < 2; back++) {
        const char *all = all_pages(&y, "accepted", back ? "desc" : "asc", 600);
        assert_int_equal(strlen(all), JOBS * (strlen("Job 't1' accepted: 2 replicas.") + 1) - 1);
    }
    yard_close(&y);
}

static void pages_default_and_most(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_job(&y, "us-central1");
    start_attempt(&y, &job, 1, job.create_ns + MS);
    for (int i = 0; i < 1100; i++)
        print(&y, &job, 1, job.create_ns + (10 + i) * (int64_t)MS, "0-0 o x");
    const struct {
        const char *more;
        size_t want;
    } cases[] = {
        {"", 50}, {",\"pageSize\":0", 50}, {",\"pageSize\":5000", 1000}, {",\"pageSize\":7", 7}};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        json_t *reply = list(&y, job_filter(&y, &job, ""), cases[i].more);
        assert_int_equal(json_array_size(json_object_get(reply, "entries")), cases[i].want);
        assert_non_null(json_object_get(reply, "nextPageToken"));
        json_decref(reply);
    }
    yard_close(&y);
}

/* ---- stream-logs ---- */

static ty_err poll_as_gcloud(struct yard *y, const struct job *job, int64_t last_ns,
                             int64_t waited_ms, json_t **ret_reply, bool *ret_parked)
{
    const char *filter = job_filter(
        y, job,
        ty_format(&y->arena,
                  " AND timestamp>=\"%s\" AND timestamp<\"2001-01-01T00:00:00.000000+00:00\"",
                  stamp(y, last_ns)));
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    ty_buf_addz(&b, "{\"resourceNames\":[\"projects/demo\"],\"orderBy\":\"timestamp "
                    "asc\",\"pageSize\":1000,\"filter\":");
    wire_json_string(&b, ty_str_of(filter));
    ty_buf_addc(&b, '}');
    struct http_request req = {
        .body = ty_buf_str(&b),
        .user_agent =
            TY_STR("google-cloud-sdk gcloud/528.0.0 command/gcloud.ai.custom-jobs.stream-logs x"),
        .waited_ms = waited_ms};
    ty_err err = call(y, cloudlog_list, &req, ret_reply);
    *ret_parked = req.park_ms > 0;
    ty_buf_clear(&b);
    return err;
}

static void stream_gives_fresh_lines_and_waits(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_job(&y, "us-central1");
    int64_t t = job.create_ns;
    start_attempt(&y, &job, 1, t + MS);
    print(&y, &job, 1, t + 10 * MS, "0-0 o hello");
    json_t *reply;
    bool parked;
    assert_ok(poll_as_gcloud(&y, &job, 3600 * INT64_C(1000000000), 0, &reply, &parked));
    assert_false(parked);
    assert_int_equal(json_array_size(json_object_get(reply, "entries")), 3);
    json_decref(reply);
    assert_ok(poll_as_gcloud(&y, &job, t + 10 * MS, 0, &reply,
                             &parked)); /* "hello" again is nothing new */
    assert_true(parked);
    print(&y, &job, 1, t + 11 * MS, "0-0 o more");
    assert_ok(poll_as_gcloud(&y, &job, t + 10 * MS, 1000, &reply, &parked));
    assert_false(parked);
    assert_string_equal(texts(&y, reply), "hello|more");
    yard_close(&y);
}

static void stream_says_that_the_job_still_runs(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_job(&y, "us-central1");
    int64_t last = job.create_ns + 10 * MS;
    start_attempt(&y, &job, 1, job.create_ns + MS);
    print(&y, &job, 1, last, "0-0 o hello");
    json_t *reply;
    bool parked;
    assert_ok(poll_as_gcloud(&y, &job, last, 60000, &reply, &parked));
    assert_false(parked);
    const json_t *e = json_array_get(json_object_get(reply, "entries"), 1);
    assert_string_equal(entry_text(e),
                        "Nothing new: the job is running, 0 minutes after it was accepted.");
    assert_string_equal(json_string_value(json_object_get(e, "timestamp")), stamp(&y, last + 1));
    assert_string_equal(json_string_value(json_object_get(e, "insertId")), "0still-running");
    json_decref(reply);
    yard_close(&y);
}

static void stream_of_an_ended_job_never_waits(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    json_t *reply;
    bool parked;
    assert_ok(poll_as_gcloud(&y, &job, job.create_ns + 30 * MS, 0, &reply, &parked));
    assert_false(parked);
    assert_string_equal(texts(&y, reply), "Job completed successfully.");
    yard_close(&y);
}

/* ---- tail ---- */

struct tail_query {
    const char *after, *task, *limit, *wait_ms;
    int64_t waited_ms;
};

static ty_err tail(struct yard *y, const struct job *job, struct tail_query q, json_t **ret_reply,
                   bool *ret_parked)
{
    const char *const names[] = {"after", "task", "limit", "waitMs"};
    const char *const values[] = {q.after, q.task, q.limit, q.wait_ms};
    struct http_param params[4] = {0}, *first = NULL;
    for (int i = 0; i < 4; i++) {
        if (!values[i])
            continue;
        params[i] = (struct http_param){ty_str_of(names[i]), ty_str_of(values[i]), first};
        first = &params[i];
    }
    struct http_request req = {
        .capture = {TY_STR("demo"), ty_str_of(ty_format(&y->arena, "%" PRId64, job->id))},
        .query = first,
        .waited_ms = q.waited_ms};
    ty_err err = call(y, cloudlog_tail, &req, ret_reply);
    *ret_parked = req.park_ms > 0;
    return err;
}

/* The texts, then the state and `done`; *ret_next is the cursor. */
static const char *tail_text(struct yard *y, const struct job *job, struct tail_query q,
                             const char **ret_next)
{
    json_t *reply, *line;
    bool parked;
    assert_ok(tail(y, job, q, &reply, &parked));
    if (parked)
        return "parked";
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    size_t i;
    json_array_foreach (json_object_get(reply, "lines"), i, line)
        ty_buf_addf(&b, "%s|", json_string_value(json_object_get(line, "text")));
    ty_buf_addf(&b, "%s", json_is_true(json_object_get(reply, "done")) ? "done" : "more");
    if (ret_next)
        *ret_next = ty_cstr(&y->arena, wire_json_get_str(reply, "next"));
    const char *out = ty_cstr(&y->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(reply);
    return out;
}

static void tail_to_the_end(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    const char *whole = ty_format(&y.arena, "%s|done", finished_lines);
    assert_string_equal(tail_text(&y, &job, (struct tail_query){0}, NULL), whole);
    const char *next = "";
    struct ty_buf all;
    ty_buf_init(&all, 4096);
    bool done = false;
    for (int i = 0; i < 20 && !done; i++) {
        const char *part = tail_text(
            &y, &job, (struct tail_query){.after = next, .limit = "3", .wait_ms = "100"}, &next);
        size_t n = strlen(part) - 4;
        done = strcmp(part + n, "done") == 0;
        ty_buf_add(&all, part, n);
    }
    ty_buf_addz(&all, "done");
    assert_string_equal(all.ptr, whole);
    ty_buf_clear(&all);
    yard_close(&y);
}

static void tail_of_one_task(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    const char *next;
    assert_string_equal(tail_text(&y, &job, (struct tail_query){.task = "workerpool0-0"}, &next),
                        "hello|loss|done");
    assert_string_equal(
        tail_text(&y, &job, (struct tail_query){.task = "workerpool0-0", .after = next}, &next),
        "done");
    yard_close(&y);
}

/* A row that is committed after a younger line was given is not lost, and nothing comes twice. */
static void tail_gives_late_rows(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_job(&y, "us-central1");
    int64_t t = job.create_ns;
    struct attempt a = {
        .job_id = job.id, .number = 1, .state = ATTEMPT_STARTED, .start_ns = t + MS};
    change(&y, &job, (struct store_change){.attempt = &a});
    print(&y, &job, 1, t + 50 * MS, "0-0 o hello");
    const char *next = NULL;
    const char *got = tail_text(&y, &job, (struct tail_query){0}, &next);
    assert_non_null(strstr(got, "accepted.|hello|more"));
    start_attempt(&y, &job, 1, t + MS);
    assert_string_equal(tail_text(&y, &job, (struct tail_query){.after = next}, &next), "more");
    print(&y, &job, 1, t + 51 * MS, "0-0 o bye");
    end_attempt(&y, &job, 1, t + 5 * MS, JOB_STATE_SUCCEEDED, "");
    assert_string_equal(tail_text(&y, &job, (struct tail_query){.after = next}, &next),
                        "bye|Job completed successfully.|done");
    assert_string_equal(tail_text(&y, &job, (struct tail_query){.after = next}, &next), "done");
    yard_close(&y);
}

static void tail_waits_for_a_line(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_job(&y, "us-central1");
    const char *next = NULL;
    tail_text(&y, &job, (struct tail_query){0}, &next);
    struct tail_query q = {.after = next, .wait_ms = "1000"};
    assert_string_equal(tail_text(&y, &job, q, NULL), "parked");
    q.waited_ms = 1000;
    assert_string_equal(tail_text(&y, &job, q, NULL), "more");
    q = (struct tail_query){.after = next};
    assert_string_equal(tail_text(&y, &job, q, NULL), "more");
    yard_close(&y);
}

static void tail_after_a_time(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y);
    const char *next = NULL;
    struct tail_query q = {.after = ty_format(&y.arena, "%" PRId64, job.create_ns + 22 * MS),
                           .limit = "1"};
    assert_string_equal(tail_text(&y, &job, q, &next), "bye|more");
    assert_string_equal(tail_text(&y, &job, (struct tail_query){.after = next}, NULL),
                        "Job completed successfully.|done");
    yard_close(&y);
}

static void tail_refusals(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = add_finished(&y), none = {.id = 7};
    json_t *reply;
    bool parked;
    assert_err(TY_NOT_FOUND, tail(&y, &none, (struct tail_query){0}, &reply, &parked));
    static const struct tail_query bad[] = {{.after = "x"},    {.after = "5,x"},
                                            {.after = "-5,1"}, {.after = "5,-7"},
                                            {.limit = "0"},    {.limit = "10001"},
                                            {.wait_ms = "-1"}, {.wait_ms = "60001"},
                                            {.limit = "many"}, {.after = "9223372036854775807,1"}};
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_err(TY_INVALID_ARGUMENT, tail(&y, &job, bad[i], &reply, &parked));
    yard_close(&y);
}

static const struct CMUnitTest tests[] = {
    TEST("merge/rows_and_lines", merge_rows_and_lines),
    TEST("merge/attempts_in_order", merge_attempts_in_order),
    TEST("merge/times_increase_strictly", merge_times_increase_strictly),
    TEST("merge/passes_bad_lines_and_missing_files", merge_passes_bad_lines_and_missing_files),
    TEST("merge/all_jobs_of_a_project", merge_all_jobs_of_a_project),
    TEST("service/warnings_and_queue", service_warnings_and_queue),
    TEST("entry/words_are_those_asked_by", words_are_those_asked_by),
    TEST("entry/has_all_members", entry_has_all_members),
    TEST("entry/structured_line", entry_structured_line),
    TEST("entry/odd_lines_stay_text", entry_odd_lines_stay_text),
    TEST("filter/members", filter_members),
    TEST("filter/times_as_stream_logs_sends_them", filter_times_as_stream_logs_sends_them),
    TEST("filter/unknown_job_is_empty", filter_unknown_job_is_empty),
    TEST("request/refusals_name_the_field", request_refusals_name_the_field),
    TEST("pages/join_to_the_whole", pages_join_to_the_whole),
    TEST("pages/over_several_jobs", pages_over_several_jobs),
    TEST("pages/over_more_jobs_than_fit", pages_over_more_jobs_than_fit),
    TEST("pages/default_and_most", pages_default_and_most),
    TEST("stream/gives_fresh_lines_and_waits", stream_gives_fresh_lines_and_waits),
    TEST("stream/says_that_the_job_still_runs", stream_says_that_the_job_still_runs),
    TEST("stream/of_an_ended_job_never_waits", stream_of_an_ended_job_never_waits),
    TEST("tail/to_the_end", tail_to_the_end),
    TEST("tail/of_one_task", tail_of_one_task),
    TEST("tail/gives_late_rows", tail_gives_late_rows),
    TEST("tail/waits_for_a_line", tail_waits_for_a_line),
    TEST("tail/after_a_time", tail_after_a_time),
    TEST("tail/refusals", tail_refusals),
};
TEST_MAIN("cloudlog", tests)
