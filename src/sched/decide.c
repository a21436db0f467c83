/* decide.c -- who starts now. Pure: rows in, decisions out. */
#include "sched/sched.h"

void sched_decide(struct sched_item *items, size_t count, struct sched_room room)
{
    const char *blocked = NULL; /* why nobody behind the first that must wait may start */
    for (size_t i = 0; i < count; i++) {
        struct sched_item *item = &items[i];
        item->start = item->expire = false;
        item->reason = NULL;
        if (item->wait_left_ms <= 0) {
            item->expire = true;
            continue;
        }
        if (item->hold_ms > 0) {
            /* Its last start failed for a reason of the machine's; others may be luckier. */
            item->reason = "the last start failed; it is tried again shortly";
            continue;
        }
        if (blocked) {
            item->reason = blocked;
            continue;
        }
        if (room.starting >= room.starts) {
            item->reason = blocked = "other jobs are starting just now";
        } else if (item->replicas > room.slots - room.slots_used) {
            item->reason = "waiting for replica slots (setting replica_slots)";
            blocked = "waiting behind an older job that needs replica slots";
        } else {
            item->start = true;
            room.slots_used += item->replicas;
            room.starting++;
        }
    }
}
