/* fft.c: Stockham's transform, which leaves results in order: a stage of radix r takes elements
 * apart by thirds of the sequence (for r = 3) and puts them next to each other. */
#include "cpu/kernels/fft.h"

#include "cpu/kernels/level.h"

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wpsabi" /* everything here is inlined */
#endif

/* As many sequences as a register holds.  Then the orders of elements of two registers: every second, the first of the
 * second and those of the first from the last on, also by halves, interleaved, and what a transposition does to ones,
 * twos and fours. */
#if defined __AVX512F__
#include <immintrin.h>
enum { L = 16, POWER = 16 };
#define SIXTEEN(X) X(16)
#define MADD(a, b, c) ((V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define MSUB(a, b, c) ((V)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define EVEN_BACK 30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0
#define ODD_BACK 31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1
#define MIRROR 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1
#define MIRROR_2 16, 7, 6, 5, 4, 3, 2, 1, 24, 15, 14, 13, 12, 11, 10, 9
#define MIRROR_4 16, 3, 2, 1, 20, 7, 6, 5, 24, 11, 10, 9, 28, 15, 14, 13
#define FRONT 0, 1, 2, 3, 4, 5, 6, 7
#define BACK 8, 9, 10, 11, 12, 13, 14, 15
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_1 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_1 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define EVEN_4 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define ODD_4 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#define FIRST_4 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define LAST_4 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#elif defined __AVX2__ && defined __FMA__
#include <immintrin.h>
enum { L = 8, POWER = 8 };
#define SIXTEEN(X)
#define MADD(a, b, c) ((V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define MSUB(a, b, c) ((V)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define EVEN_BACK 14, 12, 10, 8, 6, 4, 2, 0
#define ODD_BACK 15, 13, 11, 9, 7, 5, 3, 1
#define MIRROR 8, 7, 6, 5, 4, 3, 2, 1
#define MIRROR_2 8, 3, 2, 1, 12, 7, 6, 5
#define MIRROR_4 8, 1, 10, 3, 12, 5, 14, 7
#define FRONT 0, 1, 2, 3
#define BACK 4, 5, 6, 7
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_1 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH_1 2, 10, 3, 11, 6, 14, 7, 15
#define LOW_2 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_2 2, 3, 10, 11, 6, 7, 14, 15
#define EVEN_4 0, 1, 2, 3, 8, 9, 10, 11
#define ODD_4 4, 5, 6, 7, 12, 13, 14, 15
#else
enum { L = 4, POWER = 8 };
#define SIXTEEN(X)
#ifdef __aarch64__
#include <arm_neon.h>
#define MADD(a, b, c) ((V)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define MSUB(a, b, c) ((V)vfmsq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#define MADD(a, b, c) ((c) + (a) * (b))
#define MSUB(a, b, c) ((c) - (a) * (b))
#endif
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#define EVEN_BACK 6, 4, 2, 0
#define ODD_BACK 7, 5, 3, 1
#define MIRROR 4, 3, 2, 1
#define MIRROR_2 4, 1, 6, 3
#define MIRROR_4 4, 5, 6, 7
#define FRONT 0, 1
#define BACK 2, 3
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define LOW_1 0, 4, 1, 5
#define HIGH_1 2, 6, 3, 7
#define LOW_2 0, 1, 4, 5
#define HIGH_2 2, 3, 6, 7
#endif
typedef float V __attribute__((vector_size(4 * L), may_alias));
typedef float U __attribute__((vector_size(4 * L), aligned(4), may_alias));
typedef float H __attribute__((vector_size(2 * L), aligned(4), may_alias)); /* half of it */
struct z {
    V re, im;
};

TEMPLATE V all(float c) { return c - (V){ 0 }; }
/* c + a b, c - a b; rounded once where the processor can. */
TEMPLATE V madd(V a, V b, V c) { return MADD(a, b, c); }
TEMPLATE V msub(V a, V b, V c) { return MSUB(a, b, c); }

TEMPLATE struct z at(const V *x, int64_t e) { return (struct z){ x[2 * e], x[2 * e + 1] }; }
TEMPLATE void set(V *y, int64_t e, struct z a)
{
    y[2 * e] = a.re;
    y[2 * e + 1] = a.im;
}
TEMPLATE struct z plus(struct z a, struct z b) { return (struct z){ a.re + b.re, a.im + b.im }; }
TEMPLATE struct z minus(struct z a, struct z b) { return (struct z){ a.re - b.re, a.im - b.im }; }
TEMPLATE struct z turned(struct z a) { return (struct z){ a.im, -a.re }; }              /* times -i */
TEMPLATE struct z eighth(struct z a) { return (struct z){ a.re + a.im, a.im - a.re }; } /* times (1 - i) */
TEMPLATE struct z by(struct z a, float c) { return (struct z){ a.re * c, a.im * c }; }
TEMPLATE struct z plus_by(struct z a, struct z b, float c)
{
    return (struct z){ madd(b.re, all(c), a.re), madd(b.im, all(c), a.im) };
}
TEMPLATE struct z product(struct z a, struct z b)
{
    return (struct z){ msub(a.im, b.im, a.re * b.re), madd(a.im, b.re, a.re * b.im) };
}
TEMPLATE struct z times(struct z a, const float *w) { return product(a, (struct z){ all(w[0]), all(w[1]) }); }

