/* print.c -- --format: json and yaml as gcloud prints them, value(KEYS), csv(KEYS), table(KEYS),
 * and a table for people. What a table shows is escaped (text.c); the others are data, left as it
 * is. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum { PRINT_BYTES = 1 << 30 };

bool cli_color(int fd)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && (none == NULL || none[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

/* ---- the table ---- */

/* "12s", "5m", "3h", "2d": short, because only the size matters in a list. */
const char *cli_span_text(struct ty_arena *a, int64_t ns)
{
    int64_t s = ns > 0 ? ns / 1000000000 : 0;
    if (s < 120)
        return ty_format(a, "%" PRId64 "s", s);
    if (s < 7200)
        return ty_format(a, "%" PRId64 "m", s / 60);
    if (s < 172800)
        return ty_format(a, "%" PRId64 "h", s / 3600);
    return ty_format(a, "%" PRId64 "d", s / 86400);
}

static bool time_of(const json_t *job, const char *key, int64_t *ret_ns)
{
    return wire_time_parse(wire_json_get_str(job, key), ret_ns) == TY_OK;
}

enum { COLUMNS = 5 };

static void row_of(struct ty_arena *a, const json_t *job, ty_str ret_cells[COLUMNS])
{
    int64_t now = ty_now_ns(), created, started, ended;
    ty_str name = wire_json_get_str(job, "name"), state = wire_json_get_str(job, "state"), part;
    while (ty_str_split(&name, '/', &part))
        ;
    if (ty_str_starts(state, TY_STR("JOB_STATE_")))
        state = ty_str_drop(state, 10);
    ret_cells[0] = part;
    ret_cells[1] = wire_json_get_str(job, "displayName");
    ret_cells[2] = state;
    ret_cells[3] = TY_STR("-");
    ret_cells[4] = TY_STR("-");
    if (time_of(job, "createTime", &created))
        ret_cells[3] = ty_str_of(ty_format(a, "%s ago", cli_span_text(a, now - created)));
    if (time_of(job, "startTime", &started))
        ret_cells[4] =
            ty_str_of(cli_span_text(a, (time_of(job, "endTime", &ended) ? ended : now) - started));
}

void cli_table_add(struct ty_arena *a, struct ty_buf *b, ty_str *cells, size_t rows, size_t columns)
{
    size_t width[CLI_MAX_COLUMNS] = {0};
    for (size_t i = 0; i < rows * columns; i++) {
        cells[i] = cli_text_shown(a, cells[i], false);
        size_t w = cli_text_width(cells[i]), *most = &width[i % columns];
        *most = w > *most ? w : *most;
    }
    for (size_t i = 0; i < rows * columns; i++) {
        bool last = i % columns + 1 == columns;
        ty_buf_adds(b, cells[i]);
        for (size_t pad = cli_text_width(cells[i]); !last && pad < width[i % columns] + 2; pad++)
            ty_buf_addc(b, ' ');
        ty_buf_addz(b, last ? "\n" : "");
    }
}

void cli_job_table_add(struct ty_arena *a, struct ty_buf *b, const json_t *jobs)
{
    static const ty_str head[COLUMNS] = {
        {"ID", 2}, {"NAME", 4}, {"STATE", 5}, {"CREATED", 7}, {"DURATION", 8}};
    size_t count = json_array_size(jobs);
    ty_str *cells = ty_new_array(a, ty_str, (count + 1) * COLUMNS);
    memcpy(cells, head, sizeof(head));
    for (size_t i = 0; i < count; i++)
        row_of(a, json_array_get(jobs, i), cells + (i + 1) * COLUMNS);
    cli_table_add(a, b, cells, count + 1, COLUMNS);
}

/* ---- columns: value(...), csv(...), table(...) ---- */

enum format {
    FORMAT_NONE,
    FORMAT_JSON,
    FORMAT_YAML,
    FORMAT_JOB_TABLE,
    FORMAT_VALUE,
    FORMAT_CSV,
    FORMAT_TABLE,
    FORMAT_UNKNOWN
};

struct columns {
    enum format format;
    bool headless;
    struct cli_column list[CLI_MAX_COLUMNS];
    size_t count;
};

/* A field of a CSV line, quoted where it has to be. */
static void add_csv(struct ty_buf *b, ty_str field)
{
    bool quoted = false;
    for (size_t i = 0; i < field.len; i++)
        quoted |= strchr(",\"\r\n", field.ptr[i]) != NULL;
    ty_buf_addz(b, quoted ? "\"" : "");
    for (size_t i = 0; i < field.len; i++) {
        if (field.ptr[i] == '"')
            ty_buf_addc(b, '"');
        ty_buf_addc(b, field.ptr[i]);
    }
    ty_buf_addz(b, quoted ? "\"" : "");
}

