/* ml.h -- AI Platform's training API, `ml` v1: the older words for the same jobs.
 *
 * A job made here is a custom job underneath: one row, one queue, one conductor. What the user gave
 * (trainingInput) is kept as it came and answered from there; at the same time it is translated
 * into the CustomJob that Vertex shows and the machine runs. The other way round, a custom job that
 * is asked for here gets a trainingInput made of its pools, and the id "customjob_<number>".
 *
 *   pool   0 master   1 worker   2 parameterServer   3 evaluator
 *   state  QUEUED (accepted, or no room)  PREPARING (an attempt has begun)  RUNNING  SUCCEEDED
 *          FAILED  CANCELLING  CANCELLED
 *
 * Where to start: routes.def; translate.c (from trainingInput to a CustomJob, which is also where
 * mistakes are found), view.c (the way back), tiers.def. Who frees: requests own everything.
 * Threads: handlers run on the server's workers. Errors: google.rpc codes; every 400 about content
 * names the field as this API has it (trainingInput.workerCount). docs/compat.md has a row for each
 * field and route; tests hold them together. One test: build/test_ml
 * create/mistakes_name_the_field. */
#ifndef TY_ML_H
#define TY_ML_H

#include "vertex/vertex.h"

/* The table for http_router_new, served under /v1. `v` outlives the server. */
struct http_routes ml_routes(struct vertex *v);

/* Warnings about what a trainingInput asks for and we only record: for the job's log. */
void ml_job_warnings(const json_t *training_input, struct ty_buf *b);

#endif
