/* beat.c -- a worker's signs of life: a ping to each server twice a second, on connections of their
 * own, whatever the worker computes; the answers say which server is alive. */
#include "ps/ps_int.h"

enum { BEAT_MS = 500, FIRST_MS = 50, POLL_MS = 50 };

struct wires {
    void *sockets[PS_MOST_SERVERS];
    struct ty_buf ping;
    int64_t sent_ms;
};

static void pings_send(struct ps_beat *b, struct wires *w)
{
    b->frame.sequence++;
    b->frame.incarnation = b->incarnation;
    ps_frame_begin(&w->ping);
    ps_frame_end(&w->ping, &b->frame);
    for (size_t i = 0; i < b->servers; i++) /* one that is not connected gets none: it is silent */
        if (b->zmq->zmq_send(w->sockets[i], w->ping.ptr, w->ping.len, ZMQ_DONTWAIT) >= 0)
            b->bytes += w->ping.len;
    w->sent_ms = ty_boot_ms();
}

static void pongs_take(struct ps_beat *b, struct wires *w, size_t server)
{
    zmq_msg_t m;
    b->zmq->zmq_msg_init(&m);
    while (b->zmq->zmq_msg_recv(&m, w->sockets[server], ZMQ_DONTWAIT) >= 0) {
        struct ps_frame f;
        ty_str bytes = {b->zmq->zmq_msg_data(&m), b->zmq->zmq_msg_size(&m)};
        if (ps_frame_read(bytes, &f, NULL) == TY_OK && f.kind == PS_PONG) {
            b->heard_ms[server] = ty_boot_ms();
            b->heard[server] = true;
            b->pid[server] = f.a;
            b->room[server] = f.b;
        }
    }
    b->zmq->zmq_msg_close(&m);
}

/* Pings say which process this is: until each server has had one they come often, or a worker that
 * dies in its first moments would be an unknown one. */
static int64_t pause_ms(const struct ps_beat *b)
{
    for (size_t i = 0; i < b->servers; i++)
        if (!b->heard[i])
            return FIRST_MS;
    return BEAT_MS;
}

/* Answers were taken just now. If this process stood still meanwhile its servers were not silent.
 */
static void look_note(struct ps_beat *b)
{
    int64_t now = ty_boot_ms(), since = now - b->looked_ms;
    for (size_t i = 0; i < b->servers && since > PS_STALL_MS; i++)
        b->heard_ms[i] += since;
    b->looked_ms = now;
}

int64_t ps_beat_silence(const struct ps_beat *b, size_t server)
{
    int64_t silent = b->looked_ms - b->heard_ms[server];
    return silent > 0 ? silent : 0;
}

static void *beat_run(void *arg)
{
    struct ps_beat *b = arg;
    struct wires *w = calloc(1, sizeof *w);
    zmq_pollitem_t *items = calloc(b->servers, sizeof *items);
    ty_assert(w && items);
    ty_buf_init(&w->ping, 1 << 12);
    ty_err err = TY_OK;
    for (size_t i = 0; i < b->servers && err == TY_OK; i++) {
        err = zmq_open(b->zmq, b->context, ZMQ_DEALER, b->addresses[i], &w->sockets[i]);
        items[i] = (zmq_pollitem_t){.socket = w->sockets[i], .events = ZMQ_POLLIN};
    }
    if (err != TY_OK)
        log_error("ps.beat", "%s", ty_err_message());
    while (err == TY_OK && !b->stop) {
        if (ty_boot_ms() - w->sent_ms >= pause_ms(b))
            pings_send(b, w);
        if (b->zmq->zmq_poll(items, (int)b->servers, POLL_MS) < 0)
            continue;
        for (size_t i = 0; i < b->servers; i++)
            if (items[i].revents & ZMQ_POLLIN)
                pongs_take(b, w, i);
        look_note(b);
    }
    for (size_t i = 0; i < b->servers; i++)
        if (w->sockets[i])
            b->zmq->zmq_close(w->sockets[i]);
    ty_buf_clear(&w->ping);
    free(items);
    free(w);
    return NULL;
}

ty_err ps_beat_start(struct ps_beat *b)
{
    b->looked_ms = ty_boot_ms();
    for (size_t i = 0; i < b->servers; i++)
        b->heard_ms[i] = b->looked_ms;
    int rc = pthread_create(&b->thread, NULL, beat_run, b);
    if (rc != 0)
        return ty_fail_errno(rc, "no thread for signs of life");
    b->running = true;
    return TY_OK;
}

void ps_beat_stop(struct ps_beat *b)
{
    if (!b->running)
        return;
    b->stop = true;
    pthread_join(b->thread, NULL);
    b->running = false;
}
