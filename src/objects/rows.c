/* rows.c -- rows to structs and back, conditions, and rows against what the disk says. */
#include "objects/objects_int.h"

static ty_str column_dup(struct db_stmt *s, struct ty_arena *a, int n)
{
    return ty_str_dup(a, db_column_str(s, n));
}

void md5_to_ints(const unsigned char md5[16], int64_t *ret_a, int64_t *ret_b)
{
    memcpy(ret_a, md5, 8);
    memcpy(ret_b, md5 + 8, 8);
}

void md5_from_ints(int64_t a, int64_t b, unsigned char md5[16])
{
    memcpy(md5, &a, 8);
    memcpy(md5 + 8, &b, 8);
}

/* ---- settings ---- */

void settings_load(struct db_stmt *s, int first, struct ty_arena *a,
                   struct object_settings *ret_settings)
{
    *ret_settings = (struct object_settings){
        .content_type = column_dup(s, a, first),
        .content_encoding = column_dup(s, a, first + 1),
        .content_disposition = column_dup(s, a, first + 2),
        .content_language = column_dup(s, a, first + 3),
        .cache_control = column_dup(s, a, first + 4),
        .storage_class = column_dup(s, a, first + 5),
        .metadata = column_dup(s, a, first + 6),
        .custom_time_ns = db_column_i64(s, first + 7),
    };
}

void settings_bind(struct db_stmt *s, int first, const struct object_settings *settings)
{
    db_bind_str(s, first, settings->content_type);
    db_bind_str(s, first + 1, settings->content_encoding);
    db_bind_str(s, first + 2, settings->content_disposition);
    db_bind_str(s, first + 3, settings->content_language);
    db_bind_str(s, first + 4, settings->cache_control);
    db_bind_str(s, first + 5, settings->storage_class);
    db_bind_str(s, first + 6, settings->metadata);
    db_bind_i64(s, first + 7, settings->custom_time_ns);
}

struct object_settings settings_dup(struct ty_arena *a, const struct object_settings *x)
{
    if (!x)
        return (struct object_settings){0};
    return (struct object_settings){
        .content_type = ty_str_dup(a, x->content_type),
        .content_encoding = ty_str_dup(a, x->content_encoding),
        .content_disposition = ty_str_dup(a, x->content_disposition),
        .content_language = ty_str_dup(a, x->content_language),
        .cache_control = ty_str_dup(a, x->cache_control),
        .storage_class = ty_str_dup(a, x->storage_class),
        .metadata = ty_str_dup(a, x->metadata),
        .custom_time_ns = x->custom_time_ns,
    };
}

ty_err settings_check(const struct object_settings *x)
{
    const struct {
        const char *name;
        ty_str value;
        size_t most;
    } fields[] = {
        {"contentType", x->content_type, OBJECTS_FIELD_BYTES},
        {"contentEncoding", x->content_encoding, OBJECTS_FIELD_BYTES},
        {"contentDisposition", x->content_disposition, OBJECTS_FIELD_BYTES},
        {"contentLanguage", x->content_language, OBJECTS_FIELD_BYTES},
        {"cacheControl", x->cache_control, OBJECTS_FIELD_BYTES},
        {"storageClass", x->storage_class, OBJECTS_FIELD_BYTES},
        {"metadata", x->metadata, OBJECTS_METADATA_BYTES},
    };
    for (size_t i = 0; i < TY_COUNT(fields); i++) {
        if (fields[i].value.len > fields[i].most)
            return ty_fail(TY_INVALID_ARGUMENT,
                           "%s has %zu bytes; at most %zu are allowed: make it shorter",
                           fields[i].name, fields[i].value.len, fields[i].most);
        if (fields[i].value.len > 0 && (!ty_utf8_valid(fields[i].value) ||
                                        memchr(fields[i].value.ptr, '\0', fields[i].value.len)))
            return ty_fail(TY_INVALID_ARGUMENT, "%s must be valid UTF-8 without NUL",
                           fields[i].name);
    }
    return TY_OK;
}

