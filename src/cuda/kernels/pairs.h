/* pairs.h: two numbers as neighbours of a half type, in one word.
 *
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_PAIRS_H
#define MX_CUDA_KERNELS_PAIRS_H

#if defined __CUDACC__ && __CUDA_ARCH__ >= 800 /* that have an instruction for it */
FN uint32_t pair_f16(float x, float y)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
    return r;
}
FN uint32_t pair_bf16(float x, float y)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
    return r;
}
#else
FN uint32_t pair_f16(float x, float y) { return f16_from_f32(x) | (uint32_t)f16_from_f32(y) << 16; }
FN uint32_t pair_bf16(float x, float y) { return bf16_from_f32(x) | (uint32_t)bf16_from_f32(y) << 16; }
#endif

/* Sums, differences and products of these.  Each is rounded once, which gives what rounding it to float32 before would:
 * that has 24 bits, no fewer than twice those of a half type and two, and products are exact in it, but for those of
 * bfloat16 that round to 0. */
#if defined __CUDACC__ && __CUDA_ARCH__ >= 800
#define ON_PAIRS(name, code)                  \
    FN uint32_t name(uint32_t a, uint32_t b)  \
    {                                         \
        uint32_t r;                           \
        asm(code : "=r"(r) : "r"(a), "r"(b)); \
        return r;                             \
    }
ON_PAIRS(add_pair_f16, "add.rn.f16x2 %0, %1, %2;")
ON_PAIRS(subtract_pair_f16, "sub.rn.f16x2 %0, %1, %2;")
ON_PAIRS(multiply_pair_f16, "mul.rn.f16x2 %0, %1, %2;")
/* a 1 + b, b -1 + a, a b + -0 */
ON_PAIRS(add_pair_bf16, "{.reg .b32 c; mov.b32 c, 0x3f803f80; fma.rn.bf16x2 %0, %1, c, %2;}")
ON_PAIRS(subtract_pair_bf16, "{.reg .b32 c; mov.b32 c, 0xbf80bf80; fma.rn.bf16x2 %0, %2, c, %1;}")
ON_PAIRS(multiply_pair_bf16, "{.reg .b32 c; mov.b32 c, 0x80008000; fma.rn.bf16x2 %0, %1, %2, c;}")
#else
#define ON_PAIRS(suffix, name, op)                                                                              \
    FN uint32_t name##_pair_##suffix(uint32_t a, uint32_t b)                                                    \
    {                                                                                                           \
        return pair_##suffix(f32_from_##suffix((uint16_t)a) op f32_from_##suffix((uint16_t)b),                  \
                             f32_from_##suffix((uint16_t)(a >> 16)) op f32_from_##suffix((uint16_t)(b >> 16))); \
    }
ON_PAIRS(f16, add, +)
ON_PAIRS(f16, subtract, -)
ON_PAIRS(f16, multiply, *)
ON_PAIRS(bf16, add, +)
ON_PAIRS(bf16, subtract, -)
ON_PAIRS(bf16, multiply, *)
#endif
#undef ON_PAIRS

#endif
