/* test_vertex.c -- the handlers, called through the router with a real store in a temporary folder.
 */
#include "base/test.h"
#include "vertex/vertex_int.h"

#define PARENT   "/v1/projects/demo/locations/us-central1"
#define JOBS     PARENT "/customJobs"
#define TASK     "\"containerSpec\":{\"imageUri\":\"host\",\"command\":[\"true\"]}"
#define POOL_OK  "{" TASK "}"
#define SPEC(s)  "{\"displayName\":\"t\",\"jobSpec\":{" s "}}"
#define POOLS(p) SPEC("\"workerPoolSpecs\":[" p "]")
#define WITH(m)  SPEC("\"workerPoolSpecs\":[" POOL_OK "]," m)
#define TOP(m)   "{\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK "]}," m "}"
#define HOST(m)  POOLS("{\"containerSpec\":{\"imageUri\":\"host\"," m "}}")
#define JOB_OK   POOLS(POOL_OK)
#define PYTHON(image, package, module)                                                             \
    POOLS("{\"pythonPackageSpec\":{\"executorImageUri\":\"" image "\",\"packageUris\":[\"" package \
          "\"],\"pythonModule\":\"" module "\"}}")
#define PACKAGE_SPEC "jobSpec.workerPoolSpecs[0].pythonPackageSpec."

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
    int64_t notified_id;
    struct http_response res;
};

static void count_notify(void *arg, int64_t id)
{
    struct yard *y = arg;
    y->notified++;
    y->notified_id = id;
}

