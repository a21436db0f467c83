/* loop_ps.c -- a run with parameter servers, of each who takes part in it.
 *
 * A worker takes rows of its own share of the data, pulls the weights that they read, computes, and
 * pushes gradients: at its own pace, which only --staleness bounds. Epochs are of the shared step,
 * the servers' count of updates. The chief is a worker that also looks at the weights after each
 * epoch: it evaluates, saves and exports as a run alone does (loop.c). The servers have the weights
 * and the optimizer, so who dies loses nothing that was acknowledged (ps/ps.h). */
#include "train/run_int.h"

/* ---- a ps task ---- */

/* A ps task has no data and computes no example: a net of one is enough for the weights. */
ty_err run_ps_serve(struct run *r)
{
    const struct train_options *o = r->options;
    ty_err err = run_model_load(r);
    if (err == TY_OK && r->model->images.height > 0) /* its folders name the classes */
        err = run_images_load(r);
    if (err != TY_OK)
        return err;
    err = nn_net_new(r->model, 1, 1, run_seed(r), r->team, NULL, &r->net);
    if (err != TY_OK)
        return err;
    r->optimizer = train_optimizer_new(r->net, 1);
    size_t count;
    if (o->init_from)
        err = train_weights_load(o->init_from, r->net, &count);
    if (err == TY_OK)
        err = train_ps_serve(o, &r->cluster, r->net, r->optimizer, run_seed(r), &run_stopped);
    return err;
}

/* ---- a worker's steps ---- */

ty_err run_ps_join(struct run *r)
{
    struct ps_joined joined;
    struct ps_run run = {.id = train_identity_sum(&r->checkpoints.run),
                         .steps = (uint64_t)(r->steps_per_epoch * r->model->training.epochs)};
    train_ps_settings(r->options, &r->checkpoints.run, run.settings);
    ty_err err = train_ps_join(r->ps, r->net, r->optimizer, &run,
                               (size_t)r->model->training.batch_size, &joined);
    if (err != TY_OK)
        return err;
    r->joined_step = (int64_t)joined.step;
    r->position = joined.pushes;
    together_apart(&r->together, &r->arena, &r->cluster, train_ps_client(r->ps),
                   r->options->bounded);
    if (joined.step > 0 && !r->options->quiet)
        printf("%s: joins at step %" PRIu64 "\n", r->cluster.name, joined.step);
    if (run_is_chief(r))
        err = run_outputs_open(r);
    r->state.step = r->joined_step; /* of a checkpoint only what the servers do not have counts */
    return err;
}

/* The next batch's values are pulled with the push of this one, but not by a chief that is about to
 * look at the weights: others would count on a step that it begins much later. */
static bool may_pull_ahead(const struct run *r)
{
    int64_t end = (r->state.epoch + 1) * r->steps_per_epoch;
    return !r->options->bounded &&
           !(run_is_chief(r) && r->state.step + (int64_t)r->cluster.trainers >= end);
}

static ty_err step_push(struct run *r, bool *ret_over)
{
    struct nn_batch *next = may_pull_ahead(r) ? &r->batch : NULL;
    together_phase(&r->together, r->state.step, PHASE_DATA);
    ty_err err = next ? train_feed_take(r->feed, r->position, next) : TY_OK;
    together_phase(&r->together, r->state.step, PHASE_UPDATE);
    if (err == TY_OK)
        err = train_ps_push(r->ps, (float)r->state.rate_scale, next, &r->state.step, ret_over);
    r->pulled = next != NULL;
    return err;
}

static ty_err step_pull(struct run *r, bool *ret_over)
{
    if (r->pulled)
        return TY_OK;
    together_phase(&r->together, r->state.step, PHASE_DATA);
    ty_err err = train_feed_take(r->feed, r->position, &r->batch);
    together_phase(&r->together, r->state.step, PHASE_UPDATE);
    return err == TY_OK ? train_ps_pull(r->ps, &r->batch, ret_over) : err;
}

/* A step at this worker's own pace. *ret_over: none is left. */
static ty_err step_run(struct run *r, bool *ret_over)
{
    struct nn_batch *b = &r->batch;
    ty_err err = step_pull(r, ret_over);
    if (err != TY_OK || *ret_over)
        return err;
    together_phase(&r->together, r->state.step, PHASE_FORWARD);
    train_ps_begin(r->ps);
    b->step = r->position * r->cluster.trainers + r->cluster.rank;
    b->training = true;
    struct nn_outputs out = nn_net_forward(r->net, b);
    together_phase(&r->together, r->state.step, PHASE_BACKWARD);
    nn_net_backward(r->net);
    if (!run_loss_is_finite(b, &out))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%s: the loss after step %" PRId64 " is not finite: a smaller learning "
                       "rate, clip_norm or scaled inputs may help",
                       r->cluster.name, r->state.step);
    train_optimizer_clip(r->optimizer);
    if (r->epoch_steps++ == 0) /* one without steps of this worker's own has those before it */
        metrics_reset(&r->metrics);
    run_batch_count(r, b, &out);
    r->position++;
    return step_push(r, ret_over);
}

