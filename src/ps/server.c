/* server.c -- a parameter server: one thread that answers frames, one after another.
 *
 * A request that cannot be understood is answered once with why and changes nothing. A pull that
 * must wait (members.c) is kept, and its worker is told once a second what it waits for. */
#include "ps/ps_int.h"

enum {
    TICK_MS = 100,
    HOLD_MS = 1000, /* between two notices to one that waits */
    DRAIN = 256,    /* frames before the clock is looked at */
    LAST_MS = 1000, /* after the end, for those who did not get its answer */
    STOP_MS = 3000, /* after a signal, for workers that got it, too, and want to save */
    FLUSH_MS = 200, /* for the answer to be on its way */
    ALONE_MS = 10000,
};

struct server {
    const struct ps_server_options *o;
    const struct zmq *zmq;
    void *context, *socket;
    struct ps_state state;
    struct ps_members members;
    struct ty_arena arena;
    struct ty_buf in, out;
    struct ty_buf first;     /* an answer that goes with the next one */
    bool followed;           /* the frame that is being answered has another behind it */
    bool moved;              /* an update was made: who waits may go on */
    unsigned char route[64]; /* of the frame that is being answered */
    size_t route_bytes;
    struct ps_traffic traffic;
    struct ps_process self;
    int64_t heard_ms, ticked_ms, ended_ms; /* ended: 0, or when the chief said so */
    int64_t alone_ms;                      /* when it last said that nobody has come */
    int64_t stopping_ms;                   /* 0, or when a signal came */
    bool heard;
    size_t strange; /* messages since they were told of, at strange_ms */
    int64_t strange_ms;
    struct ps_watcher watcher;
    size_t snapshot_at; /* bytes of log */
    char failing[400];  /* why the last push could not be logged; empty: it was */
    ty_err fatal;       /* what ends it */
};

/* ---- answers ---- */

