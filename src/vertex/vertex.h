/* vertex.h -- Vertex AI's REST API: custom jobs and operations.
 *
 * Where to start: routes.def (one row a route), messages.c (what a request may contain, field by
 * field, and what we do with it). Who frees: requests own everything. Threads: handlers run on the
 * server's workers. Errors: google.rpc codes, with field violations. docs/compat.md has a row for
 * each field; a test holds it and messages.c together. One test: build/test_vertex
 * create/unknown_field_is_named. */
#ifndef TY_VERTEX_H
#define TY_VERTEX_H

#include "base/base.h"
#include "http/http.h"
#include "sched/sched.h"
#include "store/store.h"
#include "wire/wire.h"

/* What handlers work with; outlives the server. */
struct vertex {
    const struct ty_config *config;
    const struct machine_host *host;
    struct store *store;
    void (*notify)(void *arg, int64_t job_id); /* tells the scheduler */
    void *notify_arg;
    const char *data_dir;
};
/* The table for http_router_new, served under /v1, /v1beta1 and /ui. */
struct http_routes vertex_routes(struct vertex *v);

/* The CustomJob message, for clients and tests. */
extern const struct wire_message vertex_custom_job;

/* Append the CustomJob as JSON. */
void vertex_job_json(struct ty_buf *b, const struct job *job);

/* Warnings about what a canonical job asks for and we only record: one sentence a line, for the
 * job's log. Empty: none. */
void vertex_job_warnings(const json_t *custom_job, struct ty_buf *b);

#endif
