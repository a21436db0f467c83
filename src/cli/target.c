/* target.c -- which server, project and region a command is for, and calls to it.
 *
 *   data folder  --data, TRAINYARD_DATA, ~/.trainyard
 *   server       TRAINYARD_URL, the URL the server of that folder wrote down, the usual port. The
 *                Unix socket in the folder is used when it belongs to that very server: it is
 *                quicker and needs no peer check.
 *   token        TRAINYARD_TOKEN, a replica's, sent over TCP: a container may have another uid
 *   project      --project, CLOUDSDK_CORE_PROJECT, gcloud's configuration, "trainyard"
 *   region       --region, CLOUDSDK_AI_REGION, gcloud's configuration, "us-central1" */
#include "cli/cli_int.h"

#include "auth/auth.h"
#include "wire/wire.h"

enum { SOCKET_PATH_BYTES = 100 /* sockaddr_un has 108 */, TOKEN_BYTES = 256 };

const char *cli_data_dir(struct cli *c)
{
    const char *home = getenv("HOME"), *dir = getenv("TRAINYARD_DATA");
    ty_str flag = cli_arg(&c->args, "data");
    if (flag.len > 0)
        dir = ty_cstr(c->arena, flag);
    if (dir == NULL || dir[0] == '\0')
        dir = ty_format(c->arena, "%s/.trainyard", home != NULL ? home : "");
    char *absolute = realpath(dir, NULL); /* the same name, however it was written */
    if (absolute != NULL) {
        dir = ty_cstr(c->arena, ty_str_of(absolute));
        free(absolute);
    }
    return dir;
}

const char *cli_data_url(struct ty_arena *a, const char *data_dir)
{
    ty_str text;
    if (ty_file_read(AT_FDCWD, ty_format(a, "%s/url", data_dir), 4096, a, &text) != TY_OK)
        return NULL;
    text = ty_str_trim(text);
    return text.len > 0 ? ty_cstr(a, text) : NULL;
}

ty_err cli_config_read(struct cli *c, struct ty_config *ret_config)
{
    ty_str text;
    ty_config_init(ret_config, c->arena);
    const char *path = ty_format(c->arena, "%s/trainyard.conf", c->data_dir);
    ty_err err = ty_file_read(AT_FDCWD, path, 1 << 20, c->arena, &text);
    if (err == TY_NOT_FOUND)
        return TY_OK;
    return err == TY_OK ? ty_config_parse(ret_config, c->arena, path, text) : err;
}

static const char *url_trimmed(struct ty_arena *a, const char *url)
{
    ty_str s = ty_str_of(url);
    while (s.len > 0 && s.ptr[s.len - 1] == '/')
        s.len--;
    return ty_cstr(a, s);
}

const char *cli_gcloud_dir(struct cli *c)
{
    const char *folder = getenv("CLOUDSDK_CONFIG");
    if (folder == NULL || folder[0] == '\0')
        folder = ty_format(c->arena, "%s/client/gcloud", c->data_dir);
    return folder;
}

static const char *property(struct cli *c, const char *flag, const char *variable,
                            const char *section, const char *key, const char *otherwise)
{
    ty_str value = cli_arg(&c->args, flag);
    if (value.len == 0)
        value = ty_str_of(getenv(variable));
    if (value.len == 0)
        value = auth_gcloud_property(c->arena, cli_gcloud_dir(c), section, key);
    return value.len > 0 ? ty_cstr(c->arena, value) : otherwise;
}

const char *cli_compute_region(struct cli *c)
{
    return property(c, "region", "CLOUDSDK_COMPUTE_REGION", "compute", "region", NULL);
}

