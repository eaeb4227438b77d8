/* search.cu: places in sorted sequences. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/order_at.h"
#include "cuda/kernels/search.h"

KERNEL(cu_search, struct search_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.count)
        return;
    int64_t begin = i / a.each * a.n, at = begin, v = order_at(a.v, a.type, i, 1);
    for (int64_t left = a.n; left > 0;) {
        int64_t half = left / 2, key = order_at(a.x, a.type, at + half, 1);
        bool on = a.right ? key <= v : key < v;
        at = on ? at + half + 1 : at;
        left = on ? left - half - 1 : half;
    }
    a.y[i] = (uint32_t)(at - begin);
}
