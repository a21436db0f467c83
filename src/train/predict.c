/* predict.c -- rows or images in, one JSON object a line out.
 *
 * CSV: a header if the first row names a column of the model, else all columns of the model in
 * order, with or without the label. JSON lines: objects by column; what is missing takes the
 * column's default, and a key that is no column is an error. Numbers have the digits that a float32
 * needs. */
#include "train/train_int.h"

#include <math.h>

enum { OUT_BYTES = 1 << 24, INPUT_BYTES = 1 << 30 };

struct predictor {
    struct model_dir dir;
    struct ty_arena arena; /* of the run */
    struct nn_scratch *scratch;
    struct nn_rows rows; /* of a block */
    size_t block;        /* rows at once */
    struct ty_buf out;
    int fd;
};

static ty_err stdin_read(struct ty_buf *b)
{
    char block[1 << 16];
    ssize_t n;
    while ((n = read(STDIN_FILENO, block, sizeof block)) > 0)
        ty_buf_add(b, block, (size_t)n);
    if (n < 0)
        return ty_fail_errno(errno, "cannot read the input");
    return ty_buf_check(b, "the input");
}

/* ---- output ---- */

/* Outputs of several heads have the head's name before their own, as in the signature. */
static void key_print(struct ty_buf *b, const struct nn_head *h, const char *key)
{
    ty_buf_addf(b, "\"%s%s%s\":[", h->name.len ? h->name.ptr : "", h->name.len ? "_" : "", key);
}

static void floats_print(struct ty_buf *b, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ty_buf_addf(b, isfinite(x[i]) ? "%s%.9g" : "%snull", i ? "," : "", (double)x[i]);
    ty_buf_addz(b, "]");
}

static void regression_print(struct ty_buf *b, const struct nn_head *h, const float *logits)
{
    wire_json_string(b, h->output);
    ty_buf_addz(b, ":[");
    floats_print(b, logits, 1);
}

static void classes_print(struct ty_buf *b, const struct nn_head *h, const float *logits)
{
    size_t count = h->type == NN_BINARY ? 2 : h->class_count, best = 0;
    float p[2] = {0, logits[0]}, *all = p;
    key_print(b, h, "logits");
    floats_print(b, logits, h->class_count);
    if (h->type == NN_BINARY) {
        float logistic = 1 / (1 + expf(-logits[0]));
        ty_buf_addz(b, ",");
        key_print(b, h, "logistic");
        floats_print(b, &logistic, 1);
    } else {
        all = malloc(count * sizeof *all);
        ty_assert(all);
        memcpy(all, logits, count * sizeof *all);
    }
    for (size_t i = 1; i < count; i++)
        best = all[i] > all[best] ? i : best;
    tensor_softmax(all, 1, count);
    ty_buf_addz(b, ",");
    key_print(b, h, "probabilities");
    floats_print(b, all, count);
    ty_buf_addz(b, ",");
    key_print(b, h, "class_ids");
    ty_buf_addf(b, "%zu],", best);
    key_print(b, h, "classes");
    if (h->classes)
        wire_json_string(b, h->classes[best]);
    else
        ty_buf_addf(b, "\"%zu\"", best);
    ty_buf_addz(b, "]");
    if (all != p)
        free(all);
}

static ty_err flush(struct predictor *p)
{
    ty_err err = ty_buf_check(&p->out, "the output");
    if (err == TY_OK)
        err = ty_write_all(p->fd, p->out.ptr, p->out.len);
    p->out.len = 0;
    return err;
}

