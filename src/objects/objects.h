/* objects.h -- buckets and objects on the user's own disk: Cloud Storage without its HTTP.
 *
 * Where to start: objects_open, objects_bucket_insert, then an upload (objects_upload_begin,
 * _write, _finish) and objects_read. struct object is what a client is told about one.
 *
 * On disk, all on one file system:
 *
 *   objects.db                       rows: what exists, and where its bytes are
 *   buckets/<bucket>/<name>          an object as a plain file, when its name can be one
 *   odd/<bucket>/<sha256>/<gen>      every other name, old generations, soft-deleted ones
 *   staging/<id>                     bytes on their way in; never seen by anyone else
 *
 * A write is: staged file, fdatasync, row committed (that is the moment it exists), rename. A row
 * that was committed before its rename says so (`stage`), so a reader finds the bytes at either
 * place and a start redoes the rename. A delete commits a `removal` first, for the same reason.
 *
 * Others may change the files of buckets/ (jobs do, through /gcs). What stat says (inode, size,
 * mtime, ctime) is compared when an object is asked for or listed; a difference is a new
 * generation, whose hashes are computed when they are asked for, alone or in a list that wants them
 * (object_query.hash_bytes), or by the scan thread. New and removed names are found
 * where a folder's mtime differs from the recorded one, and by objects_scan (at a job's end).
 * A folder of no file is no object. Symbolic links and devices are never followed or listed.
 *
 * O1 an object is visible all at once or not at all, and on disk before a write returns.
 * O2 what is read is the last write of that generation that returned (J6), for writes made here.
 * O3 generations of one data folder only grow, whatever the clock does.
 * O4 a file of staging/ that no row names is gone after objects_open.
 *
 * Who frees: strings of results are in the arena given; objects_close, objects_upload_free. File
 * descriptors handed out are the caller's to close. Threads: every function may be called from any
 * thread and may block on the disk (not from an event loop, but for objects_read_now); one upload
 * belongs to one thread at a time. Errors, beside each function's own:
 *   TY_NOT_FOUND (404)            no such bucket, object, generation or session
 *   TY_FAILED_PRECONDITION (412)  a condition does not hold
 *   TY_ABORTED (304, 409)         not modified, from objects_get and objects_read; else a conflict
 *   TY_ALREADY_EXISTS (409)       the bucket's name is taken
 *   TY_INVALID_ARGUMENT (400)     a bad name or value, or bytes that are not the declared ones
 *   TY_RESOURCE_EXHAUSTED (429)   a full disk, or a ceiling below
 *   TY_UNAVAILABLE (503)          a file kept changing under us, or a name is busy: ask again
 *
 * One test: build/test_objects upload/is_a_plain_file. */
#ifndef TY_OBJECTS_H
#define TY_OBJECTS_H

#include "base/base.h"

/* Ceilings. */
enum {
    OBJECTS_NAME_BYTES = 1024,           /* UTF-8 without NUL, CR, LF */
    OBJECTS_BUCKET_NAME_BYTES = 222,     /* 63 without dots */
    OBJECTS_FIELD_BYTES = 1024,          /* contentType and its like */
    OBJECTS_METADATA_BYTES = 64 * 1024,  /* custom metadata, as JSON */
    OBJECTS_SETTINGS_BYTES = 256 * 1024, /* each JSON text of a bucket */
    OBJECTS_RULES = 100,                 /* lifecycle rules of a bucket */
    OBJECTS_PAGE = 1000,                 /* entries of a page: items and prefixes */
    OBJECTS_PAGE_ROWS = 100000,          /* rows looked at for one page; then it ends early */
    OBJECTS_GLOB_BYTES = 1024,
    OBJECTS_COMPOSE = 32,
    OBJECTS_SESSIONS =
        100000, /* resumable uploads that are open at once; they are rows, not memory */
    OBJECTS_SESSION_BYTES = 33, /* an id: 32 hex digits and NUL */
    OBJECTS_TOKEN_BYTES = 2048,
};
#define OBJECTS_OBJECT_BYTES   (INT64_C(5) << 40)   /* largest object: 5 TiB, as there */
#define OBJECTS_HASH_BYTES     (INT64_C(256) << 20) /* hash_bytes of a client's list */
#define OBJECTS_SESSION_TTL_NS (INT64_C(7) * 86400 * 1000000000)

