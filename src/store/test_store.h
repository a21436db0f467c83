/* test_store.h -- a data folder of its own, jobs in any state, and what holds for every file.
 *
 * check_rows() holds for every file this module ever leaves behind; it runs after each scenario,
 * crashed or not. It asks the file through SQLite itself, not through the code under test. */
#ifndef TY_TEST_STORE_H
#define TY_TEST_STORE_H

#define TY_SEAM
#include "base/test.h"
#include "store/store.h"

#include <sqlite3.h>

/* Each test program uses some of these. */
#define HELPER static __attribute__((unused))

#define PROJECT TY_STR("demo")
#define REGION  TY_STR("us-central1")

struct fixture {
    char dir[64];
    struct store *store;
    struct ty_arena arena;
};

/* Memory, where there is some: thousands of syncs of a busy disk would take minutes, and none of
 * these tests cuts the power. */
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
    snprintf(f->dir, sizeof(f->dir), "%s/ty_store_XXXXXX", temporary_root());
    assert_non_null(mkdtemp(f->dir));
}

HELPER void fixture_open(struct fixture *f)
{
    folder_make(f);
    assert_ok(store_open(f->dir, &f->store));
}

HELPER sqlite3 *file_open(const char *dir)
{
    char path[96];
    sqlite3 *db;
    snprintf(path, sizeof(path), "%s/yard.db", dir);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    return db;
}

HELPER int64_t file_ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int64_t n = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
    sqlite3_finalize(s);
    return n;
}

/* One number from the file, past the code under test. */
HELPER int64_t ask(const char *dir, const char *sql)
{
    sqlite3 *db = file_open(dir);
    int64_t n = file_ask(db, sql);
    sqlite3_close(db);
    return n;
}

HELPER void check_rows(const char *dir)
{
    static const char *const none[] = {
        "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
        "SELECT count(*) FROM job WHERE (end_ns > 0) <> (state IN (4, 5, 7))",
        "SELECT count(*) FROM job WHERE state = 3 AND start_ns = 0",
        "SELECT count(*) FROM job WHERE attempt <>"
        " (SELECT coalesce(max(number), 0) FROM attempt WHERE job_id = id)",
        "SELECT count(*) FROM (SELECT 1 FROM attempt WHERE state < 3 GROUP BY job_id"
        " HAVING count(*) > 1)",
        "SELECT count(*) FROM attempt WHERE job_id NOT IN (SELECT id FROM job)",
        "SELECT count(*) FROM job_count"
        " WHERE jobs <> (SELECT count(*) FROM job WHERE job.state = job_count.state)",
    };
    sqlite3 *db = file_open(dir);
    for (size_t i = 0; i < TY_COUNT(none); i++)
        if (file_ask(db, none[i]) != 0)
            fail_msg("broken rows: %s", none[i]);
    sqlite3_close(db);
}

HELPER void fixture_close(struct fixture *f)
{
    ty_arena_clear(&f->arena);
    store_close(f->store);
    check_rows(f->dir);
    assert_ok(ty_remove_tree(AT_FDCWD, f->dir));
}

HELPER void reopen(struct fixture *f)
{
    store_close(f->store);
    assert_ok(store_open(f->dir, &f->store));
}

HELPER struct job job_of(const char *name)
{
    return (struct job){.project = PROJECT,
                        .region = REGION,
                        .display_name = ty_str_of(name),
                        .labels = TY_STR("{\"team\":\"a\"}"),
                        .body = TY_STR("\"displayName\":\"t1\",\"jobSpec\":{}"),
                        .replicas = 2};
}

HELPER int64_t create(struct fixture *f)
{
    struct job j = job_of("t1");
    assert_ok(store_job_create(f->store, &j));
    return j.id;
}

HELPER struct job get(struct fixture *f, int64_t id)
{
    struct job j;
    assert_ok(store_job_get(f->store, &f->arena, PROJECT, REGION, id, &j));
    return j;
}

HELPER ty_err move(struct fixture *f, int64_t id, enum job_state state)
{
    struct store_change ch = {.job_id = id, .state = state};
    return store_apply(f->store, &ch, 1);
}

HELPER ty_err move_attempt(struct fixture *f, int64_t id, int number, enum attempt_state state)
{
    struct attempt at = {.number = number, .state = state, .ports = TY_STR("20000")};
    struct store_change ch = {.job_id = id, .attempt = &at};
    return store_apply(f->store, &ch, 1);
}

/* A new job, brought to `state` by legal moves. */
HELPER int64_t create_in(struct fixture *f, enum job_state state)
{
    static const enum job_state way[8][4] = {
        [JOB_STATE_QUEUED] = {JOB_STATE_QUEUED},
        [JOB_STATE_RUNNING] = {JOB_STATE_RUNNING},
        [JOB_STATE_SUCCEEDED] = {JOB_STATE_RUNNING, JOB_STATE_SUCCEEDED},
        [JOB_STATE_FAILED] = {JOB_STATE_RUNNING, JOB_STATE_FAILED},
        [JOB_STATE_CANCELLING] = {JOB_STATE_CANCELLING},
        [JOB_STATE_CANCELLED] = {JOB_STATE_CANCELLING, JOB_STATE_CANCELLED},
    };
    int64_t id = create(f);
    for (int i = 0; way[state][i]; i++)
        assert_ok(move(f, id, way[state][i]));
    return id;
}

#endif
