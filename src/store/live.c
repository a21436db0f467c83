/* live.c -- has an attempt ended? Asked for each request that comes with a replica's token, so it
 * reads two rows by their keys and no job's text. */
#include "store/store_int.h"

struct live {
    struct ty_arena *arena;
    int64_t job_id;
    int number;
    ty_str project;
    bool found;
};

static ty_err live_fn(struct db_conn *c, void *arg)
{
    struct live *x = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(c,
                            "SELECT job.project FROM attempt JOIN job ON job.id = attempt.job_id"
                            " WHERE attempt.job_id = ?1 AND attempt.number = ?2"
                            " AND attempt.state <> ?3",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->job_id);
    db_bind_i64(s, 2, x->number);
    db_bind_i64(s, 3, ATTEMPT_ENDED);
    err = db_step(s, &x->found);
    if (err == TY_OK && x->found)
        x->project = ty_str_dup(x->arena, db_column_str(s, 0));
    return err;
}

ty_err store_attempt_live(struct store *s, struct ty_arena *a, int64_t job_id, int number,
                          ty_str *ret_project)
{
    struct live x = {.arena = a, .job_id = job_id, .number = number};
    ty_err err = db_read(s->db, live_fn, &x);
    if (err != TY_OK)
        return err;
    if (!x.found)
        return ty_fail(TY_NOT_FOUND, "attempt %d of job %" PRId64 " has ended", number, job_id);
    *ret_project = x.project;
    return TY_OK;
}
