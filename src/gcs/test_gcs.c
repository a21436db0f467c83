/* test_gcs.c -- the parsers of bytes that clients choose, and the table against its document. */
#include "base/test.h"
#include "gcs/gcs_int.h"

/* ---- partial responses ---- */

#define LISTED                                                                                     \
    "{\"kind\":\"k\",\"prefixes\":[\"a/\",\"b,]}/"                                                 \
    "\"],\"items\":[{\"name\":\"x\\\"}\",\"size\":\"1\","                                          \
    "\"metadata\": {\"m\": \"1\", \"n-o\":\"2\"}},{\"name\":\"y\",\"size\":\"2\"}],"               \
    "\"nextPageToken\":\"t\"}"

static void check_fields(const char *text, const char *want)
{
    struct ty_arena a = {0};
    struct field *fields;
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    assert_ok(fields_parse(&a, ty_str_of(text), &fields));
    fields_select(&b, TY_STR(LISTED), fields);
    assert_string_equal(b.ptr, want);
    ty_buf_clear(&b);
    ty_arena_clear(&a);
}

static void fields_select_what_they_name(void **state)
{
    (void)state;
    check_fields("nextPageToken", "{\"nextPageToken\":\"t\"}");
    check_fields(
        "items(name,size),nextPageToken",
        "{\"items\":[{\"name\":\"x\\\"}\",\"size\":\"1\"},{\"name\":\"y\",\"size\":\"2\"}],"
        "\"nextPageToken\":\"t\"}");
    check_fields(
        "items/name,prefixes",
        "{\"prefixes\":[\"a/\",\"b,]}/\"],\"items\":[{\"name\":\"x\\\"}\"},{\"name\":\"y\"}]}");
    check_fields("items/metadata/n-o", "{\"items\":[{\"metadata\":{\"n-o\":\"2\"}},{}]}");
    check_fields("items(metadata(m),size),items/name,kind,none",
                 "{\"kind\":\"k\",\"items\":[{\"name\":\"x\\\"}\",\"size\":\"1\",\"metadata\":{"
                 "\"m\":\"1\"}},"
                 "{\"name\":\"y\",\"size\":\"2\"}]}");
    check_fields("*/name",
                 "{\"prefixes\":[\"a/\",\"b,]}/\"],\"items\":[{\"name\":\"x\\\"}\"},{\"name\":"
                 "\"y\"}]}");
    check_fields("*", LISTED);
    check_fields("items,items/name,kind/x",
                 "{\"items\":[{\"name\":\"x\\\"}\",\"size\":\"1\",\"metadata\": {\"m\": \"1\", "
                 "\"n-o\":\"2\"}},{\"name\":\"y\",\"size\":\"2\"}]}");
}

