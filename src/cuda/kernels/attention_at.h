/* attention_at.h: what a block of attention works on, and where that is.
 *
 * Include cuda/kernels/gpu.h before, with SUFFIX and S, the type as stored, defined, and HALF for half types. */
#ifndef MX_CUDA_KERNELS_ATTENTION_AT_H
#define MX_CUDA_KERNELS_ATTENTION_AT_H

#include "cuda/kernels/attention.h"
#include "cuda/kernels/computed.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"

#define K(name) PASTE(name, SUFFIX)

#define LOWEST_f32 (-3.40282346638528859812e+38f)
#define LOWEST_f64 (-1.79769313486231570815e+308)
/* The score of a key that is not to be seen. */
#define LOWEST F(LOWEST)

FN S zero_element(void)
{
    S z = { 0 };
    return z;
}
FN int at_most(int64_t left, int most) { return left < most ? (int)left : most; }

/* ---- values that are not finite
 *
 * A weight of 0 times infinity is no number: of keys that some rows of a block see and others do not, elements that are
 * not finite are left out when tiles are multiplied, and come to the rows that see them afterwards. */

FN int is_wild(T v) { return v - v != 0; }
/* Of two half types: with the exponent's bits all ones, one more is a carry into the sign. */
#define EXPONENTS_f16 0x7c007c00u
#define ONES_f16 0x04000400u
#define EXPONENTS_bf16 0x7f807f80u
#define ONES_bf16 0x00800080u

/* Neighbours in shared memory that are copied at once, of which what is not finite becomes 0; `wild` counts. */
FN void leave_out_of_lanes(S *v, uint32_t *wild)
{
#ifdef HALF
    uint32_t w[4], any = 0;
    COPY_LANES(w, v, sizeof w);
    for (int k = 0; k < 4; k++) any |= (w[k] & K(EXPONENTS)) + K(ONES);
    if (!(any & 0x80008000u))
        return;
#else
    int any = 0;
    for (int k = 0; k < LANES; k++) any |= is_wild(v[k]);
    if (!any)
        return;
#endif
    for (int k = 0; k < LANES; k++)
        if (is_wild(IN(v[k])))
            v[k] = zero_element();
    ATOMIC_ADD(wild, 1u);
}

/* ---- where things are */

/* Quotients and remainders of what is below 2^32, as rows, heads and blocks are: those of 64 bits are long. */
FN int64_t over(int64_t x, int64_t by) { return (int64_t)((uint32_t)x / (uint32_t)by); }
FN int64_t rest_of(int64_t x, int64_t by) { return (int64_t)((uint32_t)x % (uint32_t)by); }

FN int64_t batch_place(const struct attention_call *a, const int64_t *stride, int64_t b)
{
    int64_t at = 0;
    ROLLED
    for (int d = a->ndim; d-- > 0; b = over(b, a->shape[d])) at += rest_of(b, a->shape[d]) * stride[d];
    return at;
}

/* Where an operand of a unit begins that has `each` heads for one of keys. */
FN int64_t place_of_unit(const struct attention_call *a, const struct attention_operand *o, int64_t unit, int64_t each)
{
    return batch_place(a, o->batch, over(unit, a->kv)) + rest_of(unit, a->kv) * each * o->head;
}

/* What a block works on: rows from `row` on of a unit, columns of V from `column` on, keys from `from` to `end`. */
struct spot {
    int64_t unit, row, column, piece, from, end, first; /* first: that row among those of all units */
    const S *q, *k, *v, *sinks;                         /* of the unit */
    const void *mask;
    int64_t mask_at; /* of the unit, in elements */
};

/* How many keys query t sees. */
FN int64_t seen_by(const struct attention_call *a, int64_t t)
{
    int64_t n = t + a->keys - a->length + 1;
    return !a->causal || n > a->keys ? a->keys : n < 0 ? 0 : n;
}

/* How many keys n rows from query t0 of a head on look at, those that see nothing at all of them: what is behind has no
 * weight. */
FN int64_t looked_at_from(const struct attention_call *a, int64_t t0, int n)
{
    int64_t t1 = t0 + n - 1;
    if (t1 >= a->length) { /* of several heads */
        t0 = 0;
        t1 = a->length - 1;
    }
    return a->mask.p || !seen_by(a, t0) ? a->keys : seen_by(a, t1);
}
FN int64_t looked_at(const struct attention_call *a, int64_t row, int tile)
{
    return looked_at_from(a, rest_of(row, a->length), at_most(a->rows - row, tile));
}

/* Is there nothing to do after all?  All threads of a launch see the same. */
FN int called_off(const struct attention_call *a)
{
#ifdef HALF /* whose attention cuDNN may have made */
    return a->only_if && !*a->only_if;
#else
    (void)a;
    return 0;
#endif
}

/* `tile`: rows of a block; rest: what is left of its number. */
FN struct spot spot_at(const struct attention_call *a, int64_t row, int64_t column, int64_t rest, int tile)
{
    struct spot s;
    s.row = row;
    s.column = column;
    s.piece = rest_of(rest, a->pieces);
    s.unit = over(rest, a->pieces);
    int64_t b = over(s.unit, a->kv), h = rest_of(s.unit, a->kv);
    s.first = s.unit * a->rows + s.row;
    s.q = (const S *)a->q.p + batch_place(a, a->q.batch, b) + h * a->group * a->q.head;
    s.k = (const S *)a->k.p + batch_place(a, a->k.batch, b) + h * a->k.head;
    s.v = (const S *)a->v.p + batch_place(a, a->v.batch, b) + h * a->v.head;
    s.sinks = a->sinks.p ? (const S *)a->sinks.p + batch_place(a, a->sinks.batch, b) + h * a->group * a->sinks.head : 0;
    s.mask_at = a->mask.p ? batch_place(a, a->mask.batch, b) + h * a->group * a->mask.head : 0;
    int64_t limit = looked_at(a, s.row, tile);
    s.from = s.piece * a->piece;
    s.end = a->keys - s.from < a->piece ? a->keys : s.from + a->piece;
    s.end = limit < s.end ? limit : s.end;
    return s;
}
/* `width`: its columns. */
FN struct spot spot_of(const struct attention_call *a, int tile, int width)
{
    int64_t t = rest_of(blockIdx.x, a->tiles), rest = over(blockIdx.x, a->tiles);
    t = a->causal ? a->tiles - 1 - t : t; /* those that see more begin first */
    return spot_at(a, t * tile, rest_of(rest, a->chunks) * width, over(rest, a->chunks), tile);
}
/* Of a block that has all rows and columns of a unit. */
FN struct spot spot_of_unit(const struct attention_call *a, int tile) { return spot_at(a, 0, 0, blockIdx.x, tile); }

/* How many keys all rows of the block see. */
FN int64_t seen_by_all(const struct attention_call *a, const struct spot *s, int tile)
{
    int64_t t0 = rest_of(s->row, a->length);
    return seen_by(a, t0 + at_most(a->rows - s->row, tile) > a->length ? 0 : t0);
}

/* Row r of the unit in an operand. */
FN int64_t row_place(const struct attention_call *a, const struct attention_operand *o, int64_t r)
{
    return over(r, a->length) * o->head + rest_of(r, a->length) * o->row;
}

/* A score with what the mask says of a key; at: of the row, in the mask. */
FN T masked(const struct attention_call *a, int64_t at, int64_t key, T score)
{
    at += key * a->mask_key;
    if (a->mask_is_bool)
        return ((const uint8_t *)a->mask.p)[at] ? score : LOWEST;
    return score + IN(((const S *)a->mask.p)[at]);
}

#endif
