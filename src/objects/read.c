/* read.c -- an object as it is on disk now: get, read, patch, delete.
 *
 * A look is: the row, then the file it names, then stat against the row. A file that is not what
 * the row says was changed behind our back: the row follows (rows.c) and we look again. A row whose
 * rename is on its way is looked for at both ends. Nobody is locked out; TRIES looks settle it. */
#include "objects/objects_int.h"

struct look {
    struct ty_arena *arena;
    struct object_ref ref;
    struct row row;
    bool found, old;
    bool refreshed; /* a name without a row was held against the disk */
    uint64_t epoch; /* of the database, before the row was read */
};

static ty_err look_fn(struct db_conn *c, void *arg)
{
    struct look *x = arg;
    struct bucket_row b;
    x->found = x->old = false;
    ty_err err = bucket_find(c, x->arena, x->ref.bucket, &b);
    if (err == TY_OK && !x->ref.soft_deleted)
        err = row_find_live(c, x->arena, b.id, x->ref.name, &x->row, &x->found);
    if (err != TY_OK || x->ref.generation == 0)
        return err;
    if (x->found && x->row.object.generation == x->ref.generation)
        return TY_OK;
    err = row_find_old(c, x->arena, b.id, x->ref.name, x->ref.generation, &x->row, &x->found);
    x->old = true;
    x->found = x->found && x->row.object.soft_deleted == x->ref.soft_deleted;
    object_set_end(&x->row.object, &b);
    return err;
}

