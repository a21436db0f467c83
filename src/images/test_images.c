/* test_images.c -- images against TensorFlow's own answers (tests/golden/images), damaged files,
 * and the plain references. */
#include "base/test.h"
#include "images/images_int.h"

#include <pthread.h>
#include <zlib.h>

static const struct image_options any = {0}, colour = {.channels = 3};

static ty_str golden(struct ty_arena *a, const char *name)
{
    ty_str bytes = {"", 0};
    assert_ok(ty_file_read(AT_FDCWD, ty_format(a, "%s/%s", GOLDEN_DIR, name), 1 << 20, a, &bytes));
    return bytes;
}

static uint32_t dice(uint32_t *state, uint32_t sides)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*state * sides >> 32);
}

/* The next word of a line; numbers of it. */
static ty_str word_take(ty_str *line)
{
    ty_str word;
    ty_str_split(line, ' ', &word);
    return word;
}

static uint32_t number_take(ty_str *line)
{
    int64_t value = -1;
    assert_ok(ty_parse_i64(word_take(line), &value));
    return (uint32_t)value;
}

/* ---- decoding ---- */

static void decode_equals_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str rest = golden(&a, "decode.txt"), pixels = golden(&a, "pixels.bin"), line;
    int count = 0, refused = 0;
    for (; ty_str_split(&rest, '\n', &line); count++) {
        const char *name = ty_cstr(&a, word_take(&line));
        struct image_options o = {.channels = number_take(&line)};
        struct image m;
        if (ty_str_is(line, "refused")) {
            assert_err(TY_INVALID_ARGUMENT, image_decode(&a, golden(&a, name), &o, &m));
            refused++;
            continue;
        }
        uint32_t height = number_take(&line), width = number_take(&line);
        assert_ok(image_decode(&a, golden(&a, name), &o, &m));
        size_t size = (size_t)height * width * o.channels;
        if (m.height != height || m.width != width || m.channels != o.channels ||
            size > pixels.len || memcmp(m.pixels, pixels.ptr, size) != 0)
            fail_msg("%s with %u channels differs from TensorFlow's", name, o.channels);
        pixels = ty_str_drop(pixels, size);
    }
    assert_int_equal(pixels.len, 0);
    assert_true(count > 100 && refused == 3);
    ty_arena_clear(&a);
}

static void decode_own_channels(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t channels;
    } cases[] = {{"grey.jpg", 1},     {"full.jpg", 3},    {"cmyk.jpg", 3},    {"type0_1.png", 1},
                 {"type2_16.png", 3}, {"type3_4.png", 3}, {"type4_8.png", 1}, {"type6_8i.png", 3}};
    struct ty_arena a = {0};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct image m;
        assert_ok(image_decode(&a, golden(&a, cases[i].name), &any, &m));
        assert_int_equal(m.channels, cases[i].channels);
    }
    ty_arena_clear(&a);
}

static void decode_broken_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"cut_3.jpg", "cut short"},         {"cut_60.jpg", "cut short"},
        {"cut_8.png", "cut short"},         {"cut_60.png", "cut short"},
        {"checksum.png", "PNG is damaged"}, {"no_size.png", "PNG is damaged"},
        {"depth12.jpg", "precision 12"},    {"lossless.jpg", "Unsupported JPEG process"},
        {"no_frame.jpg", "SOS before SOF"}, {"empty", "empty"},
    };
    struct ty_arena a = {0};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct image m = {.height = 77};
        ty_str file = golden(&a, ty_format(&a, "broken/%s", cases[i].name));
        assert_err(TY_DATA_LOSS, image_decode(&a, file, &any, &m));
        assert_message(cases[i].words);
        assert_int_equal(m.height, 77);
    }
    ty_arena_clear(&a);
}

static void decode_says_what_else_it_is(void **state)
{
    (void)state;
    static const struct {
        ty_str file;
        const char *kind;
    } cases[] = {
        {{"GIF89a..", 8}, "GIF"},           {{"BM......", 8}, "BMP"},
        {{"RIFFabcdWEBPVP8 ", 16}, "WebP"}, {{"II*\0....", 8}, "TIFF"},
        {{"MM\0*....", 8}, "TIFF"},         {{"RIFFabcdWAVE", 12}, NULL},
        {{"\x89PNG\r\n\x1a", 7}, NULL},     {{"this is no image", 16}, NULL},
    };
    struct ty_arena a = {0};
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct image m;
        assert_err(TY_INVALID_ARGUMENT, image_decode(&a, cases[i].file, &any, &m));
        assert_message(cases[i].kind ? cases[i].kind : "no image");
        assert_true((image_kind(cases[i].file) == NULL) == (cases[i].kind == NULL));
    }
    assert_string_equal(image_kind(golden(&a, "grey.jpg")), "JPEG");
    assert_string_equal(image_kind(golden(&a, "dot.png")), "PNG");
    ty_arena_clear(&a);
}

