/* vertex_int.h -- what the files of vertex share. */
#ifndef TY_VERTEX_INT_H
#define TY_VERTEX_INT_H

#include "vertex/vertex.h"

#define ROUTE(method, path, handler)                                                               \
    ty_err handler(struct http_request *req, struct http_response *res, void *ctx);
#include "vertex/routes.def"
#undef ROUTE

/* ---- messages.c: what we do with each field ---- */

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
extern const struct vertex_field vertex_fields[];           /* ends with {NULL} */
const char *vertex_treatment_name(enum vertex_treatment t); /* "honoured" */

/* Add a violation for each refused field the canonical job has. */
void vertex_job_refuse(const json_t *custom_job, struct wire_violations *v);

/* ---- validate.c: rules that tables cannot say ---- */

enum { VERTEX_BODY_BYTES = 1 << 20 }; /* largest stored job */

/* Give pools that leave replicaCount out their 1. */
void vertex_job_defaults(json_t *custom_job);
/* Where the job is to run. */
struct vertex_place {
    const struct ty_config *config;
    const struct machine_host *host;
    const char *data_dir;
};
/* Check a canonical job, defaults filled in. */
void vertex_job_validate(const struct vertex_place *place, const json_t *custom_job,
                         struct wire_violations *v);

/* ---- buckets.c: gs:// in a spec ---- */

/* The file of an object that is here; NULL after a violation that says what to do. */
const char *vertex_object_check(const struct vertex_place *place, ty_str uri, const char *field,
                                struct wire_violations *v);
/* May output go below this URI? Its bucket must be here. */
void vertex_output_check(const struct vertex_place *place, ty_str uri, const char *field,
                         struct wire_violations *v);

/* ---- machines.c ---- */

/* Are its machine types known, and does this machine have what the settings say it must? */
void vertex_machines_check(const struct vertex_place *place, const json_t *spec,
                           struct wire_violations *v);

/* ---- request.c: what handlers have in common ---- */

/* TY_INVALID_ARGUMENT with the google.rpc details of these violations; TY_OK if there are none. */
TY_NODISCARD ty_err vertex_violations_reply(const struct wire_violations *v,
                                            struct http_response *res);
/* The same for one field. */
TY_NODISCARD ty_err vertex_fail_field(struct http_request *req, struct http_response *res,
                                      const char *field, const char *fmt, ...) TY_PRINTF(4, 5);
/* Are captures 0 and 1 names of a project and a location? */
TY_NODISCARD ty_err vertex_parent_check(struct http_request *req, struct http_response *res);
/* The same, and the number in capture `n`, which the client calls `field`. */
TY_NODISCARD ty_err vertex_id_read(struct http_request *req, struct http_response *res, int n,
                                   const char *field, int64_t *ret_id);

/* pageSize and pageToken. A token is the id of the last row given, so paging needs no state here.
 */
struct vertex_page {
    size_t size;    /* 1 to 1000 */
    int64_t before; /* ids below this; 0: from the newest */
};
TY_NODISCARD ty_err vertex_page_read(struct http_request *req, struct http_response *res,
                                     struct vertex_page *ret_page);

/* ---- filter.c: list filters over jobs ---- */

/* *ret_filter is NULL when everything matches. */
TY_NODISCARD ty_err vertex_filter_read(struct http_request *req, struct http_response *res,
                                       struct wire_filter **ret_filter);
bool vertex_filter_matches(const struct wire_filter *f, const struct job *job);

/* ---- json.c ---- */

/* readMask: the top-level fields a reply keeps. */
struct vertex_mask {
    ty_str text; /* as sent; empty or "*": all */
};
TY_NODISCARD ty_err vertex_mask_read(struct http_request *req, struct http_response *res,
                                     struct vertex_mask *ret_mask);
/* vertex_job_json, reduced to the mask. */
void vertex_job_json_masked(struct ty_buf *b, const struct job *job,
                            const struct vertex_mask *mask);
void vertex_operation_json(struct ty_buf *b, const struct operation *op);
/* The resource name of a job: projects/P/locations/R/customJobs/ID. */
void vertex_job_name(struct ty_buf *b, const struct job *job);

#endif