/* Numbers as they lie in memory.  That of a plan's tables is no vector's. */
TEMPLATE V load(const float *x) { return *(const U *)x; }
TEMPLATE void store(float *y, V a) { *(U *)y = a; }
TEMPLATE struct z entry(const float *table, int64_t e)
{
    return (struct z){ load(table + 2 * L * e), load(table + 2 * L * e + L) };
}
TEMPLATE struct z apart(V a, V b, bool swap)
{
    V even = __builtin_shufflevector(a, b, EVEN), odd = __builtin_shufflevector(a, b, ODD);
    return swap ? (struct z){ odd, even } : (struct z){ even, odd };
}
TEMPLATE void join(float *low, float *high, struct z a, bool swap)
{
    V re = swap ? a.im : a.re, im = swap ? a.re : a.im;
    store(low, __builtin_shufflevector(re, im, LOW));
    store(high, __builtin_shufflevector(re, im, HIGH));
}
TEMPLATE struct z numbers_at(const float *x, bool swap) { return apart(load(x), load(x + L), swap); }
TEMPLATE struct z taken(const struct fft_place *p, int64_t e, bool swap)
{
    return apart(load(p->at[0] + e * p->step), load(p->at[1] + e * p->step), swap);
}
TEMPLATE void halve(float *low, float *high, V a)
{
    *(H *)low = __builtin_shufflevector(a, a, FRONT);
    *(H *)high = __builtin_shufflevector(a, a, BACK);
}
TEMPLATE void put(const struct fft_place *p, int64_t e, struct z a, bool swap, bool scaled)
{
    join(p->at[0] + e * p->step, p->at[1] + e * p->step, scaled ? by(a, p->scale) : a, swap);
}
TEMPLATE void put_quarters(const struct fft_place *p, int64_t e, struct z a, bool swap)
{
    float *const *at = p->at, both[2 * L];
    int64_t i = e * p->step;
    join(both, both + L, by(a, p->scale), swap);
    halve(at[0] + i, at[1] + i, load(both));
    halve(at[2] + i, at[3] + i, load(both + L));
}

TEMPLATE void radix2(struct z a[2])
{
    struct z t = a[0];
    a[0] = plus(t, a[1]);
    a[1] = minus(t, a[1]);
}
TEMPLATE void radix3(struct z a[3])
{
    const float s = 0.866025403784438647f;
    struct z sum = plus(a[1], a[2]), d = turned(minus(a[1], a[2]));
    struct z mid = plus_by(a[0], sum, -0.5f);
    a[0] = plus(a[0], sum);
    a[1] = plus_by(mid, d, s);
    a[2] = plus_by(mid, d, -s);
}
TEMPLATE void radix4(struct z a[4])
{
    struct z s = plus(a[0], a[2]), d = minus(a[0], a[2]);
    struct z t = plus(a[1], a[3]), u = turned(minus(a[1], a[3]));
    a[0] = plus(s, t);
    a[1] = plus(d, u);
    a[2] = minus(s, t);
    a[3] = minus(d, u);
}
TEMPLATE void radix5(struct z a[5])
{
    const float c1 = 0.309016994374947424f, c2 = -0.809016994374947424f;
    const float s1 = 0.951056516295153572f, s2 = 0.587785252292473129f;
    struct z p = plus(a[1], a[4]), q = plus(a[2], a[3]);
    struct z m = minus(a[1], a[4]), n = minus(a[2], a[3]);
    struct z u = plus_by(plus_by(a[0], p, c1), q, c2), v = plus_by(plus_by(a[0], p, c2), q, c1);
    struct z x = turned(plus_by(by(m, s1), n, s2)), y = turned(plus_by(by(m, s2), n, -s1));
    a[0] = plus(a[0], plus(p, q));
    a[1] = plus(u, x);
    a[2] = plus(v, y);
    a[3] = minus(v, y);
    a[4] = minus(u, x);
}
TEMPLATE void radix8(struct z a[8])
{
    const float h = 0.707106781186547524f;
    struct z e[4] = { a[0], a[2], a[4], a[6] }, o[4] = { a[1], a[3], a[5], a[7] };
    radix4(e);
    radix4(o);
    struct z u = eighth(o[1]), v = turned(eighth(o[3]));
    o[2] = turned(o[2]);
    a[0] = plus(e[0], o[0]);
    a[4] = minus(e[0], o[0]);
    a[1] = plus_by(e[1], u, h);
    a[5] = plus_by(e[1], u, -h);
    a[2] = plus(e[2], o[2]);
    a[6] = minus(e[2], o[2]);
    a[3] = plus_by(e[3], v, h);
    a[7] = plus_by(e[3], v, -h);
}

