/* arrived.h: which block of several is the last to have written its part, which merges them all.
 *
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_ARRIVED_H
#define MX_CUDA_KERNELS_ARRIVED_H

/* All threads of a block come here when they have written what is its: was it the last of so many?  What the others
 * wrote is there then (READ_ANEW), and the count is 0 again, as it was at first. */
FN int came_last(uint32_t *arrived, int64_t blocks)
{
    SHARED uint32_t before;
    BARRIER();
    if (threadIdx.x == 0) {
        FENCE(); /* of what all threads wrote */
        before = ATOMIC_ADD(&arrived[0], 1);
    }
    BARRIER();
    if (before + 1 < (uint32_t)blocks)
        return 0;
    FENCE();
    if (threadIdx.x == 0)
        arrived[0] = 0;
    return 1;
}

#endif
