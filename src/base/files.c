/* files.c -- whole small files, and folders. */
#include "base/base.h"

#include <dirent.h>

ty_err ty_file_read(int dirfd, const char *path, size_t limit, struct ty_arena *a,
                    ty_str *ret_bytes)
{
    ty_err err = TY_OK;
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", path);
    struct stat st;
    if (fstat(fd, &st) != 0) {
        err = ty_fail_errno(errno, "cannot stat '%s'", path);
        goto out;
    }
    if (st.st_size < 0 || (uint64_t)st.st_size > limit) {
        err = ty_fail(TY_RESOURCE_EXHAUSTED, "'%s' has %lld bytes, more than the %zu allowed", path,
                      (long long)st.st_size, limit);
        goto out;
    }
    /* Files of /proc say 0 bytes, and any file may grow: read until the end or the limit. */
    struct ty_buf buf;
    ty_buf_init(&buf, limit);
    char part[16384];
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err = ty_fail_errno(errno, "cannot read '%s'", path);
            break;
        }
        ty_buf_add(&buf, part, (size_t)n);
        if (buf.full)
            break;
    }
    if (err == TY_OK)
        err = ty_buf_check(&buf, path);
    if (err == TY_OK)
        *ret_bytes = ty_str_dup(a, ty_buf_str(&buf));
    ty_buf_clear(&buf);
out:
    close(fd);
    return err;
}

/* A folder's own entries (a new name, a rename) are durable only after it is synced itself. */
static ty_err sync_parent(int dirfd, const char *path)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX] = ".";
    if (slash && (size_t)(slash - path) >= sizeof parent)
        return ty_fail(TY_INVALID_ARGUMENT, "path is too long: '%s'", path);
    if (slash)
        snprintf(parent, sizeof parent, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    int fd = openat(dirfd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open folder '%s'", parent);
    ty_err err = ty_sync(fd);
    close(fd);
    return err;
}

ty_err ty_file_replace(int dirfd, const char *path, ty_str bytes, mode_t mode)
{
    uint64_t random;
    ty_random(&random, sizeof random);
    char temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.%016" PRIx64 ".tmp", path, random);
    if (n < 0 || (size_t)n >= sizeof temporary)
        return ty_fail(TY_INVALID_ARGUMENT, "path is too long: '%s'", path);
    int fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot create '%s'", temporary);
    ty_err err = ty_write_all(fd, bytes.ptr, bytes.len);
    if (err == TY_OK)
        err = ty_sync(fd);
    close(fd);
    if (err == TY_OK)
        err = ty_rename_at(dirfd, temporary, path);
    if (err != TY_OK) {
        unlinkat(dirfd, temporary, 0);
        return ty_wrap(err, "cannot replace '%s'", path);
    }
    return sync_parent(dirfd, path);
}

ty_err ty_mkdirs(const char *path, mode_t mode)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part)
        return ty_fail(TY_INVALID_ARGUMENT, "bad path '%s'", path);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            return ty_fail_errno(errno, "cannot make folder '%s'", part);
        part[i] = kept;
    }
    return TY_OK;
}

ty_err ty_remove_tree(int dirfd, const char *path)
{
    if (unlinkat(dirfd, path, 0) == 0 || errno == ENOENT)
        return TY_OK;
    int why = errno; /* of a folder it says only that it is one */
    int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        int seen = errno == ENOTDIR || errno == ELOOP ? why : errno;
        return ty_fail_errno(seen, "cannot remove '%s'", path);
    }
    DIR *dir = fdopendir(fd);
    ty_assert(dir);
    ty_err err = TY_OK;
    struct dirent *entry;
    while (err == TY_OK && (entry = readdir(dir)))
        if (!ty_str_is(TY_STR("."), entry->d_name) && !ty_str_is(TY_STR(".."), entry->d_name))
            err = ty_remove_tree(fd, entry->d_name);
    closedir(dir);
    if (err != TY_OK)
        return ty_wrap(err, "in '%s'", path);
    if (unlinkat(dirfd, path, AT_REMOVEDIR) != 0 && errno != ENOENT)
        err = ty_fail_errno(errno, "cannot remove folder '%s'", path);
    return err;
}
