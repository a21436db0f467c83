/* test_images.c -- folders of images: what is kept and what is decoded again, order, mistakes. */
#define TY_SEAM
#include "base/test.h"
#include "train/train_int.h"

static const char MODEL[] =
    "name: pictures\n"
    "parameters: {split: 0.25, epochs: 2, height: 8}\n"
    "input: {format: images, height: height, width: 6, validation_split: split, split_seed: 3}\n"
    "network:\n"
    "  layers:\n"
    "    - {rescale: 1 / 255}\n"
    "    - {conv2d: 4, padding: same, activation: relu}\n"
    "    - {max_pool: 2}\n"
    "    - {flatten: }\n"
    "    - {dense: 3}\n"
    "head: {type: multiclass, classes: 3}\n"
    "training: {batch_size: 5, epochs: epochs}\n";

enum { EACH = 9 };
static const char *const CLASSES[] = {"blue", "green", "red"};

struct place {
    struct ty_arena arena;
    char dir[64];
    struct train_options options;
};

static void write_file(struct place *p, const char *name, ty_str bytes)
{
    const char *path = ty_format(&p->arena, "%s/%s", p->dir, name);
    char *slash = strrchr(path, '/');
    assert_ok(ty_mkdirs(ty_format(&p->arena, "%.*s", (int)(slash - path), path), 0755));
    assert_ok(ty_file_replace(AT_FDCWD, path, bytes, 0644));
}

/* A picture mostly of one colour. Odd ones are 8 x 6, as the model wants them; others larger. */
static void picture_write(struct place *p, const char *folder, int kind, int number)
{
    uint8_t pixels[20 * 17 * 3];
    bool fits = number % 2 == 1;
    struct image i = {pixels, fits ? 8 : 20, fits ? 6 : 17, 3, 0};
    struct ty_buf b;
    for (uint32_t k = 0; k < i.height * i.width * 3; k++)
        pixels[k] = (uint8_t)(k % 3 == (uint32_t)(2 - kind) ? 200 + (uint32_t)number : k * 7 % 90);
    ty_buf_init(&b, 1 << 20);
    image_encode_png(&b, &i);
    write_file(p, ty_format(&p->arena, "%s/%s/%02d.png", folder, CLASSES[kind], number),
               ty_buf_str(&b));
    ty_buf_clear(&b);
}

static void place_init(struct place *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->dir, sizeof p->dir, "/tmp/test_images.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < EACH; i++)
            picture_write(p, "all", kind, i);
    write_file(p, "all/README.txt", TY_STR("not in a class"));
    p->options = (struct train_options){.model = "m.yaml",
                                        .model_text = MODEL,
                                        .quiet = true,
                                        .seed = 7,
                                        .threads = 2,
                                        .train_count = 1};
    p->options.train_paths[0] = ty_format(&p->arena, "%s/all/", p->dir);
}

static void place_clear(struct place *p)
{
    assert_ok(ty_remove_tree(AT_FDCWD, p->dir));
    ty_arena_clear(&p->arena);
}

static void set(struct place *p, const char *name, const char *value)
{
    p->options.settings[p->options.setting_count++] =
        (struct nn_setting){ty_str_of(name), ty_str_of(value)};
}

/* The exported variables of a run. */
static ty_str run_weights(struct place *p, const char *name)
{
    struct train_result r;
    ty_str bytes;
    p->options.output_dir = ty_format(&p->arena, "%s/%s", p->dir, name);
    assert_ok(train_run(&p->options, &r));
    assert_ok(ty_file_read(
        AT_FDCWD, ty_format(&p->arena, "%s/variables/variables.data-00000-of-00001", r.export_dir),
        1 << 26, &p->arena, &bytes));
    return bytes;
}

static void assert_same(ty_str a, ty_str b)
{
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.ptr, b.ptr, a.len);
}

static struct nn_model *model_of(struct place *p)
{
    struct nn_model *m;
    assert_ok(nn_model_parse(&p->arena, "m.yaml", ty_str_of(MODEL), NULL, 0, &m));
    return m;
}