/* Numbers p, p + 4, p + 8 and p + 12 of sixteen: of four a transform, where even and odd ones come as their sums and
 * differences, and the odd ones times c. */
TEMPLATE void fourth(struct z *y, struct z even, struct z even_less, struct z odd, struct z odd_less, float c)
{
    struct z turn = turned(odd_less);
    y[0] = c == 1 ? plus(even, odd) : plus_by(even, odd, c);
    y[4] = c == 1 ? plus(even_less, turn) : plus_by(even_less, turn, c);
    y[8] = c == 1 ? minus(even, odd) : plus_by(even, odd, -c);
    y[12] = c == 1 ? minus(even_less, turn) : plus_by(even_less, turn, -c);
}
/* Four transforms of every fourth, then four across them.  The odd powers of w = e^(-2 pi i / 16) between are products;
 * of the even ones the root of a half is left to the sums. */
TEMPLATE void radix16(struct z a[16])
{
    const float h = 0.707106781186547524f, c = 0.923879532511286756f, s = 0.382683432365089772f;
    struct z b[4][4];
    UNROLL for (int i = 0; i < 4; i++)
    {
        UNROLL for (int k = 0; k < 4; k++) b[i][k] = a[i + 4 * k];
        radix4(b[i]);
    }
    fourth(a, plus(b[0][0], b[2][0]), minus(b[0][0], b[2][0]), plus(b[1][0], b[3][0]), minus(b[1][0], b[3][0]), 1);
    struct z u = eighth(b[2][1]), v = product(b[1][1], (struct z){ all(c), all(-s) }),
             t = product(b[3][1], (struct z){ all(s), all(-c) });
    fourth(a + 1, plus_by(b[0][1], u, h), plus_by(b[0][1], u, -h), plus(v, t), minus(v, t), 1);
    u = turned(b[2][2]), v = eighth(b[1][2]), t = turned(eighth(b[3][2]));
    fourth(a + 2, plus(b[0][2], u), minus(b[0][2], u), plus(v, t), minus(v, t), h);
    u = turned(eighth(b[2][3])), v = product(b[1][3], (struct z){ all(s), all(-c) }),
    t = product(b[3][3], (struct z){ all(-c), all(s) });
    fourth(a + 3, plus_by(b[0][3], u, h), plus_by(b[0][3], u, -h), plus(v, t), minus(v, t), 1);
}

/* An odd radix; roots[k] = e^(-2 pi i k / r).  Elements j and r - j differ in the sign of the sines alone, and take the
 * sums and differences of elements k and r - k. */
TEMPLATE void radix_odd(struct z *a, int r, const float *roots)
{
    struct z p[FFT_RADIX / 2 + 1], m[FFT_RADIX / 2 + 1], first = a[0];
    int half = r / 2;
    UNROLL for (int k = 1; k <= half; k++)
    {
        p[k] = plus(a[k], a[r - k]);
        m[k] = minus(a[k], a[r - k]);
        a[0] = plus(a[0], p[k]);
    }
    UNROLL for (int j = 1; j <= half; j++)
    {
        struct z u = plus_by(first, p[1], roots[2 * j]), v = by(m[1], roots[2 * j + 1]);
        UNROLL for (int k = 2; k <= half; k++)
        {
            int i = j * k % r;
            u = plus_by(u, p[k], roots[2 * i]);
            v = plus_by(v, m[k], roots[2 * i + 1]);
        }
        v = turned(v);
        a[j] = minus(u, v);
        a[r - j] = plus(u, v);
    }
}

TEMPLATE void radix(struct z *a, int r, const float *roots)
{
    switch (r) {
    case 2: radix2(a); break;
    case 3: radix3(a); break;
    case 4: radix4(a); break;
    case 5: radix5(a); break;
    case 8: radix8(a); break;
    case 16: radix16(a); break;
    default: radix_odd(a, r, roots);
    }
}

/* One stage: `m` groups, elements s apart in each.  Where p is 0 the factors are 1. */
TEMPLATE void stage(V *y, const V *x, int64_t m, int64_t s, const float *w, int r, const float *roots)
{
    for (int64_t p = 0; p < m; p++, w += 2 * (r - 1))
        for (int64_t q = 0; q < s; q++) {
            struct z a[FFT_RADIX];
            UNROLL for (int k = 0; k < r; k++) a[k] = at(x, q + s * (p + m * k));
            radix(a, r, roots);
            set(y, q + s * r * p, a[0]);
            UNROLL for (int k = 1; k < r; k++) set(y, q + s * (r * p + k), p ? times(a[k], w + 2 * (k - 1)) : a[k]);
        }
}

/* The first one and the last one, where numbers lie as they are stored.  Results are scaled if they are swapped:
 * inverse transforms ask for both. */
