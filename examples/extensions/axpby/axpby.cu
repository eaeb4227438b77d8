/* axpby.cu: the formula for one element of each dtype, and the kernels that apply it on a CUDA device.
 *
 * axpby.c includes this file for the formulas.  For a device it is compiled when it is first used there, so
 * it includes nothing. */
#ifdef __CUDACC__
#define FN __device__ inline
#else
#define FN static inline
#endif

typedef union {
    unsigned bits;
    float value;
} float_bits;

struct complex64 {
    float re, im;
};

/* float16 by its bits: 1 of sign, 5 of exponent, 10 of fraction. */
FN float from_float16(unsigned short h)
{
    unsigned sign = (unsigned)(h & 0x8000) << 16, rest = (unsigned)(h & 0x7fff) << 13;
    float_bits scale = { 0x77800000 }, infinite = { 0x47800000 }, f = { rest };
    f.value *= scale.value; /* 2^112, between the two biases; right for subnormal numbers too */
    if (f.value >= infinite.value)
        f.bits |= 0x7f800000; /* infinities and NaN */
    f.bits |= sign;
    return f.value;
}

/* Rounds to nearest, ties to even. */
FN unsigned short to_float16(float value)
{
    float_bits f = { 0 }, least = { 0x3f000000 };
    f.value = value;
    unsigned sign = f.bits >> 16 & 0x8000, h;
    f.bits &= 0x7fffffff;
    if (f.bits > 0x7f800000) {
        h = 0x7e00;
    } else if (f.bits >= 0x477ff000) { /* 65520, half way to 2^16 */
        h = 0x7c00;
    } else if (f.bits < 0x38800000) { /* subnormal: the sum with 1/2 is rounded to multiples of 2^-24 */
        f.value += least.value;
        h = f.bits - least.bits;
    } else {
        h = (f.bits - 0x38000000 + 0xfff + (f.bits >> 13 & 1)) >> 13;
    }
    return (unsigned short)(sign | h);
}

/* bfloat16 is the upper half of a float32. */
FN float from_bfloat16(unsigned short h)
{
    float_bits f = { (unsigned)h << 16 };
    return f.value;
}

FN unsigned short to_bfloat16(float value)
{
    float_bits f = { 0 };
    f.value = value;
    return (unsigned short)(value != value ? 0x7fc0 : (f.bits + 0x7fff + (f.bits >> 16 & 1)) >> 16);
}

FN float axpby_float32(float x, float y, float alpha, float beta) { return alpha * x + beta * y; }

FN double axpby_float64(double x, double y, float alpha, float beta) { return alpha * x + beta * y; }

FN unsigned short axpby_float16(unsigned short x, unsigned short y, float alpha, float beta)
{
    return to_float16(alpha * from_float16(x) + beta * from_float16(y));
}

FN unsigned short axpby_bfloat16(unsigned short x, unsigned short y, float alpha, float beta)
{
    return to_bfloat16(alpha * from_bfloat16(x) + beta * from_bfloat16(y));
}

FN struct complex64 axpby_complex64(struct complex64 x, struct complex64 y, float alpha, float beta)
{
    struct complex64 z = { alpha * x.re + beta * y.re, alpha * x.im + beta * y.im };
    return z;
}

#define EACH_DTYPE(DO)           \
    DO(float32, float)           \
    DO(float64, double)          \
    DO(float16, unsigned short)  \
    DO(bfloat16, unsigned short) \
    DO(complex64, struct complex64)

/* Where the elements of x and y are: strides count elements. */
struct axpby_layout {
    long long size, x_strides[64], y_strides[64];
    int ndim, shape[64];
};

#ifdef __CUDACC__
#ifdef __cplusplus
#define KERNEL extern "C" __global__ void
#else
#define KERNEL __global__ void
#endif

/* One thread for each element of out, which is row-major. */
#define GENERAL(name, T)                                                                                         \
    KERNEL axpby_general_##name(const T *x, const T *y, T *out, float alpha, float beta, struct axpby_layout at) \
    {                                                                                                            \
        long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x, rest = i, in_x = 0, in_y = 0;            \
        if (i >= at.size)                                                                                        \
            return;                                                                                              \
        for (int k = at.ndim; k-- > 0; rest /= at.shape[k]) {                                                    \
            in_x += rest % at.shape[k] * at.x_strides[k];                                                        \
            in_y += rest % at.shape[k] * at.y_strides[k];                                                        \
        }                                                                                                        \
        out[i] = axpby_##name(x[in_x], y[in_y], alpha, beta);                                                    \
    }
EACH_DTYPE(GENERAL)
#endif
