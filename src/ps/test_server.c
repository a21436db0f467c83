/* test_server.c -- servers and clients in one process: steps, the gate, strangers, ends. */
#include "ps/test_ps.h"

#include <arpa/inet.h>
#include <sys/socket.h>

enum { SERVERS = 2, GIVE_UP_MS = 5000 };

#define RUN(number, count) (&(struct ps_run){.id = (number), .steps = (count)})
static const char *const SETTING_NAMES[PS_SETTINGS] = {"first", "second", "third", "fourth"};
static volatile sig_atomic_t no_signal;

struct place {
    struct ty_arena arena;
    char dir[64];
    const char *addresses[SERVERS];
    struct toy toys[SERVERS];
    struct ps_server_options options[SERVERS];
    pthread_t threads[SERVERS];
    ty_err errs[SERVERS];
    char messages[SERVERS][300];
    bool running[SERVERS];
    volatile sig_atomic_t stopped;
    int64_t staleness;
};
struct one {
    struct place *place;
    size_t index;
};

/* Its port stays bound, so that nobody else is given it: a server can listen there all the same,
 * for ZeroMQ sets SO_REUSEADDR, as we do, and we do not listen. */
static const char *address_free(struct ty_arena *a)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    return ty_format(a, "127.0.0.1:%d", ntohs(at.sin_port));
}

static void *server_thread(void *arg)
{
    struct one *o = arg;
    struct place *p = o->place;
    struct ps_traffic traffic;
    p->errs[o->index] = ps_server_run(&p->options[o->index], &traffic);
    if (p->errs[o->index] != TY_OK)
        snprintf(p->messages[o->index], sizeof p->messages[0], "%s", ty_err_message());
    return NULL;
}

static void server_start(struct place *p, size_t i)
{
    struct one *one = ty_new(&p->arena, struct one);
    *one = (struct one){p, i};
    toy_init(&p->toys[i], SERVERS);
    p->options[i] = (struct ps_server_options){.name = ty_format(&p->arena, "ps %zu", i),
                                               .address = p->addresses[i],
                                               .index = i,
                                               .layout = p->toys[i].layout,
                                               .store = toy_store(&p->toys[i]),
                                               .workers = TOY_NAMES,
                                               .worker_count = TOY_WORKERS,
                                               .cluster = 77,
                                               .setting_names = SETTING_NAMES,
                                               .dir = ty_format(&p->arena, "%s/%zu", p->dir, i),
                                               .staleness = p->staleness,
                                               .give_up_ms = GIVE_UP_MS,
                                               .log_bytes = 2000, /* a snapshot every few updates */
                                               .stopped = &p->stopped};
    assert_int_equal(pthread_create(&p->threads[i], NULL, server_thread, one), 0);
    p->running[i] = true;
}

static void server_end(struct place *p, size_t i)
{
    if (p->running[i])
        pthread_join(p->threads[i], NULL);
    p->running[i] = false;
}

