/* folder.c -- finding files that were made behind our back.
 *
 * Each folder of a bucket has a row with the mtime it had when it was last read through. A folder's
 * mtime changes when an entry comes or goes (our own renames change it too, so what we wrote is
 * read through once more; the names are known then, and that is cheap). Only folders whose mtime
 * differs are read. An mtime younger than FRESH_NS is not believed: another entry could come in the
 * same tick of the kernel's clock.
 *
 * Names that are gone are not found here but where they are asked for: each listed row is held
 * against its file. */
#include "objects/objects_int.h"

#include <dirent.h>

enum {
    ENTRY_BATCH = 512,
    FOLDER_BATCH = 16, /* few: what is found in them may fill the page already */
    FOLDER_NAMES =
        2 * OBJECTS_PAGE, /* new names after which a page is read again, and is shorter */
    FOLDER_DEPTH = 200,
    FOLDER_UNREAD = 0, /* for mtime_ns: found, and not yet read */
    FOLDER_YOUNG = -1, /* read, but an entry could still come in the same tick */
};

/* Entries of one batch: names in the bucket, folders with a slash at the end. */
struct batch {
    struct objects *o;
    ty_str bucket;
    int64_t bucket_id;
    struct ty_arena arena;
    ty_str names[ENTRY_BATCH];
    struct seen seen[ENTRY_BATCH];
    bool known[ENTRY_BATCH];
    size_t count;
    /* the folder itself, once all of it was read: */
    bool last;
    ty_str path;
    int64_t mtime_ns;
};

static ty_err folder_put(struct db_conn *c, int64_t bucket_id, ty_str path, int64_t mtime_ns,
                         bool replace)
{
    struct db_stmt *s;
    ty_err err = db_prepare(c,
                            replace ? "INSERT OR REPLACE INTO folder VALUES (?1, ?2, ?3)"
                                    : "INSERT OR IGNORE INTO folder VALUES (?1, ?2, ?3)",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, bucket_id);
    db_bind_str(s, 2, path);
    db_bind_i64(s, 3, mtime_ns);
    return db_run(s);
}

static ty_err known_fn(struct db_conn *c, void *arg)
{
    struct batch *x = arg;
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->count && err == TY_OK; i++) {
        struct db_stmt *s;
        bool folder = ty_str_ends(x->names[i], TY_STR("/"));
        err = db_prepare(c,
                         folder ? "SELECT 1 FROM folder WHERE bucket = ?1 AND path = ?2"
                                : "SELECT 1 FROM object WHERE bucket = ?1 AND name = ?2",
                         &s);
        if (err != TY_OK)
            return err;
        db_bind_i64(s, 1, x->bucket_id);
        db_bind_str(s, 2, x->names[i]);
        err = db_step(s, &x->known[i]);
    }
    return err;
}

/* New names get rows; an object that came meanwhile stays as it is. */
static ty_err adopt_fn(struct db_conn *c, void *arg)
{
    struct batch *x = arg;
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->count && err == TY_OK; i++) {
        struct row row;
        bool found = false;
        if (x->known[i])
            continue;
        if (ty_str_ends(x->names[i], TY_STR("/"))) {
            err = folder_put(c, x->bucket_id, x->names[i], FOLDER_UNREAD, false);
            continue;
        }
        err = row_find_live(c, &x->arena, x->bucket_id, x->names[i], &row, &found);
        if (err == TY_OK && !found)
            err = row_follow(c, x->o, x->bucket_id, x->names[i], &x->seen[i], &row, &found);
    }
    if (err == TY_OK && x->last)
        err = folder_put(c, x->bucket_id, x->path, x->mtime_ns, true);
    return err;
}

/* A new file's name is claimed while it is adopted: an upload may be putting it there just now. */
static ty_err adopt_claimed(struct batch *x)
{
    uint64_t claims[ENTRY_BATCH];
    size_t count = 0;
    struct viewer viewer = {.o = x->o, .bucket = x->bucket, .dir = -1};
    for (size_t i = 0; i < x->count; i++) {
        if (x->known[i] || ty_str_ends(x->names[i], TY_STR("/")))
            continue;
        uint64_t claim = name_hash(x->bucket, x->names[i]);
        x->known[i] =
            !claim_try(x->o, claim); /* somebody is at it: the folder is looked at again */
        if (x->known[i]) {
            x->mtime_ns = FOLDER_YOUNG;
            continue;
        }
        claims[count++] = claim;
        x->seen[i] = viewer_see(&viewer, x->names[i]);
    }
    viewer_end(&viewer);
    ty_err err = write_freeing(x->o, adopt_fn, x);
    while (count > 0)
        claim_release(x->o, claims[--count], 0);
    return err;
}

