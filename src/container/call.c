/* call.c -- start the engine, collect its words, end it when it does not come back.
 *
 * The server has threads, so this is posix_spawn and not fork. Two pipes, because engines print
 * warnings on stderr beside the answer on stdout. */
#include "container/container_int.h"

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>

enum { CALL_OUT, CALL_ERR, CALL_PIPES };

void call_clear(struct call *c)
{
    ty_buf_clear(&c->out);
    ty_buf_clear(&c->err);
}

const char *call_reason(struct ty_arena *a, const struct call *c)
{
    ty_str rest = ty_str_trim(ty_buf_str(&c->err)), line, last = {0};
    bool more = rest.len > 0;
    while (more) {
        more = ty_str_split(&rest, '\n', &line);
        if (ty_str_trim(line).len > 0)
            last = ty_str_trim(line);
    }
    if (last.len > 0)
        return ty_format(a, "%.*s", (int)(last.len < 400 ? last.len : 400), last.ptr);
    if (WIFSIGNALED(c->status))
        return ty_format(a, "it was ended by signal %d", WTERMSIG(c->status));
    return ty_format(a, "it ended with status %d", WEXITSTATUS(c->status));
}

static ty_err call_spawn(const char *const *argv, int pipes[CALL_PIPES][2], pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, pipes[CALL_OUT][1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, pipes[CALL_ERR][1], STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int err_no = ty_seam_step(TY_OP_FORK);
    if (err_no == 0)
        err_no = posix_spawnp(ret_pid, argv[0], &files, &attributes, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return err_no ? ty_fail_errno(err_no, "cannot run '%s'", argv[0]) : TY_OK;
}

/* Read what is there; false at its end. */
static bool call_read(int fd, struct ty_buf *out)
{
    char part[16384];
    ssize_t n = read(fd, part, sizeof part);
    if (n > 0)
        ty_buf_add(out, part, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Until the process is gone. What a descendant of it still holds open is not waited for. */
static bool call_collect(struct call *c, int pidfd, int pipes[CALL_PIPES][2], int64_t deadline_ms)
{
    struct ty_buf *into[CALL_PIPES] = {&c->out, &c->err};
    struct pollfd fds[CALL_PIPES + 1] = {{.fd = pipes[CALL_OUT][0], .events = POLLIN},
                                         {.fd = pipes[CALL_ERR][0], .events = POLLIN},
                                         {.fd = pidfd, .events = POLLIN}};
    for (;;) {
        int64_t left = deadline_ms - ty_boot_ms();
        if (left <= 0)
            return false;
        int ready = poll(fds, TY_COUNT(fds), left > 1000 ? 1000 : (int)left);
        bool read_some = false;
        for (int i = 0; ready > 0 && i < CALL_PIPES; i++)
            if (fds[i].fd >= 0 && fds[i].revents) {
                read_some = true;
                if (!call_read(fds[i].fd, into[i]))
                    fds[i].fd = -1; /* closed by its owner below */
            }
        if (ready > 0 && !read_some && fds[CALL_PIPES].revents)
            return true;
    }
}

ty_err call_run(struct call *c, const char *const *argv, int64_t timeout_ms)
{
    int pipes[CALL_PIPES][2] = {{-1, -1}, {-1, -1}}, pidfd = -1;
    pid_t pid = -1;
    ty_err err = TY_OK;
    *c = (struct call){0};
    ty_buf_init(&c->out, CALL_BYTES);
    ty_buf_init(&c->err, CALL_BYTES);
    for (int i = 0; i < CALL_PIPES && err == TY_OK; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0)
            err = ty_fail_errno(errno, "cannot make a pipe");
    if (err == TY_OK)
        err = call_spawn(argv, pipes, &pid);
    if (err != TY_OK)
        goto out;
    for (int i = 0; i < CALL_PIPES; i++) {
        close(pipes[i][1]);
        pipes[i][1] = -1;
    }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 || !call_collect(c, pidfd, pipes, ty_boot_ms() + timeout_ms)) {
        kill(-pid, SIGKILL); /* it leads a session of its own */
        err = ty_fail(TY_DEADLINE_EXCEEDED, "'%s' did not answer within %" PRId64 " seconds",
                      argv[0], timeout_ms / 1000);
    }
    while (waitpid(pid, &c->status, 0) < 0 && errno == EINTR)
        ;
out:
    if (pidfd >= 0)
        close(pidfd);
    for (int i = 0; i < CALL_PIPES; i++)
        for (int k = 0; k < 2; k++)
            if (pipes[i][k] >= 0)
                close(pipes[i][k]);
    return err;
}
