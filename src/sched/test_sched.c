/* test_sched.c -- the decision, the ports, and a yard of real jobs without HTTP. */
#define TY_SEAM
#include "base/test.h"
#include "auth/auth.h"
#include "exec/exec.h"
#include "sched/sched_int.h"

/* ---- decide ---- */

static struct sched_item waiting(int64_t id, int replicas)
{
    return (struct sched_item){.job_id = id, .replicas = replicas, .wait_left_ms = INT64_MAX};
}

static void decide_no_partial_gang(void **state)
{
    (void)state;
    struct sched_item items[] = {waiting(1, 3), waiting(2, 2)};
    struct sched_room room = {.slots = 4, .starts = 8};
    sched_decide(items, 2, room);
    assert_true(items[0].start);
    assert_false(items[1].start);
    assert_non_null(items[1].reason);
}

static void decide_nobody_passes_a_job_that_waits(void **state)
{
    (void)state;
    struct sched_item items[] = {waiting(1, 8), waiting(2, 1)};
    struct sched_room room = {.slots = 8, .slots_used = 1, .starts = 8};
    sched_decide(items, 2, room);
    assert_false(items[0].start);
    assert_false(items[1].start);
    assert_string_equal(items[0].reason, "waiting for replica slots (setting replica_slots)");
    assert_string_equal(items[1].reason, "waiting behind an older job that needs replica slots");
}

static void decide_never_over_capacity(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        struct sched_item items[20];
        struct sched_room room = {.slots = 1 + rand_r(&seed) % 16, .starts = 1 + rand_r(&seed) % 4};
        room.slots_used = rand_r(&seed) % (room.slots + 1);
        for (int i = 0; i < 20; i++)
            items[i] = waiting(i, 1 + rand_r(&seed) % 6);
        sched_decide(items, 20, room);
        int used = room.slots_used, starting = 0;
        for (int i = 0; i < 20; i++) {
            used += items[i].start ? items[i].replicas : 0;
            starting += items[i].start;
            assert_true(items[i].start || items[i].expire || items[i].reason);
        }
        assert_true(used <= room.slots);
        assert_true(starting <= room.starts);
    }
}

static void decide_a_held_job_blocks_nobody(void **state)
{
    (void)state;
    struct sched_item items[] = {waiting(1, 1), waiting(2, 1)};
    items[0].hold_ms = 100;
    sched_decide(items, 2, (struct sched_room){.slots = 4, .starts = 4});
    assert_false(items[0].start);
    assert_true(items[1].start);
}

