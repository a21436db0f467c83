/* exec_int.h -- shared by the files of exec. */
#ifndef TY_EXEC_INT_H
#define TY_EXEC_INT_H

#include "exec/exec.h"
#include "exec/usage_int.h"

#include "joblog/joblog.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/un.h>

/* ---- the attempt's folder (attempt.c) ---- */

TY_NODISCARD ty_err attempt_open(const char *data_dir, int64_t job_id, int attempt, int *ret_dirfd);
/* The address of `ctl` in an open folder, by way of /proc/self/fd: a path of any length fits. */
void attempt_ctl_address(int dirfd, struct sockaddr_un *ret_address);
/* Is a conductor alive? `lock_fd` may be a descriptor inherited from it. */
bool attempt_lock_held(int lock_fd);

/* ---- the plan as a file (spec.c) ---- */

TY_NODISCARD ty_err spec_write(int dirfd, const struct exec_plan *plan);
TY_NODISCARD ty_err spec_read(struct ty_arena *a, int dirfd, struct exec_plan *ret_plan);

/* ---- the journal (journal.c) ---- */

enum {
    JOURNAL_FORMAT = 1,
    JOURNAL_BYTES = 4 << 20,       /* no journal is longer */
    JOURNAL_RESERVE_BYTES = 16384, /* kept free for the end record */
    JOURNAL_MESSAGE_BYTES = 4096,  /* three times that, escaped, fits into the reserve */
};
struct journal {
    int fd;
    int64_t size; /* bytes of whole records */
};
/* TY_ALREADY_EXISTS: somebody else decided already. */
TY_NODISCARD ty_err journal_create(struct journal *j, int dirfd);
/* Append one record; `fields` is what journal_field made, or empty. */
TY_NODISCARD ty_err journal_add(struct journal *j, const char *kind, ty_str fields);
void journal_field(struct ty_buf *b, const char *key, ty_str value);
void journal_field_int(struct ty_buf *b, const char *key, int64_t value);
/* A line with its checksum; `rest` is what follows that. For journal_add and the fuzz target. */
void journal_line(struct ty_buf *b, ty_str rest);
uint32_t journal_crc32(ty_str s); /* zlib's */
void journal_close(struct journal *j);
/* What the records say. phase is EXEC_ENDED, EXEC_FENCED, or EXEC_LOST for one without an end
 * (the lock tells whether it is alive). TY_DATA_LOSS names the line; TY_FAILED_PRECONDITION: a
 * newer format. */
TY_NODISCARD ty_err journal_parse(struct ty_arena *a, ty_str text, struct exec_look *ret_look);

/* ---- what an exit means (rules.c) ---- */

enum { RULES_RESTARTS = 5 }; /* in place, for each replica */

enum rules_verdict {
    RULES_GO_ON,     /* this replica is done, the job is not */
    RULES_SUCCEEDED, /* the chief is done */
    RULES_RESTART,   /* start this replica again */
    RULES_FAILED,
};
struct rules_exit {
    bool chief;
    int wait_status;
    bool out_of_memory;         /* the kernel killed for memory meanwhile ... */
    bool memory_told;           /* ... in this very replica, as its cgroup tells */
    int64_t memory_limit_bytes; /* enforced; 0: none is */
    int64_t process_limit;      /* one that was reached; 0: none was */
    int restarts;               /* of this replica so far */
};
struct rules_answer {
    enum rules_verdict verdict;
    bool retry; /* failed: the whole job may be tried again */
    ty_err code;
};
struct rules_answer rules_decide(const struct exec_plan *plan, const struct rules_exit *e);
/* "The replica workerpool0-0 exited with a non-zero status of 1." */
void rules_describe(struct ty_buf *b, const struct exec_replica *r, const struct rules_exit *e);

/* ---- what to do about it (hints.c) ---- */

enum hint_when { HINT_STATUS, HINT_SIGNAL, HINT_ERRNO };
/* Add " Do this." from hints.def, if there is a row. `lines`: the last that were printed. */
void hints_add(struct ty_buf *b, enum hint_when when, int number, ty_str lines);
/* hints_add for the end of a process. */
void rules_advise(struct ty_buf *b, const struct rules_exit *e, ty_str lines);

/* ---- processes of a replica (replica.c) ---- */

enum isolation { ISOLATION_PID, ISOLATION_USER, ISOLATION_SWEEP };
enum isolation isolation_get(void);
uint64_t isolation_flags(enum isolation how); /* of clone */
/* In a new user namespace: be who we were. */
bool isolation_map_user(uid_t uid, gid_t gid);

/* fork, with namespaces and into a cgroup (its folder; -1: ours). The child has this thread only,
 * and must not return. */
