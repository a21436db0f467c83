/* test_storage.c */
#include "base/test.h"
#include "storage/storage_int.h"
static void none(void **state)
{
    (void)state;
}
static const struct CMUnitTest tests[] = {TEST("x", none)};
TEST_MAIN("storage", tests)
