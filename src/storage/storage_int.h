/* storage_int.h -- what the files of storage share.
 *
 *   url.c      gs://bucket/name#generation, file://path, -
 *   glob.c     the wildcards * ** ? [...]
 *   api.c      calls of the JSON API
 *   expand.c   a URL or wildcard on either side as what it stands for
 *   cp.c       which source goes where; cp and mv
 *   transfer.c one file or object to its destination
 *   pool.c     many of them at once
 *   digest.c   MD5 and crc32c of what is moved
 *   ...        the other commands by their names */
#ifndef TY_STORAGE_INT_H
#define TY_STORAGE_INT_H

#include "http/http.h"
#include "storage/storage.h"
#include "wire/wire.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    STORAGE_CALL_MS = 120 * 1000,
    STORAGE_IDLE_MS = 120 * 1000,
    STORAGE_PAGE = 1000,
    STORAGE_RESUMABLE_BYTES = 8 * 1024 * 1024, /* from here on, as both tools have it */
    STORAGE_NAME_BYTES = 1024,
};

/* ---- url.c ---- */

struct storage_url {
    bool cloud;
    bool stream;       /* "-" */
    ty_str bucket;     /* of a cloud URL; empty: gs:// */
    ty_str name;       /* object's, or the local path */
    ty_str generation; /* empty: the live one */
};
/* Views into `text`. TY_INVALID_ARGUMENT in the words of the style. */
TY_NODISCARD ty_err storage_url_parse(ty_str text, enum storage_style style,
                                      struct storage_url *ret_url);
/* gs://bucket/name, gs://bucket/, file://path */
char *storage_url_text(struct ty_arena *a, const struct storage_url *url);
bool storage_has_wildcard(ty_str text);

/* ---- glob.c ---- */

/* Does the whole of `text` match? `*`: any bytes, `?`: one character, `[a-z]`, `[!a]`: one of them;
 * a `[` without its `]` is itself. A slash is a character like any other. */
bool storage_glob_match(ty_str pattern, ty_str text);
/* A pattern for object names: a folder written as two stars may be none at all, so there are up to
 * four ways to match. */
struct storage_pattern {
    ty_str ways[4];
    size_t count;
};
void storage_pattern_init(struct ty_arena *a, ty_str text, struct storage_pattern *ret_pattern);
bool storage_pattern_match(const struct storage_pattern *p, ty_str name);
/* How a name with wildcards is asked for, one folder at a time: list `prefix` (by "/" unless
 * `flat`), keep what matches `here`, and go on with `rest` below it. Views. */
struct storage_step {
    ty_str prefix, here, rest;
    bool flat;
};
void storage_step_of(ty_str name, struct storage_step *ret_step);

/* ---- api.c ---- */

/* A thread's connection. */
/* Was the last call's bucket there? A folder of its name is one in the server's buckets/. */
enum storage_missing { STORAGE_THERE, STORAGE_MISSING, STORAGE_MISSING_HAS_FOLDER };

struct storage_conn {
    struct storage *s;
    struct http_client client;
    int status;    /* HTTP's, of the last answer; 0: none came */
    ty_str bucket; /* of the last call */
    enum storage_missing bucket_missing;
};
TY_NODISCARD ty_err storage_conn_open(struct storage_conn *c, struct storage *s);
void storage_conn_close(struct storage_conn *c);

/* An object as a listing has it. Strings are in the caller's arena, or valid for the call. */
struct storage_object {
    ty_str bucket, name;
    int64_t size;
    ty_str generation, metageneration, md5, crc32c, content_type, content_encoding, etag;
    ty_str created, updated;
    ty_str mtime; /* goog-reserved-file-mtime */
    json_t *json; /* borrowed: for the call */
};

/* One call; *ret_reply is a new reference. Errors are as storage_fail_api says them. */
TY_NODISCARD ty_err storage_call(struct storage_conn *c, enum http_method method,
                                 const char *target, const json_t *body, json_t **ret_reply);
/* /storage/v1/b/BUCKET, with /o/NAME if it is not empty */
char *storage_path(struct ty_arena *a, ty_str bucket, ty_str name);
/* "&name=value", encoded */
void storage_query_add(struct ty_buf *b, const char *name, ty_str value);
void storage_object_from(const json_t *json, struct storage_object *ret_object);
struct storage_object *storage_object_dup(struct ty_arena *a, const struct storage_object *o);
TY_NODISCARD ty_err storage_object_get(struct storage_conn *c, struct ty_arena *a,
                                       const struct storage_url *url,
                                       struct storage_object *ret_object);
/* `o` may have preconditions; NULL: none. */
TY_NODISCARD ty_err storage_object_delete(struct storage_conn *c, const struct storage_options *o,
                                          const struct storage_url *url);
