/* gcloud.c -- a CLOUDSDK_CONFIG folder in which every gcloud command comes here or fails.
 *
 * gcloud keeps properties in configurations/config_NAME, an INI file that `gcloud config set`
 * rewrites. At each start of the server every such file is read, our properties are set in it, and
 * all others stay: the user's project and region survive. What was tried with gcloud 528:
 *   auth/access_token_file     no request before the real one, print-access-token works, and no
 *                              "unauthenticated" text in errors (auth/disable_credentials has it)
 *   core/universe_domain       an API without an endpoint property asks NAME.AUTH_UNIVERSE, which
 *                              cannot be looked up, instead of NAME.googleapis.com
 *   core/account               needed for nothing but `config get account`, which scripts call
 *   auth/token_host, auth_host where `gcloud auth ...` would go to sign in
 * gsutil's JSON API insists on TLS: boto names our port, which speaks both, and our certificate
 * (certificate.c). The gs_host line keeps its other API from Google. */
#include "auth/auth_int.h"

#include <dirent.h>

/* Properties in the order of the file. */
struct properties {
    struct ty_arena *arena;
    struct auth_property *first;
};

static struct auth_property *property_find(const struct properties *p, ty_str section, ty_str key)
{
    for (struct auth_property *i = p->first; i != NULL; i = i->next)
        if (ty_str_eq(i->section, section) && ty_str_eq(i->key, key))
            return i;
    return NULL;
}

static void property_set(struct properties *p, ty_str section, ty_str key, ty_str value)
{
    struct auth_property *i = property_find(p, section, key);
    if (i == NULL) {
        struct auth_property **end = &p->first;
        while (*end != NULL)
            end = &(*end)->next;
        i = *end = ty_new(p->arena, struct auth_property);
        *i = (struct auth_property){.section = section, .key = key};
    }
    i->value = value;
}

static void property_default(struct properties *p, const char *section, const char *key,
                             const char *value)
{
    if (property_find(p, ty_str_of(section), ty_str_of(key)) == NULL)
        property_set(p, ty_str_of(section), ty_str_of(key), ty_str_of(value));
}

/* Lines that are no "[section]" or "key = value" are dropped, as gcloud drops them when it writes.
 */
static void properties_parse(struct properties *p, ty_str text)
{
    ty_str section = TY_STR("core"), line;
    bool more = true;
    while (more) {
        more = ty_str_split(&text, '\n', &line);
        line = ty_str_trim(line);
        if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';')
            continue;
        if (line.ptr[0] == '[' && line.ptr[line.len - 1] == ']') {
            section = ty_str_trim((ty_str){line.ptr + 1, line.len - 2});
            continue;
        }
        ty_str key, value = line;
        if (ty_str_split(&value, '=', &key))
            property_set(p, section, ty_str_trim(key), ty_str_trim(value));
    }
}

static bool section_is_first(const struct properties *p, const struct auth_property *of)
{
    for (const struct auth_property *i = p->first; i != of; i = i->next)
        if (ty_str_eq(i->section, of->section))
            return false;
    return true;
}

static void properties_print(const struct properties *p, struct ty_buf *b)
{
    for (const struct auth_property *s = p->first; s != NULL; s = s->next) {
        if (!section_is_first(p, s))
            continue;
        ty_buf_addf(b, "[" TY_STR_FMT "]\n", TY_STR_ARG(s->section));
        for (const struct auth_property *i = s; i != NULL; i = i->next)
            if (ty_str_eq(i->section, s->section))
                ty_buf_addf(b, TY_STR_FMT " = " TY_STR_FMT "\n", TY_STR_ARG(i->key),
                            TY_STR_ARG(i->value));
        ty_buf_addc(b, '\n');
    }
}

