/* cast.cu: from one type to any other: cu_cast_f32.  The build compiles it for each line of modules.def, with SUFFIX
 * and S, the type that is read, as stored, defined. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/cast.h"
#include "cuda/kernels/convert.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"
#include "cuda/kernels/types.h"

/* Neighbours, read and written at once, where memory is aligned for that; else one in every blockDim.x. */
#define CAST(name, suffix, T)                                                             \
    case DT_##name: {                                                                     \
        union {                                                                           \
            T v[CAST_EACH];                                                               \
            struct words4 align;                                                          \
        } r;                                                                              \
        T *y = (T *)a.y;                                                                  \
        if (side_by_side) {                                                               \
            for (int k = 0; k < CAST_EACH; k++) r.v[k] = CONVERT(suffix, SUFFIX, u.v[k]); \
            PUT_LANES(y + first, r.v, sizeof r.v);                                        \
        } else {                                                                          \
            for (int k = 0; k < CAST_EACH; k++) {                                         \
                int64_t i = block + (int64_t)k * blockDim.x + threadIdx.x;                \
                if (i < a.w.n)                                                            \
                    y[i] = CONVERT(suffix, SUFFIX, u.v[k]);                               \
            }                                                                             \
        }                                                                                 \
        break;                                                                            \
    }

KERNEL(PASTE(cu_cast, SUFFIX), struct cast_args)
{
    union {
        S v[CAST_EACH];
        struct words4 align;
    } u;
    const S *x = (const S *)a.x;
    int64_t mine = (int64_t)blockDim.x * CAST_EACH, block = blockIdx.x * mine;
    int64_t first = block + (int64_t)threadIdx.x * CAST_EACH;
    bool side_by_side = a.w.ndim == 0 && a.w.step[0] && a.w.aligned && block + mine <= a.w.n;
    if (side_by_side) {
        COPY_LANES(u.v, x + first, sizeof u.v);
    } else {
        for (int k = 0; k < CAST_EACH; k++) {
            int64_t i = block + (int64_t)k * blockDim.x + threadIdx.x;
            if (i < a.w.n)
                u.v[k] = x[places_in(&a.w, i, 1).at[0]];
        }
    }
    switch (a.to) {
        GPU_DTYPES(CAST)
    }
}
