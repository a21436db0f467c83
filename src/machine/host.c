/* host.c -- what this machine has: CPUs and memory by the kernel, or less where a container limits
 * us; and the words for it. */
#include "machine/machine_int.h"

#include <sched.h>

static const int64_t gb = INT64_C(1) << 30, mb = INT64_C(1) << 20;

/* The first two numbers of a small file; those it lacks ("max") stay as they are. */
static void file_numbers(const char *path, int64_t *first, int64_t *second)
{
    struct ty_arena a = {0};
    ty_str text, word;
    int64_t *out[] = {first, second};
    if (ty_file_read(AT_FDCWD, path, 4096, &a, &text) == TY_OK) {
        text = ty_str_trim(text);
        for (size_t i = 0; i < TY_COUNT(out); i++) {
            int64_t n;
            ty_str_split(&text, ' ', &word);
            if (ty_parse_i64(word, &n) == TY_OK)
                *out[i] = n;
        }
    }
    ty_arena_clear(&a);
}

static int64_t host_cpu_milli(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int64_t milli = (count > 0 ? count : 1) * INT64_C(1000);
    int64_t quota_us = 0, period_us = 0;
    file_numbers("/sys/fs/cgroup/cpu.max", &quota_us, &period_us);
    if (quota_us > 0 && quota_us < INT64_MAX / 1000 && period_us > 0) {
        int64_t limit = quota_us * 1000 / period_us;
        milli = limit < 1 ? 1 : limit < milli ? limit : milli;
    }
    return milli;
}

static int64_t host_memory_bytes(void)
{
    int64_t all = sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE), limit = 0, none = 0;
    file_numbers("/sys/fs/cgroup/memory.max", &limit, &none);
    return limit > 0 && limit < all ? limit : all;
}

void machine_host_read(const struct ty_config *config, struct machine_host *ret_host)
{
    *ret_host = (struct machine_host){
        .cpu_milli = config->machine_cpus > 0 ? config->machine_cpus * 1000 : host_cpu_milli(),
        .memory_bytes =
            config->machine_memory_bytes > 0 ? config->machine_memory_bytes : host_memory_bytes()};
    if (config->nvml_library[0])
        nvml_read(config->nvml_library, getenv("CUDA_VISIBLE_DEVICES"), ret_host);
}

int64_t machine_memory_ceiling(const struct machine_host *host)
{
    int64_t reserve = host->memory_bytes / 16 > 256 * mb ? host->memory_bytes / 16 : 256 * mb;
    return host->memory_bytes > 2 * reserve ? host->memory_bytes - reserve : host->memory_bytes;
}

/* ---- settings: config.c has checked the words ---- */

enum machine_capacity machine_capacity(const struct ty_config *config)
{
    ty_str word = ty_str_of(config->capacity);
    return ty_str_is(word, "fit")      ? CAPACITY_FIT
           : ty_str_is(word, "strict") ? CAPACITY_STRICT
                                       : CAPACITY_SHARE;
}

enum machine_accelerators machine_accelerators(const struct ty_config *config)
{
    ty_str word = ty_str_of(config->accelerators);
    return ty_str_is(word, "wait")     ? ACCELERATORS_WAIT
           : ty_str_is(word, "refuse") ? ACCELERATORS_REFUSE
                                       : ACCELERATORS_CPU;
}

int machine_running_jobs(const struct ty_config *config, const struct machine_host *host)
{
    int64_t twice = host->cpu_milli / 500;
    if (config->max_running_jobs > 0)
        return (int)config->max_running_jobs;
    return twice < 4 ? 4 : (int)twice;
}

/* ---- words ---- */

/* "8", "3.75": at most two digits after the point, none that are 0. */
static const char *number_text(struct ty_arena *a, int64_t hundredths)
{
    int64_t whole = hundredths / 100, rest = hundredths % 100;
    if (rest == 0)
        return ty_format(a, "%" PRId64, whole);
    if (rest % 10 == 0)
        return ty_format(a, "%" PRId64 ".%" PRId64, whole, rest / 10);
    return ty_format(a, "%" PRId64 ".%02" PRId64, whole, rest);
}

const char *machine_cpus_text(struct ty_arena *a, int64_t cpu_milli)
{
    return ty_format(a, "%s CPU%s", number_text(a, cpu_milli / 10), cpu_milli == 1000 ? "" : "s");
}

const char *machine_memory_text(struct ty_arena *a, int64_t bytes)
{
    /* Above 20 GB nobody wants the digits after the point: 22.9 is 23. */
    int64_t hundredths = (bytes / mb * 100 + 512) / 1024;
    if (bytes >= 20 * gb)
        hundredths = (hundredths + 50) / 100 * 100;
    return ty_format(a, "%s GB", number_text(a, hundredths));
}

const char *machine_host_text(struct ty_arena *a, const struct machine_host *host)
{
    const char *gpus = "no GPU";
    if (host->device_count > 0)
        gpus =
            ty_format(a, "%d GPU%s (%s%s)", host->device_count, host->device_count == 1 ? "" : "s",
                      host->devices[0].name, host->device_count == 1 ? "" : ", …");
    return ty_format(a, "%s, %s and %s", machine_cpus_text(a, host->cpu_milli),
                     machine_memory_text(a, host->memory_bytes), gpus);
}
