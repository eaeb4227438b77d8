/* orthogonal.cu: factors with orthogonal columns of small matrices of a batch, in shared memory, by columns: cu_qr_f32,
 * cu_svd_f32, cu_eigh_f32.  The build compiles it for each type.
 *
 * QR is Householder's, as LAPACK has it.  Singular values are those of columns that rotations of pairs have made
 * orthogonal, eigenvalues the diagonal that rotations have left (Jacobi); of n columns n / 2 pairs are rotated at once,
 * and n - 1 such steps meet all pairs.  All threads of a block do the same steps, so that its barriers and shuffles are
 * theirs; a team without a matrix has zeros. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/linalg.h"
#include "cuda/kernels/linalg_numbers.h"
#include "cuda/kernels/orthogonal.h"

/* Where a thread works. */
struct at {
    S *w, *v;       /* its matrix and the rotations, by columns */
    int64_t matrix; /* its number in the batch */
    int slot;       /* and in the block */
    int there;
    int me, team, group, lane;
};
FN struct at at_of(const struct orthogonal_call *a, S *shared, int n)
{
    struct at p;
    p.team = a->lanes * a->groups;
    p.slot = (int)threadIdx.x / p.team;
    p.me = (int)threadIdx.x % p.team;
    p.group = p.me / a->lanes;
    p.lane = p.me % a->lanes;
    p.matrix = (int64_t)blockIdx.x * a->width + p.slot;
    p.there = p.matrix < a->count;
    p.w = shared + p.slot * a->each;
    p.v = a->v ? (S *)a->v + (p.there ? p.matrix : 0) * n * a->v_pitch : p.w + a->columns * a->pitch;
    return p;
}
#define ALL(i, n) for (int i = p.me; i < (n); i += p.team)
#define LANES_OF(r, from, to) for (int r = (from) + p.lane; r < (to); r += a->lanes)

/* What the lanes of a group have together. */
FN R sum_of(const struct orthogonal_call *a, R x)
{
    for (int bit = 1; bit < a->lanes; bit *= 2) x += SHUFFLE_XOR(x, bit);
    return x;
}
#ifdef COMPLEX
FN S sum_of_all(const struct orthogonal_call *a, S x)
{
    x.re = sum_of(a, x.re);
    x.im = sum_of(a, x.im);
    return x;
}
#else
FN S sum_of_all(const struct orthogonal_call *a, S x) { return sum_of(a, x); }
#endif
FN R most_of(const struct orthogonal_call *a, R x)
{
    for (int bit = 1; bit < a->lanes; bit *= 2) {
        R other = SHUFFLE_XOR(x, bit);
        x = larger_of(x, other);
    }
    return x;
}

FN const S *matrix_of(const struct orthogonal_call *a, struct at p)
{
    return (const S *)a->a + (p.there ? p.matrix : 0) * a->m * a->n;
}

/* ---- QR */

/* The reflection of column j, from row j on. */
FN struct reflection reflection_of(const struct orthogonal_call *a, struct at p, int j)
{
    const S *x = p.w + j * a->pitch;
    R most = 0, sum = 0;
    LANES_OF(r, j + 1, a->m) { most = larger_of(most, largest_of(x[r])); }
    most = most_of(a, most);
    R scale = reflection_scale(x[j], most);
    LANES_OF(r, j + 1, a->m) { sum = plus_square(sum, scaled(x[r], scale)); }
    return reflection_with(x[j], most, scale, sum_of(a, sum));
}

/* Columns from `first` to n less f (1, v) (1, v)^H of them, v below row j of column j. */
FN void reflect(const struct orthogonal_call *a, struct at p, int j, S f, int first, int n)
{
    const S *v = p.w + j * a->pitch;
    for (int c0 = first; c0 < n; c0 += a->groups) {
        int c = c0 + p.group, rows = c < n ? a->m : 0;
        S *x = p.w + c * a->pitch, sum = ZERO;
        LANES_OF(r, j, rows) { sum = product_of(sum, r == j ? made(1) : conj_of(v[r]), x[r]); }
        sum = times_of(f, sum_of_all(a, sum));
        LANES_OF(r, j, rows) { x[r] = less(x[r], sum, r == j ? made(1) : v[r]); }
    }
}

