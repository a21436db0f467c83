/* test_machines.c -- which machines a job may ask for, by type and by setting. */
#include "base/test.h"
#include "vertex/vertex_int.h"

static const int64_t gb = INT64_C(1) << 30;

struct place {
    struct ty_arena arena;
    struct ty_config config;
    struct machine_host host;
};

static void place_init(struct place *p)
{
    *p = (struct place){.host = {.cpu_milli = 2000, .memory_bytes = 23 * gb}};
    ty_config_init(&p->config, &p->arena);
}

static void place_set(struct place *p, const char *key, const char *value)
{
    assert_ok(ty_config_set(&p->config, &p->arena, ty_str_of(key), ty_str_of(value)));
}

/* "field: message" of the first violation of a job with these pools; "" if there is none. */
static const char *check(struct place *p, const char *pools)
{
    json_t *spec;
    struct wire_violations v;
    wire_violations_init(&v, &p->arena);
    assert_ok(wire_json_parse(ty_str_of(ty_format(&p->arena, "{\"workerPoolSpecs\":[%s]}", pools)),
                              &spec));
    const struct vertex vertex = {.config = &p->config, .host = &p->host, .data_dir = "/nowhere"};
    vertex_machines_check(&vertex, spec, &v);
    json_decref(spec);
    if (v.count == 0)
        return "";
    return ty_format(&p->arena, TY_STR_FMT ": " TY_STR_FMT, TY_STR_ARG(v.first->field),
                     TY_STR_ARG(v.first->description));
}

#define POOL(n, machine)                                                                           \
    "{\"replicaCount\":\"" #n "\",\"machineSpec\":{" machine "},\"containerSpec\":{}}"
#define TYPE(name) "\"machineType\":\"" name "\""

static void machines_are_known_by_name(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    assert_string_equal(check(&p, POOL(1, TYPE("n1-standard-96"))), "");
    assert_string_equal(check(&p, POOL(1, "")), "");
    assert_string_equal(check(&p, "{\"replicaCount\":\"1\"}"), "");
    assert_string_equal(check(&p, POOL(1, TYPE("large_model")) ",{}," POOL(3, TYPE("n1-stand-4"))),
                        "jobSpec.workerPoolSpecs[2].machineSpec.machineType: no machine type is "
                        "called 'n1-stand-4'; did you mean n1-standard-4?");
    assert_string_equal(check(&p, POOL(1, "\"acceleratorCount\":1")),
                        "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorCount: needs "
                        "acceleratorType, such as NVIDIA_TESLA_T4");
    assert_string_equal(check(&p, POOL(1, "\"acceleratorCount\":0")), "");
    ty_arena_clear(&p.arena);
}

static void machines_too_large_are_refused_by_strict_alone(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    const char *large = POOL(1, TYPE("n1-standard-2")) "," POOL(2, TYPE("n1-standard-8"));
    assert_string_equal(check(&p, large), "");
    place_set(&p, "capacity", "fit");
    assert_string_equal(check(&p, large), "");
    place_set(&p, "capacity", "strict");
    assert_string_equal(check(&p, large),
                        "jobSpec.workerPoolSpecs[1].machineSpec.machineType: the job asks for 1 x "
                        "n1-standard-2 (2 CPUs, 7.5 GB) and 2 x n1-standard-8 (8 CPUs, 30 GB "
                        "each), 18 CPUs and 68 GB in all; this machine has 2 CPUs, 23 GB and no "
                        "GPU (setting capacity = strict; with fit or share it would run)");
    assert_string_equal(check(&p, POOL(1, TYPE("n1-standard-2"))), "");
    assert_non_null(strstr(check(&p, POOL(1, "")), "n1-standard-4")); /* the default is one, too */
    p.host.cpu_milli = 64000;
    assert_non_null(strstr(check(&p, POOL(1, TYPE("n1-highmem-8"))), "52 GB"));
    ty_arena_clear(&p.arena);
}

#define T4(n) "\"acceleratorType\":\"NVIDIA_TESLA_T4\",\"acceleratorCount\":" #n

static void accelerators_are_refused_where_the_setting_says_so(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    assert_string_equal(check(&p, POOL(1, T4(1))), "");
    place_set(&p, "accelerators", "wait");
    assert_string_equal(check(&p, POOL(1, T4(1))),
                        "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorType: up to here the "
                        "job asks for 1 accelerator (NVIDIA_TESLA_T4); this machine has 2 CPUs, 23 "
                        "GB and no GPU (setting accelerators = wait; with cpu it would run "
                        "without)");
    assert_non_null(strstr(check(&p, POOL(1, TYPE("g2-standard-4"))), "machineSpec.machineType:"));
    p.host.device_count = 2;
    p.host.devices[0] = (struct machine_device){.index = 0, .name = "NVIDIA L4"};
    p.host.devices[1] = (struct machine_device){.index = 1, .name = "NVIDIA L4"};
    assert_string_equal(check(&p, POOL(1, T4(1))), ""); /* one is as good as the other */
    assert_string_equal(check(&p, POOL(1, T4(1)) "," POOL(1, TYPE("g2-standard-4"))), "");
    assert_non_null(strstr(check(&p, POOL(1, T4(1)) "," POOL(2, T4(1))), "[1]"));
    assert_non_null(strstr(check(&p, POOL(1, TYPE("cloud_tpu"))), "TPU_V2"));
    place_set(&p, "accelerators", "refuse");
    assert_string_equal(check(&p, POOL(1, TYPE("g2-standard-24"))), "");
    assert_non_null(strstr(check(&p, POOL(1, T4(1))), "accelerators = refuse"));
    assert_non_null(strstr(check(&p, POOL(1, TYPE("g2-standard-48"))), "4 accelerators"));
    ty_arena_clear(&p.arena);
}

static const struct CMUnitTest tests[] = {
    TEST("machines/are_known_by_name", machines_are_known_by_name),
    TEST("machines/too_large_are_refused_by_strict_alone",
         machines_too_large_are_refused_by_strict_alone),
    TEST("accelerators/are_refused_where_the_setting_says_so",
         accelerators_are_refused_where_the_setting_says_so),
};
TEST_MAIN("vertex_machines", tests)
