/* types.h: the element types as kernels know them. */
#ifndef MX_CUDA_KERNELS_TYPES_H
#define MX_CUDA_KERNELS_TYPES_H

/* X(name, suffix, C type), as MX_DTYPES (core/dtype.h) but for complex numbers. */
#define GPU_DTYPES(X)           \
    X(bool_, b8, uint8_t)       \
    X(uint8, u8, uint8_t)       \
    X(uint16, u16, uint16_t)    \
    X(uint32, u32, uint32_t)    \
    X(uint64, u64, uint64_t)    \
    X(int8, i8, int8_t)         \
    X(int16, i16, int16_t)      \
    X(int32, i32, int32_t)      \
    X(int64, i64, int64_t)      \
    X(float16, f16, uint16_t)   \
    X(float32, f32, float)      \
    X(float64, f64, double)     \
    X(bfloat16, bf16, uint16_t) \
    X(complex64, c64, complex64)

#endif
