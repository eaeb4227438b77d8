/* order.cu: where updates go, by which they are put in order (sort.cu), or which one of them goes there last. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/update_at.h"

KERNEL(cu_keys, struct keys_call)
{
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= a.n)
        return;
    struct lookup_at at = update_at(&a, n);
    if (a.key)
        a.key[n] = at.outside ? ORDER_NONE : (uint32_t)(at.far >> a.shift);
    if (a.value)
        a.value[n] = a.size == 4   ? ((const uint32_t *)a.lookup.near)[at.near]
                     : a.size == 2 ? ((const uint16_t *)a.lookup.near)[at.near]
                                   : ((const uint8_t *)a.lookup.near)[at.near];
}

KERNEL(cu_last, struct keys_call)
{
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= a.n)
        return;
    struct lookup_at at = update_at(&a, n);
    if (!at.outside)
        ATOMIC_MAX(&a.last[at.far >> a.shift], (uint32_t)n + 1);
}
