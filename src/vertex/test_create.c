/* test_create.c -- what create takes, refuses and warns of. */
#include "vertex/test_vertex.h"

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
    TEST("warnings/recorded_fields_share_one_line", recorded_fields_share_one_line),
    TEST("warnings/defaults_warn_of_nothing", defaults_warn_of_nothing),
};
TEST_MAIN("vertex_create", tests)
