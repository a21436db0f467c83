/* scan.c -- looking through the buckets after others have written to them, on a thread of its own.
 *
 * What a job makes or removes through /gcs is seen when somebody asks for it; looking once at its
 * end makes the rows true for those who read nothing else. With a million objects that takes
 * seconds, so nobody waits for it, several jobs that end meanwhile are one look, and after each
 * look the thread rests SCAN_REST times as long as it took: jobs that end all the time cost a small
 * part of one CPU.
 *
 * If the look met objects without hashes, a second one computes them: later lists have them, and no
 * client waits for the bytes to be read. It rests as long as that took, for files that are written
 * all the time. */
#include "objects/objects_int.h"

enum {
    SCAN_REST = 20,
    /* Before a look: a file that is missing may be on its way until its row has settled. */
    SCAN_WAIT_MS = 4 * SETTLE_MS,
};

void objects_scan_soon(struct objects *o)
{
    pthread_mutex_lock(&o->thread_lock);
    o->scan_wanted = true;
    pthread_cond_signal(&o->scan_wake);
    pthread_mutex_unlock(&o->thread_lock);
}

bool scan_stopping(struct objects *o)
{
    pthread_mutex_lock(&o->thread_lock);
    bool stopping = o->closing;
    pthread_mutex_unlock(&o->thread_lock);
    return stopping;
}

/* False: closing. */
static bool wait_wanted(struct objects *o)
{
    pthread_mutex_lock(&o->thread_lock);
    while (!o->closing && !o->scan_wanted)
        pthread_cond_wait(&o->scan_wake, &o->thread_lock);
    o->scan_wanted = false; /* who asks from here on gets a look of his own */
    bool goes_on = !o->closing;
    pthread_mutex_unlock(&o->thread_lock);
    return goes_on;
}

static void rest(struct objects *o, int64_t ms)
{
    int64_t until_ms = ty_boot_ms() + ms, left;
    pthread_mutex_lock(&o->thread_lock);
    while (!o->closing && (left = until_ms - ty_boot_ms()) > 0)
        ty_cond_wait_ms(&o->scan_wake, &o->thread_lock, left);
    pthread_mutex_unlock(&o->thread_lock);
}

static void *thread_main(void *arg)
{
    struct objects *o = arg;
    while (wait_wanted(o)) {
        rest(o, SCAN_WAIT_MS);
        uint64_t unhashed = 0;
        int64_t begin_ms = ty_boot_ms();
        ty_err err = buckets_look(o, TY_STR(""), 0, &unhashed);
        int64_t looked_ms = ty_boot_ms();
        if (err == TY_OK && unhashed > 0)
            err = buckets_look(o, TY_STR(""), INT64_MAX, &unhashed);
        if (err != TY_OK && !scan_stopping(o))
            log_warn("objects.scan", "error=\"%s\"", ty_err_message());
        rest(o, (looked_ms - begin_ms) * SCAN_REST + ty_boot_ms() - looked_ms);
    }
    return NULL;
}

ty_err scan_start(struct objects *o)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are main's */
    int os = pthread_create(&o->scan_thread, NULL, thread_main, o);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (os != 0)
        return ty_fail_errno(os, "cannot start the thread that looks through the buckets");
    o->scan_runs = true;
    return TY_OK;
}

void scan_stop(struct objects *o)
{
    if (!o->scan_runs)
        return;
    pthread_mutex_lock(&o->thread_lock);
    o->closing = true;
    pthread_cond_signal(&o->scan_wake);
    pthread_mutex_unlock(&o->thread_lock);
    pthread_join(o->scan_thread, NULL);
    o->scan_runs = false;
}
