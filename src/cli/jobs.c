/* jobs.c -- ai custom-jobs create, list, describe, cancel.
 *
 * The lines on stderr that scripts look for ("Using endpoint", "is submitted successfully.", "has
 * been sent.") are gcloud's; data alone goes to stdout. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum {
    CALL_MS = 60000,
    CONFIG_BYTES = 16 << 20,
    PAGE_JOBS = 1000,
};

const char *cli_jobs_path(struct cli *c)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 16);
    ty_buf_addz(&b, "/v1/projects/");
    wire_url_encode(&b, ty_str_of(c->project));
    ty_buf_addz(&b, "/locations/");
    wire_url_encode(&b, ty_str_of(c->region));
    ty_buf_addz(&b, "/customJobs");
    const char *path = ty_cstr(c->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    return path;
}

bool cli_job_is_path(ty_str job)
{
    return memchr(job.ptr, '/', job.len) != NULL;
}

ty_err cli_job_name(struct cli *c, ty_str job, ty_str *ret_id)
{
    ty_str part[6], rest = job;
    size_t n = 0;
    bool more = true;
    while (more && n < TY_COUNT(part))
        more = ty_str_split(&rest, '/', &part[n++]);
    if (n == 6 && !more && ty_str_is(part[0], "projects") && ty_str_is(part[2], "locations") &&
        ty_str_is(part[4], "customJobs")) {
        c->project = ty_cstr(c->arena, part[1]);
        c->region = ty_cstr(c->arena, part[3]);
        job = part[5];
    } else if (n != 1 || job.len == 0) {
        return ty_fail(TY_INVALID_ARGUMENT,
                       "argument JOB: '" TY_STR_FMT "' is neither a number nor "
                       "projects/P/locations/R/customJobs/N",
                       TY_STR_ARG(job));
    }
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    wire_url_encode(&b, job);
    *ret_id = ty_str_dup(c->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    return TY_OK;
}

/* Target, "Using endpoint", and the path of the job that was named (NULL: no job). */
static int begin(struct cli *c, const char **ret_path)
{
    ty_str id = {0};
    if (ret_path != NULL) {
        int status = cli_job_begin(c, &id);
        if (status != CLI_OK)
            return status;
        *ret_path = ty_format(c->arena, "%s/" TY_STR_FMT, cli_jobs_path(c), TY_STR_ARG(id));
    } else {
        ty_err err = cli_target(c);
        if (err != TY_OK)
            return cli_fail(c, err);
    }
    cli_say(c, "Using endpoint [%s/]\n", c->url);
    return CLI_OK;
}

/* ---- create ---- */

