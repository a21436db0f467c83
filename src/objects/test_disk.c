/* test_disk.c -- files that others change, as jobs do through /gcs; hostile ones; and a full disk.
 */
#include "objects/test_objects.h"
#include "objects/upload_int.h"

#include "wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>

static struct object get(struct fixture *f, const char *name)
{
    struct object object;
    assert_ok(objects_get(f->o, &f->a, ref_of(name), NULL, &object));
    return object;
}

static void disk_new_file_is_an_object(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    disk_write(&f, "buckets/data/theirs.txt", "made by a job");
    struct object object = get(&f, "theirs.txt");
    assert_int_equal(object.size, 13);
    assert_int_equal(object.crc32c, wire_crc32c(0, "made by a job", 13));
    assert_true(object.has_md5);
    assert_int_equal(get(&f, "theirs.txt").generation, object.generation); /* and stays it */
    fixture_reopen(&f);
    assert_int_equal(get(&f, "theirs.txt").generation, object.generation);
    assert_holds(&f, "theirs.txt", "made by a job");
    fixture_close(&f);
}

static struct object_page list_page(struct fixture *f, struct object_query query)
{
    struct object_page page;
    query.bucket = BUCKET;
    assert_ok(objects_list(f->o, &f->a, &query, &page));
    return page;
}

#define UNHASHED "SELECT count(*) FROM object WHERE hashes = 0"

