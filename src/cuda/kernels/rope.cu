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

FN int64_t row_place(const struct rope_call *a, int64_t row)
{
    int64_t at = 0;
    for (int d = a->ndim; d-- > 0;) at += place_along(&row, a->shape[d], a->groups * a->rows) * a->stride[d];
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

FN void load(T u[2][EACH], const struct rope_call *a, const S *x, int64_t i, int n)
{
    union vector v;
    if (a->whole && a->pairwise) {
        COPY_LANES(v.v, x + 2 * i, sizeof v.v);
        for (int k = 0; k < 2 * EACH; k++) u[k % 2][k / 2] = IN(v.v[k]);
    } else if (a->whole) {
        COPY_LANES(v.v, x + i, sizeof v.v / 2);
        COPY_LANES(v.v + EACH, x + a->half + i, sizeof v.v / 2);
        for (int k = 0; k < 2 * EACH; k++) u[k / EACH][k % EACH] = IN(v.v[k]);
    } else {
        for (int k = 0; k < EACH; k++)
            for (int c = 0; c < 2; c++) u[c][k] = k < n ? IN(x[place_of(a, i + k, c)]) : (T)0;
    }
}

FN void store(const struct rope_call *a, S *y, int64_t i, int n, const T u[2][EACH])
{
    union vector v;
    if (a->whole && a->pairwise) {
        for (int k = 0; k < 2 * EACH; k++) v.v[k] = OUT(u[k % 2][k / 2]);
        PUT_LANES(y + 2 * i, v.v, sizeof v.v);
    } else if (a->whole) {
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
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (a.together) {
        int pairs = (int)a.pairs;
        for (int i = (int)threadIdx.x; i < (int)a.length * pairs; i += ROPE_THREADS) {
            struct turn by = turn_by(angle_of(&a, 0, i / pairs, i % pairs));
            cosines[i] = (T)by.c;
            sines[i] = (T)by.s;
        }
        BARRIER();
    }
    if (at >= a.n)
        return;
    int64_t unit = place_along(&at, a.units, a.n), t = place_along(&at, a.length, a.n);
    int64_t row = place_along(&at, a.chunks, a.n) * a.each, end = row + a.each < a.rows ? row + a.each : a.rows;
    int64_t first = at * a.rows; /* of the group */
    const S *x = (const S *)a.x + t * a.position;
    S *y = (S *)a.y + t * a.width;
    if (unit >= a.quads) { /* behind the points */
        int64_t i = 2 * a.half + (unit - a.quads) * 2 * EACH, stop = i + 2 * EACH < a.width ? i + 2 * EACH : a.width;
        for (; row < end; row++)
            for (int64_t k = i; k < stop; k++)
                y[(first + row) * a.length * a.width + k] = x[row_place(&a, first + row) + k];
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
        load(u, &a, x + row_place(&a, first + row), i, n);
        for (int k = 0; k < EACH; k++) {
            v[0][k] = u[0][k] * c[k] - u[1][k] * s[k];
            v[1][k] = u[0][k] * s[k] + u[1][k] * c[k];
        }
        store(&a, y + (first + row) * a.length * a.width, i, n, v);
    }
}
