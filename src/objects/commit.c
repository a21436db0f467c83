/* commit.c -- the moment an object exists, and putting its file where people find it.
 *
 * Before: the bytes are in staging/, synced. The commit inserts the row, which names the staged
 * file; whatever was live is retired in the same commit. After: the old file goes to odd/ or away,
 * the staged one to its place. Nothing after the commit can fail the write: what cannot be done now
 * (a full disk has no room for a folder) is done by settling or by the next start, and until then
 * readers find the bytes in staging/.
 *
 * Two names can want the same place: `a` the file and `a/b` that needs a folder of that name. The
 * folder wins. Who finds a file in the way of a folder moves it to odd/ (shove); who finds a folder
 * in the way of its file takes odd/ itself. The disk decides, in whatever order they come. */
#include "objects/objects_int.h"

/* ---- retiring ---- */

ty_err row_retire(struct db_conn *c, const struct bucket_row *b, ty_str bucket, struct row *row,
                  bool as_version, bool *ret_kept)
{
    ty_err err = row_delete(c, false, row);
    if (err != TY_OK)
        return err;
    *ret_kept = as_version || b->soft_delete_s > 0;
    if (!*ret_kept)
        return removal_insert(c, bucket, row);
    row->object.delete_ns = ty_now_ns();
    row->object.soft_deleted = !as_version;
    if (row->place == PLACE_NICE) {
        row->place = PLACE_ODD;
        if (row->stage.len == 0)
            row->stage = TY_STR("-");
    } else if (row->place == PLACE_DIR) {
        row->place = PLACE_NONE;
    }
    return row_insert(c, true, row);
}

/* ---- the commit ---- */

static ty_err source_check(struct db_conn *c, struct change *x)
{
    struct row now;
    bool found = false;
    const struct row *source = x->source;
    ty_err err = x->source_old ? row_find_old(c, x->arena, source->bucket_id, source->object.name,
                                              source->object.generation, &now, &found)
                               : row_find_live(c, x->arena, source->bucket_id, source->object.name,
                                               &now, &found);
    if (err == TY_OK && (!found || now.object.generation != source->object.generation))
        err = ty_fail(TY_ABORTED, "'" TY_STR_FMT "' was changed meanwhile: try again",
                      TY_STR_ARG(source->object.name));
    return err;
}

static ty_err source_drop(struct db_conn *c, struct change *x, const struct bucket_row *b)
{
    if (!x->source_old)
        return row_retire(c, b, x->bucket, x->source, b->versioning, &x->kept_source);
    ty_err err = row_delete(c, true, x->source);
    return err ? err : removal_insert(c, x->bucket, x->source);
}

static ty_err session_done(struct db_conn *c, struct change *x)
{
    struct db_stmt *s;
    ty_err err =
        db_prepare(c,
                   "UPDATE session SET done = 1, offset = ?2, size = ?2, generation = ?3, "
                   "create_ns = ?4, md5_a = ?5, md5_b = ?6, crc32c = ?7 WHERE id = ?1 AND done = 0",
                   &s);
    if (err != TY_OK)
        return err;
    const struct object *made = &x->row.object;
    int64_t md5_a, md5_b;
    md5_to_ints(made->md5, &md5_a, &md5_b);
    db_bind_str(s, 1, x->session);
    db_bind_i64(s, 2, made->size);
    db_bind_i64(s, 3, made->generation);
    db_bind_i64(s, 4, made->create_ns);
    db_bind_i64(s, 5, md5_a);
    db_bind_i64(s, 6, md5_b);
    db_bind_i64(s, 7, made->crc32c);
    err = db_run(s);
    if (err == TY_OK && db_changes(c) == 0)
        err = ty_fail(TY_NOT_FOUND, "the upload was cancelled or has expired");
    return err;
}

/* A rename over the old file is its removal. */
static bool is_replaced(const struct row *before, const struct row *row)
{
    return before->place == row->place && (row->place == PLACE_NICE || row->place == PLACE_DIR);
}

static ty_err retire_before(struct db_conn *c, struct change *x, const struct bucket_row *b)
{
    if (!b->versioning && b->soft_delete_s == 0 && is_replaced(&x->before, &x->row)) {
        x->kept_before = false;
        return TY_OK; /* the row is replaced as well */
    }
    return row_retire(c, b, x->bucket, &x->before, b->versioning, &x->kept_before);
}

