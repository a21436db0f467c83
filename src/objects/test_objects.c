/* test_objects.c -- buckets, uploads, places on disk, conditions, versions, copies. */
#include "objects/test_objects.h"

#include "wire/wire.h"

#include <pthread.h>

/* ---- digests ---- */

static void digest_known_values(void **state)
{
    (void)state;
    char hex[65];
    assert_ok(digest_load());
    sha256_hex(TY_STR("abc"), hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(wire_crc32c(0, "123456789", 9), 0xe3069283u);
}

static void digest_crc_joins(void **state)
{
    (void)state;
    char text[5000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7 + i / 251);
    static const size_t cuts[] = {0, 1, 7, 8, 4096, 4999, 5000};
    for (size_t i = 0; i < TY_COUNT(cuts); i++) {
        uint32_t a = wire_crc32c(0, text, cuts[i]);
        uint32_t b = wire_crc32c(0, text + cuts[i], sizeof text - cuts[i]);
        assert_int_equal(crc32c_join(a, b, (int64_t)(sizeof text - cuts[i])),
                         wire_crc32c(0, text, sizeof text));
    }
}

/* ---- buckets ---- */

static ty_err edit_bucket(struct ty_arena *a, struct bucket *b, void *arg)
{
    (void)a;
    const struct bucket *wanted = arg;
    b->versioning = wanted->versioning;
    b->soft_delete_s = wanted->soft_delete_s;
    b->lifecycle = wanted->lifecycle;
    b->labels = wanted->labels;
    return TY_OK;
}

static ty_err set(struct fixture *f, struct bucket wanted)
{
    struct bucket b;
    return objects_bucket_patch(f->o, &f->a, BUCKET, NULL, edit_bucket, &wanted, &b);
}

static void bucket_settings_stay(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct bucket b = {.name = TY_STR("other"), .labels = TY_STR("{\"a\":\"b\"}")};
    assert_ok(objects_bucket_insert(f.o, &b));
    assert_err(TY_ALREADY_EXISTS, objects_bucket_insert(f.o, &b));
    assert_ok(set(&f, (struct bucket){.versioning = true, .labels = TY_STR("{}")}));
    fixture_reopen(&f);
    assert_ok(objects_bucket_get(f.o, &f.a, BUCKET, NULL, &b));
    assert_true(b.versioning);
    assert_int_equal(b.metageneration, 2);
    assert_true(ty_str_is(b.labels, "{}") && ty_str_is(b.storage_class, "STANDARD"));
    struct object_conditions stale = {.given = OBJECTS_IF_METAGENERATION,
                                      .metageneration_match = 1};
    assert_err(TY_FAILED_PRECONDITION,
               objects_bucket_patch(f.o, &f.a, BUCKET, &stale, edit_bucket, &b, &b));
    struct object_conditions known = {.given = OBJECTS_IF_METAGENERATION_NOT,
                                      .metageneration_not_match = 2};
    assert_err(TY_ABORTED, objects_bucket_get(f.o, &f.a, BUCKET, &known, &b));
    fixture_close(&f);
}

static void bucket_list_pages(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    bucket_make(&f, TY_STR("alpha"));
    bucket_make(&f, TY_STR("alps"));
    struct bucket *list_;
    size_t count;
    bool more;
    assert_ok(objects_bucket_list(f.o, &f.a, TY_STR("demo"), TY_STR("al"), TY_STR(""), 1, &list_,
                                  &count, &more));
    assert_true(count == 1 && more && ty_str_is(list_[0].name, "alpha"));
    assert_ok(objects_bucket_list(f.o, &f.a, TY_STR("demo"), TY_STR("al"), TY_STR("alpha"), 1,
                                  &list_, &count, &more));
    assert_true(count == 1 && !more && ty_str_is(list_[0].name, "alps"));
    assert_ok(objects_bucket_list(f.o, &f.a, TY_STR("nobody"), TY_STR(""), TY_STR(""), 0, &list_,
                                  &count, &more));
    assert_int_equal(count, 0);
    fixture_close(&f);
}

static void bucket_delete_refuses_objects(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "a/b", "x");
    assert_err(TY_ABORTED, objects_bucket_delete(f.o, BUCKET, NULL));
    assert_ok(objects_delete(f.o, ref_of("a/b"), NULL));
    disk_write(&f, "buckets/data/theirs", "made by a job");
    assert_err(TY_ABORTED, objects_bucket_delete(f.o, BUCKET, NULL));
    assert_int_equal(unlink(path_of(&f, "buckets/data/theirs")), 0);
    assert_ok(objects_bucket_delete(f.o, BUCKET, NULL));
    assert_false(on_disk(&f, "buckets/data"));
    assert_err(TY_NOT_FOUND, objects_bucket_delete(f.o, BUCKET, NULL));
    bucket_make(&f, BUCKET); /* the name is free again, and empty */
    assert_gone(&f, "a/b");
    fixture_close(&f);
}