/* Exact copies on the heap, so that ASan sees a read past the end. */
static ty_err decode_copy(struct image_room *r, ty_str file, size_t len, struct image *ret_image)
{
    char *copy = malloc(len ? len : 1);
    memcpy(copy, file.ptr, len);
    ty_err err = image_decode_room(r, (ty_str){copy, len}, &any, ret_image);
    free(copy);
    return err;
}

static void cut_anywhere(const char *name, size_t first)
{
    struct ty_arena a = {0};
    struct image_room room = {0};
    ty_str whole = golden(&a, name);
    struct image m;
    for (size_t n = first; n < whole.len - 1; n++)
        if (decode_copy(&room, whole, n, &m) != TY_DATA_LOSS)
            fail_msg("the first %zu bytes of %s are not refused", n, name);
    assert_ok(decode_copy(&room, whole, whole.len, &m));
    image_room_clear(&room);
    ty_arena_clear(&a);
}

static void jpeg_cut_anywhere_is_refused(void **state)
{
    (void)state;
    cut_anywhere("grey.jpg", 3);
    cut_anywhere("restart.jpg", 3);
    cut_anywhere("tf_progressive.jpg", 3);
}

static void png_cut_anywhere_is_refused(void **state)
{
    (void)state;
    cut_anywhere("type3_4.png", 8);
    cut_anywhere("type6_8i.png", 8);
}

/* Whatever is flipped, a file decodes or is refused with a reason. */
static void decode_flipped_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"tf_progressive.jpg", "ycck.jpg", "restart.jpg",
                                        "gamma.png", "type3_2i.png"};
    struct ty_arena a = {0};
    struct image_room room = {0};
    static const uint32_t channels[] = {0, 1, 3};
    uint32_t seed = 1, decoded = 0, warned = 0, refused = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        ty_str file = golden(&a, names[i % TY_COUNT(names)]);
        char *bytes = ty_cstr(&a, file);
        for (uint32_t flips = 1 + dice(&seed, 3); flips-- > 0;) {
            size_t at = 8 + dice(&seed, (uint32_t)file.len - 8);
            bytes[at] = (char)(bytes[at] ^ 1 << dice(&seed, 8));
        }
        struct image m;
        struct image_options o = {.channels = channels[i % 3], .most_pixels = 1 << 16};
        ty_err err = image_decode_room(&room, (ty_str){bytes, file.len}, &o, &m);
        decoded += err == TY_OK;
        warned += err == TY_OK && m.warnings > 0;
        refused += err == TY_DATA_LOSS;
        assert_true(err == TY_OK || ty_err_message()[0]);
        ty_arena_clear(&a);
    }
    assert_true(decoded > 500 && refused > 500 && warned > 200);
    image_room_clear(&room);
}

static void jpeg_half_an_end_mark_is_a_warning(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct image m;
    ty_str file = golden(&a, "no_end.jpg");
    assert_ok(image_decode(&a, file, &any, &m));
    assert_int_equal(m.warnings, 1);
    file.len--;
    assert_err(TY_DATA_LOSS, image_decode(&a, file, &any, &m));
    assert_ok(image_decode(&a, golden(&a, "full.jpg"), &any, &m));
    assert_int_equal(m.warnings, 0);
    ty_arena_clear(&a);
}

/* The last scan of a progressive file over and over: a few bytes each, and a walk over the picture.
 */
static void jpeg_many_scans_are_refused(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str file = golden(&a, "tf_progressive.jpg");
    size_t last = 0;
    for (size_t i = 0; i + 1 < file.len; i++)
        if (memcmp(file.ptr + i, "\xff\xda", 2) == 0)
            last = i;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 24);
    ty_buf_add(&b, file.ptr, last);
    for (int i = 0; i < 1000; i++)
        ty_buf_add(&b, file.ptr + last, file.len - 2 - last);
    ty_buf_add(&b, "\xff\xd9", 2);
    struct image m;
    assert_err(TY_RESOURCE_EXHAUSTED, image_decode(&a, ty_buf_str(&b), &any, &m));
    assert_message("scans");
    ty_buf_clear(&b);
    ty_arena_clear(&a);
}

