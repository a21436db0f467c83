/* test_ml.c -- the handlers behind their router, with a real store in a temporary folder and no
 * sockets. */
#include "base/test.h"
#include "ml/ml_int.h"

#define JOBS       "/v1/projects/demo/jobs"
#define REGION     "\"region\":\"us-central1\""
#define HOST       "\"masterConfig\":{\"imageUri\":\"host\",\"containerCommand\":[\"true\"]}"
#define INPUT(m)   "{\"jobId\":\"j1\",\"trainingInput\":{" REGION "," m "}}"
#define CUSTOM(m)  INPUT("\"scaleTier\":\"CUSTOM\"," HOST "," m)
#define PACKAGE(m) INPUT("\"packageUris\":[\"/p.tar\"],\"pythonModule\":\"trainer.task\"," m)

/* A server without its server: what handlers need, and the last reply. */
struct yard {
    struct ty_arena life, request;
    struct ty_config config;
    char dir[64];
    struct store *store;
    struct machine_host host;
    struct vertex vertex;
    struct http_router *router;
    int notified;
    struct http_response res;
};

static void count_notify(void *arg, int64_t id)
{
    (void)id;
    ((struct yard *)arg)->notified++;
}

static void yard_open(struct yard *y)
{
    const char *tmp = getenv("TMPDIR");
    *y = (struct yard){0};
    ty_config_init(&y->config, &y->life);
    y->config.disk_reserve_bytes = 0;
    y->config.container_engine = "none";
    snprintf(y->dir, sizeof y->dir, "%.40s/ml-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(y->dir));
    assert_ok(store_open(y->dir, &y->store));
    y->vertex = (struct vertex){&y->config, &y->host, y->store, count_notify, y, y->dir};
    struct http_routes tables[] = {ml_routes(&y->vertex), vertex_routes(&y->vertex)};
    assert_ok(http_router_new(tables, TY_COUNT(tables), &y->router));
    ty_buf_init(&y->res.body, 64 << 20);
}

static void yard_close(struct yard *y)
{
    http_router_free(y->router);
    store_close(y->store);
    ty_buf_clear(&y->res.body);
    ty_arena_clear(&y->request);
    ty_arena_clear(&y->life);
    assert_ok(ty_remove_tree(AT_FDCWD, y->dir));
}

/* One request; the reply is in y->res until the next one. One query parameter at most. */
static ty_err call(struct yard *y, enum http_method method, const char *target, const char *body)
{
    ty_arena_clear(&y->request);
    struct ty_buf out = y->res.body;
    out.len = 0;
    y->res = (struct http_response){.body = out};
    ty_str query = ty_str_of(target), path, name;
    struct http_request req = {
        .method = method, .body = ty_str_of(body), .user_agent = TY_STR(""), .arena = &y->request};
    struct http_param param;
    if (ty_str_split(&query, '?', &path)) {
        ty_str_split(&query, '=', &name);
        param = (struct http_param){name, query, NULL};
        req.query = &param;
    }
    req.path = path;
    http_handler handler;
    void *ctx;
    ty_err err = http_router_match(y->router, &req, &handler, &ctx);
    return err == TY_OK ? handler(&req, &y->res, ctx) : err;
}

/* A member of the reply as text: strings as they are, others as JSON. "a.b[0]" goes down. */
static const char *reply_at(struct yard *y, const char *path)
{
    json_t *value = NULL, *at;
    ty_str rest = ty_str_of(path), key;
    assert_ok(wire_json_parse(ty_buf_str(&y->res.body), &value));
    at = value;
    bool more = true;
    while (more) {
        more = ty_str_split(&rest, '.', &key);
        int64_t index;
        at = ty_parse_i64(key, &index) == TY_OK ? json_array_get(at, (size_t)index)
                                                : json_object_getn(at, key.ptr, key.len);
    }
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    if (json_is_string(at))
        ty_buf_addz(&b, json_string_value(at));
    else if (at != NULL)
        wire_json_dump(&b, at);
    const char *text = ty_cstr(&y->life, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(value);
    return text;
}

static struct job row_of(struct yard *y, const char *id)
{
    struct job job;
    assert_ok(store_ml_get(y->store, &y->life, TY_STR("demo"), ty_str_of(id), &job));
    return job;
}

static void create(struct yard *y, const char *body)
{
    assert_ok(call(y, HTTP_POST, JOBS, body));
}

/* ---- create ---- */

static void create_answers_the_job(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    create(&y, "{\"jobId\":\"j1\",\"labels\":{\"a\":\"b\"},\"trainingInput\":{" REGION "," HOST
               ",\"args\":[\"x\"],\"jobDir\":\"/tmp/out\"}}");
    assert_string_equal(reply_at(&y, "jobId"), "j1");
    assert_string_equal(reply_at(&y, "state"), "QUEUED");
    assert_string_equal(reply_at(&y, "labels.a"), "b");
    assert_string_equal(reply_at(&y, "trainingInput.jobDir"), "/tmp/out");
    assert_string_equal(reply_at(&y, "trainingInput.args"), "[\"x\"]");
    assert_int_equal(y.notified, 1);
    struct job job = row_of(&y, "j1");
    assert_true(ty_str_is(job.region, "us-central1"));
    assert_true(ty_str_is(job.display_name, "j1"));
    /* what runs has --job-dir behind the user's arguments */
    assert_ok(call(
        &y, HTTP_GET,
        ty_format(&y.life, "/v1/projects/demo/locations/us-central1/customJobs/%" PRId64, job.id),
        ""));
    assert_string_equal(reply_at(&y, "jobSpec.workerPoolSpecs.0.containerSpec.args"),
                        "[\"x\",\"--job-dir\",\"/tmp/out\"]");
    yard_close(&y);
}

static void an_id_is_used_once(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    create(&y, INPUT(HOST));
    assert_err(TY_ALREADY_EXISTS, call(&y, HTTP_POST, JOBS, INPUT(HOST)));
    assert_non_null(strstr(ty_err_message(), "j1"));
    assert_ok(call(&y, HTTP_POST, "/v1/projects/other/jobs", INPUT(HOST)));
    assert_int_equal(y.notified, 2);
    yard_close(&y);
}

static void tiers_are_pools(void **state)
{
    (void)state;
    static const struct {
        const char *tier;
        int replicas;
    } cases[] = {
        {"BASIC", 1}, {"STANDARD_1", 8}, {"PREMIUM_1", 31}, {"BASIC_GPU", 1}, {"BASIC_TPU", 1}};
    struct yard y;
    yard_open(&y);
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        create(&y, ty_format(&y.life,
                             "{\"jobId\":\"t%zu\",\"trainingInput\":{\"scaleTier\":\"%s\"," REGION
                             "," HOST "}}",
                             i, cases[i].tier));
        assert_int_equal(row_of(&y, ty_format(&y.life, "t%zu", i)).replicas, cases[i].replicas);
    }
    create(&y, CUSTOM("\"masterType\":\"complex_model_m\",\"workerType\":\"cloud_tpu\","
                      "\"workerCount\":1,\"evaluatorType\":\"n1-standard-4\","
                      "\"evaluatorCount\":\"1\""));
    assert_int_equal(row_of(&y, "j1").replicas,
                     2); /* a TPU is no replica; pool 3 keeps its place */
    assert_true(memmem(row_of(&y, "j1").body.ptr, row_of(&y, "j1").body.len, ",{},{},{", 8) !=
                NULL);
    yard_close(&y);
}

static void mistakes_name_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field;
    } cases[] = {
        {"{\"trainingInput\":{" REGION "," HOST "}}", "jobId"},
        {"{\"jobId\":\"1x\",\"trainingInput\":{" REGION "," HOST "}}", "jobId"},
        {"{\"jobId\":\"a-b\",\"trainingInput\":{" REGION "," HOST "}}", "jobId"},
        {"{\"jobId\":\"customjob_17\",\"trainingInput\":{" REGION "," HOST "}}", "jobId"},
        {"{\"jobId\":\"j1\"}", "trainingInput"},
        {"{\"jobId\":\"j1\",\"predictionInput\":{}}", "predictionInput"},
        {"{\"jobId\":\"j1\",\"trainingInput\":{" HOST "}}", "trainingInput.region"},
        {"{\"jobId\":\"j1\",\"trainingInput\":{\"region\":\"US West\"," HOST "}}",
         "trainingInput.region"},
        {"{\"jobId\":\"j1\",\"labels\":{\"A\":\"b\"},\"trainingInput\":{" REGION "," HOST "}}",
         "labels.A"},
        {INPUT(HOST ",\"scaleTier\":\"HUGE\""), "trainingInput.scaleTier"},
        {INPUT(HOST ",\"scaleTier\":1"), "trainingInput.scaleTier"},
        {INPUT(HOST ",\"bogus\":1"), "trainingInput.bogus"},
        {INPUT(HOST ",\"masterType\":\"n1-standard-4\""), "trainingInput.masterType"},
        {INPUT(HOST ",\"workerCount\":2"), "trainingInput.workerCount"},
        {INPUT(HOST ",\"hyperparameters\":{}"), "trainingInput.hyperparameters"},
        {INPUT(HOST ",\"runtimeVersion\":\"2.1\""), "trainingInput.runtimeVersion"},
        {INPUT(HOST ",\"pythonVersion\":\"2.7\""), "trainingInput.pythonVersion"},
        {INPUT(HOST ",\"jobDir\":\"out\""), "trainingInput.jobDir"},
        {INPUT(HOST ",\"jobDir\":\"gs://not-here/x\""), "trainingInput.jobDir"},
        {INPUT(HOST ",\"scheduling\":{\"maxRunningTime\":\"0s\"}"),
         "trainingInput.scheduling.maxRunningTime"},
        {INPUT("\"masterConfig\":{\"imageUri\":\"host\"}"),
         "trainingInput.masterConfig.containerCommand"},
        {INPUT("\"masterConfig\":{\"imageUri\":\"gcr.io/p/x\"}"),
         "trainingInput.masterConfig.imageUri"},
        {INPUT(
             "\"args\":[\"x\"],\"masterConfig\":{\"imageUri\":\"host\",\"containerArgs\":[\"y\"]}"),
         "trainingInput.masterConfig.containerArgs"},
        {CUSTOM("\"workerCount\":0"), "trainingInput.masterType"},
        {CUSTOM("\"masterType\":\"n1-standard-3\""), "trainingInput.masterType"},
        {CUSTOM("\"masterType\":\"n1-standard-4\",\"workerCount\":2"), "trainingInput.workerType"},
        {CUSTOM("\"masterType\":\"n1-standard-4\",\"workerCount\":-1"),
         "trainingInput.workerCount"},
        {CUSTOM("\"masterType\":\"n1-standard-4\",\"workerCount\":\"x\""),
         "trainingInput.workerCount"},
        {CUSTOM("\"masterType\":\"n1-standard-4\",\"workerType\":\"n1-standard-4\","
                "\"workerCount\":\"1000\""),
         "trainingInput.workerCount"},
        {CUSTOM("\"masterType\":\"n1-standard-4\",\"parameterServerCount\":1"),
         "trainingInput.parameterServerType"},
        {CUSTOM("\"masterType\":\"n1-standard-4\",\"parameterServerCount\":1,"
                "\"parameterServerType\":\"n9-huge\""),
         "trainingInput.parameterServerType"},
        {CUSTOM("\"masterType\":\"n1-standard-4\",\"workerConfig\":{\"acceleratorConfig\":"
                "{\"type\":\"NVIDIA_TESLA_T4\"}}"),
         "trainingInput.workerConfig.acceleratorConfig.count"},
        {CUSTOM("\"masterType\":\"n1-standard-4\",\"workerConfig\":{\"acceleratorConfig\":"
                "{\"count\":\"1\"}}"),
         "trainingInput.workerConfig.acceleratorConfig.type"},
        {INPUT("\"pythonModule\":\"trainer.task\",\"runtimeVersion\":\"2.1\""),
         "trainingInput.packageUris"},
        {INPUT("\"packageUris\":[\"/p.tar\"],\"runtimeVersion\":\"2.1\""),
         "trainingInput.pythonModule"},
        {PACKAGE("\"args\":[]"), "trainingInput.runtimeVersion"},
        {PACKAGE("\"runtimeVersion\":\"2\""), "trainingInput.runtimeVersion"},
        {PACKAGE("\"runtimeVersion\":\"3.1\""), "trainingInput.runtimeVersion"},
        {PACKAGE("\"runtimeVersion\":\"2.15\""), "trainingInput.packageUris[0]"},
        {PACKAGE("\"masterConfig\":{\"imageUri\":\"tf-cpu.2-15\"}"),
         "trainingInput.masterConfig.imageUri"}, /* there is no such Python */
        {PACKAGE("\"masterConfig\":{\"imageUri\":\"gcr.io/p/x\"}"), "trainingInput.packageUris"},
        {PACKAGE("\"runtimeVersion\":\"2.15\",\"workerConfig\":{\"imageUri\":\"x\"}"),
         "trainingInput.workerConfig.imageUri"},
    };
    struct yard y;
    yard_open(&y);
    y.config.python = "no-such-python";
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        ty_err err = call(&y, HTTP_POST, JOBS, cases[i].body);
        const char *want = ty_format(&y.life, "\"field\":\"%s\"", cases[i].field);
        ty_str have = y.res.error_details;
        if (err != TY_INVALID_ARGUMENT || !memmem(have.ptr, have.len, want, strlen(want)))
            fail_msg("%s: no violation of '%s': %s", cases[i].body, cases[i].field,
                     err ? ty_err_message() : "it was accepted");
    }
    assert_int_equal(y.notified, 0);
    yard_close(&y);
}

