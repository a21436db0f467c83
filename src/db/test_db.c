/* test_db.c -- the writer's promises (db.h, writer.c W1-W3), migrations, readers.
 *
 * A full disk is played by replacing SQLite's own write calls, so that the real paths through
 * SQLite are taken. */
#define TY_SEAM
#include "base/test.h"
#include "db/db.h"

#include <pthread.h>
#include <sqlite3.h>

static const char *const one_table[] = {"CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT NOT NULL)",
                                        NULL};
static const char *const two_scripts[] = {
    "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT NOT NULL)",
    "CREATE TABLE u (k INTEGER PRIMARY KEY); INSERT INTO u VALUES (7)", NULL};

struct fixture {
    char dir[64], path[80];
    struct db *db;
};

/* Memory, where there is some: thousands of syncs of a busy disk would take minutes, and none of
 * these tests cuts the power. */
static const char *temporary_root(void)
{
    const char *tmp = getenv("TMPDIR");
    if (tmp && strlen(tmp) < 40)
        return tmp;
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static void folder_make(struct fixture *f)
{
    snprintf(f->dir, sizeof(f->dir), "%s/ty_db_XXXXXX", temporary_root());
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/t.db", f->dir);
}

static void fixture_open(struct fixture *f)
{
    folder_make(f);
    assert_ok(db_open(f->path, one_table, &f->db));
}

static void fixture_close(struct fixture *f)
{
    db_close(f->db);
    assert_ok(ty_remove_tree(AT_FDCWD, f->dir));
}

/* ---- closures ---- */

struct put {
    int64_t key;
    const char *value;
    ty_err then_fail; /* after the insert */
};

static ty_err put_fn(struct db_conn *c, void *arg)
{
    struct put *p = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(c, "INSERT INTO t VALUES (?1, ?2)", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, p->key);
    db_bind_str(s, 2, ty_str_of(p->value));
    err = db_run(s);
    if (err == TY_OK && p->then_fail != TY_OK)
        err = ty_fail(p->then_fail, "no to key %" PRId64, p->key);
    return err;
}

static ty_err put(struct db *db, int64_t key, const char *value)
{
    struct put p = {key, value, TY_OK};
    return db_write(db, put_fn, &p);
}

static ty_err count_fn(struct db_conn *c, void *arg)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT count(*) FROM t", &s);
    if (err == TY_OK)
        err = db_step(s, &row);
    if (err == TY_OK)
        *(int64_t *)arg = db_column_i64(s, 0);
    return err;
}

static int64_t count(struct db *db)
{
    int64_t n = -1;
    assert_ok(db_read(db, count_fn, &n));
    return n;
}

/* A closure that holds the writer until the test lets go, so that others queue behind it. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool inside, open;
};

static ty_err gate_fn(struct db_conn *c, void *arg)
{
    (void)c;
    struct gate *g = arg;
    pthread_mutex_lock(&g->lock);
    g->inside = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return TY_OK;
}

struct task {
    pthread_t thread;
    struct db *db;
    db_fn fn;
    void *arg;
    ty_err err;
    char *message;
};

static void *task_main(void *arg)
{
    struct task *t = arg;
    t->err = db_write(t->db, t->fn, t->arg);
    t->message = ty_err_take();
    return NULL;
}

static void task_start(struct task *t, struct db *db, db_fn fn, void *arg)
{
    *t = (struct task){.db = db, .fn = fn, .arg = arg};
    assert_int_equal(pthread_create(&t->thread, NULL, task_main, t), 0);
}

static void task_end(struct task *t)
{
    pthread_join(t->thread, NULL);
}

/* Run the closures as one group, in order: they queue while the gate holds the writer. */
static void run_as_group(struct db *db, struct task *tasks, db_fn fn, struct put *puts, size_t n)
{
    struct gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
    struct task keeper;
    task_start(&keeper, db, gate_fn, &g);
    pthread_mutex_lock(&g.lock);
    while (!g.inside)
        pthread_cond_wait(&g.changed, &g.lock);
    pthread_mutex_unlock(&g.lock);
    for (size_t i = 0; i < n; i++) {
        task_start(&tasks[i], db, fn, &puts[i]);
        for (struct db_stats stats = {0}; stats.queued < i + 1; usleep(200)) /* in this order */
            db_stats(db, &stats);
    }
    pthread_mutex_lock(&g.lock);
    g.open = true;
    pthread_cond_broadcast(&g.changed);
    pthread_mutex_unlock(&g.lock);
    task_end(&keeper);
    free(keeper.message);
    for (size_t i = 0; i < n; i++)
        task_end(&tasks[i]);
}

