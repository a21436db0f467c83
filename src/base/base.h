/* base.h -- what every module stands on: errors, strings, arenas, logs, the seam.
 *
 * Where to start: errors (ty_fail, ty_wrap), then struct ty_arena and ty_str.
 * Who frees: an arena owns what was allocated from it; nothing else here owns
 * memory except struct ty_buf (ty_buf_clear) and ty_err_take (caller frees).
 * Threads: the error message, the log's request id and the seam's clock are
 * per thread or safe to call from any; a struct belongs to one thread at a time.
 * One test: build/test_base arena/grows. */
#ifndef TY_BASE_H
#define TY_BASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TY_NODISCARD        __attribute__((warn_unused_result))
#define TY_PRINTF(fmt, arg) __attribute__((format(printf, fmt, arg)))
#define TY_NONNULL          __attribute__((returns_nonnull))
#define TY_COUNT(a)         (sizeof(a) / sizeof((a)[0]))

/* ---- errors: equal to google.rpc.Code ---- */

/* name, google.rpc.Code, HTTP status */
#define TY_ERR_MAP(X)                                                                              \
    X(OK, 0, 200)                                                                                  \
    X(CANCELLED, 1, 499)                                                                           \
    X(UNKNOWN, 2, 500)                                                                             \
    X(INVALID_ARGUMENT, 3, 400)                                                                    \
    X(DEADLINE_EXCEEDED, 4, 504)                                                                   \
    X(NOT_FOUND, 5, 404)                                                                           \
    X(ALREADY_EXISTS, 6, 409)                                                                      \
    X(PERMISSION_DENIED, 7, 403)                                                                   \
    X(RESOURCE_EXHAUSTED, 8, 429)                                                                  \
    X(FAILED_PRECONDITION, 9, 400)                                                                 \
    X(ABORTED, 10, 409)                                                                            \
    X(OUT_OF_RANGE, 11, 400)                                                                       \
    X(UNIMPLEMENTED, 12, 501)                                                                      \
    X(INTERNAL, 13, 500)                                                                           \
    X(UNAVAILABLE, 14, 503)                                                                        \
    X(DATA_LOSS, 15, 500)                                                                          \
    X(UNAUTHENTICATED, 16, 401)

typedef enum ty_err {
#define TY_ERR_ENUM(name, code, http) TY_##name = code,
    TY_ERR_MAP(TY_ERR_ENUM)
#undef TY_ERR_ENUM
} ty_err;

const char *ty_err_name(ty_err err); /* "NOT_FOUND"; "UNKNOWN" for a code that is none */
int ty_err_http(ty_err err);

/* Record this thread's message and return `code`. Message style: what failed
 * first, lower case, subject in quotes: "cannot open '%s': %s". */
ty_err ty_fail(ty_err code, const char *fmt, ...) TY_PRINTF(2, 3);
/* Put context before the current message: "job 17: cannot open ...". */
ty_err ty_wrap(ty_err err, const char *fmt, ...) TY_PRINTF(2, 3);
/* ty_fail with the code that fits errno `err_no`, and ": strerror" appended. */
ty_err ty_fail_errno(int err_no, const char *fmt, ...) TY_PRINTF(2, 3);
/* This thread's current message; "" if none. Valid until the next ty_fail/ty_wrap here. */
const char *ty_err_message(void);
/* Move the message out: the caller frees. Never NULL. */
char *ty_err_take(void);

/* Our own bugs only. Stays on in release builds; prints and aborts. */
#define ty_assert(cond) ((cond) ? (void)0 : ty_assert_fail(#cond, __FILE__, __LINE__))
_Noreturn void ty_assert_fail(const char *cond, const char *file, int line);

/* ---- strings ---- */

/* Borrowed bytes, passed by value; not NUL-terminated unless said. */
typedef struct ty_str {
    const char *ptr;
    size_t len;
} ty_str;

#define TY_STR(literal) ((ty_str){(literal), sizeof(literal) - 1})
#define TY_STR_FMT      "%.*s"
#define TY_STR_ARG(s)   (int)(s).len, (s).ptr
ty_str ty_str_of(const char *cstr); /* NULL gives an empty string */
bool ty_str_eq(ty_str a, ty_str b);
bool ty_str_is(ty_str a, const char *cstr);
int ty_str_cmp(ty_str a, ty_str b);
bool ty_str_starts(ty_str s, ty_str prefix);
bool ty_str_ends(ty_str s, ty_str suffix);
ty_str ty_str_trim(ty_str s); /* ASCII spaces, tabs, CR, LF */
ty_str ty_str_drop(ty_str s, size_t n);
/* Cut at the first `sep`: *ret_head is what is before it, *s what follows.
 * Returns false, with the whole rest in *ret_head, when there is no `sep`. */
