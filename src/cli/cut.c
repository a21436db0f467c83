/* cut.c -- the transforms of --format that cut texts and lists and put them together: split, slice,
 * sub, firstof, format. The table that names them is in transform.c. */
#include "cli/cli_int.h"

#include <regex.h>

enum { TEXT_BYTES = 1 << 26, SUB_GROUPS = 10 };

static const char *inline_text(struct ty_arena *a, const json_t *v)
{
    struct ty_buf b;
    ty_buf_init(&b, TEXT_BYTES);
    if (v == NULL || json_is_null(v))
        ty_buf_addz(&b, "None");
    else
        cli_value_inline(&b, v);
    const char *text = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

json_t *cli_do_firstof(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    (void)a;
    for (size_t i = 0; i < CLI_CALL_ARGS && call->given[i]; i++) {
        json_t *found = cli_json_at(v, call->args[i]);
        if (found != NULL && !json_is_null(found))
            return found;
        json_decref(found);
    }
    return json_string("");
}

json_t *cli_do_split(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    ty_str separator = call->given[0] ? call->args[0] : TY_STR("/");
    ty_str rest = ty_str_of(json_string_value(v));
    if (!json_is_string(v) || rest.len == 0 || separator.len == 0)
        return json_string(ty_cstr(a, call->args[1]));
    json_t *parts = json_array();
    for (size_t n = 0; n <= rest.len;) {
        bool cut = n < rest.len && ty_str_starts(ty_str_drop(rest, n), separator);
        if (n < rest.len && !cut) {
            n++;
            continue;
        }
        json_array_append_new(parts, json_stringn(rest.ptr, n));
        if (!cut)
            break;
        rest = ty_str_drop(rest, n + separator.len);
        n = 0;
    }
    return parts;
}

/* ---- slice: as Python cuts a list ---- */

/* "1:", ":2", "::-1", "3": start, end and step of which `given` says which are there. */
static bool slice_parse(ty_str text, int64_t ret_numbers[3], bool ret_given[3], size_t *ret_count)
{
    size_t n = 0;
    for (bool more = true; more; n++) {
        ty_str part;
        if (n == 3)
            return false;
        more = ty_str_split(&text, ':', &part);
        part = ty_str_trim(part);
        ret_given[n] = part.len > 0;
        if (part.len > 0 && (ty_parse_i64(part, &ret_numbers[n]) != TY_OK ||
                             ret_numbers[n] > INT32_MAX || ret_numbers[n] < -INT32_MAX))
            return false;
    }
    *ret_count = n;
    return true;
}

/* Where a start or end lies in a list of `size`: from its end if below 0, and never outside. */
static int64_t place_of(int64_t at, int64_t size, bool down)
{
    int64_t least = down ? -1 : 0, most = down ? size - 1 : size;
    at += at < 0 ? size : 0;
    return at < least ? least : at > most ? most : at;
}

/* The characters of a text, as Python sees it: as a list. */
static json_t *elements_of(const json_t *v)
{
    if (!json_is_string(v))
        return json_incref((json_t *)v);
    json_t *all = json_array();
    ty_str rest = ty_str_of(json_string_value(v));
    while (rest.len > 0) {
        const char *start = rest.ptr;
        cli_char_take(&rest);
        json_array_append_new(all, json_stringn(start, (size_t)(rest.ptr - start)));
    }
    return all;
}

json_t *cli_do_slice(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    int64_t at[3] = {0, 0, 1};
    bool given[3] = {false, false, false};
    size_t count;
    ty_str op = call->given[0] ? call->args[0] : TY_STR(":");
    bool good = slice_parse(op, at, given, &count) && at[2] != 0;
    json_t *all = elements_of(v), *cut = json_array();
    int64_t size = (int64_t)json_array_size(all);
    bool down = at[2] < 0;
    if (good && count == 1) { /* an element alone: up to the one behind it */
        at[1] = at[0] + 1;
        given[1] = at[1] != 0;
    }
    int64_t start = given[0] ? place_of(at[0], size, down) : down ? size - 1 : 0;
    int64_t end = given[1] ? place_of(at[1], size, down) : down ? -1 : size;
    for (int64_t i = start; good && (down ? i > end : i < end); i += at[2])
        json_array_append(cut, json_array_get(all, (size_t)i));
    json_decref(all);
    if (json_array_size(cut) > 0)
        return cut;
    json_decref(cut);
    return json_string(ty_cstr(a, call->args[1]));
}

/* ---- sub ---- */

static int sub_compile(struct ty_arena *a, const struct cli_call *call, regex_t *ret_regex)
{
    bool with_case =
        call->given[3] && (ty_str_is(call->args[3], "false") || ty_str_is(call->args[3], "False") ||
                           ty_str_is(call->args[3], "0"));
    return regcomp(ret_regex, ty_cstr(a, call->args[0]),
                   REG_EXTENDED | (with_case ? 0 : REG_ICASE));
}

ty_err cli_sub_check(const struct cli_call *call)
{
    struct ty_arena a = {0};
    regex_t regex;
    int64_t count = 0;
    int failed = sub_compile(&a, call, &regex);
    if (failed == 0)
        regfree(&regex);
    ty_arena_clear(&a);
    if (failed != 0)
        return ty_fail(TY_INVALID_ARGUMENT, "sub(): '" TY_STR_FMT "' is no regular expression",
                       TY_STR_ARG(call->args[0]));
    if (call->given[2] && (ty_parse_i64(call->args[2], &count) != TY_OK || count < 0))
        return ty_fail(TY_INVALID_ARGUMENT, "sub(): the count '" TY_STR_FMT "' is no number",
                       TY_STR_ARG(call->args[2]));
    return TY_OK;
}

/* The replacement, with \1 to \9 as what the groups matched. */
static void add_replacement(struct ty_buf *b, ty_str text, const char *from,
                            const regmatch_t groups[SUB_GROUPS])
{
    for (size_t i = 0; i < text.len; i++) {
        char next = text.ptr[i] == '\\' && i + 1 < text.len ? text.ptr[i + 1] : '\0';
        if (next >= '0' && next <= '9') {
            const regmatch_t *m = &groups[next - '0'];
            if (m->rm_so >= 0)
                ty_buf_add(b, from + m->rm_so, (size_t)(m->rm_eo - m->rm_so));
            i++;
        } else {
            ty_buf_addc(b, text.ptr[i]);
        }
    }
}

json_t *cli_do_sub(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    struct ty_buf b;
    regex_t regex;
    regmatch_t m[SUB_GROUPS];
    int64_t count = 0, done = 0;
    const char *from = json_string_value(v);
    if (from == NULL || sub_compile(a, call, &regex) != 0)
        return json_incref((json_t *)v);
    if (call->given[2])
        (void)!ty_parse_i64(call->args[2], &count); /* checked when it was parsed */
    ty_buf_init(&b, TEXT_BYTES);
    const char *start = from;
    while ((count == 0 || done < count) &&
           regexec(&regex, from, SUB_GROUPS, m, from > start ? REG_NOTBOL : 0) == 0) {
        bool nothing = m[0].rm_eo == m[0].rm_so;
        ty_buf_add(&b, from, (size_t)m[0].rm_so);
        add_replacement(&b, call->args[1], from, m);
        done++;
        from += m[0].rm_eo;
        if (nothing && from[0] == '\0')
            break;
        if (nothing)
            ty_buf_addc(&b, *from++);
    }
    ty_buf_addz(&b, from);
    regfree(&regex);
    json_t *text = json_stringn(b.ptr, b.len);
    ty_buf_clear(&b);
    return text != NULL ? text : json_string("");
}

/* ---- format ---- */

/* The next piece of "a{0}b{}{{": a text, or a place (*ret_place >= 0). False: it is no format.
 * *next counts the places without a number. */
static bool format_take(ty_str *rest, int64_t *next, ty_str *ret_text, int64_t *ret_place)
{
    size_t n = 0;
    char ch = rest->ptr[0];
    *ret_place = -1;
    if (ch == '{' || ch == '}') {
        ty_str number, behind = ty_str_drop(*rest, 1);
        if (behind.len > 0 && behind.ptr[0] == ch) { /* doubled: itself */
            *ret_text = (ty_str){rest->ptr, 1};
            *rest = ty_str_drop(*rest, 2);
            return true;
        }
        if (ch == '}' || !ty_str_split(&behind, '}', &number))
            return false;
        *rest = behind;
        if (number.len == 0) {
            *ret_place = (*next)++;
            return true;
        }
        return ty_parse_i64(number, ret_place) == TY_OK && *ret_place >= 0;
    }
    while (n < rest->len && rest->ptr[n] != '{' && rest->ptr[n] != '}')
        n++;
    *ret_text = (ty_str){rest->ptr, n};
    *rest = ty_str_drop(*rest, n);
    return true;
}

ty_err cli_format_text_check(ty_str format)
{
    ty_str rest = format, text;
    int64_t place, next = 0;
    while (rest.len > 0)
        if (!format_take(&rest, &next, &text, &place))
            return ty_fail(TY_INVALID_ARGUMENT,
                           "format(): '" TY_STR_FMT "' may have {}, {0}, {1} and so on, without "
                           "anything else between { and }",
                           TY_STR_ARG(format));
    return TY_OK;
}

/* What {place} stands for: a key's value, an element of a list, or the value itself. A new
 * reference, or NULL. */
static json_t *format_value(const struct cli_call *call, const json_t *v, int64_t place)
{
    if (call->given[1]) {
        bool there = place + 1 < CLI_CALL_ARGS && call->given[place + 1];
        return there ? cli_json_at(v, call->args[place + 1]) : json_string("");
    }
    if (json_is_array(v))
        return json_incref(json_array_get(v, (size_t)place));
    return v != NULL && place == 0 ? json_incref((json_t *)v) : json_string("");
}

json_t *cli_do_format(struct ty_arena *a, const struct cli_call *call, const json_t *v)
{
    struct ty_buf b;
    ty_str rest = call->args[0], text;
    int64_t place, next = 0;
    ty_buf_init(&b, TEXT_BYTES);
    while (rest.len > 0 && format_take(&rest, &next, &text, &place)) {
        if (place < 0) {
            ty_buf_adds(&b, text);
            continue;
        }
        json_t *value = format_value(call, v, place);
        ty_buf_addz(&b, inline_text(a, value));
        json_decref(value);
    }
    json_t *made = json_stringn(b.ptr != NULL ? b.ptr : "", b.len);
    ty_buf_clear(&b);
    return made != NULL ? made : json_string("");
}
