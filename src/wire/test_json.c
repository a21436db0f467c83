/* test_json.c -- JSON in and out. */
#include "wire/test_wire.h"

static void refuse(ty_str text, const char *words)
{
    json_t *value = NULL;
    assert_err(TY_INVALID_ARGUMENT, wire_json_parse(text, &value));
    assert_null(value);
    assert_message(words);
}
#define REFUSE(literal, words) refuse(TY_STR(literal), words)

static void json_round_trip(void **state)
{
    (void)state;
    static const char text[] =
        "{\"b\":[1,-2,1.5,1.0,1e+30,0.1],\"a\":{\"t\":true,\"f\":false,\"n\":null},"
        "\"s\":\"\\u0001\\\"\\\\/\\b\\f\\n\\r\\té😀\",\"e\":{},\"l\":[]}";
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    json_t *value = parse_json(text);
    wire_json_dump(&b, value);
    assert_text(&b, text);
    json_decref(value);
}

static void json_pretty(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    json_t *value = parse_json("{\"a\":[1,{\"b\":[]}],\"c\":{}}");
    wire_json_dump_pretty(&b, value);
    assert_text(&b, "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}");
    json_decref(value);
}

static void json_any_value(void **state)
{
    (void)state;
    json_t *value = parse_json(" \n\"x\" ");
    assert_string_equal(json_string_value(value), "x");
    json_decref(value);
}

static void json_refuses_malformed(void **state)
{
    (void)state;
    REFUSE("", "line 1, column 1");
    refuse((ty_str){NULL, 0}, "line 1, column 1");
    REFUSE(" \n ", "a value was expected");
    REFUSE("{\"a\":1,\n\"b\" 2}", "line 2");
    REFUSE("{} {}", "end of file expected");
    REFUSE("[1,]", "line 1");
    REFUSE("{'a':1}", "line 1");
    REFUSE("nan", "line 1");
    REFUSE("\"abc", "line 1");
    REFUSE("\"abc\\", "line 1");
    REFUSE("99999999999999999999", "too big integer");
    REFUSE("1e999", "real number overflow");
}

static void json_refuses_duplicates(void **state)
{
    (void)state;
    REFUSE("{\"a\":1,\n \"a\":2}", "line 2, column 4: duplicate object key");
}

static void json_refuses_nul_and_bad_utf8(void **state)
{
    (void)state;
    REFUSE("\"a\\u0000b\"", "a NUL character (\\u0000) is not allowed");
    REFUSE("\"a\0b\"", "line 1");
    REFUSE("{}\0", "line 1");
    REFUSE("[1,\n\"\xff\"]", "line 2, column 1: unable to decode byte 0xff");
    REFUSE("\"\xc0\x80\"", "unable to decode");
    REFUSE("\"\xed\xa0\x80\"", "unable to decode");
    REFUSE("\"\\ud800\"", "line 1");
}

static void json_depth_limit(void **state)
{
    (void)state;
    char text[2 * WIRE_MAX_DEPTH + 2];
    memset(text, '[', WIRE_MAX_DEPTH);
    memset(text + WIRE_MAX_DEPTH, ']', WIRE_MAX_DEPTH);
    json_t *value = NULL;
    assert_ok(wire_json_parse((ty_str){text, 2 * WIRE_MAX_DEPTH}, &value));
    json_decref(value);
    memset(text, '[', WIRE_MAX_DEPTH + 1);
    refuse((ty_str){text, WIRE_MAX_DEPTH + 1}, "line 1, column 65: more than 64 levels");
    REFUSE("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\" x",
           "end of file expected"); /* brackets in strings are no levels */
}

static void json_value_limit(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    ty_buf_addz(&b, "[[]");
    for (int i = 0; i < WIRE_MAX_VALUES; i++)
        ty_buf_addz(&b, ",[]");
    ty_buf_addz(&b, "]");
    refuse(ty_buf_str(&b), "more than 200000 values");
    ty_buf_clear(&b);
}

static void json_string_escapes(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    wire_json_string(&b, TY_STR("a\"b\\c\n\r\t\b\f\x01\x1f\x7f/é€😀"));
    assert_text(&b, "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f\x7f/é€😀\"");
    wire_json_string(&b, TY_STR("a\0b"));
    assert_text(&b, "\"a\xef\xbf\xbd"
                    "b\"");
    wire_json_string(&b, TY_STR("\xff"
                                "a\xc3"
                                "b\xe2\x82"
                                "c\xed\xa0\x80"
                                "d\xf0\x9f\x98"));
    assert_text(&b, "\"�a�b��c���d���\"");
    wire_json_string(&b, (ty_str){NULL, 0});
    assert_text(&b, "\"\"");
}

/* Every byte at every place of a long string: the fast path takes eight at a time. */
static void json_string_reads_back(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    for (int c = 1; c < 128; c++) {
        for (size_t at = 0; at < 20; at++) {
            char text[20];
            memset(text, 'x', sizeof text);
            text[at] = (char)c;
            ty_str s = {text, sizeof text};
            wire_json_string(&b, s);
            json_t *value = parse_json(b.ptr);
            assert_true(
                ty_str_eq(s, (ty_str){json_string_value(value), json_string_length(value)}));
            json_decref(value);
            ty_buf_clear(&b);
        }
    }
}

static void json_get_str(void **state)
{
    (void)state;
    json_t *value = parse_json("{\"a\":\"x\",\"b\":1}");
    assert_true(ty_str_is(wire_json_get_str(value, "a"), "x"));
    assert_int_equal(wire_json_get_str(value, "b").len, 0);
    assert_int_equal(wire_json_get_str(value, "c").len, 0);
    assert_int_equal(wire_json_get_str(NULL, "c").len, 0);
    json_decref(value);
}

static const struct CMUnitTest tests[] = {
    TEST("json/round_trip", json_round_trip),
    TEST("json/pretty", json_pretty),
    TEST("json/any_value", json_any_value),
    TEST("json/refuses_malformed", json_refuses_malformed),
    TEST("json/refuses_duplicates", json_refuses_duplicates),
    TEST("json/refuses_nul_and_bad_utf8", json_refuses_nul_and_bad_utf8),
    TEST("json/depth_limit", json_depth_limit),
    TEST("json/value_limit", json_value_limit),
    TEST("json/string_escapes", json_string_escapes),
    TEST("json/string_reads_back", json_string_reads_back),
    TEST("json/get_str", json_get_str),
};
RUN_GROUP(json)
