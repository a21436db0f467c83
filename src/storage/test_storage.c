/* test_storage.c -- URLs, wildcards, where copies go, gsutil's options, hashes, texts. What needs a
 * server is in tests/clients/test_storage_command.py. */
#include "base/test.h"
#include "storage/storage_int.h"

static struct ty_arena arena;

static struct storage_url url_of(const char *text)
{
    struct storage_url url = {0};
    assert_ok(storage_url_parse(ty_str_of(text), STORAGE_GSUTIL, &url));
    return url;
}

static void assert_str(ty_str got, const char *want)
{
    if (!ty_str_is(got, want))
        fail_msg("got '" TY_STR_FMT "', want '%s'", TY_STR_ARG(got), want);
}

/* ---- URLs ---- */

static void url_parts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool cloud;
        const char *bucket, *name, *generation;
    } rows[] = {
        {"gs://", true, "", "", ""},
        {"gs://b", true, "b", "", ""},
        {"gs://b/", true, "b", "", ""},
        {"gs://b/a/b.txt", true, "b", "a/b.txt", ""},
        {"gs://b/a#12", true, "b", "a", "12"},
        {"gs://b/a#1x", true, "b", "a#1x", ""},
        {"gs://b/#12", true, "b", "#12", ""},
        {"gs://b//a", true, "b", "/a", ""},
        {"gs://b/d/", true, "b", "d/", ""},
        {"file://d/a", false, "", "d/a", ""},
        {"/tmp/a#12", false, "", "/tmp/a#12", ""},
        {"a:b", false, "", "a:b", ""},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct storage_url url = url_of(rows[i].text);
        assert_int_equal(url.cloud, rows[i].cloud);
        assert_str(url.bucket, rows[i].bucket);
        assert_str(url.name, rows[i].name);
        assert_str(url.generation, rows[i].generation);
    }
    assert_true(url_of("-").stream);
    assert_true(url_of("file://-").stream);
    assert_false(url_of("gs://b/-").stream);
}

static void url_refused(void **state)
{
    (void)state;
    struct storage_url url;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"gs:///a",
         "InvalidUrlError: Cloud URL scheme should be followed by colon and two slashes: "
         "\"://\". Found: \"gs:///a\""},
        {"ftp://x/y", "InvalidUrlError: Unrecognized scheme \"ftp\"."},
        {"gs://b/..", "InvalidUrlError: .. is an invalid root-level object name"},
        {"gs://b/.", "InvalidUrlError: . is an invalid root-level object name"},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        assert_err(TY_INVALID_ARGUMENT,
                   storage_url_parse(ty_str_of(rows[i].text), STORAGE_GSUTIL, &url));
        assert_string_equal(ty_err_message(), rows[i].says);
    }
}

static void url_text_is_what_was_read(void **state)
{
    (void)state;
    static const char *const texts[] = {"gs://", "gs://b/", "gs://b/a/b#12", "gs://b//",
                                        "file://x"};
    for (size_t i = 0; i < TY_COUNT(texts); i++) {
        struct storage_url url = url_of(texts[i]);
        assert_string_equal(storage_url_text(&arena, &url), texts[i]);
    }
}

/* ---- wildcards ---- */

static void glob_matches(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool good;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "a/b", true},
        {"a*c", "abc", true},
        {"a*c", "ac", true},
        {"a*c", "abcd", false},
        {"a*b*c", "aXbYbZc", true},
        {"?", "a", true},
        {"?", "", false},
        {"?", "\xc3\xa4", true},
        {"??", "\xc3\xa4", false},
        {"[a-c]x", "bx", true},
        {"[a-c]x", "dx", false},
        {"[!a-c]x", "dx", true},
        {"[!a-c]x", "ax", false},
        {"[]]", "]", true},
        {"[a", "[a", true},
        {"[", "[", true},
        {"a]", "a]", true},
        {"[a-]", "-", true},
        {"f[12].txt", "f2.txt", true},
        {"*.csv", "d/x.csv", true},
        {"[\xc3\xa4-\xc3\xbc]", "\xc3\xb6", true},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++)
        if (storage_glob_match(ty_str_of(rows[i].pattern), ty_str_of(rows[i].text)) != rows[i].good)
            fail_msg("'%s' and '%s'", rows[i].pattern, rows[i].text);
}

