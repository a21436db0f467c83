/* ps.h -- parameter servers: who has which part of the variables, and how workers get and change
 * them at their own pace.
 *
 * Variables are cut over the servers (layout.c): the plain ones, laid end to end, into one range a
 * server of equal size; rows of tables by their number modulo the servers. A worker pulls the plain
 * ranges and the rows that its batch reads, computes, and pushes gradients; the server logs an
 * update before it applies and acknowledges it (store.c), so what was acknowledged survives the
 * death of the process, and a push that comes again is acknowledged again and not applied.
 *
 * ZeroMQ carries the frames (frame.c has the layout of the bytes) and hides what happens to
 * connections, so all that must be known is ours: each request has (worker, incarnation, sequence)
 * and is sent again until it is answered; both sides send signs of life twice a second; queues are
 * short and nothing lingers. A peer that is not heard of for PS_SILENT_MS is told by name, and for
 * how long it was waited for is told again until it is back or the wait is given up.
 *
 * Server 0 counts the shared step: its number of updates. It also is the gate (members.c): a worker
 * begins a step when no live one is more than `staleness` steps behind, and only as many begin as
 * steps are left.
 *
 * Where to start: ps_server_run and ps_client_pull. Who frees: ps_client_free; a server frees what
 * it made. Variables are the caller's and outlive both.
 * Threads: a client or server belongs to one thread; a client's signs of life are a thread of its
 * own. Errors: TY_UNAVAILABLE a peer is lost, TY_FAILED_PRECONDITION the replicas disagree or the
 * state on disk is another run's, TY_DATA_LOSS it is torn, TY_CANCELLED a signal.
 * One test: build/test_ps store/replays_what_was_acknowledged. */
#ifndef TY_PS_H
#define TY_PS_H

#include "base/base.h"

enum {
    PS_MOST_SERVERS = 256,
    PS_MOST_WORKERS = 1024,
    PS_MOST_VARIABLES = 1 << 16,
    PS_ARRAYS = 3,       /* of a variable: its values, then the optimizer's */
    PS_SILENT_MS = 4000, /* then a peer is told to be silent */
    PS_FRAME_BYTES = 1 << 30,
    PS_WORDS = 6, /* numbers that a worker tells of itself */
    PS_SETTINGS = 4,
};

/* What workers train. A server has no data and cannot know the number itself, but of some settings
 * it has its own, too. */
struct ps_run {
    uint64_t id, steps;
    uint64_t settings[PS_SETTINGS];
};

/* ---- layout ---- */

struct ps_variable {
    float *arrays[PS_ARRAYS]; /* NULL: it has no such */
    size_t count;             /* numbers of an array */
    size_t width;             /* of a table's row; 0: plain */
};
struct ps_layout {
    const struct ps_variable *variables;
    size_t variable_count, servers;
    size_t plain; /* numbers of all plain ones, end to end */
};
/* Numbers [from, from + count) of a plain variable. */
struct ps_segment {
    size_t variable, from, count;
};
void ps_layout_init(struct ps_layout *l, const struct ps_variable *variables, size_t count,
                    size_t servers);
/* How many plain numbers a server has. */
size_t ps_layout_plain(const struct ps_layout *l, size_t server);
/* The segments that make up its range, in order. Begin with {0}; false: there are no more. */
bool ps_layout_next(const struct ps_layout *l, size_t server, struct ps_segment *walk);
/* Rows of that table which the server has: server, server + servers, ... */
size_t ps_layout_rows(const struct ps_layout *l, size_t server, size_t variable);

/* ---- server ---- */

