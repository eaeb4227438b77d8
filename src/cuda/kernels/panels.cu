/* panels.cu: what matrices that are too large for shared memory are factored with, beside products: panels of a few
 * columns, by one block for each matrix, exchanges of rows, triangles: cu_panel_lu_f32, cu_exchange_f32, cu_pivots_f32,
 * cu_part_f32. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/linalg.h"
#include "cuda/kernels/linalg_numbers.h"
#include "cuda/kernels/panels.h"

/* ---- triangles */

KERNEL(K(cu_part), struct part_call)
{
    int64_t number = blockIdx.x / a.across, matrix = number / a.down;
    int c = (int)(blockIdx.x % a.across) * PANEL_ALONG + (int)threadIdx.x;
    int first = (int)(number % a.down) * PANEL_DOWN, end = first + PANEL_DOWN < a.rows ? first + PANEL_DOWN : a.rows;
    S *x = (S *)a.x + matrix * a.x_matrix, *y = (S *)a.y + matrix * a.y_matrix;
    int odd = 0, nan = a.nan && a.nan[matrix];
    for (int r = first; r < end && c < a.columns; r++) {
        int in = a.part == LINALG_ALL || (a.part == LINALG_LOWER ? c <= r : c >= r);
        S v = made(r == c ? 1 : 0), *from = a.turned >= PART_TRANSPOSED ? x + c * a.x_row + r : x + r * a.x_row + c;
        if (a.x)
            v = in ? *from : made(0);
        if (a.turned & 1)
            v = conj_of(v);
        odd |= is_odd(v);
        if (a.y)
            y[r * a.y_row + c] = nan && in ? made(NAN) : v;
        if (a.conjugated)
            *from = conj_of(v);
    }
    if (odd && a.odd)
        a.odd[matrix] = 1;
}

KERNEL(K(cu_eigen), struct eigen_call)
{
    int64_t number = blockIdx.x / a.across, matrix = number / a.down, n = a.n;
    int c = (int)(blockIdx.x % a.across) * PANEL_ALONG + (int)threadIdx.x;
    int rows = a.vectors ? a.n : 1, first = (int)(number % a.down) * PANEL_DOWN;
    const R *value = (const R *)a.values + 2 * (matrix * n + c);
    complex64 *y = (complex64 *)a.y + matrix * rows * n + c, v = { NAN, 0 };
    for (int r = first; r < first + PANEL_DOWN && r < rows && c < a.n; r++) {
        if (!a.nan[matrix] && !a.vectors) {
            v.re = (float)value[0];
            v.im = (float)value[1];
        } else if (!a.nan[matrix]) {
            const S *x = (const S *)a.vectors + (matrix * n + c) * n + r;
#ifdef COMPLEX
            v = *x;
#else
            v.re = (float)(value[1] < 0 ? x[-n] : x[0]);
            v.im = value[1] == 0 ? 0 : value[1] < 0 ? (float)-x[0] : (float)x[n];
#endif
        }
        y[r * n] = v;
    }
}

/* One block for each matrix. */
KERNEL(K(cu_weigh), struct weigh_call)
{
    const R *value = (const R *)a.values + (int64_t)blockIdx.x * a.k;
    S *x = (S *)a.x + (int64_t)blockIdx.x * a.m * a.k;
    R least = two_to(-PASTE(DIGITS_OF, REAL)) * (R)(a.m > a.n ? a.m : a.n) * value[0];
    for (int c = (int)threadIdx.x; c < a.k; c += PANEL_ALONG) {
        R by = 1;
        for (int i = 0; i < a.k && a.others; i++) by *= i == c ? 1 : value[i];
        if (!a.others)
            by = value[c] > least ? 1 / value[c] : 0;
        for (int64_t r = 0; r < a.m; r++) x[r * a.k + c] = scaled(x[r * a.k + c], by);
    }
}

