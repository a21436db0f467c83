/* fuzz_json.c -- any bytes as a JSON request: parse, check against a table, write.
 *
 * Besides not crashing: what normalise accepted, it accepts again and leaves as
 * it is (canonical is a fixed point), and what we write we can read. */
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct wire_enum_value states[] = {
    {"STATE_UNSPECIFIED", 0}, {"QUEUED", 1}, {"RUNNING", 3}, {NULL, 0}};
static const struct wire_message job;
static const struct wire_field pool_fields[] = {
    {.name = "replicaCount", .type = WIRE_INT64, .flags = WIRE_REQUIRED},
    {.name = "machineType", .type = WIRE_STRING, .most = 8},
    {.name = "diskGb", .type = WIRE_INT32, .least = 10, .most = 100},
    {.name = "counts", .type = WIRE_INT32, .flags = WIRE_REPEATED, .most = 3},
    {.name = "container", .type = WIRE_ANY},
    {.name = "package", .type = WIRE_ANY},
    {.name = "job", .type = WIRE_MESSAGE, .message = &job},
    {.name = NULL}};
static const char *const pool_oneof[] = {"container", "package", NULL};
static const struct wire_message pool = {"Pool", pool_fields, pool_oneof};
static const struct wire_field job_fields[] = {
    {.name = "name", .type = WIRE_STRING, .flags = WIRE_OUTPUT},
    {.name = "displayName", .type = WIRE_STRING, .flags = WIRE_REQUIRED},
    {.name = "pools", .type = WIRE_MESSAGE, .flags = WIRE_REPEATED, .most = 4, .message = &pool},
    {.name = "state", .type = WIRE_ENUM, .values = states},
    {.name = "labels", .type = WIRE_STRING_MAP, .most = 4},
    {.name = "timeout", .type = WIRE_DURATION},
    {.name = "createTime", .type = WIRE_TIMESTAMP},
    {.name = "webAccess", .type = WIRE_BOOL},
    {.name = "rate", .type = WIRE_DOUBLE, .least = INT64_MIN},
    {.name = NULL}};
static const struct wire_message job = {"Job", job_fields, NULL};

static void check_reads_back(const json_t *value)
{
    struct ty_buf b;
    json_t *again = NULL;
    ty_buf_init(&b, 1 << 24);
    wire_json_dump(&b, value);
    if (!b.full) {
        ty_assert(wire_json_parse(ty_buf_str(&b), &again) == TY_OK);
        ty_assert(json_equal(value, again));
        json_decref(again);
    }
    ty_buf_clear(&b);
    wire_json_dump_pretty(&b, value);
    if (!b.full) {
        ty_assert(wire_json_parse(ty_buf_str(&b), &again) == TY_OK);
        json_decref(again);
    }
    ty_buf_clear(&b);
}

static void check_normalise(const json_t *value)
{
    struct ty_arena a = {0};
    struct ty_buf b;
    struct wire_violations v;
    json_t *details = NULL;
    wire_violations_init(&v, &a);
    json_t *made = wire_normalise(&job, value, "", &v);
    if (v.count == 0) {
        json_t *again = wire_normalise(&job, made, "", &v);
        ty_assert(v.count == 0);
        ty_assert(json_equal(made, again));
        json_decref(again);
    } else {
        ty_assert(wire_violations_fail(&v) == TY_INVALID_ARGUMENT);
        ty_buf_init(&b, 1 << 20);
        wire_violations_json(&v, &b);
        ty_assert(wire_json_parse(ty_buf_str(&b), &details) == TY_OK);
        json_decref(details);
        ty_buf_clear(&b);
    }
    json_decref(made);
    ty_arena_clear(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ty_str text = {(const char *)data, size};
    json_t *value = NULL, *string = NULL;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 24);
    wire_json_string(&b, text);
    if (memchr(data, 0, size) == NULL)
        ty_assert(b.full || wire_json_parse(ty_buf_str(&b), &string) == TY_OK);
    json_decref(string);
    ty_buf_clear(&b);
    if (wire_json_parse(text, &value))
        return 0;
    check_reads_back(value);
    check_normalise(value);
    json_decref(value);
    return 0;
}
