/* members.c -- workers as a server sees them: who is alive, how far each has come, who may go on.
 *
 * A worker's clock counts its steps. The gate lets it begin one
 *   M1  when the least clock of those alive is at most `staleness` behind its own, and
 *   M2  when a step is left: those that have begun and not yet pushed count as done.
 *   M3  An update beyond the last step is not applied: of one who was silent, and came back to it.
 *   M4  The last steps of a run are made one after another, each with the newest values: gradients
 *       of older ones make the weights jump from step to step, and the run would end somewhere in a
 *       jump. Few are enough, so it costs little, however many the workers are.
 *
 * Who is silent leaves the counts; who comes (again) starts at the least clock, so nobody waits for
 * steps that a newcomer never made. */
#include "ps/ps_int.h"

uint64_t ps_members_least(const struct ps_members *m, size_t *ret_who)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < m->count; i++)
        if (m->list[i].live && m->list[i].clock < least) {
            least = m->list[i].clock;
            *ret_who = i;
        }
    return least;
}

void ps_members_heard(struct ps_members *m, size_t worker, int64_t now_ms)
{
    struct ps_member *me = &m->list[worker];
    size_t who;
    uint64_t least = me->live ? 0 : ps_members_least(m, &who);
    if (!me->live && least != UINT64_MAX && me->clock < least)
        me->clock = least;
    me->known = me->live = true;
    me->heard_ms = now_ms;
}

size_t ps_members_silent(struct ps_members *m, int64_t now_ms)
{
    for (size_t i = 0; i < m->count; i++) {
        struct ps_member *me = &m->list[i];
        if (me->live && now_ms - me->heard_ms > PS_SILENT_MS) {
            me->live = me->begun = me->held.waits = false;
            memset(me->told, 0, sizeof me->told);
            return i;
        }
    }
    return SIZE_MAX;
}

void ps_members_excuse(struct ps_members *m, int64_t ms)
{
    for (size_t i = 0; i < m->count; i++)
        m->list[i].heard_ms += ms;
}

bool ps_watcher_silent(struct ps_watcher *w, int64_t now_ms, bool over)
{
    if (!w->live || now_ms - w->heard_ms <= PS_SILENT_MS)
        return false;
    w->live = false;
    return !over;
}

bool ps_members_in_turn(const struct ps_members *m, uint64_t version)
{
    enum { MOST = 100, PART = 20 };
    uint64_t last = m->steps / (PART * m->count);
    return version + (last < MOST ? last : MOST) >= m->steps;
}

bool ps_members_gate(const struct ps_members *m, size_t worker, uint64_t clock, uint64_t version,
                     size_t *ret_who)
{
    uint64_t begun = 0;
    for (size_t i = 0; i < m->count; i++)
        if (i != worker && m->list[i].live && m->list[i].begun) {
            *ret_who = i;
            begun++;
        }
    if (version + begun >= m->steps || (begun > 0 && ps_members_in_turn(m, version)))
        return false;
    uint64_t least = ps_members_least(m, ret_who);
    return m->staleness < 0 || clock <= least || clock - least <= (uint64_t)m->staleness;
}
