/* print.c -- --format: json, yaml, list and text as gcloud prints them, value(KEYS), csv(KEYS),
 * table(KEYS), and a table for people.
 *
 *   format := name ["[" attribute, ... "]"] ["(" key, ... ")"]
 *   attribute := no-heading | box | all-box | title=TEXT | pad=N | separator=TEXT | delimiter=TEXT
 * | terminator=TEXT | quote | no-quote | no-undefined;  key: projection.c What a table shows is
 * escaped (text.c); the others are data, left as it is. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum { PRINT_BYTES = 1 << 30, MAX_PAD = 100, TABLE_PAD = 2 };

bool cli_color(int fd)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && (none == NULL || none[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

struct format {
    const struct kind *kind;
    struct cli_grid grid; /* of a table */
    bool headless, quote, no_quote;
    bool no_undefined;                       /* changes nothing: what is not there is never shown */
    ty_str separator, delimiter, terminator; /* without a pointer: the kind's own */
    struct cli_column columns[CLI_MAX_COLUMNS];
    size_t count; /* 0: no keys were given */
};

/* A text of an attribute, with \n and \t as what they stand for. */
static ty_str unescaped(struct ty_arena *a, ty_str text, const char *otherwise)
{
    struct ty_buf b;
    if (text.ptr == NULL)
        return ty_str_of(otherwise);
    ty_buf_init(&b, text.len + 1);
    for (size_t i = 0; i < text.len; i++) {
        char next = text.ptr[i] == '\\' && i + 1 < text.len ? text.ptr[i + 1] : '\0';
        bool escape = next == 'n' || next == 't';
        ty_buf_addc(&b, next == 'n' ? '\n' : escape ? '\t' : text.ptr[i]);
        i += escape;
    }
    ty_str plain = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return plain;
}

/* A field of a CSV line, quoted where it has to be. */
static void add_csv(struct ty_buf *b, ty_str field, ty_str separator)
{
    bool quoted = false;
    for (size_t i = 0; i < field.len; i++)
        quoted |= strchr("\"\r\n", field.ptr[i]) != NULL ||
                  (separator.len > 0 && ty_str_starts(ty_str_drop(field, i), separator));
    ty_buf_addz(b, quoted ? "\"" : "");
    for (size_t i = 0; i < field.len; i++) {
        if (field.ptr[i] == '"')
            ty_buf_addc(b, '"');
        ty_buf_addc(b, field.ptr[i]);
    }
    ty_buf_addz(b, quoted ? "\"" : "");
}

/* ---- rows: value(...), csv(...), table(...) ---- */

/* The texts of all columns of all items, behind `first` rows that are left free for headings. A
 * list is joined by `delimiter`; as Python writes it, if that is NULL. */
static ty_str *cells_new(struct ty_arena *a, const struct format *f, const json_t *list,
                         size_t first, const char *delimiter)
{
    size_t rows = json_array_size(list);
    ty_str *cells = ty_new_array(a, ty_str, (rows + first) * f->count + 1);
    for (size_t i = 0; i < rows * f->count; i++)
        cells[first * f->count + i] = cli_column_text(
            a, &f->columns[i % f->count], json_array_get(list, i / f->count), delimiter);
    return cells;
}

/* Leave out the columns that are :optional and have nothing; returns how many are left. */
static size_t optional_drop(const struct format *f, ty_str *cells, size_t rows, size_t first,
                            struct cli_grid *grid)
{
    bool kept[CLI_MAX_COLUMNS] = {false};
    size_t to = 0, columns = 0;
    for (size_t i = first * f->count; i < rows * f->count; i++)
        kept[i % f->count] |= cells[i].len > 0;
    for (size_t k = 0; k < f->count; k++) {
        kept[k] |= !f->columns[k].optional;
        if (kept[k])
            grid->align[columns++] = f->columns[k].align;
    }
    for (size_t i = 0; i < rows * f->count; i++)
        if (kept[i % f->count])
            cells[to++] = cells[i];
    return columns;
}

