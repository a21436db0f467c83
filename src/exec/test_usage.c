/* test_usage.c -- control groups, in made-up trees and in the machine's own; samples; measuring. */
#define TY_SEAM
#include "base/test.h"
#include "exec/exec_int.h"

#include <sys/syscall.h>

enum { MB = 1 << 20 };

struct tree {
    struct ty_arena arena;
    char root[256];
};

static void tree_open(struct tree *t)
{
    memset(t, 0, sizeof *t);
    const char *tmp = getenv("TMPDIR");
    snprintf(t->root, sizeof t->root, "%s/ty-usage-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(t->root));
}

static void tree_close(struct tree *t)
{
    assert_ok(ty_remove_tree(AT_FDCWD, t->root));
    ty_arena_clear(&t->arena);
}

static char *tree_path(struct tree *t, const char *path)
{
    return ty_format(&t->arena, "%s/%s", t->root, path);
}

/* A file as the kernel would show it. */
static void put(struct tree *t, const char *path, const char *text)
{
    char *full = tree_path(t, path), *slash = strrchr(full, '/');
    *slash = '\0';
    assert_ok(ty_mkdirs(full, 0755));
    *slash = '/';
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_ok(ty_write_all(fd, text, strlen(text)));
    close(fd);
}

static void assert_file(struct tree *t, const char *path, const char *text)
{
    ty_str bytes;
    assert_ok(ty_file_read(AT_FDCWD, tree_path(t, path), MB, &t->arena, &bytes));
    assert_string_equal(bytes.ptr, text);
}

static const char v1_mounts[] =
    "31 23 0:28 / /cg rw - tmpfs tmpfs rw\n"
    "32 31 0:29 / /cg/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 /docker/x /cg/memory rw,relatime - cgroup cgroup rw,memory\n"
    "39 31 0:36 / /cg/pids rw,relatime - cgroup cgroup rw,pids\n"
    "41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw\n";

/* Controllers in trees of their own, one of them shown from the middle of its tree. */
static void make_v1(struct tree *t)
{
    put(t, "proc/self/cgroup",
        "9:name=systemd:/\n8:pids:/user\n4:memory:/docker/x/y\n2:cpu,cpuacct:/\n0::/\n");
    put(t, "proc/self/mountinfo", v1_mounts);
    put(t, "cg/memory/y/cgroup.procs", "");
    put(t, "cg/cpu,cpuacct/cgroup.procs", "");
    put(t, "cg/pids/user/cgroup.procs", "");
    put(t, "cg/unified/cgroup.controllers", "hugetlb\n");
}

static void v1_is_found(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup_place place;
    tree_open(&t);
    make_v1(&t);
    cgroup_find(&t.arena, t.root, true, &place);
    assert_int_equal(place.version, 1);
    assert_string_equal(cgroup_place_name(&place), "cgroup v1");
    assert_string_equal(place.dirs[CGROUP_MEMORY], tree_path(&t, "cg/memory/y"));
    assert_string_equal(place.dirs[CGROUP_CPU], tree_path(&t, "cg/cpu,cpuacct"));
    assert_string_equal(place.dirs[CGROUP_CPUACCT], tree_path(&t, "cg/cpu,cpuacct"));
    assert_string_equal(place.dirs[CGROUP_PIDS], tree_path(&t, "cg/pids/user"));
    tree_close(&t);
}

/* A container's groups, which an engine made elsewhere; not ours, and not the top of the tree. */
static void v1_of_another_is_found(void **state)
{
    (void)state;
    static const char own[] = "8:pids:/\n4:memory:/docker/x/y\n2:cpu,cpuacct:/\n0::/\n";
    static const char other[] = "8:pids:/\n4:memory:/docker/x/c\n2:cpu,cpuacct:/c\n0::/c\n";
    struct tree t;
    struct cgroup_place place;
    tree_open(&t);
    cgroup_find_other(&t.arena, t.root, ty_str_of(own), ty_str_of(other), ty_str_of(v1_mounts),
                      &place);
    assert_int_equal(place.version, 1);
    assert_string_equal(place.dirs[CGROUP_MEMORY], tree_path(&t, "cg/memory/c"));
    assert_string_equal(place.dirs[CGROUP_CPUACCT], tree_path(&t, "cg/cpu,cpuacct/c"));
    assert_null(place.dirs[CGROUP_PIDS]);
    struct cgroup g = {.place = &place, .name = "."};
    put(&t, "cg/memory/c/memory.stat", "total_rss 4096\ntotal_shmem 8192\n");
    put(&t, "cg/cpu,cpuacct/c/cpuacct.usage", "7000\n");
    assert_int_equal(cgroup_memory_bytes(&g), 12288);
    assert_int_equal(cgroup_cpu_us(&g), 7);
    cgroup_find_other(&t.arena, t.root, ty_str_of(own), ty_str_of(own), ty_str_of(v1_mounts),
                      &place);
    assert_int_equal(place.version, 0);
    tree_close(&t);
}

static void v2_of_another_is_found(void **state)
{
    (void)state;
    static const char mounts[] = "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    struct tree t;
    struct cgroup_place place;
    tree_open(&t);
    cgroup_find_other(&t.arena, t.root, TY_STR("0::/own\n"), TY_STR("0::/libpod-c.scope\n"),
                      ty_str_of(mounts), &place);
    assert_int_equal(place.version, 0); /* without the memory controller */
    put(&t, "cg/libpod-c.scope/memory.stat", "anon 4096\nshmem 1\n");
    put(&t, "cg/libpod-c.scope/memory.events", "oom 1\noom_kill 2\n");
    cgroup_find_other(&t.arena, t.root, TY_STR("0::/own\n"), TY_STR("0::/libpod-c.scope\n"),
                      ty_str_of(mounts), &place);
    assert_int_equal(place.version, 2);
    struct cgroup g = {.place = &place, .name = "."};
    assert_int_equal(cgroup_memory_bytes(&g), 4097);
    assert_int_equal(cgroup_oom_kills(&g), 2);
    cgroup_find_other(&t.arena, t.root, TY_STR("0::/own\n"), TY_STR("0::/own\n"), ty_str_of(mounts),
                      &place);
    assert_int_equal(place.version, 0);
    tree_close(&t);
}

static void make_v2(struct tree *t, const char *own)
{
    put(t, "proc/self/cgroup", ty_format(&t->arena, "0::%s\n", own));
    put(t, "proc/self/mountinfo", "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    put(t, "cg/cgroup.subtree_control", "");
    put(t, "cg/app.slice/cgroup.controllers", "cpu memory pids\n");
    put(t, "cg/app.slice/cgroup.subtree_control", "memory pids\n");
    put(t, "cg/app.slice/cgroup.procs", "");
    put(t, "cg/app.slice/own.scope/cgroup.controllers", "cpu memory pids\n");
    put(t, "cg/app.slice/own.scope/cgroup.subtree_control", "");
    put(t, "cg/app.slice/own.scope/cgroup.procs", "10\n20\n");
    put(t, "proc/self/exe", "us");
}

/* A shell shares our cgroup, so it is left alone; the slice above hands controllers down. */
static void v2_is_found_above(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup_place place;
    tree_open(&t);
    make_v2(&t, "/app.slice/own.scope");
    put(&t, "proc/10/exe", "a shell");
    cgroup_find(&t.arena, t.root, true, &place);
    assert_int_equal(place.version, 2);
    assert_string_equal(place.dirs[CGROUP_MEMORY], tree_path(&t, "cg/app.slice"));
    assert_string_equal(place.dirs[CGROUP_PIDS], tree_path(&t, "cg/app.slice"));
    assert_string_equal(place.dirs[CGROUP_CPUACCT], tree_path(&t, "cg/app.slice"));
    assert_null(place.dirs[CGROUP_CPU]);
    assert_file(&t, "cg/app.slice/own.scope/cgroup.subtree_control", "");
    tree_close(&t);
}

/* A scope of our own (Delegate=yes): all of us move to a leaf, then it hands controllers down. */
static void v2_own_cgroup_is_vacated(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup_place place;
    tree_open(&t);
    make_v2(&t, "/app.slice/own.scope");
    put(&t, "cg/app.slice/own.scope/trainyard-self/cgroup.procs", "");
    put(&t, "proc/10/here", "");
    put(&t, "proc/20/here", "");
    assert_int_equal(link(tree_path(&t, "proc/self/exe"), tree_path(&t, "proc/10/exe")), 0);
    assert_int_equal(link(tree_path(&t, "proc/self/exe"), tree_path(&t, "proc/20/exe")), 0);
    cgroup_find(&t.arena, t.root, false, &place); /* looking alone changes nothing */
    assert_string_equal(place.dirs[CGROUP_CPU], tree_path(&t, "cg/app.slice/own.scope"));
    assert_file(&t, "cg/app.slice/own.scope/cgroup.subtree_control", "");
    cgroup_find(&t.arena, t.root, true, &place);
    assert_file(&t, "cg/app.slice/own.scope/trainyard-self/cgroup.procs", "20");
    assert_file(&t, "cg/app.slice/own.scope/cgroup.subtree_control", "+cpu"); /* the last write */
    /* What the kernel makes of it. */
    put(&t, "cg/app.slice/own.scope/cgroup.subtree_control", "cpu memory pids\n");
    put(&t, "cg/app.slice/own.scope/trainyard-self/cgroup.controllers", "cpu memory pids\n");
    put(&t, "cg/app.slice/own.scope/trainyard-self/cgroup.procs", "10\n20\n");
    put(&t, "proc/self/cgroup", "0::/app.slice/own.scope/trainyard-self\n");
    cgroup_find(&t.arena, t.root, true, &place);
    assert_int_equal(place.version, 2);
    assert_string_equal(place.dirs[CGROUP_CPU], tree_path(&t, "cg/app.slice/own.scope"));
    tree_close(&t);
}

static void none_is_said(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup_place place;
    tree_open(&t);
    cgroup_find(&t.arena, t.root, true, &place);
    assert_int_equal(place.version, 0);
    assert_non_null(strstr(place.why, "may write"));
    put(&t, "proc/self/cgroup", "0::/\n");
    put(&t, "proc/self/mountinfo", "garbage\n30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
    cgroup_find(&t.arena, t.root, true, &place);
    assert_int_equal(place.version, 0);
    assert_non_null(strstr(place.why, "neither memory nor pids"));
    assert_null(cgroup_place_name(&place));
    put(&t, "proc/self/cgroup", "4:memory:/\n0::/\n"); /* not mounted, or not ours to write */
    cgroup_find(&t.arena, t.root, true, &place);
    assert_non_null(strstr(place.why, "may write"));
    tree_close(&t);
}

static void v1_limits_and_counts(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup_place place;
    struct cgroup g;
    pid_t pids[8];
    tree_open(&t);
    make_v1(&t);
    cgroup_find(&t.arena, t.root, true, &place);
    put(&t, "cg/memory/y/trainyard-1-1-0-0/memory.limit_in_bytes", "");
    put(&t, "cg/memory/y/trainyard-1-1-0-0/memory.memsw.limit_in_bytes", "");
    put(&t, "cg/memory/y/trainyard-1-1-0-0/memory.stat",
        "cache 77\ntotal_rss 1000\ntotal_shmem 24\n");
    put(&t, "cg/memory/y/trainyard-1-1-0-0/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    put(&t, "cg/memory/y/trainyard-1-1-0-0/cgroup.procs", "17\n18\n");
    put(&t, "cg/cpu,cpuacct/trainyard-1-1-0-0/cpu.shares", "");
    put(&t, "cg/cpu,cpuacct/trainyard-1-1-0-0/cpuacct.usage", "1234567890\n");
    put(&t, "cg/pids/user/trainyard-1-1-0-0/pids.max", "");
    put(&t, "cg/pids/user/trainyard-1-1-0-0/pids.events", "max 3\n");
    put(&t, "cg/memory/y/trainyard-1-1-0-0/tasks", "");
    put(&t, "cg/pids/user/trainyard-1-1-0-0/tasks", "");
    struct exec_share share = {.cpu_milli = 2000, .memory_bytes = 64 * MB};
    assert_ok(cgroup_make(&g, &place, "trainyard-1-1-0-0", &share, 99));
    assert_true(g.memory_limited && g.processes_limited);
    assert_file(&t, "cg/memory/y/trainyard-1-1-0-0/memory.limit_in_bytes", "67108864");
    assert_file(&t, "cg/memory/y/trainyard-1-1-0-0/memory.memsw.limit_in_bytes", "67108864");
    assert_file(&t, "cg/cpu,cpuacct/trainyard-1-1-0-0/cpu.shares", "2048");
    assert_file(&t, "cg/pids/user/trainyard-1-1-0-0/pids.max", "99");
    assert_int_equal(cgroup_cpu_us(&g), 1234567);
    assert_int_equal(cgroup_memory_bytes(&g), 1024);
    assert_int_equal(cgroup_oom_kills(&g), 2);
    assert_true(cgroup_processes_refused(&g));
    assert_int_equal(cgroup_pids(&g, pids, 8), 2);
    assert_int_equal(pids[1], 18);
    assert_int_equal(cgroup_pids(&g, pids, 1), 1);
    struct cgroup_doors doors = {.folder = -1};
    assert_err(TY_NOT_FOUND, cgroup_doors_open(&g, &doors)); /* one of three is missing */
    put(&t, "cg/cpu,cpuacct/trainyard-1-1-0-0/tasks", "");
    assert_ok(cgroup_doors_open(&g, &doors));
    assert_int_equal(doors.count, 3);
    assert_int_equal(cgroup_doors_enter(&doors), 0);
    cgroup_doors_close(&doors);
    assert_file(&t, "cg/memory/y/trainyard-1-1-0-0/tasks", "0");
    assert_file(&t, "cg/pids/user/trainyard-1-1-0-0/tasks", "0");
    g.outside = true;
    assert_int_equal(cgroup_memory_bytes(&g), -1);
    assert_int_equal(cgroup_oom_kills(&g), -1);
    tree_close(&t);
}

static void v2_limits_and_counts(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup g;
    tree_open(&t);
    char *dir = tree_path(&t, "cg");
    struct cgroup_place place = {.version = 2, .dirs = {dir, dir, dir, dir}};
    put(&t, "cg/trainyard-1-1-0-0/memory.max", "");
    put(&t, "cg/trainyard-1-1-0-0/memory.swap.max", "");
    put(&t, "cg/trainyard-1-1-0-0/memory.stat", "anon 1000\nfile 5\nshmem 24\n");
    put(&t, "cg/trainyard-1-1-0-0/memory.events", "low 0\nmax 4\noom 1\noom_kill 1\n");
    put(&t, "cg/trainyard-1-1-0-0/cpu.weight", "");
    put(&t, "cg/trainyard-1-1-0-0/cpu.stat", "usage_usec 555\nuser_usec 5\n");
    put(&t, "cg/trainyard-1-1-0-0/cgroup.procs", "");
    struct exec_share share = {.cpu_milli = 4000, .memory_bytes = MB};
    assert_ok(cgroup_make(&g, &place, "trainyard-1-1-0-0", &share, 99));
    assert_true(g.memory_limited);
    assert_false(g.processes_limited); /* no pids.max: said, not swallowed */
    assert_file(&t, "cg/trainyard-1-1-0-0/memory.max", "1048576");
    assert_file(&t, "cg/trainyard-1-1-0-0/memory.swap.max", "0");
    assert_file(&t, "cg/trainyard-1-1-0-0/cpu.weight", "400");
    assert_int_equal(cgroup_cpu_us(&g), 555);
    assert_int_equal(cgroup_memory_bytes(&g), 1024);
    assert_int_equal(cgroup_oom_kills(&g), 1);
    assert_false(cgroup_processes_refused(&g));
    struct cgroup_doors doors;
    assert_ok(cgroup_doors_open(&g, &doors));
    assert_true(doors.count == 0 && doors.folder >= 0);
    cgroup_doors_close(&doors);
    tree_close(&t);
}

static void refused_group_leaves_nothing(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup g = {0};
    tree_open(&t);
    put(&t, "cg/memory/x", "");
    put(&t, "cg/pids", "not a folder");
    struct cgroup_place place = {.version = 1,
                                 .dirs = {[CGROUP_MEMORY] = tree_path(&t, "cg/memory"),
                                          [CGROUP_PIDS] = tree_path(&t, "cg/pids")}};
    struct exec_share share = {0};
    assert_int_not_equal(cgroup_make(&g, &place, "trainyard-1-1-0-0", &share, 0), TY_OK);
    assert_null(g.place);
    assert_int_not_equal(access(tree_path(&t, "cg/memory/trainyard-1-1-0-0"), F_OK), 0);
    tree_close(&t);
}

/* Entering the tree of weights takes milliseconds: only who is given a weight does. */
static void weights_are_made_when_asked_for(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup g;
    tree_open(&t);
    put(&t, "cg/memory/x", "");
    put(&t, "cg/cpu/x", "");
    struct cgroup_place place = {
        .version = 1,
        .dirs = {
            [CGROUP_MEMORY] = tree_path(&t, "cg/memory"), [CGROUP_CPU] = tree_path(&t, "cg/cpu")}};
    assert_ok(cgroup_make(&g, &place, "trainyard-1-1-0-0", &(struct exec_share){0}, 0));
    assert_int_equal(access(tree_path(&t, "cg/memory/trainyard-1-1-0-0"), F_OK), 0);
    assert_int_not_equal(access(tree_path(&t, "cg/cpu/trainyard-1-1-0-0"), F_OK), 0);
    struct exec_share share = {.cpu_milli = 500};
    assert_ok(cgroup_make(&g, &place, "trainyard-1-1-0-0", &share, 0));
    assert_int_equal(access(tree_path(&t, "cg/cpu/trainyard-1-1-0-0"), F_OK), 0);
    cgroup_remove(&g);
    assert_int_not_equal(access(tree_path(&t, "cg/cpu/trainyard-1-1-0-0"), F_OK), 0);
    tree_close(&t);
}

/* The machine's own: a child is held to its memory, counted, and its group swept with it in it. */
static void real_group_kills_for_memory(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup_place place;
    struct cgroup g;
    char name[CGROUP_NAME_BYTES];
    struct cgroup_doors doors;
    int status;
    tree_open(&t);
    cgroup_find(&t.arena, "", false, &place);
    if (!place.dirs[CGROUP_MEMORY]) {
        tree_close(&t);
        skip();
    }
    snprintf(name, sizeof name, "trainyard-%d-1-0-0", (int)getpid());
    struct exec_share share = {.memory_bytes = 256 * (int64_t)MB};
    assert_ok(cgroup_make(&g, &place, name, &share, 100));
    assert_true(g.memory_limited);
    assert_ok(cgroup_doors_open(&g, &doors));
    int pidfd;
    pid_t pid = process_clone(0, doors.folder, &pidfd);
    if (pid == 0) {
        if (cgroup_doors_enter(&doors) != 0)
            _exit(1);
        for (;;) {
            char *p = malloc(16 * MB);
            for (size_t i = 0; p && i < 16 * MB; i += 4096)
                ((volatile char *)p)[i] = 1;
        }
    }
    cgroup_doors_close(&doors);
    close(pidfd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(cgroup_oom_kills(&g), 1);
    assert_true(cgroup_cpu_us(&g) > 0);
    cgroup_remove(&g);
    assert_null(g.place);
    tree_close(&t);
}

static void real_group_is_swept(void **state)
{
    (void)state;
    struct tree t;
    struct cgroup_place place;
    struct cgroup g;
    char name[CGROUP_NAME_BYTES];
    struct cgroup_doors doors;
    int status;
    tree_open(&t);
    cgroup_find(&t.arena, "", false, &place);
    if (place.version == 0) {
        tree_close(&t);
        skip();
    }
    int dirfd = open(t.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_ok(cgroup_place_note(&place, dirfd));
    snprintf(name, sizeof name, "trainyard-%d-2-0-0", (int)getpid());
    assert_ok(cgroup_make(&g, &place, name, &(struct exec_share){0}, 0));
    assert_ok(cgroup_doors_open(&g, &doors));
    int pidfd;
    pid_t pid = process_clone(0, doors.folder, &pidfd);
    if (pid == 0) {
        if (cgroup_doors_enter(&doors) == 0)
            pause();
        _exit(1);
    }
    cgroup_doors_close(&doors);
    close(pidfd);
    pid_t inside[4];
    while (cgroup_pids(&g, inside, 4) == 0)
        usleep(1000);
    assert_int_equal(inside[0], pid);
    signal(SIGCHLD, SIG_IGN); /* nobody but the kernel reaps it */
    char mark[64];
    snprintf(mark, sizeof mark, "TRAINYARD_ATTEMPT=%d/2", (int)getpid());
    cgroup_sweep(dirfd, mark);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(waitpid(pid, &status, 0), -1);
    for (int i = 0; i < CGROUP_PARTS; i++)
        if (place.dirs[i])
            assert_int_not_equal(access(ty_format(&t.arena, "%s/%s", place.dirs[i], name), F_OK),
                                 0);
    assert_int_not_equal(faccessat(dirfd, "cgroup", F_OK, 0), 0);
    close(dirfd);
    tree_close(&t);
}

/* A group of version 2, also where it has no controller to offer: a child is born in it. */
static void real_v2_group_is_born_into(void **state)
{
    (void)state;
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    struct cgroup g;
    char *dir = NULL, name[CGROUP_NAME_BYTES], path[PATH_MAX];
    for (size_t i = 0; i < TY_COUNT(mounts); i++) {
        snprintf(path, sizeof path, "%s/cgroup.procs", mounts[i]);
        if (access(path, W_OK) == 0)
            dir = (char *)mounts[i];
    }
    if (!dir)
        skip();
    struct cgroup_place place = {.version = 2, .dirs = {NULL, NULL, dir, NULL}};
    snprintf(name, sizeof name, "trainyard-%d-3-0-0", (int)getpid());
    assert_ok(cgroup_make(&g, &place, name, &(struct exec_share){0}, 0));
    struct cgroup_doors doors;
    assert_ok(cgroup_doors_open(&g, &doors));
    int pidfd, status;
    pid_t pid = process_clone(0, doors.folder, &pidfd), inside[4];
    if (pid == 0) {
        pause();
        _exit(1);
    }
    assert_int_equal(cgroup_pids(&g, inside, 4), 1);
    assert_int_equal(inside[0], pid);
    assert_true(cgroup_cpu_us(&g) >= 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(pidfd);
    cgroup_doors_close(&doors);
    cgroup_remove(&g);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- samples ---- */

static struct exec_sample sample(int round, int index)
{
    return (struct exec_sample){.time_ms = 1000 * round,
                                .pool = index < 0 ? -1 : 1,
                                .index = index,
                                .cpu_us = 7 * round,
                                .memory_bytes = INT64_C(1) << 40,
                                .read_bytes = round,
                                .written_bytes = INT64_MAX};
}

static void samples_come_back(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct ty_buf b;
    struct exec_sample *list, want[3] = {sample(1, 0), sample(1, 4095), sample(2, -1)};
    size_t count;
    ty_buf_init(&b, 1 << 16);
    for (int i = 0; i < 3; i++)
        sample_put(&b, &want[i]);
    samples_parse(&a, ty_buf_str(&b), 100, &list, &count);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(&list[i], &want[i], sizeof want[i]);
    for (size_t cut = 1; cut <= SAMPLE_BYTES; cut++) { /* a torn tail is not there */
        samples_parse(&a, (ty_str){b.ptr, b.len - cut}, 100, &list, &count);
        assert_int_equal(count, 2);
    }
    b.ptr[SAMPLE_BYTES + 20] ^= 1; /* nor is what comes after damage */
    samples_parse(&a, ty_buf_str(&b), 100, &list, &count);
    assert_int_equal(count, 1);
    ty_buf_clear(&b);
    ty_arena_clear(&a);
}

static void samples_are_thinned_for_a_reader(void **state)
{
    (void)state;
    struct ty_arena a = {0};
    struct ty_buf b;
    struct exec_sample *list;
    size_t count;
    ty_buf_init(&b, MB);
    for (int round = 1; round <= 1000; round++)
        for (int index = 0; index < 2; index++)
            sample_put(&b, &(struct exec_sample){.time_ms = round * 1000, .index = index});
    samples_parse(&a, ty_buf_str(&b), 60, &list, &count);
    assert_true(count <= 120 && count >= 60 && count % 2 == 0);
    assert_int_equal(list[count - 1].time_ms, 1000000); /* the newest is in */
    ty_buf_clear(&b);
    ty_arena_clear(&a);
}

/* A file never passes its limit, and what it keeps is evenly spaced over the whole time. */
static void samples_have_a_ceiling(void **state)
{
    (void)state;
    enum { ROUNDS = 5000, LIMIT = 100 * SAMPLE_BYTES };
    struct tree t;
    tree_open(&t);
    int dirfd = open(t.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct samples s = {.fd = -1, .limit = LIMIT};
    for (int round = 1; round <= ROUNDS; round++) {
        struct exec_sample pair[2] = {sample(round, 0), sample(round, 1)};
        assert_ok(samples_add(&s, dirfd, pair, 2));
        struct stat st;
        assert_int_equal(fstatat(dirfd, "usage", &st, 0), 0);
        assert_true(st.st_size <= LIMIT && st.st_size % SAMPLE_BYTES == 0);
    }
    samples_close(&s);
    ty_str bytes;
    struct exec_sample *list;
    size_t count;
    assert_ok(ty_file_read(dirfd, "usage", LIMIT, &t.arena, &bytes));
    samples_parse(&t.arena, bytes, ROUNDS, &list, &count);
    assert_true(count >= 40 && count <= 100);
    assert_int_equal(list[0].time_ms, 1000);
    for (size_t i = 4; i < count; i += 2)
        assert_int_equal(list[i].time_ms - list[i - 2].time_ms, list[2].time_ms - list[0].time_ms);
    assert_true(list[count - 1].time_ms > ROUNDS * 1000 * 3 / 4);
    close(dirfd);
    tree_close(&t);
}

static void samples_survive_a_failed_write(void **state)
{
    (void)state;
    struct tree t;
    tree_open(&t);
    int dirfd = open(t.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct samples s = {.fd = -1};
    struct exec_sample one = sample(1, 0), two = sample(2, 0);
    assert_ok(samples_add(&s, dirfd, &one, 1));
    assert_int_equal(write(s.fd, "half a record", 13), 13); /* what a full disk leaves */
    assert_ok(samples_add(&s, dirfd, &two, 1));
    samples_close(&s);
    ty_str bytes;
    struct exec_sample *list;
    size_t count;
    assert_ok(ty_file_read(dirfd, "usage", MB, &t.arena, &bytes));
    samples_parse(&t.arena, bytes, 100, &list, &count);
    assert_int_equal(count, 2);
    close(dirfd);
    tree_close(&t);
}

/* ---- measuring ---- */

/* Without a group: a child with a child of its own, found below it and reaped with what it used. */
static void processes_are_measured(void **state)
{
    (void)state;
    enum { WORK_US = 200000 };
    int ready[2], go[2];
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t below = fork();
        volatile char *p = malloc(64 * MB);
        for (size_t i = 0; i < 64 * MB; i += 4096)
            p[i] = 1;
        while (clock() < WORK_US)
            ;
        char stay;
        if (below > 0 && (write(ready[1], "x", 1) != 1 || read(go[0], &stay, 1) != 1 ||
                          waitpid(below, NULL, 0) != below))
            _exit(1);
        _exit(0);
    }
    char byte;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct usage u = {.pid = pid};
    struct cgroup none = {0};
    siginfo_t info;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    usage_look(&u, &none);
    assert_true(u.cpu_us >= WORK_US / 2 && u.memory_bytes >= 64 * MB);
    assert_int_equal(write(go[1], "x", 1), 1);
    while (!usage_reap(&u, &none, pidfd, &info))
        usleep(1000);
    assert_int_equal(info.si_status, 0);
    assert_true(u.cpu_us >= 2 * WORK_US * 9 / 10); /* both of them */
    assert_true(u.peak_bytes >= 64 * MB);
    close(pidfd);
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    close(go[1]);
}

static void bytes_are_readable(void **state)
{
    (void)state;
    char text[USAGE_TEXT_BYTES];
    assert_string_equal(usage_bytes_text(0, text), "0 bytes");
    assert_string_equal(usage_bytes_text(1023, text), "1023 bytes");
    assert_string_equal(usage_bytes_text(1536 * 1024, text), "1.5 MB");
    assert_string_equal(usage_bytes_text(INT64_C(16) << 30, text), "16.0 GB");
    assert_string_equal(usage_bytes_text(100 * MB, text), "100 MB");
    assert_string_equal(usage_bytes_text(INT64_C(3) << 50, text), "3072 TB");
}

static const struct CMUnitTest tests[] = {
    TEST("cgroup/v1_is_found", v1_is_found),
    TEST("cgroup/v2_is_found_above", v2_is_found_above),
    TEST("cgroup/v2_own_cgroup_is_vacated", v2_own_cgroup_is_vacated),
    TEST("cgroup/v1_of_another_is_found", v1_of_another_is_found),
    TEST("cgroup/v2_of_another_is_found", v2_of_another_is_found),
    TEST("cgroup/none_is_said", none_is_said),
    TEST("cgroup/v1_limits_and_counts", v1_limits_and_counts),
    TEST("cgroup/v2_limits_and_counts", v2_limits_and_counts),
    TEST("cgroup/refused_leaves_nothing", refused_group_leaves_nothing),
    TEST("cgroup/weights_are_made_when_asked_for", weights_are_made_when_asked_for),
    TEST("cgroup/real_kills_for_memory", real_group_kills_for_memory),
    TEST("cgroup/real_is_swept", real_group_is_swept),
    TEST("cgroup/real_v2_is_born_into", real_v2_group_is_born_into),
    TEST("samples/come_back", samples_come_back),
    TEST("samples/thinned_for_a_reader", samples_are_thinned_for_a_reader),
    TEST("samples/have_a_ceiling", samples_have_a_ceiling),
    TEST("samples/survive_a_failed_write", samples_survive_a_failed_write),
    TEST("usage/processes_are_measured", processes_are_measured),
    TEST("usage/bytes_are_readable", bytes_are_readable),
};
TEST_MAIN("exec_usage", tests)
