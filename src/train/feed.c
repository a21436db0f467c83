/* feed.c -- the examples of batch after batch, from wherever they are: rows in memory (here),
 * images (feed_pictures.c), files that do not fit in memory (feed_stream.c).
 *
 * Which examples a batch has is a function of its number, so a run that goes on from a checkpoint
 * sees what it would have seen. */
#include "train/train_int.h"

static ty_err rows_take(struct train_feed *f, uint64_t number, uint64_t at, size_t count,
                        struct nn_batch *ret)
{
    (void)number;
    train_order_take(&f->order, at, count, f->pick);
    *ret = (struct nn_batch){.rows = &f->data->rows, .pick = f->pick, .count = count};
    return TY_OK;
}

struct train_feed *train_feed_new(const struct nn_model *m, struct train_data *d, size_t batch,
                                  bool shuffle, bool endless, uint64_t seed, int threads)
{
    return train_feed_new_share(m, d, (struct train_share){0, 1}, batch, shuffle, endless, seed,
                                threads);
}

/* Rows lie as in their files: neighbours, which a stream reads at once. Images are sorted by class:
 * every one of so many. */
static void share_set(struct train_feed *f, struct train_share s, bool shuffle, uint64_t seed)
{
    size_t all = f->data->rows.count;
    bool pictures = f->data->pictures != NULL;
    f->count = (all + s.of - 1) / s.of;
    train_order_init(&f->order, f->count, pictures ? f->count : train_window_rows(f->model),
                     shuffle, seed + s.rank);
    f->order.all = all;
    f->order.rank = s.rank;
    f->order.of = s.of;
    f->order.stride = pictures ? s.of : 1;
}

struct train_feed *train_feed_new_share(const struct nn_model *m, struct train_data *d,
                                        struct train_share share, size_t batch, bool shuffle,
                                        bool endless, uint64_t seed, int threads)
{
    struct train_feed *f = calloc(1, sizeof *f);
    ty_assert(f);
    *f = (struct train_feed){.model = m, .data = d, .batch = batch, .endless = endless};
    f->pick = calloc(batch, sizeof *f->pick);
    ty_assert(f->pick);
    share_set(f, share, shuffle, seed);
    if (d->pictures)
        feed_pictures_init(f, threads);
    else if (d->source)
        feed_stream_init(f);
    else
        f->take = rows_take;
    return f;
}

void train_feed_free(struct train_feed *f)
{
    if (f == NULL)
        return;
    if (f->clear)
        f->clear(f);
    train_order_clear(&f->order);
    free(f->pick);
    free(f);
}

size_t train_feed_batches(const struct train_feed *f)
{
    return (f->count + f->batch - 1) / f->batch;
}

uint64_t feed_span(const struct train_feed *f, uint64_t number, size_t *ret_count)
{
    size_t batches = train_feed_batches(f), rows = f->count;
    *ret_count = f->batch;
    if (f->endless)
        return number * f->batch;
    size_t from = (size_t)(number % batches) * f->batch;
    if (rows - from < f->batch)
        *ret_count = rows - from;
    return number / batches * rows + from;
}

ty_err train_feed_take(struct train_feed *f, uint64_t number, struct nn_batch *ret)
{
    size_t count;
    uint64_t at = feed_span(f, number, &count);
    return f->take(f, number, at, count, ret);
}
