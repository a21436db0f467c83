/* env.c -- the variables that bring Google's clients here and keep them here.
 *
 * Three kinds: endpoints and credentials that we set; variables that would beat our configuration
 * or lead to Google, which are unset; and, behind a proxy, the exception for our own address.
 * Project and region are in gcloud's configuration and in key.json, not in variables, so that
 * `gcloud config set project` keeps working. */
#include "auth/auth_int.h"

enum { ENV_MAX_VARS = 512 };

struct vars {
    struct ty_arena *arena;
    struct auth_var *items;
    size_t count;
};

static void vars_add(struct vars *v, const char *name, const char *value)
{
    for (size_t i = 0; i < v->count; i++)
        if (strcmp(v->items[i].name, name) == 0)
            return;
    if (v->count < ENV_MAX_VARS)
        v->items[v->count++] = (struct auth_var){name, value};
}

/* CLOUDSDK_ variables that say how gcloud looks or is run, not where it goes. */
static bool cloudsdk_is_harmless(ty_str name)
{
    static const char *const names[] = {
        "CLOUDSDK_PYTHON",
        "CLOUDSDK_PYTHON_ARGS",
        "CLOUDSDK_ROOT_DIR",
        "CLOUDSDK_PYTHON_SITEPACKAGES",
        "CLOUDSDK_GSUTIL_PYTHON",
        "CLOUDSDK_BQ_PYTHON",
        "CLOUDSDK_ENCODING",
        "CLOUDSDK_CORE_DISABLE_PROMPTS",
        "CLOUDSDK_CORE_VERBOSITY",
        "CLOUDSDK_CORE_LOG_HTTP",
        "CLOUDSDK_CORE_DISABLE_COLOR",
        "CLOUDSDK_CORE_SHOW_STRUCTURED_LOGS",
    };
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (ty_str_is(name, names[i]))
            return true;
    return false;
}

static bool is_shell_name(ty_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool ok = c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  (i > 0 && c >= '0' && c <= '9');
        if (!ok)
            return false;
    }
    return s.len > 0;
}

static void unset_cloudsdk(struct vars *v)
{
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        ty_str value = ty_str_of(*e), name;
        if (ty_str_split(&value, '=', &name) && ty_str_starts(name, TY_STR("CLOUDSDK_")) &&
            is_shell_name(name) && !cloudsdk_is_harmless(name))
            vars_add(v, ty_cstr(v->arena, name), NULL);
    }
}

