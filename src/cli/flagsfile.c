/* flagsfile.c -- --flags-file: flags from a YAML file, put where the flag was, as gcloud does.
 *
 *   --display-name: hello
 *   --args: [a, "b,c"]              a list becomes one list, whatever commas are in it
 *   --labels: {k: v}                a mapping becomes KEY=VALUE,...
 *   --worker-pool-spec:             a repeated flag: one for each element
 *   - machine-type: n1-standard-4
 *   --enable-web-access: true       false is --no-enable-web-access; nothing is the bare flag
 * The file is such a mapping or a list of them; it may name another --flags-file. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum { FILE_BYTES = 1 << 20, MAX_FILES = 16, MAX_WORDS = 10000, WORD_BYTES = 4 << 20 };

/* Separates what was separate in the file. No text of a YAML file can have it: a control character
 * is not allowed there, and "\x1f" in quotes is refused below. */
#define SEPARATOR '\x1f'

struct expansion {
    struct ty_arena *arena;
    const struct cli_command *command;
    char **words;
    int count, files;
    const char *path; /* the file being read */
};

static ty_err word_add(struct expansion *e, const char *word)
{
    if (e->count >= MAX_WORDS)
        return ty_fail(TY_INVALID_ARGUMENT, "more than %d words on the command line", MAX_WORDS);
    e->words[e->count++] = (char *)word;
    return TY_OK;
}

/* ---- values ---- */

static ty_err scalar_add(struct expansion *e, const char *name, struct ty_buf *b,
                         const json_t *value)
{
    if (json_is_object(value) || json_is_array(value))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%s: %s: a value inside a list or mapping is itself one", e->path, name);
    if (!json_is_string(value)) {
        if (!json_is_null(value))
            wire_json_dump(b, value);
        return TY_OK;
    }
    if (memchr(json_string_value(value), SEPARATOR, json_string_length(value)) != NULL)
        return ty_fail(TY_INVALID_ARGUMENT, "%s: %s: has the control character \\x1f", e->path,
                       name);
    ty_buf_add(b, json_string_value(value), json_string_length(value));
    return TY_OK;
}

/* A list as ^\x1f^a\x1fb, a mapping as ^\x1f^k=v\x1fk=v, a scalar as it is. */
static ty_err value_add(struct expansion *e, const char *name, struct ty_buf *b,
                        const json_t *value)
{
    ty_err err = TY_OK;
    const char *key;
    json_t *item;
    size_t i;
    bool several = json_is_object(value) || json_is_array(value);
    if (!several)
        return scalar_add(e, name, b, value);
    if (json_object_size(value) + json_array_size(value) > 0)
        ty_buf_addf(b, "^%c^", SEPARATOR);
    json_array_foreach (value, i, item) {
        if (i > 0)
            ty_buf_addc(b, SEPARATOR);
        if (err == TY_OK)
            err = scalar_add(e, name, b, item);
    }
    i = 0;
    json_object_foreach ((json_t *)value, key, item) {
        if (i++ > 0)
            ty_buf_addc(b, SEPARATOR);
        ty_buf_addf(b, "%s=", key);
        if (err == TY_OK)
            err = scalar_add(e, name, b, item);
    }
    return err;
}

static ty_err flag_add(struct expansion *e, const char *name, const json_t *value)
{
    struct ty_buf b;
    ty_buf_init(&b, WORD_BYTES);
    ty_buf_addf(&b, "%s=", name);
    ty_err err = value_add(e, name, &b, value);
    if (err == TY_OK)
        err = ty_buf_check(&b, name);
    if (err == TY_OK)
        err = word_add(e, ty_cstr(e->arena, ty_buf_str(&b)));
    ty_buf_clear(&b);
    return err;
}

/* ---- files ---- */

static ty_err file_expand(struct expansion *e, const char *path);

static ty_err entry_expand(struct expansion *e, const char *name, const json_t *value)
{
    if (strncmp(name, "--", 2) != 0 || name[2] == '\0')
        return ty_fail(TY_INVALID_ARGUMENT, "%s: '%s' is no flag: it must begin with '--'", e->path,
                       name);
    if (strcmp(name, "--flags-file") == 0)
        return json_is_string(value)
                   ? file_expand(e, json_string_value(value))
                   : ty_fail(TY_INVALID_ARGUMENT, "%s: --flags-file: must be a path", e->path);
    const struct cli_flag *f = cli_flag_find(e->command, ty_str_of(name + 2));
    if (json_is_null(value) || json_is_true(value))
        return json_is_null(value) || (f != NULL && f->kind == CLI_BOOL)
                   ? word_add(e, ty_cstr(e->arena, ty_str_of(name)))
                   : flag_add(e, name, value);
    if (f == NULL || f->kind != CLI_SPEC || !json_is_array(value))
        return flag_add(e, name, value);
    ty_err err = TY_OK;
    for (size_t i = 0; i < json_array_size(value) && err == TY_OK; i++)
        err = flag_add(e, name, json_array_get(value, i));
    return err;
}

static ty_err mapping_expand(struct expansion *e, const json_t *mapping)
{
    const char *key;
    json_t *value;
    ty_err err = TY_OK;
    if (!json_is_object(mapping))
        return ty_fail(TY_INVALID_ARGUMENT, "%s: must be a mapping of flags, or a list of them",
                       e->path);
    json_object_foreach ((json_t *)mapping, key, value) {
        if (err == TY_OK)
            err = entry_expand(e, key, value);
    }
    return err;
}

static ty_err file_expand(struct expansion *e, const char *path)
{
    ty_str text;
    json_t *root = NULL;
    const char *outer = e->path;
    if (++e->files > MAX_FILES)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --flags-file: more than %d files (does '%s' "
                       "name itself?)",
                       MAX_FILES, path);
    ty_err err = ty_file_read(AT_FDCWD, path, FILE_BYTES, e->arena, &text);
    if (err == TY_OK)
        err = cli_yaml_parse(text, path, &root);
    if (err != TY_OK)
        return ty_wrap(err, "argument --flags-file");
    e->path = ty_cstr(e->arena, ty_str_of(path));
    if (!json_is_array(root))
        err = mapping_expand(e, root);
    for (size_t i = 0; i < json_array_size(root) && err == TY_OK; i++)
        err = mapping_expand(e, json_array_get(root, i));
    e->path = outer;
    json_decref(root);
    return err;
}

ty_err cli_flags_expand(struct ty_arena *a, const struct cli_command *cmd, int *argc, char ***argv)
{
    struct expansion e = {.arena = a, .command = cmd};
    bool any = false;
    ty_err err = TY_OK;
    for (int i = 0; i < *argc; i++)
        any |= strncmp((*argv)[i], "--flags-file", 12) == 0;
    if (!any)
        return TY_OK;
    e.words = ty_new_array(a, char *, MAX_WORDS);
    bool over = false; /* behind "--" nothing is a flag */
    for (int i = 0; i < *argc && err == TY_OK; i++) {
        const char *word = (*argv)[i];
        over |= strcmp(word, "--") == 0;
        if (!over && strncmp(word, "--flags-file=", 13) == 0)
            err = file_expand(&e, word + 13);
        else if (!over && strcmp(word, "--flags-file") == 0 && i + 1 < *argc)
            err = file_expand(&e, (*argv)[++i]);
        else
            err = word_add(&e, word);
    }
    if (err != TY_OK)
        return err;
    *argc = e.count;
    *argv = e.words;
    return TY_OK;
}
