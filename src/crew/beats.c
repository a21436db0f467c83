/* beats.c -- signs of life between machines: one small datagram to each peer 20 times a second.
 *
 * MPI itself cannot tell a stopped peer from a slow one, and a thread of its own may not call it
 * while another waits. So what the ranks of one machine read from shared memory goes by UDP here:
 * the sender's whole `struct life`, so that one that is lost costs nothing. Ranks learn each
 * other's addresses when they join; a datagram counts if it has the crew's key, a random number.
 * Peers of the same machine and network namespace are reached through the loopback, others at each
 * IPv4 address they have.
 *
 *   bytes 0..7    the key      8..11  magic      12..15  rank      16..   struct life */
#include "crew/crew_int.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { MAGIC = 0x54594254, TAKE_MOST = 1024 };

struct datagram {
    uint64_t key;
    uint32_t magic, rank;
    struct life life;
};
struct beats {
    int fd, rank, size;
    uint64_t key;
    struct sockaddr_in *to; /* where to send: `to_count` of them */
    size_t to_count;
};

static void card_addresses(struct beats_card *card)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return;
    size_t count = 0;
    for (struct ifaddrs *i = list; i && count < BEATS_MOST_ADDRESSES; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
            !(i->ifa_flags & IFF_LOOPBACK)) {
            struct sockaddr_in address;
            memcpy(&address, i->ifa_addr, sizeof address);
            card->addresses[count++] = address.sin_addr.s_addr;
        }
    freeifaddrs(list);
}

ty_err beats_open(struct beats **ret_beats, struct beats_card *ret_card)
{
    struct ty_arena arena = {0};
    struct beats_card card = {0};
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t len = sizeof own;
    ty_str machine;
    int fd = -1;
    ty_err err = ty_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", sizeof card.machine - 1,
                              &arena, &machine);
    if (err != TY_OK)
        goto out;
    memcpy(card.machine, machine.ptr, machine.len);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &len) != 0) {
        err = ty_fail_errno(errno, "cannot open a socket for signs of life");
        goto out;
    }
    struct stat network;
    if (stat("/proc/self/ns/net", &network) == 0)
        card.network = network.st_ino;
    ty_random(&card.key, sizeof card.key);
    card.port = own.sin_port;
    card.cpus = crew_cpus_own();
    card_addresses(&card);
    struct beats *b = calloc(1, sizeof *b);
    ty_assert(b);
    b->fd = fd;
    fd = -1;
    *ret_beats = b;
    *ret_card = card;
out:
    if (fd >= 0)
        close(fd);
    ty_arena_clear(&arena);
    return err;
}

int beats_socket(const struct beats *b)
{
    return b->fd;
}

static bool is_one_loopback(const struct beats_card *a, const struct beats_card *b)
{
    return strncmp(a->machine, b->machine, BEATS_NAME_BYTES) == 0 && a->network == b->network;
}

void beats_address(struct beats *b, const struct beats_card *cards, int rank, int size)
{
    b->rank = rank;
    b->size = size;
    b->key = cards[0].key;
    b->to = calloc((size_t)size * BEATS_MOST_ADDRESSES, sizeof *b->to);
    ty_assert(b->to);
    for (int r = 0; r < size; r++) {
        if (r == rank)
            continue;
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = cards[r].port};
        if (is_one_loopback(&cards[r], &cards[rank])) {
            to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            b->to[b->to_count++] = to;
            continue;
        }
        for (int i = 0; i < BEATS_MOST_ADDRESSES && cards[r].addresses[i]; i++) {
            to.sin_addr.s_addr = cards[r].addresses[i];
            b->to[b->to_count++] = to;
        }
    }
}

/* What cannot be sent now is sent again in a moment; one that never comes through is silence, and
 * silence is told. */
void beats_send(struct beats *b, const struct life *life)
{
    struct datagram d = {.key = b->key, .magic = MAGIC, .rank = (uint32_t)b->rank, .life = *life};
    for (size_t i = 0; i < b->to_count; i++)
        (void)sendto(b->fd, &d, sizeof d, MSG_DONTWAIT | MSG_NOSIGNAL,
                     (const struct sockaddr *)&b->to[i], sizeof b->to[i]);
}

/* `end` last: who sees it set sees the words. Datagrams may overtake each other. */
bool beats_read(const void *bytes, size_t len, uint64_t key, int rank, struct life *const *lives,
                int size)
{
    struct datagram d;
    if (len != sizeof d)
        return false;
    memcpy(&d, bytes, sizeof d);
    if (d.key != key || d.magic != MAGIC || d.rank >= (uint32_t)size || (int)d.rank == rank ||
        d.life.end > LIFE_FAILED)
        return false;
    struct life *of = lives[d.rank];
    uint32_t end = of->end;
    if ((int32_t)(d.life.beat - of->beat) < 0 || end != LIFE_HERE)
        return true;
    uint32_t new_end = d.life.end;
    d.life.end = end;
    *of = d.life;
    __atomic_store_n(&of->end, new_end, __ATOMIC_RELEASE);
    return true;
}

void beats_take(struct beats *b, struct life *const *lives)
{
    for (int i = 0; i < TAKE_MOST; i++) {
        char bytes[sizeof(struct datagram) + 1]; /* one more: too long is seen as such */
        ssize_t len = recv(b->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (len < 0)
            return;
        (void)beats_read(bytes, (size_t)len, b->key, b->rank, lives, b->size);
    }
}

void beats_close(struct beats *b)
{
    if (!b)
        return;
    close(b->fd);
    free(b->to);
    free(b);
}
