/* projection.c -- the keys of --format=value(...), csv(...), table(...) and so on, and of
 * --sort-by.
 *
 *   key   := path ("." transform "(" arguments ")")* (":" attribute)*
 *   path  := part ("." part)*;  part := name ("[" [number] "]")*
 *   attribute := label=TEXT | sort=N | reverse | align=left|center|right | optional | alias=NAME |
 *                wrap[=N]
 * Lines are never wrapped, and no other key can use an alias; both are taken because formats that
 * people have may have them.
 * A name of an array, or [], stands for all its elements, as in gcloud. A key that is not there is
 * an empty text. Names are in camelCase or snake_case. Transforms are in transform.c. */
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

bool cli_path_is_good(ty_str path)
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

bool cli_piece_split(ty_str *rest, char at, ty_str *ret_head)
{
    int depth = 0;
    char quote = '\0';
    for (size_t i = 0; i < rest->len; i++) {
        char ch = rest->ptr[i];
        if (quote != '\0')
            quote = ch == quote ? '\0' : quote;
        else if (ch == '\'' || ch == '"')
            quote = ch;
        else if (ch == at && depth == 0) {
            *ret_head = (ty_str){rest->ptr, i};
            *rest = ty_str_drop(*rest, i + 1);
            return true;
        } else
            depth += (ch == '(' || ch == '[') - (ch == ')' || ch == ']');
    }
    *ret_head = *rest;
    *rest = ty_str_drop(*rest, rest->len);
    return false;
}

ty_str cli_unquoted(ty_str text)
{
    bool quoted = text.len >= 2 && (text.ptr[0] == '\'' || text.ptr[0] == '"') &&
                  text.ptr[text.len - 1] == text.ptr[0];
    return quoted ? (ty_str){text.ptr + 1, text.len - 2} : text;
}

static ty_err key_fail(ty_str key)
{
    return ty_fail(TY_INVALID_ARGUMENT,
                   "'" TY_STR_FMT "' is no key; keys look like name, "
                   "jobSpec.workerPoolSpecs[0].replicaCount or name.basename():label=ID",
                   TY_STR_ARG(key));
}

static bool align_parse(ty_str value, enum cli_align *ret_align)
{
    static const char *const names[] = {"left", "center", "right"};
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (ty_str_is(value, names[i])) {
            *ret_align = (enum cli_align)i;
            return true;
        }
    return false;
}

static ty_err attribute_parse(ty_str text, struct cli_column *c)
{
    ty_str value = text, name;
    int64_t number;
    bool has_value = ty_str_split(&value, '=', &name);
    value = cli_unquoted(value);
    if (has_value && ty_str_is(name, "label")) {
        c->label = value;
        c->labelled = true;
    } else if (has_value && ty_str_is(name, "sort") && ty_parse_i64(value, &number) == TY_OK &&
               number > 0) {
        c->sort = number;
    } else if (!has_value && ty_str_is(name, "reverse")) {
        c->reverse = true;
    } else if (!has_value && ty_str_is(name, "optional")) {
        c->optional = true;
    } else if (has_value && ty_str_is(name, "align") && align_parse(value, &c->align)) {
        return TY_OK;
    } else if (ty_str_is(name, "wrap") || (has_value && ty_str_is(name, "alias"))) {
        return TY_OK;
    } else {
        return ty_fail(TY_INVALID_ARGUMENT,
                       "'" TY_STR_FMT
                       "' is none of label=TEXT, sort=N, reverse, align=left (center, "
                       "right), optional, wrap, alias=NAME",
                       TY_STR_ARG(text));
    }
    return TY_OK;
}

