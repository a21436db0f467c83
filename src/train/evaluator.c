/* evaluator.c -- the evaluator of a cluster: it evaluates each checkpoint that the chief leaves in
 * the output folder, oldest first, and ends with the last.
 *
 * It has no part in the training and holds nobody up: it reads the chief's files, which appear
 * whole, and writes tensorboard/eval. With parameter servers it sends signs of life, and so knows
 * whether anybody is there to wait for. */
#include "train/run_int.h"

/* When the list of checkpoints was written; 0: there is none. */
static int64_t checkpoints_time(const struct run *r)
{
    struct stat st;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/checkpoint", r->checkpoints.dir);
    if (stat(path, &st) != 0)
        return 0;
    return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

/* The checkpoints that have not been evaluated, oldest first. */
static ty_err checkpoints_evaluate(struct run *r, int64_t *last)
{
    struct train_state state = {0};
    ty_err err;
    while ((err = train_checkpoint_after(&r->checkpoints, r->net, r->optimizer, &r->metrics, &state,
                                         *last)) == TY_OK) {
        *last = state.step;
        r->state = state;
        err = run_evaluate(r);
        if (err == TY_OK && r->curves.fd[1] < 0) /* a chief that begins clears older ones */
            err = curves_open_eval(&r->curves, run_curves_dir(r));
        if (err == TY_OK)
            err = curves_epoch(&r->curves, state.step, NULL, &r->valid_metrics);
        if (err != TY_OK)
            return err;
        if (!r->options->quiet) {
            printf("step %" PRId64, state.step);
            for (size_t i = 0; i < r->valid_metrics.count; i++)
                printf(" - %s: %.4f", r->valid_metrics.list[i].name,
                       metric_value(&r->valid_metrics.list[i]));
            printf("\n");
            fflush(stdout);
        }
    }
    if (err != TY_NOT_FOUND)
        return err;
    /* one that was evaluated may have been written again, as the last */
    err = train_checkpoint_load(&r->checkpoints, r->net, r->optimizer, &r->metrics, &state);
    r->state.finished = err == TY_OK && state.finished && state.step <= *last;
    return err == TY_NOT_FOUND ? TY_OK : err;
}

/* A signal. The replicas of a job are told to stop when its chief has finished, and then the last
 * checkpoint is still to be evaluated. */
static ty_err evaluator_stopped(struct run *r, int64_t *last)
{
    struct train_state state = {0};
    ty_err err = train_checkpoint_load(&r->checkpoints, r->net, r->optimizer, &r->metrics, &state);
    if (err == TY_OK && state.finished)
        err = checkpoints_evaluate(r, last);
    if (err == TY_OK && r->state.finished)
        return TY_OK;
    if (err != TY_OK && err != TY_NOT_FOUND)
        return err;
    return ty_fail(TY_CANCELLED, "%s: stopped by %s", r->cluster.name, run_stopped_name());
}

/* Nothing new: who is waited for, and is it still there? */
static ty_err evaluator_wait(struct run *r, int64_t waited_ms, int64_t *told_ms)
{
    enum { TELL_MS = 20000, MOST_MS = 3600 * 1000 };
    size_t server = 0;
    int64_t silent = r->ps ? ps_client_silence(train_ps_client(r->ps), &server) : 0;
    if (silent > 3 * train_ps_wait_ms(r->options) || waited_ms > MOST_MS)
        return ty_fail(TY_UNAVAILABLE, "%s: no new checkpoint in '%s' for %.0f s%s: given up",
                       r->cluster.name, r->checkpoints.dir, (double)waited_ms / 1e3,
                       silent > PS_SILENT_MS ? ", and the parameter servers are silent" : "");
    if (waited_ms - *told_ms > TELL_MS) {
        log_info("evaluator.waits", "%s: no new checkpoint for %.0f s%s", r->cluster.name,
                 (double)waited_ms / 1e3,
                 silent > PS_SILENT_MS ? "; the parameter servers are silent"
                 : r->state.step == 0  ? "; there is none yet: is the chief there?"
                                       : "");
        *told_ms = waited_ms;
    }
    return TY_OK;
}

/* Evaluate each checkpoint that appears, until the last. A list from before this process began may
 * be an earlier run's: it counts once it has been left alone for a while. */
ty_err run_evaluations(struct run *r)
{
    enum { LOOK_MS = 200, OLD_MS = 10000 };
    int64_t last = -1, seen = 0, began_ns = ty_now_ns(), changed = ty_boot_ms(), told = 0;
    ty_err err = TY_OK;
    if (!r->has_valid)
        return ty_fail(TY_INVALID_ARGUMENT, "%s needs --eval_data_path: what it evaluates on",
                       r->cluster.name);
    r->began_ns = ty_boot_ns();
    if (!r->options->quiet) {
        printf("%s: waits for checkpoints in %s\n", r->cluster.name, r->checkpoints.dir);
        fflush(stdout);
    }
    while (err == TY_OK && !r->state.finished && !run_stopped) {
        int64_t time = checkpoints_time(r), now = ty_boot_ms();
        bool old = time < began_ns && now - changed < OLD_MS;
        if (time != 0 && time != seen && !old) {
            seen = time;
            changed = now;
            told = 0;
            err = checkpoints_evaluate(r, &last);
            continue;
        }
        err = evaluator_wait(r, now - changed, &told);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
    return err == TY_OK && !r->state.finished ? evaluator_stopped(r, &last) : err;
}
