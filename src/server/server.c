/* server.c -- `trainyard serve`: put the parts together, wait to be told to stop.
 *
 * Order of start: the lock on the data folder, settings, rows, HTTP, then the scheduler (it needs
 * the port for its jobs' environment). A job accepted between the last two is found by the
 * scheduler's own first look at the rows: `gate` makes that certain. Order of stop: scheduler,
 * HTTP, rows. Jobs run on in their conductors. */
#include "server/server.h"

#include "auth/auth.h"
#include "cloudlog/cloudlog.h"
#include "exec/exec.h"
#include "gcs/gcs.h"
#include "http/http.h"
#include "identity/identity.h"
#include "ml/ml.h"
#include "sched/sched.h"
#include "server/server_int.h"
#include "store/store.h"
#include "vertex/vertex.h"
#include "wire/wire.h"

#include <malloc.h>
#include <sys/resource.h>

static const char default_project[] = "trainyard";
static const char default_region[] = "us-central1";

/* ---- the data folder ---- */

static ty_err data_dir_lock(struct server *s)
{
    const char *path = ty_format(&s->arena, "%s/server.lock", s->data_dir);
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", path);
    ty_err err = ty_lock_take(s->lock_fd, path);
    if (err == TY_ABORTED) {
        ty_str url = {0};
        (void)!ty_file_read(AT_FDCWD, ty_format(&s->arena, "%s/url", s->data_dir), 256, &s->arena,
                            &url);
        url = ty_str_trim(url);
        return ty_fail(TY_FAILED_PRECONDITION,
                       "another server already serves '%s': %s%s" TY_STR_FMT, s->data_dir,
                       ty_lock_holder(&s->arena, AT_FDCWD, path), url.len > 0 ? ", at " : "",
                       TY_STR_ARG(url));
    }
    if (err != TY_OK)
        return err;
    objects_reserve_yield(s->data_dir); /* a start writes, too */
    return ty_lock_sign(s->lock_fd, path);
}

/* The folder's format is a number in a file; a newer one is refused, there is no older one yet. */
static ty_err data_dir_format(struct server *s)
{
    const char *path = ty_format(&s->arena, "%s/format", s->data_dir);
    ty_str text;
    ty_err err = ty_file_read(AT_FDCWD, path, 64, &s->arena, &text);
    if (err == TY_NOT_FOUND)
        return ty_file_replace(AT_FDCWD, path, TY_STR("1\n"), 0600);
    int64_t format;
    if (err == TY_OK)
        err = ty_parse_i64(ty_str_trim(text), &format);
    if (err != TY_OK)
        return ty_wrap(err, "'%s'", path);
    if (format != 1)
        return ty_fail(TY_FAILED_PRECONDITION,
                       "'%s' has format %" PRId64 "; this program knows format 1: use a newer one",
                       s->data_dir, format);
    return TY_OK;
}

static ty_err data_dir_open(struct server *s, const char *given)
{
    const char *home = getenv("HOME");
    if (!given && (!home || !home[0]))
        return ty_fail(TY_FAILED_PRECONDITION, "no --data given and HOME is not set");
    const char *path = given ? given : ty_format(&s->arena, "%s/.trainyard", home);
    ty_err err = ty_mkdirs(path, 0700);
    if (err == TY_OK)
        err = ty_mkdirs(ty_format(&s->arena, "%s/jobs", path), 0700);
    if (err == TY_OK)
        err = ty_mkdirs(ty_format(&s->arena, "%s/buckets", path), 0700);
    if (err != TY_OK)
        return err;
    char *full = realpath(path, NULL);
    if (!full)
        return ty_fail_errno(errno, "cannot resolve '%s'", path);
    s->data_dir = ty_cstr(&s->arena, ty_str_of(full));
    free(full);
    struct stat st;
    if (stat(s->data_dir, &st) != 0 || st.st_uid != geteuid())
        return ty_fail(TY_PERMISSION_DENIED, "'%s' does not belong to this user", s->data_dir);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return ty_fail(TY_PERMISSION_DENIED,
                       "others may write to '%s', and what is in it runs as you: chmod 700 '%s'",
                       s->data_dir, s->data_dir);
    if (strchr(s->data_dir, ':'))
        return ty_fail(TY_INVALID_ARGUMENT,
                       "the data folder '%s' has a ':' in its path, which PATH and Python's "
                       "environments cannot have: give another with --data",
                       s->data_dir);
    err = data_dir_lock(s);
    if (err == TY_OK)
        err = data_dir_format(s);
    return err == TY_OK ? exec_yard_id_make(s->data_dir) : err;
}

