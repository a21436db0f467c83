/* pool.c -- many transfers at once: threads that take the next number until none is left. */
#include "storage/storage_int.h"

#include <signal.h>

enum { MOST_THREADS = 64 };

/* ---- Ctrl-C ---- */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t caught;

static void catch_signal(int signum)
{
    caught = signum;
}

bool storage_interrupted(void)
{
    return caught != 0;
}

static void signals_catch(struct sigaction *old)
{
    struct sigaction act = {.sa_handler = catch_signal, .sa_flags = SA_RESTART | SA_RESETHAND};
    caught = 0;
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < TY_COUNT(signals); i++) {
        sigaction(signals[i], NULL, &old[i]);
        if (old[i].sa_handler == SIG_DFL) /* nohup's stays ignored */
            sigaction(signals[i], &act, NULL);
    }
}

/* Does not return if one was caught. */
static void signals_restore(const struct storage *s, const struct sigaction *old)
{
    for (size_t i = 0; i < TY_COUNT(signals); i++)
        sigaction(signals[i], &old[i], NULL);
    if (caught == 0)
        return;
    if (s->style == STORAGE_GSUTIL)
        fprintf(stderr, "\nCaught CTRL-C (signal %d) - exiting\n", (int)caught);
    else
        fputs("\n\nCommand killed by keyboard interrupt\n\n", stderr);
    fflush(NULL);
    raise((int)caught);
}

/* ---- the pool ---- */

struct shared {
    struct storage_pool *pool;
    atomic_size_t next;
    atomic_bool stop;
    pthread_mutex_t lock; /* of what follows, and of `failed` */
    size_t failed;
    ty_err err;
    char *message;
    enum storage_missing bucket_missing;
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
    while (!atomic_load(&w->stop) && caught == 0 &&
           (i = atomic_fetch_add(&w->next, 1)) < pool->count) {
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
    struct sigaction old[TY_COUNT(signals)];
    signals_catch(old);
    while (started < wanted - 1 && pthread_create(&threads[started], NULL, worker, &w) == 0)
        started++;
    worker(&w); /* this one works too */
    while (started > 0)
        pthread_join(threads[--started], NULL);
    pthread_mutex_destroy(&w.lock);
    signals_restore(pool->s, old);
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
