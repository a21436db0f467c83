/* string.c -- borrowed strings, and buffers that grow up to a limit. */
#include "base/base.h"

ty_str ty_str_of(const char *cstr)
{
    return cstr ? (ty_str){cstr, strlen(cstr)} : (ty_str){"", 0};
}

bool ty_str_eq(ty_str a, ty_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool ty_str_is(ty_str a, const char *cstr)
{
    return ty_str_eq(a, ty_str_of(cstr));
}

int ty_str_cmp(ty_str a, ty_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.ptr, b.ptr, n) : 0;
    if (order)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

bool ty_str_starts(ty_str s, ty_str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

bool ty_str_ends(ty_str s, ty_str suffix)
{
    return s.len >= suffix.len &&
           (suffix.len == 0 || memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

ty_str ty_str_trim(ty_str s)
{
    while (s.len && is_space(s.ptr[0]))
        s = ty_str_drop(s, 1);
    while (s.len && is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

ty_str ty_str_drop(ty_str s, size_t n)
{
    ty_assert(n <= s.len);
    return (ty_str){s.ptr + n, s.len - n};
}

bool ty_str_split(ty_str *s, char sep, ty_str *ret_head)
{
    const char *at = s->len ? memchr(s->ptr, sep, s->len) : NULL;
    if (!at) {
        *ret_head = *s;
        *s = (ty_str){s->ptr + s->len, 0};
        return false;
    }
    size_t n = (size_t)(at - s->ptr);
    *ret_head = (ty_str){s->ptr, n};
    *s = ty_str_drop(*s, n + 1);
    return true;
}

ty_err ty_parse_i64(ty_str s, int64_t *ret_value)
{
    bool negative = s.len && s.ptr[0] == '-';
    ty_str digits = negative ? ty_str_drop(s, 1) : s;
    if (digits.len == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' is not a whole number",
                       TY_STR_ARG(s));
    int64_t value = 0; /* kept negative: its range is the larger one */
    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.ptr[i];
        if (c < '0' || c > '9')
            return ty_fail(TY_INVALID_ARGUMENT, "'%.*s' is not a whole number",
                           (int)(s.len < 64 ? s.len : 64), s.ptr);
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, c - '0', &value))
            return ty_fail(TY_INVALID_ARGUMENT, "'%.*s' is out of range",
                           (int)(s.len < 64 ? s.len : 64), s.ptr);
    }
    if (!negative && value == INT64_MIN)
        return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' is out of range", TY_STR_ARG(s));
    *ret_value = negative ? value : -value;
    return TY_OK;
}

/* Length of the valid sequence at p (of n bytes), or 0. The bounds of the second byte exclude
 * overlong forms, surrogates and code points past U+10FFFF. */
static size_t utf8_sequence(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > n)
        return 0;
    unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    return len;
}

bool ty_utf8_valid(ty_str s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    for (size_t i = 0; i < s.len;) {
        size_t n = utf8_sequence(p + i, s.len - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

/* ---- buffers ---- */

void ty_buf_init(struct ty_buf *b, size_t limit)
{
    *b = (struct ty_buf){.limit = limit};
}

void ty_buf_clear(struct ty_buf *b)
{
    free(b->ptr);
    ty_buf_init(b, b->limit);
}

/* Room for `more` bytes and a NUL, or `full`. */
static bool buf_reserve(struct ty_buf *b, size_t more)
{
    if (b->full || more > b->limit - b->len) {
        b->full = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    char *grown = realloc(b->ptr, cap);
    ty_assert(grown);
    b->ptr = grown;
    b->cap = cap;
    return true;
}

void ty_buf_add(struct ty_buf *b, const void *ptr, size_t len)
{
    if (!buf_reserve(b, len))
        return;
    if (len)
        memcpy(b->ptr + b->len, ptr, len);
    b->len += len;
    b->ptr[b->len] = '\0';
}

void ty_buf_adds(struct ty_buf *b, ty_str s)
{
    ty_buf_add(b, s.ptr, s.len);
}

void ty_buf_addz(struct ty_buf *b, const char *cstr)
{
    ty_buf_add(b, cstr, strlen(cstr));
}

void ty_buf_addc(struct ty_buf *b, char c)
{
    ty_buf_add(b, &c, 1);
}

void ty_buf_addf(struct ty_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    size_t room = b->ptr && !b->full ? b->cap - b->len : 0; /* most often enough, and then once */
    int n = vsnprintf(room ? b->ptr + b->len : NULL, room, fmt, ap);
    va_end(ap);
    bool fits = n >= 0 && buf_reserve(b, (size_t)n);
    if (fits && (size_t)n >= room)
        vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, again);
    if (fits)
        b->len += (size_t)n;
    else if (room)
        b->ptr[b->len] = '\0';
    va_end(again);
}

ty_str ty_buf_str(const struct ty_buf *b)
{
    return b->ptr ? (ty_str){b->ptr, b->len} : (ty_str){"", 0};
}

ty_err ty_buf_check(const struct ty_buf *b, const char *what)
{
    if (!b->full)
        return TY_OK;
    return ty_fail(TY_RESOURCE_EXHAUSTED, "%s is larger than %zu bytes", what, b->limit);
}

int ty_str_distance(ty_str a, ty_str b)
{
    enum { LONGEST = 40 };
    int row[LONGEST + 1];
    if (a.len > LONGEST || b.len > LONGEST)
        return 99;
    for (size_t j = 0; j <= b.len; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= a.len; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b.len; j++) {
            int above = row[j], best = diagonal + (a.ptr[i - 1] != b.ptr[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[b.len];
}
