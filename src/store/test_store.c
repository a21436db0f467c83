/* test_store.c -- rows and the state machine (S1-S4 of store.h). */
#include "store/test_store.h"

#include <pthread.h>

/* ---- the state machine ---- */

static void state_names(void **state)
{
    (void)state;
    assert_string_equal(job_state_name(JOB_STATE_QUEUED), "JOB_STATE_QUEUED");
    assert_string_equal(job_state_name(JOB_STATE_CANCELLED), "JOB_STATE_CANCELLED");
    assert_string_equal(job_state_name((enum job_state)99), "JOB_STATE_UNSPECIFIED");
    assert_false(job_state_may((enum job_state)0, JOB_STATE_PENDING));
    assert_false(job_state_may(JOB_STATE_PENDING, (enum job_state)200));
    assert_false(job_state_is_final((enum job_state)99));
}

static void state_terminal_is_never_left(void **state)
{
    (void)state;
    static const enum job_state final[] = {JOB_STATE_SUCCEEDED, JOB_STATE_FAILED,
                                           JOB_STATE_CANCELLED};
    struct fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < TY_COUNT(final); i++) {
        assert_true(job_state_is_final(final[i]));
        int64_t id = create_in(&f, final[i]);
        struct job before = get(&f, id);
        for (int to = 0; to <= 7; to++) /* 0: any other change is refused as well */
            assert_err(TY_INTERNAL, move(&f, id, (enum job_state)to));
        assert_err(TY_INTERNAL, move_attempt(&f, id, 1, ATTEMPT_STARTED));
        struct job after = get(&f, id);
        assert_int_equal(after.state, final[i]);
        assert_true(after.end_ns == before.end_ns && after.update_ns == before.update_ns);
    }
    fixture_close(&f);
}

static void state_only_drawn_moves_are_made(void **state)
{
    (void)state;
    /* The picture in store.h, written down a second time. */
    static const char *const follow[8] = {"", "2567", "13567", "2456", "", "", "457", ""};
    struct fixture f;
    fixture_open(&f);
    for (int from = 1; from <= 7; from++) {
        for (int to = 1; to <= 7; to++) {
            bool drawn = strchr(follow[from], '0' + to) != NULL;
            assert_int_equal(job_state_may(from, to), drawn);
            if (from == to)
                continue;
            int64_t id = create_in(&f, from);
            assert_err(drawn ? TY_OK : TY_INTERNAL, move(&f, id, to));
            assert_int_equal(get(&f, id).state, drawn ? to : from);
        }
    }
    fixture_close(&f);
}

static void state_refusal_names_job_and_states(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create_in(&f, JOB_STATE_RUNNING);
    assert_err(TY_INTERNAL, move(&f, id, JOB_STATE_QUEUED));
    char digits[32];
    snprintf(digits, sizeof(digits), "%" PRId64, id);
    assert_non_null(strstr(ty_err_message(), digits));
    assert_non_null(strstr(ty_err_message(), "JOB_STATE_RUNNING"));
    assert_non_null(strstr(ty_err_message(), "JOB_STATE_QUEUED"));
    fixture_close(&f);
}

/* ---- create, get, find ---- */

static void create_sets_the_rest(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct job j = job_of("t1");
    int64_t before_ns = ty_now_ns();
    assert_ok(store_job_create(f.store, &j));
    struct job got = get(&f, j.id);
    assert_in_range(got.create_ns, before_ns, ty_now_ns());
    assert_true(got.id >= 1000000000000000000);
    assert_int_equal(got.state, JOB_STATE_PENDING);
    assert_true(got.create_ns == j.create_ns && got.update_ns == got.create_ns);
    assert_true(got.start_ns == 0 && got.end_ns == 0 && got.attempt == 0 && got.retries == 0);
    assert_true(ty_str_is(got.display_name, "t1") && ty_str_is(got.labels, "{\"team\":\"a\"}"));
    assert_true(ty_str_eq(got.body, j.body));
    assert_int_equal(got.replicas, 2);
    assert_false(got.cancel_requested);
    assert_in_range(got.wait_boot_ms, 1, ty_boot_ms());
    assert_true(ty_str_eq(got.boot_id, store_boot_id(f.store)));
    fixture_close(&f);
}

static void create_that_fails_leaves_the_job_alone(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    setenv("TY_FAULT", "enospc-commit:1", 1);
    ty_seam_role("server");
    struct job j = job_of("t1");
    ty_err err = store_job_create(f.store, &j);
    unsetenv("TY_FAULT");
    ty_seam_role("server");
    assert_err(TY_RESOURCE_EXHAUSTED, err);
    assert_true(j.id == 0 && j.state == 0 && j.create_ns == 0);
    int64_t counts[8];
    assert_ok(store_job_counts(f.store, counts));
    assert_int_equal(counts[JOB_STATE_PENDING], 0);
    create(&f);
    fixture_close(&f);
}

