/* upload.c -- bytes on their way in: media, multipart and resumable uploads, all on one path.
 *
 *   POST ?uploadType=media&name=N       the body is the object
 *   POST ?uploadType=multipart          the object's JSON, then its bytes (multipart.c)
 *   POST ?uploadType=resumable          the JSON; the answer's Location is a session
 *   PUT  ?upload_id=ID                  a chunk (Content-Range), the rest, or a question
 *   DELETE ?upload_id=ID                the session is cancelled: 499
 *
 * The body comes in pieces, each on a worker; nothing is collected but the JSON. A session that was
 * cut off keeps what has come (it is paused when its request ends), so that a client goes on where
 * the wire broke, after a restart of the server too. */
#include "gcs/gcs_int.h"

enum upload_kind { UPLOAD_MEDIA, UPLOAD_MULTIPART, UPLOAD_START, UPLOAD_CHUNK, UPLOAD_QUESTION };

struct upload {
    struct gcs *g;
    struct http_request *req;
    enum upload_kind kind;
    struct objects_upload *sink; /* NULL until there is something to write to */
    bool finished, broken;
    struct object_conditions conditions;
    struct object_settings settings;
    struct declared declared;
    struct ty_buf json; /* multipart: its first part; a start: its body */
    bool has_multipart;
    struct multipart multipart;
    ty_str session;
    struct content_range range;
    bool has_range;
    int64_t received;
};

static void upload_free(void *state)
{
    struct upload *u = state;
    int64_t offset;
    bool cut_off = u->kind == UPLOAD_CHUNK && u->sink && !u->finished && !u->broken;
    if (cut_off && objects_upload_pause(u->sink, &offset) != TY_OK)
        log_warn("gcs.pause_failed", "session=" TY_STR_FMT " error='%s'", TY_STR_ARG(u->session),
                 ty_err_message());
    objects_upload_free(u->sink);
    if (u->has_multipart)
        multipart_clear(&u->multipart);
    ty_buf_clear(&u->json);
}

/* ---- the object it becomes ---- */

/* Lay the JSON over what the query and headers said; begin the object or the session. */
static ty_err target_make(struct upload *u, ty_str content_type, struct object_target *ret_target)
{
    struct http_request *req = u->req;
    json_t *in = NULL;
    ty_str name = http_query(req, "name");
    ty_err err = body_parse(ty_buf_str(&u->json), &in);
    if (err == TY_OK && in)
        err = settings_apply(req->arena, in, &u->settings);
    if (err == TY_OK && in)
        err = declared_from_json(req->arena, in, &u->declared);
    if (err == TY_OK && name.len == 0)
        name = ty_str_dup(req->arena, wire_json_get_str(in, "name"));
    json_decref(in);
    if (err == TY_OK && name.len == 0)
        err = ty_fail(TY_INVALID_ARGUMENT, "name: is required, in the query or the object's JSON");
    if (u->settings.content_type.len == 0)
        u->settings.content_type = ty_str_dup(req->arena, content_type);
    if (u->settings.content_encoding.len == 0)
        u->settings.content_encoding = http_query(req, "contentEncoding");
    if (err == TY_OK)
        err = change_check(u->g, req, req->capture[0], name);
    *ret_target = (struct object_target){req->capture[0], name, &u->conditions, &u->settings};
    return err;
}

static void expect(struct upload *u)
{
    objects_upload_expect(u->sink, u->declared.given & DECLARED_MD5 ? u->declared.md5 : NULL,
                          u->declared.given & DECLARED_CRC32C ? &u->declared.crc32c : NULL);
}

static ty_err begin(struct upload *u, ty_str content_type)
{
    struct object_target target;
    ty_err err = target_make(u, content_type, &target);
    if (err == TY_OK)
        err = objects_upload_begin(u->g->objects, &target, &u->sink);
    return err;
}

/* ---- multipart ---- */

static ty_err multipart_part(void *arg, size_t index, ty_str headers)
{
    struct upload *u = arg;
    if (index == 0)
        return TY_OK;
    if (index > 1)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "multipart body: there are more than two parts, metadata and data");
    return begin(u, part_header(headers, "Content-Type"));
}

static ty_err json_add(struct upload *u, ty_str bytes)
{
    ty_buf_adds(&u->json, bytes);
    return ty_buf_check(&u->json, "the object's JSON") == TY_OK
               ? TY_OK
               : ty_fail(TY_INVALID_ARGUMENT, "the object's JSON is larger than %d bytes",
                         GCS_METADATA_BYTES);
}

static ty_err multipart_data(void *arg, size_t index, ty_str bytes)
{
    struct upload *u = arg;
    return index == 0 ? json_add(u, bytes) : objects_upload_write(u->sink, bytes.ptr, bytes.len);
}

