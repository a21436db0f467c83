/* source.c -- answers that are made while they are sent.
 *
 * MHD's thread asks the source for the next piece without letting it block. Where it would (bytes
 * that are not in memory, gzip to undo) the connection is suspended, a worker gets the piece, and
 * MHD's thread copies it out: one slow disk holds up nobody else. Of a large file, a sender writes
 * all but the end first (sender.c). */
#include "http/http_int.h"

static ssize_t piece_result(int64_t n)
{
    if (n > 0)
        return (ssize_t)n;
    return n == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t piece_fetched(struct exchange *x, char *buf, size_t max)
{
    size_t n = x->fetched.len - x->fetched_used;
    n = n < max ? n : max;
    memcpy(buf, x->fetched.ptr + x->fetched_used, n);
    x->fetched_used += n;
    return (ssize_t)n;
}

/* The headers are out. */
static ssize_t share_begin(struct exchange *x)
{
    struct http_server *s = x->server;
    x->transfer.begun = true;
    s->mhd->MHD_suspend_connection(x->mhd);
    if (sender_submit(s, x))
        return 0;
    s->mhd->MHD_resume_connection(x->mhd);
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t piece_read(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct exchange *x = cls;
    struct http_server *s = x->server;
    if (x->transfer.share > 0 && !x->transfer.begun)
        return share_begin(x);
    if (x->transfer.failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    pos += (uint64_t)x->transfer.share;
    int64_t budget = HTTP_RATE_GRACE_MS + (int64_t)pos / HTTP_RATE_BYTES_MS;
    conn_phase_set(s, x->conn, CONN_SEND, x->send_start_ms + budget);
    if (x->fetched_used < x->fetched.len)
        return piece_fetched(x, buf, max);
    if (x->task == TASK_FETCH) { /* a worker was asked, and there was nothing more */
        x->task = TASK_HANDLE;
        if (x->fetch_result <= 0)
            return piece_result(x->fetch_result);
    }
    int64_t n = x->res.source.read(x->res.source.arg, (int64_t)pos, buf, max, false);
    if (n != HTTP_SOURCE_WAIT)
        return piece_result(n);
    x->task = TASK_FETCH;
    x->fetch_offset = (int64_t)pos;
    conn_phase_set(s, x->conn, CONN_WORK, 0);
    s->mhd->MHD_suspend_connection(x->mhd);
    if (worker_submit(s, x))
        return 0;
    s->mhd->MHD_resume_connection(x->mhd);
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

void source_work(struct exchange *x)
{
    struct http_server *s = x->server;
    if (!x->fetched.ptr) {
        ty_buf_init(&x->fetched, HTTP_SOURCE_BYTES + 1);
        x->fetched.ptr = malloc(HTTP_SOURCE_BYTES + 1);
        ty_assert(x->fetched.ptr != NULL);
        x->fetched.cap = HTTP_SOURCE_BYTES + 1;
    }
    int64_t started_ms = ty_boot_ms();
    x->fetch_result = x->res.source.read(x->res.source.arg, x->fetch_offset, x->fetched.ptr,
                                         HTTP_SOURCE_BYTES, true);
    x->fetched.len = x->fetch_result > 0 ? (size_t)x->fetch_result : 0;
    x->fetched_used = 0;
    x->send_start_ms += ty_boot_ms() - started_ms; /* our delay is not the client's */
    s->mhd->MHD_resume_connection(x->mhd);
}

/* MHD must not count the sender's bytes, so it is told no size, and the length is a header of ours.
 * The end of such an answer is for MHD the end of the connection. */
static struct MHD_Response *share_response(struct exchange *x)
{
    const struct mhd *mhd = x->server->mhd;
    char length[24];
    snprintf(length, sizeof(length), "%" PRId64, x->res.source.size);
    struct MHD_Response *r = mhd->MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, HTTP_SOURCE_BYTES, piece_read, x, NULL);
    enum MHD_ResponseFlags flags =
        MHD_RF_HTTP_1_0_COMPATIBLE_STRICT | MHD_RF_INSANITY_HEADER_CONTENT_LENGTH;
    if (!r || (mhd->MHD_set_response_options(r, flags, MHD_RO_END) == MHD_YES &&
               mhd->MHD_add_response_header(r, "Content-Length", length) == MHD_YES))
        return r;
    mhd->MHD_destroy_response(r);
    return NULL;
}

struct MHD_Response *source_response(struct exchange *x)
{
    int64_t size = x->res.source.size;
    x->transfer.share = sender_share(x);
    if (x->transfer.share > 0)
        return share_response(x);
    return x->server->mhd->MHD_create_response_from_callback(
        size < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)size, HTTP_SOURCE_BYTES, piece_read, x, NULL);
}

void source_end(struct exchange *x)
{
    struct http_source source = x->res.source;
    x->res.source = (struct http_source){0};
    if (source.read && source.close)
        source.close(source.arg);
    ty_buf_clear(&x->fetched);
}
