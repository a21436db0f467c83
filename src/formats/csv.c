/* csv.c -- rows of a CSV text into columns of numbers and strings.
 *
 * Two steps a window of CSV_WINDOW bytes, small enough for the first-level cache: csv_scan.c finds
 * where fields end, then rows are read by walking those places. A row may cross windows: only the
 * places are windowed, never the text. Line numbers are counted when an error needs one. */
#include "formats/formats_int.h"

enum { SHOWN_BYTES = 40 };

ty_err csv_reader_init(struct csv_reader *r, struct ty_arena *a, ty_str text, char separator,
                       const struct csv_column *columns, size_t count)
{
    if (count == 0 || count > CSV_MAX_COLUMNS)
        return ty_fail(TY_INVALID_ARGUMENT, "a CSV file of %zu columns: 1 to %d can be read", count,
                       CSV_MAX_COLUMNS);
    if (separator == '"' || separator == '\n' || separator == '\r' || separator == '\0')
        return ty_fail(TY_INVALID_ARGUMENT, "a CSV separator cannot be a quote or a line end");
    memset(r, 0, offsetof(struct csv_reader, at));
    r->text = text;
    r->end = text.len;
    r->line = 1;
    r->columns = columns;
    r->column_count = count;
    r->separator = separator;
    r->arena = a;
    r->base = 0;
    return TY_OK;
}

/* ---- the index of separators ---- */

/* Places of the next window. False if the text is used up. */
static bool window_fill(struct csv_reader *r)
{
    size_t from = r->scanned > r->offset ? r->scanned : r->offset;
    if (from >= r->end)
        return false;
    size_t n = r->end - from < CSV_WINDOW ? r->end - from : CSV_WINDOW;
    struct csv_scan s = {r->separator, r->inside, r->quotes};
    r->known = csv_scan_fast(&s, r->text.ptr + from, n, r->at);
    r->inside = s.inside;
    r->quotes = s.quotes;
    r->next = 0;
    r->base = from;
    r->scanned = from + n;
    /* The text's end ends its last field, unless a line end did. */
    if (r->scanned == r->end && (r->text.ptr[r->end - 1] != '\n' || r->inside))
        r->at[r->known++] = (uint32_t)n;
    return true;
}

/* Where the field that is being read ends: a separator, a line end, or r->end. */
static inline size_t field_end(struct csv_reader *r)
{
    while (__builtin_expect(r->next == r->known, 0))
        if (!window_fill(r))
            return r->end;
    return r->base + r->at[r->next++];
}

/* ---- fields ---- */

static bool quotes_escaped(ty_str s)
{
    return memchr(s.ptr, '"', s.len) != NULL;
}

bool csv_unquote(struct ty_arena *a, ty_str field, ty_str *ret_text)
{
    if (field.len < 2 || field.ptr[0] != '"' || field.ptr[field.len - 1] != '"')
        return false;
    ty_str inner = {field.ptr + 1, field.len - 2};
    if (!quotes_escaped(inner)) {
        *ret_text = inner;
        return true;
    }
    char *out = ty_alloc(a, inner.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < inner.len; i++) {
        if (inner.ptr[i] == '"' && (++i == inner.len || inner.ptr[i] != '"'))
            return false;
        out[n++] = inner.ptr[i];
    }
    *ret_text = (ty_str){out, n};
    return true;
}

/* The line at `start`. Counted on from the last one that was asked for, so that a file of bad rows
 * is not counted from its start for each. */
static uint64_t line_at(struct csv_reader *r, size_t start)
{
    if (start < r->line_offset)
        r->line_offset = r->lines = 0;
    ty_str text = {r->text.ptr + r->line_offset, start - r->line_offset};
    r->lines += csv_count_byte(text, '\n');
    r->line_offset = start;
    return r->line + r->lines;
}

static ty_err field_fail(struct csv_reader *r, size_t column, size_t start, ty_str field,
                         const char *what)
{
    uint64_t line = line_at(r, start);
    ty_str name = r->columns[column].name;
    size_t shown = 0;
    while (shown < field.len && shown < SHOWN_BYTES && (unsigned char)field.ptr[shown] >= ' ')
        shown++;
    bool cut = shown < field.len;
    field.len = shown;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "line %" PRIu64 ", column %zu%s" TY_STR_FMT "%s: '" TY_STR_FMT "%s' %s", line,
                   column + 1, name.len ? " (" : "", TY_STR_ARG(name), name.len ? ")" : "",
                   TY_STR_ARG(field), cut ? "..." : "", what);
}

