/* validate.c -- rules of a custom job that message tables cannot say.
 *
 * The job is in canonical form (messages.c): every field has its type and ceiling. What is left are
 * rules over several fields, characters in names, and what this machine cannot do. All violations
 * are collected, so that a user mends a file once. */
#include "container/container.h"
#include "python/python.h"
#include "vertex/vertex_int.h"

enum {
    DISPLAY_NAME_CHARS = 128,
    LABEL_CHARS = 63,
    ARGS_BYTES = 100000,     /* the kernel takes 128 KiB for one argument */
    PACKAGE_BYTES = 1 << 30, /* largest archive */
};

static size_t utf8_chars(ty_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

/* ---- labels ---- */

/* Lower-case letters, digits, _ and -, and letters of other scripts, which we tell from spaces and
 * controls by their block: U+00A1 and above without general punctuation and the ideographic space.
 */
static bool label_is_valid(ty_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c < 0x80) {
            if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
                return false;
        } else if (c == 0xc2 && (unsigned char)s.ptr[i + 1] <= 0xa0) {
            return false; /* U+0080 to U+00A0 */
        } else if (c == 0xe2 && (unsigned char)s.ptr[i + 1] <= 0x81) {
            return false; /* U+2000 to U+207F */
        } else if (c == 0xe3 && s.ptr[i + 1] == '\x80' && s.ptr[i + 2] == '\x80') {
            return false; /* U+3000 */
        }
    }
    return utf8_chars(s) <= LABEL_CHARS;
}

void vertex_labels_check(const json_t *labels, struct wire_violations *v)
{
    static const char rule[] = "lower-case letters, digits, _ and -";
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)labels, key, value) {
        ty_str name = ty_str_of(key);
        ty_str text = {json_string_value(value), json_string_length(value)};
        const char *field = ty_format(v->arena, "labels.%.64s", key);
        if (name.len == 0 || !label_is_valid(name))
            wire_violation_add(v, field, "a label's key is 1 to %d %s", LABEL_CHARS, rule);
        else if (!label_is_valid(text))
            wire_violation_add(v, field, "a label's value is at most %d %s", LABEL_CHARS, rule);
    }
}

/* ---- worker pools ---- */

static bool env_name_is_valid(ty_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return s.len > 0;
}

static void env_check(const json_t *env, const char *path, struct wire_violations *v)
{
    for (size_t i = 0; i < json_array_size(env); i++) {
        ty_str name = wire_json_get_str(json_array_get(env, i), "name");
        const char *field = ty_format(v->arena, "%s[%zu].name", path, i);
        if (!env_name_is_valid(name))
            wire_violation_add(v, field,
                               "must be letters, digits and _, not starting with a digit");
        for (size_t j = 0; j < i; j++) {
            if (ty_str_eq(name, wire_json_get_str(json_array_get(env, j), "name")))
                wire_violation_add(v, field, "'%s' is set in entry %zu already", name.ptr, j);
        }
    }
}

/* The bytes of all strings of an array. */
static size_t strings_bytes(const json_t *strings)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(strings); i++)
        n += json_string_length(json_array_get(strings, i));
    return n;
}

/* An image other than `host` takes a container engine. */
static void image_check(const struct vertex *vertex, ty_str image, const char *field,
                        struct wire_violations *v)
{
    struct container_engine engine;
    if (!container_image_is_valid(image))
        wire_violation_add(v, field,
                           "must be the name of an image, such as gcr.io/project/trainer:1, or "
                           "'host' to run the command directly on this machine");
    else if (container_rules_check(vertex->config->image_replace) != TY_OK)
        wire_violation_add(v, field, "%s", ty_err_message());
    else if (container_engine_find(v->arena, vertex->config->container_engine, vertex->data_dir,
                                   &engine) != TY_OK)
        wire_violation_add(v, field,
                           "%s. %s; or use image 'host', which runs the command directly on this "
                           "machine",
                           ty_err_message(),
                           container_engine_advice(v->arena, vertex->config->container_engine));
}

