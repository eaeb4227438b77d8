/* half.h: C types for the 16-bit floats, where the compiler has them.
 *
 * HAS_FLOAT16 and HAS_BFLOAT16 say that float16_t and bfloat16_t exist and with them the functions
 * of array.h that use them.  Elsewhere read such an array through mlx_astype, or take its raw bits
 * with mlx_array_data_uint16. */
#ifndef MLX_C_HALF_H
#define MLX_C_HALF_H

#ifdef __aarch64__

/* Whether float16_t is there. */
#define HAS_FLOAT16
/* An element of dtype float16. */
typedef __fp16 float16_t;

/* Older clang has bfloat16 only where the processor has the instructions. */
#if !defined(__clang__) || __clang_major__ >= 17 || defined(__ARM_FEATURE_BF16)
/* Whether bfloat16_t is there. */
#define HAS_BFLOAT16
/* An element of dtype bfloat16. */
typedef __bf16 bfloat16_t;
#endif
#endif

#endif