/* It goes into a header: no spaces, no line ends. */
static bool token_is_plain(const char *token)
{
    for (const char *p = token; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
            return false;
    return token[0] != '\0' && strlen(token) <= TOKEN_BYTES;
}

ty_err cli_target(struct cli *c)
{
    c->data_dir = cli_data_dir(c);
    const char *given = getenv("TRAINYARD_URL"), *written = cli_data_url(c->arena, c->data_dir);
    const char *path = ty_format(c->arena, "%s/sock", c->data_dir);
    if (given != NULL && given[0] == '\0')
        given = NULL;
    if (given != NULL)
        given = url_trimmed(c->arena, given);
    c->url = given != NULL ? given : written != NULL ? written : "http://127.0.0.1:7575";
    bool ours = given == NULL || (written != NULL && strcmp(given, written) == 0);
    bool by_socket = ours && strlen(path) <= SOCKET_PATH_BYTES && access(path, W_OK) == 0;
    const char *connect_to = by_socket ? ty_format(c->arena, "unix:%s", path) : c->url;
    c->project = property(c, "project", "CLOUDSDK_CORE_PROJECT", "core", "project", "trainyard");
    c->region = property(c, "region", "CLOUDSDK_AI_REGION", "ai", "region", "us-central1");
    ty_err err = http_client_open(&c->client, connect_to);
    if (err != TY_OK)
        return ty_wrap(err, "TRAINYARD_URL");
    const char *token = getenv("TRAINYARD_TOKEN");
    if (token != NULL && token_is_plain(token))
        c->client.token = token;
    c->connect = connect_to;
    return TY_OK;
}

ty_err cli_call(struct cli *c, enum http_method method, const char *target, ty_str body,
                int64_t timeout_ms, json_t **ret_reply)
{
    struct ty_arena a = {0}; /* of this call: a log may be followed for days */
    struct http_reply reply;
    ty_err err = http_client_call(&c->client, &a, method, target, body, timeout_ms, &reply);
    c->replied = err == TY_OK;
    if (err == TY_OK && reply.status >= 400)
        err = http_reply_fail(&reply);
    else if (err == TY_OK &&
             wire_json_parse(reply.body.len > 0 ? reply.body : TY_STR("{}"), ret_reply) != TY_OK)
        err = ty_wrap(TY_INTERNAL, "the answer of %s to '%s' is not JSON", c->url, target);
    ty_arena_clear(&a);
    return err;
}

/* "ai custom-jobs list" as gcloud names commands in errors: ai.custom-jobs.list */
static const char *dotted(const struct cli *c)
{
    const char *track = c->track != NULL ? c->track : "";
    char *name = ty_format(c->arena, "%s.%s%s%s", c->as_gcloud ? "gcloud" : "trainyard", track,
                           track[0] != '\0' ? "." : "", c->command->words);
    for (char *p = name; *p != '\0'; p++)
        if (*p == ' ')
            *p = '.';
    return name;
}

/* --verbosity=none and critical want no error text: the exit status says it. */
static void error_line(const struct cli *c, const char *text)
{
    ty_str verbosity = cli_arg(&c->args, "verbosity");
    if (!ty_str_is(verbosity, "none") && !ty_str_is(verbosity, "critical"))
        fprintf(stderr, "ERROR: (%s) %s\n", dotted(c), cli_text_for(c->arena, STDERR_FILENO, text));
}

int cli_fail(const struct cli *c, ty_err err)
{
    char *message = ty_err_take();
    fflush(stdout);
    const char *text = err == TY_UNAVAILABLE && c->url != NULL && !c->replied
                           ? cli_away_text(c, message)
                           : ty_format(c->arena, "%s: %s", ty_err_name(err), message);
    error_line(c, text);
    free(message);
    return CLI_FAILED;
}

int cli_fail_value(const struct cli *c)
{
    char *message = ty_err_take();
    fflush(stdout);
    error_line(c, message);
    free(message);
    return CLI_FAILED;
}

void cli_say(const struct cli *c, const char *fmt, ...)
{
    va_list args;
    if (cli_arg_given(&c->args, "user-output-enabled") &&
        !cli_arg_on(&c->args, "user-output-enabled"))
        return;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
}

int cli_fail_usage(const struct cli *c)
{
    char *message = ty_err_take();
    fflush(stdout);
    fprintf(stderr,
            "ERROR: (%s) %s\nUsage: trainyard %s%s%s [flags]; all flags: trainyard help %s\n",
            dotted(c), cli_text_for(c->arena, STDERR_FILENO, message), c->command->words,
            c->command->positional[0] ? " " : "", c->command->positional, c->command->words);
    free(message);
    return CLI_USAGE;
}
