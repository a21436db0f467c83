/* test_capacity.c -- how the machine is divided: the decision in each mode, what a replica gets,
 * and devices on a yard of real jobs. */
#define TY_SEAM
#include "sched/test_yard.h"

#include "wire/wire.h"

static const int64_t gb = INT64_C(1) << 30;
static struct ty_arena arena;

/* ---- the decision ---- */

static struct sched_item asks(int64_t id, int cpus, int memory_gb, int devices)
{
    return (struct sched_item){.job_id = id,
                               .ask = {.jobs = 1,
                                       .replicas = 1,
                                       .cpu_milli = cpus * 1000,
                                       .memory_bytes = memory_gb * gb,
                                       .devices = devices},
                               .wait_left_ms = INT64_MAX};
}

static struct sched_room machine(int jobs, int cpus, int memory_gb, int devices)
{
    return (struct sched_room){.all = {.jobs = jobs,
                                       .replicas = 64,
                                       .cpu_milli = cpus * 1000,
                                       .memory_bytes = memory_gb * gb,
                                       .devices = devices},
                               .starts = 16};
}

static void share_runs_side_by_side_up_to_the_job_slots(void **state)
{
    (void)state;
    struct sched_item items[] = {asks(1, 96, 360, 0), asks(2, 8, 30, 0), asks(3, 4, 15, 0)};
    sched_decide(items, 3, machine(2, 2, 23, 0));
    assert_true(items[0].start && items[1].start && !items[2].start);
    assert_int_equal(items[2].wait, SCHED_WAIT_JOBS);
    assert_false(items[2].behind);
}

static void fit_waits_for_cpus_and_memory(void **state)
{
    (void)state;
    struct sched_room room = machine(8, 8, 32, 0);
    room.fit = true;
    struct sched_item items[] = {asks(1, 4, 15, 0), asks(2, 4, 15, 0), asks(3, 1, 1, 0),
                                 asks(4, 1, 1, 0)};
    sched_decide(items, 4, room);
    assert_true(items[0].start && items[1].start);
    assert_int_equal(items[2].wait, SCHED_WAIT_CPU);
    assert_true(items[3].behind && items[3].wait == SCHED_WAIT_CPU);
    struct sched_item large[] = {asks(1, 1, 30, 0), asks(2, 1, 15, 0)};
    sched_decide(large, 2, room);
    assert_true(large[0].start);
    assert_int_equal(large[1].wait, SCHED_WAIT_MEMORY);
}

static void fit_runs_what_is_too_large_alone(void **state)
{
    (void)state;
    struct sched_room room = machine(8, 2, 8, 0);
    room.fit = true;
    struct sched_item items[] = {asks(1, 96, 360, 0), asks(2, 1, 1, 0)};
    sched_decide(items, 2, room);
    assert_true(items[0].start && !items[1].start);
    room.used = items[1].ask; /* another one runs: the large one waits, and nobody passes it */
    sched_decide(items, 2, room);
    assert_int_equal(items[0].wait, SCHED_WAIT_CPU);
    assert_true(items[1].behind);
}

static void devices_are_waited_for_or_done_without(void **state)
{
    (void)state;
    struct sched_room room = machine(8, 8, 32, 2);
    struct sched_item items[] = {asks(1, 1, 1, 1), asks(2, 1, 1, 2), asks(3, 1, 1, 1),
                                 asks(4, 1, 1, 0)};
    sched_decide(items, 4, room);
    assert_true(items[0].start && items[0].devices);
    assert_true(items[1].start && !items[1].devices); /* all of a job's, or none */
    assert_true(items[2].start && items[2].devices);
    assert_true(items[3].start && !items[3].devices);
    room.wait_for_devices = true;
    sched_decide(items, 4, room);
    assert_true(items[0].start && items[0].devices);
    assert_int_equal(items[1].wait, SCHED_WAIT_DEVICES);
    assert_true(items[2].behind && items[3].behind);
}

/* ---- a machine that lives for a while ---- */

