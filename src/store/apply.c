/* apply.c -- the scheduler's moves: the only code that changes a job's state.
 *
 * Each change is read against the row as it is in this transaction, checked (S1-S4 of store.h),
 * then written. A change that breaks a rule is a bug of ours, not of the user: TY_INTERNAL with the
 * job and both states, and the savepoint of the closure takes back the changes before it.
 *
 * A move that does not end the job leaves end_ns out of its UPDATE: the partial index of active
 * jobs hangs on that column, and SQLite would take the row out of it and put it back. */
#include "store/store_int.h"

struct apply {
    struct store *store;
    const struct store_change *changes;
    size_t count;
    int64_t now_ns;
    struct ty_arena arena; /* cut texts */
};

/* What the rules need of a row. */
struct current {
    enum job_state state;
    int64_t start_ns;
    int attempt;
};

static ty_err current_read(struct db_conn *c, int64_t job_id, struct current *ret_current)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT state, start_ns, attempt FROM job WHERE id = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, job_id);
    err = db_step(s, &row);
    if (err == TY_OK && !row)
        err = ty_fail(TY_NOT_FOUND, "job %" PRId64 " does not exist", job_id);
    if (err == TY_OK)
        *ret_current = (struct current){.state = (enum job_state)db_column_i64(s, 0),
                                        .start_ns = db_column_i64(s, 1),
                                        .attempt = (int)db_column_i64(s, 2)};
    return err;
}

/* ---- the rules ---- */

static ty_err check_move(const struct store_change *ch, const struct current *now)
{
    enum job_state to = ch->state ? ch->state : now->state;
    if (ch->state && ch->state != now->state && !job_state_may(now->state, ch->state))
        return ty_fail(TY_INTERNAL, "job %" PRId64 ": %s may not follow %s", ch->job_id,
                       job_state_name(ch->state), job_state_name(now->state));
    if (job_state_is_final(now->state))
        return ty_fail(TY_INTERNAL, "job %" PRId64 ": a change after it has ended, from %s to %s",
                       ch->job_id, job_state_name(now->state), job_state_name(to));
    if (ch->end_ns && !job_state_is_final(to))
        return ty_fail(TY_INTERNAL, "job %" PRId64 ": an end time, from %s to %s", ch->job_id,
                       job_state_name(now->state), job_state_name(to));
    if (ch->start_ns && (to == JOB_STATE_QUEUED || to == JOB_STATE_PENDING))
        return ty_fail(TY_INTERNAL, "job %" PRId64 ": a start time, from %s to %s", ch->job_id,
                       job_state_name(now->state), job_state_name(to));
    return TY_OK;
}

static ty_err attempt_state(struct db_conn *c, int64_t job_id, int number,
                            enum attempt_state *ret_state)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT state FROM attempt WHERE job_id = ?1 AND number = ?2", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, job_id);
    db_bind_i64(s, 2, number);
    err = db_step(s, &row);
    if (err == TY_OK && !row)
        err = ty_fail(TY_INTERNAL, "job %" PRId64 ": attempt %d has no row", job_id, number);
    if (err == TY_OK)
        *ret_state = (enum attempt_state)db_column_i64(s, 0);
    return err;
}

/* S4: a new attempt follows an ended one; an attempt goes forward, and is not touched after its
 * end. */
static ty_err check_attempt(struct db_conn *c, const struct attempt *at, int64_t job_id,
                            const struct current *now)
{
    enum attempt_state newest = ATTEMPT_ENDED; /* before the first there is nothing to wait for */
    ty_err err = TY_OK;
    if (now->attempt > 0)
        err = attempt_state(c, job_id, now->attempt, &newest);
    if (err != TY_OK)
        return err;
    bool new = at->number == now->attempt + 1;
    bool may = new ? newest == ATTEMPT_ENDED
                   : at->number == now->attempt &&newest != ATTEMPT_ENDED && at->state >= newest;
    if (!may || at->state < ATTEMPT_STARTED || at->state > ATTEMPT_ENDED)
        return ty_fail(TY_INTERNAL,
                       "job %" PRId64 " in %s: attempt %d may not go to state %d, the newest is "
                       "attempt %d in state %d",
                       job_id, job_state_name(now->state), at->number, (int)at->state, now->attempt,
                       (int)newest);
    return TY_OK;
}

/* ---- writing ---- */

