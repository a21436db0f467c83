/* test_text.c -- URLs, base64, times, durations, names. */
#include "wire/test_wire.h"

static void url_decodes(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str s;
    assert_ok(wire_url_decode(&a, TY_STR("a%2Fb+c%c3%A9"), false, &s));
    assert_true(ty_str_is(s, "a/b+cé"));
    assert_ok(wire_url_decode(&a, TY_STR("a+b%2B"), true, &s));
    assert_true(ty_str_is(s, "a b+"));
    assert_ok(wire_url_decode(&a, TY_STR(""), true, &s));
    assert_int_equal(s.len, 0);
    ty_arena_clear(&a);
}

static void url_refuses(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    static const char *const bad[] = {"ab%", "ab%4", "ab%zz", "ab%4g", "ab%%41", "ab% 1"};
    ty_str s;
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        assert_err(TY_INVALID_ARGUMENT, wire_url_decode(&a, ty_str_of(bad[i]), false, &s));
        assert_message("byte 2");
    }
    assert_err(TY_INVALID_ARGUMENT, wire_url_decode(&a, TY_STR("a%00"), false, &s));
    assert_message("NUL");
    assert_err(TY_INVALID_ARGUMENT, wire_url_decode(&a, TY_STR("a\0"), false, &s));
    ty_arena_clear(&a);
}

static void url_encodes(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 1024);
    wire_url_encode(&b, TY_STR("aZ09-._~ /+é\"%"));
    assert_text(&b, "aZ09-._~%20%2F%2B%C3%A9%22%25");
}

static void base64_round_trip(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"\xff\xfe\xfd", "//79"},
                                           {"fooba", "Zm9vYmE="}};
    struct ty_arena a = {0};
    struct ty_buf b;
    ty_str s;
    ty_buf_init(&b, 1024);
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        wire_base64_encode(&b, ty_str_of(cases[i][0]));
        assert_text(&b, cases[i][1]);
        assert_ok(wire_base64_decode(&a, ty_str_of(cases[i][1]), &s));
        assert_true(ty_str_is(s, cases[i][0]));
    }
    assert_ok(wire_base64_decode(&a, TY_STR("__79"), &s));
    assert_true(ty_str_is(s, "\xff\xfe\xfd"));
    assert_ok(wire_base64_decode(&a, TY_STR("Zm8"), &s));
    assert_true(ty_str_is(s, "fo"));
    ty_arena_clear(&a);
}

static void base64_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {"Z",      "Zg=",  "=",    "====", "Zm9v=",   "Zm 9",
                                      "Zm9v\n", "Zh==", "Zm9=", "a===", "Zg==Zg=="};
    struct ty_arena a = {0};
    ty_str s;
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        assert_err(TY_INVALID_ARGUMENT, wire_base64_decode(&a, ty_str_of(bad[i]), &s));
        assert_message("base64 byte");
    }
    ty_arena_clear(&a);
}

static void time_formats(void **state)
{
    (void)state;
    char out[WIRE_TIME_BYTES];
    assert_string_equal(wire_time_format(0, 9, out), "1970-01-01T00:00:00.000000000Z");
    assert_string_equal(wire_time_format(-1, 6, out), "1969-12-31T23:59:59.999999Z");
    assert_string_equal(wire_time_format(1709164800123456789, 6, out),
                        "2024-02-29T00:00:00.123456Z");
    assert_string_equal(wire_time_format(1709164800123456789, 0, out), "2024-02-29T00:00:00Z");
    assert_string_equal(wire_time_format(INT64_MAX, 9, out), "2262-04-11T23:47:16.854775807Z");
    assert_string_equal(wire_time_format(INT64_MIN, 9, out), "1677-09-21T00:12:43.145224192Z");
}

static void time_agrees_with_libc(void **state)
{
    (void)state;
    for (int64_t day = -106000; day < 106000; day++) {
        time_t seconds = (time_t)(day * 86400 + (day * 7919) % 86400);
        struct tm tm;
        char want[64], out[WIRE_TIME_BYTES];
        int64_t back;
        gmtime_r(&seconds, &tm);
        strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%SZ", &tm);
        assert_string_equal(wire_time_format(seconds * 1000000000, 0, out), want);
        assert_ok(wire_time_parse(ty_str_of(out), &back));
        assert_int_equal(back, seconds * 1000000000);
    }
}

static void time_parses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:01.5z", 1500000000},
        {"1970-01-01T01:00:00.000000001+01:00", 1},
        {"1969-12-31T18:30:00-05:30", 0},
        {"2024-02-29T00:00:00.123456789Z", 1709164800123456789},
        {"1677-09-21T00:12:43.145224192Z", INT64_MIN},
        {"1677-09-21T00:12:43.145224193Z", INT64_MIN + 1},
        {"1677-09-21T00:12:43.145224191Z", INT64_MIN},
        {"2262-04-11T23:47:16.854775807Z", INT64_MAX},
        {"2262-04-11T23:47:16.854775808Z", INT64_MAX},
        {"0001-01-01T00:00:00Z", INT64_MIN},
        {"0000-01-01T00:00:00Z", INT64_MIN},
        {"9999-12-31T23:59:59.999999999Z", INT64_MAX},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        int64_t ns = 7;
        assert_ok(wire_time_parse(ty_str_of(cases[i].text), &ns));
        assert_int_equal(ns, cases[i].ns);
    }
}

