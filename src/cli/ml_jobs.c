/* ml_jobs.c -- ai-platform jobs submit training, list, describe, cancel, stream-logs.
 *
 * The lines on stderr that scripts look for ("Job [J] submitted successfully.") are gcloud's; data
 * alone goes to stdout. */
#include "cli/cli_int.h"

#include "python/python.h"
#include "wire/wire.h"

enum { CALL_MS = 60000, BODY_BYTES = 64 << 20, PAGE_JOBS = 1000 };

static const char job_format[] = "yaml(jobId,state,startTime,endTime)";

const char *cli_ml_path(struct cli *c, ty_str job, const char *verb)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    ty_buf_addz(&b, "/v1/projects/");
    wire_url_encode(&b, ty_str_of(c->project));
    ty_buf_addz(&b, "/jobs");
    if (job.len > 0) {
        ty_buf_addc(&b, '/');
        wire_url_encode(&b, job);
    }
    ty_buf_addz(&b, verb);
    const char *path = ty_cstr(c->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    return path;
}

static const char *track_words(const struct cli *c)
{
    return ty_format(c->arena, "%s%s%s", c->program, c->track[0] != '\0' ? " " : "", c->track);
}

/* ---- packages ---- */

static int refuse(const struct cli *c, const char *text)
{
    (void)!ty_fail(TY_INVALID_ARGUMENT, "%s", text);
    return cli_fail_value(c);
}

/* Where packages go: gs://STAGING/JOB, or JOB_DIR/packages; NULL: they stay here. */
static const char *staging(struct cli *c)
{
    ty_str bucket = cli_arg(&c->args, "staging-bucket"), dir = cli_arg(&c->args, "job-dir");
    while (bucket.len > 0 && ty_str_ends(bucket, TY_STR("/")))
        bucket.len--;
    while (dir.len > 0 && ty_str_ends(dir, TY_STR("/")))
        dir.len--;
    if (bucket.len > 0)
        return ty_format(c->arena, "%s" TY_STR_FMT "/" TY_STR_FMT,
                         ty_str_starts(bucket, TY_STR("gs://")) ? "" : "gs://", TY_STR_ARG(bucket),
                         TY_STR_ARG(c->args.positional));
    if (ty_str_starts(dir, TY_STR("gs://")))
        return ty_format(c->arena, TY_STR_FMT "/packages", TY_STR_ARG(dir));
    return NULL;
}

/* Put an archive where the job finds it, under the digest of its bytes. */
static int package_place(struct cli *c, const char *file, json_t *uris)
{
    const char *to = staging(c), *slash = strrchr(file, '/');
    char digest[PYTHON_KEY_BYTES];
    if (to == NULL && c->as_gcloud)
        return refuse(c, "If local packages are provided, the `--staging-bucket` or `--job-dir` "
                         "flag must be given.");
    if (to == NULL) {
        json_array_append_new(uris, json_string(file));
        return CLI_OK;
    }
    ty_err err = python_archive_digest(file, digest);
    if (err != TY_OK)
        return cli_fail(c, err);
    const char *uri = ty_format(c->arena, "%s/%s/%s", to, digest, slash != NULL ? slash + 1 : file);
    int status = cli_upload(c, file, uri);
    if (status == CLI_OK)
        json_array_append_new(uris, json_string(uri));
    return status;
}

/* --packages: archives here, or in a bucket already. */
static int packages_place(struct cli *c, json_t *uris)
{
    struct cli_item *items = NULL;
    int status = CLI_OK;
    if (cli_list_split(c->arena, cli_arg(&c->args, "packages"), &items) != TY_OK)
        return cli_fail_usage(c);
    for (; items != NULL && status == CLI_OK; items = items->next) {
        size_t count;
        if (ty_str_starts(items->value, TY_STR("gs://"))) {
            json_array_append_new(uris, json_stringn(items->value.ptr, items->value.len));
            continue;
        }
        const char *path = cli_paths(c, items->value, "", &count)[0];
        struct stat st;
        if (count != 1 || stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
            (void)!ty_fail(TY_INVALID_ARGUMENT, "argument --packages: '" TY_STR_FMT "' is no file",
                           TY_STR_ARG(items->value));
            return cli_fail_value(c);
        }
        status = package_place(c, path, uris);
    }
    return status;
}

