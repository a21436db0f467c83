/* data.c -- CSV or TFRecord files into rows of features, once, on all threads.
 *
 * Files are mapped; CSV is cut into pieces at row ends, a TFRecord file is one piece. A piece is
 * parsed block by block: columns of a block, then its features, which are all that is kept (a few
 * numbers for a row of a hundred characters). Pieces are put together in the order of the files,
 * whatever thread read them. */
#include "train/train_int.h"

enum { PIECE_BYTES = 4 << 20, INFLATE_STEP = 1 << 20 };
#define MOST_INFLATED ((size_t)1 << 34)

struct piece {
    const struct nn_model *model;
    const char *path;
    ty_str text; /* the whole file */
    size_t from, to;
    const struct csv_column *columns; /* of the file */
    const size_t *places;             /* of the model's columns among them; NULL: the same */
    size_t column_count;
    bool skip_bad;
    struct nn_measure *measure; /* rows are only measured; NULL: they are kept */
    float *floats, *labels;
    int32_t *ids;
    size_t count, cap, bad_rows;
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
    size_t got, line = 1;
    ty_err err =
        csv_reader_init(r, r->arena, p->text, p->model->separator, p->columns, p->column_count);
    r->offset = offset;
    r->end = p->to;
    r->skip_bad_rows = true;
    if (err == TY_OK && row > 0)
        err = csv_read(r, row, out, &got);
    size_t at = err == TY_OK ? r->offset : offset;
    while (at < p->to && (p->text.ptr[at] == '\n' || p->text.ptr[at] == '\r'))
        at++; /* blank lines */
    for (size_t i = 0; i < at; i++)
        line += p->text.ptr[i] == '\n';
    return line;
}

