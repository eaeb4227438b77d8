/* elementwise.cu: every unary and binary row for one type: cu_add_f32, cu_less_bf16.  The build compiles it
 * for each line of modules.def, with SUFFIX, S (the type as stored) and KIND (shared/rows.h) defined, and
 * HALF for the two half types.  The formulas are those of the CPU, so results are the same bits.
 *
 * A thread makes LANES results, `rounds` times: neighbours, read and written 16 bytes at a time, where operands are
 * contiguous; else one in every blockDim.x, so that the threads of a warp write side by side. */
#include "cuda/kernels/formulas.h"
#include "cuda/kernels/gpu.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"

#define K(name) PASTE(name, SUFFIX)
#ifdef HALF /* computes as float32 */
#define F(name) name##_f32
#define IN(x) PASTE(f32_from, SUFFIX)(x)
#define OUT(x) PASTE(half_of, SUFFIX)(x)
#ifdef __cplusplus
FN uint16_t K(half_of)(float x) { return PASTE(SUFFIX, from_f32)(x); }
FN uint8_t K(half_of)(uint8_t x) { return x; }
#else
FN uint8_t as_it_is(uint8_t x) { return x; }
#define half_of_f16(x) _Generic((x), float : f16_from_f32, uint8_t : as_it_is)(x)
#define half_of_bf16(x) _Generic((x), float : bf16_from_f32, uint8_t : as_it_is)(x)
#endif
#else
#define F(name) K(name)
#define IN(x) (x)
#define OUT(x) (x)
#endif

FN void load_lanes(union lanes *u, const S *x, int64_t first, int step)
{
    if (step)
        COPY_LANES(u->v, x + first, sizeof u->v);
    else
        for (int k = 0; k < LANES; k++) u->v[k] = *x;
}

/* The elements of this thread, of operands x: where they lie side by side, in pieces of the block, the next of which is
 * read while this one is computed; and in any case.  r and now are lanes. */
#define EACH_ELEMENT(result, count, one, any)                                                                       \
    int64_t piece = (int64_t)blockDim.x * LANES, block = blockIdx.x * piece * rounds, end = block + piece * rounds; \
    if (w.ndim == 0 && w.aligned && end <= w.n) {                                                                   \
        union {                                                                                                     \
            result v[LANES];                                                                                        \
            struct words4 align;                                                                                    \
        } r;                                                                                                        \
        union lanes next[count], now[count];                                                                        \
        int64_t i = block + (int64_t)threadIdx.x * LANES;                                                           \
        for (int o = 0; o < count; o++) load_lanes(&next[o], x[o], i, w.step[o]);                                   \
        ROLLED                                                                                                      \
        for (; i < end; i += piece) {                                                                               \
            for (int o = 0; o < count; o++) now[o] = next[o];                                                       \
            for (int o = 0; i + piece < end && o < count; o++) load_lanes(&next[o], x[o], i + piece, w.step[o]);    \
            for (int k = 0; k < LANES; k++) r.v[k] = one;                                                           \
            PUT_LANES(y + i, r.v, sizeof r.v);                                                                      \
        }                                                                                                           \
        return;                                                                                                     \
    }                                                                                                               \
    ROLLED                                                                                                          \
    for (int64_t i = block + threadIdx.x; i < end; i += blockDim.x) {                                               \
        struct places p = places_in(&w, i, count);                                                                  \
        if (i < w.n)                                                                                                \
            y[i] = any;                                                                                             \
    }

#define RESULT1(name) TYPE_OF(OUT(F(name)(IN(*(const S *)0))))
#define RESULT2(name) TYPE_OF(OUT(F(name)(IN(*(const S *)0), IN(*(const S *)0))))

#define UNARY_KERNEL(name, set)                                                                    \
    FN_##set RESULT1(name) K(one_##name)(S a) { return OUT(F(name)(IN(a))); }                      \
    GPU_KERNEL K(cu_##name)(RESULT1(name) * y, const S *a, BY_VALUE struct walk w, int32_t rounds) \
    {                                                                                              \
        const S *x[] = { a };                                                                      \
        EACH_ELEMENT(RESULT1(name), 1, K(one_##name)(now[0].v[k]), K(one_##name)(a[p.at[0]]))      \
    }
#define BINARY_KERNEL(name, set)                                                                                       \
    FN_##set RESULT2(name) K(one_##name)(S a, S b) { return OUT(F(name)(IN(a), IN(b))); }                              \
    GPU_KERNEL K(cu_##name)(RESULT2(name) * y, const S *a, const S *b, BY_VALUE struct walk w, int32_t rounds)         \
    {                                                                                                                  \
        const S *x[] = { a, b };                                                                                       \
        EACH_ELEMENT(RESULT2(name), 2, K(one_##name)(now[0].v[k], now[1].v[k]), K(one_##name)(a[p.at[0]], b[p.at[1]])) \
    }
#define UNARY(name, label, set, ...) ROW(set, UNARY_KERNEL(name, set))
#define BINARY(name, label, set, ...) ROW(set, BINARY_KERNEL(name, set))
#include "ops/ops.def"
