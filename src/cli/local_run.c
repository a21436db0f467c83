/* local_run.c -- ai custom-jobs local-run: a trainer in the foreground, as it would run in a job.
 *
 * Real gcloud builds an image and runs it. Here the package is made and installed as for a job
 * (package.c, python.h), in the same environment that the job would use, and the program gets the
 * variables that the only replica of a job gets. It runs in the current folder, and its exit status
 * is ours. No server is needed. */
#include "cli/cli_int.h"

#include <arpa/inet.h>
#include <dirent.h>

#include "auth/auth.h"
#include "exec/exec.h"
#include "python/python.h"
#include "wire/wire.h"

static volatile sig_atomic_t child_pid;

static void forward(int sig)
{
    if (child_pid > 0)
        kill((pid_t)child_pid, sig);
}

/* Ctrl-C reaches the program by itself: the terminal sends it to the whole group. */
static int run_and_wait(char *const *argv, char *const *env)
{
    int status;
    fflush(stdout);
    pid_t pid = ty_fork();
    if (pid == 0) {
        execve(argv[0], argv, env);
        fprintf(stderr, "ERROR: cannot run '%s': %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    if (pid < 0)
        return -1;
    child_pid = pid;
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, forward);
    signal(SIGHUP, forward);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- the plan, as of a job with one replica ---- */

static json_t *spec_new(const char *image, const struct cli_packed *packed, char *const *args,
                        int count)
{
    json_t *words = json_array(), *uris = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(words, json_string(args[i]));
    for (size_t i = 0; i < packed->count; i++)
        json_array_append_new(uris, json_string(packed->packages[i]));
    return json_pack("{s:[{s:s, s:{s:s, s:o, s:s, s:o}}]}", "workerPoolSpecs", "replicaCount", "1",
                     "pythonPackageSpec", "executorImageUri", image, "packageUris", uris,
                     "pythonModule", packed->module, "args", words);
}

const char **cli_client_env(struct cli *c)
{
    size_t count;
    if (access(ty_format(c->arena, "%s/client/key.json", c->data_dir), F_OK) != 0)
        return NULL;
    struct auth_var *vars = auth_job_env(c->arena, c->data_dir, c->url, &count);
    const char **env = ty_new_array(c->arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++)
        env[i] = ty_format(c->arena, "%s=%s", vars[i].name, vars[i].value);
    return env;
}

/* A port nobody listens on now; what the program does with it is its own affair. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &len) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? ntohs(address.sin_port) : 2222;
}

/* ---- the folder that stands for the attempt's ---- */

/* data/local/<pid>: of runs that were killed nobody is left to remove it. */
static void remove_old(struct cli *c, const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int64_t pid;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (ty_parse_i64(ty_str_of(entry->d_name), &pid) == TY_OK && pid > 0 &&
            kill((pid_t)pid, 0) != 0 && errno == ESRCH &&
            ty_remove_tree(AT_FDCWD, ty_format(c->arena, "%s/%s", folder, entry->d_name)) != TY_OK)
            fprintf(stderr, "WARNING: %s\n", ty_err_message());
    if (dir != NULL)
        closedir(dir);
}

/* pip's words are not the program's: they go to stderr. */
static ty_err prepare(struct cli *c, const struct ty_config *config, const char *image,
                      const struct cli_packed *packed, const char *into)
{
    struct python_setup setup = {.data_dir = c->data_dir,
                                 .python = config->python,
                                 .wheel_folder = config->wheel_folder,
                                 .offline = config->runtimes_offline};
    struct python_pool pool = {.pool = 0,
                               .image = image,
                               .module = packed->module,
                               .packages = packed->packages,
                               .package_count = packed->count};
    fflush(stdout);
    int out = dup(STDOUT_FILENO);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return ty_fail_errno(errno, "cannot duplicate stdout");
    ty_err err = ty_mkdirs(into, 0700);
    if (err == TY_OK)
        err = python_prepare(&setup, into, &pool, 1);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    return err;
}

static ty_err plan_make(struct cli *c, const struct ty_config *config, const json_t *spec,
                        const char *folder, struct exec_plan *ret_plan)
{
    int port = free_port();
    struct exec_job job = {.id = 0,
                           .attempt = 1,
                           .project = ty_str_of(c->project),
                           .region = ty_str_of(c->region),
                           .spec = spec,
                           .ports = &port,
                           .data_dir = folder,
                           .client_env = cli_client_env(c),
                           .timeout_ms = INT64_MAX};
    return exec_plan_build(c->arena, config, &job, ret_plan);
}

static void source_read(struct cli *c, struct cli_source *s)
{
    size_t count;
    ty_str text = cli_arg(&c->args, "local-package-path");
    if (text.len == 0)
        text = cli_arg(&c->args, "work-dir");
    s->folder = cli_paths(c, text.len > 0 ? text : TY_STR("."), "", &count)[0];
    s->image = ty_cstr(c->arena, cli_arg(&c->args, "executor-image-uri"));
    if (cli_arg_given(&c->args, "python-module"))
        s->module = ty_cstr(c->arena, cli_arg(&c->args, "python-module"));
    if (cli_arg_given(&c->args, "script"))
        s->script = ty_cstr(c->arena, cli_arg(&c->args, "script"));
    s->requirements = cli_words(c, cli_arg(&c->args, "requirements"), ",", &s->requirement_count);
    s->extra_packages =
        cli_paths(c, cli_arg(&c->args, "extra-packages"), ",", &s->extra_package_count);
    s->extra_dirs = cli_paths(c, cli_arg(&c->args, "extra-dirs"), ",", &s->extra_dir_count);
}

static ty_err run(struct cli *c, const struct cli_source *s, const struct cli_packed *packed,
                  int *ret_status)
{
    struct ty_config config;
    struct exec_plan plan;
    const char *local = ty_format(c->arena, "%s/local", c->data_dir);
    const char *folder = ty_format(c->arena, "%s/%d", local, (int)getpid());
    remove_old(c, local);
    ty_err err = cli_config_read(c, &config);
    json_t *spec = spec_new(s->image, packed, c->args.rest, c->args.rest_count);
    if (err == TY_OK)
        err = prepare(c, &config, s->image, packed, exec_attempt_path(c->arena, folder, 0, 1));
    if (err == TY_OK)
        err = plan_make(c, &config, spec, folder, &plan);
    if (err == TY_OK) {
        fprintf(stderr, "Running %s; the program's output follows.\n", packed->module);
        *ret_status = run_and_wait(plan.replicas[0].argv, plan.replicas[0].env);
        if (*ret_status < 0)
            err = ty_fail_errno(errno, "cannot start '%s'", plan.replicas[0].argv[0]);
    }
    json_decref(spec);
    if (ty_remove_tree(AT_FDCWD, folder) != TY_OK && err == TY_OK)
        err = ty_wrap(TY_INTERNAL, "cannot clean up");
    return err;
}

int cli_custom_jobs_local_run(struct cli *c)
{
    struct cli_source source = {0};
    struct cli_packed packed;
    int status = CLI_FAILED;
    if (!cli_arg_given(&c->args, "executor-image-uri")) {
        (void)!ty_fail(TY_INVALID_ARGUMENT, "argument --executor-image-uri: must be specified");
        return cli_fail_usage(c);
    }
    ty_err err = cli_target(c);
    if (err != TY_OK)
        return cli_fail(c, err);
    source_read(c, &source);
    err = cli_source_pack(c, &source, &packed);
    if (err == TY_INVALID_ARGUMENT)
        return cli_fail_usage(c);
    if (err == TY_OK)
        err = run(c, &source, &packed, &status);
    if (err != TY_OK)
        return cli_fail(c, err);
    if (status != 0)
        fprintf(stderr, "The program ended with status %d.\n", status);
    return status;
}
