/* elementwise.cu: every unary and binary row for one type: cu_add_f32, cu_less_bf16.  The build compiles it
 * for each line of modules.def, with SUFFIX, S (the type as stored) and KIND (shared/rows.h) defined, and
 * HALF for the two half types.  The formulas are those of the CPU, so results are the same bits, but for those that
 * half types have of their own (halves.h).
 *
 * A thread makes LANES results, `rounds` times: neighbours, read and written 16 bytes at a time, where operands are
 * contiguous; else one in every blockDim.x, so that the threads of a warp write side by side. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/formulas.h"
#include "cuda/kernels/halves.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/pairs.h"
#include "cuda/kernels/places.h"

#define K(name) PASTE(name, SUFFIX)
#ifdef HALF /* computes as float32 */
typedef float T;
#define F(name) HALF_FORMULA(name)
#define FN_OF(name, set) HALF_FN(name, FN_##set)
#define IN(x) PASTE(f32_from, SUFFIX)(x)
#else
typedef S T;
#define F(name) K(name)
#define FN_OF(name, set) FN_##set
#define IN(x) (x)
#endif

/* Results as they are stored: those of half types are rounded, two at once. */
#ifdef HALF
FN void round_lanes(uint16_t *y, const float x[LANES])
{
    UNROLLED
    for (int k = 0; k < LANES / 2; k++) ((uint32_t *)y)[k] = PASTE(pair, SUFFIX)(x[2 * k], x[2 * k + 1]);
}
FN void keep_lanes(uint8_t *y, const uint8_t x[LANES])
{
    for (int k = 0; k < LANES; k++) y[k] = x[k];
}
#ifdef __cplusplus
FN uint16_t stored(float x) { return PASTE(SUFFIX, from_f32)(x); }
FN uint8_t stored(uint8_t x) { return x; }
FN void store_lanes(uint16_t *y, const float x[LANES]) { round_lanes(y, x); }
FN void store_lanes(uint8_t *y, const uint8_t x[LANES]) { keep_lanes(y, x); }
#else
FN uint8_t as_it_is(uint8_t x) { return x; }
#define stored(x) _Generic((x), float : PASTE(SUFFIX, from_f32), uint8_t : as_it_is)(x)
#define store_lanes(y, x) _Generic(*(x), float : round_lanes, uint8_t : keep_lanes)(y, x)
#endif
#define STORED(result) TYPE_OF(stored(*(result *)0))
#else
#define stored(x) (x)
#define store_lanes(y, x) \
    for (int s_ = 0; s_ < LANES; s_++) (y)[s_] = (x)[s_]
#define STORED(result) result
#endif

FN void load_lanes(union lanes *u, const S *x, int64_t first, int step)
{
    if (step)
        COPY_LANES(u->v, x + first, sizeof u->v);
    else
        for (int k = 0; k < LANES; k++) u->v[k] = *x;
}

/* The elements of this thread, of operands x: where they lie side by side, in pieces of the block, the next of which is
 * read while this one is computed, what is one value but once; and in any case.  `all` makes those of `now`. */
