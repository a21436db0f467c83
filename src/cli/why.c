/* why.c -- trainyard why: what a job waits for and who holds it, how it is doing, why it ended. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum { COLUMNS = 5, SHOWN_HOLDERS = 20 };

/* "2026-01-31 14:02:11 (12s ago)" */
static const char *since_text(struct ty_arena *a, const json_t *value)
{
    int64_t ns;
    char when[64];
    struct tm tm;
    if (wire_time_parse(wire_json_get_str(value, "since"), &ns) != TY_OK)
        return "an unknown time";
    time_t seconds = (time_t)(ns / 1000000000);
    localtime_r(&seconds, &tm);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    return ty_format(a, "%s (%s ago)", when, cli_span_text(a, ty_now_ns() - ns));
}

static int64_t number(const json_t *value, const char *key)
{
    return json_integer_value(json_object_get(value, key));
}

static ty_str short_state(const json_t *value)
{
    ty_str state = wire_json_get_str(value, "state");
    return ty_str_starts(state, TY_STR("JOB_STATE_")) ? ty_str_drop(state, 10) : state;
}

static void add_jobs(struct ty_arena *a, struct ty_buf *b, const json_t *jobs)
{
    static const char *const head[COLUMNS] = {"ID", "NAME", "STATE", "REPLICAS", "SINCE"};
    size_t count = json_array_size(jobs) < SHOWN_HOLDERS ? json_array_size(jobs) : SHOWN_HOLDERS;
    ty_str *cells = ty_new_array(a, ty_str, (count + 1) * COLUMNS);
    for (size_t k = 0; k < COLUMNS; k++)
        cells[k] = ty_str_of(head[k]);
    for (size_t i = 0; i < count; i++) {
        const json_t *job = json_array_get(jobs, i);
        ty_str *row = cells + (i + 1) * COLUMNS;
        row[0] = wire_json_get_str(job, "job");
        row[1] = wire_json_get_str(job, "displayName");
        row[2] = short_state(job);
        row[3] = ty_str_of(ty_format(a, "%" PRId64, number(job, "replicas")));
        row[4] = ty_str_of(since_text(a, job));
    }
    cli_table_add(a, b, cells, count + 1, COLUMNS);
    if (json_array_size(jobs) > count)
        ty_buf_addf(b, "... and %zu more\n", json_array_size(jobs) - count);
}

static double real(const json_t *value, const char *key)
{
    return json_number_value(json_object_get(value, key));
}

/* What there is, what of it is in use, and what the job needs. */
static void add_room(struct ty_buf *b, const json_t *why)
{
    static const double gb = 1 << 30;
    ty_buf_addf(b, "Replica slots: %" PRId64 " of %" PRId64 " in use; it needs %" PRId64 ".\n",
                number(why, "slotsUsed"), number(why, "slots"), number(why, "replicas"));
    ty_buf_addf(b, "Job slots: %" PRId64 " of %" PRId64 " in use.\n", number(why, "jobSlotsUsed"),
                number(why, "jobSlots"));
    if (json_object_get(why, "cpus") != NULL)
        ty_buf_addf(b,
                    "CPUs: %g of %g in use; it needs %g. Memory: %.1f of %.1f GB in use; it needs "
                    "%.1f.\n",
                    real(why, "cpusUsed"), real(why, "cpus"), real(why, "cpusAsked"),
                    real(why, "memoryBytesUsed") / gb, real(why, "memoryBytes") / gb,
                    real(why, "memoryBytesAsked") / gb);
    if (json_object_get(why, "devices") != NULL)
        ty_buf_addf(b, "GPUs: %" PRId64 " of %" PRId64 " in use; it needs %" PRId64 ".\n",
                    number(why, "devicesUsed"), number(why, "devices"),
                    number(why, "devicesAsked"));
}

