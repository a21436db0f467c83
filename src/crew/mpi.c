/* mpi.c -- a crew across machines: MPI carries the pieces, from point to point.
 *
 * MPI_Allreduce promises no order of additions, so the tree is ours. A rank first does the
 * additions both of whose sides it owns; what is left are the nodes of the tree, and only they
 * travel:
 *   - few floats, or two ranks: everybody sends its nodes to everybody and all do the rest;
 *   - many: slice r of each node goes to rank r, which does the rest and sends the slice to all.
 *     A rank sends and receives each float about twice, however many ranks there are.
 * Parts of other ranks have memory here, too, alike laid out: it is where their nodes are received.
 *
 * A wait is a loop of MPI_Testsome that never ends in MPI: every 50 ms it looks at the others'
 * lives (beats.c). A message's length says whether the ranks are in the same call. After a failure
 * MPI is not called again, and rooms stay until the process ends: a message may still be on its
 * way.
 *
 * There is one MPI world in a process, so the library is the process's, not the crew's. */
#include "crew/libmpi_int.h"

#include "tensor/tensor.h"

#include <sched.h>
#include <sys/mman.h>

enum {
    SMALL_FLOATS = 8192,   /* below: one round in which everybody sends everything */
    CHUNK_BYTES = 1 << 28, /* of one message; MPI counts in int */
    EAGER_BYTES = 2048,    /* MPI sends so few at once, without asking the other side first; */
    EAGER_MOST = 4,        /* up to so many such messages are faster than one that asks */
    TAG = 1,               /* the order of messages between two ranks tells them apart */
    YIELD_TESTS = 64,      /* fruitless tests before another process may run */
    SLEEP_AFTER_US = 2000, /* of waiting; then it sleeps between two tests */
    SLEEP_US = 50,
    AT_ONCE_US = 50, /* what takes no longer was no wait for anybody */
};

struct mpi {
    MPI_Request *requests; /* of the messages under way */
    struct posted {
        int from; /* -1: it goes out */
        size_t bytes;
    } * posted;
    int *indices;
    MPI_Status *statuses;
    size_t count, room;
    int64_t until_ms; /* joining: for all to come; 0: joined */

    size_t plan_parts;   /* which tree the plan is of */
    uint64_t plan_nodes; /* bit k: a node begins at part k */
    struct life *lives;  /* (size) */
    struct hall {
        struct hall *next;
        void *at;
        size_t bytes;
    } * rooms;
};
static struct libmpi lib;

/* ---- messages ---- */

static void messages_grow(struct mpi *m)
{
    m->room = m->room ? 2 * m->room : 64;
    m->requests = realloc(m->requests, m->room * sizeof(MPI_Request));
    m->posted = realloc(m->posted, m->room * sizeof *m->posted);
    m->indices = realloc(m->indices, m->room * sizeof *m->indices);
    m->statuses = realloc(m->statuses, m->room * sizeof *m->statuses);
    ty_assert(m->requests && m->posted && m->indices && m->statuses);
}

/* In pieces that MPI can count. What it returns as an error is returned. */
static ty_err post(struct crew *c, const char *what, bool out, int peer, void *at, size_t bytes)
{
    struct mpi *m = c->mpi;
    size_t most = bytes <= EAGER_MOST * EAGER_BYTES ? EAGER_BYTES : CHUNK_BYTES;
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < most ? bytes - done : most;
        if (m->count == m->room)
            messages_grow(m);
        MPI_Request *request = &m->requests[m->count];
        char *from = (char *)at + done;
        int code = out ? lib.MPI_Isend(from, (int)n, lib.byte, peer, TAG, lib.world, request)
                       : lib.MPI_Irecv(from, (int)n, lib.byte, peer, TAG, lib.world, request);
        if (code != MPI_SUCCESS)
            return libmpi_fail(&lib, code, what);
        m->posted[m->count++] = (struct posted){.from = out ? -1 : peer, .bytes = n};
        done += n;
    }
    return TY_OK;
}

static ty_err post_send(struct crew *c, const char *what, int to, const void *at, size_t bytes)
{
    return post(c, what, true, to, (void *)(uintptr_t)at, bytes);
}

static ty_err post_take(struct crew *c, const char *what, int from, void *at, size_t bytes)
{
    return post(c, what, false, from, at, bytes);
}

/* A wait that is under way. */
struct wait {
    const char *what;
    int64_t from_ns;
    uint64_t tests;
    int last; /* from whom the last message came */
};

