/* test_base.c -- errors, strings, arenas, buffers, settings, the seam. */
#define TY_SEAM
#include "base/test.h"

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
    TEST("seam/fails_the_nth_step", seam_fails_the_nth_step),
    TEST("seam/short_write_leaves_half", seam_short_write_leaves_half),
    TEST("seam/crash_leaves_a_torn_write", seam_crash_leaves_a_torn_write),
    TEST("seam/clock_jumps", seam_clock_jumps),
};
TEST_MAIN("base", tests)
