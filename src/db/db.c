/* db.c -- opening a database file (migrations), and the pool of readers.
 *
 * The file's user_version counts the migrations that have run; each runs in its own transaction
 * together with the new count, so a crash between two leaves a file that the next start carries on
 * with. Readers are made when they are first needed and kept: an idle server has one or two. The
 * last used goes out first, so its caches are warm and the others stay small. */
#include "db/db_int.h"

static ty_err user_version(struct db_conn *c, int *ret_version)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "PRAGMA user_version", &s);
    if (err == TY_OK)
        err = db_step(s, &row);
    if (err == TY_OK)
        *ret_version = row ? (int)db_column_i64(s, 0) : 0;
    conn_reset(c);
    return err;
}

static ty_err migrate_one(struct db_conn *c, const char *script, int version)
{
    ty_err err = conn_exec(c, "BEGIN IMMEDIATE");
    if (err != TY_OK)
        return err;
    char mark[48];
    snprintf(mark, sizeof(mark), "PRAGMA user_version=%d", version);
    int rc = sqlite3_exec(c->sql, script, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(c->sql, mark, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        return conn_commit(c);
    err = conn_fail(c, rc, "migrate");
    conn_rollback(c);
    return err;
}

static ty_err migrate(struct db_conn *c, const char *const *migrations)
{
    int known = 0, version = 0;
    while (migrations[known])
        known++;
    ty_err err = user_version(c, &version);
    if (err == TY_OK && version > known)
        err =
            ty_fail(TY_FAILED_PRECONDITION,
                    "'%s' has format %d and this program knows formats up to %d: it was written by "
                    "a newer trainyard; use that one",
                    c->path, version, known);
    for (; err == TY_OK && version < known; version++)
        err = migrate_one(c, migrations[version], version + 1);
    conn_reset(c);
    return err;
}

/* Job bodies may hold secrets: the file is for its owner. The log beside it takes the same mode. */
static ty_err create_private(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    else if (errno != EEXIST)
        return ty_fail_errno(errno, "cannot create '%s'", path);
    return TY_OK;
}

ty_err db_open(const char *path, const char *const *migrations, struct db **ret_db)
{
    ty_err err = create_private(path);
    if (err != TY_OK)
        return err;
    struct db *db = calloc(1, sizeof(*db));
    ty_assert(db);
    db->last = &db->first;
    pthread_mutex_init(&db->lock, NULL);
    pthread_cond_init(&db->work, NULL);
    pthread_cond_init(&db->reader_free, NULL);

    err = conn_open(path, true, &db->writer);
    if (err == TY_OK)
        err = migrate(db->writer, migrations);
    if (err == TY_OK)
        err = writer_start(db);
    if (err != TY_OK) {
        db_close(db);
        return err;
    }
    *ret_db = db;
    return TY_OK;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    writer_stop(db);
    ty_assert(db->readers_idle == db->readers_open); /* nobody may be inside db_read */
    for (size_t i = 0; i < db->readers_idle; i++)
        conn_close(db->readers[i]);
    conn_close(db->writer); /* last: it copies the log into the file and removes it */
    pthread_cond_destroy(&db->reader_free);
    pthread_cond_destroy(&db->work);
    pthread_mutex_destroy(&db->lock);
    free(db);
}

/* ---- readers ---- */

static ty_err reader_borrow(struct db *db, struct db_conn **ret_conn)
{
    pthread_mutex_lock(&db->lock);
    while (db->readers_idle == 0 && db->readers_open == DB_READER_LIMIT)
        pthread_cond_wait(&db->reader_free, &db->lock);
    struct db_conn *c = NULL;
    if (db->readers_idle > 0)
        c = db->readers[--db->readers_idle];
    else
        db->readers_open++;
    pthread_mutex_unlock(&db->lock);
    if (c) {
        *ret_conn = c;
        return TY_OK;
    }

    ty_err err = conn_open(db->writer->path, false, ret_conn);
    if (err != TY_OK) {
        pthread_mutex_lock(&db->lock);
        db->readers_open--;
        pthread_cond_signal(&db->reader_free);
        pthread_mutex_unlock(&db->lock);
    }
    return err;
}

static void reader_return(struct db *db, struct db_conn *c)
{
    pthread_mutex_lock(&db->lock);
    db->readers[db->readers_idle++] = c;
    pthread_cond_signal(&db->reader_free);
    pthread_mutex_unlock(&db->lock);
}

ty_err db_read(struct db *db, db_fn fn, void *arg)
{
    struct db_conn *c;
    ty_err err = reader_borrow(db, &c);
    if (err != TY_OK)
        return err;
    err = conn_exec(c, "BEGIN"); /* all of the closure's statements see one moment */
    if (err == TY_OK)
        err = fn(c, arg);
    conn_rollback(c); /* ends the read; it has changed nothing */
    reader_return(db, c);
    return err;
}

uint64_t db_epoch(const struct db *db)
{
    return db->epoch;
}

void db_stats(struct db *db, struct db_stats *ret_stats)
{
    pthread_mutex_lock(&db->lock);
    *ret_stats = db->stats;
    pthread_mutex_unlock(&db->lock);
}
