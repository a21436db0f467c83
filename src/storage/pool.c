/* pool.c -- many transfers at once: threads that take the next number until none is left. */
#include "storage/storage_int.h"

enum { MOST_THREADS = 64 };

struct shared {
    struct storage_pool *pool;
    atomic_size_t next;
    atomic_bool stop;
    pthread_mutex_t lock; /* of what follows, and of `failed` */
    size_t failed;
    ty_err err;
    char *message;
    bool bucket_missing;
    ty_str bucket;
    int status;
};

static void note_failure(struct shared *w, struct storage_conn *c, size_t index, ty_err err)
{
    struct storage_pool *pool = w->pool;
    pthread_mutex_lock(&w->lock);
    w->failed++;
    if (pool->failed != NULL)
        pool->failed(c, pool->arg, index, err);
    else if (w->message == NULL) {
        w->message = ty_err_take();
        w->err = err;
        w->bucket_missing = c->bucket_missing;
        w->bucket = c->bucket;
        w->status = c->status;
    }
    pthread_mutex_unlock(&w->lock);
    if (!pool->all)
        atomic_store(&w->stop, true);
}

static void *worker(void *arg)
{
    struct shared *w = arg;
    struct storage_pool *pool = w->pool;
    struct storage_conn c;
    size_t i = 0;
    ty_err err = storage_conn_open(&c, pool->s);
    if (err != TY_OK) {
        note_failure(w, &c, 0, err);
        return NULL;
    }
    while (!atomic_load(&w->stop) && (i = atomic_fetch_add(&w->next, 1)) < pool->count) {
        err = pool->work(&c, pool->arg, i);
        if (err != TY_OK)
            note_failure(w, &c, i, err);
    }
    storage_conn_close(&c);
    return NULL;
}

int storage_pool_threads(const struct storage *s, size_t count)
{
    int most = s->threads > 0 ? s->threads : 8;
    if (s->style == STORAGE_GSUTIL && !s->parallel)
        most = 1;
    most = most > MOST_THREADS ? MOST_THREADS : most;
    return count < (size_t)most ? (int)count : most;
}

ty_err storage_pool_run(struct storage_pool *pool, struct storage_conn *c, size_t *ret_failed)
{
    struct shared w = {.pool = pool, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[MOST_THREADS];
    int wanted = storage_pool_threads(pool->s, pool->count), started = 0;
    while (started < wanted - 1 && pthread_create(&threads[started], NULL, worker, &w) == 0)
        started++;
    worker(&w); /* this one works too */
    while (started > 0)
        pthread_join(threads[--started], NULL);
    pthread_mutex_destroy(&w.lock);
    if (ret_failed != NULL)
        *ret_failed = w.failed;
    if (w.message == NULL)
        return TY_OK;
    c->bucket_missing = w.bucket_missing;
    c->bucket = w.bucket;
    c->status = w.status;
    ty_err err = ty_fail(w.err, "%s", w.message);
    free(w.message);
    return err;
}