static void add_table(struct ty_arena *a, struct ty_buf *b, const json_t *value, const json_t *list,
                      const struct format *f)
{
    (void)value;
    if (f->count == 0) {
        cli_job_table_add(a, b, list);
        return;
    }
    if (json_array_size(list) == 0) /* gcloud has no headings over nothing */
        return;
    size_t first = f->headless ? 0 : 1, rows = json_array_size(list) + first;
    struct cli_grid grid = f->grid;
    ty_str *cells = cells_new(a, f, list, first, NULL);
    for (size_t k = 0; k < f->count && first > 0; k++)
        cells[k] = cli_column_heading(a, &f->columns[k], true);
    grid.heading = first > 0;
    grid.title = unescaped(a, grid.title, "");
    size_t columns = optional_drop(f, cells, rows, first, &grid);
    if (columns > 0)
        cli_grid_add(a, b, cells, rows, columns, &grid);
}

static void add_lines(struct ty_arena *a, struct ty_buf *b, const json_t *list,
                      const struct format *f, bool csv)
{
    bool heading = csv && !f->headless && json_array_size(list) > 0;
    size_t first = heading ? 1 : 0, rows = json_array_size(list) + first;
    ty_str between = unescaped(a, f->separator, csv ? "," : "\t");
    ty_str end = unescaped(a, f->terminator, "\n"), delimiter = unescaped(a, f->delimiter, ";");
    ty_str *cells = cells_new(a, f, list, first, ty_cstr(a, delimiter));
    for (size_t k = 0; k < f->count && heading; k++)
        cells[k] = cli_column_heading(a, &f->columns[k], false);
    for (size_t i = 0; i < rows * f->count; i++) {
        if (csv ? !f->no_quote : f->quote)
            add_csv(b, cells[i], between);
        else
            ty_buf_adds(b, cells[i]);
        ty_buf_adds(b, i % f->count + 1 == f->count ? end : between);
    }
}

static void add_value(struct ty_arena *a, struct ty_buf *b, const json_t *value, const json_t *list,
                      const struct format *f)
{
    (void)value;
    add_lines(a, b, list, f, false);
}

static void add_csv_lines(struct ty_arena *a, struct ty_buf *b, const json_t *value,
                          const json_t *list, const struct format *f)
{
    (void)value;
    add_lines(a, b, list, f, true);
}

/* ---- whole items: json, yaml, list, text ---- */

/* The item, or what the keys leave of it. A new reference. */
static json_t *item_kept(struct ty_arena *a, const struct format *f, const json_t *item)
{
    return f->count > 0 ? cli_columns_keep(a, f->columns, f->count, item)
                        : json_incref((json_t *)item);
}

static json_t *all_kept(struct ty_arena *a, const struct format *f, const json_t *value)
{
    if (!json_is_array(value))
        return item_kept(a, f, value);
    json_t *all = json_array();
    for (size_t i = 0; i < json_array_size(value); i++)
        json_array_append_new(all, item_kept(a, f, json_array_get(value, i)));
    return all;
}

static void add_json(struct ty_arena *a, struct ty_buf *b, const json_t *value, const json_t *list,
                     const struct format *f)
{
    json_t *kept = all_kept(a, f, value);
    (void)list;
    char *text = json_dumps(kept, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENCODE_ANY |
                                      JSON_REAL_PRECISION(15));
    ty_assert(text != NULL);
    ty_buf_addf(b, "%s\n", text);
    free(text);
    json_decref(kept);
}

static void add_yaml(struct ty_arena *a, struct ty_buf *b, const json_t *value, const json_t *list,
                     const struct format *f)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *kept = item_kept(a, f, json_array_get(list, i));
        if (json_is_array(value)) /* gcloud starts each document of a list with it */
            ty_buf_addz(b, "---\n");
        wire_yaml_dump(b, kept);
        json_decref(kept);
    }
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char **names_sorted(struct ty_arena *a, const json_t *object, size_t *ret_count)
{
    const char *key, **names = ty_new_array(a, const char *, json_object_size(object) + 1);
    json_t *member;
    size_t n = 0;
    json_object_foreach ((json_t *)object, key, member) {
        names[n++] = key;
    }
    qsort(names, n, sizeof(*names), name_compare);
    *ret_count = n;
    return names;
}

