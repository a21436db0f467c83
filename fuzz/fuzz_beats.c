/* fuzz_beats.c -- any bytes as a datagram of a peer: it is refused, or it is that peer's life and
 * no other's.
 *
 * The key is the one that the bytes claim, as if they were from somebody who knows it. What is read
 * is then looked at as a wait looks at it. */
#include "crew/crew_int.h"

enum { RANKS = 3, OWN = 1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[RANKS] = {"chief", "worker 1", "worker 2"};
    struct crew_options o = {.names = names, .join_ms = 1, .deadline_ms = 5000};
    struct life lives[RANKS] = {{.here = 0}};
    struct crew *c;
    uint64_t key = 0;
    if (size >= sizeof key)
        memcpy(&key, data, sizeof key);
    ty_assert(crew_new(&o, OWN, RANKS, &c) == TY_OK);
    c->way = &crew_mpi_way;
    for (int r = 0; r < RANKS; r++)
        c->lives[r] = &lives[r];
    bool ours = beats_read(data, size, key, OWN, c->lives, RANKS);
    ty_assert(!lives[OWN].here && (ours || (!lives[0].here && !lives[2].here)));
    int lost = life_lost(c);
    if (lost >= 0)
        ty_assert(life_tell(c, lost, "fuzz") != TY_OK);
    crew_free(c);
    return 0;
}
