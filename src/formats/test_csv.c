/* test_csv.c -- CSV rows, numbers, cutting; the fast paths against the plain ones. */
#include "formats/test_formats.h"

#include <math.h>

enum { ROWS = 64 };

/* A reader of columns "fsi", its outputs, and one call. */
struct rig {
    struct ty_arena arena;
    struct csv_reader reader;
    struct csv_column columns[3];
    float floats[ROWS];
    ty_str strings[ROWS];
    int64_t ints[ROWS];
    size_t rows;
};

static struct rig *rig_new(ty_str text)
{
    struct rig *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->columns[0] =
        (struct csv_column){.name = TY_STR("fare"), .type = CSV_FLOAT, .default_float = -1};
    g->columns[1] = (struct csv_column){.type = CSV_STRING, .default_str = TY_STR("na")};
    g->columns[2] = (struct csv_column){.name = TY_STR("n"), .type = CSV_INT64, .default_int = -1};
    assert_ok(csv_reader_init(&g->reader, &g->arena, text, ',', g->columns, 3));
    return g;
}

static ty_err rig_read(struct rig *g, size_t rows)
{
    union csv_values out[3] = {{.floats = g->floats}, {.strings = g->strings}, {.ints = g->ints}};
    return csv_read(&g->reader, rows, out, &g->rows);
}

static void rig_free(struct rig *g)
{
    ty_arena_clear(&g->arena);
    free(g);
}

static void csv_rows_and_line_ends(void **state)
{
    (void)state;
    struct rig *g = rig_new(TY_STR("1.5,a,7\r\n\n-2,b c,-8\n\r\n,,\n3,z,9"));
    assert_ok(rig_read(g, ROWS));
    assert_int_equal(g->rows, 4);
    assert_true(g->floats[0] == 1.5f && g->floats[1] == -2 && g->floats[2] == -1 &&
                g->floats[3] == 3);
    assert_true(g->ints[0] == 7 && g->ints[1] == -8 && g->ints[2] == -1 && g->ints[3] == 9);
    assert_true(ty_str_is(g->strings[1], "b c") && ty_str_is(g->strings[2], "na"));
    assert_err(TY_OUT_OF_RANGE, rig_read(g, ROWS));
    rig_free(g);
}

static void csv_quotes(void **state)
{
    (void)state;
    struct rig *g = rig_new(
        TY_STR("\"1.5\",\"a,b\",\"7\"\n1,\"two\r\nlines\",2\n1,\"say \"\"hi\"\"\",2\n1,\"\",2"));
    assert_ok(rig_read(g, ROWS));
    assert_int_equal(g->rows, 4);
    assert_true(g->floats[0] == 1.5f && g->ints[0] == 7 && ty_str_is(g->strings[0], "a,b"));
    assert_true(ty_str_is(g->strings[1], "two\r\nlines") && ty_str_is(g->strings[2], "say \"hi\""));
    assert_true(ty_str_is(g->strings[3], "na"));
    rig_free(g);
}

static void csv_errors_name_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *row, *says;
    } bad[] = {
        {"x1,a,7", "line 4, column 1 (fare): 'x1' is not a number"},
        {"1,a,7.5", "line 4, column 3 (n): '7.5' is not a whole number"},
        {"1,a,9223372036854775808", "column 3 (n)"},
        {"1,a", "line 4: 2 fields, not 3"},
        {"1,a,2,3", "line 4: 4 fields, not 3"},
        {"1,a\"b,2", "column 2: 'a\"b,2...' has a quote inside"},
        {"1,\"a\"b,2", "column 2: '\"a\"b' does not end where its quotes do"},
        {"0x10,a,2", "is not a number"},
        {"1.2.3,a,2", "is not a number"},
        {"-,a,2", "is not a number"},
        {"1,a,-", "is not a whole number"},
    };
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        char text[200];
        snprintf(text, sizeof text, "1,\"two\nlines\",1\n\n%s\n5,ok,6\n", bad[i].row);
        struct rig *g = rig_new(ty_str_of(text));
        assert_err(TY_INVALID_ARGUMENT, rig_read(g, ROWS));
        assert_message(bad[i].says);
        assert_ok(rig_read(g, ROWS)); /* the reader stands after the bad row */
        assert_true(g->rows == 1 && g->ints[0] == 6);
        rig_free(g);
    }
    struct rig *g = rig_new(TY_STR("1,a,2\n3,\"never closed,4\n5,b,6\n"));
    assert_err(TY_INVALID_ARGUMENT, rig_read(g, ROWS));
    assert_message("line 2, column 2: '\"never closed,4...' does not end");
    assert_ok(rig_read(g, ROWS));
    assert_true(g->rows == 1 && g->ints[0] == 6);
    rig_free(g);
}