static void bucket_lifecycle_is_checked(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    static const char *const bad[] = {
        "{\"rule\":[{\"action\":{\"type\":\"Delete\"},\"condition\":{}}]}",
        "{\"rule\":[{\"action\":{\"type\":\"SetStorageClass\"},\"condition\":{\"age\":1}}]}",
        "{\"rule\":[{\"action\":{\"type\":\"Delete\"},\"condition\":{\"age\":-1}}]}",
        "{\"rule\":[{\"action\":{\"type\":\"Delete\"},\"condition\":{\"moon\":\"full\"}}]}",
        "{\"rule\":7}",
        "nonsense",
    };
    for (size_t i = 0; i < TY_COUNT(bad); i++)
        assert_err(TY_INVALID_ARGUMENT, set(&f, (struct bucket){.lifecycle = ty_str_of(bad[i])}));
    fixture_close(&f);
}

/* ---- uploads ---- */

static void upload_is_a_plain_file(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct object made = put(&f, "train/part-0.csv", "1,2,3\n");
    assert_string_equal(disk_read(&f, "buckets/data/train/part-0.csv"), "1,2,3\n");
    assert_int_equal(made.size, 6);
    assert_int_equal(made.metageneration, 1);
    assert_int_equal(made.crc32c, wire_crc32c(0, "1,2,3\n", 6));
    assert_holds(&f, "train/part-0.csv", "1,2,3\n");
    assert_int_equal(disk_count(&f, "staging"), 0);
    fixture_reopen(&f);
    assert_holds(&f, "train/part-0.csv", "1,2,3\n");
    fixture_close(&f);
}

static void upload_keeps_settings(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct object_settings settings = {.content_type = TY_STR("text/csv"),
                                       .content_encoding = TY_STR("gzip"),
                                       .cache_control = TY_STR("no-store"),
                                       .metadata = TY_STR("{\"k\":\"v\"}"),
                                       .custom_time_ns = 77};
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("x"), .settings = &settings};
    struct objects_upload *u;
    struct object made, got;
    assert_ok(objects_upload_begin(f.o, &target, &u));
    assert_ok(objects_upload_finish(u, &f.a, &made));
    objects_upload_free(u);
    assert_ok(objects_get(f.o, &f.a, ref_of("x"), NULL, &got));
    assert_true(ty_str_is(got.settings.content_type, "text/csv"));
    assert_true(ty_str_is(got.settings.metadata, "{\"k\":\"v\"}"));
    assert_true(ty_str_is(got.settings.storage_class, "STANDARD"));
    assert_int_equal(got.settings.custom_time_ns, 77);
    settings.content_type = (ty_str){f.dir, 2000};
    assert_err(TY_INVALID_ARGUMENT, objects_upload_begin(f.o, &target, &u));
    fixture_close(&f);
}

