/* order.c -- which rows a step takes, as a function of seed and place: a run that goes on from a
 * checkpoint takes the same ones. */
#include "train/train_int.h"

void train_order_init(struct train_order *o, size_t count, bool shuffle, uint64_t seed)
{
    *o = (struct train_order){.count = count, .shuffle = shuffle, .seed = seed, .pass = UINT64_MAX};
    o->rows = malloc((count + 1) * sizeof *o->rows);
    ty_assert(o->rows);
}

void train_order_clear(struct train_order *o)
{
    free(o->rows);
    o->rows = NULL;
}

/* Fisher and Yates, from the identity, so that a pass does not depend on the one before. */
static void pass_make(struct train_order *o, uint64_t pass)
{
    const uint64_t stream = (UINT64_C(1) << 62) + pass;
    uint32_t random[4] = {0};
    for (size_t i = 0; i < o->count; i++)
        o->rows[i] = (uint32_t)i;
    for (size_t i = o->count; o->shuffle && i > 1; i--) {
        size_t n = o->count - i;
        if (n % 4 == 0)
            tensor_random(o->seed, stream, n / 4, random);
        size_t k = (size_t)((uint64_t)random[n % 4] * i >> 32);
        uint32_t row = o->rows[i - 1];
        o->rows[i - 1] = o->rows[k];
        o->rows[k] = row;
    }
    o->pass = pass;
}

void train_order_take(struct train_order *o, uint64_t at, size_t count, uint32_t *ret_rows)
{
    for (size_t i = 0; i < count;) {
        uint64_t pass = (at + i) / o->count;
        size_t from = (size_t)((at + i) % o->count), n = o->count - from;
        if (pass != o->pass)
            pass_make(o, pass);
        n = n < count - i ? n : count - i;
        memcpy(ret_rows + i, o->rows + from, n * sizeof *ret_rows);
        i += n;
    }
}
