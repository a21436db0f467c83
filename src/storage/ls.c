/* ls.c -- ls and du: what is in a folder, objects first, then folders, each as it comes from the
 * server. Both walk the same way and differ in what they print. */
#include "storage/storage_int.h"

struct lister {
    struct storage_conn conn;
    struct storage *s;
    const struct storage_options *o;
    bool du;
    bool newline; /* before the next folder's heading */
    int64_t objects, bytes, folders;
    int64_t total; /* of words that were summed up already */
    json_t *found; /* for --json; NULL: print */
};

/* ---- one line ---- */

static void line_long(struct lister *l, const struct storage_object *o, const char *url)
{
    struct ty_arena a = {0};
    const char *size =
        l->o->human ? storage_human(&a, o->size, l->s->style) : ty_format(&a, "%" PRId64, o->size);
    printf("%10s  %s  %s", size, storage_second(&a, o->created), url);
    if (l->o->all_versions)
        printf("  metageneration=" TY_STR_FMT, TY_STR_ARG(o->metageneration));
    if (l->o->etag)
        printf("  etag=" TY_STR_FMT, TY_STR_ARG(o->etag));
    putchar('\n');
    ty_arena_clear(&a);
}

static void found_add(struct lister *l, const char *type, const char *url, const json_t *metadata)
{
    json_t *item = json_object();
    json_object_set_new(item, "url", json_string(url));
    json_object_set_new(item, "type", json_string(type));
    if (metadata != NULL)
        json_object_set(item, "metadata", (json_t *)metadata);
    json_array_append_new(l->found, item);
}

static void line_size(const struct lister *l, int64_t bytes, const char *url)
{
    struct ty_arena a = {0};
    const char *size =
        l->o->human ? storage_human(&a, bytes, l->s->style) : ty_format(&a, "%" PRId64, bytes);
    printf("%-11s  %s\n", size, url);
    ty_arena_clear(&a);
}

static ty_err show_object(void *arg, const struct storage_object *o)
{
    struct lister *l = arg;
    struct ty_arena a = {0};
    struct storage_url url = {.cloud = true, .bucket = o->bucket, .name = o->name};
    if (l->o->all_versions || l->found != NULL)
        url.generation = o->generation;
    const char *text = storage_url_text(&a, &url);
    l->objects++;
    l->bytes += o->size;
    if (l->du && !l->o->summarize)
        line_size(l, o->size, text);
    else if (l->du)
        ;
    else if (l->found != NULL)
        found_add(l, "cloud_object", text, o->json);
    else if (l->o->list_full && o->json != NULL)
        storage_object_full(l->s, o->json, text, true);
    else if (l->o->list_long)
        line_long(l, o, text);
    else
        storage_print(ty_str_of(text));
    if (l->s->style == STORAGE_GCLOUD || !l->o->recursive) /* gsutil's first heading has none */
        l->newline = true;
    ty_arena_clear(&a);
    return TY_OK;
}

/* ---- folders ---- */

static ty_err show_folder(struct lister *l, ty_str bucket, ty_str prefix, bool heading);

struct below {
    struct lister *l;
    ty_str bucket;
};

static void print_folder(struct lister *l, const char *url)
{
    l->folders++;
    if (l->found != NULL)
        found_add(l, "prefix", url, NULL);
    else if (l->o->list_long && !l->o->list_full)
        printf("%*s%s\n", l->s->style == STORAGE_GSUTIL ? 33 : 34, "", url);
    else
        printf("%s\n", url);
    l->newline = true;
}

static ty_err below_prefix(void *arg, ty_str prefix)
{
    struct below *b = arg;
    struct lister *l = b->l;
    struct ty_arena a = {0};
    ty_err err = TY_OK;
    if (l->o->recursive || l->du)
        err = show_folder(l, b->bucket, prefix, true);
    else
        print_folder(l, ty_format(&a, "gs://" TY_STR_FMT "/" TY_STR_FMT, TY_STR_ARG(b->bucket),
                                  TY_STR_ARG(prefix)));
    ty_arena_clear(&a);
    return err;
}

