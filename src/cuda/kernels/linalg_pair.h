/* linalg_pair.h: Cholesky factors of real matrices of 33 to 64 rows, each in the registers of a pair of warps: a thread
 * has a row, as in linalg_lanes.inc, and a column goes through shared memory at each step. */
#ifndef MX_CUDA_KERNELS_LINALG_PAIR_H
#define MX_CUDA_KERNELS_LINALG_PAIR_H

#include "cuda/kernels/linalg_lanes.h"

enum { PAIR_STEPS = 8, PAIR_BLOCKS = 32 / sizeof(S) };

struct held_by_pair {
    struct four columns[2][LINALG_PAIR / 4]; /* by turns, so that a barrier for each step is enough */
    S whole[LINALG_PAIR][LINALG_PAIR + 1];
    int odd;
};

/* Element (me, c) in x[c], or turned back. */
FN void pair_turn(S *x, int me, struct held_by_pair *h)
{
    BARRIER();
    UNROLLED
    for (int i = 0; i < LINALG_PAIR; i++) h->whole[i][me] = x[i];
    BARRIER();
    UNROLLED
    for (int i = 0; i < LINALG_PAIR; i++) x[i] = h->whole[me][i];
}

/* x[c] - f times element c of a column, from x[from] on, of as many whole PAIR_STEPS as are left. */
FN void pair_take(S *x, S f, const struct four *column, const int from, int left)
{
    UNROLLED
    for (int first = 0; first < LINALG_PAIR; first += PAIR_STEPS) {
        if (first >= left)
            continue;
        UNROLLED
        for (int c = first; c < first + PAIR_STEPS; c += 4) {
            struct four v = column[c / 4];
            UNROLLED
            for (int i = 0; i < 4; i++)
                if (c + i >= from)
                    x[c + i] = less(x[c + i], f, v.v[i]);
        }
    }
}

/* All threads do all steps, those above the diagonal with what is never used. */
BOUNDED_KERNEL(K(cu_cholesky_64), struct linalg_call, LINALG_PAIR, PAIR_BLOCKS)
{
    SHARED struct held_by_pair held;
    struct held_by_pair *h = &held;
    struct lane l = { 0 };
    int n = a.n, me = (int)threadIdx.x, upper = a.part == LINALG_UPPER, failed = 0, odd = 0;
    l.matrix = blockIdx.x;
    l.there = 1;
    l.me = me;
    const S *from = (const S *)a.a + l.matrix * a.a_matrix + me;
    S x[LINALG_PAIR];
    if (me == 0)
        h->odd = 0;
    UNROLLED
    for (int r = 0; r < LINALG_PAIR; r++) {
        x[r] = made(0);
        if (r < n && me < n && (upper ? r <= me : r >= me))
            x[r] = from[r * a.a_row];
    }
    UNROLLED
    for (int r = 0; r < LINALG_PAIR; r++) odd |= is_odd(x[r]);
    BARRIER();
    if (odd)
        h->odd = 1;
    if (!upper)
        pair_turn(x, me, h);
    ROLLED
    for (int first = 0; first < LINALG_PAIR; first += PAIR_STEPS) {
        UNROLLED
        for (int u = 0; u < PAIR_STEPS; u++) {
            int j = first + u;
            if (j < n) {
                struct four *column = h->columns[u & 1];
                column[me / 4].v[me % 4] = x[u];
                BARRIER();
                R d = real_of(column[j / 4].v[j % 4]), root = root_of(d), inverse = 1 / root;
                failed |= !(d > 0);
                x[u] = me == j ? made(root) : scaled(x[u], inverse);
                if ((me | 31) > j) /* a warp has something left */
                    pair_take(x, scaled(x[u], inverse), column + first / 4, u + 1, n - first);
            }
        }
        S y[LINALG_PAIR]; /* the columns go round, so that the next is in x[0] */
        UNROLLED
        for (int i = 0; i < LINALG_PAIR; i++) y[i] = x[(i + PAIR_STEPS) % LINALG_PAIR];
        UNROLLED
        for (int i = 0; i < LINALG_PAIR; i++) x[i] = y[i];
    }
    if (!upper)
        pair_turn(x, me, h);
    else
        BARRIER();
    int nan = lane_failed_with_nan(&a, &l, failed, h->odd);
    S *y = (S *)a.y[0] + l.matrix * a.y_matrix + me;
    UNROLLED
    for (int r = 0; r < LINALG_PAIR; r++)
        if (me < n && r < n)
            y[r * a.y_row] = (upper ? r > me : r < me) ? made(0) : nan ? made(NAN) : x[r];
}

#endif
