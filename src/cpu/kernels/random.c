/* random.c: Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), many counters at a time. */
#include "cpu/kernels/random.h"
#include "cpu/kernels/level.h"

#define ROUND(r)                                              \
    x0 += x1;                                                 \
    x1 = ((x1 << (r)) | (x1 >> (32 - (r)))) ^ x0;

#define INJECT(a, b, i) \
    x0 += a;            \
    x1 += b + (i);

static void threefry(uint32_t *a, uint32_t *b, uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1, size_t n)
{
    uint32_t k2 = k0 ^ k1 ^ 0x1bd11bda;
    IVDEP
    for (size_t i = 0; i < n; i++) {
        uint32_t x0 = c0 + (uint32_t)i + k0, x1 = c1 + (uint32_t)i + k1;
        ROUND(13) ROUND(15) ROUND(26) ROUND(6) INJECT(k1, k2, 1)
        ROUND(17) ROUND(29) ROUND(16) ROUND(24) INJECT(k2, k0, 2)
        ROUND(13) ROUND(15) ROUND(26) ROUND(6) INJECT(k0, k1, 3)
        ROUND(17) ROUND(29) ROUND(16) ROUND(24) INJECT(k1, k2, 4)
        ROUND(13) ROUND(15) ROUND(26) ROUND(6) INJECT(k2, k0, 5)
        a[i] = x0;
        b[i] = x1;
    }
}

extern const struct random_kernels LEVEL(random_kernels);
const struct random_kernels LEVEL(random_kernels) = { threefry };