/* ---- sizes and memory ---- */

static void be32_store(char *to, uLong value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (char)(value >> (24 - 8 * i));
}

static void size_is_judged_before_memory_is_taken(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct image_room room = {0};
    struct image m;
    char *jpeg = ty_cstr(&a, golden(&a, "full.jpg")), *png = ty_cstr(&a, golden(&a, "type2_8.png"));
    size_t jpeg_len = golden(&a, "full.jpg").len, png_len = golden(&a, "type2_8.png").len;
    char *frame = memmem(jpeg, jpeg_len, "\xff\xc0", 2);
    memcpy(frame + 5, "\xff\0\xff\0", 4); /* 65280 x 65280 */
    assert_err(TY_RESOURCE_EXHAUSTED, image_decode_room(&room, (ty_str){jpeg, jpeg_len}, &any, &m));
    assert_message("65280 x 65280");
    memcpy(png + 16, "\x7f\xff\xff\xff", 4);
    be32_store(png + 29, crc32(0, (Bytef *)png + 12, 17));
    assert_err(TY_RESOURCE_EXHAUSTED, image_decode_room(&room, (ty_str){png, png_len}, &any, &m));
    assert_message("2147483647 x 23");
    assert_true(room.ptr == NULL);
    struct image_options few = {.most_pixels = 33 * 41 - 1};
    assert_err(TY_RESOURCE_EXHAUSTED, image_decode(&a, golden(&a, "full.jpg"), &few, &m));
    few.most_pixels++;
    assert_ok(image_decode(&a, golden(&a, "full.jpg"), &few, &m));
    ty_arena_clear(&a);
}

static void size_of_the_callers_memory(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct image m = {0}, same;
    ty_str file = golden(&a, "full.jpg");
    size_t size = 33 * 41 * 3;
    uint8_t *pixels = malloc(size);
    assert_err(TY_OUT_OF_RANGE, image_decode_into(pixels, size - 1, file, &any, &m));
    assert_message("takes 4059 bytes");
    assert_true(m.pixels == NULL);
    assert_ok(image_decode_into(pixels, size, file, &any, &m));
    assert_ok(image_decode(&a, file, &any, &same));
    assert_true(m.pixels == pixels);
    assert_memory_equal(pixels, same.pixels, size);
    free(pixels);
    ty_arena_clear(&a);
}

static void room_is_used_again(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct image_room room = {0};
    struct image m;
    assert_ok(image_decode_room(&room, golden(&a, "full.jpg"), &any, &m));
    uint8_t *first = room.ptr;
    assert_true(m.pixels == first);
    assert_ok(image_decode_room(&room, golden(&a, "dot.png"), &any, &m));
    assert_true(m.pixels == first);
    assert_ok(image_decode_room(&room, golden(&a, "tf_plain.jpg"), &any, &m));
    assert_true(room.size >= 53 * 38 * 3);
    image_room_clear(&room);
    assert_true(room.ptr == NULL && room.size == 0);
    ty_arena_clear(&a);
}

/* ---- libraries ---- */

static void library_missing_names_the_package(void **state)
{
    (void)state;
    static const char *const names[] = {"malloc", "no_such_function"};
    void *slots[2];
    assert_err(TY_FAILED_PRECONDITION, library_load("libnone.so.9", "libnone9", names, slots, 2));
    assert_message("libnone.so.9 (on Debian: apt install libnone9)");
    assert_err(TY_FAILED_PRECONDITION, library_load("libc.so.6", "libc6", names, slots, 2));
    assert_message("no 'no_such_function'");
    assert_ok(library_load("libc.so.6", "libc6", names, slots, 1));
}

static void *decode_many(void *arg)
{
    (void)arg;
    struct ty_arena a = {0};
    struct image_room room = {0};
    struct image m;
    for (int i = 0; i < 50; i++) {
        assert_ok(image_decode_room(&room, golden(&a, "tf_plain.jpg"), &any, &m));
        assert_ok(image_decode_room(&room, golden(&a, "gamma.png"), &any, &m));
        assert_err(TY_DATA_LOSS,
                   image_decode_room(&room, golden(&a, "broken/checksum.png"), &any, &m));
    }
    image_room_clear(&room);
    ty_arena_clear(&a);
    return NULL;
}