/* "&ifGenerationMatch=..." of what was asked for. */
void storage_conditions_add(struct ty_buf *b, const struct storage_options *o);
TY_NODISCARD ty_err storage_bucket_get(struct storage_conn *c, ty_str bucket, json_t **ret_bucket);
struct storage_listing {
    ty_str bucket, prefix, delimiter;
    bool versions;
};
/* Objects of all pages as they come, then the prefixes. NULL for prefixes: they are not wanted. */
TY_NODISCARD ty_err storage_list(struct storage_conn *c, const struct storage_listing *l,
                                 ty_err (*object)(void *arg, const struct storage_object *o),
                                 ty_err (*prefix)(void *arg, ty_str prefix), void *arg);
TY_NODISCARD ty_err storage_buckets_each(struct storage_conn *c,
                                         ty_err (*bucket)(void *arg, const json_t *bucket),
                                         void *arg);
/* The server's error of an answer, in the words of the style. */
TY_NODISCARD ty_err storage_fail_api(struct storage_conn *c, const struct http_reply *reply);

/* ---- text.c ---- */

/* What went wrong, as the style says it, from this thread's message. gcloud names the command
 * unless it is NULL: in the middle of several things it does not. Returns STORAGE_FAILED. */
int storage_say_error(struct storage_conn *c, const char *command, ty_err err);
/* "CommandException: ..." for gsutil, the bare text for gcloud. */
ty_err storage_fail(const struct storage *s, ty_err code, const char *fmt, ...) TY_PRINTF(3, 4);
void storage_note(const struct storage *s, const char *fmt, ...) TY_PRINTF(2, 3); /* not with -q */
const char *storage_human(struct ty_arena *a, int64_t bytes, enum storage_style style);
void storage_print(ty_str text); /* a line on stdout */
/* "Mon, 16 Nov 2026 03:14:07 GMT" */
const char *storage_date(struct ty_arena *a, ty_str rfc3339);
/* 2026-11-16T03:14:07Z */
const char *storage_second(struct ty_arena *a, ty_str rfc3339);
/* 2026-11-16T03:14:07+0000 */
const char *storage_stamp(struct ty_arena *a, ty_str rfc3339);
const char *storage_content_type(ty_str path); /* by its ending; NULL: not known */
/* A storage class or gsutil's short name for one, as requests have it: of objects in capitals, of
 * gsutil's buckets in small letters. */
const char *storage_class_text(struct ty_arena *a, const char *given, bool capitals);

/* ---- expand.c ---- */

enum storage_kind { STORAGE_IS_OBJECT, STORAGE_IS_PREFIX, STORAGE_IS_BUCKET };
/* What a URL stands for: a file or folder has a path as its name. */
struct storage_ref {
    enum storage_kind kind;
    struct storage_url url;
    struct storage_object *object; /* of an object; NULL for a file */
    int64_t size;
    int64_t mtime;                    /* of a file, seconds */
    const struct storage_url *source; /* the URL it came from */
    bool in_container;                /* found under what the URL stands for */
};
struct storage_refs {
    struct ty_arena *arena;
    struct storage_ref *items;
    size_t count, room;
};
void storage_refs_add(struct storage_refs *refs, const struct storage_ref *ref);
enum { STORAGE_MAX_REFS = 20 * 1000 * 1000 };
/* Add what the URL stands for; nothing is TY_OK. */
TY_NODISCARD ty_err storage_expand(struct storage_conn *c, const struct storage_url *url,
                                   bool versions, struct storage_refs *refs);
/* The same, and what is under folders and buckets instead of these, if `recursive`; else they are
 * left out, and said. */
struct storage_expanded {
    size_t top;     /* how many the URL itself stands for */
    size_t folders; /* of these, how many are folders or buckets */
    size_t added;
};
TY_NODISCARD ty_err storage_expand_all(struct storage_conn *c, const struct storage_url *url,
                                       const struct storage_options *o, struct storage_refs *refs,
                                       struct storage_expanded *ret_expanded);

/* ---- digest.c ---- */

struct storage_digest {
    char md5_state[96]; /* libcrypto's MD5_CTX */
    uint32_t crc32c;
};
TY_NODISCARD ty_err storage_digest_load(void);
void storage_digest_init(struct storage_digest *d);
void storage_digest_add(struct storage_digest *d, ty_str bytes);
struct storage_hashes {
    unsigned char md5[16];
    uint32_t crc32c;
    char md5_text[32], crc32c_text[16]; /* base64 */
};
void storage_digest_end(struct storage_digest *d, struct storage_hashes *ret_hashes);
TY_NODISCARD ty_err storage_file_hashes(const char *path, struct storage_hashes *ret_hashes);
/* TY_DATA_LOSS unless what the server says of an object is what was moved; a hash it lacks is not
 * looked at. */
TY_NODISCARD ty_err storage_hashes_check(const struct storage_hashes *h, ty_str md5, ty_str crc32c,
                                         const char *what);

/* ---- progress.c ---- */

