/* order.c -- which rows a step takes, as a function of seed and place: a run that goes on from a
 * checkpoint takes the same ones, and so does one that has less memory.
 *
 * A pass is cut into windows, which are what is in memory at once if the data is not. A window is
 * TRAIN_WINDOW_BLOCKS blocks of neighbouring rows from anywhere, and its rows are shuffled; data of
 * one window is simply shuffled. The last block may be short and is always the last.
 *
 * One of several who share the data has one share of it in a pass, and the next share in the next.
 */
#include "train/train_int.h"

enum { MOST_WINDOW = 1 << 20, LEAST_WINDOW = 1024, WINDOW_BYTES = 256 << 20 };

size_t train_row_bytes(const struct nn_model *m)
{
    return (m->slots_float + m->slots_id + m->head_count) * sizeof(float);
}

/* By the model alone: memory that happens to be free must not change a result. */
size_t train_window_rows(const struct nn_model *m)
{
    size_t rows = MOST_WINDOW;
    if (m->training.shuffle_window > 0)
        return (size_t)m->training.shuffle_window;
    while (rows > LEAST_WINDOW && rows * train_row_bytes(m) > WINDOW_BYTES)
        rows /= 2;
    return rows;
}

void train_order_init(struct train_order *o, size_t count, size_t window, bool shuffle,
                      uint64_t seed)
{
    *o = (struct train_order){.count = count,
                              .window = count,
                              .block = count,
                              .all = count,
                              .of = 1,
                              .stride = 1,
                              .shuffle = shuffle,
                              .seed = seed,
                              .pass = UINT64_MAX,
                              .number = UINT64_MAX};
    if (window < count) {
        o->block = (window + TRAIN_WINDOW_BLOCKS - 1) / TRAIN_WINDOW_BLOCKS;
        o->window = o->block * TRAIN_WINDOW_BLOCKS;
    }
    o->blocks = malloc((o->count / o->block + 2) * sizeof *o->blocks);
    o->local = malloc((o->window + 1) * sizeof *o->local);
    ty_assert(o->blocks && o->local);
}

void train_order_clear(struct train_order *o)
{
    free(o->blocks);
    free(o->local);
    o->blocks = o->local = NULL;
}

uint64_t train_order_windows(const struct train_order *o)
{
    return (o->count + o->window - 1) / o->window;
}

/* Fisher and Yates, from the identity, so that an order does not depend on the one before. */
static void list_shuffle(uint64_t seed, uint64_t stream, uint32_t *list, size_t count)
{
    uint32_t random[4] = {0};
    for (size_t i = count; i > 1; i--) {
        size_t n = count - i;
        if (n % 4 == 0)
            tensor_random(seed, stream, n / 4, random);
        size_t k = (size_t)((uint64_t)random[n % 4] * i >> 32);
        uint32_t row = list[i - 1];
        list[i - 1] = list[k];
        list[k] = row;
    }
}

static void list_count_up(uint32_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        list[i] = (uint32_t)i;
}

size_t train_order_make(struct train_order *o, uint64_t number)
{
    uint64_t windows = train_order_windows(o), pass = number / windows;
    size_t from = (size_t)(number % windows) * o->window;
    size_t rows = o->count - from < o->window ? o->count - from : o->window;
    if (pass != o->pass) {
        list_count_up(o->blocks, o->count / o->block + 1);
        if (o->shuffle && windows > 1)
            list_shuffle(o->seed, (UINT64_C(1) << 61) + pass, o->blocks, o->count / o->block);
        o->pass = pass;
    }
    if (number != o->number) {
        list_count_up(o->local, rows);
        if (o->shuffle)
            list_shuffle(o->seed, (UINT64_C(1) << 62) + number, o->local, rows);
        o->number = number;
    }
    return rows;
}

size_t train_order_at(const struct train_order *o, uint64_t at, uint64_t *ret_number)
{
    size_t within = (size_t)(at % o->count);
    *ret_number = at / o->count * train_order_windows(o) + within / o->window;
    return within % o->window;
}

size_t train_order_first(const struct train_order *o, uint64_t number)
{
    size_t share = (size_t)((o->rank + number / train_order_windows(o)) % o->of);
    return o->stride > 1 ? share : o->all * share / o->of;
}

/* Up to the window's end the places follow one another: what takes divisions is done once. */
void train_order_take(struct train_order *o, uint64_t at, size_t count, uint32_t *ret_rows)
{
    for (size_t done = 0; done < count;) {
        uint64_t number;
        size_t place = train_order_at(o, at + done, &number), rows = train_order_make(o, number);
        size_t first = (size_t)(number % train_order_windows(o)) * (o->window / o->block);
        size_t many = rows - place < count - done ? rows - place : count - done;
        size_t begin = train_order_first(o, number);
        bool whole = o->block == o->count; /* one block, and its number is 0 */
        for (size_t i = 0; i < many; i++) {
            uint32_t local = o->local[place + i];
            size_t row =
                whole ? local : o->blocks[first + local / o->block] * o->block + local % o->block;
            row = begin + row * o->stride;
            ret_rows[done + i] = (uint32_t)(row < o->all ? row : row - o->all);
        }
        done += many;
    }
}
