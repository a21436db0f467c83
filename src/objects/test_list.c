/* test_list.c -- pages, delimiters, globs, tokens; resumable sessions. */
#include "objects/test_objects.h"

#include "wire/wire.h"

static void put_all(struct fixture *f, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        put(f, names[i], names[i]);
}

static const char *const tree[] = {"a/1", "a/2", "a/b/3", "a/b/4", "ab", "b", "c/d/e/5", "z", NULL};

static void list_prefix_and_delimiter(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put_all(&f, tree);
    assert_string_equal(list(&f, (struct object_query){0}), "a/1 a/2 a/b/3 a/b/4 ab b c/d/e/5 z");
    assert_string_equal(list(&f, (struct object_query){.delimiter = TY_STR("/")}), "ab b z|a/ c/");
    assert_string_equal(
        list(&f, (struct object_query){.prefix = TY_STR("a/"), .delimiter = TY_STR("/")}),
        "a/1 a/2|a/b/");
    assert_string_equal(list(&f, (struct object_query){.prefix = TY_STR("a")}),
                        "a/1 a/2 a/b/3 a/b/4 ab");
    assert_string_equal(
        list(&f, (struct object_query){.start = TY_STR("a/b/4"), .end = TY_STR("c")}),
        "a/b/4 ab b");
    assert_string_equal(list(&f, (struct object_query){.prefix = TY_STR("nothing")}), "");
    assert_string_equal(list(&f, (struct object_query){.delimiter = TY_STR("b/")}),
                        "a/1 a/2 ab b c/d/e/5 z|a/b/");
    put(&f, "a/b/", "");
    assert_string_equal(list(&f, (struct object_query){.prefix = TY_STR("a/"),
                                                       .delimiter = TY_STR("/"),
                                                       .include_trailing_delimiter = true}),
                        "a/1 a/2 a/b/|a/b/");
    struct object_page page;
    struct object_query query = {.bucket = TY_STR("nowhere")};
    assert_err(TY_NOT_FOUND, objects_list(f.o, &f.a, &query, &page));
    fixture_close(&f);
}

/* Every page size gives the same names, each once, in order. */
static void list_pages_join(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put_all(&f, tree);
    for (size_t limit = 1; limit <= 9; limit++)
        for (int delimited = 0; delimited < 2; delimited++) {
            struct object_query query = {.bucket = BUCKET,
                                         .delimiter = delimited ? TY_STR("/") : TY_STR(""),
                                         .limit = limit};
            size_t items = 0, prefixes = 0, pages = 0;
            do {
                struct object_page page;
                assert_ok(objects_list(f.o, &f.a, &query, &page));
                assert_true(page.item_count + page.prefix_count <= limit);
                items += page.item_count;
                prefixes += page.prefix_count;
                query.token = page.next_token;
                assert_true(++pages < 20);
            } while (query.token.len > 0);
            assert_int_equal(items, delimited ? 3 : 8);
            assert_int_equal(prefixes, delimited ? 2 : 0);
        }
    struct object_page page;
    struct object_query query = {.bucket = BUCKET, .token = TY_STR("!!")};
    assert_err(TY_INVALID_ARGUMENT, objects_list(f.o, &f.a, &query, &page));
    fixture_close(&f);
}

static ty_err edit_versions(struct ty_arena *a, struct bucket *b, void *arg)
{
    (void)a;
    (void)arg;
    b->versioning = true;
    return TY_OK;
}

static void list_versions_page(void **state)
{
    (void)state;
    struct fixture f;
    struct bucket b;
    fixture_open(&f);
    assert_ok(objects_bucket_patch(f.o, &f.a, BUCKET, NULL, edit_versions, NULL, &b));
    for (int i = 0; i < 3; i++)
        put_all(&f, (const char *const[]){"x", "y", NULL});
    struct object_query query = {.bucket = BUCKET, .versions = true, .limit = 2};
    int64_t last = 0;
    size_t count = 0;
    do {
        struct object_page page;
        assert_ok(objects_list(f.o, &f.a, &query, &page));
        for (size_t i = 0; i < page.item_count; i++, count++) {
            assert_true(ty_str_is(page.items[i].name, count < 3 ? "x" : "y"));
            assert_true(count == 3 || page.items[i].generation > last);
            assert_int_equal(page.items[i].delete_ns == 0, count % 3 == 2);
            last = page.items[i].generation;
        }
        query.token = page.next_token;
    } while (query.token.len > 0);
    assert_int_equal(count, 6);
    fixture_close(&f);
}

