/* test.h -- what each test_*.c starts with: cmocka, and a main that runs one case by name.
 *
 *   static void arena_grows(void **state) { ... }
 *   static const struct CMUnitTest tests[] = {TEST("arena/grows", arena_grows)};
 *   TEST_MAIN("base", tests)
 *
 * `build/test_base arena/grows` runs that case (shell patterns work too). */
#ifndef TY_TEST_H
#define TY_TEST_H

#include <setjmp.h>
#include "base/base.h"
#include <cmocka.h>

#define TEST(name_, fn_)                                                                           \
    {                                                                                              \
        .name = (name_), .test_func = (fn_)                                                        \
    }
#define TEST_MAIN(module_, tests_)                                                                 \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        if (argc > 1)                                                                              \
            cmocka_set_test_filter(argv[1]);                                                       \
        return cmocka_run_group_tests_name(module_, tests_, NULL, NULL) == 0 ? 0 : 1;              \
    }
/* A call that must succeed; prints the message if it does not. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        ty_err err_ = (call);                                                                      \
        if (err_ != TY_OK)                                                                         \
            fail_msg("%s: %s: %s", #call, ty_err_name(err_), ty_err_message());                    \
    } while (0)
#define assert_err(code, call) assert_string_equal(ty_err_name(call), ty_err_name(code))
/* This thread's message says these words. */
#define assert_message(words)                                                                      \
    do {                                                                                           \
        if (!strstr(ty_err_message(), (words)))                                                    \
            fail_msg("the message '%s' does not say '%s'", ty_err_message(), (words));             \
    } while (0)

#endif