static void fields_bad_ones_are_refused(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct field *fields;
    char deep[64], many[4096];
    for (size_t i = 0; i + 1 < sizeof deep; i++)
        deep[i] = i % 2 ? '/' : 'a';
    deep[sizeof deep - 1] = '\0';
    many[0] = '\0';
    for (size_t i = 0; i < 600; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%sf%zu", i ? "," : "", i);
    const char *const texts[] = {"",  ",",   "a,",    "a(",    "a()", "a(b", "a)", "a//b",
                                 "/", "a b", "a(b)c", "\"a\"", "a;b", "()",  deep, many};
    for (size_t i = 0; i < TY_COUNT(texts); i++)
        assert_err(TY_INVALID_ARGUMENT, fields_parse(&a, ty_str_of(texts[i]), &fields));
    ty_arena_clear(&a);
}

/* ---- ranges ---- */

static void check_range(const char *text, int64_t size, enum range_kind kind, int64_t first,
                        int64_t last)
{
    int64_t a = -7, b = -7;
    assert_int_equal(range_parse(ty_str_of(text), size, &a, &b), kind);
    if (kind == RANGE_PART) {
        assert_int_equal(a, first);
        assert_int_equal(b, last);
    }
}

static void range_single(void **state)
{
    (void)state;
    check_range("bytes=0-99", 200, RANGE_PART, 0, 99);
    check_range("bytes=100-", 200, RANGE_PART, 100, 199);
    check_range("bytes=-5", 200, RANGE_PART, 195, 199);
    check_range("bytes=-500", 200, RANGE_PART, 0, 199);
    check_range("bytes=150-900", 200, RANGE_PART, 150, 199);
    check_range("bytes=0-0", 1, RANGE_PART, 0, 0);
}

static void range_beyond(void **state)
{
    (void)state;
    check_range("bytes=200-", 200, RANGE_BEYOND, 0, 0);
    check_range("bytes=200-300", 200, RANGE_BEYOND, 0, 0);
    check_range("bytes=0-", 0, RANGE_BEYOND, 0, 0);
    check_range("bytes=-0", 200, RANGE_BEYOND, 0, 0);
    check_range("bytes=9223372036854775807-", 200, RANGE_BEYOND, 0, 0);
}

static void range_nonsense_is_the_whole(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",          "bytes",      "bytes=",     "bytes=a-b",
        "bytes=5-2", "bytes=--5",  "bytes=1-2-", "bytes=0-1,4-5",
        "lines=0-1", "bytes=+1-2", "bytes=1- 2", "bytes=99999999999999999999-",
    };
    for (size_t i = 0; i < TY_COUNT(texts); i++)
        check_range(texts[i], 200, RANGE_WHOLE, 0, 0);
}

static void content_range_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct content_range want;
    } rows[] = {
        {"bytes 0-99/200", {0, 99, 200}}, {"bytes 0-99/*", {0, 99, -1}},
        {"bytes */200", {-1, -1, 200}},   {"bytes */*", {-1, -1, -1}},
        {" bytes 5-5/6 ", {5, 5, 6}},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct content_range r;
        assert_int_equal(content_range_parse(ty_str_of(rows[i].text), &r), TY_OK);
        assert_int_equal(r.first, rows[i].want.first);
        assert_int_equal(r.last, rows[i].want.last);
        assert_int_equal(r.total, rows[i].want.total);
    }
}

static void content_range_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "bytes",
        "bytes 5-2/9",
        "bytes 0-9/9",
        "bytes 0-9",
        "bytes a/b",
        "bytes -1-5/9",
        "bytes 0-5/-9",
        "octets 0-1/2",
        "bytes /",
        "bytes 1-/5",
        "bytes 0-9223372036854775807/*",
    };
    for (size_t i = 0; i < TY_COUNT(texts); i++) {
        struct content_range r = {7, 7, 7};
        assert_int_equal(content_range_parse(ty_str_of(texts[i]), &r), TY_INVALID_ARGUMENT);
        assert_int_equal(r.first, 7);
        assert_non_null(strstr(ty_err_message(), "Content-Range"));
    }
}

/* ---- multipart ---- */

struct heard {
    struct ty_buf parts; /* "[headers|data]" each */
    size_t count;
};

static ty_err hear_part(void *arg, size_t index, ty_str headers)
{
    struct heard *h = arg;
    assert_int_equal(index, h->count);
    h->count++;
    ty_buf_addf(&h->parts, "[" TY_STR_FMT "|", TY_STR_ARG(part_header(headers, "X-Name")));
    return TY_OK;
}

static ty_err hear_data(void *arg, size_t index, ty_str bytes)
{
    struct heard *h = arg;
    assert_int_equal(index + 1, h->count);
    assert_true(bytes.len > 0);
    ty_buf_adds(&h->parts, bytes);
    return TY_OK;
}

static const struct multipart_events hearing = {hear_part, hear_data};

