/* print.c -- --format: json and yaml as gcloud prints them, value(KEYS), and a table for people. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum { PRINT_BYTES = 1 << 30 };

bool cli_color(int fd)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && (none == NULL || none[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

const json_t *cli_json_at(const json_t *value, ty_str path)
{
    ty_str name;
    bool more = path.len > 0;
    while (more && value != NULL) {
        more = ty_str_split(&path, '.', &name);
        const json_t *found = NULL;
        const char *key;
        json_t *member;
        json_object_foreach ((json_t *)value, key, member) {
            if (wire_name_eq(ty_str_of(key), name))
                found = member;
        }
        value = found;
    }
    return value;
}

static void add_value(struct ty_buf *b, const json_t *v)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_string(v)) {
        ty_buf_add(b, json_string_value(v), json_string_length(v));
    } else if (json_is_boolean(v)) {
        ty_buf_addz(b, json_is_true(v) ? "True" : "False");
    } else if (json_is_array(v)) {
        json_array_foreach (v, i, member) {
            ty_buf_addz(b, i > 0 ? ";" : "");
            add_value(b, member);
        }
    } else if (json_is_object(v)) {
        size_t start = b->len;
        json_object_foreach ((json_t *)v, key, member) {
            ty_buf_addf(b, "%s%s=", b->len > start ? ";" : "", key);
            add_value(b, member);
        }
    } else if (v != NULL && !json_is_null(v)) {
        wire_json_dump(b, v);
    }
}

/* value(name,state): one line an item, tabs between. */
static void add_values(struct ty_buf *b, const json_t *item, ty_str keys)
{
    bool more = true, first = true;
    while (more) {
        ty_str key;
        more = ty_str_split(&keys, ',', &key);
        ty_buf_addz(b, first ? "" : "\t");
        add_value(b, cli_json_at(item, ty_str_trim(key)));
        first = false;
    }
    ty_buf_addc(b, '\n');
}

/* ---- the table ---- */

/* "12s", "5m", "3h", "2d": short, because only the size matters in a list. */
static const char *span(struct ty_arena *a, int64_t ns)
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
        ret_cells[3] = ty_str_of(ty_format(a, "%s ago", span(a, now - created)));
    if (time_of(job, "startTime", &started))
        ret_cells[4] =
            ty_str_of(span(a, (time_of(job, "endTime", &ended) ? ended : now) - started));
}

static void add_table(struct ty_arena *a, struct ty_buf *b, const json_t *jobs)
{
    size_t count = json_array_size(jobs), width[COLUMNS] = {0};
    ty_str(*rows)[COLUMNS] = ty_alloc_array(a, count + 1, sizeof(*rows));
    const ty_str head[COLUMNS] = {TY_STR("ID"), TY_STR("NAME"), TY_STR("STATE"), TY_STR("CREATED"),
                                  TY_STR("DURATION")};
    memcpy(rows[0], head, sizeof(head));
    for (size_t i = 0; i < count; i++)
        row_of(a, json_array_get(jobs, i), rows[i + 1]);
    for (size_t i = 0; i <= count; i++)
        for (size_t k = 0; k < COLUMNS; k++)
            width[k] = rows[i][k].len > width[k] ? rows[i][k].len : width[k];
    for (size_t i = 0; i <= count; i++)
        for (size_t k = 0; k < COLUMNS; k++) {
            ty_buf_adds(b, rows[i][k]);
            for (size_t pad = rows[i][k].len; k + 1 < COLUMNS && pad < width[k] + 2; pad++)
                ty_buf_addc(b, ' ');
            ty_buf_addz(b, k + 1 < COLUMNS ? "" : "\n");
        }
}

/* ---- all of it ---- */

enum format { FORMAT_NONE, FORMAT_JSON, FORMAT_YAML, FORMAT_TABLE, FORMAT_VALUE, FORMAT_UNKNOWN };

static enum format format_of(ty_str text)
{
    static const struct {
        const char *name;
        enum format format;
    } names[] = {{"none", FORMAT_NONE}, {"disable", FORMAT_NONE}, {"json", FORMAT_JSON},
                 {"yaml", FORMAT_YAML}, {"default", FORMAT_YAML}, {"table", FORMAT_TABLE}};
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (ty_str_is(text, names[i].name))
            return names[i].format;
    bool value = ty_str_starts(text, TY_STR("value(")) && ty_str_ends(text, TY_STR(")"));
    return value ? FORMAT_VALUE : FORMAT_UNKNOWN;
}

ty_err cli_format_check(const struct cli_args *args)
{
    ty_str text = cli_arg(args, "format");
    if (text.len == 0 || format_of(text) != FORMAT_UNKNOWN)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "argument --format: '" TY_STR_FMT "' is none of json, yaml, value(KEY,...), "
                   "table, none",
                   TY_STR_ARG(text));
}

static void add_json(struct ty_buf *b, const json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    ty_assert(text != NULL);
    ty_buf_addf(b, "%s\n", text);
    free(text);
}

static void add_item(struct ty_buf *b, const json_t *item, ty_str text, bool in_list)
{
    if (format_of(text) == FORMAT_VALUE) {
        add_values(b, item, (ty_str){text.ptr + 6, text.len - 7});
        return;
    }
    ty_buf_addz(b, in_list ? "---\n" : ""); /* gcloud starts each document of a list with it */
    wire_yaml_dump(b, item);
}

static void add_formatted(const struct cli *c, struct ty_buf *b, const json_t *value, ty_str text)
{
    json_t *list = json_is_array(value) ? json_incref((json_t *)value) : json_pack("[O]", value);
    enum format format = format_of(text);
    if (format == FORMAT_JSON)
        add_json(b, value);
    else if (format == FORMAT_TABLE)
        add_table(c->arena, b, list);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (format == FORMAT_YAML || format == FORMAT_VALUE)
            add_item(b, json_array_get(list, i), text, json_is_array(value));
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
