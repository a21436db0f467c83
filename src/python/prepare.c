/* prepare.c -- make what a job's Python needs, once, and find it again.
 *
 * V1 A folder without .ready is nothing: who holds the lock removes it and starts over. V2 .ready
 * is written after everything else is on disk. V3 Locks are record locks, so they end with the
 * process that holds them, however it ends: a killed build leaves a folder without .ready and no
 * lock. V4 Folders are built where they stay, because a virtual environment has its own path in it.
 */
#include "python/python.h"

#include <spawn.h>

#include "prepare_py.h"

enum {
    OUTPUT_BYTES = 4096,
    READ_BYTES = 32768,
    LEAST_MINOR = 7,
};

/* ---- running Python ---- */

/* Start argv; with `capture`, its stdout is read into it. *ret_status is what waitpid gave. */
static ty_err run(const char *const *argv, struct ty_buf *capture, int *ret_status)
{
    int fds[2] = {-1, -1};
    pid_t pid;
    char part[4096];
    if (capture && pipe2(fds, O_CLOEXEC) != 0)
        return ty_fail_errno(errno, "cannot make a pipe");
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    if (capture)
        posix_spawn_file_actions_adddup2(&files, fds[1], STDOUT_FILENO);
    fflush(stdout);
    int err_no = ty_seam_step(TY_OP_FORK);
    if (err_no == 0)
        err_no = posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (capture)
        close(fds[1]);
    ssize_t n;
    while (capture && err_no == 0 && (n = read(fds[0], part, sizeof part)) != 0) {
        if (n > 0)
            ty_buf_add(capture, part, (size_t)n);
        else if (errno != EINTR)
            break;
    }
    if (capture)
        close(fds[0]);
    if (err_no)
        return ty_fail_errno(err_no, "cannot run '%s'", argv[0]);
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return ty_fail_errno(errno, "cannot wait for '%s'", argv[0]);
    return TY_OK;
}

ty_err python_host_read(struct ty_arena *a, const char *python, struct python_host *ret_host)
{
    const char *argv[] = {python,
                          "-I",
                          "-S",
                          "-c",
                          "import sys, os\n"
                          "print('%d %d.%d.%d' % ((sys.version_info[1],) + sys.version_info[:3]))\n"
                          "print(os.path.realpath(getattr(sys, '_base_executable', None) or "
                          "sys.executable))",
                          NULL};
    struct ty_buf out;
    int status;
    ty_buf_init(&out, OUTPUT_BYTES);
    ty_err err = run(argv, &out, &status);
    if (err == TY_OK && status != 0)
        err = ty_fail(TY_FAILED_PRECONDITION, "'%s' is no usable Python", python);
    ty_str text = ty_buf_str(&out), line, minor;
    int64_t number = 0;
    struct python_host host = {0};
    if (err == TY_OK) {
        ty_str_split(&text, '\n', &line);
        ty_str_split(&line, ' ', &minor);
        host.version = ty_cstr(a, line);
        host.executable = ty_cstr(a, ty_str_trim(text));
        if (ty_parse_i64(minor, &number) != TY_OK || number < LEAST_MINOR || number > 99 ||
            host.version[0] != '3' || host.executable[0] != '/')
            err = ty_fail(TY_FAILED_PRECONDITION, "'%s' is not Python 3.%d or newer", python,
                          LEAST_MINOR);
    }
    ty_buf_clear(&out);
    if (err != TY_OK)
        return ty_wrap(TY_FAILED_PRECONDITION, "jobs with Python packages need Python (setting "
                                               "'python')");
    host.minor = (int)number;
    *ret_host = host;
    return TY_OK;
}

/* prepare.py with these words after the mode, NULL-ended. */
static ty_err run_script(struct ty_arena *a, const struct python_setup *setup, const char *python,
                         const char *mode, const char *const *words)
{
    size_t count = 0;
    while (words[count])
        count++;
    const char **argv = ty_new_array(a, const char *, count + 8);
    char *text = ty_cstr(a, (ty_str){(const char *)python_prepare_py, sizeof python_prepare_py});
    const char *first[] = {
        python, "-I", "-c", text, mode, setup->wheel_folder, setup->offline ? "1" : "0"};
    memcpy(argv, first, sizeof first);
    memcpy(argv + TY_COUNT(first), words, count * sizeof *words);
    int status;
    ty_err err = run(argv, NULL, &status);
    if (err == TY_OK && WIFSIGNALED(status))
        err = ty_fail(TY_INTERNAL, "it was ended by signal %d", WTERMSIG(status));
    else if (err == TY_OK && status != 0)
        err = ty_fail(TY_FAILED_PRECONDITION, "the lines above say why");
    return err;
}

