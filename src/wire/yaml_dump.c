/* yaml_dump.c -- values as YAML, byte for byte as `gcloud … describe` prints them.
 *
 * People diff our output with gcloud's and paste it into files, so its choices
 * are ours: keys sorted, sequences not indented under their key, plain strings
 * where YAML 1.2 would read them back as the same string, single quotes where
 * not, `|` blocks for several lines, double quotes around a single one and for
 * what nothing else can hold, and folding at the first space past column 80. Two differences, both
 * to keep what is printed readable as the same value: floats keep all their digits, and a control
 * character never goes into a `|` block. */
#include "wire/wire_int.h"

enum { FOLD_COLUMN = 80, LONG_KEY_BYTES = 128 };

enum style { STYLE_PLAIN, STYLE_SINGLE, STYLE_DOUBLE, STYLE_BLOCK };

/* ---- which style a string needs ---- */

/* A character that YAML does not print as it is, or that it reads as a line break. */
static bool is_special(ty_str s, size_t n)
{
    unsigned char c = (unsigned char)s.ptr[0];
    if (n == 1)
        return (c < 0x20 && c != '\n') || c == 0x7f;
    if (n == 2)
        return c == 0xc2 && (unsigned char)s.ptr[1] < 0xa0; /* C1 controls, NEL among them */
    return n == 3 &&
           (memcmp(s.ptr, "\xef\xbb\xbf", 3) == 0 || memcmp(s.ptr, "\xe2\x80\xa8", 3) == 0 ||
            memcmp(s.ptr, "\xe2\x80\xa9", 3) == 0 || memcmp(s.ptr, "\xef\xbf\xbe", 3) == 0 ||
            memcmp(s.ptr, "\xef\xbf\xbf", 3) == 0);
}

static bool has_special(ty_str s)
{
    size_t i = 0;
    while (i < s.len) {
        ty_str rest = ty_str_drop(s, i);
        size_t n = wire_utf8_length(rest);
        if (n == 0 || is_special(rest, n))
            return true;
        i += n;
    }
    return false;
}

static bool is_any_of(ty_str s, const char *const *words)
{
    while (*words && !ty_str_is(s, *words))
        words++;
    return *words != NULL;
}

