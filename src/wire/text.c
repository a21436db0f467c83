/* text.c -- text forms: UTF-8 characters, URLs, base64, names that are nearly alike. */
#include "wire/wire_int.h"

/* ---- UTF-8 ---- */

size_t wire_utf8_length(ty_str s)
{
    if (s.len == 0)
        return 0;
    unsigned char c = (unsigned char)s.ptr[0];
    size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (n == 0 || n > s.len)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)s.ptr[i] & 0xc0) != 0x80)
            return 0;
    }
    unsigned char d = n > 1 ? (unsigned char)s.ptr[1] : 0;
    bool overlong = (c == 0xe0 && d < 0xa0) || (c == 0xf0 && d < 0x90);
    bool surrogate = c == 0xed && d >= 0xa0;
    bool too_large = c == 0xf4 && d >= 0x90;
    return overlong || surrogate || too_large ? 0 : n;
}

ty_str wire_text_cut(ty_str s, size_t most)
{
    if (s.len <= most)
        return s;
    while (most > 0 && ((unsigned char)s.ptr[most] & 0xc0) == 0x80)
        most--;
    return (ty_str){s.ptr, most};
}

/* ---- names ---- */

/* The next character of a name as lowerCamelCase has it: "_b" reads as 'B'. */
static char next_of_name(ty_str s, size_t *at)
{
    char c = s.ptr[(*at)++];
    if (c != '_' || *at == s.len)
        return c;
    char next = s.ptr[*at];
    if (next >= 'a' && next <= 'z') {
        (*at)++;
        return (char)(next - 'a' + 'A');
    }
    if (next >= '0' && next <= '9') {
        (*at)++;
        return next;
    }
    return c;
}

bool wire_name_eq(ty_str a, ty_str b)
{
    size_t i = 0, j = 0;
    while (i < a.len && j < b.len) {
        if (next_of_name(a, &i) != next_of_name(b, &j))
            return false;
    }
    return i == a.len && j == b.len;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Levenshtein's distance, one row of the table at a time. */
bool wire_text_close(ty_str a, ty_str b, size_t edits)
{
    enum { MOST = 64 };
    size_t row[MOST + 1];
    if (a.len > MOST || b.len > MOST)
        return false;
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t best = diagonal + (lower(a.ptr[i - 1]) != lower(b.ptr[j - 1]));
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b.len] <= edits;
}

/* ---- URLs ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ty_err wire_url_decode(struct ty_arena *a, ty_str s, bool plus, ty_str *ret_text)
{
    char *out = ty_alloc(a, s.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = i + 2 < s.len ? hex_value(s.ptr[i + 1]) : -1;
            int low = high >= 0 ? hex_value(s.ptr[i + 2]) : -1;
            if (low < 0)
                return ty_fail(TY_INVALID_ARGUMENT,
                               "URL byte %zu: '%%' must be followed by two hex digits", i);
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == 0)
            return ty_fail(TY_INVALID_ARGUMENT, "URL byte %zu: a NUL character", i);
        out[n++] = c;
    }
    *ret_text = (ty_str){out, n};
    return TY_OK;
}

static bool is_unreserved(char c)
{
    char l = lower(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

void wire_url_encode(struct ty_buf *b, ty_str s)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (is_unreserved(s.ptr[i])) {
            ty_buf_addc(b, s.ptr[i]);
        } else {
            char out[3] = {'%', hex[c >> 4], hex[c & 15]};
            ty_buf_add(b, out, 3);
        }
    }
}

/* ---- base64 ---- */

void wire_base64_encode(struct ty_buf *b, ty_str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < n ? (unsigned char)bytes.ptr[i + j] : 0u);
        char out[4];
        for (size_t j = 0; j < 4; j++)
            out[j] = j <= n ? digits[bits >> (18 - 6 * j) & 63] : '=';
        ty_buf_add(b, out, 4);
    }
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

/* Both alphabets, with or without padding, as JSON clients send bytes. One value
 * has one form all the same: bits that encode nothing must be zero. */
ty_err wire_base64_decode(struct ty_arena *a, ty_str text, ty_str *ret_bytes)
{
    size_t len = text.len;
    if (len % 4 == 0 && len > 0 && text.ptr[len - 1] == '=')
        len -= text.ptr[len - 2] == '=' ? 2 : 1;
    char *out = ty_alloc(a, len / 4 * 3 + 3);
    size_t n = 0;
    uint32_t bits = 0;
    unsigned held = 0; /* bits in `bits` that are in no byte yet */
    for (size_t i = 0; i < len; i++) {
        int value = base64_value(text.ptr[i]);
        if (value < 0)
            return ty_fail(TY_INVALID_ARGUMENT, "base64 byte %zu: not a base64 digit", i);
        bits = (bits << 6 | (uint32_t)value) & 0xffff;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[n++] = (char)(bits >> held & 0xff);
        }
    }
    if (len % 4 == 1 || (bits & ((1u << held) - 1)) != 0)
        return ty_fail(TY_INVALID_ARGUMENT, "base64 byte %zu: the text is cut short", text.len);
    *ret_bytes = (ty_str){out, n};
    return TY_OK;
}
