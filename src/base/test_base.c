/* test_base.c -- errors, strings, arenas, buffers, settings, the seam. */
#define TY_SEAM
#include "base/test.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

static void error_wrap_puts_context_first(void **state)
{
    (void)state;
    assert_int_equal(ty_fail(TY_NOT_FOUND, "cannot open '%s'", "x"), TY_NOT_FOUND);
    assert_int_equal(ty_wrap(TY_NOT_FOUND, "job %d", 7), TY_NOT_FOUND);
    assert_string_equal(ty_err_message(), "job 7: cannot open 'x'");
    char *taken = ty_err_take();
    assert_string_equal(taken, "job 7: cannot open 'x'");
    free(taken);
    assert_string_equal(ty_err_message(), "");
}

static void error_fail_may_quote_the_last_message(void **state)
{
    (void)state;
    (void)ty_fail(TY_INTERNAL, "inner");
    (void)ty_fail(TY_INTERNAL, "outer (%s)", ty_err_message());
    assert_string_equal(ty_err_message(), "outer (inner)");
}

static void error_errno_gives_code(void **state)
{
    (void)state;
    assert_int_equal(ty_fail_errno(ENOSPC, "x"), TY_RESOURCE_EXHAUSTED);
    assert_int_equal(ty_fail_errno(ENOENT, "x"), TY_NOT_FOUND);
    assert_int_equal(ty_err_http(TY_ALREADY_EXISTS), 409);
    assert_string_equal(ty_err_name(TY_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
}

static void string_split_and_trim(void **state)
{
    (void)state;
    ty_str s = TY_STR(" a=b=c "), head;
    assert_true(ty_str_split(&s, '=', &head));
    assert_true(ty_str_is(ty_str_trim(head), "a"));
    assert_true(ty_str_is(ty_str_trim(s), "b=c"));
    assert_true(ty_str_split(&s, '=', &head));
    assert_false(ty_str_split(&s, '=', &head));
    assert_true(ty_str_is(head, "c "));
    assert_int_equal(s.len, 0);
}

static void string_numbers_are_whole_and_in_range(void **state)
{
    (void)state;
    int64_t n = 5;
    assert_ok(ty_parse_i64(TY_STR("-9223372036854775808"), &n));
    assert_true(n == INT64_MIN);
    assert_ok(ty_parse_i64(TY_STR("9223372036854775807"), &n));
    assert_true(n == INT64_MAX);
    const char *bad[] = {"", "-", "1x", " 1", "9223372036854775808", "1e3", "99999999999999999999"};
    for (size_t i = 0; i < TY_COUNT(bad); i++) {
        n = 5;
        assert_err(TY_INVALID_ARGUMENT, ty_parse_i64(ty_str_of(bad[i]), &n));
        assert_int_equal(n, 5);
    }
}

static void string_utf8(void **state)
{
    (void)state;
    assert_true(ty_utf8_valid(TY_STR("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x82")));
    assert_false(ty_utf8_valid(TY_STR("\xc0\xaf")));
    assert_false(ty_utf8_valid(TY_STR("\xed\xa0\x80")));
    assert_false(ty_utf8_valid(TY_STR("\xf4\x90\x80\x80")));
    assert_false(ty_utf8_valid(TY_STR("\xe2\x82")));
    assert_false(ty_utf8_valid(TY_STR("\x80")));
}

static void arena_grows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    char *first = ty_format(&a, "%s", "kept");
    for (int i = 0; i < 5000; i++) {
        char *p = ty_alloc(&a, 100);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_int_equal(p[99], 0);
        memset(p, 0xff, 100);
    }
    memset(ty_alloc(&a, 1 << 20), 1, 1 << 20);
    assert_string_equal(first, "kept");
    ty_arena_clear(&a);
    assert_null(a.head);
}

static void buffer_stops_at_its_limit(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 8);
    ty_buf_addz(&b, "12345678");
    assert_ok(ty_buf_check(&b, "reply"));
    ty_buf_addc(&b, '9');
    ty_buf_addf(&b, "%d", 10);
    assert_true(ty_str_is(ty_buf_str(&b), "12345678"));
    assert_err(TY_RESOURCE_EXHAUSTED, ty_buf_check(&b, "reply"));
    assert_string_equal(ty_err_message(), "reply is larger than 8 bytes");
    ty_buf_clear(&b);
}

