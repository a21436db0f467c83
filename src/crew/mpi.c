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
 * Sums in buckets do the same for each bucket, in three rounds that go on while the ranks compute:
 * its nodes go out when it is ready, the rest is added when all nodes are there, and slices come
 * back. All receives are posted at the begin. Such messages have tags of their own, for other calls
 * come in between; buckets keep their order, so that a tag for each round is enough. MPI moves
 * large messages only while it is called, a piece at a time, and layers may be long: a thread, the
 * carrier, calls it all along.
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
#include <sys/eventfd.h>
#include <sys/mman.h>

enum {
    SMALL_FLOATS = 8192,   /* below: one round in which everybody sends everything */
    CHUNK_BYTES = 1 << 28, /* of one message; MPI counts in int */
    EAGER_BYTES = 2048,    /* MPI sends so few at once, without asking the other side first; */
    EAGER_MOST = 4,        /* up to so many such messages are faster than one that asks */
    TAG = 1,               /* the order of messages between two ranks tells them apart; */
    TAG_NODES = 2,         /* those of sums in buckets go past the others */
    TAG_SLICES = 3,
    YIELD_TESTS = 64,      /* fruitless tests before another process may run */
    SLEEP_AFTER_US = 2000, /* of waiting; then it sleeps between two tests */
    SLEEP_US = 50,
    AT_ONCE_US = 50, /* what takes no longer was no wait for anybody */
    CARRY_US = 250,  /* between two looks of the carrier */
};

/* Under way. */
struct messages {
    MPI_Request *requests;
    struct posted {
        int from; /* -1: it goes out */
        size_t bytes;
        size_t *left; /* counts down when it is done; NULL: nobody counts */
    } * posted;
    int *indices;
    MPI_Status *statuses;
    size_t count, room;
};
struct mpi {
    struct messages calls, sums; /* of calls that wait for all of theirs; of sums in buckets */
    pthread_mutex_t lock;        /* one thread at a time calls MPI */
    uint32_t ready;              /* c->sums.ready */
    pthread_t carrier;
    bool carrying;
    int carry_fd; /* counts up: there are sums to carry. -1: there is no carrier */
    bool over;    /* it ends */
    struct bucket {
        size_t nodes, slices; /* messages of either round that are under way */
    } * buckets;
    size_t bucket_room;
    size_t added;     /* buckets of which all nodes were there */
    int64_t until_ms; /* joining: for all to come; 0: joined */

    char *packed; /* a share's messages, one a rank */
    size_t packed_room;

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

static void messages_grow(struct messages *m)
{
    m->room = m->room ? 2 * m->room : 64;
    m->requests = realloc(m->requests, m->room * sizeof(MPI_Request));
    m->posted = realloc(m->posted, m->room * sizeof *m->posted);
    m->indices = realloc(m->indices, m->room * sizeof *m->indices);
    m->statuses = realloc(m->statuses, m->room * sizeof *m->statuses);
    ty_assert(m->requests && m->posted && m->indices && m->statuses);
}

static void messages_clear(struct messages *m)
{
    free(m->requests);
    free(m->posted);
    free(m->indices);
    free(m->statuses);
}

/* Where messages are counted, and how they are told from others. */
struct lane {
    pthread_mutex_t *lock; /* the crew's */
    struct messages *messages;
    const char *what;
    int tag;
    size_t *left; /* NULL: nobody counts */
};

static struct lane lane_of(struct crew *c, const char *what)
{
    return (struct lane){&c->mpi->lock, &c->mpi->calls, what, TAG, NULL};
}

/* In pieces that MPI can count. What it returns as an error is returned. */
static ty_err post(const struct lane *lane, bool out, int peer, void *at, size_t bytes)
{
    struct messages *m = lane->messages;
    size_t most = bytes <= EAGER_MOST * EAGER_BYTES ? EAGER_BYTES : CHUNK_BYTES;
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < most ? bytes - done : most;
        if (m->count == m->room)
            messages_grow(m);
        MPI_Request *request = &m->requests[m->count];
        char *from = (char *)at + done;
        pthread_mutex_lock(lane->lock);
        int code = out ? lib.MPI_Isend(from, (int)n, lib.byte, peer, lane->tag, lib.world, request)
                       : lib.MPI_Irecv(from, (int)n, lib.byte, peer, lane->tag, lib.world, request);
        pthread_mutex_unlock(lane->lock);
        if (code != MPI_SUCCESS)
            return libmpi_fail(&lib, code, lane->what);
        m->posted[m->count++] = (struct posted){out ? -1 : peer, n, lane->left};
        if (lane->left)
            ++*lane->left;
        done += n;
    }
    return TY_OK;
}

