/* test_exec.c -- how attempts run and end; what a replica sees; cancel and output. */
#include "exec/test_exec.h"

/* ---- how a job ends ---- */

static void chief_ends_the_job(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y,
              "echo hello; sleep 0.1; until [ -e ../1-0/said ] && [ -e ../1-1/said ]; do sleep "
              "0.02; done; exit 0",
              2, "echo worker; touch said; sleep 1000");
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "succeeded", 0, false);
    assert_true(look.begin_ns > 0 && look.running_ns > 0 && look.end_ns > look.begin_ns);
    assert_true(look.ran_ms >= 50 && look.ran_ms < WAIT_MS);
    assert_int_equal(yard_processes(&y), 0);
    assert_int_equal(log_count(&y, " 0-0 o hello\n"), 1);
    assert_int_equal(log_count(&y, " 1-1 o worker\n"), 1);
    assert_true(exec_log_last_ns(y.dir, y.plan.job_id, 1) > look.begin_ns);
    assert_int_equal(exec_log_last_ns(y.dir, y.plan.job_id, 2), 0);
    yard_close(&y);
}

static void worker_may_end_first(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "sleep 0.2; echo chief", 1, "echo worker");
    yard_launch(&y);
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    assert_int_equal(log_count(&y, " o chief\n"), 1);
    yard_close(&y);
}

static void failure_has_the_last_lines(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "sleep 1000", 1, "echo one; echo two >&2; printf 'no \\001 newline'; exit 3");
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_INVALID_ARGUMENT, false);
    assert_look_says(look, "The replica workerpool1-0 exited with a non-zero status of 3.");
    assert_look_says(look, "one");
    assert_look_says(look, "two");
    assert_look_says(look, "no   newline");
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

/* ---- the preparation ---- */

static void add_preparation(struct yard *y, char *script)
{
    static char *argv[] = {"/bin/sh", "-c", NULL, NULL};
    argv[2] = script;
    y->plan.prepare = ty_new(&y->arena, struct exec_replica);
    *y->plan.prepare = (struct exec_replica){
        .pool = -1, .index = -1, .argv = argv, .env = y->plan.replicas[0].env};
}

static void preparation_comes_first(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "test -e ../made && echo chief saw it", 1, "sleep 1000");
    add_preparation(&y, "echo making; sleep 0.2; touch ../made; printf 'no newline'");
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "succeeded", TY_OK, false);
    assert_int_equal(log_count(&y, " - o making\n"), 1); /* a line of the service's */
    assert_int_equal(log_count(&y, " - o no newline\n"), 1);
    assert_int_equal(log_count(&y, " 0-0 o chief saw it\n"), 1);
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

static void preparation_that_fails_is_the_end(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "echo never", 1, "echo never");
    add_preparation(&y, "echo one; echo the reason >&2; exit 11"); /* no status is transient here */
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_INVALID_ARGUMENT, false);
    assert_look_says(look, "The package could not be prepared. Its last lines:\none\nthe reason");
    assert_int_equal(look.running_ns, 0);
    assert_int_equal(log_count(&y, "never"), 0);
    yard_close(&y);
}

static void preparation_that_is_killed_is_retried(void **state)
{
    (void)state;
    for (int retries = 0; retries < 2; retries++) {
        struct yard y;
        yard_open(&y);
        yard_plan(&y, "echo never", 0, NULL);
        y.plan.disable_retries = retries == 0;
        add_preparation(&y, "kill -9 $$");
        yard_launch(&y);
        struct exec_look look = yard_wait(&y);
        assert_outcome(look, "failed", TY_INTERNAL, retries == 1);
        assert_look_says(look, "was ended by signal 9");
        yard_close(&y);
    }
}

static void preparation_that_cannot_start(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "echo never", 0, NULL);
    add_preparation(&y, "true");
    y.plan.prepare->argv = (char *[]){"/no/such/program", NULL};
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_INVALID_ARGUMENT, false);
    assert_look_says(look, "The preparation could not be started: '/no/such/program'");
    yard_close(&y);
}

static void preparation_is_cancelled(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "echo never", 0, NULL);
    y.plan.grace_ms = 200;
    add_preparation(&y, "(trap '' TERM; echo up; while :; do sleep 0.02; done) & wait");
    yard_launch(&y);
    wait_log(&y, " - o up\n");
    assert_ok(exec_attempt_cancel(y.fd));
    assert_outcome(yard_wait(&y), "cancelled", TY_CANCELLED, false);
    assert_int_equal(log_count(&y, "never"), 0);
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

