/* together.c -- several replicas at one run: how they meet, who did what, who is slow.
 *
 *   mirrored       devices of one process: the net counts the work of each (nn_net_mirror)
 *   multi_worker   the processes of TF_CONFIG, or of mpirun or srun, as a crew: on one machine they
 *                  meet at a file in /dev/shm, on several through MPI
 *
 * Phases of a step are timed, and after each epoch every rank sees all ranks' times: who computes
 * longest while the others wait is named, with what it costs. So are the workers of parameter
 * servers, whose times come together at the first server. */
#include "train/train_int.h"

#include <sys/resource.h>

enum {
    JOIN_MS = 60000,
    DEADLINE_MS = 4000,
    SLOW_PERCENT = 10, /* what one must cost to be named, */
    SLOW_US = 50,      /* and a step of it must take more than the others', */
    JUDGE_MS = 1000    /* over so long at least: epochs may be shorter than a hiccup */
};

static const char *const PHASE_NAMES[PHASES] = {"reading data", "forward", "backward", "update"};

/* ---- meeting ---- */

static const char *const *names_of(struct ty_arena *a, const struct train_cluster *c, size_t size)
{
    const char **names = ty_new_array(a, const char *, size);
    bool chief = c->counts[TRAIN_CHIEF] > 0 || c->alone;
    for (size_t i = 0; i < size; i++)
        names[i] = i == 0 && chief ? "chief" : ty_format(a, "worker %zu", i - (chief ? 1 : 0));
    return names;
}

static ty_str host_of(const char *address)
{
    return (ty_str){address, (size_t)(strrchr(address, ':') - address)};
}

static bool is_loopback(ty_str host)
{
    return ty_str_is(host, "localhost") || ty_str_is(host, "[::1]") ||
           ty_str_starts(host, TY_STR("127."));
}

/* All trainers of the cluster on one machine, by what their addresses say? */
static bool is_one_host(const struct train_cluster *c)
{
    ty_str first = {NULL, 0};
    for (int role = TRAIN_CHIEF; role <= TRAIN_WORKER; role++)
        for (size_t i = 0; i < c->counts[role]; i++) {
            ty_str host = host_of(c->addresses[role][i]);
            if (first.ptr == NULL)
                first = host;
            if (!ty_str_eq(host, first) && !(is_loopback(host) && is_loopback(first)))
                return false;
        }
    return true;
}

/* A job's is named by the conductor, which removes what an early death leaves. An empty name: ranks
 * of mpirun use no memory together, for tests and comparisons. */
static const char *meeting_of(struct ty_arena *a, const struct train_cluster *c)
{
    const char *given = getenv("TRAINYARD_MEETING");
    if (given)
        return given[0] ? given : NULL;
    uint64_t place = c->id;
    if (!c->alone) { /* the chief's address: who has another cluster comes there, too, and is told
                      */
        enum train_role first = c->counts[TRAIN_CHIEF] > 0 ? TRAIN_CHIEF : TRAIN_WORKER;
        place = fingerprint64(ty_str_of(train_address_key(a, c->addresses[first][0])));
    }
    return ty_format(a, "/dev/shm/trainyard-%u-%016" PRIx64, getuid(), place);
}

static ty_err crew_join(struct together *t, struct ty_arena *a, const struct train_cluster *c,
                        const volatile sig_atomic_t *stopped)
{
    int rank = (int)c->rank, size = (int)c->trainers;
    bool mpi = crew_under_mpi(&rank, &size);
    if (mpi && !c->alone && (rank != (int)c->rank || size != (int)c->trainers))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "TF_CONFIG says %s of %zu, mpirun says rank %d of %d: unset one of them",
                       c->name, c->trainers, rank, size);
    if (c->alone && crew_unconnected() > 0)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "srun has started %d tasks, which MPI knows nothing of: srun --mpi=pmix",
                       crew_unconnected());
    if (size == 1)
        return TY_OK;
    if (size > CREW_MOST_RANKS)
        return ty_fail(TY_INVALID_ARGUMENT, "%d workers: at most %d can train together", size,
                       CREW_MOST_RANKS);
    if (!mpi && !is_one_host(c))
        return ty_fail(TY_FAILED_PRECONDITION,
                       "the workers of TF_CONFIG are on several machines: start them with mpirun "
                       "or srun, which connect them");
    t->names = names_of(a, c, (size_t)size);
    struct crew_options o = {.rank = rank,
                             .size = size,
                             .names = t->names,
                             .meeting = meeting_of(a, c),
                             .join_ms = JOIN_MS,
                             .deadline_ms = DEADLINE_MS,
                             .stopped = stopped};
    ty_err err = mpi ? crew_join_mpi(&o, &t->crew) : crew_join_shared(&o, &t->crew);
    if (err == TY_INVALID_ARGUMENT && !mpi)
        return ty_wrap(err, "TF_CONFIG");
    if (err == TY_OK)
        err = crew_agree(t->crew, "cluster in its TF_CONFIG", c->id);
    return err;
}

