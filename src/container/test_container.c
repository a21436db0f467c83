/* test_container.c */
#include "base/test.h"
#include "container/container_int.h"
static void nothing(void **state)
{
    (void)state;
}
static const struct CMUnitTest tests[] = {TEST("x/y", nothing)};
TEST_MAIN("container", tests)