bool ty_str_split(ty_str *s, char sep, ty_str *ret_head);
/* The whole string is one decimal number in range, or TY_INVALID_ARGUMENT. */
TY_NODISCARD ty_err ty_parse_i64(ty_str s, int64_t *ret_value);
/* Valid UTF-8 without surrogates or overlong forms. */
bool ty_utf8_valid(ty_str s);
/* Levenshtein's distance of two short names, for suggestions; 99 for long ones. */
int ty_str_distance(ty_str a, ty_str b);

/* ---- arenas: memory of one lifetime ---- */

/* Zero-initialised is empty and ready. One thread at a time. */
struct ty_arena {
    struct ty_chunk *head;
    size_t total_bytes;
};
/* Zeroed, 16-byte aligned, never NULL (out of memory aborts: sizes from input meet a ceiling
 * first). */
void *ty_alloc(struct ty_arena *a, size_t size) TY_NONNULL;
#define ty_new(a, type)          ((type *)ty_alloc((a), sizeof(type)))
#define ty_new_array(a, type, n) ((type *)ty_alloc_array((a), (n), sizeof(type)))
void *ty_alloc_array(struct ty_arena *a, size_t n, size_t size);
ty_str ty_str_dup(struct ty_arena *a, ty_str s);        /* NUL-terminated copy */
char *ty_cstr(struct ty_arena *a, ty_str s) TY_NONNULL; /* NUL-terminated copy */
char *ty_format(struct ty_arena *a, const char *fmt, ...) TY_PRINTF(2, 3) TY_NONNULL;
void ty_arena_clear(struct ty_arena *a); /* frees everything; ready again */

/* ---- buffers: bytes that grow up to a limit ---- */

/* After an addition would pass `limit`, `full` is set and further additions do
 * nothing: check once, at the end, with ty_buf_check. Always NUL-terminated. */
struct ty_buf {
    char *ptr;
    size_t len, cap, limit;
    bool full;
};
void ty_buf_init(struct ty_buf *b, size_t limit);
void ty_buf_clear(struct ty_buf *b); /* frees; the limit stays */
void ty_buf_add(struct ty_buf *b, const void *ptr, size_t len);
void ty_buf_adds(struct ty_buf *b, ty_str s);
void ty_buf_addz(struct ty_buf *b, const char *cstr);
void ty_buf_addc(struct ty_buf *b, char c);
void ty_buf_addf(struct ty_buf *b, const char *fmt, ...) TY_PRINTF(2, 3);
ty_str ty_buf_str(const struct ty_buf *b);
/* TY_RESOURCE_EXHAUSTED, naming `what` and the limit, if something did not fit. */
TY_NODISCARD ty_err ty_buf_check(const struct ty_buf *b, const char *what);

/* ---- log: a stable event name, then key=value; never a secret ---- */

enum ty_log_level { TY_LOG_DEBUG, TY_LOG_INFO, TY_LOG_WARN, TY_LOG_ERROR };
void ty_log_level_set(enum ty_log_level least);
void ty_log(enum ty_log_level level, const char *event, const char *fmt, ...) TY_PRINTF(3, 4);
#define log_debug(...) ty_log(TY_LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  ty_log(TY_LOG_INFO, __VA_ARGS__)
#define log_warn(...)  ty_log(TY_LOG_WARN, __VA_ARGS__)
#define log_error(...) ty_log(TY_LOG_ERROR, __VA_ARGS__)

/* ---- the seam: time, randomness, disk and processes, replaceable by tests ----
 *
 * TY_CRASH=[role:]n   SIGKILLs the process at its nth step (role default: server)
 * TY_FAULT=op:n[+]    fails the nth step of kind op with EIO (op:n+: that and every later one);
 *                     op is write, sync, rename, commit or fork; "enospc-write:n+" gives ENOSPC,
 *                     "short-write:n" does so after half of the bytes
 * TY_STEPS=file       appends "role count" at exit (how many steps there were)
 * TY_CLOCK=file       its first 8 bytes, an int64 of nanoseconds, are added to the wall clock */
