/* formats.h -- read and write the files TensorFlow users already have.
 *
 * Every reader works on bytes the caller already holds and every writer appends to a caller's
 * buffer; nothing here opens a file, so one code path serves local disk, gs:// and the tests.
 *
 * Where to start: csv_read for CSV, tfrecord_read + example_decode for TFRecords, event_scalar for
 * TensorBoard, graph_node + saved_model_encode + bundle_add to export, bundle_open to import.
 * Who frees: readers return views into the caller's bytes and own nothing; what must be made (an
 * unquoted string, an index) comes from the arena that the call takes. Writers append to a ty_buf
 * whose limit the caller chose; ask ty_buf_check once, at the end. struct inflater alone is heap
 * memory (inflater_free).
 * Threads: a reader or writer belongs to one thread; two share nothing. Schemas are constant once
 * made, so threads may share those.
 * Errors: TY_DATA_LOSS for bytes that are torn or no such file, TY_INVALID_ARGUMENT for a CSV row
 * or a record that does not fit what was asked, TY_OUT_OF_RANGE (without a message) at the end.
 * One test: build/test_formats tfrecord/truncated_data. */
#ifndef TY_FORMATS_H
#define TY_FORMATS_H

#include "base/base.h"

/* ---- TFRecord: a file of length-prefixed, checksummed byte strings ---- */

/* A cursor over a whole file. It owns nothing, so there is nothing to free. */
struct tfrecord_reader {
    ty_str file;   /* borrowed: outlives the reader and every record it returns */
    size_t offset; /* first unread byte; error messages name it */
    size_t before; /* bytes before `file`, if it is a part of one; for messages */
};
/* Set *ret_record to the next record, a view into the file (no copy).
 * Returns TY_OUT_OF_RANGE at the end of the file, without a message, and
 * TY_DATA_LOSS if the record is cut short or fails its checksum. On any
 * failure *ret_record and the cursor are untouched. */
TY_NODISCARD ty_err tfrecord_read(struct tfrecord_reader *r, ty_str *ret_record);
/* Pass over a record that fails its checksum; false if its length cannot be believed either: what
 * follows is then lost. */
bool tfrecord_skip(struct tfrecord_reader *r);
/* How many of the first bytes of `text` are whole records, judged by their lengths alone: what a
 * caller who reads a file in blocks may give to a reader; the rest goes before the next block. */
size_t tfrecord_whole(ty_str text);
/* Append one record, framed. */
void tfrecord_write(struct ty_buf *b, ty_str record);

/* ---- gzip and zlib streams, inflated block by block ---- */

struct inflater; /* heap */
struct inflater *inflater_new(void);
void inflater_free(struct inflater *z); /* NULL is fine */
/* Inflate from the front of *in, appending at most `most` bytes to `out`; what was used is taken
 * off *in. Call again until both *in is empty and nothing was appended. gzip files of several
 * members are one stream. TY_DATA_LOSS if the bytes are no gzip or zlib stream or fail its
 * checksum. */
TY_NODISCARD ty_err inflater_feed(struct inflater *z, ty_str *in, struct ty_buf *out, size_t most);
/* TY_DATA_LOSS if the input ended in the middle of a stream. */
TY_NODISCARD ty_err inflater_finish(const struct inflater *z);
bool inflater_wanted(ty_str first_bytes); /* they start like a gzip file */

/* ---- tf.Example: named lists of bytes, floats or int64s ---- */

enum example_type { EXAMPLE_BYTES = 1, EXAMPLE_FLOAT = 2, EXAMPLE_INT64 = 3 };
/* One feature that is wanted. */
struct example_feature {
    ty_str name;
    enum example_type type;
    size_t least, most; /* how many values; equal for a fixed length */
    bool optional;      /* absent gives count 0 instead of an error */
};
/* Where its values go: room for `most` of them, the caller's. */
struct example_slot {
    union {
        ty_str *bytes; /* views into the record */
        float *floats;
        int64_t *ints;
    };
    size_t count; /* set by the decoder */
};
struct example_schema {
    const struct example_feature *features; /* borrowed */
    size_t count;
    uint16_t *table; /* hash of a name -> index + 1; from the arena */
    size_t mask;
};
enum { EXAMPLE_MAX_FEATURES = 4096, EXAMPLE_MAX_VALUES = 1 << 26 };
/* TY_INVALID_ARGUMENT for two features of one name, none, or too many. */
TY_NODISCARD ty_err example_schema_init(struct example_schema *s, struct ty_arena *a,
                                        const struct example_feature *features, size_t count);