/* What `host` needs and an image need not have: something to run. */
static void command_check(const json_t *command, const json_t *args, bool host, const char *path,
                          struct wire_violations *v)
{
    bool none = json_array_size(command) == 0 && json_array_size(args) == 0;
    if (none && host)
        wire_violation_add(v, ty_format(v->arena, "%s.command", path),
                           "is required: image 'host' has no entry point of its own");
    if (none || (!host && json_array_size(command) == 0))
        return;
    if (json_string_length(json_array_get(json_array_size(command) ? command : args, 0)) == 0)
        wire_violation_add(
            v, ty_format(v->arena, "%s.%s[0]", path, json_array_size(command) ? "command" : "args"),
            "names the program to run and must not be empty");
}

static void container_check(const struct vertex *vertex, const json_t *spec, const char *path,
                            struct wire_violations *v)
{
    ty_str image = wire_json_get_str(spec, "imageUri");
    const json_t *command = json_object_get(spec, "command"), *args = json_object_get(spec, "args");
    bool host = ty_str_is(image, "host");
    if (!host)
        image_check(vertex, image, ty_format(v->arena, "%s.imageUri", path), v);
    command_check(command, args, host, path, v);
    if (strings_bytes(command) > ARGS_BYTES)
        wire_violation_add(v, ty_format(v->arena, "%s.command", path),
                           "has more than %d bytes in all", ARGS_BYTES);
    if (strings_bytes(args) > ARGS_BYTES)
        wire_violation_add(v, ty_format(v->arena, "%s.args", path), "has more than %d bytes in all",
                           ARGS_BYTES);
    env_check(json_object_get(spec, "env"), ty_format(v->arena, "%s.env", path), v);
}

/* ---- Python packages ---- */

static void package_check(const struct vertex *vertex, const json_t *uri, const char *field,
                          struct wire_violations *v)
{
    ty_str text = {json_string_value(uri), json_string_length(uri)};
    const char *path = python_package_path(v->arena, text);
    bool object = ty_str_starts(text, TY_STR("gs://"));
    struct stat st;
    if (object)
        path = vertex_object_check(vertex, text, field, v);
    if (object && path == NULL)
        return; /* it was said */
    if (path == NULL || strlen(path) >= PATH_MAX)
        wire_violation_add(v, field,
                           "must be gs://BUCKET/NAME, an absolute path, or file:// and an absolute "
                           "path");
    else if (stat(path, &st) != 0 || access(path, R_OK) != 0)
        wire_violation_add(v, field, "cannot read '%s': %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        wire_violation_add(v, field,
                           "'%s' is no file: build an archive of it first, such as with "
                           "'python3 setup.py sdist'",
                           path);
    else if (st.st_size > PACKAGE_BYTES)
        wire_violation_add(v, field, "'%s' has %lld bytes; at most %d are allowed", path,
                           (long long)st.st_size, PACKAGE_BYTES);
}

/* With runtimes_offline, only what is there can be used, or made of the wheels that are there. */
static void runtime_check(const struct ty_config *config, const char *data_dir, ty_str image,
                          const char *field, struct wire_violations *v)
{
    struct python_host host;
    struct python_runtime runtime;
    if (python_image_check(image) != TY_OK) {
        wire_violation_add(v, field, "%s", ty_err_message());
        return;
    }
    if (!python_is_there(config->python)) {
        wire_violation_add(v, field,
                           "there is no '%s' on this machine to run Python packages with (setting "
                           "'python'); on Debian: apt install python3-venv",
                           config->python);
        return;
    }
    if (!config->runtimes_offline || ty_str_is(image, "host"))
        return;
    if (python_host_read(v->arena, config->python, &host) != TY_OK ||
        python_runtime_find(v->arena, image, &host, &runtime) != TY_OK)
        wire_violation_add(v, field, "%s", ty_err_message());
    else if (!python_runtime_is_ready(data_dir, &runtime) &&
             !python_runtime_has_wheels(config->wheel_folder, &runtime))
        wire_violation_add(
            v, field,
            "the runtime (%s) is not on this machine, the setting wheel_folder "
            "('%s') names no folder with a wheel of it, and runtimes_offline forbids "
            "to fetch it; 'trainyard runtimes add %s --wheels=FOLDER' makes it from "
            "a folder of wheels",
            runtime.what, config->wheel_folder, runtime.image);
}

