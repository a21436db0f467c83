/* net.c -- a network: planned once, then forward and backward over the shards of a batch.
 *
 * Blocks of memory, in this order inside each:
 *   weights   plain parameters of all layers, then tables
 *   grads     shard by shard, as the plain parameters lie
 *   y, dy     shard by shard, layer by layer
 * A table's gradient is the list of rows that the batch read. It is summed in the order of the
 * examples, which no thread changes.
 *
 * A layer that needs sums over the whole batch (batch_norm) ends a segment: all shards run up to
 * it, the sums are combined, and all go on.
 *
 * With a crew, the shards are dealt out to its ranks, and what shards compute lies in the crew's
 * rooms, where all ranks see it. A step begins when all ranks have come: until then one may still
 * read what the last step left. Sums of batch_norm have places of their own for forward and
 * backward, so that no rank writes what another still reads. */
#include "nn/nn_int.h"

#include <math.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

void nn_flush_denormals(void)
{
#if defined(__x86_64__)
    enum { FLUSH_RESULTS = 0x8000, FLUSH_OPERANDS = 0x0040 };
    _mm_setcsr(_mm_getcsr() | FLUSH_RESULTS | FLUSH_OPERANDS);
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | (UINT64_C(1) << 24)));
#endif
}

/* ---- planning ---- */

enum { ALONE_FLOATS = 1 << 16 }; /* of gradients: fewer are summed before a thread wakes up */
enum { MOST_PARAMS = NN_MAX_LAYERS * NN_LAYER_PARAMS + NN_MAX_VALUES };
enum { MOST_BLOCKS = 3 * NN_MAX_VALUES + MOST_PARAMS + 16 };

static struct nn_param *param_new(struct nn_net *n, const char *name)
{
    ty_assert(n->param_count < MOST_PARAMS);
    struct nn_param *p = &n->params[n->param_count++];
    p->name = ty_str_dup(&n->arena, ty_str_of(name));
    return p;
}

size_t nn_param_add(struct nn_net *n, const struct nn_layer *l, const char *name, struct shape s)
{
    struct nn_param *p = param_new(n, ty_format(&n->arena, "%s/%s", l->name.ptr, name));
    p->shape = s;
    p->count = (size_t)shape_count(&s);
    return n->param_count - 1;
}

size_t nn_param_add_table(struct nn_net *n, const struct nn_layer *l, const char *name, size_t rows,
                          size_t width, size_t id_slot, size_t from)
{
    struct nn_param *p = param_new(n, name);
    p->shape = SHAPE((int64_t)rows, (int64_t)width);
    p->count = rows * width;
    p->table = true;
    p->width = width;
    p->id_slot = id_slot;
    n->tables[n->table_count++] = (struct nn_table){n->param_count - 1, nn_layer_index(n, l), from};
    return n->param_count - 1;
}

/* A layer's gradient is needed if it has something to learn, or what it reads has. */
static void needs_plan(struct nn_net *n)
{
    for (size_t i = 0; i < n->layer_count; i++) {
        const struct nn_layer *l = &n->layers[i];
        bool needed = l->kind != &nn_layer_features && l->params[0] != SIZE_MAX;
        for (size_t k = 0; k < l->input_count; k++) {
            needed |= n->need_to[l->inputs[k]] > n->need_from[l->inputs[k]];
            n->uses[l->inputs[k]]++;
        }
        for (size_t k = 0; k < n->model->head_count; k++)
            needed |= n->model->heads[k].layer == i;
        n->need_to[i] = needed ? nn_layer_width(l) : 0;
        for (size_t k = 0; k < l->part_count && l->kind == &nn_layer_features; k++) {
            const struct nn_part *p = &l->parts[k];
            if (p->kind != NN_EMBEDDING)
                continue;
            if (n->need_to[i] == 0)
                n->need_from[i] = p->from;
            n->need_to[i] = p->from + p->width;
        }
    }
    if (n->has_first)
        n->need_to[0] = n->need_from[0];
}

/* calloc, so that pages nobody touches cost nothing; 64 bytes more to align by hand. After one that
 * failed all others do: asked once, at the end. */
