/* event.c -- TensorBoard's event files, written and read.
 *
 *   Event   { double wall_time = 1; int64 step = 2; oneof: string file_version = 3, bytes graph_def
 * = 4, Summary summary = 5; SourceMetadata source_metadata = 10 { writer = 1; } } Summary {
 * repeated Value value = 1 { tag = 1; float simple_value = 2; TensorProto tensor = 8;
 *             SummaryMetadata metadata = 9; } }
 *   SummaryMetadata { plugin_data = 1 { plugin_name = 1; } data_class = 4; }
 *
 * Scalars exist in two forms: TensorFlow 1's simple_value, and since 2 a tensor of one value whose
 * metadata names the plugin. We write the second, as Keras does, and read both. */
#include "formats/formats_int.h"

#include <math.h>

enum { CLASS_SCALAR = 1, CLASS_TENSOR = 2, EVENT_BYTES = 1 << 30, HOST_BYTES = 255 };

char *event_file_name(int64_t seconds, const char *host, int64_t pid, char out[EVENT_NAME_BYTES])
{
    snprintf(out, EVENT_NAME_BYTES, "events.out.tfevents.%010" PRId64 ".%.*s.%" PRId64 ".0.v2",
             seconds, HOST_BYTES, host, pid);
    return out;
}

/* ---- writing ---- */

static void event_begin(struct ty_buf *e, double seconds, int64_t step)
{
    ty_buf_init(e, EVENT_BYTES);
    wire_pb_double(e, 1, seconds);
    if (step)
        wire_pb_int(e, 2, step);
}

/* Frames the event into the file; one that outgrew its limit fills the file's buffer too. */
static void event_end(struct ty_buf *e, struct ty_buf *file)
{
    if (e->full)
        file->full = true;
    tfrecord_write(file, ty_buf_str(e));
    ty_buf_clear(e);
}

void event_version(struct ty_buf *b, double seconds)
{
    struct ty_buf e;
    event_begin(&e, seconds, 0);
    wire_pb_bytes(&e, 3, TY_STR("brain.Event:2"));
    size_t source = wire_pb_begin(&e, 10);
    wire_pb_bytes(&e, 1, TY_STR("trainyard"));
    wire_pb_end(&e, source);
    event_end(&e, b);
}

void event_graph(struct ty_buf *b, double seconds, ty_str graph_def)
{
    struct ty_buf e;
    event_begin(&e, seconds, 0);
    wire_pb_bytes(&e, 4, graph_def);
    event_end(&e, b);
}

/* One summary value: `tensor` is a TensorProto, which is cleared. */
static void value_write(struct ty_buf *b, double seconds, int64_t step, ty_str tag,
                        const char *plugin, int data_class, struct ty_buf *tensor)
{
    struct ty_buf e;
    event_begin(&e, seconds, step);
    size_t summary = wire_pb_begin(&e, 5);
    size_t value = wire_pb_begin(&e, 1);
    wire_pb_bytes(&e, 1, tag);
    wire_pb_bytes(&e, 8, ty_buf_str(tensor));
    size_t metadata = wire_pb_begin(&e, 9);
    size_t plugin_data = wire_pb_begin(&e, 1);
    wire_pb_bytes(&e, 1, ty_str_of(plugin));
    wire_pb_end(&e, plugin_data);
    wire_pb_int(&e, 4, data_class);
    wire_pb_end(&e, metadata);
    wire_pb_end(&e, value);
    wire_pb_end(&e, summary);
    event_end(&e, b);
    ty_buf_clear(tensor);
}

void event_scalar(struct ty_buf *b, double seconds, int64_t step, ty_str tag, float value)
{
    struct ty_buf tensor;
    ty_buf_init(&tensor, EVENT_BYTES);
    char bytes[4];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    wire_store_le32(bytes, bits);
    tensor_encode(&tensor, DTYPE_FLOAT, &SHAPE_SCALAR, (ty_str){bytes, sizeof bytes});
    value_write(b, seconds, step, tag, "scalars", CLASS_SCALAR, &tensor);
}

void event_text(struct ty_buf *b, double seconds, int64_t step, ty_str tag, ty_str markdown)
{
    struct ty_buf tensor;
    ty_buf_init(&tensor, EVENT_BYTES);
    tensor_encode_strings(&tensor, &SHAPE_SCALAR, &markdown, 1);
    value_write(b, seconds, step, tag, "text", CLASS_TENSOR, &tensor);
}

