/* sched.h -- the scheduler: the one thread that decides who runs, and follows what runs.
 *
 * A pass: take what happened (new jobs, cancels, journals that grew), decide, commit all moves in
 * one transaction, then act on them. Decisions are a pure function of rows (sched_decide), so tests
 * and `why` can run them on any input. All replicas of a job start or none. Where to start:
 * sched_decide in decide.c, then the pass in sched.c. Who frees: sched_stop. Threads: sched_notify,
 * sched_stats and sched_why from any; the rest is the scheduler's own thread. One test:
 * build/test_sched decide/no_partial_gang. */
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

/* ---- why a job is where it is ---- */

enum { SCHED_WHY_AHEAD = 20 }; /* of the jobs that wait before it, so many are named */

struct sched_why_job {
    int64_t id;
    ty_str project, display_name;
    enum job_state state;
    int replicas;
    int64_t since_ns; /* it runs, starts or waits */
};
struct sched_why {
    struct job job;
    bool waits;         /* it has not ended and no attempt is under way */
    int64_t since_ns;   /* it waits, is being started, runs, or has ended */
    const char *reason; /* for what it waits, how it is doing, why it ended; a sentence's middle */
    const char *remedy; /* what would start it now; NULL: nobody has to do anything */
    int restarts;       /* replicas restarted in place, in the attempt that is under way */
    int slots;
    /* Of a job that waits: */
    int slots_used;
    int64_t wait_left_ms;          /* until its maxWaitDuration is over; INT64_MAX: never */
    struct sched_why_job *holders; /* who has those slots, oldest first */
    size_t holder_count;
    struct sched_why_job *ahead; /* who waits before it, oldest first */
    size_t ahead_count;          /* all of them; SCHED_WHY_AHEAD at most are in the list */
};
/* By the rows, and for restarts the journal; changes nothing. Any thread. TY_NOT_FOUND. All of it
 * is in the arena. */
TY_NODISCARD ty_err sched_why(struct store *store, const struct ty_config *config,
                              const char *data_dir, struct ty_arena *a, ty_str project,
                              int64_t job_id, struct sched_why *ret_why);

#endif
