/* test_plan.c -- the parts of exec that start nothing: plans, the spec file, the journal, the
 * rules. */
#define TY_SEAM
#include "base/test.h"
#include "exec/exec_int.h"
#include "wire/wire.h"

static struct ty_arena arena;

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    assert_ok(wire_json_parse(ty_str_of(text), &value));
    return value;
}

static const char *data_dir = "/data";
static const char *const *tokens; /* of the replicas of what is built; NULL: none */
static const char *ml_input;      /* of a job of the older API, called "old"; NULL: it is none */

static ty_err build(const char *spec_text, struct exec_plan *ret_plan)
{
    static const int ports[] = {20000, 20001, 20002, 20003, 20004, 20005, 20006, 20007};
    static const char *const client_env[] = {"TRAINYARD_URL=http://127.0.0.1:7575",
                                             "GOOGLE_AUTH_TOKEN_FOR_TESTING=local", NULL};
    struct ty_config config;
    ty_config_init(&config, &arena);
    json_t *spec = parse(spec_text), *input = ml_input ? parse(ml_input) : NULL;
    struct exec_job job = {.id = 17,
                           .attempt = 2,
                           .project = TY_STR("p1"),
                           .region = TY_STR("r1"),
                           .spec = spec,
                           .ports = ports,
                           .tokens = tokens,
                           .data_dir = data_dir,
                           .client_env = client_env,
                           .timeout_ms = 5000,
                           .log_floor_ns = 7,
                           .ml_id = ml_input ? TY_STR("old") : TY_STR(""),
                           .ml_input = input};
    ty_err err = exec_plan_build(&arena, &config, &job, ret_plan);
    json_decref(spec);
    json_decref(input);
    return err;
}

static const char *get_env(const struct exec_replica *r, const char *name)
{
    const char *found = NULL;
    for (char **item = r->env; *item; item++)
        if (strncmp(*item, name, strlen(name)) == 0 && (*item)[strlen(name)] == '=') {
            assert_null(found); /* one value a name */
            found = *item + strlen(name) + 1;
        }
    return found;
}

static int clear_arena(void **state)
{
    (void)state;
    ty_arena_clear(&arena);
    return 0;
}

#define HOST(command) "\"containerSpec\":{\"imageUri\":\"host\",\"command\":[" command "]}"
#define GANG                                                                                       \
    "{\"workerPoolSpecs\":[{\"replicaCount\":\"1\"," HOST(                                         \
        "\"a\"") "},{\"replicaCount\":"                                                            \
                 "\"2\"," HOST("\"b\"") "},{},{"                                                   \
                                        "\"replicaCount\""                                         \
                                        ":1," HOST("\"c"                                           \
                                                   "\"") "}]}"

static void single_replica(void **state)
{
    (void)state;
    struct exec_plan plan;
    setenv("TY_CRASH", "3", 1);
    setenv("GOOGLE_APPLICATION_CREDENTIALS", "/secret", 1);
    setenv("CLOUDSDK_CONFIG", "/secret", 1);
    setenv("RANK", "9", 1);
    setenv("KEPT", "yes", 1);
    assert_ok(build("{\"workerPoolSpecs\":[{\"replicaCount\":\"1\",\"containerSpec\":{\"imageUri\":"
                    "\"host\",\"command\":[\"python3\",\"-m\"],\"args\":[\"x\"],\"env\":[{\"name\":"
                    "\"A\",\"value\":\"1=2\"},{\"name\":\"CLOUD_ML_REGION\",\"value\":\"mine\"},"
                    "{\"name\":\"TRAINYARD_ATTEMPT\",\"value\":\"1/1\"}]}}],"
                    "\"baseOutputDirectory\":{\"outputUriPrefix\":\"/out/\"},"
                    "\"scheduling\":{\"disableRetries\":true}}",
                    &plan));
    unsetenv("TY_CRASH");
    unsetenv("RANK");
    assert_int_equal(plan.replica_count, 1);
    assert_true(plan.disable_retries);
    assert_false(plan.restart_job_on_worker_restart);
    const struct exec_replica *r = &plan.replicas[0];
    assert_string_equal(r->argv[0], "python3");
    assert_string_equal(r->argv[2], "x");
    assert_null(r->argv[3]);
    assert_null(get_env(r, "TF_CONFIG")); /* distributed jobs only */
    assert_null(get_env(r, "TY_CRASH"));
    assert_null(get_env(r, "GOOGLE_APPLICATION_CREDENTIALS"));
    assert_null(get_env(r, "CLOUDSDK_CONFIG"));
    assert_string_equal(get_env(r, "KEPT"), "yes");
    assert_string_equal(get_env(r, "A"), "1=2");
    assert_string_equal(get_env(r, "TRAINYARD_ATTEMPT"), "17/2"); /* the mark is ours */
    assert_string_equal(get_env(r, "TRAINYARD_REPLICA"), "0-0");
    assert_string_equal(get_env(r, "TRAINYARD_URL"), "http://127.0.0.1:7575");
    assert_string_equal(get_env(r, "CLOUD_ML_PROJECT_ID"), "p1");
    assert_string_equal(get_env(r, "CLOUD_ML_REGION"), "mine"); /* the user's wins */
    assert_string_equal(get_env(r, "CLOUD_ML_JOB_ID"), "17");
    assert_string_equal(get_env(r, "AIP_MODEL_DIR"), "/out/model/");
    assert_string_equal(get_env(r, "AIP_CHECKPOINT_DIR"), "/out/checkpoints/");
    assert_string_equal(get_env(r, "AIP_TENSORBOARD_LOG_DIR"), "/out/logs/");
    assert_string_equal(get_env(r, "MASTER_ADDR"), "127.0.0.1");
    assert_string_equal(get_env(r, "MASTER_PORT"), "20000");
    assert_string_equal(get_env(r, "RANK"), "0");
    assert_string_equal(get_env(r, "WORLD_SIZE"), "1");
    assert_string_equal(get_env(r, "PYTHONUNBUFFERED"), "1");
}

