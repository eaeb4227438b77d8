/* level.h: names, types and loop hints shared by the kernels of one instruction-set level.
 *
 * Every file of kernels/ is compiled once per level, with ISA defined as the level's name.  What
 * one file offers to another carries that name (LEVEL), everything else is static: so no function
 * built for one level is ever linked into another. */
#ifndef MX_CPU_KERNELS_LEVEL_H
#define MX_CPU_KERNELS_LEVEL_H

#include <string.h>

#include "cpu/kernels.h"
#include "shared/rows.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

#define LEVEL(name) PASTE(name, ISA) /* run_add_f32_avx2 for LEVEL(run_add_f32) */

/* Code written once and specialized at each use: constant and function arguments disappear. */
#define TEMPLATE static inline __attribute__((always_inline))

/* No element of the next loop depends on an earlier one, whatever the pointers alias. */
#ifdef __clang__
#define IVDEP _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
#pragma clang diagnostic ignored "-Wpass-failed" /* some formulas stay scalar */
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

/* All turns of the next loop one after the other. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* y[0] to all of y[0..n). */
TEMPLATE void spread(void *y, size_t size, size_t n)
{
    size_t total = n * size;
    for (size_t have = size; have < total; have *= 2)
        memcpy((char *)y + have, y, have < total - have ? have : total - have);
}

/* X(name, set, type, suffix, kind) for each type that kernels are written in. */
#define EACH_TYPE(X, name, set)   \
    X(name, set, bool_, b8, b)    \
    X(name, set, uint8, u8, i)    \
    X(name, set, uint16, u16, i)  \
    X(name, set, uint32, u32, i)  \
    X(name, set, uint64, u64, i)  \
    X(name, set, int8, i8, i)     \
    X(name, set, int16, i16, i)   \
    X(name, set, int32, i32, i)   \
    X(name, set, int64, i64, i)   \
    X(name, set, float32, f32, f) \
    X(name, set, float64, f64, f) \
    X(name, set, complex64, c64, c)

#endif
