/* shared.c -- a crew on one machine: one file in memory, mapped by all.
 *
 *   head      magic, number of ranks
 *   slot      one a rank, in cache lines of its own: the meetings it has come to, its life
 *   room      pages, one room after the other
 *
 * Rank 0 makes the file under another name and renames it into place, so whoever finds it finds it
 * whole; when all have joined it is unlinked, and the last process that ends takes it along. Every
 * rank holds a lock on the byte of its rank. The kernel gives that back when the process dies, in
 * whatever PID namespace it lived: a free lock means dead, at once and without doubt. They are
 * record locks of the process, not of the open file, for those would live on in its children. A
 * file whose first byte nobody holds is of a crew that is dead.
 *
 * A meeting: a rank counts `arrived` in its own slot up and waits until all others have, spinning
 * for a moment if there is a CPU for each rank, then asleep on the other's counter (futex), looking
 * at everybody's life every 50 ms. What a rank brings along (its time, its number) has two places,
 * used in turn: it cannot come to the next meeting but one before all have left this one. */
#include "crew/crew_int.h"

#include "tensor/tensor.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static const char MAGIC[8] = {'T', 'Y', 'C', 'R', 'E', 'W', '0', '1'};
enum { SPINS = 2000, LOOK_FOR_MS = 10, SAY_MS = 5000, PAGE = 4096 };

struct slot {
    _Alignas(64) uint32_t arrived; /* at so many meetings; 1: it has joined */
    uint32_t sleepers;             /* who sleep on `arrived` */
    uint32_t ready;                /* so many buckets of sums, ever */
    int64_t came_ns[2];
    uint64_t call[2], value[2];
    _Alignas(64) struct life life;
    struct crew_cpus cpus;
};
struct board {
    char magic[sizeof MAGIC];
    uint32_t ranks;
    struct slot slots[];
};
struct shared {
    int fd;
    bool placed; /* the file is at the meeting place, and ours */
    struct board *board;
    size_t board_bytes, end; /* of the file: where the next room begins */
    uint32_t meetings;
    struct room {
        struct room *next;
        void *at;
        size_t bytes;
    } * rooms;
};

static size_t to_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t board_size(int ranks)
{
    return to_pages(sizeof(struct board) + (size_t)ranks * sizeof(struct slot));
}

/* ---- locks ---- */

static int lock_try(int fd, int rank)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    return fcntl(fd, F_SETLK, &lock) == 0 ? 0 : errno;
}

static bool lock_is_free(int fd, int rank)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

static bool shared_gone(struct crew *c, int rank)
{
    return lock_is_free(c->shared->fd, rank);
}

/* ---- meetings ---- */

static bool has_come(const struct slot *s, uint32_t meeting)
{
    return (int32_t)(__atomic_load_n(&s->arrived, __ATOMIC_ACQUIRE) - meeting) >= 0;
}

static bool all_have_come(const struct crew *c, uint32_t meeting)
{
    for (int r = 0; r < c->size; r++)
        if (!has_come(&c->shared->board->slots[r], meeting))
            return false;
    return true;
}

static void come(struct crew *c, uint32_t meeting)
{
    struct slot *own = &c->shared->board->slots[c->rank];
    __atomic_store_n(&own->arrived, meeting, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&own->sleepers, __ATOMIC_SEQ_CST) > 0)
        syscall(SYS_futex, &own->arrived, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Until `s` may have come, at most LIFE_LOOK_MS. */
static void sleep_on(struct slot *s, uint32_t meeting)
{
    const struct timespec slice = {.tv_nsec = LIFE_LOOK_MS * 1000000L};
    __atomic_add_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
    uint32_t seen = __atomic_load_n(&s->arrived, __ATOMIC_SEQ_CST);
    if ((int32_t)(seen - meeting) < 0)
        syscall(SYS_futex, &s->arrived, FUTEX_WAIT, seen, &slice, NULL, 0);
    __atomic_sub_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
}

/* Who is lost is only told if the wait is not over: one that came and then left did nothing wrong.
 */
static ty_err wait_for(struct crew *c, int rank, uint32_t meeting, const char *what)
{
    struct slot *s = &c->shared->board->slots[rank];
    for (int i = 0; i < SPINS && !c->crowded; i++) {
        if (has_come(s, meeting))
            return TY_OK;
        crew_relax();
    }
    while (!has_come(s, meeting)) {
        sleep_on(s, meeting);
        int64_t since_ns = ty_boot_ns() - c->looked_ns;
        if (since_ns < LIFE_LOOK_MS * INT64_C(1000000) / 2)
            continue;
        int lost = life_lost(c);
        if (lost >= 0 && !all_have_come(c, meeting))
            return life_tell(c, lost, what);
    }
    return TY_OK;
}

static ty_err wait_for_all(struct crew *c, uint32_t meeting, const char *what)
{
    ty_err err = TY_OK;
    int64_t from_ns = 0;
    for (int r = 0; r < c->size && err == TY_OK; r++) {
        if (has_come(&c->shared->board->slots[r], meeting))
            continue;
        from_ns = from_ns ? from_ns : ty_boot_ns();
        err = wait_for(c, r, meeting, what);
    }
    if (from_ns) {
        c->wait_ns += ty_boot_ns() - from_ns;
        __atomic_store_n(&c->lives[c->rank]->wait_ns, c->wait_ns, __ATOMIC_RELAXED);
    }
    return err;
}

/* Who came last, and how long the first had waited by then. */
static void note_last(struct crew *c, int turn)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    int last = 0;
    for (int r = 0; r < c->size; r++) {
        int64_t came_ns = c->shared->board->slots[r].came_ns[turn];
        first_ns = came_ns < first_ns ? came_ns : first_ns;
        if (came_ns > last_ns) {
            last_ns = came_ns;
            last = r;
        }
    }
    crew_note(c, last, last_ns - first_ns);
}

