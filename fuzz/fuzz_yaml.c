/* fuzz_yaml.c -- any bytes as YAML. What is read can be printed, and what is
 * printed reads back as the same value. */
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_reads_back(const json_t *value)
{
    struct ty_buf b;
    json_t *again = NULL;
    ty_buf_init(&b, 1 << 24);
    wire_yaml_dump(&b, value);
    if (!b.full) {
        ty_assert(wire_yaml_parse(ty_buf_str(&b), &again) == TY_OK);
        ty_assert(json_equal(value, again));
        json_decref(again);
    }
    ty_buf_clear(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ty_str text = {(const char *)data, size};
    json_t *value = NULL;
    struct ty_buf warnings;
    if (wire_yaml_parse(text, &value) == TY_OK) {
        check_reads_back(value);
        json_decref(value);
    }
    value = NULL;
    ty_buf_init(&warnings, 1 << 16);
    if (wire_yaml11_parse(text, &warnings, &value) == TY_OK) {
        check_reads_back(value);
        json_decref(value);
    }
    ty_buf_clear(&warnings);
    value = NULL;
    if (wire_json_parse(text, &value) == TY_OK) {
        check_reads_back(value);
        json_decref(value);
    }
    return 0;
}
