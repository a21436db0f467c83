/* graph.c -- a GraphDef, built node by node.
 *
 *   GraphDef  { repeated NodeDef node = 1; VersionDef versions = 4 { producer = 1; } }
 *   NodeDef   { name = 1; op = 2; repeated input = 3; map<string, AttrValue> attr = 5; }
 *   AttrValue { oneof: list 1, s 2, i 3, f 4, b 5, type 6, shape 7, tensor 8 }
 *   ListValue { repeated s 2, i 3, f 4, b 5, type 6, shape 7, tensor 8; numbers packed }
 *
 * An attribute is encoded when it is given and kept as bytes; a node writes its attributes sorted
 * by name, so one graph has one encoding. */
#include "formats/formats_int.h"

enum { PRODUCER = 1645, ATTR_BYTES = 1 << 30 }; /* TensorFlow 2.15's GraphDef version */

struct attr {
    ty_str name, value;
    struct attr *next; /* sorted by name */
};
struct input {
    ty_str text; /* "node:port", "node" or "^node" */
    struct input *next;
};
struct graph_node {
    struct graph *graph;
    ty_str name, op;
    struct input *inputs, **last_input, *controls, **last_control; /* controls come last */
    struct attr *attrs;
    struct graph_node *next;
};
struct graph {
    struct ty_arena *arena;
    struct graph_node *first, **last;
    struct graph_node **by_name; /* open addressing; mask + 1 places */
    size_t count, mask;
    struct graph_variable *variables;
    size_t variable_count, variable_cap;
};

struct graph *graph_new(struct ty_arena *a)
{
    struct graph *g = ty_new(a, struct graph);
    g->arena = a;
    g->last = &g->first;
    g->mask = 63;
    g->by_name = ty_new_array(a, struct graph_node *, g->mask + 1);
    return g;
}

struct ty_arena *graph_arena(const struct graph *g)
{
    return g->arena;
}

/* ---- names ---- */

static size_t name_place(const struct graph *g, ty_str name)
{
    size_t at = fingerprint64(name) & g->mask;
    while (g->by_name[at] && !ty_str_eq(g->by_name[at]->name, name))
        at = (at + 1) & g->mask;
    return at;
}

static void names_grow(struct graph *g)
{
    g->mask = g->mask * 2 + 1;
    g->by_name = ty_new_array(g->arena, struct graph_node *, g->mask + 1);
    for (struct graph_node *n = g->first; n; n = n->next)
        g->by_name[name_place(g, n->name)] = n;
}

static bool name_char_fits(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || c == '.' || (!first && (c == '_' || c == '/' || c == '-' || c == '>'));
}

/* [A-Za-z0-9.][A-Za-z0-9_.\-/>]*, and not taken. */
static ty_str name_make(struct graph *g, const char *wanted)
{
    char *name = ty_cstr(g->arena, ty_str_of(*wanted ? wanted : "node"));
    for (char *c = name; *c; c++)
        if (!name_char_fits(*c, false))
            *c = '_';
    if (!name_char_fits(name[0], true))
        name = ty_format(g->arena, "x%s", name);
    ty_str made = ty_str_of(name);
    for (int i = 1; g->by_name[name_place(g, made)]; i++)
        made = ty_str_of(ty_format(g->arena, "%s_%d", name, i));
    return made;
}

/* ---- nodes ---- */

struct graph_node *graph_node(struct graph *g, const char *op, const char *name)
{
    struct graph_node *n = ty_new(g->arena, struct graph_node);
    n->graph = g;
    n->name = name_make(g, name);
    n->op = ty_str_dup(g->arena, ty_str_of(op));
    n->last_input = &n->inputs;
    n->last_control = &n->controls;
    *g->last = n;
    g->last = &n->next;
    if (2 * ++g->count > g->mask)
        names_grow(g);
    else
        g->by_name[name_place(g, n->name)] = n;
    return n;
}

ty_str graph_node_name(const struct graph_node *n)
{
    return n->name;
}

static void input_add(struct graph_node *n, struct input ***last, char *text)
{
    struct input *i = ty_new(n->graph->arena, struct input);
    i->text = ty_str_of(text);
    **last = i;
    *last = &i->next;
}

