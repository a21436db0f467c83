/* merge.c -- the lines of several jobs in one order.
 *
 * A job's lines lie between its creation and its end, so the jobs, sorted by the time of their
 * first line in the direction we go, are opened one after the other as that time comes up, and
 * closed when they have no more. Reading all of a project costs as many open files as jobs ran at
 * once. */
#include "cloudlog/cloudlog_int.h"

static int64_t span_end(const struct store_span *s)
{
    return s->end_ns > 0 ? s->end_ns : INT64_MAX;
}

static int span_by_start(const void *x, const void *y)
{
    int64_t a = ((const struct store_span *)x)->create_ns;
    int64_t b = ((const struct store_span *)y)->create_ns;
    return (a > b) - (a < b);
}

static int span_by_end_newest_first(const void *x, const void *y)
{
    int64_t a = span_end(x), b = span_end(y);
    return (a < b) - (a > b);
}

ty_err cloudlog_merge(struct merge *m, const struct cloudlog *c, struct ty_arena *a, ty_str project,
                      int64_t job_id, bool back, int64_t start_ns)
{
    *m = (struct merge){
        .log = c, .arena = a, .project = project, .back = back, .start_ns = start_ns};
    if (job_id != 0) {
        m->spans = ty_new(a, struct store_span);
        *m->spans = (struct store_span){.job_id = job_id};
        m->span_count = 1;
    } else {
        ty_err err = store_job_list_project(c->store, a, project, back ? 0 : start_ns,
                                            back ? start_ns : INT64_MAX, back, CLOUDLOG_MAX_JOBS,
                                            &m->spans, &m->span_count);
        if (err)
            return err;
        m->cut = m->span_count == CLOUDLOG_MAX_JOBS;
    }
    if (m->span_count > 0)
        qsort(m->spans, m->span_count, sizeof *m->spans,
              back ? span_by_end_newest_first : span_by_start);
    m->open = ty_new_array(a, struct log_source *, m->span_count);
    return TY_OK;
}

static void close_nth(struct merge *m, size_t n)
{
    log_source_close(m->open[n]);
    m->open[n] = m->open[--m->open_count];
}

static ty_err open_span(struct merge *m)
{
    struct log_source *s = ty_new(m->arena, struct log_source);
    ty_err err = log_source_open(s, m->log, m->arena, m->project, m->spans[m->span_next++].job_id,
                                 m->back, m->start_ns);
    if (err == TY_NOT_FOUND)
        return TY_OK; /* deleted since it was listed, or never there */
    if (!err)
        m->open[m->open_count++] = s;
    return err;
}

/* Can the next job that is not open have a line before this one? */
static bool span_comes_first(const struct merge *m, const struct log_line *best)
{
    if (m->span_next == m->span_count)
        return false;
    const struct store_span *s = &m->spans[m->span_next];
    return m->back ? span_end(s) >= best->time_ns : s->create_ns <= best->time_ns;
}

/* The first line of the open jobs; *ret_from is NULL when they have none. */
static ty_err best_open(struct merge *m, struct log_source **ret_from, struct log_line *ret_line)
{
    *ret_from = NULL;
    for (size_t i = 0; i < m->open_count;) {
        struct log_line line;
        ty_err err = log_source_peek(m->open[i], &line);
        if (err == TY_OUT_OF_RANGE) {
            close_nth(m, i);
            continue;
        }
        if (err)
            return err;
        int order = *ret_from ? log_line_compare(&line, ret_line) : 0;
        if (!*ret_from || (m->back ? order > 0 : order < 0)) {
            *ret_from = m->open[i];
            *ret_line = line;
        }
        i++;
    }
    return TY_OK;
}

ty_err merge_next(struct merge *m, struct log_line *ret_line)
{
    if (m->given)
        log_source_pass(m->given);
    m->given = NULL;
    for (;;) {
        struct log_source *from;
        struct log_line best;
        ty_err err = best_open(m, &from, &best);
        if (err)
            return err;
        if (from && !span_comes_first(m, &best)) {
            m->given = from;
            *ret_line = best;
            return TY_OK;
        }
        if (m->span_next == m->span_count)
            return TY_OUT_OF_RANGE;
        err = open_span(m);
        if (err)
            return err;
    }
}

void merge_close(struct merge *m)
{
    while (m->open_count > 0)
        close_nth(m, 0);
}