static void place_init(struct place *p, int64_t staleness)
{
    memset(p, 0, sizeof *p);
    p->staleness = staleness;
    snprintf(p->dir, sizeof p->dir, "/tmp/test_ps.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    for (size_t i = 0; i < SERVERS; i++)
        p->addresses[i] = address_free(&p->arena);
    for (size_t i = 0; i < SERVERS; i++)
        server_start(p, i);
}

static void place_clear(struct place *p)
{
    p->stopped = SIGTERM;
    for (size_t i = 0; i < SERVERS; i++)
        server_end(p, i);
    assert_ok(ty_remove_tree(AT_FDCWD, p->dir));
    ty_arena_clear(&p->arena);
}

/* A client with arrays of its own. */
struct worker {
    struct toy toy;
    struct ps_client *client;
};

static void worker_open(struct place *p, struct worker *w, uint32_t number, uint64_t cluster)
{
    struct ps_client_options o = {.name = TOY_NAMES[number],
                                  .worker = number,
                                  .addresses = p->addresses,
                                  .layout = {.servers = SERVERS},
                                  .cluster = cluster,
                                  .bounded = p->staleness >= 0,
                                  .give_up_ms = GIVE_UP_MS,
                                  .stopped = &no_signal};
    toy_init(&w->toy, SERVERS);
    assert_ok(ps_client_new(&o, &w->client));
}

static void worker_join(struct place *p, struct worker *w, uint32_t number)
{
    struct ps_joined joined;
    worker_open(p, w, number, 77);
    assert_ok(ps_client_join(w->client, &w->toy.layout, RUN(42, TOY_STEPS), &joined));
}

static void worker_step(struct worker *w, unsigned number, uint64_t *ret_step)
{
    struct toy_step s;
    bool over;
    toy_step(&s, number);
    assert_ok(ps_client_pull(w->client, s.parts, &over));
    assert_false(over);
    assert_ok(ps_client_push(w->client, s.parts, 1, ret_step));
}

/* One that made steps 1 to `count`. */
static struct toy toy_after(unsigned count)
{
    struct toy want;
    toy_init(&want, 1);
    for (unsigned i = 1; i <= count; i++) {
        struct toy_step s;
        struct ps_segment g = {0};
        toy_step(&s, i);
        want.scale = 1;
        while (ps_layout_next(&want.layout, 0, &g))
            toy_plain(&want, &g, s.parts[g.variable].gradient + g.from);
        for (size_t v = 1; v < TOY_VARIABLES; v += 2)
            toy_rows(&want, v, s.ids[v], s.parts[v].count, s.gradients[v]);
    }
    return want;
}

/* All servers' numbers together are those of one that made all steps. */
static void assert_steps(const struct toy *have, unsigned count)
{
    struct toy want = toy_after(count);
    assert_memory_equal(have->values, want.values, sizeof want.values);
    assert_memory_equal(have->counts, want.counts, sizeof want.counts);
}

static void steps_are_applied_and_read_back(void **state)
{
    (void)state;
    struct place p;
    struct worker w;
    uint64_t step = 0;
    place_init(&p, -1);
    worker_join(&p, &w, 0);
    for (unsigned i = 1; i <= 30; i++) {
        worker_step(&w, i, &step);
        assert_int_equal(step, i);
        if (i == 10) { /* a server comes back from its disk while the worker goes on */
            p.stopped = SIGTERM;
            server_end(&p, 0);
            server_end(&p, 1);
            assert_int_equal(p.errs[1], TY_CANCELLED);
            assert_non_null(strstr(p.messages[1], "ps 1: stopped by SIGTERM after 10 updates"));
            p.stopped = 0;
            server_start(&p, 0);
            server_start(&p, 1);
        }
    }
    assert_ok(ps_client_read(w.client, &step));
    assert_int_equal(step, 30);
    assert_steps(&w.toy, 30);
    struct ps_traffic t;
    ps_client_traffic(w.client, &t);
    assert_true(t.updates == 30 && t.sent > 0 && t.received > 0);
    assert_ok(ps_client_keep(w.client));
    assert_ok(ps_client_stop(w.client));
    struct toy_step s;
    bool over;
    toy_step(&s, 1);
    assert_ok(ps_client_pull(w.client, s.parts, &over));
    assert_true(over);
    assert_ok(ps_client_end(w.client));
    for (size_t i = 0; i < SERVERS; i++) {
        server_end(&p, i);
        assert_int_equal(p.errs[i], TY_OK);
        assert_int_not_equal(access(p.options[i].dir, F_OK), 0); /* its state is gone */
    }
    ps_client_free(w.client);
    place_clear(&p);
}

/* The values that come with a push have it in them. */
static void push_and_next_pull_are_one(int64_t staleness)
{
    enum { STEPS = 12 };
    struct place p;
    struct worker w;
    struct ps_joined joined;
    struct toy_step s, next;
    uint64_t step;
    bool over;
    place_init(&p, staleness);
    worker_open(&p, &w, 0, 77);
    assert_ok(ps_client_join(w.client, &w.toy.layout, RUN(42, STEPS), &joined));
    toy_step(&s, 1);
    assert_ok(ps_client_pull(w.client, s.parts, &over));
    for (unsigned i = 1; i <= STEPS; i++) {
        struct toy before = w.toy;
        toy_step(&s, i);
        toy_step(&next, i + 1);
        assert_ok(ps_client_push_pull(w.client, s.parts, 1, next.parts, &step, &over));
        assert_int_equal(step, i);
        assert_int_equal(over, i == STEPS);
        for (size_t k = 0; k < TOY_COUNTS[0] && !over; k++)
            assert_true(w.toy.values[0][k] == before.values[0][k] - s.gradients[0][k]);
        if (i == 5) { /* what is sent next meets servers that have just come back */
            p.stopped = SIGTERM;
            server_end(&p, 0);
            server_end(&p, 1);
            p.stopped = 0;
            server_start(&p, 0);
            server_start(&p, 1);
        }
    }
    struct ps_traffic t;
    ps_client_traffic(w.client, &t);
    assert_int_equal(t.updates, STEPS);
    assert_ok(ps_client_read(w.client, &step));
    assert_steps(&w.toy, STEPS);
    ps_client_free(w.client);
    place_clear(&p);
}

static void push_takes_the_next_pull_along(void **state)
{
    (void)state;
    push_and_next_pull_are_one(-1);
    push_and_next_pull_are_one(0);
}

/* One worker pushes and wants to begin what another has begun last: it is acknowledged and waits.
 */
static void pull_behind_a_push_waits_at_the_gate(void **state)
{
    (void)state;
    struct place p;
    struct worker one, other;
    struct ps_joined joined;
    struct toy_step s;
    uint64_t step = 0;
    bool over;
    place_init(&p, -1);
    worker_open(&p, &one, 0, 77);
    worker_open(&p, &other, 1, 77);
    assert_ok(ps_client_join(one.client, &one.toy.layout, RUN(42, 2), &joined));
    assert_ok(ps_client_join(other.client, &other.toy.layout, RUN(42, 2), &joined));
    toy_step(&s, 1);
    assert_ok(ps_client_pull(one.client, s.parts, &over));
    assert_ok(ps_client_pull(other.client, s.parts, &over));
    ps_client_hurry(one.client, 1000);
    assert_err(TY_DEADLINE_EXCEEDED,
               ps_client_push_pull(one.client, s.parts, 1, s.parts, &step, &over));
    ps_client_hurry(one.client, 0);
    toy_step(&s, 2);
    assert_ok(ps_client_push(other.client, s.parts, 1, &step));
    assert_int_equal(step, 2); /* both are applied */
    assert_ok(ps_client_pull(one.client, s.parts, &over));
    assert_true(over);
    assert_ok(ps_client_read(other.client, &step));
    assert_steps(&other.toy, 2);
    ps_client_free(one.client);
    ps_client_free(other.client);
    place_clear(&p);
}

static void gate_opens_when_the_slowest_has_pushed(void **state)
{
    (void)state;
    struct place p;
    struct worker fast, slow;
    struct toy_step s;
    uint64_t step;
    bool over;
    place_init(&p, 0);
    worker_join(&p, &fast, 0);
    worker_join(&p, &slow, 1);
    worker_step(&fast, 1, &step);
    toy_step(&s, 2);
    ps_client_hurry(fast.client, 1000);
    assert_err(TY_DEADLINE_EXCEEDED, ps_client_pull(fast.client, s.parts, &over));
    worker_step(&slow, 2, &step);
    ps_client_hurry(fast.client, 0);
    assert_ok(ps_client_pull(fast.client, s.parts, &over));
    assert_ok(ps_client_push(fast.client, s.parts, 1, &step));
    assert_ok(ps_client_bye(slow.client)); /* who leaves is not waited for */
    worker_step(&fast, 3, &step);
    worker_step(&fast, 4, &step);
    assert_int_equal(step, 5);
    ps_client_free(slow.client);
    ps_client_free(fast.client);
    place_clear(&p);
}

static void *worker_pull(void *arg)
{
    struct worker *w = arg;
    struct toy_step s;
    bool over;
    toy_step(&s, 1);
    assert_ok(ps_client_pull(w->client, s.parts, &over));
    assert_false(over);
    return NULL;
}

/* Nobody begins one while another has begun; who has waited has that one's update, of all servers.
 */
static void last_steps_are_made_one_after_another(void **state)
{
    (void)state;
    enum { LAST = 4, STEPS = LAST * 20 * TOY_WORKERS };
    struct place p;
    struct worker one, other;
    struct ps_joined joined;
    struct toy_step s;
    pthread_t thread;
    uint64_t step;
    bool over;
    place_init(&p, -1);
    worker_open(&p, &one, 0, 77);
    worker_open(&p, &other, 1, 77);
    assert_ok(ps_client_join(one.client, &one.toy.layout, RUN(42, STEPS), &joined));
    assert_ok(ps_client_join(other.client, &other.toy.layout, RUN(42, STEPS), &joined));
    for (unsigned i = 1; i < STEPS - LAST; i++)
        worker_step(&one, i, &step);
    worker_step(&other, STEPS - LAST, &step);
    toy_step(&s, STEPS - LAST + 1);
    assert_ok(ps_client_pull(one.client, s.parts, &over));
    assert_int_equal(pthread_create(&thread, NULL, worker_pull, &other), 0);
    struct timespec moment = {.tv_nsec = 300000000};
    nanosleep(&moment, NULL);
    assert_ok(ps_client_push(one.client, s.parts, 1, &step));
    pthread_join(thread, NULL);
    struct toy want = toy_after(STEPS - LAST + 1);
    for (size_t v = 0; v < TOY_VARIABLES; v += 2)
        assert_memory_equal(other.toy.values[v], want.values[v], sizeof want.values[v]);
    ps_client_free(one.client);
    ps_client_free(other.client);
    place_clear(&p);
}

static void each_hears_what_all_have_told(void **state)
{
    (void)state;
    struct place p;
    struct worker chief, other;
    const int64_t first[PS_WORDS] = {1, 2, 3, 4, 5, 6}, second[PS_WORDS] = {7, 8, 9, 10, 11, 12};
    const int64_t nothing[PS_WORDS] = {0};
    int64_t all[TOY_WORKERS][PS_WORDS];
    place_init(&p, -1);
    worker_join(&p, &chief, 0);
    worker_join(&p, &other, 2);
    assert_ok(ps_client_tell(other.client, second, all, TOY_WORKERS));
    assert_memory_equal(all[0], nothing, sizeof nothing);
    assert_ok(ps_client_tell(chief.client, first, all, TOY_WORKERS));
    assert_memory_equal(all[0], first, sizeof first);
    assert_memory_equal(all[1], nothing, sizeof nothing);
    assert_memory_equal(all[2], second, sizeof second);
    assert_ok(ps_client_bye(other.client)); /* who has left tells nothing */
    assert_ok(ps_client_tell(chief.client, second, all, TOY_WORKERS));
    assert_memory_equal(all[0], second, sizeof second);
    assert_memory_equal(all[2], nothing, sizeof nothing);
    ps_client_free(other.client);
    ps_client_free(chief.client);
    place_clear(&p);
}

static void replicas_that_disagree_are_refused(void **state)
{
    (void)state;
    struct place p;
    struct worker w, other;
    struct ps_joined joined;
    place_init(&p, -1);
    worker_open(&p, &other, 2, 78);
    assert_err(TY_FAILED_PRECONDITION,
               ps_client_join(other.client, &other.toy.layout, RUN(42, TOY_STEPS), &joined));
    assert_message("refuses worker 1: its TF_CONFIG has another cluster");
    ps_client_free(other.client);
    worker_join(&p, &w, 0);
    worker_open(&p, &other, 2, 77);
    assert_err(TY_FAILED_PRECONDITION,
               ps_client_join(other.client, &other.toy.layout, RUN(43, TOY_STEPS), &joined));
    assert_message("it has other training data, or another number of steps");
    ps_client_free(other.client);
    worker_open(&p, &other, 2, 77);
    const struct ps_run seeded = {.id = 42, .steps = TOY_STEPS, .settings = {0, 0, 7, 0}};
    assert_err(TY_FAILED_PRECONDITION,
               ps_client_join(other.client, &other.toy.layout, &seeded, &joined));
    assert_message("refuses worker 1: it has another third than ps"); /* whichever answers first */
    ps_client_free(other.client);
    /* another process in the place of the chief: the first one is told and goes */
    uint64_t step;
    worker_join(&p, &other, 0);
    worker_step(&other, 1, &step);
    struct toy_step s;
    bool over;
    toy_step(&s, 1);
    assert_err(TY_FAILED_PRECONDITION, ps_client_pull(w.client, s.parts, &over));
    assert_message("a later process has taken this one's place");
    ps_client_free(other.client);
    ps_client_free(w.client);
    place_clear(&p);
}

struct early {
    struct place *place;
    struct worker worker;
    uint64_t run;
    ty_err err;
    char message[300];
};

static void *early_thread(void *arg)
{
    struct early *e = arg;
    struct ps_joined joined;
    e->err =
        ps_client_join(e->worker.client, &e->worker.toy.layout, RUN(e->run, TOY_STEPS), &joined);
    snprintf(e->message, sizeof e->message, "%s", e->err == TY_OK ? "" : ty_err_message());
    return NULL;
}

/* Whoever comes before it waits, and is then the one who is refused if they disagree. */
static void chief_says_what_the_run_is(void **state)
{
    (void)state;
    struct place p;
    struct worker chief;
    struct early early[2] = {{.run = 42}, {.run = 43}};
    pthread_t threads[2];
    place_init(&p, -1);
    for (uint32_t i = 0; i < 2; i++) {
        early[i].place = &p;
        worker_open(&p, &early[i].worker, 1 + i, 77);
        assert_int_equal(pthread_create(&threads[i], NULL, early_thread, &early[i]), 0);
    }
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    worker_join(&p, &chief, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        ps_client_free(early[i].worker.client);
    }
    assert_int_equal(early[0].err, TY_OK);
    assert_int_equal(early[1].err, TY_FAILED_PRECONDITION);
    assert_non_null(strstr(early[1].message, "refuses worker 1"));
    ps_client_free(chief.client);
    place_clear(&p);
}

static void update_beyond_the_last_step_is_not_applied(void **state)
{
    (void)state;
    struct place p;
    struct worker w;
    struct ps_joined joined;
    struct toy_step s;
    uint64_t step;
    bool over;
    place_init(&p, -1);
    worker_open(&p, &w, 0, 77);
    assert_ok(ps_client_join(w.client, &w.toy.layout, RUN(42, 3), &joined));
    for (unsigned i = 1; i <= 3; i++)
        worker_step(&w, i, &step);
    toy_step(&s, 4);
    assert_ok(ps_client_push(w.client, s.parts, 1, &step)); /* as one who was silent would */
    assert_int_equal(step, 3);
    struct ps_traffic t;
    ps_client_traffic(w.client, &t);
    assert_int_equal(t.updates, 3);
    assert_ok(ps_client_pull(w.client, s.parts, &over));
    assert_true(over);
    assert_ok(ps_client_bye(w.client));
    ps_client_free(w.client);
    place_clear(&p);
}

static void strangers_do_no_harm(void **state)
{
    (void)state;
    struct place p;
    struct worker w;
    const struct zmq *z;
    uint64_t step;
    void *socket;
    struct ty_buf b, two;
    place_init(&p, -1);
    worker_join(&p, &w, 0);
    assert_ok(zmq_load(&z));
    void *context = z->zmq_ctx_new();
    assert_ok(zmq_open(z, context, ZMQ_DEALER, p.addresses[0], &socket));
    ty_buf_init(&b, 1 << 16);
    ty_buf_init(&two, 1 << 16);
    void *named; /* its name is too long to be answered: nobody else gets the answer */
    char name[200];
    memset(name, 'n', sizeof name);
    named = z->zmq_socket(context, ZMQ_DEALER);
    z->zmq_setsockopt(named, ZMQ_ROUTING_ID, name, sizeof name);
    int none = 0;
    z->zmq_setsockopt(named, ZMQ_LINGER, &none, sizeof none);
    char place[100];
    snprintf(place, sizeof place, "tcp://%s", p.addresses[0]);
    assert_int_equal(z->zmq_connect(named, place), 0);
    for (unsigned i = 1; i <= 20; i++) {
        z->zmq_send(named, "hello", 5, 0);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        worker_step(&w, i, &step);
    }
    z->zmq_send(socket, "hello", 5, 0);
    z->zmq_send(socket, "", 0, 0);
    z->zmq_send(socket, "two", 3, ZMQ_SNDMORE);
    z->zmq_send(socket, "parts", 5, 0);
    for (unsigned kind = 0; kind < PS_KIND_COUNT; kind++) {
        struct ps_frame f = {.kind = (enum ps_kind)kind, .cluster = 77, .incarnation = 1};
        static const uint32_t workers[] = {1, TOY_WORKERS, PS_MOST_WORKERS, UINT32_MAX};
        for (size_t i = 0; i < TY_COUNT(workers) && kind != PS_END && kind != PS_STOP; i++) {
            f.worker = workers[i];
            f.a = kind == PS_HELLO ? 41 : 0; /* another run */
            ps_frame_begin(&b);
            ty_buf_addz(&b, "body of a frame");
            ps_frame_end(&b, &f);
            z->zmq_send(socket, b.ptr, b.len, 0);
            two.len = 0;
            ty_buf_adds(&two, ty_buf_str(&b)); /* two of them in a message */
            ty_buf_adds(&two, ty_buf_str(&b));
            z->zmq_send(socket, two.ptr, two.len, 0);
            z->zmq_send(socket, two.ptr, two.len - 1, 0);
        }
    }
    for (unsigned i = 21; i <= 25; i++)
        worker_step(&w, i, &step);
    assert_ok(ps_client_read(w.client, &step));
    assert_steps(&w.toy, 25);
    z->zmq_close(named);
    z->zmq_close(socket);
    z->zmq_ctx_term(context);
    ty_buf_clear(&b);
    ty_buf_clear(&two);
    ps_client_free(w.client);
    place_clear(&p);
}

static void nobody_there_is_told_by_name(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    const char *addresses[] = {address_free(&a)};
    struct toy t;
    struct ps_client *c;
    struct ps_joined joined;
    struct ps_client_options o = {.name = "worker 7",
                                  .worker = 1,
                                  .addresses = addresses,
                                  .layout = {.servers = 1},
                                  .cluster = 77,
                                  .give_up_ms = 100,
                                  .stopped = &no_signal};
    toy_init(&t, 1);
    assert_ok(ps_client_new(&o, &c));
    assert_err(TY_UNAVAILABLE, ps_client_join(c, &t.layout, RUN(42, TOY_STEPS), &joined));
    assert_message("worker 7 at step 0 has waited ");
    assert_message("s for a welcome of ps 0 (127.0.0.1:");
    assert_message("given up");
    size_t server;
    assert_true(ps_client_silence(c, &server) >= 300 && server == 0);
    ps_client_free(c);
    ty_arena_clear(&a);
}

static void server_without_workers_gives_up(void **state)
{
    (void)state;
    struct place p;
    place_init(&p, -1);
    p.stopped = SIGTERM;
    server_end(&p, 0);
    server_end(&p, 1);
    p.stopped = 0;
    struct ps_traffic t;
    p.options[0].give_up_ms = 50;
    assert_err(TY_UNAVAILABLE, ps_server_run(&p.options[0], &t));
    assert_message("ps 0: no worker has been heard of for");
    place_clear(&p);
}

static const struct CMUnitTest tests[] = {
    TEST("serve/steps_are_applied_and_read_back", steps_are_applied_and_read_back),
    TEST("serve/push_takes_the_next_pull_along", push_takes_the_next_pull_along),
    TEST("serve/pull_behind_a_push_waits_at_the_gate", pull_behind_a_push_waits_at_the_gate),
    TEST("serve/gate_opens_when_the_slowest_has_pushed", gate_opens_when_the_slowest_has_pushed),
    TEST("serve/last_steps_are_made_one_after_another", last_steps_are_made_one_after_another),
    TEST("serve/each_hears_what_all_have_told", each_hears_what_all_have_told),
    TEST("serve/replicas_that_disagree_are_refused", replicas_that_disagree_are_refused),
    TEST("serve/chief_says_what_the_run_is", chief_says_what_the_run_is),
    TEST("serve/update_beyond_the_last_step_is_not_applied",
         update_beyond_the_last_step_is_not_applied),
    TEST("serve/strangers_do_no_harm", strangers_do_no_harm),
    TEST("serve/nobody_there_is_told_by_name", nobody_there_is_told_by_name),
    TEST("serve/server_without_workers_gives_up", server_without_workers_gives_up),
};
TEST_MAIN("ps_server", tests)
