/* data.c -- CSV or TFRecord files into rows of features, on all threads.
 *
 * Files are cut into pieces at the ends of rows or records; a file that gzip packed is one piece. A
 * piece is read into memory, all of it or an error (files.c), and parsed block by block: columns of
 * a block, then its features, which are all that is kept (a few numbers for a row of a hundred
 * characters). Pieces are put together in the order of the files, whatever thread read them.
 *
 * If that takes more memory than there is room for, only the number of rows of each piece is kept,
 * and the pieces are read again when their rows are wanted (feed_stream.c). */
#include "train/train_int.h"

/* READ_BYTES: what is only looked through stays in the cache */
enum {
    PIECE_BYTES = 1 << 20,
    READ_BYTES = 1 << 17,
    INFLATE_STEP = 1 << 20,
    HEADER_BYTES = 1 << 24
};
#define MOST_INFLATED ((size_t)1 << 34)

/* What was found when the files were cut, which every later reading is held against. */
struct file {
    const char *path;
    struct train_mark mark;
    bool packed; /* by gzip */
};

struct piece {
    const struct nn_model *model;
    const struct file *file;
    size_t from, to;
    ty_str text;                      /* of these bytes, while it is parsed */
    size_t line;                      /* the first of it, for messages; 1 until piece_explain */
    const struct csv_column *columns; /* of the file */
    const size_t *places;             /* of the model's columns among them; NULL: the same */
    size_t column_count;
    bool skip_bad;
    struct nn_measure *measure; /* rows are only measured; NULL: they are kept */
    float *floats, *labels;
    int32_t *ids;
    size_t count, cap, bad_rows;
    size_t before;        /* records of the file before this piece */
    size_t first;         /* row: those of the pieces before */
    uint64_t labels_id;   /* a fingerprint of the labels */
    _Atomic size_t *room; /* rows are dropped if there is not enough; NULL: they are kept */
    bool dropped;
    ty_err err;
    char message[512];
};

/* ---- one piece ---- */

static void piece_grow(struct piece *p, size_t more)
{
    const struct nn_model *m = p->model;
    if (p->count + more <= p->cap)
        return;
    p->cap = 2 * p->cap + more;
    p->floats = realloc(p->floats, (p->cap * m->slots_float + 1) * sizeof *p->floats);
    p->ids = realloc(p->ids, (p->cap * m->slots_id + 1) * sizeof *p->ids);
    p->labels = realloc(p->labels, p->cap * m->head_count * sizeof *p->labels);
    ty_assert(p->floats && p->ids && p->labels);
}

/* Features of `count` rows in the scratch, added to the piece, or to what is measured. */
static ty_err rows_compute(struct piece *p, struct nn_scratch *s, size_t count, size_t *ret_bad)
{
    const struct nn_model *m = p->model;
    if (p->measure)
        return nn_measure_add(m, s, count, p->measure, ret_bad);
    piece_grow(p, count);
    return nn_features_compute(m, s, count, p->floats + p->count * m->slots_float,
                               p->ids + p->count * m->slots_id,
                               p->labels + p->count * m->head_count, ret_bad);
}

/* The line of row `row` of the block that begins at `offset`: read again up to it. */
static size_t line_find(const struct piece *p, struct csv_reader *r, size_t offset, size_t row,
                        const union csv_values *out)
{
    size_t got, line = p->line;
    ty_err err =
        csv_reader_init(r, r->arena, p->text, p->model->separator, p->columns, p->column_count);
    r->offset = offset;
    r->skip_bad_rows = true;
    if (err == TY_OK && row > 0)
        err = csv_read(r, row, out, &got);
    size_t at = err == TY_OK ? r->offset : offset;
    while (at < p->text.len && (p->text.ptr[at] == '\n' || p->text.ptr[at] == '\r'))
        at++; /* blank lines */
    for (size_t i = 0; i < at; i++)
        line += p->text.ptr[i] == '\n';
    return line;
}

