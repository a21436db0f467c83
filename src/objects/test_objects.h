/* test_objects.h -- a data folder of its own, and short forms of the calls tests make all the time.
 */
#ifndef TY_TEST_OBJECTS_H
#define TY_TEST_OBJECTS_H

#define TY_SEAM
#include "base/test.h"
#include "objects/objects_int.h"

#include <ftw.h>
#include <sqlite3.h>

#define BUCKET TY_STR("data")
/* Each test program uses some of these. */
#define HELPER static __attribute__((unused))

struct fixture {
    char dir[64];
    struct objects *o;
    struct ty_arena a;
};

HELPER const char *temporary_root(void)
{
    const char *tmp = getenv("TMPDIR");
    if (tmp && strlen(tmp) < 40)
        return tmp;
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

HELPER void folder_make(struct fixture *f)
{
    *f = (struct fixture){0};
    snprintf(f->dir, sizeof f->dir, "%s/ty_objects_XXXXXX", temporary_root());
    assert_non_null(mkdtemp(f->dir));
}

HELPER void bucket_make(struct fixture *f, ty_str name)
{
    struct bucket b = {.name = name, .project = TY_STR("demo")};
    assert_ok(objects_bucket_insert(f->o, &b));
}

HELPER void fixture_open(struct fixture *f)
{
    folder_make(f);
    assert_ok(objects_open(f->dir, &f->o));
    bucket_make(f, BUCKET);
}

HELPER void fixture_reopen(struct fixture *f)
{
    objects_close(f->o);
    f->o = NULL;
    assert_ok(objects_open(f->dir, &f->o));
}

HELPER void fixture_close(struct fixture *f)
{
    objects_close(f->o);
    ty_arena_clear(&f->a);
    assert_ok(ty_remove_tree(AT_FDCWD, f->dir));
}

HELPER struct object_ref ref_of(const char *name)
{
    return (struct object_ref){.bucket = BUCKET, .name = ty_str_of(name)};
}

HELPER struct object_ref ref_gen(const char *name, int64_t generation)
{
    return (struct object_ref){.bucket = BUCKET, .name = ty_str_of(name), .generation = generation};
}

/* An upload in two pieces. */
HELPER ty_err try_put(struct fixture *f, const char *name, ty_str bytes,
                      const struct object_conditions *conditions, struct object *ret)
{
    struct objects_upload *u;
    struct object_target target = {
        .bucket = BUCKET, .name = ty_str_of(name), .conditions = conditions};
    ty_err err = objects_upload_begin(f->o, &target, &u);
    if (err != TY_OK)
        return err;
    size_t half = bytes.len / 2;
    err = objects_upload_write(u, bytes.ptr, half);
    if (err == TY_OK)
        err = objects_upload_write(u, bytes.ptr + half, bytes.len - half);
    if (err == TY_OK)
        err = objects_upload_finish(u, &f->a, ret);
    objects_upload_free(u);
    return err;
}

HELPER struct object put(struct fixture *f, const char *name, const char *text)
{
    struct object made;
    assert_ok(try_put(f, name, ty_str_of(text), NULL, &made));
    return made;
}

/* All of an object's bytes, held against its size and hashes. */
HELPER ty_err try_read(struct fixture *f, struct object_ref ref, struct object *ret, ty_str *bytes)
{
    int fd;
    ty_err err = objects_read(f->o, &f->a, ref, NULL, ret, &fd);
    if (err != TY_OK)
        return err;
    char *p = ty_alloc(&f->a, (size_t)ret->size + 1);
    assert_int_equal(pread(fd, p, (size_t)ret->size + 1, 0), ret->size);
    assert_true(objects_unchanged(ret, fd));
    close(fd);
    *bytes = (ty_str){p, (size_t)ret->size};
    assert_true(ret->has_crc32c);
    struct md5 h;
    unsigned char md5[16];
    md5_init(&h);
    md5_add(&h, p, bytes->len);
    md5_end(&h, md5);
    if (ret->has_md5)
        assert_memory_equal(md5, ret->md5, 16);
    return TY_OK;
}

HELPER ty_str read_all(struct fixture *f, struct object_ref ref)
{
    struct object object;
    ty_str bytes = {"", 0};
    assert_ok(try_read(f, ref, &object, &bytes));
    return bytes;
}

HELPER void assert_holds(struct fixture *f, const char *name, const char *text)
{
    assert_string_equal(read_all(f, ref_of(name)).ptr, text);
}

HELPER void assert_gone(struct fixture *f, const char *name)
{
    struct object object;
    assert_err(TY_NOT_FOUND, objects_get(f->o, &f->a, ref_of(name), NULL, &object));
}

/* Files, past the code under test. */
HELPER const char *path_of(struct fixture *f, const char *below)
{
    return ty_format(&f->a, "%s/%s", f->dir, below);
}

HELPER bool on_disk(struct fixture *f, const char *below)
{
    return access(path_of(f, below), F_OK) == 0;
}

HELPER void disk_write(struct fixture *f, const char *below, const char *text)
{
    int fd = open(path_of(f, below), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

HELPER const char *disk_read(struct fixture *f, const char *below)
{
    ty_str text;
    assert_ok(ty_file_read(AT_FDCWD, path_of(f, below), 1 << 20, &f->a, &text));
    return text.ptr;
}

static int files_counted;

HELPER int count_file(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)path;
    (void)st;
    (void)where;
    files_counted += type == FTW_F;
    return 0;
}

HELPER int disk_count(struct fixture *f, const char *below)
{
    files_counted = 0;
    assert_int_equal(nftw(path_of(f, below), count_file, 16, FTW_PHYS), 0);
    return files_counted;
}

HELPER int64_t ask(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open_v2(path_of(f, "objects.db"), &db, SQLITE_OPEN_READWRITE, NULL),
                     SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int64_t n = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

/* The names of a list, joined by spaces; prefixes follow after a bar; "+" when there is more. */
HELPER const char *list(struct fixture *f, struct object_query query)
{
    struct object_page page;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    if (query.bucket.len == 0)
        query.bucket = BUCKET;
    assert_ok(objects_list(f->o, &f->a, &query, &page));
    for (size_t i = 0; i < page.item_count; i++)
        ty_buf_addf(&b, "%s" TY_STR_FMT, i ? " " : "", TY_STR_ARG(page.items[i].name));
    for (size_t i = 0; i < page.prefix_count; i++)
        ty_buf_addf(&b, "%s" TY_STR_FMT, i ? " " : "|", TY_STR_ARG(page.prefixes[i]));
    if (page.next_token.len > 0)
        ty_buf_addz(&b, "+");
    const char *text = ty_cstr(&f->a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

#endif
