/* ml.c -- jobs by the ids of the older AI Platform API, which knows neither numbers nor regions.
 *
 * A job that API made has the id its user chose. A custom job has none, so it is given one that is
 * made of its number, "customjob_1763274013000000000": a valid id there, and found again without a
 * row of its own. */
#include "store/store_int.h"

static const char made_prefix[] = "customjob_";

ty_str job_ml_id(struct ty_arena *a, const struct job *job)
{
    if (job->ml_id.len > 0)
        return job->ml_id;
    return ty_str_of(ty_format(a, "%s%" PRId64, made_prefix, job->id));
}

/* The number in an id that is made of one; 0: it is none. */
static int64_t made_number(ty_str ml_id)
{
    int64_t id;
    if (!ty_str_starts(ml_id, ty_str_of(made_prefix)))
        return 0;
    ml_id = ty_str_drop(ml_id, sizeof made_prefix - 1);
    return ty_parse_i64(ml_id, &id) == TY_OK && id > 0 ? id : 0;
}

bool job_ml_id_is_made(ty_str ml_id)
{
    return made_number(ml_id) > 0;
}

static ty_err ml_not_found(ty_str project, ty_str ml_id)
{
    return ty_fail(TY_NOT_FOUND, "job 'projects/" TY_STR_FMT "/jobs/%.*s' does not exist",
                   TY_STR_ARG(project), (int)(ml_id.len < 256 ? ml_id.len : 256), ml_id.ptr);
}

ty_err job_ml_id_unused(struct db_conn *c, ty_str project, ty_str ml_id)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err =
        db_prepare(c, "SELECT 1 FROM job WHERE project = ?1 AND ml_id = ?2 AND ml_id <> ''", &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, project);
    db_bind_str(s, 2, ml_id);
    err = db_step(s, &row);
    if (err != TY_OK || !row)
        return err;
    return ty_fail(TY_ALREADY_EXISTS,
                   "project '" TY_STR_FMT "' has a job '" TY_STR_FMT
                   "' already: choose another job id",
                   TY_STR_ARG(project), TY_STR_ARG(ml_id));
}

/* ---- get ---- */

struct get {
    struct ty_arena *arena;
    ty_str project, ml_id;
    int64_t number;
    struct job job;
};

static ty_err get_fn(struct db_conn *c, void *arg)
{
    struct get *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c,
                            x->number > 0 ? "SELECT " JOB_COLUMNS " FROM job"
                                            " WHERE project = ?1 AND id = ?2 AND ml_id = ''"
                                          : "SELECT " JOB_COLUMNS " FROM job"
                                            " WHERE project = ?1 AND ml_id = ?2 AND ml_id <> ''",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->project);
    if (x->number > 0)
        db_bind_i64(s, 2, x->number);
    else
        db_bind_str(s, 2, x->ml_id);
    err = db_step(s, &row);
    if (err != TY_OK)
        return err;
    if (!row)
        return ml_not_found(x->project, x->ml_id);
    job_from_row(s, x->arena, &x->job);
    return TY_OK;
}

ty_err store_ml_get(struct store *s, struct ty_arena *a, ty_str project, ty_str ml_id,
                    struct job *ret_job)
{
    struct get x = {.arena = a, .project = project, .ml_id = ml_id, .number = made_number(ml_id)};
    ty_err err = db_read(s->db, get_fn, &x);
    if (err == TY_OK)
        *ret_job = x.job;
    return err;
}

/* ---- list ---- */

struct list {
    struct ty_arena *arena;
    ty_str project;
    int64_t before;
    bool (*visit)(const struct job *job, void *arg);
    void *visit_arg;
};

static ty_err list_fn(struct db_conn *c, void *arg)
{
    struct list *x = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(c,
                            "SELECT " JOB_COLUMNS " FROM job WHERE project = ?1 AND id < ?2 "
                            "ORDER BY id DESC",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->project);
    db_bind_i64(s, 2, x->before > 0 ? x->before : INT64_MAX);
    return job_visit_rows(s, x->arena, x->visit, x->visit_arg);
}

ty_err store_ml_list(struct store *s, struct ty_arena *a, ty_str project, int64_t before,
                     bool (*visit)(const struct job *job, void *arg), void *arg)
{
    struct list x = {a, project, before, visit, arg};
    return db_read(s->db, list_fn, &x);
}

/* ---- labels ---- */

struct relabel {
    int64_t id;
    ty_str labels, body;
};

static ty_err relabel_fn(struct db_conn *c, void *arg)
{
    struct relabel *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT 1 FROM job WHERE id = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->id);
    err = db_step(s, &row);
    if (err != TY_OK)
        return err;
    if (!row)
        return ty_fail(TY_NOT_FOUND, "the job was deleted meanwhile");
    err = db_prepare(c, "UPDATE job SET labels = ?2, body = ?3, update_ns = ?4 WHERE id = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->id);
    db_bind_str(s, 2, x->labels);
    db_bind_str(s, 3, x->body);
    db_bind_i64(s, 4, ty_now_ns());
    return db_run(s);
}

ty_err store_job_relabel(struct store *s, int64_t id, ty_str labels, ty_str body)
{
    struct relabel x = {id, labels, body};
    return db_write(s->db, relabel_fn, &x);
}
