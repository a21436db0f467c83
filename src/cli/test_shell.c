/* test_shell.c -- what is made for shells: env and completion; the settings file. */
#define TY_SEAM /* runs shells */
#include "cli/test_cli.h"

/* ---- env ---- */

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

/* What zsh and fish are told. */
static void completion_words(void **state)
{
    (void)state;
    assert_string_equal(PRINTED("trainyard", "completion", "words", "--", "ai", "custom-jobs", "c"),
                        "create\ncancel\n");
    assert_string_equal(PRINTED("trainyard", "completion", "words", "--", "ai", ""),
                        "custom-jobs\n");
    assert_string_equal(PRINTED("trainyard", "completion", "words", "--", "wh"), "why\n");
    assert_string_equal(PRINTED("trainyard", "completion", "words", "--", "ai", "custom-jobs",
                                "list", "--limit=1", "--fo"),
                        "--format=\n");
    assert_string_equal(PRINTED("trainyard", "completion", "words", "--", "zzz", ""), "");
    assert_string_equal(
        PRINTED("trainyard", "completion", "words", "--", "config", "configurations", "a"),
        "activate\n");
    assert_non_null(strstr(PRINTED("trainyard", "completion", "zsh"), "compdef"));
    assert_non_null(strstr(PRINTED("trainyard", "completion", "fish"), "complete -c trainyard"));
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
#define SETTING_WORD(name, def, words, doc) SETTING_STR(name, def, doc)
#include "base/config.def"
#undef SETTING_INT
#undef SETTING_STR
#undef SETTING_WORD
    assert_int_equal(lines, settings);
    ty_buf_clear(&set);
}

static const struct CMUnitTest tests[] = {
    CLI_TEST("env/quoting_survives_the_shell", env_quoting_survives_the_shell),
    CLI_TEST("env/round_trip", env_round_trip),
    CLI_TEST("env/has_no_google_host", env_has_no_google_host),
    CLI_TEST("completion/knows_every_command_and_flag", completion_knows_every_command_and_flag),
    CLI_TEST("completion/narrows", completion_narrows),
    CLI_TEST("completion/words", completion_words),
    CLI_TEST("settings/file_has_every_setting", settings_file_has_every_setting),
};
RUN_GROUP(shell)
