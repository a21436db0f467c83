/* loop.c -- a run from begin to end.
 *
 * A step: take rows, bring the table rows that they read up to date, forward, backward, update. All
 * that a step depends on is in a checkpoint, and the rows it takes are a function of its number, so
 * a run that was killed and goes on makes the same steps.
 *
 * With a crew (together.c) every worker runs this loop: the same batches, of which the net computes
 * this worker's shards; the same sums, so the same weights, metrics and decisions. The chief alone
 * writes files and lines. With parameter servers the begin and the end are these, the steps are
 * loop_ps.c's; an evaluator makes none (evaluator.c). */
#include "train/run_int.h"

#include <math.h>

enum { EVAL_ROWS = 4096, EVAL_FLOATS = 1 << 24 };
static const char BEST[] = "best";

/* ---- signals ---- */

volatile sig_atomic_t run_stopped;

static void stop(int signal_number)
{
    run_stopped = signal_number;
}

const char *run_stopped_name(void)
{
    return run_stopped == SIGINT ? "SIGINT" : "SIGTERM";
}

static void signals_set(struct sigaction *before)
{
    struct sigaction action = {.sa_handler = stop};
    sigemptyset(&action.sa_mask);
    run_stopped = 0;
    sigaction(SIGTERM, &action, &before[0]);
    sigaction(SIGINT, &action, &before[1]);
}

static void signals_restore(const struct sigaction *before)
{
    sigaction(SIGTERM, &before[0], NULL);
    sigaction(SIGINT, &before[1], NULL);
}

/* ---- roles ---- */

/* Of TF_CONFIG's cluster, or of mpirun's ranks, which are a cluster of one to TF_CONFIG. */
bool run_is_chief(const struct run *r)
{
    return r->cluster.is_chief && crew_rank(r->together.crew) == 0;
}

bool run_is_evaluator(const struct run *r)
{
    return r->cluster.role == TRAIN_EVALUATOR;
}

/* Who this process is. */
static ty_err role_choose(struct run *r, const struct train_options *o,
                          enum train_strategy *ret_strategy)
{
    ty_err err = train_cluster_parse(&r->arena, ty_str_of(o->tf_config), &r->cluster);
    if (err == TY_OK)
        err = train_strategy_choose(&r->cluster, o->strategy, ret_strategy);
    const char *flag = o->bounded     ? "--staleness"
                       : o->ps_listen ? "--ps_listen"
                       : o->ps_trace  ? "--ps_trace"
                       : o->ps_wait_s ? "--ps_wait"
                                      : NULL;
    if (err == TY_OK && flag && *ret_strategy != TRAIN_PARAMETER_SERVER)
        err = ty_fail(TY_INVALID_ARGUMENT, "%s is for --strategy parameter_server, and this is %s",
                      flag, train_strategy_name(*ret_strategy));
    if (err == TY_OK && run_is_evaluator(r) && o->output_dir == NULL)
        err = ty_fail(TY_INVALID_ARGUMENT, "%s needs --output_dir: where the checkpoints are",
                      r->cluster.name);
    return err;
}

/* With whom it trains. */
static ty_err role_join(struct run *r, struct train_options *o, enum train_strategy strategy)
{
    if (strategy == TRAIN_PARAMETER_SERVER)
        return r->cluster.role == TRAIN_PS ? TY_OK
                                           : train_ps_open(o, &r->cluster, &run_stopped, &r->ps);
    if (run_is_evaluator(r))
        return TY_OK;
    return together_join(&r->together, &r->arena, &r->cluster, strategy, o, &run_stopped);
}

/* Where this worker writes; NULL: nowhere. */
static const char *output_of(const struct run *r)
{
    return run_is_chief(r) ? r->options->output_dir : NULL;
}

/* The folder, before anybody is waited for if it is known to be the chief's, else after. */
static ty_err output_take(struct run *r, const char *name)
{
    int rank = 0, size;
    bool known = r->together.crew || !crew_under_mpi(&rank, &size) || rank == 0;
    if (!known || output_of(r) == NULL || r->output.lock_fd >= 0)
        return TY_OK;
    return output_open(&r->output, &r->arena, r->options->output_dir, name);
}