static void create_ids_grow_when_the_clock_goes_back(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    char path[96];
    snprintf(path, sizeof(path), "%s/clock", f.dir);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    int64_t offset_ns = 0;
    assert_int_equal(pwrite(fd, &offset_ns, sizeof(offset_ns), 0), sizeof(offset_ns));
    setenv("TY_CLOCK", path, 1);
    ty_seam_role("server");
    int64_t last = create(&f);
    offset_ns = -3600 * (int64_t)1000000000;
    assert_int_equal(pwrite(fd, &offset_ns, sizeof(offset_ns), 0), sizeof(offset_ns));
    for (int i = 0; i < 3; i++) {
        int64_t id = create(&f);
        assert_true(id == last + 1);
        assert_true(get(&f, id).create_ns < last);
        last = id;
    }
    reopen(&f); /* also in a new process */
    assert_true(create(&f) == last + 1);

    /* An id is a folder's name: it is not given again when its row is gone, and the operation's
     * too. */
    last = create_in(&f, JOB_STATE_FAILED);
    struct operation op;
    assert_ok(store_job_delete(f.store, &f.arena, PROJECT, REGION, last, &op));
    assert_true(op.id == last + 1);
    assert_ok(store_operation_delete(f.store, PROJECT, REGION, op.id));
    reopen(&f);
    assert_true(create(&f) == op.id + 1);

    offset_ns = 0; /* the map stays for the life of the process */
    assert_int_equal(pwrite(fd, &offset_ns, sizeof(offset_ns), 0), sizeof(offset_ns));
    close(fd);
    unsetenv("TY_CLOCK");
    fixture_close(&f);
}

struct creator {
    pthread_t thread;
    struct store *store;
    int64_t ids[25];
};

static void *creator_main(void *arg)
{
    struct creator *c = arg;
    for (size_t i = 0; i < TY_COUNT(c->ids); i++) {
        struct job j = job_of("t1");
        c->ids[i] = store_job_create(c->store, &j) == TY_OK ? j.id : -1;
    }
    return NULL;
}

static void create_from_many_threads(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct creator creators[8];
    for (size_t i = 0; i < TY_COUNT(creators); i++) {
        creators[i].store = f.store;
        assert_int_equal(pthread_create(&creators[i].thread, NULL, creator_main, &creators[i]), 0);
    }
    for (size_t i = 0; i < TY_COUNT(creators); i++) {
        pthread_join(creators[i].thread, NULL);
        for (size_t k = 0; k < TY_COUNT(creators[i].ids); k++) {
            assert_true(creators[i].ids[k] > (k ? creators[i].ids[k - 1] : 0));
            get(&f, creators[i].ids[k]);
        }
    }
    assert_int_equal(ask(f.dir, "SELECT count(DISTINCT id) FROM job"), 200);
    fixture_close(&f);
}

static void get_asks_for_the_whole_name(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    struct job j;
    struct ty_arena *a = &f.arena;
    assert_err(TY_NOT_FOUND, store_job_get(f.store, a, TY_STR("other"), REGION, id, &j));
    assert_err(TY_NOT_FOUND, store_job_get(f.store, a, PROJECT, TY_STR("us-east1"), id, &j));
    assert_err(TY_NOT_FOUND, store_job_get(f.store, a, PROJECT, (ty_str){0}, id, &j));
    assert_err(TY_NOT_FOUND, store_job_get(f.store, a, PROJECT, REGION, id + 1, &j));
    assert_non_null(strstr(ty_err_message(), "projects/demo/locations/us-central1/customJobs/"));
    assert_ok(store_job_find(f.store, a, PROJECT, id, &j));
    assert_true(ty_str_eq(j.region, REGION));
    assert_err(TY_NOT_FOUND, store_job_find(f.store, a, TY_STR("other"), id, &j));
    bool exists;
    assert_ok(store_job_exists(f.store, id, &exists));
    assert_true(exists);
    assert_ok(store_job_exists(f.store, id + 1, &exists));
    assert_false(exists);
    fixture_close(&f);
}

/* ---- lists ---- */

struct seen {
    int64_t ids[16];
    size_t count, stop_at;
    struct ty_arena *scratch;
};

static bool see(const struct job *job, void *arg)
{
    struct seen *s = arg;
    ty_str copy = ty_str_dup(s->scratch, job->body);
    assert_true(ty_str_eq(copy, job->body) && ty_str_eq(job->region, REGION));
    s->ids[s->count++] = job->id;
    return s->count < s->stop_at;
}

