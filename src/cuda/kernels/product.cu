/* product.cu: products of matrices, of any type and layout: cu_product_large_f32.  The build compiles it for each line
 * of modules.def, with SUFFIX, S, the type as stored, SUM, that of sums, and a word for its kind (none: float) defined.
 *
 * A block makes a tile of y.  For each stretch of k its threads fetch both operands' parts into shared memory, while
 * they multiply those of the stretch before.  Sums run along k in order, in pieces that follow from the sizes alone,
 * but for matrices times vectors, which are read by lines where 16 bytes can be. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/arrived.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/product_at.h"
#include "cuda/kernels/warp.h"

#include "cuda/kernels/product_results.h"
#if defined HALF || defined LARGE
#include "cuda/kernels/vector_norm.h"
#include "cuda/kernels/vector_results.h"
#endif

/* The pieces' sums, in order. */
KERNEL(K(cu_product_merge), struct product_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, each = a.m * a.n, n = a.batches * each;
    if (i >= n)
        return;
    const T *from = (const T *)a.partial + i;
    const S *c = NULL;
    T sum = from[0];
    for (int64_t p = 1; p < a.pieces; p++) sum = plus(sum, from[p * n]);
    int64_t place = i;
    if (a.c || !a.together) {
        struct places at = places_of(i / each, a.batches, a.ndim, a.shape, 3, a.batch[0], PRODUCT_DIMS);
        int64_t here = i % each;
        c = a.c ? (const S *)a.c + at.at[2] + here / a.n * a.c_row + here % a.n * a.c_column : NULL;
        place = i / each * a.y_matrix + here / a.n * a.y_row + here % a.n;
    }
    ((S *)a.y)[place] = OUT(finished(&a, sum, c));
}

/* ---- tiles */

#if defined HALF && HAS_WARP_PRODUCTS
#define TILE PRODUCT_LARGE
#define N(name) name##_large
#include "cuda/kernels/product_warps.inc"
#define TILE PRODUCT_SMALL
#define N(name) name##_small
#include "cuda/kernels/product_warps.inc"
#define TILE PRODUCT_LARGE
#define N(name) name##_tall
#include "cuda/kernels/product_tall.inc"
#elif defined HALF
#define TILE PRODUCT_LARGE
#define DEPTH 16
#define ROWS 16
#define COLUMNS 8
#define N(name) name##_large
#include "cuda/kernels/product_tile.inc"
#define TILE PRODUCT_SMALL
#define DEPTH 16
#define ROWS 8
#define COLUMNS 4
#define N(name) name##_small
#include "cuda/kernels/product_tile.inc"
#else
#if defined LARGE
#define TILE PRODUCT_LARGE
#define DEPTH 8
#define ROWS 8
#define COLUMNS 8
#define N(name) name##_large
#include "cuda/kernels/product_tile.inc"
#endif
#define TILE PRODUCT_SMALL
#define DEPTH 16
#define ROWS 4
#define COLUMNS 4
#define N(name) name##_small
#include "cuda/kernels/product_tile.inc"
#endif

#if defined LARGE && HAS_WARP_PRODUCTS
#define TILE PRODUCT_LARGE
#define N(name) name##_split
#include "cuda/kernels/product_split.inc"
/* Where float32 may leave out bits (MLX_ENABLE_TF32=1). */
#define TF32
#define TILE PRODUCT_SMALL
#define DEPTH 16
#define ROWS 4
#define COLUMNS 4
#define N(name) name##_small_tf32
#include "cuda/kernels/product_tile.inc"
#endif

