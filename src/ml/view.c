/* view.c -- a row as a Job of the older API.
 *
 * A job that this API made is answered with the trainingInput it came with. For a custom job one is
 * made: scaleTier CUSTOM, and each pool under the name of its role. */
#include "ml/ml_int.h"

#include "exec/exec.h"

static const struct {
    enum job_state state;
    const char *name;
} states[] = {
    {JOB_STATE_QUEUED, "QUEUED"},       {JOB_STATE_PENDING, "PREPARING"},
    {JOB_STATE_RUNNING, "RUNNING"},     {JOB_STATE_SUCCEEDED, "SUCCEEDED"},
    {JOB_STATE_FAILED, "FAILED"},       {JOB_STATE_CANCELLING, "CANCELLING"},
    {JOB_STATE_CANCELLED, "CANCELLED"},
};

const char *ml_state_name(const struct job *job)
{
    if (job->state == JOB_STATE_PENDING && job->attempt == 0)
        return "QUEUED"; /* accepted; nothing was begun for it */
    for (size_t i = 0; i < TY_COUNT(states); i++)
        if (states[i].state == job->state)
            return states[i].name;
    return "STATE_UNSPECIFIED";
}

bool ml_state_is_known(ty_str name)
{
    for (size_t i = 0; i < TY_COUNT(states); i++)
        if (ty_str_is(name, states[i].name))
            return true;
    return ty_str_is(name, "STATE_UNSPECIFIED");
}

const char *ml_etag(struct ty_arena *a, const struct job *job)
{
    struct wire_sha256 h;
    char digest[WIRE_SHA256_HEX_BYTES];
    struct ty_buf b;
    wire_sha256_init(&h);
    wire_sha256_adds(&h, job->labels);
    wire_sha256_end(&h, digest);
    ty_buf_init(&b, 64);
    wire_base64_encode(&b, (ty_str){digest, 12});
    const char *etag = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return etag;
}

/* ---- the trainingInput of a custom job ---- */

static void set_role(json_t *input, int role, const char *rest, json_t *value)
{
    char key[64];
    snprintf(key, sizeof key, "%s%s", ml_roles[role], rest);
    json_object_set_new(input, key, value);
}

static json_t *config_new(const json_t *pool)
{
    static const char *const fields[][2] = {
        {"imageUri", "imageUri"}, {"command", "containerCommand"}, {"args", "containerArgs"}};
    const json_t *machine = json_object_get(pool, "machineSpec");
    const json_t *container = json_object_get(pool, "containerSpec");
    const json_t *image =
        json_object_get(json_object_get(pool, "pythonPackageSpec"), "executorImageUri");
    json_t *config = json_object(), *type = json_object_get(machine, "acceleratorType");
    for (size_t i = 0; i < TY_COUNT(fields); i++)
        if (json_object_get(container, fields[i][0]) != NULL)
            json_object_set(config, fields[i][1], json_object_get(container, fields[i][0]));
    if (image != NULL)
        json_object_set(config, "imageUri", (json_t *)image);
    if (type != NULL) {
        int64_t count = json_integer_value(json_object_get(machine, "acceleratorCount"));
        json_object_set_new(config, "acceleratorConfig",
                            json_pack("{s:o, s:O}", "count",
                                      json_sprintf("%" PRId64, count > 0 ? count : 1), "type",
                                      type));
    }
    return config;
}

static json_t *input_new(const struct job *job, const json_t *spec)
{
    const json_t *pools = json_object_get(spec, "workerPoolSpecs");
    const json_t *package = json_object_get(json_array_get(pools, 0), "pythonPackageSpec"),
                 *output = json_object_get(json_object_get(spec, "baseOutputDirectory"),
                                           "outputUriPrefix"),
                 *timeout = json_object_get(json_object_get(spec, "scheduling"), "timeout");
    json_t *input =
        json_pack("{s:s, s:s%}", "scaleTier", "CUSTOM", "region", job->region.ptr, job->region.len);
    static const char *const of_package[] = {"packageUris", "pythonModule", "args"};
    for (int r = 0; r < ML_ROLES && r < (int)json_array_size(pools); r++) {
        const json_t *pool = json_array_get(pools, (size_t)r);
        ty_str type = wire_json_get_str(json_object_get(pool, "machineSpec"), "machineType");
        int64_t count = exec_pool_replicas(pool);
        if (count == 0)
            continue;
        set_role(input, r, "Type", json_string(type.len > 0 ? type.ptr : "n1-standard-4"));
        set_role(input, r, "Config", config_new(pool));
        if (r > 0)
            set_role(input, r, "Count", json_sprintf("%" PRId64, count));
    }
    for (size_t i = 0; i < TY_COUNT(of_package); i++)
        if (json_object_get(package, of_package[i]) != NULL)
            json_object_set(input, of_package[i], json_object_get(package, of_package[i]));
    if (output != NULL)
        json_object_set(input, "jobDir", (json_t *)output);
    if (timeout != NULL)
        json_object_set_new(input, "scheduling", json_pack("{s:O}", "maxRunningTime", timeout));
    return input;
}

static void add_input(struct ty_buf *b, const struct job *job)
{
    ty_buf_addz(b, ",\"trainingInput\":");
    if (job->ml_id.len > 0) {
        ty_buf_adds(b, job->ml_input);
        return;
    }
    json_t *body = NULL;
    ty_assert(wire_json_parse_members(job->body, &body) == TY_OK); /* it was parsed to be stored */
    json_t *input = input_new(job, json_object_get(body, "jobSpec"));
    wire_json_dump(b, input);
    json_decref(input);
    json_decref(body);
}

/* ---- the Job ---- */

static void add_time(struct ty_buf *b, const char *key, int64_t ns)
{
    char text[WIRE_TIME_BYTES];
    if (ns != 0)
        ty_buf_addf(b, ",\"%s\":\"%s\"", key, wire_time_format(ns, 6, text));
}

/* What went wrong, with this API's names of replicas. */
static void add_error(struct ty_buf *b, struct ty_arena *a, const struct job *job)
{
    struct ty_buf words;
    if (job->error_code == 0)
        return;
    ty_buf_init(&words, 2 * STORE_MESSAGE_BYTES);
    exec_ml_words(&words, job->error_message);
    ty_buf_addz(b, ",\"errorMessage\":");
    wire_json_string(b, ty_str_dup(a, ty_buf_str(&words)));
    ty_buf_clear(&words);
}

void ml_job_json(struct ty_buf *b, struct ty_arena *a, const struct job *job)
{
    ty_buf_addz(b, "{\"jobId\":");
    wire_json_string(b, job_ml_id(a, job));
    add_time(b, "createTime", job->create_ns);
    add_time(b, "startTime", job->start_ns);
    add_time(b, "endTime", job->end_ns);
    ty_buf_addf(b, ",\"state\":\"%s\"", ml_state_name(job));
    add_error(b, a, job);
    if (job->labels.len > 2) {
        ty_buf_addz(b, ",\"labels\":");
        ty_buf_adds(b, job->labels);
    }
    ty_buf_addf(b, ",\"etag\":\"%s\"", ml_etag(a, job));
    add_input(b, job);
    ty_buf_addz(b, ",\"trainingOutput\":{}}");
}