/* ---- a disk that is full ---- */

static int full_writes_left = -1; /* -1: the disk has room; n: so many more writes fit */
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

static ssize_t limited_pwrite(int fd, const void *ptr, size_t len, off_t at)
{
    if (full_writes_left == 0) {
        errno = ENOSPC;
        return -1;
    }
    if (full_writes_left > 0)
        full_writes_left--;
    return real_pwrite(fd, ptr, len, at);
}

static void disk_limit(int writes)
{
    full_writes_left = writes;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    static const char *const names[] = {"pwrite", "pwrite64"};
    for (size_t i = 0; i < TY_COUNT(names); i++) {
        sqlite3_syscall_ptr now = vfs->xGetSystemCall(vfs, names[i]);
        if (!now || now == (sqlite3_syscall_ptr)limited_pwrite)
            continue;
        real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))now;
        assert_int_equal(vfs->xSetSystemCall(vfs, names[i], (sqlite3_syscall_ptr)limited_pwrite),
                         SQLITE_OK);
    }
    assert_non_null(real_pwrite);
}

/* ---- opening ---- */

static void open_is_private(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct stat st;
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    fixture_close(&f);
}

static void open_runs_each_migration_once(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(put(f.db, 1, "kept"));
    db_close(f.db);
    for (int i = 0; i < 2; i++) { /* the second time there is nothing to do */
        assert_ok(db_open(f.path, two_scripts, &f.db));
        assert_int_equal(count(f.db), 1);
        db_close(f.db);
    }
    f.db = NULL;
    fixture_close(&f);
}

static void open_failed_migration_changes_nothing(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT NOT NULL)",
        "INSERT INTO t VALUES (1, 'half'); INSERT INTO nothere VALUES (1)", NULL};
    struct fixture f;
    fixture_open(&f);
    db_close(f.db);
    f.db = NULL;
    assert_err(TY_INTERNAL, db_open(f.path, broken, &f.db));
    assert_non_null(strstr(ty_err_message(), "nothere"));
    assert_ok(db_open(f.path, one_table, &f.db)); /* still the first format, and empty */
    assert_int_equal(count(f.db), 0);
    fixture_close(&f);
}

static void open_refuses_newer(void **state)
{
    (void)state;
    struct fixture f;
    folder_make(&f);
    assert_ok(db_open(f.path, two_scripts, &f.db));
    db_close(f.db);
    f.db = NULL;
    assert_err(TY_FAILED_PRECONDITION, db_open(f.path, one_table, &f.db));
    assert_non_null(strstr(ty_err_message(), "format 2"));
    assert_null(f.db);
    fixture_close(&f);
}

static void open_refuses_other_files(void **state)
{
    (void)state;
    struct fixture f = {0};
    folder_make(&f);
    char junk[8192];
    memset(junk, 'x', sizeof(junk));
    assert_ok(ty_file_replace(AT_FDCWD, f.path, (ty_str){junk, sizeof(junk)}, 0600));
    assert_err(TY_DATA_LOSS, db_open(f.path, one_table, &f.db));
    assert_non_null(strstr(ty_err_message(), f.path));
    assert_true(db_open("/nonexistent/t.db", one_table, &f.db) != TY_OK);
    assert_non_null(strstr(ty_err_message(), "/nonexistent/t.db"));
    fixture_close(&f);
}

/* ---- writing ---- */

static void writer_failed_closure_leaves_nothing(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct put p = {1, "gone", TY_ABORTED};
    assert_err(TY_ABORTED, db_write(f.db, put_fn, &p));
    assert_string_equal(ty_err_message(), "no to key 1");
    assert_int_equal(count(f.db), 0);
    assert_ok(put(f.db, 1, "stays"));
    assert_err(TY_ALREADY_EXISTS, put(f.db, 1, "twice"));
    assert_int_equal(count(f.db), 1);
    fixture_close(&f);
}