static void piece_bad(struct piece *p, size_t line)
{
    if (p->bad_rows++ == 0)
        snprintf(p->message, sizeof p->message, "%s: line %zu: %s", p->file->path, line,
                 ty_err_message());
}

/* Features of the rows in the scratch; rows that cannot be are counted, or end it. */
static ty_err block_take(struct piece *p, struct nn_scratch *s, struct csv_reader *again,
                         size_t offset, size_t rows, const union csv_values *out)
{
    const struct nn_model *m = p->model;
    size_t done = 0, bad = 0;
    while (done < rows) {
        ty_err err = rows_compute(p, s, rows - done, &bad);
        if (err == TY_OK) {
            p->count += rows - done;
            break;
        }
        char *why = ty_err_take();
        /* rows that the reader itself passed over do not count */
        size_t line = p->bad_rows == 0 ? line_find(p, again, offset, done + bad, out) : 0;
        (void)!ty_fail(err, "%s", why);
        free(why);
        piece_bad(p, line);
        if (!p->skip_bad)
            return err;
        p->count += bad;
        nn_scratch_drop(m, s, bad + 1, rows - done);
        done += bad + 1;
    }
    return TY_OK;
}

static ty_err piece_read(struct piece *p, struct ty_arena *a)
{
    const struct nn_model *m = p->model;
    struct nn_scratch *s = nn_scratch_new(a, m), *spare = nn_scratch_new(a, m);
    struct csv_reader *r = ty_new(a, struct csv_reader), *again = ty_new(a, struct csv_reader);
    struct ty_arena strings = {0};
    union csv_values *out = ty_new_array(a, union csv_values, p->column_count + 1);
    union csv_values *unused = ty_new_array(a, union csv_values, p->column_count + 1);
    for (size_t i = 0; i < m->column_count; i++) {
        size_t place = p->places ? p->places[i] : i;
        out[place] = nn_scratch_columns(s)[i];
        unused[place] = nn_scratch_columns(spare)[i];
    }
    ty_err err = csv_reader_init(r, &strings, p->text, m->separator, p->columns, p->column_count);
    again->arena = &strings;
    r->line = p->line;
    r->skip_bad_rows = p->skip_bad;
    while (err == TY_OK) {
        size_t rows, offset = r->offset;
        err = csv_read(r, NN_BLOCK_ROWS, out, &rows);
        if (err == TY_OK)
            err = block_take(p, s, again, offset, rows, unused);
        else if (err != TY_OUT_OF_RANGE)
            snprintf(p->message, sizeof p->message, "%s: %s", p->file->path, ty_err_message());
        ty_arena_clear(&strings);
    }
    if (r->bad_rows > 0 && p->bad_rows == 0)
        snprintf(p->message, sizeof p->message, "%s: %s", p->file->path, r->first_bad);
    p->bad_rows += r->bad_rows;
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

/* ---- TFRecord ---- */

/* A column as a feature of one value, and where it goes. */
struct record_reader {
    struct example_feature *features;
    struct example_slot *slots;
    size_t *columns, count;
    struct example_schema schema;
};

static ty_err record_reader_init(struct record_reader *r, struct ty_arena *a,
                                 const struct nn_model *m)
{
    static const enum example_type types[] = {EXAMPLE_FLOAT, EXAMPLE_INT64, EXAMPLE_BYTES};
    r->features = ty_new_array(a, struct example_feature, m->column_count);
    r->slots = ty_new_array(a, struct example_slot, m->column_count);
    r->columns = ty_new_array(a, size_t, m->column_count);
    for (size_t i = 0; i < m->column_count; i++) {
        const struct csv_column *c = &m->columns[i];
        if (c->type == CSV_SKIP)
            continue;
        r->columns[r->count] = i;
        r->features[r->count++] =
            (struct example_feature){c->name, types[c->type], c->required ? 1 : 0, 1, !c->required};
    }
    return example_schema_init(&r->schema, a, r->features, r->count);
}

static ty_err record_take(struct record_reader *r, const struct nn_model *m, ty_str record,
                          const union csv_values *out, size_t row)
{
    for (size_t i = 0; i < r->count; i++) {
        const union csv_values *to = &out[r->columns[i]];
        if (r->features[i].type == EXAMPLE_FLOAT)
            r->slots[i].floats = to->floats + row;
        else if (r->features[i].type == EXAMPLE_INT64)
            r->slots[i].ints = to->ints + row;
        else
            r->slots[i].bytes = to->strings + row;
    }
    ty_err err = example_decode(&r->schema, record, r->slots);
    for (size_t i = 0; i < r->count && err == TY_OK; i++) {
        const struct csv_column *c = &m->columns[r->columns[i]];
        if (r->slots[i].count == 1)
            continue;
        if (c->type == CSV_FLOAT)
            *r->slots[i].floats = c->default_float;
        else if (c->type == CSV_INT64)
            *r->slots[i].ints = c->default_int;
        else
            *r->slots[i].bytes = c->default_str;
    }
    return err;
}

static void record_bad(struct piece *p, size_t number)
{
    if (p->bad_rows++ == 0)
        snprintf(p->message, sizeof p->message, "%s: record %zu: %s", p->file->path, number,
                 ty_err_message());
}

/* A record that is torn or does not fit is a bad row; one whose length is torn, too, the last. */
static ty_err records_read(struct piece *p, ty_str text, struct ty_arena *a)
{
    const struct nn_model *m = p->model;
    struct tfrecord_reader file = {.file = text, .before = p->from};
    struct record_reader r = {0};
    struct nn_scratch *s = nn_scratch_new(a, m);
    size_t bad;
    ty_str record;
    ty_err err = record_reader_init(&r, a, m);
    for (size_t number = p->before + 1; err == TY_OK; number++) {
        bool more = true;
        err = tfrecord_read(&file, &record);
        if (err == TY_OUT_OF_RANGE)
            return TY_OK;
        if (err != TY_OK)
            more = tfrecord_skip(&file);
        else
            err = record_take(&r, m, record, nn_scratch_columns(s), 0);
        if (err == TY_OK)
            err = rows_compute(p, s, 1, &bad);
        p->count += err == TY_OK;
        if (err != TY_OK)
            record_bad(p, number);
        if (p->skip_bad)
            err = TY_OK;
        if (!more && p->skip_bad)
            break;
    }
    return err;
}

static ty_err records_inflate(struct piece *p, struct ty_arena *a)
{
    struct ty_buf b;
    ty_str in = p->text;
    struct inflater *z = inflater_new();
    ty_err err = TY_OK;
    ty_buf_init(&b, MOST_INFLATED);
    for (size_t before = SIZE_MAX; err == TY_OK && (in.len > 0 || before != b.len);) {
        before = b.len;
        err = inflater_feed(z, &in, &b, INFLATE_STEP);
    }
    if (err == TY_OK)
        err = inflater_finish(z);
    if (err == TY_OK)
        err = ty_buf_check(&b, "an inflated file");
    if (err != TY_OK)
        snprintf(p->message, sizeof p->message, "%s: %s", p->file->path, ty_err_message());
    else
        err = records_read(p, ty_buf_str(&b), a);
    inflater_free(z);
    ty_buf_clear(&b);
    return err;
}

static void piece_drop(struct piece *p)
{
    free(p->floats);
    free(p->ids);
    free(p->labels);
    p->floats = p->labels = NULL;
    p->ids = NULL;
    p->cap = 0;
}

static ty_err piece_load(struct piece *p)
{
    const struct file *f = p->file;
    char *text = train_bytes_new(f->path, p->to - p->from);
    ty_err err = text ? train_file_part(f->path, &f->mark, p->from, p->to - p->from, text)
                      : TY_RESOURCE_EXHAUSTED;
    if (err != TY_OK)
        snprintf(p->message, sizeof p->message, "%s", ty_err_message());
    p->text = (ty_str){text, p->to - p->from};
    return err;
}

static void piece_run(void *arg, int index)
{
    struct piece *p = &((struct piece *)arg)[index];
    struct ty_arena a = {0};
    p->count = p->bad_rows = 0;
    p->err = piece_load(p);
    if (p->err == TY_OK && !p->model->records)
        p->err = piece_read(p, &a);
    else if (p->err == TY_OK && p->file->packed)
        p->err = records_inflate(p, &a);
    else if (p->err == TY_OK)
        p->err = records_read(p, p->text, &a);
    ty_arena_clear(&a);
    train_file_free(p->text);
    p->text = (ty_str){0};
    p->labels_id = fingerprint64((ty_str){
        (const char *)p->labels, p->labels ? p->count * p->model->head_count * sizeof(float) : 0});
    p->dropped = p->room && !train_room_take(p->room, p->count * train_row_bytes(p->model));
    if (p->dropped)
        piece_drop(p);
}

/* ---- all of them ---- */

struct train_source {
    const struct nn_model *model;
    struct ty_arena arena;
    struct file *files;
    struct piece *pieces;
    size_t piece_count, piece_cap;
};

/* A file that is looked through from begin to end, in a buffer. */
struct reading {
    const struct file *file;
    int fd;
    char *bytes; /* of the file, from `at` on */
    size_t at, count, cap;
};

/* At least `least` bytes from `from` on, or all that are left, as a view until the next call. */
static ty_err reading_take(struct reading *r, size_t from, size_t least, ty_str *ret_view)
{
    size_t left = r->file->mark.size - from;
    least = least < left ? least : left;
    if (from < r->at || from + least > r->at + r->count) {
        size_t count = least > READ_BYTES ? least : READ_BYTES;
        count = count < left ? count : left;
        if (count > r->cap) {
            char *bytes = train_bytes_new(r->file->path, count);
            if (bytes == NULL)
                return TY_RESOURCE_EXHAUSTED;
            free(r->bytes);
            r->bytes = bytes;
            r->cap = count;
        }
        r->count = 0;
        ty_err err = train_file_bytes(r->fd, r->file->path, from, count, r->bytes);
        if (err != TY_OK)
            return err;
        r->at = from;
        r->count = count;
    }
    *ret_view = (ty_str){r->bytes + (from - r->at), r->count - (from - r->at)};
    return TY_OK;
}

/* The first row, in the source's own memory: names of columns are views of it. */
static ty_err header_find(struct train_source *l, struct reading *r, ty_str **ret_header,
                          size_t *ret_count, size_t *ret_used)
{
    const char *path = r->file->path;
    char separator = l->model->separator;
    size_t used = 0;
    ty_str text;
    for (size_t least = 1; used == 0; least = text.len + 1) {
        struct ty_arena a = {0};
        ty_err err = reading_take(r, 0, least, &text);
        if (err != TY_OK)
            return err;
        if (text.len > HEADER_BYTES)
            return ty_fail(TY_INVALID_ARGUMENT, "%s: the header has more than %d bytes", path,
                           HEADER_BYTES);
        err = csv_row(&a, text, separator, ret_header, ret_count, &used);
        ty_arena_clear(&a);
        if (err != TY_OK)
            return ty_fail(TY_INVALID_ARGUMENT, "%s: there is no header", path);
        if (used == text.len && text.len < r->file->mark.size)
            used = 0; /* cut off, perhaps */
    }
    return csv_row(&l->arena, ty_str_dup(&l->arena, (ty_str){text.ptr, used}), separator,
                   ret_header, ret_count, ret_used);
}

/* The columns of a file with a header: those of the model, where it has them. */
static ty_err header_read(struct train_source *l, struct reading *r, struct piece *proto)
{
    const struct nn_model *m = l->model;
    ty_str *header;
    size_t count, wanted_count = 0, used, *places;
    struct csv_column *columns,
        *wanted = ty_new_array(&l->arena, struct csv_column, m->column_count);
    size_t *which = ty_new_array(&l->arena, size_t, m->column_count);
    ty_err err = header_find(l, r, &header, &count, &used);
    if (err != TY_OK)
        return err;
    for (size_t i = 0; i < m->column_count; i++)
        if (m->columns[i].type != CSV_SKIP) {
            which[wanted_count] = i;
            wanted[wanted_count++] = m->columns[i];
        }
    size_t *found = ty_new_array(&l->arena, size_t, wanted_count);
    err = csv_match_header(&l->arena, header, count, wanted, wanted_count, &columns, found);
    if (err != TY_OK)
        return ty_wrap(err, "%s", r->file->path);
    /* skipped columns go to a place after all others, which nobody reads */
    places = ty_new_array(&l->arena, size_t, m->column_count);
    for (size_t i = 0; i < m->column_count; i++)
        places[i] = count;
    for (size_t i = 0; i < wanted_count; i++)
        places[which[i]] = found[i];
    proto->columns = columns;
    proto->places = places;
    proto->column_count = count;
    proto->from = used;
    return TY_OK;
}

/* Where pieces of records begin: after so many bytes, at a record whose length is sound. What
 * follows a torn one is left to the reader. `parts`: how many there may be, then how many are. */
static ty_err records_split(struct reading *r, size_t *parts, size_t *starts, size_t *befores)
{
    enum { LENGTH_BYTES = 8, RECORD_BYTES = 12, FRAME_BYTES = 16 };
    size_t count = 1, at = 0, records = 0, size = r->file->mark.size;
    size_t most = r->file->packed ? 1 : *parts;
    while (count < most && size - at >= FRAME_BYTES) {
        ty_str text;
        ty_err err = reading_take(r, at, RECORD_BYTES, &text);
        if (err != TY_OK)
            return err;
        uint64_t n = wire_load_le64(text.ptr);
        uint32_t crc = wire_crc32c_mask(wire_crc32c(0, text.ptr, LENGTH_BYTES));
        if (n > size - at - FRAME_BYTES || crc != wire_load_le32(text.ptr + LENGTH_BYTES))
            break;
        at += FRAME_BYTES + n;
        records++;
        if (at - starts[count - 1] < PIECE_BYTES || at == size)
            continue;
        starts[count] = at;
        befores[count++] = records;
    }
    starts[count] = size;
    *parts = count;
    return TY_OK;
}

static ty_err rows_split(struct reading *r, size_t from, size_t parts, size_t *starts)
{
    struct csv_splitter s;
    ty_err err = TY_OK;
    csv_splitter_init(&s, r->file->mark.size - from, parts, starts);
    while (err == TY_OK && s.part < parts && from < r->file->mark.size) {
        ty_str text;
        err = reading_take(r, from, 1, &text);
        if (err == TY_OK)
            csv_splitter_feed(&s, text);
        from += err == TY_OK ? text.len : 0;
    }
    return err;
}

ty_err train_table_check(const char *path, ty_str text)
{
    if (!inflater_wanted(text))
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "'%s' is packed by gzip: unpack it first (gunzip); only TFRecord files are read "
                   "packed",
                   path);
}

