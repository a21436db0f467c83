/* ps_int.h -- what the files of ps share.
 *
 *   zmq.c      libzmq, loaded when it is needed; sockets with our settings
 *   layout.c   who has what
 *   frame.c    frames and what is in a push
 *   store.c    the log, the snapshot, and updates that go into both
 *   members.c  workers as a server sees them: alive, their clocks, the gate
 *   process.c  what is to be seen of a silent peer's process
 *   server.c   requests and answers; trace.c what tests read
 *   client.c   requests of a worker; beat.c its signs of life */
#ifndef TY_PS_INT_H
#define TY_PS_INT_H

#include "ps/ps.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

enum {
    PS_FIRST_TIMES = 3, /* replicas start one after another: the first wait may be longer */
    PS_STALL_MS = 1000, /* who has not looked for so long stood still itself: it blames nobody */
};

/* ---- zmq.c ---- */

#define ZMQ_FUNCTIONS(X)                                                                           \
    X(zmq_ctx_new)                                                                                 \
    X(zmq_ctx_term)                                                                                \
    X(zmq_socket)                                                                                  \
    X(zmq_close)                                                                                   \
    X(zmq_setsockopt)                                                                              \
    X(zmq_bind)                                                                                    \
    X(zmq_connect)                                                                                 \
    X(zmq_send)                                                                                    \
    X(zmq_msg_init)                                                                                \
    X(zmq_msg_recv)                                                                                \
    X(zmq_msg_data)                                                                                \
    X(zmq_msg_size)                                                                                \
    X(zmq_msg_more)                                                                                \
    X(zmq_msg_close)                                                                               \
    X(zmq_poll)                                                                                    \
    X(zmq_errno)                                                                                   \
    X(zmq_strerror)

struct zmq {
#define ZMQ_FIELD(name) __typeof__(name) *name;
    ZMQ_FUNCTIONS(ZMQ_FIELD)
#undef ZMQ_FIELD
};
/* The table, loaded once for the process and never unloaded. TY_FAILED_PRECONDITION. */
TY_NODISCARD ty_err zmq_load(const struct zmq **ret_zmq);
/* A ROUTER that listens at the address, or a DEALER that connects to it, with our settings. */
TY_NODISCARD ty_err zmq_open(const struct zmq *z, void *context, int type, const char *address,
                             void **ret_socket);

/* ---- frame.c ---- */

#define PS_KINDS(X)                                                                                \
    X(HELLO)   /* a worker comes: a = its run, b = steps; body: the process, as of PING, and the   \
                  settings */                                                                      \
    X(WELCOME) /* a = pushes of this worker, b = shared step */                                    \
    X(PING)    /* a, b = the process */                                                            \
    X(PONG)    /* the same */                                                                      \
    X(PULL)    /* a = version it has; body: wanted rows */                                         \
    X(VALUES)  /* a = version, b = shared step, c = its clock; body: numbers if newer, rows */     \
    X(HOLD)    /* not yet; body: what is waited for */                                             \
    X(PUSH)    /* c = its clock; body: rate scale, plain gradients, gradients of rows */           \
    X(DONE)    /* a = version, b = shared step, c = 1: too late, not applied */                    \
    X(TELL)    /* body: PS_WORDS numbers */                                                        \
    X(TOLD)    /* body: as many of each worker */                                                  \
    X(READ)    /* body: a piece */                                                                 \
    X(NUMBERS)                                                                                     \
    X(KEEP)                                                                                        \
    X(STOP)                                                                                        \
    X(BYE)                                                                                         \
    X(END)                                                                                         \
    X(FAILED)  /* body: why; it may be asked again */                                              \
    X(REFUSED) /* body: why; it may not */

enum ps_kind {
#define KIND(name) PS_##name,
    PS_KINDS(KIND)
#undef KIND
        PS_KIND_COUNT
};
enum { PS_OVER = 1, PS_ALL = 2, PS_GATE = 4, PS_IN_TURN = 8 }; /* flags */
enum { PS_HEADER_BYTES = 72, PS_HELLO_BYTES = 16 + 8 * PS_SETTINGS };
struct ps_frame {
    enum ps_kind kind;
    uint32_t worker, flags;
    uint64_t cluster, incarnation, sequence, a, b, c;
    ty_str body;
};
/* A frame begins with room for its header; ps_frame_end fills it in. */
void ps_frame_begin(struct ty_buf *b);
void ps_frame_end(struct ty_buf *b, const struct ps_frame *f);
/* TY_DATA_LOSS: no frame of ours, or torn. The body is a view. Trailing bytes are refused unless
 * ret_bytes, how long the frame is, is asked for. */
TY_NODISCARD ty_err ps_frame_read(ty_str bytes, struct ps_frame *ret_frame, size_t *ret_bytes);

/* One table's part of a pull (no gradient) or a push. */
struct ps_rows {
    size_t variable, count;
    const uint32_t *ids;
    const float *gradient;
};
struct ps_cursor {
    ty_str left;
};
void ps_rows_put(struct ty_buf *b, const struct ps_layout *l, size_t server, size_t variable,
                 const struct ps_part *part);
/* The next of a server's; TY_OUT_OF_RANGE at the end, TY_INVALID_ARGUMENT if it is not the
 * server's or no row of it. The bytes are aligned to 4. */
TY_NODISCARD ty_err ps_rows_next(const struct ps_layout *l, size_t server, bool gradients,
                                 struct ps_cursor *c, struct ps_rows *ret);

/* A piece of an array, of which a server sends one at a time. */
struct ps_piece {
    uint32_t variable, array;
    uint64_t from, count; /* numbers of a segment, or of the server's rows */
};
enum { PS_PIECE_BYTES = 24, PS_PIECE_FLOATS = 1 << 20 };
void ps_piece_put(struct ty_buf *b, const struct ps_piece *p);
/* Is it a piece of what the server has? */
TY_NODISCARD ty_err ps_piece_read(const struct ps_layout *l, size_t server, ty_str body,
                                  struct ps_piece *ret);
