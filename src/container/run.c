/* run.c -- a replica's container, until its program has ended.
 *
 *   init ── this process (has the marks of sweep.c, dies with init) ── ENGINE run ─ ─ container
 *
 * R1 `N.container` is there before the engine is started and until the container is removed: who
 *    finds it sweeps.
 * R2 The engine's client dies with this process, so that once we are gone no new container appears.
 * R3 The client does not have our marks in its environment, because podman's monitor inherits that,
 *    and a killed monitor leaves a container that podman takes for running. The program in the
 *    container does have them, so a sweep by marks kills it.
 * R4 SIGTERM reaches the container's first process only, and once: a second one would interrupt a
 *    trainer that is saving its checkpoint.
 *
 * The container itself stays until the attempt's end (sweep.c), or the replica's next life:
 * removing one takes the engine longer than some programs run, and neither the other replicas nor
 * the grace period need to wait for that. */
#include "container/container_int.h"

#include <sys/prctl.h>
#include <sys/resource.h>

enum {
    CONTROL_MS = 60000, /* for kill, inspect, rm */
    TERM_PAUSE_MS = 100,
    ENGINE_FAILED = 125,
    PROGRAM_UNUSABLE = 126,
    PROGRAM_MISSING = 127,
    CID_BYTES = 256,
};

/* ---- files beside the replica's folder ---- */

static char *beside(struct ty_arena *a, const struct container *c, const char *what)
{
    return ty_format(a, "../%d-%d.%s", c->pool, c->index, what);
}

/* The container's id; NULL: the engine has not written it. */
static const char *cid_read(struct ty_arena *a, const struct container *c)
{
    ty_str text = {0};
    if (ty_file_read(AT_FDCWD, beside(a, c, "cid"), CID_BYTES, a, &text) != TY_OK)
        return NULL;
    text = ty_str_trim(text);
    return text.len > 0 ? ty_cstr(a, text) : NULL;
}

/* Remove the container of the replica's life before this one; true: there is none now. */
static bool remove_before(struct ty_arena *a, const struct container_engine *e,
                          const struct container *c)
{
    const char *cid = cid_read(a, c);
    const char *argv[ENGINE_RM_WORDS + 2] = {NULL};
    struct call call;
    if (!cid)
        return true;
    argv[engine_rm_words(e, argv)] = cid;
    ty_err err = call_run(&call, argv, CONTROL_MS);
    bool gone = err == TY_OK && call.status == 0;
    call_clear(&call);
    if (gone)
        unlink(beside(a, c, "cid"));
    return gone;
}

/* ---- the engine's client ---- */

/* In the new process: with our output, without our marks. */
static _Noreturn void client_main(const struct container_call *line, pid_t parent)
{
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(ENGINE_FAILED);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    unsetenv("TRAINYARD_ATTEMPT");
    unsetenv("TRAINYARD_REPLICA");
    for (size_t i = 0; line->client_env[i]; i++)
        putenv((char *)line->client_env[i]); /* this process is about to be another */
    execv(line->argv[0], (char *const *)line->argv);
    fprintf(stderr, "trainyard: cannot run '%s': %s\n", line->argv[0], strerror(errno));
    _exit(ENGINE_FAILED);
}

/* True: it was running and has its SIGTERM. */
static bool terminate(struct ty_arena *a, const struct container_engine *e,
                      const struct container *c)
{
    const char *cid = cid_read(a, c);
    const char *argv[] = {e->path, "kill", "--signal=TERM", cid, NULL};
    struct call call;
    if (!cid)
        return false;
    ty_err err = call_run(&call, argv, CONTROL_MS);
    bool sent = err == TY_OK && call.status == 0;
    call_clear(&call);
    return sent;
}

/* Wait for the client, and see to a SIGTERM of ours: a container that does not run yet gets it as
 * soon as it does. */
static int client_wait(struct ty_arena *a, const struct container_engine *e,
                       const struct container *c, pid_t client)
{
    sigset_t wanted;
    bool term_due = false;
    int status = 0;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    while (waitpid(client, &status, WNOHANG) == 0) {
        struct timespec pause = {.tv_nsec = TERM_PAUSE_MS * 1000000L};
        int sig = sigtimedwait(&wanted, NULL, term_due ? &pause : &(struct timespec){3600, 0});
        if (sig == SIGTERM)
            term_due = true;
        if (term_due && terminate(a, e, c))
            term_due = false;
    }
    return status;
}

static int client_run(struct ty_arena *a, const struct container_engine *e,
                      const struct container *c, const struct container_call *line)
{
    pid_t parent = getpid(), client = ty_fork();
    if (client < 0) {
        fprintf(stderr, "trainyard: cannot fork: %s\n", strerror(errno));
        return ENGINE_FAILED << 8;
    }
    if (client == 0)
        client_main(line, parent);
    return client_wait(a, e, c, client);
}

/* ---- how it ended ---- */

