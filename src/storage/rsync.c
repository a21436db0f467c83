/* rsync.c -- make one folder, on either side, as another one is.
 *
 * Both are listed and sorted by what follows the folder's name, then walked side by side: a name on
 * the left alone is copied, one on the right alone removed if that was asked for, one on both sides
 * is copied when it differs. Differs: other size; else other time of the last change, where both
 * are known (an upload keeps the file's in the object's metadata); else, or with -c, another hash.
 */
#include "storage/storage_int.h"

#include <regex.h>

struct side {
    struct storage_url url; /* a folder: ends with a slash, or is a bucket, or empty */
    struct storage_refs refs;
};

struct sync {
    struct storage_conn conn;
    struct storage *s;
    const struct storage_options *o;
    struct side from, to;
    struct storage_copy *copies;
    size_t copy_count;
    struct storage_refs extra; /* on the right alone */
    regex_t exclude;
    bool has_exclude;
};

/* ---- the two sides ---- */

static ty_err side_is_folder(struct sync *y, const struct side *side, const char *word, bool source)
{
    struct stat st;
    char *path = ty_cstr(y->s->arena, side->url.name);
    bool good = side->url.cloud
                    ? side->url.bucket.len > 0 && !side->url.stream
                    : stat(path[0] != '\0' ? path : ".", &st) == 0 && S_ISDIR(st.st_mode);
    if (good)
        return TY_OK;
    if (y->s->style == STORAGE_GCLOUD && !source) /* it is made */
        return y->o->dry_run ? TY_OK : ty_mkdirs(path, 0777);
    if (y->s->style == STORAGE_GCLOUD && access(path, F_OK) == 0)
        return ty_fail(TY_INVALID_ARGUMENT, "%s matched non-container URL: %s", word,
                       storage_url_text(y->s->arena, &side->url));
    if (y->s->style == STORAGE_GCLOUD)
        return ty_fail(TY_NOT_FOUND, "Did not find existing container at: %s", word);
    return ty_fail(TY_NOT_FOUND,
                   "CommandException: arg (%s) does not name a directory, bucket, or bucket "
                   "subdir.\nIf there is an object with the same path, please add a "
                   "trailing\nslash to specify the directory.",
                   word);
}

static ty_err side_open(struct sync *y, struct side *side, const char *word, bool source)
{
    side->refs.arena = y->s->arena;
    ty_err err = storage_url_parse(ty_str_of(word), y->s->style, &side->url);
    if (err == TY_OK)
        err = side_is_folder(y, side, word, source);
    if (err == TY_OK && side->url.name.len > 0 && !ty_str_ends(side->url.name, TY_STR("/")))
        side->url.name =
            ty_str_of(ty_format(y->s->arena, TY_STR_FMT "/", TY_STR_ARG(side->url.name)));
    return err;
}

static ty_str name_of(const struct side *side, const struct storage_ref *ref)
{
    return ty_str_drop(ref->url.name, side->url.name.len);
}

static bool is_wanted(struct sync *y, const struct side *side, const struct storage_ref *ref)
{
    ty_str name = name_of(side, ref);
    if (name.len == 0 || ty_str_ends(name, TY_STR("/")))
        return false; /* a folder's mark */
    if (!y->o->recursive && memchr(name.ptr, '/', name.len) != NULL)
        return false;
    return !y->has_exclude || regexec(&y->exclude, ty_cstr(y->s->arena, name), 0, NULL, 0) != 0;
}

static int ref_compare(const void *a, const void *b, void *arg)
{
    const struct side *side = arg;
    return ty_str_cmp(name_of(side, a), name_of(side, b));
}