static void list_pages_newest_first(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t ids[7];
    for (size_t i = 0; i < TY_COUNT(ids); i++)
        ids[i] = create(&f);
    struct job elsewhere = job_of("elsewhere");
    elsewhere.region = TY_STR("us-east1");
    assert_ok(store_job_create(f.store, &elsewhere));

    struct ty_arena scratch = {0};
    struct seen page = {.stop_at = 3, .scratch = &scratch};
    assert_ok(store_job_list(f.store, &scratch, PROJECT, REGION, 0, see, &page));
    assert_int_equal(page.count, 3);
    assert_null(scratch.head);
    struct seen rest = {.stop_at = 16, .scratch = &scratch};
    assert_ok(store_job_list(f.store, &scratch, PROJECT, REGION, page.ids[2], see, &rest));
    assert_int_equal(rest.count, 4);
    for (size_t i = 0; i < TY_COUNT(ids); i++)
        assert_true((i < 3 ? page.ids[i] : rest.ids[i - 3]) == ids[6 - i]);
    struct seen none = {.stop_at = 16, .scratch = &scratch};
    assert_ok(store_job_list(f.store, &scratch, TY_STR("other"), REGION, 0, see, &none));
    assert_int_equal(none.count, 0);
    fixture_close(&f);
}

/* SQLite calls this after every instruction of its machine, on every connection. */
static _Atomic int64_t machine_steps;

static int count_step(void *arg)
{
    (void)arg;
    machine_steps++;
    return 0;
}

static int count_steps_of(sqlite3 *db, char **message, const struct sqlite3_api_routines *api)
{
    (void)message;
    (void)api;
    sqlite3_progress_handler(db, 1, count_step, NULL);
    return SQLITE_OK;
}

static void list_cost_does_not_grow_with_the_table(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    ask(f.dir, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
               " INSERT INTO job (id, project, region, display_name, labels, body, state,"
               " create_ns, update_ns, end_ns, replicas, wait_boot_ms, boot_id)"
               " SELECT i, 'other', 'us-central1', 'old', '', '', 4, i, i, i, 1, 1, '' FROM n");
    void (*entry)(void) = (void (*)(void))count_steps_of;
    sqlite3_auto_extension(entry);
    reopen(&f);
    create(&f);

    struct ty_arena scratch = {0};
    struct seen page = {.stop_at = 10, .scratch = &scratch};
    machine_steps = 0;
    assert_ok(store_job_list(f.store, &scratch, TY_STR("other"), REGION, 0, see, &page));
    assert_int_equal(page.count, 10);
    assert_in_range(machine_steps, 100, 1000); /* some 30 a row */
    struct seen few = {.stop_at = 10, .scratch = &scratch};
    machine_steps = 0;
    assert_ok(store_job_list(f.store, &scratch, PROJECT, REGION, 0, see, &few));
    assert_int_equal(few.count, 1);
    assert_in_range(machine_steps, 20, 200); /* the other project's rows are not walked */

    struct job *jobs;
    size_t count;
    machine_steps = 0;
    assert_ok(store_active_list(f.store, &f.arena, &jobs, &count));
    assert_int_equal(count, 1);
    assert_in_range(machine_steps, 20, 200);

    int64_t counts[8];
    machine_steps = 0;
    assert_ok(store_job_counts(f.store, counts));
    assert_int_equal(counts[JOB_STATE_SUCCEEDED], 5000);
    assert_int_equal(counts[JOB_STATE_PENDING], 1);
    assert_in_range(machine_steps, 10, 200);
    store_close(f.store);
    f.store = NULL;
    sqlite3_cancel_auto_extension(entry);
    ask(f.dir, "DELETE FROM job");
    fixture_close(&f);
}

static void list_active_is_oldest_first(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t active[40];
    for (int i = 0; i < 40; i++)
        active[i] = create(&f);
    static const enum job_state in[] = {JOB_STATE_QUEUED, JOB_STATE_RUNNING, JOB_STATE_CANCELLING};
    for (int i = 0; i < 3; i++)
        assert_ok(move(&f, active[10 * i], in[i]));
    create_in(&f, JOB_STATE_SUCCEEDED);
    create_in(&f, JOB_STATE_CANCELLED);
    struct job *jobs;
    size_t count;
    assert_ok(store_active_list(f.store, &f.arena, &jobs, &count));
    assert_int_equal(count, 40);
    for (int i = 0; i < 40; i++)
        assert_true(jobs[i].id == active[i] && ty_str_eq(jobs[i].project, PROJECT));
    int64_t counts[8];
    assert_ok(store_job_counts(f.store, counts));
    static const int64_t expected[8] = {0, 1, 37, 1, 1, 0, 1, 1};
    for (int i = 0; i < 8; i++)
        assert_int_equal(counts[i], expected[i]);
    fixture_close(&f);
}

