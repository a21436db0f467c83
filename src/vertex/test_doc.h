/* test_doc.h -- reading docs/compat.md and walking messages, for tests that hold them together. */
#ifndef TY_TEST_DOC_H
#define TY_TEST_DOC_H

#include "base/test.h"
#include "vertex/vertex.h"

enum { DOC_BYTES = 1 << 20 };

static ty_str read_doc(struct ty_arena *a)
{
    ty_str text;
    assert_ok(ty_file_read(AT_FDCWD, COMPAT_MD, DOC_BYTES, a, &text));
    return text;
}

/* The next table row below the heading whose first cell is in backticks: its first two cells. */
static bool row_next(ty_str *section, ty_str *ret_code, ty_str *ret_second)
{
    ty_str line;
    while (section->len > 0) {
        ty_str_split(section, '\n', &line);
        if (!ty_str_starts(line, TY_STR("| `")))
            continue;
        ty_str cell;
        ty_str_split(&line, '|', &cell); /* before the first bar */
        ty_str_split(&line, '|', &cell);
        ty_str_split(&line, '|', ret_second);
        cell = ty_str_trim(cell);
        *ret_second = ty_str_trim(*ret_second);
        *ret_code = (ty_str){cell.ptr + 1, cell.len - 2};
        return true;
    }
    return false;
}

/* What stands between a heading and the next one. */
static ty_str section_of(ty_str doc, const char *heading)
{
    const char *start = strstr(doc.ptr, heading);
    if (start == NULL) {
        fail_msg("%s has no heading '%s'", COMPAT_MD, heading);
        return TY_STR("");
    }
    const char *end = strstr(start, "\n## ");
    return (ty_str){start, end ? (size_t)(end - start) : strlen(start)};
}

/* Does `row` stand for `path`: itself, or something above it? */
static bool row_covers(const char *row, const char *path)
{
    size_t n = strlen(row);
    return strncmp(row, path, n) == 0 && (path[n] == '\0' || path[n] == '.' || path[n] == '[');
}

/* Call for each leaf of a message with its path. */
static void each_leaf(const struct wire_message *m, const char *above, struct ty_arena *a,
                      void (*visit)(const struct wire_field *f, const char *path))
{
    for (const struct wire_field *f = m->fields; f->name != NULL; f++) {
        const char *path = ty_format(a, "%s%s%s", above, above[0] ? "." : "", f->name);
        if (f->type != WIRE_MESSAGE)
            visit(f, path);
        else
            each_leaf(f->message, (f->flags & WIRE_REPEATED) ? ty_format(a, "%s[]", path) : path, a,
                      visit);
    }
}

/* Are the rows of this table, with their treatments, those of the section? */
static void assert_fields_documented(const struct vertex_field *table, const char *heading)
{
    bool seen[256] = {false};
    struct ty_arena a = {0};
    ty_str path, treatment, section = section_of(read_doc(&a), heading);
    while (row_next(&section, &path, &treatment)) {
        const struct vertex_field *f = table;
        while (f->path != NULL && !ty_str_is(path, f->path))
            f++;
        if (f->path == NULL) {
            fail_msg("compat.md has '" TY_STR_FMT "', the table has not", TY_STR_ARG(path));
            continue;
        }
        if (!ty_str_is(treatment, vertex_treatment_name(f->treatment)))
            fail_msg("compat.md: '%s' is %s, not " TY_STR_FMT, f->path,
                     vertex_treatment_name(f->treatment), TY_STR_ARG(treatment));
        if (seen[f - table])
            fail_msg("compat.md has '%s' twice", f->path);
        seen[f - table] = true;
    }
    for (size_t i = 0; table[i].path != NULL; i++)
        if (!seen[i])
            fail_msg("compat.md lacks '%s'", table[i].path);
    ty_arena_clear(&a);
}

/* "GET /path" of each route, and nothing else, in the section. */
static void assert_routes_documented(const char *const *routes, size_t count, const char *heading)
{
    bool seen[64] = {false};
    struct ty_arena a = {0};
    ty_str code, second, section = section_of(read_doc(&a), heading);
    assert_true(count <= TY_COUNT(seen));
    while (row_next(&section, &code, &second)) {
        size_t i = 0;
        while (i < count && !ty_str_is(code, routes[i]))
            i++;
        if (i == count)
            fail_msg("compat.md has '" TY_STR_FMT "', routes.def has not", TY_STR_ARG(code));
        else
            seen[i] = true;
    }
    for (size_t i = 0; i < count; i++)
        if (!seen[i])
            fail_msg("compat.md lacks '%s'", routes[i]);
    ty_arena_clear(&a);
}

/* Each leaf of the message has one row in the table, and each row is a field of it. */
static const struct vertex_field *leaf_table;
static bool leaf_row_used[256];

static void leaf_has_one_row(const struct wire_field *field, const char *path)
{
    int rows = 0;
    for (size_t i = 0; leaf_table[i].path != NULL; i++) {
        if (!row_covers(leaf_table[i].path, path))
            continue;
        rows++;
        leaf_row_used[i] = true;
        if ((leaf_table[i].treatment == VERTEX_OUTPUT) != ((field->flags & WIRE_OUTPUT) != 0))
            fail_msg("'%s' is output in one table and not in the other", path);
    }
    if (rows != 1)
        fail_msg("'%s' has %d rows", path, rows);
}

static void assert_fields_are(const struct vertex_field *table, const struct wire_message *m)
{
    struct ty_arena a = {0};
    leaf_table = table;
    memset(leaf_row_used, 0, sizeof leaf_row_used);
    each_leaf(m, "", &a, leaf_has_one_row);
    for (size_t i = 0; table[i].path != NULL; i++) {
        if (!leaf_row_used[i])
            fail_msg("'%s' is no field of %s", table[i].path, m->name);
        assert_int_equal(table[i].treatment == VERTEX_REFUSED, table[i].why != NULL);
    }
    ty_arena_clear(&a);
}

#endif