ty_err together_join(struct together *t, struct ty_arena *a, const struct train_cluster *c,
                     enum train_strategy strategy, struct train_options *o,
                     const volatile sig_atomic_t *stopped)
{
    ty_err err = TY_OK;
    int rank, size;
    t->arena = a;
    if (o->devices > 0 && strategy != TRAIN_MIRRORED)
        return ty_fail(TY_INVALID_ARGUMENT, "--devices is for --strategy mirrored");
    if (o->strategy && strategy != TRAIN_MULTI_WORKER && crew_under_mpi(&rank, &size) && size > 1)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "--strategy %s is of one process, and mpirun or srun has started %d: "
                       "multi_worker has them train together",
                       o->strategy, size);
    if (strategy == TRAIN_MULTI_WORKER || (o->strategy == NULL && crew_under_mpi(&rank, &size)))
        err = crew_join(t, a, c, stopped);
    if (strategy == TRAIN_MIRRORED) {
        t->devices = (size_t)(o->devices > 0 ? o->devices : 2);
        t->names = names_of(a, c, t->devices);
    }
    if (t->crew && o->threads == 0) /* the CPUs are everybody's */
        o->threads = tensor_cpus() > crew_size(t->crew) ? tensor_cpus() / crew_size(t->crew) : 1;
    o->quiet |= crew_rank(t->crew) > 0;
    return err;
}

ty_err together_check(const struct together *t, int64_t shards)
{
    int64_t size = t->devices ? (int64_t)t->devices : crew_size(t->crew);
    if (shards % size == 0)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "%" PRId64 " %s cannot have equal parts of %" PRId64 " shards: --shards %" PRId64
                   " can be dealt out, and gives other bits than %" PRId64,
                   size, t->devices ? "devices" : "workers", shards,
                   (shards + size - 1) / size * size, shards);
}

ty_err together_agree(const struct together *t, const struct train_identity *run, uint64_t valid,
                      const struct train_options *o)
{
    static const char *const parts[IDENTITY_PARTS] = {"model file", "set of parameters",
                                                      "set of training data", "seed"};
    ty_err err = TY_OK;
    for (size_t i = 0; i < IDENTITY_PARTS && err == TY_OK; i++)
        err = crew_agree(t->crew, parts[i], run->parts[i]);
    if (err == TY_OK)
        err = crew_agree(t->crew, "evaluation data (--eval_data_path)", valid);
    if (err == TY_OK)
        err = crew_agree(t->crew, "--resume", o->resume);
    if (err == TY_OK)
        err = crew_agree(t->crew, "--init_from", o->init_from != NULL);
    return err;
}

ty_err together_agree_weights(const struct together *t, struct nn_net *n)
{
    struct nn_param *params;
    size_t count = nn_net_params(n, &params);
    uint64_t id = 0;
    for (size_t i = 0; t->crew && i < count; i++)
        id = fingerprint_cat64(id, fingerprint64((ty_str){(const char *)params[i].data,
                                                          params[i].count * sizeof(float)}));
    return crew_agree(t->crew, "weights to begin with (--init_from)", id);
}

/* How the gradients come together, and why so. */
static void buckets_say(const struct nn_net *n)
{
    struct crew_cost cost;
    size_t floats, buckets = nn_net_buckets(n, &floats, &cost);
    double mb = (double)sizeof(float) / 1e6;
    printf("gradients: %.3f MB, summed in %zu %s", (double)floats * mb, buckets,
           buckets > 1 ? "buckets while backward runs" : "piece after backward");
    if (cost.fixed_ns > 0)
        printf(" (a sum takes %.1f us and %.1f us for each MB, %.0f %% of it while computing; "
               "%.3f MB are worth a bucket)",
               cost.fixed_ns / 1e3, cost.float_ns / mb / 1e3, cost.hidden * 100,
               (double)cost.bucket * mb);
    printf("\n");
}

