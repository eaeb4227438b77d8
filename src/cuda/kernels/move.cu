/* move.cu: elements moved as they are, by their size: cu_copy_4.  The build compiles it for each line of modules.def,
 * with SIZE and UNIT, a type of that size, defined. */
#include "cuda/kernels/gpu.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/move.h"
#include "cuda/kernels/places.h"

typedef struct words4 words;
#define K(name) PASTE(name, SIZE)

FN struct places places_moved(const struct move_walk *w, int64_t i, int64_t n)
{
    return places_of(i, n, w->ndim, w->shape, 2, w->stride[0], MOVE_DIMS);
}

EARLY_KERNEL(K(cu_copy), struct move_args)
{
    LAUNCH_NEXT_OF_FEW();
    AFTER_LAUNCH_BEFORE();
    const struct move_box *b = &a.of[a.boxes > 1 && (int64_t)blockIdx.x >= a.of[1].begin];
    UNIT *y = (UNIT *)b->to, v[MOVE_EACH];
    const UNIT *x = (const UNIT *)b->from;
    int64_t first = ((int64_t)blockIdx.x - b->begin) * (blockDim.x * MOVE_EACH) + threadIdx.x, to[MOVE_EACH];
    for (int k = 0; k < MOVE_EACH; k++) { /* all are read before the first is written */
        int64_t i = first + (int64_t)k * blockDim.x;
        if (i >= b->n)
            break;
        struct places p = places_moved(&b->w, i, b->n);
        to[k] = p.at[0];
        v[k] = x[p.at[1]];
    }
    for (int k = 0; k < MOVE_EACH; k++)
        if (first + (int64_t)k * blockDim.x < b->n)
            y[to[k]] = v[k];
}

#if SIZE == 1
KERNEL(K(cu_send), struct sent_args)
{
    if (threadIdx.x < a.n)
        ((uint8_t *)a.to)[threadIdx.x] = a.bytes[threadIdx.x];
}
#endif

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
        put16(y + first, &u.all);
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
    struct places p = places_moved(&a.w, i, rest);
    int along = (int)threadIdx.x % TURN_SIDE, from = (int)threadIdx.x / TURN_SIDE;
    for (int k = from; k < TURN_SIDE; k += TURN_ROWS)
        if (row + along < a.rows && column + k < a.columns)
            square[k][along] = x[p.at[1] + row + along + (column + k) * a.from_column];
    BARRIER();
    for (int k = from; k < TURN_SIDE; k += TURN_ROWS)
        if (row + k < a.rows && column + along < a.columns)
            y[p.at[0] + (row + k) * a.to_row + column + along] = square[along][k];
}

/* The same where all rows, on either side, begin at a multiple of a piece and are whole pieces. */
enum { PIECE = TURN_PIECE(SIZE) };
union piece {
    UNIT v[PIECE];
    struct words2 half;
#if SIZE > 1
    words all;
#endif
};
KERNEL(K(cu_turn_pieces), struct turn_args)
{
    UNIT *y = (UNIT *)a.to;
    const UNIT *x = (const UNIT *)a.from;
    int64_t i = blockIdx.x, rest = gridDim.x;
    int64_t row = (place_along(&i, a.tall, rest) * TURN_TALL + threadIdx.x % TURN_TALL) * PIECE;
    int64_t column = (place_along(&i, a.wide, rest) * TURN_WIDE + threadIdx.x / TURN_TALL) * PIECE;
    struct places p = places_moved(&a.w, i, rest);
    union piece u[PIECE], turned;
    if (row >= a.rows || column >= a.columns)
        return;
    UNROLLED
    for (int k = 0; k < PIECE; k++) COPY_LANES(u[k].v, x + p.at[1] + row + (column + k) * a.from_column, sizeof u[k].v);
    UNROLLED
    for (int k = 0; k < PIECE; k++) {
        for (int j = 0; j < PIECE; j++) turned.v[j] = u[j].v[k];
        PUT_LANES(y + p.at[0] + (row + k) * a.to_row + column, turned.v, sizeof turned.v);
    }
}

KERNEL(K(cu_select), struct select_args)
{
    UNIT *y = (UNIT *)a.y, v[MOVE_EACH];
    const UNIT *x[2] = { (const UNIT *)a.p, (const UNIT *)a.q };
    int64_t first = (int64_t)blockIdx.x * (blockDim.x * MOVE_EACH) + threadIdx.x;
    for (int k = 0; k < MOVE_EACH; k++) {
        int64_t i = first + (int64_t)k * blockDim.x;
        if (i >= a.w.n)
            break;
        struct places p = places_in(&a.w, i, 3);
        v[k] = a.c[p.at[0]] ? x[0][p.at[1]] : x[1][p.at[2]];
    }
    for (int k = 0; k < MOVE_EACH; k++)
        if (first + (int64_t)k * blockDim.x < a.w.n)
            y[first + (int64_t)k * blockDim.x] = v[k];
}
#endif
