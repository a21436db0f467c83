/* test_machine.c -- the table of types, and the machine as it is read, devices included. */
#include "base/test.h"
#include "machine/machine_int.h"

static const int64_t gb = INT64_C(1) << 30;
static struct ty_arena arena;

/* ---- types ---- */

static void type_has_its_public_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int cpus;
        const char *memory;
        int accelerators;
        const char *accelerator;
    } rows[] = {
        {"n1-standard-1", 1, "3.75 GB", 0, NULL},
        {"n1-standard-16", 16, "60 GB", 0, NULL},
        {"n1-highmem-2", 2, "13 GB", 0, NULL},
        {"n1-highcpu-16", 16, "14.4 GB", 0, NULL},
        {"n2-highmem-128", 128, "864 GB", 0, NULL},
        {"n2d-standard-224", 224, "896 GB", 0, NULL},
        {"e2-standard-2", 2, "8 GB", 0, NULL},
        {"c2-standard-30", 30, "120 GB", 0, NULL},
        {"c2d-highcpu-56", 56, "112 GB", 0, NULL},
        {"c3-standard-22", 22, "88 GB", 0, NULL},
        {"m1-ultramem-160", 160, "3844 GB", 0, NULL},
        {"a2-highgpu-2g", 24, "170 GB", 2, "NVIDIA_TESLA_A100"},
        {"a2-ultragpu-1g", 12, "170 GB", 1, "NVIDIA_A100_80GB"},
        {"g2-standard-24", 24, "96 GB", 2, "NVIDIA_L4"},
        {"standard", 4, "15 GB", 0, NULL},
        {"complex_model_m_gpu", 16, "60 GB", 4, "NVIDIA_TESLA_K80"},
        {"large_model_v100", 8, "52 GB", 1, "NVIDIA_TESLA_V100"},
        {"cloud_tpu", 4, "15 GB", 8, "TPU_V2"},
        {MACHINE_DEFAULT, 4, "15 GB", 0, NULL},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct machine_type type;
        assert_ok(machine_type_find(ty_str_of(rows[i].name), &type));
        assert_int_equal(type.cpu_milli, rows[i].cpus * 1000);
        assert_string_equal(machine_memory_text(&arena, type.memory_bytes), rows[i].memory);
        assert_int_equal(type.accelerators, rows[i].accelerators);
        assert_string_equal(type.accelerator ? type.accelerator : "",
                            rows[i].accelerator ? rows[i].accelerator : "");
    }
    ty_arena_clear(&arena);
}

static void type_mistyped_is_suggested(void **state)
{
    (void)state;
    static const struct {
        const char *wrong, *suggested;
    } rows[] = {
        {"n1-standrad-4", "; did you mean n1-standard-4?"},
        {"n1-standard-5", "; did you mean n1-standard-4?"},
        {"n1-standard-100", "; did you mean n1-standard-96?"},
        {"n1-standard-04", "; did you mean n1-standard-4?"},
        {"n1-standard-", "; did you mean n1-standard-"},
        {"N1-STANDARD-8", "; did you mean n1-standard-8?"},
        {"n1_standard_8", "; did you mean n1-standard-8?"},
        {"a2-highgpu-1", "; did you mean a2-highgpu-1g?"},
        {"standard_k80", "; did you mean standard_"},
        {"xyzzy", ": types are such as n1-standard-4"},
        {"", ": types are such as n1-standard-4"},
        {"n1-standard-99999999999999999999999999999999999", "types are such as n1-standard-4"},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct machine_type type;
        assert_err(TY_NOT_FOUND, machine_type_find(ty_str_of(rows[i].wrong), &type));
        if (!strstr(ty_err_message(), rows[i].suggested))
            fail_msg("'%s': %s", rows[i].wrong, ty_err_message());
    }
}

static void look_up(void *arg, ty_str name)
{
    struct machine_type type;
    assert_ok(machine_type_find(name, &type));
    assert_true(type.cpu_milli > 0 && type.memory_bytes > gb);
    assert_true((type.accelerators > 0) == (type.accelerator != NULL));
    ++*(int *)arg;
}

static void type_every_name_is_found(void **state)
{
    (void)state;
    int count = 0;
    machine_type_visit(look_up, &count);
    assert_true(count > 200);
}

/* ---- the host ---- */

static struct machine_host host_with(const char *library, const char *fake, const char *visible)
{
    struct machine_host host = {.cpu_milli = 2000, .memory_bytes = 23 * gb};
    if (fake)
        setenv("FAKE_NVML", fake, 1);
    nvml_read(library, visible, &host);
    return host;
}

