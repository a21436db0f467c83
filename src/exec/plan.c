/* plan.c -- from a job's spec to what each replica runs: command line and environment.
 *
 * The environment is, later ones winning: the server's own (without what would lead a client to
 * Google or tell our own tests what to break), what points clients here, the variables of Vertex
 * and of the frameworks, the user's. TRAINYARD_ATTEMPT and TRAINYARD_REPLICA are the marks by which
 * sweep.c finds processes, so a user's value for them is ignored; so is one for TRAINYARD_TOKEN, by
 * which the server knows the replica whatever its uid (http.h).
 *
 * A pool with a Python package runs the interpreter of the environment that `trainyard prepare`
 * makes and links into the attempt's folder before any replica starts (python.h): its path is known
 * here, although what is in the package is not.
 *
 * A pool with an image other than `host` runs in containers. Their environment leaves the server's
 * own out: PATH and HOME are the image's. What the variables name on this machine is mounted at the
 * same path, so that a value means the same inside.
 *
 * Replicas talk to each other over 127.0.0.1, one port each. */
#include "exec/exec_int.h"

#include "wire/wire.h"

enum {
    PLAN_POOLS = 4,
    PLAN_REPLICAS = 4096,
    PLAN_DAYS = 3652,                   /* ten years of run time are as good as for ever */
    PLAN_STRING_BYTES = 128 * 1024 - 1, /* the kernel's limit for one argument or variable */
};

const char *exec_task_type(int pool)
{
    static const char *const types[PLAN_POOLS] = {"chief", "worker", "ps", "evaluator"};
    ty_assert(pool >= 0 && pool < PLAN_POOLS);
    return types[pool];
}

/* ---- reading the spec ---- */

static const json_t *pools_of(const json_t *spec)
{
    return json_object_get(spec, "workerPoolSpecs");
}

/* An empty pool ({}) has no replicas; one that says what to run but not how many has one. */
int64_t exec_pool_replicas(const json_t *pool)
{
    const json_t *count = json_object_get(pool, "replicaCount");
    int64_t n = 0;
    if (json_is_integer(count))
        n = json_integer_value(count);
    else if (json_is_string(count))
        n = ty_parse_i64(ty_str_of(json_string_value(count)), &n) == TY_OK ? n : 0;
    else
        n = json_object_size(pool) > 0;
    return n < 0 ? 0 : n > PLAN_REPLICAS ? PLAN_REPLICAS + 1 : n;
}

int exec_replica_count(const json_t *spec)
{
    int64_t total = 0;
    for (size_t i = 0; i < json_array_size(pools_of(spec)); i++)
        total += exec_pool_replicas(json_array_get(pools_of(spec), i));
    return total > INT_MAX ? INT_MAX : (int)total;
}

int64_t exec_timeout_ms(const struct ty_config *config, const json_t *spec)
{
    ty_str text = wire_json_get_str(json_object_get(spec, "scheduling"), "timeout");
    int64_t ms = 0;
    if (text.len > 0 && wire_duration_parse(text, &ms) == TY_OK && ms > 0)
        return ms < PLAN_DAYS * INT64_C(86400000) ? ms : PLAN_DAYS * INT64_C(86400000);
    return config->default_timeout_s * 1000;
}

/* ---- environments ---- */

struct env {
    struct ty_arena *a;
    char **list; /* NULL-ended */
    size_t count, cap;
};

static bool env_same_name(const char *item, ty_str name)
{
    return strncmp(item, name.ptr, name.len) == 0 && item[name.len] == '=';
}

static void env_reserve(struct env *e, size_t more)
{
    if (e->count + more + 1 <= e->cap)
        return;
    size_t cap = (e->count + more + 1) * 2;
    char **list = ty_new_array(e->a, char *, cap);
    if (e->count)
        memcpy(list, e->list, e->count * sizeof *list);
    e->list = list;
    e->cap = cap;
}

/* "NAME=VALUE", replacing an earlier NAME in its place. The string is kept, not copied. */
static void env_put(struct env *e, char *item)
{
    ty_str rest = ty_str_of(item), name;
    ty_str_split(&rest, '=', &name);
    for (size_t i = 0; i < e->count; i++)
        if (env_same_name(e->list[i], name)) {
            e->list[i] = item;
            return;
        }
    env_reserve(e, 1);
    e->list[e->count++] = item;
}

static const char preload_name[] = "LD_PRELOAD";

/* LD_PRELOAD is a list, and everybody's libraries are wanted. */
static void env_put_preload(struct env *e, const char *libraries)
{
    for (size_t i = 0; i < e->count; i++)
        if (env_same_name(e->list[i], ty_str_of(preload_name)) &&
            e->list[i][sizeof preload_name] != '\0')
            libraries = ty_format(e->a, "%s:%s", libraries, e->list[i] + sizeof preload_name);
    env_put(e, ty_format(e->a, "%s=%s", preload_name, libraries));
}