/* ---- begin ---- */

ty_err run_model_load(struct run *r)
{
    const struct train_options *o = r->options;
    ty_str text = ty_str_of(o->model_text);
    const char *path = o->model ? o->model : "model";
    if (o->model_text == NULL) {
        text = train_builtin(o->model);
        if (text.ptr == NULL) {
            ty_err err = ty_file_read(AT_FDCWD, o->model, NN_MODEL_BYTES, &r->arena, &text);
            if (err == TY_NOT_FOUND)
                return ty_fail(TY_NOT_FOUND,
                               "there is no model '%s': neither a file nor one of those that "
                               "'trainyard train --list' shows",
                               o->model);
            if (err != TY_OK)
                return err;
        }
    }
    ty_err err = nn_model_parse(&r->arena, path, text, o->settings, o->setting_count, &r->model);
    if (err != TY_OK)
        return err;
    if (o->train_count == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "--train_data_path is needed: files to train on");
    if (o->shards > 0)
        r->model->training.shards = o->shards;
    return TY_OK;
}

uint64_t run_seed(const struct run *r)
{
    return (uint64_t)(r->options->seed >= 0 ? r->options->seed : r->model->training.seed);
}

static void data_say(const struct run *r, const struct train_data *d, const char *what,
                     int64_t began)
{
    double ms = (double)(ty_boot_ns() - began) / 1e6;
    if (!r->options->quiet && d->pictures)
        printf("%zu images to %s, found in %.0f ms\n", d->rows.count, what, ms);
    else if (!r->options->quiet)
        printf("%zu rows to %s, %zu files, %.1f MB read in %.0f ms%s\n", d->rows.count, what,
               d->files, (double)d->bytes / 1e6, ms,
               d->source ? "; more than fit in memory: read again in each pass" : "");
    if (d->bad_rows > 0)
        fprintf(stderr, "%zu bad %s were skipped; the first: %s\n", d->bad_rows,
                d->pictures ? "images" : "rows", d->first_bad);
}

ty_err run_images_load(struct run *r)
{
    const struct train_options *o = r->options;
    bool split = o->eval_count == 0 && r->model->images.validation_split > 0;
    struct train_data *sets[] = {&r->train, &r->valid};
    int64_t began = ty_boot_ns();
    if (o->train_count > 1 || o->eval_count > 1)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "images are in one folder, with a folder for each class; %zu were named",
                       o->train_count > 1 ? o->train_count : o->eval_count);
    ty_err err = train_pictures_load(r->model, &r->arena, o->train_paths[0], split, &r->room,
                                     &r->train, &r->valid);
    if (err == TY_OK && o->eval_count > 0)
        err = train_pictures_load(r->model, &r->arena, o->eval_paths[0], false, &r->room, &r->valid,
                                  NULL);
    r->has_valid = split || o->eval_count > 0;
    for (size_t i = 0; i < (r->has_valid ? 2 : 1) && err == TY_OK; i++) {
        if (r->model->training.skip_bad_rows)
            train_pictures_check(sets[i], r->team);
        sets[i]->id = fingerprint64(
            (ty_str){(const char *)sets[i]->rows.labels, sets[i]->rows.count * sizeof(float)});
        if (sets[i]->rows.count == 0)
            err = ty_fail(TY_INVALID_ARGUMENT, "no image can be read; the first: %s",
                          sets[i]->first_bad);
        else
            data_say(r, sets[i], i ? "evaluate" : "train", began);
    }
    return err;
}

