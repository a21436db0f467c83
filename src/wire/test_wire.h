/* test_wire.h -- the groups of wire's tests, one a file, and what they share. */
#ifndef TY_TEST_WIRE_H
#define TY_TEST_WIRE_H

#include "base/test.h"
#include "wire/wire.h"

int test_json(void);
int test_yaml(void);
int test_message(void);
int test_text(void);
int test_filter(void);
int test_sha256(void);
int test_pb(void);

#define RUN_GROUP(name_)                                                                           \
    int test_##name_(void)                                                                         \
    {                                                                                              \
        return cmocka_run_group_tests_name("wire/" #name_, tests, NULL, NULL);                     \
    }

/* The buffer holds exactly this text; it is empty again afterwards. */
void assert_text(struct ty_buf *b, const char *text);
/* Parse JSON that must be right. */
json_t *parse_json(const char *text);

#endif
