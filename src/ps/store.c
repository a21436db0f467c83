/* store.c -- a server's state, in memory and on disk.
 *
 *   DIR/snapshot   arrays, members and counts after V updates
 *   DIR/log-V      the pushes since then, frame after frame as they came
 *   DIR/lock       held by the process whose state this is
 *
 * S1  A push is in the log (write returned) before it is applied and acknowledged: what was
 *     acknowledged survives the process.
 * S2  A snapshot replaces the one before it by a rename; its log has its number, so a log is never
 *     read after a snapshot that has its updates already.
 * S3  A worker's last push is known by (incarnation, sequence): one that is not later was applied.
 * S4  A torn frame at the end of a log was never acknowledged: it is cut off.
 *
 * The snapshot: "TYpsSNAP", u32 version of this layout, u32 members, u64 server, servers, run,
 * updates, over, steps; four u64 a member; the pieces of ps_piece_next; u32 crc32c of all, masked.
 */
#include "ps/ps_int.h"

#include <dirent.h>
#include <sys/mman.h>

enum { SNAPSHOT_VERSION = 1, FIXED = 8 + 8 + 6 * 8, EACH = 32, MOST_LOG = (1 << 30) + (1 << 29) };
static const char MAGIC[8] = {'T', 'Y', 'p', 's', 'S', 'N', 'A', 'P'};

static const char *path_of(struct ps_state *s, const char *name)
{
    return ty_format(&s->arena, "%s/%s", s->dir, name);
}

static const char *log_path(struct ps_state *s, uint64_t version)
{
    return ty_format(&s->arena, "%s/log-%" PRIu64, s->dir, version);
}

/* ---- updates ---- */

