/* cli.c -- from words to a command: find it, read its flags, run it.
 *
 * Called by a link named gcloud or gsutil (trainyard env --shims) we are that command for the words
 * we know, and hand all others to the real one further down PATH, if there is one and the
 * environment points it here. */
#include "cli/cli_int.h"

static int show(struct ty_buf *b, FILE *out, int status)
{
    fputs(b->ptr, out);
    ty_buf_clear(b);
    return status;
}

int cli_version(struct cli *c)
{
    if (c->as_gcloud)
        printf("Trainyard %s, called as gcloud\n", TY_VERSION);
    else
        printf("trainyard %s\n", TY_VERSION);
    return CLI_OK;
}

int cli_help_show(struct cli *c)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    if (c->args.positional.len == 0) {
        cli_general_help(&b);
        return show(&b, stdout, CLI_OK);
    }
    const struct cli_command *cmd = cli_command_named(c->args.positional);
    if (cmd != NULL) {
        cli_command_help(cmd, &b);
        return show(&b, stdout, CLI_OK);
    }
    if (ty_str_is(c->args.positional, "settings")) {
        cli_settings_help(&b);
        return show(&b, stdout, CLI_OK);
    }
    if (cli_group_help(c->args.positional, &b))
        return show(&b, stdout, CLI_OK);
    ty_buf_addf(&b, "trainyard: no command '" TY_STR_FMT "'; 'trainyard help' lists them\n",
                TY_STR_ARG(c->args.positional));
    return show(&b, stderr, CLI_USAGE);
}

/* Words that begin commands of ours but are none: "ai custom-jobs", which --help explains. */
static bool run_group(struct ty_arena *a, int argc, char **argv, int *ret_status)
{
    const char *given = "";
    bool help = false;
    struct ty_buf group;
    for (int i = 0; i < argc; i++) {
        help |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
        if (argv[i][0] != '-')
            given = ty_format(a, "%s%s%s", given, given[0] != '\0' ? " " : "", argv[i]);
    }
    ty_buf_init(&group, 1 << 16);
    if (cli_group_help(ty_str_of(given), &group)) {
        if (!help)
            fprintf(stderr, "ERROR: (trainyard) '%s' is not a whole command.\n", given);
        *ret_status = show(&group, help ? stdout : stderr, help ? CLI_OK : CLI_USAGE);
        return true;
    }
    return false;
}

/* Become the next program of that name on PATH that is not this one. Returns if there is none. */
static void exec_real(struct ty_arena *a, const char *name, int argc, char **argv)
{
    char self[PATH_MAX], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    ty_str path = ty_str_of(getenv("PATH")), folder;
    bool more = true;
    if (n < 0)
        return;
    self[n] = '\0';
    char **words = ty_new_array(a, char *, (size_t)argc + 2);
    memcpy(words + 1, argv, (size_t)argc * sizeof(*argv));
    while (more) {
        more = ty_str_split(&path, ':', &folder);
        char *file = ty_format(a, TY_STR_FMT "/%s", TY_STR_ARG(folder), name);
        if (folder.len == 0 || access(file, X_OK) != 0 || realpath(file, real) == NULL ||
            strcmp(real, self) == 0)
            continue;
        words[0] = file;
        execv(file, words);
    }
}

static int fail_as_shim(struct ty_arena *a, const char *name, int argc, char **argv)
{
    if (getenv("TRAINYARD_ENV") != NULL)
        exec_real(a, name, argc, argv);
    fprintf(stderr,
            "ERROR: (%s) '%s%s%s' is not among what trainyard does as %s, and %s\n"
            "What it does: trainyard help\n",
            name, argc > 0 ? argv[0] : "", argc > 1 ? " " : "", argc > 1 ? argv[1] : "", name,
            getenv("TRAINYARD_ENV") != NULL
                ? "there is no other command of that name on PATH"
                : "this shell has not evaluated 'trainyard env', so the real one is not asked");
    return CLI_USAGE;
}

int cli_run_real(struct cli *c)
{
    return fail_as_shim(c->arena, c->program, c->argc, c->argv);
}