static void upload_given_up_leaves_nothing(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct objects_upload *u;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("x")};
    assert_ok(objects_upload_begin(f.o, &target, &u));
    assert_ok(objects_upload_write(u, "abc", 3));
    objects_upload_free(u);
    assert_int_equal(disk_count(&f, "staging"), 0);
    assert_gone(&f, "x");
    target.bucket = TY_STR("nowhere");
    assert_err(TY_NOT_FOUND, objects_upload_begin(f.o, &target, &u));
    fixture_close(&f);
}

static void upload_lying_hash_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct objects_upload *u;
    struct object made;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("x")};
    unsigned char md5[16] = {1, 2, 3};
    uint32_t crc = wire_crc32c(0, "abc", 3), wrong = crc ^ 1;
    for (int i = 0; i < 3; i++) {
        assert_ok(objects_upload_begin(f.o, &target, &u));
        assert_ok(objects_upload_write(u, "abc", 3));
        objects_upload_expect(u, i == 0 ? md5 : NULL, i == 1 ? &wrong : &crc);
        ty_err err = objects_upload_finish(u, &f.a, &made);
        assert_int_equal(err, i == 2 ? TY_OK : TY_INVALID_ARGUMENT);
        objects_upload_free(u);
        if (i < 2)
            assert_gone(&f, "x");
    }
    assert_int_equal(disk_count(&f, "staging"), 0);
    fixture_close(&f);
}

static void upload_overwrites_whole(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct object first = put(&f, "a", "one"), object;
    int fd;
    assert_ok(objects_read(f.o, &f.a, ref_of("a"), NULL, &object, &fd));
    struct object second = put(&f, "a", "second");
    assert_true(second.generation > first.generation);
    char was[8] = "";
    assert_int_equal(read(fd, was, sizeof was), 3); /* the open one still reads what it was */
    assert_string_equal(was, "one");
    assert_true(objects_unchanged(&object, fd));
    close(fd);
    assert_holds(&f, "a", "second");
    assert_err(TY_NOT_FOUND, objects_get(f.o, &f.a, ref_gen("a", first.generation), NULL, &object));
    fixture_close(&f);
}

/* ---- places ---- */

static void place_odd_names(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    char part[300];
    memset(part, 'p', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    const char *const names[] = {"/",    "//",    "a//b",   "../up", "x/../y",     "x/./y",
                                 "/abs", "dir//", "..x/..", part,    "trailing/.."};
    for (size_t i = 0; i < TY_COUNT(names); i++)
        put(&f, names[i], ty_format(&f.a, "bytes %zu", i));
    assert_int_equal(disk_count(&f, "buckets"), 0);
    assert_int_equal(disk_count(&f, "odd/data"), (int)TY_COUNT(names));
    fixture_reopen(&f);
    for (size_t i = 0; i < TY_COUNT(names); i++)
        assert_holds(&f, names[i], ty_format(&f.a, "bytes %zu", i));
    for (size_t i = 0; i < TY_COUNT(names); i++)
        assert_ok(objects_delete(f.o, ref_of(names[i]), NULL));
    assert_int_equal(disk_count(&f, "odd"), 0);
    fixture_close(&f);
}

static void place_folder_wins(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "a", "file");
    put(&f, "a/b", "below"); /* the file has to go */
    assert_string_equal(disk_read(&f, "buckets/data/a/b"), "below");
    assert_holds(&f, "a", "file");
    put(&f, "a", "file again"); /* the folder stays */
    assert_holds(&f, "a", "file again");
    assert_holds(&f, "a/b", "below");
    put(&f, "a/b/c/d", "deep");
    assert_holds(&f, "a/b", "below");
    assert_string_equal(list(&f, (struct object_query){0}), "a a/b a/b/c/d");
    fixture_reopen(&f);
    assert_holds(&f, "a", "file again");
    assert_holds(&f, "a/b", "below");
    assert_int_equal(disk_count(&f, "odd"), 2);
    assert_ok(objects_delete(f.o, ref_of("a/b/c/d"), NULL));
    assert_ok(objects_delete(f.o, ref_of("a/b"), NULL));
    assert_ok(objects_delete(f.o, ref_of("a"), NULL));
    assert_int_equal(disk_count(&f, "odd") + disk_count(&f, "buckets"), 0);
    fixture_close(&f);
}

