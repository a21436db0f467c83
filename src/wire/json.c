/* json.c -- JSON in and out.
 *
 * Reading is jansson's, behind one scan of our own. jansson recurses once a
 * level and spends some hundred bytes on a value as short as "[]", so depth and
 * number of values are counted first, in one pass that needs no memory: what
 * reaches jansson can neither exhaust the stack nor turn a small body into
 * gigabytes.
 *
 * Writing is ours because jansson's keeps a table of parents to find cycles,
 * which costs an allocation a container, and because every answer and every log
 * line passes here. */
#include "wire/wire_int.h"

#include <math.h>

/* ---- reading ---- */

/* Where the scan is, as people count: from 1. */
struct scan {
    size_t line, line_start, depth, values;
};

static ty_err scan_fail(const struct scan *s, size_t at, const char *what, size_t limit)
{
    return ty_fail(TY_INVALID_ARGUMENT, "JSON at line %zu, column %zu: more than %zu %s", s->line,
                   at - s->line_start + 1, limit, what);
}

/* The index after a string that starts at text[at]; a string that does not end is jansson's to
 * refuse. */
static size_t scan_string(ty_str text, size_t at)
{
    for (at++; at < text.len && text.ptr[at] != '"'; at++) {
        if (text.ptr[at] == '\\')
            at++;
    }
    return at + 1;
}

/* Count levels and values. Not a parser: what is malformed is left for jansson. */
static ty_err scan_limits(ty_str text)
{
    struct scan s = {.line = 1};
    size_t i = 0;
    while (i < text.len) {
        char c = text.ptr[i];
        if (c == '"') {
            i = scan_string(text, i);
            continue;
        }
        if (c == '[' || c == '{') {
            if (++s.depth > WIRE_MAX_DEPTH)
                return scan_fail(&s, i, "levels", WIRE_MAX_DEPTH);
            s.values++;
        } else if ((c == ']' || c == '}') && s.depth > 0) {
            s.depth--;
        } else if (c == ',') {
            s.values++;
        } else if (c == '\n') {
            s.line++;
            s.line_start = i + 1;
        }
        if (s.values > WIRE_MAX_VALUES)
            return scan_fail(&s, i, "values", WIRE_MAX_VALUES);
        i++;
    }
    return TY_OK;
}

ty_err wire_json_parse(ty_str text, json_t **ret_value)
{
    if (ty_str_trim(text).len == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "JSON at line 1, column 1: a value was expected, not "
                                            "the end");
    ty_err err = scan_limits(text);
    if (err)
        return err;
    json_error_t problem;
    json_t *value =
        json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (!value) {
        int column = problem.column > 0 ? problem.column : 1;
        if (json_error_code(&problem) == json_error_null_character)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "JSON at line %d, column %d: a NUL character (\\u0000) is not allowed",
                           problem.line, column);
        return ty_fail(TY_INVALID_ARGUMENT, "JSON at line %d, column %d: %s", problem.line, column,
                       problem.text);
    }
    *ret_value = value;
    return TY_OK;
}

ty_err wire_json_parse_members(ty_str members, json_t **ret_object)
{
    struct ty_buf text;
    ty_buf_init(&text, SIZE_MAX / 2); /* the members were accepted under their own ceiling */
    ty_buf_addc(&text, '{');
    ty_buf_adds(&text, members);
    ty_buf_addc(&text, '}');
    ty_err err = wire_json_parse(ty_buf_str(&text), ret_object);
    ty_buf_clear(&text);
    return err;
}

/* ---- strings ---- */

/* What a byte needs inside a JSON string: 0 nothing, 'u' a \u escape, '8' is
 * part of UTF-8 to be checked, '0' is NUL, which many readers (ours too) refuse
 * in any form, else the letter after the backslash. */
static const unsigned char escapes[256] = {
    [0x00] = '0', [0x01 ... 0x07] = 'u', ['\b'] = 'b',          ['\t'] = 't',
    ['\n'] = 'n', [0x0b] = 'u',          ['\f'] = 'f',          ['\r'] = 'r',
    ['"'] = '"',  ['\\'] = '\\',         [0x0e ... 0x1f] = 'u', [0x80 ... 0xff] = '8',
};

static void json_escape(struct ty_buf *b, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char out[6] = {'\\', (char)escapes[c], '0', '0', hex[c >> 4], hex[c & 15]};
    ty_buf_add(b, out, escapes[c] == 'u' ? 6 : 2);
}

