/* test_cli.c -- flags, specs, output and the shell lines of env. */
#define TY_SEAM /* runs shells */
#include "base/test.h"

#include "cli/cli_int.h"
#include "wire/wire.h"

static struct ty_arena arena;

static int arena_close(void **state)
{
    (void)state;
    ty_arena_clear(&arena);
    return 0;
}

/* Parse "a|b|c" as the words after `command`. */
static ty_err parse(const char *command, const char *line, struct cli_args *ret_args)
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
#define CREATE "ai custom-jobs create"
#define LIST   "ai custom-jobs list"
#define SEP    "\x1f"

static void assert_str(ty_str have, const char *want)
{
    if (!ty_str_is(have, want))
        fail_msg("'" TY_STR_FMT "' is not '%s'", TY_STR_ARG(have), want);
}

static void assert_json(const json_t *have, const char *want)
{
    json_t *wanted;
    assert_ok(wire_json_parse(ty_str_of(want), &wanted));
    char *text = json_dumps(have, JSON_SORT_KEYS);
    if (!json_equal((json_t *)have, wanted))
        fail_msg("%s\nis not\n%s", text, want);
    free(text);
    json_decref(wanted);
}

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
    assert_err(TY_INVALID_ARGUMENT, cli_dict_split(&arena, "labels", TY_STR("a=1,a=2"), &items));
    assert_non_null(strstr(ty_err_message(), "'a' is there twice"));
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
            bool listed = strstr(help.ptr, ty_format(&arena, "\n  --%s", f->name)) != NULL;
            assert_int_equal(listed, f->help[0] != '\0'); /* one without a meaning is ignored */
            const char *value = f->kind == CLI_BOOL ? "" : f->kind == CLI_INT ? "=1" : "=a=b";
            assert_ok(parse(cmd->words, ty_format(&arena, "--%s%s", f->name, value), &args));
            assert_true(cli_arg_given(&args, f->name));
        }
        for (const char *p = help.ptr; (p = strstr(p, "--")) != NULL; p++) {
            size_t n = strspn(p + 2, "abcdefghijklmnopqrstuvwxyz-_");
            if (n > 0 && cli_flag_find(cmd, (ty_str){p + 2, n}) == NULL)
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
                        {"trainyard", "ai", "custom-jobs", "list", "--format=value(name.list())"},
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
                        {"trainyard", "completion", "fish"},
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

/* Between the two, stdout goes to a file; the second returns what was printed. */
struct capture {
    char path[32];
    int stdout_fd;
};

static void capture_start(struct capture *c)
{
    snprintf(c->path, sizeof(c->path), "/tmp/test_cli.XXXXXX");
    int out = mkstemp(c->path);
    assert_true(out >= 0);
    c->stdout_fd = dup(STDOUT_FILENO);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
}

static const char *capture_end(struct capture *c)
{
    ty_str text;
    fflush(stdout);
    dup2(c->stdout_fd, STDOUT_FILENO);
    close(c->stdout_fd);
    assert_ok(ty_file_read(AT_FDCWD, c->path, 1 << 20, &arena, &text));
    unlink(c->path);
    return ty_cstr(&arena, text);
}

static const char *printed(int argc, char **argv)
{
    struct capture capture;
    capture_start(&capture);
    int status = cli_main(argc, argv);
    const char *text = capture_end(&capture);
    assert_int_equal(status, CLI_OK);
    return text;
}
#define PRINTED(...) printed(TY_COUNT(((char *[]){__VA_ARGS__})), (char *[]){__VA_ARGS__})
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
#include "base/config.def"
#undef SETTING_INT
#undef SETTING_STR
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

/* ---- specs ---- */

static json_t *body_of(const char *line, const char *yaml)
{
    struct cli_args args;
    json_t *pools, *spec = NULL, *body;
    assert_ok(parse(CREATE, line, &args));
    assert_ok(cli_pools_from_flags(&arena, &args, &pools));
    if (yaml != NULL)
        assert_ok(cli_spec_from_yaml(ty_str_of(yaml), "job.yaml", &spec));
    assert_ok(cli_job_build(&arena, &args, spec, pools, &body));
    return body;
}

static void spec_from_flags(void **state)
{
    (void)state;
    json_t *body =
        body_of("--display-name=t1" SEP
                "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=img:1" SEP
                "--worker-pool-spec=" SEP
                "--worker-pool-spec=replica-count=2,machine-type=m,container-image-uri=i,"
                "accelerator-type=NVIDIA_TESLA_T4" SEP "--args=^|^--x=1,2|--y" SEP
                "--command=sh,-c" SEP "--labels=a=b,c=d" SEP "--labels=e=f",
                NULL);
    assert_json(body,
                "{\"displayName\":\"t1\",\"labels\":{\"a\":\"b\",\"c\":\"d\",\"e\":\"f\"},"
                "\"jobSpec\":{\"workerPoolSpecs\":["
                "{\"machineSpec\":{\"machineType\":\"n1-standard-4\"},\"replicaCount\":\"1\","
                "\"containerSpec\":{\"imageUri\":\"img:1\",\"args\":[\"--x=1,2\",\"--y\"],"
                "\"command\":[\"sh\",\"-c\"]}},{},"
                "{\"machineSpec\":{\"machineType\":\"m\",\"acceleratorType\":\"NVIDIA_TESLA_T4\","
                "\"acceleratorCount\":1},\"replicaCount\":\"2\",\"containerSpec\":{\"imageUri\":"
                "\"i\",\"args\":[\"--x=1,2\",\"--y\"],\"command\":[\"sh\",\"-c\"]}}]}}");
    json_decref(body);
}

static void spec_python_package(void **state)
{
    (void)state;
    json_t *body = body_of(
        "--display-name=p" SEP "--worker-pool-spec=executor-image-uri=e,python-module=m.t" SEP
        "--python-package-uris=gs://b/p.tar.gz" SEP "--args=-v" SEP "--command=ignored",
        NULL);
    assert_json(body, "{\"displayName\":\"p\",\"jobSpec\":{\"workerPoolSpecs\":[{\"replicaCount\":"
                      "\"1\",\"pythonPackageSpec\":{\"executorImageUri\":\"e\",\"pythonModule\":"
                      "\"m.t\",\"packageUris\":[\"gs://b/p.tar.gz\"],\"args\":[\"-v\"]}}]}}");
    json_decref(body);
}

static const char YAML[] = "workerPoolSpecs:\n"
                           "  machineSpec: {machineType: m}\n"
                           "  containerSpec: {imageUri: host, command: [echo], args: [file]}\n"
                           "service_account: from@file\n"
                           "network: from-file\n";

static void spec_flags_win_over_the_file(void **state)
{
    (void)state;
    json_t *body = body_of("--display-name=y" SEP "--args=flag" SEP
                           "--service-account=from@flag" SEP "--enable-web-access",
                           YAML);
    assert_json(body,
                "{\"displayName\":\"y\",\"jobSpec\":{\"workerPoolSpecs\":[{\"machineSpec\":{"
                "\"machineType\":\"m\"},\"containerSpec\":{\"imageUri\":\"host\",\"command\":["
                "\"echo\"],\"args\":[\"flag\"]}}],\"serviceAccount\":\"from@flag\",\"network\":"
                "\"from-file\",\"enableWebAccess\":true}}");
    json_decref(body);
}

static void spec_pools_of_flags_replace_those_of_the_file(void **state)
{
    (void)state;
    json_t *body =
        body_of("--display-name=y" SEP "--worker-pool-spec=container-image-uri=other", YAML);
    assert_json(cli_json_at(body, TY_STR("jobSpec.workerPoolSpecs")),
                "[{\"replicaCount\":\"1\",\"containerSpec\":{\"imageUri\":\"other\"}}]");
    json_decref(body);
}

static void spec_mistakes_are_named(void **state)
{
    static const struct {
        const char *spec, *named;
    } cases[] = {
        {"", "first one is empty"},
        {"bogus=1", "'bogus'"},
        {"replica-cout=1,container-image-uri=i", "did you mean 'replica-count'"},
        {"machine-type=m", "container-image-uri"},
        {"container-image-uri=i,executor-image-uri=e", "exactly one"},
        {"executor-image-uri=e", "python-module"},
        {"container-image-uri=i,python-module=m", "python-module"},
        {"container-image-uri=i,accelerator-count=1", "accelerator-type"},
        {"container-image-uri=i,replica-count=two", "replica-count"},
        {"container-image-uri=i,replica-count=-1", "replica-count"},
        {"container-image-uri=i,replica-count=99999999999999999999", "is too big"},
        {"container-image-uri=i,local-package-path=.", "local-package-path"},
        {"container-image-uri=\xff", "UTF-8"},
    };
    (void)state;
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct cli_args args;
        json_t *pools;
        assert_ok(parse(CREATE, ty_format(&arena, "--worker-pool-spec=%s", cases[i].spec), &args));
        assert_err(TY_INVALID_ARGUMENT, cli_pools_from_flags(&arena, &args, &pools));
        if (strstr(ty_err_message(), cases[i].named) == NULL)
            fail_msg("'%s': '%s' does not name '%s'", cases[i].spec, ty_err_message(),
                     cases[i].named);
    }
}

