/* predict.c -- rows in, one JSON object a line out.
 *
 * CSV: a header if the first row names a column of the model, else all columns of the model in
 * order, with or without the label. JSON lines: objects by column; what is missing takes the
 * column's default. Numbers have the digits that a float32 needs. */
#include "train/train_int.h"

#include <math.h>

enum { OUT_BYTES = 1 << 24 };

struct predictor {
    struct model_dir dir;
    struct ty_arena arena; /* of the run */
    struct nn_scratch *scratch;
    struct nn_rows rows; /* of a block */
    struct ty_buf out;
    int fd;
};

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

/* Predict for the rows in the scratch. */
static ty_err block_predict(struct predictor *p, size_t count, size_t *ret_bad)
{
    const struct nn_model *m = p->dir.model;
    ty_err err =
        nn_features_compute(m, p->scratch, count, p->rows.floats, p->rows.ids, NULL, ret_bad);
    if (err != TY_OK)
        return err;
    p->rows.count = count;
    struct nn_batch b = {.rows = &p->rows, .count = count};
    const float *logits = nn_net_forward(p->dir.net, &b).logits;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < m->head_count; k++) {
            const struct nn_head *h = &m->heads[k];
            const float *own = logits + i * m->logits_each + h->from;
            ty_buf_addz(&p->out, k ? "," : "{");
            if (h->type == NN_REGRESSION)
                regression_print(&p->out, h, own);
            else
                classes_print(&p->out, h, own);
        }
        ty_buf_addz(&p->out, "}\n");
    }
    return flush(p);
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
        return ty_fail(TY_INVALID_ARGUMENT, "the input is empty");
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
        err = csv_read(r, NN_BLOCK_ROWS, l.out, &rows);
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

static ty_err number_of(const char *name, const json_t *value, double *ret)
{
    const json_t *one =
        json_is_array(value) && json_array_size(value) == 1 ? json_array_get(value, 0) : value;
    if (!json_is_number(one))
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' must be a number", name);
    *ret = json_number_value(one);
    return TY_OK;
}

static ty_err field_set(struct predictor *p, struct ty_arena *strings, size_t column,
                        const json_t *value, size_t row)
{
    const struct csv_column *c = &p->dir.model->columns[column];
    union csv_values *to = &nn_scratch_columns(p->scratch)[column];
    double number = 0;
    ty_err err = TY_OK;
    if (value == NULL && c->required)
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' is missing", c->name.ptr);
    if (c->type == CSV_STRING) {
        const json_t *one =
            json_is_array(value) && json_array_size(value) == 1 ? json_array_get(value, 0) : value;
        if (value != NULL && !json_is_string(one))
            return ty_fail(TY_INVALID_ARGUMENT, "'%s' must be a text", c->name.ptr);
        to->strings[row] =
            value == NULL ? c->default_str : ty_str_dup(strings, ty_str_of(json_string_value(one)));
        return TY_OK;
    }
    if (value != NULL)
        err = number_of(c->name.ptr, value, &number);
    if (c->type == CSV_FLOAT)
        to->floats[row] = value == NULL ? c->default_float : (float)number;
    else
        to->ints[row] = value == NULL ? c->default_int : (int64_t)number;
    return err;
}

static ty_err line_set(struct predictor *p, struct ty_arena *strings, ty_str line, size_t row)
{
    const struct nn_model *m = p->dir.model;
    json_t *object = NULL;
    ty_err err = wire_json_parse(line, &object);
    if (err == TY_OK && !json_is_object(object))
        err = ty_fail(TY_INVALID_ARGUMENT, "must be an object of columns");
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
        if (err == TY_OK && rows > 0 && (rows == NN_BLOCK_ROWS || !more)) {
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

ty_err train_predict(const char *model_dir, ty_str input, int threads, int fd)
{
    struct predictor p = {.fd = fd};
    ty_err err = model_dir_open(&p.dir, model_dir, NN_BLOCK_ROWS, threads);
    if (err != TY_OK)
        return err;
    const struct nn_model *m = p.dir.model;
    p.scratch = nn_scratch_new(&p.arena, m);
    p.rows = (struct nn_rows){.floats_each = m->slots_float, .ids_each = m->slots_id};
    p.rows.floats = ty_new_array(&p.arena, float, NN_BLOCK_ROWS * m->slots_float + 1);
    p.rows.ids = ty_new_array(&p.arena, int32_t, NN_BLOCK_ROWS * m->slots_id + 1);
    ty_buf_init(&p.out, OUT_BYTES);
    ty_str start = ty_str_trim(input);
    if (start.len == 0)
        err = ty_fail(TY_INVALID_ARGUMENT, "the input is empty");
    else
        err = start.ptr[0] == '{' ? json_predict(&p, input) : csv_predict(&p, input);
    ty_buf_clear(&p.out);
    ty_arena_clear(&p.arena);
    model_dir_close(&p.dir);
    return err;
}
