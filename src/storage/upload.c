/* upload.c -- a file, or standard input, to an object.
 *
 * Small ones go in one request with their metadata. From 8 MiB on, and when the size is not known,
 * an upload is a session at the server: what has arrived there can be asked for, and sending goes
 * on from that byte after a cut connection or a server that was started anew. The session is
 * written down (state_dir/uploads), so that the same command goes on where an interrupted one
 * stopped, if the file is still the same; one that nobody can go on with is cancelled, because its
 * bytes would stay at the server for days. Hashes are made from the bytes as they are sent; what
 * the server says it has must equal them, or the object is removed again. */
#include "storage/storage_int.h"

#include <zlib.h>

enum {
    STREAM_BYTES = 8 * 1024 * 1024, /* of standard input, held to be sent again */
    TRIES = 8,
    FIRST_PAUSE_MS = 100,
    ZIP_BYTES = 128 * 1024,
    TRACKER_BYTES = 8192,
};

struct upload {
    struct storage_conn *conn;
    struct ty_arena *arena;
    const struct storage_options *o;
    const struct storage_copy *copy;
    struct storage_progress *progress;
    int fd;
    int64_t size;
    bool zipped;
    const char *content_type;
    const char *tracker; /* NULL: not resumable by another run */
    const char *version; /* what the file is, in the tracker's second line */
    struct storage_digest digest;
    ty_str head, tail; /* around the file in a multipart body */
    int64_t hashed;    /* bytes of the file that are in the digest */
    ty_str generation; /* of the new object */
};

/* ---- what is sent ---- */

/* Bytes of the file at the descriptor's place. */
static ty_err file_read(struct upload *u, char *buf, size_t max, size_t *ret_len)
{
    ssize_t n;
    if (storage_interrupted())
        return ty_fail(TY_CANCELLED, "interrupted");
    do
        n = read(u->fd, buf, max);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return ty_fail_errno(errno, "cannot read '" TY_STR_FMT "'", TY_STR_ARG(u->copy->from.name));
    if (n == 0 && u->hashed < u->size)
        return ty_fail(TY_ABORTED, "'" TY_STR_FMT "' became shorter while it was sent",
                       TY_STR_ARG(u->copy->from.name));
    storage_digest_add(&u->digest, (ty_str){buf, (size_t)n});
    u->hashed += n;
    storage_progress_add(u->progress, n);
    *ret_len = (size_t)n;
    return TY_OK;
}

/* head, file, tail */
static ty_err multipart_read(void *arg, char *buf, size_t max, size_t *ret_len)
{
    struct upload *u = arg;
    ty_str *part = u->head.len > 0 ? &u->head : &u->tail;
    if (u->head.len == 0 && u->hashed < u->size) {
        int64_t left = u->size - u->hashed;
        return file_read(u, buf, (int64_t)max > left ? (size_t)left : max, ret_len);
    }
    *ret_len = part->len < max ? part->len : max;
    memcpy(buf, part->ptr, *ret_len);
    *part = ty_str_drop(*part, *ret_len);
    return TY_OK;
}

static ty_err plain_read(void *arg, char *buf, size_t max, size_t *ret_len)
{
    return file_read(arg, buf, max, ret_len);
}

/* ---- metadata ---- */

static void set_header(json_t *object, const char *header)
{
    static const struct {
        const char *header, *field;
    } fields[] = {
        {"content-type", "contentType"},         {"cache-control", "cacheControl"},
        {"content-encoding", "contentEncoding"}, {"content-disposition", "contentDisposition"},
        {"content-language", "contentLanguage"},
    };
    ty_str value = ty_str_of(header), name;
    if (!ty_str_split(&value, ':', &name))
        return;
    value = ty_str_trim(value);
    for (size_t i = 0; i < TY_COUNT(fields); i++)
        if (name.len == strlen(fields[i].header) &&
            strncasecmp(name.ptr, fields[i].header, name.len) == 0)
            json_object_set_new(object, fields[i].field, json_stringn(value.ptr, value.len));
    if (name.len > 12 && strncasecmp(name.ptr, "x-goog-meta-", 12) == 0) {
        json_t *metadata = json_object_get(object, "metadata");
        if (metadata == NULL) {
            metadata = json_object();
            json_object_set_new(object, "metadata", metadata);
        }
        char key[STORAGE_NAME_BYTES];
        snprintf(key, sizeof(key), TY_STR_FMT, TY_STR_ARG(ty_str_drop(name, 12)));
        json_object_set_new(metadata, key, json_stringn(value.ptr, value.len));
    }
}

