/* nn_int.h -- what the files of nn share.
 *
 *   read.c    fields of the model file, with lines in messages
 *   expr.c    numbers written as expressions of parameters
 *   model.c, model_head.c, model_net.c, model_training.c   the sections of the file
 *             (optimizers.def, metrics.def: the names and fields that there are)
 *   features.c, feature_*.c   kinds of features (features.def); measure.c what they ask of the data
 *   net.c     plan, forward, backward; net_crew.c what the ranks of a crew exchange
 *   layer_*.c kinds of layers (layers.def)
 *   export.c  the graph of a SavedModel */
#ifndef TY_NN_INT_H
#define TY_NN_INT_H

#include "nn/nn.h"
#include "wire/wire.h"

/* ---- read.c: walking the file ---- */

enum { NN_MAX_DEPTH = 16 };
struct nn_reader {
    struct ty_arena *arena;
    const char *path;
    ty_str text;
    struct nn_model *model;
    const char *keys[NN_MAX_DEPTH]; /* where we are: a key, or an index if NULL */
    size_t indices[NN_MAX_DEPTH];
    size_t depth;
};
/* "FILE:LINE: features[3].edges: ..." */
ty_err nn_fail(const struct nn_reader *r, const char *fmt, ...) TY_PRINTF(2, 3);
void nn_enter(struct nn_reader *r, const char *key);
void nn_enter_index(struct nn_reader *r, size_t index);
void nn_leave(struct nn_reader *r);
/* `object` is one and has only these keys, a NULL-ended list; names the nearest to a wrong one. */
TY_NODISCARD ty_err nn_keys_check(struct nn_reader *r, const json_t *object,
                                  const char *const *keys);
/* A field of an object. Without it *ret stays what it is, unless it is required. Numbers may be
 * expressions. */
TY_NODISCARD ty_err nn_read_str(struct nn_reader *r, const json_t *object, const char *key,
                                bool required, ty_str *ret);
TY_NODISCARD ty_err nn_read_bool(struct nn_reader *r, const json_t *object, const char *key,
                                 bool *ret);
TY_NODISCARD ty_err nn_read_number(struct nn_reader *r, const json_t *object, const char *key,
                                   bool required, double least, double most, double *ret);
TY_NODISCARD ty_err nn_read_float(struct nn_reader *r, const json_t *object, const char *key,
                                  double least, double most, float *ret);
TY_NODISCARD ty_err nn_read_int(struct nn_reader *r, const json_t *object, const char *key,
                                bool required, int64_t least, int64_t most, int64_t *ret);
/* One of `words`, NULL-ended; its index. */
TY_NODISCARD ty_err nn_read_word(struct nn_reader *r, const json_t *object, const char *key,
                                 const char *const *words, int *ret);
/* A number, a list of them, or the name of a parameter that is one. */
TY_NODISCARD ty_err nn_read_numbers(struct nn_reader *r, const json_t *object, const char *key,
                                    double *ret, size_t most, size_t *ret_count);
/* A name or a list of names. */
TY_NODISCARD ty_err nn_read_names(struct nn_reader *r, const json_t *object, const char *key,
                                  ty_str *ret, size_t most, size_t *ret_count);
TY_NODISCARD ty_err nn_number_of(struct nn_reader *r, const json_t *value, double *ret);

/* ---- expr.c ---- */

/* "nbuckets^4": + - * / ^ ( ), numbers and parameters. The message lacks place and line. */
TY_NODISCARD ty_err nn_expr(const struct nn_model *m, ty_str text, double *ret);
const struct nn_parameter *nn_parameter_find(const struct nn_model *m, ty_str name);

/* ---- the sections ---- */

TY_NODISCARD ty_err nn_read_features(struct nn_reader *r, const json_t *list);
TY_NODISCARD ty_err nn_read_network(struct nn_reader *r, const json_t *root);
/* head, or heads; then, when there are layers, which of them each head reads. */
TY_NODISCARD ty_err nn_read_heads(struct nn_reader *r, const json_t *root);
TY_NODISCARD ty_err nn_heads_connect(struct nn_reader *r, const json_t *root);
/* The names of `metrics` in an object, which the head can have. */
TY_NODISCARD ty_err nn_read_metrics(struct nn_reader *r, const json_t *object, struct nn_head *h);
TY_NODISCARD ty_err nn_read_training(struct nn_reader *r, const json_t *training);
/* The value of that name, of one of the types in `types` (bits), or a failure that lists some. */
TY_NODISCARD ty_err nn_value_find(struct nn_reader *r, ty_str name, unsigned types, size_t *ret);
#define NN_BIT(type) (1u << (type))