static void *block_new(struct nn_net *n, size_t count, size_t size)
{
    ty_assert(n->block_count < MOST_BLOCKS);
    void *block = n->no_memory || count > NN_MAX_FLOATS ? NULL : calloc(count * size + 128, 1);
    n->no_memory |= block == NULL;
    n->blocks[n->block_count++] = block;
    return block ? (void *)(((uintptr_t)block + 63) / 64 * 64) : NULL;
}

/* What shards compute, for all ranks to see. */
static void *room_new(struct nn_net *n, size_t count, size_t size)
{
    void *room = NULL;
    if (n->crew == NULL)
        return block_new(n, count, size);
    if (!n->crew_failed && (n->no_memory || count > NN_MAX_FLOATS))
        n->no_memory = true;
    else if (!n->crew_failed)
        nn_crew_done(n, crew_room(n->crew, count * size + 64, &room));
    return room;
}

/* Lines of 64 bytes: shards do not share one. */
static size_t lines(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* Floats of plain parameters, of the first `params`. */
static size_t plain_floats(const struct nn_net *n, size_t params)
{
    size_t plain = 0;
    for (size_t i = 0; i < params; i++)
        plain += n->params[i].table ? 0 : lines(n->params[i].count);
    return plain;
}

static ty_err weights_plan(struct nn_net *n)
{
    size_t sums = 0;
    n->plain_from = ty_new_array(&n->arena, size_t, n->layer_count);
    for (size_t i = 0; i < n->layer_count; i++) {
        for (size_t k = 0; k < NN_LAYER_PARAMS; k++)
            n->layers[i].params[k] = SIZE_MAX;
        n->layers[i].state = sums;
        sums += lines(NN_SUMS * n->layers[i].channels);
        n->plain_from[i] = plain_floats(n, n->param_count);
        if (n->layers[i].kind->plan)
            n->layers[i].kind->plan(n, &n->layers[i]);
    }
    size_t plain = plain_floats(n, n->param_count), all = plain;
    for (size_t i = 0; i < n->param_count; i++)
        all += n->params[i].table ? lines(n->params[i].count) : 0;
    if (all > NN_MAX_FLOATS)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the model has %zu parameters; at most %zu are possible", all,
                       NN_MAX_FLOATS);
    n->plain_count = plain;
    n->weight_count = all;
    n->weights = block_new(n, all, sizeof(float));
    float *next = n->weights, *table = n->weights + plain;
    for (size_t i = 0; i < n->param_count; i++) {
        float **place = n->params[i].table ? &table : &next;
        n->params[i].data = *place;
        n->params[i].from = n->params[i].table ? 0 : (size_t)(next - n->weights);
        *place += lines(n->params[i].count);
    }
    return TY_OK;
}

static size_t scratch_floats(const struct nn_net *n, size_t rows)
{
    size_t most = 0;
    for (size_t i = 0; i < n->layer_count; i++) {
        const struct nn_layer *l = &n->layers[i];
        size_t need = l->kind->scratch ? l->kind->scratch(n, l, rows) : 0;
        most = need > most ? need : most;
    }
    return lines(most);
}

/* Floats of activations that one shard needs, both directions. */
static size_t shard_floats(const struct nn_net *n, size_t rows)
{
    size_t sum = 0;
    for (size_t i = 0; i < n->layer_count; i++) {
        const struct nn_layer *l = &n->layers[i];
        size_t size = n->has_first && i == 0 ? 0 : lines(rows * nn_layer_width(l));
        sum += size + (n->need_to[i] > n->need_from[i] ? size : 0);
        sum += l->kind == &nn_layer_max_pool ? size : 0;
    }
    return sum + 4 * lines(rows);
}

