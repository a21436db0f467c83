/* translate.c -- a trainingInput as the CustomJob it runs as.
 *
 * What only this API knows (tiers, roles, runtime versions) is checked here; all other rules are
 * Vertex's and checked on the result, whose violations are then given the names that the user
 * wrote: jobSpec.workerPoolSpecs[1].machineSpec.machineType is trainingInput.workerType. */
#include "ml/ml_int.h"

#include "python/python.h"

enum { ID_CHARS = 128 };

const char *const ml_roles[ML_ROLES] = {"master", "worker", "parameterServer", "evaluator"};

/* One kind of replica, as the request or its tier says. */
struct role {
    const char *type; /* NULL: none was given */
    int64_t count;
    const char *accelerator; /* NULL: none */
    int64_t accelerators;
    const json_t *config; /* its masterConfig, workerConfig, ...; may be NULL */
};
struct input {
    const struct vertex *vertex;
    const json_t *in; /* the trainingInput */
    struct wire_violations *v;
    bool custom; /* scaleTier CUSTOM */
    struct role roles[ML_ROLES];
    bool package;      /* a Python package, with `image` as its runtime; else containers */
    const char *image; /* of the master */
};

static const char *field(const struct input *x, int role, const char *rest)
{
    return ty_format(x->v->arena, "trainingInput.%s%s", ml_roles[role], rest);
}

static const json_t *member(const struct input *x, int role, const char *rest)
{
    return json_object_get(x->in, ty_format(x->v->arena, "%s%s", ml_roles[role], rest));
}

/* An int64 of the canonical form; absent is 0. */
static int64_t number_of(const json_t *value)
{
    int64_t n = 0;
    if (json_is_string(value))
        ty_assert(ty_parse_i64(ty_str_of(json_string_value(value)), &n) == TY_OK);
    return n;
}

/* ---- the id ---- */

void ml_id_check(ty_str id, struct wire_violations *v)
{
    bool ok = id.len > 0 && id.len <= ID_CHARS;
    for (size_t i = 0; i < id.len && ok; i++) {
        char c = id.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        ok = letter || (i > 0 && (c == '_' || (c >= '0' && c <= '9')));
    }
    if (!ok)
        wire_violation_add(
            v, "jobId", "must be 1 to %d letters, digits and _, beginning with a letter", ID_CHARS);
    else if (job_ml_id_is_made(id))
        wire_violation_add(v, "jobId",
                           "customjob_ and a number is what custom jobs are called here; choose "
                           "another");
}

/* ---- tiers and roles ---- */

struct tier {
    const char *name, *master;
    int64_t accelerators;
    const char *accelerator;
    int64_t workers;
    const char *worker;
    int64_t servers;
    const char *server;
};
static const struct tier tiers[] = {
#define TIER(...) {__VA_ARGS__},
#include "ml/tiers.def"
#undef TIER
};

static void tier_apply(struct input *x, const struct tier *t)
{
    x->roles[0].type = t->master;
    x->roles[0].count = 1;
    x->roles[0].accelerator = t->accelerator;
    x->roles[0].accelerators = t->accelerators;
    x->roles[1].type = t->worker;
    x->roles[1].count = t->workers;
    x->roles[2].type = t->server;
    x->roles[2].count = t->servers;
    for (int r = 0; r < ML_ROLES; r++) {
        bool sized = member(x, r, "Type") != NULL || number_of(member(x, r, "Count")) > 0;
        const char *name = member(x, r, "Type") != NULL ? "Type" : "Count";
        if (sized)
            wire_violation_add(x->v, field(x, r, name),
                               "is for scaleTier CUSTOM; %s has its own machines", t->name);
        if (json_object_get(x->roles[r].config, "acceleratorConfig") != NULL)
            wire_violation_add(x->v, field(x, r, "Config.acceleratorConfig"),
                               "is for scaleTier CUSTOM; %s has its own machines", t->name);
    }
}

