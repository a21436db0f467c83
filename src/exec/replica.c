/* replica.c -- the processes of one replica: an init of ours, and the user's command below it.
 *
 *   conductor ── init (pid 1 of a new PID namespace) ── command ── whatever it starts
 *
 * The init asks for SIGKILL when the conductor dies, and the kernel kills everything in a PID
 * namespace when its init dies. So a conductor killed at any instruction takes all descendants with
 * it, daemonised ones too, with nobody alive to see to it. Asking comes after the fork, so the
 * conductor may be dead already; the init then looks at the conductor's lock, which the kernel lets
 * go before it sends the signals of a dying parent: a lock that is held means that the signal is
 * still to come. (A pipe would not do: another init forked meanwhile holds a copy of its other
 * end.)
 *
 * As root a PID namespace is ours to make. An ordinary user gets one inside a user namespace that
 * maps the user to itself. Where neither is permitted ("sweep"), init and command ask for SIGKILL
 * at their parent's death, and sweep.c finds the rest.
 *
 * A replica in a container has container_run (container.h) in the command's place, without a
 * namespace of ours, and SIGTERM goes to that process alone.
 *
 * When the command ends, the init reports how and exits. The init being reaped means that no
 * descendant is left, so all they ever wrote is in the pipes. */
#include "exec/exec_int.h"

#include <linux/close_range.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

enum status_kind {
    STATUS_STARTED = 1,
    STATUS_EXITED,
    STATUS_EXEC_FAILED,
    STATUS_SETUP_FAILED,
    STATUS_OUTSIDE, /* not in its control group */
    STATUS_NO_GCS,  /* without the plan's mounts */
};
/* What goes through the status pipe: smaller than PIPE_BUF, so whole or not at all. */
struct status {
    int32_t kind;
    int32_t value; /* a wait status or an errno */
};

/* ---- which isolation ---- */

uint64_t isolation_flags(enum isolation how)
{
    switch (how) {
    case ISOLATION_PID:
        return CLONE_NEWPID | CLONE_NEWNS;
    case ISOLATION_USER:
        return CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUSER;
    case ISOLATION_SWEEP:
        break;
    }
    return 0;
}

pid_t process_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    struct clone_args args = {
        .flags = flags | CLONE_PIDFD | (cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = cgroup_fd >= 0 ? (uint64_t)cgroup_fd : 0,
    };
    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && ty_write_all(fd, text, strlen(text)) == TY_OK;
    if (fd >= 0)
        close(fd);
    return ok;
}

bool isolation_map_user(uid_t uid, gid_t gid)
{
    char uid_map[64], gid_map[64];
    snprintf(uid_map, sizeof uid_map, "%u %u 1\n", uid, uid);
    snprintf(gid_map, sizeof gid_map, "%u %u 1\n", gid, gid);
    return write_file("/proc/self/uid_map", uid_map) &&
           write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/gid_map", gid_map);
}

static bool isolation_works(enum isolation how)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int pidfd = -1;
    pid_t pid = process_clone(isolation_flags(how), -1, &pidfd);
    if (pid == 0) {
        ty_seam_role("replica");
        _exit(how == ISOLATION_USER && !isolation_map_user(uid, gid) ? 1 : 0);
    }
    if (pid < 0)
        return false;
    siginfo_t info = {0};
    int waited;
    do
        waited = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
    while (waited != 0 && errno == EINTR);
    close(pidfd);
    /* Where SIGCHLD is ignored there is no status to be had: being able to make it has to do. */
    return waited != 0 || (info.si_code == CLD_EXITED && info.si_status == 0);
}

static const char *const isolation_names[] = {"pid-namespace", "user-namespace", "sweep"};

enum isolation isolation_get(void)
{
    static int known = -1; /* written with the same value by whoever comes first */
    int how = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (how >= 0)
        return (enum isolation)how;
    const char *forced = getenv("TY_ISOLATION");
    how = ISOLATION_PID;
    while (how < ISOLATION_SWEEP) {
        if (forced ? strcmp(forced, isolation_names[how]) == 0
                   : isolation_works((enum isolation)how))
            break;
        how++;
    }
    __atomic_store_n(&known, how, __ATOMIC_RELAXED);
    return (enum isolation)how;
}

