/* http.h -- the HTTP server, its router, who the peer is, and our own client.
 *
 * Where to start: struct http_route (a handler and its path), http_server_start.
 * Who frees: a request's arena dies with the request; a handler allocates from
 * req->arena and appends to res->body and frees nothing.
 * Threads: handlers run on worker threads, one request each; they may block on
 * the database. The event loop never runs a handler, only an http_now. http_server_wake may be
 * called from any. Errors: a handler returns a ty_err; the server answers its HTTP status with a
 * google.rpc error body made of the thread's message.
 * One test: build/test_http router/captures. */
#ifndef TY_HTTP_H
#define TY_HTTP_H

#include "base/base.h"

enum http_method { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE, HTTP_HEAD };
enum { HTTP_MAX_CAPTURES = 8 };

struct http_param {
    ty_str name, value; /* decoded */
    struct http_param *next;
};

/* Who a request with a replica's token is from. */
struct http_replica {
    int64_t job; /* 0: no replica, but the user */
    int attempt, pool, index;
    ty_str project; /* the job's */
    ty_str token;   /* as sent; never logged */
};

struct http_request {
    enum http_method method;
    ty_str path;                       /* raw, as sent, without the query */
    ty_str capture[HTTP_MAX_CAPTURES]; /* decoded, in the order of the template */
    struct http_param *query;          /* decoded, in order */
    ty_str body;
    ty_str user_agent, content_type, authorization, host; /* empty when absent */
    struct http_param *headers;                           /* all of them, as sent, in order */
    /* Of a streamed body: the module's own, from the first piece on. When the request is over,
     * however it ends, `state_end` is called with it, on a worker. */
    void *state;
    void (*state_end)(void *state);
    struct ty_arena *arena;
    char id[17];       /* 16 hex digits; in every error body and log line */
    bool local_socket; /* came by the Unix socket */
    bool tls;
    bool foreign; /* not of our uid: only what http_tokens says about it counts */
    int fd;       /* the connection's, for http_request_peer */
    struct http_replica replica;
    int64_t waited_ms; /* how long it has been parked, over all runs; 0 the first time */
    int64_t park_ms;   /* see http_park */
    const struct http_route *route;
};
/* Who holds the other end of a request's connection: by TCP the inode of the socket, by the Unix
 * socket the process. The other one is 0. */
struct http_peer {
    uint64_t inode;
    pid_t pid;
};
/* Ask the kernel; tens of microseconds. False: it does not say, or the peer is gone. On a worker,
 * in a handler. */
bool http_request_peer(const struct http_request *req, struct http_peer *ret_peer);

/* First value of a query parameter (fooBar or foo_bar); empty when absent. */
ty_str http_query(const struct http_request *req, const char *name);
/* A query parameter that is a number; TY_INVALID_ARGUMENT naming it. Absent: `otherwise`. */
TY_NODISCARD ty_err http_query_i64(const struct http_request *req, const char *name,
                                   int64_t otherwise, int64_t *ret_value);

/* The first header of that name, in any case; empty when absent. */
ty_str http_header(const struct http_request *req, const char *name);

/* A body that is made while it is sent, so that it is never whole in memory. */
enum { HTTP_SOURCE_FAILED = -1, HTTP_SOURCE_WAIT = -2 };
struct http_source {
    int64_t size; /* -1: not known; sent in chunks */
    /* Put at most `max` bytes into buf; offsets follow each other. 0: the end. FAILED: close the
     * connection, so that the client sees a body cut short. Called on the event loop without
     * `wait`, when it must not block: WAIT has it called again, on a worker, with `wait`. */
    int64_t (*read)(void *arg, int64_t offset, char *buf, size_t max, bool wait);
    void (*close)(void *arg); /* once, after the last use, whatever became of the answer */
    void *arg;
    /* Set, with a size: the bytes are those of this file from `file_first` on, and the kernel may
     * move them to the client by itself, all but the last ones, which always come by `read`. Is the
     * file still what it was? Asked on a thread of the server's between two stretches; false closes
     * the connection. When `read` is called for the last ones, the client has taken all others. */
    bool (*same)(void *arg);
    int file;
    int64_t file_first;
};

struct http_response {
    int status;               /* 0 means 200 */
    const char *content_type; /* NULL means application/json; charset=UTF-8 */
    struct ty_buf body;       /* limit 64 MiB; empty with status 200 is sent as {} for JSON */
    ty_str error_details;     /* JSON array for error.details, used when the handler fails */
    const char *header_name, *header_value; /* one extra header, or NULL */
    struct http_param *headers;             /* more of them; see http_header_add */
    struct http_source source;              /* used instead of `body` when `read` is set */
};
/* One more header; replaces the server's own Cache-Control. Memory is the request's. An empty
 * value, or one with a control character, is left out. */
