/* server_int.h -- what the parts of the server share. */
#ifndef TY_SERVER_INT_H
#define TY_SERVER_INT_H

#include "auth/auth.h"
#include "cloudlog/cloudlog.h"
#include "gcs/gcs.h"
#include "http/http.h"
#include "identity/identity.h"
#include "machine/machine.h"
#include "sched/sched.h"
#include "store/store.h"
#include "vertex/vertex.h"

#include <pthread.h>

/* Attempts whose conductor was killed, to be cleared (ends.c). */
struct ends {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct ended *first;
    bool started, stop;
};

struct server {
    struct ty_arena arena; /* lives as long as the server; only used while it starts */
    struct ty_config config;
    struct machine_host host;
    char *data_dir;
    char *url;
    int lock_fd;
    struct auth_secret secret; /* of the replicas' tokens */
    struct store *store;
    struct objects *objects;
    struct http_router *router;
    struct http_server *http;
    struct sched *sched;
    pthread_mutex_t gate; /* guards `sched` being there */
    struct vertex vertex;
    struct cloudlog cloudlog;
    struct identity identity;
    struct gcs gcs;
    int64_t start_boot_ms;
    pthread_t orphans_thread;
    bool orphans_started;
    bool orphans_stop; /* atomic */
    struct ends ends;
};

/* /healthz and /metrics */
struct http_routes status_routes(struct server *s);
/* why a job waits, runs or has ended */
struct http_routes why_routes(struct server *s);
/* what a job's replicas use, and receipts */
struct http_routes usage_routes(struct server *s);

/* who a request with a replica's token is */
struct http_tokens replica_tokens(struct server *s);

/* gcs.may_change: only a job's chief writes its model (publish.c) */
ty_err publish_may(void *ctx, const struct http_request *req, ty_str bucket, ty_str name);

/* What a job's end leaves to do in the buckets; before the scheduler's start, and after its stop.
 */
TY_NODISCARD ty_err ends_start(struct server *s);
void ends_stop(struct server *s);
/* sched_setup.ended. Never blocks. */
void ends_add(void *arg, int64_t job_id, int lost_attempt);

/* Remove folders of deleted jobs that a crash has left, on a thread of its own. */
TY_NODISCARD ty_err orphans_remove_start(struct server *s);
void orphans_remove_stop(struct server *s);

/* On SIGSEGV and its like: say what it was and where, then die of it. */
void crash_handler_install(void);

#endif