static void python_check(const struct vertex *vertex, const json_t *spec, const char *path,
                         struct wire_violations *v)
{
    const json_t *uris = json_object_get(spec, "packageUris"),
                 *args = json_object_get(spec, "args");
    ty_str module = wire_json_get_str(spec, "pythonModule");
    runtime_check(vertex->config, vertex->data_dir, wire_json_get_str(spec, "executorImageUri"),
                  ty_format(v->arena, "%s.executorImageUri", path), v);
    for (size_t i = 0; i < json_array_size(uris); i++)
        package_check(vertex, json_array_get(uris, i),
                      ty_format(v->arena, "%s.packageUris[%zu]", path, i), v);
    if (!python_module_is_valid(module))
        wire_violation_add(v, ty_format(v->arena, "%s.pythonModule", path),
                           "must be the dotted name of a module, such as trainer.task");
    if (strings_bytes(uris) > ARGS_BYTES)
        wire_violation_add(v, ty_format(v->arena, "%s.packageUris", path),
                           "has more than %d bytes in all", ARGS_BYTES);
    if (strings_bytes(args) > ARGS_BYTES)
        wire_violation_add(v, ty_format(v->arena, "%s.args", path), "has more than %d bytes in all",
                           ARGS_BYTES);
    env_check(json_object_get(spec, "env"), ty_format(v->arena, "%s.env", path), v);
}

/* ---- pools ---- */

static int64_t replica_count(const json_t *pool)
{
    int64_t n = 0;
    ty_str text = wire_json_get_str(pool, "replicaCount");
    if (text.len > 0)
        ty_assert(ty_parse_i64(text, &n) == TY_OK);
    return n;
}

/* A pool that stands for its index only: {} as gcloud sends it, or no replicas and no task. */
static bool pool_is_empty(const json_t *pool)
{
    return json_object_size(pool) == 0 ||
           (json_object_get(pool, "replicaCount") != NULL && replica_count(pool) == 0 &&
            json_object_get(pool, "containerSpec") == NULL &&
            json_object_get(pool, "pythonPackageSpec") == NULL);
}

static void pool_check(const struct vertex *vertex, const json_t *pool, size_t index,
                       const char *path, struct wire_violations *v)
{
    int64_t count = replica_count(pool);
    const json_t *container = json_object_get(pool, "containerSpec");
    const json_t *package = json_object_get(pool, "pythonPackageSpec");
    if (index == 0 && count != 1)
        wire_violation_add(v, ty_format(v->arena, "%s.replicaCount", path),
                           "the first pool is the chief and has exactly 1 replica, not %" PRId64,
                           count);
    else if (count < 1)
        wire_violation_add(v, ty_format(v->arena, "%s.replicaCount", path),
                           "must be 1 or more; leave the pool out, or empty ({}), to have none");
    if (package != NULL)
        python_check(vertex, package, ty_format(v->arena, "%s.pythonPackageSpec", path), v);
    else if (container == NULL)
        wire_violation_add(v, ty_format(v->arena, "%s.containerSpec", path),
                           "is required: a pool has exactly one of containerSpec and "
                           "pythonPackageSpec");
    else
        container_check(vertex, container, ty_format(v->arena, "%s.containerSpec", path), v);
}

