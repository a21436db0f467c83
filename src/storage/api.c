/* api.c -- calls of the JSON API, and its errors in the words of the tool that is played. */
#include "storage/storage_int.h"

enum { TARGET_BYTES = 32 * 1024, MESSAGE_BYTES = 4096 };

ty_err storage_conn_open(struct storage_conn *c, struct storage *s)
{
    *c = (struct storage_conn){.s = s};
    c->client.fd = -1;
    return http_client_open(&c->client, s->connect);
}

void storage_conn_close(struct storage_conn *c)
{
    http_client_close(&c->client);
}

char *storage_path(struct ty_arena *a, ty_str bucket, ty_str name)
{
    struct ty_buf b;
    ty_buf_init(&b, TARGET_BYTES);
    ty_buf_addz(&b, "/storage/v1/b/");
    wire_url_encode(&b, bucket);
    if (name.len > 0) {
        ty_buf_addz(&b, "/o/");
        wire_url_encode(&b, name);
    }
    char *path = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return path;
}

void storage_query_add(struct ty_buf *b, const char *name, ty_str value)
{
    ty_buf_addf(b, "&%s=", name);
    wire_url_encode(b, value);
}

/* ---- errors ---- */

static ty_err code_of(int status)
{
    return status == 404   ? TY_NOT_FOUND
           : status == 409 ? TY_ALREADY_EXISTS
           : status == 412 ? TY_FAILED_PRECONDITION
           : status == 403 ? TY_PERMISSION_DENIED
           : status >= 500 ? TY_UNKNOWN
                           : TY_INVALID_ARGUMENT;
}

static const char *exception_of(int status)
{
    return status == 400   ? "BadRequestException"
           : status == 403 ? "AccessDeniedException"
           : status == 404 ? "NotFoundException"
           : status == 412 ? "PreconditionException"
                           : "ServiceException";
}

/* A missing bucket and a missing object are both 404; only the text tells them apart. */
static enum storage_missing missing_by(ty_str message)
{
    static const char folder[] = "there is a folder of that name";
    if (!ty_str_starts(message, TY_STR("the bucket '")) &&
        !ty_str_starts(message, TY_STR("The specified bucket does not exist")))
        return STORAGE_THERE;
    return memmem(message.ptr, message.len, folder, sizeof(folder) - 1) != NULL
               ? STORAGE_MISSING_HAS_FOLDER
               : STORAGE_MISSING;
}

ty_err storage_fail_api(struct storage_conn *c, const struct http_reply *reply)
{
    json_t *root = NULL;
    struct ty_arena a = {0};
    ty_str message = {"", 0}, status = {"", 0};
    ty_err code = code_of(reply->status), err;
    if (wire_json_parse(reply->body, &root) == TY_OK) {
        message = wire_json_get_str(json_object_get(root, "error"), "message");
        status = wire_json_get_str(json_object_get(root, "error"), "status");
    }
    if (message.len == 0)
        message = reply->body;
    message.len = message.len > MESSAGE_BYTES ? MESSAGE_BYTES : message.len;
    bool gsutil = c->s->style == STORAGE_GSUTIL;
    c->bucket_missing = reply->status == 404 ? missing_by(message) : STORAGE_THERE;
    if (c->bucket_missing && gsutil)
        err =
            ty_fail(code, "BucketNotFoundException: 404 gs://" TY_STR_FMT " bucket does not exist.",
                    TY_STR_ARG(c->bucket));
    else if (c->bucket_missing)
        err = ty_fail(code, "gs://" TY_STR_FMT " not found: 404.", TY_STR_ARG(c->bucket));
    else if (gsutil)
        err = ty_fail(code, "%s: %d " TY_STR_FMT, exception_of(reply->status), reply->status,
                      TY_STR_ARG(message));
    else if (status.len > 0)
        err = ty_fail(code, TY_STR_FMT ": " TY_STR_FMT, TY_STR_ARG(status), TY_STR_ARG(message));
    else
        err = ty_fail(code, "HTTPError %d: " TY_STR_FMT, reply->status, TY_STR_ARG(message));
    json_decref(root);
    ty_arena_clear(&a);
    return err;
}

/* ---- calls ---- */

