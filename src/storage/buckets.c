/* buckets.c -- buckets create, delete, list and describe; gsutil's mb and rb. */
#include "storage/storage_int.h"

#include <strings.h>

/* What gsutil itself looks for in a name; the server has the rest of the rules. */
static bool is_bucket_name(ty_str name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    if (name.len < 3 || name.len > 255 || strchr(letters, name.ptr[0]) == NULL ||
        strchr(letters, name.ptr[name.len - 1]) == NULL)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (strchr(letters, name.ptr[i]) == NULL && strchr("._-", name.ptr[i]) == NULL)
            return false;
    return true;
}

static ty_err bucket_url(struct storage *s, const char *word, struct storage_url *ret_url)
{
    ty_err err = storage_url_parse(ty_str_of(word), s->style, ret_url);
    if (err != TY_OK)
        return err;
    if (s->style == STORAGE_GSUTIL && strcmp(s->command, "rb") == 0 && ret_url->name.len > 0)
        return storage_fail(s, TY_INVALID_ARGUMENT,
                            "\"rb\" command requires a provider or bucket URL");
    if (!ret_url->cloud || ret_url->bucket.len == 0 || ret_url->name.len > 0)
        return s->style == STORAGE_GSUTIL
                   ? ty_fail(TY_INVALID_ARGUMENT,
                             "CommandException: The %s command requires a URL that specifies a "
                             "bucket.\n\"%s\" is not valid.",
                             s->command, word)
                   : ty_fail(TY_INVALID_ARGUMENT,
                             "\"%s storage %s\" only accepts bucket URLs.\nExample: "
                             "\"gs://bucket\"\nReceived: \"%s\"",
                             s->program, s->command, storage_url_text(s->arena, ret_url));
    return TY_OK;
}

static json_t *bucket_body(struct storage *s, const struct storage_options *o, ty_str name)
{
    json_t *body = json_object();
    json_object_set_new(body, "name", json_stringn(name.ptr, name.len));
    if (o->location != NULL)
        json_object_set_new(body, "location", json_string(o->location));
    if (o->storage_class != NULL)
        json_object_set_new(
            body, "storageClass",
            json_string(s->style == STORAGE_GCLOUD
                            ? o->storage_class
                            : storage_class_text(s->arena, o->storage_class, false)));
    if (o->uniform != NULL)
        json_object_set_new(body, "iamConfiguration",
                            json_pack("{s{sb}}", "uniformBucketLevelAccess", "enabled",
                                      strcmp(o->uniform, "on") == 0));
    return body;
}

static ty_err bucket_create(struct storage_conn *c, const struct storage_options *o,
                            const struct storage_url *url)
{
    struct ty_buf b;
    struct storage *s = c->s;
    ty_buf_init(&b, 4096);
    ty_buf_addz(&b, "/storage/v1/b?projection=noAcl");
    storage_query_add(&b, "project", ty_str_of(o->project != NULL ? o->project : s->project));
    json_t *body = bucket_body(s, o, url->bucket);
    c->bucket = url->bucket;
    storage_note(s, "Creating gs://" TY_STR_FMT "/...\n", TY_STR_ARG(url->bucket));
    ty_err err = storage_call(c, HTTP_POST, b.ptr, body, NULL);
    if (err != TY_OK && c->status == 409 && s->style == STORAGE_GSUTIL)
        err = ty_fail(TY_ALREADY_EXISTS,
                      "ServiceException: 409 A Cloud Storage bucket named '" TY_STR_FMT
                      "' already exists. Try another name. Bucket names must be globally unique "
                      "across all Google Cloud projects, including those outside of your "
                      "organization.",
                      TY_STR_ARG(url->bucket));
    json_decref(body);
    ty_buf_clear(&b);
    return err;
}

int storage_buckets_create(struct storage *s, const struct storage_options *o, char **words,
                           int count)
{
    struct storage_conn c;
    ty_err err = storage_conn_open(&c, s);
    if (err == TY_OK && o->uniform != NULL && strcmp(o->uniform, "on") != 0 &&
        strcmp(o->uniform, "off") != 0)
        err = storage_fail(s, TY_INVALID_ARGUMENT, "Only on and off values allowed for -b option.");
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_url url;
        err = bucket_url(s, words[i], &url);
        if (err == TY_OK && s->style == STORAGE_GSUTIL && !is_bucket_name(url.bucket))
            err = ty_fail(TY_INVALID_ARGUMENT,
                          "InvalidUrlError: Invalid bucket name in URL \"" TY_STR_FMT "\".",
                          TY_STR_ARG(url.bucket));
        if (err == TY_OK)
            err = bucket_create(&c, o, &url);
    }
    int status = err == TY_OK ? STORAGE_OK : storage_say_error(&c, s->command, err);
    storage_conn_close(&c);
    return status;
}

/* ---- delete ---- */