const char *exec_isolation(void)
{
    return isolation_names[isolation_get()];
}

/* An engine keeps pids, and in a user namespace of ours it could not make its own. Containers are
 * found by their labels, and what runs in them by its marks. */
static enum isolation isolation_of(const struct exec_replica *plan)
{
    return plan->engine ? ISOLATION_SWEEP : isolation_get();
}

/* ---- inside the new processes: never returns, frees nothing ---- */

struct init {
    const struct exec_replica *plan;
    const struct replica_setup *setup;
    enum isolation how;
    uid_t uid;
    gid_t gid;
    int status_fd, folder_fd;
    char folder[PATH_MAX]; /* its path; "": not known */
    int out_fd[STREAM_COUNT];
    struct cgroup_doors doors;
    int outside;          /* why it is not in its control group; 0: it is */
    bool limit_processes; /* by rlimit: nobody else does */
};

static void report(int fd, enum status_kind kind, int value)
{
    struct status s = {.kind = kind, .value = value};
    if (ty_write_all(fd, &s, sizeof s) != TY_OK)
        _exit(1); /* nobody is there to be told */
}

/* Close all but 0, 1, 2 and those in `keep`. */
static void close_others(int *keep, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && keep[k - 1] > keep[k]; k--) {
            int other = keep[k];
            keep[k] = keep[k - 1];
            keep[k - 1] = other;
        }
    unsigned from = 3;
    for (size_t i = 0; i < count; i++) {
        if ((unsigned)keep[i] > from)
            close_range(from, (unsigned)keep[i] - 1, 0);
        from = (unsigned)keep[i] + 1;
    }
    close_range(from, ~0u, 0);
}

static void signals_default(void)
{
    for (int sig = 1; sig <= SIGRTMAX; sig++)
        signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Run the container, and end as its program did. */
static _Noreturn void container_main(const struct container *c)
{
    int status = container_run(c);
    if (WIFSIGNALED(status)) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signals_default();
        raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* By its path, for a working folder that has one in this mount namespace: the descriptor is of the
 * conductor's. */
static bool enter_folder(const struct init *in)
{
    struct stat given, there;
    if (in->folder[0] == '/' && fstat(in->folder_fd, &given) == 0 && chdir(in->folder) == 0 &&
        stat(".", &there) == 0 && given.st_dev == there.st_dev && given.st_ino == there.st_ino)
        return true;
    return fchdir(in->folder_fd) == 0;
}

static _Noreturn void command_main(const struct init *in, pid_t init_pid, int failure_fd)
{
    setsid();
    if (in->how == ISOLATION_SWEEP) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != init_pid)
            _exit(127);
    }
    if (dup2(in->out_fd[STREAM_OUT], STDOUT_FILENO) >= 0 &&
        dup2(in->out_fd[STREAM_ERR], STDERR_FILENO) >= 0 && enter_folder(in)) {
        setrlimit(RLIMIT_NOFILE, &in->setup->files);
        if (in->limit_processes) {
            rlim_t most = (rlim_t)in->setup->processes;
            setrlimit(RLIMIT_NPROC, &(struct rlimit){most, most});
        }
        signals_default();
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
        environ = in->plan->env; /* for PATH, too */
        if (in->plan->container) {
            close_range(3, ~0u, 0); /* it is started */
            container_main(in->plan->container);
        }
        execvp(in->plan->argv[0], in->plan->argv);
    }
    int32_t why = errno;
    ty_err ignored = ty_write_all(failure_fd, &why, sizeof why);
    (void)ignored;
    _exit(127);
}

