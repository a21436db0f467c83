/* objects.c -- single objects: cat, hash, stat, setmeta, compose, objects list and describe. */
#include "storage/storage_int.h"

#include <strings.h>

enum { MOST_COMPONENTS = 32 }; /* of one compose, as there */

static json_t *object_fetch(struct storage_conn *c, const struct storage_url *url, ty_err *ret_err)
{
    json_t *json = NULL;
    const char *generation = url->generation.len > 0 ? "&generation=" : "";
    c->bucket = url->bucket;
    *ret_err = storage_call(c, HTTP_GET,
                            ty_format(c->s->arena, "%s?projection=full%s" TY_STR_FMT,
                                      storage_path(c->s->arena, url->bucket, url->name), generation,
                                      TY_STR_ARG(url->generation)),
                            NULL, &json);
    return json;
}

/* Objects (no folders) that a word stands for; none: the style's own error. */
static ty_err objects_of(struct storage_conn *c, const struct storage_options *o, char *word,
                         struct storage_refs *refs)
{
    struct storage_url *url = ty_new(c->s->arena, struct storage_url);
    struct storage_refs all = {.arena = c->s->arena};
    ty_err err = storage_url_parse(ty_str_of(word), c->s->style, url);
    if (err == TY_OK)
        err = storage_expand(c, url, o->all_versions, &all);
    for (size_t i = 0; i < all.count && err == TY_OK; i++)
        if (all.items[i].kind == STORAGE_IS_OBJECT)
            storage_refs_add(refs, &all.items[i]);
    if (err == TY_OK && refs->count == 0)
        err = storage_fail_unmatched(c->s, &word, 1);
    return err;
}

/* ---- cat ---- */

static bool range_is_good(const char *range)
{
    size_t digits = strspn(range, "0123456789");
    const char *dash = range + digits;
    if (*dash != '-')
        return false;
    size_t more = strspn(dash + 1, "0123456789");
    return dash[1 + more] == '\0' && digits + more > 0;
}

static ty_err cat_word(struct storage_conn *c, const struct storage_options *o, char *word)
{
    struct storage_refs refs = {.arena = c->s->arena};
    ty_err err = objects_of(c, o, word, &refs);
    for (size_t i = 0; i < refs.count && err == TY_OK; i++) {
        const struct storage_url *url = &refs.items[i].url;
        const char *text = storage_url_text(c->s->arena, url);
        if (o->cat_headers)
            fprintf(stderr, "==> %s <==\n", text);
        if (!url->cloud)
            err = ty_fail(TY_INVALID_ARGUMENT,
                          "cat only works for valid cloud URLs. %s is an invalid cloud URL.", text);
        else
            err = storage_cat_object(c, url, ty_str_of(o->range));
    }
    return err;
}

int storage_cat(struct storage *s, const struct storage_options *o, char **words, int count)
{
    struct storage_conn c;
    ty_err err = storage_conn_open(&c, s);
    if (err == TY_OK && o->range != NULL && !range_is_good(o->range))
        err = storage_fail(s, TY_INVALID_ARGUMENT, "Invalid range (%s)", o->range);
    for (int i = 0; i < count && err == TY_OK; i++)
        err = cat_word(&c, o, words[i]);
    int status = err == TY_OK ? STORAGE_OK : storage_say_error(&c, s->command, err);
    storage_conn_close(&c);
    return status;
}

/* ---- hash ---- */

