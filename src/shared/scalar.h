/* scalar.h: each formula of the element-wise table once, as straight-line C.
 *
 * Include it before defining T, K or M of your own; it leaves none of them defined.  For every
 * row `name` of ops.def and every type of the row's set other than the two half types (which
 * compute as float32) it defines name_<suffix>, with the suffixes of core/dtype.h:
 *
 *     float expm1_f32(float x);    int32_t add_i32(int32_t a, int32_t b);
 *
 * GIVES_BOOL rows return uint8_t, 0 or 1; a bool operand is true if it is not 0.  GIVES_REAL rows return
 * float for complex64.  scalar_cast.h adds the conversions between types.
 *
 * The formulas call the maths library as M(f), the inlined polynomials of math_f32.h and math_f64.h:
 * the same on the CPU, where compilers vectorize them, and on CUDA, so that results are the same bits
 * (but for power of doubles, which is the platform's). */
#ifndef MX_SHARED_SCALAR_H
#define MX_SHARED_SCALAR_H

#ifdef __CUDACC__
#ifdef __CUDACC_RTC__ /* compiles without any header */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#endif
#define FN static __device__ __forceinline__
#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_sqrtf sqrtf
#define __builtin_sqrt sqrt
#define __builtin_floorf floorf
#define __builtin_floor floor
#define __builtin_ceilf ceilf
#define __builtin_ceil ceil
#define __builtin_truncf truncf
#define __builtin_trunc trunc
#define __builtin_rintf rintf
#define __builtin_rint rint
#define __builtin_copysignf copysignf
#define __builtin_copysign copysign
#define __builtin_fmaf fmaf
#define __builtin_fmaxf fmaxf
#define __builtin_fma fma
#define __builtin_clzll __clzll
#include "shared/bits.h"
#include "shared/math_f64.h"

#include "shared/math_f32.h"
#else
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#define FN static inline __attribute__((always_inline))
#include "shared/bits.h"
/* f32 builds on f64 */
#include "shared/math_f64.h"

#include "shared/math_f32.h"
#endif

/* The layout of C's float _Complex, which CUDA's compiler does not have. */
typedef struct {
    float re, im;
} complex64;

#include "shared/scalar_cast.h"

#define T uint8_t
#define K(f) f##_b8
#include "shared/scalar_bool.h"
#undef T
#undef K

/* An integer pass: T, its unsigned twin U, the type W it multiplies in and Q it divides in, its
 * width, is it signed?  The CPU has vectors of floating divisions but not of integer ones, and a
 * float (of 24 bits) or a double holds what is needed of the quotient of narrow types. */
#ifdef __CUDACC__
#define FLOATING(q, t) t
#else
#define FLOATING(q, t) q
#endif

#define T uint8_t
#define U uint8_t
#define W uint32_t
#define Q FLOATING(float, T)
#define WIDTH 8
#define SIGNED 0
#define K(f) f##_u8
#include "shared/scalar_integer.h"

#define T uint16_t
#define U uint16_t
#define W uint32_t
#define Q FLOATING(float, T)
#define WIDTH 16
#define SIGNED 0
#define K(f) f##_u16
#include "shared/scalar_integer.h"

#define T uint32_t
#define U uint32_t
#define W uint32_t
#define Q FLOATING(double, T)
#define WIDTH 32
#define SIGNED 0
#define K(f) f##_u32
#include "shared/scalar_integer.h"

#define T uint64_t
#define U uint64_t
#define W uint64_t
#define Q T
#define WIDTH 64
#define SIGNED 0
#define K(f) f##_u64
#include "shared/scalar_integer.h"

#define T int8_t
#define U uint8_t
#define W uint32_t
#define Q FLOATING(float, T)
#define WIDTH 8
#define SIGNED 1
#define K(f) f##_i8
#include "shared/scalar_integer.h"

#define T int16_t
#define U uint16_t
#define W uint32_t
#define Q FLOATING(float, T)
#define WIDTH 16
#define SIGNED 1
#define K(f) f##_i16
#include "shared/scalar_integer.h"

#define T int32_t
#define U uint32_t
#define W uint32_t
#define Q FLOATING(double, T)
#define WIDTH 32
#define SIGNED 1
#define K(f) f##_i32
#include "shared/scalar_integer.h"

#define T int64_t
#define U uint64_t
#define W uint64_t
#define Q T
#define WIDTH 64
#define SIGNED 1
#define K(f) f##_i64
#include "shared/scalar_integer.h"

#undef FLOATING

#define T float
#define K(f) f##_f32
#define M(name) m_##name##_f32
#include "shared/scalar_float.h"
#undef T
#undef K
#undef M

#define T double
#define K(f) f##_f64
#define M(name) m_##name##_f64
#include "shared/scalar_float.h"

/* Complex numbers compute in pairs of doubles, through the M of the pass above. */
#undef T
#undef K
#define T complex64
#define K(f) f##_c64
#include "shared/scalar_complex.h"
#define A(name) M(name)
#include "shared/scalar_angle.h"
#undef K
#undef A

#ifndef __CUDACC__
#define K(f) f##_near_c64
#define A(name) m_##name##_near_f64
#include "shared/scalar_angle.h"
#undef K
#undef A
#include "shared/scalar_near.h"
#endif
#undef T
#undef M

#endif