/* Do 8 bytes need nothing at all? Eight lanes of one word: a lane's top bit ends
 * up set if its byte is below 0x20, a quote, a backslash or above 0x7f. A borrow
 * may set the lane above too, which only sends that byte the slow way. */
static bool all_plain(const char *p)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t w;
    memcpy(&w, p, sizeof w);
    uint64_t control = w - ones * 0x20, quote = (w ^ ones * '"') - ones;
    uint64_t backslash = (w ^ ones * '\\') - ones;
    return ((w | control | quote | backslash) & ones * 0x80) == 0;
}

void wire_json_string(struct ty_buf *b, ty_str s)
{
    ty_buf_addc(b, '"');
    size_t done = 0, i = 0; /* bytes before `done` are written, those up to i need nothing */
    while (i < s.len) {
        if (s.len - i >= 8 && all_plain(s.ptr + i)) {
            i += 8;
            continue;
        }
        unsigned char c = (unsigned char)s.ptr[i];
        if (escapes[c] == 0) {
            i++;
            continue;
        }
        size_t n = escapes[c] == '8' ? wire_utf8_length(ty_str_drop(s, i)) : 0;
        if (n > 0) {
            i += n;
            continue;
        }
        ty_buf_add(b, s.ptr + done, i - done);
        if (escapes[c] == '8' || escapes[c] == '0')
            ty_buf_add(b, "\xef\xbf\xbd", 3); /* U+FFFD */
        else
            json_escape(b, c);
        done = ++i;
    }
    if (s.len > done)
        ty_buf_add(b, s.ptr + done, s.len - done);
    ty_buf_addc(b, '"');
}

ty_str wire_json_get_str(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return (ty_str){"", 0};
    return (ty_str){json_string_value(value), json_string_length(value)};
}

/* ---- writing ---- */

const char *wire_real_format(double value, char out[WIRE_REAL_BYTES])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, WIRE_REAL_BYTES - 2, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    if (isfinite(value) && !strpbrk(out, ".e")) {
        size_t n = strlen(out);
        memcpy(out + n, ".0", 3);
    }
    return out;
}

static void dump_scalar(struct ty_buf *b, const json_t *value)
{
    char real[WIRE_REAL_BYTES];
    switch (json_typeof(value)) {
    case JSON_STRING:
        wire_json_string(b, (ty_str){json_string_value(value), json_string_length(value)});
        break;
    case JSON_INTEGER:
        ty_buf_addf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        ty_buf_addz(b, wire_real_format(json_real_value(value), real));
        break;
    case JSON_TRUE:
        ty_buf_addz(b, "true");
        break;
    case JSON_FALSE:
        ty_buf_addz(b, "false");
        break;
    default:
        ty_buf_addz(b, "null");
    }
}

/* A new line at `level`, or nothing in compact form (level < 0). */
static void dump_line(struct ty_buf *b, int level)
{
    if (level < 0)
        return;
    ty_buf_addc(b, '\n');
    for (int i = 0; i < level; i++)
        ty_buf_add(b, "  ", 2);
}

/* Recurses once a level; values come from our parsers (WIRE_MAX_DEPTH) or are made by our code. */
static void dump(struct ty_buf *b, const json_t *value, int level)
{
    bool object = json_is_object(value);
    if (!object && !json_is_array(value)) {
        dump_scalar(b, value);
        return;
    }
    int inner = level < 0 ? level : level + 1;
    size_t count = 0, i;
    const char *key;
    json_t *item;
    ty_buf_addc(b, object ? '{' : '[');
    if (object) {
        json_object_foreach ((json_t *)value, key, item) {
            if (count++ > 0)
                ty_buf_addc(b, ',');
            dump_line(b, inner);
            wire_json_string(b, ty_str_of(key));
            ty_buf_addz(b, level < 0 ? ":" : ": ");
            dump(b, item, inner);
        }
    } else {
        json_array_foreach (value, i, item) {
            if (count++ > 0)
                ty_buf_addc(b, ',');
            dump_line(b, inner);
            dump(b, item, inner);
        }
    }
    if (count > 0)
        dump_line(b, level);
    ty_buf_addc(b, object ? '}' : ']');
}

void wire_json_dump(struct ty_buf *b, const json_t *value)
{
    dump(b, value, -1);
}

void wire_json_dump_pretty(struct ty_buf *b, const json_t *value)
{
    dump(b, value, 0);
}
