/* image.c -- names of images: what one may look like, which one stands for another, and having
 * those of a job in the engine before its replicas start.
 *
 * The engine is asked for the full name first, so that what was built here under that name is used,
 * and nothing is fetched. */
#include "container/container_int.h"

enum { IMAGE_BYTES = 1024, INSPECT_MS = 60000, RULES = 256 };

bool container_image_is_valid(ty_str image)
{
    for (size_t i = 0; i < image.len; i++) {
        char c = image.ptr[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && (i == 0 || !memchr("._-/:@", c, 6)))
            return false;
    }
    return image.len > 0 && image.len <= IMAGE_BYTES;
}

/* ---- replacing ---- */

/* '*' stands for any text. Each '*' tries its shortest text first and is never tried again once a
 * later one has matched, so this is at most length times length. */
static bool pattern_matches(ty_str pattern, ty_str s)
{
    size_t p = 0, i = 0, star = SIZE_MAX, mark = 0;
    while (i < s.len) {
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star = p++;
            mark = i;
        } else if (p < pattern.len && pattern.ptr[p] == s.ptr[i]) {
            p++;
            i++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            i = ++mark;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.ptr[p] == '*')
        p++;
    return p == pattern.len;
}

/* The next "PATTERN=IMAGE"; false: there is none. */
static bool next_rule(ty_str *rules, ty_str *ret_rule)
{
    *rules = ty_str_trim(*rules);
    size_t n = 0;
    while (n < rules->len && rules->ptr[n] != ' ' && rules->ptr[n] != '\t')
        n++;
    *ret_rule = (ty_str){rules->ptr, n};
    *rules = ty_str_drop(*rules, n);
    return n > 0;
}

ty_err container_rules_check(const char *rules)
{
    ty_str rest = ty_str_of(rules), rule, pattern;
    while (next_rule(&rest, &rule)) {
        ty_str image = rule;
        if (!ty_str_split(&image, '=', &pattern) || pattern.len == 0 ||
            !container_image_is_valid(image))
            return ty_fail(TY_INVALID_ARGUMENT,
                           "the setting image_replace has '%.*s', which is not PATTERN=IMAGE",
                           (int)(rule.len < 200 ? rule.len : 200), rule.ptr);
    }
    return TY_OK;
}

const char *container_image_replace(struct ty_arena *a, const char *rules, ty_str image)
{
    ty_str rest = ty_str_of(rules), rule, pattern;
    while (next_rule(&rest, &rule)) {
        ty_str other = rule;
        if (ty_str_split(&other, '=', &pattern) && pattern_matches(pattern, image))
            return ty_cstr(a, other);
    }
    return ty_cstr(a, image);
}

/* ---- having it ---- */

/* Is it there? Then *ret_python_path is its PYTHONPATH. */
static ty_err image_look(struct ty_arena *a, const struct container_engine *e, const char *image,
                         bool *ret_there, const char **ret_python_path)
{
    const char *argv[] = {
        e->path, "image", "inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}",
        image,   NULL};
    struct call c;
    ty_err err = call_run(&c, argv, INSPECT_MS);
    ty_str text = ty_buf_str(&c.out), line;
    *ret_there = err == TY_OK && c.status == 0;
    *ret_python_path = "";
    while (*ret_there && text.len > 0) {
        ty_str_split(&text, '\n', &line);
        if (ty_str_starts(line, TY_STR("PYTHONPATH=")))
            *ret_python_path = ty_cstr(a, ty_str_drop(line, strlen("PYTHONPATH=")));
    }
    call_clear(&c);
    return err;
}

/* Its words go to our stdout as they come. */
static ty_err image_pull(const struct container_engine *e, const char *image)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = ty_fork();
    if (pid < 0)
        return ty_fail_errno(errno, "cannot fork");
    if (pid == 0) {
        execl(e->path, e->path, "pull", image, (char *)NULL);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return TY_OK;
    const char *engine = container_kind_name(e->kind);
    return ty_fail(TY_FAILED_PRECONDITION,
                   "the image '%s' is not in %s on this machine and could not be pulled (the lines "
                   "above say why). Build it here under that name: %s build -t %s . ; or let the "
                   "setting image_replace name another",
                   image, engine, engine, image);
}

static ty_err image_prepare(struct ty_arena *a, const struct container_engine *e, int dirfd,
                            const struct container_wanted *w)
{
    bool there;
    const char *python_path;
    if (strcmp(w->asked, w->used) != 0)
        printf("Image: asked for %s, using %s (setting image_replace).\n", w->asked, w->used);
    ty_err err = image_look(a, e, w->used, &there, &python_path);
    if (err == TY_OK && !there) {
        printf("The image %s is not in %s on this machine: pulling it.\n", w->used,
               container_kind_name(e->kind));
        err = image_pull(e, w->used);
        if (err == TY_OK)
            err = image_look(a, e, w->used, &there, &python_path);
    }
    if (err != TY_OK)
        return err;
    return ty_file_replace(dirfd, ty_format(a, "image-%d", w->pool), ty_str_of(python_path), 0600);
}

ty_err container_prepare(const char *setting, const char *data_dir, const char *into,
                         const struct container_wanted *wanted, size_t count)
{
    struct ty_arena a = {0};
    struct container_engine e;
    int dirfd = -1;
    ty_err err = container_engine_find(&a, setting, data_dir, &e);
    if (err == TY_OK) {
        dirfd = open(into, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dirfd < 0)
            err = ty_fail_errno(errno, "cannot open '%s'", into);
    }
    if (err == TY_OK)
        err = engine_write(dirfd, &e, "");
    for (size_t i = 0; i < count && err == TY_OK; i++)
        err = image_prepare(&a, &e, dirfd, &wanted[i]);
    fflush(stdout);
    if (dirfd >= 0)
        close(dirfd);
    ty_arena_clear(&a);
    return err;
}
