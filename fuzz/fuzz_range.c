/* fuzz_range.c -- Range and Content-Range: what is taken lies within what there is. */
#include "gcs/gcs_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    ty_str text = {(const char *)data + 1, size - 1};
    int64_t first = -1, last = -1, length = data[0];
    struct content_range r;
    if (range_parse(text, length, &first, &last) == RANGE_PART)
        ty_assert(0 <= first && first <= last && last < length);
    if (content_range_parse(text, &r) == TY_OK) {
        ty_assert((r.first < 0) == (r.last < 0) && r.first <= r.last && r.total >= -1);
        ty_assert(r.total < 0 || r.last < r.total);
    }
    return 0;
}