/* The transforms at the end of "path.one(...).two(...)", the last one first; leaves the path. */
static ty_err calls_parse(ty_str key, ty_str *path, struct cli_column *c)
{
    ty_str text = *path, piece;
    *path = (ty_str){text.ptr, 0};
    while (text.len > 0) {
        bool more = cli_piece_split(&text, '.', &piece);
        ty_str args = piece, name;
        bool call =
            piece.len > 0 && piece.ptr[piece.len - 1] == ')' && ty_str_split(&args, '(', &name);
        if (more && text.len == 0)
            return key_fail(key);
        if (!call && c->call_count > 0)
            return key_fail(key);
        if (!call) {
            path->len = (size_t)(piece.ptr + piece.len - path->ptr);
            continue;
        }
        if (c->call_count == TY_COUNT(c->calls))
            return ty_fail(TY_INVALID_ARGUMENT, "more than %zu transforms", TY_COUNT(c->calls));
        args.len--; /* the parenthesis */
        ty_err err = cli_call_parse(name, args, &c->calls[c->call_count++]);
        if (err != TY_OK)
            return err;
    }
    return TY_OK;
}

ty_err cli_key_parse(ty_str key, struct cli_column *ret_column)
{
    struct cli_column c = {.path = key};
    ty_err err = calls_parse(key, &c.path, &c);
    bool whole = c.path.len == 0 && c.call_count > 0; /* firstof(a,b) is of the item itself */
    if (err == TY_OK && !whole && !cli_path_is_good(c.path))
        err = key_fail(key);
    if (err == TY_OK)
        *ret_column = c;
    return err;
}

static ty_err column_parse(ty_str key, struct cli_column *ret_column)
{
    struct cli_column c = {0};
    ty_str rest = key, path, attribute;
    bool more = cli_piece_split(&rest, ':', &path);
    ty_err err = cli_key_parse(path, &c);
    while (err == TY_OK && more) {
        more = cli_piece_split(&rest, ':', &attribute);
        err = attribute_parse(attribute, &c);
    }
    if (err == TY_OK)
        *ret_column = c;
    return err;
}

ty_err cli_columns_parse(ty_str keys, struct cli_column ret_columns[CLI_MAX_COLUMNS],
                         size_t *ret_count)
{
    size_t count = 0;
    bool more = true;
    while (more) {
        ty_str key;
        more = cli_piece_split(&keys, ',', &key);
        if (count == CLI_MAX_COLUMNS)
            return ty_fail(TY_INVALID_ARGUMENT, "argument --format: more than %d keys",
                           CLI_MAX_COLUMNS);
        ty_err err = column_parse(ty_str_trim(key), &ret_columns[count++]);
        if (err != TY_OK)
            return ty_wrap(err, "argument --format");
    }
    *ret_count = count;
    return TY_OK;
}

/* displayName is DISPLAY_NAME over a table, and display_name in CSV. */
ty_str cli_column_heading(struct ty_arena *a, const struct cli_column *column, bool capitals)
{
    ty_str path = column->path, name = {0};
    struct ty_buf b;
    if (column->labelled)
        return column->label;
    for (size_t i = CLI_CALL_ARGS; i > 0 && path.len == 0; i--) /* firstof(a,b) is B */
        if (column->calls[0].given[i - 1] && cli_path_is_good(column->calls[0].args[i - 1]))
            path = column->calls[0].args[i - 1];
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

static const json_t *member(const json_t *object, ty_str name, const char **ret_key)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value) {
        if (wire_name_eq(ty_str_of(key), name)) {
            *ret_key = key;
            return value;
        }
    }
    return NULL;
}

/* One step down; NULL where there is nothing. */
static const json_t *step_down(const json_t *value, ty_str step)
{
    const char *key;
    int64_t index;
    if (step.ptr[0] != '[')
        return member(value, step, &key);
    if (step.len < 3 || ty_parse_i64((ty_str){step.ptr + 1, step.len - 2}, &index) != TY_OK)
        return NULL;
    return json_array_get(value, (size_t)index);
}

/* Goes into itself only at an array, so no deeper than the value is. */
json_t *cli_json_at(const json_t *value, ty_str path)
{
    while (path.len > 0 && value != NULL) {
        ty_str before = path, step = step_take(&path);
        bool all = ty_str_is(step, "[]");
        if (!json_is_array(value) || (step.ptr[0] == '[' && !all)) {
            value = all ? NULL : step_down(value, step);
            continue;
        }
        json_t *list = json_array();
        for (size_t i = 0; i < json_array_size(value); i++) {
            json_t *one = cli_json_at(json_array_get(value, i), all ? path : before);
            json_array_append_new(list, one != NULL ? one : json_null());
        }
        return list;
    }
    return json_incref((json_t *)value);
}

