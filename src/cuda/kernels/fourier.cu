/* fourier.cu: Fourier transforms of rows in shared memory: cu_fourier_power,
 * cu_fourier_mixed, and what goes with them.
 *
 * Stockham's transform, which leaves results in order: a stage of radix r,
 * after stages whose radices have the product s, takes elements b + j n / r of
 * a row, b < n / r, transforms these r, multiplies them by e^(-2 pi i p k s /
 * n) for p = b / s, and puts them at b + p s (r - 1) + s k.  The last one
 * leaves element k where b + k n / r was. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/fourier.h"
#include "shared/fourier.h"

#include "cuda/kernels/fourier_radix.h"

/* Rows of shared memory have a gap behind each 16 elements, which half a warp
 * reads at once. */
FN int padded(int i) { return i + (i >> 4); }

FN complex64 complex_of(z a)
{
    complex64 y = { a.re, a.im };
    return y;
}
FN z z_from(complex64 a) { return z_of(a.re, a.im); }

/* Where a thread works: the row of its block, its number in the team, and what
 * that row's coordinates come to. */
struct place {
    int row, me, there;
    int64_t base, number;
    uint32_t turn;
};
FN struct place place_of(const struct fourier_call *a, const struct fourier_side *s, int across)
{
    struct place p;
    int t = (int)threadIdx.x;
    p.row = across ? t % a->width : t / a->team;
    p.me = across ? t / a->width : t % a->team;
    int64_t row = (int64_t)blockIdx.x * a->width + p.row;
    p.there = row < a->rows;
    uint32_t left = p.there ? (uint32_t)row : 0;
    p.base = p.number = 0;
    p.turn = 0;
    UNROLLED
    for (int d = FOURIER_DIMS - 1; d >= 0; d--) {
        uint32_t c = left;
        if (a->shape[d] == 1)
            continue;
        if (d > 0) {
            left = c / a->shape[d];
            c -= left * a->shape[d];
        }
        p.base += c * s->stride[d];
        p.number += c * s->number[d];
        p.turn += c * (uint32_t)a->turn[d];
    }
    return p;
}

/* Element j of the row, made into a number as `how` says. */
FN z fetch(const struct fourier_call *a, struct place p, int j, int how)
{
    const struct fourier_side *s = &a->in;
    int64_t i = p.number + j * s->number_step, at = p.base + i * s->step;
    const z *x = (const z *)s->at;
    const float *real = (const float *)s->at;
    z v = z_of(0, 0);
    if (!p.there || i >= s->limit)
        return v;
    if (how == FOURIER_COMPLEX) {
        v = x[at];
    } else if (how == FOURIER_REAL) {
        v.re = real[at];
    } else if (how == FOURIER_PAIRS) {
        at += i * s->step;
        v = z_of(real[at], real[at + s->step]);
    } else if (how == FOURIER_HALF) {
        int rest = 2 * i > s->length;
        v = x[rest ? p.base + (s->length - i) * s->step : at];
        v.im = i == 0 || 2 * i == s->length ? 0 : rest ? -v.im : v.im;
    } else {
        z b = x[p.base + (s->length - i) * s->step];
        v = x[at];
        v.im = i ? v.im : 0; /* the ends are real */
        b.im = i ? b.im : 0;
        v = z_from(fourier_unfold(complex_of(v), complex_of(b), complex_of(((const z *)a->roots)[i])));
    }
    if (s->before)
        v = swapped(v);
    if (s->factor)
        v = z_times(v, ((const z *)s->factor)[i]);
    return v;
}

FN void put(const struct fourier_call *a, struct place p, int k, z v, int how)
{
    const struct fourier_side *s = &a->out;
    int64_t i = p.number + k * s->number_step, at = p.base + i * s->step;
    float *real = (float *)s->at;
    if (!p.there || i >= s->limit)
        return;
    if (a->coarse) {
        uint32_t e = (uint32_t)k * p.turn;
        v = z_times(v, z_times(((const z *)a->coarse)[e >> a->fine_bits],
                               ((const z *)a->fine)[e & ((1u << a->fine_bits) - 1)]));
    }
    if (s->before)
        v = swapped(v);
    if (s->factor)
        v = z_times(v, ((const z *)s->factor)[i]);
    if (s->after)
        v = swapped(v);
    v = by(v, a->scale);
    if (how == FOURIER_REAL) {
        real[at] = v.re;
    } else if (how == FOURIER_PAIRS) {
        at += i * s->step;
        real[at] = v.re;
        real[at + s->step] = v.im;
    } else {
        ((z *)s->at)[at] = v;
    }
}

