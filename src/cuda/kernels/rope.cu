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

/* What coordinate `which` of points i to i + n is, one or two elements apart. */
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

KERNEL(PASTE(cu_rope, SUFFIX), struct rope_call)
{
    SHARED T cosines[ROPE_SHARED], sines[ROPE_SHARED];
    const struct rope_rows *r = &a.of[a.arrays > 1 && (int64_t)blockIdx.x >= a.of[1].begin];
    const int whole = r->whole;
    int64_t at = ((int64_t)blockIdx.x - r->begin) * blockDim.x + threadIdx.x, all = a.groups * r->rows;
    if (a.together) {
        int pairs = (int)a.pairs;
        for (int i = (int)threadIdx.x; i < (int)a.length * pairs; i += ROPE_THREADS) {
            struct turn by = turn_by(angle_of(&a, 0, i / pairs, i % pairs));
            cosines[i] = (T)by.c;
            sines[i] = (T)by.s;
        }
        BARRIER();
    }
    if (at >= r->n)
        return;
    int64_t unit = place_along(&at, a.units, r->n), t = place_along(&at, a.length, r->n);
    int64_t row = place_along(&at, r->chunks, r->n) * r->each, end = row + r->each < r->rows ? row + r->each : r->rows;
    int64_t first = at * r->rows; /* of the group */
    const S *x = (const S *)r->x + t * r->position;
    S *y = (S *)r->y + t * a.width;
    if (unit >= a.quads) { /* behind the points */
        int64_t i = 2 * a.half + (unit - a.quads) * 2 * EACH, stop = i + 2 * EACH < a.width ? i + 2 * EACH : a.width;
        for (; row < end; row++)
            for (int64_t k = i; k < stop; k++)
                y[(first + row) * a.length * a.width + k] = x[row_place(r, first + row, all) + k];
        return;
    }
    int64_t i = unit * EACH;
    int n = a.pairs - i < EACH ? (int)(a.pairs - i) : EACH;
    T c[EACH], s[EACH], u[2][EACH], v[2][EACH];
    if (a.together) {
        for (int k = 0; k < EACH; k++) {
            int64_t j = t * a.pairs + (k < n ? i + k : i);
            c[k] = cosines[j];
            s[k] = sines[j];
        }
    } else {
        double angle[EACH];
        for (int k = 0; k < EACH; k++) /* all are read before the first takes its time */
            angle[k] = angle_of(&a, at, t, k < n ? i + k : i);
        for (int k = 0; k < EACH; k++) {
            struct turn by = turn_by(angle[k]);
            c[k] = (T)by.c;
            s[k] = (T)by.s;
        }
    }
    i += a.first;
    for (; row < end; row++) {
        load(u, &a, whole, x + row_place(r, first + row, all), i, n);
        for (int k = 0; k < EACH; k++) {
            v[0][k] = u[0][k] * c[k] - u[1][k] * s[k];
            v[1][k] = u[0][k] * s[k] + u[1][k] * c[k];
        }
        store(&a, whole, y + (first + row) * a.length * a.width, i, n, v);
    }
}