static void writer_group_shares_a_commit(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct put puts[8];
    struct task tasks[8];
    for (int i = 0; i < 8; i++)
        puts[i] = (struct put){i, "v", i == 3 ? TY_ABORTED : TY_OK};
    run_as_group(f.db, tasks, put_fn, puts, 8);
    for (int i = 0; i < 8; i++) {
        assert_err(i == 3 ? TY_ABORTED : TY_OK, tasks[i].err);
        if (i == 3)
            assert_string_equal(tasks[i].message, "no to key 3");
        free(tasks[i].message);
    }
    struct db_stats stats;
    db_stats(f.db, &stats);
    assert_int_equal(stats.writes, 9);
    assert_int_equal(stats.commits, 2); /* the gate's, and one for all eight */
    assert_int_equal(count(f.db), 7);
    fixture_close(&f);
}

static void writer_failed_commit_fails_the_group(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    setenv("TY_FAULT", "enospc-commit:2", 1); /* the gate's commit is the first */
    ty_seam_role("server");
    struct put puts[3] = {{1, "a", TY_OK}, {2, "b", TY_ABORTED}, {3, "c", TY_OK}};
    struct task tasks[3];
    run_as_group(f.db, tasks, put_fn, puts, 3);
    for (int i = 0; i < 3; i++) {
        assert_err(i == 1 ? TY_ABORTED : TY_RESOURCE_EXHAUSTED, tasks[i].err);
        if (i != 1)
            assert_true(ty_str_starts(ty_str_of(tasks[i].message), TY_STR("disk full: ")));
        free(tasks[i].message);
    }
    assert_int_equal(count(f.db), 0);
    assert_ok(put(f.db, 1, "after"));
    assert_int_equal(count(f.db), 1);

    setenv("TY_FAULT", "commit:1", 1);
    ty_seam_role("server");
    assert_err(TY_INTERNAL, put(f.db, 2, "b"));
    unsetenv("TY_FAULT");
    ty_seam_role("server");
    fixture_close(&f);
}

static void writer_goes_on_after_a_full_disk(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(put(f.db, 1, "before"));
    for (int fits = 0; fits < 3; fits++) { /* the disk fills up at each write of a commit */
        disk_limit(fits);
        ty_err err = put(f.db, 2, "during");
        disk_limit(-1);
        assert_err(fits < 2 ? TY_RESOURCE_EXHAUSTED : TY_OK, err);
        if (err != TY_OK)
            assert_true(ty_str_starts(ty_str_of(ty_err_message()), TY_STR("disk full: ")));
        assert_int_equal(count(f.db), err == TY_OK ? 2 : 1);
    }
    assert_ok(put(f.db, 3, "after"));
    db_close(f.db);
    assert_ok(db_open(f.path, one_table, &f.db));
    assert_int_equal(count(f.db), 3);
    fixture_close(&f);
}

/* More than the page cache holds: SQLite writes, and meets the full disk, before the commit. */
static ty_err put_much_fn(struct db_conn *c, void *arg)
{
    struct put *p = arg;
    if (p->value)
        return put_fn(c, p);
    static char big[64 * 1024 + 1];
    memset(big, 'b', sizeof(big) - 1);
    ty_err err = TY_OK;
    for (int i = 0; i < 100 && err == TY_OK; i++) {
        struct put one = {1000 + i, big, TY_OK};
        err = put_fn(c, &one);
    }
    return err;
}

static void writer_full_inside_a_closure_fails_the_group(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct put puts[3] = {{1, "small", TY_OK}, {2, NULL, TY_OK}, {3, "later", TY_OK}};
    struct task tasks[3];
    disk_limit(2);
    run_as_group(f.db, tasks, put_much_fn, puts, 3);
    disk_limit(-1);
    for (int i = 0; i < 3; i++) {
        assert_err(TY_RESOURCE_EXHAUSTED, tasks[i].err);
        assert_true(ty_str_starts(ty_str_of(tasks[i].message), TY_STR("disk full: ")));
        free(tasks[i].message);
    }
    assert_int_equal(count(f.db), 0);
    assert_ok(db_write(f.db, put_much_fn, &puts[1]));
    assert_int_equal(count(f.db), 100);
    fixture_close(&f);
}