/* ---- globs ---- */

static void glob_matches(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *name;
        bool matches;
    } cases[] = {
        {"*", "abc", true},
        {"*", "a/b", false},
        {"**", "a/b", true},
        {"a/*.txt", "a/x.txt", true},
        {"a/*.txt", "a/b/x.txt", false},
        {"a/**.txt", "a/b/x.txt", true},
        {"a?c", "abc", true},
        {"a?c", "a/c", false},
        {"a?c",
         "a\xc3\xa9"
         "c",
         true},
        {"[a-c]x", "bx", true},
        {"[a-c]x", "dx", false},
        {"[!a-c]x", "dx", true},
        {"[]]", "]", true},
        {"{a,bc}d", "bcd", true},
        {"{a,bc}d", "abcd", false},
        {"{a,{b,c}}d", "cd", true},
        {"**/x", "a/b/x", true},
        {"**/x", "x", false},
        {"", "", true},
        {"abc", "abc", true},
        {"abc", "abcd", false},
        {"{*.a,*.b}", "x.b", true},
        {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true},
        {"{a,}b", "b", true},
        {"x[{]y", "x{y", true},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        assert_ok(objects_glob_check(ty_str_of(cases[i].glob)));
        if (objects_glob_match(ty_str_of(cases[i].glob), ty_str_of(cases[i].name)) !=
            cases[i].matches)
            fail_msg("'%s' and '%s'", cases[i].glob, cases[i].name);
    }
    static const char *const bad[] = {"[abc", "{a,b", "{a,{b}", "[", "{{{{{a}}}}}", "\xff"};
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_err(TY_INVALID_ARGUMENT, objects_glob_check(ty_str_of(bad[i])));
    char stars[500]; /* made to be slow: it ends */
    for (size_t i = 0; i < sizeof stars; i++)
        stars[i] = "a*"[i % 2];
    char as[1000];
    memset(as, 'a', sizeof as);
    assert_false(objects_glob_match((ty_str){stars, 499}, (ty_str){as, sizeof as - 1}) &&
                 stars[498] == 'b');
}

static void glob_in_a_list(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put_all(&f, tree);
    assert_string_equal(list(&f, (struct object_query){.glob = TY_STR("a/*")}), "a/1 a/2");
    assert_string_equal(list(&f, (struct object_query){.glob = TY_STR("a/**")}),
                        "a/1 a/2 a/b/3 a/b/4");
    assert_string_equal(list(&f, (struct object_query){.glob = TY_STR("{b,z}")}), "b z");
    struct object_page page;
    struct object_query query = {.bucket = BUCKET, .glob = TY_STR("[")};
    assert_err(TY_INVALID_ARGUMENT, objects_list(f.o, &f.a, &query, &page));
    fixture_close(&f);
}

/* ---- names ---- */

static void names_are_checked(void **state)
{
    (void)state;
    char longest[1026];
    memset(longest, 'x', 1025);
    longest[1025] = '\0';
    static const char *const bad[] = {
        "", ".", "..", "a\nb", "a\rb", "\xff", ".well-known/acme-challenge/x"};
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_err(TY_INVALID_ARGUMENT, objects_name_check(ty_str_of(bad[i])));
    assert_err(TY_INVALID_ARGUMENT, objects_name_check(ty_str_of(longest)));
    assert_ok(objects_name_check((ty_str){longest, 1024}));
    assert_ok(objects_name_check(TY_STR("\xc3\xa9 \\ * ? # %2F")));
    static const char *const bad_buckets[] = {
        "ab", "Abc", "a..b", "-ab", "ab-", "a/b", "../up", "", "a b", "192.168.5.4", "0.0.0.255"};
    for (size_t i = 0; i < TY_COUNT(bad_buckets); i++)
        assert_err(TY_INVALID_ARGUMENT, objects_bucket_name_check(ty_str_of(bad_buckets[i])));
    assert_err(TY_INVALID_ARGUMENT, objects_bucket_name_check((ty_str){longest, 64}));
    static const char *const fine[] = {"my-bucket_1.example.com", "192.168.5",    "192.168.5.4.5",
                                       "192.168.5.256",           "192.168.5.a4", "1.2.3.4444"};
    for (size_t i = 0; i < TY_COUNT(fine); i++)
        assert_ok(objects_bucket_name_check(ty_str_of(fine[i])));
}

/* ---- sessions ---- */

