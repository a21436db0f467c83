/* tensorboard.c -- trainyard tensorboard: the user's own TensorBoard on a bucket's folder.
 *
 * A bucket is a folder of plain files here, so TensorBoard reads event files as they grow, without
 * a gs:// file system. Which folder: gs://BUCKET/FOLDER as given, or what a job's trainer was told
 * in AIP_TENSORBOARD_LOG_DIR: logs below its baseOutputDirectory. */
#include "cli/cli_int.h"

#include "wire/wire.h"

enum { CALL_MS = 30 * 1000 };

/* gs://BUCKET/FOLDER as the folder on disk. */
static ty_err folder_of(struct cli *c, ty_str url, const char **ret_path)
{
    ty_str rest = ty_str_drop(url, 5), bucket, parts, part;
    bool more = ty_str_split(&rest, '/', &bucket);
    if (bucket.len == 0 || ty_str_is(bucket, ".") || ty_str_is(bucket, ".."))
        return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' is not gs://BUCKET/FOLDER",
                       TY_STR_ARG(url));
    for (parts = more ? rest : (ty_str){"", 0}; more;) {
        more = ty_str_split(&parts, '/', &part);
        if (ty_str_is(part, "..") || ty_str_is(part, "."))
            return ty_fail(TY_INVALID_ARGUMENT, "'" TY_STR_FMT "' leads out of the bucket",
                           TY_STR_ARG(url));
    }
    const char *root =
        ty_format(c->arena, "%s/buckets/" TY_STR_FMT, c->data_dir, TY_STR_ARG(bucket));
    if (access(root, F_OK) != 0)
        return ty_fail(TY_NOT_FOUND, "gs://" TY_STR_FMT " is not a bucket of %s",
                       TY_STR_ARG(bucket), c->data_dir);
    if (ty_str_starts(url, TY_STR("gs://")) && url.len == 5 + bucket.len)
        rest = (ty_str){"", 0};
    *ret_path = ty_format(c->arena, "%s/" TY_STR_FMT, root, TY_STR_ARG(rest));
    return TY_OK;
}

/* The folder a job writes its events to: a gs:// URL or a path. */
static int job_logs(struct cli *c, ty_str *ret_url)
{
    ty_str id;
    json_t *job = NULL;
    int status = cli_job_begin(c, &id);
    if (status != CLI_OK)
        return status;
    ty_err err = cli_call(c, HTTP_GET,
                          ty_format(c->arena, "%s/" TY_STR_FMT, cli_jobs_path(c), TY_STR_ARG(id)),
                          TY_STR(""), CALL_MS, &job);
    if (err != TY_OK)
        return cli_fail(c, err);
    const json_t *spec = json_object_get(job, "jobSpec");
    ty_str prefix =
        wire_json_get_str(json_object_get(spec, "baseOutputDirectory"), "outputUriPrefix");
    while (ty_str_ends(prefix, TY_STR("/")))
        prefix.len--;
    *ret_url = ty_str_of(ty_format(c->arena, TY_STR_FMT "/logs", TY_STR_ARG(prefix)));
    if (prefix.len == 0)
        err = ty_fail(TY_FAILED_PRECONDITION,
                      "the job has no baseOutputDirectory, so it was told no folder for its logs; "
                      "name the one it writes to: trainyard tensorboard gs://BUCKET/FOLDER");
    json_decref(job);
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}

static int run_program(struct cli *c, const char *path)
{
    char *words[8] = {(char *)"tensorboard"};
    size_t n = 1;
    words[n++] = ty_format(c->arena, "--logdir=%s", path);
    if (cli_arg_given(&c->args, "port"))
        words[n++] =
            ty_format(c->arena, "--port=" TY_STR_FMT, TY_STR_ARG(cli_arg(&c->args, "port")));
    if (cli_arg_given(&c->args, "host"))
        words[n++] =
            ty_format(c->arena, "--host=" TY_STR_FMT, TY_STR_ARG(cli_arg(&c->args, "host")));
    if (cli_arg_on(&c->args, "inspect"))
        words[n++] = (char *)"--inspect";
    fflush(stdout);
    execvp(words[0], words);
    ty_err err = errno == ENOENT
                     ? ty_fail(TY_NOT_FOUND,
                               "there is no tensorboard on PATH; install it (pip install "
                               "tensorboard) and run: tensorboard --logdir='%s'",
                               path)
                     : ty_fail_errno(errno, "cannot run tensorboard");
    return cli_fail(c, err);
}

int cli_tensorboard(struct cli *c)
{
    ty_str what = c->args.positional;
    const char *path = NULL;
    if (!ty_str_starts(what, TY_STR("gs://"))) {
        int status = job_logs(c, &what);
        if (status != CLI_OK)
            return status;
    }
    c->data_dir = cli_data_dir(c);
    if (!ty_str_starts(what, TY_STR("gs://")))
        return run_program(c, ty_cstr(c->arena, what));
    ty_err err = folder_of(c, what, &path);
    return err == TY_OK ? run_program(c, path) : cli_fail(c, err);
}
