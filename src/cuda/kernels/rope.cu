/* rope.cu: points rotated by angles that grow with their position: cu_rope_f32.  The build compiles it as it does
 * rows.cu.  Sines are made in double, as on the CPU, and serve all rows that a thread has. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/computed.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"
#include "cuda/kernels/rope.h"

enum { EACH = ROPE_PAIRS };

/* Both at once: they begin alike. */
struct turn {
    double c, s;
};
FN_APART struct turn turn_by(double angle)
{
    struct turn t = { cos_f64(angle), sin_f64(angle) };
    return t;
}

FN int64_t row_place(const struct rope_rows *r, int64_t row, int64_t all)
{
    int64_t at = 0;
    for (int d = r->ndim; d-- > 0;) at += place_along(&row, r->shape[d], all) * r->stride[d];
    return at;
}

/* Where coordinate `which` of point i is in a row. */
FN int64_t place_of(const struct rope_call *a, int64_t i, int which)
{
    return a->pairwise ? 2 * i + which : i + which * a->half;
}

union vector {
    S v[2 * EACH];
    struct words4 align;
};

FN void load(T u[2][EACH], const struct rope_call *a, int whole, const S *x, int64_t i, int n)
{
    union vector v;
    if (whole && a->pairwise) {
        COPY_LANES(v.v, x + 2 * i, sizeof v.v);
        for (int k = 0; k < 2 * EACH; k++) u[k % 2][k / 2] = IN(v.v[k]);
    } else if (whole) {
        COPY_LANES(v.v, x + i, sizeof v.v / 2);
        COPY_LANES(v.v + EACH, x + a->half + i, sizeof v.v / 2);
        for (int k = 0; k < 2 * EACH; k++) u[k / EACH][k % EACH] = IN(v.v[k]);
    } else {
        for (int k = 0; k < EACH; k++)
            for (int c = 0; c < 2; c++) u[c][k] = k < n ? IN(x[place_of(a, i + k, c)]) : (T)0;
    }
}

FN void store(const struct rope_call *a, int whole, S *y, int64_t i, int n, const T u[2][EACH])
{
    union vector v;
    if (whole && a->pairwise) {
        for (int k = 0; k < 2 * EACH; k++) v.v[k] = OUT(u[k % 2][k / 2]);
        PUT_LANES(y + 2 * i, v.v, sizeof v.v);
    } else if (whole) {
        for (int k = 0; k < 2 * EACH; k++) v.v[k] = OUT(u[k / EACH][k % EACH]);
        PUT_LANES(y + i, v.v, sizeof v.v / 2);
        PUT_LANES(y + a->half + i, v.v + EACH, sizeof v.v / 2);
    } else {
        for (int k = 0; k < EACH; k++)
            for (int c = 0; c < 2 && k < n; c++) y[place_of(a, i + k, c)] = OUT(u[c][k]);
    }
}

/* Of one of the points of a row, at position t of a group. */
FN double angle_of(const struct rope_call *a, int64_t group, int64_t t, int64_t point)
{
    double p = ((double)(a->offset ? a->offset[group] : a->only) + (double)t) * a->scale;
    return p * (a->freqs ? a->sign * (1 / (double)((const T *)a->freqs)[a->first + point]) : a->turns[point]);
}

FN void rotate(const struct rope_call *a, int whole, S *y, const S *x, int64_t i, int n, const T c[EACH],
               const T s[EACH])
{
    T u[2][EACH], v[2][EACH];
    load(u, a, whole, x, i, n);
    for (int k = 0; k < EACH; k++) {
        v[0][k] = u[0][k] * c[k] - u[1][k] * s[k];
        v[1][k] = u[0][k] * s[k] + u[1][k] * c[k];
    }
    store(a, whole, y, i, n, v);
}

/* Of a row, the unit's elements that are not rotated. */
FN void copy_rest(const struct rope_call *a, S *y, const S *x, int64_t unit)
{
    int64_t i = 2 * a->half + (unit - a->quads) * 2 * EACH, stop = i + 2 * EACH < a->width ? i + 2 * EACH : a->width;
    for (; i < stop; i++) y[i] = x[i];
}

