/* feed_pictures.c -- batches of images, decoded by threads of their own while the step before them
 * is computed.
 *
 * A ring of slots, a batch each: the one that is being trained on and AHEAD more. The caller plans
 * a slot (which images; those whose pixels are kept are ready at once), workers decode what is
 * missing into the slot's own room, image by image, oldest slot first.
 *
 * Threads: `lock` guards the slots' work lists; pixels of an image belong to the worker that took
 * it until it has counted down `left`. */
#include "train/train_int.h"

enum { AHEAD = 2, SLOTS = AHEAD + 1, MOST_WORKERS = 16 };

struct slot {
    uint64_t number; /* of its batch */
    bool planned;
    struct nn_rows rows;
    struct nn_pixels *pixels; /* (batch) */
    float *labels;            /* (batch) */
    uint32_t *pick;           /* (batch) */
    uint32_t *missing;        /* places in the batch that are to be decoded */
    size_t missing_count;
    size_t taken; /* of `missing`, by workers */
    size_t left;  /* of `missing`, not decoded yet */
    float *room;  /* (batch, pixels) */
    ty_err err;
    char message[512];
};
struct ring {
    struct train_feed *feed;
    struct slot slots[SLOTS];
    pthread_t workers[MOST_WORKERS];
    int worker_count;
    uint64_t next; /* batch to plan */
    bool started, stop;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
};

/* ---- workers ---- */

/* The oldest slot with something to decode. */
static struct slot *slot_with_work(struct ring *r)
{
    struct slot *oldest = NULL;
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *s = &r->slots[i];
        if (s->planned && s->taken < s->missing_count &&
            (oldest == NULL || s->number < oldest->number))
            oldest = s;
    }
    return oldest;
}

static void slot_decode(struct ring *r, struct slot *s, size_t place, struct image_room *room)
{
    size_t floats = train_picture_floats(r->feed->model);
    ty_err err = train_picture_take(r->feed->data->pictures, s->pick[place], room,
                                    s->room + place * floats, &s->pixels[place]);
    pthread_mutex_lock(&r->lock);
    if (err != TY_OK && s->err == TY_OK) {
        s->err = err;
        snprintf(s->message, sizeof s->message, "%s", ty_err_message());
    }
    if (--s->left == 0)
        pthread_cond_signal(&r->done);
    pthread_mutex_unlock(&r->lock);
}

static void *worker_run(void *arg)
{
    struct ring *r = arg;
    struct image_room room = {0};
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        struct slot *s = slot_with_work(r);
        if (s == NULL) {
            pthread_cond_wait(&r->work, &r->lock);
            continue;
        }
        size_t place = s->missing[s->taken++];
        pthread_mutex_unlock(&r->lock);
        slot_decode(r, s, place, &room);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    image_room_clear(&room);
    return NULL;
}

/* ---- the caller ---- */

static void slot_plan(struct ring *r, uint64_t number)
{
    struct train_feed *f = r->feed;
    struct slot *s = &r->slots[number % SLOTS];
    size_t count, missing = 0;
    uint64_t at = feed_span(f, number, &count);
    train_order_take(&f->order, at, count, s->pick);
    for (size_t i = 0; i < count; i++) {
        s->labels[i] = f->data->rows.labels[s->pick[i]];
        if (!train_picture_kept(f->data->pictures, s->pick[i], &s->pixels[i]))
            s->missing[missing++] = (uint32_t)i;
    }
    if (missing > 0 && s->room == NULL) {
        s->room = malloc(f->batch * train_picture_floats(f->model) * sizeof *s->room);
        ty_assert(s->room);
    }
    s->rows = (struct nn_rows){.count = count, .labels = s->labels, .pixels = s->pixels};
    pthread_mutex_lock(&r->lock);
    s->number = number;
    s->planned = true;
    s->missing_count = s->left = missing;
    s->taken = 0;
    s->err = TY_OK;
    if (missing > 0)
        pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
}

/* Batches are asked for in order; the slot of the one before is free by now. */
static ty_err pictures_take(struct train_feed *f, uint64_t number, uint64_t at, size_t count,
                            struct nn_batch *ret)
{
    struct ring *r = f->own;
    struct slot *s = &r->slots[number % SLOTS];
    (void)at;
    if (!r->started)
        r->next = number;
    r->started = true;
    ty_assert(number < r->next + (r->next == number));
    for (; r->next <= number + AHEAD; r->next++)
        slot_plan(r, r->next);
    pthread_mutex_lock(&r->lock);
    while (s->left > 0)
        pthread_cond_wait(&r->done, &r->lock);
    pthread_mutex_unlock(&r->lock);
    ty_assert(s->number == number);
    if (s->err != TY_OK)
        return ty_fail(s->err, "%s", s->message);
    *ret = (struct nn_batch){.rows = &s->rows, .count = count};
    return TY_OK;
}

static void pictures_clear(struct train_feed *f)
{
    struct ring *r = f->own;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->worker_count; i++)
        pthread_join(r->workers[i], NULL);
    for (size_t i = 0; i < SLOTS; i++) {
        free(r->slots[i].pixels);
        free(r->slots[i].labels);
        free(r->slots[i].pick);
        free(r->slots[i].missing);
        free(r->slots[i].room);
    }
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->done);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void feed_pictures_init(struct train_feed *f, int threads)
{
    struct ring *r = calloc(1, sizeof *r);
    ty_assert(r);
    r->feed = f;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->done, NULL);
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *s = &r->slots[i];
        s->pixels = calloc(f->batch, sizeof *s->pixels);
        s->labels = calloc(f->batch, sizeof *s->labels);
        s->pick = calloc(f->batch, sizeof *s->pick);
        s->missing = calloc(f->batch, sizeof *s->missing);
        ty_assert(s->pixels && s->labels && s->pick && s->missing);
    }
    threads = threads > MOST_WORKERS ? MOST_WORKERS : threads;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&r->workers[r->worker_count], NULL, worker_run, r) == 0)
            r->worker_count++;
    ty_assert(r->worker_count > 0);
    f->own = r;
    f->take = pictures_take;
    f->clear = pictures_clear;
}
