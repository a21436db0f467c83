/* test_message.c -- requests against tables. */
#include "wire/test_wire.h"

static const struct wire_enum_value states[] = {
    {"STATE_UNSPECIFIED", 0}, {"STATE_QUEUED", 1}, {"STATE_RUNNING", 3}, {NULL, 0}};
static const struct wire_enum_value letters[] = {
    {"A", 0}, {"B", 1}, {"C", 2}, {"D", 3},  {"E", 4},          {"F", 5},          {"G", 6},
    {"H", 7}, {"I", 8}, {"J", 9}, {"K", 10}, {"NVIDIA_P4", 11}, {"NVIDIA_T4", 12}, {NULL, 0}};
static const struct wire_field machine_fields[] = {
    {.name = "machineType", .type = WIRE_STRING, .most = 8},
    {.name = "acceleratorCount", .type = WIRE_INT32, .most = 16},
    {.name = "acceleratorType", .type = WIRE_ENUM, .values = letters},
    {.name = NULL}};
static const struct wire_message machine = {"MachineSpec", machine_fields, NULL};
static const struct wire_field pool_fields[] = {
    {.name = "machineSpec", .type = WIRE_MESSAGE, .message = &machine},
    {.name = "replicaCount", .type = WIRE_INT64},
    {.name = "containerSpec", .type = WIRE_ANY},
    {.name = "pythonPackageSpec", .type = WIRE_ANY},
    {.name = NULL}};
static const char *const pool_oneof[] = {"containerSpec", "pythonPackageSpec", NULL};
static const struct wire_message pool = {"WorkerPoolSpec", pool_fields, pool_oneof};
static const struct wire_field job_fields[] = {
    {.name = "name", .type = WIRE_STRING, .flags = WIRE_OUTPUT},
    {.name = "displayName", .type = WIRE_STRING, .flags = WIRE_REQUIRED},
    {.name = "workerPoolSpecs",
     .type = WIRE_MESSAGE,
     .flags = WIRE_REPEATED,
     .most = 4,
     .message = &pool},
    {.name = "args", .type = WIRE_STRING, .flags = WIRE_REPEATED},
    {.name = "state", .type = WIRE_ENUM, .values = states},
    {.name = "labels", .type = WIRE_STRING_MAP, .most = 2},
    {.name = "timeout", .type = WIRE_DURATION},
    {.name = "createTime", .type = WIRE_TIMESTAMP},
    {.name = "enableWebAccess", .type = WIRE_BOOL},
    {.name = "rate", .type = WIRE_DOUBLE, .most = 10},
    {.name = "offset", .type = WIRE_INT32, .least = INT64_MIN},
    {.name = NULL}};
static const struct wire_message job = {"CustomJob", job_fields, NULL};

/* A right request and its canonical form. */
static void becomes(const char *in, const char *out)
{
    struct ty_arena a = {0};
    struct wire_violations v;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    wire_violations_init(&v, &a);
    json_t *value = parse_json(in), *made = wire_normalise(&job, value, "", &v);
    assert_ok(wire_violations_fail(&v));
    wire_json_dump(&b, made);
    assert_text(&b, out);
    json_decref(made);
    json_decref(value);
    ty_arena_clear(&a);
}

/* A wrong request: exactly one violation, of this field and with these words. */
static void violates(const char *in, const char *field, const char *words)
{
    struct ty_arena a = {0};
    struct wire_violations v;
    wire_violations_init(&v, &a);
    json_t *value = parse_json(in), *made = wire_normalise(&job, value, "", &v);
    assert_err(TY_INVALID_ARGUMENT, wire_violations_fail(&v));
    if (v.count != 1 || !ty_str_is(v.first->field, field) ||
        !ty_str_is(v.first->description, words))
        fail_msg("%s: %zu violations, %s", in, v.count, ty_err_message());
    assert_non_null(made);
    json_decref(made);
    json_decref(value);
    ty_arena_clear(&a);
}
#define JOB(rest) "{\"displayName\":\"j\"," rest "}"

