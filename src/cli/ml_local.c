/* ml_local.c -- ai-platform local train: a trainer in the foreground, with the TF_CONFIG of a job.
 *
 * As gcloud does it: `python -m MODULE ARGS --job-dir DIR` in the folder that holds the package, on
 * the Python of PATH. --distributed starts every replica of a job, on one port each; they share
 * our terminal, and when the chief has ended the others are stopped. Beyond gcloud: the variables
 * that bring gs:// here, if this data folder has a server. */
#include "cli/cli_int.h"

#include "auth/auth.h"
#include "exec/exec.h"
#include "python/python.h"
#include "wire/wire.h"

#include <sys/prctl.h>

enum {
    MAX_REPLICAS = 256,
    FIRST_PORT = 27182,
    STOP_MS = 5000, /* from SIGTERM to SIGKILL for what the chief leaves behind */
};

struct replica {
    const char *type;
    int index, port;
    pid_t pid; /* 0: not started, or gone */
};
struct local {
    struct cli *c;
    const char *python, *module, *folder;
    json_t *args;
    struct replica replicas[MAX_REPLICAS]; /* the chief first */
    size_t count;
    char **argv;
};

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int sig)
{
    asked_to_stop = sig;
}

/* ---- which Python ---- */

static const char *python_on_path(struct cli *c)
{
    ty_str set = auth_gcloud_property(c->arena, cli_gcloud_dir(c), "ml_engine", "local_python");
    const char *variable = getenv("CLOUDSDK_ML_ENGINE_LOCAL_PYTHON");
    if (variable != NULL && variable[0] != '\0')
        return variable;
    if (set.len > 0)
        return ty_cstr(c->arena, set);
    return python_is_there("python") ? "python" : "python3";
}

/* "master" where this Python has TensorFlow 1, as jobs of those runtimes have it. Asked of what is
 * installed: to import it would take seconds. */
static const char *chief_name(const struct local *l)
{
    static const char program[] =
        "from importlib.metadata import distributions as d\n"
        "v = {x.metadata['Name']: x.version for x in d()}\n"
        "print(next((v[n] for n in ('tensorflow', 'tensorflow-cpu', 'tensorflow-gpu') "
        "if n in v), ''))\n";
    char text[64] = "";
    int pipe_fds[2], status;
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return "chief";
    pid_t pid = ty_fork();
    if (pid == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        execlp(l->python, l->python, "-c", program, (char *)NULL);
        _exit(127);
    }
    close(pipe_fds[1]);
    if (pid > 0) {
        (void)!read(pipe_fds[0], text, sizeof text - 1);
        waitpid(pid, &status, 0);
    }
    close(pipe_fds[0]);
    return strncmp(text, "1.", 2) == 0 ? "master" : "chief";
}

/* ---- what each replica is told ---- */

static json_t *cluster_new(const struct local *l)
{
    json_t *cluster = json_object();
    for (size_t i = 0; i < l->count && l->count > 1; i++) {
        const struct replica *r = &l->replicas[i];
        if (strcmp(r->type, "evaluator") == 0)
            continue; /* it looks on: nobody talks to it */
        json_t *list = json_object_get(cluster, r->type);
        if (list == NULL) {
            list = json_array();
            json_object_set_new(cluster, r->type, list);
        }
        json_array_append_new(list, json_sprintf("localhost:%d", r->port));
    }
    return cluster;
}

static const char *tf_config(const struct local *l, const struct replica *r)
{
    json_t *task =
        l->count > 1 ? json_pack("{s:s, s:i}", "type", r->type, "index", r->index) : json_object();
    json_t *config =
        json_pack("{s:{s:s, s:O}, s:o, s:o, s:s}", "job", "job_name", l->module, "args", l->args,
                  "task", task, "cluster", cluster_new(l), "environment", "cloud");
    struct ty_buf b;
    ty_buf_init(&b, 1 << 20);
    wire_json_dump(&b, config);
    const char *text = ty_cstr(l->c->arena, ty_buf_str(&b));
    ty_buf_clear(&b);
    json_decref(config);
    return text;
}

/* In the child. */
static void become(const struct local *l, const char *config, const char *const *env)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed command leaves nothing behind */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    for (; env != NULL && *env != NULL; env++)
        putenv((char *)(uintptr_t)*env);
    if (setenv("TF_CONFIG", config, 1) != 0 || chdir(l->folder) != 0)
        fprintf(stderr, "ERROR: cannot enter '%s': %s\n", l->folder, strerror(errno));
    else {
        execvp(l->python, l->argv);
        fprintf(stderr, "ERROR: cannot run '%s': %s\n", l->python, strerror(errno));
    }
    _exit(127);
}

/* ---- running ---- */

static ty_err start(struct local *l, struct replica *r, const char *const *env)
{
    const char *config = tf_config(l, r);
    fflush(stdout);
    r->pid = ty_fork();
    if (r->pid == 0)
        become(l, config, env);
    if (r->pid > 0)
        return TY_OK;
    r->pid = 0;
    return ty_fail_errno(errno, "cannot start %s %d", r->type, r->index);
}

static void signal_all(struct local *l, int sig)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->replicas[i].pid > 0)
            kill(l->replicas[i].pid, sig);
}

/* Wait for all of them; those still there at the end of STOP_MS are killed. */
static void stop_all(struct local *l)
{
    int64_t end_ms = ty_boot_ms() + STOP_MS;
    bool left = true;
    signal_all(l, SIGTERM);
    while (left) {
        left = false;
        for (size_t i = 0; i < l->count; i++) {
            struct replica *r = &l->replicas[i];
            if (r->pid > 0 && waitpid(r->pid, NULL, WNOHANG) == r->pid)
                r->pid = 0;
            left |= r->pid > 0;
        }
        if (left && ty_boot_ms() > end_ms)
            signal_all(l, SIGKILL);
        if (left)
            usleep(20000);
    }
}

