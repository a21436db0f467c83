/* train_int.h -- what the files of train share.
 *
 *   command.c    flags of the three commands
 *   builtin.c    model files in the binary
 *   room.c       how much of the data stays in memory
 *   names.c      messages with the names that the user wrote
 *   files.c      paths into files; data.c files into rows; pictures.c folders of images
 *   feed.c, feed_pictures.c, feed_stream.c   the examples of a batch; order.c which rows those are
 *   optimizer.c  steps of nn/optimizers.def, and rows of tables that wait for theirs
 *   metric.c     nn/metrics.def
 *   length.c     how many steps a run has
 *   loop.c       a run from begin to end (run_int.h); report.c what it prints; curves.c event files
 *   plot.c       the curves as a picture, drawn on a canvas.c
 *   output.c     the output folder: its lock, and what an earlier run left; checkpoint.c save and
 *                resume; identity.c is it the same run?
 *   cluster.c    TF_CONFIG: who the replicas are; together.c how they run one loop; loop_ps.c at
 *                their own pace, ps_worker.c and ps_server.c with module ps; evaluator.c
 *   export.c     a SavedModel; model_dir.c reading one back; predict.c */
#ifndef TY_TRAIN_INT_H
#define TY_TRAIN_INT_H

#include "images/images.h"
#include "ps/ps.h"
#include "train/train.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- files.c ---- */

/* A whole file. TY_ABORTED, here and below: it was changed meanwhile. */
TY_NODISCARD ty_err train_file_read(const char *path, ty_str *ret_text);
void train_file_free(ty_str text); /* {0} is fine */
/* What tells a file from what becomes of it. */
struct train_mark {
    dev_t device;
    ino_t inode;
    nlink_t links;
    size_t size;
    struct timespec modified, changed;
};
/* A regular file. */
TY_NODISCARD ty_err train_file_open(const char *path, int *ret_fd, struct train_mark *ret_mark);
TY_NODISCARD ty_err train_file_bytes(int fd, const char *path, size_t from, size_t count,
                                     char *into);
/* Is it what it was? */
TY_NODISCARD ty_err train_file_same(int fd, const char *path, const struct train_mark *mark);
/* Bytes of the file of that name, which must be what it was before and after. Any thread. */
TY_NODISCARD ty_err train_file_part(const char *path, const struct train_mark *mark, size_t from,
                                    size_t count, char *into);
/* Room for them; NULL, with the message, if there is no memory. free() it. */
char *train_bytes_new(const char *path, size_t count);
/* gs://BUCKET/NAME as the path of its file, or of the folder; anything else as it is. TY_NOT_FOUND:
 * there is no such bucket. */
TY_NODISCARD ty_err train_path(struct ty_arena *a, const char *name, const char **ret_path);
/* The files of all patterns, sorted within each. A pattern that names none is TY_NOT_FOUND. */
TY_NODISCARD ty_err train_files_find(struct ty_arena *a, const char *const *patterns, size_t count,
                                     const char ***ret_files, size_t *ret_count);
/* All files in a folder and in those below it, in no order. */
TY_NODISCARD ty_err train_folder_list(struct ty_arena *a, const char *dir, ty_str **ret_paths,
                                      size_t *ret_count);

/* ---- names.c ---- */

/* The thread's message, of `err`, with gs:// names in place of their files; NULL: no name. */
ty_err train_names_say(ty_err err, const char *const *names, size_t count);

/* ---- room.c ---- */

/* Half of the memory that is free to this process. */
size_t train_room_default(void);
/* Take bytes of what is left; false: there are not so many. Any thread. */
bool train_room_take(_Atomic size_t *room, size_t bytes);

/* ---- data.c ---- */