FN void qr_in(const struct orthogonal_call *a, S *shared)
{
    SHARED S taus[ORTHOGONAL_LINES];
    struct at p = at_of(a, shared, a->n);
    int m = a->m, n = a->n, k = m < n ? m : n, ld = a->pitch;
    S *tau = taus + p.slot * k, *w = p.w;
    const S *from = matrix_of(a, p);
    ALL(i, m * n) { w[i % n * ld + i / n] = p.there ? from[i] : made(0); }
    for (int j = 0; j < k; j++) {
        BARRIER();
        struct reflection h = reflection_of(a, p, j);
        BARRIER();
        for (int r = j + p.me; r < m; r += p.team)
            w[j * ld + r] = r == j ? made(h.beta) : times_of(scaled(w[j * ld + r], h.scale), h.inverse);
        if (p.me == 0)
            tau[j] = h.tau;
        BARRIER();
        reflect(a, p, j, conj_of(h.tau), j + 1, n);
    }
    BARRIER();
    S *r = (S *)a->y[1] + p.matrix * k * n, *q = (S *)a->y[0] + p.matrix * m * k;
    if (p.there)
        ALL(i, k * n)
        {
            int row = i / n, c = i % n;
            r[i] = row <= c ? w[c * ld + row] : made(0);
        }
    for (int j = k; j-- > 0;) {
        BARRIER();
        reflect(a, p, j, tau[j], j + 1, k);
        BARRIER();
        ALL(row, m)
        {
            S *x = w + j * ld + row;
            *x = row < j ? made(0) : row == j ? less(made(1), made(1), tau[j]) : scaled(times_of(*x, tau[j]), -1);
        }
    }
    BARRIER();
    if (p.there)
        ALL(i, m * k) { q[i] = w[i % k * ld + i / k]; }
}

/* ---- rotations */

/* The pair of columns that group g rotates in a step; those of an odd number have one that is not there. */
struct columns {
    int i, j;
};
FN struct columns paired(int step, int g, int even)
{
    struct columns q = { step + g, step - g };
    q.i -= q.i >= even - 1 ? even - 1 : 0;
    q.j += q.j < 0 ? even - 1 : 0;
    if (g == 0)
        q.i = even - 1;
    int i = q.i < q.j ? q.i : q.j;
    q.j = q.i < q.j ? q.j : q.i;
    q.i = i;
    return q;
}

/* That makes of columns x, y, whose products are aa, bb and ab, c x - conj(s) y and s x + c y, which are orthogonal.
 * Kept is 1 - c, so that lengths do not drift when many small rotations follow one another. */
struct rotation {
    R less;
    S s;
    R t; /* s / c but for its phase */
};
FN struct rotation rotation_of(R aa, R bb, S ab, R size)
{
    const R far = two_to(PASTE(DIGITS_OF, REAL) + 4);
    struct rotation q;
    R tau = (bb - aa) / (2 * size), most = tau < 0 ? -tau : tau;
    q.t = most > far ? 1 / (2 * most) : 1 / (most + root_of(1 + tau * tau));
    q.t = tau < 0 ? -q.t : q.t;
    R c = 1 / root_of(1 + q.t * q.t), s = q.t * c;
    q.less = s * s / (1 + c);
    q.s = scaled(scaled(ab, 1 / size), s);
    return q;
}
FN void rotate(struct rotation q, S *x, S *y)
{
    S first = less(less(*x, conj_of(q.s), *y), made(q.less), *x);
    *y = less(product_of(*y, q.s, *x), made(q.less), *y);
    *x = first;
}

/* The largest element is moved to 2^SCALED, so that no square overflows; columns of a length below NOTHING, which loses
 * bits of its square, are none. */
enum { SCALED = 20 };
#define NOTHING (R)0x1p-50