static void start_is_all_or_none(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "trap '' TERM; sleep 1000", 1, "true");
    y.plan.replicas[1].argv[0] = "/no/such/program";
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_INVALID_ARGUMENT, false);
    assert_look_says(look,
                     "The replica workerpool1-0 could not be started: '/no/such/program': No such "
                     "file or directory.");
    assert_int_equal(look.running_ns, 0);
    assert_int_equal(look.ran_ms, 0);
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

static void restart_in_place(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y,
              "if [ -e once ]; then echo again; until [ -e ../1-0/said ]; do sleep 0.02; done; "
              "exit 0; fi; touch once; kill -9 $$",
              1, "echo up; touch said; sleep 1000");
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "succeeded", 0, false);
    assert_int_equal(look.restarts, 1);
    assert_non_null(memmem(look.restarted.ptr, look.restarted.len, "was ended by signal", 19));
    assert_int_equal(log_count(&y, " - s The replica workerpool0-0 was ended by signal 9"), 1);
    assert_int_equal(log_count(&y, "again"), 1);
    assert_int_equal(log_count(&y, " o up\n"), 1); /* the other one stayed */
    yard_close(&y);
}

static void restarts_have_a_limit(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "echo try; kill -HUP $$", 0, NULL);
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_INVALID_ARGUMENT, true);
    assert_int_equal(look.restarts, RULES_RESTARTS);
    assert_int_equal(log_count(&y, " o try\n"), 1 + RULES_RESTARTS);
    assert_look_says(look, "signal 1 (SIGHUP) after 5 restarts");
    yard_close(&y);
}

static const struct exec_used *find_used(struct exec_look look, int pool, int index)
{
    const struct exec_used *u = look.used;
    while (u && (u->pool != pool || u->index != index))
        u = u->next;
    assert_non_null(u);
    return u;
}

/* Each run of each replica has one, a replica that was restarted two. */
static void receipts_are_written(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "if [ -e once ]; then exit 0; fi; touch once; kill -9 $$", 1, "sleep 1000");
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "succeeded", 0, false);
    size_t runs = 0;
    for (const struct exec_used *u = look.used; u; u = u->next)
        runs++;
    assert_int_equal(runs, 3);
    const struct exec_used *worker = find_used(look, 1, 0);
    assert_true(worker->wall_ms >= 0 && worker->peak_bytes > 0 && worker->cpu_us > 0);
    assert_true(worker->method.len > 0 && !worker->limit_enforced && worker->limit_bytes == 0);
    assert_int_equal(log_count(&y, " - s Used: "), 1);
    assert_int_equal(log_count(&y, " - s Provisioned 2 replicas"), 1);
    assert_int_equal(log_count(&y, " - s Released 2 replicas."), 1);
    yard_close(&y);
}

/* Usage is there, and no group: everything goes on as it did before there were any. */
static void runs_without_groups(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "echo hello", 0, NULL);
    y.plan.cgroups = false;
    y.plan.replicas[0].share.memory_bytes = 256 << 20;
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "succeeded", 0, false);
    const struct exec_used *u = find_used(look, 0, 0);
    assert_true(ty_str_is(u->method, "/proc every second + wait4"));
    assert_true(u->limit_bytes == 256 << 20 && !u->limit_enforced);
    assert_int_equal(log_count(&y, "the memory limit of 256 MB is not enforced: cgroups = off"), 1);
    assert_int_equal(log_count(&y, "limit 256 MB not enforced)."), 1);
    yard_close(&y);
}

/* The killed process is not the command, which ends in its own way: still it was memory. */
static void memory_limit_is_told(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    bool memory;
    exec_cgroups(&a, &memory);
    ty_arena_clear(&a);
    if (!memory)
        skip();
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "head -c 400m /dev/zero | tail; echo $?; exit 3", 0, NULL);
    y.plan.replicas[0].share.memory_bytes = 64 << 20;
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_RESOURCE_EXHAUSTED, false);
    assert_look_says(look,
                     "ran out of memory and one of its processes was killed. Its limit is 64.0 "
                     "MB of memory");
    assert_true(find_used(look, 0, 0)->limit_enforced);
    yard_close(&y);
}