/* ---- features ---- */

/* Arrays of a block: values[i] is what csv_read or a feature made. */
struct nn_scratch {
    union csv_values *columns;
    union csv_values *values; /* by value; a category's are ints */
};
struct nn_exporter;
struct nn_feature_kind {
    const char *name;
    unsigned types; /* that it reads */
    const char *const *keys;
    TY_NODISCARD ty_err (*read)(struct nn_reader *r, const json_t *object, struct nn_value *v);
    /* Rows [0, count); TY_INVALID_ARGUMENT with *ret_bad. */
    TY_NODISCARD ty_err (*compute)(const struct nn_model *m, const struct nn_value *v,
                                   const union csv_values *values, size_t count, size_t *ret_bad);
    struct graph_out (*export)(struct nn_exporter *x, const struct nn_value *v);
};
#define FEATURE(name) extern const struct nn_feature_kind nn_feature_##name;
#include "nn/features.def"
#undef FEATURE

/* ---- networks ---- */

/* layer_first.c: the ids of one embedding in a shard, each once. */
struct nn_distinct {
    uint32_t *ids, *of; /* of: by row, its id's place; UINT32_MAX: none */
    uint32_t *table;    /* hash of an id -> its place + 1 */
    uint32_t *count;    /* where other ranks see it, too */
    size_t mask;
    float *x, *product, *sums; /* (count, width), (count, out), (count, out) */
};
enum { NN_WORD = 16 }; /* words a line: each rank's has one of its own */
enum { NN_SUMS = 8 };  /* floats: two doubles forward, two backward */
/* A part of the batch, computed by one thread. */
struct nn_shard {
    size_t first, rows;               /* of the batch */
    float **y;                        /* by layer: output (rows, height, width, channels) */
    float **dy;                       /* its gradient; NULL: nobody needs it */
    uint32_t **which;                 /* max_pool */
    float *grads;                     /* of the plain parameters, as nn_net.grads */
    float *sums;                      /* batch_norm: of this shard, NN_SUMS for each channel */
    float *scratch;                   /* of this process */
    float *labels, *weights, *losses; /* of the rows, of one head; classes are numbers */
    int32_t *classes;
    struct nn_distinct *distinct; /* layer_first.c: by part of the features */
    uint32_t *counts;             /* theirs, side by side */
    int64_t cpu_ns;               /* that its thread took for it, if somebody asks (net_work.c) */
    size_t passed;                /* buckets of gradients that it has computed */
    float *numbers, *number_kernel, *number_grad;
};
/* Where a table's gradient comes from: columns of a layer's gradient. */
struct nn_table {
    size_t param, layer, from;
};
struct nn_net {
    const struct nn_model *model;
    struct ty_arena arena;
    struct tensor_team *team;
    struct crew *crew; /* NULL: alone */
    bool crew_failed;
    bool united;                 /* some parameter is */
    struct crew_piece *pieces;   /* room for a list of them */
    size_t *plain_from;          /* by layer: where its plain parameters begin */
    struct crew_bucket *buckets; /* of the gradients, as backward finishes them; one: no overlap */
    size_t bucket_count;
    uint32_t *passed; /* by bucket: how many of this rank's shards have computed theirs */
    struct crew_cost sum_cost;
    float *parts[NN_MAX_SHARDS];
    bool summing;       /* the buckets are being summed */
    uint64_t step;      /* the last that was trained */
    float **summed;     /* by parameter: its gradient in a room, if p->grad is a copy */
    int32_t *words;     /* in a room: of rank i at i * NN_WORD */
    int32_t word, told; /* this rank's next; the largest of all */
    size_t devices;     /* of mirrored; 0: it is not */
    size_t zeroed;      /* a test's: whose gradients are thrown away; SIZE_MAX: nobody's */
    struct nn_work work[CREW_MOST_RANKS];
    size_t batch_max, shard_max;
    uint64_t seed;
    struct nn_layer *layers; /* copies, planned */
    size_t layer_count;
    struct nn_param *params;
    size_t param_count;
    float *weights;     /* one block */
    size_t plain_count; /* floats of plain parameters, which come first */
    size_t weight_count;
    float *grads;    /* plain_count: shard 0's */
    float *grad_sum; /* of all shards; without a crew shard 0's become it */
    struct nn_shard *shards;
    size_t shard_count;          /* in use */
    size_t own_first, own_count; /* of them, this rank's */
    struct nn_table *tables;
    size_t table_count;
    float *first_sums;               /* of it: dy by id, of all shards */
    const struct nn_param *gathered; /* while the team computes a table's gradient */
    bool has_first; /* the features are not computed: layer_first.c reads the rows themselves */
    size_t *need_from, *need_to; /* by layer: columns of dy that somebody needs; equal: none */
    size_t *uses;                /* by layer: how many read its output */
    struct nn_batch batch;
    size_t at;                            /* first layer of the segment that is being run */
    bool resuming;                        /* it has been summed over shards */
    float *logits, *losses, *head_losses; /* (batch_max, logits_each), (batch_max), (.., heads) */
    float *sums;                          /* batch_norm: of all shards */
    void **blocks;                        /* heap */
    size_t block_count;
    bool no_memory;
};

