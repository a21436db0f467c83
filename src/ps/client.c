/* client.c -- a worker's requests to the servers: one at a time, to some or all of them at once.
 *
 * A request is sent again every second until its answer is here; if nothing at all comes on a
 * connection that should be alive, it is made anew. The signs of life (beat.c) say whether the
 * server is there. What is waited for, and for how long, is told from PS_SILENT_MS on. */
#include "ps/ps_int.h"

enum {
    POLL_MS = 100,
    AGAIN_MS = 1000,  /* a request is sent again */
    REOPEN_MS = 3000, /* a connection that is mute is made anew */
    TELL_MS = 5000,   /* between two lines on the same wait */
    BYE_MS = 2000,    /* to leave is told, but not waited for longer */
    HOLD_BYTES = 240,
};

struct peer {
    void *socket;
    struct ty_buf out, in, next;
    struct ps_frame reply; /* its body is in `in` */
    bool wanted, done;
    bool pushed; /* the push that goes before this pull is acknowledged, by `ack` */
    struct ps_frame ack;
    int64_t sent_ms, mute_ms; /* mute: nothing has come since */
    uint64_t version;         /* of the plain numbers that this worker has */
    char hold[HOLD_BYTES];    /* why there is no answer yet */
    int64_t held_ns;          /* since when another worker is waited for; 0: none is */
    int64_t failing_ms;       /* since when it fails; 0: it does not */
};
struct ps_client {
    struct ps_client_options o;
    const struct zmq *zmq;
    void *context;
    size_t servers;
    struct peer *peers;
    int64_t held_ns; /* it has waited for other workers */
    struct ps_beat beat;
    uint64_t incarnation, sequence, clock, step;
    bool joining;     /* until it is welcome */
    bool in_turn;     /* the last steps are being made, one after another */
    uint64_t pushing; /* sequence of a push in the same message as the pull; 0: none */
    struct ps_traffic traffic;
    int trace_fd;
    int64_t told_ms;
    int64_t most_ms; /* of this request; 0: as long as it takes */
};

/* ---- requests ---- */

static struct ps_frame request(const struct ps_client *c, enum ps_kind kind)
{
    return (struct ps_frame){.kind = kind,
                             .worker = c->o.worker,
                             .cluster = c->o.cluster,
                             .incarnation = c->incarnation,
                             .sequence = c->sequence};
}

static void peer_send(struct ps_client *c, struct peer *p)
{
    p->sent_ms = ty_boot_ms();
    if (c->zmq->zmq_send(p->socket, p->out.ptr, p->out.len, ZMQ_DONTWAIT) >= 0)
        c->traffic.sent += p->out.len; /* else it is not connected: sent again, soon */
    else
        p->sent_ms -= AGAIN_MS - POLL_MS;
}

static ty_err peer_reopen(struct ps_client *c, size_t server)
{
    struct peer *p = &c->peers[server];
    if (p->socket)
        c->zmq->zmq_close(p->socket);
    p->socket = NULL;
    p->mute_ms = ty_boot_ms();
    return zmq_open(c->zmq, c->context, ZMQ_DEALER, c->o.addresses[server], &p->socket);
}

/* ---- answers ---- */

static void text_take(char *to, size_t size, ty_str body)
{
    size_t n = strnlen(body.ptr, body.len);
    n = n < size - 1 ? n : size - 1;
    memcpy(to, body.ptr, n);
    to[n] = '\0';
}

static ty_err frame_take(struct ps_client *c, size_t server, const struct ps_frame *f)
{
    struct peer *p = &c->peers[server];
    bool pushed = c->pushing && f->sequence == c->pushing;
    if (f->sequence != c->sequence && !pushed && f->kind != PS_REFUSED)
        return TY_OK; /* of a request that was sent twice */
    p->mute_ms = ty_boot_ms();
    if (f->kind == PS_REFUSED) {
        text_take(p->hold, sizeof p->hold, f->body);
        return ty_fail(TY_FAILED_PRECONDITION, "ps %zu (%s) refuses %s: %s", server,
                       c->o.addresses[server], c->o.name, p->hold);
    }
    if (f->kind == PS_HOLD || f->kind == PS_FAILED)
        text_take(p->hold, sizeof p->hold, f->body);
    if (f->kind == PS_FAILED && p->failing_ms == 0)
        p->failing_ms = ty_boot_ms();
    if (f->kind == PS_HOLD) {
        p->failing_ms = 0;
        p->held_ns = p->held_ns ? p->held_ns : ty_boot_ns();
    }
    if (f->kind == PS_HOLD || f->kind == PS_FAILED)
        return TY_OK;
    if (pushed) {
        p->pushed = true;
        p->failing_ms = 0;
        p->ack = *f;
    } else if (c->pushing == 0 || p->pushed) { /* else the first answer was lost: it comes again */
        p->reply = *f;
        p->done = true;
        c->held_ns += p->held_ns ? ty_boot_ns() - p->held_ns : 0;
    }
    return TY_OK;
}

