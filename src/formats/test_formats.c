/* test_formats.c -- runs formats' groups of tests; `build/test_formats csv/quotes` runs one case.
 */
#include "formats/test_formats.h"

ty_str golden(struct ty_arena *a, const char *name)
{
    ty_str bytes = {"", 0};
    assert_ok(ty_file_read(AT_FDCWD, ty_format(a, "%s/%s", GOLDEN_DIR, name), 1 << 20, a, &bytes));
    return bytes;
}

uint32_t dice(uint32_t *state, uint32_t sides)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*state * sides >> 32);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = test_records() + test_csv() + test_model() + test_event();
    return failed == 0 ? 0 : 1;
}