static bool is_group(const char *words)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    bool group = cli_group_help(ty_str_of(words), &b);
    ty_buf_clear(&b);
    return group;
}

/* "ai custom-jobs creat", "confg list", "custom-jobs list", "describe": the command that was meant,
 * perhaps, by all words that may belong to one. */
static int fail_mistyped(struct ty_arena *a, int argc, char **argv)
{
    const char *given = "", *near = NULL;
    struct ty_buf group;
    ty_buf_init(&group, 1 << 16);
    for (int i = 0, count = 0; i < argc && count < 3 && near == NULL; i++) {
        if (argv[i][0] == '-')
            continue;
        given = ty_format(a, "%s%s%s", given, count++ > 0 ? " " : "", argv[i]);
        if (is_group(given)) { /* the innermost one is shown */
            group.len = 0;
            cli_group_help(ty_str_of(given), &group);
        } else {
            near = cli_command_near(a, ty_str_of(given));
        }
    }
    fprintf(stderr, "ERROR: (trainyard) Invalid choice: '%s'.%s%s\n",
            cli_text_for(a, STDERR_FILENO, given),
            near != NULL ? " Did you mean this? trainyard " : "", near != NULL ? near : "");
    if (group.len > 0)
        return show(&group, stderr, CLI_USAGE);
    fputs("'trainyard help' lists the commands.\n", stderr);
    return CLI_USAGE;
}

/* Words that are no command. */
static int run_unknown(struct cli *c, const char *name, int argc, char **argv)
{
    const char *first = argc > 0 ? argv[0] : "";
    int status;
    if (c->as_gcloud)
        return fail_as_shim(c->arena, name, argc, argv);
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        return cli_help_show(c);
    if (strcmp(first, "--version") == 0)
        return cli_version(c);
    if (run_group(c->arena, argc, argv, &status))
        return status;
    if (argc == 0) {
        struct ty_buf b;
        ty_buf_init(&b, 1 << 16);
        cli_general_help(&b);
        return show(&b, stderr, CLI_USAGE);
    }
    return fail_mistyped(c->arena, argc, argv);
}

/* Flags that every command has, where they mean something. */
static int globals_apply(struct cli *c)
{
    static const char *const levels[] = {"debug", "info", "warning", "error", "critical", "none"};
    ty_str level = cli_arg(&c->args, "verbosity"), as = cli_arg(&c->args, "configuration");
    bool known = level.len == 0;
    for (size_t i = 0; i < TY_COUNT(levels); i++)
        known |= ty_str_is(level, levels[i]);
    if (!known) {
        (void)!ty_fail(TY_INVALID_ARGUMENT,
                       "argument --verbosity: '" TY_STR_FMT "' is none of debug, info, warning, "
                       "error, critical, none",
                       TY_STR_ARG(level));
        return cli_fail_usage(c);
    }
    if (cli_arg(&c->args, "impersonate-service-account").len > 0) {
        (void)!ty_fail(TY_UNIMPLEMENTED, "argument --impersonate-service-account: there are no "
                                         "accounts here; every command is its own user's");
        return cli_fail_value(c);
    }
    if (as.len > 0) /* gcloud's own variable: whoever reads properties knows it */
        setenv("CLOUDSDK_ACTIVE_CONFIG_NAME", ty_cstr(c->arena, as), 1);
    bool silent = cli_arg_given(&c->args, "user-output-enabled") &&
                  !cli_arg_on(&c->args, "user-output-enabled");
    if (silent && freopen("/dev/null", "w", stdout) == NULL)
        return cli_fail(c, ty_fail_errno(errno, "cannot open /dev/null"));
    return CLI_OK;
}