static void csv_required_and_skipped_columns(void **state)
{
    (void)state;
    struct rig *g = rig_new(TY_STR(",junk,5\n"));
    g->columns[1].type = CSV_SKIP;
    assert_ok(rig_read(g, ROWS));
    rig_free(g);
    g = rig_new(TY_STR(",junk,5\n"));
    g->columns[0].required = true;
    assert_err(TY_INVALID_ARGUMENT, rig_read(g, ROWS));
    assert_message("column 1 (fare): '' is empty, and it has no default");
    rig_free(g);
}

static void csv_bad_rows_are_counted(void **state)
{
    (void)state;
    struct rig *g = rig_new(TY_STR("1,a,1\nx,a,1\n1,a\n2,b,2\n"));
    g->reader.skip_bad_rows = true;
    assert_ok(rig_read(g, ROWS));
    assert_true(g->rows == 2 && g->floats[1] == 2 && g->reader.bad_rows == 2);
    assert_non_null(strstr(g->reader.first_bad, "line 2, column 1"));
    rig_free(g);
}

static void csv_refuses_odd_readers(void **state)
{
    (void)state;
    static struct csv_reader r;
    struct csv_column c = {.type = CSV_FLOAT};
    struct ty_arena a = {0};
    assert_err(TY_INVALID_ARGUMENT, csv_reader_init(&r, &a, TY_STR(""), '"', &c, 1));
    assert_err(TY_INVALID_ARGUMENT, csv_reader_init(&r, &a, TY_STR(""), '\n', &c, 1));
    assert_err(TY_INVALID_ARGUMENT, csv_reader_init(&r, &a, TY_STR(""), ',', &c, 0));
    assert_err(TY_INVALID_ARGUMENT,
               csv_reader_init(&r, &a, TY_STR(""), ',', &c, CSV_MAX_COLUMNS + 1));
}

/* A blank line of a file of one column is an empty field. */
static void csv_one_column(void **state)
{
    (void)state;
    static struct csv_reader r;
    struct csv_column c = {.type = CSV_INT64, .default_int = -7};
    struct ty_arena a = {0};
    int64_t ints[ROWS] = {0};
    union csv_values out = {.ints = ints};
    size_t rows = 0;
    assert_ok(csv_reader_init(&r, &a, TY_STR("1\n\n3\n"), ',', &c, 1));
    assert_ok(csv_read(&r, ROWS, &out, &rows));
    assert_true(rows == 3 && ints[1] == -7 && ints[2] == 3);
}

/* ---- numbers ---- */

static void csv_floats_are_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str rest = golden(&a, "floats.txt"), line, word;
    int count = 0;
    for (; ty_str_split(&rest, '\n', &line); count++) {
        float value;
        uint32_t bits;
        assert_true(ty_str_split(&line, ' ', &word));
        assert_true(csv_parse_float(line, &value));
        memcpy(&bits, &value, sizeof bits);
        if (bits != strtoul(ty_cstr(&a, word), NULL, 10))
            fail_msg("'" TY_STR_FMT "' is %a, not the float of bits " TY_STR_FMT, TY_STR_ARG(line),
                     (double)value, TY_STR_ARG(word));
    }
    assert_true(count > 600);
    ty_arena_clear(&a);
}

/* Against strtof, over short and long decimals, and decimals at and beside ties. */
static void csv_floats_equal_strtof(void **state)
{
    (void)state;
    uint32_t s = 1;
    for (int i = 0; i < 200000; i++) {
        char text[64];
        uint64_t digits =
            ((uint64_t)dice(&s, UINT32_MAX) << 32 | dice(&s, UINT32_MAX)) >> dice(&s, 60);
        uint32_t tie = (1u << 24) + 2 * dice(&s, 1u << 23) + 1;
        switch (dice(&s, 4)) {
        case 0:
            snprintf(text, sizeof text, "%.*f", (int)dice(&s, 15), (double)(int64_t)digits / 1e15);
            break;
        case 1:
            snprintf(text, sizeof text, "%" PRIu64 ".%0*u", digits % 100000, (int)dice(&s, 12) + 1,
                     dice(&s, 1000000));
            break;
        case 2:
            snprintf(text, sizeof text, "%u.%0*u", tie, (int)dice(&s, 10) + 1, dice(&s, 2));
            break;
        default:
            snprintf(text, sizeof text, "-%.*f", (int)dice(&s, 18),
                     (double)tie / (1 << dice(&s, 30)));
        }
        float want = strtof(text, NULL), got = 0;
        assert_true(csv_parse_float(ty_str_of(text), &got));
        if (want != got || signbit(want) != signbit(got))
            fail_msg("'%s' is %a, not %a", text, (double)got, (double)want);
    }
}