static void process_limit_is_told(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    bool memory;
    bool pids = strstr(exec_cgroups(&a, &memory), "pids") != NULL;
    ty_arena_clear(&a);
    if (!pids)
        skip();
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "bomb() { sleep 1000 & bomb; }; bomb", 0, NULL);
    y.plan.replica_processes = 30;
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_INVALID_ARGUMENT, false);
    assert_look_says(look, "reached its limit of 30 processes and threads");
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

/* Nobody may make a group, but the count of a user namespace is the replica's own. */
static void process_limit_of_a_user(void **state)
{
    (void)state;
    if (isolation_get() != ISOLATION_USER || geteuid() == 0)
        skip();
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 1000 & done; echo all", 0,
              NULL);
    y.plan.replica_processes = 10;
    yard_launch(&y);
    assert_outcome(yard_wait(&y), "failed", TY_INVALID_ARGUMENT, false);
    assert_int_equal(log_count(&y, " o all\n"), 0);
    close(y.fd);
    yard_plan(&y, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 1000 & done; echo all", 0,
              NULL);
    y.plan.replica_processes = 20;
    yard_launch(&y);
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    yard_close(&y);
}

static void crash_is_retried_unless_told(void **state)
{
    (void)state;
    for (int disabled = 0; disabled < 2; disabled++) {
        struct yard y;
        yard_open(&y);
        yard_plan(&y, "ulimit -c 0; kill -SEGV $$", 0, NULL);
        y.plan.disable_retries = disabled;
        yard_launch(&y);
        struct exec_look look = yard_wait(&y);
        assert_outcome(look, "failed", TY_INVALID_ARGUMENT, !disabled);
        assert_look_says(look, "SIGSEGV");
        yard_close(&y);
    }
}

static void timeout_stops_it(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "trap 'echo caught' TERM; while :; do sleep 0.05; done", 0, NULL);
    y.plan.timeout_ms = 2000; /* time enough for the trap to be set, */
    y.plan.grace_ms = 1000;   /* and to be sprung */
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "timeout", TY_DEADLINE_EXCEEDED, false);
    assert_int_equal(log_count(&y, "caught"), 1); /* SIGTERM came first */
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

/* One that is stopped is woken up to heed SIGTERM: it does not wait for the end of the grace. */
static void timeout_wakes_what_is_stopped(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "trap 'echo caught; exit 3' TERM; kill -STOP $$; sleep 100", 0, NULL);
    y.plan.timeout_ms = 2000;
    y.plan.grace_ms = 60000;
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "timeout", TY_DEADLINE_EXCEEDED, false);
    assert_int_equal(log_count(&y, "caught"), 1);
    assert_int_equal(log_count(&y, "did not stop within"), 0);
    yard_close(&y);
}

static void replica_sees_its_place(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    setenv("TY_SECRET", "x", 1);
    yard_plan(&y,
              "echo \"cwd=$(basename $PWD) rank=$RANK secret=$TY_SECRET\"; echo \"$TF_CONFIG\";"
              "read line || echo no-input; echo pid=$$; echo procs=$(ls -d /proc/[0-9]* | wc -l);"
              "for fd in 3 4 5 6 7 8 9 10 11 12; do [ -e /proc/$$/fd/$fd ] && echo fd-$fd; done; :",
              1, "sleep 1000");
    yard_launch(&y);
    unsetenv("TY_SECRET");
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    assert_int_equal(log_count(&y, " o cwd=0-0 rank=0 secret=\n"), 1);
    assert_int_equal(log_count(&y, "\"worker\":[\"127.0.0.1:20001\"]"), 1);
    assert_int_equal(log_count(&y, " o no-input\n"), 1);
    assert_int_equal(log_count(&y, " o fd-"), 0); /* it inherits nothing */
    if (isolation_get() != ISOLATION_SWEEP) {
        assert_int_equal(log_count(&y, " o pid=2\n"), 1);
        assert_true(log_count(&y, " o procs=3\n") + log_count(&y, " o procs=4\n") +
                        log_count(&y, " o procs=5\n") ==
                    1); /* its own /proc */
    }
    yard_close(&y);
}

/* ---- /gcs ---- */

static void gcs_plan(struct yard *y, const char *from, const char *script)
{
    static struct container_mount mounts[2];
    assert_ok(ty_mkdirs(ty_format(&y->arena, "%s/buckets/b/model/workertemp_1", y->dir), 0700));
    yard_plan(y, script, 1, "sleep 1000");
    mounts[0] = (struct container_mount){.from = from, .to = "/gcs"};
    mounts[1] = (struct container_mount){
        .from = ty_format(&y->arena, "%s/buckets/b/model/workertemp_1", y->dir),
        .to = "/gcs/b/model"};
    y->plan.replicas[0].mounts = mounts;
    y->plan.replicas[0].mount_count = 2;
}

