/* jobs.c -- what request threads do with jobs: create, get, list, cancel, delete; and the lists of
 * the scheduler. */
#include "store/store_int.h"

ty_str column_dup(struct db_stmt *row, struct ty_arena *a, int n)
{
    ty_str s = db_column_str(row, n);
    return a ? ty_str_dup(a, s) : s;
}

void job_from_row(struct db_stmt *row, struct ty_arena *a, struct job *ret_job)
{
    *ret_job = (struct job){
        .id = db_column_i64(row, 0),
        .project = column_dup(row, a, 1),
        .region = column_dup(row, a, 2),
        .display_name = column_dup(row, a, 3),
        .labels = column_dup(row, a, 4),
        .body = column_dup(row, a, 5),
        .state = (enum job_state)db_column_i64(row, 6),
        .create_ns = db_column_i64(row, 7),
        .start_ns = db_column_i64(row, 8),
        .end_ns = db_column_i64(row, 9),
        .update_ns = db_column_i64(row, 10),
        .error_code = (int)db_column_i64(row, 11),
        .error_message = column_dup(row, a, 12),
        .cancel_requested = db_column_i64(row, 13) != 0,
        .replicas = (int)db_column_i64(row, 14),
        .attempt = (int)db_column_i64(row, 15),
        .retries = (int)db_column_i64(row, 16),
        .ran_ms = db_column_i64(row, 17),
        .wait_boot_ms = db_column_i64(row, 18),
        .boot_id = column_dup(row, a, 19),
        .wait_reason = column_dup(row, a, 20),
        .ml_id = column_dup(row, a, 21),
        .ml_input = column_dup(row, a, 22),
    };
}

ty_err job_not_found(ty_str project, ty_str region, int64_t id)
{
    return ty_fail(TY_NOT_FOUND,
                   "custom job 'projects/" TY_STR_FMT "/locations/" TY_STR_FMT
                   "/customJobs/%" PRId64 "' does not exist",
                   TY_STR_ARG(project), TY_STR_ARG(region), id);
}

/* ---- create ---- */

struct create {
    struct store *store;
    struct job job;
};

static ty_err create_fn(struct db_conn *c, void *arg)
{
    struct create *x = arg;
    struct job *j = &x->job;
    struct db_stmt *s;
    ty_err err = j->ml_id.len > 0 ? job_ml_id_unused(c, j->project, j->ml_id) : TY_OK;
    if (err != TY_OK)
        return err;
    err = db_prepare(c,
                     "INSERT INTO job (id, project, region, display_name, labels, body, "
                     "state, create_ns, update_ns, replicas, wait_boot_ms, boot_id, "
                     "ml_id, ml_input) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12, ?13)",
                     &s);
    if (err != TY_OK)
        return err;
    j->id = store_next_id(x->store);
    j->create_ns = j->update_ns = ty_now_ns();
    j->wait_boot_ms = ty_boot_ms();
    db_bind_i64(s, 1, j->id);
    db_bind_str(s, 2, j->project);
    db_bind_str(s, 3, j->region);
    db_bind_str(s, 4, j->display_name);
    db_bind_str(s, 5, j->labels);
    db_bind_str(s, 6, j->body);
    db_bind_i64(s, 7, j->state);
    db_bind_i64(s, 8, j->create_ns);
    db_bind_i64(s, 9, j->replicas);
    db_bind_i64(s, 10, j->wait_boot_ms);
    db_bind_str(s, 11, j->boot_id);
    db_bind_str(s, 12, j->ml_id);
    db_bind_str(s, 13, j->ml_input);
    return db_run(s);
}

ty_err store_job_create(struct store *s, struct job *job)
{
    struct create x = {
        .store = s,
        .job = {.project = job->project,
                .region = job->region,
                .display_name = job->display_name,
                .labels = job->labels,
                .body = job->body,
                .replicas = job->replicas,
                .ml_id = job->ml_id,
                .ml_input = job->ml_input,
                .state = JOB_STATE_PENDING,
                .boot_id = store_boot_id(s)},
    };
    ty_err err = db_write(s->db, create_fn, &x);
    if (err == TY_OK)
        *job = x.job;
    return err;
}

/* ---- get ---- */

struct get {
    struct ty_arena *arena;
    ty_str project, region; /* no project, no region: any */
    int64_t id;
    struct job job;
};