/* Exponential in a matcher that tries everything. */
static void glob_many_stars_are_quick(void **state)
{
    (void)state;
    char pattern[128], text[4096];
    for (size_t i = 0; i + 2 < sizeof(pattern); i += 2) {
        pattern[i] = '*';
        pattern[i + 1] = 'a';
    }
    pattern[sizeof(pattern) - 2] = 'b';
    pattern[sizeof(pattern) - 1] = '\0';
    memset(text, 'a', sizeof(text));
    assert_false(storage_glob_match(ty_str_of(pattern), (ty_str){text, sizeof(text)}));
}

static void glob_two_stars_cross_folders(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool good;
    } rows[] = {
        {"a/**/d.txt", "a/b/c/d.txt", true}, {"a/**/d.txt", "a/d.txt", true},
        {"**/d.txt", "d.txt", true},         {"**/d.txt", "a/b/d.txt", true},
        {"**/x/**/d", "x/d", true},          {"**/x/**/d", "a/x/b/d", true},
        {"**/d.txt", "ad.txt", false},       {"a/**", "b/c", false},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct storage_pattern p;
        storage_pattern_init(&arena, ty_str_of(rows[i].pattern), &p);
        if (storage_pattern_match(&p, ty_str_of(rows[i].name)) != rows[i].good)
            fail_msg("'%s' and '%s'", rows[i].pattern, rows[i].name);
    }
}

static void glob_steps_folder_by_folder(void **state)
{
    (void)state;
    static const struct {
        const char *name, *prefix, *here, *rest;
        bool flat;
    } rows[] = {
        {"abc/d*e/f*.txt", "abc/d", "abc/d*e", "f*.txt", false},
        {"a/b", "a/b", "a/b", "", false},
        {"*", "", "*", "", false},
        {"a/**", "a/", "a/**", "", true},
        {"a/**/x*/y", "a/", "a/**/x*/y", "", true},
        {"a*/b/c", "a", "a*", "b/c", false},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct storage_step s;
        storage_step_of(ty_str_of(rows[i].name), &s);
        assert_str(s.prefix, rows[i].prefix);
        assert_str(s.here, rows[i].here);
        assert_str(s.rest, rows[i].rest);
        assert_int_equal(s.flat, rows[i].flat);
    }
}

/* ---- where copies go ---- */

