/* formats_int.h -- what the files of formats share. */
#ifndef TY_FORMATS_INT_H
#define TY_FORMATS_INT_H

#include "formats/formats.h"
#include "wire/wire.h"

/* ---- csv_scan.c ---- */

enum { CSV_BLOCK = 64 };
struct csv_scan {
    char separator;
    bool inside; /* in and out: the next byte is inside quotes */
    bool quotes; /* out: one was seen; never cleared */
};
/* Write the places of separators and line ends outside quotes, as offsets from `text`, to `at`
 * (room for n + CSV_BLOCK); returns how many. n < 2^32. */
typedef size_t csv_scanner(struct csv_scan *s, const char *text, size_t n, uint32_t *at);
csv_scanner csv_scan_plain, csv_scan_fast;
/* Every implementation that this processor can run, the plain one first; NULL ends the list. */
csv_scanner *const *csv_scanners(void);
/* Bytes equal to c. */
size_t csv_count_byte(ty_str text, char c);

/* ---- csv.c ---- */

/* What a quoted field says; the arena only if it had "" in it. False if the quotes are wrong. */
bool csv_unquote(struct ty_arena *a, ty_str field, ty_str *ret_text);

/* ---- tensor.c: pieces of TensorFlow's messages ---- */

void shape_encode(struct ty_buf *b, const struct shape *s); /* a TensorShapeProto's content */
TY_NODISCARD ty_err shape_decode(ty_str message, struct shape *ret_shape);
/* A TensorProto's content; strings: one value each. */
void tensor_encode(struct ty_buf *b, enum dtype t, const struct shape *s, ty_str bytes);
void tensor_encode_strings(struct ty_buf *b, const struct shape *s, const ty_str *values,
                           size_t count);

/* ---- table.c: the sorted table of keys and values that a bundle's index is ---- */

struct table_entry {
    ty_str key, value;
};
/* Append a table of entries sorted by key. */
void table_encode(struct ty_buf *b, const struct table_entry *entries, size_t count);
/* All entries, checked: keys in the arena, values views. At most `most`. */
TY_NODISCARD ty_err table_decode(struct ty_arena *a, ty_str file, size_t most,
                                 struct table_entry **ret_entries, size_t *ret_count);

/* ---- graph.c, for graph_ops.c and saved_model.c ---- */

/* An attribute that is a message, already encoded: AttrValue's field and the message. */
void graph_attr_encoded(struct graph_node *n, const char *name, uint32_t field, ty_str message);

struct graph_variable {
    struct graph_node *handle, *initializer;
    ty_str name, read_name, zeros_name;
    enum dtype dtype;
    struct shape shape;
};
size_t graph_variables(const struct graph *g, const struct graph_variable **ret_variables);
struct ty_arena *graph_arena(const struct graph *g);

#endif
