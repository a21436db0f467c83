#include "base/test.h"
static void n(void **s)
{
    (void)s;
}
static const struct CMUnitTest tests[] = {TEST("n", n)};
TEST_MAIN("crew", tests)
