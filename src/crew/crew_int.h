/* crew_int.h -- what the files of crew share.
 *
 * crew.c has what is the same everywhere: the public calls, the failure that stays, who came last;
 * sums.c the sums' part of it, and what they cost.
 * A way carries them out: shared.c on one machine, mpi.c elsewhere. life.c is what ranks know of
 * each other between calls: signs of life, and the sentence about one that is lost; beats.c carries
 * that by datagrams where there is no memory in common. */
#ifndef TY_CREW_INT_H
#define TY_CREW_INT_H

#include "crew/crew.h"

#include <pthread.h>

enum {
    LIFE_PHASE_BYTES = 32,
    LIFE_WORDS_BYTES = 384,
    LIFE_BEAT_MS = 50,      /* between two signs of life */
    LIFE_LOOK_MS = 50,      /* between two looks at the others while waiting */
    LIFE_LOOK_MOST_MS = 200 /* so much of the time between two looks counts: we may have slept */
};

/* ---- crew.c: CPUs ---- */

/* The CPUs this process may run on, as bits; those beyond are left out. mpirun gives each rank its
 * own, so whether there is one for each rank is told by all their sets together. */
enum { CREW_CPU_WORDS = 8 };
struct crew_cpus {
    uint64_t bits[CREW_CPU_WORDS];
};
struct crew_cpus crew_cpus_own(void);
void crew_cpus_add(struct crew_cpus *to, const struct crew_cpus *more);
int crew_cpus_count(const struct crew_cpus *cpus);

/* ---- life.c ---- */

enum life_end { LIFE_HERE, LIFE_LEFT, LIFE_FAILED };

/* A process as /proc shows it. */
struct life_process {
    uint64_t proc;    /* which /proc, of which machine */
    uint64_t started; /* clock ticks since the machine's start */
    int32_t pid;      /* as that /proc has it */
    char state;       /* 'T': stopped, ... */
};
/* What a rank says of itself. It alone writes it, the others read it at any time: in the shared
 * file, or as the last datagram had it. Texts are cut to size and ended by the reader. */
struct life {
    uint32_t beat; /* counts up */
    uint32_t here; /* 0: it has not come yet */
    uint32_t end;  /* enum life_end; then `words` and `code` hold */
    int32_t code;  /* LIFE_FAILED: the ty_err */
    struct life_process process;
    int64_t wait_ns; /* it has waited for others */
    int64_t step;
    char phase[LIFE_PHASE_BYTES];
    char words[LIFE_WORDS_BYTES]; /* why it left, or the message it failed with */
};

struct crew;
/* Say that this rank is there, and keep saying it from a thread. c->lives is set, and c->beats
 * where lives travel by datagrams. */
TY_NODISCARD ty_err life_begin(struct crew *c);
void life_end(struct crew *c);
/* A rank that is lost, as far as can be seen now, or -1. Called while waiting, every LIFE_LOOK_MS.
 */
int life_lost(struct crew *c);
/* Fail because of it: its name, what it did last, what was waited for. */
TY_NODISCARD ty_err life_tell(struct crew *c, int lost, const char *what);
/* Publish the end of this rank. */
void life_publish(struct crew *c, enum life_end end, ty_err code, const char *words);
/* `who`: a pid, or "self". False: it cannot be seen from here. */
bool life_process_read(const char *who, struct life_process *ret);
/* Its state now, in words ("is stopped"), or NULL if it cannot be seen from here. */
const char *life_state(const struct life_process *of);

/* ---- beats.c: lives by datagrams ---- */

enum { BEATS_MOST_ADDRESSES = 4, BEATS_NAME_BYTES = 64 };
/* What a rank tells the others when it joins: which machine it is on, where its socket is. */
struct beats_card {
    char machine[BEATS_NAME_BYTES]; /* the kernel's boot id: the same, the same machine */
    uint64_t network;               /* the namespace there: containers have their own loopback */
    uint64_t key;                   /* rank 0's is the crew's: datagrams without it are not ours */
    uint32_t addresses[BEATS_MOST_ADDRESSES]; /* IPv4, network order; 0: none */
    uint16_t port;                            /* network order */
    struct crew_cpus cpus;
    uint16_t has_meeting; /* it was given a place for shared memory */
};
struct beats;
/* Open a socket and fill in the card, all but has_meeting. */
TY_NODISCARD ty_err beats_open(struct beats **ret_beats, struct beats_card *ret_card);
int beats_socket(const struct beats *b);
/* All cards, by rank: from now on datagrams can go out. */
void beats_address(struct beats *b, const struct beats_card *cards, int rank, int size);
void beats_send(struct beats *b, const struct life *life);
/* Take what has come; does not wait. */
void beats_take(struct beats *b, struct life *const *lives);
/* One datagram into the life of whom it is from; false: it is none of ours. For beats_take, and for
 * a fuzzer. */
