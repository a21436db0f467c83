/* writer.c -- the one thread that writes: group commit.
 *
 * A commit costs a sync of the disk, whatever is in it. So callers queue closures and wait; the
 * writer takes everything that is queued, runs it in one transaction and syncs once. Nobody waits
 * for company: one closure alone is committed at once, and what arrives during its sync is the next
 * group.
 *
 *   BEGIN IMMEDIATE · for each closure: SAVEPOINT, run, RELEASE (or ROLLBACK TO, when it failed) ·
 * COMMIT · wake the callers
 *
 * W1 a caller is told "done" only after the COMMIT that holds its closure.
 * W2 a closure that fails leaves nothing, and the others of its group do not notice.
 * W3 some failures (disk full, I/O error) make SQLite roll back the whole transaction inside a
 * closure: then every closure of the group fails with that error, since what the earlier ones wrote
 * is gone as well.
 *
 * The write-ahead log is copied into the file (checkpoint) here too, after the callers were woken
 * and only when nobody is waiting, or when the log has grown to four times the usual size: SQLite's
 * own way does it inside somebody's COMMIT. */
#include "db/db_int.h"

static char *dup_message(const char *message)
{
    char *copy = strdup(message);
    ty_assert(copy);
    return copy;
}

/* The closure's own failure is in the request; what is returned ends the group (W3). */
static ty_err run_one(struct db_conn *c, struct db_request *r)
{
    ty_err err = conn_exec(c, "SAVEPOINT one");
    if (err != TY_OK)
        return err;
    r->err = r->fn(c, r->arg);
    conn_reset(c);
    if (r->err != TY_OK)
        r->message = ty_err_take();
    if (sqlite3_get_autocommit(c->sql))
        return r->err != TY_OK ? ty_fail(r->err, "%s", r->message)
                               : ty_fail(TY_INTERNAL, "the transaction ended inside a closure");
    if (r->err != TY_OK)
        err = conn_exec(c, "ROLLBACK TO one");
    if (err == TY_OK)
        err = conn_exec(c, "RELEASE one");
    return err;
}

static void run_group(struct db *db, struct db_request *group)
{
    struct db_conn *c = db->writer;
    ty_err err = conn_exec(c, "BEGIN IMMEDIATE");
    for (struct db_request *r = group; r && err == TY_OK; r = r->next)
        err = run_one(c, r);
    if (err == TY_OK) {
        db->epoch++; /* readers see the new rows at some moment in between */
        err = conn_commit(c);
        db->epoch++;
    } else {
        conn_rollback(c);
    }
    conn_reset(c);
    if (err == TY_OK)
        return;
    char *message = ty_err_take();
    for (struct db_request *r = group; r; r = r->next) {
        if (r->err != TY_OK)
            continue;
        r->err = err;
        r->message = dup_message(message);
    }
    free(message);
}

/* Waits for work. NULL: closing, and nothing is left. */
static struct db_request *take_group(struct db *db)
{
    pthread_mutex_lock(&db->lock);
    while (!db->first && !db->closing)
        pthread_cond_wait(&db->work, &db->lock);
    struct db_request *group = db->first;
    db->first = NULL;
    db->last = &db->first;
    db->stats.queued = 0;
    pthread_mutex_unlock(&db->lock);
    return group;
}

/* Returns whether somebody is waiting already. */
static bool wake_group(struct db *db, struct db_request *group)
{
    pthread_mutex_lock(&db->lock);
    db->stats.commits++;
    for (struct db_request *r = group; r; r = r->next) {
        db->stats.writes++;
        r->done = true;
        pthread_cond_signal(&r->wake);
    }
    bool busy = db->first != NULL;
    pthread_mutex_unlock(&db->lock);
    return busy;
}

static int note_wal_pages(void *arg, sqlite3 *sql, const char *name, int pages)
{
    (void)sql;
    (void)name;
    struct db *db = arg;
    if (pages < db->wal_pages) /* all was copied, and the log has begun again */
        db->checkpoint_at = DB_CHECKPOINT_PAGES;
    db->wal_pages = pages;
    return SQLITE_OK;
}

static void checkpoint(struct db *db, bool busy)
{
    if (db->wal_pages < db->checkpoint_at + (busy ? 3 * DB_CHECKPOINT_PAGES : 0))
        return;
    int rc =
        sqlite3_wal_checkpoint_v2(db->writer->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (rc != SQLITE_OK &&
        rc != SQLITE_BUSY) { /* nothing is lost: it stays in the log, and is tried again */
        conn_fail(db->writer, rc, "checkpoint");
        log_warn("db.checkpoint", "error=\"%s\"", ty_err_message());
    }
    db->checkpoint_at = db->wal_pages + DB_CHECKPOINT_PAGES; /* a reader may hold the log open */
}

static void *writer_main(void *arg)
{
    struct db *db = arg;
    for (struct db_request *group; (group = take_group(db));) {
        run_group(db, group);
        checkpoint(db, wake_group(db, group));
    }
    return NULL;
}

ty_err writer_start(struct db *db)
{
    db->checkpoint_at = DB_CHECKPOINT_PAGES;
    sqlite3_wal_hook(db->writer->sql, note_wal_pages, db);

    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, DB_WRITER_STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are main's */
    int os = pthread_create(&db->thread, &attr, writer_main, db);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (os != 0)
        return ty_fail_errno(os, "cannot start the writer of '%s'", db->writer->path);
    db->thread_runs = true;
    return TY_OK;
}

void writer_stop(struct db *db)
{
    if (!db->thread_runs)
        return;
    pthread_mutex_lock(&db->lock);
    db->closing = true;
    pthread_cond_signal(&db->work);
    pthread_mutex_unlock(&db->lock);
    pthread_join(db->thread, NULL);
    db->thread_runs = false;
}

ty_err db_write(struct db *db, db_fn fn, void *arg)
{
    ty_assert(!pthread_equal(pthread_self(), db->thread)); /* it would wait for itself */
    struct db_request r = {.fn = fn, .arg = arg, .wake = PTHREAD_COND_INITIALIZER};

    pthread_mutex_lock(&db->lock);
    ty_assert(!db->closing);
    if (!db->first)
        pthread_cond_signal(&db->work);
    *db->last = &r;
    db->last = &r.next;
    db->stats.queued++;
    while (!r.done)
        pthread_cond_wait(&r.wake, &db->lock);
    pthread_mutex_unlock(&db->lock);

    pthread_cond_destroy(&r.wake);
    if (r.err != TY_OK)
        r.err = ty_fail(r.err, "%s", r.message);
    free(r.message);
    return r.err;
}