/* ---- cancel, delete, operations ---- */

static void cancel_records_the_wish(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create_in(&f, JOB_STATE_RUNNING);
    int64_t update_ns = get(&f, id).update_ns;
    assert_ok(store_job_cancel(f.store, PROJECT, REGION, id));
    struct job j = get(&f, id);
    assert_true(j.cancel_requested && j.state == JOB_STATE_RUNNING && j.update_ns > update_ns);
    assert_ok(store_job_cancel(f.store, PROJECT, REGION, id));
    assert_true(get(&f, id).update_ns == j.update_ns);
    assert_err(TY_NOT_FOUND, store_job_cancel(f.store, PROJECT, TY_STR("us-east1"), id));
    assert_ok(move(&f, id, JOB_STATE_CANCELLING));
    assert_ok(store_job_cancel(f.store, PROJECT, REGION, id));
    assert_ok(move(&f, id, JOB_STATE_CANCELLED));
    assert_ok(store_job_cancel(f.store, PROJECT, REGION, id));

    id = create_in(&f, JOB_STATE_RUNNING);
    assert_ok(store_job_cancel(f.store, PROJECT, REGION, id));
    assert_ok(move(&f, id, JOB_STATE_SUCCEEDED)); /* it was faster */
    assert_err(TY_FAILED_PRECONDITION, store_job_cancel(f.store, PROJECT, REGION, id));
    assert_non_null(strstr(ty_err_message(), "JOB_STATE_SUCCEEDED"));
    fixture_close(&f);
}

static void delete_takes_attempts_and_leaves_an_operation(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    struct operation op, got, *ops;
    assert_err(TY_FAILED_PRECONDITION,
               store_job_delete(f.store, &f.arena, PROJECT, REGION, id, &op));
    assert_non_null(strstr(ty_err_message(), "JOB_STATE_PENDING"));
    assert_ok(move_attempt(&f, id, 1, ATTEMPT_ENDED));
    assert_ok(move(&f, id, JOB_STATE_FAILED));
    assert_err(TY_NOT_FOUND, store_job_delete(f.store, &f.arena, TY_STR("other"), REGION, id, &op));
    assert_ok(store_job_delete(f.store, &f.arena, PROJECT, REGION, id, &op));
    assert_err(TY_NOT_FOUND, store_job_delete(f.store, &f.arena, PROJECT, REGION, id, &op));
    assert_int_equal(ask(f.dir, "SELECT count(*) FROM attempt"), 0);
    bool exists;
    assert_ok(store_job_exists(f.store, id, &exists));
    assert_false(exists);

    assert_ok(store_operation_get(f.store, &f.arena, PROJECT, REGION, op.id, &got));
    assert_true(ty_str_is(got.metadata_type, "DeleteOperationMetadata"));
    assert_true(
        ty_str_is(got.response, "{\"@type\":\"type.googleapis.com/google.protobuf.Empty\"}"));
    assert_true(got.create_ns == op.create_ns && got.error_code == 0);
    size_t count;
    assert_ok(store_operation_list(f.store, &f.arena, PROJECT, REGION, 0, 10, &ops, &count));
    assert_int_equal(count, 1);
    assert_ok(store_operation_list(f.store, &f.arena, PROJECT, REGION, op.id, 10, &ops, &count));
    assert_int_equal(count, 0);
    assert_err(TY_NOT_FOUND, store_operation_delete(f.store, PROJECT, TY_STR("us-east1"), op.id));
    assert_ok(store_operation_delete(f.store, PROJECT, REGION, op.id));
    assert_err(TY_NOT_FOUND, store_operation_get(f.store, &f.arena, PROJECT, REGION, op.id, &got));
    fixture_close(&f);
}

static void operations_come_in_pages(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t ids[5];
    for (int i = 0; i < 5; i++) {
        struct operation op;
        assert_ok(store_job_delete(f.store, &f.arena, PROJECT, REGION,
                                   create_in(&f, JOB_STATE_FAILED), &op));
        ids[i] = op.id;
    }
    struct operation *ops;
    size_t count;
    assert_ok(store_operation_list(f.store, &f.arena, PROJECT, REGION, 0, 3, &ops, &count));
    assert_int_equal(count, 3);
    assert_true(ops[0].id == ids[4] && ops[2].id == ids[2]);
    assert_ok(store_operation_list(f.store, &f.arena, PROJECT, REGION, ops[2].id, SIZE_MAX, &ops,
                                   &count));
    assert_int_equal(count, 2);
    assert_true(ops[1].id == ids[0]);
    fixture_close(&f);
}

/* ---- the scheduler's changes ---- */

