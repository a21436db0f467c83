/* test_exec.c -- attempts with real processes: launcher, conductor, replicas that are shell
 * scripts.
 *
 * The launcher is this very program, called as "launch" (main below), as trainyard's own main does
 * it. A replica's descendants are counted by their mark, which they all inherit. */
#define TY_SEAM
#include "base/test.h"
#include "exec/exec_int.h"
#include "wire/wire.h"

#include <grp.h>
#include <poll.h>
#include <sys/socket.h>

enum { WAIT_MS = 30000, NOBODY = 65534, KILL_ROUNDS = 10 };

struct yard {
    struct ty_arena arena;
    char dir[256];
    struct exec_launcher launcher;
    struct exec_plan plan;
    int fd; /* the connection to the conductor */
};

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* ---- a yard: a data folder, a launcher, one attempt ---- */

static void yard_open(struct yard *y)
{
    memset(y, 0, sizeof *y);
    const char *tmp = getenv("TMPDIR");
    snprintf(y->dir, sizeof y->dir, "%s/ty-exec-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(y->dir));
    y->fd = -1;
    y->launcher.fd = -1;
}

/* A sanitizer's words about a conductor or an init are there. */
static void check_conductor_log(struct yard *y)
{
    ty_str words = TY_STR("");
    char *path = ty_format(&y->arena, "%s/conductor.log", y->dir);
    ty_err err = ty_file_read(AT_FDCWD, path, 1 << 20, &y->arena, &words);
    assert_true(err == TY_OK || err == TY_NOT_FOUND);
    if (strstr(words.ptr, "Sanitizer") || strstr(words.ptr, "runtime error"))
        fail_msg("%s", words.ptr);
}

/* No control group of the last attempt is left. */
static void check_groups(struct yard *y)
{
    struct cgroup_place place;
    cgroup_find(&y->arena, "", false, &place);
    for (int i = 0; i < CGROUP_PARTS; i++)
        for (size_t k = 0; place.dirs[i] && k < y->plan.replica_count; k++) {
            const struct exec_replica *r = &y->plan.replicas[k];
            char name[CGROUP_NAME_BYTES];
            cgroup_name(attempt_mark(&y->arena, y->dir, y->plan.job_id, y->plan.attempt),
                        ty_format(&y->arena, "%d-%d", r->pool, r->index), name);
            const char *dir = ty_format(&y->arena, "%s/%s", place.dirs[i], name);
            if (access(dir, F_OK) == 0)
                fail_msg("'%s' is left", dir);
        }
}

static void yard_close(struct yard *y)
{
    check_conductor_log(y);
    check_groups(y);
    if (y->fd >= 0)
        close(y->fd);
    if (y->launcher.fd >= 0)
        exec_launcher_stop(&y->launcher);
    assert_ok(ty_remove_tree(AT_FDCWD, y->dir));
    ty_arena_clear(&y->arena);
}

/* One pool of `count` replicas that run a shell script. */
static void add_pool(json_t *pools, int count, const char *script)
{
    json_array_append_new(pools, json_pack("{s:i,s:{s:s,s:[s,s,s]}}", "replicaCount", count,
                                           "containerSpec", "imageUri", "host", "command",
                                           "/bin/sh", "-c", script));
}

/* A plan for a chief and, unless it is NULL, `workers` workers. */
static void yard_plan(struct yard *y, const char *chief, int workers, const char *worker)
{
    static int64_t next_job;
    static const int ports[8] = {20000, 20001, 20002, 20003, 20004, 20005, 20006, 20007};
    struct ty_config config;
    ty_config_init(&config, &y->arena);
    json_t *spec = json_pack("{s:[]}", "workerPoolSpecs");
    add_pool(json_object_get(spec, "workerPoolSpecs"), 1, chief);
    if (worker)
        add_pool(json_object_get(spec, "workerPoolSpecs"), workers, worker);
    struct exec_job job = {.id = (int64_t)getpid() * 1000 + next_job++,
                           .attempt = 1,
                           .project = TY_STR("p"),
                           .region = TY_STR("r"),
                           .spec = spec,
                           .ports = ports,
                           .timeout_ms = 60000};
    assert_ok(exec_plan_build(&y->arena, &config, &job, &y->plan));
    json_decref(spec);
}

static void yard_launch(struct yard *y)
{
    if (y->launcher.fd < 0)
        assert_ok(exec_launcher_start(&y->launcher, y->dir));
    assert_ok(exec_attempt_prepare(y->dir, &y->plan));
    assert_ok(exec_launch(&y->launcher, y->plan.job_id, y->plan.attempt, &y->fd));
}

static struct exec_look yard_look(struct yard *y)
{
    struct exec_look look;
    assert_ok(exec_attempt_look(&y->arena, y->dir, y->plan.job_id, y->plan.attempt, &look));
    return look;
}

/* Until the conductor has closed its end; how it looks then. */
static struct exec_look yard_wait(struct yard *y)
{
    int64_t deadline = ty_boot_ms() + WAIT_MS;
    char bytes[64];
    for (;;) {
        struct pollfd wait = {.fd = y->fd, .events = POLLIN};
        assert_true(ty_boot_ms() < deadline);
        poll(&wait, 1, 1000);
        ssize_t n = read(y->fd, bytes, sizeof bytes);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return yard_look(y);
    }
}

static int yard_processes(const struct yard *y)
{
    struct ty_arena a = {0};
    int count = sweep_signal(attempt_mark(&a, y->dir, y->plan.job_id, y->plan.attempt), NULL, 0);
    ty_arena_clear(&a);
    return count;
}

static ty_str yard_log(struct yard *y)
{
    ty_str text = TY_STR("");
    char *path = ty_format(&y->arena, "%s/log",
                           exec_attempt_path(&y->arena, y->dir, y->plan.job_id, y->plan.attempt));
    ty_err err = ty_file_read(AT_FDCWD, path, 64 << 20, &y->arena, &text);
    assert_true(err == TY_OK || err == TY_NOT_FOUND);
    return text;
}

/* How many lines of the log have `text`. (Line by line: under ASan, strstr walks to the end.) */
static int log_count(struct yard *y, const char *text)
{
    int count = 0;
    ty_str rest = yard_log(y), line;
    while (ty_str_split(&rest, '\n', &line))
        count += memmem(line.ptr, line.len + 1, text, strlen(text)) != NULL;
    return count;
}

static void wait_log(struct yard *y, const char *text)
{
    for (int64_t deadline = ty_boot_ms() + WAIT_MS; log_count(y, text) == 0; pause_ms(5))
        if (ty_boot_ms() > deadline)
            fail_msg("the log never had '%s', but: %s", text, yard_log(y).ptr);
}

static pid_t conductor_pid(struct yard *y)
{
    int fd;
    struct ucred who = {0};
    socklen_t size = sizeof who;
    assert_ok(exec_attempt_connect(y->dir, y->plan.job_id, y->plan.attempt, &fd));
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size), 0);
    close(fd);
    return who.pid;
}

