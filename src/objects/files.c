/* files.c -- where objects are on disk, and every call that touches them.
 *
 * All paths are opened beneath buckets/, odd/ or staging/ with openat2: no link is followed and
 * ".." cannot leave (a nice name has none anyway). A rename or unlink happens in a parent folder
 * opened that way. Each step goes through base's seam, so that tests can fail it or end there.
 *
 * A sealed file's mtime is set to a time of ours, to the nanosecond. The kernel stamps with a clock
 * that ticks every few milliseconds, so a write that comes later, even in the same tick, leaves
 * another mtime: that is how a change behind our back is told from what we wrote ourselves. */
#include "objects/objects_int.h"

#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* ---- paths ---- */

static bool part_is_nice(ty_str part)
{
    return part.len >= 1 && part.len <= NAME_MAX && !ty_str_is(part, ".") && !ty_str_is(part, "..");
}

bool name_is_nice(const struct objects *o, ty_str bucket, ty_str name, bool *ret_folder)
{
    *ret_folder = ty_str_ends(name, TY_STR("/"));
    if (*ret_folder)
        name.len--;
    if (strlen(o->root) + sizeof("/buckets/") + bucket.len + 1 + name.len >= PATH_MAX)
        return false;
    ty_str part;
    bool more;
    do {
        more = ty_str_split(&name, '/', &part);
        if (!part_is_nice(part))
            return false;
    } while (more);
    return true;
}

bool nice_path(const struct objects *o, ty_str bucket, ty_str name, char path[PATH_BYTES])
{
    bool folder;
    if (!name_is_nice(o, bucket, name, &folder))
        return false;
    snprintf(path, PATH_BYTES, TY_STR_FMT "/" TY_STR_FMT, TY_STR_ARG(bucket),
             (int)(name.len - folder), name.ptr);
    return true;
}

void odd_path(ty_str bucket, ty_str name, int64_t generation, char path[PATH_BYTES])
{
    char hex[65];
    sha256_hex(name, hex);
    snprintf(path, PATH_BYTES, TY_STR_FMT "/%s/%" PRId64, TY_STR_ARG(bucket), hex, generation);
}

/* FNV-1a; 0 means "none" to claims. */
uint64_t name_hash(ty_str bucket, ty_str name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bucket.len; i++)
        h = (h ^ (unsigned char)bucket.ptr[i]) * 0x100000001b3u;
    h = (h ^ '/') * 0x100000001b3u;
    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (unsigned char)name.ptr[i]) * 0x100000001b3u;
    return h ? h : 1;
}

/* ---- opening ---- */

int file_open(int root, const char *path, int flags, mode_t mode, int *ret_fd)
{
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC,
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd;
    do
        fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    while (fd < 0 &&
           (errno == EINTR || errno == EAGAIN)); /* EAGAIN: a rename raced the ".." check */
    if (fd < 0)
        return errno == EXDEV ? ENOENT : errno; /* EXDEV: it was moved away while walked to */
    *ret_fd = (int)fd;
    return 0;
}

int file_stat(int root, const char *path, struct stat *ret_st)
{
    int fd = -1, err_no = file_open(root, path, O_PATH | O_NOFOLLOW, 0, &fd);
    if (err_no)
        return err_no;
    if (fstat(fd, ret_st) != 0)
        err_no = errno;
    close(fd);
    return err_no;
}

static int64_t time_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void seen_of(const struct stat *st, struct seen *ret_seen)
{
    *ret_seen = (struct seen){.kind = S_ISREG(st->st_mode)   ? SEEN_FILE
                                      : S_ISDIR(st->st_mode) ? SEEN_FOLDER
                                                             : SEEN_OTHER,
                              .ino = (int64_t)st->st_ino,
                              .size = st->st_size,
                              .mtime_ns = time_ns(st->st_mtim),
                              .ctime_ns = time_ns(st->st_ctim)};
}

struct seen file_see(const struct objects *o, ty_str bucket, ty_str name)
{
    struct seen seen = {.kind = SEEN_NOTHING};
    char path[PATH_BYTES];
    struct stat st;
    if (nice_path(o, bucket, name, path) && file_stat(o->buckets_fd, path, &st) == 0)
        seen_of(&st, &seen);
    return seen;
}

