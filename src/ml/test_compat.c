/* test_compat.c -- docs/compat.md, ml_fields and the message tables of the older API say the same.
 */
#include "ml/ml_int.h"
#include "vertex/test_doc.h"

static void every_leaf_has_one_treatment(void **state)
{
    (void)state;
    assert_fields_are(ml_fields, &ml_job);
}

static void document_has_the_fields(void **state)
{
    (void)state;
    assert_fields_documented(ml_fields, "## Fields of an AI Platform job");
}

static void document_has_the_routes(void **state)
{
    (void)state;
    static const char *const routes[] = {
#define ROUTE(method, path, handler) #method " " path,
#include "ml/routes.def"
#undef ROUTE
    };
    assert_routes_documented(routes, TY_COUNT(routes), "## Routes: AI Platform");
}

static const struct CMUnitTest tests[] = {
    TEST("compat/every_leaf_has_one_treatment", every_leaf_has_one_treatment),
    TEST("compat/document_has_the_fields", document_has_the_fields),
    TEST("compat/document_has_the_routes", document_has_the_routes),
};
TEST_MAIN("ml_compat", tests)