static ty_err below_object(void *arg, const struct storage_object *o)
{
    return show_object(((struct below *)arg)->l, o);
}

/* What is in a folder, or a bucket if prefix is empty. */
static ty_err show_folder(struct lister *l, ty_str bucket, ty_str prefix, bool heading)
{
    struct ty_arena a = {0};
    struct below b = {.l = l, .bucket = ty_str_dup(&a, bucket)};
    struct storage_listing listing = {.bucket = b.bucket,
                                      .prefix = ty_str_dup(&a, prefix),
                                      .delimiter = TY_STR("/"),
                                      .versions = l->o->all_versions};
    int64_t before = l->bytes;
    const char *url =
        ty_format(&a, "gs://" TY_STR_FMT "/" TY_STR_FMT, TY_STR_ARG(bucket), TY_STR_ARG(prefix));
    if (heading && !l->du && l->found == NULL) {
        printf("%s%s:\n", l->newline ? "\n" : "", url);
        l->newline = true;
    }
    if (prefix.len > 0)
        l->folders++;
    ty_err err = storage_list(&l->conn, &listing, below_object, below_prefix, &b);
    if (err == TY_OK && l->du && !l->o->summarize && prefix.len > 0)
        line_size(l, l->bytes - before, url);
    ty_arena_clear(&a);
    return err;
}

/* ---- what the command line names ---- */

static ty_err show_ref(struct lister *l, const struct storage_ref *ref, bool several)
{
    struct ty_arena a = {0};
    ty_err err = TY_OK;
    json_t *json = NULL;
    const char *url = storage_url_text(&a, &ref->url);
    if (ref->kind == STORAGE_IS_OBJECT) {
        struct storage_object o = *ref->object;
        struct storage_url one = ref->url;
        one.generation = o.generation;
        bool full = !l->du && (l->o->list_full || l->found != NULL);
        if (full)
            err = storage_call(&l->conn, HTTP_GET,
                               ty_format(&a, "%s?generation=" TY_STR_FMT "&projection=full",
                                         storage_path(&a, one.bucket, one.name),
                                         TY_STR_ARG(one.generation)),
                               NULL, &json);
        o.json = json;
        if (err == TY_OK)
            err = show_object(l, &o);
    } else if (l->o->self_only && ref->kind == STORAGE_IS_PREFIX) {
        print_folder(l, url);
    } else {
        bool gcloud = l->s->style == STORAGE_GCLOUD;
        bool heading = ref->kind == STORAGE_IS_BUCKET ? several || (l->o->recursive && gcloud)
                                                      : several || l->o->recursive;
        bool theirs = strcmp(l->s->program, "gcloud") == 0; /* heads what is gone, too */
        if (heading && gcloud && !theirs && ref->kind == STORAGE_IS_BUCKET)
            err = storage_bucket_get(&l->conn, ref->url.bucket, &json);
        if (err == TY_OK)
            err = show_folder(l, ref->url.bucket, ref->url.name, heading);
    }
    json_decref(json);
    ty_arena_clear(&a);
    return err;
}

static ty_err show_bucket(void *arg, const json_t *bucket)
{
    struct lister *l = arg;
    struct ty_arena a = {0};
    const char *url =
        ty_format(&a, "gs://" TY_STR_FMT "/", TY_STR_ARG(wire_json_get_str(bucket, "name")));
    l->folders++;
    if (l->found != NULL)
        found_add(l, "cloud_bucket", url, bucket);
    else if (l->o->list_full)
        storage_bucket_full(l->s, bucket);
    else
        printf("%s\n", url);
    ty_arena_clear(&a);
    return TY_OK;
}

/* ls -b: the buckets themselves. */
static ty_err show_buckets_of(struct lister *l, const struct storage_refs *refs)
{
    ty_err err = TY_OK;
    for (size_t i = 0; i < refs->count && err == TY_OK; i++) {
        json_t *bucket = NULL;
        err = storage_bucket_get(&l->conn, refs->items[i].url.bucket, &bucket);
        if (err == TY_OK)
            err = show_bucket(l, bucket);
        json_decref(bucket);
    }
    return err;
}