/* Feed `body` in pieces of `step` bytes; what was heard is in h->parts. */
static ty_err hear_in_steps(const char *type, ty_str body, size_t step, struct heard *h)
{
    struct multipart m;
    *h = (struct heard){0};
    ty_buf_init(&h->parts, 4096);
    ty_err err = multipart_init(&m, ty_str_of(type), &hearing, h);
    if (err != TY_OK)
        return err;
    while (body.len > 0 && err == TY_OK) {
        ty_str piece = {body.ptr, body.len < step ? body.len : step};
        err = multipart_feed(&m, piece);
        body = ty_str_drop(body, piece.len);
    }
    if (err == TY_OK)
        err = multipart_end(&m);
    multipart_clear(&m);
    return err;
}

static void check_multipart(const char *type, ty_str body, const char *want)
{
    for (size_t step = 1; step <= body.len + 1; step++) {
        struct heard h;
        assert_int_equal(hear_in_steps(type, body, step, &h), TY_OK);
        assert_string_equal(h.parts.ptr, want);
        ty_buf_clear(&h.parts);
    }
}

static const char plain_type[] = "multipart/related; boundary=xyz";

static void multipart_crlf(void **state)
{
    (void)state;
    check_multipart(plain_type,
                    TY_STR("--xyz\r\nX-Name: a\r\n\r\n{\"n\":1}\r\n--xyz\r\nx-name:  b \r\n\r\n"
                           "line\r\n--xy\r\nz\r\r\n--xyz--\r\n"),
                    "[a|{\"n\":1}[b|line\r\n--xy\r\nz\r");
}

static void multipart_bare_lf_keeps_cr(void **state)
{
    (void)state;
    check_multipart("multipart/related; boundary=\"xyz\"",
                    TY_STR("--xyz\nX-Name: a\n\n1\n--xyz\n\nends in cr\r\n--xyz--"),
                    "[a|1[|ends in cr\r");
}

/* As gcloud and gsutil send it: the quotes are in the header only. */
static void multipart_single_quotes(void **state)
{
    (void)state;
    check_multipart("multipart/related; boundary='==7=='",
                    TY_STR("--==7==\nX-Name: a\nMIME-Version: 1.0\n\n{}\n--==7==\n\nbytes\n"
                           "--==7==--\n"),
                    "[a|{}[|bytes");
}

static void multipart_empty_parts(void **state)
{
    (void)state;
    check_multipart(plain_type, TY_STR("--xyz\r\n\r\n\r\n--xyz\r\n\r\n--xyz--"), "[|[|");
    check_multipart(plain_type,
                    TY_STR("preamble\r\n--xyz\r\nX-Name: a\r\n\r\n\n\r\n--xyz--epilogue"), "[a|\n");
}

static void check_refused(const char *type, const char *body, const char *why)
{
    size_t len = strlen(body);
    for (size_t step = 1; step <= len + 1; step++) {
        struct heard h;
        assert_int_equal(hear_in_steps(type, ty_str_of(body), step, &h), TY_INVALID_ARGUMENT);
        if (!strstr(ty_err_message(), why))
            fail_msg("'%s' is not in: %s", why, ty_err_message());
        ty_buf_clear(&h.parts);
    }
}

static void multipart_broken(void **state)
{
    (void)state;
    check_refused("multipart/related", "--xyz\r\n", "boundary of 1 to");
    check_refused("multipart/related; boundary=", "--\r\n", "boundary of 1 to");
    check_refused(plain_type, "", "no line is '--xyz'");
    check_refused(plain_type, "{\"name\":1}\r\n--abc\r\n", "no line is '--xyz'");
    check_refused(plain_type, "--xyz\r\nX-Name: a\r\n", "no line is '--xyz'");
    check_refused(plain_type, "--xyz\r\n\r\ndata\r\n--xy", "ends in part 1");
    check_refused(plain_type, "--xyz\r\n\r\ndata\r\n--xyz", "ends in part 1");
    check_refused(plain_type, "--xyz\r\n\r\ndata\r\n--xyzzy\r\n", "its own delimiter");
}