static void wandb_stays_here(void **state)
{
    (void)state;
    static const struct {
        const char *env, *mode;
    } rows[] = {
        {"", "offline"},
        {"{\"name\":\"WANDB_BASE_URL\",\"value\":\"http://127.0.0.1:8080\"}", NULL},
        {"{\"name\":\"WANDB_MODE\",\"value\":\"online\"}", "online"},
        {"{\"name\":\"WANDB_MODE_X\",\"value\":\"1\"}", "offline"},
    };
    struct exec_plan plan;
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        assert_ok(build(ty_format(&arena,
                                  "{\"workerPoolSpecs\":[{\"containerSpec\":{\"imageUri\":\"host\","
                                  "\"command\":[\"a\"],\"env\":[%s]}}]}",
                                  rows[i].env),
                        &plan));
        const char *mode = get_env(&plan.replicas[0], "WANDB_MODE");
        if (rows[i].mode)
            assert_string_equal(mode, rows[i].mode);
        else
            assert_null(mode);
    }
    setenv("WANDB_BASE_URL", "http://127.0.0.1:8080", 1); /* the server's own counts too */
    assert_ok(build("{\"workerPoolSpecs\":[{" HOST("\"a\"") "}]}", &plan));
    unsetenv("WANDB_BASE_URL");
    assert_null(get_env(&plan.replicas[0], "WANDB_MODE"));
}

static void assert_json(const char *text, const char *expected)
{
    json_t *have = parse(text), *want = parse(expected);
    json_object_del(have, "job");
    if (!json_equal(have, want))
        fail_msg("%s is not %s", text, expected);
    json_decref(have);
    json_decref(want);
}

static void cluster_variables(void **state)
{
    (void)state;
    struct exec_plan plan;
    assert_ok(build(GANG, &plan));
    assert_int_equal(plan.replica_count, 4);
    const struct exec_replica *worker = &plan.replicas[2], *evaluator = &plan.replicas[3];
    assert_int_equal(worker->pool, 1);
    assert_int_equal(worker->index, 1);
    assert_int_equal(evaluator->pool, 3);
    assert_json(get_env(worker, "TF_CONFIG"),
                "{\"cluster\":{\"chief\":[\"127.0.0.1:20000\"],\"worker\":[\"127.0.0.1:20001\","
                "\"127.0.0.1:20002\"]},\"environment\":\"cloud\",\"task\":{\"type\":\"worker\","
                "\"index\":1}}");
    assert_json(get_env(evaluator, "CLUSTER_SPEC"),
                "{\"cluster\":{\"workerpool0\":[\"127.0.0.1:20000\"],\"workerpool1\":["
                "\"127.0.0.1:20001\",\"127.0.0.1:20002\"],\"workerpool3\":[\"127.0.0.1:20003\"]},"
                "\"environment\":\"cloud\",\"task\":{\"type\":\"workerpool3\",\"index\":0}}");
    json_t *spec = parse(GANG), *variable = parse(get_env(worker, "CLUSTER_SPEC"));
    assert_true(json_equal(json_object_get(variable, "job"), spec));
    json_decref(spec);
    json_decref(variable);
    assert_string_equal(get_env(worker, "RANK"), "2");
    assert_string_equal(get_env(worker, "WORLD_SIZE"), "4");
}

/* ---- jobs of the older API ---- */

static void older_jobs_have_a_master(void **state)
{
    (void)state;
    static const struct {
        const char *input, *chief;
    } cases[] = {
        {"{\"runtimeVersion\":\"1.15\"}", "master"},
        {"{\"runtimeVersion\":\"2.0\"}", "master"},
        {"{\"runtimeVersion\":\"2.1\"}", "chief"},
        {"{\"runtimeVersion\":\"2.11\"}", "chief"},
        {"{\"masterConfig\":{}}", "master"},
        {"{\"masterConfig\":{},\"useChiefInTfConfig\":true}", "chief"},
        {"{\"runtimeVersion\":\"1.15\",\"useChiefInTfConfig\":true}", "chief"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct exec_plan plan;
        ml_input = cases[i].input;
        assert_ok(build(GANG, &plan));
        assert_true(plan.ml);
        const char *want = ty_format(&arena,
                                     "{\"cluster\":{\"%s\":[\"127.0.0.1:20000\"],\"worker\":["
                                     "\"127.0.0.1:20001\",\"127.0.0.1:20002\"]},\"environment\":"
                                     "\"cloud\",\"task\":{\"type\":\"%s\",\"index\":0},\"job\":%s}",
                                     cases[i].chief, cases[i].chief, cases[i].input);
        assert_string_equal(get_env(&plan.replicas[0], "TF_CONFIG"), want);
        assert_non_null(strstr(get_env(&plan.replicas[1], "TF_CONFIG"), "\"type\":\"worker\""));
        assert_string_equal(get_env(&plan.replicas[0], "CLOUD_ML_JOB_ID"), "old");
    }
    struct exec_plan alone; /* one replica has it as well */
    assert_ok(build("{\"workerPoolSpecs\":[{\"replicaCount\":\"1\"," HOST("\"a\"") "}]}", &alone));
    assert_non_null(get_env(&alone.replicas[0], "TF_CONFIG"));
    ml_input = NULL;
    assert_ok(build("{\"workerPoolSpecs\":[{\"replicaCount\":\"1\"," HOST("\"a\"") "}]}", &alone));
    assert_null(get_env(&alone.replicas[0], "TF_CONFIG"));
    assert_false(alone.ml);
}

static void older_words_for_replicas(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"The replica workerpool0-0 exited.", "The replica master 0 exited."},
        {"workerpool1-12, workerpool2-3 and workerpool3-0",
         "worker-replica-12, ps-replica-3 and evaluator-replica-0"},
        {"workerpool", "workerpool"},
        {"workerpool4-0 workerpool1- workerpool1", "workerpool4-0 workerpool1- workerpool1"},
        {"a workerpool0-0", "a master-replica-0"},
    };
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct ty_buf b;
        ty_buf_init(&b, 1024);
        exec_ml_words(&b, ty_str_of(cases[i][0]));
        assert_string_equal(ty_buf_str(&b).len ? b.ptr : "", cases[i][1]);
        ty_buf_clear(&b);
    }
}

