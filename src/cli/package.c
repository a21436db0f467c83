/* package.c -- a folder with a trainer becomes an archive that pip installs.
 *
 * What real gcloud does with docker build (local-run, and local-package-path of a pool) is done
 * here with tar: the folder as it is, and beside it, if it has no setup.py or the like, a setup.cfg
 * that takes every package and file in it. Requirements come as a second, empty package that asks
 * for them, so that a setup.py need not be touched.
 *
 * The archive's bytes depend on names and contents alone (sorted, no times, no owners), and its
 * name on its bytes: the same sources are the same package, whose environment is there already. */
#include "cli/cli_int.h"

#include <dirent.h>
#include <spawn.h>
#include <sys/resource.h>

#include "python/python.h"
#include "wire/wire.h"

enum {
    ARCHIVE_BYTES = 1 << 30,
    REQUIREMENTS_BYTES = 1 << 20,
};

/* ---- running tar ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0) {
        limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
}

/* TY_FAILED_PRECONDITION: it has said why on stderr. */
static ty_err run_tar(const char *const *argv)
{
    pid_t pid;
    int status = 0;
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    limit_files(ARCHIVE_BYTES); /* of the child, which gets SIGXFSZ */
    int err_no = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
    limit_files(before.rlim_cur);
    if (err_no != 0)
        return ty_fail_errno(err_no, "cannot run 'tar'");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return ty_fail_errno(errno, "cannot wait for 'tar'");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "it has more than %d MiB; keep data and outputs in another folder and give "
                       "their paths as arguments",
                       ARCHIVE_BYTES >> 20);
    /* 1: a file went away or changed under it (an editor's lock, a link that leads nowhere); tar
     * has said which. */
    return status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 1)
               ? TY_OK
               : ty_fail(TY_FAILED_PRECONDITION, "tar failed");
}

/* `--option` words, then what goes in: -C FOLDER NAME ... */
static ty_err archive_make(struct cli *c, const char *file, const char *const *what, size_t count)
{
    const char *first[] = {
        "tar",
        "--create",
        "--file",
        file,
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
        "--mode=u+rwX,go=",
        "--dereference",
        "--exclude-vcs",
        "--exclude=*.pyc",
        "--exclude=__pycache__",
        "--exclude=./build",
        "--exclude=./dist",
        "--exclude=*.egg-info",
        "--exclude=.#*",
        "--exclude=.venv",
        "--exclude-tag-all=pyvenv.cfg",
    };
    const char **argv = ty_new_array(c->arena, const char *, TY_COUNT(first) + count + 1);
    memcpy(argv, first, sizeof first);
    memcpy(argv + TY_COUNT(first), what, count * sizeof *what);
    return run_tar(argv);
}

/* ---- what setuptools is to do ---- */

static bool has_file(struct cli *c, const char *folder, const char *name)
{
    return access(ty_format(c->arena, "%s/%s", folder, name), F_OK) == 0;
}

static bool is_project(struct cli *c, const char *folder)
{
    return has_file(c, folder, "setup.py") || has_file(c, folder, "pyproject.toml") ||
           has_file(c, folder, "setup.cfg");
}

static int is_module(const struct dirent *entry)
{
    ty_str name = ty_str_of(entry->d_name);
    return ty_str_ends(name, TY_STR(".py")) && name.ptr[0] != '.';
}

/* The modules that lie in the folder itself, which setuptools does not find. In order: the bytes
 * must not depend on the file system's. */
static void add_top_modules(struct ty_buf *b, const char *folder)
{
    struct dirent **found = NULL;
    int count = scandir(folder, &found, is_module, alphasort);
    ty_buf_addz(b, "py_modules =\n");
    for (int i = 0; i < count; i++) {
        ty_buf_addf(b, "  %.*s\n", (int)strlen(found[i]->d_name) - 3, found[i]->d_name);
        free(found[i]);
    }
    free(found);
}

static void add_setup(struct ty_buf *b, const char *name)
{
    ty_buf_addf(b, "[metadata]\nname = %s\nversion = 0\n[options]\n", name);
}

/* pyproject.toml and setup.cfg in a new folder of their own. */
static ty_err setup_write(struct cli *c, const char *into, ty_str setup)
{
    ty_str project = TY_STR("[build-system]\nrequires = [\"setuptools\"]\n"
                            "build-backend = \"setuptools.build_meta\"\n");
    ty_err err = ty_mkdirs(into, 0700);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(c->arena, "%s/pyproject.toml", into), project,
                              0600);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(c->arena, "%s/setup.cfg", into), setup, 0600);
    return err;
}