static void config_reads_and_refuses(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct ty_config c;
    ty_config_init(&c, &a);
    assert_int_equal(c.replica_slots, 64);
    assert_ok(
        ty_config_parse(&c, &a, "f", TY_STR("# x\n replica_slots = 8 # few\n\nlisten=[::1]:1")));
    assert_int_equal(c.replica_slots, 8);
    assert_string_equal(c.listen, "[::1]:1");
    assert_err(TY_INVALID_ARGUMENT, ty_config_parse(&c, &a, "f", TY_STR("\nreplica_slots=0")));
    assert_string_equal(ty_err_message(), "f:2: replica_slots: 0 is not between 1 and 4096");
    assert_err(TY_INVALID_ARGUMENT, ty_config_parse(&c, &a, "f", TY_STR("slots=1")));
    assert_string_equal(ty_err_message(), "f:1: no setting is called 'slots'");
    assert_err(TY_INVALID_ARGUMENT, ty_config_parse(&c, &a, "f", TY_STR("slots")));
    ty_arena_clear(&a);
}

static void files_replace_and_remove(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    char dir[] = "/tmp/test_base.XXXXXX";
    assert_non_null(mkdtemp(dir));
    assert_ok(ty_mkdirs(ty_format(&a, "%s/a/b", dir), 0700));
    assert_ok(ty_mkdirs(ty_format(&a, "%s/a/b", dir), 0700));
    char *path = ty_format(&a, "%s/a/b/f", dir);
    assert_ok(ty_file_replace(AT_FDCWD, path, TY_STR("one"), 0600));
    assert_ok(ty_file_replace(AT_FDCWD, path, TY_STR("two"), 0600));
    ty_str bytes;
    assert_ok(ty_file_read(AT_FDCWD, path, 3, &a, &bytes));
    assert_true(ty_str_is(bytes, "two"));
    assert_err(TY_RESOURCE_EXHAUSTED, ty_file_read(AT_FDCWD, path, 2, &a, &bytes));
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
    assert_err(TY_NOT_FOUND, ty_file_read(AT_FDCWD, path, 3, &a, &bytes));
    ty_arena_clear(&a);
}

static void lock_is_of_one_and_says_whose(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    char path[] = "/tmp/test_base.XXXXXX";
    int first = mkstemp(path), second = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(write(first, "of one before, which had more to say\n", 37), 37);
    assert_ok(ty_lock_take(first, path));
    assert_ok(ty_lock_sign(first, path));
    assert_err(TY_ABORTED, ty_lock_take(second, path));
    const char *holder = ty_lock_holder(&a, AT_FDCWD, path);
    const char *self = ty_format(&a, "process %d on ", (int)getpid());
    assert_memory_equal(holder, self, strlen(self));
    assert_non_null(strstr(holder, " (since 20"));
    assert_int_equal(holder[strlen(holder) - 1], ')');
    close(first);
    assert_ok(ty_lock_take(second, path));
    assert_int_equal(ftruncate(second, 0), 0);
    self = "another process";
    assert_string_equal(ty_lock_holder(&a, AT_FDCWD, path), self);
    assert_int_equal(pwrite(second, "\033[31mred", 8, 0),
                     8); /* what we did not write is not said */
    assert_string_equal(ty_lock_holder(&a, AT_FDCWD, path), self);
    assert_int_equal(pwrite(second, "process 1 on \033[31m", 18, 0), 18);
    assert_string_equal(ty_lock_holder(&a, AT_FDCWD, path), ty_format(&a, "%s on ", self));
    close(second);
    unlink(path);
    ty_arena_clear(&a);
}

/* ---- a holder, or a reader, in another PID namespace ---- */

