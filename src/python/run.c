/* run.c -- running other programs, one at a time, and telling that they still run. */
#include "python/python_int.h"

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>

/* ---- lists of words ---- */

void words_add(struct words *w, const char *word)
{
    if (w->count + 2 > w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 16;
        const char **list = ty_new_array(w->a, const char *, cap);
        if (w->count)
            memcpy(list, w->list, w->count * sizeof *list);
        w->list = list;
        w->cap = cap;
    }
    w->list[w->count++] = word;
    w->list[w->count] = NULL;
}

bool words_has(const struct words *w, const char *word)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->list[i], word) == 0)
            return true;
    return false;
}

void words_add_once(struct words *w, const char *word)
{
    if (!words_has(w, word))
        words_add(w, word);
}

void words_add_all(struct words *w, const struct words *from)
{
    for (size_t i = 0; i < from->count; i++)
        words_add(w, from->list[i]);
}

char *words_join(const struct words *w, const char *between)
{
    struct ty_buf b;
    ty_buf_init(&b, PYTHON_OUTPUT_BYTES);
    for (size_t i = 0; i < w->count; i++) {
        ty_buf_addz(&b, i ? between : "");
        ty_buf_addz(&b, w->list[i]);
    }
    char *text = ty_cstr(w->a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

/* ---- programs ---- */

static void read_all(int fd, struct ty_buf *b)
{
    char part[4096];
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) != 0) {
        if (n > 0)
            ty_buf_add(b, part, (size_t)n);
        else if (errno != EINTR)
            break;
    }
}

/* A pip that shall not find modules in the caller's folder starts in "/". */
static int spawn(const struct program *p, int capture_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addchdir_np(&files, "/");
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (p->quiet) {
        posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    }
    if (capture_fd >= 0)
        posix_spawn_file_actions_adddup2(&files, capture_fd, STDOUT_FILENO);
    fflush(stdout);
    int err_no = ty_seam_step(TY_OP_FORK);
    if (err_no == 0)
        err_no = posix_spawnp(ret_pid, p->argv[0], &files, NULL, (char *const *)p->argv,
                              p->env ? p->env : environ);
    posix_spawn_file_actions_destroy(&files);
    return err_no;
}

/* Call p->tick until the process has ended. Without pidfds there are no ticks. */
static void tick_on(const struct program *p, pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    int64_t begin_ms = ty_boot_ms(), due_ms = begin_ms + p->tick_ms;
    while (fd >= 0) {
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        int64_t left_ms = due_ms - ty_boot_ms();
        if (poll(&ended, 1, left_ms > 0 ? (int)left_ms : 0) > 0)
            break;
        if (ty_boot_ms() < due_ms)
            continue;
        p->tick(ty_boot_ms() - begin_ms);
        due_ms += p->tick_ms;
    }
    if (fd >= 0)
        close(fd);
}

ty_err program_run(const struct program *p, int *ret_status)
{
    int fds[2] = {-1, -1};
    pid_t pid;
    if (p->capture && pipe2(fds, O_CLOEXEC) != 0)
        return ty_fail_errno(errno, "cannot make a pipe");
    int err_no = spawn(p, fds[1], &pid);
    if (p->capture) {
        close(fds[1]);
        if (err_no == 0)
            read_all(fds[0], p->capture);
        close(fds[0]);
    }
    if (err_no)
        return ty_fail_errno(err_no, "cannot run '%s'", p->argv[0]);
    if (p->tick_ms > 0)
        tick_on(p, pid);
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return ty_fail_errno(errno, "cannot wait for '%s'", p->argv[0]);
    return p->capture ? ty_buf_check(p->capture, p->argv[0]) : TY_OK;
}

/* By way of `children`: our pids and those of the /proc we see may be of two namespaces. */
int64_t program_written_bytes(void)
{
    struct ty_arena a = {0};
    ty_str text, line, child;
    int64_t bytes = 0;
    if (ty_file_read(AT_FDCWD, "/proc/thread-self/children", 4096, &a, &text) == TY_OK) {
        ty_str_split(&text, ' ', &child);
        if (ty_file_read(AT_FDCWD, ty_format(&a, "/proc/" TY_STR_FMT "/io", TY_STR_ARG(child)),
                         4096, &a, &text) == TY_OK)
            while (ty_str_split(&text, '\n', &line))
                if (ty_str_starts(line, TY_STR("wchar: ")) &&
                    ty_parse_i64(ty_str_drop(line, strlen("wchar: ")), &bytes) != TY_OK)
                    bytes = 0;
    }
    ty_arena_clear(&a);
    return bytes;
}
