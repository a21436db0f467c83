/* test_loss.c -- ranks that are killed, stopped, slow, or leave: who waits is told who and why. */
#include "crew/test_bodies.h"

#include <sched.h>
#include <sys/mount.h>

/* ---- every kind of wait, and ways to be lost in it ---- */

static ty_err wait_in_meet(struct crew *c)
{
    return crew_meet(c, "begin of step");
}

static ty_err wait_in_agree(struct crew *c)
{
    return crew_agree(c, "begin of step", 1);
}

static ty_err wait_in_room(struct crew *c)
{
    void *room;
    return crew_room(c, 100, &room);
}

static ty_err wait_in_share(struct crew *c)
{
    char byte = 0;
    struct crew_piece piece = {1, &byte, 1};
    return crew_share(c, "begin of step", &piece, 1);
}

static ty_err wait_in_sum(struct crew *c)
{
    float v[3] = {1, 2, 3}, out;
    float *parts[3] = {&v[0], &v[1], &v[2]};
    return crew_sum(c, "begin of step", parts, 3, 1, &out);
}

static ty_err wait_in_buckets(struct crew *c)
{
    float v[3][32] = {{1}, {2}, {3}}, out[32];
    float *parts[3] = {v[0], v[1], v[2]};
    const struct crew_bucket two[2] = {{16, 16}, {0, 16}};
    const struct crew_sums s = {"begin of step", parts, 3, out, two, 2};
    ty_err err = crew_sums_begin(c, &s);
    crew_sums_ready(c);
    crew_sums_advance(c);
    return err == TY_OK ? crew_sums_end(c) : err;
}

static const struct wait_kind {
    const char *what;
    ty_err (*wait)(struct crew *c);
} kinds[] = {
    {"begin of step", wait_in_meet}, {"begin of step", wait_in_agree},
    {"room", wait_in_room},          {"begin of step", wait_in_share},
    {"begin of step", wait_in_sum},  {"begin of step", wait_in_buckets},
};

enum { LOST = 1 };
struct loss {
    const struct wait_kind *kind;
    int signal; /* that the lost one sends itself; 0: it leaves, -1: it exits */
    const char *why;
    bool hit_from_outside; /* it waits for a signal, and says so in its end */
    struct test_end *lost_end;
};

/* The failure is told by the wait, and by every call after it, in the same words. */
static ty_err lose_one(struct crew *c, void *arg)
{
    const struct loss *loss = arg;
    struct test_end *lost_end = loss->lost_end;
    ty_err err = crew_meet(c, "start");
    if (err != TY_OK)
        return ty_fail(TY_INTERNAL, "lost before it began");
    crew_mark(c, 7, "backward");
    if (crew_rank(c) == LOST) {
        while (loss->hit_from_outside) {
            __atomic_store_n(&lost_end->ready, true, __ATOMIC_RELEASE);
            pause();
        }
        if (loss->signal > 0)
            raise(loss->signal);
        else if (loss->signal < 0)
            _exit(0);
        crew_leave(c, loss->why);
        exit(0);
    }
    err = loss->kind->wait(c);
    if (err == TY_OK)
        return err;
    char first[1024];
    void *room;
    snprintf(first, sizeof first, "%s", ty_err_message());
    if (crew_meet(c, "again") != err || strcmp(first, ty_err_message()) != 0 ||
        crew_room(c, 1, &room) != err || crew_agree(c, "again", 1) != err ||
        crew_share(c, "again", NULL, 0) != err || strcmp(first, ty_err_message()) != 0)
        return ty_fail(TY_INTERNAL, "the failure does not stay: %s", ty_err_message());
    return err;
}

static void run_loss(struct test_ranks *t, struct loss *loss, int size, int deadline_ms)
{
    test_ranks_init(t, size);
    t->deadline_ms = deadline_ms;
    test_ranks_start(t, lose_one, loss);
    for (int r = 0; r < size; r++)
        if (r != LOST)
            assert_int_equal(test_rank_wait(t, r), 0);
    kill(t->pids[LOST], SIGKILL); /* it may be stopped */
    test_rank_wait(t, LOST);
}

