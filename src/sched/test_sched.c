/* test_sched.c -- the decision, the ports, and a yard of real jobs without HTTP. */
#define TY_SEAM
#include "sched/test_yard.h"

/* ---- decide ---- */

static struct sched_item waiting(int64_t id, int replicas)
{
    return (struct sched_item){
        .job_id = id, .ask = {.jobs = 1, .replicas = replicas}, .wait_left_ms = INT64_MAX};
}

/* A machine that has enough of everything but these. */
static struct sched_room room_of(int slots, int slots_used, int starts)
{
    return (struct sched_room){.all = {.jobs = 1000, .replicas = slots},
                               .used = {.jobs = slots_used, .replicas = slots_used},
                               .starts = starts};
}

static void decide_no_partial_gang(void **state)
{
    (void)state;
    struct sched_item items[] = {waiting(1, 3), waiting(2, 2)};
    sched_decide(items, 2, room_of(4, 0, 8));
    assert_true(items[0].start);
    assert_false(items[1].start);
    assert_int_equal(items[1].wait, SCHED_WAIT_SLOTS);
}

static void decide_nobody_passes_a_job_that_waits(void **state)
{
    (void)state;
    struct sched_item items[] = {waiting(1, 8), waiting(2, 1)};
    sched_decide(items, 2, room_of(8, 1, 8));
    assert_false(items[0].start);
    assert_false(items[1].start);
    assert_string_equal(sched_wait_text(items[0].wait, items[0].behind),
                        "waiting for replica slots (setting replica_slots)");
    assert_string_equal(sched_wait_text(items[1].wait, items[1].behind),
                        "waiting behind an older job that needs replica slots");
}

static void decide_a_held_job_blocks_nobody(void **state)
{
    (void)state;
    struct sched_item items[] = {waiting(1, 1), waiting(2, 1)};
    items[0].hold_ms = 100;
    sched_decide(items, 2, room_of(4, 0, 4));
    assert_false(items[0].start);
    assert_true(items[1].start);
}

static void decide_expires_a_wait(void **state)
{
    (void)state;
    struct sched_item items[] = {waiting(1, 1)};
    items[0].wait_left_ms = 0;
    sched_decide(items, 1, room_of(4, 0, 4));
    assert_true(items[0].expire);
    assert_false(items[0].start);
}

/* ---- ports ---- */

static void ports_all_or_none(void **state)
{
    (void)state;
    struct ports p;
    ports_init(&p, 23100, 23103);
    int taken[4];
    assert_ok(ports_take(&p, taken, 3));
    int more[2];
    assert_err(TY_RESOURCE_EXHAUSTED, ports_take(&p, more, 2));
    assert_ok(ports_take(&p, more, 1));
    ports_give(&p, taken, 3);
    assert_ok(ports_take(&p, taken, 3));
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(taken[i], more[0]);
    ports_clear(&p);
}

/* Two servers of one machine would else give the same ports to the first job of each. */
static void ports_begin_anywhere(void **state)
{
    (void)state;
    bool differ = false;
    int first = 0;
    for (int i = 0; i < 8; i++) {
        struct ports p;
        int port;
        ports_init(&p, 20000, 31999);
        assert_ok(ports_take(&p, &port, 1));
        assert_true(port >= 20000 && port <= 31999);
        differ |= i > 0 && port != first;
        first = port;
        ports_clear(&p);
    }
    assert_true(differ);
}

static void yard_runs_a_job(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = await(&y, submit(&y, "echo hello", ""), JOB_STATE_SUCCEEDED);
    assert_true(job.create_ns <= job.start_ns && job.start_ns <= job.end_ns);
    job = await(&y, submit(&y, "echo oh no; exit 3", ""), JOB_STATE_FAILED);
    assert_non_null(strstr(ty_cstr(&y.arena, job.error_message), "status of 3"));
    assert_non_null(strstr(ty_cstr(&y.arena, job.error_message), "oh no"));
    assert_int_equal(job.attempt, 1);
    yard_close(&y);
}