/* A message: one answer, or those to a push and to the pull behind it. */
static ty_err replies_read(struct ps_client *c, size_t server)
{
    ty_err err = TY_OK;
    for (ty_str left = ty_buf_str(&c->peers[server].in); err == TY_OK && left.len > 0;) {
        struct ps_frame f;
        size_t bytes;
        if (ps_frame_read(left, &f, &bytes) != TY_OK) { /* it is asked for again */
            log_warn("ps.frame", "ps %zu (%s): %s", server, c->o.addresses[server],
                     ty_err_message());
            return TY_OK;
        }
        err = frame_take(c, server, &f);
        left = ty_str_drop(left, bytes);
    }
    return err;
}

static ty_err replies_take(struct ps_client *c, size_t server)
{
    struct peer *p = &c->peers[server];
    const struct zmq *z = c->zmq;
    zmq_msg_t m;
    ty_err err = TY_OK;
    z->zmq_msg_init(&m);
    while (err == TY_OK && !p->done && z->zmq_msg_recv(&m, p->socket, ZMQ_DONTWAIT) >= 0) {
        p->in.len = 0;
        ty_buf_add(&p->in, z->zmq_msg_data(&m), z->zmq_msg_size(&m));
        c->traffic.received += p->in.len;
        err = replies_read(c, server);
    }
    z->zmq_msg_close(&m);
    return err;
}

/* ---- waiting ---- */

int64_t ps_client_silence(struct ps_client *c, size_t *ret_server)
{
    int64_t most = 0;
    *ret_server = 0;
    for (size_t i = 0; i < c->servers; i++)
        if (ps_beat_silence(&c->beat, i) > most) {
            most = ps_beat_silence(&c->beat, i);
            *ret_server = i;
        }
    return most;
}

/* Why this one has not answered, for people. */
static void wait_describe(struct ps_client *c, size_t server, const char *what, int64_t waited,
                          char *text, size_t size)
{
    const struct peer *p = &c->peers[server];
    int64_t silent = ps_beat_silence(&c->beat, server);
    bool never = !c->beat.heard[server] && p->hold[0] == '\0';
    int n =
        snprintf(text, size, "%s at step %" PRIu64 " has waited %.1f s for %s of ps %zu (%s)",
                 c->o.name, c->step, (double)waited / 1e3, what, server, c->o.addresses[server]);
    if (silent > PS_SILENT_MS || never)
        snprintf(text + n, size - (size_t)n, ", which has not been heard of for %.1f s: it is %s",
                 (double)silent / 1e3,
                 ps_process_state(&(struct ps_process){c->beat.pid[server], c->beat.room[server]}));
    else if (p->failing_ms)
        snprintf(text + n, size - (size_t)n, ", which fails: %s", p->hold);
    else if (p->hold[0])
        snprintf(text + n, size - (size_t)n, ", which waits for %s", p->hold);
    else
        snprintf(text + n, size - (size_t)n, ", which is alive");
}

/* A server that has not answered: ask again, tell, give up. */
static ty_err peer_wait(struct ps_client *c, size_t server, const char *what, int64_t began)
{
    struct peer *p = &c->peers[server];
    int64_t now = ty_boot_ms(), silent = ps_beat_silence(&c->beat, server);
    char text[700];
    ty_err err = TY_OK;
    if (now - p->mute_ms > REOPEN_MS)
        err = peer_reopen(c, server);
    if (err == TY_OK && now - p->sent_ms >= AGAIN_MS)
        peer_send(c, p);
    if (err != TY_OK)
        return err;
    bool failing = p->failing_ms && now - p->failing_ms > c->o.give_up_ms;
    bool unheard = c->beat.heard[server] && !p->failing_ms && p->hold[0] == '\0' &&
                   now - began > 2 * c->o.give_up_ms;
    int64_t most = c->o.give_up_ms * (c->beat.heard[server] ? 1 : PS_FIRST_TIMES);
    bool chiefless = c->joining && p->hold[0] && now - began > PS_FIRST_TIMES * c->o.give_up_ms;
    bool given_up = silent > most || failing || unheard || chiefless;
    bool tell = silent > PS_SILENT_MS || now - began > PS_SILENT_MS;
    if (!given_up && (!tell || now - c->told_ms < TELL_MS))
        return TY_OK;
    wait_describe(c, server, what, now - began, text, sizeof text);
    c->told_ms = now;
    if (given_up)
        return ty_fail(TY_UNAVAILABLE, "%s: given up", text);
    log_warn("ps.waits", "%s", text);
    return TY_OK;
}