static ty_err bucket_delete(struct storage_conn *c, const struct storage_url *url)
{
    struct ty_arena a = {0};
    bool gsutil = c->s->style == STORAGE_GSUTIL;
    storage_note(c->s, "Removing gs://" TY_STR_FMT "/...\n", TY_STR_ARG(url->bucket));
    c->bucket = url->bucket;
    ty_err err =
        storage_call(c, HTTP_DELETE, storage_path(&a, url->bucket, (ty_str){"", 0}), NULL, NULL);
    if (err != TY_OK && c->status == 409)
        err = gsutil ? ty_fail(TY_FAILED_PRECONDITION,
                               "NotEmptyException: 409 BucketNotEmpty (" TY_STR_FMT ")",
                               TY_STR_ARG(url->bucket))
                     : ty_fail(TY_FAILED_PRECONDITION,
                               "Bucket is not empty. To delete all objects and then delete bucket, "
                               "use: gcloud storage rm -r");
    ty_arena_clear(&a);
    return err;
}

/* What went wrong with one bucket, when others follow: gcloud names no command then. */
static void say_failed(struct storage_conn *c, const struct storage_options *o, ty_err err)
{
    if (c->s->style == STORAGE_GSUTIL || c->status == 0) {
        if (!o->force)
            storage_say_error(c, c->s->command, err);
        return;
    }
    fprintf(stderr, "ERROR: %s\n", ty_err_message());
}

/* ['gs://a', 'gs://b'], as Python prints a list. */
static ty_err fail_none_worked(struct storage *s, char **words, int count)
{
    const char *list = "";
    for (int i = 0; i < count; i++)
        list = ty_format(s->arena, "%s%s'%s'", list, i > 0 ? ", " : "", words[i]);
    return storage_fail(s, TY_NOT_FOUND, "No URLs matched: [%s]", list);
}

int storage_buckets_delete(struct storage *s, const struct storage_options *o, char **words,
                           int count)
{
    struct storage_conn c;
    int status = STORAGE_OK;
    bool full = false, worked = false;
    ty_err err = storage_conn_open(&c, s);
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_url url;
        struct storage_refs refs = {.arena = s->arena};
        err = bucket_url(s, words[i], &url);
        if (err == TY_OK)
            err = storage_expand(&c, &url, false, &refs);
        if (err == TY_OK && refs.count == 0)
            err = storage_fail_unmatched(s, &words[i], 1);
        for (size_t k = 0; k < refs.count && err == TY_OK; k++) {
            ty_err failed = bucket_delete(&c, &refs.items[k].url);
            full |= failed != TY_OK && c.status == 409;
            worked |= !(failed != TY_OK && c.status == 409);
            if (failed == TY_OK)
                continue;
            say_failed(&c, o, failed);
            status = STORAGE_FAILED;
            if (s->style == STORAGE_GSUTIL && !o->force)
                count = 0;
        }
    }
    if (err == TY_OK && s->style == STORAGE_GSUTIL && o->force && full && !worked)
        err = fail_none_worked(s, words, count);
    if (err != TY_OK)
        status = storage_say_error(&c, s->command, err);
    storage_conn_close(&c);
    return status;
}

/* ---- list and describe ---- */

struct gathering {
    struct ty_arena *arena;
    json_t *list;
    ty_str pattern;
};

static ty_err gather(void *arg, const json_t *bucket)
{
    struct gathering *g = arg;
    if (storage_glob_match(g->pattern, wire_json_get_str(bucket, "name")))
        json_array_append_new(g->list, storage_bucket_described(g->arena, bucket));
    return TY_OK;
}

int storage_buckets_list(struct storage *s, const struct storage_options *o, char **words,
                         int count)
{
    struct storage_conn c;
    struct gathering g = {.arena = s->arena, .list = json_array(), .pattern = TY_STR("*")};
    (void)o;
    ty_err err = storage_conn_open(&c, s);
    for (int i = 0; err == TY_OK && (i < count || i == 0); i++) {
        struct storage_url url = {.bucket = TY_STR("*")};
        if (count > 0)
            err = bucket_url(s, words[i], &url);
        g.pattern = url.bucket;
        if (err == TY_OK)
            err = storage_buckets_each(&c, gather, &g);
    }
    int status =
        err == TY_OK ? storage_print_value(s, g.list) : storage_say_error(&c, s->command, err);
    if (err == TY_OK && json_array_size(g.list) == 0)
        fputs("Listed 0 items.\n", stderr);
    json_decref(g.list);
    storage_conn_close(&c);
    return status;
}

int storage_buckets_describe(struct storage *s, const struct storage_options *o, char **words,
                             int count)
{
    struct storage_conn c;
    struct storage_url url;
    json_t *bucket = NULL, *described = NULL;
    int status = STORAGE_OK;
    (void)o;
    (void)count;
    ty_err err = storage_conn_open(&c, s);
    if (err == TY_OK)
        err = bucket_url(s, words[0], &url);
    if (err == TY_OK)
        err = storage_bucket_get(&c, url.bucket, &bucket);
    if (err == TY_OK) {
        described = storage_bucket_described(s->arena, bucket);
        status = storage_print_value(s, described);
    } else {
        status = storage_say_error(&c, s->command, err);
    }
    json_decref(described);
    json_decref(bucket);
    storage_conn_close(&c);
    return status;
}
