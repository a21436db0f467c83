/* test_mpi.c -- crews under mpirun. A test starts this program again, as each of the ranks:
 *
 *   mpirun -n 3 test_crew_mpi rank SCENARIO
 *
 * and reads what they print: "rank 1: OK", or the code and the message. */
#include "crew/libmpi_int.h"
#include "crew/test_bodies.h"

#include <dlfcn.h>

/* Open MPI unloads its plug-ins at the end; what they leave behind could not be told by name then.
 */
int dlclose(void *handle)
{
    (void)handle;
    return 0;
}

/* Open MPI and its friends leave these behind; vasprintf is theirs, too: we do not call it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libmpi.so\nleak:libopen-pal.so\nleak:libopen-rte.so\nleak:libpmix.so\n"
           "leak:libhwloc.so\nleak:libevent\nleak:mca_\nleak:libfabric.so\nleak:libucp.so\n"
           "leak:libucs.so\nleak:libpsm\nleak:ld-linux\n";
}
/* Whole stacks: of what they allocate through libc the frames above it would be lost. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "fast_unwind_on_malloc=0";
}

/* ---- as a rank ---- */

static ty_err body_sum(struct crew *c, void *arg)
{
    (void)arg;
    ty_err err = sum_all(c, NULL);
    return err == TY_OK ? sum_all(c, c) : err; /* in place, too */
}

static ty_err body_rounds(struct crew *c, void *arg)
{
    (void)arg;
    enum { ROUNDS = 1000 };
    uint64_t dice = (uint64_t)crew_rank(c) * 77 + 5;
    float *parts[2];
    void *room;
    ty_err err = crew_room(c, 64, &room);
    parts[0] = room;
    parts[1] = parts[0] + 1;
    for (int i = 0; i < ROUNDS && err == TY_OK; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        if ((dice >> 60) == 0)
            usleep((useconds_t)(dice >> 54) & 255);
        for (size_t k = 0; k < 2; k++)
            if (crew_owner(c, k, 2) == crew_rank(c))
                *parts[k] = (float)i;
        err = crew_sum(c, "counts", parts, 2, 1, parts[1] + 1);
        if (err == TY_OK && parts[1][1] != (float)(2 * i))
            err = ty_fail(TY_INTERNAL, "round %d", i);
    }
    return err;
}

static ty_err body_agree(struct crew *c, void *arg)
{
    int odd = 1;
    (void)arg;
    return agree_but_one(c, &odd);
}

static ty_err body_out_of_step(struct crew *c, void *arg)
{
    float *parts[2];
    void *room;
    (void)arg;
    ty_err err = crew_room(c, 4096, &room);
    parts[0] = room;
    parts[1] = parts[0] + 100;
    if (err == TY_OK)
        err = crew_sum(c, "numbers", parts, 2, crew_rank(c) == 0 ? 20 : 10, parts[1] + 100);
    return err == TY_OK ? crew_meet(c, "next") : err;
}

static ty_err body_stop(struct crew *c, void *arg)
{
    (void)arg;
    ty_err err = crew_meet(c, "start");
    crew_mark(c, 7, "backward");
    usleep(1000000); /* many signs of life, which say so */
    if (crew_rank(c) == 1)
        raise(SIGSTOP);
    return err == TY_OK ? crew_meet(c, "next step") : err;
}

/* Stopped by a thread of its own while all are busy with sums, small and large ones in turn. */
static void *stop_soon(void *arg)
{
    uint32_t delay_us;
    ty_random(&delay_us, sizeof delay_us);
    usleep(1000000 + delay_us % 100000);
    kill(getpid(), SIGSTOP);
    return arg;
}

static ty_err body_stop_any(struct crew *c, void *arg)
{
    enum { FLOATS = 100000 };
    float *parts[3];
    pthread_t thread;
    void *room;
    (void)arg;
    ty_err err = crew_room(c, (size_t)4 * FLOATS * sizeof(float), &room);
    for (size_t k = 0; k < 3; k++)
        parts[k] = (float *)room + k * FLOATS;
    if (crew_rank(c) == 1 && pthread_create(&thread, NULL, stop_soon, NULL) == 0)
        pthread_detach(thread);
    for (int64_t step = 0; err == TY_OK; step++) {
        crew_mark(c, step, "summing");
        err = crew_sum(c, "numbers", parts, 3, step % 2 ? 100 : FLOATS, parts[2] + FLOATS);
    }
    return err;
}