static ty_err post_send(const struct lane *lane, int to, const void *at, size_t bytes)
{
    return post(lane, true, to, (void *)(uintptr_t)at, bytes);
}

static ty_err post_take(const struct lane *lane, int from, void *at, size_t bytes)
{
    return post(lane, false, from, at, bytes);
}

/* A wait that is under way. */
struct wait {
    const char *what;
    int64_t from_ns;
    uint64_t tests;
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

/* Messages that are done now: each is as long as this call expects. ret_last: from whom the last
 * came, if one did. */
static ty_err test(struct crew *c, struct messages *m, const char *what, int *ret_finished,
                   int *ret_last)
{
    pthread_mutex_lock(&c->mpi->lock);
    int code = lib.MPI_Testsome((int)m->count, m->requests, ret_finished, m->indices, m->statuses);
    pthread_mutex_unlock(&c->mpi->lock);
    if (code == MPI_ERR_IN_STATUS)
        return crew_fail(c, TY_INVALID_ARGUMENT,
                         "a message for '%s' was longer than %s expects: all ranks make the "
                         "same calls, with the same sizes",
                         what, c->names[c->rank]);
    if (code != MPI_SUCCESS)
        return libmpi_fail(&lib, code, what);
    for (int i = 0; i < *ret_finished; i++) {
        struct posted *p = &m->posted[m->indices[i]];
        if (p->left)
            --*p->left;
        if (p->from < 0)
            continue;
        int bytes = 0;
        lib.MPI_Get_count(&m->statuses[i], lib.byte, &bytes);
        if ((size_t)bytes != p->bytes)
            return crew_out_of_step(c, p->from, what);
        *ret_last = p->from;
    }
    return TY_OK;
}

static void waited(struct crew *c, int64_t ns)
{
    c->wait_ns += ns;
    if (c->lives[c->rank])
        __atomic_store_n(&c->lives[c->rank]->wait_ns, c->wait_ns, __ATOMIC_RELAXED);
}

/* Until all calls' messages are done. `note`: whose message came last is who was late. */
static ty_err settle(struct crew *c, const char *what, bool note)
{
    struct messages *m = &c->mpi->calls;
    struct wait w = {.what = what, .from_ns = ty_boot_ns()};
    ty_err err = TY_OK;
    int last = -1;
    for (size_t left = m->count; left > 0 && err == TY_OK;) {
        int finished = 0;
        err = test(c, m, what, &finished, &last);
        if (err == TY_OK && finished <= 0)
            err = wait_idle(c, &w);
        left -= finished > 0 ? (size_t)finished : 0;
    }
    int64_t waited_ns = ty_boot_ns() - w.from_ns;
    waited(c, waited_ns);
    bool was_last = last < 0 || waited_ns < AT_ONCE_US * INT64_C(1000); /* all were there before */
    if (note && err == TY_OK)
        crew_note(c, was_last ? c->rank : last, was_last ? 0 : waited_ns);
    m->count = 0;
    return err;
}

/* An error of MPI's becomes the failure that stays. */
static ty_err ended(struct crew *c, ty_err err)
{
    if (err == TY_OK || crew_failed(c))
        return err;
    char *message = ty_err_take();
    err = crew_fail(c, err, "%s", message);
    free(message);
    return err;
}

/* Each rank's `bytes` at all[rank] to everybody. */
static ty_err exchange(struct crew *c, const char *what, void *all, size_t bytes)
{
    const struct lane lane = lane_of(c, what);
    ty_err err = TY_OK;
    for (int r = 0; r < c->size && err == TY_OK; r++)
        if (r != c->rank)
            err = post_take(&lane, r, (char *)all + (size_t)r * bytes, bytes);
    for (int r = 0; r < c->size && err == TY_OK; r++)
        if (r != c->rank)
            err = post_send(&lane, r, (char *)all + (size_t)c->rank * bytes, bytes);
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

/* Memory that messages are sent from and received in. */
static ty_err hall_open(struct crew *c, size_t bytes, void **ret_at)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return crew_fail(c, TY_RESOURCE_EXHAUSTED, "%s has no memory for %zu MB more: %s",
                         c->names[c->rank], (bytes >> 20) + 1, strerror(errno));
    struct hall *room = calloc(1, sizeof *room);
    ty_assert(room);
    *room = (struct hall){.next = c->mpi->rooms, .at = at, .bytes = bytes};
    c->mpi->rooms = room;
    *ret_at = at;
    return TY_OK;
}

static ty_err mpi_room(struct crew *c, size_t bytes, void **ret_room)
{
    struct crew_call call = crew_call_of(CREW_ROOM, "room", bytes);
    ty_err err = mpi_meet(c, &call, NULL);
    return err == TY_OK ? hall_open(c, bytes, ret_room) : err;
}

/* A rank's message of a share: which call it is, then the pieces that it owns, one after another.
 * One message, for each costs as much as thousands of bytes; and as each has come, all have. */
static void pack(struct crew *c, const struct crew_piece *pieces, size_t count, int rank, size_t at,
                 bool out)
{
    char *to = c->mpi->packed + at + sizeof(uint64_t);
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].owner != rank)
            continue;
        if (out)
            memcpy(to, pieces[i].at, pieces[i].bytes);
        else
            memcpy(pieces[i].at, to, pieces[i].bytes);
        to += pieces[i].bytes;
    }
}

