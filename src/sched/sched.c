/* sched.c -- the scheduler's thread: wait for something to happen, make a pass.
 *
 * The thread sleeps in epoll on its inbox and on one connection per running attempt. It wakes by
 * the clock only while something depends on it: a job waits, a look must be repeated, a commit has
 * failed. An idle yard costs nothing. */
#include "sched/sched_int.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

enum { EVENTS_AT_ONCE = 256, STACK_BYTES = 512 * 1024 };

static void wake(struct sched *s)
{
    uint64_t one = 1;
    ssize_t n = eventfd_write(s->wake_fd, one);
    (void)n; /* the counter is full: the thread is awake already */
}

void sched_notify(struct sched *s, int64_t job_id)
{
    pthread_mutex_lock(&s->inbox_lock);
    if (s->inbox_count == s->inbox_cap) {
        s->inbox_cap = s->inbox_cap ? s->inbox_cap * 2 : 64;
        s->inbox = realloc(s->inbox, s->inbox_cap * sizeof *s->inbox);
        ty_assert(s->inbox);
    }
    s->inbox[s->inbox_count++] = job_id;
    pthread_mutex_unlock(&s->inbox_lock);
    wake(s);
}

/* Move the inbox into the pass's arena. */
static int64_t *take_inbox(struct sched *s, size_t *ret_count, bool *ret_stopping)
{
    pthread_mutex_lock(&s->inbox_lock);
    size_t count = s->inbox_count;
    int64_t *ids = ty_new_array(&s->pass, int64_t, count + 1);
    if (count)
        memcpy(ids, s->inbox, count * sizeof *ids);
    s->inbox_count = 0;
    *ret_stopping = s->stopping;
    pthread_mutex_unlock(&s->inbox_lock);
    *ret_count = count;
    return ids;
}

/* A job was created, or its cancel requested: read its row. */
static void read_row(struct sched *s, int64_t id)
{
    struct job job;
    ty_err err = store_job_load(s->setup.store, &s->pass, id, &job);
    if (err != TY_OK) {
        if (err != TY_NOT_FOUND)
            log_error("sched.row", "job=%" PRId64 " error=%s", id, ty_err_message());
        return;
    }
    struct active *j = active_find(s, id);
    if (!j && !job_state_is_final(job.state))
        j = active_add(s, &job);
    if (j)
        j->cancel_requested = job.cancel_requested;
}

static void read_connection(struct sched *s, struct active *j)
{
    char bytes[256];
    ssize_t n;
    while ((n = read(j->fd, bytes, sizeof bytes)) > 0) {
        if (memchr(bytes, 'j', (size_t)n))
            active_look(s, j);
        if (memchr(bytes, 'l', (size_t)n))
            s->log_grew = true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        active_disconnect(s, j);
        active_look(s, j);
    }
}

static int wait_ms(const struct sched *s)
{
    if (s->freed && s->waiting.count)
        return 0;
    return s->waiting.count || s->looks || s->retry_boot_ms ? TICK_MS : -1;
}

static void update_stats(struct sched *s)
{
    __atomic_store_n(&s->stats.slots, s->setup.config->replica_slots, __ATOMIC_RELAXED);
    __atomic_store_n(&s->stats.slots_used, s->used.replicas, __ATOMIC_RELAXED);
    __atomic_store_n(&s->stats.active, (int64_t)(s->placed.count + s->waiting.count),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&s->stats.queued, (int64_t)s->waiting.count, __ATOMIC_RELAXED);
}

static void *sched_thread(void *arg)
{
    struct sched *s = arg;
    prctl(PR_SET_NAME, "scheduler");
    struct epoll_event events[EVENTS_AT_ONCE];
    bool stopping = false;
    sched_pass(s);
    while (!stopping) {
        int n = epoll_wait(s->epoll_fd, events, EVENTS_AT_ONCE, wait_ms(s));
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                read_connection(s, events[i].data.ptr);
            else {
                eventfd_t ignored;
                eventfd_read(s->wake_fd, &ignored);
            }
        }
        size_t count;
        int64_t *ids = take_inbox(s, &count, &stopping);
        for (size_t i = 0; i < count; i++)
            read_row(s, ids[i]);
        if (!stopping)
            sched_pass(s);
        update_stats(s);
        ty_arena_clear(&s->pass);
    }
    return NULL;
}

ty_err sched_start(const struct sched_setup *setup, struct sched **ret_sched)
{
    struct sched *s = calloc(1, sizeof *s);
    ty_assert(s);
    s->setup = *setup;
    s->launcher = (struct exec_launcher){.pid = -1, .fd = -1};
    pthread_mutex_init(&s->inbox_lock, NULL);
    ports_init(&s->ports, (int)setup->config->port_first, (int)setup->config->port_last);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ty_assert(s->epoll_fd >= 0 && s->wake_fd >= 0);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    ty_assert(epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, &e) == 0);

    ty_err err = exec_launcher_start(&s->launcher, setup->data_dir);
    if (err == TY_OK)
        err = sched_adopt(s);
    if (err == TY_OK) {
        update_stats(s);
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        int failed = pthread_create(&s->thread, &attr, sched_thread, s);
        pthread_attr_destroy(&attr);
        if (failed)
            err = ty_fail_errno(failed, "cannot start the scheduler's thread");
    }
    if (err != TY_OK) {
        s->stopping = true;
        sched_stop(s);
        return err;
    }
    *ret_sched = s;
    return TY_OK;
}

void sched_stop(struct sched *s)
{
    pthread_mutex_lock(&s->inbox_lock);
    bool started = !s->stopping; /* sched_start sets it where there is no thread */
    s->stopping = true;
    pthread_mutex_unlock(&s->inbox_lock);
    if (started) {
        wake(s);
        pthread_join(s->thread, NULL);
    }
    while (s->placed.first)
        active_remove(s, s->placed.first);
    while (s->waiting.first)
        active_remove(s, s->waiting.first);
    exec_launcher_stop(&s->launcher);
    ports_clear(&s->ports);
    close(s->epoll_fd);
    close(s->wake_fd);
    pthread_mutex_destroy(&s->inbox_lock);
    ty_arena_clear(&s->pass);
    free(s->inbox);
    free(s->plan);
    free(s);
}

void sched_stats(struct sched *s, struct sched_stats *ret_stats)
{
    ret_stats->slots = __atomic_load_n(&s->stats.slots, __ATOMIC_RELAXED);
    ret_stats->slots_used = __atomic_load_n(&s->stats.slots_used, __ATOMIC_RELAXED);
    ret_stats->active = __atomic_load_n(&s->stats.active, __ATOMIC_RELAXED);
    ret_stats->queued = __atomic_load_n(&s->stats.queued, __ATOMIC_RELAXED);
}