struct train_pictures;
struct train_source; /* files cut into pieces, which can be read again */
struct train_data {
    struct nn_rows rows;
    struct train_pictures *pictures; /* of a model of images; rows has only count and labels */
    struct train_source *source;     /* of rows that do not fit in memory; rows has only count */
    uint64_t id;                     /* of the labels: is it the data that it was? */
    size_t files, bytes, bad_rows;
    char first_bad[512]; /* what was wrong with it */
};
/* Read all files that the patterns name. A pattern that names none is TY_NOT_FOUND. `room`: bytes
 * of rows that may stay in memory; NULL: any. */
TY_NODISCARD ty_err train_data_load(const struct nn_model *m, const char *const *patterns,
                                    size_t count, struct tensor_team *team, _Atomic size_t *room,
                                    struct train_data *ret_data);
/* Rows [row, row + count) to place `at`. Any one thread. TY_ABORTED: the file has changed. */
TY_NODISCARD ty_err train_source_read(struct train_source *s, size_t row, size_t count,
                                      struct nn_rows *to, size_t at);
size_t train_source_piece(const struct train_source *s); /* rows of one, about */
void train_data_clear(struct train_data *d);
/* Is this the text of a table, and not something packed? `path` is for the message. */
TY_NODISCARD ty_err train_table_check(const char *path, ty_str text);
/* The text without a byte order mark. */
ty_str train_table_text(ty_str text);
/* Before that: mean and deviation for the model's normalise features, from the same files. */
TY_NODISCARD ty_err train_data_measure(struct nn_model *m, const char *const *patterns,
                                       size_t count, struct tensor_team *team);

/* ---- pictures.c ---- */

/* The images of a folder of classes; with `split` the model's share of them validates. Names of
 * classes are given to the model if it has none. `room`: bytes of pixels that may be kept. */
TY_NODISCARD ty_err train_pictures_load(struct nn_model *m, struct ty_arena *a, const char *root,
                                        bool split, _Atomic size_t *room,
                                        struct train_data *ret_train, struct train_data *ret_valid);
void train_pictures_free(struct train_pictures *p);
/* Decode all; leave out and count those that cannot be. */
void train_pictures_check(struct train_data *d, struct tensor_team *team);
size_t train_picture_floats(const struct nn_model *m);
/* A file's bytes, or a file, into pixels of the model's size. */
TY_NODISCARD ty_err train_picture_decode(const struct nn_model *m, ty_str file,
                                         struct image_room *room, float *into);
TY_NODISCARD ty_err train_picture_read(const struct nn_model *m, const char *path,
                                       struct image_room *room, float *into);
/* Pixels that are kept; those of any picture, decoded if need be, `into` being room for it. Any
 * thread. */
bool train_picture_kept(struct train_pictures *p, size_t index, struct nn_pixels *ret);
TY_NODISCARD ty_err train_picture_take(struct train_pictures *p, size_t index,
                                       struct image_room *room, float *into, struct nn_pixels *ret);

/* ---- order.c ---- */

/* The endless sequence of rows: pass after pass over all, each in an order of its own, window by
 * window (order.c). */
enum { TRAIN_WINDOW_BLOCKS = 16 };
struct train_order {
    size_t count, window, block; /* rows of a pass, of a window, of one of its blocks */
    size_t all, rank, of;        /* rows of the data; which of how many shares pass 0 is over */
    size_t stride;               /* from row to row of a share */
    bool shuffle;
    uint64_t seed;
    uint64_t pass; /* whose order is in `blocks` */
    uint32_t *blocks;
    uint64_t number; /* of the window whose order is in `local`, of all passes */
    uint32_t *local; /* place in the window -> row of its blocks, which lie side by side */
};
size_t train_row_bytes(const struct nn_model *m);
size_t train_window_rows(const struct nn_model *m);
void train_order_init(struct train_order *o, size_t count, size_t window, bool shuffle,
                      uint64_t seed);
