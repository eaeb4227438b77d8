/* linalg_lanes.h: what the kernels of matrices in the registers of a warp's lanes (linalg_lanes.inc) share, whatever
 * the size.  A team of lanes has a matrix; several teams, which do the same steps, make a warp. */
#ifndef MX_CUDA_KERNELS_LINALG_LANES_H
#define MX_CUDA_KERNELS_LINALG_LANES_H

#include "cuda/kernels/linalg.h"
#include "cuda/kernels/linalg_numbers.h"

/* A lane of a team, and the row that it has. */
struct lane {
    int64_t matrix; /* its number in the batch */
    int there;      /* is there such a one? */
    int column;     /* the first of those of b */
    int number;     /* of the lane, in the warp */
    int me, team;   /* in its team, and of that in the warp */
    int place;      /* of the row, after exchanges so far */
    int done;       /* it has been the pivot's, or there is none */
    int moved;      /* it was exchanged for that */
    int with;       /* the row that was exchanged in the step `me` */
    S pivot;        /* if done, its element in the column `place` */
};
FN struct lane lane_of(const struct linalg_call *a, const int lanes)
{
    struct lane l;
    uint32_t tiles = (uint32_t)a->tiles, team = blockIdx.x * (LINALG_LANES / lanes) + threadIdx.x / lanes;
    l.matrix = team / tiles;
    l.there = l.matrix < a->count;
    l.column = (int)(team % tiles) * lanes;
    l.number = (int)threadIdx.x % 32;
    l.me = l.number % lanes;
    l.team = l.number / lanes;
    l.place = l.with = l.me;
    l.done = l.me >= a->m;
    l.moved = 0;
    l.pivot = made(1);
    return l;
}
/* Is it so for a lane of the team? */
FN int of_any(int is, const struct lane *l, const int lanes)
{
    return (VOTE(is) >> l->team * lanes & 0xffffffffu >> (32 - lanes)) != 0;
}

/* Pivots are chosen by keys: integers that compare as sizes do, NaN below all. */
#define KEY_f32 int32_t
#define KEY_f64 int64_t
typedef PASTE(KEY, REAL) key;
FN key key_of(S v)
{
    R size = size_of(v);
    return size == size ? (key)PASTE(bits, REAL)(size) : -1;
}
/* The largest of the team. */
FN int32_t most_f32(int32_t v, const int lanes)
{
    if (lanes == 32)
        return WARP_MAX(v);
    UNROLLED
    for (int bit = 1; bit < lanes; bit *= 2) {
        int32_t other = SHUFFLE_XOR(v, bit);
        v = other > v ? other : v;
    }
    return v;
}
FN int64_t most_f64(int64_t v, const int lanes) /* of the upper halves first, then of what is below */
{
    const uint32_t sign = 1u << 31;
    int32_t high = (int32_t)(v >> 32), upper = most_f32(high, lanes);
    int32_t low = high == upper ? (int32_t)((uint32_t)v ^ sign) : INT32_MIN;
    low = most_f32(low, lanes);
    return (int64_t)((uint64_t)(uint32_t)upper << 32 | ((uint32_t)low ^ sign));
}
/* The lane whose row has the largest element in a column, v here, of those that are not done; the first in their order
 * of several, which are rare. */
FN int pivot_lane(S v, const struct lane *l, const int lanes)
{
    key mine = l->done ? -2 : key_of(v);
    int is = mine == PASTE(most, REAL)(mine, lanes);
    uint32_t all = VOTE(is), ours = all >> l->team * lanes & 0xffffffffu >> (32 - lanes);
    if (POPCOUNT(all) > 32u / lanes)
        return most_f32(is ? (31 - l->place) << 5 | l->number : -1, lanes) & 31;
    return l->team * lanes + (int)POPCOUNT(ours - 1);
}

/* One that cannot be done is noted, or is NaN where it is not finite; must NaN be written? */
FN int lane_failed_with_nan(const struct linalg_call *a, const struct lane *l, int failed, int odd)
{
    odd |= a->odd && l->there && a->odd[l->matrix];
    if (!failed || !l->there)
        return 0;
    if (!odd && l->me == 0)
        note_outside(&a->noting, (uint64_t)l->matrix, 0);
    if (odd && l->me == 0 && a->nan)
        a->nan[l->matrix] = 1;
    return odd;
}

/* Elements that are read and written together. */
struct ALIGNED(16) four {
    S v[4];
};

#endif
