/* test_compat.c -- docs/compat.md, the field table and the message tables say the same.
 *
 * A field that is added to a message without a decision what to do with it, a decision nobody wrote
 * down, and a document that promises what is gone: each fails here. */
#include "vertex/test_doc.h"
#include "vertex/vertex_int.h"

static void every_leaf_has_one_treatment(void **state)
{
    (void)state;
    assert_fields_are(vertex_fields, &vertex_custom_job);
}

static void document_has_the_fields(void **state)
{
    (void)state;
    assert_fields_documented(vertex_fields, "## Fields of a custom job");
}

static void document_has_the_routes(void **state)
{
    (void)state;
    static const char *const routes[] = {
#define ROUTE(method, path, handler) #method " " path,
#include "vertex/routes.def"
#undef ROUTE
    };
    assert_routes_documented(routes, TY_COUNT(routes), "## Routes: Vertex AI");
}

static const struct CMUnitTest tests[] = {
    TEST("compat/every_leaf_has_one_treatment", every_leaf_has_one_treatment),
    TEST("compat/document_has_the_fields", document_has_the_fields),
    TEST("compat/document_has_the_routes", document_has_the_routes),
};
TEST_MAIN("vertex_compat", tests)
