/* fourier.h: numbers that Fourier transforms are made with.  Include shared/scalar.h before. */
#ifndef MX_SHARED_FOURIER_H
#define MX_SHARED_FOURIER_H

struct root {
    double re, im;
};

/* e^(-2 pi i j / n); j in 0..n.  The sine and cosine are of an angle within an eighth of a turn, where they are as good
 * as it is; eighths are then turned by. */
FN struct root root_of_one(int64_t j, int64_t n)
{
    int64_t part = 8 * j % n;
    int eighth = (int)(8 * j / n) & 7;
    double t = 6.283185307179586477 * ((double)part / (double)n) / 8, h = 0.70710678118654752440;
    double c = m_cos_near_f64(t), s = -m_sin_near_f64(t);
    struct root odd = { h * (c + s), h * (s - c) }, even = { c, s }, y = eighth & 1 ? odd : even;
    struct root turned = { y.im, -y.re };
    y = eighth & 2 ? turned : y;
    y.re = eighth & 4 ? -y.re : y.re;
    y.im = eighth & 4 ? -y.im : y.im;
    return y;
}

/* Real sequences of even length n = 2 m as m complex numbers z_j = x_2j + i x_(2j + 1), with a transform Z.  With
 * w = e^(-2 pi i / n),
 *     2 X_k = (Z_k + conj Z_(m-k)) - i w^k (Z_k - conj Z_(m-k)),
 *     Z_k = (X_k + conj X_(m-k)) + i w^-k (X_k - conj X_(m-k)),   Z_m = Z_0.
 * The Z are halved before they are added, since 2 X may be past the largest number. */
FN complex64 fourier_fold(complex64 a, complex64 b, complex64 w)
{
    a.re *= 0.5f, a.im *= 0.5f, b.re *= 0.5f, b.im *= 0.5f;
    float er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
    complex64 y = { er + (dr * w.im + di * w.re), ei - (dr * w.re - di * w.im) };
    return y;
}
FN complex64 fourier_unfold(complex64 a, complex64 b, complex64 w)
{
    float er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
    complex64 y = { er - (di * w.re - dr * w.im), ei + (dr * w.re + di * w.im) };
    return y;
}

#endif