static void assert_outcome(struct exec_look look, const char *outcome, int code, bool retry)
{
    if (look.phase != EXEC_ENDED || !ty_str_is(look.outcome, outcome) || look.error_code != code ||
        look.retry != retry)
        fail_msg("phase %d outcome '%.*s' code %d retry %d message '%.*s'", look.phase,
                 TY_STR_ARG(look.outcome), look.error_code, look.retry, TY_STR_ARG(look.message));
}

static void assert_message(struct exec_look look, const char *part)
{
    if (!memmem(look.message.ptr, look.message.len, part, strlen(part)))
        fail_msg("'%s' is not in '" TY_STR_FMT "'", part, TY_STR_ARG(look.message));
}

/* ---- how a job ends ---- */

static void chief_ends_the_job(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "echo hello; sleep 0.1; exit 0", 2, "echo worker; sleep 1000");
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "succeeded", 0, false);
    assert_true(look.begin_ns > 0 && look.running_ns > 0 && look.end_ns > look.begin_ns);
    assert_true(look.ran_ms >= 50 && look.ran_ms < 9000);
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
    assert_message(look, "The replica workerpool1-0 exited with a non-zero status of 3.");
    assert_message(look, "one");
    assert_message(look, "two");
    assert_message(look, "no   newline");
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
    assert_message(look, "The package could not be prepared. Its last lines:\none\nthe reason");
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
        assert_message(look, "was ended by signal 9");
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
    assert_message(look, "The preparation could not be started: '/no/such/program'");
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
    assert_message(look,
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
    yard_plan(&y, "if [ -e once ]; then echo again; exit 0; fi; touch once; kill -9 $$", 1,
              "echo up; sleep 1000");
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "succeeded", 0, false);
    assert_int_equal(look.restarts, 1);
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
    assert_message(look, "signal 1 (SIGHUP) after 5 restarts");
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
    assert_message(look, "ran out of memory and one of its processes was killed. Its limit is 64.0 "
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
    assert_message(look, "reached its limit of 30 processes and threads");
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
        assert_message(look, "SIGSEGV");
        yard_close(&y);
    }
}