static void library_serves_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < TY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, decode_many, NULL), 0);
    for (size_t i = 0; i < TY_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
}

/* ---- resizing ---- */

static void resize_equals_tensorflows(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct image_room room = {0};
    ty_str rest = golden(&a, "resize.txt"), floats = golden(&a, "floats.bin"), line;
    uint64_t warnings = 0;
    int count = 0;
    for (; ty_str_split(&rest, '\n', &line); count++) {
        const char *name = ty_cstr(&a, word_take(&line));
        struct image_options o = {.channels = number_take(&line)};
        enum image_method method =
            ty_str_is(word_take(&line), "nearest") ? IMAGE_NEAREST : IMAGE_BILINEAR;
        uint32_t height = number_take(&line), width = number_take(&line);
        size_t size = (size_t)height * width * o.channels * sizeof(float);
        float *out = ty_alloc(&a, size);
        assert_ok(image_load(&room, golden(&a, name), &o, method, height, width, out, &warnings));
        assert_true(size <= floats.len);
        assert_memory_equal(out, floats.ptr, size);
        floats = ty_str_drop(floats, size);
    }
    assert_int_equal(floats.len, 0);
    assert_int_equal(count, 14);
    assert_int_equal(warnings, 0);
    image_room_clear(&room);
    ty_arena_clear(&a);
}

/* Heap blocks of the exact size: the vectors must not read or write past them. */
static void resize_equals_the_plain_one(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int i = 0; i < 400; i++) {
        struct image m = {.height = 1 + dice(&seed, 40),
                          .width = 1 + dice(&seed, i % 20 ? 40 : 900),
                          .channels = dice(&seed, 3) ? 3 : 1};
        uint32_t height = 1 + dice(&seed, 50), width = 1 + dice(&seed, i % 20 ? 50 : 900);
        size_t bytes = (size_t)m.height * m.width * m.channels,
               size = (size_t)height * width * m.channels * sizeof(float);
        m.pixels = malloc(bytes);
        for (size_t k = 0; k < bytes; k++)
            m.pixels[k] = (uint8_t)dice(&seed, 256);
        float *fast = malloc(size), *plain = malloc(size);
        enum image_method method = i % 4 ? IMAGE_BILINEAR : IMAGE_NEAREST;
        image_resize(&m, method, height, width, fast);
        image_resize_plain(&m, method, height, width, plain);
        assert_memory_equal(fast, plain, size);
        free(m.pixels);
        free(fast);
        free(plain);
    }
}

static void resize_to_the_same_size_changes_nothing(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct image m;
    assert_ok(image_decode(&a, golden(&a, "full.jpg"), &colour, &m));
    size_t count = (size_t)m.height * m.width * 3;
    float *out = ty_new_array(&a, float, count);
    for (int method = IMAGE_BILINEAR; method <= IMAGE_NEAREST; method++) {
        image_resize(&m, (enum image_method)method, m.height, m.width, out);
        for (size_t i = 0; i < count; i++)
            assert_true(out[i] == (float)m.pixels[i]);
    }
    ty_arena_clear(&a);
}

static void load_leaves_the_batch_alone_on_failure(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct image_room room = {0};
    float out[3] = {5, 6, 7};
    uint64_t warnings = 0;
    ty_str file = golden(&a, "full.jpg");
    file.len /= 2;
    assert_err(TY_DATA_LOSS,
               image_load(&room, file, &colour, IMAGE_BILINEAR, 1, 1, out, &warnings));
    assert_true(out[0] == 5 && out[1] == 6 && out[2] == 7);
    assert_ok(
        image_load(&room, golden(&a, "no_end.jpg"), &colour, IMAGE_BILINEAR, 1, 1, out, &warnings));
    assert_int_equal(warnings, 1);
    image_room_clear(&room);
    ty_arena_clear(&a);
}

/* ---- random numbers and folders ---- */

static void random_known_answers(void **state)
{
    (void)state;
    struct mt19937 m;
    mt19937_init(&m, 5489); /* the first and the ten thousandth number of the C++ standard */
    uint32_t value = mt19937_next(&m);
    assert_true(value == 3499211612u);
    for (int i = 1; i < 10000; i++)
        value = mt19937_next(&m);
    assert_true(value == 4123659995u);
    assert_true(mt19937_upto(&m, 0) == 0);
    for (int i = 0; i < 100; i++)
        assert_true(mt19937_upto(&m, (uint64_t)5 << 32) <= (uint64_t)5 << 32);
}

