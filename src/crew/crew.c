/* crew.c -- what is the same in every crew: the calls, the failure that stays, who came last.
 *
 * A crew that has failed never computes again: ranks that went on after one was lost would wait for
 * it in another place, or train on sums that lack its part. So the first failure is kept, every
 * later call returns it, and it is published, so that all ranks end with the same sentence instead
 * of each one naming whoever left before it. */
#include "crew/crew_int.h"

#include <sched.h>

enum { LINE_FLOATS = 16 };
static const size_t MOST_ROOM_BYTES = (size_t)1 << 40;

ty_err crew_new(const struct crew_options *o, int rank, int size, struct crew **ret_crew)
{
    if (size < 1 || size > CREW_MOST_RANKS || rank < 0 || rank >= size)
        return ty_fail(TY_INVALID_ARGUMENT, "rank %d of %d: a crew has 1 to %d ranks, from 0 on",
                       rank, size, CREW_MOST_RANKS);
    if (o->join_ms <= 0 || o->deadline_ms < 4 * LIFE_LOOK_MOST_MS)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "join_ms %d, deadline_ms %d: the first is at least 1, the second %d",
                       o->join_ms, o->deadline_ms, 4 * LIFE_LOOK_MOST_MS);
    struct crew *c = calloc(1, sizeof *c);
    size_t ranks = (size_t)size;
    ty_assert(c);
    c->rank = rank;
    c->size = size;
    c->deadline_ms = o->deadline_ms;
    c->stop_fd = -1;
    pthread_mutex_init(&c->failing, NULL);
    c->names = calloc(ranks, sizeof *c->names);
    c->lives = calloc(ranks, sizeof(struct life *));
    c->watch = calloc(ranks, sizeof *c->watch);
    c->late = calloc(ranks, sizeof *c->late);
    ty_assert(c->names && c->lives && c->watch && c->late);
    for (size_t r = 0; r < ranks; r++)
        if (o->names)
            snprintf(c->names[r], CREW_NAME_BYTES, "%s", o->names[r]);
        else
            snprintf(c->names[r], CREW_NAME_BYTES, "rank %zu", r);
    *ret_crew = c;
    return TY_OK;
}

void crew_free(struct crew *c)
{
    if (!c)
        return;
    free(c->names);
    free(c->lives);
    free(c->watch);
    free(c->late);
    pthread_mutex_destroy(&c->failing);
    free(c);
}

/* MPI ends a world in which one leaves early, so there all part together, and a rank that has much
 * left to do is waited for while it lives. With a peer lost MPI_Finalize would wait for that one,
 * so the process ends without it. */
void crew_leave(struct crew *c, const char *why)
{
    if (!c)
        return;
    if (c->world && !why && c->code == TY_OK && crew_meet(c, "the end") != TY_OK)
        fprintf(stderr, "%s: %s\n", c->names[c->rank], c->failure);
    if (c->code == TY_OK && (why || !c->beats))
        life_publish(c, LIFE_LEFT, TY_OK, why ? why : "");
    if (why && c->code == TY_OK)
        c->code = TY_CANCELLED;
    life_end(c);
    c->way->close(c);
    if (c->world && c->code == TY_OK)
        crew_world_close(c);
    crew_free(c);
}

int crew_rank(const struct crew *c)
{
    return c ? c->rank : 0;
}

bool crew_has_one_memory(const struct crew *c)
{
    return c && c->way == &crew_shared_way;
}

int crew_size(const struct crew *c)
{
    return c ? c->size : 1;
}

struct crew_cpus crew_cpus_own(void)
{
    struct crew_cpus own = {{0}};
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        CPU_SET(0, &set);
    for (size_t i = 0; i < CREW_CPU_WORDS * 64; i++)
        if (CPU_ISSET(i, &set))
            own.bits[i / 64] |= (uint64_t)1 << i % 64;
    return own;
}

void crew_cpus_add(struct crew_cpus *to, const struct crew_cpus *more)
{
    for (size_t i = 0; i < CREW_CPU_WORDS; i++)
        to->bits[i] |= more->bits[i];
}

int crew_cpus_count(const struct crew_cpus *cpus)
{
    int count = 0;
    for (size_t i = 0; i < CREW_CPU_WORDS; i++)
        count += __builtin_popcountll(cpus->bits[i]);
    return count;
}

/* ---- the failure that stays ---- */

