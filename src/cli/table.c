/* table.c -- commands.def as tables; finding the command of a command line; help. */
#include "cli/cli_int.h"

#define GLOBAL(...)
#define FLAG(...) {__VA_ARGS__},
#define END                                                                                        \
    {                                                                                              \
        NULL, CLI_BOOL, NULL, NULL                                                                 \
    }                                                                                              \
    }                                                                                              \
    ;
#define COMMAND(name, words, positional, summary, details)                                         \
    static const struct cli_flag name##_flags[] = {
#define ELSEWHERE(name, words, positional, summary, details)                                       \
    static const struct cli_flag name##_flags[] = {
#define STORAGE(words, name, positional, summary, details)                                         \
    static const struct cli_flag storage_##name##_flags[] = {
#include "cli/commands.def"
#undef FLAG
#undef END
#undef COMMAND
#undef ELSEWHERE
#undef STORAGE

#define FLAG(...)
#define END
#define COMMAND(name, words, positional, summary, details)                                         \
    {words, positional, summary, details, name##_flags, cli_##name},
#define ELSEWHERE(name, words, positional, summary, details)                                       \
    {words, positional, summary, details, name##_flags, NULL},
#define STORAGE(words, name, positional, summary, details)                                         \
    {"storage " words, positional, summary, details, storage_##name##_flags, cli_storage},
const struct cli_command cli_commands[] = {
#include "cli/commands.def"
};
const size_t cli_command_count = TY_COUNT(cli_commands);
#undef GLOBAL
#undef COMMAND
#undef ELSEWHERE
#undef STORAGE

#define GLOBAL(...) {__VA_ARGS__},
#define COMMAND(name, words, positional, summary, details)
#define ELSEWHERE(name, words, positional, summary, details)
#define STORAGE(words, name, positional, summary, details)
const struct cli_flag cli_globals[] = {
#include "cli/commands.def"
    {NULL, CLI_BOOL, NULL, NULL}};

static const struct cli_flag *flag_in(const struct cli_flag *flags, ty_str name)
{
    for (; flags->name != NULL; flags++)
        if (ty_str_is(name, flags->name))
            return flags;
    return NULL;
}

const struct cli_flag *cli_flag_find(const struct cli_command *cmd, ty_str name)
{
    const struct cli_flag *found = cmd != NULL ? flag_in(cmd->flags, name) : NULL;
    bool own_only = cmd != NULL && cmd->run == NULL && !ty_str_is(name, "help");
    return found != NULL || own_only ? found : flag_in(cli_globals, name);
}

const struct cli_command *cli_command_named(ty_str words)
{
    for (size_t i = 0; i < cli_command_count; i++)
        if (ty_str_is(words, cli_commands[i].words))
            return &cli_commands[i];
    return NULL;
}

/* gcloud takes flags anywhere, so "--project x ai custom-jobs list" has to be read before the
 * command is known: a flag without "=" takes the next word if it is one with a value anywhere. */
static bool takes_next(const char *arg)
{
    ty_str rest = ty_str_of(arg + 2), name;
    if (ty_str_split(&rest, '=', &name))
        return false;
    const struct cli_flag *f = flag_in(cli_globals, name);
    for (size_t i = 0; i < cli_command_count && f == NULL; i++)
        f = flag_in(cli_commands[i].flags, name);
    return f != NULL && f->kind != CLI_BOOL;
}

enum { MAX_WORDS = 4 }; /* in the longest command */

const struct cli_command *cli_command_find(int argc, char **argv, bool *is_word)
{
    char joined[256] = "";
    int at[MAX_WORDS], count = 0;
    for (int i = 0; i < argc && count < MAX_WORDS; i++) {
        if (argv[i][0] == '-') {
            if (strcmp(argv[i], "--") == 0)
                break;
            i += argv[i][1] == '-' && takes_next(argv[i]) ? 1 : 0;
            continue;
        }
        if (count == 0 && (strcmp(argv[i], "beta") == 0 || strcmp(argv[i], "alpha") == 0)) {
            is_word[i] = true; /* gcloud's tracks: the same commands here */
            continue;
        }
        size_t n = strlen(joined);
        snprintf(joined + n, sizeof(joined) - n, "%s%s", count > 0 ? " " : "", argv[i]);
        at[count++] = i;
        const struct cli_command *found = cli_command_named(ty_str_of(joined));
        if (found != NULL) {
            for (int k = 0; k < count; k++)
                is_word[at[k]] = true;
            return found;
        }
    }
    return NULL;
}

const char *cli_nearest(ty_str wrong, const char *const *names, size_t count)
{
    const char *best = NULL;
    int least = (int)(wrong.len / 3) + 2; /* further away is no help */
    for (size_t i = 0; i < count; i++) {
        int d = ty_str_distance(wrong, ty_str_of(names[i]));
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

/* The last `count` words of `words`; NULL if it has fewer. */
static const char *words_tail(const char *words, size_t count)
{
    const char *p = words + strlen(words);
    for (; p > words; p--)
        if (p[-1] == ' ' && --count == 0)
            return p;
    return count == 1 ? words : NULL;
}

const char *cli_command_near(struct ty_arena *a, ty_str given)
{
    const char **names = ty_new_array(a, const char *, cli_command_count);
    size_t *at = ty_new_array(a, size_t, cli_command_count), n = 0, count = 1;
    for (size_t i = 0; i < given.len; i++)
        count += given.ptr[i] == ' ';
    for (size_t i = 0; i < cli_command_count; i++) {
        const char *tail = words_tail(cli_commands[i].words, count);
        if (tail == NULL)
            continue;
        names[n] = tail;
        at[n++] = i;
    }
    const char *near = cli_nearest(given, names, n);
    for (size_t i = 0; i < n && near != NULL; i++)
        if (names[i] == near)
            return cli_commands[at[i]].words;
    return NULL;
}

static void flag_help(const struct cli_flag *f, struct ty_buf *b)
{
    char left[80];
    if (f->help[0] == '\0')
        return;
    const char *given = f->kind == CLI_BOOL ? "" : "=";
    snprintf(left, sizeof(left), "--%s%s%s", f->name, given, f->metavar);
    if (strlen(left) > 26)
        ty_buf_addf(b, "  %s\n  %26s  %s\n", left, "", f->help);
    else
        ty_buf_addf(b, "  %-26s  %s\n", left, f->help);
}

void cli_command_help(const struct cli_command *cmd, struct ty_buf *b)
{
    ty_buf_addf(b, "trainyard %s%s%s [flags]\n\n%s.\n", cmd->words, cmd->positional[0] ? " " : "",
                cmd->positional, cmd->summary);
    if (cmd->details[0] != '\0')
        ty_buf_addf(b, "%s\n", cmd->details);
    ty_buf_addz(b, "\nFlags:\n");
    for (const struct cli_flag *f = cmd->flags; f->name != NULL; f++)
        flag_help(f, b);
    for (const struct cli_flag *f = cli_globals; f->name != NULL; f++)
        if (cli_flag_find(cmd, ty_str_of(f->name)) == f)
            flag_help(f, b);
}

bool cli_group_help(ty_str words, struct ty_buf *b)
{
    bool any = false;
    for (size_t i = 0; i < cli_command_count; i++) {
        ty_str command = ty_str_of(cli_commands[i].words);
        if (words.len == 0 || command.len <= words.len || !ty_str_starts(command, words) ||
            command.ptr[words.len] != ' ')
            continue;
        if (!any)
            ty_buf_addf(b, "Commands of trainyard " TY_STR_FMT ":\n", TY_STR_ARG(words));
        ty_buf_addf(b, "  %-28s  %s\n", cli_commands[i].words, cli_commands[i].summary);
        any = true;
    }
    if (any)
        ty_buf_addz(b, "\nMore about one: trainyard help COMMAND.\n");
    return any;
}

void cli_settings_help(struct ty_buf *b)
{
    ty_buf_addz(b,
                "Settings of the server are lines 'name = value' in DATA/trainyard.conf, where "
                "DATA is the data\nfolder (~/.trainyard, or serve --data); '#' starts a comment. "
                "They are read when the server\nstarts. etc/trainyard.conf in the sources is an "
                "example with all of them. The defaults:\n");
#define SETTING_INT(name, def, min, max, doc)                                                      \
    ty_buf_addf(b, "\n  %s = %lld\n      %s (%lld to %lld)\n", #name, (long long)(def), doc,       \
                (long long)(min), (long long)(max));
#define SETTING_STR(name, def, doc) ty_buf_addf(b, "\n  %s = %s\n      %s\n", #name, def, doc);
#define SETTING_WORD(name, def, words, doc)                                                        \
    ty_buf_addf(b, "\n  %s = %s\n      %s (%s)\n", #name, def, doc, words);
#include "base/config.def"
#undef SETTING_INT
#undef SETTING_STR
#undef SETTING_WORD
}

static void commands_help(struct ty_buf *b)
{
    for (size_t i = 0; i < cli_command_count; i++)
        ty_buf_addf(b, "  %-28s  %s\n", cli_commands[i].words, cli_commands[i].summary);
}

void cli_general_help(struct ty_buf *b)
{
    ty_buf_addz(b, "trainyard runs Vertex AI training jobs on your own machine.\n\nCommands:\n");
    commands_help(b);
    ty_buf_addz(b,
                "\nMore about one: trainyard help COMMAND. Settings of the server: trainyard help "
                "settings.\nExit status: 0 done, 1 it failed, 2 wrong use.\n");
}
