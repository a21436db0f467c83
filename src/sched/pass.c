/* pass.c -- one pass: look, decide, commit, act.
 *
 * P1 Nothing is done before it is committed: first all moves of a pass go to disk in one
 *    transaction, then conductors are started and cancels sent. A server that dies in between
 *    finds the rows and takes up from there.
 *
 * P2 Memory follows the rows: the lists change only after the commit. A commit that fails (full
 *    disk) leaves everything as it was and the pass is made again later, from the same journals.
 *
 * P3 The commit is waited for on this thread. That is the one blocking call, and on purpose: the
 *    next decision depends on it, and all that happens meanwhile goes into the next transaction. */
#include "sched/sched_int.h"

#include "auth/auth.h"
#include "wire/wire.h"

enum {
    COMMIT_RETRY_MS = 500,
    ROW_LINES_NS = 1000, /* more than a job has lines made of its rows */
};

/* ---- planning ---- */

static struct planned *plan_add(struct sched *s, struct active *j, enum planned_act act)
{
    if (s->plan_count == s->plan_cap) {
        s->plan_cap = s->plan_cap ? s->plan_cap * 2 : 64;
        s->plan = realloc(s->plan, s->plan_cap * sizeof *s->plan);
        ty_assert(s->plan);
    }
    struct planned *p = &s->plan[s->plan_count++];
    *p = (struct planned){.job = j, .change = {.job_id = j->id}, .act = act};
    return p;
}

/* Move the job to `state`, from where the moves planned before this one have brought it. */
static void plan_move(struct planned *p, enum job_state state)
{
    if (p->job->moving != state)
        p->change.state = state;
    p->job->moving = state;
}

/* The attempt of a planned change; store_apply gets its address once the array no longer moves. */
static struct attempt *plan_attempt(struct planned *p, enum attempt_state state)
{
    p->attempt = (struct attempt){.job_id = p->job->id, .number = p->job->attempt, .state = state};
    return &p->attempt;
}

static void plan_finish(struct sched *s, struct active *j, enum job_state state, ty_err code,
                        const char *message, const struct attempt *ended, int64_t ran_ms)
{
    /* A job with processes is CANCELLING before it is CANCELLED, also when both come at once. */
    if (state == JOB_STATE_CANCELLED && j->placed)
        plan_move(plan_add(s, j, ACT_NONE), JOB_STATE_CANCELLING);
    struct planned *p = plan_add(s, j, ACT_FINISH);
    plan_move(p, state);
    j->ending = true;
    p->change.end_ns = ended && ended->end_ns ? ended->end_ns : ty_now_ns();
    p->change.error_code = code;
    p->change.error_message = message;
    p->change.add_ran_ms = ran_ms;
    if (ended)
        p->attempt = *ended;
}

static void plan_retry(struct sched *s, struct active *j, const struct attempt *ended,
                       int64_t ran_ms, bool counts)
{
    struct planned *p = plan_add(s, j, ACT_RETRY);
    j->ending = true;
    plan_move(p, JOB_STATE_PENDING);
    p->change.add_retries = counts;
    p->change.add_ran_ms = ran_ms;
    p->attempt = *ended;
}

/* The first RUNNING of a job, or of a later attempt. */
static void plan_running(struct sched *s, struct active *j, const struct exec_look *look)
{
    struct planned *p = plan_add(s, j, ACT_RUN);
    if (j->moving != JOB_STATE_CANCELLING)
        plan_move(p, JOB_STATE_RUNNING);
    p->change.start_ns = look->running_ns;
    plan_attempt(p, ATTEMPT_RUNNING)->running_ns = look->running_ns;
}

/* ---- what became of an attempt ---- */

/* An attempt that failed in a way the rules call transient: another one, or the end. */
static void plan_failed_or_retry(struct sched *s, struct active *j, const struct attempt *ended,
                                 ty_err code, int64_t ran_ms)
{
    if (j->cancel_requested) {
        plan_finish(s, j, JOB_STATE_CANCELLED, TY_CANCELLED, "The job was cancelled.", ended,
                    ran_ms);
    } else if (!j->disable_retries && j->retries < MAX_RETRIES) {
        plan_retry(s, j, ended, ran_ms, true);
    } else {
        const char *message = ty_cstr(&s->pass, ended->message);
        if (j->retries)
            message =
                ty_format(&s->pass, "After %d retries of the whole job: %s", j->retries, message);
        plan_finish(s, j, JOB_STATE_FAILED, code, message, ended, ran_ms);
    }
}

