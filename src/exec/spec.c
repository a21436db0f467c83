/* spec.c -- the plan as the file `spec`: how the server's decisions reach the conductor.
 *
 *   {"format":1, "timeoutMs":…, …, "note":"…", "env":[…],
 *    "prepare":{"argv":[…], "env":[…]},
 *    "replicas":[{"pool":0, "index":0, "port":…, "cpuMilli":…, "memoryBytes":…,
 *                  "mounts":[…], "argv":[…], "env":[…],
 *                  "container":{"image":…, "command":[…], "args":[…], "env":[…], "mounts":[…]}}]}
 *
 * Most of the environment is the same for all replicas, so what their lists begin with in common is
 * written once, in the outer "env". The file is not synced: it is of use only to a conductor that
 * starts now, and after a power loss there is none. */
#include "exec/exec_int.h"

#include "wire/wire.h"

enum { SPEC_FORMAT = 1, SPEC_BYTES = 256 << 20 };

/* ---- writing ---- */

static size_t common_env(const struct exec_plan *plan)
{
    for (size_t n = 0;; n++) {
        const char *first = plan->replicas[0].env[n];
        if (!first)
            return n;
        for (size_t i = 1; i < plan->replica_count; i++) {
            const char *other = plan->replicas[i].env[n];
            if (!other || strcmp(first, other) != 0)
                return n;
        }
    }
}

static void add_strings(struct ty_buf *b, const char *key, char *const *list, size_t count)
{
    ty_buf_addf(b, "\"%s\":[", key);
    for (size_t i = 0; i < count && list[i]; i++) {
        if (i)
            ty_buf_addc(b, ',');
        wire_json_string(b, ty_str_of(list[i]));
    }
    ty_buf_addc(b, ']');
}

static void add_string(struct ty_buf *b, const char *key, const char *value)
{
    ty_buf_addf(b, "\"%s\":", key);
    wire_json_string(b, ty_str_of(value));
    ty_buf_addc(b, ',');
}

static void add_mounts(struct ty_buf *b, const struct container_mount *mounts, size_t count)
{
    ty_buf_addz(b, "\"mounts\":[");
    for (size_t i = 0; i < count; i++) {
        ty_buf_addz(b, i ? ",{" : "{");
        add_string(b, "from", mounts[i].from);
        add_string(b, "to", mounts[i].to);
        ty_buf_addf(b, "\"readOnly\":%s}", mounts[i].read_only ? "true" : "false");
    }
    ty_buf_addz(b, "],");
}

/* What container.h has and the plan has not. */
static void add_container(struct ty_buf *b, const struct container *c)
{
    ty_buf_addz(b, ",\"container\":{");
    add_string(b, "image", c->image);
    add_string(b, "data", c->data_dir);
    if (c->python_path)
        add_string(b, "pythonPath", c->python_path);
    ty_buf_addf(b, "\"gpus\":%s,", c->gpus ? "true" : "false");
    add_mounts(b, c->mounts, c->mount_count);
    add_strings(b, "command", c->command, SIZE_MAX);
    ty_buf_addc(b, ',');
    add_strings(b, "args", c->args, SIZE_MAX);
    ty_buf_addc(b, ',');
    add_strings(b, "env", c->env, SIZE_MAX);
    ty_buf_addc(b, '}');
}

