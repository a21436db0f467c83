/* cgroup.c -- a control group for each replica, where the machine lets us make one.
 *
 * The group holds a replica to its share of memory and CPU and to a number of processes, tells
 * exactly whether the kernel killed for memory in it, and counts what its processes used, those
 * that have left their parents too. Where no group is to be had everything works without.
 *
 * Version 1: each controller has a tree of its own; the group is made below the cgroup we are in.
 *
 * Version 2 has one tree, and a rule: a cgroup that hands controllers down has no processes of its
 * own. So a place is looked for from our own cgroup upwards: the first that we may write to and
 * that hands memory or pids down already (systemd's slices do). If our own cgroup holds nobody but
 * this program (a service or scope with Delegate=yes), it is made to be that place: all of us move
 * to its leaf "trainyard-self" first.
 *
 * A group is named trainyard-JOB-ATTEMPT-YARD-POOL-INDEX. The attempt's file `cgroup` names the
 * folders that groups are made in, a line each, and is written before the first group: who comes
 * after a killed conductor finds them by it. */
#include "exec/exec_int.h"

#include <dirent.h>

enum {
    FILE_BYTES = 1 << 20,
    WORD_BYTES = 32,
    REMOVE_TRIES = 200,
    REMOVE_PAUSE_MS = 10,
    LEVELS = 64, /* no path to a cgroup has more */
};

static const char *const part_names[CGROUP_PARTS] = {"memory", "cpu", "cpuacct", "pids"};
static const char self_name[] = "trainyard-self";

/* What the files are called, and the keys in them. */
struct names {
    const char *name, *memory_max, *swap_max, *memory_stat, *anonymous, *shared, *oom;
};
static const struct names versions[] = {
    {0},
    {"cgroup v1", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.stat",
     "total_rss", "total_shmem", "memory.oom_control"},
    {"cgroup v2", "memory.max", "memory.swap.max", "memory.stat", "anon", "shmem", "memory.events"},
};

const char *cgroup_place_name(const struct cgroup_place *place)
{
    return place ? versions[place->version].name : NULL;
}

/* ---- small files ---- */

/* The file `name` in `dir`, or an empty string. */
static ty_str read_text(struct ty_arena *a, const char *dir, const char *name)
{
    ty_str text = {0};
    const char *path = ty_format(a, "%s/%s", dir, name);
    return ty_file_read(AT_FDCWD, path, FILE_BYTES, a, &text) == TY_OK ? text : (ty_str){0};
}

