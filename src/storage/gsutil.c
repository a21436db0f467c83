/* gsutil.c -- gsutil's command line: options of its own kind before the command, the command's
 * behind it, single letters that may be joined (-rn), names last. As in gsutil an option behind the
 * first name is a name. */
#include "storage/storage_int.h"

#include <strings.h>

enum option_kind { OPTION_ON, OPTION_TEXT, OPTION_HEADER, OPTION_TAKEN, OPTION_TAKEN_TEXT };
enum gs_takes { GS_OBJECTS, GS_FILES, GS_PROVIDER };
enum { MOST_OPTIONS = 32, MOST_HEADERS = 64 };

struct gs_option {
    char letter;
    enum option_kind kind;
    size_t offset;
};
struct gs_command {
    const char *words, *command;
    int least, most;
    enum gs_takes takes;
    const char *usage;
    struct gs_option options[MOST_OPTIONS];
};

static const struct gs_command gs_commands[] = {
#define GSUTIL(words, command, least, most, takes, usage)                                          \
    {                                                                                              \
        words, command, least, most, takes, usage,                                                 \
        {
#define ON(letter, member)   {letter, OPTION_ON, offsetof(struct storage_options, member)},
#define TEXT(letter, member) {letter, OPTION_TEXT, offsetof(struct storage_options, member)},
#define HEADER(letter)       {letter, OPTION_HEADER, 0},
#define TAKEN(letter)        {letter, OPTION_TAKEN, 0},
#define TAKEN_TEXT(letter)   {letter, OPTION_TAKEN_TEXT, 0},
#define END                                                                                        \
    {                                                                                              \
        0, OPTION_ON, 0                                                                            \
    }                                                                                              \
    }                                                                                              \
    }                                                                                              \
    ,
#include "storage/gsutil.def"
#undef GSUTIL
#undef ON
#undef TEXT
#undef HEADER
#undef TAKEN
#undef TAKEN_TEXT
#undef END
};

/* One command line being read. */
struct gs_line {
    struct storage *s;
    const struct gs_command *command;
    const char *name; /* the command's true one */
    int argc;
    char **argv;
    int at;
    struct storage_options options;
    const char *headers[MOST_HEADERS];
};

static ty_err usage_fail(const struct gs_line *l, const char *what)
{
    return ty_fail(TY_INVALID_ARGUMENT,
                   "CommandException: %s Usage:\n%s\nFor additional help run:\n  gsutil help %s",
                   what, l->command->usage, l->name);
}

/* "Name:value": NULL if `header` has another name. */
static const char *header_value(const char *header, const char *name)
{
    size_t n = strlen(name);
    if (strncasecmp(header, name, n) != 0 || header[n] != ':')
        return NULL;
    return header + n + 1 + strspn(header + n + 1, " ");
}

static ty_err header_add(struct gs_line *l, const char *header)
{
    const char *generation = header_value(header, "x-goog-if-generation-match");
    const char *metageneration = header_value(header, "x-goog-if-metageneration-match");
    const char *value = generation != NULL ? generation : metageneration;
    int64_t n;
    if (value != NULL && (ty_parse_i64(ty_str_of(value), &n) != TY_OK || n < 0))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "ArgumentException: Invalid precondition header specified. "
                       "x-goog-if-generation-match and x-goog-if-metageneration match must be "
                       "specified with a positive integer value.");
    if (generation != NULL)
        l->options.if_generation = generation;
    if (metageneration != NULL)
        l->options.if_metageneration = metageneration;
    if (value != NULL)
        return TY_OK;
    if (l->options.header_count >= MOST_HEADERS)
        return ty_fail(TY_INVALID_ARGUMENT, "CommandException: more than %d headers", MOST_HEADERS);
    l->headers[l->options.header_count++] = header;
    return TY_OK;
}

/* ---- before the command ---- */

/* -o Section:name=value; of gsutil's own settings only the number of threads means something. */
static ty_err setting_take(struct gs_line *l, const char *text)
{
    ty_str value = ty_str_of(text), name, section;
    int64_t n;
    bool has_value = ty_str_split(&value, '=', &name);
    ty_str rest = name;
    if (!has_value || !ty_str_split(&rest, ':', &section) || section.len == 0 || rest.len == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "CommandException: -o %s is not Section:name=value",
                       text);
    if (ty_str_is(rest, "parallel_thread_count") && ty_parse_i64(value, &n) == TY_OK && n > 0)
        l->s->threads = n < INT_MAX ? (int)n : INT_MAX;
    return TY_OK;
}

static ty_err top_take(struct gs_line *l)
{
    while (l->at < l->argc && l->argv[l->at][0] == '-' && l->argv[l->at][1] != '\0') {
        const char *word = l->argv[l->at++] + 1, *value;
        if (*word == '-')
            return ty_fail(TY_UNIMPLEMENTED, "%s", word);
        for (; *word != '\0'; word++) {
            l->s->parallel |= *word == 'm';
            l->s->quiet |= *word == 'q';
            l->s->debug |= *word == 'D' || *word == 'd';
            if (strchr("mqDd", *word) != NULL)
                continue;
            if (strchr("ohiu", *word) == NULL)
                return ty_fail(TY_UNIMPLEMENTED, "-%c", *word);
            value = word[1] != '\0' ? word + 1 : l->at < l->argc ? l->argv[l->at++] : NULL;
            if (value == NULL)
                return ty_fail(TY_INVALID_ARGUMENT, "CommandException: option -%c needs a value",
                               *word);
            ty_err err = *word == 'o'   ? setting_take(l, value)
                         : *word == 'h' ? header_add(l, value)
                                        : TY_OK;
            if (err != TY_OK)
                return err;
            break;
        }
    }
    return TY_OK;
}

