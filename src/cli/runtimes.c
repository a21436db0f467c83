/* runtimes.c -- the Python runtimes of this machine. These commands work on the data folder itself,
 * with or without a server: locks keep them and the jobs apart (python.h). */
#include "cli/cli_int.h"

#include "python/python.h"

int cli_runtimes_list(struct cli *c)
{
    struct python_listed *list;
    size_t count;
    ty_err err = python_runtime_list(c->arena, cli_data_dir(c), &list, &count);
    if (err != TY_OK)
        return cli_fail(c, err);
    if (cli_arg(&c->args, "format").len > 0) {
        json_t *rows = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(rows, json_pack("{s:s, s:s%, s:s%, s:I}", "key", list[i].key,
                                                  "family", list[i].family.ptr, list[i].family.len,
                                                  "runtime", list[i].what.ptr, list[i].what.len,
                                                  "environments", (json_int_t)list[i].envs));
        int status = cli_print(c, rows, "yaml");
        json_decref(rows);
        return status;
    }
    if (count == 0)
        fprintf(stderr, "Listed 0 items.\n");
    else
        printf("%-14s %-8s %s\n", "KEY", "PACKAGES", "RUNTIME");
    for (size_t i = 0; i < count; i++)
        printf("%-14.12s %-8zu " TY_STR_FMT "\n", list[i].key, list[i].envs,
               TY_STR_ARG(list[i].what));
    return CLI_OK;
}

int cli_runtimes_add(struct cli *c)
{
    struct ty_config config;
    ty_str wheels = cli_arg(&c->args, "wheels");
    c->data_dir = cli_data_dir(c);
    ty_err err = cli_config_read(c, &config);
    char folder[PATH_MAX] = "";
    if (err == TY_OK && wheels.len > 0 && !realpath(ty_cstr(c->arena, wheels), folder))
        err = ty_fail_errno(errno, "--wheels: cannot open '" TY_STR_FMT "'", TY_STR_ARG(wheels));
    if (err == TY_OK)
        err = python_image_check(c->args.positional);
    if (err == TY_OK)
        err = ty_mkdirs(c->data_dir, 0700);
    if (err == TY_OK) {
        struct python_setup setup = {.data_dir = c->data_dir,
                                     .python = config.python,
                                     .wheel_folder = wheels.len ? folder : config.wheel_folder,
                                     .offline = wheels.len > 0 || config.runtimes_offline};
        err = python_runtime_add(&setup, ty_cstr(c->arena, c->args.positional));
    }
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}

int cli_runtimes_remove(struct cli *c)
{
    ty_str key = c->args.positional;
    struct ty_config config;
    struct python_host host;
    struct python_runtime runtime;
    ty_err err = TY_OK;
    c->data_dir = cli_data_dir(c);
    if (python_image_check(key) == TY_OK) { /* what `add` was given will do, too */
        err = cli_config_read(c, &config);
        if (err == TY_OK)
            err = python_host_read(c->arena, config.python, &host);
        if (err == TY_OK)
            err = python_runtime_find(c->arena, key, &host, &runtime);
        key = ty_str_of(runtime.key);
    }
    if (err == TY_OK)
        err = python_runtime_remove(c->data_dir, key);
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}
