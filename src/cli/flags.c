/* flags.c -- gcloud's flag grammar, so that scripts written for it run here.
 *
 *   --flag=value   --flag value   --bool   --no-bool   --bool=true   --   (the rest is no flag)
 *   lists          a,b,c              repeated flags add to the list
 *   dicts          k=v,k=v
 *   ^D^...         the text D, any characters, separates instead of the comma: ^|^a,b|c
 *   -rn            flags of one letter, if the command has them
 * As in gcloud, "--flag value" does not take a value that starts with "--": that is nearly always a
 * forgotten value; write --flag=--value. */
#include "cli/cli_int.h"

static ty_err unknown_flag(struct ty_arena *a, const struct cli_command *cmd, ty_str name)
{
    const char *names[64];
    size_t n = 0;
    for (const struct cli_flag *f = cmd->flags; f->name != NULL && n < TY_COUNT(names); f++)
        names[n++] = f->name;
    for (const struct cli_flag *f = cli_globals; f->name != NULL && n < TY_COUNT(names); f++)
        if (cli_flag_find(cmd, ty_str_of(f->name)) == f)
            names[n++] = f->name;
    const char *near = cli_nearest(name, names, n);
    return ty_fail(TY_INVALID_ARGUMENT, "unrecognized arguments: --" TY_STR_FMT "%s",
                   TY_STR_ARG(name),
                   near != NULL ? ty_format(a, " (did you mean '--%s'?)", near) : "");
}

static void args_add(struct ty_arena *a, struct cli_args *args, const struct cli_flag *f,
                     ty_str text)
{
    struct cli_value *v = ty_new(a, struct cli_value);
    v->flag = f;
    v->text = text;
    *args->tail = v;
    args->tail = &v->next;
}

static ty_err bool_parse(struct ty_arena *a, struct cli_args *args, const struct cli_flag *f,
                         bool negated, bool has_value, ty_str value)
{
    bool on = true;
    if (has_value && ty_str_is(value, "false"))
        on = false;
    else if (has_value && !ty_str_is(value, "true"))
        return ty_fail(TY_INVALID_ARGUMENT, "--%s: must be true or false, not '" TY_STR_FMT "'",
                       f->name, TY_STR_ARG(value));
    args_add(a, args, f, on != negated ? TY_STR("true") : TY_STR("false"));
    return TY_OK;
}

ty_err cli_number_parse(const char *what, ty_str text, int64_t *ret_number)
{
    size_t digits = 0;
    int64_t number = 0;
    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
        digits++;
    ty_err err = ty_parse_i64(text, &number);
    if (err != TY_OK && digits > 0 && digits == text.len)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%s: the number '" TY_STR_FMT "' is too big (at most %" PRId64 ")", what,
                       TY_STR_ARG(text), INT64_MAX);
    if (err != TY_OK || number < 1)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%s: must be a whole number above 0, not '" TY_STR_FMT "'", what,
                       TY_STR_ARG(text));
    *ret_number = number;
    return TY_OK;
}

/* One flag at argv[*i]; moves *i to its last word. */
static ty_err flag_parse(struct ty_arena *a, const struct cli_command *cmd, int argc, char **argv,
                         int *i, struct cli_args *args)
{
    ty_str value = ty_str_of(argv[*i] + 2), name;
    bool has_value = ty_str_split(&value, '=', &name);
    const struct cli_flag *f = cli_flag_find(cmd, name);
    bool negated = false;
    if (f == NULL && ty_str_starts(name, TY_STR("no-"))) {
        f = cli_flag_find(cmd, ty_str_drop(name, 3));
        negated = true;
    }
    if (f == NULL || (negated && f->kind != CLI_BOOL))
        return unknown_flag(a, cmd, name);
    if (f->kind == CLI_BOOL)
        return bool_parse(a, args, f, negated, has_value, value);
    if (!has_value) {
        if (*i + 1 >= argc || ty_str_starts(ty_str_of(argv[*i + 1]), TY_STR("--")))
            return ty_fail(TY_INVALID_ARGUMENT, "argument --%s needs a value%s", f->name,
                           *i + 1 < argc ? " (one that starts with '--' needs '=')" : "");
        value = ty_str_of(argv[++*i]);
    }
    int64_t number;
    if (f->kind == CLI_INT || (f->kind == CLI_LIMIT && !ty_str_is(value, "unlimited"))) {
        ty_err err = cli_number_parse(ty_format(a, "argument --%s", f->name), value, &number);
        if (err != TY_OK)
            return err;
    }
    args_add(a, args, f, value);
    return TY_OK;
}