static void accelerator_read(struct input *x, int r)
{
    const json_t *config = json_object_get(x->roles[r].config, "acceleratorConfig");
    ty_str type = wire_json_get_str(config, "type");
    int64_t count = number_of(json_object_get(config, "count"));
    bool named = type.len > 0 && !ty_str_is(type, "ACCELERATOR_TYPE_UNSPECIFIED");
    if (named && count == 0)
        wire_violation_add(x->v, field(x, r, "Config.acceleratorConfig.count"),
                           "is required with a type: 1 or more");
    else if (!named && count > 0)
        wire_violation_add(x->v, field(x, r, "Config.acceleratorConfig.type"),
                           "is required with a count, such as NVIDIA_TESLA_T4");
    else if (named) {
        x->roles[r].accelerator = ty_cstr(x->v->arena, type);
        x->roles[r].accelerators = count;
    }
}

static void custom_read(struct input *x)
{
    for (int r = 0; r < ML_ROLES; r++) {
        struct role *role = &x->roles[r];
        const json_t *type = member(x, r, "Type");
        role->type = json_string_length(type) > 0 ? json_string_value(type) : NULL;
        role->count = r == 0 ? 1 : number_of(member(x, r, "Count"));
        accelerator_read(x, r);
        if (role->count > 0 && role->type == NULL)
            wire_violation_add(x->v, field(x, r, "Type"), "is required with %s%s",
                               r == 0 ? "scaleTier CUSTOM" : ml_roles[r], r == 0 ? "" : "Count");
    }
    /* A worker of this type was never a replica: it is the TPU that the master talks to. */
    struct role *master = &x->roles[0], *worker = &x->roles[1];
    if (worker->type != NULL && strcmp(worker->type, "cloud_tpu") == 0) {
        if (master->accelerator == NULL) {
            master->accelerator = worker->accelerator ? worker->accelerator : "TPU_V2";
            master->accelerators = worker->accelerators ? worker->accelerators : 8;
        }
        *worker = (struct role){.config = worker->config};
    }
}

static void roles_read(struct input *x)
{
    ty_str tier = wire_json_get_str(x->in, "scaleTier");
    for (int r = 0; r < ML_ROLES; r++)
        x->roles[r].config = member(x, r, "Config");
    x->custom = ty_str_is(tier, "CUSTOM");
    if (x->custom) {
        custom_read(x);
        return;
    }
    for (size_t i = 0; i < TY_COUNT(tiers); i++)
        if (ty_str_is(tier, tiers[i].name) || (tier.len == 0 && i == 0))
            tier_apply(x, &tiers[i]);
}

/* ---- what to run ---- */

static void require(const struct input *x, const char *name, const char *why)
{
    const json_t *value = json_object_get(x->in, name);
    if (json_string_length(value) == 0 && json_array_size(value) == 0)
        wire_violation_add(x->v, ty_format(x->v->arena, "trainingInput.%s", name), "%s", why);
}

/* A job without an image: packages, on the runtime of a version. */
static void runtime_read(struct input *x)
{
    ty_str version = wire_json_get_str(x->in, "runtimeVersion");
    const char *why = "is required, unless masterConfig.imageUri names an image";
    x->package = true;
    require(x, "runtimeVersion", why);
    require(x, "packageUris", why);
    require(x, "pythonModule", why);
    if (version.len > 0 &&
        python_legacy_image(x->v->arena, version, x->roles[0].accelerators > 0, &x->image) != TY_OK)
        wire_violation_add(x->v, "trainingInput.runtimeVersion", "%s", ty_err_message());
    for (int r = 1; r < ML_ROLES; r++)
        if (wire_json_get_str(x->roles[r].config, "imageUri").len > 0)
            wire_violation_add(x->v, field(x, r, "Config.imageUri"),
                               "needs masterConfig.imageUri: a job has images or a runtimeVersion");
}

