/* logs.c -- stream-logs: a job's lines as they are printed, until it ends.
 *
 * One long-polled call after another (cloudlog's own route); the cursor it gives lets us go on
 * where we were, also with another server process: a server that goes away is waited for, and no
 * line is lost or shown twice. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum {
    WAIT_MS = 20000, /* how long a call may hang on the server */
    CALL_MS = WAIT_MS + 40000,
    AWAY_MS = 10 * 60000, /* how long a server may be away */
    RETRY_US = 300000,
    LINES = 1000,
};

struct follow {
    struct cli *c;
    const struct cli_follow *how;
    ty_str id;
    char cursor[64];
    char state[64]; /* "" before the first answer */
    bool done, any_line;
    bool color, pretty;
};

/* Ctrl-C: what to say, made before it can happen, because a handler may do little. */
static char goodbye[1024];
static size_t goodbye_len;

/* Ends the process itself: nothing of ours is open that would need closing, every line was flushed,
 * and the call that may be under way waits up to WAIT_MS. */
static void on_interrupt(int sig)
{
    (void)sig;
    (void)!ty_write_all(STDERR_FILENO, goodbye, goodbye_len);
    _exit(CLI_INTERRUPTED);
}

static void interrupt_prepare(const struct follow *f)
{
    int n = snprintf(goodbye, sizeof(goodbye),
                     "\nStopped watching; job " TY_STR_FMT " goes on. To come back:\n  $ %s\n",
                     TY_STR_ARG(f->id), f->how->again);
    goodbye_len = n < 0 ? 0 : (size_t)n < sizeof(goodbye) ? (size_t)n : sizeof(goodbye) - 1;
    struct sigaction sa = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &sa, NULL);
}

/* ---- lines ---- */

static void print_piped(const struct follow *f, ty_str severity, int64_t time_ns, ty_str task,
                        ty_str text)
{
    char when[64];
    struct tm tm;
    FILE *out = f->how->out;
    time_t seconds = (time_t)(time_ns / 1000000000);
    localtime_r(&seconds, &tm);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %z", &tm);
    fprintf(out, TY_STR_FMT "\t%s\t" TY_STR_FMT "\t%s", TY_STR_ARG(severity), when,
            TY_STR_ARG(task), f->how->ml ? "\t" : ""); /* the older ones have a trial's id */
    fwrite(text.ptr, 1, text.len, out);
    putc('\n', out);
}

/* Errors are red, whoever has them; the service's warnings are yellow, its other words dim. */
static const char *text_color(bool service, ty_str severity)
{
    if (ty_str_is(severity, "ERROR"))
        return "\033[31m";
    if (service && ty_str_is(severity, "WARNING"))
        return "\033[33m";
    return service ? "\033[90m" : "";
}

/* A colour of its own for each task, the same every time. */
static void print_pretty(const struct follow *f, ty_str severity, ty_str task, ty_str text)
{
    static const int colors[] = {36, 32, 33, 35, 34, 96, 92, 95};
    unsigned hash = 0;
    for (size_t i = 0; i < task.len; i++)
        hash = hash * 31 + (unsigned char)task.ptr[i];
    bool service = ty_str_is(task, "service");
    const char *color = f->color ? text_color(service, severity) : "";
    FILE *out = f->how->out;
    if (f->color)
        fprintf(out, "\033[%dm" TY_STR_FMT "\033[0m %s",
                service ? 90 : colors[hash % TY_COUNT(colors)], TY_STR_ARG(task), color);
    else
        fprintf(out, TY_STR_FMT " ", TY_STR_ARG(task));
    fwrite(text.ptr, 1, text.len, out);
    fputs(color[0] != '\0' ? "\033[0m\n" : "\n", out);
}

