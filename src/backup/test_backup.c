/* test_backup.c -- the archive's format, and which paths it may have. Whole yards, taken while they
 * work, are in tests/clients/test_backup.py. */
#define TY_SEAM
#include "base/test.h"

#include "backup/backup_int.h"

#include <sys/mman.h>

/* ---- an archive in memory ---- */

struct memory {
    ty_str bytes;
    size_t at;
};

static ty_err memory_read(void *arg, char *ptr, size_t len, size_t *ret_len)
{
    struct memory *m = arg;
    size_t n = m->bytes.len - m->at;
    n = n < len ? n : len;
    n = n > 700 ? 700 : n; /* short reads, as pipes give them */
    memcpy(ptr, m->bytes.ptr + m->at, n);
    m->at += n;
    *ret_len = n;
    return TY_OK;
}

static struct tar_writer *writer_open(int *ret_fd)
{
    struct tar_writer *w = malloc(sizeof *w);
    assert_non_null(w);
    *ret_fd = memfd_create("archive", 0);
    assert_true(*ret_fd >= 0);
    tar_writer_init(w, *ret_fd);
    return w;
}

static ty_str writer_take(struct tar_writer *w, int fd, struct ty_arena *a)
{
    assert_ok(tar_writer_finish(w));
    free(w);
    off_t size = lseek(fd, 0, SEEK_END);
    char *bytes = ty_alloc(a, (size_t)size + 1);
    assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
    close(fd);
    return (ty_str){bytes, (size_t)size};
}

static ty_str small_archive(struct ty_arena *a)
{
    int fd;
    struct tar_writer *w = writer_open(&fd);
    assert_ok(tar_add_note(w, BACKUP_HEAD, TY_STR("format 1\n")));
    struct tar_entry folder = {.path = TY_STR("jobs"), .folder = true, .mode = 0700};
    assert_ok(tar_add(w, &folder));
    assert_ok(tar_add_note(w, "jobs/spec", TY_STR("hello")));
    return writer_take(w, fd, a);
}

/* All of it, as restore reads it: TY_OK only if head, every entry and the manifest are right. */
static ty_err read_all(ty_str bytes)
{
    struct memory m = {bytes, 0};
    struct tar_reader r;
    struct tar_entry e;
    char text[BACKUP_NOTE_BYTES];
    bool manifest = false;
    tar_reader_init(&r, memory_read, &m);
    for (;;) {
        ty_err err = tar_next(&r, &e);
        if (err == TY_OUT_OF_RANGE)
            return manifest ? TY_OK : ty_fail(TY_DATA_LOSS, "no manifest");
        if (err)
            return err;
        size_t used = 0, n = 0;
        do {
            err = tar_read(&r, text + used, sizeof text - used, &n);
            used += n;
        } while (err == TY_OK && n > 0);
        ty_str note = {text, used};
        manifest = ty_str_is(e.path, BACKUP_MANIFEST);
        if (err == TY_OK && ty_str_is(e.path, BACKUP_HEAD))
            err = head_check(note);
        else if (err == TY_OK && manifest)
            err = manifest_check(&r, note);
        else if (err == TY_OK)
            err = part_path_check(e.path, e.folder);
        if (err)
            return err;
    }
}

/* ---- tar ---- */

static void tar_reads_what_it_wrote(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    int fd;
    char deep[600] = "jobs/1/1/";
    while (strlen(deep) < 500)
        snprintf(deep + strlen(deep), 64, "a-folder-%zu/", strlen(deep));
    snprintf(deep + strlen(deep), 8, "x");
    char name120[160];
    snprintf(name120, sizeof name120, "jobs/1/1/0-0/%0120d", 7);
    const char *paths[] = {"format", "jobs/1/1/log", deep, name120, "jobs/1/1/0-0/\n \xff"};
    struct tar_writer *w = writer_open(&fd);
    for (size_t i = 0; i < TY_COUNT(paths); i++) {
        struct tar_entry e = {
            .path = ty_str_of(paths[i]), .mode = 0640, .size = (int64_t)i, .mtime_s = 1700000000};
        assert_ok(tar_add(w, &e));
        assert_ok(tar_add_bytes(w, "abcdefgh", i));
    }
    ty_str bytes = writer_take(w, fd, &a);
    assert_int_equal(bytes.len % TAR_BLOCK, 0);
    struct memory m = {bytes, 0};
    struct tar_reader r;
    tar_reader_init(&r, memory_read, &m);
    for (size_t i = 0; i < TY_COUNT(paths); i++) {
        struct tar_entry e;
        char text[64];
        size_t n;
        assert_ok(tar_next(&r, &e));
        assert_string_equal(e.path.ptr, paths[i]);
        assert_int_equal(e.mode, 0640);
        assert_int_equal(e.mtime_s, 1700000000);
        assert_ok(tar_read(&r, text, sizeof text, &n));
        assert_int_equal(n, i);
        assert_memory_equal(text, "abcdefgh", i);
    }
    ty_arena_clear(&a);
}

