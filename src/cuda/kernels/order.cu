/* order.cu: where updates go, by which they are put in order (sort.cu). */
#include "cuda/kernels/gpu.h"
#include "cuda/kernels/lookup_at.h"
#include "cuda/kernels/order.h"

KERNEL(cu_keys, struct keys_call)
{
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i = n, element = 0;
    if (n >= a.n)
        return;
    if (a.elements) {
        i = n / a.lookup.slice;
        element = n - i * a.lookup.slice;
    }
    struct lookup_at at = lookup_at(&a.lookup, i);
    if (a.elements) {
        struct lookup_at in = lookup_in_slice(&a.lookup, element);
        at.far += in.far;
        at.near += in.near;
    }
    if (a.key)
        a.key[n] = at.outside && a.drops ? ORDER_NONE : (uint32_t)(at.far >> a.shift);
    if (a.value)
        a.value[n] = a.size == 4   ? ((const uint32_t *)a.lookup.near)[at.near]
                     : a.size == 2 ? ((const uint16_t *)a.lookup.near)[at.near]
                                   : ((const uint8_t *)a.lookup.near)[at.near];
}
