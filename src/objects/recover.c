/* recover.c -- what a start does before anybody calls.
 *
 * What no row names goes: staged files, bytes of buckets that are gone, empty folders of theirs.
 * Renames and removals whose commit was made and whose file was not moved are done (settle). A
 * folder of buckets/ that has files and no row is somebody else's: it is left alone, and said. */
#include "objects/objects_int.h"

#include <dirent.h>

struct ask {
    const char *sql; /* does a row name ?1 */
    ty_str name;
    bool found;
};

static ty_err ask_fn(struct db_conn *c, void *arg)
{
    struct ask *x = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(c, x->sql, &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->name);
    return db_step(s, &x->found);
}

/* Call `stray` for each entry of `fd` that no row names. */
static ty_err each_stray(struct objects *o, int folder, const char *sql,
                         void (*stray)(struct objects *o, const char *name))
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot look for strays");
    DIR *dir = fdopendir(fd);
    ty_assert(dir);
    ty_err err = TY_OK;
    struct dirent *entry;
    while (err == TY_OK && (entry = readdir(dir))) {
        struct ask x = {.sql = sql, .name = ty_str_of(entry->d_name)};
        if (ty_str_is(x.name, ".") || ty_str_is(x.name, ".."))
            continue;
        err = db_read(o->db, ask_fn, &x);
        if (err == TY_OK && !x.found)
            stray(o, entry->d_name);
    }
    closedir(dir);
    return err;
}

static void drop_staged(struct objects *o, const char *name)
{
    int err_no = file_remove(o->staging_fd, name);
    log_info("objects.stray", "stage=%s error=\"%s\"", name, err_no ? strerror(err_no) : "");
}

static void drop_odd(struct objects *o, const char *name)
{
    if (ty_remove_tree(o->odd_fd, name) != TY_OK)
        log_warn("objects.stray", "error=\"%s\"", ty_err_message());
}

static void drop_folder(struct objects *o, const char *name)
{
    folders_remove(o->buckets_fd, name);
}

struct names {
    struct objects *o;
    struct ty_arena arena;
};

static ty_err make_folders_fn(struct db_conn *c, void *arg)
{
    struct names *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT name FROM bucket", &s);
    while (err == TY_OK && (err = db_step(s, &row)) == TY_OK && row) {
        const char *name = ty_cstr(&x->arena, db_column_str(s, 0));
        if (mkdirat(x->o->buckets_fd, name, 0700) != 0 && errno != EEXIST)
            log_warn("objects.bucket", "bucket=%s error=\"%s\"", name, strerror(errno));
    }
    return err;
}

ty_err recover(struct objects *o)
{
    /* First, because a stray can be a second link to a row's file, whose ctime settling writes
     * down. */
    ty_err err = each_stray(o, o->staging_fd,
                            "SELECT 1 FROM object WHERE stage = ?1 AND stage <> '' UNION ALL "
                            "SELECT 1 FROM old WHERE stage = ?1 AND stage <> '' UNION ALL "
                            "SELECT 1 FROM session WHERE id = ?1 AND done = 0",
                            drop_staged);
    if (err == TY_OK && settle(o) != TY_OK)
        /* a full disk: what is there can be read, and the thread goes on trying */
        log_warn("objects.recover", "error=\"%s\"", ty_err_message());
    if (err == TY_OK)
        err = each_stray(o, o->odd_fd, "SELECT 1 FROM bucket WHERE name = ?1", drop_odd);
    if (err == TY_OK)
        err = each_stray(o, o->buckets_fd, "SELECT 1 FROM bucket WHERE name = ?1", drop_folder);
    struct names x = {.o = o};
    if (err == TY_OK)
        err = db_read(o->db, make_folders_fn, &x);
    ty_arena_clear(&x.arena);
    return err;
}
