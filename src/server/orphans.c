/* orphans.c -- folders whose job row is gone.
 *
 * Deleting a job commits the row's end first and removes the folder after; a crash in between
 * leaves the folder. A folder is made only after its row is committed, so one without a row belongs
 * to nobody, whatever else goes on. With 100,000 jobs this takes a second or two, so it has a
 * thread of its own and goes gently. */
#include "server/server_int.h"

#include <dirent.h>

static void look_at(struct server *s, int jobs_fd, const char *name)
{
    int64_t id;
    bool exists = true;
    if (ty_parse_i64(ty_str_of(name), &id) != TY_OK)
        return;
    if (store_job_exists(s->store, id, &exists) != TY_OK || exists)
        return;
    if (ty_remove_tree(jobs_fd, name) == TY_OK)
        log_info("orphan.removed", "job=%s", name);
    else
        log_warn("orphan.kept", "job=%s error=%s", name, ty_err_message());
}

static void *orphans_thread(void *arg)
{
    struct server *s = arg;
    struct ty_arena a = {0};
    DIR *dir = opendir(ty_format(&a, "%s/jobs", s->data_dir));
    ty_arena_clear(&a);
    struct dirent *entry;
    while (dir && !__atomic_load_n(&s->orphans_stop, __ATOMIC_RELAXED) && (entry = readdir(dir)))
        look_at(s, dirfd(dir), entry->d_name);
    if (dir)
        closedir(dir);
    return NULL;
}

ty_err orphans_remove_start(struct server *s)
{
    int failed = pthread_create(&s->orphans_thread, NULL, orphans_thread, s);
    if (failed)
        return ty_fail_errno(failed, "cannot start a thread");
    s->orphans_started = true;
    return TY_OK;
}

void orphans_remove_stop(struct server *s)
{
    if (!s->orphans_started)
        return;
    __atomic_store_n(&s->orphans_stop, true, __ATOMIC_RELAXED);
    pthread_join(s->orphans_thread, NULL);
}