ty_err together_begin(struct together *t, struct nn_net *n, bool quiet)
{
    void *room = NULL;
    t->net = n;
    if (t->devices)
        nn_net_mirror(n, t->devices);
    if (t->crew == NULL)
        return TY_OK;
    t->ranks = (size_t)crew_size(t->crew);
    ty_err err = crew_room(t->crew, t->ranks * sizeof *t->times, &room);
    t->times = room;
    t->judged = ty_new_array(t->arena, struct train_times, t->ranks);
    if (err == TY_OK && !quiet)
        buckets_say(n);
    return err;
}

void together_say(const struct together *t, const struct train_cluster *c, const char *strategy)
{
    size_t size = t->crew ? (size_t)crew_size(t->crew) : c->trainers;
    if (t->silent || size == 1)
        return;
    printf("%s: %s, one of %zu", t->crew ? t->names[crew_rank(t->crew)] : c->name, strategy, size);
    if (c->counts[TRAIN_PS] > 0)
        printf(", with %zu ps", c->counts[TRAIN_PS]);
    printf("\n");
    fflush(stdout);
}

/* ---- phases of a step ---- */

void together_phase(struct together *t, int64_t step, enum train_phase phase)
{
    if (t->ranks == 0)
        return;
    int64_t now = ty_boot_ns();
    t->own.ns[t->phase] += now - t->since_ns;
    t->since_ns = now;
    t->phase = phase;
    if (t->crew && (phase == PHASE_DATA || phase == PHASE_UPDATE)) /* the net marks the others */
        crew_mark(t->crew, step, PHASE_NAMES[phase]);
}

static int64_t waited_ns(const struct together *t)
{
    struct crew_waits waits;
    if (t->ps)
        return ps_client_held_ns(t->ps);
    crew_waits(t->crew, &waits);
    return waits.wait_ns;
}

void together_epoch_begin(struct together *t)
{
    if (t->ranks == 0)
        return;
    t->waited_ns = waited_ns(t);
    t->own = (struct train_times){0};
    t->phase = PHASE_DATA;
    t->since_ns = ty_boot_ns();
}

/* What a rank did itself, without waiting. */
static int64_t busy_ns(const struct train_times *t)
{
    int64_t sum = -t->wait_ns;
    for (size_t i = 0; i < PHASES; i++)
        sum += t->ns[i];
    return sum;
}

static double per_step_ms(int64_t ns, const struct train_times *t)
{
    return (double)ns / 1e6 / (double)t->steps;
}

/* In ms a step: the slowest rank, and what it takes; the others, on average. False: there is none
 * to compare with. */
struct slow {
    size_t rank;
    double busy, others;
};
static bool slow_find(const struct together *t, struct slow *ret)
{
    struct slow s = {0};
    size_t count = 0;
    for (size_t i = 0; i < t->ranks; i++) {
        const struct train_times *r = &t->judged[i];
        if (r->steps == 0)
            continue;
        double busy = per_step_ms(busy_ns(r), r);
        s.others += busy;
        if (count++ == 0 || busy > s.busy) {
            s.rank = i;
            s.busy = busy;
        }
    }
    if (count < 2)
        return false;
    s.others = (s.others - s.busy) / (double)(count - 1);
    *ret = s;
    return true;
}

/* Who waits for the slow one loses the time that it takes more than others; where nobody waits,
 * what is lost are the steps that it does not make. */
static void slow_say(const struct together *t)
{
    struct slow s;
    if (!slow_find(t, &s) || s.busy - s.others < SLOW_US / 1e3)
        return;
    const struct train_times *r = &t->judged[s.rank];
    double waits = per_step_ms(r->wait_ns, r), cost = (s.busy - s.others) / (s.busy + waits);
    if (t->free)
        cost /= (double)t->ranks;
    if (100 * cost < SLOW_PERCENT)
        return;
    printf("%s is slow: it costs %.0f %% of the %s. A step of it: data %.3f ms, forward and "
           "backward %.3f ms, %s %.3f ms, waiting %.3f ms; the others are busy %.3f ms\n",
           t->names[s.rank], 100 * cost, t->free ? "steps" : "time",
           per_step_ms(r->ns[PHASE_DATA], r),
           per_step_ms(r->ns[PHASE_FORWARD] + r->ns[PHASE_BACKWARD] - (t->ps ? 0 : r->wait_ns), r),
           t->ps ? "pull and push" : "update",
           per_step_ms(r->ns[PHASE_UPDATE] - (t->ps ? r->wait_ns : 0), r), waits, s.others);
}