static void add_columns(struct ty_arena *a, struct ty_buf *b, const json_t *list,
                        const struct columns *c)
{
    size_t rows = json_array_size(list), first = c->format == FORMAT_VALUE || c->headless ? 0 : 1;
    ty_str *cells = ty_new_array(a, ty_str, (rows + first) * c->count + 1);
    for (size_t k = 0; k < c->count && first > 0; k++)
        cells[k] = cli_column_heading(a, &c->list[k], c->format == FORMAT_TABLE);
    for (size_t i = 0; i < rows * c->count; i++)
        cells[first * c->count + i] =
            cli_column_text(a, &c->list[i % c->count], json_array_get(list, i / c->count));
    rows += first;
    if (c->format == FORMAT_TABLE) {
        cli_table_add(a, b, cells, rows, c->count);
        return;
    }
    for (size_t i = 0; i < rows * c->count; i++) {
        bool last = i % c->count + 1 == c->count;
        if (c->format == FORMAT_CSV)
            add_csv(b, cells[i]);
        else
            ty_buf_adds(b, cells[i]);
        ty_buf_addz(b, last ? "\n" : c->format == FORMAT_CSV ? "," : "\t");
    }
}

/* ---- all of it ---- */

static enum format format_named(ty_str name, bool with_keys)
{
    static const struct {
        const char *name;
        bool with_keys;
        enum format format;
    } names[] = {{"none", false, FORMAT_NONE},    {"disable", false, FORMAT_NONE},
                 {"json", false, FORMAT_JSON},    {"yaml", false, FORMAT_YAML},
                 {"default", false, FORMAT_YAML}, {"table", false, FORMAT_JOB_TABLE},
                 {"value", true, FORMAT_VALUE},   {"csv", true, FORMAT_CSV},
                 {"table", true, FORMAT_TABLE}};
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (names[i].with_keys == with_keys && ty_str_is(name, names[i].name))
            return names[i].format;
    return FORMAT_UNKNOWN;
}

static ty_err format_parse(ty_str text, struct columns *ret)
{
    ty_str rest = text, name;
    *ret = (struct columns){0};
    bool with_keys = ty_str_ends(text, TY_STR(")")) && ty_str_split(&rest, '(', &name);
    if (!with_keys)
        name = text;
    if (with_keys && ty_str_ends(name, TY_STR("[no-heading]"))) {
        ret->headless = true;
        name.len -= strlen("[no-heading]");
    }
    ret->format = format_named(name, with_keys);
    if (ret->format == FORMAT_UNKNOWN)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --format: '" TY_STR_FMT "' is none of json, yaml, value(KEY,...), "
                       "csv(KEY,...), table(KEY,...), table, none",
                       TY_STR_ARG(text));
    if (!with_keys)
        return TY_OK;
    rest.len--; /* the parenthesis */
    return cli_columns_parse(rest, ret->list, &ret->count);
}

ty_err cli_format_check(const struct cli_args *args)
{
    struct columns columns;
    ty_str text = cli_arg(args, "format");
    return text.len > 0 ? format_parse(text, &columns) : TY_OK;
}

static void add_json(struct ty_buf *b, const json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENCODE_ANY |
                                       JSON_REAL_PRECISION(15));
    ty_assert(text != NULL);
    ty_buf_addf(b, "%s\n", text);
    free(text);
}

static void add_yaml(struct ty_buf *b, const json_t *value)
{
    json_t *item;
    size_t i;
    if (!json_is_array(value))
        wire_yaml_dump(b, value);
    json_array_foreach (value, i, item) {
        ty_buf_addz(b, "---\n"); /* gcloud starts each document of a list with it */
        wire_yaml_dump(b, item);
    }
}

static void add_formatted(const struct cli *c, struct ty_buf *b, const json_t *value, ty_str text)
{
    json_t *list = json_is_array(value) ? json_incref((json_t *)value) : json_pack("[O]", value);
    struct columns columns;
    (void)!format_parse(text, &columns); /* checked before: cli_format_check */
    if (columns.format == FORMAT_JSON)
        add_json(b, value);
    else if (columns.format == FORMAT_YAML)
        add_yaml(b, value);
    else if (columns.format == FORMAT_JOB_TABLE)
        cli_job_table_add(c->arena, b, list);
    else if (columns.count > 0)
        add_columns(c->arena, b, list, &columns);
    json_decref(list);
}

int cli_print(const struct cli *c, const json_t *value, const char *otherwise)
{
    struct ty_buf b;
    ty_str text = cli_arg(&c->args, "format");
    ty_buf_init(&b, PRINT_BYTES);
    add_formatted(c, &b, value, text.len > 0 ? text : ty_str_of(otherwise));
    ty_err err = ty_buf_check(&b, "the output");
    if (err == TY_OK && b.len > 0)
        fwrite(b.ptr, 1, b.len, stdout);
    ty_buf_clear(&b);
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}
