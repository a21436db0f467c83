/* test_flags.c -- reading flags, files of them, and finding commands. */
#include "cli/test_cli.h"

/* ---- flags ---- */

static void flags_both_forms(void **state)
{
    (void)state;
    struct cli_args args;
    assert_ok(parse(LIST, "--region=us-east1" SEP "--limit" SEP "3" SEP "--uri", &args));
    assert_str(cli_arg(&args, "region"), "us-east1");
    assert_int_equal(cli_arg_int(&args, "limit", 0), 3);
    assert_true(cli_arg_on(&args, "uri"));
    assert_false(cli_arg_given(&args, "filter"));
    assert_ok(parse(LIST, "--region=a" SEP "--region=b", &args));
    assert_str(cli_arg(&args, "region"), "b");
    assert_ok(parse(LIST, "--filter=a=b", &args));
    assert_str(cli_arg(&args, "filter"), "a=b");
}

static void flags_booleans_can_be_negated(void **state)
{
    (void)state;
    struct cli_args args;
    assert_ok(parse(CREATE, "--enable-web-access" SEP "--no-enable-web-access", &args));
    assert_true(cli_arg_given(&args, "enable-web-access"));
    assert_false(cli_arg_on(&args, "enable-web-access"));
    assert_ok(parse(CREATE, "--enable-web-access=false", &args));
    assert_false(cli_arg_on(&args, "enable-web-access"));
    assert_err(TY_INVALID_ARGUMENT, parse(CREATE, "--enable-web-access=maybe", &args));
    assert_err(TY_INVALID_ARGUMENT, parse(CREATE, "--no-region", &args));
}

static void flags_unknown_names_the_nearest(void **state)
{
    (void)state;
    struct cli_args args;
    assert_err(TY_INVALID_ARGUMENT, parse(CREATE, "--display-nam=x", &args));
    assert_non_null(strstr(ty_err_message(), "did you mean '--display-name'"));
    assert_err(TY_INVALID_ARGUMENT, parse(CREATE, "--zzzzzzzzzzzz=x", &args));
    assert_null(strstr(ty_err_message(), "did you mean"));
}

static void flags_missing_and_bad_values(void **state)
{
    (void)state;
    struct cli_args args;
    assert_err(TY_INVALID_ARGUMENT, parse(CREATE, "--region", &args));
    assert_non_null(strstr(ty_err_message(), "--region"));
    assert_err(TY_INVALID_ARGUMENT, parse(CREATE, "--args" SEP "--x=1", &args));
    assert_non_null(strstr(ty_err_message(), "needs '='"));
    assert_err(TY_INVALID_ARGUMENT, parse(LIST, "--limit=many", &args));
    assert_err(TY_INVALID_ARGUMENT, parse(LIST, "--limit=0", &args));
    assert_non_null(strstr(ty_err_message(), "above 0"));
    assert_err(TY_INVALID_ARGUMENT, parse(LIST, "--limit=99999999999999999999", &args));
    assert_non_null(strstr(ty_err_message(), "'99999999999999999999' is too big"));
    assert_err(TY_INVALID_ARGUMENT, parse(LIST, "extra", &args));
    assert_err(TY_INVALID_ARGUMENT, parse(LIST, "-x", &args));
    assert_err(TY_INVALID_ARGUMENT, parse("ai custom-jobs describe", "1" SEP "2", &args));
    assert_ok(parse("ai custom-jobs describe", "--" SEP "--5", &args));
    assert_str(args.positional, "--5");
}