enum { WORLD_JOBS = 400 };
struct world {
    unsigned seed;
    struct sched_room room;
    struct sched_item jobs[WORLD_JOBS];
    enum { WORLD_NEW, WORLD_WAITS, WORLD_RUNS, WORLD_ENDED } states[WORLD_JOBS];
    int next; /* to be submitted */
};

static int pick(struct world *w, int below)
{
    return rand_r(&w->seed) % below;
}

static void world_check(const struct world *w)
{
    struct sched_amounts used = {0};
    for (int i = 0; i < w->next; i++) {
        const struct sched_item *job = &w->jobs[i];
        if (w->states[i] != WORLD_RUNS)
            continue;
        used.jobs++;
        used.replicas += job->ask.replicas;
        used.cpu_milli += job->ask.cpu_milli;
        used.memory_bytes += job->ask.memory_bytes;
        used.devices += job->devices ? job->ask.devices : 0;
        if (w->room.wait_for_devices)
            assert_true(job->devices == (job->ask.devices > 0));
    }
    assert_true(used.jobs <= w->room.all.jobs);
    assert_true(used.replicas <= w->room.all.replicas);
    assert_true(used.devices <= w->room.all.devices);
    if (w->room.fit && used.jobs > 1) {
        assert_true(used.cpu_milli <= w->room.all.cpu_milli);
        assert_true(used.memory_bytes <= w->room.all.memory_bytes);
    }
}

/* Decide over all that wait, and hold the decision to its word: first come, first served. */
static void world_decide(struct world *w)
{
    struct sched_item items[WORLD_JOBS];
    int who[WORLD_JOBS], n = 0, waits = 0;
    struct sched_room room = w->room;
    for (int i = 0; i < w->next; i++) {
        const struct sched_amounts *ask = &w->jobs[i].ask;
        if (w->states[i] == WORLD_WAITS) {
            who[n] = i;
            items[n++] = w->jobs[i];
        } else if (w->states[i] == WORLD_RUNS) {
            room.used.jobs++;
            room.used.replicas += ask->replicas;
            room.used.cpu_milli += ask->cpu_milli;
            room.used.memory_bytes += ask->memory_bytes;
            room.used.devices += w->jobs[i].devices ? ask->devices : 0;
        }
    }
    sched_decide(items, (size_t)n, room);
    for (int k = 0; k < n; k++) {
        assert_true(items[k].start == (items[k].wait == SCHED_WAIT_NONE));
        assert_true(!items[k].start || waits == 0);
        assert_true(items[k].behind == (waits > 0));
        assert_true(items[k].start || sched_wait_text(items[k].wait, items[k].behind));
        waits += !items[k].start;
        w->jobs[who[k]] = items[k];
        if (items[k].start)
            w->states[who[k]] = WORLD_RUNS;
    }
    if (n > 0 && room.used.jobs == 0)
        assert_true(items[0].start); /* on an empty machine the oldest always starts */
}

static void world_submit(struct world *w)
{
    struct sched_item *job = &w->jobs[w->next];
    *job = asks(w->next, 1 + pick(w, 16), 1 + pick(w, 64), 0);
    job->ask.replicas = 1 + pick(w, w->room.all.replicas);
    if (pick(w, 3) == 0 && w->room.all.devices > 0)
        job->ask.devices = 1 + pick(w, w->room.all.devices);
    w->states[w->next++] = WORLD_WAITS;
}

/* End one that runs. False: nobody does. */
static bool world_end_one(struct world *w)
{
    int from = pick(w, WORLD_JOBS);
    for (int k = 0; k < WORLD_JOBS; k++) {
        int i = (from + k) % WORLD_JOBS;
        if (w->states[i] == WORLD_RUNS) {
            w->states[i] = WORLD_ENDED;
            return true;
        }
    }
    return false;
}