/* Nothing came: let others run, and look at them now and then. */
static ty_err wait_idle(struct crew *c, struct wait *w)
{
    if (++w->tests % YIELD_TESTS != 0)
        return TY_OK;
    if (c->crowded)
        sched_yield();
    int64_t now_ns = ty_boot_ns();
    if (now_ns - w->from_ns > SLEEP_AFTER_US * INT64_C(1000))
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_US * 1000L}, NULL);
    if (now_ns - c->looked_ns < LIFE_LOOK_MS * INT64_C(1000000))
        return TY_OK;
    int lost = life_lost(c);
    if (lost >= 0)
        return life_tell(c, lost, w->what);
    if (c->mpi->until_ms && ty_boot_ms() > c->mpi->until_ms)
        return ty_fail(TY_UNAVAILABLE, "not all %d ranks came to '%s' in time", c->size, w->what);
    return TY_OK;
}

/* The messages that MPI_Testsome has finished: each is as long as this call expects. */
static ty_err wait_finished(struct crew *c, struct wait *w, int finished)
{
    struct mpi *m = c->mpi;
    for (int i = 0; i < finished; i++) {
        const struct posted *p = &m->posted[m->indices[i]];
        if (p->from < 0)
            continue;
        int bytes = 0;
        lib.MPI_Get_count(&m->statuses[i], lib.byte, &bytes);
        if ((size_t)bytes != p->bytes)
            return crew_out_of_step(c, p->from, w->what);
        w->last = p->from;
    }
    return TY_OK;
}

/* Until all that was posted is done. `note`: whose message came last is who was late. */
static ty_err settle(struct crew *c, const char *what, bool note)
{
    struct mpi *m = c->mpi;
    struct wait w = {.what = what, .from_ns = ty_boot_ns(), .last = -1};
    ty_err err = TY_OK;
    for (size_t left = m->count; left > 0 && err == TY_OK;) {
        int finished = 0,
            code = lib.MPI_Testsome((int)m->count, m->requests, &finished, m->indices, m->statuses);
        if (code == MPI_ERR_IN_STATUS)
            err = crew_fail(c, TY_INVALID_ARGUMENT,
                            "a message for '%s' was longer than %s expects: all ranks make the "
                            "same calls, with the same sizes",
                            what, c->names[c->rank]);
        else if (code != MPI_SUCCESS)
            err = libmpi_fail(&lib, code, what);
        else if (finished > 0)
            err = wait_finished(c, &w, finished);
        else
            err = wait_idle(c, &w);
        left -= finished > 0 ? (size_t)finished : 0;
    }
    int64_t waited_ns = ty_boot_ns() - w.from_ns;
    c->wait_ns += waited_ns;
    if (c->lives[c->rank])
        __atomic_store_n(&c->lives[c->rank]->wait_ns, c->wait_ns, __ATOMIC_RELAXED);
    bool was_last =
        w.last < 0 || waited_ns < AT_ONCE_US * INT64_C(1000); /* all were there before us */
    if (note && err == TY_OK)
        crew_note(c, was_last ? c->rank : w.last, was_last ? 0 : waited_ns);
    m->count = 0;
    return err;
}

/* An error of MPI's becomes the failure that stays. */
static ty_err ended(struct crew *c, ty_err err)
{
    if (err == TY_OK || c->code != TY_OK)
        return err;
    char *message = ty_err_take();
    err = crew_fail(c, err, "%s", message);
    free(message);
    return err;
}

/* Each rank's `bytes` at all[rank] to everybody. */
static ty_err exchange(struct crew *c, const char *what, void *all, size_t bytes)
{
    ty_err err = TY_OK;
    for (int r = 0; r < c->size && err == TY_OK; r++)
        if (r != c->rank)
            err = post_take(c, what, r, (char *)all + (size_t)r * bytes, bytes);
    for (int r = 0; r < c->size && err == TY_OK; r++)
        if (r != c->rank)
            err = post_send(c, what, r, (char *)all + (size_t)c->rank * bytes, bytes);
    return err == TY_OK ? settle(c, what, true) : err;
}

static ty_err mpi_meet(struct crew *c, const struct crew_call *call, uint64_t *values)
{
    struct {
        uint64_t id, value;
    } all[CREW_MOST_RANKS];
    all[c->rank].id = call->id;
    all[c->rank].value = call->value;
    ty_err err = exchange(c, call->what, all, sizeof all[0]);
    for (int r = 0; r < c->size && err == TY_OK; r++) {
        if (all[r].id != call->id)
            err = crew_out_of_step(c, r, call->what);
        if (values)
            values[r] = all[r].value;
    }
    return ended(c, err);
}

