/* ports.c -- one port a replica, from a range that the kernel does not hand out itself.
 *
 * TensorFlow binds its port on all interfaces, so two replicas of one machine need two ports. A
 * port is tried with a bind before it is given: something else may sit there. The search goes round
 * the range, so a port just freed rests for a while before it is given again. It begins anywhere in
 * it: a port that was given is bound only when the replica's program comes to it, and until then
 * the server of another user or data folder on this machine would find it free, too. */
#include "sched/sched_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

void ports_init(struct ports *p, int first, int last)
{
    uint32_t at;
    ty_random(&at, sizeof at);
    *p = (struct ports){.first = first, .count = last - first + 1};
    p->next = (int)(at % (uint32_t)p->count);
    p->taken = calloc((size_t)p->count, 1);
    ty_assert(p->taken);
}

void ports_clear(struct ports *p)
{
    free(p->taken);
    p->taken = NULL;
}

static bool port_is_free(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    bool ok = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return ok;
}

ty_err ports_take(struct ports *p, int *ports, int count)
{
    int found = 0;
    for (int tried = 0; found < count && tried < p->count; tried++) {
        int at = p->next;
        p->next = (p->next + 1) % p->count;
        if (p->taken[at] || !port_is_free(p->first + at))
            continue;
        p->taken[at] = 1;
        ports[found++] = p->first + at;
    }
    if (found == count)
        return TY_OK;
    ports_give(p, ports, found);
    return ty_fail(TY_RESOURCE_EXHAUSTED, "no %d free ports between %d and %d", count, p->first,
                   p->first + p->count - 1);
}

void ports_hold(struct ports *p, int port)
{
    if (port >= p->first && port < p->first + p->count)
        p->taken[port - p->first] = 1;
}

void ports_give(struct ports *p, const int *ports, int count)
{
    for (int i = 0; i < count; i++)
        if (ports[i] >= p->first && ports[i] < p->first + p->count)
            p->taken[ports[i] - p->first] = 0;
}
