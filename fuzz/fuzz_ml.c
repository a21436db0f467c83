/* fuzz_ml.c -- bodies of the older API's create call: JSON, its fields, and what is made of them.
 *
 * Whatever is accepted as a Job must come out as a CustomJob that the newer API's own tables take
 * without a word: the two may not disagree about what is a job. */
#include "ml/ml_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_custom_job(struct ty_arena *a, const json_t *custom_job)
{
    struct wire_violations v;
    wire_violations_init(&v, a);
    json_t *again = wire_normalise(&vertex_custom_job, custom_job, "", &v);
    ty_assert(v.count == 0);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    struct ty_config config;
    struct machine_host host = {0};
    struct wire_violations v;
    json_t *in = NULL, *job = NULL, *custom_job = NULL;
    ty_config_init(&config, &a);
    config.container_engine = "none";
    const struct vertex vertex = {.config = &config, .host = &host, .data_dir = "/nowhere"};
    if (wire_json_parse((ty_str){(const char *)data, size}, &in) != TY_OK)
        goto out;
    wire_violations_init(&v, &a);
    job = wire_normalise(&ml_job, in, "", &v);
    vertex_fields_refuse(ml_fields, job, &v);
    if (v.count == 0)
        custom_job = ml_translate(&vertex, job, &v);
    for (const struct wire_violation *p = v.first; p != NULL; p = p->next)
        ty_assert(p->field.len == 0 || memmem(p->field.ptr, p->field.len, "jobSpec", 7) == NULL ||
                  memmem(data, size, "jobSpec", 7) != NULL);
    if (v.count == 0)
        check_custom_job(&a, custom_job);
out:
    json_decref(in);
    json_decref(job);
    json_decref(custom_job);
    ty_arena_clear(&a);
    return 0;
}
