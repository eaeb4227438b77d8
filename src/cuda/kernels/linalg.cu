/* linalg.cu: small matrices of a batch, in shared memory: cu_solve_f32, cu_lu_f32, cu_cholesky_f32.  The build compiles
 * it for each type.  Real ones of up to 32 rows and columns are in registers (linalg_lanes.inc): cu_solve_8_f32, ...;
 * those of up to 64 for Cholesky factors (linalg_pair.h): cu_cholesky_64_f32.
 *
 * All teams of a block do the same steps, so that its barriers are theirs; one without a matrix has zeros. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/linalg.h"
#include "cuda/kernels/linalg_numbers.h"

/* Where a thread works. */
struct at {
    S *x;           /* its matrix in shared memory */
    int64_t matrix; /* its number in the batch */
    int slot;       /* and in the block */
    int there;
    int me, row, column; /* in the team, and how that goes through rows and columns */
    int first;           /* of the columns of b */
};
FN struct at at_of(const struct linalg_call *a, S *shared, int rows)
{
    struct at p;
    int64_t block = blockIdx.x / a->tiles;
    p.slot = (int)threadIdx.x / a->team;
    p.me = (int)threadIdx.x % a->team;
    p.column = p.me % a->across;
    p.row = p.me / a->across;
    p.matrix = block * a->width + p.slot;
    p.there = p.matrix < a->count;
    p.x = shared + p.slot * rows * a->pitch;
    p.first = (int)(blockIdx.x % a->tiles) * a->tile;
    return p;
}
#define ROWS(r, from, to) for (int r = (from) + p.row; r < (to); r += a->team / a->across)
#define COLUMNS(c, from, to) for (int c = (from) + p.column; c < (to); c += a->across)
/* Of the right side, which may have few columns. */
#define ROWS_BESIDE(r, from, to) for (int r = (from) + p.me / a->beside; r < (to); r += a->team / a->beside)
#define COLUMNS_BESIDE(c, from, to) for (int c = (from) + p.me % a->beside; c < (to); c += a->beside)

/* The row below j - 1 with the largest element in column j, the first of several. */
FN int pivot_row(const struct linalg_call *a, const struct at *p, int j)
{
    int lanes = a->team < 32 ? a->team : 32, best = j;
    R most = -2;
    for (int r = j + p->me % lanes; r < a->m; r += lanes) {
        R size = size_of(p->x[r * a->pitch + j]);
        size = size == size ? size : -1;
        if (size > most) {
            most = size;
            best = r;
        }
    }
    for (int bit = 1; bit < lanes; bit *= 2) {
        R other = SHUFFLE_XOR(most, bit);
        int row = SHUFFLE_XOR(best, bit);
        if (other > most || (other == most && row < best)) {
            most = other;
            best = row;
        }
    }
    return best;
}

/* Factors of m rows in the first `steps` of w columns, the exchanges of rows into swaps. */
FN void eliminate(const struct linalg_call *a, struct at p, int steps, int w, int *swaps)
{
    S *x = p.x;
    int m = a->m, ld = a->pitch;
    for (int j = 0; j < steps; j++) {
        BARRIER();
        int with = pivot_row(a, &p, j);
        S pivot = x[with * ld + j], before = x[j * ld + j], inverse = is_zero(pivot) ? made(1) : inverse_of(pivot);
        int tiny = is_tiny(pivot) && !is_zero(pivot);
        BARRIER();
        if (p.me == 0)
            swaps[j] = with;
        for (int c = p.me; c < w && with != j; c += a->team)
            if (c != j) {
                S v = x[j * ld + c];
                x[j * ld + c] = x[with * ld + c];
                x[with * ld + c] = v;
            }
        for (int r = j + p.me; r < m; r += a->team) {
            S v = r == with ? before : x[r * ld + j];
            x[r * ld + j] = r == j ? pivot : tiny ? quotient(v, pivot) : times_of(v, inverse);
        }
        BARRIER();
        ROWS(r, j + 1, m)
        {
            S f = x[r * ld + j];
            COLUMNS(c, j + 1, w) { x[r * ld + c] = less(x[r * ld + c], f, x[j * ld + c]); }
        }
    }
    BARRIER();
}