static int run_command(struct cli *c, int argc, char **argv)
{
    if (cli_flags_expand(c->arena, c->command, &argc, &argv) != TY_OK ||
        cli_args_parse(c->arena, c->command, argc, argv, &c->args) != TY_OK ||
        cli_format_check(&c->args) != TY_OK)
        return cli_fail_usage(c);
    if (cli_arg_on(&c->args, "help")) {
        struct ty_buf b;
        ty_buf_init(&b, 1 << 16);
        cli_command_help(c->command, &b);
        return show(&b, stdout, CLI_OK);
    }
    int status = globals_apply(c);
    if (status != CLI_OK)
        return status;
    if (c->command->run == NULL) { /* main.c runs it when it is the first word */
        (void)!ty_fail(TY_INVALID_ARGUMENT, "'%s' must come before its flags", c->command->words);
        return cli_fail_usage(c);
    }
    ty_str second = ty_str_of(c->command->positional), first;
    bool many = cli_takes_many(c->command);
    bool two = ty_str_split(&second, ' ', &first) && !many && !cli_takes_rest(c->command),
         help = c->command->run == cli_help_show;
    bool optional = first.len > 0 && first.ptr[0] == '[';
    if (first.len > 0 && !help && !optional &&
        (c->args.positional.len == 0 || (two && !c->args.second.len))) {
        ty_str missing = c->args.positional.len == 0 ? first : second;
        (void)!ty_fail(TY_INVALID_ARGUMENT, "argument " TY_STR_FMT ": must be specified",
                       TY_STR_ARG(missing));
        return cli_fail_usage(c);
    }
    return c->command->run(c);
}

bool cli_own_flags(struct ty_arena *a, const char *command, int argc, char **argv,
                   const char *const *names, const char **ret_values, size_t count, int *ret_status)
{
    struct cli c = {.arena = a, .command = cli_command_named(ty_str_of(command))};
    ty_assert(c.command != NULL);
    ty_err err = cli_args_parse(a, c.command, argc, argv, &c.args);
    if (err == TY_OK && cli_arg_on(&c.args, "help")) {
        struct ty_buf b;
        ty_buf_init(&b, 1 << 16);
        cli_command_help(c.command, &b);
        *ret_status = show(&b, stdout, CLI_OK);
        return false;
    }
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        ty_str value = cli_arg(&c.args, names[i]);
        bool given = cli_arg_given(&c.args, names[i]);
        ret_values[i] = given ? ty_cstr(a, value) : NULL;
        if (given && value.len == 0)
            err = ty_fail(TY_INVALID_ARGUMENT, "argument --%s needs a value", names[i]);
    }
    if (err == TY_OK)
        return true;
    *ret_status = cli_fail_usage(&c);
    return false;
}

int cli_main(int argc, char **argv)
{
    struct ty_arena a = {0};
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : argc > 0 ? argv[0] : "";
    bool gsutil = strcmp(name, "gsutil") == 0;
    struct cli c = {.arena = &a, .as_gcloud = gsutil || strcmp(name, "gcloud") == 0, .track = ""};
    argv += argc > 0;
    argc -= argc > 0;
    bool *is_word = ty_new_array(&a, bool, (size_t)argc + 1);
    char **rest = ty_new_array(&a, char *, (size_t)argc + 1);
    int count = 0, status;
    c.client.fd = -1;
    c.argc = argc;
    c.argv = argv;
    c.program = c.as_gcloud ? name : program_invocation_name;
    /* gsutil's words are other ones (cp, ls), with a grammar of their own. */
    bool known = false;
    c.command = gsutil ? NULL : cli_command_find(argc, argv, is_word);
    for (int i = 0; i < argc; i++) {
        if (!is_word[i])
            rest[count++] = argv[i];
        else if (strcmp(argv[i], "beta") == 0 || strcmp(argv[i], "alpha") == 0)
            c.track = argv[i];
    }
    status = gsutil ? cli_gsutil(&c, &known) : 0;
    if (!known)
        status =
            c.command == NULL ? run_unknown(&c, name, argc, argv) : run_command(&c, count, rest);
    if (c.connect != NULL)
        http_client_close(&c.client);
    if (fflush(stdout) != 0 && status == CLI_OK) {
        fprintf(stderr, "ERROR: cannot write the output: %s\n", strerror(errno));
        status = CLI_FAILED;
    }
    ty_arena_clear(&a);
    return status;
}