static void shard_plan(struct nn_net *n, struct nn_shard *s, size_t rows, float *at)
{
    s->y = ty_new_array(&n->arena, float *, n->layer_count);
    s->dy = ty_new_array(&n->arena, float *, n->layer_count);
    for (size_t i = 0; i < n->layer_count; i++) {
        size_t size = n->has_first && i == 0 ? 0 : lines(rows * nn_layer_width(&n->layers[i]));
        s->y[i] = at;
        at += size;
        if (n->need_to[i] > n->need_from[i]) {
            s->dy[i] = at;
            at += size;
        }
    }
    s->which = ty_new_array(&n->arena, uint32_t *, n->layer_count);
    for (size_t i = 0; i < n->layer_count; i++)
        if (n->layers[i].kind == &nn_layer_max_pool) {
            s->which[i] = (uint32_t *)at;
            at += lines(rows * nn_layer_width(&n->layers[i]));
        }
    s->labels = at;
    s->weights = at + lines(rows);
    s->classes = (int32_t *)(at + 2 * lines(rows));
    s->losses = at + 3 * lines(rows);
}

/* Where the optimizer finds gradients: where they were summed, or a copy of it. */
static void grads_plan(struct nn_net *n)
{
    bool copies = n->crew && n->model->training.clip_norm > 0;
    size_t table = 0;
    n->summed = ty_new_array(&n->arena, float *, n->param_count);
    for (size_t i = 0; i < n->param_count; i++) {
        struct nn_param *p = &n->params[i];
        size_t most = p->table ? n->batch_max * p->width : p->count;
        bool first = p->table && n->tables[table++].layer == 0 && n->has_first;
        if (p->table) {
            p->rows = block_new(n, n->batch_max, sizeof(uint32_t));
            p->seen = block_new(n, (size_t)p->shape.dims[0], sizeof(uint32_t));
        }
        if (p->table && !first)
            p->grad = block_new(n, most, sizeof(float)); /* each rank sums all of it */
        else
            p->grad = p->table ? room_new(n, most, sizeof(float)) : n->grad_sum + p->from;
        if (copies && (first || !p->table)) {
            n->summed[i] = p->grad;
            p->grad = block_new(n, most, sizeof(float));
        }
    }
}

/* Floats of batch_norm's sums, of all layers. */
static size_t sums_floats(const struct nn_net *n)
{
    size_t sums = 0;
    for (size_t i = 0; i < n->layer_count; i++)
        sums += lines(NN_SUMS * n->layers[i].channels);
    return sums;
}

/* Do other ranks read a layer's gradient, for the rows of a table? (net_crew.c) */
static bool gradients_are_shared(const struct nn_net *n)
{
    for (size_t i = 0; i < n->table_count; i++)
        if (!n->has_first || n->tables[i].layer != 0)
            return n->crew != NULL;
    return false;
}

static void batches_plan(struct nn_net *n)
{
    size_t rows = (n->batch_max + n->shard_max - 1) / n->shard_max;
    rows = rows < 4 ? 4 : rows;
    size_t each = shard_floats(n, rows), scratch = scratch_floats(n, rows);
    n->shards = ty_new_array(&n->arena, struct nn_shard, n->shard_max);
    size_t first = n->has_first ? lines(nn_first_floats(n, rows)) : 0;
    size_t sums = sums_floats(n);
    float *activations = gradients_are_shared(n) ? room_new(n, each * n->shard_max, sizeof(float))
                                                 : block_new(n, each * n->shard_max, sizeof(float));
    float *all_sums = room_new(n, sums * n->shard_max, sizeof(float));
    float *firsts = room_new(n, first * n->shard_max, sizeof(float));
    float *scratches = block_new(n, scratch * n->shard_max, sizeof(float));
    n->grads = room_new(n, n->plain_count * n->shard_max, sizeof(float));
    n->grad_sum = n->crew ? room_new(n, n->plain_count, sizeof(float)) : n->grads;
    if (n->no_memory || n->crew_failed)
        return;
    for (size_t i = 0; i < n->shard_max; i++) {
        n->shards[i].grads = n->grads + i * n->plain_count;
        n->shards[i].scratch = scratches + i * scratch;
        n->shards[i].sums = all_sums + i * sums;
        shard_plan(n, &n->shards[i], rows, activations + i * each);
        if (n->has_first)
            nn_first_plan(n, &n->shards[i], rows, firsts + i * first);
    }
    if (n->has_first)
        n->first_sums = block_new(n, n->batch_max * n->layers[1].units, sizeof(float));
    n->logits = room_new(n, n->batch_max * n->model->logits_each, sizeof(float));
    n->losses = room_new(n, n->batch_max, sizeof(float));
    n->head_losses = room_new(n, n->batch_max * n->model->head_count, sizeof(float));
    if (n->crew) {
        n->words = room_new(n, (size_t)crew_size(n->crew) * NN_WORD, sizeof *n->words);
        nn_crew_plan(n);
    }
    n->sums = ty_new_array(&n->arena, float, sums);
    grads_plan(n);
    if (n->crew && !n->crew_failed && !n->no_memory)
        nn_crew_cut(n);
}

