/* objects_int.h -- what the files of objects share: rows, places, claims, files.
 *
 * A function that runs inside a database closure takes the db_conn first; all others may block.
 * Functions of files.c return errno (0: fine), because their callers go on from some of them. */
#ifndef TY_OBJECTS_INT_H
#define TY_OBJECTS_INT_H

#include "db/db.h"
#include "objects/objects.h"

#include <pthread.h>

enum {
    CLAIM_LIMIT = 8192, /* changes and chunks in progress; http's connections are fewer */
    STAGE_BYTES = OBJECTS_SESSION_BYTES,
    PATH_BYTES = 2048,   /* "<bucket>/<name>", "<bucket>/<sha256>/<generation>" */
    FRESH_NS = 20000000, /* a time stamp younger than this may be given again */
    TRIES = 8,           /* looks at something that others keep changing */
    SETTLE_ROWS = 500,   /* of one commit: the writer thread has others to serve */
    SETTLE_MS = 250,
    SWEEP_MS = 3600 * 1000,
    SWEEP_FIRST_MS = 60 * 1000,  /* after a start: servers that live for minutes sweep, too */
    SWEEP_SOON_MS = 5 * 1000,    /* after a policy changed; several changes are one sweep */
    CHECKPOINT_BYTES = 64 << 20, /* a session's bytes between two records of its offset */
    FLUSH_BYTES = 8 << 20,       /* written out in the background from then on */
    RESERVE_BYTES = 4 << 20,     /* of data/reserve (reserve.c) */
    RESERVE_LEAST = 64 << 10,    /* a smaller one would help nobody */
    RECENT_SLOTS = 1024,
    RECENT_BYTES = 1024, /* of a row's strings; one with more is not kept */
};

struct objects {
    struct db *db;
    char *root; /* the data folder */
    int root_fd, buckets_fd, odd_fd, staging_fd;
    int64_t last_generation; /* touched only by write closures, so by one thread */

    pthread_mutex_t claim_lock;
    pthread_cond_t claim_free;
    uint64_t claims[CLAIM_LIMIT];
    size_t claim_count;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t thread_lock;
    pthread_cond_t thread_wake;
    bool closing;
    pthread_t scan_thread;
    bool scan_runs;
    pthread_cond_t scan_wake; /* with thread_lock */
    bool scan_wanted;
    bool sweep_wanted; /* with thread_lock */
    bool unsettled;    /* atomic: something was committed since the last settling */
    uint64_t followed; /* atomic: rows changed because the disk had changed */

    pthread_mutex_t reserve_lock; /* data/reserve is being made or given up */

    bool recent_usable;
    pthread_mutex_t recent_lock;
    struct recent *recent; /* RECENT_SLOTS of them */
};

/* ---- rows ---- */

/* Where an object's bytes are, or will be once its row is settled. */
enum place {
    PLACE_NICE = 0, /* buckets/<bucket>/<name> */
    PLACE_ODD = 1,  /* odd/<bucket>/<sha256>/<generation> */
    PLACE_DIR = 2,  /* no bytes: a folder of buckets/ */
    PLACE_NONE = 3, /* no bytes, nowhere: what was a folder and is kept */
};

/* A move has made, or is about to make, a second link to the file: its ctime tells nothing. */
enum { CTIME_LINKED = -1 };

struct row {
    int64_t bucket_id;
    struct object object; /* .bucket is not in the row: set by who reads it */
    enum place place;
    ty_str stage; /* empty: settled. "-": the file may still be at its nice place. Else its name in
                     staging/, where it may still be */
    int64_t ino, ctime_ns; /* ctime 0: not known yet (a rename changes it); or CTIME_LINKED */
};

/* A row and what it was read under (recent.c). */
struct recent {
    uint64_t hash, epoch;
    struct row row; /* .object.bucket is set */
    char *text;     /* its strings; NULL: the slot is empty */
};

struct bucket_row {
    int64_t id;
    bool versioning;
    int64_t soft_delete_s;
    ty_str storage_class;
};

#define SETTINGS_COLUMNS                                                                           \
    "content_type, content_encoding, content_disposition, content_language, cache_control, "       \
    "storage_class, metadata, custom_time_ns"