static ty_err multipart_open(struct upload *u)
{
    static const struct multipart_events events = {multipart_part, multipart_data};
    ty_err err = multipart_init(&u->multipart, u->req->content_type, &events, u);
    u->has_multipart = err == TY_OK;
    return err;
}

/* ---- a session's chunk ---- */

/* *ret_offset: what a question is answered with; the whole size when it is done. */
static ty_err session_show(struct upload *u, struct objects_session *ret_session)
{
    ty_err err = objects_session_get(u->g->objects, u->req->arena, u->session, ret_session);
    if (err == TY_OK && !ty_str_eq(ret_session->bucket, u->req->capture[0]))
        err = ty_fail(TY_NOT_FOUND, "upload_id: the session is of another bucket");
    return err;
}

static ty_err chunk_open(struct upload *u)
{
    struct http_request *req = u->req;
    struct objects_session session;
    ty_str header = http_header(req, "Content-Range"), length = http_header(req, "Content-Length");
    u->session = http_query(req, "upload_id");
    u->range = (struct content_range){0, -1, -1};
    u->has_range = header.len > 0;
    ty_err err = u->has_range ? content_range_parse(header, &u->range) : TY_OK;
    if (err == TY_OK && !u->has_range && length.len > 0)
        err = ty_parse_i64(length, &u->range.total);
    if (err == TY_OK)
        err = session_show(u, &session);
    if (err != TY_OK)
        return err;
    if (session.done || u->range.first < 0) {
        u->kind = UPLOAD_QUESTION;
        return TY_OK;
    }
    err = change_check(u->g, req, session.bucket, session.name);
    if (err == TY_OK)
        err = objects_session_resume(u->g->objects, u->session, u->range.first, u->range.total,
                                     &u->sink);
    if (err == TY_ABORTED) /* most likely the connection that was cut, not yet noticed */
        return ty_fail(TY_UNAVAILABLE, "%s", ty_err_message());
    return err;
}

static ty_err chunk_write(struct upload *u, ty_str bytes)
{
    int64_t most = u->has_range ? u->range.last - u->range.first + 1 : OBJECTS_OBJECT_BYTES;
    u->received += (int64_t)bytes.len;
    if (u->received > most)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "Content-Range names %" PRId64 " bytes, and the body has more", most);
    return objects_upload_write(u->sink, bytes.ptr, bytes.len);
}

/* ---- opening ---- */

static ty_err kind_of(struct http_request *req, enum upload_kind *ret_kind)
{
    ty_str type = http_query(req, "uploadType");
    if (http_query(req, "upload_id").len > 0)
        *ret_kind = UPLOAD_CHUNK;
    else if (ty_str_is(type, "media"))
        *ret_kind = UPLOAD_MEDIA;
    else if (ty_str_is(type, "multipart"))
        *ret_kind = UPLOAD_MULTIPART;
    else if (ty_str_is(type, "resumable"))
        *ret_kind = UPLOAD_START;
    else
        return ty_fail(TY_INVALID_ARGUMENT,
                       "uploadType: must be media, multipart or resumable, or upload_id be given");
    return TY_OK;
}

static ty_err upload_open(struct http_request *req, struct gcs *g, struct upload **ret_upload)
{
    struct upload *u = ty_new(req->arena, struct upload);
    u->g = g;
    u->req = req;
    ty_buf_init(&u->json, GCS_METADATA_BYTES);
    req->state = u;
    req->state_end = upload_free;
    *ret_upload = u;
    ty_err err = kind_of(req, &u->kind);
    if (err == TY_OK && req->method == HTTP_PUT && u->kind != UPLOAD_CHUNK)
        err = ty_fail(TY_INVALID_ARGUMENT, "upload_id: is required: which session a PUT is for");
    if (err == TY_OK)
        err = encryption_refuse(req);
    if (err == TY_OK)
        err = conditions_parse(req, "", &u->conditions);
    if (err == TY_OK)
        err = declared_from_headers(req, &u->declared);
    if (err != TY_OK)
        return err;
    switch (u->kind) {
    case UPLOAD_MEDIA:
        return begin(u, req->content_type);
    case UPLOAD_MULTIPART:
        return multipart_open(u);
    case UPLOAD_CHUNK:
        return chunk_open(u);
    default:
        return TY_OK;
    }
}

static ty_err upload_write(struct upload *u, ty_str bytes)
{
    switch (u->kind) {
    case UPLOAD_MEDIA:
        return objects_upload_write(u->sink, bytes.ptr, bytes.len);
    case UPLOAD_MULTIPART:
        return multipart_feed(&u->multipart, bytes);
    case UPLOAD_START:
        return json_add(u, bytes);
    case UPLOAD_CHUNK:
        return chunk_write(u, bytes);
    case UPLOAD_QUESTION:
        break; /* bytes of a session that is done: the client sends them again */
    }
    return TY_OK;
}