/* Rows that share positions; `all`: rows. */
FN void rotate_together(const struct rope_call *a, const struct rope_rows *r, int64_t all)
{
    SHARED T cosines[ROPE_SHARED], sines[ROPE_SHARED];
    uint32_t block = (uint32_t)(blockIdx.x - r->begin), pairs = (uint32_t)a->pairs, span = a->span, units = a->units;
    int64_t t0 = (int64_t)(block % a->spans) * span, row0 = (int64_t)(block / a->spans) * r->each;
    uint32_t rows = (uint32_t)(r->rows - row0 < r->each ? r->rows - row0 : r->each);
    span = a->length - t0 < span ? (uint32_t)(a->length - t0) : span;
    if (a->offset || a->freqs) { /* which the kernel ahead may make */
        AFTER_LAUNCH();
    }
    for (uint32_t i = threadIdx.x; i < span * pairs; i += ROPE_THREADS) {
        struct turn by = turn_by(angle_of(a, 0, t0 + i / pairs, i % pairs));
        cosines[i] = (T)by.c;
        sines[i] = (T)by.s;
    }
    BARRIER();
    AFTER_LAUNCH_BEFORE();
    ROLLED
    for (uint32_t at = threadIdx.x; at < rows * span * units; at += ROPE_THREADS) {
        uint32_t unit = at % units, line = at / units, t = line % span;
        int64_t row = row0 + line / span;
        const S *x = (const S *)r->x + (t0 + t) * r->position + row_place(r, row, all);
        S *y = (S *)r->y + (row * a->length + t0 + t) * a->width;
        if (unit >= a->quads) {
            copy_rest(a, y, x, unit);
            continue;
        }
        uint32_t i = unit * EACH, first = t * pairs;
        int n = (int)(pairs - i < EACH ? pairs - i : EACH);
        T c[EACH], s[EACH];
        for (uint32_t k = 0; k < EACH; k++) {
            c[k] = cosines[first + (i + k < pairs ? i + k : i)];
            s[k] = sines[first + (i + k < pairs ? i + k : i)];
        }
        rotate(a, r->whole, y, x, a->first + i, n, c, s);
    }
}

EARLY_KERNEL(PASTE(cu_rope, SUFFIX), struct rope_call)
{
    LAUNCH_NEXT_OF_FEW();
    const struct rope_rows *r = &a.of[a.arrays > 1 && (int64_t)blockIdx.x >= a.of[1].begin];
    const int whole = r->whole;
    int64_t at = ((int64_t)blockIdx.x - r->begin) * blockDim.x + threadIdx.x, all = a.groups * r->rows;
    if (a.span) {
        rotate_together(&a, r, all);
        return;
    }
    AFTER_LAUNCH_BEFORE();
    if (at >= r->n)
        return;
    int64_t unit = place_along(&at, a.units, r->n), t = place_along(&at, a.length, r->n);
    int64_t row = place_along(&at, r->chunks, r->n) * r->each, end = row + r->each < r->rows ? row + r->each : r->rows;
    int64_t first = at * r->rows; /* of the group */
    const S *x = (const S *)r->x + t * r->position;
    S *y = (S *)r->y + t * a.width;
    if (unit >= a.quads) {
        for (; row < end; row++)
            copy_rest(&a, y + (first + row) * a.length * a.width, x + row_place(r, first + row, all), unit);
        return;
    }
    int64_t i = unit * EACH;
    int n = a.pairs - i < EACH ? (int)(a.pairs - i) : EACH;
    double angle[EACH];
    T c[EACH], s[EACH];
    for (int k = 0; k < EACH; k++) /* all are read before the first takes its time */
        angle[k] = angle_of(&a, at, t, k < n ? i + k : i);
    for (int k = 0; k < EACH; k++) {
        struct turn by = turn_by(angle[k]);
        c[k] = (T)by.c;
        s[k] = (T)by.s;
    }
    for (; row < end; row++)
        rotate(&a, whole, y + (first + row) * a.length * a.width, x + row_place(r, first + row, all), a.first + i, n, c,
               s);
}