struct nn_layer_kind {
    const char *name;
    const char *const *keys; /* of the model file, beside the kind's own, name and input */
    TY_NODISCARD ty_err (*read)(struct nn_reader *r, const json_t *object, struct nn_layer *l);
    /* Set height, width, channels from the inputs', which are in the model. */
    TY_NODISCARD ty_err (*shape)(struct nn_reader *r, struct nn_layer *l);
    /* Add parameters with nn_param_add; say what scratch is needed for `rows` examples. */
    void (*plan)(struct nn_net *n, struct nn_layer *l);
    size_t (*scratch)(const struct nn_net *n, const struct nn_layer *l, size_t rows);
    void (*init)(struct nn_net *n, const struct nn_layer *l); /* NULL: no parameters */
    void (*forward)(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s);
    void (*backward)(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s);
    /* Sums over all shards, between two halves: forward and backward come before, these after. */
    void (*forward_after)(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s);
    void (*backward_after)(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s);
    void (*combine)(struct nn_net *n, const struct nn_layer *l, bool backward);
    struct graph_out (*export)(struct nn_exporter *x, const struct nn_layer *l,
                               const struct graph_out *inputs); /* NULL: it cannot be */
};
#define LAYER(name) extern const struct nn_layer_kind nn_layer_##name;
#include "nn/layers.def"
#undef LAYER

/* Kinds that the program registered; NULL after the last. */
const struct nn_layer_kind *nn_own_kind(size_t i);

/* ---- net_crew.c: nothing without a crew ---- */

/* The first shard of that rank, of `shards`; of the rank after the last, their number. */
size_t nn_crew_first(const struct crew *c, int rank, size_t shards);
void nn_crew_plan(struct nn_net *n);
void nn_crew_cut(struct nn_net *n); /* into buckets, of a size that is measured */
void nn_crew_done(struct nn_net *n, ty_err err);
void nn_crew_begin(struct nn_net *n, const char *phase); /* all are done with the last step */
void nn_crew_outputs(struct nn_net *n);                  /* logits and losses */
void nn_crew_sums(struct nn_net *n, const struct nn_layer *l, bool backward);
void nn_crew_tables(struct nn_net *n); /* what the gradients of tables are made of; outputs */
/* Plain gradients are summed while backward computes more of them: from begin, a shard tells when
 * it has passed a layer, on its thread; nn_crew_grads ends it. */
void nn_crew_grads_begin(struct nn_net *n);
void nn_crew_passed(struct nn_net *n, struct nn_shard *s, size_t layer);
void nn_crew_grads(struct nn_net *n);
void nn_crew_rows(struct nn_net *n); /* of tables that layer_first.c computed, a part a rank */

/* ---- net_work.c ---- */

void nn_work_init(struct nn_net *n);
/* Around what a thread does for a shard; and once, when the gradients of a batch are computed. */
int64_t nn_work_begin(const struct nn_net *n);
void nn_work_end(const struct nn_net *n, struct nn_shard *s, int64_t began);
void nn_work_count(struct nn_net *n);
/* A test's: these floats of the shard's gradients are thrown away, if its replica is the one. */
void nn_work_drop(struct nn_net *n, const struct nn_shard *s, size_t from, size_t count);