static void timeout_stops_it(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "trap 'echo caught' TERM; while :; do sleep 0.05; done", 0, NULL);
    y.plan.timeout_ms = 300;
    y.plan.grace_ms = 200;
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "timeout", TY_DEADLINE_EXCEEDED, false);
    assert_int_equal(log_count(&y, "caught"), 1); /* SIGTERM came first */
    assert_int_equal(yard_processes(&y), 0);
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
             "echo hello >/gcs/b/out; echo mine >/gcs/b/model/part; touch /gcs-was-here || echo "
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
        assert_ok(ty_file_read(AT_FDCWD, ty_format(&y.arena, "%s/model/workertemp_1/part", b), 64,
                               &y.arena, &text));
        assert_int_equal(log_count(&y, " o refused\n"), 1);
        assert_int_equal(log_count(&y, " o cwd=0-0 pid=2\n"), 1);
        assert_true(log_count(&y, " o procs=") == 1 && log_count(&y, " o procs=1") == 0);
        assert_int_equal(log_count(&y, " etc "), 1);
    }
    assert_int_not_equal(access("/gcs-was-here", F_OK), 0);
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
    assert_message(look, "30000");
    assert_int_equal(log_count(&y, " 0-0 o "), 30000);
    yard_close(&y);
}

/* ---- alive, lost, fenced ---- */

static void fence_decides(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "echo ran; sleep 1000", 0, NULL);
    assert_int_equal(yard_look(&y).phase, EXEC_ABSENT);
    assert_ok(exec_attempt_fence(y.dir, y.plan.job_id, 1));
    assert_err(TY_ALREADY_EXISTS, exec_attempt_fence(y.dir, y.plan.job_id, 1));
    yard_launch(&y);
    assert_int_equal(yard_wait(&y).phase, EXEC_FENCED);
    assert_int_equal(log_count(&y, "ran"), 0);
    close(y.fd);
    y.plan.job_id += 500; /* the other way round */
    yard_launch(&y);
    wait_log(&y, "ran");
    assert_err(TY_ALREADY_EXISTS, exec_attempt_fence(y.dir, y.plan.job_id, 1));
    assert_int_equal(yard_look(&y).phase, EXEC_ALIVE);
    assert_ok(exec_attempt_cancel(y.fd));
    assert_int_equal(yard_wait(&y).phase, EXEC_ENDED);
    yard_close(&y);
}

/* Both at once: exactly one of them decides. */
static void fence_race(void **state)
{
    (void)state;
    int fenced = 0;
    for (int i = 0; i < 10; i++) {
        struct yard y;
        yard_open(&y);
        yard_plan(&y, "echo ran", 0, NULL);
        assert_ok(exec_launcher_start(&y.launcher, y.dir));
        yard_launch(&y);
        pause_ms(i);
        ty_err err = exec_attempt_fence(y.dir, y.plan.job_id, 1);
        assert_true(err == TY_OK || err == TY_ALREADY_EXISTS);
        struct exec_look look = yard_wait(&y);
        assert_int_equal(look.phase, err == TY_OK ? EXEC_FENCED : EXEC_ENDED);
        assert_int_equal(log_count(&y, "ran"), err == TY_OK ? 0 : 1);
        fenced += err == TY_OK;
        yard_close(&y);
    }
    assert_true(fenced >= 1); /* a launcher that is just starting is slower than a fence */
}