static void add_wait(struct ty_arena *a, struct ty_buf *b, const json_t *why)
{
    const json_t *holders = json_object_get(why, "heldBy");
    int64_t ahead = number(why, "aheadCount");
    ty_str remedy = wire_json_get_str(why, "startsWith");
    add_room(b, why);
    if (json_object_get(why, "waitLeftMs") != NULL)
        ty_buf_addf(b, "It waits %s more at most (scheduling.maxWaitDuration).\n",
                    cli_span_text(a, number(why, "waitLeftMs") * 1000000));
    if (json_array_size(holders) > 0) {
        ty_buf_addz(b, "\nThese hold places:\n");
        add_jobs(a, b, holders);
    }
    if (ahead > 0) {
        const json_t *list = json_object_get(why, "ahead");
        ty_buf_addf(b, "\n%" PRId64 " older job%s before it:\n", ahead,
                    ahead == 1 ? " waits" : "s wait");
        add_jobs(a, b, list);
        if (ahead > (int64_t)json_array_size(list))
            ty_buf_addf(b, "... and %" PRId64 " more\n", ahead - (int64_t)json_array_size(list));
    }
    if (remedy.len > 0)
        ty_buf_addf(b, "\nWhat would start it now: " TY_STR_FMT ".\n", TY_STR_ARG(remedy));
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* The attempt that matters whole, the others in a line each. */
static void add_attempts(struct ty_arena *a, struct ty_buf *b, const json_t *why)
{
    ty_str before = wire_json_get_str(why, "before");
    const json_t *attempt;
    size_t i;
    if (before.len > 0)
        ty_buf_addf(b, "The attempt before: " TY_STR_FMT "\n",
                    TY_STR_ARG(cli_text_shown(a, before, true)));
    json_array_foreach (json_object_get(why, "earlier"), i, attempt)
        ty_buf_addf(b, "Attempt %" PRId64 ": " TY_STR_FMT "\n", number(attempt, "attempt"),
                    TY_STR_ARG(cli_text_shown(a, wire_json_get_str(attempt, "reason"), false)));
}

void cli_why_text(struct ty_arena *a, struct ty_buf *b, const json_t *why)
{
    ty_str state = short_state(why), name = wire_json_get_str(why, "name"), id;
    ty_str reason = ty_str_trim(wire_json_get_str(why, "reason"));
    bool waits = json_is_true(json_object_get(why, "waits"));
    bool ended = ty_str_is(state, "SUCCEEDED") || ty_str_is(state, "FAILED") ||
                 ty_str_is(state, "CANCELLED");
    int64_t attempt = number(why, "attempt"), retries = number(why, "retries");
    int64_t restarts = number(why, "restarts");
    while (ty_str_split(&name, '/', &id))
        ;
    ty_str shown = cli_text_shown(a, wire_json_get_str(why, "displayName"), false);
    ty_buf_addf(b, "Job " TY_STR_FMT " '" TY_STR_FMT "' is " TY_STR_FMT ".\n", TY_STR_ARG(id),
                TY_STR_ARG(shown), TY_STR_ARG(state));
    ty_buf_addf(b, "%s %s%s: " TY_STR_FMT "%s\n", ended ? "It ended" : "Since", since_text(a, why),
                waits ? " it waits" : "", TY_STR_ARG(cli_text_shown(a, reason, true)),
                ty_str_ends(reason, TY_STR(".")) || ended ? "" : ".");
    if (attempt > 0)
        ty_buf_addf(b,
                    "Attempt %" PRId64 "; the whole job was tried again %" PRId64
                    " time%s, replicas were restarted in place %" PRId64 " time%s.\n",
                    attempt, retries, plural(retries), restarts, plural(restarts));
    ty_str restarted = wire_json_get_str(why, "restarted");
    if (restarted.len > 0)
        ty_buf_addf(b, "The last restart: " TY_STR_FMT "\n",
                    TY_STR_ARG(cli_text_shown(a, restarted, true)));
    add_attempts(a, b, why);
    ty_str slow = wire_json_get_str(why, "slow");
    if (slow.len > 0)
        ty_buf_addf(b, TY_STR_FMT "\n", TY_STR_ARG(cli_text_shown(a, slow, true)));
    ty_str asked = wire_json_get_str(why, "asked"), note = wire_json_get_str(why, "note");
    if (note.len > 0)
        ty_buf_addf(b, TY_STR_FMT "\n", TY_STR_ARG(note));
    else if (asked.len > 0)
        ty_buf_addf(b, "It asked for " TY_STR_FMT ".\n", TY_STR_ARG(asked));
    if (waits)
        add_wait(a, b, why);
}

int cli_why(struct cli *c)
{
    ty_str id;
    json_t *why;
    int status = cli_job_begin(c, &id);
    if (status != CLI_OK)
        return status;
    ty_err err = cli_job_ask(c, id, "why", &why);
    return err == TY_OK ? cli_job_show(c, why, cli_why_text) : cli_fail(c, err);
}