/* Columns of the matrix, or of its adjoint, moved so; the exponent, or 1 << 20 where something is not finite. */
enum { NOT_FINITE = 1 << 20 };
FN int read_columns(const struct orthogonal_call *a, struct at p, R *sizes)
{
    const S *from = matrix_of(a, p);
    int m = a->m, n = a->n, ld = a->pitch, columns = a->turned ? m : n;
    ALL(i, m * n)
    {
        int r = i / n, c = i % n;
        S v = made(0);
        if (p.there && (a->part == LINALG_ALL || (a->part == LINALG_LOWER ? c <= r : c >= r)))
            v = from[i];
        if (a->part != LINALG_ALL && r == c)
            v = made(real_of(v));
        if (a->part == LINALG_ALL || (a->part == LINALG_LOWER ? c <= r : c >= r)) {
            if (a->turned || (a->part != LINALG_ALL && r != c))
                p.w[r * ld + c] = conj_of(v);
            if (!a->turned)
                p.w[c * ld + r] = v;
        }
    }
    BARRIER();
    for (int c0 = 0; c0 < columns; c0 += a->groups) {
        int c = c0 + p.group;
        R most = 0;
        LANES_OF(r, 0, c < columns ? m + n - columns : 0) { most = larger_of(most, largest_of(p.w[c * ld + r])); }
        most = most_of(a, most);
        if (c < columns && p.lane == 0)
            sizes[c] = most;
    }
    BARRIER();
    R most = 0;
    for (int c = 0; c < columns; c++) most = larger_of(most, sizes[c]);
    BARRIER();
    if (!(most - most == 0))
        return NOT_FINITE;
    if (most == 0)
        return 0;
    int e = SCALED - exponent_of(most), half = e / 2;
    for (int c = 0; c < columns; c++) ALL(r, m + n - columns)
        {
            p.w[c * ld + r] = scaled(scaled(p.w[c * ld + r], two_to(half)), two_to(e - half));
        }
    return e;
}
FN R moved(R x, int e) { return x * two_to(e / 2) * two_to(e - e / 2); }

FN void identity(const struct orthogonal_call *a, struct at p, int n)
{
    for (int c = 0; c < n; c++) ALL(r, n)
        {
            p.v[c * a->v_pitch + r] = made(r == c ? 1 : 0);
        }
}

/* order[i]: which of n values is the i-th. */
FN void put_in_order(struct at p, const R *value, int n, int descending, int *order)
{
    ALL(c, n)
    {
        int before = 0;
        for (int o = 0; o < n; o++)
            before += (descending ? value[o] > value[c] : value[o] < value[c]) || (value[o] == value[c] && o < c);
        order[before] = c;
    }
    BARRIER();
}

/* The columns x in their order, or their adjoint, as a row-major matrix; those from n on follow. */
FN void write_columns(struct at p, void *y, const S *x, int ld, int rows, int columns, int n, const int *order,
                      int adjoint, int nan)
{
    S *to = (S *)y + p.matrix * rows * columns;
    if (p.there)
        ALL(i, rows * columns)
        {
            int r = adjoint ? i % rows : i / columns, c = adjoint ? i / rows : i % columns;
            S v = x[(c < n ? order[c] : c) * ld + r];
            to[i] = nan ? made(NAN) : adjoint ? conj_of(v) : v;
        }
}

/* ---- singular values */

