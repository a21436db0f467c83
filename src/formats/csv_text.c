/* csv_text.c -- what is done to a CSV text before its rows are read: headers, cutting it up. */
#include "formats/formats_int.h"

enum { NAMES_SHOWN = 20 };

/* ---- headers ---- */

/* The first row's text, without its line end; *ret_used counts that too. */
static ty_str first_row(ty_str text, size_t *ret_used)
{
    bool inside = false;
    size_t i = 0;
    for (; i < text.len && (inside || text.ptr[i] != '\n'); i++)
        inside ^= text.ptr[i] == '"';
    *ret_used = i < text.len ? i + 1 : i;
    if (i > 0 && i < text.len && text.ptr[i - 1] == '\r')
        i--;
    return (ty_str){text.ptr, i};
}

/* The field at the front of *row, taken off it with its separator. */
static ty_str field_take(ty_str *row, char separator, bool *ret_last)
{
    bool inside = false;
    size_t i = 0;
    for (; i < row->len && (inside || row->ptr[i] != separator); i++)
        inside ^= row->ptr[i] == '"';
    ty_str field = {row->ptr, i};
    *ret_last = i == row->len;
    *row = ty_str_drop(*row, *ret_last ? i : i + 1);
    return field;
}

ty_err csv_row(struct ty_arena *a, ty_str text, char separator, ty_str **ret_fields,
               size_t *ret_count, size_t *ret_used)
{
    if (text.len == 0)
        return TY_OUT_OF_RANGE;
    if (ty_str_starts(text, TY_STR("\xef\xbb\xbf"))) { /* a byte order mark is no part of a name */
        ty_err err = csv_row(a, ty_str_drop(text, 3), separator, ret_fields, ret_count, ret_used);
        *ret_used += err ? 0 : 3;
        return err;
    }
    size_t used, count = 0;
    ty_str row = first_row(text, &used);
    size_t most = csv_count_byte(row, separator) + 1;
    if (most > CSV_MAX_COLUMNS)
        return ty_fail(TY_INVALID_ARGUMENT, "the first line has %zu fields: %d can be read", most,
                       CSV_MAX_COLUMNS);
    ty_str *fields = ty_new_array(a, ty_str, most);
    for (bool last = false; !last; count++) {
        ty_str field = field_take(&row, separator, &last);
        if (memchr(field.ptr, '"', field.len) && !csv_unquote(a, field, &field))
            return ty_fail(TY_INVALID_ARGUMENT, "line 1, column %zu: its quotes do not match",
                           count + 1);
        fields[count] = field;
    }
    *ret_fields = fields;
    *ret_count = count;
    *ret_used = used;
    return TY_OK;
}

static ty_err missing_fail(struct ty_arena *a, ty_str name, const ty_str *header, size_t count)
{
    struct ty_buf names;
    ty_buf_init(&names, 4096);
    for (size_t i = 0; i < count && i < NAMES_SHOWN; i++)
        ty_buf_addf(&names, "%s" TY_STR_FMT, i ? ", " : "", TY_STR_ARG(header[i]));
    if (count > NAMES_SHOWN)
        ty_buf_addz(&names, ", ...");
    char *text = ty_cstr(a, ty_buf_str(&names));
    ty_buf_clear(&names);
    return ty_fail(TY_INVALID_ARGUMENT,
                   "column '" TY_STR_FMT "' is not in the header, which has: %s", TY_STR_ARG(name),
                   text);
}

ty_err csv_match_header(struct ty_arena *a, const ty_str *header, size_t header_count,
                        const struct csv_column *wanted, size_t wanted_count,
                        struct csv_column **ret_columns, size_t *ret_place)
{
    struct csv_column *columns = ty_new_array(a, struct csv_column, header_count);
    for (size_t i = 0; i < header_count; i++)
        columns[i] = (struct csv_column){.name = header[i], .type = CSV_SKIP};
    for (size_t w = 0; w < wanted_count; w++) {
        size_t i = 0;
        while (i < header_count && !ty_str_eq(ty_str_trim(header[i]), wanted[w].name))
            i++;
        if (i == header_count)
            return missing_fail(a, wanted[w].name, header, header_count);
        for (size_t k = i + 1; k < header_count; k++)
            if (ty_str_eq(ty_str_trim(header[k]), wanted[w].name))
                return ty_fail(TY_INVALID_ARGUMENT,
                               "the header names '" TY_STR_FMT "' twice, columns %zu and %zu",
                               TY_STR_ARG(wanted[w].name), i + 1, k + 1);
        if (columns[i].type != CSV_SKIP)
            return ty_fail(TY_INVALID_ARGUMENT, "column '" TY_STR_FMT "' is wanted twice",
                           TY_STR_ARG(wanted[w].name));
        columns[i] = wanted[w];
        ret_place[w] = i;
    }
    *ret_columns = columns;
    return TY_OK;
}

/* ---- cutting ---- */

void csv_splitter_init(struct csv_splitter *s, size_t size, size_t parts, size_t *starts)
{
    ty_assert(parts > 0);
    *s = (struct csv_splitter){.size = size, .parts = parts, .part = 1, .starts = starts};
    starts[0] = 0;
    for (size_t i = 1; i <= parts; i++)
        starts[i] = size;
}

static void splitter_pass(struct csv_splitter *s, ty_str *block, size_t n)
{
    ty_str passed = {block->ptr, n};
    if (n > 0 && memchr(passed.ptr, '"', n)) /* most files have none */
        s->inside ^= csv_count_byte(passed, '"') & 1;
    s->at += n;
    *block = ty_str_drop(*block, n);
}

/* Where a line end is looked for that starts the part: one just before its place starts it there.
 */
static size_t splitter_target(const struct csv_splitter *s)
{
    size_t place = s->size / s->parts * s->part, before = s->starts[s->part - 1];
    place = place < before ? before : place;
    return place > 0 ? place - 1 : 0;
}

void csv_splitter_feed(struct csv_splitter *s, ty_str block)
{
    while (block.len > 0 && s->part < s->parts) {
        size_t target = splitter_target(s);
        bool found = !s->searching && s->at > target; /* the part before is empty */
        if (!s->searching && s->at < target)
            splitter_pass(s, &block, target - s->at < block.len ? target - s->at : block.len);
        s->searching |= s->at == target;
        if (s->searching && block.len > 0) {
            const char *end = memchr(block.ptr, '\n', block.len);
            splitter_pass(s, &block, end ? (size_t)(end - block.ptr) + 1 : block.len);
            found = end && !s->inside;
        }
        if (!found)
            continue;
        s->searching = false;
        s->starts[s->part++] = s->at;
    }
}

void csv_split(ty_str text, size_t parts, size_t *ret_starts)
{
    struct csv_splitter s;
    csv_splitter_init(&s, text.len, parts, ret_starts);
    csv_splitter_feed(&s, text);
}

size_t csv_whole(ty_str text)
{
    if (text.len == 0)
        return 0;
    if (!memchr(text.ptr, '"', text.len)) {
        const char *last = memrchr(text.ptr, '\n', text.len);
        return last ? (size_t)(last - text.ptr) + 1 : 0;
    }
    bool inside = false;
    size_t whole = 0;
    for (size_t i = 0; i < text.len; i++) {
        inside ^= text.ptr[i] == '"';
        if (text.ptr[i] == '\n' && !inside)
            whole = i + 1;
    }
    return whole;
}