/* --package-path=trainer: the project it is in, or that folder alone, as an archive. */
static int package_path_place(struct cli *c, json_t *uris)
{
    size_t count;
    struct cli_packed packed;
    const char *given = ty_cstr(c->arena, cli_arg(&c->args, "package-path"));
    char *folder = ty_cstr(c->arena, ty_str_of(cli_paths(c, ty_str_of(given), "", &count)[0]));
    char *slash = strrchr(folder, '/');
    if (access(ty_format(c->arena, "%s/__init__.py", folder), F_OK) != 0 || slash == folder) {
        (void)!ty_fail(TY_INVALID_ARGUMENT,
                       "[%s] is not a valid Python package because it does not contain an "
                       "`__init__.py` file. Please create one and try again. Also, please ensure "
                       "that --package-path refers to a local directory.",
                       given);
        return cli_fail_value(c);
    }
    *slash = '\0';
    struct cli_source source = {.folder = folder,
                                .only = slash + 1,
                                .image = "host", /* any: what the job runs on is its own affair */
                                .module = ty_cstr(c->arena, cli_arg(&c->args, "module-name"))};
    ty_err err = cli_source_pack(c, &source, &packed);
    if (err == TY_INVALID_ARGUMENT)
        return cli_fail_value(c);
    if (err != TY_OK)
        return cli_fail(c, err);
    int status = CLI_OK;
    for (size_t i = 0; i < packed.count && status == CLI_OK; i++)
        status = package_place(c, packed.packages[i], uris);
    return status;
}

/* ---- submit ---- */

/* Flags that exclude or need each other, as gcloud has them. */
static int submit_check(struct cli *c)
{
    const struct cli_args *args = &c->args;
    ty_str dir = cli_arg(args, "job-dir");
    if (cli_arg_on(args, "stream-logs") && cli_arg_on(args, "async")) {
        (void)!ty_fail(TY_INVALID_ARGUMENT,
                       "argument --async: At most one of --async | --stream-logs can be specified");
        return cli_fail_usage(c);
    }
    if (dir.len > 0 && !ty_str_starts(dir, TY_STR("gs://")) && dir.ptr[0] != '/') {
        (void)!ty_fail(TY_INVALID_ARGUMENT,
                       "argument --job-dir: '" TY_STR_FMT "' is not of the form gs://bucket/folder",
                       TY_STR_ARG(dir));
        return cli_fail_usage(c);
    }
    if (cli_arg_given(args, "master-image-uri") && cli_arg_given(args, "runtime-version"))
        return refuse(c, "Only one of --master-image-uri, --runtime-version can be set.");
    if (cli_arg_given(args, "package-path") && !cli_arg_given(args, "module-name"))
        return refuse(c, "--module-name must be set when --package-path is.");
    return CLI_OK;
}

static int submit_body(struct cli *c, json_t **ret_body)
{
    json_t *uris = json_array();
    ty_str config = {0};
    const char *path = NULL;
    ty_err err = TY_OK;
    int status = submit_check(c);
    if (status == CLI_OK && cli_arg(&c->args, "config").len > 0)
        err = cli_config_text(c, &config, &path);
    if (status == CLI_OK && err != TY_OK)
        status = cli_fail(c, err);
    if (status == CLI_OK && cli_arg_given(&c->args, "package-path"))
        status = package_path_place(c, uris);
    if (status == CLI_OK && cli_arg_given(&c->args, "packages"))
        status = packages_place(c, uris);
    if (status == CLI_OK) {
        err = cli_ml_body(c, config, path, uris, ret_body);
        status = err == TY_OK                    ? CLI_OK
                 : err == TY_FAILED_PRECONDITION ? cli_fail_value(c)
                                                 : cli_fail_usage(c);
    }
    json_decref(uris);
    return status;
}

/* The log on stderr, then the job as it ended. */
static int submit_follow(struct cli *c, json_t **job)
{
    const char *state = NULL;
    ty_str id = wire_json_get_str(*job, "jobId");
    struct cli_follow how = {.id = id,
                             .ml = true,
                             .out = stderr,
                             .again =
                                 ty_format(c->arena, "%s ai-platform jobs stream-logs " TY_STR_FMT,
                                           track_words(c), TY_STR_ARG(id))};
    json_t *ended;
    int status = cli_log_follow(c, &how, &state);
    if (status != CLI_OK)
        return status;
    ty_err err = cli_call(c, HTTP_GET, cli_ml_path(c, id, ""), TY_STR(""), CALL_MS, &ended);
    if (err != TY_OK)
        return cli_fail(c, err);
    json_decref(*job);
    *job = ended;
    return CLI_OK;
}