/* Room for all messages; where each begins, and at the end where the last ends. */
static ty_err packed_plan(struct crew *c, const struct crew_piece *pieces, size_t count,
                          size_t at[CREW_MOST_RANKS + 1])
{
    struct mpi *m = c->mpi;
    memset(at, 0, (CREW_MOST_RANKS + 1) * sizeof *at);
    for (size_t i = 0; i < count; i++)
        at[pieces[i].owner + 1] += pieces[i].bytes;
    for (int r = 0; r < c->size; r++)
        at[r + 1] += at[r] + sizeof(uint64_t);
    if (at[c->size] <= m->packed_room)
        return TY_OK;
    void *room = NULL; /* the one before stays a hall until the end: all before are fewer bytes */
    size_t bytes = 2 * at[c->size];
    ty_err err = hall_open(c, bytes, &room);
    if (err != TY_OK)
        return err;
    m->packed = room;
    m->packed_room = bytes;
    return TY_OK;
}

static ty_err packed_send(struct crew *c, const char *what, const size_t *at)
{
    const struct lane lane = lane_of(c, what);
    char *packed = c->mpi->packed;
    ty_err err = TY_OK;
    for (int r = 0; r < c->size && err == TY_OK; r++)
        if (r != c->rank)
            err = post_take(&lane, r, packed + at[r], at[r + 1] - at[r]);
    for (int r = 0; r < c->size && err == TY_OK; r++)
        if (r != c->rank)
            err = post_send(&lane, r, packed + at[c->rank], at[c->rank + 1] - at[c->rank]);
    return err == TY_OK ? settle(c, what, true) : err;
}

static ty_err mpi_share(struct crew *c, const char *what, const struct crew_piece *pieces,
                        size_t count)
{
    size_t at[CREW_MOST_RANKS + 1];
    ty_err err = packed_plan(c, pieces, count, at);
    if (err != TY_OK)
        return err;
    struct crew_call call = crew_call_of(CREW_SHARE, what, at[c->size]);
    memcpy(c->mpi->packed + at[c->rank], &call.id, sizeof call.id);
    pack(c, pieces, count, c->rank, at[c->rank], true);
    err = packed_send(c, what, at);
    for (int r = 0; r < c->size && err == TY_OK; r++) {
        if (memcmp(c->mpi->packed + at[r], &call.id, sizeof call.id) != 0)
            err = crew_out_of_step(c, r, what);
        else if (r != c->rank)
            pack(c, pieces, count, r, at[r], false);
    }
    return ended(c, err);
}

/* ---- sums ---- */