static void huge_spec_is_left_out(void **state)
{
    (void)state;
    struct ty_buf text;
    ty_buf_init(&text, 1 << 20);
    ty_buf_addz(&text,
                "{\"workerPoolSpecs\":[{\"replicaCount\":\"1\",\"containerSpec\":{\"args\":[");
    for (int i = 0; i < 20; i++) {
        ty_buf_addz(&text, i ? ",\"" : "\"");
        for (int k = 0; k < 10000; k++)
            ty_buf_addc(&text, 'x');
        ty_buf_addc(&text, '"');
    }
    ty_buf_addz(&text, "]}}]}");
    struct exec_plan plan;
    assert_ok(build(text.ptr, &plan));
    ty_buf_clear(&text);
    assert_json(get_env(&plan.replicas[0], "CLUSTER_SPEC"),
                "{\"cluster\":{\"workerpool0\":[\"127.0.0.1:20000\"]},\"environment\":\"cloud\","
                "\"task\":{\"type\":\"workerpool0\",\"index\":0}}");
}

static void bad_specs(void **state)
{
    (void)state;
    struct exec_plan plan;
    assert_err(TY_INVALID_ARGUMENT, build("{\"workerPoolSpecs\":[]}", &plan));
    assert_err(
        TY_INVALID_ARGUMENT,
        build("{\"workerPoolSpecs\":[{\"replicaCount\":\"1\",\"containerSpec\":{\"imageUri\":"
              "\"host\"}}]}",
              &plan));
    assert_non_null(strstr(ty_err_message(), "workerPoolSpecs[0].containerSpec"));
    assert_err(TY_INVALID_ARGUMENT,
               build("{\"workerPoolSpecs\":[{\"replicaCount\":\"2\"," HOST("\"a\"") "}]}", &plan));
    assert_err(TY_INVALID_ARGUMENT,
               build("{\"workerPoolSpecs\":[{\"replicaCount\":\"1\"," HOST("\"\"") "}]}", &plan));
    assert_err(TY_INVALID_ARGUMENT,
               build("{\"workerPoolSpecs\":[{\"replicaCount\":\"1\",\"containerSpec\":{\"args\":"
                     "[\"a\"],\"env\":[{\"name\":\"A=B\",\"value\":\"\"}]}}]}",
                     &plan));
    assert_err(TY_INVALID_ARGUMENT,
               build("{\"workerPoolSpecs\":[{\"replicaCount\":\"1\"," HOST(
                         "\"a\"") "},{\"replicaCount\":\"5000\"," HOST("\"a\"") "}]}",
                     &plan));
}

static void counts_and_timeouts(void **state)
{
    (void)state;
    struct ty_config config;
    ty_config_init(&config, &arena);
    json_t *gang = parse(GANG), *timed = parse("{\"scheduling\":{\"timeout\":\"3.5s\"}}");
    assert_int_equal(exec_replica_count(gang), 4);
    assert_int_equal(exec_replica_count(timed), 0);
    assert_int_equal(exec_timeout_ms(&config, timed), 3500);
    assert_int_equal(exec_timeout_ms(&config, gang), config.default_timeout_s * 1000);
    json_decref(gang);
    json_decref(timed);
}

/* ---- the spec file ---- */

static void spec_round_trip(void **state)
{
    (void)state;
    char dir[] = "/tmp/ty-plan-XXXXXX";
    assert_non_null(mkdtemp(dir));
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    struct exec_plan plan, back;
    assert_ok(build(GANG, &plan));
    assert_ok(spec_write(dirfd, &plan));
    assert_ok(spec_read(&arena, dirfd, &back));
    assert_null(back.note);
    plan.note = "Asked for \"much\".";
    assert_ok(spec_write(dirfd, &plan));
    assert_ok(spec_read(&arena, dirfd, &back));
    assert_string_equal(back.note, plan.note);
    assert_int_equal(back.job_id, 17);
    assert_int_equal(back.attempt, 2);
    assert_int_equal(back.timeout_ms, 5000);
    assert_int_equal(back.grace_ms, plan.grace_ms);
    assert_int_equal(back.log_limit_bytes, plan.log_limit_bytes);
    assert_int_equal(back.log_line_bytes, plan.log_line_bytes);
    assert_int_equal(back.log_floor_ns, 7);
    assert_int_equal(back.replica_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(back.replicas[i].port, plan.replicas[i].port);
        assert_string_equal(back.replicas[i].argv[0], plan.replicas[i].argv[0]);
        size_t n = 0;
        for (; plan.replicas[i].env[n]; n++)
            assert_string_equal(back.replicas[i].env[n], plan.replicas[i].env[n]);
        assert_null(back.replicas[i].env[n]);
    }
    int fd = openat(dirfd, "spec", O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "{\"format\":9}", 12), 12);
    close(fd);
    assert_err(TY_FAILED_PRECONDITION, spec_read(&arena, dirfd, &back));
    close(dirfd);
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
}