static void yard_open(struct yard *y)
{
    const char *tmp = getenv("TMPDIR");
    *y = (struct yard){0};
    ty_config_init(&y->config, &y->life);
    y->config.disk_reserve_bytes = 0;
    y->config.container_engine = "none";
    snprintf(y->dir, sizeof y->dir, "%.40s/vertex-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(y->dir));
    assert_ok(store_open(y->dir, &y->store));
    y->vertex = (struct vertex){&y->config, &y->host, y->store, count_notify, y, y->dir};
    struct http_routes table = vertex_routes(&y->vertex);
    assert_ok(http_router_new(&table, 1, &y->router));
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

static struct http_param *query_parse(struct ty_arena *a, ty_str text)
{
    struct http_param *first = NULL, **tail = &first;
    ty_str pair, name, value;
    while (text.len > 0) {
        ty_str_split(&text, '&', &pair);
        ty_str_split(&pair, '=', &name);
        struct http_param *p = ty_new(a, struct http_param);
        assert_ok(wire_url_decode(a, pair, true, &value));
        *p = (struct http_param){name, value, NULL};
        *tail = p;
        tail = &p->next;
    }
    return first;
}

/* One request; the reply is in y->res until the next one. */
static ty_err call_as(struct yard *y, enum http_method method, const char *target, ty_str body,
                      const char *agent)
{
    ty_arena_clear(&y->request);
    struct ty_buf out = y->res.body;
    out.len = 0;
    y->res = (struct http_response){.body = out};
    ty_str query = ty_str_of(target), path;
    ty_str_split(&query, '?', &path);
    struct http_request req = {.method = method,
                               .path = path,
                               .body = body,
                               .user_agent = ty_str_of(agent),
                               .arena = &y->request};
    req.query = query_parse(&y->request, query);
    http_handler handler;
    void *ctx;
    ty_err err = http_router_match(y->router, &req, &handler, &ctx);
    return err == TY_OK ? handler(&req, &y->res, ctx) : err;
}

static ty_err call(struct yard *y, enum http_method method, const char *target, const char *body)
{
    return call_as(y, method, target, ty_str_of(body), "");
}

static json_t *reply(struct yard *y)
{
    json_t *value = NULL;
    assert_ok(wire_json_parse(ty_buf_str(&y->res.body), &value));
    return value;
}

/* A text member of the reply, copied. "a.b" goes one down. */
static const char *reply_text(struct yard *y, const char *path)
{
    json_t *value = reply(y), *at = value;
    ty_str rest = ty_str_of(path), key;
    bool more;
    do {
        more = ty_str_split(&rest, '.', &key);
        at = json_object_get(at, ty_cstr(&y->life, key));
    } while (more);
    const char *text = ty_cstr(&y->life, ty_str_of(json_string_value(at)));
    json_decref(value);
    return text;
}

static void assert_violation(struct yard *y, const char *field)
{
    const char *want = ty_format(&y->life, "\"field\":\"%s\"", field);
    ty_str have = y->res.error_details;
    if (have.len == 0 || memmem(have.ptr, have.len, want, strlen(want)) == NULL)
        fail_msg("no violation of '%s': %s; details " TY_STR_FMT, field, ty_err_message(),
                 TY_STR_ARG(have));
}

/* Create a job and return its id. */
static int64_t create(struct yard *y, const char *body)
{
    int64_t id;
    assert_ok(call(y, HTTP_POST, JOBS, body));
    const char *name = reply_text(y, "name");
    assert_ok(ty_parse_i64(ty_str_of(strrchr(name, '/') + 1), &id));
    return id;
}

static void end_job(struct yard *y, int64_t id, enum job_state state)
{
    struct store_change c = {.job_id = id, .state = JOB_STATE_RUNNING, .start_ns = ty_now_ns()};
    assert_ok(store_apply(y->store, &c, 1));
    c = (struct store_change){.job_id = id, .state = state, .end_ns = ty_now_ns()};
    if (state == JOB_STATE_FAILED) {
        c.error_code = TY_INVALID_ARGUMENT;
        c.error_message = "The replica workerpool0-0 exited with a non-zero status of 1.\n\"last\"";
    }
    assert_ok(store_apply(y->store, &c, 1));
}

static const char *job_path(struct yard *y, int64_t id, const char *verb)
{
    return ty_format(&y->life, JOBS "/%" PRId64 "%s", id, verb);
}

/* ---- create ---- */

static const struct {
    const char *body, *field;
} malformed[] = {
    /* shape */
    {"[]", ""},
    {"\"job\"", ""},
    {"{}", "displayName"},
    {"{\"displayName\":\"t\"}", "jobSpec"},
    {"{\"displayName\":\"t\",\"jobSpec\":null}", "jobSpec"},
    {"{\"displayName\":\"t\",\"jobSpec\":[]}", "jobSpec"},
    {"{\"displayName\":\"t\",\"jobSpec\":{}}", "jobSpec.workerPoolSpecs"},
    {"{\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK "]}}", "displayName"},
    {"{\"displayName\":\"\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK "]}}", "displayName"},
    {"{\"displayName\":7,\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK "]}}", "displayName"},
    {"{\"displayName\":\"a\",\"display_name\":\"b\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK
     "]}}",
     "displayName"},
    {TOP("\"bogus\":3"), "bogus"},
    {WITH("\"bogus\":3"), "jobSpec.bogus"},
    {WITH("\"workerPoolSpec\":{}"), "jobSpec.workerPoolSpec"},
    {POOLS("{\"bogus\":1," TASK "}"), "jobSpec.workerPoolSpecs[0].bogus"},
    {HOST("\"command\":[\"true\"],\"entrypoint\":[]"),
     "jobSpec.workerPoolSpecs[0].containerSpec.entrypoint"},
    {SPEC("\"workerPoolSpecs\":{}"), "jobSpec.workerPoolSpecs"},
    {SPEC("\"workerPoolSpecs\":[]"), "jobSpec.workerPoolSpecs"},
    {SPEC("\"workerPoolSpecs\":[null]"), "jobSpec.workerPoolSpecs[0]"},
    {SPEC("\"workerPoolSpecs\":[3]"), "jobSpec.workerPoolSpecs[0]"},
    {POOLS(POOL_OK "," POOL_OK "," POOL_OK "," POOL_OK "," POOL_OK), "jobSpec.workerPoolSpecs"},
    /* labels */
    {TOP("\"labels\":[]"), "labels"},
    {TOP("\"labels\":{\"a\":1}"), "labels.a"},
    {TOP("\"labels\":{\"Team\":\"a\"}"), "labels.Team"},
    {TOP("\"labels\":{\"team\":\"A b\"}"), "labels.team"},
    {TOP("\"labels\":{\"team\":\"a.b\"}"), "labels.team"},
    {TOP("\"labels\":{\"team\":\"a\\u00a0b\"}"), "labels.team"},
    {TOP("\"labels\":{\"team\":\"a\\u2003b\"}"), "labels.team"},
    {TOP("\"labels\":{\"team\":\"a\\u3000b\"}"), "labels.team"},
    {TOP("\"labels\":{\"\":\"a\"}"), "labels."},
    {TOP("\"labels\":{\"a123456789b123456789c123456789d123456789e123456789f123456789g123\":\"\"}"),
     "labels.a123456789b123456789c123456789d123456789e123456789f123456789g123"},
    {TOP("\"labels\":{\"a\":\"a123456789b123456789c123456789d123456789e123456789f123456789g123\"}"),
     "labels.a"},
    /* pools */
    {POOLS("{}"), "jobSpec.workerPoolSpecs[0]"},
    {POOLS("{}," POOL_OK), "jobSpec.workerPoolSpecs[0]"},
    {POOLS("{\"replicaCount\":0," TASK "}"), "jobSpec.workerPoolSpecs[0].replicaCount"},
    {POOLS("{\"replicaCount\":2," TASK "}"), "jobSpec.workerPoolSpecs[0].replicaCount"},
    {POOLS("{\"replicaCount\":-1," TASK "}"), "jobSpec.workerPoolSpecs[0].replicaCount"},
    {POOLS("{\"replicaCount\":\"-1\"," TASK "}"), "jobSpec.workerPoolSpecs[0].replicaCount"},
    {POOLS("{\"replicaCount\":1.5," TASK "}"), "jobSpec.workerPoolSpecs[0].replicaCount"},
    {POOLS("{\"replicaCount\":\"one\"," TASK "}"), "jobSpec.workerPoolSpecs[0].replicaCount"},
    {POOLS("{\"replicaCount\":true," TASK "}"), "jobSpec.workerPoolSpecs[0].replicaCount"},
    {POOLS("{\"replicaCount\":99999999999999999999," TASK "}"), NULL},
    {POOLS("{\"replicaCount\":\"99999999999999999999\"," TASK "}"),
     "jobSpec.workerPoolSpecs[0].replicaCount"},
    {POOLS(POOL_OK ",{\"replicaCount\":0," TASK "}"), "jobSpec.workerPoolSpecs[1].replicaCount"},
    {POOLS(POOL_OK ",{\"replicaCount\":64," TASK "}"), "jobSpec.workerPoolSpecs[1].replicaCount"},
    {POOLS(POOL_OK ",{\"replicaCount\":60," TASK "},{\"replicaCount\":4," TASK "}"),
     "jobSpec.workerPoolSpecs[2].replicaCount"},
    {POOLS(POOL_OK ",{\"replicaCount\":\"9223372036854775807\"," TASK
                   "},{\"replicaCount\":\"9223372036854775807\"," TASK "}"),
     "jobSpec.workerPoolSpecs[1].replicaCount"},
    {POOLS("{\"machineSpec\":{\"machineType\":\"n1-standard-4\"}}"),
     "jobSpec.workerPoolSpecs[0].containerSpec"},
    {POOLS("{\"machineSpec\":{\"machineType\":4}," TASK "}"),
     "jobSpec.workerPoolSpecs[0].machineSpec.machineType"},
    {POOLS("{\"machineSpec\":{\"acceleratorType\":\"ABACUS\"}," TASK "}"),
     "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorType"},
    {POOLS("{\"machineSpec\":{\"acceleratorType\":999}," TASK "}"),
     "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorType"},
    {POOLS("{\"machineSpec\":{\"acceleratorCount\":-4}," TASK "}"),
     "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorCount"},
    {POOLS("{\"diskSpec\":{\"bootDiskSizeGb\":4294967296}," TASK "}"),
     "jobSpec.workerPoolSpecs[0].diskSpec.bootDiskSizeGb"},
    {POOLS("{\"nfsMounts\":[{\"server\":\"s\"}]," TASK "}"),
     "jobSpec.workerPoolSpecs[0].nfsMounts[0].path"},
    /* what is run */
    {POOLS("{\"containerSpec\":{\"command\":[\"true\"]}}"),
     "jobSpec.workerPoolSpecs[0].containerSpec.imageUri"},
    {POOLS("{\"containerSpec\":{\"imageUri\":\"gcr.io/p/i:1\",\"command\":[\"true\"]}}"),
     "jobSpec.workerPoolSpecs[0].containerSpec.imageUri"},
    {POOLS("{\"containerSpec\":{\"imageUri\":\"host\"}}"),
     "jobSpec.workerPoolSpecs[0].containerSpec.command"},
    {HOST("\"command\":[],\"args\":[]"), "jobSpec.workerPoolSpecs[0].containerSpec.command"},
    {HOST("\"command\":[\"\"]"), "jobSpec.workerPoolSpecs[0].containerSpec.command[0]"},
    {HOST("\"args\":[\"\"]"), "jobSpec.workerPoolSpecs[0].containerSpec.args[0]"},
    {HOST("\"command\":\"true\""), "jobSpec.workerPoolSpecs[0].containerSpec.command"},
    {HOST("\"command\":[\"true\",1]"), "jobSpec.workerPoolSpecs[0].containerSpec.command[1]"},
    {HOST("\"command\":[\"true\"],\"args\":[null]"),
     "jobSpec.workerPoolSpecs[0].containerSpec.args[0]"},
    {HOST("\"command\":[\"true\"],\"env\":[{\"value\":\"1\"}]"),
     "jobSpec.workerPoolSpecs[0].containerSpec.env[0].name"},
    {HOST("\"command\":[\"true\"],\"env\":[{\"name\":\"1A\",\"value\":\"1\"}]"),
     "jobSpec.workerPoolSpecs[0].containerSpec.env[0].name"},
    {HOST("\"command\":[\"true\"],\"env\":[{\"name\":\"A=B\",\"value\":\"1\"}]"),
     "jobSpec.workerPoolSpecs[0].containerSpec.env[0].name"},
    {HOST("\"command\":[\"true\"],\"env\":[{\"name\":\"A\"},{\"name\":\"B\"},{\"name\":\"A\"}]"),
     "jobSpec.workerPoolSpecs[0].containerSpec.env[2].name"},
    {HOST("\"command\":[\"true\"],\"env\":{\"A\":\"1\"}"),
     "jobSpec.workerPoolSpecs[0].containerSpec.env"},
    {PYTHON("i", "/dev/null/x", "t"), PACKAGE_SPEC "executorImageUri"},
    {PYTHON("tf-cpu", "/dev/null/x", "t"), PACKAGE_SPEC "executorImageUri"},
    {PYTHON("host", "gs://b/p.tar.gz", "t"), PACKAGE_SPEC "packageUris[0]"},
    {PYTHON("host", "p.tar.gz", "t"), PACKAGE_SPEC "packageUris[0]"},
    {PYTHON("host", "file://p.tar.gz", "t"), PACKAGE_SPEC "packageUris[0]"},
    {PYTHON("host", "/no/such/p.tar.gz", "t"), PACKAGE_SPEC "packageUris[0]"},
    {PYTHON("host", "/tmp", "t"), PACKAGE_SPEC "packageUris[0]"},
    {PYTHON("host", "/proc/self/exe", "a-b"), PACKAGE_SPEC "pythonModule"},
    {PYTHON("host", "/proc/self/exe", "-c"), PACKAGE_SPEC "pythonModule"},
    {POOLS("{\"pythonPackageSpec\":{\"executorImageUri\":\"host\",\"pythonModule\":\"t\"}}"),
     PACKAGE_SPEC "packageUris"},
    {POOLS("{" TASK ",\"pythonPackageSpec\":{\"executorImageUri\":\"i\",\"packageUris\":[\"p\"],"
           "\"pythonModule\":\"t\"}}"),
     "jobSpec.workerPoolSpecs[0].pythonPackageSpec"},
    /* scheduling and output */
    {WITH("\"scheduling\":{\"timeout\":\"0s\"}"), "jobSpec.scheduling.timeout"},
    {WITH("\"scheduling\":{\"timeout\":\"-5s\"}"), "jobSpec.scheduling.timeout"},
    {WITH("\"scheduling\":{\"timeout\":\"1h\"}"), "jobSpec.scheduling.timeout"},
    {WITH("\"scheduling\":{\"timeout\":3600}"), "jobSpec.scheduling.timeout"},
    {WITH("\"scheduling\":{\"maxWaitDuration\":\"x\"}"), "jobSpec.scheduling.maxWaitDuration"},
    {WITH("\"scheduling\":{\"strategy\":\"CHEAP\"}"), "jobSpec.scheduling.strategy"},
    {WITH("\"scheduling\":{\"disableRetries\":\"yes\"}"), "jobSpec.scheduling.disableRetries"},
    {WITH("\"baseOutputDirectory\":{}"), "jobSpec.baseOutputDirectory.outputUriPrefix"},
    {WITH("\"baseOutputDirectory\":{\"outputUriPrefix\":\"gs://b/o\"}"),
     "jobSpec.baseOutputDirectory.outputUriPrefix"},
    {WITH("\"baseOutputDirectory\":{\"outputUriPrefix\":\"out\"}"),
     "jobSpec.baseOutputDirectory.outputUriPrefix"},
    {WITH("\"baseOutputDirectory\":{\"outputUriPrefix\":\"/a/../../etc\"}"),
     "jobSpec.baseOutputDirectory.outputUriPrefix"},
    {WITH("\"baseOutputDirectory\":{\"outputUriPrefix\":\"/a/..\"}"),
     "jobSpec.baseOutputDirectory.outputUriPrefix"},
    {WITH("\"baseOutputDirectory\":{\"outputUriPrefix\":\"file://../x\"}"),
     "jobSpec.baseOutputDirectory.outputUriPrefix"},
    {WITH("\"baseOutputDirectory\":{\"outputUriPrefix\":\"s3://b\"}"),
     "jobSpec.baseOutputDirectory.outputUriPrefix"},
    {TOP("\"encryptionSpec\":{}"), "encryptionSpec.kmsKeyName"},
    {WITH("\"enableWebAccess\":1"), "jobSpec.enableWebAccess"},
    {WITH("\"reservedIpRanges\":\"r\""), "jobSpec.reservedIpRanges"},
    /* not JSON at all: no field to name */
    {"", NULL},
    {"{", NULL},
    {"{} {}", NULL},
    {"{\"displayName\":\"a\",\"displayName\":\"b\"}", NULL},
    {TOP("\"labels\":{\"a\":\"\\u0000\"}"), NULL},
    {"{\"displayName\":\"\xff\"}", NULL},
    {"{\"displayName\":\"\xed\xa0\x80\"}", NULL},
};