/* " - one\n   two" for keys, " - name: one\n   ..." for all of an item. */
static void add_list(struct ty_arena *a, struct ty_buf *b, const json_t *value, const json_t *list,
                     const struct format *f)
{
    size_t count = 0;
    (void)value;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        for (size_t k = 0; k < f->count; k++)
            ty_buf_addf(b, "%s" TY_STR_FMT "\n", k == 0 ? " - " : "   ",
                        TY_STR_ARG(cli_column_text(a, &f->columns[k], item, ";")));
        const char **names = f->count == 0 ? names_sorted(a, item, &count) : NULL;
        for (size_t k = 0; f->count == 0 && k < count; k++) {
            ty_buf_addf(b, "%s%s: ", k == 0 ? " - " : "   ", names[k]);
            cli_value_inline(b, json_object_get(item, names[k]));
            ty_buf_addc(b, '\n');
        }
    }
}

/* The leaves of a value as rows of two cells, "path:" and text; appended to *rows. */
struct leaves {
    struct ty_arena *arena;
    struct {
        const char *path, *text;
    } * rows;
    size_t count, size;
};

static void leaf_add(struct leaves *l, const char *path, const json_t *v)
{
    struct ty_buf b;
    if (l->count == l->size) {
        size_t size = l->size > 0 ? 2 * l->size : 64;
        void *bigger = ty_new_array(l->arena, __typeof__(*l->rows), size);
        if (l->count > 0)
            memcpy(bigger, l->rows, l->count * sizeof(*l->rows));
        l->rows = bigger;
        l->size = size;
    }
    ty_buf_init(&b, PRINT_BYTES);
    cli_value_inline(&b, v);
    l->rows[l->count].path = path;
    l->rows[l->count++].text = ty_cstr(l->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
}

/* No deeper than a reply is (WIRE_MAX_DEPTH). */
static void leaves_add(struct leaves *l, const char *path, const json_t *v)
{
    size_t count = 0;
    if (json_is_object(v) && json_object_size(v) > 0) {
        const char **names = names_sorted(l->arena, v, &count);
        for (size_t i = 0; i < count; i++)
            leaves_add(l, ty_format(l->arena, "%s%s%s", path, path[0] != '\0' ? "." : "", names[i]),
                       json_object_get(v, names[i]));
    } else if (json_is_array(v) && json_array_size(v) > 0) {
        for (size_t i = 0; i < json_array_size(v); i++)
            leaves_add(l, ty_format(l->arena, "%s[%zu]", path, i), json_array_get(v, i));
    } else {
        leaf_add(l, path, v);
    }
}

static void add_text(struct ty_arena *a, struct ty_buf *b, const json_t *value, const json_t *list,
                     const struct format *f)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct leaves l = {.arena = a};
        const json_t *item = json_array_get(list, i);
        int width = 0;
        if (f->count == 0)
            leaves_add(&l, "", item);
        for (size_t k = 0; k < f->count; k++) {
            json_t *value_there = cli_column_value(a, &f->columns[k], item);
            if (value_there != NULL)
                leaves_add(&l, ty_cstr(a, cli_column_heading(a, &f->columns[k], false)),
                           value_there);
            json_decref(value_there);
        }
        for (size_t k = 0; k < l.count; k++)
            width = (int)strlen(l.rows[k].path) > width ? (int)strlen(l.rows[k].path) : width;
        ty_buf_addz(b, json_is_array(value) ? "---\n" : "");
        for (size_t k = 0; k < l.count; k++)
            ty_buf_addf(b, "%-*s %s\n", width + 1, ty_format(a, "%s:", l.rows[k].path),
                        l.rows[k].text);
    }
}

static void add_nothing(struct ty_arena *a, struct ty_buf *b, const json_t *value,
                        const json_t *list, const struct format *f)
{
    (void)a, (void)b, (void)value, (void)list, (void)f;
}

/* ---- all of it ---- */

enum keys { KEYS_NEVER, KEYS_MAY, KEYS_MUST };