static ty_err rows_predict(struct predictor *p, size_t count, const char *const *names)
{
    const struct nn_model *m = p->dir.model;
    p->rows.count = count;
    struct nn_batch b = {.rows = &p->rows, .count = count};
    const float *logits = nn_net_forward(p->dir.net, &b).logits;
    for (size_t i = 0; i < count; i++) {
        ty_buf_addz(&p->out, "{");
        if (names) {
            ty_buf_addz(&p->out, "\"file\":");
            wire_json_string(&p->out, ty_str_of(names[i]));
            ty_buf_addz(&p->out, ",");
        }
        for (size_t k = 0; k < m->head_count; k++) {
            const struct nn_head *h = &m->heads[k];
            const float *own = logits + i * m->logits_each + h->from;
            ty_buf_addz(&p->out, k ? "," : "");
            if (h->type == NN_REGRESSION)
                regression_print(&p->out, h, own);
            else
                classes_print(&p->out, h, own);
        }
        ty_buf_addz(&p->out, "}\n");
    }
    return flush(p);
}

/* Predict for the rows in the scratch. */
static ty_err block_predict(struct predictor *p, size_t count, size_t *ret_bad)
{
    ty_err err = nn_features_compute(p->dir.model, p->scratch, count, p->rows.floats, p->rows.ids,
                                     NULL, ret_bad);
    return err == TY_OK ? rows_predict(p, count, NULL) : err;
}

/* ---- CSV ---- */

struct layout {
    struct csv_column *columns;
    union csv_values *out;
    size_t count, used; /* used: bytes of the header */
};

static bool is_header(const struct nn_model *m, const ty_str *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < m->column_count; k++)
            if (ty_str_eq(fields[i], m->columns[k].name))
                return true;
    return false;
}

/* Columns by name; those that the model can do without (label, skipped, with a default) may lack.
 */
static ty_err layout_by_name(struct predictor *p, const ty_str *fields, size_t count,
                             struct layout *l)
{
    const struct nn_model *m = p->dir.model;
    union csv_values *values = nn_scratch_columns(p->scratch);
    l->count = count;
    l->columns = ty_new_array(&p->arena, struct csv_column, count);
    l->out = ty_new_array(&p->arena, union csv_values, count);
    for (size_t i = 0; i < count; i++)
        l->columns[i] = (struct csv_column){.name = fields[i], .type = CSV_SKIP};
    for (size_t k = 0; k < m->column_count; k++) {
        size_t i = 0;
        if (nn_is_label(m, k) || m->columns[k].type == CSV_SKIP)
            continue;
        while (i < count && !ty_str_eq(fields[i], m->columns[k].name))
            i++;
        if (i == count)
            return ty_fail(TY_INVALID_ARGUMENT, "line 1: the header has no column '%s'",
                           m->columns[k].name.ptr);
        for (size_t j = i + 1; j < count; j++)
            if (ty_str_eq(fields[j], m->columns[k].name))
                return ty_fail(TY_INVALID_ARGUMENT, "line 1: the header names '%s' twice",
                               m->columns[k].name.ptr);
        l->columns[i] = m->columns[k];
        l->out[i] = values[k];
    }
    return TY_OK;
}

static ty_err layout_by_place(struct predictor *p, size_t count, struct layout *l)
{
    const struct nn_model *m = p->dir.model;
    size_t labels = 0;
    for (size_t k = 0; k < m->column_count; k++)
        labels += nn_is_label(m, k);
    bool labelled = count == m->column_count;
    if (!labelled && count + labels != m->column_count)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "line 1 has %zu fields; the model has %zu columns, '%s'%s among them, which "
                       "may be left out",
                       count, m->column_count, m->columns[m->heads[0].label].name.ptr,
                       labels > 1 ? " and other labels" : "");
    l->columns = ty_new_array(&p->arena, struct csv_column, count);
    l->out = ty_new_array(&p->arena, union csv_values, count);
    for (size_t k = 0; k < m->column_count; k++) {
        if (nn_is_label(m, k) && !labelled)
            continue;
        l->columns[l->count] = m->columns[k];
        if (nn_is_label(m, k))
            l->columns[l->count].type = CSV_SKIP;
        else
            l->out[l->count] = nn_scratch_columns(p->scratch)[k];
        l->count++;
    }
    return TY_OK;
}

