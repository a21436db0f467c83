/* take.c -- write a backup of a yard that may be at work (B1 to B3 of backup.h).
 *
 * The archive grows as FILE.partial, which is locked, so that two backups to one name do not mix,
 * and renamed when it is whole; what a killed one has left is written over by the next. The copy of
 * the rows waits in FILE.partial.d until the end, because jobs may be deleted meanwhile. */
#include "backup/backup_int.h"

#include "exec/exec.h"
#include "objects/objects.h"
#include "store/store.h"

#include <dirent.h>

enum { READ_BYTES = 256 * 1024 };

struct take {
    struct ty_arena arena;
    const char *data_dir;
    const struct backup_watch *watch;
    struct backup_result result;
    int data_fd;
    int out_fd, lock_fd;         /* the same file, unless it is standard output */
    char *file, *partial, *work; /* file NULL: standard output */
    struct store *rows;
    struct tar_writer *tar;
    int64_t attempts;
    int64_t *missing; /* jobs with a file that is not there: deleted, or never started */
    size_t missing_count;
};

static void tell(struct take *t)
{
    struct backup_progress p = {
        .bytes = t->tar->bytes, .done = t->result.attempts, .total = t->attempts};
    if (t->watch->tell)
        t->watch->tell(t->watch->arg, &p);
}

static void leave_out(struct take *t, const char *path, const char *why)
{
    t->result.skipped++;
    if (t->watch->warn)
        t->watch->warn(t->watch->arg, ty_format(&t->arena, "'%s' is not in it: %s", path, why));
}

/* ---- files ---- */

/* `size` bytes of an open file. One that has become shorter meanwhile is filled up with zeros. */
static ty_err add_content(struct take *t, int fd, const char *path, int64_t size)
{
    static const char zeros[TAR_BLOCK];
    char *bytes = malloc(READ_BYTES);
    ty_assert(bytes);
    ty_err err = TY_OK;
    bool ended = false;
    while (size > 0 && err == TY_OK) {
        size_t want = size < READ_BYTES ? (size_t)size : READ_BYTES;
        ssize_t n = ended ? 0 : read(fd, bytes, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err = ty_fail_errno(errno, "cannot read '%s'", path);
            break;
        }
        if (n == 0 && !ended && t->watch->warn)
            t->watch->warn(t->watch->arg,
                           ty_format(&t->arena, "'%s' was cut while it was read", path));
        ended = ended || n == 0;
        if (ended)
            n = (ssize_t)(want < sizeof zeros ? want : sizeof zeros);
        err = tar_add_bytes(t->tar, ended ? zeros : bytes, (size_t)n);
        size -= n;
        tell(t);
    }
    free(bytes);
    return err;
}

/* A plain file, as long as it is now. TY_NOT_FOUND: it is not there. What is none, or cannot be
 * read, is left out: a job may make anything in its folder. */
static ty_err add_file(struct take *t, int dirfd, const char *name, const char *path)
{
    struct stat st;
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return TY_NOT_FOUND;
    if (fd < 0) {
        leave_out(t, path, errno == ELOOP ? "it is a link" : strerror(errno));
        return TY_OK;
    }
    ty_err err = TY_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        leave_out(t, path, "it is not a plain file");
    } else {
        struct tar_entry e = {.path = ty_str_of(path),
                              .mode = st.st_mode & 0777,
                              .size = st.st_size,
                              .mtime_s = st.st_mtime};
        err = tar_add(t->tar, &e);
        if (err == TY_OK)
            err = add_content(t, fd, path, st.st_size);
        t->result.files++;
    }
    close(fd);
    return err;
}

