/* test_vertex.c -- get, list, cancel, delete and operations. */
#include "vertex/test_vertex.h"

/* ---- get ---- */

static void unknown_job_is_404(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t id = create(&y, JOB_OK);
    assert_err(TY_NOT_FOUND, call(&y, HTTP_GET, JOBS "/17", ""));
    assert_err(
        TY_NOT_FOUND,
        call(&y, HTTP_GET,
             ty_format(&y.life, "/v1/projects/demo/locations/us-east1/customJobs/%" PRId64, id),
             ""));
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "/abc", ""));
    assert_violation(&y, "job");
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "/-3", ""));
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_POST, JOBS "/x:cancel", "{}"));
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_DELETE, JOBS "/99999999999999999999", ""));
    yard_close(&y);
}

static void failed_job_has_times_and_error(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t id = create(&y, JOB_OK);
    end_job(&y, id, JOB_STATE_FAILED);
    assert_ok(call(&y, HTTP_GET, job_path(&y, id, ""), ""));
    assert_string_equal(reply_text(&y, "state"), "JOB_STATE_FAILED");
    assert_true(reply_text(&y, "startTime")[0] != '\0');
    assert_true(reply_text(&y, "endTime")[0] != '\0');
    assert_string_equal(reply_text(&y, "error.message"),
                        "The replica workerpool0-0 exited with a non-zero status of 1.\n\"last\"");
    assert_non_null(strstr(y.res.body.ptr, "\"error\":{\"code\":3,"));
    yard_close(&y);
}

static void stream_logs_gets_an_end_time(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t id = create(&y, JOB_OK);
    assert_ok(call_as(&y, HTTP_GET, job_path(&y, id, ""), TY_STR(""),
                      "gcloud/528.0.0 command/gcloud.ai.custom-jobs.stream-logs invocation-id/1"));
    assert_true(reply_text(&y, "endTime")[0] != '\0');
    assert_string_equal(reply_text(&y, "state"), "JOB_STATE_PENDING");
    assert_ok(call_as(&y, HTTP_GET, job_path(&y, id, ""), TY_STR(""),
                      "gcloud/528.0.0 command/gcloud.ai.custom-jobs.describe"));
    assert_string_equal(reply_text(&y, "endTime"), "");
    yard_close(&y);
}

static void read_mask_keeps_top_level_fields(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t id = create(&y, JOB_OK);
    const char *path = ty_format(&y.life, "%s?readMask=state,display_name", job_path(&y, id, ""));
    assert_ok(call(&y, HTTP_GET, path, ""));
    assert_string_equal(y.res.body.ptr, "{\"displayName\":\"t\",\"state\":\"JOB_STATE_PENDING\"}");
    assert_ok(call(&y, HTTP_GET, JOBS "?read_mask=displayName", ""));
    assert_string_equal(y.res.body.ptr, "{\"customJobs\":[{\"displayName\":\"t\"}]}");
    assert_ok(call(&y, HTTP_GET, JOBS "?readMask=*", ""));
    assert_non_null(strstr(y.res.body.ptr, "jobSpec"));
    assert_ok(call(&y, HTTP_GET, JOBS "?readMask=jobSpec.scheduling", ""));
    assert_non_null(strstr(y.res.body.ptr, "{\"customJobs\":[{\"jobSpec\":{\"workerPoolSpecs\""));
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "?readMask=name,bogus", ""));
    assert_violation(&y, "readMask");
    yard_close(&y);
}

/* ---- list ---- */

/* The display names of the last list, joined by commas. */
static const char *listed(struct yard *y)
{
    json_t *value = reply(y), *jobs = json_object_get(value, "customJobs");
    const char *names = "";
    for (size_t i = 0; i < json_array_size(jobs); i++)
        names = ty_format(&y->life, "%s%s%s", names, i ? "," : "",
                          wire_json_get_str(json_array_get(jobs, i), "displayName").ptr);
    json_decref(value);
    return names;
}

