/* conn.c -- one SQLite connection: its settings, its statement cache, its errors.
 *
 * Connections are opened without SQLite's own mutex because each belongs to one thread at a time
 * anyway. Statements are found by their text: there are a few dozen, all constants of the program,
 * so a linear search costs less than a hash. */
#include "db/db_int.h"

/* What people can act on has its own code; the rest is ours to look into. */
static ty_err code_of(sqlite3 *sql, int rc)
{
    int os = sql ? sqlite3_system_errno(sql) : 0;
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return TY_RESOURCE_EXHAUSTED;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return os == ENOSPC || os == EDQUOT ? TY_RESOURCE_EXHAUSTED : TY_INTERNAL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return TY_DATA_LOSS;
    case SQLITE_BUSY:
        return TY_UNAVAILABLE;
    case SQLITE_CONSTRAINT:
        return rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_UNIQUE
                   ? TY_ALREADY_EXISTS
                   : TY_INTERNAL;
    default:
        return TY_INTERNAL;
    }
}

ty_err conn_fail(struct db_conn *c, int rc, const char *doing)
{
    ty_err code = code_of(c->sql, rc);
    const char *why = c->sql ? sqlite3_errmsg(c->sql) : sqlite3_errstr(rc);
    return ty_fail(code, "%scannot %s '%s': %s", code == TY_RESOURCE_EXHAUSTED ? "disk full: " : "",
                   doing, c->path, why);
}

static ty_err set_up(struct db_conn *c, bool writer)
{
    char pragmas[256];
    snprintf(pragmas, sizeof(pragmas),
             "PRAGMA cache_size=-%d; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;%s",
             writer ? DB_WRITER_CACHE_KIB : DB_READER_CACHE_KIB,
             writer ? "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
                    : "PRAGMA query_only=ON;");
    sqlite3_extended_result_codes(c->sql, 1);
    sqlite3_busy_timeout(c->sql, DB_BUSY_MS);
    int rc = sqlite3_exec(c->sql, pragmas, NULL, NULL, NULL);
    return rc == SQLITE_OK ? TY_OK : conn_fail(c, rc, "set up");
}

/* Memory counters would put one global lock around every allocation. */
static void configure(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

ty_err conn_open(const char *path, bool writer, struct db_conn **ret_conn)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, configure);

    struct db_conn *c = calloc(1, sizeof(*c));
    ty_assert(c);
    c->path = strdup(path);
    ty_assert(c->path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (writer ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(path, &c->sql, flags, NULL);
    ty_err err = rc == SQLITE_OK ? set_up(c, writer) : conn_fail(c, rc, "open");
    if (err != TY_OK) {
        conn_close(c);
        return err;
    }
    *ret_conn = c;
    return TY_OK;
}

void conn_close(struct db_conn *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->stmt_count; i++)
        sqlite3_finalize(c->stmts[i].sql);
    int rc = sqlite3_close(c->sql);
    ty_assert(rc == SQLITE_OK); /* a statement that is not in the cache would be our bug */
    free(c->path);
    free(c);
}

/* ---- statements ---- */

ty_err db_prepare(struct db_conn *c, const char *sql, struct db_stmt **ret_stmt)
{
    struct db_stmt *s = NULL;
    for (size_t i = 0; i < c->stmt_count && !s; i++)
        if (strcmp(sqlite3_sql(c->stmts[i].sql), sql) == 0)
            s = &c->stmts[i];
    if (s) {
        sqlite3_reset(s->sql);
        sqlite3_clear_bindings(s->sql);
    } else {
        if (c->stmt_count == DB_STMT_LIMIT)
            return ty_fail(TY_INTERNAL, "more than %d different statements: '%s'", DB_STMT_LIMIT,
                           sql);
        s = &c->stmts[c->stmt_count];
        int rc = sqlite3_prepare_v3(c->sql, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->sql, NULL);
        if (rc != SQLITE_OK) {
            *s = (struct db_stmt){0};
            return ty_wrap(conn_fail(c, rc, "prepare for"), "'%s'", sql);
        }
        s->conn = c;
        c->stmt_count++;
    }
    s->bind_rc = SQLITE_OK;
    s->used = true;
    *ret_stmt = s;
    return TY_OK;
}

