/* backup.h -- a whole yard in one file, taken while it works, and made into a yard again.
 *
 * The file is a plain tar archive (`tar tf` reads it):
 *
 *   trainyard-backup     "format 1", and who wrote it when
 *   trainyard.conf, client/..., jobs/ID/N/...
 *   staging/..., buckets/..., odd/...
 *   objects.db, yard.db  the rows, each of one moment
 *   trainyard-manifest   "format 1", how many entries, SHA-256 of all bytes before this entry
 *
 * What belongs in it is a table, parts.def. Not in it: Python environments (they are made again),
 * locks, sockets, the server's address, and the yard's id: a restored yard is another one (exec.h).
 *
 * B1 The rows are copied first, then the files of the attempts those rows know. So every line that
 *    a reader was given before the backup began is in it, and a journal may know more than the rows
 *    but never less: a server takes that up as after a crash.
 *
 * B2 Of an attempt the journal is read before the log: one that says "end" has its whole log.
 *
 * B3 A job that is deleted meanwhile is taken out of the copied rows.
 *
 * B4 Nothing of an archive is seen under the folder's name before its last byte was checked.
 *
 * B5 A job that ran when the backup was taken has lost that attempt and nothing else: restoring
 *    ends it as "restored", at no retry's cost, and a server starts the next one. What its journal
 *    says has ended, and what was being cancelled, goes its own way.
 *
 * B6 Of buckets, too, rows come before files, and folders in the order that a file goes through
 *    them: staging, buckets, odd. A file that was changed meanwhile is a newer one than its row
 *    says, which objects finds out as it does when a job has written it (objects.h); of all others
 *    restoring tells the rows what the files are now.
 *
 * Where to start: backup_take in take.c, backup_restore in restore.c; tar.c is the format.
 * Who frees: nothing is kept. Threads: any; a backup or restore belongs to one.
 * Errors: TY_NOT_FOUND (no yard there), TY_DATA_LOSS (cut short or damaged), TY_INVALID_ARGUMENT
 * (not a backup), TY_FAILED_PRECONDITION (a newer format, a folder that is in use or not empty),
 * TY_RESOURCE_EXHAUSTED (disk), TY_UNAVAILABLE (the same file is being written by another).
 * One test: build/test_backup tar/every_flipped_bit_is_noticed. */
#ifndef TY_BACKUP_H
#define TY_BACKUP_H

#include "base/base.h"

/* How far it is; the numbers only grow. */
struct backup_progress {
    int64_t bytes;       /* of the archive, so far */
    int64_t done, total; /* attempts (taking) or bytes (restoring); total 0: not known */
};
struct backup_watch {
    void (*tell)(void *arg, const struct backup_progress *p); /* often; may be NULL */
    void (*warn)(void *arg, const char *text); /* something was left out; may be NULL */
    void *arg;
};
struct backup_result {
    int64_t jobs, attempts, files, bytes;
    int64_t skipped; /* links, sockets and files that could not be read, in jobs' own folders */
    int64_t again;   /* restoring: jobs that ran at the time and will be tried again */
};

/* Write a backup of data_dir to `file`, which is replaced when all is written and synced; "-" is
 * standard output. On failure `file` is as it was. */
TY_NODISCARD ty_err backup_take(const char *data_dir, const char *file,
                                const struct backup_watch *watch, struct backup_result *ret_result);
/* Make data_dir, which must be empty or not there, from `file` ("-" is standard input). On failure
 * it is as it was. */
TY_NODISCARD ty_err backup_restore(const char *file, const char *data_dir,
                                   const struct backup_watch *watch,
                                   struct backup_result *ret_result);

#endif