static ty_err data_load(struct run *r)
{
    const struct train_options *o = r->options;
    int64_t began = ty_boot_ns();
    r->room = o->cache_bytes ? o->cache_bytes : train_room_default();
    if (r->model->images.height > 0)
        return run_images_load(r);
    ty_err err = train_data_measure(r->model, o->train_paths, o->train_count, r->team);
    if (err == TY_OK)
        err =
            train_data_load(r->model, o->train_paths, o->train_count, r->team, &r->room, &r->train);
    if (err != TY_OK)
        return err;
    data_say(r, &r->train, "train", began);
    r->has_valid = o->eval_count > 0;
    if (!r->has_valid)
        return TY_OK;
    began = ty_boot_ns();
    err = train_data_load(r->model, o->eval_paths, o->eval_count, r->team, &r->room, &r->valid);
    if (err == TY_OK)
        data_say(r, &r->valid, "evaluate", began);
    return err;
}

const char *run_curves_dir(struct run *r)
{
    const struct train_options *o = r->options;
    return o->log_dir ? o->log_dir : ty_format(&r->arena, "%s/tensorboard", o->output_dir);
}

/* This run has something of its own: checkpoints and curves of an earlier one can go. */
static ty_err earlier_forget(struct run *r)
{
    if (!r->anew)
        return TY_OK;
    r->anew = false;
    ty_err err = train_checkpoints_forget(&r->checkpoints);
    return err == TY_OK ? curves_forget(&r->curves, run_curves_dir(r)) : err;
}

/* Servers that have begun go on, and so does their chief without --resume. What is of another run,
 * or further than the servers are, was there before this one: workers may begin before the chief
 * has set it aside. */
static ty_err checkpoint_load(struct run *r)
{
    const struct train_state begin = r->state;
    bool resume = r->options->resume;
    if (!resume && r->joined_step == 0)
        return TY_OK;
    ty_err err =
        train_checkpoint_load(&r->checkpoints, r->net, r->optimizer, &r->metrics, &r->state);
    if (r->ps && (err == TY_OK ? r->state.step > r->joined_step
                               : !resume && err == TY_FAILED_PRECONDITION)) {
        metrics_reset(&r->metrics);
        r->state = begin;
        return TY_OK;
    }
    if (err == TY_OK && !r->options->quiet)
        printf("resumed after step %" PRId64 "\n", r->state.step);
    return err == TY_NOT_FOUND ? TY_OK : err;
}

/* The chief first: what it cannot go on from it clears away, so the others find what it found. */
ty_err run_outputs_open(struct run *r)
{
    const struct train_options *o = r->options;
    struct crew *crew = r->together.crew;
    ty_err err = TY_OK;
    if (o->output_dir == NULL)
        return TY_OK;
    if (run_is_chief(r))
        err = output_check(&r->output);
    if (err == TY_OK && run_is_chief(r))
        err = checkpoint_load(r);
    if (err == TY_OK && run_is_chief(r) && r->state.step == 0) {
        r->begins_anew = r->anew = true;
        err = train_checkpoints_set_aside(&r->checkpoints);
    }
    if (err == TY_OK && crew)
        err = crew_meet(crew, "the chief's look for checkpoints");
    if (err == TY_OK && !run_is_chief(r))
        err = checkpoint_load(r);
    if (err == TY_OK && crew)
        err = crew_agree(crew, "checkpoint in --output_dir", (uint64_t)r->state.step);
    if (err == TY_OK && run_is_chief(r))
        err = curves_open(&r->curves, run_curves_dir(r), r->has_valid, r->net);
    return err;
}

/* What is better known before a run than after it. */
static void begin_say(const struct run *r, const struct train_length *length)
{
    struct ty_buf b;
    if (r->options->quiet)
        return;
    ty_buf_init(&b, 4096);
    train_length_print(length, r->train.rows.count, &b);
    if (r->train.source)
        train_window_print(r->feed->order.window, train_source_piece(r->train.source), &b);
    if (r->options->output_dir == NULL)
        ty_buf_addz(&b, "There is no --output_dir: nothing will be kept\n");
    if (b.len > 0)
        fputs(b.ptr, stdout);
    ty_buf_clear(&b);
}

