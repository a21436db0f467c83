/* fuzz_example.c -- any bytes as a tf.Example.
 *
 * What must hold: what can be listed and decoded, encoded again, decodes to the same bytes. */
#define TY_SEAM
#include "formats/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decode by a list; false if a name occurs twice or the record is refused. */
static bool decode(struct ty_arena *a, ty_str record, const struct example_feature *features,
                   size_t count, struct example_slot **ret_slots)
{
    struct example_schema schema;
    if (example_schema_init(&schema, a, features, count) != TY_OK)
        return false;
    struct example_slot *slots = ty_new_array(a, struct example_slot, count);
    for (size_t i = 0; i < count; i++)
        slots[i].bytes = ty_alloc(a, features[i].most * sizeof(ty_str));
    *ret_slots = slots;
    return example_decode(&schema, record, slots) == TY_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    ty_str record = {(const char *)data, size};
    struct example_feature *features;
    struct example_slot *slots;
    size_t count;
    if (example_list(&a, record, &features, &count) == TY_OK && count &&
        decode(&a, record, features, count, &slots)) {
        struct ty_buf once, twice;
        ty_buf_init(&once, 1 << 24);
        ty_buf_init(&twice, 1 << 24);
        example_encode(&once, features, slots, count);
        ty_assert(decode(&a, ty_buf_str(&once), features, count, &slots));
        example_encode(&twice, features, slots, count);
        ty_assert(ty_str_eq(ty_buf_str(&once), ty_buf_str(&twice)));
        ty_buf_clear(&once);
        ty_buf_clear(&twice);
    }
    ty_arena_clear(&a);
    return 0;
}
