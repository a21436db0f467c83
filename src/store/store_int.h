/* store_int.h -- what the files of store share: the open store, and rows to structs. */
#ifndef TY_STORE_INT_H
#define TY_STORE_INT_H

#include "db/db.h"
#include "store/store.h"

struct store {
    struct db *db;
    int64_t last_id; /* of jobs and operations; touched only by write closures, so by one thread */
    char boot_id[64];
};

/* The next id, inside a write closure: ids are committed in increasing order, whatever the clock
 * does. */
int64_t store_next_id(struct store *s);

/* The columns job_from_row expects. */
#define JOB_COLUMNS                                                                                \
    "id, project, region, display_name, labels, body, state, create_ns, start_ns, end_ns, "        \
    "update_ns, error_code, error_message, cancel_requested, replicas, attempt, retries, ran_ms, " \
    "wait_boot_ms, boot_id, wait_reason, ml_id, ml_input"

/* Strings are copied into `a`; without one (NULL) they are borrowed until the next step. */
void job_from_row(struct db_stmt *row, struct ty_arena *a, struct job *ret_job);
ty_str column_dup(struct db_stmt *row, struct ty_arena *a, int n);

ty_err job_not_found(ty_str project, ty_str region, int64_t id);

/* TY_ALREADY_EXISTS: the project has a job with this id of its user's choice (ml.c). */
ty_err job_ml_id_unused(struct db_conn *c, ty_str project, ty_str ml_id);

/* Visit the rows of a statement that selects JOB_COLUMNS; `scratch` is cleared after each. */
ty_err job_visit_rows(struct db_stmt *s, struct ty_arena *scratch,
                      bool (*visit)(const struct job *job, void *arg), void *arg);

/* At most `limit` bytes of valid UTF-8: bytes that are none become '?'. In `a`, or the text itself
 * when it is fine. */
ty_str store_clean_text(struct ty_arena *a, ty_str text, size_t limit);

#endif
