/* exec.h -- run an attempt: launcher, conductor, replicas; and how the server sees them.
 *
 * An attempt lives in a folder, data/jobs/<job>/<attempt>/:
 *   spec      the plan, JSON, written by the server before the start
 *   lock      record lock held by the conductor while it lives (never inherited): locked = alive
 *   journal   created O_EXCL by the conductor before it starts anything, or by the server as
 *             "fenced": who creates it decides
 *   log       all replicas' lines (joblog.h)
 *   usage     what they use, a sample a second (samples.c)
 *   cgroup    where their control groups are, while there are any (cgroup.c)
 *   ctl       Unix socket of the conductor, for a server that comes back
 *   0-0/ ...  each replica's working folder; "prepare/" is the preparation's
 *   python-0  link to the Python environment of pool 0, which the preparation makes (python.h)
 *   engine, image-0, 0-0.container, 0-0.cid   of replicas in containers (container.h)
 *
 * Where to start: exec_plan_build, exec_launch, exec_attempt_look; conductor.c for the other side.
 * Who frees: plans are in an arena; fds are the caller's.
 * Threads: one thread of the server starts, cancels and fences (the scheduler); looking at an
 * attempt only reads and is for any thread. Errors: TY_UNAVAILABLE (launcher or conductor gone),
 * TY_INTERNAL, TY_RESOURCE_EXHAUSTED (disk, processes), TY_DATA_LOSS (a damaged journal),
 * TY_FAILED_PRECONDITION (a newer program wrote it). TY_ISOLATION=sweep (or another of
 * exec_isolation's names) forces one, for tests. One test: build/test_exec
 * conductor/kill_leaves_nothing. */
#ifndef TY_EXEC_H
#define TY_EXEC_H

#include "base/base.h"
#include "container/container.h"

#include <jansson.h>

/* What a replica may use of the machine, as the scheduler cut it. */
struct exec_share {
    int64_t cpu_milli;    /* CPUs, thousandths: its weight against other replicas; 0: none given */
    int64_t memory_bytes; /* a ceiling; 0: none */
    const char *devices;  /* CUDA_VISIBLE_DEVICES; NULL: left as the user has it */
};
struct exec_replica {
    int pool, index;
    int port;
    struct exec_share share;
    char **argv;                    /* NULL-ended */
    char **env;                     /* NULL-ended NAME=VALUE; the whole environment */
    struct container_mount *mounts; /* what its root has besides the machine's: /gcs (root.c) */
    size_t mount_count;
    struct container *container; /* NULL: argv runs on this machine itself. Else this runs, env is
                                    the engine's, and argv[0] is the image, for messages */
    bool engine; /* it calls a container engine, so it runs outside of our namespaces */
};
struct exec_plan {
    int64_t job_id;
    int attempt;
    int64_t timeout_ms; /* run time left */
    int64_t grace_ms;
    int64_t log_limit_bytes, log_line_bytes, log_floor_ns;
    bool disable_retries;
    bool restart_job_on_worker_restart;
    const char *note;             /* the conductor says it first, in the job's log; NULL: nothing */
    bool ml;                      /* a job of the older API: each replica's log ends in its words */
    bool cgroups;                 /* use them if there are any */
    int64_t replica_processes;    /* a ceiling for each; 0: none */
    struct exec_replica *prepare; /* NULL: none. Pool and index -1. Runs alone, before the others:
                                     they start when it has exited with 0 */
    struct exec_replica *replicas; /* chief first */
    size_t replica_count;
};

/* What a plan is made from. */
struct exec_job {
    int64_t id;
    int attempt;
    ty_str project, region;
    const json_t *spec;              /* canonical jobSpec */
    const int *ports;                /* one a replica, pool by pool */
    const struct exec_share *shares; /* one a replica, likewise; NULL: none are given */
    const char *const *tokens;       /* one a replica, likewise; NULL: none have any */
    const char *data_dir;
    const char *const *client_env; /* NULL-ended NAME=VALUE: points Google's clients here */
    int64_t timeout_ms, log_floor_ns;
    const char *note; /* what to say first in its log, a sentence; NULL: nothing */
    /* A job of the older AI Platform API: its id and trainingInput. Then every replica of every job
     * has TF_CONFIG, with `master` where its runtime had that. Empty, NULL: a custom job. */
    ty_str ml_id;
    const json_t *ml_input;
};
/* Roles, command lines, CLUSTER_SPEC, TF_CONFIG, AIP_*, CLOUD_ML_*, MASTER_*, RANK, WORLD_SIZE,
 * user env. */
