/* fuzz_saved_model.c -- any bytes as a saved_model.pb. What must hold: all it names is inside them.
 */
#define TY_SEAM
#include "formats/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    struct saved_model m;
    if (saved_model_parse(&a, (ty_str){(const char *)data, size}, &m) == TY_OK) {
        for (size_t i = 0; i < m.node_count; i++) {
            ty_assert(m.nodes[i].name.len <= size && m.nodes[i].shape.rank <= SHAPE_MAX_RANK);
            for (size_t k = 0; k < m.nodes[i].input_count; k++)
                ty_assert(m.nodes[i].inputs[k].len <= size);
        }
        for (size_t i = 0; i < m.signature_count; i++)
            for (size_t k = 0; k < m.signatures[i].input_count; k++)
                ty_assert(m.signatures[i].inputs[k].tensor.len <= size);
        ty_assert(a.total_bytes <= 4096 + 64 * size * sizeof(void *));
    }
    ty_arena_clear(&a);
    return 0;
}