struct objects;
/* Open data_dir/objects.db and its folders (made when missing); redo what a crash cut short. The
 * caller holds the data folder's lock. Starts two threads: settling and lifecycle, and
 * objects_scan_soon. */
TY_NODISCARD ty_err objects_open(const char *data_dir, struct objects **ret_objects);
void objects_close(struct objects *o); /* nobody may be inside a call. NULL is fine */
/* Before a start: where the disk is nearly full, data_dir/reserve is given up for what a start
 * writes. The caller holds the data folder's lock. An open makes it again when there is room. */
void objects_reserve_yield(const char *data_dir);

/* A copy of the rows, of one moment, whoever works with them; nothing where there are none. */
TY_NODISCARD ty_err objects_rows_copy(const char *data_dir, const char *to_dir);
/* Rows and files were put into this folder from copies (a backup): make them belong together again.
 * Before anybody opens it. */
TY_NODISCARD ty_err objects_restored(const char *data_dir);

/* ---- buckets ---- */

struct bucket {
    ty_str name;
    ty_str project;
    ty_str location;      /* "US"; given at insert, upper case */
    ty_str storage_class; /* "STANDARD" */
    int64_t create_ns, update_ns;
    int64_t metageneration;
    bool versioning;        /* an overwritten or deleted object stays as an old generation */
    int64_t soft_delete_s;  /* a deleted one can be restored that long; 0: off */
    int64_t soft_delete_ns; /* since when */
    ty_str labels;          /* JSON object, or empty */
    ty_str lifecycle; /* JSON: {"rule":[{"action":{"type":"Delete"},"condition":{…}}]}, or empty */
    ty_str iam;       /* JSON: the policy as set, or empty; recorded only */
    ty_str extra;     /* JSON object of everything else, recorded only */
};

/* 3 to 63 (dotted: 222) characters a-z 0-9 - _ . as Cloud Storage has them, and no IP address. */
TY_NODISCARD ty_err objects_bucket_name_check(ty_str name);
/* The caller fills name, project and what it wants of the rest; times and metageneration are set
 * here, and only on success. A lifecycle that cannot be followed: TY_INVALID_ARGUMENT naming the
 * rule. */
TY_NODISCARD ty_err objects_bucket_insert(struct objects *o, struct bucket *b);

/* What a request asks of metagenerations and generations. Zeroed: nothing. */
enum {
    OBJECTS_IF_GENERATION = 1,         /* generation_match; 0: it must not exist */
    OBJECTS_IF_GENERATION_NOT = 2,     /* generation_not_match; 0: it must exist */
    OBJECTS_IF_METAGENERATION = 4,     /* metageneration_match */
    OBJECTS_IF_METAGENERATION_NOT = 8, /* metageneration_not_match */
};
struct object_conditions {
    unsigned given; /* which of these count */
    int64_t generation_match, generation_not_match;
    int64_t metageneration_match, metageneration_not_match;
};

TY_NODISCARD ty_err objects_bucket_get(struct objects *o, struct ty_arena *a, ty_str name,
                                       const struct object_conditions *conditions,
                                       struct bucket *ret_bucket);
/* Buckets of a project (empty: all) by name, above `after`, at most `limit` (OBJECTS_PAGE).
 * *ret_more: there are others. */
TY_NODISCARD ty_err objects_bucket_list(struct objects *o, struct ty_arena *a, ty_str project,
                                        ty_str prefix, ty_str after, size_t limit,
                                        struct bucket **ret_buckets, size_t *ret_count,
                                        bool *ret_more);