static void writer_log_stays_small(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    static char big[200 * 1024 + 1];
    memset(big, 'b', sizeof(big) - 1);
    for (int i = 0; i < 100; i++) /* 20 MB through a log that is copied at 4 MB */
        assert_ok(put(f.db, i, big));
    char wal[96];
    snprintf(wal, sizeof(wal), "%s-wal", f.path);
    struct stat st;
    assert_int_equal(stat(wal, &st), 0);
    assert_in_range(st.st_size, 1, 6 * 1024 * 1024);
    fixture_close(&f);
}

static void writer_epoch_tells_of_commits(void **state)
{
    (void)state;
    struct fixture f;
    int64_t count = 0;
    fixture_open(&f);
    uint64_t first = db_epoch(f.db);
    assert_int_equal(first % 2, 0);
    assert_ok(db_read(f.db, count_fn, &count));
    assert_int_equal(db_epoch(f.db), first);
    assert_ok(put(f.db, 1, "one"));
    uint64_t second = db_epoch(f.db);
    assert_true(second != first && second % 2 == 0);
    fixture_close(&f);
}

/* ---- reading ---- */

struct moment {
    struct db *db;
    int64_t before, after;
};

static ty_err moment_fn(struct db_conn *c, void *arg)
{
    struct moment *m = arg;
    ty_err err = count_fn(c, &m->before);
    struct put p = {99, "meanwhile", TY_OK};
    struct task t;
    task_start(&t, m->db, put_fn, &p);
    task_end(&t);
    assert_int_equal(t.err, TY_OK);
    free(t.message);
    return err == TY_OK ? count_fn(c, &m->after) : err;
}

static void reader_sees_one_moment(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(put(f.db, 1, "a"));
    struct moment m = {.db = f.db};
    assert_ok(db_read(f.db, moment_fn, &m));
    assert_int_equal(m.before, 1);
    assert_int_equal(m.after, 1);
    assert_int_equal(count(f.db), 2); /* the next read sees what has returned */
    fixture_close(&f);
}

static void reader_cannot_write(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct put p = {1, "no", TY_OK};
    assert_err(TY_INTERNAL, db_read(f.db, put_fn, &p));
    assert_int_equal(count(f.db), 0); /* and the connection is as good as before */
    fixture_close(&f);
}

static void *read_many(void *arg)
{
    for (int i = 0; i < 50; i++) {
        int64_t n = 0;
        if (db_read(arg, count_fn, &n) != TY_OK || n != 1)
            return arg;
    }
    return NULL;
}