static int64_t create_named(struct yard *y, const char *name, const char *labels)
{
    return create(y, ty_format(&y->life,
                               "{\"displayName\":\"%s\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK
                               "]},\"labels\":{%s}}",
                               name, labels));
}

static void pages_newest_first(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_ok(call(&y, HTTP_GET, JOBS, ""));
    assert_string_equal(y.res.body.ptr, "{}");
    for (int i = 1; i <= 5; i++)
        create_named(&y, ty_format(&y.life, "j%d", i), "");
    assert_ok(call(&y, HTTP_GET, JOBS, ""));
    assert_string_equal(listed(&y), "j5,j4,j3,j2,j1");
    assert_string_equal(reply_text(&y, "nextPageToken"), "");

    assert_ok(call(&y, HTTP_GET, JOBS "?pageSize=2", ""));
    assert_string_equal(listed(&y), "j5,j4");
    const char *token = reply_text(&y, "nextPageToken");
    create_named(&y, "j6", ""); /* does not move the pages after it */
    assert_ok(call(&y, HTTP_GET, ty_format(&y.life, JOBS "?pageSize=2&pageToken=%s", token), ""));
    assert_string_equal(listed(&y), "j3,j2");
    token = reply_text(&y, "nextPageToken");
    assert_ok(call(&y, HTTP_GET, ty_format(&y.life, JOBS "?pageSize=2&pageToken=%s", token), ""));
    assert_string_equal(listed(&y), "j1");
    assert_string_equal(reply_text(&y, "nextPageToken"), "");

    assert_ok(call(&y, HTTP_GET, JOBS "?pageSize=6", ""));
    assert_string_equal(reply_text(&y, "nextPageToken"), "");
    assert_ok(call(&y, HTTP_GET, JOBS "?page_size=100000", ""));
    assert_string_equal(listed(&y), "j6,j5,j4,j3,j2,j1");
    yard_close(&y);
}

static void bad_pages_are_refused(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "?pageSize=-1", ""));
    assert_violation(&y, "pageSize");
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "?pageSize=ten", ""));
    assert_violation(&y, "pageSize");
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "?pageToken=x", ""));
    assert_violation(&y, "pageToken");
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "?pageToken=-4", ""));
    assert_violation(&y, "pageToken");
    yard_close(&y);
}

static void filter(struct yard *y, const char *text, const char *want)
{
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    ty_buf_addz(&b, JOBS "?filter=");
    wire_url_encode(&b, ty_str_of(text));
    assert_ok(call(y, HTTP_GET, b.ptr, ""));
    if (strcmp(listed(y), want) != 0)
        fail_msg("filter %s gave %s, not %s", text, listed(y), want);
    ty_buf_clear(&b);
}

static void filters(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t a = create_named(&y, "alpha", "\"team\":\"red\",\"x\":\"1\"");
    const char *name = reply_text(&y, "name");
    int64_t middle_ns = ty_now_ns() + 1000;
    while (ty_now_ns() <= middle_ns + 1000) {
    }
    create_named(&y, "beta", "\"team\":\"blue\"");
    int64_t c = create_named(&y, "alphabet", "");
    end_job(&y, a, JOB_STATE_SUCCEEDED);
    end_job(&y, c, JOB_STATE_FAILED);
    char time[WIRE_TIME_BYTES];
    wire_time_format(middle_ns, 9, time);

    filter(&y, "", "alphabet,beta,alpha");
    filter(&y, "display_name=\"alpha\"", "alpha");
    filter(&y, "displayName=alpha", "alpha");
    filter(&y, "display_name=\"alpha*\"", "alphabet,alpha");
    filter(&y, "display_name:\"pha\"", "alphabet,alpha");
    filter(&y, "display_name!=\"alpha\"", "alphabet,beta");
    filter(&y, "NOT display_name=\"alpha\"", "alphabet,beta");
    filter(&y, "state=\"JOB_STATE_SUCCEEDED\"", "alpha");
    filter(&y, "state!=JOB_STATE_SUCCEEDED", "alphabet,beta");
    filter(&y, "state=JOB_STATE_FAILED OR state=JOB_STATE_PENDING", "alphabet,beta");
    filter(&y, "labels.team=red", "alpha");
    filter(&y, "labels.team:*", "beta,alpha");
    filter(&y, "labels:x", "alpha");
    filter(&y, "labels.\"team\"=\"blue\" AND state=\"JOB_STATE_PENDING\"", "beta");
    filter(&y, "-labels.team:*", "alphabet");
    filter(&y, ty_format(&y.life, "name=\"%s\"", name), "alpha");
    filter(&y, ty_format(&y.life, "create_time>\"%s\"", time), "alphabet,beta");
    filter(&y, ty_format(&y.life, "createTime<=\"%s\"", time), "alpha");
    filter(&y, "create_time>\"2020-01-01T02:00:00+02:00\"", "alphabet,beta,alpha");
    filter(&y, "update_time<\"2020-01-01T00:00:00Z\"", "");
    filter(&y, "start_time:*", "alphabet,alpha");
    filter(&y, "end_time>\"2020-01-01T00:00:00Z\"", "alphabet,alpha");
    yard_close(&y);
}

