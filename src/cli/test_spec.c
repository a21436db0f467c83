/* test_spec.c -- flags and YAML as a job; which job is meant; why and watch. */
#include "cli/test_cli.h"

/* ---- specs ---- */

static json_t *body_of(const char *line, const char *yaml)
{
    struct cli_args args;
    json_t *pools, *spec = NULL, *body;
    assert_ok(parse(CREATE, line, &args));
    assert_ok(cli_pools_from_flags(&arena, &args, &pools));
    if (yaml != NULL)
        assert_ok(cli_spec_from_yaml(ty_str_of(yaml), "job.yaml", &spec));
    assert_ok(cli_job_build(&arena, &args, spec, pools, &body));
    return body;
}

static void spec_from_flags(void **state)
{
    (void)state;
    json_t *body =
        body_of("--display-name=t1" SEP
                "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=img:1" SEP
                "--worker-pool-spec=" SEP
                "--worker-pool-spec=replica-count=2,machine-type=m,container-image-uri=i,"
                "accelerator-type=NVIDIA_TESLA_T4" SEP "--args=^|^--x=1,2|--y" SEP
                "--command=sh,-c" SEP "--labels=a=b,c=d" SEP "--labels=e=f",
                NULL);
    assert_json(body,
                "{\"displayName\":\"t1\",\"labels\":{\"a\":\"b\",\"c\":\"d\",\"e\":\"f\"},"
                "\"jobSpec\":{\"workerPoolSpecs\":["
                "{\"machineSpec\":{\"machineType\":\"n1-standard-4\"},\"replicaCount\":\"1\","
                "\"containerSpec\":{\"imageUri\":\"img:1\",\"args\":[\"--x=1,2\",\"--y\"],"
                "\"command\":[\"sh\",\"-c\"]}},{},"
                "{\"machineSpec\":{\"machineType\":\"m\",\"acceleratorType\":\"NVIDIA_TESLA_T4\","
                "\"acceleratorCount\":1},\"replicaCount\":\"2\",\"containerSpec\":{\"imageUri\":"
                "\"i\",\"args\":[\"--x=1,2\",\"--y\"],\"command\":[\"sh\",\"-c\"]}}]}}");
    json_decref(body);
}

static void spec_python_package(void **state)
{
    (void)state;
    json_t *body =
        body_of("--display-name=p" SEP
                "--worker-pool-spec=machine-type=x,executor-image-uri=e,python-module=m.t" SEP
                "--python-package-uris=gs://b/p.tar.gz" SEP "--args=-v" SEP "--command=ignored",
                NULL);
    assert_json(body, "{\"displayName\":\"p\",\"jobSpec\":{\"workerPoolSpecs\":[{\"machineSpec\":{"
                      "\"machineType\":\"x\"},\"replicaCount\":\"1\",\"pythonPackageSpec\":{"
                      "\"executorImageUri\":\"e\",\"pythonModule\":"
                      "\"m.t\",\"packageUris\":[\"gs://b/p.tar.gz\"],\"args\":[\"-v\"]}}]}}");
    json_decref(body);
}

static const char YAML[] = "workerPoolSpecs:\n"
                           "  machineSpec: {machineType: m}\n"
                           "  containerSpec: {imageUri: host, command: [echo], args: [file]}\n"
                           "service_account: from@file\n"
                           "network: from-file\n";

static void spec_flags_win_over_the_file(void **state)
{
    (void)state;
    json_t *body = body_of("--display-name=y" SEP "--args=flag" SEP
                           "--service-account=from@flag" SEP "--enable-web-access",
                           YAML);
    assert_json(body,
                "{\"displayName\":\"y\",\"jobSpec\":{\"workerPoolSpecs\":[{\"machineSpec\":{"
                "\"machineType\":\"m\"},\"containerSpec\":{\"imageUri\":\"host\",\"command\":["
                "\"echo\"],\"args\":[\"flag\"]}}],\"serviceAccount\":\"from@flag\",\"network\":"
                "\"from-file\",\"enableWebAccess\":true}}");
    json_decref(body);
}

