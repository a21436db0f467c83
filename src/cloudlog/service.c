/* service.c -- what Trainyard itself says about a job: lines of task "service", made from its rows.
 *
 * Only what a row says for good may be a line here, and only what is committed before any younger
 * log line exists: a line that was given once must be there, in the same place, for ever (J3). So
 * "all replicas are running" and "being cancelled" are not here; the conductor writes those into
 * the log.
 *
 * Each has a time and an ordinal. Times come from the rows, pushed up where they would not increase
 * (several things at once, a clock set back, a log line written in between), so they are
 * the same whenever asked. Ordinals number the things that can happen, so that a follower knows
 * what it has seen even when a row's time is older than a log line it was given already:
 *
 *   0         accepted
 *   1..       warnings
 *   99        it had to wait for a place
 *   100k + 1  attempt k starts       100k + 4  it ended and the job goes on
 *   2000000000  the job ended */
#include "cloudlog/cloudlog_int.h"

#include "exec/exec.h"

enum {
    MAX_WARNINGS = 90,
    ORDINAL_QUEUED = 99,
    WARNINGS_BYTES = 64 << 10,
    LINES_A_ATTEMPT = 2,
    LINES_OTHER = MAX_WARNINGS + 3, /* accepted, queued, ended */
    ORDINAL_ENDED = 2000000000,
};

struct builder {
    struct ty_arena *arena;
    const struct job *job;
    struct log_line *lines;
    size_t count;
};

static void add_line(struct builder *b, int64_t ordinal, int64_t time_ns, const char *severity,
                     const char *text)
{
    if (b->count > 0 && time_ns <= b->lines[b->count - 1].time_ns)
        time_ns = b->lines[b->count - 1].time_ns + 1;
    b->lines[b->count++] = (struct log_line){.time_ns = time_ns,
                                             .job = b->job,
                                             .ordinal = ordinal,
                                             .severity = severity,
                                             .pool = -1,
                                             .index = -1,
                                             .stream = 's',
                                             .text = ty_str_of(text)};
}

static void add_accepted(struct builder *b, const struct cloudlog *c)
{
    const struct job *job = b->job;
    add_line(b, 0, job->create_ns, "INFO",
             ty_format(b->arena, "Job '" TY_STR_FMT "' accepted: %d replica%s.",
                       TY_STR_ARG(job->display_name), job->replicas,
                       job->replicas == 1 ? "" : "s"));
    if (!c->warnings)
        return;
    struct ty_buf words;
    ty_buf_init(&words, WARNINGS_BYTES);
    c->warnings(job, &words);
    ty_str rest = ty_buf_str(&words), line;
    bool more = true;
    for (int n = 1; more && n <= MAX_WARNINGS; n++) {
        more = ty_str_split(&rest, '\n', &line);
        if (line.len > 0)
            add_line(b, n, job->create_ns, "WARNING", ty_cstr(b->arena, line));
    }
    ty_buf_clear(&words);
}

static int64_t later(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static void add_attempt(struct builder *b, const struct cloudlog *c, const struct attempt *t,
                        bool job_goes_on)
{
    int64_t base = INT64_C(100) * t->number;
    if (t->number == 1)
        add_line(
            b, base + 1, t->start_ns, "INFO",
            ty_format(b->arena,
                      "Starting %d replica%s (attempt 1), %.3f seconds after the job was accepted.",
                      b->job->replicas, b->job->replicas == 1 ? "" : "s",
                      (double)later(t->start_ns - b->job->create_ns, 0) / 1e9));
    else
        add_line(b, base + 1, t->start_ns, "INFO",
                 ty_format(b->arena, "Starting %d replica%s again (attempt %d).", b->job->replicas,
                           b->job->replicas == 1 ? "" : "s", t->number));
    if (t->state != ATTEMPT_ENDED || !job_goes_on)
        return;
    int64_t last_ns = exec_log_last_ns(c->data_dir, t->job_id, t->number);
    bool why = t->message.len > 0;
    add_line(b, base + 4, later(t->end_ns, last_ns + 1), "WARNING",
             ty_format(
                 b->arena, "Attempt %d ended (" TY_STR_FMT "), the job is tried again%s" TY_STR_FMT,
                 t->number, TY_STR_ARG(t->outcome), why ? ": " : ".", TY_STR_ARG(t->message)));
}

/* The reason stays in the row when the wait is over, and so does this line. */
static void add_waiting(struct builder *b)
{
    const struct job *job = b->job;
    if (job->wait_reason.len > 0)
        add_line(b, ORDINAL_QUEUED, job->create_ns, "INFO",
                 ty_format(b->arena, "Job is queued: " TY_STR_FMT, TY_STR_ARG(job->wait_reason)));
}

static void add_ended(struct builder *b, const struct cloudlog *c, size_t attempt_count)
{
    const struct job *job = b->job;
    int64_t last_ns =
        attempt_count > 0 ? exec_log_last_ns(c->data_dir, job->id, (int)attempt_count) : 0;
    int64_t time_ns = later(job->end_ns, last_ns + 1);
    if (job->state == JOB_STATE_SUCCEEDED)
        add_line(b, ORDINAL_ENDED, time_ns, "INFO", "Job completed successfully.");
    else if (job->state == JOB_STATE_CANCELLED)
        add_line(b, ORDINAL_ENDED, time_ns, "NOTICE", ty_cstr(b->arena, job->error_message));
    else
        add_line(b, ORDINAL_ENDED, time_ns, "ERROR",
                 ty_format(b->arena, "Job failed: " TY_STR_FMT, TY_STR_ARG(job->error_message)));
}

void service_lines(const struct cloudlog *c, struct ty_arena *a, const struct job *job,
                   const struct attempt *attempts, size_t attempt_count,
                   struct log_line **ret_lines, size_t *ret_count)
{
    struct builder b = {.arena = a, .job = job};
    b.lines = ty_new_array(a, struct log_line, LINES_OTHER + LINES_A_ATTEMPT * attempt_count);
    bool final = job_state_is_final(job->state);
    add_accepted(&b, c);
    add_waiting(&b);
    /* The attempt that ended the job has its end; a job that ended while it waited for another
     * attempt was to be tried again, and that line stays. */
    for (size_t i = 0; i < attempt_count; i++)
        add_attempt(&b, c, &attempts[i], !final || attempts[i].end_ns != job->end_ns);
    if (final)
        add_ended(&b, c, attempt_count);
    *ret_lines = b.lines;
    *ret_count = b.count;
}
