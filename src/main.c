/* main.c -- the program's own commands; everything else is a client's command (cli).
 *
 * The only file that may include everything and the only one that exits. */
#include "base/base.h"
#include "cli/cli.h"
#include "exec/exec.h"
#include "server/server.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int usage(const char *problem)
{
    fprintf(stderr, "trainyard: %s\n", problem);
    fprintf(stderr, "usage: trainyard serve [--data DIR] [--listen ADDRESS:PORT] "
                    "[--ready-file FILE]\n");
    return EXIT_USAGE;
}

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

static int command_serve(int argc, char **argv)
{
    struct server_options o = {0};
    for (int i = 0; i < argc; i++) {
        const char *value;
        if ((value = option_value(argc, argv, &i, "--data")))
            o.data_dir = value;
        else if ((value = option_value(argc, argv, &i, "--listen")))
            o.listen = value;
        else if ((value = option_value(argc, argv, &i, "--ready-file")))
            o.ready_file = value;
        else if (strcmp(argv[i], "--help") == 0)
            return usage("runs the service until it is told to stop"), 0;
        else
            return usage("serve does not know what to do with that argument");
    }
    if (!o.data_dir)
        o.data_dir = getenv("TRAINYARD_DATA");
    ty_err err = server_run(&o);
    if (err == TY_OK)
        return 0;
    fprintf(stderr, "trainyard: cannot serve: %s\n", ty_err_message());
    return EXIT_FAILED;
}

/* The server starts itself again with this, as the small process that forks conductors. */
static int command_launch(int argc, char **argv)
{
    int64_t fd = -1;
    const char *data_dir = NULL, *value;
    for (int i = 0; i < argc; i++) {
        if ((value = option_value(argc, argv, &i, "--fd"))) {
            if (ty_parse_i64(ty_str_of(value), &fd) != TY_OK)
                return EXIT_USAGE;
        } else if ((value = option_value(argc, argv, &i, "--data"))) {
            data_dir = value;
        }
    }
    return fd >= 0 && data_dir ? exec_launcher_main((int)fd, data_dir) : EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return command_serve(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "launch") == 0)
        return command_launch(argc - 2, argv + 2);
    return cli_main(argc, argv);
}