static void spec_bad_files_are_named(void **state)
{
    static const char *const texts[] = {"workerPoolSpecs: [", "- a list", "", "a: &a [*a]"};
    (void)state;
    for (size_t i = 0; i < TY_COUNT(texts); i++) {
        json_t *spec;
        assert_err(TY_INVALID_ARGUMENT, cli_spec_from_yaml(ty_str_of(texts[i]), "job.yaml", &spec));
        assert_non_null(strstr(ty_err_message(), "job.yaml"));
    }
    json_t *spec;
    assert_err(TY_INVALID_ARGUMENT,
               cli_spec_from_yaml(TY_STR("display_name: x\njob_spec: {}\n"), "job.yaml", &spec));
    assert_non_null(strstr(ty_err_message(), "CustomJobSpec"));
    assert_non_null(strstr(ty_err_message(), "under 'jobSpec'"));
}

/* A flag that changes one pool must not change another through an alias. */
static void spec_aliases_are_copies(void **state)
{
    (void)state;
    json_t *body = body_of("--display-name=y", "workerPoolSpecs:\n"
                                               "- machineSpec: &m {machineType: m}\n"
                                               "- machineSpec: *m\n");
    assert_json(cli_json_at(body, TY_STR("jobSpec.workerPoolSpecs")),
                "[{\"machineSpec\":{\"machineType\":\"m\"}},"
                "{\"machineSpec\":{\"machineType\":\"m\"}}]");
    assert_ptr_not_equal(cli_json_at(body, TY_STR("jobSpec.workerPoolSpecs[0].machineSpec")),
                         cli_json_at(body, TY_STR("jobSpec.workerPoolSpecs[1].machineSpec")));
    json_decref(body);
}

