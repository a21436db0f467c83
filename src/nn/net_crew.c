/* net_crew.c -- what the ranks of a crew tell each other in a step.
 *
 *   begin     all have come, with their words: nobody reads what the last step left
 *   sums      of a batch_norm layer, shard by shard, twice a step; all ranks then combine all
 *   tables    by shard, the ids that it had and the sums of dy for each, or dy itself, and logits
 *             and losses, which metrics want; all ranks then gather the same list of rows
 *   grads     of the plain parameters, summed over shards in the fixed tree; in buckets, while
 *             backward computes more of them
 *   rows      of a table's gradient: each rank has computed some of the list
 *   update    of large parameters that all have together: each rank has made its slice's
 * After a failure nothing more is exchanged, and nn_net_state says why. */
#include "nn/nn_int.h"

size_t nn_crew_first(const struct crew *c, int rank, size_t shards)
{
    size_t size = (size_t)crew_size(c);
    return ((size_t)rank * shards + size - 1) / size;
}

void nn_crew_done(struct nn_net *n, ty_err err)
{
    n->crew_failed |= err != TY_OK;
}

ty_err nn_net_state(struct nn_net *n)
{
    return n->crew_failed ? crew_meet(n->crew, "the step") : TY_OK;
}

static bool is_alone(const struct nn_net *n)
{
    return n->crew == NULL || n->crew_failed;
}

/* ---- lists of pieces ---- */

struct list {
    struct nn_net *net;
    size_t count;
};

static void list_add(struct list *to, size_t shard, void *at, size_t bytes)
{
    struct nn_net *n = to->net;
    n->pieces[to->count++] =
        (struct crew_piece){crew_owner(n->crew, shard, n->shard_count), at, bytes};
}

static void list_share(const struct list *l, const char *what)
{
    struct nn_net *n = l->net;
    if (!is_alone(n))
        nn_crew_done(n, crew_share(n->crew, what, n->pieces, l->count));
}

static void outputs_add(struct list *to)
{
    struct nn_net *n = to->net;
    size_t logits = n->model->logits_each, heads = n->model->head_count;
    for (size_t i = 0; i < n->shard_count; i++) {
        const struct nn_shard *s = &n->shards[i];
        list_add(to, i, n->logits + s->first * logits, s->rows * logits * sizeof(float));
        list_add(to, i, n->losses + s->first, s->rows * sizeof(float));
        list_add(to, i, n->head_losses + s->first * heads, s->rows * heads * sizeof(float));
    }
}

/* Three pieces of outputs a shard, and for each table two, or one of its layer. */
void nn_crew_plan(struct nn_net *n)
{
    n->pieces = ty_new_array(&n->arena, struct crew_piece,
                             n->shard_max * (3 + 2 * n->table_count) + CREW_MOST_RANKS);
}

void nn_net_tell(struct nn_net *n, int32_t word)
{
    n->word = word;
}

int32_t nn_net_told(const struct nn_net *n)
{
    return n->told;
}

/* ---- the exchanges ---- */

/* Each rank has read the words before it came to what ended the last step, so this rank's may be
 * written. */
void nn_crew_begin(struct nn_net *n, const char *phase)
{
    n->told = n->word;
    if (is_alone(n))
        return;
    struct list l = {.net = n, .count = (size_t)crew_size(n->crew)};
    for (int i = 0; i < crew_size(n->crew); i++)
        n->pieces[i] = (struct crew_piece){i, n->words + i * NN_WORD, sizeof *n->words};
    n->words[crew_rank(n->crew) * NN_WORD] = n->word;
    list_share(&l, "the start of a step");
    for (int i = 0; i < crew_size(n->crew); i++)
        n->told = n->words[i * NN_WORD] > n->told ? n->words[i * NN_WORD] : n->told;
    if (n->batch.training) /* the batches of an evaluation count for themselves */
        n->step = n->batch.step;
    crew_mark(n->crew, (int64_t)n->step, phase);
}

void nn_crew_outputs(struct nn_net *n)
{
    if (is_alone(n))
        return;
    struct list l = {.net = n};
    outputs_add(&l);
    list_share(&l, "the predictions");
}

