/* expr.c -- numbers of the model file that are written as expressions of its parameters.
 *
 *   sum:     product { (+|-) product }
 *   product: power { (*|/) power }
 *   power:   [-] atom [ ^ power ]
 *   atom:    number | parameter | ( sum ) */
#include "nn/nn_int.h"

#include <math.h>

enum { DEEPEST = 32 };

struct expr {
    const struct nn_model *model;
    ty_str rest, all;
    int depth;
};

static ty_err sum_read(struct expr *e, double *ret);

static ty_err expr_fail(const struct expr *e, const char *what)
{
    return ty_fail(TY_INVALID_ARGUMENT, "'%.*s': %s", (int)(e->all.len < 60 ? e->all.len : 60),
                   e->all.ptr, what);
}

static bool take(struct expr *e, char c)
{
    e->rest = ty_str_trim(e->rest);
    if (e->rest.len == 0 || e->rest.ptr[0] != c)
        return false;
    e->rest = ty_str_drop(e->rest, 1);
    return true;
}

static bool is_word(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && ((c >= '0' && c <= '9') || c == '-'));
}

const struct nn_parameter *nn_parameter_find(const struct nn_model *m, ty_str name)
{
    for (size_t i = 0; i < m->parameter_count; i++)
        if (ty_str_eq(m->parameters[i].name, name))
            return &m->parameters[i];
    return NULL;
}

static ty_err word_read(struct expr *e, double *ret)
{
    size_t n = 1;
    while (n < e->rest.len && is_word(e->rest.ptr[n], false) && e->rest.ptr[n] != '-')
        n++;
    const struct nn_parameter *p = nn_parameter_find(e->model, (ty_str){e->rest.ptr, n});
    if (p == NULL)
        return ty_fail(TY_INVALID_ARGUMENT, "there is no parameter '%.*s'", (int)(n < 60 ? n : 60),
                       e->rest.ptr);
    if (p->is_list)
        return expr_fail(e, "a list where one number is wanted");
    e->rest = ty_str_drop(e->rest, n);
    *ret = p->numbers[0];
    return TY_OK;
}

static ty_err atom_read(struct expr *e, double *ret)
{
    if (take(e, '(')) {
        if (++e->depth > DEEPEST)
            return expr_fail(e, "too many parentheses");
        ty_err err = sum_read(e, ret);
        e->depth--;
        if (err == TY_OK && !take(e, ')'))
            err = expr_fail(e, "')' is missing");
        return err;
    }
    if (e->rest.len > 0 && is_word(e->rest.ptr[0], true))
        return word_read(e, ret);
    char digits[40];
    size_t n = 0;
    while (n < e->rest.len && n < sizeof digits - 1 &&
           strchr("0123456789.eE", e->rest.ptr[n]) != NULL)
        n++;
    memcpy(digits, e->rest.ptr, n);
    digits[n] = '\0';
    char *end;
    *ret = strtod(digits, &end);
    if (n == 0 || *end != '\0')
        return expr_fail(e, "not a number or an expression of parameters");
    e->rest = ty_str_drop(e->rest, n);
    return TY_OK;
}

static ty_err power_read(struct expr *e, double *ret)
{
    bool minus = take(e, '-');
    double exponent = 1;
    ty_err err = atom_read(e, ret);
    if (err == TY_OK && take(e, '^')) {
        if (++e->depth > DEEPEST)
            return expr_fail(e, "too many powers");
        err = power_read(e, &exponent);
        e->depth--;
        *ret = pow(*ret, exponent);
    }
    if (minus)
        *ret = -*ret;
    return err;
}

static ty_err product_read(struct expr *e, double *ret)
{
    double next = 0;
    ty_err err = power_read(e, ret);
    while (err == TY_OK) {
        bool times = take(e, '*');
        if (!times && !take(e, '/'))
            break;
        err = power_read(e, &next);
        *ret = times ? *ret * next : *ret / next;
    }
    return err;
}

static ty_err sum_read(struct expr *e, double *ret)
{
    double next = 0;
    ty_err err = product_read(e, ret);
    while (err == TY_OK) {
        bool plus = take(e, '+');
        if (!plus && !take(e, '-'))
            break;
        err = product_read(e, &next);
        *ret = plus ? *ret + next : *ret - next;
    }
    return err;
}

ty_err nn_expr(const struct nn_model *m, ty_str text, double *ret)
{
    struct expr e = {.model = m, .rest = text, .all = text};
    double value = 0;
    ty_err err = sum_read(&e, &value);
    if (err == TY_OK && ty_str_trim(e.rest).len > 0)
        err = expr_fail(&e, "not a number or an expression of parameters");
    if (err == TY_OK && !isfinite(value))
        err = expr_fail(&e, "is not a finite number");
    if (err == TY_OK)
        *ret = value;
    return err;
}
