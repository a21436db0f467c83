/* download.c -- an object to a file, or to standard output.
 *
 * The bytes go into NAME_.gstmp beside the file, which takes its name once the hashes are right.
 * One generation is asked for throughout, so after a cut connection the rest can be fetched with a
 * range; for large objects the generation is written down (state_dir/downloads), so that the same
 * command goes on where an interrupted one stopped. What is stored compressed comes compressed,
 * because the hashes are of that, and is unpacked here. */
#include "storage/storage_int.h"

#include <zlib.h>

enum { TRIES = 8, FIRST_PAUSE_MS = 100, PIECE_BYTES = 128 * 1024, TRACKER_BYTES = 4096 };

struct download {
    struct storage_conn *conn;
    struct ty_arena *arena;
    const struct storage_copy *copy;
    const struct storage_object *object;
    struct storage_progress *progress;
    const char *path, *partial, *tracker, *identity;
    int fd;
    bool others; /* another copy writes the partial file */
    bool direct; /* a device or pipe, which nothing may take the place of: there is no other file */
    int64_t have; /* bytes in the partial file, all in the digest */
    struct storage_digest digest;
};

static ty_err file_sink(void *arg, ty_str bytes)
{
    struct download *d = arg;
    if (storage_interrupted())
        return ty_fail(TY_CANCELLED, "interrupted");
    ty_err err = ty_write_all(d->fd, bytes.ptr, bytes.len);
    if (err != TY_OK)
        return ty_wrap(err, "cannot write '%s'", d->partial);
    storage_digest_add(&d->digest, bytes);
    d->have += (int64_t)bytes.len;
    storage_progress_add(d->progress, (int64_t)bytes.len);
    return TY_OK;
}

static const char *media_target(struct ty_arena *a, const struct storage_url *url,
                                ty_str generation)
{
    return ty_format(a, "/download%s?alt=media%s" TY_STR_FMT,
                     storage_path(a, url->bucket, url->name),
                     generation.len > 0 ? "&generation=" : "", TY_STR_ARG(generation));
}

/* A name for a path: 32 hexadecimal digits. */
static const char *path_hash(struct ty_arena *a, const char *path)
{
    struct storage_digest digest;
    struct storage_hashes h;
    char *hex = ty_new_array(a, char, 33);
    storage_digest_init(&digest);
    storage_digest_add(&digest, ty_str_of(path));
    storage_digest_end(&digest, &h);
    for (size_t i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", h.md5[i]);
    return hex;
}

/* path + ending, or where that is too long for a name, one in the same folder that is as much its
 * own. */
static const char *beside(struct ty_arena *a, const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    if (strlen(name) + strlen(ending) <= NAME_MAX)
        return ty_format(a, "%s%s", path, ending);
    return ty_format(a, "%.*s%s%s", (int)(name - path), path, path_hash(a, name), ending);
}

/* ---- going on where another run stopped ---- */

static void tracker_find(struct download *d)
{
    const struct storage *s = d->conn->s;
    char *folder, *absolute;
    if (s->state_dir == NULL || d->object->size < STORAGE_RESUMABLE_BYTES)
        return;
    folder = ty_format(d->arena, "%s/downloads", s->state_dir);
    if (ty_mkdirs(folder, 0700) != TY_OK)
        return;
    char cwd[PATH_MAX];
    absolute = d->path[0] != '/' && getcwd(cwd, sizeof(cwd)) != NULL
                   ? ty_format(d->arena, "%s/%s", cwd, d->path)
                   : ty_format(d->arena, "%s", d->path);
    d->tracker = ty_format(d->arena, "%s/%s", folder, path_hash(d->arena, absolute));
    d->identity = ty_format(d->arena, "%s#" TY_STR_FMT, storage_url_text(d->arena, &d->copy->from),
                            TY_STR_ARG(d->object->generation));
}

static ty_err direct_open(struct download *d)
{
    if (ty_str_is(d->object->content_encoding, "gzip"))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "'%s' is no regular file: the object is stored as gzip, and cannot be "
                       "unpacked into it",
                       d->path);
    d->fd = open(d->path, O_WRONLY | O_CLOEXEC);
    return d->fd < 0 ? ty_fail_errno(errno, "cannot open '%s'", d->path) : TY_OK;
}

