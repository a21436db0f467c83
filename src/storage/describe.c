/* describe.c -- what is known of an object or bucket: as gcloud's describe has it, under names of
 * its own, and as ls -L and stat print it for people. */
#include "storage/storage_int.h"

enum field_kind { FIELD_TEXT, FIELD_NUMBER, FIELD_TIME, FIELD_JSON };

struct field {
    const char *path; /* of the API's JSON; a dot leads into an object */
    enum field_kind kind;
    const char *name; /* gcloud's */
};

static const struct field object_fields[] = {
    {"acl", FIELD_JSON, "acl"},
    {"bucket", FIELD_TEXT, "bucket"},
    {"cacheControl", FIELD_TEXT, "cache_control"},
    {"componentCount", FIELD_NUMBER, "component_count"},
    {"contentDisposition", FIELD_TEXT, "content_disposition"},
    {"contentEncoding", FIELD_TEXT, "content_encoding"},
    {"contentLanguage", FIELD_TEXT, "content_language"},
    {"contentType", FIELD_TEXT, "content_type"},
    {"crc32c", FIELD_TEXT, "crc32c_hash"},
    {"timeCreated", FIELD_TIME, "creation_time"},
    {"metadata", FIELD_JSON, "custom_fields"},
    {"customTime", FIELD_TIME, "custom_time"},
    {"etag", FIELD_TEXT, "etag"},
    {"generation", FIELD_TEXT, "generation"},
    {"md5Hash", FIELD_TEXT, "md5_hash"},
    {"metageneration", FIELD_NUMBER, "metageneration"},
    {"name", FIELD_TEXT, "name"},
    {"timeDeleted", FIELD_TIME, "noncurrent_time"},
    {"size", FIELD_NUMBER, "size"},
    {"storageClass", FIELD_TEXT, "storage_class"},
    {"timeStorageClassUpdated", FIELD_TIME, "storage_class_update_time"},
    {"updated", FIELD_TIME, "update_time"},
};

static const struct field bucket_fields[] = {
    {"acl", FIELD_JSON, "acl"},
    {"cors", FIELD_JSON, "cors_config"},
    {"timeCreated", FIELD_TIME, "creation_time"},
    {"defaultObjectAcl", FIELD_JSON, "default_acl"},
    {"storageClass", FIELD_TEXT, "default_storage_class"},
    {"generation", FIELD_NUMBER, "generation"},
    {"labels", FIELD_JSON, "labels"},
    {"lifecycle", FIELD_JSON, "lifecycle_config"},
    {"location", FIELD_TEXT, "location"},
    {"locationType", FIELD_TEXT, "location_type"},
    {"metageneration", FIELD_NUMBER, "metageneration"},
    {"name", FIELD_TEXT, "name"},
    {"iamConfiguration.publicAccessPrevention", FIELD_TEXT, "public_access_prevention"},
    {"softDeletePolicy", FIELD_JSON, "soft_delete_policy"},
    {"iamConfiguration.uniformBucketLevelAccess.enabled", FIELD_JSON,
     "uniform_bucket_level_access"},
    {"updated", FIELD_TIME, "update_time"},
    {"versioning.enabled", FIELD_JSON, "versioning_enabled"},
};

static const json_t *member_at(const json_t *json, const char *path)
{
    ty_str rest = ty_str_of(path), name;
    bool more = true;
    char key[64];
    while (more && json != NULL) {
        more = ty_str_split(&rest, '.', &name);
        snprintf(key, sizeof(key), TY_STR_FMT, TY_STR_ARG(name));
        json = json_object_get(json, key);
    }
    return json;
}

static ty_str text_of(const json_t *value)
{
    return json_is_string(value) ? (ty_str){json_string_value(value), json_string_length(value)}
                                 : (ty_str){"", 0};
}

static json_t *number_from(const json_t *value)
{
    int64_t n;
    if (json_is_string(value) && ty_parse_i64(text_of(value), &n) == TY_OK)
        return json_integer(n);
    return json_incref((json_t *)value);
}