void train_order_clear(struct train_order *o);
uint64_t train_order_windows(const struct train_order *o); /* of a pass */
/* Rows of places [at, at + count) of the sequence. */
void train_order_take(struct train_order *o, uint64_t at, size_t count, uint32_t *ret_rows);
/* In which window that place is, and where in it. */
size_t train_order_at(const struct train_order *o, uint64_t at, uint64_t *ret_number);
/* The first row of the share that it is of. */
size_t train_order_first(const struct train_order *o, uint64_t number);
/* Put that window's order into blocks and local; how many rows it has. */
size_t train_order_make(struct train_order *o, uint64_t number);

/* ---- feed.c ---- */

/* Batch after batch of a set, pass after pass, each in an order of its own or in the set's.
 * Endless: a batch may begin in one pass and end in the next; else the last of a pass is what is
 * left. One thread. */
struct train_feed {
    const struct nn_model *model;
    struct train_data *data;
    size_t count;             /* rows of a pass */
    const struct nn_net *net; /* which computes only some of a batch; NULL: all of it */
    size_t batch;
    bool endless;
    struct train_order order;
    uint32_t *pick;
    /* by source: the batch of that number, which begins at that place of the sequence */
    ty_err (*take)(struct train_feed *f, uint64_t number, uint64_t at, size_t count,
                   struct nn_batch *ret);
    void (*clear)(struct train_feed *f);
    void *own;
};
struct train_feed *train_feed_new(const struct nn_model *m, struct train_data *d, size_t batch,
                                  bool shuffle, bool endless, uint64_t seed, int threads);
/* The same of one of `of` shares, another one in each pass: who makes fewer steps than the others
 * does not leave out rows that nobody else has. Shares have the same number of rows, so all of them
 * have each row, and of - 1 rows at most are in two. */
struct train_share {
    size_t rank, of;
};
struct train_feed *train_feed_new_share(const struct nn_model *m, struct train_data *d,
                                        struct train_share share, size_t batch, bool shuffle,
                                        bool endless, uint64_t seed, int threads);
void train_feed_free(struct train_feed *f);
size_t train_feed_batches(const struct train_feed *f); /* of one pass */
/* Batch `number`; after the first they are asked for in order. Valid until the next call. */
TY_NODISCARD ty_err train_feed_take(struct train_feed *f, uint64_t number, struct nn_batch *ret);
/* For the sources: where in the sequence that batch begins. */
uint64_t feed_span(const struct train_feed *f, uint64_t number, size_t *ret_count);
void feed_pictures_init(struct train_feed *f, int threads);
void feed_stream_init(struct train_feed *f);

/* ---- optimizer.c ---- */

struct train_optimizer;
/* Steps in all: what schedules without a length of their own decay over. */
struct train_optimizer *train_optimizer_new(struct nn_net *n, int64_t steps);
/* All ranks have the same weights and state: the large ones become one for all (nn_net_unite). */
TY_NODISCARD ty_err train_optimizer_unite(struct train_optimizer *o);
void train_optimizer_free(struct train_optimizer *o);
/* Before a batch is computed: bring the rows of tables that it reads up to date. */
void train_optimizer_ready(struct train_optimizer *o, const struct nn_batch *b);
/* After its gradients were: one step. `scale` multiplies learning rates (plateau). */
void train_optimizer_step(struct train_optimizer *o, float scale);
/* The same in parts, for a parameter server: begin, then ranges of parameters and rows of tables,
 * each at most once. The gradient of a frozen one is what is added to it. The worker clips. */
void train_optimizer_begin(struct train_optimizer *o, float scale);
void train_optimizer_apply(struct train_optimizer *o, size_t param, size_t from, size_t count,
                           const float *grad);
void train_optimizer_apply_rows(struct train_optimizer *o, size_t param, const uint32_t *rows,
                                size_t count, const float *grad);
void train_optimizer_rows_ready(struct train_optimizer *o, size_t param, const uint32_t *rows,
                                size_t count);