static void session_make(struct fixture *f, const char *name, int64_t size,
                         char id[OBJECTS_SESSION_BYTES])
{
    struct object_settings settings = {.content_type = TY_STR("text/x")};
    struct object_target target = {
        .bucket = BUCKET, .name = ty_str_of(name), .settings = &settings};
    assert_ok(objects_session_create(f->o, &target, size, NULL, NULL, id));
}

static int64_t session_offset(struct fixture *f, const char *id)
{
    struct objects_session s;
    assert_ok(objects_session_get(f->o, &f->a, ty_str_of(id), &s));
    return s.offset;
}

static void session_survives_a_restart(void **state)
{
    (void)state;
    struct fixture f;
    char id[OBJECTS_SESSION_BYTES];
    struct objects_upload *u;
    int64_t offset;
    fixture_open(&f);
    session_make(&f, "big", -1, id);
    assert_ok(objects_session_resume(f.o, ty_str_of(id), 0, -1, &u));
    assert_ok(objects_upload_write(u, "Hello", 5));
    assert_ok(objects_upload_pause(u, &offset));
    assert_int_equal(offset, 5);
    assert_ok(objects_upload_write(u, "lost", 4)); /* never recorded */
    objects_upload_free(u);
    fixture_reopen(&f);
    assert_int_equal(session_offset(&f, id), 5);
    assert_err(TY_OUT_OF_RANGE, objects_session_resume(f.o, ty_str_of(id), 6, -1, &u));
    assert_ok(objects_session_resume(f.o, ty_str_of(id), 3, 12, &u)); /* two bytes it has already */
    assert_int_equal(objects_upload_offset(u), 3);
    assert_ok(objects_upload_write(u, "lo, world", 9));
    struct object made, again;
    assert_ok(objects_upload_finish(u, &f.a, &made));
    objects_upload_free(u);
    assert_holds(&f, "big", "Hello, world");
    assert_true(ty_str_is(made.settings.content_type, "text/x"));
    fixture_reopen(&f); /* who did not hear the answer asks again */
    struct objects_session s;
    assert_ok(objects_session_get(f.o, &f.a, ty_str_of(id), &s));
    assert_true(s.done && s.object.generation == made.generation && s.object.size == 12);
    assert_memory_equal(s.object.md5, made.md5, 16);
    assert_int_equal(s.object.crc32c, made.crc32c);
    assert_err(TY_ABORTED, objects_session_resume(f.o, ty_str_of(id), 12, -1, &u));
    assert_ok(objects_session_cancel(f.o, ty_str_of(id))); /* forgets the session, not the object */
    assert_ok(objects_get(f.o, &f.a, ref_of("big"), NULL, &again));
    fixture_close(&f);
}

static void session_ends_with_its_bucket(void **state)
{
    (void)state;
    struct fixture f;
    char id[OBJECTS_SESSION_BYTES], other[OBJECTS_SESSION_BYTES];
    struct objects_upload *u;
    struct objects_session s;
    int64_t offset;
    fixture_open(&f);
    bucket_make(&f, TY_STR("other"));
    struct object_target target = {.bucket = TY_STR("other"), .name = TY_STR("x")};
    assert_ok(objects_session_create(f.o, &target, -1, NULL, NULL, other));
    session_make(&f, "big", -1, id);
    assert_ok(objects_session_resume(f.o, ty_str_of(id), 0, -1, &u));
    assert_ok(objects_upload_write(u, "Hello", 5));
    assert_ok(objects_upload_pause(u, &offset));
    objects_upload_free(u);
    assert_int_equal(disk_count(&f, "staging"), 1);
    assert_ok(objects_bucket_delete(f.o, BUCKET, NULL));
    assert_int_equal(disk_count(&f, "staging"), 0);
    assert_err(TY_NOT_FOUND, objects_session_get(f.o, &f.a, ty_str_of(id), &s));
    assert_ok(objects_session_get(f.o, &f.a, ty_str_of(other), &s));
    assert_int_equal(ask(&f, "SELECT open FROM session_count"), 1);
    fixture_close(&f);
}