/* A proxy would be asked for 127.0.0.1 as well, and cannot reach it. */
static void except_from_proxy(struct vars *v)
{
    static const char *const proxies[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"};
    static const char *const exceptions[] = {"no_proxy", "NO_PROXY"};
    bool proxied = false;
    for (size_t i = 0; i < TY_COUNT(proxies); i++)
        proxied |= getenv(proxies[i]) != NULL;
    for (size_t i = 0; proxied && i < TY_COUNT(exceptions); i++) {
        const char *before = getenv(exceptions[i]);
        if (before == NULL || before[0] == '\0')
            vars_add(v, exceptions[i], "127.0.0.1,localhost");
        else if (strstr(before, "127.0.0.1") == NULL)
            vars_add(v, exceptions[i], ty_format(v->arena, "%s,127.0.0.1,localhost", before));
    }
}

/* Is it the client/python of a data folder, this one or another? */
static bool is_client_python(struct ty_arena *a, ty_str folder)
{
    ty_str tail = TY_STR("/client/python");
    ty_str data = {folder.ptr, folder.len - (folder.len < tail.len ? folder.len : tail.len)};
    return ty_str_ends(folder, tail) &&
           access(ty_format(a, TY_STR_FMT "/client/key.json", TY_STR_ARG(data)), F_OK) == 0;
}

/* PYTHONPATH with our folder first. That of another data folder goes: Python runs one
 * sitecustomize, and theirs would lead to the server of the shell's former env. */
static const char *python_path(struct ty_arena *a, const char *data_dir, const char *before)
{
    const char *path = ty_format(a, "%s/client/python", data_dir);
    ty_str rest = ty_str_of(before != NULL ? before : ""), folder;
    for (bool more = rest.len > 0; more;) {
        more = ty_str_split(&rest, ':', &folder);
        if (!is_client_python(a, folder))
            path = ty_format(a, "%s:" TY_STR_FMT, path, TY_STR_ARG(folder));
    }
    return path;
}

struct auth_var *auth_client_env(struct ty_arena *a, const char *data_dir, const char *url,
                                 const char *python_path_before, size_t *ret_count)
{
    static const char *const unset[] = {
        "GOOGLE_CLOUD_PROJECT",
        "GCLOUD_PROJECT",
        "GOOGLE_CLOUD_QUOTA_PROJECT",
        "GOOGLE_CLOUD_REGION",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_API_USE_CLIENT_CERTIFICATE",
        "GOOGLE_API_USE_MTLS_ENDPOINT",
        "API_ENDPOINT_OVERRIDE",
        "BOTO_PATH",
    };
    struct vars v = {a, ty_new_array(a, struct auth_var, ENV_MAX_VARS), 0};
    const char *host = strstr(url, "://") != NULL ? strstr(url, "://") + 3 : url;
    vars_add(&v, "TRAINYARD_URL", url);
    vars_add(&v, "CLOUDSDK_CONFIG", ty_format(a, "%s/client/gcloud", data_dir));
    vars_add(&v, "GOOGLE_APPLICATION_CREDENTIALS", ty_format(a, "%s/client/key.json", data_dir));
    vars_add(&v, "GOOGLE_CLOUD_UNIVERSE_DOMAIN", AUTH_UNIVERSE);
    vars_add(&v, "BOTO_CONFIG", ty_format(a, "%s/client/boto", data_dir));
    /* gcloud hands it to gsutil, over what boto says. */
    vars_add(&v, "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", ty_format(a, "%s/tls/cert.pem", data_dir));
    vars_add(&v, "PYTHONPATH", python_path(a, data_dir, python_path_before));
    vars_add(&v, "STORAGE_EMULATOR_HOST", url);
    vars_add(&v, "CLOUD_STORAGE_EMULATOR_ENDPOINT", url);   /* Google's C++ client */
    vars_add(&v, "GOOGLE_AUTH_TOKEN_FOR_TESTING", "local"); /* TensorFlow's gs:// */
    vars_add(&v, "GOOGLE_VERTEX_BASE_URL", url);            /* google-genai */
    vars_add(&v, "GOOGLE_GEMINI_BASE_URL", url);
    vars_add(&v, "GCE_METADATA_HOST", host);
    vars_add(&v, "GCE_METADATA_IP", host);
    vars_add(&v, "GCE_METADATA_ROOT", host); /* gcloud's name for it */
    for (size_t i = 0; i < TY_COUNT(unset); i++)
        vars_add(&v, unset[i], NULL);
    unset_cloudsdk(&v);
    except_from_proxy(&v);
    *ret_count = v.count;
    return v.items;
}

/* TensorFlow asks a proxy for Google's hosts, too, unless they are excepted. */
static void except_storage_from_proxy(struct vars *v)
{
    static const char *const proxies[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    static const char hosts[] = "storage.googleapis.com,www.googleapis.com,oauth2.googleapis.com";
    bool proxied = false;
    for (size_t i = 0; i < TY_COUNT(proxies); i++)
        proxied |= getenv(proxies[i]) != NULL;
    if (!proxied)
        return;
    const char *names[] = {"no_proxy", "NO_PROXY"};
    for (size_t i = 0; i < TY_COUNT(names); i++) {
        vars_add(v, names[i], getenv(names[i])); /* unless it is there already */
        for (size_t n = 0; n < v->count; n++)
            if (strcmp(v->items[n].name, names[i]) == 0) {
                const char *before = v->items[n].value ? v->items[n].value : "";
                v->items[n].value =
                    ty_format(v->arena, "%s%s%s", before, before[0] ? "," : "", hosts);
            }
    }
}

/* The loader takes a space or a colon for the end of a path. */
static bool path_can_be_preloaded(const char *path)
{
    return strpbrk(path, " :") == NULL;
}

const char *auth_gs_off(struct ty_arena *a, const char *data_dir)
{
    if (!path_can_be_preloaded(data_dir))
        return ty_format(a,
                         "the path '%s' has a space or a colon, which LD_PRELOAD cannot have: give "
                         "another data folder with --data",
                         data_dir);
    if (auth_system_bundle() == NULL)
        return "this machine has no file of certificate authorities (as "
               "/etc/ssl/certs/ca-certificates.crt): on Debian, apt install ca-certificates; or "
               "name one for the server with SSL_CERT_FILE. Then start the server again";
    return NULL;
}

struct auth_var *auth_job_env(struct ty_arena *a, const char *data_dir, const char *url,
                              size_t *ret_count)
{
    struct vars v = {.arena = a};
    v.items = auth_client_env(a, data_dir, url, NULL, &v.count);
    size_t kept = 0;
    for (size_t i = 0; i < v.count; i++)
        if (v.items[i].value != NULL)
            v.items[kept++] = v.items[i];
    v.count = kept;
    const char *bundle = ty_format(a, "%s/client/bundle.pem", data_dir);
    const char *library = ty_format(a, "%s/client/" AUTH_PRELOAD, data_dir);
    if (access(bundle, R_OK) == 0 && path_can_be_preloaded(library)) {
        vars_add(&v, "CURL_CA_BUNDLE", bundle);
        vars_add(&v, "LD_PRELOAD", library);
        except_storage_from_proxy(&v);
    }
    *ret_count = v.count;
    return v.items;
}