static void properties_point_here(struct properties *p, const char *client, const char *url,
                                  const char *project, const char *region)
{
    static const struct {
        const char *name;
        bool elsewhere;
    } apis[] = {
#define API(name)           {#name, false},
#define API_ELSEWHERE(name) {#name, true},
#include "auth/gcloud_apis.def"
#undef API
#undef API_ELSEWHERE
    };
    struct ty_arena *a = p->arena;
    property_default(p, "core", "project", project);
    property_default(p, "ai", "region", region);
    property_default(p, "compute", "region", region);
    /* gcloud's older commands put a region before the host, unless it is this one; and they sleep a
     * minute between two looks at a log. */
    property_default(p, "ai_platform", "region", "global");
    property_default(p, "ml_engine", "polling_interval", "1");
    property_default(p, "core", "account",
                     ty_format(a, "trainyard@%s.iam.gserviceaccount.com", project));
    const char *const ours[][3] = {
        {"core", "universe_domain", AUTH_UNIVERSE},
        {"core", "disable_usage_reporting", "true"},
        {"core", "pass_credentials_to_gsutil", "false"},
        {"auth", "access_token_file", ty_format(a, "%s/token", client)},
        {"auth", "auth_host", ty_format(a, "%s/auth", url)},
        {"auth", "token_host", ty_format(a, "%s/token", url)},
        {"auth", "mtls_token_host", ty_format(a, "%s/token", url)},
        {"auth", "token_introspection_endpoint", ty_format(a, "%s/introspect", url)},
        {"survey", "disable_prompts", "true"},
        {"component_manager", "disable_update_check", "true"},
    };
    for (size_t i = 0; i < TY_COUNT(ours); i++)
        property_set(p, ty_str_of(ours[i][0]), ty_str_of(ours[i][1]), ty_str_of(ours[i][2]));
    ty_str endpoint = ty_str_of(ty_format(a, "%s/", url)); /* gcloud insists on the slash */
    for (size_t i = 0; i < TY_COUNT(apis); i++)
        property_set(p, TY_STR("api_endpoint_overrides"), ty_str_of(apis[i].name),
                     apis[i].elsewhere ? TY_STR("trainyard-does-not-have-this-service") : endpoint);
}

static ty_err properties_write(const struct properties *p, const char *path)
{
    struct ty_buf b;
    ty_buf_init(&b, AUTH_FILE_LIMIT);
    properties_print(p, &b);
    ty_err err = ty_buf_check(&b, path);
    if (err == TY_OK)
        err = auth_file_write(path, ty_buf_str(&b), 0600);
    ty_buf_clear(&b);
    return err;
}

static ty_err configuration_write(struct ty_arena *a, const char *path, const char *client,
                                  const char *url, const char *project, const char *region)
{
    struct properties p = {.arena = a};
    ty_str text;
    ty_err err = ty_file_read(AT_FDCWD, path, AUTH_FILE_LIMIT, a, &text);
    if (err == TY_OK)
        properties_parse(&p, text);
    else if (err != TY_NOT_FOUND)
        return err;
    properties_point_here(&p, client, url, project, region);
    return properties_write(&p, path);
}

/* gcloud's own rule, a-z, 0-9 and "-", as far as it matters here: what ty_file_replace leaves when
 * it is cut short ("config_default.0123.tmp") is none, or each start would add to its name. */
static bool is_configuration(const char *name)
{
    return ty_str_starts(ty_str_of(name), TY_STR("config_")) && strchr(name, '.') == NULL;
}

/* The user's other configurations too: `gcloud config configurations activate` must not lead away.
 */
static ty_err configurations_write(struct ty_arena *a, const char *client, const char *url,
                                   const char *project, const char *region)
{
    const char *folder = ty_format(a, "%s/gcloud/configurations", client);
    ty_err err = configuration_write(a, ty_format(a, "%s/config_default", folder), client, url,
                                     project, region);
    DIR *dir = err == TY_OK ? opendir(folder) : NULL;
    if (err == TY_OK && dir == NULL)
        return ty_fail_errno(errno, "cannot list '%s'", folder);
    for (struct dirent *e; err == TY_OK && (e = readdir(dir)) != NULL;)
        if (is_configuration(e->d_name) && strcmp(e->d_name, "config_default") != 0)
            err = configuration_write(a, ty_format(a, "%s/%s", folder, e->d_name), client, url,
                                      project, region);
    if (dir != NULL)
        closedir(dir);
    return err;
}

