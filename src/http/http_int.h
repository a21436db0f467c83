/* http_int.h -- what http's own files share.
 *
 * Threads of a server, and what each may touch:
 *   event thread   accepts, asks who the peer is, ends what is overdue (event.c, foreign.c)
 *   MHD's threads  parse requests and send answers; run the callbacks of request.c. A connection
 *                  has the same one all its life: below, "MHD's thread" is that one
 *   workers        route and run handlers (worker.c)
 *   senders        write large files to their clients (sender.c)
 * An exchange (one request and its answer) belongs to MHD's thread, except from
 * MHD_suspend_connection to MHD_resume_connection, when it belongs to the worker queue or a sender.
 * conn_lock guards the connection list, its phases and the counters; work_lock the
 * queue and the parked list, send_lock what is being sent. None is held while taking the other or
 * across I/O that can wait. */
#ifndef TY_HTTP_INT_H
#define TY_HTTP_INT_H

#include "http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    HTTP_URI_BYTES = 32 * 1024,
    HTTP_RESPONSE_BYTES = 64 * 1024 * 1024,
    HTTP_BUFFERED_BYTES = 256 * 1024 * 1024, /* request bodies held at once, all connections */
    HTTP_MAX_PARAMS = 256,
    HTTP_MAX_PARKED = 256,
    HTTP_MAX_LINGER = 64,
    HTTP_RATE_GRACE_MS = 20000, /* a body or answer may take this long, */
    HTTP_RATE_BYTES_MS = 64,    /* and a millisecond more for each 64 bytes (64 KB/s) */
    HTTP_STACK_BYTES = 256 * 1024,
    HTTP_STREAM_BYTES = 6 * 1024 * 1024, /* streamed bodies share this twice over, */
    HTTP_STREAM_LEAST = 32 * 1024,       /* each getting at least this */
    HTTP_STREAM_MOST = 256 * 1024,       /* and at most this */
    HTTP_DISCARD_BYTES =
        256 * 1024 * 1024,               /* of a refused body, read so that the answer is heard */
    HTTP_SOURCE_BYTES = 64 * 1024,       /* piece of an answer that is made while it is sent */
    HTTP_SENDER_LEAST = 4 * 1024 * 1024, /* answers of files from this size on have a sender */
    HTTP_SENDERS = 4,
    HTTP_LOOPS = 2,          /* MHD's threads, for each of plain and TLS */
    HTTP_MAX_STRANGERS = 32, /* connections of other uids that have not shown a token yet, */
    HTTP_STRANGER_BYTES = 16 * 1024, /* how long their headers may be, */
    HTTP_STRANGER_MS = 2000,         /* and take */
    HTTP_MAX_FOREIGN = 256,          /* connections of other uids that have */
    HTTP_TLS_HANDSHAKE = 22,         /* first byte of a client that speaks TLS */
};

/* ---- libmicrohttpd, loaded at the first server ---- */

#define MHD_FUNCTIONS(X)                                                                           \
    X(MHD_start_daemon)                                                                            \
    X(MHD_stop_daemon)                                                                             \
    X(MHD_add_connection)                                                                          \
    X(MHD_get_connection_info)                                                                     \
    X(MHD_get_connection_values)                                                                   \
    X(MHD_suspend_connection)                                                                      \
    X(MHD_resume_connection)                                                                       \
    X(MHD_create_response_from_buffer)                                                             \
    X(MHD_create_response_from_callback)                                                           \
    X(MHD_set_response_options)                                                                    \
    X(MHD_add_response_header)                                                                     \
    X(MHD_queue_response)                                                                          \
    X(MHD_destroy_response)

struct mhd {
#define MHD_FIELD(name) __typeof__(name) *name;
    MHD_FUNCTIONS(MHD_FIELD)
#undef MHD_FIELD
};
/* The table, loaded once for the process and never unloaded. TY_FAILED_PRECONDITION. */
TY_NODISCARD ty_err mhd_load(const struct mhd **ret_mhd);