static void multipart_header_ceiling(void **state)
{
    (void)state;
    struct ty_buf body;
    struct heard h;
    ty_buf_init(&body, 1 << 20);
    ty_buf_addz(&body, "--xyz\r\n");
    for (int i = 0; i < 4000; i++)
        ty_buf_addf(&body, "X-%d: y\r\n", i);
    assert_int_equal(hear_in_steps(plain_type, ty_buf_str(&body), 1000, &h), TY_INVALID_ARGUMENT);
    assert_non_null(strstr(ty_err_message(), "longer than"));
    ty_buf_clear(&body);
    ty_buf_clear(&h.parts);
}

/* ---- batch ---- */

static void batch_calls(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct batch_call *calls;
    size_t count;
    ty_str body = TY_STR("--b\nContent-Type: application/http\nContent-ID: <x+1>\n\n"
                         "PATCH /storage/v1/b/B?alt=json HTTP/1.1\nContent-Length: 7\n\n"
                         "{\"a\":1}\n\n--b\nContent-Type: application/http\n\n"
                         "DELETE http://127.0.0.1:1/storage/v1/b/B/o/a%2Fb HTTP/1.1\n\n\n--b--");
    assert_int_equal(
        batch_parse(&a, TY_STR("multipart/mixed; boundary=\"b\""), body, &calls, &count), TY_OK);
    assert_int_equal(count, 2);
    assert_int_equal(calls[0].method, HTTP_PATCH);
    assert_true(ty_str_is(calls[0].target, "/storage/v1/b/B?alt=json"));
    assert_true(ty_str_is(calls[0].body, "{\"a\":1}"));
    assert_true(ty_str_is(calls[0].id, "<x+1>"));
    assert_int_equal(calls[1].method, HTTP_DELETE);
    assert_true(ty_str_is(calls[1].target, "/storage/v1/b/B/o/a%2Fb"));
    assert_int_equal(calls[1].body.len, 0);
    ty_arena_clear(&a);
}

static void batch_refused(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct batch_call *calls;
    size_t count;
    ty_str type = TY_STR("multipart/mixed; boundary=b");
    assert_int_equal(batch_parse(&a, type, TY_STR("--b\n\nnonsense\n--b--"), &calls, &count),
                     TY_INVALID_ARGUMENT);
    assert_int_equal(batch_parse(&a, type, TY_STR("--b\n\n\n--b--"), &calls, &count),
                     TY_INVALID_ARGUMENT);
    struct ty_buf body;
    ty_buf_init(&body, 1 << 20);
    for (int i = 0; i <= GCS_BATCH_CALLS; i++)
        ty_buf_addz(&body, "--b\n\nGET /storage/v1/b HTTP/1.1\n\n\n");
    ty_buf_addz(&body, "--b--");
    assert_int_equal(batch_parse(&a, type, ty_buf_str(&body), &calls, &count), TY_INVALID_ARGUMENT);
    assert_non_null(strstr(ty_err_message(), "more than 100 calls"));
    ty_buf_clear(&body);
    ty_arena_clear(&a);
}

/* ---- settings ---- */

static ty_err apply(struct ty_arena *a, const char *text, struct object_settings *s)
{
    json_t *in;
    assert_int_equal(wire_json_parse(ty_str_of(text), &in), TY_OK);
    ty_err err = settings_apply(a, in, s);
    json_decref(in);
    return err;
}

static void settings_merge(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct object_settings s = {0};
    assert_int_equal(
        apply(&a, "{\"contentType\":\"t/x\",\"metadata\":{\"a\":\"1\",\"b\":\"2\"}}", &s), TY_OK);
    assert_int_equal(apply(&a, "{\"contentType\":null,\"metadata\":{\"a\":null,\"c\":\"3\"}}", &s),
                     TY_OK);
    assert_int_equal(s.content_type.len, 0);
    assert_true(ty_str_is(s.metadata, "{\"b\":\"2\",\"c\":\"3\"}"));
    assert_int_equal(apply(&a, "{\"metadata\":null}", &s), TY_OK);
    assert_int_equal(s.metadata.len, 0);
    ty_arena_clear(&a);
}

