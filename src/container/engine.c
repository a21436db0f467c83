/* engine.c -- which engine there is, and what it needs to start a container on this machine.
 *
 * Being installed is not being usable: a docker client has no use without its daemon, and podman
 * as root of a machine that lacks privileges (itself a container or a small VM) fails at limits it
 * may not raise or cgroups its runtime does not know. So podman is tried: with the plain command
 * line first, then with more and more options (podman_ways), until a container comes so far that
 * its program, which is not there, is looked for: status 127. An empty folder is its root, so no
 * image is needed. The answer is kept in a file:
 *
 *   trainyard engine 1
 *   KEY        setting, programs with size and time, boot id; another key: look again
 *   podman     kind
 *   PATH       of the engine
 *   VERSION
 *   limits     or no-limits
 *   OPTION     any number of these
 *
 * That a podman cannot start containers is kept, too, because finding it out takes all ways, ten
 * seconds or more: in `engine-refused`, with a head, key and reason likewise, for REFUSED_MS or
 * until container_engine_retry. What else does not work is looked at anew by each call. */
#include "container/container_int.h"

#include <sys/resource.h>

enum {
    VERSION_MS = 10000,
    PROBE_MS = 30000,
    ENGINE_FILE_BYTES = 16384,
    NOFILE_MOST = 1048576,
    REFUSED_MS = 10 * 60 * 1000,
};
#define ENGINE_FILE_HEAD  "trainyard engine 1"
#define REFUSED_FILE      "engine-refused"
#define REFUSED_FILE_HEAD "trainyard engine-refused 1"

static const char *const kind_names[] = {"podman", "docker"};

const char *container_kind_name(enum container_kind kind)
{
    return kind_names[kind];
}

/* ---- the file ---- */

/* A line, which must be there. */
static bool next_line(ty_str *text, ty_str *ret_line)
{
    return text->len > 0 && (ty_str_split(text, '\n', ret_line), true);
}

ty_err engine_read(struct ty_arena *a, int dirfd, struct container_engine *ret_engine,
                   ty_str *ret_key)
{
    struct container_engine e = {0};
    ty_str text, head, key, kind, path, version, limits, option;
    ty_err err = ty_file_read(dirfd, "engine", ENGINE_FILE_BYTES, a, &text);
    if (err != TY_OK)
        return err;
    if (!next_line(&text, &head) || !next_line(&text, &key) || !next_line(&text, &kind) ||
        !next_line(&text, &path) || !next_line(&text, &version) || !next_line(&text, &limits) ||
        !ty_str_is(head, ENGINE_FILE_HEAD))
        return ty_fail(TY_DATA_LOSS, "the file 'engine' is damaged");
    e.kind = ty_str_is(kind, kind_names[CONTAINER_DOCKER]) ? CONTAINER_DOCKER : CONTAINER_PODMAN;
    e.path = ty_cstr(a, path);
    e.version = ty_cstr(a, version);
    e.limits = ty_str_is(limits, "limits");
    for (size_t i = 0; i < CONTAINER_OPTIONS && next_line(&text, &option); i++)
        e.options[i] = ty_cstr(a, option);
    *ret_engine = e;
    *ret_key = ty_str_dup(a, key);
    return TY_OK;
}

ty_err engine_write(int dirfd, const struct container_engine *engine, const char *key)
{
    struct ty_buf b;
    ty_buf_init(&b, ENGINE_FILE_BYTES);
    ty_buf_addf(&b, "%s\n%s\n%s\n%s\n%s\n%s\n", ENGINE_FILE_HEAD, key, kind_names[engine->kind],
                engine->path, engine->version, engine->limits ? "limits" : "no-limits");
    for (size_t i = 0; engine->options[i]; i++)
        ty_buf_addf(&b, "%s\n", engine->options[i]);
    ty_err err = ty_buf_check(&b, "the file 'engine'");
    if (err == TY_OK)
        err = ty_file_replace(dirfd, "engine", ty_buf_str(&b), 0600);
    ty_buf_clear(&b);
    return err;
}

