/* test_crash.c -- what a crash or a full disk at any step leaves behind. */
#include "store/test_store.h"

/* ---- failure at every step ----
 *
 * Jobs 0 and 1 are always moved by the same store_apply, so in every file that is left behind they
 * are in the same state. What was acknowledged is told through `ack`, a letter and an id at a time;
 * it must be there afterwards. */

struct ack {
    char what; /* c created, m moved (id = state), x cancel requested, d deleted */
    int64_t id;
};

static ty_err both(struct store *s, const int64_t ids[3], enum job_state state, struct attempt *at)
{
    struct store_change changes[2] = {{.job_id = ids[0], .state = state, .attempt = at},
                                      {.job_id = ids[1], .state = state, .attempt = at}};
    return store_apply(s, changes, 2);
}

/* Stops at the first failure, as a server would answer it. */
static ty_err scenario(const char *dir, int ack_fd)
{
#define STEP(letter, value, call)                                                                  \
    do {                                                                                           \
        err = (call);                                                                              \
        if (err != TY_OK)                                                                          \
            goto out;                                                                              \
        struct ack ack_ = {(letter), (value)};                                                     \
        if (write(ack_fd, &ack_, sizeof(ack_)) != sizeof(ack_))                                    \
            goto out;                                                                              \
    } while (0)
    struct store *s = NULL;
    struct ty_arena a = {0};
    int64_t ids[3];
    ty_err err = store_open(dir, &s);
    if (err != TY_OK)
        return err;
    for (int i = 0; i < 3; i++) {
        struct job j = job_of("t1");
        STEP('c', ids[i] = j.id, store_job_create(s, &j));
    }
    struct attempt at = {.number = 1, .state = ATTEMPT_STARTED, .ports = TY_STR("20000")};
    STEP('m', JOB_STATE_PENDING, both(s, ids, 0, &at));
    at.state = ATTEMPT_RUNNING;
    STEP('m', JOB_STATE_RUNNING, both(s, ids, JOB_STATE_RUNNING, &at));
    STEP('x', ids[2], store_job_cancel(s, PROJECT, REGION, ids[2]));
    at.state = ATTEMPT_ENDED;
    STEP('m', JOB_STATE_SUCCEEDED, both(s, ids, JOB_STATE_SUCCEEDED, &at));
    struct store_change end = {.job_id = ids[2], .state = JOB_STATE_CANCELLED};
    STEP('m', JOB_STATE_SUCCEEDED, store_apply(s, &end, 1));
    struct operation op;
    STEP('d', ids[2], store_job_delete(s, &a, PROJECT, REGION, ids[2], &op));
out:
    ty_arena_clear(&a);
    store_close(s);
    return err;
#undef STEP
}

static void check_acknowledged(struct fixture *f, int fd)
{
    struct ack ack;
    int64_t ids[3] = {0};
    int created = 0, letters[128] = {0}, moved = JOB_STATE_PENDING;
    while (read(fd, &ack, sizeof(ack)) == sizeof(ack)) {
        letters[(int)ack.what]++;
        if (ack.what == 'c')
            ids[created++] = ack.id;
        if (ack.what == 'm')
            moved = (int)ack.id;
    }
    close(fd);
    bool third;
    struct job a = {0}, b = {0};
    if (created > 0)
        a = get(f, ids[0]);
    if (created > 1)
        b = get(f, ids[1]);
    if (created > 2) {
        assert_ok(store_job_exists(f->store, ids[2], &third));
        assert_true(letters['d'] ? !third : third || letters['m'] == 4);
        if (third && letters['x'])
            assert_true(get(f, ids[2]).cancel_requested);
        assert_true(a.state == b.state && a.attempt == b.attempt);
        assert_true((int)a.state >= moved); /* these states are in the order of their numbers */
        assert_true(a.attempt >= (letters['m'] > 0));
    }
}

/* Run the scenario in a child that ends at some step; true when it got to its end. */
static bool survive(void (*arm)(int n), int n)
{
    struct fixture f;
    folder_make(&f); /* making the file is part of the scenario */
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        arm(n);
        _exit(scenario(f.dir, fds[1]) == TY_OK ? 0 : 1);
    }
    close(fds[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    assert_true(finished || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    assert_ok(store_open(f.dir, &f.store));
    check_acknowledged(&f, fds[0]);
    create(&f); /* and it goes on */
    fixture_close(&f);
    return finished;
}

static void arm_seam(int n)
{
    char count[16];
    snprintf(count, sizeof(count), "%d", n);
    setenv("TY_CRASH", count, 1);
    ty_seam_role("server");
}

static void crash_at_every_commit(void **state)
{
    (void)state;
    int n = 1;
    while (!survive(arm_seam, n))
        n++;
    assert_int_equal(n, 13); /* the schema's three commits and nine of the scenario */
}

/* SQLite's own writes and syncs, which the seam does not see: the process ends in the middle of the
 * nth. */
static int raw_left;
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fsync)(int);

static ssize_t torn_pwrite(int fd, const void *ptr, size_t len, off_t at)
{
    if (--raw_left == 0) {
        real_pwrite(fd, ptr, len / 2, at);
        kill(getpid(), SIGKILL);
    }
    return real_pwrite(fd, ptr, len, at);
}

static int torn_fsync(int fd)
{
    if (--raw_left == 0)
        kill(getpid(), SIGKILL);
    return real_fsync(fd);
}

static void arm_sqlite(int n)
{
    raw_left = n;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    static const char *const writes[] = {"pwrite", "pwrite64"};
    for (size_t i = 0; i < TY_COUNT(writes); i++) {
        sqlite3_syscall_ptr now = vfs->xGetSystemCall(vfs, writes[i]);
        if (!now)
            continue;
        real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))now;
        vfs->xSetSystemCall(vfs, writes[i], (sqlite3_syscall_ptr)torn_pwrite);
    }
    real_fsync = fdatasync;
    sqlite3_syscall_ptr sync = vfs->xGetSystemCall(vfs, "fdatasync");
    if (sync) {
        real_fsync = (int (*)(int))sync;
        vfs->xSetSystemCall(vfs, "fdatasync", (sqlite3_syscall_ptr)torn_fsync);
    }
}

static void crash_inside_sqlite(void **state)
{
    (void)state;
    int n = 1;
    while (!survive(arm_sqlite, n))
        n += 3; /* neighbours are pages of the same commit */
    assert_in_range(n, 50, 500);
}

static void fault_at_every_commit(void **state)
{
    (void)state;
    ty_err err = TY_INTERNAL;
    for (int n = 1; err != TY_OK; n++) {
        struct fixture f;
        folder_make(&f);
        char fault[32];
        snprintf(fault, sizeof(fault), "enospc-commit:%d", n);
        setenv("TY_FAULT", fault, 1);
        ty_seam_role("server");
        int fds[2];
        assert_int_equal(pipe(fds), 0);
        err = scenario(f.dir, fds[1]);
        close(fds[1]);
        assert_true(err == TY_OK || err == TY_RESOURCE_EXHAUSTED);
        unsetenv("TY_FAULT");
        ty_seam_role("server");
        assert_ok(store_open(f.dir, &f.store));
        check_acknowledged(&f, fds[0]);
        fixture_close(&f);
        assert_true(n <= 13);
    }
}

static const struct CMUnitTest tests[] = {
    TEST("crash/at_every_commit", crash_at_every_commit),
    TEST("crash/inside_sqlite", crash_inside_sqlite),
    TEST("fault/at_every_commit", fault_at_every_commit),
};
TEST_MAIN("store_crash", tests)