static void malformed_is_refused_by_field(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    for (size_t i = 0; i < TY_COUNT(malformed); i++) {
        ty_err err = call(&y, HTTP_POST, JOBS, malformed[i].body);
        if (err != TY_INVALID_ARGUMENT)
            fail_msg("%s: %s", malformed[i].body, ty_err_name(err));
        if (malformed[i].field != NULL)
            assert_violation(&y, malformed[i].field);
        assert_true(ty_err_message()[0] != '\0');
    }
    assert_ok(call(&y, HTTP_GET, JOBS, ""));
    assert_string_equal(y.res.body.ptr, "{}");
    assert_int_equal(y.notified, 0);
    yard_close(&y);
}

/* before + `count` times `unit` + after, refused for `field`. */
static void refuse_long(struct yard *y, const char *before, const char *unit, size_t count,
                        const char *after, const char *field)
{
    struct ty_buf b;
    ty_buf_init(&b, 64 << 20);
    ty_buf_addz(&b, before);
    for (size_t i = 0; i < count; i++)
        ty_buf_addz(&b, unit);
    ty_buf_addz(&b, after);
    ty_err err = call_as(y, HTTP_POST, JOBS, ty_buf_str(&b), "");
    ty_buf_clear(&b);
    assert_err(TY_INVALID_ARGUMENT, err);
    if (field != NULL)
        assert_violation(y, field);
    assert_true(y->res.error_details.len < 64 * 1024); /* the answer does not carry it back */
}