static void time_filters_ignore_offset_and_precision(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    create_named(&y, "a", "");
    int64_t ns;
    char text[WIRE_TIME_BYTES];
    const char *created = reply_text(&y, "createTime");
    filter(&y, ty_format(&y.life, "create_time=\"%s\"", created), "a");
    assert_ok(wire_time_parse(ty_str_of(created), &ns));
    wire_time_format(ns + 3600 * (int64_t)1000000000, 9, text);
    text[strlen(text) - 1] = '\0'; /* without its Z */
    filter(&y, ty_format(&y.life, "create_time=\"%s+01:00\"", text), "a");
    filter(&y, ty_format(&y.life, "create_time!=\"%s+01:00\"", text), "");
    yard_close(&y);
}

static void bad_filters_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "colour=red", "state=", "(state=X", "create_time>yesterday", "word", "jobSpec.network=x",
    };
    struct yard y;
    yard_open(&y);
    create(&y, JOB_OK);
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        struct ty_buf b;
        ty_buf_init(&b, 4096);
        ty_buf_addz(&b, JOBS "?filter=");
        wire_url_encode(&b, ty_str_of(bad[i]));
        ty_err err = call(&y, HTTP_GET, b.ptr, "");
        ty_buf_clear(&b);
        if (err != TY_INVALID_ARGUMENT)
            fail_msg("%s: %s", bad[i], ty_err_name(err));
        else
            assert_violation(&y, "filter");
    }
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "?filter=colour%3Dred", ""));
    assert_non_null(strstr(ty_err_message(), "colour"));
    yard_close(&y);
}

static void filtered_page_stops_when_full(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    create_named(&y, "old", "");
    create_named(&y, "new", "");
    assert_ok(call(&y, HTTP_GET, JOBS "?pageSize=1&filter=display_name%3Dnew", ""));
    assert_string_equal(listed(&y), "new");
    const char *token = reply_text(&y, "nextPageToken"); /* "old" was seen, not looked at */
    assert_true(token[0] != '\0');
    assert_ok(call(&y, HTTP_GET,
                   ty_format(&y.life, JOBS "?filter=display_name%%3Dnew&pageToken=%s", token), ""));
    assert_string_equal(y.res.body.ptr, "{}");
    yard_close(&y);
}

static void page_of_large_jobs_is_shorter(void **state)
{
    (void)state;
    enum { LARGE = 1000000, JOBS_MADE = 6 };
    struct yard y;
    struct ty_buf b;
    yard_open(&y);
    ty_buf_init(&b, 2 * LARGE);
    ty_buf_addz(&b, "{\"displayName\":\"j\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK "],"
                    "\"pscInterfaceConfig\":\"");
    for (int i = 0; i < LARGE; i++)
        ty_buf_addc(&b, 'x');
    ty_buf_addz(&b, "\"}}");
    for (int i = 0; i < JOBS_MADE; i++)
        assert_ok(call_as(&y, HTTP_POST, JOBS, ty_buf_str(&b), ""));
    ty_buf_clear(&b);
    assert_ok(call(&y, HTTP_GET, JOBS "?pageSize=1000", ""));
    assert_string_equal(listed(&y), "j,j,j,j,j");
    const char *token = reply_text(&y, "nextPageToken");
    assert_ok(call(&y, HTTP_GET, ty_format(&y.life, JOBS "?pageToken=%s", token), ""));
    assert_string_equal(listed(&y), "j");
    yard_close(&y);
}

