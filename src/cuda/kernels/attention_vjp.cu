/* attention_vjp.cu: the derivative of attention: cu_attention_to_queries_128_f32.  The build compiles it as it does
 * attention.cu.
 *
 * With S the scores, P the weights and dP = dY V^T:  dS = P (dP - delta),  dQ = scale dS K,  dK = scale dS^T Q,
 * dV = P^T dY.  Blocks of queries make dQ, blocks of keys dK and dV, each from scores of its own. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/attention_at.h"
#include "cuda/kernels/warp.h"

/* What a weight is made of, for each query of a tile. */
struct weighing {
    int64_t mask_at[ATTENTION_KEYS], seen[ATTENTION_KEYS];
    T top[ATTENTION_KEYS], by[ATTENTION_KEYS], delta[ATTENTION_KEYS];
};

/* For query i of a tile, row r of a unit. */
FN void weigh_query(struct weighing *w, const struct attention_vjp_call *a, int64_t unit, int64_t mask_at, int i,
                    int64_t r)
{
    const struct attention_call *c = &a->c;
    int64_t at = unit * c->rows + r;
    w->mask_at[i] = mask_at + row_place(c, &c->mask, r);
    w->seen[i] = seen_by(c, rest_of(r, c->length));
    w->top[i] = ((const T *)c->top)[at];
    w->by[i] = 1 / ((const T *)c->sum)[at];
    w->delta[i] = ((const T *)a->delta)[at];
}

/* The weight that a product of query i and a key is, and its cotangent, of which it is given that of the weight. */
FN T weight_of(const struct attention_call *c, const struct weighing *w, int i, int64_t key, T score, T *slope)
{
    score *= (T)c->scale;
    if (key >= w->seen[i])
        score = LOWEST;
    if (c->mask.p)
        score = masked(c, w->mask_at[i], key, score);
    T p = F(exp)(score - w->top[i]) * w->by[i];
    if (key >= w->seen[i] && w->seen[i] && !(w->top[i] <= LOWEST)) /* whatever the others are */
        p = 0;
    *slope = w->top[i] <= LOWEST || p == 0 ? (T)0 : p * (*slope - w->delta[i]);
    return p;
}

/* Four neighbours, or as many of them as there are columns, of a row of a result. */
FN void put_slopes(void *to, int64_t row, int64_t column, int64_t columns, const T v[4], T scale)
{
    S *y = (S *)to + row * columns;
    for (int k = 0; k < 4; k++)
        if (column + k < columns)
            y[column + k] = OUT(v[k] * scale);
}

/* Of K what has been left out, for the rows of a block that see it: whatever their slopes are, the sums are no
 * numbers. */
FN_APART void spoil_left_out(const struct attention_call *c, int rows, int width)
{
    struct spot s = spot_of(c, rows, width);
    int64_t all = seen_by_all(c, &s, rows);
    for (int i = (int)threadIdx.x; i < rows * width; i += (int)blockDim.x) {
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
 * tile of queries. */
FN_APART void spoil_seen(const struct attention_vjp_call *a, int keys, int width, int rows)
{
    const struct attention_call *c = &a->c;
    int64_t tile = over(blockIdx.x, c->tiles), unit = over(tile, c->chunks);
    int64_t first = rest_of(blockIdx.x, c->tiles) * keys, from = rest_of(tile, c->chunks) * width;
    int64_t b = over(unit, c->kv), h = rest_of(unit, c->kv);
    const S *q = (const S *)c->q.p + batch_place(c, c->q.batch, b) + h * c->group * c->q.head;
    const S *ct = (const S *)a->ct.p + batch_place(c, a->ct.batch, b) + h * c->group * a->ct.head;
    for (int i = (int)threadIdx.x; i < keys * width; i += (int)blockDim.x) {
        int64_t key = first + i / width, column = from + i % width, at = unit * c->keys + key;
        if (key >= c->keys)
            continue;
        for (int64_t row = 0; row < c->rows; row++) {
            int64_t seen = seen_by(c, rest_of(row, c->length));
            if (!seen_in_part(c, row - rest_of(row, rows), rows, first, keys) ||
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

/* A sink's weight is exp(sink - top) / sum, and nothing is behind it: a warp for each. */
KERNEL(K(cu_attention_to_sinks), struct attention_vjp_call)
{
    const struct attention_call *c = &a.c;
    int64_t heads = c->kv * c->group, b = over(blockIdx.x, heads), h = rest_of(blockIdx.x, heads);
    double sink = (double)IN(((const S *)c->sinks.p)[batch_place(c, c->sinks.batch, b) + h * c->sinks.head]), sum = 0;
    for (int64_t t = threadIdx.x; t < c->length; t += 32) {
        int64_t at = (int64_t)blockIdx.x * c->length + t;
        double top = (double)((const T *)c->top)[at], by = 1 / (double)((const T *)c->sum)[at];
        sum -= exp_f64(sink - top) * by * (double)((const T *)a.delta)[at];
    }
    for (int bits = 16; bits > 0; bits /= 2) sum += SHUFFLE_XOR(sum, bits);
    if (threadIdx.x == 0)
        ((S *)a.dsinks)[blockIdx.x] = OUT((T)sum);
}

#ifdef WIDE
#define EACH 2
#else
#define EACH 4
#define WIDTH 128
#define N(name) name##_128
#include "cuda/kernels/attention_vjp.inc"
#endif
#define WIDTH 64
#define N(name) name##_64
#include "cuda/kernels/attention_vjp.inc"

#if defined HALF && HAS_WARP_PRODUCTS
/* ---- half types: sums of float32, of products of weights and slopes that are rounded to the type */

/* The weight that a score is.  Hidden: the query sees other keys. */
FN float near_weight(float score, float top, float by, int hidden)
{
    float p = near_exp(score - top) * by;
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

#define WIDTH 64
#define TALL 2
#define STEP 32
#define N(name) name##_to_queries_64
#include "cuda/kernels/attention_vjp_queries.inc"
#define WIDTH 96
#define TALL 2
#define STEP 32
#define N(name) name##_to_queries_96
#include "cuda/kernels/attention_vjp_queries.inc"
#define WIDTH 128
#define TALL 2
#define STEP 32
#define N(name) name##_to_queries_128
#include "cuda/kernels/attention_vjp_queries.inc"

#define WIDTH 64
#define TALL 2
#define STEP 64
#define N(name) name##_to_keys_64
#include "cuda/kernels/attention_vjp_keys.inc"
#define WIDTH 96
#define TALL 2
#define STEP 32
#define N(name) name##_to_keys_96
#include "cuda/kernels/attention_vjp_keys.inc"
#define WIDTH 128
#define TALL 2
#define STEP 32
#define N(name) name##_to_keys_128
#include "cuda/kernels/attention_vjp_keys.inc"
#endif
