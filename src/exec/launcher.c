/* launcher.c -- the small process conductors are forked from, and how the server asks for one.
 *
 * Forking the server itself would copy its page tables and hold up its threads; a process with few
 * libraries, one thread and no memory to speak of forks in a fraction of a millisecond. A conductor
 * never execs: what it needs is already there. The server sends {job, attempt} with one end of a
 * socket pair; the conductor keeps that end, and the server learns from its other end what happens.
 * If no conductor comes of it (no memory, no processes), the end of that connection tells. */
#include "exec/exec_int.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>

struct order {
    int64_t job_id;
    int32_t attempt;
};

/* ---- the server's side ---- */

static ty_err spawn(int fd, const char *data_dir, pid_t *ret_pid)
{
    char *argv[] = {"trainyard", "launch", "--fd", "3", "--data", (char *)data_dir, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, fd, 3);
    posix_spawn_file_actions_addclosefrom_np(&files, 4);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    /* A session of its own: Ctrl-C in the server's terminal is not for it. */
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int err_no = ty_seam_step(TY_OP_FORK);
    if (err_no == 0)
        err_no = posix_spawn(ret_pid, "/proc/self/exe", &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return err_no ? ty_fail_errno(err_no, "cannot start the launcher") : TY_OK;
}

ty_err exec_launcher_start(struct exec_launcher *l, const char *data_dir)
{
    int pair[2];
    pid_t pid = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return ty_fail_errno(errno, "cannot make a socket pair for the launcher");
    ty_err err = spawn(pair[1], data_dir, &pid);
    close(pair[1]);
    if (err) {
        close(pair[0]);
        return err;
    }
    *l = (struct exec_launcher){.pid = pid, .fd = pair[0]};
    return TY_OK;
}

void exec_launcher_stop(struct exec_launcher *l)
{
    close(l->fd);
    while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *l = (struct exec_launcher){.pid = -1, .fd = -1};
}

/* Room for the one descriptor of a message, aligned for the kernel. */
union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

ty_err exec_launch(struct exec_launcher *l, int64_t job_id, int attempt, int *ret_fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return ty_fail_errno(errno, "cannot make a socket pair for a conductor");
    struct order order = {.job_id = job_id, .attempt = attempt};
    struct iovec part = {.iov_base = &order, .iov_len = sizeof order};
    union control control = {{0}};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &pair[1], sizeof(int));
    ssize_t n;
    do
        n = sendmsg(l->fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    int err_no = errno;
    close(pair[1]);
    if (n < 0) {
        close(pair[0]);
        return ty_fail(TY_UNAVAILABLE, "the launcher (pid %d) is gone: %s", (int)l->pid,
                       strerror(err_no));
    }
    *ret_fd = pair[0];
    return TY_OK;
}

/* ---- the launcher's side ---- */

/* False: the server is gone. */
static bool receive(int fd, struct order *ret_order, int *ret_peer)
{
    union control control = {{0}};
    struct iovec part = {.iov_base = ret_order, .iov_len = sizeof *ret_order};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n;
    do
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (n != sizeof *ret_order || !head || head->cmsg_type != SCM_RIGHTS)
        return false;
    memcpy(ret_peer, CMSG_DATA(head), sizeof(int));
    return true;
}

/* What `ps` shows: write over our own arguments, as far as they reach. Nothing reads them after
 * this. */
static void set_title(int64_t job_id, int attempt)
{
    char title[80], area[4096];
    prctl(PR_SET_NAME, "ty-conductor");
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t room = fd >= 0 ? read(fd, area, sizeof area) : -1;
    if (fd >= 0)
        close(fd);
    snprintf(title, sizeof title, "trainyard conduct %" PRId64 "/%d", job_id, attempt);
    /* program_invocation_name is argv[0], where the area begins. */
    if (room < 16 || memcmp(program_invocation_name, area, (size_t)room) != 0)
        return;
    memset(program_invocation_name, 0, (size_t)room);
    memcpy(program_invocation_name, title,
           strlen(title) < (size_t)room ? strlen(title) : (size_t)room - 1);
}

/* Become a process of its own: no terminal, nothing of the launcher's but `peer`. */
static void leave_home(const char *data_dir, int peer)
{
    setsid();
    signal(SIGCHLD, SIG_DFL); /* it waits for its children */
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/conductor.log", data_dir);
    int words = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(words >= 0 ? words : null, STDERR_FILENO);
    if (peer > 3)
        close_range(3, (unsigned)peer - 1, 0);
    close_range((unsigned)peer + 1, ~0u, 0);
}

/* Without 0, 1 and 2 other descriptors would get these numbers. */
static void open_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int exec_launcher_main(int fd, const char *data_dir)
{
    ty_seam_role("launcher");
    prctl(PR_SET_NAME, "ty-launcher");
    open_standard_files();
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    isolation_get(); /* once, for all conductors */
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    struct order order;
    int peer;
    while (receive(fd, &order, &peer)) {
        pid_t pid = ty_fork();
        if (pid == 0) {
            /* A test that ends conductors at a step ends first attempts; later ones may succeed. */
            ty_seam_role(order.attempt == 1 ? "conductor" : "conductor-again");
            char *home = strdup(data_dir); /* set_title writes over the arguments */
            leave_home(home, peer);
            set_title(order.job_id, order.attempt);
            int status = conductor_run(home, order.job_id, order.attempt, peer);
            free(home);
            return status;
        }
        if (pid < 0)
            log_error("launcher.fork", "job=%" PRId64 " attempt=%d error='%s'", order.job_id,
                      (int)order.attempt, strerror(errno));
        close(peer);
    }
    return 0;
}
