/* spec.c -- flags and a YAML file become the body of a customJobs create call.
 *
 * As gcloud does it: the file is a CustomJobSpec; any --worker-pool-spec replaces all of its pools;
 * --args goes to every pool, --command to every container pool; other flags replace their field.
 * What the fields may hold is the server's business: it answers with the field's name. */
#include "cli/cli_int.h"

#include "wire/wire.h"

void cli_field_set(json_t *object, const char *name, json_t *value)
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

json_t *cli_field_get(json_t *object, const char *name)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        if (wire_name_eq(ty_str_of(key), ty_str_of(name)))
            return value;
    }
    return NULL;
}

ty_err cli_text_new(const char *flag, ty_str text, json_t **ret_text)
{
    json_t *made = json_stringn(text.ptr, text.len);
    if (made == NULL)
        return ty_fail(TY_INVALID_ARGUMENT, "argument --%s: is not UTF-8 text", flag);
    *ret_text = made;
    return TY_OK;
}

ty_err cli_list_new(struct ty_arena *a, const struct cli_args *args, const char *flag,
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
            err = cli_text_new(flag, items->value, &text);
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

ty_err cli_dict_new(struct ty_arena *a, const struct cli_args *args, const char *flag,
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
            err = cli_text_new(flag, items->value, &text);
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
static const char *pool_wrong_local(const ty_str v[POOL_KEYS], bool first)
{
    if (!first)
        return "key [local-package-path] belongs to the first pool; its package runs in all of "
               "them";
    if (v[POOL_EXECUTOR_IMAGE].len == 0 || v[POOL_CONTAINER_IMAGE].len > 0)
        return "key [local-package-path] needs [executor-image-uri], and no [container-image-uri]";
    if ((v[POOL_PYTHON_MODULE].len > 0) == (v[POOL_SCRIPT].len > 0))
        return "with [local-package-path], exactly one of keys [python-module, script] is required";
    return NULL;
}

/* What a pool runs. `local`: the first pool's package is for all. */
static const char *pool_wrong_task(const ty_str v[POOL_KEYS], bool first, bool local)
{
    bool image = v[POOL_CONTAINER_IMAGE].len > 0, executor = v[POOL_EXECUTOR_IMAGE].len > 0;
    bool module = v[POOL_PYTHON_MODULE].len > 0;
    if (v[POOL_LOCAL_PATH].len > 0)
        return pool_wrong_local(v, first);
    for (size_t k = POOL_LOCAL_PATH; k < POOL_KEYS; k++)
        if (v[k].len > 0)
            return "keys [script, requirements, extra-packages, extra-dirs, output-image-uri] need "
                   "[local-package-path]";
    if (local)
        return image || executor || module
                   ? "the package of the first pool's [local-package-path] runs in this one, too: "
                     "it can have no image and no module of its own"
                   : NULL;
    if (image == executor)
        return "exactly one of keys [executor-image-uri, container-image-uri] is required";
    if (image && module)
        return "key [python-module] does not go with [container-image-uri]";
    if (executor && !module)
        return "key [python-module] is required with [executor-image-uri]";
    return NULL;
}

/* What does not go together, in gcloud's order: TY_FAILED_PRECONDITION, for exit status 1. */
static ty_err pool_check(const ty_str v[POOL_KEYS], bool first, bool local)
{
    const char *wrong = NULL;
    if (v[POOL_MACHINE_TYPE].len == 0)
        wrong = "key [machine-type] is required";
    else if (v[POOL_ACCELERATOR_COUNT].len > 0 && v[POOL_ACCELERATOR_TYPE].len == 0)
        wrong = "key [accelerator-type] is required with [accelerator-count]";
    else
        wrong = pool_wrong_task(v, first, local);
    return wrong == NULL ? TY_OK
                         : ty_fail(TY_FAILED_PRECONDITION,
                                   "Invalid value for [--worker-pool-spec]: %s.", wrong);
}

static ty_err numbers_check(const ty_str v[POOL_KEYS])
{
    static const int numbers[] = {POOL_REPLICA_COUNT, POOL_ACCELERATOR_COUNT};
    int64_t n;
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
        err = numbers_check(v);
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
            err = ty_fail(TY_FAILED_PRECONDITION, "Invalid value for [--worker-pool-spec]: the "
                                                  "first one is empty: a job needs its chief.");
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

ty_err cli_yaml_parse(ty_str text, const char *path, json_t **ret_value)
{
    struct ty_buf warnings;
    ty_buf_init(&warnings, 1 << 16);
    ty_err err = wire_yaml11_parse(text, &warnings, ret_value);
    for (ty_str rest = ty_buf_str(&warnings), line; ty_str_split(&rest, '\n', &line);)
        fprintf(stderr, "WARNING: '%s', " TY_STR_FMT "\n", path, TY_STR_ARG(line));
    ty_buf_clear(&warnings);
    return err != TY_OK ? ty_wrap(err, "'%s'", path) : TY_OK;
}

/* Fields that gcloud, which knows the type of each, does not send as they stand in the file: one
 * value for a list is a list of one, an empty list is nothing, ' 2 ' is 2 and 1.0 no whole number.
 * It does that for names in camelCase only; others it sends on as they are. */
enum field_kind { FIELD_LIST, FIELD_INT };
static const struct spec_field {
    const char *path; /* of a pool, or of the spec */
    enum field_kind kind;
    bool of_pool;
} spec_fields[] = {
    {"workerPoolSpecs", FIELD_LIST, false},
    {"reservedIpRanges", FIELD_LIST, false},
    {"models", FIELD_LIST, false},
    {"replicaCount", FIELD_INT, true},
    {"machineSpec.acceleratorCount", FIELD_INT, true},
    {"diskSpec.bootDiskSizeGb", FIELD_INT, true},
    {"nfsMounts", FIELD_LIST, true},
    {"containerSpec.command", FIELD_LIST, true},
    {"containerSpec.args", FIELD_LIST, true},
    {"containerSpec.env", FIELD_LIST, true},
    {"pythonPackageSpec.packageUris", FIELD_LIST, true},
    {"pythonPackageSpec.args", FIELD_LIST, true},
    {"pythonPackageSpec.env", FIELD_LIST, true},
};

static ty_err field_normalise(json_t *object, const struct spec_field *f)
{
    ty_str rest = ty_str_of(f->path), head;
    char name[64];
    while (ty_str_split(&rest, '.', &head)) {
        snprintf(name, sizeof(name), TY_STR_FMT, TY_STR_ARG(head));
        object = json_object_get(object, name);
    }
    snprintf(name, sizeof(name), TY_STR_FMT, TY_STR_ARG(head));
    json_t *value = json_object_get(object, name);
    if (value == NULL)
        return TY_OK;
    if (f->kind == FIELD_INT && json_is_real(value))
        return ty_fail(TY_INVALID_ARGUMENT, "%s: must be a whole number, not %g", f->path,
                       json_real_value(value));
    if (f->kind == FIELD_INT && json_is_string(value)) {
        ty_str number = ty_str_trim(ty_str_of(json_string_value(value)));
        json_object_set_new(object, name, json_stringn(number.ptr, number.len));
    }
    if (f->kind == FIELD_LIST && json_is_array(value) && json_array_size(value) == 0)
        json_object_del(object, name);
    else if (f->kind == FIELD_LIST && !json_is_array(value) && !json_is_null(value))
        json_object_set_new(object, name, json_pack("[O]", value));
    return TY_OK;
}

static ty_err spec_normalise(json_t *spec)
{
    json_t *pool;
    size_t at;
    ty_err err = TY_OK;
    for (size_t i = 0; i < TY_COUNT(spec_fields) && err == TY_OK; i++)
        if (!spec_fields[i].of_pool)
            err = field_normalise(spec, &spec_fields[i]);
    json_array_foreach (json_object_get(spec, "workerPoolSpecs"), at, pool) {
        for (size_t i = 0; i < TY_COUNT(spec_fields) && err == TY_OK; i++)
            if (spec_fields[i].of_pool)
                err = field_normalise(pool, &spec_fields[i]);
    }
    return err;
}

/* Something other than "" and null; what is no text at all is for the server to name. */
static bool has_value(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL && !json_is_null(value) &&
           !(json_is_string(value) && json_string_length(value) == 0);
}

ty_err cli_spec_check(const json_t *spec)
{
    json_t *pool;
    size_t at;
    json_array_foreach (json_object_get(spec, "workerPoolSpecs"), at, pool) {
        const json_t *package = json_object_get(pool, "pythonPackageSpec");
        bool python = has_value(package, "executorImageUri") || has_value(package, "pythonModule");
        bool image = has_value(json_object_get(pool, "containerSpec"), "imageUri");
        if (json_is_object(pool) && python == image)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "workerPoolSpecs[%zu]: exactly one of fields [pythonPackageSpec, "
                           "containerSpec] is required, with its image (names are in camelCase)",
                           at);
    }
    return TY_OK;
}

ty_err cli_spec_from_yaml(ty_str text, const char *path, json_t **ret_spec)
{
    json_t *spec;
    ty_err err = cli_yaml_parse(text, path, &spec);
    if (err != TY_OK)
        return err;
    if (!json_is_object(spec)) {
        json_decref(spec);
        return ty_fail(TY_INVALID_ARGUMENT,
                       "'%s': must be a mapping with the fields of a CustomJobSpec "
                       "(workerPoolSpecs, ...)",
                       path);
    }
    if (cli_field_get(spec, "jobSpec") != NULL) {
        json_decref(spec);
        return ty_fail(
            TY_INVALID_ARGUMENT,
            "'%s': this is a whole CustomJob; --config takes a CustomJobSpec: keep what is "
            "under 'jobSpec', and give the rest by flags (--display-name, --labels)",
            path);
    }
    err = spec_normalise(spec);
    if (err != TY_OK) {
        json_decref(spec);
        return ty_wrap(err, "'%s'", path);
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
        ty_err err = cli_list_new(a, args, places[i].flag, &list);
        if (err != TY_OK)
            return err;
        json_array_foreach (pools, at, pool) {
            json_t *spec = cli_field_get(pool, places[i].spec);
            if (json_is_object(spec))
                cli_field_set(spec, places[i].field, json_incref(list));
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
        ty_err err = cli_text_new(texts[i].flag, cli_arg(args, texts[i].flag), &text);
        if (err != TY_OK)
            return err;
        cli_field_set(spec, texts[i].field, text);
    }
    for (size_t i = 0; i < TY_COUNT(bools); i++)
        if (cli_arg_given(args, bools[i].flag))
            cli_field_set(spec, bools[i].field, json_boolean(cli_arg_on(args, bools[i].flag)));
    return TY_OK;
}

ty_err cli_key_name(struct ty_arena *a, const struct cli_args *args, ty_str *ret_name)
{
    ty_str key = cli_arg(args, "kms-key"), ring = cli_arg(args, "kms-keyring");
    ty_str place = cli_arg(args, "kms-location"), project = cli_arg(args, "kms-project");
    bool full = ty_str_starts(key, TY_STR("projects/"));
    if (key.len == 0 && ring.len + place.len + project.len > 0)
        return ty_fail(TY_INVALID_ARGUMENT, "argument --kms-key: must be specified with the other "
                                            "--kms flags");
    if (project.len == 0)
        project = cli_arg(args, "project");
    if (key.len > 0 && !full && (ring.len == 0 || place.len == 0 || project.len == 0))
        return ty_fail(
            TY_FAILED_PRECONDITION,
            "Invalid value for [--kms-key]: give it as projects/P/locations/R/keyRings/K/"
            "cryptoKeys/N, or with --kms-keyring, --kms-location and --kms-project.");
    if (key.len > 0 && !full)
        key = ty_str_of(ty_format(a,
                                  "projects/" TY_STR_FMT "/locations/" TY_STR_FMT
                                  "/keyRings/" TY_STR_FMT "/cryptoKeys/" TY_STR_FMT,
                                  TY_STR_ARG(project), TY_STR_ARG(place), TY_STR_ARG(ring),
                                  TY_STR_ARG(key)));
    *ret_name = key;
    return TY_OK;
}

static ty_err overlay_key(struct ty_arena *a, const struct cli_args *args, json_t *body)
{
    ty_str key = {0};
    json_t *name = NULL;
    ty_err err = cli_key_name(a, args, &key);
    if (err != TY_OK || key.len == 0)
        return err;
    err = cli_text_new("kms-key", key, &name);
    if (err == TY_OK)
        json_object_set_new(body, "encryptionSpec", json_pack("{s:o}", "kmsKeyName", name));
    return err;
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
        cli_field_set(spec, "workerPoolSpecs", pools);
    ty_err err = overlay_pools(a, args, cli_field_get(spec, "workerPoolSpecs"), from_flags);
    if (err == TY_OK)
        err = overlay_fields(args, spec);
    if (err == TY_OK)
        err = cli_text_new("display-name", cli_arg(args, "display-name"), &name);
    if (err == TY_OK)
        json_object_set_new(body, "displayName", name);
    if (err == TY_OK)
        err = overlay_key(a, args, body);
    if (err == TY_OK && cli_arg_given(args, "labels")) {
        err = cli_dict_new(a, args, "labels", &labels);
        if (err == TY_OK)
            json_object_set_new(body, "labels", labels);
    }
    if (err == TY_OK)
        *ret_body = body;
    else
        json_decref(body);
    return err;
}