static void csv_ints(void **state)
{
    (void)state;
    int64_t v;
    assert_true(csv_parse_int64(TY_STR("-9223372036854775808"), &v) && v == INT64_MIN);
    assert_true(csv_parse_int64(TY_STR("9223372036854775807"), &v) && v == INT64_MAX);
    assert_true(csv_parse_int64(TY_STR(" +12\t"), &v) && v == 12);
    static const char *const bad[] = {"",
                                      " ",
                                      "-",
                                      "1 2",
                                      "1.0",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999",
                                      "1e3"};
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_false(csv_parse_int64(ty_str_of(bad[i]), &v));
}

/* ---- scanning and cutting ---- */

static ty_str random_text(struct ty_arena *a, uint32_t *s, size_t n, const char *alphabet)
{
    char *text = ty_alloc(a, n + 1);
    for (size_t i = 0; i < n; i++)
        text[i] = alphabet[dice(s, (uint32_t)strlen(alphabet))];
    return (ty_str){text, n};
}

static void csv_scanners_agree(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    uint32_t s = 3;
    for (int round = 0; round < 2000; round++) {
        size_t n = dice(&s, 400), count[4];
        ty_str text = random_text(&a, &s, n, round % 2 ? "ab,\n" : "abcdefgh,\n\"");
        uint32_t *at[4];
        csv_scanner *const *all = csv_scanners();
        for (size_t k = 0; all[k]; k++) {
            struct csv_scan scan = {.separator = ',', .inside = round % 3 == 0};
            at[k] = ty_new_array(&a, uint32_t, n + CSV_BLOCK);
            count[k] = all[k](&scan, text.ptr, n, at[k]);
            assert_int_equal(count[k], count[0]);
            assert_memory_equal(at[k], at[0], count[0] * sizeof *at[0]);
        }
        ty_arena_clear(&a);
    }
}

/* Rows longer than a window, and windows that end at every place of a row. */
static void csv_rows_cross_windows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    for (size_t pad = CSV_WINDOW - 40; pad < CSV_WINDOW + 10; pad++) {
        struct ty_buf b;
        ty_buf_init(&b, 1 << 20);
        char *wide = ty_alloc(&a, 3 * pad + 1);
        memset(wide, 'w', 3 * pad);
        ty_buf_addf(&b, "1,%.*s,2\n3,\"q,\"\"%.*s\",4\n5,%s,6\n7,x,8", (int)pad, wide, (int)pad,
                    wide, wide);
        struct rig *g = rig_new(ty_buf_str(&b));
        assert_ok(rig_read(g, 2));
        assert_true(g->rows == 2 && g->ints[0] == 2 && g->ints[1] == 4);
        assert_true(g->strings[0].len == pad && g->strings[1].len == pad + 3);
        assert_ok(rig_read(g, ROWS));
        assert_true(g->rows == 2 && g->strings[0].len == 3 * pad && g->ints[1] == 8);
        rig_free(g);
        ty_buf_clear(&b);
        ty_arena_clear(&a);
    }
}