/* ---- rows ---- */

void row_load(struct db_stmt *s, struct ty_arena *a, struct row *ret_row)
{
    int64_t hashes = db_column_i64(s, 9);
    *ret_row = (struct row){
        .bucket_id = db_column_i64(s, 0),
        .object = {.name = column_dup(s, a, 1),
                   .generation = db_column_i64(s, 2),
                   .metageneration = db_column_i64(s, 3),
                   .size = db_column_i64(s, 4),
                   .create_ns = db_column_i64(s, 5),
                   .update_ns = db_column_i64(s, 6),
                   .delete_ns = db_column_i64(s, 7),
                   .soft_deleted = db_column_i64(s, 8) != 0,
                   .has_md5 = hashes & 1,
                   .has_crc32c = hashes & 2,
                   .crc32c = (uint32_t)db_column_i64(s, 12),
                   .components = (int)db_column_i64(s, 13),
                   .mtime_ns = db_column_i64(s, 17)},
        .place = (enum place)db_column_i64(s, 14),
        .stage = column_dup(s, a, 15),
        .ino = db_column_i64(s, 16),
        .ctime_ns = db_column_i64(s, 18),
    };
    md5_from_ints(db_column_i64(s, 10), db_column_i64(s, 11), ret_row->object.md5);
    settings_load(s, ROW_SETTINGS, a, &ret_row->object.settings);
}

