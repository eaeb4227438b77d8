/* fourier_radix.h: transforms of a few numbers in registers, in place and in order. */
#ifndef MX_CUDA_KERNELS_FOURIER_RADIX_H
#define MX_CUDA_KERNELS_FOURIER_RADIX_H

typedef struct ALIGNED(8) {
    float re, im;
} z;

FN z z_of(float re, float im)
{
    z y = { re, im };
    return y;
}
FN z plus(z a, z b) { return z_of(a.re + b.re, a.im + b.im); }
FN z minus(z a, z b) { return z_of(a.re - b.re, a.im - b.im); }
FN z turned(z a) { return z_of(a.im, -a.re); } /* times -i */
FN z by(z a, float c) { return z_of(a.re * c, a.im * c); }
FN z swapped(z a) { return z_of(a.im, a.re); }
FN z z_times(z a, z w) { return z_of(m_fma_f32(a.re, w.re, -(a.im * w.im)), m_fma_f32(a.re, w.im, a.im * w.re)); }

FN void radix_2(z *a, int s)
{
    z t = a[0];
    a[0] = plus(t, a[s]);
    a[s] = minus(t, a[s]);
}
FN void radix_4(z *a, int s)
{
    z p = plus(a[0], a[2 * s]), d = minus(a[0], a[2 * s]);
    z t = plus(a[s], a[3 * s]), u = turned(minus(a[s], a[3 * s]));
    a[0] = plus(p, t);
    a[s] = plus(d, u);
    a[2 * s] = minus(p, t);
    a[3 * s] = minus(d, u);
}
FN void radix_8(z *a, int s)
{
    const float h = 0.707106781186547524f;
    z e[4], o[4];
    UNROLLED
    for (int i = 0; i < 4; i++) {
        e[i] = a[2 * i * s];
        o[i] = a[(2 * i + 1) * s];
    }
    radix_4(e, 1);
    radix_4(o, 1);
    o[1] = by(z_of(o[1].re + o[1].im, o[1].im - o[1].re), h);
    o[2] = turned(o[2]);
    o[3] = by(z_of(o[3].im - o[3].re, -o[3].re - o[3].im), h);
    UNROLLED
    for (int i = 0; i < 4; i++) {
        a[i * s] = plus(e[i], o[i]);
        a[(i + 4) * s] = minus(e[i], o[i]);
    }
}

/* An odd number R of them: with the sums and differences of a_k and a_(R - k), cos[k] and sin[k] of k turns / R. */
#define ODD_RADIX(R, ...)                                                                                       \
    FN void radix_##R(z *a, int apart)                                                                          \
    {                                                                                                           \
        const float c[2][R] = { __VA_ARGS__ };                                                                  \
        z p[R / 2 + 1], d[R / 2 + 1], first = a[0], sum = a[0];                                                 \
        (void)apart;                                                                                            \
        UNROLLED                                                                                                \
        for (int k = 1; k <= R / 2; k++) {                                                                      \
            p[k] = plus(a[k], a[R - k]);                                                                        \
            d[k] = minus(a[k], a[R - k]);                                                                       \
            sum = plus(sum, p[k]);                                                                              \
        }                                                                                                       \
        a[0] = sum;                                                                                             \
        UNROLLED                                                                                                \
        for (int j = 1; j <= R / 2; j++) {                                                                      \
            z u = first, v = z_of(0, 0);                                                                        \
            UNROLLED                                                                                            \
            for (int k = 1; k <= R / 2; k++) {                                                                  \
                u = z_of(m_fma_f32(p[k].re, c[0][j * k % R], u.re), m_fma_f32(p[k].im, c[0][j * k % R], u.im)); \
                v = z_of(m_fma_f32(d[k].re, c[1][j * k % R], v.re), m_fma_f32(d[k].im, c[1][j * k % R], v.im)); \
            }                                                                                                   \
            v = turned(v);                                                                                      \
            a[j] = plus(u, v);                                                                                  \
            a[R - j] = minus(u, v);                                                                             \
        }                                                                                                       \
    }
ODD_RADIX(3, { 1, -0.5f, -0.5f }, { 0, 0.866025404f, -0.866025404f })
ODD_RADIX(5, { 1, 0.309016994f, -0.809016994f, -0.809016994f, 0.309016994f },
          { 0, 0.951056516f, 0.587785252f, -0.587785252f, -0.951056516f })
ODD_RADIX(7, { 1, 0.623489802f, -0.222520934f, -0.900968868f, -0.900968868f, -0.222520934f, 0.623489802f },
          { 0, 0.781831482f, 0.974927912f, 0.433883739f, -0.433883739f, -0.974927912f, -0.781831482f })
ODD_RADIX(11,
          { 1, 0.841253533f, 0.415415013f, -0.142314838f, -0.654860734f, -0.959492974f, -0.959492974f, -0.654860734f,
            -0.142314838f, 0.415415013f, 0.841253533f },
          { 0, 0.540640817f, 0.909631995f, 0.989821442f, 0.755749574f, 0.281732557f, -0.281732557f, -0.755749574f,
            -0.989821442f, -0.909631995f, -0.540640817f })
ODD_RADIX(13,
          { 1, 0.885456026f, 0.568064747f, 0.12053668f, -0.354604887f, -0.748510748f, -0.970941817f, -0.970941817f,
            -0.748510748f, -0.354604887f, 0.12053668f, 0.568064747f, 0.885456026f },
          { 0, 0.464723172f, 0.822983866f, 0.992708874f, 0.935016243f, 0.663122658f, 0.239315664f, -0.239315664f,
            -0.663122658f, -0.935016243f, -0.992708874f, -0.822983866f, -0.464723172f })

#endif