bool beats_read(const void *bytes, size_t len, uint64_t key, int rank, struct life *const *lives,
                int size);
void beats_close(struct beats *b);

/* ---- crew.c ---- */

/* One meeting: what is waited for, which call it is (the same number in all ranks, or they are out
 * of step) and a number of this rank's for all to see. */
struct crew_call {
    const char *what;
    uint64_t id, value;
};
enum crew_kind { CREW_MEET = 1, CREW_AGREE, CREW_ROOM, CREW_SHARE, CREW_SUM, CREW_JOIN };
static inline struct crew_call crew_call_of(enum crew_kind kind, const char *what, uint64_t size)
{
    return (struct crew_call){.what = what, .id = (uint64_t)kind << 56 ^ size};
}
struct crew_way {
    /* All have come. values (size) gets each rank's number; may be NULL. */
    ty_err (*meet)(struct crew *c, const struct crew_call *call, uint64_t *values);
    ty_err (*room)(struct crew *c, size_t bytes, void **ret_room);
    ty_err (*share)(struct crew *c, const char *what, const struct crew_piece *pieces,
                    size_t count);
    /* Of c->sums. `begin` may be NULL; `advance` is called by one thread at a time. */
    ty_err (*sums_begin)(struct crew *c);
    void (*sums_advance)(struct crew *c);
    ty_err (*sums_end)(struct crew *c);
    bool (*gone)(struct crew *c, int rank); /* its process has ended; NULL: cannot be told */
    void (*close)(struct crew *c);          /* c->code: TY_OK if all ends well */
};

struct crew {
    const struct crew_way *way;
    int rank, size, deadline_ms;
    char (*names)[CREW_NAME_BYTES];
    pthread_mutex_t failing; /* guards the next two while they are set: the first failure stays */
    ty_err code;             /* of it; TY_OK: none */
    char failure[LIFE_WORDS_BYTES];

    struct life **lives; /* by rank; of this rank: its own to write */
    struct watch {       /* of each peer: when its beat last changed */
        uint32_t beat;
        int64_t silent_ns;
    } * watch;
    int64_t looked_ns;
    pthread_t pulse;
    bool pulsing;
    int stop_fd;         /* ends the pulse */
    struct beats *beats; /* NULL: the lives are in memory that all have */

    struct summing {
        struct crew_sums of;
        bool open;
        uint64_t call;   /* what tells them from others */
        uint32_t *ready; /* this rank's buckets that were ready, ever; shared: where all see it */
        uint32_t before; /* of them, those of sums that are over */
        size_t begun;    /* buckets that this rank has begun to sum; */
        size_t done;     /* and is done with */
        bool advancing;  /* a thread has it, all but `ready` */
    } sums;

    int64_t wait_ns;
    uint64_t bytes, buckets, early;
    struct lateness { /* since the last crew_waits */
        uint64_t times;
        int64_t cost_ns, waited_ns; /* waited_ns: its wait_ns back then */
    } * late;
    uint64_t meetings;

    struct shared *shared; /* shared.c's own */
    struct mpi *mpi;       /* mpi.c's own */
    bool crowded;          /* this machine has fewer CPUs than ranks */
    bool world;            /* mpirun started us, whatever way we go */
};
/* Check the options, and a crew without a way. */
TY_NODISCARD ty_err crew_new(const struct crew_options *o, int rank, int size,
                             struct crew **ret_crew);
void crew_free(struct crew *c);
static inline bool crew_failed(const struct crew *c)
{
    return __atomic_load_n(&c->code, __ATOMIC_ACQUIRE) != TY_OK;
}
/* The failure that there was, if there was one. */
ty_err crew_state(const struct crew *c);
/* The failure that stays: recorded, published, returned; or the one that there was. */
ty_err crew_fail(struct crew *c, ty_err code, const char *fmt, ...) TY_PRINTF(3, 4);
/* `rank` is in another call than we are. */
TY_NODISCARD ty_err crew_out_of_step(struct crew *c, int rank, const char *what);
/* `last` came last of all, and cost others up to so much. */
void crew_note(struct crew *c, int last, int64_t cost_ns);
/* This rank's slice of `count` floats: whole cache lines but at the end. */
void crew_slice(const struct crew *c, int rank, size_t count, size_t *ret_from, size_t *ret_count);
/* The next moment of a spinning wait. */
static inline void crew_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

extern const struct crew_way crew_shared_way, crew_mpi_way;
/* MPI_Finalize, with an end. */
void crew_world_close(const struct crew *c);

#endif
