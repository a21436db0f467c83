/* operations.c -- long-running operations, which are done when they are made; deleting a job makes
 * one. */
#include "store/store_int.h"

#define OPERATION_COLUMNS                                                                          \
    "id, project, region, metadata_type, response, error_code, error_message, create_ns, "         \
    "update_ns"

static void operation_from_row(struct db_stmt *row, struct ty_arena *a, struct operation *ret_op)
{
    *ret_op = (struct operation){
        .id = db_column_i64(row, 0),
        .project = column_dup(row, a, 1),
        .region = column_dup(row, a, 2),
        .metadata_type = column_dup(row, a, 3),
        .response = column_dup(row, a, 4),
        .error_code = (int)db_column_i64(row, 5),
        .error_message = column_dup(row, a, 6),
        .create_ns = db_column_i64(row, 7),
        .update_ns = db_column_i64(row, 8),
    };
}

static ty_err operation_not_found(ty_str project, ty_str region, int64_t id)
{
    return ty_fail(TY_NOT_FOUND,
                   "operation 'projects/" TY_STR_FMT "/locations/" TY_STR_FMT "/operations/%" PRId64
                   "' does not exist",
                   TY_STR_ARG(project), TY_STR_ARG(region), id);
}

/* One row of a place, for the closures below. */
struct place {
    struct store *store;
    struct ty_arena *arena;
    ty_str project, region;
    int64_t id;
    struct operation op;
};

static void bind_place(struct db_stmt *s, const struct place *x)
{
    db_bind_i64(s, 1, x->id);
    db_bind_str(s, 2, x->project);
    db_bind_str(s, 3, x->region);
}

/* ---- delete a job ---- */

static ty_err insert_operation(struct db_conn *c, const struct operation *op)
{
    struct db_stmt *s;
    ty_err err = db_prepare(c,
                            "INSERT INTO operation (" OPERATION_COLUMNS
                            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, op->id);
    db_bind_str(s, 2, op->project);
    db_bind_str(s, 3, op->region);
    db_bind_str(s, 4, op->metadata_type);
    db_bind_str(s, 5, op->response);
    db_bind_i64(s, 6, op->error_code);
    db_bind_str(s, 7, op->error_message);
    db_bind_i64(s, 8, op->create_ns);
    db_bind_i64(s, 9, op->update_ns);
    return db_run(s);
}

static ty_err delete_by_id(struct db_conn *c, const char *sql, int64_t id)
{
    struct db_stmt *s;
    ty_err err = db_prepare(c, sql, &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, id);
    return db_run(s);
}

static ty_err delete_fn(struct db_conn *c, void *arg)
{
    struct place *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err =
        db_prepare(c, "SELECT state FROM job WHERE id = ?1 AND project = ?2 AND region = ?3", &s);
    if (err != TY_OK)
        return err;
    bind_place(s, x);
    err = db_step(s, &row);
    if (err != TY_OK)
        return err;
    if (!row)
        return job_not_found(x->project, x->region, x->id);
    enum job_state state = (enum job_state)db_column_i64(s, 0);
    if (!job_state_is_final(state))
        return ty_fail(TY_FAILED_PRECONDITION,
                       "cannot delete custom job %" PRId64 ": it is in %s; cancel it first", x->id,
                       job_state_name(state));
    int64_t now_ns = ty_now_ns();
    x->op = (struct operation){
        .id = store_next_id(x->store),
        .project = x->project,
        .region = x->region,
        .metadata_type = TY_STR("DeleteOperationMetadata"),
        .response = TY_STR("{\"@type\":\"type.googleapis.com/google.protobuf.Empty\"}"),
        .create_ns = now_ns,
        .update_ns = now_ns};
    err = delete_by_id(c, "DELETE FROM attempt WHERE job_id = ?1", x->id);
    if (err == TY_OK)
        err = delete_by_id(c, "DELETE FROM job WHERE id = ?1", x->id);
    if (err == TY_OK)
        err = insert_operation(c, &x->op);
    return err;
}

ty_err store_job_delete(struct store *s, struct ty_arena *a, ty_str project, ty_str region,
                        int64_t id, struct operation *ret_op)
{
    struct place x = {.store = s, .project = project, .region = region, .id = id};
    ty_err err = db_write(s->db, delete_fn, &x);
    if (err != TY_OK)
        return err;
    x.op.project = ty_str_dup(a, project); /* the other strings are constants */
    x.op.region = ty_str_dup(a, region);
    *ret_op = x.op;
    return TY_OK;
}

/* ---- operations ---- */

static ty_err operation_get_fn(struct db_conn *c, void *arg)
{
    struct place *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c,
                            "SELECT " OPERATION_COLUMNS " FROM operation "
                            "WHERE id = ?1 AND project = ?2 AND region = ?3",
                            &s);
    if (err != TY_OK)
        return err;
    bind_place(s, x);
    err = db_step(s, &row);
    if (err == TY_OK && !row)
        err = operation_not_found(x->project, x->region, x->id);
    if (err == TY_OK)
        operation_from_row(s, x->arena, &x->op);
    return err;
}

ty_err store_operation_get(struct store *s, struct ty_arena *a, ty_str project, ty_str region,
                           int64_t id, struct operation *ret_op)
{
    struct place x = {.arena = a, .project = project, .region = region, .id = id};
    ty_err err = db_read(s->db, operation_get_fn, &x);
    if (err == TY_OK)
        *ret_op = x.op;
    return err;
}

struct operations {
    struct ty_arena *arena;
    ty_str project, region;
    int64_t before;
    size_t limit;
    struct operation *list;
    size_t count;
};

static ty_err operation_list_fn(struct db_conn *c, void *arg)
{
    struct operations *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c,
                            "SELECT " OPERATION_COLUMNS " FROM operation WHERE project = ?1 "
                            "AND region = ?2 AND id < ?3 ORDER BY id DESC",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->project);
    db_bind_str(s, 2, x->region);
    db_bind_i64(s, 3, x->before > 0 ? x->before : INT64_MAX);
    while (x->count < x->limit && (err = db_step(s, &row)) == TY_OK && row)
        operation_from_row(s, x->arena, &x->list[x->count++]);
    return err;
}

ty_err store_operation_list(struct store *s, struct ty_arena *a, ty_str project, ty_str region,
                            int64_t before, size_t limit, struct operation **ret_ops,
                            size_t *ret_count)
{
    if (limit > STORE_OPERATION_PAGE)
        limit = STORE_OPERATION_PAGE;
    struct operations x = {.arena = a,
                           .project = project,
                           .region = region,
                           .before = before,
                           .limit = limit,
                           .list = ty_new_array(a, struct operation, limit)};
    ty_err err = db_read(s->db, operation_list_fn, &x);
    if (err == TY_OK) {
        *ret_ops = x.list;
        *ret_count = x.count;
    }
    return err;
}

static ty_err operation_delete_fn(struct db_conn *c, void *arg)
{
    struct place *x = arg;
    struct db_stmt *s;
    ty_err err =
        db_prepare(c, "DELETE FROM operation WHERE id = ?1 AND project = ?2 AND region = ?3", &s);
    if (err != TY_OK)
        return err;
    bind_place(s, x);
    err = db_run(s);
    if (err == TY_OK && db_changes(c) == 0)
        err = operation_not_found(x->project, x->region, x->id);
    return err;
}

ty_err store_operation_delete(struct store *s, ty_str project, ty_str region, int64_t id)
{
    struct place x = {.project = project, .region = region, .id = id};
    return db_write(s->db, operation_delete_fn, &x);
}
