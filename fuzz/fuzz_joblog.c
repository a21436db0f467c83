/* fuzz_joblog.c -- any bytes as a log file: read forwards, backwards and from a time.
 *
 * What must hold: both directions see the same lines, records and bad ones, and a seek lands where
 * the record before it is older and, if the times increase, the one after it is not. */
#define TY_SEAM
#include "joblog/joblog.h"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_LINES = 4096 };
struct line {
    bool good;
    int64_t time_ns;
};

static size_t read_all(struct joblog_reader *r, bool back, struct line *lines)
{
    size_t n = 0;
    for (;;) {
        struct joblog_record record = {0};
        ty_err err = back ? joblog_prev(r, &record) : joblog_next(r, &record);
        if (err == TY_OUT_OF_RANGE || n == MAX_LINES)
            return n;
        ty_assert(err == TY_OK || err == TY_DATA_LOSS);
        lines[n++] = (struct line){err == TY_OK, record.time_ns};
    }
}

static void check_seek(struct joblog_reader *r, const struct line *lines, size_t count,
                       int64_t time_ns)
{
    bool ordered = true;
    int64_t last = -1;
    for (size_t i = 0; i < count; i++) {
        if (!lines[i].good)
            continue;
        ordered = ordered && lines[i].time_ns > last;
        last = lines[i].time_ns;
    }
    ty_assert(joblog_seek(r, time_ns) == TY_OK);
    struct joblog_record record;
    ty_err err;
    do
        err = joblog_next(r, &record);
    while (err == TY_DATA_LOSS);
    if (ordered && err == TY_OK)
        ty_assert(record.time_ns >= time_ns);
    if (ordered && err == TY_OUT_OF_RANGE)
        ty_assert(last < time_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct line ahead[MAX_LINES], back[MAX_LINES];
    struct joblog_record record;
    if (joblog_parse((ty_str){(const char *)data, size}, &record) == TY_OK)
        ty_assert(record.text.len < size);

    int fd = memfd_create("log", MFD_CLOEXEC);
    ty_assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    struct joblog_reader r;
    ty_assert(joblog_reader_open(&r, AT_FDCWD, name) == TY_OK);
    size_t n = read_all(&r, false, ahead);
    if (n < MAX_LINES) {
        ty_assert(joblog_seek(&r, INT64_MAX) == TY_OK);
        ty_assert(read_all(&r, true, back) == n);
        for (size_t i = 0; i < n; i++)
            ty_assert(ahead[i].good == back[n - 1 - i].good &&
                      ahead[i].time_ns == back[n - 1 - i].time_ns);
        check_seek(&r, ahead, n, n > 0 ? ahead[n / 2].time_ns : 0);
    }
    joblog_reader_close(&r);
    struct ty_buf tail;
    ty_buf_init(&tail, 1 << 20);
    ty_assert(joblog_tail(AT_FDCWD, name, 0, 0, 5, 100, &tail) == TY_OK && tail.len <= 100);
    ty_buf_clear(&tail);
    close(fd);
    return 0;
}