static size_t items_make(const struct ps_client *c, zmq_pollitem_t *items, size_t *of)
{
    size_t count = 0;
    for (size_t i = 0; i < c->servers; i++)
        if (c->peers[i].wanted && !c->peers[i].done) {
            items[count] = (zmq_pollitem_t){.socket = c->peers[i].socket, .events = ZMQ_POLLIN};
            of[count++] = i;
        }
    return count;
}

static void call_send(struct ps_client *c)
{
    for (size_t i = 0; i < c->servers; i++) {
        struct peer *p = &c->peers[i];
        p->done = p->pushed = false;
        p->hold[0] = '\0';
        p->failing_ms = p->held_ns = 0;
        p->mute_ms = ty_boot_ms();
        if (p->wanted)
            peer_send(c, p);
    }
}

/* Send what is in the wanted peers' `out`, and have all their answers. */
static ty_err call(struct ps_client *c, const char *what)
{
    zmq_pollitem_t items[PS_MOST_SERVERS];
    size_t of[PS_MOST_SERVERS], count;
    int64_t began = ty_boot_ms(), looked = began;
    ty_err err = TY_OK;
    for (size_t i = 0; i < c->servers && err == TY_OK; i++)
        if (c->peers[i].wanted)
            err = ty_buf_check(&c->peers[i].out, what);
    if (err == TY_OK)
        call_send(c);
    while (err == TY_OK && (count = items_make(c, items, of)) > 0) {
        if (c->most_ms && ty_boot_ms() - began > c->most_ms)
            return ty_fail(TY_DEADLINE_EXCEEDED, "ps %zu (%s) has not answered", of[0],
                           c->o.addresses[of[0]]);
        if (c->most_ms == 0 && *c->o.stopped)
            return ty_fail(TY_CANCELLED, "%s: stopped by %s at step %" PRIu64, c->o.name,
                           *c->o.stopped == SIGINT ? "SIGINT" : "SIGTERM", c->step);
        c->zmq->zmq_poll(items, (int)count, POLL_MS);
        int64_t now = ty_boot_ms();
        if (now - looked > PS_STALL_MS)
            began += now - looked;
        looked = now;
        for (size_t i = 0; i < count && err == TY_OK; i++) {
            err = replies_take(c, of[i]);
            if (err == TY_OK && !c->peers[of[i]].done)
                err = peer_wait(c, of[i], what, began);
        }
    }
    return err;
}

/* The same request to all servers. */
static ty_err call_all(struct ps_client *c, enum ps_kind kind, uint64_t a, uint64_t b, ty_str body,
                       const char *what)
{
    c->sequence++;
    for (size_t i = 0; i < c->servers; i++) {
        struct ps_frame f = request(c, kind);
        f.a = a;
        f.b = b;
        c->peers[i].wanted = true;
        ps_frame_begin(&c->peers[i].out);
        ty_buf_adds(&c->peers[i].out, body);
        ps_frame_end(&c->peers[i].out, &f);
    }
    return call(c, what);
}

/* ---- steps ---- */

static void pull_put(struct ps_client *c, size_t server, const struct ps_part *parts,
                     struct ty_buf *out)
{
    struct ps_frame f = request(c, PS_PULL);
    f.a = c->peers[server].version;
    f.flags = server == 0 ? PS_GATE : 0;
    ps_frame_begin(out);
    for (size_t i = 0; i < c->o.layout.variable_count; i++)
        if (c->o.layout.variables[i].width)
            ps_rows_put(out, &c->o.layout, server, i,
                        &(struct ps_part){parts[i].ids, parts[i].count, NULL});
    ps_frame_end(out, &f);
}

