/* vertex_int.h -- what the files of vertex share. */
#ifndef TY_VERTEX_INT_H
#define TY_VERTEX_INT_H

#include "vertex/vertex.h"

#define ROUTE(method, path, handler)                                                               \
    ty_err handler(struct http_request *req, struct http_response *res, void *ctx);
#include "vertex/routes.def"
#undef ROUTE

/* ---- messages.c: what we do with each field ---- */

extern const struct vertex_field vertex_fields[]; /* ends with {NULL} */

/* ---- validate.c: rules that tables cannot say ---- */

enum { VERTEX_BODY_BYTES = 1 << 20 }; /* largest stored job */

/* Give pools that leave replicaCount out their 1. */
void vertex_job_defaults(json_t *custom_job);

/* ---- buckets.c: gs:// in a spec ---- */

/* The file of an object that is here; NULL after a violation that says what to do. */
const char *vertex_object_check(const struct vertex *vertex, ty_str uri, const char *field,
                                struct wire_violations *v);
/* ---- machines.c ---- */

/* Are its machine types known, and does this machine have what the settings say it must? */
void vertex_machines_check(const struct vertex *vertex, const json_t *spec,
                           struct wire_violations *v);

/* ---- request.c: what handlers have in common ---- */

/* Are captures 0 and 1 names of a project and a location? */
TY_NODISCARD ty_err vertex_parent_check(struct http_request *req, struct http_response *res);
/* The same, and the number in capture `n`, which the client calls `field`. */
TY_NODISCARD ty_err vertex_id_read(struct http_request *req, struct http_response *res, int n,
                                   const char *field, int64_t *ret_id);

/* ---- filter.c ---- */

extern const struct vertex_filter_words vertex_words; /* of custom jobs */

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
