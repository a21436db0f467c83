/* storage.c -- `trainyard storage ...`, and gsutil when called by that name: the command line as
 * src/storage wants it. */
#include "cli/cli_int.h"

#include "storage/storage.h"

enum flag_kind { FLAG_ON, FLAG_TEXT };

/* Which flag sets what, in all commands that have it: names mean the same in each, but for the
 * letters, which belong to a command. */
static const struct {
    const char *command; /* NULL: any */
    const char *name;
    enum flag_kind kind;
    size_t offset;
} flags[] = {
#define ON(command, name, member)                                                                  \
    {                                                                                              \
        command, name, FLAG_ON, offsetof(struct storage_options, member)                           \
    }
#define TEXT(command, name, member)                                                                \
    {                                                                                              \
        command, name, FLAG_TEXT, offsetof(struct storage_options, member)                         \
    }
    ON(NULL, "recursive", recursive),
    ON(NULL, "R", recursive),
    ON("cp", "r", recursive),
    ON("mv", "r", recursive),
    ON("rm", "r", recursive),
    ON("ls", "r", recursive),
    ON("rsync", "r", recursive),
    ON("setmeta", "r", recursive),
    ON("du", "r", human),
    TEXT("cat", "r", range),
    ON(NULL, "no-clobber", no_clobber),
    ON(NULL, "n", no_clobber),
    TEXT(NULL, "gzip-local", gzip_extensions),
    TEXT(NULL, "z", gzip_extensions),
    ON(NULL, "gzip-local-all", gzip_all),
    ON(NULL, "Z", gzip_all),
    TEXT(NULL, "content-type", content_type),
    TEXT(NULL, "cache-control", cache_control),
    TEXT(NULL, "content-encoding", content_encoding),
    ON(NULL, "continue-on-error", continue_on_error),
    ON("cp", "c", continue_on_error),
    ON("mv", "c", continue_on_error),
    ON("rm", "c", continue_on_error),
    ON("rsync", "c", continue_on_error),
    ON("du", "c", total),
    TEXT("buckets create", "c", storage_class),
    ON(NULL, "read-paths-from-stdin", stdin_names),
    ON(NULL, "I", stdin_names),
    ON(NULL, "all-versions", all_versions),
    ON(NULL, "A", all_versions),
    ON(NULL, "a", all_versions),
    ON(NULL, "ignore-symlinks", skip_links),
    ON(NULL, "long", list_long),
    ON("ls", "l", list_long),
    ON(NULL, "full", list_full),
    ON(NULL, "L", list_full),
    ON(NULL, "buckets", buckets_only),
    ON("ls", "b", buckets_only),
    ON(NULL, "etag", etag),
    ON(NULL, "e", etag),
    ON(NULL, "readable-sizes", human),
    ON(NULL, "json", json),
    ON(NULL, "j", json),
    ON(NULL, "display-url", cat_headers),
    ON(NULL, "d", cat_headers),
    TEXT(NULL, "range", range),
    ON(NULL, "summarize", summarize),
    ON("du", "s", summarize),
    ON(NULL, "total", total),
    ON(NULL, "hex", hex),
    ON(NULL, "skip-md5", only_crc32c),
    ON(NULL, "skip-crc32c", only_md5),
    ON(NULL, "delete-unmatched-destination-objects", delete_extra),
    ON(NULL, "dry-run", dry_run),
    ON(NULL, "checksums-only", compare_checksums),
    ON(NULL, "skip-if-dest-has-newer-mtime", update_only),
    ON(NULL, "u", update_only),
    TEXT(NULL, "exclude", exclude),
    TEXT(NULL, "x", exclude),
    TEXT(NULL, "location", location),
    TEXT("buckets create", "l", location),
    TEXT(NULL, "default-storage-class", storage_class),
    TEXT(NULL, "storage-class", storage_class),
    TEXT("cp", "s", storage_class),
    ON(NULL, "print-created-message", print_created),
    ON(NULL, "v", print_created),
    TEXT(NULL, "if-generation-match", if_generation),
    TEXT(NULL, "if-metageneration-match", if_metageneration),
#undef ON
#undef TEXT
};

static void options_fill(struct cli *c, const char *command, struct storage_options *o)
{
    for (size_t i = 0; i < TY_COUNT(flags); i++) {
        if (!cli_arg_given(&c->args, flags[i].name) ||
            (flags[i].command != NULL && strcmp(flags[i].command, command) != 0))
            continue;
        char *at = (char *)o + flags[i].offset;
        if (flags[i].kind == FLAG_ON)
            *(bool *)at |= cli_arg_on(&c->args, flags[i].name);
        else
            *(const char **)at = ty_cstr(c->arena, cli_arg(&c->args, flags[i].name));
    }
    if (cli_arg_given(&c->args, "uniform-bucket-level-access"))
        o->uniform = cli_arg_on(&c->args, "uniform-bucket-level-access") ? "on" : "off";
    else if (cli_arg_on(&c->args, "b") && strcmp(command, "buckets create") == 0)
        o->uniform = "on";
    o->json |= cli_arg_given(&c->args, "format") && strcmp(command, "ls") == 0;
}