ty_str train_table_text(ty_str text)
{
    ty_str mark = TY_STR("\xef\xbb\xbf");
    return ty_str_drop(text, ty_str_starts(text, mark) ? mark.len : 0);
}

static ty_err file_cut(struct train_source *l, struct reading *r)
{
    const struct nn_model *m = l->model;
    struct piece proto = {.model = m,
                          .file = r->file,
                          .line = 1,
                          .columns = m->columns,
                          .column_count = m->column_count,
                          .skip_bad = m->training.skip_bad_rows};
    ty_str text;
    ty_err err = reading_take(r, 0, 1, &text);
    if (err == TY_OK && !m->records)
        err = train_table_check(r->file->path, text);
    if (err == TY_OK && m->header)
        err = header_read(l, r, &proto);
    else if (err == TY_OK && !m->records)
        proto.from = text.len - train_table_text(text).len;
    size_t parts = (r->file->mark.size - proto.from) / PIECE_BYTES + 1;
    size_t *starts = ty_new_array(&l->arena, size_t, parts + 1);
    size_t *befores = ty_new_array(&l->arena, size_t, parts + 1);
    if (err == TY_OK && m->records)
        err = records_split(r, &parts, starts, befores);
    else if (err == TY_OK)
        err = rows_split(r, proto.from, parts, starts);
    if (err != TY_OK)
        return err;
    if (l->piece_count + parts > l->piece_cap) {
        size_t cap = 2 * (l->piece_count + parts);
        struct piece *more = ty_new_array(&l->arena, struct piece, cap);
        if (l->piece_count > 0)
            memcpy(more, l->pieces, l->piece_count * sizeof *more);
        l->pieces = more;
        l->piece_cap = cap;
    }
    for (size_t i = 0; i < parts; i++) {
        struct piece *p = &l->pieces[l->piece_count++];
        *p = proto;
        p->from = proto.from + starts[i];
        p->to = proto.from + starts[i + 1];
        p->before = befores[i];
    }
    return TY_OK;
}

