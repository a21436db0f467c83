/* files.c -- what the paths of a command line stand for, and their bytes.
 *
 * An object of a bucket is a plain file of this machine (wire_gs_path), so gs://BUCKET/NAME is read
 * and written where it lies: below /gcs in a job, and else in the yard's data folder.
 *
 * Files are read, not mapped: of a mapped file that becomes shorter the missing bytes are a SIGBUS,
 * and a parser may see two values of one byte. */
#include "train/train_int.h"

#include <dirent.h>
#include <glob.h>

enum { MOST_FILES = 1 << 22, MOST_DEPTH = 32 };

/* ---- bytes ---- */

static bool time_is(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* The inode's own time tells what was overwritten by someone who set the other one back; a link to
 * the file (an object that is copied) changes it, too, and is no change of the file. */
static bool mark_is(const struct train_mark *m, const struct train_mark *now)
{
    return m->device == now->device && m->inode == now->inode && m->size == now->size &&
           time_is(m->modified, now->modified) &&
           (time_is(m->changed, now->changed) || m->links != now->links);
}

static ty_err mark_get(int fd, const char *path, struct train_mark *ret_mark)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return ty_fail_errno(errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode))
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' is not a regular file", path);
    *ret_mark = (struct train_mark){.device = st.st_dev,
                                    .inode = st.st_ino,
                                    .links = st.st_nlink,
                                    .size = (size_t)st.st_size,
                                    .modified = st.st_mtim,
                                    .changed = st.st_ctim};
    return TY_OK;
}

static ty_err changed(const char *path, const char *how)
{
    return ty_fail(TY_ABORTED, "'%s' %s while it was in use: begin again once it is complete", path,
                   how);
}

ty_err train_file_open(const char *path, int *ret_fd, struct train_mark *ret_mark)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not be waited for */
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", path);
    ty_err err = mark_get(fd, path, ret_mark);
    if (err == TY_OK)
        *ret_fd = fd;
    else
        close(fd);
    return err;
}