static void place_folder_object(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "dir/", "");
    assert_true(on_disk(&f, "buckets/data/dir"));
    assert_holds(&f, "dir/", "");
    put(&f, "dir/x", "1");
    assert_ok(objects_delete(f.o, ref_of("dir/x"), NULL));
    assert_true(on_disk(&f, "buckets/data/dir")); /* it is an object: it stays without files */
    assert_string_equal(list(&f, (struct object_query){0}), "dir/");
    put(&f, "dir/", "a folder cannot have bytes"); /* so these are elsewhere */
    assert_holds(&f, "dir/", "a folder cannot have bytes");
    fixture_reopen(&f);
    put(&f, "dir/", "");
    assert_ok(objects_delete(f.o, ref_of("dir/"), NULL));
    assert_false(on_disk(&f, "buckets/data/dir"));
    put(&f, "dir", "a file now");
    put(&f, "dir/", "");
    assert_holds(&f, "dir", "a file now");
    fixture_close(&f);
}

static void place_delete_prunes(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "a/b/c/d", "1");
    put(&f, "a/x", "2");
    assert_ok(objects_delete(f.o, ref_of("a/b/c/d"), NULL));
    assert_false(on_disk(&f, "buckets/data/a/b"));
    assert_true(on_disk(&f, "buckets/data/a/x"));
    assert_err(TY_NOT_FOUND, objects_delete(f.o, ref_of("a/b/c/d"), NULL));
    fixture_close(&f);
}

/* ---- conditions ---- */

static void conditions_hold(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct object_conditions none = {.given = OBJECTS_IF_GENERATION};
    struct object made, object;
    assert_ok(try_put(&f, "a", TY_STR("1"), &none, &made));
    assert_err(TY_FAILED_PRECONDITION, try_put(&f, "a", TY_STR("2"), &none, &object));
    struct object_conditions exact = {.given = OBJECTS_IF_GENERATION | OBJECTS_IF_METAGENERATION,
                                      .generation_match = made.generation,
                                      .metageneration_match = 1};
    assert_ok(objects_get(f.o, &f.a, ref_of("a"), &exact, &object));
    exact.metageneration_match = 2;
    assert_err(TY_FAILED_PRECONDITION, objects_get(f.o, &f.a, ref_of("a"), &exact, &object));
    struct object_conditions not = {.given = OBJECTS_IF_GENERATION_NOT,
                                    .generation_not_match = made.generation};
    assert_err(TY_ABORTED, objects_get(f.o, &f.a, ref_of("a"), &not, &object));
    assert_err(TY_FAILED_PRECONDITION, try_put(&f, "a", TY_STR("2"), &not, &object));
    assert_err(TY_FAILED_PRECONDITION, objects_delete(f.o, ref_of("a"), &not ));
    not .generation_not_match = 0; /* it must exist */
    assert_err(TY_FAILED_PRECONDITION, try_put(&f, "new", TY_STR("2"), &not, &object));
    assert_ok(try_put(&f, "a", TY_STR("2"), &not, &object));
    assert_int_equal(disk_count(&f, "staging"), 0);
    fixture_close(&f);
}

/* Of many who all want to be the first, one is. */
static void *put_first(void *arg)
{
    struct fixture f = *(struct fixture *)arg;
    f.a = (struct ty_arena){0};
    struct object_conditions none = {.given = OBJECTS_IF_GENERATION};
    struct object made;
    ty_err err = try_put(&f, "lock", TY_STR("mine"), &none, &made);
    ty_arena_clear(&f.a);
    return err == TY_OK ? arg : NULL;
}

static void conditions_one_wins(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    pthread_t threads[8];
    int won = 0;
    for (size_t i = 0; i < TY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_first, &f), 0);
    for (size_t i = 0; i < TY_COUNT(threads); i++) {
        void *result;
        pthread_join(threads[i], &result);
        won += result != NULL;
    }
    assert_int_equal(won, 1);
    fixture_close(&f);
}

