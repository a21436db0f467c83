/* yaml_scalar.c -- what a plain scalar of YAML stands for, by the two schemas people meet.
 *
 *            YAML 1.2, core schema        YAML 1.1, as PyYAML, ruamel and so gcloud read it
 *   bool     true, false                  also yes, no, on, off, y, n
 *   int      1  0o17  0x1f                1_000  017  0b11  0x1f  1:30 (90)
 *   float    1.5  -.5  1e3                1_0.5  .5  1e3  1:30.5
 *   date     text                         refused: 2024-01-01 would be no text there
 *   = <<     text                         refused as values; `<<` as a key merges
 * Each in the ways it may be capitalised: true, True, TRUE. */
#include "wire/wire_int.h"

#include <math.h>
#include <yaml.h>

static bool is_one_of(const char *s, const char *const *words)
{
    while (*words && strcmp(s, *words) != 0)
        words++;
    return *words != NULL;
}

/* Does all of s consist of digits of the base, at least one? */
static bool all_digits(const char *s, int base)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    size_t known = base == 8 ? 8 : base == 10 ? 10 : 22, n = 0;
    while (s[n] && memchr(digits, s[n], known))
        n++;
    return n > 0 && s[n] == 0;
}

static const char *skip_digits(const char *s)
{
    while (*s >= '0' && *s <= '9')
        s++;
    return s;
}

/* [-+]? ( '.' [0-9]+ | [0-9]+ ( '.' [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool looks_real(const char *s)
{
    s += *s == '-' || *s == '+';
    const char *start = s;
    s = skip_digits(s);
    bool digits = s > start;
    if (*s == '.') {
        start = ++s;
        s = skip_digits(s);
        digits = digits || s > start;
    }
    if (!digits)
        return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '-' || *s == '+';
        start = s;
        s = skip_digits(s);
        if (s == start)
            return false;
    }
    return *s == 0;
}

static ty_err integer_value(const char *s, int base, size_t line, json_t **ret_value)
{
    errno = 0;
    long long n = strtoll(s, NULL, base);
    if (errno == ERANGE)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "YAML at line %zu: the number is too large for 64 bits "
                       "(quote it if it is meant as text)",
                       line);
    *ret_value = json_integer(n);
    return TY_OK;
}

ty_err wire_yaml_plain(const char *s, size_t len, size_t line, json_t **ret_value)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    static const char *const not_finite[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                             "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                             ".NaN",  ".NAN",  NULL};
    if (is_one_of(s, nulls))
        *ret_value = json_null();
    else if (is_one_of(s, trues))
        *ret_value = json_true();
    else if (is_one_of(s, falses))
        *ret_value = json_false();
    else if (all_digits(s + (*s == '-' || *s == '+'), 10))
        return integer_value(s, 10, line, ret_value);
    else if (s[0] == '0' && s[1] == 'o' && all_digits(s + 2, 8))
        return integer_value(s + 2, 8, line, ret_value);
    else if (s[0] == '0' && s[1] == 'x' && all_digits(s + 2, 16))
        return integer_value(s + 2, 16, line, ret_value);
    else if (is_one_of(s, not_finite) || (looks_real(s) && !isfinite(strtod(s, NULL))))
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: '%.40s' is not a finite number",
                       line, s);
    else if (looks_real(s))
        *ret_value = json_real(strtod(s, NULL));
    else
        *ret_value = json_stringn(s, len);
    return TY_OK;
}

/* ---- YAML 1.1 ---- */

/* Without '_', which may be anywhere in a number. False: too long for one. */
static bool digits_copy(const char *s, char *to, size_t size)
{
    size_t n = 0;
    for (; *s != '\0' && n + 1 < size; s++)
        if (*s != '_')
            to[n++] = *s;
    to[n] = '\0';
    return *s == '\0';
}

/* Is all of s of `chars` and '_', beginning with one of `chars`? */
static bool number_of(const char *s, const char *chars)
{
    if (*s == '\0' || strchr(chars, *s) == NULL)
        return false;
    while (*s != '\0' && (*s == '_' || strchr(chars, *s) != NULL))
        s++;
    return *s == '\0';
}