/* ---- keeping it ---- */

/* Give the archive its name, in the data folder, where jobs find it. */
static ty_err archive_keep(struct cli *c, const char *made, const char *name, const char **ret_path)
{
    char digest[WIRE_SHA256_HEX_BYTES];
    ty_err err = python_archive_digest(made, digest);
    if (err != TY_OK)
        return err;
    const char *path = ty_format(c->arena, "%s/packages/%s-%.16s.tar", c->data_dir, name, digest);
    err = ty_rename_at(AT_FDCWD, made, path);
    if (err == TY_OK)
        *ret_path = path;
    return err;
}

static ty_err pack_folder(struct cli *c, const struct cli_source *s, const char *stage,
                          const char **ret_path)
{
    const char *made = ty_format(c->arena, "%s/source.tar", stage), *folder = s->folder;
    const char **what = ty_new_array(c->arena, const char *, 8 + 3 * s->extra_dir_count);
    size_t n = 0;
    ty_err err = TY_OK;
    if (!is_project(c, folder)) {
        struct ty_buf b;
        ty_buf_init(&b, 1 << 20);
        add_setup(&b, "local_package");
        ty_buf_addz(&b, "packages = find_namespace:\n");
        if (s->only == NULL)
            add_top_modules(&b, folder);
        ty_buf_addz(&b, "[options.package_data]\n* = *\n");
        const char *setup = ty_format(c->arena, "%s/setup", stage);
        err = setup_write(c, setup, ty_buf_str(&b));
        ty_buf_clear(&b);
        const char *words[] = {"-C", setup, "./pyproject.toml", "./setup.cfg"};
        memcpy(what, words, sizeof words);
        n = TY_COUNT(words);
    }
    what[n++] = "-C";
    what[n++] = folder;
    what[n++] =
        s->only != NULL && !is_project(c, folder) ? ty_format(c->arena, "./%s", s->only) : ".";
    for (size_t i = 0; i < s->extra_dir_count; i++) {
        char *parent = ty_cstr(c->arena, ty_str_of(s->extra_dirs[i])),
             *slash = strrchr(parent, '/');
        *slash = '\0'; /* paths are absolute */
        what[n++] = "-C";
        what[n++] = slash == parent ? "/" : parent;
        what[n++] = ty_format(c->arena, "./%s", slash + 1);
    }
    if (err == TY_OK)
        err = archive_make(c, made, what, n);
    if (err == TY_OK)
        err = archive_keep(c, made, "source", ret_path);
    return err == TY_OK ? TY_OK : ty_wrap(err, "cannot package '%s'", folder);
}

/* ---- requirements ---- */

/* A line of requirements.txt. pip's own options are not for an environment that jobs share. */
static ty_err requirement_add(struct ty_buf *b, ty_str line, const char *where)
{
    for (size_t i = 0; i + 1 < line.len; i++)
        if (line.ptr[i] == ' ' && line.ptr[i + 1] == '#')
            line.len = i;
    line = ty_str_trim(line);
    if (line.len == 0 || line.ptr[0] == '#')
        return TY_OK;
    if (line.ptr[0] == '-')
        return ty_fail(TY_INVALID_ARGUMENT,
                       "%s: '" TY_STR_FMT "' is an option of pip's; only requirements are taken "
                       "(wheels that no index has go to the folder of the setting wheel_folder)",
                       where, TY_STR_ARG(line));
    ty_buf_addf(b, "  " TY_STR_FMT "\n", TY_STR_ARG(line));
    return TY_OK;
}

static ty_err requirements_collect(struct cli *c, const struct cli_source *s, struct ty_buf *b)
{
    const char *path = ty_format(c->arena, "%s/requirements.txt", s->folder);
    ty_str text = {0}, line;
    bool more = true;
    ty_err err = ty_file_read(AT_FDCWD, path, REQUIREMENTS_BYTES, c->arena, &text);
    if (err == TY_NOT_FOUND)
        err = TY_OK;
    for (size_t number = 1; err == TY_OK && more; number++) {
        more = ty_str_split(&text, '\n', &line);
        err = requirement_add(b, line, ty_format(c->arena, "'%s' line %zu", path, number));
    }
    for (size_t i = 0; err == TY_OK && i < s->requirement_count; i++)
        err = requirement_add(b, ty_str_of(s->requirements[i]), "argument --requirements");
    return err == TY_OK ? ty_buf_check(b, "the requirements") : err;
}