void train_optimizer_clip(struct train_optimizer *o); /* gradients, as the model says */
void train_optimizer_run_steps(struct train_optimizer *o, int64_t steps); /* as in _new */
/* Bring all rows up to date: before weights are evaluated, saved or exported. */
void train_optimizer_settle(struct train_optimizer *o);
int64_t train_optimizer_steps(const struct train_optimizer *o);
/* State, for checkpoints: tensor i of a parameter; NULL if it has none. */
enum { TRAIN_SLOTS = 2 };
float *train_optimizer_slot(struct train_optimizer *o, size_t param, size_t i,
                            const char **ret_name);
/* State was read back as it was after `steps` steps, with all rows up to date. */
void train_optimizer_restored(struct train_optimizer *o, int64_t steps);

/* ---- metric.c ---- */

enum { METRIC_THRESHOLDS = 200, METRIC_DOUBLES = 2 * METRIC_THRESHOLDS + 4 };
enum { METRIC_NAME_BYTES = 240, METRICS_MOST = 1 + NN_MAX_HEADS * (NN_MAX_METRICS + 1) };
/* Sums of one metric over batches. */
struct metric {
    const struct metric_kind *kind;
    size_t head;                  /* SIZE_MAX: of all heads together */
    char name[METRIC_NAME_BYTES]; /* of several heads: fare_mse */
    double sums[METRIC_DOUBLES];
};
struct metrics {
    struct metric *list; /* the first is the loss */
    size_t count;
};
void metrics_init(struct ty_arena *a, struct metrics *m, const struct nn_model *model);
void metrics_reset(struct metrics *m);
/* A batch: rows [first, first + count) of what the net gave. labels (count, heads) begin at it. */
void metrics_add(struct metrics *m, const struct nn_model *model, const struct nn_outputs *out,
                 size_t first, const float *labels, size_t count);
double metric_value(const struct metric *m);

/* ---- identity.c ---- */

/* Another model file, other parameters (flags of the model and --shards), data or seed would not go
 * on but begin something else. */
enum { IDENTITY_MODEL, IDENTITY_PARAMETERS, IDENTITY_DATA, IDENTITY_SEED, IDENTITY_PARTS };
struct train_identity {
    uint64_t parts[IDENTITY_PARTS];
};
struct train_identity train_identity(const struct nn_model *m, uint64_t data, uint64_t seed);
const char *train_identity_text(struct ty_arena *a, const struct train_identity *id);
/* One number for the text. */
uint64_t train_identity_sum(const struct train_identity *id);
/* Is that the text of this one? TY_FAILED_PRECONDITION says in what it is another. */
TY_NODISCARD ty_err train_identity_check(struct ty_arena *a, const struct train_identity *id,
                                         ty_str text);
/* The same for one of which only the number is known. */
TY_NODISCARD ty_err train_identity_check_sum(uint64_t sum, ty_str text);

/* ---- checkpoint.c ---- */

/* What a run is, beside its weights. */
struct train_state {
    int64_t step, epoch; /* epoch: those that are over */
    double best_loss;    /* least val_loss; INFINITY before the first */
    int64_t best_epoch, bad_epochs;
    double rate_scale;
    bool finished;
};
struct train_checkpoints {
    const char *dir; /* .../checkpoints */
    int64_t keep;
    struct train_identity run; /* another's state is refused */
    uint64_t run_sum;          /* not 0: it is all that a ps task, without data, knows of it */
    bool has_best;             /* `best` is this run's */
};
/* As `name`, or, NULL, as ckpt-STEP, which is then in the list; those beyond `keep` go. */
TY_NODISCARD ty_err train_checkpoint_save(struct train_checkpoints *c, struct nn_net *n,
                                          struct train_optimizer *o, const struct metrics *m,
                                          const struct train_state *s, const char *name);
/* A run begins anew: nothing goes on from what an earlier one left. It failed before it had a
 * checkpoint: what was there is again as it was. It has one: what the earlier one left goes. */