static void reader_pool_serves_more_threads_than_it_has(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(put(f.db, 1, "a"));
    pthread_t threads[24];
    for (size_t i = 0; i < TY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, f.db), 0);
    for (size_t i = 0; i < TY_COUNT(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    fixture_close(&f);
}

/* ---- statements ---- */

static ty_err values_fn(struct db_conn *c, void *arg)
{
    (void)arg;
    struct db_stmt *s, *again;
    bool row = false;
    static const char sql[] = "SELECT ?1, ?2, ?3, ?4";
    assert_ok(db_prepare(c, sql, &s));
    db_bind_i64(s, 1, INT64_MIN);
    db_bind_str(s, 2, (ty_str){"a\0b", 3});
    db_bind_str(s, 3, (ty_str){0});
    db_bind_null(s, 4);
    assert_ok(db_step(s, &row));
    assert_true(row);
    assert_true(db_column_i64(s, 0) == INT64_MIN);
    assert_true(ty_str_eq(db_column_str(s, 1), (ty_str){"a\0b", 3}));
    assert_int_equal(db_column_str(s, 2).len, 0);
    assert_false(db_column_null(s, 2));
    assert_true(db_column_null(s, 3));
    assert_int_equal(db_column_str(s, 3).len, 0);

    char copy[sizeof(sql)];
    memcpy(copy, sql, sizeof(sql));
    assert_ok(db_prepare(c, copy, &again)); /* found by its text, with nothing bound */
    assert_ptr_equal(s, again);
    assert_ok(db_step(s, &row));
    assert_true(db_column_null(s, 0));
    assert_ok(db_step(s, &row));
    assert_false(row);

    assert_ok(db_prepare(c, sql, &s));
    db_bind_i64(s, 5, 1);
    assert_err(TY_INTERNAL, db_step(s, &row));
    assert_err(TY_INTERNAL, db_run(s));
    assert_err(TY_INTERNAL, db_prepare(c, "SELECT nonsense FROM", &again));
    assert_non_null(strstr(ty_err_message(), "SELECT nonsense FROM"));
    return TY_OK;
}

static void stmt_values_survive(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(db_read(f.db, values_fn, NULL));
    fixture_close(&f);
}

static ty_err many_texts_fn(struct db_conn *c, void *arg)
{
    (void)arg;
    ty_err err = TY_OK;
    for (int i = 0; i < 1000 && err == TY_OK; i++) {
        char sql[32];
        struct db_stmt *s;
        snprintf(sql, sizeof(sql), "SELECT %d", i);
        err = db_prepare(c, sql, &s);
    }
    return err;
}

static void stmt_cache_has_a_ceiling(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_err(TY_INTERNAL, db_read(f.db, many_texts_fn, NULL));
    fixture_close(&f);
}

/* ---- from outside ---- */

static void copy_is_of_one_moment(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    for (int i = 0; i < 100; i++)
        assert_ok(put(f.db, i, "before"));
    char to[100];
    snprintf(to, sizeof(to), "%s/copy.db", f.dir);
    assert_ok(db_copy(f.path, to)); /* while the writer is there, and the log is not in the file */
    assert_ok(put(f.db, 1000, "after"));
    int64_t n = -1;
    assert_ok(db_peek(to, count_fn, &n));
    assert_int_equal(n, 100);
    assert_ok(db_peek(f.path, count_fn, &n));
    assert_int_equal(n, 101);
    struct stat st;
    assert_int_equal(stat(to, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(db_copy(f.path, to) != TY_OK); /* never over something */
    assert_true(db_copy("/nonexistent/t.db", "/nonexistent/u.db") != TY_OK);
    fixture_close(&f);
}

static void copy_on_a_full_disk_says_so(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    assert_ok(put(f.db, 1, "x"));
    char to[100];
    snprintf(to, sizeof(to), "%s/copy.db", f.dir);
    disk_limit(0);
    ty_err err = db_copy(f.path, to);
    disk_limit(-1);
    assert_err(TY_RESOURCE_EXHAUSTED, err);
    assert_non_null(strstr(ty_err_message(), "copy.db"));
    fixture_close(&f);
}

static const struct CMUnitTest tests[] = {
    TEST("open/file_is_private", open_is_private),
    TEST("open/runs_each_migration_once", open_runs_each_migration_once),
    TEST("open/failed_migration_changes_nothing", open_failed_migration_changes_nothing),
    TEST("open/refuses_newer_format", open_refuses_newer),
    TEST("open/refuses_other_files", open_refuses_other_files),
    TEST("writer/failed_closure_leaves_nothing", writer_failed_closure_leaves_nothing),
    TEST("writer/group_shares_a_commit", writer_group_shares_a_commit),
    TEST("writer/failed_commit_fails_the_group", writer_failed_commit_fails_the_group),
    TEST("writer/goes_on_after_a_full_disk", writer_goes_on_after_a_full_disk),
    TEST("writer/full_inside_a_closure_fails_the_group",
         writer_full_inside_a_closure_fails_the_group),
    TEST("writer/log_stays_small", writer_log_stays_small),
    TEST("writer/epoch_tells_of_commits", writer_epoch_tells_of_commits),
    TEST("reader/sees_one_moment", reader_sees_one_moment),
    TEST("reader/cannot_write", reader_cannot_write),
    TEST("reader/pool_serves_more_threads_than_it_has",
         reader_pool_serves_more_threads_than_it_has),
    TEST("stmt/values_survive", stmt_values_survive),
    TEST("stmt/cache_has_a_ceiling", stmt_cache_has_a_ceiling),
    TEST("copy/is_of_one_moment", copy_is_of_one_moment),
    TEST("copy/on_a_full_disk_says_so", copy_on_a_full_disk_says_so),
};
TEST_MAIN("db", tests)
