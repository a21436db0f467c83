/* env.c -- making virtual environments: a runtime's, and a job's on top of it.
 *
 * A job's environment has no pip and no frameworks of its own: a .pth file adds the runtime's
 * packages behind its own, so it is made in a second and has a few files. site.addsitedir is called
 * there, not just a path written, because the runtime has .pth files too. */
#include "python/python_int.h"

#include "tensorflow1_py.h"

#include <dirent.h>

char *env_place(struct ty_arena *a, const char *data_dir, const char *kind, const char *key)
{
    return ty_format(a, "%s/python/%s/%s", data_dir, kind, key);
}

char *env_site(struct ty_arena *a, const char *folder, const struct python_host *host)
{
    return ty_format(a, "%s/lib/python3.%d/site-packages", folder, host->minor);
}

static ty_err make_venv(const struct making *m, const char *folder, bool with_pip)
{
    struct ty_arena a = {0};
    struct words w = {.a = &a};
    static const char *const first[] = {"-I", "-m", "venv", "--symlinks"};
    words_add(&w, m->host->executable);
    for (size_t i = 0; i < TY_COUNT(first); i++)
        words_add(&w, first[i]);
    if (!with_pip)
        words_add(&w, "--without-pip");
    if (strcmp(m->runtime->family, "host") == 0)
        words_add(&w, "--system-site-packages");
    words_add(&w, folder);
    struct program p = {.argv = w.list};
    int status;
    ty_err err = program_run(&p, &status);
    if (err == TY_OK && status != 0)
        err = ty_fail(TY_FAILED_PRECONDITION,
                      "Python %s cannot make a virtual environment; on Debian: apt install "
                      "python3-venv",
                      m->host->version);
    ty_arena_clear(&a);
    return err;
}

/* ---- runtimes ---- */

static ty_err write_alias(struct ty_arena *a, const char *site, const char *alias, ty_str package,
                          ty_str version)
{
    char *file_name = ty_format(a, "%s", alias);
    for (char *c = file_name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    const char *info =
        ty_format(a, "%s/%s-" TY_STR_FMT ".dist-info", site, file_name, TY_STR_ARG(version));
    const char *metadata = ty_format(a,
                                     "Metadata-Version: 2.1\nName: %s\nVersion: " TY_STR_FMT
                                     "\nSummary: provided by " TY_STR_FMT "\n",
                                     alias, TY_STR_ARG(version), TY_STR_ARG(package));
    const struct {
        const char *name, *text;
    } files[] = {{"METADATA", metadata}, {"INSTALLER", "trainyard\n"}, {"RECORD", ""}};
    ty_err err = ty_mkdirs(info, 0755);
    for (size_t i = 0; err == TY_OK && i < TY_COUNT(files); i++)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/%s", info, files[i].name),
                              ty_str_of(files[i].text), 0644);
    return err;
}

/* TensorFlow for CPU is a distribution of another name. A package that asks for `tensorflow` has
 * it: an empty distribution of that name says so to pip. */
static ty_err write_aliases(struct ty_arena *a, const char *site, const char *requirement)
{
    ty_str version = ty_str_of(requirement), package = requirement_name(version);
    version = ty_str_drop(version, package.len);
    if (!ty_str_starts(version, TY_STR("==")))
        return TY_OK;
    version = ty_str_drop(version, 2);
    const char *alias;
    ty_err err = TY_OK;
    for (size_t i = 0; err == TY_OK && (alias = runtime_alias(package, i)); i++)
        err = write_alias(a, site, alias, package, version);
    return err;
}

static ty_err install_runtime(struct ty_arena *a, const char *folder, const struct making *m)
{
    struct words words = {.a = a}, wanted = {.a = a};
    struct pip pip = {.setup = m->setup, .python = ty_format(a, "%s/bin/python", folder)};
    for (size_t i = 0; m->runtime->requirements[i]; i++)
        words_add(&wanted, m->runtime->requirements[i]);
    words_add(&words, "--prefer-binary");
    words_add_all(&words, &wanted);
    ty_err err = pip_run(a, &pip, "install", &words, false);
    if (err != TY_FAILED_PRECONDITION)
        return err;
    if (strcmp(m->runtime->family, "host") == 0) {
        printf("Warning: %s could not be installed: packages that are not wheels may fail to "
               "build. It is tried again with the next job.\n",
               words_join(&wanted, ", "));
        return ty_file_replace(AT_FDCWD, ty_format(a, "%s/.partial", folder), TY_STR(""), 0600);
    }
    return ty_fail(err,
                   "pip's words are above. Without internet access, collect the wheels of %s in a "
                   "folder and run: trainyard runtimes add %s --wheels=FOLDER",
                   words_join(&wanted, " "), m->runtime->image);
}

ty_err env_make_runtime(struct ty_arena *a, const char *folder, const struct making *m)
{
    printf("Making the runtime (%s). This is done once; it is kept for all jobs.\n",
           m->runtime->what);
    int64_t start_ms = ty_boot_ms();
    ty_err err = make_venv(m, folder, true);
    if (err == TY_OK)
        err = install_runtime(a, folder, m);
    for (size_t i = 0; err == TY_OK && m->runtime->requirements[i]; i++)
        err = write_aliases(a, env_site(a, folder, m->host), m->runtime->requirements[i]);
    if (err != TY_OK)
        return ty_wrap(err, "the runtime for '%s' could not be made", m->runtime->image);
    printf("The runtime is made (%.1f seconds).\n", (double)(ty_boot_ms() - start_ms) / 1000);
    return TY_OK;
}