/* The tree's additions for floats `from` to `from + n`: those of which this rank owns both sides,
 * or
 * (`rest`) those whose sides have different owners; the last of these goes to `out`. In blocks, so
 * that what one level wrote is near when the next reads it. */
static void tree_add(const struct crew *c, const struct crew_sums *s, size_t from, size_t n,
                     bool rest)
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

static bool is_sliced(const struct crew *c, const struct crew_bucket *b)
{
    return b->count >= SMALL_FLOATS && c->size > 2;
}

/* What rank r gets of a bucket's nodes: its slice, or all. */
static struct crew_bucket share_of(const struct crew *c, const struct crew_bucket *b, int r)
{
    struct crew_bucket share = *b;
    if (is_sliced(c, b)) {
        crew_slice(c, r, b->count, &share.from, &share.count);
        share.from += b->from;
    }
    return share;
}

static ty_err nodes_take(struct crew *c, const struct lane *lane, const struct crew_bucket *b)
{
    const struct crew_sums *s = &c->sums.of;
    const struct crew_bucket own = share_of(c, b, c->rank);
    uint64_t nodes = tree_nodes(c, s->part_count);
    ty_err err = TY_OK;
    for (size_t k = 0; k < s->part_count && err == TY_OK; k++) {
        int owner = crew_owner(c, k, s->part_count);
        if (nodes >> k & 1 && owner != c->rank)
            err = post_take(lane, owner, s->parts[k] + own.from, own.count * sizeof(float));
    }
    return err;
}

/* Add up what this rank owns, and send the nodes of it. */
static ty_err nodes_send(struct crew *c, const struct lane *lane, const struct crew_bucket *b)
{
    const struct crew_sums *s = &c->sums.of;
    uint64_t nodes = tree_nodes(c, s->part_count);
    ty_err err = TY_OK;
    tree_add(c, s, b->from, b->count, false);
    for (size_t k = 0; k < s->part_count; k++)
        for (int r = 0; r < c->size && err == TY_OK; r++) {
            const struct crew_bucket share = share_of(c, b, r);
            if (nodes >> k & 1 && crew_owner(c, k, s->part_count) == c->rank && r != c->rank)
                err = post_send(lane, r, s->parts[k] + share.from, share.count * sizeof(float));
        }
    return err;
}

/* The other ranks' slices of the sum. */
static ty_err slices_take(struct crew *c, const struct lane *lane, const struct crew_bucket *b)
{
    ty_err err = TY_OK;
    for (int r = 0; r < c->size && is_sliced(c, b) && err == TY_OK; r++) {
        const struct crew_bucket slice = share_of(c, b, r);
        if (r != c->rank)
            err = post_take(lane, r, c->sums.of.out + slice.from, slice.count * sizeof(float));
    }
    return err;
}

/* All nodes are there: the rest of the additions, and this rank's slice to all. */
static ty_err slices_send(struct crew *c, const struct lane *lane, const struct crew_bucket *b)
{
    const struct crew_bucket own = share_of(c, b, c->rank);
    ty_err err = TY_OK;
    tree_add(c, &c->sums.of, own.from, own.count, true);
    for (int r = 0; r < c->size && is_sliced(c, b) && err == TY_OK; r++)
        if (r != c->rank)
            err = post_send(lane, r, c->sums.of.out + own.from, own.count * sizeof(float));
    return err;
}

/* ---- in one bucket: round by round ---- */

static ty_err sum_at_once(struct crew *c, const struct crew_bucket *b)
{
    const struct lane lane = lane_of(c, c->sums.of.what);
    ty_err err = nodes_take(c, &lane, b);
    if (err == TY_OK)
        err = nodes_send(c, &lane, b);
    if (err == TY_OK)
        err = settle(c, lane.what, !is_sliced(c, b));
    if (err == TY_OK)
        err = slices_take(c, &lane, b);
    if (err == TY_OK)
        err = slices_send(c, &lane, b);
    return err == TY_OK ? settle(c, lane.what, false) : err;
}

/* ---- in buckets: as far as it goes ---- */

static struct lane bucket_lane(struct crew *c, size_t i, bool slices)
{
    struct bucket *b = &c->mpi->buckets[i];
    return (struct lane){.lock = &c->mpi->lock,
                         .messages = &c->mpi->sums,
                         .what = c->sums.of.what,
                         .tag = slices ? TAG_SLICES : TAG_NODES,
                         .left = slices ? &b->slices : &b->nodes};
}

