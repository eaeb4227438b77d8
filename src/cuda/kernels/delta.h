/* delta.h: the arguments of delta.cu. */
#ifndef MX_CUDA_KERNELS_DELTA_H
#define MX_CUDA_KERNELS_DELTA_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* DELTA_HELD: numbers of a row of the state that a thread keeps; DELTA_BYTES: of the operands of some steps in shared
 * memory, twice; DELTA_STEPS: as many at most. */
enum { DELTA_THREADS = 128, DELTA_HELD = 16, DELTA_BYTES = 16384, DELTA_STEPS = 32 };

/* q, k (B, T, H, D), v and y (B, T, N, E), gamma (B, T, N, D), or (B, T, N) where not `wide`, beta (B, T, N), mask
 * (B, T) or NULL, all without gaps; the first state with strides, the last (B, N, E, D). */
struct delta_call {
    void *y, *last;
    const void *q, *k, *v, *gamma, *beta, *state;
    const uint8_t *mask;
    int64_t state_stride[4];
    int32_t batch, steps, heads, shared; /* B, T, N, and how many of the heads have one q and k */
    int32_t d, e;
    int32_t team;           /* threads, a power of two, that have a row of the state together */
    int32_t row_blocks;     /* how many blocks share the rows of a head */
    int32_t tile, padded;   /* steps in shared memory at once; numbers of a row of k there */
    int32_t whole, e_whole; /* rows of q, k and gamma, and those of v, are aligned to 16 bytes */
    int32_t wide;
};

#endif
