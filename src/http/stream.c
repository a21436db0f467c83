/* stream.c -- request bodies that go to their handler in pieces and are never whole in memory.
 *
 * Two buffers a body: MHD's thread fills one while a worker gives the other to the handler, then
 * they change places. When there is no room the connection is suspended, so that the client's own
 * socket holds it back. All bodies together hold about twice HTTP_STREAM_BYTES: the more there are,
 * the less room each has.
 *
 *   not working --LEAST bytes, or the end--> working: queued, then with a worker
 *   working     --no room--> waiting: suspended until the worker has changed the buffers
 *   working     --nothing left, ended--> the handler runs, and the answer goes its usual way
 *
 * A client that leaves while a worker has its exchange leaves it to that worker (`gone`). */
#include "http/http_int.h"

static size_t stream_room(struct http_server *s)
{
    size_t count = atomic_load(&s->streams);
    size_t room = HTTP_STREAM_BYTES / (count ? count : 1);
    if (room < HTTP_STREAM_LEAST)
        room = HTTP_STREAM_LEAST;
    return room > HTTP_STREAM_MOST ? HTTP_STREAM_MOST : room;
}

void stream_begin(struct exchange *x, http_handler handler)
{
    struct stream *t = &x->stream;
    t->handler = handler;
    pthread_mutex_init(&t->lock, NULL);
    ty_buf_init(&t->filling, HTTP_STREAM_MOST);
    ty_buf_init(&t->piece, HTTP_STREAM_MOST);
    atomic_fetch_add(&x->server->streams, 1);
}

static void stream_clear(struct exchange *x)
{
    struct stream *t = &x->stream;
    if (!t->handler)
        return;
    t->handler = NULL;
    ty_buf_clear(&t->filling);
    ty_buf_clear(&t->piece);
    pthread_mutex_destroy(&t->lock);
    atomic_fetch_sub(&x->server->streams, 1);
}

static int64_t body_deadline(const struct exchange *x)
{
    return x->body_start_ms + HTTP_RATE_GRACE_MS + x->stream.total / HTTP_RATE_BYTES_MS;
}

/* The lock is held. No room is left: hold the client back until the worker has made some. */
static void stream_wait(struct exchange *x)
{
    struct http_server *s = x->server;
    x->stream.waiting = true;
    x->stream.since_ms = ty_boot_ms();
    conn_phase_set(s, x->conn, CONN_WORK, 0);
    s->mhd->MHD_suspend_connection(x->mhd);
}

enum MHD_Result stream_add(struct exchange *x, const char *data, size_t *size)
{
    struct http_server *s = x->server;
    struct stream *t = &x->stream;
    bool submit = false;
    pthread_mutex_lock(&t->lock);
    bool failed = t->failed;
    size_t room = stream_room(s), have = t->filling.len;
    size_t take = failed ? *size : room > have ? room - have : 0;
    take = take < *size ? take : *size;
    t->total += (int64_t)take;
    int64_t deadline_ms = body_deadline(x);
    if (!failed) {
        ty_buf_add(&t->filling, data, take);
        submit = !t->working && t->filling.len >= HTTP_STREAM_LEAST;
        t->working = t->working || submit;
        if (take < *size)
            stream_wait(x); /* a buffer with no room is at least LEAST, so it is being worked on */
        else
            conn_phase_set(s, x->conn, CONN_BODY, deadline_ms);
    }
    int64_t total = t->total;
    pthread_mutex_unlock(&t->lock);
    *size -= take;
    if (failed && x->unanswered) { /* set before `failed` */
        foreign_refused(s);
        return MHD_NO;
    }
    if (failed && total > HTTP_DISCARD_BYTES)
        return refuse_now(x);
    if (failed)
        conn_phase_set(s, x->conn, CONN_BODY, deadline_ms);
    x->task = submit ? TASK_BODY : x->task;
    return !submit || worker_submit(s, x) ? MHD_YES : MHD_NO;
}

