/* attempt.c -- how the server sees an attempt: its folder, journal, lock and control socket.
 *
 * Nothing here trusts a pid. Journal and lock decide (exec.h has the phases): the journal's end
 * record counts whatever the lock says, and "lock free" is believed only after the journal was read
 * once more, because the conductor may have ended between the two looks. */
#include "exec/exec_int.h"

#include <sys/socket.h>

char *exec_attempt_path(struct ty_arena *a, const char *data_dir, int64_t job_id, int attempt)
{
    return ty_format(a, "%s/jobs/%" PRId64 "/%d", data_dir, job_id, attempt);
}

ty_err attempt_open(const char *data_dir, int64_t job_id, int attempt, int *ret_dirfd)
{
    struct ty_arena a = {0};
    char *path = exec_attempt_path(&a, data_dir, job_id, attempt);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ty_err err = fd < 0 ? ty_fail_errno(errno, "cannot open the folder '%s'", path) : TY_OK;
    ty_arena_clear(&a);
    if (err == TY_OK)
        *ret_dirfd = fd;
    return err;
}

static ty_err attempt_make(const char *data_dir, int64_t job_id, int attempt, int *ret_dirfd)
{
    struct ty_arena a = {0};
    ty_err err = ty_mkdirs(exec_attempt_path(&a, data_dir, job_id, attempt), 0700);
    ty_arena_clear(&a);
    return err ? err : attempt_open(data_dir, job_id, attempt, ret_dirfd);
}

ty_err exec_attempt_prepare(const char *data_dir, const struct exec_plan *plan)
{
    int dirfd;
    ty_err err = attempt_make(data_dir, plan->job_id, plan->attempt, &dirfd);
    if (err)
        return err;
    err = spec_write(dirfd, plan);
    close(dirfd);
    return err;
}

/* ---- control ---- */

void attempt_ctl_address(int dirfd, struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret_address->sun_path, sizeof ret_address->sun_path, "/proc/self/fd/%d/ctl", dirfd);
}

ty_err exec_attempt_connect(const char *data_dir, int64_t job_id, int attempt, int *ret_fd)
{
    int dirfd, fd = -1;
    ty_err err = attempt_open(data_dir, job_id, attempt, &dirfd);
    if (err)
        return err;
    struct sockaddr_un address;
    attempt_ctl_address(dirfd, &address);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        err = ty_fail_errno(errno, "cannot make a socket");
    else if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        err = errno == ENOENT || errno == ECONNREFUSED
                  ? ty_fail(TY_NOT_FOUND, "no conductor listens for attempt %d of job %" PRId64,
                            attempt, job_id)
                  : ty_fail_errno(errno, "cannot connect to the conductor of job %" PRId64, job_id);
    close(dirfd);
    if (err && fd >= 0)
        close(fd);
    if (err == TY_OK)
        *ret_fd = fd;
    return err;
}

ty_err exec_attempt_cancel(int fd)
{
    /* EAGAIN: it has thousands of unread cancels already. */
    if (send(fd, "c", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN)
        return TY_OK;
    return ty_fail(TY_UNAVAILABLE, "the conductor is gone: %s", strerror(errno));
}

/* ---- looking ---- */

bool attempt_lock_held(int lock_fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(lock_fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static bool conductor_lives(int dirfd)
{
    int fd = openat(dirfd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool held = attempt_lock_held(fd);
    close(fd);
    return held;
}

static ty_err read_journal(struct ty_arena *a, int dirfd, struct exec_look *ret_look)
{
    ty_str text;
    ty_err err = ty_file_read(dirfd, "journal", JOURNAL_BYTES, a, &text);
    if (err == TY_NOT_FOUND) {
        *ret_look = (struct exec_look){.phase = EXEC_ABSENT};
        return TY_OK;
    }
    return err ? err : journal_parse(a, text, ret_look);
}

ty_err exec_attempt_look(struct ty_arena *a, const char *data_dir, int64_t job_id, int attempt,
                         struct exec_look *ret_look)
{
    int dirfd;
    struct exec_look look = {.phase = EXEC_ABSENT};
    ty_err err = attempt_open(data_dir, job_id, attempt, &dirfd);
    if (err == TY_OK) {
        err = read_journal(a, dirfd, &look);
        if (err == TY_OK && look.phase == EXEC_LOST) {
            if (conductor_lives(dirfd))
                look.phase = EXEC_ALIVE;
            else
                err = read_journal(a, dirfd, &look);
            /* "begin" is on disk before anything is started: without it nothing ever ran. Whoever
             * made the journal, a conductor or a server with its fence, died before a word. */
            if (err == TY_OK && look.phase == EXEC_LOST && look.begin_ns == 0)
                look.phase = EXEC_FENCED;
        }
        close(dirfd);
    } else if (err == TY_NOT_FOUND) {
        err = TY_OK;
    }
    if (err)
        return ty_wrap(err, "attempt %d of job %" PRId64, attempt, job_id);
    *ret_look = look;
    return TY_OK;
}

ty_err exec_attempt_fence(const char *data_dir, int64_t job_id, int attempt)
{
    int dirfd;
    ty_err err = attempt_make(data_dir, job_id, attempt, &dirfd);
    if (err)
        return err;
    struct journal journal = {.fd = -1};
    struct ty_buf fields;
    ty_buf_init(&fields, 256);
    journal_field_int(&fields, "format", JOURNAL_FORMAT);
    err = journal_create(&journal, dirfd);
    if (err == TY_OK)
        err = journal_add(&journal, "fenced", ty_buf_str(&fields));
    if (err == TY_OK)
        err = ty_sync(journal.fd);
    if (err == TY_OK)
        err = ty_sync(dirfd);
    journal_close(&journal);
    ty_buf_clear(&fields);
    close(dirfd);
    return err;
}

int64_t exec_log_last_ns(const char *data_dir, int64_t job_id, int attempt)
{
    int dirfd;
    int64_t last_ns = 0;
    struct joblog_reader reader;
    struct joblog_record record;
    if (attempt_open(data_dir, job_id, attempt, &dirfd) != TY_OK)
        return 0;
    if (joblog_reader_open(&reader, dirfd, "log") == TY_OK) {
        if (joblog_seek(&reader, INT64_MAX) == TY_OK && joblog_prev(&reader, &record) == TY_OK)
            last_ns = record.time_ns;
        joblog_reader_close(&reader);
    }
    close(dirfd);
    return last_ns;
}