#if defined HALF || defined LARGE
/* Rows that begin anywhere, once more where they are read 16 bytes at a time. */
KERNEL(K(cu_product_rows), struct product_row_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, each = a.step / LANES, row = i / each;
    int64_t column = i % each * LANES, matrix = row / a.rows;
    if (matrix >= a.batches)
        return;
    struct places at = places_of(matrix, a.batches, a.ndim, a.shape, 1, a.batch, PRODUCT_DIMS);
    const S *x = (const S *)a.from + at.at[0] + (row - matrix * a.rows) * a.row + column * a.column;
    union lanes u;
    for (int k = 0; k < LANES; k++) u.v[k] = column + k < a.columns ? x[k * a.column] : zero_element();
    COPY_LANES((S *)a.to + i * LANES, u.v, sizeof u.v);
}
#endif

/* ---- a matrix times a vector */

/* Elements k, k + 1, ... below `end` of a line, LANES of them, zeros behind. */
FN void lanes_of(union lanes *u, const struct product_operand *o, const S *x, int64_t k, int64_t end)
{
    if (o->vectors) {
        COPY_LANES(u->v, x + k, sizeof u->v);
    } else {
        for (int j = 0; j < LANES; j++) u->v[j] = k + j < end ? x[(k + j) * o->depth] : zero_element();
    }
}

FN T exchanged(T x, int bits)
{
#ifdef COMPLEX
    x.re = SHUFFLE_XOR(x.re, bits);
    x.im = SHUFFLE_XOR(x.im, bits);
    return x;
#else
    return SHUFFLE_XOR(x, bits);
#endif
}

FN void put_result(const struct product_args *a, const struct spot *s, int64_t line, T sum)
{
    const S *c = a->c ? (const S *)a->c + s->at.at[2] + line * a->c_row : NULL;
    ((S *)a->y)[s->batch * a->y_matrix + line * a->y_row] = OUT(finished(a, sum, c));
}

/* The sum of a line, or of a piece of it. */
FN void put_one(const struct product_args *a, const struct spot *s, int64_t line, T sum)
{
    if (a->pieces > 1)
        ((T *)a->partial)[(s->piece * a->batches + s->batch) * a->m * a->n + line] = sum;
    else
        put_result(a, s, line, sum);
}

/* Elements follow along lines: a team for each. */
KERNEL(K(cu_product_along), struct product_args)
{
    SHARED T of_warp[PRODUCT_THREADS / 32];
    struct spot s = spot_of(&a, a.width, a.width);
    int64_t line = s.row + (int)threadIdx.x / a.team, end = line < a.m ? s.end : s.from;
    const S *x = (const S *)a.a.p + s.at.at[0] + line * a.a.line, *v = (const S *)a.b.p + s.at.at[1];
    T sum = zero_sum();
    FOURS
    for (int64_t k = s.from + (int)threadIdx.x % a.team * LANES; k < end; k += a.team * LANES) {
        union lanes p, q;
        lanes_of(&p, &a.a, x, k, end);
        lanes_of(&q, &a.b, v, k, end);
        for (int j = 0; j < LANES; j++) sum = plus_product(sum, IN(p.v[j]), IN(q.v[j]));
    }
    for (int bits = (a.team < 32 ? a.team : 32) / 2; bits > 0; bits /= 2) sum = plus(sum, exchanged(sum, bits));
    if (a.team > 32) {
        if (threadIdx.x % 32 == 0)
            of_warp[threadIdx.x / 32] = sum;
        BARRIER();
        int first = (int)threadIdx.x / a.team * (a.team / 32);
        sum = of_warp[first];
        for (int n = 1; n < a.team / 32; n++) sum = plus(sum, of_warp[first + n]);
    }
    if (line < a.m && threadIdx.x % (unsigned)a.team == 0)
        put_one(&a, &s, line, sum);
}

#if defined HALF || defined LARGE
/* The same of matrices that are read 16 bytes at a time, which takes as long as reading does: a block has LINES of one,
 * each thread some vectors of all of those, with what they are multiplied with once for all.  As much as a thread has
 * registers for is on its way before the first is multiplied. */
enum { LINES = PRODUCT_LINES, LINE_THREADS = PRODUCT_LINE_THREADS };