static const struct kind {
    const char *name;
    bool nested; /* keys keep their place in the item */
    enum keys keys;
    /* `value` as it was given; `list` the same, as an array in any case. */
    void (*add)(struct ty_arena *a, struct ty_buf *b, const json_t *value, const json_t *list,
                const struct format *f);
} kinds[] = {
    {"json", true, KEYS_MAY, add_json},     {"yaml", true, KEYS_MAY, add_yaml},
    {"default", true, KEYS_MAY, add_yaml},  {"value", false, KEYS_MUST, add_value},
    {"get", false, KEYS_MUST, add_value},   {"csv", false, KEYS_MUST, add_csv_lines},
    {"table", false, KEYS_MAY, add_table},  {"list", false, KEYS_MAY, add_list},
    {"text", false, KEYS_MAY, add_text},    {"flattened", false, KEYS_MAY, add_text},
    {"none", false, KEYS_MAY, add_nothing}, {"disable", false, KEYS_NEVER, add_nothing},
};

static ty_err format_fail(ty_str text)
{
    return ty_fail(TY_INVALID_ARGUMENT,
                   "argument --format: '" TY_STR_FMT "' is none of json, yaml, value(KEY,...), "
                   "csv(KEY,...), table(KEY,...), list, text, table, none",
                   TY_STR_ARG(text));
}

/* name=TEXT of an attribute; NULL: no such one. */
static ty_str *text_attribute(struct format *f, ty_str name)
{
    const struct {
        const char *name;
        ty_str *text;
    } texts[] = {{"title", &f->grid.title},
                 {"separator", &f->separator},
                 {"delimiter", &f->delimiter},
                 {"terminator", &f->terminator}};
    for (size_t i = 0; i < TY_COUNT(texts); i++)
        if (ty_str_is(name, texts[i].name))
            return texts[i].text;
    return NULL;
}

/* A name alone; NULL: no such one. */
static bool *switch_attribute(struct format *f, ty_str name)
{
    const struct {
        const char *name;
        bool *on;
    } switches[] = {{"no-heading", &f->headless},  {"box", &f->grid.box},
                    {"all-box", &f->grid.all_box}, {"quote", &f->quote},
                    {"no-quote", &f->no_quote},    {"no-undefined", &f->no_undefined}};
    for (size_t i = 0; i < TY_COUNT(switches); i++)
        if (ty_str_is(name, switches[i].name))
            return switches[i].on;
    return NULL;
}

static ty_err attribute_parse(ty_str one, struct format *f)
{
    ty_str value = one, name;
    int64_t pad;
    bool has_value = ty_str_split(&value, '=', &name);
    ty_str *text = has_value ? text_attribute(f, name) : NULL;
    bool *on = has_value ? NULL : switch_attribute(f, name);
    if (text != NULL)
        *text = cli_unquoted(value);
    else if (on != NULL)
        *on = true;
    else if (has_value && ty_str_is(name, "pad") && ty_parse_i64(value, &pad) == TY_OK &&
             pad >= 0 && pad <= MAX_PAD)
        f->grid.pad = (size_t)pad;
    else
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --format: '" TY_STR_FMT "' is none of no-heading, box, all-box, "
                       "title=TEXT, pad=N (up to %d), separator=TEXT, delimiter=TEXT, "
                       "terminator=TEXT, quote, no-quote, no-undefined",
                       TY_STR_ARG(one), MAX_PAD);
    f->grid.box |= f->grid.all_box;
    return TY_OK;
}

static ty_err attributes_parse(ty_str text, struct format *f)
{
    ty_err err = TY_OK;
    for (bool more = true; more && err == TY_OK;) {
        ty_str one;
        more = cli_piece_split(&text, ',', &one);
        err = attribute_parse(ty_str_trim(one), f);
    }
    return err;
}

/* The part in brackets, if *text begins with one; leaves what is behind it. False: never closed. */
static bool bracket_take(ty_str *text, const char brackets[2], ty_str *ret_inside)
{
    *ret_inside = (ty_str){0};
    if (text->len == 0 || text->ptr[0] != brackets[0])
        return true;
    ty_str rest = ty_str_drop(*text, 1);
    if (!cli_piece_split(&rest, brackets[1], ret_inside))
        return false;
    *text = rest;
    return true;
}