static ty_err boto_write(struct ty_arena *a, const char *client, const char *url)
{
    ty_str host = ty_str_of(url), name;
    ty_str_split(&host, ':', &name); /* http */
    while (host.len > 0 && host.ptr[0] == '/')
        host = ty_str_drop(host, 1);
    size_t colon = host.len;
    while (colon > 0 && host.ptr[colon - 1] != ':')
        colon--;
    if (colon == 0)
        return ty_fail(TY_INTERNAL, "url '%s' has no port", url);
    name = (ty_str){host.ptr, colon - 1};
    ty_str port = ty_str_drop(host, colon);
    const char *text = ty_format(
        a,
        "[Credentials]\ngs_host = " TY_STR_FMT "\ngs_port = " TY_STR_FMT
        "\ngs_json_host = " TY_STR_FMT "\ngs_json_port = " TY_STR_FMT
        "\n\n[Boto]\nis_secure = True\nhttps_validate_certificates = True\n"
        "ca_certificates_file = %s/../tls/cert.pem\n\n"
        "[GSUtil]\nprefer_api = json\nuse_gcloud_storage = False\n"
        "software_update_check_period = 0\n\n"
        "[OAuth2]\nprovider_token_uri = %s/token\n"
        "provider_authorization_uri = %s/auth\n",
        TY_STR_ARG(name), TY_STR_ARG(port), TY_STR_ARG(name), TY_STR_ARG(port), client, url, url);
    return auth_file_write(ty_format(a, "%s/boto", client), ty_str_of(text), 0600);
}

ty_err auth_gcloud_write(struct ty_arena *a, const char *client_dir, const char *url,
                         const char *project, const char *region)
{
    ty_err err = configurations_write(a, client_dir, url, project, region);
    const char *active = ty_format(a, "%s/gcloud/active_config", client_dir);
    if (err == TY_OK && access(active, F_OK) != 0)
        err = ty_file_replace(AT_FDCWD, active, TY_STR("default"), 0600);
    if (err == TY_OK)
        err = boto_write(a, client_dir, url);
    return err;
}

static const char *path_of(struct ty_arena *a, const char *gcloud_dir, ty_str name)
{
    return ty_format(a, "%s/configurations/config_" TY_STR_FMT, gcloud_dir, TY_STR_ARG(name));
}

ty_str auth_gcloud_active(struct ty_arena *a, const char *gcloud_dir)
{
    ty_str named = ty_str_of(getenv("CLOUDSDK_ACTIVE_CONFIG_NAME")), text;
    if (named.len > 0)
        return named;
    if (ty_file_read(AT_FDCWD, ty_format(a, "%s/active_config", gcloud_dir), 4096, a, &text) ==
            TY_OK &&
        ty_str_trim(text).len > 0)
        return ty_str_trim(text);
    return TY_STR("default");
}

/* The file of the active configuration. */
static const char *active_path(struct ty_arena *a, const char *gcloud_dir)
{
    return path_of(a, gcloud_dir, auth_gcloud_active(a, gcloud_dir));
}

ty_str auth_gcloud_property(struct ty_arena *a, const char *gcloud_dir, const char *section,
                            const char *key)
{
    ty_str text;
    if (ty_file_read(AT_FDCWD, active_path(a, gcloud_dir), AUTH_FILE_LIMIT, a, &text) != TY_OK)
        return (ty_str){"", 0};
    struct properties p = {.arena = a};
    properties_parse(&p, text);
    struct auth_property *found = property_find(&p, ty_str_of(section), ty_str_of(key));
    return found != NULL ? found->value : (ty_str){"", 0};
}

static void property_remove(struct properties *p, ty_str section, ty_str key)
{
    struct auth_property *found = property_find(p, section, key), **at = &p->first;
    while (found != NULL && *at != found)
        at = &(*at)->next;
    if (found != NULL)
        *at = found->next;
}

