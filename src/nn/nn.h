/* nn.h -- models: the model file, feature columns, and networks that compute and learn.
 *
 * A model file (docs/model-file.md) names the input's columns, the features made of them, the
 * network, the head and how to train. nn_model_parse reads one. Features need no parameters, so
 * they are computed once for each row of the data (nn_features_compute) into a few floats and ids;
 * the network (struct nn_net) starts from those.
 *
 * A network is a list of layers, each one kind of layers.def: the same verbs, a file a kind. It is
 * planned once for a batch size: parameters, gradients and activations are one block each. A batch
 * is cut into shards; a shard is computed by one thread, and what is summed over examples is summed
 * per shard and then in a fixed tree, so results do not depend on threads, nor on how many workers
 * of a crew the shards are dealt out to. Parameters are one list
 * of named tensors, which optimizers, checkpoints and the export walk.
 *
 * Where to start: nn_model_parse, nn_net_new, nn_net_forward, nn_net_backward.
 * Who frees: a model is in its caller's arena; a net is heap memory (nn_net_free).
 * Threads: a model is constant once read; a net belongs to one thread, which lends it to the team.
 * Errors: TY_INVALID_ARGUMENT with file and line of the field, or with the row of the data.
 * One test: build/test_nn model/unknown_field. */
#ifndef TY_NN_H
#define TY_NN_H

#include "crew/crew.h"
#include "formats/formats.h"
#include "tensor/tensor.h"

enum {
    NN_MODEL_BYTES = 1 << 20,
    NN_MAX_VALUES = 1024, /* columns and features */
    NN_MAX_LAYERS = 256,
    NN_MAX_INPUTS = 64, /* of one cross, layer or wide part */
    NN_MAX_EDGES = 1 << 16,
    NN_MAX_UNITS = 1 << 20,
    NN_MAX_PARAMETERS = 64,
    NN_MAX_LIST = 64, /* numbers in a parameter */
    NN_MAX_METRICS = 16,
    NN_MAX_SHARDS = 64,
    NN_MAX_HEADS = 8,
    NN_LAYER_PARAMS = 4,
    NN_MAX_OWN = 32, /* kinds of layers that a program adds */
    NN_OWN_FIELDS = 8,
    NN_MAX_SIDE = 4096, /* of an image */
};
#define NN_MAX_FLOATS ((size_t)1 << 32) /* of all parameters: 16 GiB */

/* ---- values: columns of the input, and features made of them ---- */

enum nn_type {
    NN_FLOAT,
    NN_INT,
    NN_STRING,
    NN_CATEGORY /* an id below `buckets`; -1: none */
};
struct nn_feature_kind;
struct nn_value {
    ty_str name;
    enum nn_type type;
    int64_t buckets;                    /* of a category */
    const struct nn_feature_kind *kind; /* NULL: a column */
    size_t inputs[NN_MAX_INPUTS], input_count;
    float subtract, divide; /* scale, normalise */
    bool measured;          /* normalise: they are known */
    const float *edges;     /* bucketize */
    size_t edge_count;
    const ty_str *words; /* vocabulary, sorted by `order` for searching */
    const uint32_t *order;
    size_t word_count;
    int64_t oov_buckets; /* vocabulary: ids after the words for others */
    int64_t otherwise;   /* identity, vocabulary: the id of what has none; -1 */
    bool strict;         /* identity: a number out of range is an error */
};

/* ---- layers ---- */

struct nn_layer_kind;
enum nn_activation { NN_LINEAR, NN_RELU, NN_SIGMOID, NN_TANH, NN_SOFTMAX };
struct nn_layer {
    ty_str name;
    const struct nn_layer_kind *kind;
    size_t place; /* in the file's list of layers, 1 and up, for messages; 0: it is not in it */
    size_t inputs[NN_MAX_INPUTS], input_count; /* layers before this one */
    size_t height, width, channels;            /* of the output; a vector has only channels */
    size_t units;                              /* dense, conv2d: filters */
    enum nn_activation activation;
    float rate;                     /* dropout */
    float momentum, epsilon;        /* batch_norm */
    float scale, offset;            /* rescale */
    size_t size, stride;            /* conv2d, pools */
    bool same;                      /* padding */
    float fields[NN_OWN_FIELDS];    /* of a kind of the program's own */
    size_t params[NN_LAYER_PARAMS]; /* places in the net's list; set by nn_net_new */
    size_t state;                   /* batch_norm: place of its sums */
    struct nn_part *parts;          /* features, wide: what they read */
    size_t part_count;
};
/* One value in a features or wide layer. */
enum nn_part_kind { NN_NUMBER, NN_INDICATOR, NN_EMBEDDING };
struct nn_part {
    enum nn_part_kind kind;
    size_t value; /* of the model */
    size_t slot;  /* of rows: which float or which id */
    size_t from;  /* first column of the layer's output */
    size_t width;
    size_t param; /* embedding: place in the layer's own list of tables */
};

