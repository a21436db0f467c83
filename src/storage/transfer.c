/* transfer.c -- one copy, whichever sides its ends are on. */
#include "storage/storage_int.h"

enum { PIECE_BYTES = 256 * 1024 };

static void say_copying(const struct storage *s, const struct storage_options *o,
                        const struct storage_copy *copy, struct ty_arena *a,
                        struct storage_progress *p)
{
    const char *from = storage_url_text(a, &copy->from), *to = storage_url_text(a, &copy->to);
    const char *type = "";
    if (s->style == STORAGE_GCLOUD) {
        storage_progress_say(p, "Copying %s to %s", from, to);
        return;
    }
    if (copy->to.cloud && !copy->from.cloud) {
        const char *known = o->content_type;
        for (size_t i = 0; i < o->header_count; i++)
            if (strncasecmp(o->headers[i], "content-type:", 13) == 0)
                known = ty_cstr(a, ty_str_trim(ty_str_of(o->headers[i] + 13)));
        if (known == NULL)
            known = storage_content_type(copy->from.name);
        if (!copy->from.stream)
            type = ty_format(a, " [Content-Type=%s]", known ? known : "application/octet-stream");
    } else if (copy->to.cloud && copy->object->content_type.len > 0) {
        type =
            ty_format(a, " [Content-Type=" TY_STR_FMT "]", TY_STR_ARG(copy->object->content_type));
    }
    if (copy->from.stream)
        from = "from <STDIN>";
    storage_progress_say(p, "Copying %s%s...", from, type);
}

/* Is there something at the destination already? Its generation is put into *url. */
static bool is_there(struct storage_conn *c, struct ty_arena *a, struct storage_url *url)
{
    struct storage_object object;
    if (!url->cloud)
        return access(ty_cstr(a, url->name), F_OK) == 0;
    if (storage_object_get(c, a, url, &object) != TY_OK)
        return false;
    url->generation = object.generation;
    return true;
}

static void say_skipped(const struct storage *s, const struct storage_url *to, struct ty_arena *a,
                        struct storage_progress *p)
{
    struct storage_url plain = *to;
    plain.generation.len = 0;
    if (s->style == STORAGE_GSUTIL)
        storage_progress_say(p, "Skipping existing item: %s", storage_url_text(a, &plain));
    else
        storage_progress_say(p, "Skipping existing destination item (no-clobber): %s",
                             storage_url_text(a, to));
}

static ty_err rewrite_body(const struct storage_options *o, json_t **ret_body)
{
    json_t *body = NULL;
    if (o->content_type != NULL || o->cache_control != NULL) {
        body = json_object();
        if (o->content_type != NULL)
            json_object_set_new(body, "contentType", json_string(o->content_type));
        if (o->cache_control != NULL)
            json_object_set_new(body, "cacheControl", json_string(o->cache_control));
    }
    *ret_body = body;
    return TY_OK;
}

/* Within the server: asked for again until it says that it is done. */
static ty_err copy_cloud(struct storage_conn *c, struct ty_arena *a,
                         const struct storage_options *o, const struct storage_copy *copy,
                         struct storage_progress *p, ty_str *ret_generation)
{
    json_t *reply = NULL, *body = NULL;
    ty_str token = {"", 0};
    bool done = false;
    ty_err err = rewrite_body(o, &body);
    while (err == TY_OK && !done) {
        struct ty_buf b;
        ty_buf_init(&b, 32 * 1024);
        ty_buf_addf(&b, "%s/rewriteTo/b/", storage_path(a, copy->from.bucket, copy->from.name));
        wire_url_encode(&b, copy->to.bucket);
        ty_buf_addz(&b, "/o/");
        wire_url_encode(&b, copy->to.name);
        ty_buf_addz(&b, "?projection=noAcl");
        if (copy->from.generation.len > 0)
            storage_query_add(&b, "sourceGeneration", copy->from.generation);
        storage_conditions_add(&b, o);
        if (token.len > 0)
            storage_query_add(&b, "rewriteToken", token);
        c->bucket = copy->to.bucket;
        err = storage_call(c, HTTP_POST, b.ptr, body, &reply);
        done = json_is_true(json_object_get(reply, "done"));
        token = ty_str_dup(a, wire_json_get_str(reply, "rewriteToken"));
        *ret_generation =
            ty_str_dup(a, wire_json_get_str(json_object_get(reply, "resource"), "generation"));
        if (err == TY_OK && !done && token.len == 0)
            err = ty_fail(TY_INTERNAL, "the server neither finished a copy nor said how to go on");
        json_decref(reply);
        reply = NULL;
        ty_buf_clear(&b);
    }
    json_decref(body);
    if (err == TY_OK)
        storage_progress_add(p, copy->size);
    return err;
}