size_t train_rows_fit(const struct nn_model *m, size_t batch)
{
    size_t width = 1;
    for (size_t i = 0; i < m->layer_count; i++)
        width += m->layers[i].channels * (m->layers[i].height ? m->layers[i].height : 1) *
                 (m->layers[i].width ? m->layers[i].width : 1);
    size_t rows = EVAL_FLOATS / width;
    rows = rows > EVAL_ROWS ? EVAL_ROWS : rows;
    return rows > batch ? rows / batch * batch : batch;
}

/* The trainers of parameter servers have a share of the data each. */
static ty_err feeds_open(struct run *r, bool endless)
{
    const struct nn_training *t = &r->model->training;
    struct train_share share = {0, 1};
    int threads = tensor_team_threads(r->team);
    if (r->ps && !run_is_evaluator(r))
        share = (struct train_share){r->cluster.rank, r->cluster.trainers};
    if (r->train.rows.count < share.of)
        return ty_fail(TY_INVALID_ARGUMENT, "%zu workers, and only %zu rows to train on", share.of,
                       r->train.rows.count);
    r->labels = ty_new_array(&r->arena, float, r->eval_rows * r->model->head_count);
    r->feed = train_feed_new_share(r->model, &r->train, share, (size_t)t->batch_size, t->shuffle,
                                   endless, run_seed(r), threads);
    r->feed->net = r->net;
    if (!r->has_valid)
        return TY_OK;
    r->valid_feed =
        train_feed_new(r->model, &r->valid, r->eval_rows, false, false, run_seed(r), threads);
    r->valid_feed->net = r->net;
    return TY_OK;
}

static ty_err weights_init(struct run *r)
{
    const struct train_options *o = r->options;
    size_t count;
    if (o->init_from == NULL)
        return TY_OK;
    ty_err err = train_weights_load(o->init_from, r->net, &count);
    if (err == TY_OK && !o->quiet)
        printf("%zu tensors from '%s'\n", count, o->init_from);
    return err == TY_OK ? together_agree_weights(&r->together, r->net) : err;
}

static ty_err run_begin(struct run *r)
{
    const struct train_options *o = r->options;
    ty_err err = run_model_load(r);
    if (err != TY_OK)
        return err;
    const struct nn_layer *obstacle = nn_export_obstacle(r->model);
    if (obstacle && o->output_dir && !o->no_export)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "the layer '%s' cannot be exported, so this model needs --no_export",
                       obstacle->name.ptr);
    const struct nn_training *t = &r->model->training;
    uint64_t seed = run_seed(r);
    size_t batch = (size_t)t->batch_size;
    r->eval_rows = train_rows_fit(r->model, batch);
    err = together_check(&r->together, t->shards);
    metrics_init(&r->arena, &r->metrics, r->model);
    metrics_init(&r->arena, &r->valid_metrics, r->model);
    if (err == TY_OK)
        err = data_load(r);
    r->checkpoints.run = train_identity(r->model, r->train.id, seed);
    if (err == TY_OK)
        err = together_agree(&r->together, &r->checkpoints.run, r->valid.id, o);
    if (err == TY_OK)
        err = nn_net_new(r->model, r->eval_rows, (size_t)t->shards, seed, r->team, r->together.crew,
                         &r->net);
    if (err == TY_OK)
        err = together_begin(&r->together, r->net, o->quiet);
    if (err != TY_OK)
        return err;
    struct train_length length = train_length(t, r->train.rows.count);
    err = feeds_open(r, length.field != NULL);
    if (err != TY_OK)
        return err;
    r->steps_per_epoch = length.steps_per_epoch;
    begin_say(r, &length);
    r->optimizer = train_optimizer_new(r->net, r->steps_per_epoch * t->epochs);
    err = weights_init(r);
    if (err != TY_OK)
        return err;
    r->state = (struct train_state){.best_loss = INFINITY, .rate_scale = 1};
    r->checkpoints.dir = train_checkpoints_dir(&r->arena, o);
    r->checkpoints.keep = t->keep_checkpoints > 0 ? t->keep_checkpoints : 1;
    report_init(&r->report, o->quiet, t->epochs, r->steps_per_epoch, batch);
    if (run_is_evaluator(r))
        return TY_OK;
    if (r->ps)
        return run_ps_join(r);
    err = run_outputs_open(r);
    return err == TY_OK ? train_optimizer_unite(r->optimizer) : err;
}