/* The chief has seen another epoch of all. */
static void judge(struct together *t)
{
    int64_t all_ns = 0;
    for (size_t i = 0; i < t->ranks; i++) {
        struct train_times *to = &t->judged[i];
        const struct train_times *more = &t->times[i];
        for (size_t k = 0; k < PHASES; k++)
            to->ns[k] += more->ns[k];
        to->wait_ns += more->wait_ns;
        to->steps += more->steps;
        int64_t ns = busy_ns(to) + to->wait_ns;
        all_ns = ns > all_ns ? ns : all_ns;
    }
    if (all_ns < JUDGE_MS * INT64_C(1000000))
        return;
    slow_say(t);
    memset(t->judged, 0, t->ranks * sizeof *t->judged);
}

/* The last update of the epoch is over. */
static void own_end(struct together *t, int64_t steps)
{
    together_phase(t, steps, PHASE_DATA);
    t->own.wait_ns = waited_ns(t) - t->waited_ns;
    t->own.steps = steps;
}

ty_err together_epoch_end(struct together *t, int64_t steps, bool quiet)
{
    struct crew_piece pieces[CREW_MOST_RANKS];
    if (t->crew == NULL)
        return TY_OK;
    own_end(t, steps);
    t->times[crew_rank(t->crew)] = t->own;
    for (int i = 0; i < crew_size(t->crew); i++)
        pieces[i] = (struct crew_piece){i, &t->times[i], sizeof *t->times};
    ty_err err = crew_share(t->crew, "the times of an epoch", pieces, (size_t)crew_size(t->crew));
    if (err == TY_OK && !quiet)
        judge(t);
    return err;
}

/* ---- with parameter servers ---- */

void together_apart(struct together *t, struct ty_arena *a, const struct train_cluster *c,
                    struct ps_client *ps, bool bounded)
{
    t->arena = a;
    t->ps = ps;
    t->free = !bounded;
    t->ranks = c->trainers;
    t->names = names_of(t->arena, c, t->ranks);
    t->times = ty_new_array(t->arena, struct train_times, t->ranks);
    t->judged = ty_new_array(t->arena, struct train_times, t->ranks);
}

ty_err together_epoch_apart(struct together *t, int64_t steps, bool chief)
{
    _Static_assert(sizeof t->own == PS_WORDS * sizeof(int64_t), "the times are what is told");
    own_end(t, steps);
    ty_err err = ps_client_tell(t->ps, &t->own, t->times, t->ranks);
    if (err == TY_OK && chief && !t->silent)
        judge(t);
    return err;
}

/* ---- the end ---- */

static void work_say(const char *name, struct nn_work w, uint64_t bytes, double cpu)
{
    printf("%s: %" PRIu64 " examples computed, %.3f MB of gradients reduced, %.6f CPU seconds\n",
           name, w.examples, (double)bytes / 1e6, cpu);
}

ty_err together_end(struct together *t)
{
    for (size_t i = 0; i < t->devices && !t->silent; i++) {
        struct nn_work w = nn_net_work(t->net, i);
        work_say(ty_format(t->arena, "device %zu", i), w, w.bytes, (double)w.cpu_ns / 1e9);
    }
    if (t->crew == NULL)
        return TY_OK;
    struct rusage use;
    struct crew_waits waits;
    int rank = crew_rank(t->crew);
    getrusage(RUSAGE_SELF, &use);
    crew_waits(t->crew, &waits);
    double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                 (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    if (!t->silent)
        work_say(t->names[rank], nn_net_work(t->net, (size_t)rank), waits.bytes, cpu);
    if (waits.buckets > 0 && !t->silent)
        printf("%s: of %" PRIu64 " buckets of gradients, %" PRIu64
               " were being summed before backward had ended\n",
               t->names[rank], waits.buckets, waits.early);
    fflush(stdout);
    return crew_meet(t->crew, "the end");
}

void together_leave(struct together *t, ty_err err)
{
    if (t->crew)
        crew_leave(t->crew, err == TY_OK ? NULL : ty_err_message());
    t->crew = NULL;
}
