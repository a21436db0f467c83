/* log.c -- one line an event on stderr: time, level, event name, key=value.
 *
 * A line is built in one buffer and written with one call, so lines of several threads and of the
 * conductors that share the file never mix. */
#define TY_SEAM
#include "base/base.h"

static enum ty_log_level least_level = TY_LOG_INFO;

void ty_log_level_set(enum ty_log_level least)
{
    least_level = least;
}

void ty_log(enum ty_log_level level, const char *event, const char *fmt, ...)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    if (level < least_level)
        return;
    int64_t now = ty_now_ns();
    time_t seconds = (time_t)(now / 1000000000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    char line[4096];
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03dZ %s %s ", (int)(now / 1000000 % 1000),
                          names[level], event);
    va_list ap;
    va_start(ap, fmt);
    int more = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
    va_end(ap);
    n = more < 0 || (size_t)more > sizeof line - n - 2 ? sizeof line - 2 : n + (size_t)more;
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[n++] = '\n';
    /* A log that cannot be written has nowhere to say so. */
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
}