static void copy_names(void **state)
{
    (void)state;
    struct storage s = {.arena = &arena, .style = STORAGE_GSUTIL};
    static const struct {
        const char *source, *found;
        bool folder, many, many_top, recursive;
        const char *to;
        bool there;
        const char *want;
    } rows[] = {
        /* one file */
        {"f", "f", false, false, false, false, "gs://b/g", false, "gs://b/g"},
        {"d/f", "d/f", false, false, false, false, "gs://b/", true, "gs://b/f"},
        {"d/f", "d/f", false, false, false, false, "gs://b/x/", true, "gs://b/x/f"},
        {"gs://b/d/f", "gs://b/d/f", false, false, false, false, "out", true, "file://out/f"},
        {"gs://b/d/f", "gs://b/d/f", false, false, false, false, "out", false, "file://out"},
        {"gs://b/d/f", "gs://b/d/f", false, false, false, false, "/", true, "file:///f"},
        {"gs://b/d/f", "gs://b/d/f", false, false, false, false, ".", true, "file://./f"},
        /* several */
        {"d/*", "d/f", false, true, true, false, "gs://b/x", false, "gs://b/x/f"},
        {"d/*", "d/f", false, true, true, false, "gs://b/x", true, "gs://b/x/f"},
        {"gs://b/**", "gs://b/d/e/f", false, true, true, false, "out", true, "file://out/f"},
        /* a folder: to one that is there, and to a new one */
        {"d", "d/e/f", true, true, false, true, "gs://b/", true, "gs://b/d/e/f"},
        {"d", "d/e/f", true, true, false, true, "gs://b/x", true, "gs://b/x/d/e/f"},
        {"d", "d/e/f", true, true, false, true, "gs://b/x", false, "gs://b/x/e/f"},
        {"/t/d/", "/t/d/e/f", true, true, false, true, "gs://b/x", true, "gs://b/x/d/e/f"},
        {".", "./e/f", true, true, false, true, "gs://b/x", true, "gs://b/x/e/f"},
        {"gs://b/d", "gs://b/d/e/f", true, true, false, true, "out", true, "file://out/d/e/f"},
        {"gs://b/d/", "gs://b/d/e/f", true, true, false, true, "gs://c/y", false, "gs://c/y/e/f"},
        {"gs://b", "gs://b/d/f", true, true, false, true, "out", true, "file://out/b/d/f"},
        {"gs://b/*", "gs://b/d/f", true, true, true, true, "gs://c/y", false, "gs://c/y/d/f"},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct storage_url source = url_of(rows[i].source), to;
        struct storage_ref ref = {.url = url_of(rows[i].found), .source = &source};
        struct storage_destination d = {.url = url_of(rows[i].to), .container = rows[i].there};
        ref.in_container = rows[i].folder;
        assert_ok(storage_destination_of(&s, &arena, &ref, rows[i].many, rows[i].many_top,
                                         rows[i].recursive, &d, &to));
        if (strcmp(storage_url_text(&arena, &to), rows[i].want) != 0)
            fail_msg("row %zu: cp %s %s: got %s, want %s", i, rows[i].source, rows[i].to,
                     storage_url_text(&arena, &to), rows[i].want);
    }
}

static void copy_of_a_stream_needs_a_name(void **state)
{
    (void)state;
    struct storage s = {.arena = &arena, .style = STORAGE_GSUTIL};
    struct storage_url source = url_of("-"), to;
    struct storage_ref ref = {.url = source, .source = &source};
    struct storage_destination d = {.url = url_of("gs://b/x/"), .container = true};
    assert_err(TY_INVALID_ARGUMENT,
               storage_destination_of(&s, &arena, &ref, false, false, false, &d, &to));
    assert_string_equal(ty_err_message(),
                        "CommandException: Destination object name needed when source is a stream");
}

/* ---- on disk ---- */

static void make(const char *folder, const char *path)
{
    char *file = ty_format(&arena, "%s/%s", folder, path), *slash = strrchr(file, '/');
    assert_ok(ty_mkdirs(ty_cstr(&arena, (ty_str){file, (size_t)(slash - file)}), 0700));
    assert_ok(ty_file_replace(AT_FDCWD, file, TY_STR("x"), 0600));
}

static size_t count_of(const char *folder, const char *word, bool recursive)
{
    struct storage s = {.arena = &arena, .style = STORAGE_GSUTIL, .quiet = true, .command = "cp"};
    struct storage_conn c = {.s = &s};
    struct storage_options o = {.recursive = recursive};
    struct storage_url *url = ty_new(&arena, struct storage_url);
    struct storage_refs refs = {.arena = &arena};
    struct storage_expanded e;
    *url = url_of(ty_format(&arena, "%s/%s", folder, word));
    assert_ok(storage_expand_all(&c, url, &o, &refs, &e));
    assert_int_equal(refs.count, e.added);
    return refs.count;
}

