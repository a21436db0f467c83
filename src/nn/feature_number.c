/* feature_number.c -- features that are numbers: scale, normalise, hour, weekday, distance. */
#include "nn/nn_int.h"

#include <math.h>

static float number_at(const struct nn_model *m, const struct nn_value *v,
                       const union csv_values *values, size_t input, size_t row)
{
    size_t from = v->inputs[input];
    return m->values[from].type == NN_FLOAT ? values[from].floats[row]
                                            : (float)values[from].ints[row];
}

static union csv_values own(const struct nn_model *m, const struct nn_value *v,
                            const union csv_values *values)
{
    return values[v - m->values];
}

static ty_err inputs_check(struct nn_reader *r, const struct nn_value *v, size_t count)
{
    if (v->input_count == count)
        return TY_OK;
    return nn_fail(r, "%s: %zu names are needed", v->kind->name, count);
}

/* (batch) float32 of an input, whatever it is. */
static struct graph_out float_of(struct nn_exporter *x, const struct nn_value *v, size_t input)
{
    const struct nn_model *m = x->net->model;
    struct graph_out in = nn_export_value(x, v->inputs[input]);
    if (m->values[v->inputs[input]].type == NN_FLOAT)
        return in;
    return nn_export_cast(x, nn_export_name(x, v->name, "Cast"), in, DTYPE_INT64, DTYPE_FLOAT);
}

/* ---- scale: (x - subtract) / divide ---- */

static ty_err scale_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    ty_err err = inputs_check(r, v, 1);
    v->type = NN_FLOAT;
    if (err == TY_OK)
        err = nn_read_float(r, object, "subtract", -1e30, 1e30, &v->subtract);
    if (err == TY_OK)
        err = nn_read_float(r, object, "divide", -1e30, 1e30, &v->divide);
    if (err == TY_OK && v->divide == 0)
        err = nn_fail(r, "'divide' is 0");
    return err;
}

static ty_err scale_compute(const struct nn_model *m, const struct nn_value *v,
                            const union csv_values *values, size_t count, size_t *ret_bad)
{
    (void)ret_bad;
    float *out = own(m, v, values).floats;
    for (size_t i = 0; i < count; i++)
        out[i] = (number_at(m, v, values, 0, i) - v->subtract) / v->divide;
    return TY_OK;
}

static struct graph_out scale_export(struct nn_exporter *x, const struct nn_value *v)
{
    struct graph_out less = graph_op2(
        x->graph, "Sub", nn_export_name(x, v->name, "Sub"), DTYPE_FLOAT, float_of(x, v, 0),
        graph_const_f32(x->graph, nn_export_name(x, v->name, "subtract"), v->subtract));
    return graph_op2(x->graph, "RealDiv", nn_export_name(x, v->name, "RealDiv"), DTYPE_FLOAT, less,
                     graph_const_f32(x->graph, nn_export_name(x, v->name, "divide"), v->divide));
}

static const char *const scale_keys[] = {"subtract", "divide", NULL};
const struct nn_feature_kind nn_feature_scale = {"scale",       NN_BIT(NN_FLOAT) | NN_BIT(NN_INT),
                                                 scale_keys,    scale_read,
                                                 scale_compute, scale_export};

/* ---- normalise: (x - mean) / deviation, measured from the data (measure.c); then it is a scale
 * ---- */

static ty_err normalise_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    (void)object;
    v->type = NN_FLOAT;
    return inputs_check(r, v, 1);
}

const struct nn_feature_kind nn_feature_normalise = {
    "normalise", NN_BIT(NN_FLOAT) | NN_BIT(NN_INT), NULL, normalise_read, scale_compute,
    scale_export};

/* ---- hour: characters 11 and 12 of "2011-01-28 20:42:59 UTC" ---- */

enum { HOUR_AT = 11, HOUR_LENGTH = 2, DATE_LENGTH = 10 };

static ty_err hour_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    (void)object;
    v->type = NN_INT;
    return inputs_check(r, v, 1);
}