/* ---- the journal ---- */

/* A journal with begin, running, restart, end; into `ret_text`. */
static void make_journal(ty_str *ret_text)
{
    char dir[] = "/tmp/ty-journal-XXXXXX";
    assert_non_null(mkdtemp(dir));
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    struct journal j;
    struct ty_buf fields;
    ty_buf_init(&fields, 4096);
    assert_ok(journal_create(&j, dirfd));
    struct journal other;
    assert_err(TY_ALREADY_EXISTS, journal_create(&other, dirfd));
    assert_ok(journal_add(&j, "begin", TY_STR(" format=1")));
    assert_ok(journal_add(&j, "running", TY_STR("")));
    assert_ok(journal_add(&j, "restart", TY_STR(" replica=0-0")));
    journal_field(&fields, "outcome", TY_STR("failed"));
    journal_field_int(&fields, "retry", 1);
    journal_field_int(&fields, "code", 3);
    journal_field_int(&fields, "ran_ms", 1234);
    journal_field(&fields, "message", TY_STR("50 % of a=b\nwas \xff\xfe \xc3\xa9"));
    assert_ok(journal_add(&j, "end", ty_buf_str(&fields)));
    journal_close(&j);
    ty_buf_clear(&fields);
    assert_ok(ty_file_read(dirfd, "journal", 1 << 20, &arena, ret_text));
    close(dirfd);
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
}

static void journal_round_trip(void **state)
{
    (void)state;
    ty_str text;
    struct exec_look look;
    make_journal(&text);
    assert_ok(journal_parse(&arena, text, &look));
    assert_int_equal(look.phase, EXEC_ENDED);
    assert_true(look.begin_ns > 0 && look.running_ns >= look.begin_ns);
    assert_true(look.end_ns >= look.running_ns);
    assert_int_equal(look.restarts, 1);
    assert_int_equal(look.ran_ms, 1234);
    assert_true(look.retry);
    assert_int_equal(look.error_code, 3);
    assert_true(ty_str_is(look.outcome, "failed"));
    assert_true(ty_str_is(look.message, "50 % of a=b\nwas \xff\xfe \xc3\xa9"));
}

static void journal_torn_at_every_byte(void **state)
{
    (void)state;
    ty_str text;
    struct exec_look look;
    make_journal(&text);
    for (size_t n = 0; n < text.len; n++) {
        assert_ok(journal_parse(&arena, (ty_str){text.ptr, n}, &look));
        assert_int_equal(look.phase, EXEC_LOST);
    }
}

static void journal_damage_is_told(void **state)
{
    (void)state;
    ty_str text;
    struct exec_look look;
    make_journal(&text);
    char *bytes = ty_cstr(&arena, text);
    bytes[text.len - 4] ^= 1; /* the last line: as if it were not there */
    assert_ok(journal_parse(&arena, (ty_str){bytes, text.len}, &look));
    assert_int_equal(look.phase, EXEC_LOST);
    bytes[20] ^= 1;
    assert_err(TY_DATA_LOSS, journal_parse(&arena, (ty_str){bytes, text.len}, &look));
    assert_non_null(strstr(ty_err_message(), "line 1"));
}

static void journal_newer_format(void **state)
{
    (void)state;
    char dir[] = "/tmp/ty-journal-XXXXXX";
    assert_non_null(mkdtemp(dir));
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    struct journal j;
    struct exec_look look;
    ty_str text;
    assert_ok(journal_create(&j, dirfd));
    assert_ok(journal_add(&j, "begin", TY_STR(" format=2")));
    journal_close(&j);
    assert_ok(ty_file_read(dirfd, "journal", 1 << 20, &arena, &text));
    assert_err(TY_FAILED_PRECONDITION, journal_parse(&arena, text, &look));
    close(dirfd);
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
}

/* ---- rules ---- */

enum { EXIT = 256 }; /* a wait status is the exit status times that, or a signal */

static void rules_table(void **state)
{
    (void)state;
    static const struct {
        bool chief;
        int wait_status, restarts;
        bool out_of_memory, disable_retries, restart_job;
        enum rules_verdict verdict;
        bool retry;
    } rows[] = {
        {true, 0, 0, false, false, false, RULES_SUCCEEDED, false},
        {false, 0, 0, false, false, false, RULES_GO_ON, false},
        {true, 1 * EXIT, 0, false, false, false, RULES_FAILED, false},
        {false, 2 * EXIT, 0, false, false, false, RULES_FAILED, false},
        {false, 6 * EXIT, 0, false, false, false, RULES_FAILED, true},
        {false, 11 * EXIT, 0, false, false, false, RULES_FAILED, true},
        {false, 134 * EXIT, 0, false, false, false, RULES_FAILED, true},
        {false, 75 * EXIT, 0, false, false, false, RULES_FAILED, true},
        {false, 139 * EXIT, 0, false, false, false, RULES_FAILED, true},
        {false, 139 * EXIT, 0, false, true, false, RULES_FAILED, false},
        {false, 137 * EXIT, 0, false, false, false, RULES_FAILED, false},
        {true, SIGSEGV, 0, false, false, false, RULES_FAILED, true},
        {true, SIGABRT, 0, false, false, false, RULES_FAILED, true},
        {true, SIGABRT, 0, false, true, false, RULES_FAILED, false},
        {true, SIGKILL, 0, false, false, false, RULES_RESTART, false},
        {true, SIGKILL, 4, false, false, false, RULES_RESTART, false},
        {true, SIGKILL, 5, false, false, false, RULES_FAILED, true},
        {true, SIGKILL, 0, true, false, false, RULES_FAILED, false},
        {true, 137 * EXIT, 0, true, false, false, RULES_FAILED, false},
        {true, SIGBUS, 0, true, false, false, RULES_RESTART, false},
        {true, SIGTERM, 0, false, true, false, RULES_FAILED, false},
        {true, SIGTERM, 0, false, false, true, RULES_FAILED, true},
        {true, SIGTERM, 0, false, true, true, RULES_FAILED, false},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct exec_plan plan = {.disable_retries = rows[i].disable_retries,
                                 .restart_job_on_worker_restart = rows[i].restart_job};
        struct rules_exit e = {.chief = rows[i].chief,
                               .wait_status = rows[i].wait_status,
                               .out_of_memory = rows[i].out_of_memory,
                               .restarts = rows[i].restarts};
        struct rules_answer answer = rules_decide(&plan, &e);
        if (answer.verdict != rows[i].verdict || answer.retry != rows[i].retry)
            fail_msg("row %zu: verdict %d retry %d", i, answer.verdict, answer.retry);
        assert_int_equal(answer.code == TY_OK, answer.verdict != RULES_FAILED);
    }
}