/* Start the command; returns when it runs. */
static pid_t init_start_command(const struct init *in)
{
    int failure[2];
    pid_t init_pid = getpid();
    if (pipe2(failure, O_CLOEXEC) != 0) {
        report(in->status_fd, STATUS_SETUP_FAILED, errno);
        _exit(1);
    }
    pid_t pid = ty_fork();
    if (pid == 0)
        command_main(in, init_pid, failure[1]);
    if (pid < 0) {
        report(in->status_fd, STATUS_SETUP_FAILED, errno);
        _exit(1);
    }
    close(failure[1]);
    int32_t why = 0;
    if (read(failure[0], &why, sizeof why) == sizeof why) { /* the end comes with the exec */
        report(in->status_fd, STATUS_EXEC_FAILED, why);
        _exit(1);
    }
    close(failure[0]);
    return pid;
}

/* What is stopped (SIGSTOP) cannot heed SIGTERM before it goes on. */
static void everybody_stop(void)
{
    kill(-1, SIGTERM);
    kill(-1, SIGCONT);
}

/* Reap, pass SIGTERM on, and end with the command. All signals are blocked here. */
static _Noreturn void init_watch(const struct init *in, pid_t command)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(&wanted, &info);
        /* From outside the namespace only: si_pid is 0 then. Outside of one, -1 would be everybody.
         */
        if (sig == SIGTERM && in->how != ISOLATION_SWEEP && getpid() == 1 && info.si_pid == 0)
            everybody_stop();
        else if (sig == SIGTERM && in->plan->container)
            kill(command, SIGTERM); /* it passes it on, into the container */
        pid_t pid;
        int wait_status;
        while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0)
            if (pid == command) {
                report(in->status_fd, STATUS_EXITED, wait_status);
                _exit(0);
            }
    }
}

/* A /proc that shows the namespace, and /gcs. Only where it cannot spread to the mounts of others.
 */
static void init_mount(struct init *in)
{
    int err_no = 0;
    if (in->how == ISOLATION_SWEEP || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        err_no = EPERM;
    if (err_no == 0) {
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
        if (in->plan->mount_count > 0)
            err_no = root_enter(in->plan->mounts, in->plan->mount_count);
    }
    if (err_no && in->plan->mount_count > 0 && !in->plan->container)
        report(in->status_fd, STATUS_NO_GCS, err_no);
}

static _Noreturn void init_main(struct init *in)
{
    ty_seam_role("replica");
    prctl(PR_SET_NAME, "ty-init");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!attempt_lock_held(in->setup->lock_fd))
        _exit(1); /* the conductor died before we asked to go with it */
    int err_no = in->outside ? in->outside : cgroup_doors_enter(&in->doors);
    if (err_no)
        report(in->status_fd, STATUS_OUTSIDE, err_no);
    int keep[] = {in->status_fd, in->folder_fd, in->out_fd[STREAM_OUT], in->out_fd[STREAM_ERR]};
    close_others(keep, TY_COUNT(keep));
    signal(SIGCHLD, SIG_DFL);
    if (in->how == ISOLATION_USER && !isolation_map_user(in->uid, in->gid)) {
        report(in->status_fd, STATUS_SETUP_FAILED, errno);
        _exit(1);
    }
    init_mount(in);
    pid_t command = init_start_command(in);
    for (int i = 0; i < STREAM_COUNT; i++)
        close(in->out_fd[i]);
    close(in->folder_fd);
    report(in->status_fd, STATUS_STARTED, 0);
    init_watch(in, command);
}

/* ---- the conductor's side ---- */

const char *replica_name(const struct exec_replica *plan, char out[REPLICA_NAME_BYTES])
{
    if (plan->pool < 0)
        snprintf(out, REPLICA_NAME_BYTES, "The preparation");
    else
        snprintf(out, REPLICA_NAME_BYTES, "The replica workerpool%d-%d", plan->pool, plan->index);
    return out;
}

static ty_err open_folder(const struct exec_replica *plan, int dirfd, int *ret_fd)
{
    char name[32] = "prepare";
    if (plan->pool >= 0)
        snprintf(name, sizeof name, "%d-%d", plan->pool, plan->index);
    if (mkdirat(dirfd, name, 0777) != 0 && errno != EEXIST)
        return ty_fail_errno(errno, "cannot make the folder '%s'", name);
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open the folder '%s'", name);
    *ret_fd = fd;
    return TY_OK;
}