static bool env_has(const struct env *e, const char *name)
{
    for (size_t i = 0; i < e->count; i++)
        if (env_same_name(e->list[i], ty_str_of(name)))
            return true;
    return false;
}

/* Take NAME out and return its value; NULL: it is not there. */
static char *env_take(struct env *e, const char *name)
{
    for (size_t i = 0; i < e->count; i++)
        if (env_same_name(e->list[i], ty_str_of(name))) {
            char *value = e->list[i] + strlen(name) + 1;
            memmove(e->list + i, e->list + i + 1, (e->count - i) * sizeof *e->list);
            e->count--;
            return value;
        }
    return NULL;
}

static struct env env_copy(const struct env *from)
{
    struct env e = {.a = from->a};
    env_reserve(&e, from->count + 16);
    memcpy(e.list, from->list, from->count * sizeof *e.list);
    e.count = from->count;
    return e;
}

/* Variables of the server that no replica may see. */
static bool env_is_private(ty_str item)
{
    static const char *const prefixes[] = {
        "TY_",           "TRAINYARD_",  "GOOGLE_",      "CLOUDSDK_",    "GCLOUD_",
        "GCE_METADATA_", "AIP_",        "CLOUD_ML_",    "TF_CONFIG=",   "RANK=",
        "CLUSTER_SPEC=", "WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=", "STORAGE_EMULATOR_HOST=",
    };
    for (size_t i = 0; i < TY_COUNT(prefixes); i++)
        if (ty_str_starts(item, ty_str_of(prefixes[i])))
            return true;
    return false;
}

/* baseOutputDirectory as a path or gs:// URI without a slash at its end; empty: none. */
static ty_str output_folder(const json_t *spec)
{
    ty_str output =
        wire_json_get_str(json_object_get(spec, "baseOutputDirectory"), "outputUriPrefix");
    if (ty_str_starts(output, TY_STR("file://")))
        output = ty_str_drop(output, strlen("file://"));
    while (output.len > 1 && ty_str_ends(output, TY_STR("/")))
        output.len--;
    return output;
}

static bool output_is_bucket(ty_str output)
{
    return ty_str_starts(output, TY_STR("gs://"));
}

/* The output in the file system; NULL: it has no place there. */
static const char *output_path(struct ty_arena *a, const char *data_dir, ty_str output)
{
    if (!output_is_bucket(output))
        return output.len ? ty_cstr(a, output) : NULL;
    return data_dir ? wire_gs_path(a, data_dir, output) : NULL;
}

/* What replica number `rank` has for the model's folder; the chief, number 0, has the folder. */
static char *worker_model(struct ty_arena *a, const char *output, size_t rank)
{
    return ty_format(a, "%s/model/" EXEC_WORKER_MODEL "%zu", output, rank);
}

char *exec_model_uri(struct ty_arena *a, const json_t *spec)
{
    ty_str output = output_folder(spec);
    return output_is_bucket(output) ? ty_format(a, TY_STR_FMT "/model/", TY_STR_ARG(output)) : NULL;
}

/* A bucket that is not there any more must not come back as a folder. */
static ty_err output_bucket_check(struct ty_arena *a, const char *data_dir, ty_str output)
{
    ty_str bucket, name;
    if (!output_is_bucket(output))
        return TY_OK;
    if (!wire_gs_parse(output, &bucket, &name) ||
        access(ty_format(a, "%s/buckets/" TY_STR_FMT, data_dir, TY_STR_ARG(bucket)), F_OK) != 0)
        return ty_fail(TY_NOT_FOUND, "the bucket of '" TY_STR_FMT "' is not here",
                       TY_STR_ARG(output));
    return TY_OK;
}

ty_err exec_output_make(struct ty_arena *a, const char *data_dir, const json_t *spec)
{
    static const char *const parts[] = {"model", "checkpoints", "logs"};
    ty_str output = output_folder(spec);
    const char *path = output_path(a, data_dir, output);
    ty_err err = output_bucket_check(a, data_dir, output);
    for (size_t i = 0; path && err == TY_OK && i < TY_COUNT(parts); i++)
        err = ty_mkdirs(ty_format(a, "%s/%s", path, parts[i]), 0777);
    size_t replicas = output_is_bucket(output) ? (size_t)exec_replica_count(spec) : 0;
    for (size_t rank = 1; path && err == TY_OK && rank < replicas; rank++)
        err = ty_mkdirs(worker_model(a, path, rank), 0777);
    return err == TY_OK ? TY_OK : ty_wrap(err, "jobSpec.baseOutputDirectory.outputUriPrefix");
}

