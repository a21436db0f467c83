/* owner.c -- which replica a process of this machine belongs to, and which process a socket.
 *
 * Clients of a job need not show a token: google-cloud-storage, pointed here by its variable for
 * emulators, sends none. But every process of a replica has the marks of its attempt in its
 * environment (sweep.c), and /proc says who holds a socket. Only processes with a mark of this yard
 * are looked into, so that the price depends on how many processes there are, not on what they have
 * open. It is for keeping replicas out of each other's way, not strangers out: a process that
 * cleared its environment is taken for the user's own. */
#include "exec/exec_int.h"

#include <dirent.h>

enum { OWNER_ENVIRON_BYTES = 4 << 20 };

/* The value of a variable in an environment; empty when it is not there. */
static ty_str variable(const struct ty_buf *variables, const char *name)
{
    ty_str rest = ty_buf_str(variables), item, key;
    bool more = rest.len > 0;
    while (more) {
        more = ty_str_split(&rest, '\0', &item);
        if (ty_str_split(&item, '=', &key) && ty_str_is(key, name))
            return item;
    }
    return TY_STR("");
}

/* "JOB/ATTEMPT/YARD" and "POOL-INDEX". */
static bool marks_parse(ty_str attempt, ty_str replica, const char *yard,
                        struct exec_owner *ret_owner)
{
    ty_str job, number, pool;
    int64_t values[4];
    if (!ty_str_split(&attempt, '/', &job) || !ty_str_split(&attempt, '/', &number) ||
        !ty_str_is(attempt, yard) || !ty_str_split(&replica, '-', &pool))
        return false;
    const ty_str texts[] = {job, number, pool, replica};
    for (size_t i = 0; i < TY_COUNT(values); i++)
        if (ty_parse_i64(texts[i], &values[i]) != TY_OK || values[i] < 0 ||
            (i > 0 && values[i] > INT_MAX))
            return false;
    *ret_owner = (struct exec_owner){values[0], (int)values[1], (int)values[2], (int)values[3]};
    return true;
}

static bool process_owner(const char *pid, const char *yard, struct ty_buf *variables,
                          struct exec_owner *ret_owner)
{
    environ_read(pid, variables);
    return marks_parse(variable(variables, "TRAINYARD_ATTEMPT"),
                       variable(variables, "TRAINYARD_REPLICA"), yard, ret_owner);
}

static bool process_holds(const char *pid, uint64_t inode)
{
    char path[64], wanted[64], link[64];
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    snprintf(wanted, sizeof wanted, "socket:[%" PRIu64 "]", inode);
    DIR *dir = opendir(path);
    bool found = false;
    struct dirent *entry;
    while (dir && !found && (entry = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof link - 1);
        link[n > 0 ? n : 0] = '\0';
        found = strcmp(link, wanted) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

static bool socket_owner(uint64_t inode, const char *yard, struct ty_buf *variables,
                         struct exec_owner *ret_owner)
{
    DIR *proc = opendir("/proc");
    struct exec_owner owner;
    bool found = false;
    struct dirent *entry;
    while (proc && !found && (entry = readdir(proc)))
        found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                process_owner(entry->d_name, yard, variables, &owner) &&
                process_holds(entry->d_name, inode);
    if (proc)
        closedir(proc);
    if (found)
        *ret_owner = owner;
    return found;
}

bool exec_owner_find(const char *data_dir, uint64_t inode, pid_t pid, struct exec_owner *ret_owner)
{
    struct ty_arena a = {0};
    struct ty_buf variables;
    char text[24];
    const char *yard = exec_yard_id(&a, data_dir);
    ty_buf_init(&variables, OWNER_ENVIRON_BYTES);
    snprintf(text, sizeof text, "%d", (int)pid);
    bool found = pid > 0 ? process_owner(text, yard, &variables, ret_owner)
                         : socket_owner(inode, yard, &variables, ret_owner);
    ty_buf_clear(&variables);
    ty_arena_clear(&a);
    return found;
}