static json_t *metadata_make(struct upload *u)
{
    json_t *object = json_object();
    const struct storage_url *to = &u->copy->to;
    json_object_set_new(object, "name", json_stringn(to->name.ptr, to->name.len));
    json_object_set_new(object, "contentType", json_string(u->content_type));
    if (u->zipped) {
        json_object_set_new(object, "contentEncoding", json_string("gzip"));
        json_object_set_new(object, "cacheControl", json_string("no-transform"));
    }
    if (u->o->storage_class != NULL)
        json_object_set_new(object, "storageClass",
                            json_string(storage_class_text(u->arena, u->o->storage_class, true)));
    if (u->o->cache_control != NULL)
        json_object_set_new(object, "cacheControl", json_string(u->o->cache_control));
    if (u->o->content_encoding != NULL)
        json_object_set_new(object, "contentEncoding", json_string(u->o->content_encoding));
    for (size_t i = 0; i < u->o->header_count; i++)
        set_header(object, u->o->headers[i]);
    if (u->copy->mtime > 0) {
        json_t *metadata = json_object_get(object, "metadata");
        if (metadata == NULL) {
            metadata = json_object();
            json_object_set_new(object, "metadata", metadata);
        }
        json_object_set_new(metadata, "goog-reserved-file-mtime",
                            json_string(ty_format(u->arena, "%" PRId64, u->copy->mtime)));
    }
    return object;
}