/* ---- the model ---- */

enum nn_head_type { NN_REGRESSION, NN_BINARY, NN_MULTICLASS };
/* Heads that a metric is for (metrics.def): bits. */
enum {
    NN_FOR_REGRESSION = 1 << NN_REGRESSION,
    NN_FOR_BINARY = 1 << NN_BINARY,
    NN_FOR_CLASSES = NN_FOR_BINARY | 1 << NN_MULTICLASS,
    NN_FOR_ANY = NN_FOR_REGRESSION | NN_FOR_CLASSES
};
enum nn_loss { NN_MSE, NN_MAE, NN_HUBER, NN_CROSS_ENTROPY };
/* What is predicted. A model has one head, or several that share a network: then each has a name,
 * and the losses are added, each times its weight. */
struct nn_head {
    ty_str name; /* "": the only one */
    enum nn_head_type type;
    enum nn_loss loss;
    float huber_delta, weight;
    size_t label; /* a column */
    size_t layer; /* whose output are its logits */
    ty_str output;
    const ty_str *classes; /* names; class_count of them, or NULL */
    size_t class_count;    /* numbers of its logits: 1 for a regression, 1 for binary */
    const float *class_weights;
    size_t from; /* its first column of a row's logits */
    ty_str metrics[NN_MAX_METRICS];
    size_t metric_count;
};
enum nn_schedule { NN_CONSTANT, NN_EXPONENTIAL, NN_STEP, NN_COSINE };
struct nn_optimizer {
    ty_str kind; /* of optimizers.def */
    float learning_rate, beta1, beta2, epsilon, momentum, rho, power, l1, l2, initial;
    float weight_decay;
    bool nesterov, lazy;
    enum nn_schedule schedule;
    float decay_rate;
    int64_t decay_steps; /* 0: all steps of the run */
};
struct nn_training {
    struct nn_optimizer optimizer, wide; /* wide: of the wide part */
    int64_t batch_size, epochs, seed, shards;
    int64_t steps, examples; /* of the run; 0: the next one says it, in the end a pass an epoch */
    double passes;
    int64_t shuffle_window; /* rows; 0: as many as are good */
    bool shuffle, skip_bad_rows;
    float clip_norm;          /* 0: none */
    int64_t keep_checkpoints; /* the last N; 0: none are written */
    bool keep_best;
    int64_t patience, plateau; /* epochs without a better val_loss; 0: off */
    float plateau_factor;
};
/* Input that is a folder of image files, a folder a class. */
struct nn_images {
    size_t height, width, channels; /* that they are resized to; 0: the input is no images */
    bool nearest;                   /* not bilinear */
    double validation_split;        /* the share that validates if nothing else does */
    uint32_t split_seed;
};
struct nn_parameter {
    ty_str name;
    double numbers[NN_MAX_LIST]; /* one, or a list */
    size_t count;
    bool is_list;
};
struct nn_model {
    ty_str name, text;
    struct nn_parameter parameters[NN_MAX_PARAMETERS];
    size_t parameter_count;
    ty_str ignored[NN_MAX_PARAMETERS]; /* flags that are taken and mean nothing */
    size_t ignored_count;
    struct csv_column *columns; /* of the input, in order */
    size_t column_count;
    bool records;            /* TFRecord files of tf.Example, not CSV */
    struct nn_images images; /* instead of either */
    bool header;
    char separator;
    struct nn_value values[NN_MAX_VALUES]; /* columns first */
    size_t value_count;
    struct nn_layer layers[NN_MAX_LAYERS];
    size_t layer_count;
    struct nn_head heads[NN_MAX_HEADS];
    size_t head_count;
    size_t logits_each;           /* of a row, the heads' side by side */
    size_t slots_float, slots_id; /* of a row */
    size_t *float_values;         /* slot -> value */
    size_t *id_values;
    struct nn_training training;
};
/* A value for a parameter of the file: "10", "32 8" or "32,8". */
struct nn_setting {
    ty_str name, value;
};
/* `path` is for messages. Settings replace parameters' values; one that names no parameter is
 * TY_NOT_FOUND, which names it and lists those there are. */
TY_NODISCARD ty_err nn_model_parse(struct ty_arena *a, const char *path, ty_str text,
                                   const struct nn_setting *settings, size_t setting_count,
                                   struct nn_model **ret_model);
/* Is this column a label? */
bool nn_is_label(const struct nn_model *m, size_t column);
/* Layers, output widths and parameters as a table, as Keras's summary. */
struct nn_net;
void nn_model_print(const struct nn_net *n, struct ty_buf *b);

