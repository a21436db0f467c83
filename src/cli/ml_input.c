/* ml_input.c -- flags and a YAML file become the body of an ai-platform jobs create call.
 *
 * As gcloud does it: the file is a Job; each flag replaces its field in it. What the fields may
 * hold is the server's business: it answers with the field's name. */
#include "cli/cli_int.h"

#include "wire/wire.h"

#include <ctype.h>

/* The object at a dotted path below `object`, made where it is not there; *ret_last is the name
 * that is left. */
static json_t *object_at(struct ty_arena *a, json_t *object, const char *path,
                         const char **ret_last)
{
    ty_str rest = ty_str_of(path), head;
    while (ty_str_split(&rest, '.', &head)) {
        const char *name = ty_cstr(a, head);
        json_t *below = cli_field_get(object, name);
        if (!json_is_object(below)) {
            below = json_object();
            cli_field_set(object, name, below);
        }
        object = below;
    }
    *ret_last = ty_cstr(a, head);
    return object;
}

static void set_at(struct ty_arena *a, json_t *input, const char *path, json_t *value)
{
    const char *name;
    json_t *object = object_at(a, input, path, &name);
    cli_field_set(object, name, value);
}

static ty_err overlay_texts(struct cli *c, json_t *input)
{
    static const struct {
        const char *flag, *path;
    } texts[] = {
        {"module-name", "pythonModule"},
        {"job-dir", "jobDir"},
        {"runtime-version", "runtimeVersion"},
        {"python-version", "pythonVersion"},
        {"service-account", "serviceAccount"},
        {"network", "network"},
        {"master-machine-type", "masterType"},
        {"master-image-uri", "masterConfig.imageUri"},
        {"worker-machine-type", "workerType"},
        {"worker-count", "workerCount"},
        {"worker-image-uri", "workerConfig.imageUri"},
        {"parameter-server-machine-type", "parameterServerType"},
        {"parameter-server-count", "parameterServerCount"},
        {"parameter-server-image-uri", "parameterServerConfig.imageUri"},
        {"tpu-tf-version", "workerConfig.tpuTfVersion"},
    };
    for (size_t i = 0; i < TY_COUNT(texts); i++) {
        json_t *text = NULL;
        if (!cli_arg_given(&c->args, texts[i].flag))
            continue;
        ty_err err = cli_text_new(texts[i].flag, cli_arg(&c->args, texts[i].flag), &text);
        if (err != TY_OK)
            return err;
        set_at(c->arena, input, texts[i].path, text);
    }
    return TY_OK;
}

/* --master-accelerator=count=1,type=nvidia-tesla-t4 */
static ty_err overlay_accelerators(struct cli *c, json_t *input)
{
    static const struct {
        const char *flag, *path;
    } places[] = {{"master-accelerator", "masterConfig.acceleratorConfig"},
                  {"worker-accelerator", "workerConfig.acceleratorConfig"},
                  {"parameter-server-accelerator", "parameterServerConfig.acceleratorConfig"}};
    for (size_t i = 0; i < TY_COUNT(places); i++) {
        json_t *given = NULL;
        if (!cli_arg_given(&c->args, places[i].flag))
            continue;
        ty_err err = cli_dict_new(c->arena, &c->args, places[i].flag, &given);
        if (err != TY_OK)
            return err;
        char *type = ty_cstr(c->arena, wire_json_get_str(given, "type"));
        const json_t *count = json_object_get(given, "count");
        if (type[0] == '\0' || json_object_size(given) != (count != NULL ? 2U : 1U)) {
            json_decref(given);
            return ty_fail(TY_INVALID_ARGUMENT,
                           "argument --%s: has the keys 'type' (required) and 'count'",
                           places[i].flag);
        }
        for (char *p = type; *p != '\0'; p++)
            *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
        set_at(c->arena, input, places[i].path,
               json_pack("{s:s, s:s}", "type", type, "count",
                         count != NULL ? json_string_value(count) : "1"));
        json_decref(given);
    }
    return TY_OK;
}

