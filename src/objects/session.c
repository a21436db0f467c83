/* session.c -- resumable uploads: rows that outlive the server, and a staged file of the same name.
 *
 * Between two requests a session is its row and, once it has bytes, its file in staging/. The row
 * says how many bytes are certain to be on disk, and holds the state of both hashes at that point,
 * so taking a session up again reads nothing back: the file is cut to that length and goes on. Who
 * writes to a session claims its id; a second one is told so. */
#include "objects/upload_int.h"

#define SESSION_COLUMNS                                                                            \
    "id, bucket, name, size, offset, expire_ns, done, generation, create_ns, md5_state, md5_a, "   \
    "md5_b, crc32c, expect, expect_md5_a, expect_md5_b, expect_crc32c, given, if_generation, "     \
    "if_generation_not, if_metageneration, if_metageneration_not, " SETTINGS_COLUMNS
enum { SESSION_SETTINGS = 22 };

/* ---- the row ---- */

struct session {
    struct objects_session shown;
    char md5_state[2 * sizeof(struct md5) + 1];
    uint32_t crc32c;
    unsigned expect;
    int64_t expect_md5[2], expect_crc32c;
    struct object_conditions conditions;
    struct object_settings settings;
};

static void md5_save(const struct md5 *h, char text[2 * sizeof(struct md5) + 1])
{
    const unsigned char *p = (const unsigned char *)h;
    for (size_t i = 0; i < sizeof *h; i++)
        snprintf(text + 2 * i, 3, "%02x", p[i]);
}

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10; /* we wrote it */
}

static void md5_restore(const char *text, struct md5 *h)
{
    unsigned char *p = (unsigned char *)h;
    for (size_t i = 0; i < sizeof *h; i++)
        p[i] = (unsigned char)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
}

static void session_load(struct db_stmt *s, struct ty_arena *a, struct session *ret)
{
    *ret = (struct session){
        .shown = {.bucket = ty_str_dup(a, db_column_str(s, 1)),
                  .name = ty_str_dup(a, db_column_str(s, 2)),
                  .size = db_column_i64(s, 3),
                  .offset = db_column_i64(s, 4),
                  .expire_ns = db_column_i64(s, 5),
                  .done = db_column_i64(s, 6) != 0},
        .crc32c = (uint32_t)db_column_i64(s, 12),
        .expect = (unsigned)db_column_i64(s, 13),
        .expect_md5 = {db_column_i64(s, 14), db_column_i64(s, 15)},
        .expect_crc32c = db_column_i64(s, 16),
        .conditions = {.given = (unsigned)db_column_i64(s, 17),
                       .generation_match = db_column_i64(s, 18),
                       .generation_not_match = db_column_i64(s, 19),
                       .metageneration_match = db_column_i64(s, 20),
                       .metageneration_not_match = db_column_i64(s, 21)},
    };
    snprintf(ret->shown.id, sizeof ret->shown.id, TY_STR_FMT, TY_STR_ARG(db_column_str(s, 0)));
    snprintf(ret->md5_state, sizeof ret->md5_state, TY_STR_FMT, TY_STR_ARG(db_column_str(s, 9)));
    settings_load(s, SESSION_SETTINGS, a, &ret->settings);
    struct object *made = &ret->shown.object;
    *made = (struct object){.bucket = ret->shown.bucket,
                            .name = ret->shown.name,
                            .generation = db_column_i64(s, 7),
                            .metageneration = 1,
                            .size = ret->shown.offset,
                            .create_ns = db_column_i64(s, 8),
                            .update_ns = db_column_i64(s, 8),
                            .has_md5 = true,
                            .has_crc32c = true,
                            .crc32c = ret->crc32c,
                            .settings = ret->settings};
    md5_from_ints(db_column_i64(s, 10), db_column_i64(s, 11), made->md5);
}

struct find {
    struct ty_arena *arena;
    ty_str id;
    struct session session;
};

static ty_err session_unknown(ty_str id)
{
    return ty_fail(TY_NOT_FOUND,
                   "no upload '" TY_STR_FMT
                   "': it was cancelled, has expired, or never was; begin a new one",
                   (int)(id.len < 64 ? id.len : 64), id.ptr);
}

