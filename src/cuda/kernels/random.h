/* random.h: the arguments of random.cu. */
#ifndef MX_CUDA_KERNELS_RANDOM_H
#define MX_CUDA_KERNELS_RANDOM_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

enum { RANDOM_THREADS = 256 };

/* `bytes` random ones for each of the keys: the words of the cipher of the counters 0 to `words` in pairs
 * (i, i + pairs), first all first halves; a missing counter is 0. */
struct bits_args {
    void *y;
    const uint32_t *keys;
    int64_t n_keys, bytes, words, pairs;
    int64_t quads; /* of pairs: what a thread draws at once */
};

/* A number for each of the words, r: uniform ones u = range * min(r / 2^32, most) + low, normal ones
 * loc + factor * erfinv(u), or whether r is less than a bound.  What points at no number stands for nothing to do. */
struct draw_args {
    struct bits_args bits;
    const void *most, *range, *low, *factor, *loc, *bound;
};

#endif
