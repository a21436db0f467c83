/* decide.c -- who starts now. Pure: rows in, decisions out. */
#include "sched/sched.h"

/* Why a job waits: for itself, and for who waits behind it. */
static const struct {
    const char *own, *behind;
} words[] = {
    [SCHED_WAIT_HELD] = {"the last start failed; it is tried again shortly", NULL},
    [SCHED_WAIT_STARTS] = {"other jobs are starting just now", "other jobs are starting just now"},
    [SCHED_WAIT_SLOTS] = {"waiting for replica slots (setting replica_slots)",
                          "waiting behind an older job that needs replica slots"},
    [SCHED_WAIT_JOBS] = {"waiting for a job slot (setting max_running_jobs)",
                         "waiting behind an older job that needs a job slot"},
    [SCHED_WAIT_CPU] = {"waiting for CPUs (setting capacity)",
                        "waiting behind an older job that needs CPUs"},
    [SCHED_WAIT_MEMORY] = {"waiting for memory (setting capacity)",
                           "waiting behind an older job that needs memory"},
    [SCHED_WAIT_DEVICES] = {"waiting for accelerators (setting accelerators)",
                            "waiting behind an older job that needs accelerators"},
};

const char *sched_wait_text(enum sched_wait wait, bool behind)
{
    return behind ? words[wait].behind : words[wait].own;
}

struct sched_room sched_room(const struct ty_config *config, const struct machine_host *host)
{
    return (struct sched_room){.all = {.jobs = machine_running_jobs(config, host),
                                       .replicas = (int)config->replica_slots,
                                       .cpu_milli = host->cpu_milli,
                                       .memory_bytes = host->memory_bytes,
                                       .devices = host->device_count},
                               .fit = machine_capacity(config) != CAPACITY_SHARE,
                               .wait_for_devices = machine_accelerators(config) != ACCELERATORS_CPU,
                               .starts = (int)config->start_burst};
}

static bool devices_are_free(const struct sched_amounts *ask, const struct sched_room *room)
{
    return ask->devices <= room->all.devices - room->used.devices;
}

/* What the job would have to wait for, were it the first in the queue. */
static enum sched_wait missing(const struct sched_amounts *ask, const struct sched_room *room)
{
    const struct sched_amounts *all = &room->all, *used = &room->used;
    if (room->starting >= room->starts)
        return SCHED_WAIT_STARTS;
    if (ask->replicas > all->replicas - used->replicas)
        return SCHED_WAIT_SLOTS;
    if (used->jobs >= all->jobs)
        return SCHED_WAIT_JOBS;
    /* Alone, it may have all of the machine, also if it wants more. */
    bool fit = room->fit && used->jobs > 0;
    if (fit && ask->cpu_milli > all->cpu_milli - used->cpu_milli)
        return SCHED_WAIT_CPU;
    if (fit && ask->memory_bytes > all->memory_bytes - used->memory_bytes)
        return SCHED_WAIT_MEMORY;
    if (room->wait_for_devices && !devices_are_free(ask, room))
        return SCHED_WAIT_DEVICES;
    return SCHED_WAIT_NONE;
}

static void start(struct sched_item *item, struct sched_room *room)
{
    item->start = true;
    item->devices = item->ask.devices > 0 && devices_are_free(&item->ask, room);
    room->used.jobs++;
    room->used.replicas += item->ask.replicas;
    room->used.cpu_milli += item->ask.cpu_milli;
    room->used.memory_bytes += item->ask.memory_bytes;
    room->used.devices += item->devices ? item->ask.devices : 0;
    room->starting++;
}

void sched_decide(struct sched_item *items, size_t count, struct sched_room room)
{
    enum sched_wait blocked = SCHED_WAIT_NONE; /* why nobody behind the first that waits starts */
    for (size_t i = 0; i < count; i++) {
        struct sched_item *item = &items[i];
        item->start = item->devices = item->expire = item->behind = false;
        item->wait = SCHED_WAIT_NONE;
        if (item->wait_left_ms <= 0) {
            item->expire = true;
        } else if (item->hold_ms > 0) {
            /* Its last start failed for a reason of the machine's; others may be luckier. */
            item->wait = SCHED_WAIT_HELD;
        } else if (blocked != SCHED_WAIT_NONE) {
            item->wait = blocked;
            item->behind = true;
        } else {
            item->wait = blocked = missing(&item->ask, &room);
            if (item->wait == SCHED_WAIT_NONE)
                start(item, &room);
        }
    }
}
