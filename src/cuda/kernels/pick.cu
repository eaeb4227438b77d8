/* pick.cu: which matrices are multiplied with each other, and where they are cut. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lookup_at.h"
#include "cuda/kernels/pick.h"

/* Those out of range stand for the nearest. */
KERNEL(cu_pick, struct pick_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n)
        return;
    int64_t v = index_value(a.index, a.t, i), last = a.matrices - 1;
    bool huge = v < 0 && a.t == DT_uint64;
    int64_t at = v < 0 && !huge ? v + a.matrices : v;
    if (at < 0 || at > last) {
        note_outside(&a.noting, (uint64_t)(a.before + i), (uint64_t)v);
        at = at < 0 && !huge ? 0 : last;
    }
    a.y[i] = (uint32_t)at;
}

/* The nearest that there are, none of which ends before it begins. */
KERNEL(cu_segments, struct segments_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n)
        return;
    int64_t begin = index_value(a.x, a.t, 2 * i), end = index_value(a.x, a.t, 2 * i + 1);
    if (begin < 0 || begin > end || end > a.k) {
        bool whole = a.t == DT_uint64; /* those past int64 are negative */
        note_two(&a.noting, (uint64_t)i, (uint64_t)begin, (uint64_t)end);
        begin = begin < 0 && !whole ? 0 : begin < 0 || begin > a.k ? a.k : begin;
        end = (end < 0 && whole) || end > a.k ? a.k : end;
        end = end < begin ? begin : end;
    }
    a.y[2 * i] = begin;
    a.y[2 * i + 1] = end;
}

KERNEL(cu_bounds, struct bounds_args)
{
    int64_t g = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, first = 0;
    if (g > a.groups)
        return;
    for (int64_t left = a.n; left > 0;) {
        int64_t half = left / 2, middle = first + half;
        bool below = a.key[middle] < g;
        first = below ? middle + 1 : first;
        left = below ? left - half - 1 : half;
    }
    a.y[g] = first * a.each;
}