static bool write_text(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
    bool ok = fd >= 0 && ty_write_all(fd, text, strlen(text)) == TY_OK;
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool write_number(const char *dir, const char *name, int64_t value)
{
    char text[WORD_BYTES];
    snprintf(text, sizeof text, "%" PRId64, value);
    return write_text(dir, name, text);
}

static bool has_word(ty_str text, char sep, const char *word)
{
    ty_str one;
    bool more = true;
    text = ty_str_trim(text);
    while (more) {
        more = ty_str_split(&text, sep, &one);
        if (ty_str_is(one, word))
            return true;
    }
    return false;
}

/* The number behind `key` in "key number" lines; -1: not there. */
static int64_t get_number(ty_str text, const char *key)
{
    ty_str line, name;
    int64_t value;
    bool more = true;
    while (more) {
        more = ty_str_split(&text, '\n', &line);
        if (ty_str_split(&line, ' ', &name) && ty_str_is(name, key) &&
            ty_parse_i64(ty_str_trim(line), &value) == TY_OK)
            return value;
    }
    return -1;
}

/* ---- finding a place ---- */

/* Our path in the tree of a controller ("" for version 2's): /proc/self/cgroup, "ID:NAMES:PATH". */
static ty_str own_path(ty_str text, const char *controller)
{
    ty_str line, id, names;
    bool more = true;
    while (more) {
        more = ty_str_split(&text, '\n', &line);
        if (ty_str_split(&line, ':', &id) && ty_str_split(&line, ':', &names) &&
            (controller[0] ? has_word(names, ',', controller) : ty_str_is(id, "0")))
            return line;
    }
    return (ty_str){0};
}

struct mount {
    ty_str root, point, type, options;
};

/* A line of mountinfo: "ID PARENT DEV ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS". */
static bool parse_mount(ty_str line, struct mount *ret)
{
    ty_str skip, word;
    for (int i = 0; i < 3; i++)
        if (!ty_str_split(&line, ' ', &skip))
            return false;
    if (!ty_str_split(&line, ' ', &ret->root) || !ty_str_split(&line, ' ', &ret->point))
        return false;
    do
        if (!ty_str_split(&line, ' ', &word))
            return false;
    while (!ty_str_is(word, "-"));
    if (!ty_str_split(&line, ' ', &ret->type) || !ty_str_split(&line, ' ', &skip))
        return false;
    ret->options = line;
    return true;
}

/* The folder of our cgroup `path` below a mount that may show only a part of the tree. */
static char *folder_of(struct ty_arena *a, const char *root, const struct mount *m, ty_str path)
{
    if (m->root.len > 1 && ty_str_starts(path, m->root))
        path = ty_str_drop(path, m->root.len);
    if (ty_str_is(path, "/"))
        path = (ty_str){0};
    return ty_format(a, "%s" TY_STR_FMT TY_STR_FMT, root, TY_STR_ARG(m->point), TY_STR_ARG(path));
}

static void find_v1(struct ty_arena *a, const char *root, ty_str own, ty_str mounts,
                    struct cgroup_place *place)
{
    ty_str line;
    struct mount m;
    while (ty_str_split(&mounts, '\n', &line)) {
        if (!parse_mount(line, &m) || !ty_str_is(m.type, "cgroup"))
            continue;
        for (int i = 0; i < CGROUP_PARTS; i++) {
            ty_str path = own_path(own, part_names[i]);
            if (place->dirs[i] || path.len == 0 || !has_word(m.options, ',', part_names[i]))
                continue;
            char *dir = folder_of(a, root, &m, path);
            if (access(dir, W_OK) == 0)
                place->dirs[i] = dir;
        }
    }
    if (place->dirs[CGROUP_MEMORY] || place->dirs[CGROUP_CPUACCT] || place->dirs[CGROUP_PIDS])
        place->version = 1;
}

static void take_v2(char *dir, ty_str controllers, struct cgroup_place *place)
{
    place->version = 2;
    place->dirs[CGROUP_MEMORY] = has_word(controllers, ' ', "memory") ? dir : NULL;
    place->dirs[CGROUP_PIDS] = has_word(controllers, ' ', "pids") ? dir : NULL;
    place->dirs[CGROUP_CPU] = has_word(controllers, ' ', "cpu") ? dir : NULL;
    place->dirs[CGROUP_CPUACCT] = dir; /* cpu.stat is there without a controller */
}

/* The folder of a path in the tree of a controller ("" for version 2's); NULL: none. */
static char *other_folder(struct ty_arena *a, const char *root, ty_str mounts,
                          const char *controller, ty_str path)
{
    const char *type = controller[0] ? "cgroup" : "cgroup2";
    ty_str line;
    struct mount m;
    while (ty_str_split(&mounts, '\n', &line))
        if (parse_mount(line, &m) && ty_str_is(m.type, type) &&
            (!controller[0] || has_word(m.options, ',', controller)))
            return folder_of(a, root, &m, path);
    return NULL;
}

void cgroup_find_other(struct ty_arena *a, const char *root, ty_str own, ty_str other,
                       ty_str mounts, struct cgroup_place *ret_place)
{
    struct cgroup_place place = {0};
    for (int i = 0; i < CGROUP_PARTS; i++) {
        ty_str path = own_path(other, part_names[i]);
        if (path.len > 1 && !ty_str_eq(path, own_path(own, part_names[i])))
            place.dirs[i] = other_folder(a, root, mounts, part_names[i], path);
    }
    if (place.dirs[CGROUP_MEMORY] && place.dirs[CGROUP_CPUACCT])
        place.version = 1;
    ty_str path = own_path(other, "");
    char *dir = NULL;
    if (place.version == 0 && path.len > 1 && !ty_str_eq(path, own_path(own, "")))
        dir = other_folder(a, root, mounts, "", path);
    if (dir && access(ty_format(a, "%s/memory.stat", dir), R_OK) == 0)
        take_v2(dir, TY_STR("memory pids cpu"), &place);
    *ret_place = place;
}

/* Does nobody but this very program run in a cgroup? */
static bool all_ours(struct ty_arena *a, const char *root, const char *dir)
{
    ty_str pids = read_text(a, dir, "cgroup.procs"), pid;
    struct stat self, other;
    if (stat(ty_format(a, "%s/proc/self/exe", root), &self) != 0 || pids.len == 0)
        return false;
    while (ty_str_split(&pids, '\n', &pid))
        if (stat(ty_format(a, "%s/proc/" TY_STR_FMT "/exe", root, TY_STR_ARG(pid)), &other) != 0 ||
            other.st_ino != self.st_ino || other.st_dev != self.st_dev)
            return false;
    return true;
}

/* Move all of us into a leaf, so that controllers can be handed down to other leaves. */
static void vacate(struct ty_arena *a, const char *dir)
{
    const char *leaf = ty_format(a, "%s/%s", dir, self_name);
    ty_str pids = read_text(a, dir, "cgroup.procs"), pid;
    if (mkdir(leaf, 0755) != 0 && errno != EEXIST)
        return;
    while (ty_str_split(&pids, '\n', &pid))
        if (!write_text(leaf, "cgroup.procs", ty_cstr(a, pid)))
            return;
    static const char *const wanted[] = {"+memory", "+pids", "+cpu"};
    for (size_t i = 0; i < TY_COUNT(wanted); i++) /* one by one: some may not be there */
        (void)write_text(dir, "cgroup.subtree_control", wanted[i]);
}

/* Does `dir` hand controllers down to groups that we may make? */
static bool try_v2(struct ty_arena *a, const char *dir, struct cgroup_place *place)
{
    ty_str handed = read_text(a, dir, "cgroup.subtree_control");
    if (!has_word(handed, ' ', "memory") && !has_word(handed, ' ', "pids"))
        return false;
    if (access(dir, W_OK) != 0 || access(ty_format(a, "%s/cgroup.procs", dir), W_OK) != 0)
        return false;
    take_v2(ty_cstr(a, ty_str_of(dir)), handed, place);
    return true;
}

static void find_v2(struct ty_arena *a, const char *root, bool settle, ty_str own, ty_str mounts,
                    struct cgroup_place *place)
{
    ty_str line, path = own_path(own, "");
    struct mount m = {0};
    bool found = false;
    while (!found && ty_str_split(&mounts, '\n', &line))
        found = parse_mount(line, &m) && ty_str_is(m.type, "cgroup2");
    if (!found || path.len == 0)
        return;
    char *dir = folder_of(a, root, &m, path), *slash;
    size_t top = strlen(root) + m.point.len;
    ty_str given = read_text(a, dir, "cgroup.controllers");
    if (!has_word(given, ' ', "memory") && !has_word(given, ' ', "pids")) {
        place->why = "its cgroup v2 has neither memory nor pids";
        return;
    }
    if (!ty_str_ends(ty_str_of(dir), ty_str_of(self_name)) && strlen(dir) > top &&
        access(dir, W_OK) == 0 && all_ours(a, root, dir)) {
        if (settle)
            vacate(a, dir);
        else
            take_v2(dir, given, place);
    }
    if (place->version == 2)
        return;
    for (int i = 0; i < LEVELS && strlen(dir) >= top; i++) {
        if (try_v2(a, dir, place) || (slash = strrchr(dir, '/')) == NULL)
            return;
        *slash = '\0';
    }
}

void cgroup_find_in(struct ty_arena *a, const char *root, bool settle, ty_str own, ty_str mounts,
                    struct cgroup_place *ret_place)
{
    static const char refused[] = "no cgroup that this user may write to";
    struct cgroup_place place = {.why = refused};
    find_v2(a, root, settle, own, mounts, &place);
    if (place.version == 0)
        find_v1(a, root, own, mounts, &place);
    if (own_path(own, "memory").len > 0) /* version 1 has what version 2 lacks here */
        place.why = refused;
    *ret_place = place;
}

void cgroup_find(struct ty_arena *a, const char *root, bool settle, struct cgroup_place *ret_place)
{
    const char *proc = ty_format(a, "%s/proc/self", root);
    ty_str own = read_text(a, proc, "cgroup"), mounts = read_text(a, proc, "mountinfo");
    cgroup_find_in(a, root, settle, own, mounts, ret_place);
}

const char *exec_cgroups(struct ty_arena *a, bool *ret_memory)
{
    struct cgroup_place place;
    cgroup_find(a, "", false, &place);
    *ret_memory = place.dirs[CGROUP_MEMORY] != NULL;
    if (place.version == 0)
        return place.why;
    struct ty_buf b;
    ty_buf_init(&b, 256);
    ty_buf_addz(&b, versions[place.version].name);
    for (int i = 0, n = 0; i < CGROUP_PARTS; i++)
        if (place.dirs[i])
            ty_buf_addf(&b, "%s%s", n++ ? ", " : ": ", part_names[i]);
    const char *text = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    return text;
}

/* ---- groups ---- */

/* False: no such part, or an earlier part has the same folder. */
static bool part_is_own(const struct cgroup_place *p, int part)
{
    if (!p->dirs[part])
        return false;
    for (int i = 0; i < part; i++)
        if (p->dirs[i] && strcmp(p->dirs[i], p->dirs[part]) == 0)
            return false;
    return true;
}

/* That, for a group. The weights' tree of its own is left out where it has nothing to do. */
static bool group_has(const struct cgroup *g, int part)
{
    return part_is_own(g->place, part) && !(g->without_cpu && part == CGROUP_CPU);
}

/* The group's folder for a part; "" if there is none. */
static const char *group_dir(const struct cgroup *g, int part, char out[PATH_MAX])
{
    out[0] = '\0';
    if (g->place && !g->outside && g->place->dirs[part] && !(g->without_cpu && part == CGROUP_CPU))
        snprintf(out, PATH_MAX, "%s/%s", g->place->dirs[part], g->name);
    return out;
}

static int64_t clamp(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

static void set_limits(struct cgroup *g, const struct exec_share *share, int64_t processes)
{
    const struct names *names = &versions[g->place->version];
    bool v2 = g->place->version == 2;
    char dir[PATH_MAX];
    if (share->memory_bytes > 0 && *group_dir(g, CGROUP_MEMORY, dir)) {
        g->memory_limited = write_number(dir, names->memory_max, share->memory_bytes);
        /* Version 1 counts memory and swap together. Without swap the file may not be there. */
        (void)write_number(dir, names->swap_max, v2 ? 0 : share->memory_bytes);
    }
    if (share->cpu_milli > 0 && *group_dir(g, CGROUP_CPU, dir)) { /* weights: a CPU is 100, 1024 */
        if (v2)
            (void)write_number(dir, "cpu.weight", clamp(share->cpu_milli / 10, 1, 10000));
        else
            (void)write_number(dir, "cpu.shares", clamp(share->cpu_milli * 1024 / 1000, 2, 262144));
    }
    if (processes > 0 && *group_dir(g, CGROUP_PIDS, dir))
        g->processes_limited = write_number(dir, "pids.max", processes);
}

/* cpu and cpuacct are often one tree. */
static bool cpu_is_shared(const struct cgroup_place *p)
{
    return p->dirs[CGROUP_CPU] && p->dirs[CGROUP_CPUACCT] &&
           strcmp(p->dirs[CGROUP_CPU], p->dirs[CGROUP_CPUACCT]) == 0;
}

ty_err cgroup_make(struct cgroup *g, const struct cgroup_place *place, const char *name,
                   const struct exec_share *share, int64_t processes)
{
    struct cgroup made = {.place = place,
                          .without_cpu = place->version == 1 && share->cpu_milli == 0 &&
                                         !cpu_is_shared(place)};
    char dir[PATH_MAX];
    snprintf(made.name, sizeof made.name, "%s", name);
    for (int i = 0; i < CGROUP_PARTS; i++) {
        if (!group_has(&made, i))
            continue;
        group_dir(&made, i, dir);
        rmdir(dir); /* counters start anew; one that cannot be removed is used as it is */
        if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
            ty_err err = ty_fail_errno(errno, "cannot make the cgroup '%s'", dir);
            cgroup_remove(&made);
            return err;
        }
    }
    set_limits(&made, share, processes);
    *g = made;
    return TY_OK;
}

static ty_err open_door(const char *path, int flags, int *ret_fd)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot open '%s'", path);
    *ret_fd = fd;
    return TY_OK;
}