#define EACH_ELEMENT(result, count, all, any)                                                                       \
    int64_t piece = (int64_t)blockDim.x * LANES, block = blockIdx.x * piece * rounds, end = block + piece * rounds; \
    if (w.ndim == 0 && w.aligned && end <= w.n) {                                                                   \
        union {                                                                                                     \
            STORED(result) v[LANES];                                                                                \
            struct words4 align;                                                                                    \
        } r;                                                                                                        \
        union lanes next[count], now[count];                                                                        \
        int64_t i = block + (int64_t)threadIdx.x * LANES;                                                           \
        for (int o = 0; o < count; o++) load_lanes(&next[o], x[o], i, w.step[o]);                                   \
        ROLLED                                                                                                      \
        for (; i < end; i += piece) {                                                                               \
            for (int o = 0; o < count; o++) now[o] = next[o];                                                       \
            for (int o = 0; i + piece < end && o < count; o++)                                                      \
                if (w.step[o])                                                                                      \
                    load_lanes(&next[o], x[o], i + piece, 1);                                                       \
            result made[LANES];                                                                                     \
            all;                                                                                                    \
            store_lanes(r.v, made);                                                                                 \
            PUT_LANES(y + i, r.v, sizeof r.v);                                                                      \
        }                                                                                                           \
        return;                                                                                                     \
    }                                                                                                               \
    ROLLED                                                                                                          \
    for (int64_t i = block + threadIdx.x; i < end; i += blockDim.x) {                                               \
        struct places p = places_in(&w, i, count);                                                                  \
        if (i < w.n)                                                                                                \
            y[i] = stored(any);                                                                                     \
    }

#define RESULT1(name) TYPE_OF(F(name)(*(const T *)0))
#define RESULT2(name) TYPE_OF(F(name)(*(const T *)0, *(const T *)0))

#define EACH_LANE(x) \
    for (int k = 0; k < LANES; k++) x

#define UNARY_KERNEL(name, set)                                                                            \
    FN_OF(name, set) RESULT1(name) K(one_##name)(T a) { return F(name)(a); }                               \
    FN void K(all_##name)(RESULT1(name) made[LANES], const union lanes now[1])                             \
    {                                                                                                      \
        int near = 1;                                                                                      \
        EACH_LANE(near &= NEAR_TEST(name)(IN(now[0].v[k])));                                               \
        if (near)                                                                                          \
            EACH_LANE(made[k] = NEAR_TWIN(name)(IN(now[0].v[k])));                                         \
        else                                                                                               \
            EACH_LANE(made[k] = K(one_##name)(IN(now[0].v[k])));                                           \
    }                                                                                                      \
    GPU_KERNEL K(cu_##name)(STORED(RESULT1(name)) * y, const S *a, BY_VALUE struct walk w, int32_t rounds) \
    {                                                                                                      \
        AFTER_LAUNCH_BEFORE();                                                                             \
        const S *x[] = { a };                                                                              \
        EACH_ELEMENT(RESULT1(name), 1, K(all_##name)(made, now), K(one_##name)(IN(a[p.at[0]])))            \
    }
#define BINARY_KERNEL(name, set)                                                                                       \
    FN_OF(name, set) RESULT2(name) K(one_##name)(T a, T b) { return F(name)(a, b); }                                   \
    FN void K(all_##name)(RESULT2(name) made[LANES], const union lanes now[2])                                         \
    {                                                                                                                  \
        int near = 1;                                                                                                  \
        EACH_LANE(near &= NEAR_TEST(name)(IN(now[0].v[k]), IN(now[1].v[k])));                                          \
        if (near)                                                                                                      \
            EACH_LANE(made[k] = NEAR_TWIN(name)(IN(now[0].v[k]), IN(now[1].v[k])));                                    \
        else                                                                                                           \
            EACH_LANE(made[k] = K(one_##name)(IN(now[0].v[k]), IN(now[1].v[k])));                                      \
    }                                                                                                                  \
    GPU_KERNEL K(cu_##name)(STORED(RESULT2(name)) * y, const S *a, const S *b, BY_VALUE struct walk w, int32_t rounds) \
    {                                                                                                                  \
        AFTER_LAUNCH_BEFORE();                                                                                         \
        const S *x[] = { a, b };                                                                                       \
        EACH_ELEMENT(RESULT2(name), 2, K(all_##name)(made, now), K(one_##name)(IN(a[p.at[0]]), IN(b[p.at[1]])))        \
    }
#define UNARY(name, label, set, ...) ROW(set, UNARY_KERNEL(name, set))
#define BINARY(name, label, set, ...) ROW(set, BINARY_KERNEL(name, set))
#include "ops/ops.def"
