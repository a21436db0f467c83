/* test_filter.c -- filters: what they match, refuse and say about themselves. */
#include "wire/test_wire.h"

/* A row of a log: every member is text, times are compared as times. */
static const char *const row_values[][2] = {
    {"", "Epoch 3: loss=0.25 from worker"},
    {"displayName", "my_job_7"},
    {"state", "JOB_STATE_RUNNING"},
    {"createTime", "2024-05-01T10:00:00.000000Z"},
    {"insertId", "b7"},
    {"resource.type", "ml_job"},
    {"resource.labels.job_id", "42"},
    {"labels.team", "blue"},
    {"labels.a.b", "dotted"},
    {"labels.empty", ""},
};

static bool row_get(const struct wire_filter_row *row, ty_str name, ty_str *ret_value,
                    bool *ret_unknown)
{
    (void)row;
    for (size_t i = 0; i < TY_COUNT(row_values); i++) {
        if (wire_name_eq(name, ty_str_of(row_values[i][0]))) {
            *ret_value = ty_str_of(row_values[i][1]);
            return true;
        }
    }
    *ret_unknown = !ty_str_starts(name, TY_STR("labels.")) && !ty_str_is(name, "endTime");
    return false;
}

static int row_compare(const struct wire_filter_row *row, ty_str name, ty_str have, ty_str want)
{
    (void)row;
    int64_t a, b;
    if (!wire_name_eq(name, TY_STR("createTime")) || wire_time_parse(want, &b))
        return ty_str_cmp(have, want);
    assert_ok(wire_time_parse(have, &a));
    return a < b ? -1 : a > b;
}

static const struct wire_filter_row row = {.get = row_get, .compare = row_compare};

static bool matches(const char *text)
{
    struct ty_arena a = {0};
    struct wire_filter *f;
    assert_ok(wire_filter_parse(&a, ty_str_of(text), &f));
    bool result = wire_filter_matches(f, &row);
    ty_arena_clear(&a);
    return result;
}
#define YES(text)                                                                                  \
    do {                                                                                           \
        if (!matches(text))                                                                        \
            fail_msg("should match: %s", text);                                                    \
    } while (0)
#define NO(text)                                                                                   \
    do {                                                                                           \
        if (matches(text))                                                                         \
            fail_msg("should not match: %s", text);                                                \
    } while (0)

static void refuse(ty_str text, const char *words)
{
    struct ty_arena a = {0};
    struct wire_filter *f = NULL;
    assert_err(TY_INVALID_ARGUMENT, wire_filter_parse(&a, text, &f));
    assert_null(f);
    assert_message(words);
    ty_arena_clear(&a);
}

static void filter_comparisons(void **state)
{
    (void)state;
    YES("");
    YES("  \n");
    YES("state=\"JOB_STATE_RUNNING\"");
    YES("state = JOB_STATE_RUNNING");
    NO("state=JOB_STATE_FAILED");
    NO("state!=JOB_STATE_RUNNING");
    YES("state!='JOB_STATE_FAILED'");
    YES("display_name=\"my_job_7\"");
    NO("display_name=\"MY_JOB_7\"");
    YES("insertId>\"b6\" AND insertId<b8 AND insertId>=b7 AND insertId<=b7");
    NO("insertId>b7");
    NO("insertId<b7");
    YES("resource.labels.job_id=42");
    YES("resource.labels.\"job_id\"='42'");
    YES("labels.\"a.b\"=dotted");
    YES("labels.empty=\"\"");
}

static void filter_times(void **state)
{
    (void)state;
    YES("create_time>=\"2024-05-01T10:00:00Z\"");
    YES("create_time=2024-05-01T12:00:00+02:00");
    NO("create_time>2024-05-01T10:00:00Z");
    YES("create_time<\"2024-05-01T10:00:00.000000001Z\"");
    NO("create_time!=\"2024-05-01T10:00:00Z\"");
}

static void filter_wildcards(void **state)
{
    (void)state;
    YES("display_name=\"my_*\"");
    YES("display_name=*_7");
    YES("display_name=m*job*7");
    NO("display_name=job*");
    NO("display_name=my_job_7*7");
    YES("display_name:\"MY_JOB_*\"");
    NO("display_name:\"job_*\"");
    NO("display_name!=my*");
    YES("display_name=***");
    NO("display_name=*job*job*");
}

static void filter_has(void **state)
{
    (void)state;
    YES("display_name:job");
    YES("display_name:JOB");
    NO("display_name:jobs");
    YES("labels.team:*");
    NO("labels.none:*");
    YES("labels:team");
    YES("labels:\"a.b\"");
    NO("labels:none");
    YES("labels.empty:*");
}

static void filter_search(void **state)
{
    (void)state;
    YES("worker");
    YES("WORKER");
    YES("\"loss=0.25 from\"");
    NO("evaluator");
    YES("epoch worker");
    NO("epoch evaluator");
    YES("-evaluator");
    NO("-worker");
    YES("0.25");
}

