/* spec.c -- flags and a YAML file become the body of a customJobs create call.
 *
 * As gcloud does it: the file is a CustomJobSpec; any --worker-pool-spec replaces all of its pools;
 * --args goes to every pool, --command to every container pool; other flags replace their field.
 * What the fields may hold is the server's business: it answers with the field's name. */
#include "cli/cli_int.h"

#include "wire/wire.h"

/* Set a field by its camelCase name, also where the file spelled it in snake_case. Takes `value`.
 */
static void field_set(json_t *object, const char *name, json_t *value)
{
    const char *key;
    json_t *old;
    void *next;
    json_object_foreach_safe(object, next, key, old)
    {
        if (strcmp(key, name) != 0 && wire_name_eq(ty_str_of(key), ty_str_of(name)))
            json_object_del(object, key);
    }
    json_object_set_new(object, name, value);
}

static json_t *field_get(json_t *object, const char *name)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        if (wire_name_eq(ty_str_of(key), ty_str_of(name)))
            return value;
    }
    return NULL;
}

/* A JSON string; bytes that are not UTF-8 are refused here, where the flag can be named. */
static ty_err text_new(const char *flag, ty_str text, json_t **ret_text)
{
    json_t *made = json_stringn(text.ptr, text.len);
    if (made == NULL)
        return ty_fail(TY_INVALID_ARGUMENT, "argument --%s: is not UTF-8 text", flag);
    *ret_text = made;
    return TY_OK;
}

/* All elements of a list flag, over all its occurrences. */
static ty_err list_new(struct ty_arena *a, const struct cli_args *args, const char *flag,
                       json_t **ret_list)
{
    json_t *list = json_array(), *text = NULL;
    ty_err err = TY_OK;
    for (const struct cli_value *v = args->first; err == TY_OK && v != NULL; v = v->next) {
        struct cli_item *items = NULL;
        if (strcmp(v->flag->name, flag) != 0)
            continue;
        err = cli_list_split(a, v->text, &items);
        for (; err == TY_OK && items != NULL; items = items->next) {
            err = text_new(flag, items->value, &text);
            if (err == TY_OK)
                json_array_append_new(list, text);
        }
    }
    if (err == TY_OK)
        *ret_list = list;
    else
        json_decref(list);
    return err;
}

static ty_err dict_new(struct ty_arena *a, const struct cli_args *args, const char *flag,
                       json_t **ret_dict)
{
    json_t *dict = json_object(), *text = NULL;
    ty_err err = TY_OK;
    for (const struct cli_value *v = args->first; err == TY_OK && v != NULL; v = v->next) {
        struct cli_item *items = NULL;
        if (strcmp(v->flag->name, flag) != 0)
            continue;
        err = cli_dict_split(a, flag, v->text, &items);
        for (; err == TY_OK && items != NULL; items = items->next) {
            err = text_new(flag, items->value, &text);
            if (err == TY_OK && json_object_set_new(dict, ty_cstr(a, items->key), text) != 0)
                err = ty_fail(TY_INVALID_ARGUMENT, "argument --%s: a key is not UTF-8 text", flag);
        }
    }
    if (err == TY_OK)
        *ret_dict = dict;
    else
        json_decref(dict);
    return err;
}

/* ---- --worker-pool-spec ---- */

enum pool_key {
    POOL_MACHINE_TYPE,
    POOL_REPLICA_COUNT,
    POOL_ACCELERATOR_TYPE,
    POOL_ACCELERATOR_COUNT,
    POOL_CONTAINER_IMAGE,
    POOL_EXECUTOR_IMAGE,
    POOL_PYTHON_MODULE,
    POOL_LOCAL_PATH, /* from here on they describe a package to be made: package.c */
    POOL_SCRIPT,
    POOL_REQUIREMENTS,
    POOL_EXTRA_PACKAGES,
    POOL_EXTRA_DIRS,
    POOL_OUTPUT_IMAGE,
    POOL_KEYS
};
static const char *const pool_keys[POOL_KEYS] = {
    "machine-type",      "replica-count",       "accelerator-type",
    "accelerator-count", "container-image-uri", "executor-image-uri",
    "python-module",     "local-package-path",  "script",
    "requirements",      "extra-packages",      "extra-dirs",
    "output-image-uri",
};