static void normalise_canonical(void **state)
{
    (void)state;
    becomes("{\"worker_pool_specs\":[{\"replica_count\":2,\"machineSpec\":{\"machine_type\":\"n1\"}"
            "},{}],"
            "\"display_name\":\"j\",\"state\":3,\"enable_web_access\":false,\"name\":\"mine\","
            "\"labels\":{\"my_key\":\"v\"},\"timeout\":\"3600s\",\"args\":null}",
            "{\"displayName\":\"j\",\"workerPoolSpecs\":[{\"machineSpec\":{\"machineType\":\"n1\"},"
            "\"replicaCount\":\"2\"},{}],\"state\":\"STATE_RUNNING\",\"labels\":{\"my_key\":\"v\"},"
            "\"timeout\":\"3600s\",\"enableWebAccess\":false}");
    becomes(
        JOB("\"workerPoolSpecs\":[],\"args\":[],\"labels\":{},\"state\":\"STATE_UNSPECIFIED\""),
        "{\"displayName\":\"j\",\"workerPoolSpecs\":[],\"args\":[],\"state\":\"STATE_UNSPECIFIED\","
        "\"labels\":{}}");
    becomes(JOB("\"workerPoolSpecs\":[{\"containerSpec\":{\"any\":[1,null]},\"pythonPackageSpec\":"
                "null}]"),
            "{\"displayName\":\"j\",\"workerPoolSpecs\":[{\"containerSpec\":{\"any\":[1,null]}}]}");
}

static void normalise_numbers(void **state)
{
    (void)state;
    becomes(
        JOB("\"workerPoolSpecs\":[{\"replicaCount\":\"5\"},{\"replicaCount\":1.0},"
            "{\"replicaCount\":9223372036854775807},{\"machineSpec\":{\"acceleratorCount\":\"3\"}}"
            "]"),
        "{\"displayName\":\"j\",\"workerPoolSpecs\":[{\"replicaCount\":\"5\"},{\"replicaCount\":"
        "\"1\"},"
        "{\"replicaCount\":\"9223372036854775807\"},{\"machineSpec\":{\"acceleratorCount\":3}}]}");
    becomes(JOB("\"rate\":5,\"offset\":-3"), "{\"displayName\":\"j\",\"rate\":5,\"offset\":-3}");
    becomes(JOB("\"rate\":\"2.5e-1\""), "{\"displayName\":\"j\",\"rate\":0.25}");
}

static void normalise_wrong_numbers(void **state)
{
    (void)state;
    static const char at[] = "workerPoolSpecs[0].replicaCount";
    violates(JOB("\"workerPoolSpecs\":[{\"replicaCount\":-1}]"), at, "must be at least 0, not -1");
    violates(JOB("\"workerPoolSpecs\":[{\"replicaCount\":1.5}]"), at,
             "must be a whole number, not 1.5");
    violates(JOB("\"workerPoolSpecs\":[{\"replicaCount\":1e30}]"), at,
             "must be a whole number, not 1e+30");
    violates(JOB("\"workerPoolSpecs\":[{\"replica_count\":\"1.0\"}]"), at,
             "must be a whole number, not '1.0'");
    violates(JOB("\"workerPoolSpecs\":[{\"replica_count\":\"\"}]"), at,
             "must be a whole number, not ''");
    violates(JOB("\"workerPoolSpecs\":[{\"replica_count\":true}]"), at,
             "must be a whole number, not a boolean");
    violates(JOB("\"workerPoolSpecs\":[{\"machineSpec\":{\"acceleratorCount\":17}}]"),
             "workerPoolSpecs[0].machineSpec.acceleratorCount", "must be from 0 to 16, not 17");
    violates(JOB("\"offset\":4294967296"), "offset", "must be at most 2147483647, not 4294967296");
    violates(JOB("\"rate\":10.5"), "rate", "must be at most 10, not 10.5");
    violates(JOB("\"rate\":-0.5"), "rate", "must be at least 0, not -0.5");
    violates(JOB("\"rate\":\"nan\""), "rate", "must be a number, not a string");
    violates(JOB("\"rate\":\"1e999\""), "rate", "must be a number, not a string");
    violates(JOB("\"rate\":[]"), "rate", "must be a number, not an array");
}

