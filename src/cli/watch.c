/* watch.c -- list --watch: the table again and again on a terminal; in a pipe, a line for each job
 * whose state has changed. Ctrl-C ends it. */
#include "cli/cli_int.h"

#include "wire/wire.h"

#include <sys/ioctl.h>

enum { PERIOD_US = 2000000, TEXT_BYTES = 64 << 20, ROWS = 24 };

/* Nothing of ours is open that would need closing, and what was printed is flushed. */
static void on_interrupt(int sig)
{
    (void)sig;
    _exit(CLI_INTERRUPTED);
}

/* The first `rows` lines. */
static ty_str lines_cut(ty_str text, size_t rows)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\n' && --rows == 0)
            return (ty_str){text.ptr, i + 1};
    return text;
}

static void screen_draw(struct cli *c, const json_t *jobs)
{
    struct winsize size;
    struct ty_buf b;
    char when[32];
    struct tm tm;
    time_t now = time(NULL);
    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%H:%M:%S", &tm);
    size_t rows =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 3 ? size.ws_row : ROWS;
    ty_buf_init(&b, TEXT_BYTES);
    cli_job_table_add(c->arena, &b, jobs);
    /* Home, the lines, what is left of the screen before cleared: nothing flickers. */
    printf("\033[H\033[J%s, %zu job%s; Ctrl-C ends this\n" TY_STR_FMT, when, json_array_size(jobs),
           json_array_size(jobs) == 1 ? "" : "s", TY_STR_ARG(lines_cut(ty_buf_str(&b), rows - 2)));
    ty_buf_clear(&b);
}

void cli_watch_changes(struct ty_arena *a, json_t *seen, const json_t *jobs, struct ty_buf *b)
{
    char when[32];
    struct tm tm;
    time_t now = time(NULL);
    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    for (size_t i = json_array_size(jobs); i > 0; i--) { /* they come newest first */
        const json_t *job = json_array_get(jobs, i - 1);
        ty_str name = wire_json_get_str(job, "name"), state = wire_json_get_str(job, "state"), id;
        const char *key = ty_cstr(a, name);
        if (ty_str_eq(wire_json_get_str(seen, key), state))
            continue;
        json_object_set_new(seen, key, json_stringn(state.ptr, state.len));
        while (ty_str_split(&name, '/', &id))
            ;
        ty_buf_addf(b, "%s\t" TY_STR_FMT "\t" TY_STR_FMT "\t" TY_STR_FMT "\n", when, TY_STR_ARG(id),
                    TY_STR_ARG(state),
                    TY_STR_ARG(cli_text_shown(a, wire_json_get_str(job, "displayName"), false)));
    }
}

int cli_list_watch(struct cli *c)
{
    struct ty_arena *whole = c->arena, round = {0};
    json_t *seen = json_object(), *jobs;
    bool reached = false, away = false, terminal = isatty(STDOUT_FILENO);
    struct sigaction sa = {.sa_handler = on_interrupt};
    ty_err err;
    sigaction(SIGINT, &sa, NULL);
    c->arena = &round; /* of one look: this may go on for days */
    for (;; usleep(PERIOD_US)) {
        ty_arena_clear(&round);
        err = cli_jobs_fetch(c, &jobs);
        if (err != TY_OK && reached && (err == TY_UNAVAILABLE || err == TY_DEADLINE_EXCEEDED)) {
            if (!away)
                fprintf(stderr, "The server at %s does not answer; waiting for it.\n", c->url);
            away = true;
            continue;
        }
        if (err != TY_OK)
            break;
        reached = true;
        away = false;
        if (terminal) {
            screen_draw(c, jobs);
        } else {
            struct ty_buf b;
            ty_buf_init(&b, TEXT_BYTES);
            cli_watch_changes(&round, seen, jobs, &b);
            fwrite(ty_buf_str(&b).ptr, 1, b.len, stdout);
            ty_buf_clear(&b);
        }
        json_decref(jobs);
        if (fflush(stdout) != 0) {
            err = ty_fail_errno(errno, "cannot write the output");
            break;
        }
    }
    c->arena = whole;
    ty_arena_clear(&round);
    json_decref(seen);
    return cli_fail(c, err);
}