enum { SETTINGS_COUNT = 8 };
#define ROW_COLUMNS                                                                                \
    "bucket, name, generation, metageneration, size, create_ns, update_ns, delete_ns, soft, "      \
    "hashes, md5_a, md5_b, crc32c, components, place, stage, ino, mtime_ns, "                      \
    "ctime_ns, " SETTINGS_COLUMNS
enum { ROW_SETTINGS = 19 };

/* The folders and the rows as they are: nothing redone, no thread. objects_close ends it. */
TY_NODISCARD ty_err objects_attach(const char *data_dir, struct objects **ret_objects);

/* Strings are copied into `a`. */
void row_load(struct db_stmt *s, struct ty_arena *a, struct row *ret_row);
void settings_load(struct db_stmt *s, int first, struct ty_arena *a,
                   struct object_settings *ret_settings);
void settings_bind(struct db_stmt *s, int first, const struct object_settings *settings);
TY_NODISCARD ty_err settings_check(const struct object_settings *x);
struct object_settings settings_dup(struct ty_arena *a, const struct object_settings *x);
void md5_to_ints(const unsigned char md5[16], int64_t *ret_a, int64_t *ret_b);
void md5_from_ints(int64_t a, int64_t b, unsigned char md5[16]);

/* The same error, or if it says that the bucket does not exist and buckets/ has a folder of its
 * name (a job made it, or the bucket was deleted under one), the error that tells so. */
TY_NODISCARD ty_err bucket_explain(const struct objects *o, ty_str name, ty_err err);
TY_NODISCARD ty_err bucket_find(struct db_conn *c, struct ty_arena *a, ty_str name,
                                struct bucket_row *ret_bucket);
/* *ret_found false: there is none. */
TY_NODISCARD ty_err row_find_live(struct db_conn *c, struct ty_arena *a, int64_t bucket_id,
                                  ty_str name, struct row *ret_row, bool *ret_found);
TY_NODISCARD ty_err row_find_old(struct db_conn *c, struct ty_arena *a, int64_t bucket_id,
                                 ty_str name, int64_t generation, struct row *ret_row,
                                 bool *ret_found);
TY_NODISCARD ty_err row_insert(struct db_conn *c, bool old, const struct row *row);
TY_NODISCARD ty_err row_delete(struct db_conn *c, bool old, const struct row *row);
/* Note that this row's file is to be removed, once the commit is done. */
TY_NODISCARD ty_err removal_insert(struct db_conn *c, ty_str bucket, const struct row *row);
int64_t generation_next(struct objects *o);
TY_NODISCARD ty_err generation_save(struct db_conn *c, struct objects *o);

/* exists: there is an object; its numbers. `reading`: a "not" that fails is TY_ABORTED (304). */
TY_NODISCARD ty_err conditions_check(const struct object_conditions *c, bool exists,
                                     int64_t generation, int64_t metageneration, bool reading);
ty_err object_not_found(ty_str bucket, ty_str name, int64_t generation);

/* ---- what the disk says ---- */

/* What is at an object's nice place. */
struct seen {
    enum { SEEN_NOTHING, SEEN_FILE, SEEN_FOLDER, SEEN_OTHER } kind;
    int64_t ino, size, mtime_ns, ctime_ns;
};
enum verdict { VERDICT_SAME, VERDICT_CHANGED, VERDICT_GONE };
/* Is this row's file still what the row says? Only rows of nice places and folders can change. */
enum verdict row_judge(const struct row *row, const struct seen *seen);
/* Bring the live row of a name in line with what was seen, inside a write closure, its name
 * claimed. *row and *found are what row_find_live gave, and are changed. `adopt`: a file without a
 * row gets one. */
TY_NODISCARD ty_err row_follow(struct db_conn *c, struct objects *o, int64_t bucket_id, ty_str name,
                               const struct seen *seen, struct row *row, bool *found);
TY_NODISCARD ty_err refresh(struct objects *o, ty_str bucket, ty_str name);

/* ---- files ---- */

/* May the name be a path below buckets/<bucket>? `folder`: it ends with a slash and is a folder's.
 */
