/* test_records.c -- TFRecord, gzip, tf.Example, hashes: against TensorFlow's own files, and broken.
 */
#include "formats/test_formats.h"

/* ---- tfrecord ---- */

static ty_str two_records(struct ty_buf *b)
{
    ty_buf_init(b, 1000);
    tfrecord_write(b, TY_STR("first"));
    tfrecord_write(b, TY_STR(""));
    return ty_buf_str(b);
}

static void tfrecord_round_trip(void **state)
{
    (void)state;
    struct ty_buf b;
    struct tfrecord_reader r = {.file = two_records(&b)};
    ty_str record;
    assert_ok(tfrecord_read(&r, &record));
    assert_true(ty_str_is(record, "first"));
    assert_ok(tfrecord_read(&r, &record));
    assert_int_equal(record.len, 0);
    assert_err(TY_OUT_OF_RANGE, tfrecord_read(&r, &record));
    ty_buf_clear(&b);
}

static void tfrecord_truncated_data(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_str whole = two_records(&b);
    for (size_t n = 1; n < 21; n++) {
        struct tfrecord_reader r = {.file = {whole.ptr, n}};
        ty_str record = TY_STR("untouched");
        assert_err(TY_DATA_LOSS, tfrecord_read(&r, &record));
        assert_int_equal(r.offset, 0);
        assert_true(ty_str_is(record, "untouched"));
        assert_int_equal(tfrecord_whole(r.file), 0);
    }
    assert_int_equal(tfrecord_whole(whole), whole.len);
    assert_int_equal(tfrecord_whole((ty_str){whole.ptr, whole.len - 1}), 21);
    ty_buf_clear(&b);
}

static void tfrecord_flipped_bits(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_str whole = two_records(&b);
    for (size_t i = 0; i < 8 * 21; i++) {
        b.ptr[i / 8] = (char)(b.ptr[i / 8] ^ 1 << i % 8);
        struct tfrecord_reader r = {.file = whole};
        ty_str record;
        assert_err(TY_DATA_LOSS, tfrecord_read(&r, &record));
        b.ptr[i / 8] = (char)(b.ptr[i / 8] ^ 1 << i % 8);
    }
    ty_buf_clear(&b);
}

static void tfrecord_skips_a_bad_record(void **state)
{
    (void)state;
    struct ty_buf b;
    ty_str record;
    struct tfrecord_reader r = {.file = two_records(&b)};
    b.ptr[14] ^= 1; /* of the data */
    assert_err(TY_DATA_LOSS, tfrecord_read(&r, &record));
    assert_true(tfrecord_skip(&r));
    assert_ok(tfrecord_read(&r, &record));
    assert_int_equal(record.len, 0);
    assert_false(tfrecord_skip(&r)); /* the end */
    r.offset = 0;
    b.ptr[0] ^= 1; /* of the length */
    assert_false(tfrecord_skip(&r));
    assert_int_equal(r.offset, 0);
    ty_buf_clear(&b);
}

static void tfrecord_bytes_are_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct tfrecord_reader r = {.file = golden(&a, "examples.tfrecord")};
    struct ty_buf copy;
    ty_buf_init(&copy, 1 << 20);
    ty_str record;
    int count = 0;
    for (; tfrecord_read(&r, &record) == TY_OK; count++)
        tfrecord_write(&copy, record);
    assert_int_equal(count, 6);
    assert_true(ty_str_eq(ty_buf_str(&copy), r.file));
    ty_buf_clear(&copy);
    ty_arena_clear(&a);
}

/* ---- gzip ---- */

static void gzip_in_small_pieces(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str packed = golden(&a, "examples.tfrecord.gz"), plain = golden(&a, "examples.tfrecord");
    assert_true(inflater_wanted(packed) && !inflater_wanted(plain));
    for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
        struct inflater *z = inflater_new();
        struct ty_buf out;
        ty_buf_init(&out, 1 << 20);
        for (size_t at = 0; at < 2 * packed.len; at += piece) { /* the file twice: two members */
            size_t from = at % packed.len,
                   n = packed.len - from < piece ? packed.len - from : piece;
            ty_str in = {packed.ptr + from, n};
            for (size_t before = SIZE_MAX; in.len || before != out.len;) {
                before = out.len;
                assert_ok(inflater_feed(z, &in, &out, 100));
                assert_true(out.len - before <= 100);
            }
            at -= piece - n;
        }
        assert_ok(inflater_finish(z));
        assert_int_equal(out.len, 2 * plain.len);
        assert_memory_equal(out.ptr, plain.ptr, plain.len);
        ty_buf_clear(&out);
        inflater_free(z);
    }
    ty_arena_clear(&a);
}

