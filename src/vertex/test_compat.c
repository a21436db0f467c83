/* test_compat.c -- docs/compat.md, the field table and the message tables say the same.
 *
 * A field that is added to a message without a decision what to do with it, a decision nobody wrote
 * down, and a document that promises what is gone: each fails here. */
#include "base/test.h"
#include "vertex/vertex_int.h"

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

static const struct vertex_field *field_find(ty_str path)
{
    for (const struct vertex_field *f = vertex_fields; f->path != NULL; f++) {
        if (ty_str_is(path, f->path))
            return f;
    }
    return NULL;
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

static void leaf_has_one_row(const struct wire_field *field, const char *path)
{
    int rows = 0;
    for (const struct vertex_field *f = vertex_fields; f->path != NULL; f++) {
        if (!row_covers(f->path, path))
            continue;
        rows++;
        if ((f->treatment == VERTEX_OUTPUT) != ((field->flags & WIRE_OUTPUT) != 0))
            fail_msg("'%s' is output in one table and not in the other", path);
    }
    if (rows != 1)
        fail_msg("'%s' has %d rows in vertex_fields", path, rows);
}

static void every_leaf_has_one_treatment(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    each_leaf(&vertex_custom_job, "", &a, leaf_has_one_row);
    ty_arena_clear(&a);
}

static bool row_used[256];

static void leaf_marks_rows(const struct wire_field *field, const char *path)
{
    (void)field;
    for (size_t i = 0; vertex_fields[i].path != NULL; i++)
        row_used[i] |= row_covers(vertex_fields[i].path, path);
}

static void every_row_is_a_field(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    each_leaf(&vertex_custom_job, "", &a, leaf_marks_rows);
    for (size_t i = 0; vertex_fields[i].path != NULL; i++) {
        if (!row_used[i])
            fail_msg("'%s' is no field of CustomJob", vertex_fields[i].path);
        assert_int_equal(vertex_fields[i].treatment == VERTEX_REFUSED,
                         vertex_fields[i].why != NULL);
    }
    ty_arena_clear(&a);
}

static void document_has_the_fields(void **state)
{
    (void)state;
    bool seen[256] = {false};
    struct ty_arena a = {0};
    ty_str path, treatment, section = section_of(read_doc(&a), "## Fields of a custom job");
    while (row_next(&section, &path, &treatment)) {
        const struct vertex_field *f = field_find(path);
        if (f == NULL) {
            fail_msg("compat.md has '" TY_STR_FMT "', vertex_fields has not", TY_STR_ARG(path));
            continue;
        }
        if (!ty_str_is(treatment, vertex_treatment_name(f->treatment)))
            fail_msg("compat.md: '%s' is %s, not " TY_STR_FMT, f->path,
                     vertex_treatment_name(f->treatment), TY_STR_ARG(treatment));
        if (seen[f - vertex_fields])
            fail_msg("compat.md has '%s' twice", f->path);
        seen[f - vertex_fields] = true;
    }
    for (size_t i = 0; vertex_fields[i].path != NULL; i++) {
        if (!seen[i])
            fail_msg("compat.md lacks '%s'", vertex_fields[i].path);
    }
    ty_arena_clear(&a);
}

static void document_has_the_routes(void **state)
{
    (void)state;
    static const char *const routes[] = {
#define ROUTE(method, path, handler) #method " " path,
#include "vertex/routes.def"
#undef ROUTE
    };
    bool seen[TY_COUNT(routes)] = {false};
    struct ty_arena a = {0};
    ty_str code, second, section = section_of(read_doc(&a), "## Routes: Vertex AI");
    while (row_next(&section, &code, &second)) {
        size_t i = 0;
        while (i < TY_COUNT(routes) && !ty_str_is(code, routes[i]))
            i++;
        if (i == TY_COUNT(routes))
            fail_msg("compat.md has '" TY_STR_FMT "', routes.def has not", TY_STR_ARG(code));
        else
            seen[i] = true;
    }
    for (size_t i = 0; i < TY_COUNT(routes); i++) {
        if (!seen[i])
            fail_msg("compat.md lacks '%s'", routes[i]);
    }
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("compat/every_leaf_has_one_treatment", every_leaf_has_one_treatment),
    TEST("compat/every_row_is_a_field", every_row_is_a_field),
    TEST("compat/document_has_the_fields", document_has_the_fields),
    TEST("compat/document_has_the_routes", document_has_the_routes),
};
TEST_MAIN("vertex_compat", tests)
