/* vertex.h -- Vertex AI's REST API: custom jobs and operations.
 *
 * Where to start: routes.def (one row a route), messages.c (what a request may contain, field by
 * field, and what we do with it). Who frees: requests own everything. Threads: handlers run on the
 * server's workers. Errors: google.rpc codes, with field violations. docs/compat.md has a row for
 * each field; a test holds it and messages.c together. One test: build/test_vertex_create
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

/* ---- for ml, the older API, whose jobs are the same rows ---- */

enum vertex_treatment {
    VERTEX_HONOURED,
    VERTEX_RECORDED, /* accepted, returned, named in one warning line of the job's log */
    VERTEX_REFUSED,  /* a violation, with the sentence in `why` */
    VERTEX_OUTPUT,   /* set by the server; dropped when a client sends it */
};
struct vertex_field {
    const char *path; /* "jobSpec.workerPoolSpecs[].replicaCount"; stands for all below it too */
    enum vertex_treatment treatment;
    const char *why; /* VERTEX_REFUSED only */
};
const char *vertex_treatment_name(enum vertex_treatment t); /* "honoured" */
/* By a table that ends with {NULL}: a violation for each refused field the canonical message has;
 * the warning about those that are recorded. */
void vertex_fields_refuse(const struct vertex_field *table, const json_t *message,
                          struct wire_violations *v);
void vertex_fields_warn(const struct vertex_field *table, const json_t *message, struct ty_buf *b);

/* Check a canonical CustomJob, defaults filled in, against all rules but those of its tables. */
void vertex_job_validate(const struct vertex *vertex, const json_t *custom_job,
                         struct wire_violations *v);
/* May output go below this URI? Its bucket must be here. */
void vertex_output_check(const struct vertex *vertex, ty_str uri, const char *field,
                         struct wire_violations *v);
/* Commit a checked job and tell the scheduler. The caller fills project, region, ml_id, ml_input;
 * the rest comes from the CustomJob. */
TY_NODISCARD ty_err vertex_job_accept(struct vertex *v, struct ty_arena *a,
                                      const json_t *custom_job, struct job *job);
/* A value as it is stored: compact, in the arena; empty for NULL. */
ty_str vertex_json_text(struct ty_arena *a, const json_t *value);

/* TY_INVALID_ARGUMENT with the google.rpc details of these violations; TY_OK if there are none. */
TY_NODISCARD ty_err vertex_violations_reply(const struct wire_violations *v,
                                            struct http_response *res);
/* The same for one field. */
TY_NODISCARD ty_err vertex_fail_field(struct http_request *req, struct http_response *res,
                                      const char *field, const char *fmt, ...) TY_PRINTF(4, 5);
/* Is capture 0 the name of a project? */
TY_NODISCARD ty_err vertex_project_check(struct http_request *req, struct http_response *res);
/* pageSize and pageToken. A token is the id of the last row given, so paging needs no state here.
 */
struct vertex_page {
    size_t size;    /* 1 to 1000 */
    int64_t before; /* ids below this; 0: from the newest */
};
TY_NODISCARD ty_err vertex_page_read(struct http_request *req, struct http_response *res,
                                     struct vertex_page *ret_page);
/* Could a region be called that? */
bool vertex_location_is_valid(ty_str name);
void vertex_labels_check(const json_t *labels, struct wire_violations *v);

/* List filters over jobs, in the words of an API: the members that are text, and states. */
struct vertex_filter_words {
    const char *texts[3]; /* NULL-ended, camelCase */
    ty_str (*text)(struct ty_arena *a, const struct job *job, const char *name);
    const char *(*state)(const struct job *job);
    bool (*state_is_known)(ty_str name);
    const char *state_example;
};
/* *ret_filter is NULL when everything matches. */
TY_NODISCARD ty_err vertex_filter_read(struct http_request *req, struct http_response *res,
                                       const struct vertex_filter_words *words,
                                       struct wire_filter **ret_filter);
bool vertex_filter_matches(const struct wire_filter *f, const struct vertex_filter_words *words,
                           const struct job *job);
enum { VERTEX_PAGE_BYTES = 4 << 20 }; /* a page is full at this size too, whatever was asked for */

#endif
