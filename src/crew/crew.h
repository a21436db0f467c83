/* crew.h -- workers that compute one step together: memory laid out alike, sums in one fixed order,
 * and no wait without a name and an end.
 *
 * A crew is `size` processes, ranks 0 to size - 1, that make the same calls in the same order. Its
 * rooms are blocks of memory laid out alike in all ranks. Each piece of a room is computed by one
 * rank, its owner; crew_share then makes pieces readable in every rank's room, and crew_sum adds up
 * parts that different ranks own, always by the same binary tree, whoever owns what: the bits do
 * not depend on the number of ranks. Parts that are computed bit by bit are summed meanwhile, in
 * buckets (crew_sums_begin), which does not change the bits either. On one machine the ranks have
 * the same memory and a share is a barrier (shared.c); elsewhere MPI carries the pieces, from point
 * to point (mpi.c), for MPI_Allreduce promises no order.
 *
 * A peer that is dead, stopped or cut off is told within the deadline: TY_UNAVAILABLE with its
 * name, the step and the phase it was last seen in, what the wait was for, and the state of its
 * process where it can be seen. A peer that is alive and only slow is waited for, and crew_waits
 * names it. After a failure every call fails with the same message at once, in all ranks: there is
 * no half crew. Under mpirun a process that has failed ends without MPI_Finalize, and mpirun ends
 * the rest.
 *
 * Who may write what, and when: a rank writes its own pieces and parts, and reads the others' once
 * crew_share or crew_sum has returned.
 *   crew_sum    protects itself. Nothing is read or written before all have called, and when it
 *               returns nobody reads the parts any more: they may be written at once.
 *   crew_sums_begin to crew_sums_end do so bucket by bucket: a bucket of this rank's parts is
 *               written until it is told ready, and not again before crew_sums_end has returned.
 *   crew_share  protects one side. When it returns all pieces can be read, but others may still be
 *               reading: a piece is written again after the next meeting of all, whichever call
 * that is (crew_meet at the begin of each step, or a crew_sum in between). The same goes for `out`
 * of a sum, should a rank write into it itself.
 *
 * Where to start: crew_join_shared, crew_room, crew_sum. Who frees: crew_leave, rooms included.
 * Threads: one thread of a rank calls; crew_sums_ready and crew_sums_advance any may, all of them
 * at once, but not during another call. The sign of life is a thread of the crew's own. Errors:
 * TY_UNAVAILABLE a peer is lost or never came; TY_INVALID_ARGUMENT the ranks disagree;
 * TY_RESOURCE_EXHAUSTED no memory for a room; TY_CANCELLED `stopped` while joining;
 * TY_FAILED_PRECONDITION there is no libmpi.
 * A NULL crew is a crew of one to every call but crew_room and the crew_sums_*.
 * One test: build/test_crew sum/bits_do_not_depend_on_ranks. */
#ifndef TY_CREW_H
#define TY_CREW_H

#include "base/base.h"

enum { CREW_MOST_RANKS = 256, CREW_NAME_BYTES = 32, CREW_MOST_PARTS = 64 };
struct crew;
struct crew_options {
    int rank, size;
    const char *const *names; /* by rank: "chief", "worker 1"; for messages. NULL: "rank 1" */
    const char *meeting;      /* shared: a file that the ranks meet at, made by rank 0 and removed
                                 by it once all are there; a stale one of a dead crew is no harm */
    int join_ms;              /* for all to come; lines on stderr say who is waited for */
    int deadline_ms;          /* without a sign of life of a peer; at least 800 */
    const volatile sig_atomic_t *stopped; /* shared: not 0 ends the wait for all; NULL */
};
/* Ranks of this machine. */
TY_NODISCARD ty_err crew_join_shared(const struct crew_options *o, struct crew **ret_crew);
/* Ranks started by mpirun or srun: rank and size are MPI's (`size` is only looked at, and must be
 * the same, if there are names), libmpi is loaded here and now. If all are on one machine and
 * `meeting` is set in all they go on through shared memory. Signs of life go by UDP over IPv4. Once
 * in a process. */
TY_NODISCARD ty_err crew_join_mpi(const struct crew_options *o, struct crew **ret_crew);
/* Was this process started by mpirun or srun, and as which rank of how many? */
bool crew_under_mpi(int *ret_rank, int *ret_size);
/* Tasks that srun started beside this one without telling MPI of each other; 0: none. */
int crew_unconnected(void);
/* `why`: NULL, or one sentence that the others' messages then have: "its disk is full". Under MPI
 * and without `why` it waits until all leave, as long as they live. */