static void say_submitted(const struct cli *c, ty_str id)
{
    const char *words = track_words(c);
    cli_say(c,
            "Your job is still active. You may view the status of your job with the command\n\n"
            "  $ %s ai-platform jobs describe " TY_STR_FMT "\n\n"
            "or continue streaming the logs with the command\n\n"
            "  $ %s ai-platform jobs stream-logs " TY_STR_FMT "\n",
            words, TY_STR_ARG(id), words, TY_STR_ARG(id));
}

static ty_err create(struct cli *c, const json_t *body, json_t **ret_job)
{
    struct ty_buf b;
    ty_buf_init(&b, BODY_BYTES);
    wire_json_dump(&b, body);
    ty_err err = ty_buf_check(&b, "the job");
    if (err == TY_OK)
        err = cli_call(c, HTTP_POST, cli_ml_path(c, TY_STR(""), ""), ty_buf_str(&b), CALL_MS,
                       ret_job);
    ty_buf_clear(&b);
    return err;
}

int cli_ml_submit(struct cli *c)
{
    json_t *body = NULL, *job = NULL;
    bool stream = cli_arg_on(&c->args, "stream-logs");
    ty_err err = cli_target(c);
    if (err != TY_OK)
        return cli_fail(c, err);
    int status = submit_body(c, &body);
    if (status != CLI_OK)
        return status;
    err = create(c, body, &job);
    json_decref(body);
    if (err != TY_OK)
        return cli_fail(c, err);
    ty_str id = wire_json_get_str(job, "jobId");
    cli_say(c, "Job [" TY_STR_FMT "] submitted successfully.\n", TY_STR_ARG(id));
    if (stream)
        status = submit_follow(c, &job);
    else
        say_submitted(c, id);
    if (status == CLI_OK)
        status = cli_print(c, job, job_format);
    if (status == CLI_OK && stream && !ty_str_is(wire_json_get_str(job, "state"), "SUCCEEDED"))
        status = CLI_FAILED;
    json_decref(job);
    return status;
}

/* ---- list ---- */

/* All pages, or as many as --limit needs; filter and sort are gcloud's and applied here. */
static ty_err list_all(struct cli *c, struct cli_filter *filter, json_t *ret_jobs)
{
    int64_t limit = cli_arg_int(&c->args, "limit", INT64_MAX);
    bool sorted = cli_arg(&c->args, "sort-by").len > 0;
    int64_t size = cli_arg_int(&c->args, "page-size", PAGE_JOBS);
    const char *token = "";
    do {
        json_t *page, *job;
        size_t i;
        const char *query = ty_format(c->arena, "?pageSize=%" PRId64 "%s%s", size,
                                      token[0] != '\0' ? "&pageToken=" : "", token);
        ty_err err =
            cli_call(c, HTTP_GET, cli_ml_path(c, TY_STR(""), query), TY_STR(""), CALL_MS, &page);
        if (err != TY_OK)
            return err;
        json_array_foreach (json_object_get(page, "jobs"), i, job) {
            if (filter == NULL || cli_filter_matches(filter, job))
                json_array_append(ret_jobs, job);
        }
        token = ty_cstr(c->arena, wire_json_get_str(page, "nextPageToken"));
        json_decref(page);
    } while (token[0] != '\0' && (sorted || (int64_t)json_array_size(ret_jobs) < limit));
    return TY_OK;
}

static int list_print(struct cli *c, const json_t *jobs)
{
    json_t *job;
    size_t i;
    if (cli_arg_on(&c->args, "uri")) {
        json_array_foreach (jobs, i, job) {
            printf("%s%s\n", c->url, cli_ml_path(c, wire_json_get_str(job, "jobId"), ""));
        }
        return CLI_OK;
    }
    if (json_array_size(jobs) == 0 && cli_arg(&c->args, "format").len == 0) {
        cli_say(c, "Listed 0 items.\n");
        return CLI_OK;
    }
    return cli_print(c, jobs, "table(jobId,state:label=STATUS,createTime.date():label=CREATED)");
}