static ty_err format_parse(ty_str text, struct format *ret)
{
    size_t n = 0, k = 0;
    ty_str rest, attributes, keys;
    *ret = (struct format){.grid.pad = TABLE_PAD};
    while (n < text.len && text.ptr[n] != '[' && text.ptr[n] != '(')
        n++;
    while (k < TY_COUNT(kinds) && !ty_str_is((ty_str){text.ptr, n}, kinds[k].name))
        k++;
    rest = ty_str_drop(text, n);
    if (k == TY_COUNT(kinds) || !bracket_take(&rest, "[]", &attributes) ||
        !bracket_take(&rest, "()", &keys) || rest.len > 0)
        return format_fail(text);
    ret->kind = &kinds[k];
    if ((keys.len == 0 && kinds[k].keys == KEYS_MUST) ||
        (keys.len > 0 && kinds[k].keys == KEYS_NEVER))
        return format_fail(text);
    ty_err err = attributes.len > 0 ? attributes_parse(attributes, ret) : TY_OK;
    if (err == TY_OK && keys.len > 0)
        err = cli_columns_parse(keys, ret->columns, &ret->count);
    for (size_t i = 0; err == TY_OK && i < ret->count; i++)
        if (ret->columns[i].path.len == 0 && kinds[k].nested)
            err =
                ty_fail(TY_INVALID_ARGUMENT,
                        "argument --format: %s() needs a key before each transform", kinds[k].name);
    return err;
}

ty_err cli_format_check(const struct cli_args *args)
{
    struct format format;
    ty_str text = cli_arg(args, "format");
    return text.len > 0 ? format_parse(text, &format) : TY_OK;
}

/* --flatten=KEY: an item with a list at KEY becomes one item an element. A new array. */
static json_t *flattened(const json_t *list, ty_str path)
{
    json_t *flat = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i), *at = cli_json_at(item, path);
        for (size_t k = 0; k < json_array_size(at); k++) {
            json_t *copy = json_deep_copy(item);
            cli_json_replace(copy, path, json_array_get(at, k));
            json_array_append_new(flat, copy);
        }
        if (!json_is_array(at))
            json_array_append(flat, item);
        json_decref(at);
    }
    return flat;
}

static ty_err flatten_all(const struct cli *c, json_t **list)
{
    struct cli_item *keys = NULL;
    ty_err err = cli_list_split(c->arena, cli_arg(&c->args, "flatten"), &keys);
    for (; err == TY_OK && keys != NULL; keys = keys->next) {
        if (ty_str_ends(keys->value, TY_STR("[]")))
            keys->value.len -= 2;
        if (!cli_path_is_good(keys->value))
            return ty_fail(TY_INVALID_ARGUMENT, "argument --flatten: '" TY_STR_FMT "' is no key",
                           TY_STR_ARG(keys->value));
        json_t *flat = flattened(*list, keys->value);
        json_decref(*list);
        *list = flat;
    }
    return err;
}

int cli_print(const struct cli *c, const json_t *value, const char *otherwise)
{
    struct ty_buf b;
    struct format f;
    ty_str text = cli_arg(&c->args, "format");
    ty_err err = format_parse(text.len > 0 ? text : ty_str_of(otherwise), &f);
    if (err != TY_OK)
        return cli_fail(c, err);
    json_t *list = json_is_array(value) ? json_incref((json_t *)value) : json_pack("[O]", value);
    err = flatten_all(c, &list);
    bool many = json_is_array(value) || json_array_size(list) != 1;
    json_t *sorted = cli_sort_by_columns(c->arena, f.columns, f.count, list);
    if (f.kind->add == add_table && f.count > 0) {
        json_t *again = cli_sort_by_keys(c->arena, cli_arg(&c->args, "sort-by"), true, sorted);
        json_decref(sorted);
        sorted = again;
    }
    ty_buf_init(&b, PRINT_BYTES);
    if (err == TY_OK)
        f.kind->add(c->arena, &b, many ? sorted : json_array_get(sorted, 0), sorted, &f);
    json_decref(sorted);
    json_decref(list);
    if (err == TY_OK)
        err = ty_buf_check(&b, "the output");
    if (err == TY_OK && b.len > 0)
        fwrite(b.ptr, 1, b.len, stdout);
    ty_buf_clear(&b);
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}