/* ---- steps and epochs ---- */

static void labels_copy(struct run *r, const struct nn_batch *b)
{
    size_t each = r->model->head_count;
    for (size_t i = 0; i < b->count; i++) {
        size_t row = b->pick ? b->pick[i] : b->first + i;
        for (size_t k = 0; k < each; k++) /* few: no call, so that many rows are fetched at once */
            r->labels[i * each + k] = b->rows->labels[row * each + k];
    }
}

void run_batch_count(struct run *r, const struct nn_batch *b, const struct nn_outputs *out)
{
    labels_copy(r, b);
    metrics_add(&r->metrics, r->model, out, 0, r->labels, b->count);
    r->examples += b->count;
}

bool run_loss_is_finite(const struct nn_batch *b, const struct nn_outputs *out)
{
    float sum = 0;
    for (size_t i = 0; i < b->count; i++)
        sum += out->losses[i];
    return isfinite(sum);
}

static ty_err step_run(struct run *r)
{
    struct nn_batch b;
    together_phase(&r->together, r->state.step, PHASE_DATA);
    ty_err err = train_feed_take(r->feed, (uint64_t)r->state.step, &b);
    if (err != TY_OK)
        return err;
    b.step = (uint64_t)r->state.step;
    b.training = true;
    train_optimizer_ready(r->optimizer, &b);
    together_phase(&r->together, r->state.step, PHASE_FORWARD);
    nn_net_tell(r->net, run_stopped);
    struct nn_outputs out = nn_net_forward(r->net, &b);
    together_phase(&r->together, r->state.step, PHASE_BACKWARD);
    nn_net_backward(r->net);
    together_phase(&r->together, r->state.step, PHASE_UPDATE);
    err = nn_net_state(r->net);
    if (err != TY_OK)
        return err;
    train_optimizer_step(r->optimizer, (float)r->state.rate_scale);
    err = nn_net_state(r->net); /* a checkpoint of half an update would be none */
    if (err != TY_OK)
        return err;
    r->state.step++;
    run_batch_count(r, &b, &out);
    if (run_loss_is_finite(&b, &out))
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "the loss of step %" PRId64 " is not finite: a smaller learning rate, "
                   "clip_norm or scaled inputs may help",
                   r->state.step);
}

ty_err run_evaluate(struct run *r)
{
    size_t batch = (size_t)r->model->training.batch_size, heads = r->model->head_count;
    size_t batches = train_feed_batches(r->valid_feed);
    ty_err err = TY_OK;
    train_optimizer_settle(r->optimizer);
    metrics_reset(&r->valid_metrics);
    for (size_t at = 0; at < batches && err == TY_OK; at++) {
        struct nn_batch b;
        err = train_feed_take(r->valid_feed, r->evaluations * batches + at, &b);
        if (err != TY_OK)
            break;
        struct nn_outputs out = nn_net_forward(r->net, &b);
        labels_copy(r, &b);
        for (size_t i = 0; i < b.count; i += batch)
            metrics_add(&r->valid_metrics, r->model, &out, i, r->labels + i * heads,
                        b.count - i < batch ? b.count - i : batch);
    }
    r->evaluations++;
    return err == TY_OK ? nn_net_state(r->net) : err;
}

/* Patience and plateau look at the validation's loss, or at the training's if there is none. */
static bool epoch_judge(struct run *r, bool *ret_better)
{
    const struct nn_training *t = &r->model->training;
    const struct metrics *m = r->has_valid ? &r->valid_metrics : &r->metrics;
    double loss = metric_value(&m->list[0]);
    *ret_better = loss < r->state.best_loss;
    r->state.bad_epochs++;
    if (*ret_better) {
        r->state.best_loss = loss;
        r->state.best_epoch = r->state.epoch;
        r->state.bad_epochs = 0;
    }
    if (t->plateau > 0 && r->state.bad_epochs > 0 && r->state.bad_epochs % t->plateau == 0)
        r->state.rate_scale *= (double)t->plateau_factor;
    return t->patience > 0 && r->state.bad_epochs >= t->patience;
}

