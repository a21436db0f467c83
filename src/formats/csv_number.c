/* csv_number.c -- decimal text to numbers, exactly.
 *
 * A float is wanted to the nearest float32, ties to even. For up to 19 digits and no exponent the
 * digits are an integer m and the value is m / 10^k. The double nearest to that is off by at most a
 * few units in its last place (exactly: m's own rounding, 10^k being exact up to 22, and the
 * division's), and a double has 29 bits more than a float: so rounding it once more gives the right
 * float unless those 29 bits say "within 4 of halfway". Those, one in 67 million, and all unusual
 * forms (exponents, inf, nan, spaces, long ones) go to strtof, which is exact. */
#include "formats/formats_int.h"

enum { FAST_CHARS = 19, SLOW_CHARS = 1024 };

/* -73.9 and nothing else: what strtof would also take in hex or with a locale is refused here. */
static bool slow_chars_fit(ty_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] == 'x' || s.ptr[i] == 'X' || s.ptr[i] == '(' || s.ptr[i] == '\0')
            return false;
    return s.len > 0 && s.len < SLOW_CHARS;
}

static bool float_slow(ty_str field, float *ret_value)
{
    ty_str s = ty_str_trim(field);
    if (!slow_chars_fit(s))
        return false;
    char text[SLOW_CHARS], *end;
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    float value = strtof(text, &end);
    if (end != text + s.len)
        return false;
    *ret_value = value;
    return true;
}

/* Eight digits, the first in the lowest byte, as a number; false if one is no digit. */
static inline bool eight_digits(uint64_t v, uint64_t *ret_value)
{
    const uint64_t zeros = 0x3030303030303030u, high = 0xf0f0f0f0f0f0f0f0u;
    if ((v & high) != zeros || ((v + 0x0606060606060606u) & high) != zeros)
        return false;
    v -= zeros;
    v = v * 10 + (v >> 8); /* pairs, in every second byte */
    *ret_value = ((v & 0x000000ff000000ffu) * 0x000f424000000064u +
                  (v >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u) >>
                 32;
    return true;
}

/* The digits after the point, at most 19, appended to m. */
static inline bool fraction_digits(const char *p, const char *end, bool has_8_before_end,
                                   uint64_t *m)
{
    static const uint64_t power[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    uint64_t part;
    for (; end - p >= 8; p += 8) {
        if (!eight_digits(wire_load_le64(p), &part))
            return false;
        *m = *m * 100000000 + part;
    }
    size_t left = (size_t)(end - p);
    if (left == 0)
        return true;
    if (has_8_before_end) { /* the field's last eight bytes, those before the rest made zeros */
        uint64_t keep = ~(uint64_t)0 << (8 * (8 - left));
        uint64_t v = (wire_load_le64(end - 8) & keep) | (0x3030303030303030u & ~keep);
        if (!eight_digits(v, &part))
            return false;
        *m = *m * power[left] + part;
        return true;
    }
    for (; p < end; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (digit > 9)
            return false;
        *m = *m * 10 + digit;
    }
    return true;
}

bool csv_parse_float(ty_str field, float *ret_value)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                   1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
    const char *p = field.ptr, *end = p + field.len;
    bool minus = field.len > 0 && *p == '-';
    p += minus;
    if (p == end || end - p > FAST_CHARS)
        return float_slow(field, ret_value);
    uint64_t m = 0;
    const char *digits = p;
    for (unsigned digit; p < end && (digit = (unsigned)(*p - '0')) <= 9; p++)
        m = m * 10 + digit;
    size_t places = 0;
    if (p < end) {
        if (*p != '.' || end - digits == 1)
            return float_slow(field, ret_value);
        places = (size_t)(end - ++p);
        if (places >= TY_COUNT(power) || !fraction_digits(p, end, field.len >= 8, &m))
            return float_slow(field, ret_value);
    }
    double d = (double)m / power[places];
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    if ((bits & 0x1fffffff) - 0x0ffffffc <= 8)
        return float_slow(field, ret_value);
    *ret_value = (float)(minus ? -d : d);
    return true;
}

bool csv_parse_int64(ty_str field, int64_t *ret_value)
{
    const char *p = field.ptr, *end = p + field.len;
    if (p < end && ((unsigned char)*p <= ' ' || (unsigned char)end[-1] <= ' ')) {
        ty_str s = ty_str_trim(field);
        p = s.ptr;
        end = p + s.len;
    }
    bool minus = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    if (p == end)
        return false;
    uint64_t value = 0, most = (uint64_t)INT64_MAX + minus;
    for (; p < end; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (digit > 9 || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = (int64_t)(minus ? 0 - value : value);
    return true;
}