/* Is all of it what this server can apply? Checked before anything is logged. */
static ty_err push_check(const struct ps_state *s, const struct ps_frame *f)
{
    size_t plain = (1 + ps_layout_plain(s->layout, s->server)) * sizeof(float);
    struct ps_rows rows;
    if (f->worker >= s->members->count)
        return ty_fail(TY_INVALID_ARGUMENT, "there is no worker of number %" PRIu32, f->worker);
    if (f->body.len < plain)
        return ty_fail(TY_INVALID_ARGUMENT, "a push of %zu bytes: %zu are its plain part",
                       f->body.len, plain);
    struct ps_cursor c = {ty_str_drop(f->body, plain)};
    ty_err err;
    do
        err = ps_rows_next(s->layout, s->server, true, &c, &rows);
    while (err == TY_OK);
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

static void push_apply(struct ps_state *s, const struct ps_frame *f)
{
    const float *numbers = (const float *)(const void *)f->body.ptr;
    struct ps_segment segment = {0};
    struct ps_rows rows;
    s->store->begin(s->store->ctx, numbers[0]);
    numbers++;
    while (ps_layout_next(s->layout, s->server, &segment)) {
        s->store->plain(s->store->ctx, &segment, numbers);
        numbers += segment.count;
    }
    struct ps_cursor c = {ty_str_drop(f->body, (size_t)((const char *)numbers - f->body.ptr))};
    while (ps_rows_next(s->layout, s->server, true, &c, &rows) == TY_OK)
        s->store->rows(s->store->ctx, rows.variable, rows.ids, rows.count, rows.gradient);
    struct ps_member *m = &s->members->list[f->worker];
    m->incarnation = f->incarnation;
    m->sequence = f->sequence;
    m->pushes++;
    m->clock = f->c + 1;
    m->begun = false;
    s->version++;
}

static void push_trace(const struct ps_state *s, const struct ps_frame *f, const char *event)
{
    ps_trace(s->trace_fd,
             "\"event\":\"%s\",\"worker\":%" PRIu32 ",\"incarnation\":%" PRIu64
             ",\"sequence\":%" PRIu64 ",\"clock\":%" PRIu64 ",\"version\":%" PRIu64,
             event, f->worker, f->incarnation, f->sequence, f->c, s->version);
}

ty_err ps_state_push(struct ps_state *s, const struct ps_frame *f, ty_str bytes, bool *ret_new)
{
    ty_err err = push_check(s, f);
    if (err != TY_OK)
        return err;
    const struct ps_member *m = &s->members->list[f->worker];
    if (f->incarnation < m->incarnation)
        return ty_fail(TY_ABORTED, "a later process has taken the place of this %s",
                       s->members->names[f->worker]);
    *ret_new = f->incarnation > m->incarnation || f->sequence > m->sequence;
    if (!*ret_new) {
        push_trace(s, f, "again");
        return TY_OK;
    }
    if (s->log_bytes + bytes.len > MOST_LOG)
        return ty_fail(TY_RESOURCE_EXHAUSTED,
                       "the log of updates in '%s' has %zu bytes, and no "
                       "snapshot could be written",
                       s->dir, s->log_bytes);
    err = ty_write_all(s->log_fd, bytes.ptr, bytes.len);
    if (err != TY_OK) {
        if (ftruncate(s->log_fd, (off_t)s->log_bytes) != 0) /* what follows would be lost (S4) */
            return ty_fail(TY_DATA_LOSS, "a torn update cannot be cut off the log: %s",
                           strerror(errno));
        return ty_wrap(err, "the log of updates in '%s'", s->dir);
    }
    s->log_bytes += bytes.len;
    push_apply(s, f);
    push_trace(s, f, "push");
    return TY_OK;
}

/* ---- writing a snapshot ---- */

struct writer {
    int fd;
    uint32_t crc;
    ty_err err;
};

static void put(struct writer *w, const void *bytes, size_t count)
{
    w->crc = wire_crc32c(w->crc, bytes, count);
    if (w->err == TY_OK)
        w->err = ty_write_all(w->fd, bytes, count);
}

static void head_put(struct writer *w, const struct ps_state *s)
{
    char head[FIXED], each[EACH];
    const uint64_t numbers[6] = {s->server, s->layout->servers, s->run, s->version,
                                 s->over,   s->members->steps};
    memcpy(head, MAGIC, sizeof MAGIC);
    wire_store_le32(head + 8, SNAPSHOT_VERSION);
    wire_store_le32(head + 12, (uint32_t)s->members->count);
    for (size_t i = 0; i < TY_COUNT(numbers); i++)
        wire_store_le64(head + 16 + 8 * i, numbers[i]);
    put(w, head, sizeof head);
    for (size_t i = 0; i < s->members->count; i++) {
        const struct ps_member *m = &s->members->list[i];
        wire_store_le64(each, m->incarnation);
        wire_store_le64(each + 8, m->sequence);
        wire_store_le64(each + 16, m->pushes);
        wire_store_le64(each + 24, m->clock);
        put(w, each, sizeof each);
    }
}

static void arrays_put(struct writer *w, const struct ps_state *s)
{
    struct ps_piece piece = {0};
    float *room = NULL;
    size_t most = 0;
    while (w->err == TY_OK && ps_piece_next(s->layout, s->server, &piece)) {
        size_t floats = ps_piece_floats(s->layout, &piece);
        if (floats > most) {
            free(room);
            room = malloc(floats * sizeof *room);
            ty_assert(room);
            most = floats;
        }
        ps_piece_copy(s->layout, s->server, &piece, room, NULL);
        put(w, room, floats * sizeof *room);
    }
    free(room);
}

static ty_err log_open(struct ps_state *s, int flags, int *ret_fd)
{
    const char *path = log_path(s, s->version);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot write '%s'", path);
    *ret_fd = fd;
    return TY_OK;
}

/* Logs of other snapshots. */
static void logs_prune(struct ps_state *s)
{
    char kept[40];
    DIR *d = opendir(s->dir);
    snprintf(kept, sizeof kept, "log-%" PRIu64, s->version);
    if (d == NULL)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, "log-", 4) == 0 && strcmp(e->d_name, kept) != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
}