static void lock_and_wait(const char *path, int out)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (ty_lock_take(fd, path) != TY_OK || ty_lock_sign(fd, path) != TY_OK ||
        write(out, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void say_holder(const char *path, int out)
{
    struct ty_arena a = {0};
    const char *holder = ty_lock_holder(&a, AT_FDCWD, path);
    (void)!write(out, holder, strlen(holder) + 1);
    ty_arena_clear(&a);
}

/* What the first in a new PID namespace, with its /proc, does and says. Returns its pid here, and
 * *ret_helper, who waits for it; -1: there are no namespaces to be had. */
static pid_t apart(void (*does)(const char *path, int out), const char *path, char said[300],
                   pid_t *ret_helper)
{
    int out[2], pids[2];
    pid_t inner = -1;
    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(pids), 0);
    *ret_helper = ty_fork();
    if (*ret_helper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* with a test that failed, too */
        inner = unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ? ty_fork() : -1;
        if (inner == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
                mount("proc", "/proc", "proc", 0, NULL) != 0)
                _exit(1);
            does(path, out[1]);
            _exit(0);
        }
        bool told = write(pids[1], &inner, sizeof inner) == sizeof inner;
        _exit(told && waitpid(inner, NULL, 0) == inner ? 0 : 1);
    }
    close(out[1]);
    assert_int_equal(read(pids[0], &inner, sizeof inner), sizeof inner);
    assert_true(inner < 0 || read(out[0], said, 300) > 0);
    close(out[0]);
    close(pids[0]);
    close(pids[1]);
    return inner;
}

static void lock_names_no_pid_of_another_namespace(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    char path[] = "/tmp/test_base.XXXXXX", said[300];
    int fd = mkstemp(path), status;
    pid_t helper, inner = apart(lock_and_wait, path, said, &helper);
    if (inner > 0) {
        assert_err(TY_ABORTED, ty_lock_take(fd, path));
        assert_memory_equal(ty_lock_holder(&a, AT_FDCWD, path), "another process on ", 19);
        assert_int_equal(kill(inner, SIGKILL), 0);
    }
    assert_int_equal(waitpid(helper, &status, 0), helper);
    if (inner > 0) {
        assert_ok(ty_lock_take(fd, path));
        assert_ok(ty_lock_sign(fd, path));
        apart(say_holder, path, said, &helper); /* where our pid is nobody's, or another's */
        assert_memory_equal(said, "another process on ", 19);
        assert_int_equal(waitpid(helper, &status, 0), helper);
    }
    close(fd);
    unlink(path);
    ty_arena_clear(&a);
    if (inner < 0)
        skip();
}

static void lock_names_a_jobs_replica(void **state)
{
    (void)state;
    static const struct {
        const char *attempt, *replica, *holder;
    } rows[] = {
        {"17/2/0123456789abcdef", "1-0", "replica workerpool1-0 of job 17 (attempt 2) on "},
        {"17/2", "0-3", "replica workerpool0-3 of job 17 (attempt 2) on "},
        {"17/2", "-1--1", "process "}, /* its preparation */
        {"17", "0-0", "process "},
        {"x/2", "0-0", "process "},
    };
    struct ty_arena a = {0};
    char path[] = "/tmp/test_base.XXXXXX";
    int fd = mkstemp(path);
    assert_ok(ty_lock_take(fd, path));
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        setenv("TRAINYARD_ATTEMPT", rows[i].attempt, 1);
        setenv("TRAINYARD_REPLICA", rows[i].replica, 1);
        assert_ok(ty_lock_sign(fd, path));
        const char *holder = ty_lock_holder(&a, AT_FDCWD, path);
        assert_memory_equal(holder, rows[i].holder, strlen(rows[i].holder));
        assert_non_null(strstr(holder, " (since 20"));
    }
    unsetenv("TRAINYARD_ATTEMPT");
    unsetenv("TRAINYARD_REPLICA");
    close(fd);
    unlink(path);
    ty_arena_clear(&a);
}

