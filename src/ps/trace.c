/* trace.c -- a line of JSON for each thing that happened, for tests that check what must hold. */
#include "ps/ps_int.h"

ty_err ps_trace_open(const char *path, int *ret_fd)
{
    *ret_fd = -1;
    if (path == NULL)
        return TY_OK;
    *ret_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return *ret_fd >= 0 ? TY_OK : ty_fail_errno(errno, "cannot write '%s'", path);
}

/* A trace that cannot be written is said, and the run goes on: it is not the run's. */
void ps_trace(int fd, const char *fmt, ...)
{
    char line[512];
    va_list args;
    if (fd < 0)
        return;
    int n = snprintf(line, sizeof line, "{\"ms\":%" PRId64 ",", ty_boot_ms());
    va_start(args, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 2, fmt, args);
    va_end(args);
    n = n > (int)sizeof line - 3 ? (int)sizeof line - 3 : n;
    line[n] = '}';
    line[n + 1] = '\n';
    if (ty_write_all(fd, line, (size_t)n + 2) != TY_OK)
        log_warn("ps.trace", "%s", ty_err_message());
}
