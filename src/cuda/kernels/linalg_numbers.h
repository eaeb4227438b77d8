/* linalg_numbers.h: the numbers of matrices: S, of which R is a part, and what is done with them. */
#ifndef MX_CUDA_KERNELS_LINALG_NUMBERS_H
#define MX_CUDA_KERNELS_LINALG_NUMBERS_H

#include "cuda/kernels/gpu.h"

#define K(name) PASTE(name, SUFFIX)

#ifdef COMPLEX
typedef float R;
#define ZERO \
    {        \
        0, 0 \
    }
FN S made(R re)
{
    S y = { re, 0 };
    return y;
}
FN R real_of(S a) { return a.re; }
FN R size_of(S a) { return m_fabs_f32(a.re) + m_fabs_f32(a.im); } /* by which pivots are chosen */
FN S conj_of(S a)
{
    a.im = -a.im;
    return a;
}
FN S scaled(S a, R c)
{
    S y = { a.re * c, a.im * c };
    return y;
}
FN S times_of(S a, S b)
{
    S y = { m_fma_f32(a.re, b.re, -(a.im * b.im)), m_fma_f32(a.re, b.im, a.im * b.re) };
    return y;
}
FN S less(S sum, S a, S b) /* sum - a b */
{
    sum.re = m_fma_f32(a.im, b.im, m_fma_f32(-a.re, b.re, sum.re));
    sum.im = m_fma_f32(-a.im, b.re, m_fma_f32(-a.re, b.im, sum.im));
    return sum;
}
/* 1 / a, where the square of neither part over- or underflows. */
FN S inverse_of(S a)
{
    double re = a.re, im = a.im, d = re * re + im * im;
    S y = { (float)(re / d), (float)(-im / d) };
    return y;
}
FN S quotient(S a, S b)
{
    double re = b.re, im = b.im, d = re * re + im * im;
    S y = { (float)((a.re * re + a.im * im) / d), (float)((a.im * re - a.re * im) / d) };
    return y;
}
FN S over(S a, double c)
{
    S y = { (float)(a.re / c), (float)(a.im / c) };
    return y;
}
FN R largest_of(S a)
{
    R re = m_fabs_f32(a.re), im = m_fabs_f32(a.im);
    return re > im || re != re ? re : im;
}
FN R square_of(S a) { return m_fma_f32(a.re, a.re, a.im * a.im); }
FN R plus_square(R sum, S a) { return m_fma_f32(a.re, a.re, m_fma_f32(a.im, a.im, sum)); }
FN R imaginary_of(S a) { return a.im; }
FN int is_zero(S a) { return a.re == 0 && a.im == 0; }
FN int is_odd(S a) { return !(a.re - a.re == 0 && a.im - a.im == 0); } /* not finite */
FN double modulus(S a) { return m_sqrt_f64((double)a.re * a.re + (double)a.im * a.im); }
#else
typedef S R;
#define ZERO 0
FN S made(R re) { return re; }
FN R real_of(S a) { return a; }
FN R size_of(S a) { return K(m_fabs)(a); }
FN S conj_of(S a) { return a; }
FN S scaled(S a, R c) { return a * c; }
FN S times_of(S a, S b) { return a * b; }
FN S less(S sum, S a, S b) { return K(m_fma)(-a, b, sum); }
FN S inverse_of(S a) { return 1 / a; }
FN S quotient(S a, S b) { return a / b; }
FN S over(S a, double c) { return (S)(a / c); }
FN R largest_of(S a) { return K(m_fabs)(a); }
FN R square_of(S a) { return a * a; }
FN R plus_square(R sum, S a) { return K(m_fma)(a, a, sum); }
FN R imaginary_of(S a) { return (void)a, 0; }
FN int is_zero(S a) { return a == 0; }
FN int is_odd(S a) { return !(a - a == 0); }
FN double modulus(S a) { return K(m_fabs)(a); }
#endif

FN R root_of(R x) { return PASTE(m_sqrt, REAL)(x); }
/* Powers of two whose inverses are numbers too, and the exponent of a number; that of one below the
 * normal ones is too large. */
#define EXPONENT_OF_f32(x) ((int)(bits_f32(x) >> 23 & 255) - 127)
#define EXPONENT_OF_f64(x) ((int)(bits_f64(x) >> 52 & 2047) - 1023)
#define TWO_TO_f32(e) f32_bits((uint32_t)((e) + 127) << 23)
#define TWO_TO_f64(e) f64_bits((uint64_t)((e) + 1023) << 52)
#define LAST_OF_f32 126
#define LAST_OF_f64 1022
#define DIGITS_OF_f32 23
#define DIGITS_OF_f64 52
FN int exponent_of(R x) { return PASTE(EXPONENT_OF, REAL)(x); }
FN R two_to(int e)
{
    const int last = PASTE(LAST_OF, REAL);
    e = e > last ? last : e < -last ? -last : e;
    return PASTE(TWO_TO, REAL)(e);
}
/* 1 / a overflows, or nearly. */
FN int is_tiny(S a) { return size_of(a) < two_to(-PASTE(LAST_OF, REAL)); }

FN R larger_of(R x, R y) { return y > x || y != y ? y : x; }             /* NaN where there is one */
FN S product_of(S sum, S x, S y) { return less(sum, scaled(x, -1), y); } /* sum + x y */

/* The reflection that makes (alpha, x) (beta, 0): 1 - tau (1, v) (1, v)^H, v = inverse times scale times x, as LAPACK
 * has it.  most: the largest part of a number of x; sum: that of the squares of x times the scale. */
struct reflection {
    S tau, inverse;
    R beta, scale;
};
FN R reflection_scale(S alpha, R most) { return two_to(-exponent_of(larger_of(most, largest_of(alpha)))); }
FN struct reflection reflection_with(S alpha, R most, R scale, R sum)
{
    struct reflection h = { ZERO, ZERO, real_of(alpha), scale };
    if (most == 0 && imaginary_of(alpha) == 0)
        return h;
    alpha = scaled(alpha, scale);
    R size = root_of(sum + square_of(alpha)), beta = real_of(alpha) < 0 ? size : -size;
    S minus = less(alpha, made(1), made(beta)); /* alpha - beta */
    h.beta = beta / scale;
    h.tau = scaled(minus, -1 / beta);
    h.inverse = quotient(made(1), minus);
    return h;
}

#endif
