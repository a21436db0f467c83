/* module.c -- will `python -m module` find the module, and what it imports first of all?
 *
 * Nothing of the user's program runs here but the packages above the module, which Python imports
 * to find it. The module itself is compiled and its beginning is read: a top-level import of a
 * package that is nowhere fails the job before any replica starts. Imports inside try and if are
 * not held against it, and the first statement that calls anything ends the reading, because what
 * runs may change what can be imported (sys.path, pip). Only the first name of a dotted one is
 * looked for, which imports nothing. */
#include "python/python_int.h"

#include <dirent.h>

enum { MODULE_DEPTH = 16, MODULE_NAMES = 200, MODULE_SHOWN = 20 };

/* Answers "missing", "hidden NAME", "package", "import LINE NAME" for each, or "good" at the end.
 * An error of the user's code is Python's own traceback, and an exit status; what it prints goes to
 * the log. */
static const char probe[] =
    "import ast, os, sys\n"
    "from importlib.util import find_spec\n"
    "answer = os.fdopen(os.dup(1), 'w')\n"
    "os.dup2(2, 1)\n"
    "def say(*words):\n"
    "    print(*words, file=answer, flush=True)\n"
    "name = sys.argv[1]\n"
    "try:\n"
    "    spec = find_spec(name)\n"
    "except ModuleNotFoundError as error:\n"
    "    if not error.name or not (name + '.').startswith(error.name + '.'):\n"
    "        raise\n"
    "    spec = None\n"
    "if spec is None:\n"
    "    sys.exit(say('missing'))\n"
    "top = name.split('.')[0]\n"
    "own = os.path.join(sys.prefix, 'lib', 'python%d.%d' % sys.version_info[:2], 'site-packages', "
    "top)\n"
    "if os.path.isdir(own) or os.path.isfile(own + '.py'):\n"
    "    first = find_spec(top)\n"
    "    places = [first.origin or ''] + list(first.submodule_search_locations or [])\n"
    "    if not any(os.path.realpath(p).startswith(os.path.realpath(sys.prefix)) for p in "
    "places):\n"
    "        sys.exit(say('hidden', top))\n"
    "if spec.submodule_search_locations is not None:\n"
    "    name += '.__main__'\n"
    "    spec = find_spec(name)\n"
    "    if spec is None:\n"
    "        sys.exit(say('package'))\n"
    "source = ''\n"
    "if hasattr(spec.loader, 'get_source'):\n"
    "    spec.loader.get_code(name)\n"
    "    source = spec.loader.get_source(name) or ''\n"
    "for node in ast.parse(source).body:\n"
    "    names = []\n"
    "    if isinstance(node, ast.Import):\n"
    "        names = [alias.name for alias in node.names]\n"
    "    elif isinstance(node, ast.ImportFrom) and not node.level:\n"
    "        names = [node.module]\n"
    "    elif not isinstance(node, (ast.FunctionDef, ast.ClassDef)):\n"
    "        if any(isinstance(part, ast.Call) for part in ast.walk(node)):\n"
    "            break\n"
    "    for top in [n.split('.')[0] for n in names]:\n"
    "        if top not in sys.modules and find_spec(top) is None:\n"
    "            say('import', node.lineno, top)\n"
    "say('good')\n";

/* ---- what there is instead ---- */

struct walk {
    struct ty_arena *a;
    struct words names;
};

static void add_name(struct walk *w, const char *prefix, ty_str file)
{
    file.len -= strlen(".py");
    if (w->names.count >= MODULE_NAMES)
        return;
    if (!ty_str_is(file, "__init__"))
        words_add(&w->names, ty_format(w->a, "%s" TY_STR_FMT, prefix, TY_STR_ARG(file)));
}

