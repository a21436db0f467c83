/* python_int.h -- shared by the files of python. */
#ifndef TY_PYTHON_INT_H
#define TY_PYTHON_INT_H

#include "python/python.h"

enum {
    PYTHON_TEXT_BYTES = 64 << 10,     /* pyproject.toml, WHEEL: what is longer is cut */
    PYTHON_METADATA_BYTES = 8 << 20,  /* METADATA has the README in it */
    PYTHON_OUTPUT_BYTES = 4 << 20,    /* of a program whose output we read */
    PYTHON_POOLS = 4,                 /* a job has no more; links are python-0 to python-3 */
    PYTHON_NAME_BYTES = 200,          /* a distribution's name or version */
    PYTHON_UNUSED_S = 30 * 24 * 3600, /* environments that nobody used for so long go */
};

/* ---- lists of words (run.c) ---- */

/* A NULL-ended list that grows; memory from the arena. */
struct words {
    struct ty_arena *a;
    const char **list; /* NULL: none yet */
    size_t count, cap;
};
void words_add(struct words *w, const char *word);
bool words_has(const struct words *w, const char *word);
void words_add_once(struct words *w, const char *word); /* unless it is there */
void words_add_all(struct words *w, const struct words *from);
char *words_join(const struct words *w, const char *between);

/* ---- running programs (run.c) ---- */

struct program {
    const char *const *argv;
    char *const *env;                 /* NULL: ours */
    struct ty_buf *capture;           /* its stdout; NULL: goes to ours */
    bool quiet;                       /* neither stdout (unless captured) nor stderr are shown */
    int64_t tick_ms;                  /* 0: never. Not together with capture */
    void (*tick)(int64_t elapsed_ms); /* called each tick_ms while it runs */
};
/* Run to the end. *ret_status is what waitpid gave. TY_INTERNAL and the like: it did not start. */
TY_NODISCARD ty_err program_run(const struct program *p, int *ret_status);
/* Bytes that our one child has written, from /proc; 0: not known. */
int64_t program_written_bytes(void);

/* ---- pip (pip.c) ---- */

struct pip {
    const struct python_setup *setup;
    const char *python; /* the interpreter whose pip it is, and for which it installs */
};
/* pip COMMAND and the options this machine wants, then `words`. Its output is the log's, unless
 * `quiet`. TY_FAILED_PRECONDITION: it said no. */
TY_NODISCARD ty_err pip_run(struct ty_arena *a, const struct pip *pip, const char *command,
                            const struct words *words, bool quiet);
/* The output of `pip list --format=freeze` and of `pip check`. */
TY_NODISCARD ty_err pip_list(struct ty_arena *a, const struct pip *pip, ty_str *ret_text);
TY_NODISCARD ty_err pip_check(struct ty_arena *a, const struct pip *pip, ty_str *ret_text);

/* ---- requirements, as text (require.c) ---- */

/* "Foo.Bar_baz" -> "foo-bar-baz" */
char *name_normal(struct ty_arena *a, ty_str name);
/* The name at the beginning of a requirement; empty: there is none. */
ty_str requirement_name(ty_str requirement);
/* Without the marker: "a>=1; python_version > '3'" -> "a>=1" */
ty_str requirement_bare(ty_str requirement);
/* It has extras or an address, so that "installed" does not tell whether it is met. */
bool requirement_is_special(ty_str requirement);

/* A distribution's METADATA. */
struct metadata {
    const char *name;       /* normal */
    struct words *requires; /* Requires-Dist, appended to */
};
/* TY_DATA_LOSS: it has no name. */
TY_NODISCARD ty_err metadata_parse(struct ty_arena *a, ty_str text, struct metadata *m);

/* One line of pip check. */
struct complaint {
    ty_str owner, requirement; /* who is not content, with what */
    ty_str have;               /* the version that is there; empty: nothing is */
};
bool complaint_parse(ty_str line, struct complaint *ret_complaint);

/* Can the runtime's own setuptools build a source archive with this pyproject.toml? Then nothing
 * has to be fetched for it. */
bool pyproject_builds_here(ty_str text);
/* The name a wheel must have, by its folder ("x-1.0.dist-info") and WHEEL file: the name it has may
 * have been changed on its way. NULL: these are no names. */
char *wheel_name(struct ty_arena *a, ty_str dist_info, ty_str wheel);

/* ---- archives (archive.c) ---- */

struct archive {
    const char *path; /* our copy, under a name that pip takes */
    bool wheel;
    bool builds_here;
};
/* Copy a package into `folder` (made), where it cannot change any more, and see what it is. */
TY_NODISCARD ty_err archive_stage(struct ty_arena *a, const char *python, const char *folder,
                                  const char *path, const char *digest,
                                  struct archive *ret_archive);
TY_NODISCARD ty_err archive_digest(const char *path, char out[PYTHON_KEY_BYTES]);

/* ---- virtual environments (env.c) ---- */

struct making {
    const struct python_setup *setup;
    const struct python_host *host;
    const struct python_runtime *runtime;
    const struct python_pool *pool; /* NULL: only the runtime is wanted */
    const char **digests;           /* of each package */
};
char *env_place(struct ty_arena *a, const char *data_dir, const char *kind, const char *key);
char *env_site(struct ty_arena *a, const char *folder, const struct python_host *host);
/* Make a runtime, an environment, in `folder`, which is not there. */
TY_NODISCARD ty_err env_make_runtime(struct ty_arena *a, const char *folder,
                                     const struct making *m);
/* What could not be installed when it was made (.partial says so) is tried again. */
TY_NODISCARD ty_err env_complete_runtime(struct ty_arena *a, const char *folder,
                                         const struct making *m);
TY_NODISCARD ty_err env_make(struct ty_arena *a, const char *folder, const struct making *m);
/* The other names by which pip shall find a package: the nth one, or NULL. */
const char *runtime_alias(ty_str package, size_t n);

/* ---- what the packages need (needs.c) ---- */

/* Install what the packages in `folder`, an environment, ask for and the runtime lacks. */
TY_NODISCARD ty_err needs_install(struct ty_arena *a, const struct pip *pip,
                                  const struct python_host *host, const char *folder);

/* ---- the module (module.c) ---- */

/* Can `python -m module` find it, and what it imports? */
TY_NODISCARD ty_err module_check(struct ty_arena *a, const struct python_host *host,
                                 const char *folder, const struct python_pool *pool);

/* ---- locks and age (keep.c) ---- */

/* A lock on <folder>.lock: F_RDLCK to use it, F_WRLCK to make or remove it. With `wait`, say so and
 * wait for who holds it; else TY_FAILED_PRECONDITION. */
TY_NODISCARD ty_err keep_lock(struct ty_arena *a, const char *folder, int type, bool wait,
                              int *ret_fd);
bool keep_is_ready(struct ty_arena *a, const char *folder);
/* It is used now: it is young again. TY_NOT_FOUND: it is not there. */
TY_NODISCARD ty_err keep_touch(struct ty_arena *a, const char *folder);
/* Does an attempt that is alive run in this environment? */
bool keep_in_use(struct ty_arena *a, const char *data_dir, const char *folder);
/* Remove a runtime or environment that nobody makes or uses. */
TY_NODISCARD ty_err keep_remove(struct ty_arena *a, const char *data_dir, const char *kind,
                                const char *key);
/* Remove environments that were not used for PYTHON_UNUSED_S; returns how many. */
size_t keep_clean(struct ty_arena *a, const char *data_dir);

#endif
