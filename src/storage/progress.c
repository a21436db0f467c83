/* progress.c -- how far a copy is: on a terminal one line that is written over, with rate and time
 * left; in a log nothing but the lines of the files themselves and the last one. */
#include "storage/storage_int.h"

#include <sys/ioctl.h>

enum { SHOW_NS = 100 * 1000 * 1000, LINE_BYTES = 4096 };

void storage_progress_init(struct storage_progress *p, struct storage *s)
{
    memset(p, 0, sizeof(*p));
    p->s = s;
    pthread_mutex_init(&p->lock, NULL);
    p->started_ns = ty_boot_ns();
    p->terminal = !s->quiet && isatty(STDERR_FILENO);
}

void storage_progress_clear(struct storage_progress *p)
{
    if (p->shown) /* an error comes next */
        fputc('\n', stderr);
    pthread_mutex_destroy(&p->lock);
}

/* "1.5 MiB", always with one digit behind the point. */
static void size_text(char *out, size_t room, int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < TY_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(out, room, "%.1f %s", value, units[unit]);
}

const char *storage_tenth(struct ty_arena *a, int64_t bytes)
{
    char text[32];
    size_text(text, sizeof(text), bytes);
    return ty_cstr(a, ty_str_of(text));
}

/* What fits on the terminal's line: a longer one would be written over only in part. */
static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1
                                                                           : LINE_BYTES;
}

/* The bar; with the lock held. */
static void show(struct storage_progress *p)
{
    char line[256], done[32], total[32], rate[32];
    int64_t bytes = atomic_load(&p->bytes_done), all = atomic_load(&p->bytes_total);
    double seconds = (double)(ty_boot_ns() - p->started_ns) / 1e9;
    double speed = seconds > 0.01 ? (double)bytes / seconds : 0;
    size_text(done, sizeof(done), bytes);
    size_text(total, sizeof(total), all);
    size_text(rate, sizeof(rate), (int64_t)speed);
    int n = snprintf(line, sizeof(line), "[%d/%d files][%10s/%10s] %3d%% Done  %s/s",
                     atomic_load(&p->files_done), atomic_load(&p->files_total), done, total,
                     all > 0 ? (int)(bytes >= all ? 100 : bytes * 100 / all) : 0, rate);
    if (speed > 0 && all > bytes && seconds > 1) {
        int64_t left = (int64_t)((double)(all - bytes) / speed + 0.5);
        snprintf(line + n, sizeof(line) - (size_t)n, " ETA %02" PRId64 ":%02" PRId64 ":%02" PRId64,
                 left / 3600, left / 60 % 60, left % 60);
    }
    fprintf(stderr, "\r%.*s\033[K", columns(), line);
    fflush(stderr);
    p->shown = true;
}

void storage_progress_add(struct storage_progress *p, int64_t bytes)
{
    atomic_fetch_add(&p->bytes_done, bytes);
    if (!p->terminal || pthread_mutex_trylock(&p->lock) != 0)
        return;
    int64_t now = ty_boot_ns();
    if (now - p->shown_ns >= SHOW_NS) {
        p->shown_ns = now;
        show(p);
    }
    pthread_mutex_unlock(&p->lock);
}

void storage_progress_say(struct storage_progress *p, const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list args;
    if (p->s->quiet)
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    pthread_mutex_lock(&p->lock);
    fprintf(stderr, "%s%s\n", p->shown ? "\r\033[K" : "", line);
    p->shown = false;
    pthread_mutex_unlock(&p->lock);
}

void storage_progress_end(struct storage_progress *p)
{
    char text[32];
    int64_t bytes = atomic_load(&p->bytes_done);
    int files = atomic_load(&p->files_done);
    double seconds = (double)(ty_boot_ns() - p->started_ns) / 1e9;
    if (p->terminal && p->shown) {
        show(p);
        fputc('\n', stderr);
        p->shown = false;
    }
    if (p->s->quiet || files == 0)
        return;
    if (p->s->style == STORAGE_GSUTIL && atomic_load(&p->bytes_total) > 0) {
        size_text(text, sizeof(text), bytes);
        fprintf(stderr, "\nOperation completed over %d objects/%s.\n", files, text);
    } else if (p->s->style == STORAGE_GSUTIL) { /* nothing, or standard input */
        fprintf(stderr, "\nOperation completed over %d objects.\n", files);
    } else if (bytes > 0 && atomic_load(&p->files_total) > 1) {
        size_text(text, sizeof(text), (int64_t)((double)bytes / (seconds > 0.01 ? seconds : 0.01)));
        fprintf(stderr, "\nAverage throughput: %s/s\n", text);
    }
}