static ty_err open_pipe(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC) != 0)
        return ty_fail_errno(errno, "cannot make a pipe");
    fcntl(fds[0], F_SETFL, O_NONBLOCK); /* our end only: the command's blocks as usual */
    return TY_OK;
}

static void close_pair(int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* All signals are blocked over the fork, so that a SIGTERM sent to the new init at once waits
 * for it instead of being dropped. */
static ty_err clone_init(struct init *in, int *ret_pidfd, pid_t *ret_pid)
{
    sigset_t all, before;
    int err_no = ty_seam_step(TY_OP_FORK);
    if (err_no)
        return ty_fail_errno(err_no, "cannot fork");
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = process_clone(isolation_flags(in->how), in->doors.folder, ret_pidfd);
    if (pid < 0 && in->doors.folder >= 0) { /* not into that cgroup, then */
        in->outside = errno;
        pid = process_clone(isolation_flags(in->how), -1, ret_pidfd);
    }
    if (pid == 0)
        init_main(in);
    err_no = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return ty_fail_errno(err_no, "cannot fork");
    *ret_pid = pid;
    return TY_OK;
}

/* Since Linux 5.14 RLIMIT_NPROC counts a user's processes in each user namespace apart; before, it
 * would count all that the user has on this machine. */
static bool process_count_is_ours(void)
{
    struct utsname name;
    ty_str rest, major, minor;
    int64_t a, b;
    if (isolation_get() != ISOLATION_USER || uname(&name) != 0)
        return false;
    rest = ty_str_of(name.release);
    ty_str_split(&rest, '.', &major);
    ty_str_split(&rest, '.', &minor);
    minor.len = strspn(minor.ptr, "0123456789");
    return ty_parse_i64(major, &a) == TY_OK && ty_parse_i64(minor, &b) == TY_OK &&
           (a > 5 || (a == 5 && b >= 14));
}

/* Make its control group, if there is a place for one. Going without is no failure. */
static void make_group(struct replica *r, const struct replica_setup *setup, struct init *in)
{
    char name[CGROUP_NAME_BYTES], who[32] = "prepare";
    r->cgroup = (struct cgroup){0};
    if (r->plan->pool >= 0)
        snprintf(who, sizeof who, "%d-%d", r->plan->pool, r->plan->index);
    cgroup_name(setup->mark, who, name);
    ty_err err = TY_OK;
    if (setup->place)
        err = cgroup_make(&r->cgroup, setup->place, name, &r->plan->share, setup->processes);
    if (err == TY_OK && r->cgroup.place)
        err = cgroup_doors_open(&r->cgroup, &in->doors);
    if (err) {
        cgroup_remove(&r->cgroup);
        log_warn("replica.cgroup", "%s error='%s'", setup->mark, ty_err_message());
    }
    in->limit_processes =
        setup->processes > 0 && !r->cgroup.processes_limited && process_count_is_ours();
}

/* Asked here, not in the new mount namespace: there a descriptor's path begins at the machine's
 * root, which is not ours in a chroot. */
static void name_folder(struct init *in)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", in->folder_fd);
    ssize_t n = readlink(link, in->folder, sizeof in->folder - 1);
    in->folder[n > 0 ? n : 0] = '\0';
}