/* ---- patch ---- */

static ty_err edit_type(struct ty_arena *a, struct object_settings *settings, void *arg)
{
    (void)a;
    if (!arg)
        return ty_fail(TY_INVALID_ARGUMENT, "contentType: no");
    settings->content_type = ty_str_of(arg);
    return TY_OK;
}

static void patch_changes_settings_only(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct object made = put(&f, "a", "bytes"), object;
    char type[] = "text/plain";
    assert_ok(objects_patch(f.o, &f.a, ref_of("a"), NULL, edit_type, type, &object));
    assert_int_equal(object.generation, made.generation);
    assert_int_equal(object.metageneration, 2);
    assert_err(TY_INVALID_ARGUMENT,
               objects_patch(f.o, &f.a, ref_of("a"), NULL, edit_type, NULL, &object));
    struct object_conditions first = {.given = OBJECTS_IF_METAGENERATION,
                                      .metageneration_match = 1};
    assert_err(TY_FAILED_PRECONDITION,
               objects_patch(f.o, &f.a, ref_of("a"), &first, edit_type, type, &object));
    fixture_reopen(&f);
    assert_ok(objects_get(f.o, &f.a, ref_of("a"), NULL, &object));
    assert_true(ty_str_is(object.settings.content_type, "text/plain"));
    assert_int_equal(object.metageneration, 2);
    assert_holds(&f, "a", "bytes");
    fixture_close(&f);
}

/* ---- versions and soft delete ---- */

static void versions_are_kept(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(set(&f, (struct bucket){.versioning = true}));
    struct object one = put(&f, "a", "one"), two = put(&f, "a", "two"), object;
    assert_string_equal(read_all(&f, ref_gen("a", one.generation)).ptr, "one");
    assert_holds(&f, "a", "two");
    assert_ok(objects_delete(f.o, ref_of("a"), NULL));
    assert_gone(&f, "a");
    assert_string_equal(read_all(&f, ref_gen("a", two.generation)).ptr, "two");
    assert_string_equal(list(&f, (struct object_query){0}), "");
    assert_string_equal(list(&f, (struct object_query){.versions = true}), "a a");
    fixture_reopen(&f);
    assert_string_equal(read_all(&f, ref_gen("a", one.generation)).ptr, "one");
    assert_err(TY_ABORTED, objects_bucket_delete(f.o, BUCKET, NULL));
    assert_ok(objects_delete(f.o, ref_gen("a", one.generation), NULL));
    assert_err(TY_NOT_FOUND, objects_get(f.o, &f.a, ref_gen("a", one.generation), NULL, &object));
    assert_ok(objects_delete(f.o, ref_gen("a", two.generation), NULL));
    assert_int_equal(disk_count(&f, "odd"), 0);
    fixture_close(&f);
}

static void soft_delete_restores(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(set(&f, (struct bucket){.soft_delete_s = 1000}));
    struct object made = put(&f, "d/a", "bytes"), object;
    assert_ok(objects_delete(f.o, ref_of("d/a"), NULL));
    assert_gone(&f, "d/a");
    assert_false(on_disk(&f, "buckets/data/d"));
    assert_string_equal(list(&f, (struct object_query){.versions = true}), "");
    assert_string_equal(list(&f, (struct object_query){.soft_deleted = true}), "d/a");
    struct object_ref ref = ref_gen("d/a", made.generation);
    assert_err(TY_NOT_FOUND, objects_get(f.o, &f.a, ref, NULL, &object));
    struct object_ref kept = {BUCKET, TY_STR("d/a"), made.generation, .soft_deleted = true};
    assert_ok(objects_get(f.o, &f.a, kept, NULL, &object));
    assert_true(object.hard_delete_ns == object.delete_ns + INT64_C(1000) * 1000000000);
    struct object_page page;
    struct object_query query = {.bucket = BUCKET, .soft_deleted = true};
    assert_ok(objects_list(f.o, &f.a, &query, &page));
    assert_true(page.items[0].hard_delete_ns == object.hard_delete_ns);
    assert_ok(objects_restore(f.o, &f.a, ref, NULL, &object));
    assert_true(object.generation > made.generation);
    assert_holds(&f, "d/a", "bytes");
    assert_string_equal(list(&f, (struct object_query){.soft_deleted = true}), "");
    assert_err(TY_NOT_FOUND, objects_restore(f.o, &f.a, ref, NULL, &object));
    assert_ok(objects_delete(f.o, ref_of("d/a"), NULL));
    assert_ok(set(&f, (struct bucket){.soft_delete_s = 0}));
    assert_ok(objects_sweep(f.o));
    assert_string_equal(list(&f, (struct object_query){.soft_deleted = true}), "");
    assert_int_equal(disk_count(&f, "odd"), 0);
    fixture_close(&f);
}