/* ---- rooms and shares ---- */

static ty_err mpi_room(struct crew *c, size_t bytes, void **ret_room)
{
    struct crew_call call = crew_call_of(CREW_ROOM, "room", bytes);
    ty_err err = mpi_meet(c, &call, NULL);
    if (err != TY_OK)
        return err;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return crew_fail(c, TY_RESOURCE_EXHAUSTED, "%s has no memory for %zu MB more: %s",
                         c->names[c->rank], (bytes >> 20) + 1, strerror(errno));
    struct hall *room = calloc(1, sizeof *room);
    ty_assert(room);
    *room = (struct hall){.next = c->mpi->rooms, .at = at, .bytes = bytes};
    c->mpi->rooms = room;
    *ret_room = at;
    return TY_OK;
}

static ty_err mpi_share(struct crew *c, const char *what, const struct crew_piece *pieces,
                        size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    struct crew_call call = crew_call_of(CREW_SHARE, what, bytes);
    ty_err err = mpi_meet(c, &call, NULL);
    for (size_t i = 0; i < count && err == TY_OK; i++)
        for (int r = 0; r < c->size && err == TY_OK; r++)
            if (pieces[i].owner == c->rank && r != c->rank)
                err = post_send(c, what, r, pieces[i].at, pieces[i].bytes);
            else if (pieces[i].owner == r && r != c->rank)
                err = post_take(c, what, r, pieces[i].at, pieces[i].bytes);
    if (err == TY_OK)
        err = settle(c, what, false);
    return ended(c, err);
}

/* ---- sums ---- */

/* One sum, or a slice of it. */
struct sum {
    const char *what;
    float *const *parts;
    size_t part_count;
    float *out;
};

/* The tree's additions for floats `from` to `from + n`: those of which this rank owns both sides,
 * or
 * (`rest`) those whose sides have different owners; the last of these goes to `out`. In blocks, so
 * that what one level wrote is near when the next reads it. */
static void tree_add(const struct crew *c, const struct sum *s, size_t from, size_t n, bool rest)
{
    enum { BLOCK = 2048 };
    size_t count = s->part_count;
    for (size_t at = from, end = from + n; at < end; at += BLOCK) {
        size_t block = end - at < BLOCK ? end - at : BLOCK;
        for (size_t step = 1; step < count; step *= 2)
            for (size_t i = 0; i + step < count; i += 2 * step) {
                size_t last = i + 2 * step < count ? i + 2 * step - 1 : count - 1;
                int owner = crew_owner(c, i, count);
                bool one_owner = owner == crew_owner(c, last, count);
                if (one_owner == rest || (one_owner && owner != c->rank))
                    continue;
                if (2 * step >= count && s->out != s->parts[0])
                    tensor_pair_sum(s->parts[0] + at, s->parts[step] + at, s->out + at, block);
                else
                    tensor_axpy(1, s->parts[i + step] + at, s->parts[i] + at, block);
            }
    }
    if (rest && count == 1 && s->out != s->parts[0])
        memcpy(s->out + from, s->parts[0] + from, n * sizeof(float));
}

/* Which parts are nodes once every rank has added up what it owns: those that were not added to
 * another. Kept, for the next sum is mostly of as many parts. */
static uint64_t tree_nodes(struct crew *c, size_t count)
{
    struct mpi *m = c->mpi;
    if (m->plan_parts == count)
        return m->plan_nodes;
    uint64_t nodes = count < 64 ? ((uint64_t)1 << count) - 1 : UINT64_MAX;
    for (size_t step = 1; step < count; step *= 2)
        for (size_t i = 0; i + step < count; i += 2 * step) {
            size_t last = i + 2 * step < count ? i + 2 * step - 1 : count - 1;
            if (crew_owner(c, i, count) == crew_owner(c, last, count))
                nodes &= ~((uint64_t)1 << (i + step));
        }
    m->plan_parts = count;
    m->plan_nodes = nodes;
    return nodes;
}

