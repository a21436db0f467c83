/* store.h -- the rows: jobs, their attempts, operations; and the job state machine.
 *
 * Where to start: struct job, then store_job_create and store_apply.
 * Who frees: rows are in the arena given; store_close. Threads: any; request threads create, cancel
 * and delete, the scheduler alone moves states (store_apply). Errors: TY_NOT_FOUND,
 * TY_FAILED_PRECONDITION, TY_RESOURCE_EXHAUSTED (disk), TY_INTERNAL.
 *
 * States (numbers are Vertex's JobState):
 *
 *   PENDING --(no room)--> QUEUED --> PENDING --> RUNNING --> SUCCEEDED | FAILED
 *      |                     |          ^            |
 *      |                     |          +-- retry ---+
 *      +------ cancel -------+------------------> CANCELLING --> CANCELLED (or as it ended)
 *
 * S1 a terminal state is never left.
 *
 * S2 start_ns is set once, at the first RUNNING.
 *
 * S3 end_ns and only terminal states go together.
 *
 * S4 an attempt row is committed before its folder exists; at most one of a job is not ended.
 *
 * One test: build/test_store state/terminal_is_never_left. */
#ifndef TY_STORE_H
#define TY_STORE_H

#include "base/base.h"

enum job_state {
    JOB_STATE_QUEUED = 1,
    JOB_STATE_PENDING = 2,
    JOB_STATE_RUNNING = 3,
    JOB_STATE_SUCCEEDED = 4,
    JOB_STATE_FAILED = 5,
    JOB_STATE_CANCELLING = 6,
    JOB_STATE_CANCELLED = 7,
};
const char *job_state_name(enum job_state s); /* "JOB_STATE_QUEUED" */
bool job_state_is_final(enum job_state s);
bool job_state_may(enum job_state from, enum job_state to);

/* A job's row, whichever API made it. Strings are in the arena it was read into. */
struct job {
    int64_t id; /* 19 digits, increasing with time: newest first is largest first */
    ty_str project, region;
    ty_str display_name;
    ty_str labels; /* JSON object, or empty */
    /* The JSON members the client gave, in canonical form and without braces:
     * "displayName":"t1","jobSpec":{…},"labels":{…} -- spliced into replies as it is. */
    ty_str body;
    enum job_state state;
    int64_t create_ns, start_ns, end_ns, update_ns; /* 0: not yet */
    int error_code;                                 /* google.rpc.Code */
    ty_str error_message;
    bool cancel_requested;
    int replicas;         /* over all pools */
    int attempt;          /* number of the newest attempt; 0: none yet */
    int retries;          /* whole-job retries used */
    int64_t ran_ms;       /* run time of ended attempts, for the timeout */
    int64_t wait_boot_ms; /* ty_boot_ms when the wait for a place began; with boot_id, for
                             maxWaitDuration */
    ty_str boot_id;
    ty_str
        wait_reason; /* why it was QUEUED the first time, a sentence; stays when the wait is over */
    /* Of a job that the older AI Platform API (ml v1) made: the id its user chose, unique in the
     * project, and its trainingInput in canonical form, JSON. Empty: a custom job. */
    ty_str ml_id, ml_input;
};

enum attempt_state { ATTEMPT_STARTED = 1, ATTEMPT_RUNNING = 2, ATTEMPT_ENDED = 3 };
struct attempt {
    int64_t job_id;
    int number; /* from 1 */
    enum attempt_state state;
    int64_t start_ns, running_ns, end_ns;
    ty_str ports;   /* "20000,20001": one a replica, in order */
    ty_str devices; /* "0,1;2": accelerators it holds until it has ended, replica by replica */
    ty_str outcome; /* "succeeded", "failed", "cancelled", "timeout", "lost", "fenced", "restored"
                       (it ran when a backup was taken); empty until ended */
    ty_str message; /* why, for people */
};

/* Ceilings. Texts of the scheduler are cut there, at a whole character, and bytes that are no UTF-8
 * become '?'. */
enum {
    STORE_MESSAGE_BYTES = 16 * 1024, /* error_message, an attempt's message */
    STORE_REASON_BYTES = 1024,       /* wait_reason */
    STORE_OPERATION_PAGE = 1000,     /* operations in one list */
};