bool name_is_nice(const struct objects *o, ty_str bucket, ty_str name, bool *ret_folder);
uint64_t name_hash(ty_str bucket, ty_str name);
/* Below buckets_fd; false for a name that is not nice. A folder's has no slash at its end. */
bool nice_path(const struct objects *o, ty_str bucket, ty_str name, char path[PATH_BYTES]);
void odd_path(ty_str bucket, ty_str name, int64_t generation, char path[PATH_BYTES]);

/* openat2 beneath `root`, following no link. *ret_fd is set when 0 is returned. */
int file_open(int root, const char *path, int flags, mode_t mode, int *ret_fd);
int file_stat(int root, const char *path, struct stat *ret_st);
void seen_of(const struct stat *st, struct seen *ret_seen);
struct seen file_see(const struct objects *o, ty_str bucket, ty_str name);
/* file_see of many names of a bucket: the folder of those that follow each other is opened once. */
struct viewer {
    const struct objects *o;
    ty_str bucket;
    int dir; /* -1: none */
    char folder[PATH_BYTES];
};
struct seen viewer_see(struct viewer *v, ty_str name);
void viewer_end(struct viewer *v);
/* The folder that holds `path`'s last part; `make`: mkdir -p it. */
int file_parent(int root, const char *path, bool make, int *ret_fd, const char **ret_leaf);
int file_move(int from_root, const char *from, int to_root, const char *to, bool make);
int file_remove(int root, const char *path);
int file_rmdir(int root, const char *path);
/* Remove the folders above `path` (but not its first part) that are empty. `keep` says which must
 * stay. */
void file_prune(struct objects *o, ty_str bucket, ty_str name);
/* A new file of staging/, its name in `stage`. */
TY_NODISCARD ty_err stage_create(struct objects *o, char stage[STAGE_BYTES], int *ret_fd);
void stage_remove(struct objects *o, ty_str stage);
bool stage_exists(const struct objects *o, ty_str stage);
/* Give the file a time that no later write can leave as it is, sync it, and fill what the row
 * needs. */
TY_NODISCARD ty_err stage_seal(int fd, struct row *row);
/* Append `count` bytes of `from` at `offset` to `to`: shared blocks, in-kernel copy, or read and
 * write. */
TY_NODISCARD ty_err file_copy(int from, int64_t offset, int64_t count, int to);

/* ---- claims: one change of a name at a time ---- */

/* Waits until neither is claimed, for at most 30 s: TY_UNAVAILABLE. b may be 0. */
TY_NODISCARD ty_err claim_take(struct objects *o, uint64_t a, uint64_t b);
bool claim_try(struct objects *o, uint64_t a);
void claim_release(struct objects *o, uint64_t a, uint64_t b);

/* ---- making an object live (commit.c) ---- */

struct change {
    struct objects *o;
    struct ty_arena *arena;
    ty_str bucket;
    const struct object_conditions *conditions;
    struct row
        row; /* to become live; generation and times are set inside. stage is its staged file */
    struct seen seen;   /* at the name's nice place, just before */
    struct row *source; /* to be deleted in the same commit (a move), or NULL */
    bool source_old;    /* it is an old or soft-deleted one */
    ty_str session;     /* whose last chunk this is, or empty */
    /* set inside: */
    struct row before; /* what was live */
    bool had_before, kept_before, kept_source;
};
/* Commit and put the files in their places. The caller has staged the bytes and claimed the name.
 */
TY_NODISCARD ty_err change_commit(struct change *x);
/* Put a committed row's file where the row says; called again at the start and by settling. */
TY_NODISCARD ty_err row_place(struct objects *o, struct ty_arena *a, ty_str bucket,
                              struct row *row);
/* Do a removal. */
void row_remove_file(struct objects *o, ty_str bucket, const struct row *row);
/* Retire a live row: into the old ones, or noted for removal. */
TY_NODISCARD ty_err row_retire(struct db_conn *c, const struct bucket_row *b, ty_str bucket,
                               struct row *row, bool as_version, bool *ret_kept);
void wake_settling(struct objects *o);

/* ---- reading (read.c) ---- */

/* The row that `ref` names, as it is on disk now; with its hashes when `hashed`; *ret_fd, unless
 * NULL, open on it. */
