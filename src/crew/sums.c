/* sums.c -- sums in buckets, begun while the parts are still being computed, and what they cost.
 *
 * A bucket is ready in a rank when all parts that it owns are complete there, and buckets become
 * ready in their order, so how far a rank is is one number that only grows. Any thread counts it up
 * and any thread may then go on with the sums, one at a time: who finds `advancing` taken leaves it
 * to that one. What is left when the last part is complete is waited for by crew_sums_end. An
 * element is added up in the same tree whatever bucket it is in: cuts do not change bits.
 *
 * Each bucket costs something however small it is, and the last one cannot begin before the
 * computing ends: small buckets leave little to wait for, but are slow. crew_measure finds what a
 * sum costs here, fixed + floats * each, and from it the smallest bucket of which the fixed part is
 * a tenth of the rest; and, by computing during one, whether it is worth it at all: additions and
 * copies take their time from the computing whenever they are done, waiting does not. */
#include "crew/crew_int.h"

#include "tensor/tensor.h"

#include <sched.h>

enum {
    LEAST_ROUNDS = 3,
    MOST_ROUNDS = 12,
    ENOUGH_MS = 5, /* of measuring, after the least; */
    ENOUGH_MPI_MS = 60,
    SMALL_FLOATS = 256,
    LARGE_FLOATS = 1 << 17,
    LEAST_FLOATS = 1 << 14, /* fewer are not worth a cut anywhere */
    REST_BY_FIXED = 10,
    WORTH_BY = 3, /* a third of a sum must go along with computing */
    LAYERS = 4,
    LINE_FLOATS = 16,
};

static uint64_t call_of(const struct crew_sums *s)
{
    const uint64_t prime = UINT64_C(1099511628211), bits = (UINT64_C(1) << 56) - 1;
    uint64_t id = s->part_count;
    for (size_t i = 0; i < s->bucket_count; i++)
        id = (id * prime ^ s->buckets[i].from) * prime ^ s->buckets[i].count;
    return id & bits;
}

static bool summing_try(struct summing *s)
{
    return !__atomic_load_n(&s->advancing, __ATOMIC_RELAXED) &&
           !__atomic_exchange_n(&s->advancing, true, __ATOMIC_ACQUIRE);
}

/* Who has it does not wait for anybody. */
static void summing_take(struct summing *s)
{
    while (!summing_try(s))
        sched_yield();
}

static void summing_give(struct summing *s)
{
    __atomic_store_n(&s->advancing, false, __ATOMIC_RELEASE);
}

ty_err crew_sums_begin(struct crew *c, const struct crew_sums *s)
{
    ty_assert(s->part_count > 0 && s->part_count <= CREW_MOST_PARTS && s->bucket_count > 0);
    ty_assert(!c->sums.open && (s->bucket_count == 1 || s->out != s->parts[0]));
    ty_err err = crew_state(c);
    if (err != TY_OK)
        return err;
    summing_take(&c->sums);
    c->sums.of = *s;
    c->sums.call = call_of(s);
    c->sums.begun = c->sums.done = 0;
    for (size_t k = 0; k < s->part_count; k++)
        for (size_t i = 0; i < s->bucket_count && crew_owner(c, k, s->part_count) == c->rank; i++)
            c->bytes += s->buckets[i].count * sizeof *s->out;
    __atomic_store_n(&c->sums.open, true, __ATOMIC_RELEASE);
    if (c->way->sums_begin)
        err = c->way->sums_begin(c);
    __atomic_store_n(&c->sums.open, err == TY_OK, __ATOMIC_RELEASE);
    summing_give(&c->sums);
    return err;
}

void crew_sums_ready(struct crew *c)
{
    __atomic_add_fetch(c->sums.ready, 1, __ATOMIC_ACQ_REL);
}

void crew_sums_advance(struct crew *c)
{
    struct summing *s = &c->sums;
    if (!summing_try(s))
        return;
    if (s->open && s->of.bucket_count > 1 && !crew_failed(c))
        c->way->sums_advance(c);
    summing_give(s);
}

ty_err crew_sums_end(struct crew *c)
{
    struct summing *s = &c->sums;
    ty_assert(s->open);
    summing_take(s);
    __atomic_store_n(&s->open, false, __ATOMIC_RELEASE);
    summing_give(s);
    ty_err err = crew_state(c);
    if (err != TY_OK)
        return err;
    c->buckets += s->of.bucket_count > 1 ? s->of.bucket_count : 0;
    c->early += s->begun;
    __atomic_store_n(s->ready, s->before + (uint32_t)s->of.bucket_count, __ATOMIC_RELEASE);
    err = c->way->sums_end(c);
    s->before += (uint32_t)s->of.bucket_count;
    return err;
}

ty_err crew_sum(struct crew *c, const char *what, float *const *parts, size_t part_count,
                size_t count, float *out)
{
    const struct crew_bucket all = {.count = count};
    const struct crew_sums s = {what, parts, part_count, out, &all, 1};
    if (!c) {
        tensor_tree_sum_to(parts, part_count, count, out);
        return TY_OK;
    }
    ty_err err = crew_sums_begin(c, &s);
    return err == TY_OK ? crew_sums_end(c) : err;
}

/* ---- what they cost ---- */

/* Of each kind the fastest so far: the others met something. */
struct times {
    int64_t small_ns, large_ns, both_ns;
    int64_t from_ns; /* measuring began */
    int rounds;
};

