/* attention_vjp.cu: the derivative of attention: cu_attention_to_queries_128_f32.  The build compiles it as it does
 * attention.cu.
 *
 * With S the scores, P the weights and dP = dY V^T:  dS = P (dP - delta),  dQ = scale dS K,  dK = scale dS^T Q,
 * dV = P^T dY.  Blocks of queries make dQ, blocks of keys dK and dV, each from scores of its own. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/attention_at.h"
#include "cuda/kernels/attention_slopes.h"
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

/* What is taken off slopes: a team for each row. */
KERNEL(K(cu_attention_delta), struct attention_vjp_call)
{
    const struct attention_call *c = &a.c;
    if (called_off(c))
        return;
    int team = a.delta_team, part = (int)threadIdx.x % team;
    int64_t row = (int64_t)blockIdx.x * ((int)blockDim.x / team) + (int)threadIdx.x / team, all = c->units * c->rows;
    int there = row < all;
    row = there ? row : 0;
    int64_t unit = over(row, c->rows), r = rest_of(row, c->rows);
    const S *y = (const S *)a.result + row * c->e;
    const S *ct = (const S *)a.ct.p + place_of_unit(c, &a.ct, unit, c->group) + row_place(c, &a.ct, r);
    T sum = 0;
    int e = (int)c->e;
    if (a.result_vectors) {
        ROLLED
        for (int k = part * LANES; k < e; k += team * LANES) {
            union lanes u, v;
            COPY_LANES(u.v, y + k, sizeof u.v);
            COPY_LANES(v.v, ct + k, sizeof v.v);
            for (int i = 0; i < LANES; i++) sum += IN(u.v[i]) * IN(v.v[i]);
        }
    } else {
        ROLLED
        for (int k = part; k < e; k += team) sum += IN(y[k]) * IN(ct[k]);
    }
    for (int bits = team / 2; bits > 0; bits /= 2) sum += SHUFFLE_XOR(sum, bits);
    if (there && part == 0)
        ((T *)a.delta)[row] = sum;
}

/* A sink's weight is exp(sink - top) / sum, and nothing is behind it: a warp for each. */
KERNEL(K(cu_attention_to_sinks), struct attention_vjp_call)
{
    const struct attention_call *c = &a.c;
    int64_t heads = c->kv * c->group, b = over(blockIdx.x, heads), h = rest_of(blockIdx.x, heads);
    double sink = (double)IN(((const S *)c->sinks.p)[batch_place(c, c->sinks.batch, b) + h * c->sinks.head]), sum = 0;
    for (int64_t t = threadIdx.x; t < c->length && c->keys; t += 32) {
        int64_t at = (int64_t)blockIdx.x * c->length + t;
        double top = (double)((const T *)c->top)[at], by = 1 / (double)((const T *)c->sum)[at];
        sum -= exp_f64(sink - top) * by * (double)((const T *)a.delta)[at];
    }
    for (int bits = 16; bits > 0; bits /= 2) sum += SHUFFLE_XOR(sum, bits);
    if (threadIdx.x == 0)
        ((S *)a.dsinks)[blockIdx.x] = OUT((T)sum);
}

#if !defined HALF && !defined WIDE && HAS_WARP_PRODUCTS && !defined IN_TEXT /* theirs is long */
#define PARTS 1
#else
#define PARTS 0
#endif

#ifdef WIDE
#define EACH 2
#else
#define EACH 4
#define WIDTH 128
#define N(name) name##_128
#include "cuda/kernels/attention_vjp.inc"
#endif
#if !PARTS /* smaller heads have kernels of their own */
#define WIDTH 64
#define N(name) name##_64
#include "cuda/kernels/attention_vjp.inc"
#endif

#if PARTS
/* ---- float32 on units that multiply matrices */

#include "cuda/kernels/attention_parts.h"

#define WIDTH 64
#define WARPS 4
#define TEAMS 1
#define TALL 1
#define STEP 32
#define N(name) name##_to_queries_64
#include "cuda/kernels/attention_parts_queries.inc"
#define WIDTH 128
#define WARPS 4
#define TEAMS 1
#define TALL 1
#define STEP 24
#define N(name) name##_to_queries_128
#include "cuda/kernels/attention_parts_queries.inc"
#if HAS_LARGE_PARTS
#define WIDTH 256
#define WARPS 8
#define TEAMS 2
#define TALL 1
#define STEP 24
#define N(name) name##_to_queries_256
#include "cuda/kernels/attention_parts_queries.inc"
#endif

#define WIDTH 64
#define WARPS 4
#define TEAMS 1
#define TALL 1
#define STEP 32
#define N(name) name##_to_keys_64
#include "cuda/kernels/attention_parts_keys.inc"
#define WIDTH 128
#define WARPS 4
#define TEAMS 1
#define TALL 1
#define STEP 24
#define N(name) name##_to_keys_128
#include "cuda/kernels/attention_parts_keys.inc"
#if HAS_LARGE_PARTS
#define WIDTH 256
#define WARPS 8
#define TEAMS 2
#define TALL 1
#define STEP 24
#define N(name) name##_to_keys_256
#include "cuda/kernels/attention_parts_keys.inc"
#endif
#endif

#if defined HALF && HAS_WARP_PRODUCTS
/* ---- half types: sums of float32, of products of weights and slopes that are rounded to the type */

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
