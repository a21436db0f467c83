/* conductor.c -- the process that runs one attempt, from its first replica to its end record.
 *
 * It needs no server: timeout, grace, kill and restarts are its own, and hold while nobody listens.
 * One thread waits for everything at once. A round of the loop: take what happened, then settle it
 * in one place (conductor_tick), so that two things that happen together have one order: ends of
 * replicas come before a cancel, and a chief that has ended well before the cancel came has
 * succeeded.
 *
 * The order of the beginning matters:
 *   1. lock     from here on the attempt is alive
 *   2. ctl      so that whoever sees a journal finds somebody to talk to
 *   3. journal  created O_EXCL: if it is there, the server fenced us and nothing may run
 *   4. begin    synced, file and folders, before the first replica: after a power loss it tells
 *               that something ran
 * And of the end: all descendants and containers gone, log synced, end record synced, peers told.
 *
 * A plan may have a preparation: a process that runs alone, under all the rules of a replica, and
 * whose good end starts the replicas. While it runs, `replicas` holds it and nothing else.
 *
 * "running" is not synced: after a power loss the attempt is lost with or without it. */
#include "exec/exec_int.h"

enum {
    TAIL_LINES = 20,
    TAIL_BYTES = 2048,
    TIMEOUT_NAMES = 8,
    WAIT_MS = 30000,
    EVENTS = 64,
    SWEEP_MS = 30000,
};

/* ---- descriptors ---- */

void source_open(struct conductor *c, struct source *s)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
    ty_assert(s->fd >= 0);
    if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, s->fd, &event) != 0)
        log_error("conductor.epoll", "job=%" PRId64 " error='%s'", c->job_id, strerror(errno));
}

