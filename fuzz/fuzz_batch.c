/* fuzz_batch.c -- the calls of a batch: every view lies in the arena, targets and counts have
 * bounds. */
#include "gcs/gcs_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    struct batch_call *calls = NULL;
    size_t count = 0, bytes = 0;
    ty_str body = {(const char *)data, size};
    if (batch_parse(&a, TY_STR("multipart/mixed; boundary=b"), body, &calls, &count) == TY_OK) {
        ty_assert(count <= GCS_BATCH_CALLS);
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < calls[i].target.len; k++)
                bytes += (unsigned char)calls[i].target.ptr[k];
        for (size_t i = 0; i < count; i++)
            ty_assert(calls[i].target.len + calls[i].body.len + calls[i].id.len <= size);
    }
    ty_arena_clear(&a);
    return bytes == SIZE_MAX;
}
