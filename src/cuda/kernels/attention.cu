/* attention.cu: attention by tiles of queries and keys: cu_attention_tile_128_f32.  The build compiles it for each
 * line of modules.def, with SUFFIX and S, the type as stored, defined, and HALF for half types.
 *
 * Scores are never in the device's memory.  A row keeps the largest so far and the sum of exp(score - largest), and
 * what is added up of V fades when the largest changes.  Sums run along the keys in order, in pieces that follow from
 * the sizes alone and are merged by another launch. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/attention_at.h"
#include "cuda/kernels/attention_results.h"
#include "cuda/kernels/warp.h"

/* The pieces as one. */
KERNEL(K(cu_attention_merge), struct attention_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, n = rows_of_all(&a), wide = a.e ? a.e : 1;
    if (i >= n * wide)
        return;
    int64_t row = i, column = place_along(&row, (uint32_t)wide, n * wide);
    const T *from = (const T *)a.partial + row * a.e + column;
    const T *tops = (const T *)a.partial + a.pieces * n * a.e + row, *sums = tops + a.pieces * n;
    T top = LOWEST, sum = 0, y = 0;
    for (int64_t p = 0; p < a.pieces; p++) top = tops[p * n] > top ? tops[p * n] : top;
    if (a.sinks.p) {
        int64_t unit = over(row, a.rows), head = rest_of(unit, a.kv) * a.group + over(rest_of(row, a.rows), a.length);
        T sink = IN(((const S *)a.sinks.p)[batch_place(&a, a.sinks.batch, over(unit, a.kv)) + head * a.sinks.head]);
        top = sink > top ? sink : top;
        sum = F(exp)(sink - top);
    }
    for (int64_t p = 0; p < a.pieces; p++) {
        T by = F(exp)(tops[p * n] - top);
        sum += by * sums[p * n];
        y += a.e ? by * from[p * n * a.e] : (T)0;
    }
    if (a.e)
        ((S *)a.y)[i] = OUT(y / sum);
    if (column == 0) {
        ((T *)a.top)[row] = top;
        ((T *)a.sum)[row] = sum;
    }
}

/* ---- few queries */

/* The first n of LANES elements, zeros behind. */
FN_APART union lanes some_lanes(const S *x, int n)
{
    union lanes u;
    for (int k = 0; k < LANES; k++) u.v[k] = k < n ? x[k] : zero_element();
    return u;
}

#define ROWS 1
#define N(name) name##_few_1
#include "cuda/kernels/attention_few.inc"
#define ROWS 2
#define N(name) name##_few_2
#include "cuda/kernels/attention_few.inc"
#define ROWS 4
#define N(name) name##_few_4
#include "cuda/kernels/attention_few.inc"
#define ROWS 8
#define N(name) name##_few_8
#include "cuda/kernels/attention_few.inc"

/* ---- tiles */

#ifdef WIDE
#define EACH 2
#else
#define EACH 4
#define WIDTH 128
#define N(name) name##_tile_128
#include "cuda/kernels/attention_tile.inc"
#endif
#define WIDTH 64
#define N(name) name##_tile_64
#include "cuda/kernels/attention_tile.inc"

#if defined HALF && HAS_WARP_PRODUCTS
#define TALL 1
#define STEP ATTENTION_SPLIT_KEYS
#define KEYS (STEP / 4)
#define WIDTH 64
#define N(name) name##_split_64
#include "cuda/kernels/attention_split.inc"
#define WIDTH 128
#define N(name) name##_split_128
#include "cuda/kernels/attention_split.inc"
#undef TALL
#undef STEP
#undef KEYS

#define WIDTH 64
#define TALL 2
#define KEYS 64
#define N(name) name##_warps_64
#include "cuda/kernels/attention_warps.inc"
#define WIDTH 96
#define TALL 2
#define KEYS 64
#define N(name) name##_warps_96
#include "cuda/kernels/attention_warps.inc"
#define WIDTH 128
#define TALL 2
#define KEYS 64
#define N(name) name##_warps_128
#include "cuda/kernels/attention_warps.inc"
#define WIDTH 256
#define TALL 1
#define KEYS 32
#define N(name) name##_warps_256
#include "cuda/kernels/attention_warps.inc"
#endif