static void load(struct place *p, struct nn_model *m, bool split, _Atomic size_t *room,
                 struct train_data *train, struct train_data *valid)
{
    *train = *valid = (struct train_data){0};
    assert_ok(
        train_pictures_load(m, &p->arena, p->options.train_paths[0], split, room, train, valid));
}

/* Pixels come out the same whether they were kept, or decoded again at each pass. */
static void memory_does_not_change_a_bit(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    ty_str kept = run_weights(&p, "kept");
    p.options.cache_bytes = 1;
    ty_str again = run_weights(&p, "again");
    p.options.cache_bytes = 8 * 6 * 3 * 4 * 5; /* some are kept */
    p.options.threads = 4;
    ty_str some = run_weights(&p, "some");
    p.options.threads = 1;
    ty_str one = run_weights(&p, "one");
    assert_same(kept, again);
    assert_same(kept, some);
    assert_same(kept, one);
    place_clear(&p);
}

static void resume_is_exact(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    ty_str whole = run_weights(&p, "whole");
    p.options.output_dir = ty_format(&p.arena, "%s/parts", p.dir);
    p.options.resume = true;
    p.options.cache_bytes = 1;
    for (int stop = 2; stop < 8; stop += 3) {
        p.options.stop_at_step = stop;
        assert_err(TY_CANCELLED, train_run(&p.options, &r));
    }
    p.options.stop_at_step = 0;
    assert_same(whole, run_weights(&p, "parts"));
    place_clear(&p);
}

/* Bytes for those whose pixels are whole numbers, floats for those that were resized; no more than
 * there is room for. */
static void room_is_kept_to(void **state)
{
    (void)state;
    struct place p;
    struct train_data all, none;
    enum { PIXELS = 8 * 6 * 3 };
    _Atomic size_t room = 4 * PIXELS + 2 * PIXELS * sizeof(float);
    struct image_room decode = {0};
    float into[PIXELS];
    size_t floats = 0, bytes = 0;
    place_init(&p);
    load(&p, model_of(&p), false, &room, &all, &none);
    assert_int_equal(all.rows.count, 3 * EACH);
    for (size_t i = 0; i < all.rows.count; i++) {
        struct nn_pixels pixels;
        assert_ok(train_picture_take(all.pictures, i, &decode, into, &pixels));
        assert_ptr_equal(pixels.floats, into);
        if (train_picture_kept(all.pictures, i, &pixels)) {
            floats += pixels.floats != NULL;
            bytes += pixels.bytes != NULL;
        }
        for (size_t k = 0; pixels.bytes && k < PIXELS; k++)
            assert_true(into[k] == (float)pixels.bytes[k]);
    }
    assert_int_equal(floats, 2);
    assert_int_equal(bytes, 4);
    assert_int_equal(room, 0);
    image_room_clear(&decode);
    train_data_clear(&all);
    place_clear(&p);
}

/* A pass has every image once; the last batch is what is left, or the next pass follows it. */
static void feed_has_every_image_once_a_pass(void **state)
{
    (void)state;
    struct place p;
    struct train_data train, valid;
    _Atomic size_t room = 1 << 20;
    struct nn_model *m;
    struct nn_batch b;
    float orders[2][3 * EACH];
    place_init(&p);
    m = model_of(&p);
    load(&p, m, true, &room, &train, &valid);
    assert_int_equal(train.rows.count, 21); /* int(27 * 0.25) validate */
    assert_int_equal(valid.rows.count, 6);
    struct train_feed *f = train_feed_new(m, &train, 5, true, false, 1, 3);
    assert_int_equal(train_feed_batches(f), 5);
    for (size_t pass = 0; pass < 2; pass++) {
        size_t seen = 0, of_class[3] = {0}, wanted[3] = {0};
        for (size_t i = 0; i < 5; i++) {
            assert_ok(train_feed_take(f, pass * 5 + i, &b));
            assert_int_equal(b.count, i < 4 ? 5 : 1);
            for (size_t k = 0; k < b.count; k++) {
                const struct nn_pixels *x = &b.rows->pixels[b.first + k];
                orders[pass][seen++] = x->floats ? x->floats[0] : (float)x->bytes[0];
                of_class[(int)b.rows->labels[b.first + k]]++;
            }
        }
        for (size_t i = 0; i < train.rows.count; i++)
            wanted[(int)train.rows.labels[i]]++;
        assert_memory_equal(of_class, wanted, sizeof wanted);
    }
    assert_memory_not_equal(orders[0], orders[1], 21 * sizeof(float));
    train_feed_free(f);
    f = train_feed_new(m, &train, 5, true, true, 1, 3);
    assert_ok(train_feed_take(f, 4, &b));
    assert_int_equal(b.count, 5);
    train_feed_free(f);
    train_data_clear(&train);
    train_data_clear(&valid);
    place_clear(&p);
}