static ty_err digits(ty_str s, size_t at, size_t n, int64_t *ret)
{
    if (s.len < at + n)
        return TY_INVALID_ARGUMENT;
    *ret = 0;
    for (size_t i = at; i < at + n; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return TY_INVALID_ARGUMENT;
        *ret = *ret * 10 + (s.ptr[i] - '0');
    }
    return TY_OK;
}

static ty_err time_fail(const struct nn_model *m, const struct nn_value *v, ty_str s,
                        const char *what)
{
    return ty_fail(TY_INVALID_ARGUMENT,
                   "'%s' is '%.*s', no time with %s, as 2011-01-28 20:42:59 has",
                   m->values[v->inputs[0]].name.ptr, (int)(s.len < 40 ? s.len : 40), s.ptr, what);
}

static ty_err hour_compute(const struct nn_model *m, const struct nn_value *v,
                           const union csv_values *values, size_t count, size_t *ret_bad)
{
    int64_t *out = own(m, v, values).ints;
    const ty_str *in = values[v->inputs[0]].strings;
    for (size_t i = 0; i < count; i++)
        if (digits(in[i], HOUR_AT, HOUR_LENGTH, &out[i]) != TY_OK) {
            *ret_bad = i;
            return time_fail(m, v, in[i], "an hour");
        }
    return TY_OK;
}

static struct graph_out substr_number(struct nn_exporter *x, const struct nn_value *v, int32_t at,
                                      int32_t n, const char *what)
{
    const char *scope = nn_export_name(x, v->name, what);
    struct graph_node *sub = graph_node(x->graph, "Substr", scope);
    graph_input(sub, nn_export_value(x, v->inputs[0]));
    graph_input(sub, graph_const_i32(x->graph, ty_format(x->arena, "%s/pos", scope), at));
    graph_input(sub, graph_const_i32(x->graph, ty_format(x->arena, "%s/len", scope), n));
    graph_attr_type(sub, "T", DTYPE_INT32);
    struct graph_node *number =
        graph_node(x->graph, "StringToNumber", ty_format(x->arena, "%s/number", scope));
    graph_input(number, graph_out(sub, 0));
    graph_attr_type(number, "out_type", DTYPE_INT64);
    return graph_out(number, 0);
}

static struct graph_out hour_export(struct nn_exporter *x, const struct nn_value *v)
{
    return substr_number(x, v, HOUR_AT, HOUR_LENGTH, "hour");
}

const struct nn_feature_kind nn_feature_hour = {"hour",    NN_BIT(NN_STRING), NULL,
                                                hour_read, hour_compute,      hour_export};

/* ---- weekday: 0 Sunday to 6 Saturday, by Zeller's congruence, so that a graph can do it, too ----
 *
 * With January and February as months 13 and 14 of the year before:
 *   h = (day + 13 (month + 1) / 5 + year + year / 4 - year / 100 + year / 400) mod 7, 0 = Saturday
 */

static ty_err weekday_compute(const struct nn_model *m, const struct nn_value *v,
                              const union csv_values *values, size_t count, size_t *ret_bad)
{
    int64_t *out = own(m, v, values).ints, year, month, day;
    const ty_str *in = values[v->inputs[0]].strings;
    for (size_t i = 0; i < count; i++) {
        if (digits(in[i], 0, 4, &year) != TY_OK || digits(in[i], 5, 2, &month) != TY_OK ||
            digits(in[i], 8, 2, &day) != TY_OK || month < 1 || month > 12) {
            *ret_bad = i;
            return time_fail(m, v, in[i], "a date");
        }
        int64_t early = month < 3; /* counts as months of the year before */
        year -= early;
        month += 12 * early;
        out[i] = (day + 13 * (month + 1) / 5 + year + year / 4 - year / 100 + year / 400 + 6) % 7;
    }
    return TY_OK;
}

