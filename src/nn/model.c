/* model.c -- the model file from top to bottom: parameters, input, then the other sections. */
#include "nn/nn_int.h"

/* ---- parameters ---- */

static ty_err numbers_split(ty_str text, struct nn_parameter *p)
{
    p->count = 0;
    while (text.len > 0) {
        size_t n = 0;
        while (n < text.len && text.ptr[n] != ' ' && text.ptr[n] != ',')
            n++;
        if (n > 0) {
            struct nn_model none = {0};
            if (p->count == NN_MAX_LIST)
                return ty_fail(TY_INVALID_ARGUMENT, "more than %d numbers", NN_MAX_LIST);
            ty_err err = nn_expr(&none, (ty_str){text.ptr, n}, &p->numbers[p->count++]);
            if (err != TY_OK)
                return err;
        }
        text = ty_str_drop(text, n < text.len ? n + 1 : n);
    }
    return p->count == 0 ? ty_fail(TY_INVALID_ARGUMENT, "needs a number") : TY_OK;
}

static ty_err parameter_read(struct nn_reader *r, const char *key, const json_t *value)
{
    struct nn_model *m = r->model;
    struct nn_parameter p = {
        .name = ty_str_dup(r->arena, ty_str_of(key)), .is_list = json_is_array(value), .count = 1};
    ty_err err = TY_OK;
    if (m->parameter_count == NN_MAX_PARAMETERS)
        return nn_fail(r, "more than %d parameters", NN_MAX_PARAMETERS);
    size_t count = p.is_list ? json_array_size(value) : 1;
    if (count == 0 || count > NN_MAX_LIST)
        return nn_fail(r, "must have 1 to %d numbers", NN_MAX_LIST);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        const json_t *one = p.is_list ? json_array_get(value, i) : value;
        if (json_is_number(one))
            p.numbers[i] = json_number_value(one);
        else
            err = nn_fail(r, "must be a number or a list of numbers");
    }
    p.count = count;
    if (err == TY_OK)
        m->parameters[m->parameter_count++] = p;
    return err;
}

static ty_err parameters_read(struct nn_reader *r, const json_t *section)
{
    const char *key;
    json_t *value;
    ty_err err = TY_OK;
    if (section == NULL)
        return TY_OK;
    nn_enter(r, "parameters");
    if (!json_is_object(section))
        err = nn_fail(r, "must be a mapping (name: number)");
    else
        json_object_foreach ((json_t *)section, key, value) {
            nn_enter(r, key);
            err = parameter_read(r, key, value);
            nn_leave(r);
            if (err != TY_OK)
                break;
        }
    nn_leave(r);
    return err;
}

static ty_err setting_apply(struct nn_model *m, const struct nn_setting *s)
{
    for (size_t i = 0; i < m->ignored_count; i++)
        if (ty_str_eq(m->ignored[i], s->name))
            return TY_OK;
    struct nn_parameter *p = (struct nn_parameter *)nn_parameter_find(m, s->name), given;
    if (p == NULL) {
        struct ty_buf b;
        ty_buf_init(&b, 1000);
        for (size_t i = 0; i < m->parameter_count; i++)
            ty_buf_addf(&b, "%s--%s", i ? ", " : "", m->parameters[i].name.ptr);
        ty_err err = ty_fail(TY_NOT_FOUND,
                             "the model has no parameter '" TY_STR_FMT "'; its parameters are %s",
                             TY_STR_ARG(s->name), b.len ? b.ptr : "none");
        ty_buf_clear(&b);
        return err;
    }
    given = *p;
    ty_err err = numbers_split(s->value, &given);
    if (err == TY_OK && !p->is_list && given.count > 1)
        err = ty_fail(TY_INVALID_ARGUMENT, "one number is wanted");
    if (err != TY_OK)
        return ty_wrap(err, "--" TY_STR_FMT, TY_STR_ARG(s->name));
    *p = given;
    return TY_OK;
}

/* ---- input ---- */