static json_t *value_described(struct ty_arena *a, const struct field *f, const json_t *value)
{
    if (f->kind == FIELD_NUMBER)
        return number_from(value);
    if (f->kind == FIELD_TIME)
        return json_string(storage_stamp(a, text_of(value)));
    return json_incref((json_t *)value);
}

static json_t *described(struct ty_arena *a, const struct field *fields, size_t count,
                         const json_t *json, const char *url, const char *before_url)
{
    json_t *out = json_object();
    for (size_t i = 0; i < count; i++) {
        const json_t *value = member_at(json, fields[i].path);
        if (url != NULL && strcmp(fields[i].name, before_url) > 0) {
            json_object_set_new(out, "storage_url", json_string(url));
            url = NULL;
        }
        if (value != NULL && !(json_is_array(value) && json_array_size(value) == 0))
            json_object_set_new(out, fields[i].name, value_described(a, &fields[i], value));
    }
    return out;
}

json_t *storage_object_described(struct ty_arena *a, const json_t *object)
{
    struct storage_object o;
    storage_object_from(object, &o);
    struct storage_url url = {
        .cloud = true, .bucket = o.bucket, .name = o.name, .generation = o.generation};
    return described(a, object_fields, TY_COUNT(object_fields), object, storage_url_text(a, &url),
                     "storage_url");
}

json_t *storage_bucket_described(struct ty_arena *a, const json_t *bucket)
{
    ty_str name = wire_json_get_str(bucket, "name");
    return described(a, bucket_fields, TY_COUNT(bucket_fields), bucket,
                     ty_format(a, "gs://" TY_STR_FMT "/", TY_STR_ARG(name)), "storage_url");
}

int storage_print_value(const struct storage *s, const json_t *value)
{
    struct ty_buf b;
    if (s->print != NULL)
        return s->print(s->print_arg, value);
    ty_buf_init(&b, 64 << 20);
    wire_yaml_dump(&b, value);
    fputs(b.ptr, stdout);
    ty_buf_clear(&b);
    return STORAGE_OK;
}

/* ---- for people ---- */

/* A line of ls -L: what the two tools call it. */
static const struct {
    const char *path;
    enum field_kind kind;
    const char *gsutil, *gcloud;
} object_lines[] = {
    {"timeCreated", FIELD_TIME, "Creation time", "Creation Time"},
    {"updated", FIELD_TIME, "Update time", "Update Time"},
    {"timeStorageClassUpdated", FIELD_TIME, NULL, "Storage Class Update Time"},
    {"storageClass", FIELD_TEXT, "Storage class", "Storage Class"},
    {"cacheControl", FIELD_TEXT, "Cache-Control", "Cache-Control"},
    {"contentDisposition", FIELD_TEXT, "Content-Disposition", "Content-Disposition"},
    {"contentEncoding", FIELD_TEXT, "Content-Encoding", "Content-Encoding"},
    {"contentLanguage", FIELD_TEXT, "Content-Language", "Content-Language"},
    {"size", FIELD_TEXT, "Content-Length", "Content-Length"},
    {"contentType", FIELD_TEXT, "Content-Type", "Content-Type"},
    {"componentCount", FIELD_NUMBER, "Component-Count", "Component-Count"},
    {"customTime", FIELD_TEXT, "Custom-Time", "Custom Time"},
    {"timeDeleted", FIELD_TIME, "Noncurrent time", "Noncurrent Time"},
    {"metadata", FIELD_JSON, "Metadata", "Additional Properties"},
    {"crc32c", FIELD_TEXT, "Hash (crc32c)", "Hash (CRC32C)"},
    {"md5Hash", FIELD_TEXT, "Hash (md5)", "Hash (MD5)"},
    {"etag", FIELD_TEXT, "ETag", "ETag"},
    {"generation", FIELD_TEXT, "Generation", "Generation"},
    {"metageneration", FIELD_TEXT, "Metageneration", "Metageneration"},
};