KERNEL(K(cu_finish), struct finish_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    S *y = (S *)a.y;
    if (i < a.n)
        y[i] = times_of(conj_of(y[i]), times_of(((const S *)a.first)[i / a.each], ((const S *)a.second)[i / a.each]));
}

KERNEL(K(cu_clear), struct clear_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n)
        a.p[i] = 0;
}

/* ---- elimination with exchanges of rows */

/* The largest of a block's candidates, the first of several. */
FN int row_of_most(R most, int row, R *sizes, int *rows)
{
    for (int again = 0; again < 2; again++) {
        for (int bit = 1; bit < 32; bit *= 2) {
            R other = SHUFFLE_XOR(most, bit);
            int there = SHUFFLE_XOR(row, bit);
            if (other > most || (other == most && there < row)) {
                most = other;
                row = there;
            }
        }
        if (again)
            break;
        if (threadIdx.x % 32 == 0) {
            sizes[threadIdx.x / 32] = most;
            rows[threadIdx.x / 32] = row;
        }
        BARRIER();
        int there = threadIdx.x % 32 < blockDim.x / 32;
        most = there ? sizes[threadIdx.x % 32] : -3;
        row = there ? rows[threadIdx.x % 32] : 0;
    }
    return row;
}
FN R rank_of(S v)
{
    R size = size_of(v);
    return size == size ? size : -1;
}

/* Rows and columns count from a.first on. */
BOUNDED_KERNEL(K(cu_panel_lu), struct panel_call, PANEL_THREADS, 1)
{
    SHARED R sizes[32];
    SHARED int rows[32];
    SHARED S top[PANEL];
    S *x = (S *)a.panel + (int64_t)blockIdx.x * PANEL * a.m;
    int32_t *swaps = a.swaps + (int64_t)blockIdx.x * a.k + a.first;
    int me = (int)threadIdx.x, threads = (int)blockDim.x, height = a.m - a.first, best = 0;
    int64_t ld = a.m;
    R most = -2;
    for (int r = me; r < height; r += threads) {
        R size = rank_of(x[r]);
        if (size > most) {
            most = size;
            best = r;
        }
    }
    for (int j = 0; j < a.columns; j++) {
        int with = row_of_most(most, best, sizes, rows);
        if (me < a.columns) {
            S *one = x + me * ld + j, *other = x + me * ld + with, v = *other;
            *other = *one;
            *one = v;
            top[me] = v;
        }
        if (me == 0)
            swaps[j] = a.first + with;
        BARRIER();
        S pivot = top[j], inverse = is_zero(pivot) ? made(1) : inverse_of(pivot);
        int tiny = is_tiny(pivot) && !is_zero(pivot);
        most = -2;
        best = j + 1;
        for (int r = me; r < height; r += threads) {
            if (r <= j)
                continue;
            S f = x[j * ld + r];
            f = tiny ? quotient(f, pivot) : times_of(f, inverse);
            x[j * ld + r] = f;
            FOURS
            for (int c = j + 1; c < a.columns; c++) {
                S v = less(x[c * ld + r], f, top[c]);
                x[c * ld + r] = v;
                R size = rank_of(v);
                if (c == j + 1 && size > most) {
                    most = size;
                    best = r;
                }
            }
        }
        BARRIER();
    }
}

/* A thread has a column beside the panel: exchanges its rows as the panel's were, and, behind it, multiplies by the
 * inverse of the panel's triangle. */
