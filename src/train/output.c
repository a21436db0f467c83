/* output.c -- the output folder: whose it is while a run lasts, and what an earlier run left in it.
 *
 *   .trainyard.lock           held by the run that writes here; says who that is
 *   export/savedmodel/TIME    TIME is 14 digits; ours if it has assets.extra/trainyard.json
 *
 * O1  One run at a time: the lock is the kernel's and ends with the process, however it ends. A
 *     second run is told at once, before it has touched anything. A folder that is removed or moved
 *     away takes the lock along: the run makes and holds it again before it writes the next time.
 * O2  Only files that our runs write are removed, each by its name: a folder with anything else in
 *     it stays, and so does that.
 * O3  An earlier run's model goes after this one's is there whole. */
#include "train/train_int.h"

#include <dirent.h>

enum { STAMP_BYTES = 14, LOCK_TRIES = 100 };
static const char MAKING[] = ".making-";

/* ---- the lock ---- */

bool output_is_still(int fd, const char *path)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

/* TY_ABORTED: another run has it. The run before may remove the file between open and lock. */
static ty_err lock_open(struct train_output *o)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        int fd = open(o->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
            return ty_fail_errno(errno, "cannot write '%s'", o->lock_path);
        ty_err err = ty_lock_take(fd, o->lock_path);
        if (err == TY_UNIMPLEMENTED) {
            log_warn("output.unlocked", "%s: keep other runs out of '%s' yourself",
                     ty_err_message(), o->name);
            err = TY_OK;
        }
        if (err == TY_OK && output_is_still(fd, o->lock_path)) {
            o->lock_fd = fd;
            return ty_lock_sign(fd, o->lock_path);
        }
        close(fd);
        if (err != TY_OK)
            return err;
    }
    return TY_ABORTED;
}

static ty_err dir_hold(struct train_output *o)
{
    ty_err err = ty_mkdirs(o->dir, 0755);
    if (err == TY_OK)
        err = lock_open(o);
    if (err == TY_ABORTED)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "'%s' is in use by %s: wait until it has ended, or choose another "
                       "--output_dir",
                       o->name, ty_lock_holder(o->arena, AT_FDCWD, o->lock_path));
    return err;
}

ty_err output_open(struct train_output *o, struct ty_arena *a, const char *dir, const char *name)
{
    *o = (struct train_output){.arena = a, .dir = dir, .name = name, .lock_fd = -1};
    o->lock_path = ty_format(a, "%s/.trainyard.lock", dir);
    o->made = access(dir, F_OK) != 0;
    return dir_hold(o);
}

ty_err output_keep(struct train_output *o)
{
    if (output_is_still(o->lock_fd, o->lock_path))
        return TY_OK;
    close(o->lock_fd);
    o->lock_fd = -1;
    return dir_hold(o);
}

void output_close(struct train_output *o)
{
    if (o->lock_fd < 0)
        return;
    if (output_is_still(o->lock_fd, o->lock_path)) /* else it is another run's, if anybody's */
        unlink(o->lock_path); /* while it is held: who has it open sees that it is gone */
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
