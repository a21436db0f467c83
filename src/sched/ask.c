/* ask.c -- what a job asks for, summed over its replicas, and in words what it has instead. */
#include "sched/sched_int.h"

#include "wire/wire.h"

enum {
    MAX_POOLS = 4,
    MAX_ACCELERATORS = 100000, /* a replica; more is as good as this */
    TEXT_BYTES = 4096,
};

void sched_pool_read(const json_t *pool, struct sched_pool *ret_pool)
{
    const json_t *machine = json_object_get(pool, "machineSpec");
    ty_str name = wire_json_get_str(machine, "machineType");
    ty_str accelerator = wire_json_get_str(machine, "acceleratorType");
    struct sched_pool p = {.replicas = exec_pool_replicas(pool), .name = name};
    p.named = name.len > 0 && machine_type_find(name, &p.type) == TY_OK;
    if (!p.named) {
        p.name = TY_STR(MACHINE_DEFAULT);
        ty_assert(machine_type_find(p.name, &p.type) == TY_OK);
    }
    if (accelerator.len > 0 && !ty_str_is(accelerator, "ACCELERATOR_TYPE_UNSPECIFIED")) {
        const json_t *count = json_object_get(machine, "acceleratorCount");
        int64_t n = count ? json_integer_value(count) : 1;
        p.type.accelerators = (int)(n < 0 ? 0 : n > MAX_ACCELERATORS ? MAX_ACCELERATORS : n);
        p.type.accelerator = p.type.accelerators > 0 ? accelerator.ptr : NULL;
    }
    if (ty_str_starts(ty_str_of(p.type.accelerator), TY_STR("NVIDIA_")))
        p.devices = p.type.accelerators;
    *ret_pool = p;
}

/* The pools that have replicas. */
static size_t pools_read(const json_t *spec, struct sched_pool pools[MAX_POOLS])
{
    const json_t *list = json_object_get(spec, "workerPoolSpecs");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list) && count < MAX_POOLS; i++) {
        sched_pool_read(json_array_get(list, i), &pools[count]);
        count += pools[count].replicas > 0;
    }
    return count;
}

struct sched_amounts sched_ask(const json_t *spec)
{
    struct sched_pool pools[MAX_POOLS];
    struct sched_amounts sum = {.jobs = 1};
    size_t count = pools_read(spec, pools);
    for (size_t i = 0; i < count; i++) {
        sum.replicas += (int)pools[i].replicas;
        sum.cpu_milli += pools[i].replicas * pools[i].type.cpu_milli;
        sum.memory_bytes += pools[i].replicas * pools[i].type.memory_bytes;
        sum.devices += (int)pools[i].replicas * pools[i].devices;
    }
    return sum;
}

bool sched_is_larger(const struct sched_amounts *ask, const struct machine_host *host)
{
    return ask->cpu_milli > host->cpu_milli || ask->memory_bytes > host->memory_bytes;
}

struct exec_share *sched_shares(struct ty_arena *a, const struct machine_host *host,
                                const json_t *spec, ty_str devices)
{
    struct sched_pool pools[MAX_POOLS];
    size_t count = pools_read(spec, pools), n = 0;
    int64_t ceiling = machine_memory_ceiling(host);
    struct exec_share *shares =
        ty_new_array(a, struct exec_share, (size_t)exec_replica_count(spec) + 1);
    for (size_t i = 0; i < count; i++) {
        const struct machine_type *type = &pools[i].type;
        bool enough = pools[i].named && type->memory_bytes < ceiling;
        for (int64_t k = 0; k < pools[i].replicas; k++) {
            ty_str own;
            ty_str_split(&devices, ';', &own);
            shares[n] = (struct exec_share){.cpu_milli = type->cpu_milli,
                                            .memory_bytes = enough ? type->memory_bytes : ceiling};
            if (own.len > 0)
                shares[n].devices = ty_cstr(a, own);
            else if (host->device_count > 0 || type->accelerators > 0)
                shares[n].devices = "-1";
            n++;
        }
    }
    return shares;
}

/* ---- words ---- */

static void add_pool(struct ty_arena *a, struct ty_buf *b, const struct sched_pool *p)
{
    const char *each = p->replicas > 1 ? " each" : "";
    ty_buf_addf(b, "%" PRId64 " x " TY_STR_FMT " (%s, %s%s)", p->replicas, TY_STR_ARG(p->name),
                machine_cpus_text(a, p->type.cpu_milli),
                machine_memory_text(a, p->type.memory_bytes), each);
    if (p->type.accelerator)
        ty_buf_addf(b, " with %d %s%s", p->type.accelerators, p->type.accelerator, each);
}

