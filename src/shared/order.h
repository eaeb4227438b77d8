/* order.h: numbers that compare as sorting does: order_f32(bits, ranks), of the bits of a float, is a signed integer of
 * its size.  NaN comes last, whichever it is.  With `ranks` values that are equal have equal ones; else -0 comes before
 * 0.
 *
 * Include it after shared/scalar.h. */
#ifndef MX_SHARED_ORDER_H
#define MX_SHARED_ORDER_H

/* The bits of a float as a signed integer order as floats do once those of negative ones, but for the sign, are
 * flipped. */
#define ORDER(name, bits, infinity)                                                                 \
    FN bits order_##name(bits b, int ranks)                                                         \
    {                                                                                               \
        const bits top = (bits)((~(uint64_t)0) >> (65 - sizeof(bits) * 8)), size = (bits)(b & top); \
        b = ranks && size == 0 ? 0 : b;                                                             \
        b = (bits)(b < 0 ? b ^ top : b);                                                            \
        return size > infinity ? top : b;                                                           \
    }
ORDER(f16, int16_t, 0x7c00)
ORDER(bf16, int16_t, 0x7f80)
ORDER(f32, int32_t, 0x7f800000)
ORDER(f64, int64_t, 0x7ff0000000000000LL)
#undef ORDER

/* Real part, then imaginary.  Numbers with a NaN come after all others: first those where only the imaginary part is,
 * by the real part; then those where only the real part is; then the rest.  The keys of numbers end at that of
 * infinity, so there is room for the three kinds. */
FN int64_t order_c64(int32_t re, int32_t im)
{
    enum { NONE = 0x7fffffff };
    re = order_f32(re, 1);
    im = order_f32(im, 1);
    int32_t high = im != NONE ? (re != NONE ? re : 0x7fb00000) : (re != NONE ? 0x7fa00000 : 0x7fc00000);
    int32_t low = im != NONE ? im : re;
    return (int64_t)((uint64_t)(uint32_t)high << 32 | ((uint32_t)low ^ 0x80000000u));
}

#endif
