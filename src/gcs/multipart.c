/* multipart.c -- multipart bodies, taken apart as they come.
 *
 *   --boundary EOL  headers EOL  EOL  data  EOL --boundary EOL … EOL --boundary--
 *
 * EOL is CR LF by the book; gcloud and gsutil send bare LF, and their header quotes the boundary in
 * single quotes that the body does not have. How the first delimiter line ends decides for the
 * whole body: guessing at each one would eat the last CR of data that ends in one.
 *
 * Data is handed on as it comes. The last bytes of a piece may be the start of a delimiter; so many
 * (`carry`) are held back until the next piece shows what they are. */
#include "gcs/gcs_int.h"

#include <strings.h>

/* ---- headers ---- */

ty_str part_header(ty_str headers, const char *name)
{
    size_t n = strlen(name);
    for (bool more = true; more;) {
        ty_str line;
        more = ty_str_split(&headers, '\n', &line);
        if (line.len > n && line.ptr[n] == ':' && strncasecmp(line.ptr, name, n) == 0)
            return ty_str_trim(ty_str_drop(line, n + 1));
    }
    return TY_STR("");
}

/* The parameter's value without its quotes, double or single. */
static ty_str boundary_of(ty_str content_type)
{
    ty_str rest = content_type, part, name;
    for (bool more = ty_str_split(&rest, ';', &part); more;) {
        more = ty_str_split(&rest, ';', &part);
        ty_str value = ty_str_trim(part);
        if (!ty_str_split(&value, '=', &name) || name.len != 8 ||
            strncasecmp(name.ptr, "boundary", 8) != 0)
            continue;
        if (value.len >= 2 && (value.ptr[0] == '"' || value.ptr[0] == '\'') &&
            value.ptr[value.len - 1] == value.ptr[0])
            value = (ty_str){value.ptr + 1, value.len - 2};
        return value;
    }
    return TY_STR("");
}

ty_err multipart_init(struct multipart *m, ty_str content_type,
                      const struct multipart_events *events, void *arg)
{
    ty_str boundary = boundary_of(content_type);
    if (boundary.len == 0 || boundary.len > GCS_BOUNDARY_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "Content-Type must be multipart/… with a boundary of 1 to %d characters",
                       GCS_BOUNDARY_BYTES);
    *m = (struct multipart){.events = events, .arg = arg};
    m->boundary_len =
        (size_t)snprintf(m->boundary, sizeof m->boundary, "--" TY_STR_FMT, TY_STR_ARG(boundary));
    ty_buf_init(&m->lines, GCS_PART_HEADER_BYTES);
    return TY_OK;
}

void multipart_clear(struct multipart *m)
{
    ty_buf_clear(&m->lines);
}

/* ---- lines: the preamble, headers, what follows a delimiter ---- */

/* Take one line from *bytes, as far as it has come; true when it is whole, in lines[line_start..]
 * with its end. */
static bool line_take(struct multipart *m, ty_str *bytes)
{
    const char *end = memchr(bytes->ptr, '\n', bytes->len);
    size_t n = end ? (size_t)(end - bytes->ptr) + 1 : bytes->len;
    ty_buf_add(&m->lines, bytes->ptr, n);
    *bytes = ty_str_drop(*bytes, n);
    return end != NULL;
}

static ty_str line_get(const struct multipart *m)
{
    return ty_str_drop(ty_buf_str(&m->lines), m->line_start);
}

static void lines_forget(struct multipart *m)
{
    m->lines.len = m->line_start = 0;
}

/* The first delimiter line says how lines end. */
static ty_err preamble_line(struct multipart *m)
{
    ty_str line = line_get(m);
    bool crlf = ty_str_ends(line, TY_STR("\r\n"));
    line = ty_str_trim(line);
    lines_forget(m);
    if (line.len != m->boundary_len || memcmp(line.ptr, m->boundary, line.len) != 0)
        return TY_OK;
    m->delimiter_len = (size_t)snprintf(m->delimiter, sizeof m->delimiter, "%s%.*s",
                                        crlf ? "\r\n" : "\n", (int)m->boundary_len, m->boundary);
    m->state = MULTIPART_HEADERS;
    return TY_OK;
}

static ty_err header_line(struct multipart *m)
{
    ty_str line = line_get(m);
    m->line_start = m->lines.len;
    if (ty_str_trim(line).len > 0)
        return TY_OK;
    ty_err err = m->events->part(m->arg, m->parts, ty_buf_str(&m->lines));
    lines_forget(m);
    m->parts++;
    m->state = MULTIPART_DATA;
    /* A delimiter may follow at once: then the empty line was also the one before it. */
    m->carry_len = m->unsaid = m->delimiter_len - m->boundary_len;
    memcpy(m->carry, m->delimiter, m->carry_len);
    return err;
}