TY_NODISCARD ty_err train_checkpoints_set_aside(const struct train_checkpoints *c);
TY_NODISCARD ty_err train_checkpoints_put_back(const struct train_checkpoints *c);
TY_NODISCARD ty_err train_checkpoints_forget(const struct train_checkpoints *c);
/* Where they are; NULL: nothing is written. */
const char *train_checkpoints_dir(struct ty_arena *a, const struct train_options *o);
/* The newest that is whole; TY_NOT_FOUND if there is none. */
TY_NODISCARD ty_err train_checkpoint_load(const struct train_checkpoints *c, struct nn_net *n,
                                          struct train_optimizer *o, struct metrics *m,
                                          struct train_state *s);
/* The oldest that is whole and of a later step; TY_NOT_FOUND if there is none. */
TY_NODISCARD ty_err train_checkpoint_after(const struct train_checkpoints *c, struct nn_net *n,
                                           struct train_optimizer *o, struct metrics *m,
                                           struct train_state *s, int64_t step);
/* Weights by name from any bundle. `strict`: each must be there, else those that are. */
TY_NODISCARD ty_err train_weights_load(const char *prefix, struct nn_net *n, size_t *ret_count);

/* ---- cluster.c ---- */

enum { TRAIN_MOST_TASKS = 1024 };
enum train_role { TRAIN_CHIEF, TRAIN_WORKER, TRAIN_PS, TRAIN_EVALUATOR, TRAIN_ROLES };
enum train_strategy {
    TRAIN_ONE_DEVICE,
    TRAIN_MIRRORED,
    TRAIN_MULTI_WORKER,
    TRAIN_PARAMETER_SERVER
};
/* The replicas of a job, and which one this is. All text is from the arena. */
struct train_cluster {
    bool alone;    /* there is no cluster: this process is all */
    bool is_chief; /* worker 0 is, if there is no chief */
    enum train_role role;
    size_t index;
    char name[48]; /* "chief", "worker 1" */
    size_t counts[TRAIN_ROLES];
    const char **addresses[TRAIN_ROLES]; /* "127.0.0.1:20000", by index */
    size_t trainers, rank; /* how many compute, and which of them this is: the chief is 0 */
    uint64_t id;           /* the same in all replicas, or their TF_CONFIGs differ */
};
const char *train_role_name(enum train_role role);
bool train_address_fits(const char *text);
/* What tells addresses apart. */
const char *train_address_key(struct ty_arena *a,
                              const char *address); /* host:port, [v6]:port; nothing is looked up */
/* The text of TF_CONFIG; "" is no cluster. TY_INVALID_ARGUMENT names the field. */
TY_NODISCARD ty_err train_cluster_parse(struct ty_arena *a, ty_str text,
                                        struct train_cluster *ret_cluster);
/* As --strategy says; `name` NULL: as the cluster is. */
const char *train_strategy_name(enum train_strategy strategy);
TY_NODISCARD ty_err train_strategy_choose(const struct train_cluster *c, const char *name,
                                          enum train_strategy *ret_strategy);

/* ---- together.c ---- */

enum train_phase { PHASE_DATA, PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE, PHASES };
/* Of one rank in one epoch. Waits for others are in forward and backward; with parameter servers in
 * the update, which is to pull and to push. */