void crew_leave(struct crew *c, const char *why);
int crew_rank(const struct crew *c); /* NULL: 0 */
int crew_size(const struct crew *c); /* NULL: 1 */
/* Are a room's bytes the same ones in all ranks? NULL: no. */
bool crew_has_one_memory(const struct crew *c);

/* All ranks have the same number, or the first that differs from rank 0's is named: "worker 1 has
 * another `what` than chief". */
TY_NODISCARD ty_err crew_agree(struct crew *c, const char *what, uint64_t id);

/* Zeros, at a multiple of 64 bytes; the same sizes in the same order in all ranks. */
TY_NODISCARD ty_err crew_room(struct crew *c, size_t bytes, void **ret_room);

/* What this rank is doing, for the messages of others: a constant string. Cheap. */
void crew_mark(struct crew *c, int64_t step, const char *phase);

/* All have come here. */
TY_NODISCARD ty_err crew_meet(struct crew *c, const char *what);
/* Part k of `parts` is owned by rank k * size / parts. */
int crew_owner(const struct crew *c, size_t part, size_t parts);

/* Bytes in a room that one rank computed. The same list in all ranks, addresses being of each. All
 * have called before any goes on; bytes of a piece may differ from call to call but are known to
 * all beforehand. */
struct crew_piece {
    int owner;
    void *at;
    size_t bytes;
};
TY_NODISCARD ty_err crew_share(struct crew *c, const char *what, const struct crew_piece *pieces,
                               size_t count);
/* out (count, in a room) = the sum of the parts, each (count, in a room) and owned as crew_owner
 * says, as tensor_tree_sum adds: (0+1)+(2+3), ... The parts are used up; `out` may be parts[0] and
 * no other of them. All ranks have the sum when it returns. */
TY_NODISCARD ty_err crew_sum(struct crew *c, const char *what, float *const *parts,
                             size_t part_count, size_t count, float *out);

/* ---- sums while the parts are still being computed ---- */

/* Floats of all parts and of `out`. Buckets are whole lines of 16 floats but the one at the end. */
struct crew_bucket {
    size_t from, count;
};
/* As crew_sum, in buckets, in the order in which they become ready: each float is in one of them.
 * `out` is none of the parts if there are several. All of it stays until crew_sums_end. Other calls
 * may come in between, but no other sum. One bucket costs what crew_sum does. */
struct crew_sums {
    const char *what;
    float *const *parts;
    size_t part_count;
    float *out;
    const struct crew_bucket *buckets;
    size_t bucket_count;
};
TY_NODISCARD ty_err crew_sums_begin(struct crew *c, const struct crew_sums *s);
/* The next bucket is complete in all parts of this rank. */
void crew_sums_ready(struct crew *c);
/* Go on with what is ready in all ranks, unless another thread is at it. Never waits; what fails
 * here is told by the next call that can. */
void crew_sums_advance(struct crew *c);
/* All buckets are ready. All ranks have the sum when it returns. */
TY_NODISCARD ty_err crew_sums_end(struct crew *c);

/* How large a bucket should be: the smallest one whose fixed cost is a tenth of the rest. Measured
 * here and now, by sums of `parts`, which are zeros and stay so; all ranks get rank 0's choice. If
 * less than a third of a sum goes along with computing, as in shared memory, where it is additions,
 * a cut is not worth it, unless others of a rank's `threads` compute meanwhile. */
struct crew_cost {
    double fixed_ns, float_ns; /* of a sum: anyhow, and for each float; as this rank saw it. 0: so
                                  few floats were not measured */
    double hidden;             /* the share of it that took no time from computing, 0 to 1 */
    size_t bucket;             /* floats; `count`: not worth a cut */
};
TY_NODISCARD ty_err crew_measure(struct crew *c, float *const *parts, size_t part_count,
                                 size_t count, float *out, int threads, struct crew_cost *ret_cost);

/* ---- what was observed ---- */

struct crew_waits {
    int64_t wait_ns;  /* this rank has waited for others, all together */
    uint64_t bytes;   /* this rank's parts that went into sums and shares */
    uint64_t buckets; /* of sums that had several, */
    uint64_t early;  /* and of them, those that this rank had begun when crew_sums_end was called */
    int slowest;     /* who came last most often since the last call; -1: nobody */
    double share;    /* of those meetings, 0 to 1 */
    int64_t cost_ns; /* what the others waited for it, the longest of each meeting */
};
void crew_waits(struct crew *c, struct crew_waits *ret);

#endif