/* The smallest first, never more than was allowed; what was read is recorded. */
static void hashes_in_a_list(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    disk_write(&f, "buckets/data/a", "0123456789");
    disk_write(&f, "buckets/data/b", "12");
    disk_write(&f, "buckets/data/c", "123");
    struct object_page page = list_page(&f, (struct object_query){0});
    assert_int_equal(page.item_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_false(page.items[i].has_md5 || page.items[i].has_crc32c);
    page = list_page(&f, (struct object_query){.hash_bytes = 4});
    assert_true(!page.items[0].has_crc32c && page.items[1].has_md5 && !page.items[2].has_crc32c);
    assert_int_equal(ask(&f, UNHASHED), 2);
    page = list_page(&f, (struct object_query){.hash_bytes = 13});
    for (size_t i = 0; i < 3; i++) {
        struct object one = get(&f, i == 0 ? "a" : i == 1 ? "b" : "c");
        assert_true(page.items[i].has_md5 && page.items[i].has_crc32c);
        assert_memory_equal(page.items[i].md5, one.md5, 16);
        assert_int_equal(page.items[i].crc32c, one.crc32c);
        assert_int_equal(page.items[i].generation, one.generation);
    }
    assert_int_equal(page.items[0].crc32c, wire_crc32c(0, "0123456789", 10));
    assert_int_equal(ask(&f, UNHASHED), 0);
    page = list_page(&f, (struct object_query){0});
    assert_true(page.items[0].has_md5);
    fixture_close(&f);
}

/* A soft-deleted one that never had hashes gets them, too. */
static void hashes_of_old_ones(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    disk_write(&f, "buckets/data/a", "12");
    list_page(&f, (struct object_query){0});
    ask(&f, "UPDATE bucket SET soft_delete_s = 1000");
    assert_ok(objects_delete(f.o, ref_of("a"), NULL));
    assert_int_equal(ask(&f, "SELECT hashes FROM old"), 0);
    struct object_page page =
        list_page(&f, (struct object_query){.soft_deleted = true, .hash_bytes = 2});
    assert_true(page.item_count == 1 && page.items[0].has_md5);
    assert_int_equal(page.items[0].crc32c, wire_crc32c(0, "12", 2));
    assert_int_equal(ask(&f, "SELECT hashes FROM old"), 3);
    fixture_close(&f);
}

/* A list that had to leave some out wakes the thread that does the rest. */
static void hashes_in_the_background(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    disk_write(&f, "buckets/data/a", "0123456789");
    assert_false(list_page(&f, (struct object_query){.hash_bytes = 1}).items[0].has_crc32c);
    for (int i = 0; i < 600 && ask(&f, UNHASHED) > 0; i++)
        usleep(100000);
    struct object_page page = list_page(&f, (struct object_query){0});
    assert_true(page.items[0].has_md5);
    assert_int_equal(page.items[0].crc32c, wire_crc32c(0, "0123456789", 10));
    fixture_close(&f);
}

/* A terabyte of holes would take the better part of an hour. */
static void hashes_end_with_the_buckets(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    disk_write(&f, "buckets/data/a", "");
    assert_int_equal(truncate(path_of(&f, "buckets/data/a"), INT64_C(1) << 40), 0);
    objects_scan_soon(f.o);
    for (int i = 0; i < 600 && ask(&f, UNHASHED) != 1; i++) /* the first look has ended */
        usleep(100000);
    usleep(300000);
    objects_close(f.o);
    f.o = NULL;
    assert_int_equal(ask(&f, UNHASHED), 1);
    fixture_close(&f);
}

static void disk_change_is_a_generation(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct object one = put(&f, "a", "one");
    disk_write(&f, "buckets/data/a", "two"); /* the same size, perhaps the same tick */
    struct object two = get(&f, "a");
    assert_true(two.generation > one.generation);
    assert_int_equal(two.crc32c, wire_crc32c(0, "two", 3));
    assert_holds(&f, "a", "two");
    assert_ok(settle(f.o)); /* a settled row is compared by ctime too */
    struct stat st;
    put(&f, "b", "one");
    assert_ok(settle(f.o));
    assert_int_equal(stat(path_of(&f, "buckets/data/b"), &st), 0);
    int fd = open(path_of(&f, "buckets/data/b"), O_WRONLY);
    assert_int_equal(pwrite(fd, "two", 3, 0), 3);
    struct timespec back[2] = {st.st_atim, st.st_mtim}; /* somebody hides the change */
    assert_int_equal(futimens(fd, back), 0);
    close(fd);
    assert_holds(&f, "b", "two");
    fixture_close(&f);
}

static void disk_removal_is_seen(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "d/a", "1");
    put(&f, "d/b", "2");
    put(&f, "e/", "");
    assert_ok(settle(f.o));
    assert_int_equal(unlink(path_of(&f, "buckets/data/d/a")), 0);
    assert_gone(&f, "d/a");
    assert_int_equal(unlink(path_of(&f, "buckets/data/d/b")), 0);
    assert_int_equal(rmdir(path_of(&f, "buckets/data/d")), 0);
    assert_int_equal(rmdir(path_of(&f, "buckets/data/e")), 0);
    assert_string_equal(list(&f, (struct object_query){.delimiter = TY_STR("/")}), "");
    assert_string_equal(list(&f, (struct object_query){0}), "");
    fixture_close(&f);
}

static void disk_names_are_found_by_lists(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "a/1", "1");
    assert_string_equal(list(&f, (struct object_query){0}), "a/1");
    assert_int_equal(mkdir(path_of(&f, "buckets/data/n"), 0700), 0);
    assert_int_equal(mkdir(path_of(&f, "buckets/data/n/deep"), 0700), 0);
    disk_write(&f, "buckets/data/n/deep/x", "x");
    disk_write(&f, "buckets/data/a/0", "0");
    disk_write(&f, "buckets/data/top", "t");
    assert_string_equal(list(&f, (struct object_query){.delimiter = TY_STR("/")}), "top|a/ n/");
    assert_string_equal(list(&f, (struct object_query){0}), "a/0 a/1 n/deep/x top");
    disk_write(&f, "buckets/data/n/deep/y", "y");
    assert_string_equal(list(&f, (struct object_query){.prefix = TY_STR("n/deep/")}),
                        "n/deep/x n/deep/y");
    disk_write(&f, "buckets/data/n/deep/z", "z");
    assert_ok(objects_scan(f.o, BUCKET));
    assert_int_equal(ask(&f, "SELECT count(*) FROM object"), 6);
    assert_ok(objects_scan(f.o, TY_STR("")));
    assert_err(TY_NOT_FOUND, objects_scan(f.o, TY_STR("nowhere")));
    fixture_close(&f);
}