static void line_print(bool gsutil, int indent, const char *label, const char *value)
{
    char left[128];
    snprintf(left, sizeof(left), "%*s%s:", gsutil ? 4 * indent : 2 * indent, "", label);
    printf("%-*s%s\n", gsutil ? 28 : 31, left, value);
}

/* gcloud's way: JSON, two spaces in. */
static void json_print(const char *label, const json_t *value)
{
    struct ty_buf b;
    ty_str text, line;
    bool more = true;
    ty_buf_init(&b, 1 << 20);
    wire_json_dump_pretty(&b, value);
    printf("  %s:\n", label);
    for (text = ty_str_trim(ty_buf_str(&b)); more;) {
        more = ty_str_split(&text, '\n', &line);
        printf("  " TY_STR_FMT "\n", TY_STR_ARG(line));
    }
    ty_buf_clear(&b);
}

static void metadata_print(bool gsutil, const char *label, const json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!gsutil) {
        json_print(label, metadata);
        return;
    }
    line_print(gsutil, 1, label, "");
    json_object_foreach ((json_t *)metadata, key, value)
        line_print(gsutil, 2, key, json_is_string(value) ? json_string_value(value) : "");
}

void storage_object_full(const struct storage *s, const json_t *object, const char *url,
                         bool with_acl)
{
    struct ty_arena a = {0};
    bool gsutil = s->style == STORAGE_GSUTIL;
    printf("%s:\n", url);
    for (size_t i = 0; i < TY_COUNT(object_lines); i++) {
        const json_t *value = json_object_get(object, object_lines[i].path);
        const char *label = gsutil ? object_lines[i].gsutil : object_lines[i].gcloud;
        const char *text = json_is_string(value) ? json_string_value(value) : "";
        if (value == NULL || label == NULL)
            continue;
        if (object_lines[i].kind == FIELD_JSON) {
            metadata_print(gsutil, label, value);
            continue;
        }
        if (object_lines[i].kind == FIELD_TIME)
            text = gsutil ? storage_date(&a, text_of(value)) : storage_second(&a, text_of(value));
        else if (json_is_integer(value))
            text = ty_format(&a, "%lld", (long long)json_integer_value(value));
        line_print(gsutil, 1, label, text);
    }
    if (with_acl)
        line_print(gsutil, 1, "ACL", "[]");
    ty_arena_clear(&a);
}

static const char *yes_or_none(const json_t *bucket, const char *path)
{
    const json_t *value = member_at(bucket, path);
    return json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None";
}

static const char *present(const json_t *bucket, const char *name)
{
    return json_object_get(bucket, name) != NULL ? "Present" : "None";
}