static ty_err shared_meet(struct crew *c, const struct crew_call *call, uint64_t *values)
{
    struct shared *s = c->shared;
    struct slot *own = &s->board->slots[c->rank];
    uint32_t meeting = ++s->meetings;
    int turn = (int)(meeting & 1);
    own->came_ns[turn] = ty_boot_ns();
    own->call[turn] = call->id;
    own->value[turn] = call->value;
    come(c, meeting);
    ty_err err = wait_for_all(c, meeting, call->what);
    if (err != TY_OK)
        return err;
    for (int r = 0; r < c->size; r++) {
        const struct slot *slot = &s->board->slots[r];
        if (slot->call[turn] != call->id)
            return crew_out_of_step(c, r, call->what);
        if (values)
            values[r] = slot->value[turn];
    }
    note_last(c, turn);
    return TY_OK;
}

/* ---- rooms, shares, sums ---- */

/* Rank 0 takes the memory before the meeting and brings the outcome along: taken now, not at the
 * first touch, where having none would be SIGBUS. */
static ty_err shared_room(struct crew *c, size_t bytes, void **ret_room)
{
    struct shared *s = c->shared;
    size_t size = to_pages(bytes);
    uint64_t values[CREW_MOST_RANKS];
    struct crew_call call = crew_call_of(CREW_ROOM, "room", bytes);
    int no = c->rank == 0 ? EINTR : 0;
    while (no == EINTR)
        no = posix_fallocate(s->fd, (off_t)s->end, (off_t)size);
    call.value = (uint64_t)no;
    ty_err err = shared_meet(c, &call, values);
    if (err != TY_OK)
        return err;
    if (values[0] != 0)
        return crew_fail(c, TY_RESOURCE_EXHAUSTED,
                         "%s cannot take %zu MB more of memory that all ranks share: %s (is "
                         "/dev/shm large enough?)",
                         c->names[0], (size >> 20) + 1, strerror((int)values[0]));
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)s->end);
    if (at == MAP_FAILED)
        return crew_fail(c, TY_RESOURCE_EXHAUSTED, "%s cannot map %zu MB more of shared memory: %s",
                         c->names[c->rank], (size >> 20) + 1, strerror(errno));
    struct room *room = calloc(1, sizeof *room);
    ty_assert(room);
    *room = (struct room){.next = s->rooms, .at = at, .bytes = size};
    s->rooms = room;
    s->end += size;
    *ret_room = at;
    return TY_OK;
}

static ty_err shared_share(struct crew *c, const char *what, const struct crew_piece *pieces,
                           size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    struct crew_call call = crew_call_of(CREW_SHARE, what, bytes);
    return shared_meet(c, &call, NULL);
}

/* This rank's slice of a bucket, of all parts. */
static void slice_sum(const struct crew *c, const struct crew_sums *s, const struct crew_bucket *b)
{
    size_t from, n;
    float *slices[CREW_MOST_PARTS];
    crew_slice(c, c->rank, b->count, &from, &n);
    for (size_t k = 0; k < s->part_count; k++)
        slices[k] = s->parts[k] + b->from + from;
    tensor_tree_sum_to(slices, s->part_count, n, s->out + b->from + from);
}

static bool all_are_ready(const struct crew *c, uint32_t buckets)
{
    for (int r = 0; r < c->size; r++) {
        const struct slot *s = &c->shared->board->slots[r];
        if ((int32_t)(__atomic_load_n(&s->ready, __ATOMIC_ACQUIRE) - buckets) < 0)
            return false;
    }
    return true;
}

