/* life.c -- what ranks know of each other between calls, and the sentence about one that is lost.
 *
 * Each rank has a thread, its pulse, that counts `beat` up about 20 times a second. Who waits looks
 * at the others every 50 ms. A rank is lost
 *   - when it says so: it left, or failed because of another (then its message is ours, too);
 *   - when its process has ended, where that can be told at once (shared.c: its lock is free);
 *   - when its beat has stood still for nearly the deadline: stopped, or cut off.
 * Silence is measured by the one who waits, and a look that comes late counts for little: after a
 * machine slept, or we were stopped ourselves, nobody is accused for that time. Pids are of little
 * use: replicas live in PID namespaces of their own. Where the process can be seen all the same,
 * its state is put into words: both see the same /proc, and there it has the same pid and start
 * time. */
#include "crew/crew_int.h"

#include <poll.h>
#include <sys/eventfd.h>

/* ---- this rank's own ---- */

static void text_put(char *to, size_t size, const char *text)
{
    size_t len = strnlen(text, size - 1);
    memcpy(to, text, len);
    to[len] = '\0';
}

void crew_mark(struct crew *c, int64_t step, const char *phase)
{
    if (!c)
        return;
    struct life *own = c->lives[c->rank];
    __atomic_store_n(&own->step, step, __ATOMIC_RELAXED);
    text_put(own->phase, sizeof own->phase, phase);
}

void life_publish(struct crew *c, enum life_end end, ty_err code, const char *words)
{
    struct life *own = c->lives[c->rank];
    text_put(own->words, sizeof own->words, words);
    own->code = (int32_t)code;
    __atomic_store_n(&own->end, (uint32_t)end, __ATOMIC_RELEASE);
    if (c->beats)
        beats_send(c->beats, own);
}

static void *pulse(void *arg)
{
    struct crew *c = arg;
    struct life *own = c->lives[c->rank];
    int socket_fd = c->beats ? beats_socket(c->beats) : -1;
    struct pollfd fds[2] = {{.fd = c->stop_fd, .events = POLLIN},
                            {.fd = socket_fd, .events = POLLIN}};
    for (int64_t next_ms = ty_boot_ms();;) {
        int64_t now_ms = ty_boot_ms();
        if (now_ms >= next_ms) {
            __atomic_add_fetch(&own->beat, 1, __ATOMIC_RELEASE);
            if (c->beats)
                beats_send(c->beats, own);
            next_ms = now_ms + LIFE_BEAT_MS;
        }
        (void)poll(fds, TY_COUNT(fds),
                   (int)(next_ms - now_ms > 0 ? next_ms - now_ms : LIFE_BEAT_MS));
        if (fds[0].revents)
            return NULL;
        if (c->beats)
            beats_take(c->beats, c->lives);
    }
}