static void job_names_in_both_forms(void **state)
{
    (void)state;
    struct cli c = {.arena = &arena, .project = "p", .region = "r"};
    ty_str id;
    assert_ok(cli_job_name(&c, TY_STR("123"), &id));
    assert_str(id, "123");
    assert_string_equal(c.project, "p");
    assert_ok(cli_job_name(&c, TY_STR("projects/a/locations/b/customJobs/7"), &id));
    assert_str(id, "7");
    assert_string_equal(c.project, "a");
    assert_string_equal(c.region, "b");
    assert_err(TY_INVALID_ARGUMENT, cli_job_name(&c, TY_STR("a/b"), &id));
    assert_err(TY_INVALID_ARGUMENT,
               cli_job_name(&c, TY_STR("projects/a/locations/b/models/7"), &id));
    assert_ok(cli_job_name(&c, TY_STR("a?b"), &id));
    assert_str(id, "a%3Fb");
}

static ty_err pick(const char *text, const char *ids_and_names, ty_str *ret_id)
{
    json_t *jobs;
    struct cli_pick p = {.text = ty_str_of(text)};
    assert_ok(wire_json_parse(ty_str_of(ids_and_names), &jobs));
    cli_pick_add(&arena, &p, jobs);
    json_decref(jobs);
    return cli_pick_result(&arena, &p, ret_id);
}

