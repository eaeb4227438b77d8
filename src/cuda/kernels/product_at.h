/* product_at.h: where a block of a product works.
 *
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_PRODUCT_AT_H
#define MX_CUDA_KERNELS_PRODUCT_AT_H

#include "cuda/kernels/places.h"
#include "cuda/kernels/product.h"

/* Where a block works: the tile's first row and column, its piece of k, its product. */
struct spot {
    int64_t row, bottom, column, from, end, piece, batch; /* bottom: behind the last row that there is */
    struct places at;                                     /* in a, b and c */
};
enum { TILES_DOWN = 8 }; /* neighbours in time are squares of tiles, whose operands are in the cache */

/* Tile `number` of all that groups of rows have: those of group g begin with number g + bounds[g] / tile, so a few are
 * nobody's. */
FN void find_group(const struct product_args *a, struct spot *s, int64_t number, int tile)
{
    int64_t g = 0;
    for (int64_t above = a->groups; above - g > 1;) {
        int64_t middle = (g + above) / 2, first = middle + a->bounds[middle] / tile;
        g = first <= number ? middle : g;
        above = first <= number ? above : middle;
    }
    s->row = a->bounds[g] + (number - g - a->bounds[g] / tile) * tile;
    s->bottom = a->bounds[g + 1];
    s->end = s->row < s->bottom ? s->end : s->from;
    s->at.at[1] = g * a->batch[1][0];
}

FN struct spot spot_of(const struct product_args *a, int tile, int wide)
{
    struct spot s;
    int64_t tiles = a->down * a->across, t = blockIdx.x % tiles, rest = blockIdx.x / tiles;
    int64_t group = t / (TILES_DOWN * a->across), first = group * TILES_DOWN, within = t % (TILES_DOWN * a->across);
    int64_t tall = a->down - first < TILES_DOWN ? a->down - first : TILES_DOWN;
    int64_t number = first + within % tall;
    s.row = number * tile;
    s.bottom = a->m;
    s.column = within / tall * wide;
    s.piece = rest % a->pieces;
    s.batch = rest / a->pieces;
    s.from = s.piece * a->piece;
    s.end = a->k - s.from < a->piece ? a->k : s.from + a->piece;
    s.at = places_of(s.batch, a->batches, a->ndim, a->shape, 3, a->batch[0], PRODUCT_DIMS);
    if (a->number[0] && !a->order)
        for (int o = 0; o < 2; o++) s.at.at[o] = a->number[o][s.batch] * a->batch[o][0];
    if (a->order) {
        find_group(a, &s, number, tile);
    } else if (a->bounds) {
        const int64_t *bounds = a->bounds + s.batch * a->bound_step;
        s.from = s.from < bounds[0] ? bounds[0] : s.from;
        s.end = s.end > bounds[1] ? bounds[1] : s.end;
        s.end = s.end < s.from ? s.from : s.end;
    }
    return s;
}

FN int at_most(int64_t left, int most) { return left < most ? (int)left : most; }

#endif
