/* derive.c -- objects made of objects: copy, move, compose, restore.
 *
 * The bytes are staged like an upload's, but without reading them: blocks are shared where the file
 * system can, else copied inside the kernel. Hashes come from the sources' rows; the crc32c of a
 * composed object is joined from its parts'. A source that changes while it is copied is seen by
 * its mtime, and the copy fails. A move stages a second link to the same file, so it costs nothing,
 * and drops the source's row in the commit that makes the target. */
#include "objects/objects_int.h"

static ty_err target_ok(const struct object_target *target)
{
    ty_err err = objects_name_check(target->name);
    return err == TY_OK && target->settings ? settings_check(target->settings) : err;
}

static ty_err source_changed(ty_str name)
{
    return ty_fail(TY_UNAVAILABLE, "'" TY_STR_FMT "' was written to while it was copied: try again",
                   TY_STR_ARG(name));
}

/* Conditions on a source are those of a write: one that does not hold is never "not modified". */
static ty_err source_open(struct objects *o, struct ty_arena *a, struct object_ref ref,
                          const struct object_conditions *conditions, struct row *ret_row,
                          bool *ret_old, int *ret_fd)
{
    ty_err err = object_open(o, a, ref, NULL, true, ret_row, ret_old, ret_fd);
    if (err != TY_OK)
        return err;
    err = conditions_check(conditions, true, ret_row->object.generation,
                           ret_row->object.metageneration, false);
    if (err != TY_OK)
        close(*ret_fd);
    return err;
}

static uint64_t source_claim(const struct change *x)
{
    return x->source ? name_hash(x->bucket, x->source->object.name) : 0;
}

static ty_err names_claim(const struct change *x)
{
    return claim_take(x->o, name_hash(x->bucket, x->row.object.name), source_claim(x));
}

static void names_release(const struct change *x)
{
    claim_release(x->o, name_hash(x->bucket, x->row.object.name), source_claim(x));
}

/* Commit, and give the result back. The names are claimed. */
static ty_err commit_claimed(struct change *x, struct object *ret_object)
{
    ty_err err = change_commit(x);
    if (err != TY_OK)
        return err;
    *ret_object = x->row.object;
    ret_object->bucket = ty_str_dup(x->arena, x->bucket);
    ret_object->name = ty_str_dup(x->arena, x->row.object.name);
    ret_object->settings = settings_dup(x->arena, &x->row.object.settings);
    return TY_OK;
}

/* Fill the change's row from its staged file, commit, and give the result back. */
static ty_err derive_commit(struct change *x, char stage[STAGE_BYTES], int fd,
                            struct object *ret_object)
{
    x->row.stage = ty_str_of(stage);
    ty_err err = stage_seal(fd, &x->row);
    if (err == TY_OK)
        err = names_claim(x);
    if (err == TY_OK) {
        err = commit_claimed(x, ret_object);
        names_release(x);
    }
    return err;
}

static void take_hashes(struct object *to, const struct object *from)
{
    to->has_md5 = from->has_md5;
    to->has_crc32c = from->has_crc32c;
    memcpy(to->md5, from->md5, sizeof to->md5);
    to->crc32c = from->crc32c;
    to->components = from->components;
}

ty_err objects_copy(struct objects *o, struct ty_arena *a, struct object_ref source,
                    const struct object_conditions *source_conditions,
                    const struct object_target *target, struct object *ret_object)
{
    struct row from;
    char stage[STAGE_BYTES] = "";
    bool old;
    int fd = -1, out = -1;
    ty_err err = target_ok(target);
    if (err == TY_OK)
        err = source_open(o, a, source, source_conditions, &from, &old, &fd);
    if (err != TY_OK)
        return err;
    struct change x = {.o = o,
                       .arena = a,
                       .bucket = target->bucket,
                       .conditions = target->conditions,
                       .row = {.object = {.name = target->name,
                                          .settings = target->settings ? *target->settings
                                                                       : from.object.settings}}};
    take_hashes(&x.row.object, &from.object);
    err = stage_create(o, stage, &out);
    if (err == TY_OK)
        err = file_copy(fd, 0, from.object.size, out);
    if (err == TY_OK && !objects_unchanged(&from.object, fd))
        err = source_changed(source.name);
    if (err == TY_OK)
        err = derive_commit(&x, stage, out, ret_object);
    if (err != TY_OK)
        stage_remove(o, ty_str_of(stage));
    close(fd);
    if (out >= 0)
        close(out);
    return err ? ty_wrap(err, "cannot copy '" TY_STR_FMT "'", TY_STR_ARG(source.name)) : TY_OK;
}