void nn_init_glorot(const struct nn_net *n, const struct nn_param *p, size_t in, size_t out)
{
    float limit = sqrtf(6.0f / (float)(in + out));
    tensor_uniform(n->seed, (uint64_t)(p - n->params), -limit, limit, p->data, p->count);
}

ty_err nn_net_new(const struct nn_model *m, size_t batch, size_t shards, uint64_t seed,
                  struct tensor_team *team, struct crew *crew, struct nn_net **ret_net)
{
    struct nn_net *n = calloc(1, sizeof *n);
    ty_assert(n && batch > 0 && shards > 0 && shards <= NN_MAX_SHARDS);
    n->model = m;
    n->team = team;
    n->crew = crew;
    n->batch_max = batch;
    n->shard_max = shards;
    n->seed = seed;
    nn_work_init(n);
    n->layer_count = m->layer_count;
    n->layers = ty_new_array(&n->arena, struct nn_layer, n->layer_count);
    memcpy(n->layers, m->layers, n->layer_count * sizeof *n->layers);
    n->params = ty_new_array(&n->arena, struct nn_param, MOST_PARAMS);
    n->blocks = ty_new_array(&n->arena, void *, MOST_BLOCKS);
    n->tables = ty_new_array(&n->arena, struct nn_table, NN_MAX_VALUES);
    n->need_from = ty_new_array(&n->arena, size_t, 3 * n->layer_count);
    n->need_to = n->need_from + n->layer_count;
    n->uses = n->need_to + n->layer_count;
    n->has_first = nn_first_fits(n);
    if (n->has_first)
        n->layers[1].kind = &nn_layer_first;
    ty_err err = weights_plan(n);
    if (err == TY_OK && !n->no_memory) {
        needs_plan(n);
        batches_plan(n);
    }
    if (err == TY_OK)
        err = nn_net_state(n);
    if (err == TY_OK && n->no_memory)
        err = ty_fail(TY_RESOURCE_EXHAUSTED,
                      "no memory for a model of %zu parameters and batches of %zu", n->weight_count,
                      batch);
    if (err != TY_OK) {
        nn_net_free(n);
        return err;
    }
    for (size_t i = 0; i < n->layer_count; i++)
        if (n->layers[i].kind->init)
            n->layers[i].kind->init(n, &n->layers[i]);
    *ret_net = n;
    return TY_OK;
}

void nn_net_free(struct nn_net *n)
{
    if (n == NULL)
        return;
    for (size_t i = 0; i < n->block_count; i++)
        free(n->blocks[i]);
    ty_arena_clear(&n->arena);
    free(n);
}

size_t nn_net_params(const struct nn_net *n, struct nn_param **ret_params)
{
    *ret_params = n->params;
    return n->param_count;
}

const struct nn_model *nn_net_model(const struct nn_net *n)
{
    return n->model;
}

struct tensor_team *nn_net_team(const struct nn_net *n)
{
    return n->team;
}

/* ---- running ---- */

static bool is_barrier(const struct nn_net *n, size_t layer)
{
    return n->batch.training && n->layers[layer].kind->combine != NULL;
}

static void labels_gather(struct nn_net *n, struct nn_shard *s, size_t head)
{
    const struct nn_head *h = &n->model->heads[head];
    size_t each = n->model->head_count;
    for (size_t i = 0; i < s->rows; i++) {
        float label = n->batch.rows->labels[nn_shard_pick(n, s->first + i) * each + head];
        s->labels[i] = label;
        s->classes[i] = h->type == NN_REGRESSION ? 0 : (int32_t)label;
        s->weights[i] = h->class_weights ? h->class_weights[s->classes[i]] : 1.0f;
    }
}