static void filter_missing_member(void **state)
{
    (void)state;
    NO("labels.none=x");
    NO("labels.none!=x");
    YES("NOT labels.none=x");
    YES("-labels.none=x");
    NO("end_time<\"2030-01-01T00:00:00Z\"");
}

static void filter_or_binds_tighter_than_and(void **state)
{
    (void)state;
    /* T = worker, F = evaluator */
    NO("evaluator AND evaluator OR worker"); /* F AND (F OR T); SQL would say T */
    NO("worker OR worker AND evaluator");    /* (T OR T) AND F */
    YES("worker AND evaluator OR worker");
    YES("(evaluator AND evaluator) OR worker");
    NO("evaluator evaluator OR worker");
    YES("worker OR evaluator worker");
    YES("NOT evaluator OR evaluator"); /* (NOT F) OR F */
    NO("NOT (evaluator OR worker)");
    YES("NOT NOT worker");
    YES("NOT -worker");
    YES("worker AND NOT evaluator");
    YES("worker OR NOT evaluator AND NOT evaluator OR worker");
}

static void filter_lists_of_values(void **state)
{
    (void)state;
    YES("resource.type=(\"gce\" OR \"ml_job\")");
    NO("resource.type=(gce OR gae)");
    NO("resource.type!=(gce OR ml_job)");
    YES("resource.type!=(gce OR gae)");
    YES("resource.type:(ml AND job)");
    YES("resource.type=(NOT gce)");
    YES("resource.type=((gce) OR (ml_job)) AND worker");
}

static void filter_keywords_and_comments(void **state)
{
    (void)state;
    YES("ORDER OR worker"); /* a word that starts like a keyword */
    NO("worker and");       /* small letters are words to search for */
    NO("worker or evaluator");
    YES("worker -- OR nothing\n AND epoch");
    YES("-- only a comment");
    YES("NOT(evaluator)AND(worker)");
    YES("display_name=\"my_job_7\"AND worker");
}

static void filter_what_clients_send(void **state)
{
    (void)state;
    YES("resource.type=\"ml_job\" AND resource.labels.job_id=\"42\" AND "
        "create_time>=\"1970-01-01T01:00:00.000000000Z\" AND "
        "create_time<\"2026-11-15T21:51:08.123456Z\"");
    YES("((create_time=\"2024-05-01T10:00:00Z\" AND insertId>\"a\") OR "
        "create_time>\"2024-05-01T10:00:00Z\")");
    NO("((create_time=\"2024-05-01T10:00:00Z\" AND insertId>\"b8\") OR "
       "create_time>\"2024-05-01T10:00:00Z\")");
    NO("labels.mg-deploy:* OR labels.mg-one-click-deploy:*");
}

static void filter_refuses(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"a=", "byte 2: a value was expected, not the end"},
        {"a= AND b", "byte 3: a value was expected"},
        {"a==b", "byte 2: a value was expected"},
        {"=b", "byte 0: a term was expected"},
        {"AND b", "byte 0: a term was expected"},
        {"a OR", "byte 4: a term was expected"},
        {"a AND", "byte 5: a term was expected"},
        {"a AND OR b", "byte 6: a term was expected"},
        {"NOT", "byte 3: a term was expected"},
        {"-", "byte 1: a term was expected"},
        {"()", "byte 1: a term was expected"},
        {"(a", "byte 0: a parenthesis that is never closed"},
        {"a)", "byte 1: a closing parenthesis"},
        {"a=(b", "byte 2: a parenthesis that is never closed"},
        {"a=()", "byte 3: a value was expected"},
        {"a=\"b", "byte 2: a string without its closing quote"},
        {"a=\"b\\", "byte 5: an unknown escape"},
        {"a=\"\\d\"", "byte 4: an unknown escape"},
        {"a=~\"x\"", "byte 2: regular expressions"},
        {"SEARCH(\"x\")", "byte 0: functions are not supported"},
        {"\"\"=x", "byte 0: an empty name"},
        {"a=\xff", "not UTF-8"},
    };
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        refuse(ty_str_of(bad[i][0]), bad[i][1]);
    refuse(TY_STR("a=b\0"), "not UTF-8 text");
}