/* More new names than a page looks for at once, files and folders of one name order mixed. */
static void disk_many_new_names_are_all_found(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    for (int i = 0; i < 90; i++) {
        assert_ok(ty_mkdirs(path_of(&f, ty_format(&f.a, "buckets/data/%02d/m/deep", i)), 0700));
        for (int k = 0; k < 40; k++) {
            disk_write(&f, ty_format(&f.a, "buckets/data/%02d/%c%d", i, "az"[k % 2], k), "");
            if (k < 10)
                disk_write(&f, ty_format(&f.a, "buckets/data/%02d/m/deep/%d", i, k), "");
        }
    }
    struct object_query query = {.bucket = BUCKET, .limit = 700};
    ty_str last = TY_STR("");
    size_t count = 0;
    do {
        struct object_page page;
        assert_ok(objects_list(f.o, &f.a, &query, &page));
        for (size_t i = 0; i < page.item_count; i++, count++) {
            assert_true(ty_str_cmp(last, page.items[i].name) < 0);
            last = page.items[i].name;
        }
        query.token = page.next_token;
    } while (query.token.len > 0);
    assert_int_equal(count, 90 * 50);
    fixture_close(&f);
}

/* Two names of one file, made by a job: moving one over the other leaves no third. */
static void disk_move_over_a_link_to_the_same_file(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "a", "bytes");
    assert_int_equal(link(path_of(&f, "buckets/data/a"), path_of(&f, "buckets/data/b")), 0);
    struct object moved;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("b")};
    assert_ok(objects_move(f.o, &f.a, ref_of("a"), NULL, &target, &moved));
    assert_ok(settle(f.o));
    assert_int_equal(disk_count(&f, "staging"), 0);
    assert_gone(&f, "a");
    assert_holds(&f, "b", "bytes");
    fixture_reopen(&f);
    assert_gone(&f, "a");
    assert_holds(&f, "b", "bytes");
    fixture_close(&f);
}

static void disk_scan_soon_finds_what_others_did(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "gone", "x");
    assert_ok(settle(f.o)); /* until then its file may be on its way */
    disk_write(&f, "buckets/data/new", "by a job");
    assert_int_equal(unlink(path_of(&f, "buckets/data/gone")), 0);
    uint64_t before = __atomic_load_n(&f.o->followed, __ATOMIC_RELAXED);
    objects_scan_soon(f.o);
    for (int i = 0; i < 2000 && __atomic_load_n(&f.o->followed, __ATOMIC_RELAXED) < before + 2; i++)
        usleep(5000);
    assert_int_equal(__atomic_load_n(&f.o->followed, __ATOMIC_RELAXED), before + 2);
    assert_holds(&f, "new", "by a job");
    assert_gone(&f, "gone");
    fixture_close(&f);
}

/* A file that was removed between its rename and its settling is no object for ever. */
static void disk_removed_before_it_settled(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "ghost", "x");
    assert_int_equal(unlink(path_of(&f, "buckets/data/ghost")), 0);
    for (int i = 0; i < 3; i++)
        assert_ok(settle(f.o));
    assert_string_equal(list(&f, (struct object_query){0}), "");
    fixture_close(&f);
}

static void disk_links_are_not_followed(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    disk_write(&f, "secret", "not in any bucket");
    assert_int_equal(symlink(path_of(&f, "secret"), path_of(&f, "buckets/data/link")), 0);
    assert_int_equal(symlink(f.dir, path_of(&f, "buckets/data/out")), 0);
    assert_int_equal(mkfifo(path_of(&f, "buckets/data/pipe"), 0600), 0);
    assert_gone(&f, "link");
    assert_gone(&f, "out/secret");
    assert_gone(&f, "pipe");
    assert_gone(&f, "../../secret");
    assert_string_equal(list(&f, (struct object_query){0}), "");
    put(&f, "out/secret", "mine"); /* beside the link, not through it */
    assert_string_equal(disk_read(&f, "secret"), "not in any bucket");
    assert_holds(&f, "out/secret", "mine");
    put(&f, "link", "a file now");
    assert_string_equal(disk_read(&f, "secret"), "not in any bucket");
    assert_holds(&f, "link", "a file now");
    put(&f, "pipe", "a file too");
    assert_holds(&f, "pipe", "a file too");
    fixture_close(&f);
}