static const char *hex_of(struct ty_arena *a, ty_str base64)
{
    ty_str bytes;
    struct ty_buf b;
    if (wire_base64_decode(a, base64, &bytes) != TY_OK)
        return "";
    ty_buf_init(&b, 256);
    for (size_t i = 0; i < bytes.len; i++)
        ty_buf_addf(&b, "%02X", (unsigned char)bytes.ptr[i]);
    const char *text = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

static const char *hash_shown(struct ty_arena *a, const struct storage_options *o, bool capitals,
                              ty_str base64)
{
    if (!o->hex)
        return ty_cstr(a, base64);
    char *text = (char *)hex_of(a, base64);
    bool small = !capitals;
    for (char *p = text; small && *p != '\0'; p++)
        *p = *p >= 'A' && *p <= 'F' ? (char)(*p + 32) : *p;
    return text;
}

static ty_err hash_show(struct storage_conn *c, const struct storage_options *o,
                        const struct storage_ref *ref, const char *word, json_t *list)
{
    struct ty_arena *a = c->s->arena;
    struct storage_hashes h;
    ty_str md5, crc32c;
    if (ref->url.cloud) {
        md5 = ref->object->md5;
        crc32c = ref->object->crc32c;
    } else {
        ty_err err = storage_file_hashes(ty_cstr(a, ref->url.name), &h);
        if (err != TY_OK)
            return err;
        md5 = ty_str_dup(a, ty_str_of(h.md5_text));
        crc32c = ty_str_dup(a, ty_str_of(h.crc32c_text));
    }
    md5.len = o->only_crc32c && !o->only_md5 ? 0 : md5.len;
    crc32c.len = o->only_md5 && !o->only_crc32c ? 0 : crc32c.len;
    bool capitals = c->s->style == STORAGE_GSUTIL && !ref->url.cloud; /* it does so for CRC32C */
    const char *md5_shown = hash_shown(a, o, false, md5);
    const char *crc_shown = hash_shown(a, o, capitals, crc32c);
    if (c->s->style == STORAGE_GCLOUD) {
        json_t *item = json_object();
        if (crc32c.len > 0)
            json_object_set_new(item, "crc32c_hash", json_string(crc_shown));
        json_object_set_new(item, "digest_format", json_string(o->hex ? "hex" : "base64"));
        if (md5.len > 0)
            json_object_set_new(item, "md5_hash", json_string(md5_shown));
        json_object_set_new(item, "url",
                            json_string(ref->url.cloud ? storage_url_text(a, &ref->url) : word));
        json_array_append_new(list, item);
        return TY_OK;
    }
    printf("Hashes [%s] for " TY_STR_FMT ":\n", o->hex ? "hex" : "base64",
           TY_STR_ARG(ref->url.name));
    if (ref->url.cloud && md5.len > 0)
        printf("\tHash (md5):\t\t%s\n", md5_shown);
    if (crc32c.len > 0)
        printf("\tHash (crc32c):\t\t%s\n", crc_shown);
    if (!ref->url.cloud && md5.len > 0)
        printf("\tHash (md5):\t\t%s\n", md5_shown);
    return TY_OK;
}

int storage_hash(struct storage *s, const struct storage_options *o, char **words, int count)
{
    struct storage_conn c;
    json_t *list = json_array();
    int files = 0;
    int64_t bytes = 0;
    ty_err err = storage_conn_open(&c, s);
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_refs refs = {.arena = s->arena};
        err = objects_of(&c, o, words[i], &refs);
        if (err == TY_NOT_FOUND && s->style == STORAGE_GSUTIL && !c.bucket_missing)
            err = ty_fail(TY_NOT_FOUND, "CommandException: No files matched");
        else if (err == TY_NOT_FOUND && !c.bucket_missing) {
            fprintf(stderr, "WARNING: No matches found for %s\n", words[i]);
            err = ty_fail(TY_NOT_FOUND, "No URLS matched.");
        }
        for (size_t k = 0; k < refs.count && err == TY_OK; k++)
            err = hash_show(&c, o, &refs.items[k], ty_cstr(s->arena, refs.items[k].url.name), list);
        for (size_t k = 0; k < refs.count && s->style == STORAGE_GSUTIL; k++) {
            files += !refs.items[k].url.cloud;
            bytes += refs.items[k].url.cloud ? 0 : refs.items[k].size;
        }
    }
    int status = STORAGE_OK;
    if (err == TY_OK && files > 0)
        storage_note(s, "\nOperation completed over %d objects/%s.\n", files,
                     storage_tenth(s->arena, bytes));
    if (json_array_size(list) > 0)
        status = storage_print_value(s, list);
    if (err != TY_OK)
        status = storage_say_error(&c, s->command, err);
    json_decref(list);
    storage_conn_close(&c);
    return status;
}

/* ---- stat and describe ---- */