struct storage_progress {
    struct storage *s;
    pthread_mutex_t lock;
    int64_t started_ns, shown_ns;
    atomic_llong bytes_done, bytes_total;
    atomic_int files_done, files_total;
    bool terminal, shown;
};
const char *storage_tenth(struct ty_arena *a, int64_t bytes); /* "1.5 MiB" */
void storage_progress_init(struct storage_progress *p, struct storage *s);
void storage_progress_clear(struct storage_progress *p);
void storage_progress_add(struct storage_progress *p, int64_t bytes);
/* A line of its own, above the bar. */
void storage_progress_say(struct storage_progress *p, const char *fmt, ...) TY_PRINTF(2, 3);
void storage_progress_end(struct storage_progress *p);

/* ---- transfer.c ---- */

struct storage_copy {
    struct storage_url from, to;
    struct storage_object *object; /* of a cloud source, if it is known */
    int64_t size;                  /* -1: not known */
    int64_t mtime;                 /* to be kept with the object; 0: not */
    const struct storage_ref *ref;
    bool again; /* another one goes to the same place */
};
enum storage_copied { STORAGE_COPIED, STORAGE_SKIPPED };
TY_NODISCARD ty_err storage_copy_run(struct storage_conn *c, const struct storage_options *o,
                                     const struct storage_copy *copy, struct storage_progress *p,
                                     enum storage_copied *ret_copied);
/* The object's bytes to stdout. */
TY_NODISCARD ty_err storage_cat_object(struct storage_conn *c, const struct storage_url *url,
                                       ty_str range);

/* ---- upload.c, download.c ---- */

TY_NODISCARD ty_err storage_upload(struct storage_conn *c, struct ty_arena *a,
                                   const struct storage_options *o, const struct storage_copy *copy,
                                   struct storage_progress *p, ty_str *ret_generation);
TY_NODISCARD ty_err storage_download(struct storage_conn *c, struct ty_arena *a,
                                     const struct storage_copy *copy, struct storage_progress *p);

/* ---- pool.c ---- */

/* Call `work` for 0..count-1 on several threads, each with its own connection. After an error no
 * new one is begun, unless `all`; *ret_failed tells how many failed. Each failure's text is given
 * to `failed`, one at a time; without it the first one is returned. */
struct storage_pool {
    struct storage *s;
    int threads;
    bool all;
    size_t count;
    ty_err (*work)(struct storage_conn *c, void *arg, size_t index);
    void (*failed)(struct storage_conn *c, void *arg, size_t index, ty_err err);
    void *arg;
};
/* An error is told of as if `c` had met it. */
TY_NODISCARD ty_err storage_pool_run(struct storage_pool *pool, struct storage_conn *c,
                                     size_t *ret_failed);
int storage_pool_threads(const struct storage *s, size_t count);
/* Ctrl-C, or a request to end, while a pool runs: work in hand fails with TY_CANCELLED, so that
 * nothing half done is left, and the pool ends the process by that signal. A second one ends it at
 * once. */
bool storage_interrupted(void);

/* ---- cp.c ---- */

/* Where copies go. */
struct storage_destination {
    struct storage_url url;
    bool container; /* it is a folder or bucket that is there */
};
TY_NODISCARD ty_err storage_destination_find(struct storage_conn *c, const char *word,
                                             struct storage_destination *ret_destination);
/* The name a source gets there: cp's rules, which are those of Linux's cp.
 *   many  there are several sources   many_top  there are several before recursion */
TY_NODISCARD ty_err storage_destination_of(const struct storage *s, struct ty_arena *a,
                                           const struct storage_ref *ref, bool many, bool many_top,
                                           bool recursive, const struct storage_destination *d,
                                           struct storage_url *ret_url);
/* Copies on several threads; with `move` the sources are removed. `missing` others were not there,
 * which was said, and count as failed. Returns the exit status. */
int storage_copies_run(struct storage_conn *c, const struct storage_options *o,
                       struct storage_copy *copies, size_t count, size_t missing, bool move);
/* "The following URLs matched no objects or files", with each in `words`. */
ty_err storage_fail_unmatched(const struct storage *s, char **words, size_t count);

/* ---- describe.c ---- */

/* As gcloud describes them: its own names, sorted. New references. */
json_t *storage_object_described(struct ty_arena *a, const json_t *object);
json_t *storage_bucket_described(struct ty_arena *a, const json_t *bucket);
/* All that is known, for people, as the style has it: ls -L, stat. */
void storage_object_full(const struct storage *s, const json_t *object, const char *url,
                         bool with_acl);
void storage_bucket_full(const struct storage *s, const json_t *bucket);
int storage_print_value(const struct storage *s, const json_t *value);

/* ---- the commands ---- */

#define STORAGE_COMMAND(id, name)                                                                  \
    int storage_##id(struct storage *s, const struct storage_options *o, char **words, int count);
#include "storage/commands.def"
#undef STORAGE_COMMAND

#endif