static ty_err pool_values(struct ty_arena *a, ty_str text, ty_str ret_values[POOL_KEYS])
{
    struct cli_item *items = NULL;
    ty_err err = cli_dict_split(a, "worker-pool-spec", text, &items);
    if (err != TY_OK)
        return err;
    for (; items != NULL; items = items->next) {
        size_t k = 0;
        while (k < POOL_KEYS && !ty_str_is(items->key, pool_keys[k]))
            k++;
        if (k == POOL_KEYS) {
            const char *near = cli_nearest(items->key, pool_keys, POOL_KEYS);
            return ty_fail(TY_INVALID_ARGUMENT,
                           "argument --worker-pool-spec: unknown key '" TY_STR_FMT "'%s; keys are "
                           "machine-type, replica-count, accelerator-type, accelerator-count, "
                           "container-image-uri, executor-image-uri, python-module, "
                           "local-package-path, script, requirements, extra-packages, extra-dirs, "
                           "output-image-uri",
                           TY_STR_ARG(items->key),
                           near != NULL ? ty_format(a, " (did you mean '%s'?)", near) : "");
        }
        ret_values[k] = items->value;
    }
    return TY_OK;
}

/* Keys of a package that is made here. It is for the whole job, so the first pool has them. */
static ty_err pool_check_local(const ty_str v[POOL_KEYS], bool first)
{
    if (!first)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --worker-pool-spec: 'local-package-path' belongs to the first "
                       "pool; its package runs in all of them");
    if (v[POOL_EXECUTOR_IMAGE].len == 0 || v[POOL_CONTAINER_IMAGE].len > 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --worker-pool-spec: 'local-package-path' needs "
                       "'executor-image-uri', and no 'container-image-uri'");
    if ((v[POOL_PYTHON_MODULE].len > 0) == (v[POOL_SCRIPT].len > 0))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --worker-pool-spec: with 'local-package-path', exactly one of "
                       "keys [python-module, script] is required");
    return TY_OK;
}

/* What a pool runs. `local`: the first pool's package is for all. */
static ty_err pool_check_task(const ty_str v[POOL_KEYS], bool first, bool local)
{
    for (size_t k = POOL_LOCAL_PATH; k < POOL_KEYS; k++)
        if (v[k].len > 0 && v[POOL_LOCAL_PATH].len == 0)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "argument --worker-pool-spec: '%s' needs 'local-package-path'",
                           pool_keys[k]);
    if (v[POOL_LOCAL_PATH].len > 0)
        return pool_check_local(v, first);
    if (local && (v[POOL_CONTAINER_IMAGE].len > 0 || v[POOL_EXECUTOR_IMAGE].len > 0 ||
                  v[POOL_PYTHON_MODULE].len > 0))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --worker-pool-spec: the package of the first pool's "
                       "'local-package-path' runs in this one, too; it can have no image and no "
                       "module of its own");
    if (local)
        return TY_OK;
    if ((v[POOL_CONTAINER_IMAGE].len > 0) == (v[POOL_EXECUTOR_IMAGE].len > 0))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --worker-pool-spec: exactly one of keys [executor-image-uri, "
                       "container-image-uri] is required");
    if ((v[POOL_EXECUTOR_IMAGE].len > 0) != (v[POOL_PYTHON_MODULE].len > 0))
        return ty_fail(TY_INVALID_ARGUMENT, "argument --worker-pool-spec: 'python-module' and "
                                            "'executor-image-uri' go together");
    return TY_OK;
}

static ty_err pool_check(const ty_str v[POOL_KEYS], bool first, bool local)
{
    int64_t n;
    ty_err err = pool_check_task(v, first, local);
    if (err != TY_OK)
        return err;
    if (v[POOL_ACCELERATOR_COUNT].len > 0 && v[POOL_ACCELERATOR_TYPE].len == 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --worker-pool-spec: 'accelerator-count' needs "
                       "'accelerator-type'");
    static const int numbers[] = {POOL_REPLICA_COUNT, POOL_ACCELERATOR_COUNT};
    for (size_t i = 0; i < TY_COUNT(numbers); i++)
        if (v[numbers[i]].ptr != NULL &&
            cli_number_parse(pool_keys[numbers[i]], v[numbers[i]], &n) != TY_OK)
            return ty_wrap(TY_INVALID_ARGUMENT, "argument --worker-pool-spec");
    return TY_OK;
}