static void send_to(struct server *s, const unsigned char *route, size_t bytes)
{
    const struct zmq *z = s->zmq;
    struct ty_buf *b = s->first.len > 0 ? &s->first : &s->out;
    if (b == &s->first)
        ty_buf_adds(b, ty_buf_str(&s->out));
    if (s->out.full || b->full) {
        log_error("ps.answer", "an answer has more than %d bytes: more servers are needed",
                  PS_FRAME_BYTES);
        return;
    }
    /* one whose connection is gone, or whose queue is full, asks again */
    if (bytes > 0 && z->zmq_send(s->socket, route, bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        z->zmq_send(s->socket, b->ptr, b->len, ZMQ_DONTWAIT) >= 0)
        s->traffic.sent += b->len;
    s->first.len = 0;
}

static struct ps_frame answer_to(const struct server *s, const struct ps_frame *f,
                                 enum ps_kind kind)
{
    bool in_turn = s->state.begun && ps_members_in_turn(&s->members, s->state.version);
    return (struct ps_frame){.kind = kind,
                             .worker = f->worker,
                             .flags = (s->state.over ? PS_OVER : 0) | (in_turn ? PS_IN_TURN : 0),
                             .cluster = s->o->cluster,
                             .incarnation = f->incarnation,
                             .sequence = f->sequence,
                             .a = s->state.version,
                             .b = s->state.version};
}

static void answer(struct server *s, const struct ps_frame *reply)
{
    ps_frame_end(&s->out, reply);
    if (s->followed && reply->kind == PS_DONE)
        ty_buf_adds(&s->first, ty_buf_str(&s->out));
    else
        send_to(s, s->route, s->route_bytes);
}

static void answer_text(struct server *s, const struct ps_frame *f, enum ps_kind kind,
                        const char *text)
{
    struct ps_frame reply = answer_to(s, f, kind);
    ps_frame_begin(&s->out);
    ty_buf_addz(&s->out, text);
    answer(s, &reply);
}

static void answer_plain(struct server *s, const struct ps_frame *f, enum ps_kind kind)
{
    answer_text(s, f, kind, "");
}

/* ---- pulls ---- */

/* The plain range if it is newer than what the worker has, then the rows it asked for. */
static ty_err values_put(struct server *s, const struct ps_frame *f, struct ps_frame *reply)
{
    const struct ps_layout *l = &s->o->layout;
    struct ps_segment segment = {0};
    struct ps_cursor c = {f->body};
    struct ps_rows rows;
    ty_err err;
    if (f->a != s->state.version)
        reply->flags |= PS_ALL;
    while (f->a != s->state.version && ps_layout_next(l, s->o->index, &segment))
        ty_buf_add(&s->out, l->variables[segment.variable].arrays[0] + segment.from,
                   segment.count * sizeof(float));
    while ((err = ps_rows_next(l, s->o->index, false, &c, &rows)) == TY_OK) {
        const struct ps_variable *v = &l->variables[rows.variable];
        s->o->store.ready(s->o->store.ctx, rows.variable, rows.ids, rows.count);
        for (size_t i = 0; i < rows.count; i++)
            ty_buf_add(&s->out, v->arrays[0] + rows.ids[i] * v->width, v->width * sizeof(float));
    }
    return err == TY_OUT_OF_RANGE ? TY_OK : err;
}

static void pull_answer(struct server *s, const struct ps_frame *f)
{
    struct ps_member *m = &s->members.list[f->worker];
    struct ps_frame reply = answer_to(s, f, PS_VALUES);
    size_t who;
    reply.c = m->clock;
    ps_frame_begin(&s->out);
    if (s->state.over && (f->flags & PS_GATE)) {
        answer(s, &reply);
        return;
    }
    ty_err err = values_put(s, f, &reply);
    if (err != TY_OK) {
        answer_text(s, f, PS_REFUSED, ty_err_message());
        return;
    }
    if (f->flags & PS_GATE) {
        m->begun = true;
        m->pulled = f->sequence;
        ps_trace(s->state.trace_fd,
                 "\"event\":\"pull\",\"worker\":%" PRIu32 ",\"incarnation\":%" PRIu64
                 ",\"clock\":%" PRIu64 ",\"least\":%" PRIu64 ",\"version\":%" PRIu64,
                 f->worker, f->incarnation, m->clock, ps_members_least(&s->members, &who),
                 s->state.version);
    }
    answer(s, &reply);
}

static bool pull_may(struct server *s, const struct ps_frame *f, size_t *ret_who)
{
    *ret_who = f->worker;
    return !(f->flags & PS_GATE) || s->state.over ||
           ps_members_gate(&s->members, f->worker, s->members.list[f->worker].clock,
                           s->state.version, ret_who);
}

/* What is answered next goes to one that was kept waiting. */
static void held_route(struct server *s, const struct ps_member *m)
{
    memcpy(s->route, m->held.route, m->held.route_bytes);
    s->route_bytes = m->held.route_bytes;
}

/* Whose push cannot be logged is not who is to blame: then it is this server that is waited for. */
static void hold_tell(struct server *s, struct ps_member *m, size_t who)
{
    char text[200];
    snprintf(text, sizeof text, "%s, which is at its step %" PRIu64, s->o->workers[who],
             s->members.list[who].clock);
    held_route(s, m);
    if (s->failing[0])
        answer_text(s, &m->held.frame, PS_FAILED, s->failing);
    else
        answer_text(s, &m->held.frame, PS_HOLD, text);
    m->told_ms = ty_boot_ms();
}

/* Its answer comes later. */
static void held_keep(const struct server *s, struct ps_member *m, const struct ps_frame *f)
{
    m->held.waits = true;
    m->held.frame = *f;
    m->held.bytes.len = 0;
    ty_buf_adds(&m->held.bytes, f->body);
    m->held.frame.body = ty_buf_str(&m->held.bytes);
    memcpy(m->held.route, s->route, s->route_bytes);
    m->held.route_bytes = s->route_bytes;
}

static void pull_take(struct server *s, const struct ps_frame *f)
{
    struct ps_member *m = &s->members.list[f->worker];
    size_t who;
    bool again = m->begun && m->pulled == f->sequence; /* its answer was lost, or is on its way */
    m->held.waits = false;
    m->begun = again || (m->begun && !(f->flags & PS_GATE));
    if (again || pull_may(s, f, &who)) {
        pull_answer(s, f);
        return;
    }
    held_keep(s, m, f);
    hold_tell(s, m, who);
}

/* Somebody came on, or left: who may begin now? */
static void held_try(struct server *s)
{
    for (size_t i = 0; i < s->members.count; i++) {
        struct ps_member *m = &s->members.list[i];
        size_t who;
        if (!m->held.waits || m->held.frame.kind == PS_HELLO)
            continue;
        if (pull_may(s, &m->held.frame, &who)) {
            m->held.waits = false;
            held_route(s, m);
            pull_answer(s, &m->held.frame);
        } else if (ty_boot_ms() - m->told_ms >= HOLD_MS) {
            hold_tell(s, m, who);
        }
    }
}

/* ---- the other requests ---- */

static void welcome(struct server *s, const struct ps_frame *f)
{
    struct ps_member *m = &s->members.list[f->worker];
    ty_err err = ps_state_begin(&s->state, f->a, f->b);
    if (err == TY_FAILED_PRECONDITION && f->worker != 0) { /* the run is as the chief says */
        answer_text(s, f, PS_REFUSED,
                    "it has other training data, or another number of steps, than the run that the "
                    "parameter servers have: all replicas need the same");
        return;
    }
    if (err != TY_OK) {
        log_warn("ps.begin", "%s: %s", s->o->name, ty_err_message());
        answer_text(s, f, err == TY_FAILED_PRECONDITION ? PS_REFUSED : PS_FAILED, ty_err_message());
        return;
    }
    m->begun = m->held.waits = false;
    memset(m->told, 0, sizeof m->told);
    struct ps_frame reply = answer_to(s, f, PS_WELCOME);
    reply.a = m->pushes;
    reply.c = m->incarnation;
    ps_frame_begin(&s->out);
    answer(s, &reply);
    ps_trace(s->state.trace_fd,
             "\"event\":\"hello\",\"worker\":%" PRIu32 ",\"incarnation\":%" PRIu64
             ",\"clock\":%" PRIu64,
             f->worker, f->incarnation, m->clock);
}

/* The first setting that a worker has another of than this server; PS_SETTINGS: none. */
static size_t setting_differs(const struct server *s, ty_str hello)
{
    size_t i = 0;
    while (i < PS_SETTINGS && wire_load_le64(hello.ptr + 16 + 8 * i) == s->o->settings[i])
        i++;
    return i;
}

/* The chief, member 0, says what the run is: a worker with other flags that came before it would
 * make the chief the odd one. Who is earlier waits. */
static void hello_take(struct server *s, const struct ps_frame *f)
{
    char text[200];
    bool begun = s->state.begun;
    if (f->body.len != PS_HELLO_BYTES) {
        answer_text(s, f, PS_REFUSED, "it is of another version of trainyard");
        return;
    }
    s->members.list[f->worker].process =
        (struct ps_process){wire_load_le64(f->body.ptr), wire_load_le64(f->body.ptr + 8)};
    size_t differs = setting_differs(s, f->body);
    if (differs < PS_SETTINGS) {
        snprintf(text, sizeof text, "it has another %s than %s: all replicas need the same",
                 s->o->setting_names[differs], s->o->name);
        answer_text(s, f, PS_REFUSED, text);
        return;
    }
    if (!begun && f->worker != 0) {
        held_keep(s, &s->members.list[f->worker], f);
        ps_trace(s->state.trace_fd, "\"event\":\"early\",\"worker\":%" PRIu32, f->worker);
        snprintf(text, sizeof text, "%s, which says what the run is", s->o->workers[0]);
        answer_text(s, f, PS_HOLD, text);
        return;
    }
    welcome(s, f);
    for (size_t i = 1; !begun && s->state.begun && i < s->members.count; i++) {
        struct ps_member *m = &s->members.list[i];
        if (!m->held.waits)
            continue;
        m->held.waits = false;
        held_route(s, m);
        welcome(s, &m->held.frame);
    }
}

/* M3; one that was applied and comes again is not late. */
static bool push_is_late(const struct server *s, const struct ps_frame *f)
{
    const struct ps_member *m = &s->members.list[f->worker];
    return s->o->index == 0 && s->state.version >= s->members.steps &&
           (f->incarnation > m->incarnation || f->sequence > m->sequence);
}

static void push_take(struct server *s, const struct ps_frame *f)
{
    bool is_new;
    if (s->ended_ms) {
        answer_text(s, f, PS_REFUSED, "the run is over");
        return;
    }
    if (push_is_late(s, f)) {
        struct ps_frame reply = answer_to(s, f, PS_DONE);
        reply.c = 1;
        ps_frame_begin(&s->out);
        answer(s, &reply);
        return;
    }
    const ty_str bytes = {f->body.ptr - PS_HEADER_BYTES, PS_HEADER_BYTES + f->body.len};
    ty_err err = ps_state_push(&s->state, f, bytes, &is_new);
    if (err == TY_DATA_LOSS)
        s->fatal = err;
    if (err != TY_OK) { /* what is not the worker's fault may pass: a disk that is full */
        bool refused = err == TY_INVALID_ARGUMENT || err == TY_ABORTED;
        if (!refused)
            snprintf(s->failing, sizeof s->failing, "%s", ty_err_message());
        log_warn("ps.push", "%s: %s", s->o->name, ty_err_message());
        answer_text(s, f, refused ? PS_REFUSED : PS_FAILED, ty_err_message());
        return;
    }
    s->failing[0] = '\0';
    s->traffic.updates += is_new;
    if (s->o->index == 0 && s->state.version >= s->members.steps)
        s->state.over = true;
    answer_plain(s, f, PS_DONE);
    s->moved |= is_new;
}

static void read_take(struct server *s, const struct ps_frame *f)
{
    const struct ps_layout *l = &s->o->layout;
    struct ps_piece p;
    if (ps_piece_read(l, s->o->index, f->body, &p) != TY_OK) {
        answer_text(s, f, PS_REFUSED, ty_err_message());
        return;
    }
    size_t floats = ps_piece_floats(l, &p);
    float *room = malloc(floats * sizeof *room);
    uint32_t *ids = calloc(p.count, sizeof *ids);
    ty_assert(room && ids);
    for (size_t i = 0; i < p.count && l->variables[p.variable].width; i++)
        ids[i] = (uint32_t)(s->o->index + (p.from + i) * l->servers);
    if (l->variables[p.variable].width)
        s->o->store.ready(s->o->store.ctx, p.variable, ids, p.count);
    ps_piece_copy(l, s->o->index, &p, room, NULL);
    struct ps_frame reply = answer_to(s, f, PS_NUMBERS);
    ps_frame_begin(&s->out);
    ty_buf_add(&s->out, room, floats * sizeof *room);
    answer(s, &reply);
    free(room);
    free(ids);
}

static void snapshot_try(struct server *s)
{
    if (!s->state.begun)
        return;
    if (ps_state_snapshot(&s->state) != TY_OK)
        log_warn("ps.snapshot", "%s; the log goes on", ty_err_message());
    s->snapshot_at = s->state.log_bytes + s->o->log_bytes;
}

/* Answered when those who had begun a step have pushed it: what is read next is the last. */
static void stop_take(struct server *s, const struct ps_frame *f)
{
    char text[100];
    if (!s->state.over) {
        s->state.over = true;
        snapshot_try(s);
    }
    held_try(s);
    for (size_t i = 0; i < s->members.count; i++)
        if (i != f->worker && s->members.list[i].live && s->members.list[i].begun) {
            snprintf(text, sizeof text, "the last step of %s", s->o->workers[i]);
            answer_text(s, f, PS_HOLD, text);
            return;
        }
    answer_plain(s, f, PS_DONE);
}

/* The state is gone before the chief hears that it may go: a next run must not find it. */
static void end_take(struct server *s, const struct ps_frame *f)
{
    s->fatal = s->ended_ms ? TY_OK : ps_state_remove(&s->state);
    if (s->fatal != TY_OK)
        return;
    s->state.over = true;
    s->members.list[f->worker].live = false;
    s->ended_ms = ty_boot_ms();
    answer_plain(s, f, PS_DONE);
    held_try(s);
}

static void bye_take(struct server *s, const struct ps_frame *f)
{
    struct ps_member *m = &s->members.list[f->worker];
    m->live = m->begun = m->held.waits = false;
    memset(m->told, 0, sizeof m->told);
    ps_trace(s->state.trace_fd, "\"event\":\"bye\",\"worker\":%" PRIu32, f->worker);
    answer_plain(s, f, PS_DONE);
    held_try(s);
}

static void pong_answer(struct server *s, const struct ps_frame *f)
{
    struct ps_frame reply = answer_to(s, f, PS_PONG);
    reply.a = s->self.pid;
    reply.b = s->self.room;
    ps_frame_begin(&s->out);
    answer(s, &reply);
}

static void ping_take(struct server *s, const struct ps_frame *f)
{
    s->members.list[f->worker].process = (struct ps_process){f->a, f->b};
    pong_answer(s, f);
}

static void tell_take(struct server *s, const struct ps_frame *f)
{
    struct ps_frame reply = answer_to(s, f, PS_TOLD);
    if (f->body.len != sizeof s->members.list->told) {
        answer_text(s, f, PS_REFUSED, "what it tells of itself has another size");
        return;
    }
    memcpy(s->members.list[f->worker].told, f->body.ptr, f->body.len);
    ps_frame_begin(&s->out);
    for (size_t i = 0; i < s->members.count; i++)
        ty_buf_add(&s->out, s->members.list[i].told, sizeof s->members.list[i].told);
    answer(s, &reply);
}

static void keep_take(struct server *s, const struct ps_frame *f)
{
    snapshot_try(s);
    answer_plain(s, f, PS_DONE);
}

/* By kind; `run`: only when the run is known. */
static const struct {
    enum ps_kind kind;
    bool run;
    void (*take)(struct server *s, const struct ps_frame *f);
} REQUESTS[] = {
    {PS_HELLO, false, hello_take}, {PS_PING, false, ping_take}, {PS_PULL, true, pull_take},
    {PS_PUSH, true, push_take},    {PS_READ, true, read_take},  {PS_KEEP, true, keep_take},
    {PS_STOP, true, stop_take},    {PS_BYE, false, bye_take},   {PS_END, false, end_take},
    {PS_TELL, true, tell_take},
};

static void frame_take(struct server *s, const struct ps_frame *f)
{
    for (size_t i = 0; i < TY_COUNT(REQUESTS); i++) {
        if (REQUESTS[i].kind != f->kind)
            continue;
        if (REQUESTS[i].run && !s->state.begun && !s->state.over)
            answer_text(s, f, PS_REFUSED, "it has no state of this run: its folder is gone");
        else
            REQUESTS[i].take(s, f);
        return;
    }
    answer_text(s, f, PS_REFUSED, "this is no request");
}

/* ---- frames in ---- */

/* The route and the frame, the latter copied to where its numbers are aligned. False: none. */
static bool receive(struct server *s)
{
    const struct zmq *z = s->zmq;
    zmq_msg_t m;
    int parts = 0;
    bool more = true, fits = true;
    s->in.len = s->route_bytes = 0;
    z->zmq_msg_init(&m);
    for (; more; parts++) {
        if (z->zmq_msg_recv(&m, s->socket, ZMQ_DONTWAIT) < 0)
            break;
        size_t bytes = z->zmq_msg_size(&m);
        if (parts == 0 && bytes <= sizeof s->route) {
            memcpy(s->route, z->zmq_msg_data(&m), bytes);
            s->route_bytes = bytes;
        } else if (parts == 1) {
            ty_buf_add(&s->in, z->zmq_msg_data(&m), bytes);
        } else {
            fits = false;
        }
        more = z->zmq_msg_more(&m);
    }
    z->zmq_msg_close(&m);
    if (parts > 0 && (parts != 2 || !fits))
        s->in.len = s->route_bytes = 0; /* nobody who talks to us: no answer */
    s->traffic.received += s->in.len;
    return parts > 0;
}

static void frame_handle(struct server *s, const struct ps_frame *f)
{
    if (f->cluster != s->o->cluster) {
        answer_text(s, f, PS_REFUSED,
                    "its TF_CONFIG has another cluster: all replicas need the same");
        return;
    }
    if (f->worker == PS_MOST_WORKERS && f->kind == PS_PING) {
        s->watcher = (struct ps_watcher){true, ty_boot_ms(), {f->a, f->b}};
        pong_answer(s, f);
        return;
    }
    if (f->worker >= s->members.count) {
        answer_text(s, f, PS_REFUSED, "the cluster has no such worker");
        return;
    }
    s->heard = true;
    s->heard_ms = ty_boot_ms();
    if (f->incarnation < s->members.list[f->worker].incarnation && f->kind != PS_HELLO) {
        answer_text(s, f, f->kind == PS_PING ? PS_PONG : PS_REFUSED,
                    "a later process has taken this one's place in the cluster");
        return;
    }
    if (f->kind != PS_BYE)
        ps_members_heard(&s->members, f->worker, s->heard_ms);
    frame_take(s, f);
}

/* What is not from a worker, in the log once a second at most: anybody can send it. */
static void strange_tell(struct server *s)
{
    enum { STRANGE_MS = 1000 };
    s->strange++;
    if (ty_boot_ms() - s->strange_ms < STRANGE_MS)
        return;
    log_warn("ps.frame", "%s: %zu messages that are not from a worker; the last: %s", s->o->name,
             s->strange, ty_err_message());
    s->strange = 0;
    s->strange_ms = ty_boot_ms();
}

/* A frame, or a push and the pull of the next step: that one is looked at once the push is
 * acknowledged, and both answers go out as one message. */
static ty_err message_handle(struct server *s)
{
    ty_str left = ty_buf_str(&s->in);
    s->first.len = 0;
    do {
        struct ps_frame f = {0};
        size_t bytes = 0;
        ty_err err = ps_frame_read(left, &f, &bytes);
        left = ty_str_drop(left, bytes);
        s->followed = left.len > 0;
        if (err == TY_OK && s->followed && f.kind != PS_PUSH)
            err = ty_fail(TY_DATA_LOSS, "a frame has %zu bytes more than it says", left.len);
        if (err == TY_OK) {
            frame_handle(s, &f);
        } else {
            strange_tell(s);
            s->followed = false;
            answer_text(s, &f, PS_REFUSED, ty_err_message());
        }
    } while (s->followed && s->first.len > 0);
    s->followed = false;
    if (s->moved)
        held_try(s);
    s->moved = false;
    return s->fatal;
}

/* ---- time ---- */

static void watcher_tell(struct server *s, int64_t now)
{
    struct ps_watcher *w = &s->watcher;
    if (!ps_watcher_silent(w, now, s->state.over))
        return;
    log_warn("ps.silent",
             "%s: evaluator has not been heard of for %.1f s: it is %s; nobody waits for it",
             s->o->name, (double)(now - w->heard_ms) / 1e3, ps_process_state(&w->process));
}

static ty_err tick(struct server *s)
{
    int64_t now = ty_boot_ms(), since = now - s->ticked_ms;
    if (since > PS_STALL_MS) {
        ps_members_excuse(&s->members, since);
        s->heard_ms += since;
        s->watcher.heard_ms += since;
    }
    watcher_tell(s, now);
    for (size_t i; (i = ps_members_silent(&s->members, now)) != SIZE_MAX;) {
        const struct ps_member *m = &s->members.list[i];
        log_warn("ps.silent",
                 "%s: %s has not been heard of for %.1f s, since its step %" PRIu64
                 ": it is %s; the others go on without it",
                 s->o->name, s->o->workers[i], (double)(now - m->heard_ms) / 1e3, m->clock,
                 ps_process_state(&m->process));
        ps_trace(s->state.trace_fd, "\"event\":\"silent\",\"worker\":%zu", i);
    }
    held_try(s);
    if (s->state.log_bytes > s->snapshot_at)
        snapshot_try(s);
    s->ticked_ms = now;
    if (!s->heard && now - s->heard_ms > ALONE_MS && now - s->alone_ms > ALONE_MS) {
        log_info("ps.alone", "%s: no worker has come yet, after %.0f s", s->o->name,
                 (double)(now - s->heard_ms) / 1e3);
        s->alone_ms = now;
    }
    int64_t most = s->o->give_up_ms * (s->heard ? 1 : PS_FIRST_TIMES);
    if (now - s->heard_ms > most)
        return ty_fail(TY_UNAVAILABLE,
                       "%s: no worker has been heard of for %.0f s, after %" PRIu64
                       " updates: given up; what was acknowledged is in '%s'",
                       s->o->name, (double)(now - s->heard_ms) / 1e3, s->state.version, s->o->dir);
    return TY_OK;
}

static bool all_left(const struct server *s)
{
    size_t who;
    return ps_members_least(&s->members, &who) == UINT64_MAX;
}

static ty_err serve(struct server *s)
{
    ty_err err = TY_OK;
    while (err == TY_OK) {
        zmq_pollitem_t item = {.socket = s->socket, .events = ZMQ_POLLIN};
        s->zmq->zmq_poll(&item, 1, TICK_MS); /* a signal ends it early, which is right */
        for (int i = 0; i < DRAIN && err == TY_OK && receive(s); i++)
            err = message_handle(s);
        int64_t now = ty_boot_ms();
        if (err == TY_OK && now - s->ticked_ms >= TICK_MS)
            err = tick(s);
        if (s->ended_ms &&
            (*s->o->stopped || now - s->ended_ms > (all_left(s) ? FLUSH_MS : LAST_MS)))
            return err;
        if (*s->o->stopped && s->stopping_ms == 0)
            s->stopping_ms = now;
        if (err == TY_OK && s->stopping_ms && (all_left(s) || now - s->stopping_ms > STOP_MS)) {
            snapshot_try(s);
            err = ty_fail(TY_CANCELLED, "%s: stopped by %s after %" PRIu64 " updates", s->o->name,
                          *s->o->stopped == SIGINT ? "SIGINT" : "SIGTERM", s->state.version);
        }
    }
    return err;
}

/* ---- life ---- */

static void members_init(struct server *s)
{
    const struct ps_server_options *o = s->o;
    s->members = (struct ps_members){
        .names = o->workers, .count = o->worker_count, .staleness = o->staleness};
    s->members.list = ty_new_array(&s->arena, struct ps_member, o->worker_count);
    for (size_t i = 0; i < o->worker_count; i++)
        ty_buf_init(&s->members.list[i].held.bytes, PS_FRAME_BYTES);
}

/* Who pushed before this process came counts as alive, and as having begun a step, until it asks
 * for another or has been silent for too long: the gate must not forget the slowest. */
static void members_resume(struct server *s)
{
    int64_t now = ty_boot_ms();
    for (size_t i = 0; i < s->members.count; i++) {
        struct ps_member *m = &s->members.list[i];
        m->known = m->live = m->begun = s->state.begun && m->incarnation > 0;
        m->heard_ms = now;
    }
    if (s->o->index == 0 && s->state.begun && s->state.version >= s->members.steps)
        s->state.over = true;
    if (s->state.begun)
        log_info("ps.resumed", "%s: goes on after %" PRIu64 " updates", s->o->name,
                 s->state.version);
    s->heard_ms = s->ticked_ms = now;
    s->snapshot_at = s->o->log_bytes;
}

ty_err ps_server_run(const struct ps_server_options *o, struct ps_traffic *ret_traffic)
{
    struct server s = {.o = o, .self = ps_process_self()};
    s.state = (struct ps_state){.layout = &o->layout,
                                .store = &o->store,
                                .members = &s.members,
                                .server = o->index,
                                .dir = o->dir,
                                .lock_fd = -1,
                                .log_fd = -1,
                                .trace_fd = -1};
    ty_buf_init(&s.in, PS_FRAME_BYTES);
    ty_buf_init(&s.out, PS_FRAME_BYTES);
    ty_buf_init(&s.first, PS_FRAME_BYTES);
    members_init(&s);
    ty_err err = zmq_load(&s.zmq);
    if (err == TY_OK)
        err = ps_trace_open(o->trace, &s.state.trace_fd);
    if (err == TY_OK)
        err = ps_state_open(&s.state);
    if (err == TY_OK) {
        s.context = s.zmq->zmq_ctx_new();
        err = zmq_open(s.zmq, s.context, ZMQ_ROUTER, o->address, &s.socket);
        if (err != TY_OK)
            err = ty_wrap(err, "%s", o->name);
    }
    if (err == TY_OK) {
        members_resume(&s);
        err = serve(&s);
    }
    if (s.socket)
        s.zmq->zmq_close(s.socket);
    if (s.context)
        s.zmq->zmq_ctx_term(s.context);
    ps_state_close(&s.state);
    if (s.state.trace_fd >= 0)
        close(s.state.trace_fd);
    for (size_t i = 0; i < s.members.count; i++)
        ty_buf_clear(&s.members.list[i].held.bytes);
    ty_buf_clear(&s.in);
    ty_buf_clear(&s.out);
    ty_buf_clear(&s.first);
    ty_arena_clear(&s.arena);
    *ret_traffic = s.traffic;
    return err;
}