static void image_read(struct input *x, ty_str image)
{
    x->image = ty_cstr(x->v->arena, image);
    x->package = json_array_size(json_object_get(x->in, "packageUris")) > 0;
    if (json_object_get(x->in, "runtimeVersion") != NULL)
        wire_violation_add(x->v, "trainingInput.runtimeVersion",
                           "is for jobs without an image: leave it or masterConfig.imageUri out");
    if (x->package && python_image_check(image) != TY_OK)
        wire_violation_add(x->v, "trainingInput.packageUris",
                           "an image brings its own program; packages are installed only where "
                           "masterConfig.imageUri is a runtime, such as tf-cpu.2-15");
    if (x->package)
        require(x, "pythonModule", "is required with packageUris");
    for (int r = 0; r < ML_ROLES; r++)
        if (json_object_get(x->roles[r].config, "containerArgs") != NULL &&
            json_array_size(json_object_get(x->in, "args")) > 0)
            wire_violation_add(x->v, field(x, r, "Config.containerArgs"),
                               "not together with args: give one of the two");
}

static void task_read(struct input *x)
{
    ty_str image = wire_json_get_str(x->roles[0].config, "imageUri");
    ty_str python = wire_json_get_str(x->in, "pythonVersion");
    if (image.len > 0)
        image_read(x, image);
    else
        runtime_read(x);
    if (python.len > 0 && !ty_str_starts(python, TY_STR("3.")))
        wire_violation_add(x->v, "trainingInput.pythonVersion",
                           "must be 3 and a minor version, such as 3.7: programs run on this "
                           "machine's Python 3");
}

static void place_read(struct input *x)
{
    ty_str dir = wire_json_get_str(x->in, "jobDir"), region = wire_json_get_str(x->in, "region");
    if (!vertex_location_is_valid(region))
        wire_violation_add(x->v, "trainingInput.region",
                           "must be a region, such as us-central1: lower-case letters, digits "
                           "and -");
    if (ty_str_starts(dir, TY_STR("gs://")))
        vertex_output_check(x->vertex, dir, "trainingInput.jobDir", x->v);
    else if (dir.len > 0 && dir.ptr[0] != '/')
        wire_violation_add(x->v, "trainingInput.jobDir",
                           "must be gs://BUCKET/FOLDER or an absolute path");
}

/* ---- the CustomJob ---- */

/* The program's arguments, and --job-dir behind them. A new reference. */
static json_t *args_new(const struct input *x, const json_t *args)
{
    json_t *all = args != NULL ? json_copy((json_t *)args) : json_array();
    const json_t *dir = json_object_get(x->in, "jobDir");
    if (json_string_length(dir) > 0) {
        json_array_append_new(all, json_string("--job-dir"));
        json_array_append(all, (json_t *)dir);
    }
    return all;
}

static json_t *machine_new(const struct role *r)
{
    json_t *machine = json_pack("{s:s}", "machineType", r->type);
    if (r->accelerator != NULL) {
        json_object_set_new(machine, "acceleratorType", json_string(r->accelerator));
        json_object_set_new(machine, "acceleratorCount", json_integer(r->accelerators));
    }
    return machine;
}

static json_t *package_new(const struct input *x)
{
    return json_pack("{s:s, s:O, s:O, s:o}", "executorImageUri", x->image, "packageUris",
                     json_object_get(x->in, "packageUris"), "pythonModule",
                     json_object_get(x->in, "pythonModule"), "args",
                     args_new(x, json_object_get(x->in, "args")));
}

/* A replica without an image of its own has all of the master's. */
static json_t *container_new(const struct input *x, int r)
{
    ty_str own = wire_json_get_str(x->roles[r].config, "imageUri");
    const json_t *config = x->roles[own.len > 0 ? r : 0].config;
    const json_t *args = json_object_get(config, "containerArgs");
    const json_t *command = json_object_get(config, "containerCommand");
    json_t *container = json_pack("{s:O}", "imageUri", json_object_get(config, "imageUri"));
    if (json_array_size(command) > 0)
        json_object_set(container, "command", (json_t *)command);
    args = args != NULL ? args : json_object_get(x->in, "args");
    json_object_set_new(container, "args", args_new(x, args));
    return container;
}