ty_err cgroup_doors_open(const struct cgroup *g, struct cgroup_doors *ret_doors)
{
    struct cgroup_doors doors = {.folder = -1};
    char dir[PATH_MAX], path[PATH_MAX];
    ty_err err = TY_OK;
    for (int i = 0; i < CGROUP_PARTS && err == TY_OK; i++) {
        if (!group_has(g, i))
            continue;
        group_dir(g, i, dir);
        snprintf(path, sizeof path, "%s/tasks", dir);
        if (g->place->version == 2)
            err = open_door(dir, O_RDONLY | O_DIRECTORY, &doors.folder);
        else
            err = open_door(path, O_WRONLY, &doors.tasks[doors.count]);
        doors.count += err == TY_OK && g->place->version == 1;
    }
    if (err)
        cgroup_doors_close(&doors);
    else
        *ret_doors = doors;
    return err;
}

int cgroup_doors_enter(const struct cgroup_doors *doors)
{
    for (size_t i = 0; i < doors->count; i++) {
        errno = 0;
        if (ty_write_all(doors->tasks[i], "0", 1) != TY_OK) /* 0: whoever writes it */
            return errno ? errno : EIO;
    }
    return 0;
}

void cgroup_doors_close(struct cgroup_doors *doors)
{
    for (size_t i = 0; i < doors->count; i++)
        close(doors->tasks[i]);
    if (doors->folder >= 0)
        close(doors->folder);
    *doors = (struct cgroup_doors){.folder = -1};
}