static void any_mode_keeps_its_promises(void **state)
{
    (void)state;
    struct world w;
    for (unsigned round = 0; round < 60; round++) {
        w = (struct world){.seed = round + 1};
        w.room = machine(1 + pick(&w, 6), 1 + pick(&w, 16), 1 + pick(&w, 64), pick(&w, 5));
        w.room.all.replicas = 1 + pick(&w, 8);
        w.room.fit = round % 2;
        w.room.wait_for_devices = round / 2 % 2;
        while (w.next < WORLD_JOBS) {
            if (pick(&w, 2))
                world_submit(&w);
            else
                world_end_one(&w);
            world_decide(&w);
            world_check(&w);
        }
        while (world_end_one(&w)) { /* everybody who waits gets his turn */
            world_decide(&w);
            world_check(&w);
        }
        for (int i = 0; i < WORLD_JOBS; i++)
            assert_int_equal(w.states[i], WORLD_ENDED);
    }
}

/* ---- what is asked for, what is given ---- */

static json_t *spec_of(const char *pools)
{
    json_t *spec;
    assert_ok(
        wire_json_parse(ty_str_of(ty_format(&arena, "{\"workerPoolSpecs\":[%s]}", pools)), &spec));
    return spec;
}

#define POOL(n, machine) "{\"replicaCount\":\"" #n "\",\"machineSpec\":{" machine "}}"
#define TYPE(name)       "\"machineType\":\"" name "\""
#define T4(n)            "\"acceleratorType\":\"NVIDIA_TESLA_T4\",\"acceleratorCount\":" #n

static const struct machine_host laptop = {.cpu_milli = 2000, .memory_bytes = INT64_C(23) << 30};
static const struct machine_host station = {
    .cpu_milli = 16000,
    .memory_bytes = INT64_C(62) << 30,
    .device_count = 3,
    .devices = {{.index = 0, .name = "Tesla T4"},
                {.index = 1, .name = "NVIDIA L4"},
                {.index = 5, .name = "Tesla T4"}},
};

static void ask_sums_over_pools(void **state)
{
    (void)state;
    json_t *spec =
        spec_of(POOL(1, TYPE("n1-standard-4")) ",{}," POOL(3, TYPE("n1-standard-8") "," T4(2)));
    struct sched_amounts ask = sched_ask(spec);
    assert_int_equal(ask.replicas, 4);
    assert_int_equal(ask.cpu_milli, 28000);
    assert_int_equal(ask.memory_bytes, 105 * gb);
    assert_int_equal(ask.devices, 6);
    assert_true(sched_is_larger(&ask, &station));
    json_decref(spec);
    spec = spec_of(POOL(1, "") "," POOL(1, TYPE("no-such-type")) "," POOL(
        1, TYPE("cloud_tpu")) "," POOL(1, TYPE("g2-standard-24")));
    ask = sched_ask(spec);
    assert_int_equal(ask.cpu_milli, 36000);
    assert_int_equal(ask.devices, 2); /* TPUs are none of ours */
    json_decref(spec);
    spec = spec_of(POOL(4096, "\"acceleratorType\":\"NVIDIA_L4\",\"acceleratorCount\":2147483647"));
    assert_true(sched_ask(spec).devices > 1000000);
    json_decref(spec);
    ty_arena_clear(&arena);
}

static void share_is_what_was_asked_or_all_there_is(void **state)
{
    (void)state;
    json_t *spec = spec_of(POOL(1, TYPE("n1-standard-2")) "," POOL(
        1, TYPE("n1-standard-16")) "," POOL(1, "") "," POOL(1, TYPE("n1-standard-4") "," T4(1)));
    struct exec_share *shares = sched_shares(&arena, &laptop, spec, TY_STR(""));
    int64_t all = machine_memory_ceiling(&laptop);
    assert_true(all > 21 * gb && all < 22 * gb);
    assert_int_equal(shares[0].cpu_milli, 2000);
    assert_int_equal(shares[0].memory_bytes, 15 * gb / 2);
    assert_int_equal(shares[1].cpu_milli, 16000);
    assert_int_equal(shares[1].memory_bytes, all);
    assert_int_equal(shares[2].cpu_milli, 4000);
    assert_int_equal(shares[2].memory_bytes, all);
    assert_null(shares[0].devices);
    assert_string_equal(shares[3].devices, "-1");
    shares = sched_shares(&arena, &station, spec, TY_STR(";;;5"));
    assert_string_equal(shares[0].devices, "-1");
    assert_string_equal(shares[3].devices, "5");
    json_decref(spec);
    ty_arena_clear(&arena);
}

