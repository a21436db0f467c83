/* hints.c -- finding the row of hints.def that fits. A pure function of how a replica ended and the
 * last lines it printed. */
#include "exec/exec_int.h"

enum { CAPTURE_BYTES = 200 };

static const struct hint {
    enum hint_when when;
    int number;
    const char *pattern, *text;
} hints[] = {
#define HINT(when_, number_, pattern_, text_) {when_, number_, pattern_, text_},
#include "exec/hints.def"
#undef HINT
};

/* The last place of `what` in `text`, or NULL: of two errors the later one is the reason. */
static const char *find_last(ty_str text, ty_str what)
{
    const char *found = NULL, *at = text.ptr, *end = text.ptr + text.len;
    while ((at = memmem(at, (size_t)(end - at), what.ptr, what.len)) != NULL)
        found = at++;
    return found;
}

/* What '*' stands for, in a text whose every line begins and ends with '\n'. */
static bool match(ty_str lines, const char *pattern, ty_str *ret_capture)
{
    ty_str after = ty_str_of(pattern), before;
    bool star = ty_str_split(&after, '*', &before);
    const char *at = find_last(lines, before);
    if (!at)
        return false;
    if (!star)
        return true;
    ty_str rest = {at + before.len, (size_t)(lines.ptr + lines.len - at) - before.len};
    if (!after.ptr || after.len == 0) /* a row whose star has no end */
        return false;
    const char *end = memmem(rest.ptr, rest.len, after.ptr, after.len);
    const char *newline = memchr(rest.ptr, '\n', rest.len);
    if (!end || (newline && newline < end))
        return false;
    size_t len = (size_t)(end - rest.ptr);
    *ret_capture = (ty_str){rest.ptr, len < CAPTURE_BYTES ? len : CAPTURE_BYTES};
    return len > 0;
}

void hints_add(struct ty_buf *b, enum hint_when when, int number, ty_str lines)
{
    struct ty_arena a = {0};
    ty_str all = ty_str_of(ty_format(&a, "\n" TY_STR_FMT "\n", TY_STR_ARG(lines)));
    for (size_t i = 0; i < TY_COUNT(hints); i++) {
        const struct hint *h = &hints[i];
        ty_str capture = {0}, text = ty_str_of(h->text), part;
        if (h->when != when || (h->number != 0 && h->number != number) ||
            (h->pattern[0] && !match(all, h->pattern, &capture)))
            continue;
        ty_buf_addc(b, ' ');
        while (ty_str_split(&text, '*', &part)) {
            ty_buf_adds(b, part);
            ty_buf_adds(b, capture);
        }
        ty_buf_adds(b, part);
        break;
    }
    ty_arena_clear(&a);
}
