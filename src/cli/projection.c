/* projection.c -- the keys of --format=value(...), csv(...) and table(...), and of --sort-by.
 *
 *   key   := part ("." part)* [".basename()"];  part := name ("[" [number] "]")*
 * A name of an array, or [], stands for all its elements, as in gcloud: their texts come joined by
 * semicolons. A key that is not there is an empty text. Names are in camelCase or snake_case. */
#include "cli/cli_int.h"

#include "wire/wire.h"

static const char NAME_CHARS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/* ---- reading keys ---- */

/* Cut the first step, a name or "[...]" with its brackets, off a path that was checked. */
static ty_str step_take(ty_str *path)
{
    size_t n = 0;
    if (path->ptr[0] == '[')
        while (n < path->len && path->ptr[n++] != ']')
            ;
    else
        while (n < path->len && path->ptr[n] != '.' && path->ptr[n] != '[')
            n++;
    ty_str step = {path->ptr, n};
    *path = ty_str_drop(*path, n);
    if (path->len > 0 && path->ptr[0] == '.')
        *path = ty_str_drop(*path, 1);
    return step;
}

static size_t span_of(ty_str s, const char *chars)
{
    size_t n = 0;
    while (n < s.len && strchr(chars, s.ptr[n]) != NULL)
        n++;
    return n;
}

static bool path_is_good(ty_str path)
{
    for (;;) {
        size_t n = span_of(path, NAME_CHARS);
        if (n == 0)
            return false;
        path = ty_str_drop(path, n);
        while (path.len > 0 && path.ptr[0] == '[') {
            n = 1 + span_of(ty_str_drop(path, 1), "0123456789");
            if (n >= path.len || path.ptr[n] != ']')
                return false;
            path = ty_str_drop(path, n + 1);
        }
        if (path.len == 0)
            return true;
        if (path.ptr[0] != '.')
            return false;
        path = ty_str_drop(path, 1);
    }
}

static ty_err column_parse(ty_str key, struct cli_column *ret_column)
{
    ty_str path = key, rest = key, head;
    bool basename = ty_str_ends(key, TY_STR(".basename()"));
    if (basename)
        path.len -= strlen(".basename()");
    else if (ty_str_split(&rest, '(', &head)) {
        while (ty_str_split(&head, '.', &rest)) /* leaves the last name in rest */
            ;
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --format: the transform '" TY_STR_FMT "()' is not supported; "
                       "basename() is",
                       TY_STR_ARG(rest));
    }
    if (!path_is_good(path))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --format: '" TY_STR_FMT "' is no key; keys look like name, "
                       "jobSpec.workerPoolSpecs[0].replicaCount or name.basename()",
                       TY_STR_ARG(key));
    *ret_column = (struct cli_column){path, basename};
    return TY_OK;
}

ty_err cli_columns_parse(ty_str keys, struct cli_column ret_columns[CLI_MAX_COLUMNS],
                         size_t *ret_count)
{
    size_t count = 0;
    bool more = true;
    while (more) {
        ty_str key;
        more = ty_str_split(&keys, ',', &key);
        if (count == CLI_MAX_COLUMNS)
            return ty_fail(TY_INVALID_ARGUMENT, "argument --format: more than %d keys",
                           CLI_MAX_COLUMNS);
        ty_err err = column_parse(ty_str_trim(key), &ret_columns[count++]);
        if (err != TY_OK)
            return err;
    }
    *ret_count = count;
    return TY_OK;
}

/* displayName is DISPLAY_NAME over a table, and display_name in CSV. */
ty_str cli_column_heading(struct ty_arena *a, const struct cli_column *column, bool capitals)
{
    ty_str path = column->path, name = {0};
    struct ty_buf b;
    while (path.len > 0) {
        ty_str step = step_take(&path);
        if (step.ptr[0] != '[')
            name = step;
    }
    ty_buf_init(&b, 2 * name.len);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
        if (upper && i > 0)
            ty_buf_addc(&b, '_');
        if (capitals ? lower : upper)
            c ^= 0x20;
        ty_buf_addc(&b, c);
    }
    ty_str heading = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return heading;
}

/* ---- values ---- */

static const json_t *member(const json_t *object, ty_str name)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value) {
        if (wire_name_eq(ty_str_of(key), name))
            return value;
    }
    return NULL;
}

/* One step down; NULL where there is nothing. */
static const json_t *step_down(const json_t *value, ty_str step)
{
    int64_t index;
    if (step.ptr[0] != '[')
        return member(value, step);
    if (step.len < 3 || ty_parse_i64((ty_str){step.ptr + 1, step.len - 2}, &index) != TY_OK)
        return NULL;
    return json_array_get(value, (size_t)index);
}

const json_t *cli_json_at(const json_t *value, ty_str path)
{
    while (path.len > 0 && value != NULL)
        value = step_down(value, step_take(&path));
    return value;
}

static void add_value(struct ty_buf *b, const json_t *v)
{
    const char *key;
    json_t *element;
    size_t i;
    if (json_is_string(v)) {
        ty_buf_add(b, json_string_value(v), json_string_length(v));
    } else if (json_is_boolean(v)) {
        ty_buf_addz(b, json_is_true(v) ? "True" : "False");
    } else if (json_is_array(v)) {
        json_array_foreach (v, i, element) {
            ty_buf_addz(b, i > 0 ? ";" : "");
            add_value(b, element);
        }
    } else if (json_is_object(v)) {
        size_t start = b->len;
        json_object_foreach ((json_t *)v, key, element) {
            ty_buf_addf(b, "%s%s=", b->len > start ? ";" : "", key);
            add_value(b, element);
        }
    } else if (v != NULL && !json_is_null(v)) {
        wire_json_dump(b, v);
    }
}

/* Goes into itself only at an array, so no deeper than the value is. */
static void add_at(struct ty_buf *b, const json_t *value, ty_str path, bool basename)
{
    while (path.len > 0 && value != NULL) {
        ty_str before = path, step = step_take(&path);
        bool all = ty_str_is(step, "[]");
        if (!json_is_array(value) || (step.ptr[0] == '[' && !all)) {
            value = all ? NULL : step_down(value, step);
            continue;
        }
        for (size_t i = 0; i < json_array_size(value); i++) {
            ty_buf_addz(b, i > 0 ? ";" : "");
            add_at(b, json_array_get(value, i), all ? path : before, basename);
        }
        return;
    }
    const char *slash =
        basename && json_is_string(value) ? strrchr(json_string_value(value), '/') : NULL;
    if (slash != NULL)
        ty_buf_addz(b, slash + 1);
    else
        add_value(b, value);
}

ty_str cli_column_text(struct ty_arena *a, const struct cli_column *column, const json_t *item)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 26);
    add_at(&b, item, column->path, column->basename);
    ty_str text = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}
