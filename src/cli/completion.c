/* completion.c -- trainyard completion bash: a completion script made of commands.def.
 *
 * The script is complete in itself (two case tables, words and flags), so that pressing TAB starts
 * no process of ours. bash splits words at '=': "--format=js" arrives as three words, and what
 * follows a '=' is left to bash's own completion of file names (-o default). */
#include "cli/cli_int.h"

enum { SCRIPT_BYTES = 1 << 20 };

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

static void add_flag(struct ty_buf *b, const struct cli_flag *f)
{
    if (f->help[0] != '\0')
        ty_buf_addf(b, " --%s%s", f->name, f->kind == CLI_BOOL ? "" : "=");
}

static void add_flags(struct ty_buf *b)
{
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *cmd = &cli_commands[i];
        ty_buf_addf(b, "    '%s') flags='", cmd->words);
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
                   "  local current=${COMP_WORDS[COMP_CWORD]} path= words= flags= i word\n"
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
                   "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                   "  fi\n"
                   "  return 0\n"
                   "}\n"
                   "complete -o default -F _trainyard trainyard\n");
}

int cli_completion(struct cli *c)
{
    struct ty_buf b;
    if (!ty_str_is(c->args.positional, "bash")) {
        (void)!ty_fail(TY_INVALID_ARGUMENT, "argument SHELL: '" TY_STR_FMT "' is not bash",
                       TY_STR_ARG(c->args.positional));
        return cli_fail_usage(c);
    }
    ty_buf_init(&b, SCRIPT_BYTES);
    add_script(&b);
    ty_err err = ty_buf_check(&b, "the script");
    if (err == TY_OK)
        fputs(b.ptr, stdout);
    ty_buf_clear(&b);
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}
