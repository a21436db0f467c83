/* doctor_jobs.c -- rows of trainyard doctor about what runs jobs: buckets as folders, control
 * groups, Python, container engines. None of them is needed by all jobs, so what is missing is a
 * note. */
#include "cli/doctor_int.h"

#include "auth/auth.h"
#include "container/container.h"
#include "exec/exec.h"
#include "python/python.h"

#include <dirent.h>

void doctor_gcs(struct doctor *d)
{
    const char *why;
    if (exec_gcs_works(d->c->arena, &why))
        doctor_found(d, DOCTOR_GOOD, "/gcs", "jobs see every bucket as a folder, /gcs/BUCKET");
    else
        doctor_found(d, DOCTOR_NOTE, "/gcs",
                     "%s: jobs on image 'host' and with Python packages have no /gcs/BUCKET; "
                     "gs://BUCKET works",
                     why);
}

/* Is there a bucket of that name? Other answers than 404 are no finding of this row. */
static bool bucket_is_missing(struct doctor *d, const char *name)
{
    struct ty_arena *a = d->c->arena;
    json_t *reply = NULL;
    ty_err err = cli_call(d->c, HTTP_GET, ty_format(a, "/storage/v1/b/%s?fields=name", name),
                          TY_STR(""), 2000, &reply);
    json_decref(reply);
    return err == TY_NOT_FOUND;
}

static bool is_plain_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return name[0] != '.' && strspn(name, letters) == strlen(name);
}

/* Folders of buckets/ that are no buckets: a job wrote to /gcs/NAME before there was one. */
void doctor_buckets(struct doctor *d)
{
    enum { LOOKED_AT = 1000, NAMED = 10 };
    struct ty_arena *a = d->c->arena;
    const char *path = ty_format(a, "%s/buckets", d->c->data_dir), *names = "";
    int looked = 0, strays = 0;
    DIR *dir = d->server_answers ? opendir(path) : NULL;
    for (struct dirent *e; dir != NULL && looked < LOOKED_AT && (e = readdir(dir)) != NULL;) {
        struct stat st;
        if (!is_plain_name(e->d_name) ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
            continue;
        looked++;
        if (bucket_is_missing(d, e->d_name) && ++strays <= NAMED)
            names = ty_format(a, "%s%s%s", names, strays > 1 ? ", " : "", e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    if (strays > 0)
        doctor_found(d, DOCTOR_NOTE, "buckets",
                     "%d folders of %s are no buckets, so gs:// does not have them: %s%s. A job "
                     "wrote to /gcs/NAME while there was no bucket NAME: 'trainyard storage "
                     "buckets create gs://NAME' makes it one, with its files",
                     strays, path, names, strays > NAMED ? ", ..." : "");
    else if (looked > 0)
        doctor_found(d, DOCTOR_GOOD, "buckets", "each folder of %s is a bucket", path);
}

/* Only TensorFlow's own file system needs it: /gcs and Google's clients do without. */
void doctor_tensorflow(struct doctor *d)
{
    const char *why = auth_gs_off(d->c->arena, d->c->data_dir);
    if (!why)
        doctor_found(d, DOCTOR_GOOD, "gs://", "TensorFlow in jobs reads and writes gs://BUCKET");
    else
        doctor_found(d, DOCTOR_NOTE, "gs://",
                     "TensorFlow in jobs cannot use gs://BUCKET (/gcs/BUCKET and "
                     "google-cloud-storage work): %s",
                     why);
}

void doctor_cgroups(struct doctor *d)
{
    bool memory;
    const char *what = exec_cgroups(d->c->arena, &memory);
    if (strcmp(d->config.cgroups, "off") == 0)
        doctor_found(d, DOCTOR_NOTE, "cgroups",
                     "cgroups = off in trainyard.conf: limits of memory and processes are not "
                     "enforced");
    else if (memory)
        doctor_found(d, DOCTOR_GOOD, "cgroups", "%s: limits are enforced, and usage is exact",
                     what);
    else
        doctor_found(d, DOCTOR_NOTE, "cgroups",
                     "%s: memory limits are not enforced. With systemd, start the server in a "
                     "cgroup of its own:\n"
                     "  systemd-run --user --scope -p Delegate=yes trainyard serve",
                     what);
}

/* Commands run without Python; only jobs with packages need it. */
void doctor_python(struct doctor *d)
{
    struct python_host host;
    struct python_listed *list = NULL;
    size_t count = 0;
    if (!python_is_there(d->config.python)) {
        doctor_found(d, DOCTOR_NOTE, "python",
                     "there is no '%s'; jobs with Python packages need it. On Debian: apt install "
                     "python3-venv; another one: set python in %s/trainyard.conf",
                     d->config.python, d->c->data_dir);
        return;
    }
    ty_err err = python_host_read(d->c->arena, d->config.python, &host);
    if (err == TY_OK)
        err = python_venv_check(&host);
    if (err == TY_OK)
        err = python_runtime_list(d->c->arena, d->c->data_dir, &list, &count);
    if (err != TY_OK) {
        doctor_found(d, DOCTOR_NOTE, "python", "%s", ty_err_message());
        return;
    }
    struct ty_buf b;
    ty_buf_init(&b, 4096);
    for (size_t i = 0; i < count; i++)
        ty_buf_addf(&b, "%s" TY_STR_FMT, i ? ", " : "", TY_STR_ARG(list[i].what));
    doctor_found(d, DOCTOR_GOOD, "python", "%s at %s makes virtual environments; runtimes: %s",
                 host.version, host.executable,
                 count ? b.ptr
                       : "none yet, they are made on first use or by 'trainyard runtimes add'");
    ty_buf_clear(&b);
}

void doctor_containers(struct doctor *d)
{
    struct container_engine e;
    struct ty_buf options;
    container_engine_retry(d->c->data_dir);
    ty_err err = container_engine_find(d->c->arena, d->config.container_engine, d->c->data_dir, &e);
    if (err != TY_OK) {
        doctor_found(d, DOCTOR_NOTE, "containers",
                     "%s. %s. Only jobs with images need one, not image 'host' and Python packages",
                     ty_err_message(),
                     container_engine_advice(d->c->arena, d->config.container_engine));
        return;
    }
    ty_buf_init(&options, 4096);
    for (size_t i = 0; e.options[i]; i++)
        ty_buf_addf(&options, " %s", e.options[i]);
    doctor_found(d, e.limits ? DOCTOR_GOOD : DOCTOR_NOTE, "containers",
                 "%s %s (%s) starts containers%s; used with%s", container_kind_name(e.kind),
                 e.version, e.path,
                 e.limits ? "" : ", but cannot limit their memory or share of CPU",
                 options.len ? options.ptr : " no options");
    ty_buf_clear(&options);
}
