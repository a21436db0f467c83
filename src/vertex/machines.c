/* machines.c -- what a job asks of the machine, checked when it is submitted.
 *
 * A type that nobody knows is a mistyped one. What is too large is refused only where the settings
 * capacity and accelerators say so; else it is cut, and the job's log says how (sched.h). */
#include "vertex/vertex_int.h"

static const char *pool_field(struct wire_violations *v, size_t pool, const char *name)
{
    return ty_format(v->arena, "jobSpec.workerPoolSpecs[%zu].machineSpec.%s", pool, name);
}

static void names_check(const json_t *machine, size_t pool, struct wire_violations *v)
{
    ty_str name = wire_json_get_str(machine, "machineType");
    ty_str accelerator = wire_json_get_str(machine, "acceleratorType");
    struct machine_type type;
    if (name.len > 0 && machine_type_find(name, &type) != TY_OK)
        wire_violation_add(v, pool_field(v, pool, "machineType"), "%s", ty_err_message());
    if (json_integer_value(json_object_get(machine, "acceleratorCount")) > 0 &&
        (accelerator.len == 0 || ty_str_is(accelerator, "ACCELERATOR_TYPE_UNSPECIFIED")))
        wire_violation_add(v, pool_field(v, pool, "acceleratorCount"),
                           "needs acceleratorType, such as NVIDIA_TESLA_T4");
}

/* How many devices there are that will do for this pool. */
static int devices_fit(const struct vertex *vertex, const struct sched_pool *p)
{
    int count = 0;
    bool any = machine_accelerators(vertex->config) != ACCELERATORS_REFUSE;
    for (int i = 0; p->devices > 0 && i < vertex->host->device_count; i++)
        count += any || machine_device_is(&vertex->host->devices[i], p->type.accelerator);
    return count;
}

/* With accelerators = wait or refuse: a job whose devices could never be free at once. */
static void accelerators_check(const struct vertex *vertex, const json_t *pools,
                               struct wire_violations *v)
{
    int64_t wanted = 0;
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        struct sched_pool p;
        sched_pool_read(pool, &p);
        int64_t own = p.replicas * p.type.accelerators;
        wanted += own;
        if (own == 0 || (own <= devices_fit(vertex, &p) && wanted <= vertex->host->device_count))
            continue;
        ty_str given = wire_json_get_str(json_object_get(pool, "machineSpec"), "acceleratorType");
        wire_violation_add(v, pool_field(v, i, given.len ? "acceleratorType" : "machineType"),
                           "up to here the job asks for %" PRId64
                           " accelerator%s (%s); this machine "
                           "has %s (setting accelerators = %s; with cpu it would run without)",
                           wanted, wanted == 1 ? "" : "s", p.type.accelerator,
                           machine_host_text(v->arena, vertex->host), vertex->config->accelerators);
        return;
    }
}

/* With capacity = strict: a job that is larger than the machine. */
static void size_check(const struct vertex *vertex, const json_t *spec, struct wire_violations *v)
{
    const json_t *pools = json_object_get(spec, "workerPoolSpecs");
    const struct machine_host *host = vertex->host;
    struct sched_amounts ask = sched_ask(spec);
    size_t largest = 0;
    int64_t most = -1;
    if (!sched_is_larger(&ask, host))
        return;
    for (size_t i = 0; i < json_array_size(pools); i++) {
        struct sched_pool p;
        sched_pool_read(json_array_get(pools, i), &p);
        if (p.replicas * p.type.cpu_milli > most) {
            most = p.replicas * p.type.cpu_milli;
            largest = i;
        }
    }
    wire_violation_add(v, pool_field(v, largest, "machineType"),
                       "the job asks for %s, %s and %s in all; this machine has %s (setting "
                       "capacity = strict; with fit or share it would run)",
                       sched_asked_text(v->arena, spec), machine_cpus_text(v->arena, ask.cpu_milli),
                       machine_memory_text(v->arena, ask.memory_bytes),
                       machine_host_text(v->arena, host));
}

void vertex_machines_check(const struct vertex *vertex, const json_t *spec,
                           struct wire_violations *v)
{
    const json_t *pools = json_object_get(spec, "workerPoolSpecs");
    size_t before = v->count;
    for (size_t i = 0; i < json_array_size(pools); i++)
        names_check(json_object_get(json_array_get(pools, i), "machineSpec"), i, v);
    if (v->count > before)
        return; /* sizes of types that are not meant help nobody */
    if (machine_accelerators(vertex->config) != ACCELERATORS_CPU)
        accelerators_check(vertex, pools, v);
    if (machine_capacity(vertex->config) == CAPACITY_STRICT)
        size_check(vertex, spec, v);
}