static void filter_limits(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    for (int i = 0; i < 64; i++)
        ty_buf_addc(&b, '(');
    ty_buf_addz(&b, "worker");
    for (int i = 0; i < 64; i++)
        ty_buf_addc(&b, ')');
    YES(b.ptr);
    ty_buf_clear(&b);
    for (int i = 0; i < 65; i++)
        ty_buf_addc(&b, '(');
    refuse(ty_buf_str(&b), "byte 64: more than 64 levels");
    ty_buf_clear(&b);
    for (int i = 0; i < 1000; i++)
        ty_buf_addz(&b, "worker ");
    YES(b.ptr);
    ty_buf_addz(&b, "worker");
    refuse(ty_buf_str(&b), "byte 7000: more than 1000 terms");
    ty_buf_clear(&b);
    for (int i = 0; i < 64 * 1024; i++)
        ty_buf_addc(&b, i ? 'x' : '"');
    refuse(ty_buf_str(&b), "byte 0: a string of more than 1024 bytes");
    b.ptr[0] = 'x';
    refuse(ty_buf_str(&b), "byte 0: a name of more than 1024 bytes");
    b.ptr[1] = '=';
    refuse(ty_buf_str(&b), "byte 2: a word of more than 1024 bytes");
    ty_buf_addc(&b, 'x');
    refuse(ty_buf_str(&b), "larger than 65536 bytes");
    ty_buf_clear(&b);
}

static void filter_check_names_unknown_fields(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct wire_filter *f;
    assert_ok(wire_filter_parse(&a, TY_STR("displayName=x AND labels:x OR labels.y=z"), &f));
    assert_ok(wire_filter_check(f, &row));
    assert_ok(wire_filter_parse(&a, TY_STR(""), &f));
    assert_ok(wire_filter_check(f, &row));
    assert_ok(wire_filter_parse(&a, TY_STR("state=x AND (worker OR colour=red)"), &f));
    assert_err(TY_INVALID_ARGUMENT, wire_filter_check(f, &row));
    assert_message("byte 23: unknown field 'colour'");
    ty_arena_clear(&a);
}

static void bound_is(const char *text, const char *want)
{
    struct ty_arena a = {0};
    struct wire_filter *f;
    ty_str bound = TY_STR("");
    assert_ok(wire_filter_parse(&a, ty_str_of(text), &f));
    bool found = wire_filter_lower_bound(f, TY_STR("createTime"), &bound);
    if (found != (want != NULL) || (want && !ty_str_is(bound, want)))
        fail_msg("%s: bound '" TY_STR_FMT "'", text, TY_STR_ARG(bound));
    ty_arena_clear(&a);
}
#define T1 "2024-01-01T00:00:00Z"
#define T2 "2024-01-01T00:00:00.5Z"
#define T3 "2024-06-01T00:00:00Z"

static void filter_lower_bound(void **state)
{
    (void)state;
    bound_is("", NULL);
    bound_is("create_time>=" T1, T1);
    bound_is("a=b AND create_time>\"" T1 "\" AND create_time<" T3, T1);
    bound_is("create_time>=" T1 " create_time>=" T2, T2); /* later, though 'Z' is above '.' */
    bound_is("create_time=" T3, T3);
    bound_is("create_time=2024*", NULL);
    bound_is("create_time<" T1, NULL);
    bound_is("NOT create_time>" T1, NULL);
    bound_is("a=b OR create_time>" T1, NULL);
    bound_is("create_time>" T2 " OR create_time>" T1, T1);
    bound_is("create_time>x OR create_time>y", NULL);
    bound_is("a=b AND ((create_time=" T2 " AND insertId>i) OR create_time>" T2 ")", T2);
}

static void filter_equal(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"resource.labels.job_id=\"42\"", "42"},
        {"a AND (resource.labels.jobId=42 AND b)", "42"},
        {"resource.labels.job_id=4*", NULL},
        {"resource.labels.job_id!=42", NULL},
        {"NOT resource.labels.job_id=42", NULL},
        {"resource.labels.job_id=42 OR a", NULL},
        {"-(resource.labels.job_id=42 AND a)", NULL},
        {"", NULL},
    };
    struct ty_arena a = {0};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct wire_filter *f;
        ty_str value = TY_STR("");
        assert_ok(wire_filter_parse(&a, ty_str_of(cases[i][0]), &f));
        bool found = wire_filter_equal(f, TY_STR("resource.labels.job_id"), &value);
        if (found != (cases[i][1] != NULL) || (found && !ty_str_is(value, cases[i][1])))
            fail_msg("%s: '" TY_STR_FMT "'", cases[i][0], TY_STR_ARG(value));
    }
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("filter/comparisons", filter_comparisons),
    TEST("filter/times", filter_times),
    TEST("filter/wildcards", filter_wildcards),
    TEST("filter/has", filter_has),
    TEST("filter/search", filter_search),
    TEST("filter/missing_member", filter_missing_member),
    TEST("filter/or_binds_tighter_than_and", filter_or_binds_tighter_than_and),
    TEST("filter/lists_of_values", filter_lists_of_values),
    TEST("filter/keywords_and_comments", filter_keywords_and_comments),
    TEST("filter/what_clients_send", filter_what_clients_send),
    TEST("filter/refuses", filter_refuses),
    TEST("filter/limits", filter_limits),
    TEST("filter/check_names_unknown_fields", filter_check_names_unknown_fields),
    TEST("filter/lower_bound", filter_lower_bound),
    TEST("filter/equal", filter_equal),
};
RUN_GROUP(filter)
