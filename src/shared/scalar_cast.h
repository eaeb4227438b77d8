/* scalar_cast.h: conversions between element types that are more than a C cast.
 *
 * to_from, after the suffixes of core/dtype.h: f16_from_f32(x) is the float16 nearest to x.  The
 * half types are their bits. */

FN float f32_from_bf16(uint16_t h) { return f32_bits((uint32_t)h << 16); }

/* GPUs have instructions for it; their NaN is always the same one. */
#ifdef __CUDACC__
FN float f32_from_f16(uint16_t h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
#if __CUDA_ARCH__ >= 800 /* two at once have a faster one */
FN uint16_t f16_from_f32(float x)
{
    uint32_t two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(0.0f), "f"(x));
    return (uint16_t)two;
}
FN uint16_t bf16_from_f32(float x)
{
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(0.0f), "f"(x));
    return (uint16_t)two;
}
#else
FN uint16_t f16_from_f32(float x)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#endif
#else
/* The bits moved into place are the number times 2^-112, subnormals included; the multiplication is
 * exact.  An exponent of all ones stays one. */
FN float f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    uint32_t u = rest >= 0x7c00u << 13 ? rest | 0x7f800000u : bits_f32(f32_bits(rest) * 0x1p112f);
    return f32_bits(u | sign);
}

/* Three ranges: subnormal results are rounded by the addition of 0.5, whose last place is the least
 * float16; normal ones in integers, as for bfloat16; from 65520 on the result is infinite. */
FN uint16_t f16_from_f32(float x)
{
    uint32_t u = bits_f32(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu;
    uint32_t tiny = bits_f32(f32_bits(a) + 0.5f) - 0x3f000000u;
    uint32_t normal = (a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13;
    uint32_t h = a < 0x38800000u ? tiny : a < 0x477ff000u ? normal : 0x7c00u;
    return (uint16_t)(sign | (a > 0x7f800000u ? 0x7e00u : h));
}
#endif

#if !(defined __CUDACC__ && __CUDA_ARCH__ >= 800)
/* Half an ulp is added, just less where the result would be odd: ties go to even.  A NaN keeps its
 * sign and becomes the quiet one. */
FN uint16_t bf16_from_f32(float x)
{
    uint32_t u = bits_f32(x);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? (u >> 16 & 0x8000) | 0x7fc0 : rounded);
}
#endif

/* The nearest float, with a last bit of 1 wherever that is inexact: rounding once more, to a half
 * type, then gives what rounding the double at once would ("round to odd"). */
FN float f32_odd_from_f64(double x)
{
    float f = (float)x;
    uint32_t u = bits_f32(f);
    double back = f;
    uint32_t over = (x < 0 ? back < x : back > x); /* rounded away from zero */
    uint32_t odd = (u - over) | 1;
    return f32_bits(back == x || x != x ? u : odd);
}
FN uint16_t f16_from_f64(double x) { return f16_from_f32(f32_odd_from_f64(x)); }
FN uint16_t bf16_from_f64(double x) { return bf16_from_f32(f32_odd_from_f64(x)); }

/* The same of 64-bit integers.  Of one that double does not hold, one bit stands for the low 16: more than float's 24
 * remain above it. */
FN float f32_odd_from_i64(int64_t x)
{
    double rough = (double)(x >> 16 | ((x & 0xffff) != 0)) * 0x1p16;
    return f32_odd_from_f64(x >> 52 == x >> 63 ? (double)x : rough);
}
FN float f32_odd_from_u64(uint64_t x)
{
    double rough = (double)(x >> 16 | ((x & 0xffff) != 0)) * 0x1p16;
    return f32_odd_from_f64(x >> 52 == 0 ? (double)x : rough);
}

/* Float to integer cuts the fraction.  What does not fit is undefined in C; here it is what
 * NumPy shows on x86.  int32 and int64 become their least value, for NaN too; the narrow types
 * take the low bits of int32; uint32 and uint64 those of their signed twins, or for numbers of
 * 2^31 (2^63) or more that many less and the top bit flipped, so that infinity gives 0. */
#define FROM_FLOAT(suffix, type)                                                              \
    FN int32_t i32_from_##suffix(type x)                                                      \
    {                                                                                         \
        int fits = x >= (type)-2147483648.0 && x < (type)2147483648.0;                        \
        int32_t y = (int32_t)(fits ? x : 0);                                                  \
        return fits ? y : INT32_MIN;                                                          \
    }                                                                                         \
    FN int64_t i64_from_##suffix(type x)                                                      \
    {                                                                                         \
        int fits = x >= (type)-9223372036854775808.0 && x < (type)9223372036854775808.0;      \
        int64_t y = (int64_t)(fits ? x : 0);                                                  \
        return fits ? y : INT64_MIN;                                                          \
    }                                                                                         \
    FN uint32_t u32_from_##suffix(type x)                                                     \
    {                                                                                         \
        int high = x >= (type)2147483648.0;                                                   \
        uint32_t u = (uint32_t)i32_from_##suffix(high ? x - (type)2147483648.0 : x);          \
        return high ? u ^ 0x80000000u : u;                                                    \
    }                                                                                         \
    FN uint64_t u64_from_##suffix(type x)                                                     \
    {                                                                                         \
        int high = x >= (type)9223372036854775808.0;                                          \
        uint64_t u = (uint64_t)i64_from_##suffix(high ? x - (type)9223372036854775808.0 : x); \
        return high ? u ^ 0x8000000000000000u : u;                                            \
    }                                                                                         \
    FN int8_t i8_from_##suffix(type x) { return (int8_t)i32_from_##suffix(x); }               \
    FN uint8_t u8_from_##suffix(type x) { return (uint8_t)i32_from_##suffix(x); }             \
    FN int16_t i16_from_##suffix(type x) { return (int16_t)i32_from_##suffix(x); }            \
    FN uint16_t u16_from_##suffix(type x) { return (uint16_t)i32_from_##suffix(x); }          \
    FN uint8_t b8_from_##suffix(type x) { return x != 0; }

FROM_FLOAT(f32, float)
FROM_FLOAT(f64, double)
#undef FROM_FLOAT
