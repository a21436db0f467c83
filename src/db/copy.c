/* copy.c -- a database from outside: another process may be its server, or nobody.
 *
 * Both open a reader's connection of their own, which SQLite allows beside the one writer, and see
 * one moment of the file. After a crash the first of them replays the log, as a server would. */
#include "db/db_int.h"

static ty_err copy_pages(struct db_conn *from, struct db_conn *to)
{
    sqlite3_backup *work = sqlite3_backup_init(to->sql, "main", from->sql, "main");
    if (!work)
        return conn_fail(to, sqlite3_errcode(to->sql), "copy into");
    int rc =
        sqlite3_backup_step(work, -1); /* all at once: in parts, each commit would begin anew */
    if (rc == SQLITE_DONE)
        rc = SQLITE_OK;
    int ended = sqlite3_backup_finish(work);
    if (rc == SQLITE_OK)
        rc = ended;
    return rc == SQLITE_OK ? TY_OK : conn_fail(to, rc, "copy into");
}

ty_err db_copy(const char *from, const char *to)
{
    struct db_conn *source = NULL;
    struct db_conn target = {.path = (char *)(uintptr_t)to};
    ty_err err = conn_open(from, false, &source);
    if (err != TY_OK)
        return err;
    int fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* bodies may hold secrets */
    if (fd < 0)
        err = ty_fail_errno(errno, "cannot create '%s'", to);
    else
        close(fd);
    if (err == TY_OK && sqlite3_open_v2(to, &target.sql, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        err = conn_fail(&target, sqlite3_errcode(target.sql), "open");
    if (err == TY_OK)
        err = copy_pages(source, &target);
    sqlite3_close(target.sql);
    conn_close(source);
    return err;
}

ty_err db_peek(const char *path, db_fn fn, void *arg)
{
    struct db_conn *c = NULL;
    ty_err err = conn_open(path, false, &c);
    if (err != TY_OK)
        return err;
    err = conn_exec(c, "BEGIN");
    if (err == TY_OK)
        err = fn(c, arg);
    conn_rollback(c);
    conn_close(c);
    return err;
}
