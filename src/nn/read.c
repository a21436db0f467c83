/* read.c -- fields of the model file, checked one by one, and the line that a message names.
 *
 * wire_yaml_parse gives values without places. A reader keeps the path to where it is, and only
 * when something is wrong is the text read again, event by event, up to that path. */
#include "nn/nn_int.h"

#include <math.h>
#include <yaml.h>

/* ---- lines ---- */

/* Where the walk is: the path's first `matched` steps lead to the container at `depth`. */
struct finder {
    const struct nn_reader *r;
    struct {
        bool is_list, is_value; /* a mapping: a key or its value comes next */
        size_t index;
    } levels[NN_MAX_DEPTH + 2];
    size_t depth, matched, line;
};

/* A key or element begins: does it continue the path? */
static bool finder_step(struct finder *f, const char *key)
{
    const struct nn_reader *r = f->r;
    size_t at = f->depth - 1;
    if (f->matched != at || at >= r->depth)
        return false;
    bool is_list = f->levels[at].is_list;
    if (is_list ? r->keys[at] == NULL && r->indices[at] == f->levels[at].index
                : r->keys[at] != NULL && key != NULL && strcmp(key, r->keys[at]) == 0) {
        f->matched++;
        return true;
    }
    return false;
}

/* One event; false: the rest does not matter. */
static bool finder_event(struct finder *f, const yaml_event_t *e)
{
    bool starts = e->type == YAML_MAPPING_START_EVENT || e->type == YAML_SEQUENCE_START_EVENT;
    bool ends = e->type == YAML_MAPPING_END_EVENT || e->type == YAML_SEQUENCE_END_EVENT;
    if (ends) {
        f->depth--;
        if (f->matched > f->depth)
            return false; /* the container that the path led to is over */
    } else if (f->depth > 0 && (starts || e->type == YAML_SCALAR_EVENT)) {
        size_t at = f->depth - 1;
        const char *key = e->type == YAML_SCALAR_EVENT ? (const char *)e->data.scalar.value : NULL;
        bool is_list = f->levels[at].is_list;
        if ((is_list || !f->levels[at].is_value) && finder_step(f, key))
            f->line = e->start_mark.line + 1;
        if (is_list)
            f->levels[at].index++;
        else
            f->levels[at].is_value = !f->levels[at].is_value;
    }
    if (starts) {
        if (f->depth >= TY_COUNT(f->levels))
            return false;
        f->levels[f->depth].is_list = e->type == YAML_SEQUENCE_START_EVENT;
        f->levels[f->depth].is_value = false;
        f->levels[f->depth++].index = 0;
    }
    return f->matched < f->r->depth && e->type != YAML_STREAM_END_EVENT;
}