/* Its own cgroup tells that memory was the reason: any bad end is that, a good one stays good. */
static void rules_memory_told(void **state)
{
    (void)state;
    static const int ends[] = {1 * EXIT, SIGSEGV, SIGKILL, SIGTERM};
    struct exec_plan plan = {0};
    for (size_t i = 0; i < TY_COUNT(ends); i++) {
        struct rules_exit e = {.wait_status = ends[i], .out_of_memory = true, .memory_told = true};
        struct rules_answer answer = rules_decide(&plan, &e);
        assert_int_equal(answer.verdict, RULES_FAILED);
        assert_int_equal(answer.code, TY_RESOURCE_EXHAUSTED);
        assert_false(answer.retry);
    }
    struct rules_exit good = {.chief = true, .out_of_memory = true, .memory_told = true};
    assert_int_equal(rules_decide(&plan, &good).verdict, RULES_SUCCEEDED);
}

static void rules_words(void **state)
{
    (void)state;
    static const struct {
        struct rules_exit e;
        const char *words;
    } rows[] = {
        {{.wait_status = EXIT}, "The replica workerpool1-3 exited with a non-zero status of 1."},
        {{.wait_status = SIGSEGV}, "The replica workerpool1-3 was ended by signal 11 (SIGSEGV)."},
        {{.wait_status = SIGKILL, .restarts = 5},
         "The replica workerpool1-3 was ended by signal 9 (SIGKILL) after 5 restarts."},
        {{.wait_status = SIGKILL, .out_of_memory = true},
         "The replica workerpool1-3 ran out of memory and was killed. The machine had none left: "
         "use "
         "a smaller batch, or run fewer jobs at once."},
        {{.wait_status = SIGKILL,
          .out_of_memory = true,
          .memory_told = true,
          .memory_limit_bytes = INT64_C(16) << 30},
         "The replica workerpool1-3 ran out of memory and was killed. Its limit is 16.0 GB of "
         "memory: use a machine type with more, a smaller batch, or fewer workers."},
        {{.wait_status = EXIT, .process_limit = 9},
         "The replica workerpool1-3 exited with a non-zero status of 1. It had reached its limit "
         "of "
         "9 processes and threads (replica_processes in trainyard.conf)."},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct ty_buf b;
        ty_buf_init(&b, 1024);
        rules_describe(&b, &(struct exec_replica){.pool = 1, .index = 3}, &rows[i].e);
        assert_string_equal(b.ptr, rows[i].words);
        ty_buf_clear(&b);
    }
}

#define CASE(name_, fn_)                                                                           \
    {                                                                                              \
        .name = (name_), .test_func = (fn_), .teardown_func = clear_arena                          \
    }