/* The columns from n to w of a triangle's right side, each row but for the division by its diagonal. */
FN void substitute(const struct linalg_call *a, struct at p, int w, int upper)
{
    S *x = p.x;
    int n = a->n, ld = a->pitch;
    for (int i = 0; i < n; i++) {
        int j = upper ? n - 1 - i : i;
        S pivot = x[j * ld + j], inverse = inverse_of(pivot);
        int tiny = is_tiny(pivot);
        BARRIER();
        ROWS_BESIDE(r, upper ? 0 : j + 1, upper ? j : n)
        {
            S v = x[r * ld + j], f = times_of(v, inverse);
            if (tiny)
                COLUMNS_BESIDE(c, n, w) { x[r * ld + c] = less(x[r * ld + c], v, quotient(x[j * ld + c], pivot)); }
            else
                COLUMNS_BESIDE(c, n, w) { x[r * ld + c] = less(x[r * ld + c], f, x[j * ld + c]); }
        }
    }
    BARRIER();
}

/* Reads a's matrix; is there something in its part that is not finite? */
FN void read_matrix(const struct linalg_call *a, struct at p, int *odd)
{
    const S *from = (const S *)a->a + (p.there ? p.matrix : 0) * a->a_matrix;
    if (p.me == 0)
        odd[p.slot] = a->odd && p.there && a->odd[p.matrix];
    BARRIER();
    ROWS(r, 0, a->m)
    COLUMNS(c, 0, a->n)
    {
        S v = ZERO;
        int read = a->part == LINALG_ALL || (a->part == LINALG_LOWER ? c <= r : c >= r);
        if (p.there && read)
            v = from[r * a->a_row + c];
        if (is_odd(v))
            odd[p.slot] = 1;
        p.x[r * a->pitch + c] = v;
    }
}

/* One that cannot be done is noted, or is NaN where it is not finite; must the team write NaN? */
FN int failed_with_nan(const struct linalg_call *a, struct at p, int failed, const int *odd)
{
    if (!failed || !p.there)
        return 0;
    if (!odd[p.slot] && p.me == 0)
        note_outside(&a->noting, (uint64_t)p.matrix, 0);
    if (odd[p.slot] && p.me == 0 && a->nan)
        a->nan[p.matrix] = 1;
    return odd[p.slot];
}

/* a y = b, of which a block has some columns. */
FN void solve_in(const struct linalg_call *a, S *shared)
{
    SHARED int odd[LINALG_MATRICES], swaps[LINALG_ROWS];
    struct at p = at_of(a, shared, a->n);
    int n = a->n, ld = a->pitch, w = n + (a->k - p.first < a->tile ? a->k - p.first : a->tile), failed = 0;
    read_matrix(a, p, odd);
    ROWS_BESIDE(r, 0, n)
    COLUMNS_BESIDE(c, n, w)
    {
        int column = p.first + c - n;
        p.x[r * ld + c] = a->b ? p.there ? ((const S *)a->b)[p.matrix * a->b_matrix + r * a->b_row + column] : made(0)
                               : made(r == column ? 1 : 0);
    }
    if (a->part == LINALG_ALL)
        eliminate(a, p, n, w, swaps + p.slot * n);
    else
        BARRIER();
    for (int r = 0; r < n; r++) failed |= is_zero(p.x[r * ld + r]);
    substitute(a, p, w, a->part != LINALG_LOWER);
    int nan = failed_with_nan(a, p, failed, odd);
    ROWS_BESIDE(r, 0, n)
    {
        S pivot = p.x[r * ld + r], inverse = inverse_of(pivot);
        int tiny = is_tiny(pivot);
        COLUMNS_BESIDE(c, n, w)
        {
            int column = p.first + c - n;
            S v = p.x[r * ld + c];
            v = tiny ? quotient(v, pivot) : times_of(v, inverse);
            if (!a->b && (a->part == LINALG_LOWER ? column > r : a->part == LINALG_UPPER && column < r))
                v = made(0);
            if (p.there)
                ((S *)a->y[0])[p.matrix * a->y_matrix + r * a->y_row + column] = nan             ? made(NAN)
                                                                                 : a->conjugated ? conj_of(v)
                                                                                                 : v;
        }
    }
}

/* Element r of the diagonal, negative where rows were exchanged. */
FN S diagonal(const struct linalg_call *a, struct at p, const int *swaps, int r)
{
    S d = p.x[r * a->pitch + r];
    return swaps[r] == r ? d : scaled(d, -1);
}

