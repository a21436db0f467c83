/* test_cli.c -- runs cli's groups of tests; `build/test_cli flags/both_forms` runs one case. */
#define TY_SEAM /* runs shells */
#include "cli/test_cli.h"

struct ty_arena arena;

int arena_close(void **state)
{
    (void)state;
    ty_arena_clear(&arena);
    return 0;
}

/* Parse "a|b|c" as the words after `command`. */
ty_err parse(const char *command, const char *line, struct cli_args *ret_args)
{
    char *argv[32];
    int argc = 0;
    ty_str rest = ty_str_of(line), word;
    bool more = rest.len > 0;
    while (more) {
        more = ty_str_split(&rest, '\x1f', &word);
        argv[argc++] = ty_cstr(&arena, word);
    }
    const struct cli_command *cmd = cli_command_named(ty_str_of(command));
    assert_non_null(cmd);
    return cli_args_parse(&arena, cmd, argc, argv, ret_args);
}

void assert_str(ty_str have, const char *want)
{
    if (!ty_str_is(have, want))
        fail_msg("'" TY_STR_FMT "' is not '%s'", TY_STR_ARG(have), want);
}

void assert_json(const json_t *have, const char *want)
{
    json_t *wanted;
    assert_ok(wire_json_parse(ty_str_of(want), &wanted));
    char *text = json_dumps(have, JSON_SORT_KEYS);
    if (!json_equal((json_t *)have, wanted))
        fail_msg("%s\nis not\n%s", text, want);
    free(text);
    json_decref(wanted);
}

void capture_start(struct capture *c)
{
    snprintf(c->path, sizeof(c->path), "/tmp/test_cli.XXXXXX");
    int out = mkstemp(c->path);
    assert_true(out >= 0);
    c->stdout_fd = dup(STDOUT_FILENO);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
}

const char *capture_end(struct capture *c)
{
    ty_str text;
    fflush(stdout);
    dup2(c->stdout_fd, STDOUT_FILENO);
    close(c->stdout_fd);
    assert_ok(ty_file_read(AT_FDCWD, c->path, 1 << 20, &arena, &text));
    unlink(c->path);
    return ty_cstr(&arena, text);
}

const char *printed(int argc, char **argv)
{
    struct capture capture;
    capture_start(&capture);
    int status = cli_main(argc, argv);
    const char *text = capture_end(&capture);
    assert_int_equal(status, CLI_OK);
    return text;
}

/* Run a script in `shell` and return what it printed. */
const char *shell(const char *program, const char *script)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execlp(program, program, "-c", script, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    struct ty_buf b;
    char part[4096];
    ssize_t n;
    ty_buf_init(&b, 1 << 20);
    while ((n = read(fds[0], part, sizeof(part))) > 0)
        ty_buf_add(&b, part, (size_t)n);
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    const char *text = ty_cstr(&arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

char self_path[PATH_MAX];

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--as-trainyard") == 0) {
        argv[1] = "trainyard";
        return cli_main(argc - 1, argv + 1);
    }
    ssize_t n = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);
    if (n < 0)
        return 1;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed =
        test_flags() + test_spec() + test_output() + test_filter() + test_shell() + test_argv();
    return failed == 0 ? 0 : 1;
}
