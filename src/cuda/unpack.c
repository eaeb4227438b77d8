/* unpack.c: LZMA.
 *
 * A range decoder gives bits, each by the odds that those at its place had before.  They tell literals, and matches:
 * a length, and a distance in what is there already, or one of the last four distances. */
#include "cuda/unpack.h"

#include <stdint.h>

typedef uint16_t odds; /* of a 0, out of 2048 */

enum { STATES = 12, AT = 16, LITERALS = 16, LENGTHS = 4, SLOTS = 64, FAR_SLOT = 14, ALIGN = 4 };

struct lengths {
    odds beyond_low, beyond_middle, low[AT][8], middle[AT][8], high[256];
};

struct unpacker {
    uint32_t range, code;
    const unsigned char *in, *end;
    bool damaged;
    bool of_code; /* enum unpack_form */
    /* The odds, all of one type. */
    struct all_odds {
        odds is_match[STATES][AT], is_again[STATES], is_other[STATES], is_long[STATES][AT], is_later[STATES],
            is_last[STATES], slot[LENGTHS][SLOTS], near[128], align[1 << ALIGN], literal[LITERALS][0x300];
        struct lengths match, again;
    } odds;
};

/* ---- bits */

static void refill(struct unpacker *u)
{
    if (u->range >= 1u << 24)
        return;
    u->damaged |= u->in == u->end;
    u->range <<= 8;
    u->code = u->code << 8 | (u->in == u->end ? 0 : *u->in++);
}

static uint32_t one_bit(struct unpacker *u, odds *p)
{
    refill(u);
    uint32_t bound = (u->range >> 11) * *p;
    if (u->code < bound) {
        u->range = bound;
        *p = (odds)(*p + ((2048 - *p) >> 5));
        return 0;
    }
    u->range -= bound;
    u->code -= bound;
    *p = (odds)(*p - (*p >> 5));
    return 1;
}

/* The highest bit first, each by the odds that those before it lead to. */
static uint32_t tree(struct unpacker *u, odds *p, int bits)
{
    uint32_t m = 1;
    for (int i = 0; i < bits; i++) m = m << 1 | one_bit(u, p + m);
    return m - (1u << bits);
}

static uint32_t tree_backwards(struct unpacker *u, odds *p, int bits)
{
    uint32_t m = 1, v = 0;
    for (int i = 0; i < bits; i++) {
        uint32_t b = one_bit(u, p + m);
        m = m << 1 | b;
        v |= b << i;
    }
    return v;
}

static uint32_t even_bits(struct unpacker *u, int bits)
{
    uint32_t v = 0;
    for (int i = 0; i < bits; i++) {
        refill(u);
        u->range >>= 1;
        bool is = u->code >= u->range;
        u->code -= is ? u->range : 0;
        v = v << 1 | is;
    }
    return v;
}

/* ---- what they tell */

static uint32_t length_of(struct unpacker *u, struct lengths *l, unsigned at)
{
    if (!one_bit(u, &l->beyond_low))
        return 2 + tree(u, l->low[at], 3);
    if (!one_bit(u, &l->beyond_middle))
        return 10 + tree(u, l->middle[at], 3);
    return 18 + tree(u, l->high, 8);
}

static uint32_t distance_of(struct unpacker *u, uint32_t length)
{
    uint32_t slot = tree(u, u->odds.slot[length < 2 + LENGTHS ? length - 2 : LENGTHS - 1], 6);
    int bits = (int)(slot >> 1) - 1;
    if (slot < 4)
        return slot;
    uint32_t base = (2 | (slot & 1)) << bits;
    if (slot < FAR_SLOT)
        return base + tree_backwards(u, u->odds.near + base - slot, bits);
    base += even_bits(u, bits - ALIGN) << ALIGN;
    return base + tree_backwards(u, u->odds.align, ALIGN);
}

/* After a match, the byte that would have gone on with it leads the way as long as it is right. */
static unsigned char literal_of(struct unpacker *u, size_t i, unsigned before, bool after_match, unsigned instead)
{
    odds *p = u->odds.literal[u->of_code ? i % LITERALS : before >> 5];
    uint32_t m = 1;
    while (after_match && m < 0x100) {
        uint32_t expected = instead >> 7 & 1, b = one_bit(u, p + ((1 + expected) << 8) + m);
        instead <<= 1;
        m = m << 1 | b;
        after_match = b == expected;
    }
    while (m < 0x100) m = m << 1 | one_bit(u, p + m);
    return (unsigned char)m;
}

/* Another than the last of the last four distances, which comes to the front. */
static void recall(struct unpacker *u, uint32_t last[4], unsigned state)
{
    int which = !one_bit(u, &u->odds.is_later[state]) ? 1 : !one_bit(u, &u->odds.is_last[state]) ? 2 : 3;
    uint32_t d = last[which];
    for (; which > 0; which--) last[which] = last[which - 1];
    last[0] = d;
}

static bool unpack_all(struct unpacker *u, unsigned char *to, size_t n)
{
    uint32_t last[4] = { 0 };
    unsigned state = 0; /* below 7: after a literal; it knows what came before that, too */
    for (size_t i = 0; i < n && !u->damaged;) {
        unsigned at = i % (u->of_code ? AT : 4), after_match = state >= 7;
        uint32_t length = 1;
        if (!one_bit(u, &u->odds.is_match[state][at])) {
            if (after_match && last[0] >= i)
                return false;
            to[i] = literal_of(u, i, i ? to[i - 1] : 0, after_match, after_match ? to[i - last[0] - 1] : 0);
            i++;
            state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
            continue;
        }
        if (!one_bit(u, &u->odds.is_again[state])) {
            for (int k = 3; k > 0; k--) last[k] = last[k - 1];
            length = length_of(u, &u->odds.match, at);
            last[0] = distance_of(u, length);
            state = after_match ? 10 : 7;
        } else if (one_bit(u, &u->odds.is_other[state])) {
            recall(u, last, state);
            length = length_of(u, &u->odds.again, at);
            state = after_match ? 11 : 8;
        } else if (one_bit(u, &u->odds.is_long[state][at])) {
            length = length_of(u, &u->odds.again, at);
            state = after_match ? 11 : 8;
        } else {
            state = after_match ? 11 : 9;
        }
        if (last[0] >= i || length > n - i)
            return false;
        for (; length > 0; length--, i++) to[i] = to[i - last[0] - 1];
    }
    return !u->damaged;
}

bool unpack(enum unpack_form form, unsigned char *to, size_t n, const unsigned char *packed, size_t packed_size)
{
    struct unpacker u = {
        .range = UINT32_MAX, .in = packed, .end = packed + packed_size, .of_code = form == UNPACK_CODE
    };
    odds *all = (odds *)&u.odds;
    if (packed_size < 5)
        return false;
    for (size_t i = 0; i < sizeof u.odds / sizeof *all; i++) all[i] = 1024;
    for (int i = 0; i < 5; i++) u.code = u.code << 8 | *u.in++;
    return unpack_all(&u, to, n);
}