/* Decode one serialized tf.Example into slots[0..count). Features nobody asked for are skipped; of
 * a name that occurs twice the last counts, as in every protobuf map. TY_INVALID_ARGUMENT names
 * the feature that is missing, of another type, or of a length out of bounds; TY_DATA_LOSS if the
 * record is no tf.Example. On failure the slots hold anything. */
TY_NODISCARD ty_err example_decode(const struct example_schema *s, ty_str record,
                                   struct example_slot *slots);
/* What a record holds, for people and for finding a schema: its features in file order, count being
 * set and the values untouched. At most EXAMPLE_MAX_FEATURES. */
TY_NODISCARD ty_err example_list(struct ty_arena *a, ty_str record,
                                 struct example_feature **ret_features, size_t *ret_count);
/* Append a serialized tf.Example: features[i] has slots[i].count values. */
void example_encode(struct ty_buf *b, const struct example_feature *features,
                    const struct example_slot *slots, size_t count);

/* ---- CSV: RFC 4180, read the way TensorFlow's decode_csv reads it ----
 *
 * Fields are separated by ',' (or another byte); a field may be in double quotes, then it may hold
 * separators, line ends and "" for a quote; a quote anywhere else is an error, and such a row is
 * taken to end with its line. Rows end with LF or CRLF; the last one may end with the text. Blank
 * lines are passed over, except in a file of one column. An empty field takes its column's default.
 * Numbers may have spaces around them; floats are rounded to the nearest float32, ties to even, as
 * strtof does. */

enum csv_type { CSV_FLOAT, CSV_INT64, CSV_STRING, CSV_SKIP };
struct csv_column {
    ty_str name; /* for messages, and for csv_match_header; may be empty */
    enum csv_type type;
    bool required; /* an empty field is an error; else the default of its type */
    float default_float;
    int64_t default_int;
    ty_str default_str;
};
/* Where a column's values go: room for the rows asked for. CSV_SKIP needs none. */
union csv_values {
    float *floats;
    int64_t *ints;
    ty_str *strings; /* views into the text, or into the arena if "" was in it */
};
enum { CSV_WINDOW = 8192, CSV_MAX_COLUMNS = 4096, CSV_MESSAGE_BYTES = 256 };

/* A cursor over a text. Large (it holds an index of the next separators): keep it on the heap or in
 * an arena. All members are the reader's own but those that the comments mention. */
struct csv_reader {
    ty_str text;        /* borrowed, as all views: outlives the rows */
    size_t offset;      /* start of the next row */
    size_t end;         /* where this reader stops: a row end (csv_split), or text.len */
    uint64_t line;      /* set it if text does not start at the file's line 1; for messages */
    bool skip_bad_rows; /* set it to count bad rows instead of stopping at the first */
    uint64_t bad_rows;  /* read it */
    char first_bad[CSV_MESSAGE_BYTES]; /* read it: what was wrong with the first of them */
    const struct csv_column *columns;
    size_t column_count;
    char separator;
    struct ty_arena *arena;
    size_t line_offset; /* `lines` counts the line ends before it */
    uint64_t lines;
    size_t scanned, next, known;  /* the index: bytes scanned; separators used; separators found */
    bool inside;                  /* quotes: the scanned part ends inside one */
    bool quotes;                  /* the index has seen one */
    bool torn;                    /* the row being read has wrong ones */
    uint32_t at[CSV_WINDOW + 72]; /* separators' places, from `base` on */
    size_t base;
};
/* `columns` describe the file's fields in order (from csv_match_header if it has a header, which
 * csv_row passes). The arena gets strings that had to be rewritten; clear
 * it when the batch's strings are no longer needed. TY_INVALID_ARGUMENT: too many columns, none, or
 * a separator that is a quote or a line end. */