void http_header_add(struct http_request *req, struct http_response *res, const char *name,
                     ty_str value);

typedef ty_err (*http_handler)(struct http_request *req, struct http_response *res, void *ctx);

/* Template: literal segments, {name} for one segment (captured, decoded), and a final
 * :verb after the last segment.
 * "/v1/projects/{project}/locations/{location}/customJobs/{job}:cancel". A last segment {rest...}
 * captures all that is left, slashes included, raw. A capture never takes an empty segment. Literal
 * beats capture; a :verb route beats one without. */
struct http_route {
    enum http_method method;
    const char *path;
    http_handler handler;
};
/* Answer a GET at once, on the event loop: see struct http_routes. */
typedef bool (*http_now)(struct http_request *req, struct http_response *res, void *ctx);

/* A module's routes. With `prefixes` (NULL-ended: "/v1", "/v1beta1", "/ui") each path
 * is served under every prefix; without, as it stands. */
struct http_routes {
    const struct http_route *rows;
    size_t count;
    const char *const *prefixes;
    void *ctx; /* given to each handler */
    /* Set: a request's body is not collected but given to this in pieces (req->body), each on a
     * worker and in order; then the row's handler runs, with an empty body. What it returns other
     * than TY_OK is the answer (or, with `status` set, what it put into `res` is), and the rest of
     * the body is read and forgotten. Such a body may have any size. */
    http_handler body;
    /* Set: a GET of our own uid is given to this first, on the event loop, where nothing else is
     * answered meanwhile: it must not wait, for a disk, a database or a lock that is held across
     * either, and takes microseconds. False: it cannot be answered so; what it put into `res` is
     * forgotten (it holds no descriptor there), and the row's handler runs. req->replica is not
     * filled. req->route tells which row it is. */
    http_now now;
    bool last; /* only what no other table serves: does not count for 405 */
};

struct http_router; /* immutable once built; any thread */
TY_NODISCARD ty_err http_router_new(const struct http_routes *tables, size_t count,
                                    struct http_router **ret_router);
void http_router_free(struct http_router *r);
/* Find the route of a raw path and fill req->route, req->capture. TY_NOT_FOUND; or
 * TY_UNIMPLEMENTED when the path exists for other methods (the server answers 405). *ret_ctx is the
 * table's. */
TY_NODISCARD ty_err http_router_match(const struct http_router *r, struct http_request *req,
                                      http_handler *ret_handler, void **ret_ctx);

/* A request within `outer`: routed and run here and now, with its arena, headers and id; for
 * batches. Routes with a `body` are TY_INVALID_ARGUMENT; else what the handler returns. */
TY_NODISCARD ty_err http_router_call(const struct http_router *r, const struct http_request *outer,
                                     enum http_method method, ty_str target, ty_str body,
                                     struct http_response *res);

/* Answer later: `return http_park(req, ms);` from a handler sends nothing; the handler runs again
 * when http_server_wake is called or `ms` have passed (req->waited_ms tells). At most 256 requests
 * are parked; past that the handler is simply run again every second. */
ty_err http_park(struct http_request *req, int64_t ms);

struct http_stats {
    uint64_t requests, errors_4xx, errors_5xx, refused_peers, dropped_slow;
    uint64_t connections, parked;
};
struct http_server; /* thread-safe */

/* Tokens by which a replica is known whatever its uid (a container has users of its own), sent as
 * "Authorization: Bearer TOKEN" or "X-Trainyard-Token: TOKEN". What it may do from another uid: all
 * the user may, in the project of its job; a route with {project} for another one is
 * TY_PERMISSION_DENIED, and handlers that read a project elsewhere ask http_request_may. From our
 * own uid it is the user as ever, and req->replica says besides who it is. */
struct http_tokens {
    /* Did we make it? From the event thread: no I/O. */
    bool (*made)(void *ctx, ty_str token);
    /* Whose is it? TY_PERMISSION_DENIED: nobody's any more. From a worker; may block. */
    ty_err (*live)(void *ctx, struct ty_arena *a, ty_str token, struct http_replica *ret_replica);
    void *ctx;
};
/* TY_PERMISSION_DENIED, if a replica from another uid asks for what is not its project's. */
TY_NODISCARD ty_err http_request_may(const struct http_request *req, ty_str project);