static void python_packages_are_prepared(void **state)
{
    (void)state;
    struct exec_plan plan;
    assert_ok(build(
        "{\"workerPoolSpecs\":[{\"replicaCount\":\"1\"," HOST(
            "\"a\"") "},"
                     "{\"replicaCount\":\"2\",\"pythonPackageSpec\":{\"executorImageUri\":"
                     "\"r/tf-cpu.2-15\",\"packageUris\":[\"/p/a b.whl\",\"file:///p/c.tar.gz\"],"
                     "\"pythonModule\":\"trainer.task\",\"args\":[\"--x\"],"
                     "\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"PYTHONPATH\","
                     "\"value\":\"/my/libs\"}]}}]}",
        &plan));
    assert_int_equal(plan.replica_count, 3);
    const struct exec_replica *r = &plan.replicas[1];
    assert_string_equal(r->argv[0], "/data/jobs/17/2/python-1/bin/python");
    assert_string_equal(r->argv[1], "-m");
    assert_string_equal(r->argv[2], "trainer.task");
    assert_string_equal(r->argv[3], "--x");
    assert_null(r->argv[4]);
    assert_string_equal(get_env(r, "A"), "1");
    assert_string_equal(get_env(r, "VIRTUAL_ENV"), "/data/jobs/17/2/python-1");
    assert_memory_equal(get_env(r, "PATH"), "/data/jobs/17/2/python-1/bin:", 29);
    char self[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    *strrchr(self, '/') = '\0'; /* our own binary comes next, and first where there is no Python */
    assert_memory_equal(get_env(r, "PATH") + 29, self, strlen(self));
    assert_memory_equal(get_env(&plan.replicas[0], "PATH"), self, strlen(self));
    static const char *const wanted[] = {
        "/proc/self/exe",
        "prepare",
        "--data=/data",
        "--into=/data/jobs/17/2",
        "--python=python3",
        "--wheels=",
        "--offline=0",
        "--pool=1",
        "--image=r/tf-cpu.2-15",
        "--module=trainer.task",
        "--python-path=/my/libs",
        "--package=/p/a b.whl",
        "--package=file:///p/c.tar.gz",
    };
    assert_non_null(plan.prepare);
    for (size_t i = 0; i < TY_COUNT(wanted); i++)
        assert_string_equal(plan.prepare->argv[i], wanted[i]);
    assert_null(plan.prepare->argv[TY_COUNT(wanted)]);
    assert_string_equal(get_env(plan.prepare, "TRAINYARD_ATTEMPT"), "17/2");

    assert_ok(build(GANG, &plan));
    assert_null(plan.prepare);
}

/* ---- what to do about it ---- */

static void hints_fit(void **state)
{
    (void)state;
    static const struct {
        enum hint_when when;
        int number;
        const char *lines, *expected;
    } rows[] = {
        {HINT_STATUS, 1, "Traceback\nModuleNotFoundError: No module named 'pandas'",
         "Its Python has no module 'pandas': install"},
        {HINT_STATUS, 1, "/usr/bin/python3: No module named trainer", "no module 'trainer'"},
        {HINT_STATUS, 1, "AttributeError: module 'tensorflow.compat.v1' has no attribute 'contrib'",
         "tf.contrib is in no TensorFlow 2"},
        {HINT_STATUS, 1, "python3: (ModuleNotFoundError: No module named 'a')", "no module 'a'"},
        /* The last error is the reason. */
        {HINT_STATUS, 1,
         "ModuleNotFoundError: No module named 'first'\nModuleNotFoundError: No module named "
         "'last'",
         "no module 'last'"},
        /* Only where a line begins with it: this is somebody's text. */
        {HINT_STATUS, 1, "I saw a MemoryError", "The status is the program's own"},
        {HINT_STATUS, 1, "MemoryError", "more memory than it may have"},
        /* What it printed is better than what its number may mean. */
        {HINT_STATUS, 2, "x: error: unrecognized arguments: --a --b", "does not know --a --b:"},
        {HINT_STATUS, 2, "", "Many programs end with 2"},
        {HINT_STATUS, 127, "trainyard: command not found in image: 'x y' is not in a:1.",
         "the path that 'x y' has inside the image"},
        {HINT_STATUS, 126, "trainyard: 'x' of image a:1 cannot be run", "'x' must be a program"},
        {HINT_STATUS, 125, "trainyard: podman could not start", "the status is the engine's"},
        {HINT_STATUS, 125, "", "The status is the program's own"},
        {HINT_STATUS, 127, "", "PATH is the image's own or, for image 'host', the one"},
        {HINT_STATUS, 137, "", "SIGKILL (128 + 9)"},
        {HINT_STATUS, 77, "", "The status is the program's own"},
        {HINT_SIGNAL, SIGILL, "MemoryError", "This CPU does not know"},
        {HINT_SIGNAL, SIGUSR2, "", "Nobody but the job itself"},
        {HINT_ERRNO, ENOENT, "", "There is no such program"},
        {HINT_ERRNO, EIO, "", ""},
        /* An open quote, an empty name: no such row, but a whole message all the same. */
        {HINT_STATUS, 1, "ModuleNotFoundError: No module named 'x", "Its Python lacks a module"},
        {HINT_STATUS, 1, "ModuleNotFoundError: No module named ''", "Its Python lacks a module"},
    };
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct ty_buf b;
        ty_buf_init(&b, 4096);
        ty_buf_addz(&b, "It ended.");
        hints_add(&b, rows[i].when, rows[i].number, ty_str_of(rows[i].lines));
        if (!strstr(b.ptr, rows[i].expected) || strchr(b.ptr, '*') || strlen(b.ptr) > 600)
            fail_msg("row %zu: %s", i, b.ptr);
        ty_buf_clear(&b);
    }
}

/* Every status and signal has something to say. */
static void hints_for_everything(void **state)
{
    (void)state;
    for (int i = 1; i < 256; i++) {
        struct ty_buf b;
        ty_buf_init(&b, 4096);
        struct rules_exit e = {.wait_status = i << 8};
        rules_advise(&b, &e, (ty_str){0});
        assert_true(b.len > 0);
        ty_buf_clear(&b);
        e.wait_status = i;
        if (i <= SIGRTMAX)
            rules_advise(&b, &e, (ty_str){0});
        assert_true(b.len > 0 || i > SIGRTMAX);
        ty_buf_clear(&b);
    }
}

/* A yard's id is made once, and part of the mark by which its processes are found. */
static void mark_names_the_yard(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    char dir[] = "/tmp/ty-plan-XXXXXX";
    assert_non_null(mkdtemp(dir));
    assert_string_equal(attempt_mark(&a, NULL, 17, 2), "TRAINYARD_ATTEMPT=17/2");
    assert_string_equal(attempt_mark(&a, dir, 17, 2), "TRAINYARD_ATTEMPT=17/2");
    assert_ok(exec_yard_id_make(dir));
    const char *id = exec_yard_id(&a, dir);
    assert_int_equal(strlen(id), 16);
    assert_ok(exec_yard_id_make(dir));
    assert_string_equal(exec_yard_id(&a, dir), id);
    assert_string_equal(attempt_mark(&a, dir, 17, 2),
                        ty_format(&a, "TRAINYARD_ATTEMPT=17/2/%s", id));
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
    ty_arena_clear(&a);
}

