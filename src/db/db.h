/* db.h -- one SQLite file: a writer thread with group commit, readers on their own connections.
 *
 * Where to start: db_open, then db_write with a closure, db_read with a closure.
 * Who frees: db_close. Statements are cached by their SQL text for the connection's life: SQL is a
 * constant, values are bound. Threads: db_write and db_read may be called from any thread; closures
 * of db_write run on the writer thread, several to a transaction (each in its own savepoint), and
 * must not block; closures of db_read run on the calling thread with a connection borrowed for the
 * call, and see one moment of the file. Closures do not call db_write or db_read. Errors: what the
 * closure returned, or the file's own: TY_RESOURCE_EXHAUSTED "disk full: ...", TY_DATA_LOSS
 * (damaged, or no database), TY_UNAVAILABLE (another program holds the file), TY_ALREADY_EXISTS (a
 * unique key is taken), else TY_INTERNAL. On any error nothing of that closure is in the file. (A
 * disk that fails the sync itself, EIO, is the one exception: if the machine stops before the next
 * commit, such a closure may be found done.) One test: build/test_db
 * writer/failed_closure_leaves_nothing. */
#ifndef TY_DB_H
#define TY_DB_H

#include "base/base.h"

struct db;
struct db_conn; /* a connection inside a closure; never kept after it */
struct db_stmt; /* borrowed from the connection's cache; never kept after the closure */

typedef ty_err (*db_fn)(struct db_conn *c, void *arg);

/* Open or create `path` (WAL, synchronous=FULL). `migrations` is a NULL-ended list of SQL scripts;
 * the file's user_version says how many have run. A file that is newer than the list:
 * TY_FAILED_PRECONDITION. */
TY_NODISCARD ty_err db_open(const char *path, const char *const *migrations, struct db **ret_db);
void db_close(struct db *db); /* nobody may be inside a call. NULL is fine */

/* Run fn in a transaction and return when it is on disk. The message of a failure is the caller's.
 */
TY_NODISCARD ty_err db_write(struct db *db, db_fn fn, void *arg);
/* Run fn with a reader connection: it sees every write that has returned. */
TY_NODISCARD ty_err db_read(struct db *db, db_fn fn, void *arg);

/* A number that stays the same while the file does: what a db_read begun after it was taken has
 * seen holds for as long as it has not changed. Odd: a commit is under way, and nothing can be
 * said. No I/O, no lock. */
uint64_t db_epoch(const struct db *db);

/* ---- a file that another process may be serving; any process, any thread (copy.c) ---- */

/* A copy of one moment of `from` as a new file `to` (0600), whoever writes to `from` meanwhile. */
TY_NODISCARD ty_err db_copy(const char *from, const char *to);
/* Run fn with a reader connection made for this one call. */
TY_NODISCARD ty_err db_peek(const char *path, db_fn fn, void *arg);

/* Prepare (or take from the cache), reset, ready for binding. Parameters are numbered from 1. */
TY_NODISCARD ty_err db_prepare(struct db_conn *c, const char *sql, struct db_stmt **ret_stmt);
void db_bind_i64(struct db_stmt *s, int n, int64_t value);
void db_bind_str(struct db_stmt *s, int n,
                 ty_str value); /* borrowed until the next prepare of it */
void db_bind_null(struct db_stmt *s, int n);
/* *ret_row: there is a row. Columns are numbered from 0 and valid until the next step. */
TY_NODISCARD ty_err db_step(struct db_stmt *s, bool *ret_row);
/* Step once, expecting no row. */
TY_NODISCARD ty_err db_run(struct db_stmt *s);
int64_t db_column_i64(struct db_stmt *s, int n);
ty_str db_column_str(struct db_stmt *s, int n); /* NULL gives an empty string */
bool db_column_null(struct db_stmt *s, int n);
int64_t db_changes(struct db_conn *c); /* rows changed by the last statement */

struct db_stats {
    uint64_t writes, commits; /* closures run, transactions they shared */
    uint64_t queued;          /* closures waiting for the next group */
};
void db_stats(struct db *db, struct db_stats *ret_stats);

#endif