static void flags_split_by_a_space_are_shown_joined(void **state)
{
    (void)state;
    struct cli_args args;
    static const struct {
        const char *line, *joined;
    } cases[] = {
        {"--worker-pool-spec=machine-type=X," SEP "replica-count=1" SEP "--display-name=x",
         " --worker-pool-spec=machine-type=X,replica-count=1)"},
        {"--worker-pool-spec" SEP "machine-type=X," SEP "a=1," SEP "b=2",
         " --worker-pool-spec=machine-type=X,a=1,b=2)"},
        {"--args=a" SEP ",b c", " --args='a,b c')"},
        {"--labels=a=1," SEP "b=2" SEP "extra", " --labels=a=1,b=2)"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        assert_err(TY_INVALID_ARGUMENT, parse(CREATE, cases[i].line, &args));
        if (strstr(ty_err_message(), cases[i].joined) == NULL)
            fail_msg("'%s' does not have '%s'", ty_err_message(), cases[i].joined);
    }
    const char *plain[] = {"--args=a" SEP "b", "--display-name=a," SEP "b",
                           "--args=a," SEP "--quiet" SEP "b", "--args=a," SEP "--" SEP "b"};
    for (size_t i = 0; i < TY_COUNT(plain); i++) {
        assert_err(TY_INVALID_ARGUMENT, parse(CREATE, plain[i], &args));
        assert_string_equal(ty_err_message(), "unrecognized arguments: b");
    }
}

static void commands_mistyped_are_suggested(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"ai custom-jobs creat", CREATE},
                                           {"ai custom-job list", LIST},
                                           {"custom-jobs list", LIST},
                                           {"describe", "ai custom-jobs describe"},
                                           {"confg set", "config set"},
                                           {"dctor", "doctor"},
                                           {"bogus", NULL},
                                           {"ai bogus", NULL},
                                           {"ai models list", NULL},
                                           {"", NULL},
                                           {"a b c d e", NULL}};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        const char *near = cli_command_near(&arena, ty_str_of(cases[i][0]));
        if ((near == NULL) != (cases[i][1] == NULL) ||
            (near != NULL && strcmp(near, cases[i][1]) != 0))
            fail_msg("'%s': '%s'", cases[i][0], near != NULL ? near : "none");
    }
}

static void flags_list_with_other_delimiter(void **state)
{
    (void)state;
    struct cli_item *items;
    assert_ok(cli_list_split(&arena, TY_STR("^|^--x=1,2|--y"), &items));
    assert_str(items->value, "--x=1,2");
    assert_str(items->next->value, "--y");
    assert_null(items->next->next);
    assert_ok(cli_list_split(&arena, TY_STR("^--^a,b--c"), &items));
    assert_str(items->value, "a,b");
    assert_str(items->next->value, "c");
    assert_ok(cli_list_split(&arena, TY_STR("^alone"), &items));
    assert_str(items->value, "^alone");
    assert_ok(cli_list_split(&arena, TY_STR("a,,b"), &items));
    assert_str(items->next->value, "");
    assert_ok(cli_list_split(&arena, TY_STR(""), &items));
    assert_null(items);
    assert_err(TY_INVALID_ARGUMENT, cli_list_split(&arena, TY_STR("^^a"), &items));
}

static void flags_dict_with_other_delimiter(void **state)
{
    (void)state;
    struct cli_item *items;
    assert_ok(cli_dict_split(&arena, "labels", TY_STR("^:^a=1,2:b=x=y"), &items));
    assert_str(items->key, "a");
    assert_str(items->value, "1,2");
    assert_str(items->next->key, "b");
    assert_str(items->next->value, "x=y");
    assert_err(TY_INVALID_ARGUMENT, cli_dict_split(&arena, "labels", TY_STR("a=1,2"), &items));
    assert_non_null(strstr(ty_err_message(), "--labels: '2' is not KEY=VALUE"));
}

/* ---- commands ---- */

static void commands_are_found_with_flags_before_them(void **state)
{
    (void)state;
    char *argv[] = {"--project",     "p",           "beta", "ai",
                    "--format=json", "custom-jobs", "list", "--limit=1"};
    bool is_word[8] = {0}, want[8] = {false, false, true, true, false, true, true, false};
    const struct cli_command *cmd = cli_command_find(8, argv, is_word);
    assert_non_null(cmd);
    assert_string_equal(cmd->words, LIST);
    assert_memory_equal(is_word, want, sizeof(want));
    char *none[] = {"ai", "models", "list"};
    assert_null(cli_command_find(3, none, is_word));
}

/* Each flag of the table is in the help of its command and is taken by the parser; each "--name" in
 * that help is a flag of it. */