static ty_err csv_predict(struct predictor *p, ty_str text)
{
    const struct nn_model *m = p->dir.model;
    struct layout l = {0};
    ty_str *fields;
    size_t count, used, rows, bad, done = 0;
    struct csv_reader *r = ty_new(&p->arena, struct csv_reader);
    struct ty_arena strings = {0};
    ty_err err = csv_row(&p->arena, text, m->separator, &fields, &count, &used);
    if (err != TY_OK)
        return err;
    if (is_header(m, fields, count)) {
        l.used = used;
        err = layout_by_name(p, fields, count, &l);
    } else {
        err = layout_by_place(p, count, &l);
    }
    if (err == TY_OK)
        err = csv_reader_init(r, &strings, text, m->separator, l.columns, l.count);
    r->offset = l.used;
    while (err == TY_OK) {
        err = csv_read(r, p->block, l.out, &rows);
        if (err != TY_OK)
            break;
        err = block_predict(p, rows, &bad);
        if (err == TY_INVALID_ARGUMENT)
            err = ty_wrap(err, "row %zu", done + bad + 1);
        done += rows;
        ty_arena_clear(&strings);
    }
    ty_arena_clear(&strings);
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

/* ---- JSON lines ---- */

/* A value, or the only one of a list: clients of a serving API write either. */
static const json_t *value_of(const json_t *value)
{
    return json_is_array(value) && json_array_size(value) == 1 ? json_array_get(value, 0) : value;
}

static ty_err text_set(const struct csv_column *c, const json_t *value, struct ty_arena *strings,
                       ty_str *ret)
{
    if (!json_is_string(value))
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' must be a text", c->name.ptr);
    *ret = ty_str_dup(strings, (ty_str){json_string_value(value), json_string_length(value)});
    return TY_OK;
}

/* 2 and 2.0 are whole, 2.5 and 1e300 are not: a number that would be cut is a mistake. */
static ty_err int_set(const struct csv_column *c, const json_t *value, int64_t *ret)
{
    double number = json_number_value(value);
    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return TY_OK;
    }
    if (!json_is_number(value) || number != floor(number) || fabs(number) > 0x1p53)
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' must be a whole number", c->name.ptr);
    *ret = (int64_t)number;
    return TY_OK;
}

static void default_set(const struct csv_column *c, union csv_values *to, size_t row)
{
    if (c->type == CSV_STRING)
        to->strings[row] = c->default_str;
    else if (c->type == CSV_FLOAT)
        to->floats[row] = c->default_float;
    else
        to->ints[row] = c->default_int;
}

static ty_err field_set(struct predictor *p, struct ty_arena *strings, size_t column,
                        const json_t *value, size_t row)
{
    const struct csv_column *c = &p->dir.model->columns[column];
    union csv_values *to = &nn_scratch_columns(p->scratch)[column];
    const json_t *one = value_of(value);
    if (value == NULL && c->required)
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' is missing", c->name.ptr);
    if (value == NULL)
        default_set(c, to, row);
    else if (c->type == CSV_STRING)
        return text_set(c, one, strings, &to->strings[row]);
    else if (c->type == CSV_INT64)
        return int_set(c, one, &to->ints[row]);
    else if (!json_is_number(one))
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' must be a number", c->name.ptr);
    else
        to->floats[row] = (float)json_number_value(one);
    return TY_OK;
}

/* A misspelt column would silently be the default of the right one. */
static ty_err keys_check(const struct nn_model *m, const json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value) {
        size_t k = 0;
        while (k < m->column_count && !ty_str_is(m->columns[k].name, key))
            k++;
        if (k < m->column_count)
            continue;
        struct ty_buf b;
        ty_buf_init(&b, 1000);
        for (k = 0; k < m->column_count; k++)
            if (!nn_is_label(m, k) && m->columns[k].type != CSV_SKIP)
                ty_buf_addf(&b, "%s%s", b.len ? ", " : "", m->columns[k].name.ptr);
        ty_err err = ty_fail(TY_INVALID_ARGUMENT, "the model has no column '%.60s'; it reads %s",
                             key, b.ptr);
        ty_buf_clear(&b);
        return err;
    }
    return TY_OK;
}

