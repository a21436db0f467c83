/* restore.c -- a yard from a backup, whole or not at all (B4, B5 of backup.h).
 *
 * All is unpacked into DIR.restoring, checked there, and renamed. Each file is opened name by name
 * below that folder, never through a link, and none is written twice; there are no links in an
 * archive of ours, so none can be made. What a killed restore has left there is removed by the
 * next one. */
#include "backup/backup_int.h"

#include "exec/exec.h"
#include "objects/objects.h"
#include "store/store.h"

#include <dirent.h>

enum { READ_BYTES = 256 * 1024, SHOWN_NAMES = 4 };

struct restore {
    struct ty_arena arena;
    const struct backup_watch *watch;
    struct backup_result result;
    struct tar_reader tar;
    int in_fd, stage_fd;
    int64_t in_bytes; /* 0: not known */
    char *target, *stage;
    bool has_rows;
};

/* ---- where it goes ---- */

/* Somebody's lock on it, and who that is. */
static ty_err check_served(struct restore *r, int dirfd)
{
    int fd = openat(dirfd, "server.lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return TY_OK;
    ty_err err = ty_lock_take(fd, "server.lock");
    close(fd);
    if (err != TY_ABORTED)
        return TY_OK;
    ty_str url = {0};
    (void)!ty_file_read(dirfd, "url", 256, &r->arena, &url);
    url = ty_str_trim(url);
    return ty_fail(TY_FAILED_PRECONDITION,
                   "'%s' is served by %s%s" TY_STR_FMT ": restore into another folder (--data DIR)",
                   r->target, ty_lock_holder(&r->arena, dirfd, "server.lock"),
                   url.len ? ", at " : "", TY_STR_ARG(url));
}

/* Names what is there. */
static ty_err check_empty(struct restore *r, int dirfd)
{
    DIR *dir = fdopendir(dup(dirfd));
    if (!dir)
        return ty_fail_errno(errno, "cannot list '%s'", r->target);
    struct ty_buf names;
    ty_buf_init(&names, 4096);
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (count++ < SHOWN_NAMES)
            ty_buf_addf(&names, "%s'%s'", count > 1 ? ", " : "", entry->d_name);
    }
    closedir(dir);
    if (count > SHOWN_NAMES)
        ty_buf_addf(&names, " and %d more", count - SHOWN_NAMES);
    ty_err err = count == 0 ? TY_OK
                            : ty_fail(TY_FAILED_PRECONDITION,
                                      "'%s' is not empty, it has %s: restore into a new folder "
                                      "(--data DIR)",
                                      r->target, names.ptr);
    ty_buf_clear(&names);
    return err;
}

