/* copy.c -- a copy of the rows, for a backup, made while a server may be at work on them. */
#include "store/store_int.h"

ty_err store_copy(const char *data_dir, const char *to_dir)
{
    struct ty_arena a = {0};
    ty_err err =
        db_copy(ty_format(&a, "%s/yard.db", data_dir), ty_format(&a, "%s/yard.db", to_dir));
    ty_arena_clear(&a);
    return err;
}

/* ---- all attempts ---- */

struct ids {
    struct ty_arena *arena;
    struct store_attempt_id *list;
    size_t count;
};

static ty_err attempt_ids_fn(struct db_conn *c, void *arg)
{
    struct ids *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT count(*) FROM attempt", &s);
    if (err == TY_OK)
        err = db_step(s, &row);
    size_t most = err == TY_OK && row ? (size_t)db_column_i64(s, 0) : 0;
    x->list = ty_new_array(x->arena, struct store_attempt_id, most);
    if (err == TY_OK)
        err = db_prepare(c, "SELECT job_id, number FROM attempt ORDER BY job_id, number", &s);
    while (err == TY_OK && (err = db_step(s, &row)) == TY_OK && row && x->count < most)
        x->list[x->count++] = (struct store_attempt_id){.job_id = db_column_i64(s, 0),
                                                        .number = (int)db_column_i64(s, 1)};
    return err;
}

ty_err store_attempt_ids(struct store *s, struct ty_arena *a, struct store_attempt_id **ret_ids,
                         size_t *ret_count)
{
    struct ids x = {.arena = a};
    ty_err err = db_read(s->db, attempt_ids_fn, &x);
    if (err != TY_OK)
        return err;
    *ret_ids = x.list;
    *ret_count = x.count;
    return TY_OK;
}

/* ---- jobs that were deleted meanwhile ---- */

struct forget {
    const int64_t *ids;
    size_t count;
    bool *gone;
    size_t forgotten;
};

static ty_err look_fn(struct db_conn *c, void *arg)
{
    struct forget *x = arg;
    struct db_stmt *s;
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->count && err == TY_OK; i++) {
        bool row = false;
        err = db_prepare(c, "SELECT 1 FROM job WHERE id = ?1", &s);
        if (err != TY_OK)
            break;
        db_bind_i64(s, 1, x->ids[i]);
        err = db_step(s, &row);
        x->gone[i] = !row;
    }
    return err;
}

static ty_err forget_fn(struct db_conn *c, void *arg)
{
    static const char *const scripts[] = {"DELETE FROM attempt WHERE job_id = ?1",
                                          "DELETE FROM job WHERE id = ?1"};
    struct forget *x = arg;
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->count; i++)
        for (size_t k = 0; k < TY_COUNT(scripts) && x->gone[i] && err == TY_OK; k++) {
            struct db_stmt *s;
            err = db_prepare(c, scripts[k], &s);
            if (err != TY_OK)
                break;
            db_bind_i64(s, 1, x->ids[i]);
            err = db_run(s);
            x->forgotten += k == 0;
        }
    return err;
}

ty_err store_copy_forget(struct store *copy, const char *data_dir, const int64_t *ids, size_t count,
                         size_t *ret_forgotten)
{
    struct ty_arena a = {0};
    struct forget x = {.ids = ids, .count = count, .gone = ty_new_array(&a, bool, count + 1)};
    ty_err err = db_peek(ty_format(&a, "%s/yard.db", data_dir), look_fn, &x);
    if (err == TY_OK)
        err = db_write(copy->db, forget_fn, &x);
    ty_arena_clear(&a);
    if (err == TY_OK)
        *ret_forgotten = x.forgotten;
    return err;
}