#define IMAGE(rest) "{\"replicaCount\":\"1\",\"containerSpec\":{\"imageUri\":\"g/x:1\"" rest "}}"

static const char *inside(const struct exec_replica *r, const char *name)
{
    struct exec_replica container = {.env = r->container->env};
    return get_env(&container, name);
}

static void containers_have_an_environment_of_their_own(void **state)
{
    (void)state;
    struct exec_plan plan;
    setenv("KEPT", "yes", 1);
    assert_ok(build(
        "{\"workerPoolSpecs\":[" IMAGE(
            ",\"command\":[\"a\"],\"args\":[\"b\"],\"env\":[{\"name\":\"A\",\"value\":"
            "\"1\"}]") "," IMAGE("") "],"
                                     "\"baseOutputDirectory\":{\"outputUriPrefix\":\"/out/\"}}",
        &plan));
    const struct exec_replica *r = &plan.replicas[0];
    assert_true(r->engine && r->container);
    assert_string_equal(r->argv[0], "g/x:1");
    assert_string_equal(r->container->command[0], "a");
    assert_string_equal(r->container->args[0], "b");
    assert_string_equal(inside(r, "A"), "1");
    assert_string_equal(inside(r, "RANK"), "0");
    assert_string_equal(inside(r, "TRAINYARD_URL"), "http://127.0.0.1:7575");
    assert_string_equal(inside(r, "AIP_MODEL_DIR"), "/out/model/");
    assert_string_equal(inside(r, "TRAINYARD_ATTEMPT"), "17/2");
    assert_string_equal(inside(r, "TRAINYARD_REPLICA"), "0-0");
    assert_non_null(inside(r, "TF_CONFIG"));
    assert_null(inside(r, "KEPT"));
    assert_null(inside(r, "PATH"));
    assert_string_equal(get_env(r, "KEPT"), "yes"); /* the engine's */
    assert_null(get_env(r, "A"));
    assert_string_equal(get_env(r, "TRAINYARD_REPLICA"), "0-0");
    assert_int_equal(r->container->mount_count, 2);
    assert_string_equal(r->container->mounts[0].from, "/data/jobs/17/2/0-0");
    assert_string_equal(r->container->mounts[1].to, "/out");
    assert_null(plan.replicas[1].container->command[0]);
    unsetenv("KEPT");
}

static void replicas_carry_their_tokens(void **state)
{
    (void)state;
    static const char *const three[] = {"t0", "t1", "t2"};
    struct exec_plan plan;
    setenv("TRAINYARD_TOKEN", "the server is a replica of another", 1);
    tokens = three;
    ty_err err = build(
        "{\"workerPoolSpecs\":[{\"replicaCount\":1,\"containerSpec\":{\"imageUri\":\"host\","
        "\"command\":[\"a\"],\"env\":[{\"name\":\"TRAINYARD_TOKEN\",\"value\":\"x\"}]}}," IMAGE(
            "") ",{\"replicaCount\":1,\"containerSpec\":{\"imageUri\":\"host\",\"command\":[\"b\"],"
                "\"env\":[{\"name\":\"GOOGLE_AUTH_TOKEN_FOR_TESTING\",\"value\":\"mine\"}]}}]}",
        &plan);
    tokens = NULL;
    unsetenv("TRAINYARD_TOKEN");
    assert_ok(err);
    assert_string_equal(get_env(&plan.replicas[0], "TRAINYARD_TOKEN"), "t0");
    assert_string_equal(get_env(&plan.replicas[0], "GOOGLE_AUTH_TOKEN_FOR_TESTING"), "t0");
    assert_string_equal(inside(&plan.replicas[1], "TRAINYARD_TOKEN"), "t1");
    assert_string_equal(inside(&plan.replicas[1], "GOOGLE_AUTH_TOKEN_FOR_TESTING"), "t1");
    assert_null(get_env(&plan.replicas[1], "TRAINYARD_TOKEN")); /* the engine's */
    assert_string_equal(get_env(&plan.replicas[2], "TRAINYARD_TOKEN"), "t2");
    assert_string_equal(get_env(&plan.replicas[2], "GOOGLE_AUTH_TOKEN_FOR_TESTING"), "mine");
    assert_null(get_env(plan.prepare, "TRAINYARD_TOKEN"));
    assert_string_equal(get_env(plan.prepare, "GOOGLE_AUTH_TOKEN_FOR_TESTING"), "local");
}

static void containers_are_prepared(void **state)
{
    (void)state;
    struct exec_plan plan;
    static const char *const wanted[] = {"--offline=0",   "--engine=auto", "--container=0",
                                         "--asked=g/x:1", "--used=g/x:1",  NULL};
    assert_ok(build("{\"workerPoolSpecs\":[" IMAGE("") "]}", &plan));
    assert_true(plan.prepare && plan.prepare->engine);
    for (size_t i = 0; wanted[i]; i++)
        assert_string_equal(plan.prepare->argv[6 + i], wanted[i]);
    assert_null(plan.prepare->argv[11]);
}

