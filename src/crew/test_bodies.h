/* test_bodies.h -- what ranks do in the tests, whatever carries it: shared memory or MPI. */
#ifndef TY_TEST_BODIES_H
#define TY_TEST_BODIES_H

#include "crew/test_ranks.h"
#include "tensor/tensor.h"

/* ---- sums ---- */

enum { MOST_FLOATS = 70001, MOST_PARTS = 8 };
static const size_t counts[] = {1, 15, 17, 1000, 5003, MOST_FLOATS};
static const size_t part_counts[] = {1, 3, 4, 6, 8};

/* Numbers of very different sizes: another order would give other bits. */
static inline void part_fill(float *part, size_t k, size_t count)
{
    tensor_normal(11, k, 0, k % 2 ? 1e4f : 1e-3f, part, count);
}

static inline void expect(float *want, size_t parts, size_t count)
{
    float *own[MOST_PARTS];
    for (size_t k = 0; k < parts; k++) {
        own[k] = malloc(count * sizeof(float));
        ty_assert(own[k]);
        part_fill(own[k], k, count);
    }
    tensor_tree_sum(own, parts, count);
    memcpy(want, own[0], count * sizeof(float));
    for (size_t k = 0; k < parts; k++)
        free(own[k]);
}

static inline ty_err compare(const float *got, const float *want, size_t parts, size_t count)
{
    return memcmp(got, want, count * sizeof(float)) == 0
               ? TY_OK
               : ty_fail(TY_INTERNAL, "%zu parts of %zu floats: other bits", parts, count);
}

static inline ty_err sum_all(struct crew *c, void *arg)
{
    bool in_place = arg != NULL;
    float *parts[MOST_PARTS], *out, *want = malloc(MOST_FLOATS * sizeof(float));
    ty_assert(want);
    void *room;
    ty_err err = crew_room(c, (MOST_PARTS + 1) * MOST_FLOATS * sizeof(float), &room);
    for (size_t p = 0; p < TY_COUNT(part_counts) && err == TY_OK; p++)
        for (size_t i = 0; i < TY_COUNT(counts) && err == TY_OK; i++) {
            for (size_t k = 0; k < part_counts[p]; k++) {
                parts[k] = (float *)room + k * counts[i];
                if (crew_owner(c, k, part_counts[p]) == crew_rank(c))
                    part_fill(parts[k], k, counts[i]);
            }
            out = in_place ? parts[0] : (float *)room + MOST_PARTS * MOST_FLOATS;
            expect(want, part_counts[p], counts[i]);
            err = crew_sum(c, "numbers", parts, part_counts[p], counts[i], out);
            if (err == TY_OK)
                err = compare(out, want, part_counts[p], counts[i]);
            if (err == TY_OK)
                err = crew_meet(c, "next"); /* `out` may be written again */
        }
    free(want);
    return err;
}

/* ---- sums in buckets ---- */

enum { MOST_BUCKETS = 5 };

/* Pieces of `count` floats, the last first. */
static inline size_t cut(size_t count, struct crew_bucket *buckets)
{
    size_t lines = (count + 15) / 16, n = 0, end = count;
    for (size_t i = MOST_BUCKETS; i-- > 0;) {
        size_t from = lines * i / MOST_BUCKETS * 16;
        if (from < end)
            buckets[n++] = (struct crew_bucket){from, end - from};
        end = from < end ? from : end;
    }
    return n;
}

struct helper {
    struct crew *crew;
    bool stop;
    pthread_mutex_t calls; /* it may not advance during another call */
};

static inline void *helper_run(void *arg)
{
    struct helper *h = arg;
    while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&h->calls);
        crew_sums_advance(h->crew);
        pthread_mutex_unlock(&h->calls);
        usleep(1);
    }
    return NULL;
}

/* Compute bucket by bucket, at this rank's own pace; other calls come in between. */
static inline ty_err buckets_compute(struct crew *c, const struct crew_sums *s, size_t count,
                                     struct helper *h)
{
    static unsigned dice = 1;
    float *all = malloc(count * sizeof(float));
    ty_err err = TY_OK;
    ty_assert(all);
    for (size_t i = 0; i < s->bucket_count && err == TY_OK; i++) {
        const struct crew_bucket *b = &s->buckets[i];
        for (size_t k = 0; k < s->part_count; k++)
            if (crew_owner(c, k, s->part_count) == crew_rank(c)) {
                part_fill(all, k, count);
                memcpy(s->parts[k] + b->from, all + b->from, b->count * sizeof(float));
            }
        crew_sums_ready(c);
        pthread_mutex_lock(&h->calls);
        if (i % 2 == 0)
            err = crew_meet(c, "in between");
        pthread_mutex_unlock(&h->calls);
        dice = dice * 1103515245 + 12345 + (unsigned)crew_rank(c);
        if (dice >> 16 & 1)
            usleep(dice >> 17 & 255);
        crew_sums_advance(c);
    }
    free(all);
    return err;
}