static void long_and_deep_is_refused(void **state)
{
    (void)state;
    enum { KILOS_OF_10_MB = 10000 };
    char kilo[1001];
    memset(kilo, 'x', 1000);
    kilo[1000] = '\0';
    const char *rest = "\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK "]}}";
    struct yard y;
    yard_open(&y);
    refuse_long(&y, "{\"displayName\":\"", kilo, KILOS_OF_10_MB, rest, "displayName");
    refuse_long(&y, "{\"displayName\":\"", "é", 129, rest, "displayName");
    refuse_long(&y,
                "{\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[{\"containerSpec\":"
                "{\"imageUri\":\"host\",\"args\":[\"",
                kilo, KILOS_OF_10_MB, "\"]}}]}}", "jobSpec.workerPoolSpecs[0].containerSpec.args");
    refuse_long(&y,
                "{\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[{\"containerSpec\":"
                "{\"imageUri\":\"host\",\"command\":[\"",
                kilo, 101, "\"]}}]}}", "jobSpec.workerPoolSpecs[0].containerSpec.command");
    refuse_long(&y, "{\"displayName\":\"t\",\"jobSpec\":{\"network\":\"", kilo, 2, "\"}}",
                "jobSpec.network");
    refuse_long(&y,
                "{\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK "],"
                "\"pscInterfaceConfig\":\"",
                kilo, 1100, "\"}}", "jobSpec");
    refuse_long(&y,
                "{\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[{\"containerSpec\":"
                "{\"imageUri\":\"host\",\"command\":[\"true\"],\"env\":[{\"name\":\"A\"}",
                ",{\"name\":\"A\"}", 100, "]}}]}}", "jobSpec.workerPoolSpecs[0].containerSpec.env");
    refuse_long(&y, "{\"", kilo, 1000, "\":1}", NULL);
    refuse_long(&y, "{\"displayName\":", "[", 100000, "", NULL);
    refuse_long(&y, "{\"displayName\":\"t\",\"jobSpec\":", "{\"jobSpec\":", 100, "", NULL);
    assert_ok(call(&y, HTTP_GET, JOBS, ""));
    assert_string_equal(y.res.body.ptr, "{}");
    yard_close(&y);
}

