/* why.c -- why a job is where it is: what it waits for, who holds that, what would start it.
 *
 * From the rows alone, by the scheduler's own decision (sched_decide): an answer that was kept
 * beside the queue could be old, this one cannot disagree with what the next pass does. What only
 * the scheduler's memory has (a port that was taken, the rest after it) is not seen here; such a
 * job is said to start in a moment, and that is so. */
#include "sched/sched_int.h"

#include "exec/exec.h"
#include "joblog/joblog.h"
#include "wire/wire.h"

/* What is known of the newest attempt. */
struct progress {
    bool placed, starting;
    int64_t since_ns; /* of its wait, its start or its run */
    int64_t hold_ms;
    ty_str devices;           /* of the newest attempt, ended or not */
    struct attempt *attempts; /* oldest first */
    size_t count;
};

/* As `trainyard train` has it in its log. */
#define SLOW_WORDS " is slow: it costs "

/* As act_retry has it: a second start in a row that came to nothing makes the next one wait. */
static int64_t hold_left_ms(const struct attempt *attempts, size_t count)
{
    int fenced = 0;
    for (size_t i = count; i > 0 && ty_str_is(attempts[i - 1].outcome, "fenced"); i--)
        fenced++;
    if (fenced < 2 || fenced > MAX_FAILED_STARTS)
        return 0;
    int64_t since_ms = (ty_now_ns() - attempts[count - 1].end_ns) / 1000000;
    return ((int64_t)HOLD_MS << fenced) - since_ms;
}

static ty_err progress_read(struct store *store, struct ty_arena *a, const struct job *job,
                            struct progress *ret)
{
    struct attempt *attempts;
    size_t count;
    *ret = (struct progress){.since_ns = job->create_ns};
    if (job->attempt == 0)
        return TY_OK;
    ty_err err = store_attempt_list(store, a, job->id, &attempts, &count);
    if (err != TY_OK || count == 0)
        return err;
    const struct attempt *newest = &attempts[count - 1];
    ret->placed = newest->state != ATTEMPT_ENDED;
    ret->starting = newest->state == ATTEMPT_STARTED;
    ret->since_ns = newest->state == ATTEMPT_ENDED     ? newest->end_ns
                    : newest->state == ATTEMPT_RUNNING ? newest->running_ns
                                                       : newest->start_ns;
    ret->devices = newest->devices;
    ret->attempts = attempts;
    ret->count = count;
    ret->hold_ms = ret->placed ? 0 : hold_left_ms(attempts, count);
    return TY_OK;
}

static struct sched_why_job other_job(const struct job *job, int64_t since_ns)
{
    return (struct sched_why_job){.id = job->id,
                                  .project = job->project,
                                  .display_name = job->display_name,
                                  .state = job->state,
                                  .replicas = job->replicas,
                                  .since_ns = since_ns};
}

/* ---- a job that waits ---- */

struct queue {
    struct sched_item *items; /* up to the job itself, which is the last */
    size_t count;
    struct sched_room room;
    struct sched_amounts *held; /* by why->holders, in their order */
};

/* What a job asks for, by its row. */
static struct sched_amounts ask_of(const struct job *job)
{
    json_t *body = NULL;
    struct sched_amounts ask = {.jobs = 1};
    if (wire_json_parse_members(job->body, &body) == TY_OK)
        ask = sched_ask(json_object_get(body, "jobSpec"));
    json_decref(body);
    ask.replicas = job->replicas;
    return ask;
}

static void amounts_add(struct sched_amounts *to, const struct sched_amounts *more, int sign)
{
    to->jobs += sign * more->jobs;
    to->replicas += sign * more->replicas;
    to->cpu_milli += sign * more->cpu_milli;
    to->memory_bytes += sign * more->memory_bytes;
    to->devices += sign * more->devices;
}

static void queue_add_holder(const struct sched_why_setup *setup, const struct job *job,
                             const struct progress *p, struct sched_why *why, struct queue *q)
{
    struct sched_amounts held = ask_of(job);
    held.devices = devices_count(setup->host, p->devices);
    q->held[why->holder_count] = held;
    why->holders[why->holder_count++] = other_job(job, p->since_ns);
    amounts_add(&q->room.used, &held, 1);
    q->room.starting += p->starting;
}