static void print_line(const struct follow *f, const json_t *line)
{
    ty_str text = wire_json_get_str(line, "text"), part, t = wire_json_get_str(line, "t");
    ty_str severity = wire_json_get_str(line, "severity"), task = wire_json_get_str(line, "task");
    bool whole = cli_arg_on(&f->c->args, "allow-multiline-logs"), more = true;
    int64_t time_ns = 0;
    (void)!ty_parse_i64(t, &time_ns);
    while (more) {
        part = text;
        more = !whole && ty_str_split(&text, '\n', &part);
        if (f->pretty)
            print_pretty(f, severity, task, part);
        else
            print_piped(f, severity, time_ns, task, part);
    }
}

/* ---- calls ---- */

static ty_err ask(struct follow *f, json_t **ret_answer)
{
    struct cli *c = f->c;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    ty_buf_addz(&b, "/trainyard/v1/projects/");
    wire_url_encode(&b, ty_str_of(c->project));
    ty_buf_addf(&b, "/jobs/" TY_STR_FMT "/log?waitMs=%d&limit=%d", TY_STR_ARG(f->id), WAIT_MS,
                LINES);
    if (f->cursor[0] != '\0') {
        ty_buf_addz(&b, "&after=");
        wire_url_encode(&b, ty_str_of(f->cursor));
    }
    if (cli_arg_given(&c->args, "task-name")) {
        ty_buf_addz(&b, "&task=");
        wire_url_encode(&b, cli_arg(&c->args, "task-name"));
    }
    ty_err err = ty_buf_check(&b, "--task-name");
    if (err == TY_OK)
        err = cli_call(c, HTTP_GET, b.ptr, TY_STR(""), CALL_MS, ret_answer);
    ty_buf_clear(&b);
    return err;
}

/* ask, while the server may be away for a time. */
static ty_err ask_patiently(struct follow *f, json_t **ret_answer)
{
    int64_t since = 0;
    for (;;) {
        ty_err err = ask(f, ret_answer);
        bool away = err == TY_UNAVAILABLE || err == TY_DEADLINE_EXCEEDED;
        bool first = f->state[0] == '\0'; /* never reached it: say so at once */
        if (!away || first) {
            if (since != 0 && err == TY_OK)
                fprintf(stderr, "The server is back after %" PRId64 " s.\n",
                        (ty_boot_ms() - since) / 1000);
            return err;
        }
        if (since == 0) {
            since = ty_boot_ms();
            fprintf(
                stderr,
                "The server at %s does not answer (%s). Its jobs run on; waiting for it up to %d "
                "minutes.\n",
                f->c->url, ty_err_message(), AWAY_MS / 60000);
        } else if (ty_boot_ms() - since > AWAY_MS) {
            return err;
        }
        usleep(RETRY_US);
    }
}

static void take(struct follow *f, const json_t *answer)
{
    json_t *line;
    size_t i;
    ty_str cursor = wire_json_get_str(answer, "next");
    ty_str state = wire_json_get_str(answer, "state");
    json_array_foreach (json_object_get(answer, "lines"), i, line) {
        print_line(f, line);
        f->any_line = true;
    }
    fflush(f->how->out);
    if (cursor.len > 0)
        snprintf(f->cursor, sizeof(f->cursor), TY_STR_FMT, TY_STR_ARG(cursor));
    snprintf(f->state, sizeof(f->state), TY_STR_FMT, TY_STR_ARG(state));
    f->done = json_is_true(json_object_get(answer, "done"));
}

/* The tasks of a job as they are called in its log: "workerpool0-0, workerpool1-0, ...". True if
 * `task` is one of them. */
static bool tasks_list(const json_t *job, ty_str task, struct ty_buf *b)
{
    enum { SHOWN = 8 };
    size_t at, count = 0;
    json_t *pool;
    bool found = ty_str_is(task, "service");
    json_array_foreach (json_object_get(json_object_get(job, "jobSpec"), "workerPoolSpecs"), at,
                        pool) {
        int64_t replicas = 0;
        (void)!ty_parse_i64(wire_json_get_str(pool, "replicaCount"), &replicas);
        for (int64_t i = 0; i < replicas; i++) {
            char name[64];
            snprintf(name, sizeof(name), "workerpool%zu-%" PRId64, at, i);
            found |= ty_str_is(task, name);
            if (count++ < SHOWN)
                ty_buf_addf(b, "%s%s", count > 1 ? ", " : "", name);
        }
    }
    ty_buf_addz(b, count > SHOWN ? ", ..." : "");
    return found;
}