static ty_err side_list(struct sync *y, struct side *side)
{
    struct storage_refs all = {.arena = y->s->arena};
    struct storage_options o = {.recursive = true, .skip_links = y->o->skip_links};
    struct storage_expanded e;
    ty_str path = side->url.name;
    ty_err err;
    if (side->url.cloud) {
        struct storage_url under = side->url;
        under.name = ty_str_of(ty_format(y->s->arena, TY_STR_FMT "**", TY_STR_ARG(path)));
        err = storage_expand(&y->conn, &under, false, &all);
    } else {
        struct storage_url folder = side->url;
        struct stat st;
        if (stat(path.len > 0 ? ty_cstr(y->s->arena, path) : ".", &st) != 0)
            return TY_OK; /* a dry run does not make it */
        err = storage_expand_all(&y->conn, &folder, &o, &all, &e);
    }
    for (size_t i = 0; i < all.count && err == TY_OK; i++)
        if (all.items[i].kind == STORAGE_IS_OBJECT && is_wanted(y, side, &all.items[i]))
            storage_refs_add(&side->refs, &all.items[i]);
    if (side->refs.count > 1)
        qsort_r(side->refs.items, side->refs.count, sizeof(struct storage_ref), ref_compare, side);
    return err;
}

/* What went wrong with a listing; gsutil tells of it before it gives up. */
static ty_err list_failed(struct sync *y, const struct side *side, ty_err err)
{
    if (y->s->style == STORAGE_GCLOUD || y->conn.status == 0)
        return err;
    fprintf(stderr, "Caught non-retryable exception while listing %s: %s\n",
            storage_url_text(y->s->arena, &side->url), ty_err_message());
    return ty_fail(err, "CommandException: Caught non-retryable exception - aborting rsync");
}

static ty_err sides_list(struct sync *y)
{
    struct side *sides[] = {&y->from, &y->to};
    ty_err err = TY_OK;
    for (size_t i = 0; i < TY_COUNT(sides) && err == TY_OK; i++) {
        err = side_list(y, sides[i]);
        if (err != TY_OK)
            err = list_failed(y, sides[i], err);
    }
    return err;
}

/* ---- what differs ---- */

static bool mtime_of(const struct storage_ref *ref, int64_t *ret_mtime)
{
    if (ref->url.cloud)
        return ty_parse_i64(ref->object->mtime, ret_mtime) == TY_OK;
    *ret_mtime = ref->mtime;
    return true;
}

static ty_err hashes_of(struct sync *y, const struct storage_ref *ref, ty_str *ret_crc32c)
{
    struct storage_hashes h;
    if (ref->url.cloud) {
        *ret_crc32c = ref->object->crc32c;
        return TY_OK;
    }
    ty_err err = storage_file_hashes(ty_cstr(y->s->arena, ref->url.name), &h);
    if (err == TY_OK)
        *ret_crc32c = ty_str_dup(y->s->arena, ty_str_of(h.crc32c_text));
    return err;
}

static ty_err differs(struct sync *y, const struct storage_ref *from, const struct storage_ref *to,
                      bool *ret_differs)
{
    int64_t left, right;
    bool times = mtime_of(from, &left) && mtime_of(to, &right);
    *ret_differs = true;
    if (y->o->no_clobber) {
        *ret_differs = false;
        return TY_OK;
    }
    if (times && y->o->update_only && left <= right) {
        *ret_differs = false;
        return TY_OK;
    }
    if (from->size != to->size)
        return TY_OK;
    if (times && !y->o->compare_checksums) {
        *ret_differs = left != right;
        return TY_OK;
    }
    ty_str a, b;
    ty_err err = hashes_of(y, from, &a);
    if (err == TY_OK)
        err = hashes_of(y, to, &b);
    if (err == TY_OK)
        *ret_differs = !ty_str_eq(a, b);
    return err;
}

static void copy_add(struct sync *y, const struct storage_ref *from)
{
    struct storage_copy *copy = &y->copies[y->copy_count++];
    ty_str name = name_of(&y->from, from);
    *copy = (struct storage_copy){.from = from->url, .object = from->object, .size = from->size};
    copy->to = y->to.url;
    copy->to.name = ty_str_of(ty_format(y->s->arena, TY_STR_FMT TY_STR_FMT,
                                        TY_STR_ARG(y->to.url.name), TY_STR_ARG(name)));
    copy->mtime = from->url.cloud ? 1 : from->mtime;
}

