/* expand.c -- what a URL stands for: one object, a folder, what matches its wildcards; on either
 * side. Folders of a bucket are prefixes that end with a slash.
 *
 * A name without wildcards is asked for as an object first; only if there is none is it looked for
 * as a folder. */
#include "storage/storage_int.h"

#include <dirent.h>
#include <glob.h>

void storage_refs_add(struct storage_refs *refs, const struct storage_ref *ref)
{
    if (refs->count == refs->room) {
        size_t room = refs->room > 0 ? refs->room * 2 : 64;
        struct storage_ref *items = ty_new_array(refs->arena, struct storage_ref, room);
        if (refs->count > 0)
            memcpy(items, refs->items, refs->count * sizeof(*items));
        refs->items = items;
        refs->room = room;
    }
    refs->items[refs->count++] = *ref;
}

static ty_err count_check(const struct storage_refs *refs)
{
    if (refs->count < STORAGE_MAX_REFS)
        return TY_OK;
    return ty_fail(TY_RESOURCE_EXHAUSTED, "more than %d names: name a folder of them",
                   STORAGE_MAX_REFS);
}

/* ---- in buckets ---- */

/* One step of a search. */
struct search {
    struct storage_refs *refs;
    ty_str bucket, generation;
    bool versions;
    struct storage_pattern pattern;
    ty_str rest;
    ty_str *below; /* names to go on with */
    size_t below_count, below_room;
};

static void ref_add_object(struct storage_refs *refs, const struct storage_object *o,
                           bool with_generation)
{
    struct storage_object *object = storage_object_dup(refs->arena, o);
    struct storage_ref ref = {.kind = STORAGE_IS_OBJECT, .object = object, .size = object->size};
    ref.url = (struct storage_url){.cloud = true, .bucket = object->bucket, .name = object->name};
    if (with_generation)
        ref.url.generation = object->generation;
    storage_refs_add(refs, &ref);
}

static ty_err search_object(void *arg, const struct storage_object *o)
{
    struct search *s = arg;
    if (s->rest.len > 0 || !storage_pattern_match(&s->pattern, o->name))
        return TY_OK;
    if (s->generation.len > 0 && !ty_str_eq(s->generation, o->generation))
        return TY_OK;
    ref_add_object(s->refs, o, s->versions || s->generation.len > 0);
    return count_check(s->refs);
}

static void below_add(struct search *s, ty_str folder)
{
    if (s->below_count == s->below_room) {
        size_t room = s->below_room > 0 ? s->below_room * 2 : 16;
        ty_str *below = ty_new_array(s->refs->arena, ty_str, room);
        if (s->below_count > 0)
            memcpy(below, s->below, s->below_count * sizeof(*below));
        s->below = below;
        s->below_room = room;
    }
    s->below[s->below_count++] = ty_str_of(ty_format(s->refs->arena, TY_STR_FMT "/" TY_STR_FMT,
                                                     TY_STR_ARG(folder), TY_STR_ARG(s->rest)));
}

static ty_err search_prefix(void *arg, ty_str prefix)
{
    struct search *s = arg;
    ty_str folder = prefix;
    if (ty_str_ends(folder, TY_STR("/")))
        folder.len--;
    if (!storage_pattern_match(&s->pattern, folder))
        return TY_OK;
    if (s->rest.len > 0) {
        below_add(s, folder);
        return TY_OK;
    }
    struct storage_ref ref = {.kind = STORAGE_IS_PREFIX};
    ref.url = (struct storage_url){.cloud = true,
                                   .bucket = ty_str_dup(s->refs->arena, s->bucket),
                                   .name = ty_str_dup(s->refs->arena, prefix)};
    storage_refs_add(s->refs, &ref);
    return count_check(s->refs);
}

static ty_str without_slash(ty_str name)
{
    if (name.len > 1 && ty_str_ends(name, TY_STR("/")))
        name.len--;
    return name;
}

