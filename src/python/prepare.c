/* prepare.c -- make what a job's Python needs, once, and find it again.
 *
 * V1 A folder without .ready is nothing: who holds the lock removes it and starts over. V2 .ready
 * is written after everything else is on disk. V3 Folders are built where they stay, because a
 * virtual environment has its own path in it. keep.c has the rules of the locks. */
#include "python/python_int.h"

/* ---- folders ---- */

bool python_runtime_is_ready(const char *data_dir, const struct python_runtime *r)
{
    struct ty_arena a = {0};
    bool ready = keep_is_ready(&a, env_place(&a, data_dir, "runtimes", r->key));
    ty_arena_clear(&a);
    return ready;
}

/* Everything of the folder to disk, then .ready. */
static ty_err mark_ready(struct ty_arena *a, const char *folder, const char *text)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", folder);
    int failed = syncfs(fd), err_no = errno;
    close(fd);
    if (failed)
        return ty_fail_errno(err_no, "cannot sync '%s'", folder);
    return ty_file_replace(AT_FDCWD, ty_format(a, "%s/.ready", folder), ty_str_of(text), 0600);
}

/* What could not be made takes no room. The reason why it failed stays the thread's message. */
static void remove_failed(const char *folder)
{
    char *why = ty_err_take();
    if (ty_remove_tree(AT_FDCWD, folder) != TY_OK)
        printf("Warning: %s\n", ty_err_message());
    (void)!ty_fail(TY_FAILED_PRECONDITION, "%s", why);
    free(why);
}

typedef ty_err (*make_fn)(struct ty_arena *a, const char *folder, const struct making *m);

/* The folder, made if it is not there (V1 to V3), and locked for use: the caller closes *ret_fd. */
static ty_err ensure(struct ty_arena *a, const char *folder, const char *ready_text, make_fn make,
                     const struct making *m, bool *ret_made, int *ret_fd)
{
    struct flock shared = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int lock_fd = -1;
    bool made = false;
    ty_err err =
        ty_mkdirs(ty_cstr(a, (ty_str){folder, (size_t)(strrchr(folder, '/') - folder)}), 0700);
    if (err == TY_OK && keep_is_ready(a, folder))
        err = keep_lock(a, folder, F_RDLCK, true, &lock_fd);
    if (err == TY_OK && !keep_is_ready(a, folder)) { /* not there, or removed in between */
        if (lock_fd >= 0)
            close(lock_fd);
        err = keep_lock(a, folder, F_WRLCK, true, &lock_fd);
    }
    if (err != TY_OK)
        return err;
    if (!keep_is_ready(a, folder)) { /* nobody made it while we waited */
        made = true;
        err = ty_remove_tree(AT_FDCWD, folder);
        if (err == TY_OK)
            err = make(a, folder, m);
        if (err == TY_OK)
            err = mark_ready(a, folder, ready_text);
        else
            remove_failed(folder);
    }
    if (err == TY_OK && fcntl(lock_fd, F_SETLK, &shared) != 0)
        err = ty_fail_errno(errno, "cannot share the lock of '%s'", folder);
    if (err == TY_OK)
        err = keep_touch(a, folder);
    if (err != TY_OK) {
        close(lock_fd);
        return err;
    }
    *ret_made = made;
    *ret_fd = lock_fd;
    return TY_OK;
}

/* ---- runtimes ---- */

static ty_err ensure_runtime(struct ty_arena *a, const struct making *m, int *ret_fd)
{
    bool made;
    int fd;
    const char *folder = env_place(a, m->setup->data_dir, "runtimes", m->runtime->key);
    const char *text = ty_format(a, "%s\n%s\n", m->runtime->family, m->runtime->what);
    ty_err err = ensure(a, folder, text, env_make_runtime, m, &made, &fd);
    if (err != TY_OK)
        return err;
    if (!made)
        err = env_complete_runtime(a, folder, m);
    if (err == TY_OK)
        *ret_fd = fd;
    else
        close(fd);
    return err;
}

static void say_runtime(const struct python_runtime *r)
{
    printf("Runtime: asked for %s, using %s%s%s.\n", r->image, r->what,
           strcmp(r->family, "host") == 0 ? "" : " (CPU)",
           r->compat_v1
               ? ", with its tensorflow.compat.v1 under the name tensorflow (no tf.contrib)"
           : r->exact ? ""
                      : ", the nearest that this Python has");
    fflush(stdout);
}

