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

/* Numbers of a row, `count` of them `team` apart from number `first` on, below `end`.  All loads are on their way
 * before the first is waited for: nothing branches for a single one. */
#define EACH UNROLLED for (int e = 0; e < count; e++)
#define NUMBER(s, e) (p.number + (first + (e)*a->team) * (s)->number_step)

FN void fetch(const struct fourier_call *a, struct place p, int first, int count, z *v)
{
    const struct fourier_side *s = &a->in;
    const z *x = (const z *)s->at;
    const float *real = (const float *)s->at;
    int64_t at[FOURIER_EIGHT];
    int there[FOURIER_EIGHT];
    EACH
    {
        int64_t i = NUMBER(s, e);
        there[e] = p.there && first + e * a->team < a->n && i < s->limit;
        at[e] = there[e] ? p.base + i * s->step : 0;
    }
    switch (s->how) {
    case FOURIER_REAL:
        EACH { v[e] = z_of(real[at[e]], 0); }
        break;
    case FOURIER_PAIRS:
        EACH
        {
            int64_t i = there[e] ? NUMBER(s, e) * s->step : 0;
            v[e] = z_of(real[at[e] + i], real[at[e] + i + (there[e] ? s->step : 0)]);
        }
        break;
    case FOURIER_HALF:
        EACH
        {
            int64_t i = NUMBER(s, e), other = s->length - i;
            int rest = other < i;
            z u = x[there[e] && rest ? p.base + other * s->step : at[e]];
            v[e] = z_of(u.re, i == 0 || other == i ? 0 : rest ? -u.im : u.im);
        }
        break;
    case FOURIER_UNFOLDED:
        EACH
        {
            int64_t i = there[e] ? NUMBER(s, e) : 0;
            z u = x[at[e]], w = x[there[e] ? p.base + (s->length - i) * s->step : 0];
            u.im = i ? u.im : 0; /* the ends are real */
            w.im = i ? w.im : 0;
            v[e] = z_from(fourier_unfold(complex_of(u), complex_of(w), complex_of(((const z *)a->roots)[i])));
        }
        break;
    default:
        EACH { v[e] = x[at[e]]; }
    }
    EACH { v[e] = there[e] ? v[e] : z_of(0, 0); }
    if (s->before)
        EACH { v[e] = swapped(v[e]); }
    if (s->factor)
        EACH { v[e] = z_times(v[e], ((const z *)s->factor)[there[e] ? NUMBER(s, e) : 0]); }
}

FN void put(const struct fourier_call *a, struct place p, int first, int count, int end, z *v)
{
    const struct fourier_side *s = &a->out;
    float *real = (float *)s->at;
    int there[FOURIER_EIGHT];
    EACH { there[e] = p.there && first + e * a->team < end && NUMBER(s, e) < s->limit; }
    if (a->coarse) {
        const z *coarse = (const z *)a->coarse, *fine = (const z *)a->fine;
        EACH
        {
            uint32_t t = there[e] ? (uint32_t)(first + e * a->team) * p.turn : 0;
            v[e] = z_times(v[e], z_times(coarse[t >> a->fine_bits], fine[t & ((1u << a->fine_bits) - 1)]));
        }
    }
    if (s->before)
        EACH { v[e] = swapped(v[e]); }
    if (s->factor)
        EACH { v[e] = z_times(v[e], ((const z *)s->factor)[there[e] ? NUMBER(s, e) : 0]); }
    if (s->after)
        EACH { v[e] = swapped(v[e]); }
    EACH
    {
        int64_t i = NUMBER(s, e), at = p.base + i * s->step;
        z y = by(v[e], a->scale);
        if (!there[e])
            continue;
        if (s->how == FOURIER_REAL) {
            real[at] = y.re;
        } else if (s->how == FOURIER_PAIRS) {
            real[at + i * s->step] = y.re;
            real[at + (i + 1) * s->step] = y.im;
        } else {
            ((z *)s->at)[at] = y;
        }
    }
}

