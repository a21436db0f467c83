/* argv.c -- the engine's command line for a replica: `ENGINE run OPTIONS IMAGE WORDS`.
 *
 * Entry point and command as Kubernetes and Vertex have it:
 *
 *   command  args   what runs
 *   -        -      ENTRYPOINT CMD of the image
 *   -        set    ENTRYPOINT args
 *   set      -      command                (CMD is dropped with the entry point it belongs to)
 *   set      set    command args
 *
 * --entrypoint takes one word in docker, so the rest of `command` goes before `args`.
 *
 * The environment is no part of the command line, because everybody on this machine can read that,
 * and it may have keys and tokens. Plain values go through --env-file. The engines do not agree on
 * quotes, line ends and long lines in such a file, so a value with any of these is in the
 * environment of the engine's client, and --env=NAME has it taken from there. */
#include "container/container_int.h"

#include <sys/sysinfo.h>

enum { ENV_LINE_BYTES = 16384, ENV_FILE_BYTES = 8 << 20 };

struct words {
    struct ty_arena *a;
    const char **list;
    size_t count;
};

static void add(struct words *w, const char *word)
{
    w->list[w->count++] = word;
}

static size_t list_length(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* --volume splits at ':' and --mount at ',': no path of a user's may have both. */
static ty_err add_mount(struct words *w, const struct container_mount *m)
{
    bool colon = strchr(m->from, ':') || strchr(m->to, ':');
    bool comma = strchr(m->from, ',') || strchr(m->to, ',') || strchr(m->from, '"');
    if (colon && comma)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the folder '%s' cannot be mounted into a container: its name has both ':' "
                       "and ','",
                       m->from);
    if (colon)
        add(w, ty_format(w->a, "--mount=type=bind,source=%s,target=%s%s", m->from, m->to,
                         m->read_only ? ",readonly" : ""));
    else
        add(w, ty_format(w->a, "--volume=%s:%s%s", m->from, m->to, m->read_only ? ":ro" : ""));
    return TY_OK;
}

static void add_labels(struct words *w, const struct container *c)
{
    add(w, ty_format(w->a, "--label=trainyard.data=%s", c->data_dir));
    add(w, ty_format(w->a, "--label=trainyard.job=%" PRId64, c->job_id));
    add(w, ty_format(w->a, "--label=trainyard.attempt=%d", c->attempt));
    add(w, ty_format(w->a, "--label=trainyard.replica=%d-%d", c->pool, c->index));
}

static void add_limits(struct words *w, const struct container_engine *e, const struct container *c)
{
    struct sysinfo machine;
    if (sysinfo(&machine) == 0) /* the default of 64 MB is too little for data loaders */
        add(w, ty_format(w->a, "--shm-size=%" PRIu64,
                         (uint64_t)machine.totalram * machine.mem_unit / 2));
    if (e->limits && c->memory_bytes > 0)
        add(w, ty_format(w->a, "--memory=%" PRId64, c->memory_bytes));
    if (e->limits && c->cpu_milli > 0) {
        int64_t shares = c->cpu_milli < 256000 ? c->cpu_milli * 1024 / 1000 : 262144;
        add(w, ty_format(w->a, "--cpu-shares=%" PRId64, shares > 2 ? shares : 2));
    }
    if (c->gpus)
        add(w, e->kind == CONTAINER_DOCKER ? "--gpus=all" : "--device=nvidia.com/gpu=all");
}

/* Does every engine read this from a file as it is? */
static bool is_plain(const char *variable)
{
    size_t len = strlen(variable);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)variable[i] < ' ' || (unsigned char)variable[i] > '~' ||
            strchr("\"'\\$`#", variable[i]))
            return false;
    return len < ENV_LINE_BYTES && strchr(variable, '=') && variable[len - 1] != ' ';
}

/* To the file, or by name to the client's environment. */
static void add_variable(struct words *w, struct words *client, struct ty_buf *file,
                         const char *variable)
{
    if (is_plain(variable)) {
        ty_buf_addf(file, "%s\n", variable);
        return;
    }
    add(w, ty_format(w->a, "--env=%.*s", (int)strcspn(variable, "="), variable));
    add(client, variable);
}

static ty_err add_env(struct words *w, const struct container *c, const char *image_python_path,
                      struct container_call *call)
{
    struct words client = {.a = w->a};
    struct ty_buf file;
    client.list = ty_new_array(w->a, const char *, list_length(c->env) + 2);
    ty_buf_init(&file, ENV_FILE_BYTES);
    for (size_t i = 0; c->env && c->env[i]; i++)
        add_variable(w, &client, &file, c->env[i]);
    if (c->python_path)
        add_variable(w, &client, &file,
                     ty_format(w->a, "PYTHONPATH=%s%s%s", c->python_path,
                               image_python_path[0] ? ":" : "", image_python_path));
    ty_err err = ty_buf_check(&file, "the container's environment");
    if (file.len > 0)
        add(w, ty_format(w->a, "--env-file=../%d-%d.env", c->pool, c->index));
    call->client_env = client.list;
    call->env_file = ty_str_dup(w->a, ty_buf_str(&file));
    ty_buf_clear(&file);
    return err;
}

ty_err container_argv(struct ty_arena *a, const struct container_engine *engine,
                      const struct container *c, const char *image_python_path,
                      struct container_call *ret_call)
{
    struct container_call call = {0};
    size_t commands = list_length(c->command), args = list_length(c->args);
    struct words w = {.a = a};
    ty_err err;
    w.list =
        ty_new_array(a, const char *, commands + args + list_length(c->env) + c->mount_count + 32);
    add(&w, engine->path);
    add(&w, "run");
    add(&w, "--sig-proxy=false"); /* SIGTERM is sent by container_run, once */
    add(&w, "--network=host");
    add(&w, ty_format(a, "--cidfile=../%d-%d.cid", c->pool, c->index));
    for (size_t i = 0; engine->options[i]; i++)
        add(&w, engine->options[i]);
    add_labels(&w, c);
    add_limits(&w, engine, c);
    for (size_t i = 0; i < c->mount_count; i++) {
        err = add_mount(&w, &c->mounts[i]);
        if (err != TY_OK)
            return err;
    }
    err = add_env(&w, c, image_python_path, &call);
    if (err != TY_OK)
        return err;
    if (commands > 0)
        add(&w, ty_format(a, "--entrypoint=%s", c->command[0]));
    add(&w, c->image);
    for (size_t i = 1; i < commands; i++)
        add(&w, c->command[i]);
    for (size_t i = 0; i < args; i++)
        add(&w, c->args[i]);
    call.argv = w.list;
    *ret_call = call;
    return TY_OK;
}