/* Everybody has /gcs; who is not the chief has a folder of its own for the model's. */
static void buckets_are_at_gcs(void **state)
{
    (void)state;
    struct exec_plan plan, back;
    char dir[] = "/tmp/ty-plan-XXXXXX";
    assert_non_null(mkdtemp(dir));
    assert_ok(ty_mkdirs(ty_format(&arena, "%s/buckets/bkt", dir), 0700));
    data_dir = dir;
    json_t *spec = parse("{\"workerPoolSpecs\":[{\"replicaCount\":1," HOST("\"a\"") "}," IMAGE(
        "") "],\"baseOutputDirectory\":{\"outputUriPrefix\":\"gs://bkt/o/\"}}");
    char *text = json_dumps(spec, 0);
    assert_ok(build(text, &plan));
    free(text);
    const struct exec_replica *chief = &plan.replicas[0], *worker = &plan.replicas[1];
    assert_string_equal(get_env(chief, "AIP_MODEL_DIR"), "gs://bkt/o/model/");
    assert_string_equal(get_env(chief, "AIP_TENSORBOARD_LOG_DIR"), "gs://bkt/o/logs/");
    assert_int_equal(chief->mount_count, 1);
    assert_string_equal(chief->mounts[0].from, ty_format(&arena, "%s/buckets", dir));
    assert_string_equal(chief->mounts[0].to, "/gcs");
    const struct container *c = worker->container;
    const struct container_mount *last = &c->mounts[c->mount_count - 1];
    const char *model = ty_format(&arena, "%s/buckets/bkt/o/model", dir);
    assert_string_equal(last->to, "/gcs/bkt/o/model");
    assert_string_equal(last->from, ty_format(&arena, "%s/workertemp_1", model));
    for (size_t i = 0; i < c->mount_count; i++) /* the URI is no path */
        assert_null(strstr(c->mounts[i].from, "gs:"));
    assert_ok(exec_output_make(&arena, dir, spec));
    assert_int_equal(access(last->from, F_OK), 0);
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_ok(spec_write(dirfd, &plan));
    assert_ok(spec_read(&arena, dirfd, &back));
    assert_int_equal(back.replicas[0].mount_count, 1);
    assert_string_equal(back.replicas[0].mounts[0].to, "/gcs");
    assert_ok(ty_remove_tree(dirfd, "buckets"));
    assert_int_equal(exec_output_make(&arena, dir, spec), TY_NOT_FOUND); /* and makes no folder */
    assert_non_null(strstr(ty_err_message(), "baseOutputDirectory"));
    assert_int_not_equal(access(ty_format(&arena, "%s/buckets", dir), F_OK), 0);
    close(dirfd);
    json_decref(spec);
    data_dir = "/data";
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
}

static void containers_survive_the_spec(void **state)
{
    (void)state;
    struct exec_plan plan, back;
    char dir[] = "/tmp/ty-plan-XXXXXX";
    assert_non_null(mkdtemp(dir));
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_ok(
        build("{\"workerPoolSpecs\":[" IMAGE(",\"command\":[\"a\",\"\\u00e4\\n\"]") "]}", &plan));
    struct container *c = plan.replicas[0].container;
    struct container_mount gcs = {.from = "/b \"1\"", .to = "/gcs", .read_only = true};
    c->mounts[c->mount_count++] = gcs; /* as whoever fills /gcs will */
    c->python_path = "/ours";
    c->gpus = true;
    plan.replicas[0].share = (struct exec_share){.cpu_milli = 1500, .memory_bytes = 1 << 30};
    assert_ok(spec_write(dirfd, &plan));
    assert_ok(spec_read(&arena, dirfd, &back));
    assert_true(back.prepare->engine && back.replicas[0].engine);
    const struct container *d = back.replicas[0].container;
    assert_string_equal(d->image, "g/x:1");
    assert_string_equal(d->command[1], "\xc3\xa4\n");
    assert_null(d->command[2]);
    assert_null(d->args[0]);
    assert_string_equal(d->python_path, "/ours");
    assert_string_equal(d->data_dir, "/data");
    assert_true(d->gpus && d->job_id == 17 && d->attempt == 2 && d->pool == 0);
    assert_true(d->cpu_milli == 1500 && d->memory_bytes == 1 << 30);
    assert_int_equal(d->mount_count, 2);
    assert_string_equal(d->mounts[1].from, gcs.from);
    assert_true(d->mounts[1].read_only && !d->mounts[0].read_only);
    for (size_t i = 0; c->env[i]; i++)
        assert_string_equal(d->env[i], c->env[i]);
    close(dirfd);
    assert_ok(ty_remove_tree(AT_FDCWD, dir));
}

static const struct CMUnitTest tests[] = {
    CASE("plan/containers_have_their_own_environment", containers_have_an_environment_of_their_own),
    CASE("plan/replicas_carry_their_tokens", replicas_carry_their_tokens),
    CASE("plan/containers_are_prepared", containers_are_prepared),
    CASE("plan/buckets_are_at_gcs", buckets_are_at_gcs),
    CASE("spec/containers", containers_survive_the_spec),
    CASE("plan/python_packages_are_prepared", python_packages_are_prepared),
    CASE("plan/single_replica", single_replica),
    CASE("plan/wandb_stays_here", wandb_stays_here),
    CASE("plan/cluster_variables", cluster_variables),
    CASE("plan/older_jobs_have_a_master", older_jobs_have_a_master),
    CASE("plan/older_words_for_replicas", older_words_for_replicas),
    CASE("plan/huge_spec_is_left_out", huge_spec_is_left_out),
    CASE("plan/bad_specs_name_the_field", bad_specs),
    CASE("plan/counts_and_timeouts", counts_and_timeouts),
    CASE("spec/round_trip", spec_round_trip),
    CASE("journal/round_trip", journal_round_trip),
    CASE("journal/torn_at_every_byte", journal_torn_at_every_byte),
    CASE("journal/damage_is_told", journal_damage_is_told),
    CASE("journal/newer_format_is_refused", journal_newer_format),
    CASE("rules/table", rules_table),
    CASE("rules/memory_told", rules_memory_told),
    CASE("rules/words", rules_words),
    TEST("hints/fit", hints_fit),
    TEST("hints/for_everything", hints_for_everything),
    TEST("mark/names_the_yard", mark_names_the_yard),
};
TEST_MAIN("exec-plan", tests)