void cli_json_replace(json_t *value, ty_str path, json_t *by)
{
    while (path.len > 0 && value != NULL) {
        const char *key = NULL;
        ty_str step = step_take(&path);
        const json_t *down =
            step.ptr[0] == '[' ? step_down(value, step) : member(value, step, &key);
        if (path.len == 0 && key != NULL)
            json_object_set(value, key, by);
        value = (json_t *)down;
    }
}

json_t *cli_calls_apply(struct ty_arena *a, const struct cli_column *column, json_t *value)
{
    for (size_t i = 0; i < column->call_count; i++) {
        json_t *next = cli_call_apply(a, &column->calls[i], value);
        json_decref(value);
        value = next;
    }
    return value;
}

json_t *cli_column_value(struct ty_arena *a, const struct cli_column *column, const json_t *item)
{
    return cli_calls_apply(a, column, cli_json_at(item, column->path));
}

ty_str cli_column_text(struct ty_arena *a, const struct cli_column *column, const json_t *item,
                       const char *delimiter)
{
    struct ty_buf b;
    json_t *value = cli_column_value(a, column, item);
    ty_buf_init(&b, 1 << 26);
    bool empty = delimiter == NULL && json_array_size(value) == 0 && json_object_size(value) == 0;
    if (empty && (json_is_array(value) || json_is_object(value)))
        ty_buf_addz(&b, json_is_array(value) ? "[]" : "{}");
    else if (delimiter == NULL)
        cli_value_inline(&b, value);
    else
        cli_value_text(&b, value, delimiter);
    ty_str text = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(value);
    return text;
}

/* ---- json(...), yaml(...): what is left of an item ---- */

/* `have` with what `path` leads to in `from` added; both may be NULL. A new reference or NULL. */
static json_t *keep(struct ty_arena *a, json_t *have, const json_t *from, ty_str path,
                    const struct cli_column *c)
{
    const char *key = NULL;
    if (from == NULL || path.len == 0) {
        json_t *value = json_incref((json_t *)from);
        for (size_t i = 0; i < c->call_count && value != NULL; i++) {
            json_t *next = cli_call_apply(a, &c->calls[i], value);
            json_decref(value);
            value = next;
        }
        return value != NULL ? value : json_incref(have);
    }
    ty_str step = step_take(&path);
    bool list = step.ptr[0] == '[', all = list && step.len == 2;
    const json_t *down = all ? NULL : list ? step_down(from, step) : member(from, step, &key);
    json_t *kept = have != NULL ? json_incref(have) : list ? json_array() : json_object();
    for (size_t i = 0; all && i < json_array_size(from); i++) {
        json_t *old = json_array_get(kept, i),
               *one = keep(a, old, json_array_get(from, i), path, c);
        if (one != NULL && old != NULL)
            json_array_set_new(kept, i, one);
        else if (one != NULL)
            json_array_append_new(kept, one);
    }
    json_t *below = down != NULL ? keep(a, json_object_get(kept, key), down, path, c) : NULL;
    if (below != NULL && list)
        json_array_append_new(kept, below);
    else if (below != NULL)
        json_object_set_new(kept, key, below);
    bool empty = json_array_size(kept) == 0 && json_object_size(kept) == 0;
    if (empty)
        json_decref(kept);
    return empty ? NULL : kept;
}

json_t *cli_columns_keep(struct ty_arena *a, const struct cli_column *columns, size_t count,
                         const json_t *item)
{
    json_t *kept = json_object();
    for (size_t i = 0; i < count; i++) {
        json_t *more = keep(a, kept, item, columns[i].path, &columns[i]);
        if (more != NULL) {
            json_decref(kept);
            kept = more;
        }
    }
    if (json_object_size(kept) > 0)
        return kept;
    json_decref(kept);
    return json_null();
}