static void spec_pools_of_flags_replace_those_of_the_file(void **state)
{
    (void)state;
    json_t *body = body_of(
        "--display-name=y" SEP "--worker-pool-spec=machine-type=m,container-image-uri=other", YAML);
    json_t *pools = cli_json_at(body, TY_STR("jobSpec.workerPoolSpecs"));
    assert_json(
        pools,
        "[{\"machineSpec\":{\"machineType\":\"m\"},\"replicaCount\":\"1\",\"containerSpec\":{"
        "\"imageUri\":\"other\"}}]");
    json_decref(pools);
    json_decref(body);
}

static void spec_mistakes_are_named(void **state)
{
    static const struct {
        const char *spec, *named;
    } cases[] = {
        {"", "first one is empty"},
        {"bogus=1", "'bogus'"},
        {"replica-cout=1,container-image-uri=i", "did you mean 'replica-count'"},
        {"container-image-uri=i", "machine-type"},
        {"machine-type=m", "container-image-uri"},
        {"machine-type=m,container-image-uri=i,executor-image-uri=e", "exactly one"},
        {"machine-type=m,executor-image-uri=e", "python-module"},
        {"machine-type=m,container-image-uri=i,python-module=m", "python-module"},
        {"machine-type=m,container-image-uri=i,accelerator-count=1", "accelerator-type"},
        {"container-image-uri=i,replica-count=two", "replica-count"},
        {"container-image-uri=i,replica-count=-1", "replica-count"},
        {"container-image-uri=i,replica-count=99999999999999999999", "is too big"},
        {"machine-type=m,container-image-uri=i,local-package-path=.", "local-package-path"},
        {"container-image-uri=\xff", "UTF-8"},
    };
    (void)state;
    for (size_t i = 0; i < TY_COUNT(cases); i++) {
        struct cli_args args;
        json_t *pools;
        assert_ok(parse(CREATE, ty_format(&arena, "--worker-pool-spec=%s", cases[i].spec), &args));
        ty_err err = cli_pools_from_flags(&arena, &args, &pools);
        assert_true(err == TY_INVALID_ARGUMENT || err == TY_FAILED_PRECONDITION);
        if (strstr(ty_err_message(), cases[i].named) == NULL)
            fail_msg("'%s': '%s' does not name '%s'", cases[i].spec, ty_err_message(),
                     cases[i].named);
    }
}

static void spec_bad_files_are_named(void **state)
{
    static const char *const texts[] = {"workerPoolSpecs: [", "- a list", "", "a: &a [*a]"};
    (void)state;
    for (size_t i = 0; i < TY_COUNT(texts); i++) {
        json_t *spec;
        assert_err(TY_INVALID_ARGUMENT, cli_spec_from_yaml(ty_str_of(texts[i]), "job.yaml", &spec));
        assert_non_null(strstr(ty_err_message(), "job.yaml"));
    }
    json_t *spec;
    assert_err(TY_INVALID_ARGUMENT,
               cli_spec_from_yaml(TY_STR("display_name: x\njob_spec: {}\n"), "job.yaml", &spec));
    assert_non_null(strstr(ty_err_message(), "CustomJobSpec"));
    assert_non_null(strstr(ty_err_message(), "under 'jobSpec'"));
}

/* A flag that changes one pool must not change another through an alias. */
static void spec_aliases_are_copies(void **state)
{
    (void)state;
    json_t *body = body_of("--display-name=y", "workerPoolSpecs:\n"
                                               "- machineSpec: &m {machineType: m}\n"
                                               "- machineSpec: *m\n");
    json_t *pools = cli_json_at(body, TY_STR("jobSpec.workerPoolSpecs"));
    assert_json(pools, "[{\"machineSpec\":{\"machineType\":\"m\"}},"
                       "{\"machineSpec\":{\"machineType\":\"m\"}}]");
    json_t *first = cli_json_at(body, TY_STR("jobSpec.workerPoolSpecs[0].machineSpec"));
    json_t *second = cli_json_at(body, TY_STR("jobSpec.workerPoolSpecs[1].machineSpec"));
    assert_ptr_not_equal(first, second);
    json_decref(first);
    json_decref(second);
    json_decref(pools);
    json_decref(body);
}