static void yard_retries_a_crash_three_times(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    struct job job = await(&y, submit(&y, "kill -SEGV $$", ""), JOB_STATE_FAILED);
    assert_int_equal(job.attempt, 1 + MAX_RETRIES);
    assert_int_equal(job.retries, MAX_RETRIES);
    job = await(&y, submit(&y, "kill -SEGV $$", "{\"disableRetries\":true}"), JOB_STATE_FAILED);
    assert_int_equal(job.attempt, 1);
    yard_close(&y);
}

static void yard_cancels_waiting_and_running(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t first = submit(&y, "sleep 600", ""), second = submit(&y, "sleep 600", "");
    await(&y, first, JOB_STATE_RUNNING);
    await(&y, second, JOB_STATE_RUNNING);
    int64_t third = submit(&y, "sleep 600", "");
    struct job waiting_job = await(&y, third, JOB_STATE_QUEUED);
    assert_string_equal(ty_cstr(&y.arena, waiting_job.wait_reason),
                        "waiting for replica slots (setting replica_slots)");
    int64_t all[] = {third, first, second};
    for (size_t i = 0; i < TY_COUNT(all); i++) {
        assert_ok(store_job_cancel(y.store, TY_STR("p"), TY_STR("us-central1"), all[i]));
        sched_notify(y.sched, all[i]);
    }
    for (size_t i = 0; i < TY_COUNT(all); i++)
        assert_int_equal(await(&y, all[i], JOB_STATE_CANCELLED).error_code, TY_CANCELLED);
    yard_close(&y);
}

static void yard_adopts_what_runs(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t runs = submit(&y, gated(&y, "echo done"), "");
    await(&y, runs, JOB_STATE_RUNNING);
    yard_stop(&y);
    yard_start(&y);
    gate_open(&y);
    struct job job = await(&y, runs, JOB_STATE_SUCCEEDED);
    assert_int_equal(job.attempt, 1);
    yard_close(&y);
}

static void yard_finds_a_job_that_ended_meanwhile(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t runs = submit(&y, gated(&y, "true"), "");
    await(&y, runs, JOB_STATE_RUNNING);
    yard_stop(&y);
    gate_open(&y);
    struct exec_look look = {0};
    for (int i = 0; i < 2000 && look.phase != EXEC_ENDED; i++) {
        usleep(20000);
        assert_ok(exec_attempt_look(&y.arena, y.dir, runs, 1, &look));
    }
    assert_int_equal(look.phase, EXEC_ENDED);
    yard_start(&y);
    await(&y, runs, JOB_STATE_SUCCEEDED);
    yard_close(&y);
}

static void yard_fences_an_attempt_that_never_started(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    yard_stop(&y);
    assert_ok(store_open(y.dir, &y.store));
    struct job job = {.project = TY_STR("p"),
                      .region = TY_STR("us-central1"),
                      .display_name = TY_STR("t"),
                      .replicas = 1,
                      .body = TY_STR("\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[{"
                                     "\"containerSpec\":{\"imageUri\":\"host\",\"command\":["
                                     "\"true\"]}}]}")};
    assert_ok(store_job_create(y.store, &job));
    struct attempt first = {
        .job_id = job.id, .number = 1, .state = ATTEMPT_STARTED, .ports = TY_STR("23200")};
    struct store_change change = {.job_id = job.id, .attempt = &first};
    assert_ok(store_apply(y.store, &change, 1));
    store_close(y.store);
    yard_start(&y);
    struct job after = await(&y, job.id, JOB_STATE_SUCCEEDED);
    assert_int_equal(after.attempt, 2);
    assert_int_equal(after.retries, 0);
    yard_close(&y);
}