static void session_refuses_what_cannot_be(void **state)
{
    (void)state;
    struct fixture f;
    char id[OBJECTS_SESSION_BYTES];
    struct objects_upload *u, *second;
    struct object made;
    fixture_open(&f);
    session_make(&f, "x", 10, id);
    assert_err(TY_INVALID_ARGUMENT, objects_session_resume(f.o, ty_str_of(id), 0, 11, &u));
    assert_ok(objects_session_resume(f.o, ty_str_of(id), 0, 10, &u));
    assert_err(TY_ABORTED, objects_session_resume(f.o, ty_str_of(id), 0, 10, &second));
    assert_err(TY_INVALID_ARGUMENT, objects_upload_write(u, "12345678901", 11));
    assert_ok(objects_upload_write(u, "12345", 5));
    assert_err(TY_INVALID_ARGUMENT, objects_upload_finish(u, &f.a, &made));
    objects_upload_free(u);
    assert_int_equal(session_offset(&f, id), 0);
    assert_ok(objects_session_cancel(f.o, ty_str_of(id)));
    assert_err(TY_NOT_FOUND, objects_session_resume(f.o, ty_str_of(id), 0, 10, &u));
    assert_err(TY_NOT_FOUND, objects_session_cancel(f.o, TY_STR("../../etc/passwd")));
    assert_int_equal(disk_count(&f, "staging"), 0);
    fixture_close(&f);
}

static void session_checks_hashes(void **state)
{
    (void)state;
    struct fixture f;
    char id[OBJECTS_SESSION_BYTES];
    struct objects_upload *u;
    struct object made;
    uint32_t crc = wire_crc32c(0, "abc", 3), wrong = crc ^ 1;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("x")};
    fixture_open(&f);
    for (int i = 0; i < 2; i++) {
        assert_ok(objects_session_create(f.o, &target, 3, NULL, i ? &crc : &wrong, id));
        assert_ok(objects_session_resume(f.o, ty_str_of(id), 0, -1, &u));
        assert_ok(objects_upload_write(u, "abc", 3));
        assert_int_equal(objects_upload_finish(u, &f.a, &made), i ? TY_OK : TY_INVALID_ARGUMENT);
        objects_upload_free(u);
    }
    fixture_close(&f);
}

static void session_expires(void **state)
{
    (void)state;
    struct fixture f;
    char id[OBJECTS_SESSION_BYTES];
    struct objects_upload *u;
    struct objects_session s;
    int64_t offset;
    fixture_open(&f);
    session_make(&f, "x", 10, id);
    assert_ok(objects_session_resume(f.o, ty_str_of(id), 0, 10, &u));
    assert_ok(objects_upload_write(u, "12345", 5));
    assert_ok(objects_upload_pause(u, &offset));
    objects_upload_free(u);
    assert_int_equal(disk_count(&f, "staging"), 1);
    ask(&f, "UPDATE session SET expire_ns = 1");
    assert_err(TY_NOT_FOUND, objects_session_get(f.o, &f.a, ty_str_of(id), &s));
    assert_ok(objects_sweep(f.o));
    assert_int_equal(disk_count(&f, "staging"), 0);
    assert_int_equal(ask(&f, "SELECT count(*) FROM session"), 0);
    assert_int_equal(ask(&f, "SELECT open FROM session_count"), 0);
    fixture_close(&f);
}

/* An open session is a row: none of them holds a file, a descriptor or memory. */
static void session_ceiling(void **state)
{
    (void)state;
    struct fixture f;
    char id[OBJECTS_SESSION_BYTES];
    fixture_open(&f);
    session_make(&f, "x", -1, id);
    assert_int_equal(disk_count(&f, "staging"), 0);
    ask(&f, "UPDATE session_count SET open = 99999");
    session_make(&f, "y", -1, id);
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("z")};
    char none[OBJECTS_SESSION_BYTES];
    assert_err(TY_RESOURCE_EXHAUSTED, objects_session_create(f.o, &target, -1, NULL, NULL, none));
    assert_ok(objects_session_cancel(f.o, ty_str_of(id)));
    assert_ok(objects_session_create(f.o, &target, -1, NULL, NULL, id));
    fixture_close(&f);
}

static const struct CMUnitTest tests[] = {
    TEST("list/prefix_and_delimiter", list_prefix_and_delimiter),
    TEST("list/pages_join", list_pages_join),
    TEST("list/versions_page", list_versions_page),
    TEST("glob/matches", glob_matches),
    TEST("glob/in_a_list", glob_in_a_list),
    TEST("name/is_checked", names_are_checked),
    TEST("session/ends_with_its_bucket", session_ends_with_its_bucket),
    TEST("session/survives_a_restart", session_survives_a_restart),
    TEST("session/refuses_what_cannot_be", session_refuses_what_cannot_be),
    TEST("session/checks_hashes", session_checks_hashes),
    TEST("session/expires", session_expires),
    TEST("session/ceiling", session_ceiling),
};
TEST_MAIN("objects_list", tests)