/* Rotates the columns until they are orthogonal. */
FN void make_orthogonal(const struct orthogonal_call *a, struct at p, int rows, int n)
{
    SHARED int rotated[2];
    int even = n + (n & 1), ld = a->pitch;
    R least = two_to(-PASTE(DIGITS_OF, REAL)) * root_of((R)rows);
    for (int sweep = 0; sweep < ORTHOGONAL_SWEEPS && n > 1; sweep++) {
        int some = 0;
        if (threadIdx.x == 0)
            rotated[sweep & 1] = 0;
        for (int step = 0; step < even - 1; step++) {
            struct columns q = paired(step, p.group, even);
            int there = p.group < even / 2 && q.j < n;
            S *x = p.w + (there ? q.i : 0) * ld, *y = p.w + (there ? q.j : 0) * ld, ab = ZERO;
            R aa = 0, bb = 0;
            BARRIER();
            LANES_OF(r, 0, there ? rows : 0)
            {
                aa = plus_square(aa, x[r]);
                bb = plus_square(bb, y[r]);
                ab = product_of(ab, conj_of(x[r]), y[r]);
            }
            aa = sum_of(a, aa);
            bb = sum_of(a, bb);
            ab = sum_of_all(a, ab);
            R size = (R)modulus(ab);
            if (!(size > least * root_of(aa) * root_of(bb)) || aa < NOTHING * NOTHING || bb < NOTHING * NOTHING)
                continue;
            struct rotation by = rotation_of(aa, bb, ab, size);
            some = 1;
            LANES_OF(r, 0, rows) { rotate(by, x + r, y + r); }
            if (a->makes != ORTHOGONAL_VALUES)
                LANES_OF(r, 0, n) { rotate(by, p.v + q.i * a->v_pitch + r, p.v + q.j * a->v_pitch + r); }
        }
        if (some)
            rotated[sweep & 1] = 1;
        BARRIER();
        if (!rotated[sweep & 1])
            break;
    }
    BARRIER();
}

/* Unit columns where the matrix has none: each from the unit vector that the others are farthest from. */
FN void complete(const struct orthogonal_call *a, struct at p, int rows, int columns, char *known)
{
    SHARED R covers[ORTHOGONAL_LINES];
    SHARED S shares[ORTHOGONAL_LINES];
    R *cover = covers + p.slot * rows;
    S *share = shares + p.slot * columns;
    int ld = a->pitch;
    for (int j = 0; j < columns; j++) {
        S *x = p.w + j * ld;
        int missing = !known[j], best = 0;
        BARRIER();
        ALL(r, missing ? rows : 0)
        {
            R sum = 0;
            for (int c = 0; c < columns; c++) sum += known[c] ? square_of(p.w[c * ld + r]) : 0;
            cover[r] = sum;
        }
        BARRIER();
        for (int r = 1; r < rows && missing; r++) best = cover[r] < cover[best] ? r : best;
        ALL(r, missing ? rows : 0) { x[r] = made(r == best ? 1 : 0); }
        for (int twice = 0; twice < 2; twice++) {
            BARRIER();
            ALL(c, missing ? columns : 0)
            {
                S sum = ZERO;
                for (int r = 0; r < rows && known[c]; r++) sum = product_of(sum, conj_of(p.w[c * ld + r]), x[r]);
                share[c] = sum;
            }
            BARRIER();
            ALL(r, missing ? rows : 0)
            {
                for (int c = 0; c < columns; c++)
                    if (known[c])
                        x[r] = less(x[r], share[c], p.w[c * ld + r]);
            }
        }
        BARRIER();
        R sum = 0;
        for (int r = 0; r < rows && missing; r++) sum = plus_square(sum, x[r]);
        BARRIER();
        ALL(r, missing ? rows : 0) { x[r] = scaled(x[r], 1 / root_of(sum)); }
        if (missing && p.me == 0)
            known[j] = 1;
    }
    BARRIER();
}

/* The pseudo-inverse, of unit columns: values that are next to nothing beside `most` are left out. */
FN void write_inverse(const struct orthogonal_call *a, struct at p, const R *value, R most, int n, int e)
{
    R least = two_to(-PASTE(DIGITS_OF, REAL)) * (R)(a->m > a->n ? a->m : a->n) * most;
    const S *x = a->turned ? p.w : p.v, *y = a->turned ? p.v : p.w;
    int x_ld = a->turned ? a->pitch : a->v_pitch, y_ld = a->turned ? a->v_pitch : a->pitch;
    S *to = (S *)a->y[0] + p.matrix * a->m * a->n;
    if (p.there)
        ALL(i, a->m * a->n)
        {
            int r = i / a->m, c = i % a->m;
            S sum = ZERO;
            for (int k = 0; k < n; k++)
                if (value[k] > least)
                    sum = product_of(sum, scaled(x[k * x_ld + r], 1 / value[k]), conj_of(y[k * y_ld + c]));
            R by = moved(1, e / 2);
            to[i] = e == NOT_FINITE ? made(NAN) : scaled(scaled(sum, by), moved(1, e - e / 2));
        }
}