struct seen viewer_see(struct viewer *v, ty_str name)
{
    struct seen seen = {.kind = SEEN_NOTHING};
    char path[PATH_BYTES];
    struct stat st;
    if (!nice_path(v->o, v->bucket, name, path))
        return seen;
    char *slash = strrchr(path, '/'); /* there is one, behind the bucket */
    *slash = '\0';
    if (v->dir < 0 || strcmp(path, v->folder) != 0) {
        viewer_end(v);
        if (file_open(v->o->buckets_fd, path, O_PATH | O_DIRECTORY, 0, &v->dir) != 0)
            return seen;
        memcpy(v->folder, path, sizeof path);
    }
    if (fstatat(v->dir, slash + 1, &st, AT_SYMLINK_NOFOLLOW) == 0)
        seen_of(&st, &seen);
    return seen;
}

void viewer_end(struct viewer *v)
{
    if (v->dir >= 0)
        close(v->dir);
    v->dir = -1;
}

static int file_mkdir(int dir, const char *name)
{
    int err_no = ty_seam_step(TY_OP_RENAME);
    if (err_no == 0 && mkdirat(dir, name, 0700) != 0 && errno != EEXIST)
        err_no = errno;
    return err_no;
}

/* mkdir -p of the first `len` bytes of path, each part opened beneath the one before. */
static int make_folders(int root, const char *path, size_t len, int *ret_fd)
{
    char part[PATH_BYTES];
    size_t at = 0;
    int dir = -1, err_no = 0;
    while (at < len && err_no == 0) {
        size_t end = at;
        while (end < len && path[end] != '/')
            end++;
        snprintf(part, sizeof part, "%.*s", (int)(end - at), path + at);
        int parent = dir < 0 ? root : dir, next = -1;
        err_no = file_open(parent, part, O_RDONLY | O_DIRECTORY, 0, &next);
        if (err_no == ENOENT) {
            err_no = file_mkdir(parent, part);
            if (err_no == 0)
                err_no = file_open(parent, part, O_RDONLY | O_DIRECTORY, 0, &next);
        }
        if (dir >= 0)
            close(dir);
        dir = next;
        at = end + 1;
    }
    if (err_no == 0)
        *ret_fd = dir;
    return err_no;
}

int file_parent(int root, const char *path, bool make, int *ret_fd, const char **ret_leaf)
{
    const char *slash = strrchr(path, '/');
    if (!slash) {
        *ret_leaf = path;
        *ret_fd = fcntl(root, F_DUPFD_CLOEXEC, 0);
        return *ret_fd < 0 ? errno : 0;
    }
    char parent[PATH_BYTES];
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    int err_no = file_open(root, parent, O_RDONLY | O_DIRECTORY, 0, ret_fd);
    if (err_no == ENOENT && make)
        err_no = make_folders(root, path, (size_t)(slash - path), ret_fd);
    *ret_leaf = slash + 1;
    return err_no;
}

/* ---- changing ---- */

int file_move(int from_root, const char *from, int to_root, const char *to, bool make)
{
    int from_dir = -1, to_dir = -1;
    const char *from_leaf, *to_leaf;
    int err_no = file_parent(from_root, from, false, &from_dir, &from_leaf);
    if (err_no == 0)
        err_no = file_parent(to_root, to, make, &to_dir, &to_leaf);
    if (err_no == 0)
        err_no = ty_rename_between(from_dir, from_leaf, to_dir, to_leaf);
    if (from_dir >= 0)
        close(from_dir);
    if (to_dir >= 0)
        close(to_dir);
    return err_no;
}

static int remove_entry(int root, const char *path, int flags)
{
    int dir;
    const char *leaf;
    int err_no = file_parent(root, path, false, &dir, &leaf);
    if (err_no)
        return err_no;
    err_no = ty_seam_step(TY_OP_RENAME);
    if (err_no == 0 && unlinkat(dir, leaf, flags) != 0)
        err_no = errno;
    close(dir);
    return err_no;
}

int file_remove(int root, const char *path)
{
    return remove_entry(root, path, 0);
}

int file_rmdir(int root, const char *path)
{
    return remove_entry(root, path, AT_REMOVEDIR);
}

/* ---- staging ---- */