static ty_err get_fn(struct db_conn *c, void *arg)
{
    struct get *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(
        c, "SELECT " JOB_COLUMNS " FROM job WHERE id = ?1 AND project = ifnull(?2, project)", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->id);
    if (x->project.ptr)
        db_bind_str(s, 2, x->project);
    else
        db_bind_null(s, 2);
    err = db_step(s, &row);
    if (err != TY_OK)
        return err;
    if (!row || (x->region.ptr && !ty_str_eq(x->region, db_column_str(s, 2))))
        return job_not_found(x->project.ptr ? x->project : TY_STR("-"),
                             x->region.ptr ? x->region : TY_STR("-"), x->id);
    job_from_row(s, x->arena, &x->job);
    return TY_OK;
}

static ty_err get(struct store *s, struct get *x, struct job *ret_job)
{
    ty_err err = db_read(s->db, get_fn, x);
    if (err == TY_OK)
        *ret_job = x->job;
    return err;
}

ty_err store_job_get(struct store *s, struct ty_arena *a, ty_str project, ty_str region, int64_t id,
                     struct job *ret_job)
{
    struct get x = {.arena = a, .project = project, .region = region, .id = id};
    if (!region.ptr)
        x.region = TY_STR(""); /* a region that is not there is none's, not any */
    return get(s, &x, ret_job);
}

ty_err store_job_find(struct store *s, struct ty_arena *a, ty_str project, int64_t id,
                      struct job *ret_job)
{
    struct get x = {.arena = a, .project = project, .id = id};
    return get(s, &x, ret_job);
}

ty_err store_job_load(struct store *s, struct ty_arena *a, int64_t id, struct job *ret_job)
{
    struct get x = {.arena = a, .id = id};
    return get(s, &x, ret_job);
}

static ty_err exists_fn(struct db_conn *c, void *arg)
{
    int64_t *id = arg; /* becomes 0 when there is none */
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT 1 FROM job WHERE id = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, *id);
    err = db_step(s, &row);
    if (err == TY_OK && !row)
        *id = 0;
    return err;
}

ty_err store_job_exists(struct store *s, int64_t id, bool *ret_exists)
{
    ty_err err = db_read(s->db, exists_fn, &id);
    if (err == TY_OK)
        *ret_exists = id != 0;
    return err;
}

/* ---- lists ---- */

struct list {
    struct ty_arena *arena;
    ty_str project, region;
    int64_t before;
    bool (*visit)(const struct job *job, void *arg);
    void *visit_arg;
};

ty_err job_visit_rows(struct db_stmt *s, struct ty_arena *scratch,
                      bool (*visit)(const struct job *job, void *arg), void *arg)
{
    bool row = false;
    ty_err err;
    while ((err = db_step(s, &row)) == TY_OK && row) {
        struct job job;
        job_from_row(s, NULL, &job); /* borrowed: most rows are only looked at by a filter */
        bool more = visit(&job, arg);
        ty_arena_clear(scratch);
        if (!more)
            break;
    }
    return err;
}

static ty_err list_fn(struct db_conn *c, void *arg)
{
    struct list *x = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(c,
                            "SELECT " JOB_COLUMNS " FROM job WHERE project = ?1 AND region = ?2 "
                            "AND id < ?3 ORDER BY id DESC",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->project);
    db_bind_str(s, 2, x->region);
    db_bind_i64(s, 3, x->before > 0 ? x->before : INT64_MAX);
    return job_visit_rows(s, x->arena, x->visit, x->visit_arg);
}

ty_err store_job_list(struct store *s, struct ty_arena *a, ty_str project, ty_str region,
                      int64_t before, bool (*visit)(const struct job *job, void *arg), void *arg)
{
    struct list x = {a, project, region, before, visit, arg};
    return db_read(s->db, list_fn, &x);
}

struct active {
    struct ty_arena *arena;
    struct job *jobs;
    size_t count, room;
};

static ty_err active_fn(struct db_conn *c, void *arg)
{
    struct active *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT " JOB_COLUMNS " FROM job WHERE end_ns = 0 ORDER BY id", &s);
    if (err != TY_OK)
        return err;
    while ((err = db_step(s, &row)) == TY_OK && row) {
        if (x->count == x->room) {
            x->room = x->room ? 2 * x->room : 16;
            struct job *more = ty_new_array(x->arena, struct job, x->room);
            if (x->count > 0)
                memcpy(more, x->jobs, x->count * sizeof(*more));
            x->jobs = more;
        }
        job_from_row(s, x->arena, &x->jobs[x->count++]);
    }
    return err;
}

ty_err store_active_list(struct store *s, struct ty_arena *a, struct job **ret_jobs,
                         size_t *ret_count)
{
    struct active x = {.arena = a};
    ty_err err = db_read(s->db, active_fn, &x);
    if (err == TY_OK) {
        *ret_jobs = x.jobs;
        *ret_count = x.count;
    }
    return err;
}

