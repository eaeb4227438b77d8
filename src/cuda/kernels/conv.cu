/* conv.cu: convolutions of one to three axes, any strides, dilations and groups: cu_conv_large_f32.  The build compiles
 * it for each line of modules.def, with SUFFIX, S, the type as stored, SUM, that of sums, for half types HALF,
 * and LARGE where there are large tiles of others.
 *
 * A convolution is a product of matrices, one of which is not in memory: its rows are positions of the result, and it
 * has a column for each channel of each tap.  Whoever fetches an element counts through positions and taps in digits
 * (image and place along each axis; tap along each axis and channel), which need no division from one to the next. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/conv.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/product.h"
#include "cuda/kernels/warp.h"

#include "cuda/kernels/conv_at.h"

/* The pieces' sums, in order; zeros where there are none. */
KERNEL(K(cu_conv_merge), struct conv_call)
{
    SHARED T sums[PRODUCT_THREADS];
    int elements = PRODUCT_THREADS / a.team, part = (int)threadIdx.x / elements;
    int64_t i = (int64_t)blockIdx.x * elements + (int)threadIdx.x % elements, each = (a.pieces + a.team - 1) / a.team;
    int64_t end = (part + 1) * each < a.pieces ? (part + 1) * each : a.pieces;
    T sum = 0;
    for (int64_t p = part * each; p < end && i < a.size; p++) sum += ((const T *)a.partial)[p * a.size + i];
    sums[threadIdx.x] = sum;
    BARRIER();
    if (part || i >= a.size)
        return;
    for (int k = 1; k < a.team; k++) sum += sums[(int)threadIdx.x + k * elements];
    ((S *)a.result)[i] = OUT(sum);
}

/* ---- tiles */

#if defined HALF && HAS_WARP_PRODUCTS
#define TILE PRODUCT_LARGE
#define N(name) name##_large
#include "cuda/kernels/conv_warps.inc"
#define TILE PRODUCT_SMALL
#define N(name) name##_small
#include "cuda/kernels/conv_warps.inc"
#elif defined HALF
#define TILE PRODUCT_SMALL
#define DEPTH 16
#define ROWS 8
#define COLUMNS 4
#define N(name) name##_small
#include "cuda/kernels/conv_tile.inc"
#else
#ifdef LARGE
#define TILE PRODUCT_LARGE
#define DEPTH 8
#define ROWS 8
#define COLUMNS 8
#define N(name) name##_large
#include "cuda/kernels/conv_tile.inc"
#endif
#define TILE PRODUCT_SMALL
#define DEPTH 16
#define ROWS 4
#define COLUMNS 4
#define N(name) name##_small
#include "cuda/kernels/conv_tile.inc"
#endif

#if defined LARGE && HAS_WARP_PRODUCTS
#define SPLIT
#define TILE PRODUCT_LARGE
#define N(name) name##_split
#include "cuda/kernels/conv_warps.inc"
#endif

#include "cuda/kernels/conv_direct.inc"
#ifdef LARGE
#include "cuda/kernels/conv_cells.inc"
#endif
#if defined LARGE || defined HALF
#include "cuda/kernels/conv_thin.inc"
#endif
