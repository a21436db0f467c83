/* ends.c -- what is left to do in the buckets when a job has ended.
 *
 * The conductor removes what the other replicas had in the model's place before it says that the
 * attempt is over; for one that was killed it is done here, on a thread of its own: such a folder
 * may hold any number of files, and the scheduler waits for nothing. The look through the buckets
 * is objects' own (objects_scan_soon). A job that ended while there was no server ends, for us,
 * when the scheduler finds it. */
#include "server/server_int.h"

#include "exec/exec.h"

struct ended {
    int64_t job_id;
    int attempt;
    struct ended *next;
};

/* NULL: the server stops, and all are done. */
static struct ended *take(struct ends *e)
{
    pthread_mutex_lock(&e->lock);
    while (!e->first && !e->stop)
        pthread_cond_wait(&e->wake, &e->lock);
    struct ended *one = e->first;
    if (one)
        e->first = one->next;
    pthread_mutex_unlock(&e->lock);
    return one;
}

static void *ends_thread(void *arg)
{
    struct server *s = arg;
    struct ended *one;
    while ((one = take(&s->ends)) != NULL) {
        if (exec_output_clear(s->data_dir, one->job_id, one->attempt) != TY_OK)
            log_warn("output.kept", "job=%" PRId64 " error='%s'", one->job_id, ty_err_message());
        objects_scan_soon(s->objects);
        free(one);
    }
    return NULL;
}

ty_err ends_start(struct server *s)
{
    struct ends *e = &s->ends;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    int failed = pthread_create(&e->thread, NULL, ends_thread, s);
    if (failed)
        return ty_fail_errno(failed, "cannot start a thread");
    e->started = true;
    return TY_OK;
}

void ends_stop(struct server *s)
{
    struct ends *e = &s->ends;
    if (!e->started)
        return;
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->wake);
}

void ends_add(void *arg, int64_t job_id, int lost_attempt)
{
    struct server *s = arg;
    if (lost_attempt == 0) {
        objects_scan_soon(s->objects);
        return;
    }
    struct ended *one = calloc(1, sizeof *one);
    ty_assert(one);
    *one = (struct ended){.job_id = job_id, .attempt = lost_attempt};
    pthread_mutex_lock(&s->ends.lock);
    one->next = s->ends.first;
    s->ends.first = one;
    pthread_cond_signal(&s->ends.wake);
    pthread_mutex_unlock(&s->ends.lock);
}
