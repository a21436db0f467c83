/* archive.c -- a package's file: its hash, our copy of it, and what kind of archive it is.
 *
 * The copy is made and hashed in one pass, so that what is installed is what the environment's key
 * says, whatever happens to the user's file meanwhile. The name it was given tells nothing for sure
 * (no version in it, or words in front of it): what is inside does. */
#include "python/python_int.h"

enum { READ_BYTES = 32768 };

/* One line, "KIND MEMBER", then that member's text. KIND is wheel, zip, tar or none; MEMBER is the
 * WHEEL file, or pyproject.toml at the top. */
static const char probe[] =
    "import os, sys, tarfile, zipfile\n"
    "path, kind, names = sys.argv[1], 'none', []\n"
    "if zipfile.is_zipfile(path):\n"
    "    archive = zipfile.ZipFile(path)\n"
    "    kind, names, get = 'zip', archive.namelist(), archive.open\n"
    "elif tarfile.is_tarfile(path):\n"
    "    archive = tarfile.open(path)\n"
    "    kind, names, get = 'tar', [m.name for m in archive if m.isfile()], archive.extractfile\n"
    "def at_top(name):\n"
    "    return [n for n in names if n.endswith(name) and os.path.normpath(n).count('/') <= 1]\n"
    "wheel = kind == 'zip' and at_top('.dist-info/WHEEL')\n"
    "found = wheel or sorted((n for n in at_top('pyproject.toml')\n"
    "                         if n.split('/')[-1] == 'pyproject.toml'), key=len)\n"
    "sys.stdout.buffer.write(('%s %s\\n' % ('wheel' if wheel else kind, ascii(found[0])[1:-1]\n"
    "                                       if found else '')).encode())\n"
    "if found:\n"
    "    sys.stdout.buffer.write(get(found[0]).read(65536))\n";

/* Hash the file and, unless to_fd is -1, copy it. */
static ty_err read_through(const char *path, int to_fd, char out[PYTHON_KEY_BYTES])
{
    struct wire_sha256 h;
    char part[READ_BYTES];
    ssize_t n;
    ty_err err = TY_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open the package '%s'", path);
    wire_sha256_init(&h);
    while (err == TY_OK && (n = read(fd, part, sizeof part)) != 0) {
        if (n > 0) {
            wire_sha256_add(&h, part, (size_t)n);
            err = to_fd >= 0 ? ty_write_all(to_fd, part, (size_t)n) : TY_OK;
        } else if (errno != EINTR) {
            err = ty_fail_errno(errno, "cannot read the package '%s'", path);
        }
    }
    close(fd);
    if (err == TY_OK)
        wire_sha256_end(&h, out);
    return err;
}

ty_err archive_digest(const char *path, char out[PYTHON_KEY_BYTES])
{
    return read_through(path, -1, out);
}

static ty_err copy_checked(const char *path, const char *copy, const char *digest)
{
    char have[PYTHON_KEY_BYTES];
    int fd = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot make '%s'", copy);
    ty_err err = read_through(path, fd, have);
    close(fd);
    if (err == TY_OK && strcmp(have, digest) != 0)
        err = ty_fail(TY_FAILED_PRECONDITION,
                      "'%s' changed while it was being read: submit the job again", path);
    return err;
}

/* The kind, and the member the probe found with its text. */
static ty_err look_inside(struct ty_arena *a, const char *python, const char *path,
                          const char *copy, ty_str *ret_kind, ty_str *ret_member, ty_str *ret_text)
{
    const char *argv[] = {python, "-I", "-c", probe, copy, NULL};
    struct ty_buf out;
    int status;
    ty_buf_init(&out, PYTHON_TEXT_BYTES + PATH_MAX);
    struct program p = {.argv = argv, .capture = &out};
    ty_err err = program_run(&p, &status);
    if (err == TY_OK && status != 0)
        err = ty_fail(TY_FAILED_PRECONDITION, "the archive '%s' cannot be read", path);
    if (err == TY_OK) {
        ty_str text = ty_str_dup(a, ty_buf_str(&out));
        ty_str_split(&text, '\n', ret_member);
        ty_str_split(ret_member, ' ', ret_kind);
        *ret_text = text;
    }
    ty_buf_clear(&out);
    return err;
}

/* pip tells a source archive's format by its suffix. */
static bool suffix_fits(ty_str name, ty_str kind)
{
    static const char *const tars[] = {".tar.gz", ".tgz",    ".tar", ".tar.bz2",
                                       ".tbz",    ".tar.xz", ".txz", ".tar.lzma"};
    if (ty_str_is(kind, "zip"))
        return ty_str_ends(name, TY_STR(".zip"));
    for (size_t i = 0; i < TY_COUNT(tars); i++)
        if (ty_str_ends(name, ty_str_of(tars[i])))
            return true;
    return false;
}

ty_err archive_stage(struct ty_arena *a, const char *python, const char *folder, const char *path,
                     const char *digest, struct archive *ret_archive)
{
    const char *copy = ty_format(a, "%s/archive", folder), *name = strrchr(path, '/') + 1;
    ty_str kind, member, text, info;
    ty_err err = ty_mkdirs(folder, 0700);
    if (err == TY_OK)
        err = copy_checked(path, copy, digest);
    if (err == TY_OK)
        err = look_inside(a, python, path, copy, &kind, &member, &text);
    if (err != TY_OK)
        return err;
    struct archive archive = {.wheel = ty_str_is(kind, "wheel"),
                              .builds_here = pyproject_builds_here(text)};
    if (archive.wheel) {
        ty_str_split(&member, '/', &info);
        name = wheel_name(a, info, text);
        if (!name)
            return ty_fail(TY_FAILED_PRECONDITION, "the wheel '%s' has no usable name inside",
                           path);
    } else if (ty_str_is(kind, "none")) {
        return ty_fail(TY_FAILED_PRECONDITION,
                       "'%s' is no Python package: neither a wheel nor a tar or zip archive", path);
    } else if (!suffix_fits(ty_str_of(name), kind)) {
        name = ty_str_is(kind, "zip") ? "package.zip" : "package.tar";
    }
    archive.path = ty_format(a, "%s/%s", folder, name);
    err = ty_rename_at(AT_FDCWD, copy, archive.path);
    if (err == TY_OK)
        *ret_archive = archive;
    return err;
}