static ty_err mounts_clear(const struct container_mount *mounts, size_t count)
{
    ty_err err = TY_OK;
    for (size_t i = 0; i < count && err == TY_OK; i++)
        if (ty_str_starts(ty_str_of(mounts[i].to), TY_STR("/gcs/")))
            err = ty_remove_tree(AT_FDCWD, mounts[i].from);
    return err;
}

ty_err plan_output_clear(const struct exec_plan *plan)
{
    ty_err err = TY_OK;
    for (size_t i = 0; i < plan->replica_count && err == TY_OK; i++) {
        const struct exec_replica *r = &plan->replicas[i];
        err = r->container ? mounts_clear(r->container->mounts, r->container->mount_count)
                           : mounts_clear(r->mounts, r->mount_count);
    }
    return err;
}

ty_err exec_output_clear(const char *data_dir, int64_t job_id, int attempt)
{
    struct ty_arena a = {0};
    struct exec_plan plan;
    int dirfd = -1;
    ty_err err = attempt_open(data_dir, job_id, attempt, &dirfd);
    if (err == TY_OK)
        err = spec_read(&a, dirfd, &plan);
    if (err == TY_OK)
        err = plan_output_clear(&plan);
    if (dirfd >= 0)
        close(dirfd);
    ty_arena_clear(&a);
    return err == TY_NOT_FOUND ? TY_OK : err; /* never planned, or gone */
}

/* The server's PATH with the folder of its own binary before it: `trainyard` is the one that runs.
 */
static char *own_path(struct ty_arena *a)
{
    char self[PATH_MAX];
    const char *path = getenv("PATH");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    path = path && *path ? path : "/usr/bin:/bin";
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL || slash == self)
        return ty_format(a, "%s", path);
    *slash = '\0';
    size_t length = strlen(self);
    bool first = strncmp(path, self, length) == 0 && (path[length] == ':' || path[length] == '\0');
    return first ? ty_format(a, "%s", path) : ty_format(a, "%s:%s", self, path);
}

/* What all replicas of the job have in common; `host`: with the server's own environment. */
static struct env env_base(struct ty_arena *a, const struct exec_job *job, bool host)
{
    struct env e = {.a = a};
    /* First, so that a sweep finds the mark early. */
    env_put(&e, attempt_mark(a, job->data_dir, job->id, job->attempt));
    if (host)
        env_put(&e, ty_format(a, "TRAINYARD_MEETING=%s",
                              attempt_meeting(a, job->data_dir, job->id, job->attempt)));
    for (char **item = environ; host && *item; item++)
        /* The plan is JSON, so a variable that is not UTF-8 cannot pass. */
        if (!env_is_private(ty_str_of(*item)) && ty_utf8_valid(ty_str_of(*item)))
            env_put(&e, ty_cstr(a, ty_str_of(*item)));
    if (host)
        env_put(&e, ty_format(a, "PATH=%s", own_path(a)));
    env_put(&e, ty_format(a, "PYTHONUNBUFFERED=1")); /* prints arrive when they are printed */
    for (const char *const *item = job->client_env; item && *item; item++)
        if (!env_same_name(*item, ty_str_of(preload_name)))
            env_put(&e, ty_cstr(a, ty_str_of(*item)));
    env_put(&e, ty_format(a, "CLOUD_ML_PROJECT_ID=" TY_STR_FMT, TY_STR_ARG(job->project)));
    env_put(&e, ty_format(a, "CLOUD_ML_REGION=" TY_STR_FMT, TY_STR_ARG(job->region)));
    if (job->ml_id.len > 0)
        env_put(&e, ty_format(a, "CLOUD_ML_JOB_ID=" TY_STR_FMT, TY_STR_ARG(job->ml_id)));
    else
        env_put(&e, ty_format(a, "CLOUD_ML_JOB_ID=%" PRId64, job->id));
    ty_str output = output_folder(job->spec);
    if (output.len > 0) {
        env_put(&e, ty_format(a, "AIP_MODEL_DIR=" TY_STR_FMT "/model/", TY_STR_ARG(output)));
        env_put(&e,
                ty_format(a, "AIP_CHECKPOINT_DIR=" TY_STR_FMT "/checkpoints/", TY_STR_ARG(output)));
        env_put(&e,
                ty_format(a, "AIP_TENSORBOARD_LOG_DIR=" TY_STR_FMT "/logs/", TY_STR_ARG(output)));
    }
    env_put(&e, ty_format(a, "MASTER_ADDR=127.0.0.1"));
    env_put(&e, ty_format(a, "MASTER_PORT=%d", job->ports[0]));
    env_put(&e, ty_format(a, "WORLD_SIZE=%d", exec_replica_count(job->spec)));
    return e;
}