static void why_names_who_holds_the_slots(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t a = submit(&y, "sleep 600", ""), b = submit(&y, "sleep 600", "");
    await(&y, a, JOB_STATE_RUNNING);
    await(&y, b, JOB_STATE_RUNNING);
    int64_t c = submit(&y, "true", ""), d = submit(&y, "true", "{\"maxWaitDuration\":\"60s\"}");
    await(&y, c, JOB_STATE_QUEUED);
    await(&y, d, JOB_STATE_QUEUED);

    struct sched_why why = why_of(&y, c);
    assert_true(why.waits);
    assert_string_equal(why.reason, "waiting for replica slots (setting replica_slots)");
    assert_int_equal(why.all.replicas, 2);
    assert_int_equal(why.used.replicas, 2);
    assert_int_equal(why.holder_count, 2);
    assert_int_equal(why.holders[0].id, a);
    assert_int_equal(why.holders[1].id, b);
    assert_int_equal(why.since_ns, why.job.create_ns);
    assert_int_equal(why.ahead_count, 0);
    assert_true(why.wait_left_ms == INT64_MAX);
    assert_non_null(strstr(why.remedy, "1 more free replica slot:"));
    assert_non_null(strstr(why.remedy, "replica_slots = 3"));

    why = why_of(&y, d);
    assert_string_equal(why.reason, "waiting behind an older job that needs replica slots");
    assert_int_equal(why.ahead_count, 1);
    assert_int_equal(why.ahead[0].id, c);
    assert_true(why.wait_left_ms > 50000 && why.wait_left_ms <= 60000);
    assert_non_null(strstr(why.remedy, "2 more free replica slots:"));
    assert_non_null(strstr(why.remedy, "replica_slots = 4"));

    cancel_and_await(&y, a);
    await(&y, c, JOB_STATE_SUCCEEDED);
    await(&y, d, JOB_STATE_SUCCEEDED);
    cancel_and_await(&y, b);
    yard_close(&y);
}

static void why_of_what_runs_and_what_has_ended(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t good = submit(&y, "true", ""), bad = submit(&y, "exit 3", "");
    struct job ended = await(&y, good, JOB_STATE_SUCCEEDED);
    struct sched_why why = why_of(&y, good);
    assert_false(why.waits);
    assert_int_equal(why.since_ns, ended.end_ns);
    await(&y, bad, JOB_STATE_FAILED);
    assert_non_null(strstr(why_of(&y, bad).reason, "status of 3"));
    int64_t runs = submit(&y, "sleep 600", "");
    struct job running = await(&y, runs, JOB_STATE_RUNNING);
    why = why_of(&y, runs);
    assert_false(why.waits);
    assert_string_equal(why.reason, "all its replicas are running");
    assert_int_equal(why.since_ns, running.start_ns);
    assert_int_equal(why.restarts, 0);
    assert_null(why.remedy);
    struct sched_why_setup setup = {y.store, &y.config, &y.host, y.dir};
    assert_err(TY_NOT_FOUND, sched_why(&setup, &y.arena, TY_STR("p"), 77, &why));
    assert_err(TY_NOT_FOUND, sched_why(&setup, &y.arena, TY_STR("other"), runs, &why));
    cancel_and_await(&y, runs);
    assert_non_null(strstr(why_of(&y, runs).reason, "cancel"));
    yard_close(&y);
}

/* A row alone, for when no scheduler runs. */
static struct job job_put(struct yard *y, int replicas)
{
    struct job job = {.project = TY_STR("p"),
                      .region = TY_STR("us-central1"),
                      .display_name = TY_STR("t"),
                      .replicas = replicas,
                      .body = TY_STR("\"displayName\":\"t\",\"jobSpec\":{}")};
    assert_ok(store_job_create(y->store, &job));
    return job;
}

/* Rows that no scheduler looks at: a lowered replica_slots, and a start that came to nothing twice.
 */
