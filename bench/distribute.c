/* distribute.c -- what carries sums over ranks. Run by bench/distribute.py under mpirun:
 *
 *   mpirun -n 2 build/bench/bench_distribute sums MEETING
 *   mpirun -n 2 build/bench/bench_distribute network MEETING
 *
 * sums: ours through shared memory, ours through MPI in the tree's order, and MPI_Allreduce, which
 * promises no order. The three take turns, a few sums each, so that what else the machine does
 * meets all of them; of each the median over all turns counts.
 * network: what the model of cost is made of, as one line of JSON. For each number the lower
 * quarter of many short turns counts: a turn in which another process had the CPU says nothing of
 * the network. */
#include "crew/crew.h"

#include <mpi.h>

enum { TURNS = 21, WAYS = 3, MOST_RANKS = 64 };
static const char *const way_names[WAYS] = {"shared memory", "MPI, in order", "MPI_Allreduce"};
static const struct size {
    const char *name;
    size_t floats;
    int sums; /* a turn */
} sizes[] = {{"4 KB", 1024, 200}, {"1 MB", 262144, 10}, {"64 MB", 16777216, 1}};

/* Memory of one way: a part for each rank, and the sum. */
struct place {
    struct crew *crew; /* NULL: MPI_Allreduce */
    float *parts[MOST_RANKS], *out;
};

static void need(ty_err err)
{
    if (err == TY_OK)
        return;
    fprintf(stderr, "bench_distribute: %s\n", ty_err_message());
    exit(1);
}

static void place_make(struct place *p, struct crew *crew, struct crew *other, size_t floats)
{
    int size = crew_size(other), rank = crew_rank(other);
    size_t bytes = ((size_t)size + 1) * floats * sizeof(float);
    void *room;
    p->crew = crew;
    need(crew_room(crew ? crew : other, bytes, &room));
    for (int r = 0; r <= size; r++)
        *(r < size ? &p->parts[r] : &p->out) = (float *)room + (size_t)r * floats;
    for (size_t i = 0; i < floats; i++)
        p->parts[rank][i] = (float)(i % 1000) * 0.5f;
}

static void sum_once(const struct place *p, int rank, int size, size_t floats)
{
    if (p->crew)
        need(crew_sum(p->crew, "bench", p->parts, (size_t)size, floats, p->out));
    else
        MPI_Allreduce(p->parts[rank], p->out, (int)floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double turn_us(const struct place *p, int rank, int size, const struct size *what)
{
    sum_once(p, rank, size, what->floats); /* all are there */
    int64_t from_ns = ty_boot_ns();
    for (int i = 0; i < what->sums; i++)
        sum_once(p, rank, size, what->floats);
    return (double)(ty_boot_ns() - from_ns) / 1e3 / what->sums;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(const struct size *what, struct place places[WAYS], int rank, int size)
{
    double us[WAYS][TURNS];
    for (int turn = 0; turn < TURNS; turn++)
        for (int way = 0; way < WAYS; way++)
            us[way][turn] = turn_us(&places[way], rank, size, what);
    for (int way = 0; way < WAYS; way++)
        qsort(us[way], TURNS, sizeof us[way][0], compare);
    double bare = us[WAYS - 1][TURNS / 2];
    for (int way = 0; way < WAYS && rank == 0; way++)
        printf("%-6s %-14s %10.1f us   %6.2f GB/s   ratio %5.2f\n", what->name, way_names[way],
               us[way][TURNS / 2], (double)what->floats * sizeof(float) / us[way][TURNS / 2] / 1e3,
               bare / us[way][TURNS / 2]);
    fflush(stdout);
}

static void bench_sums(struct crew *shared, struct crew *mpi)
{
    for (size_t i = 0; i < TY_COUNT(sizes); i++) {
        struct place places[WAYS] = {{0}};
        place_make(&places[0], shared, mpi, sizes[i].floats);
        place_make(&places[1], mpi, mpi, sizes[i].floats);
        place_make(&places[2], NULL, mpi, sizes[i].floats);
        bench(&sizes[i], places, crew_rank(mpi), crew_size(mpi));
    }
}

/* ---- the network, between ranks 0 and 1 ---- */

enum { PINGS = 100, MANY = 64, LARGE_BYTES = 4 << 20, MEETS = 200, NETWORK_TURNS = 41 };

/* A byte there and back. */
static double ping_us(int rank)
{
    char byte = 0;
    int64_t from_ns = ty_boot_ns();
    for (int i = 0; i < 2 * PINGS; i++)
        if (i % 2 == rank)
            MPI_Send(&byte, 1, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(&byte, 1, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return (double)(ty_boot_ns() - from_ns) / 1e3 / (2 * PINGS);
}

/* Both send `count` messages of so many bytes at once: microseconds of all. */
static double burst_us(int rank, char *out, char *in, int bytes, int count)
{
    MPI_Request requests[2 * MANY];
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t from_ns = ty_boot_ns();
    for (int i = 0; i < count; i++) {
        MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[2 * i]);
        MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
    return (double)(ty_boot_ns() - from_ns) / 1e3;
}

static double meet_us(struct crew *shared)
{
    int64_t from_ns = ty_boot_ns();
    for (int i = 0; i < MEETS; i++)
        need(crew_meet(shared, "bench"));
    return (double)(ty_boot_ns() - from_ns) / 1e3 / MEETS;
}

static void bench_network(struct crew *shared, struct crew *mpi)
{
    enum { PING, MESSAGE, LARGE, MEET, SUM, KINDS };
    static const struct size sum = {"4 MB", 1 << 20, 1};
    double us[KINDS][NETWORK_TURNS];
    int rank = crew_rank(mpi);
    struct place place = {0};
    char *out = calloc(2, LARGE_BYTES), *in = out + LARGE_BYTES;
    ty_assert(out && crew_size(mpi) == 2);
    place_make(&place, shared, mpi, sum.floats);
    for (int turn = 0; turn < NETWORK_TURNS; turn++) {
        us[PING][turn] = ping_us(rank);
        us[MESSAGE][turn] = burst_us(rank, out, in, 1, MANY) / MANY;
        us[LARGE][turn] = burst_us(rank, out, in, LARGE_BYTES, 1);
        us[MEET][turn] = meet_us(shared);
        us[SUM][turn] = turn_us(&place, rank, 2, &sum);
    }
    for (int kind = 0; kind < KINDS; kind++)
        qsort(us[kind], NETWORK_TURNS, sizeof us[kind][0], compare);
    int at = NETWORK_TURNS / 4;
    if (rank == 0)
        printf("{\"latency_us\": %.3f, \"message_us\": %.3f, \"gbytes\": %.3f, \"meet_us\": %.3f, "
               "\"sum_gbytes\": %.3f}\n",
               us[PING][at], us[MESSAGE][at], LARGE_BYTES / us[LARGE][at] / 1e3, us[MEET][at],
               (double)sum.floats * sizeof(float) / us[SUM][at] / 1e3);
    free(out);
}

int main(int argc, char **argv)
{
    struct crew_options o = {.join_ms = 20000, .deadline_ms = 5000};
    struct crew *mpi, *shared;
    if (argc != 3)
        return 2;
    need(crew_join_mpi(&o, &mpi));
    o.rank = crew_rank(mpi);
    o.size = crew_size(mpi);
    o.meeting = argv[2];
    need(crew_join_shared(&o, &shared));
    if (strcmp(argv[1], "network") == 0)
        bench_network(shared, mpi);
    else
        bench_sums(shared, mpi);
    crew_leave(shared, NULL);
    crew_leave(mpi, NULL);
    return 0;
}