static void a_mistake_of_all_roles_is_said_once(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_err(TY_INVALID_ARGUMENT,
               call(&y, HTTP_POST, JOBS,
                    PACKAGE("\"runtimeVersion\":\"2.15\",\"scaleTier\":\"STANDARD_1\"")));
    const char *details = ty_cstr(&y.life, y.res.error_details);
    const char *first = strstr(details, "packageUris[0]");
    assert_non_null(first);
    assert_null(strstr(first + 1, "\"trainingInput.packageUris[0]\""));
    yard_close(&y);
}

/* ---- the other calls ---- */

static void states_have_their_names(void **state)
{
    (void)state;
    struct job job = {.state = JOB_STATE_PENDING};
    assert_string_equal(ml_state_name(&job), "QUEUED");
    job.attempt = 1;
    assert_string_equal(ml_state_name(&job), "PREPARING");
    job.state = JOB_STATE_QUEUED;
    assert_string_equal(ml_state_name(&job), "QUEUED");
    job.state = JOB_STATE_CANCELLING;
    assert_string_equal(ml_state_name(&job), "CANCELLING");
}

static void a_custom_job_has_a_view(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_ok(call(&y, HTTP_POST, "/v1/projects/demo/locations/europe-west4/customJobs",
                   "{\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[{\"machineSpec\":"
                   "{\"machineType\":\"n1-highmem-2\",\"acceleratorType\":\"NVIDIA_TESLA_T4\","
                   "\"acceleratorCount\":1},\"containerSpec\":{\"imageUri\":\"host\",\"command\":"
                   "[\"a\"],\"args\":[\"b\"]}},{},{\"replicaCount\":3,\"containerSpec\":"
                   "{\"imageUri\":\"host\",\"command\":[\"c\"]}}]}}"));
    const char *number = strrchr(reply_at(&y, "name"), '/') + 1;
    const char *path = ty_format(&y.life, JOBS "/customjob_%s", number);
    assert_ok(call(&y, HTTP_GET, path, ""));
    assert_string_equal(reply_at(&y, "jobId"), ty_format(&y.life, "customjob_%s", number));
    assert_string_equal(reply_at(&y, "trainingInput.scaleTier"), "CUSTOM");
    assert_string_equal(reply_at(&y, "trainingInput.region"), "europe-west4");
    assert_string_equal(reply_at(&y, "trainingInput.masterType"), "n1-highmem-2");
    assert_string_equal(reply_at(&y, "trainingInput.masterConfig.acceleratorConfig.count"), "1");
    assert_string_equal(reply_at(&y, "trainingInput.masterConfig.containerCommand"), "[\"a\"]");
    assert_string_equal(reply_at(&y, "trainingInput.parameterServerCount"), "3");
    assert_string_equal(reply_at(&y, "trainingInput.workerType"), "");
    assert_ok(call(&y, HTTP_POST, ty_format(&y.life, "%s:cancel", path), "{}"));
    /* the number alone is no id of this API, nor is one with a sign before it */
    assert_err(TY_NOT_FOUND, call(&y, HTTP_GET, ty_format(&y.life, JOBS "/%s", number), ""));
    yard_close(&y);
}

