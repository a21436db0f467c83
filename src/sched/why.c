/* why.c -- why a job is where it is: what it waits for, who holds that, what would start it.
 *
 * From the rows alone, by the scheduler's own decision (sched_decide): an answer that was kept
 * beside the queue could be old, this one cannot disagree with what the next pass does. What only
 * the scheduler's memory has (a port that was taken, the rest after it) is not seen here; such a
 * job is said to start in a moment, and that is so. */
#include "sched/sched_int.h"

#include "exec/exec.h"

/* What is known of the newest attempt. */
struct progress {
    bool placed, starting;
    int64_t since_ns; /* of its wait, its start or its run */
    int64_t hold_ms;
};

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
    struct sched_item *items;
    size_t count;
    struct sched_room room;
};

/* Every job that has not ended: into the queue, or among those that hold slots. */
static ty_err queue_read(struct store *store, const struct ty_config *config, struct ty_arena *a,
                         struct sched_why *why, struct queue *q)
{
    struct job *jobs;
    size_t count;
    ty_err err = store_active_list(store, a, &jobs, &count);
    if (err != TY_OK)
        return err;
    q->room = (struct sched_room){.slots = (int)config->replica_slots,
                                  .starts = (int)config->start_burst};
    q->items = ty_new_array(a, struct sched_item, count + 1);
    why->holders = ty_new_array(a, struct sched_why_job, count + 1);
    why->ahead = ty_new_array(a, struct sched_why_job, SCHED_WHY_AHEAD);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        struct progress p;
        err = progress_read(store, a, &jobs[i], &p);
        if (err != TY_OK)
            break;
        if (p.placed) {
            why->holders[why->holder_count++] = other_job(&jobs[i], p.since_ns);
            q->room.slots_used += jobs[i].replicas;
            q->room.starting += p.starting;
        } else if (!jobs[i].cancel_requested && jobs[i].id <= why->job.id) {
            /* Others' maxWaitDuration does not matter: a wait that is over lasts one pass more. */
            q->items[q->count++] = (struct sched_item){.job_id = jobs[i].id,
                                                       .replicas = jobs[i].replicas,
                                                       .wait_left_ms = INT64_MAX,
                                                       .hold_ms = p.hold_ms};
            if (jobs[i].id < why->job.id && why->ahead_count++ < SCHED_WHY_AHEAD)
                why->ahead[why->ahead_count - 1] = other_job(&jobs[i], p.since_ns);
        }
    }
    return err;
}

/* What is missing until everybody up to this job has a place. */
static void explain_slots(struct ty_arena *a, struct sched_why *why, const struct queue *q)
{
    int64_t wanted = q->room.slots_used;
    for (size_t i = 0; i < q->count; i++)
        wanted += q->items[i].hold_ms > 0 ? 0 : q->items[i].replicas;
    if (why->job.replicas > q->room.slots) {
        why->remedy = ty_format(a,
                                "a larger machine: it has %d replicas and the setting "
                                "replica_slots is %d; with replica_slots = %d in trainyard.conf "
                                "and a restart of the server it can start",
                                why->job.replicas, q->room.slots, why->job.replicas);
        return;
    }
    int64_t missing = wanted - q->room.slots;
    why->remedy =
        ty_format(a,
                  "%" PRId64 " more free replica slot%s: jobs that hold them end or are cancelled; "
                  "or replica_slots = %" PRId64 " in trainyard.conf and a restart of the server",
                  missing, missing == 1 ? "" : "s", wanted);
}

static ty_err explain_wait(struct store *store, const struct ty_config *config, struct ty_arena *a,
                           struct sched_why *why)
{
    struct queue q = {0};
    ty_err err = queue_read(store, config, a, why, &q);
    if (err != TY_OK)
        return err;
    why->slots_used = q.room.slots_used;
    why->wait_left_ms = active_wait_left_ms(&why->job, store_boot_id(store));
    struct sched_item *item = q.count > 0 ? &q.items[q.count - 1] : NULL;
    if (item == NULL || item->job_id != why->job.id) {
        why->reason = why->job.cancel_requested ? "its cancel is under way"
                                                : "it has moved on this very moment: ask again";
        return TY_OK;
    }
    item->wait_left_ms = why->wait_left_ms;
    sched_decide(q.items, q.count, q.room);
    why->reason = item->start    ? "it starts in a moment"
                  : item->expire ? "its maxWaitDuration is over: it ends in a moment"
                                 : item->reason;
    bool full = false; /* somebody up to here does not fit */
    for (size_t i = 0; i < q.count; i++)
        full |= q.items[i].reason != NULL && strstr(q.items[i].reason, "slots") != NULL;
    if (!item->start && !item->expire && item->hold_ms <= 0 && full)
        explain_slots(a, why, &q);
    return TY_OK;
}

/* ---- all jobs ---- */

static void explain_run(struct ty_arena *a, const char *data_dir, const struct progress *p,
                        struct sched_why *why)
{
    struct exec_look look;
    why->since_ns = p->since_ns;
    if (why->job.state == JOB_STATE_CANCELLING || why->job.cancel_requested)
        why->reason = "it was asked to stop; its processes have the grace period to end";
    else if (p->starting)
        why->reason = "its replicas are being started";
    else
        why->reason = "all its replicas are running";
    if (exec_attempt_look(a, data_dir, why->job.id, why->job.attempt, &look) == TY_OK)
        why->restarts = look.restarts;
}

ty_err sched_why(struct store *store, const struct ty_config *config, const char *data_dir,
                 struct ty_arena *a, ty_str project, int64_t job_id, struct sched_why *ret_why)
{
    struct sched_why why = {.slots = (int)config->replica_slots, .wait_left_ms = INT64_MAX};
    struct progress p;
    ty_err err = store_job_find(store, a, project, job_id, &why.job);
    if (err == TY_OK)
        err = progress_read(store, a, &why.job, &p);
    if (err != TY_OK)
        return err;
    why.since_ns = p.since_ns;
    if (job_state_is_final(why.job.state)) {
        why.since_ns = why.job.end_ns;
        why.reason = why.job.error_message.len > 0 ? ty_cstr(a, why.job.error_message)
                     : why.job.state == JOB_STATE_SUCCEEDED
                         ? "the job's program said so: its chief exited with status 0"
                         : "no reason was recorded";
    } else if (p.placed) {
        explain_run(a, data_dir, &p, &why);
    } else {
        why.waits = true;
        err = explain_wait(store, config, a, &why);
    }
    if (err == TY_OK)
        *ret_why = why;
    return err;
}