/* What the engine says of a container that has ended. */
struct ended {
    bool started; /* its program did run */
    bool oom;     /* and was killed for memory */
};
static struct ended look_at_end(struct ty_arena *a, const struct container_engine *e,
                                const struct container *c)
{
    const char *cid = cid_read(a, c), *format = "{{.State.OOMKilled}} {{.State.StartedAt}}";
    const char *argv[] = {e->path, "inspect", "--format", format, cid, NULL};
    struct ended ended = {0};
    struct call call;
    if (!cid)
        return ended;
    ty_err err = call_run(&call, argv, CONTROL_MS);
    ty_str since = ty_buf_str(&call.out), oom;
    if (err == TY_OK && call.status == 0 && ty_str_split(&since, ' ', &oom)) {
        ended.started = !ty_str_starts(since, TY_STR("0001-"));
        ended.oom = ty_str_is(oom, "true");
    }
    call_clear(&call);
    return ended;
}

/* For the conductor (container_oom_told). */
static void note_oom(struct ty_arena *a, const struct container *c)
{
    int fd = open(beside(a, c, "oom"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        fprintf(stderr, "trainyard: cannot make the file '%s': %s\n", beside(a, c, "oom"),
                strerror(errno));
    else
        close(fd);
}

bool container_oom_told(int dirfd, int pool, int index)
{
    char name[64];
    snprintf(name, sizeof name, "%d-%d.oom", pool, index);
    return faccessat(dirfd, name, F_OK, 0) == 0;
}

static void say_unstarted(const struct container_engine *e, const struct container *c, int status)
{
    const char *engine = container_kind_name(e->kind);
    const char *program = c->command && c->command[0] ? c->command[0]
                          : c->args && c->args[0]     ? c->args[0]
                                                      : "its entry point";
    if (status == PROGRAM_MISSING)
        fprintf(stderr, "trainyard: command not found in image: '%s' is not in %s.\n", program,
                c->image);
    else if (status == PROGRAM_UNUSABLE)
        fprintf(stderr,
                "trainyard: '%s' of image %s cannot be run; the line above is %s's reason.\n",
                program, c->image, engine);
    else
        fprintf(stderr,
                "trainyard: %s could not start a container of image %s; the lines above "
                "say why.\n",
                engine, c->image);
}

/* The engine may have changed since it was tried. */
static void forget_engine(struct ty_arena *a, const struct container *c)
{
    unlink(ty_format(a, "%s/engine", c->data_dir));
}

static int settle(struct ty_arena *a, const struct container_engine *e, const struct container *c,
                  int status)
{
    if (!WIFEXITED(status) || status == 0)
        return status;
    int code = WEXITSTATUS(status);
    bool engines = code >= ENGINE_FAILED && code <= PROGRAM_MISSING; /* or the program's own */
    bool limited = e->limits && c->memory_bytes > 0;
    struct ended ended = {.started = true};
    if (engines || limited)
        ended = look_at_end(a, e, c);
    if (ended.oom)
        note_oom(a, c);
    if (engines && !ended.started) {
        say_unstarted(e, c, code);
        if (code != PROGRAM_MISSING)
            forget_engine(a, c);
    }
    return code > 128 && code <= 128 + SIGRTMAX ? code - 128 : status;
}

/* ---- the whole ---- */

static ty_err run_prepare(struct ty_arena *a, const struct container *c,
                          struct container_engine *ret_engine, struct container_call *ret_line)
{
    ty_str key, python_path = {0};
    int dirfd = open("..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return ty_fail_errno(errno, "cannot open the attempt's folder");
    ty_err err = engine_read(a, dirfd, ret_engine, &key);
    if (err == TY_OK)
        err = ty_file_read(dirfd, ty_format(a, "image-%d", c->pool), CALL_BYTES, a, &python_path);
    close(dirfd);
    unlink(beside(a, c, "oom"));
    if (err == TY_OK && !remove_before(a, ret_engine, c))
        err = ty_fail(TY_INTERNAL, "%s does not remove the one before",
                      container_kind_name(ret_engine->kind));
    if (err == TY_OK)
        err = container_argv(a, ret_engine, c, ty_cstr(a, python_path), ret_line);
    if (err == TY_OK && ret_line->env_file.len > 0)
        err = ty_file_replace(AT_FDCWD, beside(a, c, "env"), ret_line->env_file, 0600);
    if (err != TY_OK)
        return err;
    int fd = open(beside(a, c, "container"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return ty_fail_errno(errno, "cannot make the file '%s'", beside(a, c, "container"));
    close(fd);
    return TY_OK;
}

int container_run(const struct container *c)
{
    struct ty_arena a = {0};
    struct container_engine e;
    struct container_call line;
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGCHLD);
    sigaddset(&held, SIGTERM);
    sigprocmask(SIG_BLOCK, &held, NULL);
    prctl(PR_SET_NAME, "ty-container");
    ty_err err = run_prepare(&a, c, &e, &line);
    int status = ENGINE_FAILED << 8;
    if (err == TY_OK)
        status = settle(&a, &e, c, client_run(&a, &e, c, &line));
    else
        fprintf(stderr, "trainyard: the container cannot be started: %s\n", ty_err_message());
    unlink(beside(&a, c, "env"));
    ty_arena_clear(&a);
    return status;
}