static void killed_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < TY_COUNT(kinds); i++) {
        struct test_ranks t;
        struct loss loss = {.kind = &kinds[i], .signal = SIGKILL};
        run_loss(&t, &loss, 3, 5000);
        for (int r = 0; r < 3; r += 2)
            TEST_RANK_FAILED(&t, r, TY_UNAVAILABLE, "worker 1 is gone", "killed or ended", "step 7",
                             "backward", kinds[i].what, "waited for it");
        test_ranks_clear(&t);
    }
}

static void stopped_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < TY_COUNT(kinds); i++) {
        struct test_ranks t;
        struct loss loss = {.kind = &kinds[i], .signal = SIGSTOP};
        run_loss(&t, &loss, 3, 2500);
        for (int r = 0; r < 3; r += 2)
            TEST_RANK_FAILED(&t, r, TY_UNAVAILABLE, "no sign of life of worker 1",
                             "its process is stopped", "step 7", "backward", kinds[i].what);
        test_ranks_clear(&t);
    }
}

static void exit_is_told(void **state)
{
    struct test_ranks t;
    struct loss loss = {.kind = &kinds[0], .signal = -1};
    (void)state;
    run_loss(&t, &loss, 2, 5000);
    TEST_RANK_FAILED(&t, 0, TY_UNAVAILABLE, "worker 1 is gone", "ended without a word");
    test_ranks_clear(&t);
}

static void leaving_is_told(void **state)
{
    struct test_ranks t;
    struct loss loss = {.kind = &kinds[4], .why = "its disk is full"};
    (void)state;
    run_loss(&t, &loss, 3, 5000);
    for (int r = 0; r < 3; r += 2)
        TEST_RANK_FAILED(&t, r, TY_UNAVAILABLE, "worker 1 has left: its disk is full (", "step 7");
    test_ranks_clear(&t);
    loss.why = NULL;
    run_loss(&t, &loss, 2, 5000);
    TEST_RANK_FAILED(&t, 0, TY_UNAVAILABLE, "worker 1 has left (last seen");
    test_ranks_clear(&t);
}

static void lost_between_buckets(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct test_ranks t;
        int signal_number = i ? SIGSTOP : SIGKILL;
        test_ranks_init(&t, 3);
        t.deadline_ms = 2500;
        test_ranks_start(&t, hit_between_buckets, &signal_number);
        for (int r = 0; r < 3; r += 2) {
            assert_int_equal(test_rank_wait(&t, r), 0);
            TEST_RANK_FAILED(&t, r, TY_UNAVAILABLE,
                             i ? "no sign of life of worker 1" : "worker 1 is gone", "step 7",
                             "backward", "numbers", "waited for it");
        }
        kill(t.pids[LOST], SIGKILL);
        test_rank_wait(&t, LOST);
        test_ranks_clear(&t);
    }
}

/* Killed from outside while all are busy with sums, every other one in buckets: in front of a
 * meeting, in it, between two. */
static ty_err sum_for_ever(struct crew *c, void *arg)
{
    enum { FLOATS = 3008 };
    const struct crew_bucket two[2] = {{1600, FLOATS - 1600}, {0, 1600}};
    struct test_end *ends = arg;
    void *room;
    float *parts[3];
    ty_err err = crew_room(c, (size_t)4 * FLOATS * sizeof(float), &room);
    for (size_t k = 0; k < 3; k++)
        parts[k] = (float *)room + k * FLOATS;
    for (int64_t step = 0; err == TY_OK; step++) {
        crew_mark(c, step, "summing");
        struct crew_sums s = {"numbers", parts, 3, parts[2] + FLOATS, two, 2};
        if (step % 2) {
            err = crew_sum(c, s.what, parts, 3, FLOATS, s.out);
        } else {
            err = crew_sums_begin(c, &s);
            crew_sums_ready(c);
            crew_sums_advance(c);
            err = err == TY_OK ? crew_sums_end(c) : err;
        }
        __atomic_store_n(&ends[crew_rank(c)].ready, true, __ATOMIC_RELEASE);
    }
    return err;
}

static void killed_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 25; i++) {
        struct test_ranks t;
        uint32_t delay_us;
        test_ranks_init(&t, 3);
        test_ranks_start(&t, sum_for_ever, t.ends);
        test_rank_ready(&t, LOST);
        ty_random(&delay_us, sizeof delay_us);
        usleep(delay_us % 20000);
        kill(t.pids[LOST], SIGKILL);
        for (int r = 0; r < 3; r++)
            test_rank_wait(&t, r);
        for (int r = 0; r < 3; r += 2)
            TEST_RANK_FAILED(&t, r, TY_UNAVAILABLE, "worker 1 is gone", "summing", "numbers");
        test_ranks_clear(&t);
    }
}

