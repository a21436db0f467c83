/* transform.c -- key.transform(...) of --format, and values as gcloud prints them.
 *
 * To add a transform: a function that makes a new value of an old one, and a row in the table.
 * Arguments are given in their order or by name: join(' '), yesno(no=never). */
#include "cli/cli_int.h"

#include "wire/wire.h"

/* ---- values as text ---- */

/* As Python writes a string; gcloud is written in it. */
static void add_quoted(struct ty_buf *b, const char *s)
{
    char quote = strchr(s, '\'') != NULL && strchr(s, '"') == NULL ? '"' : '\'';
    ty_buf_addc(b, quote);
    for (; *s != '\0'; s++) {
        if (*s == '\n')
            ty_buf_addz(b, "\\n");
        else if (*s == '\t')
            ty_buf_addz(b, "\\t");
        else if (*s == '\\' || *s == quote)
            ty_buf_addf(b, "\\%c", *s);
        else
            ty_buf_addc(b, *s);
    }
    ty_buf_addc(b, quote);
}

/* The keys of an object in order, in the arena of no one: ours to free. */
static const char **keys_sorted(const json_t *object, size_t *ret_count);

/* {'a': [1, True]}: a value inside another one. No deeper than a reply is (WIRE_MAX_DEPTH). */
static void add_inner(struct ty_buf *b, const json_t *v)
{
    size_t count = 0;
    if (json_is_string(v)) {
        add_quoted(b, json_string_value(v));
    } else if (json_is_array(v)) {
        ty_buf_addc(b, '[');
        for (size_t i = 0; i < json_array_size(v); i++) {
            ty_buf_addz(b, i > 0 ? ", " : "");
            add_inner(b, json_array_get(v, i));
        }
        ty_buf_addc(b, ']');
    } else if (json_is_object(v)) {
        const char **keys = keys_sorted(v, &count);
        ty_buf_addc(b, '{');
        for (size_t i = 0; i < count; i++) {
            ty_buf_addz(b, i > 0 ? ", " : "");
            add_quoted(b, keys[i]);
            ty_buf_addz(b, ": ");
            add_inner(b, json_object_get(v, keys[i]));
        }
        ty_buf_addc(b, '}');
        free(keys);
    } else if (json_is_null(v)) {
        ty_buf_addz(b, "None");
    } else {
        cli_value_text(b, v, "");
    }
}

static int key_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char **keys_sorted(const json_t *object, size_t *ret_count)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    const char **keys = calloc(json_object_size(object) + 1, sizeof(*keys));
    ty_assert(keys != NULL);
    json_object_foreach ((json_t *)object, key, value) {
        keys[n++] = key;
    }
    qsort(keys, n, sizeof(*keys), key_compare);
    *ret_count = n;
    return keys;
}

static void add_scalar(struct ty_buf *b, const json_t *v)
{
    if (json_is_string(v))
        ty_buf_add(b, json_string_value(v), json_string_length(v));
    else if (json_is_boolean(v))
        ty_buf_addz(b, json_is_true(v) ? "True" : "False");
    else if (json_is_array(v) || json_is_object(v)) {
        if (json_array_size(v) > 0 || json_object_size(v) > 0)
            add_inner(b, v);
    } else if (v != NULL && !json_is_null(v))
        wire_json_dump(b, v);
}

void cli_value_text(struct ty_buf *b, const json_t *v, const char *separator)
{
    size_t count = 0;
    if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            ty_buf_addz(b, i > 0 ? separator : "");
            add_scalar(b, json_array_get(v, i));
        }
    } else if (json_is_object(v)) {
        const char **keys = keys_sorted(v, &count);
        for (size_t i = 0; i < count; i++) {
            ty_buf_addf(b, "%s%s=", i > 0 ? separator : "", keys[i]);
            add_scalar(b, json_object_get(v, keys[i]));
        }
        free(keys);
    } else {
        add_scalar(b, v);
    }
}

void cli_value_inline(struct ty_buf *b, const json_t *v)
{
    add_scalar(b, v);
}

/* A string from a buffer, which is cleared. */
static json_t *string_of(struct ty_buf *b)
{
    json_t *text = json_stringn(b->ptr != NULL ? b->ptr : "", b->len);
    ty_buf_clear(b);
    return text != NULL ? text : json_string("");
}

/* ---- the transforms ---- */

static json_t *do_basename(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    const char *text = json_string_value(v), *slash = text != NULL ? strrchr(text, '/') : NULL;
    json_t *all = json_is_array(v) ? json_array() : NULL;
    for (size_t i = 0; i < json_array_size(v); i++)
        json_array_append_new(all, do_basename(a, call, json_array_get(v, i)));
    if (all != NULL)
        return all;
    if (text == NULL)
        return json_string(ty_cstr(a, call->args[0]));
    return json_string(slash != NULL ? slash + 1 : text);
}

static json_t *joined(const json_t *v, const char *separator)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 26);
    cli_value_text(&b, v, separator);
    return string_of(&b);
}

static json_t *do_list(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    return joined(v, call->given[0] ? ty_cstr(a, call->args[0]) : ",");
}

static json_t *do_join(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    return joined(v, call->given[0] ? ty_cstr(a, call->args[0]) : "/");
}