struct store;
/* Open data_dir/yard.db; the folder exists. One server a folder: the caller holds its lock. A file
 * of a newer format: TY_FAILED_PRECONDITION. */
TY_NODISCARD ty_err store_open(const char *data_dir, struct store **ret_store);
void store_close(struct store *s); /* nobody may be inside a call. NULL is fine */
/* This boot's id, what create writes into boot_id. In a row of another boot, wait_boot_ms means
 * nothing: that job has waited at least since this boot began. */
ty_str store_boot_id(const struct store *s);

/* ---- request threads ---- */

/* Commit a new job in PENDING. The caller fills project, region, display_name, labels, body,
 * replicas, ml_id, ml_input; the rest (id, times, state, boot_id) is set here, and only on success.
 * The strings stay the caller's. Ids are committed in increasing order and never used twice.
 * TY_ALREADY_EXISTS: the project has a job of this ml_id. */
TY_NODISCARD ty_err store_job_create(struct store *s, struct job *job);
TY_NODISCARD ty_err store_job_get(struct store *s, struct ty_arena *a, ty_str project,
                                  ty_str region, int64_t id, struct job *ret_job);
/* Newest first, ids below `before` (0: all), reading only as far as `visit` goes: it stops by
 * returning false. The job and its strings are valid inside that visit only (copy what you keep,
 * into another arena). `a` is scratch for the visit: it is cleared after each one, so it is empty
 * in the end, and must hold nothing when the list begins. visit must not block, nor call the store:
 * it holds one of few connections. */
TY_NODISCARD ty_err store_job_list(struct store *s, struct ty_arena *a, ty_str project,
                                   ty_str region, int64_t before,
                                   bool (*visit)(const struct job *job, void *arg), void *arg);
/* Record the wish; the state is the scheduler's to move. Ended already, other than by a cancel:
 * TY_FAILED_PRECONDITION. Asking again is fine. */
TY_NODISCARD ty_err store_job_cancel(struct store *s, ty_str project, ty_str region, int64_t id);
TY_NODISCARD ty_err store_attempt_list(struct store *s, struct ty_arena *a, int64_t job_id,
                                       struct attempt **ret_attempts, size_t *ret_count);
/* Any job by id alone, for logs (Cloud Logging names a job without its region). */
TY_NODISCARD ty_err store_job_find(struct store *s, struct ty_arena *a, ty_str project, int64_t id,
                                   struct job *ret_job);
/* The same with its attempts, both of one moment: between two reads a job may end. */
TY_NODISCARD ty_err store_job_history(struct store *s, struct ty_arena *a, ty_str project,
                                      int64_t id, struct job *ret_job,
                                      struct attempt **ret_attempts, size_t *ret_count);

/* The project of a job whose attempt has not ended. TY_NOT_FOUND: it has, or is gone. */
TY_NODISCARD ty_err store_attempt_live(struct store *s, struct ty_arena *a, int64_t job_id,
                                       int number, ty_str *ret_project);

/* ---- ids of the older AI Platform API (ml.c) ---- */

/* Every job has one: its ml_id, or, if it is a custom job, "customjob_<id>". */
ty_str job_ml_id(struct ty_arena *a, const struct job *job);
/* Could that be the id of a custom job? No user may choose such a one. */
bool job_ml_id_is_made(ty_str ml_id);
TY_NODISCARD ty_err store_ml_get(struct store *s, struct ty_arena *a, ty_str project, ty_str ml_id,
                                 struct job *ret_job);
/* store_job_list over all regions. */
TY_NODISCARD ty_err store_ml_list(struct store *s, struct ty_arena *a, ty_str project,
                                  int64_t before, bool (*visit)(const struct job *job, void *arg),
                                  void *arg);
/* Other labels: the column and the same inside of `body`. TY_NOT_FOUND. */
TY_NODISCARD ty_err store_job_relabel(struct store *s, int64_t id, ty_str labels, ty_str body);

/* Long-running operations. All of them are done when they are made. */
struct operation {
    int64_t id;
    ty_str project, region;
    ty_str metadata_type; /* "DeleteOperationMetadata" */
    ty_str response;      /* JSON object with "@type"; empty for error */
    int error_code;
    ty_str error_message;
    int64_t create_ns, update_ns;
};
/* Delete a job that has ended, with its attempts, and record the operation, in one commit. Still
 * active: TY_FAILED_PRECONDITION. */
