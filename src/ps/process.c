/* process.c -- the process of a peer that is silent, if it can be seen from here.
 *
 * Pids mean something within one namespace of one boot only; signs of life carry both, and where
 * they differ nothing is said about the process. */
#include "ps/ps_int.h"

static uint32_t text_check(const char *path, bool is_link)
{
    char text[100];
    ssize_t n = -1;
    if (is_link) {
        n = readlink(path, text, sizeof text);
    } else {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            n = read(fd, text, sizeof text);
            close(fd);
        }
    }
    return n > 0 ? wire_crc32c(0, text, (size_t)n) : 0;
}

struct ps_process ps_process_self(void)
{
    uint64_t boot = text_check("/proc/sys/kernel/random/boot_id", false);
    return (struct ps_process){(uint64_t)getpid(),
                               boot << 32 | text_check("/proc/self/ns/pid", true)};
}

/* The letter after the name in /proc/PID/stat; 0: there is no such process. */
static char state_letter(uint64_t pid)
{
    char path[64], text[400];
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

const char *ps_process_state(const struct ps_process *p)
{
    if (p->pid == 0 || p->room == 0 || p->room != ps_process_self().room)
        return "stopped, dead or cut off";
    switch (state_letter(p->pid)) {
    case 'T':
    case 't':
        return "stopped (SIGSTOP)";
    case 0:
    case 'Z':
    case 'X':
        return "dead: its process is gone";
    default:
        return "cut off: its process is alive";
    }
}