static const char *note_of(const struct machine_host *host, const char *capacity, const char *pools,
                           const char *devices)
{
    struct ty_config config;
    ty_config_init(&config, &arena);
    config.capacity = ty_cstr(&arena, ty_str_of(capacity));
    json_t *spec = spec_of(pools);
    const char *note = sched_note(&arena, &config, host, spec, ty_str_of(devices));
    json_decref(spec);
    return note;
}

static void note_says_what_was_cut(void **state)
{
    (void)state;
    assert_null(note_of(&laptop, "share", POOL(1, TYPE("n1-standard-2")), ""));
    assert_null(note_of(&station, "fit", POOL(1, TYPE("n1-standard-8")), ""));
    assert_string_equal(
        note_of(
            &laptop, "share",
            POOL(1, TYPE("n1-standard-8") "," T4(1)) "," POOL(3, TYPE("n1-standard-8") "," T4(1)),
            ""),
        "Asked for 4 x n1-standard-8 (8 CPUs, 30 GB each) with 1 NVIDIA_TESLA_T4 each; this "
        "machine has 2 CPUs, 23 GB and no GPU: its replicas share these CPUs with what else runs, "
        "by weight; a replica may use 22 GB of memory; it runs on CPU, without the accelerators "
        "(setting accelerators).");
    assert_string_equal(note_of(&laptop, "fit", POOL(1, TYPE("n1-standard-4")), ""),
                        "Asked for 1 x n1-standard-4 (4 CPUs, 15 GB); this machine has 2 CPUs, 23 "
                        "GB and no GPU: it runs alone on all of it.");
    assert_string_equal(note_of(&station, "share", POOL(1, TYPE("n1-standard-4") "," T4(2)), "0,5"),
                        "Asked for 1 x n1-standard-4 (4 CPUs, 15 GB) with 2 NVIDIA_TESLA_T4; this "
                        "machine has 16 CPUs, 62 GB and 3 GPUs (Tesla T4, …): it was given GPU 0 "
                        "(Tesla T4) and GPU 5 (Tesla T4).");
    assert_non_null(strstr(note_of(&station, "share", POOL(1, T4(2)), ""),
                           "too few of the GPUs are free, so it runs on CPU"));
    assert_non_null(strstr(note_of(&station, "share", POOL(1, TYPE("cloud_tpu")), ""),
                           "it runs on CPU, without"));
    ty_arena_clear(&arena);
}

/* ---- devices ---- */

static void devices_belong_to_one_replica(void **state)
{
    (void)state;
    struct devices d = {0};
    json_t *two = spec_of(POOL(1, T4(1)) "," POOL(1, "") "," POOL(1, T4(1)));
    json_t *one = spec_of(POOL(1, T4(1)));
    char *first = devices_take(&d, &station, two);
    assert_string_equal(first, "0;;5"); /* those of the type that was asked for */
    assert_int_equal(devices_count(&station, ty_str_of(first)), 2);
    assert_null(devices_take(&d, &station, two)); /* all or none: the L4 is free again */
    char *second = devices_take(&d, &station, one);
    assert_string_equal(second, "1");
    devices_give(&d, ty_str_of(first));
    struct devices later = {0}; /* a server that comes back */
    devices_hold(&later, ty_str_of(second));
    devices_hold(&later, TY_STR("77,x,-3;;"));
    free(first);
    first = devices_take(&later, &station, two);
    assert_string_equal(first, "0;;5");
    free(first);
    free(second);
    json_decref(one);
    json_decref(two);
    ty_arena_clear(&arena);
}

#define ON_T4 "\"machineSpec\":{" TYPE("n1-standard-2") "," T4(1) "},"

