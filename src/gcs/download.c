/* download.c -- an object's bytes: whole, a range, or unzipped on the way.
 *
 * A small one is read here, on the worker, or if nothing has to be waited for (download_now) on the
 * event loop. A larger one is a source: what the kernel has in memory
 * is copied on the event loop (RWF_NOWAIT), the rest is read by workers; of a large one the kernel
 * sends all but the last bytes by itself. Before the last bytes are
 * handed over the file is asked whether somebody has written into it; if so the connection ends
 * early, so that no client takes a mixture for the object.
 *
 * An object stored with contentEncoding gzip is unzipped for a client that did not say that it
 * takes gzip, unless its cacheControl says no-transform; ranges are then passed over, as there. */
#include "gcs/gcs_int.h"

#include <linux/magic.h>
#include <strings.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <zlib.h>

/* ---- plain bytes ---- */

struct file_source {
    int fd;
    struct object object;
    int64_t first; /* of the object, where the answer begins */
    int64_t size;  /* of the answer */
};

/* tmpfs knows no RWF_NOWAIT; what it has is in memory. */
static bool never_waits(int fd)
{
    struct statfs st;
    return fstatfs(fd, &st) == 0 && st.f_type == TMPFS_MAGIC;
}

static ssize_t read_at(int fd, char *buf, size_t n, int64_t at, bool wait)
{
    struct iovec v = {buf, n};
    ssize_t got;
    do
        got = preadv2(fd, &v, 1, at, wait ? 0 : RWF_NOWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EOPNOTSUPP && !wait && never_waits(fd))
        return read_at(fd, buf, n, at, true);
    return got;
}

static int64_t file_read(void *arg, int64_t offset, char *buf, size_t max, bool wait)
{
    struct file_source *f = arg;
    int64_t left = f->size - offset;
    if (left <= 0)
        return 0;
    size_t want = left < (int64_t)max ? (size_t)left : max;
    ssize_t got = read_at(f->fd, buf, want, f->first + offset, wait);
    if (got < 0 && !wait && (errno == EAGAIN || errno == EOPNOTSUPP))
        return HTTP_SOURCE_WAIT;
    if (got <= 0) /* shorter than it was */
        return HTTP_SOURCE_FAILED;
    if (offset + got == f->size && !objects_unchanged(&f->object, f->fd))
        return HTTP_SOURCE_FAILED;
    return got;
}

static bool file_same(void *arg)
{
    struct file_source *f = arg;
    return objects_unchanged(&f->object, f->fd);
}

static void file_close(void *arg)
{
    close(((struct file_source *)arg)->fd);
}

/* ---- gzip, undone ---- */

enum { GUNZIP_BYTES = 16 * 1024 };

struct gunzip_source {
    struct file_source file;
    int64_t at; /* next byte of the file */
    bool ended; /* between members */
    z_stream z;
    char in[GUNZIP_BYTES];
};

/* More input, if there is any. */
static bool gunzip_fill(struct gunzip_source *s)
{
    if (s->z.avail_in > 0)
        return true;
    int64_t n = file_read(&s->file, s->at, s->in, sizeof s->in, true);
    if (n <= 0)
        return false;
    s->at += n;
    s->z.next_in = (unsigned char *)s->in;
    s->z.avail_in = (unsigned)n;
    return true;
}

static int64_t gunzip_read(void *arg, int64_t offset, char *buf, size_t max, bool wait)
{
    struct gunzip_source *s = arg;
    (void)offset;
    if (!wait)
        return HTTP_SOURCE_WAIT; /* it is work, whether it waits or not */
    s->z.next_out = (unsigned char *)buf;
    s->z.avail_out = (unsigned)max;
    while (s->z.avail_out > 0 && gunzip_fill(s)) {
        if (s->ended)
            inflateReset(&s->z);
        int code = inflate(&s->z, Z_NO_FLUSH);
        s->ended = code == Z_STREAM_END;
        if (code != Z_OK && code != Z_STREAM_END)
            return HTTP_SOURCE_FAILED;
    }
    int64_t made = (int64_t)(max - s->z.avail_out);
    if (made == 0 && (!s->ended || s->at < s->file.size))
        return HTTP_SOURCE_FAILED; /* cut short, or it could not be read */
    return made;
}