/* "...+0000": gcloud's storage times; to YAML a zone has a colon, so this is no time. */
static bool ends_in_plain_zone(ty_str s)
{
    for (size_t i = s.len - 4; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    return s.len > 15 && (s.ptr[s.len - 5] == '+' || s.ptr[s.len - 5] == '-');
}

/* Starts like 2024-01-01 with nothing, or a time, behind it. */
static bool looks_like_date(ty_str s)
{
    if (s.len < 10 || ends_in_plain_zone(s))
        return false;
    for (size_t i = 0; i < 10; i++) {
        bool dash = i == 4 || i == 7;
        if (dash ? s.ptr[i] != '-' : (s.ptr[i] < '0' || s.ptr[i] > '9'))
            return false;
    }
    return s.len == 10 || memchr("Tt \t", s.ptr[10], 4) != NULL;
}

/* Made only of what numbers are made of. Quotes a few strings more than needed
 * ("1.2.3" is left plain, as it has two dots). */
static bool looks_like_number(ty_str s)
{
    size_t i = s.ptr[0] == '-' || s.ptr[0] == '+';
    size_t digits = 0, dots = 0;
    if (s.len > i + 2 && s.ptr[i] == '0' && memchr("xob", s.ptr[i + 1], 3)) {
        for (i += 2; i < s.len; i++) {
            if (!memchr("0123456789abcdefABCDEF_", s.ptr[i], 23))
                return false;
        }
        return true;
    }
    size_t start = i;
    for (; i < s.len && memchr("0123456789_.", s.ptr[i], 12); i++) {
        digits += s.ptr[i] >= '0' && s.ptr[i] <= '9';
        dots += s.ptr[i] == '.';
    }
    if (digits == 0 || dots > 1 || s.ptr[start] == '_')
        return false;
    if (i + 1 < s.len && (s.ptr[i] == 'e' || s.ptr[i] == 'E')) {
        i++;
        i += s.ptr[i] == '-' || s.ptr[i] == '+';
        for (digits = 0; i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++)
            digits++;
    }
    return i == s.len && digits > 0;
}

/* Would a reader take the plain form for something that is no string? */
static bool is_ambiguous(ty_str s)
{
    static const char *const words[] = {"~",     "null",  "Null",  "NULL", "true", "True",  "TRUE",
                                        "false", "False", "FALSE", ".inf", ".Inf", ".INF",  "-.inf",
                                        "-.Inf", "-.INF", ".nan",  ".NaN", ".NAN", "+.inf", "+.Inf",
                                        "+.INF", "=",     "<<",    NULL};
    return is_any_of(s, words) || looks_like_number(s) || looks_like_date(s);
}

/* Could the plain form be taken for YAML's own signs? */
static bool has_indicator(ty_str s)
{
    if (ty_str_starts(s, TY_STR("---")) || ty_str_starts(s, TY_STR("...")))
        return true;
    char first = s.ptr[0];
    bool first_alone = s.len == 1 || s.ptr[1] == ' ';
    if (memchr("#,[]{}&*!|>'\"%@`", first, 16) || (memchr("?:-", first, 3) && first_alone))
        return true;
    for (size_t i = 1; i < s.len; i++) {
        bool last = i + 1 == s.len;
        if ((s.ptr[i] == ':' && (last || s.ptr[i + 1] == ' ')) ||
            (s.ptr[i] == '#' && s.ptr[i - 1] == ' '))
            return true;
    }
    return false;
}

static enum style choose_style(ty_str s, bool may_block)
{
    if (s.len == 0)
        return STYLE_SINGLE;
    if (has_special(s))
        return STYLE_DOUBLE;
    if (memchr(s.ptr, '\n', s.len))
        return may_block ? STYLE_BLOCK : STYLE_DOUBLE;
    if (s.ptr[0] == ' ' || s.ptr[s.len - 1] == ' ' || has_indicator(s) || is_ambiguous(s))
        return memchr(s.ptr, '\'', s.len) ? STYLE_DOUBLE : STYLE_SINGLE;
    return STYLE_PLAIN;
}

/* ---- writing ---- */

static void add_indent(struct ty_buf *b, int indent)
{
    for (int i = 0; i < indent; i++)
        ty_buf_addc(b, ' ');
}

/* Characters since the last newline. */
static size_t column_of(const struct ty_buf *b)
{
    size_t column = 0;
    for (size_t i = b->len; i > 0 && b->ptr[i - 1] != '\n'; i--)
        column += ((unsigned char)b->ptr[i - 1] & 0xc0) != 0x80;
    return column;
}

/* Plain or single-quoted text on one line, folded at single spaces past column
 * 80: a reader turns such a line break back into the space. */
static void add_folded(struct ty_buf *b, ty_str s, bool quoted, int indent)
{
    size_t column = column_of(b) + quoted;
    if (quoted)
        ty_buf_addc(b, '\'');
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool single_space =
            c == ' ' && i > 0 && i + 1 < s.len && s.ptr[i - 1] != ' ' && s.ptr[i + 1] != ' ';
        if (single_space && column > FOLD_COLUMN && indent > 0) {
            ty_buf_addc(b, '\n');
            add_indent(b, indent);
            column = (size_t)indent;
            continue;
        }
        if (quoted && c == '\'')
            ty_buf_addc(b, '\'');
        ty_buf_addc(b, c);
        column += ((unsigned char)c & 0xc0) != 0x80;
    }
    if (quoted)
        ty_buf_addc(b, '\'');
}

static uint32_t code_point(ty_str s, size_t n)
{
    uint32_t code = (unsigned char)s.ptr[0];
    if (n > 1)
        code &= 0x7fu >> n;
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)s.ptr[i] & 0x3f);
    return code;
}

