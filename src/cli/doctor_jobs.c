/* doctor_jobs.c -- rows of trainyard doctor about what runs jobs: buckets as folders, control
 * groups, Python, container engines. None of them is needed by all jobs, so what is missing is a
 * note. */
#include "cli/doctor_int.h"

#include "container/container.h"
#include "exec/exec.h"
#include "python/python.h"

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