static void lists_filter_and_page(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_ok(call(&y, HTTP_GET, JOBS, ""));
    assert_string_equal(ty_buf_str(&y.res.body).ptr, "{}");
    for (int i = 0; i < 3; i++)
        create(&y, ty_format(&y.life,
                             "{\"jobId\":\"n%d\",\"trainingInput\":{\"region\":\"r%d\"," HOST "}}",
                             i, i));
    assert_ok(call(&y, HTTP_GET, JOBS, ""));
    assert_string_equal(reply_at(&y, "jobs.0.jobId"), "n2"); /* of all regions, newest first */
    assert_string_equal(reply_at(&y, "jobs.2.jobId"), "n0");
    assert_ok(call(&y, HTTP_GET, JOBS "?pageSize=2", ""));
    assert_string_equal(reply_at(&y, "jobs.2"), "");
    const char *token = reply_at(&y, "nextPageToken");
    assert_ok(call(&y, HTTP_GET, ty_format(&y.life, JOBS "?pageToken=%s", token), ""));
    assert_string_equal(reply_at(&y, "jobs.0.jobId"), "n0");
    assert_string_equal(reply_at(&y, "jobs.1"), "");
    assert_ok(call(&y, HTTP_GET, JOBS "?filter=jobId=n1 AND state=QUEUED", ""));
    assert_string_equal(reply_at(&y, "jobs.0.jobId"), "n1");
    assert_string_equal(reply_at(&y, "jobs.1"), "");
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "?filter=state=JOB_STATE_RUNNING", ""));
    assert_non_null(strstr(ty_err_message(), "like RUNNING"));
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, JOBS "?filter=displayName=x", ""));
    yard_close(&y);
}

