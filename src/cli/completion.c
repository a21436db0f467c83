/* completion.c -- trainyard completion bash, zsh and fish, made of commands.def.
 *
 * bash's script is complete in itself (two case tables, words and flags), so that pressing TAB
 * starts no process of ours, but for what a table cannot have (jobs, runtimes) or that is rare.
 * bash splits words at '=': "--format=js" arrives as three words, and what follows a '=' is left to
 * bash's own completion of file names (-o default). The scripts of zsh and fish ask `completion
 * words -- WORD...` each time (a few milliseconds), which prints what the last of these words may
 * become, one a line. Where a job is meant these are the ids of the newest jobs and their names
 * (for cancel, of those that have not ended); a server that does not answer soon has none. To
 * complete what stands behind a command: a row in `arguments`. */
#include "cli/cli_int.h"

#include "python/python.h"
#include "wire/wire.h"

enum { SCRIPT_BYTES = 1 << 20, JOBS_MS = 2000, JOBS_SHOWN = 200 };

static bool begins_with(ty_str words, ty_str prefix)
{
    return prefix.len == 0 ||
           (ty_str_starts(words, prefix) && words.len > prefix.len && words.ptr[prefix.len] == ' ');
}

/* The word of a command that follows `prefix`. */
static ty_str word_after(ty_str words, ty_str prefix)
{
    ty_str rest = ty_str_drop(words, prefix.len > 0 ? prefix.len + 1 : 0), word;
    ty_str_split(&rest, ' ', &word);
    return word;
}

/* Is the command's next word new, or has an earlier command added it? */
static bool word_is_new(size_t command, ty_str prefix)
{
    ty_str word = word_after(ty_str_of(cli_commands[command].words), prefix);
    for (size_t i = 0; i < command; i++) {
        ty_str words = ty_str_of(cli_commands[i].words);
        if (begins_with(words, prefix) && ty_str_eq(word_after(words, prefix), word))
            return false;
    }
    return true;
}

/* A row "prefix) words='...' ;;" */
static void add_group(struct ty_buf *b, ty_str prefix)
{
    ty_buf_addf(b, "    '" TY_STR_FMT "') words='", TY_STR_ARG(prefix));
    bool any = false;
    for (size_t i = 0; i < cli_command_count; i++) {
        ty_str words = ty_str_of(cli_commands[i].words);
        if (!begins_with(words, prefix) || !word_is_new(i, prefix))
            continue;
        ty_buf_addf(b, "%s" TY_STR_FMT, any ? " " : "", TY_STR_ARG(word_after(words, prefix)));
        any = true;
    }
    ty_buf_addz(b, "' ;;\n");
}

/* Every group: what is before a space in some command, each once. */
static void add_groups(struct ty_buf *b)
{
    add_group(b, TY_STR(""));
    for (size_t i = 0; i < cli_command_count; i++) {
        ty_str words = ty_str_of(cli_commands[i].words);
        for (size_t n = 0; n < words.len; n++) {
            ty_str prefix = {words.ptr, n};
            bool first = words.ptr[n] == ' ';
            for (size_t k = 0; k < i && first; k++)
                first = !begins_with(ty_str_of(cli_commands[k].words), prefix);
            if (first)
                add_group(b, prefix);
        }
    }
}

/* ---- what stands behind a command ---- */

/* Letters that mean nothing to a shell. */
static bool is_plain(ty_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char ch = s.ptr[i];
        if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
              strchr("-_./:+", ch) != NULL))
            return false;
    }
    return s.len > 0 && s.ptr[0] != '-';
}

static void add_if(struct ty_buf *b, ty_str word, ty_str start)
{
    if (ty_str_starts(word, start))
        ty_buf_addf(b, TY_STR_FMT "\n", TY_STR_ARG(word));
}