TY_NODISCARD ty_err exec_plan_build(struct ty_arena *a, const struct ty_config *config,
                                    const struct exec_job *job, struct exec_plan *ret_plan);
/* Replicas over all pools of a canonical jobSpec. */
int exec_replica_count(const json_t *spec);
int64_t exec_pool_replicas(const json_t *pool); /* of one of them */
/* The run time a jobSpec allows, in ms. */
int64_t exec_timeout_ms(const struct ty_config *config, const json_t *spec);
/* Make the folders that AIP_MODEL_DIR and its like name, if the spec has a baseOutputDirectory; in
 * a bucket, also those that replicas other than the chief have in the model's place. The message
 * names the field. */
TY_NODISCARD ty_err exec_output_make(struct ty_arena *a, const char *data_dir, const json_t *spec);
/* Where the job's model goes, "gs://BUCKET/…/model/", if that is in a bucket; else NULL. There only
 * the chief may write, and everybody below EXEC_WORKER_MODEL*. */
char *exec_model_uri(struct ty_arena *a, const json_t *spec);
#define EXEC_WORKER_MODEL "workertemp_"
/* Remove the folders that replicas other than the chief had in the model's place. The conductor has
 * done so, unless it was killed. */
TY_NODISCARD ty_err exec_output_clear(const char *data_dir, int64_t job_id, int attempt);
const char *exec_task_type(int pool); /* 0 chief, 1 worker, 2 ps, 3 evaluator */
/* What TF_CONFIG calls the first replica of a job with this trainingInput: "chief" for runtimes
 * from 2.1 on or where useChiefInTfConfig asks for it, else "master". */
const char *exec_ml_chief(const json_t *training_input);
enum { EXEC_ML_TASK_BYTES = 40 };
/* The older API's name of a replica: master-replica-0, worker-replica-1, ps-replica-0,
 * evaluator-replica-0. Returns out. */
char *exec_ml_task(int pool, int index, char out[EXEC_ML_TASK_BYTES]);
/* Append what we said about a job, with those names in place of ours (workerpool0-0). */
void exec_ml_words(struct ty_buf *b, ty_str text);

/* ---- the server's side ---- */

/* The small process that forks conductors: exec of this binary with few libraries and one thread.
 */
struct exec_launcher {
    pid_t pid;
    int fd; /* SOCK_SEQPACKET */
};
TY_NODISCARD ty_err exec_launcher_start(struct exec_launcher *l, const char *data_dir);
void exec_launcher_stop(struct exec_launcher *l);
/* main.c's "launch" command. Returns when the server is gone; and, in a forked conductor, when its
 * attempt has ended: either way the value is the exit status, to be returned from main at once. */
int exec_launcher_main(int fd, const char *data_dir);

/* Make the folder and its spec. */
TY_NODISCARD ty_err exec_attempt_prepare(const char *data_dir, const struct exec_plan *plan);
/* Ask for a conductor. *ret_fd is the connection to it, nonblocking. Bytes to read: 'j' the journal
 * grew, 'l' the log grew (at most every 50 ms). Its end: the conductor is gone, or never came;
 * look. TY_UNAVAILABLE: the launcher is gone; stop it and start another. */
TY_NODISCARD ty_err exec_launch(struct exec_launcher *l, int64_t job_id, int attempt, int *ret_fd);
/* Connect to a conductor that is already there. TY_NOT_FOUND: nobody listens. */
TY_NODISCARD ty_err exec_attempt_connect(const char *data_dir, int64_t job_id, int attempt,
                                         int *ret_fd);
/* Tell it to cancel. Asking twice is fine. TY_UNAVAILABLE: it is gone; look. */
TY_NODISCARD ty_err exec_attempt_cancel(int fd);