static void log_has(struct yard *y, int64_t job, const char *words)
{
    const char *path = ty_format(&y->arena, "%s/log", exec_attempt_path(&y->arena, y->dir, job, 1));
    ty_str text = TY_STR("");
    bool found = false;
    for (int64_t until = ty_boot_ms() + 30000; !found && ty_boot_ms() < until; usleep(5000)) {
        assert_ok(ty_file_read(AT_FDCWD, path, 1 << 20, &y->arena, &text));
        found = memmem(text.ptr, text.len, words, strlen(words)) != NULL;
    }
    if (!found)
        fail_msg("no '%s' in " TY_STR_FMT, words, TY_STR_ARG(text));
}

static const char *row_devices(struct yard *y, int64_t job)
{
    struct attempt *attempts;
    size_t count;
    assert_ok(store_attempt_list(y->store, &y->arena, job, &attempts, &count));
    return ty_cstr(&y->arena, attempts[count - 1].devices);
}

static void yard_with(struct yard *y, int devices)
{
    yard_open(y);
    yard_stop(y);
    y->config.replica_slots = 8;
    y->host = station;
    y->host.device_count = devices;
    yard_start(y);
}

static void yard_shares_devices_out(void **state)
{
    (void)state;
    struct yard y;
    yard_with(&y, 1);
    int64_t has = submit_on(&y, 1, ON_T4, "echo has=$CUDA_VISIBLE_DEVICES; sleep 600", "");
    await(&y, has, JOB_STATE_RUNNING);
    log_has(&y, has, "has=0");
    assert_string_equal(row_devices(&y, has), "0");
    yard_stop(&y); /* a server that comes back knows who has it */
    yard_start(&y);
    int64_t lacks = submit_on(&y, 1, ON_T4, "echo has=$CUDA_VISIBLE_DEVICES", "");
    await(&y, lacks, JOB_STATE_SUCCEEDED);
    log_has(&y, lacks, "has=-1");
    log_has(&y, lacks, "too few of the GPUs are free, so it runs on CPU");
    assert_non_null(strstr(why_of(&y, lacks).note, "too few of the GPUs"));
    int64_t plain = submit(&y, "echo has=$CUDA_VISIBLE_DEVICES", "");
    await(&y, plain, JOB_STATE_SUCCEEDED);
    log_has(&y, plain, "has=-1");
    cancel_and_await(&y, has);
    log_has(&y, has, "it was given GPU 0 (Tesla T4).");
    int64_t again = submit_on(&y, 1, ON_T4, "echo has=$CUDA_VISIBLE_DEVICES", "");
    await(&y, again, JOB_STATE_SUCCEEDED);
    log_has(&y, again, "has=0");
    yard_close(&y);
}

static void yard_waits_for_devices(void **state)
{
    (void)state;
    struct yard y;
    yard_with(&y, 2);
    y.config.accelerators = ty_cstr(&y.arena, TY_STR("wait"));
    int64_t has = submit_on(&y, 2, ON_T4, "sleep 600", "");
    await(&y, has, JOB_STATE_RUNNING);
    assert_string_equal(row_devices(&y, has), "0;1");
    int64_t waits = submit_on(&y, 1, ON_T4, "true", "");
    await(&y, waits, JOB_STATE_QUEUED);
    struct sched_why why = why_of(&y, waits);
    assert_string_equal(why.reason, "waiting for accelerators (setting accelerators)");
    assert_int_equal(why.used.devices, 2);
    assert_int_equal(why.ask.devices, 1);
    assert_non_null(strstr(why.remedy, "accelerators = cpu"));
    assert_non_null(strstr(why.remedy, ty_format(&y.arena, "job %" PRId64, has)));
    cancel_and_await(&y, has);
    await(&y, waits, JOB_STATE_SUCCEEDED);
    yard_close(&y);
}

/* ---- why ---- */

#define ON(name) "\"machineSpec\":{" TYPE(name) "},"