static ty_err find_fn(struct db_conn *c, void *arg)
{
    struct find *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT " SESSION_COLUMNS " FROM session WHERE id = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->id);
    err = db_step(s, &row);
    if (err != TY_OK)
        return err;
    if (!row || db_column_i64(s, 5) < ty_now_ns())
        return session_unknown(x->id);
    session_load(s, x->arena, &x->session);
    return TY_OK;
}

/* ---- create ---- */

struct create {
    struct objects *o;
    const struct object_target *target;
    struct session session;
    struct ty_arena arena;
};

static ty_err create_check(struct db_conn *c, struct create *x)
{
    struct db_stmt *s;
    bool row = false;
    struct bucket_row b;
    ty_err err = bucket_find(c, &x->arena, x->target->bucket, &b);
    if (err == TY_OK && x->target->conditions && x->target->conditions->given) {
        struct row live;
        bool found = false;
        err = row_find_live(c, &x->arena, b.id, x->target->name, &live, &found);
        if (err == TY_OK)
            err = conditions_check(x->target->conditions, found, live.object.generation,
                                   live.object.metageneration, false);
    }
    if (err == TY_OK)
        err = db_prepare(c, "SELECT open FROM session_count", &s);
    if (err == TY_OK)
        err = db_step(s, &row);
    if (err == TY_OK && row && db_column_i64(s, 0) >= OBJECTS_SESSIONS)
        err = ty_fail(TY_RESOURCE_EXHAUSTED,
                      "%d resumable uploads are open already, which is the most: finish or cancel "
                      "some, or wait until they expire",
                      OBJECTS_SESSIONS);
    if (err == TY_OK && x->session.settings.storage_class.len == 0)
        x->session.settings.storage_class = b.storage_class;
    return err;
}

static ty_err create_fn(struct db_conn *c, void *arg)
{
    struct create *x = arg;
    struct db_stmt *s;
    ty_err err = create_check(c, x);
    if (err == TY_OK)
        err = db_prepare(c,
                         "INSERT INTO session (" SESSION_COLUMNS
                         ") VALUES (?1, ?2, ?3, ?4, 0, ?5, 0, 0, 0, ?6, 0, 0, 0, ?7, ?8, ?9, ?10, "
                         "?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)",
                         &s);
    if (err != TY_OK)
        return err;
    const struct session *n = &x->session;
    db_bind_str(s, 1, ty_str_of(n->shown.id));
    db_bind_str(s, 2, x->target->bucket);
    db_bind_str(s, 3, x->target->name);
    const int64_t numbers[] = {n->expect,
                               n->expect_md5[0],
                               n->expect_md5[1],
                               n->expect_crc32c,
                               n->conditions.given,
                               n->conditions.generation_match,
                               n->conditions.generation_not_match,
                               n->conditions.metageneration_match,
                               n->conditions.metageneration_not_match};
    db_bind_i64(s, 4, n->shown.size);
    db_bind_i64(s, 5, n->shown.expire_ns);
    db_bind_str(s, 6, ty_str_of(n->md5_state));
    for (int i = 0; i < (int)TY_COUNT(numbers); i++)
        db_bind_i64(s, 7 + i, numbers[i]);
    settings_bind(s, 16, &n->settings);
    return db_run(s);
}

ty_err objects_session_create(struct objects *o, const struct object_target *target, int64_t size,
                              const unsigned char *md5, const uint32_t *crc32c,
                              char ret_id[OBJECTS_SESSION_BYTES])
{
    ty_err err = target_check(target);
    if (err == TY_OK && (size < -1 || size > OBJECTS_OBJECT_BYTES))
        err = ty_fail(TY_INVALID_ARGUMENT, "an object of %" PRId64 " bytes cannot be", size);
    if (err != TY_OK)
        return err;
    struct create x = {.o = o, .target = target};
    x.session.shown.size = size;
    x.session.shown.expire_ns = ty_now_ns() + OBJECTS_SESSION_TTL_NS;
    x.session.settings = settings_dup(&x.arena, target->settings);
    if (target->conditions)
        x.session.conditions = *target->conditions;
    if (md5) {
        x.session.expect |= EXPECT_MD5;
        md5_to_ints(md5, &x.session.expect_md5[0], &x.session.expect_md5[1]);
    }
    if (crc32c) {
        x.session.expect |= EXPECT_CRC32C;
        x.session.expect_crc32c = *crc32c;
    }
    struct md5 start;
    md5_init(&start);
    md5_save(&start, x.session.md5_state);
    unsigned char random[16];
    ty_random(random, sizeof random);
    for (int i = 0; i < 16; i++)
        snprintf(x.session.shown.id + 2 * i, 3, "%02x", random[i]);
    err = bucket_explain(o, target->bucket, db_write(o->db, create_fn, &x));
    if (err == TY_OK)
        memcpy(ret_id, x.session.shown.id, OBJECTS_SESSION_BYTES);
    ty_arena_clear(&x.arena);
    return err;
}

