/* upload.c -- bytes into a staged file, hashed on the way, then an object.
 *
 * One pass: each piece is hashed while it is in the cache and written at once; nothing is buffered,
 * so an upload costs a few hundred bytes of memory however large it is. From FLUSH_BYTES on, the
 * kernel is asked to write what has come while more comes, so that the final sync waits for little.
 */
#include "objects/upload_int.h"

#include "wire/wire.h"

ty_err target_check(const struct object_target *target)
{
    ty_err err = objects_name_check(target->name);
    return err == TY_OK && target->settings ? settings_check(target->settings) : err;
}

struct objects_upload *upload_new(struct objects *o, const struct object_target *target)
{
    struct objects_upload *u = calloc(1, sizeof *u);
    ty_assert(u);
    u->o = o;
    u->fd = -1;
    u->size = -1;
    u->bucket = ty_str_dup(&u->arena, target->bucket);
    u->name = ty_str_dup(&u->arena, target->name);
    if (target->conditions)
        u->conditions = *target->conditions;
    u->settings = settings_dup(&u->arena, target->settings);
    md5_init(&u->md5);
    return u;
}

struct early {
    struct objects_upload *u;
    struct ty_arena arena;
};

static ty_err bucket_fn(struct db_conn *c, void *arg)
{
    struct early *x = arg;
    struct bucket_row b;
    return bucket_find(c, &x->arena, x->u->bucket, &b);
}

/* Refusing before the bytes are sent saves sending them; finishing asks again. */
static ty_err early_check(struct early *x)
{
    struct objects_upload *u = x->u;
    ty_err err = bucket_explain(u->o, u->bucket, db_read(u->o->db, bucket_fn, x));
    if (err != TY_OK || !u->conditions.given)
        return err;
    struct object_ref ref = {.bucket = u->bucket, .name = u->name};
    struct row row = {0};
    bool old;
    err = object_open(u->o, &x->arena, ref, NULL, false, &row, &old, NULL);
    if (err != TY_OK && err != TY_NOT_FOUND)
        return err;
    return conditions_check(&u->conditions, err == TY_OK, row.object.generation,
                            row.object.metageneration, false);
}

ty_err objects_upload_begin(struct objects *o, const struct object_target *target,
                            struct objects_upload **ret_upload)
{
    ty_err err = target_check(target);
    if (err != TY_OK)
        return err;
    struct early x = {.u = upload_new(o, target)};
    err = early_check(&x);
    if (err == TY_OK)
        err = stage_create(o, x.u->stage, &x.u->fd);
    ty_arena_clear(&x.arena);
    if (err != TY_OK) {
        objects_upload_free(x.u);
        return err;
    }
    *ret_upload = x.u;
    return TY_OK;
}

ty_err upload_failed(struct objects_upload *u, ty_err err)
{
    if (err != TY_RESOURCE_EXHAUSTED)
        return err;
    u->broken = true;
    if (ftruncate(u->fd, u->session ? u->recorded : 0) != 0)
        log_warn("objects.stray", "stage=%s error=\"%s\"", u->stage, strerror(errno));
    return err;
}

static void flush_some(struct objects_upload *u)
{
    if (u->offset - u->flushed < FLUSH_BYTES)
        return;
    sync_file_range(u->fd, u->flushed, u->offset - u->flushed, SYNC_FILE_RANGE_WRITE); /* a wish */
    u->flushed = u->offset;
}