/* All of stdin. It is not opened by a name: what it is connected to may have none. */
static ty_err stdin_read(struct ty_arena *a, ty_str *ret_text)
{
    struct ty_buf b;
    char part[16384];
    ssize_t n;
    ty_buf_init(&b, CONFIG_BYTES);
    while ((n = read(STDIN_FILENO, part, sizeof(part))) != 0 && !b.full) {
        if (n > 0)
            ty_buf_add(&b, part, (size_t)n);
        else if (errno != EINTR)
            break;
    }
    ty_err err = n < 0 ? ty_fail_errno(errno, "cannot read stdin") : ty_buf_check(&b, "stdin");
    if (err == TY_OK)
        *ret_text = ty_str_dup(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return err;
}

ty_err cli_config_text(struct cli *c, ty_str *ret_text, const char **ret_path)
{
    ty_str text;
    struct stat st;
    const char *path = ty_cstr(c->arena, cli_arg(&c->args, "config"));
    bool from_stdin = strcmp(path, "-") == 0;
    ty_err err;
    if (from_stdin)
        err = stdin_read(c->arena, &text);
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        err = ty_fail(TY_INVALID_ARGUMENT, "'%s' is a folder; a YAML file is needed", path);
    else
        err = ty_file_read(AT_FDCWD, path, CONFIG_BYTES, c->arena, &text);
    if (err != TY_OK)
        return ty_wrap(err, "argument --config");
    *ret_text = text;
    *ret_path = from_stdin ? "stdin" : path;
    return TY_OK;
}

static ty_err config_load(struct cli *c, json_t **ret_spec)
{
    ty_str text;
    const char *path;
    ty_err err = cli_config_text(c, &text, &path);
    return err == TY_OK ? cli_spec_from_yaml(text, path, ret_spec) : err;
}

static int create_body(struct cli *c, json_t **ret_body)
{
    json_t *pools = NULL, *spec = NULL;
    if (!cli_arg_given(&c->args, "display-name")) { /* an empty one is for the server to refuse */
        (void)!ty_fail(TY_INVALID_ARGUMENT, "argument --display-name: must be specified");
        return cli_fail_usage(c);
    }
    ty_err flags = cli_pools_from_flags(c->arena, &c->args, &pools);
    if (flags != TY_OK)
        return flags == TY_FAILED_PRECONDITION ? cli_fail_value(c) : cli_fail_usage(c);
    if (cli_pools_package(c, pools) != TY_OK) {
        json_decref(pools);
        return cli_fail_usage(c);
    }
    if (pools == NULL && cli_arg(&c->args, "config").len == 0) {
        (void)!ty_fail(TY_INVALID_ARGUMENT,
                       "at least one of --worker-pool-spec | --config must be specified");
        return cli_fail_usage(c);
    }
    if (cli_arg(&c->args, "config").len > 0) {
        ty_err err = config_load(c, &spec);
        if (err == TY_OK && pools == NULL)
            err = cli_spec_check(spec);
        if (err != TY_OK) {
            json_decref(spec);
            json_decref(pools);
            return cli_fail(c, err);
        }
    }
    ty_err err = cli_job_build(c->arena, &c->args, spec, pools, ret_body);
    return err == TY_OK                    ? CLI_OK
           : err == TY_FAILED_PRECONDITION ? cli_fail_value(c)
                                           : cli_fail_usage(c);
}

/* As gcloud says it to gcloud's users; the others learn more. */
static void say_submitted(const struct cli *c, const json_t *job)
{
    const char *name = ty_cstr(c->arena, wire_json_get_str(job, "name")), *program = c->program;
    const char *track = ty_format(c->arena, "%s%s", c->track[0] != '\0' ? " " : "", c->track);
    cli_say(c, "CustomJob [%s] is submitted successfully.\n\n", name);
    if (c->as_gcloud)
        cli_say(c,
                "Your job is still active. You may view the status of your job with the command\n\n"
                "  $ %s%s ai custom-jobs describe %s\n\n"
                "or continue streaming the logs with the command\n\n"
                "  $ %s%s ai custom-jobs stream-logs %s\n",
                program, track, name, program, track, name);
    else
        cli_say(c,
                "Follow its log:\n  $ %s ai custom-jobs stream-logs %s\n"
                "See how it is doing:\n  $ %s ai custom-jobs describe %s\n"
                "Ask what it waits for:\n  $ %s why %s\n"
                "Stop it:\n  $ %s ai custom-jobs cancel %s\n",
                program, name, program, name, program, name, program, name);
}

int cli_custom_jobs_create(struct cli *c)
{
    json_t *body = NULL, *job;
    int status = create_body(c, &body);
    if (status != CLI_OK)
        return status;
    status = begin(c, NULL);
    if (status == CLI_OK) {
        struct ty_buf b;
        ty_buf_init(&b, (size_t)CONFIG_BYTES * 4);
        wire_json_dump(&b, body);
        ty_err err = ty_buf_check(&b, "the job");
        if (err == TY_OK)
            err = cli_call(c, HTTP_POST, cli_jobs_path(c), ty_buf_str(&b), CALL_MS, &job);
        ty_buf_clear(&b);
        if (err != TY_OK) {
            status = cli_fail(c, err);
        } else {
            say_submitted(c, job);
            status = cli_print(c, job, "none");
            json_decref(job);
        }
    }
    json_decref(body);
    return status;
}

/* ---- list ---- */

static ty_err list_page(struct cli *c, ty_str token, int64_t size, json_t **ret_page)
{
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    ty_buf_addf(&b, "%s?pageSize=%" PRId64, cli_jobs_path(c), size);
    if (token.len > 0) {
        ty_buf_addz(&b, "&pageToken=");
        wire_url_encode(&b, token);
    }
    ty_err err = ty_buf_check(&b, "the address");
    if (err == TY_OK)
        err = cli_call(c, HTTP_GET, b.ptr, TY_STR(""), CALL_MS, ret_page);
    ty_buf_clear(&b);
    return err;
}

/* All pages, or as many as --limit needs. A sort has to see all of them. The filter is applied here
 * and not by the server: gcloud's language is its own. */
static ty_err list_all(struct cli *c, struct cli_filter *filter, json_t *ret_jobs)
{
    int64_t limit = cli_arg_int(&c->args, "limit", INT64_MAX);
    bool sorted = cli_arg(&c->args, "sort-by").len > 0;
    int64_t size = !sorted && filter == NULL && limit < PAGE_JOBS ? limit : PAGE_JOBS;
    size = cli_arg_int(&c->args, "page-size", size);
    ty_str token = {"", 0};
    do {
        json_t *page, *job;
        size_t i;
        ty_err err = list_page(c, token, size, &page);
        if (err != TY_OK)
            return err;
        json_array_foreach (json_object_get(page, "customJobs"), i, job) {
            if (filter == NULL || cli_filter_matches(filter, job))
                json_array_append(ret_jobs, job);
        }
        token = ty_str_dup(c->arena, wire_json_get_str(page, "nextPageToken"));
        json_decref(page);
    } while (token.len > 0 && (sorted || (int64_t)json_array_size(ret_jobs) < limit));
    return TY_OK;
}

/* --sort-by and --limit, on what came. */
static json_t *list_arrange(struct cli *c, json_t *jobs)
{
    int64_t limit = cli_arg_int(&c->args, "limit", INT64_MAX);
    json_t *arranged = cli_sort_by_keys(c->arena, cli_arg(&c->args, "sort-by"), false, jobs);
    while ((int64_t)json_array_size(arranged) > limit)
        json_array_remove(arranged, json_array_size(arranged) - 1);
    return arranged;
}

ty_err cli_jobs_fetch(struct cli *c, json_t **ret_jobs)
{
    struct cli_filter *filter = NULL;
    ty_str text = cli_arg(&c->args, "filter");
    ty_err err = text.len > 0 ? cli_filter_parse(c->arena, text, &filter) : TY_OK;
    if (err != TY_OK)
        return err;
    json_t *jobs = json_array();
    err = list_all(c, filter, jobs);
    if (err == TY_OK) {
        cli_filter_warn(filter);
        *ret_jobs = list_arrange(c, jobs);
    }
    cli_filter_clear(filter);
    json_decref(jobs);
    return err;
}

static int list_print(struct cli *c, const json_t *jobs)
{
    json_t *job;
    size_t i;
    if (cli_arg_on(&c->args, "uri")) {
        json_array_foreach (jobs, i, job) {
            printf("%s/v1/" TY_STR_FMT "\n", c->url, TY_STR_ARG(wire_json_get_str(job, "name")));
        }
        return CLI_OK;
    }
    if (json_array_size(jobs) == 0 && cli_arg(&c->args, "format").len == 0) {
        cli_say(c, "Listed 0 items.\n");
        return CLI_OK;
    }
    return cli_print(c, jobs, isatty(STDOUT_FILENO) ? "table" : "yaml");
}

int cli_custom_jobs_list(struct cli *c)
{
    bool watch = cli_arg_on(&c->args, "watch");
    if (watch && (cli_arg_given(&c->args, "format") || cli_arg_on(&c->args, "uri"))) {
        (void)!ty_fail(TY_INVALID_ARGUMENT, "argument --watch: has a format of its own; not with "
                                            "--format or --uri");
        return cli_fail_usage(c);
    }
    int status = begin(c, NULL);
    if (status != CLI_OK || watch)
        return status != CLI_OK ? status : cli_list_watch(c);
    json_t *jobs;
    ty_err err = cli_jobs_fetch(c, &jobs);
    if (err != TY_OK)
        return cli_fail(c, err);
    status = list_print(c, jobs);
    json_decref(jobs);
    return status;
}

/* ---- describe, cancel ---- */

/* For people: what it used, after the resource. A server too old to tell is no reason to fail. */
static void describe_usage(struct cli *c, const char *path)
{
    json_t *usage;
    struct ty_buf b;
    if (cli_usage_fetch(c, ty_str_of(strrchr(path, '/') + 1), &usage) != TY_OK)
        return;
    ty_buf_init(&b, CONFIG_BYTES);
    cli_usage_receipt(c->arena, &b, usage);
    if (b.len > 0)
        printf("\n%s", b.ptr);
    ty_buf_clear(&b);
    json_decref(usage);
}

int cli_custom_jobs_describe(struct cli *c)
{
    const char *path = NULL;
    json_t *job;
    int status = begin(c, &path);
    if (status != CLI_OK)
        return status;
    ty_err err = cli_call(c, HTTP_GET, path, TY_STR(""), CALL_MS, &job);
    if (err != TY_OK)
        return cli_fail(c, err);
    status = cli_print(c, job, "yaml");
    if (status == CLI_OK && !c->as_gcloud && !cli_arg_given(&c->args, "format") &&
        isatty(STDOUT_FILENO))
        describe_usage(c, path);
    json_decref(job);
    return status;
}

int cli_custom_jobs_cancel(struct cli *c)
{
    const char *path = NULL;
    json_t *nothing;
    int status = begin(c, &path);
    if (status != CLI_OK)
        return status;
    ty_err err = cli_call(c, HTTP_POST, ty_format(c->arena, "%s:cancel", path), TY_STR("{}"),
                          CALL_MS, &nothing);
    if (err != TY_OK)
        return cli_fail(c, err);
    json_decref(nothing);
    const char *name = path + strlen("/v1/");
    cli_say(c,
            "Request to cancel CustomJob [%s] has been sent.\n\n"
            "You may view the status of your job with the command\n\n"
            "  $ %s%s%s ai custom-jobs describe %s\n\n",
            name, c->program, c->track[0] != '\0' ? " " : "", c->track, name);
    return CLI_OK;
}