/* All pieces of a server, one after another; begin with {0}. False: there are no more. */
bool ps_piece_next(const struct ps_layout *l, size_t server, struct ps_piece *walk);
size_t ps_piece_floats(const struct ps_layout *l, const struct ps_piece *p);
/* Copy it from the arrays to `out`, or from `in` into them. */
void ps_piece_copy(const struct ps_layout *l, size_t server, const struct ps_piece *p, float *out,
                   const float *in);

/* ---- trace.c ---- */

TY_NODISCARD ty_err ps_trace_open(const char *path, int *ret_fd); /* NULL: fd -1 */
void ps_trace(int fd, const char *fmt, ...) TY_PRINTF(2, 3);      /* the members of an object */

/* ---- process.c ---- */

struct ps_process {
    uint64_t pid, room; /* room: where the pid means something; 0: unknown */
};
struct ps_process ps_process_self(void);
/* "stopped (SIGSTOP)", for a message; what it can be if it cannot be seen. */
const char *ps_process_state(const struct ps_process *p);

/* ---- members.c ---- */

/* What a server keeps of a worker; the first four survive it. */
struct ps_member {
    uint64_t incarnation, sequence; /* of its last push */
    uint64_t pushes, clock;
    bool known, live, begun; /* begun: it may push one more */
    uint64_t pulled;         /* sequence of the pull that it has begun with */
    int64_t heard_ms, told_ms;
    int64_t told[PS_WORDS];
    struct ps_process process;
    struct ps_held { /* a pull that must wait */
        bool waits;
        struct ps_frame frame; /* its body is in `bytes` */
        struct ty_buf bytes;
        unsigned char route[64];
        size_t route_bytes;
    } held;
};
struct ps_members {
    struct ps_member *list;
    const char *const *names;
    size_t count;
    int64_t staleness;
    uint64_t steps; /* of the run */
};
/* The least clock of the live ones, and whose it is; UINT64_MAX: nobody is alive. */
uint64_t ps_members_least(const struct ps_members *m, size_t *ret_who);
/* A sign of life: one that was not alive joins at the least clock. */
void ps_members_heard(struct ps_members *m, size_t worker, int64_t now_ms);
/* Who has been silent for too long leaves; its number, or SIZE_MAX. Call until there is none. */
size_t ps_members_silent(struct ps_members *m, int64_t now_ms);
/* The server itself stood still for so long. */
void ps_members_excuse(struct ps_members *m, int64_t ms);
/* One that only watches the run, the evaluator: nobody waits for it, but its silence is told. */
struct ps_watcher {
    bool live;
    int64_t heard_ms;
    struct ps_process process;
};
/* Is it to be told now, once? Not when no step is left: then it may have seen all it came for. */
bool ps_watcher_silent(struct ps_watcher *w, int64_t now_ms, bool over);
/* Are the last steps of the run being made? (M4) */
bool ps_members_in_turn(const struct ps_members *m, uint64_t version);
/* May it begin its step now? If not, *ret_who is waited for. */
bool ps_members_gate(const struct ps_members *m, size_t worker, uint64_t clock, uint64_t version,
                     size_t *ret_who);

/* ---- store.c ---- */

/* The state of a server: arrays, members, version; on disk as snapshot and log. */
struct ps_state {
    const struct ps_layout *layout;
    const struct ps_store *store;
    struct ps_members *members;
    size_t server;
    const char *dir;
    struct ty_arena arena;
    uint64_t run, version; /* version: updates applied */
    bool begun, over;      /* begun: the run is known */
    int lock_fd, log_fd, trace_fd;
    size_t log_bytes;
};
/* The folder is this process's as long as it lives (TY_FAILED_PRECONDITION: it is another's). Read
 * what there is: snapshot, then log up to the first torn frame, which is cut off. */
TY_NODISCARD ty_err ps_state_open(struct ps_state *s);
void ps_state_close(struct ps_state *s);
/* The first worker of a run came. TY_FAILED_PRECONDITION: the state is another run's. */
TY_NODISCARD ty_err ps_state_begin(struct ps_state *s, uint64_t run, uint64_t steps);
TY_NODISCARD ty_err ps_state_snapshot(struct ps_state *s);
/* A push, as its bytes came: logged, applied, counted; *ret_new false: it had been. */
TY_NODISCARD ty_err ps_state_push(struct ps_state *s, const struct ps_frame *f, ty_str bytes,
                                  bool *ret_new);
TY_NODISCARD ty_err ps_state_remove(struct ps_state *s);

/* ---- beat.c ---- */

struct ps_beat {
    const struct zmq *zmq;
    void *context;
    const char *const *addresses;
    size_t servers;
    struct ps_frame frame; /* what is sent */
    _Atomic uint64_t incarnation;
    _Atomic int64_t heard_ms[PS_MOST_SERVERS]; /* before the first time: when it was started */
    _Atomic bool heard[PS_MOST_SERVERS];
    _Atomic int64_t looked_ms; /* for answers; a process that stands still does not */
    _Atomic uint64_t pid[PS_MOST_SERVERS], room[PS_MOST_SERVERS]; /* of the servers' processes */
    _Atomic bool stop;
    _Atomic uint64_t bytes;
    pthread_t thread;
    bool running;
};
/* For how long a server has been silent, of the time that this process was there to hear it. */
int64_t ps_beat_silence(const struct ps_beat *b, size_t server);
TY_NODISCARD ty_err ps_beat_start(struct ps_beat *b);
void ps_beat_stop(struct ps_beat *b);

#endif
