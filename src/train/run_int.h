/* run_int.h -- one run, and what the files that carry it out share.
 *
 *   loop.c       a run from begin to end, in step
 *   loop_ps.c    at its own pace, with parameter servers
 *   evaluator.c  not trained at all: each checkpoint is evaluated
 * All of it belongs to the thread that called train_run. */
#ifndef TY_TRAIN_RUN_INT_H
#define TY_TRAIN_RUN_INT_H

#include "train/train_int.h"

struct run {
    const struct train_options *options; /* paths are of this machine */
    struct train_cluster cluster;
    struct train_output output; /* held by the chief */
    bool begins_anew;           /* it goes on from no checkpoint */
    bool anew;                  /* and has none yet: what an earlier run left is still there */
    struct ty_arena arena;
    struct nn_model *model;
    struct tensor_team *team;
    struct together together;
    struct train_data train, valid;
    bool has_valid;
    struct nn_net *net;
    struct train_optimizer *optimizer;
    _Atomic size_t room; /* for examples in memory */
    struct train_feed *feed, *valid_feed;
    uint64_t evaluations;
    struct metrics metrics, valid_metrics;
    struct train_state state;
    bool was_finished; /* before it began */
    struct train_checkpoints checkpoints;
    struct report report;
    struct curves curves;
    int64_t steps_per_epoch;
    int64_t began_ns;
    size_t examples; /* since then */
    size_t eval_rows;
    float *labels; /* (eval_rows, heads), of the batch */

    /* ---- with parameter servers ---- */
    struct train_ps *ps; /* NULL: there are none */
    int64_t joined_step; /* the shared one when this worker came */
    uint64_t position;   /* of this worker in its share of the data: its steps */
    size_t epoch_steps;  /* of them, in this epoch of the shared step */
    bool pulled;         /* what the batch at `position` reads is here: it came with a push */
    struct nn_batch batch;
};

/* ---- loop.c ---- */

extern volatile sig_atomic_t run_stopped; /* the signal that came; 0: none */
const char *run_stopped_name(void);

bool run_is_chief(const struct run *r);
bool run_is_evaluator(const struct run *r);
const char *run_curves_dir(struct run *r);
TY_NODISCARD ty_err run_model_load(struct run *r);
/* One folder of classes; a share of it validates if there is no other to do so. */
TY_NODISCARD ty_err run_images_load(struct run *r);
uint64_t run_seed(const struct run *r);
/* What the chief, and whoever is in step with it, goes on from; the chief's curves. */
TY_NODISCARD ty_err run_outputs_open(struct run *r);
/* A batch was computed: what it adds to the metrics; whether its loss is a number. */
void run_batch_count(struct run *r, const struct nn_batch *b, const struct nn_outputs *out);
bool run_loss_is_finite(const struct nn_batch *b, const struct nn_outputs *out);
/* One pass over the evaluation's rows, in their order; metrics see batches of the batch size. */
TY_NODISCARD ty_err run_evaluate(struct run *r);
/* Evaluate, report, save. *ret_over: it was the last epoch. */
TY_NODISCARD ty_err run_epoch_end(struct run *r, int64_t steps, bool *ret_over);
/* A signal ended it: the chief leaves a checkpoint. TY_CANCELLED says so. */
TY_NODISCARD ty_err run_interrupted(struct run *r, int signal_number);

/* ---- loop_ps.c ---- */

/* A ps task, until the chief says that all is over. */
TY_NODISCARD ty_err run_ps_serve(struct run *r);
/* A chief or worker meets the servers, which know how far the run is. */
TY_NODISCARD ty_err run_ps_join(struct run *r);
/* All steps that this one makes. */
TY_NODISCARD ty_err run_ps_steps(struct run *r);
/* The model is exported: the servers may go. */
TY_NODISCARD ty_err run_ps_end(struct run *r);

/* ---- evaluator.c ---- */

/* Evaluate each checkpoint that appears, until the last. */
TY_NODISCARD ty_err run_evaluations(struct run *r);

#endif