/* *ret_path stays as it is when nothing is asked for. */
static ty_err pack_requirements(struct cli *c, const struct cli_source *s, const char *stage,
                                const char **ret_path)
{
    struct ty_buf b;
    ty_buf_init(&b, 2 * REQUIREMENTS_BYTES);
    add_setup(&b, "local_requirements");
    ty_buf_addz(&b, "py_modules =\ninstall_requires =\n");
    size_t before = b.len;
    ty_err err = requirements_collect(c, s, &b);
    if (err == TY_OK && b.len > before) {
        const char *setup = ty_format(c->arena, "%s/requirements", stage);
        const char *made = ty_format(c->arena, "%s/requirements.tar", stage);
        const char *what[] = {"-C", setup, "./pyproject.toml", "./setup.cfg"};
        err = setup_write(c, setup, ty_buf_str(&b));
        if (err == TY_OK)
            err = archive_make(c, made, what, TY_COUNT(what));
        if (err == TY_OK)
            err = archive_keep(c, made, "requirements", ret_path);
    }
    ty_buf_clear(&b);
    return err;
}

/* ---- the whole ---- */

/* trainer/task.py -> trainer.task */
static ty_err module_of_script(struct cli *c, const struct cli_source *s, const char **ret_module)
{
    ty_str name = ty_str_of(s->script);
    if (ty_str_starts(name, TY_STR("./")))
        name = ty_str_drop(name, 2);
    if (!ty_str_ends(name, TY_STR(".py")))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "script '%s': only Python scripts (.py) run without a container engine; "
                       "for another program give container-image-uri=host and --command",
                       s->script);
    if (!has_file(c, s->folder, ty_cstr(c->arena, name)))
        return ty_fail(TY_INVALID_ARGUMENT, "script '%s': there is no such file in '%s'", s->script,
                       s->folder);
    char *module = ty_cstr(c->arena, (ty_str){name.ptr, name.len - 3});
    for (char *p = module; *p != '\0'; p++)
        *p = *p == '/' ? '.' : *p;
    if (!python_module_is_valid(ty_str_of(module)))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "script '%s': its folders and name must be names that Python can import",
                       s->script);
    *ret_module = module;
    return TY_OK;
}

/* The module must be in the folder; a project may put its modules anywhere. */
static ty_err module_check(struct cli *c, const struct cli_source *s, const char *module)
{
    char *path = ty_cstr(c->arena, ty_str_of(module));
    for (char *p = path; *p != '\0'; p++)
        *p = *p == '.' ? '/' : *p;
    if (is_project(c, s->folder) || has_file(c, s->folder, ty_format(c->arena, "%s.py", path)) ||
        has_file(c, s->folder, ty_format(c->arena, "%s/__main__.py", path)))
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "module '%s': there is neither %s.py nor %s/__main__.py in '%s'", module, path,
                   path, s->folder);
}

static ty_err source_check(struct cli *c, const struct cli_source *s, const char **ret_module)
{
    struct stat st;
    const char *module = s->module;
    ty_err err = TY_OK;
    if (stat(s->folder, &st) != 0 || !S_ISDIR(st.st_mode))
        return ty_fail(TY_INVALID_ARGUMENT, "local-package-path: '%s' is no folder", s->folder);
    for (size_t i = 0; i < s->extra_dir_count; i++)
        if (stat(s->extra_dirs[i], &st) != 0 || !S_ISDIR(st.st_mode))
            return ty_fail(TY_INVALID_ARGUMENT, "extra-dirs: '%s' is no folder", s->extra_dirs[i]);
    for (size_t i = 0; i < s->extra_package_count; i++)
        if (stat(s->extra_packages[i], &st) != 0 || !S_ISREG(st.st_mode))
            return ty_fail(TY_INVALID_ARGUMENT, "extra-packages: '%s' is no file",
                           s->extra_packages[i]);
    if ((s->module != NULL) == (s->script != NULL))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "exactly one of python-module and script must be given");
    err = python_image_check(ty_str_of(s->image));
    if (err == TY_OK && s->script != NULL)
        err = module_of_script(c, s, &module);
    if (err == TY_OK)
        err = module_check(c, s, module);
    if (err == TY_OK)
        *ret_module = module;
    return err;
}