/* Line ends of a file before that place. */
static ty_err lines_count(const struct file *f, size_t before, size_t *ret_lines)
{
    struct reading r = {.file = f};
    struct train_mark mark = {0};
    size_t lines = 0;
    ty_err err = train_file_open(f->path, &r.fd, &mark);
    if (err != TY_OK)
        return err;
    for (size_t at = 0; at < before && err == TY_OK;) {
        ty_str text;
        err = reading_take(&r, at, 1, &text);
        for (size_t i = 0; err == TY_OK && i < text.len && at < before; i++, at++)
            lines += text.ptr[i] == '\n';
    }
    close(r.fd);
    free(r.bytes);
    *ret_lines = lines;
    return err;
}

/* Which line was bad is only asked for the first bad piece: its lines before are counted now, and
 * it is parsed again. If that finds another file the message stays as it was. */
static void piece_explain(struct piece *p)
{
    struct piece again = *p;
    size_t lines = 0;
    if (p->model->records || p->from == 0 || p->err == TY_ABORTED)
        return;
    if (lines_count(p->file, p->from, &lines) != TY_OK)
        return;
    again.line = 1 + lines;
    again.floats = again.labels = NULL;
    again.ids = NULL;
    again.cap = 0;
    again.room = NULL;
    again.message[0] = '\0';
    piece_run(&again, 0);
    if (again.err == p->err && again.bad_rows == p->bad_rows && again.message[0])
        memcpy(p->message, again.message, sizeof p->message);
    piece_drop(&again);
}