static inline ty_err bucket_sum(struct crew *c, float *room, size_t parts, size_t count)
{
    struct crew_bucket buckets[MOST_BUCKETS];
    float *at[MOST_PARTS], *out = room + MOST_PARTS * MOST_FLOATS;
    struct crew_sums s = {"numbers", at, parts, out, buckets, cut(count, buckets)};
    struct helper h = {.crew = c, .calls = PTHREAD_MUTEX_INITIALIZER};
    struct crew_waits before, after;
    pthread_t thread;
    for (size_t k = 0; k < parts; k++)
        at[k] = room + k * MOST_FLOATS;
    crew_waits(c, &before);
    ty_err err = crew_sums_begin(c, &s);
    if (err != TY_OK)
        return err;
    ty_assert(pthread_create(&thread, NULL, helper_run, &h) == 0);
    err = buckets_compute(c, &s, count, &h);
    __atomic_store_n(&h.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    ty_err end = crew_sums_end(c);
    if (err != TY_OK || end != TY_OK)
        return err != TY_OK ? err : end;
    crew_waits(c, &after);
    if (s.bucket_count > 1 && after.early == before.early) /* all met after the first */
        return ty_fail(TY_INTERNAL, "%zu floats: no bucket was summed early", count);
    return TY_OK;
}

static inline ty_err sum_in_buckets(struct crew *c, void *arg)
{
    float *want = malloc(MOST_FLOATS * sizeof(float));
    void *room;
    (void)arg;
    ty_assert(want);
    ty_err err = crew_room(c, (MOST_PARTS + 1) * MOST_FLOATS * sizeof(float), &room);
    for (size_t p = 0; p < TY_COUNT(part_counts) && err == TY_OK; p++)
        for (size_t i = 0; i < TY_COUNT(counts) && err == TY_OK; i++) {
            expect(want, part_counts[p], counts[i]);
            err = bucket_sum(c, room, part_counts[p], counts[i]);
            if (err == TY_OK)
                err = compare((float *)room + MOST_PARTS * MOST_FLOATS, want, part_counts[p],
                              counts[i]);
        }
    free(want);
    return err;
}

/* Rank 1 cuts elsewhere. */
static inline ty_err cut_otherwise(struct crew *c, void *arg)
{
    const struct crew_bucket two[2][2] = {{{32, 32}, {0, 32}}, {{16, 48}, {0, 16}}};
    void *room;
    (void)arg;
    ty_err err = crew_room(c, 3 * 64 * sizeof(float), &room);
    if (err != TY_OK)
        return err;
    float *parts[2] = {room, (float *)room + 64};
    const struct crew_sums s = {"numbers", parts, 2, parts[1] + 64, two[crew_rank(c) == 1], 2};
    err = crew_sums_begin(c, &s);
    crew_sums_ready(c);
    crew_sums_advance(c);
    return err == TY_OK ? crew_sums_end(c) : err;
}

/* What is measured is the same for all, and is no work. */
static inline ty_err measure(struct crew *c, void *arg)
{
    void *room;
    (void)arg;
    struct crew_cost cost = {0};
    struct crew_waits waits;
    ty_err err = crew_room(c, (MOST_PARTS + 1) * MOST_FLOATS * sizeof(float), &room);
    float *parts[4], *out = (float *)room + MOST_PARTS * MOST_FLOATS;
    for (size_t k = 0; k < 4; k++)
        parts[k] = (float *)room + k * MOST_FLOATS;
    if (err == TY_OK)
        err = crew_measure(c, parts, 4, MOST_FLOATS, out, 1, &cost);
    if (err == TY_OK)
        err = crew_agree(c, "bucket", cost.bucket);
    crew_waits(c, &waits);
    if (err == TY_OK && (cost.bucket < 1000 || cost.bucket > MOST_FLOATS || cost.fixed_ns <= 0 ||
                         cost.float_ns <= 0 || waits.bytes != 0 || out[100] != 0))
        err = ty_fail(TY_INTERNAL, "bucket %zu, %f ns, %f ns, bytes %" PRIu64, cost.bucket,
                      cost.fixed_ns, cost.float_ns, waits.bytes);
    if (err == TY_OK)
        err = crew_measure(c, parts, 4, 100, out, 1, &cost);
    if (err == TY_OK && (cost.bucket != 100 || cost.fixed_ns > 0))
        err = ty_fail(TY_INTERNAL, "few floats are not measured");
    return err;
}

/* Rank 1 is hit by a signal when its first bucket is ready; the others wait for the second. */
static inline ty_err hit_between_buckets(struct crew *c, void *arg)
{
    enum { FLOATS = 40000 };
    const struct crew_bucket two[2] = {{FLOATS / 2, FLOATS / 2}, {0, FLOATS / 2}};
    void *room;
    ty_err err = crew_room(c, (size_t)4 * FLOATS * sizeof(float), &room);
    if (err != TY_OK)
        return err;
    float *parts[3];
    for (size_t k = 0; k < 3; k++)
        parts[k] = (float *)room + k * FLOATS;
    const struct crew_sums s = {"numbers", parts, 3, parts[2] + FLOATS, two, 2};
    crew_mark(c, 7, "backward");
    err = crew_sums_begin(c, &s);
    crew_sums_ready(c);
    usleep(1000000); /* many signs of life, which say where it is */
    crew_sums_advance(c);
    if (crew_rank(c) == 1)
        raise(*(int *)arg);
    crew_sums_ready(c);
    crew_sums_advance(c);
    return err == TY_OK ? crew_sums_end(c) : err;
}

/* ---- shares ---- */

static inline ty_err share_all(struct crew *c, void *arg)
{
    enum { PIECE = 1001, ROUNDS = 20 };
    (void)arg;
    void *room, *other;
    ty_err err = crew_room(c, (size_t)crew_size(c) * PIECE, &room);
    if (err == TY_OK)
        err = crew_room(c, 1, &other);
    for (int round = 1; round <= ROUNDS && err == TY_OK; round++) {
        struct crew_piece pieces[TEST_MOST_RANKS];
        for (int r = 0; r < crew_size(c); r++)
            pieces[r] = (struct crew_piece){r, (char *)room + r * PIECE, PIECE - (size_t)round};
        memset(pieces[crew_rank(c)].at, round + crew_rank(c), PIECE - (size_t)round);
        err = crew_share(c, "rows", pieces, (size_t)crew_size(c));
        for (int r = 0; r < crew_size(c) && err == TY_OK; r++)
            for (size_t i = 0; i < pieces[r].bytes && err == TY_OK; i++)
                if (((char *)pieces[r].at)[i] != round + r)
                    err = ty_fail(TY_INTERNAL, "piece %d, byte %zu, round %d", r, i, round);
        if (err == TY_OK)
            err = crew_meet(c, "all have read");
    }
    return err;
}

/* ---- agreement ---- */

static inline ty_err agree_but_one(struct crew *c, void *arg)
{
    ty_err err = crew_agree(c, "seed", 42);
    if (err != TY_OK)
        return ty_fail(TY_INTERNAL, "the same number is no difference");
    return crew_agree(c, "model file", crew_rank(c) == *(int *)arg ? 7 : 8);
}

static inline ty_err other_call(struct crew *c, void *arg)
{
    (void)arg;
    return crew_rank(c) == 1 ? crew_meet(c, "end of step") : crew_agree(c, "seed", 1);
}

/* ---- many meetings ---- */

static inline ty_err many_rounds(struct crew *c, void *arg)
{
    int rounds = *(int *)arg;
    void *room;
    uint64_t dice = (uint64_t)crew_rank(c) * 77 + 5;
    ty_err err = crew_room(c, TEST_MOST_RANKS * 64, &room);
    for (int i = 0; i < rounds && err == TY_OK; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        if ((dice >> 60) == 0)
            usleep((useconds_t)(dice >> 54) & 255);
        ((volatile int *)room)[crew_rank(c) * 16] = i;
        err = crew_meet(c, "written");
        for (int r = 0; r < crew_size(c) && err == TY_OK; r++)
            if (((volatile int *)room)[r * 16] != i)
                err = ty_fail(TY_INTERNAL, "round %d: rank %d was at %d", i, r,
                              ((volatile int *)room)[r * 16]);
        if (err == TY_OK)
            err = crew_meet(c, "read");
    }
    return err;
}

#endif