static ty_err sides_compare(struct sync *y)
{
    size_t i = 0, k = 0;
    struct storage_refs *left = &y->from.refs, *right = &y->to.refs;
    ty_err err = TY_OK;
    y->copies = ty_new_array(y->s->arena, struct storage_copy, left->count + 1);
    while (err == TY_OK && (i < left->count || k < right->count)) {
        int order = i == left->count    ? 1
                    : k == right->count ? -1
                                        : ty_str_cmp(name_of(&y->from, &left->items[i]),
                                                     name_of(&y->to, &right->items[k]));
        if (order < 0) {
            copy_add(y, &left->items[i++]);
        } else if (order > 0) {
            storage_refs_add(&y->extra, &right->items[k++]);
        } else {
            bool other = false;
            err = differs(y, &left->items[i], &right->items[k++], &other);
            if (err == TY_OK && other)
                copy_add(y, &left->items[i]);
            i++;
        }
    }
    return err;
}

/* ---- doing it ---- */

static void say_would(struct sync *y)
{
    struct ty_arena *a = y->s->arena;
    for (size_t i = 0; i < y->copy_count; i++)
        storage_note(y->s, "Would copy %s to %s\n", storage_url_text(a, &y->copies[i].from),
                     storage_url_text(a, &y->copies[i].to));
    for (size_t i = 0; i < y->extra.count && y->o->delete_extra; i++)
        storage_note(y->s, "Would remove %s\n", storage_url_text(a, &y->extra.items[i].url));
}

static ty_err extra_remove(struct storage_conn *c, void *arg, size_t index)
{
    struct sync *y = arg;
    struct ty_arena a = {0};
    ty_err err = TY_OK;
    const struct storage_url *url = &y->extra.items[index].url;
    struct storage_url shown = *url;
    bool gcloud = c->s->style == STORAGE_GCLOUD;
    if (gcloud && url->cloud)
        shown.generation = y->extra.items[index].object->generation;
    storage_note(c->s, "Removing %s%s\n", storage_url_text(&a, &shown), gcloud ? "..." : "");
    const char *path = ty_cstr(&a, url->name);
    if (url->cloud)
        err = storage_object_delete(c, NULL, url);
    else if (unlink(path) != 0)
        err = ty_fail_errno(errno, "cannot remove '%s'", path);
    ty_arena_clear(&a);
    return err;
}

static int sync_apply(struct sync *y, ty_err *ret_err)
{
    int status = STORAGE_OK;
    struct storage_options o = *y->o;
    o.no_clobber = false;
    if (y->o->dry_run) {
        say_would(y);
        return STORAGE_OK;
    }
    if (y->copy_count > 0)
        status = storage_copies_run(&y->conn, &o, y->copies, y->copy_count, 0, false);
    struct storage_pool pool = {.s = y->s, .count = y->extra.count, .work = extra_remove, .arg = y};
    if (status == STORAGE_OK && y->o->delete_extra && y->extra.count > 0)
        *ret_err = storage_pool_run(&pool, &y->conn, NULL);
    return status;
}

int storage_rsync(struct storage *s, const struct storage_options *o, char **words, int count)
{
    struct sync y = {.s = s, .o = o};
    bool gsutil = s->style == STORAGE_GSUTIL;
    int status = STORAGE_OK;
    (void)count;
    y.extra.arena = s->arena;
    ty_err err = storage_conn_open(&y.conn, s);
    if (err == TY_OK && o->exclude != NULL &&
        regcomp(&y.exclude, ty_format(s->arena, "^(%s)", o->exclude), REG_EXTENDED | REG_NOSUB) !=
            0)
        err = storage_fail(s, TY_INVALID_ARGUMENT, "Invalid exclude filter (%s)", o->exclude);
    y.has_exclude = err == TY_OK && o->exclude != NULL;
    if (err == TY_OK)
        err = side_open(&y, &y.from, words[0], true);
    if (err == TY_OK)
        err = side_open(&y, &y.to, words[1], false);
    if (err == TY_OK && gsutil)
        storage_note(s, "Building synchronization state...\n");
    if (err == TY_OK)
        err = sides_list(&y);
    if (err == TY_OK)
        err = sides_compare(&y);
    if (err == TY_OK && gsutil)
        storage_note(s, "Starting synchronization...\n");
    if (err == TY_OK)
        status = sync_apply(&y, &err);
    if (err != TY_OK)
        status = storage_say_error(&y.conn, s->command, err);
    if (y.has_exclude)
        regfree(&y.exclude);
    storage_conn_close(&y.conn);
    return status;
}