/* An epoch of the shared step is over, or several are: the chief looks at the weights. */
static ty_err epoch_end(struct run *r, bool *ret_over)
{
    int64_t epochs = r->model->training.epochs, first = r->state.epoch * r->steps_per_epoch;
    ty_err err = together_epoch_apart(&r->together, (int64_t)r->epoch_steps, true);
    if (err == TY_OK)
        err = train_ps_fetch(r->ps, r->optimizer, &r->state.step);
    if (err != TY_OK)
        return err;
    r->pulled = false; /* others go on meanwhile: what it had would be old */
    int64_t complete = r->state.step / r->steps_per_epoch;
    complete = complete > epochs ? epochs : complete;
    if (r->state.epoch < complete - 1)
        r->state.epoch = complete - 1;
    int64_t steps = r->state.step - first; /* others may have made some of the next epoch */
    err = run_epoch_end(r, steps < r->steps_per_epoch ? steps : r->steps_per_epoch, ret_over);
    if (err == TY_OK && *ret_over)
        err = ps_client_stop(train_ps_client(r->ps));
    else if (err == TY_OK)
        err = ps_client_keep(train_ps_client(r->ps));
    return err;
}

/* Of a worker that is not the chief: what it did. With the last step the servers may be gone. */
static ty_err worker_epoch_end(struct run *r, bool over)
{
    if (r->epoch_steps > 0)
        report_epoch_end(&r->report, r->steps_per_epoch, &r->metrics, NULL);
    r->state.epoch = r->state.step / r->steps_per_epoch;
    return over ? TY_OK : together_epoch_apart(&r->together, (int64_t)r->epoch_steps, false);
}

/* A signal: the chief leaves a checkpoint, everybody says so and goes. */
static ty_err interrupted(struct run *r)
{
    enum { HURRY_MS = 4000 };
    ty_err err = TY_OK;
    ps_client_hurry(train_ps_client(r->ps), HURRY_MS);
    if (run_is_chief(r))
        err = train_ps_fetch(r->ps, r->optimizer, &r->state.step);
    if (err == TY_OK)
        err = run_interrupted(r, run_stopped); /* the checkpoint, if it is the chief */
    else
        err =
            ty_fail(TY_CANCELLED,
                    "stopped by %s after step %" PRId64 ": the parameter servers keep the weights",
                    run_stopped_name(), r->state.step);
    char *message = ty_err_take();
    if (!r->options->quiet) /* the job's chief may have ended before this worker heard of it */
        train_ps_report(r->ps, r->examples);
    if (ps_client_bye(train_ps_client(r->ps)) != TY_OK)
        log_warn("ps.left", "%s", ty_err_message());
    err = ty_fail(err, "%s", message);
    free(message);
    return err;
}

ty_err run_ps_steps(struct run *r)
{
    bool chief = run_is_chief(r), over = chief && r->state.finished, fresh = true;
    ty_err err = TY_OK;
    r->began_ns = ty_boot_ns();
    while (!over && err == TY_OK && !run_stopped) {
        int64_t end = (r->state.epoch + 1) * r->steps_per_epoch;
        if (fresh) {
            if (r->state.epoch < r->model->training.epochs) /* else this step will be told so */
                report_epoch_begin(&r->report, r->state.epoch);
            r->epoch_steps = 0;
            together_epoch_begin(&r->together);
        }
        err = step_run(r, &over);
        if (r->options->stop_at_step > 0 && r->state.step >= r->options->stop_at_step)
            run_stopped = SIGTERM;
        fresh = err == TY_OK && (over || r->state.step >= end);
        if (fresh && chief) {
            err = epoch_end(r, &over);
        } else if (fresh) {
            err = worker_epoch_end(r, over);
        } else if (err == TY_OK) {
            report_step(&r->report, r->state.epoch, r->steps_per_epoch - (end - r->state.step),
                        &r->metrics);
        }
    }
    if (run_stopped && (err == TY_OK || err == TY_CANCELLED))
        return interrupted(r);
    if (err == TY_OK && !chief)
        err = ps_client_bye(train_ps_client(r->ps));
    return err;
}

ty_err run_ps_end(struct run *r)
{
    ty_err err = run_is_chief(r) ? ps_client_end(train_ps_client(r->ps)) : TY_OK;
    if (err == TY_OK && !r->options->quiet)
        train_ps_report(r->ps, r->examples);
    return err;
}