static ty_err read_settings(struct server *s, const char *listen)
{
    ty_config_init(&s->config, &s->arena);
    const char *path = ty_format(&s->arena, "%s/trainyard.conf", s->data_dir);
    ty_str text;
    ty_err err = ty_file_read(AT_FDCWD, path, 1 << 20, &s->arena, &text);
    if (err == TY_OK)
        err = ty_config_parse(&s->config, &s->arena, path, text);
    else if (err == TY_NOT_FOUND)
        err = TY_OK;
    if (err == TY_OK && listen)
        err = ty_config_set(&s->config, &s->arena, TY_STR("listen"), ty_str_of(listen));
    if (err == TY_OK && s->config.port_first >= s->config.port_last)
        err = ty_fail(TY_INVALID_ARGUMENT, "%s: port_first must be below port_last", path);
    return err;
}

static void read_machine(struct server *s)
{
    machine_host_read(&s->config, &s->host);
    log_info("server.machine", "cpus=%.1f memory_mb=%" PRId64 " gpus=%d",
             (double)s->host.cpu_milli / 1000, s->host.memory_bytes >> 20, s->host.device_count);
}

/* ---- joining the parts ---- */

static void notify_scheduler(void *arg, int64_t job_id)
{
    struct server *s = arg;
    pthread_mutex_lock(&s->gate);
    if (s->sched)
        sched_notify(s->sched, job_id);
    pthread_mutex_unlock(&s->gate);
}

static void rows_changed(void *arg)
{
    http_server_wake(((struct server *)arg)->http);
}

/* In the names of the API that made it. It was parsed when it was accepted. */
static void job_warnings(const struct job *job, struct ty_buf *out)
{
    json_t *value;
    bool ml = job->ml_id.len > 0;
    ty_err err =
        ml ? wire_json_parse(job->ml_input, &value) : wire_json_parse_members(job->body, &value);
    if (err != TY_OK)
        return;
    if (ml)
        ml_job_warnings(value, out);
    else
        vertex_job_warnings(value, out);
    json_decref(value);
}

static ty_err start_http(struct server *s)
{
    s->vertex = (struct vertex){.config = &s->config,
                                .host = &s->host,
                                .store = s->store,
                                .notify = notify_scheduler,
                                .notify_arg = s,
                                .data_dir = s->data_dir};
    s->cloudlog =
        (struct cloudlog){.store = s->store, .data_dir = s->data_dir, .warnings = job_warnings};
    s->identity = (struct identity){.project = default_project, .region = default_region};
    struct http_routes tables[7 + GCS_TABLES] = {vertex_routes(&s->vertex),
                                                 ml_routes(&s->vertex),
                                                 cloudlog_routes(&s->cloudlog),
                                                 identity_routes(&s->identity),
                                                 status_routes(s),
                                                 why_routes(s),
                                                 usage_routes(s)};
    struct http_tokens tokens = replica_tokens(s);
    s->gcs = (struct gcs){.objects = s->objects, .may_change = publish_may, .may_change_ctx = s};
    gcs_routes(&s->gcs, tables + 7);
    ty_err err = http_router_new(tables, TY_COUNT(tables), &s->router);
    s->gcs.router = s->router;
    if (err == TY_OK)
        err = http_server_start(&s->config, ty_format(&s->arena, "%s/sock", s->data_dir), s->router,
                                &tokens, &s->http);
    struct auth_certificate tls;
    if (err == TY_OK)
        err = auth_certificate_prepare(&s->arena, s->data_dir, &tls);
    if (err == TY_OK)
        http_server_tls(s->http, tls.certificate, tls.key);
    if (err == TY_OK)
        s->url = ty_format(&s->arena, "http://127.0.0.1:%d", http_server_port(s->http));
    return err;
}

