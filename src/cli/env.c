/* env.c -- trainyard env: shell lines that bring Google's clients here, and lines that undo them.
 *
 * What a variable was before is remembered in the shell itself: TRAINYARD_ENV lists the names that
 * were changed, TRAINYARD_OLD_<name> has the value of each that was set. A name already in the list
 * is not remembered again, so evaluating env twice and --unset once still leads back. PATH and
 * PYTHONPATH are undone by taking our folders out, because a user may well have changed them since
 * (a virtual environment, for one). */
#include "cli/cli_int.h"

#include "auth/auth.h"

enum { ENV_BYTES = 4 << 20, HEALTH_MS = 2000 };

void cli_shell_quote(struct ty_buf *b, const char *value)
{
    ty_buf_addc(b, '\'');
    for (; *value != '\0'; value++) {
        if (*value == '\'')
            ty_buf_addz(b, "'\\''");
        else
            ty_buf_addc(b, *value);
    }
    ty_buf_addc(b, '\'');
}

static void add_export(struct ty_buf *b, const char *name, const char *value)
{
    ty_buf_addf(b, "export %s=", name);
    cli_shell_quote(b, value);
    ty_buf_addc(b, '\n');
}

static const char *old_name(struct ty_arena *a, const char *name)
{
    return ty_format(a, "TRAINYARD_OLD_%s", name);
}

static bool list_has(const char *list, const char *name)
{
    ty_str rest = ty_str_of(list), word;
    bool more = true;
    while (more) {
        more = ty_str_split(&rest, ' ', &word);
        if (ty_str_is(word, name))
            return true;
    }
    return false;
}

/* A PATH-like list without one of its folders. */
static const char *path_without(struct ty_arena *a, const char *list, const char *folder)
{
    ty_str rest = ty_str_of(list), part;
    const char *left = NULL;
    bool more = rest.len > 0;
    while (more) {
        more = ty_str_split(&rest, ':', &part);
        if (!ty_str_is(part, folder))
            left = left == NULL ? ty_cstr(a, part)
                                : ty_format(a, "%s:" TY_STR_FMT, left, TY_STR_ARG(part));
    }
    return left != NULL ? left : "";
}

/* PATH or PYTHONPATH without our folders. Those a former env put there (of another data folder,
 * perhaps) are named by TRAINYARD_DATA, if TRAINYARD_ENV says there was one. */
static const char *path_as_before(struct ty_arena *a, const char *name)
{
    static const char *const ours[] = {"bin", "shims", "python"};
    const char *value = getenv(name), *data = getenv("TRAINYARD_DATA");
    if (value == NULL)
        return "";
    for (size_t i = 0; data != NULL && getenv("TRAINYARD_ENV") != NULL && i < TY_COUNT(ours); i++)
        value = path_without(a, value, ty_format(a, "%s/client/%s", data, ours[i]));
    return value;
}

static const char *path_with(struct ty_arena *a, const char *folder, const char *list)
{
    return ty_format(a, "%s%s%s", folder, list[0] != '\0' ? ":" : "", list);
}

/* ---- env ---- */

static void add_variable(struct ty_arena *a, struct ty_buf *b, const char **list, const char *name,
                         const char *value)
{
    const char *before = getenv(name);
    if (!list_has(*list, name)) {
        if (before != NULL)
            add_export(b, old_name(a, name), before);
        else if (getenv(old_name(a, name)) != NULL)
            ty_buf_addf(b, "unset %s\n", old_name(a, name));
        *list = ty_format(a, "%s%s%s", *list, (*list)[0] != '\0' ? " " : "", name);
    }
    if (value != NULL)
        add_export(b, name, value);
    else
        ty_buf_addf(b, "unset %s\n", name);
}

static void add_set(struct cli *c, struct ty_buf *b)
{
    struct ty_arena *a = c->arena;
    size_t count;
    const char *before = getenv("TRAINYARD_ENV"), *list = before != NULL ? before : "";
    const char *python = path_as_before(a, "PYTHONPATH");
    const char *path = path_as_before(a, "PATH");
    struct auth_var *vars = auth_client_env(a, c->data_dir, c->url, python, &count);
    for (size_t i = 0; i < count; i++)
        add_variable(a, b, &list, vars[i].name, vars[i].value);
    add_variable(a, b, &list, "TRAINYARD_DATA", c->data_dir);
    path = path_with(a, ty_format(a, "%s/client/bin", c->data_dir), path);
    if (cli_arg_on(&c->args, "shims"))
        path = path_with(a, ty_format(a, "%s/client/shims", c->data_dir), path);
    add_variable(a, b, &list, "PATH", path);
    add_export(b, "TRAINYARD_ENV", list);
}

/* ---- env --unset ---- */

static bool is_shell_name(ty_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool letter = c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return s.len > 0;
}

static void add_restored(struct ty_arena *a, struct ty_buf *b, const char *name)
{
    const char *old = getenv(old_name(a, name)), *now = NULL;
    if (strcmp(name, "PATH") == 0 || strcmp(name, "PYTHONPATH") == 0)
        now = path_as_before(a, name);
    if (now != NULL && now[0] != '\0')
        add_export(b, name, now);
    else if (old != NULL)
        add_export(b, name, old);
    else
        ty_buf_addf(b, "unset %s\n", name);
    if (old != NULL)
        ty_buf_addf(b, "unset %s\n", old_name(a, name));
}

static void add_unset(struct cli *c, struct ty_buf *b)
{
    const char *list = getenv("TRAINYARD_ENV");
    ty_str rest = ty_str_of(list), word;
    bool more = rest.len > 0;
    if (list == NULL)
        fputs("trainyard: this shell has not evaluated 'trainyard env': nothing to undo\n", stderr);
    while (more) {
        more = ty_str_split(&rest, ' ', &word);
        if (is_shell_name(word)) /* the list may have been tampered with: it goes through eval */
            add_restored(c->arena, b, ty_cstr(c->arena, word));
    }
    if (list != NULL)
        ty_buf_addz(b, "unset TRAINYARD_ENV\n");
}

/* ---- the command ---- */

static void say_if_away(struct cli *c)
{
    struct http_client client;
    struct http_reply reply;
    ty_err err = http_client_open(&client, c->url);
    if (err == TY_OK) {
        err = http_client_call(&client, c->arena, HTTP_GET, "/healthz", TY_STR(""), HEALTH_MS,
                               &reply);
        http_client_close(&client);
    }
    if (err != TY_OK)
        fprintf(stderr, "trainyard: %s\n",
                cli_away_text(c, ty_cstr(c->arena, ty_str_of(ty_err_message()))));
}

int cli_env(struct cli *c)
{
    struct ty_buf b;
    ty_buf_init(&b, ENV_BYTES);
    c->data_dir = cli_data_dir(c);
    if (cli_arg_on(&c->args, "unset")) {
        add_unset(c, &b);
    } else {
        /* The folder's own word first: after a restart on another port the variable is old. */
        const char *written = cli_data_url(c->arena, c->data_dir), *given = getenv("TRAINYARD_URL");
        c->url = written != NULL                     ? written
                 : given != NULL && given[0] != '\0' ? given
                                                     : "http://127.0.0.1:7575";
        add_set(c, &b);
        say_if_away(c);
    }
    ty_err err = ty_buf_check(&b, "the environment");
    if (err == TY_OK && cli_arg_on(&c->args, "shims") && !cli_arg_on(&c->args, "unset"))
        err = auth_client_shims(c->data_dir);
    if (err == TY_OK && b.len > 0)
        fwrite(b.ptr, 1, b.len, stdout);
    ty_buf_clear(&b);
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}