ty_err crew_fail(struct crew *c, ty_err code, const char *fmt, ...)
{
    va_list arguments;
    pthread_mutex_lock(&c->failing);
    if (c->code == TY_OK) {
        va_start(arguments, fmt);
        vsnprintf(c->failure, sizeof c->failure, fmt, arguments);
        va_end(arguments);
        if (c->lives[c->rank])
            life_publish(c, LIFE_FAILED, code, c->failure);
        __atomic_store_n(&c->code, code, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&c->failing);
    return crew_state(c);
}

ty_err crew_state(const struct crew *c)
{
    return crew_failed(c) ? ty_fail(c->code, "%s", c->failure) : TY_OK;
}

ty_err crew_out_of_step(struct crew *c, int rank, const char *what)
{
    return crew_fail(c, TY_INVALID_ARGUMENT,
                     "%s is in another call than %s, which is at '%s': all ranks make the same "
                     "calls, in the same order and with the same sizes",
                     c->names[rank], c->names[c->rank], what);
}

/* ---- the calls ---- */

ty_err crew_agree(struct crew *c, const char *what, uint64_t id)
{
    if (!c)
        return TY_OK;
    if (crew_failed(c))
        return crew_state(c);
    uint64_t values[CREW_MOST_RANKS];
    struct crew_call call = crew_call_of(CREW_AGREE, what, 0);
    call.value = id;
    ty_err err = c->way->meet(c, &call, values);
    for (int r = 1; err == TY_OK && r < c->size; r++)
        if (values[r] != values[0])
            err = crew_fail(c, TY_INVALID_ARGUMENT, "%s has another %s than %s", c->names[r], what,
                            c->names[0]);
    return err;
}

ty_err crew_room(struct crew *c, size_t bytes, void **ret_room)
{
    if (crew_failed(c))
        return crew_state(c);
    if (bytes > MOST_ROOM_BYTES)
        return crew_fail(c, TY_RESOURCE_EXHAUSTED, "a room of %zu bytes: the most is %zu", bytes,
                         MOST_ROOM_BYTES);
    return c->way->room(c, bytes ? bytes : 1, ret_room);
}

ty_err crew_meet(struct crew *c, const char *what)
{
    if (!c)
        return TY_OK;
    if (crew_failed(c))
        return crew_state(c);
    struct crew_call call = crew_call_of(CREW_MEET, what, 0);
    return c->way->meet(c, &call, NULL);
}

int crew_owner(const struct crew *c, size_t part, size_t parts)
{
    return c ? (int)(part * (size_t)c->size / parts) : 0;
}

void crew_slice(const struct crew *c, int rank, size_t count, size_t *ret_from, size_t *ret_count)
{
    size_t lines = (count + LINE_FLOATS - 1) / LINE_FLOATS, size = (size_t)c->size;
    size_t from = lines * (size_t)rank / size * LINE_FLOATS;
    size_t to = lines * ((size_t)rank + 1) / size * LINE_FLOATS;
    *ret_from = from < count ? from : count;
    *ret_count = (to < count ? to : count) - *ret_from;
}

ty_err crew_share(struct crew *c, const char *what, const struct crew_piece *pieces, size_t count)
{
    if (!c)
        return TY_OK;
    if (crew_failed(c))
        return crew_state(c);
    for (size_t i = 0; i < count; i++) {
        ty_assert(pieces[i].owner >= 0 && pieces[i].owner < c->size);
        if (pieces[i].owner == c->rank)
            c->bytes += pieces[i].bytes;
    }
    return c->way->share(c, what, pieces, count);
}

/* ---- what was observed ---- */

void crew_note(struct crew *c, int last, int64_t cost_ns)
{
    c->meetings++;
    c->late[last].times++;
    c->late[last].cost_ns += cost_ns;
}

/* Where clocks cannot be compared this rank does not see what others waited for it, but they say
 * how much they have waited, all together. */
static int64_t waited_meanwhile(struct crew *c)
{
    int64_t most = 0;
    for (int r = 0; r < c->size; r++) {
        int64_t waited = __atomic_load_n(&c->lives[r]->wait_ns, __ATOMIC_RELAXED);
        if (r != c->rank && waited - c->late[r].waited_ns > most)
            most = waited - c->late[r].waited_ns;
        c->late[r].waited_ns = waited;
    }
    return most;
}

void crew_waits(struct crew *c, struct crew_waits *ret)
{
    *ret = (struct crew_waits){.slowest = -1};
    if (!c)
        return;
    ret->wait_ns = c->wait_ns;
    ret->bytes = c->bytes;
    ret->buckets = c->buckets;
    ret->early = c->early;
    uint64_t most = 0;
    for (int r = 0; r < c->size && c->size > 1; r++)
        if (c->late[r].times > most) {
            most = c->late[r].times;
            ret->slowest = r;
        }
    int64_t meanwhile = waited_meanwhile(c);
    if (ret->slowest >= 0) {
        struct lateness *late = &c->late[ret->slowest];
        ret->share = (double)most / (double)c->meetings;
        ret->cost_ns = late->cost_ns;
        if (c->beats && ret->slowest == c->rank)
            ret->cost_ns = meanwhile;
    }
    for (int r = 0; r < c->size; r++) {
        c->late[r].times = 0;
        c->late[r].cost_ns = 0;
    }
    c->meetings = 0;
}

/* ---- how this process was started ---- */

static bool environment_int(const char *name, int *ret_value)
{
    const char *text = getenv(name);
    int64_t value;
    if (!text || ty_parse_i64(ty_str_of(text), &value) != TY_OK || value < 0 || value > INT_MAX)
        return false;
    *ret_value = (int)value;
    return true;
}

/* Open MPI's mpirun sets its own names. srun sets Slurm's for anything it starts; it has told MPI
 * who is who if PMIx's rank is there, too. */
bool crew_under_mpi(int *ret_rank, int *ret_size)
{
    int rank, size;
    bool by_mpirun = environment_int("OMPI_COMM_WORLD_RANK", &rank) &&
                     environment_int("OMPI_COMM_WORLD_SIZE", &size);
    if (!by_mpirun &&
        (!environment_int("PMIX_RANK", &rank) || !environment_int("SLURM_STEP_NUM_TASKS", &size)))
        return false;
    if (size < 1 || rank >= size)
        return false;
    *ret_rank = rank;
    *ret_size = size;
    return true;
}

int crew_unconnected(void)
{
    int rank, size;
    bool many = environment_int("SLURM_STEP_NUM_TASKS", &size) && size > 1;
    return many && !crew_under_mpi(&rank, &size) ? size : 0;
}
