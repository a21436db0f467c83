/* test_crew.c -- crews of one machine: sums, shares, rooms, agreement, gathering. */
#include "crew/test_bodies.h"

/* ---- sums ---- */

static void sum_bits(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) {
        struct test_ranks t;
        test_ranks_init(&t, size);
        test_ranks_start(&t, sum_all, NULL);
        test_ranks_pass(&t);
        test_ranks_clear(&t);
    }
}

static void sum_in_place(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 3);
    test_ranks_start(&t, sum_all, &t);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

/* Without a crew the calls are those of a crew of one. */
static void sum_alone(void **state)
{
    (void)state;
    float v[3] = {1e8f, 1, -1e8f}, out = 0;
    float *parts[3] = {&v[0], &v[1], &v[2]};
    assert_ok(crew_sum(NULL, "numbers", parts, 3, 1, &out));
    assert_true(out == (1e8f + 1.0f) + -1e8f);
    assert_ok(crew_meet(NULL, "nobody"));
    assert_ok(crew_agree(NULL, "model", 1));
    assert_ok(crew_share(NULL, "nothing", NULL, 0));
    crew_mark(NULL, 1, "alone");
    struct crew_waits waits;
    crew_waits(NULL, &waits);
    assert_int_equal(waits.slowest, -1);
    assert_int_equal(crew_size(NULL), 1);
    assert_int_equal(crew_rank(NULL), 0);
    assert_int_equal(crew_owner(NULL, 3, 4), 0);
    crew_leave(NULL, NULL);
}

/* ---- sums in buckets ---- */

static void buckets_bits(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) {
        struct test_ranks t;
        test_ranks_init(&t, size);
        test_ranks_start(&t, sum_in_buckets, NULL);
        test_ranks_pass(&t);
        test_ranks_clear(&t);
    }
}

static void buckets_differ(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 2);
    test_ranks_start(&t, cut_otherwise, NULL);
    for (int r = 0; r < 2; r++) {
        test_rank_wait(&t, r);
        TEST_RANK_FAILED(&t, r, TY_INVALID_ARGUMENT, "another call than", "same sizes", "numbers");
    }
    test_ranks_clear(&t);
}

static void buckets_measured(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 3);
    test_ranks_start(&t, measure, NULL);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

/* ---- shares and rooms ---- */

static void share_pieces(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 3);
    test_ranks_start(&t, share_all, NULL);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

static ty_err rooms_look(struct crew *c, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < 40; i++) {
        size_t bytes = i * 1000;
        void *room;
        ty_err err = crew_room(c, bytes, &room);
        if (err != TY_OK)
            return err;
        if ((uintptr_t)room % 64 != 0)
            return ty_fail(TY_INTERNAL, "room %zu is not aligned", i);
        for (size_t k = 0; k < bytes; k++)
            if (((char *)room)[k] != 0)
                return ty_fail(TY_INTERNAL, "room %zu is not empty", i);
        if ((err = crew_meet(c, "looked")) != TY_OK)
            return err;
        memset(room, 1, bytes);
    }
    return TY_OK;
}

static void rooms_are_zero(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 2);
    test_ranks_start(&t, rooms_look, NULL);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

static ty_err room_differs(struct crew *c, void *arg)
{
    (void)arg;
    void *room;
    return crew_room(c, crew_rank(c) == 1 ? 4096 : 4097, &room);
}

static ty_err room_too_large(struct crew *c, void *arg)
{
    void *room;
    return crew_room(c, *(size_t *)arg, &room);
}

static void rooms_refused(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 2);
    test_ranks_start(&t, room_differs, NULL);
    for (int r = 0; r < 2; r++)
        test_rank_wait(&t, r);
    TEST_RANK_FAILED(&t, 0, TY_INVALID_ARGUMENT, "worker 1 is in another call", "sizes");
    test_ranks_clear(&t);
    /* more than /dev/shm can have, more than we would ask it for */
    size_t sizes[] = {(size_t)1 << 39, (size_t)1 << 41};
    const char *words[] = {"/dev/shm", "the most is"};
    for (size_t i = 0; i < TY_COUNT(sizes); i++) {
        test_ranks_init(&t, 2);
        test_ranks_start(&t, room_too_large, &sizes[i]);
        for (int r = 0; r < 2; r++) {
            test_rank_wait(&t, r);
            TEST_RANK_FAILED(&t, r, TY_RESOURCE_EXHAUSTED, words[i]);
        }
        test_ranks_clear(&t);
    }
}

/* ---- agreement ---- */

static void agree_names(void **state)
{
    (void)state;
    for (int odd = 1; odd <= 2; odd++) {
        struct test_ranks t;
        test_ranks_init(&t, 3);
        test_ranks_start(&t, agree_but_one, &odd);
        for (int r = 0; r < 3; r++) {
            test_rank_wait(&t, r);
            TEST_RANK_FAILED(&t, r, TY_INVALID_ARGUMENT,
                             odd == 1 ? "worker 1 has another model file than chief"
                                      : "worker 2 has another model file than chief");
        }
        test_ranks_clear(&t);
    }
}