static ty_err measure_sum(struct crew *c, const struct crew_sums *s, size_t count,
                          int64_t *least_ns)
{
    int64_t from_ns = ty_boot_ns();
    ty_err err = crew_sum(c, s->what, s->parts, s->part_count, count, s->out);
    int64_t took_ns = ty_boot_ns() - from_ns;
    *least_ns = took_ns < *least_ns ? took_ns : *least_ns;
    return err;
}

/* A sum during which this thread computes for so long, in a few layers: how long both take. */
static ty_err measure_both(struct crew *c, const struct crew_sums *s, size_t count,
                           int64_t compute_ns, int64_t *least_ns)
{
    const struct crew_bucket two[2] = {{LINE_FLOATS, count - LINE_FLOATS}, {0, LINE_FLOATS}};
    struct crew_sums both = *s;
    both.buckets = two;
    both.bucket_count = 2;
    int64_t from_ns = ty_boot_ns();
    ty_err err = crew_sums_begin(c, &both);
    if (err != TY_OK)
        return err;
    crew_sums_ready(c);
    for (int layer = 0; layer < LAYERS; layer++) {
        crew_sums_advance(c);
        int64_t began_ns = ty_thread_ns();
        while (ty_thread_ns() - began_ns < compute_ns / LAYERS)
            crew_relax();
    }
    err = crew_sums_end(c);
    int64_t took_ns = ty_boot_ns() - from_ns;
    *least_ns = took_ns < *least_ns ? took_ns : *least_ns;
    return err;
}

static ty_err measure_round(struct crew *c, const struct crew_sums *s, size_t large,
                            struct times *t)
{
    ty_err err = measure_sum(c, s, SMALL_FLOATS, &t->small_ns);
    if (err == TY_OK)
        err = measure_sum(c, s, large, &t->large_ns);
    if (err == TY_OK)
        err = measure_both(c, s, large, t->large_ns, &t->both_ns);
    t->rounds++;
    return err;
}

static struct crew_cost cost_of(const struct times *t, size_t large)
{
    double more_ns = t->large_ns > t->small_ns ? (double)(t->large_ns - t->small_ns) : 1;
    struct crew_cost cost = {.fixed_ns = (double)t->small_ns};
    cost.float_ns = more_ns / (double)(large - SMALL_FLOATS);
    cost.hidden = 2 - (double)t->both_ns / (double)t->large_ns;
    cost.hidden = cost.hidden < 0 ? 0 : cost.hidden > 1 ? 1 : cost.hidden;
    return cost;
}

/* What other threads of a rank can add up meanwhile goes along, too. */
static size_t bucket_of(const struct crew_cost *cost, size_t count, int threads)
{
    double bucket = REST_BY_FIXED * cost->fixed_ns / cost->float_ns;
    double along = cost->hidden + (1 - cost->hidden) * (threads - 1) / threads;
    if (along * WORTH_BY < 1 || bucket >= (double)count)
        return count;
    return bucket < LEAST_FLOATS ? LEAST_FLOATS : (size_t)bucket;
}

/* Rank 0's choice to all, and whether it has seen enough. */
static ty_err choice_share(struct crew *c, const char *what, const struct times *t, size_t bucket,
                           size_t *ret_bucket, bool *ret_over)
{
    uint64_t values[CREW_MOST_RANKS];
    int64_t enough_ms = c->mpi ? ENOUGH_MPI_MS : ENOUGH_MS;
    bool late = ty_boot_ns() - t->from_ns > enough_ms * 1000000;
    bool over = t->rounds >= MOST_ROUNDS || (t->rounds >= LEAST_ROUNDS && late);
    struct crew_call call = crew_call_of(CREW_AGREE, what, 1);
    call.value = (uint64_t)bucket << 1 | over;
    ty_err err = c->way->meet(c, &call, values);
    if (err != TY_OK)
        return err;
    *ret_bucket = (size_t)(values[0] >> 1);
    *ret_over = values[0] & 1;
    return TY_OK;
}

ty_err crew_measure(struct crew *c, float *const *parts, size_t part_count, size_t count,
                    float *out, int threads, struct crew_cost *ret_cost)
{
    const struct crew_sums s = {.what = "a measurement", parts, part_count, out};
    size_t large = count < LARGE_FLOATS ? count : LARGE_FLOATS;
    struct times t = {INT64_MAX, INT64_MAX, INT64_MAX, .from_ns = ty_boot_ns()};
    uint64_t bytes = c->bytes, buckets = c->buckets, early = c->early;
    struct crew_cost cost;
    struct crew_waits unwanted;
    *ret_cost = (struct crew_cost){.bucket = count};
    ty_err err = crew_state(c);
    if (err != TY_OK || count <= LEAST_FLOATS)
        return err;
    for (bool over = false; !over;) {
        err = measure_round(c, &s, large, &t);
        cost = cost_of(&t, large);
        if (err == TY_OK)
            err =
                choice_share(c, s.what, &t, bucket_of(&cost, count, threads), &cost.bucket, &over);
        if (err != TY_OK)
            return err;
    }
    crew_waits(c, &unwanted); /* this was no work */
    c->bytes = bytes;
    c->buckets = buckets;
    c->early = early;
    *ret_cost = cost;
    return TY_OK;
}