/* Every job that has not ended: into the queue, or among those that hold places. */
static ty_err queue_read(const struct sched_why_setup *setup, struct ty_arena *a,
                         struct sched_why *why, struct queue *q)
{
    struct job *jobs;
    size_t count;
    ty_err err = store_active_list(setup->store, a, &jobs, &count);
    if (err != TY_OK)
        return err;
    q->room = sched_room(setup->config, setup->host);
    q->items = ty_new_array(a, struct sched_item, count + 1);
    q->held = ty_new_array(a, struct sched_amounts, count + 1);
    why->holders = ty_new_array(a, struct sched_why_job, count + 1);
    why->ahead = ty_new_array(a, struct sched_why_job, SCHED_WHY_AHEAD);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        struct progress p;
        err = progress_read(setup->store, a, &jobs[i], &p);
        if (err != TY_OK)
            break;
        if (p.placed) {
            queue_add_holder(setup, &jobs[i], &p, why, q);
        } else if (!jobs[i].cancel_requested && jobs[i].id <= why->job.id) {
            /* Others' maxWaitDuration does not matter: a wait that is over lasts one pass more. */
            q->items[q->count++] = (struct sched_item){.job_id = jobs[i].id,
                                                       .ask = ask_of(&jobs[i]),
                                                       .wait_left_ms = INT64_MAX,
                                                       .hold_ms = p.hold_ms};
            if (jobs[i].id < why->job.id && why->ahead_count++ < SCHED_WHY_AHEAD)
                why->ahead[why->ahead_count - 1] = other_job(&jobs[i], p.since_ns);
        }
    }
    return err;
}

/* ---- what would start it: the decision again, on edited input ---- */

/* Would the last of the queue start in this room? That others are starting passes by itself. */
static bool would_start(const struct queue *q, struct sched_room room)
{
    room.starting = 0;
    room.starts = INT_MAX;
    sched_decide(q->items, q->count, room);
    return q->items[q->count - 1].start;
}

/* "job 17 'name' ends", if that is enough; else how many of the oldest must. NULL: no end helps. */
static const char *remedy_ends(struct ty_arena *a, const struct sched_why *why,
                               const struct queue *q)
{
    for (size_t i = 0; i < why->holder_count; i++) {
        struct sched_room room = q->room;
        amounts_add(&room.used, &q->held[i], -1);
        if (would_start(q, room))
            return ty_format(a, "job %" PRId64 " '" TY_STR_FMT "' ends or is cancelled",
                             why->holders[i].id, TY_STR_ARG(why->holders[i].display_name));
    }
    struct sched_room room = q->room;
    for (size_t i = 0; i < why->holder_count; i++) {
        amounts_add(&room.used, &q->held[i], -1);
        if (would_start(q, room))
            return ty_format(a, "the %zu oldest of the jobs that run end or are cancelled", i + 1);
    }
    return NULL;
}

/* "with n1-standard-2 it would start now": the largest of the common types that does. */
static const char *remedy_type(struct ty_arena *a, const struct queue *q)
{
    static const char *const names[] = {"n1-standard-64", "n1-standard-32", "n1-standard-16",
                                        "n1-standard-8",  "n1-standard-4",  "n1-standard-2",
                                        "n1-standard-1"};
    struct sched_item *item = &q->items[q->count - 1];
    struct sched_amounts asked = item->ask;
    const char *found = NULL;
    for (size_t i = 0; i < TY_COUNT(names) && !found; i++) {
        struct machine_type type;
        ty_assert(machine_type_find(ty_str_of(names[i]), &type) == TY_OK);
        item->ask.cpu_milli = asked.replicas * type.cpu_milli;
        item->ask.memory_bytes = asked.replicas * type.memory_bytes;
        if (item->ask.cpu_milli < asked.cpu_milli && would_start(q, q->room))
            found = names[i];
    }
    item->ask = asked;
    return found ? ty_format(a, "with machineType %s it would start now", found) : NULL;
}