static void note_bind(struct db_stmt *s, int rc)
{
    if (s->bind_rc == SQLITE_OK)
        s->bind_rc = rc;
}

void db_bind_i64(struct db_stmt *s, int n, int64_t value)
{
    note_bind(s, sqlite3_bind_int64(s->sql, n, value));
}

void db_bind_str(struct db_stmt *s, int n, ty_str value)
{
    const char *ptr = value.ptr ? value.ptr : ""; /* NULL would bind SQL's NULL */
    note_bind(s, sqlite3_bind_text64(s->sql, n, ptr, value.len, SQLITE_STATIC, SQLITE_UTF8));
}

void db_bind_null(struct db_stmt *s, int n)
{
    note_bind(s, sqlite3_bind_null(s->sql, n));
}

ty_err db_step(struct db_stmt *s, bool *ret_row)
{
    if (s->bind_rc != SQLITE_OK)
        return ty_fail(TY_INTERNAL, "cannot bind a value: %s: '%s'", sqlite3_errstr(s->bind_rc),
                       sqlite3_sql(s->sql));
    int rc = sqlite3_step(s->sql);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return conn_fail(s->conn, rc, "use");
    *ret_row = rc == SQLITE_ROW;
    return TY_OK;
}

ty_err db_run(struct db_stmt *s)
{
    bool row = false;
    ty_err err = db_step(s, &row);
    if (err == TY_OK && row)
        err = ty_fail(TY_INTERNAL, "unexpected row: '%s'", sqlite3_sql(s->sql));
    return err;
}

int64_t db_column_i64(struct db_stmt *s, int n)
{
    return sqlite3_column_int64(s->sql, n);
}

ty_str db_column_str(struct db_stmt *s, int n)
{
    const char *ptr = (const char *)sqlite3_column_text(s->sql, n); /* before _bytes: it converts */
    if (!ptr)
        return TY_STR("");
    return (ty_str){ptr, (size_t)sqlite3_column_bytes(s->sql, n)};
}

bool db_column_null(struct db_stmt *s, int n)
{
    return sqlite3_column_type(s->sql, n) == SQLITE_NULL;
}

int64_t db_changes(struct db_conn *c)
{
    return sqlite3_changes64(c->sql);
}

/* ---- transactions ---- */

void conn_reset(struct db_conn *c)
{
    for (size_t i = 0; i < c->stmt_count; i++) {
        struct db_stmt *s = &c->stmts[i];
        if (!s->used)
            continue;
        sqlite3_reset(s->sql);
        sqlite3_clear_bindings(s->sql);
        s->used = false;
    }
}

ty_err conn_exec(struct db_conn *c, const char *sql)
{
    struct db_stmt *s;
    ty_err err = db_prepare(c, sql, &s);
    if (err == TY_OK)
        err = db_run(s);
    if (err == TY_OK)
        sqlite3_reset(s->sql);
    return err;
}

ty_err conn_commit(struct db_conn *c)
{
    int os = ty_seam_step(TY_OP_COMMIT);
    ty_err err;
    if (os == ENOSPC || os == EDQUOT)
        err = ty_fail(TY_RESOURCE_EXHAUSTED, "disk full: cannot commit to '%s': %s", c->path,
                      strerror(os));
    else if (os != 0)
        err = ty_fail(TY_INTERNAL, "cannot commit to '%s': %s", c->path, strerror(os));
    else
        err = conn_exec(c, "COMMIT");
    if (err != TY_OK)
        conn_rollback(c);
    return err;
}

void conn_rollback(struct db_conn *c)
{
    conn_reset(c); /* a statement that failed keeps its error, and its locks, until it is reset */
    struct db_stmt *s;
    if (!sqlite3_get_autocommit(c->sql) && db_prepare(c, "ROLLBACK", &s) == TY_OK)
        sqlite3_step(s->sql); /* fails only when nothing is left to undo */
    conn_reset(c);
}