KERNEL(K(cu_exchange), struct panel_call)
{
    SHARED S top[PANEL][PANEL_EXCHANGED], lower[PANEL][PANEL];
    int64_t matrix = blockIdx.x / a.across;
    int me = (int)threadIdx.x, c = (int)(blockIdx.x % a.across) * PANEL_EXCHANGED + me, n = a.columns;
    S *x = (S *)a.x + matrix * a.matrix;
    const int32_t *swaps = a.swaps + matrix * a.k + a.first;
    for (int i = me; i < n * n; i += PANEL_EXCHANGED)
        lower[i / n][i % n] = x[(a.first + i / n) * a.row + a.first + i % n];
    BARRIER();
    if (c >= a.w || (c >= a.first && c < a.first + n))
        return;
    for (int r = 0; r < n; r++) top[r][me] = x[(a.first + r) * a.row + c];
    for (int r = 0; r < n; r++) {
        int with = swaps[r] - a.first;
        S v = top[r][me], *other = x + (int64_t)(a.first + with) * a.row + c;
        if (with < n) {
            top[r][me] = top[with][me];
            top[with][me] = v;
        } else {
            top[r][me] = *other;
            *other = v;
        }
    }
    for (int r = 0; r < n; r++) {
        S v = top[r][me];
        x[(a.first + r) * a.row + c] = v;
        for (int below = r + 1; below < n && c > a.first; below++)
            top[below][me] = less(top[below][me], lower[below][r], v);
    }
}

/* ---- reflections */

/* What all threads of a block have together: the largest, or the sum. */
FN R together(R x, int sum, R *of_warps)
{
    int lane = (int)threadIdx.x % 32;
    for (int again = 0; again < 2; again++) {
        for (int bit = 1; bit < 32; bit *= 2) {
            R other = SHUFFLE_XOR(x, bit);
            x = sum ? x + other : larger_of(x, other);
        }
        if (again)
            break;
        if (lane == 0)
            of_warps[threadIdx.x / 32] = x;
        BARRIER();
        x = lane < (int)blockDim.x / 32 ? of_warps[lane] : 0;
    }
    BARRIER();
    return x;
}
FN S sum_of_warp(S x)
{
    for (int bit = 1; bit < 32; bit *= 2) {
#ifdef COMPLEX
        x.re += SHUFFLE_XOR(x.re, bit);
        x.im += SHUFFLE_XOR(x.im, bit);
#else
        x += SHUFFLE_XOR(x, bit);
#endif
    }
    return x;
}

/* The panel's reflections, as 1 - V T V^H: V turned into the panel, T and its adjoint, R into the matrix. */
BOUNDED_KERNEL(K(cu_panel_qr), struct panel_call, PANEL_THREADS, 1)
{
    SHARED R of_warps[32], betas[PANEL];
    SHARED S t[PANEL][PANEL + 1], shares[PANEL];
    S *x = (S *)a.panel + (int64_t)blockIdx.x * a.k * a.m, *y = (S *)a.x + (int64_t)blockIdx.x * a.matrix;
    int me = (int)threadIdx.x, threads = (int)blockDim.x, height = a.m - a.first, lane = me % 32;
    int64_t ld = a.m;
    for (int j = 0; j < a.columns; j++) {
        S *v = x + j * ld, alpha = v[j];
        R most = 0, sum = 0;
        for (int r = me; r < height; r += threads) most = r > j ? larger_of(most, largest_of(v[r])) : most;
        most = together(most, 0, of_warps);
        R scale = reflection_scale(alpha, most);
        for (int r = me; r < height; r += threads) sum = r > j ? plus_square(sum, scaled(v[r], scale)) : sum;
        sum = together(sum, 1, of_warps);
        struct reflection h = reflection_with(alpha, most, scale, sum);
        for (int r = me; r < height; r += threads)
            if (r > j)
                v[r] = times_of(scaled(v[r], h.scale), h.inverse);
        if (me == 0)
            betas[j] = h.beta;
        BARRIER();
        for (int c = me / 32; c < a.columns; c += threads / 32) { /* a warp for each other column */
            S *z = x + c * ld, share = ZERO;
            FOURS
            for (int r = j + lane; r < height && c != j; r += 32) {
                S one = r == j ? made(1) : v[r];
                share = c > j ? product_of(share, conj_of(one), z[r]) : product_of(share, conj_of(z[r]), one);
            }
            share = sum_of_warp(share);
            if (lane == 0)
                shares[c] = share;
            share = times_of(conj_of(h.tau), share);
            FOURS
            for (int r = j + lane; r < height && c > j; r += 32) z[r] = less(z[r], share, r == j ? made(1) : v[r]);
        }
        BARRIER();
        if (me < a.columns) {
            S all = ZERO;
            for (int l = me; l < j; l++) all = product_of(all, t[me][l], shares[l]);
            t[me][j] = me < j ? scaled(times_of(h.tau, all), -1) : me == j ? h.tau : made(0);
        }
    }
    BARRIER();
    S *to = (S *)a.t + ((int64_t)blockIdx.x * a.k + a.first) * 2 * PANEL;
    for (int i = me; i < a.columns * PANEL; i += threads) {
        int r = i / PANEL, c = i % PANEL;
        if (c >= a.columns)
            continue;
        to[r * PANEL + c] = t[r][c];
        to[(a.columns + r) * PANEL + c] = conj_of(t[c][r]);
        if (r <= c) {
            y[(a.first + r) * a.row + a.first + c] = r == c ? made(betas[c]) : x[c * ld + r];
            x[c * ld + r] = made(r == c ? 1 : 0);
        }
    }
}

