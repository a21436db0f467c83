/* worker.c -- the threads that route requests and run handlers, and the parked requests.
 *
 * A handler that has nothing to say yet parks its request: no thread waits, and
 * http_server_wake or its own deadline puts it back into the queue. A wake that
 * comes between a handler's look and its parking is not lost: the count of
 * wakes is taken before the handler runs and compared when it parks. */
#include "http/http_int.h"

ty_err http_park(struct http_request *req, int64_t ms)
{
    req->park_ms = ms > 0 ? ms : 1;
    return TY_OK;
}

/* ---- lists (the caller holds the lock) ---- */

void exchange_list_add(struct exchange_list *l, struct exchange *x)
{
    x->prev = l->last;
    x->next = NULL;
    if (l->last)
        l->last->next = x;
    else
        l->first = x;
    l->last = x;
    l->count++;
}

void exchange_list_remove(struct exchange_list *l, struct exchange *x)
{
    if (x->prev)
        x->prev->next = x->next;
    else
        l->first = x->next;
    if (x->next)
        x->next->prev = x->prev;
    else
        l->last = x->prev;
    l->count--;
}

static void unpark(struct http_server *s, struct exchange *x)
{
    exchange_list_remove(&s->parked, x);
    s->wakeable -= !x->timer_only;
    exchange_list_add(&s->queue, x);
    pthread_cond_signal(&s->work_ready);
}

/* ---- one request ---- */

/* 404, or 405 naming the methods there are. */
static void answer_no_route(struct exchange *x, ty_err err)
{
    struct ty_buf allow;
    ty_buf_init(&allow, 256);
    int shown = x->req.path.len > 512 ? 512 : (int)x->req.path.len;
    router_allow(x->server->router, x->req.path, &allow);
    if (allow.len == 0)
        err = ty_fail(TY_NOT_FOUND, "no route for %.32s '%.*s'", x->method, shown, x->req.path.ptr);
    else
        err = ty_fail(err, "'%.*s' has no method %.32s, only %s", shown, x->req.path.ptr, x->method,
                      allow.ptr);
    x->allow = allow.len == 0 ? NULL : ty_cstr(&x->arena, ty_buf_str(&allow));
    ty_buf_clear(&allow);
    answer_error(x, x->allow ? 405 : 404, err);
}

static ty_err exchange_match(struct exchange *x)
{
    if (x->routed) /* the headers of a streamed body have said where it goes */
        return TY_OK;
    ty_err err = target_parse(&x->req, x->target);
    if (err == TY_OK && !x->known_method)
        return TY_UNIMPLEMENTED;
    return err == TY_OK ? http_router_match(x->server->router, &x->req, &x->handler, &x->ctx) : err;
}

bool exchange_admit(struct exchange *x)
{
    if (x->admitted)
        return true;
    if (!foreign_identify(x)) {
        x->unanswered = true;
        return false;
    }
    ty_err err = exchange_match(x);
    if (err == TY_OK)
        err = foreign_route_check(&x->req);
    x->admitted = err == TY_OK;
    if (x->admitted)
        return true;
    if (err == TY_NOT_FOUND || err == TY_UNIMPLEMENTED)
        answer_no_route(x, err);
    else
        answer_error(x, ty_err_http(err), err);
    return false;
}

static void response_reset(struct http_response *res)
{
    ty_buf_clear(&res->body);
    *res = (struct http_response){.body = res->body};
}

static void exchange_log(const struct exchange *x)
{
    log_debug("http.request", "request=%s method=%s path='%.*s' status=%d", x->req.id,
              method_name(x->req.method), x->req.path.len > 512 ? 512 : (int)x->req.path.len,
              x->req.path.ptr, x->res.status ? x->res.status : 200);
}

bool exchange_now(struct exchange *x)
{
    struct router_match match;
    if (!router_nows(x->server->router) || x->conn->foreign || !x->known_method ||
        x->req.method != HTTP_GET || x->has_body || target_parse(&x->req, x->target) != TY_OK ||
        router_find(x->server->router, &x->req, &match) != TY_OK)
        return false; /* a worker says what is wrong, if anything is */
    x->handler = match.handler;
    x->ctx = match.ctx;
    x->routed = true;
    if (!match.now)
        return false;
    if (match.now(&x->req, &x->res, match.ctx) && !x->res.body.full) {
        exchange_log(x);
        return true;
    }
    response_reset(&x->res);
    return false;
}

/* Returns true when the answer is made, false when the handler parked the request. */
static bool exchange_run(struct exchange *x)
{
    if (!exchange_admit(x))
        return true;
    if (x->first_parked_ms != 0)
        x->req.waited_ms = ty_boot_ms() - x->first_parked_ms;
    x->req.park_ms = 0;
    response_reset(&x->res);
    ty_err err = x->handler(&x->req, &x->res, x->ctx);
    if (err == TY_OK && x->req.park_ms > 0)
        return false;
    if (err == TY_OK)
        err = ty_buf_check(&x->res.body, "the response");
    if (err != TY_OK)
        answer_error(x, ty_err_http(err), err);
    exchange_log(x);
    return true;
}