void source_close(struct source *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* ---- how it ends ---- */

static void stop_all(struct conductor *c, int64_t grace_ms)
{
    int sig = grace_ms > 0 ? SIGTERM : SIGKILL;
    for (size_t i = 0; i < c->replica_count; i++) {
        c->replicas[i].restart_due = false;
        replica_signal(&c->replicas[i], &c->setup, sig);
    }
    c->kill_ms = grace_ms > 0 ? ty_boot_ms() + grace_ms : INT64_MAX;
}

static bool anybody_runs(const struct conductor *c)
{
    for (size_t i = 0; i < c->replica_count; i++)
        if (c->replicas[i].state != REPLICA_GONE)
            return true;
    return false;
}

/* For who asks in the grace period; not synced. */
static void note_stopping(struct conductor *c)
{
    struct ty_buf fields;
    ty_buf_init(&fields, 256);
    journal_field(&fields, "outcome", ty_str_of(c->outcome));
    if (journal_add(&c->journal, "stopping", ty_buf_str(&fields)) != TY_OK)
        log_warn("conductor.journal", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    ty_buf_clear(&fields);
}

/* Decide the outcome, once, and stop who still runs. The message is what `c->message` holds. */
static void decide(struct conductor *c, const char *outcome, ty_err code, bool retry,
                   int64_t grace_ms)
{
    ty_assert(!c->outcome);
    c->outcome = outcome;
    c->code = code;
    c->retry = retry;
    if (grace_ms > 0 && anybody_runs(c))
        note_stopping(c);
    stop_all(c, grace_ms);
}

static void decide_start_failed(struct conductor *c, const struct exec_replica *r, const char *why,
                                int start_errno, ty_err code, bool retry)
{
    char name[REPLICA_NAME_BYTES];
    ty_buf_addf(&c->message, "%s could not be started: %.2000s.", replica_name(r, name), why);
    hints_add(&c->message, HINT_ERRNO, start_errno, (ty_str){0});
    decide(c, "failed", code, retry && !c->plan.disable_retries, 0);
}

static int64_t oom_kills(void)
{
    struct ty_arena a = {0};
    ty_str text = {0}, line;
    int64_t count = 0;
    if (ty_file_read(AT_FDCWD, "/proc/vmstat", 1 << 20, &a, &text) == TY_OK)
        while (ty_str_split(&text, '\n', &line))
            if (ty_str_starts(line, TY_STR("oom_kill ")) &&
                ty_parse_i64(ty_str_drop(line, 9), &count) != TY_OK)
                count = 0;
    ty_arena_clear(&a);
    return count;
}

/* ---- replicas ---- */

static bool start_replica(struct conductor *c, struct replica *r)
{
    ty_err err = replica_start(r, &c->setup);
    if (err) {
        char *why = ty_err_take();
        r->state = REPLICA_GONE;
        r->judged = true;
        decide_start_failed(c, r->plan, why, 0, err, true);
        free(why);
        return false;
    }
    for (int i = 0; i < STREAM_COUNT; i++) {
        ty_buf_init(&r->streams[i].line, (size_t)c->plan.log_line_bytes + 1);
        r->streams[i].line_continues = false;
        if (!c->log_stuck)
            source_open(c, &r->streams[i].source);
    }
    source_open(c, &r->status);
    source_open(c, &r->process);
    return true;
}

static void start_list(struct conductor *c, const struct exec_replica *plans, size_t count)
{
    c->replicas = ty_new_array(&c->arena, struct replica, count);
    c->replica_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct replica *r = &c->replicas[i];
        r->plan = &plans[i];
        r->process.fd = r->status.fd = -1;
        for (int k = 0; k < STREAM_COUNT; k++)
            r->streams[k].source.fd = -1;
        c->replica_count++;
        if (!start_replica(c, r))
            return;
    }
}

static void start_all(struct conductor *c)
{
    start_list(c, c->plan.replicas, c->plan.replica_count);
    if (c->replica_count == c->plan.replica_count && !c->outcome)
        usage_say_provisioned(c);
}

/* A command that is gone, or init, without ever having started. */
static void judge_unstarted(struct conductor *c, struct replica *r)
{
    char why[512];
    bool transient = !r->exec_failed || r->start_errno == EAGAIN || r->start_errno == ENOMEM;
    if (r->exec_failed)
        snprintf(why, sizeof why, "'%.400s': %s", r->plan->argv[0], strerror(r->start_errno));
    else if (r->start_errno)
        snprintf(why, sizeof why, "cannot set up its process: %s", strerror(r->start_errno));
    else
        snprintf(why, sizeof why, "its process was killed");
    decide_start_failed(c, r->plan, why, r->exec_failed ? r->start_errno : 0,
                        transient ? TY_INTERNAL : TY_INVALID_ARGUMENT, transient);
}

/* The last lines the replica printed, made safe for a journal and a JSON string. From the arena. */
static ty_str last_lines(struct conductor *c, const struct exec_replica *r)
{
    struct ty_buf tail;
    ty_str lines = {0};
    ty_buf_init(&tail, TAIL_BYTES + 1);
    output_flush(c);
    if (joblog_tail(c->dirfd, "log", r->pool, r->index, TAIL_LINES, TAIL_BYTES, &tail) == TY_OK) {
        for (size_t i = 0; i < tail.len; i++)
            if ((unsigned char)tail.ptr[i] < 0x20 && tail.ptr[i] != '\n' && tail.ptr[i] != '\t')
                tail.ptr[i] = ' ';
        lines = ty_str_dup(&c->arena, ty_str_trim(ty_buf_str(&tail)));
    }
    ty_buf_clear(&tail);
    return lines;
}

static void add_lines(struct conductor *c, ty_str lines)
{
    if (lines.len > 0) {
        ty_buf_addz(&c->message, " Its last lines:\n");
        ty_buf_adds(&c->message, lines);
    }
}

static void restart(struct conductor *c, struct replica *r, const struct rules_exit *e)
{
    struct ty_buf fields, words;
    ty_buf_init(&fields, 1024);
    ty_buf_init(&words, 512);
    r->restarts++;
    r->restart_due = true;
    rules_describe(&words, r->plan, e);
    journal_field(&fields, "replica",
                  ty_str_of(ty_format(&c->arena, "%d-%d", r->plan->pool, r->plan->index)));
    journal_field_int(&fields, "count", r->restarts);
    journal_field(&fields, "why", ty_buf_str(&words));
    if (journal_add(&c->journal, "restart", ty_buf_str(&fields)) != TY_OK)
        log_warn("conductor.journal", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    output_say(c, "%s Restarting it (%d of %d).", words.ptr, r->restarts, RULES_RESTARTS);
    peers_tell(c, 'j');
    ty_buf_clear(&fields);
    ty_buf_clear(&words);
}

/* How it ended, what to do, what it said. */
static void describe_failure(struct conductor *c, const struct exec_replica *r,
                             const struct rules_exit *e)
{
    ty_str lines = last_lines(c, r);
    rules_describe(&c->message, r, e);
    rules_advise(&c->message, e, lines);
    add_lines(c, lines);
}

/* A replica is gone, and nothing is decided yet. */
static void judge(struct conductor *c, struct replica *r)
{
    r->judged = true;
    if (!r->started) {
        judge_unstarted(c, r);
        return;
    }
    int64_t kills = oom_kills();
    struct rules_exit e = {
        .chief = r->plan->pool == 0 && r->plan->index == 0,
        .wait_status = r->wait_status,
        .out_of_memory = r->oom_kills >= 0 ? r->oom_kills > 0 : kills > c->oom_kills,
        .memory_told = r->oom_kills >= 0,
        .memory_limit_bytes = r->memory_limited ? r->plan->share.memory_bytes : 0,
        .process_limit = r->processes_refused ? c->plan.replica_processes : 0,
        .restarts = r->restarts,
    };
    c->oom_kills = kills;
    struct rules_answer answer = rules_decide(&c->plan, &e);
    switch (answer.verdict) {
    case RULES_GO_ON:
        break;
    case RULES_SUCCEEDED:
        if (c->replica_count > 1)
            output_say(c, "The chief has finished: the other replicas are told to stop.");
        decide(c, "succeeded", TY_OK, false, c->plan.grace_ms);
        break;
    case RULES_RESTART:
        restart(c, r, &e);
        break;
    case RULES_FAILED:
        describe_failure(c, r->plan, &e);
        decide(c, "failed", answer.code, answer.retry, c->plan.grace_ms);
        break;
    }
}

/* The preparation has ended by itself: the replicas' turn, or the end. What it printed is the
 * reason, and its package stays what it is, so there is no retry; a signal comes from outside. */
static void judge_preparation(struct conductor *c)
{
    struct replica *r = &c->replicas[0];
    if (r->state == REPLICA_GONE)
        output_drain(c, r);
    if (r->state != REPLICA_GONE || !output_drained(r) || r->judged || c->outcome)
        return;
    r->judged = true;
    bool by_signal = WIFSIGNALED(r->wait_status);
    const char *what = r->plan->engine ? "container" : "package";
    if (!r->started) {
        judge_unstarted(c, r);
    } else if (r->wait_status == 0) {
        c->preparing = false;
        start_all(c);
    } else {
        if (by_signal)
            ty_buf_addf(&c->message, "Preparing the %s was ended by signal %d.", what,
                        WTERMSIG(r->wait_status));
        else
            ty_buf_addf(&c->message, "The %s could not be prepared.", what);
        add_lines(c, last_lines(c, r->plan));
        decide(c, "failed", by_signal ? TY_INTERNAL : TY_INVALID_ARGUMENT,
               by_signal && !c->plan.disable_retries, c->plan.grace_ms);
    }
}

/* ---- the round ---- */

/* Its descendants may still be there, but nothing can change the outcome any more. */
static bool chief_succeeded(const struct conductor *c)
{
    if (c->replica_count == 0 || c->preparing)
        return false;
    const struct replica *chief = &c->replicas[0];
    return chief->started && chief->exited && chief->wait_status == 0;
}

static void note_running(struct conductor *c)
{
    size_t started = 0;
    for (size_t i = 0; i < c->replica_count; i++)
        started += c->replicas[i].started;
    if (c->running || c->preparing || c->outcome || started < c->plan.replica_count)
        return;
    c->running = true;
    c->running_ms = ty_boot_ms();
    output_say(c, "All replicas are running (attempt %d).", c->plan.attempt);
    output_flush(c); /* who is told of the state finds the line */
    if (journal_add(&c->journal, "running", (ty_str){0}) != TY_OK)
        log_warn("conductor.journal", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    peers_tell(c, 'j');
}

/* Deal with the ends of replicas. Until all have started, only failures to start count. */
static void judge_ends(struct conductor *c)
{
    for (size_t i = 0; i < c->replica_count; i++) {
        struct replica *r = &c->replicas[i];
        if (r->state == REPLICA_GONE)
            output_drain(c, r);
        bool counts = !c->preparing && (c->running || !r->started);
        if (r->state == REPLICA_GONE && !r->judged && !c->outcome && counts)
            judge(c, r);
    }
}

/* The grace is over. */
static void kill_the_rest(struct conductor *c)
{
    c->kill_ms = INT64_MAX;
    for (size_t i = 0; i < c->replica_count; i++) {
        struct replica *r = &c->replicas[i];
        char name[REPLICA_NAME_BYTES];
        if (r->state != REPLICA_GONE)
            output_say(c, "%s did not stop within %.1f seconds: it is killed.",
                       replica_name(r->plan, name), (double)c->plan.grace_ms / 1000);
        replica_signal(r, &c->setup, SIGKILL);
    }
}

/* Who had not finished, and what the chief said last. */
static void describe_timeout(struct conductor *c, int64_t now)
{
    size_t shown = 0, running = 0;
    ty_buf_addf(&c->message,
                "The job reached its timeout and was stopped, %.1f seconds after this attempt "
                "began.",
                (double)(now - c->begin_ms) / 1000);
    for (size_t i = 0; i < c->replica_count; i++) {
        const struct replica *r = &c->replicas[i];
        if (r->exited || r->state == REPLICA_GONE || c->preparing || ++running > TIMEOUT_NAMES)
            continue;
        ty_buf_addf(&c->message, "%s workerpool%d-%d",
                    shown++ ? "," : " Still running:", r->plan->pool, r->plan->index);
    }
    if (running > shown)
        ty_buf_addf(&c->message, " and %zu more", running - shown);
    ty_buf_addf(&c->message, "%s Raise scheduling.timeout if it needs longer", shown ? "." : "");
    ty_buf_addz(&c->message, c->replica_count > 1
                                 ? "; replicas that wait for each other find their addresses in "
                                   "TF_CONFIG and CLUSTER_SPEC."
                                 : ".");
    if (c->replica_count > 0)
        add_lines(c, last_lines(c, c->replicas[0].plan));
}

static void check_deadlines(struct conductor *c, int64_t now)
{
    if (c->replica_count > 0)
        replica_read_status(&c->replicas[0]); /* it may have ended before the cancel came */
    if (!c->outcome && c->cancel_asked && !chief_succeeded(c)) {
        ty_buf_addz(&c->message, "The job was cancelled.");
        output_say(c, "The job is being cancelled: its replicas are told to stop.");
        decide(c, "cancelled", TY_CANCELLED, false, c->plan.grace_ms);
    }
    if (!c->outcome && now - c->begin_ms >= c->plan.timeout_ms && !chief_succeeded(c)) {
        describe_timeout(c, now);
        output_say(c, "The job's time is over: its replicas are told to stop.");
        decide(c, "timeout", TY_DEADLINE_EXCEEDED, false, c->plan.grace_ms);
    }
    if (now >= c->kill_ms)
        kill_the_rest(c);
}

static void do_restarts(struct conductor *c)
{
    for (size_t i = 0; i < c->replica_count; i++) {
        struct replica *r = &c->replicas[i];
        if (r->restart_due && output_drained(r)) {
            r->restart_due = false;
            start_replica(c, r);
        }
    }
}

/* All replicas are gone, and their output is read, or given up. */
static bool all_gone(struct conductor *c, int64_t now)
{
    bool drained = true;
    if (!c->outcome)
        return false;
    for (size_t i = 0; i < c->replica_count; i++) {
        if (c->replicas[i].state != REPLICA_GONE)
            return false;
        drained = drained && output_drained(&c->replicas[i]);
    }
    if (c->gone_ms == 0)
        c->gone_ms = now;
    return drained;
}

/* True when there is nothing left to wait for. */
static bool conductor_tick(struct conductor *c)
{
    int64_t now = ty_boot_ms();
    if (c->preparing && c->replica_count > 0)
        judge_preparation(c);
    note_running(c);
    judge_ends(c);
    check_deadlines(c, now);
    do_restarts(c);
    usage_tick(c, now);
    output_tick(c, now);
    peers_tell_log(c, now);
    if (!all_gone(c, now))
        return false;
    output_finish(c);
    return output_settled(c);
}

static int wait_ms(const struct conductor *c)
{
    int64_t now = ty_boot_ms(), next = now + WAIT_MS; /* epoll does not count time in suspend */
    bool decided = c->outcome || chief_succeeded(c);
    int64_t due[] = {decided ? INT64_MAX : c->begin_ms + c->plan.timeout_ms, c->kill_ms,
                     output_next_ms(c), peers_next_ms(c), usage_next_ms(c)};
    for (size_t i = 0; i < TY_COUNT(due); i++)
        next = due[i] < next ? due[i] : next;
    return next <= now ? 0 : (int)(next - now);
}

static void handle(struct conductor *c, struct source *s)
{
    if (s->fd < 0) /* closed earlier in this round */
        return;
    switch (s->kind) {
    case SOURCE_LISTEN:
        peers_accept(c);
        break;
    case SOURCE_PEER:
        peers_read(c, s);
        break;
    case SOURCE_STATUS:
        replica_read_status(s->replica);
        break;
    case SOURCE_PROCESS:
        replica_reap(s->replica, &c->setup);
        if (s->replica->state == REPLICA_GONE)
            usage_note(c, s->replica);
        break;
    case SOURCE_STREAM:
        output_read(c, &s->replica->streams[s->stream]);
        break;
    }
}

static void conductor_loop(struct conductor *c)
{
    struct epoll_event events[EVENTS];
    while (!conductor_tick(c)) {
        int n = epoll_wait(c->epoll_fd, events, EVENTS, wait_ms(c));
        for (int i = 0; i < n; i++)
            handle(c, events[i].data.ptr);
    }
}

/* ---- beginning and end ---- */

/* TY_ALREADY_EXISTS: not ours to run. */
static ty_err take_lock(struct conductor *c)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    c->lock_fd = openat(c->dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (c->lock_fd < 0)
        return ty_fail_errno(errno, "cannot open 'lock'");
    if (fcntl(c->lock_fd, F_SETLK, &lock) == 0)
        return TY_OK;
    return errno == EAGAIN || errno == EACCES
               ? ty_fail(TY_ALREADY_EXISTS, "another conductor runs this attempt")
               : ty_fail_errno(errno, "cannot lock 'lock'");
}

/* The folder and the two above it: their entries are what leads to the journal. */
static ty_err sync_folders(int dirfd)
{
    static const char *const names[] = {".", "..", "../.."};
    for (size_t i = 0; i < TY_COUNT(names); i++) {
        int fd = openat(dirfd, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return ty_fail_errno(errno, "cannot open the folder '%s'", names[i]);
        ty_err err = ty_sync(fd);
        close(fd);
        if (err)
            return err;
    }
    return TY_OK;
}

static ty_err begin_journal(struct conductor *c)
{
    struct ty_buf fields;
    ty_buf_init(&fields, 256);
    journal_field_int(&fields, "format", JOURNAL_FORMAT);
    journal_field_int(&fields, "pid", getpid());
    journal_field(&fields, "isolation", ty_str_of(exec_isolation()));
    ty_err err = journal_add(&c->journal, "begin", ty_buf_str(&fields));
    ty_buf_clear(&fields);
    if (err == TY_OK)
        err = ty_sync(c->journal.fd);
    return err ? err : sync_folders(c->dirfd);
}

/* Up to the begin record. On failure nothing runs, and the look of the folder tells the server. */
static ty_err conductor_begin(struct conductor *c, const char *data_dir)
{
    ty_err err = attempt_open(data_dir, c->job_id, c->attempt, &c->dirfd);
    if (err == TY_OK)
        err = take_lock(c);
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (err == TY_OK && c->epoll_fd < 0)
        err = ty_fail_errno(errno, "cannot make an epoll");
    if (err == TY_OK)
        err = peers_listen(c);
    if (err)
        return err;
    err = journal_create(&c->journal, c->dirfd);
    if (err == TY_OK)
        err = begin_journal(c);
    if (err)
        unlinkat(c->dirfd, "ctl", 0);
    return err;
}

/* The record is for the scheduler, which does not wait for us with other starts; not synced. */
static void start_preparation(struct conductor *c)
{
    c->preparing = true;
    if (journal_add(&c->journal, "preparing", (ty_str){0}) != TY_OK)
        log_warn("conductor.journal", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    peers_tell(c, 'j');
    start_list(c, c->plan.prepare, 1);
}

/* Read the plan, open the log, start everybody. */
static void conductor_start(struct conductor *c)
{
    c->begin_ms = ty_boot_ms();
    c->oom_kills = oom_kills();
    ty_err err = spec_read(&c->arena, c->dirfd, &c->plan);
    if (err == TY_OK)
        err = joblog_writer_open(&c->log, c->dirfd, "log", c->plan.log_floor_ns);
    if (err) {
        ty_buf_addf(&c->message, "The attempt could not be started: %.2000s.", ty_err_message());
        decide(c, "failed", err, true, 0);
        return;
    }
    c->setup =
        (struct replica_setup){.dirfd = c->dirfd,
                               .lock_fd = c->lock_fd,
                               .mark = attempt_mark(&c->arena, c->data_dir, c->job_id, c->attempt)};
    if (getrlimit(RLIMIT_NOFILE, &c->setup.files) == 0) {
        struct rlimit most = {c->setup.files.rlim_max, c->setup.files.rlim_max};
        setrlimit(RLIMIT_NOFILE, &most); /* four descriptors a replica */
    }
    usage_begin(c);
    if (c->plan.note)
        output_say(c, "%s", c->plan.note);
    if (c->plan.prepare)
        start_preparation(c);
    else
        start_all(c);
}

static void add_end_fields(const struct conductor *c, struct ty_buf *b)
{
    int64_t ran_ms = c->running ? ty_boot_ms() - c->running_ms : 0;
    ty_str message = ty_buf_str(&c->message);
    journal_field(b, "outcome", ty_str_of(c->outcome));
    journal_field_int(b, "retry", c->retry);
    journal_field_int(b, "code", c->code);
    journal_field_int(b, "ran_ms", ran_ms);
    journal_field(b, "message", message);
}

/* The end record. A full disk is waited for: while we live, the attempt is not lost. */
static bool write_end(struct conductor *c)
{
    struct ty_buf fields;
    bool done = false;
    ty_buf_init(&fields, JOURNAL_RESERVE_BYTES);
    add_end_fields(c, &fields);
    for (int tries = 0; !done && tries < 25; tries++) {
        ty_err err = journal_add(&c->journal, "end", ty_buf_str(&fields));
        if (err == TY_OK)
            err = ty_sync(c->journal.fd);
        done = err == TY_OK;
        if (done)
            break;
        log_error("conductor.end", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
        if (err == TY_RESOURCE_EXHAUSTED)
            tries = 0;
        nanosleep(&(struct timespec){.tv_nsec = 200 * 1000000L}, NULL);
    }
    ty_buf_clear(&fields);
    return done;
}

static int conductor_end(struct conductor *c)
{
    if (c->log.fd >= 0 && c->log_unsynced && joblog_sync(&c->log) != TY_OK)
        log_warn("conductor.log_sync", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    if (c->log_lost)
        ty_buf_addz(&c->message,
                    " The last lines of the log are lost: the disk was full and stayed so.");
    if (!container_sweep(c->data_dir, c->job_id, c->attempt, SWEEP_MS))
        ty_buf_addz(&c->message, " A container of this job may still be there: the engine did not "
                                 "remove it.");
    unlink(attempt_meeting(&c->arena, c->data_dir, c->job_id, c->attempt));
    if (plan_output_clear(&c->plan) != TY_OK)
        log_warn("conductor.output", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    bool done = write_end(c);
    peers_tell(c, 'j');
    unlinkat(c->dirfd, "ctl", 0);
    return done ? 0 : 1;
}

static void conductor_clear(struct conductor *c)
{
    joblog_writer_close(&c->log);
    usage_clear(c);
    journal_close(&c->journal);
    peers_close(c);
    ty_buf_clear(&c->message);
    ty_arena_clear(&c->arena);
    int fds[] = {c->epoll_fd, c->dirfd, c->lock_fd};
    for (size_t i = 0; i < TY_COUNT(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

int conductor_run(const char *data_dir, int64_t job_id, int attempt, int peer_fd)
{
    struct conductor c = {.data_dir = data_dir,
                          .job_id = job_id,
                          .attempt = attempt,
                          .dirfd = -1,
                          .lock_fd = -1,
                          .epoll_fd = -1,
                          .journal = {.fd = -1},
                          .listener = {.fd = -1},
                          .log = {.fd = -1},
                          .usage = {.samples = {.fd = -1}},
                          .kill_ms = INT64_MAX};
    for (int i = 0; i < CONDUCTOR_PEERS; i++)
        c.peers[i].fd = -1;
    ty_buf_init(&c.message, JOURNAL_MESSAGE_BYTES);
    int status = 1;
    ty_err err = conductor_begin(&c, data_dir);
    if (err == TY_OK) {
        source_open(&c, &c.listener);
        peers_add(&c, peer_fd);
        conductor_start(&c);
        conductor_loop(&c);
        status = conductor_end(&c);
    } else {
        if (err != TY_ALREADY_EXISTS)
            log_error("conductor.begin", "job=%" PRId64 " attempt=%d error='%s'", job_id, attempt,
                      ty_err_message());
        close(peer_fd);
    }
    conductor_clear(&c);
    return status;
}