static void disk_foreign_file_in_the_way(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    disk_write(&f, "buckets/data/a", "theirs"); /* no row yet */
    put(&f, "a/b", "below");
    assert_holds(&f, "a", "theirs");
    assert_holds(&f, "a/b", "below");
    assert_int_equal(mkdir(path_of(&f, "buckets/data/folder"), 0700), 0);
    disk_write(&f, "buckets/data/folder/x", "x");
    put(&f, "folder", "a file of that name");
    assert_holds(&f, "folder", "a file of that name");
    assert_holds(&f, "folder/x", "x");
    fixture_close(&f);
}

static void disk_change_while_reading_shows(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    put(&f, "a", "0123456789");
    struct object object;
    int fd;
    assert_ok(objects_read(f.o, &f.a, ref_of("a"), NULL, &object, &fd));
    assert_true(objects_unchanged(&object, fd));
    disk_write(&f, "buckets/data/a", "9876543210");
    assert_false(objects_unchanged(&object, fd));
    close(fd);
    fixture_close(&f);
}

static void disk_strays_go_at_the_start(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    disk_write(&f, "staging/0123456789abcdef0123456789abcdef", "left by a crash");
    disk_write(&f, "staging/whatever", "left by nobody");
    assert_int_equal(mkdir(path_of(&f, "odd/gone"), 0700), 0);
    disk_write(&f, "odd/gone/x", "of a bucket that is no more");
    assert_int_equal(mkdir(path_of(&f, "buckets/theirs"), 0700), 0);
    disk_write(&f, "buckets/theirs/keep", "not ours to remove");
    assert_int_equal(mkdir(path_of(&f, "buckets/empty"), 0700), 0);
    fixture_reopen(&f);
    assert_int_equal(disk_count(&f, "staging"), 0);
    assert_false(on_disk(&f, "odd/gone"));
    assert_false(on_disk(&f, "buckets/empty"));
    assert_true(on_disk(&f, "buckets/theirs/keep"));
    fixture_close(&f);
}

/* ---- many at once ---- */

enum { THREADS = 6, ROUNDS = 60 };

struct worker {
    struct fixture f;
    int number;
    const char *failure;
};

/* Writes, reads, lists and deletes names that all share, files and folders of the same names among
 * them. */
static void *work(void *arg)
{
    struct worker *w = arg;
    static const char *const names[] = {"a", "a/b", "a/b/c", "d/", "d/x", "e"};
    for (int i = 0; i < ROUNDS && !w->failure; i++) {
        const char *name = names[(i * 7 + w->number) % (int)TY_COUNT(names)];
        struct object object;
        ty_str bytes = TY_STR("");
        char text[64];
        snprintf(text, sizeof text, "%d writes %d into %s", w->number, i, name);
        ty_err err = TY_OK;
        if (i % 5 == 4)
            err = objects_delete(w->f.o, ref_of(name), NULL);
        else
            err = try_put(&w->f, name,
                          ty_str_of(ty_str_ends(ty_str_of(name), TY_STR("/")) ? "" : text), NULL,
                          &object);
        if (err != TY_OK && err != TY_NOT_FOUND)
            w->failure = ty_err_take();
        err = try_read(&w->f, ref_of(names[i % (int)TY_COUNT(names)]), &object, &bytes);
        if (err != TY_OK && err != TY_NOT_FOUND && err != TY_UNAVAILABLE && !w->failure)
            w->failure = ty_err_take();
        if (i % 10 == 0)
            list(&w->f, (struct object_query){0});
        ty_arena_clear(&w->f.a);
    }
    return NULL;
}

