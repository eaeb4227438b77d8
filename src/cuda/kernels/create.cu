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

#define PUT(name, suffix, T, from)                                                  \
    case DT_##name: {                                                               \
        union {                                                                     \
            T v[CREATE_EACH];                                                       \
            struct words4 align;                                                    \
        } r;                                                                        \
        T *y = (T *)a.y + first;                                                    \
        UNROLLED                                                                    \
        for (int k = 0; k < CREATE_EACH; k++) r.v[k] = CONVERT(suffix, from, v[k]); \
        if (first + CREATE_EACH <= a.n) {                                           \
            PUT_LANES(y, r.v, sizeof r.v);                                          \
        } else {                                                                    \
            UNROLLED                                                                \
            for (int k = 0; k < CREATE_EACH; k++)                                   \
                if (first + k < a.n)                                                \
                    y[k] = r.v[k];                                                  \
        }                                                                           \
        break;                                                                      \
    }
#define PUT_i64(name, suffix, T) PUT(name, suffix, T, i64)
#define PUT_f32(name, suffix, T) PUT(name, suffix, T, f32)
#define PUT_f64(name, suffix, T) PUT(name, suffix, T, f64)

#define SERIES(suffix, type)                                                            \
    KERNEL(cu_series_##suffix, struct series_args)                                      \
    {                                                                                   \
        int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CREATE_EACH; \
        type v[CREATE_EACH];                                                            \
        UNROLLED                                                                        \
        for (int k = 0; k < CREATE_EACH; k++) v[k] = number_##suffix(&a.s, first + k);  \
        switch (a.to) {                                                                 \
            GPU_DTYPES(PUT_##suffix)                                                    \
        }                                                                               \
    }
SERIES(i64, int64_t)
SERIES(f32, float)
SERIES(f64, double)

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
