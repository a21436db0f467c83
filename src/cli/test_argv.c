/* test_argv.c -- every command with odd words: no crash (the sanitizers watch), and an exit status
 * that is one of ours.
 *
 * Each line is made of words of commands.def, halves of them, and bytes that break parsers. It runs
 * in a process of its own with an empty data folder, so that nothing is reached or written. */
#define TY_SEAM /* forks */
#include "cli/test_cli.h"

enum { LINES = 300, WORDS = 12 };

static uint32_t seed = 20261116;

static uint32_t next_random(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static char *odd_value(void)
{
    static const char *const odd[] = {
        "",
        "=",
        "-",
        "--",
        "---",
        ",",
        ",,=,",
        "^",
        "^^",
        "^|^",
        "^,^a,b",
        "~",
        "(",
        "()",
        "a=",
        "=a",
        "a=b,a",
        "0",
        "-1",
        "99999999999999999999",
        "1e9",
        "\xff\xfe",
        "\x01",
        "%s%n",
        "value(",
        "value(a.b(",
        "table[](a)",
        "table[box](a:sort=1:label=)",
        "json(a[],b[0])",
        "value(a.date('%Q'))",
        "csv(,)",
        "text(a.join())",
        "list()",
        "a=(b OR",
        "NOT NOT a",
        "a~[",
        "/dev/null",
        "/",
        "../../x",
        "projects/p/locations/r/customJobs/1",
        "projects//locations//customJobs/",
        "true",
        "false",
        "machine-type=m,container-image-uri=i,replica-count=0",
        "none",
        "bash",
        "settings",
        "-q",
        "-h",
    };
    return ty_cstr(&arena, ty_str_of(odd[next_random(TY_COUNT(odd))]));
}

static char *odd_flag(const struct cli_command *cmd)
{
    size_t count = 0;
    while (cmd->flags[count].name != NULL)
        count++;
    const char *name =
        count > 0 && next_random(4) > 0 ? cmd->flags[next_random((uint32_t)count)].name : "format";
    switch (next_random(5)) {
    case 0:
        return ty_format(&arena, "--%s", name);
    case 1:
        return ty_format(&arena, "--no-%s", name);
    case 2:
        return ty_format(&arena, "--%.*s", (int)next_random(6), name);
    default:
        return ty_format(&arena, "--%s=%s", name, odd_value());
    }
}

/* argv of one odd line; returns its length. */
static int line_make(char **argv)
{
    const struct cli_command *cmd = &cli_commands[next_random((uint32_t)cli_command_count)];
    ty_str rest = ty_str_of(cmd->words), word;
    int argc = 0;
    static const char *const names[] = {"trainyard", "gcloud", "gsutil", ""};
    argv[argc++] = ty_cstr(&arena, ty_str_of(names[next_random(TY_COUNT(names))]));
    for (bool more = true; more;) {
        more = ty_str_split(&rest, ' ', &word);
        if (next_random(20) > 0)
            argv[argc++] = ty_cstr(&arena, word);
    }
    for (uint32_t left = next_random(WORDS - 4); left > 0; left--)
        argv[argc++] = next_random(3) > 0 ? odd_flag(cmd) : odd_value();
    argv[argc] = NULL;
    return argc;
}

/* Commands that would wait for something or go on: not this test's matter. */
static bool line_is_quiet(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "runtimes") == 0 || strncmp(argv[i], "--watch", 7) == 0)
            return false;
    return true;
}

static int line_run(int argc, char **argv, const char *folder)
{
    int status, none;
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        none = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(none, fd);
        setenv("TRAINYARD_DATA", folder, 1);
        setenv("HOME", folder, 1);
        setenv("TRAINYARD_URL", "http://127.0.0.1:1", 1);
        unsetenv("TRAINYARD_ENV");
        unsetenv("CLOUDSDK_CONFIG");
        alarm(20);
        _exit(cli_main(argc,
                       argv)); /* without the leak check: it is slow, and this is about crashes */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void argv_odd_words_never_crash(void **state)
{
    char folder[] = "/tmp/test_argv.XXXXXX", *argv[WORDS + 1];
    (void)state;
    assert_non_null(mkdtemp(folder));
    const char *start = getenv("TEST_SEED");
    int64_t given;
    if (start != NULL && ty_parse_i64(ty_str_of(start), &given) == TY_OK)
        seed = (uint32_t)given;
    for (int i = 0; i < LINES; i++) {
        uint32_t before = seed;
        int argc = line_make(argv);
        if (!line_is_quiet(argc, argv))
            continue;
        int status = line_run(argc, argv, folder);
        bool good = WIFEXITED(status) && WEXITSTATUS(status) <= CLI_USAGE;
        if (!good)
            for (int k = 0; k < argc; k++)
                print_error("  '%s'\n", argv[k]);
        if (!good)
            fail_msg("line %d (TEST_SEED=%u): wait status %d", i, before, status);
    }
    const char *remove = ty_format(&arena, "rm -r '%s'", folder);
    shell("sh", remove);
}

static const struct CMUnitTest tests[] = {
    CLI_TEST("argv/odd_words_never_crash", argv_odd_words_never_crash),
};
RUN_GROUP(argv)