int storage_stat(struct storage *s, const struct storage_options *o, char **words, int count)
{
    struct storage_conn c;
    int status = STORAGE_OK;
    ty_err err = storage_conn_open(&c, s);
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_refs refs = {.arena = s->arena};
        struct storage_url url;
        err = storage_url_parse(ty_str_of(words[i]), s->style, &url);
        if (err == TY_OK && url.name.len == 0)
            err = storage_fail(s, TY_INVALID_ARGUMENT,
                               "The stat command only works with object URLs");
        if (err == TY_OK)
            err = objects_of(&c, o, words[i], &refs);
        if (err == TY_NOT_FOUND && !c.bucket_missing) { /* said, and the others are looked at */
            storage_note(s, "No URLs matched: %s\n", words[i]);
            status = STORAGE_FAILED;
            err = TY_OK;
        }
        for (size_t k = 0; k < refs.count && err == TY_OK && !s->quiet; k++) {
            json_t *json = object_fetch(&c, &refs.items[k].url, &err);
            if (err == TY_OK)
                storage_object_full(s, json, storage_url_text(s->arena, &refs.items[k].url), false);
            json_decref(json);
        }
    }
    if (err != TY_OK)
        status = storage_say_error(&c, s->command, err);
    storage_conn_close(&c);
    return status;
}

int storage_objects_describe(struct storage *s, const struct storage_options *o, char **words,
                             int count)
{
    struct storage_conn c;
    struct storage_url url;
    int status = STORAGE_OK;
    json_t *json = NULL;
    (void)o;
    (void)count;
    ty_err err = storage_conn_open(&c, s);
    if (err == TY_OK)
        err = storage_url_parse(ty_str_of(words[0]), s->style, &url);
    if (err == TY_OK && (!url.cloud || url.name.len == 0))
        err = ty_fail(TY_INVALID_ARGUMENT,
                      "\"%s storage %s\" only accepts object URLs.\nExample: "
                      "\"gs://bucket/object.txt\"\nReceived: \"%s\"",
                      s->program, s->command, storage_url_text(s->arena, &url));
    if (err == TY_OK)
        json = object_fetch(&c, &url, &err);
    if (err == TY_NOT_FOUND && !c.bucket_missing)
        err = ty_fail(TY_NOT_FOUND, "%s not found: 404.", words[0]);
    if (err == TY_OK) {
        json_t *described = storage_object_described(s->arena, json);
        status = storage_print_value(s, described);
        json_decref(described);
    } else {
        status = storage_say_error(&c, s->command, err);
    }
    json_decref(json);
    storage_conn_close(&c);
    return status;
}

int storage_objects_list(struct storage *s, const struct storage_options *o, char **words,
                         int count)
{
    struct storage_conn c;
    json_t *list = json_array();
    ty_err err = storage_conn_open(&c, s);
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_url url;
        struct storage_refs refs = {.arena = s->arena};
        err = storage_url_parse(ty_str_of(words[i]), s->style, &url);
        if (err == TY_OK && url.name.len == 0)
            url.name = TY_STR("*");
        if (err == TY_OK)
            err = storage_expand(&c, &url, o->all_versions, &refs);
        for (size_t k = 0; k < refs.count && err == TY_OK; k++) {
            if (refs.items[k].kind != STORAGE_IS_OBJECT)
                continue;
            json_t *json = object_fetch(&c, &refs.items[k].url, &err);
            if (err == TY_OK)
                json_array_append_new(list, storage_object_described(s->arena, json));
            json_decref(json);
        }
    }
    int status =
        err == TY_OK ? storage_print_value(s, list) : storage_say_error(&c, s->command, err);
    if (err == TY_OK && json_array_size(list) == 0)
        fputs("Listed 0 items.\n", stderr);
    json_decref(list);
    storage_conn_close(&c);
    return status;
}

/* ---- setmeta ---- */

static const struct {
    const char *header, *field;
} settable[] = {
    {"cache-control", "cacheControl"},       {"content-disposition", "contentDisposition"},
    {"content-encoding", "contentEncoding"}, {"content-language", "contentLanguage"},
    {"content-type", "contentType"},         {"custom-time", "customTime"},
};