static void launcher_death_is_told(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_plan(&y, "true", 0, NULL);
    assert_ok(exec_launcher_start(&y.launcher, y.dir));
    kill(y.launcher.pid, SIGKILL);
    while (waitpid(y.launcher.pid, NULL, WNOHANG) == 0)
        pause_ms(5);
    int fd;
    assert_err(TY_UNAVAILABLE, exec_launch(&y.launcher, y.plan.job_id, 1, &fd));
    exec_launcher_stop(&y.launcher);
    y.launcher.fd = -1;
    yard_launch(&y); /* starts another one */
    assert_outcome(yard_wait(&y), "succeeded", 0, false);
    yard_close(&y);
}

/* ---- kill -9 of the conductor ---- */

/* A descendant that double-forked, called setsid and closed its descriptors, and one that ignores
 * everything it can. */
static const char daemonising[] =
    "setsid sh -c 'exec </dev/null >/dev/null 2>&1; (trap \"\" TERM HUP INT; while :; do sleep 1; "
    "done) & (setsid sleep 1000 &) & exit' & sleep 0.1; echo up; sleep 1000";

/* How many processes are left `wait_ms` after the conductor was killed, at most. Groups are left
 * until somebody sweeps. */
static int left_after(struct yard *y, int wait_ms)
{
    int64_t deadline = ty_boot_ms() + wait_ms;
    int left;
    while ((left = yard_processes(y)) > 0 && ty_boot_ms() < deadline)
        pause_ms(5);
    if (left == 0)
        exec_attempt_sweep(y->dir, y->plan.job_id, y->plan.attempt);
    return left;
}

static void kill_conductor(struct yard *y)
{
    yard_plan(y, daemonising, 2, daemonising);
    yard_launch(y);
    wait_log(y, " 0-0 o up\n");
    wait_log(y, " 1-0 o up\n");
    wait_log(y, " 1-1 o up\n");
    assert_true(yard_processes(y) >= 9);
    assert_int_equal(kill(conductor_pid(y), SIGKILL), 0);
    assert_int_equal(yard_wait(y).phase, EXEC_LOST);
}

static void kill_leaves_nothing(void **state)
{
    (void)state;
    if (isolation_get() == ISOLATION_SWEEP)
        skip();
    struct yard y;
    yard_open(&y);
    kill_conductor(&y);
    assert_int_equal(left_after(&y, 5000), 0); /* the kernel alone does it */
    yard_close(&y);
}

/* While replicas are being started, too: an init that has not asked for its parent's death signal
 * yet must see that the parent is dead. */
static void kill_at_any_moment(void **state)
{
    (void)state;
    if (isolation_get() == ISOLATION_SWEEP)
        skip();
    struct yard y;
    yard_open(&y);
    for (int round = 0; round < KILL_ROUNDS; round++) {
        uint32_t delay_us;
        ty_random(&delay_us, sizeof delay_us);
        yard_plan(&y, "(setsid sleep 1000 &) ; sleep 1000", 3,
                  "(setsid sleep 1000 &) ; sleep 1000");
        yard_launch(&y);
        int fd = -1;
        while (exec_attempt_connect(y.dir, y.plan.job_id, 1, &fd) != TY_OK)
            pause_ms(0);
        struct ucred who = {0};
        socklen_t size = sizeof who;
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size), 0);
        close(fd);
        usleep(delay_us % 8000);
        assert_int_equal(kill(who.pid, SIGKILL), 0);
        struct exec_look look = yard_wait(&y);
        /* fenced: it had made the journal and was killed before it wrote a word */
        assert_true(look.phase == EXEC_ABSENT || look.phase == EXEC_LOST ||
                    look.phase == EXEC_FENCED);
        assert_int_equal(left_after(&y, 5000), 0);
        check_groups(&y);
        close(y.fd);
        y.fd = -1;
        y.plan.replica_count = 0;
        ty_arena_clear(&y.arena);
    }
    yard_close(&y);
}

