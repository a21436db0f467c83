/* settle.c -- what happens after a write has returned: settling, the hourly sweep; and recovery.
 *
 * Settling makes a rename as durable as its row, then says so: the folders are synced, and in one
 * commit for many rows `stage` becomes empty and ctime is recorded (a rename changes it, so it is
 * known only now). A row stays unsettled while its file is still in staging/; one whose rename had
 * failed is tried again. Until it is settled a row is believed without its ctime.
 *
 * A start does the same for every unsettled row and removal before anybody calls, then removes what
 * no row names: files of staging/, folders of buckets that are gone. */
#include "objects/objects_int.h"

struct unsettled {
    bool old;
    ty_str bucket;
    struct row row;
    int64_t ctime_ns;
    bool done;
};

struct pending {
    struct objects *o;
    struct ty_arena arena;
    bool old; /* old rows and removals first: a live one's rename would go over their files */
    struct unsettled rows[SETTLE_ROWS];
    size_t count;
    struct {
        int64_t id;
        ty_str bucket;
        struct row row;
        bool done;
    } removals[SETTLE_ROWS];
    size_t removal_count;
    int64_t removal_after;
    /* folders synced in this batch */
    char synced[16][PATH_BYTES];
    size_t synced_count;
};

/* ---- reading what is pending ---- */

#define PREFIXED_COLUMNS                                                                           \
    "t.bucket, t.name, t.generation, t.metageneration, t.size, t.create_ns, t.update_ns, "         \
    "t.delete_ns, t.soft, t.hashes, t.md5_a, t.md5_b, t.crc32c, t.components, t.place, t.stage, "  \
    "t.ino, t.mtime_ns, t.ctime_ns, t.content_type, t.content_encoding, t.content_disposition, "   \
    "t.content_language, t.cache_control, t.storage_class, t.metadata, t.custom_time_ns"
#define UNSETTLED(table)                                                                           \
    "SELECT " PREFIXED_COLUMNS ", bucket.name FROM " table                                         \
    " t JOIN bucket ON bucket.id = t.bucket WHERE t.stage <> '' ORDER BY t.stage LIMIT ?1"

static ty_err read_table(struct db_conn *c, struct pending *x, bool old)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c, old ? UNSETTLED("old") : UNSETTLED("object"), &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, SETTLE_ROWS);
    while ((err = db_step(s, &row)) == TY_OK && row) {
        struct unsettled *u = &x->rows[x->count++];
        *u = (struct unsettled){.old = old};
        row_load(s, &x->arena, &u->row);
        u->bucket = ty_str_dup(&x->arena, db_column_str(s, ROW_SETTINGS + SETTINGS_COUNT));
    }
    return err;
}

static ty_err read_removals(struct db_conn *c, struct pending *x)
{
    struct db_stmt *s;
    bool row = false;
    ty_err err = db_prepare(c,
                            "SELECT id, bucket, name, generation, place, ino, mtime_ns, stage FROM "
                            "removal WHERE id > ?1 ORDER BY id LIMIT ?2",
                            &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->removal_after);
    db_bind_i64(s, 2, SETTLE_ROWS);
    while ((err = db_step(s, &row)) == TY_OK && row) {
        size_t i = x->removal_count++;
        x->removals[i].id = db_column_i64(s, 0);
        x->removals[i].bucket = ty_str_dup(&x->arena, db_column_str(s, 1));
        x->removals[i].done = false;
        x->removals[i].row =
            (struct row){.object = {.name = ty_str_dup(&x->arena, db_column_str(s, 2)),
                                    .generation = db_column_i64(s, 3),
                                    .mtime_ns = db_column_i64(s, 6)},
                         .place = (enum place)db_column_i64(s, 4),
                         .ino = db_column_i64(s, 5),
                         .stage = ty_str_dup(&x->arena, db_column_str(s, 7))};
    }
    return err;
}