/* ---- folders ---- */

static char *place_of(struct ty_arena *a, const char *data_dir, const char *kind, const char *key)
{
    return ty_format(a, "%s/python/%s/%s", data_dir, kind, key);
}

static bool is_ready(struct ty_arena *a, const char *folder)
{
    return access(ty_format(a, "%s/.ready", folder), F_OK) == 0;
}

bool python_runtime_is_ready(const char *data_dir, const struct python_runtime *r)
{
    struct ty_arena a = {0};
    bool ready = is_ready(&a, place_of(&a, data_dir, "runtimes", r->key));
    ty_arena_clear(&a);
    return ready;
}

/* Hold the lock of a folder. With `wait`, say so and wait for who holds it; else
 * TY_FAILED_PRECONDITION. */
static ty_err lock_take(struct ty_arena *a, const char *folder, bool wait, int *ret_fd)
{
    const char *path = ty_format(a, "%s.lock", folder);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
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
                         ? ty_fail(TY_FAILED_PRECONDITION, "somebody is making it just now")
                         : ty_fail_errno(errno, "cannot lock '%s'", path);
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return TY_OK;
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

/* What makes a folder; `arg` is its own. */
typedef ty_err (*build_fn)(struct ty_arena *a, const char *folder, const void *arg);

/* The folder, made if it is not there (V1 to V4). */
static ty_err ensure(struct ty_arena *a, const char *folder, const char *ready_text, build_fn build,
                     const void *arg)
{
    int lock_fd;
    if (is_ready(a, folder))
        return TY_OK;
    ty_err err =
        ty_mkdirs(ty_cstr(a, (ty_str){folder, (size_t)(strrchr(folder, '/') - folder)}), 0700);
    if (err == TY_OK)
        err = lock_take(a, folder, true, &lock_fd);
    if (err != TY_OK)
        return err;
    if (!is_ready(a, folder)) { /* nobody made it while we waited */
        err = ty_remove_tree(AT_FDCWD, folder);
        if (err == TY_OK)
            err = build(a, folder, arg);
        if (err == TY_OK)
            err = mark_ready(a, folder, ready_text);
    }
    close(lock_fd);
    return err;
}

/* ---- runtimes ---- */

struct making {
    const struct python_setup *setup;
    const struct python_host *host;
    const struct python_runtime *runtime;
    const struct python_pool *pool;
    const char **digests; /* of each package */
};

static ty_err build_runtime(struct ty_arena *a, const char *folder, const void *arg)
{
    const struct making *m = arg;
    const char *words[PYTHON_REQUIREMENTS + 3] = {folder, m->runtime->family};
    size_t count = 2;
    printf("Making the runtime (%s). This is done once; it is kept for all jobs.\n",
           m->runtime->what);
    for (size_t i = 0; m->runtime->requirements[i]; i++)
        words[count++] = m->runtime->requirements[i];
    int64_t start_ms = ty_boot_ms();
    ty_err err = run_script(a, m->setup, m->host->executable, "runtime", words);
    if (err != TY_OK)
        return ty_wrap(err, "the runtime for '%s' could not be made", m->runtime->image);
    printf("The runtime is made (%.1f seconds).\n", (double)(ty_boot_ms() - start_ms) / 1000);
    return TY_OK;
}

static ty_err ensure_runtime(struct ty_arena *a, const struct making *m)
{
    return ensure(a, place_of(a, m->setup->data_dir, "runtimes", m->runtime->key),
                  ty_format(a, "%s\n%s\n", m->runtime->family, m->runtime->what), build_runtime, m);
}

static void say_runtime(const struct python_runtime *r)
{
    printf("Runtime: asked for %s, using %s%s%s.\n", r->image, r->what,
           strcmp(r->family, "host") == 0 ? "" : " (CPU)",
           r->exact ? "" : ", the nearest that this Python has");
    fflush(stdout);
}

ty_err python_runtime_add(const struct python_setup *setup, const char *image)
{
    struct ty_arena a = {0};
    struct python_host host;
    struct python_runtime runtime;
    ty_err err = python_host_read(&a, setup->python, &host);
    if (err == TY_OK)
        err = python_runtime_find(&a, ty_str_of(image), &host, &runtime);
    if (err == TY_OK) {
        struct making m = {.setup = setup, .host = &host, .runtime = &runtime};
        say_runtime(&runtime);
        err = ensure_runtime(&a, &m);
    }
    ty_arena_clear(&a);
    return err;
}

/* ---- environments ---- */

static ty_err digest_file(const char *path, char out[PYTHON_KEY_BYTES])
{
    struct python_sha256 h;
    char part[READ_BYTES];
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open the package '%s'", path);
    python_sha256_init(&h);
    while ((n = read(fd, part, sizeof part)) != 0) {
        if (n > 0)
            python_sha256_add(&h, part, (size_t)n);
        else if (errno != EINTR)
            break;
    }
    int err_no = errno;
    close(fd);
    if (n < 0)
        return ty_fail_errno(err_no, "cannot read the package '%s'", path);
    python_sha256_end(&h, out);
    return TY_OK;
}

/* The environment's key, and each package's digest. */
static ty_err env_key(struct ty_arena *a, const struct python_runtime *runtime,
                      const struct python_pool *pool, const char **digests,
                      char out[PYTHON_KEY_BYTES])
{
    struct python_sha256 h;
    python_sha256_init(&h);
    python_sha256_adds(&h, TY_STR("environment 1"));
    python_sha256_adds(&h, ty_str_of(runtime->key));
    for (size_t i = 0; i < pool->package_count; i++) {
        char *digest = ty_alloc(a, PYTHON_KEY_BYTES);
        ty_err err = digest_file(pool->packages[i], digest);
        if (err != TY_OK)
            return err;
        digests[i] = digest;
        python_sha256_adds(&h, ty_str_of(digest));
    }
    python_sha256_end(&h, out);
    return TY_OK;
}

static ty_err build_env(struct ty_arena *a, const char *folder, const void *arg)
{
    const struct making *m = arg;
    size_t packages = m->pool->package_count;
    const char *base = place_of(a, m->setup->data_dir, "runtimes", m->runtime->key);
    const char *words[] = {folder, base, m->runtime->family, NULL};
    const char **pairs = ty_new_array(a, const char *, 2 * packages + 2);
    pairs[0] = folder;
    for (size_t i = 0; i < packages; i++) {
        pairs[1 + 2 * i] = m->pool->packages[i];
        pairs[2 + 2 * i] = m->digests[i];
    }
    printf("Installing %zu package%s.\n", packages, packages == 1 ? "" : "s");
    int64_t start_ms = ty_boot_ms();
    ty_err err = run_script(a, m->setup, m->host->executable, "environment", words);
    if (err == TY_OK)
        err = run_script(a, m->setup, ty_format(a, "%s/bin/python", folder), "install", pairs);
    if (err != TY_OK)
        return ty_wrap(err, "'%s' could not be installed",
                       packages == 1 ? strrchr(m->pool->packages[0], '/') + 1 : "the packages");
    printf("The packages are installed (%.1f seconds).\n",
           (double)(ty_boot_ms() - start_ms) / 1000);
    return TY_OK;
}

/* Looked for once; a mark in the environment remembers. */
static ty_err check_module(struct ty_arena *a, const struct python_setup *setup, const char *folder,
                           const char *module)
{
    struct python_sha256 h;
    char digest[PYTHON_KEY_BYTES];
    python_sha256_init(&h);
    python_sha256_adds(&h, ty_str_of(module));
    python_sha256_end(&h, digest);
    const char *mark = ty_format(a, "%s/.checked-%s", folder, digest);
    if (access(mark, F_OK) == 0)
        return TY_OK;
    const char *words[] = {folder, module, NULL};
    ty_err err = run_script(a, setup, ty_format(a, "%s/bin/python", folder), "check", words);
    if (err != TY_OK)
        return ty_wrap(err, "the module '%s' cannot be run", module);
    int fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
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

static ty_err prepare_pool(struct ty_arena *a, const struct python_setup *setup,
                           const struct python_host *host, const char *into,
                           const struct python_pool *pool, bool tell)
{
    struct python_runtime runtime;
    char key[PYTHON_KEY_BYTES];
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
    err = ensure_runtime(a, &m);
    if (err == TY_OK)
        err = env_key(a, &runtime, pool, m.digests, key);
    if (err != TY_OK)
        return err;
    const char *folder = place_of(a, setup->data_dir, "envs", key);
    err = ensure(a, folder, ty_format(a, "%s\n", runtime.key), build_env, &m);
    if (err == TY_OK)
        err = check_module(a, setup, folder, pool->module);
    return err == TY_OK ? link_env(a, into, pool->pool, folder) : err;
}

ty_err python_prepare(const struct python_setup *setup, const char *into,
                      const struct python_pool *pools, size_t count)
{
    struct ty_arena a = {0};
    struct python_host host;
    ty_err err = python_host_read(&a, setup->python, &host);
    for (size_t i = 0; i < count && err == TY_OK; i++)
        err = prepare_pool(&a, setup, &host, into, &pools[i],
                           i == 0 || strcmp(pools[i].image, pools[i - 1].image) != 0);
    fflush(stdout);
    ty_arena_clear(&a);
    return err;
}