/* A row whose transform is in shared memory, as that of a real one twice as long. */
FN void put_folded(const struct fourier_call *a, struct place p, const z *row)
{
    enum { FOUR = 4 };
    for (int first = p.me; first <= a->n; first += FOUR * a->team) {
        z v[FOUR];
        UNROLLED
        for (int e = 0; e < FOUR; e++) {
            int k = first + e * a->team <= a->n ? first + e * a->team : 0;
            z u = row[padded(k < a->n ? k : 0)], w = row[padded(k ? a->n - k : 0)];
            v[e] = z_from(fourier_fold(complex_of(u), complex_of(w), complex_of(((const z *)a->roots)[k])));
        }
        put(a, p, first, FOUR, a->n + 1, v);
    }
}

#define EIGHT UNROLLED for (int e = 0; e < FOURIER_EIGHT; e++)
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

/* Rows of a power of two of at least 8 elements; a thread has those n / 8 apart. */
BOUNDED_KERNEL(cu_fourier_power, struct fourier_call, FOURIER_POWER_THREADS, 1)
{
    SHARED_BYTES(bytes, FOURIER_BYTES);
    struct place p = place_of(&a, &a.in, a.in.across);
    z v[FOURIER_EIGHT], *row = (z *)bytes + p.row * a.pitch;
    fetch(&a, p, p.me, FOURIER_EIGHT, v);
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
    if (a.out.how != FOURIER_FOLDED) {
        put(&a, p, p.me, FOURIER_EIGHT, a.n, v);
        return;
    }
    BARRIER();
    EIGHT { row[padded(p.me + e * a.team)] = v[e]; }
    BARRIER();
    put_folded(&a, p, row);
}
#undef STAGE

/* A thread takes up to `most` transforms of R elements, which are read before others are written over them; what it
 * reads beyond the last is not put back. */
#define STAGE(R, most)                                                                            \
    case R: {                                                                                     \
        z v[most][R];                                                                             \
        int each = a.n / R, q[most];                                                              \
        left /= R;                                                                                \
        UNROLLED                                                                                  \
        for (int i = 0; i < most; i++) {                                                          \
            int b = p.me + i * a.team < each ? p.me + i * a.team : 0;                             \
            q[i] = s == 1 ? b : (int)((uint64_t)b * inverse >> 32);                               \
            UNROLLED                                                                              \
            for (int j = 0; j < R; j++) v[i][j] = row[padded(b + j * each)];                      \
            radix_##R(v[i], 1);                                                                   \
        }                                                                                         \
        if (left > 1) {                                                                           \
            UNROLLED                                                                              \
            for (int i = 0; i < most; i++) {                                                      \
                UNROLLED                                                                          \
                for (int k = 1; k < R; k++) v[i][k] = z_times(v[i][k], w[(k - 1) * left + q[i]]); \
            }                                                                                     \
        }                                                                                         \
        BARRIER();                                                                                \
        UNROLLED                                                                                  \
        for (int i = 0; i < most; i++) {                                                          \
            int b = p.me + i * a.team, to = b + q[i] * s * (R - 1);                               \
            if (b < each) {                                                                       \
                UNROLLED                                                                          \
                for (int k = 0; k < R; k++) row[padded(to + k * s)] = v[i][k];                    \
            }                                                                                     \
        }                                                                                         \
        break;                                                                                    \
    }

/* Rows of other lengths. */
BOUNDED_KERNEL(cu_fourier_mixed, struct fourier_call, FOURIER_THREADS, 1)
{
    SHARED_BYTES(bytes, FOURIER_BYTES);
    enum { FOUR = 4 };
    struct place p = place_of(&a, &a.in, a.in.across);
    z *row = (z *)bytes + p.row * a.pitch;
    for (int first = p.me; first < a.n; first += FOUR * a.team) {
        z v[FOUR];
        fetch(&a, p, first, FOUR, v);
        UNROLLED
        for (int e = 0; e < FOUR; e++)
            if (first + e * a.team < a.n)
                row[padded(first + e * a.team)] = v[e];
    }
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
    if (a.out.how == FOURIER_FOLDED) {
        put_folded(&a, p, row);
        return;
    }
    for (int first = p.me; first < a.n; first += FOUR * a.team) {
        z v[FOUR];
        UNROLLED
        for (int e = 0; e < FOUR; e++) v[e] = row[padded(first + e * a.team < a.n ? first + e * a.team : 0)];
        put(&a, p, first, FOUR, a.n, v);
    }
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