static ty_err counts_fn(struct db_conn *c, void *arg)
{
    int64_t *counts = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT state, jobs FROM job_count WHERE state BETWEEN 1 AND 7", &s);
    if (err != TY_OK)
        return err;
    while ((err = db_step(s, &row)) == TY_OK && row)
        counts[db_column_i64(s, 0)] = db_column_i64(s, 1);
    return err;
}

ty_err store_job_counts(struct store *s, int64_t counts[8])
{
    int64_t found[8] = {0};
    ty_err err = db_read(s->db, counts_fn, found);
    if (err == TY_OK)
        memcpy(counts, found, sizeof(found));
    return err;
}

/* ---- cancel ---- */

struct cancel {
    ty_str project, region;
    int64_t id;
};

static ty_err cancel_fn(struct db_conn *c, void *arg)
{
    struct cancel *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c,
                            "SELECT state, cancel_requested FROM job "
                            "WHERE id = ?1 AND project = ?2 AND region = ?3",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->id);
    db_bind_str(s, 2, x->project);
    db_bind_str(s, 3, x->region);
    err = db_step(s, &row);
    if (err != TY_OK)
        return err;
    if (!row)
        return job_not_found(x->project, x->region, x->id);
    enum job_state state = (enum job_state)db_column_i64(s, 0);
    if (state == JOB_STATE_CANCELLED || (!job_state_is_final(state) && db_column_i64(s, 1) != 0))
        return TY_OK;
    if (job_state_is_final(state))
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot cancel custom job %" PRId64 ": it has ended already, with %s", x->id,
                       job_state_name(state));
    err = db_prepare(c, "UPDATE job SET cancel_requested = 1, update_ns = ?2 WHERE id = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->id);
    db_bind_i64(s, 2, ty_now_ns());
    return db_run(s);
}

ty_err store_job_cancel(struct store *s, ty_str project, ty_str region, int64_t id)
{
    struct cancel x = {project, region, id};
    return db_write(s->db, cancel_fn, &x);
}

/* ---- attempts ---- */

struct attempts {
    struct ty_arena *arena;
    int64_t job_id;
    struct attempt *list;
    size_t count, room;
};

static ty_err attempts_fn(struct db_conn *c, void *arg)
{
    struct attempts *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c,
                            "SELECT number, state, start_ns, running_ns, end_ns, ports, outcome, "
                            "message, devices FROM attempt WHERE job_id = ?1 ORDER BY number",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->job_id);
    while ((err = db_step(s, &row)) == TY_OK && row) {
        if (x->count == x->room) {
            x->room = x->room ? 2 * x->room : 4;
            struct attempt *more = ty_new_array(x->arena, struct attempt, x->room);
            if (x->count > 0)
                memcpy(more, x->list, x->count * sizeof(*more));
            x->list = more;
        }
        x->list[x->count++] = (struct attempt){
            .job_id = x->job_id,
            .number = (int)db_column_i64(s, 0),
            .state = (enum attempt_state)db_column_i64(s, 1),
            .start_ns = db_column_i64(s, 2),
            .running_ns = db_column_i64(s, 3),
            .end_ns = db_column_i64(s, 4),
            .ports = column_dup(s, x->arena, 5),
            .outcome = column_dup(s, x->arena, 6),
            .message = column_dup(s, x->arena, 7),
            .devices = column_dup(s, x->arena, 8),
        };
    }
    return err;
}

ty_err store_attempt_list(struct store *s, struct ty_arena *a, int64_t job_id,
                          struct attempt **ret_attempts, size_t *ret_count)
{
    struct attempts x = {.arena = a, .job_id = job_id};
    ty_err err = db_read(s->db, attempts_fn, &x);
    if (err == TY_OK) {
        *ret_attempts = x.list;
        *ret_count = x.count;
    }
    return err;
}

struct history {
    struct get job;
    struct attempts attempts;
};

static ty_err history_fn(struct db_conn *c, void *arg)
{
    struct history *x = arg;
    ty_err err = get_fn(c, &x->job);
    return err ? err : attempts_fn(c, &x->attempts);
}

ty_err store_job_history(struct store *s, struct ty_arena *a, ty_str project, int64_t id,
                         struct job *ret_job, struct attempt **ret_attempts, size_t *ret_count)
{
    struct history x = {.job = {.arena = a, .project = project, .id = id},
                        .attempts = {.arena = a, .job_id = id}};
    ty_err err = db_read(s->db, history_fn, &x);
    if (err == TY_OK) {
        *ret_job = x.job.job;
        *ret_attempts = x.attempts.list;
        *ret_count = x.attempts.count;
    }
    return err;
}