static ty_err change_fn(struct db_conn *c, void *arg)
{
    struct change *x = arg;
    struct object *object = &x->row.object;
    struct bucket_row b;
    ty_err err = bucket_find(c, x->arena, x->bucket, &b);
    if (err != TY_OK)
        return err;
    x->had_before = false;
    err = row_find_live(c, x->arena, b.id, object->name, &x->before, &x->had_before);
    if (err == TY_OK)
        err = row_follow(c, x->o, b.id, object->name, &x->seen, &x->before, &x->had_before);
    if (err == TY_OK)
        err = conditions_check(x->conditions, x->had_before, x->before.object.generation,
                               x->before.object.metageneration, false);
    if (err == TY_OK && x->source)
        err = source_check(c, x);
    if (err == TY_OK && x->had_before)
        err = retire_before(c, x, &b);
    if (err != TY_OK)
        return err;
    x->row.bucket_id = b.id;
    object->generation = generation_next(x->o);
    object->metageneration = 1;
    object->create_ns = object->update_ns = ty_now_ns();
    if (object->settings.storage_class.len == 0)
        object->settings.storage_class = b.storage_class;
    err = row_insert(c, false, &x->row);
    if (err == TY_OK && x->source)
        err = source_drop(c, x, &b);
    if (err == TY_OK && x->session.len > 0)
        err = session_done(c, x);
    return err ? err : generation_save(c, x->o);
}

static enum place place_choose(const struct change *x)
{
    bool folder;
    if (!name_is_nice(x->o, x->bucket, x->row.object.name, &folder))
        return PLACE_ODD;
    if (folder)
        return x->row.object.size == 0 ? PLACE_DIR : PLACE_ODD;
    return x->seen.kind == SEEN_FOLDER ? PLACE_ODD : PLACE_NICE;
}

/* What fails after the commit is not the caller's trouble: the object exists, and this is tried
 * again. */
static bool place_or_log(struct objects *o, struct ty_arena *a, ty_str bucket, struct row *row)
{
    if (row_place(o, a, bucket, row) == TY_OK)
        return true;
    log_warn("objects.place", "bucket=" TY_STR_FMT " name=\"" TY_STR_FMT "\" error=\"%s\"",
             TY_STR_ARG(bucket), TY_STR_ARG(row->object.name), ty_err_message());
    return false;
}

ty_err change_commit(struct change *x)
{
    x->seen = file_see(x->o, x->bucket, x->row.object.name);
    x->row.place = place_choose(x);
    ty_err err = db_write(x->o->db, change_fn, x);
    if (err != TY_OK)
        return err;
    /* The source goes first: its file may be where the target needs a folder. */
    if (x->source && x->kept_source)
        place_or_log(x->o, x->arena, x->bucket, x->source);
    else if (x->source)
        row_remove_file(x->o, x->bucket, x->source);
    /* A file that is to be kept and could not be moved away stays; the new one waits in staging/.
     */
    if (!x->had_before || !x->kept_before || place_or_log(x->o, x->arena, x->bucket, &x->before))
        place_or_log(x->o, x->arena, x->bucket, &x->row);
    if (x->had_before && !x->kept_before && !is_replaced(&x->before, &x->row))
        row_remove_file(x->o, x->bucket, &x->before);
    wake_settling(x->o);
    return TY_OK;
}

/* ---- a file in the way ---- */

struct displace {
    struct objects *o;
    struct ty_arena *arena;
    ty_str bucket, name;
    int64_t generation; /* 0: whatever is live */
    struct seen seen;
    struct row row; /* set: as it is now, if found */
    bool found;
};

/* The live row gets its place in odd/. Its file follows, and then it is to be settled: settling,
 * too, displaces rows, which it has looked at already. */
static ty_err displace_fn(struct db_conn *c, void *arg)
{
    struct displace *x = arg;
    struct bucket_row b;
    ty_err err = bucket_find(c, x->arena, x->bucket, &b);
    x->found = false;
    if (err == TY_OK)
        err = row_find_live(c, x->arena, b.id, x->name, &x->row, &x->found);
    if (err == TY_OK && x->generation == 0)
        err = row_follow(c, x->o, b.id, x->name, &x->seen, &x->row, &x->found);
    if (err != TY_OK || !x->found)
        return err;
    if (x->generation && x->row.object.generation != x->generation) {
        x->found = false;
        return TY_OK;
    }
    if (x->row.place != PLACE_NICE)
        return TY_OK;
    x->row.place = PLACE_ODD;
    if (x->row.stage.len == 0)
        x->row.stage = TY_STR("-");
    return row_insert(c, false, &x->row);
}

static ty_err displace(struct displace *x)
{
    ty_err err = db_write(x->o->db, displace_fn, x);
    wake_settling(x->o);
    return err;
}