/* The carrier: while there are sums, look after them. */
static void *carry(void *arg)
{
    struct crew *c = arg;
    struct mpi *m = c->mpi;
    const struct timespec pause = {.tv_nsec = CARRY_US * 1000L};
    while (!__atomic_load_n(&m->over, __ATOMIC_ACQUIRE)) {
        if (!__atomic_load_n(&c->sums.open, __ATOMIC_ACQUIRE)) {
            eventfd_t sums;
            (void)eventfd_read(m->carry_fd, &sums); /* asleep until there are some, or it is over */
            continue;
        }
        nanosleep(&pause, NULL);
        crew_sums_advance(c);
    }
    return NULL;
}

/* Without one the sums go on where ranks advance, and at their end. It takes no signals. */
static void carrier_begin(struct crew *c)
{
    struct mpi *m = c->mpi;
    sigset_t all, before;
    m->carry_fd = eventfd(0, EFD_CLOEXEC);
    if (m->carry_fd < 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    m->carrying = pthread_create(&m->carrier, NULL, carry, c) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void carrier_wake(struct crew *c)
{
    struct mpi *m = c->mpi;
    if (m->carry_fd < 0)
        carrier_begin(c);
    if (m->carrying)
        eventfd_write(m->carry_fd, 1);
}

static void carrier_end(struct mpi *m)
{
    if (m->carrying) {
        __atomic_store_n(&m->over, true, __ATOMIC_RELEASE);
        eventfd_write(m->carry_fd, 1);
        pthread_join(m->carrier, NULL);
    }
    if (m->carry_fd >= 0)
        close(m->carry_fd);
}

static ty_err mpi_sums_begin(struct crew *c)
{
    struct mpi *m = c->mpi;
    size_t count = c->sums.of.bucket_count;
    ty_err err = TY_OK;
    if (count == 1)
        return TY_OK;
    if (count > m->bucket_room) {
        m->bucket_room = count;
        m->buckets = realloc(m->buckets, count * sizeof *m->buckets);
        ty_assert(m->buckets);
    }
    memset(m->buckets, 0, count * sizeof *m->buckets);
    m->added = 0;
    for (size_t i = 0; i < count && err == TY_OK; i++) {
        const struct lane nodes = bucket_lane(c, i, false), slices = bucket_lane(c, i, true);
        err = nodes_take(c, &nodes, &c->sums.of.buckets[i]);
        if (err == TY_OK)
            err = slices_take(c, &slices, &c->sums.of.buckets[i]);
    }
    if (err == TY_OK)
        carrier_wake(c);
    return ended(c, err);
}

/* Forget the messages that are done. */
static void sums_tidy(struct messages *m, int finished)
{
    size_t kept = 0;
    for (int i = 0; i < finished; i++)
        m->posted[m->indices[i]].left = NULL;
    for (size_t i = 0; i < m->count; i++)
        if (m->posted[i].left) {
            m->requests[kept] = m->requests[i];
            m->posted[kept++] = m->posted[i];
        }
    m->count = kept;
}

/* As far as it goes now. *ret_moved: it went on. */
static ty_err sums_go(struct crew *c, bool *ret_moved)
{
    struct summing *s = &c->sums;
    struct mpi *m = c->mpi;
    size_t ready = __atomic_load_n(s->ready, __ATOMIC_ACQUIRE) - s->before;
    int finished = 0, last;
    ty_err err = TY_OK;
    for (; s->begun < ready && err == TY_OK; s->begun++) {
        const struct lane lane = bucket_lane(c, s->begun, false);
        err = nodes_send(c, &lane, &s->of.buckets[s->begun]);
    }
    if (err == TY_OK)
        err = test(c, &m->sums, s->of.what, &finished, &last);
    if (err == TY_OK && finished > 0)
        sums_tidy(&m->sums, finished);
    for (; m->added < s->begun && m->buckets[m->added].nodes == 0 && err == TY_OK; m->added++) {
        const struct lane lane = bucket_lane(c, m->added, true);
        err = slices_send(c, &lane, &s->of.buckets[m->added]);
    }
    while (s->done < m->added && m->buckets[s->done].slices == 0)
        s->done++;
    *ret_moved = finished > 0;
    return ended(c, err);
}

static void mpi_sums_advance(struct crew *c)
{
    bool moved;
    if (sums_go(c, &moved) != TY_OK)
        return; /* it stays, and the next call tells it */
}

/* Until all buckets are done. */
static ty_err sums_settle(struct crew *c)
{
    struct summing *s = &c->sums;
    struct wait w = {.what = s->of.what};
    ty_err err = TY_OK;
    while (s->done < s->of.bucket_count && err == TY_OK) {
        bool moved;
        err = sums_go(c, &moved);
        if (err == TY_OK && !moved) {
            w.from_ns = w.from_ns ? w.from_ns : ty_boot_ns();
            err = ended(c, wait_idle(c, &w));
        } else if (w.from_ns) {
            waited(c, ty_boot_ns() - w.from_ns);
            w.from_ns = 0;
        }
    }
    return err;
}

/* What is left of the buckets goes out, and all meet, so that one which is at another call is told
 * and who was late is known. */
static ty_err mpi_sums_end(struct crew *c)
{
    struct summing *s = &c->sums;
    struct crew_call call = crew_call_of(CREW_SUM, s->of.what, s->call);
    bool one = s->of.bucket_count == 1, moved;
    ty_err err = one ? TY_OK : sums_go(c, &moved);
    if (err == TY_OK && (!one || is_sliced(c, s->of.buckets)))
        err = mpi_meet(c, &call, NULL);
    if (err != TY_OK)
        return err;
    return one ? ended(c, sum_at_once(c, s->of.buckets)) : sums_settle(c);
}

/* ---- joining and leaving ---- */

static void mpi_close(struct crew *c)
{
    struct mpi *m = c->mpi;
    carrier_end(m);
    while (m->rooms) {
        struct hall *room = m->rooms;
        m->rooms = room->next;
        if (c->code == TY_OK)
            munmap(room->at, room->bytes);
        free(room);
    }
    beats_close(c->beats);
    messages_clear(&m->calls);
    messages_clear(&m->sums);
    free(m->buckets);
    pthread_mutex_destroy(&m->lock);
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
        meet = meet && cards[r].has_meeting && cards[r].network == cards[c->rank].network;
        if (memcmp(cards[r].machine, cards[c->rank].machine, sizeof cards[r].machine) == 0) {
            here++;
            crew_cpus_add(&cpus, &cards[r].cpus);
        }
    }
    c->crowded = crew_cpus_count(&cpus) < here;
    return meet && here == c->size;
}

/* Cards to all; then signs of life. ret_one_machine: all are on one, and may share memory there.
 * ret_key: the crew's. */
static ty_err introduce(struct crew *c, const struct crew_options *o, bool *ret_one_machine,
                        uint64_t *ret_key)
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
        *ret_key = cards[0].key;
    }
    free(cards);
    return err;
}

