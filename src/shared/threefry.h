/* threefry.h: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011). */
#ifndef MX_SHARED_THREEFRY_H
#define MX_SHARED_THREEFRY_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* x += y, of the key: whoever includes this may say how. */
#ifndef INTO
#define INTO(x, y) x += y
#endif
#define ROUND(r) \
    x0 += x1;    \
    x1 = ((x1 << (r)) | (x1 >> (32 - (r)))) ^ x0;
#define INJECT(a, b, i) \
    INTO(x0, a);        \
    INTO(x1, b + (i));

/* What is made at once: one word, or a vector of them where whoever includes this says so. */
#ifndef WORDS
#define WORDS uint32_t
#endif

/* The two words that the counter (x0, x1) gives under the key (k0, k1). */
static inline void threefry(WORDS *a, WORDS *b, WORDS x0, WORDS x1, uint32_t k0, uint32_t k1)
{
    uint32_t k2 = k0 ^ k1 ^ 0x1bd11bda;
    x0 += k0;
    x1 += k1;
    /* clang-format off */
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) INJECT(k1, k2, 1)
    ROUND(17) ROUND(29) ROUND(16) ROUND(24) INJECT(k2, k0, 2)
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) INJECT(k0, k1, 3)
    ROUND(17) ROUND(29) ROUND(16) ROUND(24) INJECT(k1, k2, 4)
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) INJECT(k2, k0, 5)
                /* clang-format on */
                *a = x0;
    *b = x1;
}

#undef ROUND
#undef INJECT

#endif