/* [1-9][0-9_]* ( ':' [0-5]?[0-9] )+ and for a real '.' [0-9_]*: base 60. */
static bool looks_sexagesimal(const char *s, bool *ret_real)
{
    size_t parts = 0;
    s += *s == '-' || *s == '+';
    if (*s < '0' || *s > '9')
        return false;
    s += strspn(s, "0123456789_");
    for (; *s == ':' && s[1] >= '0' && s[1] <= '9'; parts++) {
        size_t digits = strspn(s + 1, "0123456789");
        if (digits > 2 || (digits == 2 && s[1] > '5'))
            return false;
        s += 1 + digits;
    }
    *ret_real = *s == '.';
    s += *ret_real ? 1 + strspn(s + 1, "0123456789_") : 0;
    return parts > 0 && *s == '\0';
}

static double sexagesimal_value(const char *s)
{
    double value = 0, sign = *s == '-' ? -1 : 1;
    s += *s == '-' || *s == '+';
    for (;;) {
        value = value * 60 + strtod(s, NULL);
        const char *colon = strchr(s, ':');
        if (colon == NULL)
            return sign * value;
        s = colon + 1;
    }
}

/* NNNN-NN-NN, and with a time after it. What follows the day is not looked at closely: no text of
 * that form is meant as anything else. */
static bool looks_like_date(const char *s)
{
    static const char form[] = "dddd-dd-dd";
    for (size_t i = 0; form[i] != '\0'; i++, s++)
        if (form[i] == 'd' ? *s < '0' || *s > '9' : *s != '-')
            return false;
    bool time = (*s == 'T' || *s == 't' || *s == ' ') && s[1] >= '0' && s[1] <= '9';
    return *s == '\0' || (time && strchr(s, ':') != NULL);
}

/* The base of a whole number of YAML 1.1, and where its digits begin; 0 for what is none. */
static int integer_base(const char *s, const char **ret_digits)
{
    s += *s == '-' || *s == '+';
    *ret_digits = s;
    if (s[0] == '0' && s[1] == 'b' && number_of(s + 2, "01_"))
        return *ret_digits = s + 2, 2;
    if (s[0] == '0' && s[1] == 'x' && number_of(s + 2, "0123456789abcdefABCDEF_"))
        return *ret_digits = s + 2, 16;
    if (s[0] == '0' && s[1] != '\0')
        return number_of(s, "01234567") ? 8 : 0;
    return number_of(s, "0123456789") ? 10 : 0;
}

static ty_err integer11_value(const char *s, int base, const char *digits, size_t line,
                              json_t **ret_value)
{
    char text[128] = "-";
    bool minus = *s == '-';
    if (!digits_copy(digits, text + minus, sizeof(text) - 1))
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: a number with too many digits",
                       line);
    return integer_value(text, base, line, ret_value);
}

static ty_err real11_value(const char *s, size_t line, json_t **ret_value)
{
    char text[128];
    bool real;
    double value = NAN;
    if (digits_copy(s, text, sizeof(text)))
        value = looks_sexagesimal(s, &real) ? sexagesimal_value(text) : strtod(text, NULL);
    if (!isfinite(value))
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: '%.40s' is not a finite number",
                       line, s);
    *ret_value = json_real(value);
    return TY_OK;
}

/* As looks_real, with '_' and without a sign before '.'. */
static bool looks_real11(const char *s)
{
    char text[128];
    const char *at = s + (*s == '-' || *s == '+');
    if (*at == '.' ? at != s : *at < '0' || *at > '9')
        return false;
    return digits_copy(s, text, sizeof(text)) && strpbrk(text, ".eE") != NULL && looks_real(text);
}

ty_err wire_yaml11_plain(const char *s, size_t len, size_t line, json_t **ret_value)
{
    static const char *const trues[] = {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", NULL};
    static const char *const falses[] = {"n", "N", "no", "No", "NO", "off", "Off", "OFF", NULL};
    const char *digits;
    bool real = false;
    int base = integer_base(s, &digits);
    bool sixties = looks_sexagesimal(s, &real);
    if (is_one_of(s, trues))
        *ret_value = json_true();
    else if (is_one_of(s, falses))
        *ret_value = json_false();
    else if (base != 0)
        return integer11_value(s, base, digits, line, ret_value);
    else if (sixties && !real && s[0] != '0')
        *ret_value = json_integer((json_int_t)sexagesimal_value(s));
    else if ((sixties && real) || looks_real11(s))
        return real11_value(s, line, ret_value);
    else if (strcmp(s, "=") == 0 || strcmp(s, "<<") == 0 || looks_like_date(s))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "YAML at line %zu: '%.40s' is not text in YAML 1.1; put it in quotes", line,
                       s);
    else if (looks_real(s) || all_digits(s + (*s == '-' || *s == '+'), 10) ||
             strncmp(s, "0o", 2) == 0)
        *ret_value = json_stringn(s, len); /* what only YAML 1.2 takes for a number: 0o17, -.5 */
    else
        return wire_yaml_plain(s, len, line, ret_value);
    return TY_OK;
}