/* ---- rows: examples after their features were computed ---- */

/* An image, (height, width, channels) values 0 to 255: floats, or bytes if all are whole. */
struct nn_pixels {
    const float *floats;
    const uint8_t *bytes;
};
struct nn_rows {
    size_t count, floats_each, ids_each;
    float *floats;                  /* (count, floats_each) */
    int32_t *ids;                   /* (count, ids_each) */
    float *labels;                  /* (count, heads); NULL: unknown */
    const struct nn_pixels *pixels; /* (count), of a model of images */
};
enum { NN_BLOCK_ROWS = 1024 };
struct nn_scratch; /* arrays for a block of rows, in an arena */
struct nn_scratch *nn_scratch_new(struct ty_arena *a, const struct nn_model *m);
/* Where csv_read puts a block of rows: an array for each column of the input. */
union csv_values *nn_scratch_columns(struct nn_scratch *s);
/* Forget the first `first` of `count` rows: the others move to the front. */
void nn_scratch_drop(const struct nn_model *m, struct nn_scratch *s, size_t first, size_t count);
/* Features of `count` rows (at most NN_BLOCK_ROWS) that are in the scratch's columns, into floats,
 * ids and labels (NULL: none). A row that cannot be is TY_INVALID_ARGUMENT, *ret_bad its number;
 * rows before it are done. */
TY_NODISCARD ty_err nn_features_compute(const struct nn_model *m, struct nn_scratch *s,
                                        size_t count, float *floats, int32_t *ids, float *labels,
                                        size_t *ret_bad);

/* ---- measuring: what normalise features must know of the data before all else ---- */

/* Sums of one feature's input; a model has one for each of its values. */
struct nn_measure {
    double count, sum, squares;
};
/* Is there a normalise feature that has not been measured? */
bool nn_measure_needed(const struct nn_model *m);
/* Add `count` rows that are in the scratch's columns to the sums of the features that can be
 * measured now: those whose input needs no other measuring first. Bad rows as above. */
TY_NODISCARD ty_err nn_measure_add(const struct nn_model *m, struct nn_scratch *s, size_t count,
                                   struct nn_measure *to, size_t *ret_bad);
/* All rows were added: set mean and deviation of those features, Keras's Normalization's. */
void nn_measure_finish(struct nn_model *m, const struct nn_measure *sums);

/* ---- networks ---- */

struct nn_param {
    ty_str name; /* "h0/kernel" */
    struct shape shape;
    size_t count;
    float *data;
    float *grad; /* after nn_net_backward; of a table only the rows below */
    size_t from; /* of the plain ones end to end */
    bool united; /* `data` is what all ranks have, and each updates a slice of it */
    bool wide;   /* trained by the wide part's optimizer */
    bool frozen; /* moving means: saved and exported, but not trained */

    /* a table: rows are looked up by id, and a step has a gradient for few of them */
    bool table;
    size_t width, id_slot;
    uint32_t *rows;   /* those of this step, in order of first use; grad is (row_count, width) */
    size_t row_count; /* at most the batch's size */
    uint32_t *seen;   /* id -> its place in rows, if rows has it there */
};
/* Examples of one step: `pick` are rows of `rows`; NULL: the first `count`, from `first` on. */
struct nn_batch {
    const struct nn_rows *rows;
    const uint32_t *pick;
    size_t first, count;
    uint64_t step; /* random numbers of dropout are by it */
    bool training;
};
struct nn_net;
/* Plan a network for batches of at most `batch` examples; parameters are seeded. With a crew (NULL:
 * alone) all its ranks plan the same and then compute the same batches, each the shards it owns. */
TY_NODISCARD ty_err nn_net_new(const struct nn_model *m, size_t batch, size_t shards, uint64_t seed,
                               struct tensor_team *team, struct crew *crew,
                               struct nn_net **ret_net);
void nn_net_free(struct nn_net *n);
size_t nn_net_params(const struct nn_net *n, struct nn_param **ret_params);
const struct nn_model *nn_net_model(const struct nn_net *n);
struct tensor_team *nn_net_team(const struct nn_net *n);
/* Of a batch of `examples`, how many this rank computes, and the first of them. */
size_t nn_net_own(const struct nn_net *n, size_t examples, size_t *ret_first);
/* mirrored: the shards are dealt out to `devices`, whose work is counted apart. */
void nn_net_mirror(struct nn_net *n, size_t devices);
/* What a replica of the model has trained on so far: a device of mirrored, or this rank. */
struct nn_work {
    uint64_t examples, bytes; /* bytes: of gradients that it added to sums */
    int64_t cpu_ns;           /* of mirrored: that its shards took */
};
struct nn_work nn_net_work(const struct nn_net *n, size_t replica);
/* With a crew: in how many buckets the gradients (so many floats) are summed, and why. One: when
 * backward has ended. */