/* What came, to its places. */
static ty_err values_take(struct ps_client *c, size_t server, const struct ps_part *parts)
{
    const struct ps_layout *l = &c->o.layout;
    struct peer *p = &c->peers[server];
    struct ps_segment segment = {0};
    const float *at = (const float *)(const void *)p->reply.body.ptr;
    bool all = p->reply.flags & PS_ALL;
    size_t floats = all ? ps_layout_plain(l, server) : 0;
    for (size_t i = 0; i < l->variable_count; i++)
        for (size_t k = 0; k < parts[i].count && l->variables[i].width; k++)
            floats += parts[i].ids[k] % l->servers == server ? l->variables[i].width : 0;
    if (p->reply.kind != PS_VALUES || p->reply.body.len != floats * sizeof(float))
        return ty_fail(TY_DATA_LOSS, "ps %zu sent %zu bytes of values, not %zu", server,
                       p->reply.body.len, floats * sizeof(float));
    while (all && ps_layout_next(l, server, &segment)) {
        memcpy(l->variables[segment.variable].arrays[0] + segment.from, at,
               segment.count * sizeof(float));
        at += segment.count;
    }
    for (size_t i = 0; i < l->variable_count; i++) {
        size_t width = l->variables[i].width;
        for (size_t k = 0; k < parts[i].count && width; k++)
            if (parts[i].ids[k] % l->servers == server) {
                memcpy(l->variables[i].arrays[0] + parts[i].ids[k] * width, at,
                       width * sizeof(float));
                at += width;
            }
    }
    p->version = p->reply.a;
    return TY_OK;
}

static void want(struct ps_client *c, size_t from, size_t to)
{
    for (size_t i = 0; i < c->servers; i++)
        c->peers[i].wanted = i >= from && i < to;
}

/* The first server has answered a pull: did it let this worker begin a step? */
static bool gate_passed(struct ps_client *c)
{
    const struct ps_frame *f = &c->peers[0].reply;
    if ((f->flags & PS_OVER) && f->body.len == 0)
        return false;
    c->clock = f->c;
    c->step = f->b;
    c->in_turn = f->flags & PS_IN_TURN;
    return true;
}

/* Are the other servers asked only when the first has let it begin? Else what it waits for makes
 * their values old. */
static bool gate_is_first(const struct ps_client *c)
{
    return c->o.bounded || c->in_turn;
}

ty_err ps_client_pull(struct ps_client *c, const struct ps_part *parts, bool *ret_over)
{
    c->sequence++;
    for (size_t i = 0; i < c->servers; i++)
        pull_put(c, i, parts, &c->peers[i].out);
    bool first = gate_is_first(c);
    want(c, 0, first ? 1 : c->servers);
    ty_err err = call(c, "values");
    *ret_over = err == TY_OK && !gate_passed(c);
    if (err != TY_OK || *ret_over)
        return err;
    if (first && c->servers > 1) {
        err = values_take(c, 0, parts);
        want(c, 1, c->servers);
        if (err == TY_OK)
            err = call(c, "values");
    }
    for (size_t i = 0; i < c->servers && err == TY_OK; i++)
        if (c->peers[i].wanted)
            err = values_take(c, i, parts);
    return err;
}

static void push_put(struct ps_client *c, size_t server, const struct ps_part *parts, float scale)
{
    const struct ps_layout *l = &c->o.layout;
    struct peer *p = &c->peers[server];
    struct ps_frame f = request(c, PS_PUSH);
    struct ps_segment segment = {0};
    f.c = c->clock;
    ps_frame_begin(&p->out);
    ty_buf_add(&p->out, &scale, sizeof scale);
    while (ps_layout_next(l, server, &segment))
        ty_buf_add(&p->out, parts[segment.variable].gradient + segment.from,
                   segment.count * sizeof(float));
    for (size_t i = 0; i < l->variable_count; i++)
        if (l->variables[i].width)
            ps_rows_put(&p->out, l, server, i, &parts[i]);
    ps_frame_end(&p->out, &f);
}

/* The first server's acknowledgement of a push. */
static void pushed_take(struct ps_client *c, const struct ps_frame *ack, uint64_t *ret_step)
{
    *ret_step = c->step = ack->b;
    c->in_turn = ack->flags & PS_IN_TURN;
    if (ack->c != 0) /* the last step was made without this one */
        return;
    c->traffic.updates++;
    ps_trace(c->trace_fd,
             "\"event\":\"acknowledged\",\"worker\":%" PRIu32 ",\"incarnation\":%" PRIu64
             ",\"sequence\":%" PRIu64,
             c->o.worker, c->incarnation, ack->sequence);
}