/* ---- cancel and delete ---- */

static void cancel_rules(void **state)
{
    (void)state;
    struct yard y;
    struct job job;
    yard_open(&y);
    int64_t id = create(&y, JOB_OK), ended = create(&y, JOB_OK);
    assert_ok(call(&y, HTTP_POST, job_path(&y, id, ":cancel"), "{}"));
    assert_string_equal(y.res.body.ptr, "{}");
    assert_int_equal(y.notified, 3);
    assert_int_equal(y.notified_id, id);
    assert_ok(store_job_get(y.store, &y.life, TY_STR("demo"), TY_STR("us-central1"), id, &job));
    assert_true(job.cancel_requested);
    assert_ok(call(&y, HTTP_POST, job_path(&y, id, ":cancel"), ""));

    end_job(&y, ended, JOB_STATE_SUCCEEDED);
    y.notified = 0;
    assert_err(TY_FAILED_PRECONDITION, call(&y, HTTP_POST, job_path(&y, ended, ":cancel"), "{}"));
    assert_err(TY_NOT_FOUND, call(&y, HTTP_POST, JOBS "/17:cancel", "{}"));
    assert_int_equal(y.notified, 0);
    yard_close(&y);
}

static void delete_answers_a_done_operation(void **state)
{
    (void)state;
    struct yard y;
    struct stat st;
    yard_open(&y);
    int64_t id = create(&y, JOB_OK);
    const char *folder = ty_format(&y.life, "%s/jobs/%" PRId64, y.dir, id);
    assert_ok(ty_mkdirs(ty_format(&y.life, "%s/1/0-0", folder), 0700));
    assert_err(TY_FAILED_PRECONDITION, call(&y, HTTP_DELETE, job_path(&y, id, ""), ""));
    assert_int_equal(stat(folder, &st), 0);

    end_job(&y, id, JOB_STATE_SUCCEEDED);
    assert_ok(call(&y, HTTP_DELETE, job_path(&y, id, ""), ""));
    json_t *op = reply(&y);
    assert_int_equal(json_object_size(op), 4); /* name, metadata, done, response: nothing more */
    assert_true(json_is_true(json_object_get(op, "done")));
    json_decref(op);
    json_t *metadata = json_object_get(op = reply(&y), "metadata");
    assert_int_equal(json_object_size(metadata), 2);
    assert_int_equal(json_object_size(json_object_get(metadata, "genericMetadata")), 2);
    json_decref(op);
    assert_string_equal(reply_text(&y, "metadata.@type"),
                        "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata");
    assert_string_equal(reply_text(&y, "response.@type"),
                        "type.googleapis.com/google.protobuf.Empty");
    assert_int_equal(stat(folder, &st), -1);
    assert_err(TY_NOT_FOUND, call(&y, HTTP_GET, job_path(&y, id, ""), ""));
    assert_err(TY_NOT_FOUND, call(&y, HTTP_DELETE, job_path(&y, id, ""), ""));
    yard_close(&y);
}

/* ---- operations ---- */

/* Delete a fresh job; the operation's full name. */
static const char *make_operation(struct yard *y)
{
    int64_t id = create(y, JOB_OK);
    end_job(y, id, JOB_STATE_SUCCEEDED);
    assert_ok(call(y, HTTP_DELETE, job_path(y, id, ""), ""));
    return reply_text(y, "name");
}