static ty_err add_folder(struct take *t, int fd, const char *path)
{
    struct stat st = {.st_mode = 0700};
    if (fstat(fd, &st) != 0)
        return ty_fail_errno(errno, "cannot look at '%s'", path);
    struct tar_entry e = {
        .path = ty_str_of(path), .folder = true, .mode = st.st_mode & 0777, .mtime_s = st.st_mtime};
    return tar_add(t->tar, &e);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; names && *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static ty_err add_tree(struct take *t, int dirfd, const char *name, const char *path, int depth);

/* One thing of a folder, whatever it is. */
static ty_err add_any(struct take *t, int dirfd, const char *name, const char *path, int depth)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return TY_OK; /* it was there, now it is not: temporary files are like that */
    if (strlen(path) > TAR_PATH_BYTES || depth > BACKUP_DEPTH) {
        leave_out(t, path, "its path is too long");
        return TY_OK;
    }
    ty_err err = S_ISDIR(st.st_mode) ? add_tree(t, dirfd, name, path, depth)
                                     : add_file(t, dirfd, name, path);
    return err == TY_NOT_FOUND ? TY_OK : err;
}

/* Everything in an open folder but the names in `without`. */
static ty_err add_children(struct take *t, int fd, const char *path, int depth,
                           const char *const *without)
{
    DIR *dir = fdopendir(dup(fd));
    if (!dir)
        return ty_fail_errno(errno, "cannot list '%s'", path);
    ty_err err = TY_OK;
    struct dirent *entry;
    while (err == TY_OK && (entry = readdir(dir)) != NULL) {
        if (is_dots(entry->d_name) || is_one_of(entry->d_name, without))
            continue;
        struct ty_arena kept = t->arena;
        t->arena = (struct ty_arena){0}; /* for this one's path and words */
        err = add_any(t, fd, entry->d_name, ty_format(&t->arena, "%s/%s", path, entry->d_name),
                      depth + 1);
        ty_arena_clear(&t->arena);
        t->arena = kept;
    }
    closedir(dir);
    return err;
}

static ty_err add_tree(struct take *t, int dirfd, const char *name, const char *path, int depth)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return TY_NOT_FOUND;
    if (fd < 0) {
        leave_out(t, path, strerror(errno));
        return TY_OK;
    }
    /* The token ends with the server, links to this program are made again. */
    static const char *const client[] = {"token", "bin", "shims", NULL};
    ty_err err = add_folder(t, fd, path);
    if (err == TY_OK)
        err = add_children(t, fd, path, depth, strcmp(path, "client") == 0 ? client : NULL);
    close(fd);
    return err;
}

/* ---- attempts ---- */

static void note_missing(struct take *t, int64_t job_id)
{
    if (t->missing_count == 0 || t->missing[t->missing_count - 1] != job_id)
        t->missing[t->missing_count++] = job_id;
}

/* B2: the journal before the log. Files of the attempt itself must be readable. */
static ty_err add_attempt_files(struct take *t, int fd, const char *path, int64_t job_id)
{
    static const char *const first[] = {"spec", "journal", "log", NULL};
    static const char *const without[] = {"spec",     "journal",  "log",      "lock",     "ctl",
                                          "python-0", "python-1", "python-2", "python-3", NULL};
    ty_err err = add_folder(t, fd, path);
    for (size_t i = 0; err == TY_OK && first[i]; i++) {
        if (faccessat(fd, first[i], R_OK, 0) != 0 && errno != ENOENT)
            return ty_fail_errno(errno, "cannot read '%s/%s'", path, first[i]);
        err = add_file(t, fd, first[i], ty_format(&t->arena, "%s/%s", path, first[i]));
        if (err == TY_NOT_FOUND) {
            note_missing(t, job_id);
            err = TY_OK;
        }
    }
    return err ? err : add_children(t, fd, path, 2, without);
}