static bool same_machine(const struct sched_pool *p, const struct sched_pool *q)
{
    return ty_str_eq(p->name, q->name) && p->type.accelerators == q->type.accelerators &&
           ty_str_eq(ty_str_of(p->type.accelerator), ty_str_of(q->type.accelerator));
}

const char *sched_asked_text(struct ty_arena *a, const json_t *spec)
{
    struct sched_pool pools[MAX_POOLS];
    size_t count = pools_read(spec, pools), kinds = 0;
    for (size_t i = 0; i < count; i++) { /* chief and workers are often the same machine */
        size_t k = 0;
        while (k < kinds && !same_machine(&pools[k], &pools[i]))
            k++;
        if (k < kinds)
            pools[k].replicas += pools[i].replicas;
        else
            pools[kinds++] = pools[i];
    }
    struct ty_buf b;
    ty_buf_init(&b, TEXT_BYTES);
    for (size_t k = 0; k < kinds; k++) {
        ty_buf_addz(&b, k == 0 ? "" : k + 1 < kinds ? ", " : " and ");
        add_pool(a, &b, &pools[k]);
    }
    const char *text = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

/* "GPU 0 (Tesla T4) and GPU 1 (Tesla T4)" */
static void add_devices(struct ty_buf *b, const struct machine_host *host, ty_str devices)
{
    int named = 0, count = devices_count(host, devices);
    for (int index; (index = devices_next(&devices)) >= 0;)
        for (int i = 0; i < host->device_count; i++)
            if (host->devices[i].index == index)
                ty_buf_addf(b, "%sGPU %d (%s)",
                            named++ == 0    ? ""
                            : named < count ? ", "
                                            : " and ",
                            index, host->devices[i].name);
}

/* What was cut, and how: the clauses after the colon. */
struct cut {
    bool cpu;       /* more CPUs than there are */
    bool memory;    /* a replica wants more memory than it may have */
    bool devices;   /* accelerators it did not get */
    bool larger;    /* than the machine, by CPUs or memory */
    bool has_some;  /* devices were given */
    bool installed; /* the machine has as many devices */
};

static struct cut cut_find(const struct machine_host *host, const json_t *spec, ty_str devices)
{
    struct sched_pool pools[MAX_POOLS];
    size_t count = pools_read(spec, pools);
    struct sched_amounts ask = sched_ask(spec);
    struct cut cut = {.cpu = ask.cpu_milli > host->cpu_milli,
                      .larger = sched_is_larger(&ask, host),
                      .has_some = devices_count(host, devices) > 0,
                      .installed = ask.devices > 0 && ask.devices <= host->device_count};
    for (size_t i = 0; i < count; i++) {
        const struct machine_type *type = &pools[i].type;
        cut.memory |= pools[i].named && type->memory_bytes > machine_memory_ceiling(host);
        cut.devices |= type->accelerators > 0 && (!cut.has_some || !pools[i].devices);
    }
    return cut;
}

const char *sched_note(struct ty_arena *a, const struct ty_config *config,
                       const struct machine_host *host, const json_t *spec, ty_str devices)
{
    struct cut cut = cut_find(host, spec, devices);
    const char *sep = ":";
    struct ty_buf b;
    if (!cut.cpu && !cut.memory && !cut.devices && !cut.larger && !cut.has_some)
        return NULL;
    ty_buf_init(&b, TEXT_BYTES);
    ty_buf_addf(&b, "Asked for %s; this machine has %s", sched_asked_text(a, spec),
                machine_host_text(a, host));
    if (cut.larger && machine_capacity(config) != CAPACITY_SHARE) {
        ty_buf_addf(&b, "%s it runs alone on all of it", sep);
        sep = ";";
    } else if (cut.cpu) {
        ty_buf_addf(&b, "%s its replicas share these CPUs with what else runs, by weight", sep);
        sep = ";";
    }
    if (cut.memory) {
        ty_buf_addf(&b, "%s a replica may use %s of memory", sep,
                    machine_memory_text(a, machine_memory_ceiling(host)));
        sep = ";";
    }
    if (cut.has_some) {
        ty_buf_addf(&b, "%s it was given ", sep);
        add_devices(&b, host, devices);
        sep = ";";
    }
    if (cut.devices)
        ty_buf_addf(&b, "%s %s", sep,
                    cut.installed ? "too few of the GPUs are free, so it runs on CPU (setting "
                                    "accelerators)"
                                  : "it runs on CPU, without the accelerators (setting "
                                    "accelerators)");
    ty_buf_addc(&b, '.');
    const char *text = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}
