/* pick.cu: which matrices are multiplied with each other, and where they are cut. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lookup_at.h"
#include "cuda/kernels/pick.h"

/* Number i of array k; those out of range stand for the nearest. */
FN uint32_t number_of(const struct pick_args *a, int k, int64_t i)
{
    int32_t t = a->of[k].t;
    int64_t matrices = a->of[k].matrices, v = index_value(a->of[k].index, t, i), last = matrices - 1;
    bool huge = v < 0 && t == DT_uint64;
    int64_t at = v < 0 && !huge ? v + matrices : v;
    if (at < 0 || at > last) {
        note_outside(&a->noting, (uint64_t)(k * a->n + i), (uint64_t)v);
        at = at < 0 && !huge ? 0 : last;
    }
    return (uint32_t)at;
}

KERNEL(cu_pick, struct pick_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int k = 0;
    for (; i >= a.n && k < a.arrays; k++) i -= a.n;
    if (k < a.arrays)
        a.of[k].y[i] = number_of(&a, k, i);
}

/* By a block.  Threads of a warp whose pairs are of one group take places in it together; which warp comes first is a
 * matter of timing, and so is the order within a group. */
KERNEL(cu_pick_order, struct pick_order_args)
{
    enum { KEY_BITS = 11, PLACE_BITS = 16, NOBODY = PICK_ORDER_GROUPS };
    SHARED uint32_t counts[PICK_ORDER_GROUPS + 1], taken[PICK_ORDER_THREADS], kept[PICK_ORDER_PAIRS];
    int thread = (int)threadIdx.x, groups = (int)a.pick.of[1].matrices, n = (int)a.pick.n;
    counts[thread] = 0;
    if (thread == 0)
        counts[NOBODY] = 0;
    ROLLED
    for (int i = thread; i < 2 * n; i += PICK_ORDER_THREADS) {
        int second = i >= n;
        uint32_t number = number_of(&a.pick, second, second ? i - n : i);
        if (second)
            kept[i - n] = number;
        else
            a.pick.of[0].y[i] = number;
    }
    BARRIER();
    ROLLED
    for (int first = 0; first < n; first += PICK_ORDER_THREADS) {
        int i = first + thread;
        uint32_t key = i < n ? kept[i] : NOBODY, same = SAME_IN_WARP(key, KEY_BITS);
        uint32_t before = same & ((1u << thread % 32) - 1);
        if (!before)
            taken[thread] = ATOMIC_ADD(&counts[key], POPCOUNT(same));
        WARP_BARRIER();
        if (i < n)
            kept[i] = key << PLACE_BITS |
                      (taken[thread / 32 * 32 + (int)POPCOUNT((same & (0 - same)) - 1)] + POPCOUNT(before));
        WARP_BARRIER();
    }
    BARRIER();
    uint32_t mine = counts[thread], sum = mine; /* of groups up to this one */
    ROLLED
    for (int d = 1; d < groups; d *= 2) {
        uint32_t before = thread >= d ? counts[thread - d] : 0;
        BARRIER();
        counts[thread] = sum += before;
        BARRIER();
    }
    counts[thread] = sum - mine; /* where a group begins */
    BARRIER();
    if (thread < groups)
        a.bounds[thread] = counts[thread] * a.each;
    if (thread == 0)
        a.bounds[groups] = n * a.each;
    ROLLED
    for (int i = thread; i < n; i += PICK_ORDER_THREADS)
        a.order[counts[kept[i] >> PLACE_BITS] + (kept[i] & ((1u << PLACE_BITS) - 1))] = (uint32_t)i;
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