ty_err objects_session_get(struct objects *o, struct ty_arena *a, ty_str id,
                           struct objects_session *ret_session)
{
    struct find x = {.arena = a, .id = id};
    ty_err err = db_read(o->db, find_fn, &x);
    if (err == TY_OK)
        *ret_session = x.session.shown;
    return err;
}

/* ---- resume and record ---- */

static ty_err resume_check(const struct session *n, int64_t offset, int64_t size)
{
    const struct objects_session *s = &n->shown;
    if (s->done)
        return ty_fail(TY_ABORTED, "this upload is finished already");
    if (offset < 0 || offset > s->offset)
        return ty_fail(TY_OUT_OF_RANGE,
                       "this upload has %" PRId64 " bytes; it cannot go on at byte %" PRId64,
                       s->offset, offset);
    if (size >= 0 && ((s->size >= 0 && s->size != size) || size < s->offset))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "this upload was declared with %" PRId64 " bytes and has %" PRId64
                       ": it cannot have %" PRId64,
                       s->size, s->offset, size);
    return TY_OK;
}

/* The file with exactly the recorded bytes. */
static ty_err resume_file(struct objects_upload *u)
{
    int flags = O_RDWR | (u->offset == 0 ? O_CREAT : 0);
    int err_no = file_open(u->o->staging_fd, u->stage, flags, 0600, &u->fd);
    if (err_no)
        return ty_fail_errno(err_no, "cannot open the staged bytes of an upload");
    struct stat st;
    if (fstat(u->fd, &st) != 0 || st.st_size < u->offset)
        return ty_fail(TY_DATA_LOSS, "the staged bytes of an upload are gone: begin it again");
    if (ftruncate(u->fd, u->offset) != 0 || lseek(u->fd, u->offset, SEEK_SET) < 0)
        return ty_fail_errno(errno, "cannot go on with the staged bytes of an upload");
    return TY_OK;
}

static uint64_t session_claim(ty_str id)
{
    return name_hash(TY_STR("/session"), id);
}

ty_err objects_session_resume(struct objects *o, ty_str id, int64_t offset, int64_t size,
                              struct objects_upload **ret_upload)
{
    struct ty_arena a = {0};
    struct find x = {.arena = &a, .id = id};
    struct objects_upload *u = NULL;
    if (id.len != STAGE_BYTES - 1)
        return session_unknown(id);
    uint64_t claim = session_claim(id);
    if (!claim_try(o, claim))
        return ty_fail(TY_ABORTED, "somebody else is sending bytes of this upload");
    ty_err err = db_read(o->db, find_fn, &x);
    if (err == TY_OK)
        err = resume_check(&x.session, offset, size);
    if (err != TY_OK)
        goto out;
    const struct session *n = &x.session;
    struct object_target target = {.bucket = n->shown.bucket,
                                   .name = n->shown.name,
                                   .conditions = &n->conditions,
                                   .settings = &n->settings};
    u = upload_new(o, &target);
    u->session = true;
    u->size = size >= 0 ? size : n->shown.size;
    u->offset = u->recorded = u->flushed = n->shown.offset;
    u->skip = n->shown.offset - offset;
    u->crc32c = n->crc32c;
    u->expect = n->expect;
    md5_from_ints(n->expect_md5[0], n->expect_md5[1], u->expect_md5);
    u->expect_crc32c = (uint32_t)n->expect_crc32c;
    md5_restore(n->md5_state, &u->md5);
    memcpy(u->stage, n->shown.id, STAGE_BYTES);
    err = resume_file(u);
out:
    ty_arena_clear(&a);
    if (err != TY_OK) {
        objects_upload_free(u);
        claim_release(o, claim, 0);
        return err;
    }
    u->claim = claim;
    *ret_upload = u;
    return TY_OK;
}