/* Two are killed, one after the other; or one is killed, another fails because of it and leaves.
 * All that live say the same of the same one. */
static ty_err lose_late(struct crew *c, void *arg)
{
    (void)arg;
    ty_err err = crew_meet(c, "start");
    if (crew_rank(c) == LOST)
        raise(SIGKILL);
    if (crew_rank(c) == 3) /* it comes when the others have failed and are gone */
        usleep(700000);
    return err == TY_OK ? crew_meet(c, "next") : err;
}

static void the_first_is_blamed(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 4);
    test_ranks_start(&t, lose_late, NULL);
    for (int r = 0; r < 4; r++)
        test_rank_wait(&t, r);
    for (int r = 0; r < 4; r++)
        if (r != LOST)
            TEST_RANK_FAILED(&t, r, TY_UNAVAILABLE, "worker 1 is gone", "next");
    test_ranks_clear(&t);
}

/* ---- while gathering ---- */

static ty_err nothing(struct crew *c, void *arg)
{
    (void)c;
    (void)arg;
    return TY_OK;
}

static void killed_while_gathering(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        struct test_ranks t;
        test_ranks_init(&t, 3); /* worker 2 never comes */
        test_rank_start(&t, 0, nothing, NULL);
        test_rank_start(&t, 1, nothing, NULL);
        test_rank_placed(&t, 0);
        test_rank_placed(&t, 1);
        usleep(300000); /* each has said that it is there */
        kill(t.pids[victim], SIGKILL);
        test_rank_wait(&t, victim);
        assert_int_equal(test_rank_wait(&t, 1 - victim), 0);
        TEST_RANK_FAILED(&t, 1 - victim, TY_UNAVAILABLE,
                         victim == 0 ? "chief is gone" : "worker 1 is gone", "joining");
        (void)unlink(t.meeting);
        test_ranks_clear(&t);
    }
}

/* ---- slow is not lost ---- */

static ty_err slow_one(struct crew *c, void *arg)
{
    (void)arg;
    if (crew_rank(c) == LOST)
        usleep(3500000);
    return crew_meet(c, "after a long while");
}

static void slow_is_waited_for(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 2);
    t.deadline_ms = 2000;
    test_ranks_start(&t, slow_one, NULL);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

/* All are stopped, as by a laptop's lid, for longer than the deadline: nobody is accused. */
static ty_err long_round(struct crew *c, void *arg)
{
    ty_err err = TY_OK;
    struct test_end *ends = arg;
    for (int i = 0; i < 10 && err == TY_OK; i++) {
        if (crew_rank(c) == i % 2)
            usleep(200000);
        err = crew_meet(c, "round");
        __atomic_store_n(&ends[crew_rank(c)].ready, true, __ATOMIC_RELEASE);
    }
    return err;
}

static void all_stopped_is_no_loss(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 2);
    t.deadline_ms = 2500;
    test_ranks_start(&t, long_round, t.ends);
    for (int r = 0; r < 2; r++)
        test_rank_ready(&t, r);
    usleep(300000);
    for (int r = 0; r < 2; r++)
        kill(t.pids[r], SIGSTOP);
    usleep(3500000);
    for (int r = 0; r < 2; r++)
        kill(t.pids[r], SIGCONT);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

/* One that left at the end is not missed by one that comes late to see that all had come. */
static ty_err last_meeting(struct crew *c, void *arg)
{
    (void)arg;
    return crew_meet(c, "last");
}

static void leaving_at_the_end_is_no_loss(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct test_ranks t;
        test_ranks_init(&t, 3);
        test_ranks_start(&t, last_meeting, NULL);
        test_ranks_pass(&t);
        test_ranks_clear(&t);
    }
}

/* ---- PID namespaces of their own, as our jobs have them ---- */

static void own_proc(void)
{
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", "/proc", "proc", 0, NULL) != 0)
        _exit(1);
}