/* A job that ended without a line of --task-name: was there such a task? */
static void say_if_no_task(const struct follow *f, const json_t *job)
{
    ty_str task = cli_arg(&f->c->args, "task-name");
    struct ty_buf tasks;
    ty_buf_init(&tasks, 1 << 12);
    if (!tasks_list(job, task, &tasks))
        fprintf(stderr, "Job " TY_STR_FMT " has no replica '%s'; its replicas are %s\n",
                TY_STR_ARG(f->id),
                cli_text_for(f->c->arena, STDERR_FILENO, ty_cstr(f->c->arena, task)),
                tasks.len > 0 ? tasks.ptr : "not known");
    ty_buf_clear(&tasks);
}

/* The last word: the state, and why, on stderr. */
static int finish(const struct follow *f)
{
    struct cli *c = f->c;
    json_t *job;
    bool good = strcmp(f->state, "JOB_STATE_SUCCEEDED") == 0;
    bool no_line = !f->any_line && cli_arg_given(&c->args, "task-name");
    fprintf(stderr, "Job " TY_STR_FMT " ended: %s\n", TY_STR_ARG(f->id), f->state);
    const char *path = ty_format(c->arena, "/v1/projects/%s/locations/%s/customJobs/" TY_STR_FMT,
                                 c->project, c->region, TY_STR_ARG(f->id));
    if ((!good || no_line) && cli_call(c, HTTP_GET, path, TY_STR(""), CALL_MS, &job) == TY_OK) {
        ty_str why = wire_json_get_str(json_object_get(job, "error"), "message");
        if (why.len > 0)
            fprintf(stderr, "%s\n", cli_text_for(c->arena, STDERR_FILENO, ty_cstr(c->arena, why)));
        if (no_line)
            say_if_no_task(f, job);
        json_decref(job);
    }
    return good || c->as_gcloud ? CLI_OK : CLI_FAILED;
}

static int follow_to_end(struct follow *f)
{
    struct cli *c = f->c;
    f->pretty = isatty(fileno(f->how->out));
    f->color = f->pretty && cli_color(fileno(f->how->out));
    interrupt_prepare(f);
    while (!f->done) {
        json_t *answer;
        ty_err err = ask_patiently(f, &answer);
        if (err == TY_NOT_FOUND) /* the log's own route knows no region and names none */
            err = ty_fail(TY_NOT_FOUND, "there is no job '" TY_STR_FMT "' in project '%s'",
                          TY_STR_ARG(f->id), c->project);
        if (err != TY_OK)
            return cli_fail(c, err);
        take(f, answer);
        json_decref(answer);
    }
    return CLI_OK;
}

int cli_log_follow(struct cli *c, const struct cli_follow *how, const char **ret_state)
{
    struct follow f = {.c = c, .how = how, .id = how->id};
    int status = follow_to_end(&f);
    if (status == CLI_OK)
        *ret_state = ty_cstr(c->arena, ty_str_of(f.state));
    return status;
}

int cli_custom_jobs_stream_logs(struct cli *c)
{
    struct cli_follow how = {.out = stdout};
    int status = cli_job_begin(c, &how.id);
    if (status != CLI_OK)
        return status;
    cli_say(c, "Using endpoint [%s/]\n", c->url);
    how.again = ty_format(
        c->arena, "%s ai custom-jobs stream-logs projects/%s/locations/%s/customJobs/" TY_STR_FMT,
        c->program, c->project, c->region, TY_STR_ARG(how.id));
    struct follow f = {.c = c, .how = &how, .id = how.id};
    status = follow_to_end(&f);
    return status == CLI_OK ? finish(&f) : status;
}
