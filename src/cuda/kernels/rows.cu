/* rows.cu: the last axis, row by row: cu_softmax_f32, cu_norm_bf16.  The build compiles it for
 * each line of modules.def, with SUFFIX and S (the type as stored) defined, and HALF for the two half types.
 *
 * A row is read once, and kept in registers, unless it is too long: then softmax and logsumexp cut it into pieces,
 * and norms read it again for each pass, as their derivatives do.  Threads add LANES elements in the type that is
 * computed in, and those sums in double; who adds what follows from the length of the row. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/computed.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/norm_sums.h"
#include "cuda/kernels/rows.h"
#include "cuda/kernels/warp.h"

#define K(name) PASTE(name, SUFFIX)

#ifdef HALF
#define OUT_OF_DOUBLE(x) PASTE(SUFFIX, from_f64)(x)
typedef float WIDE;
#else
#define OUT_OF_DOUBLE(x) ((S)(x))
typedef S WIDE;
#endif

/* Which row a thread works on, and as which of its team. */
struct part {
    int64_t row;
    int here; /* is there such a row? */
    int64_t first, step;
};
FN struct part part_of(const struct rows_args *a, int64_t block)
{
    struct part p;
    p.row = block * a->width + threadIdx.x / a->team;
    p.here = p.row < a->rows;
    p.first = (int64_t)(threadIdx.x % a->team) * LANES;
    p.step = (int64_t)a->team * LANES;
    return p;
}

/* Elements i, i + 1, ... of a row, LANES of them or as many as there are; returns how many. */
FN int get(T v[LANES], const struct rows_args *a, const void *from, int64_t i)
{
    const S *x = (const S *)from + i;
    int n = a->n - i < LANES ? (int)(a->n - i) : LANES;
    union lanes u;
    if (a->whole) {
        COPY_LANES(u.v, x, sizeof u.v);
    } else {
        for (int k = 0; k < LANES; k++) u.v[k] = k < n ? x[k] : (S)0;
    }
    for (int k = 0; k < LANES; k++) v[k] = IN(u.v[k]);
    return n;
}

FN void put(const struct rows_args *a, void *to, int64_t i, const T v[LANES])
{
    S *y = (S *)to + i;
    union lanes u;
    for (int k = 0; k < LANES; k++) u.v[k] = OUT(v[k]);
    if (a->whole) {
        PUT_LANES(y, u.v, sizeof u.v);
    } else {
        for (int k = 0; k < LANES; k++)
            if (i + k < a->n)
                y[k] = u.v[k];
    }
}

#define TEAM team_sum
#define TYPE double
#define MERGED mine + other
#include "cuda/kernels/rows_team.inc"