static ty_err add_attempt(struct take *t, const struct store_attempt_id *id, bool first)
{
    struct ty_arena kept = t->arena;
    t->arena = (struct ty_arena){0};
    const char *job = ty_format(&t->arena, "jobs/%" PRId64, id->job_id);
    const char *path = ty_format(&t->arena, "%s/%d", job, id->number);
    ty_err err = TY_OK;
    int job_fd = openat(t->data_fd, job, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int fd = openat(t->data_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if ((job_fd < 0 || fd < 0) && errno != ENOENT)
        err = ty_fail_errno(errno, "cannot open '%s/%s'", t->data_dir, path);
    else if (fd < 0)
        note_missing(t, id->job_id);
    if (err == TY_OK && job_fd >= 0 && first)
        err = add_folder(t, job_fd, job);
    if (err == TY_OK && job_fd >= 0 && fd >= 0)
        err = add_attempt_files(t, fd, path, id->job_id);
    if (job_fd >= 0)
        close(job_fd);
    if (fd >= 0)
        close(fd);
    ty_arena_clear(&t->arena);
    t->arena = kept;
    t->result.attempts++;
    t->result.jobs += first;
    tell(t);
    return err;
}

static ty_err add_jobs(struct take *t)
{
    struct store_attempt_id *ids;
    size_t count;
    ty_err err = store_attempt_ids(t->rows, &t->arena, &ids, &count);
    if (err)
        return err;
    t->attempts = (int64_t)count;
    t->missing = ty_new_array(&t->arena, int64_t, count + 1);
    struct tar_entry folder = {.path = TY_STR("jobs"), .folder = true, .mode = 0700};
    err = tar_add(t->tar, &folder);
    for (size_t i = 0; i < count && err == TY_OK; i++)
        err = add_attempt(t, &ids[i], i == 0 || ids[i].job_id != ids[i - 1].job_id);
    return err;
}

/* ---- the archive ---- */

static ty_err add_head(struct take *t)
{
    const char *text = ty_format(&t->arena, "format %d\nversion %s\ntime %" PRId64 "\nfrom %s\n",
                                 BACKUP_FORMAT, TY_VERSION, ty_now_ns() / 1000000000, t->data_dir);
    return tar_add_note(t->tar, BACKUP_HEAD, ty_str_of(text));
}

/* A word about what nobody here knows. */
static ty_err look_for_unknown(struct take *t)
{
    DIR *dir = fdopendir(openat(t->data_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return ty_fail_errno(errno, "cannot list '%s'", t->data_dir);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        if (part_kind_of(ty_str_of(entry->d_name)) == PART_UNKNOWN && !is_dots(entry->d_name))
            leave_out(t, entry->d_name, "it is no part of a yard");
    closedir(dir);
    return TY_OK;
}

/* All that is not rows. */
static ty_err add_parts(struct take *t)
{
    const char *name;
    enum part_kind kind;
    ty_err err = look_for_unknown(t);
    for (size_t i = 0; err == TY_OK && part_at(i, &name, &kind); i++) {
        if (kind == PART_FILE)
            err = add_file(t, t->data_fd, name, name);
        else if (kind == PART_TREE)
            err = add_tree(t, t->data_fd, name, name, 1);
        err = err == TY_NOT_FOUND ? TY_OK : err;
    }
    return err;
}

/* B3, and then the rows themselves. */
static ty_err add_rows(struct take *t)
{
    size_t forgotten = 0;
    ty_err err = TY_OK;
    if (t->missing_count)
        err = store_copy_forget(t->rows, t->data_dir, t->missing, t->missing_count, &forgotten);
    store_close(t->rows); /* all of it is in the one file then */
    t->rows = NULL;
    t->result.jobs -= (int64_t)forgotten;
    int fd = open(t->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (err == TY_OK && fd < 0)
        err = ty_fail_errno(errno, "cannot open '%s'", t->work);
    const char *name;
    enum part_kind kind;
    for (size_t i = 0; err == TY_OK && part_at(i, &name, &kind); i++) {
        if (kind == PART_ROWS)
            err = add_file(t, fd, name, name);
        err = err == TY_NOT_FOUND ? TY_OK : err; /* a yard without buckets */
    }
    if (fd >= 0)
        close(fd);
    return err;
}

static ty_err write_all(struct take *t)
{
    ty_err err = ty_remove_tree(AT_FDCWD, t->work);
    if (err == TY_OK)
        err = ty_mkdirs(t->work, 0700);
    if (err == TY_OK)
        err = store_copy(t->data_dir, t->work); /* B1 */
    if (err == TY_OK)
        err = objects_rows_copy(t->data_dir, t->work); /* B6 */
    if (err == TY_OK)
        err = store_open(t->work, &t->rows);
    if (err == TY_OK)
        err = add_head(t);
    if (err == TY_OK)
        err = add_parts(t);
    if (err == TY_OK)
        err = add_jobs(t);
    if (err == TY_OK)
        err = add_rows(t);
    if (err == TY_OK)
        err = tar_writer_finish(t->tar);
    t->result.bytes = t->tar->bytes;
    return err;
}

/* ---- where it goes ---- */

static ty_err open_out(struct take *t, const char *file)
{
    if (strcmp(file, "-") == 0) {
        const char *tmp = getenv("TMPDIR");
        t->work = ty_format(&t->arena, "%s/trainyard-backup-%d.d", tmp && tmp[0] ? tmp : "/tmp",
                            (int)getpid());
        t->out_fd = STDOUT_FILENO;
        return isatty(STDOUT_FILENO)
                   ? ty_fail(TY_INVALID_ARGUMENT,
                             "standard output is a terminal: send it to a file or another program")
                   : TY_OK;
    }
    t->partial = ty_format(&t->arena, "%s.partial", file);
    t->work = ty_format(&t->arena, "%s.partial.d", file);
    int fd = open(t->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot create '%s'", t->partial);
    ty_err err = ty_lock_take(fd, t->partial);
    if (err != TY_OK) {
        close(fd);
        return err == TY_ABORTED
                   ? ty_fail(TY_UNAVAILABLE, "another backup is being written to '%s'", file)
                   : err;
    }
    t->out_fd = t->lock_fd = fd;
    t->file = ty_cstr(&t->arena, ty_str_of(file));
    return ftruncate(fd, 0) == 0 ? TY_OK : ty_fail_errno(errno, "cannot write '%s'", t->partial);
}

static ty_err sync_folder_of(struct ty_arena *a, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *folder = ".";
    if (slash)
        folder = slash == file ? "/" : ty_cstr(a, (ty_str){file, (size_t)(slash - file)});
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open the folder '%s'", folder);
    ty_err err = ty_sync(fd);
    close(fd);
    return err;
}

static ty_err publish(struct take *t)
{
    if (!t->file)
        return TY_OK;
    ty_err err = ty_sync(t->out_fd);
    if (err == TY_OK)
        err = ty_rename_at(AT_FDCWD, t->partial, t->file);
    return err ? err : sync_folder_of(&t->arena, t->file);
}

static ty_err open_yard(struct take *t)
{
    t->data_fd = open(t->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->data_fd < 0)
        return ty_fail_errno(errno, "cannot open the data folder '%s'", t->data_dir);
    if (faccessat(t->data_fd, "yard.db", R_OK, 0) != 0)
        return ty_fail(TY_NOT_FOUND, "'%s' is no yard: it has no 'yard.db' (--data names another)",
                       t->data_dir);
    return TY_OK;
}

ty_err backup_take(const char *data_dir, const char *file, const struct backup_watch *watch,
                   struct backup_result *ret_result)
{
    struct take t = {
        .data_dir = data_dir, .watch = watch, .data_fd = -1, .out_fd = -1, .lock_fd = -1};
    t.tar = malloc(sizeof *t.tar);
    ty_assert(t.tar);
    ty_err err = open_yard(&t);
    if (err == TY_OK)
        err = open_out(&t, file);
    if (err == TY_OK) {
        tar_writer_init(t.tar, t.out_fd);
        err = write_all(&t);
    }
    if (err == TY_OK)
        err = publish(&t);
    char *message = ty_err_take(); /* cleaning up must not replace the reason */
    store_close(t.rows);
    if (t.out_fd >= 0 && ty_remove_tree(AT_FDCWD, t.work) != TY_OK)
        log_warn("backup.work", "error='%s'", ty_err_message());
    if (err != TY_OK && t.lock_fd >= 0)
        unlink(t.partial);
    if (t.lock_fd >= 0)
        close(t.lock_fd);
    if (t.data_fd >= 0)
        close(t.data_fd);
    free(t.tar);
    ty_arena_clear(&t.arena);
    if (err == TY_OK)
        *ret_result = t.result;
    else
        err = ty_fail(err, "%s", message);
    free(message);
    return err;
}
