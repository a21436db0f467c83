/* sched.h -- the scheduler: the one thread that decides who runs, and follows what runs.
 *
 * A pass: take what happened (new jobs, cancels, journals that grew), decide, commit all moves in
 * one transaction, then act on them. Decisions are a pure function of rows (sched_decide), so tests
 * and `why` can run them on any input. All replicas of a job start or none.
 *
 * How the machine is divided (settings capacity, accelerators, max_running_jobs, replica_slots):
 *
 * Always: at most max_running_jobs jobs and replica_slots replicas at once. A replica's weight for
 * CPU time is the CPUs of its machine type, so those that run side by side have proportional
 * shares. Its memory ceiling is what its type has; and where that is more than this machine has,
 * all of the machine but a reserve (never a slice: a job that asks for 60 GB on a laptop of 23 runs
 * with 22). A replica that names no type weighs as n1-standard-4 and may use all but the reserve.
 *
 * capacity = share: that is all. Memory may be promised twice; what is used is what counts.
 * capacity = fit: besides, the CPUs and the memory of all jobs that run are within the machine's;
 *   a job that is larger than the machine runs alone.
 * capacity = strict: as fit; a job that is larger than the machine is refused (vertex).
 *
 * A device belongs to one replica at a time; all of a job's replicas have theirs or none has. With
 * accelerators = cpu a job for which too few are free runs without; with wait or refuse it waits.
 *
 * Where to start: sched_decide in decide.c, then the pass in sched.c. Who frees: sched_stop.
 * Threads: sched_notify, sched_stats, sched_why and what is pure from any; the rest is the
 * scheduler's own thread. One test: build/test_sched decide/no_partial_gang. */
#ifndef TY_SCHED_H
#define TY_SCHED_H

#include "auth/auth.h"
#include "base/base.h"
#include "machine/machine.h"
#include "store/store.h"

#include <jansson.h>