/* What applies updates. All are called by the server's thread. */
struct ps_store {
    void *ctx;
    void (*begin)(void *ctx, float scale); /* an update; `scale` multiplies learning rates */
    void (*plain)(void *ctx, const struct ps_segment *s, const float *gradient);
    void (*rows)(void *ctx, size_t variable, const uint32_t *ids, size_t count,
                 const float *gradient);
    void (*ready)(void *ctx, size_t variable, const uint32_t *ids, size_t count); /* to be read */
    void (*settle)(void *ctx); /* all rows are to be read */
    /* The arrays were read back as they were after so many updates, all rows up to date. `steps`:
     * of the run. */
    void (*restored)(void *ctx, uint64_t updates, uint64_t steps);
    /* The first worker came, of that run, and there is no state: TY_OK with *ret_updates (0: begin
     * anew), the arrays being set. */
    ty_err (*first)(void *ctx, uint64_t run, uint64_t steps, uint64_t *ret_updates);
};
struct ps_server_options {
    const char *name, *address; /* "ps 0", "127.0.0.1:20000" */
    size_t index;
    struct ps_layout layout;
    struct ps_store store;
    const char *const *workers; /* their names, by number */
    size_t worker_count;
    uint64_t cluster;
    uint64_t settings[PS_SETTINGS];   /* who has others is refused, */
    const char *const *setting_names; /* by name: "seed" */
    const char *dir;                  /* where the state is kept */
    const char *trace; /* a file that gets a line for each pull, push and change; NULL */
    int64_t staleness; /* steps; -1: any */
    int64_t give_up_ms;
    size_t log_bytes;                     /* then a snapshot is taken */
    const volatile sig_atomic_t *stopped; /* not 0: a signal came */
};
struct ps_traffic {
    uint64_t sent, received; /* bytes */
    uint64_t updates;
};
/* Serve until the chief says that all is over. */
TY_NODISCARD ty_err ps_server_run(const struct ps_server_options *o,
                                  struct ps_traffic *ret_traffic);

/* ---- client ---- */

struct ps_client;
struct ps_client_options {
    const char *name; /* "worker 1" */
    uint32_t worker;  /* its number; PS_MOST_WORKERS: no worker, only signs of life */
    const char *const *addresses;
    struct ps_layout layout;
    uint64_t cluster;
    bool bounded; /* is there a staleness? */
    int64_t give_up_ms;
    const char *trace; /* a file that gets a line for each acknowledged push; NULL */
    const volatile sig_atomic_t *stopped;
};
/* Signs of life are sent from now on; of the layout only the number of servers counts yet. */
TY_NODISCARD ty_err ps_client_new(const struct ps_client_options *o, struct ps_client **ret_client);
void ps_client_free(struct ps_client *c);
/* The longest time that a server has not been heard of, and which it is. */
int64_t ps_client_silence(struct ps_client *c, size_t *ret_server);

struct ps_joined {
    uint64_t step;   /* the shared one */
    uint64_t pushes; /* of this worker, all its incarnations together */
};
/* All workers must say the same of the run. */
TY_NODISCARD ty_err ps_client_join(struct ps_client *c, const struct ps_layout *l,
                                   const struct ps_run *run, struct ps_joined *ret_joined);
/* Rows of one table, or a plain variable's gradient. */
struct ps_part {
    const uint32_t *ids; /* each once */
    size_t count;
    const float *gradient; /* (count, width), or all of the plain variable */
};
/* Before a step: the plain variables, and these rows of tables (by variable), are brought up to
 * date. *ret_over: no step is left. */
TY_NODISCARD ty_err ps_client_pull(struct ps_client *c, const struct ps_part *parts,
                                   bool *ret_over);
/* After it. *ret_step: the shared step. */
TY_NODISCARD ty_err ps_client_push(struct ps_client *c, const struct ps_part *parts, float scale,
                                   uint64_t *ret_step);
/* Both: a step is pushed and the next one's values are pulled, without a bound in one message. The
 * push is acknowledged before the server looks at the pull. */
TY_NODISCARD ty_err ps_client_push_pull(struct ps_client *c, const struct ps_part *parts,
                                        float scale, const struct ps_part *next, uint64_t *ret_step,
                                        bool *ret_over);
/* All arrays of all variables. */
TY_NODISCARD ty_err ps_client_read(struct ps_client *c, uint64_t *ret_step);
/* How long this one has waited for other workers, so far. */
int64_t ps_client_held_ns(const struct ps_client *c);
/* Tell the first server `own`, PS_WORDS numbers of 8 bytes; `ret_all` (workers, PS_WORDS): what
 * each worker has told it last. Zeros: it has not, or is not there any more. */
TY_NODISCARD ty_err ps_client_tell(struct ps_client *c, const void *own, void *ret_all,
                                   size_t workers);
TY_NODISCARD ty_err ps_client_keep(struct ps_client *c); /* servers take a snapshot */
TY_NODISCARD ty_err ps_client_stop(struct ps_client *c); /* nobody begins another step */
TY_NODISCARD ty_err ps_client_bye(struct ps_client *c);  /* this worker leaves */
TY_NODISCARD ty_err ps_client_end(struct ps_client *c);  /* the servers end, without their state */
/* From now on a request takes so long at most, and no signal ends it. */
void ps_client_hurry(struct ps_client *c, int64_t most_ms);
void ps_client_traffic(const struct ps_client *c, struct ps_traffic *ret);

#endif
