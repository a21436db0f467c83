/* test_ranks.h -- ranks as child processes, for the tests of crew. */
#ifndef TY_TEST_RANKS_H
#define TY_TEST_RANKS_H

#include "base/test.h"
#include "crew/crew_int.h"

#include <sys/mman.h>

enum { TEST_MOST_RANKS = 8, TEST_END_S = 100 };
static const char *const test_names[TEST_MOST_RANKS] = {
    "chief", "worker 1", "worker 2", "worker 3", "worker 4", "worker 5", "worker 6", "worker 7"};

/* How each rank ended; in memory that the children share with us. */
struct test_end {
    bool ended; /* it came to the end of its function */
    bool ready;
    pid_t inner; /* its pid, where it is not our child itself */
    ty_err code;
    char message[1024];
};
struct test_ranks {
    int size, join_ms, deadline_ms;
    const volatile sig_atomic_t *stopped;
    char meeting[128];
    pid_t pids[TEST_MOST_RANKS];
    struct test_end *ends;
};
/* What a rank does once it has joined. */
typedef ty_err (*test_body)(struct crew *c, void *arg);

static inline void test_ranks_init(struct test_ranks *t, int size)
{
    static int crews;
    *t = (struct test_ranks){.size = size, .join_ms = 30000, .deadline_ms = 5000};
    snprintf(t->meeting, sizeof t->meeting, "/dev/shm/ty-test-crew-%d-%d", (int)getpid(), crews++);
    t->ends = mmap(NULL, TEST_MOST_RANKS * sizeof *t->ends, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(t->ends != MAP_FAILED);
}

static inline struct crew_options test_options(const struct test_ranks *t, int rank)
{
    return (struct crew_options){.rank = rank,
                                 .size = t->size,
                                 .names = test_names,
                                 .meeting = t->meeting,
                                 .join_ms = t->join_ms,
                                 .deadline_ms = t->deadline_ms,
                                 .stopped = t->stopped};
}

static inline void test_record(struct test_end *end, ty_err code)
{
    end->code = code;
    snprintf(end->message, sizeof end->message, "%s", code == TY_OK ? "" : ty_err_message());
    end->ended = true;
}

/* In a child: a rank's whole life. A test that hangs ends after TEST_END_S. */
static inline void test_rank_run(struct test_ranks *t, int rank, test_body body, void *arg)
{
    struct crew_options o = test_options(t, rank);
    struct crew *c;
    alarm(TEST_END_S);
    ty_err err = crew_join_shared(&o, &c);
    if (err == TY_OK) {
        err = body(c, arg);
        test_record(&t->ends[rank], err);
        crew_leave(c, NULL);
    } else {
        test_record(&t->ends[rank], err);
    }
}

static inline void test_rank_start(struct test_ranks *t, int rank, test_body body, void *arg)
{
    pid_t pid = ty_fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        test_rank_run(t, rank, body, arg);
        exit(0);
    }
    t->pids[rank] = pid;
}

static inline void test_ranks_start(struct test_ranks *t, test_body body, void *arg)
{
    for (int r = 0; r < t->size; r++)
        test_rank_start(t, r, body, arg);
}

/* Until the rank has its place at the meeting, whose byte it locks, while not all have joined. */
static inline void test_rank_placed(const struct test_ranks *t, int rank)
{
    for (int i = 0; i < TEST_END_S * 1000; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
        int fd = open(t->meeting, O_RDWR | O_CLOEXEC);
        bool taken = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
        if (fd >= 0)
            close(fd);
        if (taken)
            return;
        usleep(1000);
    }
    fail_msg("%s did not come to '%s'", test_names[rank], t->meeting);
}

/* Until the rank has said that it is ready, in its end. */
static inline void test_rank_ready(const struct test_ranks *t, int rank)
{
    while (!__atomic_load_n(&t->ends[rank].ready, __ATOMIC_ACQUIRE))
        usleep(1000);
}

/* Wait for the end of rank's process: its wait status. */
static inline int test_rank_wait(struct test_ranks *t, int rank)
{
    int status = 0;
    pid_t got;
    do
        got = waitpid(t->pids[rank], &status, 0);
    while (got < 0 && errno == EINTR);
    assert_int_equal(got, t->pids[rank]);
    return status;
}

/* All end well, and exit with 0: no leak was found, either. */
static inline void test_ranks_pass(struct test_ranks *t)
{
    for (int r = 0; r < t->size; r++) {
        int status = test_rank_wait(t, r);
        if (!t->ends[r].ended || t->ends[r].code != TY_OK || status != 0)
            fail_msg("%s of %d: status %x, %s: %s", test_names[r], t->size, (unsigned)status,
                     ty_err_name(t->ends[r].code), t->ends[r].message);
    }
    assert_int_equal(access(t->meeting, F_OK), -1); /* nothing is left behind */
}

/* Rank `rank` ended with this code, and its message has all these words. */
static inline void test_rank_failed(const struct test_ranks *t, int rank, ty_err code,
                                    const char *const *words, size_t count)
{
    const struct test_end *end = &t->ends[rank];
    if (!end->ended)
        fail_msg("%s did not come to its end", test_names[rank]);
    if (end->code != code)
        fail_msg("%s: %s, not %s: %s", test_names[rank], ty_err_name(end->code), ty_err_name(code),
                 end->message);
    for (size_t i = 0; i < count; i++)
        if (!strstr(end->message, words[i]))
            fail_msg("%s: the message '%s' does not say '%s'", test_names[rank], end->message,
                     words[i]);
}
#define TEST_RANK_FAILED(t, rank, code, ...)                                                       \
    test_rank_failed((t), (rank), (code), (const char *const[]){__VA_ARGS__},                      \
                     TY_COUNT(((const char *const[]){__VA_ARGS__})))

static inline void test_ranks_clear(struct test_ranks *t)
{
    munmap(t->ends, TEST_MOST_RANKS * sizeof *t->ends);
}

#endif