FN void svd_in(const struct orthogonal_call *a, S *shared)
{
    SHARED R values[ORTHOGONAL_LINES];
    SHARED int orders[ORTHOGONAL_LINES], some_missing;
    SHARED char all_known[ORTHOGONAL_LINES];
    int rows = a->turned ? a->n : a->m, n = a->turned ? a->m : a->n, ld = a->pitch, columns = a->columns;
    struct at p = at_of(a, shared, n);
    R *value = values + p.slot * n;
    int *order = orders + p.slot * n;
    char *known = all_known + p.slot * columns;
    int e = read_columns(a, p, value), nan = e == NOT_FINITE, vectors = a->makes != ORTHOGONAL_VALUES;
    if (vectors)
        identity(a, p, n);
    if (nan) /* let others go on */
        for (int c = 0; c < n; c++) ALL(r, rows)
            {
                p.w[c * ld + r] = made(0);
            }
    if (threadIdx.x == 0)
        some_missing = 0;
    BARRIER();
    make_orthogonal(a, p, rows, n);
    for (int c0 = 0; c0 < n; c0 += a->groups) {
        int c = c0 + p.group;
        R sum = 0;
        LANES_OF(r, 0, c < n ? rows : 0) { sum = plus_square(sum, p.w[c * ld + r]); }
        sum = sum_of(a, sum);
        if (c < n && p.lane == 0)
            value[c] = root_of(sum);
    }
    BARRIER();
    put_in_order(p, value, n, 1, order);
    R *s = (R *)a->y[vectors] + p.matrix * n;
    if (p.there && a->makes != ORTHOGONAL_INVERSE)
        ALL(c, n) { s[c] = nan ? (R)NAN : moved(value[order[c]], -e); }
    if (!vectors)
        return;
    for (int c = 0; c < n; c++) ALL(r, value[c] > NOTHING ? rows : 0)
        {
            p.w[c * ld + r] = scaled(p.w[c * ld + r], 1 / value[c]);
        }
    ALL(c, columns)
    {
        known[c] = c < n && value[c] > NOTHING;
        if (!known[c] && !nan && p.there)
            some_missing = 1;
    }
    BARRIER();
    if (a->makes == ORTHOGONAL_INVERSE) {
        write_inverse(a, p, value, value[order[0]], n, e);
        return;
    }
    if (some_missing)
        complete(a, p, rows, columns, known);
    write_columns(p, a->y[a->turned ? 2 : 0], p.w, ld, rows, columns, n, order, a->turned, nan);
    write_columns(p, a->y[a->turned ? 0 : 2], p.v, a->v_pitch, n, n, n, order, !a->turned, nan);
}

/* ---- eigenvalues */