static void labels_are_patched(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    create(&y, INPUT(HOST));
    const char *etag = reply_at(&y, "etag");
    const char *body = ty_format(&y.life, "{\"etag\":\"%s\",\"labels\":{\"team\":\"a\"}}", etag);
    assert_ok(call(&y, HTTP_PATCH, JOBS "/j1?updateMask=labels", body));
    assert_string_equal(reply_at(&y, "labels.team"), "a");
    assert_err(TY_ABORTED, call(&y, HTTP_PATCH, JOBS "/j1?updateMask=labels", body));
    assert_ok(call(&y, HTTP_PATCH, JOBS "/j1?updateMask=labels", "{\"labels\":{}}"));
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_PATCH, JOBS "/j1?updateMask=state", "{}"));
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_PATCH, JOBS "/j1", "{}"));
    assert_err(TY_INVALID_ARGUMENT,
               call(&y, HTTP_PATCH, JOBS "/j1?updateMask=labels", "{\"labels\":{\"A\":\"b\"}}"));
    assert_err(TY_NOT_FOUND, call(&y, HTTP_PATCH, JOBS "/j2?updateMask=labels", "{}"));
    /* the custom job has the same labels */
    assert_ok(call(&y, HTTP_PATCH, JOBS "/j1?updateMask=labels", "{\"labels\":{\"x\":\"y\"}}"));
    assert_ok(call(&y, HTTP_GET, "/v1/projects/demo/locations/us-central1/customJobs", ""));
    assert_string_equal(reply_at(&y, "customJobs.0.labels.x"), "y");
    yard_close(&y);
}