static void operation_under_any_parent(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    const char *name = make_operation(&y), *number = strrchr(name, '/') + 1;
    const char *made = ty_cstr(&y.life, ty_buf_str(&y.res.body));
    const char *paths[] = {
        ty_format(&y.life, "/v1/%s", name),
        ty_format(&y.life, "/ui/%s", name),
        ty_format(&y.life, "/v1beta1/%s", name),
        ty_format(&y.life, PARENT "/customJobs/5/operations/%s", number),
        ty_format(&y.life, PARENT "/models/m@1/operations/%s", number),
    };
    for (size_t i = 0; i < TY_COUNT(paths); i++) {
        assert_ok(call(&y, HTTP_GET, paths[i], ""));
        assert_string_equal(y.res.body.ptr, made);
        assert_ok(call(&y, HTTP_POST, ty_format(&y.life, "%s:wait?timeout=5s", paths[i]), ""));
        assert_string_equal(y.res.body.ptr, made);
        assert_ok(call(&y, HTTP_POST, ty_format(&y.life, "%s:cancel", paths[i]), "{}"));
        assert_string_equal(y.res.body.ptr, "{}");
    }
    assert_ok(call(&y, HTTP_DELETE, paths[3], ""));
    assert_string_equal(y.res.body.ptr, "{}");
    for (size_t i = 0; i < TY_COUNT(paths); i++) {
        assert_err(TY_NOT_FOUND, call(&y, HTTP_GET, paths[i], ""));
        assert_err(TY_NOT_FOUND,
                   call(&y, HTTP_POST, ty_format(&y.life, "%s:cancel", paths[i]), ""));
        assert_err(TY_NOT_FOUND, call(&y, HTTP_DELETE, paths[i], ""));
    }
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, PARENT "/operations/x", ""));
    assert_violation(&y, "operation");
    yard_close(&y);
}

static void operations_in_pages(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_ok(call(&y, HTTP_GET, PARENT "/operations", ""));
    assert_string_equal(y.res.body.ptr, "{}");
    const char *first = make_operation(&y), *second = make_operation(&y);
    assert_ok(call(&y, HTTP_GET, PARENT "/operations?pageSize=1", ""));
    assert_non_null(strstr(y.res.body.ptr, second));
    assert_null(strstr(y.res.body.ptr, first));
    const char *token = reply_text(&y, "nextPageToken");
    assert_true(token[0] != '\0');
    assert_ok(call(&y, HTTP_GET, ty_format(&y.life, PARENT "/operations?pageToken=%s", token), ""));
    assert_non_null(strstr(y.res.body.ptr, first));
    assert_string_equal(reply_text(&y, "nextPageToken"), "");
    assert_ok(call(&y, HTTP_GET, PARENT "/customJobs/5/operations?pageSize=1000", ""));
    assert_non_null(strstr(y.res.body.ptr, first));
    assert_err(TY_INVALID_ARGUMENT,
               call(&y, HTTP_GET, PARENT "/operations?filter=done%3Dtrue", ""));
    assert_violation(&y, "filter");
    yard_close(&y);
}

static const struct CMUnitTest tests[] = {
    TEST("get/unknown_job_is_404", unknown_job_is_404),
    TEST("get/failed_job_has_times_and_error", failed_job_has_times_and_error),
    TEST("get/stream_logs_gets_an_end_time", stream_logs_gets_an_end_time),
    TEST("get/read_mask_keeps_top_level_fields", read_mask_keeps_top_level_fields),
    TEST("list/pages_newest_first", pages_newest_first),
    TEST("list/bad_pages_are_refused", bad_pages_are_refused),
    TEST("list/filters", filters),
    TEST("list/time_filters_ignore_offset_and_precision", time_filters_ignore_offset_and_precision),
    TEST("list/bad_filters_are_refused", bad_filters_are_refused),
    TEST("list/filtered_page_stops_when_full", filtered_page_stops_when_full),
    TEST("list/page_of_large_jobs_is_shorter", page_of_large_jobs_is_shorter),
    TEST("cancel/rules", cancel_rules),
    TEST("delete/answers_a_done_operation", delete_answers_a_done_operation),
    TEST("operation/under_any_parent", operation_under_any_parent),
    TEST("operation/in_pages", operations_in_pages),
};
TEST_MAIN("vertex", tests)
