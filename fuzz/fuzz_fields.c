/* fuzz_fields.c -- ?fields=: what is selected of an answer is JSON again, and not longer. */
#include "gcs/gcs_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char answer[] = "{\"kind\":\"k\",\"items\":[{\"name\":\"a\\\"}\",\"metadata\": "
                                 "{\"m\": [1, {\"x\":null}]}},{}],"
                                 "\"prefixes\":[\"p\"],\"nextPageToken\":\"t\"}";
    struct ty_arena a = {0};
    struct field *fields;
    if (fields_parse(&a, (ty_str){(const char *)data, size}, &fields) == TY_OK) {
        struct ty_buf b;
        json_t *parsed = NULL;
        ty_buf_init(&b, 4096);
        fields_select(&b, TY_STR(answer), fields);
        ty_assert(b.len < sizeof answer);
        ty_assert(wire_json_parse(ty_buf_str(&b), &parsed) == TY_OK && json_is_object(parsed));
        json_decref(parsed);
        ty_buf_clear(&b);
    }
    ty_arena_clear(&a);
    return 0;
}