int row_open(struct objects *o, ty_str bucket, const struct row *row, int *ret_fd)
{
    char path[PATH_BYTES], stage[STAGE_BYTES];
    bool nice = nice_path(o, bucket, row->object.name, path);
    if (row->place == PLACE_DIR || row->place == PLACE_NONE)
        return (*ret_fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 ? errno : 0;
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK; /* somebody may have put a pipe there */
    int err_no = ENOENT;
    if (row->stage.len == STAGE_BYTES - 1) {
        snprintf(stage, sizeof stage, TY_STR_FMT, TY_STR_ARG(row->stage));
        err_no = file_open(o->staging_fd, stage, flags, 0, ret_fd);
    }
    if (err_no == ENOENT && nice && (row->place == PLACE_NICE || row->stage.len > 0)) {
        struct stat st;
        err_no = file_open(o->buckets_fd, path, flags, 0, ret_fd);
        if (err_no == 0 && row->place == PLACE_ODD &&
            (fstat(*ret_fd, &st) != 0 || (int64_t)st.st_ino != row->ino)) {
            close(*ret_fd); /* another object's file by now */
            err_no = ENOENT;
        }
    }
    if (err_no != 0 && row->place == PLACE_ODD) { /* whatever is at its nice name is not it */
        odd_path(bucket, row->object.name, row->object.generation, path);
        err_no = file_open(o->odd_fd, path, flags, 0, ret_fd);
    }
    return err_no;
}

void object_set_end(struct object *object, const struct bucket_row *b)
{
    if (object->soft_deleted)
        object->hard_delete_ns = object->delete_ns + b->soft_delete_s * 1000000000;
}

bool row_is_file(const struct row *row, int fd)
{
    if (row->place == PLACE_DIR || row->place == PLACE_NONE)
        return true;
    struct stat st;
    struct seen seen;
    if (fstat(fd, &st) != 0)
        return false;
    seen_of(&st, &seen);
    bool same = seen.kind == SEEN_FILE && seen.ino == row->ino && seen.size == row->object.size &&
                seen.mtime_ns == row->object.mtime_ns;
    /* Only at its nice place has anybody else had it; elsewhere our own renames change its ctime.
     */
    return same &&
           (row->place != PLACE_NICE || row->ctime_ns <= 0 || row->ctime_ns == seen.ctime_ns);
}

/* ---- looking ---- */

/* One look. *ret_again: something was changing. *ret_fd is -1 or open. */
static ty_err look_once(struct objects *o, struct look *x,
                        const struct object_conditions *conditions, bool hashed, bool *ret_again,
                        int *ret_fd)
{
    *ret_again = false;
    *ret_fd = -1;
    x->epoch = db_epoch(o->db);
    ty_err err = bucket_explain(o, x->ref.bucket, db_read(o->db, look_fn, x));
    if (err != TY_OK)
        return err;
    if (!x->found && x->ref.generation == 0 && !x->refreshed &&
        file_see(o, x->ref.bucket, x->ref.name).kind == SEEN_FILE) { /* made behind our back? */
        *ret_again = x->refreshed = true;
        return refresh(o, x->ref.bucket, x->ref.name);
    }
    if (!x->found) {
        err = conditions_check(conditions, false, 0, 0, true);
        return err == TY_FAILED_PRECONDITION
                   ? err
                   : object_not_found(x->ref.bucket, x->ref.name, x->ref.generation);
    }
    int err_no = row_open(o, x->ref.bucket, &x->row, ret_fd);
    bool same = err_no == 0 && row_is_file(&x->row, *ret_fd);
    if (same && x->row.place == PLACE_DIR && x->row.stage.len == 0)
        same = file_see(o, x->ref.bucket, x->ref.name).kind == SEEN_FOLDER;
    if (!same) {
        if (err_no != 0 && err_no != ENOENT && err_no != ENOTDIR && err_no != ELOOP &&
            err_no != EISDIR && err_no != ENXIO)
            return ty_fail_errno(err_no, "cannot open '" TY_STR_FMT "'", TY_STR_ARG(x->ref.name));
        *ret_again = true;
        return x->old ? TY_OK : refresh(o, x->ref.bucket, x->ref.name);
    }
    err = conditions_check(conditions, true, x->row.object.generation, x->row.object.metageneration,
                           true);
    if (err == TY_OK && hashed && !x->row.object.has_crc32c) {
        err = hash_file(o, &x->row, *ret_fd, &same);
        *ret_again = !same;
    }
    return err;
}

ty_err object_open(struct objects *o, struct ty_arena *a, struct object_ref ref,
                   const struct object_conditions *conditions, bool hashed, struct row *ret_row,
                   bool *ret_old, int *ret_fd)
{
    struct look x = {.arena = a, .ref = ref};
    for (int i = 0; i < TRIES; i++) {
        bool again;
        int fd;
        ty_err err = look_once(o, &x, conditions, hashed, &again, &fd);
        if (err == TY_OK && !again) {
            x.row.object.bucket = ty_str_dup(a, ref.bucket);
            if (!x.old)
                recent_put(o, x.epoch, &x.row);
            *ret_row = x.row;
            *ret_old = x.old;
            if (ret_fd)
                *ret_fd = fd;
            else
                close(fd);
            return TY_OK;
        }
        if (fd >= 0)
            close(fd);
        if (err != TY_OK)
            return err;
    }
    if (x.old)
        return ty_fail(TY_DATA_LOSS, "the bytes of '" TY_STR_FMT "'#%" PRId64 " are not on disk",
                       TY_STR_ARG(ref.name), ref.generation);
    return ty_fail(TY_UNAVAILABLE, "'" TY_STR_FMT "' keeps changing on disk: try again later",
                   TY_STR_ARG(ref.name));
}

ty_err objects_read(struct objects *o, struct ty_arena *a, struct object_ref ref,
                    const struct object_conditions *conditions, struct object *ret_object,
                    int *ret_fd)
{
    struct row row;
    bool old;
    ty_err err = object_open(o, a, ref, conditions, true, &row, &old, ret_fd);
    if (err == TY_OK)
        *ret_object = row.object;
    return err;
}

ty_err objects_get(struct objects *o, struct ty_arena *a, struct object_ref ref,
                   const struct object_conditions *conditions, struct object *ret_object)
{
    struct row row;
    bool old;
    ty_err err = object_open(o, a, ref, conditions, true, &row, &old, NULL);
    if (err == TY_OK)
        *ret_object = row.object;
    return err;
}

bool objects_unchanged(const struct object *object, int fd)
{
    struct stat st;
    struct seen seen;
    if (object->size == 0)
        return true;
    if (fstat(fd, &st) != 0)
        return false;
    seen_of(&st, &seen);
    return seen.size == object->size && seen.mtime_ns == object->mtime_ns;
}

/* ---- patch ---- */

struct patch {
    struct objects *o;
    struct look look;
    struct seen seen;
    const struct object_conditions *conditions;
    object_edit edit;
    void *arg;
};

static ty_err patch_fn(struct db_conn *c, void *arg)
{
    struct patch *x = arg;
    struct look *look = &x->look;
    struct object *object = &look->row.object;
    ty_err err = look_fn(c, look);
    if (err != TY_OK)
        return err;
    if (!look->found)
        return object_not_found(look->ref.bucket, look->ref.name, look->ref.generation);
    err = conditions_check(x->conditions, true, object->generation, object->metageneration, false);
    if (err == TY_OK)
        err = x->edit(look->arena, &object->settings, x->arg);
    if (err == TY_OK)
        err = settings_check(&object->settings);
    if (err == TY_OK)
        err = row_delete(c, look->old, &look->row);
    object->metageneration++;
    object->update_ns = ty_now_ns();
    return err ? err : row_insert(c, look->old, &look->row);
}

ty_err objects_patch(struct objects *o, struct ty_arena *a, struct object_ref ref,
                     const struct object_conditions *conditions, object_edit edit, void *arg,
                     struct object *ret_object)
{
    struct object before;
    ty_err err = objects_get(o, a, ref, NULL, &before); /* follows the disk first */
    if (err != TY_OK)
        return err;
    struct patch x = {.o = o,
                      .look = {.arena = a, .ref = ref},
                      .conditions = conditions,
                      .edit = edit,
                      .arg = arg};
    err = db_write(o->db, patch_fn, &x);
    if (err != TY_OK)
        return err;
    *ret_object = x.look.row.object;
    ret_object->bucket = before.bucket;
    return TY_OK;
}

/* ---- delete ---- */

struct removing {
    struct objects *o;
    struct look look;
    struct seen seen;
    const struct object_conditions *conditions;
    bool kept;
};

static ty_err delete_old(struct db_conn *c, struct removing *x, const struct bucket_row *b)
{
    struct row *row = &x->look.row;
    ty_err err = row_delete(c, true, row);
    x->kept = b->soft_delete_s > 0 && !row->object.soft_deleted;
    if (err != TY_OK)
        return err;
    if (!x->kept)
        return removal_insert(c, x->look.ref.bucket, row);
    row->object.soft_deleted = true;
    row->object.delete_ns = ty_now_ns();
    return row_insert(c, true, row);
}

static ty_err delete_fn(struct db_conn *c, void *arg)
{
    struct removing *x = arg;
    struct look *look = &x->look;
    struct bucket_row b;
    ty_err err = bucket_find(c, look->arena, look->ref.bucket, &b);
    if (err == TY_OK && !look->ref.soft_deleted) {
        err = row_find_live(c, look->arena, b.id, look->ref.name, &look->row, &look->found);
        if (err == TY_OK)
            err = row_follow(c, x->o, b.id, look->ref.name, &x->seen, &look->row, &look->found);
    }
    if (err == TY_OK)
        err = look_fn(c, look);
    if (err != TY_OK)
        return err;
    const struct object *object = &look->row.object;
    err = conditions_check(x->conditions, look->found, object->generation, object->metageneration,
                           false);
    if (err == TY_OK && !look->found)
        err = object_not_found(look->ref.bucket, look->ref.name, look->ref.generation);
    if (err != TY_OK)
        return err;
    if (look->old)
        return delete_old(c, x, &b);
    bool as_version = b.versioning && look->ref.generation == 0;
    return row_retire(c, &b, look->ref.bucket, &look->row, as_version, &x->kept);
}

static void keep_file(struct objects *o, struct ty_arena *a, ty_str bucket, struct row *row)
{
    if (row_place(o, a, bucket, row) != TY_OK) /* readers find it where it is; tried again later */
        log_warn("objects.place", "error=\"%s\"", ty_err_message());
    file_prune(o, bucket, row->object.name);
}

ty_err objects_delete(struct objects *o, struct object_ref ref,
                      const struct object_conditions *conditions)
{
    struct ty_arena a = {0};
    struct removing x = {.o = o, .look = {.arena = &a, .ref = ref}, .conditions = conditions};
    uint64_t claim = name_hash(ref.bucket, ref.name);
    ty_err err = claim_take(o, claim, 0);
    if (err != TY_OK)
        return err;
    x.seen = file_see(o, ref.bucket, ref.name);
    err = write_freeing(o, delete_fn, &x);
    if (err == TY_OK && !x.kept)
        row_remove_file(o, ref.bucket, &x.look.row);
    else if (err == TY_OK)
        keep_file(o, &a, ref.bucket, &x.look.row);
    claim_release(o, claim, 0);
    wake_settling(o);
    ty_arena_clear(&a);
    return err;
}