static ty_err checkpoint(struct run *r)
{
    if (output_of(r) == NULL || r->model->training.keep_checkpoints == 0)
        return TY_OK;
    ty_err err =
        train_checkpoint_save(&r->checkpoints, r->net, r->optimizer, &r->metrics, &r->state, NULL);
    return err == TY_OK ? earlier_forget(r) : err;
}

static ty_err best_save(struct run *r)
{
    if (output_of(r) == NULL)
        return TY_OK;
    return train_checkpoint_save(&r->checkpoints, r->net, r->optimizer, &r->metrics, &r->state,
                                 BEST);
}

ty_err run_epoch_end(struct run *r, int64_t steps, bool *ret_over)
{
    bool better;
    const struct metrics *valid = r->has_valid ? &r->valid_metrics : NULL;
    ty_err err = together_epoch_end(&r->together, steps, r->options->quiet);
    if (err == TY_OK && valid)
        err = run_evaluate(r);
    if (err != TY_OK)
        return err;
    report_epoch_end(&r->report, steps, &r->metrics, valid);
    if (output_of(r))
        err = output_keep(&r->output);
    if (err == TY_OK && output_of(r))
        err = curves_epoch(&r->curves, r->state.epoch, &r->metrics, valid);
    if (err == TY_OK && output_of(r))
        err = curves_replicas(&r->curves, r->state.epoch, &r->together);
    if (err == TY_OK && output_of(r) && r->options->histograms) {
        train_optimizer_settle(r->optimizer);
        err = curves_weights(&r->curves, r->state.epoch, r->net);
    }
    r->state.epoch++;
    bool enough = epoch_judge(r, &better);
    *ret_over = enough || r->state.epoch == r->model->training.epochs;
    r->state.finished = *ret_over;
    if (enough && !r->options->quiet)
        printf("no better loss for %" PRId64 " epochs: stopped\n", r->state.bad_epochs);
    if (err == TY_OK && better && r->model->training.keep_best)
        err = best_save(r);
    if (err == TY_OK)
        err = checkpoint(r);
    return err;
}

ty_err run_interrupted(struct run *r, int signal_number)
{
    ty_err err = checkpoint(r);
    if (err != TY_OK)
        return err;
    return ty_fail(TY_CANCELLED, "stopped by %s after step %" PRId64 "%s",
                   signal_number == SIGINT ? "SIGINT" : "SIGTERM", r->state.step,
                   r->options->output_dir ? "; --resume goes on from there" : "");
}

static ty_err epochs_run(struct run *r)
{
    ty_err err = TY_OK;
    bool over = r->state.finished || r->state.epoch >= r->model->training.epochs;
    r->began_ns = ty_boot_ns();
    while (!over && err == TY_OK) {
        int64_t first = r->state.epoch * r->steps_per_epoch;
        if (r->state.step == first)
            metrics_reset(&r->metrics);
        report_epoch_begin(&r->report, r->state.epoch);
        together_epoch_begin(&r->together);
        while (r->state.step < first + r->steps_per_epoch && err == TY_OK) {
            if (r->options->stop_at_step > 0 && r->state.step + 1 == r->options->stop_at_step)
                run_stopped = SIGTERM;
            err = step_run(r);
            if (err == TY_OK && nn_net_told(r->net))
                return run_interrupted(r, nn_net_told(r->net));
            report_step(&r->report, r->state.epoch, r->state.step - first, &r->metrics);
        }
        if (err == TY_OK)
            err = run_epoch_end(r, r->state.step - first, &over);
    }
    return err;
}

/* ---- end ---- */

/* With keep_best the weights of the best epoch are the model; here they take the place of the last
 * ones, which are in the last checkpoint. Of the chief alone: nothing is computed after it. */