/* `name` is a file where a folder has to be: to odd/ with it. */
static ty_err shove_one(struct objects *o, struct ty_arena *a, ty_str bucket, ty_str name)
{
    struct displace x = {.o = o, .arena = a, .bucket = bucket, .name = name};
    uint64_t claim = name_hash(bucket, name);
    ty_err err = claim_take(o, claim, 0);
    if (err != TY_OK)
        return err;
    x.seen = file_see(o, bucket, name);
    if (x.seen.kind == SEEN_FILE)
        err = displace(&x);
    else if (x.seen.kind == SEEN_OTHER)
        err = ty_fail(TY_FAILED_PRECONDITION, "'" TY_STR_FMT "' is neither a file nor a folder",
                      TY_STR_ARG(name));
    if (err == TY_OK && x.found)
        err = row_place(o, a, bucket, &x.row);
    claim_release(o, claim, 0);
    return err;
}

/* All that are in the way of `name`: its parents, and of a folder's name the folder itself. */
static ty_err shove(struct objects *o, struct ty_arena *a, ty_str bucket, ty_str name)
{
    ty_err err = TY_OK;
    for (size_t i = 1; i < name.len && err == TY_OK; i++) {
        ty_str parent = {name.ptr, i};
        if (name.ptr[i] != '/')
            continue;
        struct seen seen = file_see(o, bucket, parent);
        if (seen.kind == SEEN_FILE || seen.kind == SEEN_OTHER)
            err = shove_one(o, a, bucket, parent);
    }
    return err;
}

/* ---- placing ---- */

static bool file_is(int root, const char *path, const struct row *row)
{
    struct stat st;
    struct seen seen;
    if (file_stat(root, path, &st) != 0)
        return false;
    seen_of(&st, &seen);
    return seen.kind == SEEN_FILE && seen.ino == row->ino && seen.mtime_ns == row->object.mtime_ns;
}

static bool stage_is_name(const struct row *row)
{
    return row->stage.len == STAGE_BYTES - 1;
}

/* One try: 0, or errno. ENOENT: the file is not where the row says it came from. */
static int place_once(struct objects *o, ty_str bucket, const struct row *row)
{
    char path[PATH_BYTES], nice[PATH_BYTES], stage[STAGE_BYTES];
    int root = row->place == PLACE_ODD ? o->odd_fd : o->buckets_fd;
    bool is_nice = nice_path(o, bucket, row->object.name, nice);
    if (row->place == PLACE_ODD)
        odd_path(bucket, row->object.name, row->object.generation, path);
    else
        snprintf(path, sizeof path, "%s", nice);
    if (row->place == PLACE_DIR) { /* its own folder is the parent of what could be in it */
        int fd;
        const char *leaf;
        size_t len = strlen(path);
        snprintf(path + len, sizeof path - len, "/x");
        int err_no = file_parent(root, path, true, &fd, &leaf);
        if (err_no == 0)
            close(fd);
        return err_no;
    }
    int err_no = ENOENT;
    if (stage_is_name(row)) {
        snprintf(stage, sizeof stage, TY_STR_FMT, TY_STR_ARG(row->stage));
        err_no = file_move(o->staging_fd, stage, root, path, true);
    }
    if (err_no == ENOENT && file_is(root, path, row))
        return 0;
    if (err_no == ENOENT && row->place == PLACE_ODD && is_nice && file_is(o->buckets_fd, nice, row))
        err_no = file_move(o->buckets_fd, nice, root, path, true);
    return err_no;
}

/* The row as it is now: somebody may have displaced it. */
static ty_err reload_fn(struct db_conn *c, void *arg)
{
    struct displace *x = arg;
    x->found = false;
    ty_err err = row_find_live(c, x->arena, x->row.bucket_id, x->name, &x->row, &x->found);
    if (err == TY_OK && x->found && x->row.object.generation != x->generation)
        x->found = false;
    return err;
}

/* A folder, or something that is no folder, is in the way. */
static ty_err place_around(struct objects *o, struct ty_arena *a, ty_str bucket, struct row *row,
                           int err_no)
{
    struct displace x = {.o = o,
                         .arena = a,
                         .bucket = bucket,
                         .name = row->object.name,
                         .generation = row->object.generation,
                         .row = {.bucket_id = row->bucket_id}};
    if (row->object.delete_ns && err_no == ENOENT) { /* its file went before we could keep it */
        log_warn("objects.place",
                 "bucket=" TY_STR_FMT " name=\"" TY_STR_FMT "\" generation=%" PRId64
                 " is not on disk",
                 TY_STR_ARG(bucket), TY_STR_ARG(row->object.name), row->object.generation);
        row->place = PLACE_NONE;
        return TY_OK;
    }
    if (row->object.delete_ns)
        return ty_fail_errno(err_no, "cannot keep an old generation in '%s/odd'", o->root);
    ty_err err = TY_OK;
    if (err_no == ENOENT)
        err = db_read(o->db, reload_fn, &x);
    else if (err_no == ENOTDIR && shove(o, a, bucket, row->object.name) == TY_OK)
        return TY_OK;
    else
        err = displace(&x);
    bool taken = err_no == ENOENT && x.found && x.row.place == row->place &&
                 ty_str_eq(x.row.stage, row->stage);
    if (err == TY_OK && (!x.found || taken)) /* deleted meanwhile, or taken away behind our back */
        row->place = PLACE_NONE;
    else if (err == TY_OK)
        *row = x.row;
    return err;
}