static void labels_at_most_64(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    for (int count = 64; count <= 65; count++) {
        struct ty_buf b;
        ty_buf_init(&b, 1 << 20);
        ty_buf_addz(&b, "{\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[" POOL_OK
                        "]},\"labels\":{");
        for (int i = 0; i < count; i++)
            ty_buf_addf(&b, "%s\"k%d\":\"größe-ü_1\"", i ? "," : "", i);
        ty_buf_addz(&b, "}}");
        ty_err err = call_as(&y, HTTP_POST, JOBS, ty_buf_str(&b), "");
        ty_buf_clear(&b);
        assert_err(count == 64 ? TY_OK : TY_INVALID_ARGUMENT, err);
    }
    assert_violation(&y, "labels");
    yard_close(&y);
}

static void unknown_field_is_named(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_err(TY_INVALID_ARGUMENT,
               call(&y, HTTP_POST, JOBS, POOLS("{\"replicaCont\":1," TASK "}")));
    assert_violation(&y, "jobSpec.workerPoolSpecs[0].replicaCont");
    assert_non_null(strstr(ty_err_message(), "replicaCont"));
    yard_close(&y);
}

static void all_violations_in_one_answer(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_err(
        TY_INVALID_ARGUMENT,
        call(&y, HTTP_POST, JOBS,
             "{\"displayName\":\"t\",\"labels\":{\"A\":\"\"},\"jobSpec\":{"
             "\"workerPoolSpecs\":[{\"replicaCount\":3,\"containerSpec\":{\"imageUri\":\"i\","
             "\"args\":[\"x\"]}}],\"scheduling\":{\"timeout\":\"0s\"}}}"));
    assert_violation(&y, "labels.A");
    assert_violation(&y, "jobSpec.workerPoolSpecs[0].replicaCount");
    assert_violation(&y, "jobSpec.workerPoolSpecs[0].containerSpec.imageUri");
    assert_violation(&y, "jobSpec.scheduling.timeout");
    yard_close(&y);
}

