/* layer_first.c -- a dense layer right after the features, without their wide rows of zeros.
 *
 * Features beside each other are mostly one embedding and ones among zeros, so x kernel is
 *
 *   numbers (rows, N) times their N rows of the kernel
 *   + for each indicator one row of the kernel
 *   + for each embedding the product of its table row with its part of the kernel,
 *     computed once for each id that the shard has, however many examples share it
 *
 * and the gradients go the same way: dy is summed by id first, in each shard for the kernel, then
 * over all shards for the table. It stands in for dense where nothing else reads the features
 * (net.c); parameters and the exported graph are dense's own. */
#include "nn/nn_int.h"

enum { KERNEL, BIAS };
enum { FEW = 32 };          /* rows of a table for which other threads are not worth a call */
enum { FEW_NUMBERS = 128 }; /* numbers of an example; more of them are pixels or the like */

static const struct nn_layer *features_of(const struct nn_net *n)
{
    return &n->layers[0];
}

/* ---- planning ---- */

static size_t numbers_count(const struct nn_layer *f)
{
    size_t count = 0;
    for (size_t i = 0; i < f->part_count; i++)
        count += f->parts[i].kind == NN_NUMBER;
    return count;
}

static size_t table_size(size_t rows)
{
    size_t size = 4;
    while (size < 2 * rows)
        size *= 2;
    return size;
}

/* Floats that one part of one shard needs, ids counting as such. */
static size_t distinct_floats(const struct nn_part *p, size_t rows, size_t out)
{
    return rows * (p->width + 2 * out + 2) + table_size(rows) + 96;
}

size_t nn_first_floats(const struct nn_net *n, size_t rows)
{
    const struct nn_layer *f = features_of(n);
    size_t out = n->layers[1].units, numbers = numbers_count(f);
    size_t sum = rows * numbers + 2 * numbers * out + f->part_count + 80;
    for (size_t i = 0; i < f->part_count; i++)
        sum += f->parts[i].kind == NN_EMBEDDING ? distinct_floats(&f->parts[i], rows, out) : 0;
    return sum;
}

static float *take(float **at, size_t floats)
{
    float *here = *at;
    *at += (floats + 15) / 16 * 16;
    return here;
}

void nn_first_plan(struct nn_net *n, struct nn_shard *s, size_t rows, float *at)
{
    const struct nn_layer *f = features_of(n);
    size_t out = n->layers[1].units, numbers = numbers_count(f);
    s->numbers = take(&at, rows * numbers);
    s->number_kernel = take(&at, numbers * out);
    s->number_grad = take(&at, numbers * out);
    s->counts = (uint32_t *)take(&at, f->part_count);
    s->distinct = ty_new_array(&n->arena, struct nn_distinct, f->part_count);
    for (size_t i = 0; i < f->part_count; i++) {
        const struct nn_part *p = &f->parts[i];
        struct nn_distinct *d = &s->distinct[i];
        if (p->kind != NN_EMBEDDING)
            continue;
        d->count = &s->counts[i];
        d->mask = table_size(rows) - 1;
        d->x = take(&at, rows * p->width);
        d->product = take(&at, rows * out);
        d->sums = take(&at, rows * out);
        d->ids = (uint32_t *)take(&at, rows);
        d->of = (uint32_t *)take(&at, rows);
        d->table = (uint32_t *)take(&at, d->mask + 1);
    }
}

bool nn_first_fits(const struct nn_net *n)
{
    size_t readers = 0;
    for (size_t i = 0; i < n->layer_count; i++)
        for (size_t k = 0; k < n->layers[i].input_count; k++)
            readers += n->layers[i].inputs[k] == 0;
    return n->layer_count > 1 && n->layers[0].kind == &nn_layer_features &&
           n->layers[1].kind == &nn_layer_dense && n->layers[1].inputs[0] == 0 && readers == 1;
}

/* ---- ids of a shard, each once ---- */