static void head_loss(struct nn_net *n, struct nn_shard *s, const struct nn_head *h, float *dy)
{
    const float *y = s->y[h->layer], *weights = h->class_weights ? s->weights : NULL;
    size_t count = n->batch.count;
    if (h->type == NN_MULTICLASS)
        tensor_softmax_loss(y, s->classes, weights, s->rows, h->class_count, count, s->losses, dy);
    else if (h->type == NN_BINARY)
        tensor_sigmoid_loss(y, s->labels, weights, s->rows, count, s->losses, dy);
    else if (h->loss == NN_MAE)
        tensor_absolute_loss(y, s->labels, NULL, s->rows, count, s->losses, dy);
    else if (h->loss == NN_HUBER)
        tensor_huber_loss(y, s->labels, NULL, h->huber_delta, s->rows, count, s->losses, dy);
    else
        tensor_square_loss(y, s->labels, NULL, s->rows, count, s->losses, dy);
}

/* Loss of each example, and the gradient of the logits. */
static void head_run(struct nn_net *n, struct nn_shard *s, size_t head)
{
    const struct nn_model *m = n->model;
    const struct nn_head *h = &m->heads[head];
    size_t k = h->class_count;
    float *y = s->y[h->layer], *dy = n->batch.training ? s->dy[h->layer] : NULL;
    for (size_t i = 0; i < s->rows; i++)
        memcpy(n->logits + (s->first + i) * m->logits_each + h->from, y + i * k, k * sizeof *y);
    if (n->batch.rows->labels == NULL)
        return;
    labels_gather(n, s, head);
    head_loss(n, s, h, dy);
    for (size_t i = 0; i < s->rows; i++) {
        float *total = &n->losses[s->first + i], part = h->weight * s->losses[i];
        n->head_losses[(s->first + i) * m->head_count + head] = s->losses[i];
        *total = head == 0 ? part : *total + part;
    }
    for (size_t i = 0; dy && h->weight != 1 && i < s->rows * k; i++)
        dy[i] *= h->weight;
}

static void forward_segment(void *arg, int index)
{
    struct nn_net *n = arg;
    struct nn_shard *s = &n->shards[n->own_first + (size_t)index];
    int64_t began = nn_work_begin(n);
    nn_flush_denormals();
    for (size_t i = n->at; i < n->layer_count; i++) {
        const struct nn_layer *l = &n->layers[i];
        if (n->resuming && i == n->at) {
            l->kind->forward_after(n, l, s);
            continue;
        }
        l->kind->forward(n, l, s);
        if (is_barrier(n, i)) {
            nn_work_end(n, s, began);
            return;
        }
    }
    for (size_t i = 0; i < n->model->head_count; i++)
        head_run(n, s, i);
    nn_work_end(n, s, began);
}

/* A shard has at least two examples, so that small batches are not cut to nothing. */
static size_t shards_of(const struct nn_net *n, size_t examples)
{
    size_t count = examples / 2;
    return count < 1 ? 1 : count > n->shard_max ? n->shard_max : count;
}

static void batch_cut(struct nn_net *n, const struct nn_batch *b)
{
    size_t count = shards_of(n, b->count);
    n->batch = *b;
    n->shard_count = count;
    n->own_first = nn_crew_first(n->crew, crew_rank(n->crew), count);
    n->own_count = nn_crew_first(n->crew, crew_rank(n->crew) + 1, count) - n->own_first;
    for (size_t i = 0; i < count; i++) {
        n->shards[i].first = b->count * i / count;
        n->shards[i].rows = b->count * (i + 1) / count - n->shards[i].first;
    }
}

size_t nn_net_own(const struct nn_net *n, size_t examples, size_t *ret_first)
{
    size_t shards = shards_of(n, examples);
    int rank = crew_rank(n->crew);
    *ret_first = examples * nn_crew_first(n->crew, rank, shards) / shards;
    return examples * nn_crew_first(n->crew, rank + 1, shards) / shards - *ret_first;
}

