/* main.c -- the program's own commands; everything else is a client's command (cli).
 *
 * The only file that may include everything and the only one that exits. */
#include "base/base.h"
#include "cli/cli.h"
#include "container/container.h"
#include "exec/exec.h"
#include "python/python.h"
#include "server/server.h"
#include "train/train.h"
#include "wire/wire.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* --name=value or --name value; moves *i past what it took. */
static const char *option_value(int argc, char **argv, int *i, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    if (argv[*i][n] == '\0' && *i + 1 < argc)
        return argv[++*i];
    return NULL;
}

static int serve(struct server_options *o)
{
    if (!o->data_dir)
        o->data_dir = getenv("TRAINYARD_DATA");
    ty_err err = server_run(o);
    if (err == TY_OK)
        return 0;
    fprintf(stderr, "trainyard: cannot serve: %s\n", ty_err_message());
    if (err == TY_ALREADY_EXISTS) /* the address; a folder that is served is another error */
        fprintf(stderr, "Use another port: trainyard serve --listen 127.0.0.1:PORT (0 picks a free "
                        "one), or the setting 'listen'\n");
    return EXIT_FAILED;
}

static int command_serve(int argc, char **argv)
{
    static const char *const names[] = {"data", "listen", "ready-file"};
    const char *values[TY_COUNT(names)];
    struct ty_arena a = {0};
    int status;
    if (cli_own_flags(&a, "serve", argc, argv, names, values, TY_COUNT(names), &status)) {
        struct server_options o = {
            .data_dir = values[0], .listen = values[1], .ready_file = values[2]};
        status = serve(&o);
    }
    ty_arena_clear(&a);
    return status;
}

/* The server starts itself again with this, as the small process that forks conductors. */
static int command_launch(int argc, char **argv)
{
    int64_t fd = -1;
    const char *data_dir = NULL, *value;
    for (int i = 0; i < argc; i++) {
        if ((value = option_value(argc, argv, &i, "--fd"))) {
            if (ty_parse_i64(ty_str_of(value), &fd) != TY_OK)
                fd = -1;
        } else if ((value = option_value(argc, argv, &i, "--data"))) {
            data_dir = value;
        }
    }
    if (fd >= 0 && data_dir)
        return exec_launcher_main((int)fd, data_dir);
    fputs("trainyard: 'launch' is internal: the server starts it. See 'trainyard help'\n", stderr);
    return EXIT_USAGE;
}

/* "file:///x", "/x" and "gs://bucket/x" as a path; anything else as it is: opening it says what is
 * wrong. */
static const char *package_path(struct ty_arena *a, const char *data_dir, const char *uri)
{
    const char *path = python_package_path(a, ty_str_of(uri));
    if (!path)
        path = wire_gs_path(a, data_dir, ty_str_of(uri));
    return path ? path : uri;
}

/* A conductor runs this before the replicas of a job with Python packages or containers: each
 * --pool or --container begins another one, what follows belongs to it. */
static int command_prepare(int argc, char **argv)
{
    struct ty_arena a = {0};
    struct python_setup setup = {.data_dir = "", .python = "python3", .wheel_folder = ""};
    struct python_pool *pools = ty_new_array(&a, struct python_pool, (size_t)argc + 1), *p = pools;
    struct container_wanted *wanted = ty_new_array(&a, struct container_wanted, (size_t)argc + 1);
    const char *into = "", *engine = "auto", *value;
    size_t count = 0, containers = 0;
    for (int i = 0; i < argc; i++) {
        if ((value = option_value(argc, argv, &i, "--data")))
            setup.data_dir = value;
        else if ((value = option_value(argc, argv, &i, "--into")))
            into = value;
        else if ((value = option_value(argc, argv, &i, "--python")))
            setup.python = value;
        else if ((value = option_value(argc, argv, &i, "--wheels")))
            setup.wheel_folder = value;
        else if ((value = option_value(argc, argv, &i, "--offline")))
            setup.offline = strcmp(value, "1") == 0;
        else if ((value = option_value(argc, argv, &i, "--pool"))) {
            p = &pools[count++];
            *p = (struct python_pool){.pool = value[0] - '0',
                                      .packages = ty_new_array(&a, const char *, (size_t)argc)};
        } else if ((value = option_value(argc, argv, &i, "--image")))
            p->image = value;
        else if ((value = option_value(argc, argv, &i, "--module")))
            p->module = value;
        else if ((value = option_value(argc, argv, &i, "--python-path")))
            p->python_path = value;
        else if ((value = option_value(argc, argv, &i, "--package")) && count)
            p->packages[p->package_count++] = package_path(&a, setup.data_dir, value);
        else if ((value = option_value(argc, argv, &i, "--engine")))
            engine = value;
        else if ((value = option_value(argc, argv, &i, "--container")))
            wanted[containers++].pool = value[0] - '0';
        else if ((value = option_value(argc, argv, &i, "--asked")) && containers)
            wanted[containers - 1].asked = value;
        else if ((value = option_value(argc, argv, &i, "--used")) && containers)
            wanted[containers - 1].used = value;
        else
            return EXIT_USAGE;
    }
    ty_seam_role("prepare");
    int failure_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3); /* why it failed is an ERROR */
    dup2(STDOUT_FILENO, STDERR_FILENO); /* one stream: pip's words stay in order */
    unsetenv("PYTHONPATH");             /* what points clients here is for the replicas */
    ty_err err = TY_OK;
    if (containers)
        err = container_prepare(engine, setup.data_dir, into, wanted, containers);
    if (err == TY_OK && count)
        err = python_prepare(&setup, into, pools, count);
    fflush(stdout);
    if (err != TY_OK)
        dprintf(failure_fd >= 0 ? failure_fd : STDOUT_FILENO, "%s\n", ty_err_message());
    ty_arena_clear(&a);
    return err == TY_OK ? 0 : EXIT_FAILED;
}

/* The trainer's own words, whose flags are the model file's, too. */
static bool is_own(int argc, char **argv, const char *first, const char *second)
{
    return argc > (second ? 2 : 1) && strcmp(argv[1], first) == 0 &&
           (!second || strcmp(argv[2], second) == 0);
}

/* Their --help is the table's, as everywhere, after any other words. */
static int run_own(int argc, char **argv, int words, int (*run)(int argc, char **argv))
{
    for (int i = words + 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            argv[words + 1] = argv[i];
            return cli_main(words + 2, argv);
        }
    return run(argc - words - 1, argv + words + 1);
}

int main(int argc, char **argv)
{
    if (is_own(argc, argv, "train", NULL))
        return run_own(argc, argv, 1, train_command);
    if (is_own(argc, argv, "predict", NULL))
        return run_own(argc, argv, 1, train_predict_command);
    if (is_own(argc, argv, "model", "show"))
        return run_own(argc, argv, 2, train_show_command);
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return command_serve(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "launch") == 0)
        return command_launch(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "prepare") == 0)
        return command_prepare(argc - 2, argv + 2);
    return cli_main(argc, argv);
}