static void calls_out_of_step(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 2);
    test_ranks_start(&t, other_call, NULL);
    for (int r = 0; r < 2; r++)
        test_rank_wait(&t, r);
    TEST_RANK_FAILED(&t, 0, TY_INVALID_ARGUMENT, "worker 1 is in another call than chief", "seed");
    TEST_RANK_FAILED(&t, 1, TY_INVALID_ARGUMENT, "another call than", "chief");
    test_ranks_clear(&t);
}

/* ---- gathering ---- */

static ty_err only_meet(struct crew *c, void *arg)
{
    (void)arg;
    return crew_meet(c, "hello");
}

static void join_never_comes(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 4);
    t.join_ms = 3000;
    test_rank_start(&t, 0, only_meet, NULL);
    test_rank_start(&t, 2, only_meet, NULL);
    for (int r = 0; r < 4; r += 2) {
        assert_int_equal(test_rank_wait(&t, r), 0);
        TEST_RANK_FAILED(&t, r, TY_UNAVAILABLE, "worker 1, worker 3 did not come", "crew of 4",
                         t.meeting);
    }
    assert_int_equal(access(t.meeting, F_OK), -1);
    test_ranks_clear(&t);
    test_ranks_init(&t, 2); /* without rank 0 there is no place */
    t.join_ms = 100;
    test_rank_start(&t, 1, only_meet, NULL);
    assert_int_equal(test_rank_wait(&t, 1), 0);
    TEST_RANK_FAILED(&t, 1, TY_UNAVAILABLE, "chief did not come", "0.1 s");
    test_ranks_clear(&t);
}

/* A signal ends the wait for the others, with the place made or without it. */
static void join_stopped(void **state)
{
    static const volatile sig_atomic_t signals[] = {SIGTERM, SIGINT};
    static const char *const names[] = {"SIGTERM", "SIGINT"};
    (void)state;
    for (int r = 0; r < 2; r++) {
        struct test_ranks t;
        test_ranks_init(&t, 2);
        t.stopped = &signals[r];
        test_rank_start(&t, r, only_meet, NULL);
        assert_int_equal(test_rank_wait(&t, r), 0);
        TEST_RANK_FAILED(&t, r, TY_CANCELLED, names[r], r ? "chief was" : "worker 1 was");
        assert_int_equal(access(t.meeting, F_OK), -1);
        test_ranks_clear(&t);
    }
}

/* A file of a crew that is dead, whole or torn: who comes early waits for the new one. */
static void join_stale_file(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        struct test_ranks t;
        test_ranks_init(&t, 2);
        t.join_ms = whole ? 20000 : 30000;
        if (whole) { /* its rank 0 is killed while it waits */
            struct test_ranks dead = t;
            test_rank_start(&dead, 0, only_meet, NULL);
            while (access(t.meeting, F_OK) != 0)
                usleep(1000);
            kill(dead.pids[0], SIGKILL);
            test_rank_wait(&dead, 0);
        } else {
            int fd = open(t.meeting, O_CREAT | O_WRONLY, 0600);
            assert_true(fd >= 0);
            assert_ok(ty_write_all(fd, "torn", 4));
            close(fd);
        }
        assert_int_equal(access(t.meeting, F_OK), 0);
        test_rank_start(&t, 1, only_meet, NULL);
        usleep(50000);
        test_rank_start(&t, 0, only_meet, NULL);
        test_ranks_pass(&t);
        test_ranks_clear(&t);
    }
}

static void join_refused(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 3);
    test_rank_start(&t, 0, only_meet, NULL);
    while (access(t.meeting, F_OK) != 0)
        usleep(1000);
    struct crew *c;
    struct crew_options o = test_options(&t, 0);
    assert_err(TY_ALREADY_EXISTS, crew_join_shared(&o, &c));
    assert_message("another crew is gathering at");
    o = test_options(&t, 1);
    o.size = 2;
    assert_err(TY_INVALID_ARGUMENT, crew_join_shared(&o, &c));
    assert_message("chief gathers a crew of 3, but worker 1 was told of 2");
    test_rank_start(&t, 1, only_meet, NULL);
    test_rank_placed(&t, 1);
    pid_t first = t.pids[1];
    test_rank_start(&t, 1, only_meet, NULL);
    assert_int_equal(test_rank_wait(&t, 1), 0);
    TEST_RANK_FAILED(&t, 1, TY_INVALID_ARGUMENT, "two processes came as rank 1");
    t.pids[1] = first;
    test_rank_start(&t, 2, only_meet, NULL);
    test_ranks_pass(&t); /* which is no harm to the crew */
    test_ranks_clear(&t);
}