static void job_picked_by_digits_or_name(void **state)
{
    (void)state;
    const char *jobs = "[{\"name\":\"projects/p/locations/r/customJobs/1794786703890216722\","
                       "\"displayName\":\"new\"},"
                       "{\"name\":\"projects/p/locations/r/customJobs/1794786702922862793\","
                       "\"displayName\":\"same\"},"
                       "{\"name\":\"projects/p/locations/r/customJobs/1794786701111111111\","
                       "\"displayName\":\"same\"},"
                       "{\"name\":\"projects/p/locations/r/customJobs/1794786700000000001\","
                       "\"displayName\":\"0722\"}]";
    ty_str id;
    assert_ok(pick("6722", jobs, &id));
    assert_str(id, "1794786703890216722");
    assert_ok(pick("179478670292", jobs, &id));
    assert_str(id, "1794786702922862793");
    assert_ok(pick("same", jobs, &id)); /* the newest */
    assert_str(id, "1794786702922862793");
    assert_ok(pick("0722", jobs, &id)); /* no id ends so: a name may be digits */
    assert_str(id, "1794786700000000001");
    assert_err(TY_INVALID_ARGUMENT, pick("1794", jobs, &id));
    assert_non_null(strstr(ty_err_message(), "4 jobs"));
    assert_non_null(strstr(ty_err_message(), "\n  1794786703890216722  new"));
    assert_err(TY_NOT_FOUND, pick("722", jobs, &id)); /* too few digits, and no name */
    assert_err(TY_NOT_FOUND, pick("sam", jobs, &id));
    assert_non_null(strstr(ty_err_message(), "'sam'"));
}

/* ---- watch ---- */

static void watch_shows_changes_only(void **state)
{
    (void)state;
    json_t *seen = json_object(), *jobs;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    assert_ok(
        wire_json_parse(TY_STR("[{\"name\":\"p/2\",\"displayName\":\"b\\n\",\"state\":\"RUNNING\"},"
                               "{\"name\":\"p/1\",\"displayName\":\"a\",\"state\":\"SUCCEEDED\"}]"),
                        &jobs));
    cli_watch_changes(&arena, seen, jobs, &b);
    const char *first = strstr(b.ptr, "\t1\tSUCCEEDED\ta\n");
    const char *second = strstr(b.ptr, "\t2\tRUNNING\tb\\n\n");
    assert_non_null(first);
    assert_true(second > first);
    ty_buf_clear(&b);
    cli_watch_changes(&arena, seen, jobs, &b);
    assert_int_equal(b.len, 0);
    json_object_set_new(json_array_get(jobs, 0), "state", json_string("FAILED"));
    cli_watch_changes(&arena, seen, jobs, &b);
    assert_non_null(strstr(b.ptr, "\t2\tFAILED\t"));
    assert_null(strstr(b.ptr, "\t1\t"));
    ty_buf_clear(&b);
    json_decref(jobs);
    json_decref(seen);
}

/* ---- why ---- */