/* The place of an id in the list, at its end if it is new. The table holds places + 1. */
static uint32_t distinct_place(struct nn_distinct *d, uint32_t id)
{
    size_t at = (id * UINT32_C(2654435769) >> 8) & d->mask;
    while (d->table[at] != 0 && d->ids[d->table[at] - 1] != id)
        at = (at + 1) & d->mask;
    if (d->table[at] == 0) {
        d->ids[*d->count] = id;
        d->table[at] = ++*d->count;
    }
    return d->table[at] - 1;
}

static void distinct_find(const struct nn_net *n, const struct nn_shard *s, const struct nn_part *p,
                          struct nn_distinct *d)
{
    const struct nn_rows *rows = n->batch.rows;
    const float *table = n->params[p->param].data;
    *d->count = 0;
    memset(d->table, 0, (d->mask + 1) * sizeof *d->table);
    for (size_t i = 0; i < s->rows; i++) {
        size_t pick = nn_shard_pick(n, s->first + i);
        int32_t id = rows->ids[pick * rows->ids_each + p->slot];
        d->of[i] = id < 0 ? UINT32_MAX : distinct_place(d, (uint32_t)id);
    }
    for (size_t i = 0; i < *d->count; i++)
        memcpy(d->x + i * p->width, table + d->ids[i] * p->width, p->width * sizeof *d->x);
}

/* ---- forward ---- */

static void numbers_gather(const struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const struct nn_layer *f = features_of(n);
    const struct nn_rows *rows = n->batch.rows;
    const float *kernel = nn_layer_param(n, l, KERNEL)->data;
    size_t numbers = numbers_count(f), k = 0;
    for (size_t i = 0; i < f->part_count; i++) {
        const struct nn_part *p = &f->parts[i];
        if (p->kind != NN_NUMBER)
            continue;
        for (size_t row = 0; row < s->rows; row++)
            s->numbers[row * numbers + k] =
                rows->floats[nn_shard_pick(n, s->first + row) * rows->floats_each + p->slot];
        memcpy(s->number_kernel + k++ * l->units, kernel + p->from * l->units,
               l->units * sizeof *kernel);
    }
}

static void add(float *y, const float *x, size_t count)
{
    tensor_axpy(1, x, y, count);
}

static void indicator_add(const struct nn_net *n, const struct nn_part *p, const struct nn_shard *s,
                          const float *kernel, float *y, size_t out)
{
    const struct nn_rows *rows = n->batch.rows;
    for (size_t i = 0; i < s->rows; i++) {
        int32_t id = rows->ids[nn_shard_pick(n, s->first + i) * rows->ids_each + p->slot];
        if (id >= 0)
            add(y + i * out, kernel + (p->from + (size_t)id) * out, out);
    }
}

static void embedding_add(const struct nn_net *n, const struct nn_part *p, struct nn_shard *s,
                          struct nn_distinct *d, const float *kernel, float *y, size_t out)
{
    distinct_find(n, s, p, d);
    struct tensor_matrix x = {d->x, p->width, TENSOR_PLAIN};
    struct tensor_matrix w = {kernel + p->from * out, out, TENSOR_PLAIN};
    if (*d->count > 0)
        tensor_gemm(*d->count, out, p->width, x, w, d->product, out, false, s->scratch);
    for (size_t i = 0; i < s->rows; i++)
        if (d->of[i] != UINT32_MAX)
            add(y + i * out, d->product + d->of[i] * out, out);
}

static void first_forward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const struct nn_layer *f = features_of(n);
    size_t out = l->units, numbers = numbers_count(f);
    const float *kernel = nn_layer_param(n, l, KERNEL)->data;
    float *y = s->y[nn_layer_index(n, l)];
    numbers_gather(n, l, s);
    struct tensor_matrix x = {s->numbers, numbers, TENSOR_PLAIN};
    struct tensor_matrix w = {s->number_kernel, out, TENSOR_PLAIN};
    if (numbers > FEW_NUMBERS)
        tensor_gemm(s->rows, out, numbers, x, w, y, out, false, s->scratch);
    else /* seconds beside miles: where they cancel, rounding would be all that is left */
        tensor_exact_product(s->numbers, s->number_kernel, s->rows, out, numbers, y);
    for (size_t i = 0; i < f->part_count; i++) {
        if (f->parts[i].kind == NN_INDICATOR)
            indicator_add(n, &f->parts[i], s, kernel, y, out);
        else if (f->parts[i].kind == NN_EMBEDDING)
            embedding_add(n, &f->parts[i], s, &s->distinct[i], kernel, y, out);
    }
    tensor_bias(y, nn_layer_param(n, l, BIAS)->data, s->rows, out, l->activation == NN_RELU);
    if (l->activation > NN_RELU)
        nn_activate(y, s->rows, out, l->activation);
}