static void add_plan(struct ty_buf *b, const struct exec_plan *plan)
{
    size_t common = common_env(plan);
    ty_buf_addf(b,
                "{\"format\":%d,\"jobId\":%" PRId64 ",\"attempt\":%d,\"timeoutMs\":%" PRId64
                ",\"graceMs\":%" PRId64 ",",
                SPEC_FORMAT, plan->job_id, plan->attempt, plan->timeout_ms, plan->grace_ms);
    ty_buf_addf(
        b, "\"logLimitBytes\":%" PRId64 ",\"logLineBytes\":%" PRId64 ",\"logFloorNs\":%" PRId64 ",",
        plan->log_limit_bytes, plan->log_line_bytes, plan->log_floor_ns);
    ty_buf_addf(b, "\"disableRetries\":%s,\"restartJobOnWorkerRestart\":%s,\n",
                plan->disable_retries ? "true" : "false",
                plan->restart_job_on_worker_restart ? "true" : "false");
    if (plan->note) {
        ty_buf_addz(b, "\"note\":");
        wire_json_string(b, ty_str_of(plan->note));
        ty_buf_addz(b, ",\n");
    }
    if (plan->ml)
        ty_buf_addz(b, "\"ml\":true,");
    ty_buf_addf(b, "\"cgroups\":%s,\"replicaProcesses\":%" PRId64 ",\n",
                plan->cgroups ? "true" : "false", plan->replica_processes);
    add_strings(b, "env", plan->replicas[0].env, common);
    if (plan->prepare) {
        ty_buf_addf(b, ",\n\"prepare\":{\"engine\":%s,", plan->prepare->engine ? "true" : "false");
        add_strings(b, "argv", plan->prepare->argv, SIZE_MAX);
        ty_buf_addc(b, ',');
        add_strings(b, "env", plan->prepare->env, SIZE_MAX);
        ty_buf_addc(b, '}');
    }
    ty_buf_addz(b, ",\n\"replicas\":[");
    for (size_t i = 0; i < plan->replica_count; i++) {
        const struct exec_replica *r = &plan->replicas[i];
        ty_buf_addf(b, "%s\n{\"pool\":%d,\"index\":%d,\"port\":%d,", i ? "," : "", r->pool,
                    r->index, r->port);
        ty_buf_addf(b, "\"cpuMilli\":%" PRId64 ",\"memoryBytes\":%" PRId64 ",", r->share.cpu_milli,
                    r->share.memory_bytes);
        if (r->mount_count)
            add_mounts(b, r->mounts, r->mount_count);
        add_strings(b, "argv", r->argv, SIZE_MAX);
        ty_buf_addc(b, ',');
        add_strings(b, "env", r->env + common, SIZE_MAX);
        if (r->container)
            add_container(b, r->container);
        ty_buf_addc(b, '}');
    }
    ty_buf_addz(b, "]}\n");
}

ty_err spec_write(int dirfd, const struct exec_plan *plan)
{
    struct ty_buf b;
    ty_buf_init(&b, SPEC_BYTES);
    add_plan(&b, plan);
    ty_err err = ty_buf_check(&b, "the attempt's plan");
    int fd = -1;
    if (err)
        goto out;
    fd = openat(dirfd, "spec", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        err = ty_fail_errno(errno, "cannot create 'spec'");
        goto out;
    }
    err = ty_write_all(fd, b.ptr, b.len);
    close(fd);
out:
    ty_buf_clear(&b);
    return err;
}

/* ---- reading ---- */