/* ---- router ---- */

/* Fill `b` with the methods that `path` has, "GET, HEAD, POST"; empty if it has none. */
struct router_match {
    http_handler handler, body; /* body, now: see struct http_routes */
    http_now now;
    void *ctx;
};
TY_NODISCARD ty_err router_find(const struct http_router *r, struct http_request *req,
                                struct router_match *ret_match);
bool router_streams(const struct http_router *r); /* has it routes with a `body`? */
bool router_nows(const struct http_router *r);    /* with a `now`? */
void router_allow(const struct http_router *r, ty_str path, struct ty_buf *b);
const char *method_name(enum http_method m);
/* False for a method that we do not know. */
bool method_parse(const char *name, enum http_method *ret_method);

/* ---- request targets (target.c): bytes a client chose ---- */

/* Split "/path?query" into req->path and req->query, all from req->arena. */
TY_NODISCARD ty_err target_parse(struct http_request *req, ty_str target);
/* If the target is one for a proxy, take "http://HOST" off it: *ret_host is then whom it is for,
 * without a region before it. */
bool target_host_take(ty_str *target, ty_str *ret_host);

/* ---- who the peer is ---- */

/* Belongs to one thread. */
struct peer {
    int netlink; /* -1 where /proc/net/tcp is used */
    uint32_t seq;
};
enum peer_method { PEER_NONE, PEER_SOCK_DIAG, PEER_PROC };
TY_NODISCARD ty_err peer_open(struct peer *p, enum peer_method method);
void peer_close(struct peer *p);
TY_NODISCARD ty_err peer_check(struct peer *p, int fd, uid_t uid);
/* How many bytes the other end of a TCP connection has received and not yet read. False where that
 * cannot be known. */
bool peer_unread(struct peer *p, int fd, uint32_t *ret_bytes);
enum peer_method peer_method_chosen(void); /* after http_peer_init */

/* ---- Unix sockets whose path may be longer than sun_path ---- */

/* Fill *ret_addr for `path`. Where it is too long, *ret_dirfd is a folder that must stay open
 * during bind or connect (the address goes through /proc/self/fd); else -1. */
TY_NODISCARD ty_err unix_address(const char *path, struct sockaddr_un *ret_addr, int *ret_dirfd);

/* ---- connections ---- */

enum conn_phase { CONN_HEADERS, CONN_BODY, CONN_WORK, CONN_SEND, CONN_IDLE };

struct conn {
    int fd; /* MHD's; valid while this is in the list */
    bool local;
    bool tls;
    bool foreign; /* not of our uid: each request on it needs a token */
    bool dropped; /* shut down by the sweep; MHD will notice */
    bool begun;   /* a request line has been read on it */
    bool ended;   /* the last sweep saw the client's end in this phase */
    enum conn_phase phase;
    int64_t deadline_ms; /* 0: none */
    struct conn *prev, *next;
};

enum exchange_step { STEP_HEADERS, STEP_BODY, STEP_WORK, STEP_ANSWER };
/* What a worker is to do with a queued exchange. */
enum exchange_task { TASK_HANDLE, TASK_BODY, TASK_FETCH };

/* A body that goes to its handler in pieces (stream.c). MHD's thread fills one buffer while a
 * worker empties the other. */
struct stream {
    http_handler handler; /* NULL: the body is collected */
    pthread_mutex_t lock; /* guards all below but `piece` and `since_ms` */
    struct ty_buf filling;
    bool working; /* the exchange is queued or with a worker */
    bool waiting; /* no room: the connection is suspended */
    bool ended;   /* the last byte has come */
    bool failed;  /* the answer is made; what comes is forgotten */
    bool gone;    /* the client has left: the worker frees the exchange */
    int64_t total;
    struct ty_buf piece; /* the worker's */
    int64_t since_ms;    /* start of the wait */
};