static json_t *plain(ty_str s)
{
    return json_stringn_nocheck(s.ptr, s.len); /* checked before: pool_new */
}

static json_t *pool_build(const ty_str v[POOL_KEYS])
{
    json_t *pool = json_object(), *machine = json_object();
    if (v[POOL_MACHINE_TYPE].len > 0)
        json_object_set_new(machine, "machineType", plain(v[POOL_MACHINE_TYPE]));
    if (v[POOL_ACCELERATOR_TYPE].len > 0) {
        int64_t count = 1;
        if (v[POOL_ACCELERATOR_COUNT].len > 0)
            (void)!ty_parse_i64(v[POOL_ACCELERATOR_COUNT], &count); /* checked before */
        json_object_set_new(machine, "acceleratorType", plain(v[POOL_ACCELERATOR_TYPE]));
        json_object_set_new(machine, "acceleratorCount", json_integer(count));
    }
    if (json_object_size(machine) > 0)
        json_object_set(pool, "machineSpec", machine);
    json_decref(machine);
    json_object_set_new(pool, "replicaCount",
                        v[POOL_REPLICA_COUNT].len > 0 ? plain(v[POOL_REPLICA_COUNT])
                                                      : json_string("1"));
    if (v[POOL_LOCAL_PATH].len > 0) {
        json_t *package = json_pack("{s:o}", "image", plain(v[POOL_EXECUTOR_IMAGE]));
        for (size_t k = POOL_PYTHON_MODULE; k < POOL_KEYS; k++)
            if (v[k].len > 0)
                json_object_set_new(package, pool_keys[k], plain(v[k]));
        json_object_set_new(pool, "localPackage", package);
    } else if (v[POOL_CONTAINER_IMAGE].len > 0)
        json_object_set_new(pool, "containerSpec",
                            json_pack("{s:o}", "imageUri", plain(v[POOL_CONTAINER_IMAGE])));
    else if (v[POOL_EXECUTOR_IMAGE].len > 0)
        json_object_set_new(pool, "pythonPackageSpec",
                            json_pack("{s:o, s:o}", "executorImageUri",
                                      plain(v[POOL_EXECUTOR_IMAGE]), "pythonModule",
                                      plain(v[POOL_PYTHON_MODULE])));
    return pool;
}

static ty_err pool_new(struct ty_arena *a, ty_str text, const json_t *first, json_t **ret_pool)
{
    ty_str v[POOL_KEYS] = {{0}};
    if (!ty_utf8_valid(text))
        return ty_fail(TY_INVALID_ARGUMENT, "argument --worker-pool-spec: is not UTF-8 text");
    ty_err err = pool_values(a, text, v);
    if (err == TY_OK)
        err = pool_check(v, first == NULL, json_object_get(first, "localPackage") != NULL);
    if (err == TY_OK)
        *ret_pool = pool_build(v);
    return err;
}

ty_err cli_pools_from_flags(struct ty_arena *a, const struct cli_args *args, json_t **ret_pools)
{
    json_t *pools = json_array();
    ty_err err = TY_OK;
    for (const struct cli_value *v = args->first; err == TY_OK && v != NULL; v = v->next) {
        json_t *pool = NULL;
        if (strcmp(v->flag->name, "worker-pool-spec") != 0)
            continue;
        if (v->text.len > 0)
            err = pool_new(a, v->text, json_array_get(pools, 0), &pool);
        else if (json_array_size(pools) == 0)
            err =
                ty_fail(TY_INVALID_ARGUMENT, "argument --worker-pool-spec: the first one is empty: "
                                             "a job needs its chief");
        else
            pool = json_object(); /* an empty one holds the place of its pool */
        if (err == TY_OK)
            json_array_append_new(pools, pool);
    }
    if (err != TY_OK || json_array_size(pools) == 0) {
        json_decref(pools);
        pools = NULL;
    }
    if (err == TY_OK)
        *ret_pools = pools;
    return err;
}

/* ---- the file, and the whole ---- */

