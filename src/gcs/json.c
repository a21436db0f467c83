/* json.c -- buckets and objects as clients are told about them.
 *
 * Links lead back to the address the client used. An etag is the protobuf message {1: generation,
 * 2: metageneration} in base64, as Google's are; a client may only compare it. */
#include "gcs/gcs_int.h"

const char *link_base(struct http_request *req)
{
    return ty_format(req->arena, "%s://" TY_STR_FMT, req->tls ? "https" : "http",
                     TY_STR_ARG(req->host));
}

/* ---- members ---- */

static void member_name(struct ty_buf *b, const char *name)
{
    if (b->len > 0 && b->ptr[b->len - 1] != '{')
        ty_buf_addc(b, ',');
    ty_buf_addc(b, '"');
    ty_buf_addz(b, name);
    ty_buf_add(b, "\":", 2);
}

void member_str(struct ty_buf *b, const char *name, ty_str value)
{
    member_name(b, name);
    wire_json_string(b, value);
}

void member_i64(struct ty_buf *b, const char *name, int64_t value)
{
    member_name(b, name);
    ty_buf_addf(b, "\"%" PRId64 "\"", value);
}

static void member_optional(struct ty_buf *b, const char *name, ty_str value)
{
    if (value.len > 0)
        member_str(b, name, value);
}

static void member_json(struct ty_buf *b, const char *name, ty_str json)
{
    if (json.len == 0)
        return;
    member_name(b, name);
    ty_buf_adds(b, json);
}

static void member_time(struct ty_buf *b, const char *name, int64_t ns)
{
    char text[WIRE_TIME_BYTES];
    member_str(b, name, ty_str_of(wire_time_format(ns, 3, text)));
}

static void member_base64(struct ty_buf *b, const char *name, const struct ty_buf *bytes)
{
    member_name(b, name);
    ty_buf_addc(b, '"');
    wire_base64_encode(b, ty_buf_str(bytes));
    ty_buf_addc(b, '"');
}

/* ---- hashes and etags ---- */

void md5_text(struct ty_buf *b, const unsigned char md5[16])
{
    wire_base64_encode(b, (ty_str){(const char *)md5, 16});
}

/* Big-endian, as Google has it. */
void crc32c_text(struct ty_buf *b, uint32_t crc32c)
{
    const char bytes[4] = {(char)(crc32c >> 24), (char)(crc32c >> 16), (char)(crc32c >> 8),
                           (char)crc32c};
    wire_base64_encode(b, (ty_str){bytes, sizeof bytes});
}

static void etag_bytes(struct ty_buf *bytes, int64_t generation, int64_t metageneration)
{
    ty_buf_init(bytes, 64);
    if (generation > 0)
        wire_pb_int(bytes, 1, generation);
    wire_pb_int(bytes, generation > 0 ? 2 : 1, metageneration);
}

void object_etag(struct ty_buf *b, const struct object *object)
{
    struct ty_buf bytes;
    etag_bytes(&bytes, object->generation, object->metageneration);
    wire_base64_encode(b, ty_buf_str(&bytes));
    ty_buf_clear(&bytes);
}

static void member_hashes(struct ty_buf *b, const struct object *x)
{
    if (x->has_md5) {
        member_name(b, "md5Hash");
        ty_buf_addc(b, '"');
        md5_text(b, x->md5);
        ty_buf_addc(b, '"');
    }
    if (x->has_crc32c) {
        member_name(b, "crc32c");
        ty_buf_addc(b, '"');
        crc32c_text(b, x->crc32c);
        ty_buf_addc(b, '"');
    }
    struct ty_buf bytes;
    etag_bytes(&bytes, x->generation, x->metageneration);
    member_base64(b, "etag", &bytes);
    ty_buf_clear(&bytes);
}

/* ---- objects ---- */

static void member_links(struct ty_buf *b, const char *base, const struct object *x)
{
    ty_buf_addf(b, ",\"selfLink\":\"%s/storage/v1/b/" TY_STR_FMT "/o/", base,
                TY_STR_ARG(x->bucket));
    wire_url_encode(b, x->name);
    ty_buf_addf(b, "\",\"mediaLink\":\"%s/download/storage/v1/b/" TY_STR_FMT "/o/", base,
                TY_STR_ARG(x->bucket));
    wire_url_encode(b, x->name);
    ty_buf_addf(b, "?generation=%" PRId64 "&alt=media\"", x->generation);
}

static void member_settings(struct ty_buf *b, const struct object_settings *s)
{
    member_optional(b, "contentType", s->content_type);
    member_optional(b, "contentEncoding", s->content_encoding);
    member_optional(b, "contentDisposition", s->content_disposition);
    member_optional(b, "contentLanguage", s->content_language);
    member_optional(b, "cacheControl", s->cache_control);
    member_str(b, "storageClass", s->storage_class.len > 0 ? s->storage_class : TY_STR("STANDARD"));
    member_json(b, "metadata", s->metadata);
    if (s->custom_time_ns != 0)
        member_time(b, "customTime", s->custom_time_ns);
}

