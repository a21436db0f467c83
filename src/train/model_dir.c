/* model_dir.c -- an exported model read back: model file, parameters, weights. */
#include "train/train_int.h"

enum { SOURCE_BYTES = 8 << 20, PB_LIMIT = 1 << 30 };

static ty_err settings_read(struct ty_arena *a, const json_t *parameters,
                            struct nn_setting **ret_settings, size_t *ret_count)
{
    const char *key;
    json_t *value;
    size_t count = 0;
    struct nn_setting *list = ty_new_array(a, struct nn_setting, json_object_size(parameters) + 1);
    json_object_foreach ((json_t *)parameters, key, value) {
        if (!json_is_string(value))
            return ty_fail(TY_DATA_LOSS, "parameter '%s' is not a text", key);
        list[count++] = (struct nn_setting){ty_str_dup(a, ty_str_of(key)),
                                            ty_str_dup(a, ty_str_of(json_string_value(value)))};
    }
    *ret_settings = list;
    *ret_count = count;
    return TY_OK;
}

/* Names that folders of images gave to the classes; as many as there are classes, or none. */
static void classes_read(struct ty_arena *a, const json_t *list, struct nn_head *h)
{
    size_t count = h->type == NN_BINARY ? 2 : h->class_count;
    ty_str *names = ty_new_array(a, ty_str, count);
    if (!json_is_array(list) || json_array_size(list) != count)
        return;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name == NULL)
            return;
        names[i] = ty_str_dup(a, ty_str_of(name));
    }
    h->classes = names;
}

/* Mean and deviation of each normalise feature. */
static ty_err measured_read(const json_t *measured, struct nn_model *m)
{
    const char *name;
    json_t *pair;
    json_object_foreach ((json_t *)measured, name, pair) {
        double mean = json_number_value(json_array_get(pair, 0));
        double deviation = json_number_value(json_array_get(pair, 1));
        if (!(deviation > 0 && deviation < 1e38 && mean > -1e38 && mean < 1e38))
            return ty_fail(TY_DATA_LOSS, "'measured': '%s' makes no sense", name);
        for (size_t i = m->column_count; i < m->value_count; i++) {
            struct nn_value *v = &m->values[i];
            if (!ty_str_is(v->name, name))
                continue;
            v->subtract = (float)mean;
            v->divide = (float)deviation;
            v->measured = true;
        }
    }
    if (nn_measure_needed(m))
        return ty_fail(TY_DATA_LOSS, "'measured' lacks a normalise feature of the model");
    return TY_OK;
}

static ty_err source_read(struct model_dir *d, const char *dir)
{
    struct ty_arena *a = &d->arena;
    const char *path = ty_format(a, "%s/assets.extra/trainyard.json", dir);
    ty_str text;
    json_t *root = NULL;
    struct nn_setting *settings = NULL;
    size_t count = 0;
    if (access(ty_format(a, "%s/saved_model.pb", dir), R_OK) != 0)
        return ty_fail(TY_NOT_FOUND, "'%s' is no SavedModel: it has no saved_model.pb", dir);
    ty_err err = ty_file_read(AT_FDCWD, path, SOURCE_BYTES, a, &text);
    if (err == TY_NOT_FOUND)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "'%s' was not exported by trainyard train: it has no "
                       "assets.extra/trainyard.json; use TensorFlow for others",
                       dir);
    if (err == TY_OK)
        err = wire_json_parse(text, &root);
    if (err == TY_OK)
        err = settings_read(a, json_object_get(root, "parameters"), &settings, &count);
    if (err == TY_OK)
        err = nn_model_parse(a, path, ty_str_dup(a, wire_json_get_str(root, "model")), settings,
                             count, &d->model);
    if (err == TY_OK && d->model->images.height > 0 && d->model->heads[0].classes == NULL)
        classes_read(a, json_object_get(root, "classes"), &d->model->heads[0]);
    if (err == TY_OK)
        err = measured_read(json_object_get(root, "measured"), d->model);
    json_decref(root);
    return err;
}

ty_err model_dir_open(struct model_dir *d, const char *dir, size_t batch, int threads)
{
    struct nn_param *params;
    size_t found = 0;
    *d = (struct model_dir){0};
    ty_err err = train_path(&d->arena, dir, &dir);
    if (err == TY_OK)
        err = source_read(d, dir);
    if (err == TY_OK) {
        if (batch == 0)
            batch = train_rows_fit(d->model, 1);
        d->batch = batch;
        d->team = tensor_team_new(threads);
        err = nn_net_new(d->model, batch, (size_t)d->model->training.shards, 0, d->team, &d->net);
    }
    if (err == TY_OK)
        err =
            train_weights_load(ty_format(&d->arena, "%s/variables/variables", dir), d->net, &found);
    if (err == TY_OK && found != nn_net_params(d->net, &params))
        err = ty_fail(TY_DATA_LOSS, "'%s' lacks variables of its model", dir);
    if (err != TY_OK)
        model_dir_close(d);
    return err;
}

void model_dir_close(struct model_dir *d)
{
    nn_net_free(d->net);
    tensor_team_free(d->team);
    ty_arena_clear(&d->arena);
    *d = (struct model_dir){0};
}

/* ---- model show ---- */

static void tensors_print(struct ty_buf *b, const char *what, const struct saved_tensor *list,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ty_buf_addf(b, "  %-8s %-24.*s %-10s (", i ? "" : what, TY_STR_ARG(list[i].key),
                    dtype_name(list[i].dtype) + 3);
        for (int k = 0; k < list[i].shape.rank; k++) {
            if (list[i].shape.dims[k] < 0)
                ty_buf_addz(b, k ? ", any" : "batch");
            else
                ty_buf_addf(b, "%s%" PRId64, k ? ", " : "", list[i].shape.dims[k]);
        }
        ty_buf_addz(b, ")\n");
    }
}

static ty_err signatures_print(struct ty_arena *a, const char *dir, struct ty_buf *b)
{
    struct saved_model m;
    ty_str text;
    ty_err err = ty_file_read(AT_FDCWD, ty_format(a, "%s/saved_model.pb", dir), PB_LIMIT, a, &text);
    if (err == TY_OK)
        err = saved_model_parse(a, text, &m);
    if (err != TY_OK)
        return ty_wrap(err, "'%s'", dir);
    for (size_t i = 0; i < m.signature_count; i++) {
        const struct saved_signature *s = &m.signatures[i];
        ty_buf_addf(b, "signature " TY_STR_FMT "\n", TY_STR_ARG(s->key));
        tensors_print(b, "inputs", s->inputs, s->input_count);
        tensors_print(b, "outputs", s->outputs, s->output_count);
    }
    return TY_OK;
}

ty_err train_show(const char *model_dir, struct ty_buf *b)
{
    struct ty_arena a = {0};
    struct model_dir d;
    const char *path;
    ty_err err = train_path(&a, model_dir, &path);
    if (err == TY_OK)
        err = signatures_print(&a, path, b);
    ty_arena_clear(&a);
    if (err != TY_OK)
        return err;
    err = model_dir_open(&d, model_dir, 1, 1);
    if (err == TY_INVALID_ARGUMENT) { /* another program's: the signature is all that we know */
        ty_buf_addf(b, "%s\n", ty_err_message());
        return TY_OK;
    }
    if (err != TY_OK)
        return err;
    ty_buf_addf(b, "model %s\n", d.model->name.ptr);
    nn_model_print(d.net, b);
    model_dir_close(&d);
    return TY_OK;
}