static const char *why_text(const char *answer)
{
    struct ty_buf b;
    json_t *why;
    assert_ok(wire_json_parse(ty_str_of(answer), &why));
    ty_buf_init(&b, 1 << 16);
    cli_why_text(&arena, &b, why);
    const char *text = ty_cstr(&arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(why);
    return text;
}

static void why_waiting_names_holders_and_remedy(void **state)
{
    (void)state;
    const char *text = why_text(
        "{\"state\":\"JOB_STATE_QUEUED\",\"waits\":true,\"replicas\":2,\"attempt\":0,\"retries\":0,"
        "\"restarts\":0,\"name\":\"projects/p/locations/r/customJobs/"
        "17\",\"displayName\":\"a\\u001bb\","
        "\"since\":\"2026-01-02T00:00:00Z\",\"reason\":\"waiting for slots\",\"slots\":4,"
        "\"slotsUsed\":3,\"aheadCount\":0,\"startsWith\":\"1 more free replica slot\",\"heldBy\":[{"
        "\"job\":\"12\",\"state\":\"JOB_STATE_RUNNING\",\"replicas\":3,\"displayName\":\"long\","
        "\"since\":\"2026-01-02T00:00:00Z\"}],\"ahead\":[]}");
    assert_non_null(strstr(text, "Job 17 'a\\x1bb' is QUEUED.\n"));
    assert_non_null(strstr(text, "\nSince 2"));
    assert_non_null(strstr(text, " ago) it waits: waiting for slots.\n"));
    assert_non_null(strstr(text, "3 of 4 in use; it needs 2."));
    assert_non_null(strstr(text, "\n12  long  RUNNING  3 "));
    assert_non_null(strstr(text, "What would start it now: 1 more free replica slot.\n"));
    assert_null(strstr(text, "before it"));
    assert_null(strstr(text, "Attempt"));
}

static void why_ended_says_how(void **state)
{
    (void)state;
    const char *text = why_text(
        "{\"state\":\"JOB_STATE_FAILED\",\"waits\":false,\"replicas\":2,\"attempt\":4,\"retries\":"
        "3,"
        "\"restarts\":1,\"name\":\"projects/p/locations/r/customJobs/17\",\"displayName\":\"x\","
        "\"since\":\"2026-01-02T00:00:00Z\",\"reason\":\"status of 3\"}");
    assert_non_null(strstr(text, "\nIt ended 2"));
    assert_non_null(strstr(text, "): status of 3\n"));
    assert_non_null(strstr(text, "tried again 3 times, replicas were restarted in place 1 time."));
    assert_null(strstr(text, "slots"));
}

/* ---- env ---- */

/* Run a script in `shell` and return what it printed. */
static const char *shell(const char *program, const char *script)
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

static void env_quoting_survives_the_shell(void **state)
{
    static const char *const values[] = {
        "plain", "", "it's", "a b\t$HOME `id` \"x\" \\", "'", "''", "new\nline", "*", "~", "!"};
    (void)state;
    for (size_t i = 0; i < TY_COUNT(values); i++) {
        struct ty_buf b;
        ty_buf_init(&b, 4096);
        cli_shell_quote(&b, values[i]);
        const char *script = ty_format(&arena, "x=%s; printf '%%s' \"$x\"", b.ptr);
        assert_string_equal(shell("sh", script), values[i]);
        assert_string_equal(shell("bash", script), values[i]);
        ty_buf_clear(&b);
    }
}

/* `env` as a function of the test's own process, so that the shell below can call it: this very
 * program, run as "test_cli --as-trainyard ...". */
static char self_path[PATH_MAX];

static void env_round_trip(void **state)
{
    static const char script[] =
        "set -eu\n"
        "export PATH=\"$PATH\" PYTHONPATH=\"/my libs:/o'ther\" CLOUDSDK_CORE_PROJECT=\"it's "
        "mine\"\n"
        "export GOOGLE_CLOUD_PROJECT=real CLOUDSDK_CONFIG=/home/me/gcloud TRAINYARD_URL=\n"
        "t() { \"$SELF\" --as-trainyard env --data \"$DIR\" \"$@\" 2>/dev/null; }\n"
        "dump() { env -0 | sort -z | tr '\\0\\n' '\\n_' | grep -vE '^(_|SHLVL|OLDPWD|PWD)='; }\n"
        "before=$(dump)\n"
        "eval \"$(t)\"\n"
        "case $PATH in \"$DIR\"/client/bin:*) ;; *) echo path: $PATH; exit 0;; esac\n"
        "test \"$PYTHONPATH\" = \"$DIR/client/python:/my libs:/o'ther\" || echo python: "
        "$PYTHONPATH\n"
        "test \"${CLOUDSDK_CORE_PROJECT-none}\" = none || echo project is still set\n"
        "test \"$CLOUDSDK_CONFIG\" = \"$DIR/client/gcloud\" || echo config: $CLOUDSDK_CONFIG\n"
        "once=$(dump)\n"
        "eval \"$(t)\"\n"
        "test \"$(dump)\" = \"$once\" || echo the second env changed something\n"
        "eval \"$(t --shims)\"\n"
        "case $PATH in \"$DIR\"/client/shims:\"$DIR\"/client/bin:*) ;; *) echo shims: $PATH;; "
        "esac\n"
        "eval \"$(t)\"\n"
        "test \"$(dump)\" = \"$once\" || echo env after --shims still has them\n"
        "eval \"$(t --shims)\"\n"
        "PATH=/venv/bin:$PATH\n"
        "eval \"$(t --unset)\"\n"
        "case $PATH in /venv/bin:*) PATH=${PATH#/venv/bin:};; *) echo lost the venv;; esac\n"
        "test \"$(dump)\" = \"$before\" || { echo \"$before\"; echo -----; dump; }\n"
        "undo=$(t --unset)\n"
        "test -z \"$undo\" || echo the second --unset says $undo\n"
        "test \"$(dump)\" = \"$before\" || echo the second --unset changed something\n";
    char dir[] = "/tmp/test cli'.XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    setenv("DIR", dir, 1);
    setenv("SELF", self_path, 1);
    const char *in_sh = shell("sh", script), *in_bash = shell("bash", script);
    unsetenv("DIR");
    unsetenv("SELF");
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
    assert_string_equal(in_sh, "");
    assert_string_equal(in_bash, "");
}

static void env_has_no_google_host(void **state)
{
    char dir[] = "/tmp/test_cli.XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_ok(ty_file_replace(AT_FDCWD, ty_format(&arena, "%s/url", dir),
                              TY_STR("http://127.0.0.1:1\n"), 0600));
    setenv("DIR", dir, 1);
    setenv("SELF", self_path, 1);
    const char *text =
        shell("sh", "\"$SELF\" --as-trainyard env --data \"$DIR\" 2>&1 | tr -d \"'\"");
    unsetenv("DIR");
    unsetenv("SELF");
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
    assert_null(strstr(text, "googleapis"));
    assert_null(strstr(text, "google.com"));
    assert_non_null(strstr(text, "export TRAINYARD_URL=http://127.0.0.1:1\n"));
    assert_non_null(strstr(text, "no server answers at http://127.0.0.1:1"));
    assert_non_null(strstr(text, "trainyard serve"));
}