/* The part of an answer that a sender writes (sender.c). */
struct transfer {
    int64_t share, sent; /* bytes; share 0: MHD sends all of it */
    int64_t pages_end;   /* of the share, what goes by sendfile */
    bool begun, failed;
    bool draining; /* waits for look_ms; under send_lock */
    int64_t look_ms, drain_ms;
};

struct exchange {
    struct http_request req;
    struct http_response res;
    struct ty_arena arena;
    struct ty_buf body;
    ty_str target;  /* as sent, but for a proxy's host */
    ty_str proxied; /* that host: it counts, not the Host header. Empty: none was in it */
    ty_str token;   /* as sent; empty: none */
    struct http_server *server;
    struct conn *conn;
    struct MHD_Connection *mhd;
    enum exchange_step step;
    bool known_method, has_body, close_after;
    bool routed;        /* by its headers, for a body in pieces */
    bool admitted;      /* a worker has found that the peer may ask this */
    bool unanswered;    /* close without a byte */
    const char *method; /* as sent */
    const char *allow;  /* for 405; NULL */
    http_handler handler;
    void *ctx;
    int64_t body_start_ms;
    int64_t first_parked_ms, wake_ms;
    bool timer_only; /* one parked too many: not woken, only timed */
    enum exchange_task task;
    struct stream stream;
    struct ty_buf fetched; /* of an answer's source, by a worker */
    size_t fetched_used;
    int64_t fetch_offset, fetch_result;
    int64_t send_start_ms;
    struct transfer transfer;
    struct exchange *prev, *next;
};

struct exchange_list {
    struct exchange *first, *last;
    size_t count;
};

/* A descriptor the event thread waits for. */
enum source_kind {
    SOURCE_KICK,
    SOURCE_TCP,
    SOURCE_UNIX,
    SOURCE_LINGER,
    SOURCE_FIRST,
    SOURCE_STRANGER
};
struct source {
    enum source_kind kind;
    int fd;
    int64_t deadline_ms;          /* SOURCE_LINGER, SOURCE_FIRST, SOURCE_STRANGER */
    struct sockaddr_storage addr; /* SOURCE_FIRST: the peer's */
    socklen_t addr_len;
    struct source *next;
};

struct http_server {
    const struct mhd *mhd;
    struct MHD_Daemon *daemon;
    char *tls_certificate, *tls_key; /* NULL: plain only. Set before `tls_ready` */
    atomic_bool tls_ready;
    _Atomic(struct MHD_Daemon *) tls_daemon; /* made by the event thread; NULL until then */
    struct source *first_wanted;             /* connections whose first byte has not come */
    const struct http_router *router;
    struct http_tokens tokens; /* made is NULL: there are none */
    char *socket_path;
    int port;
    int64_t request_bytes, header_timeout_ms, idle_timeout_ms;

    int epoll, spare_fd;
    struct source kick, tcp4, tcp6, local;
    struct peer peer;                            /* event thread only */
    struct source strangers[HTTP_MAX_STRANGERS]; /* event thread only; fd -1: free */
    pthread_t event_thread;
    bool event_running;
    atomic_bool event_stop;

    pthread_mutex_t conn_lock;
    struct conn *conns;
    struct source *lingering;
    size_t linger_count;
    int handed[HTTP_MAX_FOREIGN]; /* descriptors of other uids that MHD has; -1: free */
    struct http_stats stats;

    pthread_mutex_t work_lock;
    pthread_cond_t work_ready;
    struct exchange_list queue, parked;
    size_t wakeable; /* parked ones that a wake reaches */
    uint64_t wakes;
    bool stopping;
    pthread_t *workers;
    size_t worker_count;

    int send_epoll, send_stop_fd;
    pthread_mutex_t send_lock;
    struct exchange_list sending;
    bool send_stopping;
    pthread_t senders[HTTP_SENDERS];
    size_t sender_count;