/* The library of the client variables, for replicas; our own programs need none. */
static void env_add_preload(struct env *e, const struct exec_job *job)
{
    for (const char *const *item = job->client_env; item && *item; item++)
        if (env_same_name(*item, ty_str_of(preload_name)))
            env_put_preload(e, *item + sizeof preload_name);
}

/* The pool's task: its containerSpec or pythonPackageSpec. */
static const json_t *pool_task(const json_t *pool, const char **ret_name)
{
    const json_t *container = json_object_get(pool, "containerSpec");
    *ret_name = container ? "containerSpec" : "pythonPackageSpec";
    return container ? container : json_object_get(pool, "pythonPackageSpec");
}

static char *python_folder(struct ty_arena *a, const struct exec_job *job, int pool)
{
    return ty_format(a, "%s/python-%d", exec_attempt_path(a, job->data_dir, job->id, job->attempt),
                     pool);
}

/* As `activate` does it: programs that a trainer starts by name come from its environment. */
static void env_add_python(struct env *e, const char *folder)
{
    env_put(e, ty_format(e->a, "VIRTUAL_ENV=%s", folder));
    env_put(e, ty_format(e->a, "PATH=%s/bin:%s", folder, own_path(e->a)));
}

static ty_err env_add_user(struct env *e, const json_t *pool_spec, int pool)
{
    const char *task_name;
    const json_t *list = json_object_get(pool_task(pool_spec, &task_name), "env");
    for (size_t i = 0; i < json_array_size(list); i++) {
        ty_str name = wire_json_get_str(json_array_get(list, i), "name");
        ty_str value = wire_json_get_str(json_array_get(list, i), "value");
        if (name.len == 0 || memchr(name.ptr, '=', name.len))
            return ty_fail(TY_INVALID_ARGUMENT,
                           "workerPoolSpecs[%d].%s.env[%zu].name: must not be empty or contain '='",
                           pool, task_name, i);
        if (ty_str_is(name, "TRAINYARD_ATTEMPT") || ty_str_is(name, "TRAINYARD_REPLICA") ||
            ty_str_is(name, "TRAINYARD_TOKEN"))
            continue;
        if (ty_str_is(name, preload_name))
            env_put_preload(e, ty_cstr(e->a, value));
        else
            env_put(
                e, ty_format(e->a, TY_STR_FMT "=" TY_STR_FMT, TY_STR_ARG(name), TY_STR_ARG(value)));
    }
    return TY_OK;
}

/* The second name is TensorFlow's, for gs://. */
static void env_add_token(struct env *e, const char *token)
{
    env_put(e, ty_format(e->a, "TRAINYARD_TOKEN=%s", token));
    env_put(e, ty_format(e->a, "GOOGLE_AUTH_TOKEN_FOR_TESTING=%s", token));
}

/* Without a server of one's own, wandb would send the run to its makers, or ask for a key. */
static void env_add_wandb(struct env *e)
{
    if (!env_has(e, "WANDB_BASE_URL") && !env_has(e, "WANDB_MODE"))
        env_put(e, ty_format(e->a, "WANDB_MODE=offline"));
}

/* ---- the cluster variables ---- */

/* {"workerpool0":["127.0.0.1:20000"],…}, or with TensorFlow's names, the first being `chief`, and
 * without the evaluators. */