ty_err bucket_explain(const struct objects *o, ty_str name, ty_err err)
{
    char folder[256], missing[300];
    struct stat st;
    if (err != TY_NOT_FOUND || name.len == 0 || name.len >= sizeof(folder) || name.ptr[0] == '.' ||
        memchr(name.ptr, '/', name.len) != NULL || memchr(name.ptr, '\0', name.len) != NULL)
        return err;
    snprintf(folder, sizeof(folder), TY_STR_FMT, TY_STR_ARG(name));
    snprintf(missing, sizeof(missing), "the bucket '%s' does not exist", folder);
    if (strcmp(ty_err_message(), missing) != 0 ||
        fstatat(o->buckets_fd, folder, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
        return err;
    return ty_fail(err,
                   "%s; there is a folder of that name in the data folder's buckets/: 'trainyard "
                   "storage buckets create gs://%s' makes it a bucket, with its files",
                   missing, folder);
}

ty_err bucket_find(struct db_conn *c, struct ty_arena *a, ty_str name,
                   struct bucket_row *ret_bucket)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(
        c, "SELECT id, versioning, soft_delete_s, storage_class FROM bucket WHERE name = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, name);
    err = db_step(s, &row);
    if (err == TY_OK && !row)
        err = ty_fail(TY_NOT_FOUND, "the bucket '" TY_STR_FMT "' does not exist", TY_STR_ARG(name));
    if (err == TY_OK)
        *ret_bucket = (struct bucket_row){.id = db_column_i64(s, 0),
                                          .versioning = db_column_i64(s, 1) != 0,
                                          .soft_delete_s = db_column_i64(s, 2),
                                          .storage_class = column_dup(s, a, 3)};
    return err;
}

static ty_err row_find(struct db_stmt *s, struct ty_arena *a, struct row *ret_row, bool *ret_found)
{
    bool found = false;
    ty_err err = db_step(s, &found);
    if (err == TY_OK && found)
        row_load(s, a, ret_row);
    if (err == TY_OK)
        *ret_found = found;
    return err;
}

ty_err row_find_live(struct db_conn *c, struct ty_arena *a, int64_t bucket_id, ty_str name,
                     struct row *ret_row, bool *ret_found)
{
    struct db_stmt *s;
    ty_err err =
        db_prepare(c, "SELECT " ROW_COLUMNS " FROM object WHERE bucket = ?1 AND name = ?2", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, bucket_id);
    db_bind_str(s, 2, name);
    return row_find(s, a, ret_row, ret_found);
}

ty_err row_find_old(struct db_conn *c, struct ty_arena *a, int64_t bucket_id, ty_str name,
                    int64_t generation, struct row *ret_row, bool *ret_found)
{
    struct db_stmt *s;
    ty_err err = db_prepare(
        c, "SELECT " ROW_COLUMNS " FROM old WHERE bucket = ?1 AND name = ?2 AND generation = ?3",
        &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, bucket_id);
    db_bind_str(s, 2, name);
    db_bind_i64(s, 3, generation);
    return row_find(s, a, ret_row, ret_found);
}

#define ROW_VALUES                                                                                 \
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "   \
    "?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)"

ty_err row_insert(struct db_conn *c, bool old, const struct row *row)
{
    const struct object *x = &row->object;
    struct db_stmt *s;
    ty_err err = db_prepare(c,
                            old ? "INSERT INTO old (" ROW_COLUMNS ")" ROW_VALUES
                                : "INSERT OR REPLACE INTO object (" ROW_COLUMNS ")" ROW_VALUES,
                            &s);
    if (err != TY_OK)
        return err;
    int64_t md5_a, md5_b;
    md5_to_ints(x->md5, &md5_a, &md5_b);
    const int64_t numbers[] = {x->generation,
                               x->metageneration,
                               x->size,
                               x->create_ns,
                               x->update_ns,
                               x->delete_ns,
                               x->soft_deleted,
                               x->has_md5 | x->has_crc32c << 1,
                               md5_a,
                               md5_b,
                               x->crc32c,
                               x->components,
                               (int64_t)row->place};
    db_bind_i64(s, 1, row->bucket_id);
    db_bind_str(s, 2, x->name);
    for (int i = 0; i < (int)TY_COUNT(numbers); i++)
        db_bind_i64(s, 3 + i, numbers[i]);
    db_bind_str(s, 16, row->stage);
    db_bind_i64(s, 17, row->ino);
    db_bind_i64(s, 18, x->mtime_ns);
    db_bind_i64(s, 19, row->ctime_ns);
    settings_bind(s, 20, &x->settings);
    return db_run(s);
}

ty_err row_delete(struct db_conn *c, bool old, const struct row *row)
{
    struct db_stmt *s;
    ty_err err =
        db_prepare(c,
                   old ? "DELETE FROM old WHERE bucket = ?1 AND name = ?2 AND generation = ?3"
                       : "DELETE FROM object WHERE bucket = ?1 AND name = ?2 AND generation = ?3",
                   &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, row->bucket_id);
    db_bind_str(s, 2, row->object.name);
    db_bind_i64(s, 3, row->object.generation);
    return db_run(s);
}

ty_err removal_insert(struct db_conn *c, ty_str bucket, const struct row *row)
{
    struct db_stmt *s;
    ty_err err = db_prepare(c,
                            "INSERT INTO removal (bucket, name, generation, place, ino, mtime_ns, "
                            "stage) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, bucket);
    db_bind_str(s, 2, row->object.name);
    db_bind_i64(s, 3, row->object.generation);
    db_bind_i64(s, 4, (int64_t)row->place);
    db_bind_i64(s, 5, row->ino);
    db_bind_i64(s, 6, row->object.mtime_ns);
    db_bind_str(s, 7, row->stage);
    return db_run(s);
}

/* ---- generations: microseconds, growing (O3) ---- */

int64_t generation_next(struct objects *o)
{
    int64_t now_us = ty_now_ns() / 1000;
    o->last_generation = now_us > o->last_generation ? now_us : o->last_generation + 1;
    return o->last_generation;
}

ty_err generation_save(struct db_conn *c, struct objects *o)
{
    struct db_stmt *s;
    ty_err err = db_prepare(c, "UPDATE clock SET generation = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, o->last_generation);
    return db_run(s);
}

/* ---- conditions ---- */

static ty_err condition_failed(const char *name, int64_t wanted, int64_t have)
{
    return ty_fail(TY_FAILED_PRECONDITION,
                   "at least one of the pre-conditions you specified did not hold: %s=%" PRId64
                   ", and it is %" PRId64,
                   name, wanted, have);
}

ty_err conditions_check(const struct object_conditions *c, bool exists, int64_t generation,
                        int64_t metageneration, bool reading)
{
    if (!c || !c->given)
        return TY_OK;
    int64_t have = exists ? generation : 0, have_meta = exists ? metageneration : 0;
    if (c->given & OBJECTS_IF_GENERATION && c->generation_match != have)
        return condition_failed("ifGenerationMatch", c->generation_match, have);
    if (c->given & OBJECTS_IF_METAGENERATION && c->metageneration_match != have_meta)
        return condition_failed("ifMetagenerationMatch", c->metageneration_match, have_meta);
    bool same = c->given & OBJECTS_IF_GENERATION_NOT && c->generation_not_match == have;
    bool same_meta =
        c->given & OBJECTS_IF_METAGENERATION_NOT && c->metageneration_not_match == have_meta;
    if (!same && !same_meta)
        return TY_OK;
    if (reading)
        return ty_fail(TY_ABORTED, "not modified");
    return same ? condition_failed("ifGenerationNotMatch", c->generation_not_match, have)
                : condition_failed("ifMetagenerationNotMatch", c->metageneration_not_match,
                                   have_meta);
}

ty_err object_not_found(ty_str bucket, ty_str name, int64_t generation)
{
    if (generation)
        return ty_fail(TY_NOT_FOUND, "no such object: " TY_STR_FMT "/" TY_STR_FMT "#%" PRId64,
                       TY_STR_ARG(bucket), TY_STR_ARG(name), generation);
    return ty_fail(TY_NOT_FOUND, "no such object: " TY_STR_FMT "/" TY_STR_FMT, TY_STR_ARG(bucket),
                   TY_STR_ARG(name));
}

/* ---- rows and the disk ---- */

enum verdict row_judge(const struct row *row, const struct seen *seen)
{
    if (row->stage.len > 0 && (row->place != PLACE_NICE || row->ino != seen->ino))
        return VERDICT_SAME; /* on its way: nobody else has seen it */
    if (row->place == PLACE_DIR)
        return seen->kind == SEEN_FOLDER ? VERDICT_SAME : VERDICT_GONE;
    if (row->place != PLACE_NICE)
        return VERDICT_SAME;
    if (seen->kind != SEEN_FILE)
        return VERDICT_GONE;
    bool same = row->ino == seen->ino && row->object.size == seen->size &&
                row->object.mtime_ns == seen->mtime_ns &&
                (row->ctime_ns <= 0 || row->ctime_ns == seen->ctime_ns);
    return same ? VERDICT_SAME : VERDICT_CHANGED;
}

/* A file that somebody else made or wrote: a new generation, without hashes until they are asked
 * for. */
static ty_err row_adopt(struct db_conn *c, struct objects *o, int64_t bucket_id, ty_str name,
                        const struct seen *seen, const struct row *before, struct row *ret_row)
{
    struct row row = {.bucket_id = bucket_id,
                      .object = {.name = name,
                                 .generation = generation_next(o),
                                 .metageneration = 1,
                                 .size = seen->size,
                                 .create_ns = seen->mtime_ns,
                                 .update_ns = seen->mtime_ns,
                                 .mtime_ns = seen->mtime_ns},
                      .place = PLACE_NICE,
                      .ino = seen->ino,
                      .ctime_ns = seen->ctime_ns};
    if (before)
        row.object.settings = before->object.settings;
    ty_err err = generation_save(c, o);
    if (err == TY_OK)
        err = row_insert(c, false, &row);
    if (err == TY_OK)
        *ret_row = row;
    return err;
}

/* A file that we ourselves are about to remove or move away is nobody's new object. */
static ty_err is_leaving(struct db_conn *c, int64_t bucket_id, ty_str name, const struct seen *seen,
                         bool *ret_leaving)
{
    struct db_stmt *s;
    ty_err err = db_prepare(
        c,
        "SELECT 1 FROM removal WHERE ino = ?3 AND mtime_ns = ?4 AND name = ?2 AND bucket "
        "= (SELECT name FROM bucket WHERE id = ?1) UNION ALL SELECT 1 FROM old WHERE "
        "bucket = ?1 AND name = ?2 AND stage <> '' AND ino = ?3 AND mtime_ns = ?4",
        &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, bucket_id);
    db_bind_str(s, 2, name);
    db_bind_i64(s, 3, seen->ino);
    db_bind_i64(s, 4, seen->mtime_ns);
    return db_step(s, ret_leaving);
}

ty_err row_follow(struct db_conn *c, struct objects *o, int64_t bucket_id, ty_str name,
                  const struct seen *seen, struct row *row, bool *found)
{
    enum verdict verdict = *found ? row_judge(row, seen) : VERDICT_GONE;
    if (verdict == VERDICT_SAME && row->place == PLACE_NICE && row->ino != seen->ino &&
        !stage_exists(o, row->stage)) /* not on its way any more, and not there either */
        verdict = seen->kind == SEEN_FILE ? VERDICT_CHANGED : VERDICT_GONE;
    if (verdict == VERDICT_SAME)
        return TY_OK;
    ty_err err = TY_OK;
    bool leaving = false, was = *found;
    if (was && verdict == VERDICT_GONE) {
        err = row_delete(c, false, row);
        *found = false;
    }
    bool file = seen->kind == SEEN_FILE && !ty_str_ends(name, TY_STR("/"));
    if (err == TY_OK && file)
        err = is_leaving(c, bucket_id, name, seen, &leaving);
    if (err == TY_OK && file && !leaving) {
        err = row_adopt(c, o, bucket_id, name, seen, verdict == VERDICT_CHANGED ? row : NULL, row);
        *found = err == TY_OK;
    }
    if (was || *found)
        __atomic_add_fetch(&o->followed, 1, __ATOMIC_RELAXED);
    return err;
}

struct follow {
    struct objects *o;
    struct ty_arena arena;
    ty_str bucket, name;
    struct seen seen;
};

static ty_err follow_fn(struct db_conn *c, void *arg)
{
    struct follow *x = arg;
    struct bucket_row b;
    struct row row;
    bool found = false;
    ty_err err = bucket_find(c, &x->arena, x->bucket, &b);
    if (err == TY_OK)
        err = row_find_live(c, &x->arena, b.id, x->name, &row, &found);
    return err ? err : row_follow(c, x->o, b.id, x->name, &x->seen, &row, &found);
}

/* A file whose mtime is that young may be written again without its time changing: look again when
 * it has aged. */
static void see_aged(struct objects *o, ty_str bucket, ty_str name, struct seen *seen)
{
    *seen = file_see(o, bucket, name);
    int64_t age_ns = ty_now_ns() - seen->mtime_ns;
    if (seen->kind != SEEN_FILE || age_ns < 0 || age_ns >= FRESH_NS)
        return;
    usleep((useconds_t)((FRESH_NS - age_ns) / 1000 + 1));
    *seen = file_see(o, bucket, name);
}

ty_err refresh(struct objects *o, ty_str bucket, ty_str name)
{
    struct follow x = {.o = o, .bucket = bucket, .name = name};
    uint64_t claim = name_hash(bucket, name);
    ty_err err = claim_take(o, claim, 0);
    if (err != TY_OK)
        return err;
    see_aged(o, bucket, name, &x.seen);
    err = bucket_explain(o, x.bucket, write_freeing(o, follow_fn, &x));
    claim_release(o, claim, 0);
    ty_arena_clear(&x.arena);
    return err;
}