/* ---- histograms ---- */

typedef double bucket[3]; /* left edge, right edge, count */

/* One value everywhere: TensorBoard wants the last bucket to have it all. No value: all zeros. */
static void buckets_single(bucket *out, double value, size_t count)
{
    for (int i = 0; i < EVENT_HISTOGRAM_BUCKETS; i++) {
        out[i][0] = out[i][1] = value;
        out[i][2] = 0;
    }
    out[EVENT_HISTOGRAM_BUCKETS - 1][2] = (double)count;
}

static void buckets_fill(bucket *out, const float *values, size_t count)
{
    const int last = EVENT_HISTOGRAM_BUCKETS - 1;
    double least = INFINITY, most = -INFINITY;
    size_t finite = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            continue;
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
        finite++;
    }
    if (finite == 0 || least == most) {
        buckets_single(out, finite ? least : 0, finite);
        return;
    }
    double width = (most - least) / EVENT_HISTOGRAM_BUCKETS;
    for (int i = 0; i <= last; i++) {
        out[i][0] = least + width * i;
        out[i][1] = i == last ? most : least + width * (i + 1);
        out[i][2] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            continue;
        double place = floor(((double)values[i] - least) / width);
        out[place < last ? (int)place : last][2]++;
    }
}

void event_histogram(struct ty_buf *b, double seconds, int64_t step, ty_str tag,
                     const float *values, size_t count)
{
    bucket buckets[EVENT_HISTOGRAM_BUCKETS];
    char bytes[sizeof buckets];
    buckets_fill(buckets, values, count);
    for (size_t i = 0; i < 3 * EVENT_HISTOGRAM_BUCKETS; i++) {
        uint64_t bits;
        memcpy(&bits, &buckets[i / 3][i % 3], sizeof bits);
        wire_store_le64(bytes + 8 * i, bits);
    }
    struct ty_buf tensor;
    ty_buf_init(&tensor, EVENT_BYTES);
    tensor_encode(&tensor, DTYPE_DOUBLE, &SHAPE(EVENT_HISTOGRAM_BUCKETS, 3),
                  (ty_str){bytes, sizeof bytes});
    value_write(b, seconds, step, tag, "histograms", CLASS_TENSOR, &tensor);
}

/* ---- reading ---- */

ty_err event_parse(ty_str record, struct event *ret_event)
{
    struct wire_pb m = wire_pb_of(record);
    struct wire_pb_field f;
    struct event e = {.body = {"", 0}};
    ty_err err;
    while ((err = wire_pb_next(&m, &f)) == TY_OK) {
        if (f.number == 1 && f.type == WIRE_PB_FIXED64)
            e.seconds = wire_double_of(f.value);
        else if (f.number == 2 && f.type == WIRE_PB_VARINT)
            e.step = (int64_t)f.value;
        else if (f.number >= 3 && f.number <= 5 && f.type == WIRE_PB_BYTES) {
            e.kind = f.number == 3 ? EVENT_VERSION : f.number == 4 ? EVENT_GRAPH : EVENT_SUMMARY;
            e.body = f.bytes;
        }
    }
    if (err != TY_OUT_OF_RANGE)
        return ty_wrap(err, "no TensorBoard event");
    *ret_event = e;
    return TY_OK;
}

struct tensor_head {
    enum dtype dtype;
    struct shape shape;
    ty_str content; /* raw values: tensor_content, or packed float_val or double_val */
};

/* float_val 5, double_val 6, int_val 7, int64_val 10 and tensor_content 4; first values only. */
static ty_err tensor_field(const struct wire_pb_field *f, struct tensor_head *t, double *value)
{
    if (f->number == 1 && f->type == WIRE_PB_VARINT && f->value < 200)
        t->dtype = (enum dtype)f->value;
    else if (f->number == 2 && f->type == WIRE_PB_BYTES)
        return shape_decode(f->bytes, &t->shape);
    else if (f->number == 5 && f->type == WIRE_PB_FIXED32)
        *value = (double)wire_float_of((uint32_t)f->value);
    else if (f->number == 6 && f->type == WIRE_PB_FIXED64)
        *value = wire_double_of(f->value);
    else if ((f->number == 7 || f->number == 10) && f->type == WIRE_PB_VARINT)
        *value = (double)(int64_t)f->value;
    else if (f->type == WIRE_PB_BYTES && f->number >= 4 && f->number <= 6)
        t->content = f->bytes;
    else if (f->type == WIRE_PB_BYTES && (f->number == 7 || f->number == 10)) {
        struct wire_pb packed = wire_pb_of(f->bytes);
        uint64_t first = 0;
        if (wire_pb_take_varint(&packed, &first))
            *value = (double)(int64_t)first;
    }
    return TY_OK;
}