bool cli_takes_many(const struct cli_command *cmd)
{
    return strstr(cmd->positional, " ...") != NULL && !cli_takes_rest(cmd);
}

bool cli_takes_rest(const struct cli_command *cmd)
{
    return strstr(cmd->positional, "[-- ") != NULL;
}

static bool has_letters(const struct cli_command *cmd)
{
    for (const struct cli_flag *f = cmd->flags; f->name != NULL; f++)
        if (f->name[1] == '\0')
            return true;
    return false;
}

/* gsutil's letters that gcloud's commands do not have: what they are called here. */
static const char *letter_hint(const struct cli_command *cmd, char letter)
{
    static const struct {
        const char *command;
        char letter;
        const char *flag;
    } hints[] = {
        {"storage rsync", 'd', "--delete-unmatched-destination-objects"},
        {"storage rsync", 'C', "--continue-on-error"},
        {"storage rsync", 'e', "--ignore-symlinks"},
        {"storage cp", 'e', "--ignore-symlinks"},
        {"storage rm", 'f', "--continue-on-error"},
        {"storage buckets delete", 'f', "--continue-on-error"},
    };
    for (size_t i = 0; i < TY_COUNT(hints); i++)
        if (hints[i].letter == letter && strcmp(hints[i].command, cmd->words) == 0)
            return hints[i].flag;
    return NULL;
}

static ty_err unknown_letter(struct ty_arena *a, const struct cli_command *cmd, char letter)
{
    const char *flag = letter_hint(cmd, letter);
    return ty_fail(TY_INVALID_ARGUMENT, "unrecognized arguments: -%c%s", letter,
                   flag != NULL ? ty_format(a, " (gsutil's -%c is %s here)", letter, flag) : "");
}

/* "-rn", "-z txt", "-ztxt" at argv[*i]; moves *i to its last word. */
static ty_err letters_parse(struct ty_arena *a, const struct cli_command *cmd, int argc,
                            char **argv, int *i, struct cli_args *args)
{
    for (const char *p = argv[*i] + 1; *p != '\0'; p++) {
        const struct cli_flag *f = cli_flag_find(cmd, (ty_str){p, 1});
        if (f == NULL && *p == 'q')
            f = cli_flag_find(cmd, TY_STR("quiet"));
        if (f == NULL)
            return unknown_letter(a, cmd, *p);
        if (f->kind == CLI_BOOL) {
            args_add(a, args, f, TY_STR("true"));
            continue;
        }
        if (p[1] == '\0' && *i + 1 >= argc)
            return ty_fail(TY_INVALID_ARGUMENT, "argument -%c needs a value", *p);
        args_add(a, args, f, ty_str_of(p[1] != '\0' ? p + 1 : argv[++*i]));
        break;
    }
    return TY_OK;
}