/* Also a folder's, which can only be read; and what is no file has none to give. */
static void lock_ends_with_its_process(void **state)
{
    (void)state;
    char dir[] = "/tmp/test_base.XXXXXX", c;
    int locked[2], status;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(pipe(locked), 0);
    pid_t pid = ty_fork();
    if (pid == 0) {
        int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ty_lock_take(fd, dir) != TY_OK || write(locked[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(read(locked[0], &c, 1), 1);
    assert_err(TY_ABORTED, ty_lock_take(fd, dir));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_ok(ty_lock_take(fd, dir));
    assert_err(TY_INTERNAL, ty_lock_take(-1, "nothing"));
    assert_message("cannot lock 'nothing'");
    close(fd);
    close(locked[0]);
    close(locked[1]);
    assert_int_equal(rmdir(dir), 0);
}

static void seam_fails_the_nth_step(void **state)
{
    (void)state;
    setenv("TY_FAULT", "enospc-write:2", 1);
    ty_seam_role("server");
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_ok(ty_write_all(fd, "x", 1));
    assert_err(TY_RESOURCE_EXHAUSTED, ty_write_all(fd, "x", 1));
    assert_ok(ty_write_all(fd, "x", 1));
    setenv("TY_FAULT", "sync:1+", 1);
    ty_seam_role("server");
    assert_err(TY_INTERNAL, ty_sync(fd));
    assert_err(TY_INTERNAL, ty_sync(fd));
    unsetenv("TY_FAULT");
    ty_seam_role("server");
    close(fd);
}

static void seam_short_write_leaves_half(void **state)
{
    (void)state;
    setenv("TY_FAULT", "short-write:1", 1);
    ty_seam_role("server");
    int fds[2];
    char got[8];
    assert_int_equal(pipe(fds), 0);
    assert_err(TY_RESOURCE_EXHAUSTED, ty_write_all(fds[1], "abcd", 4));
    assert_int_equal(read(fds[0], got, sizeof got), 2);
    assert_memory_equal(got, "ab", 2);
    unsetenv("TY_FAULT");
    ty_seam_role("server");
    close(fds[0]);
    close(fds[1]);
}

static void seam_crash_leaves_a_torn_write(void **state)
{
    (void)state;
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("TY_CRASH", "2", 1);
        ty_seam_role("server");
        if (ty_write_all(pipe_fd[1], "abcd", 4) == TY_OK)
            (void)!ty_write_all(pipe_fd[1], "efgh", 4);
        _exit(0);
    }
    close(pipe_fd[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    char got[16] = {0};
    assert_int_equal(read(pipe_fd[0], got, sizeof got), 6);
    assert_string_equal(got, "abcdef");
    close(pipe_fd[0]);
}

static void seam_clock_jumps(void **state)
{
    (void)state;
    char path[] = "/tmp/test_base.XXXXXX";
    int fd = mkstemp(path);
    int64_t hour = 3600 * 1000000000LL, zero = 0;
    assert_int_equal(pwrite(fd, &zero, 8, 0), 8);
    setenv("TY_CLOCK", path, 1);
    ty_seam_role("server");
    int64_t wall = ty_now_ns(), boot = ty_boot_ns();
    assert_int_equal(pwrite(fd, &hour, 8, 0), 8);
    assert_true(ty_now_ns() - wall >= hour);
    assert_true(ty_boot_ns() - boot < hour);
    unsetenv("TY_CLOCK");
    close(fd);
    unlink(path);
}

static const struct CMUnitTest tests[] = {
    TEST("error/wrap_puts_context_first", error_wrap_puts_context_first),
    TEST("error/fail_may_quote_the_last_message", error_fail_may_quote_the_last_message),
    TEST("error/errno_gives_code", error_errno_gives_code),
    TEST("string/split_and_trim", string_split_and_trim),
    TEST("string/numbers_are_whole_and_in_range", string_numbers_are_whole_and_in_range),
    TEST("string/utf8", string_utf8),
    TEST("arena/grows", arena_grows),
    TEST("buffer/stops_at_its_limit", buffer_stops_at_its_limit),
    TEST("config/reads_and_refuses", config_reads_and_refuses),
    TEST("files/replace_and_remove", files_replace_and_remove),
    TEST("lock/is_of_one_and_says_whose", lock_is_of_one_and_says_whose),
    TEST("lock/names_no_pid_of_another_namespace", lock_names_no_pid_of_another_namespace),
    TEST("lock/names_a_jobs_replica", lock_names_a_jobs_replica),
    TEST("lock/ends_with_its_process", lock_ends_with_its_process),
    TEST("seam/fails_the_nth_step", seam_fails_the_nth_step),
    TEST("seam/short_write_leaves_half", seam_short_write_leaves_half),
    TEST("seam/crash_leaves_a_torn_write", seam_crash_leaves_a_torn_write),
    TEST("seam/clock_jumps", seam_clock_jumps),
};
TEST_MAIN("base", tests)