/* ---- output ---- */

static void output_values_by_dotted_key(void **state)
{
    (void)state;
    json_t *job;
    assert_ok(wire_json_parse(TY_STR("{\"name\":\"n\",\"jobSpec\":{\"a\":[1,\"x\"]},\"ok\":true}"),
                              &job));
    assert_string_equal(json_string_value(cli_json_at(job, TY_STR("name"))), "n");
    assert_int_equal(json_array_size(cli_json_at(job, TY_STR("job_spec.a"))), 2);
    assert_null(cli_json_at(job, TY_STR("name.deeper")));
    assert_null(cli_json_at(job, TY_STR("nothing")));
    json_decref(job);
}

/* "KEY" of the item as --format=value(KEY) shows it. */
static void shows(const json_t *item, const char *key, const char *want)
{
    struct cli_column columns[CLI_MAX_COLUMNS];
    size_t count;
    assert_ok(cli_columns_parse(ty_str_of(key), columns, &count));
    assert_int_equal(count, 1);
    assert_str(cli_column_text(&arena, &columns[0], item), want);
}

static void output_columns(void **state)
{
    (void)state;
    json_t *job;
    assert_ok(wire_json_parse(
        TY_STR("{\"name\":\"projects/p/customJobs/7\",\"jobSpec\":{\"pools\":[{\"n\":\"1\"},"
               "{\"n\":\"2\",\"uri\":\"gs://b/"
               "x\"}]},\"ok\":true,\"labels\":{\"a\":\"b\",\"c\":\"d\"}}"),
        &job));
    shows(job, "name.basename()", "7");
    shows(job, "jobSpec.pools[1].n", "2");
    shows(job, "job_spec.pools[0].n.basename()", "1");
    shows(job, "jobSpec.pools[2].n", "");
    shows(job, "jobSpec.pools.n", "1;2");
    shows(job, "jobSpec.pools[].uri.basename()", ";x");
    shows(job, "nope", "");
    shows(job, "name[0].nope", "");
    shows(job, " ok ", "True");
    shows(job, "labels", "a=b;c=d");
    json_decref(job);
    struct cli_column columns[CLI_MAX_COLUMNS];
    size_t count;
    assert_ok(cli_columns_parse(TY_STR("name.basename(),jobSpec.pools[0].replicaCount"), columns,
                                &count));
    assert_int_equal(count, 2);
    assert_str(cli_column_heading(&arena, &columns[0], true), "NAME");
    assert_str(cli_column_heading(&arena, &columns[1], false), "replica_count");
}

static void output_bad_columns_are_named(void **state)
{
    static const char *const cases[][2] = {{"name.list()", "'list()'"},
                                           {"a.b.scope(c)", "'scope()'"},
                                           {"a,name.basename().b", "'basename()'"},
                                           {"", "'' is no key"},
                                           {"a..b", "'a..b' is no key"},
                                           {"a[x]", "'a[x]' is no key"},
                                           {"a[1", "'a[1' is no key"},
                                           {"a,[1]", "'[1]' is no key"},
                                           {"a:label=B", "'a:label=B' is no key"}};
    (void)state;
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct cli_column columns[CLI_MAX_COLUMNS];
        size_t count;
        assert_err(TY_INVALID_ARGUMENT, cli_columns_parse(ty_str_of(cases[i][0]), columns, &count));
        if (strstr(ty_err_message(), cases[i][1]) == NULL)
            fail_msg("'%s': '%s' does not say %s", cases[i][0], ty_err_message(), cases[i][1]);
    }
    assert_null(cli_json_at(NULL, TY_STR("[")));
}