static void many_change_the_same_names(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.f = {.o = f.o}, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].failure)
            fail_msg("%s", workers[i].failure);
    }
    const char *before = list(&f, (struct object_query){0});
    fixture_reopen(&f);
    assert_string_equal(list(&f, (struct object_query){0}), before);
    assert_int_equal(disk_count(&f, "staging"), 0);
    assert_int_equal(disk_count(&f, "buckets"),
                     ask(&f, "SELECT count(*) FROM object WHERE place = 0"));
    assert_int_equal(disk_count(&f, "odd"), ask(&f, "SELECT count(*) FROM object WHERE place = 1"));
    fixture_close(&f);
}

/* As a backup and its restoring do: other inodes, times to the second. */
static void disk_copied_files_are_the_same_objects(void **state)
{
    (void)state;
    struct fixture f;
    struct object nice, odd, after;
    ty_str bytes = TY_STR("");
    fixture_open(&f);
    nice = put(&f, "a/b", "nice");
    odd = put(&f, "a//b", "odd");
    put(&f, "changed", "before");
    fixture_reopen(&f); /* all of it settled */
    const char *to = ty_format(&f.a, "%s.copy", f.dir);
    assert_ok(ty_mkdirs(to, 0700));
    assert_ok(objects_rows_copy(f.dir, to));
    objects_close(f.o);
    const char *command =
        ty_format(&f.a,
                  "set -e; cd %s; cp -r buckets odd staging %s; find buckets odd -type f | while "
                  "read -r p; do touch -d @$(stat -c %%Y \"$p\") \"%s/$p\"; done; echo longer > "
                  "%s/buckets/data/changed",
                  f.dir, to, to, to);
    assert_int_equal(system(command), 0);
    assert_ok(objects_restored(to));
    assert_ok(objects_open(to, &f.o));
    assert_ok(try_read(&f, ref_of("a/b"), &after, &bytes));
    assert_int_equal(after.generation, nice.generation);
    assert_string_equal(bytes.ptr, "nice");
    assert_ok(try_read(&f, ref_of("a//b"), &after, &bytes));
    assert_int_equal(after.generation, odd.generation);
    assert_string_equal(bytes.ptr, "odd");
    assert_holds(&f, "changed", "longer\n");
    objects_close(f.o);
    assert_ok(ty_remove_tree(AT_FDCWD, to));
    assert_ok(objects_open(f.dir, &f.o));
    fixture_close(&f);
}

static void disk_nothing_to_copy(void **state)
{
    (void)state;
    struct fixture f;
    folder_make(&f);
    const char *to = ty_format(&f.a, "%s.copy", f.dir);
    assert_ok(ty_mkdirs(to, 0700));
    assert_ok(objects_rows_copy(f.dir, to));
    assert_ok(objects_restored(to));
    assert_int_equal(rmdir(to), 0); /* still empty */
    fixture_close(&f);
}

/* ---- reading without a wait (recent.c) ---- */

static bool read_now(struct fixture *f, struct object_ref ref,
                     const struct object_conditions *conditions, char text[16])
{
    struct object object;
    int fd;
    if (!objects_read_now(f->o, &f->a, ref, conditions, &object, &fd))
        return false;
    ssize_t n = pread(fd, text, 15, 0);
    assert_int_equal(n, object.size);
    assert_int_equal(object.crc32c, wire_crc32c(0, text, (size_t)n));
    assert_string_equal(object.bucket.ptr, "data");
    assert_true(ty_str_eq(object.name, ref.name));
    text[n] = '\0';
    close(fd);
    return true;
}

/* It can be read at once after it was read, as soon as settling leaves the rows alone. */
static struct object read_twice(struct fixture *f, const char *name, char text[16])
{
    struct object object = {0};
    bool now = false;
    assert_ok(settle(f->o));
    for (int i = 0; i < 50 && !now; i++) {
        object = get(f, name);
        now = read_now(f, ref_of(name), NULL, text);
    }
    assert_true(now);
    return object;
}