/* The setting that would let it start now, if one alone does. */
static const char *remedy_setting(struct ty_arena *a, const struct queue *q, enum sched_wait wait)
{
    struct sched_room room = q->room;
    const char *line = NULL;
    if (wait == SCHED_WAIT_JOBS) {
        room.all.jobs = room.used.jobs + (int)(q->count < INT_MAX / 2 ? q->count : INT_MAX / 2);
        line = ty_format(a, "max_running_jobs = %d", room.all.jobs);
    } else if (wait == SCHED_WAIT_CPU || wait == SCHED_WAIT_MEMORY) {
        room.fit = false;
        line = "capacity = share";
    } else if (wait == SCHED_WAIT_DEVICES) {
        room.wait_for_devices = false;
        line = "accelerators = cpu";
    }
    return line && would_start(q, room)
               ? ty_format(a, "%s in trainyard.conf and a restart of the server", line)
               : NULL;
}

/* What is missing until everybody up to this job has a place. */
static void explain_slots(struct ty_arena *a, struct sched_why *why, const struct queue *q)
{
    int slots = q->room.all.replicas;
    int64_t wanted = q->room.used.replicas;
    for (size_t i = 0; i < q->count; i++)
        wanted += q->items[i].hold_ms > 0 ? 0 : q->items[i].ask.replicas;
    if (why->job.replicas > slots) {
        why->remedy = ty_format(a,
                                "a larger machine: it has %d replicas and the setting "
                                "replica_slots is %d; with replica_slots = %d in trainyard.conf "
                                "and a restart of the server it can start",
                                why->job.replicas, slots, why->job.replicas);
        return;
    }
    int64_t missing = wanted - slots;
    why->remedy =
        ty_format(a,
                  "%" PRId64 " more free replica slot%s: jobs that hold them end or are cancelled; "
                  "or replica_slots = %" PRId64 " in trainyard.conf and a restart of the server",
                  missing, missing == 1 ? "" : "s", wanted);
}

static void explain_missing(struct ty_arena *a, struct sched_why *why, const struct queue *q)
{
    bool size = why->wait == SCHED_WAIT_CPU || why->wait == SCHED_WAIT_MEMORY;
    const char *ways[] = {remedy_ends(a, why, q), size ? remedy_type(a, q) : NULL,
                          remedy_setting(a, q, why->wait)};
    for (size_t i = 0; i < TY_COUNT(ways); i++)
        if (ways[i])
            why->remedy = why->remedy ? ty_format(a, "%s; or %s", why->remedy, ways[i]) : ways[i];
}

static ty_err explain_wait(const struct sched_why_setup *setup, struct ty_arena *a,
                           struct sched_why *why)
{
    struct queue q = {0};
    ty_err err = queue_read(setup, a, why, &q);
    if (err != TY_OK)
        return err;
    why->used = q.room.used;
    why->wait_left_ms = active_wait_left_ms(&why->job, store_boot_id(setup->store));
    struct sched_item *item = q.count > 0 ? &q.items[q.count - 1] : NULL;
    if (item == NULL || item->job_id != why->job.id) {
        why->reason = why->job.cancel_requested ? "its cancel is under way"
                                                : "it has moved on this very moment: ask again";
        return TY_OK;
    }
    item->wait_left_ms = why->wait_left_ms;
    sched_decide(q.items, q.count, q.room);
    why->wait = item->wait;
    why->reason = item->start    ? "it starts in a moment"
                  : item->expire ? "its maxWaitDuration is over: it ends in a moment"
                                 : sched_wait_text(item->wait, item->behind);
    if (item->wait == SCHED_WAIT_SLOTS)
        explain_slots(a, why, &q);
    else if (item->wait > SCHED_WAIT_SLOTS)
        explain_missing(a, why, &q);
    return TY_OK;
}

/* ---- a job that runs ---- */

/* Why an attempt's replicas are being stopped; NULL: they are not. */
static const char *stopping_text(ty_str outcome)
{
    if (ty_str_is(outcome, "timeout"))
        return "its time is over (scheduling.timeout); its processes have the grace period to end";
    if (ty_str_is(outcome, "failed"))
        return "a replica has failed; the others have the grace period to end";
    if (ty_str_is(outcome, "succeeded"))
        return "its chief has finished; the other replicas have the grace period to end";
    return NULL;
}

