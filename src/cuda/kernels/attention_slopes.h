/* attention_slopes.h: what blocks that make the derivative of attention share, those of attention_vjp.cu and those of
 * attention_groups_vjp.cu: weights and slopes of half types, which queries a tile of keys is seen by, and what becomes
 * of elements that are not finite and were left out.
 *
 * Include attention_at.h before. */
#ifndef MX_CUDA_KERNELS_ATTENTION_SLOPES_H
#define MX_CUDA_KERNELS_ATTENTION_SLOPES_H

#include "cuda/kernels/warp.h"

/* Of K what has been left out, for the rows of a block that see it: whatever their slopes are, the sums are no
 * numbers; every: also of keys that all rows see.  By so many threads, of which this is one. */
FN_APART void spoil_left_out(const struct attention_call *c, int rows, int width, int every, int thread, int threads)
{
    struct spot s = spot_of(c, rows, width);
    int64_t all = every ? 0 : seen_by_all(c, &s, rows);
    for (int i = thread; i < rows * width; i += threads) {
        int64_t r = s.row + i / width, column = s.column + i % width;
        if (r >= c->rows || column >= c->d)
            continue;
        int64_t seen = seen_by(c, rest_of(r, c->length)), end = seen && seen < s.end ? seen : s.end;
        for (int64_t key = all; key < end; key++) {
            T k = IN(s.k[key * c->k.row + column]);
            if (is_wild(k))
                ((S *)c->y)[(s.first + i / width) * c->d + column] = OUT(k - k);
        }
    }
}

/* Are there keys of so many from `key` on that some of n rows from query t of a head on see and others do not? */
FN int seen_in_part_from(const struct attention_call *c, int64_t t, int n, int64_t key, int keys)
{
    return seen_by(c, t + n > c->length ? 0 : t) < (key + keys < c->keys ? key + keys : c->keys);
}
/* The same of a tile of rows. */
FN int seen_in_part(const struct attention_call *c, int64_t row, int tile, int64_t key, int keys)
{
    return seen_in_part_from(c, rest_of(row, c->length), at_most(c->rows - row, tile), key, keys);
}

/* Of Q and of the cotangents what has been left out, for the keys of a block that these rows see: whatever their slopes
 * are, the sums of dK are no numbers, and weights in front of infinities do not matter to those of dV.  `rows`: of a
 * tile of queries; every: also of those that see all of the keys. */
FN_APART void spoil_seen(const struct attention_vjp_call *a, int keys, int width, int rows, int every, int thread,
                         int threads)
{
    const struct attention_call *c = &a->c;
    int64_t tile = over(blockIdx.x, c->tiles), unit = over(tile, c->chunks);
    int64_t first = rest_of(blockIdx.x, c->tiles) * keys, from = rest_of(tile, c->chunks) * width;
    int64_t b = over(unit, c->kv), h = rest_of(unit, c->kv);
    const S *q = (const S *)c->q.p + batch_place(c, c->q.batch, b) + h * c->group * c->q.head;
    const S *ct = (const S *)a->ct.p + batch_place(c, a->ct.batch, b) + h * c->group * a->ct.head;
    for (int i = thread; i < keys * width; i += threads) {
        int64_t key = first + i / width, column = from + i % width, at = unit * c->keys + key;
        if (key >= c->keys)
            continue;
        for (int64_t row = 0; row < c->rows; row++) {
            int64_t seen = seen_by(c, rest_of(row, c->length));
            if ((!every && !seen_in_part(c, row - rest_of(row, rows), rows, first, keys)) ||
                (key >= seen && seen && !(((const T *)c->top)[unit * c->rows + row] <= LOWEST)))
                continue;
            T x = column < c->d ? IN(q[row_place(c, &c->q, row) + column]) : (T)0;
            T y = column < c->e ? IN(ct[row_place(c, &a->ct, row) + column]) : (T)0;
            if (is_wild(x))
                ((S *)a->dk)[at * c->d + column] = OUT(x - x);
            if (is_wild(y))
                ((S *)a->dv)[at * c->e + column] = OUT(IN(((const S *)a->dv)[at * c->e + column]) + y);
        }
    }
}

#if !defined WIDE && HAS_WARP_PRODUCTS
/* The weight that a score is; by: 0 behind the last query, whose score may be no number.  Hidden: the query sees other
 * keys. */
FN float near_weight(float score, float top, float by, int hidden)
{
    float p = by == 0 ? 0 : near_exp(score - top) * by;
    return hidden && !(top <= LOWEST) ? 0 : p; /* whatever the others are */
}
/* Its slope, from that of the weight. */
FN float near_slope(float p, float top, float delta, float slope)
{
    return top <= LOWEST || p == 0 ? 0 : p * (slope - delta);
}

/* A row, as which query of which head it is. */
struct query {
    int row, head, t;
};

FN struct query query_after(const struct attention_call *c, struct query q, int n)
{
    q.row += n;
    q.t += n;
    if (q.t >= c->length) {
        q.head += (int)over(q.t, c->length);
        q.t = (int)rest_of(q.t, c->length);
    }
    return q;
}

/* Of tiles of rows from that of q on the first that looks at keys from `key` on. */
FN struct query next_query(const struct attention_call *c, struct query q, int64_t key, int tile)
{
    int left = (int)c->rows - q.row;
    if (left > 0 && looked_at_from(c, q.t, left < tile ? left : tile) <= key) /* rows of one head */
        q = query_after(c, q, (int)(key + c->length - c->keys - q.t) / tile * tile);
    return q;
}

FN const S *unit_of(const struct attention_call *c, const struct attention_operand *o, int64_t unit, int64_t each)
{
    return (const S *)o->p + place_of_unit(c, o, unit, each);
}

#endif

#endif
