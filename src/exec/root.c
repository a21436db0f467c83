/* root.c -- /gcs in a replica: a root of its own, with all of the machine's in it and the buckets.
 *
 * Vertex shows each bucket as a folder below /gcs, and trainers open such paths. Nothing may be
 * created on the machine's own root, and where we are not root nothing could be. So a replica that
 * has a mount namespace gets a tmpfs for its root: every entry of the old root is bound to it under
 * its own name with all that is mounted below, links are made again, and then come the mounts of
 * the plan. It is read-only at the end: what a program writes into "/" itself fails, instead of
 * being gone with the replica.
 *
 * The tmpfs is put over /proc, which has a copy in it by then, and becomes the root by pivot_root.
 * Up to that moment taking it away again leaves the namespace as it was, so that a machine which
 * refuses any of this has replicas without /gcs, and nothing worse. Some 25 entries take half a
 * millisecond. */
#include "exec/exec_int.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/syscall.h>

enum { ROOT_ENTRIES = 512 }; /* of "/"; with more there is no /gcs */

#define STAGE "/proc" /* where the new root is made */

/* ---- one entry ---- */

static int copy_link(const char *from, const char *to)
{
    char target[PATH_MAX];
    ssize_t n = readlink(from, target, sizeof target - 1);
    if (n < 0)
        return errno;
    target[n] = '\0';
    return symlink(target, to) == 0 ? 0 : errno;
}

/* A folder, or a file for what is none, to mount on. */
static int make_target(const char *path, bool folder)
{
    int fd = folder ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (folder ? mkdir(path, 0755) != 0 && errno != EEXIST : fd < 0)
        return errno;
    if (fd >= 0)
        close(fd);
    return 0;
}

static int bind(const char *from, const char *to)
{
    return mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0 ? 0 : errno;
}

static int copy_entry(const char *name)
{
    char from[NAME_MAX + 2], to[sizeof STAGE + NAME_MAX + 1];
    struct stat st;
    snprintf(from, sizeof from, "/%s", name);
    snprintf(to, sizeof to, STAGE "/%s", name);
    if (lstat(from, &st) != 0)
        return errno == ENOENT ? 0 : errno; /* gone meanwhile */
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to);
    int err_no = make_target(to, S_ISDIR(st.st_mode));
    return err_no ? err_no : bind(from, to);
}

/* ---- the whole ---- */

static bool is_ours(const char *name)
{
    static const char *const names[] = {".", "..", "proc", "gcs"};
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static int copy_entries(void)
{
    DIR *dir = opendir("/");
    if (!dir)
        return errno;
    int err_no = 0, count = 0;
    for (struct dirent *e; err_no == 0 && (e = readdir(dir)) != NULL;)
        if (!is_ours(e->d_name))
            err_no = ++count > ROOT_ENTRIES ? E2BIG : copy_entry(e->d_name);
    closedir(dir);
    return err_no;
}

static int add_mount(const struct container_mount *m)
{
    char to[PATH_MAX];
    if (snprintf(to, sizeof to, STAGE "%s", m->to) >= (int)sizeof to)
        return ENAMETOOLONG;
    int err_no = make_target(to, true);
    return err_no ? err_no : bind(m->from, to);
}

/* On the tmpfs: all that the new root has. `proc` is a copy of what STAGE hides now. */
static int fill(int proc, const struct container_mount *mounts, size_t count)
{
    int err_no = make_target(STAGE "/proc", true);
    if (err_no == 0 && move_mount(proc, "", AT_FDCWD, STAGE "/proc", MOVE_MOUNT_F_EMPTY_PATH) != 0)
        err_no = errno;
    if (err_no == 0)
        err_no = copy_entries();
    for (size_t i = 0; err_no == 0 && i < count; i++)
        err_no = add_mount(&mounts[i]);
    if (err_no == 0 && mount(NULL, STAGE, NULL,
                             MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) != 0)
        err_no = errno;
    return err_no;
}

/* From here on there is no way back: what fails after pivot_root ends the replica. */
static int turn(void)
{
    if (chdir(STAGE) != 0 || syscall(SYS_pivot_root, ".", ".") != 0)
        return errno;
    if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
        _exit(1); /* the old root lies over the new one */
    return 0;
}

int root_enter(const struct container_mount *mounts, size_t count)
{
    int proc = open_tree(AT_FDCWD, STAGE, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (proc < 0)
        return errno;
    int err_no = 0;
    bool made = mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m") == 0;
    if (!made)
        err_no = errno;
    if (err_no == 0)
        err_no = fill(proc, mounts, count);
    if (err_no == 0)
        err_no = turn();
    if (err_no && made) {
        (void)!chdir("/");
        umount2(STAGE, MNT_DETACH);
    }
    close(proc);
    return err_no;
}

/* ---- may we? ---- */

/* In a process of its own: as an init does it. */
static _Noreturn void probe_main(uid_t uid, gid_t gid)
{
    ty_seam_role("replica");
    const struct container_mount nothing = {.from = "/", .to = "/gcs"};
    if (isolation_get() == ISOLATION_USER && !isolation_map_user(uid, gid))
        _exit(EPERM);
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        _exit(errno);
    _exit(root_enter(&nothing, 1) & 0xff);
}

bool exec_gcs_works(struct ty_arena *a, const char **ret_why)
{
    int pidfd = -1;
    siginfo_t info = {0};
    *ret_why = "namespaces are refused here";
    if (isolation_get() == ISOLATION_SWEEP)
        return false;
    uid_t uid = geteuid();
    gid_t gid = getegid();
    pid_t pid = process_clone(isolation_flags(isolation_get()), -1, &pidfd);
    if (pid == 0)
        probe_main(uid, gid);
    if (pid < 0)
        return false;
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) != 0 && errno == EINTR)
        ;
    close(pidfd);
    if (info.si_code == CLD_EXITED && info.si_status == 0)
        return true;
    *ret_why = ty_format(a, "the machine refuses a root of its own to a namespace (%s)",
                         info.si_code == CLD_EXITED ? strerror(info.si_status) : "killed");
    return false;
}