static void gunzip_close(void *arg)
{
    struct gunzip_source *s = arg;
    inflateEnd(&s->z);
    file_close(&s->file);
    free(s);
}

static bool takes_gzip(const struct http_request *req)
{
    ty_str accept = http_header(req, "Accept-Encoding");
    return accept.len > 0 && strcasestr(accept.ptr, "gzip") != NULL;
}

static bool is_gzip(const struct object *object, int fd)
{
    unsigned char magic[2];
    return object->settings.content_encoding.len == 4 &&
           strncasecmp(object->settings.content_encoding.ptr, "gzip", 4) == 0 &&
           read_at(fd, (char *)magic, 2, 0, true) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
}

static bool no_transform(const struct object *object)
{
    ty_str c = object->settings.cache_control;
    return c.len > 0 && strcasestr(c.ptr, "no-transform") != NULL;
}

static ty_err answer_gunzipped(struct http_request *req, struct http_response *res,
                               const struct object *object, int fd)
{
    struct gunzip_source *s = calloc(1, sizeof *s);
    ty_assert(s != NULL);
    s->file = (struct file_source){.fd = fd, .object = *object, .size = object->size};
    if (inflateInit2(&s->z, 16 + MAX_WBITS) != Z_OK) {
        free(s);
        return ty_fail(TY_RESOURCE_EXHAUSTED, "no memory to unzip with");
    }
    http_header_add(req, res, "Warning", TY_STR("214 UploadServer gunzipped"));
    http_header_add(req, res, "Vary", TY_STR("Accept-Encoding"));
    res->source =
        (struct http_source){.size = -1, .read = gunzip_read, .close = gunzip_close, .arg = s};
    return TY_OK;
}

/* ---- headers ---- */

static void add_text(struct http_request *req, struct http_response *res, const char *name,
                     ty_str value)
{
    if (value.len > 0)
        http_header_add(req, res, name, value);
}

static void add_hash(struct http_request *req, struct http_response *res, const struct object *x)
{
    struct ty_buf b;
    ty_buf_init(&b, 128);
    if (x->has_crc32c) {
        ty_buf_addz(&b, "crc32c=");
        crc32c_text(&b, x->crc32c);
    }
    if (x->has_md5) {
        ty_buf_addz(&b, b.len > 0 ? ",md5=" : "md5=");
        md5_text(&b, x->md5);
    }
    add_text(req, res, "X-Goog-Hash", ty_buf_str(&b));
    ty_buf_clear(&b);
}

