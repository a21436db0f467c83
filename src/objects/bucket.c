/* bucket.c -- buckets: rows with settings, and a folder each. */
#include "objects/objects_int.h"

#define BUCKET_COLUMNS                                                                             \
    "name, project, location, storage_class, create_ns, update_ns, metageneration, versioning, "   \
    "soft_delete_s, soft_delete_ns, labels, lifecycle, iam, extra"

static void bucket_load(struct db_stmt *s, struct ty_arena *a, struct bucket *ret)
{
    *ret = (struct bucket){
        .name = ty_str_dup(a, db_column_str(s, 0)),
        .project = ty_str_dup(a, db_column_str(s, 1)),
        .location = ty_str_dup(a, db_column_str(s, 2)),
        .storage_class = ty_str_dup(a, db_column_str(s, 3)),
        .create_ns = db_column_i64(s, 4),
        .update_ns = db_column_i64(s, 5),
        .metageneration = db_column_i64(s, 6),
        .versioning = db_column_i64(s, 7) != 0,
        .soft_delete_s = db_column_i64(s, 8),
        .soft_delete_ns = db_column_i64(s, 9),
        .labels = ty_str_dup(a, db_column_str(s, 10)),
        .lifecycle = ty_str_dup(a, db_column_str(s, 11)),
        .iam = ty_str_dup(a, db_column_str(s, 12)),
        .extra = ty_str_dup(a, db_column_str(s, 13)),
    };
}

static ty_err bucket_check(const struct bucket *b)
{
    const struct {
        const char *name;
        ty_str value;
        size_t most;
    } fields[] = {
        {"project", b->project, OBJECTS_FIELD_BYTES},
        {"location", b->location, OBJECTS_FIELD_BYTES},
        {"storageClass", b->storage_class, OBJECTS_FIELD_BYTES},
        {"labels", b->labels, OBJECTS_SETTINGS_BYTES},
        {"lifecycle", b->lifecycle, OBJECTS_SETTINGS_BYTES},
        {"the IAM policy", b->iam, OBJECTS_SETTINGS_BYTES},
        {"the settings", b->extra, OBJECTS_SETTINGS_BYTES},
    };
    for (size_t i = 0; i < TY_COUNT(fields); i++)
        if (fields[i].value.len > fields[i].most)
            return ty_fail(TY_INVALID_ARGUMENT, "%s: has %zu bytes; at most %zu are allowed",
                           fields[i].name, fields[i].value.len, fields[i].most);
    if (b->soft_delete_s < 0 || b->soft_delete_s > 90 * 86400)
        return ty_fail(
            TY_INVALID_ARGUMENT,
            "softDeletePolicy.retentionDurationSeconds: must be 0 to 90 days, not %" PRId64 " s",
            b->soft_delete_s);
    return b->lifecycle.len > 0 ? lifecycle_check(b->lifecycle) : TY_OK;
}

/* ---- insert ---- */

static ty_err insert_fn(struct db_conn *c, void *arg)
{
    const struct bucket *b = arg;
    struct db_stmt *s;
    ty_err err =
        db_prepare(c,
                   "INSERT INTO bucket (" BUCKET_COLUMNS
                   ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                   &s);
    if (err != TY_OK)
        return err;
    const ty_str texts[] = {b->name, b->project, b->location, b->storage_class};
    const int64_t numbers[] = {b->create_ns,  b->update_ns,     b->metageneration,
                               b->versioning, b->soft_delete_s, b->soft_delete_ns};
    const ty_str settings[] = {b->labels, b->lifecycle, b->iam, b->extra};
    for (int i = 0; i < (int)TY_COUNT(texts); i++)
        db_bind_str(s, 1 + i, texts[i]);
    for (int i = 0; i < (int)TY_COUNT(numbers); i++)
        db_bind_i64(s, 5 + i, numbers[i]);
    for (int i = 0; i < (int)TY_COUNT(settings); i++)
        db_bind_str(s, 11 + i, settings[i]);
    err = db_run(s);
    if (err == TY_ALREADY_EXISTS)
        err = ty_fail(TY_ALREADY_EXISTS, "the bucket '" TY_STR_FMT "' exists already",
                      TY_STR_ARG(b->name));
    return err;
}