/* The first of some raw values. */
static bool content_number(const struct tensor_head *t, double *value)
{
    ty_str c = t->content;
    if (t->dtype == DTYPE_FLOAT && c.len >= 4)
        *value = (double)wire_float_of(wire_load_le32(c.ptr));
    else if (t->dtype == DTYPE_DOUBLE && c.len >= 8)
        *value = wire_double_of(wire_load_le64(c.ptr));
    else if (t->dtype == DTYPE_INT32 && c.len == 4)
        *value = (double)(int32_t)wire_load_le32(c.ptr);
    else if (t->dtype == DTYPE_INT64 && c.len == 8)
        *value = (double)(int64_t)wire_load_le64(c.ptr);
    else
        return false;
    return true;
}

static ty_err tensor_scalar(ty_str tensor, struct event_value *v)
{
    struct wire_pb m = wire_pb_of(tensor);
    struct wire_pb_field f;
    struct tensor_head t = {0};
    double value = 0;
    ty_err err;
    while ((err = wire_pb_next(&m, &f)) == TY_OK)
        if ((err = tensor_field(&f, &t, &value)) != TY_OK)
            return err;
    if (err != TY_OUT_OF_RANGE)
        return err;
    bool number = t.dtype == DTYPE_FLOAT || t.dtype == DTYPE_DOUBLE || t.dtype == DTYPE_INT32 ||
                  t.dtype == DTYPE_INT64;
    if (!number || shape_count(&t.shape) != 1 || (t.content.len && !content_number(&t, &value)))
        return TY_OK;
    v->is_scalar = true;
    v->scalar = value;
    return TY_OK;
}

/* SummaryMetadata's plugin name. */
static ty_err plugin_of(ty_str metadata, ty_str *ret_name)
{
    for (int level = 0; level < 2; level++) { /* plugin_data = 1, then plugin_name = 1 */
        struct wire_pb m = wire_pb_of(metadata);
        struct wire_pb_field f;
        ty_err err;
        metadata = (ty_str){"", 0};
        while ((err = wire_pb_next(&m, &f)) == TY_OK)
            if (f.number == 1 && f.type == WIRE_PB_BYTES)
                metadata = f.bytes;
        if (err != TY_OUT_OF_RANGE)
            return err;
    }
    *ret_name = metadata;
    return TY_OK;
}

static ty_err value_parse(ty_str message, struct event_value *v)
{
    struct wire_pb m = wire_pb_of(message);
    struct wire_pb_field f;
    ty_err err;
    while ((err = wire_pb_next(&m, &f)) == TY_OK) {
        if (f.number == 1 && f.type == WIRE_PB_BYTES) {
            v->tag = f.bytes;
        } else if (f.number == 2 && f.type == WIRE_PB_FIXED32) {
            v->is_scalar = true;
            v->scalar = (double)wire_float_of((uint32_t)f.value);
        } else if (f.number == 8 && f.type == WIRE_PB_BYTES) {
            err = tensor_scalar(f.bytes, v);
        } else if (f.number == 9 && f.type == WIRE_PB_BYTES) {
            err = plugin_of(f.bytes, &v->plugin);
        }
        if (err)
            return err;
    }
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

ty_err event_value_next(ty_str *rest, struct event_value *ret_value)
{
    struct wire_pb m = wire_pb_of(*rest);
    struct wire_pb_field f;
    ty_err err;
    do
        err = wire_pb_next(&m, &f);
    while (!err && (f.number != 1 || f.type != WIRE_PB_BYTES));
    if (err == TY_OUT_OF_RANGE)
        return err;
    struct event_value v = {.tag = {"", 0}, .plugin = {"", 0}};
    if (!err)
        err = value_parse(f.bytes, &v);
    if (err)
        return ty_wrap(err, "no TensorBoard summary");
    *rest = (ty_str){m.at, (size_t)(m.end - m.at)};
    *ret_value = v;
    return TY_OK;
}