static ty_err pending_fn(struct db_conn *c, void *arg)
{
    struct pending *x = arg;
    x->count = x->removal_count = 0;
    ty_err err = read_table(c, x, x->old);
    return err == TY_OK && x->old ? read_removals(c, x) : err;
}

/* ---- settling one ---- */

static ty_err sync_parent(struct pending *x, int root, const char *path)
{
    char key[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(key, sizeof key, "%d/%.*s", root, slash ? (int)(slash - path) : 0, path);
    for (size_t i = 0; i < x->synced_count; i++)
        if (strcmp(x->synced[i], key) == 0)
            return TY_OK;
    int fd;
    const char *leaf;
    if (file_parent(root, path, false, &fd, &leaf) != 0)
        return TY_OK; /* gone: nothing to make durable */
    ty_err err = ty_sync(fd);
    close(fd);
    if (err == TY_OK && x->synced_count < TY_COUNT(x->synced))
        memcpy(x->synced[x->synced_count++], key, sizeof key);
    return err;
}

struct kept {
    const struct row *row;
    bool found;
};

static ty_err kept_fn(struct db_conn *c, void *arg)
{
    struct kept *x = arg;
    struct db_stmt *s;
    ty_err err =
        db_prepare(c, "SELECT 1 FROM old WHERE bucket = ?1 AND name = ?2 AND stage <> ''", &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, x->row->bucket_id);
    db_bind_str(s, 2, x->row->object.name);
    return db_step(s, &x->found);
}

/* An old generation whose file could not be moved away is still where the new one wants to go. */
static ty_err old_is_kept(struct objects *o, const struct row *row)
{
    struct kept x = {.row = row};
    ty_err err = db_read(o->db, kept_fn, &x);
    return err == TY_OK && x.found ? ty_fail(TY_UNAVAILABLE, "an old generation is in the way")
                                   : err;
}

/* A file as it is once its ctime cannot be given again: who writes to it after that leaves another.
 * The first of a batch waits, and the others have been waited for with it. */
static struct seen stale_see(int root, const char *path)
{
    struct seen seen = {0};
    struct stat st;
    for (int i = 0; i < 2 && file_stat(root, path, &st) == 0; i++) {
        seen_of(&st, &seen);
        int64_t age_ns = ty_now_ns() - seen.ctime_ns;
        if (age_ns < 0 || age_ns >= FRESH_NS)
            break;
        usleep((useconds_t)((FRESH_NS - age_ns) / 1000 + 1));
    }
    return seen;
}

/* *done: the file is in its place for good. Where the rename is missing, it is made, unless
 * somebody is at it. */
static ty_err settle_row(struct pending *x, struct unsettled *u)
{
    struct objects *o = x->o;
    struct row *row = &u->row;
    uint64_t claim = name_hash(u->bucket, row->object.name);
    if (!claim_try(o, claim))
        return TY_OK;
    ty_err err = u->old ? TY_OK : old_is_kept(o, row);
    if (err == TY_OK)
        err = row_place(o, &x->arena, u->bucket, row);
    /* Where a job has made links, both may be the same file: rename does nothing then, and leaves
     * the staged name. */
    if (err == TY_OK && row->place != PLACE_NONE && stage_exists(o, row->stage))
        stage_remove(o, row->stage);
    bool placed = err == TY_OK && !stage_exists(o, row->stage);
    if (err != TY_OK) /* it stays readable where it is; said once a minute by who tried first */
        log_debug("objects.settle", "error=\"%s\"", ty_err_message());
    char path[PATH_BYTES];
    int root = row->place == PLACE_ODD ? o->odd_fd : o->buckets_fd;
    bool has_path = row->place == PLACE_ODD || nice_path(o, u->bucket, row->object.name, path);
    if (row->place == PLACE_ODD)
        odd_path(u->bucket, row->object.name, row->object.generation, path);
    claim_release(o, claim, 0);
    struct seen seen = placed && has_path ? stale_see(root, path) : (struct seen){0};
    /* Written to since we put it there: no ctime of ours, and its mtime tells. */
    u->ctime_ns = seen.ino == row->ino && seen.mtime_ns == row->object.mtime_ns ? seen.ctime_ns : 1;
    err = placed && has_path ? sync_parent(x, root, path) : TY_OK;
    u->done = placed && err == TY_OK;
    return err;
}

static ty_err settle_write(struct db_conn *c, const struct unsettled *u)
{
    struct db_stmt *s;
    ty_err err = db_prepare(
        c,
        u->old ? "UPDATE old SET stage = '', ctime_ns = ?5 WHERE bucket = ?1 AND name = ?2 AND "
                 "generation = ?3 AND stage = ?4 AND ctime_ns = ?6"
               : "UPDATE object SET stage = '', ctime_ns = ?5 WHERE bucket = ?1 AND name = ?2 AND "
                 "generation = ?3 AND stage = ?4 AND ctime_ns = ?6",
        &s);
    if (err != TY_OK)
        return err;
    db_bind_i64(s, 1, u->row.bucket_id);
    db_bind_str(s, 2, u->row.object.name);
    db_bind_i64(s, 3, u->row.object.generation);
    db_bind_str(s, 4, u->row.stage);
    db_bind_i64(s, 5, u->ctime_ns);
    db_bind_i64(s, 6, u->row.ctime_ns); /* a link made since we looked has changed it: next time */
    return db_run(s);
}

static ty_err settle_fn(struct db_conn *c, void *arg)
{
    struct pending *x = arg;
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->count && err == TY_OK; i++)
        if (x->rows[i].done)
            err = settle_write(c, &x->rows[i]);
    for (size_t i = 0; i < x->removal_count && err == TY_OK; i++) {
        struct db_stmt *s;
        if (!x->removals[i].done)
            continue;
        err = db_prepare(c, "DELETE FROM removal WHERE id = ?1", &s);
        if (err != TY_OK)
            return err;
        db_bind_i64(s, 1, x->removals[i].id);
        err = db_run(s);
    }
    return err;
}

