/* test_auth.c -- the files and variables that bring Google's clients here. */
#include "base/test.h"

#include "auth/auth.h"
#include "wire/wire.h"

static const char URL[] = "http://127.0.0.1:7575";

/* A fresh data folder, and an arena, for one test. */
struct yard {
    struct ty_arena arena;
    char dir[64];
};

static int yard_open(void **state)
{
    struct yard *y = calloc(1, sizeof(*y));
    snprintf(y->dir, sizeof(y->dir), "/tmp/test_auth.XXXXXX");
    assert_non_null(mkdtemp(y->dir));
    *state = y;
    return 0;
}

static int yard_close(void **state)
{
    struct yard *y = *state;
    assert_ok(ty_remove_tree(AT_FDCWD, y->dir));
    ty_arena_clear(&y->arena);
    free(y);
    return 0;
}

static ty_str yard_read(struct yard *y, const char *path)
{
    ty_str text;
    assert_ok(ty_file_read(AT_FDCWD, ty_format(&y->arena, "%s/client/%s", y->dir, path), 1 << 20,
                           &y->arena, &text));
    return text;
}

static void yard_write(struct yard *y, const char *path, const char *text)
{
    assert_ok(ty_file_replace(AT_FDCWD, ty_format(&y->arena, "%s/client/%s", y->dir, path),
                              ty_str_of(text), 0600));
}

static ty_str property(struct yard *y, const char *section, const char *key)
{
    return auth_gcloud_property(&y->arena, ty_format(&y->arena, "%s/client/gcloud", y->dir),
                                section, key);
}

static void assert_str(ty_str have, const char *want)
{
    if (!ty_str_is(have, want))
        fail_msg("'" TY_STR_FMT "' is not '%s'", TY_STR_ARG(have), want);
}

static json_t *key_json(struct yard *y)
{
    json_t *key;
    assert_ok(wire_json_parse(yard_read(y, "key.json"), &key));
    return key;
}

static void key_is_a_service_account(void **state)
{
    struct yard *y = *state;
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    json_t *key = key_json(y);
    assert_str(wire_json_get_str(key, "type"), "service_account");
    assert_str(wire_json_get_str(key, "project_id"), "demo");
    assert_str(wire_json_get_str(key, "client_email"), "trainyard@demo.iam.gserviceaccount.com");
    assert_str(wire_json_get_str(key, "token_uri"), "http://127.0.0.1:7575/token");
    assert_str(wire_json_get_str(key, "universe_domain"), AUTH_UNIVERSE);
    assert_int_equal(wire_json_get_str(key, "private_key_id").len, 40);
    json_decref(key);
}

/* The PEM holds DER of a PKCS#8 key of about the size 2048 bits need, in lines of 64. */
static void key_pem_is_pkcs8(void **state)
{
    struct yard *y = *state;
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    json_t *key = key_json(y);
    ty_str pem = wire_json_get_str(key, "private_key"), line;
    struct ty_buf base64;
    ty_buf_init(&base64, 1 << 16);
    assert_true(ty_str_split(&pem, '\n', &line));
    assert_str(line, "-----BEGIN PRIVATE KEY-----");
    while (ty_str_split(&pem, '\n', &line) && line.ptr[0] != '-') {
        assert_true(line.len <= 64);
        ty_buf_adds(&base64, line);
    }
    assert_str(line, "-----END PRIVATE KEY-----");
    assert_int_equal(pem.len, 0);
    ty_str der;
    assert_ok(wire_base64_decode(&y->arena, ty_buf_str(&base64), &der));
    assert_in_range(der.len, 1150, 1300);
    assert_memory_equal(der.ptr, "\x30\x82", 2); /* SEQUENCE, long length */
    static const char rsa_oid[] = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
    assert_non_null(memmem(der.ptr, 40, rsa_oid, sizeof(rsa_oid) - 1));
    ty_buf_clear(&base64);
    json_decref(key);
}