TY_NODISCARD ty_err csv_reader_init(struct csv_reader *r, struct ty_arena *a, ty_str text,
                                    char separator, const struct csv_column *columns, size_t count);
/* Read up to `rows` rows into out[column][row]. TY_OUT_OF_RANGE, without a message, when none is
 * left. A bad row is TY_INVALID_ARGUMENT, "line 7, column 3 (fare): 'x' is not a number"; the
 * reader then stands after that row, and rows before it in the same call are lost to the caller. */
TY_NODISCARD ty_err csv_read(struct csv_reader *r, size_t rows, const union csv_values *out,
                             size_t *ret_rows);
/* The fields of the row at the start of `text`, as strings; *ret_used is where the next row starts.
 * TY_OUT_OF_RANGE if the text is empty. For headers. */
TY_NODISCARD ty_err csv_row(struct ty_arena *a, ty_str text, char separator, ty_str **ret_fields,
                            size_t *ret_count, size_t *ret_used);
/* A header's names and the columns that are wanted, into the columns of the file: those not wanted
 * become CSV_SKIP, and ret_place[i] is the file's column of wanted[i]. TY_INVALID_ARGUMENT names a
 * wanted column the header lacks, and what it has. All from the arena. */
TY_NODISCARD ty_err csv_match_header(struct ty_arena *a, const ty_str *header, size_t header_count,
                                     const struct csv_column *wanted, size_t wanted_count,
                                     struct csv_column **ret_columns, size_t *ret_place);
/* Cut `text` into `parts` pieces of about one size, each starting at a row: piece i is
 * [ret_starts[i], ret_starts[i + 1]), so parts + 1 numbers are written. Line ends inside quotes do
 * not count. Pieces may be empty. Give each thread a reader with offset and end set to a piece. */
void csv_split(ty_str text, size_t parts, size_t *ret_starts);
/* The same of a text of `size` bytes that comes block after block, for one that is not in memory:
 * starts are known when the last block was fed. Blocks of any sizes give the same. */
struct csv_splitter {
    size_t size, parts, part; /* of the text; pieces; the one whose start is looked for */
    size_t at;                /* bytes that have come */
    size_t *starts;           /* borrowed; parts + 1 */
    bool inside, searching;   /* quotes, before `at`; for the next line end */
};
void csv_splitter_init(struct csv_splitter *s, size_t size, size_t parts, size_t *starts);
void csv_splitter_feed(struct csv_splitter *s, ty_str block);
/* How many of the first bytes are whole rows, the text starting at a row: for callers who read a
 * file in blocks. 0 if there is no row end. */
size_t csv_whole(ty_str text);
/* One field as a number, exactly as csv_read does. False if it is none. */
bool csv_parse_float(ty_str field, float *ret_value);
bool csv_parse_int64(ty_str field, int64_t *ret_value);

/* ---- hashes: TensorFlow's ids of strings and crosses ---- */

uint64_t fingerprint64(ty_str s); /* FarmHash Fingerprint64 */
uint64_t fingerprint_cat64(uint64_t a, uint64_t b);
/* StringToHashBucketFast; what categorical_column_with_hash_bucket gives. */
int64_t hash_bucket(ty_str s, uint64_t buckets);
int64_t hash_bucket_int64(int64_t value, uint64_t buckets); /* of its decimal text, as there */
/* crossed_column and HashedCrossing: the id of one combination. A feature is fingerprint64 of a
 * string, or the integer itself. buckets 0: modulo INT64_MAX. */
#define CROSS_HASH_KEY UINT64_C(0xDECAFCAFFE) /* TensorFlow's default key */
int64_t cross_bucket(const uint64_t *features, size_t count, uint64_t buckets, uint64_t key);

/* ---- tensors, as graphs, bundles and events name them ---- */

