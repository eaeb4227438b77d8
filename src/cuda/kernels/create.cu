/* create.cu: arrays made from nothing: evenly spaced numbers, diagonals. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/convert.h"
#include "cuda/kernels/create.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"
#include "cuda/kernels/types.h"

/* ---- series */

FN int64_t number_i64(const struct series *s, int64_t i) { return (int64_t)(s->first_i64 + (uint64_t)i * s->step_i64); }
FN float number_f32(const struct series *s, int64_t i) { return s->first_f32 + (float)(int)i * s->step_f32; }
FN double number_f64(const struct series *s, int64_t i)
{
    return i == s->count ? s->last : s->first + (double)i * s->step;
}

/* A thread's 16 bytes of each of its block's pieces, of `each` elements. */
#define FIRST_OF_PIECES(each) (((int64_t)blockIdx.x * (CREATE_ROUNDS * CREATE_THREADS) + threadIdx.x) * (each))
#define EACH_PIECE(first, each, n)                                                                      \
    ROLLED                                                                                              \
    for (int64_t first = FIRST_OF_PIECES(each), end_ = first + CREATE_ROUNDS * CREATE_THREADS * (each); \
         first < end_ && first < (n); first += CREATE_THREADS * (each))
#define PUT_PIECE(T, y, v, first, each, n)          \
    if ((first) + (each) <= (n)) {                  \
        put16((T *)(y) + (first), v);               \
    } else {                                        \
        UNROLLED                                    \
        for (int k_ = 0; k_ < (each); k_++)         \
            if ((first) + k_ < (n))                 \
                ((T *)(y))[(first) + k_] = (v)[k_]; \
    }

#define PUT(name, suffix, T, from)                                                                         \
    case DT_##name: {                                                                                      \
        enum { EACH = 16 / sizeof(T) };                                                                    \
        EACH_PIECE(first, EACH, a.n)                                                                       \
        {                                                                                                  \
            union {                                                                                        \
                T v[EACH];                                                                                 \
                struct words4 align;                                                                       \
            } r;                                                                                           \
            UNROLLED                                                                                       \
            for (int k = 0; k < EACH; k++) r.v[k] = CONVERT(suffix, from, number_##from(&a.s, first + k)); \
            PUT_PIECE(T, a.y, r.v, first, EACH, a.n)                                                       \
        }                                                                                                  \
        break;                                                                                             \
    }
#define PUT_i64(name, suffix, T) PUT(name, suffix, T, i64)
#define PUT_f32(name, suffix, T) PUT(name, suffix, T, f32)
#define PUT_f64(name, suffix, T) PUT(name, suffix, T, f64)

#define SERIES(suffix)                             \
    KERNEL(cu_series_##suffix, struct series_args) \
    {                                              \
        switch (a.to) {                            \
            GPU_DTYPES(PUT_##suffix)               \
        }                                          \
    }
SERIES(i64)
SERIES(f32)
SERIES(f64)

/* ---- diagonals */

KERNEL(cu_diagonal, struct gpu_diagonal_args)
{
    switch (a.size) {
#define T uint8_t
#include "cuda/kernels/create_diagonal.inc"
#define T uint16_t
#include "cuda/kernels/create_diagonal.inc"
#define T uint32_t
#include "cuda/kernels/create_diagonal.inc"
#define T uint64_t
#include "cuda/kernels/create_diagonal.inc"
    }
}