static ty_err after_line(struct multipart *m)
{
    ty_str line = ty_str_trim(line_get(m));
    bool last = ty_str_starts(line, TY_STR("--"));
    if (line.len > 0 && !last)
        return ty_fail(TY_INVALID_ARGUMENT, "multipart body: part %zu holds its own delimiter",
                       m->parts);
    lines_forget(m);
    m->state = last ? MULTIPART_DONE : MULTIPART_HEADERS;
    return TY_OK;
}

static ty_err feed_lines(struct multipart *m, ty_str *bytes)
{
    bool whole = line_take(m, bytes);
    if (m->lines.full)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "multipart body: the headers of part %zu, or what is before the first "
                       "'%.*s', are longer than %d bytes",
                       m->parts + 1, (int)m->boundary_len, m->boundary, GCS_PART_HEADER_BYTES);
    if (m->state == MULTIPART_AFTER && ty_str_starts(line_get(m), TY_STR("--")))
        whole = true; /* nothing has to follow the last one */
    if (!whole)
        return TY_OK;
    switch (m->state) {
    case MULTIPART_PREAMBLE:
        return preamble_line(m);
    case MULTIPART_HEADERS:
        return header_line(m);
    default:
        return after_line(m);
    }
}

/* ---- data ---- */

static ty_err say(struct multipart *m, ty_str bytes)
{
    size_t skip = bytes.len < m->unsaid ? bytes.len : m->unsaid;
    m->unsaid -= skip;
    bytes = ty_str_drop(bytes, skip);
    return bytes.len > 0 ? m->events->data(m->arg, m->parts - 1, bytes) : TY_OK;
}

static void delimiter_found(struct multipart *m)
{
    m->carry_len = m->unsaid = 0;
    m->state = MULTIPART_AFTER;
}

/* Is there a delimiter that begins in the carried bytes? Looks at them and the next
 * delimiter_len - 1. */
static ty_err feed_carried(struct multipart *m, ty_str *bytes)
{
    char joint[2 * sizeof m->carry];
    size_t next = m->delimiter_len - 1 < bytes->len ? m->delimiter_len - 1 : bytes->len;
    size_t carried = m->carry_len;
    memcpy(joint, m->carry, carried);
    memcpy(joint + carried, bytes->ptr, next);
    const char *at = memmem(joint, carried + next, m->delimiter, m->delimiter_len);
    if (at) {
        size_t before = (size_t)(at - joint);
        *bytes = ty_str_drop(*bytes, before + m->delimiter_len - carried);
        ty_err err = say(m, (ty_str){joint, before});
        delimiter_found(m);
        return err;
    }
    if (next ==
        m->delimiter_len - 1) { /* none begins there: it is data, and the rest stands alone */
        m->carry_len = 0;
        return say(m, (ty_str){joint, carried});
    }
    *bytes = ty_str_drop(*bytes, next);
    size_t all = carried + next;
    size_t keep = all < m->delimiter_len - 1 ? all : m->delimiter_len - 1;
    ty_err err = say(m, (ty_str){joint, all - keep});
    memcpy(m->carry, joint + all - keep, keep);
    m->carry_len = keep;
    return err;
}

static ty_err feed_data(struct multipart *m, ty_str *bytes)
{
    if (m->carry_len > 0)
        return feed_carried(m, bytes);
    const char *at = memmem(bytes->ptr, bytes->len, m->delimiter, m->delimiter_len);
    size_t keep = m->delimiter_len - 1 < bytes->len ? m->delimiter_len - 1 : bytes->len;
    size_t before = at ? (size_t)(at - bytes->ptr) : bytes->len - keep;
    ty_str data = {bytes->ptr, before};
    if (at) {
        *bytes = ty_str_drop(*bytes, before + m->delimiter_len);
        ty_err err = say(m, data);
        delimiter_found(m);
        return err;
    }
    memcpy(m->carry, bytes->ptr + before, keep);
    m->carry_len = keep;
    *bytes = TY_STR("");
    return say(m, data);
}

ty_err multipart_feed(struct multipart *m, ty_str bytes)
{
    ty_err err = TY_OK;
    while (err == TY_OK && bytes.len > 0 && m->state != MULTIPART_DONE)
        err = m->state == MULTIPART_DATA ? feed_data(m, &bytes) : feed_lines(m, &bytes);
    return err;
}

ty_err multipart_end(const struct multipart *m)
{
    if (m->state == MULTIPART_DONE)
        return TY_OK;
    if (m->parts == 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "multipart body: no line is '%.*s', the boundary that Content-Type names",
                       (int)m->boundary_len, m->boundary);
    return ty_fail(TY_INVALID_ARGUMENT,
                   "multipart body: it ends in part %zu, before the closing '%.*s--'", m->parts,
                   (int)m->boundary_len, m->boundary);
}
