/* sweep.c -- remove what containers an attempt has left, by their labels.
 *
 * A conductor does it before it writes its end, the server for a conductor that was lost. Most
 * attempts have no `N.container` (run.c, R1): one look at the folder is all it takes then. The data
 * folder is among the labels, so that two yards of one machine leave each other alone. */
#include "container/container_int.h"

#include <dirent.h>

enum { LIST_MS = 30000, SWEEP_PAUSE_MS = 100, SWEEP_IDS = 512 };

struct left {
    bool marks; /* N.container files */
    bool ids;   /* N.cid files */
};

/* What the attempt's folder says; with `forget`, the files go. */
static struct left look_at_folder(int dirfd, bool forget)
{
    struct left left = {0};
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir))) {
        ty_str name = ty_str_of(entry->d_name);
        bool mark = ty_str_ends(name, TY_STR(".container")), id = ty_str_ends(name, TY_STR(".cid"));
        left.marks |= mark;
        left.ids |= id;
        if (forget && (mark || id))
            unlinkat(dirfd, entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    return left;
}

/* The ids of the attempt's containers, one a line, in `list`. */
static bool list_containers(struct ty_arena *a, const struct container_engine *e,
                            const char *data_dir, int64_t job_id, int attempt, struct call *list)
{
    const char *argv[] = {e->path,
                          "ps",
                          "--all",
                          "--quiet",
                          "--no-trunc",
                          ty_format(a, "--filter=label=trainyard.data=%s", data_dir),
                          ty_format(a, "--filter=label=trainyard.job=%" PRId64, job_id),
                          ty_format(a, "--filter=label=trainyard.attempt=%d", attempt),
                          NULL};
    return call_run(list, argv, LIST_MS) == TY_OK && list->status == 0;
}

static void remove_listed(struct ty_arena *a, const struct container_engine *e, ty_str ids)
{
    const char *argv[SWEEP_IDS + 8] = {e->path, "rm", "--force", "--volumes"};
    size_t n = 4;
    ty_str id;
    struct call c;
    while (ids.len > 0 && n < 4 + SWEEP_IDS) {
        ty_str_split(&ids, '\n', &id);
        if (ty_str_trim(id).len > 0)
            argv[n++] = ty_cstr(a, ty_str_trim(id));
    }
    if (call_run(&c, argv, LIST_MS) != TY_OK || c.status != 0)
        log_warn("container.remove", "error='%s'", call_reason(a, &c)); /* listed again */
    call_clear(&c);
}

/* One round; true: there are none. */
static bool sweep_once(struct ty_arena *a, const struct container_engine *e, const char *data_dir,
                       int64_t job_id, int attempt)
{
    struct call list;
    bool listed = list_containers(a, e, data_dir, job_id, attempt, &list);
    ty_str ids = ty_str_trim(ty_buf_str(&list.out));
    if (listed && ids.len > 0)
        remove_listed(a, e, ids);
    call_clear(&list);
    return listed && ids.len == 0;
}

bool container_sweep(const char *data_dir, int64_t job_id, int attempt, int64_t limit_ms)
{
    struct ty_arena a = {0};
    struct container_engine e;
    ty_str key;
    int64_t deadline = ty_boot_ms() + limit_ms;
    const char *path = ty_format(&a, "%s/jobs/%" PRId64 "/%d", data_dir, job_id, attempt);
    int dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct left left = dirfd >= 0 ? look_at_folder(dirfd, false) : (struct left){0};
    bool gone = !left.marks;
    if (!gone && engine_read(&a, dirfd, &e, &key) == TY_OK) {
        /* A client that was killed before it had an id may have asked its daemon for one: two
         * empty lists, then. */
        int empty = left.ids ? 1 : 2;
        while (empty > 0 && ty_boot_ms() < deadline) {
            empty = sweep_once(&a, &e, data_dir, job_id, attempt) ? empty - 1 : empty;
            if (empty > 0)
                nanosleep(&(struct timespec){.tv_nsec = SWEEP_PAUSE_MS * 1000000L}, NULL);
        }
        gone = empty == 0;
    }
    if (left.marks && gone)
        look_at_folder(dirfd, true);
    else if (!gone)
        log_error("container.left", "job=%" PRId64 " attempt=%d", job_id, attempt);
    if (dirfd >= 0)
        close(dirfd);
    ty_arena_clear(&a);
    return gone;
}
