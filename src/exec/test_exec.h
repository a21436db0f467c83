/* test_exec.h -- a yard for tests: a data folder, a launcher, one attempt of real processes.
 *
 * The launcher is the test program itself, called as "launch" (TEST_EXEC_MAIN), as trainyard's own
 * main does it. A replica's descendants are counted by their mark, which they all inherit. */
#ifndef TY_TEST_EXEC_H
#define TY_TEST_EXEC_H

#define TY_SEAM
#include "base/test.h"
#include "exec/exec_int.h"
#include "wire/wire.h"

#include <grp.h>
#include <poll.h>
#include <sys/socket.h>

/* Each test program uses some of these. */
#define HELPER static __attribute__((unused))

enum { WAIT_MS = 30000, NOBODY = 65534, KILL_ROUNDS = 10 };

struct yard {
    struct ty_arena arena;
    char dir[256];
    struct exec_launcher launcher;
    struct exec_plan plan;
    int fd; /* the connection to the conductor */
};

HELPER void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* ---- a yard: a data folder, a launcher, one attempt ---- */

HELPER void yard_open(struct yard *y)
{
    memset(y, 0, sizeof *y);
    const char *tmp = getenv("TMPDIR");
    snprintf(y->dir, sizeof y->dir, "%s/ty-exec-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(y->dir));
    y->fd = -1;
    y->launcher.fd = -1;
}

/* A sanitizer's words about a conductor or an init are there. */
HELPER void check_conductor_log(struct yard *y)
{
    ty_str words = TY_STR("");
    char *path = ty_format(&y->arena, "%s/conductor.log", y->dir);
    ty_err err = ty_file_read(AT_FDCWD, path, 1 << 20, &y->arena, &words);
    assert_true(err == TY_OK || err == TY_NOT_FOUND);
    if (strstr(words.ptr, "Sanitizer") || strstr(words.ptr, "runtime error"))
        fail_msg("%s", words.ptr);
}

/* No control group of the last attempt is left. */
HELPER void check_groups(struct yard *y)
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

HELPER void yard_close(struct yard *y)
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
HELPER void add_pool(json_t *pools, int count, const char *script)
{
    json_array_append_new(pools, json_pack("{s:i,s:{s:s,s:[s,s,s]}}", "replicaCount", count,
                                           "containerSpec", "imageUri", "host", "command",
                                           "/bin/sh", "-c", script));
}

/* A plan for a chief and, unless it is NULL, `workers` workers. */
HELPER void yard_plan(struct yard *y, const char *chief, int workers, const char *worker)
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

HELPER void yard_launch(struct yard *y)
{
    if (y->launcher.fd < 0)
        assert_ok(exec_launcher_start(&y->launcher, y->dir));
    assert_ok(exec_attempt_prepare(y->dir, &y->plan));
    assert_ok(exec_launch(&y->launcher, y->plan.job_id, y->plan.attempt, &y->fd));
}

HELPER struct exec_look yard_look(struct yard *y)
{
    struct exec_look look;
    assert_ok(exec_attempt_look(&y->arena, y->dir, y->plan.job_id, y->plan.attempt, &look));
    return look;
}

/* Until the conductor has closed its end; how it looks then. */
HELPER struct exec_look yard_wait(struct yard *y)
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

HELPER int yard_processes(const struct yard *y)
{
    struct ty_arena a = {0};
    int count = sweep_signal(attempt_mark(&a, y->dir, y->plan.job_id, y->plan.attempt), NULL, 0);
    ty_arena_clear(&a);
    return count;
}

HELPER ty_str yard_log(struct yard *y)
{
    ty_str text = TY_STR("");
    char *path = ty_format(&y->arena, "%s/log",
                           exec_attempt_path(&y->arena, y->dir, y->plan.job_id, y->plan.attempt));
    ty_err err = ty_file_read(AT_FDCWD, path, 64 << 20, &y->arena, &text);
    assert_true(err == TY_OK || err == TY_NOT_FOUND);
    return text;
}

/* How many lines of the log have `text`. (Line by line: under ASan, strstr walks to the end.) */
HELPER int log_count(struct yard *y, const char *text)
{
    int count = 0;
    ty_str rest = yard_log(y), line;
    while (ty_str_split(&rest, '\n', &line))
        count += memmem(line.ptr, line.len + 1, text, strlen(text)) != NULL;
    return count;
}

HELPER void wait_log(struct yard *y, const char *text)
{
    for (int64_t deadline = ty_boot_ms() + WAIT_MS; log_count(y, text) == 0; pause_ms(5))
        if (ty_boot_ms() > deadline)
            fail_msg("the log never had '%s', but: %s", text, yard_log(y).ptr);
}

HELPER pid_t conductor_pid(struct yard *y)
{
    int fd;
    struct ucred who = {0};
    socklen_t size = sizeof who;
    assert_ok(exec_attempt_connect(y->dir, y->plan.job_id, y->plan.attempt, &fd));
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size), 0);
    close(fd);
    return who.pid;
}

HELPER void assert_outcome(struct exec_look look, const char *outcome, int code, bool retry)
{
    if (look.phase != EXEC_ENDED || !ty_str_is(look.outcome, outcome) || look.error_code != code ||
        look.retry != retry)
        fail_msg("phase %d outcome '%.*s' code %d retry %d message '%.*s'", look.phase,
                 TY_STR_ARG(look.outcome), look.error_code, look.retry, TY_STR_ARG(look.message));
}

HELPER void assert_look_says(struct exec_look look, const char *part)
{
    if (!memmem(look.message.ptr, look.message.len, part, strlen(part)))
        fail_msg("'%s' is not in '" TY_STR_FMT "'", part, TY_STR_ARG(look.message));
}

/* ---- the program ---- */

/* "as-user" runs `user_tests`, which ordinary_user calls so. */
/* This very program again, as an ordinary user. */
HELPER void ordinary_user(void **state)
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

#define TEST_EXEC_MAIN(name, tests, user_tests)                                                    \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        if (argc == 6 && strcmp(argv[1], "launch") == 0)                                           \
            return exec_launcher_main(3, argv[5]);                                                 \
        if (argc == 2 && strcmp(argv[1], "as-user") == 0)                                          \
            return cmocka_run_group_tests_name(name " as a user", user_tests, NULL, NULL) != 0;    \
        if (argc > 1)                                                                              \
            cmocka_set_test_filter(argv[1]);                                                       \
        return cmocka_run_group_tests_name(name, tests, NULL, NULL) != 0;                          \
    }

#endif