static ty_err line_set(struct predictor *p, struct ty_arena *strings, ty_str line, size_t row)
{
    const struct nn_model *m = p->dir.model;
    json_t *object = NULL;
    ty_err err = wire_json_parse(line, &object);
    if (err == TY_OK && !json_is_object(object))
        err = ty_fail(TY_INVALID_ARGUMENT, "must be an object of columns");
    if (err == TY_OK)
        err = keys_check(m, object);
    for (size_t k = 0; k < m->column_count && err == TY_OK; k++)
        if (!nn_is_label(m, k) && m->columns[k].type != CSV_SKIP)
            err = field_set(p, strings, k, json_object_get(object, m->columns[k].name.ptr), row);
    json_decref(object);
    return err;
}

static ty_err json_predict(struct predictor *p, ty_str text)
{
    struct ty_arena strings = {0};
    size_t rows = 0, bad = 0, number = 0, lines[NN_BLOCK_ROWS];
    ty_err err = TY_OK;
    for (bool more = true; more && err == TY_OK;) {
        ty_str line;
        more = ty_str_split(&text, '\n', &line);
        number++;
        if (ty_str_trim(line).len > 0) {
            lines[rows] = number;
            err = line_set(p, &strings, line, rows++);
            if (err != TY_OK)
                err = ty_wrap(err, "line %zu", number);
        }
        if (err == TY_OK && rows > 0 && (rows == p->block || !more)) {
            err = block_predict(p, rows, &bad);
            if (err == TY_INVALID_ARGUMENT)
                err = ty_wrap(err, "line %zu", lines[bad]);
            rows = 0;
            ty_arena_clear(&strings);
        }
    }
    ty_arena_clear(&strings);
    return err;
}

static ty_err text_predict(struct predictor *p, ty_str text)
{
    ty_str start = ty_str_trim(text);
    if (start.len == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "the input is empty");
    if (start.ptr[0] == '{')
        return json_predict(p, text);
    if (start.ptr[0] == '[' && ty_str_starts(ty_str_trim(ty_str_drop(start, 1)), TY_STR("{")))
        return ty_fail(TY_INVALID_ARGUMENT, "a list of objects: write each on a line of its own, "
                                            "without the list (jq -c '.[]')");
    return csv_predict(p, text);
}

/* A file of rows, or stdin. */
static ty_err table_predict(struct predictor *p, const char *path)
{
    struct ty_buf b;
    ty_str input = {0};
    bool from_stdin = strcmp(path, "-") == 0;
    ty_buf_init(&b, INPUT_BYTES);
    ty_err err = from_stdin ? stdin_read(&b) : train_file_read(path, &input);
    if (from_stdin)
        input = ty_buf_str(&b);
    if (err == TY_OK)
        err = train_table_check(from_stdin ? "the input" : path, input);
    if (err == TY_OK)
        err = text_predict(p, train_table_text(input));
    if (!from_stdin)
        train_file_free(input);
    ty_buf_clear(&b);
    return err == TY_INVALID_ARGUMENT ? ty_wrap(err, "%s", from_stdin ? "the input" : path) : err;
}

/* ---- images ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that the paths stand for; a folder for all images in it. */
static ty_err images_list(struct ty_arena *a, const char *path, const char ***ret,
                          size_t *ret_count)
{
    struct stat st;
    ty_str *all;
    size_t count, kept = 0;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        *ret = ty_new_array(a, const char *, 1);
        (*ret)[0] = path;
        *ret_count = 1;
        return TY_OK;
    }
    ty_err err = train_folder_list(a, path, &all, &count);
    if (err != TY_OK)
        return err;
    const char **names = ty_new_array(a, const char *, count + 1);
    for (size_t i = 0; i < count; i++)
        if (image_name_fits(all[i]))
            names[kept++] = all[i].ptr;
    if (kept == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' has no images", path);
    qsort(names, kept, sizeof *names, by_name);
    *ret = names;
    *ret_count = kept;
    return TY_OK;
}