/* Everybody's nodes to everybody. */
static ty_err sum_at_once(struct crew *c, const struct sum *s, size_t count)
{
    uint64_t nodes = tree_nodes(c, s->part_count);
    size_t bytes = count * sizeof(float);
    ty_err err = TY_OK;
    tree_add(c, s, 0, count, false);
    for (size_t k = 0; k < s->part_count && err == TY_OK; k++) {
        int owner = crew_owner(c, k, s->part_count);
        if (!(nodes >> k & 1))
            continue;
        if (owner != c->rank)
            err = post_take(c, s->what, owner, s->parts[k], bytes);
        for (int r = 0; r < c->size && owner == c->rank && err == TY_OK; r++)
            if (r != c->rank)
                err = post_send(c, s->what, r, s->parts[k], bytes);
    }
    if (err == TY_OK)
        err = settle(c, s->what, true);
    if (err == TY_OK)
        tree_add(c, s, 0, count, true);
    return err;
}

/* Slice r of each node to rank r. */
static ty_err slices_out(struct crew *c, const struct sum *s, size_t count)
{
    uint64_t nodes = tree_nodes(c, s->part_count);
    size_t from, n;
    ty_err err = TY_OK;
    for (size_t k = 0; k < s->part_count && err == TY_OK; k++) {
        int owner = crew_owner(c, k, s->part_count);
        if (!(nodes >> k & 1))
            continue;
        crew_slice(c, c->rank, count, &from, &n);
        if (owner != c->rank)
            err = post_take(c, s->what, owner, s->parts[k] + from, n * sizeof(float));
        for (int r = 0; r < c->size && owner == c->rank && err == TY_OK; r++) {
            crew_slice(c, r, count, &from, &n);
            if (r != c->rank)
                err = post_send(c, s->what, r, s->parts[k] + from, n * sizeof(float));
        }
    }
    return err == TY_OK ? settle(c, s->what, false) : err;
}

/* Each rank's slice of the sum to all. */
static ty_err slices_back(struct crew *c, const struct sum *s, size_t count)
{
    size_t from, n, own_from, own_n;
    ty_err err = TY_OK;
    crew_slice(c, c->rank, count, &own_from, &own_n);
    for (int r = 0; r < c->size && err == TY_OK; r++) {
        if (r == c->rank)
            continue;
        crew_slice(c, r, count, &from, &n);
        err = post_take(c, s->what, r, s->out + from, n * sizeof(float));
        if (err == TY_OK)
            err = post_send(c, s->what, r, s->out + own_from, own_n * sizeof(float));
    }
    return err == TY_OK ? settle(c, s->what, false) : err;
}

static ty_err mpi_sum(struct crew *c, const char *what, float *const *parts, size_t part_count,
                      size_t count, float *out)
{
    const struct sum s = {.what = what, .parts = parts, .part_count = part_count, .out = out};
    if (count < SMALL_FLOATS || c->size <= 2)
        return ended(c, sum_at_once(c, &s, count));
    struct crew_call call = crew_call_of(CREW_SUM, what, count * CREW_MOST_PARTS + part_count);
    ty_err err = mpi_meet(c, &call, NULL);
    if (err != TY_OK)
        return err;
    size_t from, n;
    crew_slice(c, c->rank, count, &from, &n);
    tree_add(c, &s, 0, count, false);
    err = slices_out(c, &s, count);
    if (err == TY_OK) {
        tree_add(c, &s, from, n, true);
        err = slices_back(c, &s, count);
    }
    return ended(c, err);
}

/* ---- joining and leaving ---- */

static void mpi_close(struct crew *c)
{
    struct mpi *m = c->mpi;
    while (m->rooms) {
        struct hall *room = m->rooms;
        m->rooms = room->next;
        if (c->code == TY_OK)
            munmap(room->at, room->bytes);
        free(room);
    }
    beats_close(c->beats);
    free(m->requests);
    free(m->posted);
    free(m->indices);
    free(m->statuses);
    free(m->lives);
    free(m);
    c->mpi = NULL;
}

void crew_world_close(const struct crew *c)
{
    if (libmpi_finalize(&lib, c->deadline_ms) != TY_OK)
        fprintf(stderr, "%s: %s\n", c->names[c->rank], ty_err_message());
}