/* ---- what it tells ---- */

int64_t cgroup_cpu_us(const struct cgroup *g)
{
    char dir[PATH_MAX];
    struct ty_arena a = {0};
    int64_t value = -1;
    if (*group_dir(g, CGROUP_CPUACCT, dir)) {
        if (g->place->version == 2)
            value = get_number(read_text(&a, dir, "cpu.stat"), "usage_usec");
        else if (ty_parse_i64(ty_str_trim(read_text(&a, dir, "cpuacct.usage")), &value) == TY_OK)
            value /= 1000;
        else
            value = -1;
    }
    ty_arena_clear(&a);
    return value;
}

/* Anonymous and shared memory: what files have in the page cache goes when others need it. */
int64_t cgroup_memory_bytes(const struct cgroup *g)
{
    char dir[PATH_MAX];
    struct ty_arena a = {0};
    int64_t value = -1;
    if (*group_dir(g, CGROUP_MEMORY, dir)) {
        const struct names *names = &versions[g->place->version];
        ty_str text = read_text(&a, dir, names->memory_stat);
        int64_t shared = get_number(text, names->shared);
        value = get_number(text, names->anonymous);
        if (value >= 0 && shared > 0)
            value += shared;
    }
    ty_arena_clear(&a);
    return value;
}

int64_t cgroup_oom_kills(const struct cgroup *g)
{
    char dir[PATH_MAX];
    struct ty_arena a = {0};
    int64_t value = -1;
    if (*group_dir(g, CGROUP_MEMORY, dir))
        value = get_number(read_text(&a, dir, versions[g->place->version].oom), "oom_kill");
    ty_arena_clear(&a);
    return value;
}