/* A NaN wins. */
#if defined __CUDACC__ && __CUDA_ARCH__ >= 800
FN float greater_of(float x, float y)
{
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
FN double greater_of(double x, double y) { return x > y || x != x ? x : y; }
#else
FN T greater_of(T x, T y) { return x > y || x != x ? x : y; }
#endif
#define TEAM team_most
#define TYPE T
#define MERGED greater_of(other, mine)
#include "cuda/kernels/rows_team.inc"

/* ---- norms */

struct moments {
    T mean, scale;
    double rstd;
};
FN struct moments moments_of(const struct rows_args *a, const struct part *p, const S *x)
{
    struct moments m;
    double sum = 0, squares = 0, n = (double)a->n;
    for (int64_t i = p->first; i < a->n && p->here && a->centered; i += p->step) {
        T v[LANES];
        get(v, a, x, i); /* zeros behind the end */
        sum += sum_of(v);
    }
    m.mean = a->centered ? (T)(team_sum(sum, a) / n) : (T)0;
    for (int64_t i = p->first; i < a->n && p->here; i += p->step) {
        T v[LANES];
        int here = get(v, a, x, i);
        for (int k = 0; k < LANES; k++) v[k] = k < here ? v[k] - m.mean : (T)0;
        squares += dot_of(v, v);
    }
    m.rstd = 1 / sqrt_f64(team_sum(squares, a) / n + a->eps);
    m.scale = (T)m.rstd;
    return m;
}

/* Elements i, ... less the mean become those of the norm. */
FN void put_normed(const struct rows_args *a, int64_t row, int64_t i, T v[LANES], T scale)
{
    T by[LANES];
    for (int k = 0; k < LANES; k++) v[k] *= scale;
    if (a->weight) {
        get(by, a, a->weight, i);
        for (int k = 0; k < LANES; k++) v[k] *= by[k];
    }
    if (a->bias) {
        get(by, a, a->bias, i);
        for (int k = 0; k < LANES; k++) v[k] += by[k];
    }
    put(a, (S *)a->y + row * a->n, i, v);
}

KERNEL(K(cu_norm), struct rows_args)
{
    struct part p = part_of(&a, blockIdx.x);
    const S *x = (const S *)a.x + p.row * a.n;
    struct moments m = moments_of(&a, &p, x);
    for (int64_t i = p.first; i < a.n && p.here; i += p.step) {
        T v[LANES];
        get(v, &a, x, i);
        for (int k = 0; k < LANES; k++) v[k] -= m.mean;
        put_normed(&a, p.row, i, v, m.scale);
    }
}

KERNEL(K(cu_norm_tangent), struct rows_args)
{
    struct part p = part_of(&a, blockIdx.x);
    const S *x = (const S *)a.x + p.row * a.n, *v = (const S *)a.v + p.row * a.n;
    struct moments m = moments_of(&a, &p, x);
    double sum = 0, dot = 0, n = (double)a.n;
    T s[LANES], t[LANES];
    for (int64_t i = p.first; i < a.n && p.here; i += p.step) {
        get(s, &a, x, i);
        get(t, &a, v, i); /* zeros behind the end */
        for (int k = 0; k < LANES; k++) s[k] -= m.mean;
        sum += sum_of(t);
        dot += dot_of(t, s);
    }
    sum = team_sum(sum, &a);
    dot = team_sum(dot, &a);
    T shift = a.centered ? (T)(sum / n) : (T)0, along = (T)(dot / n * m.rstd * m.rstd);
    for (int64_t i = p.first; i < a.n && p.here; i += p.step) {
        get(s, &a, x, i);
        get(t, &a, v, i);
        for (int k = 0; k < LANES; k++) s[k] = m.scale * (t[k] - shift - along * (s[k] - m.mean));
        put(&a, (S *)a.y + p.row * a.n, i, s);
    }
}

/* ---- softmax and logsumexp, and norms of rows that are held */

/* The logsumexp of a row: as one number, or as the largest and what it is above that. */
FN void put_logsumexp(const struct rows_args *a, int64_t row, T most, double sum)
{
    double log = most - most != 0 ? 0 : log_f64(sum);
    if (a->more) {
        ((WIDE *)a->y)[row] = most;
        ((WIDE *)a->more)[row] = (WIDE)(log + (double)(most - most)); /* NaN as exp(inf - inf) is */
    } else {
        ((S *)a->y)[row] = OUT_OF_DOUBLE((double)most + log);
    }
}

/* What the logsumexp of a row is above its largest element, of which infinities and NaN make NaN. */
FN T above_of(T most, double sum) { return (T)(most - most != 0 ? (double)(most - most) : log_f64(sum)); }

/* e^x of x that is not positive, or NaN. */
#if defined HALF && HAS_WARP_PRODUCTS
#define POWER(x) near_exp(x)
#else
#define POWER(x) F(exp)(x)
#endif

/* Of a block as large as a multiprocessor has room for, which has the cache fetch its next rows meanwhile. */
#define EACH_BLOCK \
    ROLLED         \
    for (int64_t block = blockIdx.x; block * a.width < a.rows; block += gridDim.x)
FN struct part part_ahead(const struct rows_args *a, int64_t block)
{
    int64_t next = (block + gridDim.x) * a->width, rows = a->rows - next < a->width ? a->rows - next : a->width;
    if (threadIdx.x == 0 && a->whole && rows > 0)
        FETCH_PIECE_AHEAD((const S *)a->x + next * a->n, (uint32_t)(rows * a->n * sizeof(S)));
    return part_of(a, block);
}

#define HELD_NAME held
#define HELD (ROWS_HELD / LANES)
#define HELD_THREADS ROWS_THREADS
#define HELD_BLOCKS 3
#define HELD_ROUNDS
#define HELD_PART part_of(&a, blockIdx.x)
#include "cuda/kernels/rows_held.inc"
#define HELD_NAME few
#define HELD (ROWS_FEW / LANES)
#define HELD_THREADS ROWS_THREADS
#define HELD_BLOCKS 3
#define HELD_ROUNDS
#define HELD_PART part_of(&a, blockIdx.x)
#include "cuda/kernels/rows_held.inc"
#define HELD_NAME wide
#define HELD (ROWS_HELD / LANES)
#define HELD_THREADS ROWS_WIDE_THREADS
#define HELD_BLOCKS 1
#define HELD_ROUNDS EACH_BLOCK
#define HELD_PART part_ahead(&a, block)
#include "cuda/kernels/rows_held.inc"

/* ---- softmax and logsumexp of rows that are cut into pieces, which blocks hold */

enum { PIECE = ROWS_HELD * ROWS_THREADS, PIECE_READS = ROWS_HELD / LANES };

/* The arguments and the part of a thread as if the block's piece were all there is. */
FN struct rows_args piece_of(const struct rows_args *a, struct part *p)
{
    struct rows_args piece = *a;
    int64_t from = blockIdx.x % a->pieces * PIECE, at = blockIdx.x / a->pieces * a->n + from;
    piece.n = a->n - from < PIECE ? a->n - from : PIECE;
    piece.x = (const S *)a->x + at;
    piece.y = (S *)a->y + at;
    p->row = 0;
    p->here = 1;
    p->first = (int64_t)threadIdx.x * LANES;
    p->step = (int64_t)ROWS_THREADS * LANES;
    return piece;
}

/* The largest of each piece, and the sum of e to the power of how much each element is below it. */
BOUNDED_KERNEL(K(cu_powers_parts), struct rows_args, ROWS_THREADS, 3)
{
    struct part p;
    struct rows_args piece = piece_of(&a, &p);
    T v[PIECE_READS][LANES], most = (T)-INFINITY;
    hold_held(v, &piece, &p, piece.x, most);
    double sum;
    most = powers_held(v, &a, &sum);
    if (threadIdx.x == 0) {
        a.parts[blockIdx.x].most = (double)most;
        a.parts[blockIdx.x].sum = most == (T)-INFINITY ? 0 : sum;
    }
}

/* The same of a row, of its pieces: all of the block get them. */
FN T merged(const struct rows_args *a, int64_t row, double *sum)
{
    const struct rows_part *part = a->parts + row * a->pieces;
    T most = (T)-INFINITY;
    for (int64_t k = threadIdx.x; k < a->pieces; k += ROWS_THREADS) most = greater_of((T)part[k].most, most);
    most = team_most(most, a);
    *sum = 0;
    for (int64_t k = threadIdx.x; k < a->pieces; k += ROWS_THREADS)
        *sum += part[k].sum * (double)F(exp)((T)part[k].most - most);
    *sum = team_sum(*sum, a);
    return most;
}

KERNEL(K(cu_softmax), struct rows_args)
{
    struct part p;
    struct rows_args piece = piece_of(&a, &p);
    double sum;
    T most = merged(&a, blockIdx.x / a.pieces, &sum), scale = (T)(1 / sum), v[LANES];
    for (int64_t i = p.first; i < piece.n; i += p.step) {
        get(v, &piece, piece.x, i);
        for (int k = 0; k < LANES; k++) v[k] = POWER(v[k] - most) * scale;
        put(&piece, piece.y, i, v);
    }
}

KERNEL(K(cu_log_softmax), struct rows_args)
{
    struct part p;
    struct rows_args piece = piece_of(&a, &p);
    double sum;
    T most = merged(&a, blockIdx.x / a.pieces, &sum), above = above_of(most, sum), v[LANES];
    for (int64_t i = p.first; i < piece.n; i += p.step) {
        get(v, &piece, piece.x, i);
        for (int k = 0; k < LANES; k++) v[k] = (v[k] - most) - above;
        put(&piece, piece.y, i, v);
    }
}

KERNEL(K(cu_logsumexp), struct rows_args)
{
    double sum;
    T most = merged(&a, blockIdx.x, &sum);
    if (threadIdx.x == 0)
        put_logsumexp(&a, blockIdx.x, most, sum);
}