void object_json(struct ty_buf *b, const char *base, const struct object *x)
{
    ty_buf_addz(b, "{\"kind\":\"storage#object\",\"id\":");
    struct ty_buf id;
    ty_buf_init(&id, OBJECTS_NAME_BYTES + OBJECTS_BUCKET_NAME_BYTES + 64);
    ty_buf_addf(&id, TY_STR_FMT "/" TY_STR_FMT "/%" PRId64, TY_STR_ARG(x->bucket),
                TY_STR_ARG(x->name), x->generation);
    wire_json_string(b, ty_buf_str(&id));
    ty_buf_clear(&id);
    member_links(b, base, x);
    member_str(b, "name", x->name);
    member_str(b, "bucket", x->bucket);
    member_i64(b, "generation", x->generation);
    member_i64(b, "metageneration", x->metageneration);
    member_i64(b, "size", x->size);
    member_settings(b, &x->settings);
    member_hashes(b, x);
    if (x->components > 0) {
        member_name(b, "componentCount");
        ty_buf_addf(b, "%d", x->components);
    }
    member_time(b, "timeCreated", x->create_ns);
    member_time(b, "updated", x->update_ns);
    member_time(b, "timeStorageClassUpdated", x->create_ns);
    member_time(b, "timeFinalized", x->create_ns);
    if (x->delete_ns != 0)
        member_time(b, x->soft_deleted ? "softDeleteTime" : "timeDeleted", x->delete_ns);
    if (x->soft_deleted)
        member_time(b, "hardDeleteTime", x->hard_delete_ns);
    ty_buf_addc(b, '}');
}

/* ---- buckets ---- */

static bool is_multi_region(ty_str location)
{
    return ty_str_is(location, "US") || ty_str_is(location, "EU") || ty_str_is(location, "ASIA");
}

/* A bucket's number of its own, steady and not zero, from its creation. */
static int64_t project_number(const struct bucket *x)
{
    uint32_t crc = wire_crc32c(0, x->project.ptr, x->project.len);
    return INT64_C(100000000000) + crc;
}

static void member_policies(struct ty_buf *b, const struct bucket *x)
{
    if (x->versioning)
        member_json(b, "versioning", TY_STR("{\"enabled\":true}"));
    member_name(b, "softDeletePolicy");
    ty_buf_addc(b, '{');
    member_i64(b, "retentionDurationSeconds", x->soft_delete_s);
    if (x->soft_delete_s > 0)
        member_time(b, "effectiveTime", x->soft_delete_ns);
    ty_buf_addc(b, '}');
    member_json(b, "labels", x->labels);
    member_json(b, "lifecycle", x->lifecycle);
}

/* Everything else that a client has set, as it was set; what every bucket has, unless it did. */
static void member_extra(struct ty_buf *b, const struct bucket *x)
{
    static const char iam[] = "{\"bucketPolicyOnly\":{\"enabled\":false},"
                              "\"uniformBucketLevelAccess\":{\"enabled\":false},"
                              "\"publicAccessPrevention\":\"inherited\"}";
    ty_str extra = ty_str_trim(x->extra);
    if (!memmem(extra.ptr ? extra.ptr : "", extra.len, "\"iamConfiguration\"", 18))
        member_json(b, "iamConfiguration", TY_STR(iam));
    if (extra.len > 2) {
        ty_buf_addc(b, ',');
        ty_buf_adds(b, (ty_str){extra.ptr + 1, extra.len - 2});
    }
}

void bucket_json(struct ty_buf *b, const char *base, const struct bucket *x)
{
    ty_buf_addz(b, "{\"kind\":\"storage#bucket\"");
    member_str(b, "id", x->name);
    ty_buf_addf(b, ",\"selfLink\":\"%s/storage/v1/b/" TY_STR_FMT "\"", base, TY_STR_ARG(x->name));
    member_str(b, "name", x->name);
    member_i64(b, "projectNumber", project_number(x));
    member_i64(b, "generation", x->create_ns / 1000);
    member_i64(b, "metageneration", x->metageneration);
    ty_str location = x->location.len > 0 ? x->location : TY_STR("US");
    member_str(b, "location", location);
    member_str(b, "locationType",
               is_multi_region(location) ? TY_STR("multi-region") : TY_STR("region"));
    member_str(b, "storageClass", x->storage_class.len > 0 ? x->storage_class : TY_STR("STANDARD"));
    member_time(b, "timeCreated", x->create_ns);
    member_time(b, "updated", x->update_ns);
    struct ty_buf bytes;
    etag_bytes(&bytes, 0, x->metageneration);
    member_base64(b, "etag", &bytes);
    ty_buf_clear(&bytes);
    member_policies(b, x);
    member_extra(b, x);
    ty_buf_addc(b, '}');
}
