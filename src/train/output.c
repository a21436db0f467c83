/* output.c -- the output folder: whose it is while a run lasts, and what an earlier run left in it.
 *
 *   .trainyard.lock           held by the run that writes here; says who that is
 *   export/savedmodel/TIME    TIME is 14 digits; ours if it has assets.extra/trainyard.json
 *
 * O1  One run at a time: the lock is the kernel's and ends with the process, however it ends. A
 *     second run is told at once, before it has touched anything.
 * O2  Only files that our runs write are removed, each by its name: a folder with anything else in
 *     it stays, and so does that.
 * O3  An earlier run's model goes after this one's is there whole. */
#include "train/train_int.h"

#include <dirent.h>

enum { HOLDER_BYTES = 256, STAMP_BYTES = 14, LOCK_TRIES = 100 };
static const char MAKING[] = ".making-";

/* ---- the lock ---- */

/* A lock of the open file, not of the process: two runs in one process exclude each other, too. */
static int lock_take(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

/* Is the file that is open still the one of that name? The run before removes it when it ends. */
static bool is_still(int fd, const char *path)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

static ty_err in_use(struct train_output *o)
{
    ty_str who;
    if (ty_file_read(AT_FDCWD, o->lock_path, HOLDER_BYTES, o->arena, &who) != TY_OK)
        who = TY_STR("");
    who = ty_str_trim(who);
    for (size_t i = 0; i < who.len; i++)
        if ((unsigned char)who.ptr[i] < ' ') /* whoever wrote it: one line, no colours */
            who.len = i;
    if (who.len == 0)
        who = TY_STR("another process");
    return ty_fail(TY_FAILED_PRECONDITION,
                   "'%s' is in use by " TY_STR_FMT ": wait until it has ended, or choose another "
                   "--output_dir",
                   o->name, TY_STR_ARG(who));
}

static ty_err holder_write(const struct train_output *o)
{
    char host[100] = "", when[32], who[HOLDER_BYTES];
    time_t now = (time_t)(ty_now_ns() / 1000000000);
    struct tm tm;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    localtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    int n = snprintf(who, sizeof who, "process %d on %s (since %s)\n", (int)getpid(), host, when);
    if (ftruncate(o->lock_fd, 0) != 0)
        return ty_fail_errno(errno, "cannot write '%s'", o->lock_path);
    return ty_write_all(o->lock_fd, who, (size_t)n);
}

ty_err output_open(struct train_output *o, struct ty_arena *a, const char *dir, const char *name)
{
    *o = (struct train_output){.arena = a, .dir = dir, .name = name, .lock_fd = -1};
    o->lock_path = ty_format(a, "%s/.trainyard.lock", dir);
    o->made = access(dir, F_OK) != 0;
    ty_err err = ty_mkdirs(dir, 0755);
    for (int i = 0; err == TY_OK && i < LOCK_TRIES; i++) {
        o->lock_fd = open(o->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (o->lock_fd < 0)
            return ty_fail_errno(errno, "cannot write '%s'", o->lock_path);
        int failed = lock_take(o->lock_fd);
        if (failed == ENOLCK || failed == ENOSYS || failed == EOPNOTSUPP) {
            log_warn("output.unlocked",
                     "'%s' is on a file system without locks: keep other runs "
                     "out of it yourself",
                     o->name);
            failed = 0;
        }
        if (failed == 0 && is_still(o->lock_fd, o->lock_path))
            return holder_write(o);
        close(o->lock_fd);
        o->lock_fd = -1;
        if (failed == EAGAIN || failed == EACCES)
            return in_use(o);
        if (failed != 0)
            return ty_fail_errno(failed, "cannot lock '%s'", o->lock_path);
    }
    return err == TY_OK ? in_use(o) : err;
}

void output_close(struct train_output *o)
{
    if (o->lock_fd < 0)
        return;
    unlink(o->lock_path); /* while it is held: who has it open sees that it is gone (is_still) */
    close(o->lock_fd);
    o->lock_fd = -1;
    if (o->made)
        (void)!rmdir(o->dir); /* it stays if anything is in it */
}

/* ---- what an earlier run left ---- */

ty_err output_unlink(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return TY_OK;
    return ty_fail_errno(errno, "cannot remove '%s'", path);
}

static bool is_stamp(const char *name)
{
    return strlen(name) == STAMP_BYTES && strspn(name, "0123456789") == STAMP_BYTES;
}

/* saved_model.pb first: without it nobody takes the rest for a model. */
static ty_err model_remove(struct ty_arena *a, const char *dir)
{
    static const char *const files[] = {
        "saved_model.pb", "fingerprint.pb", "variables/variables.index",
        "variables/variables.data-00000-of-00001", "assets.extra/trainyard.json"};
    static const char *const folders[] = {"/variables", "/assets.extra", ""};
    ty_err err = TY_OK;
    for (size_t i = 0; i < TY_COUNT(files) && err == TY_OK; i++)
        err = output_unlink(ty_format(a, "%s/%s", dir, files[i]));
    for (size_t i = 0; i < TY_COUNT(folders) && err == TY_OK; i++)
        if (rmdir(ty_format(a, "%s%s", dir, folders[i])) != 0 && errno != ENOTEMPTY &&
            errno != EEXIST && errno != ENOENT)
            err = ty_fail_errno(errno, "cannot remove '%s%s'", dir, folders[i]);
    return err;
}

static bool is_our_model(struct ty_arena *a, const char *dir)
{
    return access(ty_format(a, "%s/assets.extra/trainyard.json", dir), F_OK) == 0;
}

/* Call `each` with every entry of a folder; one that is not there has none. */
ty_err output_list(const char *dir, ty_err (*each)(void *arg, const char *name), void *arg)
{
    ty_err err = TY_OK;
    const struct dirent *e;
    DIR *d = opendir(dir);
    if (d == NULL && (errno == ENOENT || errno == ENOTDIR))
        return TY_OK;
    if (d == NULL)
        return ty_fail_errno(errno, "cannot list '%s'", dir);
    while (err == TY_OK && (e = readdir(d)) != NULL)
        err = each(arg, e->d_name);
    closedir(d);
    return err;
}

struct models {
    struct ty_arena *arena;
    const char *dir, *kept;
};

static ty_err making_remove(void *arg, const char *name)
{
    const struct models *m = arg;
    if (strncmp(name, MAKING, sizeof MAKING - 1) != 0 || !is_stamp(name + sizeof MAKING - 1))
        return TY_OK;
    return ty_remove_tree(AT_FDCWD, ty_format(m->arena, "%s/%s", m->dir, name));
}

static ty_err earlier_remove(void *arg, const char *name)
{
    const struct models *m = arg;
    const char *dir = ty_format(m->arena, "%s/%s", m->dir, name);
    if (!is_stamp(name) || strcmp(name, m->kept) == 0 || !is_our_model(m->arena, dir))
        return TY_OK;
    return model_remove(m->arena, dir);
}

ty_err output_check(const struct train_output *o)
{
    static const char *const folders[] = {"checkpoints", "tensorboard", "export",
                                          "export/savedmodel"};
    struct models m = {o->arena, ty_format(o->arena, "%s/export/savedmodel", o->dir), ""};
    for (size_t i = 0; i < TY_COUNT(folders); i++) {
        const char *path = ty_format(o->arena, "%s/%s", o->dir, folders[i]);
        if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0 && errno != ENOENT)
            return ty_fail_errno(errno, "cannot write in '%s'", path);
    }
    return output_list(m.dir, making_remove, &m); /* of a run that was killed */
}

/* ---- the export ---- */

/* A second that no model of this folder has: two runs may end in one. */
static const char *stamp_new(struct ty_arena *a, const char *parent)
{
    time_t now = (time_t)(ty_now_ns() / 1000000000);
    for (;; now++) {
        char stamp[32];
        struct tm tm;
        localtime_r(&now, &tm);
        strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &tm);
        if (access(ty_format(a, "%s/%s", parent, stamp), F_OK) != 0)
            return ty_format(a, "%s", stamp);
    }
}

ty_err output_export(struct train_output *o, struct nn_net *n, bool alone, const char **ret_stamp)
{
    const char *parent = ty_format(o->arena, "%s/export/savedmodel", o->dir);
    ty_err err = ty_mkdirs(parent, 0755);
    if (err != TY_OK)
        return err;
    const char *stamp = stamp_new(o->arena, parent);
    struct models m = {o->arena, parent, stamp};
    err = train_export(n, ty_format(o->arena, "%s/%s", parent, stamp));
    if (err == TY_OK && alone)
        err = output_list(parent, earlier_remove, &m);
    if (err == TY_OK)
        *ret_stamp = stamp;
    return err;
}
