/* usage.c -- what a replica uses, and the receipt for it.
 *
 * Once a second the conductor reads CPU time, memory and disk traffic of each replica:
 *   CPU     its cgroup's count; without one the sum over its processes, with the time of children
 *           that were waited for, which their parents carry
 *   memory  its cgroup's anonymous and shared memory; without one the sum of its processes' own
 *           pages and the largest part that they share (pages that fork has left in common are
 *           counted for each)
 *   disk    /proc/PID/io of its processes. A process that ends leaves its counts to the parent that
 *           waits for it, so the sum loses nothing. (cgroup v1 does not know who wrote what.)
 * At the end the kernel hands us CPU time, disk traffic and the largest process's peak of the init
 * and all its descendants when we wait for it: exact, also for a replica that was shorter than a
 * second. Peak memory is the larger of that and the largest sample.
 *
 * The processes are those of its cgroup, or those its own /proc shows (/proc/PID/root/proc of the
 * init: the PID namespace's), or, with neither, the children below the init.
 *
 * A replica in a container is measured by the group that its engine made (inside.c), or not at all:
 * what we wait for is the engine's client.
 *
 * The receipt is a record "used" in the journal for each run of a replica, and a line in the log.
 */
#include "exec/exec_int.h"

#include <dirent.h>
#include <sys/syscall.h>

enum { SMALL_BYTES = 2048, PATH_BYTES = 64, STAT_FIELDS = 15 };

struct counts {
    int64_t cpu_us, own_bytes, shared_bytes, read_bytes, written_bytes;
};

/* ---- one process ---- */

static ty_str read_small(int dirfd, const char *path, char out[SMALL_BYTES])
{
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, SMALL_BYTES) : -1;
    if (fd >= 0)
        close(fd);
    return n > 0 ? (ty_str){out, (size_t)n} : (ty_str){0};
}

/* The nth word (from 0) as a number; 0 if it is none. */
static int64_t nth_number(ty_str text, int n)
{
    ty_str word = {0};
    int64_t value = 0;
    for (int i = 0; i <= n; i++)
        if (!ty_str_split(&text, ' ', &word) && i < n)
            return 0;
    return ty_parse_i64(ty_str_trim(word), &value) == TY_OK ? value : 0;
}

/* "read_bytes: N" and "write_bytes: N" of a file `io`. */
static void add_io(ty_str text, struct counts *c)
{
    ty_str line;
    while (ty_str_split(&text, '\n', &line)) {
        if (ty_str_starts(line, TY_STR("read_bytes: ")))
            c->read_bytes += nth_number(line, 1);
        else if (ty_str_starts(line, TY_STR("write_bytes: ")))
            c->written_bytes += nth_number(line, 1);
    }
}

static void add_cpu(ty_str stat, struct counts *c)
{
    static const int fields[] = {11, 12, 13, 14}; /* after the name: u, s, and of children */
    const char *end = stat.len ? memrchr(stat.ptr, ')', stat.len) : NULL;
    if (!end || end + 2 > stat.ptr + stat.len)
        return;
    ty_str rest = ty_str_drop(stat, (size_t)(end + 2 - stat.ptr));
    int64_t ticks = 0;
    for (size_t i = 0; i < TY_COUNT(fields); i++)
        ticks += nth_number(rest, fields[i]);
    c->cpu_us += ticks * (1000000 / sysconf(_SC_CLK_TCK));
}

static void add_memory(ty_str statm, struct counts *c)
{
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t resident = nth_number(statm, 1) * page, shared = nth_number(statm, 2) * page;
    c->own_bytes += resident - shared;
    if (shared > c->shared_bytes)
        c->shared_bytes = shared;
}

static void add_process(int proc_fd, pid_t pid, bool all, struct counts *c)
{
    char path[PATH_BYTES], text[SMALL_BYTES];
    snprintf(path, sizeof path, "%d/io", (int)pid);
    add_io(read_small(proc_fd, path, text), c);
    if (!all)
        return;
    snprintf(path, sizeof path, "%d/stat", (int)pid);
    add_cpu(read_small(proc_fd, path, text), c);
    snprintf(path, sizeof path, "%d/statm", (int)pid);
    add_memory(read_small(proc_fd, path, text), c);
}

/* ---- which processes ---- */

