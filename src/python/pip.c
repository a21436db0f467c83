/* pip.c -- pip as we call it: never asking, never updating itself, installing into the environment
 * whose Python runs it, from the index or from the wheel folder. */
#include "python/python_int.h"

enum { TICK_MS = 10000 };

/* Settings by which a user's pip would install to another place, or something else. */
static bool is_unwanted(const char *variable)
{
    static const char *const names[] = {
        "PIP_TARGET=", "PIP_PREFIX=", "PIP_REQUIRE_VIRTUALENV=", "PIP_CONSTRAINT=", "PIP_USER="};
    for (size_t i = 0; i < TY_COUNT(names); i++)
        if (ty_str_starts(ty_str_of(variable), ty_str_of(names[i])))
            return true;
    return false;
}

static char *const *pip_env(struct ty_arena *a)
{
    struct words w = {.a = a};
    for (char **item = environ; *item; item++)
        if (!is_unwanted(*item))
            words_add(&w, *item);
    words_add(&w, "PIP_USER=0");
    return (char *const *)w.list;
}

static void pip_begin(struct words *w, const struct pip *pip, const char *command)
{
    static const char *const first[] = {"-m",         "pip",       "--disable-pip-version-check",
                                        "--no-input", "--retries", "2"};
    words_add(w, pip->python);
    for (size_t i = 0; i < TY_COUNT(first); i++)
        words_add(w, first[i]);
    words_add(w, command);
}

/* A download of half a gigabyte is one line of pip's: these say that it goes on. */
static void say_progress(int64_t elapsed_ms)
{
    printf("pip is at work for %" PRId64 " seconds, and has written %" PRId64 " MB.\n",
           elapsed_ms / 1000, program_written_bytes() / 1000000);
    fflush(stdout);
}

ty_err pip_run(struct ty_arena *a, const struct pip *pip, const char *command,
               const struct words *words, bool quiet)
{
    struct words w = {.a = a};
    pip_begin(&w, pip, command);
    words_add(&w, "--progress-bar");
    words_add(&w, "off");
    if (pip->setup->wheel_folder[0]) {
        words_add(&w, "--find-links");
        words_add(&w, pip->setup->wheel_folder);
    }
    if (pip->setup->offline)
        words_add(&w, "--no-index");
    words_add_all(&w, words);
    int status;
    struct program p = {.argv = w.list,
                        .env = pip_env(a),
                        .quiet = quiet,
                        .tick_ms = TICK_MS,
                        .tick = say_progress};
    ty_err err = program_run(&p, &status);
    if (err == TY_OK && WIFSIGNALED(status))
        return ty_fail(TY_INTERNAL, "pip was ended by signal %d", WTERMSIG(status));
    if (err == TY_OK && status != 0)
        return ty_fail(TY_FAILED_PRECONDITION, "pip says no: the lines above tell why");
    return err;
}

/* `bad` is the exit status that also stands for an answer. */
static ty_err pip_ask(struct ty_arena *a, const struct pip *pip, const char *command,
                      const char *option, int bad, ty_str *ret_text)
{
    struct words w = {.a = a};
    struct ty_buf out;
    int status;
    pip_begin(&w, pip, command);
    if (option)
        words_add(&w, option);
    ty_buf_init(&out, PYTHON_OUTPUT_BYTES);
    struct program p = {.argv = w.list, .env = pip_env(a), .capture = &out};
    ty_err err = program_run(&p, &status);
    if (err == TY_OK && (!WIFEXITED(status) || (status != 0 && WEXITSTATUS(status) != bad)))
        err = ty_fail(TY_FAILED_PRECONDITION, "'pip %s' failed", command);
    if (err == TY_OK)
        *ret_text = ty_str_dup(a, ty_buf_str(&out));
    ty_buf_clear(&out);
    return err;
}

ty_err pip_list(struct ty_arena *a, const struct pip *pip, ty_str *ret_text)
{
    return pip_ask(a, pip, "list", "--format=freeze", 0, ret_text);
}

ty_err pip_check(struct ty_arena *a, const struct pip *pip, ty_str *ret_text)
{
    return pip_ask(a, pip, "check", NULL, 1, ret_text);
}
