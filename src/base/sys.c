/* sys.c -- the seam: every step that touches time, randomness, disk or processes.
 *
 * A test names the step to fail or to die at in the environment (base.h lists the variables), so
 * one scenario can be run again and again, ending at each of its steps in turn. A process that dies
 * at a write has written half of it: that is what a torn record looks like. */
#define TY_SEAM
#include "base/base.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>

static const char *const op_names[TY_OP_COUNT] = {"write", "sync", "rename", "commit", "fork"};

static struct {
    uint64_t steps; /* atomic */
    uint64_t kind_steps[TY_OP_COUNT];
    uint64_t crash_at; /* 0: never */
    uint64_t fault_at; /* 0: never */
    enum ty_op fault_op;
    int fault_errno;
    bool fault_on;    /* that step and all later ones */
    bool fault_short; /* half of a write's bytes go out before it fails */
    char role[16];
    const volatile int64_t *clock_offset_ns;
} seam;

static uint64_t parse_count(const char *text)
{
    int64_t n = 0;
    return ty_parse_i64(ty_str_of(text), &n) == TY_OK && n > 0 ? (uint64_t)n : 0;
}

static void read_crash(const char *text)
{
    const char *colon = strchr(text, ':');
    ty_str role = colon ? (ty_str){text, (size_t)(colon - text)} : TY_STR("server");
    if (ty_str_is(role, seam.role))
        seam.crash_at = parse_count(colon ? colon + 1 : text);
}

/* "write:3", "write:3+", "enospc-write:3+", "short-write:3" */
static void read_fault(const char *text)
{
    ty_str rest = ty_str_of(text), op;
    seam.fault_errno = EIO;
    seam.fault_short = ty_str_starts(rest, TY_STR("short-"));
    if (seam.fault_short || ty_str_starts(rest, TY_STR("enospc-"))) {
        seam.fault_errno = ENOSPC;
        rest = ty_str_drop(rest, seam.fault_short ? 6 : 7);
    }
    if (!ty_str_split(&rest, ':', &op))
        return;
    if (ty_str_ends(rest, TY_STR("+"))) {
        seam.fault_on = true;
        rest.len--;
    }
    int64_t n = 0;
    for (int i = 0; i < TY_OP_COUNT; i++)
        if (ty_str_is(op, op_names[i]) && ty_parse_i64(rest, &n) == TY_OK && n > 0) {
            seam.fault_op = (enum ty_op)i;
            seam.fault_at = (uint64_t)n;
        }
}

static void map_clock(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED)
        seam.clock_offset_ns = p;
}

static void write_steps(void)
{
    const char *path = getenv("TY_STEPS");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    char line[64];
    int n = snprintf(line, sizeof line, "%s %" PRIu64 "\n", seam.role, ty_seam_steps());
    ssize_t ignored = write(fd, line, (size_t)n);
    (void)ignored;
    close(fd);
}

void ty_seam_role(const char *role)
{
    static bool at_exit;
    const volatile int64_t *clock_kept = seam.clock_offset_ns;
    memset(&seam, 0, sizeof seam);
    seam.clock_offset_ns = clock_kept;
    snprintf(seam.role, sizeof seam.role, "%s", role);
    if (getenv("TY_CRASH"))
        read_crash(getenv("TY_CRASH"));
    if (getenv("TY_FAULT"))
        read_fault(getenv("TY_FAULT"));
    if (getenv("TY_CLOCK") && !seam.clock_offset_ns)
        map_clock(getenv("TY_CLOCK"));
    if (getenv("TY_STEPS") && !at_exit) {
        at_exit = true;
        atexit(write_steps);
    }
}

static bool crash_is_now(uint64_t step)
{
    return seam.crash_at && step == seam.crash_at;
}

static _Noreturn void crash(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* The number of this step. */
static uint64_t count_step(enum ty_op op, int *ret_errno)
{
    uint64_t step = __atomic_add_fetch(&seam.steps, 1, __ATOMIC_RELAXED);
    uint64_t of_kind = __atomic_add_fetch(&seam.kind_steps[op], 1, __ATOMIC_RELAXED);
    bool fails = seam.fault_at && seam.fault_op == op &&
                 (of_kind == seam.fault_at || (seam.fault_on && of_kind > seam.fault_at));
    *ret_errno = fails ? seam.fault_errno : 0;
    if (fails) /* so that a test knows that its n was reached */
        log_warn("seam.fault", "op=%s step=%" PRIu64, op_names[op], of_kind);
    return step;
}

int ty_seam_step(enum ty_op op)
{
    int err_no;
    if (crash_is_now(count_step(op, &err_no)))
        crash();
    return err_no;
}

uint64_t ty_seam_steps(void)
{
    return __atomic_load_n(&seam.steps, __ATOMIC_RELAXED);
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t ty_now_ns(void)
{
    int64_t offset = seam.clock_offset_ns ? *seam.clock_offset_ns : 0;
    return clock_ns(CLOCK_REALTIME) + offset;
}

int64_t ty_boot_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

int64_t ty_boot_ms(void)
{
    return ty_boot_ns() / 1000000;
}

bool ty_cond_wait_ms(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms)
{
    int64_t until_ns = clock_ns(CLOCK_MONOTONIC) + ms * 1000000;
    struct timespec t = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &t) != ETIMEDOUT;
}

void ty_random(void *ptr, size_t len)
{
    char *p = ptr;
    while (len) {
        ssize_t n = getrandom(p, len, 0);
        ty_assert(n > 0 || errno == EINTR);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
}

/* Bare write of all bytes; 0 or errno. */
static int write_bytes(int fd, const char *p, size_t len)
{
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

ty_err ty_write_all(int fd, const void *ptr, size_t len)
{
    int err_no;
    if (crash_is_now(count_step(TY_OP_WRITE, &err_no))) {
        write_bytes(fd, ptr, len / 2);
        crash();
    }
    if (err_no && seam.fault_short)
        write_bytes(fd, ptr, len / 2);
    if (err_no == 0)
        err_no = write_bytes(fd, ptr, len);
    return err_no ? ty_fail_errno(err_no, "cannot write %zu bytes", len) : TY_OK;
}

ty_err ty_sync(int fd)
{
    int err_no = ty_seam_step(TY_OP_SYNC);
    if (err_no == 0 && fdatasync(fd) != 0)
        err_no = errno;
    return err_no ? ty_fail_errno(err_no, "cannot sync a file to disk") : TY_OK;
}

int ty_rename_between(int from_dir, const char *from, int to_dir, const char *to)
{
    int err_no = ty_seam_step(TY_OP_RENAME);
    if (err_no == 0 && renameat(from_dir, from, to_dir, to) != 0)
        err_no = errno;
    return err_no;
}

ty_err ty_rename_at(int dirfd, const char *from, const char *to)
{
    int err_no = ty_rename_between(dirfd, from, dirfd, to);
    return err_no ? ty_fail_errno(err_no, "cannot rename '%s' to '%s'", from, to) : TY_OK;
}

pid_t ty_fork(void)
{
    int err_no = ty_seam_step(TY_OP_FORK);
    if (err_no) {
        errno = err_no;
        return -1;
    }
    return fork();
}