/* TensorFlow's DataType numbers. name, number, bytes a value (0: strings) */
#define DTYPE_MAP(X)                                                                               \
    X(FLOAT, 1, 4)                                                                                 \
    X(DOUBLE, 2, 8)                                                                                \
    X(INT32, 3, 4)                                                                                 \
    X(UINT8, 4, 1)                                                                                 \
    X(INT16, 5, 2)                                                                                 \
    X(INT8, 6, 1)                                                                                  \
    X(STRING, 7, 0)                                                                                \
    X(INT64, 9, 8)                                                                                 \
    X(BOOL, 10, 1)                                                                                 \
    X(BFLOAT16, 14, 2)                                                                             \
    X(UINT16, 17, 2)                                                                               \
    X(HALF, 19, 2)                                                                                 \
    X(RESOURCE, 20, 0)                                                                             \
    X(UINT32, 22, 4)                                                                               \
    X(UINT64, 23, 8)
enum dtype {
    DTYPE_INVALID = 0,
#define DTYPE_ENUM(name, number, bytes) DTYPE_##name = number,
    DTYPE_MAP(DTYPE_ENUM)
#undef DTYPE_ENUM
};
const char *dtype_name(enum dtype t); /* "DT_FLOAT"; "DT_17" is never: unknown ones are "DT_?" */
size_t dtype_bytes(enum dtype t);     /* 0 for strings, resources and what we do not know */