/* ---- backward ---- */

static void numbers_backward(const struct nn_net *n, const struct nn_shard *s, const float *dy,
                             float *dkernel, size_t out)
{
    const struct nn_layer *f = features_of(n);
    size_t numbers = numbers_count(f), k = 0;
    struct tensor_matrix x = {s->numbers, numbers, TENSOR_TRANSPOSED};
    struct tensor_matrix g = {dy, out, TENSOR_PLAIN};
    if (numbers == 0)
        return;
    tensor_gemm(numbers, out, s->rows, x, g, s->number_grad, out, false, s->scratch);
    for (size_t i = 0; i < f->part_count; i++)
        if (f->parts[i].kind == NN_NUMBER)
            memcpy(dkernel + f->parts[i].from * out, s->number_grad + k++ * out,
                   out * sizeof *dkernel);
}

static void indicator_backward(const struct nn_net *n, const struct nn_part *p,
                               const struct nn_shard *s, const float *dy, float *dkernel,
                               size_t out)
{
    const struct nn_rows *rows = n->batch.rows;
    memset(dkernel + p->from * out, 0, p->width * out * sizeof *dkernel);
    for (size_t i = 0; i < s->rows; i++) {
        int32_t id = rows->ids[nn_shard_pick(n, s->first + i) * rows->ids_each + p->slot];
        if (id >= 0)
            add(dkernel + (p->from + (size_t)id) * out, dy + i * out, out);
    }
}

static void embedding_backward(const struct nn_part *p, struct nn_shard *s, struct nn_distinct *d,
                               const float *dy, float *dkernel, size_t out)
{
    if (*d->count == 0) {
        memset(dkernel + p->from * out, 0, p->width * out * sizeof *dkernel);
        return;
    }
    memset(d->sums, 0, *d->count * out * sizeof *d->sums);
    for (size_t i = 0; i < s->rows; i++)
        if (d->of[i] != UINT32_MAX)
            add(d->sums + d->of[i] * out, dy + i * out, out);
    struct tensor_matrix x = {d->x, p->width, TENSOR_TRANSPOSED};
    struct tensor_matrix g = {d->sums, out, TENSOR_PLAIN};
    tensor_gemm(p->width, out, *d->count, x, g, dkernel + p->from * out, out, false, s->scratch);
}

static void first_backward(struct nn_net *n, const struct nn_layer *l, struct nn_shard *s)
{
    const struct nn_layer *f = features_of(n);
    size_t at = nn_layer_index(n, l), out = l->units;
    float *dkernel = nn_shard_grad(s, nn_layer_param(n, l, KERNEL)), *dy = s->dy[at];
    nn_activate_backward(dy, s->y[at], s->rows, out, l->activation);
    tensor_row_sum(dy, s->rows, out, nn_shard_grad(s, nn_layer_param(n, l, BIAS)));
    numbers_backward(n, s, dy, dkernel, out);
    for (size_t i = 0; i < f->part_count; i++) {
        if (f->parts[i].kind == NN_INDICATOR)
            indicator_backward(n, &f->parts[i], s, dy, dkernel, out);
        else if (f->parts[i].kind == NN_EMBEDDING)
            embedding_backward(&f->parts[i], s, &s->distinct[i], dy, dkernel, out);
    }
}

/* ---- tables ---- */

size_t nn_first_part(const struct nn_net *n, size_t param)
{
    const struct nn_layer *f = features_of(n);
    size_t part = 0;
    while (f->parts[part].kind != NN_EMBEDDING || f->parts[part].param != param)
        part++;
    return part;
}