int cli_ml_list(struct cli *c)
{
    struct cli_filter *filter = NULL;
    ty_str text = cli_arg(&c->args, "filter");
    int64_t limit = cli_arg_int(&c->args, "limit", INT64_MAX);
    json_t *jobs = json_array(), *sorted = NULL;
    ty_err err = cli_target(c);
    if (err == TY_OK && text.len > 0)
        err = cli_filter_parse(c->arena, text, &filter);
    if (err == TY_OK)
        err = list_all(c, filter, jobs);
    int status = CLI_OK;
    if (err == TY_OK) {
        cli_filter_warn(filter);
        sorted = cli_sort_by_keys(c->arena, cli_arg(&c->args, "sort-by"), false, jobs);
        while ((int64_t)json_array_size(sorted) > limit)
            json_array_remove(sorted, json_array_size(sorted) - 1);
        status = list_print(c, sorted);
    } else {
        status = cli_fail(c, err);
    }
    cli_filter_clear(filter);
    json_decref(jobs);
    json_decref(sorted);
    return status;
}

/* ---- describe, cancel, stream-logs ---- */

/* Three tables, as gcloud has them. */
static int print_summary(struct cli *c, const json_t *job)
{
    static const struct {
        const char *member, *format;
    } parts[] = {
        {NULL, "table[box,title=\"Job Overview\"](jobId,createTime,startTime,endTime,state)"},
        {"trainingInput",
         "table[box,title=\"Training Input Summary\"](runtimeVersion:optional,region,"
         "scaleTier:optional,pythonModule,parameterServerType:optional,"
         "parameterServerCount:optional,masterType:optional,workerType:optional,"
         "workerCount:optional,jobDir:optional)"},
        {"trainingOutput", "table[box,title=\"Training Output Summary\"]"
                           "(completedTrialCount:optional:label=TRIALS,"
                           "consumedMLUnits:label=ML_UNITS)"},
    };
    int status = CLI_OK;
    for (size_t i = 0; i < TY_COUNT(parts) && status == CLI_OK; i++) {
        const json_t *part = parts[i].member != NULL ? json_object_get(job, parts[i].member) : job;
        if (json_object_size(part) == 0)
            continue;
        json_t *rows = json_pack("[O]", part);
        status = cli_print(c, rows, parts[i].format);
        json_decref(rows);
    }
    return status;
}

int cli_ml_describe(struct cli *c)
{
    json_t *job;
    ty_err err = cli_target(c);
    if (err == TY_OK)
        err = cli_call(c, HTTP_GET, cli_ml_path(c, c->args.positional, ""), TY_STR(""), CALL_MS,
                       &job);
    if (err != TY_OK)
        return cli_fail(c, err);
    int status = cli_arg_on(&c->args, "summarize") && !cli_arg_given(&c->args, "format")
                     ? print_summary(c, job)
                     : cli_print(c, job, "yaml");
    json_decref(job);
    return status;
}

int cli_ml_cancel(struct cli *c)
{
    json_t *nothing;
    ty_err err = cli_target(c);
    if (err == TY_OK)
        err = cli_call(c, HTTP_POST, cli_ml_path(c, c->args.positional, ":cancel"), TY_STR("{}"),
                       CALL_MS, &nothing);
    if (err != TY_OK)
        return cli_fail(c, err);
    json_decref(nothing);
    return CLI_OK;
}

int cli_ml_stream_logs(struct cli *c)
{
    const char *state = NULL;
    json_t *job;
    ty_err err = cli_target(c);
    if (err == TY_OK) /* also: is there such a job? A number is none of this API's ids. */
        err = cli_call(c, HTTP_GET, cli_ml_path(c, c->args.positional, ""), TY_STR(""), CALL_MS,
                       &job);
    if (err != TY_OK)
        return cli_fail(c, err);
    json_decref(job);
    struct cli_follow how = {.id = c->args.positional,
                             .ml = true,
                             .out = stdout,
                             .again =
                                 ty_format(c->arena, "%s ai-platform jobs stream-logs " TY_STR_FMT,
                                           track_words(c), TY_STR_ARG(c->args.positional))};
    int status = cli_log_follow(c, &how, &state);
    if (status != CLI_OK)
        return status;
    bool good = strcmp(state, "JOB_STATE_SUCCEEDED") == 0;
    cli_say(c, "Job " TY_STR_FMT " ended: %s\n", TY_STR_ARG(how.id), state + strlen("JOB_STATE_"));
    return good || c->as_gcloud ? CLI_OK : CLI_FAILED;
}