/* What the pieces have in all; false, in *ret_kept, if the rows of one were dropped. */
static ty_err pieces_sum(struct train_source *l, struct train_data *d, bool *ret_kept)
{
    size_t count = 0;
    *ret_kept = true;
    for (size_t i = 0; i < l->piece_count; i++) {
        struct piece *p = &l->pieces[i];
        if (p->err != TY_OK || (p->bad_rows > 0 && d->bad_rows == 0))
            piece_explain(p);
        if (p->err != TY_OK)
            return ty_fail(p->err, "%s", p->message);
        if (p->bad_rows > 0 && d->bad_rows == 0)
            snprintf(d->first_bad, sizeof d->first_bad, "%s", p->message);
        d->bad_rows += p->bad_rows;
        p->first = count;
        count += p->count;
        d->id = fingerprint_cat64(d->id, p->labels_id);
        *ret_kept &= !p->dropped;
    }
    if (count > UINT32_MAX)
        return ty_fail(TY_INVALID_ARGUMENT, "%zu rows; at most %u are possible", count, UINT32_MAX);
    d->rows.count = count;
    return TY_OK;
}

/* Rows [from, from + count) of a piece to place `at`. */
static void rows_copy(const struct piece *p, size_t from, size_t count, struct nn_rows *to,
                      size_t at)
{
    const struct nn_model *m = p->model;
    size_t floats = m->slots_float, ids = m->slots_id, heads = m->head_count;
    if (count == 0)
        return;
    memcpy(to->floats + at * floats, p->floats + from * floats,
           count * floats * sizeof *to->floats);
    memcpy(to->ids + at * ids, p->ids + from * ids, count * ids * sizeof *to->ids);
    memcpy(to->labels + at * heads, p->labels + from * heads, count * heads * sizeof *to->labels);
}

