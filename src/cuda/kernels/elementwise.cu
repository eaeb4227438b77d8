/* elementwise.cu: every unary and binary row for one type: cu_add_f32, cu_less_bf16.  The build compiles it
 * for each line of modules.def, with SUFFIX, S (the type as stored) and KIND (shared/rows.h) defined, and
 * HALF for the two half types.  The formulas are those of the CPU, so results are the same bits.
 *
 * A thread makes LANES results: neighbours, read and written 16 bytes at a time, where operands are
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

/* The elements of this thread, where they lie side by side, and in any case; r, u and v are lanes. */
#define EACH_ELEMENT(count, load, one, any)                                \
    int64_t mine = (int64_t)blockDim.x * LANES, block = blockIdx.x * mine; \
    if (w.ndim == 0 && w.aligned && block + mine <= w.n) {                 \
        int64_t first = block + (int64_t)threadIdx.x * LANES;              \
        load;                                                              \
        for (int k = 0; k < LANES; k++) r.v[k] = one;                      \
        PUT_LANES(y + first, r.v, sizeof r.v);                             \
        return;                                                            \
    }                                                                      \
    ROLLED                                                                 \
    for (int k = 0; k < LANES; k++) {                                      \
        int64_t i = block + (int64_t)k * blockDim.x + threadIdx.x;         \
        struct places p = places_in(&w, i, count);                         \
        if (i < w.n)                                                       \
            y[i] = any;                                                    \
    }

#define RESULT1(name) TYPE_OF(OUT(F(name)(IN(*(const S *)0))))
#define RESULT2(name) TYPE_OF(OUT(F(name)(IN(*(const S *)0), IN(*(const S *)0))))

#define UNARY_KERNEL(name, set)                                                                                \
    FN_##set RESULT1(name) K(one_##name)(S a) { return OUT(F(name)(IN(a))); }                                  \
    GPU_KERNEL K(cu_##name)(RESULT1(name) * y, const S *a, BY_VALUE struct walk w)                             \
    {                                                                                                          \
        union lanes u;                                                                                         \
        union {                                                                                                \
            RESULT1(name) v[LANES];                                                                            \
            struct words4 align;                                                                               \
        } r;                                                                                                   \
        EACH_ELEMENT(1, load_lanes(&u, a, first, w.step[0]), K(one_##name)(u.v[k]), K(one_##name)(a[p.at[0]])) \
    }
#define BINARY_KERNEL(name, set)                                                                    \
    FN_##set RESULT2(name) K(one_##name)(S a, S b) { return OUT(F(name)(IN(a), IN(b))); }           \
    GPU_KERNEL K(cu_##name)(RESULT2(name) * y, const S *a, const S *b, BY_VALUE struct walk w)      \
    {                                                                                               \
        union lanes u, v;                                                                           \
        union {                                                                                     \
            RESULT2(name) v[LANES];                                                                 \
            struct words4 align;                                                                    \
        } r;                                                                                        \
        EACH_ELEMENT(2, (load_lanes(&u, a, first, w.step[0]), load_lanes(&v, b, first, w.step[1])), \
                     K(one_##name)(u.v[k], v.v[k]), K(one_##name)(a[p.at[0]], b[p.at[1]]))          \
    }
#define UNARY(name, label, set, ...) ROW(set, UNARY_KERNEL(name, set))
#define BINARY(name, label, set, ...) ROW(set, BINARY_KERNEL(name, set))
#include "ops/ops.def"