static ty_err expand_names(struct storage_conn *c, const struct storage_url *url, bool versions,
                           struct storage_refs *refs)
{
    struct search s = {.refs = refs, .bucket = url->bucket, .generation = url->generation};
    s.versions = versions;
    ty_str name = without_slash(url->name);
    ty_err err = TY_OK;
    for (size_t next = 0; err == TY_OK; name = s.below[next++]) {
        struct storage_step step;
        storage_step_of(name, &step);
        storage_pattern_init(refs->arena, step.here, &s.pattern);
        s.rest = step.rest;
        struct storage_listing l = {.bucket = url->bucket, .prefix = step.prefix};
        l.delimiter = step.flat ? (ty_str){"", 0} : TY_STR("/");
        l.versions = versions || url->generation.len > 0;
        err = storage_list(c, &l, search_object, search_prefix, &s);
        if (next == s.below_count)
            break;
    }
    return err;
}

struct bucket_search {
    struct storage_refs *refs;
    ty_str pattern;
};

static ty_err search_bucket(void *arg, const json_t *bucket)
{
    struct bucket_search *s = arg;
    ty_str name = wire_json_get_str(bucket, "name");
    if (!storage_glob_match(s->pattern, name))
        return TY_OK;
    struct storage_ref ref = {.kind = STORAGE_IS_BUCKET};
    ref.url = (struct storage_url){
        .cloud = true, .bucket = ty_str_dup(s->refs->arena, name), .name = {"", 0}};
    storage_refs_add(s->refs, &ref);
    return TY_OK;
}

static ty_err expand_buckets(struct storage_conn *c, ty_str pattern, struct storage_refs *refs)
{
    if (pattern.len > 0 && !storage_has_wildcard(pattern)) {
        struct storage_ref ref = {.kind = STORAGE_IS_BUCKET};
        ref.url = (struct storage_url){.cloud = true, .bucket = pattern, .name = {"", 0}};
        storage_refs_add(refs, &ref);
        return TY_OK;
    }
    struct bucket_search s = {refs, pattern.len > 0 ? pattern : TY_STR("*")};
    return storage_buckets_each(c, search_bucket, &s);
}

static ty_err expand_cloud(struct storage_conn *c, const struct storage_url *url, bool versions,
                           struct storage_refs *refs)
{
    struct storage_refs buckets = {.arena = refs->arena};
    ty_err err = expand_buckets(c, url->bucket, &buckets);
    for (size_t i = 0; i < buckets.count && err == TY_OK; i++) {
        struct storage_url one = *url;
        struct storage_object object;
        one.bucket = buckets.items[i].url.bucket;
        if (url->name.len == 0) {
            storage_refs_add(refs, &buckets.items[i]);
            continue;
        }
        bool plain = !storage_has_wildcard(url->name) && !versions;
        err = plain ? storage_object_get(c, refs->arena, &one, &object) : TY_NOT_FOUND;
        if (err == TY_OK)
            ref_add_object(refs, &object, url->generation.len > 0);
        else if (err == TY_NOT_FOUND && !(plain && c->bucket_missing))
            err = expand_names(c, &one, versions, refs);
    }
    return err;
}

/* ---- on disk ---- */

static void ref_add_file(struct storage_refs *refs, ty_str path)
{
    struct stat st;
    struct storage_ref ref = {.kind = STORAGE_IS_OBJECT};
    ref.url.name = ty_str_dup(refs->arena, path);
    if (stat(ref.url.name.ptr, &st) == 0) {
        ref.kind = S_ISDIR(st.st_mode) ? STORAGE_IS_PREFIX : STORAGE_IS_OBJECT;
        ref.size = S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
        ref.mtime = (int64_t)st.st_mtim.tv_sec;
    }
    storage_refs_add(refs, &ref);
}

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, sorted; in the arena. */
static ty_err folder_read(struct ty_arena *a, const char *path, char ***ret_names,
                          size_t *ret_count)
{
    DIR *dir = opendir(path[0] != '\0' ? path : ".");
    size_t count = 0, room = 64;
    if (dir == NULL)
        return ty_fail_errno(errno, "cannot open folder '%s'", path);
    char **names = ty_new_array(a, char *, room);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (count == room) {
            char **more = ty_new_array(a, char *, room * 2);
            memcpy(more, names, count * sizeof(*names));
            names = more;
            room *= 2;
        }
        names[count++] = ty_cstr(a, ty_str_of(entry->d_name));
    }
    closedir(dir);
    qsort(names, count, sizeof(*names), names_compare);
    *ret_names = names;
    *ret_count = count;
    return TY_OK;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum { MAX_DEPTH = 200 };

