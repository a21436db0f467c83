/* mt19937.c -- the Mersenne Twister as numpy's RandomState(seed) runs it: 624 words of state, each
 * mixed from its neighbours once they are used up, and tempered on the way out. */
#include "images/images.h"

enum { SHIFT = 397 };

void mt19937_init(struct mt19937 *m, uint32_t seed)
{
    m->words[0] = seed;
    for (uint32_t i = 1; i < MT19937_WORDS; i++)
        m->words[i] = 1812433253u * (m->words[i - 1] ^ m->words[i - 1] >> 30) + i;
    m->next = MT19937_WORDS;
}

static void words_mix(struct mt19937 *m)
{
    uint32_t *w = m->words;
    for (uint32_t i = 0; i < MT19937_WORDS; i++) {
        uint32_t y = (w[i] & 0x80000000u) | (w[(i + 1) % MT19937_WORDS] & 0x7fffffffu);
        w[i] = w[(i + SHIFT) % MT19937_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    m->next = 0;
}

uint32_t mt19937_next(struct mt19937 *m)
{
    if (m->next == MT19937_WORDS)
        words_mix(m);
    uint32_t y = m->words[m->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* Bits as many as `most` has, drawn again until the number is not too large. */
uint64_t mt19937_upto(struct mt19937 *m, uint64_t most)
{
    uint64_t mask = most, value;
    for (int shift = 1; shift < 64; shift *= 2)
        mask |= mask >> shift;
    do {
        value = mt19937_next(m);
        if (most > UINT32_MAX)
            value = value << 32 | mt19937_next(m);
        value &= mask;
    } while (most > 0 && value > most);
    return value;
}