static void lifecycle_deletes_by_rule(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(set(
        &f, (struct bucket){
                .lifecycle =
                    TY_STR("{\"rule\":[{\"action\":{\"type\":\"Delete\"},\"condition\":"
                           "{\"age\":0,\"matchesPrefix\":[\"tmp/\"],\"matchesSuffix\":[\".log\"]}},"
                           "{\"action\":{\"type\":\"Delete\"},\"condition\":{\"age\":1}}]}")}));
    put(&f, "tmp/a.log", "1");
    put(&f, "tmp/a.txt", "2");
    put(&f, "b.log", "3");
    assert_ok(objects_sweep(f.o));
    assert_string_equal(list(&f, (struct object_query){0}), "b.log tmp/a.txt");
    assert_ok(set(
        &f, (struct bucket){.versioning = true,
                            .lifecycle =
                                TY_STR("{\"rule\":[{\"action\":{\"type\":\"Delete\"},\"condition\":"
                                       "{\"isLive\":false,\"numNewerVersions\":2}}]}")}));
    for (int i = 0; i < 4; i++)
        put(&f, "b.log", "4");
    assert_ok(objects_sweep(f.o));
    assert_string_equal(list(&f, (struct object_query){.versions = true, .prefix = TY_STR("b")}),
                        "b.log b.log");
    fixture_close(&f);
}

/* Nobody calls objects_sweep here. */
static void sweep_follows_a_new_policy(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(set(&f, (struct bucket){.soft_delete_s = 1000}));
    put(&f, "a", "1");
    put(&f, "b.log", "2");
    assert_ok(objects_delete(f.o, ref_of("a"), NULL));
    assert_ok(set(&f, (struct bucket){
                          .lifecycle = TY_STR("{\"rule\":[{\"action\":{\"type\":\"Delete\"},"
                                              "\"condition\":{\"matchesSuffix\":[\".log\"]}}]}")}));
    int64_t until_ms = ty_boot_ms() + 55 * 1000; /* the start's own sweep comes after a minute */
    while (ty_boot_ms() < until_ms &&
           (ask(&f, "SELECT count(*) FROM old") > 0 || ask(&f, "SELECT count(*) FROM object") > 0))
        usleep(100000);
    assert_string_equal(list(&f, (struct object_query){0}), "");
    assert_string_equal(list(&f, (struct object_query){.soft_deleted = true}), "");
    fixture_close(&f);
}

/* ---- objects of objects ---- */