ty_err ps_client_push(struct ps_client *c, const struct ps_part *parts, float scale,
                      uint64_t *ret_step)
{
    c->sequence++;
    for (size_t i = 0; i < c->servers; i++)
        push_put(c, i, parts, scale);
    want(c, 0, c->servers);
    ty_err err = call(c, "an acknowledgement");
    if (err == TY_OK)
        pushed_take(c, &c->peers[0].reply, ret_step);
    return err;
}

ty_err ps_client_push_pull(struct ps_client *c, const struct ps_part *parts, float scale,
                           const struct ps_part *next, uint64_t *ret_step, bool *ret_over)
{
    if (gate_is_first(c)) {
        ty_err err = ps_client_push(c, parts, scale, ret_step);
        return err == TY_OK ? ps_client_pull(c, next, ret_over) : err;
    }
    c->pushing = ++c->sequence;
    for (size_t i = 0; i < c->servers; i++)
        push_put(c, i, parts, scale);
    c->sequence++;
    for (size_t i = 0; i < c->servers; i++) {
        struct peer *p = &c->peers[i];
        pull_put(c, i, next, &p->next);
        ty_buf_adds(&p->out, ty_buf_str(&p->next));
    }
    want(c, 0, c->servers);
    ty_err err = call(c, "an acknowledgement");
    c->pushing = 0;
    if (err != TY_OK)
        return err;
    pushed_take(c, &c->peers[0].ack, ret_step);
    *ret_over = !gate_passed(c);
    for (size_t i = 0; i < c->servers && err == TY_OK && !*ret_over; i++)
        err = values_take(c, i, next);
    return err;
}

/* ---- reading all ---- */

static ty_err piece_fetch(struct ps_client *c, size_t server, const struct ps_piece *piece)
{
    const struct ps_layout *l = &c->o.layout;
    struct peer *p = &c->peers[server];
    c->sequence++;
    struct ps_frame f = request(c, PS_READ);
    ps_frame_begin(&p->out);
    ps_piece_put(&p->out, piece);
    ps_frame_end(&p->out, &f);
    want(c, server, server + 1);
    ty_err err = call(c, "all numbers");
    if (err != TY_OK)
        return err;
    if (p->reply.kind != PS_NUMBERS ||
        p->reply.body.len != ps_piece_floats(l, piece) * sizeof(float))
        return ty_fail(TY_DATA_LOSS, "ps %zu sent %zu bytes of a piece", server, p->reply.body.len);
    ps_piece_copy(l, server, piece, NULL, (const float *)(const void *)p->reply.body.ptr);
    return TY_OK;
}

ty_err ps_client_read(struct ps_client *c, uint64_t *ret_step)
{
    ty_err err = TY_OK;
    for (size_t i = c->servers; i-- > 0 && err == TY_OK;) {
        struct ps_piece piece = {0};
        while (err == TY_OK && ps_piece_next(&c->o.layout, i, &piece))
            err = piece_fetch(c, i, &piece);
        c->peers[i].version = UINT64_MAX;
    }
    if (err == TY_OK && c->peers[0].done)
        c->step = c->peers[0].reply.b;
    *ret_step = c->step;
    return err;
}

int64_t ps_client_held_ns(const struct ps_client *c)
{
    return c->held_ns;
}

ty_err ps_client_tell(struct ps_client *c, const void *own, void *ret_all, size_t workers)
{
    struct peer *p = &c->peers[0];
    size_t each = PS_WORDS * sizeof(int64_t);
    c->sequence++;
    struct ps_frame f = request(c, PS_TELL);
    ps_frame_begin(&p->out);
    ty_buf_add(&p->out, own, each);
    ps_frame_end(&p->out, &f);
    want(c, 0, 1);
    ty_err err = call(c, "the times of all workers");
    if (err != TY_OK)
        return err;
    if (p->reply.kind != PS_TOLD || p->reply.body.len != workers * each)
        return ty_fail(TY_DATA_LOSS, "ps 0 sent %zu bytes of times, not %zu", p->reply.body.len,
                       workers * each);
    memcpy(ret_all, p->reply.body.ptr, p->reply.body.len);
    return TY_OK;
}

/* ---- coming and going ---- */