enum ty_op { TY_OP_WRITE, TY_OP_SYNC, TY_OP_RENAME, TY_OP_COMMIT, TY_OP_FORK, TY_OP_COUNT };

/* Name this process for TY_CRASH ("server", "conductor", "launcher", "client"). Resets the count.
 */
void ty_seam_role(const char *role);
/* Count one step; returns 0, or the errno that was injected. May not return. Thread-safe. */
int ty_seam_step(enum ty_op op);
uint64_t ty_seam_steps(void);

int64_t ty_now_ns(void);    /* wall clock, since 1970; what people read, never for deadlines */
int64_t ty_boot_ns(void);   /* CLOCK_BOOTTIME; what deadlines use */
int64_t ty_thread_ns(void); /* CPU time of this thread */
int64_t ty_boot_ms(void);
/* Wait for a condition at most so long, whatever the wall clock does. False: the time is over. */
bool ty_cond_wait_ms(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms);
void ty_random(void *ptr, size_t len);

/* Write all bytes (EINTR and short writes handled). TY_RESOURCE_EXHAUSTED on a full disk. */
TY_NODISCARD ty_err ty_write_all(int fd, const void *ptr, size_t len);
TY_NODISCARD ty_err ty_sync(int fd); /* fdatasync */
TY_NODISCARD ty_err ty_rename_at(int dirfd, const char *from, const char *to);
/* From one folder to another: 0, or errno, for callers that go on from some of them. */
TY_NODISCARD int ty_rename_between(int from_dir, const char *from, int to_dir, const char *to);
/* fork through the seam: -1 with errno set on failure. */
pid_t ty_fork(void);

/* Whole small files. The limit is checked before anything is read. */
TY_NODISCARD ty_err ty_file_read(int dirfd, const char *path, size_t limit, struct ty_arena *a,
                                 ty_str *ret_bytes);
/* Replace `path` as a whole: temporary file, sync, rename, sync of the folder. */
TY_NODISCARD ty_err ty_file_replace(int dirfd, const char *path, ty_str bytes, mode_t mode);
/* mkdir -p; existing is fine. */
TY_NODISCARD ty_err ty_mkdirs(const char *path, mode_t mode);
/* Remove a tree, not following links. A missing one is fine. */
TY_NODISCARD ty_err ty_remove_tree(int dirfd, const char *path);

/* ---- a file that one at a time may have (lock.c) ---- */

/* Lock an open file or folder until it is closed or the process has ended. TY_ABORTED, without a
 * message: somebody has it. TY_UNIMPLEMENTED: its file system has no locks. */
TY_NODISCARD ty_err ty_lock_take(int fd, const char *path);
/* Write into a file that is there only to be locked, and is, who has it now. */
TY_NODISCARD ty_err ty_lock_sign(int fd, const char *path);
/* Who has it: "replica workerpool0-0 of job 17 (attempt 1) on HOST (since TIME)" if it is one of a
 * job, else "process 4711 on HOST (since TIME)"; "another process" if its pid means nothing here.
 * For after TY_ABORTED. */
const char *ty_lock_holder(struct ty_arena *a, int dirfd, const char *path) TY_NONNULL;

/* ---- settings: config.def is the table; etc/trainyard.conf documents it ---- */

struct ty_config {
#define SETTING_INT(name, def, min, max, doc) int64_t name;
#define SETTING_STR(name, def, doc)           char *name;
#define SETTING_WORD(name, def, words, doc)   char *name; /* one of `words` */
#include "base/config.def"
#undef SETTING_INT
#undef SETTING_STR
#undef SETTING_WORD
};
/* Defaults, all memory from `a`. */
void ty_config_init(struct ty_config *c, struct ty_arena *a);
/* Read "key = value" lines ('#' starts a comment). Unknown keys, bad numbers and
 * values out of range are TY_INVALID_ARGUMENT naming `path`, line and key. */
TY_NODISCARD ty_err ty_config_parse(struct ty_config *c, struct ty_arena *a, const char *path,
                                    ty_str text);
TY_NODISCARD ty_err ty_config_set(struct ty_config *c, struct ty_arena *a, ty_str key,
                                  ty_str value);

#define TY_VERSION "0.1.0"

#include "base/banned.h"
#endif
