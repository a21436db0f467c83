/* objects.c -- the schema of objects.db, opening, and what a start does.
 *
 * Live objects and kept ones (old generations, soft-deleted) are two tables of the same columns, so
 * that a list of a million names never walks over old ones. Keys are (bucket, name): a page is a
 * walk along the key. Rows that are not settled, and folders not looked at, are found by partial
 * indexes, which are empty when all is quiet. The number of open sessions is kept by triggers:
 * counting 100,000 rows for each new one would not do. */
#include "objects/objects_int.h"

#include <dirent.h>

#define ROW_TABLE                                                                                  \
    " bucket INTEGER NOT NULL, name TEXT NOT NULL, generation INTEGER NOT NULL,"                   \
    " metageneration INTEGER NOT NULL, size INTEGER NOT NULL, create_ns INTEGER NOT NULL,"         \
    " update_ns INTEGER NOT NULL, delete_ns INTEGER NOT NULL, soft INTEGER NOT NULL,"              \
    " hashes INTEGER NOT NULL, md5_a INTEGER NOT NULL, md5_b INTEGER NOT NULL,"                    \
    " crc32c INTEGER NOT NULL, components INTEGER NOT NULL, place INTEGER NOT NULL,"               \
    " stage TEXT NOT NULL, ino INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,"                       \
    " ctime_ns INTEGER NOT NULL," SETTINGS_TABLE
#define SETTINGS_TABLE                                                                             \
    " content_type TEXT NOT NULL, content_encoding TEXT NOT NULL,"                                 \
    " content_disposition TEXT NOT NULL, content_language TEXT NOT NULL,"                          \
    " cache_control TEXT NOT NULL, storage_class TEXT NOT NULL, metadata TEXT NOT NULL,"           \
    " custom_time_ns INTEGER NOT NULL,"

static const char format_1[] =
    "CREATE TABLE bucket ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, project TEXT NOT NULL,"
    " location TEXT NOT NULL, storage_class TEXT NOT NULL, create_ns INTEGER NOT NULL,"
    " update_ns INTEGER NOT NULL, metageneration INTEGER NOT NULL, versioning INTEGER NOT NULL,"
    " soft_delete_s INTEGER NOT NULL, soft_delete_ns INTEGER NOT NULL, labels TEXT NOT NULL,"
    " lifecycle TEXT NOT NULL, iam TEXT NOT NULL, extra TEXT NOT NULL);"

    "CREATE TABLE object (" ROW_TABLE " PRIMARY KEY (bucket, name)) WITHOUT ROWID;"
    "CREATE INDEX object_unsettled ON object (stage) WHERE stage <> '';"
    "CREATE TABLE old (" ROW_TABLE " PRIMARY KEY (bucket, name, generation)) WITHOUT ROWID;"
    "CREATE INDEX old_unsettled ON old (stage) WHERE stage <> '';"
    "CREATE INDEX old_soft ON old (bucket, delete_ns) WHERE soft = 1;"
    "CREATE TABLE removal ("
    " id INTEGER PRIMARY KEY, bucket TEXT NOT NULL, name TEXT NOT NULL,"
    " generation INTEGER NOT NULL, place INTEGER NOT NULL, ino INTEGER NOT NULL,"
    " mtime_ns INTEGER NOT NULL, stage TEXT NOT NULL);"
    "CREATE INDEX removal_file ON removal (ino);"

    "CREATE TABLE folder ("
    " bucket INTEGER NOT NULL, path TEXT NOT NULL, mtime_ns INTEGER NOT NULL,"
    " PRIMARY KEY (bucket, path)) WITHOUT ROWID;"
    "CREATE INDEX folder_unsure ON folder (bucket, path) WHERE mtime_ns <= 0;"

    "CREATE TABLE session ("
    " id TEXT NOT NULL PRIMARY KEY, bucket TEXT NOT NULL, name TEXT NOT NULL,"
    " size INTEGER NOT NULL, offset INTEGER NOT NULL, expire_ns INTEGER NOT NULL,"
    " done INTEGER NOT NULL, generation INTEGER NOT NULL, create_ns INTEGER NOT NULL,"
    " md5_state TEXT NOT NULL, md5_a INTEGER NOT NULL, md5_b INTEGER NOT NULL,"
    " crc32c INTEGER NOT NULL, expect INTEGER NOT NULL, expect_md5_a INTEGER NOT NULL,"
    " expect_md5_b INTEGER NOT NULL, expect_crc32c INTEGER NOT NULL,"
    " given INTEGER NOT NULL, if_generation INTEGER NOT NULL,"
    " if_generation_not INTEGER NOT NULL, if_metageneration INTEGER NOT NULL,"
    " if_metageneration_not INTEGER NOT NULL," SETTINGS_TABLE
    " CHECK (done IN (0, 1))) WITHOUT ROWID;"
    "CREATE INDEX session_expire ON session (expire_ns);"
    "CREATE TABLE session_count (open INTEGER NOT NULL);"
    "INSERT INTO session_count VALUES (0);"
    "CREATE TRIGGER session_insert AFTER INSERT ON session WHEN NEW.done = 0 BEGIN"
    " UPDATE session_count SET open = open + 1; END;"
    "CREATE TRIGGER session_delete AFTER DELETE ON session WHEN OLD.done = 0 BEGIN"
    " UPDATE session_count SET open = open - 1; END;"
    "CREATE TRIGGER session_update AFTER UPDATE OF done ON session"
    " WHEN OLD.done <> NEW.done BEGIN"
    " UPDATE session_count SET open = open + OLD.done - NEW.done; END;"

    "CREATE TABLE clock (generation INTEGER NOT NULL);"
    "INSERT INTO clock VALUES (0);";