void graph_input(struct graph_node *n, struct graph_out from)
{
    struct ty_arena *a = n->graph->arena;
    ty_str name = from.node->name;
    input_add(n, &n->last_input,
              from.port ? ty_format(a, TY_STR_FMT ":%d", TY_STR_ARG(name), from.port)
                        : ty_cstr(a, name));
}

void graph_control(struct graph_node *n, struct graph_node *after)
{
    input_add(n, &n->last_control,
              ty_format(n->graph->arena, "^" TY_STR_FMT, TY_STR_ARG(after->name)));
}

/* ---- attributes ---- */

/* Keeps what `value` holds, under its name's place, and empties it. */
static void attr_keep(struct graph_node *n, const char *name, struct ty_buf *value)
{
    struct attr *made = ty_new(n->graph->arena, struct attr), **at = &n->attrs;
    ty_assert(!value->full);
    made->name = ty_str_dup(n->graph->arena, ty_str_of(name));
    made->value = ty_str_dup(n->graph->arena, ty_buf_str(value));
    while (*at && ty_str_cmp((*at)->name, made->name) < 0)
        at = &(*at)->next;
    ty_assert(!*at || !ty_str_eq((*at)->name, made->name));
    made->next = *at;
    *at = made;
    ty_buf_clear(value);
}

static void attr_keep_int(struct graph_node *n, const char *name, uint32_t field, int64_t v)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    wire_pb_int(&b, field, v);
    attr_keep(n, name, &b);
}

void graph_attr_type(struct graph_node *n, const char *name, enum dtype t)
{
    attr_keep_int(n, name, 6, t);
}

void graph_attr_int(struct graph_node *n, const char *name, int64_t v)
{
    attr_keep_int(n, name, 3, v);
}

void graph_attr_bool(struct graph_node *n, const char *name, bool v)
{
    attr_keep_int(n, name, 5, v);
}

void graph_attr_float(struct graph_node *n, const char *name, float v)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    wire_pb_float(&b, 4, v);
    attr_keep(n, name, &b);
}

void graph_attr_str(struct graph_node *n, const char *name, const char *v)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    wire_pb_bytes(&b, 2, ty_str_of(v));
    attr_keep(n, name, &b);
}

void graph_attr_shape(struct graph_node *n, const char *name, const struct shape *s)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    size_t shape = wire_pb_begin(&b, 7);
    shape_encode(&b, s);
    wire_pb_end(&b, shape);
    attr_keep(n, name, &b);
}

void graph_attr_encoded(struct graph_node *n, const char *name, uint32_t field, ty_str message)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    wire_pb_bytes(&b, field, message);
    attr_keep(n, name, &b);
}

/* A list whose packed numbers are what `numbers` holds. An empty one is a list all the same. */
static void attr_keep_list(struct graph_node *n, const char *name, uint32_t field,
                           struct ty_buf *numbers)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    size_t list = wire_pb_begin(&b, 1);
    if (numbers->len)
        wire_pb_bytes(&b, field, ty_buf_str(numbers));
    wire_pb_end(&b, list);
    ty_buf_clear(numbers);
    attr_keep(n, name, &b);
}

void graph_attr_types(struct graph_node *n, const char *name, const enum dtype *t, size_t count)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    for (size_t i = 0; i < count; i++)
        wire_pb_put_varint(&b, t[i]);
    attr_keep_list(n, name, 6, &b);
}

void graph_attr_ints(struct graph_node *n, const char *name, const int64_t *v, size_t count)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    for (size_t i = 0; i < count; i++)
        wire_pb_put_varint(&b, (uint64_t)v[i]);
    attr_keep_list(n, name, 3, &b);
}

void graph_attr_floats(struct graph_node *n, const char *name, const float *v, size_t count)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        char bytes[4];
        memcpy(&bits, &v[i], sizeof bits);
        wire_store_le32(bytes, bits);
        ty_buf_add(&b, bytes, sizeof bytes);
    }
    attr_keep_list(n, name, 4, &b);
}

void graph_attr_output_shape(struct graph_node *n, const struct shape *s)
{
    struct ty_buf b;
    ty_buf_init(&b, ATTR_BYTES);
    size_t list = wire_pb_begin(&b, 1);
    size_t shape = wire_pb_begin(&b, 7);
    shape_encode(&b, s);
    wire_pb_end(&b, shape);
    wire_pb_end(&b, list);
    attr_keep(n, "_output_shapes", &b);
}

