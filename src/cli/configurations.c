/* configurations.c -- config configurations list, create, activate, describe, delete.
 *
 * They are gcloud's own files, in the folder that 'trainyard env' names to it (auth.h): real gcloud
 * sees the same ones. One that is made here leads to this server like the first one; only project
 * and region are its own. */
#include "cli/cli_int.h"

#include "auth/auth.h"

/* [a-z][-a-z0-9]*, so that it can be part of a file's name. */
static bool name_is_good(ty_str name)
{
    bool good = name.len > 0 && name.len <= 64 && name.ptr[0] >= 'a' && name.ptr[0] <= 'z';
    for (size_t i = 0; i < name.len && good; i++) {
        char ch = name.ptr[i];
        good = (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '-';
    }
    return good;
}

/* The folder and the name that was given; NULL, and all is said, if they will not do. */
static const char *begin(struct cli *c, bool write)
{
    c->data_dir = cli_data_dir(c);
    const char *folder = cli_gcloud_dir(c);
    if (!name_is_good(c->args.positional)) {
        (void)!ty_fail(TY_INVALID_ARGUMENT,
                       "Invalid name [" TY_STR_FMT "] for a configuration: a lower-case letter, "
                       "then lower-case letters, digits and '-'",
                       TY_STR_ARG(c->args.positional));
        cli_fail_value(c);
        return NULL;
    }
    if (write && !cli_gcloud_is_ours(c, folder)) {
        cli_fail(c, TY_FAILED_PRECONDITION);
        return NULL;
    }
    return folder;
}

static json_t *properties_new(struct cli *c, const char *folder, ty_str name, ty_err *ret_err)
{
    struct auth_property *p = NULL;
    json_t *all = json_object();
    *ret_err = auth_gcloud_properties(c->arena, folder, name, &p);
    for (; p != NULL && *ret_err == TY_OK; p = p->next) {
        const char *section = ty_cstr(c->arena, p->section);
        if (json_object_get(all, section) == NULL)
            json_object_set_new(all, section, json_object());
        json_object_set_new(json_object_get(all, section), ty_cstr(c->arena, p->key),
                            json_stringn(p->value.ptr, p->value.len));
    }
    return all;
}

int cli_config_configurations_list(struct cli *c)
{
    ty_str *names;
    size_t count;
    c->data_dir = cli_data_dir(c);
    const char *folder = cli_gcloud_dir(c);
    ty_str active = auth_gcloud_active(c->arena, folder);
    ty_err err = auth_gcloud_configurations(c->arena, folder, &names, &count);
    if (err != TY_OK)
        return cli_fail(c, err);
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *properties = properties_new(c, folder, names[i], &err);
        json_array_append_new(all, json_pack("{s:b, s:s#, s:o}", "is_active",
                                             ty_str_eq(names[i], active), "name", names[i].ptr,
                                             (int)names[i].len, "properties", properties));
    }
    int status = cli_print(c, all,
                           "table(name,is_active,properties.core.account,properties.core.project,"
                           "properties.core.universe_domain,"
                           "properties.compute.zone:label=COMPUTE_DEFAULT_ZONE,"
                           "properties.compute.region:label=COMPUTE_DEFAULT_REGION)");
    json_decref(all);
    return status;
}

int cli_config_configurations_describe(struct cli *c)
{
    ty_err err;
    const char *folder = begin(c, false);
    if (folder == NULL)
        return CLI_FAILED;
    ty_str name = c->args.positional;
    json_t *properties = properties_new(c, folder, name, &err);
    json_t *one = json_pack("{s:b, s:s#, s:o}", "is_active",
                            ty_str_eq(name, auth_gcloud_active(c->arena, folder)), "name", name.ptr,
                            (int)name.len, "properties", properties);
    if (err == TY_NOT_FOUND)
        (void)!ty_fail(TY_NOT_FOUND, "The configuration [" TY_STR_FMT "] does not exist.",
                       TY_STR_ARG(name));
    int status = err == TY_OK ? cli_print(c, one, "yaml") : cli_fail_value(c);
    json_decref(one);
    return status;
}

int cli_config_configurations_create(struct cli *c)
{
    const char *folder = begin(c, true);
    if (folder == NULL)
        return CLI_FAILED;
    ty_str name = c->args.positional;
    bool activate = !cli_arg_given(&c->args, "activate") || cli_arg_on(&c->args, "activate");
    ty_err err = auth_gcloud_create(c->arena, folder, name);
    if (err == TY_ALREADY_EXISTS) {
        (void)!ty_fail(err, "Cannot create configuration [" TY_STR_FMT "], it already exists.",
                       TY_STR_ARG(name));
        return cli_fail_value(c);
    }
    if (err == TY_OK)
        cli_say(c, "Created [" TY_STR_FMT "].\n", TY_STR_ARG(name));
    if (err == TY_OK && activate) {
        err = auth_gcloud_activate(c->arena, folder, name);
        if (err == TY_OK)
            cli_say(c, "Activated [" TY_STR_FMT "].\n", TY_STR_ARG(name));
    } else if (err == TY_OK) {
        cli_say(c,
                "To use this configuration, activate it by running:\n"
                "  $ %s config configurations activate " TY_STR_FMT "\n\n",
                c->program, TY_STR_ARG(name));
    }
    return err == TY_OK ? CLI_OK : cli_fail(c, err);
}

int cli_config_configurations_activate(struct cli *c)
{
    const char *folder = begin(c, true);
    if (folder == NULL)
        return CLI_FAILED;
    ty_str name = c->args.positional;
    ty_err err = auth_gcloud_activate(c->arena, folder, name);
    if (err == TY_NOT_FOUND) {
        (void)!ty_fail(err, "Cannot activate configuration [" TY_STR_FMT "], it does not exist.",
                       TY_STR_ARG(name));
        return cli_fail_value(c);
    }
    if (err != TY_OK)
        return cli_fail(c, err);
    cli_say(c, "Activated [" TY_STR_FMT "].\n", TY_STR_ARG(name));
    return CLI_OK;
}

int cli_config_configurations_delete(struct cli *c)
{
    const char *folder = begin(c, true);
    if (folder == NULL)
        return CLI_FAILED;
    ty_str name = c->args.positional;
    if (ty_str_eq(name, auth_gcloud_active(c->arena, folder))) {
        (void)!ty_fail(TY_FAILED_PRECONDITION,
                       "Deleting named configuration failed because configuration [" TY_STR_FMT
                       "] is set as active.  Use `%s config configurations activate` to change the "
                       "active configuration.",
                       TY_STR_ARG(name), c->program);
        return cli_fail_value(c);
    }
    cli_say(c, "The following configurations will be deleted:\n - " TY_STR_FMT "\n",
            TY_STR_ARG(name));
    ty_err err = auth_gcloud_delete(c->arena, folder, name);
    if (err == TY_NOT_FOUND) {
        (void)!ty_fail(err, "Cannot delete configuration [" TY_STR_FMT "], it does not exist.",
                       TY_STR_ARG(name));
        return cli_fail_value(c);
    }
    if (err != TY_OK)
        return cli_fail(c, err);
    cli_say(c, "Deleted [" TY_STR_FMT "].\n", TY_STR_ARG(name));
    return CLI_OK;
}