static void apply_times_follow_the_states(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    struct store_change early = {.job_id = id, .start_ns = 5};
    assert_err(TY_INTERNAL, store_apply(f.store, &early, 1));
    struct store_change ends = {.job_id = id, .state = JOB_STATE_RUNNING, .end_ns = 5};
    assert_err(TY_INTERNAL, store_apply(f.store, &ends, 1));
    assert_true(get(&f, id).start_ns == 0);

    struct store_change run = {.job_id = id, .state = JOB_STATE_RUNNING, .start_ns = 77};
    assert_ok(store_apply(f.store, &run, 1));
    assert_true(get(&f, id).start_ns == 77);
    assert_ok(move(&f, id, JOB_STATE_PENDING));
    run.start_ns = 88;
    assert_ok(store_apply(f.store, &run, 1));
    assert_true(get(&f, id).start_ns == 77); /* S2 */
    struct store_change end = {.job_id = id, .state = JOB_STATE_SUCCEEDED, .end_ns = 99};
    assert_ok(store_apply(f.store, &end, 1));
    assert_true(get(&f, id).end_ns == 99);

    id = create(&f); /* times that are not given */
    int64_t before_ns = ty_now_ns();
    struct store_change both[] = {{.job_id = id, .state = JOB_STATE_RUNNING},
                                  {.job_id = id, .state = JOB_STATE_SUCCEEDED}};
    assert_ok(store_apply(f.store, both, 2)); /* seen late: two moves at once */
    struct job j = get(&f, id);
    assert_in_range(j.start_ns, before_ns, ty_now_ns());
    assert_in_range(j.end_ns, before_ns, ty_now_ns());

    id = create_in(&f, JOB_STATE_CANCELLING); /* it ran before the cancel reached it */
    struct store_change ran = {.job_id = id, .start_ns = 66};
    assert_ok(store_apply(f.store, &ran, 1));
    assert_true(get(&f, id).start_ns == 66);
    fixture_close(&f);
}

static void apply_is_all_or_none(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t a = create(&f), b = create_in(&f, JOB_STATE_SUCCEEDED), c = create(&f);
    struct attempt at = {.number = 1, .state = ATTEMPT_STARTED};
    struct store_change changes[] = {
        {.job_id = a, .state = JOB_STATE_RUNNING, .attempt = &at, .add_retries = 1},
        {.job_id = b, .state = JOB_STATE_RUNNING},
        {.job_id = c, .state = JOB_STATE_RUNNING},
    };
    assert_err(TY_INTERNAL, store_apply(f.store, changes, 3));
    struct job j = get(&f, a);
    assert_true(j.state == JOB_STATE_PENDING && j.attempt == 0 && j.retries == 0);
    assert_int_equal(ask(f.dir, "SELECT count(*) FROM attempt"), 0);
    assert_int_equal(get(&f, c).state, JOB_STATE_PENDING);
    changes[1].job_id = 12345;
    assert_err(TY_NOT_FOUND, store_apply(f.store, changes, 3));
    assert_int_equal(get(&f, a).state, JOB_STATE_PENDING);
    assert_ok(store_apply(f.store, changes, 0));
    fixture_close(&f);
}

static void apply_fields_stay_unless_given(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    struct store_change queue = {
        .job_id = id, .state = JOB_STATE_QUEUED, .wait_reason = "2 slots of 4 are free"};
    assert_ok(store_apply(f.store, &queue, 1));
    queue.wait_reason = "1 slot of 4 is free"; /* the first reason stays, whatever comes later */
    assert_ok(store_apply(f.store, &queue, 1));
    queue = (struct store_change){.job_id = id, .add_retries = 2, .add_ran_ms = 30};
    assert_ok(store_apply(f.store, &queue, 1));
    assert_ok(store_apply(f.store, &queue, 1));
    struct job j = get(&f, id);
    assert_true(ty_str_is(j.wait_reason, "2 slots of 4 are free"));
    assert_true(j.state == JOB_STATE_QUEUED && j.retries == 4 && j.ran_ms == 60);
    assert_ok(move(&f, id, JOB_STATE_PENDING));
    assert_true(ty_str_is(get(&f, id).wait_reason, "2 slots of 4 are free"));

    struct store_change note = {.job_id = id, .error_code = 8, .error_message = "no room"};
    assert_ok(store_apply(f.store, &note, 1));
    assert_ok(move(&f, id, JOB_STATE_FAILED));
    j = get(&f, id);
    assert_true(j.error_code == 8 && ty_str_is(j.error_message, "no room"));
    fixture_close(&f);
}