static void best_load(struct run *r)
{
    size_t count;
    int64_t best = r->state.best_epoch;
    if (!r->model->training.keep_best || best == r->state.epoch || best == 0)
        return;
    if (train_weights_load(ty_format(&r->arena, "%s/%s", r->checkpoints.dir, BEST), r->net,
                           &count) != TY_OK)
        fprintf(stderr, "the best epoch was %" PRId64 ", but the last one is exported: %s\n", best,
                ty_err_message());
    else if (!r->options->quiet)
        printf("The best epoch was %" PRId64 ", with a loss of %.6g: its weights are exported\n",
               best, r->state.best_loss);
}

static ty_err export(struct run *r, struct train_result *result)
{
    const char *stamp, *name = r->output.name;
    best_load(r);
    ty_err err = output_export(&r->output, r->net, r->begins_anew, &stamp);
    if (err != TY_OK)
        return err;
    snprintf(result->export_dir, sizeof result->export_dir, "%s/export/savedmodel/%s",
             r->output.dir, stamp);
    if (!r->options->quiet)
        printf("The model is in %s%sexport/savedmodel/%s\n", name,
               ty_str_ends(ty_str_of(name), TY_STR("/")) ? "" : "/", stamp);
    return TY_OK;
}

/* A finished run that is resumed had nothing to do: is its model there? Another run's would be
 * older than its last checkpoint. */
static bool exported_before(struct run *r, struct train_result *result)
{
    const char *stamp = train_export_find(
        &r->arena, ty_format(&r->arena, "%s/export/savedmodel", r->options->output_dir),
        ty_format(&r->arena, "%s/checkpoint", r->checkpoints.dir));
    if (!r->was_finished || stamp == NULL)
        return false;
    snprintf(result->export_dir, sizeof result->export_dir, "%s/export/savedmodel/%s",
             r->options->output_dir, stamp);
    if (!r->options->quiet)
        printf("Its model is there: export/savedmodel/%s\n", stamp);
    return true;
}

static ty_err run_all(struct run *r, struct train_result *result)
{
    ty_err err = run_begin(r);
    r->was_finished = r->state.finished;
    if (err == TY_OK && r->was_finished && !r->options->quiet)
        printf("The run had finished after step %" PRId64 ": there is nothing to go on with\n",
               r->state.step);
    if (err == TY_OK && !r->options->quiet) {
        struct nn_param *params;
        size_t count = nn_net_params(r->net, &params), all = 0;
        for (size_t i = 0; i < count; i++)
            all += params[i].count;
        printf("%s: %zu parameters, %d threads%s\n", r->model->name.ptr, all,
               tensor_team_threads(r->team),
               r->model->training.optimizer.lazy ? "; lazy: rows without a gradient are not updated"
                                                 : "");
    }
    if (err == TY_OK)
        err = run_is_evaluator(r) ? run_evaluations(r) : r->ps ? run_ps_steps(r) : epochs_run(r);
    if (err != TY_OK)
        return err;
    train_optimizer_settle(r->optimizer);
    double seconds = (double)(ty_boot_ns() - r->began_ns) / 1e9;
    result->steps = r->state.step;
    result->loss = metric_value(&r->metrics.list[0]);
    result->val_loss = metric_value(&r->valid_metrics.list[0]);
    double examples =
        r->ps ? (double)(r->state.step - r->joined_step) * (double)r->model->training.batch_size
              : (double)r->examples; /* of all, not only of the chief */
    result->examples_per_second = run_is_chief(r) ? examples / seconds : 0;
    if (r->options->plot && !r->options->quiet && run_is_chief(r))
        report_plot(&r->report);
    if (output_of(r))
        err = output_keep(&r->output);
    if (err == TY_OK && r->options->plot && output_of(r))
        err = train_plot(&r->report, ty_format(&r->arena, "%s/curves.png", r->options->output_dir));
    if (err == TY_OK)
        err = earlier_forget(r);
    if (err == TY_OK && output_of(r) && !r->options->no_export && !exported_before(r, result))
        err = export(r, result);
    if (err == TY_OK && r->ps)
        err = run_ps_end(r);
    return err == TY_OK ? together_end(&r->together) : err;
}

