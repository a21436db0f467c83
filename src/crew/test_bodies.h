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