static void apply_retry_waits_anew(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    assert_int_equal(ask(f.dir, "UPDATE job SET wait_boot_ms = 1, boot_id = 'older'"), -1);
    assert_ok(move(&f, id, JOB_STATE_QUEUED));
    assert_ok(move(&f, id, JOB_STATE_PENDING));
    assert_ok(move(&f, id, JOB_STATE_RUNNING));
    assert_true(get(&f, id).wait_boot_ms == 1);
    assert_ok(move(&f, id, JOB_STATE_PENDING));
    struct job j = get(&f, id);
    assert_true(j.wait_boot_ms > 1 && ty_str_eq(j.boot_id, store_boot_id(f.store)));
    fixture_close(&f);
}

static void apply_attempts_follow_each_other(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    assert_err(TY_INTERNAL, move_attempt(&f, id, 2, ATTEMPT_STARTED));
    assert_err(TY_INTERNAL, move_attempt(&f, id, 0, ATTEMPT_STARTED));
    assert_ok(move_attempt(&f, id, 1, ATTEMPT_STARTED));
    assert_err(TY_INTERNAL, move_attempt(&f, id, 2, ATTEMPT_STARTED)); /* S4 */
    assert_err(TY_INTERNAL, move_attempt(&f, id, 1, (enum attempt_state)4));
    struct attempt running = {.number = 1, .state = ATTEMPT_RUNNING, .running_ns = 5};
    struct store_change ch = {.job_id = id, .attempt = &running};
    assert_ok(store_apply(f.store, &ch, 1));
    assert_err(TY_INTERNAL, move_attempt(&f, id, 1, ATTEMPT_STARTED)); /* not back */
    struct attempt ended = {.number = 1,
                            .state = ATTEMPT_ENDED,
                            .end_ns = 6,
                            .outcome = TY_STR("failed"),
                            .message = TY_STR("exit status 3")};
    ch.attempt = &ended;
    assert_ok(store_apply(f.store, &ch, 1));
    assert_err(TY_INTERNAL, store_apply(f.store, &ch, 1)); /* ended is ended */
    assert_ok(move_attempt(&f, id, 2, ATTEMPT_STARTED));
    assert_int_equal(get(&f, id).attempt, 2);

    struct attempt *list;
    size_t count;
    assert_ok(store_attempt_list(f.store, &f.arena, id, &list, &count));
    assert_int_equal(count, 2);
    assert_true(list[0].number == 1 && list[0].state == ATTEMPT_ENDED && list[0].job_id == id);
    assert_true(list[0].running_ns == 5 && list[0].end_ns == 6);
    assert_true(ty_str_is(list[0].ports, "20000") && ty_str_is(list[0].outcome, "failed"));
    assert_true(ty_str_is(list[0].message, "exit status 3"));
    assert_true(list[1].state == ATTEMPT_STARTED && list[1].outcome.len == 0);
    fixture_close(&f);
}

static void apply_keeps_the_devices(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    struct attempt at = {.number = 1, .state = ATTEMPT_STARTED, .devices = TY_STR("0,1;2")}, *list;
    struct store_change ch = {.job_id = id, .attempt = &at};
    size_t count;
    assert_ok(store_apply(f.store, &ch, 1));
    at = (struct attempt){.number = 1, .state = ATTEMPT_RUNNING};
    assert_ok(store_apply(f.store, &ch, 1));
    reopen(&f);
    assert_ok(store_attempt_list(f.store, &f.arena, id, &list, &count));
    assert_true(count == 1 && ty_str_is(list[0].devices, "0,1;2"));
    fixture_close(&f);
}