TEMPLATE void first(V *y, const struct fft_place *x, int64_t m, const float *w, int r, const float *roots, bool swap)
{
    for (int64_t p = 0; p < m; p++, w += 2 * (r - 1)) {
        struct z a[FFT_RADIX];
        UNROLL for (int k = 0; k < r; k++) a[k] = taken(x, p + m * k, swap);
        radix(a, r, roots);
        set(y, r * p, a[0]);
        UNROLL for (int k = 1; k < r; k++) set(y, r * p + k, p ? times(a[k], w + 2 * (k - 1)) : a[k]);
    }
}
TEMPLATE void last(const struct fft_place *y, const V *x, int64_t s, int r, const float *roots, bool swap)
{
    for (int64_t q = 0; q < s; q++) {
        struct z a[FFT_RADIX];
        UNROLL for (int k = 0; k < r; k++) a[k] = at(x, q + s * k);
        radix(a, r, roots);
        UNROLL for (int k = 0; k < r; k++) put(y, q + s * k, a[k], swap, swap);
    }
}

#define STAGE(r)                                                                                     \
    static void stage##r(V *y, const V *x, int64_t m, int64_t s, const float *w, const float *roots) \
    {                                                                                                \
        stage(y, x, m, s, w, r, roots);                                                              \
    }
#define ENDS(r)                                                                                          \
    STAGE(r)                                                                                             \
    static void first##r(V *y, const struct fft_place *x, int64_t m, const float *w, const float *roots) \
    {                                                                                                    \
        if (x->swap)                                                                                     \
            first(y, x, m, w, r, roots, true);                                                           \
        else                                                                                             \
            first(y, x, m, w, r, roots, false);                                                          \
    }                                                                                                    \
    static void last##r(const struct fft_place *y, const V *x, int64_t s, const float *roots)            \
    {                                                                                                    \
        if (y->swap)                                                                                     \
            last(y, x, s, r, roots, true);                                                               \
        else                                                                                             \
            last(y, x, s, r, roots, false);                                                              \
    }
#define EACH_RADIX(X) X(2) X(3) X(4) X(5) X(7) X(8) SIXTEEN(X)
EACH_RADIX(ENDS)
STAGE(11)
STAGE(13)

/* radix_odd for one that the compiler does not know. */
TEMPLATE void radix_any(struct z *y, const struct z *a, int r, const float *roots)
{
    struct z p[FFT_RADIX], m[FFT_RADIX];
    int half = r / 2;
    y[0] = a[0];
    for (int k = 1; k <= half; k++) {
        p[k] = plus(a[k], a[r - k]);
        m[k] = minus(a[k], a[r - k]);
        y[0] = plus(y[0], p[k]);
    }
    for (int j = 1; j <= half; j++) {
        struct z u = a[0], v = { all(0), all(0) };
        for (int k = 1, i = j; k <= half; k++, i = i + j < r ? i + j : i + j - r) {
            u = plus_by(u, p[k], roots[2 * i]);
            v = plus_by(v, m[k], roots[2 * i + 1]);
        }
        v = turned(v);
        y[j] = minus(u, v);
        y[r - j] = plus(u, v);
    }
}

static void stage_any(V *y, const V *x, int64_t m, int64_t s, const float *w, int r, const float *roots)
{
    for (int64_t p = 0; p < m; p++, w += 2 * (r - 1))
        for (int64_t q = 0; q < s; q++) {
            struct z a[FFT_RADIX], b[FFT_RADIX];
            for (int k = 0; k < r; k++) a[k] = at(x, q + s * (p + m * k));
            radix_any(b, a, r, roots);
            for (int k = 0; k < r; k++) set(y, q + s * (r * p + k), k && p ? times(b[k], w + 2 * (k - 1)) : b[k]);
        }
}

/* By radix, where there are such. */
typedef void stage_fn(V *y, const V *x, int64_t m, int64_t s, const float *w, const float *roots);
typedef void first_fn(V *y, const struct fft_place *x, int64_t m, const float *w, const float *roots);
typedef void last_fn(const struct fft_place *y, const V *x, int64_t s, const float *roots);
#define STAGE_ROW(r) [r] = stage##r,
#define FIRST_ROW(r) [r] = first##r,
#define LAST_ROW(r) [r] = last##r,
static stage_fn *const stages[FFT_RADIX + 1] = { EACH_RADIX(STAGE_ROW)[11] = stage11, [13] = stage13 };
static first_fn *const firsts[FFT_RADIX + 1] = { EACH_RADIX(FIRST_ROW) };
static last_fn *const lasts[FFT_RADIX + 1] = { EACH_RADIX(LAST_ROW) };

