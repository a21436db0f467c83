/* source.c -- one job's lines in order: what its rows say and what its attempts' files hold.
 *
 * Attempts' files follow each other in time (a writer starts above the newest line of the attempt
 * before), so at most one file is open, and a job of any size costs one window of it. */
#include "cloudlog/cloudlog_int.h"

#include "exec/exec.h"

/* Make from the rows what is kept of them. */
static void keep_rows(struct log_source *s, const struct job *job, const struct attempt *attempts)
{
    s->job = (struct job){.id = job->id,
                          .project = ty_str_dup(s->arena, job->project),
                          .ml_id = ty_str_dup(s->arena, job->ml_id),
                          .state = job->state,
                          .create_ns = job->create_ns};
    s->attempts = ty_new_array(s->arena, int, s->attempt_count);
    for (size_t i = 0; i < s->attempt_count; i++)
        s->attempts[i] = attempts[i].number;
    service_lines(s->log, s->arena, job, attempts, s->attempt_count, &s->lines, &s->line_count);
    for (size_t i = 0; i < s->line_count; i++)
        s->lines[i].job = &s->job;
}

static void skip_to_start(struct log_source *s)
{
    for (; s->line_next < s->line_count; s->line_next++) {
        size_t nth = s->back ? s->line_count - 1 - s->line_next : s->line_next;
        int64_t time_ns = s->lines[nth].time_ns;
        if (s->back ? time_ns <= s->start_ns : time_ns >= s->start_ns)
            return;
    }
}

ty_err log_source_open(struct log_source *s, const struct cloudlog *c, struct ty_arena *a,
                       ty_str project, int64_t job_id, bool back, int64_t start_ns)
{
    *s = (struct log_source){.log = c, .arena = a, .back = back, .start_ns = start_ns};
    struct ty_arena rows = {0};
    struct job job;
    struct attempt *attempts;
    ty_err err =
        store_job_history(c->store, &rows, project, job_id, &job, &attempts, &s->attempt_count);
    if (!err) {
        keep_rows(s, &job, attempts);
        skip_to_start(s);
    }
    ty_arena_clear(&rows);
    return err;
}

void log_source_lines_after(struct log_source *s, int64_t ordinal)
{
    s->line_next = 0;
    while (s->line_next < s->line_count && s->lines[s->line_next].ordinal <= ordinal)
        s->line_next++;
}

static int attempt_number(const struct log_source *s, size_t nth)
{
    return s->attempts[s->back ? s->attempt_count - 1 - nth : nth];
}

/* Open the next attempt that has a log. TY_OUT_OF_RANGE: none is left. */
static ty_err open_next(struct log_source *s)
{
    while (s->attempt_next < s->attempt_count) {
        int number = attempt_number(s, s->attempt_next++);
        const char *folder = exec_attempt_path(s->arena, s->log->data_dir, s->job.id, number);
        ty_err err =
            joblog_reader_open(&s->reader, AT_FDCWD, ty_format(s->arena, "%s/log", folder));
        if (err == TY_NOT_FOUND)
            continue; /* nothing was printed yet, or nothing ever started */
        if (!err) {
            /* going back, the cursor belongs behind the last line that counts */
            bool end = s->back && s->start_ns == INT64_MAX;
            err = joblog_seek(&s->reader, end || !s->back ? s->start_ns : s->start_ns + 1);
        }
        s->reading = !err;
        if (err)
            joblog_reader_close(&s->reader);
        return err;
    }
    return TY_OUT_OF_RANGE;
}

/* Hold the next record of the files. */
static ty_err read_record(struct log_source *s)
{
    for (;;) {
        ty_err err;
        if (!s->reading && (err = open_next(s)))
            return err;
        struct joblog_record r;
        err = s->back ? joblog_prev(&s->reader, &r) : joblog_next(&s->reader, &r);
        if (err == TY_OK) {
            s->line = (struct log_line){.time_ns = r.time_ns,
                                        .job = &s->job,
                                        .attempt = attempt_number(s, s->attempt_next - 1),
                                        .pool = r.pool,
                                        .index = r.index,
                                        .stream = r.stream,
                                        .continues = r.continues,
                                        .text = r.text};
            s->held = true;
            return TY_OK;
        }
        if (err == TY_DATA_LOSS) {
            log_warn("joblog.bad_line", "job=%" PRId64 " error=\"%s\"", s->job.id,
                     ty_err_message());
            continue;
        }
        joblog_reader_close(&s->reader);
        s->reading = false;
        if (err != TY_OUT_OF_RANGE)
            return ty_wrap(err, "log of job %" PRId64, s->job.id);
    }
}

static const struct log_line *next_row_line(const struct log_source *s)
{
    if (s->line_next == s->line_count)
        return NULL;
    return &s->lines[s->back ? s->line_count - 1 - s->line_next : s->line_next];
}

static bool row_line_is_next(const struct log_source *s)
{
    const struct log_line *row = next_row_line(s);
    if (!row || !s->held)
        return row != NULL;
    int order = log_line_compare(row, &s->line);
    return s->back ? order > 0 : order < 0;
}

ty_err log_source_peek(struct log_source *s, struct log_line *ret_line)
{
    if (!s->held) {
        ty_err err = read_record(s);
        if (err && err != TY_OUT_OF_RANGE)
            return err;
    }
    if (row_line_is_next(s))
        *ret_line = *next_row_line(s);
    else if (s->held)
        *ret_line = s->line;
    else
        return TY_OUT_OF_RANGE;
    return TY_OK;
}

void log_source_pass(struct log_source *s)
{
    if (row_line_is_next(s))
        s->line_next++;
    else
        s->held = false;
}

void log_source_close(struct log_source *s)
{
    if (s->reading)
        joblog_reader_close(&s->reader);
    s->reading = false;
}