static void piece_bad(struct piece *p, size_t line)
{
    if (p->bad_rows++ == 0)
        snprintf(p->message, sizeof p->message, "%s: line %zu: %s", p->path, line,
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
    r->offset = p->from;
    r->end = p->to;
    r->skip_bad_rows = p->skip_bad;
    while (err == TY_OK) {
        size_t rows, offset = r->offset;
        err = csv_read(r, NN_BLOCK_ROWS, out, &rows);
        if (err == TY_OK)
            err = block_take(p, s, again, offset, rows, unused);
        else if (err != TY_OUT_OF_RANGE)
            snprintf(p->message, sizeof p->message, "%s: %s", p->path, ty_err_message());
        ty_arena_clear(&strings);
    }
    if (r->bad_rows > 0 && p->bad_rows == 0)
        snprintf(p->message, sizeof p->message, "%s: %s", p->path, r->first_bad);
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
        snprintf(p->message, sizeof p->message, "%s: record %zu: %s", p->path, number,
                 ty_err_message());
}

/* A record that is torn or does not fit is a bad row; one whose length is torn, too, the last. */
static ty_err records_read(struct piece *p, ty_str text, struct ty_arena *a)
{
    const struct nn_model *m = p->model;
    struct tfrecord_reader file = {.file = text};
    struct record_reader r = {0};
    struct nn_scratch *s = nn_scratch_new(a, m);
    size_t bad;
    ty_str record;
    ty_err err = record_reader_init(&r, a, m);
    for (size_t number = 1; err == TY_OK; number++) {
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
        snprintf(p->message, sizeof p->message, "%s: %s", p->path, ty_err_message());
    else
        err = records_read(p, ty_buf_str(&b), a);
    inflater_free(z);
    ty_buf_clear(&b);
    return err;
}

static void piece_run(void *arg, int index)
{
    struct piece *p = &((struct piece *)arg)[index];
    struct ty_arena a = {0};
    if (!p->model->records)
        p->err = piece_read(p, &a);
    else if (inflater_wanted(p->text))
        p->err = records_inflate(p, &a);
    else
        p->err = records_read(p, p->text, &a);
    ty_arena_clear(&a);
}

/* ---- all of them ---- */

struct loader {
    const struct nn_model *model;
    struct ty_arena arena;
    ty_str *texts;
    size_t file_count;
    struct piece *pieces;
    size_t piece_count, piece_cap;
};

/* The columns of a file with a header: those of the model, where it has them. */
static ty_err header_read(struct loader *l, const char *path, ty_str text, struct piece *proto)
{
    const struct nn_model *m = l->model;
    ty_str *header;
    size_t count, wanted_count = 0, used, *places;
    struct csv_column *columns,
        *wanted = ty_new_array(&l->arena, struct csv_column, m->column_count);
    size_t *which = ty_new_array(&l->arena, size_t, m->column_count);
    ty_err err = csv_row(&l->arena, text, m->separator, &header, &count, &used);
    if (err != TY_OK)
        return ty_fail(TY_INVALID_ARGUMENT, "%s: there is no header", path);
    for (size_t i = 0; i < m->column_count; i++)
        if (m->columns[i].type != CSV_SKIP) {
            which[wanted_count] = i;
            wanted[wanted_count++] = m->columns[i];
        }
    size_t *found = ty_new_array(&l->arena, size_t, wanted_count);
    err = csv_match_header(&l->arena, header, count, wanted, wanted_count, &columns, found);
    if (err != TY_OK)
        return ty_wrap(err, "%s", path);
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

static ty_err file_cut(struct loader *l, const char *path, ty_str text)
{
    const struct nn_model *m = l->model;
    struct piece proto = {.model = m,
                          .path = path,
                          .text = text,
                          .columns = m->columns,
                          .column_count = m->column_count,
                          .skip_bad = m->training.skip_bad_rows};
    if (m->header) {
        ty_err err = header_read(l, path, text, &proto);
        if (err != TY_OK)
            return err;
    }
    ty_str body = ty_str_drop(text, proto.from);
    size_t parts = m->records ? 1 : body.len / PIECE_BYTES + 1;
    size_t *starts = ty_new_array(&l->arena, size_t, parts + 1);
    if (m->records)
        starts[1] = body.len;
    else
        csv_split(body, parts, starts);
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
    }
    return TY_OK;
}

static ty_err pieces_join(struct loader *l, struct train_data *d)
{
    const struct nn_model *m = l->model;
    size_t count = 0;
    for (size_t i = 0; i < l->piece_count; i++) {
        const struct piece *p = &l->pieces[i];
        if (p->err != TY_OK)
            return ty_fail(p->err, "%s", p->message);
        if (p->bad_rows > 0 && d->bad_rows == 0)
            snprintf(d->first_bad, sizeof d->first_bad, "%s", p->message);
        d->bad_rows += p->bad_rows;
        count += p->count;
    }
    if (count > UINT32_MAX)
        return ty_fail(TY_INVALID_ARGUMENT, "%zu rows; at most %u are possible", count, UINT32_MAX);
    struct nn_rows *r = &d->rows;
    *r = (struct nn_rows){.count = count, .floats_each = m->slots_float, .ids_each = m->slots_id};
    r->floats = malloc((count * m->slots_float + 1) * sizeof *r->floats);
    r->ids = malloc((count * m->slots_id + 1) * sizeof *r->ids);
    r->labels = malloc((count * m->head_count + 1) * sizeof *r->labels);
    ty_assert(r->floats && r->ids && r->labels);
    for (size_t i = 0, at = 0; i < l->piece_count; i++) {
        const struct piece *p = &l->pieces[i];
        if (p->count == 0)
            continue;
        memcpy(r->floats + at * m->slots_float, p->floats,
               p->count * m->slots_float * sizeof *r->floats);
        memcpy(r->ids + at * m->slots_id, p->ids, p->count * m->slots_id * sizeof *r->ids);
        memcpy(r->labels + at * m->head_count, p->labels,
               p->count * m->head_count * sizeof *r->labels);
        at += p->count;
    }
    return TY_OK;
}

/* Map the files and cut them into pieces. */
static ty_err loader_open(struct loader *l, const char *const *patterns, size_t count,
                          size_t *ret_files, size_t *ret_bytes)
{
    const char **files = NULL;
    size_t file_count = 0;
    ty_err err = train_files_find(&l->arena, patterns, count, &files, &file_count);
    if (err == TY_OK)
        l->texts = ty_new_array(&l->arena, ty_str, file_count);
    for (size_t i = 0; err == TY_OK && i < file_count; i++) {
        err = train_file_map(files[i], &l->texts[i]);
        l->file_count += err == TY_OK;
        *ret_bytes += l->texts[i].len;
        if (err == TY_OK && (l->texts[i].len > 0 || file_count == 1))
            err = file_cut(l, files[i], l->texts[i]);
    }
    *ret_files = file_count;
    return err;
}

static void loader_close(struct loader *l)
{
    for (size_t i = 0; i < l->piece_count; i++) {
        free(l->pieces[i].floats);
        free(l->pieces[i].ids);
        free(l->pieces[i].labels);
    }
    for (size_t i = 0; i < l->file_count; i++)
        train_file_unmap(l->texts[i]);
    ty_arena_clear(&l->arena);
}

ty_err train_data_load(const struct nn_model *m, const char *const *patterns, size_t count,
                       struct tensor_team *team, struct train_data *ret_data)
{
    struct loader l = {.model = m};
    struct train_data d = {0};
    ty_err err = loader_open(&l, patterns, count, &d.files, &d.bytes);
    if (err == TY_OK) {
        tensor_team_run(team, piece_run, l.pieces, (int)l.piece_count);
        err = pieces_join(&l, &d);
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
static ty_err measure_pass(struct nn_model *m, struct loader *l, struct tensor_team *team)
{
    struct nn_measure *all = ty_new_array(&l->arena, struct nn_measure, m->value_count);
    for (size_t i = 0; i < l->piece_count; i++)
        l->pieces[i].measure = ty_new_array(&l->arena, struct nn_measure, m->value_count);
    tensor_team_run(team, piece_run, l->pieces, (int)l->piece_count);
    for (size_t i = 0; i < l->piece_count; i++) {
        const struct piece *p = &l->pieces[i];
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
        struct loader l = {.model = m};
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
    d->rows = (struct nn_rows){0};
    d->pictures = NULL;
}
