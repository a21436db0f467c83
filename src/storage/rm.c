/* rm.c -- rm: objects, folders and, with -r, whole buckets. */
#include "storage/storage_int.h"

struct removal {
    const struct storage_options *o;
    struct storage_refs refs;
    struct storage_progress progress;
    atomic_size_t done, gone;
};

static ty_err remove_one(struct storage_conn *c, void *arg, size_t index)
{
    struct removal *r = arg;
    struct ty_arena a = {0};
    const struct storage_url *url = &r->refs.items[index].url;
    storage_progress_say(&r->progress, "Removing %s...", storage_url_text(&a, url));
    ty_err err = storage_object_delete(c, r->o, url);
    if (err == TY_NOT_FOUND && r->o->recursive) /* somebody else removed it */
        err = TY_OK;
    if (err == TY_OK)
        atomic_fetch_add(&r->done, 1);
    ty_arena_clear(&a);
    return err;
}

static void remove_failed(struct storage_conn *c, void *arg, size_t index, ty_err err)
{
    struct removal *r = arg;
    char *message = ty_err_take();
    (void)index;
    (void)err;
    if (!r->o->force)
        fprintf(stderr, "%s%s\n", c->s->style == STORAGE_GCLOUD ? "ERROR: " : "", message);
    free(message);
}

static ty_err buckets_remove(struct storage_conn *c, const struct storage_refs *buckets)
{
    ty_err err = TY_OK;
    struct ty_arena a = {0};
    if (buckets->count > 0 && c->s->style == STORAGE_GCLOUD)
        storage_note(c->s, "Removing buckets:\n");
    for (size_t i = 0; i < buckets->count && err == TY_OK; i++) {
        const struct storage_url *url = &buckets->items[i].url;
        storage_note(c->s, "Removing %s...\n", storage_url_text(&a, url));
        c->bucket = url->bucket;
        err = storage_call(c, HTTP_DELETE, storage_path(&a, url->bucket, (ty_str){"", 0}), NULL,
                           NULL);
    }
    ty_arena_clear(&a);
    return err;
}

/* What the words stand for: objects into r->refs, whole buckets into *buckets. */
static ty_err removal_find(struct storage_conn *c, struct removal *r, char **words, int count,
                           struct storage_refs *buckets, char **unmatched, size_t *ret_unmatched,
                           bool *ret_omitted)
{
    struct storage_options o = *r->o;
    ty_err err = TY_OK;
    o.all_versions |= o.recursive;
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_url *url = ty_new(c->s->arena, struct storage_url);
        struct storage_expanded e = {0};
        err = storage_url_parse(ty_str_of(words[i]), c->s->style, url);
        if (err == TY_OK && (!url->cloud || url->bucket.len == 0))
            err =
                c->s->style == STORAGE_GSUTIL
                    ? ty_fail(TY_INVALID_ARGUMENT,
                              "CommandException: \"rm\" command does not support \"%s\" URLs. Did "
                              "you mean to use a gs:// URL?",
                              url->cloud ? "provider-only" : "file://")
                    : ty_fail(TY_INVALID_ARGUMENT,
                              "rm only works with valid cloud URLs. %s is an invalid URL.",
                              words[i]);
        if (err == TY_OK && url->name.len == 0 && o.recursive)
            err = storage_expand(c, url, false, buckets);
        if (err == TY_OK)
            err = storage_expand_all(c, url, &o, &r->refs, &e);
        if (err != TY_OK)
            break;
        *ret_omitted |= e.folders > 0 && e.added == 0 && !o.recursive;
        bool said = e.folders > 0 && (c->s->style == STORAGE_GSUTIL || o.recursive);
        if (e.added == 0 && !said)
            unmatched[(*ret_unmatched)++] = words[i];
    }
    return err;
}

/* Remove them all; how many could not be is in *ret_failed. */
static ty_err removal_run(struct storage_conn *c, struct removal *r, size_t *ret_failed)
{
    struct storage *s = c->s;
    bool all =
        r->o->force || r->o->continue_on_error || (s->style == STORAGE_GSUTIL && s->parallel);
    struct storage_pool pool = {
        .s = s, .all = all, .count = r->refs.count, .work = remove_one, .arg = r};
    if (all)
        pool.failed = remove_failed;
    storage_progress_init(&r->progress, s);
    r->progress.terminal = false;
    ty_err err = r->refs.count > 0 ? storage_pool_run(&pool, c, ret_failed) : TY_OK;
    storage_progress_clear(&r->progress);
    size_t done = atomic_load(&r->done);
    if (err == TY_OK && done > 0 && s->style == STORAGE_GSUTIL)
        storage_note(s, "\nOperation completed over %zu objects.\n", done);
    return err;
}

int storage_rm(struct storage *s, const struct storage_options *o, char **words, int count)
{
    struct storage_conn c;
    struct removal r = {.o = o, .refs = {.arena = s->arena}};
    struct storage_refs buckets = {.arena = s->arena};
    char **unmatched = ty_new_array(s->arena, char *, (size_t)count + 1);
    size_t unmatched_count = 0, failed = 0;
    bool omitted = false, in_pool = false, gsutil = s->style == STORAGE_GSUTIL;
    ty_err err = storage_conn_open(&c, s);
    if (!gsutil)
        storage_note(s, "Removing objects:\n");
    if (err == TY_OK)
        err = removal_find(&c, &r, words, count, &buckets, unmatched, &unmatched_count, &omitted);
    if (err == TY_OK) {
        err = removal_run(&c, &r, &failed);
        in_pool = err != TY_OK;
    }
    if (err == TY_OK && failed == 0)
        err = buckets_remove(&c, &buckets);
    failed += gsutil && o->force ? unmatched_count : 0;
    if (err == TY_OK && gsutil && failed > 0)
        err = storage_fail(s, TY_ABORTED, "%zu files/objects could not be removed.", failed);
    else if (err == TY_OK && unmatched_count > 0) {
        if (!gsutil && o->recursive) /* where it was looked for last */
            storage_note(s, "Removing managed folders:\n");
        err = storage_fail_unmatched(s, unmatched, unmatched_count);
    } else if (err == TY_OK && omitted && r.refs.count == 0)
        err = storage_fail(s, TY_NOT_FOUND,
                           "No URLs matched. Do the files you're operating on exist?");
    int status = err != TY_OK ? storage_say_error(&c, in_pool && !gsutil ? NULL : s->command, err)
                 : failed > 0 ? STORAGE_FAILED
                              : STORAGE_OK;
    storage_conn_close(&c);
    return status;
}