static ty_err copy_disk(struct ty_arena *a, const struct storage_copy *copy,
                        struct storage_progress *p)
{
    char *piece = malloc(PIECE_BYTES);
    ty_assert(piece != NULL);
    const char *from = ty_cstr(a, copy->from.name), *to = ty_cstr(a, copy->to.name);
    const char *slash = strrchr(to, '/');
    ty_err err = slash != NULL && slash != to
                     ? ty_mkdirs(ty_cstr(a, (ty_str){to, (size_t)(slash - to)}), 0777)
                     : TY_OK;
    int in = copy->from.stream ? dup(STDIN_FILENO) : open(from, O_RDONLY | O_CLOEXEC);
    int out = err == TY_OK ? open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    ssize_t n = 0;
    if (err == TY_OK && (in < 0 || out < 0))
        err = ty_fail_errno(errno, "cannot open '%s'", in < 0 ? from : to);
    while (err == TY_OK && (n = read(in, piece, PIECE_BYTES)) > 0) {
        err = ty_write_all(out, piece, (size_t)n);
        storage_progress_add(p, n);
    }
    if (err == TY_OK && n < 0)
        err = ty_fail_errno(errno, "cannot read '%s'", from);
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && err == TY_OK)
        err = ty_fail_errno(errno, "cannot write '%s'", to);
    free(piece);
    return err;
}

ty_err storage_copy_run(struct storage_conn *c, const struct storage_options *o,
                        const struct storage_copy *copy, struct storage_progress *p,
                        enum storage_copied *ret_copied)
{
    struct ty_arena a = {0};
    struct storage_url to = copy->to, made = copy->to;
    ty_err err = TY_OK;
    *ret_copied = STORAGE_COPIED;
    if (c->s->style == STORAGE_GCLOUD)
        say_copying(c->s, o, copy, &a, p);
    if (o->no_clobber && is_there(c, &a, &to)) {
        say_skipped(c->s, &to, &a, p);
        *ret_copied = STORAGE_SKIPPED;
        ty_arena_clear(&a);
        return TY_OK;
    }
    c->bucket_missing = STORAGE_THERE;
    if (c->s->style == STORAGE_GSUTIL)
        say_copying(c->s, o, copy, &a, p);
    if (copy->from.cloud && copy->to.cloud)
        err = copy_cloud(c, &a, o, copy, p, &made.generation);
    else if (copy->from.cloud)
        err = storage_download(c, &a, copy, p);
    else if (copy->to.cloud)
        err = storage_upload(c, &a, o, copy, p, &made.generation);
    else
        err = copy_disk(&a, copy, p);
    if (err != TY_OK && c->bucket_missing && copy->to.cloud && c->s->style == STORAGE_GSUTIL)
        err = ty_fail(err,
                      "NotFoundException: 404 The destination bucket gs://" TY_STR_FMT
                      " does not exist or the write to the destination must be restarted",
                      TY_STR_ARG(copy->to.bucket));
    if (err != TY_OK && o->no_clobber && c->status == 412) {
        say_skipped(c->s, &to, &a, p);
        *ret_copied = STORAGE_SKIPPED;
        err = TY_OK;
    }
    if (err == TY_OK && *ret_copied == STORAGE_COPIED) {
        atomic_fetch_add(&p->files_done, 1);
        if (o->print_created)
            storage_progress_say(p, "Created: %s", storage_url_text(&a, &made));
    }
    ty_arena_clear(&a);
    return err;
}
