/* text.c -- text of others (names, a server's messages) on its way to a terminal.
 *
 * A terminal obeys what it is sent: an ESC in a job's name could retitle the window or hide a line.
 * So control characters are shown as escapes (\n, \x1b, \u202e), as are the marks that turn the
 * direction of writing around and bytes that are not UTF-8. A job's own log is left alone:
 * its colours are wanted. */
#include "cli/cli_int.h"

/* Take the character at the start of *s; false if its first byte begins none, and then *ret_code is
 * that byte. */
static bool next_char(ty_str *s, uint32_t *ret_code)
{
    unsigned char first = (unsigned char)s->ptr[0];
    size_t len = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    bool valid = len <= s->len && ty_utf8_valid((ty_str){s->ptr, len});
    uint32_t code = first;
    if (valid && len > 1) {
        code = first & (0x7fu >> len);
        for (size_t i = 1; i < len; i++)
            code = code << 6 | ((unsigned char)s->ptr[i] & 0x3f);
    }
    *s = ty_str_drop(*s, valid ? len : 1);
    *ret_code = code;
    return valid;
}

uint32_t cli_char_take(ty_str *text)
{
    uint32_t code;
    next_char(text, &code);
    return code;
}

void cli_char_add(struct ty_buf *b, uint32_t code)
{
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    ty_buf_addc(b, (char)(more == 0 ? code : (0xf00u >> (more + 1) & 0xffu) | code >> (6 * more)));
    while (more-- > 0)
        ty_buf_addc(b, (char)(0x80 | (code >> (6 * more) & 0x3f)));
}

struct range {
    uint32_t first, last;
};

static bool in_ranges(uint32_t code, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* Control characters, line separators, and marks of direction. */
static bool is_control(uint32_t code)
{
    static const struct range controls[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x200e, 0x200f},
                                            {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}};
    return in_ranges(code, controls, TY_COUNT(controls));
}

static void add_escaped(struct ty_buf *b, uint32_t code)
{
    if (code == '\n' || code == '\t' || code == '\r')
        ty_buf_addf(b, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : 'r');
    else if (code <= 0xff)
        ty_buf_addf(b, "\\x%02x", (unsigned)code);
    else
        ty_buf_addf(b, "\\u%04x", (unsigned)code);
}

ty_str cli_text_shown(struct ty_arena *a, ty_str text, bool lines)
{
    struct ty_buf b;
    ty_buf_init(&b, text.len * 6 + 1); /* the longest escape of one byte has 6 */
    while (text.len > 0) {
        const char *start = text.ptr;
        uint32_t code;
        bool valid = next_char(&text, &code);
        if (valid && (!is_control(code) || (lines && (code == '\n' || code == '\t'))))
            ty_buf_add(&b, start, (size_t)(text.ptr - start));
        else
            add_escaped(&b, code);
    }
    ty_str shown = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return shown;
}

const char *cli_text_for(struct ty_arena *a, int fd, const char *text)
{
    return isatty(fd) ? cli_text_shown(a, ty_str_of(text), true).ptr : text;
}

size_t cli_text_width(ty_str text)
{
    static const struct range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                                        {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
                                        {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
                                        {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff},
                                        {0x20000, 0x3fffd}};
    static const struct range combining[] = {
        {0x300, 0x36f}, {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}};
    size_t width = 0;
    while (text.len > 0) {
        uint32_t code;
        next_char(&text, &code);
        if (!in_ranges(code, combining, TY_COUNT(combining)))
            width += in_ranges(code, wide, TY_COUNT(wide)) ? 2 : 1;
    }
    return width;
}
