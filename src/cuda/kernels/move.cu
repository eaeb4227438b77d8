/* move.cu: elements moved as they are, by their size: cu_copy_4.  The build compiles it for each line of modules.def,
 * with SIZE and UNIT, a type of that size, defined. */
#include "cuda/kernels/gpu.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/move.h"
#include "cuda/kernels/places.h"

typedef struct words4 words;
#define K(name) PASTE(name, SIZE)

KERNEL(K(cu_copy), struct move_args)
{
    UNIT *y = (UNIT *)a.to, v[MOVE_EACH];
    const UNIT *x = (const UNIT *)a.from;
    int64_t first = (int64_t)blockIdx.x * (blockDim.x * MOVE_EACH) + threadIdx.x, to[MOVE_EACH];
    for (int k = 0; k < MOVE_EACH; k++) { /* all are read before the first is written */
        int64_t i = first + (int64_t)k * blockDim.x;
        if (i >= a.n)
            break;
        struct two_places p = two_places_of(i, a.n, a.ndim, a.shape, a.to_stride, a.from_stride);
        to[k] = p.a;
        v[k] = x[p.b];
    }
    for (int k = 0; k < MOVE_EACH; k++)
        if (first + (int64_t)k * blockDim.x < a.n)
            y[to[k]] = v[k];
}

#if SIZE <= 8
KERNEL(K(cu_fill), struct fill_args)
{
    union {
        UNIT v[16 / SIZE];
        words all;
    } u;
    UNIT *y = (UNIT *)a.to;
    for (int k = 0; k < 16 / SIZE; k++) u.v[k] = *(const UNIT *)a.from;
    int64_t mine = (int64_t)blockDim.x * (16 / SIZE), block = blockIdx.x * mine;
    int64_t first = block + (int64_t)threadIdx.x * (16 / SIZE);
    if (first + 16 / SIZE <= a.n)
        *(words *)(y + first) = u.all;
    else
        for (int64_t i = first; i < a.n; i++) y[i] = u.v[0];
}

KERNEL(K(cu_turn), struct turn_args)
{
    SHARED UNIT square[TURN_SIDE][TURN_SIDE + 1];
    UNIT *y = (UNIT *)a.to;
    const UNIT *x = (const UNIT *)a.from;
    int64_t i = blockIdx.x, rest = gridDim.x;
    int64_t row = place_along(&i, a.tall, rest) * TURN_SIDE, column = place_along(&i, a.wide, rest) * TURN_SIDE;
    struct two_places p = two_places_of(i, rest, a.ndim, a.shape, a.to_stride, a.from_stride);
    int along = (int)threadIdx.x % TURN_SIDE, from = (int)threadIdx.x / TURN_SIDE;
    for (int k = from; k < TURN_SIDE; k += TURN_ROWS)
        if (row + along < a.rows && column + k < a.columns)
            square[k][along] = x[p.b + row + along + (column + k) * a.from_column];
    BARRIER();
    for (int k = from; k < TURN_SIDE; k += TURN_ROWS)
        if (row + k < a.rows && column + along < a.columns)
            y[p.a + (row + k) * a.to_row + column + along] = square[along][k];
}

KERNEL(K(cu_select), struct select_args)
{
    UNIT *y = (UNIT *)a.y, v[MOVE_EACH];
    const UNIT *x[2] = { (const UNIT *)a.p, (const UNIT *)a.q };
    int64_t first = (int64_t)blockIdx.x * (blockDim.x * MOVE_EACH) + threadIdx.x;
    for (int k = 0; k < MOVE_EACH; k++) {
        int64_t i = first + (int64_t)k * blockDim.x, left = i, c = 0, p = 0, q = 0;
        if (i >= a.w.n)
            break;
        if (a.w.ndim == 0) {
            c = a.w.step[0] ? i : 0;
            p = a.w.step[1] ? i : 0;
            q = a.w.step[2] ? i : 0;
        }
        ROLLED
        for (int d = a.w.ndim; d-- > 0;) {
            int64_t here = place_along(&left, a.w.shape[d], a.w.n);
            c += here * a.w.stride[0][d];
            p += here * a.w.stride[1][d];
            q += here * a.w.stride[2][d];
        }
        v[k] = a.c[c] ? x[0][p] : x[1][q];
    }
    for (int k = 0; k < MOVE_EACH; k++)
        if (first + (int64_t)k * blockDim.x < a.w.n)
            y[first + (int64_t)k * blockDim.x] = v[k];
}
#endif