static ty_err batch_flush(struct batch *x, bool last)
{
    bool news = last;
    x->last = last;
    ty_err err = x->count > 0 ? db_read(x->o->db, known_fn, x) : TY_OK;
    for (size_t i = 0; i < x->count && !news; i++)
        news = !x->known[i];
    if (err == TY_OK && news)
        err = adopt_claimed(x);
    x->count = 0;
    ty_arena_clear(&x->arena);
    return err;
}

/* A regular file or folder whose name can be an object's. */
static void batch_add(struct batch *x, int dir, ty_str path, const struct dirent *entry)
{
    struct stat st;
    unsigned char type = entry->d_type;
    if (type == DT_UNKNOWN && fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        type = S_ISREG(st.st_mode) ? DT_REG : S_ISDIR(st.st_mode) ? DT_DIR : DT_UNKNOWN;
    if ((type != DT_REG && type != DT_DIR) || ty_str_is(TY_STR("."), entry->d_name) ||
        ty_str_is(TY_STR(".."), entry->d_name))
        return;
    ty_str name = ty_str_of(ty_format(&x->arena, TY_STR_FMT "%s%s", TY_STR_ARG(path), entry->d_name,
                                      type == DT_DIR ? "/" : ""));
    bool folder;
    if (objects_name_check(name) != TY_OK || !name_is_nice(x->o, x->bucket, name, &folder))
        return;
    x->known[x->count] = false;
    x->names[x->count++] = name;
}

/* ENOENT is fine: the folder's row goes. */
static ty_err folder_gone_fn(struct db_conn *c, void *arg)
{
    struct batch *x = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(c, "DELETE FROM folder WHERE bucket = ?1 AND path = ?2", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->bucket_id);
    db_bind_str(s, 2, x->path);
    return db_run(s);
}

static int folder_open(struct objects *o, ty_str bucket, ty_str path, int *ret_fd)
{
    char full[PATH_BYTES];
    snprintf(full, sizeof full, TY_STR_FMT "/" TY_STR_FMT, TY_STR_ARG(bucket), TY_STR_ARG(path));
    return file_open(o->buckets_fd, full, O_RDONLY | O_DIRECTORY, 0, ret_fd);
}

static ty_err folder_read(struct objects *o, ty_str bucket, int64_t bucket_id, ty_str path)
{
    struct batch *x = calloc(1, sizeof *x);
    ty_assert(x);
    x->o = o;
    x->bucket = bucket;
    x->bucket_id = bucket_id;
    x->path = path;
    ty_err err = TY_OK;
    int fd, err_no = folder_open(o, bucket, path, &fd);
    if (err_no != 0) {
        if (err_no != ENOENT && err_no != ENOTDIR && err_no != ELOOP)
            err = ty_fail_errno(err_no, "cannot look into a folder of a bucket");
        else if (path.len > 0)
            err = write_freeing(o, folder_gone_fn, x);
        free(x);
        return err;
    }
    struct stat st;
    struct seen seen = {0};
    if (fstat(fd, &st) == 0)
        seen_of(&st, &seen);
    int64_t age_ns = ty_now_ns() - seen.mtime_ns;
    x->mtime_ns = age_ns >= 0 && age_ns < FRESH_NS ? FOLDER_YOUNG : seen.mtime_ns;
    DIR *dir = fdopendir(fd);
    ty_assert(dir);
    struct dirent *entry;
    while (err == TY_OK && (entry = readdir(dir))) {
        batch_add(x, fd, path, entry);
        if (x->count == ENTRY_BATCH)
            err = batch_flush(x, false);
    }
    if (err == TY_OK)
        err = batch_flush(x, true);
    closedir(dir);
    ty_arena_clear(&x->arena);
    free(x);
    return err;
}

/* ---- which folders ---- */

enum which { FOLDERS_ALL, FOLDERS_UNSURE, FOLDERS_UNREAD };
struct pick {
    struct ty_arena arena;
    int64_t bucket_id;
    ty_str from, below;
    enum which which;
    ty_str paths[FOLDER_BATCH];
    int64_t mtimes[FOLDER_BATCH];
    size_t count;
};

static ty_err pick_fn(struct db_conn *c, void *arg)
{
    struct pick *x = arg;
    static const char *const sql[] = {
        [FOLDERS_ALL] =
            "SELECT path, mtime_ns FROM folder WHERE bucket = ?1 AND path > ?2 AND path "
            "< ?3 ORDER BY path LIMIT ?4",
        [FOLDERS_UNSURE] = "SELECT path, mtime_ns FROM folder WHERE bucket = ?1 AND path > ?2 AND "
                           "path < ?3 AND mtime_ns <= 0 ORDER BY path LIMIT ?4",
        [FOLDERS_UNREAD] = "SELECT path, mtime_ns FROM folder WHERE bucket = ?1 AND path > ?2 AND "
                           "path < ?3 AND mtime_ns = 0 ORDER BY path LIMIT ?4",
    };
    struct db_stmt *s;
    bool row = false;
    x->count = 0;
    ty_err err = db_prepare(c, sql[x->which], &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->bucket_id);
    db_bind_str(s, 2, x->from);
    db_bind_str(s, 3, x->below);
    db_bind_i64(s, 4, FOLDER_BATCH);
    while ((err = db_step(s, &row)) == TY_OK && row) {
        x->paths[x->count] = ty_str_dup(&x->arena, db_column_str(s, 0));
        x->mtimes[x->count++] = db_column_i64(s, 1);
    }
    return err;
}

struct recorded {
    int64_t bucket_id;
    ty_str path;
    int64_t mtime_ns;
    bool found;
};

static ty_err recorded_fn(struct db_conn *c, void *arg)
{
    struct recorded *x = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(c, "SELECT mtime_ns FROM folder WHERE bucket = ?1 AND path = ?2", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->bucket_id);
    db_bind_str(s, 2, x->path);
    err = db_step(s, &x->found);
    if (err == TY_OK && x->found)
        x->mtime_ns = db_column_i64(s, 0);
    return err;
}

static ty_err folder_check(struct objects *o, ty_str bucket, int64_t bucket_id, ty_str path,
                           int64_t mtime_ns)
{
    int fd;
    if (mtime_ns > 0 && folder_open(o, bucket, path, &fd) == 0) {
        struct stat st;
        struct seen seen = {0};
        if (fstat(fd, &st) == 0)
            seen_of(&st, &seen);
        close(fd);
        if (seen.mtime_ns == mtime_ns)
            return TY_OK;
    }
    return folder_read(o, bucket, bucket_id, path);
}

/* The folders that hold `name`, from the bucket's own down: "", "a/", "a/b/". */
static ty_err parents_check(struct objects *o, ty_str bucket, int64_t bucket_id, ty_str name)
{
    ty_err err = TY_OK;
    int depth = 0;
    for (size_t i = 0; i <= name.len && err == TY_OK && depth < FOLDER_DEPTH; i++) {
        if (i > 0 && name.ptr[i - 1] != '/')
            continue;
        struct recorded x = {.bucket_id = bucket_id, .path = {name.ptr, i}};
        bool folder;
        depth++;
        if (i > 0 && !name_is_nice(o, bucket, x.path, &folder))
            break;
        err = db_read(o->db, recorded_fn, &x);
        if (err == TY_OK && (i == 0 || x.found)) /* an unknown one comes with its parent */
            err = folder_check(o, bucket, bucket_id, x.path, x.mtime_ns);
    }
    return err;
}

/* Check what `x` picks, from x->from on, batch by batch. `once`: only those never read; reading
 * them ends that. */
static ty_err picked_check(struct objects *o, ty_str bucket, struct pick *x, enum which which)
{
    ty_err err = TY_OK;
    do {
        x->which = which;
        err = db_read(o->db, pick_fn, x);
        for (size_t i = 0; i < x->count && err == TY_OK; i++)
            err = folder_check(o, bucket, x->bucket_id, x->paths[i], x->mtimes[i]);
    } while (err == TY_OK && which == FOLDERS_UNREAD && x->count > 0);
    return err;
}

ty_err folders_check(struct objects *o, ty_str bucket, int64_t bucket_id, ty_str from, ty_str below,
                     bool shallow)
{
    ty_err err = parents_check(o, bucket, bucket_id, from);
    struct pick *x = calloc(1, sizeof *x);
    ty_assert(x);
    char cursor[OBJECTS_NAME_BYTES + 2];
    snprintf(cursor, sizeof cursor, TY_STR_FMT, TY_STR_ARG(from));
    x->bucket_id = bucket_id;
    x->below = below;
    uint64_t before = __atomic_load_n(&o->followed, __ATOMIC_RELAXED), found = 0;
    size_t count = 1;
    while (err == TY_OK && count > 0 && (shallow || found < FOLDER_NAMES)) {
        x->from = ty_str_of(cursor);
        err = picked_check(o, bucket, x, shallow ? FOLDERS_UNSURE : FOLDERS_ALL);
        count = x->count;
        if (err != TY_OK || count == 0)
            break;
        char next[OBJECTS_NAME_BYTES + 2];
        snprintf(next, sizeof next, TY_STR_FMT, TY_STR_ARG(x->paths[count - 1]));
        /* Folders found in these may sort between them; those behind come with the next batch. */
        x->from = from;
        x->below = ty_str_of(next);
        err = picked_check(o, bucket, x, FOLDERS_UNREAD);
        x->below = below;
        ty_arena_clear(&x->arena);
        memcpy(cursor, next, sizeof cursor);
        found = __atomic_load_n(&o->followed, __ATOMIC_RELAXED) - before;
    }
    ty_arena_clear(&x->arena);
    free(x);
    return err;
}

/* ---- a whole bucket ---- */

struct whole {
    struct ty_arena arena;
    ty_str bucket;
    int64_t id;
    bool found;
};

static ty_err whole_fn(struct db_conn *c, void *arg)
{
    struct whole *x = arg;
    struct db_stmt *s;
    ty_err err =
        db_prepare(c, "SELECT id, name FROM bucket WHERE name >= ?1 ORDER BY name LIMIT 1", &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->bucket);
    err = db_step(s, &x->found);
    if (err == TY_OK && x->found) {
        x->id = db_column_i64(s, 0);
        x->bucket = ty_str_dup(&x->arena, db_column_str(s, 1));
    }
    return err;
}

/* Every name of the bucket, page by page: listing is what compares. */
static ty_err names_check(struct objects *o, ty_str bucket, int64_t hash_bytes, uint64_t *unhashed)
{
    struct ty_arena a = {0};
    char token[OBJECTS_TOKEN_BYTES] = "";
    ty_err err;
    do {
        struct object_page page;
        struct object_query query = {
            .bucket = bucket, .token = ty_str_of(token), .hash_bytes = hash_bytes};
        if (scan_stopping(o))
            return ty_fail(TY_CANCELLED, "the buckets are being closed");
        err = objects_list(o, &a, &query, &page);
        for (size_t i = 0; err == TY_OK && i < page.item_count; i++)
            *unhashed += !page.items[i].has_crc32c;
        snprintf(token, sizeof token, TY_STR_FMT,
                 TY_STR_ARG(err == TY_OK ? page.next_token : TY_STR("")));
        ty_arena_clear(&a);
    } while (err == TY_OK && token[0]);
    return err;
}

ty_err buckets_look(struct objects *o, ty_str bucket, int64_t hash_bytes, uint64_t *ret_unhashed)
{
    uint64_t unhashed = 0;
    struct whole x = {.bucket = bucket};
    ty_err err = db_read(o->db, whole_fn, &x);
    if (err == TY_OK && bucket.len > 0 && (!x.found || !ty_str_eq(x.bucket, bucket)))
        err = bucket_explain(o, bucket,
                             ty_fail(TY_NOT_FOUND, "the bucket '" TY_STR_FMT "' does not exist",
                                     TY_STR_ARG(bucket)));
    while (err == TY_OK && x.found) {
        err = names_check(o, x.bucket, hash_bytes, &unhashed);
        if (bucket.len > 0)
            break;
        x.bucket = ty_str_of(ty_format(&x.arena, TY_STR_FMT "!", TY_STR_ARG(x.bucket)));
        if (err == TY_OK)
            err = db_read(o->db, whole_fn, &x);
    }
    ty_arena_clear(&x.arena);
    if (err == TY_OK)
        *ret_unhashed = unhashed;
    return err;
}

ty_err objects_scan(struct objects *o, ty_str bucket)
{
    uint64_t unhashed;
    return buckets_look(o, bucket, 0, &unhashed);
}

void folders_remove(int root, const char *path)
{
    int fd;
    if (file_open(root, path, O_RDONLY | O_DIRECTORY, 0, &fd) != 0)
        return;
    DIR *dir = fdopendir(fd);
    ty_assert(dir);
    struct dirent *entry;
    while ((entry = readdir(dir)))
        if (entry->d_type == DT_DIR && !ty_str_is(TY_STR("."), entry->d_name) &&
            !ty_str_is(TY_STR(".."), entry->d_name))
            folders_remove(fd, entry->d_name);
    closedir(dir);
    int err_no = file_rmdir(root, path);
    if (err_no != 0 && err_no != ENOENT)
        log_warn("objects.folder", "path=\"%s\" error=\"%s\"", path, strerror(err_no));
}