static void join_options(void **state)
{
    (void)state;
    struct crew *c;
    struct crew_options o = {.rank = 3, .size = 3, .meeting = "/dev/shm/none", .join_ms = 1};
    o.deadline_ms = 5000;
    assert_err(TY_INVALID_ARGUMENT, crew_join_shared(&o, &c));
    o.rank = 0;
    o.size = CREW_MOST_RANKS + 1;
    assert_err(TY_INVALID_ARGUMENT, crew_join_shared(&o, &c));
    o.size = 1;
    o.deadline_ms = 1;
    assert_err(TY_INVALID_ARGUMENT, crew_join_shared(&o, &c));
    assert_message("deadline_ms 1");
    o.deadline_ms = 5000;
    o.meeting = "/nowhere/at/all";
    assert_err(TY_NOT_FOUND, crew_join_shared(&o, &c));
    assert_message("/nowhere/at/all");
}

/* ---- many meetings ---- */

static void meet_many_rounds(void **state)
{
    struct test_ranks t;
    (void)state;
    int rounds = 3000;
    test_ranks_init(&t, 2);
    test_ranks_start(&t, many_rounds, &rounds);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

static void meet_more_ranks_than_cpus(void **state)
{
    struct test_ranks t;
    (void)state;
    int rounds = 300;
    test_ranks_init(&t, TEST_MOST_RANKS);
    test_ranks_start(&t, many_rounds, &rounds);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

static void two_crews_at_once(void **state)
{
    struct test_ranks a, b;
    (void)state;
    int rounds = 500;
    test_ranks_init(&a, 2);
    test_ranks_init(&b, 2);
    for (int r = 0; r < 2; r++) {
        test_rank_start(&a, r, many_rounds, &rounds);
        test_rank_start(&b, r, sum_all, NULL);
    }
    test_ranks_pass(&a);
    test_ranks_pass(&b);
    test_ranks_clear(&a);
    test_ranks_clear(&b);
}

/* ---- what was observed ---- */

static ty_err one_is_slow(struct crew *c, void *arg)
{
    (void)arg;
    void *room;
    ty_err err = crew_room(c, 4096, &room);
    struct crew_waits waits;
    crew_waits(c, &waits);
    for (int i = 0; i < 10 && err == TY_OK; i++) {
        if (crew_rank(c) == 1)
            usleep(100000);
        err = crew_meet(c, "step");
    }
    struct crew_piece piece = {2, room, 100};
    if (err == TY_OK)
        err = crew_share(c, "rows", &piece, 1);
    float *parts[3] = {room, (float *)room + 16, (float *)room + 32};
    if (err == TY_OK)
        err = crew_sum(c, "numbers", parts, 3, 16, (float *)room + 48);
    if (err != TY_OK)
        return err;
    crew_waits(c, &waits);
    uint64_t bytes = crew_rank(c) == 2 ? 164 : 64;
    if (waits.slowest != 1 || waits.share < 0.5 || waits.cost_ns < 100000000 ||
        waits.bytes != bytes || (crew_rank(c) != 1 && waits.wait_ns < 100000000))
        return ty_fail(TY_INTERNAL, "slowest %d share %f cost %" PRId64 " bytes %" PRIu64,
                       waits.slowest, waits.share, waits.cost_ns, waits.bytes);
    crew_waits(c, &waits);
    return waits.slowest == -1 ? TY_OK : ty_fail(TY_INTERNAL, "it is not counted anew");
}

static void waits_name_the_slowest(void **state)
{
    struct test_ranks t;
    (void)state;
    test_ranks_init(&t, 3);
    test_ranks_start(&t, one_is_slow, NULL);
    test_ranks_pass(&t);
    test_ranks_clear(&t);
}

static const struct CMUnitTest tests[] = {
    TEST("sum/bits_do_not_depend_on_ranks", sum_bits),
    TEST("sum/goes_to_the_first_part", sum_in_place),
    TEST("sum/alone", sum_alone),
    TEST("buckets/bits_do_not_depend_on_ranks", buckets_bits),
    TEST("buckets/other_cuts_are_told", buckets_differ),
    TEST("buckets/sized_by_measurement", buckets_measured),
    TEST("share/pieces_are_everywhere", share_pieces),
    TEST("room/is_zero_and_aligned", rooms_are_zero),
    TEST("room/is_refused", rooms_refused),
    TEST("agree/names_the_one_that_differs", agree_names),
    TEST("agree/other_calls_are_told", calls_out_of_step),
    TEST("join/one_never_comes", join_never_comes),
    TEST("join/stopped_by_a_signal", join_stopped),
    TEST("join/stale_file", join_stale_file),
    TEST("join/refused", join_refused),
    TEST("join/options", join_options),
    TEST("meet/many_rounds_with_delays", meet_many_rounds),
    TEST("meet/more_ranks_than_cpus", meet_more_ranks_than_cpus),
    TEST("meet/two_crews_at_once", two_crews_at_once),
    TEST("waits/name_the_slowest", waits_name_the_slowest),
};
TEST_MAIN("crew", tests)