/* ---- move and restore ---- */

/* A link changes its file's ctime, and one that comes to nothing must not make the source look
 * changed: its row is told beforehand. */
static ty_err unwatch_fn(struct db_conn *c, void *arg)
{
    const struct row *source = arg;
    struct db_stmt *s;
    ty_err err = db_prepare(
        c, "UPDATE object SET ctime_ns = ?4 WHERE bucket = ?1 AND name = ?2 AND generation = ?3",
        &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, source->bucket_id);
    db_bind_str(s, 2, source->object.name);
    db_bind_i64(s, 3, source->object.generation);
    db_bind_i64(s, 4, CTIME_LINKED);
    return db_run(s);
}

/* A second name for the source's file, in staging/. Its folder is synced: the link must be there
 * when the row is. */
static ty_err stage_link(struct objects *o, int fd, const struct row *from, struct row *row,
                         char stage[STAGE_BYTES])
{
    char self[32];
    unsigned char random[16];
    ty_random(random, sizeof random);
    for (int i = 0; i < 16; i++)
        snprintf(stage + 2 * i, 3, "%02x", random[i]);
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int err_no = ty_seam_step(TY_OP_RENAME);
    if (err_no == 0 && linkat(AT_FDCWD, self, o->staging_fd, stage, AT_SYMLINK_FOLLOW) != 0)
        err_no = errno;
    if (err_no)
        return ty_fail_errno(err_no, "cannot link '" TY_STR_FMT "'", TY_STR_ARG(from->object.name));
    row->ino = from->ino;
    row->object.size = from->object.size;
    row->object.mtime_ns = from->object.mtime_ns;
    row->ctime_ns = 0;
    return ty_sync(o->staging_fd);
}

struct keeps {
    ty_str bucket;
    struct ty_arena *arena;
    struct bucket_row b;
};

static ty_err keeps_fn(struct db_conn *c, void *arg)
{
    struct keeps *x = arg;
    return bucket_find(c, x->arena, x->bucket, &x->b);
}

/* The target is a link to the source's file. The names are claimed from before there is a link, so
 * that nobody holds its file against its row meanwhile. */
static ty_err transfer_link(struct change *x, int fd, char stage[STAGE_BYTES],
                            struct object *ret_object)
{
    ty_err err = names_claim(x);
    if (err != TY_OK)
        return err;
    if (!x->source_old)
        err = db_write(x->o->db, unwatch_fn, x->source);
    if (err == TY_OK)
        err = stage_link(x->o, fd, x->source, &x->row, stage);
    x->row.stage = ty_str_of(stage);
    if (err == TY_OK)
        err = commit_claimed(x, ret_object);
    if (err != TY_OK)
        stage_remove(x->o, x->row.stage);
    names_release(x);
    return err;
}

/* The target is a copy: the source is kept as an old generation, with bytes of its own. */
static ty_err transfer_copy(struct change *x, int fd, char stage[STAGE_BYTES],
                            struct object *ret_object)
{
    int out;
    ty_err err = stage_create(x->o, stage, &out);
    if (err != TY_OK)
        return err;
    err = file_copy(fd, 0, x->source->object.size, out);
    if (err == TY_OK)
        err = derive_commit(x, stage, out, ret_object);
    if (err != TY_OK)
        stage_remove(x->o, ty_str_of(stage));
    close(out);
    return err;
}

/* `from` goes and the target comes, in one commit. `share`: by a link to the same file. */
static ty_err transfer(struct objects *o, struct ty_arena *a, struct row *from, bool old,
                       bool share, int fd, const struct object_target *target,
                       struct object *ret_object)
{
    char stage[STAGE_BYTES] = "";
    struct change x = {.o = o,
                       .arena = a,
                       .bucket = target->bucket,
                       .conditions = target->conditions,
                       .row = {.object = {.name = target->name,
                                          .settings = target->settings ? *target->settings
                                                                       : from->object.settings}},
                       .source = from,
                       .source_old = old};
    take_hashes(&x.row.object, &from->object);
    bool link = share && (from->place == PLACE_NICE || from->place == PLACE_ODD);
    return link ? transfer_link(&x, fd, stage, ret_object)
                : transfer_copy(&x, fd, stage, ret_object);
}