    atomic_size_t buffered;
    atomic_size_t streams; /* streamed bodies on their way in */
    atomic_size_t live;    /* connections given to MHD and not yet closed */
    size_t connection_limit;
};

/* server.c */
TY_NODISCARD ty_err daemon_start(struct http_server *s, bool tls, struct MHD_Daemon **ret_daemon);

/* first.c: plain or TLS, by the first byte; all on the event thread */
/* Give an accepted connection to the side that speaks its language, now or when its first byte is
 * there. */
void first_accept(struct http_server *s, int fd, const struct sockaddr_storage *addr,
                  socklen_t len);
void first_ready(struct http_server *s, struct source *src);
/* Close those that are overdue; returns ms until the next look, -1 if none waits. */
int64_t first_sweep(struct http_server *s, int64_t now_ms);
void first_clear(struct http_server *s);

/* event.c */
TY_NODISCARD ty_err event_start(struct http_server *s);
void event_stop(struct http_server *s);
void event_kick(struct http_server *s);
/* Keep a copy of `fd` open and read what still comes for a few seconds, so that closing
 * does not reset the connection before the client has read its answer. */
void event_linger(struct http_server *s, int fd);
void conn_phase_set(struct http_server *s, struct conn *c, enum conn_phase phase,
                    int64_t deadline_ms);
/* Give an accepted connection to MHD. False: one too many; it is closed. */
bool event_add_connection(struct http_server *s, int fd, const struct sockaddr *addr,
                          socklen_t len);
/* The same for one of another uid that has introduced itself: TLS may follow. */
bool event_add_introduced(struct http_server *s, int fd, const struct sockaddr_storage *addr,
                          socklen_t len);

/* foreign.c */
/* An accepted connection of another uid, or of nobody knows whom. Event thread, as all up to: */
void foreign_accept(struct http_server *s, int fd);
void foreign_look(struct http_server *s, struct source *src, uint32_t events);
/* Close who has waited too long; returns ms until the next, -1 if none. */
int64_t foreign_sweep(struct http_server *s, int64_t now_ms);
/* MHD's thread: was this one handed over as foreign; it is closed; a request has been refused. */
bool foreign_is(struct http_server *s, int fd);
void foreign_closed(struct http_server *s, int fd);
void foreign_refused(struct http_server *s);
/* Workers: fill req->replica by the request's token. False: it must not be answered. */
bool foreign_identify(struct exchange *x);
/* TY_PERMISSION_DENIED, if the route is for a project that the replica has no part in. */
TY_NODISCARD ty_err foreign_route_check(const struct http_request *req);
/* How long is the introduction that a connection begins with (foreign.c)? 0: there is none, or not
 * all of it. */
size_t introduction_bytes(ty_str head);
/* The token of an Authorization header; empty when it has none. */
ty_str bearer_token(ty_str authorization);
/* The token in the headers of a request, empty when they have none. False: they are not complete.
 * Bytes a stranger chose. */
bool head_token(ty_str head, ty_str *ret_token);