/* The newest jobs, or those that have not ended: ids, then names. */
static ty_err add_some_jobs(struct cli *c, struct ty_buf *b, ty_str start, const char *filter)
{
    json_t *page, *job;
    size_t i;
    ty_err err = cli_target(c);
    const char *path = err == TY_OK
                           ? ty_format(c->arena, "%s?readMask=name,displayName&pageSize=%d%s",
                                       cli_jobs_path(c), JOBS_SHOWN, filter)
                           : NULL;
    if (err == TY_OK)
        err = cli_call(c, HTTP_GET, path, TY_STR(""), JOBS_MS, &page);
    if (err != TY_OK)
        return err;
    json_array_foreach (json_object_get(page, "customJobs"), i, job) {
        ty_str name = wire_json_get_str(job, "name"), id;
        while (ty_str_split(&name, '/', &id))
            ;
        add_if(b, id, start);
    }
    json_array_foreach (json_object_get(page, "customJobs"), i, job) {
        ty_str name = wire_json_get_str(job, "displayName");
        if (is_plain(name))
            add_if(b, name, start);
    }
    json_decref(page);
    return TY_OK;
}

/* Ended jobs cannot be cancelled. */
static ty_err add_jobs_to_cancel(struct cli *c, struct ty_buf *b, ty_str path, ty_str start)
{
    struct ty_buf filter;
    ty_buf_init(&filter, 1 << 12);
    ty_buf_addz(&filter, "&filter=");
    wire_url_encode(&filter, TY_STR("state=\"JOB_STATE_QUEUED\" OR state=\"JOB_STATE_PENDING\" OR "
                                    "state=\"JOB_STATE_RUNNING\""));
    (void)path;
    ty_err err = add_some_jobs(c, b, start, filter.ptr);
    ty_buf_clear(&filter);
    return err;
}

static ty_err add_jobs(struct cli *c, struct ty_buf *b, ty_str path, ty_str start)
{
    (void)path;
    return add_some_jobs(c, b, start, "");
}

static ty_err add_ml_jobs(struct cli *c, struct ty_buf *b, ty_str path, ty_str start)
{
    json_t *page, *job;
    size_t i;
    (void)path;
    ty_err err = cli_target(c);
    const char *query = ty_format(c->arena, "?pageSize=%d", JOBS_SHOWN);
    if (err == TY_OK)
        err = cli_call(c, HTTP_GET, cli_ml_path(c, TY_STR(""), query), TY_STR(""), JOBS_MS, &page);
    if (err != TY_OK)
        return err;
    json_array_foreach (json_object_get(page, "jobs"), i, job)
        add_if(b, wire_json_get_str(job, "jobId"), start);
    json_decref(page);
    return TY_OK;
}

static ty_err add_properties(struct cli *c, struct ty_buf *b, ty_str path, ty_str start)
{
    (void)c, (void)path;
    add_if(b, TY_STR("project"), start);
    add_if(b, TY_STR("region"), start);
    add_if(b, TY_STR("compute/region"), start);
    return TY_OK;
}

static ty_err add_shells(struct cli *c, struct ty_buf *b, ty_str path, ty_str start)
{
    (void)c, (void)path;
    add_if(b, TY_STR("bash"), start);
    add_if(b, TY_STR("zsh"), start);
    add_if(b, TY_STR("fish"), start);
    return TY_OK;
}

static ty_err add_runtimes(struct cli *c, struct ty_buf *b, ty_str path, ty_str start)
{
    struct python_listed *list;
    size_t count;
    (void)path;
    ty_err err = python_runtime_list(c->arena, cli_data_dir(c), &list, &count);
    for (size_t i = 0; err == TY_OK && i < count; i++)
        add_if(b, ty_str_of(ty_format(c->arena, "%.12s", list[i].key)), start);
    return err;
}

/* The words of commands that may follow `path`. */
static ty_err add_commands(struct cli *c, struct ty_buf *b, ty_str path, ty_str start)
{
    (void)c;
    for (size_t i = 0; i < cli_command_count; i++) {
        ty_str whole = ty_str_of(cli_commands[i].words);
        if (begins_with(whole, path) && word_is_new(i, path))
            add_if(b, word_after(whole, path), start);
    }
    return TY_OK;
}

