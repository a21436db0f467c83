/* copy.c -- a copy of the rows, for a backup, and rows whose files were copied, by restoring one.
 *
 * A copied file has another inode and other times than its row says, so it would be taken for one
 * that somebody else wrote. Where its size and the second of its mtime, which a backup keeps, are
 * the row's, the row is told what the file is called now. What is not found, or differs, was
 * changed while the backup was taken: that is left to the usual look at the disk. */
#include "objects/objects_int.h"

ty_err objects_rows_copy(const char *data_dir, const char *to_dir)
{
    struct ty_arena a = {0};
    const char *from = ty_format(&a, "%s/objects.db", data_dir);
    ty_err err = TY_OK;
    if (access(from, F_OK) == 0)
        err = db_copy(from, ty_format(&a, "%s/objects.db", to_dir));
    ty_arena_clear(&a);
    return err;
}

/* ---- restored files ---- */

struct copied {
    struct row row;
    ty_str bucket;
    int64_t id;     /* of a removal */
    bool any_size;  /* a removal does not know it */
    struct stat st; /* of its file */
};

static bool is_it(struct copied *x, int root, const char *path)
{
    return file_stat(root, path, &x->st) == 0 && S_ISREG(x->st.st_mode) &&
           (x->any_size || x->st.st_size == x->row.object.size) &&
           x->st.st_mtim.tv_sec == x->row.object.mtime_ns / 1000000000;
}

/* In staging/, at its nice place, at its odd one: where it was on its way to. */
static bool find_file(const struct objects *o, struct copied *x)
{
    char path[PATH_BYTES];
    const struct row *row = &x->row;
    if (row->stage.len == STAGE_BYTES - 1) {
        snprintf(path, sizeof path, TY_STR_FMT, TY_STR_ARG(row->stage));
        if (is_it(x, o->staging_fd, path))
            return true;
    }
    if ((row->place == PLACE_NICE || row->stage.len > 0) &&
        nice_path(o, x->bucket, row->object.name, path) && is_it(x, o->buckets_fd, path))
        return true;
    odd_path(x->bucket, row->object.name, row->object.generation, path);
    return row->place == PLACE_ODD && is_it(x, o->odd_fd, path);
}

static ty_err tell_row(struct db_conn *c, const char *sql, const struct copied *x)
{
    struct db_stmt *s;
    struct seen seen;
    ty_err err = db_prepare(c, sql, &s);
    if (err != TY_OK)
        return err;
    seen_of(&x->st, &seen);
    db_bind_i64(s, 1, seen.ino);
    db_bind_i64(s, 2, seen.mtime_ns);
    if (x->id) {
        db_bind_i64(s, 3, x->id);
        return db_run(s);
    }
    db_bind_i64(s, 3, x->row.stage.len == 0 && x->row.place == PLACE_NICE ? seen.ctime_ns : 0);
    db_bind_i64(s, 4, x->row.bucket_id);
    db_bind_str(s, 5, x->row.object.name);
    db_bind_i64(s, 6, x->row.object.generation);
    return db_run(s);
}

#define COPIED(table)                                                                              \
    "SELECT bucket.name, t.bucket, t.name, t.generation, t.size, t.mtime_ns, t.place, t.stage, 0 " \
    "FROM " table " t JOIN bucket ON bucket.id = t.bucket"
#define TELL(table)                                                                                \
    "UPDATE " table " SET ino = ?1, mtime_ns = ?2, ctime_ns = ?3"                                  \
    " WHERE bucket = ?4 AND name = ?5 AND generation = ?6"
static const struct {
    const char *read, *write;
    bool any_size;
} tables[] = {
    {COPIED("object"), TELL("object"), false},
    {COPIED("old"), TELL("old"), false},
    {"SELECT bucket, 0, name, generation, 0, mtime_ns, place, stage, id FROM removal",
     "UPDATE removal SET ino = ?1, mtime_ns = ?2 WHERE id = ?3", true},
};

static ty_err copied_fn(struct db_conn *c, void *arg)
{
    const struct objects *o = arg;
    ty_err err = TY_OK;
    for (size_t i = 0; err == TY_OK && i < TY_COUNT(tables); i++) {
        struct db_stmt *s;
        bool row = false;
        err = db_prepare(c, tables[i].read, &s);
        while (err == TY_OK && (err = db_step(s, &row)) == TY_OK && row) {
            struct copied x = {.bucket = db_column_str(s, 0),
                               .row = {.bucket_id = db_column_i64(s, 1),
                                       .object = {.name = db_column_str(s, 2),
                                                  .generation = db_column_i64(s, 3),
                                                  .size = db_column_i64(s, 4),
                                                  .mtime_ns = db_column_i64(s, 5)},
                                       .place = (enum place)db_column_i64(s, 6),
                                       .stage = db_column_str(s, 7)},
                               .id = db_column_i64(s, 8),
                               .any_size = tables[i].any_size};
            if (find_file(o, &x))
                err = tell_row(c, tables[i].write, &x);
        }
    }
    return err;
}

ty_err objects_restored(const char *data_dir)
{
    struct ty_arena a = {0};
    struct objects *o = NULL;
    bool there = access(ty_format(&a, "%s/objects.db", data_dir), F_OK) == 0;
    ty_err err = there ? objects_attach(data_dir, &o) : TY_OK;
    if (err == TY_OK && there)
        err = db_write(o->db, copied_fn, o);
    char *message = err ? ty_err_take() : NULL;
    objects_close(o);
    ty_arena_clear(&a);
    if (err != TY_OK)
        err = ty_fail(err, "%s", message);
    free(message);
    return err;
}