/* --custom-metadata=a=b, and setmeta's others, as the headers that gsutil would be given. */
static ty_err metadata_fill(struct cli *c, const char *command, struct storage_options *o)
{
    static const char *const names[] = {"content-type", "cache-control", "content-encoding"};
    struct cli_item *items = NULL;
    ty_err err = TY_OK;
    if (cli_arg_given(&c->args, "custom-metadata"))
        err = cli_dict_split(c->arena, "custom-metadata", cli_arg(&c->args, "custom-metadata"),
                             &items);
    for (struct cli_item *i = items; i != NULL && err == TY_OK; i = i->next)
        o->header_count++;
    o->headers = ty_new_array(c->arena, const char *, o->header_count + TY_COUNT(names) + 1);
    o->header_count = 0;
    for (size_t i = 0; i < TY_COUNT(names) && strcmp(command, "setmeta") == 0; i++)
        if (cli_arg_given(&c->args, names[i]))
            o->headers[o->header_count++] = ty_format(c->arena, "%s:" TY_STR_FMT, names[i],
                                                      TY_STR_ARG(cli_arg(&c->args, names[i])));
    for (struct cli_item *i = items; i != NULL && err == TY_OK; i = i->next)
        o->headers[o->header_count++] =
            ty_format(c->arena, "x-goog-meta-" TY_STR_FMT ":" TY_STR_FMT, TY_STR_ARG(i->key),
                      TY_STR_ARG(i->value));
    return err;
}

static const char *say_away(void *arg, const char *why)
{
    return cli_away_text(arg, why);
}

static int print_value(void *arg, const json_t *value)
{
    struct cli *c = arg;
    bool listing = strcmp(c->command->words, "storage ls") == 0;
    return cli_print(c, value, listing ? "json" : "yaml");
}

static ty_err storage_open(struct cli *c, struct storage *s)
{
    ty_err err = cli_target(c);
    if (err != TY_OK)
        return err;
    *s = (struct storage){.arena = c->arena,
                          .program = c->as_gcloud ? "gcloud" : "trainyard",
                          .connect = c->connect,
                          .project = c->project,
                          .away = say_away,
                          .away_arg = c,
                          .print = print_value,
                          .print_arg = c};
    s->state_dir = ty_format(c->arena, "%s/client/transfers", c->data_dir);
    s->quiet = cli_arg_on(&c->args, "quiet") && !c->as_gcloud;
    return TY_OK;
}

/* gsutil's words for what gcloud calls otherwise. */
static const char *true_name(const char *name)
{
    static const struct {
        const char *word, *name;
    } words[] = {
        {"mb", "buckets create"}, {"rb", "buckets delete"}, {"compose", "objects compose"}};
    for (size_t i = 0; i < TY_COUNT(words); i++)
        if (strcmp(name, words[i].word) == 0)
            return words[i].name;
    return name;
}

int cli_storage(struct cli *c)
{
    struct storage s;
    struct storage_options o = {0};
    const char *name = true_name(strchr(c->command->words, ' ') + 1);
    const struct storage_command *command = storage_command_find(name);
    ty_assert(command != NULL);
    ty_err err = storage_open(c, &s);
    if (err != TY_OK)
        return cli_fail(c, err);
    options_fill(c, name, &o);
    if (metadata_fill(c, name, &o) != TY_OK)
        return cli_fail_usage(c);
    return storage_run(&s, command, &o, c->args.words, c->args.word_count);
}

int cli_upload(struct cli *c, const char *file, const char *url)
{
    struct storage s;
    struct storage_options o = {0};
    char *words[] = {ty_cstr(c->arena, ty_str_of(file)), ty_cstr(c->arena, ty_str_of(url))};
    ty_err err = storage_open(c, &s);
    if (err != TY_OK)
        return cli_fail(c, err);
    s.quiet = true;
    return storage_run(&s, storage_command_find("cp"), &o, words, TY_COUNT(words));
}

int cli_gsutil(struct cli *c, bool *ret_known)
{
    struct storage s;
    ty_err err = storage_open(c, &s);
    *ret_known = true;
    if (err != TY_OK) {
        fprintf(stderr, "CommandException: %s\n", ty_err_message());
        return CLI_FAILED;
    }
    s.style = STORAGE_GSUTIL;
    s.print = NULL;
    return storage_gsutil_main(&s, c->argc, c->argv, ret_known);
}
