/* crash.c -- last words: signal, version and a backtrace on stderr, then the signal's own end. */
#include "server/server_int.h"

#include <execinfo.h>

static void say(const char *text)
{
    /* A handler may only use what is safe in signals; a failed write has nobody to tell. */
    (void)!ty_write_all(STDERR_FILENO, text, strlen(text));
}

static void crashed(int signal_number)
{
    void *frames[64];
    say("trainyard " TY_VERSION " crashed: ");
    say(signal_number == SIGSEGV   ? "SIGSEGV"
        : signal_number == SIGBUS  ? "SIGBUS"
        : signal_number == SIGFPE  ? "SIGFPE"
        : signal_number == SIGABRT ? "SIGABRT"
                                   : "SIGILL");
    say("\nbacktrace (addr2line -e trainyard):\n");
    backtrace_symbols_fd(frames, backtrace(frames, TY_COUNT(frames)), STDERR_FILENO);
    raise(signal_number); /* SA_RESETHAND: now it kills */
}

void crash_handler_install(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    void *frame[1];
    backtrace(frame, 1); /* loads libgcc now, not in the handler */
    for (size_t i = 0; i < TY_COUNT(signals); i++) {
        struct sigaction action = {.sa_handler = crashed, .sa_flags = (int)SA_RESETHAND};
        sigaction(signals[i], &action, NULL);
    }
}