/* request.c: MHD's callbacks */
void *request_begin(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result request_access(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *size, void **state);
void request_completed(void *cls, struct MHD_Connection *mhd, void **state,
                       enum MHD_RequestTerminationCode code);
void exchange_free(struct exchange *x);
/* Send the refusal that was made. In the middle of a body MHD takes no response, so it is written
 * past it. */
enum MHD_Result refuse_now(struct exchange *x);
void request_connection(void *cls, struct MHD_Connection *mhd, void **state,
                        enum MHD_ConnectionNotificationCode code);

/* answer.c */
/* Make x's answer the google.rpc error of `err` and this thread's message. */
void answer_error(struct exchange *x, int status, ty_err err);
/* A whole HTTP response written past MHD, for when it does not take one (in the middle of a body).
 */
void answer_raw(struct exchange *x, int fd);
enum MHD_Result answer_queue(struct exchange *x);

/* stream.c: bodies in pieces. The first three run on MHD's thread. */
void stream_begin(struct exchange *x, http_handler handler);
enum MHD_Result stream_add(struct exchange *x, const char *data, size_t *size);
enum MHD_Result stream_finish(struct exchange *x);
/* The request is over. False: a worker still has it and will free it. */
bool stream_release(struct exchange *x);
/* On a worker: hand over what has come. True: all of it has; the caller runs the handler, unless
 * the answer is made (stream.failed). False: x is no longer the caller's. */
bool stream_work(struct exchange *x);
void stream_state_end(struct exchange *x);

/* source.c: answers made while they are sent */
struct MHD_Response *source_response(struct exchange *x);
void source_work(struct exchange *x); /* on a worker: the next piece */
void source_end(struct exchange *x);

/* sender.c: large files, written past MHD */
/* How much of x's answer a sender writes: 0, or all but the end. */
int64_t sender_share(const struct exchange *x);
/* MHD's thread; x is suspended. It is resumed when the share is sent, or `failed`. False: the
 * caller keeps it. */
bool sender_submit(struct http_server *s, struct exchange *x);
TY_NODISCARD ty_err sender_start(struct http_server *s);
void sender_stop(struct http_server *s); /* what is being sent fails */

/* worker.c */
void exchange_list_add(struct exchange_list *l, struct exchange *x);
void exchange_list_remove(struct exchange_list *l, struct exchange *x);
/* On a worker: who asks, what, and may it? False: the answer is made, or there is to be none
 * (`unanswered`). */
bool exchange_admit(struct exchange *x);
/* On MHD's thread: is the answer to be had at once? Then it is made. */
bool exchange_now(struct exchange *x);
TY_NODISCARD ty_err worker_start(struct http_server *s, size_t count);
void worker_stop(struct http_server *s); /* answers what is queued or parked, then joins */
/* False when the server is stopping: the caller keeps the exchange. */
bool worker_submit(struct http_server *s, struct exchange *x);
/* Queue what has been parked long enough; returns ms until the next, -1 if none. */
int64_t worker_tick(struct http_server *s, int64_t now_ms);
/* A thread with a small stack and all signals blocked. */
TY_NODISCARD ty_err thread_start(pthread_t *ret_thread, void *(*fn)(void *), void *arg);

/* ---- the client's reply parser ---- */

enum reply_state {
    REPLY_STATUS,
    REPLY_HEADERS,
    REPLY_LENGTH,
    REPLY_CHUNK_SIZE,
    REPLY_CHUNK_DATA,
    REPLY_CHUNK_END,
    REPLY_TRAILERS,
    REPLY_UNTIL_EOF,
    REPLY_DONE,
};
struct reply_parser {
    enum reply_state state;
    bool head;       /* the answer to a HEAD: no body */
    bool keep_alive; /* valid once done */
    bool chunked, has_length;
    int status;
    size_t left;        /* bytes of the body or chunk still to come */
    size_t head_bytes;  /* of status line, headers and trailers so far */
    struct ty_buf body; /* limit HTTP_RESPONSE_BYTES */
    /* May be set: headers are told; the body of 200 and 206 goes to `sink`, without a limit. */
    void (*header)(void *arg, ty_str name, ty_str value);
    ty_err (*sink)(void *arg, ty_str bytes);
    void *header_arg, *sink_arg;
};
void reply_parser_init(struct reply_parser *p, bool head);
void reply_parser_clear(struct reply_parser *p);
/* Take what can be taken from `bytes`; the rest is fed again with more behind it. Bytes after the
 * reply are left. TY_DATA_LOSS when it is not HTTP/1.x; TY_RESOURCE_EXHAUSTED past a ceiling. */
TY_NODISCARD ty_err reply_parser_feed(struct reply_parser *p, ty_str bytes, size_t *ret_used);
/* The connection ended: fine if the reply was complete or had no stated length. */
TY_NODISCARD ty_err reply_parser_eof(struct reply_parser *p);

#endif
