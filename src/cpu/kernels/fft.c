/* fft.c: Stockham's transform, which leaves results in order: a stage of radix r takes elements
 * apart by thirds of the sequence (for r = 3) and puts them next to each other. */
#include "cpu/kernels/fft.h"

#include "cpu/kernels/level.h"

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wpsabi" /* everything here is inlined */
#endif

/* As many sequences as a register holds. */
#if defined __AVX512F__
enum { L = 16 };
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined __AVX2__
enum { L = 8 };
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
enum { L = 4 };
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#endif
typedef float V __attribute__((vector_size(4 * L), may_alias));
typedef float U __attribute__((vector_size(4 * L), aligned(4), may_alias));
struct z {
    V re, im;
};

TEMPLATE struct z at(const V *x, int64_t e) { return (struct z){ x[2 * e], x[2 * e + 1] }; }
TEMPLATE void set(V *y, int64_t e, struct z a)
{
    y[2 * e] = a.re;
    y[2 * e + 1] = a.im;
}
TEMPLATE struct z plus(struct z a, struct z b) { return (struct z){ a.re + b.re, a.im + b.im }; }
TEMPLATE struct z minus(struct z a, struct z b) { return (struct z){ a.re - b.re, a.im - b.im }; }
TEMPLATE struct z turned(struct z a) { return (struct z){ a.im, -a.re }; } /* times -i */
TEMPLATE struct z by(struct z a, float c) { return (struct z){ a.re * c, a.im * c }; }
TEMPLATE struct z times(struct z a, const float *w)
{
    return (struct z){ a.re * w[0] - a.im * w[1], a.re * w[1] + a.im * w[0] };
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
    struct z sum = plus(a[1], a[2]), d = turned(by(minus(a[1], a[2]), s));
    struct z mid = plus(a[0], by(sum, -0.5f));
    a[0] = plus(a[0], sum);
    a[1] = plus(mid, d);
    a[2] = minus(mid, d);
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
    struct z u = plus(a[0], plus(by(p, c1), by(q, c2))), v = plus(a[0], plus(by(p, c2), by(q, c1)));
    struct z x = turned(plus(by(m, s1), by(n, s2))), y = turned(minus(by(m, s2), by(n, s1)));
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
    o[1] = by((struct z){ o[1].re + o[1].im, o[1].im - o[1].re }, h);
    o[2] = turned(o[2]);
    o[3] = by((struct z){ o[3].im - o[3].re, -o[3].re - o[3].im }, h);
    for (int i = 0; i < 4; i++) {
        a[i] = plus(e[i], o[i]);
        a[i + 4] = minus(e[i], o[i]);
    }
}

/* One stage: `m` groups, elements s apart in each.  Where p is 0 the factors are 1. */
#define STAGE(r)                                                                                                  \
    static void stage##r(V *y, const V *x, int64_t m, int64_t s, const float *w)                                  \
    {                                                                                                             \
        for (int64_t p = 0; p < m; p++, w += 2 * (r - 1))                                                         \
            for (int64_t q = 0; q < s; q++) {                                                                     \
                struct z a[r];                                                                                    \
                for (int k = 0; k < r; k++) a[k] = at(x, q + s * (p + m * k));                                    \
                radix##r(a);                                                                                      \
                set(y, q + s * r * p, a[0]);                                                                      \
                for (int k = 1; k < r; k++) set(y, q + s * (r * p + k), p ? times(a[k], w + 2 * (k - 1)) : a[k]); \
            }                                                                                                     \
    }
STAGE(2)
STAGE(3)
STAGE(4)
STAGE(5)
STAGE(8)

/* Any radix by its definition; roots[k] = e^(-2 pi i k / r). */
static void stage_any(V *y, const V *x, int64_t m, int64_t s, const float *w, int r, const float *roots)
{
    for (int64_t p = 0; p < m; p++, w += 2 * (r - 1))
        for (int64_t q = 0; q < s; q++) {
            struct z a[FFT_RADIX];
            for (int k = 0; k < r; k++) a[k] = at(x, q + s * (p + m * k));
            for (int j = 0; j < r; j++) {
                struct z sum = a[0];
                for (int k = 1, i = j; k < r; k++, i = i + j < r ? i + j : i + j - r)
                    sum = plus(sum, times(a[k], roots + 2 * i));
                set(y, q + s * (r * p + j), j && p ? times(sum, w + 2 * (j - 1)) : sum);
            }
        }
}