static float *run_stages(const struct fft_smooth *p, float *buf, float *other, const struct fft_place *in,
                         const struct fft_place *out)
{
    const float *w = p->factors, *roots = p->roots;
    int64_t n = p->n, s = 1;
    int begin = p->stages ? p->radix[0] : 0, end = p->stages ? p->radix[p->stages - 1] : 0;
    last_fn *to = out && out->parts == 2 && (out->swap || out->scale == 1) ? lasts[end] : NULL;
    first_fn *from = in && !(to && p->stages == 1) ? firsts[begin] : NULL;
    if (in && !from)
        for (int64_t e = 0; e < n; e++) set((V *)buf, e, taken(in, e, in->swap));
    for (int i = 0; i < p->stages; i++) {
        int r = p->radix[i];
        int64_t m = n / r;
        V *y = (V *)other, *x = (V *)buf;
        if (to && i == p->stages - 1) {
            to(out, x, s, roots);
            return NULL;
        }
        if (from && i == 0)
            from(y, in, m, w, roots);
        else if (stages[r])
            stages[r](y, x, m, s, w, roots);
        else
            stage_any(y, x, m, s, w, r, roots);
        w += 2 * m * (r - 1);
        roots += 2 * r;
        n = m;
        s *= r;
        other = buf;
        buf = (float *)y;
    }
    if (out && out->parts == 4)
        for (int64_t e = 0; e < s; e++) put_quarters(out, e, at((V *)buf, e), out->swap);
    else if (out)
        for (int64_t e = 0; e < s; e++) put(out, e, at((V *)buf, e), out->swap, true);
    return buf;
}

/* ---- in and out */

/* L rows of L floats to columns: pairs of rows are interleaved, pairs of those, and then fours of elements change
 * places. */
TEMPLATE void transpose(V a[L])
{
    V b[L];
    UNROLL for (int i = 0; i < L; i += 4)
    {
        V p = __builtin_shufflevector(a[i], a[i + 1], LOW_1), q = __builtin_shufflevector(a[i], a[i + 1], HIGH_1);
        V r = __builtin_shufflevector(a[i + 2], a[i + 3], LOW_1),
          s = __builtin_shufflevector(a[i + 2], a[i + 3], HIGH_1);
        b[i] = __builtin_shufflevector(p, r, LOW_2);
        b[i + 1] = __builtin_shufflevector(p, r, HIGH_2);
        b[i + 2] = __builtin_shufflevector(q, s, LOW_2);
        b[i + 3] = __builtin_shufflevector(q, s, HIGH_2);
    }
    UNROLL for (int c = 0; c < 4; c++)
    {
#if defined FIRST_4
        V p = __builtin_shufflevector(b[c], b[c + 4], FIRST_4), q = __builtin_shufflevector(b[c], b[c + 4], LAST_4);
        V r = __builtin_shufflevector(b[c + 8], b[c + 12], FIRST_4),
          s = __builtin_shufflevector(b[c + 8], b[c + 12], LAST_4);
        a[c] = __builtin_shufflevector(p, r, EVEN_4);
        a[c + 4] = __builtin_shufflevector(p, r, ODD_4);
        a[c + 8] = __builtin_shufflevector(q, s, EVEN_4);
        a[c + 12] = __builtin_shufflevector(q, s, ODD_4);
#elif defined EVEN_4
        a[c] = __builtin_shufflevector(b[c], b[c + 4], EVEN_4);
        a[c + 4] = __builtin_shufflevector(b[c], b[c + 4], ODD_4);
#else
        a[c] = b[c];
#endif
    }
}

/* Rows of n floats to n vectors, each `apart` vectors after the one before; with flip the two of a pair change
 * places. */
TEMPLATE void rows_in(V *buf, const float *x, const int64_t *at, int64_t n, int lanes, int apart, bool flip)
{
    int64_t v = 0;
    V a[L];
    for (; v + L <= n; v += L) {
        if (lanes == L) {
            UNROLL for (int l = 0; l < L; l++) a[l] = load(x + at[l] + v);
        } else {
            for (int l = 0; l < L; l++) a[l] = l < lanes ? load(x + at[l] + v) : all(0);
        }
        transpose(a);
        UNROLL for (int l = 0; l < L; l++) buf[(v + (l ^ flip)) * apart] = a[l];
    }
    for (; v < n; v++) {
        V one = { 0 };
        for (int l = 0; l < lanes; l++) one[l] = x[at[l] + v];
        buf[(v ^ flip) * apart] = one;
    }
}
TEMPLATE void rows_out(float *y, const int64_t *at, const V *buf, int64_t n, int lanes, int apart, bool flip,
                       float scale)
{
    int64_t v = 0;
    V a[L];
    for (; v + L <= n; v += L) {
        UNROLL for (int l = 0; l < L; l++) a[l] = buf[(v + (l ^ flip)) * apart] * scale;
        transpose(a);
        if (lanes == L) {
            UNROLL for (int l = 0; l < L; l++) * (U *)(y + at[l] + v) = a[l];
        } else {
            for (int l = 0; l < lanes; l++) *(U *)(y + at[l] + v) = a[l];
        }
    }
    for (; v < n; v++) {
        V one = buf[(v ^ flip) * apart] * scale;
        for (int l = 0; l < lanes; l++) y[at[l] + v] = one[l];
    }
}

/* L numbers next to each other of every row of the matrices at a time.  The last are taken with those before them,
 * which are computed again. */