static void shuffle_equals_numpys(void **state)
{
    (void)state;
    enum { COUNT = 700 };
    struct ty_arena a = {0};
    ty_str rest = golden(&a, "shuffle.txt"), line;
    int lines = 0;
    for (; ty_str_split(&rest, '\n', &line); lines++) {
        struct image_file files[COUNT];
        struct image_set s = {.files = files, .count = COUNT};
        for (uint32_t i = 0; i < COUNT; i++)
            files[i].class_id = i;
        image_set_shuffle(&s, number_take(&line));
        for (uint32_t i = 0; i < COUNT; i++)
            assert_int_equal(files[i].class_id, number_take(&line));
    }
    assert_int_equal(lines, 3);
    ty_arena_clear(&a);
}

static void folder_order_and_classes(void **state)
{
    (void)state;
    static const ty_str paths[] = {
        {"d/tulips/b.PNG", 14},    {"d/tulips/Z.jpeg", 15}, {"d/roses/a/c.jpg", 15},
        {"d/roses/a-b/d.gif", 17}, {"d/roses/x.jpg", 13},   {"d/Roses/1.bmp", 13},
        {"d/roses/notes.txt", 17}, {"d/.git/x.jpg", 12},    {"d/LICENSE.jpg", 13},
        {"d/zinnia/read.me", 16},  {"d/roses/a.jpg/", 14},
    };
    static const char *const files[] = {"d/Roses/1.bmp",     "d/roses/x.jpg",   "d/roses/a/c.jpg",
                                        "d/roses/a-b/d.gif", "d/tulips/Z.jpeg", "d/tulips/b.PNG"};
    static const uint32_t ids[] = {0, 1, 1, 1, 2, 2};
    static const char *const classes[] = {"Roses", "roses", "tulips", "zinnia"};
    struct ty_arena a = {0};
    for (int slash = 0; slash < 2; slash++) {
        struct image_set s;
        assert_ok(
            image_set_index(&a, slash ? TY_STR("d/") : TY_STR("d"), paths, TY_COUNT(paths), &s));
        assert_int_equal(s.count, TY_COUNT(files));
        assert_int_equal(s.class_count, TY_COUNT(classes));
        assert_int_equal(s.skipped, TY_COUNT(paths) - TY_COUNT(files));
        for (size_t i = 0; i < s.count; i++) {
            assert_true(ty_str_is(s.files[i].path, files[i]));
            assert_int_equal(s.files[i].class_id, ids[i]);
        }
        for (size_t i = 0; i < s.class_count; i++)
            assert_true(ty_str_is(s.classes[i], classes[i]));
    }
    ty_arena_clear(&a);
}

static void folder_says_what_is_wrong(void **state)
{
    (void)state;
    static const ty_str outside[] = {{"d/a/1.jpg", 9}, {"dd/a/2.jpg", 10}},
                        none[] = {{"d/1.jpg", 7}, {"d/a/x.txt", 9}};
    struct ty_arena a = {0};
    struct image_set s;
    assert_err(TY_INVALID_ARGUMENT, image_set_index(&a, TY_STR("d"), outside, 2, &s));
    assert_message("'dd/a/2.jpg' is not below 'd'");
    assert_err(TY_INVALID_ARGUMENT, image_set_index(&a, TY_STR("d"), none, 2, &s));
    assert_message("no image is in a folder below 'd' (of 2 files)");
    assert_err(TY_INVALID_ARGUMENT, image_set_index(&a, TY_STR("gs://b/d"), none, 0, &s));
    assert_ok(image_set_index(&a, TY_STR(""), outside, 2, &s)); /* relative paths: d and dd */
    assert_int_equal(s.class_count, 2);
    enum { MANY = IMAGE_MOST_CLASSES + 1 };
    ty_str *many = ty_new_array(&a, ty_str, MANY);
    for (int i = 0; i < MANY; i++)
        many[i] = ty_str_of(ty_format(&a, "d/%d/x.jpg", i));
    assert_err(TY_INVALID_ARGUMENT, image_set_index(&a, TY_STR("d"), many, MANY, &s));
    assert_message("more than 65536 folders");
    assert_ok(image_set_index(&a, TY_STR("d"), many, MANY - 1, &s));
    ty_arena_clear(&a);
}