/* A rank whose bucket is ready has used the last sum, so `out` may be written. */
static void shared_sums_advance(struct crew *c)
{
    struct summing *s = &c->sums;
    while (s->done < s->of.bucket_count && all_are_ready(c, s->before + (uint32_t)s->done + 1)) {
        slice_sum(c, &s->of, &s->of.buckets[s->done]);
        s->begun = ++s->done;
    }
}

/* Each rank adds up its slices, the last of them between two meetings: before the first a part may
 * not be complete, before the second a slice may not be. */
static ty_err shared_sums_end(struct crew *c)
{
    struct summing *s = &c->sums;
    struct crew_call call = crew_call_of(CREW_SUM, s->of.what, s->call);
    ty_err err = shared_meet(c, &call, NULL);
    if (err != TY_OK)
        return err;
    for (; s->done < s->of.bucket_count; s->done++)
        slice_sum(c, &s->of, &s->of.buckets[s->done]);
    come(c, ++c->shared->meetings);
    return wait_for_all(c, c->shared->meetings, s->of.what);
}

/* ---- joining ---- */

static ty_err board_map(struct shared *s, int ranks)
{
    s->board_bytes = s->end = board_size(ranks);
    void *at = mmap(NULL, s->board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (at == MAP_FAILED)
        return ty_fail_errno(errno, "cannot map the crew's meeting place");
    s->board = at;
    return TY_OK;
}

/* A living crew that gathers at the same place must not lose its file to us. */
static ty_err place_is_free(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? TY_OK : ty_fail_errno(errno, "cannot open '%s'", path);
    bool is_free = lock_is_free(fd, 0);
    close(fd);
    return is_free ? TY_OK
                   : ty_fail(TY_ALREADY_EXISTS,
                             "another crew is gathering at '%s': give each its own meeting place",
                             path);
}

static ty_err place_make(struct crew *c, const char *path)
{
    struct shared *s = c->shared;
    uint64_t random;
    char name[PATH_MAX];
    ty_err err = place_is_free(path);
    if (err != TY_OK)
        return err;
    ty_random(&random, sizeof random);
    if (snprintf(name, sizeof name, "%s.%016" PRIx64, path, random) >= (int)sizeof name)
        return ty_fail(TY_INVALID_ARGUMENT, "the path '%s' is too long", path);
    s->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->fd < 0)
        return ty_fail_errno(errno, "cannot make '%s'", name);
    int no = EINTR;
    while (no == EINTR)
        no = posix_fallocate(s->fd, 0, (off_t)board_size(c->size));
    if (no == 0)
        no = lock_try(s->fd, 0);
    err = no ? ty_fail_errno(no, "cannot make '%s'", name) : board_map(s, c->size);
    if (err == TY_OK) {
        memcpy(s->board->magic, MAGIC, sizeof MAGIC);
        s->board->ranks = (uint32_t)c->size;
        err = ty_rename_at(AT_FDCWD, name, path);
        s->placed = err == TY_OK;
    }
    if (err != TY_OK)
        (void)unlink(name);
    return err;
}

/* The file is there, whole and of a living rank 0? TY_NOT_FOUND, without a message: not yet. */
static ty_err place_enter(struct crew *c, const char *path)
{
    struct shared *s = c->shared;
    struct stat st;
    s->fd = open(path, O_RDWR | O_CLOEXEC);
    if (s->fd < 0)
        return errno == ENOENT ? TY_NOT_FOUND : ty_fail_errno(errno, "cannot open '%s'", path);
    if (lock_is_free(s->fd, 0) || fstat(s->fd, &st) != 0 || st.st_size < (off_t)board_size(1)) {
        close(s->fd);
        s->fd = -1;
        return TY_NOT_FOUND;
    }
    struct board head;
    if (pread(s->fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.magic, MAGIC, sizeof MAGIC) != 0)
        return ty_fail(TY_FAILED_PRECONDITION, "'%s' is no crew's meeting place", path);
    if (head.ranks != (uint32_t)c->size || st.st_size < (off_t)board_size(c->size))
        return ty_fail(TY_INVALID_ARGUMENT, "%s gathers a crew of %u, but %s was told of %d",
                       c->names[0], head.ranks, c->names[c->rank], c->size);
    int no = lock_try(s->fd, c->rank);
    if (no == EAGAIN || no == EACCES)
        return ty_fail(TY_INVALID_ARGUMENT, "two processes came as rank %d (%s)", c->rank,
                       c->names[c->rank]);
    return no ? ty_fail_errno(no, "cannot lock '%s'", path) : board_map(s, c->size);
}

/* "worker 1, worker 3": who has not joined. */
static void name_missing(const struct crew *c, char *to, size_t size)
{
    size_t len = 0;
    to[0] = '\0';
    for (int r = 0; r < c->size; r++) {
        bool missing = c->shared->board ? !has_come(&c->shared->board->slots[r], 1) : r == 0;
        if (!missing)
            continue;
        bool room = len + CREW_NAME_BYTES + sizeof ", ..." < size;
        len += (size_t)snprintf(to + len, size - len, "%s%s", len ? ", " : "",
                                room ? c->names[r] : "...");
        if (!room)
            return;
    }
}