/* Listen on config->listen (which must be loopback: 127.0.0.1 and [::1] both serve the port; port 0
 * picks one) and on the Unix socket `socket_path` (0600; an old file is replaced). Only peers of
 * our own uid get an answer, and replicas by `tokens` (NULL: none); all others are closed without a
 * byte. The address in use: TY_ALREADY_EXISTS. Loads libmicrohttpd at the call
 * (TY_FAILED_PRECONDITION if missing). */
TY_NODISCARD ty_err http_server_start(const struct ty_config *config, const char *socket_path,
                                      const struct http_router *router,
                                      const struct http_tokens *tokens,
                                      struct http_server **ret_server);
/* Speak TLS too, on the same TCP port: a connection whose first byte is a TLS record's. Both texts
 * are PEM and copied. The TLS side is started at the first such connection. Once, at start. */
void http_server_tls(struct http_server *s, ty_str certificate, ty_str key);
int http_server_port(const struct http_server *s);
void http_server_wake(struct http_server *s);
void http_server_stats(struct http_server *s, struct http_stats *ret_stats);
void http_server_stop(struct http_server *s); /* finishes running requests, closes, frees */

/* ---- who the peer is ---- */

/* TY_OK only if the other end of the accepted TCP socket `fd` is a live socket of user `uid`
 * on this machine: sock_diag by the exact 4-tuple, inode not 0. Anything else:
 * TY_PERMISSION_DENIED. */
TY_NODISCARD ty_err http_peer_check(int fd, uid_t uid);
/* TY_FAILED_PRECONDITION where neither sock_diag nor /proc/net/tcp can answer. Call at start. */
TY_NODISCARD ty_err http_peer_init(void);
/* Which of the two is used: "sock_diag" or "/proc/net/tcp". For doctor. */
const char *http_peer_method(void);

/* ---- the client: one request at a time, plain HTTP/1.1, loopback or Unix socket ---- */

struct http_client {
    char *socket_path; /* used when not NULL */
    char *host;        /* "127.0.0.1:7575" */
    const char *token; /* sent as a bearer token over TCP when not NULL; the caller's */
    int fd;            /* kept alive between requests; -1 */
    struct ty_buf in;
};
struct http_reply {
    int status;
    ty_str body;                /* in the caller's arena */
    struct http_param *headers; /* only of http_client_exchange; in the caller's arena */
};
/* A call with headers of its own and bodies that are never whole in memory. */
struct http_exchange {
    enum http_method method;
    const char *target;
    const char *headers; /* whole lines "Name: value\r\n", or NULL */
    ty_str body;
    /* Set: the request's body instead, `body_bytes` long. Each call puts at least one byte. */
    ty_err (*read)(void *arg, char *buf, size_t max, size_t *ret_len);
    int64_t body_bytes;
    /* Set: gets the body of an answer 200 or 206, of any size; others are in the reply. */
    ty_err (*sink)(void *arg, ty_str bytes);
    void *arg;
    int64_t idle_ms; /* how long nothing may move */
};
/* `url` is http://HOST:PORT or unix:/path. Other schemes and non-loopback hosts:
 * TY_INVALID_ARGUMENT. */
TY_NODISCARD ty_err http_client_open(struct http_client *c, const char *url);
void http_client_close(struct http_client *c);
/* TY_UNAVAILABLE when there is no server or it went away (then nothing is known about a POST). Any
 * HTTP status is TY_OK. Waits at most timeout_ms (TY_DEADLINE_EXCEEDED). Replies over 64 MiB:
 * TY_RESOURCE_EXHAUSTED. */
TY_NODISCARD ty_err http_client_call(struct http_client *c, struct ty_arena *a,
                                     enum http_method method, const char *target, ty_str body,
                                     int64_t timeout_ms, struct http_reply *ret_reply);
/* The same for an exchange. What `read` and `sink` return other than TY_OK ends it and is returned.
 */
TY_NODISCARD ty_err http_client_exchange(struct http_client *c, struct ty_arena *a,
                                         const struct http_exchange *x,
                                         struct http_reply *ret_reply);
/* The first header of that name in an exchange's reply, in any case; empty when absent. */
ty_str http_reply_header(const struct http_reply *reply, const char *name);
/* The error in a reply of status >= 400, as a ty_err with the server's own message. */
TY_NODISCARD ty_err http_reply_fail(const struct http_reply *reply);

#endif