static void now_only_what_was_read(void **state)
{
    (void)state;
    struct fixture f;
    char text[16];
    fixture_open(&f);
    if (!f.o->recent_usable) {
        print_message("not a local file system\n");
        skip();
    }
    put(&f, "d/a", "one");
    assert_false(read_now(&f, ref_of("d/a"), NULL, text));
    assert_false(read_now(&f, ref_of("d/b"), NULL, text));
    struct object one = read_twice(&f, "d/a", text);
    assert_string_equal(text, "one");
    assert_true(read_now(&f, ref_gen("d/a", one.generation), NULL, text));
    assert_false(read_now(&f, ref_gen("d/a", one.generation + 1), NULL, text));
    struct object_conditions c = {.given = OBJECTS_IF_GENERATION_NOT,
                                  .generation_not_match = one.generation};
    assert_false(read_now(&f, ref_of("d/a"), &c, text));
    fixture_close(&f);
}

static void now_never_what_was(void **state)
{
    (void)state;
    struct fixture f;
    char text[16];
    fixture_open(&f);
    if (!f.o->recent_usable) {
        print_message("not a local file system\n");
        skip();
    }
    put(&f, "a", "one");
    read_twice(&f, "a", text);
    put(&f, "other", "x"); /* any commit makes it unknown */
    assert_false(read_now(&f, ref_of("a"), NULL, text));
    read_twice(&f, "a", text);
    put(&f, "a", "two");
    assert_false(read_now(&f, ref_of("a"), NULL, text));
    read_twice(&f, "a", text);
    assert_string_equal(text, "two");
    disk_write(&f, "buckets/data/a", "six");
    assert_false(read_now(&f, ref_of("a"), NULL, text));
    read_twice(&f, "a", text);
    assert_string_equal(text, "six");
    assert_int_equal(unlink(path_of(&f, "buckets/data/a")), 0);
    assert_int_equal(symlink("/etc/passwd", path_of(&f, "buckets/data/a")), 0);
    assert_false(read_now(&f, ref_of("a"), NULL, text));
    assert_gone(&f, "a");
    assert_false(read_now(&f, ref_of("a"), NULL, text));
    fixture_close(&f);
}

/* ---- a full disk ---- */

static void fault_set(const char *fault)
{
    if (fault)
        setenv("TY_FAULT", fault, 1);
    else
        unsetenv("TY_FAULT");
    ty_seam_role("server");
}

/* Without its threads, so that it is the call's own commit that fails. */
static void fixture_attach(struct fixture *f)
{
    folder_make(f);
    assert_ok(objects_attach(f->dir, &f->o));
    bucket_make(f, BUCKET);
}

static void full_delete_takes_the_reserve(void **state)
{
    (void)state;
    struct fixture f;
    struct stat st;
    fixture_attach(&f);
    reserve_keep(f.o);
    assert_int_equal(stat(path_of(&f, "reserve"), &st), 0);
    assert_true((int64_t)st.st_blocks * 512 >= RESERVE_BYTES);
    put(&f, "a", "one");
    put(&f, "b", "two");
    fault_set("enospc-commit:1");
    assert_ok(objects_delete(f.o, ref_of("a"), NULL));
    assert_false(on_disk(&f, "reserve"));
    assert_gone(&f, "a");
    fault_set("enospc-commit:1+"); /* no room even so */
    assert_err(TY_RESOURCE_EXHAUSTED, objects_delete(f.o, ref_of("b"), NULL));
    fault_set(NULL);
    assert_holds(&f, "b", "two");
    reserve_keep(f.o);
    assert_true(on_disk(&f, "reserve"));
    fault_set("enospc-commit:1"); /* what writes gets none of it */
    struct object made;
    assert_err(TY_RESOURCE_EXHAUSTED, try_put(&f, "c", TY_STR("three"), NULL, &made));
    assert_true(on_disk(&f, "reserve"));
    fault_set(NULL);
    fixture_close(&f);
}