static ty_err body_kill(struct crew *c, void *arg)
{
    (void)arg;
    ty_err err = crew_meet(c, "start");
    if (crew_rank(c) == 1)
        raise(SIGKILL);
    return err == TY_OK ? crew_meet(c, "next step") : err;
}

static ty_err body_slow(struct crew *c, void *arg)
{
    (void)arg;
    struct crew_waits waits;
    ty_err err = crew_meet(c, "start");
    crew_waits(c, &waits);
    for (int i = 0; i < 3 && err == TY_OK; i++) {
        if (crew_rank(c) == 1)
            usleep(900000);
        err = crew_meet(c, "step");
    }
    usleep(1000000); /* the others' waits are told by datagrams */
    crew_waits(c, &waits);
    if (err == TY_OK && (waits.slowest != 1 || waits.cost_ns < 1000000000))
        err = ty_fail(TY_INTERNAL, "slowest %d, cost %" PRId64, waits.slowest, waits.cost_ns);
    return err;
}

/* The peer is slow to leave: nobody is accused, and nobody ends MPI before it. */
static ty_err body_slow_end(struct crew *c, void *arg)
{
    (void)arg;
    ty_err err = crew_meet(c, "start");
    if (crew_rank(c) == 0)
        usleep(3500000);
    return err;
}

static ty_err body_leave(struct crew *c, void *arg)
{
    (void)arg;
    ty_err err = crew_meet(c, "start");
    if (err == TY_OK && crew_rank(c) == 1) {
        crew_leave(c, "its disk is full");
        usleep(3000000); /* mpirun ends all when one ends */
        exit(1);
    }
    return err == TY_OK ? crew_meet(c, "next step") : err;
}

static ty_err body_stop_between(struct crew *c, void *arg)
{
    int signal_number = SIGSTOP;
    (void)arg;
    return hit_between_buckets(c, &signal_number);
}

static const struct scenario {
    const char *name;
    test_body body;
} scenarios[] = {
    {"sum", body_sum},
    {"buckets", sum_in_buckets},
    {"cut_otherwise", cut_otherwise},
    {"measure", measure},
    {"stop_between", body_stop_between},
    {"share", share_all},
    {"agree", body_agree},
    {"rounds", body_rounds},
    {"out_of_step", body_out_of_step},
    {"stop", body_stop},
    {"stop_any", body_stop_any},
    {"kill", body_kill},
    {"slow", body_slow},
    {"slow_end", body_slow_end},
    {"leave", body_leave},
    {"absent", body_slow_end},
};

static int rank_main(const char *name)
{
    int rank, size;
    const char *meeting = getenv("TY_TEST_MEETING");
    struct crew_options o = {
        .names = test_names, .meeting = meeting, .join_ms = 30000, .deadline_ms = 2500};
    alarm(TEST_END_S);
    if (!crew_under_mpi(&rank, &size))
        return 2;
    o.size = strcmp(name, "other_size") == 0 ? size + 1 : size;
    if (strcmp(name, "absent") == 0) {
        o.join_ms = 1500;
        if (rank == 1)
            usleep(15000000);
    }
    struct crew *c = NULL;
    ty_err err = crew_join_mpi(&o, &c);
    if (err == TY_OK && (crew_rank(c) != rank || crew_size(c) != size))
        err = ty_fail(TY_INTERNAL, "rank %d of %d is another", rank, size);
    if (err == TY_OK && (c->shared != NULL) != (meeting != NULL))
        err = ty_fail(TY_INTERNAL, "it goes the wrong way");
    for (size_t i = 0; i < TY_COUNT(scenarios) && err == TY_OK; i++)
        if (strcmp(name, scenarios[i].name) == 0)
            err = scenarios[i].body(c, NULL);
    printf("rank %d: %s%s%s\n", rank, ty_err_name(err), err == TY_OK ? "" : ": ",
           err == TY_OK ? "" : ty_err_message());
    fflush(stdout);
    if (err != TY_OK)
        usleep(500000); /* so that the others can say theirs before mpirun ends them */
    crew_leave(c, NULL);
    return err == TY_OK ? 0 : 1;
}