static json_t *pool_new(const struct input *x, int r)
{
    const struct role *role = &x->roles[r];
    const json_t *disk = json_object_get(role->config, "diskConfig");
    json_t *pool = json_pack("{s:o, s:o}", "machineSpec", machine_new(role), "replicaCount",
                             json_sprintf("%" PRId64, role->count));
    if (json_object_size(disk) > 0)
        json_object_set(pool, "diskSpec", (json_t *)disk);
    if (x->package)
        json_object_set_new(pool, "pythonPackageSpec", package_new(x));
    else
        json_object_set_new(pool, "containerSpec", container_new(x, r));
    return pool;
}

/* Fields that have the same meaning, and both forms. */
static void copy_fields(json_t *to, const json_t *from, const char *const (*names)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_object_get(from, names[i][0]);
        if (value != NULL)
            json_object_set(to, names[i][1], value);
    }
}

static json_t *spec_new(const struct input *x)
{
    static const char *const times[][2] = {{"maxRunningTime", "timeout"},
                                           {"strategy", "strategy"},
                                           {"maxWaitTime", "maxWaitDuration"}};
    static const char *const others[][2] = {{"serviceAccount", "serviceAccount"},
                                            {"network", "network"},
                                            {"enableWebAccess", "enableWebAccess"}};
    json_t *pools = json_array(), *spec = json_object(), *scheduling = json_object();
    int last = ML_ROLES - 1;
    while (last > 0 && x->roles[last].count == 0)
        last--;
    for (int r = 0; r <= last; r++)
        json_array_append_new(pools, x->roles[r].count > 0 ? pool_new(x, r) : json_object());
    json_object_set_new(spec, "workerPoolSpecs", pools);
    copy_fields(scheduling, json_object_get(x->in, "scheduling"), times, TY_COUNT(times));
    if (json_object_size(scheduling) > 0)
        json_object_set(spec, "scheduling", scheduling);
    json_decref(scheduling);
    copy_fields(spec, x->in, others, TY_COUNT(others));
    return spec;
}

static json_t *custom_job_new(const struct input *x, const json_t *job)
{
    json_t *labels = json_object_get(job, "labels");
    const json_t *key = json_object_get(json_object_get(x->in, "encryptionConfig"), "kmsKeyName");
    json_t *made = json_pack("{s:O, s:o}", "displayName", json_object_get(job, "jobId"), "jobSpec",
                             spec_new(x));
    if (labels != NULL)
        json_object_set(made, "labels", labels);
    if (json_string_length(key) > 0)
        json_object_set_new(made, "encryptionSpec", json_pack("{s:O}", "kmsKeyName", key));
    return made;
}

/* ---- violations of the CustomJob, in this API's names ---- */

/* What a pool's field is called after its role; `whole`: for all roles, after trainingInput. */
static const struct {
    const char *ours, *theirs;
    bool whole, by_tier;
} names[] = {
    {"machineSpec.machineType", "Type", false, true},
    {"machineSpec.acceleratorType", "Config.acceleratorConfig.type", false, true},
    {"machineSpec.acceleratorCount", "Config.acceleratorConfig.count", false, true},
    {"replicaCount", "Count", false, true},
    {"containerSpec.imageUri", "Config.imageUri", false, false},
    {"containerSpec.command", "Config.containerCommand", false, false},
    {"containerSpec.args", "args", true, false},
    {"pythonPackageSpec.executorImageUri", "runtimeVersion", true, false},
    {"pythonPackageSpec.packageUris", "packageUris", true, false},
    {"pythonPackageSpec.pythonModule", "pythonModule", true, false},
    {"pythonPackageSpec.args", "args", true, false},
};
static const struct {
    const char *ours, *theirs;
} top_names[] = {
    {"displayName", "jobId"},
    {"jobSpec.scheduling.timeout", "trainingInput.scheduling.maxRunningTime"},
    {"jobSpec.scheduling.maxWaitDuration", "trainingInput.scheduling.maxWaitTime"},
    {"jobSpec", "trainingInput"},
};