size_t nn_net_buckets(const struct nn_net *n, size_t *ret_floats, struct crew_cost *ret_cost);
/* A number for the other ranks: once nn_net_forward has returned, the largest that any rank had set
 * when it was called. For what all ranks must do after the same step. */
void nn_net_tell(struct nn_net *n, int32_t word);
int32_t nn_net_told(const struct nn_net *n);
/* Has the crew failed? Then what was computed since is worth nothing. */
TY_NODISCARD ty_err nn_net_state(struct nn_net *n);

/* On one machine the ranks of a crew need not have a large parameter each: one is enough, of which
 * each rank updates a slice. Once, by all ranks, when they have the same weights. */
TY_NODISCARD ty_err nn_net_unite(struct nn_net *n);
/* The same of an array that goes with a united parameter, as long as that is: *array is where it is
 * then. Rank 0's is taken. */
TY_NODISCARD ty_err nn_net_unite_array(struct nn_net *n, size_t count, float **array);
/* What this rank updates of a plain parameter: all of it if it is not united. */
size_t nn_net_slice(const struct nn_net *n, const struct nn_param *p, size_t *ret_from);
/* The slices of this rank are updated; when it returns all are, or nn_net_state says why not. */
void nn_net_updated(struct nn_net *n);
/* The net's own until the next call. With a crew, of a batch that is trained on, only the rows of
 * this rank until nn_net_backward returns. */
struct nn_outputs {
    const float *logits;      /* (count, logits_each) */
    const float *losses;      /* (count): the heads' added up; NULL: no labels */
    const float *head_losses; /* (count, heads), without the heads' weights */
};
struct nn_outputs nn_net_forward(struct nn_net *n, const struct nn_batch *b);
/* Numbers below 1e-38 count as 0 on this thread from now on, as in TensorFlow: arithmetic with them
 * is a hundred times slower. The team's threads are set so by every call. */
void nn_flush_denormals(void);
/* Gradients of the mean loss of the batch that was just computed. */
void nn_net_backward(struct nn_net *n);

/* ---- layers of one's own: examples/own_layer ----
 *
 * A program that links train may add kinds of layers. Registered once, before a model is read, they
 * are named in model files as ours are ({swish: 1.5, name: s1}), and train, are saved and exported
 * like them. A layer sees plain arrays: some examples of the batch at a time, on any thread, so it
 * keeps nothing between calls. */

/* One call: `rows` examples of `in` numbers become `rows` of `out`. */
struct nn_own_call {
    size_t rows, in, out;
    bool training;
    const float *fields;                  /* as the model file has them */
    const float *params[NN_LAYER_PARAMS]; /* in the order of the kind */
    const float *x;                       /* (rows, in) */
    float *y;                             /* (rows, out); forward writes it */
    /* backward only */
    const float *dy;               /* (rows, out) */
    float *dx;                     /* (rows, in), to be written; NULL: nobody needs it */
    float *grads[NN_LAYER_PARAMS]; /* of these rows, to be written */
};
enum nn_own_size { NN_ONE, NN_IN, NN_OUT };
#define NN_GLOROT (-1e30f) /* as a first value: drawn, as Keras draws kernels */
struct nn_own_param {
    const char *name;
    enum nn_own_size rows, columns;
    float first; /* of all its numbers */
};
struct nn_own_layer {
    const char *name;                      /* its key in model files */
    const char *fields[NN_OWN_FIELDS + 1]; /* NULL-ended; the key's own value is the first */
    float defaults[NN_OWN_FIELDS];
    size_t (*width)(size_t in, const float *fields); /* of the output; NULL: shaped as the input */
    struct nn_own_param params[NN_LAYER_PARAMS];     /* up to the first without a name */
    void (*forward)(const struct nn_own_call *c);
    void (*backward)(const struct nn_own_call *c);
    /* Nodes of TensorFlow that do the same, names under `scope`. NULL: models with it can be
     * trained but not exported. */
    struct graph_out (*export)(struct graph *g, const char *scope, const float *fields,
                               struct graph_out x, const struct graph_out *params);
};
/* The kind outlives all models. A name that there is already is TY_ALREADY_EXISTS. */
TY_NODISCARD ty_err nn_layer_register(const struct nn_own_layer *kind);

/* ---- export ---- */

/* The first layer whose kind has no export; NULL: the model can be exported. */
const struct nn_layer *nn_export_obstacle(const struct nn_model *m);
/* Build the graph: placeholders for the input's columns but the label, then the outputs of the
 * head. Variables are named as parameters. The signature's arrays are from the arena. */
TY_NODISCARD ty_err nn_export(const struct nn_net *n, struct ty_arena *a, struct graph *g,
                              struct saved_signature *ret_signature);

#endif