ty_err objects_bucket_insert(struct objects *o, struct bucket *b)
{
    struct bucket made = *b;
    ty_err err = objects_bucket_name_check(b->name);
    if (err == TY_OK)
        err = bucket_check(b);
    if (err != TY_OK)
        return err;
    made.create_ns = made.update_ns = ty_now_ns();
    made.metageneration = 1;
    made.soft_delete_ns = made.soft_delete_s > 0 ? made.create_ns : 0;
    if (made.storage_class.len == 0)
        made.storage_class = TY_STR("STANDARD");
    if (made.location.len == 0)
        made.location = TY_STR("US");
    err = db_write(o->db, insert_fn, &made);
    if (err != TY_OK)
        return err;
    struct ty_arena a = {0};
    /* Not worth failing for: an upload makes it again, and so does the next start. */
    if (ty_mkdirs(objects_bucket_path(o, &a, b->name), 0700) != TY_OK)
        log_warn("objects.bucket", "error=\"%s\"", ty_err_message());
    ty_arena_clear(&a);
    *b = made;
    return TY_OK;
}

/* ---- get and list ---- */

struct get {
    struct ty_arena *arena;
    ty_str name;
    const struct object_conditions *conditions;
    bucket_edit edit;
    void *arg;
    struct bucket bucket;
    bool sweeps; /* set by a patch: what goes by itself has changed */
};

static ty_err get_row(struct db_conn *c, struct get *x, bool reading)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, "SELECT " BUCKET_COLUMNS " FROM bucket WHERE name = ?1", &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->name);
    err = db_step(s, &row);
    if (err == TY_OK && !row)
        err = ty_fail(TY_NOT_FOUND, "the bucket '" TY_STR_FMT "' does not exist",
                      TY_STR_ARG(x->name));
    if (err != TY_OK)
        return err;
    bucket_load(s, x->arena, &x->bucket);
    return conditions_check(x->conditions, true, 0, x->bucket.metageneration, reading);
}

static ty_err get_fn(struct db_conn *c, void *arg)
{
    return get_row(c, arg, true);
}

ty_err objects_bucket_get(struct objects *o, struct ty_arena *a, ty_str name,
                          const struct object_conditions *conditions, struct bucket *ret_bucket)
{
    struct get x = {.arena = a, .name = name, .conditions = conditions};
    ty_err err = bucket_explain(o, name, db_read(o->db, get_fn, &x));
    if (err == TY_OK)
        *ret_bucket = x.bucket;
    return err;
}

struct list {
    struct ty_arena *arena;
    ty_str project, prefix, after;
    size_t limit, count;
    struct bucket *buckets;
    bool more;
};

static ty_err list_fn(struct db_conn *c, void *arg)
{
    struct list *x = arg;
    struct db_stmt *s;
    bool row = false;
    ty_err err =
        db_prepare(c,
                   "SELECT " BUCKET_COLUMNS
                   " FROM bucket WHERE name > ?1 AND name >= ?2 AND name < ?3 AND (?4 = '' OR "
                   "project = ?4) ORDER BY name LIMIT ?5",
                   &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->after);
    db_bind_str(s, 2, x->prefix);
    db_bind_str(s, 3, ty_str_of(ty_format(x->arena, TY_STR_FMT "\xff", TY_STR_ARG(x->prefix))));
    db_bind_str(s, 4, x->project);
    db_bind_i64(s, 5, (int64_t)x->limit + 1);
    while ((err = db_step(s, &row)) == TY_OK && row && !x->more) {
        x->more = x->count == x->limit;
        if (!x->more)
            bucket_load(s, x->arena, &x->buckets[x->count++]);
    }
    return err;
}

ty_err objects_bucket_list(struct objects *o, struct ty_arena *a, ty_str project, ty_str prefix,
                           ty_str after, size_t limit, struct bucket **ret_buckets,
                           size_t *ret_count, bool *ret_more)
{
    struct list x = {.arena = a,
                     .project = project,
                     .prefix = prefix,
                     .after = after,
                     .limit = limit == 0 || limit > OBJECTS_PAGE ? OBJECTS_PAGE : limit};
    x.buckets = ty_new_array(a, struct bucket, x.limit);
    ty_err err = db_read(o->db, list_fn, &x);
    if (err == TY_OK) {
        *ret_buckets = x.buckets;
        *ret_count = x.count;
        *ret_more = x.more;
    }
    return err;
}

/* ---- patch ---- */