static ty_err open_target(struct restore *r, const char *data_dir)
{
    char *full = realpath(data_dir, NULL);
    r->target = ty_cstr(&r->arena, ty_str_of(full ? full : data_dir));
    free(full);
    while (strlen(r->target) > 1 && r->target[strlen(r->target) - 1] == '/')
        r->target[strlen(r->target) - 1] = '\0';
    r->stage = ty_format(&r->arena, "%s.restoring", r->target);
    int fd = open(r->target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return TY_OK;
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open the folder '%s'", r->target);
    ty_err err = check_served(r, fd);
    if (err == TY_OK)
        err = check_empty(r, fd);
    close(fd);
    return err;
}

/* An empty folder of our own; one that another restore works in is locked. */
static ty_err open_stage(struct restore *r)
{
    ty_err err = ty_mkdirs(r->stage, 0700);
    if (err)
        return err;
    int fd = open(r->stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open the folder '%s'", r->stage);
    err = ty_lock_take(fd, r->stage);
    if (err != TY_OK) {
        close(fd);
        return err == TY_ABORTED
                   ? ty_fail(TY_UNAVAILABLE, "another restore works in '%s'", r->stage)
                   : err;
    }
    r->stage_fd = fd;
    DIR *dir = fdopendir(dup(fd));
    ty_assert(dir);
    struct dirent *entry;
    while (err == TY_OK && (entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            err = ty_remove_tree(fd, entry->d_name);
    closedir(dir);
    return err;
}

/* ---- unpacking ---- */

static ty_err source_read(void *arg, char *ptr, size_t len, size_t *ret_len)
{
    struct restore *r = arg;
    ssize_t n;
    do
        n = read(r->in_fd, ptr, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return ty_fail_errno(errno, "cannot read it");
    *ret_len = (size_t)n;
    struct backup_progress p = {
        .bytes = r->tar.offset + n, .done = r->tar.offset + n, .total = r->in_bytes};
    if (r->watch->tell)
        r->watch->tell(r->watch->arg, &p);
    return TY_OK;
}

/* The folder that `path` is in, opened, and its last name. Folders are made on the way. */
static ty_err open_parent(struct restore *r, ty_str path, int *ret_fd, const char **ret_name)
{
    int fd = dup(r->stage_fd);
    ty_str name;
    ty_err err = fd < 0 ? ty_fail_errno(errno, "cannot open '%s'", r->stage) : TY_OK;
    while (err == TY_OK && ty_str_split(&path, '/', &name)) {
        const char *part = ty_cstr(&r->arena, name);
        if (mkdirat(fd, part, 0700) != 0 && errno != EEXIST)
            err = ty_fail_errno(errno, "cannot make the folder '%s'", part);
        int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (err == TY_OK && next < 0)
            err = ty_fail_errno(errno, "cannot open the folder '%s'", part);
        close(fd);
        fd = next;
    }
    if (err) {
        if (fd >= 0)
            close(fd);
        return err;
    }
    *ret_fd = fd;
    *ret_name = ty_cstr(&r->arena, name);
    return TY_OK;
}

static ty_err unpack_content(struct restore *r, int fd)
{
    char *bytes = malloc(READ_BYTES);
    ty_assert(bytes);
    size_t n = 1;
    ty_err err = TY_OK;
    while (err == TY_OK && n > 0) {
        err = tar_read(&r->tar, bytes, READ_BYTES, &n);
        if (err == TY_OK && n > 0)
            err = ty_write_all(fd, bytes, n);
    }
    free(bytes);
    return err;
}

static ty_err unpack_file(struct restore *r, const struct tar_entry *e, int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot create '" TY_STR_FMT "'", TY_STR_ARG(e->path));
    ty_err err = unpack_content(r, fd);
    struct timespec times[2] = {{.tv_sec = e->mtime_s}, {.tv_sec = e->mtime_s}};
    if (err == TY_OK && (fchmod(fd, e->mode) != 0 || futimens(fd, times) != 0))
        err = ty_fail_errno(errno, "cannot set the mode of '" TY_STR_FMT "'", TY_STR_ARG(e->path));
    close(fd);
    r->result.files++;
    return err;
}

static ty_err unpack_entry(struct restore *r, const struct tar_entry *e)
{
    int dirfd = -1;
    const char *name = "";
    ty_err err = part_path_check(e->path, e->folder);
    if (err == TY_OK)
        err = open_parent(r, e->path, &dirfd, &name);
    if (err)
        return err;
    if (!e->folder)
        err = unpack_file(r, e, dirfd, name);
    else if ((mkdirat(dirfd, name, 0700) != 0 && errno != EEXIST) ||
             fchmodat(dirfd, name, e->mode | 0700, 0) != 0)
        err = ty_fail_errno(errno, "cannot make the folder '" TY_STR_FMT "'", TY_STR_ARG(e->path));
    close(dirfd);
    r->has_rows = r->has_rows || ty_str_is(e->path, "yard.db");
    return err;
}

/* The content of one of our own two entries. */
static ty_err read_note(struct restore *r, const struct tar_entry *e, char *text, ty_str *ret_text)
{
    size_t n = 0, used = 0;
    if (e->folder || e->size > BACKUP_NOTE_BYTES)
        return ty_fail(TY_DATA_LOSS, "its entry '" TY_STR_FMT "' is none of ours",
                       TY_STR_ARG(e->path));
    do {
        ty_err err = tar_read(&r->tar, text + used, BACKUP_NOTE_BYTES - used, &n);
        if (err)
            return err;
        used += n;
    } while (n > 0);
    *ret_text = (ty_str){text, used};
    return TY_OK;
}

static ty_err read_head(struct restore *r)
{
    char text[BACKUP_NOTE_BYTES];
    struct tar_entry e;
    ty_str note;
    ty_err err = tar_next(&r->tar, &e);
    if (err == TY_DATA_LOSS && r->tar.offset < TAR_BLOCK)
        return err; /* cut short */
    if (err == TY_DATA_LOSS || err == TY_OUT_OF_RANGE ||
        (err == TY_OK && !ty_str_is(e.path, BACKUP_HEAD)))
        return ty_fail(TY_INVALID_ARGUMENT, "it is not a file that 'trainyard backup' has written");
    if (err == TY_OK)
        err = read_note(r, &e, text, &note);
    return err ? err : head_check(note);
}

/* Nothing may follow the manifest but the end. */
static ty_err read_manifest(struct restore *r, const struct tar_entry *e)
{
    char text[BACKUP_NOTE_BYTES];
    struct tar_entry next;
    ty_str note;
    ty_err err = read_note(r, e, text, &note);
    if (err == TY_OK)
        err = manifest_check(&r->tar, note);
    if (err)
        return err;
    err = tar_next(&r->tar, &next);
    if (err == TY_OK)
        return ty_fail(TY_DATA_LOSS, "it is damaged: something follows its manifest");
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

static ty_err unpack_all(struct restore *r)
{
    tar_reader_init(&r->tar, source_read, r);
    ty_err err = read_head(r);
    while (err == TY_OK) {
        struct tar_entry e;
        err = tar_next(&r->tar, &e);
        if (err == TY_OUT_OF_RANGE)
            return ty_fail(TY_DATA_LOSS, "it is damaged: its manifest is missing");
        if (err == TY_OK && r->tar.entries > BACKUP_ENTRIES)
            err = ty_fail(TY_RESOURCE_EXHAUSTED, "it has more than %d entries", BACKUP_ENTRIES);
        if (err)
            return err;
        if (ty_str_is(e.path, BACKUP_MANIFEST)) {
            err = read_manifest(r, &e);
            break;
        }
        struct ty_arena kept = r->arena;
        r->arena = (struct ty_arena){0};
        err = unpack_entry(r, &e);
        ty_arena_clear(&r->arena);
        r->arena = kept;
    }
    if (err == TY_OK && !r->has_rows)
        err = ty_fail(TY_DATA_LOSS, "it has no 'yard.db'");
    r->result.bytes = r->tar.offset;
    return err;
}

/* ---- what was under way ---- */

/* B5. Returns false when there is nothing to change. */
static bool plan_again(struct restore *r, const struct job *job, struct attempt *at,
                       struct store_change *change)
{
    struct exec_look look;
    if (job->attempt == 0 || job->cancel_requested ||
        exec_attempt_look(&r->arena, r->stage, job->id, job->attempt, &look) != TY_OK ||
        look.phase != EXEC_LOST)
        return false; /* a damaged journal, too, is for the server to look at */
    *at = (struct attempt){
        .job_id = job->id,
        .number = job->attempt,
        .state = ATTEMPT_ENDED,
        .end_ns = ty_now_ns(),
        .outcome = TY_STR("restored"),
        .message = TY_STR("it ran when the backup was taken; this is the restored yard")};
    *change = (struct store_change){.job_id = job->id, .attempt = at};
    if (job->state == JOB_STATE_RUNNING)
        change->state = JOB_STATE_PENDING;
    return true;
}

/* The newest attempt has ended already: the job waits for its next one. */
static bool attempt_ended(struct restore *r, struct store *rows, const struct job *job)
{
    struct attempt *list;
    size_t count;
    if (store_attempt_list(rows, &r->arena, job->id, &list, &count) != TY_OK)
        return true;
    for (size_t i = 0; i < count; i++)
        if (list[i].number == job->attempt)
            return list[i].state == ATTEMPT_ENDED;
    return true;
}

static ty_err settle(struct restore *r)
{
    struct store *rows;
    struct job *jobs;
    size_t count = 0, changes = 0;
    int64_t counts[8] = {0};
    ty_err err = store_open(r->stage, &rows);
    if (err)
        return err;
    err = store_active_list(rows, &r->arena, &jobs, &count);
    if (err == TY_OK)
        err = store_job_counts(rows, counts);
    struct attempt *ended = ty_new_array(&r->arena, struct attempt, count + 1);
    struct store_change *list = ty_new_array(&r->arena, struct store_change, count + 1);
    for (size_t i = 0; err == TY_OK && i < count; i++)
        if (!attempt_ended(r, rows, &jobs[i]))
            changes += plan_again(r, &jobs[i], &ended[changes], &list[changes]);
    if (err == TY_OK)
        err = store_apply(rows, list, changes);
    store_close(rows);
    r->result.again = (int64_t)changes;
    for (size_t i = 0; i < TY_COUNT(counts); i++)
        r->result.jobs += counts[i];
    return err;
}

/* ---- the end ---- */

static ty_err publish(struct restore *r)
{
    int err_no = ty_seam_step(TY_OP_SYNC);
    if (err_no == 0 && syncfs(r->stage_fd) != 0)
        err_no = errno;
    if (err_no)
        return ty_fail_errno(err_no, "cannot sync '%s'", r->stage);
    ty_err err = ty_rename_at(AT_FDCWD, r->stage, r->target); /* over an empty folder is fine */
    if (err)
        return err;
    int fd = openat(r->stage_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open the folder of '%s'", r->target);
    err = ty_sync(fd);
    close(fd);
    return err;
}

static ty_err open_in(struct restore *r, const char *file)
{
    struct stat st;
    r->in_fd = strcmp(file, "-") == 0 ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC);
    if (r->in_fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", file);
    if (fstat(r->in_fd, &st) == 0 && S_ISREG(st.st_mode))
        r->in_bytes = st.st_size;
    return TY_OK;
}

ty_err backup_restore(const char *file, const char *data_dir, const struct backup_watch *watch,
                      struct backup_result *ret_result)
{
    struct restore *r = calloc(1, sizeof *r);
    ty_assert(r);
    r->watch = watch;
    r->in_fd = r->stage_fd = -1;
    ty_err err = open_target(r, data_dir);
    if (err == TY_OK)
        err = open_in(r, file);
    if (err == TY_OK)
        err = open_stage(r);
    if (err == TY_OK) {
        err = unpack_all(r);
        if (err)
            err = ty_wrap(err, "'%s'", file);
    }
    if (err == TY_OK)
        err = settle(r);
    if (err == TY_OK)
        err = objects_restored(r->stage);
    if (err == TY_OK)
        err = publish(r);
    char *message = ty_err_take();
    if (err != TY_OK && r->stage_fd >= 0 && ty_remove_tree(AT_FDCWD, r->stage) != TY_OK)
        log_warn("restore.stage", "error='%s'", ty_err_message());
    if (r->stage_fd >= 0)
        close(r->stage_fd);
    if (r->in_fd >= 0)
        close(r->in_fd);
    ty_arena_clear(&r->arena);
    if (err == TY_OK)
        *ret_result = r->result;
    else
        err = ty_fail(err, "%s", message);
    free(message);
    free(r);
    return err;
}
