/* fuzz_text.c -- any bytes as URL text, base64, a time, a duration; encoders against decoders. */
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_codecs(struct ty_arena *a, ty_str text)
{
    struct ty_buf b;
    ty_str out;
    ty_buf_init(&b, 1 << 24);
    wire_base64_encode(&b, text);
    ty_assert(wire_base64_decode(a, ty_buf_str(&b), &out) == TY_OK && ty_str_eq(out, text));
    ty_buf_clear(&b);
    wire_url_encode(&b, text);
    if (!text.len || !memchr(text.ptr, 0, text.len))
        ty_assert(wire_url_decode(a, ty_buf_str(&b), true, &out) == TY_OK && ty_str_eq(out, text));
    ty_buf_clear(&b);
    (void)!wire_url_decode(a, text, false, &out);
    (void)!wire_url_decode(a, text, true, &out);
    (void)!wire_base64_decode(a, text, &out);
}

static void check_times(ty_str text)
{
    int64_t ns, again, ms;
    char out[WIRE_TIME_BYTES];
    if (wire_time_parse(text, &ns) == TY_OK) {
        wire_time_format(ns, 9, out);
        ty_assert(wire_time_parse(ty_str_of(out), &again) == TY_OK && again == ns);
    }
    if (text.len >= sizeof ns) {
        memcpy(&ns, text.ptr, sizeof ns);
        wire_time_format(ns, 9, out);
        ty_assert(wire_time_parse(ty_str_of(out), &again) == TY_OK && again == ns);
    }
    if (wire_duration_parse(text, &ms) == TY_OK)
        ty_assert(ms >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ty_arena a = {0};
    ty_str text = {(const char *)data, size};
    check_codecs(&a, text);
    check_times(text);
    (void)wire_name_eq(text, ty_str_drop(text, size / 2));
    ty_arena_clear(&a);
    return 0;
}