/* One word; *ret_any: it stood for something. */
static ty_err show_word(struct lister *l, const char *word, bool *ret_any)
{
    struct storage_url url;
    struct storage_refs refs = {.arena = l->s->arena};
    ty_err err = storage_url_parse(ty_str_of(word), l->s->style, &url);
    if (err == TY_OK && !url.cloud)
        err =
            l->s->style == STORAGE_GSUTIL
                ? ty_fail(TY_INVALID_ARGUMENT,
                          "CommandException: \"%s\" command does not support \"file://\" URLs. Did "
                          "you mean to use a gs:// URL?",
                          l->s->command)
                : ty_fail(TY_INVALID_ARGUMENT, "%s only works for cloud URLs. Error for: %s",
                          l->du ? "Du" : "Ls", storage_url_text(l->s->arena, &url));
    if (err != TY_OK)
        return err;
    int64_t before = l->folders;
    if (url.bucket.len == 0 && !l->du)
        err = storage_buckets_each(&l->conn, show_bucket, l);
    else
        err = storage_expand(&l->conn, &url, l->o->all_versions, &refs);
    *ret_any = refs.count > 0 || l->folders > before;
    bool buckets = l->o->buckets_only && url.name.len == 0;
    if (err == TY_OK && buckets)
        return show_buckets_of(l, &refs);
    for (size_t i = 0; i < refs.count && err == TY_OK; i++)
        err = show_ref(l, &refs.items[i], refs.count > 1);
    if (err == TY_OK && l->du && l->o->summarize && *ret_any) {
        ty_str text = ty_str_of(word);
        while (text.len > 5 && ty_str_ends(text, TY_STR("/")))
            text.len--;
        line_size(l, l->bytes, ty_cstr(l->s->arena, text));
        l->total += l->bytes;
        l->bytes = 0;
    }
    return err;
}

static void print_total(const struct lister *l)
{
    struct ty_arena a = {0};
    printf("TOTAL: %" PRId64 " objects, %" PRId64 " bytes (%s)\n", l->objects, l->bytes,
           storage_human(&a, l->bytes, l->s->style));
    ty_arena_clear(&a);
}

static int list_words(struct storage *s, const struct storage_options *o, char **words, int count,
                      bool du)
{
    struct lister l = {.s = s, .o = o, .du = du};
    char *all[] = {(char *)"gs://"};
    bool missing = false;
    if (count == 0) {
        words = all;
        count = 1;
    }
    l.found = o->json && !du ? json_array() : NULL;
    ty_err err = storage_conn_open(&l.conn, s);
    for (int i = 0; i < count && err == TY_OK; i++) {
        bool any = false;
        err = show_word(&l, words[i], &any);
        missing |= !any;
        if (missing && s->style == STORAGE_GCLOUD)
            break; /* the others are not looked at */
    }
    if (err == TY_OK && du && o->total)
        line_size(&l, l.total + l.bytes, "total");
    bool one = count == 1 && strcmp(words[0], "gs://") == 0;
    if (err == TY_OK && l.found != NULL && !missing)
        storage_print_value(s, l.found);
    else if (err == TY_OK && !du && (o->list_long || o->list_full) && !o->buckets_only && !one)
        print_total(&l);
    if (err == TY_OK && missing && !((one || du) && s->style == STORAGE_GSUTIL))
        err = storage_fail(s, TY_NOT_FOUND, "One or more URLs matched no objects.");
    int status = err == TY_OK ? STORAGE_OK : storage_say_error(&l.conn, s->command, err);
    json_decref(l.found);
    storage_conn_close(&l.conn);
    return status;
}

int storage_ls(struct storage *s, const struct storage_options *o, char **words, int count)
{
    return list_words(s, o, words, count, false);
}

int storage_du(struct storage *s, const struct storage_options *o, char **words, int count)
{
    return list_words(s, o, words, count, true);
}
