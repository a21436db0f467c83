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
 * --entrypoint takes one word in docker, so the rest of `command` goes before `args`. */
#include "container/container_int.h"

#include <sys/sysinfo.h>

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

bool container_env_is_secret(const char *item)
{
    return ty_str_starts(ty_str_of(item), TY_STR("TRAINYARD_TOKEN=")) ||
           ty_str_starts(ty_str_of(item), TY_STR("GOOGLE_AUTH_TOKEN_FOR_TESTING="));
}

static void add_env(struct words *w, const struct container *c, const char *image_python_path)
{
    for (size_t i = 0; c->env && c->env[i]; i++) {
        int shown = container_env_is_secret(c->env[i]) ? (int)strcspn(c->env[i], "=") : INT_MAX;
        add(w, ty_format(w->a, "--env=%.*s", shown, c->env[i]));
    }
    if (c->python_path && image_python_path[0] != '\0')
        add(w, ty_format(w->a, "--env=PYTHONPATH=%s:%s", c->python_path, image_python_path));
    else if (c->python_path)
        add(w, ty_format(w->a, "--env=PYTHONPATH=%s", c->python_path));
}

ty_err container_argv(struct ty_arena *a, const struct container_engine *engine,
                      const struct container *c, const char *image_python_path,
                      const char ***ret_argv)
{
    size_t commands = list_length(c->command), args = list_length(c->args);
    struct words w = {.a = a};
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
        ty_err err = add_mount(&w, &c->mounts[i]);
        if (err != TY_OK)
            return err;
    }
    add_env(&w, c, image_python_path);
    if (commands > 0)
        add(&w, ty_format(a, "--entrypoint=%s", c->command[0]));
    add(&w, c->image);
    for (size_t i = 1; i < commands; i++)
        add(&w, c->command[i]);
    for (size_t i = 0; i < args; i++)
        add(&w, c->args[i]);
    *ret_argv = w.list;
    return TY_OK;
}