static void commands_help_and_parser_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *cmd = &cli_commands[i];
        struct ty_buf help;
        ty_buf_init(&help, 1 << 16);
        cli_command_help(cmd, &help);
        for (const struct cli_flag *f = cmd->flags; f->name != NULL; f++) {
            struct cli_args args;
            const char *end =
                f->name[1] == '\0' ? " " : ""; /* "r" is not the start of "recursive" */
            bool listed = strstr(help.ptr, ty_format(&arena, "\n  --%s%s", f->name, end)) != NULL;
            assert_int_equal(listed, f->help[0] != '\0'); /* one without a meaning is ignored */
            const char *value = f->kind == CLI_BOOL                          ? ""
                                : f->kind == CLI_INT || f->kind == CLI_LIMIT ? "=1"
                                                                             : "=a=b";
            assert_ok(parse(cmd->words, ty_format(&arena, "--%s%s", f->name, value), &args));
            assert_true(cli_arg_given(&args, f->name));
        }
        for (const char *p = help.ptr; (p = strstr(p, "--")) != NULL; p++) {
            size_t n = strspn(p + 2, "abcdefghijklmnopqrstuvwxyz0123456789-_"), no = 3;
            no = strncmp(p + 2, "no-", no) == 0 ? no : 0;
            if (n > 0 && cli_flag_find(cmd, (ty_str){p + 2, n}) == NULL &&
                cli_flag_find(cmd, (ty_str){p + 2 + no, n - no}) == NULL)
                fail_msg("help of '%s' names '--%.*s', which it does not take", cmd->words, (int)n,
                         p + 2);
            p += n;
        }
        ty_buf_clear(&help);
    }
}

static void commands_are_all_in_the_general_help(void **state)
{
    (void)state;
    struct ty_buf help;
    ty_buf_init(&help, 1 << 16);
    cli_general_help(&help);
    for (size_t i = 0; i < cli_command_count; i++)
        assert_non_null(strstr(help.ptr, ty_format(&arena, "\n  %s ", cli_commands[i].words)));
    ty_buf_clear(&help);
}

static void commands_wrong_use_is_2(void **state)
{
    (void)state;
    char *lines[][6] = {{"trainyard", "bogus"},
                        {"trainyard", "ai", "custom-jobs", "creat"},
                        {"trainyard", "ai", "custom-jobs", "list", "--bogus"},
                        {"trainyard", "ai", "custom-jobs", "describe"},
                        {"trainyard", "ai", "custom-jobs", "create", "--display-name=x"},
                        {"trainyard", "ai", "custom-jobs", "list", "--format=bogus"},
                        {"trainyard", "ai", "custom-jobs", "list", "--format=value(name.bogus())"},
                        {"trainyard", "ai", "custom-jobs"},
                        {"trainyard", "ai"},
                        {"trainyard", "env", "--project=p"},
                        {"trainyard", "env", "--format=json"},
                        {"trainyard", "help", "bogus"},
                        {"trainyard", "config", "set", "project"},
                        {"trainyard", "config", "set", "project", "a", "b"},
                        {"trainyard", "config", "set", "project", "a b"},
                        {"trainyard", "config", "set", "bogus", "a"},
                        {"trainyard", "config", "get"},
                        {"trainyard", "completion", "tcsh"},
                        {"trainyard"}};
    int keep = dup(STDERR_FILENO), none = open("/dev/null", O_WRONLY);
    dup2(none, STDERR_FILENO);
    int statuses[TY_COUNT(lines)];
    for (size_t i = 0; i < TY_COUNT(lines); i++) {
        int argc = 0;
        while (argc < 6 && lines[i][argc] != NULL)
            argc++;
        statuses[i] = cli_main(argc, lines[i]);
    }
    dup2(keep, STDERR_FILENO);
    close(keep);
    close(none);
    for (size_t i = 0; i < TY_COUNT(lines); i++)
        if (statuses[i] != CLI_USAGE)
            fail_msg("line %zu: exit status %d", i, statuses[i]);
}

static void commands_help_of_groups(void **state)
{
    (void)state;
    const char *texts[] = {PRINTED("trainyard", "ai", "--help"),
                           PRINTED("trainyard", "ai", "custom-jobs", "-h"),
                           PRINTED("trainyard", "help", "ai", "custom-jobs")};
    for (size_t i = 0; i < TY_COUNT(texts); i++) {
        assert_non_null(strstr(texts[i], "ai custom-jobs stream-logs"));
        assert_null(strstr(texts[i], "doctor"));
    }
}