static void answers_the_job(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t id = create(&y, TOP("\"labels\":{\"team\":\"a\"},\"name\":\"mine\",\"state\":3"));
    assert_string_equal(
        reply_text(&y, "name"),
        ty_format(&y.life, "projects/demo/locations/us-central1/customJobs/%" PRId64, id));
    assert_string_equal(reply_text(&y, "displayName"), "t");
    assert_string_equal(reply_text(&y, "state"), "JOB_STATE_PENDING");
    assert_string_equal(reply_text(&y, "labels.team"), "a");
    assert_int_equal(strlen(reply_text(&y, "createTime")), strlen("2026-01-02T03:04:05.678901Z"));
    assert_string_equal(reply_text(&y, "startTime"), "");
    assert_string_equal(reply_text(&y, "endTime"), "");
    assert_int_equal(y.notified, 1);
    assert_int_equal(y.notified_id, id);
    const char *created = ty_cstr(&y.life, ty_buf_str(&y.res.body));
    assert_ok(call(&y, HTTP_GET, job_path(&y, id, ""), ""));
    assert_string_equal(y.res.body.ptr, created);
    yard_close(&y);
}

static void snake_case_and_numbers_become_canonical(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    create(
        &y,
        "{\"display_name\":\"t\",\"job_spec\":{\"worker_pool_specs\":[{\"machine_spec\":"
        "{\"machine_type\":\"n1-standard-4\",\"accelerator_type\":5,\"accelerator_count\":\"2\"},"
        "\"replica_count\":1,\"container_spec\":{\"image_uri\":\"host\",\"command\":"
        "[\"true\"],\"args\":null}},{},{\"replicaCount\":\"3\"," TASK "}],"
        "\"scheduling\":{\"strategy\":4,\"max_wait_duration\":\"0s\"}}}");
    assert_non_null(strstr(
        y.res.body.ptr,
        "\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[{\"machineSpec\":{\"machineType\":"
        "\"n1-standard-4\",\"acceleratorType\":\"NVIDIA_TESLA_T4\",\"acceleratorCount\":2},"
        "\"replicaCount\":"
        "\"1\",\"containerSpec\":{\"imageUri\":\"host\",\"command\":[\"true\"]}},{},"
        "{\"replicaCount\":\"3\"," TASK "}],\"scheduling\":{\"strategy\":\"SPOT\","
        "\"maxWaitDuration\":\"0s\"}}"));
    yard_close(&y);
}