ty_err storage_call(struct storage_conn *c, enum http_method method, const char *target,
                    const json_t *body, json_t **ret_reply)
{
    struct ty_arena a = {0};
    struct http_reply reply;
    struct ty_buf b;
    ty_buf_init(&b, 4 << 20);
    if (body != NULL)
        wire_json_dump(&b, body);
    ty_err err = ty_buf_check(&b, "the request");
    c->status = 0;
    if (err == TY_OK)
        err = http_client_call(&c->client, &a, method, target, ty_buf_str(&b), STORAGE_CALL_MS,
                               &reply);
    if (err == TY_OK) {
        c->status = reply.status;
        atomic_store(&c->s->answered, true);
        if (reply.status >= 300)
            err = storage_fail_api(c, &reply);
        else if (ret_reply != NULL &&
                 wire_json_parse(reply.body.len > 0 ? reply.body : TY_STR("{}"), ret_reply) !=
                     TY_OK)
            err = ty_wrap(TY_INTERNAL, "the answer to '%s' is not JSON", target);
    }
    ty_buf_clear(&b);
    ty_arena_clear(&a);
    return err;
}

static int64_t number_of(const json_t *json, const char *key)
{
    int64_t n = 0;
    ty_str text = wire_json_get_str(json, key);
    const json_t *value = json_object_get(json, key);
    if (json_is_integer(value))
        return json_integer_value(value);
    return ty_parse_i64(text, &n) == TY_OK ? n : 0;
}

void storage_object_from(const json_t *json, struct storage_object *ret_object)
{
    *ret_object = (struct storage_object){
        .bucket = wire_json_get_str(json, "bucket"),
        .name = wire_json_get_str(json, "name"),
        .size = number_of(json, "size"),
        .generation = wire_json_get_str(json, "generation"),
        .metageneration = wire_json_get_str(json, "metageneration"),
        .md5 = wire_json_get_str(json, "md5Hash"),
        .crc32c = wire_json_get_str(json, "crc32c"),
        .content_type = wire_json_get_str(json, "contentType"),
        .content_encoding = wire_json_get_str(json, "contentEncoding"),
        .etag = wire_json_get_str(json, "etag"),
        .created = wire_json_get_str(json, "timeCreated"),
        .updated = wire_json_get_str(json, "updated"),
        .mtime = wire_json_get_str(json_object_get(json, "metadata"), "goog-reserved-file-mtime"),
        .json = (json_t *)json,
    };
}

struct storage_object *storage_object_dup(struct ty_arena *a, const struct storage_object *o)
{
    struct storage_object *copy = ty_new(a, struct storage_object);
    *copy = *o;
    ty_str *texts[] = {&copy->bucket, &copy->name,    &copy->generation,   &copy->metageneration,
                       &copy->md5,    &copy->crc32c,  &copy->content_type, &copy->content_encoding,
                       &copy->etag,   &copy->created, &copy->updated,      &copy->mtime};
    for (size_t i = 0; i < TY_COUNT(texts); i++)
        *texts[i] = texts[i]->len > 0 ? ty_str_dup(a, *texts[i]) : (ty_str){"", 0};
    copy->json = NULL;
    return copy;
}

static char *object_target(struct ty_arena *a, const struct storage_url *url)
{
    char *path = storage_path(a, url->bucket, url->name);
    if (url->generation.len == 0)
        return path;
    return ty_format(a, "%s?generation=" TY_STR_FMT, path, TY_STR_ARG(url->generation));
}

ty_err storage_object_get(struct storage_conn *c, struct ty_arena *a, const struct storage_url *url,
                          struct storage_object *ret_object)
{
    json_t *reply = NULL;
    c->bucket = url->bucket;
    ty_err err = storage_call(c, HTTP_GET, object_target(a, url), NULL, &reply);
    if (err != TY_OK)
        return err;
    storage_object_from(reply, ret_object);
    *ret_object = *storage_object_dup(a, ret_object);
    if (ret_object->bucket.len == 0)
        ret_object->bucket = url->bucket;
    json_decref(reply);
    return TY_OK;
}

void storage_conditions_add(struct ty_buf *b, const struct storage_options *o)
{
    if (o->if_generation != NULL)
        storage_query_add(b, "ifGenerationMatch", ty_str_of(o->if_generation));
    else if (o->no_clobber)
        ty_buf_addz(b, "&ifGenerationMatch=0");
    if (o->if_metageneration != NULL)
        storage_query_add(b, "ifMetagenerationMatch", ty_str_of(o->if_metageneration));
}