static void disk_wildcards(void **state)
{
    (void)state;
    char folder[] = "/tmp/ty-storage-XXXXXX";
    assert_non_null(mkdtemp(folder));
    make(folder, "a.txt");
    make(folder, "b.csv");
    make(folder, "d/c.txt");
    make(folder, "d/e/f.txt");
    make(folder, "[odd].txt");
    assert_int_equal(count_of(folder, "*.txt", false), 2);
    assert_int_equal(count_of(folder, "?.txt", false), 1);
    assert_int_equal(count_of(folder, "[ab].*", false), 2);
    assert_int_equal(count_of(folder, "[odd].txt", false), 1);
    assert_int_equal(count_of(folder, "**", false), 5);
    assert_int_equal(count_of(folder, "**/*.txt", false), 4);
    assert_int_equal(count_of(folder, "d", true), 2);
    assert_int_equal(count_of(folder, "d", false), 0);
    assert_int_equal(count_of(folder, "nope*", false), 0);
    /* A link that leads back is not followed for ever. */
    assert_int_equal(symlink(folder, ty_format(&arena, "%s/d/loop", folder)), 0);
    assert_int_equal(count_of(folder, "d", true), 2);
    assert_ok(ty_remove_tree(AT_FDCWD, folder));
}

/* ---- hashes and texts ---- */

static void hashes_of_known_bytes(void **state)
{
    (void)state;
    struct storage_digest d;
    struct storage_hashes h;
    assert_ok(storage_digest_load());
    storage_digest_init(&d);
    storage_digest_add(&d, TY_STR("h"));
    storage_digest_add(&d, TY_STR("i\n"));
    storage_digest_end(&d, &h);
    assert_string_equal(h.md5_text, "dk76iD3aHhHbR2ccSju9ng==");
    assert_string_equal(h.crc32c_text, "G9ywgw==");
    assert_ok(storage_hashes_check(&h, TY_STR(""), TY_STR("G9ywgw=="), "x"));
    assert_err(TY_DATA_LOSS, storage_hashes_check(&h, TY_STR("AAAA"), TY_STR(""), "x"));
    assert_err(TY_DATA_LOSS, storage_hashes_check(&h, TY_STR(""), TY_STR("AAAAAA=="), "x"));
}

static void texts_sizes(void **state)
{
    (void)state;
    assert_string_equal(storage_human(&arena, 3, STORAGE_GSUTIL), "3 B");
    assert_string_equal(storage_human(&arena, 1536, STORAGE_GSUTIL), "1.5 KiB");
    assert_string_equal(storage_human(&arena, 208757742, STORAGE_GSUTIL), "199.09 MiB");
    assert_string_equal(storage_human(&arena, 3, STORAGE_GCLOUD), "3.00B");
    assert_string_equal(storage_human(&arena, 19428, STORAGE_GCLOUD), "18.97kiB");
    assert_string_equal(storage_tenth(&arena, 3), "3.0 B");
}

static void texts_content_types(void **state)
{
    (void)state;
    static const struct {
        const char *path, *type;
    } rows[] = {
        {"a.txt", "text/plain"},
        {"d/A.TXT", "text/plain"},
        {"x.tar.gz", "application/x-tar"},
        {"x.tgz", "application/x-tar"},
        {"x.gz", NULL},
        {"x.csv.gz", "text/csv"},
        {"noending", NULL},
        {".txt", NULL},
        {"d.txt/x", NULL},
        {"model.tfrec", NULL},
        {"x.", NULL},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        const char *type = storage_content_type(ty_str_of(rows[i].path));
        if ((type == NULL) != (rows[i].type == NULL) ||
            (type != NULL && strcmp(type, rows[i].type) != 0))
            fail_msg("%s: %s", rows[i].path, type ? type : "none");
    }
}

static void texts_times(void **state)
{
    (void)state;
    ty_str t = TY_STR("2026-11-16T03:14:07.123Z");
    assert_string_equal(storage_date(&arena, t), "Mon, 16 Nov 2026 03:14:07 GMT");
    assert_string_equal(storage_second(&arena, t), "2026-11-16T03:14:07Z");
    assert_string_equal(storage_stamp(&arena, t), "2026-11-16T03:14:07+0000");
    assert_string_equal(storage_stamp(&arena, TY_STR("")), "None");
}

/* ---- gsutil's command line ---- */