/* The process that waits for it is in our namespace and knows its pid here. */
static void start_in_namespace(struct test_ranks *t, int rank, struct loss *loss)
{
    pid_t pid = ty_fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pid_t inner = unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ? ty_fork() : -1;
        if (inner == 0) {
            own_proc();
            test_rank_run(t, rank, lose_one, loss);
            exit(0);
        }
        int status = 0;
        __atomic_store_n(&t->ends[rank].inner, inner, __ATOMIC_RELEASE);
        while (waitpid(inner, &status, 0) < 0 && errno == EINTR)
            ;
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    t->pids[rank] = pid;
}

static bool namespaces_allowed(void)
{
    int status = 0;
    pid_t probe = ty_fork();
    if (probe == 0)
        _exit(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ? 0 : 1);
    return waitpid(probe, &status, 0) == probe && status == 0;
}

static void namespaces_apart(void **state)
{
    const int signals[] = {SIGKILL, SIGSTOP};
    const char *words[] = {"worker 1 is gone", "no sign of life of worker 1"};
    (void)state;
    if (!namespaces_allowed()) {
        print_message("unshare is not allowed here: ranks in PID namespaces are not tested\n");
        skip();
    }
    for (size_t i = 0; i < TY_COUNT(signals); i++) {
        struct test_ranks t;
        struct loss loss = {.kind = &kinds[0], .hit_from_outside = true};
        test_ranks_init(&t, 3);
        t.deadline_ms = 2500;
        loss.lost_end = &t.ends[LOST];
        for (int r = 0; r < 3; r++)
            start_in_namespace(&t, r, &loss);
        test_rank_ready(&t, LOST);
        pid_t inner = __atomic_load_n(&t.ends[LOST].inner, __ATOMIC_ACQUIRE);
        assert_int_equal(kill(inner, signals[i]), 0);
        test_rank_wait(&t, 0);
        test_rank_wait(&t, 2);
        kill(inner, SIGKILL);
        test_rank_wait(&t, LOST);
        for (int r = 0; r < 3; r += 2)
            TEST_RANK_FAILED(&t, r, TY_UNAVAILABLE, words[i], "step 7", "backward",
                             signals[i] == SIGSTOP ? "cannot be seen from here" : "killed");
        test_ranks_clear(&t);
    }
}

/* ---- a process's state in words ---- */

static void process_states(void **state)
{
    (void)state;
    pid_t pid = ty_fork();
    if (pid == 0)
        for (;;)
            pause();
    char who[16];
    struct life_process process, other;
    snprintf(who, sizeof who, "%d", (int)pid);
    assert_true(life_process_read(who, &process));
    assert_int_equal(process.pid, pid);
    other = process;
    other.started++;
    assert_string_equal(life_state(&other), "has ended"); /* another process has its pid */
    other = process;
    other.proc++;
    assert_null(life_state(&other)); /* a pid of another namespace */
    int status;
    kill(pid, SIGSTOP);
    waitpid(pid, &status, WUNTRACED);
    assert_string_equal(life_state(&process), "is stopped");
    kill(pid, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    assert_string_equal(life_state(&process), "has ended and waits to be collected");
    waitpid(pid, &status, 0);
    assert_string_equal(life_state(&process), "has ended");
    assert_true(life_process_read("self", &process));
    assert_non_null(life_state(&process));
}

static const struct CMUnitTest tests[] = {
    TEST("loss/killed_in_every_wait", killed_is_told),
    TEST("loss/killed_at_any_moment", killed_at_any_moment),
    TEST("loss/between_two_buckets", lost_between_buckets),
    TEST("loss/stopped_in_every_wait", stopped_is_told),
    TEST("loss/exit_without_leaving", exit_is_told),
    TEST("loss/leaves_with_a_reason", leaving_is_told),
    TEST("loss/the_first_is_blamed", the_first_is_blamed),
    TEST("loss/killed_while_gathering", killed_while_gathering),
    TEST("loss/pid_namespaces_apart", namespaces_apart),
    TEST("loss/process_states", process_states),
    TEST("slow/is_waited_for", slow_is_waited_for),
    TEST("slow/all_stopped_is_no_loss", all_stopped_is_no_loss),
    TEST("slow/leaving_at_the_end_is_no_loss", leaving_at_the_end_is_no_loss),
};
TEST_MAIN("crew_loss", tests)