static void broken_is_an_error_or_a_counted_skip(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    struct train_data all, none;
    _Atomic size_t room = 1 << 20;
    place_init(&p);
    write_file(&p, "all/red/50.jpg", TY_STR("\xff\xd8\xff\xe0 and no more"));
    write_file(&p, "all/green/50.gif", TY_STR("GIF89a..."));
    set(&p, "split", "0");
    assert_int_not_equal(train_run(&p.options, &r), TY_OK);
    assert_message("50.");
    struct tensor_team *team = tensor_team_new(2);
    load(&p, model_of(&p), false, &room, &all, &none);
    train_pictures_check(&all, team);
    assert_int_equal(all.bad_rows, 2);
    assert_int_equal(all.rows.count, 3 * EACH);
    assert_non_null(strstr(all.first_bad, "green/50.gif: "));
    for (size_t i = 0; i < all.rows.count; i++)
        assert_int_equal(all.rows.labels[i], i / EACH);
    train_data_clear(&all);
    tensor_team_free(team);
    p.options.model_text =
        ty_format(&p.arena, "%.*s, bad_rows: skip}\n", (int)strlen(MODEL) - 2, MODEL);
    assert_ok(train_run(&p.options, &r));
    place_clear(&p);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    struct place p;
    struct train_result r;
    place_init(&p);
    p.options.eval_count = 1;
    p.options.eval_paths[0] = ty_format(&p.arena, "%s/other", p.dir);
    assert_err(TY_NOT_FOUND, train_run(&p.options, &r));
    assert_message("/other'");
    picture_write(&p, "other", 1, 0);
    assert_ok(train_run(&p.options, &r)); /* classes by name: one of the three is enough */
    write_file(&p, "other/violet/1.png", TY_STR("x"));
    assert_err(TY_INVALID_ARGUMENT, train_run(&p.options, &r));
    assert_message("other/violet': the model has no such class");
    p.options.eval_count = 0;
    picture_write(&p, "all/extra", 1, 0); /* deeper folders belong to their class: a fourth */
    assert_err(TY_INVALID_ARGUMENT, train_run(&p.options, &r));
    assert_message("has 4 folders of images and the model 3 classes");
    p.options.train_paths[1] = p.options.train_paths[0];
    p.options.train_count = 2;
    assert_err(TY_INVALID_ARGUMENT, train_run(&p.options, &r));
    assert_message("images are in one folder");
    place_clear(&p);
}

static const struct CMUnitTest tests[] = {
    TEST("images/memory_does_not_change_a_bit", memory_does_not_change_a_bit),
    TEST("images/resume_is_exact", resume_is_exact),
    TEST("images/room_is_kept_to", room_is_kept_to),
    TEST("images/feed_has_every_image_once_a_pass", feed_has_every_image_once_a_pass),
    TEST("images/broken_is_an_error_or_a_counted_skip", broken_is_an_error_or_a_counted_skip),
    TEST("images/mistakes_are_told", mistakes_are_told),
};
TEST_MAIN("train_images", tests)