ty_err ps_state_snapshot(struct ps_state *s)
{
    struct writer w = {.fd = -1};
    const char *temporary = path_of(s, "snapshot.new"), *path = path_of(s, "snapshot");
    s->store->settle(s->store->ctx);
    w.fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (w.fd < 0)
        return ty_fail_errno(errno, "cannot write '%s'", temporary);
    head_put(&w, s);
    arrays_put(&w, s);
    char check[4];
    wire_store_le32(check, wire_crc32c_mask(w.crc));
    put(&w, check, sizeof check);
    if (w.err == TY_OK)
        w.err = ty_sync(w.fd);
    close(w.fd);
    int log_fd = -1; /* there before its snapshot is: what is logged next must be read after it */
    if (w.err == TY_OK)
        w.err = log_open(s, O_TRUNC, &log_fd);
    if (w.err == TY_OK)
        w.err = ty_rename_at(AT_FDCWD, temporary, path);
    if (w.err != TY_OK) {
        if (log_fd >= 0)
            close(log_fd);
        unlink(temporary);
        return ty_wrap(w.err, "the snapshot in '%s'", s->dir);
    }
    if (s->log_fd >= 0)
        close(s->log_fd);
    s->log_fd = log_fd;
    s->log_bytes = 0;
    logs_prune(s);
    return TY_OK;
}

/* ---- reading it back ---- */

static size_t snapshot_bytes(const struct ps_state *s)
{
    struct ps_piece piece = {0};
    size_t bytes = FIXED + s->members->count * EACH + 4;
    while (ps_piece_next(s->layout, s->server, &piece))
        bytes += ps_piece_floats(s->layout, &piece) * sizeof(float);
    return bytes;
}

static ty_err snapshot_take(struct ps_state *s, ty_str text)
{
    const char *p = text.ptr;
    if (text.len < FIXED || memcmp(p, MAGIC, sizeof MAGIC) != 0 ||
        wire_load_le32(p + 8) != SNAPSHOT_VERSION)
        return ty_fail(TY_DATA_LOSS, "it is no snapshot");
    if (text.len != snapshot_bytes(s) || wire_load_le32(p + 12) != s->members->count ||
        wire_load_le64(p + 16) != s->server || wire_load_le64(p + 24) != s->layout->servers)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "it is of another model or another cluster: choose another output folder, "
                       "or remove '%s'",
                       s->dir);
    if (wire_crc32c_mask(wire_crc32c(0, p, text.len - 4)) != wire_load_le32(p + text.len - 4))
        return ty_fail(TY_DATA_LOSS, "it fails its checksum");
    s->run = wire_load_le64(p + 32);
    s->version = wire_load_le64(p + 40);
    s->over = wire_load_le64(p + 48) != 0;
    s->members->steps = wire_load_le64(p + 56);
    p += FIXED;
    for (size_t i = 0; i < s->members->count; i++, p += EACH) {
        struct ps_member *m = &s->members->list[i];
        m->incarnation = wire_load_le64(p);
        m->sequence = wire_load_le64(p + 8);
        m->pushes = wire_load_le64(p + 16);
        m->clock = wire_load_le64(p + 24);
    }
    struct ps_piece piece = {0};
    while (ps_piece_next(s->layout, s->server, &piece)) {
        ps_piece_copy(s->layout, s->server, &piece, NULL, (const float *)(const void *)p);
        p += ps_piece_floats(s->layout, &piece) * sizeof(float);
    }
    s->store->restored(s->store->ctx, s->version, s->members->steps);
    s->begun = true;
    return TY_OK;
}

static ty_err snapshot_read(struct ps_state *s)
{
    const char *path = path_of(s, "snapshot");
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return TY_NOT_FOUND;
    if (fd < 0 || fstat(fd, &st) != 0)
        return ty_fail_errno(errno, "cannot read '%s'", path);
    void *bytes =
        st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (bytes == MAP_FAILED)
        return ty_fail(TY_DATA_LOSS, "the snapshot '%s' cannot be read", path);
    ty_err err = snapshot_take(s, (ty_str){bytes, (size_t)st.st_size});
    munmap(bytes, (size_t)st.st_size);
    return err == TY_OK ? TY_OK : ty_wrap(err, "the snapshot '%s'", path);
}