/* What was given in place of the field that names[] has: an image for a version, arguments of a
 * container. */
static const char *given_name(const struct input *x, int role, const char *name)
{
    if (strcmp(name, "runtimeVersion") == 0 && json_object_get(x->in, name) == NULL)
        return "masterConfig.imageUri";
    if (strcmp(name, "args") == 0 &&
        json_object_get(x->roles[role].config, "containerArgs") != NULL)
        return ty_format(x->v->arena, "%sConfig.containerArgs", ml_roles[role]);
    return name;
}

/* A field below jobSpec.workerPoolSpecs[N]. */
static const char *pool_field_name(const struct input *x, int r, ty_str rest)
{
    for (size_t i = 0; i < TY_COUNT(names); i++) {
        const char *name = names[i].theirs;
        if (!ty_str_starts(rest, ty_str_of(names[i].ours)))
            continue;
        ty_str more = ty_str_drop(rest, strlen(names[i].ours));
        if (names[i].by_tier && (!x->custom || (r == 0 && strcmp(name, "Count") == 0)))
            return "trainingInput.scaleTier";
        bool own = wire_json_get_str(x->roles[r].config, "imageUri").len > 0;
        int role = names[i].by_tier || own ? r : 0;
        return ty_format(x->v->arena, "trainingInput.%s%s" TY_STR_FMT,
                         names[i].whole ? "" : ml_roles[role],
                         names[i].whole ? given_name(x, role, name) : name, TY_STR_ARG(more));
    }
    return field(x, r, "Config");
}

static const char *field_name(const struct input *x, ty_str name)
{
    static const char pool[] = "jobSpec.workerPoolSpecs[";
    if (ty_str_starts(name, ty_str_of(pool)) && name.len > sizeof pool + 1) {
        int r = name.ptr[sizeof pool - 1] - '0';
        if (r >= 0 && r < ML_ROLES)
            return pool_field_name(x, r, ty_str_drop(name, sizeof pool + 2));
    }
    for (size_t i = 0; i < TY_COUNT(top_names); i++)
        if (ty_str_is(name, top_names[i].ours))
            return top_names[i].theirs;
    return ty_cstr(x->v->arena, name);
}

static bool was_said(const struct wire_violations *v, const char *name, ty_str description)
{
    for (const struct wire_violation *p = v->first; p != NULL; p = p->next)
        if (ty_str_is(p->field, name) && ty_str_eq(p->description, description))
            return true;
    return false;
}

/* All roles run the same package, so what is wrong with it is said once. */
static void rename_violations(const struct input *x, const struct wire_violations *found)
{
    for (const struct wire_violation *p = found->first; p != NULL; p = p->next) {
        const char *name = field_name(x, p->field);
        if (!was_said(x->v, name, p->description))
            wire_violation_add(x->v, name, TY_STR_FMT, TY_STR_ARG(p->description));
    }
}

json_t *ml_translate(const struct vertex *vertex, const json_t *job, struct wire_violations *v)
{
    struct input x = {.vertex = vertex, .in = json_object_get(job, "trainingInput"), .v = v};
    size_t before = v->count;
    ml_id_check(wire_json_get_str(job, "jobId"), v);
    if (x.in == NULL) {
        wire_violation_add(v, "trainingInput", "is required");
        return NULL;
    }
    roles_read(&x);
    task_read(&x);
    place_read(&x);
    if (v->count > before)
        return NULL;
    json_t *custom_job = custom_job_new(&x, job);
    struct wire_violations found;
    wire_violations_init(&found, v->arena);
    vertex_job_validate(vertex, custom_job, &found);
    rename_violations(&x, &found);
    return custom_job;
}