struct train_times {
    int64_t ns[PHASES], wait_ns, steps;
};
/* The replicas of a run; all zero: it is alone. */
struct together {
    bool silent; /* --quiet */
    struct ty_arena *arena;
    struct crew *crew; /* of multi_worker; NULL: none */
    size_t devices;    /* of mirrored; 0: it is not */
    const char *const *names;
    struct nn_net *net;
    size_t ranks;                   /* whose times come together; 0: nobody's */
    struct ps_client *ps;           /* of parameter_server; NULL: none */
    bool free;                      /* its workers do not wait for each other */
    struct train_times *times, own; /* by rank, of the last epoch, in a room; this one's */
    struct train_times *judged;     /* by rank, since the slow one was last looked for */
    enum train_phase phase;
    int64_t since_ns, waited_ns;
};
/* By the strategy and mpirun. Workers that are not the chief become quiet. */
TY_NODISCARD ty_err together_join(struct together *t, struct ty_arena *a,
                                  const struct train_cluster *c, enum train_strategy strategy,
                                  struct train_options *o, const volatile sig_atomic_t *stopped);
/* Can the shards be dealt out alike? Do all ranks train the same? */
TY_NODISCARD ty_err together_check(const struct together *t, int64_t shards);
TY_NODISCARD ty_err together_agree(const struct together *t, const struct train_identity *run,
                                   uint64_t valid, const struct train_options *o);
/* With --init_from: do all begin with the same? */
TY_NODISCARD ty_err together_agree_weights(const struct together *t, struct nn_net *n);
/* One line: who this is, and with how many. */
void together_say(const struct together *t, const struct train_cluster *c, const char *strategy);
TY_NODISCARD ty_err together_begin(struct together *t, struct nn_net *n, bool quiet);
/* What the rank does from now on. */
void together_phase(struct together *t, int64_t step, enum train_phase phase);
/* Around the steps of an epoch; at their end all ranks' times come together, and the slow one is
 * named. */
void together_epoch_begin(struct together *t);
TY_NODISCARD ty_err together_epoch_end(struct together *t, int64_t steps, bool quiet);
/* The same with parameter servers, after so many steps of this rank's own; the chief tells. */
void together_apart(struct together *t, struct ty_arena *a, const struct train_cluster *c,
                    struct ps_client *ps, bool bounded);
TY_NODISCARD ty_err together_epoch_apart(struct together *t, int64_t steps, bool chief);
/* All are there; each says what it did. */
TY_NODISCARD ty_err together_end(struct together *t);
void together_leave(struct together *t, ty_err err);

/* ---- ps_worker.c ---- */

/* A trainer's side of the parameter servers; an evaluator's has only signs of life. */
struct train_ps;
TY_NODISCARD ty_err train_ps_open(const struct train_options *o, const struct train_cluster *c,
                                  const volatile sig_atomic_t *stopped, struct train_ps **ret_ps);
void train_ps_close(struct train_ps *p);
/* How long a peer that is silent is waited for. */
int64_t train_ps_wait_ms(const struct train_options *o);
/* What chief, workers and ps tasks know without the data, and must have alike (PS_SETTINGS). */
void train_ps_settings(const struct train_options *o, const struct train_identity *id,
                       uint64_t *ret_settings);
TY_NODISCARD ty_err train_ps_join(struct train_ps *p, struct nn_net *n, struct train_optimizer *o,
                                  const struct ps_run *run, size_t batch,
                                  struct ps_joined *ret_joined);
/* Before a batch is computed, what it reads, then train_ps_begin; after it, its gradients, and in
 * the same message what the next batch reads if there is one. Steps are the shared one. */
TY_NODISCARD ty_err train_ps_pull(struct train_ps *p, const struct nn_batch *b, bool *ret_over);
void train_ps_begin(struct train_ps *p);
TY_NODISCARD ty_err train_ps_push(struct train_ps *p, float scale, const struct nn_batch *next,
                                  int64_t *ret_step, bool *ret_over);
/* All weights and the optimizer's state. */
TY_NODISCARD ty_err train_ps_fetch(struct train_ps *p, struct train_optimizer *o,
                                   int64_t *ret_step);
struct ps_client *train_ps_client(struct train_ps *p);
/* The line that each replica ends with. */
void train_ps_report(struct train_ps *p, size_t examples);
void train_replica_report(const struct train_cluster *c, size_t examples, uint64_t sent,
                          uint64_t received);