static void split_takes_the_last(void **state)
{
    (void)state;
    struct image_file files[9] = {0};
    struct image_set s = {.files = files, .count = 9, .class_count = 1}, training, validation;
    assert_ok(image_set_split(&s, 0.35, &training, &validation));
    assert_int_equal(training.count, 6);
    assert_int_equal(validation.count, 3);
    assert_true(training.files == files && validation.files == files + 6);
    static const double bad[] = {0, 1, -0.5, 2, 0.1};
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_err(TY_INVALID_ARGUMENT, image_set_split(&s, bad[i], &training, &validation));
    assert_message("leaves none to validate with");
    assert_int_equal(training.count, 6);
}

/* ---- writing ---- */

static void png_round_trip(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    static const uint32_t sizes[][2] = {{1, 1}, {3, 2}, {170, 171}, {1, 600}, {700, 1}, {300, 400}};
    uint32_t seed = 3;
    for (size_t i = 0; i < 2 * TY_COUNT(sizes); i++) {
        struct image m = {.height = sizes[i / 2][0],
                          .width = sizes[i / 2][1],
                          .channels = i % 2 ? 3 : 1},
                     back;
        size_t size = (size_t)m.height * m.width * m.channels;
        m.pixels = ty_alloc(&a, size);
        for (size_t k = 0; k < size; k++)
            m.pixels[k] = (uint8_t)dice(&seed, 256);
        struct ty_buf b;
        ty_buf_init(&b, 1 << 20);
        image_encode_png(&b, &m);
        assert_ok(ty_buf_check(&b, "the PNG"));
        assert_ok(image_decode(&a, ty_buf_str(&b), &any, &back));
        assert_true(back.height == m.height && back.width == m.width);
        assert_int_equal(back.channels, m.channels);
        assert_int_equal(back.warnings, 0);
        assert_memory_equal(back.pixels, m.pixels, size);
        ty_buf_clear(&b);
    }
    ty_arena_clear(&a);
}

static void png_of_a_drawing_is_small(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct image m = {ty_alloc(&a, 640 * 480 * 3), 480, 640, 3, 0};
    memset(m.pixels, 255, 640 * 480 * 3);
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    image_encode_png(&b, &m);
    assert_true(b.len < 4000);
    ty_buf_clear(&b);
    ty_arena_clear(&a);
}

static const struct CMUnitTest tests[] = {
    TEST("library/missing_names_the_package", library_missing_names_the_package),
    TEST("library/serves_threads", library_serves_threads),
    TEST("decode/equals_tensorflows", decode_equals_tensorflows),
    TEST("decode/own_channels", decode_own_channels),
    TEST("decode/broken_is_refused", decode_broken_is_refused),
    TEST("decode/says_what_else_it_is", decode_says_what_else_it_is),
    TEST("decode/flipped_bits", decode_flipped_bits),
    TEST("jpeg/cut_anywhere_is_refused", jpeg_cut_anywhere_is_refused),
    TEST("jpeg/half_an_end_mark_is_a_warning", jpeg_half_an_end_mark_is_a_warning),
    TEST("jpeg/many_scans_are_refused", jpeg_many_scans_are_refused),
    TEST("png/cut_anywhere_is_refused", png_cut_anywhere_is_refused),
    TEST("size/is_judged_before_memory_is_taken", size_is_judged_before_memory_is_taken),
    TEST("size/of_the_callers_memory", size_of_the_callers_memory),
    TEST("room/is_used_again", room_is_used_again),
    TEST("resize/equals_tensorflows", resize_equals_tensorflows),
    TEST("resize/equals_the_plain_one", resize_equals_the_plain_one),
    TEST("resize/to_the_same_size_changes_nothing", resize_to_the_same_size_changes_nothing),
    TEST("load/leaves_the_batch_alone_on_failure", load_leaves_the_batch_alone_on_failure),
    TEST("random/known_answers", random_known_answers),
    TEST("shuffle/equals_numpys", shuffle_equals_numpys),
    TEST("folder/order_and_classes", folder_order_and_classes),
    TEST("folder/says_what_is_wrong", folder_says_what_is_wrong),
    TEST("split/takes_the_last", split_takes_the_last),
    TEST("png/round_trip", png_round_trip),
    TEST("png/of_a_drawing_is_small", png_of_a_drawing_is_small),
};
TEST_MAIN("images", tests)