pid_t process_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd);

enum { STREAM_OUT, STREAM_ERR, STREAM_COUNT };

enum source_kind { SOURCE_LISTEN, SOURCE_PEER, SOURCE_STATUS, SOURCE_PROCESS, SOURCE_STREAM };
/* One descriptor the conductor waits for. fd -1: closed. */
struct source {
    enum source_kind kind;
    int fd;
    struct replica *replica;
    int stream;
};

struct stream {
    struct source source;
    struct ty_buf line;  /* the beginning of a line whose end has not come */
    bool line_continues; /* part of this line is in the log already */
};

enum replica_state {
    REPLICA_STARTING, /* the process is there, the command is not yet */
    REPLICA_RUNNING,
    REPLICA_GONE, /* it and all its descendants */
};
/* The control group of a replica's container (inside.c). */
struct inside {
    struct cgroup_place place;
    struct cgroup group; /* place NULL: not found (yet) */
    bool killed;         /* it told of a kill for memory */
};
struct replica {
    const struct exec_replica *plan;
    enum replica_state state;
    struct source status, process;
    struct stream streams[STREAM_COUNT];
    bool started;     /* the command is, or was, there */
    bool exited;      /* the command has ended (its descendants may not have) ... */
    int wait_status;  /* ... this way */
    int start_errno;  /* why it could not be started; 0: it could */
    bool exec_failed; /* it was the command itself that could not be started */
    bool judged;      /* its end has been dealt with */
    bool restart_due; /* to be started again as soon as its output is read */
    int restarts;
    struct cgroup cgroup;
    struct inside inside; /* with plan->container */
    struct usage usage;
    int64_t oom_kills;      /* at its end: by its cgroup; -1: not told */
    bool memory_limited;    /* at its end: its memory limit was enforced */
    bool processes_refused; /* at its end: it reached its limit of processes */
    bool log_over;          /* past the ceiling: lines are counted and dropped */
    int64_t log_bytes, dropped_bytes, dropped_lines;
};
/* What all replicas of a conductor share. */
struct replica_setup {
    int dirfd;                        /* the attempt's folder */
    int lock_fd;                      /* the conductor's lock: held = the conductor lives */
    const char *mark;                 /* attempt_mark */
    struct rlimit files;              /* the limit the command gets */
    const struct cgroup_place *place; /* of the replicas' groups; NULL: they have none */
    int64_t processes;                /* a replica's ceiling; 0: none */
};
/* "The replica workerpool0-0" or "The preparation"; returns `out`. */
enum { REPLICA_NAME_BYTES = 64 };
const char *replica_name(const struct exec_replica *plan, char out[REPLICA_NAME_BYTES]);
/* Make its processes and pipes. It reports through `status`. */
TY_NODISCARD ty_err replica_start(struct replica *r, const struct replica_setup *setup);
/* Read what its status pipe has; sets state, exited, wait_status, start_errno. */
void replica_read_status(struct replica *r);
/* Its process is gone: reap it, and see to it that no descendant is left. Its group is still there.
 */
void replica_reap(struct replica *r, const struct replica_setup *setup);
/* SIGTERM or SIGKILL to the whole tree. */
void replica_signal(struct replica *r, const struct replica_setup *setup, int sig);

/* ---- the output (plan.c) ---- */

/* Remove what a plan mounts in the place of the model's folder. */
TY_NODISCARD ty_err plan_output_clear(const struct exec_plan *plan);

/* ---- a root with /gcs (root.c) ---- */

/* In a mount namespace of its own, whose mounts spread to no other: make a new root that has all of
 * the old one and `mounts`, and enter it; the working folder is "/" then. Returns 0, or an errno
 * and the namespace is as it was. */
int root_enter(const struct container_mount *mounts, size_t count);

/* ---- processes by their mark (sweep.c) ---- */

/* What every process of an attempt has in its environment: TRAINYARD_ATTEMPT=JOB/ATTEMPT/YARD. */
char *attempt_mark(struct ty_arena *a, const char *data_dir, int64_t job_id, int attempt);
/* The environment of a process as it was started, NUL-ended items; empty when it cannot be read. */
void environ_read(const char *pid, struct ty_buf *out);
/* Signal all processes with the mark (of one replica, unless it is NULL). Returns how many there
 * were. */
int sweep_signal(const char *mark, const struct exec_replica *replica, int sig);
/* One of them; 0: there is none. */
pid_t sweep_find(const char *mark, const struct exec_replica *replica);
/* Kill until none is left, or for limit_ms. */
void sweep_kill(const char *mark, const struct exec_replica *replica, int64_t limit_ms);

