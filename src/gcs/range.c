/* range.c -- Range and Content-Range, which clients choose.
 *
 *   Range: bytes=0-99 | bytes=100- | bytes=-5           what to send
 *   Content-Range: bytes 0-99/200 | bytes 0-99/<star> | bytes <star>/200 | bytes <star>/<star> */
#include "gcs/gcs_int.h"

/* Digits only: no sign, no space. */
static bool number(ty_str s, int64_t *ret_value)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    return s.len > 0 && ty_parse_i64(s, ret_value) == TY_OK;
}

enum range_kind range_parse(ty_str header, int64_t size, int64_t *ret_first, int64_t *ret_last)
{
    ty_str unit = TY_STR("bytes="), first_text, text = ty_str_trim(header);
    int64_t first = 0, last = size - 1;
    if (!ty_str_starts(text, unit))
        return RANGE_WHOLE;
    text = ty_str_trim(ty_str_drop(text, unit.len));
    if (!ty_str_split(&text, '-', &first_text))
        return RANGE_WHOLE;
    if (first_text.len == 0) { /* the last so many */
        int64_t count;
        if (!number(text, &count))
            return RANGE_WHOLE;
        if (count == 0 || size == 0)
            return RANGE_BEYOND;
        first = count < size ? size - count : 0;
    } else {
        if (!number(first_text, &first) || (text.len > 0 && !number(text, &last)) ||
            (text.len > 0 && last < first))
            return RANGE_WHOLE;
        if (first >= size)
            return RANGE_BEYOND;
        last = last < size ? last : size - 1;
    }
    *ret_first = first;
    *ret_last = last;
    return RANGE_PART;
}

ty_err content_range_parse(ty_str header, struct content_range *ret_range)
{
    struct content_range r = {-1, -1, -1};
    ty_str unit = TY_STR("bytes "), span, first, total = ty_str_trim(header);
    if (!ty_str_starts(total, unit))
        goto bad;
    total = ty_str_drop(total, unit.len);
    if (!ty_str_split(&total, '/', &span))
        goto bad;
    if (!ty_str_is(total, "*") && !number(total, &r.total))
        goto bad;
    if (!ty_str_is(span, "*")) {
        ty_str last = span;
        if (!ty_str_split(&last, '-', &first) || !number(first, &r.first) ||
            !number(last, &r.last) || r.last < r.first || r.last == INT64_MAX ||
            (r.total >= 0 && r.last >= r.total))
            goto bad;
    }
    *ret_range = r;
    return TY_OK;
bad:
    return ty_fail(TY_INVALID_ARGUMENT,
                   "Content-Range '%.*s' is none of 'bytes FIRST-LAST/TOTAL', 'bytes "
                   "FIRST-LAST/*', 'bytes */TOTAL' and 'bytes */*'",
                   header.len > 128 ? 128 : (int)header.len, header.ptr);
}