static void key_is_made_once(void **state)
{
    struct yard *y = *state;
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    json_t *before = key_json(y);
    assert_ok(auth_client_prepare(y->dir, "http://127.0.0.1:9999", "demo", "us-central1"));
    json_t *after = key_json(y);
    assert_true(ty_str_eq(wire_json_get_str(before, "private_key"),
                          wire_json_get_str(after, "private_key")));
    assert_str(wire_json_get_str(after, "token_uri"), "http://127.0.0.1:9999/token");
    json_decref(before);
    json_decref(after);
}

static void key_damaged_is_replaced(void **state)
{
    struct yard *y = *state;
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    yard_write(y, "key.json", "{\"private_key\": \"-----BEG");
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    json_t *key = key_json(y);
    assert_true(wire_json_get_str(key, "private_key").len > 1000);
    json_decref(key);
}

static void files_are_private(void **state)
{
    static const char *const files[] = {"key.json", "token", "boto", "python/sitecustomize.py",
                                        "gcloud/configurations/config_default"};
    struct yard *y = *state;
    struct stat st;
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    for (size_t i = 0; i < TY_COUNT(files); i++) {
        assert_int_equal(stat(ty_format(&y->arena, "%s/client/%s", y->dir, files[i]), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    assert_int_equal(stat(ty_format(&y->arena, "%s/client", y->dir), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0711); /* for the library, which containers need */
    assert_str(yard_read(y, "token"), auth_token());
    assert_int_equal(strlen(auth_token()), 64);
}

static void gcloud_every_endpoint_is_ours(void **state)
{
    struct yard *y = *state;
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    assert_str(property(y, "api_endpoint_overrides", "aiplatform"), "http://127.0.0.1:7575/");
    assert_str(property(y, "api_endpoint_overrides", "cloudresourcemanager"),
               "http://127.0.0.1:7575/");
    assert_str(property(y, "core", "universe_domain"), AUTH_UNIVERSE);
    assert_str(property(y, "auth", "token_host"), "http://127.0.0.1:7575/token");
    ty_str text = yard_read(y, "gcloud/configurations/config_default");
    assert_null(memmem(text.ptr, text.len, "googleapis", 10));
    text = yard_read(y, "boto");
    assert_null(memmem(text.ptr, text.len, "googleapis", 10));
    assert_non_null(memmem(text.ptr, text.len, "gs_host = 127.0.0.1\ngs_port = 7575\n", 35));
}

/* Made once, for this machine's own addresses, readable by its owner alone. */
static void certificate_is_made_once(void **state)
{
    struct yard *y = *state;
    struct auth_certificate first, second;
    struct stat st;
    assert_ok(auth_certificate_prepare(&y->arena, y->dir, &first));
    assert_true(ty_str_starts(first.certificate, TY_STR("-----BEGIN CERTIFICATE-----\n")));
    assert_true(ty_str_starts(first.key, TY_STR("-----BEGIN PRIVATE KEY-----\n")));
    assert_int_equal(stat(ty_format(&y->arena, "%s/tls/key.pem", y->dir), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_ok(auth_certificate_prepare(&y->arena, y->dir, &second));
    assert_true(ty_str_eq(first.certificate, second.certificate));
    assert_int_equal(unlink(ty_format(&y->arena, "%s/tls/cert.pem", y->dir)), 0);
    assert_ok(auth_certificate_prepare(&y->arena, y->dir, &second));
    assert_false(ty_str_eq(first.certificate, second.certificate));
}

/* What `gcloud config set` wrote stays when the server comes back on another port. */
static void gcloud_keeps_the_users_project(void **state)
{
    struct yard *y = *state;
    assert_ok(auth_client_prepare(y->dir, URL, "trainyard", "us-central1"));
    assert_str(property(y, "core", "project"), "trainyard");
    yard_write(y, "gcloud/configurations/config_default",
               "[core]\nproject = mine\nverbosity = error\n\n[ai]\nregion=europe-west4\n"
               "[api_endpoint_overrides]\naiplatform = https://elsewhere.example/\n");
    assert_ok(auth_client_prepare(y->dir, "http://127.0.0.1:8001", "trainyard", "us-central1"));
    assert_str(property(y, "core", "project"), "mine");
    assert_str(property(y, "core", "verbosity"), "error");
    assert_str(property(y, "ai", "region"), "europe-west4");
    assert_str(property(y, "api_endpoint_overrides", "aiplatform"), "http://127.0.0.1:8001/");
    json_t *key = key_json(y);
    assert_str(wire_json_get_str(key, "project_id"), "mine");
    json_decref(key);
}

static void gcloud_other_configurations_come_here_too(void **state)
{
    struct yard *y = *state;
    assert_ok(auth_client_prepare(y->dir, URL, "trainyard", "us-central1"));
    yard_write(y, "gcloud/configurations/config_work", "[core]\nproject = work\n");
    yard_write(y, "gcloud/active_config", "work\n");
    assert_ok(auth_client_prepare(y->dir, URL, "trainyard", "us-central1"));
    assert_str(property(y, "core", "project"), "work");
    assert_str(property(y, "api_endpoint_overrides", "ml"), "http://127.0.0.1:7575/");
}

/* A start that is killed while it writes one leaves such a file; the next must not write that too.
 */
static void gcloud_what_a_crash_left_is_no_configuration(void **state)
{
    struct yard *y = *state;
    const char *left = "gcloud/configurations/config_default.0123456789abcdef.tmp";
    assert_ok(auth_client_prepare(y->dir, URL, "trainyard", "us-central1"));
    yard_write(y, left, "[core]\nproject = ha");
    assert_ok(auth_client_prepare(y->dir, URL, "trainyard", "us-central1"));
    assert_str(yard_read(y, left), "[core]\nproject = ha");
}

static const char *value_of(const struct auth_var *vars, size_t count, const char *name,
                            bool *ret_found)
{
    *ret_found = false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(vars[i].name, name) == 0) {
            *ret_found = true;
            return vars[i].value;
        }
    return NULL;
}

static void env_no_google_host(void **state)
{
    struct yard *y = *state;
    size_t count;
    bool found;
    struct auth_var *vars = auth_client_env(&y->arena, y->dir, URL, "/mine", &count);
    for (size_t i = 0; i < count; i++)
        if (vars[i].value != NULL) {
            assert_null(strstr(vars[i].value, "google"));
            assert_null(strstr(vars[i].value, "https:"));
        }
    assert_string_equal(value_of(vars, count, "STORAGE_EMULATOR_HOST", &found), URL);
    assert_string_equal(value_of(vars, count, "GCE_METADATA_HOST", &found), "127.0.0.1:7575");
    assert_string_equal(value_of(vars, count, "PYTHONPATH", &found),
                        ty_format(&y->arena, "%s/client/python:/mine", y->dir));
    assert_null(value_of(vars, count, "GOOGLE_CLOUD_PROJECT", &found));
    assert_true(found);
}

/* A shell that was another yard's before: that one's folder goes, the user's own stay. */
static void env_replaces_another_yard(void **state)
{
    struct yard *y = *state;
    size_t count;
    bool found;
    const char *other = ty_format(&y->arena, "%s/other", y->dir);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_ok(auth_client_prepare(other, URL, "p", "r"));
    const char *before = ty_format(&y->arena, "/mine:%s/client/python:/my/client/python", other);
    struct auth_var *vars = auth_client_env(&y->arena, y->dir, URL, before, &count);
    assert_string_equal(value_of(vars, count, "PYTHONPATH", &found),
                        ty_format(&y->arena, "%s/client/python:/mine:/my/client/python", y->dir));
    vars = auth_client_env(&y->arena, y->dir, URL, "client/python", &count);
    assert_string_equal(value_of(vars, count, "PYTHONPATH", &found),
                        ty_format(&y->arena, "%s/client/python:client/python", y->dir));
}

/* What a shell does not get: the library and the bundle, and no proxy for Google's storage hosts.
 */
static void env_of_a_job(void **state)
{
    struct yard *y = *state;
    struct auth_certificate made;
    size_t count;
    bool found;
    const char *theirs = ty_format(&y->arena, "%s/theirs.pem", y->dir);
    assert_ok(ty_file_replace(AT_FDCWD, theirs, TY_STR("theirs\n"), 0600));
    setenv("CURL_CA_BUNDLE", theirs, 1);
    setenv("https_proxy", "http://proxy.example:3128", 1);
    setenv("no_proxy", "intranet", 1);
    assert_ok(auth_certificate_prepare(&y->arena, y->dir, &made));
    assert_ok(auth_client_prepare(y->dir, URL, "p", "r"));
    struct auth_var *vars = auth_job_env(&y->arena, y->dir, URL, &count);
    for (size_t i = 0; i < count; i++)
        assert_non_null(vars[i].value);
    assert_string_equal(value_of(vars, count, "LD_PRELOAD", &found),
                        ty_format(&y->arena, "%s/client/lib/trainyard-gs.so", y->dir));
    assert_string_equal(value_of(vars, count, "CURL_CA_BUNDLE", &found),
                        ty_format(&y->arena, "%s/client/bundle.pem", y->dir));
    assert_true(ty_str_starts(yard_read(y, "bundle.pem"),
                              TY_STR("theirs\n\n-----BEGIN CERTIFICATE-----\n")));
    assert_non_null(strstr(value_of(vars, count, "no_proxy", &found), "storage.googleapis.com"));
    assert_non_null(strstr(value_of(vars, count, "no_proxy", &found), "intranet"));
    unsetenv("https_proxy");
    unsetenv("no_proxy");
    unsetenv("CURL_CA_BUNDLE");
    /* A path that the loader would take for two. */
    vars = auth_job_env(&y->arena, ty_format(&y->arena, "%s/a b", y->dir), URL, &count);
    assert_null(value_of(vars, count, "LD_PRELOAD", &found));
}

static void env_unsets_what_would_lead_away(void **state)
{
    struct yard *y = *state;
    size_t count;
    bool found;
    setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", "https://aiplatform.googleapis.com/", 1);
    setenv("CLOUDSDK_CORE_PROJECT", "real", 1);
    setenv("CLOUDSDK_PYTHON", "/usr/bin/python3", 1);
    setenv("http_proxy", "http://proxy.example:3128", 1);
    setenv("no_proxy", "intranet", 1);
    struct auth_var *vars = auth_client_env(&y->arena, y->dir, URL, NULL, &count);
    value_of(vars, count, "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", &found);
    assert_true(found);
    assert_null(value_of(vars, count, "CLOUDSDK_CORE_PROJECT", &found));
    assert_true(found);
    value_of(vars, count, "CLOUDSDK_PYTHON", &found);
    assert_false(found);
    assert_string_equal(value_of(vars, count, "no_proxy", &found), "intranet,127.0.0.1,localhost");
    /* Our own CLOUDSDK_CONFIG is set, once, although the environment has one as well. */
    setenv("CLOUDSDK_CONFIG", "/home/user/.config/gcloud", 1);
    vars = auth_client_env(&y->arena, y->dir, URL, NULL, &count);
    assert_string_equal(value_of(vars, count, "CLOUDSDK_CONFIG", &found),
                        ty_format(&y->arena, "%s/client/gcloud", y->dir));
    unsetenv("CLOUDSDK_CONFIG");
    unsetenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM");
    unsetenv("CLOUDSDK_CORE_PROJECT");
    unsetenv("CLOUDSDK_PYTHON");
    unsetenv("http_proxy");
    unsetenv("no_proxy");
}

static void shims_are_links_to_this_program(void **state)
{
    struct yard *y = *state;
    char self[PATH_MAX], target[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    for (int again = 0; again < 2; again++)
        assert_ok(auth_client_shims(y->dir));
    assert_int_equal(access(ty_format(&y->arena, "%s/client/bin/gcloud", y->dir), F_OK), -1);
    assert_int_equal(
        readlink(ty_format(&y->arena, "%s/client/shims/gsutil", y->dir), target, sizeof(target)),
        n);
    assert_memory_equal(self, target, (size_t)n);
}

static void gcloud_properties_are_set_and_unset(void **state)
{
    struct yard *y = *state;
    const char *folder = ty_format(&y->arena, "%s/client/gcloud", y->dir);
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    assert_ok(
        auth_gcloud_property_set(&y->arena, folder, "core", "project", TY_STR("another-one")));
    assert_str(property(y, "core", "project"), "another-one");
    assert_str(property(y, "core", "universe_domain"), AUTH_UNIVERSE); /* the rest stays */
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    assert_str(property(y, "core", "project"), "another-one");
    assert_ok(auth_gcloud_property_set(&y->arena, folder, "core", "project", TY_STR("")));
    assert_str(property(y, "core", "project"), "");
    assert_ok(auth_gcloud_property_set(&y->arena, folder, "core", "project", TY_STR("")));
    const char *fresh = ty_format(&y->arena, "%s/fresh", y->dir);
    assert_ok(auth_gcloud_property_set(&y->arena, fresh, "ai", "region", TY_STR("r")));
    assert_str(auth_gcloud_property(&y->arena, fresh, "ai", "region"), "r");
}

/* A full disk has no room for the same bytes again. */
static void prepare_leaves_what_is_the_same(void **state)
{
    struct yard *y = *state;
    static const char *const names[] = {"key.json", "boto", "python/sitecustomize.py",
                                        "lib/trainyard-gs.so"};
    struct stat before[TY_COUNT(names)], after;
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    for (size_t i = 0; i < TY_COUNT(names); i++)
        assert_int_equal(stat(ty_format(&y->arena, "%s/client/%s", y->dir, names[i]), &before[i]),
                         0);
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    for (size_t i = 0; i < TY_COUNT(names); i++) {
        const char *path = ty_format(&y->arena, "%s/client/%s", y->dir, names[i]);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(after.st_mtim.tv_nsec, before[i].st_mtim.tv_nsec);
        assert_int_equal(after.st_mtim.tv_sec, before[i].st_mtim.tv_sec);
    }
    yard_write(y, "boto", "theirs");
    assert_ok(auth_client_prepare(y->dir, URL, "demo", "us-central1"));
    assert_false(ty_str_is(yard_read(y, "boto"), "theirs"));
}

static void prepare_names_the_missing_folder(void **state)
{
    struct yard *y = *state;
    const char *gone = ty_format(&y->arena, "%s/gone", y->dir);
    assert_err(TY_NOT_FOUND, auth_client_prepare(gone, URL, "demo", "us-central1"));
    assert_non_null(strstr(ty_err_message(), gone));
}

/* ---- replicas ---- */

static void replica_token_is_read_back(void **state)
{
    struct yard *y = *state;
    static const struct http_replica rows[] = {
        {.job = 1, .attempt = 1},
        {.job = INT64_MAX, .attempt = INT_MAX, .pool = INT_MAX, .index = INT_MAX},
        {.job = 1700000000000000017, .attempt = 3, .pool = 1, .index = 12},
    };
    struct auth_secret secret;
    assert_ok(auth_secret_open(y->dir, &secret));
    for (size_t i = 0; i < TY_COUNT(rows); i++) {
        struct http_replica r = {0};
        const char *token = auth_replica_token(&y->arena, &secret, &rows[i]);
        assert_true(auth_replica_read(&secret, ty_str_of(token), &r));
        assert_int_equal(r.job, rows[i].job);
        assert_int_equal(r.attempt, rows[i].attempt);
        assert_int_equal(r.pool, rows[i].pool);
        assert_int_equal(r.index, rows[i].index);
    }
}

/* Each byte changed, each length, another secret. */
static void replica_tampered_is_refused(void **state)
{
    struct yard *y = *state;
    struct auth_secret secret, other;
    struct http_replica r = {.job = 42, .attempt = 1, .pool = 0, .index = 1}, out;
    assert_ok(auth_secret_open(y->dir, &secret));
    char *token = auth_replica_token(&y->arena, &secret, &r);
    size_t len = strlen(token);
    for (size_t i = 0; i < len; i++) {
        char kept = token[i];
        assert_false(auth_replica_read(&secret, (ty_str){token, i}, &out));
        token[i] = kept == '1' ? '2' : '1';
        assert_false(auth_replica_read(&secret, (ty_str){token, len}, &out));
        token[i] = kept;
    }
    assert_true(auth_replica_read(&secret, (ty_str){token, len}, &out));
    assert_false(auth_replica_read(&secret, ty_str_of(ty_format(&y->arena, "%s0", token)), &out));
    assert_false(auth_replica_read(&secret, (ty_str){0}, &out));
    other = secret;
    other.bytes[AUTH_SECRET_BYTES - 1] ^= 1;
    assert_false(auth_replica_read(&other, (ty_str){token, len}, &out));
}

static void secret_is_made_once_and_private(void **state)
{
    struct yard *y = *state;
    struct auth_secret one, two;
    struct stat st;
    const char *path = ty_format(&y->arena, "%s/secret", y->dir);
    assert_ok(auth_secret_open(y->dir, &one));
    assert_ok(auth_secret_open(y->dir, &two));
    assert_memory_equal(one.bytes, two.bytes, sizeof one.bytes);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(ty_file_replace(AT_FDCWD, path, TY_STR("short"), 0600));
    assert_err(TY_DATA_LOSS, auth_secret_open(y->dir, &two));
    assert_non_null(strstr(ty_err_message(), "remove it"));
}

#define YARD_TEST(name_, fn_)                                                                      \
    {                                                                                              \
        .name = (name_), .test_func = (fn_), .setup_func = yard_open, .teardown_func = yard_close  \
    }

static const struct CMUnitTest tests[] = {
    YARD_TEST("key/is_a_service_account", key_is_a_service_account),
    YARD_TEST("key/pem_is_pkcs8", key_pem_is_pkcs8),
    YARD_TEST("key/is_made_once", key_is_made_once),
    YARD_TEST("key/damaged_is_replaced", key_damaged_is_replaced),
    YARD_TEST("files/are_private", files_are_private),
    YARD_TEST("gcloud/every_endpoint_is_ours", gcloud_every_endpoint_is_ours),
    YARD_TEST("gcloud/keeps_the_users_project", gcloud_keeps_the_users_project),
    YARD_TEST("certificate/is_made_once", certificate_is_made_once),
    YARD_TEST("env/of_a_job", env_of_a_job),
    YARD_TEST("gcloud/other_configurations_come_here_too",
              gcloud_other_configurations_come_here_too),
    YARD_TEST("gcloud/what_a_crash_left_is_no_configuration",
              gcloud_what_a_crash_left_is_no_configuration),
    YARD_TEST("gcloud/properties_are_set_and_unset", gcloud_properties_are_set_and_unset),
    YARD_TEST("env/no_google_host", env_no_google_host),
    YARD_TEST("env/replaces_another_yard", env_replaces_another_yard),
    YARD_TEST("env/unsets_what_would_lead_away", env_unsets_what_would_lead_away),
    YARD_TEST("shims/are_links_to_this_program", shims_are_links_to_this_program),
    YARD_TEST("replica/token_is_read_back", replica_token_is_read_back),
    YARD_TEST("replica/tampered_is_refused", replica_tampered_is_refused),
    YARD_TEST("secret/is_made_once_and_private", secret_is_made_once_and_private),
    YARD_TEST("prepare/leaves_what_is_the_same", prepare_leaves_what_is_the_same),
    YARD_TEST("prepare/names_the_missing_folder", prepare_names_the_missing_folder),
};
TEST_MAIN("auth", tests)