static void plan_ended(struct sched *s, struct active *j, const struct exec_look *look,
                       struct attempt *ended)
{
    const char *message = ty_cstr(&s->pass, look->message);
    ended->outcome = look->outcome;
    ended->message = look->message;
    ended->end_ns = look->end_ns;
    if (ty_str_is(look->outcome, "succeeded"))
        plan_finish(s, j, JOB_STATE_SUCCEEDED, TY_OK, "", ended, look->ran_ms);
    else if (ty_str_is(look->outcome, "cancelled"))
        plan_finish(s, j, JOB_STATE_CANCELLED, TY_CANCELLED, message, ended, look->ran_ms);
    else if (look->retry)
        plan_failed_or_retry(s, j, ended, (ty_err)look->error_code, look->ran_ms);
    else
        plan_finish(s, j, JOB_STATE_FAILED, (ty_err)look->error_code, message, ended, look->ran_ms);
}

static void plan_lost(struct sched *s, struct active *j, struct attempt *ended)
{
    exec_attempt_sweep(s->setup.data_dir, j->id, j->attempt);
    ended->outcome = TY_STR("lost");
    ended->message = ty_str_of(ty_format(
        &s->pass,
        "the process that ran attempt %d died without a word (killed, its folder removed, or the "
        "machine went down)",
        j->attempt));
    plan_failed_or_retry(s, j, ended, TY_INTERNAL, ty_boot_ms() - j->placed_boot_ms);
}

/* Nothing of this attempt ever ran. Not the job's fault, so it costs no retry; but not for ever. */
static void plan_fenced(struct sched *s, struct active *j, struct attempt *ended)
{
    ended->outcome = TY_STR("fenced");
    ended->message = TY_STR("it was never started");
    if (j->broken)
        plan_finish(s, j, JOB_STATE_FAILED, TY_FAILED_PRECONDITION, j->broken, ended, 0);
    else if (j->cancel_requested)
        plan_finish(s, j, JOB_STATE_CANCELLED, TY_CANCELLED, "The job was cancelled.", ended, 0);
    else if (j->failed_starts >= MAX_FAILED_STARTS)
        plan_finish(s, j, JOB_STATE_FAILED, TY_UNAVAILABLE,
                    "its processes could not be started on this machine; the server's log says why",
                    ended, 0);
    else
        plan_retry(s, j, ended, 0, false);
}

/* Connect again to a conductor that lives (we just came back, or the connection broke). */
static void reconnect(struct sched *s, struct active *j)
{
    int fd;
    if (j->fd < 0 && exec_attempt_connect(s->setup.data_dir, j->id, j->attempt, &fd) == TY_OK)
        active_connect(s, j, fd);
}

/* Read the journal and plan what follows from it. Returns false when it must be looked at again. */
static bool look_at(struct sched *s, struct active *j)
{
    struct exec_look look;
    ty_err err = exec_attempt_look(&s->pass, s->setup.data_dir, j->id, j->attempt, &look);
    if (err != TY_OK) {
        log_error("sched.look", "job=%" PRId64 " attempt=%d error=%s", j->id, j->attempt,
                  ty_err_message());
        return false;
    }
    if (look.phase == EXEC_ABSENT && j->fd < 0 && j->running)
        look.phase = EXEC_LOST; /* it ran: somebody has removed its folder */
    /* No journal, and nobody there who could still create one? Only the fence can tell. */
    if (look.phase == EXEC_ABSENT && j->fd < 0) {
        err = exec_attempt_fence(s->setup.data_dir, j->id, j->attempt);
        if (err != TY_OK)
            return false; /* a conductor was first, or the disk is full: look again */
        look.phase = EXEC_FENCED;
    }
    if (look.running_ns && !j->running)
        plan_running(s, j, &look);
    if (look.preparing_ns)
        active_started(s, j); /* pip may take minutes: others start meanwhile */
    struct attempt ended = {
        .job_id = j->id, .number = j->attempt, .state = ATTEMPT_ENDED, .end_ns = ty_now_ns()};
    switch (look.phase) {
    case EXEC_ABSENT:
        return true; /* the conductor is on its way: its connection will tell */
    case EXEC_ALIVE:
        reconnect(s, j);
        return j->fd >= 0;
    case EXEC_ENDED:
        plan_ended(s, j, &look, &ended);
        return true;
    case EXEC_LOST:
        plan_lost(s, j, &ended);
        return true;
    case EXEC_FENCED:
        plan_fenced(s, j, &ended);
        return true;
    }
    return true;
}

