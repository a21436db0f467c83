#include "base/test.h"
#include "images/images_int.h"
static const struct CMUnitTest tests[] = {{0}};
TEST_MAIN("images", tests)