/* "Name:value" sets, "Name" or "Name:" takes away. */
static ty_err patch_add(struct storage *s, json_t *patch, const char *header)
{
    ty_str value = ty_str_of(header), name;
    bool has_value = ty_str_split(&value, ':', &name);
    value = has_value ? ty_str_trim(value) : (ty_str){"", 0};
    json_t *set = value.len > 0 ? json_stringn(value.ptr, value.len) : json_null();
    for (size_t i = 0; i < TY_COUNT(settable); i++)
        if (name.len == strlen(settable[i].header) &&
            strncasecmp(name.ptr, settable[i].header, name.len) == 0) {
            json_object_set_new(patch, settable[i].field, set);
            return TY_OK;
        }
    if (name.len > 12 && strncasecmp(name.ptr, "x-goog-meta-", 12) == 0) {
        json_t *metadata = json_object_get(patch, "metadata");
        if (metadata == NULL) {
            metadata = json_object();
            json_object_set_new(patch, "metadata", metadata);
        }
        json_object_set_new(metadata, ty_cstr(s->arena, ty_str_drop(name, 12)), set);
        return TY_OK;
    }
    json_decref(set);
    return ty_fail(TY_INVALID_ARGUMENT,
                   "CommandException: Invalid or disallowed header (" TY_STR_FMT
                   ").\nOnly these fields (plus x-goog-meta-* fields) can be set or "
                   "unset:\n['cache-control', 'content-disposition', 'content-encoding', "
                   "'content-language', 'content-type', 'custom-time']",
                   TY_STR_ARG(name));
}

struct patching {
    const struct storage_options *o;
    struct storage_refs refs;
    json_t *patch;
};

static ty_err patch_one(struct storage_conn *c, void *arg, size_t index)
{
    struct patching *p = arg;
    struct ty_arena a = {0};
    const struct storage_url *url = &p->refs.items[index].url;
    struct ty_buf b;
    ty_buf_init(&b, 16 * 1024);
    ty_buf_addf(&b, "%s?alt=json", storage_path(&a, url->bucket, url->name));
    storage_conditions_add(&b, p->o);
    storage_note(c->s, "Setting metadata on %s...\n", storage_url_text(&a, url));
    c->bucket = url->bucket;
    ty_err err = storage_call(c, HTTP_PATCH, b.ptr, p->patch, NULL);
    ty_buf_clear(&b);
    ty_arena_clear(&a);
    return err;
}

int storage_setmeta(struct storage *s, const struct storage_options *o, char **words, int count)
{
    struct storage_conn c;
    struct patching p = {.o = o, .refs = {.arena = s->arena}, .patch = json_object()};
    ty_err err = storage_conn_open(&c, s);
    if (err == TY_OK && o->header_count == 0)
        err = storage_fail(s, TY_INVALID_ARGUMENT,
                           s->style == STORAGE_GCLOUD
                               ? "setmeta needs something to set, such as --content-type"
                               : "gsutil setmeta requires one or more headers to be provided with "
                                 "the -h flag. See \"gsutil help setmeta\" for more information.");
    for (size_t i = 0; i < o->header_count && err == TY_OK; i++)
        err = patch_add(s, p.patch, o->headers[i]);
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_url *url = ty_new(s->arena, struct storage_url);
        struct storage_expanded e = {0};
        err = storage_url_parse(ty_str_of(words[i]), s->style, url);
        if (err == TY_OK && (!url->cloud || (url->name.len == 0 && !o->recursive)))
            err = storage_fail(s, TY_INVALID_ARGUMENT, "URL (%s) must name an object", words[i]);
        if (err == TY_OK)
            err = storage_expand_all(&c, url, o, &p.refs, &e);
        if (err == TY_OK && e.added == 0)
            err = storage_fail_unmatched(s, &words[i], 1);
    }
    struct storage_pool pool = {.s = s, .count = p.refs.count, .work = patch_one, .arg = &p};
    if (err == TY_OK)
        err = storage_pool_run(&pool, &c, NULL);
    if (err == TY_OK)
        storage_note(s, "\nOperation completed over %zu objects.\n", p.refs.count);
    int status = err == TY_OK ? STORAGE_OK : storage_say_error(&c, s->command, err);
    json_decref(p.patch);
    storage_conn_close(&c);
    return status;
}

/* ---- compose ---- */

/* What a word stands for; gsutil asks only for names with wildcards, and leaves the others to the
 * server. */
static ty_err components_of(struct storage_conn *c, const struct storage_options *o, char *word,
                            struct storage_refs *refs)
{
    struct storage_ref ref = {.kind = STORAGE_IS_OBJECT};
    if (c->s->style == STORAGE_GCLOUD || storage_has_wildcard(ty_str_of(word)))
        return objects_of(c, o, word, refs);
    ty_err err = storage_url_parse(ty_str_of(word), c->s->style, &ref.url);
    if (err == TY_OK)
        storage_refs_add(refs, &ref);
    return err;
}

