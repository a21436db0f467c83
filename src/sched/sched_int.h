/* sched_int.h -- the scheduler's own structures. Everything here belongs to the scheduler thread,
 * but for what says otherwise. */
#ifndef TY_SCHED_INT_H
#define TY_SCHED_INT_H

#include "exec/exec.h"
#include "sched/sched.h"

#include <pthread.h>

enum {
    MAX_RETRIES = 3,       /* whole-job retries, as Vertex has it */
    MAX_FAILED_STARTS = 5, /* starts in a row that failed for reasons of the machine's */
    HOLD_MS = 500,         /* rest after such a start, doubled each time */
    QUEUED_AFTER_MS = 250, /* a job that has waited this long is shown as QUEUED */
    TICK_MS = 100,
};

/* ---- ports ---- */

struct ports {
    int first, count, next;
    char *taken; /* one byte a port */
};
void ports_init(struct ports *p, int first, int last);
void ports_clear(struct ports *p);
/* `count` ports that can be bound, or none: TY_RESOURCE_EXHAUSTED. */
TY_NODISCARD ty_err ports_take(struct ports *p, int *ports, int count);
void ports_hold(struct ports *p, int port);
void ports_give(struct ports *p, const int *ports, int count);

/* ---- devices ---- */

/* Which accelerators are held, by their index. */
struct devices {
    bool taken[MACHINE_DEVICES];
};
/* Devices for all replicas of the job, as the row has them ("0,1;2"), or NULL if too few are free.
 * The text is the caller's to free. */
char *devices_take(struct devices *d, const struct machine_host *host, const json_t *spec);
void devices_hold(struct devices *d, ty_str text);
void devices_give(struct devices *d, ty_str text);
/* The next of a text; -1 at its end. */
int devices_next(ty_str *text);
/* How many of those in `text` this machine has. */
int devices_count(const struct machine_host *host, ty_str text);
/* What each replica may use, with these devices. */
struct exec_share *sched_shares(struct ty_arena *a, const struct machine_host *host,
                                const json_t *spec, ty_str devices);

/* ---- active jobs ---- */

/* A job that has not ended. It is in the table, and in exactly one of the lists: waiting (no
 * attempt under way, oldest first) or placed (an attempt holds its slots). */
struct active {
    int64_t id;
    struct active *next_in_bucket;
    struct active *prev, *next; /* its list */

    enum job_state state;  /* as committed */
    enum job_state moving; /* as it will be after this pass's commit; else the same */
    int replicas;
    struct sched_amounts ask;
    int attempt; /* number of the newest */
    int retries;
    int64_t ran_ms;
    bool cancel_requested;
    bool disable_retries;
    int64_t max_wait_ms; /* INT64_MAX: for ever */

    bool placed;
    bool running;    /* of the placed: all replicas are up */
    bool started;    /* of the placed: running, or preparing: it counts no more as starting */
    bool look;       /* something happened: read its journal in this pass */
    bool look_again; /* this pass could not tell: the next one looks, too */
    bool cancel_sent;
    bool ending;   /* this pass has planned the end of its attempt or of the job */
    int fd;        /* connection to the conductor; -1 */
    int *ports;    /* `replicas` of them while placed */
    char *devices; /* of the placed: those it holds, as the row has them; NULL: none */
    int64_t placed_boot_ms;

    int64_t wait_boot_ms; /* since when it waits */
    int64_t hold_until_ms;
    int failed_starts;
    char *broken; /* why it can never start; fails the job in the next pass */
};

struct active_list {
    struct active *first, *last;
    size_t count;
};

enum { BUCKETS = 4096 };

/* What this pass will commit, and then do. */
struct planned {
    struct active *job;
    struct store_change change; /* change.attempt points to `attempt` or is NULL */
    struct attempt attempt;
    enum planned_act {
        ACT_NONE,
        ACT_START,  /* launch the attempt that was committed */
        ACT_RUN,    /* all replicas are up */
        ACT_RETRY,  /* back to the waiting list */
        ACT_FINISH, /* it has ended: forget it */
    } act;
    int *ports;    /* ACT_START */
    char *devices; /* ACT_START; NULL: none */
};

struct sched {
    struct sched_setup setup;
    pthread_t thread;
    int epoll_fd;
    int wake_fd; /* eventfd: the inbox has something, or stop */
    struct exec_launcher launcher;

    pthread_mutex_t inbox_lock; /* guards inbox*, stopping; never held across I/O */
    int64_t *inbox;
    size_t inbox_count, inbox_cap;
    bool stopping;

    struct active *buckets[BUCKETS];
    struct active_list waiting, placed;
    struct sched_amounts used; /* by the placed */
    int starting;
    int looks;             /* placed jobs with `look` */
    int64_t full_scan_ms;  /* when the whole queue was last looked at */
    int64_t retry_boot_ms; /* the last commit failed: not again before this; 0: none */
    struct ports ports;
    struct devices devices;

    struct ty_arena pass; /* memory of one pass */
    struct planned *plan;
    size_t plan_count, plan_cap;
    bool log_grew;
    bool freed; /* the last pass gave slots back: somebody who waits may start now */

    struct sched_stats stats; /* atomic */
};

struct active *active_find(struct sched *s, int64_t id);
struct active *active_add(struct sched *s, const struct job *job);
void active_remove(struct sched *s, struct active *j);
/* waiting -> placed. `devices` may be NULL; both become the job's. */
void active_place(struct sched *s, struct active *j, int *ports, char *devices);
void active_started(struct sched *s, struct active *j); /* once or more */
void active_unplace(struct sched *s, struct active *j); /* placed -> waiting */
void active_look(struct sched *s, struct active *j);
void active_disconnect(struct sched *s, struct active *j);
void active_connect(struct sched *s, struct active *j, int fd);
/* When a job's wait began, by this boot's clock. */
int64_t active_wait_began_ms(const struct job *job, ty_str boot_id);
/* What is left of its maxWaitDuration; INT64_MAX: it has none. */
int64_t active_wait_left_ms(const struct job *job, ty_str boot_id);

/* Adopt the rows of jobs that have not ended. */
TY_NODISCARD ty_err sched_adopt(struct sched *s);
/* One pass over what has happened. */
void sched_pass(struct sched *s);

#endif
