/* model_training.c -- the section training: optimizers, sizes, checkpoints, metrics. */
#include "nn/nn_int.h"

#include <math.h>

static const char *const SCHEDULES[] = {"constant", "exponential", "step", "cosine", NULL};

static ty_err schedule_read(struct nn_reader *r, const json_t *object, struct nn_optimizer *o)
{
    static const char *const keys[] = {"type", "rate", "steps", NULL};
    const json_t *value = json_object_get(object, "schedule");
    int type = 0;
    if (value == NULL)
        return TY_OK;
    nn_enter(r, "schedule");
    ty_err err = nn_keys_check(r, value, keys);
    if (err == TY_OK)
        err = nn_read_word(r, value, "type", SCHEDULES, &type);
    o->schedule = (enum nn_schedule)type;
    o->decay_rate = type == NN_COSINE ? 0.0f : 0.9f;
    if (err == TY_OK)
        err = nn_read_float(r, value, "rate", 0, 1, &o->decay_rate);
    if (err == TY_OK)
        err = nn_read_int(r, value, "steps", false, 0, INT32_MAX, &o->decay_steps);
    nn_leave(r);
    return err;
}

/* Defaults are Keras 2.15's. */
static void optimizer_defaults(struct nn_optimizer *o)
{
    bool is_adagrad = ty_str_is(o->kind, "adagrad"), is_sgd = ty_str_is(o->kind, "sgd");
    o->learning_rate = is_sgd ? 0.01f : 0.001f;
    o->beta1 = 0.9f;
    o->beta2 = 0.999f;
    o->epsilon = 1e-7f;
    o->rho = 0.9f;
    o->power = -0.5f;
    o->initial = is_adagrad || ty_str_is(o->kind, "ftrl") ? 0.1f : 0.0f;
}

/* Beside the fields that all have. */
enum { OWN_FIELDS = 5 };
static const char *const FIELDS[][OWN_FIELDS] = {
#define OPTIMIZER(name, first, second, step, idle, ...) {__VA_ARGS__},
#include "nn/optimizers.def"
#undef OPTIMIZER
};
static const char *const OPTIMIZERS[] = {
#define OPTIMIZER(name, ...) #name,
#include "nn/optimizers.def"
#undef OPTIMIZER
    NULL};

/* Which optimizer, and has it all the fields that are given? */
static ty_err optimizer_kind_read(struct nn_reader *r, const json_t *object, ty_str *ret_kind)
{
    static const char *const keys[] = {"type", "learning_rate", "weight_decay", "schedule", "lazy"};
    const char *all[TY_COUNT(keys) + OWN_FIELDS + 1] = {0};
    int kind = 0;
    ty_err err = json_is_object(object) ? nn_read_str(r, object, "type", true, ret_kind)
                                        : nn_fail(r, "must be a mapping, such as {type: adam}");
    if (err == TY_OK)
        err = nn_read_word(r, object, "type", OPTIMIZERS, &kind);
    if (err != TY_OK)
        return err;
    memcpy(all, keys, sizeof keys);
    memcpy(all + TY_COUNT(keys), FIELDS[kind], sizeof FIELDS[kind]);
    return nn_keys_check(r, object, all);
}

static ty_err optimizer_read(struct nn_reader *r, const json_t *training, const char *key,
                             struct nn_optimizer *o)
{
    const json_t *object = json_object_get(training, key);
    if (object == NULL)
        return TY_OK;
    const struct {
        const char *key;
        double least, most;
        float *to;
    } numbers[] = {{"learning_rate", 0, 1e6, &o->learning_rate},
                   {"beta1", 0, 0.999999, &o->beta1},
                   {"beta2", 0, 0.999999, &o->beta2},
                   {"epsilon", 0, 1, &o->epsilon},
                   {"rho", 0, 1, &o->rho},
                   {"momentum", 0, 1, &o->momentum},
                   {"power", -1, 0, &o->power},
                   {"l1", 0, 1e6, &o->l1},
                   {"l2", 0, 1e6, &o->l2},
                   {"initial", 0, 1e6, &o->initial},
                   {"weight_decay", 0, 1, &o->weight_decay}};
    nn_enter(r, key);
    ty_err err = optimizer_kind_read(r, object, &o->kind);
    if (err == TY_OK)
        optimizer_defaults(o);
    for (size_t i = 0; i < TY_COUNT(numbers) && err == TY_OK; i++)
        err = nn_read_float(r, object, numbers[i].key, numbers[i].least, numbers[i].most,
                            numbers[i].to);
    if (err == TY_OK)
        err = nn_read_bool(r, object, "nesterov", &o->nesterov);
    if (err == TY_OK)
        err = nn_read_bool(r, object, "lazy", &o->lazy);
    if (err == TY_OK)
        err = schedule_read(r, object, o);
    nn_leave(r);
    return err;
}

