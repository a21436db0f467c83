/* features.c -- from the columns of a block of rows to the floats and ids that a network reads.
 *
 * Values are in the order of the model file and read only those before them, so one walk computes
 * all. */
#include "nn/nn_int.h"

#include <math.h>

static const struct nn_feature_kind *const KINDS[] = {
#define FEATURE(name) &nn_feature_##name,
#include "nn/features.def"
#undef FEATURE
};

ty_err nn_value_find(struct nn_reader *r, ty_str name, unsigned types, size_t *ret)
{
    static const char *const words[] = {"a float", "a whole number", "a text", "a category"};
    const struct nn_model *m = r->model;
    struct ty_buf b;
    for (size_t i = m->value_count; i-- > 0;)
        if (ty_str_eq(m->values[i].name, name)) {
            if (i < m->column_count && m->columns[i].type == CSV_SKIP)
                return nn_fail(r, "the column '%s' is skipped", name.ptr);
            if (!(NN_BIT(m->values[i].type) & types))
                return nn_fail(r, "'%s' is %s, which does not fit here", name.ptr,
                               words[m->values[i].type]);
            *ret = i;
            return TY_OK;
        }
    ty_buf_init(&b, 300);
    for (size_t i = 0; i < m->value_count; i++)
        ty_buf_addf(&b, "%s%s", i ? ", " : "", m->values[i].name.ptr);
    ty_err err =
        nn_fail(r, "there is no column or feature '%s' before this; there are %s", name.ptr, b.ptr);
    ty_buf_clear(&b);
    return err;
}

static ty_err inputs_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    ty_str *names = ty_new_array(r->arena, ty_str, NN_MAX_INPUTS);
    ty_err err = nn_read_names(r, object, v->kind->name, names, NN_MAX_INPUTS, &v->input_count);
    for (size_t i = 0; i < v->input_count && err == TY_OK; i++)
        err = nn_value_find(r, names[i], v->kind->types, &v->inputs[i]);
    return err;
}

static ty_err feature_read(struct nn_reader *r, const json_t *object)
{
    struct nn_model *m = r->model;
    struct nn_value v = {.otherwise = -1, .divide = 1};
    const char *keys[12] = {"name", NULL};
    size_t n = 1;
    if (!json_is_object(object))
        return nn_fail(r, "must be a mapping, such as {name: hour, hour: pickup_datetime}");
    for (size_t i = 0; i < TY_COUNT(KINDS); i++)
        if (json_object_get(object, KINDS[i]->name))
            v.kind = KINDS[i];
    if (v.kind == NULL)
        return nn_fail(r, "names no kind of feature; docs/model-file.md lists them");
    keys[n++] = v.kind->name;
    for (size_t i = 0; v.kind->keys && v.kind->keys[i] && n < TY_COUNT(keys) - 1; i++)
        keys[n++] = v.kind->keys[i];
    ty_err err = nn_keys_check(r, object, keys);
    if (err == TY_OK)
        err = nn_read_str(r, object, "name", true, &v.name);
    if (err == TY_OK)
        err = inputs_read(r, object, &v);
    if (err == TY_OK)
        err = v.kind->read(r, object, &v);
    if (err == TY_OK && v.type == NN_CATEGORY && v.buckets > INT32_MAX)
        err = nn_fail(r, "%" PRId64 " buckets; at most %d are possible", v.buckets, INT32_MAX);
    for (size_t i = m->column_count; i < m->value_count && err == TY_OK; i++)
        if (ty_str_eq(m->values[i].name, v.name))
            err = nn_fail(r, "two features are named '%s'", v.name.ptr);
    if (err == TY_OK)
        m->values[m->value_count++] = v;
    return err;
}

ty_err nn_read_features(struct nn_reader *r, const json_t *list)
{
    ty_err err = TY_OK;
    if (list == NULL)
        return TY_OK;
    nn_enter(r, "features");
    if (!json_is_array(list) || json_array_size(list) + r->model->value_count > NN_MAX_VALUES)
        err = nn_fail(r, "must be a list, of %d with the columns", NN_MAX_VALUES);
    for (size_t i = 0; err == TY_OK && i < json_array_size(list); i++) {
        nn_enter_index(r, i);
        err = feature_read(r, json_array_get(list, i));
        nn_leave(r);
    }
    nn_leave(r);
    return err;
}

/* ---- computing ---- */

struct nn_scratch *nn_scratch_new(struct ty_arena *a, const struct nn_model *m)
{
    struct nn_scratch *s = ty_new(a, struct nn_scratch);
    s->columns = ty_new_array(a, union csv_values, m->column_count);
    s->values = ty_new_array(a, union csv_values, m->value_count);
    for (size_t i = 0; i < m->value_count; i++) {
        if (i < m->column_count && m->columns[i].type == CSV_SKIP)
            continue;
        s->values[i].strings = ty_new_array(a, ty_str, NN_BLOCK_ROWS);
        if (i < m->column_count)
            s->columns[i] = s->values[i];
    }
    return s;
}