static float *run_stages(const struct fft_smooth *p, float *buf, float *other)
{
    const float *w = p->factors, *roots = p->roots;
    int64_t n = p->n, s = 1;
    for (int i = 0; i < p->stages; i++) {
        int r = p->radix[i];
        int64_t m = n / r;
        V *y = (V *)other, *x = (V *)buf;
        switch (r) {
        case 2: stage2(y, x, m, s, w); break;
        case 3: stage3(y, x, m, s, w); break;
        case 4: stage4(y, x, m, s, w); break;
        case 5: stage5(y, x, m, s, w); break;
        case 8: stage8(y, x, m, s, w); break;
        default: stage_any(y, x, m, s, w, r, roots);
        }
        w += 2 * m * (r - 1);
        roots += 2 * r;
        n = m;
        s *= r;
        other = buf;
        buf = (float *)y;
    }
    return buf;
}

/* ---- in and out */

transpose_fn LEVEL(transpose_8);

TEMPLATE void part(V *buf, const float *x, bool swap)
{
    V a = *(const U *)x, b = *(const U *)(x + L);
    buf[swap] = __builtin_shufflevector(a, b, EVEN);
    buf[!swap] = __builtin_shufflevector(a, b, ODD);
}
TEMPLATE void join(float *y, const V *buf, bool swap, float scale)
{
    V re = buf[swap] * scale, im = buf[!swap] * scale;
    *(U *)y = __builtin_shufflevector(re, im, LOW);
    *(U *)(y + L) = __builtin_shufflevector(re, im, HIGH);
}

static void load_lanes(float *to, const float *x, int64_t sj, int64_t sl, int64_t n, int lanes, bool swap)
{
    enum { CHUNK = 32 };
    V *buf = (V *)to;
    float tile[CHUNK * 2 * L];
    memset(tile, 0, sizeof tile);
    if (sl == 1 && lanes == L) {
        for (int64_t j = 0; j < n; j++) part(buf + 2 * j, x + 2 * j * sj, swap);
        return;
    }
    for (int64_t j = 0; j < n; j += CHUNK) {
        int64_t m = n - j < CHUNK ? n - j : CHUNK;
        if (sj == 1)
            LEVEL(transpose_8)(tile, L, x + 2 * j, sl, (size_t)m, (size_t)lanes);
        else
            for (int64_t i = 0; i < m; i++)
                for (int l = 0; l < lanes; l++) memcpy(tile + 2 * (i * L + l), x + 2 * ((j + i) * sj + l * sl), 8);
        for (int64_t i = 0; i < m; i++) part(buf + 2 * (j + i), tile + 2 * i * L, swap);
    }
}

static void store_lanes(float *y, int64_t sj, int64_t sl, const float *from, int64_t n, int lanes, bool swap,
                        float scale)
{
    enum { CHUNK = 32 };
    const V *buf = (const V *)from;
    float tile[CHUNK * 2 * L];
    if (sl == 1 && lanes == L) {
        for (int64_t j = 0; j < n; j++) join(y + 2 * j * sj, buf + 2 * j, swap, scale);
        return;
    }
    for (int64_t j = 0; j < n; j += CHUNK) {
        int64_t m = n - j < CHUNK ? n - j : CHUNK;
        for (int64_t i = 0; i < m; i++) join(tile + 2 * i * L, buf + 2 * (j + i), swap, scale);
        if (sj == 1)
            LEVEL(transpose_8)(y + 2 * j, sl, tile, L, (size_t)lanes, (size_t)m);
        else
            for (int64_t i = 0; i < m; i++)
                for (int l = 0; l < lanes; l++) memcpy(y + 2 * ((j + i) * sj + l * sl), tile + 2 * (i * L + l), 8);
    }
}

TEMPLATE struct z product(struct z a, struct z b)
{
    return (struct z){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

static void twiddle(float *to, int64_t n, const float *coarse, const float *fine)
{
    V *buf = (V *)to;
    for (int64_t e = 0; e < n; e++) {
        struct z w = product(at((const V *)coarse, e / FFT_STEP), at((const V *)fine, e % FFT_STEP));
        set(buf, e, product(at(buf, e), w));
    }
}

static void multiply_twiddles(float *to, int64_t n, const float *c, bool swap_in, bool swap_out)
{
    V *buf = (V *)to;
    for (int64_t e = 0; e < n; e++) {
        struct z a = { buf[2 * e + swap_in], buf[2 * e + !swap_in] };
        a = times(a, c + 2 * e);
        buf[2 * e + swap_out] = a.re;
        buf[2 * e + !swap_out] = a.im;
    }
}

extern const struct fft_kernels LEVEL(fft_kernels);
const struct fft_kernels LEVEL(fft_kernels) = {
    .lanes = L,
    .load = load_lanes,
    .store = store_lanes,
    .run = run_stages,
    .twiddle = twiddle,
    .multiply = multiply_twiddles,
};