static void gzip_cut_short_or_broken(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str packed = golden(&a, "examples.tfrecord.gz");
    struct ty_buf out;
    ty_buf_init(&out, 1 << 20);
    struct inflater *z = inflater_new();
    ty_str in = {packed.ptr, packed.len - 1};
    assert_ok(inflater_feed(z, &in, &out, 1 << 20));
    assert_err(TY_DATA_LOSS, inflater_finish(z));
    inflater_free(z);

    char *bad = ty_cstr(&a, packed);
    bad[packed.len / 2] = (char)(bad[packed.len / 2] ^ 8);
    z = inflater_new();
    in = (ty_str){bad, packed.len};
    assert_err(TY_DATA_LOSS, inflater_feed(z, &in, &out, 1 << 20));
    inflater_free(z);

    z = inflater_new();
    in = TY_STR("no gzip at all");
    assert_err(TY_DATA_LOSS, inflater_feed(z, &in, &out, 1 << 20));
    inflater_free(z);
    ty_buf_clear(&out);
    ty_arena_clear(&a);
}

/* ---- tf.Example ---- */

static void example_lists_what_tensorflow_wrote(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct tfrecord_reader r = {.file = golden(&a, "examples.tfrecord")};
    ty_str record;
    while (tfrecord_read(&r, &record) == TY_OK) {
        struct example_feature *features;
        size_t count;
        int found = 0;
        assert_ok(example_list(&a, record, &features, &count));
        assert_int_equal(count, 5);
        for (size_t i = 0; i < count; i++) {
            found += ty_str_is(features[i].name, "label") && features[i].type == EXAMPLE_INT64 &&
                     features[i].most == 1;
            found += ty_str_is(features[i].name, "image") && features[i].type == EXAMPLE_BYTES;
        }
        assert_int_equal(found, 2);
    }
    ty_arena_clear(&a);
}

/* The two encodings of a list: packed, and one by one as old writers do. */
static void example_packed_and_unpacked(void **state)
{
    (void)state;
    static const char record[] = "\x0a\x1f"
                                 "\x0a\x0d\x0a\x01i\x12\x08\x1a\x06\x08\x07\x0a\x02\x08\x01"
                                 "\x0a\x0e\x0a\x01"
                                 "f\x12\x09\x12\x07\x0a\x00\x0d\x00\x00\xc0\x3f";
    static const struct example_feature features[] = {{{"i", 1}, EXAMPLE_INT64, 3, 3, false},
                                                      {{"f", 1}, EXAMPLE_FLOAT, 1, 1, false}};
    struct ty_arena a = {0};
    struct example_schema s;
    int64_t ints[3] = {0};
    float floats[1] = {0};
    struct example_slot slots[] = {{.ints = ints}, {.floats = floats}};
    assert_ok(example_schema_init(&s, &a, features, 2));
    assert_ok(example_decode(&s, (ty_str){record, sizeof record - 1}, slots));
    assert_true(ints[0] == 7 && ints[1] == 8 && ints[2] == 1 && floats[0] == 1.5f);
    ty_arena_clear(&a);
}

static const struct example_feature wanted[] = {{{"fare", 4}, EXAMPLE_FLOAT, 1, 1, false},
                                                {{"ids", 3}, EXAMPLE_INT64, 0, 4, true},
                                                {{"company", 7}, EXAMPLE_BYTES, 1, 2, false}};

static ty_str some_example(struct ty_buf *b, size_t ids)
{
    float fare = 2.5f;
    int64_t many[] = {1, -1, INT64_MIN, 300, 5};
    ty_str companies[] = {TY_STR("Flash Cab"), TY_STR("")};
    struct example_slot slots[] = {{.floats = &fare, .count = 1},
                                   {.ints = many, .count = ids},
                                   {.bytes = companies, .count = 2}};
    ty_buf_init(b, 10000);
    example_encode(b, wanted, slots, 3);
    return ty_buf_str(b);
}

static void example_round_trip(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct ty_buf b;
    struct example_schema s;
    float fare = 0;
    int64_t ids[4] = {0};
    ty_str companies[2] = {{0}};
    struct example_slot slots[] = {{.floats = &fare}, {.ints = ids}, {.bytes = companies}};
    assert_ok(example_schema_init(&s, &a, wanted, 3));
    assert_ok(example_decode(&s, some_example(&b, 4), slots));
    assert_true(fare == 2.5f && slots[1].count == 4 && slots[2].count == 2);
    assert_true(ids[1] == -1 && ids[2] == INT64_MIN && ids[3] == 300);
    assert_true(ty_str_is(companies[0], "Flash Cab"));
    ty_buf_clear(&b);
    ty_arena_clear(&a);
}