static void tar_sizes_past_eight_gigabytes(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    int fd;
    struct tar_writer *w = writer_open(&fd);
    struct tar_entry big = {.path = TY_STR("jobs/big"), .mode = 0600, .size = 9LL << 30}, e;
    assert_ok(tar_add(w, &big));
    w->left = 0; /* its content is left out: only the header is of interest */
    struct memory m = {writer_take(w, fd, &a), 0};
    struct tar_reader r;
    tar_reader_init(&r, memory_read, &m);
    assert_ok(tar_next(&r, &e));
    assert_true(e.size == 9LL << 30);
    assert_err(TY_DATA_LOSS, tar_next(&r, &e));
    assert_non_null(strstr(ty_err_message(), "cut short"));
    ty_arena_clear(&a);
}

static void tar_every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str good = small_archive(&a);
    assert_ok(read_all(good));
    char *bytes = ty_cstr(&a, good);
    for (size_t i = 0; i < good.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            if (read_all((ty_str){bytes, good.len}) == TY_OK)
                fail_msg("bit %d of byte %zu", bit, i);
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
        }
    ty_arena_clear(&a);
}

static void tar_every_cut_is_noticed(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    ty_str good = small_archive(&a);
    for (size_t len = 0; len < good.len; len++) {
        assert_err(TY_DATA_LOSS, read_all((ty_str){good.ptr, len}));
        assert_non_null(strstr(ty_err_message(), "cut short"));
    }
    ty_arena_clear(&a);
}

static void head_newer_is_refused(void **state)
{
    (void)state;
    assert_ok(head_check(TY_STR("format 1\nversion 0.1.0\n")));
    assert_err(TY_FAILED_PRECONDITION, head_check(TY_STR("format 2\n")));
    assert_non_null(strstr(ty_err_message(), "newer"));
    assert_err(TY_DATA_LOSS, head_check(TY_STR("format x\n")));
    assert_err(TY_DATA_LOSS, head_check(TY_STR("")));
}

/* ---- paths ---- */

static void path_only_parts_of_a_yard(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool folder, good;
    } rows[] = {
        {"yard.db", false, true},
        {"trainyard.conf", false, true},
        {"jobs", true, true},
        {"jobs/1/1/log", false, true},
        {"client/key.json", false, true},
        {"jobs", false, false},
        {"yard.db", true, false},
        {"yard.db/x", false, false},
        {"id", false, false},
        {"sock", false, false},
        {"server.lock", false, false},
        {"python/runtimes/x", false, false},
        {"other", false, false},
        {"", false, false},
        {"/etc/passwd", false, false},
        {"../x", false, false},
        {"jobs/../../x", false, false},
        {"jobs/..", true, false},
        {"jobs/./x", false, false},
        {"jobs//x", false, false},
        {"jobs/", true, false},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++)
        if ((part_path_check(ty_str_of(rows[i].path), rows[i].folder) == TY_OK) != rows[i].good)
            fail_msg("'%s'", rows[i].path);
}

static void path_has_a_depth(void **state)
{
    (void)state;
    char path[512] = "jobs";
    for (int i = 1; i < BACKUP_DEPTH; i++)
        snprintf(path + strlen(path), 3, "/x");
    assert_ok(part_path_check(ty_str_of(path), false));
    snprintf(path + strlen(path), 3, "/x");
    assert_err(TY_INVALID_ARGUMENT, part_path_check(ty_str_of(path), false));
}

static const struct CMUnitTest tests[] = {
    TEST("tar/reads_what_it_wrote", tar_reads_what_it_wrote),
    TEST("tar/sizes_past_eight_gigabytes", tar_sizes_past_eight_gigabytes),
    TEST("tar/every_flipped_bit_is_noticed", tar_every_flipped_bit_is_noticed),
    TEST("tar/every_cut_is_noticed", tar_every_cut_is_noticed),
    TEST("head/newer_is_refused", head_newer_is_refused),
    TEST("path/only_parts_of_a_yard", path_only_parts_of_a_yard),
    TEST("path/has_a_depth", path_has_a_depth),
};
TEST_MAIN("backup", tests)