static void time_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2024",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00Z",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00.1234567890Z",
        "2024-01-01T00:00:00Zx",
        "2024-01-01T00:00:00+1:00",
        "2024-01-01T00:00:00+24:00",
        "2024-13-01T00:00:00Z",
        "2024-00-01T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2024-01-32T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:60:00Z",
        "2024-01-01T00:00:60Z",
        "-024-01-01T00:00:00Z",
    };
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        int64_t ns = 7;
        assert_err(TY_INVALID_ARGUMENT, wire_time_parse(ty_str_of(bad[i]), &ns));
        assert_int_equal(ns, 7);
        assert_message(bad[i]);
    }
    int64_t ns;
    assert_err(TY_INVALID_ARGUMENT, wire_time_parse(TY_STR("2024-01-01T00:00:00\0"), &ns));
}

static void duration_parses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        {"0s", 0},
        {"3600s", 3600000},
        {"1.5s", 1500},
        {"0.001s", 1},
        {"0.0000001s", 1},
        {"1.0010s", 1001},
        {"007s", 7000},
        {"315576000000s", 315576000000000},
        {"315576000001s", -1},
        {"99999999999999999999s", -1},
        {"-1s", -1},
        {"1", -1},
        {"s", -1},
        {".5s", -1},
        {"1.s", -1},
        {"1.1234567890s", -1},
        {"1m", -1},
        {"1 s", -1},
        {"", -1},
        {"1ss", -1},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        int64_t ms = -1;
        ty_err err = wire_duration_parse(ty_str_of(cases[i].text), &ms);
        assert_int_equal(err, cases[i].ms < 0 ? TY_INVALID_ARGUMENT : TY_OK);
        assert_int_equal(ms, cases[i].ms);
    }
}

static void name_eq(void **state)
{
    (void)state;
    assert_true(wire_name_eq(TY_STR("fooBar"), TY_STR("foo_bar")));
    assert_true(wire_name_eq(TY_STR("foo_bar"), TY_STR("fooBar")));
    assert_true(wire_name_eq(TY_STR("foo_bar"), TY_STR("foo_bar")));
    assert_true(wire_name_eq(TY_STR("resource.labels.job_id"), TY_STR("resource.labels.jobId")));
    assert_true(wire_name_eq(TY_STR(""), TY_STR("")));
    assert_false(wire_name_eq(TY_STR("fooBar"), TY_STR("foobar")));
    assert_false(wire_name_eq(TY_STR("fooBar"), TY_STR("foo_ba")));
    assert_false(wire_name_eq(TY_STR("foo"), TY_STR("foo_")));
    assert_false(wire_name_eq(TY_STR("foo"), TY_STR("")));
}

static void gs_names_have_files(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    static const char *const cases[][2] = {
        {"gs://bkt/a/b.tar.gz", "/d/buckets/bkt/a/b.tar.gz"},
        {"gs://bkt", "/d/buckets/bkt"},
        {"gs://bkt/", "/d/buckets/bkt"},
        {"gs://b.k-t_1/x y", "/d/buckets/b.k-t_1/x y"},
        {"gs://bkt/a//b", NULL},
        {"gs://bkt/a/", NULL},
        {"gs://bkt/../x", NULL},
        {"gs://bkt/a/./b", NULL},
        {"gs://../x", NULL},
        {"gs://.b.", NULL},
        {"gs://", NULL},
        {"gs:///x", NULL},
        {"gs://Bkt/x", NULL},
        {"gs://b k/x", NULL},
        {"gs:/bkt/x", NULL},
        {"s3://bkt/x", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        char *path = wire_gs_path(&a, "/d", ty_str_of(cases[i][0]));
        if (cases[i][1])
            assert_string_equal(path, cases[i][1]);
        else
            assert_null(path);
    }
    assert_null(wire_gs_path(&a, "/d", (ty_str){"gs://bkt/a\0b", 12}));
    char *wide = ty_format(&a, "gs://bkt/%0256d", 1);
    assert_null(wire_gs_path(&a, "/d", ty_str_of(wide)));
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("gs/names_have_files", gs_names_have_files),
    TEST("url/decodes", url_decodes),
    TEST("url/refuses", url_refuses),
    TEST("url/encodes", url_encodes),
    TEST("base64/round_trip", base64_round_trip),
    TEST("base64/refuses", base64_refuses),
    TEST("time/formats", time_formats),
    TEST("time/agrees_with_libc", time_agrees_with_libc),
    TEST("time/parses", time_parses),
    TEST("time/refuses", time_refuses),
    TEST("duration/parses", duration_parses),
    TEST("name/camel_and_snake_are_equal", name_eq),
};
RUN_GROUP(text)