/* A file that changed by itself is looked at before it is deleted, and what is seen is noted: that
 * note must find room, too. */
static void full_look_takes_the_reserve(void **state)
{
    (void)state;
    struct fixture f;
    struct ty_arena a = {0};
    struct object found;
    fixture_attach(&f);
    put(&f, "a", "one");
    reserve_keep(f.o);
    assert_ok(ty_file_replace(AT_FDCWD, path_of(&f, "buckets/data/a"), TY_STR("other"), 0600));
    fault_set("enospc-commit:1");
    assert_ok(objects_get(f.o, &a, ref_of("a"), NULL, &found));
    assert_int_equal(found.size, 5);
    assert_false(on_disk(&f, "reserve"));
    fault_set(NULL);
    assert_ok(objects_delete(f.o, ref_of("a"), NULL));
    ty_arena_clear(&a);
    fixture_close(&f);
}

/* "a/b" is committed and waits in staging/; settling makes its folder, and moves the file "a", long
 * settled, out of the way: then that one is to be settled. */
static void settle_what_settling_displaced(void **state)
{
    (void)state;
    static const char waiting[] = "SELECT count(*) FROM object WHERE stage <> ''";
    struct fixture f;
    fixture_attach(&f);
    put(&f, "a", "a file");
    assert_ok(settle(f.o));
    fault_set("commit:2+");
    put(&f, "a/b", "below it");
    fault_set(NULL);
    assert_int_equal(ask(&f, waiting), 1);
    f.o->unsettled = false;
    assert_ok(settle(f.o));
    assert_true(on_disk(&f, "buckets/data/a/b"));
    assert_int_equal(ask(&f, waiting), 1);
    assert_true(f.o->unsettled);
    assert_ok(settle(f.o));
    assert_int_equal(ask(&f, waiting), 0);
    assert_holds(&f, "a", "a file");
    fixture_close(&f);
}

static int64_t staged_bytes(const struct objects_upload *u)
{
    struct stat st;
    assert_int_equal(fstat(u->fd, &st), 0);
    return st.st_size;
}

static void full_upload_gives_back_its_bytes(void **state)
{
    (void)state;
    struct fixture f;
    struct objects_upload *u;
    struct object made;
    struct object_target target = {.bucket = BUCKET, .name = TY_STR("a")};
    char id[OBJECTS_SESSION_BYTES];
    int64_t offset;
    fixture_attach(&f);
    assert_ok(objects_upload_begin(f.o, &target, &u));
    assert_ok(objects_upload_write(u, "Hello", 5));
    fault_set("enospc-write:1");
    assert_err(TY_RESOURCE_EXHAUSTED, objects_upload_write(u, ", world", 7));
    assert_int_equal(staged_bytes(u), 0); /* while the client still sends */
    fault_set(NULL);
    objects_upload_free(u);

    assert_ok(objects_session_create(f.o, &target, -1, NULL, NULL, id));
    assert_ok(objects_session_resume(f.o, ty_str_of(id), 0, -1, &u));
    assert_ok(objects_upload_write(u, "Hello", 5));
    assert_ok(objects_upload_pause(u, &offset));
    assert_ok(objects_upload_write(u, ", lost", 6));
    fault_set("enospc-commit:1");
    assert_err(TY_RESOURCE_EXHAUSTED, objects_upload_pause(u, &offset));
    fault_set(NULL);
    assert_int_equal(staged_bytes(u), 5);
    objects_upload_free(u);
    assert_ok(objects_session_resume(f.o, ty_str_of(id), 5, 12, &u));
    assert_ok(objects_upload_write(u, ", world", 7));
    fault_set("enospc-commit:1");
    assert_err(TY_RESOURCE_EXHAUSTED, objects_upload_finish(u, &f.a, &made));
    fault_set(NULL);
    assert_int_equal(staged_bytes(u), 5);
    objects_upload_free(u);
    assert_ok(objects_session_resume(f.o, ty_str_of(id), 5, 12, &u));
    assert_ok(objects_upload_write(u, ", world", 7));
    assert_ok(objects_upload_finish(u, &f.a, &made));
    objects_upload_free(u);
    assert_holds(&f, "a", "Hello, world");
    fixture_close(&f);
}

