/* settings.c -- what a client may set of an object or a bucket, from its JSON.
 *
 * Clients send whole resources back, so fields that only the server sets are passed over in
 * silence. A field that promises something we do not do is refused: an object that was to be kept
 * for a year must not be deletable tomorrow. */
#include "gcs/gcs_int.h"

#include <strings.h>

/* ---- objects ---- */

static const char *const refused[] = {
    "retention", "temporaryHold", "eventBasedHold", "kmsKeyName", "customerEncryption", "contexts",
};

static ty_err refuse_promises(const json_t *object)
{
    for (size_t i = 0; i < TY_COUNT(refused); i++) {
        const json_t *value = json_object_get(object, refused[i]);
        if (value && !json_is_null(value) && !json_is_false(value))
            return ty_fail(TY_UNIMPLEMENTED,
                           "%s: holds, retention, keys and contexts of objects are not kept here; "
                           "leave it out",
                           refused[i]);
    }
    return TY_OK;
}

/* These become headers of downloads, so a line break in one would be a header of the client's. */
static ty_err text_check(const char *name, ty_str value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (c < ' ' || c == 0x7f)
            return ty_fail(TY_INVALID_ARGUMENT, "%s: has a control character at byte %zu", name, i);
    }
    return TY_OK;
}

static ty_err text_apply(struct ty_arena *a, const json_t *object, const char *name, ty_str *text)
{
    const json_t *value = json_object_get(object, name);
    if (!value)
        return TY_OK;
    if (json_is_null(value)) {
        *text = TY_STR("");
        return TY_OK;
    }
    if (!json_is_string(value))
        return ty_fail(TY_INVALID_ARGUMENT, "%s: must be a string", name);
    ty_str given = {json_string_value(value), json_string_length(value)};
    ty_err err = text_check(name, given);
    if (err == TY_OK)
        *text = ty_str_dup(a, given);
    return err;
}

/* In any case, as Google takes it. Empty: the bucket's, or STANDARD. */
static ty_err class_check(ty_str class)
{
    static const char *const names[] = {
        "STANDARD",
        "NEARLINE",
        "COLDLINE",
        "ARCHIVE",
        "REGIONAL",
        "MULTI_REGIONAL",
        "DURABLE_REDUCED_AVAILABILITY",
    };
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (class.len == strlen(names[i]) && strncasecmp(class.ptr, names[i], class.len) == 0)
            return TY_OK;
    if (class.len == 0)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "storageClass: '%.*s' is none of STANDARD, NEARLINE, COLDLINE, ARCHIVE, "
                   "REGIONAL, MULTI_REGIONAL and DURABLE_REDUCED_AVAILABILITY",
                   class.len > 64 ? 64 : (int)class.len, class.ptr);
}