TEMPLATE void ways_in(V *buf, const float *const *x, int ways, int64_t m, const float *turns, bool swap)
{
    for (int64_t j = 0; j < m; j += L, turns += 2 * L * (ways - 1)) {
        int64_t c = j + L <= m ? j : m - L;
        V re[L], im[L];
        UNROLL for (int row = 0; row < L; row += ways)
        {
            const float *from = x[row / ways] + 2 * c;
            struct z a[L];
            UNROLL for (int k = 0; k < ways; k++) a[k] = numbers_at(from + 2 * m * k, swap);
            radix(a, ways, NULL);
            UNROLL for (int k = 0; k < ways; k++)
            {
                struct z b = k ? product(a[k], entry(turns, k - 1)) : a[k];
                re[row + k] = b.re;
                im[row + k] = b.im;
            }
        }
        transpose(re);
        transpose(im);
        UNROLL for (int l = 0; l < L; l++) set(buf, c + l, (struct z){ re[l], im[l] });
    }
}
static void load_rows(float *to, const float *const *x, int ways, int64_t m, const float *turns, bool swap)
{
    V *buf = (V *)to;
    if (ways == L && swap)
        ways_in(buf, x, L, m, turns, true);
    else if (ways == L)
        ways_in(buf, x, L, m, turns, false);
    else if (ways == L / 2 && swap)
        ways_in(buf, x, L / 2, m, turns, true);
    else if (ways == L / 2)
        ways_in(buf, x, L / 2, m, turns, false);
    else if (swap)
        ways_in(buf, x, L / 4, m, turns, true);
    else
        ways_in(buf, x, L / 4, m, turns, false);
}

/* Are the lanes neighbours, all of them? */
TEMPLATE bool side_by_side(const int64_t *at, int lanes, int size)
{
    bool yes = lanes == L;
    for (int l = 1; l < lanes; l++) yes &= at[l] == at[0] + l * size;
    return yes;
}

/* Lines of strided arrays are pages apart, which processors do not foresee. */
enum { AHEAD = 8 };

static void load_lanes(float *to, const float *x, int64_t sj, const int64_t *at, int64_t n, int lanes, bool swap)
{
    V *buf = (V *)to;
    if (sj == 2) {
        if (swap)
            rows_in(buf, x, at, 2 * n, lanes, 1, true);
        else
            rows_in(buf, x, at, 2 * n, lanes, 1, false);
    } else if (side_by_side(at, lanes, 2)) {
        for (int64_t j = 0; j < n; j++) {
            __builtin_prefetch(x + at[0] + (j + AHEAD < n ? j + AHEAD : j) * sj);
            set(buf, j, numbers_at(x + at[0] + j * sj, swap));
        }
    } else {
        float tile[2 * L] = { 0 };
        for (int64_t j = 0; j < n; j++) {
            for (int l = 0; l < lanes; l++) memcpy(tile + 2 * l, x + at[l] + j * sj, 8);
            struct z a = numbers_at(tile, false);
            buf[2 * j + swap] = a.re;
            buf[2 * j + !swap] = a.im;
        }
    }
}

static void store_lanes(float *y, int64_t sj, const int64_t *at, const float *from, int64_t n, int lanes, bool swap,
                        float scale)
{
    const V *buf = (const V *)from;
    if (sj == 2) {
        if (swap)
            rows_out(y, at, buf, 2 * n, lanes, 1, true, scale);
        else
            rows_out(y, at, buf, 2 * n, lanes, 1, false, scale);
    } else if (side_by_side(at, lanes, 2)) {
        float *to = y + at[0];
        for (int64_t j = 0; j < n; j++)
            join(to + j * sj, to + j * sj + L, by((struct z){ buf[2 * j], buf[2 * j + 1] }, scale), swap);
    } else {
        float tile[2 * L];
        for (int64_t j = 0; j < n; j++) {
            join(tile, tile + L, by((struct z){ buf[2 * j + swap], buf[2 * j + !swap] }, scale), false);
            for (int l = 0; l < lanes; l++) memcpy(y + at[l] + j * sj, tile + 2 * l, 8);
        }
    }
}

/* Vector v of the buffer, or with `apart` of 2 its real part v. */
TEMPLATE void reals_in(V *buf, const float *x, int64_t sj, const int64_t *at, int64_t n, int lanes, int apart)
{
    if (sj == 1) {
        rows_in(buf, x, at, n, lanes, apart, false);
    } else if (side_by_side(at, lanes, 1)) {
        for (int64_t j = 0; j < n; j++) buf[j * apart] = load(x + at[0] + j * sj);
    } else {
        for (int64_t j = 0; j < n; j++) {
            V one = { 0 };
            for (int l = 0; l < lanes; l++) one[l] = x[at[l] + j * sj];
            buf[j * apart] = one;
        }
    }
    if (apart == 2)
        for (int64_t j = 0; j < n; j++) buf[2 * j + 1] = all(0);
}
TEMPLATE void reals_out(float *y, int64_t sj, const int64_t *at, const V *buf, int64_t n, int lanes, int apart,
                        float scale)
{
    bool flip = apart == 1;
    if (sj == 1) {
        rows_out(y, at, buf + !flip, n, lanes, apart, flip, scale);
    } else if (side_by_side(at, lanes, 1)) {
        for (int64_t j = 0; j < n; j++) *(U *)(y + at[0] + j * sj) = buf[flip ? j ^ 1 : 2 * j + 1] * scale;
    } else {
        for (int64_t j = 0; j < n; j++) {
            V one = buf[flip ? j ^ 1 : 2 * j + 1] * scale;
            for (int l = 0; l < lanes; l++) y[at[l] + j * sj] = one[l];
        }
    }
}