static void settings_refused(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct object_settings s = {0};
    assert_int_equal(apply(&a, "{\"contentType\":\"a\\r\\nSet-Cookie: x\"}", &s),
                     TY_INVALID_ARGUMENT);
    assert_non_null(strstr(ty_err_message(), "contentType"));
    assert_int_equal(apply(&a, "{\"metadata\":{\"a\":1}}", &s), TY_INVALID_ARGUMENT);
    assert_non_null(strstr(ty_err_message(), "metadata.a"));
    assert_int_equal(apply(&a, "{\"contentType\":7}", &s), TY_INVALID_ARGUMENT);
    assert_int_equal(apply(&a, "{\"temporaryHold\":true}", &s), TY_UNIMPLEMENTED);
    assert_int_equal(apply(&a, "{\"temporaryHold\":false}", &s), TY_OK);
    ty_arena_clear(&a);
}

static void declared_hashes(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct http_param header = {.name = TY_STR("x-goog-hash"),
                                .value = TY_STR("crc32c=AAAAAQ==, md5=1B2M2Y8AsgTpgAmY7PhCfg==")};
    struct http_request req = {.arena = &a, .headers = &header};
    struct declared d = {0};
    assert_int_equal(declared_from_headers(&req, &d), TY_OK);
    assert_int_equal(d.given, DECLARED_MD5 | DECLARED_CRC32C);
    assert_int_equal(d.crc32c, 1);
    assert_int_equal(d.md5[0], 0xd4);
    header.value = TY_STR("md5=AAAA");
    assert_int_equal(declared_from_headers(&req, &d), TY_INVALID_ARGUMENT);
    header.value = TY_STR("nonsense");
    assert_int_equal(declared_from_headers(&req, &d), TY_INVALID_ARGUMENT);
    ty_arena_clear(&a);
}

/* ---- the document ---- */

static void document_has_the_routes(void **state)
{
    (void)state;
    static const char *const names[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"};
    struct ty_arena a = {0};
    ty_str text;
    struct gcs g = {0};
    struct http_routes tables[GCS_TABLES];
    assert_int_equal(ty_file_read(AT_FDCWD, COMPAT_MD, 1 << 20, &a, &text), TY_OK);
    gcs_routes(&g, tables);
    for (size_t t = 0; t < GCS_TABLES; t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            const char *row = ty_format(&a, "| `%s %s` |", names[tables[t].rows[i].method],
                                        tables[t].rows[i].path);
            if (!memmem(text.ptr, text.len, row, strlen(row)))
                fail_msg("compat.md lacks %s", row);
        }
    }
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("fields/select_what_they_name", fields_select_what_they_name),
    TEST("fields/bad_ones_are_refused", fields_bad_ones_are_refused),
    TEST("range/single", range_single),
    TEST("range/beyond", range_beyond),
    TEST("range/nonsense_is_the_whole", range_nonsense_is_the_whole),
    TEST("content_range/forms", content_range_forms),
    TEST("content_range/refused", content_range_refused),
    TEST("multipart/crlf", multipart_crlf),
    TEST("multipart/bare_lf_keeps_cr", multipart_bare_lf_keeps_cr),
    TEST("multipart/single_quotes", multipart_single_quotes),
    TEST("multipart/empty_parts", multipart_empty_parts),
    TEST("multipart/broken", multipart_broken),
    TEST("multipart/header_ceiling", multipart_header_ceiling),
    TEST("batch/calls", batch_calls),
    TEST("batch/refused", batch_refused),
    TEST("settings/merge", settings_merge),
    TEST("settings/refused", settings_refused),
    TEST("settings/declared_hashes", declared_hashes),
    TEST("compat/document_has_the_routes", document_has_the_routes),
};
TEST_MAIN("gcs", tests)