FN void add_lines(T sum[LINES], const union lanes x[LINES], const union lanes *by)
{
    for (int j = 0; j < LANES; j++) {
        T v = IN(by->v[j]);
        for (int i = 0; i < LINES; i++) sum[i] = plus_product(sum[i], IN(x[i].v[j]), v);
    }
}

FN S line_result(const struct product_lines_args *a, T sum, const S *c)
{
    return a->rounded ? added_result(sum, c) : OUT(scaled_sum(a->alpha, a->beta, sum, c));
}

/* What a block has at a time: `n` lines of matrix `number`, from `line` on and from `apart` behind it (line_after), or
 * half of LINES of each of two. */
struct lines {
    const struct product_lines *of;
    int64_t line;
    int number, n, apart;
    const S *x[LINES];
};
FN struct lines lines_of(const struct product_lines_args *a, const struct vector_turns *t, int64_t group)
{
    struct lines l;
    int number = 0, most = a->gated ? LINES / 2 : LINES;
    UNROLLED
    for (int i = 1; i < PRODUCT_MATRICES; i++)
        if (i < a->n && !a->gated && group >= a->of[i].first)
            number = i;
    l.of = &a->of[number];
    l.number = number;
    l.apart = LINES / 2;
    l.line = t ? first_line(t, number, group - l.of->first, &l.apart) : (group - l.of->first) * most;
    l.n = l.line + most <= l.of->m ? most : (int)(l.of->m - l.line);
    const int64_t step = l.of->line;
    const S *x = (const S *)l.of->x + l.line * step;
    const S *other = a->gated ? (const S *)a->of[1].x + l.line * a->of[1].line : x;
    UNROLLED
    for (int i = 0; i < LINES; i++) {
        int at = a->gated ? i % (LINES / 2) : i;
        at = line_after(at < l.n ? at : l.n - 1, l.apart);
        l.x[i] = a->gated && i >= LINES / 2 ? other + at * a->of[1].line : x + at * step;
    }
    return l;
}

/* What a thread has of the lines at once, from element k on: of each LINES_AHEAD vectors, or as many as there are; and
 * the vector times those. */
enum { LINES_AHEAD = 2, LINE_STEP = LINE_THREADS * LANES };
FN void read_lines(union lanes x[LINES_AHEAD][LINES], const struct lines *l, int64_t k, int64_t end)
{
    UNROLLED
    for (int n = 0; n < LINES_AHEAD; n++)
        if (k + n * LINE_STEP < end)
            for (int i = 0; i < LINES; i++) read16_once(x[n][i].v, l->x[i] + k + n * LINE_STEP);
}

FN void add_read(T sum[LINES], union lanes x[LINES_AHEAD][LINES], const S *v, int64_t k, int64_t end)
{
    union lanes by[LINES_AHEAD];
    UNROLLED
    for (int n = 0; n < LINES_AHEAD; n++)
        if (k + n * LINE_STEP < end) {
            COPY_LANES(by[n].v, v + k + n * LINE_STEP, sizeof by[n].v);
        }
    UNROLLED
    for (int n = 0; n < LINES_AHEAD; n++)
        if (k + n * LINE_STEP < end)
            add_lines(sum, x[n], &by[n]);
}

/* The vector times the lines of the block's group, or, where there may be a norm, of one group in every gridDim.x.
 * Lines that were there before the kernel ahead was launched are read while that ends. */
