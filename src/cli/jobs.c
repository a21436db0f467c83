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
    fprintf(stderr, "Using endpoint [%s/]\n", c->url);
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

static ty_err config_load(struct cli *c, json_t **ret_spec)
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
    return cli_spec_from_yaml(text, from_stdin ? "stdin" : path, ret_spec);
}

static int create_body(struct cli *c, json_t **ret_body)
{
    json_t *pools = NULL, *spec = NULL;
    if (cli_arg(&c->args, "display-name").len == 0) {
        (void)!ty_fail(TY_INVALID_ARGUMENT, "argument --display-name: must be specified");
        return cli_fail_usage(c);
    }
    if (cli_pools_from_flags(c->arena, &c->args, &pools) != TY_OK)
        return cli_fail_usage(c);
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
    if (cli_job_build(c->arena, &c->args, spec, pools, ret_body) != TY_OK)
        return cli_fail_usage(c);
    return CLI_OK;
}

static void say_submitted(const struct cli *c, const json_t *job)
{
    ty_str name = wire_json_get_str(job, "name");
    fprintf(stderr,
            "CustomJob [" TY_STR_FMT "] is submitted successfully.\n\n"
            "See how it is doing:\n  $ %s ai custom-jobs describe " TY_STR_FMT "\n"
            "Follow its log:\n  $ %s ai custom-jobs stream-logs " TY_STR_FMT "\n",
            TY_STR_ARG(name), c->program, TY_STR_ARG(name), c->program, TY_STR_ARG(name));
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
    ty_str filter = cli_arg(&c->args, "filter");
    ty_buf_init(&b, 1 << 20);
    ty_buf_addf(&b, "%s?pageSize=%" PRId64, cli_jobs_path(c), size);
    if (filter.len > 0) {
        ty_buf_addz(&b, "&filter=");
        wire_url_encode(&b, filter);
    }
    if (token.len > 0) {
        ty_buf_addz(&b, "&pageToken=");
        wire_url_encode(&b, token);
    }
    ty_err err = ty_buf_check(&b, "--filter");
    if (err == TY_OK)
        err = cli_call(c, HTTP_GET, b.ptr, TY_STR(""), CALL_MS, ret_page);
    ty_buf_clear(&b);
    return err;
}

/* All pages, or as many as --limit needs. A sort has to see all of them. */
static ty_err list_all(struct cli *c, json_t *ret_jobs)
{
    int64_t limit = cli_arg_int(&c->args, "limit", INT64_MAX);
    bool sorted = cli_arg(&c->args, "sort-by").len > 0;
    int64_t size = !sorted && limit < PAGE_JOBS ? limit : PAGE_JOBS;
    size = cli_arg_int(&c->args, "page-size", size);
    ty_str token = {"", 0};
    do {
        json_t *page;
        ty_err err = list_page(c, token, size, &page);
        if (err != TY_OK)
            return err;
        json_array_extend(ret_jobs, json_object_get(page, "customJobs"));
        token = ty_str_dup(c->arena, wire_json_get_str(page, "nextPageToken"));
        json_decref(page);
    } while (token.len > 0 && (sorted || (int64_t)json_array_size(ret_jobs) < limit));
    return TY_OK;
}

struct sort_item {
    json_t *job;
    const json_t *key;
    size_t place; /* equal keys stay in their order */
    bool down;
};

static int sort_compare(const void *pa, const void *pb)
{
    const struct sort_item *a = pa, *b = pb;
    int by = 0;
    if (json_is_number(a->key) && json_is_number(b->key)) {
        double x = json_number_value(a->key), y = json_number_value(b->key);
        by = (x > y) - (x < y);
    } else {
        const char *x = json_string_value(a->key), *y = json_string_value(b->key);
        by = strcmp(x != NULL ? x : "", y != NULL ? y : "");
    }
    if (by != 0)
        return a->down ? -by : by;
    return (a->place > b->place) - (a->place < b->place);
}

/* --sort-by and --limit, on what came. */
static json_t *list_arrange(struct cli *c, json_t *jobs)
{
    ty_str key = cli_arg(&c->args, "sort-by");
    size_t count = json_array_size(jobs);
    int64_t limit = cli_arg_int(&c->args, "limit", INT64_MAX);
    struct sort_item *items = ty_new_array(c->arena, struct sort_item, count + 1);
    bool down = key.len > 0 && key.ptr[0] == '~';
    for (size_t i = 0; i < count; i++) {
        json_t *job = json_array_get(jobs, i);
        items[i] = (struct sort_item){job, cli_json_at(job, ty_str_drop(key, down)), i, down};
    }
    if (key.len > 0)
        qsort(items, count, sizeof(*items), sort_compare);
    json_t *arranged = json_array();
    for (size_t i = 0; i < count && (int64_t)i < limit; i++)
        json_array_append(arranged, items[i].job);
    return arranged;
}

ty_err cli_jobs_fetch(struct cli *c, json_t **ret_jobs)
{
    json_t *jobs = json_array();
    ty_err err = list_all(c, jobs);
    if (err == TY_OK)
        *ret_jobs = list_arrange(c, jobs);
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
        fputs("Listed 0 items.\n", stderr);
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
    fprintf(stderr,
            "Request to cancel CustomJob [%s] has been sent.\n\n"
            "See whether it has ended:\n  $ %s ai custom-jobs describe %s\n",
            name, c->program, name);
    return CLI_OK;
}