ty_err cli_spec_from_yaml(ty_str text, const char *path, json_t **ret_spec)
{
    json_t *spec;
    ty_err err = wire_yaml_parse(text, &spec);
    if (err != TY_OK)
        return ty_wrap(err, "'%s'", path);
    if (!json_is_object(spec)) {
        json_decref(spec);
        return ty_fail(TY_INVALID_ARGUMENT,
                       "'%s': must be a mapping with the fields of a CustomJobSpec "
                       "(workerPoolSpecs, ...)",
                       path);
    }
    if (field_get(spec, "jobSpec") != NULL) {
        json_decref(spec);
        return ty_fail(
            TY_INVALID_ARGUMENT,
            "'%s': this is a whole CustomJob; --config takes a CustomJobSpec: keep what is "
            "under 'jobSpec', and give the rest by flags (--display-name, --labels)",
            path);
    }
    json_t *pools = field_get(spec, "workerPoolSpecs");
    if (json_is_object(pools)) { /* Google's own example gives one pool as a mapping */
        json_t *list = json_array();
        json_array_append(list, pools);
        field_set(spec, "workerPoolSpecs", list);
    }
    *ret_spec = spec;
    return TY_OK;
}

/* --args and --command into every pool that has a place for them. */
static ty_err overlay_pools(struct ty_arena *a, const struct cli_args *args, json_t *pools,
                            bool from_flags)
{
    static const struct {
        const char *flag, *spec, *field;
        bool only_flag_pools;
    } places[] = {
        {"args", "containerSpec", "args", false},
        {"args", "pythonPackageSpec", "args", false},
        {"command", "containerSpec", "command", false},
        {"python-package-uris", "pythonPackageSpec", "packageUris", true},
    };
    for (size_t i = 0; i < TY_COUNT(places); i++) {
        json_t *list = NULL, *pool;
        size_t at;
        if (!cli_arg_given(args, places[i].flag) || (places[i].only_flag_pools && !from_flags))
            continue;
        ty_err err = list_new(a, args, places[i].flag, &list);
        if (err != TY_OK)
            return err;
        json_array_foreach (pools, at, pool) {
            json_t *spec = field_get(pool, places[i].spec);
            if (json_is_object(spec))
                field_set(spec, places[i].field, json_incref(list));
        }
        json_decref(list);
    }
    return TY_OK;
}

static ty_err overlay_fields(const struct cli_args *args, json_t *spec)
{
    static const struct {
        const char *flag, *field;
    } texts[] = {{"service-account", "serviceAccount"},
                 {"network", "network"},
                 {"persistent-resource-id", "persistentResourceId"}},
      bools[] = {{"enable-web-access", "enableWebAccess"},
                 {"enable-dashboard-access", "enableDashboardAccess"}};
    for (size_t i = 0; i < TY_COUNT(texts); i++) {
        json_t *text = NULL;
        if (!cli_arg_given(args, texts[i].flag))
            continue;
        ty_err err = text_new(texts[i].flag, cli_arg(args, texts[i].flag), &text);
        if (err != TY_OK)
            return err;
        field_set(spec, texts[i].field, text);
    }
    for (size_t i = 0; i < TY_COUNT(bools); i++)
        if (cli_arg_given(args, bools[i].flag))
            field_set(spec, bools[i].field, json_boolean(cli_arg_on(args, bools[i].flag)));
    return TY_OK;
}

ty_err cli_job_build(struct ty_arena *a, const struct cli_args *args, json_t *spec, json_t *pools,
                     json_t **ret_body)
{
    json_t *body = json_object(), *name = NULL, *labels = NULL;
    bool from_flags = pools != NULL;
    if (spec == NULL)
        spec = json_object();
    json_object_set_new(body, "jobSpec", spec);
    if (pools != NULL)
        field_set(spec, "workerPoolSpecs", pools);
    ty_err err = overlay_pools(a, args, field_get(spec, "workerPoolSpecs"), from_flags);
    if (err == TY_OK)
        err = overlay_fields(args, spec);
    if (err == TY_OK)
        err = text_new("display-name", cli_arg(args, "display-name"), &name);
    if (err == TY_OK)
        json_object_set_new(body, "displayName", name);
    if (err == TY_OK && cli_arg_given(args, "labels")) {
        err = dict_new(a, args, "labels", &labels);
        if (err == TY_OK)
            json_object_set_new(body, "labels", labels);
    }
    if (err == TY_OK)
        *ret_body = body;
    else
        json_decref(body);
    return err;
}