FN void multiply_lines(const struct product_lines_args *a, const struct vector_turns *t, union normed *normed)
{
    enum { WARPS = LINE_THREADS / 32 };
    SHARED T of_warp[WARPS][LINES];
    const int64_t first = (int64_t)threadIdx.x * LANES;
    int64_t group = blockIdx.x;
    struct lines l = lines_of(a, t, group);
    union lanes x[LINES_AHEAD][LINES];
    if (a->early) {
        LAUNCH_NEXT();
        read_lines(x, &l, first, a->k);
    }
    const S *v = (const S *)a->v;
    union lanes weight[NORM_HELD];
    const int has = normed && norm_read_weights(&a->norm, a->k, weight);
    AFTER_LAUNCH();
    if (normed && a->norm.y) {
        make_norm(&a->norm, a->k, normed, weight, has);
        v = normed->v;
    }
    if (!a->early)
        read_lines(x, &l, first, a->k);
    ROLLED
    for (;;) {
        T sum[LINES];
        for (int i = 0; i < LINES; i++) sum[i] = zero_sum();
        add_read(sum, x, v, first, a->k);
        int64_t k = first + LINES_AHEAD * LINE_STEP;
        ROLLED
        for (; k + LINE_STEP < a->k; k += LINES_AHEAD * LINE_STEP) {
            read_lines(x, &l, k, k + LINES_AHEAD * LINE_STEP);
            add_read(sum, x, v, k, k + LINES_AHEAD * LINE_STEP);
        }
        if (k < a->k) {
            read_lines(x, &l, k, k + LINE_STEP);
            add_read(sum, x, v, k, k + LINE_STEP);
        }
        const struct lines now = l;
        group += gridDim.x;
        const int more = normed && group < a->groups;
        if (more) {
            l = lines_of(a, t, group);
            read_lines(x, &l, first, a->k);
        } else {
            LAUNCH_NEXT();
        }
        for (int i = 0; i < LINES; i++)
            for (int bits = 16; bits > 0; bits /= 2) sum[i] = plus(sum[i], exchanged(sum[i], bits));
        if (threadIdx.x % 32 == 0)
            for (int i = 0; i < LINES; i++) of_warp[threadIdx.x / 32][i] = sum[i];
        BARRIER();
        int i = (int)threadIdx.x;
        if (i < 32) {
            const int64_t mine = now.line + line_after(i, now.apart);
            const S *c = now.of->c && i < now.n ? (const S *)now.of->c + mine * now.of->c_row : NULL;
            float all = sum_of_warps(of_warp, WARPS, i);
            const int gated = a->gated && !t; /* no heads are gated */
            S y = gated ? gated_result(all, sum_of_warps(of_warp, WARPS, i + LINES / 2)) : line_result(a, all, c);
            if (t)
                put_turned(t, now.number, now.line, now.apart, y, now.n);
            else if (i < now.n)
                ((S *)now.of->y)[mine * now.of->y_row] = y;
        }
        if (!more)
            break;
        BARRIER(); /* these have been read */
    }
}

/* As many registers as it takes to have all on its way. */
EARLY_BOUNDED_KERNEL(K(cu_product_lines), struct product_lines_args, LINE_THREADS, PRODUCT_LINE_BLOCKS)
{
    multiply_lines(&a, NULL, NULL);
}

EARLY_BOUNDED_KERNEL(K(cu_product_lines_normed), struct product_lines_args, LINE_THREADS, PRODUCT_LINE_BLOCKS)
{
    SHARED union normed normed;
    multiply_lines(&a, NULL, &normed);
}

EARLY_BOUNDED_KERNEL(K(cu_product_lines_turned), struct product_turned_args, LINE_THREADS, PRODUCT_TURNED_BLOCKS)
{
    SHARED union normed normed;
    multiply_lines(&a.l, &a.t, &normed);
}
#endif

#if defined HALF || defined LARGE
/* The last block to come here merges the pieces of the lines that it has, in their order: all are in memory by then. */
FN void merge_as_last(const struct product_args *a, const struct spot *s)
{
    const int64_t wide = a->team * LANES, unit = s->batch * a->down + s->row / wide, step = a->batches * a->m * a->n;
    if (!came_last(&a->arrived[unit], a->pieces))
        return;
    ROLLED
    for (int64_t line = s->row + threadIdx.x; line < s->row + wide && line < a->m; line += PRODUCT_THREADS) {
        const T *from = (const T *)a->partial + s->batch * a->m * a->n + line;
        T sum = READ_ANEW(from);
        EIGHTS
        for (int64_t p = 1; p < a->pieces; p++) sum = plus(sum, READ_ANEW(from + p * step));
        put_result(a, s, line, sum);
    }
}
#endif