static void why_of_rows_alone(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    sched_stop(y.sched);
    struct job job = job_put(&y, 5);
    assert_non_null(strstr(why_of(&y, job.id).remedy, "replica_slots = 5"));
    y.config.replica_slots = 8;
    assert_string_equal(why_of(&y, job.id).reason, "it starts in a moment");
    for (int n = 1; n <= 2; n++) {
        struct attempt tried = {.job_id = job.id, .number = n, .state = ATTEMPT_STARTED};
        struct store_change change = {.job_id = job.id, .attempt = &tried};
        assert_ok(store_apply(y.store, &change, 1));
        assert_string_equal(why_of(&y, job.id).reason, "its replicas are being started");
        tried.state = ATTEMPT_ENDED;
        tried.end_ns = ty_now_ns();
        tried.outcome = TY_STR("fenced");
        assert_ok(store_apply(y.store, &change, 1));
    }
    assert_string_equal(why_of(&y, job.id).reason,
                        "the last start failed; it is tried again shortly");
    assert_ok(store_job_cancel(y.store, TY_STR("p"), TY_STR("us-central1"), job.id));
    assert_string_equal(why_of(&y, job.id).reason, "its cancel is under way");
    store_close(y.store);
    assert_ok(ty_remove_tree(AT_FDCWD, y.dir));
    ty_arena_clear(&y.arena);
}

/* Ended by a signal it is restarted in place, by status 75 the whole job is tried again. */
static void why_counts_the_restarts_of_all_attempts(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    const char *script = ty_format(
        &y.arena,
        "cd %s; [ -e a ] || { touch a; kill -KILL $$; }; [ -e b ] || { touch b; exit 75; }; "
        "[ -e c ] || { touch c; kill -KILL $$; }; sleep 600",
        y.dir);
    int64_t id = submit(&y, script, "");
    struct sched_why why = why_of(&y, id);
    for (int64_t until = ty_boot_ms() + 60000; why.restarts < 2 && ty_boot_ms() < until;
         usleep(5000))
        why = why_of(&y, id);
    assert_int_equal(why.restarts, 2);
    assert_int_equal(why.job.attempt, 2);
    cancel_and_await(&y, id);
    assert_int_equal(why_of(&y, id).restarts, 2);
    yard_close(&y);
}

static void attempt_put(struct yard *y, int64_t job_id, int number, const char *outcome,
                        const char *message)
{
    struct attempt t = {.job_id = job_id, .number = number, .state = ATTEMPT_STARTED};
    struct store_change change = {.job_id = job_id, .attempt = &t};
    assert_ok(store_apply(y->store, &change, 1));
    if (outcome == NULL)
        return;
    t.state = ATTEMPT_ENDED;
    t.end_ns = ty_now_ns();
    t.outcome = ty_str_of(outcome);
    t.message = ty_str_of(message);
    assert_ok(store_apply(y->store, &change, 1));
}

/* The last one that failed with its diagnosis, those before it in a line each; of a job that has
 * ended its own reason is the diagnosis. */