static ty_err patch_fn(struct db_conn *c, void *arg)
{
    struct get *x = arg;
    struct bucket *b = &x->bucket;
    ty_err err = get_row(c, x, false);
    if (err != TY_OK)
        return err;
    int64_t soft_delete_s = b->soft_delete_s;
    ty_str lifecycle = b->lifecycle;
    err = x->edit(x->arena, b, x->arg);
    if (err == TY_OK)
        err = bucket_check(b);
    if (err != TY_OK)
        return err;
    x->sweeps = b->soft_delete_s != soft_delete_s || !ty_str_eq(b->lifecycle, lifecycle);
    b->update_ns = ty_now_ns();
    b->metageneration++;
    if (b->soft_delete_s != soft_delete_s)
        b->soft_delete_ns = b->soft_delete_s > 0 ? b->update_ns : 0;
    struct db_stmt *s;
    err = db_prepare(c,
                     "UPDATE bucket SET storage_class = ?2, update_ns = ?3, metageneration = ?4, "
                     "versioning = ?5, soft_delete_s = ?6, soft_delete_ns = ?7, labels = ?8, "
                     "lifecycle = ?9, iam = ?10, extra = ?11 WHERE name = ?1",
                     &s);
    if (err != TY_OK)
        return err;
    db_bind_str(s, 1, x->name);
    db_bind_str(s, 2, b->storage_class);
    db_bind_i64(s, 3, b->update_ns);
    db_bind_i64(s, 4, b->metageneration);
    db_bind_i64(s, 5, b->versioning);
    db_bind_i64(s, 6, b->soft_delete_s);
    db_bind_i64(s, 7, b->soft_delete_ns);
    db_bind_str(s, 8, b->labels);
    db_bind_str(s, 9, b->lifecycle);
    db_bind_str(s, 10, b->iam);
    db_bind_str(s, 11, b->extra);
    return db_run(s);
}

ty_err objects_bucket_patch(struct objects *o, struct ty_arena *a, ty_str name,
                            const struct object_conditions *conditions, bucket_edit edit, void *arg,
                            struct bucket *ret_bucket)
{
    struct get x = {.arena = a, .name = name, .conditions = conditions, .edit = edit, .arg = arg};
    ty_err err = bucket_explain(o, name, db_write(o->db, patch_fn, &x));
    if (err != TY_OK)
        return err;
    if (x.sweeps)
        sweep_soon(o);
    *ret_bucket = x.bucket;
    return TY_OK;
}

/* ---- delete ---- */

static ty_err run_on_id(struct db_conn *c, const char *sql, int64_t id)
{
    struct db_stmt *s;
    ty_err err = db_prepare(c, sql, &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, id);
    return db_run(s);
}

static ty_err delete_fn(struct db_conn *c, void *arg)
{
    struct get *x = arg;
    struct bucket_row b;
    struct db_stmt *s;
    bool row = false;
    ty_err err = get_row(c, x, false);
    if (err == TY_OK)
        err = bucket_find(c, x->arena, x->name, &b);
    if (err == TY_OK)
        err = db_prepare(c,
                         "SELECT 1 FROM object WHERE bucket = ?1 UNION ALL "
                         "SELECT 1 FROM old WHERE bucket = ?1 AND soft = 0 LIMIT 1",
                         &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, b.id);
    err = db_step(s, &row);
    if (err == TY_OK && row)
        err = ty_fail(TY_ABORTED, "the bucket you tried to delete is not empty: '" TY_STR_FMT "'",
                      TY_STR_ARG(x->name));
    if (err == TY_OK)
        err = run_on_id(c, "DELETE FROM old WHERE bucket = ?1", b.id);
    if (err == TY_OK)
        err = run_on_id(c, "DELETE FROM folder WHERE bucket = ?1", b.id);
    return err ? err : run_on_id(c, "DELETE FROM bucket WHERE id = ?1", b.id);
}

ty_err objects_bucket_delete(struct objects *o, ty_str name,
                             const struct object_conditions *conditions)
{
    ty_err err = objects_scan(o, name); /* files that have no row yet count as well */
    if (err != TY_OK)
        return err;
    struct ty_arena a = {0};
    struct get x = {.arena = &a, .name = name, .conditions = conditions};
    err = write_freeing(o, delete_fn, &x);
    if (err == TY_OK) {
        const char *bucket = ty_cstr(&a, name);
        folders_remove(o->buckets_fd, bucket); /* a start does what is left of this */
        if (ty_remove_tree(o->odd_fd, bucket) != TY_OK)
            log_warn("objects.bucket", "error=\"%s\"", ty_err_message());
        if (sessions_expire(o) != TY_OK) /* the next sweep does */
            log_warn("objects.bucket", "error=\"%s\"", ty_err_message());
    }
    ty_arena_clear(&a);
    return err;
}