/* Neighbours are of different lines: a thread has LANES of those, and of k one in every so many as there are teams. */
BOUNDED_KERNEL(K(cu_product_across), struct product_args, PRODUCT_THREADS, sizeof(S) > 4 ? 2 : 4)
{
    enum { AHEAD = 4 };
    SHARED T sums[PRODUCT_THREADS * LANES];
    struct spot s = spot_of(&a, a.team * LANES, a.team * LANES);
    int64_t line = s.row + (int)threadIdx.x % a.team * LANES, k = s.from + (int)threadIdx.x / a.team;
    const S *x = (const S *)a.a.p + s.at.at[0] + line * a.a.line, *v = (const S *)a.b.p + s.at.at[1];
    T sum[LANES];
    for (int j = 0; j < LANES; j++) sum[j] = zero_sum();
    ROLLED
    for (; a.a.vectors && k + (AHEAD - 1) * a.width < s.end && line < a.m; k += AHEAD * a.width) {
        union lanes p[AHEAD];
        S by[AHEAD];
        UNROLLED
        for (int n = 0; n < AHEAD; n++) { COPY_LANES(p[n].v, x + (k + n * a.width) * a.a.depth, sizeof p[n].v); }
        UNROLLED
        for (int n = 0; n < AHEAD; n++) by[n] = v[(k + n * a.width) * a.b.depth];
        UNROLLED
        for (int n = 0; n < AHEAD; n++)
            for (int j = 0; j < LANES; j++) sum[j] = plus_product(sum[j], IN(p[n].v[j]), IN(by[n]));
    }
    ROLLED
    for (; k < s.end && line < a.m; k += a.width) {
        union lanes p;
        if (a.a.vectors) {
            COPY_LANES(p.v, x + k * a.a.depth, sizeof p.v);
        } else {
            for (int j = 0; j < LANES; j++) p.v[j] = line + j < a.m ? x[k * a.a.depth + j * a.a.line] : zero_element();
        }
        T by = IN(v[k * a.b.depth]);
        for (int j = 0; j < LANES; j++) sum[j] = plus_product(sum[j], IN(p.v[j]), by);
    }
    for (int j = 0; j < LANES; j++) sums[(int)threadIdx.x * LANES + j] = sum[j];
    BARRIER();
    for (int i = (int)threadIdx.x; i < a.team * LANES; i += PRODUCT_THREADS) {
        T all = sums[i];
        for (int n = 1; n < a.width; n++) all = plus(all, sums[n * a.team * LANES + i]);
        if (s.row + i < a.m)
            put_one(&a, &s, s.row + i, all);
    }
#if defined HALF || defined LARGE
    if (a.arrived)
        merge_as_last(&a, &s);
#endif
}

/* ---- y[begin:end] += a[:, begin:end] c for each segment: a thread for each element of y */

KERNEL(K(cu_product_outer), struct product_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = i / a.n, column = i % a.n;
    if (i >= a.m * a.n)
        return;
    T sum = zero_sum();
    for (int64_t g = 0; g < a.groups; g++) {
        struct places at = places_of(g, a.groups, a.ndim, a.shape, 2, a.batch[0], PRODUCT_DIMS);
        const S *x = (const S *)a.a.p + row * a.a.line, *y = (const S *)a.b.p + at.at[1] + column * a.b.line;
        if (row < a.bounds[g * a.bound_step] || row >= a.bounds[g * a.bound_step + 1])
            continue;
        FOURS
        for (int64_t k = 0; k < a.k; k++) sum = plus_product(sum, IN(x[k * a.a.depth]), IN(y[k * a.b.depth]));
    }
    ((S *)a.y)[i] = OUT(sum);
}
