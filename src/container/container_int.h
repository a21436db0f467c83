/* container_int.h -- shared by the files of container. */
#ifndef TY_CONTAINER_INT_H
#define TY_CONTAINER_INT_H

#include "container/container.h"

/* ---- starting the engine (call.c) ---- */

enum { CALL_BYTES = 1 << 20 }; /* more output than that is dropped */
/* Its stdout and stderr, and how it ended. */
struct call {
    struct ty_buf out, err;
    int status; /* wait status */
};
void call_clear(struct call *c);
/* Run argv (by PATH) and collect what it says. TY_DEADLINE_EXCEEDED: killed after timeout_ms. The
 * call is initialised here, to be cleared in any case. */
TY_NODISCARD ty_err call_run(struct call *c, const char *const *argv, int64_t timeout_ms);
/* The last line of what it said on stderr, or a word about its status. From the arena. */
const char *call_reason(struct ty_arena *a, const struct call *c);

/* ---- the file `engine` (engine.c) ---- */

/* Read it from a folder. TY_NOT_FOUND, TY_DATA_LOSS. The key is empty or what was written. */
TY_NODISCARD ty_err engine_read(struct ty_arena *a, int dirfd, struct container_engine *ret_engine,
                                ty_str *ret_key);
/* The beginning of the command that removes containers at once; returns how many words it has. */
enum { ENGINE_RM_WORDS = 5 };
size_t engine_rm_words(const struct container_engine *engine, const char **argv);
TY_NODISCARD ty_err engine_write(int dirfd, const struct container_engine *engine, const char *key);

#endif
