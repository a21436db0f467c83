/* test_formats.h -- the groups of formats' tests, one a file, and what they share. */
#ifndef TY_TEST_FORMATS_H
#define TY_TEST_FORMATS_H

#include "base/test.h"
#include "formats/formats_int.h"

int test_records(void);
int test_csv(void);
int test_model(void);
int test_event(void);

#define RUN_GROUP(name_)                                                                           \
    int test_##name_(void)                                                                         \
    {                                                                                              \
        return cmocka_run_group_tests_name("formats/" #name_, tests, NULL, NULL);                  \
    }

/* A file of tests/golden/formats, made by real TensorFlow. */
ty_str golden(struct ty_arena *a, const char *name);
/* Random numbers that are the same at every run. */
uint32_t dice(uint32_t *state, uint32_t sides);

#endif