enum MHD_Result stream_finish(struct exchange *x)
{
    struct http_server *s = x->server;
    struct stream *t = &x->stream;
    x->step = STEP_WORK;
    conn_phase_set(s, x->conn, CONN_WORK, 0);
    pthread_mutex_lock(&t->lock);
    t->ended = true;
    bool submit = !t->working;
    t->working = true;
    s->mhd->MHD_suspend_connection(x->mhd); /* before a worker can resume it */
    pthread_mutex_unlock(&t->lock);
    if (!submit)
        return MHD_YES;
    x->task = TASK_BODY;
    if (!worker_submit(s, x)) {
        stream_state_end(x);
        x->close_after = true;
        answer_error(x, 503, ty_fail(TY_UNAVAILABLE, "the server is stopping"));
        x->step = STEP_ANSWER;
        s->mhd->MHD_resume_connection(x->mhd);
    }
    return MHD_YES;
}

/* What the module holds for the request (an unfinished upload) may need the disk to end, so a
 * worker does it. */
bool stream_release(struct exchange *x)
{
    struct stream *t = &x->stream;
    if (!t->handler)
        return true;
    pthread_mutex_lock(&t->lock);
    bool working = t->working && x->step == STEP_BODY;
    bool hand_over = !working && x->req.state != NULL;
    t->gone = working || hand_over;
    t->working = t->gone;
    pthread_mutex_unlock(&t->lock);
    if (hand_over) {
        x->task = TASK_BODY;
        if (worker_submit(x->server, x))
            return false;
        stream_state_end(x); /* no worker is left */
    }
    if (working)
        return false;
    stream_clear(x);
    return true;
}

void stream_state_end(struct exchange *x)
{
    void *state = x->req.state;
    x->req.state = NULL;
    if (state && x->req.state_end)
        x->req.state_end(state);
}

/* ---- on a worker ---- */

/* Take what has come; the client goes on sending into the other buffer. True if the client has
 * left. */
static bool stream_take(struct exchange *x)
{
    struct http_server *s = x->server;
    struct stream *t = &x->stream;
    pthread_mutex_lock(&t->lock);
    struct ty_buf empty = t->piece;
    t->piece = t->filling;
    t->filling = empty;
    t->filling.len = 0;
    bool gone = t->gone;
    if (t->waiting) {
        t->waiting = false;
        x->body_start_ms += ty_boot_ms() - t->since_ms; /* our delay is not the client's */
        conn_phase_set(s, x->conn, CONN_BODY, body_deadline(x));
        s->mhd->MHD_resume_connection(x->mhd);
    }
    pthread_mutex_unlock(&t->lock);
    return gone;
}

static void stream_handle(struct exchange *x)
{
    struct stream *t = &x->stream;
    if (t->piece.len == 0 || t->failed)
        return;
    if (exchange_admit(x)) {
        x->req.body = ty_buf_str(&t->piece);
        ty_err err = t->handler(&x->req, &x->res, x->ctx);
        x->req.body = TY_STR("");
        if (err == TY_OK && x->res.status == 0)
            return;
        if (err != TY_OK)
            answer_error(x, ty_err_http(err), err);
    }
    stream_state_end(x);
    pthread_mutex_lock(&t->lock);
    t->failed = true; /* a suspended client is resumed when its buffer is taken next */
    pthread_mutex_unlock(&t->lock);
}

enum verdict { STREAM_MORE, STREAM_IDLE, STREAM_DONE, STREAM_GONE };

/* What now? Decided under the lock, because in every state but MORE and DONE the exchange is no
 * longer this worker's. */
static enum verdict stream_verdict(struct stream *t)
{
    enum verdict verdict = STREAM_IDLE;
    pthread_mutex_lock(&t->lock);
    if (t->gone)
        verdict = STREAM_GONE;
    else if (t->waiting || t->filling.len >= HTTP_STREAM_LEAST || (t->ended && t->filling.len))
        verdict = STREAM_MORE;
    else if (t->ended)
        verdict = STREAM_DONE;
    t->working = verdict != STREAM_IDLE;
    pthread_mutex_unlock(&t->lock);
    return verdict;
}

bool stream_work(struct exchange *x)
{
    for (;;) {
        if (!stream_take(x))
            stream_handle(x);
        switch (stream_verdict(&x->stream)) {
        case STREAM_MORE: /* behind the others, unless the server is stopping */
            if (worker_submit(x->server, x))
                return false;
            continue;
        case STREAM_IDLE:
            return false;
        case STREAM_DONE:
            return true;
        case STREAM_GONE:
            stream_state_end(x);
            stream_clear(x);
            exchange_free(x);
            return false;
        }
    }
}