bool cgroup_processes_refused(const struct cgroup *g)
{
    char dir[PATH_MAX];
    struct ty_arena a = {0};
    bool refused =
        *group_dir(g, CGROUP_PIDS, dir) && get_number(read_text(&a, dir, "pids.events"), "max") > 0;
    ty_arena_clear(&a);
    return refused;
}

static size_t read_pids(const char *dir, pid_t *ret_pids, size_t most)
{
    struct ty_arena a = {0};
    ty_str text = read_text(&a, dir, "cgroup.procs"), line;
    size_t count = 0;
    int64_t pid;
    while (count < most && ty_str_split(&text, '\n', &line))
        if (ty_parse_i64(line, &pid) == TY_OK && pid > 0 && pid <= INT_MAX)
            ret_pids[count++] = (pid_t)pid;
    ty_arena_clear(&a);
    return count;
}

size_t cgroup_pids(const struct cgroup *g, pid_t *ret_pids, size_t most)
{
    char dir[PATH_MAX];
    for (int i = 0; i < CGROUP_PARTS; i++)
        if (*group_dir(g, i, dir))
            return read_pids(dir, ret_pids, most);
    return 0;
}

/* ---- removing ---- */

/* A process that has ended leaves its cgroup a moment later: try for a while. */
static void remove_dir(const char *dir)
{
    pid_t pids[64];
    for (int i = 0; i < REMOVE_TRIES; i++) {
        if (rmdir(dir) == 0 || errno == ENOENT)
            return;
        if (errno != EBUSY)
            break;
        size_t count = read_pids(dir, pids, TY_COUNT(pids));
        for (size_t k = 0; k < count; k++)
            kill(pids[k], SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = REMOVE_PAUSE_MS * 1000000L}, NULL);
    }
    log_warn("cgroup.left", "dir=%s error='%s'", dir, strerror(errno));
}

