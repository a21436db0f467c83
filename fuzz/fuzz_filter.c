/* fuzz_filter.c -- any bytes as a filter, matched against a row. What is asked
 * about the filter must agree with what it matches. */
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool row_get(const struct wire_filter_row *row, ty_str name, ty_str *ret_value,
                    bool *ret_unknown)
{
    const ty_str *time = row->data;
    if (wire_name_eq(name, TY_STR("createTime")))
        *ret_value = *time;
    else if (name.len == 0)
        *ret_value = TY_STR("Epoch 3: loss=0.25 aaaaaaaaab");
    else if (name.len == 1)
        *ret_value = name;
    else
        *ret_unknown = !ty_str_starts(name, TY_STR("labels."));
    return ret_value->len > 0;
}

static int row_compare(const struct wire_filter_row *row, ty_str name, ty_str have, ty_str want)
{
    (void)row;
    int64_t a, b;
    if (!wire_name_eq(name, TY_STR("createTime")) || wire_time_parse(have, &a) ||
        wire_time_parse(want, &b))
        return ty_str_cmp(have, want);
    return a < b ? -1 : a > b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    struct wire_filter *f;
    ty_str time = TY_STR("2024-05-01T10:00:00Z"), value = {"", 0};
    struct wire_filter_row row = {.get = row_get, .compare = row_compare, .data = &time};
    if (wire_filter_parse(&a, (ty_str){(const char *)data, size}, &f) == TY_OK) {
        bool matches = wire_filter_matches(f, &row);
        if (wire_filter_lower_bound(f, TY_STR("createTime"), &value) && matches)
            ty_assert(row_compare(&row, TY_STR("createTime"), time, value) >= 0);
        if (wire_filter_equal(f, TY_STR("x"), &value) && matches)
            ty_assert(ty_str_is(value, "x"));
        (void)!wire_filter_check(f, &row);
    }
    ty_arena_clear(&a);
    return 0;
}
