/* attention.cu: attention by tiles of queries and keys: cu_attention_tile_128_f32.  The build compiles it for each
 * line of modules.def, with SUFFIX and S, the type as stored, defined, and HALF for half types.
 *
 * Scores are never in the device's memory.  A row keeps the largest so far and the sum of exp(score - largest), and
 * what is added up of V fades when the largest changes.  Sums run along the keys in order, in pieces that follow from
 * the sizes alone and are merged by another launch. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/attention_at.h"
#include "cuda/kernels/warp.h"

/* ---- results */

/* A row has been added up: with its sink, if this is all there is; what the sums of V are to be multiplied with. */
FN T finish_row(const struct attention_call *a, const struct spot *s, int64_t r, T *top, T *sum)
{
    T by = 1;
    if (a->pieces > 1)
        return by;
    if (s->sinks && a->keys) {
        T sink = IN(s->sinks[over(r, a->length) * a->sinks.head]), most = sink > *top ? sink : *top;
        by = F(exp)(*top - most);
        *sum = *sum * by + F(exp)(sink - most);
        *top = most;
    }
    *sum = a->keys ? *sum : (T)1;
    return by / *sum;
}

FN int64_t rows_of_all(const struct attention_call *a) { return a->units * a->rows; }

/* `row` is among those of all units. */
FN void put_row(const struct attention_call *a, int64_t piece, int64_t row, T top, T sum)
{
    T *tops = (T *)a->top, *sums = (T *)a->sum;
    if (a->pieces > 1) {
        int64_t n = rows_of_all(a);
        tops = (T *)a->partial + a->pieces * n * a->e + piece * n;
        sums = tops + a->pieces * n;
    }
    tops[row] = top;
    sums[row] = sum;
}

FN void put_element(const struct attention_call *a, int64_t piece, int64_t row, int64_t column, T v)
{
    if (a->pieces > 1)
        ((T *)a->partial)[(piece * rows_of_all(a) + row) * a->e + column] = v;
    else
        ((S *)a->y)[row * a->e + column] = OUT(v);
}

/* Four neighbours, or as many of them as there are columns. */
FN void put_four(const struct attention_call *a, int64_t piece, int64_t row, int64_t column, const T v[4])
{
    if (a->fours && column < a->e) {
        union {
            T v[4];
            struct words4 align;
        } t;
        union {
            S v[4];
            struct words4 align;
        } u;
        for (int k = 0; k < 4; k++) {
            t.v[k] = v[k];
            u.v[k] = OUT(v[k]);
        }
        if (a->pieces > 1) {
            PUT_LANES((T *)a->partial + (piece * rows_of_all(a) + row) * a->e + column, t.v, sizeof t.v);
        } else {
            PUT_LANES((S *)a->y + row * a->e + column, u.v, sizeof u.v);
        }
        return;
    }
    for (int k = 0; k < 4; k++)
        if (column + k < a->e)
            put_element(a, piece, row, column + k, v[k]);
}

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

/* The weight that row r, which sees so many keys, gives to one, but for the sum of its weights. */
FN T raw_weight(const struct attention_call *a, const struct spot *s, int64_t r, int64_t seen, int64_t key, T top)
{
    const S *q = s->q + row_place(a, &a->q, r), *k = s->k + key * a->k.row;
    T score = 0;
    for (int64_t d = 0; d < a->d; d++) score += IN(q[d]) * IN(k[d]);
    score = seen ? score * (T)a->scale : LOWEST;
    if (a->mask.p)
        score = masked(a, s->mask_at + row_place(a, &a->mask, r), key, score);
    return F(exp)(score - top);
}

/* Of V what has been left out, for the rows of a block that see it, which have all been written; tops are theirs.  What
 * the block works on is found once more: it stays in registers where nothing asks for its address. */
FN_APART void add_left_out(const struct attention_call *a, int rows, int width, const T *tops)
{
    struct spot s = spot_of(a, rows, width);
    int64_t all = seen_by_all(a, &s, rows), first = all > s.from ? all : s.from, columns = width ? width : a->e;
    for (int64_t i = threadIdx.x; i < rows * columns; i += blockDim.x) {
        int64_t at = over(i, columns), column = s.column + rest_of(i, columns), r = s.row + at;
        if (r >= a->rows || column >= a->e)
            continue;
        int64_t seen = seen_by(a, rest_of(r, a->length)), end = seen && seen < s.end ? seen : s.end;
        T y = 0;
        for (int64_t key = first; key < end && y == y; key++) {
            T v = IN(s.v[key * a->v.row + column]);
            if (is_wild(v))
                y += v * raw_weight(a, &s, r, seen, key, tops[at]);
        }
        if (y == 0)
            continue;
        int64_t row = s.first + at;
        if (a->pieces > 1)
            y += ((const T *)a->partial)[(s.piece * rows_of_all(a) + row) * a->e + column];
        else
            y += IN(((const S *)a->y)[row * a->e + column]);
        put_element(a, s.piece, row, column, y);
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