/* A row whose transform is in shared memory, as that of a real one twice as
 * long. */
FN void put_folded(const struct fourier_call *a, struct place p, const z *row)
{
    for (int k = p.me; k <= a->n; k += a->team) {
        z u = row[padded(k < a->n ? k : 0)], v = row[padded(k ? a->n - k : 0)];
        put(a, p, k, z_from(fourier_fold(complex_of(u), complex_of(v), complex_of(((const z *)a->roots)[k]))),
            FOURIER_COMPLEX);
    }
}

#define EIGHT UNROLLED for (int e = 0; e < FOURIER_EIGHT; e++)
#define FETCH(how)                                             \
    case how:                                                  \
        EIGHT { v[e] = fetch(&a, p, p.me + e * a.team, how); } \
        break;
#define PUT(how)                                            \
    case how:                                               \
        EIGHT { put(&a, p, p.me + e * a.team, v[e], how); } \
        break;
/* What a thread does of a stage, up to where its elements go. */
#define STAGE(R)                                                             \
    {                                                                        \
        const int apart = FOURIER_EIGHT / R;                                 \
        UNROLLED                                                             \
        for (int i = 0; i < apart; i++) radix_##R(v + i, apart);             \
        if (stage + 1 == a.stages)                                           \
            break;                                                           \
        left /= R;                                                           \
        EIGHT                                                                \
        {                                                                    \
            int k = e / apart, b = p.me + e % apart * a.team, q = b >> bits; \
            at[e] = b + ((q * (R - 1) + k) << bits);                         \
            v[e] = k ? z_times(v[e], w[(k - 1) * left + q]) : v[e];          \
        }                                                                    \
        bits += R == 8 ? 3 : R == 4 ? 2 : 1;                                 \
    }

/* Rows of a power of two of at least 8 elements; a thread has those n / 8
 * apart. */
BOUNDED_KERNEL(cu_fourier_power, struct fourier_call, FOURIER_POWER_THREADS, 1)
{
    SHARED_BYTES(bytes, FOURIER_BYTES);
    struct place p = place_of(&a, &a.in, a.in.across);
    z v[FOURIER_EIGHT], *row = (z *)bytes + p.row * a.pitch;
    switch (a.in.how) {
        FETCH(FOURIER_COMPLEX)
        FETCH(FOURIER_REAL)
        FETCH(FOURIER_PAIRS)
        FETCH(FOURIER_HALF)
        FETCH(FOURIER_UNFOLDED)
    }
    for (int stage = 0, bits = 0, left = a.n;; stage++) {
        int at[FOURIER_EIGHT];
        const z *w = (const z *)a.factors + a.start[stage];
        if (a.radix[stage] == 8)
            STAGE(8)
        else if (a.radix[stage] == 4)
            STAGE(4)
        else
            STAGE(2)
        if (stage)
            BARRIER();
        EIGHT { row[padded(at[e])] = v[e]; }
        if (stage == 0) {
            p = place_of(&a, &a.out, a.out.across);
            row = (z *)bytes + p.row * a.pitch;
        }
        BARRIER();
        EIGHT { v[e] = row[padded(p.me + e * a.team)]; }
    }
    if (a.stages == 1)
        p = place_of(&a, &a.out, a.in.across);
    switch (a.out.how) {
        PUT(FOURIER_COMPLEX)
        PUT(FOURIER_REAL)
        PUT(FOURIER_PAIRS)
    default:
        BARRIER();
        EIGHT { row[padded(p.me + e * a.team)] = v[e]; }
        BARRIER();
        put_folded(&a, p, row);
    }
}
#undef STAGE

/* A thread takes up to `most` transforms of R elements, which are read before
 * others are written over them. */