static void load_reals(float *buf, const float *x, int64_t sj, const int64_t *at, int64_t n, int lanes)
{
    if (n % 2)
        reals_in((V *)buf, x, sj, at, n, lanes, 2);
    else
        reals_in((V *)buf, x, sj, at, n, lanes, 1);
}
static void store_reals(float *y, int64_t sj, const int64_t *at, const float *buf, int64_t n, int lanes, float scale)
{
    if (n % 2)
        reals_out(y, sj, at, (const V *)buf, n, lanes, 2, scale);
    else
        reals_out(y, sj, at, (const V *)buf, n, lanes, 1, scale);
}

/* ---- halves of transforms of real sequences (shared/fourier.h) */

TEMPLATE struct z halved(struct z a) { return (struct z){ a.re * 0.5f, a.im * 0.5f }; }
TEMPLATE struct z folded(struct z a, struct z b, struct z w)
{
    a = halved(a), b = halved(b);
    V er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
    return (struct z){ er + madd(dr, w.im, di * w.re), ei - msub(di, w.im, dr * w.re) };
}
TEMPLATE struct z unfolded(struct z a, struct z b, struct z w)
{
    V er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
    return (struct z){ er - msub(dr, w.im, di * w.re), ei + madd(di, w.im, dr * w.re) };
}
TEMPLATE struct z for_all(const float *w) { return (struct z){ all(w[0]), all(w[1]) }; }

static void fold(float *to, int64_t n, const float *w)
{
    V *buf = (V *)to;
    if (n % 2)
        return;
    int64_t m = n / 2;
    set(buf, m, at(buf, 0));
    for (int64_t k = 0; 2 * k <= m; k++) {
        struct z a = at(buf, k), b = at(buf, m - k);
        set(buf, k, folded(a, b, for_all(w + 2 * k)));
        set(buf, m - k, folded(b, a, for_all(w + 2 * (m - k))));
    }
}

static void unfold(float *to, int64_t n, const float *w)
{
    V *buf = (V *)to;
    int64_t m = n / 2;
    buf[1] = all(0); /* the ends are real */
    if (n % 2) {
        for (int64_t k = 0; k <= m; k++) {
            struct z a = at(buf, k);
            set(buf, k, (struct z){ a.im, a.re });
            if (k)
                set(buf, n - k, (struct z){ -a.im, a.re });
        }
        return;
    }
    buf[2 * m + 1] = all(0);
    for (int64_t k = 0; 2 * k <= m; k++) {
        struct z a = at(buf, k), b = at(buf, m - k);
        struct z c = unfolded(a, b, for_all(w + 2 * k)), d = unfolded(b, a, for_all(w + 2 * (m - k)));
        set(buf, m - k, (struct z){ d.im, d.re });
        set(buf, k, (struct z){ c.im, c.re });
    }
}

/* The same of rows that load_rows has taken: number k of a row is in lane k % ways of element k / ways.  Its partner
 * is in the mirrored lane of the mirrored element; that of the first lane is an element later, in the first lane as
 * well. */
TEMPLATE V mirrored(V a, V b, int rows)
{
    switch (rows) {
    case 1: return __builtin_shufflevector(a, b, MIRROR);
    case 2: return __builtin_shufflevector(a, b, MIRROR_2);
    default: return __builtin_shufflevector(a, b, MIRROR_4);
    }
}
TEMPLATE struct z mirrored_at(struct z a, struct z b, int rows)
{
    return (struct z){ mirrored(a.re, b.re, rows), mirrored(a.im, b.im, rows) };
}
/* Elements e and their partners, in *b in the order of the partners' own partners. */
TEMPLATE void fold_both(struct z *a, struct z *b, struct z w)
{
    struct z p = halved(*a), q = halved(*b);
    V er = p.re + q.re, ei = p.im - q.im, dr = p.re - q.re, di = p.im + q.im;
    V tr = madd(dr, w.im, di * w.re), ti = msub(dr, w.re, di * w.im);
    *a = (struct z){ er + tr, ei + ti };
    *b = (struct z){ er - tr, ti - ei };
}
TEMPLATE void put_rows(const struct fft_place *y, int64_t e, struct z a, int rows)
{
    if (rows == 4)
        put_quarters(y, e, a, false);
    else
        put(y, e, a, false, true);
}
TEMPLATE void fold_ways(const struct fft_place *y, const V *buf, int64_t m, const float *w, int rows)
{
    struct z before = { 0 };
    for (int64_t e = 0; 2 * e <= m; e++) {
        struct z a = at(buf, e), b = mirrored_at(at(buf, m - 1 - e), at(buf, e ? m - e : 0), rows);
        fold_both(&a, &b, entry(w, e));
        if (e)
            put_rows(y, m - e, mirrored_at(before, b, rows), rows);
        if (2 * e < m)
            put_rows(y, e, a, rows);
        before = b;
    }
    for (int i = 0; i < rows; i++) {
        float *end = y->at[i] + m * y->step;
        end[0] = (buf[0][i * (L / rows)] - buf[1][i * (L / rows)]) * y->scale;
        end[1] = 0;
    }
}
static void fold_rows(const struct fft_place *y, const float *buf, int64_t m, int ways, const float *w)
{
    if (ways == L)
        fold_ways(y, (const V *)buf, m, w, 1);
    else if (ways == L / 2)
        fold_ways(y, (const V *)buf, m, w, 2);
    else
        fold_ways(y, (const V *)buf, m, w, 4);
}

