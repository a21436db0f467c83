/* claims.c -- one change of a name at a time.
 *
 * A commit and the rename that follows it must come in the same order for all changes of one name.
 * So who changes a name claims it from before its commit until its files are in place. A claim is a
 * number in a short list; the list's lock is never held across I/O. Different names never wait for
 * each other, but for the rare pair whose hashes are equal. */
#include "objects/objects_int.h"

enum { CLAIM_WAIT_S = 30 };

static bool is_claimed(const struct objects *o, uint64_t a)
{
    for (size_t i = 0; i < o->claim_count; i++)
        if (o->claims[i] == a)
            return true;
    return false;
}

static bool take_now(struct objects *o, uint64_t a, uint64_t b)
{
    if (o->claim_count + 2 > CLAIM_LIMIT || is_claimed(o, a) || (b && is_claimed(o, b)))
        return false;
    o->claims[o->claim_count++] = a;
    if (b && b != a)
        o->claims[o->claim_count++] = b;
    return true;
}

ty_err claim_take(struct objects *o, uint64_t a, uint64_t b)
{
    int64_t deadline_ns = ty_boot_ns() + (int64_t)CLAIM_WAIT_S * 1000000000;
    pthread_mutex_lock(&o->claim_lock);
    bool taken = take_now(o, a, b);
    while (!taken && ty_boot_ns() < deadline_ns) {
        /* woken by a release; looks again anyway */
        ty_cond_wait_ms(&o->claim_free, &o->claim_lock, 1000);
        taken = take_now(o, a, b);
    }
    pthread_mutex_unlock(&o->claim_lock);
    return taken ? TY_OK
                 : ty_fail(TY_UNAVAILABLE,
                           "another change of this object has not ended for %d s: try again later",
                           CLAIM_WAIT_S);
}

bool claim_try(struct objects *o, uint64_t a)
{
    pthread_mutex_lock(&o->claim_lock);
    bool taken = take_now(o, a, 0);
    pthread_mutex_unlock(&o->claim_lock);
    return taken;
}

void claim_release(struct objects *o, uint64_t a, uint64_t b)
{
    pthread_mutex_lock(&o->claim_lock);
    for (size_t i = o->claim_count; i-- > 0;)
        if (o->claims[i] == a || (b && o->claims[i] == b))
            o->claims[i] = o->claims[--o->claim_count];
    pthread_cond_broadcast(&o->claim_free);
    pthread_mutex_unlock(&o->claim_lock);
}