/* `edit` changes the bucket's settings as they are at that moment: storage_class, versioning,
 * soft_delete_s, labels, lifecycle, iam, extra; other fields are ignored. It runs on the writer
 * thread and must not block; memory from `a`. What it returns other than TY_OK ends the call. NULL
 * conditions: none. */
typedef ty_err (*bucket_edit)(struct ty_arena *a, struct bucket *b, void *arg);
TY_NODISCARD ty_err objects_bucket_patch(struct objects *o, struct ty_arena *a, ty_str name,
                                         const struct object_conditions *conditions,
                                         bucket_edit edit, void *arg, struct bucket *ret_bucket);
/* One with objects (old generations count; soft-deleted ones do not and go with it): TY_ABORTED. */
TY_NODISCARD ty_err objects_bucket_delete(struct objects *o, ty_str name,
                                          const struct object_conditions *conditions);

/* ---- objects ---- */

/* What the client chooses. JSON texts are kept as given. */
struct object_settings {
    ty_str content_type, content_encoding, content_disposition, content_language, cache_control;
    ty_str storage_class; /* empty: the bucket's */
    ty_str metadata;      /* JSON object of strings, or empty */
    int64_t custom_time_ns;
};

struct object {
    ty_str bucket, name;
    int64_t generation; /* microseconds since 1970 when it was made, or a little more (O3) */
    int64_t metageneration;
    int64_t size;
    int64_t create_ns, update_ns;
    int64_t delete_ns;      /* when it stopped being live; 0: it is live */
    int64_t hard_delete_ns; /* soft-deleted: gone for good from then on */
    bool soft_deleted; /* to be restored or forgotten; else, with delete_ns, an old generation */
    bool has_md5;      /* not for composed ones */
    bool has_crc32c;   /* false only in a list, for a file that changed behind our back and that
                          hash_bytes did not reach */
    unsigned char md5[16];
    uint32_t crc32c;
    int components; /* > 0: composed of that many */
    struct object_settings settings;
    /* What stat said; for objects_unchanged. */
    int64_t mtime_ns;
};

/* 1 to 1024 bytes of UTF-8, no NUL, CR or LF, not "." or "..", not below
 * .well-known/acme-challenge/. */
TY_NODISCARD ty_err objects_name_check(ty_str name);

/* The live object, or with `generation` that one (live or old; soft-deleted when `soft_deleted`
 * says so). Hashes of a changed file are computed here: that reads all of it. */
struct object_ref {
    ty_str bucket, name;
    int64_t generation; /* 0: the live one */
    bool soft_deleted;
};
TY_NODISCARD ty_err objects_get(struct objects *o, struct ty_arena *a, struct object_ref ref,
                                const struct object_conditions *conditions,
                                struct object *ret_object);
/* The same, with its bytes: *ret_fd is open for reading, size bytes long, at 0. It stays readable
 * when the object is overwritten or deleted here. */
TY_NODISCARD ty_err objects_read(struct objects *o, struct ty_arena *a, struct object_ref ref,
                                 const struct object_conditions *conditions,
                                 struct object *ret_object, int *ret_fd);
/* The same for an event loop: never waits, for the disk or for anybody. False: it cannot be told
 * now whether and how; ask objects_read on another thread. */
bool objects_read_now(struct objects *o, struct ty_arena *a, struct object_ref ref,
                      const struct object_conditions *conditions, struct object *ret_object,
                      int *ret_fd);
/* False: somebody wrote into the file since. Ask before the last bytes are sent. */
bool objects_unchanged(const struct object *object, int fd);

/* `edit` changes settings as they are at that moment; metageneration + 1. As objects_bucket_patch.
 */
typedef ty_err (*object_edit)(struct ty_arena *a, struct object_settings *settings, void *arg);
TY_NODISCARD ty_err objects_patch(struct objects *o, struct ty_arena *a, struct object_ref ref,
                                  const struct object_conditions *conditions, object_edit edit,
                                  void *arg, struct object *ret_object);
