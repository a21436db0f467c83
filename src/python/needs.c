/* needs.c -- what a job's packages ask for, against what the runtime has.
 *
 * The packages are in the environment already, installed without what they depend on, and nothing
 * else is. `pip check` then names what is missing and what does not fit; pip installs the missing,
 * held to the versions the runtime has. Where a version that does not fit has a wheel, it goes into
 * the environment, in front of the runtime's; where it has none, the runtime's stays, with a
 * warning. */
#include "python/python_int.h"

#include <dirent.h>

enum { NEEDS_PACKAGES = 1000 };

struct needs {
    struct ty_arena *a;
    const struct pip *pip;
    const struct python_host *host;
    const char *folder;
    struct words own;      /* names of the job's packages */
    struct words asked;    /* their Requires-Dist */
    struct words add;      /* what pip is to install */
    struct words replaced; /* names whose version in the runtime does not hold */
};

/* Names and requirements of what is installed in the environment itself. */
static ty_err read_packages(struct needs *n)
{
    const char *site = env_site(n->a, n->folder, n->host);
    struct dirent *entry;
    ty_err err = TY_OK;
    DIR *dir = opendir(site);
    if (!dir)
        return ty_fail_errno(errno, "cannot open '%s'", site);
    while (err == TY_OK && (entry = readdir(dir))) {
        struct metadata m = {.requires = &n->asked};
        ty_str text;
        if (!ty_str_ends(ty_str_of(entry->d_name), TY_STR(".dist-info")))
            continue;
        const char *path = ty_format(n->a, "%s/%s/METADATA", site, entry->d_name);
        err = ty_file_read(AT_FDCWD, path, PYTHON_METADATA_BYTES, n->a, &text);
        if (err == TY_OK)
            err = metadata_parse(n->a, text, &m);
        if (err == TY_OK && n->own.count >= NEEDS_PACKAGES)
            err = ty_fail(TY_RESOURCE_EXHAUSTED, "there are more than %d packages", NEEDS_PACKAGES);
        if (err == TY_OK)
            words_add(&n->own, m.name);
    }
    closedir(dir);
    return err;
}

static const char *normal_name_of(struct needs *n, ty_str requirement)
{
    return name_normal(n->a, requirement_name(requirement));
}

/* All the lines that ask for it, with their markers: pip tells which hold. */
static void add_missing(struct needs *n, const char *name)
{
    for (size_t i = 0; i < n->asked.count; i++)
        if (strcmp(normal_name_of(n, ty_str_of(n->asked.list[i])), name) == 0)
            words_add_once(&n->add, n->asked.list[i]);
}

/* Another version than the runtime's is wanted: a wheel of it decides. */
static ty_err settle_conflict(struct needs *n, const struct complaint *c, const char *name)
{
    const char *text = ty_cstr(n->a, requirement_bare(c->requirement));
    if (words_has(&n->add, text))
        return TY_OK;
    struct words words = {.a = n->a};
    static const char *const options[] = {"--no-deps", "--only-binary=:all:", "--dest"};
    for (size_t i = 0; i < TY_COUNT(options); i++)
        words_add(&words, options[i]);
    words_add(&words, ty_format(n->a, "%s/staged", n->folder));
    words_add(&words, text);
    ty_err err = pip_run(n->a, n->pip, "download", &words, true);
    if (err == TY_FAILED_PRECONDITION) {
        printf("Warning: the package asks for %s, of which there is no wheel to be had for Python "
               "3.%d: the runtime's " TY_STR_FMT " is used.\n",
               text, n->host->minor, TY_STR_ARG(c->have));
        return TY_OK;
    }
    if (err != TY_OK)
        return err;
    printf("The package asks for %s: it is used instead of the runtime's " TY_STR_FMT ".\n", text,
           TY_STR_ARG(c->have));
    words_add(&n->add, text);
    words_add_once(&n->replaced, name);
    return TY_OK;
}

static ty_err settle(struct needs *n, ty_str line)
{
    struct complaint c;
    if (!complaint_parse(line, &c) || !words_has(&n->own, name_normal(n->a, c.owner)))
        return TY_OK;
    const char *name = normal_name_of(n, c.requirement);
    if (words_has(&n->own, name)) /* they are what the job was given */
        return TY_OK;
    if (c.have.len > 0)
        return settle_conflict(n, &c, name);
    add_missing(n, name);
    return TY_OK;
}

/* name==version of all that is there and may stay. */
static ty_err write_constraints(struct needs *n, const char *path)
{
    ty_str text, line;
    struct ty_buf b;
    ty_err err = pip_list(n->a, n->pip, &text);
    if (err != TY_OK)
        return err;
    ty_buf_init(&b, PYTHON_OUTPUT_BYTES);
    while (ty_str_split(&text, '\n', &line))
        if (requirement_name(line).len > 0 && !words_has(&n->replaced, normal_name_of(n, line))) {
            ty_buf_adds(&b, line);
            ty_buf_addc(&b, '\n');
        }
    err = ty_file_replace(AT_FDCWD, path, ty_buf_str(&b), 0600);
    ty_buf_clear(&b);
    return err;
}

static ty_err install(struct needs *n)
{
    const char *constraints = ty_format(n->a, "%s/constraints.txt", n->folder);
    struct words held = {.a = n->a}, loose = {.a = n->a};
    ty_err err = write_constraints(n, constraints);
    if (err != TY_OK)
        return err;
    words_add(&held, "--prefer-binary");
    words_add(&held, "--constraint");
    words_add(&held, constraints);
    words_add_all(&held, &n->add);
    words_add(&loose, "--prefer-binary");
    words_add_all(&loose, &n->add);
    const char *list = words_join(&n->add, ", ");
    printf("Installing what the packages need: %s\n", list);
    err = pip_run(n->a, n->pip, "install", &held, false);
    if (err != TY_FAILED_PRECONDITION)
        return err;
    printf("That does not go together with the runtime's own versions: trying without holding to "
           "them.\n");
    err = pip_run(n->a, n->pip, "install", &loose, false);
    if (err == TY_FAILED_PRECONDITION)
        return ty_fail(err, "the packages need %s, which could not be installed", list);
    return err;
}

ty_err needs_install(struct ty_arena *a, const struct pip *pip, const struct python_host *host,
                     const char *folder)
{
    struct needs n = {.a = a,
                      .pip = pip,
                      .host = host,
                      .folder = folder,
                      .own = {.a = a},
                      .asked = {.a = a},
                      .add = {.a = a},
                      .replaced = {.a = a}};
    ty_str text = {0}, line;
    ty_err err = read_packages(&n);
    if (err != TY_OK || n.asked.count == 0)
        return err;
    err = pip_check(a, pip, &text);
    while (err == TY_OK && ty_str_split(&text, '\n', &line))
        err = settle(&n, line);
    for (size_t i = 0; err == TY_OK && i < n.asked.count; i++) {
        ty_str asked = ty_str_of(n.asked.list[i]);
        if (requirement_is_special(asked) && !words_has(&n.own, normal_name_of(&n, asked)))
            words_add_once(&n.add, n.asked.list[i]);
    }
    return err == TY_OK && n.add.count > 0 ? install(&n) : err;
}