static void random_id(char id[STAGE_BYTES])
{
    unsigned char bytes[16];
    ty_random(bytes, sizeof bytes);
    for (int i = 0; i < 16; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

ty_err stage_create(struct objects *o, char stage[STAGE_BYTES], int *ret_fd)
{
    char id[STAGE_BYTES];
    random_id(id);
    int err_no = ty_seam_step(TY_OP_WRITE);
    if (err_no == 0)
        err_no = file_open(o->staging_fd, id, O_RDWR | O_CREAT | O_EXCL, 0600, ret_fd);
    if (err_no)
        return ty_fail_errno(err_no, "cannot stage an upload in '%s/staging'", o->root);
    memcpy(stage, id, STAGE_BYTES);
    return TY_OK;
}

void stage_remove(struct objects *o, ty_str stage)
{
    char path[STAGE_BYTES];
    if (stage.len != STAGE_BYTES - 1)
        return;
    snprintf(path, sizeof path, TY_STR_FMT, TY_STR_ARG(stage));
    int err_no = file_remove(o->staging_fd, path);
    if (err_no != 0 && err_no != ENOENT) /* the next start removes it */
        log_warn("objects.stray", "stage=%s error=\"%s\"", path, strerror(err_no));
}

bool stage_exists(const struct objects *o, ty_str stage)
{
    char path[STAGE_BYTES];
    struct stat st;
    if (stage.len != STAGE_BYTES - 1)
        return false;
    snprintf(path, sizeof path, TY_STR_FMT, TY_STR_ARG(stage));
    return file_stat(o->staging_fd, path, &st) == 0;
}

ty_err stage_seal(int fd, struct row *row)
{
    int64_t now_ns = ty_now_ns();
    now_ns += now_ns % 1000 == 0; /* no clock tick ends like this */
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000}};
    if (futimens(fd, times) != 0)
        return ty_fail_errno(errno, "cannot set the time of a staged file");
    ty_err err = ty_sync(fd);
    if (err != TY_OK)
        return err;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return ty_fail_errno(errno, "cannot stat a staged file");
    row->ino = (int64_t)st.st_ino;
    row->object.size = st.st_size;
    row->object.mtime_ns = time_ns(st.st_mtim); /* as the file system rounds it */
    row->ctime_ns = 0;
    return TY_OK;
}

/* ---- copying ---- */

static bool cannot_share(int err_no)
{
    return err_no == EXDEV || err_no == EINVAL || err_no == ENOSYS || err_no == EOPNOTSUPP ||
           err_no == EPERM || err_no == ENOTTY;
}

static ty_err copy_by_hand(int from, int64_t offset, int64_t count, int to)
{
    enum { PART = 1 << 20 };
    char *part = malloc(PART);
    ty_assert(part);
    ty_err err = TY_OK;
    while (count > 0 && err == TY_OK) {
        ssize_t n = pread(from, part, count < PART ? (size_t)count : PART, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            err = ty_fail_errno(errno, "cannot read the bytes to copy");
        else if (n == 0)
            err = ty_fail(TY_UNAVAILABLE, "the file became shorter while it was copied");
        else
            err = ty_write_all(to, part, (size_t)n);
        offset += n;
        count -= n;
    }
    free(part);
    return err;
}

ty_err file_copy(int from, int64_t offset, int64_t count, int to)
{
    int err_no = ty_seam_step(TY_OP_WRITE);
    if (err_no)
        return ty_fail_errno(err_no, "cannot copy %" PRId64 " bytes", count);
    struct stat st, target;
    if (offset == 0 && fstat(from, &st) == 0 && st.st_size == count && fstat(to, &target) == 0 &&
        target.st_size == 0 && ioctl(to, FICLONE, from) == 0)
        return TY_OK;
    while (count > 0) {
        off_t at = offset;
        ssize_t n = copy_file_range(from, &at, to, NULL, (size_t)count, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && cannot_share(errno))
            return copy_by_hand(from, offset, count, to);
        if (n < 0)
            return ty_fail_errno(errno, "cannot copy %" PRId64 " bytes", count);
        if (n == 0)
            return ty_fail(TY_UNAVAILABLE, "the file became shorter while it was copied");
        offset += n;
        count -= n;
    }
    return TY_OK;
}