void nn_crew_sums(struct nn_net *n, const struct nn_layer *layer, bool backward)
{
    if (is_alone(n))
        return;
    struct list l = {.net = n};
    size_t bytes = NN_SUMS / 2 * layer->channels * sizeof(float);
    for (size_t i = 0; i < n->shard_count; i++)
        list_add(&l, i, (char *)(n->shards[i].sums + layer->state) + (backward ? bytes : 0), bytes);
    list_share(&l, layer->name.ptr);
}

/* How many ids each shard had must be known before the lists are. */
static void counts_share(struct nn_net *n)
{
    struct list l = {.net = n};
    for (size_t i = 0; i < n->shard_count; i++)
        list_add(&l, i, n->shards[i].counts, n->layers[0].part_count * sizeof(uint32_t));
    list_share(&l, "the ids of the features");
}

static void distinct_add(struct list *to, size_t table)
{
    struct nn_net *n = to->net;
    size_t part = nn_first_part(n, n->tables[table].param), out = n->layers[1].units;
    for (size_t i = 0; i < n->shard_count; i++) {
        const struct nn_distinct *d = &n->shards[i].distinct[part];
        list_add(to, i, d->ids, *d->count * sizeof *d->ids);
        list_add(to, i, d->sums, *d->count * out * sizeof *d->sums);
    }
}

static bool is_first(const struct nn_net *n, size_t table)
{
    return n->has_first && n->tables[table].layer == 0;
}

void nn_crew_tables(struct nn_net *n)
{
    if (is_alone(n))
        return;
    struct list l = {.net = n};
    bool counted = false;
    for (size_t i = 0; i < n->table_count && !counted; i++)
        counted = is_first(n, i);
    if (counted)
        counts_share(n);
    if (is_alone(n))
        return;
    outputs_add(&l);
    for (size_t i = 0; i < n->table_count; i++) {
        size_t layer = n->tables[i].layer;
        if (is_first(n, i)) {
            distinct_add(&l, i);
            continue;
        }
        if (i > 0 && n->tables[i - 1].layer == layer)
            continue; /* the layer's are there already */
        for (size_t k = 0; k < n->shard_count; k++)
            list_add(&l, k, n->shards[k].dy[layer],
                     n->shards[k].rows * nn_layer_width(&n->layers[layer]) * sizeof(float));
    }
    list_share(&l, "the gradients of tables");
}

/* Gradients that are clipped are changed in place, by each rank: it needs its own. */
static void grads_copy(struct nn_net *n)
{
    for (size_t i = 0; i < n->param_count; i++) {
        const struct nn_param *p = &n->params[i];
        size_t floats = p->table ? p->row_count * p->width : p->count;
        if (n->summed[i] && !p->frozen)
            memcpy(p->grad, n->summed[i], floats * sizeof *p->grad);
    }
}

void nn_crew_rows(struct nn_net *n)
{
    if (is_alone(n))
        return;
    struct list l = {.net = n};
    for (size_t i = 0; i < n->table_count; i++) {
        const struct nn_param *p = &n->params[n->tables[i].param];
        for (size_t k = 0; is_first(n, i) && k < n->shard_count; k++) {
            size_t from, to = nn_first_rows(n, p, k, &from);
            list_add(&l, k, nn_rows_grad(n, p) + from * p->width,
                     (to - from) * p->width * sizeof(float));
        }
    }
    if (l.count > 0)
        list_share(&l, "the rows of tables");
    if (n->model->training.clip_norm > 0 && !is_alone(n))
        grads_copy(n);
}

/* ---- gradients of plain parameters ----
 *
 * They lie in the order of the layers, and backward goes from the last layer to the first: a bucket
 * is a piece of them, the last piece first, and ends where a layer's begin. How large it is at
 * least crew_measure says; a bucket that is too small costs more than the wait it saves. */

/* TRAINYARD_TEST_BUCKET: bytes, for tests. */
static size_t bucket_floats(struct nn_net *n)
{
    float *parts[NN_MAX_SHARDS];
    const char *forced = getenv("TRAINYARD_TEST_BUCKET");
    n->sum_cost.bucket = n->plain_count;
    if (forced)
        return (size_t)strtoull(forced, NULL, 10) / sizeof(float);
    for (size_t i = 0; i < n->shard_max; i++)
        parts[i] = n->shards[i].grads;
    nn_crew_done(n, crew_measure(n->crew, parts, n->shard_max, n->plain_count, n->grad_sum,
                                 tensor_team_threads(n->team), &n->sum_cost));
    return n->sum_cost.bucket;
}

