/* bits.h: floating-point numbers as their bits and back. */
#ifdef __CUDACC__
FN uint32_t bits_f32(float x) { return __float_as_uint(x); }
FN float f32_bits(uint32_t u) { return __uint_as_float(u); }
FN uint64_t bits_f64(double x) { return (uint64_t)__double_as_longlong(x); }
FN double f64_bits(uint64_t u) { return __longlong_as_double((long long)u); }
#else
FN uint32_t bits_f32(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
FN float f32_bits(uint32_t u)
{
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}
FN uint64_t bits_f64(double x)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
FN double f64_bits(uint64_t u)
{
    double x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}
#endif