static void normalise_wrong_types(void **state)
{
    (void)state;
    violates("[]", "", "must be an object (CustomJob), not an array");
    violates("{\"displayName\":5}", "displayName", "must be a string, not a number");
    violates(JOB("\"enableWebAccess\":\"true\""), "enableWebAccess",
             "must be true or false, not a string");
    violates(JOB("\"args\":\"x\""), "args", "must be an array, not a string");
    violates(JOB("\"args\":[\"x\",null]"), "args[1]", "must not be null");
    violates(JOB("\"args\":[\"x\",{}]"), "args[1]", "must be a string, not an object");
    violates(JOB("\"workerPoolSpecs\":[[]]"), "workerPoolSpecs[0]",
             "must be an object (WorkerPoolSpec), not an array");
    violates(JOB("\"labels\":[]"), "labels", "must be an object of strings, not an array");
    violates(JOB("\"labels\":{\"a\":1}"), "labels.a", "must be a string, not a number");
    violates(JOB("\"labels\":{\"\":1}"), "labels.''", "must be a string, not a number");
    violates(JOB("\"timeout\":3600"), "timeout", "must be a string, not a number");
    violates(JOB("\"timeout\":\"1h\""), "timeout",
             "'1h' is not a duration like 3600s or 1.5s, and not negative (byte 1)");
    violates(JOB("\"createTime\":\"2024-02-30T00:00:00Z\""), "createTime",
             "there is no time '2024-02-30T00:00:00Z'");
}

static void normalise_ceilings(void **state)
{
    (void)state;
    violates(JOB("\"workerPoolSpecs\":[{},{},{},{},{}]"), "workerPoolSpecs",
             "must have at most 4 entries, not 5");
    violates(JOB("\"labels\":{\"a\":\"\",\"b\":\"\",\"c\":\"\"}"), "labels",
             "must have at most 2 entries, not 3");
    violates(JOB("\"workerPoolSpecs\":[{\"machineSpec\":{\"machineType\":\"123456789\"}}]"),
             "workerPoolSpecs[0].machineSpec.machineType", "must be at most 8 bytes, not 9");
}

static void normalise_required(void **state)
{
    (void)state;
    violates("{}", "displayName", "is required");
    violates("{\"displayName\":null}", "displayName", "is required");
    violates("{\"display_name\":\"\"}", "displayName", "is required");
}

static void normalise_unknown_field(void **state)
{
    (void)state;
    violates(JOB("\"zzzzzzz\":1"), "zzzzzzz", "unknown field");
    violates(JOB("\"labls\":{}"), "labls", "unknown field; did you mean 'labels'?");
    violates(JOB("\"workerPoolSpecs\":[{},{\"replicas_count\":1}]"),
             "workerPoolSpecs[1].replicas_count", "unknown field; did you mean 'replicaCount'?");
    violates(JOB("\"DisplayName\":1"), "DisplayName", "unknown field; did you mean 'displayName'?");
    violates(JOB("\"\":1"), "''", "unknown field");
    violates(JOB("\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk€\":1"),
             "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…", "unknown field");
}

static void normalise_both_names(void **state)
{
    (void)state;
    violates("{\"displayName\":\"a\",\"display_name\":\"a\"}", "displayName",
             "is given twice, as 'displayName' and 'display_name'");
    violates(JOB("\"enable_web_access\":true,\"enableWebAccess\":true"), "enableWebAccess",
             "is given twice, as 'enable_web_access' and 'enableWebAccess'");
}

