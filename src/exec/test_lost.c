/* test_lost.c -- attempts that lose their conductor, their launcher or their engine. */
#include "exec/test_exec.h"

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

/* By the call; or, if a child of the launcher's lived a moment longer and had its socket, by the
 * end of the connection. */
static void launch_fails(struct yard *y)
{
    int fd;
    ty_err err = exec_launch(&y->launcher, y->plan.job_id, 1, &fd);
    if (err == TY_OK) {
        struct pollfd end = {.fd = fd, .events = POLLIN};
        char byte;
        assert_int_equal(poll(&end, 1, 60000), 1);
        assert_int_equal(read(fd, &byte, 1), 0);
        close(fd);
        return;
    }
    assert_err(TY_UNAVAILABLE, err);
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
    launch_fails(&y);
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
    "setsid sh -c 'exec </dev/null >/dev/null 2>&1; (trap \"\" TERM HUP INT; touch one; "
    "while :; do sleep 1; done) & (setsid sh -c \"touch two; exec sleep 1000\" &) & exit' & "
    "until [ -e one ] && [ -e two ]; do sleep 0.02; done; echo up; sleep 1000";

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
    assert_int_equal(left_after(&y, WAIT_MS), 0); /* the kernel alone does it */
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
        /* FENCED: it had made the journal and not said a word */
        assert_true(look.phase == EXEC_ABSENT || look.phase == EXEC_LOST ||
                    look.phase == EXEC_FENCED);
        assert_int_equal(left_after(&y, WAIT_MS), 0);
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
    "  setsid /bin/sh -c 'echo $$ >$0; exec /bin/sh -c \"$1\"' $D/pid \"$last\" & wait $!;;\n"
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
    assert_look_says(look, "non-zero status of 3");
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
        if (look.running_ns > 0) /* the line is there before the state is told */
            assert_int_equal(log_count(&y, " - s All replicas are running (attempt 1)."), 1);
        assert_int_equal(left_after(&y, WAIT_MS), 0);
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
    TEST("container/ends_as_its_program", container_ends_as_its_program),
    TEST("container/is_cancelled", container_is_cancelled),
    TEST("container/ignores_sigterm", container_that_ignores_sigterm),
    TEST("container/lost_conductor", container_of_a_lost_conductor),
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
    TEST("conductor/kill_leaves_nothing", kill_leaves_nothing),
    TEST("conductor/sweep_leaves_nothing", sweep_leaves_nothing),
};
TEST_EXEC_MAIN("exec_lost", tests, user_tests)