/* One step of integer arithmetic with a constant. */
static struct graph_out with(struct nn_exporter *x, const struct nn_value *v, const char *op,
                             struct graph_out in, int64_t number)
{
    return graph_op2(x->graph, op, nn_export_name(x, v->name, op), DTYPE_INT64, in,
                     graph_const_i64(x->graph, nn_export_name(x, v->name, "number"), number));
}

static struct graph_out both(struct nn_exporter *x, const struct nn_value *v, const char *op,
                             struct graph_out a, struct graph_out b)
{
    return graph_op2(x->graph, op, nn_export_name(x, v->name, op), DTYPE_INT64, a, b);
}

static struct graph_out weekday_export(struct nn_exporter *x, const struct nn_value *v)
{
    struct graph_out year = substr_number(x, v, 0, 4, "year");
    struct graph_out month = substr_number(x, v, 5, 2, "month");
    struct graph_out day = substr_number(x, v, 8, 2, "day");
    /* early = (14 - month) / 12: 1 in January and February */
    struct graph_out early = with(
        x, v, "FloorDiv",
        with(x, v, "Add",
             graph_op1(x->graph, "Neg", nn_export_name(x, v->name, "Neg"), DTYPE_INT64, month), 14),
        12);
    year = both(x, v, "Sub", year, early);
    month = both(x, v, "Add", month, with(x, v, "Mul", early, 12));
    struct graph_out sum =
        with(x, v, "FloorDiv", with(x, v, "Mul", with(x, v, "Add", month, 1), 13), 5);
    sum = both(x, v, "Add", both(x, v, "Add", sum, day), year);
    sum = both(x, v, "Add", sum, with(x, v, "FloorDiv", year, 4));
    sum = both(x, v, "Sub", sum, with(x, v, "FloorDiv", year, 100));
    sum = both(x, v, "Add", sum, with(x, v, "FloorDiv", year, 400));
    return with(x, v, "FloorMod", with(x, v, "Add", sum, 6), 7);
}

const struct nn_feature_kind nn_feature_weekday = {"weekday", NN_BIT(NN_STRING), NULL,
                                                   hour_read, weekday_compute,   weekday_export};

/* ---- distance: sqrt((x2 - x1)^2 + (y2 - y1)^2) of [x1, y1, x2, y2] ---- */

static ty_err distance_read(struct nn_reader *r, const json_t *object, struct nn_value *v)
{
    (void)object;
    v->type = NN_FLOAT;
    return inputs_check(r, v, 4);
}

static ty_err distance_compute(const struct nn_model *m, const struct nn_value *v,
                               const union csv_values *values, size_t count, size_t *ret_bad)
{
    (void)ret_bad;
    float *out = own(m, v, values).floats;
    for (size_t i = 0; i < count; i++) {
        float dx = number_at(m, v, values, 2, i) - number_at(m, v, values, 0, i);
        float dy = number_at(m, v, values, 3, i) - number_at(m, v, values, 1, i);
        out[i] = sqrtf(dx * dx + dy * dy);
    }
    return TY_OK;
}

static struct graph_out distance_export(struct nn_exporter *x, const struct nn_value *v)
{
    struct graph_out square[2];
    for (size_t i = 0; i < 2; i++) {
        struct graph_out off = graph_op2(x->graph, "Sub", nn_export_name(x, v->name, "Sub"),
                                         DTYPE_FLOAT, float_of(x, v, i + 2), float_of(x, v, i));
        square[i] =
            graph_op1(x->graph, "Square", nn_export_name(x, v->name, "Square"), DTYPE_FLOAT, off);
    }
    struct graph_out sum = graph_op2(x->graph, "Add", nn_export_name(x, v->name, "Add"),
                                     DTYPE_FLOAT, square[0], square[1]);
    return graph_op1(x->graph, "Sqrt", nn_export_name(x, v->name, "Sqrt"), DTYPE_FLOAT, sum);
}

const struct nn_feature_kind nn_feature_distance = {
    "distance",     NN_BIT(NN_FLOAT) | NN_BIT(NN_INT), NULL, distance_read, distance_compute,
    distance_export};