ty_err wire_yaml11_tagged(const char *tag, const char *s, size_t len, size_t line,
                          json_t **ret_value)
{
    static const struct {
        const char *tag;
        json_type types[2];
    } tags[] = {{YAML_INT_TAG, {JSON_INTEGER, JSON_INTEGER}},
                {YAML_FLOAT_TAG, {JSON_REAL, JSON_INTEGER}},
                {YAML_BOOL_TAG, {JSON_TRUE, JSON_FALSE}},
                {YAML_NULL_TAG, {JSON_NULL, JSON_NULL}}};
    for (size_t i = 0; i < TY_COUNT(tags); i++) {
        json_t *value = NULL;
        if (strcmp(tag, tags[i].tag) != 0)
            continue;
        ty_err err = wire_yaml11_plain(s, len, line, &value);
        if (err == TY_OK &&
            (json_typeof(value) == tags[i].types[0] || json_typeof(value) == tags[i].types[1])) {
            *ret_value = value;
            return TY_OK;
        }
        json_decref(value);
        return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: '%.40s' is no '%s'", line, s, tag);
    }
    return ty_fail(TY_INVALID_ARGUMENT, "YAML at line %zu: the tag '%.60s' is not supported", line,
                   tag);
}

/* ---- tabs ---- */

/* The character of that number (libyaml counts them) as a place in the text, going on from *at. */
static const char *place_of(ty_str text, size_t *chars, size_t *bytes, size_t wanted)
{
    for (; *chars < wanted && *bytes < text.len; (*chars)++) {
        size_t n = wire_utf8_length(ty_str_drop(text, *bytes));
        *bytes += n > 0 ? n : 1;
    }
    return text.ptr + *bytes;
}

/* The first tab from `s` to `end` that is in no comment, or NULL. */
static const char *tab_between(const char *s, const char *end)
{
    for (bool comment = false; s < end; s++) {
        comment = *s == '#' || (comment && *s != '\n');
        if (*s == '\t' && !comment)
            return s;
    }
    return NULL;
}

static ty_err tab_fail(ty_str text, const char *tab)
{
    size_t line = 1;
    for (const char *s = text.ptr; s < tab; s++)
        line += *s == '\n';
    return ty_fail(TY_INVALID_ARGUMENT,
                   "YAML at line %zu: a tab between words; gcloud's YAML takes spaces only", line);
}

static ty_err tabs_find(yaml_parser_t *parser, ty_str text)
{
    size_t chars = 0, bytes = 0;
    for (bool ended = false; !ended;) {
        yaml_token_t token;
        if (!yaml_parser_scan(parser, &token))
            return TY_OK;                    /* the parser will say what is wrong */
        const char *from = text.ptr + bytes; /* where the last one ended */
        const char *start = place_of(text, &chars, &bytes, token.start_mark.index);
        const char *end = place_of(text, &chars, &bytes, token.end_mark.index);
        bool plain =
            token.type == YAML_SCALAR_TOKEN && token.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        const char *tab = tab_between(from, start);
        if (tab == NULL && plain)
            tab = memchr(start, '\t', (size_t)(end - start));
        ended = token.type == YAML_STREAM_END_TOKEN;
        yaml_token_delete(&token);
        if (tab != NULL)
            return tab_fail(text, tab);
    }
    return TY_OK;
}

ty_err wire_yaml11_tabs(ty_str text)
{
    yaml_parser_t parser;
    if (text.len == 0 || memchr(text.ptr, '\t', text.len) == NULL)
        return TY_OK;
    if (!yaml_parser_initialize(&parser))
        return ty_fail(TY_RESOURCE_EXHAUSTED, "YAML: out of memory");
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.ptr, text.len);
    ty_err err = tabs_find(&parser, text);
    yaml_parser_delete(&parser);
    return err;
}