/* Take up what is in the partial file, if it is the beginning of this very generation. */
static ty_err partial_open(struct download *d)
{
    ty_str text;
    char piece[PIECE_BYTES];
    ssize_t n;
    tracker_find(d);
    bool ours = d->tracker != NULL &&
                ty_file_read(AT_FDCWD, d->tracker, TRACKER_BYTES, d->arena, &text) == TY_OK &&
                ty_str_is(text, d->identity);
    d->fd = open(d->partial, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (d->fd < 0)
        return ty_fail_errno(errno, "cannot create '%s'", d->partial);
    ty_err err = ty_lock_take(d->fd, d->partial);
    d->others = err == TY_ABORTED;
    if (d->others)
        return ty_fail(TY_ABORTED,
                       "'%s' is being written by another copy; is the same name given "
                       "twice?",
                       d->path);
    if (err != TY_OK)
        return err;
    if (!ours && ftruncate(d->fd, 0) != 0)
        return ty_fail_errno(errno, "cannot cut '%s'", d->partial);
    while ((n = read(d->fd, piece, sizeof(piece))) > 0) {
        storage_digest_add(&d->digest, (ty_str){piece, (size_t)n});
        d->have += n;
    }
    if (n < 0)
        return ty_fail_errno(errno, "cannot read '%s'", d->partial);
    if (d->have > d->object->size) {
        if (ftruncate(d->fd, 0) != 0 || lseek(d->fd, 0, SEEK_SET) < 0)
            return ty_fail_errno(errno, "cannot cut '%s'", d->partial);
        d->have = 0;
        storage_digest_init(&d->digest);
    }
    storage_progress_add(d->progress, d->have);
    if (d->tracker != NULL && !ours &&
        ty_file_replace(AT_FDCWD, d->tracker, ty_str_of(d->identity), 0600) != TY_OK)
        d->tracker = NULL; /* then another run begins anew */
    return TY_OK;
}

/* ---- the bytes ---- */

static ty_err fetch_once(struct download *d, struct http_reply *ret_reply)
{
    struct http_exchange x = {
        .method = HTTP_GET,
        .target = media_target(d->arena, &d->copy->from, d->object->generation),
        .headers = d->have > 0 ? ty_format(d->arena,
                                           "Accept-Encoding: gzip\r\nRange: bytes=%" PRId64 "-\r\n",
                                           d->have)
                               : "Accept-Encoding: gzip\r\n",
        .sink = file_sink,
        .arg = d,
        .idle_ms = STORAGE_IDLE_MS};
    return http_client_exchange(&d->conn->client, d->arena, &x, ret_reply);
}

static ty_err fetch(struct download *d)
{
    struct http_reply reply = {0};
    ty_err err = TY_OK;
    for (int attempt = 0; d->have < d->object->size; attempt++) {
        int64_t before = d->have;
        err = fetch_once(d, &reply);
        d->conn->status = err == TY_OK ? reply.status : 0;
        if (err == TY_OK && reply.status == 200 && before > 0)
            return ty_fail(TY_INTERNAL, "the server sent all of '%s' instead of the rest", d->path);
        if (err == TY_OK && reply.status < 300)
            continue;
        bool again = err == TY_UNAVAILABLE || err == TY_DEADLINE_EXCEEDED ||
                     (err == TY_OK && reply.status >= 500);
        attempt = d->have > before ? 0 : attempt;
        if (!again || attempt >= TRIES)
            return err == TY_OK ? storage_fail_api(d->conn, &reply) : err;
        int64_t ms = FIRST_PAUSE_MS << (attempt < 6 ? attempt : 6);
        struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
        nanosleep(&ts, NULL);
    }
    return TY_OK;
}

/* ---- what is stored compressed ---- */

static ty_err inflate_into(int in, int out, const char *path)
{
    unsigned char from[PIECE_BYTES], to[PIECE_BYTES];
    z_stream z = {0};
    int status = Z_OK;
    ty_err err = TY_OK;
    ssize_t n;
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return ty_fail(TY_INTERNAL, "cannot begin to unpack");
    while (err == TY_OK && (n = read(in, from, sizeof(from))) > 0) {
        z.next_in = from;
        z.avail_in = (uInt)n;
        while (err == TY_OK && z.avail_in > 0) {
            if (status == Z_STREAM_END) /* another member follows */
                inflateReset(&z);
            z.next_out = to;
            z.avail_out = sizeof(to);
            status = inflate(&z, Z_NO_FLUSH);
            if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
                err = ty_fail(TY_DATA_LOSS, "'%s' says it is gzip and is not", path);
            else
                err = ty_write_all(out, to, sizeof(to) - z.avail_out);
        }
    }
    inflateEnd(&z);
    if (err == TY_OK && status != Z_STREAM_END)
        err = ty_fail(TY_DATA_LOSS, "'%s' ends in the middle of its gzip data", path);
    return err;
}

/* Replace the partial file by its contents. */
static ty_err partial_unzip(struct download *d)
{
    const char *unpacked = beside(d->arena, d->path, "_.gztmp");
    int out = open(unpacked, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0)
        return ty_fail_errno(errno, "cannot create '%s'", unpacked);
    ty_err err = lseek(d->fd, 0, SEEK_SET) < 0
                     ? ty_fail_errno(errno, "cannot go back in '%s'", d->partial)
                     : inflate_into(d->fd, out, d->path);
    if (close(out) != 0 && err == TY_OK)
        err = ty_fail_errno(errno, "cannot write '%s'", unpacked);
    if (err == TY_OK)
        err = ty_rename_at(AT_FDCWD, unpacked, d->partial);
    if (err != TY_OK)
        unlink(unpacked);
    return err;
}

/* ---- the whole ---- */

static ty_err folders_make(struct ty_arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return TY_OK;
    return ty_mkdirs(ty_cstr(a, (ty_str){path, (size_t)(slash - path)}), 0777);
}

static ty_err download_finish(struct download *d)
{
    struct storage_hashes h;
    int64_t mtime;
    storage_digest_end(&d->digest, &h);
    ty_err err = storage_hashes_check(&h, d->object->md5, d->object->crc32c, d->path);
    if (d->direct)
        return err;
    if (err == TY_OK && ty_str_is(d->object->content_encoding, "gzip"))
        err = partial_unzip(d);
    if (err == TY_OK && d->copy->mtime != 0 && ty_parse_i64(d->object->mtime, &mtime) == TY_OK) {
        struct timespec times[2] = {{.tv_sec = mtime}, {.tv_sec = mtime}};
        if (utimensat(AT_FDCWD, d->partial, times, 0) != 0)
            err = ty_fail_errno(errno, "cannot set the time of '%s'", d->partial);
    }
    return err == TY_OK ? ty_rename_at(AT_FDCWD, d->partial, d->path) : err;
}

/* A small one has a name of its own, because several may go to one file; the last one stays. */
static const char *partial_name(struct ty_arena *a, const char *path, int64_t size)
{
    uint32_t random;
    if (size >= STORAGE_RESUMABLE_BYTES)
        return beside(a, path, "_.gstmp");
    ty_random(&random, sizeof(random));
    return beside(a, path, ty_format(a, "_%08" PRIx32 "_.gstmp", random));
}

ty_err storage_download(struct storage_conn *c, struct ty_arena *a, const struct storage_copy *copy,
                        struct storage_progress *p)
{
    struct download d = {.conn = c, .arena = a, .copy = copy, .progress = p, .fd = -1};
    struct stat st;
    ty_err err = storage_digest_load();
    if (err != TY_OK)
        return err;
    c->bucket = copy->from.bucket;
    d.object = copy->object;
    d.path = ty_cstr(a, copy->to.name);
    d.direct = stat(d.path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    d.partial = d.direct ? d.path : partial_name(a, d.path, d.object->size);
    storage_digest_init(&d.digest);
    if (ty_str_ends(copy->to.name, TY_STR("/"))) /* gcloud's were refused before */
        return ty_fail(
            TY_INVALID_ARGUMENT,
            "Skipping attempt to download to filename ending with slash (%s).\nThis "
            "typically happens when using gsutil to download from a\nsubdirectory created "
            "by the Cloud Console\n(https://cloud.google.com/console)\nInvalidUrlError: "
            "Invalid destination path: %s.",
            d.path, d.path);
    if (c->s->style == STORAGE_GSUTIL && ty_str_is(d.object->content_encoding, "gzip"))
        storage_progress_say(p, "Downloading to temp gzip filename %s_.gztmp", d.path);
    err = folders_make(a, d.path);
    if (err == TY_OK)
        err = d.direct ? direct_open(&d) : partial_open(&d);
    if (err == TY_OK)
        err = fetch(&d);
    if (err == TY_OK)
        err = download_finish(&d);
    if (d.fd >= 0)
        close(d.fd);
    bool keep =
        err == TY_UNAVAILABLE || err == TY_DEADLINE_EXCEEDED || err == TY_CANCELLED || d.others;
    if (d.fd >= 0 && err != TY_OK && !d.others && !d.direct && !(keep && d.tracker != NULL))
        unlink(d.partial);
    if (d.tracker != NULL && !keep)
        unlink(d.tracker);
    return err;
}

static ty_err stdout_sink(void *arg, ty_str bytes)
{
    (void)arg;
    if (fwrite(bytes.ptr, 1, bytes.len, stdout) != bytes.len)
        return ty_fail_errno(errno, "cannot write the output");
    return TY_OK;
}

ty_err storage_cat_object(struct storage_conn *c, const struct storage_url *url, ty_str range)
{
    struct ty_arena a = {0};
    struct http_reply reply;
    c->bucket = url->bucket;
    struct http_exchange x = {.method = HTTP_GET,
                              .target = media_target(&a, url, url->generation),
                              .sink = stdout_sink,
                              .idle_ms = STORAGE_IDLE_MS};
    if (range.len > 0)
        x.headers = ty_format(&a, "Range: bytes=" TY_STR_FMT "\r\n", TY_STR_ARG(range));
    ty_err err = http_client_exchange(&c->client, &a, &x, &reply);
    c->status = err == TY_OK ? reply.status : 0;
    if (err == TY_OK && reply.status >= 300)
        err = storage_fail_api(c, &reply);
    ty_arena_clear(&a);
    return err;
}