/* ---- as the test ---- */

enum { MOST_OUTPUT = 65536 };
static char output[MOST_OUTPUT];

/* Everything stays on this machine: its loopback, no ssh. */
static const char *const settings[][2] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"OMPI_MCA_oob_tcp_if_include", "lo"},
    {"OMPI_MCA_btl_tcp_if_include", "lo"},
    {"OMPI_MCA_plm", "isolated"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
};

/* Run ranks under mpirun; what they print is in `output`. Returns mpirun's wait status. */
static int run_ranks(int size, const char *scenario, const char *btl, const char *meeting)
{
    int ends[2], status = 0;
    char self[PATH_MAX] = "", count[16];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(count, sizeof count, "%d", size);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = ty_fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        for (size_t i = 0; i < TY_COUNT(settings); i++)
            setenv(settings[i][0], settings[i][1], 1);
        setenv("OMPI_MCA_btl", btl, 1);
        setenv("OMPI_MCA_pml", "ob1", 1);
        if (meeting)
            setenv("TY_TEST_MEETING", meeting, 1);
        execlp("mpirun", "mpirun", "-n", count, self, "rank", scenario, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t len = 0;
    ssize_t got;
    while (len < sizeof output - 1 &&
           (got = read(ends[0], output + len, sizeof output - 1 - len)) != 0)
        len += got > 0 ? (size_t)got : 0;
    output[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        print_message("no mpirun (openmpi-bin): crews under MPI are not tested\n");
        skip();
    }
    return status;
}

static void assert_output(const char *words)
{
    if (!strstr(output, words))
        fail_msg("the ranks did not say '%s' but:\n%s", words, output);
}

static void assert_all_ok(int status, int size)
{
    for (int r = 0; r < size; r++) {
        char words[64];
        snprintf(words, sizeof words, "rank %d: OK\n", r);
        assert_output(words);
    }
    if (status != 0)
        fail_msg("mpirun: status %x:\n%s", (unsigned)status, output);
}

static const char *const BTL = "self,vader";

static void mpi_sum_bits(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++)
        assert_all_ok(run_ranks(size, "sum", BTL, NULL), size);
    assert_all_ok(run_ranks(3, "sum", "self,tcp", NULL), 3);
}

static void mpi_buckets_bits(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++)
        assert_all_ok(run_ranks(size, "buckets", BTL, NULL), size);
    assert_all_ok(run_ranks(3, "buckets", "self,tcp", NULL), 3);
}

static void mpi_buckets_differ(void **state)
{
    (void)state;
    run_ranks(2, "cut_otherwise", BTL, NULL);
    assert_output("INVALID_ARGUMENT: ");
    assert_output("same sizes");
}

static void mpi_buckets_measured(void **state)
{
    (void)state;
    assert_all_ok(run_ranks(3, "measure", BTL, NULL), 3);
}

static void mpi_stopped_between_buckets(void **state)
{
    (void)state;
    for (int size = 2; size <= 3; size++) {
        run_ranks(size, "stop_between", size == 2 ? BTL : "self,tcp", NULL);
        assert_output("rank 0: UNAVAILABLE: no sign of life of worker 1 for ");
        assert_output("its process is stopped (last seen at step 7, backward; ");
        assert_output("waited for it at 'numbers')");
    }
}

static void mpi_share(void **state)
{
    (void)state;
    assert_all_ok(run_ranks(3, "share", BTL, NULL), 3);
}

static void mpi_rounds(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size += 2)
        assert_all_ok(run_ranks(size, "rounds", BTL, NULL), size);
}

