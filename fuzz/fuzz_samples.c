/* fuzz_samples.c -- any bytes as a file of samples: whole records come out, never more than that.
 *
 * Twice: as they are, and as the contents of records with a good checksum. */
#include "exec/exec_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(ty_str bytes, size_t rounds)
{
    struct ty_arena arena = {0};
    struct exec_sample *samples;
    size_t count;
    samples_parse(&arena, bytes, rounds, &samples, &count);
    ty_assert(count <= bytes.len / SAMPLE_BYTES);
    ty_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_buf b;
    parse((ty_str){(const char *)data, size}, 3);
    ty_buf_init(&b, SAMPLES_BYTES);
    for (size_t i = 0; i + 4 <= size; i += 4) { /* few bytes a record: times repeat */
        struct exec_sample s = {.time_ms = data[i],
                                .pool = (int8_t)data[i + 1],
                                .index = data[i + 2],
                                .cpu_us = data[i + 3]};
        sample_put(&b, &s);
    }
    parse(ty_buf_str(&b), size % 7);
    parse(ty_buf_str(&b), SIZE_MAX);
    ty_buf_clear(&b);
    return 0;
}
