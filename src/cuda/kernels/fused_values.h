/* fused_values.h: values of element-wise groups, 32 bits each, what they are in memory, and what steps make of them:
 * shared by the interpreter (fused.cu) and by programs that are compiled (specialized.h), so that both give the same
 * bits.
 *
 * DECLARED(name, set), unless defined before, is how the function of a formula is declared.  Include
 * cuda/kernels/gpu.h, formulas.h, fused.h and places.h before. */
#ifndef MX_CUDA_KERNELS_FUSED_VALUES_H
#define MX_CUDA_KERNELS_FUSED_VALUES_H

#include "cuda/kernels/halves.h"
#include "cuda/kernels/pairs.h"

/* ---- in memory */

FN int size_of(int type)
{
    return type == DT_float32 || type == DT_int32 || type == DT_uint32 ? 4
           : type == DT_bool_ || type == DT_uint8 || type == DT_int8   ? 1
                                                                       : 2;
}

FN uint32_t raw_at(const void *x, int size, int64_t i)
{
    return size == 4 ? ((const uint32_t *)x)[i] : size == 2 ? ((const uint16_t *)x)[i] : ((const uint8_t *)x)[i];
}

/* Bits as a value. */
FN uint32_t widened(uint32_t v, int type)
{
    switch (type) {
    case DT_float16: return bits_f32(f32_from_f16((uint16_t)v));
    case DT_bfloat16: return v << 16;
    case DT_int8: return (uint32_t)(int32_t)(int8_t)v;
    case DT_int16: return (uint32_t)(int32_t)(int16_t)v;
    }
    return v;
}

/* Two neighbours of a half type as values, and back. */
FN void unpack_pair(uint32_t v[2], uint32_t p, bool is_bf16)
{
    if (is_bf16) {
        v[0] = p << 16;
        v[1] = p & 0xffff0000u;
    } else {
        v[0] = bits_f32(f32_from_f16((uint16_t)p));
        v[1] = bits_f32(f32_from_f16((uint16_t)(p >> 16)));
    }
}
FN uint32_t pack_pair(const uint32_t v[2], bool is_bf16)
{
    return is_bf16 ? pair_bf16(f32_bits(v[0]), f32_bits(v[1])) : pair_f16(f32_bits(v[0]), f32_bits(v[1]));
}

/* Where element i is in an operand with strides. */
FN int64_t place_in(const struct fused_args *a, const struct fused_operand *o, int64_t i)
{
    int64_t at = 0;
    ROLLED
    for (int d = a->ndim; d-- > 0;) at += (d ? place_along(&i, a->shape[d], a->n) : i) * o->stride[d];
    return at;
}

/* ---- operations */

#ifndef DECLARED
#define DECLARED(name, set) FN
#endif

#define OF_F(x) f32_bits(x)
#define OF_I(x) ((int32_t)(x))
#define OF_U(x) (x)
#define OF_B(x) ((uint8_t)(x))
#ifdef __cplusplus
FN uint32_t as_bits(float x) { return bits_f32(x); }
FN uint32_t as_bits(int32_t x) { return (uint32_t)x; }
FN uint32_t as_bits(uint32_t x) { return x; }
FN uint32_t as_bits(uint8_t x) { return x; }
#else
FN uint32_t whole_bits(uint32_t x) { return x; }
#define as_bits(x) _Generic((x), float : bits_f32, default : whole_bits)(x)
#endif

#define ONE(name, set, suffix, class) \
    DECLARED(name, set) uint32_t one_##name##_##suffix(uint32_t x) { return as_bits(name##_##suffix(OF_##class(x))); }
#define TWO(name, set, suffix, class)                                          \
    DECLARED(name, set) uint32_t two_##name##_##suffix(uint32_t x, uint32_t y) \
    {                                                                          \
        return as_bits(name##_##suffix(OF_##class(x), OF_##class(y)));         \
    }

#define KIND f
#define UNARY(name, label, set, ...) ROW(set, ONE(name, set, f32, F))
#define BINARY(name, label, set, ...) ROW(set, TWO(name, set, f32, F))
#include "ops/ops.def"
#undef KIND
#define KIND i
#define UNARY(name, label, set, ...) ROW(set, ONE(name, set, i32, I) ONE(name, set, u32, U))
#define BINARY(name, label, set, ...) ROW(set, TWO(name, set, i32, I) TWO(name, set, u32, U))
#include "ops/ops.def"
#undef KIND
#define KIND b
#define UNARY(name, label, set, ...) ROW(set, ONE(name, set, b8, B))
#define BINARY(name, label, set, ...) ROW(set, TWO(name, set, b8, B))
#include "ops/ops.def"
#undef KIND
#undef ONE
#undef TWO

#define X(name) \
    FN uint32_t one_##name##_half(uint32_t x) { return bits_f32(name##_half(f32_bits(x))); }
FUSED_OF_HALF(X)
#undef X
#define X(name) \
    FN uint32_t two_##name##_half(uint32_t x, uint32_t y) { return bits_f32(name##_half(f32_bits(x), f32_bits(y))); }
FUSED_OF_HALVES(X)
#undef X

/* Conversions, FUSED_CASTS. */
FN uint32_t one_COPY(uint32_t x) { return x; }
FN uint32_t one_I_OF_F(uint32_t x) { return (uint32_t)i32_from_f32(f32_bits(x)); }
FN uint32_t one_U_OF_F(uint32_t x) { return u32_from_f32(f32_bits(x)); }
FN uint32_t one_B_OF_F(uint32_t x) { return (uint32_t)(f32_bits(x) != 0); }
FN uint32_t one_B_OF_I(uint32_t x) { return (uint32_t)(x != 0); }
FN uint32_t one_F_OF_I(uint32_t x) { return bits_f32((float)(int32_t)x); }
FN uint32_t one_F_OF_U(uint32_t x) { return bits_f32((float)x); }
FN uint32_t one_F_OF_B(uint32_t x) { return bits_f32((float)(x != 0)); }
FN uint32_t one_ODD_OF_I(uint32_t x) { return bits_f32(f32_odd_from_f64((double)(int32_t)x)); }
FN uint32_t one_ODD_OF_U(uint32_t x) { return bits_f32(f32_odd_from_f64((double)x)); }

#endif