static ty_err settle_removals(struct pending *x)
{
    ty_err err = TY_OK;
    for (size_t i = 0; i < x->removal_count && err == TY_OK; i++) {
        const struct row *row = &x->removals[i].row;
        ty_str bucket = x->removals[i].bucket;
        uint64_t claim = name_hash(bucket, row->object.name);
        char path[PATH_BYTES];
        if (!claim_try(x->o, claim))
            continue;
        row_remove_file(x->o, bucket, row);
        claim_release(x->o, claim, 0);
        if (row->place == PLACE_NICE && nice_path(x->o, bucket, row->object.name, path))
            err = sync_parent(x, x->o->buckets_fd, path);
        x->removals[i].done = err == TY_OK;
    }
    return err;
}

/* One batch; *ret_more: there were as many as it takes, and some were done. */
static ty_err settle_batch(struct pending *x, bool *ret_more)
{
    ty_err err = db_read(x->o->db, pending_fn, x);
    size_t done = 0;
    x->synced_count = 0;
    for (size_t i = 0; i < x->count && err == TY_OK; i++) {
        err = settle_row(x, &x->rows[i]);
        done += x->rows[i].done;
    }
    if (err == TY_OK)
        err = settle_removals(x);
    if (err == TY_OK && x->count + x->removal_count > 0)
        err = ty_sync(x->o->staging_fd);
    if (err == TY_OK && x->count + x->removal_count > 0)
        err = db_write(x->o->db, settle_fn, x);
    *ret_more = done > 0 && x->count == SETTLE_ROWS;
    *ret_more = *ret_more || x->removal_count == SETTLE_ROWS;
    if (x->removal_count > 0)
        x->removal_after = x->removals[x->removal_count - 1].id;
    ty_arena_clear(&x->arena);
    return err;
}

ty_err settle(struct objects *o)
{
    struct pending *x = calloc(1, sizeof *x);
    ty_assert(x);
    x->o = o;
    ty_err err = TY_OK;
    for (int old = 1; old >= 0; old--) {
        bool more = true;
        x->old = old;
        while (err == TY_OK && more)
            err = settle_batch(x, &more);
    }
    ty_arena_clear(&x->arena);
    free(x);
    return err;
}