static void commands_help_of_settings(void **state)
{
    (void)state;
    const char *text = PRINTED("trainyard", "help", "settings");
#define SETTING_INT(name, def, min, max, doc)                                                      \
    assert_non_null(                                                                               \
        strstr(text, ty_format(&arena, "\n  %s = %lld\n      %s", #name, (long long)(def), doc)));
#define SETTING_STR(name, def, doc)                                                                \
    assert_non_null(strstr(text, ty_format(&arena, "\n  %s = %s\n      %s", #name, def, doc)));
#define SETTING_WORD(name, def, words, doc)                                                        \
    assert_non_null(                                                                               \
        strstr(text, ty_format(&arena, "\n  %s = %s\n      %s (%s)", #name, def, doc, words)));
#include "base/config.def"
#undef SETTING_INT
#undef SETTING_STR
#undef SETTING_WORD
    assert_non_null(strstr(text, "DATA/trainyard.conf"));
    assert_non_null(strstr(text, "etc/trainyard.conf"));
    assert_non_null(strstr(PRINTED("trainyard", "help"), "trainyard help settings"));
    assert_non_null(strstr(PRINTED("trainyard", "help", "serve"), "trainyard help settings"));
}

/* serve is run by main.c: it takes its own flags and --help, and nothing that it would ignore. */
static void commands_serve_takes_what_its_help_says(void **state)
{
    static const char *const names[] = {"data", "listen"};
    const char *values[2];
    int status = -1;
    (void)state;
    char *good[] = {"--data=/d"};
    assert_true(cli_own_flags(&arena, "serve", 1, good, names, values, 2, &status));
    assert_string_equal(values[0], "/d");
    assert_null(values[1]);
    const char *help = PRINTED("trainyard", "help", "serve");
    for (const struct cli_flag *f = cli_globals; f->name != NULL; f++) {
        struct cli_args args;
        bool is_help = strcmp(f->name, "help") == 0;
        const char *flag = ty_format(&arena, "--%s", f->name);
        assert_int_equal(strstr(help, flag) != NULL, is_help);
        assert_int_equal(parse("serve", flag, &args) == TY_OK, is_help);
    }
    struct cli_args args;
    assert_err(TY_INVALID_ARGUMENT, parse("serve", "bogus", &args));
    assert_non_null(strstr(ty_err_message(), "bogus"));
    assert_err(TY_INVALID_ARGUMENT, parse("serve", "--data", &args));
    assert_non_null(strstr(ty_err_message(), "--data needs a value"));
}

/* ---- --flags-file ---- */

/* Expand --flags-file of a file with this text, between two other words; NULL in *ret_argv if that
 * fails. */
static ty_err expand(const char *yaml, int *ret_argc, char ***ret_argv)
{
    char path[] = "/tmp/test_cli.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_ok(ty_write_all(fd, yaml, strlen(yaml)));
    close(fd);
    char **argv = ty_new_array(&arena, char *, 4);
    argv[0] = "--first";
    argv[1] = "--flags-file";
    argv[2] = ty_cstr(&arena, ty_str_of(path));
    argv[3] = "last";
    *ret_argc = 4;
    *ret_argv = argv;
    ty_err err = cli_flags_expand(&arena, cli_command_named(TY_STR(CREATE)), ret_argc, ret_argv);
    unlink(path);
    return err;
}

static void flags_file_is_put_in_its_place(void **state)
{
    (void)state;
    int argc;
    char **argv;
    assert_ok(expand("--display-name: hello\n"
                     "--args: [a, 'b,c', 7, true]\n"
                     "--labels: {k: v, l: 'x,y'}\n"
                     "--enable-web-access: true\n"
                     "--enable-dashboard-access: false\n"
                     "--quiet:\n"
                     "--worker-pool-spec:\n"
                     "- machine-type: m\n"
                     "  replica-count: 2\n"
                     "- container-image-uri=host\n",
                     &argc, &argv));
    const char *want[] = {"--first",
                          "--display-name=hello",
                          "--args=^\x1f^a\x1f"
                          "b,c\x1f"
                          "7\x1ftrue",
                          "--labels=^\x1f^k=v\x1fl=x,y",
                          "--enable-web-access",
                          "--enable-dashboard-access=false",
                          "--quiet",
                          "--worker-pool-spec=^\x1f^machine-type=m\x1freplica-count=2",
                          "--worker-pool-spec=container-image-uri=host",
                          "last"};
    assert_int_equal(argc, TY_COUNT(want));
    for (int i = 0; i < argc; i++)
        assert_string_equal(argv[i], want[i]);
    assert_ok(expand("- --region: a\n- --project: b\n", &argc, &argv));
    assert_int_equal(argc, 4);
    assert_string_equal(argv[1], "--region=a");
    assert_string_equal(argv[2], "--project=b");
}

static void flags_file_mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *named;
    } cases[] = {{"region: a", "'region' is no flag"},
                 {"- 7", "must be a mapping of flags"},
                 {"hello", "must be a mapping of flags"},
                 {"--region: [", "line"},
                 {"--labels: {a: {b: c}}", "--labels"},
                 {"--args: [\"a\\x1fb\"]", "control character"},
                 {"--flags-file: 7", "must be a path"},
                 {"--flags-file: /nonexistent/x", "/nonexistent/x"}};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        int argc;
        char **argv;
        assert_true(expand(cases[i].yaml, &argc, &argv) != TY_OK);
        if (strstr(ty_err_message(), cases[i].named) == NULL)
            fail_msg("'%s' does not name '%s'", ty_err_message(), cases[i].named);
        assert_int_equal(argc, 4); /* untouched */
    }
}

static void flags_file_that_names_itself_ends(void **state)
{
    (void)state;
    char path[] = "/tmp/test_cli.XXXXXX";
    int fd = mkstemp(path), argc = 1;
    assert_true(fd >= 0);
    const char *text = ty_format(&arena, "--flags-file: %s\n", path);
    assert_ok(ty_write_all(fd, text, strlen(text)));
    close(fd);
    char *words[] = {ty_format(&arena, "--flags-file=%s", path)}, **argv = words;
    assert_err(TY_INVALID_ARGUMENT,
               cli_flags_expand(&arena, cli_command_named(TY_STR(LIST)), &argc, &argv));
    assert_non_null(strstr(ty_err_message(), "name itself"));
    char *behind[] = {"--", "--flags-file=/nonexistent"};
    argc = 2;
    argv = behind;
    assert_ok(cli_flags_expand(&arena, cli_command_named(TY_STR(LIST)), &argc, &argv));
    assert_string_equal(argv[1], "--flags-file=/nonexistent");
    unlink(path);
}

static const struct CMUnitTest tests[] = {
    CLI_TEST("flags/both_forms", flags_both_forms),
    CLI_TEST("flags/booleans_can_be_negated", flags_booleans_can_be_negated),
    CLI_TEST("flags/unknown_names_the_nearest", flags_unknown_names_the_nearest),
    CLI_TEST("flags/missing_and_bad_values", flags_missing_and_bad_values),
    CLI_TEST("flags/split_by_a_space_are_shown_joined", flags_split_by_a_space_are_shown_joined),
    CLI_TEST("flags/list_with_other_delimiter", flags_list_with_other_delimiter),
    CLI_TEST("flags/dict_with_other_delimiter", flags_dict_with_other_delimiter),
    CLI_TEST("commands/are_found_with_flags_before_them",
             commands_are_found_with_flags_before_them),
    CLI_TEST("commands/help_and_parser_agree", commands_help_and_parser_agree),
    CLI_TEST("commands/are_all_in_the_general_help", commands_are_all_in_the_general_help),
    CLI_TEST("commands/mistyped_are_suggested", commands_mistyped_are_suggested),
    CLI_TEST("commands/wrong_use_is_2", commands_wrong_use_is_2),
    CLI_TEST("commands/help_of_groups", commands_help_of_groups),
    CLI_TEST("commands/help_of_settings", commands_help_of_settings),
    CLI_TEST("commands/serve_takes_what_its_help_says", commands_serve_takes_what_its_help_says),
    CLI_TEST("flags_file/is_put_in_its_place", flags_file_is_put_in_its_place),
    CLI_TEST("flags_file/mistakes_are_named", flags_file_mistakes_are_named),
    CLI_TEST("flags_file/that_names_itself_ends", flags_file_that_names_itself_ends),
};
RUN_GROUP(flags)
