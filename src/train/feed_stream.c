/* feed_stream.c -- batches of rows that are not all in memory: a window of them is, and the next is
 * read from the files by a thread while this one is trained on.
 *
 * The order is that of order.c, so the batches are those that a run with all rows in memory takes.
 *
 * Threads: a window belongs to the reader while `wanted` is set, and else to the caller; `lock`
 * guards that. */
#include "train/train_int.h"

enum { NOTHING = 2 };

struct window {
    uint64_t number; /* of order.c; UINT64_MAX: none */
    uint32_t *blocks, *local;
    size_t block_count, count;
    size_t first; /* row of the data that its blocks are counted from */
    struct nn_rows rows;
    ty_err err;
    char message[512];
};
struct stream {
    struct train_feed *feed;
    struct window windows[2];
    struct nn_rows batch;
    pthread_t reader;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t wanted; /* the window that is to be read; NOTHING */
    bool stop;
};

static void rows_new(struct nn_rows *r, const struct nn_model *m, size_t count)
{
    *r = (struct nn_rows){.floats_each = m->slots_float, .ids_each = m->slots_id};
    r->floats = malloc((count * m->slots_float + 1) * sizeof *r->floats);
    r->ids = malloc((count * m->slots_id + 1) * sizeof *r->ids);
    r->labels = malloc((count * m->head_count + 1) * sizeof *r->labels);
    ty_assert(r->floats && r->ids && r->labels);
}

static void rows_free(struct nn_rows *r)
{
    free(r->floats);
    free(r->ids);
    free(r->labels);
}

/* ---- the reader ---- */

static void window_read(struct stream *s, struct window *w)
{
    const struct train_order *o = &s->feed->order;
    size_t at = 0;
    w->err = TY_OK;
    for (size_t i = 0; i < w->block_count && w->err == TY_OK; i++) {
        size_t n = w->count - at < o->block ? w->count - at : o->block;
        w->err = train_source_read(s->feed->data->source, w->first + w->blocks[i] * o->block, n,
                                   &w->rows, at);
        at += n;
    }
    if (w->err != TY_OK)
        snprintf(w->message, sizeof w->message, "%s", ty_err_message());
}

static void *reader_run(void *arg)
{
    struct stream *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->wanted == NOTHING) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        struct window *w = &s->windows[s->wanted];
        pthread_mutex_unlock(&s->lock);
        window_read(s, w);
        pthread_mutex_lock(&s->lock);
        s->wanted = NOTHING;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the caller ---- */

static void reader_wait(struct stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->wanted != NOTHING)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void window_order(struct stream *s, uint64_t number)
{
    struct train_order *o = &s->feed->order;
    struct window *w = &s->windows[number % 2];
    size_t first = (size_t)(number % train_order_windows(o)) * (o->window / o->block);
    w->count = train_order_make(o, number);
    w->first = train_order_first(o, number);
    w->number = number;
    w->block_count = (w->count + o->block - 1) / o->block;
    memcpy(w->blocks, o->blocks + first, w->block_count * sizeof *w->blocks);
    memcpy(w->local, o->local, w->count * sizeof *w->local);
    pthread_mutex_lock(&s->lock);
    s->wanted = number % 2;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* The window of that number, which has an error or its rows; the next one is on its way. */
static struct window *window_get(struct stream *s, uint64_t number)
{
    struct window *w = &s->windows[number % 2];
    if (w->number != number) {
        reader_wait(s);
        window_order(s, number);
    }
    if (s->windows[(number + 1) % 2].number != number + 1) {
        reader_wait(s);
        window_order(s, number + 1);
    }
    return w;
}

static void row_copy(struct nn_rows *to, size_t i, const struct nn_rows *from, size_t k,
                     size_t labels)
{
    memcpy(to->floats + i * to->floats_each, from->floats + k * to->floats_each,
           to->floats_each * sizeof *to->floats);
    memcpy(to->ids + i * to->ids_each, from->ids + k * to->ids_each,
           to->ids_each * sizeof *to->ids);
    memcpy(to->labels + i * labels, from->labels + k * labels, labels * sizeof *to->labels);
}

static ty_err stream_take(struct train_feed *f, uint64_t number, uint64_t at, size_t count,
                          struct nn_batch *ret)
{
    struct stream *s = f->own;
    (void)number;
    for (size_t i = 0; i < count; i++) {
        uint64_t of;
        size_t place = train_order_at(&f->order, at + i, &of);
        const struct window *w = window_get(s, of);
        if (w->err != TY_OK)
            return ty_fail(w->err, "%s", w->message);
        row_copy(&s->batch, i, &w->rows, w->local[place], f->model->head_count);
    }
    s->batch.count = count;
    *ret = (struct nn_batch){.rows = &s->batch, .count = count};
    return TY_OK;
}

static void stream_clear(struct train_feed *f)
{
    struct stream *s = f->own;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->reader, NULL);
    for (size_t i = 0; i < TY_COUNT(s->windows); i++) {
        free(s->windows[i].blocks);
        free(s->windows[i].local);
        rows_free(&s->windows[i].rows);
    }
    rows_free(&s->batch);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void feed_stream_init(struct train_feed *f)
{
    const struct train_order *o = &f->order;
    struct stream *s = calloc(1, sizeof *s);
    ty_assert(s);
    s->feed = f;
    s->wanted = NOTHING;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    for (size_t i = 0; i < TY_COUNT(s->windows); i++) {
        struct window *w = &s->windows[i];
        w->number = UINT64_MAX;
        w->blocks = calloc(o->window / o->block + 1, sizeof *w->blocks);
        w->local = calloc(o->window + 1, sizeof *w->local);
        ty_assert(w->blocks && w->local);
        rows_new(&w->rows, f->model, o->window);
    }
    rows_new(&s->batch, f->model, f->batch);
    ty_assert(pthread_create(&s->reader, NULL, reader_run, s) == 0);
    f->own = s;
    f->take = stream_take;
    f->clear = stream_clear;
}