/* ---- the conductor (conductor.c, peers.c, output.c) ---- */

enum { CONDUCTOR_PEERS = 16 };

/* What a conductor keeps of its replicas' usage. */
struct conductor_usage {
    struct cgroup_place place;
    struct samples samples;
    int64_t next_ms;      /* when the next samples are due */
    int64_t inside_ms;    /* when to look at young containers again */
    bool failed;          /* samples could not be written; said once */
    struct exec_used sum; /* of all runs that have ended */
};

struct conductor {
    struct ty_arena arena;
    const char *data_dir; /* the caller's */
    int64_t job_id;
    int attempt;
    int dirfd, lock_fd, epoll_fd;
    struct journal journal;
    struct exec_plan plan;
    struct replica_setup setup;
    struct replica *replicas;
    size_t replica_count; /* started ones */
    bool preparing;       /* `replicas` is the preparation, alone */

    /* who is told, and who may cancel (peers.c) */
    struct source listener;
    struct source peers[CONDUCTOR_PEERS];
    bool cancel_asked;
    bool log_news;       /* lines were written that nobody was told of */
    int64_t log_told_ms; /* when they were told last */

    /* the log (output.c) */
    struct joblog_writer log;
    bool log_stuck;       /* it cannot be written: pipes are left alone until it can */
    int64_t log_retry_ms; /* when to try again */
    bool log_unsynced;
    int64_t log_sync_ms; /* when to sync */
    bool log_finished;   /* the last words are said */
    bool log_lost;       /* given up: what was not written is lost */

    /* how it goes (conductor.c) */
    bool running;
    int64_t begin_ms, running_ms; /* CLOCK_BOOTTIME */
    int64_t oom_kills;            /* /proc/vmstat, before */
    const char *outcome;          /* NULL: still going */
    bool retry;
    ty_err code;
    struct ty_buf message;
    int64_t kill_ms; /* SIGKILL is due; INT64_MAX: not, or done */
    int64_t gone_ms; /* when the last replica was gone; 0: not yet */
    struct conductor_usage usage;
};
/* Run an attempt. `peer_fd` is the connection of the server that asked for it. Returns the exit
 * status. */
int conductor_run(const char *data_dir, int64_t job_id, int attempt, int peer_fd);

/* Wait for `s` to be readable. */
void source_open(struct conductor *c, struct source *s);
void source_close(struct source *s);

TY_NODISCARD ty_err peers_listen(struct conductor *c);
void peers_add(struct conductor *c, int fd);
void peers_accept(struct conductor *c);
void peers_read(struct conductor *c, struct source *peer);
void peers_tell(struct conductor *c, char what);
void peers_tell_log(struct conductor *c, int64_t now_ms); /* at most every 50 ms */
int64_t peers_next_ms(const struct conductor *c);
void peers_close(struct conductor *c);

/* Where groups can be made, and when the first samples are due; before any replica. */
void usage_begin(struct conductor *c);
void usage_tick(struct conductor *c, int64_t now_ms);
int64_t usage_next_ms(const struct conductor *c);
/* A replica is gone: write its receipt and remove its group. */
void usage_note(struct conductor *c, struct replica *r);
void usage_say_provisioned(struct conductor *c);
void usage_say_used(struct conductor *c);
void usage_clear(struct conductor *c);

/* ---- replicas in containers (inside.c) ---- */

/* Find the container's group, if it is not known yet, and read what it uses now. */
void inside_look(struct conductor *c, struct replica *r);
/* That, often, for containers that have just been started. */
void inside_tick(struct conductor *c, int64_t now_ms);
int64_t inside_next_ms(const struct conductor *c);
const char *inside_method(const struct replica *r); /* "cgroup v1", ... or "not measured" */
/* How many processes were killed for memory, or at least 1; -1: not told. */
int64_t inside_oom_kills(const struct conductor *c, const struct replica *r);

/* Read what is in a pipe now, once. */
void output_read(struct conductor *c, struct stream *s);
/* The replica is gone: read all there is and close. Does nothing while the log is stuck. */
void output_drain(struct conductor *c, struct replica *r);
bool output_drained(const struct replica *r);
/* A line of our own. */
void output_say(struct conductor *c, const char *fmt, ...) TY_PRINTF(2, 3);
/* All is read: say, once, what was dropped. */
void output_finish(struct conductor *c);
void output_flush(struct conductor *c);
void output_tick(struct conductor *c, int64_t now_ms);
int64_t output_next_ms(const struct conductor *c);
/* Nothing waits any more: all is written, or given up. */
bool output_settled(const struct conductor *c);

#endif