static ty_err positional_parse(struct ty_arena *a, const struct cli_command *cmd, const char *word,
                               struct cli_args *args)
{
    bool all = strcmp(cmd->words, "help") == 0 || strcmp(cmd->words, "completion") == 0;
    if (cli_takes_many(cmd)) {
        args->words[args->word_count++] = ty_cstr(a, ty_str_of(word));
        args->positional = ty_str_of(word);
        return TY_OK;
    }
    if (args->positional.len > 0 && all) {
        args->positional =
            ty_str_of(ty_format(a, TY_STR_FMT " %s", TY_STR_ARG(args->positional), word));
        return TY_OK;
    }
    if (!cli_takes_rest(cmd) && strchr(cmd->positional, ' ') != NULL && args->positional.len > 0 &&
        args->second.len == 0) {
        args->second = ty_str_of(word);
        args->words[args->word_count++] = ty_cstr(a, ty_str_of(word));
        return TY_OK;
    }
    if (cmd->positional[0] == '\0' || cmd->positional[0] == '[' || args->positional.len > 0)
        return ty_fail(TY_INVALID_ARGUMENT, "unrecognized arguments: %s", word);
    args->positional = ty_str_of(word);
    args->words[args->word_count++] = ty_cstr(a, ty_str_of(word));
    return TY_OK;
}

/* "--worker-pool-spec=machine-type=X, replica-count=1" is two words to a shell. The flag as it was
 * meant, if argv[i] is the rest of such a one; else NULL. */
static const char *flag_joined(struct ty_arena *a, const struct cli_args *args, int argc,
                               char **argv, int i)
{
    struct ty_buf b;
    const struct cli_value *last = NULL;
    for (const struct cli_value *v = args->first; v != NULL; v = v->next)
        last = v;
    bool comma = last != NULL && last->flag->kind >= CLI_LIST && i > 0 && last->text.len > 0 &&
                 last->text.ptr == argv[i - 1] + strlen(argv[i - 1]) - last->text.len;
    if (!comma || (last->text.ptr[last->text.len - 1] != ',' && argv[i][0] != ','))
        return NULL;
    ty_buf_init(&b, 1 << 20);
    ty_buf_adds(&b, last->text);
    for (; i < argc && strncmp(argv[i], "--", 2) != 0; i++) {
        if (b.ptr[b.len - 1] != ',' && argv[i][0] != ',')
            break;
        ty_buf_addz(&b, argv[i]);
    }
    struct ty_buf quoted;
    ty_buf_init(&quoted, 4 << 20);
    size_t plain = strspn(b.ptr, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "-_.,:=/@%+");
    if (plain == b.len)
        ty_buf_adds(&quoted, ty_buf_str(&b));
    else
        cli_shell_quote(&quoted, b.ptr);
    const char *text =
        ty_format(a, "--%s=" TY_STR_FMT, last->flag->name, TY_STR_ARG(ty_buf_str(&quoted)));
    ty_buf_clear(&quoted);
    ty_buf_clear(&b);
    return text;
}

ty_err cli_args_parse(struct ty_arena *a, const struct cli_command *cmd, int argc, char **argv,
                      struct cli_args *ret_args)
{
    struct cli_args args = {0};
    bool flags_over = false;
    const char *joined;
    args.tail = &args.first;
    args.words = ty_new_array(a, char *, (size_t)argc + 1);
    for (int i = 0; i < argc; i++) {
        ty_str word = ty_str_of(argv[i]);
        ty_err err = TY_OK;
        if (!flags_over && ty_str_is(word, "--") && cli_takes_rest(cmd)) {
            args.rest = argv + i + 1;
            args.rest_count = argc - i - 1;
            break;
        } else if (!flags_over && ty_str_is(word, "--"))
            flags_over = true;
        else if (!flags_over && ty_str_starts(word, TY_STR("--")))
            err = flag_parse(a, cmd, argc, argv, &i, &args);
        else if (!flags_over && (ty_str_is(word, "-h") || (ty_str_is(word, "-q") && cmd->run)))
            args_add(a, &args, cli_flag_find(NULL, ty_str_of(argv[i][1] == 'h' ? "help" : "quiet")),
                     TY_STR("true"));
        else if (!flags_over && word.len > 1 && word.ptr[0] == '-' && has_letters(cmd))
            err = letters_parse(a, cmd, argc, argv, &i, &args);
        else if (!flags_over && word.len > 1 && word.ptr[0] == '-')
            err = ty_fail(TY_INVALID_ARGUMENT, "unrecognized arguments: %s", argv[i]);
        else if (!flags_over && (joined = flag_joined(a, &args, argc, argv, i)) != NULL)
            err = ty_fail(TY_INVALID_ARGUMENT,
                          "unrecognized arguments: %s (the space before it ends the flag; without "
                          "spaces it is: %s)",
                          argv[i], joined);
        else
            err = positional_parse(a, cmd, argv[i], &args);
        if (err != TY_OK)
            return err;
    }
    *ret_args = args;
    if (ret_args->first == NULL)
        ret_args->tail = &ret_args->first;
    return TY_OK;
}