static void example_says_what_does_not_fit(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct ty_buf b;
    struct example_schema s;
    float fare;
    int64_t ids[4];
    ty_str companies[2];
    struct example_slot slots[] = {{.floats = &fare}, {.ints = ids}, {.bytes = companies}};
    assert_ok(example_schema_init(&s, &a, wanted, 3));
    assert_err(TY_INVALID_ARGUMENT, example_decode(&s, some_example(&b, 5), slots));
    assert_message("'ids' has more than 4 values");
    ty_buf_clear(&b);

    assert_err(TY_INVALID_ARGUMENT, example_decode(&s, TY_STR(""), slots));
    assert_message("no feature 'fare'");

    struct example_feature other[3];
    memcpy(other, wanted, sizeof other);
    other[0].type = EXAMPLE_INT64;
    assert_ok(example_schema_init(&s, &a, other, 3));
    assert_err(TY_INVALID_ARGUMENT, example_decode(&s, some_example(&b, 1), slots));
    assert_message("'fare' holds floats, not int64s");
    ty_buf_clear(&b);

    other[0] = wanted[0];
    other[2].least = 3;
    other[2].most = 3;
    assert_ok(example_schema_init(&s, &a, other, 3));
    ty_str more[3];
    slots[2].bytes = more;
    assert_err(TY_INVALID_ARGUMENT, example_decode(&s, some_example(&b, 1), slots));
    assert_message("'company' has 2 values, not 3");
    ty_buf_clear(&b);

    other[1].name = other[0].name;
    assert_err(TY_INVALID_ARGUMENT, example_schema_init(&s, &a, other, 3));
    assert_message("'fare' is wanted twice");
    assert_err(TY_INVALID_ARGUMENT, example_schema_init(&s, &a, other, 0));
    ty_arena_clear(&a);
}

static void example_cut_anywhere_is_refused_or_short(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct ty_buf b;
    struct example_schema s;
    float fare;
    int64_t ids[4];
    ty_str companies[2];
    struct example_slot slots[] = {{.floats = &fare}, {.ints = ids}, {.bytes = companies}};
    assert_ok(example_schema_init(&s, &a, wanted, 3));
    ty_str whole = some_example(&b, 4);
    for (size_t n = 1; n < whole.len; n++)
        assert_err(TY_DATA_LOSS, example_decode(&s, (ty_str){whole.ptr, n}, slots));
    ty_buf_clear(&b);
    ty_arena_clear(&a);
}

/* ---- hashes ---- */

static uint64_t number_take(ty_str *line)
{
    ty_str word;
    assert_true(ty_str_split(line, ' ', &word));
    char text[32] = {0};
    memcpy(text, word.ptr, word.len);
    return strtoull(text, NULL, 10);
}

static void hash_equals_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str rest = golden(&a, "hashes.txt"), line;
    int count = 0;
    for (; ty_str_split(&rest, '\n', &line); count++) {
        uint64_t print = number_take(&line), bucket = number_take(&line);
        assert_true(fingerprint64(line) == print);
        assert_int_equal(hash_bucket(line, 100), bucket);
    }
    assert_int_equal(count, 140);
    assert_int_equal(hash_bucket_int64(-17, 1000), hash_bucket(TY_STR("-17"), 1000));
    ty_arena_clear(&a);
}

static void cross_equals_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str rest = golden(&a, "crosses.txt"), line;
    int count = 0;
    for (; ty_str_split(&rest, '\n', &line); count++) {
        uint64_t id = number_take(&line), first = number_take(&line), third = number_take(&line);
        uint64_t features[] = {first, fingerprint64(line), third};
        assert_int_equal(cross_bucket(features, 3, 10000, CROSS_HASH_KEY), id);
    }
    assert_int_equal(count, 40);
    ty_arena_clear(&a);
}

/* The answers TensorFlow's own documentation and tests print. */
static void cross_known_answers(void **state)
{
    (void)state;
    uint64_t f[] = {fingerprint64(TY_STR("batch1-FC1-F1")), fingerprint64(TY_STR("batch1-FC2-F1")),
                    fingerprint64(TY_STR("batch1-FC3-F1"))};
    assert_int_equal(cross_bucket(f, 3, 0, CROSS_HASH_KEY), 1971693436396284976);
    assert_int_equal(cross_bucket(f, 3, 100, CROSS_HASH_KEY), 83);
    assert_int_equal(cross_bucket(f, 3, 0, CROSS_HASH_KEY + 1), 4847552627144134031);
    assert_int_equal(cross_bucket(f, 3, 100, CROSS_HASH_KEY + 1), 31);
}

static const struct CMUnitTest tests[] = {
    TEST("tfrecord/round_trip", tfrecord_round_trip),
    TEST("tfrecord/truncated_data", tfrecord_truncated_data),
    TEST("tfrecord/flipped_bits", tfrecord_flipped_bits),
    TEST("tfrecord/skips_a_bad_record", tfrecord_skips_a_bad_record),
    TEST("tfrecord/bytes_are_tensorflows", tfrecord_bytes_are_tensorflows),
    TEST("gzip/in_small_pieces", gzip_in_small_pieces),
    TEST("gzip/cut_short_or_broken", gzip_cut_short_or_broken),
    TEST("example/lists_what_tensorflow_wrote", example_lists_what_tensorflow_wrote),
    TEST("example/packed_and_unpacked", example_packed_and_unpacked),
    TEST("example/round_trip", example_round_trip),
    TEST("example/says_what_does_not_fit", example_says_what_does_not_fit),
    TEST("example/cut_anywhere_is_refused_or_short", example_cut_anywhere_is_refused_or_short),
    TEST("hash/equals_tensorflows", hash_equals_tensorflows),
    TEST("cross/equals_tensorflows", cross_equals_tensorflows),
    TEST("cross/known_answers", cross_known_answers),
};
RUN_GROUP(records)