static void ends_are_told_in_its_words(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    create(&y, INPUT(HOST));
    assert_ok(call(&y, HTTP_POST, JOBS "/j1:cancel", "{}"));
    assert_int_equal(y.notified, 2);
    struct job job = row_of(&y, "j1");
    struct store_change changes[] = {
        {.job_id = job.id, .state = JOB_STATE_RUNNING},
        {.job_id = job.id,
         .state = JOB_STATE_FAILED,
         .error_code = TY_INVALID_ARGUMENT,
         .error_message = "The replica workerpool2-11 exited with a non-zero status of 1."}};
    assert_ok(store_apply(y.store, changes, TY_COUNT(changes)));
    assert_ok(call(&y, HTTP_GET, JOBS "/j1", ""));
    assert_string_equal(reply_at(&y, "state"), "FAILED");
    assert_string_equal(reply_at(&y, "errorMessage"),
                        "The replica ps 11 exited with a non-zero status of 1.");
    assert_err(TY_FAILED_PRECONDITION, call(&y, HTTP_POST, JOBS "/j1:cancel", "{}"));
    assert_non_null(strstr(ty_err_message(), "with FAILED"));
    yard_close(&y);
}

static void small_routes_answer(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_ok(call(&y, HTTP_GET, "/v1/projects/demo:getConfig", ""));
    assert_int_equal(strlen(reply_at(&y, "serviceAccountProject")), 12);
    assert_ok(call(&y, HTTP_GET, "/v1/projects/demo/operations", ""));
    assert_err(TY_NOT_FOUND, call(&y, HTTP_GET, "/v1/projects/demo/operations/x", ""));
    assert_err(TY_NOT_FOUND, call(&y, HTTP_POST, "/v1/projects/demo/operations/x:cancel", "{}"));
    assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, "/v1/projects/De%20mo/jobs", ""));
    yard_close(&y);
}

static const struct CMUnitTest tests[] = {
    TEST("create/answers_the_job", create_answers_the_job),
    TEST("create/an_id_is_used_once", an_id_is_used_once),
    TEST("create/tiers_are_pools", tiers_are_pools),
    TEST("create/mistakes_name_the_field", mistakes_name_the_field),
    TEST("create/a_mistake_of_all_roles_is_said_once", a_mistake_of_all_roles_is_said_once),
    TEST("view/states_have_their_names", states_have_their_names),
    TEST("view/a_custom_job_has_one", a_custom_job_has_a_view),
    TEST("view/ends_are_told_in_its_words", ends_are_told_in_its_words),
    TEST("list/filters_and_pages", lists_filter_and_page),
    TEST("patch/labels", labels_are_patched),
    TEST("other/small_routes_answer", small_routes_answer),
};
TEST_MAIN("ml", tests)