void nn_crew_cut(struct nn_net *n)
{
    size_t least = bucket_floats(n), end = n->plain_count;
    n->buckets = ty_new_array(&n->arena, struct crew_bucket, n->layer_count);
    n->passed = ty_new_array(&n->arena, uint32_t, n->layer_count);
    for (size_t i = n->layer_count; i-- > 0;) {
        size_t from = n->plain_from[i];
        bool empty = from == end && n->bucket_count > 0;
        if (empty || (i > 0 && end - from < (least > 0 ? least : 1)))
            continue;
        n->buckets[n->bucket_count++] = (struct crew_bucket){from, end - from};
        end = from;
    }
}

size_t nn_net_buckets(const struct nn_net *n, size_t *ret_floats, struct crew_cost *ret_cost)
{
    *ret_floats = n->plain_count;
    *ret_cost = n->sum_cost;
    return n->bucket_count;
}

void nn_crew_grads_begin(struct nn_net *n)
{
    if (is_alone(n))
        return;
    for (size_t i = 0; i < n->shard_count; i++) {
        n->parts[i] = n->shards[i].grads;
        n->shards[i].passed = 0;
    }
    memset(n->passed, 0, n->bucket_count * sizeof *n->passed);
    const struct crew_sums s = {.what = "the gradients",
                                .parts = n->parts,
                                .part_count = n->shard_count,
                                .out = n->grad_sum,
                                .buckets = n->buckets,
                                .bucket_count = n->bucket_count};
    nn_crew_done(n, crew_sums_begin(n->crew, &s));
    n->summing = !n->crew_failed;
}

/* A shard passes buckets in their order, so the last shard that passes one tells it ready. */
void nn_crew_passed(struct nn_net *n, struct nn_shard *s, size_t layer)
{
    if (!n->summing)
        return;
    for (; s->passed < n->bucket_count; s->passed++) {
        const struct crew_bucket *b = &n->buckets[s->passed];
        if (b->from < n->plain_from[layer])
            break;
        nn_work_drop(n, s, b->from, b->count);
        if (__atomic_add_fetch(&n->passed[s->passed], 1, __ATOMIC_ACQ_REL) == n->own_count)
            crew_sums_ready(n->crew);
    }
    crew_sums_advance(n->crew);
}

void nn_crew_grads(struct nn_net *n)
{
    if (n->summing)
        nn_crew_done(n, crew_sums_end(n->crew));
    n->summing = false;
}

/* ---- parameters that all ranks have together ---- */

ty_err nn_net_unite_array(struct nn_net *n, size_t count, float **array)
{
    void *room;
    ty_err err = crew_room(n->crew, count * sizeof **array, &room);
    if (err != TY_OK)
        return err;
    if (crew_rank(n->crew) == 0)
        memcpy(room, *array, count * sizeof **array);
    *array = room;
    return crew_meet(n->crew, "the weights");
}

/* Frozen ones are changed by each rank's forward pass; a small one is updated before others would
 * have come. */
ty_err nn_net_unite(struct nn_net *n)
{
    enum { LEAST_FLOATS = 1 << 16 };
    ty_err err = TY_OK;
    for (size_t i = 0; crew_has_one_memory(n->crew) && i < n->param_count && err == TY_OK; i++) {
        struct nn_param *p = &n->params[i];
        if (p->table || p->frozen || p->count < LEAST_FLOATS)
            continue;
        err = nn_net_unite_array(n, p->count, &p->data);
        n->united = p->united = err == TY_OK;
    }
    return err;
}

/* Whole lines, so that no two ranks write one. */
size_t nn_net_slice(const struct nn_net *n, const struct nn_param *p, size_t *ret_from)
{
    enum { LINE = 16 };
    size_t rank = (size_t)crew_rank(n->crew), size = (size_t)crew_size(n->crew);
    size_t whole = p->count / LINE;
    *ret_from = p->united ? whole * rank / size * LINE : 0;
    if (!p->united || rank == size - 1)
        return p->count - *ret_from;
    return whole * (rank + 1) / size * LINE - *ret_from;
}

void nn_net_updated(struct nn_net *n)
{
    if (n->united && !is_alone(n))
        nn_crew_done(n, crew_meet(n->crew, "the update"));
}