/* basic-gpu is BASIC_GPU to the server. */
static ty_err overlay_tier(struct cli *c, json_t *input)
{
    static const char *const tiers[] = {"basic",      "basic-gpu", "basic-tpu",
                                        "standard-1", "premium-1", "custom"};
    char *name = ty_cstr(c->arena, cli_arg(&c->args, "scale-tier"));
    bool known = false;
    if (!cli_arg_given(&c->args, "scale-tier"))
        return TY_OK;
    for (char *p = name; *p != '\0'; p++)
        *p = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
    for (size_t i = 0; i < TY_COUNT(tiers); i++)
        known |= strcmp(name, tiers[i]) == 0;
    if (!known)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument --scale-tier: '" TY_STR_FMT "' is none of basic, basic-gpu, "
                       "basic-tpu, standard-1, premium-1, custom",
                       TY_STR_ARG(cli_arg(&c->args, "scale-tier")));
    if (strcmp(name, "custom") == 0 && !cli_arg_given(&c->args, "master-machine-type"))
        return ty_fail(TY_FAILED_PRECONDITION,
                       "Invalid value for [--scale-tier]: --master-machine-type is required with "
                       "custom.");
    for (char *p = name; *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    cli_field_set(input, "scaleTier", json_string(name));
    return TY_OK;
}

static ty_err overlay_others(struct cli *c, json_t *input)
{
    static const struct {
        const char *flag, *field;
    } bools[] = {{"use-chief-in-tf-config", "useChiefInTfConfig"},
                 {"enable-web-access", "enableWebAccess"}};
    ty_str key = {0};
    const char *region = cli_compute_region(c);
    ty_err err = cli_key_name(c->arena, &c->args, &key);
    if (err != TY_OK)
        return err;
    for (size_t i = 0; i < TY_COUNT(bools); i++)
        if (cli_arg_given(&c->args, bools[i].flag))
            cli_field_set(input, bools[i].field, json_boolean(cli_arg_on(&c->args, bools[i].flag)));
    if (key.len > 0)
        set_at(c->arena, input, "encryptionConfig.kmsKeyName", json_stringn(key.ptr, key.len));
    /* gcloud insists on a region of its own, whatever the file says. */
    if (region != NULL)
        cli_field_set(input, "region", json_string(region));
    else if (cli_field_get(input, "region") == NULL)
        cli_field_set(input, "region", json_string("us-central1"));
    if (c->args.rest_count > 0) {
        json_t *args = json_array();
        for (int i = 0; i < c->args.rest_count; i++) {
            json_t *text = json_string(c->args.rest[i]);
            if (text == NULL) {
                json_decref(args);
                return ty_fail(TY_INVALID_ARGUMENT, "argument %d after --: is not UTF-8 text",
                               i + 1);
            }
            json_array_append_new(args, text);
        }
        cli_field_set(input, "args", args);
    }
    return TY_OK;
}

/* The Job of a --config file; without one an empty one. */
static ty_err body_begin(ty_str config, const char *path, json_t **ret_body)
{
    json_t *body = json_object();
    ty_err err = TY_OK;
    if (path != NULL) {
        json_decref(body);
        err = cli_yaml_parse(config, path, &body);
        if (err == TY_OK && json_is_null(body)) { /* a file of comments */
            json_decref(body);
            body = json_object();
        }
        if (err == TY_OK && !json_is_object(body)) {
            json_decref(body);
            err = ty_fail(TY_INVALID_ARGUMENT,
                          "'%s': must be a mapping with the fields of a Job (trainingInput, ...)",
                          path);
        }
    }
    if (err != TY_OK)
        return err;
    if (!json_is_object(cli_field_get(body, "trainingInput")))
        cli_field_set(body, "trainingInput", json_object());
    *ret_body = body;
    return TY_OK;
}

ty_err cli_ml_body(struct cli *c, ty_str config, const char *path, const json_t *packages,
                   json_t **ret_body)
{
    json_t *body = NULL, *labels = NULL, *id = NULL;
    ty_err err = body_begin(config, path, &body);
    if (err != TY_OK)
        return err;
    json_t *input = cli_field_get(body, "trainingInput");
    err = cli_text_new("JOB", c->args.positional, &id);
    if (err == TY_OK)
        cli_field_set(body, "jobId", id);
    if (err == TY_OK && cli_arg_given(&c->args, "labels")) {
        err = cli_dict_new(c->arena, &c->args, "labels", &labels);
        if (err == TY_OK)
            cli_field_set(body, "labels", labels);
    }
    if (err == TY_OK)
        err = overlay_texts(c, input);
    if (err == TY_OK)
        err = overlay_accelerators(c, input);
    if (err == TY_OK)
        err = overlay_tier(c, input);
    if (err == TY_OK)
        err = overlay_others(c, input);
    if (err == TY_OK && json_array_size(packages) > 0)
        cli_field_set(input, "packageUris", json_incref((json_t *)packages));
    if (err == TY_OK)
        *ret_body = body;
    else
        json_decref(body);
    return err;
}
