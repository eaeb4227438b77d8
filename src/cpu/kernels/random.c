/* random.c: random words for many counters at a time. */
#include "cpu/kernels/random.h"
#include "cpu/kernels/level.h"
#include "shared/threefry.h"

static void random_words(uint32_t *a, uint32_t *b, uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1, size_t n)
{
    IVDEP
    for (size_t i = 0; i < n; i++) threefry(&a[i], &b[i], c0 + (uint32_t)i, c1 + (uint32_t)i, k0, k1);
}

extern const struct random_kernels LEVEL(random_kernels);
const struct random_kernels LEVEL(random_kernels) = { random_words };