/* The pulse takes no signals: they are for the threads that know what to do with them. */
ty_err life_begin(struct crew *c)
{
    struct life *own = c->lives[c->rank];
    (void)life_process_read("self",
                            &own->process); /* zeros, which fit nobody, if there is no /proc */
    __atomic_store_n(&own->here, 1, __ATOMIC_RELEASE);
    c->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (c->stop_fd < 0)
        return ty_fail_errno(errno, "cannot start the sign of life");
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int no = pthread_create(&c->pulse, NULL, pulse, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    c->pulsing = no == 0;
    return no == 0 ? TY_OK : ty_fail_errno(no, "cannot start the sign of life");
}

void life_end(struct crew *c)
{
    if (c->pulsing) {
        eventfd_write(c->stop_fd, 1);
        pthread_join(c->pulse, NULL);
    }
    c->pulsing = false;
    if (c->stop_fd >= 0)
        close(c->stop_fd);
    c->stop_fd = -1;
}

/* ---- the others ---- */

static bool is_silent(struct crew *c, int rank, int64_t passed_ns)
{
    struct watch *w = &c->watch[rank];
    uint32_t beat = __atomic_load_n(&c->lives[rank]->beat, __ATOMIC_ACQUIRE);
    w->silent_ns = beat == w->beat ? w->silent_ns + passed_ns : 0;
    w->beat = beat;
    int64_t deadline_ns = (int64_t)c->deadline_ms * 1000000;
    return w->silent_ns >= deadline_ns - deadline_ns / 8;
}

int life_lost(struct crew *c)
{
    int64_t now_ns = ty_boot_ns(), passed_ns = now_ns - c->looked_ns;
    if (passed_ns > LIFE_LOOK_MOST_MS * INT64_C(1000000))
        passed_ns = LIFE_LOOK_MOST_MS * INT64_C(1000000);
    c->looked_ns = now_ns;
    int ended = -1, gone = -1, silent = -1;
    for (int r = 0; r < c->size; r++) {
        if (r == c->rank || !__atomic_load_n(&c->lives[r]->here, __ATOMIC_ACQUIRE))
            continue;
        uint32_t end = __atomic_load_n(&c->lives[r]->end, __ATOMIC_ACQUIRE);
        if (end == LIFE_FAILED)
            return r; /* it has already seen who is to blame */
        if (end == LIFE_LEFT)
            ended = r;
        else if (c->way->gone && c->way->gone(c, r))
            gone = r;
        else if (is_silent(c, r, passed_ns))
            silent = r;
    }
    return ended >= 0 ? ended : gone >= 0 ? gone : silent;
}

ty_err life_tell(struct crew *c, int lost, const char *what)
{
    const struct life *of = c->lives[lost];
    const char *name = c->names[lost];
    char words[LIFE_WORDS_BYTES], phase[LIFE_PHASE_BYTES], last[2 * LIFE_WORDS_BYTES];
    text_put(words, sizeof words, of->words);
    text_put(phase, sizeof phase, of->phase);
    uint32_t end = __atomic_load_n(&of->end, __ATOMIC_ACQUIRE);
    if (end == LIFE_FAILED)
        return crew_fail(
            c, of->code > 0 && of->code <= TY_UNAUTHENTICATED ? (ty_err)of->code : TY_UNAVAILABLE,
            "%s", words);
    if (phase[0])
        snprintf(last, sizeof last, "last seen at step %" PRId64 ", %s; %s waited for it at '%s'",
                 of->step, phase, c->names[c->rank], what);
    else
        snprintf(last, sizeof last, "%s waited for it at '%s'", c->names[c->rank], what);
    if (end == LIFE_LEFT)
        return crew_fail(c, TY_UNAVAILABLE, "%s has left%s%s (%s)", name, words[0] ? ": " : "",
                         words, last);
    if (c->way->gone && c->way->gone(c, lost))
        return crew_fail(c, TY_UNAVAILABLE,
                         "%s is gone: its process was killed or ended without a word (%s)", name,
                         last);
    const char *state = life_state(&of->process);
    return crew_fail(c, TY_UNAVAILABLE, "no sign of life of %s for %.1f s: its process %s (%s)",
                     name, (double)c->watch[lost].silent_ns / 1e9,
                     state ? state : "cannot be seen from here; it is stopped, or cut off", last);
}

/* ---- /proc ---- */

/* Which /proc of which machine: its device, mixed with the number the kernel drew at its start. */
static uint64_t proc_identity(dev_t device)
{
    char text[64];
    uint64_t mixed = (uint64_t)device;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < len; i++)
        mixed = (mixed ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return mixed;
}

/* "pid (name) S ppid ...": the state is the 3rd field, the start the 22nd. A name may have spaces
 * and brackets, so fields are counted from the last bracket. */
bool life_process_read(const char *who, struct life_process *ret)
{
    char path[64], text[1024];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%s/stat", who);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = fstat(fd, &st) == 0 ? read(fd, text, sizeof text - 1) : 0;
    close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    const char *at = strrchr(text, ')');
    if (!at || at[1] != ' ')
        return false;
    ret->state = at[2];
    at += 2;
    for (int field = 3; field < 22 && at; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    ret->pid = (int32_t)strtol(text, NULL, 10);
    ret->started = at ? strtoull(at, NULL, 10) : 0;
    ret->proc = proc_identity(st.st_dev);
    return at != NULL;
}

const char *life_state(const struct life_process *of)
{
    static const struct {
        char state;
        const char *words;
    } states[] = {
        {'T', "is stopped"},
        {'t', "is stopped by a debugger"},
        {'Z', "has ended and waits to be collected"},
        {'D', "is in an uninterruptible wait, for a disk or a network"},
        {'S', "sleeps, and its signs of life do not come through"},
        {'R', "runs, and its signs of life do not come through"},
    };
    char who[16];
    struct life_process now, own;
    if (!life_process_read("self", &own) || own.proc != of->proc)
        return NULL;
    snprintf(who, sizeof who, "%d", (int)of->pid);
    if (!life_process_read(who, &now) || now.started != of->started)
        return "has ended";
    for (size_t i = 0; i < TY_COUNT(states); i++)
        if (states[i].state == now.state)
            return states[i].words;
    return "is in a state that has no name here";
}