static void copy_takes_bytes_and_settings(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    bucket_make(&f, TY_STR("other"));
    put(&f, "a", "bytes");
    struct object copy;
    struct object_target target = {.bucket = TY_STR("other"), .name = TY_STR("x/y")};
    assert_ok(objects_copy(f.o, &f.a, ref_of("a"), NULL, &target, &copy));
    assert_string_equal(disk_read(&f, "buckets/other/x/y"), "bytes");
    struct object_ref there = {.bucket = TY_STR("other"), .name = TY_STR("x/y")};
    assert_string_equal(read_all(&f, there).ptr, "bytes");
    assert_holds(&f, "a", "bytes");
    struct object_conditions none = {.given = OBJECTS_IF_GENERATION};
    target.conditions = &none;
    assert_err(TY_FAILED_PRECONDITION, objects_copy(f.o, &f.a, ref_of("a"), NULL, &target, &copy));
    target.conditions = NULL;
    target.bucket = BUCKET;
    target.name = TY_STR("a");
    assert_ok(objects_copy(f.o, &f.a, ref_of("a"), NULL, &target, &copy)); /* onto itself */
    assert_holds(&f, "a", "bytes");
    assert_err(TY_NOT_FOUND, objects_copy(f.o, &f.a, ref_of("no"), NULL, &target, &copy));
    struct object_conditions not_this = {.given = OBJECTS_IF_GENERATION_NOT,
                                         .generation_not_match = copy.generation};
    assert_err(TY_FAILED_PRECONDITION,
               objects_copy(f.o, &f.a, ref_of("a"), &not_this, &target, &copy));
    assert_int_equal(disk_count(&f, "staging"), 0);
    fixture_close(&f);
}

static void move_is_one_commit(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "d/a", "bytes");
    put(&f, "b", "old");
    struct object moved;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("b")};
    assert_ok(objects_move(f.o, &f.a, ref_of("d/a"), NULL, &target, &moved));
    assert_gone(&f, "d/a");
    assert_holds(&f, "b", "bytes");
    assert_false(on_disk(&f, "buckets/data/d"));
    assert_err(TY_INVALID_ARGUMENT, objects_move(f.o, &f.a, ref_of("b"), NULL, &target, &moved));
    assert_ok(set(&f, (struct bucket){.versioning = true}));
    target.name = TY_STR("b/c"); /* below its own name */
    int64_t was = moved.generation;
    assert_ok(objects_move(f.o, &f.a, ref_of("b"), NULL, &target, &moved));
    assert_holds(&f, "b/c", "bytes");
    assert_gone(&f, "b");
    assert_string_equal(read_all(&f, ref_gen("b", was)).ptr, "bytes");
    fixture_reopen(&f);
    assert_holds(&f, "b/c", "bytes");
    fixture_close(&f);
}

static int64_t generation_of(struct fixture *f, const char *name)
{
    struct object object;
    assert_ok(objects_get(f->o, &f->a, ref_of(name), NULL, &object));
    return object.generation;
}

/* It has made a link to the source's file by then, which changes its ctime. */
static void refused_move_leaves_its_source_as_it_was(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct object moved;
    struct object_conditions absent = {.given = OBJECTS_IF_GENERATION};
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("b"), .conditions = &absent};
    int64_t was = put(&f, "a", "bytes").generation;
    put(&f, "b", "old");
    for (int settled = 0; settled < 2; settled++) {
        assert_err(TY_FAILED_PRECONDITION,
                   objects_move(f.o, &f.a, ref_of("a"), NULL, &target, &moved));
        assert_int_equal(generation_of(&f, "a"), was);
        assert_ok(settle(f.o));
        assert_int_equal(generation_of(&f, "a"), was);
    }
    fixture_reopen(&f);
    assert_int_equal(generation_of(&f, "a"), was);
    fixture_close(&f);
}

