/* test_wire.c -- runs wire's groups of tests; `build/test_wire filter/or_binds_tighter_than_and`
 * runs one case. */
#include "wire/test_wire.h"

void assert_text(struct ty_buf *b, const char *text)
{
    ty_str have = ty_buf_str(b);
    assert_string_equal(have.ptr, text);
    assert_int_equal(have.len, strlen(text));
    ty_buf_clear(b);
}

json_t *parse_json(const char *text)
{
    json_t *value = NULL;
    assert_ok(wire_json_parse(ty_str_of(text), &value));
    return value;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = test_json() + test_yaml() + test_message() + test_text() + test_filter() +
                 test_sha256() + test_pb();
    return failed == 0 ? 0 : 1;
}