/* Is it time to give up? */
static ty_err join_over(const struct crew *c, const struct crew_options *o, int64_t from_ms)
{
    char missing[256];
    bool stopped = o->stopped && *o->stopped;
    if (!stopped && ty_boot_ms() - from_ms < o->join_ms)
        return TY_OK;
    name_missing(c, missing, sizeof missing);
    if (stopped)
        return ty_fail(TY_CANCELLED, "stopped by %s while %s was waited for",
                       *o->stopped == SIGINT ? "SIGINT" : "SIGTERM", missing);
    return ty_fail(TY_UNAVAILABLE,
                   "%s did not come to the crew of %d within %.1f s (is each one started, with the "
                   "same cluster and the same meeting place '%s'?)",
                   missing, c->size, (double)o->join_ms / 1000, o->meeting);
}

static void join_say(const struct crew *c, int64_t from_ms, int64_t *say_ms)
{
    if (ty_boot_ms() < *say_ms)
        return;
    char missing[256];
    name_missing(c, missing, sizeof missing);
    fprintf(stderr, "%s: waiting for %s to join the crew (%.0f s)\n", c->names[c->rank], missing,
            (double)(ty_boot_ms() - from_ms) / 1000);
    *say_ms += SAY_MS;
}

static ty_err join_wait(struct crew *c, const struct crew_options *o)
{
    const struct timespec pause = {.tv_nsec = LOOK_FOR_MS * 1000000L};
    int64_t from_ms = ty_boot_ms(), say_ms = from_ms + SAY_MS / 2;
    ty_err err = TY_OK;
    while (c->rank != 0 && (err = place_enter(c, o->meeting)) == TY_NOT_FOUND) {
        join_say(c, from_ms, &say_ms);
        if ((err = join_over(c, o, from_ms)) != TY_OK)
            return err;
        nanosleep(&pause, NULL);
    }
    if (c->rank == 0)
        err = place_make(c, o->meeting);
    if (err != TY_OK)
        return err;
    struct slot *slots = c->shared->board->slots;
    for (int r = 0; r < c->size; r++)
        c->lives[r] = &slots[r].life;
    slots[c->rank].cpus = crew_cpus_own();
    c->sums.ready = &slots[c->rank].ready;
    if ((err = life_begin(c)) != TY_OK)
        return err;
    come(c, ++c->shared->meetings);
    for (int r = 0; r < c->size;) {
        if (has_come(&slots[r], 1)) {
            r++;
            continue;
        }
        sleep_on(&slots[r], 1);
        join_say(c, from_ms, &say_ms);
        int lost = life_lost(c);
        if (lost >= 0 && !all_have_come(c, 1))
            return life_tell(c, lost, "joining");
        if (!all_have_come(c, 1) && (err = join_over(c, o, from_ms)) != TY_OK)
            return err;
    }
    return TY_OK;
}

static void shared_close(struct crew *c)
{
    struct shared *s = c->shared;
    while (s->rooms) {
        struct room *room = s->rooms;
        s->rooms = room->next;
        munmap(room->at, room->bytes);
        free(room);
    }
    if (s->board)
        munmap(s->board, s->board_bytes);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
    c->shared = NULL;
}

ty_err crew_join_shared(const struct crew_options *o, struct crew **ret_crew)
{
    struct crew *c;
    ty_err err = crew_new(o, o->rank, o->size, &c);
    if (err != TY_OK)
        return err;
    c->way = &crew_shared_way;
    c->shared = calloc(1, sizeof *c->shared);
    ty_assert(c->shared);
    c->shared->fd = -1;
    err = join_wait(c, o);
    if (c->shared->placed)
        (void)unlink(o->meeting); /* all are in, or it is of no use any more */
    if (err != TY_OK) {
        if (c->lives[c->rank] && c->code == TY_OK)
            life_publish(c, LIFE_FAILED, err, ty_err_message());
        life_end(c);
        shared_close(c);
        crew_free(c);
        return err;
    }
    struct crew_cpus cpus = {{0}};
    for (int r = 0; r < c->size; r++)
        crew_cpus_add(&cpus, &c->shared->board->slots[r].cpus);
    c->crowded = crew_cpus_count(&cpus) < c->size;
    *ret_crew = c;
    return TY_OK;
}

const struct crew_way crew_shared_way = {
    .meet = shared_meet,
    .room = shared_room,
    .share = shared_share,
    .sums_advance = shared_sums_advance,
    .sums_end = shared_sums_end,
    .gone = shared_gone,
    .close = shared_close,
};