/* Names of modules below a folder, "prefix" and a dot in front. */
static void walk_folder(struct walk *w, const char *folder, const char *prefix, int depth)
{
    struct dirent *entry;
    DIR *dir = depth < MODULE_DEPTH ? opendir(folder) : NULL;
    while (dir && (entry = readdir(dir))) {
        ty_str name = ty_str_of(entry->d_name);
        const char *path = ty_format(w->a, "%s/%s", folder, entry->d_name);
        struct stat st;
        if (lstat(path, &st) != 0)
            continue;
        if (S_ISREG(st.st_mode) && ty_str_ends(name, TY_STR(".py")))
            add_name(w, prefix, name);
        else if (S_ISDIR(st.st_mode) && python_module_is_valid(name) &&
                 !ty_str_is(name, "__pycache__"))
            walk_folder(w, path, ty_format(w->a, "%s%s.", prefix, entry->d_name), depth + 1);
    }
    if (dir)
        closedir(dir);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static ty_err fail_missing(struct ty_arena *a, const struct python_host *host, const char *folder,
                           const char *module)
{
    struct walk w = {.a = a, .names = {.a = a}};
    walk_folder(&w, env_site(a, folder, host), "", 0);
    if (w.names.count > 1)
        qsort(w.names.list, w.names.count, sizeof *w.names.list, by_name);
    bool more = w.names.count > MODULE_SHOWN;
    if (more)
        w.names.count = MODULE_SHOWN;
    return ty_fail(TY_FAILED_PRECONDITION,
                   "there is no module '%s' in the packages. They have: %s%s", module,
                   w.names.count ? words_join(&w.names, ", ") : "none", more ? ", ..." : "");
}

/* ---- the check ---- */

/* "import 3 foo" */
static void add_import(struct ty_buf *b, ty_str line)
{
    ty_str number;
    ty_str_split(&line, ' ', &number);
    ty_buf_addf(b, "%s'" TY_STR_FMT "' (line " TY_STR_FMT ")", b->len ? ", " : "", TY_STR_ARG(line),
                TY_STR_ARG(number));
}

static ty_err judge(struct ty_arena *a, const struct python_host *host, const char *folder,
                    const char *module, ty_str found)
{
    struct ty_buf imports;
    ty_str line, kind;
    ty_err err = TY_OK;
    bool good = false;
    ty_buf_init(&imports, 2000);
    while (err == TY_OK && ty_str_split(&found, '\n', &line)) {
        ty_str_split(&line, ' ', &kind);
        if (ty_str_is(kind, "missing"))
            err = fail_missing(a, host, folder, module);
        else if (ty_str_is(kind, "hidden"))
            err = ty_fail(TY_FAILED_PRECONDITION,
                          "'%s' would run another module: '" TY_STR_FMT "' is also a name of "
                          "Python's own, which comes first; give the package's another name",
                          module, TY_STR_ARG(line));
        else if (ty_str_is(kind, "package"))
            err = ty_fail(TY_FAILED_PRECONDITION,
                          "'%s' is a package without __main__.py, so it cannot be run; name a "
                          "module in it",
                          module);
        else if (ty_str_is(kind, "import"))
            add_import(&imports, line);
        good |= ty_str_is(kind, "good");
    }
    if (err == TY_OK && !good)
        err = ty_fail(TY_FAILED_PRECONDITION,
                      "the package above the module '%s' ends Python when it is imported", module);
    if (err == TY_OK && imports.len > 0)
        err =
            ty_fail(TY_FAILED_PRECONDITION,
                    "the module '%s' imports %s, which neither the packages nor the runtime have. "
                    "Add what provides it to install_requires in setup.py, or choose an executor "
                    "image that has it",
                    module, imports.ptr);
    ty_buf_clear(&imports);
    return err;
}

/* The user's PYTHONPATH, so that the module is looked for where it will be. */
static char *const *check_env(struct ty_arena *a, const char *python_path)
{
    struct words w = {.a = a};
    for (char **item = environ; *item; item++)
        if (strncmp(*item, "PYTHONPATH=", strlen("PYTHONPATH=")) != 0)
            words_add(&w, *item);
    if (python_path)
        words_add(&w, ty_format(a, "PYTHONPATH=%s", python_path));
    words_add(&w, "PYTHONDONTWRITEBYTECODE=1");
    return (char *const *)w.list;
}

static ty_err check(struct ty_arena *a, const struct python_host *host, const char *folder,
                    const struct python_pool *pool)
{
    const char *argv[] = {ty_format(a, "%s/bin/python", folder), "-c", probe, pool->module, NULL};
    struct ty_buf out;
    int status;
    ty_buf_init(&out, PYTHON_TEXT_BYTES);
    struct program p = {.argv = argv, .env = check_env(a, pool->python_path), .capture = &out};
    ty_err err = program_run(&p, &status);
    if (err == TY_OK && status != 0)
        err = ty_fail(TY_FAILED_PRECONDITION,
                      "the module '%s' cannot be imported: the lines above tell why", pool->module);
    if (err == TY_OK)
        err = judge(a, host, folder, pool->module, ty_buf_str(&out));
    ty_buf_clear(&out);
    return err;
}

/* Looked for once; a mark in the environment remembers. */
ty_err module_check(struct ty_arena *a, const struct python_host *host, const char *folder,
                    const struct python_pool *pool)
{
    struct wire_sha256 h;
    char digest[PYTHON_KEY_BYTES];
    wire_sha256_init(&h);
    wire_sha256_adds(&h, ty_str_of(pool->module));
    wire_sha256_adds(&h, ty_str_of(pool->python_path));
    wire_sha256_end(&h, digest);
    const char *mark = ty_format(a, "%s/.checked-%s", folder, digest);
    if (access(mark, F_OK) == 0)
        return TY_OK;
    ty_err err = check(a, host, folder, pool);
    if (err != TY_OK)
        return err;
    int fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot make '%s'", mark);
    close(fd);
    return TY_OK;
}