static void why_of_earlier_attempts(void **state)
{
    (void)state;
    static const char first[] =
        "The replica workerpool1-0 exited with a non-zero status of 75. The "
        "status is its own. Its last lines:\nEpoch 1/9\nEpoch 2/9\nEpoch "
        "3/9\nloss: 3\nchief is gone",
                      fourth[] = "The replica workerpool0-0 was ended by signal 6 (SIGABRT).";
    struct yard y;
    yard_open(&y);
    sched_stop(y.sched);
    struct job job = job_put(&y, 1);
    attempt_put(&y, job.id, 1, "failed", first);
    const char *shown = "The replica workerpool1-0 exited with a non-zero status of 75. The status "
                        "is its own. Its last lines:\nEpoch 3/9\nloss: 3\nchief is gone";
    struct sched_why why = why_of(&y, job.id); /* it waits to be tried again */
    assert_true(why.waits);
    assert_string_equal(why.before, shown);
    assert_int_equal(why.earlier_count, 0);
    char *lines = ty_alloc(&y.arena, 1001);
    memset(lines, 'x', 1000);
    attempt_put(&y, job.id, 2, "lost",
                ty_format(&y.arena, "It was lost. Its last lines:\n%s", lines));
    attempt_put(&y, job.id, 3, "lost", "");
    assert_string_equal(why_of(&y, job.id).before, "it ended: lost");
    attempt_put(&y, job.id, 4, "failed", fourth);
    attempt_put(&y, job.id, 5, NULL, NULL);
    why = why_of(&y, job.id); /* the fifth is being started */
    assert_string_equal(why.before, fourth);
    assert_int_equal(why.earlier_count, 3);
    assert_int_equal(why.earlier[0].number, 1);
    assert_string_equal(
        why.earlier[0].line,
        "The replica workerpool1-0 exited with a non-zero status of 75: chief is gone");
    assert_memory_equal(why.earlier[1].line, "It was lost: xxx", 16);
    assert_int_equal(strlen(why.earlier[1].line), 303);
    assert_string_equal(why.earlier[2].line, "it ended: lost");
    struct attempt fifth = {.job_id = job.id,
                            .number = 5,
                            .state = ATTEMPT_ENDED,
                            .outcome = TY_STR("failed"),
                            .message = ty_str_of(first)};
    struct store_change end = {.job_id = job.id,
                               .state = JOB_STATE_FAILED,
                               .error_code = TY_INTERNAL,
                               .error_message = ty_format(&y.arena, "After 3 retries: %s", first),
                               .attempt = &fifth};
    assert_ok(store_apply(y.store, &end, 1));
    why = why_of(&y, job.id);
    assert_null(why.before);
    assert_non_null(strstr(why.reason, "Epoch 1/9"));
    assert_int_equal(why.earlier_count, 4);
    assert_string_equal(why.earlier[3].line,
                        "The replica workerpool0-0 was ended by signal 6 (SIGABRT).");
    store_close(y.store);
    assert_ok(ty_remove_tree(AT_FDCWD, y.dir));
    ty_arena_clear(&y.arena);
}

static void yard_gives_up_a_wait(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t a = submit(&y, "sleep 600", ""), b = submit(&y, "sleep 600", "");
    int64_t waits = submit(&y, "true", "{\"maxWaitDuration\":\"0.4s\"}");
    assert_int_equal(await(&y, waits, JOB_STATE_FAILED).error_code, TY_DEADLINE_EXCEEDED);
    int64_t both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        assert_ok(store_job_cancel(y.store, TY_STR("p"), TY_STR("us-central1"), both[i]));
        sched_notify(y.sched, both[i]);
        await(&y, both[i], JOB_STATE_CANCELLED);
    }
    yard_close(&y);
}

static const struct CMUnitTest tests[] = {
    TEST("decide/no_partial_gang", decide_no_partial_gang),
    TEST("decide/nobody_passes_a_job_that_waits", decide_nobody_passes_a_job_that_waits),
    TEST("decide/a_held_job_blocks_nobody", decide_a_held_job_blocks_nobody),
    TEST("decide/expires_a_wait", decide_expires_a_wait),
    TEST("ports/all_or_none", ports_all_or_none),
    TEST("ports/begin_anywhere", ports_begin_anywhere),
    TEST("yard/runs_a_job", yard_runs_a_job),
    TEST("yard/retries_a_crash_three_times", yard_retries_a_crash_three_times),
    TEST("yard/cancels_waiting_and_running", yard_cancels_waiting_and_running),
    TEST("yard/adopts_what_runs", yard_adopts_what_runs),
    TEST("yard/finds_a_job_that_ended_meanwhile", yard_finds_a_job_that_ended_meanwhile),
    TEST("yard/fences_an_attempt_that_never_started", yard_fences_an_attempt_that_never_started),
    TEST("yard/gives_up_a_wait", yard_gives_up_a_wait),
    TEST("why/names_who_holds_the_slots", why_names_who_holds_the_slots),
    TEST("why/of_what_runs_and_what_has_ended", why_of_what_runs_and_what_has_ended),
    TEST("why/of_rows_alone", why_of_rows_alone),
    TEST("why/counts_the_restarts_of_all_attempts", why_counts_the_restarts_of_all_attempts),
    TEST("why/of_earlier_attempts", why_of_earlier_attempts),
};

YARD_MAIN("sched", tests)