bool container_limits_hold(int dirfd)
{
    struct ty_arena a = {0};
    struct container_engine e;
    ty_str key;
    bool hold = engine_read(&a, dirfd, &e, &key) == TY_OK && e.limits;
    ty_arena_clear(&a);
    return hold;
}

/* ---- programs ---- */

/* The path of a program, by PATH; NULL: there is none. */
static const char *program_find(struct ty_arena *a, const char *name)
{
    const char *path = getenv("PATH");
    ty_str rest = ty_str_of(path ? path : "/usr/bin:/bin"), folder;
    bool more = true;
    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? name : NULL;
    while (more) {
        more = ty_str_split(&rest, ':', &folder);
        const char *file = ty_format(a, TY_STR_FMT "/%s", TY_STR_ARG(folder), name);
        if (folder.len > 0 && access(file, X_OK) == 0)
            return file;
    }
    return NULL;
}

static void key_add(struct ty_buf *key, const char *path)
{
    struct stat st;
    if (path && stat(path, &st) == 0)
        ty_buf_addf(key, " %s %lld %lld.%09ld", path, (long long)st.st_size,
                    (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    else
        ty_buf_addz(key, " -");
}

/* What podman works with: installing or changing one of these may make it usable. */
static const char *const helpers[] = {"/usr/sbin/runc", "/usr/bin/runc",
                                      "/usr/bin/crun",  "/usr/bin/newuidmap",
                                      "/etc/subuid",    "/etc/containers/containers.conf"};

/* All that decides which engine is found, and how. One line. */
static const char *engine_key(struct ty_arena *a, const char *setting)
{
    struct ty_buf b;
    ty_str boot = {0};
    ty_buf_init(&b, 8192);
    ty_buf_addz(&b, setting);
    for (size_t i = 0; i < TY_COUNT(kind_names); i++)
        key_add(&b, program_find(a, kind_names[i]));
    for (size_t i = 0; i < TY_COUNT(helpers); i++)
        key_add(&b, helpers[i]);
    if (strchr(setting, '/'))
        key_add(&b, setting);
    if (ty_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256, a, &boot) == TY_OK)
        ty_buf_addf(&b, " " TY_STR_FMT, TY_STR_ARG(ty_str_trim(boot)));
    char *key = ty_cstr(a, ty_buf_str(&b));
    ty_buf_clear(&b);
    for (char *c = key; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return key;
}

/* ---- the file of a refusal ---- */

/* The reason, if this podman was refused a short while ago; else NULL. */
static const char *refused_read(struct ty_arena *a, int dirfd, const char *key)
{
    struct stat st;
    ty_str text, head, kept, reason;
    if (dirfd < 0 || fstatat(dirfd, REFUSED_FILE, &st, 0) != 0 ||
        ty_file_read(dirfd, REFUSED_FILE, ENGINE_FILE_BYTES, a, &text) != TY_OK)
        return NULL;
    int64_t age_ms = ty_now_ns() / 1000000 - (int64_t)st.st_mtim.tv_sec * 1000;
    if (age_ms < -1000 || age_ms > REFUSED_MS || !next_line(&text, &head) ||
        !next_line(&text, &kept) || !next_line(&text, &reason) ||
        !ty_str_is(head, REFUSED_FILE_HEAD) || !ty_str_is(kept, key))
        return NULL;
    return ty_cstr(a, reason);
}

static void refused_write(int dirfd, const char *key, const char *reason)
{
    struct ty_buf b;
    ty_buf_init(&b, ENGINE_FILE_BYTES);
    ty_buf_addf(&b, "%s\n%s\n%.2000s\n", REFUSED_FILE_HEAD, key, reason);
    ty_err err = ty_buf_check(&b, REFUSED_FILE);
    if (err == TY_OK)
        err = ty_file_replace(dirfd, REFUSED_FILE, ty_buf_str(&b), 0600);
    if (err != TY_OK)
        log_warn("container.engine", "error='%s'", ty_err_message()); /* found out again */
    ty_buf_clear(&b);
}

void container_engine_retry(const char *data_dir)
{
    struct ty_arena a = {0};
    unlink(ty_format(&a, "%s/%s", data_dir, REFUSED_FILE));
    ty_arena_clear(&a);
}

/* ---- trying podman ---- */

struct way {
    bool ulimits; /* say our own limits instead of podman's */
    bool runc;    /* instead of crun */
    bool cgroupfs;
    bool no_cgroups; /* limits cannot work then */
};
static const struct way podman_ways[] = {
    {.ulimits = false},
    {.ulimits = true},
    {.ulimits = false, .runc = true},
    {.ulimits = true, .runc = true},
    {.ulimits = true, .cgroupfs = true},
    {.ulimits = true, .runc = true, .cgroupfs = true},
    {.ulimits = true, .no_cgroups = true},
    {.ulimits = true, .runc = true, .no_cgroups = true},
};

/* podman lowers its own limit of processes to pid_max, and may not raise it again. */
static int64_t process_limit(struct ty_arena *a, int64_t hard)
{
    ty_str text;
    int64_t pid_max = 0;
    if (ty_file_read(AT_FDCWD, "/proc/sys/kernel/pid_max", 64, a, &text) == TY_OK &&
        ty_parse_i64(ty_str_trim(text), &pid_max) == TY_OK && pid_max > 0 && pid_max < hard)
        return pid_max;
    return hard;
}

static int64_t podman_major(const struct container_engine *e)
{
    ty_str rest = ty_str_of(e->version), first;
    int64_t major = 0;
    ty_str_split(&rest, '.', &first);
    return ty_parse_i64(first, &major) == TY_OK ? major : 0;
}

static void way_options(struct ty_arena *a, const struct way *way, struct container_engine *e)
{
    struct rlimit files, processes;
    size_t n = 0;
    memset(e->options, 0, sizeof e->options);
    /* The container then writes into our own pipes; older ones copy, as docker does. */
    e->options[n++] = podman_major(e) >= 4 ? "--log-driver=passthrough" : "--log-driver=none";
    if (way->ulimits && getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        getrlimit(RLIMIT_NPROC, &processes) == 0) {
        rlim_t nofile = files.rlim_max < NOFILE_MOST ? files.rlim_max : NOFILE_MOST;
        rlim_t nproc = processes.rlim_max < INT32_MAX ? processes.rlim_max : INT32_MAX;
        e->options[n++] = ty_format(a, "--ulimit=nofile=%" PRIu64 ":%" PRIu64, (uint64_t)nofile,
                                    (uint64_t)nofile);
        int64_t most = process_limit(a, (int64_t)nproc);
        e->options[n++] = ty_format(a, "--ulimit=nproc=%" PRId64 ":%" PRId64, most, most);
    }
    if (way->runc)
        e->options[n++] = "--runtime=runc";
    if (way->cgroupfs)
        e->options[n++] = "--cgroup-manager=cgroupfs";
    if (way->no_cgroups)
        e->options[n++] = "--cgroups=disabled";
}

/* Does a container start, with limits if e->limits says so? *ret_reason is why not.
 * TY_DEADLINE_EXCEEDED: podman hangs, there is no use in trying more. */
static ty_err podman_try(struct ty_arena *a, const struct container_engine *e, const char *folder,
                         const char **ret_reason)
{
    const char *argv[16 + CONTAINER_OPTIONS] = {e->path, "run", "--rm", "--network=host"};
    size_t n = 4;
    struct call c;
    for (size_t i = 0; e->options[i]; i++)
        argv[n++] = e->options[i];
    if (e->limits) {
        argv[n++] = "--memory=67108864";
        argv[n++] = "--cpu-shares=512";
    }
    argv[n++] = "--rootfs";
    argv[n++] = folder;
    argv[n++] = "/trainyard-looks-for-nothing";
    ty_err err = call_run(&c, argv, PROBE_MS);
    if (err == TY_OK && (!WIFEXITED(c.status) || WEXITSTATUS(c.status) != 127))
        err = ty_fail(TY_FAILED_PRECONDITION, "%s", call_reason(a, &c));
    if (err != TY_OK)
        *ret_reason = ty_format(a, "%s", ty_err_message());
    call_clear(&c);
    return err;
}

/* The first way that works: with limits if there is one, else without. The reason is the first
 * way's, the plain command line: what the user would be told, too. */
static ty_err podman_try_all(struct ty_arena *a, struct container_engine *e, const char *folder,
                             bool runc, const char **ret_reason)
{
    ty_err err = TY_FAILED_PRECONDITION;
    const char *reason = "";
    for (int limits = 1; limits >= 0; limits--)
        for (size_t i = 0; i < TY_COUNT(podman_ways); i++) {
            const struct way *way = &podman_ways[i];
            if ((way->runc && !runc) || (way->no_cgroups && limits))
                continue;
            way_options(a, way, e);
            e->limits = limits;
            err = podman_try(a, e, folder, &reason);
            if (err != TY_OK && **ret_reason == '\0')
                *ret_reason = reason;
            if (err == TY_OK || err == TY_DEADLINE_EXCEEDED)
                return err;
        }
    return err;
}

static ty_err podman_find_way(struct ty_arena *a, struct container_engine *e)
{
    char folder[] = "/tmp/trainyard-probe-XXXXXX";
    const char *reason = "";
    bool runc = program_find(a, "runc") || access("/usr/sbin/runc", X_OK) == 0;
    if (!mkdtemp(folder))
        return ty_fail_errno(errno, "cannot make a folder in /tmp");
    ty_err err = podman_try_all(a, e, folder, runc, &reason);
    if (ty_remove_tree(AT_FDCWD, folder) != TY_OK)
        log_warn("container.probe", "error='%s'", ty_err_message());
    if (err != TY_OK)
        return ty_fail(TY_FAILED_PRECONDITION, "it cannot start a container (%s)%s", reason,
                       runc ? "" : "; another runtime may do: apt install runc");
    return TY_OK;
}

size_t engine_rm_words(const struct container_engine *engine, const char **argv)
{
    size_t n = 0;
    argv[n++] = engine->path;
    argv[n++] = "rm";
    argv[n++] = "--force";
    argv[n++] = "--volumes";
    if (engine->kind == CONTAINER_PODMAN && podman_major(engine) >= 4)
        argv[n++] = "--time=0"; /* it would wait for a program that does not heed SIGTERM */
    return n;
}

/* ---- finding one ---- */

/* What is looked for, and where what is found is kept. */
struct search {
    const char *setting, *key;
    int dirfd; /* the data folder; -1: nothing is kept */
};

/* The first line that `argv` prints. */
static ty_err ask(struct ty_arena *a, const char *const *argv, const char **ret_line)
{
    struct call c;
    ty_err err = call_run(&c, argv, VERSION_MS);
    ty_str text = ty_str_trim(ty_buf_str(&c.out)), line;
    ty_str_split(&text, '\n', &line);
    if (err == TY_OK && (c.status != 0 || line.len == 0))
        err = ty_fail(TY_FAILED_PRECONDITION, "it does not answer (%s)", call_reason(a, &c));
    if (err == TY_OK)
        *ret_line = ty_cstr(a, line);
    call_clear(&c);
    return err;
}

/* podman_find_way, unless it was found a short while ago that there is none. */
static ty_err podman_find_way_once(struct ty_arena *a, const struct search *s,
                                   struct container_engine *e)
{
    const char *refused = refused_read(a, s->dirfd, s->key);
    if (refused)
        return ty_fail(TY_FAILED_PRECONDITION, "%s", refused);
    ty_err err = podman_find_way(a, e);
    if (err == TY_FAILED_PRECONDITION && s->dirfd >= 0)
        refused_write(s->dirfd, s->key, ty_err_message());
    return err;
}

static ty_err engine_try(struct ty_arena *a, const struct search *s, enum container_kind kind,
                         const char *name, struct container_engine *ret_engine)
{
    struct container_engine e = {.kind = kind, .path = program_find(a, name)};
    const char *docker = "{{.Server.Version}}", *limits = "";
    if (!e.path)
        return ty_fail(TY_NOT_FOUND, "%s is not installed", name);
    const char *version[] = {e.path, "version", "--format",
                             kind == CONTAINER_DOCKER ? docker : "{{.Client.Version}}", NULL};
    const char *info[] = {e.path, "info", "--format", "{{.MemoryLimit}} {{.CPUShares}}", NULL};
    ty_err err = ask(a, version, &e.version);
    if (err == TY_OK && kind == CONTAINER_DOCKER) {
        err = ask(a, info, &limits);
        e.limits = strcmp(limits, "true true") == 0;
        e.options[0] = "--log-driver=none"; /* what it prints comes to us alone */
    } else if (err == TY_OK) {
        err = podman_find_way_once(a, s, &e);
    }
    if (err != TY_OK)
        return ty_wrap(err, "%s", e.path);
    *ret_engine = e;
    return TY_OK;
}

/* A path is docker's if its last part says so. */
static enum container_kind kind_of_path(const char *path)
{
    return strstr(strrchr(path, '/'), "docker") ? CONTAINER_DOCKER : CONTAINER_PODMAN;
}

static ty_err engine_search(struct ty_arena *a, const struct search *s,
                            struct container_engine *ret_engine)
{
    const char *setting = s->setting;
    struct ty_buf why;
    ty_err err = TY_FAILED_PRECONDITION;
    if (strcmp(setting, "none") == 0)
        return ty_fail(TY_FAILED_PRECONDITION, "the setting container_engine is 'none'");
    if (strchr(setting, '/'))
        return engine_try(a, s, kind_of_path(setting), setting, ret_engine);
    ty_buf_init(&why, 2048);
    bool known = false;
    for (size_t i = 0; i < TY_COUNT(kind_names) && err != TY_OK; i++) {
        if (strcmp(setting, "auto") != 0 && strcmp(setting, kind_names[i]) != 0)
            continue;
        known = true;
        err = engine_try(a, s, (enum container_kind)i, kind_names[i], ret_engine);
        if (err != TY_OK)
            ty_buf_addf(&why, "%s%.900s", why.len ? "; " : "", ty_err_message());
    }
    if (!known)
        err = ty_fail(TY_FAILED_PRECONDITION,
                      "the setting container_engine is '%.64s', not auto, podman, docker, none or "
                      "a path",
                      setting);
    else if (err != TY_OK)
        err = ty_fail(TY_FAILED_PRECONDITION, "%s", why.ptr);
    ty_buf_clear(&why);
    return err;
}

ty_err container_engine_find(struct ty_arena *a, const char *setting, const char *data_dir,
                             struct container_engine *ret_engine)
{
    struct container_engine kept;
    ty_str kept_key;
    const char *key = engine_key(a, setting);
    int dirfd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd >= 0 && engine_read(a, dirfd, &kept, &kept_key) == TY_OK &&
        ty_str_is(kept_key, key)) {
        close(dirfd);
        *ret_engine = kept;
        return TY_OK;
    }
    struct search s = {.setting = setting, .key = key, .dirfd = dirfd};
    ty_err err = engine_search(a, &s, ret_engine);
    if (err == TY_OK && dirfd >= 0 && engine_write(dirfd, ret_engine, key) != TY_OK)
        log_warn("container.engine", "error='%s'", ty_err_message()); /* found again next time */
    if (dirfd >= 0)
        close(dirfd);
    return err == TY_OK ? TY_OK : ty_wrap(TY_FAILED_PRECONDITION, "no container engine is usable");
}

const char *container_engine_advice(struct ty_arena *a, const char *setting)
{
    bool any = strcmp(setting, "auto") == 0,
         there = strchr(setting, '/') && program_find(a, setting);
    for (size_t i = 0; i < TY_COUNT(kind_names); i++)
        there = there ||
                ((any || strcmp(setting, kind_names[i]) == 0) && program_find(a, kind_names[i]));
    return there ? "It is installed, but this user cannot use it here: 'trainyard doctor' tries it "
                   "again once that is mended"
                 : "Install one, on Debian: apt install podman";
}