static ty_str dump(struct ty_arena *a, const json_t *value, size_t limit)
{
    struct ty_buf b;
    ty_buf_init(&b, limit + 1024); /* so that the ceiling's own check speaks, not the buffer's */
    wire_json_dump(&b, value);
    ty_str text = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

/* Lay `patch`, an object of strings and nulls, over the JSON text in *text. */
static ty_err strings_merge(struct ty_arena *a, const char *name, const json_t *patch, ty_str *text,
                            size_t limit)
{
    json_t *merged = NULL;
    if (json_is_null(patch)) {
        *text = TY_STR("");
        return TY_OK;
    }
    if (!json_is_object(patch))
        return ty_fail(TY_INVALID_ARGUMENT, "%s: must be an object of strings", name);
    ty_err err = text->len > 0 ? wire_json_parse(*text, &merged) : TY_OK;
    if (err != TY_OK)
        return err;
    if (!merged)
        merged = json_object();
    const char *key;
    json_t *value;
    size_t bytes = 0;
    json_object_foreach ((json_t *)patch, key, value) {
        bytes += strlen(key) + (json_is_string(value) ? json_string_length(value) : 0);
        if (json_is_null(value))
            json_object_del(merged, key);
        else if (json_is_string(value))
            json_object_set(merged, key, value);
        else
            err = ty_fail(TY_INVALID_ARGUMENT, "%s.%.64s: must be a string", name, key);
    }
    if (err == TY_OK && bytes > limit)
        err = ty_fail(TY_INVALID_ARGUMENT, "%s: is larger than %zu bytes", name, limit);
    if (err == TY_OK)
        *text = json_object_size(merged) > 0 ? dump(a, merged, 4 * limit) : TY_STR("");
    json_decref(merged);
    return err;
}

static ty_err time_apply(const json_t *object, int64_t *ns)
{
    const json_t *value = json_object_get(object, "customTime");
    if (!value)
        return TY_OK;
    if (json_is_null(value)) {
        *ns = 0;
        return TY_OK;
    }
    ty_err err = wire_time_parse(wire_json_get_str(object, "customTime"), ns);
    return err == TY_OK ? TY_OK : ty_wrap(err, "customTime");
}

ty_err settings_apply(struct ty_arena *a, const json_t *object, struct object_settings *settings)
{
    struct object_settings s = *settings;
    const struct {
        const char *name;
        ty_str *text;
    } rows[] = {
        {"contentType", &s.content_type},
        {"contentEncoding", &s.content_encoding},
        {"contentDisposition", &s.content_disposition},
        {"contentLanguage", &s.content_language},
        {"cacheControl", &s.cache_control},
        {"storageClass", &s.storage_class},
    };
    ty_err err = refuse_promises(object);
    for (size_t i = 0; i < TY_COUNT(rows) && err == TY_OK; i++)
        err = text_apply(a, object, rows[i].name, rows[i].text);
    if (err == TY_OK && json_object_get(object, "storageClass"))
        err = class_check(s.storage_class);
    const json_t *metadata = json_object_get(object, "metadata");
    if (err == TY_OK && metadata)
        err = strings_merge(a, "metadata", metadata, &s.metadata, OBJECTS_METADATA_BYTES);
    if (err == TY_OK)
        err = time_apply(object, &s.custom_time_ns);
    if (err == TY_OK)
        *settings = s;
    return err;
}

bool settings_given(const json_t *object)
{
    static const char *const names[] = {
        "contentType",  "contentEncoding", "contentDisposition", "contentLanguage",
        "cacheControl", "storageClass",    "metadata",           "customTime",
    };
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (json_object_get(object, names[i]))
            return true;
    return false;
}

/* ---- declared hashes ---- */

static ty_err hash_decode(struct ty_arena *a, const char *name, ty_str text, size_t bytes,
                          ty_str *ret_bytes)
{
    ty_str decoded;
    if (wire_base64_decode(a, text, &decoded) != TY_OK || decoded.len != bytes)
        return ty_fail(TY_INVALID_ARGUMENT, "%s: '%.*s' is not base64 of %zu bytes", name,
                       text.len > 64 ? 64 : (int)text.len, text.ptr, bytes);
    *ret_bytes = decoded;
    return TY_OK;
}

static ty_err declare_md5(struct ty_arena *a, const char *name, ty_str text, struct declared *d)
{
    ty_str bytes = {0};
    ty_err err = hash_decode(a, name, text, sizeof d->md5, &bytes);
    if (err != TY_OK)
        return err;
    memcpy(d->md5, bytes.ptr, sizeof d->md5);
    d->given |= DECLARED_MD5;
    return TY_OK;
}

static ty_err declare_crc32c(struct ty_arena *a, const char *name, ty_str text, struct declared *d)
{
    ty_str bytes = {0};
    ty_err err = hash_decode(a, name, text, 4, &bytes);
    if (err != TY_OK)
        return err;
    const unsigned char *p = (const unsigned char *)bytes.ptr;
    d->crc32c = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    d->given |= DECLARED_CRC32C;
    return TY_OK;
}

ty_err declared_from_json(struct ty_arena *a, const json_t *object, struct declared *d)
{
    ty_str md5 = wire_json_get_str(object, "md5Hash"), crc = wire_json_get_str(object, "crc32c");
    ty_err err = md5.len > 0 ? declare_md5(a, "md5Hash", md5, d) : TY_OK;
    if (err == TY_OK && crc.len > 0)
        err = declare_crc32c(a, "crc32c", crc, d);
    return err;
}

static ty_err hash_header_parse(const struct http_request *req, ty_str value, struct declared *d)
{
    ty_err err = TY_OK;
    for (bool more = value.len > 0; more && err == TY_OK;) {
        ty_str one, name;
        more = ty_str_split(&value, ',', &one);
        one = ty_str_trim(one);
        ty_str hash = one;
        if (!ty_str_split(&hash, '=', &name))
            err = ty_fail(TY_INVALID_ARGUMENT, "X-Goog-Hash: '%.*s' is not NAME=BASE64",
                          one.len > 64 ? 64 : (int)one.len, one.ptr);
        else if (ty_str_is(name, "md5"))
            err = declare_md5(req->arena, "X-Goog-Hash", hash, d);
        else if (ty_str_is(name, "crc32c"))
            err = declare_crc32c(req->arena, "X-Goog-Hash", hash, d);
    }
    return err;
}

ty_err declared_from_headers(const struct http_request *req, struct declared *d)
{
    ty_err err = TY_OK;
    for (const struct http_param *h = req->headers; h && err == TY_OK; h = h->next) {
        if (h->name.len == 11 && strncasecmp(h->name.ptr, "X-Goog-Hash", 11) == 0)
            err = hash_header_parse(req, h->value, d);
        else if (h->name.len == 11 && strncasecmp(h->name.ptr, "Content-MD5", 11) == 0)
            err = declare_md5(req->arena, "Content-MD5", h->value, d);
    }
    return err;
}

/* ---- buckets ---- */

/* Members of a bucket that have a place of their own, or that only the server sets. */
static bool bucket_member_is_ours(const char *name)
{
    static const char *const names[] = {
        "kind",           "id",       "name",    "selfLink",       "projectNumber",
        "generation",     "location", "etag",    "locationType",   "metageneration",
        "timeCreated",    "updated",  "labels",  "storageClass",   "softDeletePolicy",
        "versioning",     "owner",    "iam",     "lifecycle",      "satisfiesPZS",
        "softDeleteTime", "acl",      "project", "hardDeleteTime",
    };
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* JSON merge patch (RFC 7396), one level of objects inside the bucket's own and below. */
static void merge(json_t *into, const json_t *patch, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)patch, key, value) {
        json_t *have = json_object_get(into, key);
        if (json_is_null(value))
            json_object_del(into, key);
        else if (json_is_object(value) && json_is_object(have) && depth < WIRE_MAX_DEPTH)
            merge(have, value, depth + 1);
        else
            json_object_set_new(into, key, json_deep_copy(value));
    }
}