static void exchange_finish(struct http_server *s, struct exchange *x)
{
    stream_state_end(x);
    x->step = STEP_ANSWER;
    s->mhd->MHD_resume_connection(x->mhd);
}

/* ---- the pool ---- */

/* Put it away until a wake or its time. False when the server is stopping. */
static bool park(struct http_server *s, struct exchange *x, uint64_t wakes_before)
{
    int64_t now = ty_boot_ms();
    if (x->first_parked_ms == 0)
        x->first_parked_ms = now;
    pthread_mutex_lock(&s->work_lock);
    bool stopping = s->stopping, kick = false;
    if (!stopping && s->wakes != wakes_before) {
        exchange_list_add(&s->queue, x);
        pthread_cond_signal(&s->work_ready);
    } else if (!stopping) {
        x->timer_only = s->wakeable >= HTTP_MAX_PARKED;
        s->wakeable += !x->timer_only;
        x->wake_ms = now + (x->timer_only && x->req.park_ms > 1000 ? 1000 : x->req.park_ms);
        exchange_list_add(&s->parked, x);
        kick = true;
    }
    pthread_mutex_unlock(&s->work_lock);
    if (kick)
        event_kick(s); /* so that the event thread waits no longer than wake_ms */
    return !stopping;
}

static void exchange_work(struct http_server *s, struct exchange *x, uint64_t wakes)
{
    if (x->task == TASK_FETCH) {
        source_work(x);
        return;
    }
    if (x->task == TASK_BODY && !stream_work(x))
        return; /* more is to come, or nobody waits for an answer */
    x->task = TASK_HANDLE;
    if (!x->stream.failed && !exchange_run(x)) {
        if (park(s, x, wakes))
            return;
        answer_error(x, 503, ty_fail(TY_UNAVAILABLE, "the server is stopping"));
    }
    exchange_finish(s, x);
}

static void *worker_main(void *arg)
{
    struct http_server *s = arg;
    for (;;) {
        pthread_mutex_lock(&s->work_lock);
        while (!s->queue.first && !s->stopping)
            pthread_cond_wait(&s->work_ready, &s->work_lock);
        struct exchange *x = s->queue.first;
        uint64_t wakes = s->wakes;
        if (x)
            exchange_list_remove(&s->queue, x);
        pthread_mutex_unlock(&s->work_lock);
        if (!x)
            return NULL;
        exchange_work(s, x, wakes);
    }
}

bool worker_submit(struct http_server *s, struct exchange *x)
{
    pthread_mutex_lock(&s->work_lock);
    bool taken = !s->stopping;
    if (taken) {
        exchange_list_add(&s->queue, x);
        pthread_cond_signal(&s->work_ready);
    }
    pthread_mutex_unlock(&s->work_lock);
    return taken;
}

void http_server_wake(struct http_server *s)
{
    pthread_mutex_lock(&s->work_lock);
    s->wakes++;
    for (struct exchange *x = s->parked.first, *next; x; x = next) {
        next = x->next;
        if (!x->timer_only)
            unpark(s, x);
    }
    pthread_mutex_unlock(&s->work_lock);
}

int64_t worker_tick(struct http_server *s, int64_t now_ms)
{
    int64_t wait = -1;
    pthread_mutex_lock(&s->work_lock);
    for (struct exchange *x = s->parked.first, *next; x; x = next) {
        next = x->next;
        int64_t left = x->wake_ms - now_ms;
        if (left <= 0)
            unpark(s, x);
        else if (wait < 0 || left < wait)
            wait = left;
    }
    pthread_mutex_unlock(&s->work_lock);
    return wait;
}

ty_err thread_start(pthread_t *ret_thread, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, HTTP_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err_no = pthread_create(ret_thread, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return err_no == 0 ? TY_OK : ty_fail_errno(err_no, "cannot start a thread");
}

ty_err worker_start(struct http_server *s, size_t count)
{
    s->workers = calloc(count, sizeof(*s->workers));
    ty_assert(s->workers != NULL);
    ty_err err = TY_OK;
    while (s->worker_count < count && err == TY_OK) {
        err = thread_start(&s->workers[s->worker_count], worker_main, s);
        s->worker_count += err == TY_OK;
    }
    return err;
}

void worker_stop(struct http_server *s)
{
    pthread_mutex_lock(&s->work_lock);
    s->stopping = true;
    while (s->parked.first)
        unpark(s, s->parked.first);
    pthread_cond_broadcast(&s->work_ready);
    pthread_mutex_unlock(&s->work_lock);
    for (size_t i = 0; i < s->worker_count; i++)
        pthread_join(s->workers[i], NULL);
    free(s->workers);
    s->workers = NULL;
    s->worker_count = 0;
}