/* ---- variables ---- */

size_t graph_variables(const struct graph *g, const struct graph_variable **ret_variables)
{
    *ret_variables = g->variables;
    return g->variable_count;
}

static void variable_push(struct graph *g, const struct graph_variable *v)
{
    if (g->variable_count == g->variable_cap) {
        size_t cap = g->variable_cap ? 2 * g->variable_cap : 16;
        struct graph_variable *grown = ty_new_array(g->arena, struct graph_variable, cap);
        if (g->variable_count)
            memcpy(grown, g->variables, g->variable_count * sizeof *grown);
        g->variables = grown;
        g->variable_cap = cap;
    }
    g->variables[g->variable_count++] = *v;
}

/* Zeros of a shape, made when it runs: a table of embeddings as a constant would fill the file. */
static struct graph_out zeros_make(struct graph *g, const char *name, enum dtype t,
                                   const struct shape *s)
{
    int64_t zero = 0;
    ty_assert(dtype_bytes(t) > 0 && s->rank >= 0);
    struct graph_node *n = graph_node(g, "Fill", name);
    graph_input(n, graph_const(g, ty_format(g->arena, "%s/shape", name), DTYPE_INT64,
                               &SHAPE(s->rank), s->dims));
    graph_input(n, graph_const(g, ty_format(g->arena, "%s/value", name), t, &SHAPE_SCALAR, &zero));
    graph_attr_type(n, "T", t);
    graph_attr_type(n, "index_type", DTYPE_INT64);
    return graph_out(n, 0);
}

struct graph_out graph_variable(struct graph *g, const char *name, enum dtype t,
                                const struct shape *s)
{
    struct graph_variable v = {.dtype = t, .shape = *s};
    v.handle = graph_node(g, "VarHandleOp", name);
    v.name = v.handle->name;
    char *own = ty_cstr(g->arena, v.name);
    graph_attr_type(v.handle, "dtype", t);
    graph_attr_shape(v.handle, "shape", s);
    graph_attr_str(v.handle, "shared_name", own);

    struct graph_out zeros = zeros_make(g, ty_format(g->arena, "%s/Initializer/zeros", own), t, s);
    v.zeros_name = zeros.node->name;
    v.initializer = graph_node(g, "AssignVariableOp", ty_format(g->arena, "%s/Assign", own));
    graph_input(v.initializer, graph_out(v.handle, 0));
    graph_input(v.initializer, zeros);
    graph_attr_type(v.initializer, "dtype", t);

    struct graph_node *read =
        graph_node(g, "ReadVariableOp", ty_format(g->arena, "%s/Read/ReadVariableOp", own));
    graph_input(read, graph_out(v.handle, 0));
    graph_attr_type(read, "dtype", t);
    graph_attr_output_shape(read, s);
    v.read_name = read->name;
    variable_push(g, &v);
    return graph_out(read, 0);
}

/* ---- encoding ---- */

static void node_encode(const struct graph_node *n, struct ty_buf *b)
{
    size_t node = wire_pb_begin(b, 1);
    wire_pb_bytes(b, 1, n->name);
    wire_pb_bytes(b, 2, n->op);
    for (const struct input *i = n->inputs; i; i = i->next)
        wire_pb_bytes(b, 3, i->text);
    for (const struct input *i = n->controls; i; i = i->next)
        wire_pb_bytes(b, 3, i->text);
    for (const struct attr *a = n->attrs; a; a = a->next) {
        size_t entry = wire_pb_begin(b, 5);
        wire_pb_bytes(b, 1, a->name);
        wire_pb_bytes(b, 2, a->value);
        wire_pb_end(b, entry);
    }
    wire_pb_end(b, node);
}

void graph_encode(const struct graph *g, struct ty_buf *b)
{
    for (const struct graph_node *n = g->first; n; n = n->next)
        node_encode(n, b);
    size_t versions = wire_pb_begin(b, 4);
    wire_pb_int(b, 1, PRODUCER);
    wire_pb_end(b, versions);
}