/* A file of format 1, whose attempts held no devices, and which had no jobs of the older API. */
static void open_takes_the_first_format(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    assert_ok(move_attempt(&f, id, 1, ATTEMPT_STARTED));
    store_close(f.store);
    sqlite3 *db = file_open(f.dir);
    assert_int_equal(sqlite3_exec(db,
                                  "ALTER TABLE attempt DROP COLUMN devices;"
                                  "DROP INDEX job_ml;"
                                  "ALTER TABLE job DROP COLUMN ml_id;"
                                  "ALTER TABLE job DROP COLUMN ml_input;"
                                  "PRAGMA user_version=1",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_ok(store_open(f.dir, &f.store));
    struct attempt *list;
    size_t count;
    assert_ok(store_attempt_list(f.store, &f.arena, id, &list, &count));
    assert_true(count == 1 && list[0].devices.len == 0 && ty_str_is(list[0].ports, "20000"));
    assert_ok(move_attempt(&f, id, 1, ATTEMPT_RUNNING));
    fixture_close(&f);
}

/* ---- ids of the older API ---- */

static ty_err create_ml(struct fixture *f, const char *project, const char *ml_id,
                        struct job *ret_job)
{
    *ret_job = (struct job){.project = ty_str_of(project),
                            .region = REGION,
                            .display_name = ty_str_of(ml_id),
                            .body = TY_STR("\"displayName\":\"x\""),
                            .replicas = 1,
                            .ml_id = ty_str_of(ml_id),
                            .ml_input = TY_STR("{\"region\":\"us-central1\"}")};
    return store_job_create(f->store, ret_job);
}

static void ml_ids_are_unique_in_a_project(void **state)
{
    (void)state;
    struct fixture f;
    struct job job, found;
    fixture_open(&f);
    assert_ok(create_ml(&f, "demo", "first", &job));
    struct job again;
    assert_err(TY_ALREADY_EXISTS, create_ml(&f, "demo", "first", &again));
    assert_int_equal(again.id, 0);
    assert_ok(create_ml(&f, "other", "first", &again));
    assert_ok(store_ml_get(f.store, &f.arena, PROJECT, TY_STR("first"), &found));
    assert_true(found.id == job.id && ty_str_is(found.ml_input, "{\"region\":\"us-central1\"}"));
    assert_err(TY_NOT_FOUND, store_ml_get(f.store, &f.arena, PROJECT, TY_STR("second"), &found));
    assert_err(TY_NOT_FOUND, store_ml_get(f.store, &f.arena, PROJECT, TY_STR(""), &found));
    fixture_close(&f);
}

static void ml_ids_of_custom_jobs_are_made(void **state)
{
    (void)state;
    struct fixture f;
    struct job job, found;
    fixture_open(&f);
    int64_t id = create(&f);
    assert_ok(store_job_load(f.store, &f.arena, id, &job));
    ty_str name = job_ml_id(&f.arena, &job);
    assert_true(job_ml_id_is_made(name));
    assert_false(job_ml_id_is_made(TY_STR("customjob_")));
    assert_false(job_ml_id_is_made(TY_STR("customjob_x")));
    assert_ok(store_ml_get(f.store, &f.arena, PROJECT, name, &found));
    assert_int_equal(found.id, id);
    assert_err(TY_NOT_FOUND, store_ml_get(f.store, &f.arena, TY_STR("other"), name, &found));
    /* a job with an id of its own has no other */
    assert_ok(create_ml(&f, "demo", "own", &job));
    const char *made = ty_format(&f.arena, "customjob_%" PRId64, job.id);
    assert_err(TY_NOT_FOUND, store_ml_get(f.store, &f.arena, PROJECT, ty_str_of(made), &found));
    fixture_close(&f);
}

static void labels_change_with_the_body(void **state)
{
    (void)state;
    struct fixture f;
    struct job job;
    fixture_open(&f);
    assert_ok(create_ml(&f, "demo", "one", &job));
    assert_ok(store_job_relabel(f.store, job.id, TY_STR("{\"a\":\"b\"}"), TY_STR("\"c\":1")));
    assert_ok(store_ml_get(f.store, &f.arena, PROJECT, TY_STR("one"), &job));
    assert_true(ty_str_is(job.labels, "{\"a\":\"b\"}") && ty_str_is(job.body, "\"c\":1"));
    assert_err(TY_NOT_FOUND, store_job_relabel(f.store, 17, TY_STR("{}"), TY_STR("\"c\":1")));
    fixture_close(&f);
}

static void apply_texts_are_cut_and_valid(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    char *text = malloc(40000);
    memset(text, 'a', 39999);
    text[39999] = '\0';
    memcpy(text + 3, "\xff\xc3\xa9\xe2\x82", 5);               /* a bad byte, é, a cut € */
    memcpy(text + STORE_MESSAGE_BYTES - 1, "\xe2\x82\xac", 3); /* € over the edge */
    struct store_change ch = {
        .job_id = id, .state = JOB_STATE_FAILED, .error_message = text, .wait_reason = text};
    assert_ok(store_apply(f.store, &ch, 1));
    struct job j = get(&f, id);
    assert_int_equal(j.error_message.len, STORE_MESSAGE_BYTES - 1);
    assert_true(ty_utf8_valid(j.error_message));
    assert_true(ty_str_starts(j.error_message, TY_STR("aaa?\xc3\xa9??aaa")));
    assert_int_equal(j.wait_reason.len, STORE_REASON_BYTES);
    free(text);
    fixture_close(&f);
}

/* ---- copies ---- */

static void copy_forgets_what_was_deleted(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t kept = create_in(&f, JOB_STATE_SUCCEEDED), gone = create_in(&f, JOB_STATE_SUCCEEDED);
    assert_ok(move_attempt(&f, create(&f), 1, ATTEMPT_STARTED));
    char to[96];
    snprintf(to, sizeof(to), "%s/copy", f.dir);
    assert_int_equal(mkdir(to, 0700), 0);
    assert_ok(store_copy(f.dir, to));
    struct operation op;
    assert_ok(store_job_delete(f.store, &f.arena, PROJECT, REGION, gone, &op));

    struct store *copy;
    struct store_attempt_id *ids;
    size_t count = 0, forgotten = 0;
    int64_t asked[] = {kept, gone};
    bool there = false;
    assert_ok(store_open(to, &copy));
    assert_ok(store_copy_forget(copy, f.dir, asked, TY_COUNT(asked), &forgotten));
    assert_int_equal(forgotten, 1);
    assert_ok(store_job_exists(copy, kept, &there));
    assert_true(there);
    assert_ok(store_job_exists(copy, gone, &there));
    assert_false(there);
    assert_ok(store_attempt_ids(copy, &f.arena, &ids, &count));
    assert_true(count >= 1);
    assert_int_equal(ids[count - 1].number, 1);
    for (size_t i = 0; i < count; i++)
        assert_true(ids[i].job_id != gone);
    store_close(copy);
    check_rows(to);
    fixture_close(&f);
}

static void attempt_lives_until_its_end(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    int64_t id = create(&f);
    ty_str project;
    assert_err(TY_NOT_FOUND, store_attempt_live(f.store, &f.arena, id, 1, &project));
    assert_ok(move_attempt(&f, id, 1, ATTEMPT_STARTED));
    assert_ok(store_attempt_live(f.store, &f.arena, id, 1, &project));
    assert_true(ty_str_eq(project, PROJECT));
    assert_ok(move_attempt(&f, id, 1, ATTEMPT_RUNNING));
    assert_ok(store_attempt_live(f.store, &f.arena, id, 1, &project));
    assert_ok(move_attempt(&f, id, 1, ATTEMPT_ENDED));
    assert_err(TY_NOT_FOUND, store_attempt_live(f.store, &f.arena, id, 1, &project));
    assert_ok(move_attempt(&f, id, 2, ATTEMPT_STARTED)); /* a retry: the old one stays ended */
    assert_err(TY_NOT_FOUND, store_attempt_live(f.store, &f.arena, id, 1, &project));
    assert_ok(store_attempt_live(f.store, &f.arena, id, 2, &project));
    assert_err(TY_NOT_FOUND, store_attempt_live(f.store, &f.arena, id + 1, 2, &project));
    fixture_close(&f);
}

static const struct CMUnitTest tests[] = {
    TEST("state/names", state_names),
    TEST("state/terminal_is_never_left", state_terminal_is_never_left),
    TEST("state/only_drawn_moves_are_made", state_only_drawn_moves_are_made),
    TEST("state/refusal_names_job_and_states", state_refusal_names_job_and_states),
    TEST("create/sets_the_rest", create_sets_the_rest),
    TEST("create/failure_leaves_the_job_alone", create_that_fails_leaves_the_job_alone),
    TEST("create/ids_grow_when_the_clock_goes_back", create_ids_grow_when_the_clock_goes_back),
    TEST("create/from_many_threads", create_from_many_threads),
    TEST("get/asks_for_the_whole_name", get_asks_for_the_whole_name),
    TEST("list/pages_newest_first", list_pages_newest_first),
    TEST("list/cost_does_not_grow_with_the_table", list_cost_does_not_grow_with_the_table),
    TEST("list/active_is_oldest_first", list_active_is_oldest_first),
    TEST("cancel/records_the_wish", cancel_records_the_wish),
    TEST("delete/takes_attempts_and_leaves_an_operation",
         delete_takes_attempts_and_leaves_an_operation),
    TEST("operation/comes_in_pages", operations_come_in_pages),
    TEST("apply/times_follow_the_states", apply_times_follow_the_states),
    TEST("apply/is_all_or_none", apply_is_all_or_none),
    TEST("apply/fields_stay_unless_given", apply_fields_stay_unless_given),
    TEST("apply/retry_waits_anew", apply_retry_waits_anew),
    TEST("apply/attempts_follow_each_other", apply_attempts_follow_each_other),
    TEST("apply/keeps_the_devices", apply_keeps_the_devices),
    TEST("ml/ids_are_unique_in_a_project", ml_ids_are_unique_in_a_project),
    TEST("ml/ids_of_custom_jobs_are_made", ml_ids_of_custom_jobs_are_made),
    TEST("ml/labels_change_with_the_body", labels_change_with_the_body),
    TEST("open/takes_the_first_format", open_takes_the_first_format),
    TEST("apply/texts_are_cut_and_valid", apply_texts_are_cut_and_valid),
    TEST("attempt/lives_until_its_end", attempt_lives_until_its_end),
    TEST("copy/forgets_what_was_deleted", copy_forgets_what_was_deleted),
};
TEST_MAIN("store", tests)
