/* random.h: Threefry-2x32-20 over ranges of counters. */
#ifndef MX_CPU_KERNELS_RANDOM_H
#define MX_CPU_KERNELS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random_kernels {
    /* For i in 0..n: (a[i], b[i]) = the cipher of the counters (c0 + i, c1 + i) under (k0, k1). */
    void (*threefry)(uint32_t *a, uint32_t *b, uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1, size_t n);
};

#endif