static void bucket_gsutil(struct ty_arena *a, const json_t *bucket)
{
    const char *policy = "iamConfiguration.bucketPolicyOnly.enabled";
    const json_t *prevention = member_at(bucket, "iamConfiguration.publicAccessPrevention");
    if (member_at(bucket, policy) == NULL)
        policy = "iamConfiguration.uniformBucketLevelAccess.enabled";
    const struct {
        const char *label, *value;
    } lines[] = {
        {"Storage class:\t\t\t", ty_cstr(a, wire_json_get_str(bucket, "storageClass"))},
        {"Location type:\t\t\t", ty_cstr(a, wire_json_get_str(bucket, "locationType"))},
        {"Location constraint:\t\t", ty_cstr(a, wire_json_get_str(bucket, "location"))},
        {"Versioning enabled:\t\t", yes_or_none(bucket, "versioning.enabled")},
        {"Logging configuration:\t\t", present(bucket, "logging")},
        {"Website configuration:\t\t", present(bucket, "website")},
        {"CORS configuration: \t\t", present(bucket, "cors")},
        {"Lifecycle configuration:\t", present(bucket, "lifecycle")},
        {"Requester Pays enabled:\t\t", yes_or_none(bucket, "billing.requesterPays")},
        {"Labels:\t\t\t\t", present(bucket, "labels")},
        {"Default KMS key:\t\t", "None"},
        {"Time created:\t\t\t", storage_date(a, wire_json_get_str(bucket, "timeCreated"))},
        {"Time updated:\t\t\t", storage_date(a, wire_json_get_str(bucket, "updated"))},
        {"Metageneration:\t\t\t", ty_cstr(a, wire_json_get_str(bucket, "metageneration"))},
        {"Bucket Policy Only enabled:\t",
         member_at(bucket, policy) != NULL ? yes_or_none(bucket, policy) : NULL},
        {"Public access prevention:\t",
         prevention != NULL ? ty_cstr(a, text_of(prevention)) : NULL},
        {"ACL:\t\t\t\t", "[]"},
        {"Default ACL:\t\t\t", "[]"},
    };
    printf("gs://" TY_STR_FMT "/ :\n", TY_STR_ARG(wire_json_get_str(bucket, "name")));
    for (size_t i = 0; i < TY_COUNT(lines); i++)
        if (lines[i].value != NULL)
            printf("\t%s%s\n", lines[i].label, lines[i].value);
}

static void bucket_gcloud(struct ty_arena *a, const json_t *bucket)
{
    const json_t *uniform = member_at(bucket, "iamConfiguration.uniformBucketLevelAccess.enabled");
    const json_t *prevention = member_at(bucket, "iamConfiguration.publicAccessPrevention");
    const struct {
        const char *label, *value;
    } lines[] = {
        {"Storage Class", ty_cstr(a, wire_json_get_str(bucket, "storageClass"))},
        {"Location Type", ty_cstr(a, wire_json_get_str(bucket, "locationType"))},
        {"Location Constraint", ty_cstr(a, wire_json_get_str(bucket, "location"))},
        {"Versioning Enabled", yes_or_none(bucket, "versioning.enabled")},
        {"Logging Configuration", present(bucket, "logging")},
        {"Website Configuration", present(bucket, "website")},
        {"CORS Configuration", json_object_get(bucket, "cors") != NULL ? "Present" : "[]"},
        {"Lifecycle Configuration", present(bucket, "lifecycle")},
        {"Requester Pays Enabled", yes_or_none(bucket, "billing.requesterPays")},
        {"Default KMS Key", "None"},
        {"Time Created", storage_second(a, wire_json_get_str(bucket, "timeCreated"))},
        {"Time Updated", storage_second(a, wire_json_get_str(bucket, "updated"))},
        {"Generation", ty_cstr(a, wire_json_get_str(bucket, "generation"))},
        {"Metageneration", ty_cstr(a, wire_json_get_str(bucket, "metageneration"))},
        {"Bucket Policy Only Enabled",
         uniform != NULL ? (json_is_true(uniform) ? "True" : "False") : NULL},
        {"Public Access Prevention", prevention != NULL ? ty_cstr(a, text_of(prevention)) : NULL},
    };
    printf("gs://" TY_STR_FMT "/:\n", TY_STR_ARG(wire_json_get_str(bucket, "name")));
    for (size_t i = 0; i < TY_COUNT(lines); i++)
        if (lines[i].value != NULL)
            line_print(false, 1, lines[i].label, lines[i].value);
    if (json_object_get(bucket, "softDeletePolicy") != NULL)
        json_print("Soft Delete Policy", json_object_get(bucket, "softDeletePolicy"));
    line_print(false, 1, "ACL", "[]");
}

void storage_bucket_full(const struct storage *s, const json_t *bucket)
{
    struct ty_arena a = {0};
    if (s->style == STORAGE_GSUTIL)
        bucket_gsutil(&a, bucket);
    else
        bucket_gcloud(&a, bucket);
    ty_arena_clear(&a);
}