ty_err row_place(struct objects *o, struct ty_arena *a, ty_str bucket, struct row *row)
{
    int err_no = 0;
    for (int i = 0; i < TRIES; i++) {
        if (row->place == PLACE_NONE)
            return TY_OK;
        err_no = place_once(o, bucket, row);
        if (err_no == 0) {
            if (row->place == PLACE_DIR)
                stage_remove(o, row->stage);
            return TY_OK;
        }
        if (err_no != ENOENT && err_no != EISDIR && err_no != ENOTDIR && err_no != EEXIST &&
            err_no != ENOTEMPTY && err_no != ELOOP && err_no != EXDEV && err_no != ENAMETOOLONG)
            break;
        ty_str object_bucket = row->object.bucket;
        ty_err err = place_around(o, a, bucket, row, err_no);
        if (err != TY_OK)
            return err;
        row->object.bucket = object_bucket;
    }
    return ty_fail_errno(err_no, "cannot put '" TY_STR_FMT "' into its place",
                         TY_STR_ARG(row->object.name));
}

/* ---- removing ---- */

struct exists {
    ty_str bucket, name;
    bool found;
};

static ty_err exists_fn(struct db_conn *c, void *arg)
{
    struct exists *x = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(c,
                            "SELECT 1 FROM object WHERE bucket = (SELECT id FROM bucket WHERE name "
                            "= ?1) AND name = ?2",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->bucket);
    db_bind_str(s, 2, x->name);
    return db_step(s, &x->found);
}

/* A folder that is an object of its own stays; its name is claimed, so that none is made while we
 * look. */
void file_prune(struct objects *o, ty_str bucket, ty_str name)
{
    char path[PATH_BYTES];
    size_t len = name.len;
    while (len > 0) {
        for (len--; len > 0 && name.ptr[len - 1] != '/'; len--)
            ;
        if (len == 0)
            return;
        ty_str folder = {name.ptr, len}; /* with its slash */
        struct exists x = {.bucket = bucket, .name = folder};
        uint64_t claim = name_hash(bucket, folder);
        if (!claim_try(o, claim))
            return;
        bool gone = db_read(o->db, exists_fn, &x) == TY_OK && !x.found &&
                    nice_path(o, bucket, folder, path) && file_rmdir(o->buckets_fd, path) == 0;
        claim_release(o, claim, 0);
        if (!gone)
            return;
    }
}

static void removal_log(ty_str bucket, const struct row *row, int err_no)
{
    if (err_no != 0 && err_no != ENOENT && err_no != ENOTEMPTY && err_no != EEXIST &&
        err_no != ENOTDIR)
        log_warn("objects.remove", "bucket=" TY_STR_FMT " name=\"" TY_STR_FMT "\" error=\"%s\"",
                 TY_STR_ARG(bucket), TY_STR_ARG(row->object.name), strerror(err_no));
}

void row_remove_file(struct objects *o, ty_str bucket, const struct row *row)
{
    char path[PATH_BYTES];
    bool nice = nice_path(o, bucket, row->object.name, path);
    /* One that is settled elsewhere may share its bytes with a live file of this name. */
    bool was_nice = nice && (row->place == PLACE_NICE || row->stage.len > 0) &&
                    row->place != PLACE_DIR && file_is(o->buckets_fd, path, row);
    int err_no = 0;
    if (was_nice)
        err_no = file_remove(o->buckets_fd, path);
    else if (nice && row->place == PLACE_DIR)
        err_no = file_rmdir(o->buckets_fd, path);
    removal_log(bucket, row, err_no);
    if (was_nice || row->place == PLACE_DIR)
        file_prune(o, bucket, row->object.name);
    if (row->place == PLACE_ODD) {
        odd_path(bucket, row->object.name, row->object.generation, path);
        removal_log(bucket, row, file_remove(o->odd_fd, path));
        *strrchr(path, '/') = '\0';
        removal_log(bucket, row, file_rmdir(o->odd_fd, path)); /* others of its name may be there */
    }
    if (stage_is_name(row) && !was_nice && row->place != PLACE_DIR)
        stage_remove(o, row->stage);
}