/* The parameters as variables, in their order. */
struct ps_variable *train_ps_variables(struct ty_arena *a, struct nn_net *n,
                                       struct train_optimizer *o, size_t *ret_count);

/* ---- ps_server.c ---- */

/* A ps task, until the chief says that all is over. */
TY_NODISCARD ty_err train_ps_serve(const struct train_options *o, const struct train_cluster *c,
                                   struct nn_net *n, struct train_optimizer *optimizer,
                                   uint64_t seed, const volatile sig_atomic_t *stopped);

/* ---- report.c ---- */

struct report {
    bool quiet, is_terminal;
    int64_t epochs, steps_per_epoch;
    size_t batch_size;
    int64_t epoch_began_ns, shown_ns;
    struct ty_buf history; /* doubles: columns values for each epoch */
    size_t columns, rows;
    const char *names[2 * METRICS_MOST];
};
void report_init(struct report *r, bool quiet, int64_t epochs, int64_t steps_per_epoch,
                 size_t batch_size);
void report_epoch_begin(struct report *r, int64_t epoch);
/* After a step: redraws the bar a few times a second if stdout is a terminal. */
void report_step(struct report *r, int64_t epoch, int64_t step_in_epoch, const struct metrics *m);
/* That line, after `seconds` of the epoch, for a terminal of so many columns: metrics that do not
 * fit are left out, those at the end first. */
void report_line(const struct report *r, int64_t epoch, int64_t step, double seconds,
                 const struct metrics *m, size_t columns, struct ty_buf *b);
void report_epoch_end(struct report *r, int64_t steps, const struct metrics *train,
                      const struct metrics *valid);
void report_plot(const struct report *r); /* the curves, in characters */
void report_clear(struct report *r);
/* How many metrics an epoch has; the same number of columns after them are the validation's. */
size_t report_metrics(const struct report *r);
double report_value(const struct report *r, size_t row, size_t column);
/* Is this metric the loss by another name? Then it has no plot of its own. */
bool report_repeats(const struct report *r, size_t column);

/* ---- canvas.c, plot.c ---- */

struct canvas {
    int width, height;
    uint8_t *pixels; /* (height, width, 3) */
};
void canvas_init(struct canvas *c, int width, int height, uint32_t colour); /* 0xrrggbb */
void canvas_clear(struct canvas *c);
void canvas_box(struct canvas *c, int x, int y, int width, int height, uint32_t colour);
/* Smooth, with round ends; from a point to itself it is a disc. */
void canvas_line(struct canvas *c, const double from[2], const double to[2], double width,
                 uint32_t colour);
/* Letters are 5 by 7 dots of `size` pixels each, and some go below. */
void canvas_text(struct canvas *c, int x, int y, const char *text, int size, uint32_t colour);
int canvas_text_width(const char *text, int size);
TY_NODISCARD ty_err canvas_png(const struct canvas *c, struct ty_buf *b);
/* The curves as a PNG file; none if no epoch is over. */
TY_NODISCARD ty_err train_plot(const struct report *r, const char *path);

/* ---- curves.c ---- */

struct curves {
    struct ty_arena arena;
    int fd[2];                     /* train, validation; -1: none */
    const char *name[2], *path[2]; /* of their folders in `dir`; of the files */
    const char *dir;               /* borrowed */
    const struct nn_net *net;      /* borrowed; of an evaluator NULL */
    int64_t opened_ns;             /* since the epoch */
    bool told;                     /* that the folder was removed */
};
/* All that write: a file that is gone is begun again, its folder made again, with a warning once.
 */
TY_NODISCARD ty_err curves_open(struct curves *c, const char *dir, bool validation,
                                const struct nn_net *n);
/* For an evaluator: DIR/eval alone, as the validation's. */
TY_NODISCARD ty_err curves_open_eval(struct curves *c, const char *dir);
TY_NODISCARD ty_err curves_epoch(struct curves *c, int64_t epoch, const struct metrics *train,
                                 const struct metrics *valid);
