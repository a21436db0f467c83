/* record.c -- one line of a log file and what it means. The format is in joblog.h.
 *
 * Strict where we write (digits, separators), open where users do (the text is any bytes), so that
 * a line that is no record can be told from one with strange text. */
#include "joblog/joblog.h"

enum { TIME_DIGITS = 19, REPLICA_DIGITS = 6 };

/* Digits at the front of *s, between 1 and `most` of them, taken off it. */
static bool take_digits(ty_str *s, size_t most, int64_t *ret_value)
{
    uint64_t value = 0;
    size_t n = 0;
    while (n < s->len && n < most && s->ptr[n] >= '0' && s->ptr[n] <= '9')
        value = value * 10 + (uint64_t)(s->ptr[n++] - '0'); /* 19 digits fit 64 bits */
    if (n == 0 || value > INT64_MAX)
        return false;
    *s = ty_str_drop(*s, n);
    *ret_value = (int64_t)value;
    return true;
}

static bool take_char(ty_str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = ty_str_drop(*s, 1);
    return true;
}

static bool take_replica(ty_str *s, struct joblog_record *r)
{
    if (take_char(s, '-')) {
        r->pool = r->index = -1;
        return true;
    }
    int64_t pool, index;
    if (!take_digits(s, REPLICA_DIGITS, &pool) || !take_char(s, '-') ||
        !take_digits(s, REPLICA_DIGITS, &index))
        return false;
    r->pool = (int)pool;
    r->index = (int)index;
    return true;
}

static bool take_stream(ty_str *s, struct joblog_record *r)
{
    static const char streams[] = "oesOES";
    if (s->len == 0 || !memchr(streams, s->ptr[0], sizeof streams - 1))
        return false;
    r->continues = s->ptr[0] < 'a';
    r->stream = (char)(s->ptr[0] | 0x20);
    *s = ty_str_drop(*s, 1);
    return true;
}

ty_err joblog_parse(ty_str line, struct joblog_record *ret_record)
{
    struct joblog_record r = {0};
    ty_str s = line;
    if (!take_digits(&s, TIME_DIGITS, &r.time_ns) || s.ptr - line.ptr != TIME_DIGITS ||
        !take_char(&s, ' '))
        return ty_fail(TY_DATA_LOSS, "no log record: it does not start with a time of 19 digits");
    if (!take_replica(&s, &r) || !take_char(&s, ' '))
        return ty_fail(TY_DATA_LOSS, "no log record: no replica ('0-0' or '-') after the time");
    if (!take_stream(&s, &r) || !take_char(&s, ' '))
        return ty_fail(TY_DATA_LOSS,
                       "no log record: no stream ('o', 'e' or 's') after the replica");
    if (s.len > JOBLOG_TEXT_BYTES)
        return ty_fail(TY_DATA_LOSS, "no log record: its text is longer than %d bytes",
                       JOBLOG_TEXT_BYTES);
    r.text = s;
    *ret_record = r;
    return TY_OK;
}