/* The letter of a short escape, or 0. */
static char short_escape(uint32_t code)
{
    switch (code) {
    case '"':
    case '\\':
        return (char)code;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

/* A line break that a reader takes out; a space that follows is escaped, or it would go, too. */
static void add_break(struct ty_buf *b, int indent, bool before_space)
{
    ty_buf_addz(b, "\\\n");
    add_indent(b, indent);
    ty_buf_addz(b, before_space ? "\\" : "");
}

/* Double-quoted, folded before the first space or behind the first escape past column 80. */
static void add_double(struct ty_buf *b, ty_str s, int indent)
{
    size_t i = 0, column = column_of(b) + 1, line;
    ty_buf_addc(b, '"');
    while (i < s.len) {
        bool inner = i > 0 && i + 1 < s.len && indent > 0;
        if (s.ptr[i] == ' ' && inner && column > FOLD_COLUMN) {
            add_break(b, indent, true);
            column = (size_t)indent + 1;
        }
        line = b->len;
        ty_str rest = ty_str_drop(s, i);
        size_t n = wire_utf8_length(rest);
        uint32_t code = n ? code_point(rest, n) : 0xfffd;
        if (short_escape(code))
            ty_buf_addf(b, "\\%c", short_escape(code));
        else if (n > 0 && !is_special(rest, n))
            ty_buf_add(b, rest.ptr, n);
        else
            ty_buf_addf(b, "\\%c%0*X", code < 0x100 ? 'x' : 'u', code < 0x100 ? 2 : 4, code);
        i += n ? n : 1;
        bool escaped = b->len > line && b->ptr[line] == '\\';
        column += escaped ? b->len - line : 1;
        if (escaped && inner && column > FOLD_COLUMN && i < s.len) {
            add_break(b, indent, s.ptr[i] == ' ');
            column = (size_t)indent + (s.ptr[i] == ' ');
        }
    }
    ty_buf_addc(b, '"');
}

/* "|", a digit if the text starts with space (a reader could not tell the
 * indent), '-' for no newline at the end, '+' for more than one. */
static void add_block(struct ty_buf *b, ty_str s, int indent)
{
    ty_buf_addc(b, '|');
    if (s.ptr[0] == ' ' || s.ptr[0] == '\n')
        ty_buf_addc(b, '2');
    if (s.ptr[s.len - 1] != '\n')
        ty_buf_addc(b, '-');
    else if (s.len == 1 || s.ptr[s.len - 2] == '\n')
        ty_buf_addc(b, '+');
    bool more = true;
    while (more && s.len > 0) {
        ty_str line;
        more = ty_str_split(&s, '\n', &line);
        ty_buf_addc(b, '\n');
        if (line.len > 0)
            add_indent(b, indent);
        ty_buf_adds(b, line);
    }
}

static void add_string(struct ty_buf *b, ty_str s, int indent, bool may_block)
{
    switch (choose_style(s, may_block)) {
    case STYLE_PLAIN:
        add_folded(b, s, false, indent);
        break;
    case STYLE_SINGLE:
        add_folded(b, s, true, indent);
        break;
    case STYLE_DOUBLE:
        add_double(b, s, indent);
        break;
    case STYLE_BLOCK:
        add_block(b, s, indent);
    }
}

static void dump(struct ty_buf *b, const json_t *value, int indent);

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The value of a key: on the same line, or below it. `indent` is the key's. */
static void dump_member_value(struct ty_buf *b, const json_t *value, int indent)
{
    bool nested = json_object_size(value) > 0 || json_array_size(value) > 0;
    if (!nested) {
        ty_buf_addc(b, ' ');
        dump(b, value, indent + 2);
        return;
    }
    int inner = json_is_array(value) ? indent : indent + 2;
    ty_buf_addc(b, '\n');
    add_indent(b, inner);
    dump(b, value, inner);
}

static void dump_member(struct ty_buf *b, const char *key, const json_t *value, int indent)
{
    ty_str name = ty_str_of(key);
    if (name.len < LONG_KEY_BYTES) {
        add_string(b, name, 0, false);
        ty_buf_addc(b, ':');
        dump_member_value(b, value, indent);
        return;
    }
    ty_buf_addz(b, "? "); /* readers take at most 1024 characters for a key without this sign */
    add_string(b, name, 0, false);
    ty_buf_addc(b, '\n');
    add_indent(b, indent);
    ty_buf_addz(b, ": ");
    dump(b, value, indent + 2);
}

static void dump_object(struct ty_buf *b, const json_t *value, int indent)
{
    struct ty_arena arena = {0};
    size_t count = json_object_size(value), i = 0;
    const char **keys = ty_new_array(&arena, const char *, count);
    const char *key;
    json_t *item;
    json_object_foreach ((json_t *)value, key, item) {
        keys[i++] = key;
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    for (i = 0; i < count; i++) {
        if (i > 0) {
            ty_buf_addc(b, '\n');
            add_indent(b, indent);
        }
        dump_member(b, keys[i], json_object_get(value, keys[i]), indent);
    }
    ty_arena_clear(&arena);
}

/* Write a value whose first character stands where b ends; its further lines
 * are indented by `indent`. No newline at the end. */
static void dump(struct ty_buf *b, const json_t *value, int indent)
{
    size_t i;
    json_t *item;
    if (json_is_string(value)) {
        ty_str s = {json_string_value(value), json_string_length(value)};
        add_string(b, s, indent, indent > 0);
    } else if (json_object_size(value) > 0) {
        dump_object(b, value, indent);
    } else if (json_array_size(value) > 0) {
        json_array_foreach (value, i, item) {
            if (i > 0) {
                ty_buf_addc(b, '\n');
                add_indent(b, indent);
            }
            ty_buf_addz(b, "- ");
            dump(b, item, indent + 2);
        }
    } else {
        wire_json_dump(b, value); /* numbers, true, false, null, {} and [] are the same in YAML */
    }
}

void wire_yaml_dump(struct ty_buf *b, const json_t *value)
{
    dump(b, value, 0);
    ty_buf_addc(b, '\n');
}