ty_err cli_source_pack(struct cli *c, const struct cli_source *s, struct cli_packed *ret_packed)
{
    struct cli_packed packed = {0};
    const char *paths[2] = {NULL, NULL};
    c->data_dir = cli_data_dir(c);
    ty_err err = source_check(c, s, &packed.module);
    if (err != TY_OK)
        return err;
    err = ty_mkdirs(ty_format(c->arena, "%s/packages", c->data_dir), 0700);
    char *stage = ty_format(c->arena, "%s/packages/.new-XXXXXX", c->data_dir);
    if (err == TY_OK && mkdtemp(stage) == NULL)
        err = ty_fail_errno(errno, "cannot make a folder in '%s/packages'", c->data_dir);
    if (err != TY_OK)
        return err;
    err = pack_folder(c, s, stage, &paths[0]);
    if (err == TY_OK)
        err = pack_requirements(c, s, stage, &paths[1]);
    if (ty_remove_tree(AT_FDCWD, stage) != TY_OK && err == TY_OK)
        err = ty_wrap(TY_INTERNAL, "cannot clean up");
    if (err != TY_OK)
        return err;
    packed.packages = ty_new_array(c->arena, const char *, 3 + s->extra_package_count);
    for (size_t i = 0; i < s->extra_package_count; i++)
        packed.packages[packed.count++] = s->extra_packages[i];
    for (size_t i = 0; i < TY_COUNT(paths); i++)
        if (paths[i] != NULL)
            packed.packages[packed.count++] = paths[i];
    *ret_packed = packed;
    return TY_OK;
}

/* ---- lists ---- */

const char **cli_words(struct cli *c, ty_str list, const char *separators, size_t *ret_count)
{
    const char **words = ty_new_array(c->arena, const char *, list.len + 2);
    size_t n = 0;
    while (list.len > 0) {
        size_t end = 0;
        while (end < list.len && strchr(separators, list.ptr[end]) == NULL)
            end++;
        ty_str one = ty_str_trim((ty_str){list.ptr, end});
        list = ty_str_drop(list, end < list.len ? end + 1 : end);
        if (one.len > 0)
            words[n++] = ty_cstr(c->arena, one);
    }
    *ret_count = n;
    return words;
}

const char **cli_paths(struct cli *c, ty_str list, const char *separators, size_t *ret_count)
{
    const char **paths = cli_words(c, list, separators, ret_count);
    char here[PATH_MAX];
    for (size_t i = 0; i < *ret_count; i++) {
        char *real = realpath(paths[i], NULL);
        if (real != NULL)
            paths[i] = ty_cstr(c->arena, ty_str_of(real));
        else if (paths[i][0] != '/' && getcwd(here, sizeof here) != NULL)
            paths[i] = ty_format(c->arena, "%s/%s", here, paths[i]);
        free(real);
    }
    return paths;
}

/* ---- a job's pools ---- */

ty_err cli_pools_package(struct cli *c, json_t *pools)
{
    const json_t *local = json_object_get(json_array_get(pools, 0), "localPackage");
    struct cli_packed packed;
    size_t i, count;
    json_t *pool;
    if (local == NULL)
        return TY_OK;
    struct cli_source s = {
        .image = json_string_value(json_object_get(local, "image")),
        .module = json_string_value(json_object_get(local, "python-module")),
        .script = json_string_value(json_object_get(local, "script")),
    };
    s.folder = cli_paths(c, wire_json_get_str(local, "local-package-path"), "", &count)[0];
    s.requirements =
        cli_words(c, wire_json_get_str(local, "requirements"), ";", &s.requirement_count);
    s.extra_packages =
        cli_paths(c, wire_json_get_str(local, "extra-packages"), ";", &s.extra_package_count);
    s.extra_dirs = cli_paths(c, wire_json_get_str(local, "extra-dirs"), ";", &s.extra_dir_count);
    ty_err err = cli_source_pack(c, &s, &packed);
    if (err != TY_OK)
        return ty_wrap(err, "argument --worker-pool-spec");
    json_t *uris = json_array();
    for (i = 0; i < packed.count; i++)
        json_array_append_new(uris, json_string(packed.packages[i]));
    json_array_foreach (pools, i, pool) {
        if (json_object_size(pool) > 0)
            json_object_set_new(pool, "pythonPackageSpec",
                                json_pack("{s:s, s:O, s:s}", "executorImageUri", s.image,
                                          "packageUris", uris, "pythonModule", packed.module));
    }
    json_decref(uris);
    json_object_del(json_array_get(pools, 0), "localPackage");
    return TY_OK;
}