ty_err objects_upload_write(struct objects_upload *u, const void *ptr, size_t len)
{
    enum { PIECE = 256 << 10 }; /* stays in the cache from the hashes to the write */
    const char *p = ptr;
    ty_assert(!u->finished);
    if (u->broken)
        return ty_fail(TY_INTERNAL, "this upload has failed before");
    if (u->skip > 0) {
        size_t skip = (uint64_t)u->skip < len ? (size_t)u->skip : len;
        u->skip -= (int64_t)skip;
        p += skip;
        len -= skip;
    }
    int64_t most = u->size >= 0 ? u->size : OBJECTS_OBJECT_BYTES;
    if ((uint64_t)(most - u->offset) < len)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the upload has more than the %" PRId64 " bytes %s: begin it again", most,
                       u->size >= 0 ? "that were declared" : "an object may have");
    ty_err err = TY_OK;
    while (len > 0 && err == TY_OK) {
        size_t n = len < PIECE ? len : PIECE;
        md5_add(&u->md5, p, n);
        u->crc32c = wire_crc32c(u->crc32c, p, n);
        err = ty_write_all(u->fd, p, n);
        u->broken = err != TY_OK; /* the hashes and the file no longer agree */
        p += n;
        len -= n;
        u->offset += (int64_t)n;
    }
    flush_some(u);
    if (err == TY_OK && u->session && u->offset - u->recorded >= CHECKPOINT_BYTES)
        err = session_record(u);
    err = upload_failed(u, err);
    return err ? ty_wrap(err, "cannot store '" TY_STR_FMT "'", TY_STR_ARG(u->name)) : TY_OK;
}

int64_t objects_upload_offset(const struct objects_upload *u)
{
    return u->offset - u->skip;
}

void objects_upload_expect(struct objects_upload *u, const unsigned char *md5,
                           const uint32_t *crc32c)
{
    if (md5) {
        u->expect |= EXPECT_MD5;
        memcpy(u->expect_md5, md5, 16);
    }
    if (crc32c) {
        u->expect |= EXPECT_CRC32C;
        u->expect_crc32c = *crc32c;
    }
}

static ty_err check_hashes(const struct objects_upload *u, const struct object *object)
{
    if (u->expect & EXPECT_MD5 && memcmp(u->expect_md5, object->md5, 16) != 0)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the MD5 of the %" PRId64 " bytes received is not the md5Hash that was "
                       "declared: nothing was stored; send it again",
                       u->offset);
    if (u->expect & EXPECT_CRC32C && u->expect_crc32c != object->crc32c)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the CRC32C of the %" PRId64 " bytes received is not the crc32c that was "
                       "declared: nothing was stored; send it again",
                       u->offset);
    return TY_OK;
}

ty_err objects_upload_finish(struct objects_upload *u, struct ty_arena *a,
                             struct object *ret_object)
{
    ty_assert(!u->finished);
    if (u->broken || u->skip > 0)
        return ty_fail(TY_INTERNAL, "this upload has failed, or has bytes left to skip");
    if (u->size >= 0 && u->offset != u->size)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the upload has %" PRId64 " bytes, and %" PRId64 " were declared", u->offset,
                       u->size);
    struct change x = {.o = u->o,
                       .arena = &u->arena,
                       .bucket = u->bucket,
                       .conditions = &u->conditions,
                       .row = {.object = {.bucket = u->bucket,
                                          .name = u->name,
                                          .has_md5 = true,
                                          .has_crc32c = true,
                                          .crc32c = u->crc32c,
                                          .settings = u->settings},
                               .stage = ty_str_of(u->stage)},
                       .session = u->session ? ty_str_of(u->stage) : TY_STR("")};
    struct md5 md5 = u->md5; /* a session may still go on after a failure */
    md5_end(&md5, x.row.object.md5);
    ty_err err = check_hashes(u, &x.row.object);
    if (err == TY_OK)
        err = stage_seal(u->fd, &x.row);
    uint64_t claim = name_hash(u->bucket, u->name);
    if (err == TY_OK)
        err = claim_take(u->o, claim, 0);
    if (err == TY_OK) {
        err = change_commit(&x);
        claim_release(u->o, claim, 0);
    }
    err = upload_failed(u, err);
    if (err != TY_OK)
        return ty_wrap(err, "cannot store '" TY_STR_FMT "'", TY_STR_ARG(u->name));
    u->finished = true;
    *ret_object = x.row.object;
    ret_object->bucket = ty_str_dup(a, u->bucket);
    ret_object->name = ty_str_dup(a, u->name);
    ret_object->settings = settings_dup(a, &x.row.object.settings);
    return TY_OK;
}

void objects_upload_free(struct objects_upload *u)
{
    if (!u)
        return;
    if (u->fd >= 0)
        close(u->fd);
    if (!u->finished && !u->session)
        stage_remove(u->o, ty_str_of(u->stage));
    if (u->claim)
        claim_release(u->o, u->claim, 0);
    ty_arena_clear(&u->arena);
    free(u);
}
