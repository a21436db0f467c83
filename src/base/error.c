/* error.c -- the one error type and its message.
 *
 * The message is per thread and of fixed size, so that failing never allocates: an error path that
 * can itself fail is where bugs hide. */
#include "base/base.h"

enum { MESSAGE_BYTES = 4096 };
static _Thread_local char message[MESSAGE_BYTES];

const char *ty_err_name(ty_err err)
{
    switch (err) {
#define X(name, code, http)                                                                        \
    case TY_##name:                                                                                \
        return #name;
        TY_ERR_MAP(X)
#undef X
    }
    return "UNKNOWN";
}

int ty_err_http(ty_err err)
{
    switch (err) {
#define X(name, code, http)                                                                        \
    case TY_##name:                                                                                \
        return http;
        TY_ERR_MAP(X)
#undef X
    }
    return 500;
}

ty_err ty_fail(ty_err code, const char *fmt, ...)
{
    /* Through a second buffer, because an argument may be the current message. */
    char text[MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(message, text, sizeof message);
    return code;
}

ty_err ty_wrap(ty_err err, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ": %s", message);
    memcpy(message, text, sizeof message);
    return err;
}

static ty_err err_of_errno(int err_no)
{
    switch (err_no) {
    case ENOENT:
    case ENOTDIR:
        return TY_NOT_FOUND;
    case EEXIST:
    case EADDRINUSE:
        return TY_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return TY_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return TY_RESOURCE_EXHAUSTED;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
        return TY_UNAVAILABLE;
    case ETIMEDOUT:
        return TY_DEADLINE_EXCEEDED;
    default:
        return TY_INTERNAL;
    }
}

ty_err ty_fail_errno(int err_no, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ty_fail(err_of_errno(err_no), "%s: %s", text, strerror(err_no));
}

const char *ty_err_message(void)
{
    return message;
}

char *ty_err_take(void)
{
    char *copy = strdup(message);
    ty_assert(copy);
    message[0] = '\0';
    return copy;
}

_Noreturn void ty_assert_fail(const char *cond, const char *file, int line)
{
    ty_log(TY_LOG_ERROR, "assert", "%s:%d: %s", file, line, cond);
    abort();
}