static ty_str metadata_text(struct upload *u)
{
    struct ty_buf b;
    json_t *object = metadata_make(u);
    ty_buf_init(&b, 1 << 20);
    wire_json_dump(&b, object);
    json_decref(object);
    ty_str text = ty_str_dup(u->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

static const char *upload_target(struct upload *u, const char *kind)
{
    struct ty_buf b;
    ty_buf_init(&b, 8192);
    ty_buf_addz(&b, "/upload/storage/v1/b/");
    wire_url_encode(&b, u->copy->to.bucket);
    ty_buf_addf(&b, "/o?uploadType=%s", kind);
    storage_query_add(&b, "name", u->copy->to.name);
    storage_conditions_add(&b, u->o);
    const char *target = ty_cstr(u->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    return target;
}

/* ---- the end of one ---- */

/* What the server has is what was sent, or it must go. */
static ty_err upload_verify(struct upload *u, const struct http_reply *reply)
{
    json_t *json = NULL;
    struct storage_object object;
    struct storage_hashes hashes;
    if (wire_json_parse(reply->body, &json) != TY_OK)
        return ty_wrap(TY_INTERNAL, "the answer to an upload is not JSON");
    storage_object_from(json, &object);
    storage_digest_end(&u->digest, &hashes);
    const char *what = storage_url_text(u->arena, &u->copy->to);
    ty_err err = storage_hashes_check(&hashes, object.md5, object.crc32c, what);
    u->generation = ty_str_dup(u->arena, object.generation);
    if (err != TY_OK) {
        struct storage_url wrong = u->copy->to;
        char *message = ty_err_take();
        wrong.generation = object.generation;
        bool gone = storage_object_delete(u->conn, NULL, &wrong) == TY_OK;
        err = ty_fail(TY_DATA_LOSS, "%s; %s", message,
                      gone ? "it was removed again" : "it could not be removed");
        free(message);
    }
    json_decref(json);
    return err;
}

/* Waiting does not help there: somebody has to free space. */
static bool says_disk_is_full(const struct http_reply *reply)
{
    static const char *const words[] = {"disk full", "No space left on device",
                                        "Disk quota exceeded"};
    for (size_t i = 0; reply->status == 429 && i < TY_COUNT(words); i++)
        if (memmem(reply->body.ptr, reply->body.len, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

static bool is_worth_another(ty_err err, const struct http_reply *reply)
{
    return err == TY_UNAVAILABLE || err == TY_DEADLINE_EXCEEDED ||
           (err == TY_OK && !says_disk_is_full(reply) &&
            (reply->status >= 500 || reply->status == 408 || reply->status == 429));
}

static void pause_before(int attempt)
{
    int64_t ms = FIRST_PAUSE_MS << (attempt < 6 ? attempt : 6);
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}

/* Put the descriptor and the digest at the beginning. */
static ty_err rewind_file(struct upload *u)
{
    if (lseek(u->fd, 0, SEEK_SET) < 0)
        return ty_fail_errno(errno, "cannot go back in '" TY_STR_FMT "'",
                             TY_STR_ARG(u->copy->from.name));
    storage_progress_add(u->progress, -u->hashed);
    u->hashed = 0;
    storage_digest_init(&u->digest);
    return TY_OK;
}

static ty_err multipart_send(struct upload *u, struct http_reply *ret_reply)
{
    unsigned char random[12];
    char boundary[32] = "===";
    ty_random(random, sizeof(random));
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(boundary + 3 + 2 * i, 3, "%02x", random[i]);
    ty_str metadata = metadata_text(u);
    u->head = ty_str_of(
        ty_format(u->arena,
                  "--%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n" TY_STR_FMT
                  "\r\n--%s\r\nContent-Type: %s\r\n\r\n",
                  boundary, TY_STR_ARG(metadata), boundary, u->content_type));
    u->tail = ty_str_of(ty_format(u->arena, "\r\n--%s--\r\n", boundary));
    struct http_exchange x = {
        .method = HTTP_POST,
        .target = upload_target(u, "multipart"),
        .headers =
            ty_format(u->arena, "Content-Type: multipart/related; boundary=\"%s\"\r\n", boundary),
        .read = multipart_read,
        .body_bytes = (int64_t)u->head.len + u->size + (int64_t)u->tail.len,
        .arg = u,
        .idle_ms = STORAGE_IDLE_MS};
    ty_err err = http_client_exchange(&u->conn->client, u->arena, &x, ret_reply);
    u->conn->status = err == TY_OK ? ret_reply->status : 0;
    return err;
}

/* In one request; again when the server was started anew in the meantime. */
static ty_err upload_multipart(struct upload *u)
{
    struct http_reply reply = {0};
    ty_err err = multipart_send(u, &reply);
    bool waits = atomic_load(&u->conn->s->answered);
    for (int i = 0; i < TRIES && waits && is_worth_another(err, &reply); i++) {
        pause_before(i);
        err = rewind_file(u);
        if (err == TY_OK)
            err = multipart_send(u, &reply);
    }
    if (err != TY_OK)
        return err;
    atomic_store(&u->conn->s->answered, true);
    return reply.status >= 300 ? storage_fail_api(u->conn, &reply) : upload_verify(u, &reply);
}

/* ---- sessions ---- */

/* "http://127.0.0.1:7575/upload/...": the part behind the host. */
static const char *session_target(struct ty_arena *a, ty_str location)
{
    const char *slashes = memmem(location.ptr, location.len, "://", 3);
    if (slashes == NULL)
        return ty_cstr(a, location);
    ty_str rest = ty_str_drop(location, (size_t)(slashes - location.ptr) + 3), host;
    ty_str_split(&rest, '/', &host);
    return ty_format(a, "/" TY_STR_FMT, TY_STR_ARG(rest));
}

static ty_err session_start(struct upload *u, const char **ret_session)
{
    struct http_reply reply;
    const char *length =
        u->size >= 0 ? ty_format(u->arena, "X-Upload-Content-Length: %" PRId64 "\r\n", u->size)
                     : "";
    struct http_exchange x = {.method = HTTP_POST,
                              .target = upload_target(u, "resumable"),
                              .headers =
                                  ty_format(u->arena,
                                            "Content-Type: application/json; charset=UTF-8\r\n"
                                            "X-Upload-Content-Type: %s\r\n%s",
                                            u->content_type, length),
                              .body = metadata_text(u),
                              .idle_ms = STORAGE_CALL_MS};
    u->conn->status = 0;
    ty_err err = http_client_exchange(&u->conn->client, u->arena, &x, &reply);
    if (err != TY_OK)
        return err;
    u->conn->status = reply.status;
    if (reply.status >= 300)
        return storage_fail_api(u->conn, &reply);
    ty_str location = http_reply_header(&reply, "Location");
    if (location.len == 0)
        return ty_fail(TY_INTERNAL, "the server began an upload without saying where");
    *ret_session = session_target(u->arena, location);
    if (u->tracker != NULL &&
        ty_file_replace(AT_FDCWD, u->tracker,
                        ty_str_of(ty_format(u->arena, "%s\n%s\n", *ret_session, u->version)),
                        0600) != TY_OK)
        u->tracker = NULL; /* then another run begins anew */
    return TY_OK;
}

/* How far the server is, from a 308's "Range: bytes=0-N". */
static int64_t received_of(const struct http_reply *reply)
{
    int64_t last;
    ty_str range = http_reply_header(reply, "Range"), head;
    if (!ty_str_split(&range, '-', &head) || ty_parse_i64(range, &last) != TY_OK || last < 0)
        return 0;
    return last + 1;
}

/* Ask how far it is. *ret_reply.status: 308 with *ret_received, 200 when it is done already. */
static ty_err session_ask(struct upload *u, const char *session, struct http_reply *ret_reply,
                          int64_t *ret_received)
{
    struct http_exchange x = {
        .method = HTTP_PUT,
        .target = session,
        .headers = u->size >= 0
                       ? ty_format(u->arena, "Content-Range: bytes */%" PRId64 "\r\n", u->size)
                       : "Content-Range: bytes */*\r\n",
        .idle_ms = STORAGE_CALL_MS};
    ty_err err = http_client_exchange(&u->conn->client, u->arena, &x, ret_reply);
    if (err == TY_OK)
        *ret_received = received_of(ret_reply);
    return err;
}

/* Put the descriptor and the digest at `offset`. */
static ty_err seek_to(struct upload *u, int64_t offset)
{
    char piece[64 * 1024];
    ty_err err = rewind_file(u);
    if (err != TY_OK)
        return err;
    while (u->hashed < offset) {
        int64_t left = offset - u->hashed;
        size_t n = 0;
        err = file_read(u, piece, left < (int64_t)sizeof(piece) ? (size_t)left : sizeof(piece), &n);
        if (err != TY_OK)
            return err;
    }
    return TY_OK;
}

/* Send all from `offset` on. */
static ty_err session_send(struct upload *u, const char *session, int64_t offset,
                           struct http_reply *ret_reply)
{
    ty_err err = seek_to(u, offset);
    if (err != TY_OK)
        return err;
    struct http_exchange x = {.method = HTTP_PUT,
                              .target = session,
                              .headers = ty_format(u->arena,
                                                   "Content-Range: bytes %" PRId64 "-%" PRId64
                                                   "/%" PRId64 "\r\n",
                                                   offset, u->size - 1, u->size),
                              .read = plain_read,
                              .body_bytes = u->size - offset,
                              .arg = u,
                              .idle_ms = STORAGE_IDLE_MS};
    return http_client_exchange(&u->conn->client, u->arena, &x, ret_reply);
}

/* Its bytes go at once. Whatever comes of it: a server that cannot answer forgets it by itself. */
static void session_cancel(struct upload *u, const char *session)
{
    struct http_exchange x = {
        .method = HTTP_DELETE, .target = session, .headers = "", .idle_ms = STORAGE_CALL_MS};
    struct http_reply reply;
    (void)!http_client_exchange(&u->conn->client, u->arena, &x, &reply);
}

/* The session another run left, if the server still has it and the file is the same. */
static const char *session_remembered(struct upload *u, int64_t *ret_received)
{
    ty_str text, first;
    struct http_reply reply;
    if (u->tracker == NULL ||
        ty_file_read(AT_FDCWD, u->tracker, TRACKER_BYTES, u->arena, &text) != TY_OK ||
        text.len == 0 || text.ptr[0] != '/')
        return NULL;
    ty_str_split(&text, '\n', &first);
    const char *session = ty_cstr(u->arena, first);
    if (!ty_str_is(ty_str_trim(text), u->version)) {
        session_cancel(u, session);
        return NULL;
    }
    ty_err err = session_ask(u, session, &reply, ret_received);
    /* The server may still have the connection of the run that was cut. */
    for (int attempt = 0; attempt < TRIES && is_worth_another(err, &reply); attempt++) {
        pause_before(attempt);
        err = session_ask(u, session, &reply, ret_received);
    }
    return err == TY_OK && reply.status == 308 && *ret_received <= u->size ? session : NULL;
}

/* Send until it is whole; after a failure ask where to go on. *ret_lost: the session is gone. */
static ty_err session_run(struct upload *u, const char *session, int64_t offset, bool *ret_lost)
{
    struct http_reply reply = {0};
    ty_err err = TY_OK;
    for (int attempt = 0;; attempt++) {
        err = session_send(u, session, offset, &reply);
        u->conn->status = err == TY_OK ? reply.status : 0;
        if (err == TY_OK && (reply.status == 200 || reply.status == 201))
            return upload_verify(u, &reply);
        *ret_lost = err == TY_OK && (reply.status == 404 || reply.status == 410);
        if (err == TY_OK && reply.status == 308) {
            int64_t received = received_of(&reply);
            attempt = received > offset ? 0 : attempt;
            offset = received;
        } else if (!is_worth_another(err, &reply)) {
            return err == TY_OK ? storage_fail_api(u->conn, &reply) : err;
        }
        for (; attempt < TRIES; attempt++) {
            pause_before(attempt);
            int64_t received = 0;
            err = session_ask(u, session, &reply, &received);
            u->conn->status = err == TY_OK ? reply.status : 0;
            if (err == TY_OK && reply.status == 308) {
                attempt = received > offset ? 0 : attempt;
                offset = received;
                break;
            }
            if (err == TY_OK && (reply.status == 200 || reply.status == 201)) {
                err = seek_to(u, u->size);
                return err == TY_OK ? upload_verify(u, &reply) : err;
            }
            if (!is_worth_another(err, &reply))
                return err == TY_OK ? storage_fail_api(u->conn, &reply) : err;
        }
        if (attempt >= TRIES)
            return err == TY_OK ? storage_fail_api(u->conn, &reply) : err;
    }
}

/* Returns err. What another run can go on with stays: after a full disk as well, for which space is
 * being made. */
static ty_err session_end(struct upload *u, const char *session, ty_err err)
{
    bool silent = err == TY_UNAVAILABLE || err == TY_DEADLINE_EXCEEDED;
    if (u->tracker != NULL && (silent || err == TY_CANCELLED || u->conn->status == 429))
        return err;
    if (u->tracker != NULL)
        unlink(u->tracker);
    if (err != TY_OK && !silent && session != NULL) {
        char *message = ty_err_take();
        session_cancel(u, session);
        err = ty_fail(err, "%s", message);
        free(message);
    }
    return err;
}

static ty_err upload_resumable(struct upload *u)
{
    int64_t offset = 0;
    bool lost = false;
    const char *session = session_remembered(u, &offset);
    ty_err err = TY_OK;
    if (session != NULL && u->conn->s->style == STORAGE_GSUTIL)
        storage_progress_say(u->progress, "Resuming upload for " TY_STR_FMT,
                             TY_STR_ARG(u->copy->from.name));
    for (int begun = 0; begun < 2; begun++) {
        if (session == NULL) {
            offset = 0;
            err = session_start(u, &session);
        }
        if (err == TY_OK)
            err = session_run(u, session, offset, &lost);
        if (!lost)
            break;
        session = NULL;
    }
    return session_end(u, session, err);
}

/* ---- standard input ---- */

/* Fill up to one byte past a piece: what is behind a whole one tells whether it is the last. */
static ty_err stream_fill(struct upload *u, char *buf, size_t *len)
{
    size_t n = 1;
    while (*len < STREAM_BYTES + 1 && n > 0) {
        ty_err err = file_read(u, buf + *len, STREAM_BYTES + 1 - *len, &n);
        if (err != TY_OK)
            return err;
        *len += n;
    }
    return TY_OK;
}

/* One piece, until the server has all of it. */
static ty_err stream_send(struct upload *u, const char *session, ty_str piece, int64_t offset,
                          bool last, struct http_reply *ret_reply)
{
    int64_t end = offset + (int64_t)piece.len, from = offset;
    ty_err err = TY_OK;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        ty_str rest = ty_str_drop(piece, (size_t)(from - offset));
        const char *total = last ? ty_format(u->arena, "%" PRId64, end) : "*";
        struct http_exchange x = {
            .method = HTTP_PUT, .target = session, .body = rest, .idle_ms = STORAGE_IDLE_MS};
        if (rest.len > 0)
            x.headers = ty_format(u->arena, "Content-Range: bytes %" PRId64 "-%" PRId64 "/%s\r\n",
                                  from, end - 1, total);
        else if (end > 0) /* else nothing at all: a whole, empty body */
            x.headers = ty_format(u->arena, "Content-Range: bytes */%s\r\n", total);
        err = http_client_exchange(&u->conn->client, u->arena, &x, ret_reply);
        u->conn->status = err == TY_OK ? ret_reply->status : 0;
        if (err == TY_OK && ret_reply->status == 308 && !last && received_of(ret_reply) == end)
            return TY_OK;
        if (err == TY_OK && last && (ret_reply->status == 200 || ret_reply->status == 201))
            return TY_OK;
        if (err == TY_OK && ret_reply->status != 308 && !is_worth_another(err, ret_reply))
            return storage_fail_api(u->conn, ret_reply);
        if (err != TY_OK && !is_worth_another(err, ret_reply))
            return err;
        pause_before(attempt);
        int64_t received = 0;
        if (session_ask(u, session, ret_reply, &received) == TY_OK && ret_reply->status == 308 &&
            received >= offset && received <= end)
            from = received;
        else if (u->conn->status == 200 || ret_reply->status == 200)
            return TY_OK;
    }
    return err == TY_OK ? storage_fail_api(u->conn, ret_reply) : err;
}

static ty_err upload_stream(struct upload *u)
{
    const char *session = NULL;
    struct http_reply reply = {0};
    char *piece = malloc(STREAM_BYTES + 1);
    ty_assert(piece != NULL);
    int64_t offset = 0;
    size_t len = 0;
    bool last = false;
    u->tracker = NULL;
    ty_err err = session_start(u, &session);
    while (err == TY_OK && !last) {
        err = stream_fill(u, piece, &len);
        last = len <= STREAM_BYTES;
        size_t whole = last ? len : STREAM_BYTES;
        if (err == TY_OK)
            err = stream_send(u, session, (ty_str){piece, whole}, offset, last, &reply);
        offset += (int64_t)whole;
        piece[0] = piece[STREAM_BYTES];
        len = last ? 0 : 1;
    }
    free(piece);
    return err == TY_OK ? upload_verify(u, &reply) : session_end(u, session, err);
}

/* ---- gzip ---- */

static bool wants_gzip(const struct storage_options *o, ty_str path)
{
    ty_str rest = ty_str_of(o->gzip_extensions), word;
    bool more = rest.len > 0;
    while (more && !o->gzip_all) {
        more = ty_str_split(&rest, ',', &word);
        word = ty_str_trim(word);
        while (word.len > 0 && word.ptr[0] == '.')
            word = ty_str_drop(word, 1);
        if (word.len > 0 && path.len > word.len && ty_str_ends(path, word) &&
            path.ptr[path.len - word.len - 1] == '.')
            return true;
    }
    return o->gzip_all;
}

static int temporary_open(void)
{
    const char *folder = getenv("TMPDIR");
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/trainyard-gzip-XXXXXX",
             folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static ty_err deflate_into(int in, int out)
{
    unsigned char from[ZIP_BYTES], to[ZIP_BYTES];
    z_stream z = {0};
    ty_err err = TY_OK;
    ssize_t n = 1;
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return ty_fail(TY_INTERNAL, "cannot begin to compress");
    while (n > 0 && err == TY_OK) {
        n = read(in, from, sizeof(from));
        z.next_in = from;
        z.avail_in = n > 0 ? (uInt)n : 0;
        do {
            z.next_out = to;
            z.avail_out = sizeof(to);
            deflate(&z, n > 0 ? Z_NO_FLUSH : Z_FINISH);
            err = ty_write_all(out, to, sizeof(to) - z.avail_out);
        } while (z.avail_out == 0 && err == TY_OK);
    }
    deflateEnd(&z);
    return n < 0 ? ty_fail_errno(errno, "cannot read what is to be compressed") : err;
}

/* Put a compressed copy in the file's place. */
static ty_err upload_zip(struct upload *u)
{
    int fd = temporary_open();
    if (fd < 0)
        return ty_fail_errno(errno, "cannot make a temporary file to compress into");
    ty_err err = deflate_into(u->fd, fd);
    off_t size = lseek(fd, 0, SEEK_END);
    close(u->fd);
    u->fd = fd;
    atomic_fetch_add(&u->progress->bytes_total, size - u->size);
    u->size = size;
    u->zipped = true;
    u->tracker = NULL;
    if (err == TY_OK && lseek(fd, 0, SEEK_SET) < 0)
        err = ty_fail_errno(errno, "cannot go back in a temporary file");
    return err;
}

/* ---- the whole ---- */

/* state_dir/uploads/<hash of file's path and destination> */
static const char *tracker_path(struct upload *u, const char *file)
{
    const struct storage *s = u->conn->s;
    struct storage_digest d;
    struct storage_hashes h;
    if (s->state_dir == NULL)
        return NULL;
    char *folder = ty_format(u->arena, "%s/uploads", s->state_dir);
    if (ty_mkdirs(folder, 0700) != TY_OK)
        return NULL;
    char *real = realpath(file, NULL);
    if (real == NULL)
        return NULL;
    const char *key = ty_format(u->arena, "%s\n%s", storage_url_text(u->arena, &u->copy->to), real);
    free(real);
    storage_digest_init(&d);
    storage_digest_add(&d, ty_str_of(key));
    storage_digest_end(&d, &h);
    char hex[33];
    for (size_t i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", h.md5[i]);
    return ty_format(u->arena, "%s/%s", folder, hex);
}

static ty_err upload_open(struct upload *u)
{
    struct stat st;
    const char *path = ty_cstr(u->arena, u->copy->from.name);
    u->fd = u->copy->from.stream ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (u->fd < 0 || fstat(u->fd, &st) != 0)
        return ty_fail_errno(errno, "cannot open '%s'", path);
    u->size = S_ISREG(st.st_mode) && !u->copy->from.stream ? st.st_size : -1;
    u->tracker = u->size >= STORAGE_RESUMABLE_BYTES ? tracker_path(u, path) : NULL;
    u->version = ty_format(u->arena, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 ".%09ld",
                           (uint64_t)st.st_dev, (uint64_t)st.st_ino, (int64_t)st.st_size,
                           (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    const char *type = storage_content_type(u->copy->from.name);
    u->content_type = u->o->content_type != NULL ? u->o->content_type
                      : type != NULL             ? type
                                                 : "application/octet-stream";
    if (u->size >= 0 && wants_gzip(u->o, u->copy->from.name))
        return upload_zip(u);
    return TY_OK;
}

ty_err storage_upload(struct storage_conn *c, struct ty_arena *a, const struct storage_options *o,
                      const struct storage_copy *copy, struct storage_progress *p,
                      ty_str *ret_generation)
{
    struct upload u = {.conn = c, .arena = a, .o = o, .copy = copy, .progress = p, .fd = -1};
    ty_err err = storage_digest_load();
    if (err != TY_OK)
        return err;
    c->bucket = copy->to.bucket;
    storage_digest_init(&u.digest);
    err = upload_open(&u);
    if (err == TY_OK && u.size < 0)
        err = upload_stream(&u);
    else if (err == TY_OK && u.size >= STORAGE_RESUMABLE_BYTES)
        err = upload_resumable(&u);
    else if (err == TY_OK)
        err = upload_multipart(&u);
    if (u.fd >= 0)
        close(u.fd);
    if (err == TY_OK)
        *ret_generation = u.generation;
    return err;
}