static char *cluster_text(struct ty_arena *a, const struct exec_plan *plan, const char *chief)
{
    struct ty_buf b;
    ty_buf_init(&b, PLAN_STRING_BYTES + 1);
    ty_buf_addc(&b, '{');
    int open_pool = -1;
    for (size_t i = 0; i < plan->replica_count; i++) {
        const struct exec_replica *r = &plan->replicas[i];
        if (chief && r->pool == 3)
            continue;
        if (r->pool == open_pool) {
            ty_buf_addc(&b, ',');
        } else {
            ty_buf_addz(&b, open_pool >= 0 ? "]," : "");
            if (chief)
                ty_buf_addf(&b, "\"%s\":[", r->pool == 0 ? chief : exec_task_type(r->pool));
            else
                ty_buf_addf(&b, "\"workerpool%d\":[", r->pool);
            open_pool = r->pool;
        }
        ty_buf_addf(&b, "\"127.0.0.1:%d\"", r->port);
    }
    ty_buf_addz(&b, "]}");
    char *text = b.full ? NULL : ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

static char *job_text(struct ty_arena *a, const json_t *spec)
{
    struct ty_buf b;
    ty_buf_init(&b, PLAN_STRING_BYTES);
    wire_json_dump(&b, spec);
    char *text = b.full ? NULL : ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

/* NAME={"cluster":…,"environment":"cloud","task":…,"job":…}. The spec is left out when the variable
 * would be longer than the kernel takes. */
static char *cluster_variable(struct ty_arena *a, const char *name, const char *cluster,
                              const char *type, int index, const char *job)
{
    char *item = ty_format(a,
                           "%s={\"cluster\":%s,\"environment\":\"cloud\","
                           "\"task\":{\"type\":\"%s\",\"index\":%d}",
                           name, cluster, type, index);
    if (job && strlen(item) + strlen(job) + 16 < PLAN_STRING_BYTES)
        return ty_format(a, "%s,\"job\":%s}", item, job);
    return ty_format(a, "%s}", item);
}

/* ---- replicas ---- */

/* PYTHON -m MODULE ARGS */
static ty_err build_python_argv(struct ty_arena *a, const struct exec_job *job,
                                const json_t *package, int pool, char ***ret_argv)
{
    const json_t *args = json_object_get(package, "args");
    size_t count = json_array_size(args);
    char **argv = ty_new_array(a, char *, count + 4);
    argv[0] = ty_format(a, "%s/bin/python", python_folder(a, job, pool));
    argv[1] = ty_cstr(a, TY_STR("-m"));
    argv[2] = ty_cstr(a, wire_json_get_str(package, "pythonModule"));
    for (size_t i = 0; i < count; i++) {
        argv[3 + i] = ty_cstr(a, ty_str_of(json_string_value(json_array_get(args, i))));
        if (strlen(argv[3 + i]) > PLAN_STRING_BYTES)
            return ty_fail(
                TY_INVALID_ARGUMENT,
                "workerPoolSpecs[%d].pythonPackageSpec: argument %zu is longer than %d bytes", pool,
                i, PLAN_STRING_BYTES);
    }
    *ret_argv = argv;
    return TY_OK;
}

static ty_err build_argv(struct ty_arena *a, const json_t *container, int pool, char ***ret_argv)
{
    const json_t *command = json_object_get(container, "command");
    const json_t *args = json_object_get(container, "args");
    size_t first = json_array_size(command), count = first + json_array_size(args);
    if (count == 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "workerPoolSpecs[%d].containerSpec: command or args must say what to run",
                       pool);
    char **argv = ty_new_array(a, char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        const json_t *from =
            i < first ? json_array_get(command, i) : json_array_get(args, i - first);
        argv[i] = ty_cstr(a, ty_str_of(json_string_value(from)));
        if (strlen(argv[i]) > PLAN_STRING_BYTES)
            return ty_fail(
                TY_INVALID_ARGUMENT,
                "workerPoolSpecs[%d].containerSpec: argument %zu is longer than %d bytes", pool, i,
                PLAN_STRING_BYTES);
    }
    if (argv[0][0] == '\0')
        return ty_fail(TY_INVALID_ARGUMENT,
                       "workerPoolSpecs[%d].containerSpec: the command is empty", pool);
    *ret_argv = argv;
    return TY_OK;
}

/* ---- containers ---- */

/* A pool that runs in containers: its spec; NULL for all others. */
static const json_t *pool_container(const json_t *pool)
{
    const json_t *container = json_object_get(pool, "containerSpec");
    ty_str image = wire_json_get_str(container, "imageUri");
    return image.len > 0 && !ty_str_is(image, "host") ? container : NULL;
}

/* What runs is in the container's spec; this names it in messages. */
static char **image_argv(struct ty_arena *a, const json_t *container)
{
    char **argv = ty_new_array(a, char *, 2);
    argv[0] = ty_cstr(a, wire_json_get_str(container, "imageUri"));
    return argv;
}

static char **build_strings(struct ty_arena *a, const json_t *list)
{
    size_t count = json_array_size(list);
    char **strings = ty_new_array(a, char *, count + 1);
    for (size_t i = 0; i < count; i++)
        strings[i] = ty_cstr(a, ty_str_of(json_string_value(json_array_get(list, i))));
    return strings;
}

static bool client_env_names(const struct exec_job *job, const char *folder)
{
    for (const char *const *item = job->client_env; item && *item; item++)
        if (strstr(*item, folder))
            return true;
    return false;
}

enum { PLAN_MOUNTS = 8 };

static void mounts_add(struct container_mount *list, size_t *count, const char *from,
                       const char *to)
{
    ty_assert(*count < PLAN_MOUNTS);
    list[(*count)++] = (struct container_mount){.from = from, .to = to};
}

/* /gcs, where there are buckets. Only the chief has the model's folder there: the others have one
 * of their own over it, so that no two write the same model. */
static void add_gcs(struct ty_arena *a, const struct exec_job *job, size_t rank,
                    struct container_mount *list, size_t *count)
{
    ty_str output = output_folder(job->spec);
    const char *buckets = ty_format(a, "%s/buckets", job->data_dir ? job->data_dir : "");
    struct stat st;
    if (!job->data_dir || stat(buckets, &st) != 0 || !S_ISDIR(st.st_mode))
        return;
    mounts_add(list, count, buckets, "/gcs");
    const char *path = output_path(a, job->data_dir, output);
    if (rank > 0 && output_is_bucket(output) && path)
        mounts_add(list, count, worker_model(a, path, rank),
                   ty_format(a, "/gcs%s/model", path + strlen(buckets)));
}

/* The replica's folder, what the client variables name, the output, and /gcs. */
static void add_mounts(struct ty_arena *a, const struct exec_job *job, const char *folder,
                       size_t rank, struct container *c)
{
    ty_str output = output_folder(job->spec);
    const char *clients = ty_format(a, "%s/client", job->data_dir);
    c->mounts = ty_new_array(a, struct container_mount, PLAN_MOUNTS);
    c->mounts[c->mount_count++] = (struct container_mount){.from = folder, .to = folder};
    if (client_env_names(job, clients))
        c->mounts[c->mount_count++] =
            (struct container_mount){.from = clients, .to = clients, .read_only = true};
    if (output.len > 0 && !output_is_bucket(output))
        mounts_add(c->mounts, &c->mount_count, ty_cstr(a, output), ty_cstr(a, output));
    add_gcs(a, job, rank, c->mounts, &c->mount_count);
}

static struct container *build_container(struct ty_arena *a, const struct ty_config *config,
                                         const struct exec_job *job, const json_t *spec,
                                         const struct exec_replica *r, size_t rank)
{
    struct container *c = ty_new(a, struct container);
    const char *devices = r->share.devices;
    *c = (struct container){
        .image =
            container_image_replace(a, config->image_replace, wire_json_get_str(spec, "imageUri")),
        .command = build_strings(a, json_object_get(spec, "command")),
        .args = build_strings(a, json_object_get(spec, "args")),
        .cpu_milli = r->share.cpu_milli,
        .memory_bytes = r->share.memory_bytes,
        .gpus = devices && devices[0] != '\0' && devices[0] != '-',
        .data_dir = job->data_dir,
        .job_id = job->id,
        .attempt = job->attempt,
        .pool = r->pool,
        .index = r->index,
    };
    add_mounts(a, job,
               ty_format(a, "%s/%d-%d", exec_attempt_path(a, job->data_dir, job->id, job->attempt),
                         r->pool, r->index),
               rank, c);
    return c;
}

/* Pools, indexes, ports and command lines. */
static ty_err place_replicas(struct ty_arena *a, const struct ty_config *config,
                             const struct exec_job *job, struct exec_plan *plan)
{
    const json_t *pools = pools_of(job->spec);
    if (json_array_size(pools) > PLAN_POOLS)
        return ty_fail(TY_INVALID_ARGUMENT, "workerPoolSpecs: at most %d pools", PLAN_POOLS);
    int count = exec_replica_count(job->spec);
    if (count > PLAN_REPLICAS)
        return ty_fail(TY_INVALID_ARGUMENT, "workerPoolSpecs: at most %d replicas in all",
                       PLAN_REPLICAS);
    if (count == 0 || exec_pool_replicas(json_array_get(pools, 0)) != 1)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "workerPoolSpecs[0].replicaCount: the first pool must have one replica");
    plan->replicas = ty_new_array(a, struct exec_replica, (size_t)count);
    for (int pool = 0; pool < (int)json_array_size(pools); pool++) {
        const json_t *pool_spec = json_array_get(pools, (size_t)pool);
        const json_t *package = json_object_get(pool_spec, "pythonPackageSpec");
        const json_t *container = pool_container(pool_spec);
        int64_t replicas = exec_pool_replicas(pool_spec);
        char **argv = NULL;
        ty_err err = TY_OK;
        if (replicas && package)
            err = build_python_argv(a, job, package, pool, &argv);
        else if (replicas && container)
            argv = image_argv(a, container);
        else if (replicas)
            err = build_argv(a, json_object_get(pool_spec, "containerSpec"), pool, &argv);
        if (err)
            return err;
        for (int index = 0; index < replicas; index++) {
            size_t i = plan->replica_count++;
            plan->replicas[i] = (struct exec_replica){
                .pool = pool, .index = index, .port = job->ports[i], .argv = argv};
            if (job->shares)
                plan->replicas[i].share = job->shares[i];
            if (container && !package) {
                plan->replicas[i].engine = true;
                plan->replicas[i].container =
                    build_container(a, config, job, container, &plan->replicas[i], i);
            } else {
                plan->replicas[i].mounts = ty_new_array(a, struct container_mount, PLAN_MOUNTS);
                add_gcs(a, job, i, plan->replicas[i].mounts, &plan->replicas[i].mount_count);
            }
        }
    }
    return TY_OK;
}

/* `inside` is what the container's program gets; ours before the image's PYTHONPATH, unless the
 * user has one. */
static void env_contain(struct exec_replica *r, const struct env *base, struct env *inside,
                        char *python_path)
{
    struct container *c = r->container;
    struct env outside = env_copy(base);
    char *users = env_take(inside, "PYTHONPATH");
    if (users)
        env_put(inside, ty_format(inside->a, "PYTHONPATH=%s", users));
    c->python_path = users ? NULL : python_path;
    env_put(inside, ty_format(inside->a, "TRAINYARD_FOLDER=%s", c->mounts[0].to));
    c->env = inside->list;
    env_put(&outside, ty_format(outside.a, "TRAINYARD_REPLICA=%d-%d", r->pool, r->index));
    r->env = outside.list;
}

static ty_err build_env(struct ty_arena *a, const struct exec_job *job, struct exec_plan *plan)
{
    struct env base = env_base(a, job, true), bare = {.a = a};
    char *python_path = NULL;
    for (size_t i = 0; i < plan->replica_count && bare.count == 0; i++)
        if (plan->replicas[i].container) {
            bare = env_base(a, job, false);
            python_path = env_take(&bare, "PYTHONPATH");
        }
    bool ml = job->ml_id.len > 0;
    const char *chief = ml ? exec_ml_chief(job->ml_input) : exec_task_type(0);
    char *cluster = cluster_text(a, plan, NULL), *tf_cluster = cluster_text(a, plan, chief);
    char *spec = job_text(a, job->spec), *tf_spec = ml ? job_text(a, job->ml_input) : spec;
    if (!cluster || !tf_cluster)
        return ty_fail(
            TY_INVALID_ARGUMENT,
            "workerPoolSpecs: the addresses of %zu replicas do not fit into CLUSTER_SPEC",
            plan->replica_count);
    for (size_t i = 0; i < plan->replica_count; i++) {
        struct exec_replica *r = &plan->replicas[i];
        struct env e = env_copy(r->container ? &bare : &base);
        char *type = ty_format(a, "workerpool%d", r->pool);
        env_put(&e, ty_format(a, "TRAINYARD_REPLICA=%d-%d", r->pool, r->index));
        env_put(&e, cluster_variable(a, "CLUSTER_SPEC", cluster, type, r->index, spec));
        if (plan->replica_count > 1 || ml)
            env_put(&e, cluster_variable(a, "TF_CONFIG", tf_cluster,
                                         r->pool == 0 ? chief : exec_task_type(r->pool), r->index,
                                         tf_spec));
        env_put(&e, ty_format(a, "RANK=%zu", i));
        if (job->tokens)
            env_add_token(&e, job->tokens[i]);
        if (r->share.devices) { /* numbers as the driver has them, not as CUDA would sort them */
            env_put(&e, ty_format(a, "CUDA_DEVICE_ORDER=PCI_BUS_ID"));
            env_put(&e, ty_format(a, "CUDA_VISIBLE_DEVICES=%s", r->share.devices));
        }
        const json_t *pool = json_array_get(pools_of(job->spec), (size_t)r->pool);
        if (json_object_get(pool, "pythonPackageSpec"))
            env_add_python(&e, python_folder(a, job, r->pool));
        env_add_preload(&e, job);
        ty_err err = env_add_user(&e, pool, r->pool);
        if (err)
            return err;
        env_add_wandb(&e);
        for (size_t n = 0; n < e.count; n++)
            if (strlen(e.list[n]) > PLAN_STRING_BYTES)
                return ty_fail(TY_INVALID_ARGUMENT,
                               "the variable '%.64s…' of workerpool%d-%d is longer than %d bytes",
                               e.list[n], r->pool, r->index, PLAN_STRING_BYTES);
        r->env = e.list;
        if (r->container)
            env_contain(r, &base, &e, python_path);
    }
    return TY_OK;
}

/* ---- the preparation ---- */

struct words {
    struct ty_arena *a;
    char **list;
    size_t count;
};

static void words_add(struct words *w, const char *name, ty_str value)
{
    w->list[w->count++] = ty_format(w->a, "--%s=" TY_STR_FMT, name, TY_STR_ARG(value));
}

static void words_add_pool(struct words *w, const json_t *package, int pool)
{
    const json_t *uris = json_object_get(package, "packageUris");
    const json_t *env = json_object_get(package, "env");
    words_add(w, "pool", ty_str_of(ty_format(w->a, "%d", pool)));
    words_add(w, "image", wire_json_get_str(package, "executorImageUri"));
    words_add(w, "module", wire_json_get_str(package, "pythonModule"));
    for (size_t i = 0; i < json_array_size(env); i++)
        if (ty_str_is(wire_json_get_str(json_array_get(env, i), "name"), "PYTHONPATH"))
            words_add(w, "python-path", wire_json_get_str(json_array_get(env, i), "value"));
    for (size_t i = 0; i < json_array_size(uris); i++)
        words_add(w, "package", ty_str_of(json_string_value(json_array_get(uris, i))));
}

static void words_add_container(struct words *w, const struct ty_config *config,
                                const json_t *container, int pool)
{
    ty_str image = wire_json_get_str(container, "imageUri");
    words_add(w, "container", ty_str_of(ty_format(w->a, "%d", pool)));
    words_add(w, "asked", image);
    words_add(w, "used", ty_str_of(container_image_replace(w->a, config->image_replace, image)));
}

/* `trainyard prepare` for the pools with Python packages and containers; none: no preparation. */
static void build_prepare(struct ty_arena *a, const struct ty_config *config,
                          const struct exec_job *job, struct exec_plan *plan)
{
    const json_t *pools = pools_of(job->spec);
    size_t most = 16, packages = 0, containers = 0;
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *package = json_object_get(json_array_get(pools, i), "pythonPackageSpec");
        packages += package != NULL;
        containers += pool_container(json_array_get(pools, i)) != NULL;
        most += 6 + json_array_size(json_object_get(package, "packageUris")) +
                json_array_size(json_object_get(package, "env"));
    }
    if (packages == 0 && containers == 0)
        return;
    struct words w = {.a = a, .list = ty_new_array(a, char *, most)};
    w.list[w.count++] = ty_cstr(a, TY_STR("/proc/self/exe"));
    w.list[w.count++] = ty_cstr(a, TY_STR("prepare"));
    words_add(&w, "data", ty_str_of(job->data_dir));
    words_add(&w, "into", ty_str_of(exec_attempt_path(a, job->data_dir, job->id, job->attempt)));
    words_add(&w, "python", ty_str_of(config->python));
    words_add(&w, "wheels", ty_str_of(config->wheel_folder));
    words_add(&w, "offline", ty_str_of(config->runtimes_offline ? "1" : "0"));
    if (containers)
        words_add(&w, "engine", ty_str_of(config->container_engine));
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        const json_t *package = json_object_get(pool, "pythonPackageSpec");
        if (package && exec_pool_replicas(pool) > 0)
            words_add_pool(&w, package, (int)i);
        else if (pool_container(pool) && exec_pool_replicas(pool) > 0)
            words_add_container(&w, config, pool_container(pool), (int)i);
    }
    struct env e = env_base(a, job, true);
    env_put(&e, ty_format(a, "TRAINYARD_REPLICA=-1--1"));
    plan->prepare = ty_new(a, struct exec_replica);
    *plan->prepare = (struct exec_replica){
        .pool = -1, .index = -1, .argv = w.list, .env = e.list, .engine = containers > 0};
}