static void replicas_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int replicas;
    } cases[] = {
        {JOB_OK, 1},
        {POOLS(POOL_OK ",{},{\"replicaCount\":2," TASK "}," POOL_OK), 4},
        {POOLS(POOL_OK ",{\"replicaCount\":63," TASK "}"), 64},
        {POOLS(POOL_OK ",{\"replicaCount\":0,\"machineSpec\":{\"machineType\":\"n1-standard-4\"}}"),
         1},
    };
    struct yard y;
    yard_open(&y);
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct job job;
        int64_t id = create(&y, cases[i].body);
        assert_ok(store_job_get(y.store, &y.life, TY_STR("demo"), TY_STR("us-central1"), id, &job));
        assert_int_equal(job.replicas, cases[i].replicas);
    }
    yard_close(&y);
}

static void full_disk_is_429(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    y.config.disk_reserve_bytes = INT64_MAX;
    assert_err(TY_RESOURCE_EXHAUSTED, call(&y, HTTP_POST, JOBS, JOB_OK));
    assert_non_null(strstr(ty_err_message(), "disk_reserve_bytes"));
    assert_non_null(strstr(ty_err_message(), "9223372036854775807"));
    assert_int_equal(y.notified, 0);
    yard_close(&y);
}

static void output_paths_that_are_fine(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    create(&y, WITH("\"baseOutputDirectory\":{\"outputUriPrefix\":\"/tmp/out..put/..x\"}"));
    create(&y, WITH("\"baseOutputDirectory\":{\"outputUriPrefix\":\"file:///tmp/out\"}"));
    yard_close(&y);
}

