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

#endif