/* ---- the thread ---- */

void wake_settling(struct objects *o)
{
    if (__atomic_exchange_n(&o->unsettled, true, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&o->thread_lock);
    pthread_cond_signal(&o->thread_wake);
    pthread_mutex_unlock(&o->thread_lock);
}

void sweep_soon(struct objects *o)
{
    pthread_mutex_lock(&o->thread_lock);
    o->sweep_wanted = true;
    pthread_cond_signal(&o->thread_wake);
    pthread_mutex_unlock(&o->thread_lock);
}

static bool sweep_wanted(struct objects *o)
{
    pthread_mutex_lock(&o->thread_lock);
    bool wanted = o->sweep_wanted;
    o->sweep_wanted = false;
    pthread_mutex_unlock(&o->thread_lock);
    return wanted;
}

/* False: closing. */
static bool thread_wait(struct objects *o, int64_t ms, bool for_work)
{
    int64_t until_ms = ty_boot_ms() + ms, left;
    pthread_mutex_lock(&o->thread_lock);
    while (!o->closing &&
           !(for_work && (o->sweep_wanted || __atomic_load_n(&o->unsettled, __ATOMIC_RELAXED))) &&
           (left = until_ms - ty_boot_ms()) > 0)
        ty_cond_wait_ms(&o->thread_wake, &o->thread_lock, left);
    bool goes_on = !o->closing;
    pthread_mutex_unlock(&o->thread_lock);
    return goes_on;
}

/* When the next sweep is due: by the wall clock too, which is what rules go by. */
struct due {
    int64_t boot_ms, wall_ns;
};

static struct due due_in(int64_t ms)
{
    return (struct due){ty_boot_ms() + ms, ty_now_ns() + ms * 1000000};
}

static int64_t due_left_ms(const struct due *d)
{
    int64_t boot = d->boot_ms - ty_boot_ms(), wall = (d->wall_ns - ty_now_ns()) / 1000000;
    int64_t left = boot < wall ? boot : wall;
    return left > 0 ? left : 0;
}

static void *thread_main(void *arg)
{
    struct objects *o = arg;
    struct due due = due_in(SWEEP_FIRST_MS);
    reserve_keep(o);
    while (thread_wait(o, due_left_ms(&due), true) && thread_wait(o, SETTLE_MS, false)) {
        if (__atomic_exchange_n(&o->unsettled, false, __ATOMIC_RELAXED) && settle(o) != TY_OK) {
            log_warn("objects.settle", "error=\"%s\"", ty_err_message());
            __atomic_store_n(&o->unsettled, true, __ATOMIC_RELAXED); /* again, a little later */
            thread_wait(o, 10 * SETTLE_MS, false);
        } else {
            reserve_keep(o);
        }
        if (sweep_wanted(o) && due_left_ms(&due) > SWEEP_SOON_MS)
            due = due_in(SWEEP_SOON_MS);
        if (due_left_ms(&due) > 0)
            continue;
        due = due_in(SWEEP_MS);
        if (objects_sweep(o) != TY_OK)
            log_warn("objects.sweep", "error=\"%s\"", ty_err_message());
    }
    return NULL;
}

ty_err settle_start(struct objects *o)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are main's */
    int os = pthread_create(&o->thread, NULL, thread_main, o);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (os != 0)
        return ty_fail_errno(os, "cannot start the thread of the buckets");
    o->thread_runs = true;
    return TY_OK;
}

void settle_stop(struct objects *o)
{
    if (!o->thread_runs)
        return;
    pthread_mutex_lock(&o->thread_lock);
    o->closing = true;
    pthread_cond_signal(&o->thread_wake);
    pthread_mutex_unlock(&o->thread_lock);
    pthread_join(o->thread, NULL);
    o->thread_runs = false;
}
