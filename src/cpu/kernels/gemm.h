/* gemm.h: what matrix products are made of, for one thread; product.c puts it together.
 *
 * A product is computed in one of five types: float32 (half types are converted to it and rounded
 * once at the end), float64, complex64, and unsigned integers of 32 and 64 bits, whose wrap-around
 * arithmetic gives the low bits of every integer type.  bfloat16 has kernels of its own, which sum in
 * float32, where bf16_gemm says so.
 *
 * Order of summation, on which every path but those of bfloat16 agrees so that a result does not depend
 * on who computed it: K falls into as few stretches of equal length as kc allows; within one, products
 * are added in order of k to zero, and the sums of the stretches are added in order.  Products with few
 * rows or columns have an order of their own (gemv). */
#ifndef MX_CPU_KERNELS_GEMM_H
#define MX_CPU_KERNELS_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"

enum gemm_type { GEMM_f32, GEMM_f64, GEMM_c64, GEMM_u32, GEMM_u64, GEMM_pairs, GEMM_tiles, GEMM_TYPES };

enum {
    GEMV_BLOCK = 1024, /* gemv sums K in blocks of this many */
    GEMV_VECTORS = 4,
    SOLVE_ROWS = 48, /* as many of a triangle at a time */
    PIXELS_BEHIND = 11,
};

/* Where the elements of a pixel that meet a stretch of weights lie. */
struct gemm_run {
    int64_t at, n;
};

/* Where a row of pixels begins, and where what comes of it goes. */
struct gemm_row {
    int64_t from, to;
};

struct gemm_kernel {
    int mr, nr; /* rows and columns of C that the registers hold: widths of the panels of A and B */
    int kc;     /* the longest stretch of K */
    int pace;   /* elements of K in a step of the panels: 1, or a pair of bfloat16 */
    int chunk;  /* panels end with a whole one, of so many steps */

    /* Panels of `width` out of n vectors of length k, element (i, p) at x[i * si + p * sp]: element
     * i of panel q at step p goes to panels[q * stride + p * width + i].  The last panel is filled
     * up with zeros.  Strides in elements; complex numbers lie in panels as `width` real parts,
     * then `width` imaginary ones; pairs count as one element of a panel.  pack_a: the same for A where
     * its panels are of another order, else NULL. */
    void (*pack)(void *panels, int64_t stride, int width, const void *x, int64_t si, int64_t sp, int64_t n, int64_t k);
    void (*pack_a)(void *panels, int64_t stride, int width, const void *x, int64_t si, int64_t sp, int64_t n,
                   int64_t k);
    /* C = A B, or C += A B, of m by n by `steps`, from panels `stride` apart as elements go. */
    void (*tile)(void *c, int64_t ldc, const void *a, int64_t stride_a, const void *b, int64_t stride_b, int64_t m,
                 int64_t n, int64_t steps, bool add);
    /* C = A B straight from the operands, for small products: k is at most kc, a row of B has no
     * gaps.  NULL where there is none. */
    void (*direct)(void *c, int64_t ldc, const void *a, int64_t rs, int64_t cs, const void *b, int64_t ldb, int64_t m,
                   int64_t n, int64_t k);
    /* Convolution: C (m pixels by n channels) = or += the sum over runs of pixels times weights.  Pixel i of run r is
     * at a[from[i] + runs[r].at], runs[r].n elements without gaps, and its sums go to c[to[i]]; b is one panel of
     * weights, run after run.  n is at most nr.  PIXELS_BEHIND elements of `from` behind the last are places as well,
     * of which nothing comes.  NULL where there is none. */
    void (*pixels)(void *c, const int64_t *to, const void *a, const int64_t *from, const struct gemm_run *runs,
                   int64_t n_runs, const void *b, int64_t m, int64_t n, bool add);
    /* The same where every channel has weights of its own, for rows of m pixels by n channels: c[row->to + i * ldc + j]
     * is the sum over runs r of a[row->from + i * rs + runs[r].at + j] * b[r * ldb + j].  n_runs is a multiple of
     * `side`, and of so many runs each is rs behind the one before. */
    void (*channels)(void *c, int64_t ldc, const struct gemm_row *row, int64_t rows, const void *a, int64_t rs,
                     const struct gemm_run *runs, int64_t n_runs, int64_t side, const void *b, int64_t ldb, int64_t m,
                     int64_t n);
    /* Its derivative: b[r * ldb + j] += sum over rows and i of a[row->from + i * rs + runs[r].at + j] *
     * c[row->to + i * ldc + j]. */
    void (*channels_weight)(const void *c, int64_t ldc, const struct gemm_row *row, int64_t rows, const void *a,
                            int64_t rs, const struct gemm_run *runs, int64_t n_runs, int64_t side, void *b, int64_t ldb,
                            int64_t m, int64_t n);
    /* X = L^-1 X for a lower triangle L of m <= SOLVE_ROWS rows, element (i, p) at l[i * rs + p * cs], and X of n
     * columns; unit: its diagonal counts as ones.  Strides may be negative: then it is an upper one, from its end.
     * NULL for integers. */
    void (*solve)(void *x, int64_t ldx, const void *l, int64_t rs, int64_t cs, int64_t m, int64_t n, bool unit);
    /* y = y + x */
    void (*add)(void *y, const void *x, int64_t n);
    /* y = alpha x + beta c, each rounded for itself; y may be x; c may be NULL. */
    void (*axpby)(void *y, const void *x, double alpha, const void *c, double beta, int64_t n);
};

/* y = A x, or y += A x where A and x begin past a multiple of GEMV_BLOCK, for nv <= GEMV_VECTORS
 * vectors x without gaps, sx apart; results syv apart.  A is of the type it is stored in, x and y
 * of the one computed in. */
typedef void gemv_fn(void *y, int64_t sy, int64_t syv, const void *a, int64_t rs, int64_t cs, const void *x, int64_t sx,
                     int nv, int64_t m, int64_t k, bool add);

/* Of the panels, for `depth` elements of K. */
static inline int64_t gemm_steps(const struct gemm_kernel *g, int64_t depth)
{
    int64_t chunk = (int64_t)g->pace * g->chunk;
    return (depth + chunk - 1) / chunk * g->chunk;
}

static inline void gemm_pack(const struct gemm_kernel *g, bool of_a, void *panels, int64_t stride, const void *x,
                             int64_t si, int64_t sp, int64_t n, int64_t k)
{
    if (of_a && g->pack_a)
        g->pack_a(panels, stride, g->mr, x, si, sp, n, k);
    else
        g->pack(panels, stride, of_a ? g->mr : g->nr, x, si, sp, n, k);
}

struct gemm_kernels {
    struct gemm_kernel type[GEMM_TYPES];
    gemv_fn *gemv[DT_COUNT]; /* NULL where there is none */
};

#endif