static ty_err start_scheduler(struct server *s)
{
    struct sched_setup setup = {.config = &s->config,
                                .host = &s->host,
                                .store = s->store,
                                .data_dir = s->data_dir,
                                .url = s->url,
                                .secret = &s->secret,
                                .changed = rows_changed,
                                .ended = ends_add,
                                .arg = s};
    pthread_mutex_lock(&s->gate);
    ty_err err = sched_start(&setup, &s->sched);
    pthread_mutex_unlock(&s->gate);
    return err;
}

/* What others look for when the server answers: data/url, and the file the caller asked for. */
static ty_err announce(struct server *s, const char *ready_file)
{
    ty_str url = ty_str_of(ty_format(&s->arena, "%s\n", s->url));
    ty_err err = ty_file_replace(AT_FDCWD, ty_format(&s->arena, "%s/url", s->data_dir), url, 0600);
    if (err == TY_OK && ready_file)
        err = ty_file_replace(AT_FDCWD, ready_file, url, 0600);
    if (err == TY_OK)
        log_info("server.ready", "url=%s data=%s pid=%d", s->url, s->data_dir, (int)getpid());
    return err;
}

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static ty_err start(struct server *s, const struct server_options *o)
{
    ty_err err = data_dir_open(s, o->data_dir);
    if (err == TY_OK)
        err = read_settings(s, o->listen);
    if (err == TY_OK)
        read_machine(s);
    if (err == TY_OK)
        err = http_peer_init();
    if (err == TY_OK)
        err = store_open(s->data_dir, &s->store);
    if (err == TY_OK)
        err = objects_open(s->data_dir, &s->objects);
    if (err == TY_OK)
        err = auth_secret_open(s->data_dir, &s->secret);
    if (err == TY_OK)
        err = start_http(s);
    if (err == TY_OK)
        err = auth_client_prepare(s->data_dir, s->url, default_project, default_region);
    if (err == TY_OK)
        err = ends_start(s);
    if (err == TY_OK)
        err = start_scheduler(s);
    raise_file_limit(); /* after the launcher is started: jobs keep the user's own limit */
    if (err == TY_OK)
        err = orphans_remove_start(s);
    return err == TY_OK ? announce(s, o->ready_file) : err;
}

static void stop(struct server *s)
{
    orphans_remove_stop(s);
    pthread_mutex_lock(&s->gate);
    struct sched *sched = s->sched;
    s->sched = NULL; /* a job accepted from here on is found at the next start */
    pthread_mutex_unlock(&s->gate);
    if (sched)
        sched_stop(sched);
    ends_stop(s);
    if (s->http)
        http_server_stop(s->http);
    if (s->router)
        http_router_free(s->router);
    objects_close(s->objects);
    if (s->store)
        store_close(s->store);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_mutex_destroy(&s->gate);
    ty_arena_clear(&s->arena);
}

static void wait_for_signal(sigset_t *signals)
{
    int got;
    while (sigwait(signals, &got) != 0)
        ;
    log_info("server.stopping", "signal=%d; jobs run on", got);
}

ty_err server_run(const struct server_options *options)
{
    struct server s = {.lock_fd = -1};
    pthread_mutex_init(&s.gate, NULL);
    ty_seam_role("server");
    crash_handler_install();
    /* Blocked before the first thread, so that every thread inherits it and only sigwait sees them.
     */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* Large buffers (a 10 MB request) go back to the system when they are freed, and threads share
     * few heaps: an idle server is small whatever it has seen. */
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    mallopt(M_ARENA_MAX, 2);
    s.start_boot_ms = ty_boot_ms();
    ty_err err = start(&s, options);
    if (err == TY_OK)
        wait_for_signal(&signals);
    char *message = ty_err_take(); /* stopping must not replace the reason */
    stop(&s);
    if (err != TY_OK)
        err = ty_fail(err, "%s", message);
    free(message);
    return err;
}