static void job_names_in_both_forms(void **state)
{
    (void)state;
    struct cli c = {.arena = &arena, .project = "p", .region = "r"};
    ty_str id;
    assert_ok(cli_job_name(&c, TY_STR("123"), &id));
    assert_str(id, "123");
    assert_string_equal(c.project, "p");
    assert_ok(cli_job_name(&c, TY_STR("projects/a/locations/b/customJobs/7"), &id));
    assert_str(id, "7");
    assert_string_equal(c.project, "a");
    assert_string_equal(c.region, "b");
    assert_err(TY_INVALID_ARGUMENT, cli_job_name(&c, TY_STR("a/b"), &id));
    assert_err(TY_INVALID_ARGUMENT,
               cli_job_name(&c, TY_STR("projects/a/locations/b/models/7"), &id));
    assert_ok(cli_job_name(&c, TY_STR("a?b"), &id));
    assert_str(id, "a%3Fb");
}

static ty_err pick(const char *text, const char *ids_and_names, ty_str *ret_id)
{
    json_t *jobs;
    struct cli_pick p = {.text = ty_str_of(text)};
    assert_ok(wire_json_parse(ty_str_of(ids_and_names), &jobs));
    cli_pick_add(&arena, &p, jobs);
    json_decref(jobs);
    return cli_pick_result(&arena, &p, ret_id);
}

static void job_picked_by_digits_or_name(void **state)
{
    (void)state;
    const char *jobs = "[{\"name\":\"projects/p/locations/r/customJobs/1794786703890216722\","
                       "\"displayName\":\"new\"},"
                       "{\"name\":\"projects/p/locations/r/customJobs/1794786702922862793\","
                       "\"displayName\":\"same\"},"
                       "{\"name\":\"projects/p/locations/r/customJobs/1794786701111111111\","
                       "\"displayName\":\"same\"},"
                       "{\"name\":\"projects/p/locations/r/customJobs/1794786700000000001\","
                       "\"displayName\":\"0722\"}]";
    ty_str id;
    assert_ok(pick("6722", jobs, &id));
    assert_str(id, "1794786703890216722");
    assert_ok(pick("179478670292", jobs, &id));
    assert_str(id, "1794786702922862793");
    assert_ok(pick("same", jobs, &id)); /* the newest */
    assert_str(id, "1794786702922862793");
    assert_ok(pick("0722", jobs, &id)); /* no id ends so: a name may be digits */
    assert_str(id, "1794786700000000001");
    assert_err(TY_INVALID_ARGUMENT, pick("1794", jobs, &id));
    assert_non_null(strstr(ty_err_message(), "4 jobs"));
    assert_non_null(strstr(ty_err_message(), "\n  1794786703890216722  new"));
    assert_err(TY_NOT_FOUND, pick("722", jobs, &id)); /* too few digits, and no name */
    assert_err(TY_NOT_FOUND, pick("sam", jobs, &id));
    assert_non_null(strstr(ty_err_message(), "'sam'"));
}

/* ---- watch ---- */

static void watch_shows_changes_only(void **state)
{
    (void)state;
    json_t *seen = json_object(), *jobs;
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    assert_ok(
        wire_json_parse(TY_STR("[{\"name\":\"p/2\",\"displayName\":\"b\\n\",\"state\":\"RUNNING\"},"
                               "{\"name\":\"p/1\",\"displayName\":\"a\",\"state\":\"SUCCEEDED\"}]"),
                        &jobs));
    cli_watch_changes(&arena, seen, jobs, &b);
    const char *first = strstr(b.ptr, "\t1\tSUCCEEDED\ta\n");
    const char *second = strstr(b.ptr, "\t2\tRUNNING\tb\\n\n");
    assert_non_null(first);
    assert_true(second > first);
    ty_buf_clear(&b);
    cli_watch_changes(&arena, seen, jobs, &b);
    assert_int_equal(b.len, 0);
    json_object_set_new(json_array_get(jobs, 0), "state", json_string("FAILED"));
    cli_watch_changes(&arena, seen, jobs, &b);
    assert_non_null(strstr(b.ptr, "\t2\tFAILED\t"));
    assert_null(strstr(b.ptr, "\t1\t"));
    ty_buf_clear(&b);
    json_decref(jobs);
    json_decref(seen);
}