ty_err python_runtime_add(const struct python_setup *setup, const char *image)
{
    struct ty_arena a = {0};
    struct python_host host;
    struct python_runtime runtime;
    int lock_fd;
    ty_err err = python_host_read(&a, setup->python, &host);
    if (err == TY_OK)
        err = python_runtime_find(&a, ty_str_of(image), &host, &runtime);
    if (err == TY_OK) {
        struct making m = {.setup = setup, .host = &host, .runtime = &runtime};
        say_runtime(&runtime);
        err = ensure_runtime(&a, &m, &lock_fd);
        if (err == TY_OK)
            close(lock_fd);
    }
    fflush(stdout);
    ty_arena_clear(&a);
    return err;
}

/* ---- environments ---- */

/* The environment's key, and each package's digest. */
static ty_err env_key(struct ty_arena *a, const struct python_runtime *runtime,
                      const struct python_pool *pool, const char **digests,
                      char out[PYTHON_KEY_BYTES])
{
    struct wire_sha256 h;
    wire_sha256_init(&h);
    wire_sha256_adds(&h, TY_STR("environment 1"));
    wire_sha256_adds(&h, ty_str_of(runtime->key));
    if (runtime->compat_v1)
        wire_sha256_adds(&h, TY_STR("compat.v1"));
    for (size_t i = 0; i < pool->package_count; i++) {
        char *digest = ty_alloc(a, PYTHON_KEY_BYTES);
        ty_err err = python_archive_digest(pool->packages[i], digest);
        if (err != TY_OK)
            return err;
        digests[i] = digest;
        wire_sha256_adds(&h, ty_str_of(digest));
    }
    wire_sha256_end(&h, out);
    return TY_OK;
}

static ty_err link_env(struct ty_arena *a, const char *into, int pool, const char *folder)
{
    const char *path = ty_format(a, "%s/python-%d", into, pool);
    unlink(path);
    if (symlink(folder, path) != 0)
        return ty_fail_errno(errno, "cannot make the link '%s'", path);
    return TY_OK;
}

/* The environment of a pool, checked and linked. The runtime is locked by the caller. */
static ty_err prepare_env(struct ty_arena *a, struct making *m, const char *into, bool *ret_made)
{
    char key[PYTHON_KEY_BYTES];
    int lock_fd;
    bool made;
    ty_err err = env_key(a, m->runtime, m->pool, m->digests, key);
    if (err != TY_OK)
        return err;
    const char *folder = env_place(a, m->setup->data_dir, "envs", key);
    err = ensure(a, folder, ty_format(a, "%s\n", m->runtime->key), env_make, m, &made, &lock_fd);
    if (err != TY_OK)
        return err;
    err = module_check(a, m->host, folder, m->pool);
    if (err == TY_OK)
        err = link_env(a, into, m->pool->pool, folder);
    close(lock_fd);
    *ret_made |= made;
    return err;
}

static ty_err prepare_pool(struct ty_arena *a, const struct python_setup *setup,
                           const struct python_host *host, const char *into,
                           const struct python_pool *pool, bool tell, bool *ret_made)
{
    struct python_runtime runtime;
    int lock_fd;
    ty_err err = python_runtime_find(a, ty_str_of(pool->image), host, &runtime);
    if (err != TY_OK)
        return err;
    struct making m = {.setup = setup,
                       .host = host,
                       .runtime = &runtime,
                       .pool = pool,
                       .digests = ty_new_array(a, const char *, pool->package_count + 1)};
    if (tell)
        say_runtime(&runtime);
    err = ensure_runtime(a, &m, &lock_fd);
    if (err != TY_OK)
        return err;
    err = prepare_env(a, &m, into, ret_made);
    close(lock_fd);
    return err;
}

ty_err python_prepare(const struct python_setup *setup, const char *into,
                      const struct python_pool *pools, size_t count)
{
    struct ty_arena a = {0};
    struct python_host host;
    bool made = false;
    ty_err err = python_host_read(&a, setup->python, &host);
    for (size_t i = 0; i < count && err == TY_OK; i++)
        err = prepare_pool(&a, setup, &host, into, &pools[i],
                           i == 0 || strcmp(pools[i].image, pools[i - 1].image) != 0, &made);
    size_t removed = err == TY_OK && made ? keep_clean(&a, setup->data_dir) : 0;
    if (removed > 0)
        printf("Removed %zu environment%s that no job used for 30 days.\n", removed,
               removed == 1 ? "" : "s");
    fflush(stdout);
    ty_arena_clear(&a);
    return err;
}
