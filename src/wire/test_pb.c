/* test_pb.c -- protobuf fields and crc32c against known answers. */
#include "wire/test_wire.h"

static void crc32c_known_answers(void **state)
{
    (void)state;
    char zeros[32] = {0}, ones[32];
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(wire_crc32c(0, "123456789", 9), 0xe3069283u); /* RFC 3720, B.4 */
    assert_int_equal(wire_crc32c(0, zeros, 32), 0x8a9136aau);
    assert_int_equal(wire_crc32c(0, ones, 32), 0x62a8ab43u);
    assert_int_equal(wire_crc32c(0, "", 0), 0);
    assert_int_equal(wire_crc32c_plain(0, "123456789", 9), 0xe3069283u);
}

static void crc32c_fast_equals_plain(void **state)
{
    (void)state;
    enum { BYTES = 20000 };
    static unsigned char bytes[BYTES];
    uint32_t x = 1;
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
    for (size_t at = 0; at < 9; at++)
        for (size_t n = 0; n < BYTES - at; n = n * 2 + 1)
            assert_int_equal(wire_crc32c(7, bytes + at, n), wire_crc32c_plain(7, bytes + at, n));
    uint32_t parts = wire_crc32c(wire_crc32c(0, bytes, 5000), bytes + 5000, BYTES - 5000);
    assert_int_equal(parts, wire_crc32c(0, bytes, BYTES));
}

/* The examples of the encoding's own documentation: 150 is 96 01, "testing" is 12 07 ... */
static void pb_writes_known_bytes(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 1000);
    wire_pb_varint(&b, 1, 150);
    wire_pb_bytes(&b, 2, TY_STR("testing"));
    size_t mark = wire_pb_begin(&b, 3);
    wire_pb_varint(&b, 1, 150);
    wire_pb_end(&b, mark);
    static const char want[] = "\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01";
    assert_int_equal(b.len, sizeof want - 1);
    assert_memory_equal(b.ptr, want, b.len);
    ty_buf_clear(&b);
}

static void pb_reads_what_it_wrote(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    static const char long_text[40000];
    wire_pb_int(&b, 1, -1);
    wire_pb_double(&b, 2, 0.5);
    wire_pb_float(&b, 3, -2.5f);
    size_t outer = wire_pb_begin(&b, 300);
    size_t inner = wire_pb_begin(&b, 5);
    wire_pb_bytes(&b, 6, (ty_str){long_text, sizeof long_text});
    wire_pb_end(&b, inner);
    wire_pb_end(&b, outer);
    assert_ok(ty_buf_check(&b, "message"));

    struct wire_pb m = wire_pb_of(ty_buf_str(&b));
    struct wire_pb_field f;
    assert_ok(wire_pb_next(&m, &f));
    assert_true(f.number == 1 && (int64_t)f.value == -1);
    assert_ok(wire_pb_next(&m, &f));
    assert_true(f.number == 2 && wire_double_of(f.value) == 0.5);
    assert_ok(wire_pb_next(&m, &f));
    assert_true(f.number == 3 && wire_float_of((uint32_t)f.value) == -2.5f);
    assert_ok(wire_pb_next(&m, &f));
    assert_int_equal(f.number, 300);
    struct wire_pb nested = wire_pb_of(f.bytes);
    assert_ok(wire_pb_next(&nested, &f));
    nested = wire_pb_of(f.bytes);
    assert_ok(wire_pb_next(&nested, &f));
    assert_int_equal(f.bytes.len, sizeof long_text);
    assert_err(TY_OUT_OF_RANGE, wire_pb_next(&m, &f));
    ty_buf_clear(&b);
}

static void pb_refuses_broken_bytes(void **state)
{
    (void)state;
    static const ty_str broken[] = {
        TY_STR("\x08"),                                          /* no value */
        TY_STR("\x00\x01"),                                      /* field 0 */
        TY_STR("\x80"),                                          /* half a key */
        TY_STR("\x12\x05hell"),                                  /* fewer bytes than it says */
        TY_STR("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01h"), /* 2^64-1 bytes */
        TY_STR("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),  /* more than 64 bits */
        TY_STR("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"),
        TY_STR("\x0d\x01\x02\x03"), /* 3 bytes of a fixed32 */
        TY_STR("\x09\x01\x02\x03\x04\x05\x06\x07"),
        TY_STR("\x0b\x0c"), /* a group */
        TY_STR("\x0f"),     /* type 7 */
    };
    for (size_t i = 0; i < TY_COUNT(broken); i++) {
        struct wire_pb m = wire_pb_of(broken[i]);
        struct wire_pb_field f;
        assert_err(TY_DATA_LOSS, wire_pb_next(&m, &f));
        assert_ptr_equal(m.at, broken[i].ptr);
    }
}

static void pb_stops_at_the_limit(void **state)
{
    (void)state;
    for (size_t limit = 0; limit < 300; limit++) {
        struct ty_buf b;
        ty_buf_init(&b, limit);
        char text[256] = {0};
        size_t mark = wire_pb_begin(&b, 1);
        wire_pb_bytes(&b, 2, (ty_str){text, sizeof text});
        wire_pb_end(&b, mark);
        assert_int_equal(ty_buf_check(&b, "message") == TY_OK, limit >= 262);
        ty_buf_clear(&b);
    }
}

static const struct CMUnitTest tests[] = {
    TEST("crc32c/known_answers", crc32c_known_answers),
    TEST("crc32c/fast_equals_plain", crc32c_fast_equals_plain),
    TEST("pb/writes_known_bytes", pb_writes_known_bytes),
    TEST("pb/reads_what_it_wrote", pb_reads_what_it_wrote),
    TEST("pb/refuses_broken_bytes", pb_refuses_broken_bytes),
    TEST("pb/stops_at_the_limit", pb_stops_at_the_limit),
};
RUN_GROUP(pb)