ty_err auth_gcloud_property_set(struct ty_arena *a, const char *gcloud_dir, const char *section,
                                const char *key, ty_str value)
{
    struct properties p = {.arena = a};
    const char *path = active_path(a, gcloud_dir);
    ty_str text;
    ty_assert(memchr(value.ptr, '\n', value.len) == NULL);
    ty_err err = ty_file_read(AT_FDCWD, path, AUTH_FILE_LIMIT, a, &text);
    if (err == TY_OK)
        properties_parse(&p, text);
    else if (err == TY_NOT_FOUND)
        err = ty_mkdirs(ty_format(a, "%s/configurations", gcloud_dir), 0700);
    if (err != TY_OK)
        return err;
    if (value.len > 0)
        property_set(&p, ty_str_of(section), ty_str_of(key), value);
    else
        property_remove(&p, ty_str_of(section), ty_str_of(key));
    return properties_write(&p, path);
}

/* ---- named configurations ---- */

static int name_compare(const void *a, const void *b)
{
    return ty_str_cmp(*(const ty_str *)a, *(const ty_str *)b);
}

ty_err auth_gcloud_configurations(struct ty_arena *a, const char *gcloud_dir, ty_str **ret_names,
                                  size_t *ret_count)
{
    enum { MAX_NAMES = 1000 };
    const char *folder = ty_format(a, "%s/configurations", gcloud_dir);
    ty_str *names = ty_new_array(a, ty_str, MAX_NAMES), start = TY_STR("config_");
    size_t count = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL && errno != ENOENT)
        return ty_fail_errno(errno, "cannot list '%s'", folder);
    for (struct dirent *e; dir != NULL && count < MAX_NAMES && (e = readdir(dir)) != NULL;)
        if (ty_str_starts(ty_str_of(e->d_name), start))
            names[count++] = ty_str_dup(a, ty_str_drop(ty_str_of(e->d_name), start.len));
    if (dir != NULL)
        closedir(dir);
    qsort(names, count, sizeof(*names), name_compare);
    *ret_names = names;
    *ret_count = count;
    return TY_OK;
}

ty_err auth_gcloud_properties(struct ty_arena *a, const char *gcloud_dir, ty_str name,
                              struct auth_property **ret_first)
{
    struct properties p = {.arena = a};
    ty_str text;
    ty_err err = ty_file_read(AT_FDCWD, path_of(a, gcloud_dir, name), AUTH_FILE_LIMIT, a, &text);
    if (err != TY_OK)
        return err;
    properties_parse(&p, text);
    *ret_first = p.first;
    return TY_OK;
}

ty_err auth_gcloud_create(struct ty_arena *a, const char *gcloud_dir, ty_str name)
{
    static const char *const own[][2] = {
        {"core", "project"}, {"ai", "region"}, {"compute", "region"}};
    struct properties p = {.arena = a};
    const char *path = path_of(a, gcloud_dir, name);
    if (access(path, F_OK) == 0)
        return ty_fail(TY_ALREADY_EXISTS, "there is a configuration '" TY_STR_FMT "' already",
                       TY_STR_ARG(name));
    ty_err err = auth_gcloud_properties(a, gcloud_dir, TY_STR("default"), &p.first);
    if (err == TY_NOT_FOUND)
        return ty_fail(
            TY_FAILED_PRECONDITION,
            "there is no configuration 'default' in '%s' to start from; the server makes "
            "it: trainyard serve",
            gcloud_dir);
    for (size_t i = 0; i < TY_COUNT(own); i++)
        property_remove(&p, ty_str_of(own[i][0]), ty_str_of(own[i][1]));
    return err == TY_OK ? properties_write(&p, path) : err;
}

ty_err auth_gcloud_activate(struct ty_arena *a, const char *gcloud_dir, ty_str name)
{
    if (access(path_of(a, gcloud_dir, name), F_OK) != 0)
        return ty_fail(TY_NOT_FOUND, "there is no configuration '" TY_STR_FMT "'",
                       TY_STR_ARG(name));
    return ty_file_replace(AT_FDCWD, ty_format(a, "%s/active_config", gcloud_dir), name, 0600);
}

ty_err auth_gcloud_delete(struct ty_arena *a, const char *gcloud_dir, ty_str name)
{
    const char *path = path_of(a, gcloud_dir, name);
    if (unlink(path) == 0)
        return TY_OK;
    return ty_fail_errno(errno, "cannot remove '%s'", path);
}