/* ---- layer_first.c ---- */

extern const struct nn_layer_kind nn_layer_first;
bool nn_first_fits(const struct nn_net *n);
size_t nn_first_floats(const struct nn_net *n, size_t rows);
void nn_first_plan(struct nn_net *n, struct nn_shard *s, size_t rows, float *at);
/* The gradient of a table, from what its shards summed by id. */
void nn_first_gather(struct nn_net *n, struct nn_param *p);
/* Which part of the features that table is. */
size_t nn_first_part(const struct nn_net *n, size_t param);
/* Where they are computed. */
static inline float *nn_rows_grad(const struct nn_net *n, const struct nn_param *p)
{
    float *room = n->summed[p - n->params];
    return room ? room : p->grad;
}
/* Rows of its gradient that a shard's thread computes: [ret_from, returned). */
size_t nn_first_rows(const struct nn_net *n, const struct nn_param *p, size_t shard,
                     size_t *ret_from);
/* Where in `list` a row of that id is; a new one at the end of p->rows if there is none yet. */
float *nn_row_gather(struct nn_param *p, uint32_t id, float *list, size_t width, bool *ret_new);

static inline size_t nn_layer_width(const struct nn_layer *l)
{
    return (l->height ? l->height : 1) * (l->width ? l->width : 1) * l->channels;
}
static inline size_t nn_layer_index(const struct nn_net *n, const struct nn_layer *l)
{
    return (size_t)(l - n->layers);
}
/* A parameter; its place in the list. */
size_t nn_param_add(struct nn_net *n, const struct nn_layer *l, const char *name, struct shape s);
size_t nn_param_add_table(struct nn_net *n, const struct nn_layer *l, const char *name, size_t rows,
                          size_t width, size_t id_slot, size_t from);
/* The gradient of an input, to be written, or added to if `*ret_add`; NULL: nobody needs it. */
float *nn_input_grad(const struct nn_net *n, const struct nn_layer *l, const struct nn_shard *s,
                     size_t input, bool *ret_add);
static inline struct nn_param *nn_layer_param(const struct nn_net *n, const struct nn_layer *l,
                                              size_t i)
{
    return &n->params[l->params[i]];
}
/* Where a shard adds up that parameter's gradient. */
static inline float *nn_shard_grad(const struct nn_shard *s, const struct nn_param *p)
{
    return s->grads + p->from;
}
static inline size_t nn_shard_pick(const struct nn_net *n, size_t i)
{
    return n->batch.pick ? n->batch.pick[i] : n->batch.first + i;
}
void nn_activate(float *y, size_t rows, size_t n, enum nn_activation f);
void nn_activate_backward(float *dy, const float *y, size_t rows, size_t n, enum nn_activation f);
/* Keras's: uniform within sqrt(6 / (in + out)). */
void nn_init_glorot(const struct nn_net *n, const struct nn_param *p, size_t in, size_t out);

/* ---- export ---- */

struct nn_exporter {
    const struct nn_net *net;
    struct ty_arena *arena;
    struct graph *graph;
    struct graph_out *values; /* by value of the model; node NULL: not made yet */
    struct graph_out image;   /* a model of images: its placeholder */
};
struct graph_out nn_export_value(struct nn_exporter *x, size_t value); /* made when first asked */
struct graph_out nn_export_param(struct nn_exporter *x, const struct nn_param *p);
struct graph_out nn_export_cast(struct nn_exporter *x, const char *name, struct graph_out in,
                                enum dtype from, enum dtype to);
struct graph_out nn_export_column(struct nn_exporter *x, const char *name, struct graph_out in,
                                  enum dtype t); /* (batch) to (batch, 1) */
struct graph_out nn_export_gather(struct nn_exporter *x, const char *name, struct graph_out table,
                                  struct graph_out ids);
struct graph_out nn_export_concat(struct nn_exporter *x, const char *name,
                                  const struct graph_out *parts, size_t count);
struct graph_out nn_export_activation(struct nn_exporter *x, const char *name, struct graph_out in,
                                      enum nn_activation f);
const char *nn_export_name(struct nn_exporter *x, ty_str scope, const char *name);

#endif