static const char *const COLUMN_TYPES[] = {"float", "int", "string", "skip", NULL};

static ty_err default_read(struct nn_reader *r, const json_t *object, struct csv_column *c)
{
    double number = 0;
    c->required = json_object_get(object, "default") == NULL;
    if (c->required || c->type == CSV_SKIP)
        return TY_OK;
    if (c->type == CSV_STRING) {
        const json_t *value = json_object_get(object, "default");
        if (json_is_string(value)) {
            c->default_str = ty_str_dup(r->arena, ty_str_of(json_string_value(value)));
            return TY_OK;
        }
        nn_enter(r, "default");
        ty_err err = nn_fail(r, "must be a text, as the column is");
        nn_leave(r);
        return err;
    }
    ty_err err = nn_read_number(r, object, "default", true, -1e18, 1e18, &number);
    c->default_float = (float)number;
    c->default_int = (int64_t)number;
    return err;
}

static ty_err column_read(struct nn_reader *r, const json_t *object)
{
    static const char *const keys[] = {"name", "type", "default", NULL};
    static const enum nn_type types[] = {NN_FLOAT, NN_INT, NN_STRING, NN_STRING};
    struct nn_model *m = r->model;
    struct csv_column c = {0};
    int type = 0;
    ty_err err = nn_keys_check(r, object, keys);
    if (err == TY_OK)
        err = nn_read_str(r, object, "name", true, &c.name);
    if (err == TY_OK)
        err = nn_read_word(r, object, "type", COLUMN_TYPES, &type);
    c.type = (enum csv_type)type;
    if (err == TY_OK)
        err = default_read(r, object, &c);
    for (size_t i = 0; i < m->column_count && err == TY_OK; i++)
        if (ty_str_eq(m->columns[i].name, c.name))
            err = nn_fail(r, "two columns are named '%s'", c.name.ptr);
    if (err != TY_OK)
        return err;
    m->columns[m->column_count++] = c;
    m->values[m->value_count++] = (struct nn_value){.name = c.name, .type = types[type]};
    return TY_OK;
}

static ty_err columns_read(struct nn_reader *r, const json_t *list)
{
    ty_err err = TY_OK;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > NN_MAX_VALUES)
        return nn_fail(r, "must be a list of 1 to %d columns", NN_MAX_VALUES);
    r->model->columns = ty_new_array(r->arena, struct csv_column, json_array_size(list));
    for (size_t i = 0; i < json_array_size(list) && err == TY_OK; i++) {
        nn_enter_index(r, i);
        err = column_read(r, json_array_get(list, i));
        nn_leave(r);
    }
    return err;
}

static ty_err table_read(struct nn_reader *r, const json_t *input)
{
    static const char *const keys[] = {"columns", "format", "header", "separator", NULL};
    ty_str separator = TY_STR(",");
    ty_err err = nn_keys_check(r, input, keys);
    if (err == TY_OK)
        err = nn_read_bool(r, input, "header", &r->model->header);
    if (err == TY_OK && r->model->records && r->model->header)
        err = nn_fail(r, "'header' is for csv");
    if (err == TY_OK)
        err = nn_read_str(r, input, "separator", false, &separator);
    if (err == TY_OK && (separator.len != 1 || strchr("\"\r\n", separator.ptr[0]) != NULL))
        err = nn_fail(r, "'separator' must be one character, no quote or line end");
    r->model->separator = separator.ptr[0];
    if (err == TY_OK) {
        nn_enter(r, "columns");
        err = columns_read(r, json_object_get(input, "columns"));
        nn_leave(r);
    }
    return err;
}