static ty_err extra_apply(struct ty_arena *a, const json_t *in, struct bucket *b)
{
    json_t *extra = NULL, *patch = json_object();
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)in, key, value)
        if (!bucket_member_is_ours(key))
            json_object_set(patch, key, value);
    ty_err err = b->extra.len > 0 ? wire_json_parse(b->extra, &extra) : TY_OK;
    if (err == TY_OK && !extra)
        extra = json_object();
    if (err == TY_OK && json_object_size(patch) > 0) {
        merge(extra, patch, 0);
        b->extra =
            json_object_size(extra) > 0 ? dump(a, extra, 2 * OBJECTS_SETTINGS_BYTES) : TY_STR("");
    }
    json_decref(extra);
    json_decref(patch);
    return err;
}

static ty_err soft_delete_apply(const json_t *policy, struct bucket *b)
{
    const json_t *value = json_object_get(policy, "retentionDurationSeconds");
    int64_t seconds = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
    ty_str text = wire_json_get_str(policy, "retentionDurationSeconds");
    if ((text.len > 0 && ty_parse_i64(text, &seconds) != TY_OK) || seconds < 0 ||
        seconds > INT64_C(315576000))
        return ty_fail(TY_INVALID_ARGUMENT, "softDeletePolicy.retentionDurationSeconds: must be a "
                                            "number of seconds, 0 to switch it off");
    b->soft_delete_s = seconds;
    return TY_OK;
}

ty_err bucket_apply(struct ty_arena *a, const json_t *in, struct bucket *bucket)
{
    struct bucket b = *bucket;
    const json_t *versioning = json_object_get(in, "versioning");
    const json_t *soft = json_object_get(in, "softDeletePolicy");
    const json_t *labels = json_object_get(in, "labels");
    const json_t *lifecycle = json_object_get(in, "lifecycle");
    ty_err err = text_apply(a, in, "storageClass", &b.storage_class);
    if (err == TY_OK && json_object_get(in, "storageClass"))
        err = class_check(b.storage_class);
    if (versioning)
        b.versioning = json_is_true(json_object_get(versioning, "enabled"));
    if (err == TY_OK && soft)
        err = soft_delete_apply(soft, &b);
    if (err == TY_OK && labels)
        err = strings_merge(a, "labels", labels, &b.labels, OBJECTS_SETTINGS_BYTES);
    if (lifecycle)
        b.lifecycle = json_object_size(lifecycle) > 0 ? dump(a, lifecycle, OBJECTS_SETTINGS_BYTES)
                                                      : TY_STR("");
    if (err == TY_OK)
        err = extra_apply(a, in, &b);
    if (err == TY_OK)
        *bucket = b;
    return err;
}
