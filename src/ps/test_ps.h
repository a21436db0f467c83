/* test_ps.h -- a small model for the tests of ps: two plain variables, two tables, and an optimizer
 * that is easy to believe: w -= scale * gradient, and a second array that counts updates. */
#ifndef TY_TEST_PS_H
#define TY_TEST_PS_H

#define TY_SEAM
#include "base/test.h"
#include "ps/ps_int.h"

enum { TOY_VARIABLES = 4, TOY_WORKERS = 3, TOY_STEPS = 1000 };
static const size_t TOY_COUNTS[TOY_VARIABLES] = {10, 7 * 3, 5, 11 * 2};
static const size_t TOY_WIDTHS[TOY_VARIABLES] = {0, 3, 0, 2};
static const char *const TOY_NAMES[TOY_WORKERS] = {"chief", "worker 0", "worker 1"};

struct toy {
    float values[TOY_VARIABLES][32], counts[TOY_VARIABLES][32];
    struct ps_variable variables[TOY_VARIABLES];
    struct ps_layout layout;
    float scale;
    uint64_t restored, steps;
};

static inline void toy_begin(void *ctx, float scale)
{
    ((struct toy *)ctx)->scale = scale;
}

static inline void toy_change(struct toy *t, size_t variable, size_t at, float gradient)
{
    t->values[variable][at] -= t->scale * gradient;
    t->counts[variable][at] += 1;
}

static inline void toy_plain(void *ctx, const struct ps_segment *s, const float *gradient)
{
    for (size_t i = 0; i < s->count; i++)
        toy_change(ctx, s->variable, s->from + i, gradient[i]);
}

static inline void toy_rows(void *ctx, size_t variable, const uint32_t *ids, size_t count,
                            const float *gradient)
{
    size_t width = TOY_WIDTHS[variable];
    for (size_t i = 0; i < count * width; i++)
        toy_change(ctx, variable, ids[i / width] * width + i % width, gradient[i]);
}

static inline void toy_ready(void *ctx, size_t variable, const uint32_t *ids, size_t count)
{
    (void)ctx;
    (void)variable;
    (void)ids;
    (void)count;
}

static inline void toy_settle(void *ctx)
{
    (void)ctx;
}

static inline void toy_restored(void *ctx, uint64_t updates, uint64_t steps)
{
    ((struct toy *)ctx)->restored = updates;
    ((struct toy *)ctx)->steps = steps;
}

static inline ty_err toy_first(void *ctx, uint64_t run, uint64_t steps, uint64_t *ret_updates)
{
    (void)run;
    ((struct toy *)ctx)->steps = steps;
    *ret_updates = 0;
    return TY_OK;
}

static inline void toy_init(struct toy *t, size_t servers)
{
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < TOY_VARIABLES; i++) {
        t->variables[i] =
            (struct ps_variable){{t->values[i], t->counts[i], NULL}, TOY_COUNTS[i], TOY_WIDTHS[i]};
        for (size_t k = 0; k < TOY_COUNTS[i]; k++)
            t->values[i][k] = (float)(100 * i + k);
    }
    ps_layout_init(&t->layout, t->variables, TOY_VARIABLES, servers);
}

static inline struct ps_store toy_store(struct toy *t)
{
    return (struct ps_store){t,         toy_begin,  toy_plain,    toy_rows,
                             toy_ready, toy_settle, toy_restored, toy_first};
}

/* Gradients of one step: whole numbers, so that sums are exact in any order. */
struct toy_step {
    float gradients[TOY_VARIABLES][32];
    uint32_t ids[TOY_VARIABLES][8];
    struct ps_part parts[TOY_VARIABLES];
};
static inline void toy_step(struct toy_step *s, unsigned number)
{
    for (size_t i = 0; i < TOY_VARIABLES; i++) {
        size_t rows = TOY_WIDTHS[i] ? TOY_COUNTS[i] / TOY_WIDTHS[i] : 0;
        for (size_t k = 0; k < 32; k++)
            s->gradients[i][k] = (float)((number * 7 + i * 5 + k) % 11);
        for (size_t k = 0; k < 4 && rows; k++)
            s->ids[i][k] = (uint32_t)((number + 2 * k) % rows);
        s->parts[i] = (struct ps_part){s->ids[i], rows ? 3 : 0, s->gradients[i]};
    }
}

#endif