static ty_err images_read(struct nn_reader *r, const json_t *input)
{
    static const char *const keys[] = {"format", "height",           "width",      "channels",
                                       "resize", "validation_split", "split_seed", NULL};
    static const char *const methods[] = {"bilinear", "nearest", NULL};
    struct nn_images *i = &r->model->images;
    int64_t height = 0, width = 0, channels = 3, seed = 0;
    int method = 0;
    ty_err err = nn_keys_check(r, input, keys);
    if (err == TY_OK)
        err = nn_read_int(r, input, "height", true, 1, NN_MAX_SIDE, &height);
    if (err == TY_OK)
        err = nn_read_int(r, input, "width", true, 1, NN_MAX_SIDE, &width);
    if (err == TY_OK)
        err = nn_read_int(r, input, "channels", false, 1, 3, &channels);
    if (err == TY_OK && channels == 2)
        err = nn_fail(r, "'channels' is 1 (grey) or 3 (colour)");
    if (err == TY_OK)
        err = nn_read_word(r, input, "resize", methods, &method);
    if (err == TY_OK)
        err = nn_read_number(r, input, "validation_split", false, 0, 0.99, &i->validation_split);
    if (err == TY_OK)
        err = nn_read_int(r, input, "split_seed", false, 0, UINT32_MAX, &seed);
    i->height = (size_t)height;
    i->width = (size_t)width;
    i->channels = (size_t)channels;
    i->nearest = method == 1;
    i->split_seed = (uint32_t)seed;
    return err;
}

static ty_err input_read(struct nn_reader *r, const json_t *input)
{
    static const char *const formats[] = {"csv", "tfrecord", "images", NULL};
    int format = 0;
    if (input == NULL)
        return nn_fail(r, "'input' is missing");
    nn_enter(r, "input");
    ty_err err = nn_read_word(r, input, "format", formats, &format);
    r->model->records = format == 1;
    if (err == TY_OK)
        err = format == 2 ? images_read(r, input) : table_read(r, input);
    nn_leave(r);
    return err;
}

/* ---- all of it ---- */

static ty_err sections_read(struct nn_reader *r, const json_t *root,
                            const struct nn_setting *settings, size_t setting_count)
{
    static const char *const keys[] = {
        "name", "parameters", "ignored_flags", "input",    "features", "network",
        "wide", "head",       "heads",         "training", NULL};
    ty_err err = nn_keys_check(r, root, keys);
    if (err == TY_OK)
        err = nn_read_str(r, root, "name", true, &r->model->name);
    if (err == TY_OK)
        err = parameters_read(r, json_object_get(root, "parameters"));
    if (err == TY_OK && json_object_get(root, "ignored_flags"))
        err = nn_read_names(r, root, "ignored_flags", r->model->ignored, NN_MAX_PARAMETERS,
                            &r->model->ignored_count);
    for (size_t i = 0; i < setting_count && err == TY_OK; i++)
        err = setting_apply(r->model, &settings[i]);
    if (err == TY_OK)
        err = input_read(r, json_object_get(root, "input"));
    if (err == TY_OK)
        err = nn_read_features(r, json_object_get(root, "features"));
    if (err == TY_OK)
        err = nn_read_heads(r, root);
    if (err == TY_OK)
        err = nn_read_network(r, root);
    if (err == TY_OK)
        err = nn_heads_connect(r, root);
    if (err == TY_OK)
        err = nn_read_training(r, json_object_get(root, "training"));
    return err;
}

ty_err nn_model_parse(struct ty_arena *a, const char *path, ty_str text,
                      const struct nn_setting *settings, size_t setting_count,
                      struct nn_model **ret_model)
{
    json_t *root = NULL;
    if (text.len > NN_MODEL_BYTES)
        return ty_fail(TY_INVALID_ARGUMENT, "%s: a model file has at most %d bytes", path,
                       NN_MODEL_BYTES);
    ty_err err = wire_yaml_parse(text, &root);
    if (err != TY_OK)
        return ty_wrap(err, "%s", path);
    struct nn_model *m = ty_new(a, struct nn_model);
    m->text = ty_str_dup(a, text);
    struct nn_reader r = {.arena = a, .path = path, .text = m->text, .model = m};
    err = sections_read(&r, root, settings, setting_count);
    json_decref(root);
    if (err == TY_OK)
        *ret_model = m;
    return err;
}