/* The world is one machine: the same ranks go on through its memory, and MPI only ends with them.
 */
static ty_err go_on_shared(struct crew *c, const struct crew_options *o, uint64_t key,
                           struct crew **ret_crew)
{
    struct crew_options shared = *o;
    struct crew *together;
    char meeting[PATH_MAX]; /* of this world, for another may have the same o->meeting */
    snprintf(meeting, sizeof meeting, "%s-%016" PRIx64, o->meeting, key);
    shared.meeting = meeting;
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
    pthread_mutex_init(&c->mpi->lock, NULL);
    c->mpi->carry_fd = -1;
    c->mpi->until_ms = until_ms;
    c->sums.ready = &c->mpi->ready;
    c->mpi->lives = calloc((size_t)c->size, sizeof *c->mpi->lives);
    ty_assert(c->mpi->lives);
    for (int r = 0; r < c->size; r++)
        c->lives[r] = &c->mpi->lives[r];
    uint64_t key = 0;
    err = introduce(c, o, &one_machine, &key);
    if (err == TY_OK && one_machine)
        return go_on_shared(c, o, key, ret_crew);
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
    .sums_begin = mpi_sums_begin,
    .sums_advance = mpi_sums_advance,
    .sums_end = mpi_sums_end,
    .close = mpi_close,
};