/* A run that failed before it had a checkpoint gives back those that it found. */
static void outputs_close(struct run *r, ty_err err)
{
    char *why = r->anew ? ty_err_take() : NULL; /* stays this thread's message */
    if (r->anew && train_checkpoints_put_back(&r->checkpoints) != TY_OK)
        log_warn("checkpoints.set_aside", "%s", ty_err_message());
    if (why)
        (void)!ty_fail(err, "%s", why);
    free(why);
    output_close(&r->output);
}

/* The options with paths of this machine in place of gs:// names. */
static ty_err options_local(struct ty_arena *a, const struct train_options *from,
                            struct train_options *to)
{
    ty_err err = TY_OK;
    *to = *from;
    for (size_t i = 0; i < to->train_count && err == TY_OK; i++)
        err = train_path(a, from->train_paths[i], &to->train_paths[i]);
    for (size_t i = 0; i < to->eval_count && err == TY_OK; i++)
        err = train_path(a, from->eval_paths[i], &to->eval_paths[i]);
    if (err == TY_OK && from->output_dir)
        err = train_path(a, from->output_dir, &to->output_dir);
    if (err == TY_OK && from->checkpoint_dir)
        err = train_path(a, from->checkpoint_dir, &to->checkpoint_dir);
    if (err == TY_OK && from->log_dir)
        err = train_path(a, from->log_dir, &to->log_dir);
    if (err == TY_OK && from->ps_dir)
        err = train_path(a, from->ps_dir, &to->ps_dir);
    if (err == TY_OK && from->init_from)
        err = train_path(a, from->init_from, &to->init_from);
    if (err == TY_OK && from->model)
        err = train_path(a, from->model, &to->model);
    return err;
}

static ty_err options_say(const struct train_options *o, ty_err err)
{
    const char *others[] = {o->output_dir, o->checkpoint_dir, o->log_dir,
                            o->ps_dir,     o->init_from,      o->model};
    err = train_names_say(err, o->train_paths, o->train_count);
    err = train_names_say(err, o->eval_paths, o->eval_count);
    return train_names_say(err, others, TY_COUNT(others));
}

ty_err train_run(const struct train_options *options, struct train_result *ret_result)
{
    struct run r = {.curves = {.fd = {-1, -1}}, .output = {.lock_fd = -1}};
    struct train_result result = {0};
    struct sigaction before[2];
    struct train_options *o = ty_new(&r.arena, struct train_options);
    r.options = o;
    signals_set(before);
    nn_flush_denormals();
    ty_err err = options_local(&r.arena, options, o);
    enum train_strategy strategy;
    if (err == TY_OK)
        err = role_choose(&r, o, &strategy);
    if (err == TY_OK)
        err = output_take(&r, options->output_dir);
    if (err == TY_OK)
        err = role_join(&r, o, strategy);
    if (err == TY_OK) {
        r.together.silent = options->quiet;
        if (r.cluster.role == TRAIN_CHIEF || r.cluster.role == TRAIN_WORKER)
            together_say(&r.together, &r.cluster,
                         train_strategy_name(r.together.crew ? TRAIN_MULTI_WORKER : strategy));
        err = output_take(&r, options->output_dir);
    }
    r.team = tensor_team_new(o->threads);
    if (err == TY_OK)
        err = r.cluster.role == TRAIN_PS ? run_ps_serve(&r) : run_all(&r, &result);
    together_leave(&r.together, err);
    train_ps_close(r.ps);
    curves_close(&r.curves);
    outputs_close(&r, err);
    report_clear(&r.report);
    train_feed_free(r.feed);
    train_feed_free(r.valid_feed);
    train_optimizer_free(r.optimizer);
    nn_net_free(r.net);
    train_data_clear(&r.train);
    train_data_clear(&r.valid);
    tensor_team_free(r.team);
    ty_arena_clear(&r.arena);
    signals_restore(before);
    if (err == TY_OK)
        *ret_result = result;
    return err == TY_OK ? TY_OK : options_say(options, err);
}