ty_err replica_start(struct replica *r, const struct replica_setup *setup)
{
    int status[2] = {-1, -1}, pipes[STREAM_COUNT][2] = {{-1, -1}, {-1, -1}};
    int folder_fd = -1, pidfd = -1;
    pid_t pid = -1;
    ty_err err = open_folder(r->plan, setup->dirfd, &folder_fd);
    if (err == TY_OK)
        err = open_pipe(status);
    for (int i = 0; i < STREAM_COUNT && err == TY_OK; i++)
        err = open_pipe(pipes[i]);
    if (err == TY_OK) {
        struct init in = {
            .plan = r->plan,
            .setup = setup,
            .how = isolation_of(r->plan),
            .uid = geteuid(),
            .gid = getegid(),
            .status_fd = status[1],
            .folder_fd = folder_fd,
            .out_fd = {pipes[STREAM_OUT][1], pipes[STREAM_ERR][1]},
            .doors = {.folder = -1},
        };
        name_folder(&in);
        make_group(r, setup, &in);
        err = clone_init(&in, &pidfd, &pid);
        cgroup_doors_close(&in.doors);
        if (err)
            cgroup_remove(&r->cgroup);
    }
    if (err == TY_OK) {
        r->state = REPLICA_STARTING;
        r->started = r->exited = r->exec_failed = r->judged = false;
        r->start_errno = 0;
        r->usage = (struct usage){.pid = r->plan->container ? 0 : pid, .begin_ms = ty_boot_ms()};
        r->inside = (struct inside){0};
        r->process = (struct source){.kind = SOURCE_PROCESS, .fd = pidfd, .replica = r};
        r->status = (struct source){.kind = SOURCE_STATUS, .fd = status[0], .replica = r};
        status[0] = -1;
        for (int i = 0; i < STREAM_COUNT; i++) {
            r->streams[i].source = (struct source){
                .kind = SOURCE_STREAM, .fd = pipes[i][0], .replica = r, .stream = i};
            pipes[i][0] = -1;
        }
    }
    close_pair(status);
    for (int i = 0; i < STREAM_COUNT; i++)
        close_pair(pipes[i]);
    if (folder_fd >= 0)
        close(folder_fd);
    return err;
}

static void apply_status(struct replica *r, const struct status *s)
{
    switch ((enum status_kind)s->kind) {
    case STATUS_STARTED:
        r->started = true;
        r->state = REPLICA_RUNNING;
        break;
    case STATUS_EXITED:
        r->exited = true;
        r->wait_status = s->value;
        break;
    case STATUS_EXEC_FAILED:
        r->exec_failed = true;
        r->start_errno = s->value;
        break;
    case STATUS_SETUP_FAILED:
        r->start_errno = s->value;
        break;
    case STATUS_OUTSIDE:
        r->cgroup.outside = true;
        r->cgroup.memory_limited = r->cgroup.processes_limited = false;
        log_warn("replica.cgroup", "cannot enter '%s': %s", r->cgroup.name, strerror(s->value));
        break;
    case STATUS_NO_GCS:
        log_warn("replica.gcs", "replica=%d-%d has no /gcs: %s", r->plan->pool, r->plan->index,
                 strerror(s->value));
        break;
    }
}

void replica_read_status(struct replica *r)
{
    struct status s;
    ssize_t n = -1;
    while (r->status.fd >= 0 && (n = read(r->status.fd, &s, sizeof s)) == sizeof s)
        apply_status(r, &s);
    if (n == 0)
        source_close(&r->status);
}

void replica_reap(struct replica *r, const struct replica_setup *setup)
{
    siginfo_t info;
    struct usage client = r->usage; /* with a container, what we wait for is the engine's client */
    if (!usage_reap(r->plan->container ? &client : &r->usage, &r->cgroup, r->process.fd, &info))
        return;
    replica_read_status(r);
    source_close(&r->status);
    source_close(&r->process);
    /* An init that could not tell was killed itself, and the command with it. */
    if (!r->exited)
        r->wait_status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
    if (isolation_of(r->plan) == ISOLATION_SWEEP)
        sweep_kill(setup->mark, r->plan, 5000);
    r->state = REPLICA_GONE;
}

void replica_signal(struct replica *r, const struct replica_setup *setup, int sig)
{
    if (r->state == REPLICA_GONE)
        return;
    bool swept = sig == SIGTERM && isolation_of(r->plan) == ISOLATION_SWEEP && !r->plan->container;
    if (swept && sweep_signal(setup->mark, r->plan, sig) > 0)
        sweep_signal(setup->mark, r->plan, SIGCONT);
    if (!swept) /* the init passes SIGTERM on; SIGKILL takes all with it, or replica_reap does */
        syscall(SYS_pidfd_send_signal, r->process.fd, sig, NULL, 0);
}