static void compose_joins(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "p0", "Hello");
    put(&f, "p1", ", ");
    struct object p2 = put(&f, "p2", "world"), made;
    struct object_part parts[OBJECTS_COMPOSE + 1] = {
        {.name = TY_STR("p0")},
        {.name = TY_STR("p1")},
        {.name = TY_STR("p2"), .generation = p2.generation}};
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("all")};
    uint32_t crc = wire_crc32c(0, "Hello, world", 12), wrong = 1;
    assert_err(TY_INVALID_ARGUMENT, objects_compose(f.o, &f.a, &target, parts, 3, &wrong, &made));
    assert_ok(objects_compose(f.o, &f.a, &target, parts, 3, &crc, &made));
    assert_holds(&f, "all", "Hello, world");
    assert_true(!made.has_md5 && made.has_crc32c && made.crc32c == crc && made.components == 3);
    parts[0].name = TY_STR("all"); /* onto one of its parts: an append */
    assert_ok(objects_compose(f.o, &f.a, &target, parts, 2, NULL, &made));
    assert_holds(&f, "all", "Hello, world, ");
    assert_int_equal(made.components, 4);
    assert_err(TY_INVALID_ARGUMENT,
               objects_compose(f.o, &f.a, &target, parts, OBJECTS_COMPOSE + 1, NULL, &made));
    parts[1].name = TY_STR("missing");
    assert_err(TY_NOT_FOUND, objects_compose(f.o, &f.a, &target, parts, 3, NULL, &made));
    assert_int_equal(disk_count(&f, "staging"), 0);
    fixture_close(&f);
}

static void generations_grow_when_the_clock_goes_back(void **state)
{
    (void)state;
    struct fixture f;
    folder_make(&f);
    disk_write(&f, "clock", "\0\0\0\0\0\0\0"); /* replaced below */
    int64_t offset = INT64_C(3600) * 1000000000;
    int fd = open(path_of(&f, "clock"), O_WRONLY);
    assert_int_equal(write(fd, &offset, sizeof offset), sizeof offset);
    setenv("TY_CLOCK", path_of(&f, "clock"), 1);
    ty_seam_role("server");
    assert_ok(objects_open(f.dir, &f.o));
    bucket_make(&f, BUCKET);
    struct object one = put(&f, "a", "1");
    offset = 0;
    assert_int_equal(pwrite(fd, &offset, sizeof offset, 0), sizeof offset);
    close(fd);
    fixture_reopen(&f);
    struct object two = put(&f, "a", "2");
    assert_true(two.generation > one.generation);
    unsetenv("TY_CLOCK");
    fixture_close(&f);
}

static const struct CMUnitTest tests[] = {
    TEST("digest/known_values", digest_known_values),
    TEST("digest/crc_joins", digest_crc_joins),
    TEST("bucket/settings_stay", bucket_settings_stay),
    TEST("bucket/list_pages", bucket_list_pages),
    TEST("bucket/delete_refuses_objects", bucket_delete_refuses_objects),
    TEST("bucket/lifecycle_is_checked", bucket_lifecycle_is_checked),
    TEST("upload/is_a_plain_file", upload_is_a_plain_file),
    TEST("upload/keeps_settings", upload_keeps_settings),
    TEST("upload/given_up_leaves_nothing", upload_given_up_leaves_nothing),
    TEST("upload/lying_hash_is_refused", upload_lying_hash_is_refused),
    TEST("upload/overwrites_whole", upload_overwrites_whole),
    TEST("place/odd_names", place_odd_names),
    TEST("place/folder_wins", place_folder_wins),
    TEST("place/folder_object", place_folder_object),
    TEST("place/delete_prunes", place_delete_prunes),
    TEST("conditions/hold", conditions_hold),
    TEST("conditions/one_wins", conditions_one_wins),
    TEST("patch/changes_settings_only", patch_changes_settings_only),
    TEST("versions/are_kept", versions_are_kept),
    TEST("soft_delete/restores", soft_delete_restores),
    TEST("lifecycle/deletes_by_rule", lifecycle_deletes_by_rule),
    TEST("lifecycle/sweep_follows_a_new_policy", sweep_follows_a_new_policy),
    TEST("copy/takes_bytes_and_settings", copy_takes_bytes_and_settings),
    TEST("move/is_one_commit", move_is_one_commit),
    TEST("move/refused_leaves_its_source_as_it_was", refused_move_leaves_its_source_as_it_was),
    TEST("compose/joins", compose_joins),
    TEST("generation/grows_when_the_clock_goes_back", generations_grow_when_the_clock_goes_back),
};
TEST_MAIN("objects", tests)
