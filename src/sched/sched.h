/* sched.h -- the scheduler: the one thread that decides who runs, and follows what runs.
 *
 * A pass: take what happened (new jobs, cancels, journals that grew), decide, commit all moves in
 * one transaction, then act on them. Decisions are a pure function of rows (sched_decide), so tests
 * and `why` can run them on any input. All replicas of a job start or none. Where to start:
 * sched_decide in decide.c, then the pass in sched.c. Who frees: sched_stop. Threads: sched_notify
 * and sched_stats from any; the rest is the scheduler's own thread. One test: build/test_sched
 * decide/no_partial_gang. */
#ifndef TY_SCHED_H
#define TY_SCHED_H

#include "base/base.h"
#include "store/store.h"

struct sched;
struct sched_setup {
    const struct ty_config *config;
    struct store *store;
    const char *data_dir;
    const char *url;            /* for the replicas' environment */
    void (*changed)(void *arg); /* rows changed: wake who waits */
    void *changed_arg;
};
/* Adopt what runs, then follow. */
TY_NODISCARD ty_err sched_start(const struct sched_setup *setup, struct sched **ret_sched);
void sched_stop(struct sched *s); /* jobs run on */
/* A job was created or its cancel requested. */
void sched_notify(struct sched *s, int64_t job_id);

struct sched_stats {
    int64_t slots, slots_used, active, queued;
};
void sched_stats(struct sched *s, struct sched_stats *ret_stats);

/* ---- the decision, pure ---- */

/* A job that waits for a place. */
struct sched_item {
    int64_t job_id;
    int replicas;
    int64_t wait_left_ms; /* until maxWaitDuration is over; INT64_MAX: never */
    int64_t hold_ms;      /* not before this long from now (a failed start is not tried at once) */
    /* out */
    bool start;         /* start an attempt now */
    bool expire;        /* it waited too long */
    const char *reason; /* why it must wait; NULL when it starts or expires */
};
struct sched_room {
    int slots;      /* replicas that may run at once */
    int slots_used; /* by attempts that have not ended */
    int starts;     /* attempts that may be starting at once */
    int starting;
};
/* Items oldest first. First come, first served: a job that does not fit lets no later one pass, so
 * nothing starves; all replicas of a job or none. */
void sched_decide(struct sched_item *items, size_t count, struct sched_room room);

#endif
