/* test_yard.h -- a yard for tests: store, scheduler, conductors; no HTTP. */
#ifndef TY_TEST_YARD_H
#define TY_TEST_YARD_H

#include "base/test.h"
#include "auth/auth.h"
#include "exec/exec.h"
#include "sched/sched_int.h"

struct yard {
    char dir[64];
    struct ty_arena arena;
    struct ty_config config;
    struct machine_host host;
    struct store *store;
    struct sched *sched;
};

static inline void nothing_waits(void *arg)
{
    (void)arg;
}

static inline void yard_start(struct yard *y)
{
    assert_ok(store_open(y->dir, &y->store));
    struct sched_setup setup = {.config = &y->config,
                                .host = &y->host,
                                .store = y->store,
                                .data_dir = y->dir,
                                .url = "http://127.0.0.1:7575",
                                .changed = nothing_waits};
    assert_ok(sched_start(&setup, &y->sched));
}

static inline void yard_stop(struct yard *y)
{
    sched_stop(y->sched);
    store_close(y->store);
}

static inline void yard_open(struct yard *y)
{
    *y = (struct yard){.dir = "/tmp/test_sched.XXXXXX"};
    assert_non_null(mkdtemp(y->dir));
    assert_ok(ty_mkdirs(ty_format(&y->arena, "%s/jobs", y->dir), 0700));
    ty_config_init(&y->config, &y->arena);
    y->config.grace_ms = 200;
    y->config.replica_slots = 2;
    y->host = (struct machine_host){.cpu_milli = 2000, .memory_bytes = INT64_C(8) << 30};
    y->config.port_first = 23200;
    y->config.port_last = 23299;
    ty_log_level_set(TY_LOG_ERROR);
    yard_start(y);
}

static inline void yard_close(struct yard *y)
{
    yard_stop(y);
    assert_ok(ty_remove_tree(AT_FDCWD, y->dir));
    ty_arena_clear(&y->arena);
}

/* `machine`: a machineSpec with its comma, or nothing. */
static inline int64_t submit_on(struct yard *y, int replicas, const char *machine,
                                const char *script, const char *scheduling)
{
    struct job job = {.project = TY_STR("p"),
                      .region = TY_STR("us-central1"),
                      .display_name = TY_STR("t"),
                      .replicas = replicas};
    const char *pool = ty_format(
        &y->arena, "%s\"containerSpec\":{\"imageUri\":\"host\",\"command\":[\"sh\",\"-c\",\"%s\"]}",
        machine, script);
    job.body = ty_str_of(ty_format(
        &y->arena,
        "\"displayName\":\"t\",\"jobSpec\":{\"workerPoolSpecs\":[{\"replicaCount\":\"1\",%s},"
        "{\"replicaCount\":\"%d\",%s}]%s%s}",
        pool, replicas - 1, pool, scheduling[0] ? ",\"scheduling\":" : "", scheduling));
    assert_ok(store_job_create(y->store, &job));
    sched_notify(y->sched, job.id);
    return job.id;
}

static inline int64_t submit(struct yard *y, const char *script, const char *scheduling)
{
    return submit_on(y, 1, "", script, scheduling);
}

static inline struct job await(struct yard *y, int64_t id, enum job_state want)
{
    struct job job = {0};
    for (int64_t until = ty_boot_ms() + 60000; ty_boot_ms() < until; usleep(5000)) {
        assert_ok(store_job_load(y->store, &y->arena, id, &job));
        if (job.state == want || job_state_is_final(job.state))
            break;
    }
    assert_string_equal(job_state_name(job.state), job_state_name(want));
    return job;
}

/* A script that goes on when gate_open was called. */
static inline const char *gated(struct yard *y, const char *script)
{
    return ty_format(&y->arena, "until [ -e %s/go ]; do sleep 0.05; done; %s", y->dir, script);
}

static inline void gate_open(struct yard *y)
{
    assert_ok(ty_file_replace(AT_FDCWD, ty_format(&y->arena, "%s/go", y->dir), TY_STR(""), 0600));
}

static inline struct sched_why why_of(struct yard *y, int64_t id)
{
    struct sched_why why;
    struct sched_why_setup setup = {y->store, &y->config, &y->host, y->dir};
    assert_ok(sched_why(&setup, &y->arena, TY_STR("p"), id, &why));
    assert_int_equal(why.job.id, id);
    return why;
}

static inline void cancel_and_await(struct yard *y, int64_t id)
{
    assert_ok(store_job_cancel(y->store, TY_STR("p"), TY_STR("us-central1"), id));
    sched_notify(y->sched, id);
    await(y, id, JOB_STATE_CANCELLED);
}

/* The scheduler starts its launcher from /proc/self/exe, which here is the test. */
#define YARD_MAIN(module_, tests_)                                                                 \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        int64_t fd;                                                                                \
        if (argc == 6 && strcmp(argv[1], "launch") == 0 &&                                         \
            ty_parse_i64(ty_str_of(argv[3]), &fd) == TY_OK)                                        \
            return exec_launcher_main((int)fd, argv[5]);                                           \
        if (argc > 1)                                                                              \
            cmocka_set_test_filter(argv[1]);                                                       \
        return cmocka_run_group_tests_name(module_, tests_, NULL, NULL) == 0 ? 0 : 1;              \
    }

#endif
