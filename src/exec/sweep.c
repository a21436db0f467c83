/* sweep.c -- find and kill processes by the mark in their environment.
 *
 * Where no PID namespace is to be had, a descendant that daemonised itself is known only by the
 * variables it was started with. /proc/PID/environ shows those, whatever became of its parents. A
 * process that was started with a cleared environment escapes: that is why this is the last resort.
 * (cgroup.kill would be another way. It is left out on purpose: it needs somebody alive to write
 * it, while a PID namespace is enforced by the kernel when its init dies with the conductor.)
 *
 * The mark names the yard, too (exec_yard_id): a yard that was restored from a backup has the same
 * job ids as the one it was taken from, whose processes may be running on this very machine.
 *
 * The process is held by a pidfd before its mark is read, so that the signal cannot reach a
 * newcomer with the same number. */
#include "exec/exec_int.h"

#include <dirent.h>
#include <sys/syscall.h>

enum { SWEEP_ENVIRON_BYTES = 4 << 20, SWEEP_PAUSE_MS = 10 };

/* All variables are NUL-ended; `wanted` with its NUL is one of them. */
static bool has_variable(const struct ty_buf *variables, const char *wanted)
{
    size_t len = strlen(wanted) + 1;
    const char *at = variables->ptr, *end = variables->ptr + variables->len;
    while (at && (at = memmem(at, (size_t)(end - at), wanted, len)) != NULL) {
        if (at == variables->ptr || at[-1] == '\0')
            return true;
        at++;
    }
    return false;
}

void environ_read(const char *pid, struct ty_buf *out)
{
    char path[64], part[16384];
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    out->len = 0;
    out->full = false;
    while (fd >= 0 && (n = read(fd, part, sizeof part)) > 0)
        ty_buf_add(out, part, (size_t)n);
    if (fd >= 0)
        close(fd);
}

/* True if it had the marks (and was signalled). */
static bool signal_one(const char *pid, const char *attempt, const char *replica, int sig,
                       struct ty_buf *variables)
{
    int64_t number;
    if (ty_parse_i64(ty_str_of(pid), &number) != TY_OK || number == getpid())
        return false;
    int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)number, 0);
    if (pidfd < 0)
        return false;
    environ_read(pid, variables);
    bool ours = variables->len > 0 && has_variable(variables, attempt) &&
                (!replica || has_variable(variables, replica));
    if (ours)
        syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
    close(pidfd);
    return ours;
}

int sweep_signal(const char *mark, const struct exec_replica *replica, int sig)
{
    char replica_mark[64];
    if (replica)
        snprintf(replica_mark, sizeof replica_mark, "TRAINYARD_REPLICA=%d-%d", replica->pool,
                 replica->index);
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    struct ty_buf variables;
    ty_buf_init(&variables, SWEEP_ENVIRON_BYTES);
    int found = 0;
    struct dirent *entry;
    while ((entry = readdir(proc)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            found +=
                signal_one(entry->d_name, mark, replica ? replica_mark : NULL, sig, &variables);
    ty_buf_clear(&variables);
    closedir(proc);
    return found;
}

pid_t sweep_find(const char *mark, const struct exec_replica *replica)
{
    char replica_mark[64];
    struct ty_buf variables;
    struct dirent *entry;
    int64_t pid = 0;
    DIR *proc = opendir("/proc");
    snprintf(replica_mark, sizeof replica_mark, "TRAINYARD_REPLICA=%d-%d", replica->pool,
             replica->index);
    ty_buf_init(&variables, SWEEP_ENVIRON_BYTES);
    while (pid == 0 && proc && (entry = readdir(proc)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            signal_one(entry->d_name, mark, replica_mark, 0, &variables) &&
            ty_parse_i64(ty_str_of(entry->d_name), &pid) != TY_OK)
            pid = 0;
    ty_buf_clear(&variables);
    if (proc)
        closedir(proc);
    return (pid_t)pid;
}

void sweep_kill(const char *mark, const struct exec_replica *replica, int64_t limit_ms)
{
    int64_t deadline = ty_boot_ms() + limit_ms;
    while (sweep_signal(mark, replica, SIGKILL) > 0) {
        if (ty_boot_ms() >= deadline) {
            log_warn("exec.sweep_gave_up", "%s", mark);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = SWEEP_PAUSE_MS * 1000000L}, NULL);
    }
}

void exec_attempt_sweep(const char *data_dir, int64_t job_id, int attempt)
{
    struct ty_arena a = {0};
    const char *mark = attempt_mark(&a, data_dir, job_id, attempt);
    int dirfd;
    sweep_kill(mark, NULL, 10000);
    (void)container_sweep(data_dir, job_id, attempt, 10000); /* it says itself what it left */
    if (attempt_open(data_dir, job_id, attempt, &dirfd) ==
        TY_OK) { /* else what was noted is gone */
        cgroup_sweep(dirfd, mark);
        close(dirfd);
    }
    ty_arena_clear(&a);
}

/* ---- which yard ---- */

enum { YARD_ID_BYTES = 8 };

const char *exec_yard_id(struct ty_arena *a, const char *data_dir)
{
    ty_str text;
    if (!data_dir || ty_file_read(AT_FDCWD, ty_format(a, "%s/id", data_dir), 64, a, &text) != TY_OK)
        return "";
    return ty_cstr(a, ty_str_trim(text));
}

ty_err exec_yard_id_make(const char *data_dir)
{
    struct ty_arena a = {0};
    unsigned char bytes[YARD_ID_BYTES];
    char text[2 * YARD_ID_BYTES + 2];
    ty_err err = TY_OK;
    if (exec_yard_id(&a, data_dir)[0] == '\0') {
        ty_random(bytes, sizeof bytes);
        for (size_t i = 0; i < sizeof bytes; i++)
            snprintf(text + 2 * i, 3, "%02x", bytes[i]);
        text[sizeof text - 2] = '\n';
        err = ty_file_replace(AT_FDCWD, ty_format(&a, "%s/id", data_dir),
                              (ty_str){text, sizeof text - 1}, 0600);
    }
    ty_arena_clear(&a);
    return err;
}

char *attempt_mark(struct ty_arena *a, const char *data_dir, int64_t job_id, int attempt)
{
    const char *yard = exec_yard_id(a, data_dir);
    return ty_format(a, "TRAINYARD_ATTEMPT=%" PRId64 "/%d%s%s", job_id, attempt, yard[0] ? "/" : "",
                     yard);
}
