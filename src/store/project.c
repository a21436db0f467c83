/* project.c -- the jobs of a project in all its regions, for logs.
 *
 * Cloud Logging names a project and a stretch of time, never a region. Ids grow with time, so
 * "newest" is "largest id" and the table is walked from one of its ends; only numbers are read, no
 * job's text. The + keeps SQLite from taking the index of project and region, which it would sort.
 */
#include "store/store_int.h"

#define SPANS                                                                                      \
    "SELECT id, create_ns, end_ns FROM job WHERE +project = ?1 AND create_ns <= ?3"                \
    " AND (end_ns = 0 OR end_ns >= ?2) ORDER BY id"

struct spans {
    struct ty_arena *arena;
    ty_str project;
    int64_t from_ns, to_ns;
    bool newest;
    size_t limit;
    struct store_span *rows;
    size_t count;
};

static ty_err spans_fn(struct db_conn *c, void *arg)
{
    struct spans *x = arg;
    struct db_stmt *s;
    bool row;
    ty_err err = db_prepare(c, x->newest ? SPANS " DESC LIMIT ?4" : SPANS " ASC LIMIT ?4", &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->project);
    db_bind_i64(s, 2, x->from_ns);
    db_bind_i64(s, 3, x->to_ns);
    db_bind_i64(s, 4, (int64_t)x->limit);
    x->rows = ty_new_array(x->arena, struct store_span, x->limit);
    x->count = 0;
    while ((err = db_step(s, &row)) == TY_OK && row)
        x->rows[x->count++] = (struct store_span){
            .job_id = db_column_i64(s, 0),
            .create_ns = db_column_i64(s, 1),
            .end_ns = db_column_i64(s, 2),
        };
    return err;
}

ty_err store_job_list_project(struct store *s, struct ty_arena *a, ty_str project, int64_t from_ns,
                              int64_t to_ns, bool newest, size_t limit,
                              struct store_span **ret_spans, size_t *ret_count)
{
    struct spans x = {.arena = a,
                      .project = project,
                      .from_ns = from_ns,
                      .to_ns = to_ns,
                      .newest = newest,
                      .limit = limit};
    ty_err err = db_read(s->db, spans_fn, &x);
    if (err == TY_OK) {
        *ret_spans = x.rows;
        *ret_count = x.count;
    }
    return err;
}