/* Pieces read one after the other give the rows of the whole. */
static void csv_split_keeps_every_row(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    uint32_t s = 5;
    for (int round = 0; round < 300; round++) {
        struct ty_buf b;
        ty_buf_init(&b, 1 << 20);
        uint32_t rows = dice(&s, 40) + 1, quoted = round % 2;
        for (uint32_t i = 0; i < rows; i++)
            ty_buf_addf(&b, "%u,%s,%u\n", i, quoted && dice(&s, 2) ? "\"a\n\"\"\nb,\"" : "plain",
                        i);
        size_t parts = dice(&s, 9) + 1, starts[10], seen = 0;
        csv_split(ty_buf_str(&b), parts, starts);
        assert_true(starts[0] == 0 && starts[parts] == b.len);
        size_t again[10], step = dice(&s, 30) + 1;
        struct csv_splitter blocks;
        csv_splitter_init(&blocks, b.len, parts, again);
        for (size_t at = 0; at < b.len; at += step)
            csv_splitter_feed(&blocks, (ty_str){b.ptr + at, b.len - at < step ? b.len - at : step});
        assert_memory_equal(again, starts, (parts + 1) * sizeof *starts);
        for (size_t p = 0; p < parts; p++) {
            assert_true(starts[p] <= starts[p + 1]);
            struct rig *g = rig_new(ty_buf_str(&b));
            g->reader.offset = starts[p];
            g->reader.end = starts[p + 1];
            ty_err err;
            while ((err = rig_read(g, ROWS)) == TY_OK)
                for (size_t i = 0; i < g->rows; i++)
                    assert_int_equal(g->ints[i], seen++);
            assert_err(TY_OUT_OF_RANGE, err);
            rig_free(g);
        }
        assert_int_equal(seen, rows);
        ty_buf_clear(&b);
    }
    ty_arena_clear(&a);
}

static void csv_whole_rows(void **state)
{
    (void)state;
    assert_int_equal(csv_whole(TY_STR("")), 0);
    assert_int_equal(csv_whole(TY_STR("1,2")), 0);
    assert_int_equal(csv_whole(TY_STR("1,2\n3,4\n5")), 8);
    assert_int_equal(csv_whole(TY_STR("1,\"\n\"\n5,\"\n")), 6);
}

static void csv_header_is_matched(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str *header, text = TY_STR("\xef\xbb\xbfkey,\"fare, $\",n\r\n1,2,3\n");
    size_t count, used, place[2];
    assert_ok(csv_row(&a, text, ',', &header, &count, &used));
    assert_int_equal(count, 3);
    assert_true(ty_str_is(header[0], "key") && ty_str_is(header[1], "fare, $") &&
                ty_str_is(header[2], "n"));
    assert_true(ty_str_starts(ty_str_drop(text, used), TY_STR("1,2,3")));
    struct csv_column *columns, want[] = {{.name = TY_STR("n"), .type = CSV_INT64},
                                          {.name = TY_STR("fare, $"), .type = CSV_FLOAT}};
    assert_ok(csv_match_header(&a, header, count, want, 2, &columns, place));
    assert_true(place[0] == 2 && place[1] == 1);
    assert_true(columns[0].type == CSV_SKIP && columns[1].type == CSV_FLOAT &&
                columns[2].type == CSV_INT64);
    want[0].name = TY_STR("tip");
    assert_err(TY_INVALID_ARGUMENT, csv_match_header(&a, header, count, want, 2, &columns, place));
    assert_message("'tip' is not in the header, which has: key, fare, $, n");
    want[0].name = want[1].name;
    assert_err(TY_INVALID_ARGUMENT, csv_match_header(&a, header, count, want, 2, &columns, place));
    assert_err(TY_INVALID_ARGUMENT, csv_row(&a, TY_STR("a,\"b\"c\n"), ',', &header, &count, &used));
    assert_err(TY_OUT_OF_RANGE, csv_row(&a, TY_STR(""), ',', &header, &count, &used));
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("csv/rows_and_line_ends", csv_rows_and_line_ends),
    TEST("csv/quotes", csv_quotes),
    TEST("csv/errors_name_the_place", csv_errors_name_the_place),
    TEST("csv/required_and_skipped_columns", csv_required_and_skipped_columns),
    TEST("csv/bad_rows_are_counted", csv_bad_rows_are_counted),
    TEST("csv/refuses_odd_readers", csv_refuses_odd_readers),
    TEST("csv/one_column", csv_one_column),
    TEST("csv/floats_are_tensorflows", csv_floats_are_tensorflows),
    TEST("csv/floats_equal_strtof", csv_floats_equal_strtof),
    TEST("csv/ints", csv_ints),
    TEST("csv/scanners_agree", csv_scanners_agree),
    TEST("csv/rows_cross_windows", csv_rows_cross_windows),
    TEST("csv/split_keeps_every_row", csv_split_keeps_every_row),
    TEST("csv/whole_rows", csv_whole_rows),
    TEST("csv/header_is_matched", csv_header_is_matched),
};
RUN_GROUP(csv)
