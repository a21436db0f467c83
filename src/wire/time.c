/* time.c -- RFC 3339 times and protobuf durations.
 *
 * wire_time_format runs once a log line, so it is arithmetic only: days to a
 * civil date by counting in eras of 400 years that start in March (the leap day
 * is then the last day of a year and needs no case of its own). */
#include "wire/wire.h"

static const int64_t second_ns = 1000000000;
enum { DAY_S = 86400, ERA_DAYS = 146097, EPOCH_DAYS = 719468 /* 0000-03-01 to 1970-01-01 */ };

/* ---- writing ---- */

static char *put2(char *p, unsigned n)
{
    p[0] = (char)('0' + n / 10);
    p[1] = (char)('0' + n % 10);
    return p + 2;
}

static char *put_date(char *p, int64_t days)
{
    days += EPOCH_DAYS; /* positive for every int64 of nanoseconds */
    unsigned era = (unsigned)(days / ERA_DAYS), day = (unsigned)(days % ERA_DAYS);
    unsigned year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    unsigned day_of_year = day - (365 * year + year / 4 - year / 100);
    unsigned month = (5 * day_of_year + 2) / 153; /* 0 is March */
    unsigned day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    year += era * 400 + (month >= 10);
    month = month < 10 ? month + 3 : month - 9;
    p = put2(put2(p, year / 100), year % 100);
    *p++ = '-';
    p = put2(p, month);
    *p++ = '-';
    return put2(p, day_of_month);
}

char *wire_time_format(int64_t ns, int digits, char out[WIRE_TIME_BYTES])
{
    ty_assert(digits >= 0 && digits <= 9);
    int64_t seconds = ns / second_ns, fraction = ns % second_ns;
    if (fraction < 0) {
        fraction += second_ns;
        seconds--;
    }
    int64_t days = seconds / DAY_S, rest = seconds % DAY_S;
    if (rest < 0) {
        rest += DAY_S;
        days--;
    }
    unsigned s = (unsigned)rest, f = (unsigned)fraction;
    char *p = put_date(out, days);
    *p++ = 'T';
    p = put2(p, s / 3600);
    *p++ = ':';
    p = put2(p, s / 60 % 60);
    *p++ = ':';
    p = put2(p, s % 60);
    if (digits > 0) {
        *p++ = '.';
        for (int i = 8; i >= 0; i--, f /= 10)
            p[i] = (char)('0' + f % 10);
        p += digits;
    }
    *p++ = 'Z';
    *p = 0;
    return out;
}

/* ---- reading ---- */

/* Take exactly `count` digits. */
static bool take_digits(ty_str *s, size_t count, int *ret_value)
{
    int value = 0;
    if (s->len < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (s->ptr[i] < '0' || s->ptr[i] > '9')
            return false;
        value = value * 10 + (s->ptr[i] - '0');
    }
    *s = ty_str_drop(*s, count);
    *ret_value = value;
    return true;
}

static bool take_char(ty_str *s, const char *any_of, char *ret_char)
{
    if (s->len == 0 || !s->ptr[0] || !strchr(any_of, s->ptr[0]))
        return false;
    *ret_char = s->ptr[0];
    *s = ty_str_drop(*s, 1);
    return true;
}

/* "." and 1 to 9 digits as nanoseconds; nothing there is 0. */
static bool take_fraction(ty_str *s, int *ret_ns)
{
    char c;
    int ns = 0, digit;
    size_t count = 0;
    if (take_char(s, ".", &c)) {
        while (count < 9 && take_digits(s, 1, &digit)) {
            ns = ns * 10 + digit;
            count++;
        }
        if (count == 0)
            return false;
        for (; count < 9; count++)
            ns *= 10;
    }
    *ret_ns = ns;
    return true;
}

/* Seconds east of UTC. */
static bool take_offset(ty_str *s, int *ret_seconds)
{
    char sign, c;
    int hours, minutes;
    if (take_char(s, "Zz", &c)) {
        *ret_seconds = 0;
        return true;
    }
    if (!take_char(s, "+-", &sign) || !take_digits(s, 2, &hours) || !take_char(s, ":", &c) ||
        !take_digits(s, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret_seconds = (hours * 60 + minutes) * (sign == '-' ? -60 : 60);
    return true;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (leap && month == 2);
}

static int64_t days_since_epoch(int year, int month, int day)
{
    year -= month <= 2;
    int era = (year + 400) / 400 - 1; /* year may be -1: January of year 0 */
    int year_of_era = year - era * 400;
    int day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (int64_t)era * ERA_DAYS + day_of_era - EPOCH_DAYS;
}

/* A time outside int64 nanoseconds (years 1677 to 2262) is still a valid bound
 * in a filter, "0001-01-01T00:00:00Z" above all: it becomes the nearest we have. */
static int64_t saturated_ns(int64_t seconds, int fraction)
{
    int64_t ns;
    if (seconds < 0 && fraction > 0) { /* towards zero, or the product could overflow alone */
        seconds++;
        fraction -= (int)second_ns;
    }
    if (__builtin_mul_overflow(seconds, second_ns, &ns) ||
        __builtin_add_overflow(ns, fraction, &ns))
        return seconds < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

ty_err wire_time_parse(ty_str text, int64_t *ret_ns)
{
    ty_str s = text;
    int year, month, day, hour, minute, second, fraction, offset;
    char c;
    bool ok = take_digits(&s, 4, &year) && take_char(&s, "-", &c) && take_digits(&s, 2, &month) &&
              take_char(&s, "-", &c) && take_digits(&s, 2, &day) && take_char(&s, "Tt", &c) &&
              take_digits(&s, 2, &hour) && take_char(&s, ":", &c) && take_digits(&s, 2, &minute) &&
              take_char(&s, ":", &c) && take_digits(&s, 2, &second) &&
              take_fraction(&s, &fraction) && take_offset(&s, &offset);
    if (!ok || s.len > 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "'%.*s' is not a time like 2024-01-31T23:59:59.5Z (byte %zu)",
                       (int)(text.len < 60 ? text.len : 60), text.ptr, text.len - s.len);
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 59)
        return ty_fail(TY_INVALID_ARGUMENT, "there is no time '" TY_STR_FMT "'", TY_STR_ARG(text));
    int64_t seconds =
        days_since_epoch(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset;
    *ret_ns = saturated_ns(seconds, fraction);
    return TY_OK;
}

ty_err wire_duration_parse(ty_str text, int64_t *ret_ms)
{
    static const int64_t most_s = 315576000000; /* 10,000 years, protobuf's own limit */
    ty_str s = text;
    int64_t seconds = 0;
    int digit, fraction;
    char c;
    size_t digits = 0;
    for (; digits < 13 && take_digits(&s, 1, &digit); digits++)
        seconds = seconds * 10 + digit;
    if (digits == 0 || !take_fraction(&s, &fraction) || !take_char(&s, "s", &c) || s.len > 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "'%.*s' is not a duration like 3600s or 1.5s, and not negative (byte %zu)",
                       (int)(text.len < 60 ? text.len : 60), text.ptr, text.len - s.len);
    if (seconds > most_s)
        return ty_fail(TY_INVALID_ARGUMENT, "the duration '" TY_STR_FMT "' is over 10000 years",
                       TY_STR_ARG(text));
    *ret_ms = seconds * 1000 + (fraction + 999999) / 1000000; /* up: 1ns must not read as "none" */
    return TY_OK;
}