FN void make_diagonal(const struct orthogonal_call *a, struct at p, R *shorter, S *sines, R *change)
{
    SHARED int rotated[2];
    int n = a->n, even = n + (n & 1), pairs = even / 2, ld = a->pitch;
    int column = p.me % a->across, row = p.me / a->across, down = p.team / a->across;
    R least = two_to(SCALED - 3 - PASTE(DIGITS_OF, REAL));
    for (int sweep = 0; sweep < ORTHOGONAL_SWEEPS && n > 1; sweep++) {
        int some = 0;
        if (threadIdx.x == 0)
            rotated[sweep & 1] = 0;
        for (int step = 0; step < even - 1; step++) {
            BARRIER();
            ALL(g, pairs)
            {
                struct columns q = paired(step, g, even);
                struct rotation by = { 0, ZERO, 0 };
                change[g] = 0;
                if (q.j < n) {
                    S ab = p.w[q.j * ld + q.i];
                    R size = (R)modulus(ab);
                    if (size > least) {
                        some = 1;
                        by = rotation_of(real_of(p.w[q.i * ld + q.i]), real_of(p.w[q.j * ld + q.j]), ab, size);
                        change[g] = by.t * size;
                    }
                }
                shorter[g] = by.less;
                sines[g] = by.s;
            }
            BARRIER();
            for (int g = row; g < pairs; g += down) {
                struct columns lines = paired(step, g, even);
                struct rotation left = { shorter[g], conj_of(sines[g]), 0 };
                for (int h = column; h < pairs; h += a->across) {
                    struct columns beside = paired(step, h, even);
                    struct rotation right = { shorter[h], sines[h], 0 };
                    S *x = p.w + beside.i * ld, *y = p.w + beside.j * ld;
                    S ii = x[lines.i], ji = ZERO, ij = ZERO, jj = ZERO;
                    int two = lines.j < n, wide = beside.j < n;
                    if (is_zero(left.s) && is_zero(right.s))
                        continue;
                    if (two)
                        ji = x[lines.j];
                    if (wide)
                        ij = y[lines.i];
                    if (two && wide)
                        jj = y[lines.j];
                    if (g == h) {
                        ii = made(real_of(ii) - change[g]);
                        jj = made(real_of(jj) + change[g]);
                        if (!is_zero(left.s))
                            ij = ji = made(0);
                    } else {
                        rotate(right, &ii, &ij);
                        rotate(right, &ji, &jj);
                        rotate(left, &ii, &ji);
                        rotate(left, &ij, &jj);
                    }
                    x[lines.i] = ii;
                    if (two)
                        x[lines.j] = ji;
                    if (wide)
                        y[lines.i] = ij;
                    if (two && wide)
                        y[lines.j] = jj;
                }
            }
            if (a->makes != ORTHOGONAL_VALUES)
                for (int g = p.group; g < pairs; g += a->groups) {
                    struct columns q = paired(step, g, even);
                    struct rotation by = { shorter[g], sines[g], 0 };
                    if (!is_zero(by.s))
                        LANES_OF(r, 0, n) { rotate(by, p.v + q.i * a->v_pitch + r, p.v + q.j * a->v_pitch + r); }
                }
        }
        if (some)
            rotated[sweep & 1] = 1;
        BARRIER();
        if (!rotated[sweep & 1])
            break;
    }
    BARRIER();
}

FN void eigh_in(const struct orthogonal_call *a, S *shared)
{
    SHARED R values[ORTHOGONAL_LINES], all_shorter[ORTHOGONAL_LINES], changes[ORTHOGONAL_LINES];
    SHARED S all_sines[ORTHOGONAL_LINES];
    SHARED int orders[ORTHOGONAL_LINES];
    int n = a->n, vectors = a->makes != ORTHOGONAL_VALUES;
    struct at p = at_of(a, shared, n);
    R *value = values + p.slot * n;
    int *order = orders + p.slot * n;
    int e = read_columns(a, p, value), nan = e == NOT_FINITE;
    if (vectors)
        identity(a, p, n);
    if (nan)
        for (int c = 0; c < n; c++) ALL(r, n)
            {
                p.w[c * a->pitch + r] = made(0);
            }
    make_diagonal(a, p, all_shorter + p.slot * n, all_sines + p.slot * n, changes + p.slot * n);
    ALL(c, n) { value[c] = real_of(p.w[c * a->pitch + c]); }
    BARRIER();
    put_in_order(p, value, n, 0, order);
    R *s = (R *)a->y[0] + p.matrix * n;
    if (p.there)
        ALL(c, n) { s[c] = nan ? (R)NAN : moved(value[order[c]], -e); }
    if (vectors)
        write_columns(p, a->y[1], p.v, a->v_pitch, n, n, n, order, 0, nan);
}

#define SMALL_MATRICES(name, with)                                         \
    BOUNDED_KERNEL(K(name), struct orthogonal_call, ORTHOGONAL_THREADS, 2) \
    {                                                                      \
        SHARED_BYTES(bytes, ORTHOGONAL_BYTES);                             \
        with(&a, (S *)bytes);                                              \
    }
SMALL_MATRICES(cu_qr, qr_in)
SMALL_MATRICES(cu_svd, svd_in)
SMALL_MATRICES(cu_eigh, eigh_in)