/* gcloud's walk passes by a link that leads nowhere without a word. The others are told. */
static void say_skipped(const struct storage *s, const char *file, bool dangling)
{
    if (s->style == STORAGE_GCLOUD && !dangling)
        fprintf(stderr, "WARNING: Skipping symlink %s\n", file);
    else if (s->style == STORAGE_GCLOUD && strcmp(s->program, "gcloud") != 0)
        fprintf(stderr, "WARNING: Skipping symlink %s: it leads to nothing\n", file);
}

/* Is this link left out? gsutil tries those that lead nowhere, and says which failed. */
static bool link_is_skipped(const struct storage *s, const char *file, bool folder, bool skip_links)
{
    bool dangling = !folder && s->style == STORAGE_GCLOUD && access(file, F_OK) != 0;
    if (!folder && !skip_links && !dangling)
        return false;
    say_skipped(s, file, dangling && !skip_links);
    return true;
}

/* Files under a folder whose own names match; links to folders are not followed. */
static ty_err walk(const struct storage *s, struct storage_refs *refs, ty_str path, ty_str pattern,
                   bool skip_links, int depth)
{
    char **names = NULL;
    size_t count = 0;
    struct stat st;
    if (depth > MAX_DEPTH)
        return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' is more than %d folders deep",
                       TY_STR_ARG(path), MAX_DEPTH);
    ty_err err = folder_read(refs->arena, ty_cstr(refs->arena, path), &names, &count);
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        const char *slash = path.len > 0 && !ty_str_ends(path, TY_STR("/")) ? "/" : "";
        char *file = ty_format(refs->arena, TY_STR_FMT "%s%s", TY_STR_ARG(path), slash, names[i]);
        bool is_link = lstat(file, &st) == 0 && S_ISLNK(st.st_mode);
        bool folder = is_folder(file);
        if (folder && !is_link)
            err = walk(s, refs, ty_str_of(file), pattern, skip_links, depth + 1);
        else if (storage_glob_match(pattern, ty_str_of(names[i])) &&
                 !(is_link && link_is_skipped(s, file, folder, skip_links)))
            ref_add_file(refs, ty_str_of(file));
        if (err == TY_OK)
            err = count_check(refs);
    }
    return err;
}

/* "folder/ ** /pattern": where the two stars are, or path.len. */
static size_t two_stars_at(ty_str path)
{
    for (size_t i = 0; i + 2 <= path.len; i++)
        if (path.ptr[i] == '*' && path.ptr[i + 1] == '*')
            return i;
    return path.len;
}

