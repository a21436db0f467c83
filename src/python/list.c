/* list.c -- which runtimes there are, and removing one with what is built on it. */
#include "python/python_int.h"

#include <dirent.h>

enum { READY_BYTES = 4096, KEY_DIGITS = PYTHON_KEY_BYTES - 1, LEAST_DIGITS = 6 };

/* Call for each ready folder below data/python/<kind> with its .ready text. */
typedef void (*visit_fn)(void *arg, const char *key, ty_str ready);

static void each(struct ty_arena *a, const char *data_dir, const char *kind, visit_fn visit,
                 void *arg)
{
    const char *folder = ty_format(a, "%s/python/%s", data_dir, kind);
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        ty_str text;
        const char *one = ty_format(a, "%s/%s", folder, entry->d_name);
        if (strlen(entry->d_name) == KEY_DIGITS && keep_is_ready(a, one) &&
            ty_file_read(AT_FDCWD, ty_format(a, "%s/.ready", one), READY_BYTES, a, &text) == TY_OK)
            visit(arg, entry->d_name, text);
    }
    if (dir)
        closedir(dir);
}

struct listing {
    struct ty_arena *a;
    struct python_listed *list;
    size_t count, cap;
};

static void list_runtime(void *arg, const char *key, ty_str ready)
{
    struct listing *l = arg;
    if (l->count == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        struct python_listed *list = ty_new_array(l->a, struct python_listed, cap);
        if (l->count)
            memcpy(list, l->list, l->count * sizeof *list);
        l->list = list;
        l->cap = cap;
    }
    struct python_listed *one = &l->list[l->count++];
    snprintf(one->key, sizeof one->key, "%s", key);
    ty_str_split(&ready, '\n', &one->family);
    ty_str_split(&ready, '\n', &one->what);
}

static void count_env(void *arg, const char *key, ty_str ready)
{
    struct listing *l = arg;
    (void)key;
    for (size_t i = 0; i < l->count; i++)
        l->list[i].envs += ty_str_is(ty_str_trim(ready), l->list[i].key);
}

static int by_what(const void *x, const void *y)
{
    const struct python_listed *a = x, *b = y;
    int order = ty_str_cmp(a->what, b->what);
    return order ? order : strcmp(a->key, b->key);
}

ty_err python_runtime_list(struct ty_arena *a, const char *data_dir,
                           struct python_listed **ret_list, size_t *ret_count)
{
    struct listing l = {.a = a};
    each(a, data_dir, "runtimes", list_runtime, &l);
    each(a, data_dir, "envs", count_env, &l);
    if (l.count > 1)
        qsort(l.list, l.count, sizeof *l.list, by_what);
    *ret_list = l.list;
    *ret_count = l.count;
    return TY_OK;
}

/* "tensorflow_cpu-2.12.1-cp311-….whl" for "tensorflow-cpu==2.12.1" */
static bool is_wheel_of(struct ty_arena *a, const char *file, ty_str requirement)
{
    ty_str rest = ty_str_of(file), name, version, wanted = requirement_name(requirement);
    if (!ty_str_ends(rest, TY_STR(".whl")) || !ty_str_split(&rest, '-', &name) ||
        !ty_str_split(&rest, '-', &version))
        return false;
    return strcmp(name_normal(a, name), name_normal(a, wanted)) == 0 &&
           ty_str_eq(version, ty_str_drop(requirement, wanted.len + strlen("==")));
}

bool python_runtime_has_wheels(const char *wheel_folder, const struct python_runtime *r)
{
    struct ty_arena a = {0};
    struct dirent *entry;
    bool found = strcmp(r->family, "host") == 0;
    DIR *dir = found ? NULL : opendir(wheel_folder);
    while (dir && !found && (entry = readdir(dir)))
        for (size_t i = 0; r->requirements[i] && !found; i++)
            if (strstr(r->requirements[i], "=="))
                found = is_wheel_of(&a, entry->d_name, ty_str_of(r->requirements[i]));
    if (dir)
        closedir(dir);
    ty_arena_clear(&a);
    return found;
}

struct removal {
    struct ty_arena *a;
    const char *data_dir, *key;
    ty_err err;
};

static void remove_env(void *arg, const char *key, ty_str ready)
{
    struct removal *r = arg;
    if (r->err == TY_OK && ty_str_is(ty_str_trim(ready), r->key))
        r->err = keep_remove(r->a, r->data_dir, "envs", key);
}

ty_err python_runtime_remove(const char *data_dir, ty_str key)
{
    struct ty_arena a = {0};
    struct python_listed *list;
    size_t count, found = 0;
    const char *whole = NULL;
    ty_err err = python_runtime_list(&a, data_dir, &list, &count);
    for (size_t i = 0; err == TY_OK && i < count; i++)
        if (key.len >= LEAST_DIGITS && ty_str_starts(ty_str_of(list[i].key), key)) {
            whole = list[i].key;
            found++;
        }
    if (err == TY_OK && found != 1)
        err = ty_fail(TY_NOT_FOUND,
                      "%s runtime has a key that begins with '" TY_STR_FMT
                      "' (6 digits or more); 'trainyard runtimes list' shows them",
                      found ? "more than one" : "no", TY_STR_ARG(key));
    if (err == TY_OK) {
        struct removal r = {.a = &a, .data_dir = data_dir, .key = whole};
        each(&a, data_dir, "envs", remove_env, &r);
        err = r.err == TY_OK ? keep_remove(&a, data_dir, "runtimes", whole) : r.err;
    }
    ty_arena_clear(&a);
    return err;
}