struct sched;
struct sched_setup {
    const struct ty_config *config;
    const struct machine_host *host;
    struct store *store;
    const char *data_dir;
    const char *url;                  /* for the replicas' environment */
    const struct auth_secret *secret; /* of their tokens; NULL: they have none */
    void (*changed)(void *arg);       /* rows changed: wake who waits */
    /* A job has ended. lost_attempt: its last one, if that died without a word; else 0. From the
     * scheduler's thread, which waits for it. NULL: nobody asks. */
    void (*ended)(void *arg, int64_t job_id, int lost_attempt);
    void *arg; /* of both */
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

/* ---- what a job asks for ---- */

/* What there is a limited amount of. */
struct sched_amounts {
    int jobs, replicas;
    int64_t cpu_milli, memory_bytes;
    int devices; /* GPUs; TPUs are not counted, there are none */
};
/* What each replica of a pool asks for. */
struct sched_pool {
    int64_t replicas;
    ty_str name;              /* its machine type, or the default; in the pool's JSON */
    bool named;               /* it said so itself */
    struct machine_type type; /* with the accelerators of machineSpec, if it has any */
    int devices;              /* of those the GPUs: all or, for TPUs, none */
};
/* Of a canonical worker pool. A type that is not known (rows of another version) counts as the
 * default. */
void sched_pool_read(const json_t *pool, struct sched_pool *ret_pool);
/* Over all pools of a canonical jobSpec. */
struct sched_amounts sched_ask(const json_t *spec);
bool sched_is_larger(const struct sched_amounts *ask, const struct machine_host *host);
/* "1 x n1-standard-4 (4 CPUs, 15 GB) and 3 x n1-standard-8 (8 CPUs, 30 GB each) with 1 NVIDIA_L4
 * each" */
const char *sched_asked_text(struct ty_arena *a, const json_t *spec);
/* What it asked for and what it has instead, a sentence; NULL: nothing was cut. `devices` are those
 * given to it, as its attempt has them. */
const char *sched_note(struct ty_arena *a, const struct ty_config *config,
                       const struct machine_host *host, const json_t *spec, ty_str devices);

/* ---- the decision, pure ---- */

/* Why a job must wait. decide.c has the words. */
enum sched_wait {
    SCHED_WAIT_NONE,
    SCHED_WAIT_HELD,    /* its last start failed */
    SCHED_WAIT_STARTS,  /* others are starting */
    SCHED_WAIT_SLOTS,   /* replica_slots */
    SCHED_WAIT_JOBS,    /* max_running_jobs */
    SCHED_WAIT_CPU,     /* capacity = fit or strict */
    SCHED_WAIT_MEMORY,  /* the same */
    SCHED_WAIT_DEVICES, /* accelerators = wait or refuse */
};
/* "waiting for replica slots (setting replica_slots)", or that an older job waits for them. */
const char *sched_wait_text(enum sched_wait wait, bool behind);

/* A job that waits for a place. */
struct sched_item {
    int64_t job_id;
    struct sched_amounts ask;
    int64_t wait_left_ms; /* until maxWaitDuration is over; INT64_MAX: never */
    int64_t hold_ms;      /* not before this long from now (a failed start is not tried at once) */
    /* out */
    bool start;           /* start an attempt now */
    bool devices;         /* with the devices it asks for */
    bool expire;          /* it waited too long */
    enum sched_wait wait; /* why it must wait; NONE when it starts or expires */
    bool behind;          /* not it, but an older job waits for that */
};
struct sched_room {
    struct sched_amounts all;  /* what there is */
    struct sched_amounts used; /* by attempts that have not ended */
    bool fit;                  /* CPUs and memory must fit, too */
    bool wait_for_devices;     /* else a job runs without those that are missing */
    int starts;                /* attempts that may be starting at once */
    int starting;
};
/* The room of an empty machine. */
struct sched_room sched_room(const struct ty_config *config, const struct machine_host *host);
/* Items oldest first. First come, first served: a job that does not fit lets no later one pass, so
 * nothing starves; all replicas of a job or none; a job larger than the machine starts when nothing
 * else runs. */
void sched_decide(struct sched_item *items, size_t count, struct sched_room room);

/* ---- why a job is where it is ---- */

enum {
    SCHED_WHY_AHEAD = 20,   /* of the jobs that wait before it, so many are named */
    SCHED_WHY_EARLIER = 20, /* and of its attempts, the newest */
};

struct sched_why_job {
    int64_t id;
    ty_str project, display_name;
    enum job_state state;
    int replicas;
    int64_t since_ns; /* it runs, starts or waits */
};
/* An attempt that is neither under way nor told by `before` or `reason`. */
struct sched_why_attempt {
    int number;
    const char *line; /* why it ended */
};
struct sched_why {
    struct job job;
    bool waits;         /* it has not ended and no attempt is under way */
    int64_t since_ns;   /* it waits, is being started, runs, or has ended */
    const char *reason; /* for what it waits, how it is doing, why it ended; a sentence's middle */
    const char *remedy; /* what would start it now; NULL: nobody has to do anything */
    const char *asked;  /* for which machines */
    const char *note;   /* what it has instead, as its log says; NULL: nothing was cut */
    int restarts;       /* replicas restarted in place, in all its attempts */
    const char *restarted; /* how the last of them had ended; NULL: there is none */
    const char *before; /* of a job that goes on: why its last attempt ended that has, with what it
                           printed last; NULL: none has */
    const char *slow;   /* which replica holds the others up, as its chief says; NULL: none */
    struct sched_why_attempt earlier[SCHED_WHY_EARLIER]; /* oldest first */
    size_t earlier_count;
    struct sched_amounts ask, all;
    bool fit; /* its CPUs and memory must fit */
    /* Of a job that waits: */
    enum sched_wait wait;
    struct sched_amounts used;
    int64_t wait_left_ms;          /* until its maxWaitDuration is over; INT64_MAX: never */
    struct sched_why_job *holders; /* who has those places, oldest first */
    size_t holder_count;
    struct sched_why_job *ahead; /* who waits before it, oldest first */
    size_t ahead_count;          /* all of them; SCHED_WHY_AHEAD at most are in the list */
};
struct sched_why_setup {
    struct store *store;
    const struct ty_config *config;
    const struct machine_host *host;
    const char *data_dir;
};
/* By the rows, and for restarts the journals; changes nothing. Any thread. TY_NOT_FOUND. All of it
 * is in the arena. */
TY_NODISCARD ty_err sched_why(const struct sched_why_setup *setup, struct ty_arena *a,
                              ty_str project, int64_t job_id, struct sched_why *ret_why);

#endif
