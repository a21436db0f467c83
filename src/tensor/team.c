/* team.c -- threads that wait for work by spinning a moment, then asleep.
 *
 * A run is published by counting `round` up; who sees it takes indices from `next` until they are
 * used up, and the last one done tells the caller. A thread that was late for a round finds no
 * index left. The caller works, too, so a team of one has no threads and costs nothing. */
#include "tensor/tensor.h"

#include <pthread.h>
#include <sched.h>

enum { SPINS = 4000, MOST_THREADS = 256 };

struct tensor_team {
    int count;
    pthread_t threads[MOST_THREADS];
    pthread_mutex_t lock; /* guards sleeping and waking; never held while working */
    pthread_cond_t wake;
    int sleeping;
    bool stop;

    /* of a round; written before `round` is counted up */
    void (*fn)(void *arg, int index);
    void *arg;
    uint32_t round;
    uint64_t left; /* round << 32 | indices not taken: one word, so that a thread which is late for
                      a round can take nothing of the next */
    int done;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* Take and do indices of `round`. fn and arg stay while one that was taken is not done. */
static void work(struct tensor_team *t, uint32_t round)
{
    for (;;) {
        uint64_t at = __atomic_load_n(&t->left, __ATOMIC_ACQUIRE);
        if ((uint32_t)(at >> 32) != round || (uint32_t)at == 0)
            return;
        if (!__atomic_compare_exchange_n(&t->left, &at, at - 1, true, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        t->fn(t->arg, (int)(uint32_t)at - 1);
        __atomic_add_fetch(&t->done, 1, __ATOMIC_RELEASE);
    }
}

static uint32_t round_now(struct tensor_team *t)
{
    return __atomic_load_n(&t->round, __ATOMIC_ACQUIRE);
}

/* Wait for a round after `seen`; false: the team is over. */
static bool wait_round(struct tensor_team *t, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (round_now(t) != seen)
            return true;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    __atomic_add_fetch(&t->sleeping, 1, __ATOMIC_SEQ_CST);
    while (round_now(t) == seen && !t->stop)
        pthread_cond_wait(&t->wake, &t->lock);
    __atomic_sub_fetch(&t->sleeping, 1, __ATOMIC_SEQ_CST);
    bool more = round_now(t) != seen;
    pthread_mutex_unlock(&t->lock);
    return more;
}

static void *worker(void *arg)
{
    struct tensor_team *t = arg;
    uint32_t seen = 0;
    while (wait_round(t, seen)) {
        seen = round_now(t);
        work(t, seen);
    }
    return NULL;
}

static int cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

struct tensor_team *tensor_team_new(int threads)
{
    struct tensor_team *t = calloc(1, sizeof *t);
    ty_assert(t);
    t->count = threads > 0 ? threads : cpus();
    t->count = t->count < MOST_THREADS ? t->count : MOST_THREADS;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    for (int i = 1; i < t->count; i++)
        if (pthread_create(&t->threads[i], NULL, worker, t) != 0)
            t->count = i; /* fewer, then: the result is the same */
    return t;
}

int tensor_team_threads(const struct tensor_team *t)
{
    return t->count;
}

void tensor_team_free(struct tensor_team *t)
{
    if (t == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (int i = 1; i < t->count; i++)
        pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void tensor_team_run(struct tensor_team *t, void (*fn)(void *arg, int index), void *arg, int count)
{
    if (t->count == 1 || count <= 1) {
        for (int i = 0; i < count; i++)
            fn(arg, i);
        return;
    }
    uint32_t round = t->round + 1;
    t->fn = fn;
    t->arg = arg;
    t->done = 0;
    __atomic_store_n(&t->left, (uint64_t)round << 32 | (uint32_t)count, __ATOMIC_RELEASE);
    __atomic_store_n(&t->round, round, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&t->sleeping, __ATOMIC_SEQ_CST) > 0) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
    work(t, round);
    for (int spins = 0; __atomic_load_n(&t->done, __ATOMIC_ACQUIRE) < count; spins++) {
        if (spins < SPINS)
            relax();
        else
            sched_yield();
    }
}