/* Milliseconds of each phase of a step, of each replica of a crew. */
TY_NODISCARD ty_err curves_replicas(struct curves *c, int64_t epoch, const struct together *t);
/* A histogram of each parameter. */
TY_NODISCARD ty_err curves_weights(struct curves *c, int64_t epoch, const struct nn_net *n);
/* Remove the event files of other runs, and those of an evaluator from before this one. */
TY_NODISCARD ty_err curves_forget(const struct curves *c, const char *dir);
void curves_close(struct curves *c);

/* ---- length.c ---- */

struct train_length {
    const char *field;       /* of training that says it; NULL: none, an epoch is a pass */
    int64_t asked;           /* steps, by that field */
    int64_t steps_per_epoch; /* that an epoch has */
    int64_t epochs, batch;
};
struct train_length train_length(const struct nn_training *t, size_t rows);
/* What a user should know of it, a line each: what was rounded, rows that are not used. */
void train_length_print(const struct train_length *l, size_t rows, struct ty_buf *b);
/* Rows of pieces of that size are read again: a line if the window is small, which is slow. */
void train_window_print(size_t window, size_t piece, struct ty_buf *b);

/* ---- loop.c ---- */

/* How many examples one forward pass should have: many, but in memory that a cache has a part in;
 * a multiple of `batch`. */
size_t train_rows_fit(const struct nn_model *m, size_t batch);

/* ---- output.c ---- */

/* The output folder, held by this run. One thread. */
struct train_output {
    struct ty_arena *arena;
    const char *dir, *name; /* of this machine; as the caller wrote it: gs://..., perhaps */
    const char *lock_path;
    int lock_fd; /* -1: not held */
    bool made;   /* the folder, by this run */
};
/* Make the folder and hold it. TY_FAILED_PRECONDITION: another run does, which is named. */
TY_NODISCARD ty_err output_open(struct train_output *o, struct ty_arena *a, const char *dir,
                                const char *name);
/* Can all be written that will be? Also removes what a killed run was writing. */
TY_NODISCARD ty_err output_check(const struct train_output *o);
/* Write export/savedmodel/STAMP. `alone`: then remove those of earlier runs. */
TY_NODISCARD ty_err output_export(struct train_output *o, struct nn_net *n, bool alone,
                                  const char **ret_stamp);
/* Before it is written to again: if the folder, and so the lock, was removed or moved away, make
 * and hold it again. TY_FAILED_PRECONDITION: another run was first, which is named. */
TY_NODISCARD ty_err output_keep(struct train_output *o);
void output_close(struct train_output *o); /* what was not opened, too, if lock_fd is -1 */
/* Is the file that is open still the one of that name? */
bool output_is_still(int fd, const char *path);
/* For those who remove files of their own: one that is gone is fine; every entry of a folder. */
TY_NODISCARD ty_err output_unlink(const char *path);
TY_NODISCARD ty_err output_list(const char *dir, ty_err (*each)(void *arg, const char *name),
                                void *arg);

/* ---- export.c ---- */

/* Write a SavedModel as DIR; it appears whole or not at all. */
TY_NODISCARD ty_err train_export(struct nn_net *n, const char *dir);
/* The name of the newest in that folder that is not older than a file; NULL: there is none. */
const char *train_export_find(struct ty_arena *a, const char *parent, const char *than);

/* ---- model_dir.c ---- */

struct model_dir {
    struct ty_arena arena;
    struct nn_model *model;
    struct nn_net *net;
    struct tensor_team *team;
    size_t batch;
};
/* For batches of that size; 0: as many examples as fit well. */
TY_NODISCARD ty_err model_dir_open(struct model_dir *d, const char *dir, size_t batch, int threads);
void model_dir_close(struct model_dir *d);

#endif