static void pieces_join(struct train_source *l, struct train_data *d)
{
    const struct nn_model *m = l->model;
    struct nn_rows *r = &d->rows;
    size_t count = r->count;
    *r = (struct nn_rows){.count = count, .floats_each = m->slots_float, .ids_each = m->slots_id};
    r->floats = malloc((count * m->slots_float + 1) * sizeof *r->floats);
    r->ids = malloc((count * m->slots_id + 1) * sizeof *r->ids);
    r->labels = malloc((count * m->head_count + 1) * sizeof *r->labels);
    ty_assert(r->floats && r->ids && r->labels);
    for (size_t i = 0; i < l->piece_count; i++) { /* pages are used as others are given back */
        rows_copy(&l->pieces[i], 0, l->pieces[i].count, r, l->pieces[i].first);
        piece_drop(&l->pieces[i]);
    }
}

/* ---- rows that are not kept ---- */

static size_t piece_of(const struct train_source *l, size_t row)
{
    size_t low = 0, high = l->piece_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (l->pieces[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

ty_err train_source_read(struct train_source *s, size_t row, size_t count, struct nn_rows *to,
                         size_t at)
{
    ty_err err = TY_OK;
    for (size_t i = piece_of(s, row); count > 0 && err == TY_OK; i++) {
        struct piece p = s->pieces[i];
        size_t known = p.count, from = row - p.first;
        size_t n = known - from < count ? known - from : count;
        if (n == 0)
            continue;
        p.room = NULL;
        piece_run(&p, 0);
        if (p.err != TY_OK)
            err = ty_fail(p.err, "%s", p.message);
        else if (p.count != known || p.labels_id != s->pieces[i].labels_id)
            err = ty_fail(TY_ABORTED, "'%s' was changed while it was in use", p.file->path);
        else
            rows_copy(&p, from, n, to, at);
        piece_drop(&p);
        row += n;
        at += n;
        count -= n;
    }
    return err;
}

size_t train_source_piece(const struct train_source *s)
{
    size_t rows = 0;
    ty_assert(s->piece_count > 0);
    for (size_t i = 0; i < s->piece_count; i++)
        rows += s->pieces[i].count;
    return rows / s->piece_count;
}

static ty_err file_open(struct train_source *l, struct file *f, bool only)
{
    struct reading r = {.file = f};
    ty_str text;
    ty_err err = train_file_open(f->path, &r.fd, &f->mark);
    if (err != TY_OK)
        return err;
    err = reading_take(&r, 0, 1, &text);
    if (err == TY_OK)
        f->packed = l->model->records && inflater_wanted(text);
    if (err == TY_OK && (f->mark.size > 0 || only))
        err = file_cut(l, &r);
    if (err == TY_OK)
        err = train_file_same(r.fd, f->path, &f->mark);
    close(r.fd);
    free(r.bytes);
    return err;
}

/* Look through the files and cut them into pieces. */
static ty_err loader_open(struct train_source *l, const char *const *patterns, size_t count,
                          size_t *ret_files, size_t *ret_bytes)
{
    const char **files = NULL;
    size_t file_count = 0;
    ty_err err = train_files_find(&l->arena, patterns, count, &files, &file_count);
    if (err == TY_OK)
        l->files = ty_new_array(&l->arena, struct file, file_count);
    for (size_t i = 0; err == TY_OK && i < file_count; i++) {
        l->files[i].path = files[i];
        err = file_open(l, &l->files[i], file_count == 1);
        *ret_bytes += l->files[i].mark.size;
    }
    *ret_files = file_count;
    return err;
}

static void loader_close(struct train_source *l)
{
    for (size_t i = 0; i < l->piece_count; i++)
        piece_drop(&l->pieces[i]);
    ty_arena_clear(&l->arena);
}

/* Rows stay in memory, or it stays known where they are. Two windows are in memory anyway. */
static void rows_or_source(struct train_source *l, struct train_data *d, bool kept)
{
    if (kept) {
        pieces_join(l, d);
        return;
    }
    d->source = calloc(1, sizeof *d->source);
    ty_assert(d->source);
    for (size_t i = 0; i < l->piece_count; i++)
        piece_drop(&l->pieces[i]);
    *d->source = *l;
    *l = (struct train_source){0};
}

ty_err train_data_load(const struct nn_model *m, const char *const *patterns, size_t count,
                       struct tensor_team *team, _Atomic size_t *room, struct train_data *ret_data)
{
    struct train_source l = {.model = m};
    struct train_data d = {0};
    size_t least = 2 * train_window_rows(m) * train_row_bytes(m), given = room ? *room : SIZE_MAX;
    _Atomic size_t left = given > least ? given : least;
    bool kept = true;
    ty_err err = loader_open(&l, patterns, count, &d.files, &d.bytes);
    if (err == TY_OK) {
        for (size_t i = 0; i < l.piece_count; i++)
            l.pieces[i].room = &left;
        tensor_team_run(team, piece_run, l.pieces, (int)l.piece_count);
        err = pieces_sum(&l, &d, &kept);
    }
    if (err == TY_OK) {
        rows_or_source(&l, &d, kept);
        size_t used = kept ? d.rows.count * train_row_bytes(m) : least;
        if (room)
            *room = given > used ? given - used : 0;
    }
    if (err == TY_OK && d.rows.count == 0)
        err = ty_fail(TY_INVALID_ARGUMENT, "'%s' has no rows%s%s", patterns[0],
                      d.bad_rows ? "; the first bad one: " : "", d.first_bad);
    loader_close(&l);
    if (err == TY_OK)
        *ret_data = d;
    else
        train_data_clear(&d);
    return err;
}

/* ---- measuring ---- */

/* Sums are by piece and pieces are cut by size, so threads do not change them. */
static ty_err measure_pass(struct nn_model *m, struct train_source *l, struct tensor_team *team)
{
    struct nn_measure *all = ty_new_array(&l->arena, struct nn_measure, m->value_count);
    for (size_t i = 0; i < l->piece_count; i++)
        l->pieces[i].measure = ty_new_array(&l->arena, struct nn_measure, m->value_count);
    tensor_team_run(team, piece_run, l->pieces, (int)l->piece_count);
    for (size_t i = 0; i < l->piece_count; i++) {
        struct piece *p = &l->pieces[i];
        if (p->err != TY_OK)
            piece_explain(p);
        if (p->err != TY_OK)
            return ty_fail(p->err, "%s", p->message);
        for (size_t k = 0; k < m->value_count; k++) {
            all[k].count += p->measure[k].count;
            all[k].sum += p->measure[k].sum;
            all[k].squares += p->measure[k].squares;
        }
    }
    nn_measure_finish(m, all);
    return TY_OK;
}

ty_err train_data_measure(struct nn_model *m, const char *const *patterns, size_t count,
                          struct tensor_team *team)
{
    ty_err err = TY_OK;
    while (err == TY_OK && nn_measure_needed(m)) {
        struct train_source l = {.model = m};
        size_t files, bytes = 0;
        err = loader_open(&l, patterns, count, &files, &bytes);
        if (err == TY_OK)
            err = measure_pass(m, &l, team);
        loader_close(&l);
    }
    return err;
}

void train_data_clear(struct train_data *d)
{
    free(d->rows.floats);
    free(d->rows.ids);
    free(d->rows.labels);
    train_pictures_free(d->pictures);
    if (d->source)
        loader_close(d->source);
    free(d->source);
    *d = (struct train_data){0};
}
