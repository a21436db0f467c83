/* transform.c -- key.transform(...) of --format, and values as gcloud prints them.
 *
 * To add a transform: a function that makes a new value of an old one, and a row in the table.
 * Arguments are given in their order or by name: join(' '), yesno(no=never). Those that cut and put
 * together are in cut.c. */
#include "cli/cli_int.h"

#include <ctype.h>
#include <locale.h>
#include <wctype.h>

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

/* Every character by itself, so the German sharp s stays as it is. */
static json_t *with_case(const json_t *v, wint_t (*turn)(wint_t, locale_t))
{
    struct ty_buf b;
    ty_str rest = ty_str_of(json_string_value(v));
    if (!json_is_string(v))
        return json_incref((json_t *)v);
    locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (locale == (locale_t)0)
        return json_incref((json_t *)v);
    ty_buf_init(&b, 1 << 26);
    while (rest.len > 0) {
        uint32_t code = cli_char_take(&rest);
        cli_char_add(&b, (uint32_t)turn((wint_t)code, locale));
    }
    freelocale(locale);
    return string_of(&b);
}

static json_t *do_upper(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    (void)a, (void)call;
    return with_case(v, towupper_l);
}

static json_t *do_lower(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    (void)a, (void)call;
    return with_case(v, towlower_l);
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

/* The time of a zone: localtime with another TZ. This program has one thread. */
static void zone_time(const char *zone, time_t seconds, struct tm *ret_tm)
{
    const char *given = getenv("TZ");
    char *kept = given != NULL ? strdup(given) : NULL;
    setenv("TZ", zone, 1);
    tzset();
    localtime_r(&seconds, ret_tm);
    if (kept != NULL)
        setenv("TZ", kept, 1);
    else
        unsetenv("TZ");
    tzset();
    free(kept);
}

static json_t *do_date(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    int64_t ns;
    char text[512];
    struct tm tm;
    if (!json_is_string(v) || wire_time_parse(ty_str_of(json_string_value(v)), &ns) != TY_OK)
        return json_string(ty_cstr(a, call->args[2]));
    time_t seconds = (time_t)(ns / 1000000000);
    if (!call->given[3] || ty_str_is(call->args[3], "UTC"))
        gmtime_r(&seconds, &tm);
    else if (ty_str_is(call->args[3], "LOCAL"))
        localtime_r(&seconds, &tm);
    else
        zone_time(ty_cstr(a, call->args[3]), seconds, &tm);
    const char *format = call->given[0] ? ty_cstr(a, call->args[0]) : "%Y-%m-%dT%H:%M:%S";
    size_t n = strftime(text, sizeof(text), format, &tm);
    return json_stringn(text, n);
}

/* LOCAL, UTC, or a file of the zone database. */
static bool zone_is_known(ty_str zone)
{
    char path[128];
    struct stat st;
    bool good = zone.len > 0 && zone.ptr[0] != '/';
    for (size_t i = 0; i < zone.len && good; i++)
        good = isalnum((unsigned char)zone.ptr[i]) || strchr("_+-/", zone.ptr[i]) != NULL;
    int n = snprintf(path, sizeof(path), "/usr/share/zoneinfo/" TY_STR_FMT, TY_STR_ARG(zone));
    return ty_str_is(zone, "LOCAL") || ty_str_is(zone, "UTC") ||
           (good && n > 0 && n < (int)sizeof(path) && stat(path, &st) == 0 && S_ISREG(st.st_mode));
}

static const struct transform {
    const char *name;
    json_t *(*apply)(struct ty_arena *a, const struct cli_call *call, const json_t *v);
    const char *args[CLI_CALL_ARGS]; /* their names, in order; NULL: none that is supported */
    size_t needed;                   /* so many have to be given */
    bool keys;                       /* behind these come keys of the value */
} transforms[] = {
    {"basename", do_basename, {"undefined"}, 0, false},
    {"date", do_date, {"format", NULL, "undefined", "tz"}, 0, false},
    {"firstof", cli_do_firstof, {NULL}, 1, true},
    {"format", cli_do_format, {"fmt"}, 1, true},
    {"join", do_join, {"sep"}, 0, false},
    {"len", do_len, {NULL}, 0, false},
    {"list", do_list, {"separator"}, 0, false},
    {"lower", do_lower, {NULL}, 0, false},
    {"segment", do_segment, {"index"}, 0, false},
    {"slice", cli_do_slice, {"op", "undefined"}, 0, false},
    {"split", cli_do_split, {"sep", "undefined"}, 0, false},
    {"sub", cli_do_sub, {"pattern", "replacement", "count", "ignorecase"}, 2, false},
    {"upper", do_upper, {NULL}, 0, false},
    {"yesno", do_yesno, {"yes", "no"}, 0, false},
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
    bool key = place < CLI_CALL_ARGS && t->args[place] == NULL && t->keys && !named &&
               cli_path_is_good(text);
    bool known = place < CLI_CALL_ARGS && t->args[place] != NULL &&
                 (!named || ty_str_is(name, t->args[place]));
    if (!key && !known)
        return ty_fail(TY_INVALID_ARGUMENT, "the transform '%s()' takes no '" TY_STR_FMT "'",
                       t->name, TY_STR_ARG(text));
    call->args[place] = cli_unquoted(named ? value : text);
    call->given[place] = true;
    if (known && strcmp(t->args[place], "tz") == 0 && !zone_is_known(call->args[place]))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "date()'s tz is LOCAL, UTC or a zone such as Europe/Paris that is in "
                       "/usr/share/zoneinfo (tzdata), not '" TY_STR_FMT "'",
                       TY_STR_ARG(call->args[place]));
    return TY_OK;
}

static ty_err name_fail(ty_str name)
{
    struct ty_buf b;
    ty_buf_init(&b, 1024);
    for (size_t i = 0; i < TY_COUNT(transforms); i++)
        ty_buf_addf(&b, "%s%s", i == 0 ? "" : ", ", transforms[i].name);
    ty_err err = ty_fail(TY_INVALID_ARGUMENT,
                         "the transform '" TY_STR_FMT "()' is not supported; these are: %s",
                         TY_STR_ARG(name), b.ptr);
    ty_buf_clear(&b);
    return err;
}

ty_err cli_call_parse(ty_str name, ty_str args, struct cli_call *ret_call)
{
    struct cli_call call = {0};
    size_t t = 0;
    bool more = ty_str_trim(args).len > 0;
    while (t < TY_COUNT(transforms) && !ty_str_is(name, transforms[t].name))
        t++;
    if (t == TY_COUNT(transforms))
        return name_fail(name);
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
    for (size_t i = 0; i < transforms[t].needed; i++)
        if (!call.given[i])
            return ty_fail(TY_INVALID_ARGUMENT, "the transform '%s()' needs %zu argument%s",
                           transforms[t].name, transforms[t].needed,
                           transforms[t].needed == 1 ? "" : "s");
    *ret_call = call;
    if (transforms[t].apply == cli_do_format)
        return cli_format_text_check(call.args[0]);
    return transforms[t].apply == cli_do_sub ? cli_sub_check(ret_call) : TY_OK;
}