/* The chief's newest line about a replica that is slow (train/together.c). */
static const char *slow_text(struct ty_arena *a, const char *data_dir, const struct job *job)
{
    enum { LINES = 200, BYTES = 1 << 15 };
    const char *found = NULL,
               *folder = ty_format(a, "%s/jobs/%" PRId64 "/%d", data_dir, job->id, job->attempt);
    int dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct ty_buf b;
    if (dirfd < 0)
        return NULL;
    ty_buf_init(&b, 2 * BYTES);
    ty_str line, rest;
    if (joblog_tail(dirfd, "log", 0, 0, LINES, BYTES, &b) == TY_OK)
        for (rest = ty_buf_str(&b); rest.len > 0;) {
            bool more = ty_str_split(&rest, '\n', &line);
            if (memmem(line.ptr, line.len, SLOW_WORDS, sizeof SLOW_WORDS - 1))
                found = ty_cstr(a, line);
            if (!more)
                break;
        }
    ty_buf_clear(&b);
    close(dirfd);
    return found;
}

static void explain_run(struct ty_arena *a, const char *data_dir, const struct progress *p,
                        struct sched_why *why)
{
    struct exec_look look = {0};
    why->since_ns = p->since_ns;
    const char *stopping = NULL;
    if (exec_attempt_look(a, data_dir, why->job.id, why->job.attempt, &look) == TY_OK)
        stopping = stopping_text(look.stopping);
    if (why->job.state == JOB_STATE_CANCELLING || why->job.cancel_requested)
        why->reason = "it was asked to stop; its processes have the grace period to end";
    else if (stopping)
        why->reason = stopping;
    else if (p->starting)
        why->reason = "its replicas are being started";
    else
        why->reason = "all its replicas are running";
    const char *stopped = exec_attempt_stopped(a, data_dir, why->job.id, why->job.attempt);
    if (stopped && !stopping)
        why->reason = ty_format(a,
                                "its replica %s is stopped (SIGSTOP) now: whoever needs it waits "
                                "for it",
                                stopped);
    why->slow = slow_text(a, data_dir, &why->job);
}

/* ---- attempts that are over ---- */

/* "The replica ... . What to do. Its last lines:\n..." (exec's conductor.c), or how it ended if
 * nobody was left to say more. */
static ty_str attempt_message(struct ty_arena *a, const struct attempt *t)
{
    ty_str message = ty_str_trim(t->message);
    return message.len > 0
               ? message
               : ty_str_of(ty_format(a, "it ended: " TY_STR_FMT, TY_STR_ARG(t->outcome)));
}

/* Of that the first line, and of the others the last few. The log has all of them. */
static const char *diagnosis(struct ty_arena *a, const struct attempt *t)
{
    enum { LINES = 3 };
    ty_str lines = attempt_message(a, t), first;
    size_t from, count = 0;
    if (!ty_str_split(&lines, '\n', &first))
        return ty_cstr(a, first);
    for (from = lines.len; from > 0; from--)
        if (lines.ptr[from - 1] == '\n' && ++count == LINES)
            break;
    lines = ty_str_drop(lines, from);
    return ty_format(a, TY_STR_FMT "\n" TY_STR_FMT, TY_STR_ARG(first), TY_STR_ARG(lines));
}

/* Of the same, the first sentence and the last line. */
static const char *attempt_line(struct ty_arena *a, const struct attempt *t)
{
    enum { BYTES = 300 };
    ty_str last = attempt_message(a, t), sentence;
    bool more = ty_str_split(&last, '\n', &sentence);
    const char *stop = memmem(sentence.ptr, sentence.len, ". ", 2);
    const char *newline = more ? memrchr(last.ptr, '\n', last.len) : NULL;
    if (stop)
        sentence.len = (size_t)(stop - sentence.ptr);
    if (newline)
        last = ty_str_drop(last, (size_t)(newline + 1 - last.ptr));
    char *line = ty_format(a, TY_STR_FMT "%s" TY_STR_FMT, TY_STR_ARG(sentence), more ? ": " : "",
                           TY_STR_ARG(last));
    size_t n = BYTES;
    if (strlen(line) <= n)
        return line;
    while (n > 0 && ((unsigned char)line[n] & 0xc0) == 0x80)
        n--; /* whole characters */
    return ty_format(a, "%.*s...", (int)n, line);
}

