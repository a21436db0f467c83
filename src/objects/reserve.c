/* reserve.c -- a few MB of the disk that are held for the day it is full.
 *
 * A delete needs room before it gives any: its commit goes to objects.db's log first. So
 * data/reserve is a file of nothing, really allocated. A write that frees space, or notes what a
 * delete must know first, and meets a full disk removes it and is tried again; so does a start with
 * little room. The thread of settle.c makes it again, never of more than half of what is free, so
 * that whoever needed the room finds the other half.
 *
 * A file's bytes are free when its unlink has returned and nobody has it open, not when its name is
 * gone. So reserve_lock is held across these few calls: who finds that another has given up the
 * reserve finds its room, too. */
#include "objects/objects_int.h"

#include <sys/statvfs.h>

static const char reserve_name[] = "reserve";

/* What is free on the file system of `fd`; -1: it does not say. */
static int64_t free_bytes(int fd)
{
    struct statvfs fs;
    return fstatvfs(fd, &fs) == 0 ? (int64_t)fs.f_bavail * (int64_t)fs.f_frsize : -1;
}

static void reserve_give_up(int root_fd)
{
    if (unlinkat(root_fd, reserve_name, 0) == 0)
        log_warn("objects.reserve", "the disk is full: data/reserve was given up; free some space");
    else if (errno != ENOENT)
        log_warn("objects.reserve", "error=\"cannot remove data/reserve: %s\"", strerror(errno));
}

void objects_reserve_yield(const char *data_dir)
{
    int fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return; /* whoever opens it next says why */
    int64_t free = free_bytes(fd);
    if (free >= 0 && free < RESERVE_BYTES)
        reserve_give_up(fd);
    close(fd);
}

ty_err write_freeing(struct objects *o, db_fn fn, void *arg)
{
    ty_err err = db_write(o->db, fn, arg);
    if (err != TY_RESOURCE_EXHAUSTED)
        return err;
    pthread_mutex_lock(&o->reserve_lock);
    reserve_give_up(o->root_fd); /* or somebody else has, just now */
    pthread_mutex_unlock(&o->reserve_lock);
    return db_write(o->db, fn, arg);
}

/* As large as there is room for; false: not this large. */
static bool reserve_grow(int fd, int64_t size)
{
    int err_no;
    do
        err_no = posix_fallocate(fd, 0, size);
    while (err_no == EINTR);
    return err_no == 0;
}

static void reserve_make(struct objects *o)
{
    struct stat st;
    int64_t have =
        fstatat(o->root_fd, reserve_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : 0;
    int64_t most = (free_bytes(o->root_fd) + have) / 2, size = RESERVE_BYTES;
    while (size > most && size > have)
        size /= 2;
    if (size <= have || size < RESERVE_LEAST)
        return;
    int fd = -1, err_no = file_open(o->root_fd, reserve_name, O_RDWR | O_CREAT, 0600, &fd);
    if (err_no == 0 && !reserve_grow(fd, size) && ftruncate(fd, have) != 0)
        err_no = errno;
    if (fd >= 0)
        close(fd);
    if (err_no != 0)
        log_warn("objects.reserve", "error=\"cannot make data/reserve: %s\"", strerror(err_no));
}

void reserve_keep(struct objects *o)
{
    pthread_mutex_lock(&o->reserve_lock);
    reserve_make(o);
    pthread_mutex_unlock(&o->reserve_lock);
}