struct mover {
    struct fixture *f;
    atomic_bool over;
};

static void *move_there_and_back(void *arg)
{
    struct mover *m = arg;
    while (!atomic_load(&m->over)) {
        assert_int_equal(renameat(m->f->o->buckets_fd, "data/d", m->f->o->root_fd, "away"), 0);
        assert_int_equal(renameat(m->f->o->root_fd, "away", m->f->o->buckets_fd, "data/d"), 0);
    }
    return NULL;
}

/* The kernel has an errno of its own for what leaves the root while it is walked to. */
static void disk_what_is_moved_away_is_not_there(void **state)
{
    (void)state;
    struct fixture f;
    struct mover m = {.f = &f};
    pthread_t thread;
    fixture_open(&f);
    assert_int_equal(mkdirat(f.o->buckets_fd, "data/d", 0700), 0);
    disk_write(&f, "buckets/data/d/one", "1");
    assert_int_equal(pthread_create(&thread, NULL, move_there_and_back, &m), 0);
    for (int i = 0; i < 30000; i++) {
        int fd, err_no = file_open(f.o->buckets_fd, "data/d/one", O_RDONLY, 0, &fd);
        assert_true(err_no == 0 || err_no == ENOENT);
        if (err_no == 0)
            close(fd);
    }
    atomic_store(&m.over, true);
    pthread_join(thread, NULL);
    fixture_close(&f);
}

static const struct CMUnitTest tests[] = {
    TEST("full/delete_takes_the_reserve", full_delete_takes_the_reserve),
    TEST("full/look_takes_the_reserve", full_look_takes_the_reserve),
    TEST("settle/what_settling_displaced", settle_what_settling_displaced),
    TEST("full/upload_gives_back_its_bytes", full_upload_gives_back_its_bytes),
    TEST("now/only_what_was_read", now_only_what_was_read),
    TEST("now/never_what_was", now_never_what_was),
    TEST("disk/copied_files_are_the_same_objects", disk_copied_files_are_the_same_objects),
    TEST("disk/nothing_to_copy", disk_nothing_to_copy),
    TEST("disk/new_file_is_an_object", disk_new_file_is_an_object),
    TEST("hashes/in_a_list", hashes_in_a_list),
    TEST("hashes/of_old_ones", hashes_of_old_ones),
    TEST("hashes/in_the_background", hashes_in_the_background),
    TEST("hashes/end_with_the_buckets", hashes_end_with_the_buckets),
    TEST("disk/change_is_a_generation", disk_change_is_a_generation),
    TEST("disk/removal_is_seen", disk_removal_is_seen),
    TEST("disk/names_are_found_by_lists", disk_names_are_found_by_lists),
    TEST("disk/many_new_names_are_all_found", disk_many_new_names_are_all_found),
    TEST("disk/move_over_a_link_to_the_same_file", disk_move_over_a_link_to_the_same_file),
    TEST("disk/scan_soon_finds_what_others_did", disk_scan_soon_finds_what_others_did),
    TEST("disk/removed_before_it_settled", disk_removed_before_it_settled),
    TEST("disk/links_are_not_followed", disk_links_are_not_followed),
    TEST("disk/foreign_file_in_the_way", disk_foreign_file_in_the_way),
    TEST("disk/change_while_reading_shows", disk_change_while_reading_shows),
    TEST("disk/what_is_moved_away_is_not_there", disk_what_is_moved_away_is_not_there),
    TEST("disk/strays_go_at_the_start", disk_strays_go_at_the_start),
    TEST("many/change_the_same_names", many_change_the_same_names),
};
TEST_MAIN("objects_disk", tests)