static void gsutil_unknown_is_left_to_others(void **state)
{
    (void)state;
    struct storage s = {.arena = &arena, .style = STORAGE_GSUTIL, .connect = "http://127.0.0.1:1"};
    static char *const lines[][3] = {{"acl", "get", NULL},
                                     {"help", NULL},
                                     {"-m", NULL},
                                     {"--version", NULL},
                                     {"-m", "perfdiag", NULL}};
    for (size_t i = 0; i < TY_COUNT(lines); i++) {
        int argc = 0;
        bool known = true;
        while (argc < 3 && lines[i][argc] != NULL)
            argc++;
        storage_gsutil_main(&s, argc, (char **)lines[i], &known);
        assert_false(known);
    }
}

static int gsutil_run(const char *line)
{
    struct storage s = {.arena = &arena, .style = STORAGE_GSUTIL, .connect = "http://127.0.0.1:1"};
    char *argv[16];
    int argc = 0;
    bool known = false, more = true;
    ty_str rest = ty_str_of(line), word;
    while (more && argc < 16) {
        more = ty_str_split(&rest, ' ', &word);
        argv[argc++] = ty_cstr(&arena, word);
    }
    int status = storage_gsutil_main(&s, argc, argv, &known);
    assert_true(known);
    return status;
}

/* All fail before a server is asked. */
static void gsutil_wrong_use(void **state)
{
    (void)state;
    static const char *const lines[] = {"cp",
                                        "ls -Q",
                                        "rsync a",
                                        "rsync a b c",
                                        "mb -l",
                                        "-o x cp a gs://b",
                                        "cat -r x gs://b/o",
                                        "mb -b maybe gs://b",
                                        "setmeta gs://b/o",
                                        "stat gs:///x"};
    for (size_t i = 0; i < TY_COUNT(lines); i++)
        assert_int_equal(gsutil_run(lines[i]), STORAGE_FAILED);
}

/* ---- every command of gsutil.def is one of commands.def ---- */

static void commands_are_there(void **state)
{
    (void)state;
    static const char *const names[] = {
#define GSUTIL(words, command, least, most, takes, usage) command,
#define ON(letter, member)
#define TEXT(letter, member)
#define HEADER(letter)
#define TAKEN(letter)
#define TAKEN_TEXT(letter)
#define END
#include "storage/gsutil.def"
#undef GSUTIL
#undef ON
#undef TEXT
#undef HEADER
#undef TAKEN
#undef TAKEN_TEXT
#undef END
    };
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (storage_command_find(names[i]) == NULL)
            fail_msg("%s", names[i]);
    assert_null(storage_command_find("nope"));
}

static int clear(void **state)
{
    (void)state;
    ty_arena_clear(&arena);
    return 0;
}

#define CASE(name_, fn_)                                                                           \
    {                                                                                              \
        .name = (name_), .test_func = (fn_), .teardown_func = clear                                \
    }
static const struct CMUnitTest tests[] = {
    CASE("url/parts", url_parts),
    CASE("url/refused", url_refused),
    CASE("url/text_is_what_was_read", url_text_is_what_was_read),
    CASE("glob/matches", glob_matches),
    CASE("glob/many_stars_are_quick", glob_many_stars_are_quick),
    CASE("glob/two_stars_cross_folders", glob_two_stars_cross_folders),
    CASE("glob/steps_folder_by_folder", glob_steps_folder_by_folder),
    CASE("copy/names", copy_names),
    CASE("copy/of_a_stream_needs_a_name", copy_of_a_stream_needs_a_name),
    CASE("disk/wildcards", disk_wildcards),
    CASE("hashes/of_known_bytes", hashes_of_known_bytes),
    CASE("texts/sizes", texts_sizes),
    CASE("texts/content_types", texts_content_types),
    CASE("texts/times", texts_times),
    CASE("gsutil/unknown_is_left_to_others", gsutil_unknown_is_left_to_others),
    CASE("gsutil/wrong_use", gsutil_wrong_use),
    CASE("commands/are_there", commands_are_there),
};
TEST_MAIN("storage", tests)