static ty_err expand_disk(struct storage *s, const struct storage_url *url, bool skip_links,
                          struct storage_refs *refs)
{
    char *path = ty_cstr(refs->arena, url->name);
    struct stat st;
    size_t stars = two_stars_at(url->name);
    if (url->stream) {
        struct storage_ref ref = {.kind = STORAGE_IS_OBJECT, .url = *url, .size = -1};
        storage_refs_add(refs, &ref);
        return TY_OK;
    }
    if (lstat(path, &st) == 0) { /* what is there is meant, wildcard or not */
        ref_add_file(refs, url->name);
        return TY_OK;
    }
    if (stars < url->name.len) {
        ty_str base = {url->name.ptr, stars > 0 ? stars - 1 : 0};
        ty_str pattern = ty_str_drop(url->name, stars + 2);
        while (pattern.len > 0 && pattern.ptr[0] == '/')
            pattern = ty_str_drop(pattern, 1);
        if (pattern.len > 0 && pattern.ptr[0] == '*' && url->name.ptr[stars + 2] == '*')
            return storage_fail(s, TY_INVALID_ARGUMENT,
                                "Invalid wildcard with more than 2 consecutive *s (%s)", path);
        return walk(s, refs, base, pattern.len > 0 ? pattern : TY_STR("*"), skip_links, 0);
    }
    glob_t found;
    int status = storage_has_wildcard(url->name) ? glob(path, 0, NULL, &found) : GLOB_NOMATCH;
    if (status == GLOB_NOSPACE)
        return ty_fail(TY_RESOURCE_EXHAUSTED, "too many files match '%s'", path);
    for (size_t i = 0; status == 0 && i < found.gl_pathc; i++)
        ref_add_file(refs, ty_str_of(found.gl_pathv[i]));
    if (status == 0)
        globfree(&found);
    return TY_OK;
}

ty_err storage_expand(struct storage_conn *c, const struct storage_url *url, bool versions,
                      struct storage_refs *refs)
{
    return url->cloud ? expand_cloud(c, url, versions, refs) : expand_disk(c->s, url, false, refs);
}

/* ---- and what is under it ---- */

static ty_err under_object(void *arg, const struct storage_object *o)
{
    struct search *s = arg;
    ref_add_object(s->refs, o, s->versions);
    return count_check(s->refs);
}

static ty_err expand_under(struct storage_conn *c, const struct storage_ref *folder,
                           const struct storage_options *o, struct storage_refs *refs)
{
    if (!folder->url.cloud)
        return walk(c->s, refs, folder->url.name, TY_STR("*"), o->skip_links, 0);
    struct search s = {.refs = refs, .versions = o->all_versions};
    struct storage_listing l = {.bucket = folder->url.bucket, .prefix = folder->url.name};
    l.versions = o->all_versions;
    return storage_list(c, &l, under_object, NULL, &s);
}

static void say_omitted(struct storage *s, const struct storage_ref *folder)
{
    const char *text = storage_url_text(s->arena, &folder->url);
    if (s->style == STORAGE_GCLOUD)
        fprintf(stderr,
                "WARNING: Omitting %s because it is a container, and recursion is not enabled.\n",
                text);
    else
        storage_note(s, "Omitting %s \"%s\". (Did you mean to do %s -r?)\n",
                     !folder->url.cloud                  ? "directory"
                     : folder->kind == STORAGE_IS_BUCKET ? "bucket"
                                                         : "prefix",
                     text, s->command);
}

ty_err storage_expand_all(struct storage_conn *c, const struct storage_url *url,
                          const struct storage_options *o, struct storage_refs *refs,
                          struct storage_expanded *ret_expanded)
{
    struct storage_refs top = {.arena = refs->arena};
    ty_err err = url->cloud ? expand_cloud(c, url, o->all_versions, &top)
                            : expand_disk(c->s, url, o->skip_links, &top);
    size_t before = refs->count;
    *ret_expanded = (struct storage_expanded){.top = top.count};
    for (size_t i = 0; i < top.count && err == TY_OK; i++) {
        size_t first = refs->count;
        bool folder = top.items[i].kind != STORAGE_IS_OBJECT;
        ret_expanded->folders += folder;
        if (!folder)
            storage_refs_add(refs, &top.items[i]);
        else if (o->recursive)
            err = expand_under(c, &top.items[i], o, refs);
        else
            say_omitted(c->s, &top.items[i]);
        for (; first < refs->count; first++) {
            refs->items[first].source = url;
            refs->items[first].in_container = folder;
        }
    }
    ret_expanded->added = refs->count - before;
    return err;
}