static ty_err attempt_write(struct db_conn *c, struct apply *x, const struct attempt *at,
                            int64_t job_id)
{
    struct db_stmt *s;
    ty_err err =
        db_prepare(c,
                   "INSERT INTO attempt VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) "
                   "ON CONFLICT (job_id, number) DO UPDATE SET state = excluded.state,"
                   " start_ns = iif(excluded.start_ns, excluded.start_ns, start_ns),"
                   " running_ns = iif(excluded.running_ns, excluded.running_ns, running_ns),"
                   " end_ns = iif(excluded.end_ns, excluded.end_ns, end_ns),"
                   " ports = iif(excluded.ports <> '', excluded.ports, ports),"
                   " outcome = iif(excluded.outcome <> '', excluded.outcome, outcome),"
                   " message = iif(excluded.message <> '', excluded.message, message),"
                   " devices = iif(excluded.devices <> '', excluded.devices, devices)",
                   &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, job_id);
    db_bind_i64(s, 2, at->number);
    db_bind_i64(s, 3, at->state);
    db_bind_i64(s, 4, at->start_ns);
    db_bind_i64(s, 5, at->running_ns);
    db_bind_i64(s, 6, at->end_ns);
    db_bind_str(s, 7, at->ports);
    db_bind_str(s, 8, at->outcome);
    db_bind_str(s, 9, store_clean_text(&x->arena, at->message, STORE_MESSAGE_BYTES));
    db_bind_str(s, 10, at->devices);
    return db_run(s);
}

static void bind_text(struct db_stmt *s, int n, struct apply *x, const char *text, size_t limit)
{
    if (text)
        db_bind_str(s, n, store_clean_text(&x->arena, ty_str_of(text), limit));
}

#define JOB_UPDATE                                                                                 \
    "UPDATE job SET state = ?2, update_ns = ?3, start_ns = ?4,"                                    \
    " error_code = coalesce(?5, error_code), error_message = coalesce(?6, error_message),"         \
    " wait_reason = iif(wait_reason = '', coalesce(?7, ''), wait_reason),"                         \
    " retries = retries + ?8, ran_ms = ran_ms + ?9,"                                               \
    " attempt = ?10, wait_boot_ms = coalesce(?11, wait_boot_ms), boot_id = coalesce(?12, boot_id)"

/* Parameters that are not bound are NULL, and keep the column. */
static ty_err job_write(struct db_conn *c, struct apply *x, const struct store_change *ch,
                        const struct current *now)
{
    enum job_state to = ch->state ? ch->state : now->state;
    bool ends = job_state_is_final(to);
    struct db_stmt *s;
    ty_err err = db_prepare(
        c, ends ? JOB_UPDATE ", end_ns = ?13 WHERE id = ?1" : JOB_UPDATE " WHERE id = ?1", &s);
    if (err != TY_OK)
        return err;
    int64_t start_ns = now->start_ns; /* S2: the first one stays */
    if (!start_ns)
        start_ns = ch->start_ns || to != JOB_STATE_RUNNING ? ch->start_ns : x->now_ns;
    db_bind_i64(s, 1, ch->job_id);
    db_bind_i64(s, 2, to);
    db_bind_i64(s, 3, x->now_ns);
    db_bind_i64(s, 4, start_ns);
    if (ch->error_code)
        db_bind_i64(s, 5, ch->error_code);
    bind_text(s, 6, x, ch->error_message, STORE_MESSAGE_BYTES);
    bind_text(s, 7, x, ch->wait_reason, STORE_REASON_BYTES);
    db_bind_i64(s, 8, ch->add_retries);
    db_bind_i64(s, 9, ch->add_ran_ms);
    db_bind_i64(s, 10, ch->attempt ? ch->attempt->number : now->attempt);
    if (now->state == JOB_STATE_RUNNING && to == JOB_STATE_PENDING) { /* it waits again */
        db_bind_i64(s, 11, ty_boot_ms());
        db_bind_str(s, 12, store_boot_id(x->store));
    }
    if (ends) /* S3 */
        db_bind_i64(s, 13, ch->end_ns ? ch->end_ns : x->now_ns);
    return db_run(s);
}

static ty_err apply_one(struct db_conn *c, struct apply *x, const struct store_change *ch)
{
    struct current now;
    ty_err err = current_read(c, ch->job_id, &now);
    if (err == TY_OK)
        err = check_move(ch, &now);
    if (err == TY_OK && ch->attempt)
        err = check_attempt(c, ch->attempt, ch->job_id, &now);
    if (err == TY_OK && ch->attempt)
        err = attempt_write(c, x, ch->attempt, ch->job_id);
    if (err == TY_OK)
        err = job_write(c, x, ch, &now);
    return err;
}

static ty_err apply_fn(struct db_conn *c, void *arg)
{
    struct apply *x = arg;
    x->now_ns = ty_now_ns();
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->count && err == TY_OK; i++)
        err = apply_one(c, x, &x->changes[i]);
    return err;
}

ty_err store_apply(struct store *s, const struct store_change *changes, size_t count)
{
    if (count == 0)
        return TY_OK;
    struct apply x = {.store = s, .changes = changes, .count = count};
    ty_err err = db_write(s->db, apply_fn, &x);
    ty_arena_clear(&x.arena);
    return err;
}
