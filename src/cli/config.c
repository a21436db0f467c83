/* config.c -- trainyard config set, get, unset, list: the project and region of commands.
 *
 * They are kept in the active configuration of gcloud's own format that the server makes (auth.h),
 * so that real gcloud, in a shell that has evaluated `trainyard env`, sees the same ones. Called as
 * gcloud, a property that is none of ours is the real gcloud's business. A folder that is not
 * Trainyard's is never written to: it decides where a user's real cloud commands go. */
#include "cli/cli_int.h"

#include <regex.h>

#include "auth/auth.h"

enum { VALUE_BYTES = 256 };

static const struct cli_property {
    const char *name; /* as it may be written for short; NULL: only in full */
    const char *section, *key;
    const char *variable; /* which wins over the file */
} properties[] = {
    {"project", "core", "project", "CLOUDSDK_CORE_PROJECT"},
    {"region", "ai", "region", "CLOUDSDK_AI_REGION"},
    {NULL, "compute", "region", "CLOUDSDK_COMPUTE_REGION"},
};

static const struct cli_property *property_find(struct cli *c, ty_str name)
{
    for (size_t i = 0; i < TY_COUNT(properties); i++) {
        const struct cli_property *p = &properties[i];
        if ((p->name != NULL && ty_str_is(name, p->name)) ||
            ty_str_is(name, ty_format(c->arena, "%s/%s", p->section, p->key)))
            return p;
    }
    return NULL;
}

/* The property that was named, or NULL with the exit status. */
static const struct cli_property *property_given(struct cli *c, int *ret_status)
{
    const struct cli_property *p = property_find(c, c->args.positional);
    if (p == NULL && c->as_gcloud) {
        *ret_status = cli_run_real(c);
    } else if (p == NULL) {
        (void)!ty_fail(TY_INVALID_ARGUMENT,
                       "argument PROPERTY: '" TY_STR_FMT "' is none of project (core/project), "
                       "region (ai/region), compute/region",
                       TY_STR_ARG(c->args.positional));
        *ret_status = cli_fail_usage(c);
    }
    c->data_dir = cli_data_dir(c);
    return p;
}

static ty_err value_check(ty_str value)
{
    bool good = value.len > 0 && value.len <= VALUE_BYTES;
    for (size_t i = 0; i < value.len && good; i++) {
        char ch = value.ptr[i];
        good = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
               strchr("-_.:", ch) != NULL;
    }
    return good ? TY_OK
                : ty_fail(TY_INVALID_ARGUMENT,
                          "argument VALUE: a project or region has letters, digits, '-', '_', '.' "
                          "and ':', at most %d",
                          VALUE_BYTES);
}

/* The rule of gcloud: [domain:]id of lower-case letters, digits and '-', or a number. */
static ty_err project_check(ty_str value)
{
    static const char rule[] = "^(([-a-z0-9]{1,63}[.])*([a-z]([-a-z0-9]{0,61}[a-z0-9])?):)?"
                               "([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)$";
    struct ty_arena a = {0};
    regex_t regex;
    ty_assert(regcomp(&regex, rule, REG_EXTENDED | REG_NOSUB) == 0);
    bool good = regexec(&regex, ty_cstr(&a, value), 0, NULL, 0) == 0;
    regfree(&regex);
    ty_arena_clear(&a);
    if (good)
        return TY_OK;
    return ty_fail(TY_INVALID_ARGUMENT,
                   "The project property must be set to a valid project ID, [" TY_STR_FMT
                   "] is not a valid project ID: lower-case letters, digits and '-', at most 63.",
                   TY_STR_ARG(value));
}

bool cli_gcloud_is_ours(struct cli *c, const char *folder)
{
    ty_str universe = auth_gcloud_property(c->arena, folder, "core", "universe_domain");
    if (strcmp(folder, ty_format(c->arena, "%s/client/gcloud", c->data_dir)) == 0 ||
        ty_str_is(universe, AUTH_UNIVERSE))
        return true;
    (void)!ty_fail(TY_FAILED_PRECONDITION,
                   "CLOUDSDK_CONFIG is '%s', which is not Trainyard's and stays as it is: evaluate "
                   "'trainyard env' in this shell, or unset it",
                   folder);
    return false;
}

/* Set or, with an empty value, unset. */
static int property_write(struct cli *c, const struct cli_property *p, ty_str value)
{
    const char *folder = cli_gcloud_dir(c), *given = getenv(p->variable);
    if (!cli_gcloud_is_ours(c, folder))
        return cli_fail(c, TY_FAILED_PRECONDITION);
    ty_err err = auth_gcloud_property_set(c->arena, folder, p->section, p->key, value);
    if (err != TY_OK)
        return cli_fail(c, err);
    cli_say(c, "%s property [%s/%s].\n", value.len > 0 ? "Updated" : "Unset", p->section, p->key);
    if (given != NULL && given[0] != '\0')
        fprintf(stderr, "WARNING: the variable %s is set to '%s' and wins in this shell.\n",
                p->variable, cli_text_for(c->arena, STDERR_FILENO, given));
    return CLI_OK;
}

static ty_str property_read(struct cli *c, const struct cli_property *p)
{
    ty_str value = ty_str_of(getenv(p->variable));
    if (value.len == 0)
        value = auth_gcloud_property(c->arena, cli_gcloud_dir(c), p->section, p->key);
    return value;
}

int cli_config_set(struct cli *c)
{
    int status = CLI_OK;
    const struct cli_property *p = property_given(c, &status);
    if (p == NULL)
        return status;
    if (value_check(c->args.second) != TY_OK)
        return cli_fail_usage(c);
    if (strcmp(p->key, "project") == 0 && project_check(c->args.second) != TY_OK)
        return cli_fail_value(c);
    return property_write(c, p, c->args.second);
}

int cli_config_unset(struct cli *c)
{
    int status = CLI_OK;
    const struct cli_property *p = property_given(c, &status);
    return p != NULL ? property_write(c, p, (ty_str){"", 0}) : status;
}

int cli_config_get(struct cli *c)
{
    int status = CLI_OK;
    const struct cli_property *p = property_given(c, &status);
    if (p == NULL)
        return status;
    ty_str value = property_read(c, p);
    if (value.len > 0)
        printf(TY_STR_FMT "\n", TY_STR_ARG(value));
    else
        fputs("(unset)\n", stderr);
    return CLI_OK;
}

int cli_config_get_value(struct cli *c)
{
    return cli_config_get(c);
}

int cli_config_list(struct cli *c)
{
    const char *section = "";
    json_t *all = json_object();
    c->data_dir = cli_data_dir(c);
    for (size_t i = 0; i < TY_COUNT(properties); i++) {
        const struct cli_property *p = &properties[i];
        ty_str value = property_read(c, p);
        json_t *in = json_object_get(all, p->section);
        if (value.len == 0)
            continue;
        if (in == NULL)
            json_object_set_new(all, p->section, in = json_object());
        json_object_set_new(in, p->key, json_stringn(value.ptr, value.len));
        if (cli_arg(&c->args, "format").len > 0)
            continue;
        if (strcmp(section, p->section) != 0)
            printf("[%s]\n", p->section);
        section = p->section;
        printf("%s = " TY_STR_FMT "\n", p->key, TY_STR_ARG(value));
    }
    int status = cli_print(c, all, "none");
    json_decref(all);
    return status;
}