void cgroup_remove(struct cgroup *g)
{
    char dir[PATH_MAX];
    g->outside = false;
    for (int i = 0; g->place && i < CGROUP_PARTS; i++)
        if (group_has(g, i))
            remove_dir(group_dir(g, i, dir));
    *g = (struct cgroup){0};
}

ty_err cgroup_place_note(const struct cgroup_place *place, int dirfd)
{
    struct ty_buf b;
    ty_buf_init(&b, FILE_BYTES);
    for (int i = 0; i < CGROUP_PARTS; i++)
        if (part_is_own(place, i))
            ty_buf_addf(&b, "%s\n", place->dirs[i]);
    int fd = openat(dirfd, "cgroup", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    ty_err err =
        fd < 0 ? ty_fail_errno(errno, "cannot create 'cgroup'") : ty_write_all(fd, b.ptr, b.len);
    if (fd >= 0)
        close(fd);
    ty_buf_clear(&b);
    return err;
}

static void sweep_dir(const char *dir, const char *prefix)
{
    DIR *list = opendir(dir);
    struct dirent *entry;
    char path[PATH_MAX];
    while (list && (entry = readdir(list)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
            remove_dir(path);
        }
    if (list)
        closedir(list);
}

void cgroup_name(const char *mark, const char *who, char out[CGROUP_NAME_BYTES])
{
    const char *attempt = strchr(mark, '=');
    snprintf(out, CGROUP_NAME_BYTES, "trainyard-%s-%s", attempt ? attempt + 1 : mark, who);
    for (char *c = out; *c != '\0'; c++)
        *c = *c == '/' ? '-' : *c;
}

void cgroup_sweep(int dirfd, const char *mark)
{
    struct ty_arena a = {0};
    ty_str text, dir;
    char prefix[CGROUP_NAME_BYTES];
    cgroup_name(mark, "", prefix);
    if (ty_file_read(dirfd, "cgroup", FILE_BYTES, &a, &text) == TY_OK) {
        while (ty_str_split(&text, '\n', &dir))
            sweep_dir(ty_cstr(&a, dir), prefix);
        unlinkat(dirfd, "cgroup", 0);
    }
    ty_arena_clear(&a);
}
