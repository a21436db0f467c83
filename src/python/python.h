/* python.h -- Python for jobs: runtimes (a Python with frameworks) and environments (a runtime with
 * a job's packages), made on first use and kept.
 *
 *   data/python/runtimes/<key>/   a venv with the frameworks an executor image stands for;
 *                                 key = hash of the host's Python and the requirements
 *   data/python/envs/<key>/       a venv that sees its runtime, and the packages in it;
 *                                 key = hash of the runtime's key and each archive's bytes
 *   .../<key>.lock                held while somebody builds or takes it; who comes second waits
 *   .../<key>/.ready              written last: without it the folder is built again from nothing;
 *                                 its time is that of the last use
 *   .../<key>/.checked-<hash>     this module was found in the environment
 *
 * A job's environments are made by `trainyard prepare` (python_prepare), which runs before its
 * replicas, under the same isolation and log. It leaves a link <attempt>/python-<pool> to each
 * pool's environment: the plan names an interpreter before anybody has read a package. Where all
 * is there already it costs milliseconds, so it is never left out.
 *
 * When a new environment has been made, those that no job used for 30 days are removed; never one
 * that somebody makes or takes just now (its lock), nor one that a living attempt links to
 * (keep.c).
 *
 * Versions and markers are pip's business: it is told what is there and asked what is missing
 * (needs.c). Where to start: python_prepare in prepare.c, then env.c; runtimes.def has the
 * frameworks. Who frees: results are in the caller's arena. Threads: any. Errors:
 * TY_INVALID_ARGUMENT (an image that is no runtime), TY_FAILED_PRECONDITION (no usable Python, a
 * package that cannot be installed), TY_NOT_FOUND, TY_RESOURCE_EXHAUSTED. One test:
 * build/test_python runtime/nearest_version_is_used. */
#ifndef TY_PYTHON_H
#define TY_PYTHON_H

#include "base/base.h"
#include "wire/wire.h"

enum { PYTHON_KEY_BYTES = WIRE_SHA256_HEX_BYTES }; /* the key of a runtime or environment */

/* ---- which Python, which runtime ---- */

/* The host's interpreter. */
struct python_host {
    const char *executable; /* outside of any virtual environment */
    const char *version;    /* "3.11.2" */
    int minor;              /* 11 */
};
/* Run `python` (setting `python`) once and ask it. TY_FAILED_PRECONDITION: there is none, or it is
 * not 3.7 or newer. */
TY_NODISCARD ty_err python_host_read(struct ty_arena *a, const char *python,
                                     struct python_host *ret_host);
/* Can it make virtual environments? TY_FAILED_PRECONDITION says what to install. */
TY_NODISCARD ty_err python_venv_check(const struct python_host *host);
/* Is there a program of that name, by PATH? Starts nothing. */
bool python_is_there(const char *python);

enum { PYTHON_REQUIREMENTS = 10 };
struct python_runtime {
    const char *image;  /* as asked for, without registry and tag: "tf-gpu.2-12.py310" */
    const char *what;   /* "tensorflow-cpu 2.12.1 on Python 3.11.2"; for people */
    const char *family; /* "tf", "pytorch", "sklearn", "xgboost", "host" */
    const char *requirements[PYTHON_REQUIREMENTS]; /* for pip; NULL-ended */
    bool gpu;                                      /* asked for GPUs */
    bool exact;                                    /* the very version that was asked for */
    bool compat_v1; /* asked for TensorFlow 1: what is used stands in for it (tensorflow1.py) */
    char key[PYTHON_KEY_BYTES];
};
/* Is this an image we know? No Python is needed to tell. TY_INVALID_ARGUMENT names the patterns. */
TY_NODISCARD ty_err python_image_check(ty_str image);
TY_NODISCARD ty_err python_runtime_find(struct ty_arena *a, ty_str image,
                                        const struct python_host *host,
                                        struct python_runtime *ret_runtime);
/* The image that runtimeVersion of the older AI Platform ("2.8") stands for. TY_INVALID_ARGUMENT:
 * it is no version, or neither of TensorFlow 1 nor 2. */
TY_NODISCARD ty_err python_legacy_image(struct ty_arena *a, ty_str runtime_version, bool gpu,
                                        const char **ret_image);
bool python_runtime_is_ready(const char *data_dir, const struct python_runtime *r);

/* Has the folder a wheel of the runtime's framework? Without one, and without an index, it cannot
 * be made. True for 'host', which has none. */
bool python_runtime_has_wheels(const char *wheel_folder, const struct python_runtime *r);

/* "/p", "file:///p" -> "/p"; NULL for anything else. Borrowed from `uri`, from the arena. */
const char *python_package_path(struct ty_arena *a, ty_str uri);
bool python_module_is_valid(ty_str module); /* a dotted name */
/* SHA-256 of a file, by which a package is known; read in pieces. */
TY_NODISCARD ty_err python_archive_digest(const char *path, char out[PYTHON_KEY_BYTES]);

/* ---- making them ---- */

struct python_setup {
    const char *data_dir;
    const char *python;       /* setting python */
    const char *wheel_folder; /* setting wheel_folder; "": none */
    bool offline;             /* setting runtimes_offline */
};
/* What one worker pool asks for. */
struct python_pool {
    int pool;
    const char *image, *module;
    const char *python_path; /* the user's PYTHONPATH, if the pool has one; else NULL */
    const char **packages;   /* paths */
    size_t package_count;
};
/* Make what the pools need and link it into the folder `into`. Progress and pip's words go to
 * stdout. */
TY_NODISCARD ty_err python_prepare(const struct python_setup *setup, const char *into,
                                   const struct python_pool *pools, size_t count);
/* Make the runtime of an image now. */
TY_NODISCARD ty_err python_runtime_add(const struct python_setup *setup, const char *image);

/* ---- what is there ---- */

struct python_listed {
    char key[PYTHON_KEY_BYTES];
    ty_str family, what;
    size_t envs; /* environments on top of it */
};
TY_NODISCARD ty_err python_runtime_list(struct ty_arena *a, const char *data_dir,
                                        struct python_listed **ret_list, size_t *ret_count);
/* By key or the beginning of one (at least 6 digits). Its environments go with it.
 * TY_FAILED_PRECONDITION: it is being built, or a job that runs uses one of them. */
TY_NODISCARD ty_err python_runtime_remove(const char *data_dir, ty_str key);

#endif