enum exec_phase {
    EXEC_ABSENT, /* no journal: nothing was started */
    EXEC_ALIVE,  /* the lock is held */
    EXEC_ENDED,  /* the journal has its end record */
    EXEC_LOST,   /* journal without an end, lock free: the conductor died */
    EXEC_FENCED, /* nothing ever ran: the server made the journal, or its maker died before a word
                  */
};
/* What one run of a replica has used; pool -1 is the preparation. */
struct exec_used {
    int pool, index;
    int64_t cpu_us, wall_ms, peak_bytes;
    int64_t read_bytes, written_bytes; /* from and to disk */
    int64_t limit_bytes;               /* its share of memory; 0: none */
    bool limit_enforced;
    ty_str method; /* how it was measured: "cgroup v1", ... */
    int64_t end_ns;
    struct exec_used *next;
};
/* What journal and lock say. Strings from the arena. */
struct exec_look {
    enum exec_phase phase;
    int64_t begin_ns, running_ns, end_ns; /* 0: not there yet */
    int64_t preparing_ns;                 /* when the preparation began; 0: there is none */
    int64_t ran_ms;                       /* by CLOCK_BOOTTIME, at the end */
    int restarts;                         /* replicas restarted in place */
    ty_str restarted;                     /* how the last of those had ended */
    ty_str stopping;                      /* the outcome, once replicas are stopped for it */
    ty_str outcome;                       /* at the end: succeeded, failed, cancelled, timeout */
    bool retry; /* failed, but the rules say the whole job may be tried again */
    int error_code;
    ty_str message;
    struct exec_used *used, *used_last; /* receipts, in the order of the ends; NULL: none yet */
    struct exec_used provisioned;       /* the chief's limit and method, known from its start on */
};
TY_NODISCARD ty_err exec_attempt_look(struct ty_arena *a, const char *data_dir, int64_t job_id,
                                      int attempt, struct exec_look *ret_look);
/* Create the journal with "fenced". TY_ALREADY_EXISTS: a conductor was first; look again. Makes the
 * folder if it has to. */
TY_NODISCARD ty_err exec_attempt_fence(const char *data_dir, int64_t job_id, int attempt);
/* After EXEC_LOST, before anything else uses its ports: wait until no process of the attempt is
 * left (known by the mark in their environment), killing what is there, and remove its containers;
 * 10 s at most for each. The kernel is at it already where there are PID namespaces. Then remove
 * its control groups. */
void exec_attempt_sweep(const char *data_dir, int64_t job_id, int attempt);
/* A replica that has a stopped process (SIGSTOP), "workerpool1-0"; NULL: none has. */
const char *exec_attempt_stopped(struct ty_arena *a, const char *data_dir, int64_t job_id,
                                 int attempt);
/* Time of the newest line of an attempt's log; 0 when there is none. */
int64_t exec_log_last_ns(const char *data_dir, int64_t job_id, int attempt);

/* The yard's own id, data/id, 16 hexadecimal digits; "" if there is none yet. Two yards on one
 * machine may have the same jobs, one being restored from a backup of the other: whatever names a
 * job to the machine (marks of processes, control groups, labels of containers) names the yard as
 * well. */
const char *exec_yard_id(struct ty_arena *a, const char *data_dir);
/* Make it, if there is none. */
TY_NODISCARD ty_err exec_yard_id_make(const char *data_dir);

/* How replicas are held together here: "pid-namespace", "user-namespace" or "sweep". For doctor and
 * the log. */
const char *exec_isolation(void);

/* ---- whose process ---- */

/* A replica of an attempt. */
struct exec_owner {
    int64_t job_id;
    int attempt, pool, index;
};
/* Whose is the process `pid` or, where that is 0, a process that holds the socket `inode`? By the
 * marks in its environment (owner.c). False: no replica's of this yard. Looks at every process of
 * the machine, some milliseconds. */
bool exec_owner_find(const char *data_dir, uint64_t inode, pid_t pid, struct exec_owner *ret_owner);

/* Do replicas that are not in containers have /gcs? If not, *ret_why says why. For doctor. */
bool exec_gcs_works(struct ty_arena *a, const char **ret_why);

/* What a replica used at one time; CPU and bytes since its start or restart. */
struct exec_sample {
    int64_t time_ms; /* since 1970 */
    int pool, index;
    int64_t cpu_us, memory_bytes, read_bytes, written_bytes;
};
/* An attempt's samples, oldest first, thinned to at most `rounds` times, the newest among them.
 * None is no error. */
TY_NODISCARD ty_err exec_usage_read(struct ty_arena *a, const char *data_dir, int64_t job_id,
                                    int attempt, size_t rounds, struct exec_sample **ret_samples,
                                    size_t *ret_count);
/* Which control groups are to be had here ("cgroup v1: memory, cpu"), or why none are.
 * *ret_memory: memory limits hold. */
const char *exec_cgroups(struct ty_arena *a, bool *ret_memory);

/* data/jobs/<job>/<attempt> into out. */
char *exec_attempt_path(struct ty_arena *a, const char *data_dir, int64_t job_id, int attempt);

#endif