static void normalise_enums(void **state)
{
    (void)state;
    violates(JOB("\"state\":\"QUEUED\""), "state",
             "must be one of STATE_UNSPECIFIED, STATE_QUEUED, STATE_RUNNING, not 'QUEUED'");
    violates(JOB("\"state\":2"), "state",
             "must be one of STATE_UNSPECIFIED, STATE_QUEUED, STATE_RUNNING, not 2");
    violates(JOB("\"state\":1.5"), "state",
             "must be one of STATE_UNSPECIFIED, STATE_QUEUED, STATE_RUNNING, not 1.5");
    violates(JOB("\"state\":true"), "state", "must be the name of a value, not a boolean");
    violates(JOB("\"workerPoolSpecs\":[{\"machineSpec\":{\"acceleratorType\":\"nvidia-t4\"}}]"),
             "workerPoolSpecs[0].machineSpec.acceleratorType",
             "has no value 'nvidia-t4'; did you mean 'NVIDIA_T4'?");
    violates(JOB("\"workerPoolSpecs\":[{\"machineSpec\":{\"acceleratorType\":\"NVIDIA_T4x\"}}]"),
             "workerPoolSpecs[0].machineSpec.acceleratorType",
             "has no value 'NVIDIA_T4x'; did you mean 'NVIDIA_T4'?");
    violates(JOB("\"workerPoolSpecs\":[{\"machineSpec\":{\"acceleratorType\":99}}]"),
             "workerPoolSpecs[0].machineSpec.acceleratorType",
             "must be one of A, B, C, D, E, F, G, H, I, J, K, NVIDIA_P4, NVIDIA_T4, not 99");
    violates(JOB("\"workerPoolSpecs\":[{\"machineSpec\":{\"acceleratorType\":\"bogus\"}}]"),
             "workerPoolSpecs[0].machineSpec.acceleratorType",
             "must be one of A, B, C, D, E, F, G, H, I, J, K, NVIDIA_P4, NVIDIA_T4, not 'bogus'");
}

static void normalise_oneof(void **state)
{
    (void)state;
    violates(JOB("\"workerPoolSpecs\":[{\"containerSpec\":{},\"pythonPackageSpec\":{}}]"),
             "workerPoolSpecs[0].pythonPackageSpec", "cannot be set together with 'containerSpec'");
}

static void violations_are_counted_and_kept(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct wire_violations v;
    wire_violations_init(&v, &a);
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    ty_buf_addz(&b, "{\"args\":[1");
    for (int i = 1; i < 30; i++)
        ty_buf_addz(&b, ",1");
    ty_buf_addz(&b, "]}");
    json_t *value = parse_json(b.ptr), *made = wire_normalise(&job, value, "custom_job", &v);
    json_decref(made);
    json_decref(value);
    ty_buf_clear(&b);
    assert_int_equal(v.count, 31);
    assert_true(ty_str_is(v.first->field, "custom_job.displayName"));
    size_t kept = 0;
    for (struct wire_violation *w = v.first; w; w = w->next)
        kept++;
    assert_int_equal(kept, WIRE_MAX_VIOLATIONS);
    assert_err(TY_INVALID_ARGUMENT, wire_violations_fail(&v));
    assert_string_equal(
        ty_err_message(),
        "custom_job.displayName: is required; custom_job.args[0]: must be a string, "
        "not a number; custom_job.args[1]: must be a string, not a number; and 28 more");
    ty_arena_clear(&a);
}

static void violations_as_json(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct wire_violations v;
    wire_violations_init(&v, &a);
    assert_ok(wire_violations_fail(&v));
    wire_violation_add(&v, "a.b", "is \"%s\"", "bad");
    wire_violation_add(&v, "", "is worse");
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    wire_violations_json(&v, &b);
    assert_text(&b,
                "[{\"@type\":\"type.googleapis.com/google.rpc.BadRequest\",\"fieldViolations\":["
                "{\"field\":\"a.b\",\"description\":\"is \\\"bad\\\"\"},"
                "{\"field\":\"\",\"description\":\"is worse\"}]}]");
    assert_err(TY_INVALID_ARGUMENT, wire_violations_fail(&v));
    assert_string_equal(ty_err_message(), "a.b: is \"bad\"; is worse");
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("normalise/canonical", normalise_canonical),
    TEST("normalise/numbers", normalise_numbers),
    TEST("normalise/wrong_numbers", normalise_wrong_numbers),
    TEST("normalise/wrong_types", normalise_wrong_types),
    TEST("normalise/ceilings", normalise_ceilings),
    TEST("normalise/required", normalise_required),
    TEST("normalise/unknown_field", normalise_unknown_field),
    TEST("normalise/both_names", normalise_both_names),
    TEST("normalise/enums", normalise_enums),
    TEST("normalise/oneof", normalise_oneof),
    TEST("violations/are_counted_and_kept", violations_are_counted_and_kept),
    TEST("violations/as_json", violations_as_json),
};
RUN_GROUP(message)