TY_NODISCARD ty_err store_job_delete(struct store *s, struct ty_arena *a, ty_str project,
                                     ty_str region, int64_t id, struct operation *ret_op);
TY_NODISCARD ty_err store_operation_get(struct store *s, struct ty_arena *a, ty_str project,
                                        ty_str region, int64_t id, struct operation *ret_op);
TY_NODISCARD ty_err store_operation_list(struct store *s, struct ty_arena *a, ty_str project,
                                         ty_str region, int64_t before, size_t limit,
                                         struct operation **ret_ops, size_t *ret_count);
TY_NODISCARD ty_err store_operation_delete(struct store *s, ty_str project, ty_str region,
                                           int64_t id);

/* ---- the scheduler ---- */

/* One job's move. Fields that are 0 or NULL stay as they are (an attempt's too, its state apart).
 * The same job may come several times: the changes are made in order, so a job that started and
 * ended between two looks goes PENDING -> RUNNING -> SUCCEEDED in one call. */
struct store_change {
    int64_t job_id;
    enum job_state state; /* 0: stays */
    /* Not with QUEUED or PENDING; not given: now, at RUNNING. The first one stays (S2). */
    int64_t start_ns;
    int64_t end_ns; /* with a terminal state; not given: now */
    int error_code;
    const char *error_message;
    const char *wait_reason; /* the first one stays for good */
    int add_retries;
    int64_t add_ran_ms;
    /* Inserted when new (number = attempt + 1, and the one before has ended), else updated; never
     * after its end. */
    struct attempt *attempt;
};
/* All or none, in one commit. A move the state machine does not know, or any change of a job that
 * has ended: TY_INTERNAL (our bug), naming the job and both states; nothing is written. RUNNING ->
 * PENDING (a retry) begins a new wait: wait_boot_ms and boot_id are set again. */
TY_NODISCARD ty_err store_apply(struct store *s, const struct store_change *changes, size_t count);
/* Every job that has not ended, oldest first. */
TY_NODISCARD ty_err store_active_list(struct store *s, struct ty_arena *a, struct job **ret_jobs,
                                      size_t *ret_count);
/* A job by its id alone. */
TY_NODISCARD ty_err store_job_load(struct store *s, struct ty_arena *a, int64_t id,
                                   struct job *ret_job);
/* Counts by state for /metrics: counts[state]. */
TY_NODISCARD ty_err store_job_counts(struct store *s, int64_t counts[8]);
/* Is there a row for this job id, in any project? For removing folders that belong to none. */
TY_NODISCARD ty_err store_job_exists(struct store *s, int64_t id, bool *ret_exists);

/* ---- all regions ---- */

/* When a job lived, without its text. */
struct store_span {
    int64_t job_id;
    int64_t create_ns, end_ns; /* end 0: it has not ended */
};
/* Jobs of a project, in all regions, that lived at some time from from_ns to to_ns; at most
 * `limit`, the newest ones, newest first, or the oldest, oldest first. */
TY_NODISCARD ty_err store_job_list_project(struct store *s, struct ty_arena *a, ty_str project,
                                           int64_t from_ns, int64_t to_ns, bool newest,
                                           size_t limit, struct store_span **ret_spans,
                                           size_t *ret_count);

/* ---- backups (copy.c) ---- */

/* A copy of one moment of data_dir/yard.db as to_dir/yard.db, with or without a server at work;
 * store_open(to_dir) opens it. */
TY_NODISCARD ty_err store_copy(const char *data_dir, const char *to_dir);
struct store_attempt_id {
    int64_t job_id;
    int number;
};
/* Every attempt there is a row for, oldest job first. */
TY_NODISCARD ty_err store_attempt_ids(struct store *s, struct ty_arena *a,
                                      struct store_attempt_id **ret_ids, size_t *ret_count);
/* Of these jobs, take those out of the copy that data_dir's own rows no longer have. */
TY_NODISCARD ty_err store_copy_forget(struct store *copy, const char *data_dir, const int64_t *ids,
                                      size_t count, size_t *ret_forgotten);

#endif