/* By the command's positional; the first row that fits. */
static const struct argument {
    const char *positional, *words; /* words NULL: of any command */
    bool many;                      /* more than one may follow */
    /* `path`: what was given of them before */
    ty_err (*add)(struct cli *c, struct ty_buf *b, ty_str path, ty_str start);
} arguments[] = {
    {"JOB", "ai custom-jobs cancel", false, add_jobs_to_cancel},
    {"JOB", "ai-platform jobs describe", false, add_ml_jobs},
    {"JOB", "ai-platform jobs cancel", false, add_ml_jobs},
    {"JOB", "ai-platform jobs stream-logs", false, add_ml_jobs},
    {"JOB", NULL, false, add_jobs},
    {"PROPERTY", NULL, false, add_properties},
    {"PROPERTY VALUE", NULL, false, add_properties},
    {"SHELL", NULL, false, add_shells},
    {"KEY|IMAGE", NULL, false, add_runtimes},
    {"COMMAND", NULL, true, add_commands},
};

static const struct argument *argument_of(const struct cli_command *cmd)
{
    for (size_t i = 0; i < TY_COUNT(arguments); i++)
        if (strcmp(arguments[i].positional, cmd->positional) == 0 &&
            (arguments[i].words == NULL || strcmp(arguments[i].words, cmd->words) == 0))
            return &arguments[i];
    return NULL;
}

/* ---- the script of bash ---- */

static void add_flag(struct ty_buf *b, const struct cli_flag *f)
{
    if (f->help[0] != '\0')
        ty_buf_addf(b, " --%s%s", f->name, f->kind == CLI_BOOL ? "" : "=");
}

static void add_flags(struct ty_buf *b)
{
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *cmd = &cli_commands[i];
        const char *ask = argument_of(cmd) != NULL ? "ask=1 " : "";
        ty_buf_addf(b, "    '%s') %sflags='", cmd->words, ask);
        for (const struct cli_flag *f = cmd->flags; f->name != NULL; f++)
            add_flag(b, f);
        for (const struct cli_flag *f = cli_globals; f->name != NULL; f++)
            if (cli_flag_find(cmd, ty_str_of(f->name)) == f)
                add_flag(b, f);
        ty_buf_addz(b, "' ;;\n");
    }
}

static void add_script(struct ty_buf *b)
{
    ty_buf_addz(b, "# bash completion of trainyard. To have it in every shell:\n"
                   "#   trainyard completion bash > ~/.local/share/bash-completion/completions/"
                   "trainyard\n"
                   "_trainyard() {\n"
                   "  local current=${COMP_WORDS[COMP_CWORD]} path= words= flags= ask= all i word\n"
                   "  COMPREPLY=()\n"
                   "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
                   "    word=${COMP_WORDS[i]}\n"
                   "    case $word in\n"
                   "    --*) [[ ${COMP_WORDS[i + 1]} == = ]] && ((i += 2)) ;;\n"
                   "    -*) ;;\n"
                   "    *) path=${path:+$path }$word ;;\n"
                   "    esac\n"
                   "  done\n"
                   "  [[ $current == = || ${COMP_WORDS[COMP_CWORD - 1]} == = ]] && return\n"
                   "  case $path in\n");
    add_groups(b);
    ty_buf_addz(b, "  esac\n"
                   "  all=$path\n"
                   "  while [[ -n $path && -z $flags ]]; do # behind a command come its arguments\n"
                   "    case $path in\n");
    add_flags(b);
    ty_buf_addz(b, "    *' '*) path=${path% *} ;;\n"
                   "    *) path= ;;\n"
                   "    esac\n"
                   "  done\n"
                   "  if [[ $current == -* ]]; then\n"
                   "    COMPREPLY=($(compgen -W \"${flags:---help}\" -- \"$current\"))\n"
                   "    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace "
                   "2> /dev/null\n"
                   "  else\n"
                   "    [[ $ask ]] && words=$(\"${COMP_WORDS[0]}\" completion words -- $all "
                   "\"$current\" 2> /dev/null)\n"
                   "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                   "  fi\n"
                   "  return 0\n"
                   "}\n"
                   "complete -o default -F _trainyard trainyard\n");
}

/* ---- completion words ---- */