static json_t *do_len(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    size_t n = json_is_array(v) ? json_array_size(v) : json_object_size(v);
    (void)a, (void)call;
    for (const char *s = json_string_value(v); s != NULL && *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80; /* characters, not bytes */
    return json_integer((json_int_t)n);
}

static json_t *do_segment(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    ty_str rest = ty_str_of(json_string_value(v)), part = {0};
    int64_t wanted = -1, count = 1;
    (void)a;
    if (call->given[0] && ty_parse_i64(call->args[0], &wanted) != TY_OK)
        return json_string("");
    for (size_t i = 0; i < rest.len; i++)
        count += rest.ptr[i] == '/';
    wanted += wanted < 0 ? count : 0;
    if (wanted < 0 || wanted >= count)
        return json_string("");
    for (int64_t i = 0; i <= wanted; i++)
        ty_str_split(&rest, '/', &part);
    return json_stringn(part.ptr, part.len);
}

static json_t *with_case(const json_t *v, char from, char to)
{
    struct ty_buf b;
    const char *s = json_string_value(v);
    ty_buf_init(&b, 1 << 26);
    for (; s != NULL && *s != '\0'; s++)
        ty_buf_addc(&b, *s >= from && *s <= to ? (char)(*s ^ 0x20) : *s);
    return string_of(&b);
}

static json_t *do_upper(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    (void)a, (void)call;
    return with_case(v, 'a', 'z');
}

static json_t *do_lower(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    (void)a, (void)call;
    return with_case(v, 'A', 'Z');
}

static json_t *do_yesno(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    bool no = v == NULL || json_is_null(v) || json_is_false(v) ||
              (json_is_string(v) && json_string_length(v) == 0) ||
              (json_is_array(v) && json_array_size(v) == 0) ||
              (json_is_object(v) && json_object_size(v) == 0) ||
              (json_is_integer(v) && json_integer_value(v) == 0);
    if (no)
        return json_string(call->given[1] ? ty_cstr(a, call->args[1]) : "No");
    return call->given[0] ? json_string(ty_cstr(a, call->args[0])) : json_incref((json_t *)v);
}

static json_t *do_date(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    int64_t ns;
    char text[512];
    struct tm tm;
    if (!json_is_string(v) || wire_time_parse(ty_str_of(json_string_value(v)), &ns) != TY_OK)
        return json_string("");
    time_t seconds = (time_t)(ns / 1000000000);
    if (ty_str_is(call->args[1], "LOCAL"))
        localtime_r(&seconds, &tm);
    else
        gmtime_r(&seconds, &tm);
    const char *format = call->given[0] ? ty_cstr(a, call->args[0]) : "%Y-%m-%dT%H:%M:%S";
    size_t n = strftime(text, sizeof(text), format, &tm);
    return json_stringn(text, n);
}

static const struct transform {
    const char *name;
    json_t *(*apply)(struct ty_arena *a, const struct cli_call *call, const json_t *v);
    const char *args[CLI_CALL_ARGS]; /* their names, in order */
} transforms[] = {
    {"basename", do_basename, {"undefined"}},
    {"date", do_date, {"format", "tz"}},
    {"join", do_join, {"sep"}},
    {"len", do_len, {NULL}},
    {"list", do_list, {"separator"}},
    {"lower", do_lower, {NULL}},
    {"segment", do_segment, {"index"}},
    {"upper", do_upper, {NULL}},
    {"yesno", do_yesno, {"yes", "no"}},
};

json_t *cli_call_apply(struct ty_arena *a, const struct cli_call *call, const json_t *value)
{
    return transforms[call->transform].apply(a, call, value);
}

static ty_err argument_parse(const struct transform *t, ty_str text, size_t place,
                             struct cli_call *call)
{
    ty_str value = text, name;
    bool named = text.ptr[0] != '\'' && text.ptr[0] != '"' && ty_str_split(&value, '=', &name);
    for (size_t i = 0; named && i < CLI_CALL_ARGS; i++)
        if (t->args[i] != NULL && ty_str_is(name, t->args[i]))
            place = i;
    if (place >= CLI_CALL_ARGS || t->args[place] == NULL ||
        (named && !ty_str_is(name, t->args[place])))
        return ty_fail(TY_INVALID_ARGUMENT, "the transform '%s()' takes no '" TY_STR_FMT "'",
                       t->name, TY_STR_ARG(text));
    call->args[place] = cli_unquoted(named ? value : text);
    call->given[place] = true;
    if (strcmp(t->args[place], "tz") == 0 && !ty_str_is(call->args[place], "LOCAL") &&
        !ty_str_is(call->args[place], "UTC"))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "date()'s tz is LOCAL or UTC, not "
                       "'" TY_STR_FMT "'",
                       TY_STR_ARG(call->args[place]));
    return TY_OK;
}

ty_err cli_call_parse(ty_str name, ty_str args, struct cli_call *ret_call)
{
    struct cli_call call = {0};
    size_t t = 0;
    bool more = ty_str_trim(args).len > 0;
    while (t < TY_COUNT(transforms) && !ty_str_is(name, transforms[t].name))
        t++;
    if (t == TY_COUNT(transforms))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the transform '" TY_STR_FMT "()' is not supported; "
                       "basename, date, join, len, list, lower, segment, upper and yesno are",
                       TY_STR_ARG(name));
    call.transform = t;
    for (size_t place = 0; more; place++) {
        ty_str arg;
        more = cli_piece_split(&args, ',', &arg);
        arg = ty_str_trim(arg);
        if (arg.len == 0)
            return ty_fail(TY_INVALID_ARGUMENT, "an empty argument of '%s()'", transforms[t].name);
        ty_err err = argument_parse(&transforms[t], arg, place, &call);
        if (err != TY_OK)
            return err;
    }
    *ret_call = call;
    return TY_OK;
}
