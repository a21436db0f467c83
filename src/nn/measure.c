/* measure.c -- mean and deviation of what normalise features read.
 *
 * A feature may be made of a normalised one (buckets of it, say, normalised again): a pass over the
 * data measures those whose input is known, and passes go on until all are. */
#include "nn/nn_int.h"

#include <math.h>

static const double LEAST_DEVIATION = 1e-7; /* Keras's: a value that never changes becomes 0 */

/* Can this value be computed? */
static bool is_known(const struct nn_model *m, size_t value)
{
    const struct nn_value *v = &m->values[value];
    if (v->kind == &nn_feature_normalise && !v->measured)
        return false;
    for (size_t i = 0; i < v->input_count; i++)
        if (!is_known(m, v->inputs[i]))
            return false;
    return true;
}

static bool is_next(const struct nn_model *m, size_t value)
{
    const struct nn_value *v = &m->values[value];
    return v->kind == &nn_feature_normalise && !v->measured && is_known(m, v->inputs[0]);
}

bool nn_measure_needed(const struct nn_model *m)
{
    for (size_t i = m->column_count; i < m->value_count; i++)
        if (m->values[i].kind == &nn_feature_normalise && !m->values[i].measured)
            return true;
    return false;
}

static double input_at(const struct nn_model *m, const struct nn_scratch *s, size_t value,
                       size_t row)
{
    size_t from = m->values[value].inputs[0];
    return m->values[from].type == NN_FLOAT ? (double)s->values[from].floats[row]
                                            : (double)s->values[from].ints[row];
}

static ty_err block_compute(const struct nn_model *m, struct nn_scratch *s, size_t count,
                            size_t *ret_bad)
{
    for (size_t i = m->column_count; i < m->value_count; i++) {
        ty_err err = TY_OK;
        if (is_known(m, i))
            err = m->values[i].kind->compute(m, &m->values[i], s->values, count, ret_bad);
        if (err != TY_OK)
            return err;
        for (size_t row = 0; row < count && is_next(m, i); row++)
            if (!isfinite(input_at(m, s, i, row))) {
                *ret_bad = row;
                return ty_fail(TY_INVALID_ARGUMENT, "what '%s' reads is not finite",
                               m->values[i].name.ptr);
            }
    }
    return TY_OK;
}

ty_err nn_measure_add(const struct nn_model *m, struct nn_scratch *s, size_t count,
                      struct nn_measure *to, size_t *ret_bad)
{
    size_t good = count;
    ty_err first = TY_OK, err = block_compute(m, s, count, &good);
    while (err != TY_OK) { /* a later feature may find an earlier row bad */
        first = err;
        *ret_bad = good;
        char *why = ty_err_take();
        err = block_compute(m, s, *ret_bad, &good);
        if (err == TY_OK)
            (void)!ty_fail(first, "%s", why);
        free(why);
    }
    for (size_t i = m->column_count; i < m->value_count; i++)
        for (size_t row = 0; row < (first == TY_OK ? count : *ret_bad) && is_next(m, i); row++) {
            double x = input_at(m, s, i, row);
            to[i].count += 1;
            to[i].sum += x;
            to[i].squares += x * x;
        }
    return first;
}

void nn_measure_finish(struct nn_model *m, const struct nn_measure *sums)
{
    bool next[NN_MAX_VALUES];
    for (size_t i = m->column_count; i < m->value_count; i++)
        next[i] = is_next(m, i);
    for (size_t i = m->column_count; i < m->value_count; i++) {
        double count = sums[i].count > 0 ? sums[i].count : 1, mean = sums[i].sum / count;
        double variance = sums[i].squares / count - mean * mean;
        double deviation = variance > 0 ? sqrt(variance) : 0;
        if (!next[i])
            continue;
        m->values[i].subtract = (float)mean;
        m->values[i].divide = (float)(deviation > LEAST_DEVIATION ? deviation : LEAST_DEVIATION);
        m->values[i].measured = true;
    }
}
