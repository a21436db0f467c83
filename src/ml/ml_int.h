/* ml_int.h -- what the files of ml share.
 *
 *   messages.c   what a request may contain, and what we do with each field
 *   translate.c  trainingInput -> CustomJob; its violations in this API's names
 *   view.c       rows -> Job
 *   jobs.c, ml.c the handlers */
#ifndef TY_ML_INT_H
#define TY_ML_INT_H

#include "ml/ml.h"

#define ROUTE(method, path, handler)                                                               \
    ty_err handler(struct http_request *req, struct http_response *res, void *ctx);
#include "ml/routes.def"
#undef ROUTE

enum { ML_ROLES = 4 };
/* "master", "worker", "parameterServer", "evaluator": what fields of a trainingInput begin with, by
 * pool. */
extern const char *const ml_roles[ML_ROLES];

/* ---- messages.c ---- */

extern const struct wire_message ml_job;
extern const struct vertex_field ml_fields[]; /* ends with {NULL} */

/* ---- translate.c ---- */

/* The CustomJob of a canonical Job, a new reference; all that is wrong with it is added to `v`. */
json_t *ml_translate(const struct vertex *vertex, const json_t *job, struct wire_violations *v);
/* Is `id` one a user may choose? If not, a violation says so. */
void ml_id_check(ty_str id, struct wire_violations *v);

/* ---- view.c ---- */

const char *ml_state_name(const struct job *job); /* "PREPARING" */
bool ml_state_is_known(ty_str name);
/* Append the row as a Job. */
void ml_job_json(struct ty_buf *b, struct ty_arena *a, const struct job *job);
/* A value that changes with what a client can change: the labels. Base64. */
const char *ml_etag(struct ty_arena *a, const struct job *job);

#endif