/* Rows [from, to) of the gradient: the sums of dy times the kernel's part, turned. */
static void rows_compute(struct nn_net *n, const struct nn_param *p, size_t from, size_t to,
                         float *scratch)
{
    const struct nn_layer *f = features_of(n), *l = &n->layers[1];
    const struct nn_part *part = &f->parts[nn_first_part(n, (size_t)(p - n->params))];
    size_t out = l->units;
    const float *kernel = nn_layer_param(n, l, KERNEL)->data + part->from * out;
    struct tensor_matrix g = {n->first_sums + from * out, out, TENSOR_PLAIN};
    struct tensor_matrix w = {kernel, out, TENSOR_TRANSPOSED};
    if (to > from)
        tensor_gemm(to - from, p->width, out, g, w, nn_rows_grad(n, p) + from * p->width, p->width,
                    false, scratch);
}

size_t nn_first_rows(const struct nn_net *n, const struct nn_param *p, size_t shard,
                     size_t *ret_from)
{
    if (p->row_count <= FEW) { /* all by the first */
        *ret_from = shard == 0 ? 0 : p->row_count;
        return p->row_count;
    }
    *ret_from = p->row_count * shard / n->shard_count;
    return p->row_count * (shard + 1) / n->shard_count;
}

static void rows_segment(void *arg, int index)
{
    struct nn_net *n = arg;
    size_t i = n->own_first + (size_t)index, from;
    nn_flush_denormals();
    size_t to = nn_first_rows(n, n->gathered, i, &from);
    rows_compute(n, n->gathered, from, to, n->shards[i].scratch);
}

void nn_first_gather(struct nn_net *n, struct nn_param *p)
{
    size_t part = nn_first_part(n, (size_t)(p - n->params)), out = n->layers[1].units;
    for (size_t k = 0; k < n->shard_count; k++) {
        const struct nn_distinct *d = &n->shards[k].distinct[part];
        for (size_t i = 0; i < *d->count; i++) {
            bool is_new;
            float *to = nn_row_gather(p, d->ids[i], n->first_sums, out, &is_new);
            if (is_new)
                memcpy(to, d->sums + i * out, out * sizeof *to);
            else
                add(to, d->sums + i * out, out);
        }
    }
    n->gathered = p;
    if (p->row_count > FEW)
        tensor_team_run(n->team, rows_segment, n, (int)n->own_count);
    else if (n->own_first == 0)
        rows_segment(n, 0);
}

/* ---- the rest is dense's ---- */

static void first_plan(struct nn_net *n, struct nn_layer *l)
{
    nn_layer_dense.plan(n, l);
}

static size_t first_scratch(const struct nn_net *n, const struct nn_layer *l, size_t rows)
{
    size_t most = nn_layer_dense.scratch(n, l, rows);
    const struct nn_layer *f = features_of(n);
    for (size_t i = 0; i < f->part_count; i++) {
        size_t width = f->parts[i].width, out = l->units;
        size_t sizes[] = {tensor_gemm_scratch(rows, out, width, TENSOR_PLAIN),
                          tensor_gemm_scratch(width, out, rows, TENSOR_PLAIN),
                          tensor_gemm_scratch(rows + FEW, width, out, TENSOR_TRANSPOSED)};
        for (size_t k = 0; k < TY_COUNT(sizes); k++)
            most = sizes[k] > most ? sizes[k] : most;
    }
    return most;
}

static void first_init(struct nn_net *n, const struct nn_layer *l)
{
    nn_layer_dense.init(n, l);
}

static struct graph_out first_export(struct nn_exporter *x, const struct nn_layer *l,
                                     const struct graph_out *inputs)
{
    return nn_layer_dense.export(x, l, inputs);
}

const struct nn_layer_kind nn_layer_first = {
    .name = "dense",
    .plan = first_plan,
    .scratch = first_scratch,
    .init = first_init,
    .forward = first_forward,
    .backward = first_backward,
    .export = first_export,
};
