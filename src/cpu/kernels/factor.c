/* factor.c: factors of small matrices at one instruction-set level, each matrix in a lane of its own.
 *
 * There are no sums over lanes and the same steps for every lane, so a matrix has the same bits wherever in a batch it
 * is.  Rows are exchanged by selection, where a lane asks for it. */
#include "cpu/kernels/factor.h"

#include <math.h>

#include "cpu/kernels/lanes.h"
#include "ops/linalg.h"

#define LANES(T) (REGISTER / (int)sizeof(T))

/* A scalar in all lanes; MADD(acc, v, w): acc + v * w, with one rounding where the processor has it. */
#if defined __AVX512F__
#define SPLAT_f32(s) ((vector_f32)_mm512_set1_ps(s))
#define SPLAT_f64(s) ((vector_f64)_mm512_set1_pd(s))
#define MADD_f32(acc, v, w) ((vector_f32)_mm512_fmadd_ps((__m512)(v), (__m512)(w), (__m512)(acc)))
#define MADD_f64(acc, v, w) ((vector_f64)_mm512_fmadd_pd((__m512d)(v), (__m512d)(w), (__m512d)(acc)))
#elif defined __FMA__
#define SPLAT_f32(s) ((vector_f32)_mm256_set1_ps(s))
#define SPLAT_f64(s) ((vector_f64)_mm256_set1_pd(s))
#define MADD_f32(acc, v, w) ((vector_f32)_mm256_fmadd_ps((__m256)(v), (__m256)(w), (__m256)(acc)))
#define MADD_f64(acc, v, w) ((vector_f64)_mm256_fmadd_pd((__m256d)(v), (__m256d)(w), (__m256d)(acc)))
#elif defined __aarch64__
#include <arm_neon.h>
#define SPLAT_f32(s) ((vector_f32)vdupq_n_f32(s))
#define SPLAT_f64(s) ((vector_f64)vdupq_n_f64(s))
#define MADD_f32(acc, v, w) ((vector_f32)vfmaq_f32((float32x4_t)(acc), (float32x4_t)(v), (float32x4_t)(w)))
#define MADD_f64(acc, v, w) ((vector_f64)vfmaq_f64((float64x2_t)(acc), (float64x2_t)(v), (float64x2_t)(w)))
#else
#define SPLAT_f32(s) ((vector_f32){ 0 } + (s))
#define SPLAT_f64(s) ((vector_f64){ 0 } + (s))
#define MADD_f32(acc, v, w) ((acc) + (v) * (w))
#define MADD_f64(acc, v, w) ((acc) + (v) * (w))
#endif

#define T float
#define S f32
#define SPLAT SPLAT_f32
#define MADD MADD_f32
#define INTEGER int32_t
#define TURN LEVEL(transpose_4)
#define ROOT sqrtf
#include "cpu/kernels/factor.inc"

#define T double
#define S f64
#define SPLAT SPLAT_f64
#define MADD MADD_f64
#define INTEGER int64_t
#define TURN LEVEL(transpose_8)
#define ROOT sqrt
#include "cpu/kernels/factor.inc"

extern const struct factor_kernels LEVEL(factor_kernels);
const struct factor_kernels LEVEL(factor_kernels) = {
    .bytes = REGISTER,
    .f32 = { inverse_f32, solve_f32, cholesky_f32, lu_f32, dots_f32, combine_f32, step_f32, fold_f32 },
    .f64 = { inverse_f64, solve_f64, cholesky_f64, lu_f64, dots_f64, combine_f64, step_f64, fold_f64 },
};