static size_t list_proc(int proc_fd, pid_t *pids, size_t most)
{
    int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    size_t count = 0;
    int64_t pid;
    if (!list && fd >= 0)
        close(fd);
    while (list && count < most && (entry = readdir(list)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            ty_parse_i64(ty_str_of(entry->d_name), &pid) == TY_OK)
            pids[count++] = (pid_t)pid;
    if (list)
        closedir(list);
    return count;
}

/* The init and what is below it, by the main threads' lists of children. */
static size_t list_children(int proc_fd, pid_t init, pid_t *pids, size_t most)
{
    size_t count = 1;
    char path[PATH_BYTES], text[SMALL_BYTES];
    pids[0] = init;
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%d/task/%d/children", (int)pids[i], (int)pids[i]);
        ty_str rest = read_small(proc_fd, path, text), word;
        int64_t pid;
        while (count < most && ty_str_split(&rest, ' ', &word))
            if (ty_parse_i64(word, &pid) == TY_OK)
                pids[count++] = (pid_t)pid;
    }
    return count;
}

/* Fill `pids`; *ret_proc is the /proc that knows them by these numbers. */
static size_t list_processes(const struct usage *u, const struct cgroup *g, pid_t *pids,
                             int *ret_proc)
{
    char path[PATH_BYTES], self[PATH_BYTES];
    *ret_proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t count = cgroup_pids(g, pids, USAGE_PROCESSES);
    if (count > 0 || *ret_proc < 0)
        return count;
    snprintf(path, sizeof path, "/proc/%d/root/proc", (int)u->pid);
    int own = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* In a /proc of another PID namespace there is no "self" for us. */
    if (own >= 0 && readlinkat(own, "self", self, sizeof self) < 0) {
        close(*ret_proc);
        *ret_proc = own;
        return list_proc(own, pids, USAGE_PROCESSES);
    }
    if (own >= 0)
        close(own);
    return list_children(*ret_proc, u->pid, pids, USAGE_PROCESSES);
}

/* ---- one replica ---- */