/* The setting is a ceiling for the shares; one that is not given is all of it. */
static void limit_memory(struct exec_plan *plan, int64_t most_bytes)
{
    for (size_t i = 0; i < plan->replica_count; i++) {
        int64_t *share = &plan->replicas[i].share.memory_bytes;
        if (*share == 0 || *share > most_bytes)
            *share = most_bytes;
    }
}

ty_err exec_plan_build(struct ty_arena *a, const struct ty_config *config,
                       const struct exec_job *job, struct exec_plan *ret_plan)
{
    const json_t *scheduling = json_object_get(job->spec, "scheduling");
    struct exec_plan plan = {
        .job_id = job->id,
        .attempt = job->attempt,
        .timeout_ms = job->timeout_ms,
        .grace_ms = config->grace_ms,
        .log_limit_bytes = config->log_limit_bytes,
        .log_line_bytes = config->log_line_bytes,
        .log_floor_ns = job->log_floor_ns,
        .note = job->note,
        .ml = job->ml_id.len > 0,
        .disable_retries = json_is_true(json_object_get(scheduling, "disableRetries")),
        .restart_job_on_worker_restart =
            json_is_true(json_object_get(scheduling, "restartJobOnWorkerRestart")),
        .cgroups = strcmp(config->cgroups, "off") != 0,
        .replica_processes = config->replica_processes,
    };
    ty_err err = place_replicas(a, config, job, &plan);
    if (err == TY_OK && config->replica_memory_bytes > 0)
        limit_memory(&plan, config->replica_memory_bytes);
    if (err == TY_OK)
        err = build_env(a, job, &plan);
    if (err)
        return err;
    build_prepare(a, config, job, &plan);
    *ret_plan = plan;
    return TY_OK;
}