static void why_finds_what_would_start_it(void **state)
{
    (void)state;
    struct yard y;
    yard_with(&y, 0);
    y.config.capacity = ty_cstr(&y.arena, TY_STR("fit"));
    int64_t small = submit_on(&y, 1, ON("n1-standard-2"), "sleep 600", "");
    int64_t large = submit_on(&y, 1, ON("n1-standard-8"), "sleep 600", "");
    await(&y, large, JOB_STATE_RUNNING);
    int64_t waits = submit_on(&y, 1, ON("n1-standard-8"), "true", "");
    int64_t behind = submit_on(&y, 1, ON("n1-standard-16"), "true", "");
    await(&y, waits, JOB_STATE_QUEUED);
    await(&y, behind, JOB_STATE_QUEUED);
    struct sched_why why = why_of(&y, waits);
    assert_string_equal(why.reason, "waiting for CPUs (setting capacity)");
    assert_string_equal(why.remedy,
                        ty_format(&y.arena,
                                  "job %" PRId64 " 't' ends or is cancelled; or with machineType "
                                  "n1-standard-4 it would start now; or capacity = share in "
                                  "trainyard.conf and a restart of the server",
                                  small));
    assert_string_equal(why.asked, "1 x n1-standard-8 (8 CPUs, 30 GB)");
    assert_null(why.note);
    assert_true(why.fit && why.used.cpu_milli == 10000 && why.ask.cpu_milli == 8000);
    why = why_of(&y, behind);
    assert_string_equal(why.reason, "waiting behind an older job that needs CPUs");
    assert_null(strstr(why.remedy, "ends or is cancelled")); /* nothing that runs is in its way */
    cancel_and_await(&y, small);
    await(&y, waits, JOB_STATE_SUCCEEDED);
    await(&y, behind, JOB_STATE_QUEUED);
    assert_non_null(strstr(why_of(&y, behind).remedy, "n1-standard-8 it would start now"));
    cancel_and_await(&y, large);
    await(&y, behind, JOB_STATE_SUCCEEDED);
    yard_close(&y);
}

static void why_names_the_job_slots(void **state)
{
    (void)state;
    struct yard y;
    yard_with(&y, 0);
    y.config.max_running_jobs = 1;
    int64_t runs = submit(&y, "sleep 600", ""), waits = submit(&y, "true", "");
    struct job job = await(&y, waits, JOB_STATE_QUEUED);
    assert_string_equal(ty_cstr(&y.arena, job.wait_reason),
                        "waiting for a job slot (setting max_running_jobs)");
    struct sched_why why = why_of(&y, waits);
    assert_int_equal(why.wait, SCHED_WAIT_JOBS);
    assert_non_null(strstr(why.remedy, "or max_running_jobs = 2 in"));
    cancel_and_await(&y, runs);
    await(&y, waits, JOB_STATE_SUCCEEDED);
    yard_close(&y);
}

static const struct CMUnitTest tests[] = {
    TEST("decide/share_runs_side_by_side_up_to_the_job_slots",
         share_runs_side_by_side_up_to_the_job_slots),
    TEST("decide/fit_waits_for_cpus_and_memory", fit_waits_for_cpus_and_memory),
    TEST("decide/fit_runs_what_is_too_large_alone", fit_runs_what_is_too_large_alone),
    TEST("decide/devices_are_waited_for_or_done_without", devices_are_waited_for_or_done_without),
    TEST("decide/any_mode_keeps_its_promises", any_mode_keeps_its_promises),
    TEST("ask/sums_over_pools", ask_sums_over_pools),
    TEST("ask/share_is_what_was_asked_or_all_there_is", share_is_what_was_asked_or_all_there_is),
    TEST("ask/note_says_what_was_cut", note_says_what_was_cut),
    TEST("devices/belong_to_one_replica", devices_belong_to_one_replica),
    TEST("yard/shares_devices_out", yard_shares_devices_out),
    TEST("yard/waits_for_devices", yard_waits_for_devices),
    TEST("why/finds_what_would_start_it", why_finds_what_would_start_it),
    TEST("why/names_the_job_slots", why_names_the_job_slots),
};
YARD_MAIN("capacity", tests)