/* A new format is a new script at the end; those before it never change. */
static const char *const migrations[] = {format_1, NULL};

static ty_err clock_fn(struct db_conn *c, void *arg)
{
    struct objects *o = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT generation FROM clock", &s);
    if (err == TY_OK)
        err = db_step(s, &row);
    if (err == TY_OK && row)
        o->last_generation = db_column_i64(s, 0);
    return err;
}

static ty_err open_folder(struct objects *o, const char *name, int *ret_fd)
{
    struct ty_arena a = {0};
    const char *path = ty_format(&a, "%s/%s", o->root, name);
    ty_err err = ty_mkdirs(path, 0700);
    if (err == TY_OK) {
        *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*ret_fd < 0)
            err = ty_fail_errno(errno, "cannot open '%s'", path);
    }
    ty_arena_clear(&a);
    return err;
}

static ty_err open_files(struct objects *o)
{
    struct ty_arena a = {0};
    ty_err err = digest_load();
    if (err == TY_OK)
        err = open_folder(o, ".", &o->root_fd);
    if (err == TY_OK)
        err = open_folder(o, "buckets", &o->buckets_fd);
    if (err == TY_OK)
        err = open_folder(o, "odd", &o->odd_fd);
    if (err == TY_OK)
        err = open_folder(o, "staging", &o->staging_fd);
    if (err == TY_OK)
        err = ty_sync(o->root_fd);
    if (err == TY_OK)
        err = db_open(ty_format(&a, "%s/objects.db", o->root), migrations, &o->db);
    ty_arena_clear(&a);
    return err;
}

ty_err objects_attach(const char *data_dir, struct objects **ret_objects)
{
    struct objects *o = calloc(1, sizeof *o);
    ty_assert(o);
    o->root = strdup(data_dir);
    ty_assert(o->root);
    o->root_fd = o->buckets_fd = o->odd_fd = o->staging_fd = -1;
    pthread_mutex_init(&o->claim_lock, NULL);
    pthread_cond_init(&o->claim_free, NULL);
    pthread_mutex_init(&o->thread_lock, NULL);
    pthread_cond_init(&o->thread_wake, NULL);
    pthread_cond_init(&o->scan_wake, NULL);
    pthread_mutex_init(&o->recent_lock, NULL);
    pthread_mutex_init(&o->reserve_lock, NULL);
    o->recent = calloc(RECENT_SLOTS, sizeof *o->recent);
    ty_assert(o->recent);
    ty_err err = open_files(o);
    o->recent_usable = err == TY_OK && recent_local(o->buckets_fd);
    if (err != TY_OK) {
        objects_close(o);
        return ty_wrap(err, "cannot open the buckets of '%s'", data_dir);
    }
    *ret_objects = o;
    return TY_OK;
}

ty_err objects_open(const char *data_dir, struct objects **ret_objects)
{
    struct objects *o;
    ty_err err = objects_attach(data_dir, &o);
    if (err != TY_OK)
        return err;
    err = db_read(o->db, clock_fn, o);
    if (err == TY_OK)
        err = recover(o);
    if (err == TY_OK)
        err = settle_start(o);
    if (err == TY_OK)
        err = scan_start(o);
    if (err != TY_OK) {
        objects_close(o);
        return ty_wrap(err, "cannot open the buckets of '%s'", data_dir);
    }
    *ret_objects = o;
    return TY_OK;
}

void objects_close(struct objects *o)
{
    if (!o)
        return;
    scan_stop(o);
    settle_stop(o);
    db_close(o->db);
    const int fds[] = {o->root_fd, o->buckets_fd, o->odd_fd, o->staging_fd};
    for (size_t i = 0; i < TY_COUNT(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&o->claim_lock);
    pthread_cond_destroy(&o->claim_free);
    pthread_mutex_destroy(&o->thread_lock);
    pthread_mutex_destroy(&o->reserve_lock);
    pthread_cond_destroy(&o->thread_wake);
    pthread_cond_destroy(&o->scan_wake);
    pthread_mutex_destroy(&o->recent_lock);
    recent_clear(o);
    free(o->recent);
    free(o->root);
    free(o);
}

const char *objects_bucket_path(struct objects *o, struct ty_arena *a, ty_str bucket)
{
    return ty_format(a, "%s/buckets/" TY_STR_FMT, o->root, TY_STR_ARG(bucket));
}