static const struct cli_value *value_last(const struct cli_args *args, const char *name)
{
    const struct cli_value *last = NULL;
    for (const struct cli_value *v = args->first; v != NULL; v = v->next)
        if (strcmp(v->flag->name, name) == 0)
            last = v;
    return last;
}

ty_str cli_arg(const struct cli_args *args, const char *name)
{
    const struct cli_value *v = value_last(args, name);
    return v != NULL ? v->text : (ty_str){"", 0};
}

bool cli_arg_given(const struct cli_args *args, const char *name)
{
    return value_last(args, name) != NULL;
}

bool cli_arg_on(const struct cli_args *args, const char *name)
{
    return ty_str_is(cli_arg(args, name), "true");
}

int64_t cli_arg_int(const struct cli_args *args, const char *name, int64_t otherwise)
{
    int64_t number;
    ty_str text = cli_arg(args, name);
    return text.len > 0 && ty_parse_i64(text, &number) == TY_OK ? number : otherwise;
}

/* Cut at the first `delimiter` (not empty), like ty_str_split. */
static bool split_at(ty_str *s, ty_str delimiter, ty_str *ret_head)
{
    for (size_t i = 0; i + delimiter.len <= s->len; i++)
        if (ty_str_starts(ty_str_drop(*s, i), delimiter)) {
            *ret_head = (ty_str){s->ptr, i};
            *s = ty_str_drop(*s, i + delimiter.len);
            return true;
        }
    *ret_head = *s;
    return false;
}

ty_err cli_list_split(struct ty_arena *a, ty_str text, struct cli_item **ret_items)
{
    ty_str delimiter = TY_STR(",");
    if (text.len > 1 && text.ptr[0] == '^') {
        ty_str rest = ty_str_drop(text, 1), head;
        if (ty_str_split(&rest, '^', &head)) {
            if (head.len == 0)
                return ty_fail(TY_INVALID_ARGUMENT,
                               "'" TY_STR_FMT "': the delimiter between ^ and ^ "
                               "is empty",
                               TY_STR_ARG(text));
            delimiter = head;
            text = rest;
        }
    }
    struct cli_item *first = NULL, **tail = &first;
    bool more = text.len > 0;
    while (more) {
        struct cli_item *item = ty_new(a, struct cli_item);
        more = split_at(&text, delimiter, &item->value);
        *tail = item;
        tail = &item->next;
    }
    *ret_items = first;
    return TY_OK;
}

ty_err cli_dict_split(struct ty_arena *a, const char *flag, ty_str text,
                      struct cli_item **ret_items)
{
    struct cli_item *items = NULL;
    ty_err err = cli_list_split(a, text, &items);
    if (err != TY_OK)
        return ty_wrap(err, "argument --%s", flag);
    for (struct cli_item *i = items; i != NULL; i = i->next) {
        ty_str value = i->value;
        if (!ty_str_split(&value, '=', &i->key) || i->key.len == 0)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "argument --%s: '" TY_STR_FMT "' is not KEY=VALUE (a value with commas "
                           "needs another delimiter: ^|^key=a,b|key=c)",
                           flag, TY_STR_ARG(i->value));
        i->value = value;
    }
    *ret_items = items;
    return TY_OK;
}
