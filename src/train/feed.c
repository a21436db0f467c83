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
    struct train_feed *f = calloc(1, sizeof *f);
    ty_assert(f);
    *f = (struct train_feed){.model = m, .data = d, .batch = batch, .endless = endless};
    f->pick = calloc(batch, sizeof *f->pick);
    ty_assert(f->pick);
    train_order_init(&f->order, d->rows.count, d->pictures ? d->rows.count : train_window_rows(m),
                     shuffle, seed);
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
    return (f->data->rows.count + f->batch - 1) / f->batch;
}

uint64_t feed_span(const struct train_feed *f, uint64_t number, size_t *ret_count)
{
    size_t batches = train_feed_batches(f), rows = f->data->rows.count;
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
