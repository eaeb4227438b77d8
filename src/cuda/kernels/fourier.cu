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

/* Where a thread works: the row of its block, its number in the team, and what that row's coordinates come to. */
struct place {
    int row, me, team, there;
    int64_t base, number;
    uint32_t turn;
};
FN struct place place_in(const struct fourier_call *a, const struct fourier_side *s, int row, int me, int team)
{
    struct place p = { row, me, team, row < a->width && (int64_t)blockIdx.x * a->width + row < a->rows, 0, 0, 0 };
    uint32_t left = p.there ? blockIdx.x * (uint32_t)a->width + (uint32_t)row : 0;
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

/* In a team for each row of the block. */
FN struct place place_of(const struct fourier_call *a, const struct fourier_side *s, int across)
{
    int t = (int)threadIdx.x, row = across ? t % a->width : t / a->team;
    return place_in(a, s, row, across ? t / a->width : t % a->team, a->team);
}

/* Numbers of a row, `count` of them `team` apart from element `first` on, below `end`; 0: all of them are.  All loads
 * are on their way before the first is waited for: nothing branches for a single one. */
#define EACH UNROLLED for (int e = 0; e < count; e++)

/* Number e of them is i + e i_step, at at + e at_step. */
struct some {
    int64_t i, i_step, at, at_step;
};
FN struct some some_of(const struct fourier_side *s, struct place p, int first)
{
    struct some n = { p.number + first * s->number_step, p.team * s->number_step, 0, 0 };
    n.at = p.base + n.i * s->step;
    n.at_step = n.i_step * s->step;
    return n;
}
FN int is_there(const struct fourier_side *s, struct place p, struct some n, int first, int e, int end)
{
    return p.there && (end == 0 || first + e * p.team < end) && (!s->limited || n.i + e * n.i_step < s->limit);
}

/* What becomes of numbers that are read. */
FN void finish(const struct fourier_side *s, struct some n, int count, const int *there, z *v)
{
    EACH { v[e] = there[e] ? v[e] : z_of(0, 0); }
    if (s->before)
        EACH { v[e] = swapped(v[e]); }
    if (s->factor)
        EACH { v[e] = z_times(v[e], ((const z *)s->factor)[there[e] ? n.i + e * n.i_step : 0]); }
}

/* Those that are COMPLEX or REAL. */
FN void fetch_plain(const struct fourier_call *a, struct place p, int first, int count, int end, z *v)
{
    const struct fourier_side *s = &a->in;
    struct some n = some_of(s, p, first);
    int there[FOURIER_EIGHT];
    EACH { there[e] = is_there(s, p, n, first, e, end); }
    if (s->how == FOURIER_REAL)
        EACH { v[e] = z_of(((const float *)s->at)[there[e] ? n.at + e * n.at_step : 0], 0); }
    else
        EACH { v[e] = ((const z *)s->at)[there[e] ? n.at + e * n.at_step : 0]; }
    finish(s, n, count, there, v);
}

/* And the others. */
FN void fetch_made(const struct fourier_call *a, struct place p, int first, int count, int end, z *v)
{
    const struct fourier_side *s = &a->in;
    const z *x = (const z *)s->at;
    const float *real = (const float *)s->at;
    struct some n = some_of(s, p, first);
    int there[FOURIER_EIGHT];
    EACH { there[e] = is_there(s, p, n, first, e, end); }
    if (s->how == FOURIER_PAIRS) {
        EACH
        {
            int64_t at = there[e] ? n.at + e * n.at_step + (n.i + e * n.i_step) * s->step : 0;
            v[e] = z_of(real[at], real[there[e] ? at + s->step : 0]);
        }
    } else if (s->how == FOURIER_HALF) {
        EACH
        {
            int64_t i = n.i + e * n.i_step, other = s->length - i;
            int rest = other < i;
            z u = x[!there[e] ? 0 : p.base + (rest ? other : i) * s->step];
            v[e] = z_of(u.re, i == 0 || other == i ? 0 : rest ? -u.im : u.im);
        }
    } else {
        EACH
        {
            int64_t i = there[e] ? n.i + e * n.i_step : 0;
            z u = x[p.base + i * s->step], w = x[p.base + (s->length - i) * s->step];
            u.im = i ? u.im : 0; /* the ends are real */
            w.im = i ? w.im : 0;
            v[e] = z_from(fourier_unfold(complex_of(u), complex_of(w), complex_of(((const z *)a->roots)[i])));
        }
    }
    finish(s, n, count, there, v);
}

FN void put(const struct fourier_call *a, struct place p, int first, int count, int end, z *v)
{
    const struct fourier_side *s = &a->out;
    float *real = (float *)s->at;
    int there[FOURIER_EIGHT];
    struct some n = some_of(s, p, first);
    EACH { there[e] = is_there(s, p, n, first, e, end); }
    if (a->coarse) {
        const z *coarse = (const z *)a->coarse, *fine = (const z *)a->fine;
        EACH
        {
            uint32_t t = there[e] ? (uint32_t)(first + e * p.team) * p.turn : 0;
            v[e] = z_times(v[e], z_times(coarse[t >> a->fine_bits], fine[t & ((1u << a->fine_bits) - 1)]));
        }
    }
    if (s->before)
        EACH { v[e] = swapped(v[e]); }
    if (s->factor)
        EACH { v[e] = z_times(v[e], ((const z *)s->factor)[there[e] ? n.i + e * n.i_step : 0]); }
    if (s->after)
        EACH { v[e] = swapped(v[e]); }
    EACH
    {
        int64_t at = n.at + e * n.at_step;
        z y = by(v[e], a->scale);
        if (!there[e])
            continue;
        if (s->how == FOURIER_REAL) {
            real[at] = y.re;
        } else if (s->how == FOURIER_PAIRS) {
            at += (n.i + e * n.i_step) * s->step;
            real[at] = y.re;
            real[at + s->step] = y.im;
        } else {
            ((z *)s->at)[at] = y;
        }
    }
}

/* A row whose transform is in shared memory, as that of a real one twice as long. */
FN void put_folded(const struct fourier_call *a, struct place p, const z *row)
{
    enum { FOUR = 4 };
    for (int first = p.me; first <= a->n; first += FOUR * p.team) {
        z v[FOUR];
        UNROLLED
        for (int e = 0; e < FOUR; e++) {
            int k = first + e * p.team <= a->n ? first + e * p.team : 0;
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

/* Rows of a power of two, FOURIER_POWER elements at least; a thread has those n / 8 apart. */
BOUNDED_KERNEL(cu_fourier_power, struct fourier_call, FOURIER_POWER_THREADS, 1)
{
    SHARED_BYTES(bytes, FOURIER_BYTES);
    struct place p = place_of(&a, &a.in, a.in.across);
    z v[FOURIER_EIGHT], *row = (z *)bytes + p.row * a.pitch;
    if (a.in.how <= FOURIER_REAL) {
        fetch_plain(&a, p, p.me, FOURIER_EIGHT, 0, v);
    } else { /* fewer at once, of which each needs more */
        fetch_made(&a, p, p.me, FOURIER_EIGHT / 2, 0, v);
        fetch_made(&a, p, p.me + FOURIER_EIGHT / 2 * a.team, FOURIER_EIGHT / 2, 0, v + FOURIER_EIGHT / 2);
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
    if (a.out.how != FOURIER_FOLDED) {
        put(&a, p, p.me, FOURIER_EIGHT / 2, 0, v);
        put(&a, p, p.me + FOURIER_EIGHT / 2 * a.team, FOURIER_EIGHT / 2, 0, v + FOURIER_EIGHT / 2);
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
            int b = me + i * a.team < each ? me + i * a.team : 0;                                 \
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
            int b = me + i * a.team, to = b + q[i] * s * (R - 1);                                 \
            if (b < each) {                                                                       \
                UNROLLED                                                                          \
                for (int k = 0; k < R; k++) row[padded(to + k * s)] = v[i][k];                    \
            }                                                                                     \
        }                                                                                         \
        break;                                                                                    \
    }

/* Short rows are read and written by more threads than transform them, which then have several rows in turn. */
struct lines {
    int lanes, at_once;
};
FN struct lines lines_of(const struct fourier_call *a, const struct fourier_side *s)
{
    int lanes = s->across ? a->team : a->lanes;
    struct lines l = { lanes, s->across ? a->width : (int)blockDim.x / lanes };
    return l;
}
FN struct place place_on(const struct fourier_call *a, const struct fourier_side *s, struct lines l, int from)
{
    int t = (int)threadIdx.x, row = t / l.lanes;
    if (s->across)
        return place_of(a, s, 1);
    return place_in(a, s, row < l.at_once ? from + row : a->width, t % l.lanes, l.lanes);
}

/* Flat sides: all threads of the block go through its elements as they follow each other. */
FN int flat_count(const struct fourier_call *a)
{
    int64_t left = a->rows - (int64_t)blockIdx.x * a->width;
    return (int)(left < a->width ? left : a->width) * a->n;
}
FN int flat_at(const struct fourier_call *a, int i)
{
    int row = (int)((uint64_t)i * a->per_row >> 32);
    return row * a->pitch + padded(i - row * a->n);
}
#define FLAT(s) ((z *)(s).at + (int64_t)blockIdx.x * a->width * a->n)
FN void fetch_flat(const struct fourier_call *a, z *rows)
{
    enum { FOUR = 4 };
    const z *x = FLAT(a->in);
    int count = flat_count(a), apart = (int)blockDim.x;
    for (int first = (int)threadIdx.x; first < count; first += FOUR * apart) {
        z v[FOUR];
        UNROLLED
        for (int e = 0; e < FOUR; e++) v[e] = x[first + e * apart < count ? first + e * apart : first];
        UNROLLED
        for (int e = 0; e < FOUR; e++)
            if (first + e * apart < count)
                rows[flat_at(a, first + e * apart)] = a->in.before ? swapped(v[e]) : v[e];
    }
}
FN void put_flat(const struct fourier_call *a, const z *rows)
{
    enum { FOUR = 4 };
    z *y = FLAT(a->out);
    int count = flat_count(a), apart = (int)blockDim.x, swaps = a->out.before != a->out.after;
    for (int first = (int)threadIdx.x; first < count; first += FOUR * apart) {
        UNROLLED
        for (int e = 0; e < FOUR; e++) {
            int i = first + e * apart < count ? first + e * apart : first;
            z v = by(rows[flat_at(a, i)], a->scale);
            if (first + e * apart < count)
                y[i] = swaps ? swapped(v) : v;
        }
    }
}
#undef FLAT

/* Rows of other lengths. */
BOUNDED_KERNEL(cu_fourier_mixed, struct fourier_call, FOURIER_THREADS, 2)
{
    SHARED_BYTES(bytes, FOURIER_BYTES);
    enum { FOUR = 4 };
    struct lines l = lines_of(&a, &a.in);
    if (a.in.flat)
        fetch_flat(&a, (z *)bytes);
    for (int from = 0; from < a.width && !a.in.flat; from += l.at_once) {
        struct place p = place_on(&a, &a.in, l, from);
        z *row = (z *)bytes + p.row * a.pitch;
        for (int first = p.me; first < a.n && p.row < a.width; first += FOUR * p.team) {
            z v[FOUR];
            if (a.in.how <= FOURIER_REAL)
                fetch_plain(&a, p, first, FOUR, a.n, v);
            else
                fetch_made(&a, p, first, FOUR, a.n, v);
            UNROLLED
            for (int e = 0; e < FOUR; e++)
                if (first + e * p.team < a.n)
                    row[padded(first + e * p.team)] = v[e];
        }
    }
    {
        int t = (int)threadIdx.x, me = a.out.across ? t / a.width : t % a.team;
        z *row = (z *)bytes + (a.out.across ? t % a.width : t / a.team) * a.pitch;
        for (int stage = 0, s = 1, left = a.n; stage < a.stages; stage++) {
            const z *w = (const z *)a.factors + a.start[stage];
            uint32_t inverse = a.inverse[stage];
            BARRIER();
            switch (a.radix[stage]) {
                FOURIER_RADICES(STAGE)
            }
            s *= a.radix[stage];
        }
    }
    BARRIER();
    if (a.out.flat) {
        put_flat(&a, (const z *)bytes);
        return;
    }
    l = lines_of(&a, &a.out);
    for (int from = 0; from < a.width; from += l.at_once) {
        struct place p = place_on(&a, &a.out, l, from);
        const z *row = (const z *)bytes + p.row * a.pitch;
        if (a.out.how == FOURIER_FOLDED && p.row < a.width)
            put_folded(&a, p, row);
        for (int first = p.me; first < a.n && p.row < a.width && a.out.how != FOURIER_FOLDED; first += FOUR * p.team) {
            z v[FOUR];
            UNROLLED
            for (int e = 0; e < FOUR; e++) v[e] = row[padded(first + e * p.team < a.n ? first + e * p.team : 0)];
            put(&a, p, first, FOUR, a.n, v);
        }
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

KERNEL(cu_fourier_scale, struct fourier_scale_call)
{
    int64_t first = (int64_t)blockIdx.x * (FOURIER_SCALED * FOURIER_TABLE_THREADS) + threadIdx.x;
    z v[FOURIER_SCALED];
    UNROLLED
    for (int e = 0; e < FOURIER_SCALED; e++) {
        uint32_t i = first + e * FOURIER_TABLE_THREADS < a.count ? (uint32_t)(first + e * FOURIER_TABLE_THREADS) : 0;
        uint32_t row = a.ends ? i / a.length : 0, k = i - row * a.length;
        v[e] = by(((const z *)a.x)[a.ends ? row * a.row + k * a.step : i], a.scale);
        if (a.ends && (k == 0 || k == a.last))
            v[e].im = 0;
    }
    UNROLLED
    for (int e = 0; e < FOURIER_SCALED; e++)
        if (first + e * FOURIER_TABLE_THREADS < a.count)
            ((z *)a.y)[first + e * FOURIER_TABLE_THREADS] = v[e];
}