struct nn_outputs nn_net_forward(struct nn_net *n, const struct nn_batch *b)
{
    ty_assert(b->count > 0 && b->count <= n->batch_max);
    batch_cut(n, b);
    nn_crew_begin(n, b->training ? "forward" : "evaluation");
    n->at = 0;
    n->resuming = false;
    for (;;) {
        tensor_team_run(n->team, forward_segment, n, (int)n->own_count);
        size_t i = n->at + n->resuming;
        while (i < n->layer_count && !is_barrier(n, i))
            i++;
        if (i == n->layer_count)
            break;
        nn_crew_sums(n, &n->layers[i], false);
        n->layers[i].kind->combine(n, &n->layers[i], false);
        n->at = i;
        n->resuming = true;
    }
    if (!b->training)
        nn_crew_outputs(n);
    bool known = b->rows->labels != NULL;
    return (struct nn_outputs){n->logits, known ? n->losses : NULL, known ? n->head_losses : NULL};
}

float *nn_input_grad(const struct nn_net *n, const struct nn_layer *l, const struct nn_shard *s,
                     size_t input, bool *ret_add)
{
    *ret_add = n->uses[l->inputs[input]] > 1;
    return s->dy[l->inputs[input]];
}

/* A layer of a shard. Gradients that several layers add to begin with zeros. */
static void backward_layer(struct nn_net *n, size_t layer, struct nn_shard *s)
{
    const struct nn_layer *l = &n->layers[layer];
    if (s->dy[layer] == NULL)
        return;
    if (n->resuming && layer == n->at)
        l->kind->backward_after(n, l, s);
    else
        l->kind->backward(n, l, s);
}

static void grads_zero(const struct nn_net *n, struct nn_shard *s)
{
    for (size_t i = 0; i < n->layer_count; i++)
        if (n->uses[i] > 1 && s->dy[i])
            memset(s->dy[i], 0, s->rows * nn_layer_width(&n->layers[i]) * sizeof(float));
}

/* How many groups of shards go through backward, each on its thread. A bucket of gradients is ready
 * when all shards have passed it: where threads have several shards each, and as many, they go from
 * layer to layer side by side, and the sums have all of backward to go along with. */
static size_t backward_groups(const struct nn_net *n)
{
    size_t threads = (size_t)tensor_team_threads(n->team);
    bool abreast = n->bucket_count > 1 && n->own_count > threads && n->own_count % threads == 0;
    return abreast ? threads : n->own_count;
}

/* From layer n->at down to the barrier below it, or to the first. */
static void backward_segment(void *arg, int index)
{
    struct nn_net *n = arg;
    size_t each = n->own_count / backward_groups(n);
    struct nn_shard *first = &n->shards[n->own_first + (size_t)index * each];
    int64_t began = nn_work_begin(n);
    nn_flush_denormals();
    for (struct nn_shard *s = first; s < first + each; s++)
        if (n->at + 1 == n->layer_count && !n->resuming)
            grads_zero(n, s);
    for (size_t i = n->at + 1; i-- > 0;) {
        for (struct nn_shard *s = first; s < first + each; s++)
            backward_layer(n, i, s);
        if (is_barrier(n, i) && !(n->resuming && i == n->at))
            break;
        for (struct nn_shard *s = first; s < first + each; s++)
            nn_crew_passed(n, s, i);
    }
    nn_work_end(n, first, began);
}

float *nn_row_gather(struct nn_param *p, uint32_t id, float *list, size_t width, bool *ret_new)
{
    uint32_t place = p->seen[id];
    *ret_new = !(place < p->row_count && p->rows[place] == id);
    if (*ret_new) {
        place = p->seen[id] = (uint32_t)p->row_count;
        p->rows[p->row_count++] = id;
    }
    return list + place * width;
}

/* Add a row's gradient to that table's list. */
static void row_gather(struct nn_param *p, uint32_t id, const float *dy)
{
    bool is_new;
    float *to = nn_row_gather(p, id, p->grad, p->width, &is_new);
    if (is_new)
        memcpy(to, dy, p->width * sizeof *dy);
    else
        tensor_axpy(1.0f, dy, to, p->width);
}