enum { SHAPE_MAX_RANK = 8 };
struct shape {
    int rank;                     /* -1: unknown */
    int64_t dims[SHAPE_MAX_RANK]; /* -1: unknown, as a batch is */
};
#define SHAPE_SCALAR ((struct shape){0, {0}})
#define SHAPE_ANY    ((struct shape){-1, {0}})
#define SHAPE(...)                                                                                 \
    ((struct shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
/* Product of the dims; -1 if one is unknown or it passes 2^53. */
int64_t shape_count(const struct shape *s);

/* ---- graphs: TensorFlow's GraphDef, built node by node ----
 *
 * Any op can be written: a node is an op's name, inputs and attributes, which are not checked here
 * (TensorFlow does, when it loads). Outputs are named "node:port", port 0 also "node". */

struct graph;      /* in an arena */
struct graph_node; /* in its graph's arena */
struct graph_out {
    struct graph_node *node;
    int port;
};
struct graph *graph_new(struct ty_arena *a);
/* A new node. A name TensorFlow would refuse is made fit ('_' for strange bytes), one that is taken
 * gets "_1", "_2", ... as TensorFlow does. Returns a borrowed node. */
struct graph_node *graph_node(struct graph *g, const char *op, const char *name);
ty_str graph_node_name(const struct graph_node *n);
static inline struct graph_out graph_out(struct graph_node *n, int port)
{
    return (struct graph_out){n, port};
}
void graph_input(struct graph_node *n, struct graph_out from);
void graph_control(struct graph_node *n, struct graph_node *after); /* runs after that node */
/* Attributes; each may be given once. */
void graph_attr_type(struct graph_node *n, const char *name, enum dtype t);
void graph_attr_types(struct graph_node *n, const char *name, const enum dtype *t, size_t count);
void graph_attr_int(struct graph_node *n, const char *name, int64_t v);
void graph_attr_ints(struct graph_node *n, const char *name, const int64_t *v, size_t count);
void graph_attr_float(struct graph_node *n, const char *name, float v);
void graph_attr_floats(struct graph_node *n, const char *name, const float *v, size_t count);
void graph_attr_bool(struct graph_node *n, const char *name, bool v);
void graph_attr_str(struct graph_node *n, const char *name, const char *v);
void graph_attr_shape(struct graph_node *n, const char *name, const struct shape *s);
/* What TensorFlow's own builder leaves on outputs; viewers show it, loading infers it again. */
void graph_attr_output_shape(struct graph_node *n, const struct shape *s);

/* Shorthands for what every export has. */
struct graph_out graph_op1(struct graph *g, const char *op, const char *name, enum dtype t,
                           struct graph_out x); /* T=t */
struct graph_out graph_op2(struct graph *g, const char *op, const char *name, enum dtype t,
                           struct graph_out x, struct graph_out y);
struct graph_out graph_placeholder(struct graph *g, const char *name, enum dtype t,
                                   const struct shape *s);
/* A constant; bytes are the values in C order, shape_count(s) of them. */
struct graph_out graph_const(struct graph *g, const char *name, enum dtype t, const struct shape *s,
                             const void *values);
struct graph_out graph_const_i32(struct graph *g, const char *name, int32_t v);
struct graph_out graph_const_i64(struct graph *g, const char *name, int64_t v);
struct graph_out graph_const_f32(struct graph *g, const char *name, float v);
struct graph_out graph_const_strings(struct graph *g, const char *name, const struct shape *s,
                                     const ty_str *values);
/* A variable: VarHandleOp NAME, its initializer (zeros) and its value (ReadVariableOp), which is
 * returned. saved_model_encode restores each from the bundle's tensor `name`, the node's own. */
struct graph_out graph_variable(struct graph *g, const char *name, enum dtype t,
                                const struct shape *s);
/* TensorFlow's ids: StringToHashBucketFast, and a cross of (batch) int64 or string tensors by
 * SparseCross; both give int64 of shape (batch). */
struct graph_out graph_hash_bucket(struct graph *g, const char *name, struct graph_out strings,
                                   int64_t buckets);
struct graph_out graph_cross(struct graph *g, const char *name, const struct graph_out *columns,
                             const enum dtype *types, size_t count, int64_t buckets);
/* How many buckets' edges are at or below each value: int32, as bucketized_column. */
struct graph_out graph_bucketize(struct graph *g, const char *name, enum dtype t,
                                 struct graph_out x, const float *edges, size_t count);
void graph_encode(const struct graph *g, struct ty_buf *b); /* the GraphDef */

/* ---- SavedModel: saved_model.pb and fingerprint.pb ---- */

struct saved_tensor {
    ty_str key;    /* the signature's own name: "fare" */
    ty_str tensor; /* "dense/BiasAdd:0" */
    enum dtype dtype;
    struct shape shape;
};
struct saved_signature {
    ty_str key;    /* "serving_default" */
    ty_str method; /* "tensorflow/serving/predict" */
    struct saved_tensor *inputs, *outputs;
    size_t input_count, output_count;
};
enum { SAVED_MODEL_BYTES = 1 << 30 }; /* a protobuf's own ceiling is 2 GiB */
/* Add the save and restore nodes for the graph's variables, and append saved_model.pb: one
 * MetaGraph with the tag "serve", in the TF1 form (no object graph). Once a graph. */
TY_NODISCARD ty_err saved_model_encode(struct graph *g, const struct saved_signature *signatures,
                                       size_t count, struct ty_buf *b);
/* Append fingerprint.pb for the two files as they were written. */
void saved_model_fingerprint(ty_str saved_model_pb, ty_str variables_index, struct ty_buf *b);

struct saved_node {
    ty_str name, op;
    const ty_str *inputs;
    size_t input_count;
    enum dtype dtype;   /* attribute dtype or T; DTYPE_INVALID if neither */
    struct shape shape; /* attribute shape (variables, placeholders), else SHAPE_ANY */
};
/* What was in a saved_model.pb: all views into it, arrays from the arena. */
struct saved_model {
    ty_str tensorflow_version;
    const ty_str *tags;
    size_t tag_count;
    struct saved_signature *signatures;
    size_t signature_count;
    struct saved_node *nodes; /* the MetaGraph's own; those of functions are not listed */
    size_t node_count;
    size_t function_count;
    bool has_object_graph;              /* written by TensorFlow 2's own saver */
    ty_str restore_op, filename_tensor; /* empty if there is no saver */
};
/* The first MetaGraph with the tag "serve", else the first. TY_DATA_LOSS: no SavedModel. */
TY_NODISCARD ty_err saved_model_parse(struct ty_arena *a, ty_str bytes,
                                      struct saved_model *ret_model);

/* ---- bundles: variables.index + variables.data-00000-of-00001, and every TF checkpoint ---- */

struct bundle_entry {
    ty_str name;
    enum dtype dtype;
    struct shape shape;
    int32_t shard;
    bool sliced; /* a partitioned variable: its parts are entries of their own, which we do not join
                  */
    uint64_t offset, size_bytes;
    uint32_t crc; /* masked */
};
/* The index of a bundle that is being written. */
struct bundle_writer {
    struct ty_arena *arena;
    struct bundle_entry *entries;
    size_t count, cap;
    uint64_t offset;
};
void bundle_writer_init(struct bundle_writer *w, struct ty_arena *a);
/* Record a tensor of `bytes` (little-endian values in C order). The caller writes the same bytes to
 * the data file, in the order of these calls and with nothing between. `name` is copied.
 * TY_INVALID_ARGUMENT if the size is not the shape's. */
TY_NODISCARD ty_err bundle_add(struct bundle_writer *w, ty_str name, enum dtype t,
                               const struct shape *s, ty_str bytes);
/* The same for strings, whose encoded form is appended to `data` for the caller to write. */
TY_NODISCARD ty_err bundle_add_strings(struct bundle_writer *w, ty_str name, const struct shape *s,
                                       const ty_str *values, struct ty_buf *data);
/* Append variables.index. TY_INVALID_ARGUMENT for a name that was added twice or is empty. */
TY_NODISCARD ty_err bundle_index(struct bundle_writer *w, struct ty_buf *b);

struct bundle {
    struct bundle_entry *entries; /* sorted by name; from the arena */
    size_t count;
    int32_t shards; /* data files */
};
enum { BUNDLE_MAX_ENTRIES = 1 << 20 };
/* Read variables.index (or CHECKPOINT.index). Names are in the arena. TY_DATA_LOSS if a block fails
 * its checksum or anything is out of order. */
TY_NODISCARD ty_err bundle_open(struct ty_arena *a, ty_str index, struct bundle *ret_bundle);
/* Borrowed; TY_NOT_FOUND names the tensor. */
TY_NODISCARD ty_err bundle_find(const struct bundle *b, ty_str name,
                                const struct bundle_entry **ret_entry);
/* A tensor's bytes in its shard's data file, checked against shape and checksum. No copy. */
TY_NODISCARD ty_err bundle_tensor(const struct bundle_entry *e, ty_str data, ty_str *ret_bytes);
/* The values of a string tensor, views into `data`; their number is the shape's. */
TY_NODISCARD ty_err bundle_strings(struct ty_arena *a, const struct bundle_entry *e, ty_str data,
                                   ty_str **ret_values, size_t *ret_count);

/* ---- TensorBoard event files: TFRecords of Event messages ----
 *
 * A file is event_version, then anything, appended and flushed as it comes. Its name must hold
 * "tfevents": event_file_name. Times are seconds since 1970. */

enum { EVENT_NAME_BYTES = 320, EVENT_HISTOGRAM_BUCKETS = 30 };
/* "events.out.tfevents.SECONDS.HOST.PID.0.v2"; returns out. */
char *event_file_name(int64_t seconds, const char *host, int64_t pid, char out[EVENT_NAME_BYTES]);
void event_version(struct ty_buf *b, double seconds);
/* As tf.summary.scalar and Keras's callback write them. */
void event_scalar(struct ty_buf *b, double seconds, int64_t step, ty_str tag, float value);
void event_text(struct ty_buf *b, double seconds, int64_t step, ty_str tag, ty_str markdown);
/* The histogram tf.summary.histogram makes: 30 equal buckets from the least to the greatest value.
 * Values that are not finite are left out. */
void event_histogram(struct ty_buf *b, double seconds, int64_t step, ty_str tag,
                     const float *values, size_t count);
/* The model's shape, for the Graphs tab: an encoded GraphDef (graph_encode). */
void event_graph(struct ty_buf *b, double seconds, ty_str graph_def);

enum event_kind { EVENT_OTHER, EVENT_VERSION, EVENT_GRAPH, EVENT_SUMMARY };
struct event {
    double seconds;
    int64_t step;
    enum event_kind kind;
    ty_str body; /* the version's text, the GraphDef, or the summary for event_value */
};
struct event_value {
    ty_str tag, plugin; /* plugin: "scalars", "histograms", "text", ...; may be empty */
    bool is_scalar;     /* one number, in either of TensorFlow's two forms */
    double scalar;
};
/* One record of an event file. TY_DATA_LOSS: no Event. */
TY_NODISCARD ty_err event_parse(ty_str record, struct event *ret_event);
/* The values of a summary, one a call: *rest starts as event.body. TY_OUT_OF_RANGE at the end. */
TY_NODISCARD ty_err event_value_next(ty_str *rest, struct event_value *ret_value);

#endif