static void bad_names_in_the_path(void **state)
{
    (void)state;
    static const struct {
        const char *path, *field;
    } cases[] = {
        {"/v1/projects/Demo/locations/us-central1/customJobs", "project"},
        {"/v1/projects/a%2Fb/locations/us-central1/customJobs", "project"},
        {"/v1/projects/a%22b/locations/us-central1/customJobs", "project"},
        {"/v1/projects/demo/locations/us_central1/customJobs", "location"},
        {"/v1/projects/demo/locations/%2e%2E%2F/customJobs", "location"},
        {"/v1/projects/a123456789b123456789c123456789d123456789e123456789f123456789g123/locations/"
         "us-central1/customJobs",
         "project"},
    };
    struct yard y;
    yard_open(&y);
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_POST, cases[i].path, JOB_OK));
        assert_violation(&y, cases[i].field);
        assert_err(TY_INVALID_ARGUMENT, call(&y, HTTP_GET, cases[i].path, ""));
        assert_violation(&y, cases[i].field);
    }
    yard_close(&y);
}

static void same_under_all_prefixes(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_ok(
        call(&y, HTTP_POST, "/v1beta1/projects/demo/locations/us-central1/customJobs", JOB_OK));
    assert_ok(call(&y, HTTP_GET, "/ui/projects/demo/locations/us-central1/customJobs", ""));
    assert_non_null(strstr(y.res.body.ptr, "customJobs/"));
    yard_close(&y);
}

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

/* ---- warnings ---- */

static const char *warnings_of(struct yard *y, const char *body)
{
    json_t *in = NULL;
    struct wire_violations v;
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    wire_violations_init(&v, &y->life);
    assert_ok(wire_json_parse(ty_str_of(body), &in));
    json_t *job = wire_normalise(&vertex_custom_job, in, "", &v);
    assert_int_equal(v.count, 0);
    vertex_job_warnings(job, &b);
    const char *text = ty_cstr(&y->life, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(job);
    json_decref(in);
    return text;
}

static void recorded_fields_share_one_line(void **state)
{
    (void)state;
    struct yard y = {0};
    assert_string_equal(
        warnings_of(&y, POOLS(POOL_OK ",{},{\"machineSpec\":{\"machineType\":\"n1-standard-4\","
                                      "\"tpuTopology\":\"2x2\"}," TASK "}")),
        "recorded, but without effect on this machine (docs/compat.md): "
        "jobSpec.workerPoolSpecs[].machineSpec.tpuTopology");
    assert_string_equal(
        warnings_of(&y, WITH("\"serviceAccount\":\"a@b\",\"enableWebAccess\":true")),
        "recorded, but without effect on this machine (docs/compat.md): "
        "jobSpec.serviceAccount, jobSpec.enableWebAccess");
    ty_arena_clear(&y.life);
}

static void defaults_warn_of_nothing(void **state)
{
    (void)state;
    struct yard y = {0};
    assert_string_equal(warnings_of(&y, JOB_OK), "");
    assert_string_equal(
        warnings_of(&y, WITH("\"enableWebAccess\":false,\"network\":\"\",\"reservedIpRanges\":[],"
                             "\"scheduling\":{\"strategy\":0,\"timeout\":\"5s\"}")),
        "");
    ty_arena_clear(&y.life);
}

static const struct CMUnitTest tests[] = {
    TEST("create/malformed_is_refused_by_field", malformed_is_refused_by_field),
    TEST("create/long_and_deep_is_refused", long_and_deep_is_refused),
    TEST("create/labels_at_most_64", labels_at_most_64),
    TEST("create/unknown_field_is_named", unknown_field_is_named),
    TEST("create/all_violations_in_one_answer", all_violations_in_one_answer),
    TEST("create/answers_the_job", answers_the_job),
    TEST("create/snake_case_and_numbers_become_canonical", snake_case_and_numbers_become_canonical),
    TEST("create/replicas_are_counted", replicas_are_counted),
    TEST("create/full_disk_is_429", full_disk_is_429),
    TEST("create/output_paths_that_are_fine", output_paths_that_are_fine),
    TEST("create/bad_names_in_the_path", bad_names_in_the_path),
    TEST("create/same_under_all_prefixes", same_under_all_prefixes),
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
    TEST("warnings/recorded_fields_share_one_line", recorded_fields_share_one_line),
    TEST("warnings/defaults_warn_of_nothing", defaults_warn_of_nothing),
};
TEST_MAIN("vertex", tests)