TY_NODISCARD ty_err object_open(struct objects *o, struct ty_arena *a, struct object_ref ref,
                                const struct object_conditions *conditions, bool hashed,
                                struct row *ret_row, bool *ret_old, int *ret_fd);

/* The row's bytes: 0, or errno; ENOENT: neither where they should be nor on their way there. */
int row_open(struct objects *o, ty_str bucket, const struct row *row, int *ret_fd);
/* Until when a soft-deleted one can be restored, by its bucket's policy as it is now. */
void object_set_end(struct object *object, const struct bucket_row *b);
/* Is the open file what the row says? */
bool row_is_file(const struct row *row, int fd);

/* ---- hashes of files that we did not write (hash.c) ---- */

/* Compute and record. *ret_same: the file stayed the same while it was read; then the row has them.
 * Closing: TY_CANCELLED. */
TY_NODISCARD ty_err hash_file(struct objects *o, struct row *row, int fd, bool *ret_same);
/* The same for rows of a bucket; those that change or cannot be read stay without. Reorders `rows`.
 */
TY_NODISCARD ty_err rows_hash(struct objects *o, ty_str bucket, struct row **rows, size_t count);

/* ---- rows looked at lately (recent.c) ---- */

bool recent_local(int fd); /* a file system that answers without a network */
/* `epoch` was taken before the row was read. row->object.bucket is set. */
void recent_put(struct objects *o, uint64_t epoch, const struct row *row);
void recent_clear(struct objects *o);

/* ---- digests ---- */

/* libcrypto's own MD5_CTX, in plain memory: it can be kept in a row and taken up again. */
struct md5 {
    uint32_t words[6 + 16 + 1];
};
TY_NODISCARD ty_err digest_load(void); /* libcrypto; TY_FAILED_PRECONDITION when it is not there */
void md5_init(struct md5 *h);
void md5_add(struct md5 *h, const void *ptr, size_t len);
void md5_end(struct md5 *h, unsigned char out[16]);
void sha256_hex(ty_str s, char out[65]);
/* crc32c of A followed by B, which is len_b long. */
uint32_t crc32c_join(uint32_t a, uint32_t b, int64_t len_b);

/* ---- a full disk (reserve.c) ---- */

/* db_write of something that frees space, or that whoever wants to free some meets on the way (what
 * stat says of a file, its hash): on a full disk the reserve is given up for it, and it is tried
 * once more. `fn` may so be called twice. */
TY_NODISCARD ty_err write_freeing(struct objects *o, db_fn fn, void *arg);
/* Make the reserve again, or larger, if there is room. */
void reserve_keep(struct objects *o);

/* ---- upkeep ---- */

TY_NODISCARD ty_err recover(struct objects *o); /* at the start, before anybody calls */
TY_NODISCARD ty_err settle(struct objects *o);
TY_NODISCARD ty_err settle_start(struct objects *o);
void settle_stop(struct objects *o);
TY_NODISCARD ty_err scan_start(struct objects *o);
void scan_stop(struct objects *o);
bool scan_stopping(struct objects *o); /* closing: a long look ends now */
/* objects_scan, hashing at most that many bytes a page; *ret_unhashed: objects without hashes. */
TY_NODISCARD ty_err buckets_look(struct objects *o, ty_str bucket, int64_t hash_bytes,
                                 uint64_t *ret_unhashed);
void sweep_soon(struct objects *o); /* SWEEP_SOON_MS from now, or before */
/* Look at the folders of [from, below) for new names. `shallow`: of those not yet looked at, and of
 * `from`'s own. */
TY_NODISCARD ty_err folders_check(struct objects *o, ty_str bucket, int64_t bucket_id, ty_str from,
                                  ty_str below, bool shallow);
/* Remove a folder and those in it, as far as they are empty. */
void folders_remove(int root, const char *path);
TY_NODISCARD ty_err lifecycle_check(ty_str lifecycle);
TY_NODISCARD ty_err lifecycle_run(struct objects *o, ty_str bucket, ty_str lifecycle);
TY_NODISCARD ty_err sessions_expire(struct objects *o);

#endif