static void mpi_one_machine(void **state)
{
    char meeting[64];
    (void)state;
    snprintf(meeting, sizeof meeting, "/dev/shm/ty-test-mpi-%d", (int)getpid());
    assert_all_ok(run_ranks(2, "sum", BTL, meeting), 2);
    assert_all_ok(run_ranks(2, "slow_end", BTL, meeting), 2);
    run_ranks(2, "stop", BTL, meeting);
    assert_output("rank 0: UNAVAILABLE: no sign of life of worker 1");
}

static void mpi_agree(void **state)
{
    (void)state;
    setenv("OMPI_MCA_orte_enable_recovery", "1",
           1); /* who is first to end does not end the other */
    run_ranks(2, "agree", BTL, NULL);
    unsetenv("OMPI_MCA_orte_enable_recovery");
    assert_output("rank 0: INVALID_ARGUMENT: worker 1 has another model file than chief");
    assert_output("rank 1: INVALID_ARGUMENT: worker 1 has another model file than chief");
}

static void mpi_out_of_step(void **state)
{
    (void)state;
    run_ranks(2, "out_of_step", BTL, NULL);
    assert_output("INVALID_ARGUMENT: ");
    assert_output("same sizes");
}

static void mpi_stopped(void **state)
{
    (void)state;
    for (int size = 2; size <= 3; size++) {
        run_ranks(size, "stop", BTL, NULL);
        assert_output("rank 0: UNAVAILABLE: no sign of life of worker 1 for ");
        assert_output("its process is stopped (last seen at step 7, backward; ");
        assert_output("waited for it at 'next step')");
    }
}

static void mpi_stopped_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        run_ranks(3, "stop_any", i % 2 ? BTL : "self,tcp", NULL);
        assert_output("UNAVAILABLE: no sign of life of worker 1 for ");
        assert_output("its process is stopped (last seen at step ");
        assert_output("summing; ");
    }
}

/* mpirun ends all when one dies: what counts is that it ends. Where it is told to let the others go
 * on, as srun does, they say who died, whatever carries the messages. */
static void mpi_killed(void **state)
{
    (void)state;
    assert_true(run_ranks(3, "kill", BTL, NULL) != 0);
    assert_null(strstr(output, ": OK"));
    setenv("OMPI_MCA_orte_enable_recovery", "1", 1);
    for (int tcp = 0; tcp < 2; tcp++) {
        run_ranks(3, "kill", tcp ? "self,tcp" : BTL, NULL);
        assert_output("rank 0: UNAVAILABLE: no sign of life of worker 1 for ");
        assert_output("rank 2: UNAVAILABLE: no sign of life of worker 1 for ");
        assert_output("its process has ended (");
    }
    unsetenv("OMPI_MCA_orte_enable_recovery");
}

static void mpi_slow(void **state)
{
    (void)state;
    assert_all_ok(run_ranks(2, "slow", BTL, NULL), 2);
    assert_all_ok(run_ranks(2, "slow_end", BTL, NULL), 2);
}

static void mpi_leaves(void **state)
{
    (void)state;
    run_ranks(2, "leave", BTL, NULL);
    assert_output("rank 0: UNAVAILABLE: worker 1 has left: its disk is full");
}

static void mpi_absent(void **state)
{
    (void)state;
    run_ranks(2, "absent", BTL, NULL);
    assert_output("rank 0: UNAVAILABLE: not all ranks came to MPI within 1.5 s");
}

static void mpi_other_size(void **state)
{
    (void)state;
    run_ranks(2, "other_size", BTL, NULL);
    assert_output("INVALID_ARGUMENT: MPI has started 2 ranks, but the cluster has 3 tasks");
}

/* ---- without mpirun ---- */

static void library_is_missing(void **state)
{
    struct libmpi lib;
    (void)state;
    assert_err(TY_FAILED_PRECONDITION, libmpi_load("libmpi-none.so.40", &lib));
    assert_message("apt install libopenmpi3");
    assert_err(TY_FAILED_PRECONDITION, libmpi_load("libc.so.6", &lib));
    assert_message("has no 'MPI_Init_thread'");
}