ty_err train_file_bytes(int fd, const char *path, size_t from, size_t count, char *into)
{
    while (count > 0) {
        ssize_t n = pread(fd, into, count, (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ty_fail_errno(errno, "cannot read '%s'", path);
        if (n == 0)
            return changed(path, "became shorter");
        into += n;
        from += (size_t)n;
        count -= (size_t)n;
    }
    return TY_OK;
}

ty_err train_file_same(int fd, const char *path, const struct train_mark *mark)
{
    struct train_mark now = {0};
    ty_err err = mark_get(fd, path, &now);
    return err != TY_OK || mark_is(mark, &now) ? err : changed(path, "was changed");
}

ty_err train_file_part(const char *path, const struct train_mark *mark, size_t from, size_t count,
                       char *into)
{
    struct train_mark now = {0};
    int fd;
    ty_err err = train_file_open(path, &fd, &now);
    if (err == TY_NOT_FOUND)
        return changed(path, "was removed");
    if (err != TY_OK)
        return err;
    err = mark_is(mark, &now) ? train_file_bytes(fd, path, from, count, into)
                              : changed(path, "was changed");
    if (err == TY_OK)
        err = train_file_same(fd, path, mark);
    close(fd);
    return err;
}

char *train_bytes_new(const char *path, size_t count)
{
    char *bytes = malloc(count + 1);
    if (bytes == NULL)
        (void)!ty_fail(TY_RESOURCE_EXHAUSTED, "'%s': no memory for %zu bytes of it", path, count);
    return bytes;
}

ty_err train_file_read(const char *path, ty_str *ret_text)
{
    struct train_mark mark = {0};
    int fd;
    ty_err err = train_file_open(path, &fd, &mark);
    if (err != TY_OK)
        return err;
    char *text = train_bytes_new(path, mark.size);
    err = text ? train_file_bytes(fd, path, 0, mark.size, text) : TY_RESOURCE_EXHAUSTED;
    if (err == TY_OK)
        err = train_file_same(fd, path, &mark);
    close(fd);
    if (err == TY_OK)
        *ret_text = (ty_str){text, mark.size};
    else
        free(text);
    return err;
}

void train_file_free(ty_str text)
{
    free((void *)text.ptr);
}

/* ---- gs:// ---- */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

ty_err train_path(struct ty_arena *a, const char *name, const char **ret_path)
{
    const char *data = getenv("TRAINYARD_DATA"), *home = getenv("HOME");
    ty_str uri = ty_str_of(name), bucket, object;
    if (!ty_str_starts(uri, TY_STR("gs://"))) {
        *ret_path = name;
        return TY_OK;
    }
    while (uri.len > 0 && uri.ptr[uri.len - 1] == '/')
        uri.len--;
    if (data == NULL || data[0] == '\0')
        data = ty_format(a, "%s/.trainyard", home ? home : "");
    const char *path = wire_gs_path(a, data, uri);
    if (path == NULL || !wire_gs_parse(uri, &bucket, &object))
        return ty_fail(TY_INVALID_ARGUMENT, "'%s' names no object that is a file", name);
    if (is_folder(ty_format(a, "/gcs/" TY_STR_FMT, TY_STR_ARG(bucket))))
        path =
            ty_format(a, "/gcs/" TY_STR_FMT "/" TY_STR_FMT, TY_STR_ARG(bucket), TY_STR_ARG(object));
    else if (!is_folder(ty_format(a, "%s/buckets/" TY_STR_FMT, data, TY_STR_ARG(bucket))))
        return ty_fail(TY_NOT_FOUND,
                       "'%s': there is no bucket '" TY_STR_FMT "' in '%s' (TRAINYARD_DATA)", name,
                       TY_STR_ARG(bucket), data);
    *ret_path = path;
    return TY_OK;
}

/* ---- lists ---- */

struct list {
    struct ty_arena *arena;
    const char **paths;
    size_t count, cap;
};

static ty_err list_add(struct list *l, const char *path)
{
    if (l->count == MOST_FILES)
        return ty_fail(TY_INVALID_ARGUMENT, "more than %d files", MOST_FILES);
    if (l->count == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        const char **more = ty_new_array(l->arena, const char *, cap);
        if (l->count > 0)
            memcpy(more, l->paths, l->count * sizeof *more);
        l->paths = more;
        l->cap = cap;
    }
    l->paths[l->count++] = path;
    return TY_OK;
}

ty_err train_files_find(struct ty_arena *a, const char *const *patterns, size_t count,
                        const char ***ret_files, size_t *ret_count)
{
    struct list l = {.arena = a};
    ty_err err = TY_OK;
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        glob_t found = {0};
        int status = glob(patterns[i], GLOB_BRACE | GLOB_TILDE, NULL, &found);
        if (status != 0 || found.gl_pathc == 0)
            err = ty_fail(TY_NOT_FOUND, "no file matches '%s'", patterns[i]);
        for (size_t k = 0; k < found.gl_pathc && err == TY_OK; k++)
            err = list_add(&l, ty_format(a, "%s", found.gl_pathv[k]));
        globfree(&found);
    }
    *ret_files = l.paths;
    *ret_count = l.count;
    return err;
}

/* All files below `dir`, in no order. Links to folders are not followed, as Keras does not. */
static ty_err folder_walk(struct list *l, const char *dir, int depth)
{
    ty_err err = TY_OK;
    const struct dirent *e;
    if (depth == MOST_DEPTH)
        return ty_fail(TY_INVALID_ARGUMENT, "'%s': folders in folders, %d deep", dir, MOST_DEPTH);
    DIR *d = opendir(dir);
    if (d == NULL)
        return ty_fail_errno(errno, "cannot list '%s'", dir);
    while (err == TY_OK && (e = readdir(d)) != NULL) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        const char *path = ty_format(l->arena, "%s/%s", dir, e->d_name);
        bool is_folder = e->d_type == DT_DIR;
        if (e->d_type == DT_UNKNOWN)
            is_folder = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
        err = is_folder ? folder_walk(l, path, depth + 1) : list_add(l, path);
    }
    closedir(d);
    return err;
}

ty_err train_folder_list(struct ty_arena *a, const char *dir, ty_str **ret_paths, size_t *ret_count)
{
    struct list l = {.arena = a};
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/')
        length--;
    ty_err err = folder_walk(&l, ty_format(a, "%.*s", (int)length, dir), 0);
    if (err != TY_OK)
        return err;
    ty_str *paths = ty_new_array(a, ty_str, l.count + 1);
    for (size_t i = 0; i < l.count; i++)
        paths[i] = ty_str_of(l.paths[i]);
    *ret_paths = paths;
    *ret_count = l.count;
    return TY_OK;
}
