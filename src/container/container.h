/* container.h -- replicas in containers, by podman or docker.
 *
 * The engine is a program we start, never a library, and it runs outside of our own namespaces:
 * podman keeps pids in its database, and those must mean the same to whoever calls it next. What
 * holds a container to its job are labels (trainyard.data, .job, .attempt, .replica) and files in
 * the attempt's folder:
 *
 *   data/engine       the engine that was found usable here, and the options it needs
 *   data/engine-refused   why podman was found unusable
 *   engine            the same, as the attempt's preparation saw it
 *   image-0           PYTHONPATH of the image of pool 0
 *   0-0.container     replica 0-0 has, or may have, a container; gone when that is removed
 *   0-0.cid           its id, written by the engine
 *   0-0.oom           the engine said that it was killed for memory
 *   0-0.env           its environment, for the engine to read; gone when the container has ended
 *
 * Where to start: container_engine_find (at submit), container_prepare (before the replicas: find
 * or pull the images), container_run (a replica), container_sweep (nothing is left of an attempt).
 * Who frees: results are in the caller's arena. Threads: any; each call may take seconds.
 * Errors: TY_FAILED_PRECONDITION (no usable engine, an image that is nowhere), TY_INVALID_ARGUMENT
 * (a rule or a path that cannot be used), TY_DEADLINE_EXCEEDED, TY_INTERNAL.
 * One test: build/test_container argv/command_replaces_entry_point. */
#ifndef TY_CONTAINER_H
#define TY_CONTAINER_H

#include "base/base.h"

/* ---- the engine ---- */

enum container_kind { CONTAINER_PODMAN, CONTAINER_DOCKER };
enum { CONTAINER_OPTIONS = 8 };
struct container_engine {
    enum container_kind kind;
    const char *path, *version;
    bool limits;                                /* --memory and --cpu-shares work */
    const char *options[CONTAINER_OPTIONS + 1]; /* what `run` needs on this machine; NULL-ended */
};
const char *container_kind_name(enum container_kind kind); /* "podman" */
/* The engine of setting container_engine (auto, podman, docker, none or a path): it answers, and
 * for podman, a container was started to see which options that needs. What was found is kept in
 * data_dir/engine, so that the next call reads one file; that podman was tried in vain, in
 * data_dir/engine-refused, for ten minutes. TY_FAILED_PRECONDITION says for each engine why not. */
TY_NODISCARD ty_err container_engine_find(struct ty_arena *a, const char *setting,
                                          const char *data_dir,
                                          struct container_engine *ret_engine);

/* Forget that a podman could not start containers: the next call tries it again. */
void container_engine_retry(const char *data_dir);
/* What to do where none is found: a sentence without its point, of how that setting stands. */
const char *container_engine_advice(struct ty_arena *a, const char *setting);

/* ---- images ---- */

/* Could this be the name of an image? */
bool container_image_is_valid(ty_str image);
/* Setting image_replace: "PATTERN=IMAGE PATTERN=IMAGE …", '*' in a pattern stands for any text. */
TY_NODISCARD ty_err container_rules_check(const char *rules);
/* The image of the first pattern that matches; `image` itself when none does. From the arena. */
const char *container_image_replace(struct ty_arena *a, const char *rules, ty_str image);

/* What one worker pool asks for. */
struct container_wanted {
    int pool;
    const char *asked, *used; /* before and after image_replace */
};
/* See to it that the images are in the engine: those that are not there are pulled. Leaves `engine`
 * and `image-POOL` in the folder `into`. What happens is said on stdout. */
TY_NODISCARD ty_err container_prepare(const char *setting, const char *data_dir, const char *into,
                                      const struct container_wanted *wanted, size_t count);

/* ---- a replica's container ---- */

struct container_mount {
    const char *from, *to; /* on this machine, in the container */
    bool read_only;
};
struct container {
    const char *image;
    char **command, **args;  /* NULL-ended, may be empty: the image's own holds then */
    char **env;              /* NULL-ended NAME=VALUE */
    const char *python_path; /* goes before the image's own PYTHONPATH; NULL: env says all */
    struct container_mount *mounts;
    size_t mount_count;
    int64_t cpu_milli, memory_bytes; /* 0: no limit */
    bool gpus;                       /* it may see the machine's; CUDA_VISIBLE_DEVICES says which */
    const char *data_dir;
    int64_t job_id;
    int attempt, pool, index;
};
/* How the engine's client is started for it. */
struct container_call {
    const char **argv;       /* NULL-ended; no values of variables are in it */
    const char **client_env; /* NULL-ended NAME=VALUE, to be added to the client's environment */
    ty_str env_file;         /* the text of POOL-INDEX.env, which argv names unless it is empty */
};
/* That, as a pure function. `image_python_path` is what the image has. TY_INVALID_ARGUMENT: a path
 * that no engine's command line can say. TY_RESOURCE_EXHAUSTED: too much environment. */
TY_NODISCARD ty_err container_argv(struct ty_arena *a, const struct container_engine *engine,
                                   const struct container *c, const char *image_python_path,
                                   struct container_call *ret_call);
/* Run it and wait for its end, as the process of the replica, in the replica's folder: its output
 * goes to our own stdout and stderr, a SIGTERM to its first process. Returns a wait status: the
 * program's, with 128+N as signal N; 125 to 127 after a line on stderr that says why, when the
 * engine could not start the program. The container is left for container_sweep. */
int container_run(const struct container *c);
/* In an attempt's folder: does its engine hold containers to their limits? */
bool container_limits_hold(int dirfd);
/* Did the engine say that the replica's container, which has ended, was killed for memory? */
bool container_oom_told(int dirfd, int pool, int index);
/* Remove the attempt's containers, whatever they do; nothing is started when it had none. False:
 * some are still there after limit_ms, or the engine does not answer. */
bool container_sweep(const char *data_dir, int64_t job_id, int attempt, int64_t limit_ms);

#endif