ty_err ps_client_join(struct ps_client *c, const struct ps_layout *l, const struct ps_run *run,
                      struct ps_joined *ret_joined)
{
    c->o.layout = *l;
    c->joining = true;
    char hello[PS_HELLO_BYTES]; /* the process: one may die before its first sign of life */
    wire_store_le64(hello, c->beat.frame.a);
    wire_store_le64(hello + 8, c->beat.frame.b);
    for (size_t i = 0; i < PS_SETTINGS; i++)
        wire_store_le64(hello + 16 + 8 * i, run->settings[i]);
    const ty_str body = {hello, sizeof hello};
    ty_err err = call_all(c, PS_HELLO, run->id, run->steps, body, "a welcome");
    c->joining = false;
    if (err != TY_OK)
        return err;
    *ret_joined = (struct ps_joined){c->peers[0].reply.b, c->peers[0].reply.a};
    c->step = ret_joined->step;
    for (size_t i = 0; i < c->servers; i++) { /* clocks of machines differ: be later than before */
        if (c->peers[i].reply.c >= c->incarnation)
            c->incarnation = c->peers[i].reply.c + 1;
        c->peers[i].version = UINT64_MAX;
    }
    c->beat.incarnation = c->incarnation;
    return TY_OK;
}

ty_err ps_client_keep(struct ps_client *c)
{
    return call_all(c, PS_KEEP, 0, 0, (ty_str){0}, "a snapshot");
}

ty_err ps_client_stop(struct ps_client *c)
{
    return call_all(c, PS_STOP, 0, 0, (ty_str){0}, "the end of the steps");
}

/* Servers that are gone already need not be told. */
static ty_err last_call(struct ps_client *c, enum ps_kind kind, const char *what)
{
    int64_t most_ms = c->most_ms;
    c->most_ms = BYE_MS;
    ty_err err = call_all(c, kind, 0, 0, (ty_str){0}, what);
    c->most_ms = most_ms;
    if (err == TY_DEADLINE_EXCEEDED) {
        log_warn("ps.left", "%s: %s", c->o.name, ty_err_message());
        err = TY_OK;
    }
    return err;
}

ty_err ps_client_bye(struct ps_client *c)
{
    return last_call(c, PS_BYE, "a farewell");
}

ty_err ps_client_end(struct ps_client *c)
{
    return last_call(c, PS_END, "its end");
}

void ps_client_hurry(struct ps_client *c, int64_t most_ms)
{
    c->most_ms = most_ms;
}

void ps_client_traffic(const struct ps_client *c, struct ps_traffic *ret)
{
    *ret = c->traffic;
    ret->sent += c->beat.bytes;
}

ty_err ps_client_new(const struct ps_client_options *o, struct ps_client **ret_client)
{
    struct ps_client *c = calloc(1, sizeof *c);
    ty_assert(c);
    c->o = *o;
    c->servers = o->layout.servers;
    c->trace_fd = -1;
    c->incarnation = (uint64_t)ty_now_ns();
    c->peers = calloc(c->servers, sizeof *c->peers);
    ty_assert(c->peers && c->servers > 0 && c->servers <= PS_MOST_SERVERS);
    ty_err err = zmq_load(&c->zmq);
    if (err == TY_OK)
        err = ps_trace_open(o->trace, &c->trace_fd);
    if (err == TY_OK)
        c->context = c->zmq->zmq_ctx_new();
    for (size_t i = 0; i < c->servers; i++) {
        ty_buf_init(&c->peers[i].out, PS_FRAME_BYTES);
        ty_buf_init(&c->peers[i].in, PS_FRAME_BYTES);
        ty_buf_init(&c->peers[i].next, PS_FRAME_BYTES);
        c->peers[i].version = UINT64_MAX;
        if (err == TY_OK)
            err = peer_reopen(c, i);
    }
    c->beat.zmq = c->zmq;
    c->beat.context = c->context;
    c->beat.addresses = o->addresses;
    c->beat.servers = c->servers;
    c->beat.incarnation = c->incarnation;
    c->beat.frame = request(c, PS_PING);
    struct ps_process self = ps_process_self();
    c->beat.frame.a = self.pid;
    c->beat.frame.b = self.room;
    if (err == TY_OK)
        err = ps_beat_start(&c->beat);
    if (err == TY_OK)
        *ret_client = c;
    else
        ps_client_free(c);
    return err;
}

void ps_client_free(struct ps_client *c)
{
    if (c == NULL)
        return;
    ps_beat_stop(&c->beat);
    for (size_t i = 0; i < c->servers; i++) {
        if (c->peers[i].socket)
            c->zmq->zmq_close(c->peers[i].socket);
        ty_buf_clear(&c->peers[i].out);
        ty_buf_clear(&c->peers[i].in);
        ty_buf_clear(&c->peers[i].next);
    }
    if (c->context)
        c->zmq->zmq_ctx_term(c->context);
    if (c->trace_fd >= 0)
        close(c->trace_fd);
    free(c->peers);
    free(c);
}
