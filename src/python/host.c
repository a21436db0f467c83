/* host.c -- this machine's own Python: which it is, and whether it can make environments. */
#include "python/python_int.h"

enum { LEAST_MINOR = 7, ANSWER_BYTES = 2 * PATH_MAX };

bool python_is_there(const char *python)
{
    if (strchr(python, '/'))
        return access(python, X_OK) == 0;
    const char *variable = getenv("PATH");
    ty_str path = ty_str_of(variable ? variable : "/usr/bin:/bin"), folder;
    char file[PATH_MAX];
    bool more = true;
    while (more) {
        more = ty_str_split(&path, ':', &folder);
        snprintf(file, sizeof file, TY_STR_FMT "/%s", TY_STR_ARG(folder), python);
        if (access(file, X_OK) == 0)
            return true;
    }
    return false;
}

/* "11 3.11.2\n/usr/bin/python3.11" */
static ty_err parse_answer(struct ty_arena *a, const char *python, ty_str text,
                           struct python_host *ret_host)
{
    ty_str line, minor;
    int64_t number = 0;
    struct python_host host = {0};
    ty_str_split(&text, '\n', &line);
    ty_str_split(&line, ' ', &minor);
    host.version = ty_cstr(a, line);
    host.executable = ty_cstr(a, ty_str_trim(text));
    if (ty_parse_i64(minor, &number) != TY_OK || number < LEAST_MINOR || number > 99 ||
        host.version[0] != '3' || host.executable[0] != '/')
        return ty_fail(TY_FAILED_PRECONDITION, "'%s' is not Python 3.%d or newer", python,
                       LEAST_MINOR);
    host.minor = (int)number;
    *ret_host = host;
    return TY_OK;
}

ty_err python_host_read(struct ty_arena *a, const char *python, struct python_host *ret_host)
{
    const char *argv[] = {python,
                          "-I",
                          "-S",
                          "-c",
                          "import sys, os\n"
                          "print('%d %d.%d.%d' % ((sys.version_info[1],) + sys.version_info[:3]))\n"
                          "print(os.path.realpath(getattr(sys, '_base_executable', None) or "
                          "sys.executable))",
                          NULL};
    struct ty_buf out;
    int status;
    ty_buf_init(&out, ANSWER_BYTES);
    struct program p = {.argv = argv, .capture = &out};
    ty_err err = program_run(&p, &status);
    if (err == TY_OK && status != 0)
        err = ty_fail(TY_FAILED_PRECONDITION, "'%s' is no usable Python", python);
    if (err == TY_OK)
        err = parse_answer(a, python, ty_buf_str(&out), ret_host);
    ty_buf_clear(&out);
    if (err != TY_OK)
        return ty_wrap(TY_FAILED_PRECONDITION, "jobs with Python packages need Python (setting "
                                               "'python')");
    return TY_OK;
}

ty_err python_venv_check(const struct python_host *host)
{
    const char *argv[] = {host->executable, "-I", "-c", "import venv, ensurepip", NULL};
    struct program p = {.argv = argv, .quiet = true};
    int status;
    ty_err err = program_run(&p, &status);
    if (err == TY_OK && status != 0)
        err = ty_fail(TY_FAILED_PRECONDITION,
                      "'%s' cannot make virtual environments; on Debian: apt install python3-venv",
                      host->executable);
    return err;
}