static ty_err record_fn(struct db_conn *c, void *arg)
{
    struct objects_upload *u = arg;
    struct db_stmt *s;
    char state[2 * sizeof(struct md5) + 1];
    ty_err err =
        db_prepare(c,
                   "UPDATE session SET offset = ?2, size = ?3, md5_state = ?4, crc32c = ?5 "
                   "WHERE id = ?1 AND done = 0",
                   &s);
    if (err != TY_OK)
        return err;
    md5_save(&u->md5, state);
    db_bind_str(s, 1, ty_str_of(u->stage));
    db_bind_i64(s, 2, u->offset);
    db_bind_i64(s, 3, u->size);
    db_bind_str(s, 4, ty_str_of(state));
    db_bind_i64(s, 5, u->crc32c);
    err = db_run(s);
    if (err == TY_OK && db_changes(c) == 0)
        err = session_unknown(ty_str_of(u->stage));
    return err;
}

ty_err session_record(struct objects_upload *u)
{
    ty_err err = ty_sync(u->fd);
    if (err == TY_OK)
        err = db_write(u->o->db, record_fn, u);
    if (err == TY_OK)
        u->recorded = u->offset;
    return err;
}

ty_err objects_upload_pause(struct objects_upload *u, int64_t *ret_offset)
{
    ty_assert(u->session && !u->finished);
    ty_err err = u->broken || u->offset == u->recorded ? TY_OK : session_record(u);
    if (err == TY_OK) /* what a broken one wrote since is cut off when it is taken up again */
        *ret_offset = u->recorded;
    return upload_failed(u, err);
}

/* ---- cancel and expire ---- */

/* One that is done leaves its file alone: that is the object's now. */
static ty_err drop(struct db_conn *c, ty_str id, bool *ret_done)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "DELETE FROM session WHERE id = ?1 RETURNING done", &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, id);
    err = db_step(s, &row);
    if (err == TY_OK && !row)
        err = session_unknown(id);
    if (err == TY_OK)
        *ret_done = db_column_i64(s, 0) != 0;
    return err;
}

struct cancel {
    ty_str id;
    bool done;
};

static ty_err cancel_fn(struct db_conn *c, void *arg)
{
    struct cancel *x = arg;
    return drop(c, x->id, &x->done);
}

ty_err objects_session_cancel(struct objects *o, ty_str id)
{
    struct cancel x = {.id = id};
    if (id.len != STAGE_BYTES - 1)
        return session_unknown(id);
    ty_err err = write_freeing(o, cancel_fn, &x);
    if (err == TY_OK && !x.done) /* one who is writing to it finds its row gone */
        stage_remove(o, id);
    return err;
}

struct expired {
    char ids[SETTLE_ROWS][STAGE_BYTES];
    bool done[SETTLE_ROWS];
    size_t count;
};

/* Past their time, or of a bucket that is gone. */
static ty_err expired_fn(struct db_conn *c, void *arg)
{
    struct expired *x = arg;
    struct db_stmt *s;
    bool row = false;
    x->count = 0;
    ty_err err = db_prepare(c,
                            "SELECT id FROM session WHERE expire_ns < ?1 OR bucket NOT IN "
                            "(SELECT name FROM bucket) LIMIT ?2",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, ty_now_ns());
    db_bind_i64(s, 2, SETTLE_ROWS);
    while ((err = db_step(s, &row)) == TY_OK && row)
        snprintf(x->ids[x->count++], STAGE_BYTES, TY_STR_FMT, TY_STR_ARG(db_column_str(s, 0)));
    for (size_t i = 0; i < x->count && err == TY_OK; i++)
        err = drop(c, ty_str_of(x->ids[i]), &x->done[i]);
    return err;
}

ty_err sessions_expire(struct objects *o)
{
    struct expired *x = malloc(sizeof *x);
    ty_assert(x);
    ty_err err;
    do {
        err = write_freeing(o, expired_fn, x);
        for (size_t i = 0; err == TY_OK && i < x->count; i++)
            if (!x->done[i])
                stage_remove(o, ty_str_of(x->ids[i]));
    } while (err == TY_OK && x->count == SETTLE_ROWS);
    free(x);
    return err;
}