/* ---- the command ---- */

static bool word_find(struct gs_line *l, const char *given)
{
    for (size_t i = 0; i < TY_COUNT(gs_commands); i++) {
        ty_str rest = ty_str_of(gs_commands[i].words), word, first = rest;
        bool more = true;
        ty_str_split(&rest, ' ', &first);
        for (rest = ty_str_of(gs_commands[i].words); more;) {
            more = ty_str_split(&rest, ' ', &word);
            if (ty_str_is(word, given)) {
                l->command = &gs_commands[i];
                l->name = ty_cstr(l->s->arena, first);
                return true;
            }
        }
    }
    return false;
}

static const struct gs_option *option_find(const struct gs_command *c, char letter)
{
    for (const struct gs_option *o = c->options; o->letter != 0; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

static ty_err option_take(struct gs_line *l, const struct gs_option *o, const char *value)
{
    char *at = (char *)&l->options + o->offset;
    if (o->kind == OPTION_ON)
        *(bool *)at = true;
    else if (o->kind == OPTION_TEXT)
        *(const char **)at = value;
    else if (o->kind == OPTION_HEADER)
        return header_add(l, value);
    return TY_OK;
}

static ty_err options_take(struct gs_line *l)
{
    while (l->at < l->argc && l->argv[l->at][0] == '-' && l->argv[l->at][1] != '\0') {
        const char *word = l->argv[l->at++] + 1;
        if (strcmp(word, "-") == 0)
            return TY_OK;
        for (; *word != '\0'; word++) {
            const struct gs_option *o = option_find(l->command, *word);
            const char *value = NULL;
            if (o == NULL)
                return usage_fail(l, "Incorrect option(s) specified.");
            bool takes =
                o->kind == OPTION_TEXT || o->kind == OPTION_HEADER || o->kind == OPTION_TAKEN_TEXT;
            if (takes)
                value = word[1] != '\0' ? word + 1 : l->at < l->argc ? l->argv[l->at++] : NULL;
            if (takes && value == NULL)
                return usage_fail(l, "Incorrect option(s) specified.");
            ty_err err = option_take(l, o, value);
            if (err != TY_OK || takes) {
                if (err != TY_OK)
                    return err;
                break;
            }
        }
    }
    return TY_OK;
}

static ty_err count_check(const struct gs_line *l, int count)
{
    const struct gs_command *c = l->command;
    if (count < c->least)
        return usage_fail(l,
                          ty_format(l->s->arena, "The %s command requires at least %d argument%s.",
                                    l->name, c->least, c->least > 1 ? "s" : ""));
    if (c->most > 0 && count > c->most)
        return usage_fail(l, ty_format(l->s->arena, "The %s command accepts at most %d arguments.",
                                       l->name, c->most));
    return TY_OK;
}

static ty_err urls_check(const struct gs_line *l, char **words, int count)
{
    ty_err err = TY_OK;
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_url url;
        err = storage_url_parse(ty_str_of(words[i]), STORAGE_GSUTIL, &url);
        if (err == TY_OK && !url.cloud && l->command->takes != GS_FILES)
            err = storage_fail(l->s, TY_INVALID_ARGUMENT,
                               "\"%s\" command does not support \"file://\" URLs. Did you mean to "
                               "use a gs:// URL?",
                               l->name);
        if (err == TY_OK && url.cloud && url.bucket.len == 0 && l->command->takes != GS_PROVIDER)
            err = storage_fail(l->s, TY_INVALID_ARGUMENT,
                               "\"%s\" command does not support provider-only URLs.", l->name);
    }
    return err;
}

int storage_gsutil_main(struct storage *s, int argc, char **argv, bool *ret_known)
{
    struct gs_line l = {.s = s, .argc = argc, .argv = argv};
    l.options.headers = l.headers;
    *ret_known = true;
    ty_err err = top_take(&l);
    if (err == TY_UNIMPLEMENTED || (err == TY_OK && (l.at >= argc || !word_find(&l, argv[l.at])))) {
        *ret_known = false;
        return STORAGE_FAILED;
    }
    l.at++;
    if (err == TY_OK)
        err = options_take(&l);
    int count = argc - l.at;
    if (err == TY_OK)
        err = count_check(&l, count);
    if (err == TY_OK)
        err = urls_check(&l, argv + l.at, count);
    if (err != TY_OK) {
        fprintf(stderr, "%s\n", ty_err_message());
        return STORAGE_FAILED;
    }
    if (l.options.project != NULL)
        s->project = l.options.project;
    s->command = l.name;
    return storage_run(s, storage_command_find(l.command->command), &l.options, argv + l.at, count);
}
