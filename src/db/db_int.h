/* db_int.h -- a connection with its statement cache, and how db.c and writer.c share it. */
#ifndef TY_DB_INT_H
#define TY_DB_INT_H

#include "db/db.h"

#include <pthread.h>
#include <sqlite3.h>

enum {
    DB_STMT_LIMIT = 128, /* SQL texts are constants of the program: more is a bug, not load */
    DB_READER_LIMIT = 8,
    DB_BUSY_MS = 5000,          /* only another program (a sqlite3 shell) can hold a lock */
    DB_WRITER_CACHE_KIB = 2000, /* small: all of an idle server fits in 30 MB */
    DB_READER_CACHE_KIB = 512,
    DB_CHECKPOINT_PAGES = 1000, /* 4 MB of log */
    DB_WRITER_STACK_BYTES = 256 * 1024,
};

struct db_stmt {
    sqlite3_stmt *sql;
    struct db_conn *conn;
    int bind_rc; /* first failed bind since the prepare; reported by db_step */
    bool used;   /* since the closure began: conn_reset has to look at it */
};

/* One thread at a time: the writer's own, or the borrower of a reader. */
struct db_conn {
    sqlite3 *sql;
    char *path;
    struct db_stmt stmts[DB_STMT_LIMIT];
    size_t stmt_count;
};

/* One db_write, on its caller's stack. The caller leaves only after `done`, set under db.lock. */
struct db_request {
    db_fn fn;
    void *arg;
    ty_err err;
    char *message; /* malloc'd when err is not TY_OK */
    bool done;
    pthread_cond_t wake;
    struct db_request *next;
};

struct db {
    struct db_conn *writer; /* the writer thread's, once that runs */
    pthread_t thread;
    bool thread_runs;
    int wal_pages, checkpoint_at; /* the writer thread's */
    _Atomic uint64_t epoch;       /* odd during a commit */

    pthread_mutex_t lock; /* everything below; never held across I/O */
    pthread_cond_t work;
    struct db_request *first, **last;
    bool closing;
    struct db_stats stats;

    pthread_cond_t reader_free;
    struct db_conn *readers[DB_READER_LIMIT]; /* the idle ones, newest last */
    size_t readers_idle, readers_open;
};

/* conn.c */
TY_NODISCARD ty_err conn_open(const char *path, bool writer, struct db_conn **ret_conn);
void conn_close(struct db_conn *c); /* NULL is fine */
/* ty_fail with the code that fits SQLite's `rc`. */
ty_err conn_fail(struct db_conn *c, int rc, const char *doing);
/* Give the closure's statements back: no read stays open, no borrowed bytes stay bound. */
void conn_reset(struct db_conn *c);
TY_NODISCARD ty_err conn_exec(struct db_conn *c,
                              const char *sql); /* one cached statement without rows */
/* COMMIT, as one step of the seam. On failure the transaction is rolled back. */
TY_NODISCARD ty_err conn_commit(struct db_conn *c);
void conn_rollback(struct db_conn *c); /* fine when SQLite has already done it */

/* writer.c */
TY_NODISCARD ty_err writer_start(struct db *db);
void writer_stop(struct db *db); /* finishes what is queued */

#endif