static void plan_looks(struct sched *s)
{
    for (struct active *j = s->placed.first; j && s->looks; j = j->next)
        if (j->look)
            j->look_again = !look_at(s, j);
}

/* ---- cancels ---- */

static void plan_cancels(struct sched *s)
{
    for (struct active *j = s->waiting.first; j; j = j->next)
        if (j->cancel_requested)
            plan_finish(s, j, JOB_STATE_CANCELLED, TY_CANCELLED,
                        j->attempt ? "The job was cancelled while it waited to be tried again."
                                   : "The job was cancelled before it started.",
                        NULL, 0);
    for (struct active *j = s->placed.first; j; j = j->next)
        if (j->cancel_requested && j->state != JOB_STATE_CANCELLING && !j->ending) {
            plan_move(plan_add(s, j, ACT_NONE), JOB_STATE_CANCELLING);
        }
}

/* ---- starts ---- */

static char *ports_text(struct sched *s, const int *ports, int count)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    for (int i = 0; i < count; i++)
        ty_buf_addf(&b, "%s%d", i ? "," : "", ports[i]);
    char *text = ty_cstr(&s->pass, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

/* The devices of a job that is to have them; NULL if its spec cannot be read, or (never, by the
 * decision) too few are free: then it runs without, and its log says so. */
static char *take_devices(struct sched *s, const struct active *j)
{
    struct job job;
    json_t *body = NULL;
    ty_err err = store_job_load(s->setup.store, &s->pass, j->id, &job);
    if (err == TY_OK)
        err = wire_json_parse_members(job.body, &body);
    if (err != TY_OK)
        log_error("sched.devices", "job=%" PRId64 " error=%s", j->id, ty_err_message());
    char *devices = err == TY_OK
                        ? devices_take(&s->devices, s->setup.host, json_object_get(body, "jobSpec"))
                        : NULL;
    json_decref(body);
    return devices;
}

static void plan_start(struct sched *s, struct active *j, bool with_devices)
{
    int *ports = calloc((size_t)j->replicas, sizeof *ports);
    ty_assert(ports);
    ty_err err = ports_take(&s->ports, ports, j->replicas);
    if (err != TY_OK) {
        log_warn("sched.ports", "job=%" PRId64 " error=%s", j->id, ty_err_message());
        free(ports);
        j->hold_until_ms = ty_boot_ms() + HOLD_MS;
        return;
    }
    struct planned *p = plan_add(s, j, ACT_START);
    p->ports = ports;
    p->devices = with_devices ? take_devices(s, j) : NULL;
    plan_move(p, JOB_STATE_PENDING);
    p->attempt = (struct attempt){.job_id = j->id,
                                  .number = j->attempt + 1,
                                  .state = ATTEMPT_STARTED,
                                  .start_ns = ty_now_ns(),
                                  .ports = ty_str_of(ports_text(s, ports, j->replicas)),
                                  .devices = ty_str_of(p->devices)};
}

static void plan_waiting(struct sched *s, struct active *j, const struct sched_item *item,
                         int64_t now_ms)
{
    if (item->start)
        plan_start(s, j, item->devices);
    else if (item->expire)
        plan_finish(s, j, JOB_STATE_FAILED, TY_DEADLINE_EXCEEDED,
                    "no place was free within scheduling.maxWaitDuration", NULL, 0);
    else if (j->state == JOB_STATE_PENDING && now_ms - j->wait_boot_ms >= QUEUED_AFTER_MS) {
        struct planned *p = plan_add(s, j, ACT_NONE);
        plan_move(p, JOB_STATE_QUEUED);
        if (j->attempt == 0) /* a later wait comes after log lines; the retry's own line tells it */
            p->change.wait_reason = sched_wait_text(item->wait, item->behind);
    }
}

/* Only the head of the queue can start. Further back only those matter whose wait may be over or
 * who are not yet shown as queued; the whole queue is looked at once a tick, so that a long one
 * does not make each pass slow. */
static void plan_starts(struct sched *s)
{
    int64_t now_ms = ty_boot_ms();
    size_t count = s->waiting.count, head = (size_t)s->setup.config->start_burst * 2;
    if (now_ms - s->full_scan_ms >= TICK_MS)
        s->full_scan_ms = now_ms;
    else if (count > head)
        count = head;
    if (count == 0)
        return;
    struct sched_item *items = ty_new_array(&s->pass, struct sched_item, count);
    struct active **jobs = ty_new_array(&s->pass, struct active *, count);
    size_t n = 0;
    for (struct active *j = s->waiting.first; j && n < count; j = j->next) {
        if (j->cancel_requested)
            continue;
        int64_t waited = now_ms - j->wait_boot_ms;
        items[n] = (struct sched_item){
            .job_id = j->id,
            .ask = j->ask,
            .hold_ms = j->hold_until_ms - now_ms,
            .wait_left_ms = j->max_wait_ms == INT64_MAX ? INT64_MAX : j->max_wait_ms - waited};
        jobs[n++] = j;
    }
    struct sched_room room = sched_room(s->setup.config, s->setup.host);
    room.used = s->used;
    room.starting = s->starting;
    sched_decide(items, n, room);
    for (size_t i = 0; i < n; i++)
        plan_waiting(s, jobs[i], &items[i], now_ms);
}

/* ---- acting on what was committed ---- */

static int64_t later(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

/* A time above every line the job's log has when an attempt starts: those in earlier attempts'
 * files, and those made of its rows, which are pushed up by a nanosecond each where the clock was
 * set back. Lines that come later stay below them in the log then, too. */
static ty_err log_floor(struct sched *s, const struct job *job, int64_t *ret_ns)
{
    struct attempt *attempts;
    size_t count;
    ty_err err = store_attempt_list(s->setup.store, &s->pass, job->id, &attempts, &count);
    if (err != TY_OK)
        return err;
    int64_t floor_ns = job->create_ns;
    for (size_t i = 0; i < count; i++) {
        floor_ns = later(floor_ns, later(attempts[i].start_ns, attempts[i].end_ns));
        floor_ns =
            later(floor_ns, exec_log_last_ns(s->setup.data_dir, job->id, attempts[i].number));
    }
    *ret_ns = floor_ns + ROW_LINES_NS;
    return TY_OK;
}

/* One a replica, pool by pool, as its ports are. */
static const char *const *replica_tokens(struct ty_arena *a, const struct sched *s,
                                         const struct active *j, const json_t *spec)
{
    const json_t *pools = json_object_get(spec, "workerPoolSpecs");
    size_t n = 0;
    if (!s->setup.secret)
        return NULL;
    const char **tokens = ty_new_array(a, const char *, (size_t)exec_replica_count(spec) + 1);
    for (size_t pool = 0; pool < json_array_size(pools); pool++)
        for (int64_t i = 0; i < exec_pool_replicas(json_array_get(pools, pool)); i++) {
            struct http_replica r = {
                .job = j->id, .attempt = j->attempt, .pool = (int)pool, .index = (int)i};
            tokens[n++] = auth_replica_token(a, s->setup.secret, &r);
        }
    return tokens;
}

/* The job's plan: its spec, the environment of Google's clients, its ports. */
static ty_err launch_prepare(struct sched *s, struct active *j)
{
    struct ty_arena *a = &s->pass;
    struct job job;
    ty_err err = store_job_load(s->setup.store, a, j->id, &job);
    if (err != TY_OK)
        return err;
    json_t *body = NULL, *ml_input = NULL;
    err = wire_json_parse_members(job.body, &body);
    if (err == TY_OK && job.ml_id.len > 0)
        err = wire_json_parse(job.ml_input, &ml_input);
    if (err != TY_OK) {
        json_decref(body);
        return err;
    }
    size_t var_count;
    struct auth_var *vars = auth_job_env(a, s->setup.data_dir, s->setup.url, &var_count);
    const char **env = ty_new_array(a, const char *, var_count + 1);
    for (size_t i = 0; i < var_count; i++)
        env[i] = ty_format(a, "%s=%s", vars[i].name, vars[i].value);
    const json_t *spec = json_object_get(body, "jobSpec");
    int64_t floor_ns;
    err = log_floor(s, &job, &floor_ns);
    if (err != TY_OK) {
        json_decref(body);
        json_decref(ml_input);
        return err;
    }
    struct exec_job exec_job = {
        .id = j->id,
        .attempt = j->attempt,
        .project = job.project,
        .region = job.region,
        .spec = spec,
        .ports = j->ports,
        .data_dir = s->setup.data_dir,
        .client_env = env,
        .tokens = replica_tokens(a, s, j, spec),
        .timeout_ms = exec_timeout_ms(s->setup.config, spec) - j->ran_ms,
        .log_floor_ns = floor_ns,
        .shares = sched_shares(a, s->setup.host, spec, ty_str_of(j->devices)),
        .note = sched_note(a, s->setup.config, s->setup.host, spec, ty_str_of(j->devices)),
        .ml_id = job.ml_id,
        .ml_input = ml_input,
    };
    struct exec_plan plan;
    err = exec_plan_build(a, s->setup.config, &exec_job, &plan);
    if (err == TY_OK)
        err = exec_output_make(a, s->setup.data_dir, spec);
    if (err != TY_OK && !j->broken)
        j->broken = strdup(ty_err_message()); /* the job's own fault: no use to try again */
    if (err == TY_OK)
        err = exec_attempt_prepare(s->setup.data_dir, &plan);
    json_decref(body);
    json_decref(ml_input);
    return err;
}

static ty_err launch_start(struct sched *s, struct active *j)
{
    int fd;
    ty_err err = exec_launch(&s->launcher, j->id, j->attempt, &fd);
    if (err == TY_UNAVAILABLE) {
        log_warn("sched.launcher", "it is gone; starting another");
        exec_launcher_stop(&s->launcher);
        err = exec_launcher_start(&s->launcher, s->setup.data_dir);
        if (err == TY_OK)
            err = exec_launch(&s->launcher, j->id, j->attempt, &fd);
    }
    if (err == TY_OK)
        active_connect(s, j, fd);
    return err;
}

static void act_start(struct sched *s, struct planned *p)
{
    struct active *j = p->job;
    j->attempt = p->attempt.number;
    active_place(s, j, p->ports, p->devices);
    ty_err err = launch_prepare(s, j);
    if (err == TY_OK)
        err = launch_start(s, j);
    if (err != TY_OK) {
        log_error("sched.start", "job=%" PRId64 " attempt=%d error=%s", j->id, j->attempt,
                  ty_err_message());
        active_look(s, j); /* no journal: it will be fenced */
    }
}

static void act_retry(struct sched *s, struct planned *p)
{
    struct active *j = p->job;
    j->ending = false;
    j->retries += p->change.add_retries;
    j->ran_ms += p->change.add_ran_ms;
    if (ty_str_is(p->attempt.outcome, "fenced")) {
        /* Once is a server that died between two steps; twice is a machine with a problem. */
        if (j->failed_starts++ > 0)
            j->hold_until_ms = ty_boot_ms() + ((int64_t)HOLD_MS << j->failed_starts);
    } else {
        j->failed_starts = 0;
    }
    active_unplace(s, j);
    s->freed = true;
}

static void act_run(struct sched *s, struct planned *p)
{
    struct active *j = p->job;
    j->running = true;
    j->failed_starts = 0;
    active_started(s, j);
}

static void act(struct sched *s, struct planned *p)
{
    if (p->change.state)
        p->job->state = p->change.state;
    switch (p->act) {
    case ACT_NONE:
        break;
    case ACT_START:
        act_start(s, p);
        break;
    case ACT_RUN:
        act_run(s, p);
        break;
    case ACT_RETRY:
        log_info("job.retry", "job=%" PRId64 " attempt=%d outcome=" TY_STR_FMT, p->job->id,
                 p->attempt.number, TY_STR_ARG(p->attempt.outcome));
        act_retry(s, p);
        break;
    case ACT_FINISH:
        log_info("job.ended", "job=%" PRId64 " state=%s", p->job->id,
                 job_state_name(p->change.state));
        s->freed = p->job->placed || s->freed;
        if (s->setup.ended)
            s->setup.ended(s->setup.arg, p->job->id,
                           ty_str_is(p->attempt.outcome, "lost") ? p->attempt.number : 0);
        active_remove(s, p->job);
        break;
    }
}

static void send_cancels(struct sched *s)
{
    for (struct active *j = s->placed.first; j; j = j->next) {
        if (j->state != JOB_STATE_CANCELLING || j->cancel_sent || j->fd < 0)
            continue;
        if (exec_attempt_cancel(j->fd) == TY_OK)
            j->cancel_sent = true;
        else
            active_look(s, j);
    }
}

/* ---- the pass ---- */

static ty_err commit(struct sched *s)
{
    struct store_change *changes = ty_new_array(&s->pass, struct store_change, s->plan_count);
    for (size_t i = 0; i < s->plan_count; i++) {
        if (s->plan[i].attempt.number)
            s->plan[i].change.attempt = &s->plan[i].attempt;
        changes[i] = s->plan[i].change;
    }
    return store_apply(s->setup.store, changes, s->plan_count);
}

/* The commit failed: as if the plan had never been made (P2). */
static void plan_undo(struct sched *s)
{
    for (size_t i = 0; i < s->plan_count; i++) {
        struct planned *p = &s->plan[i];
        p->job->ending = false;
        p->job->moving = p->job->state;
        if (p->act == ACT_START) {
            ports_give(&s->ports, p->ports, p->job->replicas);
            free(p->ports);
            devices_give(&s->devices, ty_str_of(p->devices));
            free(p->devices);
        }
    }
}

/* The looks that led to this plan are done; those that failed stay. */
static void clear_looks(struct sched *s)
{
    for (struct active *j = s->placed.first; j && s->looks; j = j->next)
        if (j->look && !j->look_again) {
            j->look = false;
            s->looks--;
        }
}

void sched_pass(struct sched *s)
{
    s->freed = false;
    if (s->retry_boot_ms && ty_boot_ms() < s->retry_boot_ms)
        return;
    s->plan_count = 0;
    plan_looks(s);
    plan_cancels(s);
    plan_starts(s);
    if (s->plan_count) {
        ty_err err = commit(s);
        if (err != TY_OK) {
            log_error("sched.commit", "moves=%zu error=%s", s->plan_count, ty_err_message());
            plan_undo(s);
            s->retry_boot_ms = ty_boot_ms() + COMMIT_RETRY_MS;
            return;
        }
    }
    s->retry_boot_ms = 0;
    clear_looks(s);
    for (size_t i = 0; i < s->plan_count; i++)
        act(s, &s->plan[i]);
    send_cancels(s);
    if (s->plan_count || s->log_grew)
        s->setup.changed(s->setup.arg);
    s->log_grew = false;
}

/* ---- coming back ---- */

static ty_err adopt_attempt(struct sched *s, struct active *j)
{
    struct attempt *attempts;
    size_t count;
    ty_err err = store_attempt_list(s->setup.store, &s->pass, j->id, &attempts, &count);
    if (err != TY_OK)
        return err;
    struct attempt *newest = NULL;
    for (size_t i = 0; i < count; i++)
        if (attempts[i].number == j->attempt)
            newest = &attempts[i];
    if (!newest || newest->state == ATTEMPT_ENDED)
        return TY_OK;
    int *ports = calloc((size_t)j->replicas, sizeof *ports);
    ty_assert(ports);
    ty_str text = newest->ports, one;
    for (int i = 0; i < j->replicas && text.len; i++) {
        int64_t port = 0;
        ty_str_split(&text, ',', &one);
        if (ty_parse_i64(one, &port) == TY_OK)
            ports[i] = (int)port;
        ports_hold(&s->ports, ports[i]);
    }
    devices_hold(&s->devices, newest->devices);
    char *devices = newest->devices.len ? strdup(ty_cstr(&s->pass, newest->devices)) : NULL;
    active_place(s, j, ports, devices);
    if (newest->state == ATTEMPT_RUNNING) {
        j->running = true;
        active_started(s, j);
    }
    active_look(s, j);
    return TY_OK;
}

ty_err sched_adopt(struct sched *s)
{
    struct job *jobs;
    size_t count;
    ty_err err = store_active_list(s->setup.store, &s->pass, &jobs, &count);
    if (err != TY_OK)
        return err;
    ty_str boot_id = store_boot_id(s->setup.store);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        struct active *j = active_add(s, &jobs[i]);
        j->wait_boot_ms = active_wait_began_ms(&jobs[i], boot_id);
        if (j->attempt)
            err = adopt_attempt(s, j);
    }
    if (count)
        log_info("sched.adopted", "jobs=%zu running=%zu", count, s->placed.count);
    ty_arena_clear(&s->pass);
    return err;
}