/* Until the chief has ended; its exit status. A signal for us is one for all. */
static int wait_for_chief(struct local *l)
{
    int status;
    pid_t pid = l->replicas[0].pid;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return CLI_FAILED;
        if (asked_to_stop != 0)
            signal_all(l, asked_to_stop);
    }
    l->replicas[0].pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int run_all(struct local *l)
{
    const char **env = cli_client_env(l->c);
    struct sigaction sa = {.sa_handler = on_signal};
    ty_err err = TY_OK;
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    signal(SIGINT, SIG_IGN); /* the terminal sends it to all of us */
    for (size_t i = 0; i < l->count && err == TY_OK; i++)
        err = start(l, &l->replicas[l->count - 1 - i], env); /* the chief last, as gcloud does */
    int status = err == TY_OK ? wait_for_chief(l) : cli_fail(l->c, err);
    stop_all(l);
    return status;
}

/* ---- the command ---- */

static ty_err add_replicas(struct local *l, const char *type, int64_t count, int *port)
{
    if (count < 0 || (int64_t)l->count + count > MAX_REPLICAS || *port + count > 65536)
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the replicas are more than %d, or their ports end above 65535",
                       MAX_REPLICAS);
    for (int i = 0; i < count; i++)
        l->replicas[l->count++] = (struct replica){.type = type, .index = i, .port = (*port)++};
    return TY_OK;
}

/* A flag that is a number from `least` to `most`; 0 is none too few for a count. */
static ty_err number_read(const struct local *l, const char *flag, int64_t least, int64_t most,
                          int64_t *number)
{
    ty_str text = cli_arg(&l->c->args, flag);
    if (!cli_arg_given(&l->c->args, flag))
        return TY_OK;
    if (ty_parse_i64(text, number) == TY_OK && *number >= least && *number <= most)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "argument --%s: must be from %" PRId64 " to %" PRId64 ", not '" TY_STR_FMT "'",
                   flag, least, most, TY_STR_ARG(text));
}

static ty_err plan_replicas(struct local *l)
{
    static const struct {
        const char *flag, *type;
        int64_t otherwise;
    } others[] = {{"parameter-server-count", "ps", 2},
                  {"worker-count", "worker", 2},
                  {"evaluator-count", "evaluator", 0}};
    int64_t first = FIRST_PORT;
    bool distributed = cli_arg_on(&l->c->args, "distributed");
    ty_err err = number_read(l, "start-port", 1, 65535, &first);
    int port = (int)first;
    if (err == TY_OK)
        err = add_replicas(l, distributed ? chief_name(l) : "chief", 1, &port);
    for (size_t i = 0; i < TY_COUNT(others) && err == TY_OK; i++) {
        int64_t count = others[i].otherwise;
        err = number_read(l, others[i].flag, 0, MAX_REPLICAS, &count);
        if (err == TY_OK && distributed)
            err = add_replicas(l, others[i].type, count, &port);
    }
    return err;
}

/* The user's arguments, and --job-dir behind them. */
static ty_err plan_args(struct local *l)
{
    struct cli *c = l->c;
    ty_str dir = cli_arg(&c->args, "job-dir");
    int count = c->args.rest_count;
    l->argv = ty_new_array(c->arena, char *, (size_t)count + 6);
    l->args = json_array();
    l->argv[0] = ty_cstr(c->arena, ty_str_of(l->python));
    l->argv[1] = ty_cstr(c->arena, TY_STR("-m"));
    l->argv[2] = ty_cstr(c->arena, ty_str_of(l->module));
    for (int i = 0; i < count; i++)
        l->argv[3 + i] = c->args.rest[i];
    if (dir.len > 0) {
        l->argv[3 + count++] = ty_cstr(c->arena, TY_STR("--job-dir"));
        l->argv[3 + count++] = ty_cstr(c->arena, dir);
    }
    for (int i = 0; i < count; i++)
        if (json_array_append_new(l->args, json_string(l->argv[3 + i])) != 0)
            return ty_fail(TY_INVALID_ARGUMENT, "argument %d after --: is not UTF-8 text", i + 1);
    return TY_OK;
}

/* Flags that do nothing without --distributed. */
static void warn_flags(const struct cli *c)
{
    static const char *const names[] = {"parameter-server-count", "worker-count",
                                        "evaluator-count"};
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (!cli_arg_on(&c->args, "distributed") && cli_arg_given(&c->args, names[i]))
            fprintf(stderr,
                    "WARNING: --%s is ignored if --distributed is not provided.\n"
                    "Did you mean to run distributed training?\n",
                    names[i]);
}

int cli_ml_local_train(struct cli *c)
{
    struct local l = {.c = c, .module = ty_cstr(c->arena, cli_arg(&c->args, "module-name"))};
    ty_str path = cli_arg(&c->args, "package-path");
    size_t count;
    if (l.module[0] == '\0') {
        (void)!ty_fail(TY_INVALID_ARGUMENT, "argument --module-name: Must be specified.");
        return cli_fail_usage(c);
    }
    ty_err err = cli_target(c);
    if (err != TY_OK)
        return cli_fail(c, err);
    char *folder = ty_cstr(
        c->arena, ty_str_of(cli_paths(c, path.len > 0 ? path : TY_STR("."), "", &count)[0]));
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0';
    l.folder = folder;
    l.python = python_on_path(c);
    warn_flags(c);
    if (plan_args(&l) != TY_OK || plan_replicas(&l) != TY_OK) {
        json_decref(l.args);
        return cli_fail_usage(c);
    }
    int status = run_all(&l);
    json_decref(l.args);
    return status;
}
