/* keep.c -- who may use, make and remove a runtime or an environment, and when one has got old.
 *
 * K1 A folder is made or removed under a write lock on <key>.lock, and taken into use under a read
 *    lock: between "it is ready" and the link to it, nobody removes it.
 * K2 Taking into use sets the time of .ready. Cleaning looks at that time under the write lock, so
 *    whoever came first decides.
 * K3 An environment that an attempt links to stays while the attempt's conductor is alive, which is
 *    as long as it holds the attempt's `lock` (exec.h), however many days that is.
 * Locks are record locks, so they end with the process that holds them, however it ends. */
#include "python/python_int.h"

#include <dirent.h>

enum { KEEP_CANDIDATES = 1000 };

ty_err keep_lock(struct ty_arena *a, const char *folder, int type, bool wait, int *ret_fd)
{
    const char *path = ty_format(a, "%s.lock", folder);
    struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", path);
    int failed = fcntl(fd, F_SETLK, &lock);
    if (failed && wait && (errno == EAGAIN || errno == EACCES)) {
        printf("Another job is making this just now: waiting for it.\n");
        fflush(stdout);
        while ((failed = fcntl(fd, F_SETLKW, &lock)) && errno == EINTR)
            ;
    }
    if (failed) {
        ty_err err = errno == EAGAIN || errno == EACCES
                         ? ty_fail(TY_FAILED_PRECONDITION, "a job is making or taking it just now")
                         : ty_fail_errno(errno, "cannot lock '%s'", path);
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return TY_OK;
}

bool keep_is_ready(struct ty_arena *a, const char *folder)
{
    return access(ty_format(a, "%s/.ready", folder), F_OK) == 0;
}

ty_err keep_touch(struct ty_arena *a, const char *folder)
{
    const char *path = ty_format(a, "%s/.ready", folder);
    if (utimensat(AT_FDCWD, path, NULL, 0) != 0)
        return ty_fail_errno(errno, "cannot touch '%s'", path);
    return TY_OK;
}

/* Does the attempt's folder link to the environment with this key, whatever path leads there? */
static bool attempt_links(int dirfd, const char *key)
{
    char name[16], target[PATH_MAX];
    for (int pool = 0; pool < PYTHON_POOLS; pool++) {
        snprintf(name, sizeof name, "python-%d", pool);
        ssize_t n = readlinkat(dirfd, name, target, sizeof target);
        if (n > 0 && ty_str_ends((ty_str){target, (size_t)n}, ty_str_of(key)))
            return true;
    }
    return false;
}

/* Its conductor holds the lock as long as it lives. One that cannot be asked counts as alive. */
static bool attempt_is_alive(int dirfd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(dirfd, "lock", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT;
    bool held = fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
    close(fd);
    return held;
}

/* Each attempt of a job, jobs/<id>/<attempt>. Closes `job_fd`. */
static bool job_uses(int job_fd, const char *key)
{
    struct dirent *entry;
    bool used = false;
    DIR *dir = fdopendir(job_fd);
    if (!dir) {
        close(job_fd);
        return true;
    }
    while (!used && (entry = readdir(dir))) {
        int fd = entry->d_name[0] == '.'
                     ? -1
                     : openat(job_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        used = attempt_links(fd, key) && attempt_is_alive(fd);
        close(fd);
    }
    closedir(dir);
    return used;
}

bool keep_in_use(struct ty_arena *a, const char *data_dir, const char *folder)
{
    struct dirent *entry;
    bool used = false;
    DIR *jobs = opendir(ty_format(a, "%s/jobs", data_dir));
    if (!jobs)
        return errno != ENOENT;
    while (!used && (entry = readdir(jobs))) {
        int fd = entry->d_name[0] == '.'
                     ? -1
                     : openat(dirfd(jobs), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            used = job_uses(fd, strrchr(folder, '/'));
    }
    closedir(jobs);
    return used;
}

/* The caller holds the write lock. .ready first: what is half removed is nothing. */
static ty_err remove_locked(struct ty_arena *a, const char *folder)
{
    if (unlink(ty_format(a, "%s/.ready", folder)) != 0 && errno != ENOENT)
        return ty_fail_errno(errno, "cannot remove '%s/.ready'", folder);
    return ty_remove_tree(AT_FDCWD, folder); /* the lock's file stays: somebody may wait on it */
}

ty_err keep_remove(struct ty_arena *a, const char *data_dir, const char *kind, const char *key)
{
    const char *folder = env_place(a, data_dir, kind, key);
    int lock_fd;
    ty_err err = keep_lock(a, folder, F_WRLCK, false, &lock_fd);
    if (err != TY_OK)
        return ty_wrap(err, "%.12s cannot be removed", key);
    if (keep_in_use(a, data_dir, folder))
        err = ty_fail(TY_FAILED_PRECONDITION,
                      "%.12s cannot be removed: a job that runs now uses it", key);
    if (err == TY_OK)
        err = remove_locked(a, folder);
    close(lock_fd);
    return err;
}

/* ---- cleaning ---- */

/* Since when is it unused? One that is not ready has the time of its folder. */
static bool is_old(struct ty_arena *a, const char *folder)
{
    struct stat st;
    if (stat(ty_format(a, "%s/.ready", folder), &st) != 0 && stat(folder, &st) != 0)
        return false;
    return ty_now_ns() / 1000000000 - st.st_mtim.tv_sec > PYTHON_UNUSED_S;
}

static bool clean_one(struct ty_arena *a, const char *data_dir, const char *folder)
{
    int lock_fd;
    if (!is_old(a, folder) || keep_lock(a, folder, F_WRLCK, false, &lock_fd) != TY_OK)
        return false;
    bool removed =
        is_old(a, folder) && !keep_in_use(a, data_dir, folder) && remove_locked(a, folder) == TY_OK;
    close(lock_fd);
    return removed;
}

size_t keep_clean(struct ty_arena *a, const char *data_dir)
{
    const char *place = ty_format(a, "%s/python/envs", data_dir);
    struct words found = {.a = a};
    struct dirent *entry;
    size_t removed = 0;
    DIR *dir = opendir(place);
    while (dir && found.count < KEEP_CANDIDATES && (entry = readdir(dir)))
        if (strlen(entry->d_name) == PYTHON_KEY_BYTES - 1)
            words_add(&found, ty_format(a, "%s/%s", place, entry->d_name));
    if (dir)
        closedir(dir);
    for (size_t i = 0; i < found.count; i++)
        removed += clean_one(a, data_dir, found.list[i]);
    return removed;
}