static const char *formatted(const char *json, const char *format)
{
    struct cli c = {.arena = &arena};
    struct capture capture;
    json_t *value;
    assert_ok(wire_json_parse(ty_str_of(json), &value));
    capture_start(&capture);
    int status = cli_print(&c, value, format);
    const char *text = capture_end(&capture);
    json_decref(value);
    assert_int_equal(status, CLI_OK);
    return text;
}

static void output_table_is_safe_and_aligned(void **state)
{
    static const char jobs[] =
        "[{\"name\":\"a/1\",\"displayName\":\"x\\u001b[31m\\ny\",\"state\":\"S\"},"
        "{\"name\":\"a/2\",\"displayName\":\"\u00e9\u8a13\u7df4\",\"state\":\"T\"}]";
    (void)state;
    const char *text = formatted(jobs, "table");
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "1   x\\x1b[31m\\ny  S "));
    assert_non_null(strstr(text, "2   \u00e9\u8a13\u7df4         T "));
    assert_string_equal(formatted(jobs, "table(name.basename(),displayName)"),
                        "NAME  DISPLAY_NAME\n1     x\\x1b[31m\\ny\n2     \u00e9\u8a13\u7df4\n");
    assert_string_equal(formatted(jobs, "csv(name.basename(),displayName)"),
                        "name,display_name\n1,\"x\x1b[31m\ny\"\n2,\u00e9\u8a13\u7df4\n");
    assert_string_equal(formatted(jobs, "csv[no-heading](state)"), "S\nT\n");
    assert_string_equal(formatted(jobs, "value(state,nope,name)"), "S\t\ta/1\nT\t\ta/2\n");
}

static void output_text_shown(void **state)
{
    (void)state;
    assert_str(cli_text_shown(&arena, TY_STR("a\tb\nc\x1b]0;t\a\x7f"), false),
               "a\\tb\\nc\\x1b]0;t\\x07\\x7f");
    assert_str(cli_text_shown(&arena, TY_STR("a\tb\nc\r"), true), "a\tb\nc\\r");
    assert_str(cli_text_shown(&arena, TY_STR("\xff\xe9x \xc2\x9b \u202e\u00e9\U0001f600"), true),
               "\\xff\\xe9x \\x9b \\u202e\u00e9\U0001f600");
    assert_str(cli_text_shown(&arena, TY_STR(""), true), "");
    assert_int_equal(cli_text_width(TY_STR("ab\u00e9")), 3);
    assert_int_equal(cli_text_width(TY_STR("\u8a13\U0001f600e\u0301")), 5);
}

/* ---- the settings file ---- */

/* "#name = value" lines of the file: all settings, nothing else, and they are the defaults. */
/* What bash proposes for a line whose words are given; the last one is being written. */
static const char *completed(const char *words)
{
    return shell("bash",
                 ty_format(&arena,
                           "source <('%s' --as-trainyard completion bash); COMP_WORDS=(%s); "
                           "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _trainyard; "
                           "echo -n \" ${COMPREPLY[*]} \"",
                           self_path, words));
}

static void completion_knows_every_command_and_flag(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *cmd = &cli_commands[i];
        ty_str rest = ty_str_of(cmd->words), word;
        const char *before = "trainyard";
        bool more = true;
        while (more) {
            more = ty_str_split(&rest, ' ', &word);
            assert_non_null(strstr(completed(ty_format(&arena, "%s ''", before)),
                                   ty_format(&arena, " " TY_STR_FMT " ", TY_STR_ARG(word))));
            before = ty_format(&arena, "%s " TY_STR_FMT, before, TY_STR_ARG(word));
        }
        const char *flags = completed(ty_format(&arena, "%s --", before));
        for (const struct cli_flag *f = cmd->flags; f->name != NULL; f++)
            assert_int_equal(strstr(flags, ty_format(&arena, " --%s%s ", f->name,
                                                     f->kind == CLI_BOOL ? "" : "=")) != NULL,
                             f->help[0] != '\0');
    }
}