static void table_gather(struct nn_net *n, const struct nn_table *t)
{
    struct nn_param *p = &n->params[t->param];
    const struct nn_rows *rows = n->batch.rows;
    size_t stride = nn_layer_width(&n->layers[t->layer]);
    if (n->has_first && t->layer == 0) {
        nn_first_gather(n, p);
        return;
    }
    for (size_t k = 0; k < n->shard_count; k++) {
        const struct nn_shard *s = &n->shards[k];
        const float *dy = s->dy[t->layer] + t->from;
        for (size_t i = 0; i < s->rows; i++, dy += stride) {
            size_t pick = nn_shard_pick(n, s->first + i);
            int32_t id = rows->ids[pick * rows->ids_each + p->id_slot];
            if (id >= 0)
                row_gather(p, (uint32_t)id, dy);
        }
    }
}

/* Of `index` among as many parts of the gradients as there are threads; each element is summed in
 * the same order whoever does it. */
static void grads_sum(void *arg, int index)
{
    struct nn_net *n = arg;
    float *parts[NN_MAX_SHARDS];
    size_t threads = n->plain_count < ALONE_FLOATS ? 1 : (size_t)tensor_team_threads(n->team);
    size_t from = n->plain_count * (size_t)index / threads;
    size_t to = n->plain_count * ((size_t)index + 1) / threads;
    for (size_t i = 0; i < n->shard_count; i++)
        parts[i] = n->shards[i].grads + from;
    tensor_tree_sum(parts, n->shard_count, to - from);
}

static void plain_sum(struct nn_net *n)
{
    if (n->crew)
        nn_crew_grads(n);
    else if (n->plain_count < ALONE_FLOATS)
        grads_sum(n, 0);
    else
        tensor_team_run(n->team, grads_sum, n, tensor_team_threads(n->team));
}

void nn_net_backward(struct nn_net *n)
{
    ty_assert(n->batch.training);
    if (n->crew)
        crew_mark(n->crew, (int64_t)n->batch.step, "backward");
    nn_crew_grads_begin(n);
    n->at = n->layer_count - 1;
    n->resuming = false;
    for (;;) {
        tensor_team_run(n->team, backward_segment, n, (int)backward_groups(n));
        size_t i = n->at + !n->resuming;
        while (i-- > 0 && !is_barrier(n, i))
            ;
        if (i == SIZE_MAX)
            break;
        nn_crew_sums(n, &n->layers[i], true);
        n->layers[i].kind->combine(n, &n->layers[i], true);
        n->at = i;
        n->resuming = true;
    }
    nn_work_count(n);
    nn_crew_tables(n);
    plain_sum(n);
    for (size_t i = 0; i < n->table_count; i++) {
        n->params[n->tables[i].param].row_count = 0;
        if (!n->crew_failed)
            table_gather(n, &n->tables[i]);
    }
    nn_crew_rows(n);
}

/* ---- what there is, for people ---- */

static size_t params_of(const struct nn_net *n, const struct nn_layer *l)
{
    size_t sum = 0, length = l->name.len;
    for (size_t i = 0; i < n->param_count; i++) {
        ty_str name = n->params[i].name;
        if (name.len > length && memcmp(name.ptr, l->name.ptr, length) == 0 &&
            name.ptr[length] == '/' && strchr(name.ptr + length + 1, '/') == NULL)
            sum += n->params[i].count;
    }
    return sum;
}

void nn_model_print(const struct nn_net *n, struct ty_buf *b)
{
    size_t all = 0, frozen = 0;
    ty_buf_addf(b, "%-32s %-20s %12s\n", "layer", "output", "parameters");
    for (size_t i = 0; i < n->layer_count; i++) {
        const struct nn_layer *l = &n->layers[i];
        char kind[100], shape[60];
        snprintf(kind, sizeof kind, "%s (%s)", l->name.ptr, l->kind->name);
        if (l->height)
            snprintf(shape, sizeof shape, "%zu x %zu x %zu", l->height, l->width, l->channels);
        else
            snprintf(shape, sizeof shape, "%zu", l->channels);
        ty_buf_addf(b, "%-32s %-20s %12zu\n", kind, shape, params_of(n, l));
    }
    for (size_t i = 0; i < n->param_count; i++) {
        all += n->params[i].count;
        frozen += n->params[i].frozen ? n->params[i].count : 0;
    }
    ty_buf_addf(b, "%zu parameters, %zu of them trained\n", all, all - frozen);
}