static void add_command_flags(struct ty_buf *b, const struct cli_command *cmd, ty_str start)
{
    struct ty_buf flags;
    ty_buf_init(&flags, SCRIPT_BYTES);
    for (const struct cli_flag *f = cmd->flags; f->name != NULL; f++)
        add_flag(&flags, f);
    for (const struct cli_flag *f = cli_globals; f->name != NULL; f++)
        if (cli_flag_find(cmd, ty_str_of(f->name)) == f)
            add_flag(&flags, f);
    ty_str rest = ty_buf_str(&flags), word;
    for (bool more = true; more;) {
        more = ty_str_split(&rest, ' ', &word);
        if (word.len > 0)
            add_if(b, word, start);
    }
    ty_buf_clear(&flags);
}

/* What the last of `words` may become. */
static ty_err add_words(struct cli *c, struct ty_buf *b, ty_str words)
{
    const struct cli_command *cmd = NULL;
    const char *path = "";
    ty_str word;
    size_t behind = 0; /* words behind the command's own */
    while (ty_str_split(&words, ' ', &word)) {
        if (word.len == 0 || word.ptr[0] == '-')
            continue;
        behind += cmd != NULL;
        path = ty_format(c->arena, "%s%s" TY_STR_FMT, path, path[0] != '\0' ? " " : "",
                         TY_STR_ARG(word));
        cmd = cmd != NULL ? cmd : cli_command_named(ty_str_of(path));
    }
    if (word.len > 0 && word.ptr[0] == '-') {
        if (cmd != NULL)
            add_command_flags(b, cmd, word);
        return TY_OK;
    }
    if (cmd == NULL)
        return add_commands(c, b, ty_str_of(path), word);
    const struct argument *argument = argument_of(cmd);
    if (argument == NULL || (behind > 0 && !argument->many))
        return TY_OK;
    ty_str given = ty_str_drop(ty_str_of(path), strlen(cmd->words) + (behind > 0 ? 1 : 0));
    return argument->add(c, b, given, word);
}

/* ---- the command ---- */

static const char ZSH[] =
    "#compdef trainyard\n"
    "# zsh completion of trainyard. To have it in every shell, after compinit in ~/.zshrc:\n"
    "#   source <(trainyard completion zsh)\n"
    "_trainyard() {\n"
    "  local -a found\n"
    "  found=(${(f)\"$(\"${words[1]}\" completion words -- \"${(@)words[2,CURRENT]}\" 2> "
    "/dev/null)\"})\n"
    "  if (( ${#found} )); then\n"
    "    compadd -- ${found:#*=}\n"
    "    compadd -S '' -- ${(M)found:#*=}\n"
    "  else\n"
    "    _files\n"
    "  fi\n"
    "}\n"
    "compdef _trainyard trainyard\n";

static const char FISH[] =
    "# fish completion of trainyard. To have it in every shell:\n"
    "#   trainyard completion fish > ~/.config/fish/completions/trainyard.fish\n"
    "function __trainyard_words\n"
    "  set -l words (commandline -opc) (commandline -ct)\n"
    "  $words[1] completion words -- $words[2..-1] 2> /dev/null\n"
    "end\n"
    "complete -c trainyard -a '(__trainyard_words)'\n";

int cli_completion(struct cli *c)
{
    struct ty_buf b;
    ty_str rest = c->args.positional, what;
    bool more = ty_str_split(&rest, ' ', &what), words = ty_str_is(what, "words");
    bool known =
        words || ty_str_is(what, "bash") || ty_str_is(what, "zsh") || ty_str_is(what, "fish");
    if (!known || (more && !words)) {
        (void)!ty_fail(TY_INVALID_ARGUMENT,
                       "argument SHELL: '" TY_STR_FMT "' is none of bash, zsh, fish",
                       TY_STR_ARG(c->args.positional));
        return cli_fail_usage(c);
    }
    ty_buf_init(&b, SCRIPT_BYTES);
    ty_err err = TY_OK;
    if (words)
        err = add_words(c, &b, more ? rest : TY_STR(""));
    else if (ty_str_is(what, "bash"))
        add_script(&b);
    else
        ty_buf_addz(&b, ty_str_is(what, "zsh") ? ZSH : FISH);
    if (err == TY_OK)
        err = ty_buf_check(&b, "the script");
    if (err == TY_OK && b.len > 0)
        fputs(b.ptr, stdout);
    ty_buf_clear(&b);
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}