/* The live one (kept as old or soft-deleted as the bucket says), or with a generation that one, for
 * good (soft-deleted as the bucket says). */
TY_NODISCARD ty_err objects_delete(struct objects *o, struct object_ref ref,
                                   const struct object_conditions *conditions);

/* ---- making objects from objects ---- */

/* Where to, and how. */
struct object_target {
    ty_str bucket, name;
    const struct object_conditions *conditions; /* NULL: none */
    const struct object_settings *settings;     /* NULL: the source's (compose: none) */
};
/* Copy or rewrite: always finished in one call; shares blocks where the file system can (reflink).
 */
TY_NODISCARD ty_err objects_copy(struct objects *o, struct ty_arena *a, struct object_ref source,
                                 const struct object_conditions *source_conditions,
                                 const struct object_target *target, struct object *ret_object);
/* Within one bucket, in one commit: never both, never neither. */
TY_NODISCARD ty_err objects_move(struct objects *o, struct ty_arena *a, struct object_ref source,
                                 const struct object_conditions *source_conditions,
                                 const struct object_target *target, struct object *ret_object);
struct object_part {
    ty_str name;
    int64_t generation; /* 0: the live one */
    const struct object_conditions *conditions;
};
/* 1 to OBJECTS_COMPOSE parts of the target's bucket, in order. crc32c comes from theirs; there is
 * no md5. `expect_crc32c`, unless NULL, must be the result's. */
TY_NODISCARD ty_err objects_compose(struct objects *o, struct ty_arena *a,
                                    const struct object_target *target,
                                    const struct object_part *parts, size_t count,
                                    const uint32_t *expect_crc32c, struct object *ret_object);
/* A soft-deleted generation becomes live again, as a new generation. */
TY_NODISCARD ty_err objects_restore(struct objects *o, struct ty_arena *a, struct object_ref ref,
                                    const struct object_conditions *conditions,
                                    struct object *ret_object);

/* ---- uploads ---- */

struct objects_upload;
/* Begin an object in one go (media, multipart). Conditions are tested here, to refuse early, and
 * again when it is finished. NULL in target->settings: all empty. Everything is copied. */
TY_NODISCARD ty_err objects_upload_begin(struct objects *o, const struct object_target *target,
                                         struct objects_upload **ret_upload);
/* Append; hashed on the way. After a failure only objects_upload_free (or, for a session, _pause).
 */
TY_NODISCARD ty_err objects_upload_write(struct objects_upload *u, const void *ptr, size_t len);
/* Bytes so far: the offset of the next one. */
int64_t objects_upload_offset(const struct objects_upload *u);
/* What the client says the bytes are; NULL leaves one out. Tested by _finish: TY_INVALID_ARGUMENT,
 * and nothing stays. */
void objects_upload_expect(struct objects_upload *u, const unsigned char *md5,
                           const uint32_t *crc32c);
/* Make it exist. The upload is still to be freed, and can do nothing more. */
TY_NODISCARD ty_err objects_upload_finish(struct objects_upload *u, struct ty_arena *a,
                                          struct object *ret_object);
/* Ends the caller's hold. One that was not finished leaves nothing; a session's stays at its last
 * pause. NULL is fine. */
void objects_upload_free(struct objects_upload *u);

/* ---- resumable sessions: rows; nothing is held in memory between requests ---- */

struct objects_session {
    char id[OBJECTS_SESSION_BYTES];
    ty_str bucket, name;
    int64_t size;      /* declared at the start or by a later chunk; -1: not yet known */
    int64_t offset;    /* bytes on disk: what a client may forget */
    int64_t expire_ns; /* OBJECTS_SESSION_TTL_NS after its start */
    bool done;
    struct object object; /* done: what it made (as it was then) */
};
/* `size` -1: not known. `md5` and `crc32c` as declared at the start; NULL leaves one out. More than
 * OBJECTS_SESSIONS are open: TY_RESOURCE_EXHAUSTED. */