static void decide_expires_a_wait(void **state)
{
    (void)state;
    struct sched_item items[] = {waiting(1, 1)};
    items[0].wait_left_ms = 0;
    sched_decide(items, 1, (struct sched_room){.slots = 4, .starts = 4});
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

/* ---- a yard: store, scheduler, conductors; no HTTP ---- */

struct yard {
    char dir[64];
    struct ty_arena arena;
    struct ty_config config;
    struct store *store;
    struct sched *sched;
};

static void nothing_waits(void *arg)
{
    (void)arg;
}

static void yard_start(struct yard *y)
{
    assert_ok(store_open(y->dir, &y->store));
    struct sched_setup setup = {.config = &y->config,
                                .store = y->store,
                                .data_dir = y->dir,
                                .url = "http://127.0.0.1:7575",
                                .changed = nothing_waits};
    assert_ok(sched_start(&setup, &y->sched));
}

static void yard_stop(struct yard *y)
{
    sched_stop(y->sched);
    store_close(y->store);
}

static void yard_open(struct yard *y)
{
    *y = (struct yard){.dir = "/tmp/test_sched.XXXXXX"};
    assert_non_null(mkdtemp(y->dir));
    assert_ok(ty_mkdirs(ty_format(&y->arena, "%s/jobs", y->dir), 0700));
    ty_config_init(&y->config, &y->arena);
    y->config.grace_ms = 200;
    y->config.replica_slots = 2;
    y->config.port_first = 23200;
    y->config.port_last = 23299;
    ty_log_level_set(TY_LOG_ERROR);
    yard_start(y);
}

static void yard_close(struct yard *y)
{
    yard_stop(y);
    assert_ok(ty_remove_tree(AT_FDCWD, y->dir));
    ty_arena_clear(&y->arena);
}

static int64_t submit(struct yard *y, const char *script, const char *scheduling)
{
    struct job job = {.project = TY_STR("p"),
                      .region = TY_STR("us-central1"),
                      .display_name = TY_STR("t"),
                      .replicas = 1};
    job.body = ty_str_of(ty_format(
        &y->arena,
        "\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[{\"replicaCount\":\"1\","
        "\"containerSpec\":{\"imageUri\":\"host\",\"command\":[\"sh\",\"-c\",\"%s\"]}}]%s%s}",
        script, scheduling[0] ? ",\"scheduling\":" : "", scheduling));
    assert_ok(store_job_create(y->store, &job));
    sched_notify(y->sched, job.id);
    return job.id;
}

static struct job await(struct yard *y, int64_t id, enum job_state want)
{
    struct job job = {0};
    for (int64_t until = ty_boot_ms() + 20000; ty_boot_ms() < until; usleep(5000)) {
        assert_ok(store_job_load(y->store, &y->arena, id, &job));
        if (job.state == want || job_state_is_final(job.state))
            break;
    }
    assert_string_equal(job_state_name(job.state), job_state_name(want));
    return job;
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
    int64_t first = submit(&y, "sleep 60", ""), second = submit(&y, "sleep 60", "");
    await(&y, first, JOB_STATE_RUNNING);
    await(&y, second, JOB_STATE_RUNNING);
    int64_t third = submit(&y, "sleep 60", "");
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
    int64_t runs = submit(&y, "sleep 0.5; echo done", "");
    await(&y, runs, JOB_STATE_RUNNING);
    yard_stop(&y);
    yard_start(&y);
    struct job job = await(&y, runs, JOB_STATE_SUCCEEDED);
    assert_int_equal(job.attempt, 1);
    yard_close(&y);
}

static void yard_finds_a_job_that_ended_meanwhile(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t runs = submit(&y, "sleep 0.1", "");
    await(&y, runs, JOB_STATE_RUNNING);
    yard_stop(&y);
    usleep(500000);
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

static struct sched_why why_of(struct yard *y, int64_t id)
{
    struct sched_why why;
    assert_ok(sched_why(y->store, &y->config, y->dir, &y->arena, TY_STR("p"), id, &why));
    assert_int_equal(why.job.id, id);
    return why;
}

static void cancel_and_await(struct yard *y, int64_t id)
{
    assert_ok(store_job_cancel(y->store, TY_STR("p"), TY_STR("us-central1"), id));
    sched_notify(y->sched, id);
    await(y, id, JOB_STATE_CANCELLED);
}

static void why_names_who_holds_the_slots(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t a = submit(&y, "sleep 60", ""), b = submit(&y, "sleep 60", "");
    await(&y, a, JOB_STATE_RUNNING);
    await(&y, b, JOB_STATE_RUNNING);
    int64_t c = submit(&y, "true", ""), d = submit(&y, "true", "{\"maxWaitDuration\":\"60s\"}");
    await(&y, c, JOB_STATE_QUEUED);
    await(&y, d, JOB_STATE_QUEUED);

    struct sched_why why = why_of(&y, c);
    assert_true(why.waits);
    assert_string_equal(why.reason, "waiting for replica slots (setting replica_slots)");
    assert_int_equal(why.slots, 2);
    assert_int_equal(why.slots_used, 2);
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
    int64_t runs = submit(&y, "sleep 60", "");
    struct job running = await(&y, runs, JOB_STATE_RUNNING);
    why = why_of(&y, runs);
    assert_false(why.waits);
    assert_string_equal(why.reason, "all its replicas are running");
    assert_int_equal(why.since_ns, running.start_ns);
    assert_int_equal(why.restarts, 0);
    assert_null(why.remedy);
    assert_err(TY_NOT_FOUND, sched_why(y.store, &y.config, y.dir, &y.arena, TY_STR("p"), 77, &why));
    assert_err(TY_NOT_FOUND,
               sched_why(y.store, &y.config, y.dir, &y.arena, TY_STR("other"), runs, &why));
    cancel_and_await(&y, runs);
    assert_non_null(strstr(why_of(&y, runs).reason, "cancel"));
    yard_close(&y);
}

/* Rows that no scheduler looks at: a lowered replica_slots, and a start that came to nothing twice.
 */
static void why_of_rows_alone(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    sched_stop(y.sched);
    struct job job = {.project = TY_STR("p"),
                      .region = TY_STR("us-central1"),
                      .display_name = TY_STR("t"),
                      .replicas = 5,
                      .body = TY_STR("\"displayName\":\"t\",\"jobSpec\":{}")};
    assert_ok(store_job_create(y.store, &job));
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

static void yard_gives_up_a_wait(void **state)
{
    (void)state;
    struct yard y;
    yard_open(&y);
    int64_t a = submit(&y, "sleep 30", ""), b = submit(&y, "sleep 30", "");
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
    TEST("decide/never_over_capacity", decide_never_over_capacity),
    TEST("decide/a_held_job_blocks_nobody", decide_a_held_job_blocks_nobody),
    TEST("decide/expires_a_wait", decide_expires_a_wait),
    TEST("ports/all_or_none", ports_all_or_none),
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
};

/* The scheduler starts its launcher from /proc/self/exe, which here is this test. */
int main(int argc, char **argv)
{
    int64_t fd;
    if (argc == 6 && strcmp(argv[1], "launch") == 0 &&
        ty_parse_i64(ty_str_of(argv[3]), &fd) == TY_OK)
        return exec_launcher_main((int)fd, argv[5]);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sched", tests, NULL, NULL) == 0 ? 0 : 1;
}
