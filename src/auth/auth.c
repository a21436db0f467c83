/* auth.c -- what the server lays out under data/client for Google's clients.
 *
 * Everything is made anew at each start, because the port may have changed, and written where it
 * differs: a full disk is no reason not to start. What a user or time has put there (the key,
 * gcloud properties) is read first and kept. */
#include "auth/auth_int.h"

#include <pthread.h>

#include "preload_so.h"
#include "sitecustomize_py.h"

static char token[65];

static void token_make(void)
{
    unsigned char bytes[32];
    ty_random(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
}

const char *auth_token(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, token_make);
    return token;
}

ty_err auth_file_write(const char *path, ty_str bytes, mode_t mode)
{
    struct ty_arena a = {0};
    struct stat st;
    ty_str now;
    bool same = lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 07777) == mode &&
                (size_t)st.st_size == bytes.len &&
                ty_file_read(AT_FDCWD, path, bytes.len, &a, &now) == TY_OK && ty_str_eq(now, bytes);
    ty_arena_clear(&a);
    return same ? TY_OK : ty_file_replace(AT_FDCWD, path, bytes, mode);
}

/* A link <folder>/<name> to this program. An older one (another build) is replaced; ty_rename_at
 * makes the change whole, so a shell never finds the name missing. */
static ty_err link_program(struct ty_arena *a, const char *folder, const char *name)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0)
        return ty_fail_errno(errno, "cannot read '/proc/self/exe'");
    self[n] = '\0';
    const char *path = ty_format(a, "%s/%s", folder, name);
    const char *fresh = ty_format(a, "%s/.%s.%d", folder, name, (int)getpid());
    if (unlink(fresh) != 0 && errno != ENOENT)
        return ty_fail_errno(errno, "cannot remove '%s'", fresh);
    if (symlink(self, fresh) != 0)
        return ty_fail_errno(errno, "cannot make the link '%s'", fresh);
    return ty_rename_at(AT_FDCWD, fresh, path);
}

ty_err auth_client_shims(const char *data_dir)
{
    struct ty_arena a = {0};
    const char *shims = ty_format(&a, "%s/client/shims", data_dir);
    ty_err err = ty_mkdirs(shims, 0700);
    if (err == TY_OK)
        err = link_program(&a, shims, "gcloud");
    if (err == TY_OK)
        err = link_program(&a, shims, "gsutil");
    ty_arena_clear(&a);
    return err;
}

/* The user of a container may be another one than ours. What TensorFlow's gs:// needs there, the
 * library and the bundle, is no secret, and can be reached; the data folder itself keeps others of
 * this machine out. */
static ty_err folders_make(struct ty_arena *a, const char *client)
{
    static const struct {
        const char *name;
        mode_t mode;
    } folders[] = {{"", 0711},        {"/bin", 0700},    {"/lib", 0755},
                   {"/python", 0700}, {"/gcloud", 0700}, {"/gcloud/configurations", 0700}};
    for (size_t i = 0; i < TY_COUNT(folders); i++) {
        const char *path = ty_format(a, "%s%s", client, folders[i].name);
        ty_err err = ty_mkdirs(path, folders[i].mode);
        if (err == TY_OK && chmod(path, folders[i].mode) != 0) /* whatever the umask */
            err = ty_fail_errno(errno, "cannot set the mode of '%s'", path);
        if (err != TY_OK)
            return err;
    }
    return TY_OK;
}

static ty_err client_write(struct ty_arena *a, const char *client, const char *url,
                           const char *project, const char *region)
{
    ty_err err = folders_make(a, client);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/token", client), ty_str_of(auth_token()),
                              0600);
    if (err == TY_OK)
        err = auth_gcloud_write(a, client, url, project, region);
    if (err == TY_OK) {
        ty_str now = auth_gcloud_property(a, ty_format(a, "%s/gcloud", client), "core", "project");
        err = auth_key_write(a, client, url, now.len > 0 ? now : ty_str_of(project));
    }
    if (err == TY_OK)
        err = auth_file_write(
            ty_format(a, "%s/python/sitecustomize.py", client),
            (ty_str){(const char *)auth_sitecustomize, sizeof(auth_sitecustomize)}, 0600);
    if (err == TY_OK)
        err = auth_file_write(ty_format(a, "%s/" AUTH_PRELOAD, client),
                              (ty_str){(const char *)auth_preload, sizeof(auth_preload)}, 0755);
    if (err == TY_OK)
        err = auth_bundle_write(a, client);
    if (err == TY_OK)
        err = link_program(a, ty_format(a, "%s/bin", client), "trainyard");
    return err;
}

ty_err auth_client_prepare(const char *data_dir, const char *url, const char *project,
                           const char *region)
{
    struct ty_arena a = {0};
    char *absolute = realpath(data_dir, NULL);
    if (absolute == NULL)
        return ty_fail_errno(errno, "cannot find the data folder '%s'", data_dir);
    ty_err err = client_write(&a, ty_format(&a, "%s/client", absolute), url, project, region);
    free(absolute);
    ty_arena_clear(&a);
    return err == TY_OK ? TY_OK : ty_wrap(err, "local credentials in '%s/client'", data_dir);
}