/* ---- what the exchanges come to */

FN void order_rows(const struct pivots_call *a, int32_t *order, const int32_t *swaps)
{
    SHARED int32_t some[PANEL_ALONG];
    int me = (int)threadIdx.x;
    int64_t matrix = blockIdx.x;
    uint32_t *exchanged = (uint32_t *)a->y[1] + matrix * a->k, *places = (uint32_t *)a->y[2] + matrix * a->m;
    for (int r = me; r < a->m; r += PANEL_ALONG) order[r] = r;
    for (int first = 0; first < a->k; first += PANEL_ALONG) {
        int n = a->k - first < PANEL_ALONG ? a->k - first : PANEL_ALONG;
        BARRIER();
        if (me < n) {
            some[me] = swaps[first + me] - a->from;
            exchanged[first + me] = (uint32_t)some[me];
        }
        BARRIER();
        for (int i = 0; i < n && me == 0; i++) {
            int32_t row = order[first + i];
            order[first + i] = order[some[i]];
            order[some[i]] = row;
        }
    }
    BARRIER();
    for (int r = me; r < a->m; r += PANEL_ALONG) places[order[r]] = (uint32_t)r;
}

FN void multiply_diagonal(const struct pivots_call *a, const int32_t *swaps)
{
    SHARED S products[PANEL_ALONG];
    SHARED double sums[PANEL_ALONG];
    const S *x = (const S *)a->x + (int64_t)blockIdx.x * a->matrix;
    int me = (int)threadIdx.x;
    S all = made(1);
    double sum = 0;
    for (int r = me; r < a->k; r += PANEL_ALONG) {
        S d = x[r * (a->row + 1)];
        d = swaps[r] - a->from == r ? d : scaled(d, -1);
        if (a->makes == LINALG_SLOGDET) {
            double size = modulus(d);
            d = size == 0 ? made(0) : size == size ? over(d, size) : made(NAN);
            sum += m_log_f64(size);
        }
        all = times_of(all, d);
    }
    products[me] = all;
    sums[me] = sum;
    BARRIER();
    for (int i = 1; i < PANEL_ALONG && me == 0; i++) {
        all = times_of(all, products[i]);
        sum += sums[i];
    }
    if (me == 0) {
        ((S *)a->y[0])[blockIdx.x] = all;
        if (a->makes == LINALG_SLOGDET)
            ((R *)a->y[1])[blockIdx.x] = (R)sum;
    }
}

KERNEL(K(cu_pivots), struct pivots_call)
{
    SHARED int32_t here[PANEL_ORDER];
    const int32_t *swaps = a.swaps + (int64_t)blockIdx.x * a.k;
    if (a.makes == LINALG_FACTORS)
        order_rows(&a, a.order ? a.order + (int64_t)blockIdx.x * a.m : here, swaps);
    else
        multiply_diagonal(&a, swaps);
}