struct decoding {
    const struct predictor *p;
    const char *const *names;
    float *floats; /* (batch, pixels) */
    char **messages;
    ty_err *errs;
};

static void image_run(void *arg, int index)
{
    const struct decoding *d = arg;
    const struct nn_model *m = d->p->dir.model;
    float *into = d->floats + (size_t)index * train_picture_floats(m);
    struct image_room room = {0};
    struct ty_buf b;
    if (strcmp(d->names[index], "-") == 0) {
        ty_buf_init(&b, INPUT_BYTES);
        d->errs[index] = stdin_read(&b);
        if (d->errs[index] == TY_OK)
            d->errs[index] = train_picture_decode(m, ty_buf_str(&b), &room, into);
        ty_buf_clear(&b);
    } else {
        d->errs[index] = train_picture_read(m, d->names[index], &room, into);
    }
    d->messages[index] = d->errs[index] == TY_OK ? NULL : ty_err_take();
    image_room_clear(&room);
}

static ty_err images_predict(struct predictor *p, const char *const *names, size_t count)
{
    size_t batch = p->dir.batch, width = train_picture_floats(p->dir.model);
    struct nn_pixels *pixels = ty_new_array(&p->arena, struct nn_pixels, batch);
    struct decoding d = {.p = p,
                         .floats = ty_new_array(&p->arena, float, batch *width),
                         .messages = ty_new_array(&p->arena, char *, batch),
                         .errs = ty_new_array(&p->arena, ty_err, batch)};
    ty_err err = TY_OK;
    p->rows.pixels = pixels;
    for (size_t at = 0; at < count && err == TY_OK; at += batch) {
        size_t n = count - at < batch ? count - at : batch;
        d.names = names + at;
        tensor_team_run(p->dir.team, image_run, &d, (int)n);
        for (size_t i = 0; i < n; i++) {
            pixels[i].floats = d.floats + i * width;
            if (d.errs[i] != TY_OK && err == TY_OK)
                err = ty_fail(d.errs[i], "%s", d.messages[i]);
            free(d.messages[i]);
        }
        if (err == TY_OK)
            err = rows_predict(p, n, d.names);
    }
    return err;
}

ty_err train_predict(const char *model_dir, const char *const *paths, size_t count, int threads,
                     int fd)
{
    struct predictor p = {.fd = fd};
    const char *path;
    ty_err err = model_dir_open(&p.dir, model_dir, 0, threads);
    if (err != TY_OK)
        return train_names_say(err, &model_dir, 1);
    const struct nn_model *m = p.dir.model;
    p.block = p.dir.batch < NN_BLOCK_ROWS ? p.dir.batch : NN_BLOCK_ROWS;
    p.scratch = nn_scratch_new(&p.arena, m);
    p.rows = (struct nn_rows){.floats_each = m->slots_float, .ids_each = m->slots_id};
    p.rows.floats = ty_new_array(&p.arena, float, p.dir.batch * m->slots_float + 1);
    p.rows.ids = ty_new_array(&p.arena, int32_t, p.dir.batch * m->slots_id + 1);
    ty_buf_init(&p.out, OUT_BYTES);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        const char **names = NULL;
        size_t found = 0;
        err = train_path(&p.arena, paths[i], &path);
        if (err == TY_OK && m->images.height == 0)
            err = table_predict(&p, path);
        else if (err == TY_OK)
            err = images_list(&p.arena, path, &names, &found);
        if (err == TY_OK && found > 0)
            err = images_predict(&p, names, found);
    }
    ty_buf_clear(&p.out);
    ty_arena_clear(&p.arena);
    model_dir_close(&p.dir);
    return err == TY_OK ? TY_OK : train_names_say(err, paths, count);
}