/* The same of one sequence, whose numbers lie as they are stored. */

/* The last of them first. */
TEMPLATE struct z numbers_back(const float *x)
{
    V a = load(x), b = load(x + L);
    return (struct z){ __builtin_shufflevector(a, b, EVEN_BACK), __builtin_shufflevector(a, b, ODD_BACK) };
}

typedef struct z pair_fn(struct z a, struct z b, struct z w);

/* Number k by itself; where `real_ends` says so, number 0 and number m are real. */
TEMPLATE void one_pair(pair_fn *f, float *y, const float *x, const float *w, int64_t m, int64_t k, bool real_ends)
{
    bool end = real_ends && k == 0;
    const float *p = x + 2 * (real_ends || k < m ? k : 0), *q = x + 2 * (k || end ? m - k : 0);
    struct z a = { all(p[0]), all(end ? 0 : p[1]) }, b = { all(q[0]), all(end ? 0 : q[1]) };
    struct z r = f(a, b, for_all(w + 2 * k));
    y[2 * k] = r.re[0];
    y[2 * k + 1] = r.im[0];
}

TEMPLATE void pairs_of(pair_fn *f, float *y, const float *x, const float *w, int64_t m, int64_t k, int64_t end,
                       bool real_ends)
{
    if (k == 0 && k < end)
        one_pair(f, y, x, w, m, k++, real_ends);
    int64_t stop = end < m ? end : m, begin = k;
    for (int64_t next; k < stop && stop - begin >= L; k = next) {
        next = k + L;
        if (next > stop) /* some once more */
            k = stop - L, next = stop;
        struct z a = numbers_at(x + 2 * k, false), b = numbers_back(x + 2 * (m - k - L + 1));
        join(y + 2 * k, y + 2 * k + L, f(a, b, numbers_at(w + 2 * k, false)), false);
    }
    for (; k < end; k++) one_pair(f, y, x, w, m, k, real_ends);
}

static void fold_row(float *y, const float *x, const float *w, int64_t m, int64_t first, int64_t end)
{
    pairs_of(folded, y, x, w, m, first, end, false);
}
static void unfold_row(float *y, const float *x, const float *w, int64_t m, int64_t first, int64_t end)
{
    pairs_of(unfolded, y, x, w, m, first, end, true);
}

/* ---- factors */

static void twiddle(float *to, int64_t n, const float *coarse, const float *fine)
{
    V *buf = (V *)to;
    for (int64_t e = 0; e < n; e++)
        set(buf, e, product(at(buf, e), product(entry(coarse, e / FFT_STEP), entry(fine, e % FFT_STEP))));
}

static void multiply_twiddles(float *to, int64_t n, const float *c, bool swap_in, bool swap_out)
{
    V *buf = (V *)to;
    for (int64_t e = 0; e < n; e++) {
        struct z a = times((struct z){ buf[2 * e + swap_in], buf[2 * e + !swap_in] }, c + 2 * e);
        buf[2 * e + swap_out] = a.re;
        buf[2 * e + !swap_out] = a.im;
    }
}

static void multiply_each(float *to, int64_t n, const float *by, bool swap)
{
    V *buf = (V *)to;
    for (int64_t e = 0; e < n; e++)
        set(buf, e, product((struct z){ buf[2 * e + swap], buf[2 * e + !swap] }, at((const V *)by, e)));
}

extern const struct fft_kernels LEVEL(fft_kernels);
const struct fft_kernels LEVEL(fft_kernels) = {
    .lanes = L,
    .power = POWER,
    .load = load_lanes,
    .store = store_lanes,
    .load_rows = load_rows,
    .fold_rows = fold_rows,
    .run = run_stages,
    .load_reals = load_reals,
    .store_reals = store_reals,
    .fold = fold,
    .unfold = unfold,
    .fold_row = fold_row,
    .unfold_row = unfold_row,
    .twiddle = twiddle,
    .multiply = multiply_twiddles,
    .multiply_each = multiply_each,
};