static void started_by(void **state)
{
    int rank = -1, size = -1;
    (void)state;
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMIX_RANK");
    assert_false(crew_under_mpi(&rank, &size));
    setenv("PMIX_RANK", "1", 1);
    assert_false(crew_under_mpi(&rank, &size));
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    assert_true(crew_under_mpi(&rank, &size));
    assert_int_equal(rank * 10 + size, 14);
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    assert_false(crew_under_mpi(&rank, &size)); /* no such rank */
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    assert_true(crew_under_mpi(&rank, &size));
    assert_int_equal(rank * 10 + size, 23);
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMIX_RANK");
    unsetenv("SLURM_STEP_NUM_TASKS");
}

/* ---- datagrams ---- */

static void datagrams_are_judged(void **state)
{
    struct beats *a, *b;
    struct beats_card cards[2];
    struct life lives[2] = {{.beat = 5, .here = 1, .step = 3}, {.beat = 0}};
    struct life seen[2] = {{.beat = 0}, {.beat = 0}};
    struct life *const to[2] = {&seen[0], &seen[1]};
    (void)state;
    assert_ok(beats_open(&a, &cards[0]));
    assert_ok(beats_open(&b, &cards[1]));
    beats_address(a, cards, 0, 2);
    beats_address(b, cards, 1, 2);
    beats_send(a, &lives[0]);
    for (int i = 0; i < 10000 && seen[0].here == 0; i++) {
        beats_take(b, to);
        usleep(1000);
    }
    assert_int_equal(seen[0].here, 1);
    assert_int_equal(seen[0].step, 3);
    lives[0].beat = 4; /* one that was overtaken */
    lives[0].step = 2;
    beats_send(a, &lives[0]);
    beats_take(b, to);
    assert_int_equal(seen[0].step, 3);
    cards[1].network++; /* in a network of its own, with no address: our loopback is not its */
    memset(cards[1].addresses, 0, sizeof cards[1].addresses);
    struct beats *c;
    uint64_t key = cards[0].key;
    assert_ok(beats_open(&c, &cards[0]));
    cards[0].key = key;
    beats_address(c, cards, 0, 2);
    lives[0].beat = 6;
    lives[0].step = 9;
    beats_send(c, &lives[0]);
    beats_take(b, to);
    assert_int_equal(seen[0].step, 3);
    beats_close(c);
    char bytes[sizeof(struct life) + 16] = {0};
    assert_false(beats_read(bytes, sizeof bytes, 1, 1, to, 2)); /* another crew's */
    assert_false(beats_read(bytes, sizeof bytes - 1, 0, 1, to, 2));
    beats_close(a);
    beats_close(b);
}

static const struct CMUnitTest tests[] = {
    TEST("sum/bits_do_not_depend_on_ranks", mpi_sum_bits),
    TEST("buckets/bits_do_not_depend_on_ranks", mpi_buckets_bits),
    TEST("buckets/other_cuts_are_told", mpi_buckets_differ),
    TEST("buckets/sized_by_measurement", mpi_buckets_measured),
    TEST("buckets/one_is_stopped_between", mpi_stopped_between_buckets),
    TEST("share/pieces_are_everywhere", mpi_share),
    TEST("meet/many_rounds_with_delays", mpi_rounds),
    TEST("join/one_machine_shares_memory", mpi_one_machine),
    TEST("join/one_never_comes", mpi_absent),
    TEST("join/another_number_of_ranks", mpi_other_size),
    TEST("agree/names_the_one_that_differs", mpi_agree),
    TEST("agree/other_sizes_are_told", mpi_out_of_step),
    TEST("loss/stopped", mpi_stopped),
    TEST("loss/stopped_at_any_moment", mpi_stopped_at_any_moment),
    TEST("loss/killed", mpi_killed),
    TEST("loss/leaves_with_a_reason", mpi_leaves),
    TEST("slow/is_waited_for", mpi_slow),
    TEST("library/is_missing", library_is_missing),
    TEST("library/started_by", started_by),
    TEST("beats/datagrams_are_judged", datagrams_are_judged),
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "rank") == 0)
        return rank_main(argv[2]);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("crew_mpi", tests, NULL, NULL) == 0 ? 0 : 1;
}