/* Adding to it harms nobody who uses it meanwhile. */
ty_err env_complete_runtime(struct ty_arena *a, const char *folder, const struct making *m)
{
    const char *partial = ty_format(a, "%s/.partial", folder);
    bool hopeless = m->setup->offline && m->setup->wheel_folder[0] == '\0';
    if (access(partial, F_OK) != 0 || hopeless)
        return TY_OK;
    if (unlink(partial) != 0 && errno != ENOENT)
        return ty_fail_errno(errno, "cannot remove '%s'", partial);
    printf("Completing the runtime (%s).\n", m->runtime->what);
    return install_runtime(a, folder, m);
}

/* ---- environments ---- */

static ty_err link_runtime(struct ty_arena *a, const char *folder, const struct making *m)
{
    const char *base = env_place(a, m->setup->data_dir, "runtimes", m->runtime->key);
    const char *path = ty_format(a, "%s/trainyard_runtime.pth", env_site(a, folder, m->host));
    struct ty_buf b;
    ty_buf_init(&b, 8 * PATH_MAX);
    ty_buf_addz(&b, "import os, site; site.addsitedir(os.fsdecode(b'");
    for (const char *c = env_site(a, base, m->host); *c; c++)
        ty_buf_addf(&b, "\\x%02x", (unsigned char)*c); /* any path, whatever is in it */
    ty_buf_addz(&b, "'))\n");
    ty_err err = ty_buf_check(&b, "the runtime's path");
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, path, ty_buf_str(&b), 0644);
    ty_buf_clear(&b);
    return err;
}

/* TensorFlow 1, for a job that asked for it. */
static ty_err write_compat(struct ty_arena *a, const char *folder, const struct making *m)
{
    const char *site = env_site(a, folder, m->host);
    ty_str module = {(const char *)python_tensorflow1, sizeof python_tensorflow1};
    ty_err err =
        ty_file_replace(AT_FDCWD, ty_format(a, "%s/trainyard_tensorflow1.py", site), module, 0644);
    if (err == TY_OK)
        err = ty_file_replace(AT_FDCWD, ty_format(a, "%s/trainyard_tensorflow1.pth", site),
                              TY_STR("import trainyard_tensorflow1\n"), 0644);
    return err;
}

/* Source archives become wheels. */
static ty_err build_wheel(struct ty_arena *a, const struct pip *pip, const char *built,
                          const struct archive *archive)
{
    struct words w = {.a = a};
    words_add(&w, "--no-deps");
    words_add(&w, "--wheel-dir");
    words_add(&w, built);
    if (archive->builds_here)
        words_add(&w, "--no-build-isolation");
    words_add(&w, archive->path);
    return pip_run(a, pip, "wheel", &w, false);
}

/* The one wheel that pip left in a folder. */
static ty_err wheel_find(struct ty_arena *a, const char *folder, struct words *wheels)
{
    struct dirent *entry;
    size_t before = wheels->count;
    DIR *dir = opendir(folder);
    while (dir && (entry = readdir(dir)))
        if (ty_str_ends(ty_str_of(entry->d_name), TY_STR(".whl")))
            words_add(wheels, ty_format(a, "%s/%s", folder, entry->d_name));
    if (dir)
        closedir(dir);
    return wheels->count > before ? TY_OK : ty_fail(TY_INTERNAL, "pip built no wheel");
}

static ty_err build_wheels(struct ty_arena *a, const struct pip *pip, const struct making *m,
                           const char *folder, struct words *wheels)
{
    ty_err err = TY_OK;
    for (size_t i = 0; err == TY_OK && i < m->pool->package_count; i++) {
        const char *place = ty_format(a, "%s/staged/%zu", folder, i);
        const char *built = ty_format(a, "%s/built", place);
        struct archive archive;
        err = archive_stage(a, pip->python, place, m->pool->packages[i], m->digests[i], &archive);
        if (err == TY_OK && archive.wheel) {
            words_add(wheels, archive.path);
            continue;
        }
        if (err == TY_OK)
            err = build_wheel(a, pip, built, &archive);
        if (err == TY_OK)
            err = wheel_find(a, built, wheels);
    }
    return err;
}

static ty_err install_packages(struct ty_arena *a, const char *folder, const struct making *m)
{
    struct pip pip = {.setup = m->setup, .python = ty_format(a, "%s/bin/python", folder)};
    struct words words = {.a = a};
    words_add(&words, "--no-deps");
    words_add(&words, "--ignore-installed");
    ty_err err = build_wheels(a, &pip, m, folder, &words);
    if (err == TY_OK)
        err = pip_run(a, &pip, "install", &words, false);
    if (err == TY_OK)
        err = needs_install(a, &pip, m->host, folder);
    return err == TY_OK ? ty_remove_tree(AT_FDCWD, ty_format(a, "%s/staged", folder)) : err;
}

ty_err env_make(struct ty_arena *a, const char *folder, const struct making *m)
{
    size_t packages = m->pool->package_count;
    printf("Installing %zu package%s.\n", packages, packages == 1 ? "" : "s");
    int64_t start_ms = ty_boot_ms();
    ty_err err = make_venv(m, folder, false);
    if (err == TY_OK)
        err = link_runtime(a, folder, m);
    if (err == TY_OK && m->runtime->compat_v1)
        err = write_compat(a, folder, m);
    if (err == TY_OK)
        err = install_packages(a, folder, m);
    if (err != TY_OK)
        return ty_wrap(err, "'%s' could not be installed",
                       packages == 1 ? strrchr(m->pool->packages[0], '/') + 1 : "the packages");
    printf("The packages are installed (%.1f seconds).\n",
           (double)(ty_boot_ms() - start_ms) / 1000);
    return TY_OK;
}