TY_NODISCARD ty_err objects_session_create(struct objects *o, const struct object_target *target,
                                           int64_t size, const unsigned char *md5,
                                           const uint32_t *crc32c,
                                           char ret_id[OBJECTS_SESSION_BYTES]);
/* TY_NOT_FOUND also for a cancelled or expired one. A done one is kept until it expires, for
 * clients that did not hear the answer. */
TY_NODISCARD ty_err objects_session_get(struct objects *o, struct ty_arena *a, ty_str id,
                                        struct objects_session *ret_session);
/* Take up a session at `offset`, at most what is on disk (else TY_OUT_OF_RANGE); bytes it already
 * has are skipped by objects_upload_write. `size` -1, or the whole size: one other than declared
 * before is TY_INVALID_ARGUMENT. Somebody else is writing to it: TY_ABORTED. Then _write, and
 * _pause or _finish. */
TY_NODISCARD ty_err objects_session_resume(struct objects *o, ty_str id, int64_t offset,
                                           int64_t size, struct objects_upload **ret_upload);
/* Sync what came and record it: *ret_offset is what the session has now. */
TY_NODISCARD ty_err objects_upload_pause(struct objects_upload *u, int64_t *ret_offset);
TY_NODISCARD ty_err objects_session_cancel(struct objects *o, ty_str id);

/* ---- lists ---- */

struct object_query {
    ty_str bucket;
    ty_str prefix, delimiter;
    ty_str start, end; /* startOffset (from), endOffset (below); empty: none */
    ty_str glob;       /* matchGlob; empty: all. * ? [a-z] {a,b} stay within a part, ** does not */
    ty_str token;      /* the page before's; empty: the first */
    size_t limit;      /* items and prefixes; 0 or more than OBJECTS_PAGE: OBJECTS_PAGE */
    bool versions;     /* old generations too, oldest first within a name */
    bool soft_deleted; /* only soft-deleted ones */
    bool include_trailing_delimiter; /* "dir/" is an item beside being a prefix */
    int64_t hash_bytes; /* read at most that much to fill in missing hashes, smallest items first */
};
struct object_page {
    struct object *items;
    size_t item_count;
    ty_str *prefixes; /* sorted */
    size_t prefix_count;
    ty_str next_token; /* empty: the end. A page may be short, or empty, and yet have one */
};
/* By name, in byte order. Each page is what the disk holds at that moment. */
TY_NODISCARD ty_err objects_list(struct objects *o, struct ty_arena *a,
                                 const struct object_query *query, struct object_page *ret_page);
/* Does `name` match a glob as above? A bad glob (unclosed [ or {, too long): TY_INVALID_ARGUMENT.
 */
TY_NODISCARD ty_err objects_glob_check(ty_str glob);
bool objects_glob_match(ty_str glob, ty_str name); /* of a glob that was checked */

/* ---- upkeep ---- */

/* Look at every folder of a bucket (empty: of all) for changes made behind our back. For a job's
 * end. */
TY_NODISCARD ty_err objects_scan(struct objects *o, ty_str bucket);
/* The same for all, on a thread of its own, soon; then hashes that are missing. Never blocks. A
 * list that leaves some out for lack of hash_bytes calls it. */
void objects_scan_soon(struct objects *o);
/* Expired sessions, soft-deleted objects past their time, lifecycle rules. The thread does it a
 * minute after the start, then every hour, and seconds after a bucket's lifecycle or soft-delete
 * policy changed. */
TY_NODISCARD ty_err objects_sweep(struct objects *o);
/* Where a bucket's files are, for binding at /gcs: "<data>/buckets/<bucket>". */
const char *objects_bucket_path(struct objects *o, struct ty_arena *a, ty_str bucket);

#endif
