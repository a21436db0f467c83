/* inside.c -- what a replica's container uses: the control group that its engine made for it.
 *
 * The replica's own group holds the engine's client only. The container's is not ours: the engine
 * makes it, where it likes, and removes it as soon as the program has ended. So it is found by a
 * process of the program, known by the marks in its environment (sweep.c; the client does not have
 * them), and read while it is there: often in the container's first seconds, for those that do not
 * last longer, then with everybody's samples. What is used after the last look is not counted.
 * Where the container has no group of its own nothing is: "not measured".
 *
 * A kill for memory is told by that group if it was seen there, or by the engine (0-0.oom). Neither
 * is certain: the group goes with its last process, and not every engine notices. Then the
 * machine's own counter has to do (judge, in conductor.c). */
#include "exec/exec_int.h"

enum { INSIDE_EVERY_MS = 100, INSIDE_OFTEN_MS = 10000, INSIDE_TEXT_BYTES = 1 << 20 };

static void find(struct conductor *c, struct replica *r)
{
    struct ty_arena a = {0};
    ty_str own = {0}, inside = {0}, mounts = {0};
    pid_t pid = sweep_find(c->setup.mark, r->plan);
    if (pid > 0 && ty_file_read(AT_FDCWD, "/proc/self/cgroup", INSIDE_TEXT_BYTES, &a, &own) == 0 &&
        ty_file_read(AT_FDCWD, "/proc/self/mountinfo", INSIDE_TEXT_BYTES, &a, &mounts) == TY_OK &&
        ty_file_read(AT_FDCWD, ty_format(&a, "/proc/%d/cgroup", (int)pid), INSIDE_TEXT_BYTES, &a,
                     &inside) == TY_OK) {
        cgroup_find_other(&c->arena, "", own, inside, mounts, &r->inside.place);
        r->inside.group = (struct cgroup){.name = "."};
        if (r->inside.place.version > 0)
            r->inside.group.place = &r->inside.place;
    }
    ty_arena_clear(&a);
}

void inside_look(struct conductor *c, struct replica *r)
{
    if (r->state != REPLICA_RUNNING)
        return;
    if (!r->inside.group.place)
        find(c, r);
    if (!r->inside.group.place)
        return;
    usage_look(&r->usage, &r->inside.group);
    if (cgroup_oom_kills(&r->inside.group) > 0)
        r->inside.killed = true;
}

static bool is_young(const struct replica *r, int64_t now_ms)
{
    return r->plan->container && r->state == REPLICA_RUNNING &&
           now_ms - r->usage.begin_ms < INSIDE_OFTEN_MS;
}

int64_t inside_next_ms(const struct conductor *c)
{
    int64_t now = ty_boot_ms();
    for (size_t i = 0; i < c->replica_count; i++)
        if (is_young(&c->replicas[i], now))
            return c->usage.inside_ms;
    return INT64_MAX;
}

void inside_tick(struct conductor *c, int64_t now_ms)
{
    if (now_ms < c->usage.inside_ms)
        return;
    for (size_t i = 0; i < c->replica_count; i++)
        if (is_young(&c->replicas[i], now_ms))
            inside_look(c, &c->replicas[i]);
    c->usage.inside_ms = now_ms + INSIDE_EVERY_MS;
}

const char *inside_method(const struct replica *r)
{
    const char *group = cgroup_place_name(r->inside.group.place);
    return group ? group : "not measured";
}

int64_t inside_oom_kills(const struct conductor *c, const struct replica *r)
{
    bool told = container_oom_told(c->dirfd, r->plan->pool, r->plan->index);
    return told || r->inside.killed ? 1 : -1;
}