ty_err storage_object_delete(struct storage_conn *c, const struct storage_options *o,
                             const struct storage_url *url)
{
    struct ty_arena a = {0};
    struct ty_buf b;
    ty_buf_init(&b, TARGET_BYTES);
    ty_buf_addf(&b, "%s%s", object_target(&a, url), url->generation.len > 0 ? "" : "?alt=json");
    if (o != NULL)
        storage_conditions_add(&b, o);
    c->bucket = url->bucket;
    ty_err err = storage_call(c, HTTP_DELETE, b.ptr, NULL, NULL);
    ty_buf_clear(&b);
    ty_arena_clear(&a);
    return err;
}

ty_err storage_bucket_get(struct storage_conn *c, ty_str bucket, json_t **ret_bucket)
{
    struct ty_arena a = {0};
    c->bucket = bucket;
    const char *target =
        ty_format(&a, "%s?projection=full", storage_path(&a, bucket, (ty_str){"", 0}));
    ty_err err = storage_call(c, HTTP_GET, target, NULL, ret_bucket);
    ty_arena_clear(&a);
    return err;
}

/* ---- pages ---- */

static ty_err page_objects(const struct storage_listing *l, const json_t *page,
                           ty_err (*object)(void *arg, const struct storage_object *o), void *arg)
{
    size_t i;
    json_t *item;
    struct storage_object o;
    ty_err err = TY_OK;
    json_array_foreach (json_object_get(page, "items"), i, item) {
        storage_object_from(item, &o);
        o.bucket = l->bucket;
        if (err == TY_OK && object != NULL)
            err = object(arg, &o);
    }
    return err;
}

/* The next page's target: `base` with the token. */
static const char *page_target(struct ty_arena *a, const char *base, const json_t *page)
{
    ty_str token = wire_json_get_str(page, "nextPageToken");
    if (token.len == 0)
        return NULL;
    struct ty_buf b;
    ty_buf_init(&b, TARGET_BYTES);
    ty_buf_addz(&b, base);
    storage_query_add(&b, "pageToken", token);
    const char *target = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return target;
}

ty_err storage_list(struct storage_conn *c, const struct storage_listing *l,
                    ty_err (*object)(void *arg, const struct storage_object *o),
                    ty_err (*prefix)(void *arg, ty_str prefix), void *arg)
{
    struct ty_arena a = {0};
    struct ty_buf b;
    ty_err err = TY_OK;
    json_t *prefixes = json_array(), *item;
    size_t i;
    ty_buf_init(&b, TARGET_BYTES);
    ty_buf_addf(&b, "%s/o?maxResults=%d", storage_path(&a, l->bucket, (ty_str){"", 0}),
                STORAGE_PAGE);
    if (l->prefix.len > 0)
        storage_query_add(&b, "prefix", l->prefix);
    if (l->delimiter.len > 0)
        storage_query_add(&b, "delimiter", l->delimiter);
    if (l->versions)
        ty_buf_addz(&b, "&versions=true");
    c->bucket = l->bucket;
    const char *base = ty_cstr(&a, ty_buf_str(&b)), *target = base;
    while (err == TY_OK && target != NULL) {
        json_t *page = NULL;
        err = storage_call(c, HTTP_GET, target, NULL, &page);
        if (err == TY_OK)
            err = page_objects(l, page, object, arg);
        if (prefix != NULL)
            json_array_foreach (json_object_get(page, "prefixes"), i, item)
                json_array_append(prefixes, item);
        target = page_target(&a, base, page);
        json_decref(page);
    }
    json_array_foreach (prefixes, i, item)
        if (err == TY_OK)
            err = prefix(arg, (ty_str){json_string_value(item), json_string_length(item)});
    json_decref(prefixes);
    ty_buf_clear(&b);
    ty_arena_clear(&a);
    return err;
}

ty_err storage_buckets_each(struct storage_conn *c,
                            ty_err (*bucket)(void *arg, const json_t *bucket), void *arg)
{
    struct ty_arena a = {0};
    struct ty_buf b;
    ty_err err = TY_OK;
    ty_buf_init(&b, TARGET_BYTES);
    ty_buf_addf(&b, "/storage/v1/b?maxResults=%d", STORAGE_PAGE);
    storage_query_add(&b, "project", ty_str_of(c->s->project));
    const char *base = ty_cstr(&a, ty_buf_str(&b)), *target = base;
    while (err == TY_OK && target != NULL) {
        json_t *page = NULL, *item;
        size_t i;
        err = storage_call(c, HTTP_GET, target, NULL, &page);
        json_array_foreach (json_object_get(page, "items"), i, item)
            if (err == TY_OK)
                err = bucket(arg, item);
        target = page_target(&a, base, page);
        json_decref(page);
    }
    ty_buf_clear(&b);
    ty_arena_clear(&a);
    return err;
}
