/* emulator.h: what kernels of GPUs find when they are compiled for the host: a grid is a loop.
 *
 * Threads of a block run one after the other, which is all that kernels without barriers can tell. */
#ifndef TESTS_EMULATOR_H
#define TESTS_EMULATOR_H

struct emulated_place { unsigned x, y, z; };
static struct emulated_place threadIdx, blockIdx, blockDim, gridDim;

/* Runs the statement that follows for each thread of a grid in one dimension. */
#define EMULATED_GRID(blocks, threads)                                                                       \
    for (gridDim.x = (unsigned)(blocks), blockDim.x = (unsigned)(threads), blockIdx.x = 0; blockIdx.x < gridDim.x; \
         blockIdx.x++)                                                                                       \
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)

#endif