static void host_finds_its_devices(void **state)
{
    (void)state;
    struct machine_host host = host_with(FAKE_NVML_SO, "2", NULL);
    assert_int_equal(host.device_count, 2);
    assert_int_equal(host.devices[1].index, 1);
    assert_string_equal(host.devices[0].name, "Tesla T4");
    assert_int_equal(host.devices[0].memory_bytes, 16 * gb);
    assert_string_equal(machine_host_text(&arena, &host), "2 CPUs, 23 GB and 2 GPUs (Tesla T4, …)");
    assert_true(machine_device_is(&host.devices[0], "NVIDIA_TESLA_T4"));
    assert_false(machine_device_is(&host.devices[0], "NVIDIA_L4"));
    assert_false(machine_device_is(&host.devices[0], "TPU_V2"));
    assert_true(machine_device_is(&host.devices[1], "NVIDIA_A100_80GB"));
    assert_true(machine_device_is(&host.devices[1], "NVIDIA_TESLA_A100"));
    assert_false(machine_device_is(&host.devices[1], "NVIDIA_H100_80GB"));
    ty_arena_clear(&arena);
}

static void host_respects_visible_devices(void **state)
{
    (void)state;
    assert_int_equal(host_with(FAKE_NVML_SO, "4", "").device_count, 0);
    assert_int_equal(host_with(FAKE_NVML_SO, "4", "-1").device_count, 0);
    assert_int_equal(host_with(FAKE_NVML_SO, "4", "GPU-1234").device_count, 4);
    struct machine_host host = host_with(FAKE_NVML_SO, "4", "3,1,-1,2");
    assert_int_equal(host.device_count, 2);
    assert_int_equal(host.devices[0].index, 1);
    assert_int_equal(host.devices[1].index, 3);
}

static void host_lives_without_devices(void **state)
{
    (void)state;
    ty_log_level_set(TY_LOG_ERROR);
    assert_int_equal(host_with("libno-such-thing.so.1", NULL, NULL).device_count, 0);
    assert_int_equal(host_with("libm.so.6", NULL, NULL).device_count, 0); /* no such functions */
    assert_int_equal(host_with(FAKE_NVML_SO, "dead", NULL).device_count, 0);
    assert_int_equal(host_with(FAKE_NVML_SO, "3,broken", NULL).device_count, 2);
    assert_int_equal(host_with(FAKE_NVML_SO, "1000", NULL).device_count, MACHINE_DEVICES);
    struct machine_host host = host_with(FAKE_NVML_SO, "0", NULL);
    assert_string_equal(machine_host_text(&arena, &host), "2 CPUs, 23 GB and no GPU");
    ty_arena_clear(&arena);
}

static void host_is_what_the_kernel_or_the_settings_say(void **state)
{
    (void)state;
    struct ty_config config;
    struct machine_host host;
    ty_config_init(&config, &arena);
    machine_host_read(&config, &host);
    assert_true(host.cpu_milli > 0 && host.memory_bytes > gb / 8);
    assert_true(machine_memory_ceiling(&host) <= host.memory_bytes);
    assert_true(machine_running_jobs(&config, &host) >= 4);
    assert_int_equal(machine_capacity(&config), CAPACITY_SHARE);
    assert_int_equal(machine_accelerators(&config), ACCELERATORS_CPU);
    assert_ok(ty_config_set(&config, &arena, TY_STR("machine_cpus"), TY_STR("16")));
    assert_ok(ty_config_set(&config, &arena, TY_STR("machine_memory_bytes"), TY_STR("4294967296")));
    assert_ok(ty_config_set(&config, &arena, TY_STR("capacity"), TY_STR("strict")));
    assert_ok(ty_config_set(&config, &arena, TY_STR("accelerators"), TY_STR("refuse")));
    machine_host_read(&config, &host);
    assert_int_equal(host.cpu_milli, 16000);
    assert_int_equal(machine_memory_ceiling(&host), 4 * gb - gb / 4);
    assert_int_equal(machine_running_jobs(&config, &host), 32);
    config.max_running_jobs = 3;
    assert_int_equal(machine_running_jobs(&config, &host), 3);
    assert_int_equal(machine_capacity(&config), CAPACITY_STRICT);
    assert_int_equal(machine_accelerators(&config), ACCELERATORS_REFUSE);
    assert_err(TY_INVALID_ARGUMENT,
               ty_config_set(&config, &arena, TY_STR("capacity"), TY_STR("most")));
    assert_string_equal(ty_err_message(), "capacity: 'most' is none of share | fit | strict");
    ty_arena_clear(&arena);
}

static const struct CMUnitTest tests[] = {
    TEST("type/has_its_public_numbers", type_has_its_public_numbers),
    TEST("type/mistyped_is_suggested", type_mistyped_is_suggested),
    TEST("type/every_name_is_found", type_every_name_is_found),
    TEST("host/finds_its_devices", host_finds_its_devices),
    TEST("host/respects_visible_devices", host_respects_visible_devices),
    TEST("host/lives_without_devices", host_lives_without_devices),
    TEST("host/is_what_the_kernel_or_the_settings_say",
         host_is_what_the_kernel_or_the_settings_say),
};
TEST_MAIN("machine", tests)
