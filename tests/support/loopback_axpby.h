/* loopback_axpby.h: the kernels of the sample extension (examples/extensions), for loopback_set_kernels. */
#ifndef TESTS_LOOPBACK_AXPBY_H
#define TESTS_LOOPBACK_AXPBY_H

#include <stdbool.h>
#include <string.h>

/* The source for CUDA devices, where C has one thread after the other. */
static struct {
    unsigned x;
} threadIdx, blockIdx, blockDim;
#define __CUDACC__
#define __device__ static
#define __global__ static
#include "axpby/axpby.cu"

static int axpby_launches;

static bool run_axpby(const char *kernel, const int blocks[3], const int threads[3], const void *const *args)
{
    blockDim.x = (unsigned)threads[0];
    axpby_launches++;
#define RUN(name, T)                                                                                               \
    if (!strcmp(kernel, "axpby_general_" #name)) {                                                                 \
        for (blockIdx.x = 0; blockIdx.x < (unsigned)blocks[0]; blockIdx.x++)                                       \
            for (threadIdx.x = 0; threadIdx.x < (unsigned)threads[0]; threadIdx.x++)                               \
                axpby_general_##name(*(const T *const *)args[0], *(const T *const *)args[1], *(T *const *)args[2], \
                                     *(const float *)args[3], *(const float *)args[4],                             \
                                     *(const struct axpby_layout *)args[5]);                                       \
        return true;                                                                                               \
    }
    EACH_DTYPE(RUN)
    return false;
}

#endif