ty_err upload_body(struct http_request *req, struct http_response *res, void *ctx)
{
    struct upload *u = req->state;
    ty_err err = u ? TY_OK : upload_open(req, ctx, &u);
    if (err == TY_OK)
        err = upload_write(u, req->body);
    u->broken = err != TY_OK;
    return answer_with(req, res, err);
}

/* ---- the end ---- */

static ty_err answer_session(struct upload *u, struct http_response *res, int64_t offset)
{
    res->status = 308;
    res->content_type = "text/plain";
    if (offset > 0)
        http_header_add(u->req, res, "Range",
                        ty_str_of(ty_format(u->req->arena, "bytes=0-%" PRId64, offset - 1)));
    http_header_add(u->req, res, "X-GUploader-UploadID", u->session);
    return TY_OK;
}

static ty_err finish(struct upload *u, struct http_response *res)
{
    struct object object;
    if (u->kind != UPLOAD_CHUNK || u->declared.given)
        expect(u);
    ty_err err = objects_upload_finish(u->sink, u->req->arena, &object);
    u->finished = true; /* or failed: there is nothing to pause */
    if (err == TY_OK)
        object_json(&res->body, link_base(u->req), &object);
    return err;
}

static ty_err chunk_end(struct upload *u, struct http_response *res)
{
    int64_t offset = objects_upload_offset(u->sink), want = u->range.last - u->range.first + 1;
    if (u->has_range && u->received != want)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "Content-Range names %" PRId64 " bytes, and the body has %" PRId64, want,
                       u->received);
    if (!u->has_range || offset == u->range.total)
        return finish(u, res);
    ty_err err = objects_upload_pause(u->sink, &offset);
    u->finished = true;
    return err == TY_OK ? answer_session(u, res, offset) : err;
}

static ty_err start_end(struct upload *u, struct http_response *res)
{
    struct http_request *req = u->req;
    char id[OBJECTS_SESSION_BYTES];
    struct object_target target;
    int64_t size = -1;
    ty_str length = http_header(req, "X-Upload-Content-Length");
    ty_err err = target_make(u, http_header(req, "X-Upload-Content-Type"), &target);
    if (err == TY_OK && length.len > 0 && (ty_parse_i64(length, &size) != TY_OK || size < 0))
        err = ty_fail(TY_INVALID_ARGUMENT, "X-Upload-Content-Length: '%.*s' is no size",
                      length.len > 64 ? 64 : (int)length.len, length.ptr);
    if (err == TY_OK)
        err = objects_session_create(
            u->g->objects, &target, size, u->declared.given & DECLARED_MD5 ? u->declared.md5 : NULL,
            u->declared.given & DECLARED_CRC32C ? &u->declared.crc32c : NULL, id);
    if (err != TY_OK)
        return err;
    http_header_add(
        req, res, "Location",
        ty_str_of(ty_format(req->arena, "%s" TY_STR_FMT "?uploadType=resumable&upload_id=%s",
                            link_base(req), TY_STR_ARG(req->path), id)));
    http_header_add(req, res, "X-GUploader-UploadID", ty_str_of(id));
    return TY_OK;
}

static ty_err question_end(struct upload *u, struct http_response *res)
{
    struct objects_session session;
    ty_err err = session_show(u, &session);
    if (err != TY_OK)
        return err;
    if (!session.done)
        return answer_session(u, res, session.offset);
    object_json(&res->body, link_base(u->req), &session.object);
    return TY_OK;
}

static ty_err multipart_finish(struct upload *u, struct http_response *res)
{
    ty_err err = multipart_end(&u->multipart);
    if (err == TY_OK && !u->sink)
        err = ty_fail(TY_INVALID_ARGUMENT,
                      "multipart body: the second part, the object's bytes, is missing");
    return err == TY_OK ? finish(u, res) : err;
}

ty_err upload_end(struct http_request *req, struct http_response *res, void *ctx)
{
    static ty_err (*const ends[])(struct upload *, struct http_response *) = {
        [UPLOAD_MEDIA] = finish,          [UPLOAD_MULTIPART] = multipart_finish,
        [UPLOAD_START] = start_end,       [UPLOAD_CHUNK] = chunk_end,
        [UPLOAD_QUESTION] = question_end,
    };
    struct upload *u = req->state;
    ty_err err = u ? TY_OK : upload_open(req, ctx, &u);
    if (err == TY_OK)
        err = ends[u->kind](u, res);
    u->broken = err != TY_OK;
    return answer_with(req, res, err);
}

ty_err upload_cancel(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    ty_str id = http_query(req, "upload_id");
    ty_err err = id.len > 0 ? objects_session_cancel(g->objects, id)
                            : ty_fail(TY_INVALID_ARGUMENT, "upload_id: is required");
    res->status = 499;
    res->content_type = "text/plain";
    return answer_with(req, res, err);
}