static void add_headers(struct http_request *req, struct http_response *res, const struct object *x,
                        ty_str etag)
{
    const struct object_settings *s = &x->settings;
    struct ty_arena *a = req->arena;
    res->content_type =
        s->content_type.len > 0 ? ty_cstr(a, s->content_type) : "application/octet-stream";
    http_header_add(req, res, "ETag", etag);
    http_header_add(req, res, "X-Goog-Generation",
                    ty_str_of(ty_format(a, "%" PRId64, x->generation)));
    http_header_add(req, res, "X-Goog-Metageneration",
                    ty_str_of(ty_format(a, "%" PRId64, x->metageneration)));
    http_header_add(req, res, "X-Goog-Stored-Content-Length",
                    ty_str_of(ty_format(a, "%" PRId64, x->size)));
    http_header_add(req, res, "X-Goog-Stored-Content-Encoding",
                    s->content_encoding.len > 0 ? s->content_encoding : TY_STR("identity"));
    add_text(req, res, "X-Goog-Storage-Class", s->storage_class);
    add_hash(req, res, x);
    add_text(req, res, "Content-Disposition", s->content_disposition);
    add_text(req, res, "Content-Language", s->content_language);
    add_text(req, res, "Cache-Control", s->cache_control);
    http_header_add(req, res, "Accept-Ranges", TY_STR("bytes"));
    /* Somebody's HTML must not act as this server's own page. */
    http_header_add(req, res, "Content-Security-Policy", TY_STR("sandbox"));
    struct tm tm;
    time_t seconds = (time_t)(x->update_ns / 1000000000);
    char text[64];
    if (gmtime_r(&seconds, &tm) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        http_header_add(req, res, "Last-Modified", ty_str_of(text));
}

/* ---- conditions in headers ---- */

static bool etag_listed(ty_str list, ty_str etag)
{
    for (bool more = list.len > 0; more;) {
        ty_str one;
        more = ty_str_split(&list, ',', &one);
        one = ty_str_trim(one);
        if (ty_str_starts(one, TY_STR("W/")))
            one = ty_str_drop(one, 2);
        if (one.len >= 2 && one.ptr[0] == '"' && one.ptr[one.len - 1] == '"')
            one = (ty_str){one.ptr + 1, one.len - 2};
        if (ty_str_is(one, "*") || ty_str_eq(one, etag))
            return true;
    }
    return false;
}

/* TY_ABORTED: not modified. */
static ty_err etag_check(const struct http_request *req, ty_str etag)
{
    ty_str match = http_header(req, "If-Match"), none = http_header(req, "If-None-Match");
    if (match.len > 0 && !etag_listed(match, etag))
        return ty_fail(TY_FAILED_PRECONDITION,
                       "If-Match does not hold: the object's etag is " TY_STR_FMT,
                       TY_STR_ARG(etag));
    if (none.len > 0 && etag_listed(none, etag))
        return TY_ABORTED;
    return TY_OK;
}

/* ---- the answer ---- */

/* The bytes first..last; closes fd, at once or when they are sent. Without `wait` none are read
 * that are not in memory: TY_UNAVAILABLE. */
static ty_err answer_bytes(struct http_request *req, struct http_response *res,
                           const struct object *object, int fd, bool wait, int64_t first,
                           int64_t last)
{
    struct file_source *f = ty_new(req->arena, struct file_source);
    *f =
        (struct file_source){.fd = fd, .object = *object, .first = first, .size = last - first + 1};
    if (f->size > GCS_SMALL_BYTES || req->method == HTTP_HEAD) {
        posix_fadvise(fd, first, f->size, POSIX_FADV_SEQUENTIAL);
        res->source = (struct http_source){.size = f->size,
                                           .read = file_read,
                                           .close = file_close,
                                           .arg = f,
                                           .same = file_same,
                                           .file = fd,
                                           .file_first = first};
        return TY_OK;
    }
    char buf[8192];
    int64_t n = 0;
    for (int64_t at = 0; (n = file_read(f, at, buf, sizeof buf, wait)) > 0; at += n)
        ty_buf_add(&res->body, buf, (size_t)n);
    close(fd);
    return n == 0 ? TY_OK
                  : ty_fail(TY_UNAVAILABLE,
                            "the object's file was changed while it was read; ask again");
}

static ty_err answer_range(struct http_request *req, struct http_response *res,
                           const struct object *object, int fd, bool wait)
{
    int64_t first = 0, last = object->size - 1;
    switch (range_parse(http_header(req, "Range"), object->size, &first, &last)) {
    case RANGE_BEYOND:
        close(fd);
        res->status = 416;
        res->content_type = "text/plain";
        http_header_add(req, res, "Content-Range",
                        ty_str_of(ty_format(req->arena, "bytes */%" PRId64, object->size)));
        ty_buf_addf(&res->body, "the range is outside of the object's %" PRId64 " bytes\n",
                    object->size);
        return TY_OK;
    case RANGE_PART:
        res->status = 206;
        http_header_add(req, res, "Content-Range",
                        ty_str_of(ty_format(req->arena, "bytes %" PRId64 "-%" PRId64 "/%" PRId64,
                                            first, last, object->size)));
        break;
    case RANGE_WHOLE:
        break;
    }
    add_text(req, res, "Content-Encoding", object->settings.content_encoding);
    return answer_bytes(req, res, object, fd, wait, first, last);
}

/* Closes fd, at once or when all is sent. */
static ty_err download_opened(struct http_request *req, struct http_response *res,
                              const struct object *object, int fd, bool wait)
{
    struct ty_buf text;
    ty_buf_init(&text, 128);
    object_etag(&text, object);
    ty_str etag = ty_str_dup(req->arena, ty_buf_str(&text));
    ty_buf_clear(&text);
    ty_err err = etag_check(req, etag);
    if (err != TY_OK) {
        close(fd);
        return err;
    }
    add_headers(req, res, object, etag);
    if (is_gzip(object, fd) && !takes_gzip(req) && !no_transform(object))
        return answer_gunzipped(req, res, object, fd);
    return answer_range(req, res, object, fd, wait);
}

ty_err download(struct http_request *req, struct http_response *res, struct gcs *g,
                struct object_ref ref, const struct object_conditions *conditions)
{
    struct object object;
    int fd;
    ty_err err = objects_read(g->objects, req->arena, ref, conditions, &object, &fd);
    return err == TY_OK ? download_opened(req, res, &object, fd, true) : err;
}

bool download_now(struct http_request *req, struct http_response *res, void *ctx)
{
    struct gcs *g = ctx;
    struct object_conditions c;
    struct object_ref ref;
    struct object object;
    int fd;
    http_handler handler = req->route->handler;
    bool media = handler == object_download ||
                 (handler == object_get && ty_str_is(http_query(req, "alt"), "media"));
    if (!media || encryption_refuse(req) != TY_OK || ref_parse(req, &ref) != TY_OK ||
        conditions_parse(req, "", &c) != TY_OK ||
        !objects_read_now(g->objects, req->arena, ref, &c, &object, &fd))
        return false;
    if (object.settings.content_encoding.len > 0) { /* to find out whether it is, is to read */
        close(fd);
        return false;
    }
    return download_opened(req, res, &object, fd, false) == TY_OK;
}

static ty_err answer_download(struct http_request *req, struct http_response *res, ty_err err)
{
    if (err != TY_ABORTED)
        return answer_with(req, res, err);
    res->status = 304;
    return TY_OK;
}

ty_err object_download(struct http_request *req, struct http_response *res, void *ctx)
{
    struct object_conditions c;
    struct object_ref ref;
    ty_err err = encryption_refuse(req);
    if (err == TY_OK)
        err = ref_parse(req, &ref);
    if (err == TY_OK)
        err = conditions_parse(req, "", &c);
    if (err == TY_OK)
        err = download(req, res, ctx, ref, &c);
    return answer_download(req, res, err);
}

/* GET /BUCKET/OBJECT, the way of the XML API, which TensorFlow and others read by. The rest of the
 * path is raw. */
ty_err object_plain(struct http_request *req, struct http_response *res, void *ctx)
{
    struct object_ref ref;
    ty_err err = ref_parse(req, &ref);
    if (err == TY_OK)
        err = wire_url_decode(req->arena, req->capture[1], false, &ref.name);
    if (err == TY_OK)
        err = download(req, res, ctx, ref, NULL);
    int shown = req->path.len > 512 ? 512 : (int)req->path.len;
    if (err == TY_NOT_FOUND || err == TY_INVALID_ARGUMENT)
        err = ty_fail(TY_NOT_FOUND, "no route for GET '%.*s', and no object: %s", shown,
                      req->path.ptr, ty_err_message());
    return answer_download(req, res, err);
}