#define STAGE(R, most)                                                                                     \
    case R: {                                                                                              \
        z v[most][R];                                                                                      \
        left /= R;                                                                                         \
        int each = left * s; /* not known to be the same each time: no address is  \
                            worth a register */                       \
        UNROLLED                                                                                           \
        for (int i = 0; i < most; i++) {                                                                   \
            int b = p.me + i * a.team, from = b < each ? b : 0; /* what is beyond is not put back */       \
            UNROLLED                                                                                       \
            for (int j = 0; j < R; j++) v[i][j] = row[padded(from + j * each)];                            \
            radix_##R(v[i], 1);                                                                            \
        }                                                                                                  \
        BARRIER();                                                                                         \
        UNROLLED                                                                                           \
        for (int i = 0; i < most; i++) {                                                                   \
            int b = p.me + i * a.team, q = s == 1 ? b : (int)((uint64_t)b * inverse >> 32);                \
            if (b < each) {                                                                                \
                b += q * s * (R - 1);                                                                      \
                row[padded(b)] = v[i][0];                                                                  \
                UNROLLED                                                                                   \
                for (int k = 1; k < R; k++)                                                                \
                    row[padded(b + k * s)] = left > 1 ? z_times(v[i][k], w[(k - 1) * left + q]) : v[i][k]; \
            }                                                                                              \
        }                                                                                                  \
        break;                                                                                             \
    }

/* Rows of other lengths. */
BOUNDED_KERNEL(cu_fourier_mixed, struct fourier_call, FOURIER_THREADS, 1)
{
    SHARED_BYTES(bytes, FOURIER_BYTES);
    struct place p = place_of(&a, &a.in, a.in.across);
    z *row = (z *)bytes + p.row * a.pitch;
    for (int j = p.me; j < a.n; j += a.team) row[padded(j)] = fetch(&a, p, j, a.in.how);
    p = place_of(&a, &a.out, a.out.across);
    row = (z *)bytes + p.row * a.pitch;
    for (int stage = 0, s = 1, left = a.n; stage < a.stages; stage++) {
        const z *w = (const z *)a.factors + a.start[stage];
        uint32_t inverse = a.inverse[stage];
        BARRIER();
        switch (a.radix[stage]) {
            STAGE(2, 8)
            STAGE(3, 5)
            STAGE(4, 4)
            STAGE(5, 3)
            STAGE(7, 2)
            STAGE(8, 2)
            STAGE(11, 1)
            STAGE(13, 1)
        }
        s *= a.radix[stage];
    }
    BARRIER();
    if (a.out.how == FOURIER_FOLDED)
        put_folded(&a, p, row);
    else
        for (int k = p.me; k < a.n; k += a.team) put(&a, p, k, row[padded(k)], a.out.how);
}

/* ---- what goes with them */

KERNEL(cu_fourier_table, struct fourier_table_call)
{
    int64_t i = (int64_t)blockIdx.x * FOURIER_TABLE_THREADS + threadIdx.x, j = i, n = a.n;
    int there = 1;
    if (i >= a.count)
        return;
    if (a.kind == FOURIER_ROOTS) {
        j = i * a.each;
    } else if (a.kind == FOURIER_STAGE_FACTORS) {
        int stage = 0;
        while (stage + 1 < a.stages && i >= a.start[stage + 1]) n /= a.radix[stage++];
        int64_t m = n / a.radix[stage], at = i - a.start[stage];
        j = (at / m + 1) * (at % m);
    } else {
        int64_t far = a.count - i;
        j = a.kind == FOURIER_FILTER && far < i ? far : i;
        there = j < n;
        n *= 2;
        j = (int64_t)((uint64_t)j * (uint64_t)j % (uint64_t)n);
    }
    struct root w = root_of_one(j, n);
    ((z *)a.y)[i] = there ? z_of((float)w.re, (float)(a.kind == FOURIER_FILTER ? -w.im : w.im)) : z_of(0, 0);
}

KERNEL(cu_fourier_fold, struct fourier_fold_call)
{
    int64_t at = (int64_t)blockIdx.x * FOURIER_TABLE_THREADS + threadIdx.x, m = a.half;
    if (at >= a.outer * (m + 1) * a.inner)
        return;
    int64_t i = at % a.inner, k = at / a.inner % (m + 1), o = at / a.inner / (m + 1);
    const z *x = (const z *)a.x + o * m * a.inner + i;
    z u = x[(k < m ? k : 0) * a.inner], v = x[(k ? m - k : 0) * a.inner];
    z w = z_times(((const z *)a.coarse)[k >> a.fine_bits], ((const z *)a.fine)[k & ((1 << a.fine_bits) - 1)]);
    ((z *)a.y)[at] = z_from(fourier_fold(complex_of(u), complex_of(v), complex_of(w)));
}