static void sweep_leaves_nothing(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    setenv("TY_ISOLATION", "sweep", 1);
    kill_conductor(&y);
    unsetenv("TY_ISOLATION");
    assert_true(left_after(&y, 200) > 0); /* or the sweep would not be tested */
    exec_attempt_sweep(y.dir, y.plan.job_id, 1);
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

/* A yard restored from a backup has the same jobs: it must not end the original's processes. */
static void sweep_leaves_other_yards_alone(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    assert_ok(exec_yard_id_make(y.dir));
    char *other = ty_format(&y.arena, "%s/other", y.dir);
    assert_ok(ty_mkdirs(other, 0700));
    assert_ok(exec_yard_id_make(other));
    char *mark = attempt_mark(&y.arena, y.dir, getpid(), 1);
    pid_t pid = fork();
    if (pid == 0) {
        char *const env[] = {mark, NULL};
        execle("/bin/sleep", "sleep", "100", NULL, env);
        _exit(127);
    }
    assert_true(pid > 0);
    int64_t deadline = ty_boot_ms() + WAIT_MS;
    while (sweep_signal(mark, NULL, 0) == 0 && ty_boot_ms() < deadline)
        pause_ms(5);
    exec_attempt_sweep(other, getpid(), 1);
    assert_int_equal(sweep_signal(mark, NULL, 0), 1);
    assert_int_equal(sweep_signal(mark, NULL, SIGKILL), 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    yard_close(&y);
}

/* ---- containers, with an engine that is a script ---- */

static const char engine_script[] =
    "#!/bin/sh\n"
    "D=${0%/*}; echo \"$*\" >>$D/calls\n"
    "case $1 in\n"
    "run) for w; do case $w in --cidfile=*) echo id >${w#*=};; --env=*) export \"${w#--env=}\";;\n"
    "  esac; last=$w; done\n"
    "  setsid /bin/sh -c \"$last\" & echo $! >$D/pid; wait $!;;\n"
    "kill) kill -TERM $(cat $D/pid);;\n"
    "esac\n";

/* A chief in a container; its preparation leaves what container_prepare would. */
static void container_plan(struct yard *y, const char *program)
{
    static const int ports[] = {20000};
    struct ty_config config;
    ty_config_init(&config, &y->arena);
    char *script = ty_format(&y->arena, "%s/docker", y->dir);
    assert_ok(ty_file_replace(AT_FDCWD, script, TY_STR(engine_script), 0755));
    json_t *spec = json_pack("{s:[{s:i,s:{s:s,s:[s]}}]}", "workerPoolSpecs", "replicaCount", 1,
                             "containerSpec", "imageUri", "img:1", "args", program);
    struct exec_job job = {.id = getpid(),
                           .attempt = 1,
                           .spec = spec,
                           .ports = ports,
                           .data_dir = y->dir,
                           .timeout_ms = 60000};
    assert_ok(exec_plan_build(&y->arena, &config, &job, &y->plan));
    json_decref(spec);
    y->plan.prepare->argv = (char **)ty_new_array(&y->arena, char *, 4);
    y->plan.prepare->argv[0] = "/bin/sh";
    y->plan.prepare->argv[1] = "-c";
    y->plan.prepare->argv[2] = ty_format(
        &y->arena,
        "printf 'trainyard engine 1\n\ndocker\n%s\n1\nlimits\n' >../engine; : >../image-0", script);
}

static bool engine_was_called(struct yard *y, const char *words)
{
    ty_str calls = TY_STR("");
    char *path = ty_format(&y->arena, "%s/calls", y->dir);
    assert_ok(ty_file_read(AT_FDCWD, path, 1 << 20, &y->arena, &calls));
    return strstr(calls.ptr, words) != NULL;
}

static void container_ends_as_its_program(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    container_plan(&y, "echo hello; exit 3");
    yard_launch(&y);
    struct exec_look look = yard_wait(&y);
    assert_outcome(look, "failed", TY_INVALID_ARGUMENT, false);
    assert_message(look, "non-zero status of 3");
    assert_int_equal(log_count(&y, " 0-0 o hello\n"), 1);
    assert_true(engine_was_called(&y, "rm --force --volumes id"));
    yard_close(&y);
}

static void container_is_cancelled(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    container_plan(&y, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    yard_launch(&y);
    wait_log(&y, " 0-0 o up\n");
    assert_ok(exec_attempt_cancel(y.fd));
    assert_outcome(yard_wait(&y), "cancelled", TY_CANCELLED, false);
    assert_int_equal(log_count(&y, " 0-0 o bye\n"), 1);
    assert_int_equal(log_count(&y, "is killed"), 0);
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

static void container_that_ignores_sigterm(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    container_plan(&y, "trap '' TERM; echo up; while :; do sleep 0.05; done");
    y.plan.grace_ms = 200;
    yard_launch(&y);
    wait_log(&y, " 0-0 o up\n");
    assert_ok(exec_attempt_cancel(y.fd));
    assert_outcome(yard_wait(&y), "cancelled", TY_CANCELLED, false);
    assert_int_equal(yard_processes(&y), 0);          /* by its marks */
    assert_true(engine_was_called(&y, "rm --force")); /* and what is left of it */
    yard_close(&y);
}

static void container_of_a_lost_conductor(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    container_plan(&y, "echo up; while :; do sleep 0.05; done");
    yard_launch(&y);
    wait_log(&y, " 0-0 o up\n");
    assert_int_equal(kill(conductor_pid(&y), SIGKILL), 0);
    assert_int_equal(yard_wait(&y).phase, EXEC_LOST);
    exec_attempt_sweep(y.dir, y.plan.job_id, 1);
    assert_int_equal(yard_processes(&y), 0);
    assert_true(engine_was_called(&y, "rm --force"));
    yard_close(&y);
}

static void sweep_ends_a_job(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    setenv("TY_ISOLATION", "sweep", 1);
    yard_plan(&y, daemonising, 1, daemonising);
    y.plan.grace_ms = 100;
    yard_launch(&y);
    unsetenv("TY_ISOLATION");
    wait_log(&y, " 0-0 o up\n");
    assert_ok(exec_attempt_cancel(y.fd));
    assert_outcome(yard_wait(&y), "cancelled", TY_CANCELLED, false);
    assert_int_equal(yard_processes(&y), 0);
    yard_close(&y);
}

/* This very program again, as an ordinary user. */
static void ordinary_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    char dir[] = "/tmp/ty-user-XXXXXX";
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("TMPDIR", dir, 1);
        if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(99);
        execl("/proc/self/exe", "test_exec", "as-user", (char *)NULL);
        _exit(98);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
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

/* ---- crash points ---- */

/* Kill the conductor at each of its steps in turn, until it gets through: then, and only then,
 * `ctl` is gone, which it removes after its last step. */
static void crash_at_every_step(void **state)
{
    (void)state;
    int lost = 0;
    bool through = false;
    for (int step = 1; !through; step++) {
        struct yard y;
        char crash[32];
        yard_open(&y);
        snprintf(crash, sizeof crash, "conductor:%d", step);
        setenv("TY_CRASH", crash, 1);
        yard_plan(&y,
                  "if [ -e once ]; then echo done; exit 0; fi; touch once; (setsid sleep 1000 &);"
                  "echo up; kill -9 $$",
                  1, "(setsid sleep 1000 &); sleep 1000");
        yard_launch(&y);
        unsetenv("TY_CRASH");
        struct exec_look look = yard_wait(&y);
        if (look.phase == EXEC_ENDED)
            assert_outcome(look, "succeeded", 0, false);
        else
            assert_true(look.phase == EXEC_ABSENT || look.phase == EXEC_FENCED ||
                        look.phase == EXEC_LOST);
        assert_int_equal(left_after(&y, 5000), 0);
        char *ctl =
            ty_format(&y.arena, "%s/ctl", exec_attempt_path(&y.arena, y.dir, y.plan.job_id, 1));
        through = look.phase == EXEC_ENDED && access(ctl, F_OK) != 0;
        lost += look.phase == EXEC_LOST;
        yard_close(&y);
        assert_true(step < 60);
    }
    assert_true(lost >= 8); /* begin and its four syncs, two forks, running, restart, ... */
}

static const struct CMUnitTest tests[] = {
    TEST("conductor/isolation_is_the_best_there_is", isolation_is_the_best_there_is),
    TEST("run/chief_ends_the_job", chief_ends_the_job),
    TEST("run/worker_may_end_first", worker_may_end_first),
    TEST("run/failure_has_the_last_lines", failure_has_the_last_lines),
    TEST("container/ends_as_its_program", container_ends_as_its_program),
    TEST("container/is_cancelled", container_is_cancelled),
    TEST("container/ignores_sigterm", container_that_ignores_sigterm),
    TEST("container/lost_conductor", container_of_a_lost_conductor),
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
    TEST("run/replica_sees_its_place", replica_sees_its_place),
    TEST("gcs/is_in_the_replica", gcs_is_in_the_replica),
    TEST("gcs/that_cannot_be", gcs_that_cannot_be),
    TEST("gcs/is_known_to_work", gcs_is_known_to_work),
    TEST("cancel/kills_a_stubborn_tree", cancel_kills_a_stubborn_tree),
    TEST("cancel/by_another_server", cancel_by_another_server),
    TEST("output/long_and_partial_lines", long_and_partial_lines),
    TEST("output/ceiling_is_told", ceiling_is_told),
    TEST("output/nothing_is_lost", nothing_is_lost),
    TEST("output/full_disk_is_waited_for", full_disk_is_waited_for),
    TEST("look/fence_decides", fence_decides),
    TEST("look/fence_race", fence_race),
    TEST("launcher/death_is_told", launcher_death_is_told),
    TEST("conductor/kill_leaves_nothing", kill_leaves_nothing),
    TEST("conductor/kill_at_any_moment", kill_at_any_moment),
    TEST("conductor/sweep_leaves_nothing", sweep_leaves_nothing),
    TEST("sweep/leaves_other_yards_alone", sweep_leaves_other_yards_alone),
    TEST("conductor/sweep_ends_a_job", sweep_ends_a_job),
    TEST("conductor/as_an_ordinary_user", ordinary_user),
    TEST("conductor/crash_at_every_step", crash_at_every_step),
};

static const struct CMUnitTest user_tests[] = {
    TEST("usage/runs_without_groups", runs_without_groups),
    TEST("usage/process_limit_of_a_user", process_limit_of_a_user),
    TEST("conductor/isolation_is_the_best_there_is", isolation_is_the_best_there_is),
    TEST("run/chief_ends_the_job", chief_ends_the_job),
    TEST("run/replica_sees_its_place", replica_sees_its_place),
    TEST("gcs/is_in_the_replica", gcs_is_in_the_replica),
    TEST("gcs/that_cannot_be", gcs_that_cannot_be),
    TEST("gcs/is_known_to_work", gcs_is_known_to_work),
    TEST("cancel/kills_a_stubborn_tree", cancel_kills_a_stubborn_tree),
    TEST("conductor/kill_leaves_nothing", kill_leaves_nothing),
    TEST("conductor/sweep_leaves_nothing", sweep_leaves_nothing),
};

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "launch") == 0)
        return exec_launcher_main(3, argv[5]);
    if (argc == 2 && strcmp(argv[1], "as-user") == 0)
        return cmocka_run_group_tests_name("exec as a user", user_tests, NULL, NULL) == 0 ? 0 : 1;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("exec", tests, NULL, NULL) == 0 ? 0 : 1;
}