static int64_t get_int(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* `first` and then the strings of `list`, NULL-ended. */
static char **get_strings(struct ty_arena *a, const json_t *first, const json_t *list)
{
    char **out = ty_new_array(a, char *, json_array_size(first) + json_array_size(list) + 1);
    size_t n = 0, i;
    json_t *item;
    json_array_foreach (first, i, item) {
        out[n++] = ty_cstr(a, ty_str_of(json_string_value(item)));
    }
    json_array_foreach (list, i, item) {
        out[n++] = ty_cstr(a, ty_str_of(json_string_value(item)));
    }
    return out;
}

static ty_err get_prepare(struct ty_arena *a, const json_t *from, struct exec_plan *plan)
{
    if (!from)
        return TY_OK;
    struct exec_replica *r = plan->prepare = ty_new(a, struct exec_replica);
    r->pool = r->index = -1;
    r->engine = json_is_true(json_object_get(from, "engine"));
    r->argv = get_strings(a, NULL, json_object_get(from, "argv"));
    r->env = get_strings(a, NULL, json_object_get(from, "env"));
    return r->argv[0] ? TY_OK : ty_fail(TY_DATA_LOSS, "'spec': the preparation has no command");
}

static const char *get_string(struct ty_arena *a, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value ? ty_cstr(a, ty_str_of(json_string_value(value))) : NULL;
}

static void get_mounts(struct ty_arena *a, const json_t *from, struct container_mount **ret_mounts,
                       size_t *ret_count)
{
    const json_t *list = json_object_get(from, "mounts");
    size_t count = json_array_size(list);
    struct container_mount *mounts = ty_new_array(a, struct container_mount, count + 1);
    for (size_t i = 0; i < count; i++) {
        const json_t *mount = json_array_get(list, i);
        mounts[i] = (struct container_mount){
            .from = get_string(a, mount, "from"),
            .to = get_string(a, mount, "to"),
            .read_only = json_is_true(json_object_get(mount, "readOnly")),
        };
    }
    *ret_mounts = mounts;
    *ret_count = count;
}

static void get_container(struct ty_arena *a, const json_t *from, const struct exec_plan *plan,
                          struct exec_replica *r)
{
    if (!from)
        return;
    struct container *c = r->container = ty_new(a, struct container);
    *c = (struct container){
        .image = get_string(a, from, "image"),
        .command = get_strings(a, NULL, json_object_get(from, "command")),
        .args = get_strings(a, NULL, json_object_get(from, "args")),
        .env = get_strings(a, NULL, json_object_get(from, "env")),
        .python_path = get_string(a, from, "pythonPath"),
        .cpu_milli = r->share.cpu_milli,
        .memory_bytes = r->share.memory_bytes,
        .gpus = json_is_true(json_object_get(from, "gpus")),
        .data_dir = get_string(a, from, "data"),
        .job_id = plan->job_id,
        .attempt = plan->attempt,
        .pool = r->pool,
        .index = r->index,
    };
    get_mounts(a, from, &c->mounts, &c->mount_count);
    r->engine = true;
}

static ty_err get_plan(struct ty_arena *a, const json_t *root, struct exec_plan *plan)
{
    if (get_int(root, "format") != SPEC_FORMAT)
        return ty_fail(TY_FAILED_PRECONDITION, "'spec' has format %" PRId64 ", not %d",
                       get_int(root, "format"), SPEC_FORMAT);
    plan->job_id = get_int(root, "jobId");
    plan->attempt = (int)get_int(root, "attempt");
    plan->timeout_ms = get_int(root, "timeoutMs");
    plan->grace_ms = get_int(root, "graceMs");
    plan->log_limit_bytes = get_int(root, "logLimitBytes");
    plan->log_line_bytes = get_int(root, "logLineBytes");
    plan->log_floor_ns = get_int(root, "logFloorNs");
    plan->disable_retries = json_is_true(json_object_get(root, "disableRetries"));
    plan->restart_job_on_worker_restart =
        json_is_true(json_object_get(root, "restartJobOnWorkerRestart"));
    if (json_object_get(root, "note"))
        plan->note = ty_cstr(a, wire_json_get_str(root, "note"));
    plan->ml = json_is_true(json_object_get(root, "ml"));
    plan->cgroups = json_is_true(json_object_get(root, "cgroups"));
    plan->replica_processes = get_int(root, "replicaProcesses");
    const json_t *replicas = json_object_get(root, "replicas"), *env = json_object_get(root, "env");
    plan->replica_count = json_array_size(replicas);
    plan->replicas = ty_new_array(a, struct exec_replica, plan->replica_count + 1);
    for (size_t i = 0; i < plan->replica_count; i++) {
        const json_t *from = json_array_get(replicas, i);
        struct exec_replica *r = &plan->replicas[i];
        r->pool = (int)get_int(from, "pool");
        r->index = (int)get_int(from, "index");
        r->port = (int)get_int(from, "port");
        r->share.cpu_milli = get_int(from, "cpuMilli");
        r->share.memory_bytes = get_int(from, "memoryBytes");
        r->argv = get_strings(a, NULL, json_object_get(from, "argv"));
        r->env = get_strings(a, env, json_object_get(from, "env"));
        get_mounts(a, from, &r->mounts, &r->mount_count);
        get_container(a, json_object_get(from, "container"), plan, r);
        if (!r->argv[0])
            return ty_fail(TY_DATA_LOSS, "'spec': replica %zu has no command", i);
    }
    if (plan->replica_count == 0 || plan->log_line_bytes < 1)
        return ty_fail(TY_DATA_LOSS, "'spec' has no replicas or no log limits");
    return get_prepare(a, json_object_get(root, "prepare"), plan);
}

ty_err spec_read(struct ty_arena *a, int dirfd, struct exec_plan *ret_plan)
{
    ty_str text;
    json_t *root = NULL;
    struct ty_arena file = {0};
    struct exec_plan plan = {0};
    ty_err err = ty_file_read(dirfd, "spec", SPEC_BYTES, &file, &text);
    if (err == TY_OK)
        err = wire_json_parse(text, &root);
    if (err == TY_OK)
        err = get_plan(a, root, &plan);
    json_decref(root);
    ty_arena_clear(&file);
    if (err)
        return ty_wrap(err, "cannot read the attempt's plan");
    *ret_plan = plan;
    return TY_OK;
}
