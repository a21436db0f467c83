/* fuzz_event.c -- any bytes as one TensorBoard event. */
#define TY_SEAM
#include "formats/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct event e;
    struct event_value v;
    if (event_parse((ty_str){(const char *)data, size}, &e) != TY_OK)
        return 0;
    ty_assert(e.body.len <= size);
    while (event_value_next(&e.body, &v) == TY_OK)
        ty_assert(v.tag.len <= size && v.plugin.len <= size);
    return 0;
}