ty_err objects_move(struct objects *o, struct ty_arena *a, struct object_ref source,
                    const struct object_conditions *source_conditions,
                    const struct object_target *target, struct object *ret_object)
{
    ty_err err = target_ok(target);
    if (err == TY_OK && !ty_str_eq(source.bucket, target->bucket))
        err = ty_fail(TY_INVALID_ARGUMENT, "an object can be moved within its bucket only");
    if (err == TY_OK && ty_str_eq(source.name, target->name))
        err = ty_fail(TY_INVALID_ARGUMENT, "an object cannot be moved onto itself");
    struct keeps keeps = {.bucket = target->bucket, .arena = a};
    if (err == TY_OK)
        err = db_read(o->db, keeps_fn, &keeps);
    if (err != TY_OK)
        return err;
    struct row from;
    bool old;
    int fd;
    err = source_open(o, a, source, source_conditions, &from, &old, &fd);
    if (err != TY_OK)
        return err;
    bool kept = keeps.b.versioning || keeps.b.soft_delete_s > 0;
    err = transfer(o, a, &from, old, !kept, fd, target, ret_object);
    close(fd);
    return err ? ty_wrap(err, "cannot move '" TY_STR_FMT "'", TY_STR_ARG(source.name)) : TY_OK;
}

ty_err objects_restore(struct objects *o, struct ty_arena *a, struct object_ref ref,
                       const struct object_conditions *conditions, struct object *ret_object)
{
    if (ref.generation == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "generation: is required to restore an object");
    struct row from;
    bool old;
    int fd;
    ref.soft_deleted = true;
    ty_err err = object_open(o, a, ref, NULL, true, &from, &old, &fd);
    if (err != TY_OK)
        return err;
    struct object_target target = {
        .bucket = ref.bucket, .name = ref.name, .conditions = conditions};
    /* While its file may still be at this very name, a link would be the same file. */
    err = transfer(o, a, &from, old, from.stage.len == 0, fd, &target, ret_object);
    close(fd);
    return err ? ty_wrap(err, "cannot restore '" TY_STR_FMT "'", TY_STR_ARG(ref.name)) : TY_OK;
}

/* ---- compose ---- */

static ty_err compose_part(struct objects *o, struct ty_arena *a, ty_str bucket,
                           const struct object_part *part, int out, struct object *into)
{
    struct row from;
    bool old;
    int fd;
    struct object_ref ref = {.bucket = bucket, .name = part->name, .generation = part->generation};
    ty_err err = source_open(o, a, ref, part->conditions, &from, &old, &fd);
    if (err != TY_OK)
        return err;
    if (from.object.size > OBJECTS_OBJECT_BYTES - into->size)
        err = ty_fail(TY_INVALID_ARGUMENT, "the parts have more bytes than an object may have");
    else
        err = file_copy(fd, 0, from.object.size, out);
    if (err == TY_OK && !objects_unchanged(&from.object, fd))
        err = source_changed(part->name);
    close(fd);
    into->crc32c = crc32c_join(into->crc32c, from.object.crc32c, from.object.size);
    into->size += from.object.size;
    int parts = from.object.components > 0 ? from.object.components : 1;
    into->components = into->components > INT_MAX - parts ? INT_MAX : into->components + parts;
    return err;
}

ty_err objects_compose(struct objects *o, struct ty_arena *a, const struct object_target *target,
                       const struct object_part *parts, size_t count, const uint32_t *expect_crc32c,
                       struct object *ret_object)
{
    char stage[STAGE_BYTES] = "";
    int out = -1;
    ty_err err = target_ok(target);
    if (err == TY_OK && (count == 0 || count > OBJECTS_COMPOSE))
        err =
            ty_fail(TY_INVALID_ARGUMENT, "sourceObjects: 1 to %d objects can be composed, not %zu",
                    OBJECTS_COMPOSE, count);
    if (err == TY_OK)
        err = stage_create(o, stage, &out);
    if (err != TY_OK)
        return err;
    struct change x = {.o = o,
                       .arena = a,
                       .bucket = target->bucket,
                       .conditions = target->conditions,
                       .row = {.object = {.name = target->name, .has_crc32c = true}}};
    if (target->settings)
        x.row.object.settings = *target->settings;
    for (size_t i = 0; i < count && err == TY_OK; i++)
        err = compose_part(o, a, target->bucket, &parts[i], out, &x.row.object);
    if (err == TY_OK && expect_crc32c && *expect_crc32c != x.row.object.crc32c)
        err = ty_fail(TY_INVALID_ARGUMENT, "the composed object's CRC32C is not the one declared");
    if (err == TY_OK)
        err = derive_commit(&x, stage, out, ret_object);
    if (err != TY_OK)
        stage_remove(o, ty_str_of(stage));
    close(out);
    return err ? ty_wrap(err, "cannot compose '" TY_STR_FMT "'", TY_STR_ARG(target->name)) : TY_OK;
}