FN void factor_in(const struct linalg_call *a, S *shared)
{
    SHARED int odd[LINALG_MATRICES], all_swaps[LINALG_ROWS], all_order[LINALG_ROWS];
    struct at p = at_of(a, shared, a->m);
    int m = a->m, n = a->n, k = m < n ? m : n, *swaps = all_swaps + p.slot * k, *order = all_order + p.slot * m;
    read_matrix(a, p, odd);
    eliminate(a, p, k, n, swaps);
    if (!p.there)
        return;
    if (a->makes == LINALG_FACTORS) {
        S *y = (S *)a->y[0] + p.matrix * m * n;
        ROWS(r, 0, m)
        COLUMNS(c, 0, n) { y[r * n + c] = p.x[r * a->pitch + c]; }
    }
    if (p.me)
        return;
    if (a->makes == LINALG_FACTORS) {
        uint32_t *exchanged = (uint32_t *)a->y[1] + p.matrix * k, *places = (uint32_t *)a->y[2] + p.matrix * m;
        for (int r = 0; r < m; r++) order[r] = r;
        for (int r = 0; r < k; r++) {
            int with = swaps[r], row = order[r];
            exchanged[r] = (uint32_t)with;
            order[r] = order[with];
            order[with] = row;
        }
        for (int r = 0; r < m; r++) places[order[r]] = (uint32_t)r;
    } else if (a->makes == LINALG_DET) {
        S d = made(1);
        for (int r = 0; r < n; r++) d = times_of(d, diagonal(a, p, swaps, r));
        ((S *)a->y[0])[p.matrix] = d;
    } else {
        S sign = made(1);
        double sum = 0;
        for (int r = 0; r < n; r++) {
            S d = diagonal(a, p, swaps, r);
            double size = modulus(d);
            sign = size == 0 ? made(0) : size == size ? times_of(sign, over(d, size)) : made(NAN);
            sum += m_log_f64(size);
        }
        ((S *)a->y[0])[p.matrix] = sign;
        ((R *)a->y[1])[p.matrix] = (R)sum;
    }
}

/* The lower factor, or the upper, which is its adjoint: kept turned, without conjugates, it is made the same way. */
FN void cholesky_in(const struct linalg_call *a, S *shared)
{
    SHARED int odd[LINALG_MATRICES];
    struct at p = at_of(a, shared, a->n);
    S *x = p.x;
    int n = a->n, ld = a->pitch, failed = 0, upper = a->part == LINALG_UPPER;
    read_matrix(a, p, odd);
    /* Element (r, c) of the lower triangle. */
#define LOWER(r, c) x[upper ? (c)*ld + (r) : (r)*ld + (c)]
    for (int j = 0; j < n; j++) {
        BARRIER();
        R d = real_of(LOWER(j, j));
        failed |= !(d > 0);
        R root = PASTE(m_sqrt, REAL)(d), inverse = 1 / root;
        BARRIER();
        for (int r = j + p.me; r < n; r += a->team) LOWER(r, j) = r == j ? made(root) : scaled(LOWER(r, j), inverse);
        BARRIER();
        ROWS(i, j + 1, n)
        COLUMNS(l, j + 1, n)
        {
            int r = upper ? l : i, c = upper ? i : l;
            if (c <= r)
                LOWER(r, c) = less(LOWER(r, c), LOWER(r, j), conj_of(LOWER(c, j)));
        }
    }
    BARRIER();
    int nan = failed_with_nan(a, p, failed, odd);
    ROWS(r, 0, n)
    COLUMNS(c, 0, n)
    {
        S v = nan ? made(NAN) : x[r * ld + c];
        if (upper ? c < r : c > r)
            v = made(0);
        if (p.there)
            ((S *)a->y[0])[p.matrix * a->y_matrix + r * a->y_row + c] = v;
    }
}

#define SMALL_MATRICES(name, with)                                 \
    BOUNDED_KERNEL(K(name), struct linalg_call, LINALG_THREADS, 2) \
    {                                                              \
        SHARED_BYTES(bytes, LINALG_BYTES);                         \
        with(&a, (S *)bytes);                                      \
    }
SMALL_MATRICES(cu_solve, solve_in)
SMALL_MATRICES(cu_lu, factor_in)
SMALL_MATRICES(cu_cholesky, cholesky_in)

#if !defined COMPLEX && !defined IN_TEXT /* their text is long: drivers would be seconds at it */
#include "cuda/kernels/linalg_lanes.h"

#define LANES 4
#define N(name) name##_4
#include "cuda/kernels/linalg_lanes.inc"
#define LANES 8
#define N(name) name##_8
#include "cuda/kernels/linalg_lanes.inc"
#define LANES 16
#define N(name) name##_16
#include "cuda/kernels/linalg_lanes.inc"
#define LANES 32
#define N(name) name##_32
#include "cuda/kernels/linalg_lanes.inc"

#include "cuda/kernels/linalg_pair.h"
#endif