/* The first sign of life of each: without it a lost one could not be told later. */
static ty_err hear_all(struct crew *c)
{
    for (int r = 0; r < c->size;) {
        if (__atomic_load_n(&c->lives[r]->here, __ATOMIC_ACQUIRE)) {
            r++;
            continue;
        }
        if (ty_boot_ms() > c->mpi->until_ms)
            return ty_fail(TY_UNAVAILABLE,
                           "%s hears no sign of life of %s: do UDP datagrams go between their "
                           "machines?",
                           c->names[c->rank], c->names[r]);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return TY_OK;
}

/* What the cards say: are there enough CPUs on this machine, and are all on it and may share
 * memory? */
static bool look_around(struct crew *c, const struct beats_card *cards)
{
    int here = 0;
    bool meet = true;
    struct crew_cpus cpus = {{0}};
    for (int r = 0; r < c->size; r++) {
        meet = meet && cards[r].has_meeting;
        if (memcmp(cards[r].machine, cards[c->rank].machine, sizeof cards[r].machine) == 0) {
            here++;
            crew_cpus_add(&cpus, &cards[r].cpus);
        }
    }
    c->crowded = crew_cpus_count(&cpus) < here;
    return meet && here == c->size;
}

/* Cards to all; then signs of life. ret_one_machine: all are on one, and may share memory there. */
static ty_err introduce(struct crew *c, const struct crew_options *o, bool *ret_one_machine)
{
    struct beats_card *cards = calloc((size_t)c->size, sizeof *cards);
    ty_assert(cards);
    ty_err err = beats_open(&c->beats, &cards[c->rank]);
    if (err == TY_OK) {
        cards[c->rank].has_meeting = o->meeting != NULL;
        err = exchange(c, "joining", cards, sizeof *cards);
    }
    if (err == TY_OK) {
        beats_address(c->beats, cards, c->rank, c->size);
        *ret_one_machine = look_around(c, cards);
    }
    free(cards);
    return err;
}

/* The world is one machine: the same ranks go on through its memory, and MPI only ends with them.
 */
static ty_err go_on_shared(struct crew *c, const struct crew_options *o, struct crew **ret_crew)
{
    struct crew_options shared = *o;
    struct crew *together;
    shared.rank = c->rank;
    shared.size = c->size;
    ty_err err = crew_join_shared(&shared, &together);
    mpi_close(c);
    crew_free(c);
    if (err != TY_OK)
        return err;
    together->world = true;
    *ret_crew = together;
    return TY_OK;
}

static ty_err world_open(const struct crew_options *o, int64_t until_ms, struct crew **ret_crew)
{
    int rank, size;
    ty_err err = libmpi_load("libmpi.so.40", &lib);
    if (err == TY_OK)
        err = libmpi_init(&lib, until_ms - ty_boot_ms());
    if (err == TY_DEADLINE_EXCEEDED)
        return ty_fail(
            TY_UNAVAILABLE,
            "not all ranks came to MPI within %.1f s: one is stopped, or was not started",
            (double)o->join_ms / 1000);
    if (err != TY_OK)
        return err;
    lib.MPI_Comm_rank(lib.world, &rank);
    lib.MPI_Comm_size(lib.world, &size);
    if (o->names && o->size != size)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "MPI has started %d ranks, but the cluster has %d tasks", size, o->size);
    return crew_new(o, rank, size, ret_crew);
}

ty_err crew_join_mpi(const struct crew_options *o, struct crew **ret_crew)
{
    struct crew *c;
    bool one_machine = false;
    int64_t until_ms = ty_boot_ms() + o->join_ms;
    ty_err err = world_open(o, until_ms, &c);
    if (err != TY_OK)
        return err;
    c->way = &crew_mpi_way;
    c->world = true;
    c->mpi = calloc(1, sizeof *c->mpi);
    ty_assert(c->mpi);
    c->mpi->until_ms = until_ms;
    c->mpi->lives = calloc((size_t)c->size, sizeof *c->mpi->lives);
    ty_assert(c->mpi->lives);
    for (int r = 0; r < c->size; r++)
        c->lives[r] = &c->mpi->lives[r];
    err = introduce(c, o, &one_machine);
    if (err == TY_OK && one_machine)
        return go_on_shared(c, o, ret_crew);
    if (err == TY_OK)
        err = life_begin(c);
    if (err == TY_OK)
        err = hear_all(c);
    if (err != TY_OK) {
        life_end(c);
        c->code = err;
        mpi_close(c);
        crew_free(c);
        return err;
    }
    c->mpi->until_ms = 0;
    *ret_crew = c;
    return TY_OK;
}

const struct crew_way crew_mpi_way = {
    .meet = mpi_meet,
    .room = mpi_room,
    .share = mpi_share,
    .sum = mpi_sum,
    .close = mpi_close,
};
