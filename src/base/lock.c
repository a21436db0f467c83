/* lock.c -- a file that one at a time may have, and who that is.
 *
 * The lock is flock's: of the open file, so that two who opened it themselves exclude each other,
 * also in one process; it ends with the process, however that ends, and folders and files that are
 * only read can have it, too. Locks of records are left to those who need that children do not
 * inherit them (exec, crew) or that many share them (python).
 *
 * A file that is there only to be locked has a line of its holder's, one of
 *
 *   replica workerpool0-0 of job 17 (attempt 1) on HOST (since 2026-01-31 14:02:11)
 *   process 4711 of pid:[4026531836] on HOST (since 2026-01-31 14:02:11)
 *
 * The line is for people: that the file is locked is the kernel's word alone. A pid is told only to
 * who is in the same PID namespace: elsewhere it is nobody's, or another process's. (/proc/locks
 * has the pid as its reader counts, but by a device that is not stat's on overlayfs and btrfs.) */
#include "base/base.h"

#include <sys/file.h>

enum { NOTE_BYTES = 300, WHO_BYTES = 128, SPACE_BYTES = 64 };
static const char REPLICA[] = "replica ", PROCESS[] = "process ", OF[] = "of ";

ty_err ty_lock_take(int fd, const char *path)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return TY_OK;
    if (errno == EWOULDBLOCK)
        return TY_ABORTED;
    if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP)
        return ty_fail(TY_UNIMPLEMENTED, "cannot lock '%s': its file system has no locks", path);
    return ty_fail_errno(errno, "cannot lock '%s'", path);
}

/* ---- who ---- */

/* "pid:[4026531836]": the PID namespace we are in; "?" without /proc. */
static void space_text(char out[SPACE_BYTES])
{
    char link[SPACE_BYTES];
    ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    snprintf(out, SPACE_BYTES, "%.*s", n > 0 ? (int)n : 1, n > 0 ? link : "?");
}

/* "replica workerpool0-0 of job 17 (attempt 1)" by the marks that exec gives to a replica's
 * processes, JOB/ATTEMPT/YARD and POOL-INDEX; "process 4711 of pid:[4026531836]" without. */
static void who_text(char out[WHO_BYTES])
{
    ty_str mark = ty_str_of(getenv("TRAINYARD_ATTEMPT")), job, attempt;
    ty_str index = ty_str_of(getenv("TRAINYARD_REPLICA")), pool;
    char space[SPACE_BYTES];
    int64_t numbers[4];
    space_text(space);
    snprintf(out, WHO_BYTES, "%s%d %s%s", PROCESS, (int)getpid(), OF, space);
    ty_str_split(&mark, '/', &job);
    ty_str_split(&mark, '/', &attempt);
    ty_str_split(&index, '-', &pool);
    const ty_str texts[] = {pool, index, job, attempt};
    for (size_t i = 0; i < TY_COUNT(texts); i++)
        if (ty_parse_i64(texts[i], &numbers[i]) != TY_OK)
            return;
    snprintf(out, WHO_BYTES,
             "%sworkerpool%" PRId64 "-%" PRId64 " of job %" PRId64 " (attempt %" PRId64 ")",
             REPLICA, numbers[0], numbers[1], numbers[2], numbers[3]);
}

ty_err ty_lock_sign(int fd, const char *path)
{
    char host[100] = "", when[32], who[WHO_BYTES], note[NOTE_BYTES];
    time_t now = (time_t)(ty_now_ns() / 1000000000);
    struct tm tm;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    localtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    who_text(who);
    int n = snprintf(note, sizeof note, "%s on %s (since %s)\n", who, host, when);
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)
        return ty_fail_errno(errno, "cannot write '%s'", path);
    ty_err err = ty_write_all(fd, note, (size_t)n);
    return err == TY_OK ? TY_OK : ty_wrap(err, "'%s'", path);
}

/* What the holder wrote, if it is one of the two lines above: whoever wrote it, no colours. */
static ty_str note_read(struct ty_arena *a, int dirfd, const char *path)
{
    ty_str note;
    if (ty_file_read(dirfd, path, NOTE_BYTES, a, &note) != TY_OK)
        return TY_STR("");
    note = ty_str_trim(note);
    for (size_t i = 0; i < note.len; i++)
        if ((unsigned char)note.ptr[i] < ' ')
            note.len = i;
    bool ours = ty_str_starts(note, ty_str_of(REPLICA)) || ty_str_starts(note, ty_str_of(PROCESS));
    return ours ? note : TY_STR("");
}

const char *ty_lock_holder(struct ty_arena *a, int dirfd, const char *path)
{
    ty_str note = note_read(a, dirfd, path), pid, space = {0};
    char ours[SPACE_BYTES];
    if (ty_str_starts(note, ty_str_of(REPLICA)))
        return ty_cstr(a, note);
    note = ty_str_drop(note, note.len > 0 ? strlen(PROCESS) : 0);
    ty_str_split(&note, ' ', &pid);
    if (ty_str_starts(note, ty_str_of(OF))) {
        note = ty_str_drop(note, strlen(OF));
        ty_str_split(&note, ' ', &space);
    }
    space_text(ours);
    const char *who = "another process";
    if (ty_str_is(space, ours) && ours[0] != '?')
        who = ty_format(a, "process " TY_STR_FMT, TY_STR_ARG(pid));
    return note.len > 0 ? ty_format(a, "%s " TY_STR_FMT, who, TY_STR_ARG(note)) : who;
}
