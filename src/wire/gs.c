/* gs.c -- gs://BUCKET/NAME, and where its bytes are on this machine.
 *
 * An object whose name is a plain path is the file data/buckets/BUCKET/NAME (objects.h), so that
 * who only reads one needs no server. Other names (an empty part, "." or "..", a part of more than
 * 255 bytes) have no such file. */
#include "wire/wire.h"

enum { GS_BUCKET_BYTES = 222, GS_NAME_BYTES = 1024, GS_PART_BYTES = 255 };

static bool bucket_is_plain(ty_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              (i > 0 && (c == '-' || c == '_' || c == '.'))))
            return false;
    }
    return s.len >= 3 && s.len <= GS_BUCKET_BYTES;
}

static bool name_is_plain(ty_str name)
{
    ty_str part;
    bool more = name.len > 0;
    if (name.len > GS_NAME_BYTES || memchr(name.ptr ? name.ptr : "", '\0', name.len))
        return false;
    while (more) {
        more = ty_str_split(&name, '/', &part);
        if (part.len == 0 || part.len > GS_PART_BYTES || ty_str_is(part, ".") ||
            ty_str_is(part, ".."))
            return false;
    }
    return true;
}

bool wire_gs_parse(ty_str uri, ty_str *ret_bucket, ty_str *ret_name)
{
    if (!ty_str_starts(uri, TY_STR("gs://")))
        return false;
    ty_str rest = ty_str_drop(uri, strlen("gs://")), bucket;
    if (!ty_str_split(&rest, '/', &bucket))
        rest = TY_STR("");
    if (!bucket_is_plain(bucket))
        return false;
    *ret_bucket = bucket;
    *ret_name = rest;
    return true;
}

char *wire_gs_path(struct ty_arena *a, const char *data_dir, ty_str uri)
{
    ty_str bucket, name;
    if (!wire_gs_parse(uri, &bucket, &name) || !name_is_plain(name))
        return NULL;
    return ty_format(a, "%s/buckets/" TY_STR_FMT "%s" TY_STR_FMT, data_dir, TY_STR_ARG(bucket),
                     name.len ? "/" : "", TY_STR_ARG(name));
}