/* Apply what the log has; what comes after the last whole frame is cut off. */
static ty_err log_replay(struct ps_state *s)
{
    struct ty_arena a = {0};
    ty_str text;
    const char *path = log_path(s, s->version);
    ty_err err = ty_file_read(AT_FDCWD, path, MOST_LOG, &a, &text);
    if (err == TY_NOT_FOUND)
        text = (ty_str){NULL, 0};
    else if (err != TY_OK)
        goto out;
    err = log_open(s, 0, &s->log_fd);
    while (err == TY_OK && s->log_bytes < text.len) {
        struct ps_frame f;
        size_t bytes;
        if (ps_frame_read(ty_str_drop(text, s->log_bytes), &f, &bytes) != TY_OK ||
            f.kind != PS_PUSH || push_check(s, &f) != TY_OK) {
            log_warn("ps.log_cut", "file=%s bytes=%zu of %zu: %s", path, s->log_bytes, text.len,
                     ty_err_message());
            break;
        }
        push_apply(s, &f);
        push_trace(s, &f, "replayed");
        s->log_bytes += bytes;
    }
    if (err == TY_OK && ftruncate(s->log_fd, (off_t)s->log_bytes) != 0)
        err = ty_fail_errno(errno, "cannot cut '%s'", path);
out:
    ty_arena_clear(&a);
    return err;
}

/* The kernel's lock, which ends with the process, however it ends: two that wrote one log would mix
 * two runs. */
static ty_err dir_lock(struct ps_state *s)
{
    const char *path = path_of(s, "lock");
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0)
        return ty_fail_errno(errno, "cannot write '%s'", path);
    ty_err err = ty_lock_take(s->lock_fd, path);
    if (err == TY_ABORTED)
        return ty_fail(
            TY_FAILED_PRECONDITION,
            "'%s' is in use by %s, a ps task of this run or of another one: wait until it "
            "has ended, or choose another output folder",
            s->dir, ty_lock_holder(&s->arena, AT_FDCWD, path));
    return err == TY_OK ? ty_lock_sign(s->lock_fd, path) : err;
}

ty_err ps_state_open(struct ps_state *s)
{
    ty_err err = ty_mkdirs(s->dir, 0700);
    if (err == TY_OK)
        err = dir_lock(s);
    if (err == TY_OK)
        err = snapshot_read(s);
    if (err == TY_NOT_FOUND) {
        logs_prune(s);
        return TY_OK;
    }
    return err == TY_OK ? log_replay(s) : err;
}

ty_err ps_state_begin(struct ps_state *s, uint64_t run, uint64_t steps)
{
    if (s->begun && s->run == run && s->members->steps == steps)
        return TY_OK;
    if (s->begun)
        return ty_fail(
            TY_FAILED_PRECONDITION,
            "the parameter servers have a run with another model, parameters, data, "
            "steps or seed: all replicas need the same; to begin anew choose another output "
            "folder or remove '%s'",
            s->dir);
    ty_err err = s->store->first(s->store->ctx, run, steps, &s->version);
    if (err != TY_OK)
        return err;
    s->run = run;
    s->members->steps = steps;
    for (size_t i = 0; i < s->members->count; i++) /* they go on in their data about there */
        s->members->list[i].pushes = s->version / s->members->count;
    err = ps_state_snapshot(s);
    s->begun = err == TY_OK;
    return err;
}

ty_err ps_state_remove(struct ps_state *s)
{
    ps_state_close(s);
    s->begun = false;
    return ty_remove_tree(AT_FDCWD, s->dir);
}

void ps_state_close(struct ps_state *s)
{
    if (s->log_fd >= 0)
        close(s->log_fd);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    s->log_fd = s->lock_fd = -1;
    ty_arena_clear(&s->arena);
}