/* All of the machine is where it was, and the buckets are at /gcs; "/" itself is not ours. */
static void gcs_is_in_the_replica(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    gcs_plan(&y, ty_format(&y.arena, "%s/buckets", y.dir),
             "echo hello >/gcs/b/out; echo mine >/gcs/b/model/part; cat /gcs/b/model/part; touch "
             "/gcs-was-here || echo "
             "refused; echo cwd=$(basename $(/bin/pwd)) pid=$$; echo same=$(cd / && ls -d "
             "* | grep -vx gcs | tr '\\n' ' '); echo procs=$(ls -d /proc/[0-9]* | wc -l)");
    y.plan.replicas[1].mounts = NULL;
    y.plan.replicas[1].mount_count = 0;
    yard_launch(&y);
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    ty_str text;
    if (isolation_get() != ISOLATION_SWEEP) {
        const char *b = ty_format(&y.arena, "%s/buckets/b", y.dir);
        assert_ok(ty_file_read(AT_FDCWD, ty_format(&y.arena, "%s/out", b), 64, &y.arena, &text));
        assert_string_equal(text.ptr, "hello\n");
        /* what it had in the model's place was its own, and is gone with it */
        assert_int_equal(log_count(&y, " o mine\n"), 1);
        assert_int_not_equal(access(ty_format(&y.arena, "%s/model/workertemp_1", b), F_OK), 0);
        assert_int_not_equal(access(ty_format(&y.arena, "%s/model/part", b), F_OK), 0);
        assert_int_equal(log_count(&y, " o refused\n"), 1);
        assert_int_equal(log_count(&y, " o cwd=0-0 pid=2\n"), 1);
        assert_true(log_count(&y, " o procs=") == 1 && log_count(&y, " o procs=1") == 0);
        assert_int_equal(log_count(&y, " etc "), 1);
    }
    assert_int_not_equal(access("/gcs-was-here", F_OK), 0);
    yard_close(&y);
}

/* ---- whose process (owner.c) ---- */

/* A process with these marks that holds `fd`, and nothing else of ours. */
static pid_t marked_process(const char *mark, const char *replica, int fd)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *const argv[] = {"sleep", "1000", NULL};
        char *const env[] = {(char *)mark, (char *)replica, NULL};
        fcntl(fd, F_SETFD, 0);
        execve("/bin/sleep", argv, env);
        _exit(127);
    }
    return pid;
}

static void owner_is_found_by_socket_and_process(void **state)
{
    (void)state;
    struct yard y;
    struct exec_owner who = {0};
    struct stat st;
    int pair[2];
    yard_open(&y);
    assert_ok(exec_yard_id_make(y.dir));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fstat(pair[1], &st), 0);
    pid_t pid =
        marked_process(attempt_mark(&y.arena, y.dir, 17, 2), "TRAINYARD_REPLICA=1-3", pair[1]);
    for (int i = 0; i < 2000 && !exec_owner_find(y.dir, st.st_ino, 0, &who); i++)
        pause_ms(5); /* until it is that program */
    assert_true(who.job_id == 17 && who.attempt == 2 && who.pool == 1 && who.index == 3);
    who = (struct exec_owner){0};
    assert_true(exec_owner_find(y.dir, 0, pid, &who) && who.job_id == 17 && who.index == 3);
    assert_int_equal(fstat(pair[0], &st), 0); /* ours, and we are no replica */
    assert_false(exec_owner_find(y.dir, st.st_ino, 0, &who));
    assert_false(exec_owner_find(y.dir, 0, getpid(), &who));
    assert_ok(
        ty_file_replace(AT_FDCWD, ty_format(&y.arena, "%s/id", y.dir), TY_STR("other\n"), 0600));
    assert_false(exec_owner_find(y.dir, 0, pid, &who)); /* of another yard */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(pair[0]);
    close(pair[1]);
    yard_close(&y);
}