static void pools_check(const struct vertex *vertex, const json_t *pools, struct wire_violations *v)
{
    const struct ty_config *config = vertex->config;
    int64_t left = config->replica_slots;
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        const char *path = ty_format(v->arena, "jobSpec.workerPoolSpecs[%zu]", i);
        if (pool_is_empty(pool)) {
            if (i == 0)
                wire_violation_add(v, path, "the first pool is the chief and must not be empty");
            continue;
        }
        pool_check(vertex, pool, i, path, v);
        int64_t count = replica_count(pool);
        if (count > left)
            wire_violation_add(v, ty_format(v->arena, "%s.replicaCount", path),
                               "the job asks for more replicas than the %" PRId64
                               " this machine runs at once (setting replica_slots)",
                               config->replica_slots);
        left = count > left ? INT64_MAX : left - count; /* say it once */
    }
}

/* ---- the rest of the spec ---- */

static void scheduling_check(const json_t *scheduling, struct wire_violations *v)
{
    ty_str timeout = wire_json_get_str(scheduling, "timeout");
    int64_t ms = 1;
    if (timeout.len > 0)
        ty_assert(wire_duration_parse(timeout, &ms) == TY_OK);
    if (ms <= 0)
        wire_violation_add(v, "jobSpec.scheduling.timeout",
                           "must be more than 0; leave it out for the default");
}

static bool path_has_dotdot(ty_str path)
{
    ty_str part;
    do {
        bool more = ty_str_split(&path, '/', &part);
        if (ty_str_is(part, ".."))
            return true;
        if (!more)
            return false;
    } while (true);
}

static void output_check(const struct vertex *vertex, ty_str uri, struct wire_violations *v)
{
    const char *field = "jobSpec.baseOutputDirectory.outputUriPrefix";
    ty_str path = uri;
    if (ty_str_starts(uri, TY_STR("file://")))
        path = ty_str_drop(uri, 7);
    if (ty_str_starts(uri, TY_STR("gs://")))
        vertex_output_check(vertex, uri, field, v);
    else if (!ty_str_starts(path, TY_STR("/")))
        wire_violation_add(v, field,
                           "must be gs://BUCKET/PREFIX, an absolute path, or file:// and an "
                           "absolute path");
    else if (path_has_dotdot(path))
        wire_violation_add(v, field, "must not have '..' in it");
}

void vertex_job_defaults(json_t *custom_job)
{
    json_t *pools = json_object_get(json_object_get(custom_job, "jobSpec"), "workerPoolSpecs");
    for (size_t i = 0; i < json_array_size(pools); i++) {
        json_t *pool = json_array_get(pools, i);
        if (json_object_size(pool) > 0 && json_object_get(pool, "replicaCount") == NULL)
            ty_assert(json_object_set_new(pool, "replicaCount", json_string("1")) == 0);
    }
}

void vertex_job_validate(const struct vertex *vertex, const json_t *custom_job,
                         struct wire_violations *v)
{
    const json_t *spec = json_object_get(custom_job, "jobSpec");
    const json_t *output = json_object_get(spec, "baseOutputDirectory");
    ty_str name = wire_json_get_str(custom_job, "displayName");
    if (utf8_chars(name) > DISPLAY_NAME_CHARS)
        wire_violation_add(v, "displayName", "has %zu characters; at most %d are allowed",
                           utf8_chars(name), DISPLAY_NAME_CHARS);
    vertex_labels_check(json_object_get(custom_job, "labels"), v);
    pools_check(vertex, json_object_get(spec, "workerPoolSpecs"), v);
    vertex_machines_check(vertex, spec, v);
    scheduling_check(json_object_get(spec, "scheduling"), v);
    if (output != NULL)
        output_check(vertex, wire_json_get_str(output, "outputUriPrefix"), v);

    /* Every ceiling above is on one field; this one is on their sum. */
    if (json_dumpb(custom_job, NULL, 0, JSON_COMPACT) > VERTEX_BODY_BYTES)
        wire_violation_add(v, "jobSpec", "the job has more than %d bytes as JSON",
                           VERTEX_BODY_BYTES);
}