static ty_err compose_sources(struct storage_conn *c, const struct storage_options *o, char **words,
                              int count, const struct storage_url *to, json_t *sources,
                              struct storage_refs *refs)
{
    ty_err err = TY_OK;
    for (int i = 0; i < count && err == TY_OK; i++) {
        struct storage_refs some = {.arena = c->s->arena};
        err = components_of(c, o, words[i], &some);
        for (size_t k = 0; k < some.count && err == TY_OK; k++) {
            const struct storage_url *url = &some.items[k].url;
            if (!url->cloud || !ty_str_eq(url->bucket, to->bucket))
                err = storage_fail(c->s, TY_INVALID_ARGUMENT,
                                   "GCS does not support inter-bucket composing.");
            else if (refs->count >= MOST_COMPONENTS)
                err = storage_fail(c->s, TY_INVALID_ARGUMENT,
                                   "\"compose\" called with too many component objects. Limit is "
                                   "%d.",
                                   MOST_COMPONENTS);
            storage_refs_add(refs, &some.items[k]);
            json_t *item = json_object();
            json_object_set_new(item, "name", json_stringn(url->name.ptr, url->name.len));
            if (url->generation.len > 0)
                json_object_set_new(item, "generation",
                                    json_stringn(url->generation.ptr, url->generation.len));
            json_array_append_new(sources, item);
        }
    }
    return err;
}

static ty_err compose_call(struct storage_conn *c, const struct storage_options *o,
                           const struct storage_url *to, const json_t *body, size_t count)
{
    struct storage *s = c->s;
    struct ty_buf b;
    ty_buf_init(&b, 16 * 1024);
    ty_buf_addf(&b, "%s/compose?alt=json", storage_path(s->arena, to->bucket, to->name));
    storage_conditions_add(&b, o);
    storage_note(s, "Composing %s from %zu component object(s).\n", storage_url_text(s->arena, to),
                 count);
    c->bucket = to->bucket;
    ty_err err = storage_call(c, HTTP_POST, b.ptr, body, NULL);
    if (err == TY_NOT_FOUND && s->style == STORAGE_GSUTIL && !c->bucket_missing)
        err = ty_fail(TY_NOT_FOUND, "NotFoundException: One of the source objects does not exist.");
    ty_buf_clear(&b);
    return err;
}

int storage_objects_compose(struct storage *s, const struct storage_options *o, char **words,
                            int count)
{
    struct storage_conn c;
    struct storage_url to = {0};
    struct storage_refs refs = {.arena = s->arena};
    struct storage_object first;
    json_t *body = json_object(), *sources = json_array(), *destination = json_object();
    json_object_set_new(body, "sourceObjects", sources);
    json_object_set_new(body, "destination", destination);
    ty_err err = storage_conn_open(&c, s);
    if (err == TY_OK && count < 2)
        err = storage_fail(s, TY_INVALID_ARGUMENT,
                           "\"compose\" requires at least 1 component object.");
    if (err == TY_OK)
        err = storage_url_parse(ty_str_of(words[count - 1]), s->style, &to);
    if (err == TY_OK && (!to.cloud || to.name.len == 0))
        err = storage_fail(s, TY_INVALID_ARGUMENT, "%s does not name an object", words[count - 1]);
    if (err == TY_OK)
        err = compose_sources(&c, o, words, count - 1, &to, sources, &refs);
    if (err == TY_OK && refs.count > 0) {
        err = storage_object_get(&c, s->arena, &refs.items[0].url, &first);
        if (err == TY_NOT_FOUND && !c.bucket_missing)
            err = ty_fail(err, "NotFoundException: 404 %s does not exist.",
                          storage_url_text(s->arena, &refs.items[0].url));
    }
    if (err == TY_OK && refs.count > 0) {
        ty_str type = first.content_type;
        if (type.len > 0)
            json_object_set_new(destination, "contentType", json_stringn(type.ptr, type.len));
        err = compose_call(&c, o, &to, body, refs.count);
    }
    int status = err == TY_OK ? STORAGE_OK : storage_say_error(&c, s->command, err);
    json_decref(body);
    storage_conn_close(&c);
    return status;
}