/* What cannot be mounted leaves a replica without /gcs, and as it always was. */
static void gcs_that_cannot_be(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    gcs_plan(
        &y, ty_format(&y.arena, "%s/no-such-folder", y.dir),
        "[ -e /gcs ] || echo none; echo pid=$(readlink /proc/self >/dev/null && echo $$); echo "
        "cwd=$(basename $(/bin/pwd))");
    yard_launch(&y);
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    assert_int_equal(log_count(&y, " o none\n"), 1);
    assert_int_equal(log_count(&y, " o cwd=0-0\n"), 1);
    if (isolation_get() != ISOLATION_SWEEP)
        assert_int_equal(log_count(&y, " o pid=2\n"), 1);
    yard_close(&y);
}

static void gcs_is_known_to_work(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    const char *why = NULL;
    bool works = exec_gcs_works(&a, &why);
    assert_true(works || why);
    if (isolation_get() == ISOLATION_SWEEP)
        assert_false(works);
    else if (!works)
        fail_msg("%s", why);
    ty_arena_clear(&a);
}

/* ---- cancel ---- */

static void cancel_kills_a_stubborn_tree(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y,
              "trap '' TERM; (trap '' TERM; setsid sh -c 'while :; do sleep 1; done' </dev/null "
              ">/dev/null 2>&1 &); echo up; while :; do sleep 1; done",
              0, NULL);
    y.plan.grace_ms = 100;
    yard_launch(&y);
    wait_log(&y, " o up\n");
    assert_true(yard_processes(&y) >= 2);
    assert_ok(exec_attempt_cancel(y.fd));
    assert_ok(exec_attempt_cancel(y.fd));
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "cancelled", TY_CANCELLED, false);
    assert_int_equal(yard_processes(&y), 0);
    assert_err(TY_UNAVAILABLE, exec_attempt_cancel(y.fd));
    yard_close(&y);
}

/* By a server that came back, over `ctl`, in a folder whose path no socket address could hold. */
static void cancel_by_another_server(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    char home[256];
    memcpy(home, y.dir, sizeof home);
    for (int i = 0; i < 4; i++)
        snprintf(y.dir + strlen(y.dir), sizeof y.dir - strlen(y.dir), "/%032d", i);
    assert_ok(ty_mkdirs(y.dir, 0700));
    yard_plan(&y, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done", 0, NULL);
    yard_launch(&y);
    wait_log(&y, " o up\n");
    exec_launcher_stop(&y.launcher);
    y.launcher.fd = -1;
    close(y.fd);
    assert_ok(exec_attempt_connect(y.dir, y.plan.job_id, 1, &y.fd));
    assert_int_equal(yard_look(&y).phase, EXEC_ALIVE);
    assert_ok(exec_attempt_cancel(y.fd));
    assert_outcome(yard_wait(&y), "cancelled", TY_CANCELLED, false);
    assert_int_equal(log_count(&y, " o bye\n"), 1); /* the grace was given, and its output kept */
    int fd;
    assert_err(TY_NOT_FOUND, exec_attempt_connect(y.dir, y.plan.job_id, 1, &fd));
    memcpy(y.dir, home, sizeof home);
    yard_close(&y);
}

/* ---- output ---- */

static void long_and_partial_lines(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "printf '0123456789\\n01234567890123456789abc\\n\\n0123456789ABCDEFGHIJ'", 0,
              NULL);
    y.plan.log_line_bytes = 10;
    yard_launch(&y);
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    assert_int_equal(log_count(&y, " o 0123456789\n"), 1);
    assert_int_equal(log_count(&y, " O 0123456789\n"), 3);
    assert_int_equal(log_count(&y, " o abc\n"), 1);
    assert_int_equal(log_count(&y, " o \n"), 1);
    assert_int_equal(log_count(&y, " o ABCDEFGHIJ\n"), 1);
    yard_close(&y);
}

static void ceiling_is_told(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "i=0; while [ $i -lt 1000 ]; do echo 123456789; i=$((i+1)); done; echo end >&2",
              0, NULL);
    y.plan.log_limit_bytes = 5000;
    yard_launch(&y);
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    assert_int_equal(log_count(&y, " o 123456789\n"), 500);
    assert_int_equal(log_count(&y, " - s The replica workerpool0-0 has written 5000 bytes"), 1);
    assert_int_equal(log_count(&y, "wrote 501 lines (5004 bytes) past its limit"), 1);
    yard_close(&y);
}