static void completion_narrows(void **state)
{
    (void)state;
    assert_string_equal(completed("trainyard ai custom-jobs cr"), " create ");
    assert_string_equal(completed("trainyard ai custom-jobs list --fo"), " --format= ");
    assert_string_equal(completed("trainyard ai --project = p cus"), " custom-jobs ");
    assert_string_equal(completed("trainyard ai custom-jobs describe 17 --reg"), " --region= ");
    assert_string_equal(completed("trainyard ai custom-jobs list --format = js"), "  ");
    assert_string_equal(completed("trainyard zzz ''"), "  ");
    assert_string_equal(completed("trainyard ai ''"), " custom-jobs ");
}

static void settings_file_has_every_setting(void **state)
{
    (void)state;
    ty_str text, line;
    struct ty_buf set;
    size_t lines = 0, settings = 0;
    bool more = true;
    struct ty_config defaults, read;
    ty_config_init(&defaults, &arena);
    ty_config_init(&read, &arena);
    ty_buf_init(&set, 1 << 16);
    assert_ok(ty_file_read(AT_FDCWD, TRAINYARD_CONF, 1 << 16, &arena, &text));
    while (more) {
        more = ty_str_split(&text, '\n', &line);
        if (line.len < 2 || line.ptr[0] != '#' || line.ptr[1] == ' ')
            continue;
        lines++;
        ty_buf_adds(&set, ty_str_drop(line, 1));
        ty_buf_addc(&set, '\n');
    }
    assert_ok(ty_config_parse(&read, &arena, TRAINYARD_CONF, ty_buf_str(&set)));
#define SETTING_INT(name, def, min, max, doc)                                                      \
    settings++;                                                                                    \
    assert_int_equal(read.name, defaults.name);                                                    \
    assert_non_null(strstr(ty_format(&arena, "\n%s", set.ptr), "\n" #name " ="));
#define SETTING_STR(name, def, doc)                                                                \
    settings++;                                                                                    \
    assert_string_equal(read.name, defaults.name);                                                 \
    assert_non_null(strstr(ty_format(&arena, "\n%s", set.ptr), "\n" #name " ="));
#include "base/config.def"
#undef SETTING_INT
#undef SETTING_STR
    assert_int_equal(lines, settings);
    ty_buf_clear(&set);
}

#define CLI_TEST(name_, fn_)                                                                       \
    {                                                                                              \
        .name = (name_), .test_func = (fn_), .teardown_func = arena_close                          \
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
    CLI_TEST("spec/from_flags", spec_from_flags),
    CLI_TEST("spec/python_package", spec_python_package),
    CLI_TEST("spec/flags_win_over_the_file", spec_flags_win_over_the_file),
    CLI_TEST("spec/pools_of_flags_replace_those_of_the_file",
             spec_pools_of_flags_replace_those_of_the_file),
    CLI_TEST("spec/mistakes_are_named", spec_mistakes_are_named),
    CLI_TEST("spec/bad_files_are_named", spec_bad_files_are_named),
    CLI_TEST("spec/aliases_are_copies", spec_aliases_are_copies),
    CLI_TEST("job/names_in_both_forms", job_names_in_both_forms),
    CLI_TEST("job/picked_by_digits_or_name", job_picked_by_digits_or_name),
    CLI_TEST("watch/shows_changes_only", watch_shows_changes_only),
    CLI_TEST("why/waiting_names_holders_and_remedy", why_waiting_names_holders_and_remedy),
    CLI_TEST("why/ended_says_how", why_ended_says_how),
    CLI_TEST("env/quoting_survives_the_shell", env_quoting_survives_the_shell),
    CLI_TEST("env/round_trip", env_round_trip),
    CLI_TEST("env/has_no_google_host", env_has_no_google_host),
    CLI_TEST("output/values_by_dotted_key", output_values_by_dotted_key),
    CLI_TEST("output/columns", output_columns),
    CLI_TEST("output/bad_columns_are_named", output_bad_columns_are_named),
    CLI_TEST("output/table_is_safe_and_aligned", output_table_is_safe_and_aligned),
    CLI_TEST("output/text_shown", output_text_shown),
    CLI_TEST("completion/knows_every_command_and_flag", completion_knows_every_command_and_flag),
    CLI_TEST("completion/narrows", completion_narrows),
    CLI_TEST("settings/file_has_every_setting", settings_file_has_every_setting),
};

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
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL) == 0 ? 0 : 1;
}
