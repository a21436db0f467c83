/* doctor_machine.c -- doctor's rows about the machine: cores, memory, isolation, libraries, and
 * this shell. */
#include "cli/doctor_int.h"

#include <dlfcn.h>
#include <sched.h>

#include "exec/exec.h"

enum { SMALL_MIB = 512 };

/* "MemTotal:  24000000 kB" in MiB, or -1. */
static int64_t meminfo(ty_str text, const char *name)
{
    ty_str line, key;
    int64_t kib;
    for (bool more = true; more;) {
        more = ty_str_split(&text, '\n', &line);
        if (!ty_str_split(&line, ':', &key) || !ty_str_is(key, name))
            continue;
        line = ty_str_trim(line);
        ty_str_split(&line, ' ', &key);
        return ty_parse_i64(key, &kib) == TY_OK ? kib / 1024 : -1;
    }
    return -1;
}

void doctor_machine(struct doctor *d)
{
    cpu_set_t set;
    ty_str text = {0};
    int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
    if (ty_file_read(AT_FDCWD, "/proc/meminfo", 1 << 16, d->c->arena, &text) != TY_OK) {
        doctor_found(d, DOCTOR_NOTE, "machine", "%d cores; cannot tell its memory: %s", cores,
                     ty_err_message());
        return;
    }
    int64_t total = meminfo(text, "MemTotal"), left = meminfo(text, "MemAvailable");
    bool small = left >= 0 && left < SMALL_MIB;
    doctor_found(
        d, small ? DOCTOR_NOTE : DOCTOR_GOOD, "machine",
        "%d cores, %" PRId64 " MiB of memory, %" PRId64 " MiB of it free%s", cores, total, left,
        small ? "; a Python job with TensorFlow needs about 1 GiB: end what else is running" : "");
}

void doctor_isolation(struct doctor *d)
{
    const char *how = exec_isolation();
    if (strcmp(how, "sweep") == 0)
        doctor_found(d, DOCTOR_NOTE, "namespaces",
                     "no PID namespaces here: what a job leaves behind is found by a mark in its "
                     "environment. To have them: sysctl -w kernel.unprivileged_userns_clone=1 (and "
                     "user.max_user_namespaces above 0), or run the server as root");
    else
        doctor_found(d, DOCTOR_GOOD, "namespaces", "%s: nothing of a job outlives it", how);
}

void doctor_peers(struct doctor *d)
{
    if (http_peer_init() != TY_OK)
        doctor_found(d, DOCTOR_BAD, "peer check", "%s; the server will not start",
                     ty_err_message());
    else
        doctor_found(d, DOCTOR_GOOD, "peer check",
                     "by %s: only processes of your own user get an answer", http_peer_method());
}

void doctor_libraries(struct doctor *d)
{
    static const char *const libraries[][3] = {
        {"libmicrohttpd.so.12", "libmicrohttpd12", NULL},
        {"libcrypto.so.3", "libssl3", NULL},
        {"libzmq.so.5", "libzmq5", "only parameter servers need it"}};
    for (size_t i = 0; i < TY_COUNT(libraries); i++) {
        void *lib = dlopen(libraries[i][0], RTLD_LAZY | RTLD_LOCAL);
        if (lib != NULL)
            doctor_found(d, DOCTOR_GOOD, libraries[i][0], "can be loaded");
        else if (libraries[i][2] != NULL)
            doctor_found(d, DOCTOR_NOTE, libraries[i][0],
                         "cannot be loaded; %s; to have it: apt-get install %s", libraries[i][2],
                         libraries[i][1]);
        else
            doctor_found(d, DOCTOR_BAD, libraries[i][0],
                         "cannot be loaded; to have it: apt-get install %s", libraries[i][1]);
        if (lib != NULL)
            dlclose(lib);
    }
}

void doctor_shell(struct doctor *d)
{
    const char *url = getenv("TRAINYARD_URL");
    if (getenv("TRAINYARD_ENV") != NULL)
        doctor_found(d, DOCTOR_NOTE, "this shell", "Google's clients are pointed at %s",
                     url != NULL ? url : "nothing");
    else
        doctor_found(d, DOCTOR_NOTE, "this shell",
                     "Google's clients are not pointed here; eval \"$(trainyard env)\" does it");
}