/* ---- why ---- */

static const char *why_text(const char *answer)
{
    struct ty_buf b;
    json_t *why;
    assert_ok(wire_json_parse(ty_str_of(answer), &why));
    ty_buf_init(&b, 1 << 16);
    cli_why_text(&arena, &b, why);
    const char *text = ty_cstr(&arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(why);
    return text;
}

static void why_waiting_names_holders_and_remedy(void **state)
{
    (void)state;
    const char *text = why_text(
        "{\"state\":\"JOB_STATE_QUEUED\",\"waits\":true,\"replicas\":2,\"attempt\":0,\"retries\":0,"
        "\"restarts\":0,\"name\":\"projects/p/locations/r/customJobs/"
        "17\",\"displayName\":\"a\\u001bb\","
        "\"since\":\"2026-01-02T00:00:00Z\",\"reason\":\"waiting for slots\",\"slots\":4,"
        "\"slotsUsed\":3,\"aheadCount\":0,\"startsWith\":\"1 more free replica slot\",\"heldBy\":[{"
        "\"job\":\"12\",\"state\":\"JOB_STATE_RUNNING\",\"replicas\":3,\"displayName\":\"long\","
        "\"since\":\"2026-01-02T00:00:00Z\"}],\"ahead\":[]}");
    assert_non_null(strstr(text, "Job 17 'a\\x1bb' is QUEUED.\n"));
    assert_non_null(strstr(text, "\nSince 2"));
    assert_non_null(strstr(text, " ago) it waits: waiting for slots.\n"));
    assert_non_null(strstr(text, "3 of 4 in use; it needs 2."));
    assert_non_null(strstr(text, "\n12  long  RUNNING  3 "));
    assert_non_null(strstr(text, "What would start it now: 1 more free replica slot.\n"));
    assert_null(strstr(text, "before it"));
    assert_null(strstr(text, "Attempt"));
}

static void why_ended_says_how(void **state)
{
    (void)state;
    const char *text = why_text(
        "{\"state\":\"JOB_STATE_FAILED\",\"waits\":false,\"replicas\":2,\"attempt\":4,\"retries\":"
        "3,"
        "\"restarts\":1,\"name\":\"projects/p/locations/r/customJobs/17\",\"displayName\":\"x\","
        "\"since\":\"2026-01-02T00:00:00Z\",\"reason\":\"status of 3\",\"earlier\":[{"
        "\"attempt\":1,\"reason\":\"it\\u001b was lost\"},{\"attempt\":2,\"reason\":\"status of "
        "75\"}]}");
    assert_non_null(strstr(text, "\nIt ended 2"));
    assert_non_null(strstr(text, "): status of 3\n"));
    assert_non_null(strstr(text, "tried again 3 times, replicas were restarted in place 1 time."));
    assert_non_null(strstr(text, "\nAttempt 1: it\\x1b was lost\nAttempt 2: status of 75\n"));
    assert_null(strstr(text, "slots"));
    assert_null(strstr(text, "before"));
}

static const struct CMUnitTest tests[] = {
    CLI_TEST("spec/from_flags", spec_from_flags),
    CLI_TEST("spec/python_package", spec_python_package),
    CLI_TEST("spec/flags_win_over_the_file", spec_flags_win_over_the_file),
    CLI_TEST("spec/pools_of_flags_replace_those_of_the_file",
             spec_pools_of_flags_replace_those_of_the_file),
    CLI_TEST("spec/mistakes_are_named", spec_mistakes_are_named),
    CLI_TEST("spec/bad_files_are_named", spec_bad_files_are_named),
    CLI_TEST("spec/aliases_are_copies", spec_aliases_are_copies),
    CLI_TEST("job/names_in_both_forms", job_names_in_both_forms),
    CLI_TEST("job/picked_by_digits_or_name", job_picked_by_digits_or_name),
    CLI_TEST("watch/shows_changes_only", watch_shows_changes_only),
    CLI_TEST("why/waiting_names_holders_and_remedy", why_waiting_names_holders_and_remedy),
    CLI_TEST("why/ended_says_how", why_ended_says_how),
};
RUN_GROUP(spec)