/* Does the reason why the job ended tell this attempt's end? */
static bool attempt_ended_the_job(const struct job *job, const struct attempt *t)
{
    return ty_str_is(t->outcome, "succeeded") || ty_str_is(t->outcome, "cancelled") ||
           (t->message.len > 0 && ty_str_ends(job->error_message, t->message));
}

/* Rows do not count them, journals do; one that is gone or damaged counts for nothing here. */
static void explain_restarts(struct ty_arena *a, const char *data_dir, const struct progress *p,
                             struct sched_why *why)
{
    for (size_t i = 0; i < p->count; i++) {
        struct exec_look look;
        const struct attempt *t = &p->attempts[i];
        if (exec_attempt_look(a, data_dir, t->job_id, t->number, &look) != TY_OK)
            continue;
        why->restarts += look.restarts;
        if (look.restarted.len > 0)
            why->restarted = ty_cstr(a, look.restarted);
    }
}

static void explain_attempts(struct ty_arena *a, const struct progress *p, struct sched_why *why)
{
    size_t over = p->placed ? p->count - 1 : p->count;
    bool final = job_state_is_final(why->job.state);
    if (over > 0 && !final)
        why->before = diagnosis(a, &p->attempts[--over]);
    else if (over > 0 && attempt_ended_the_job(&why->job, &p->attempts[over - 1]))
        over--;
    for (size_t i = over > SCHED_WHY_EARLIER ? over - SCHED_WHY_EARLIER : 0; i < over; i++)
        why->earlier[why->earlier_count++] =
            (struct sched_why_attempt){p->attempts[i].number, attempt_line(a, &p->attempts[i])};
}

/* ---- all jobs ---- */

/* What it asked for, and (once it was started) what it has instead. */
static void explain_machine(const struct sched_why_setup *setup, struct ty_arena *a,
                            const struct progress *p, struct sched_why *why)
{
    json_t *body = NULL;
    const json_t *spec = NULL;
    if (wire_json_parse_members(why->job.body, &body) == TY_OK)
        spec = json_object_get(body, "jobSpec");
    why->asked = sched_asked_text(a, spec);
    if (why->job.attempt > 0)
        why->note = sched_note(a, setup->config, setup->host, spec, p->devices);
    json_decref(body);
    struct sched_room room = sched_room(setup->config, setup->host);
    why->all = room.all;
    why->fit = room.fit;
    why->ask = ask_of(&why->job);
}

ty_err sched_why(const struct sched_why_setup *setup, struct ty_arena *a, ty_str project,
                 int64_t job_id, struct sched_why *ret_why)
{
    struct sched_why why = {.wait_left_ms = INT64_MAX};
    struct progress p;
    ty_err err = store_job_find(setup->store, a, project, job_id, &why.job);
    if (err == TY_OK)
        err = progress_read(setup->store, a, &why.job, &p);
    if (err != TY_OK)
        return err;
    explain_machine(setup, a, &p, &why);
    explain_attempts(a, &p, &why);
    explain_restarts(a, setup->data_dir, &p, &why);
    why.since_ns = p.since_ns;
    if (job_state_is_final(why.job.state)) {
        why.since_ns = why.job.end_ns;
        why.reason = why.job.error_message.len > 0 ? ty_cstr(a, why.job.error_message)
                     : why.job.state == JOB_STATE_SUCCEEDED
                         ? "the job's program said so: its chief exited with status 0"
                         : "no reason was recorded";
    } else if (p.placed) {
        explain_run(a, setup->data_dir, &p, &why);
    } else {
        why.waits = true;
        err = explain_wait(setup, a, &why);
    }
    if (err == TY_OK)
        *ret_why = why;
    return err;
}
