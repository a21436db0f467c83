/* overlap.c -- a step (forward and backward) whose gradients are summed while backward runs, by one
 * whose gradients are summed when it has ended: through shared memory and through MPI. Run by
 * bench/distribute.py under mpirun:
 *
 *   mpirun -n 2 build/bench/bench_overlap MEETING
 *
 * Two nets of the same model take turns, step by step, so that what else the machine does meets
 * both; of each the median counts. */
#include "nn/nn.h"

#include <inttypes.h>

enum { STEPS = 61, SHARDS = 4, INPUTS = 8, SIDES = 2, MOST_BATCH = 512 };
static const struct size {
    const char *name, *layers;
    size_t batch;
} sizes[] = {
    {"4.2 M parameters, batch 256", "1024, 1024, 1024, 1024, 1024", 256},
    {"4.2 M parameters, batch 64", "1024, 1024, 1024, 1024, 1024", 64},
    {"0.2 M parameters, batch 512", "256, 256, 256, 256", 512},
    {"700 parameters, batch 128", "32, 8", 128},
};
struct side {
    struct nn_net *net;
    double ms[STEPS];
};

static void need(ty_err err)
{
    if (err == TY_OK)
        return;
    fprintf(stderr, "bench_overlap: %s\n", ty_err_message());
    exit(1);
}

static struct nn_model *model_of(struct ty_arena *a, const char *units)
{
    struct ty_buf b;
    struct nn_model *m;
    char list[128], *rest = list;
    ty_buf_init(&b, 8192);
    ty_buf_addz(&b, "name: bench\ninput:\n  columns:\n    - {name: y, type: float}\n");
    for (int i = 0; i < INPUTS; i++)
        ty_buf_addf(&b, "    - {name: x%d, type: float}\n", i);
    ty_buf_addz(&b, "network:\n  input: [x0, x1, x2, x3, x4, x5, x6, x7]\n  layers:\n");
    snprintf(list, sizeof list, "%s", units);
    for (char *word; (word = strsep(&rest, ", ")) != NULL;)
        if (word[0])
            ty_buf_addf(&b, "    - {dense: %s, activation: relu}\n", word);
    ty_buf_addz(&b, "    - {dense: 1}\nhead: {type: regression, label: y, output: z}\n"
                    "training: {optimizer: {type: adam, learning_rate: 0.01}, batch_size: 64,\n"
                    "           epochs: 1}\n");
    need(nn_model_parse(a, "bench", ty_str_of(ty_format(a, "%s", b.ptr)), NULL, 0, &m));
    ty_buf_clear(&b);
    return m;
}

static void step(struct side *s, const struct nn_batch *b, int turn)
{
    int64_t from_ns = ty_boot_ns();
    nn_net_forward(s->net, b);
    nn_net_backward(s->net);
    s->ms[turn] = (double)(ty_boot_ns() - from_ns) / 1e6;
    need(nn_net_state(s->net));
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say(const struct size *what, const char *way, struct side *sides, struct crew *crew)
{
    struct crew_cost cost;
    struct crew_waits waits;
    size_t floats, buckets = nn_net_buckets(sides[1].net, &floats, &cost);
    for (int i = 0; i < SIDES; i++)
        qsort(sides[i].ms, STEPS, sizeof sides[i].ms[0], compare);
    crew_waits(crew, &waits);
    double end = sides[0].ms[STEPS / 2], overlapped = sides[1].ms[STEPS / 2];
    if (crew_rank(crew) == 0)
        printf("%-28s %-14s at the end %8.3f ms   overlapped %8.3f ms   ratio %5.2f   %zu buckets "
               "of at least %.3f MB (%.1f us + %.1f us/MB, %.0f %% while computing), %" PRIu64
               " of %" PRIu64 " early\n",
               what->name, way, end, overlapped, end / overlapped, buckets,
               (double)cost.bucket * 4e-6, cost.fixed_ns / 1e3, cost.float_ns * 250,
               cost.hidden * 100, waits.early, waits.buckets);
    fflush(stdout);
}

static void bench(const struct size *what, const char *way, struct crew *crew)
{
    struct ty_arena arena = {0};
    struct nn_model *m = model_of(&arena, what->layers);
    struct tensor_team *team = tensor_team_new(1);
    struct nn_rows rows = {.count = MOST_BATCH, .floats_each = INPUTS};
    struct side sides[SIDES];
    rows.floats = ty_new_array(&arena, float, MOST_BATCH *INPUTS);
    rows.labels = ty_new_array(&arena, float, MOST_BATCH);
    tensor_uniform(1, 1, -1, 1, rows.floats, MOST_BATCH * INPUTS);
    setenv("TRAINYARD_TEST_BUCKET", "1000000000000", 1);
    need(nn_net_new(m, what->batch, SHARDS, 7, team, crew, &sides[0].net));
    unsetenv("TRAINYARD_TEST_BUCKET");
    need(nn_net_new(m, what->batch, SHARDS, 7, team, crew, &sides[1].net));
    struct nn_batch b = {.rows = &rows, .count = what->batch, .training = true};
    for (int i = 0; i < SIDES; i++)
        step(&sides[i], &b, 0); /* pages are touched */
    for (int turn = 0; turn < STEPS; turn++)
        for (int i = 0; i < SIDES; i++)
            step(&sides[(i + turn) % SIDES], &b, turn);
    say(what, way, sides, crew);
    for (int i = 0; i < SIDES; i++)
        nn_net_free(sides[i].net);
    tensor_team_free(team);
    ty_arena_clear(&arena);
}

int main(int argc, char **argv)
{
    struct crew_options o = {.join_ms = 20000, .deadline_ms = 5000};
    struct crew *mpi, *shared;
    if (argc != 2)
        return 2;
    need(crew_join_mpi(&o, &mpi));
    o.rank = crew_rank(mpi);
    o.size = crew_size(mpi);
    o.meeting = argv[1];
    need(crew_join_shared(&o, &shared));
    for (size_t i = 0; i < TY_COUNT(sizes); i++) {
        bench(&sizes[i], "shared memory", shared);
        bench(&sizes[i], "MPI", mpi);
    }
    crew_leave(shared, NULL);
    crew_leave(mpi, NULL);
    return 0;
}