union csv_values *nn_scratch_columns(struct nn_scratch *s)
{
    return s->columns;
}

void nn_scratch_drop(const struct nn_model *m, struct nn_scratch *s, size_t first, size_t count)
{
    static const size_t sizes[] = {sizeof(float), sizeof(int64_t), sizeof(ty_str)};
    for (size_t i = 0; i < m->column_count; i++) {
        if (m->columns[i].type == CSV_SKIP)
            continue;
        char *values = (char *)s->values[i].strings;
        size_t size = sizes[m->columns[i].type];
        memmove(values, values + first * size, (count - first) * size);
    }
}

static float value_float(const struct nn_value *v, const union csv_values *x, size_t row)
{
    return v->type == NN_FLOAT ? x->floats[row] : (float)x->ints[row];
}

static ty_err class_of(const struct nn_model *m, const struct nn_head *h, const union csv_values *x,
                       size_t row, float *ret)
{
    size_t classes = h->type == NN_BINARY ? 2 : h->class_count;
    const struct nn_value *v = &m->values[h->label];
    if (v->type == NN_STRING) {
        for (size_t i = 0; i < classes; i++)
            if (ty_str_eq(h->classes[i], x->strings[row])) {
                *ret = (float)i;
                return TY_OK;
            }
        return ty_fail(TY_INVALID_ARGUMENT, "label '%s' is '%.*s', none of the classes",
                       v->name.ptr, (int)(x->strings[row].len < 60 ? x->strings[row].len : 60),
                       x->strings[row].ptr);
    }
    *ret = value_float(v, x, row);
    if (*ret >= 0 && *ret < (float)classes && *ret == floorf(*ret))
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT, "label '%s' is %g, not a class from 0 to %zu", v->name.ptr,
                   (double)*ret, classes - 1);
}

static ty_err label_take(const struct nn_model *m, const struct nn_head *h,
                         const struct nn_scratch *s, size_t row, float *ret)
{
    const union csv_values *x = &s->values[h->label];
    if (h->type != NN_REGRESSION)
        return class_of(m, h, x, row, ret);
    *ret = value_float(&m->values[h->label], x, row);
    return isfinite(*ret) ? TY_OK
                          : ty_fail(TY_INVALID_ARGUMENT, "label '%s' is %g, not finite",
                                    m->values[h->label].name.ptr, (double)*ret);
}

static ty_err labels_take(const struct nn_model *m, const struct nn_scratch *s, size_t count,
                          float *labels, size_t *ret_bad)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < m->head_count; k++) {
            ty_err err = label_take(m, &m->heads[k], s, i, &labels[i * m->head_count + k]);
            if (err != TY_OK) {
                *ret_bad = i;
                return err;
            }
        }
    return TY_OK;
}

static ty_err slots_take(const struct nn_model *m, const struct nn_scratch *s, size_t count,
                         float *floats, int32_t *ids, size_t *ret_bad)
{
    for (size_t k = 0; k < m->slots_float; k++) {
        const struct nn_value *v = &m->values[m->float_values[k]];
        for (size_t i = 0; i < count; i++) {
            float x = value_float(v, &s->values[m->float_values[k]], i);
            floats[i * m->slots_float + k] = x;
            if (!isfinite(x)) {
                *ret_bad = i;
                return ty_fail(TY_INVALID_ARGUMENT, "'%s' is not finite", v->name.ptr);
            }
        }
    }
    for (size_t k = 0; k < m->slots_id; k++)
        for (size_t i = 0; i < count; i++)
            ids[i * m->slots_id + k] = (int32_t)s->values[m->id_values[k]].ints[i];
    return TY_OK;
}

/* A later feature may find an earlier row bad: compute again up to it, until no row is. */
static ty_err block_compute(const struct nn_model *m, struct nn_scratch *s, size_t count,
                            float *floats, int32_t *ids, float *labels, size_t *ret_bad)
{
    ty_err err = TY_OK;
    for (size_t i = m->column_count; i < m->value_count && err == TY_OK; i++)
        err = m->values[i].kind->compute(m, &m->values[i], s->values, count, ret_bad);
    if (err == TY_OK)
        err = slots_take(m, s, count, floats, ids, ret_bad);
    if (err == TY_OK && labels != NULL)
        err = labels_take(m, s, count, labels, ret_bad);
    return err;
}

ty_err nn_features_compute(const struct nn_model *m, struct nn_scratch *s, size_t count,
                           float *floats, int32_t *ids, float *labels, size_t *ret_bad)
{
    size_t bad = count;
    ty_err first = TY_OK, err = block_compute(m, s, count, floats, ids, labels, &bad);
    while (err != TY_OK) {
        first = err;
        *ret_bad = bad;
        char *why = ty_err_take();
        err = block_compute(m, s, *ret_bad, floats, ids, labels, &bad);
        if (err == TY_OK)
            (void)!ty_fail(first, "%s", why);
        free(why);
    }
    return first;
}