/* Of a single head they may be here; else each head has its own, or the usual one. */
static ty_err metrics_read(struct nn_reader *r, const json_t *training)
{
    static const char *const by_type[] = {"mse", "accuracy", "accuracy"};
    struct nn_head *first = &r->model->heads[0];
    ty_err err = TY_OK;
    if (json_object_get(training, "metrics") && r->model->head_count > 1)
        err = nn_fail(r, "'metrics' belong to each of the heads");
    else if (json_object_get(training, "metrics"))
        err = nn_read_metrics(r, training, first);
    for (size_t i = 0; i < r->model->head_count; i++) {
        struct nn_head *h = &r->model->heads[i];
        if (h->metric_count == 0)
            h->metrics[h->metric_count++] = ty_str_of(by_type[h->type]);
    }
    return err;
}

static ty_err sizes_read(struct nn_reader *r, const json_t *training, struct nn_training *t)
{
    const struct {
        const char *key;
        int64_t least, most, *to;
    } numbers[] = {{"batch_size", 1, 1 << 20, &t->batch_size},
                   {"epochs", 1, 1 << 20, &t->epochs},
                   {"examples", 0, (int64_t)1 << 50, &t->examples},
                   {"seed", 0, (int64_t)1 << 52, &t->seed},
                   {"shards", 1, NN_MAX_SHARDS, &t->shards},
                   {"shuffle_window", 0, INT32_MAX, &t->shuffle_window},
                   {"keep_checkpoints", 0, 1000, &t->keep_checkpoints},
                   {"patience", 0, 1 << 20, &t->patience},
                   {"plateau", 0, 1 << 20, &t->plateau}};
    ty_err err = TY_OK;
    for (size_t i = 0; i < TY_COUNT(numbers) && err == TY_OK; i++)
        err = nn_read_int(r, training, numbers[i].key, false, numbers[i].least, numbers[i].most,
                          numbers[i].to);
    double steps = 0; /* may be a fraction: 800 / 128 is 6 */
    if (err == TY_OK)
        err = nn_read_number(r, training, "steps", false, 0, UINT32_MAX, &steps);
    t->steps = (int64_t)steps;
    if (err == TY_OK)
        err = nn_read_number(r, training, "passes", false, 0, 1 << 20, &t->passes);
    if (err == TY_OK)
        err = nn_read_float(r, training, "clip_norm", 0, 1e9, &t->clip_norm);
    if (err == TY_OK)
        err = nn_read_float(r, training, "plateau_factor", 0, 1, &t->plateau_factor);
    return err;
}

ty_err nn_read_training(struct nn_reader *r, const json_t *training)
{
    static const char *const keys[] = {
        "optimizer",        "wide_optimizer", "batch_size",     "epochs",
        "examples",         "steps",          "passes",         "seed",
        "shards",           "shuffle",        "shuffle_window", "bad_rows",
        "keep_checkpoints", "keep_best",      "patience",       "plateau",
        "plateau_factor",   "clip_norm",      "metrics",        NULL};
    static const char *const bad_rows[] = {"error", "skip", NULL};
    struct nn_training *t = &r->model->training;
    int bad = 0;
    *t = (struct nn_training){.optimizer = {.kind = TY_STR("adam")},
                              .wide = {.kind = TY_STR("ftrl")},
                              .batch_size = 32,
                              .epochs = 1,
                              .shards = 4,
                              .shuffle = true,
                              .keep_checkpoints = 3,
                              .plateau_factor = 0.1f};
    optimizer_defaults(&t->optimizer);
    optimizer_defaults(&t->wide);
    if (training == NULL)
        return metrics_read(r, NULL);
    nn_enter(r, "training");
    ty_err err = nn_keys_check(r, training, keys);
    if (err == TY_OK)
        err = optimizer_read(r, training, "optimizer", &t->optimizer);
    if (err == TY_OK)
        err = optimizer_read(r, training, "wide_optimizer", &t->wide);
    if (err == TY_OK)
        err = sizes_read(r, training, t);
    if (err == TY_OK)
        err = nn_read_bool(r, training, "shuffle", &t->shuffle);
    if (err == TY_OK)
        err = nn_read_bool(r, training, "keep_best", &t->keep_best);
    if (err == TY_OK)
        err = nn_read_word(r, training, "bad_rows", bad_rows, &bad);
    t->skip_bad_rows = bad == 1;
    if (err == TY_OK)
        err = metrics_read(r, training);
    nn_leave(r);
    return err;
}