static int64_t larger(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

void usage_look(struct usage *u, const struct cgroup *g)
{
    static pid_t pids[USAGE_PROCESSES]; /* one thread */
    struct counts c = {0};
    int proc_fd;
    int64_t cpu_us = cgroup_cpu_us(g), memory = cgroup_memory_bytes(g);
    size_t count = list_processes(u, g, pids, &proc_fd);
    for (size_t i = 0; i < count; i++)
        add_process(proc_fd, pids[i], cpu_us < 0 || memory < 0, &c);
    if (proc_fd >= 0)
        close(proc_fd);
    u->cpu_us = larger(u->cpu_us, cpu_us >= 0 ? cpu_us : c.cpu_us);
    u->memory_bytes = memory >= 0 ? memory : c.own_bytes + c.shared_bytes;
    u->peak_bytes = larger(u->peak_bytes, u->memory_bytes);
    u->read_bytes = larger(u->read_bytes, c.read_bytes);
    u->written_bytes = larger(u->written_bytes, c.written_bytes);
}

static int64_t timeval_us(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

bool usage_reap(struct usage *u, const struct cgroup *g, int pidfd, siginfo_t *ret_info)
{
    struct counts before = {0}, after = {0};
    struct rusage used;
    char text[SMALL_BYTES];
    *ret_info = (siginfo_t){0};
    add_io(read_small(AT_FDCWD, "/proc/self/io", text), &before);
    if (syscall(SYS_waitid, P_PIDFD, pidfd, ret_info, WEXITED | WNOHANG, &used) != 0 ||
        ret_info->si_pid == 0)
        return false;
    add_io(read_small(AT_FDCWD, "/proc/self/io", text), &after);
    int64_t cpu_us = timeval_us(used.ru_utime) + timeval_us(used.ru_stime);
    u->cpu_us = larger(u->cpu_us, larger(cpu_us, cgroup_cpu_us(g)));
    u->peak_bytes = larger(u->peak_bytes, (int64_t)used.ru_maxrss * 1024);
    u->read_bytes = larger(u->read_bytes, after.read_bytes - before.read_bytes);
    u->written_bytes = larger(u->written_bytes, after.written_bytes - before.written_bytes);
    u->memory_bytes = 0;
    return true;
}

/* ---- all replicas of a conductor ---- */

static bool anybody_alive(const struct conductor *c)
{
    for (size_t i = 0; i < c->replica_count; i++)
        if (c->replicas[i].state != REPLICA_GONE)
            return true;
    return false;
}

int64_t usage_next_ms(const struct conductor *c)
{
    int64_t inside_ms = inside_next_ms(c);
    if (!anybody_alive(c))
        return INT64_MAX;
    return inside_ms < c->usage.next_ms ? inside_ms : c->usage.next_ms;
}

void usage_tick(struct conductor *c, int64_t now_ms)
{
    inside_tick(c, now_ms);
    if (now_ms < c->usage.next_ms || !anybody_alive(c))
        return;
    struct exec_sample *round = calloc(c->replica_count, sizeof *round);
    ty_assert(round);
    size_t count = 0;
    int64_t time_ms = ty_now_ns() / 1000000;
    for (size_t i = 0; i < c->replica_count; i++) {
        struct replica *r = &c->replicas[i];
        if (r->state == REPLICA_GONE)
            continue;
        if (r->plan->container)
            inside_look(c, r);
        else
            usage_look(&r->usage, &r->cgroup);
        if (r->plan->container && !r->inside.group.place)
            continue;
        round[count++] = (struct exec_sample){.time_ms = time_ms,
                                              .pool = r->plan->pool,
                                              .index = r->plan->index,
                                              .cpu_us = r->usage.cpu_us,
                                              .memory_bytes = r->usage.memory_bytes,
                                              .read_bytes = r->usage.read_bytes,
                                              .written_bytes = r->usage.written_bytes};
    }
    if (samples_add(&c->usage.samples, c->dirfd, round, count) != TY_OK && !c->usage.failed) {
        c->usage.failed = true; /* a full disk, most likely: the log says it, too */
        log_warn("conductor.usage", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    }
    free(round);
    c->usage.next_ms = now_ms + USAGE_EVERY_MS;
}

/* ---- the receipt ---- */

static const char *method_of(const struct replica *r)
{
    if (r->plan->container)
        return inside_method(r);
    const char *group = r->cgroup.outside ? NULL : cgroup_place_name(r->cgroup.place);
    return group ? group : "/proc every second + wait4";
}

static void add_to_journal(struct conductor *c, const struct exec_used *used)
{
    struct ty_buf b;
    ty_buf_init(&b, 1024);
    journal_field_int(&b, "pool", used->pool);
    journal_field_int(&b, "index", used->index);
    journal_field_int(&b, "cpu_us", used->cpu_us);
    journal_field_int(&b, "wall_ms", used->wall_ms);
    journal_field_int(&b, "peak", used->peak_bytes);
    journal_field_int(&b, "read", used->read_bytes);
    journal_field_int(&b, "written", used->written_bytes);
    journal_field_int(&b, "limit", used->limit_bytes);
    journal_field_int(&b, "enforced", used->limit_enforced);
    journal_field(&b, "method", used->method);
    if (journal_add(&c->journal, "used", ty_buf_str(&b)) != TY_OK)
        log_warn("conductor.journal", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    ty_buf_clear(&b);
}

/* Is the replica held to its share of memory? */
static bool is_limited(const struct conductor *c, const struct replica *r)
{
    return r->plan->container ? container_limits_hold(c->dirfd) : r->cgroup.memory_limited;
}

void usage_note(struct conductor *c, struct replica *r)
{
    const struct usage *u = &r->usage;
    struct exec_used used = {.pool = r->plan->pool,
                             .index = r->plan->index,
                             .cpu_us = u->cpu_us,
                             .wall_ms = ty_boot_ms() - u->begin_ms,
                             .peak_bytes = u->peak_bytes,
                             .read_bytes = u->read_bytes,
                             .written_bytes = u->written_bytes,
                             .limit_bytes = r->plan->share.memory_bytes,
                             .limit_enforced = is_limited(c, r),
                             .method = ty_str_of(method_of(r))};
    r->oom_kills = r->plan->container ? inside_oom_kills(c, r) : cgroup_oom_kills(&r->cgroup);
    r->memory_limited = used.limit_enforced;
    r->processes_refused = cgroup_processes_refused(&r->cgroup);
    add_to_journal(c, &used);
    struct exec_used *sum = &c->usage.sum;
    sum->cpu_us += used.cpu_us;
    sum->peak_bytes = larger(sum->peak_bytes, used.peak_bytes);
    if (used.limit_bytes > 0)
        sum->limit_enforced = used.limit_enforced && (sum->limit_bytes == 0 || sum->limit_enforced);
    sum->limit_bytes = larger(sum->limit_bytes, used.limit_bytes);
    sum->method = used.method;
    cgroup_remove(&r->cgroup);
}

const char *usage_bytes_text(int64_t bytes, char out[USAGE_TEXT_BYTES])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < TY_COUNT(units); unit++)
        value /= 1024;
    snprintf(out, USAGE_TEXT_BYTES, "%.*f %s", unit == 0 || value >= 100 ? 0 : 1, value,
             units[unit]);
    return out;
}

static void limit_text(const struct exec_used *used, char out[64])
{
    char limit[USAGE_TEXT_BYTES];
    out[0] = '\0';
    if (used->limit_bytes > 0)
        snprintf(out, 64, "; limit %s %s", usage_bytes_text(used->limit_bytes, limit),
                 used->limit_enforced ? "enforced" : "not enforced");
}

void usage_say_used(struct conductor *c)
{
    const struct exec_used *sum = &c->usage.sum;
    char peak[USAGE_TEXT_BYTES], limit[64];
    if (sum->method.len == 0) /* nothing ran */
        return;
    limit_text(sum, limit);
    if (ty_str_is(sum->method, "not measured"))
        output_say(c,
                   "Used: not measured (the container was gone, or its engine does not show it), "
                   "%.1f s wall%s.",
                   (double)(ty_boot_ms() - c->begin_ms) / 1e3, limit);
    else
        output_say(c, "Used: %.1f CPU seconds, %s peak memory%s, %.1f s wall (" TY_STR_FMT "%s).",
                   (double)sum->cpu_us / 1e6, usage_bytes_text(sum->peak_bytes, peak),
                   c->replica_count > 1 ? " of the largest replica" : "",
                   (double)(ty_boot_ms() - c->begin_ms) / 1e3, TY_STR_ARG(sum->method), limit);
    output_say(c, c->replica_count == 1 ? "Released 1 replica." : "Released %zu replicas.",
               c->replica_count);
}

/* ---- the machine's part ---- */

void usage_begin(struct conductor *c)
{
    c->usage.next_ms = ty_boot_ms() + USAGE_EVERY_MS;
    c->setup.processes = c->plan.replica_processes;
    if (!c->plan.cgroups) {
        c->usage.place.why = "cgroups = off in trainyard.conf";
        return;
    }
    cgroup_find(&c->arena, "", true, &c->usage.place);
    if (c->usage.place.version == 0)
        return;
    if (cgroup_place_note(&c->usage.place, c->dirfd) == TY_OK) {
        c->setup.place = &c->usage.place;
        return;
    }
    c->usage.place.why = "its place cannot be written down (the disk is full?)";
    log_warn("conductor.cgroup", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
}

/* For who asks while it runs; its receipt comes at the end. */
static void note_provisioned(struct conductor *c)
{
    struct ty_buf b;
    ty_buf_init(&b, 256);
    journal_field_int(&b, "limit", c->plan.replicas[0].share.memory_bytes);
    journal_field_int(&b, "enforced", is_limited(c, &c->replicas[0]));
    if (!c->plan.replicas[0].container) /* that one is to be seen yet */
        journal_field(&b, "method", ty_str_of(method_of(&c->replicas[0])));
    if (journal_add(&c->journal, "provisioned", ty_buf_str(&b)) != TY_OK)
        log_warn("conductor.journal", "job=%" PRId64 " error='%s'", c->job_id, ty_err_message());
    ty_buf_clear(&b);
}

void usage_say_provisioned(struct conductor *c)
{
    const struct exec_replica *chief = &c->plan.replicas[0];
    const struct cgroup *g = &c->replicas[0].cgroup;
    const char *group = cgroup_place_name(g->place);
    char limit[USAGE_TEXT_BYTES], words[256] = "";
    usage_bytes_text(chief->share.memory_bytes, limit);
    if (chief->container && chief->share.memory_bytes > 0)
        snprintf(words, sizeof words, "%smemory limit %s %s",
                 is_limited(c, &c->replicas[0]) ? " (containers, " : "; the ", limit,
                 is_limited(c, &c->replicas[0]) ? "enforced)"
                                                : "is not enforced: the container engine cannot");
    else if (group && g->memory_limited)
        snprintf(words, sizeof words, " (%s, memory limit %s enforced)", group, limit);
    else if (chief->share.memory_bytes > 0)
        snprintf(words, sizeof words, "; the memory limit of %s is not enforced: %s", limit,
                 group ? "the cgroup has no memory controller" : c->usage.place.why);
    else if (group)
        snprintf(words, sizeof words, " (%s)", group);
    note_provisioned(c);
    output_say(c, "Provisioned %zu replica%s%s.", c->plan.replica_count,
               c->plan.replica_count == 1 ? "" : "s", words);
}

void usage_clear(struct conductor *c)
{
    samples_close(&c->usage.samples);
    if (c->setup.place)
        unlinkat(c->dirfd, "cgroup", 0);
}
