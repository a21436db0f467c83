/* train.h -- training: data, the loop, optimizers, metrics, checkpoints, curves, export,
 * prediction.
 *
 * train_run does what `trainyard train` does: reads the files once into rows of features, trains as
 * the model file says, evaluates after each epoch, and leaves in the output folder
 *   checkpoints/      TensorFlow bundles with everything that a run needs to go on
 *   tensorboard/      event files of both curves
 *   export/savedmodel/<time>/   a SavedModel that TensorFlow loads
 *
 * The weights that come out depend on the model, the data, the batch size, the shards and the seed;
 * not on threads, and not on how often the run was stopped and resumed.
 *
 * Where to start: train_run in loop.c. Who frees: train_run and train_predict free what they made.
 * Threads: one run at a time in a process: SIGTERM and SIGINT are its own while it runs.
 * Errors: TY_INVALID_ARGUMENT for the model file, options and data (with file and line),
 * TY_CANCELLED after a signal, TY_DATA_LOSS for torn checkpoints and exports, TY_ABORTED for a file
 * that changed while it was read, TY_FAILED_PRECONDITION if another run holds the output folder.
 * One test: build/test_train resume/is_exact. */
#ifndef TY_TRAIN_H
#define TY_TRAIN_H

#include "nn/nn.h"

enum { TRAIN_MAX_PATHS = 4096, TRAIN_MAX_SETTINGS = 64 };

struct train_options {
    const char *model;      /* a built-in model's name, or a file */
    const char *model_text; /* instead: the text itself */
    const char *train_paths[TRAIN_MAX_PATHS], *eval_paths[TRAIN_MAX_PATHS]; /* may be patterns */
    size_t train_count, eval_count;                                         /* eval may be 0 */
    const char *output_dir;               /* NULL: nothing is written */
    const char *checkpoint_dir, *log_dir; /* NULL: output_dir/checkpoints, output_dir/tensorboard */
    const char *init_from;                /* a checkpoint's prefix: first values by name; NULL */
    struct nn_setting settings[TRAIN_MAX_SETTINGS];
    size_t setting_count;
    int devices;           /* of mirrored; 0: 2 */
    int64_t shards;        /* that a batch is cut into; 0: the model file's */
    int threads;           /* 0: one a CPU */
    size_t cache_bytes;    /* of examples in memory, at most; 0: half of what is free */
    bool resume;           /* go on from the last checkpoint, if there is one */
    bool quiet;            /* no lines on stdout */
    bool plot;             /* draw the curves at the end, also as output_dir/curves.png */
    bool histograms;       /* of all weights, after each epoch, for TensorBoard */
    bool no_export;        /* no SavedModel */
    int64_t seed;          /* -1: the model file's */
    const char *tf_config; /* who the replicas are: JSON, as TensorFlow has it; NULL: just this */
    const char *strategy;  /* one_device, mirrored, multi_worker, parameter_server; NULL: by it */
    bool bounded;          /* parameter_server: is there a staleness? */
    int64_t staleness;     /* steps that a worker may be ahead of the slowest */
    const char *ps_dir;    /* where ps tasks keep their state; NULL: output_dir/ps */
    const char *ps_listen; /* where a ps task listens if not at its address; NULL */
    const char *ps_trace;  /* files FILE.ps-0, FILE.worker-1: what happened; NULL */
    int64_t ps_wait_s;     /* how long a silent peer is waited for; 0: 20 */
    int stop_at_step;      /* for tests: as if SIGTERM came after that step; 0: never */
};
struct train_result {
    int64_t steps;
    double loss, val_loss;      /* of the last epoch */
    double examples_per_second; /* of all workers, told to the chief; 0: this is another */
    char export_dir[PATH_MAX];  /* "" if there is none */
};
TY_NODISCARD ty_err train_run(const struct train_options *o, struct train_result *ret_result);

/* The built-in models, by name; NULL if there is none of that name. */
ty_str train_builtin(const char *name);
void train_builtin_list(struct ty_buf *b);

/* Predict with the SavedModel in `model_dir` for each row of the files (CSV or JSON lines), or for
 * each image, of files and of folders; "-" is stdin. An object a line goes to fd, in order. */
TY_NODISCARD ty_err train_predict(const char *model_dir, const char *const *paths, size_t count,
                                  int threads, int fd);
/* Signature, layers and parameters of an exported model. */
TY_NODISCARD ty_err train_show(const char *model_dir, struct ty_buf *b);

/* The commands: what follows their words. Return the exit status. */
int train_command(int argc, char **argv);
int train_predict_command(int argc, char **argv);
int train_show_command(int argc, char **argv);

#endif