static ty_err field_default(struct csv_reader *r, size_t column, size_t start, union csv_values out,
                            size_t row)
{
    const struct csv_column *c = &r->columns[column];
    if (c->required)
        return field_fail(r, column, start, (ty_str){"", 0}, "is empty, and it has no default");
    if (c->type == CSV_FLOAT)
        out.floats[row] = c->default_float;
    else if (c->type == CSV_INT64)
        out.ints[row] = c->default_int;
    else
        out.strings[row] = c->default_str;
    return TY_OK;
}

/* With quotes about: *field becomes what it says. Where quotes are wrong the row is torn. */
static ty_err field_unquote(struct csv_reader *r, size_t column, size_t start, ty_str *field)
{
    if (field->len == 0 || !quotes_escaped(*field))
        return TY_OK;
    if (field->ptr[0] == '"' && csv_unquote(r->arena, *field, field))
        return TY_OK;
    r->torn = true;
    if (field->ptr[0] != '"')
        return field_fail(r, column, start, *field,
                          "has a quote inside but does not start with one");
    return field_fail(r, column, start, *field,
                      "does not end where its quotes do (\"\" is a quote inside quotes)");
}

static inline ty_err field_read(struct csv_reader *r, size_t column, ty_str field,
                                union csv_values out, size_t row)
{
    const struct csv_column *c = &r->columns[column];
    size_t start = (size_t)(field.ptr - r->text.ptr);
    if (r->quotes) {
        ty_err err = field_unquote(r, column, start, &field);
        if (err)
            return err;
    }
    if (c->type == CSV_SKIP)
        return TY_OK;
    if (field.len == 0)
        return field_default(r, column, start, out, row);
    if (c->type == CSV_STRING) {
        out.strings[row] = field;
        return TY_OK;
    }
    if (c->type == CSV_FLOAT)
        return csv_parse_float(field, &out.floats[row])
                   ? TY_OK
                   : field_fail(r, column, start, field, "is not a number");
    return csv_parse_int64(field, &out.ints[row])
               ? TY_OK
               : field_fail(r, column, start, field, "is not a whole number of 64 bits");
}

/* ---- rows ---- */

static ty_err row_fail(struct csv_reader *r, size_t start, size_t fields)
{
    uint64_t line = line_at(r, start);
    return ty_fail(TY_INVALID_ARGUMENT, "line %" PRIu64 ": %zu fields, not %zu", line, fields,
                   r->column_count);
}

/* A stray quote turns the quoting of all that follows inside out. So a torn row ends with the line
 * that its wrong field starts on, and the index is made anew from there. */
static size_t torn_row_end(struct csv_reader *r, size_t field)
{
    const char *line_end = memchr(r->text.ptr + field, '\n', r->end - field);
    size_t next = line_end ? (size_t)(line_end - r->text.ptr) + 1 : r->end;
    r->scanned = next;
    r->next = r->known = 0;
    r->inside = r->torn = false;
    return next;
}

/* One row; *ret_blank if there was nothing on the line. The reader stands after it either way. */
static ty_err row_read(struct csv_reader *r, const union csv_values *out, size_t row,
                       bool *ret_blank)
{
    const char *text = r->text.ptr;
    size_t begin = r->offset, start = begin, column = 0;
    ty_err err = TY_OK;
    for (bool last = false; !last; column++) {
        size_t stop = field_end(r);
        last = stop == r->end || text[stop] == '\n';
        ty_str field = {text + start, stop - start};
        if (last && field.len && text[stop - 1] == '\r')
            field.len--;
        size_t begins = start;
        start = stop + 1;
        if (last && column == 0 && field.len == 0 && r->column_count > 1) {
            *ret_blank = true;
            break;
        }
        if (column < r->column_count && !err)
            err = field_read(r, column, field, out[column], row);
        if (r->torn) {
            r->offset = torn_row_end(r, begins);
            return err;
        }
    }
    r->offset = start < r->end ? start : r->end;
    if (!err && !*ret_blank && column != r->column_count)
        err = row_fail(r, begin, column);
    return err;
}

static void bad_row_count(struct csv_reader *r)
{
    if (r->bad_rows++ == 0)
        snprintf(r->first_bad, sizeof r->first_bad, "%s", ty_err_message());
}

ty_err csv_read(struct csv_reader *r, size_t rows, const union csv_values *out, size_t *ret_rows)
{
    size_t n = 0;
    while (n < rows && r->offset < r->end) {
        bool blank = false;
        ty_err err = row_read(r, out, n, &blank);
        if (err && !r->skip_bad_rows)
            return err;
        if (err)
            bad_row_count(r);
        n += !err && !blank;
    }
    if (n == 0)
        return TY_OUT_OF_RANGE;
    *ret_rows = n;
    return TY_OK;
}
