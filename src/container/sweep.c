/* sweep.c -- remove the containers of an attempt.
 *
 * A conductor does it before it writes its end, the server for a conductor that was lost. Most
 * attempts have no `N.container` (run.c, R1): one look at the folder is all it takes then. Where
 * each of those has its id beside it, one call of the engine is enough; else, or if that fails,
 * they are found by their labels. The data folder is among these, so that two yards of one machine
 * leave each other alone. */
#include "container/container_int.h"

#include <dirent.h>

enum { CALL_LEAST_MS = 1000, SWEEP_PAUSE_MS = 100, SWEEP_IDS = 512, CID_BYTES = 256 };

/* What the attempt's folder says. */
struct left {
    size_t marks;       /* N.container files */
    size_t cids;        /* N.cid files */
    struct ty_buf list; /* the ids in them, one a line */
};

static void left_add(struct left *left, struct ty_arena *a, int dirfd, const char *file)
{
    ty_str name = ty_str_of(file), id;
    left->marks += ty_str_ends(name, TY_STR(".container"));
    if (!ty_str_ends(name, TY_STR(".cid")) ||
        ty_file_read(dirfd, file, CID_BYTES, a, &id) != TY_OK || ty_str_trim(id).len == 0)
        return;
    left->cids++;
    ty_buf_addf(&left->list, TY_STR_FMT "\n", TY_STR_ARG(ty_str_trim(id)));
}

static bool is_of_container(ty_str name)
{
    static const char *const ends[] = {".container", ".cid", ".env", ".oom"};
    for (size_t i = 0; i < TY_COUNT(ends); i++)
        if (ty_str_ends(name, ty_str_of(ends[i])))
            return true;
    return false;
}

/* Read the folder; with `left` NULL, remove those files instead. */
static void walk_folder(struct ty_arena *a, int dirfd, struct left *left)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir))) {
        if (left)
            left_add(left, a, dirfd, entry->d_name);
        else if (is_of_container(ty_str_of(entry->d_name)))
            unlinkat(dirfd, entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* Whose containers, and until when. */
struct sweep {
    struct ty_arena *a;
    struct container_engine engine;
    const char *data_dir;
    int64_t job_id;
    int attempt;
    int64_t deadline_ms;
};

static int64_t time_left(const struct sweep *s)
{
    int64_t left = s->deadline_ms - ty_boot_ms();
    return left > CALL_LEAST_MS ? left : CALL_LEAST_MS;
}

/* The ids of the attempt's containers, one a line, in `list`. */
static bool list_containers(const struct sweep *s, struct call *list)
{
    const char *argv[] = {s->engine.path,
                          "ps",
                          "--all",
                          "--quiet",
                          "--no-trunc",
                          ty_format(s->a, "--filter=label=trainyard.data=%s", s->data_dir),
                          ty_format(s->a, "--filter=label=trainyard.job=%" PRId64, s->job_id),
                          ty_format(s->a, "--filter=label=trainyard.attempt=%d", s->attempt),
                          NULL};
    return call_run(list, argv, time_left(s)) == TY_OK && list->status == 0;
}

/* Of a list of ids; true: all are removed. */
static bool remove_listed(const struct sweep *s, ty_str ids)
{
    const char *argv[ENGINE_RM_WORDS + SWEEP_IDS + 1] = {NULL};
    size_t n = engine_rm_words(&s->engine, argv), most = n + SWEEP_IDS;
    ty_str id;
    struct call c;
    while (ids.len > 0 && n < most) {
        ty_str_split(&ids, '\n', &id);
        if (ty_str_trim(id).len > 0)
            argv[n++] = ty_cstr(s->a, ty_str_trim(id));
    }
    bool removed = call_run(&c, argv, time_left(s)) == TY_OK && c.status == 0 && ids.len == 0;
    if (!removed)
        log_warn("container.remove", "error='%s'", call_reason(s->a, &c)); /* listed again */
    call_clear(&c);
    return removed;
}

/* One round; true: there are none. */
static bool sweep_once(const struct sweep *s)
{
    struct call list;
    bool listed = list_containers(s, &list);
    ty_str ids = ty_str_trim(ty_buf_str(&list.out));
    if (listed && ids.len > 0)
        (void)remove_listed(s, ids); /* the next list tells */
    call_clear(&list);
    return listed && ids.len == 0;
}

/* By label, until there are none. A client that was killed before it had an id may have asked its
 * daemon for one: `empty` lists without any, then. */
static bool sweep_labels(const struct sweep *s, int empty)
{
    while (empty > 0 && ty_boot_ms() < s->deadline_ms) {
        empty = sweep_once(s) ? empty - 1 : empty;
        if (empty > 0)
            nanosleep(&(struct timespec){.tv_nsec = SWEEP_PAUSE_MS * 1000000L}, NULL);
    }
    return empty == 0;
}

bool container_sweep(const char *data_dir, int64_t job_id, int attempt, int64_t limit_ms)
{
    struct ty_arena a = {0};
    struct sweep s = {.a = &a,
                      .data_dir = data_dir,
                      .job_id = job_id,
                      .attempt = attempt,
                      .deadline_ms = ty_boot_ms() + limit_ms};
    struct left left = {0};
    ty_str key;
    const char *path = ty_format(&a, "%s/jobs/%" PRId64 "/%d", data_dir, job_id, attempt);
    int dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ty_buf_init(&left.list, SWEEP_IDS * CID_BYTES);
    if (dirfd >= 0)
        walk_folder(&a, dirfd, &left);
    bool gone = left.marks == 0;
    if (!gone && engine_read(&a, dirfd, &s.engine, &key) == TY_OK) {
        bool known = left.cids == left.marks;
        gone =
            (known && remove_listed(&s, ty_buf_str(&left.list))) || sweep_labels(&s, known ? 1 : 2);
    }
    if (left.marks && gone)
        walk_folder(&a, dirfd, NULL);
    else if (!gone)
        log_error("container.left", "job=%" PRId64 " attempt=%d", job_id, attempt);
    ty_buf_clear(&left.list);
    if (dirfd >= 0)
        close(dirfd);
    ty_arena_clear(&a);
    return gone;
}