static void nothing_is_lost(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "seq 1 100000; seq 1 1000 >&2", 1, "seq 1 50000; sleep 1000");
    yard_launch(&y);
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    assert_int_equal(log_count(&y, " 0-0 o "), 100000);
    assert_int_equal(log_count(&y, " 0-0 e "), 1000);
    yard_close(&y);
}

/* The log's first write fails as on a full disk: it is tried again, and nothing is missing. */
static void full_disk_is_waited_for(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    setenv("TY_FAULT", "enospc-write:3", 1); /* after begin and running */
    yard_plan(&y, "sleep 0.1; seq 1 30000; exit 1", 0, NULL);
    yard_launch(&y);
    unsetenv("TY_FAULT");
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_INVALID_ARGUMENT, false);
    assert_look_says(look, "30000");
    assert_int_equal(log_count(&y, " 0-0 o "), 30000);
    yard_close(&y);
}

/* As root a PID namespace, as anybody else one inside a user namespace, where the kernel lets us.
 */
static void isolation_is_the_best_there_is(void **state)
{
    (void)state;
    if (strcmp(exec_isolation(), "sweep") == 0)
        skip();
    assert_string_equal(exec_isolation(), geteuid() == 0 ? "pid-namespace" : "user-namespace");
}

static const struct CMUnitTest tests[] = {
    TEST("conductor/isolation_is_the_best_there_is", isolation_is_the_best_there_is),
    TEST("run/chief_ends_the_job", chief_ends_the_job),
    TEST("run/worker_may_end_first", worker_may_end_first),
    TEST("run/failure_has_the_last_lines", failure_has_the_last_lines),
    TEST("prepare/comes_first", preparation_comes_first),
    TEST("prepare/failure_is_the_end", preparation_that_fails_is_the_end),
    TEST("prepare/killed_is_retried", preparation_that_is_killed_is_retried),
    TEST("prepare/cannot_start", preparation_that_cannot_start),
    TEST("prepare/is_cancelled", preparation_is_cancelled),
    TEST("run/start_is_all_or_none", start_is_all_or_none),
    TEST("run/restart_in_place", restart_in_place),
    TEST("run/restarts_have_a_limit", restarts_have_a_limit),
    TEST("usage/receipts_are_written", receipts_are_written),
    TEST("usage/runs_without_groups", runs_without_groups),
    TEST("usage/memory_limit_is_told", memory_limit_is_told),
    TEST("usage/process_limit_is_told", process_limit_is_told),
    TEST("run/crash_is_retried_unless_told", crash_is_retried_unless_told),
    TEST("run/timeout_stops_it", timeout_stops_it),
    TEST("run/timeout_wakes_what_is_stopped", timeout_wakes_what_is_stopped),
    TEST("run/replica_sees_its_place", replica_sees_its_place),
    TEST("owner/is_found_by_socket_and_process", owner_is_found_by_socket_and_process),
    TEST("gcs/is_in_the_replica", gcs_is_in_the_replica),
    TEST("gcs/that_cannot_be", gcs_that_cannot_be),
    TEST("gcs/is_known_to_work", gcs_is_known_to_work),
    TEST("cancel/kills_a_stubborn_tree", cancel_kills_a_stubborn_tree),
    TEST("cancel/by_another_server", cancel_by_another_server),
    TEST("output/long_and_partial_lines", long_and_partial_lines),
    TEST("output/ceiling_is_told", ceiling_is_told),
    TEST("output/nothing_is_lost", nothing_is_lost),
    TEST("output/full_disk_is_waited_for", full_disk_is_waited_for),
    TEST("conductor/as_an_ordinary_user", ordinary_user),
};

static const struct CMUnitTest user_tests[] = {
    TEST("usage/runs_without_groups", runs_without_groups),
    TEST("usage/process_limit_of_a_user", process_limit_of_a_user),
    TEST("conductor/isolation_is_the_best_there_is", isolation_is_the_best_there_is),
    TEST("run/chief_ends_the_job", chief_ends_the_job),
    TEST("run/timeout_wakes_what_is_stopped", timeout_wakes_what_is_stopped),
    TEST("run/replica_sees_its_place", replica_sees_its_place),
    TEST("gcs/is_in_the_replica", gcs_is_in_the_replica),
    TEST("gcs/that_cannot_be", gcs_that_cannot_be),
    TEST("gcs/is_known_to_work", gcs_is_known_to_work),
    TEST("cancel/kills_a_stubborn_tree", cancel_kills_a_stubborn_tree),
};
TEST_EXEC_MAIN("exec", tests, user_tests)