/* The line of the deepest step of the path that is in the text. */
static size_t line_find(const struct nn_reader *r)
{
    struct finder f = {.r = r, .line = 1};
    yaml_parser_t parser;
    yaml_event_t event;
    if (!yaml_parser_initialize(&parser))
        return 1;
    yaml_parser_set_input_string(&parser, (const unsigned char *)r->text.ptr, r->text.len);
    for (bool more = true; more && yaml_parser_parse(&parser, &event);) {
        more = finder_event(&f, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return f.line;
}

ty_err nn_fail(const struct nn_reader *r, const char *fmt, ...)
{
    struct ty_buf b;
    va_list args;
    char what[512];
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    ty_buf_init(&b, 2048);
    for (size_t i = 0; i < r->depth; i++) {
        if (r->keys[i] == NULL)
            ty_buf_addf(&b, "[%zu]", r->indices[i]);
        else
            ty_buf_addf(&b, "%s%.60s", i ? "." : "", r->keys[i]);
    }
    ty_err err = ty_fail(TY_INVALID_ARGUMENT, "%s:%zu: %s%s%s", r->path, line_find(r),
                         b.len ? b.ptr : "", b.len ? ": " : "", what);
    ty_buf_clear(&b);
    return err;
}

void nn_enter(struct nn_reader *r, const char *key)
{
    ty_assert(r->depth < NN_MAX_DEPTH);
    r->keys[r->depth++] = key;
}

void nn_enter_index(struct nn_reader *r, size_t index)
{
    ty_assert(r->depth < NN_MAX_DEPTH);
    r->keys[r->depth] = NULL;
    r->indices[r->depth++] = index;
}

void nn_leave(struct nn_reader *r)
{
    r->depth--;
}

/* ---- fields ---- */

ty_err nn_keys_check(struct nn_reader *r, const json_t *object, const char *const *keys)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return nn_fail(r, "must be a mapping (key: value)");
    json_object_foreach ((json_t *)object, key, value) {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (keys[i])
            continue;
        struct ty_buf b;
        ty_buf_init(&b, 400);
        for (i = 0; keys[i]; i++)
            ty_buf_addf(&b, "%s%s", i ? ", " : "", keys[i]);
        nn_enter(r, key);
        ty_err err = nn_fail(r, "no such field; there are %s", b.ptr);
        nn_leave(r);
        ty_buf_clear(&b);
        return err;
    }
    return TY_OK;
}

static ty_err missing(struct nn_reader *r, const char *key, bool required)
{
    return required ? nn_fail(r, "'%s' is missing", key) : TY_OK;
}

ty_err nn_read_str(struct nn_reader *r, const json_t *object, const char *key, bool required,
                   ty_str *ret)
{
    const json_t *value = json_object_get(object, key);
    ty_err err = TY_OK;
    if (value == NULL)
        return missing(r, key, required);
    nn_enter(r, key);
    if (!json_is_string(value) || json_string_length(value) == 0)
        err = nn_fail(r, "must be a text");
    else if (json_string_length(value) > 200)
        err = nn_fail(r, "is longer than 200 bytes");
    else
        *ret = ty_str_dup(r->arena, (ty_str){json_string_value(value), json_string_length(value)});
    nn_leave(r);
    return err;
}

ty_err nn_read_bool(struct nn_reader *r, const json_t *object, const char *key, bool *ret)
{
    const json_t *value = json_object_get(object, key);
    ty_err err = TY_OK;
    if (value == NULL)
        return TY_OK;
    nn_enter(r, key);
    if (json_is_boolean(value))
        *ret = json_is_true(value);
    else
        err = nn_fail(r, "must be true or false");
    nn_leave(r);
    return err;
}

ty_err nn_number_of(struct nn_reader *r, const json_t *value, double *ret)
{
    if (json_is_number(value)) {
        *ret = json_number_value(value);
        return TY_OK;
    }
    if (!json_is_string(value))
        return nn_fail(r, "must be a number or an expression of parameters");
    if (nn_expr(r->model, ty_str_of(json_string_value(value)), ret) == TY_OK)
        return TY_OK;
    char *why = ty_err_take();
    ty_err err = nn_fail(r, "%s", why);
    free(why);
    return err;
}

static ty_err in_range(struct nn_reader *r, double value, double least, double most)
{
    if (value >= least && value <= most)
        return TY_OK;
    return nn_fail(r, "%.10g is not from %.10g to %.10g", value, least, most);
}

ty_err nn_read_number(struct nn_reader *r, const json_t *object, const char *key, bool required,
                      double least, double most, double *ret)
{
    const json_t *value = json_object_get(object, key);
    double number = 0;
    if (value == NULL)
        return missing(r, key, required);
    nn_enter(r, key);
    ty_err err = nn_number_of(r, value, &number);
    if (err == TY_OK)
        err = in_range(r, number, least, most);
    nn_leave(r);
    if (err == TY_OK)
        *ret = number;
    return err;
}

ty_err nn_read_float(struct nn_reader *r, const json_t *object, const char *key, double least,
                     double most, float *ret)
{
    double number = (double)*ret;
    ty_err err = nn_read_number(r, object, key, false, least, most, &number);
    *ret = (float)number;
    return err;
}

ty_err nn_read_int(struct nn_reader *r, const json_t *object, const char *key, bool required,
                   int64_t least, int64_t most, int64_t *ret)
{
    double number = (double)*ret;
    ty_err err = nn_read_number(r, object, key, required, (double)least, (double)most, &number);
    if (err == TY_OK && number != floor(number)) {
        nn_enter(r, key);
        err = nn_fail(r, "%.10g is not a whole number", number);
        nn_leave(r);
    }
    if (err == TY_OK && json_object_get(object, key) != NULL)
        *ret = (int64_t)number;
    return err;
}

ty_err nn_read_word(struct nn_reader *r, const json_t *object, const char *key,
                    const char *const *words, int *ret)
{
    ty_str given = {0};
    ty_err err = nn_read_str(r, object, key, false, &given);
    if (err != TY_OK || given.len == 0)
        return err;
    struct ty_buf b;
    ty_buf_init(&b, 400);
    for (int i = 0; words[i]; i++) {
        ty_buf_addf(&b, "%s%s", i ? ", " : "", words[i]);
        if (ty_str_is(given, words[i])) {
            *ret = i;
            ty_buf_clear(&b);
            return TY_OK;
        }
    }
    nn_enter(r, key);
    err = nn_fail(r, "'%.60s' is none of %s", given.ptr, b.ptr);
    nn_leave(r);
    ty_buf_clear(&b);
    return err;
}

/* {sizes: [128, 64], factor: 0.5, count: 3}: the list, or if there is a factor so many numbers,
 * each the one before times the factor, from the list's first on, and 2 at least. */
static ty_err numbers_shrinking(struct nn_reader *r, const json_t *object, double *ret, size_t most,
                                size_t *ret_count)
{
    static const char *const keys[] = {"sizes", "factor", "count", NULL};
    double factor = 0;
    int64_t count = 0;
    ty_err err = nn_keys_check(r, object, keys);
    if (err == TY_OK)
        err = nn_read_numbers(r, object, "sizes", ret, most, ret_count);
    if (err == TY_OK)
        err = nn_read_number(r, object, "factor", true, 0, 1000, &factor);
    if (err == TY_OK)
        err = nn_read_int(r, object, "count", true, 1, (int64_t)most, &count);
    if (err != TY_OK || factor == 0)
        return err;
    if (*ret_count == 0)
        return nn_fail(r, "'sizes' is empty");
    for (int64_t i = 0; i < count; i++) {
        double size = floor(ret[0] * pow(factor, (double)i));
        ret[i] = i == 0 || size > 2 ? size : 2;
    }
    *ret_count = (size_t)count;
    return TY_OK;
}

static ty_err numbers_of(struct nn_reader *r, const json_t *value, double *ret, size_t most,
                         size_t *ret_count)
{
    const struct nn_parameter *p =
        json_is_string(value) ? nn_parameter_find(r->model, ty_str_of(json_string_value(value)))
                              : NULL;
    if (p != NULL && p->is_list) {
        if (p->count > most)
            return nn_fail(r, "more than %zu numbers", most);
        memcpy(ret, p->numbers, p->count * sizeof *ret);
        *ret_count = p->count;
        return TY_OK;
    }
    if (json_is_object(value))
        return numbers_shrinking(r, value, ret, most, ret_count);
    if (!json_is_array(value)) {
        *ret_count = 1;
        return nn_number_of(r, value, ret);
    }
    if (json_array_size(value) > most)
        return nn_fail(r, "more than %zu numbers", most);
    for (size_t i = 0; i < json_array_size(value); i++) {
        nn_enter_index(r, i);
        ty_err err = nn_number_of(r, json_array_get(value, i), &ret[i]);
        nn_leave(r);
        if (err != TY_OK)
            return err;
    }
    *ret_count = json_array_size(value);
    return TY_OK;
}

ty_err nn_read_numbers(struct nn_reader *r, const json_t *object, const char *key, double *ret,
                       size_t most, size_t *ret_count)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL)
        return missing(r, key, true);
    nn_enter(r, key);
    ty_err err = numbers_of(r, value, ret, most, ret_count);
    nn_leave(r);
    return err;
}

ty_err nn_read_names(struct nn_reader *r, const json_t *object, const char *key, ty_str *ret,
                     size_t most, size_t *ret_count)
{
    const json_t *value = json_object_get(object, key);
    ty_err err = TY_OK;
    if (value == NULL)
        return missing(r, key, true);
    nn_enter(r, key);
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count == 0 || count > most)
        err = nn_fail(r, "must be 1 to %zu names", most);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_is_string(one) && json_string_length(one) > 0)
            ret[i] = ty_str_dup(r->arena, ty_str_of(json_string_value(one)));
        else
            err = nn_fail(r, "must be a name or a list of names");
    }
    *ret_count = count;
    nn_leave(r);
    return err;
}
