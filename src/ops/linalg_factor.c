/* linalg_factor.c: Cholesky, QR and LU factorizations.
 *
 * Their derivatives come from one idea: write the change of the product in the basis of the
 * factors, and split it into the parts that the factors' shapes allow.  For A = L L^H that is
 *     L^-1 dA L^-H = (L^-1 dL) + (L^-1 dL)^H,
 * whose lower half, the diagonal halved, is L^-1 dL. */
#include "ops/linalg.h"
#include "ops/rules.h"

static const struct field part_args_fields[] = { ENUM(part_args, part, PART_UPPER), { 0 } };

static enum matrix_part factor_triangle(const struct call *c) { return ((const struct part_args *)c->args)->part; }

/* x in a triangle, half of its diagonal. */
static mx halved(mx x, enum matrix_part part)
{
    mx half = mx_multiply(mx_diagonal(x, 0, -2, -1), mx_scalar_like(0.5, x));
    return mx_subtract(linalg_part(x, part), linalg_diagonal(half));
}

/* X = A^-1 B, and B A^-1 from that of the adjoints. */
static mx left_solve(mx a, mx b, bool upper) { return mx_solve_triangular(a, b, upper); }
static mx right_solve(mx b, mx a, bool upper)
{
    return linalg_adjoint(left_solve(linalg_adjoint(a), linalg_adjoint(b), !upper));
}

/* ---- Cholesky: A = L L^H, or U^H U with U = L^H; one triangle of A is read */

static int factor_shapes(const struct call *c, struct spec out[])
{
    return !linalg_square_in(c, c->x[0]) || spec_like(out, c->x[0]);
}

static mx lower_factor(mx y, enum matrix_part part) { return part == PART_UPPER ? linalg_adjoint(y) : y; }

static void cholesky_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    enum matrix_part part = factor_triangle(c);
    mx l = lower_factor(c->y[0], part), g = lower_factor(ct[0], part);
    mx inside = halved(mx_matmul(linalg_adjoint(l), linalg_part(g, PART_LOWER)), PART_LOWER);
    mx s = right_solve(left_solve(linalg_adjoint(l), inside, true), l, false);
    s = mx_multiply(mx_add(s, linalg_adjoint(s)), mx_scalar_like(0.5, s));
    dx[0] = linalg_hermitian_adjoint(s, part);
}

static void cholesky_jvp(const struct call *c, const mx t[], mx dy[])
{
    enum matrix_part part = factor_triangle(c);
    mx l = lower_factor(c->y[0], part), d = linalg_hermitian(t[0], part);
    mx inside = right_solve(left_solve(l, d, false), linalg_adjoint(l), true);
    dy[0] = lower_factor(mx_matmul(l, halved(inside, PART_LOWER)), part);
}

const struct op op_cholesky = {
    OP_ROW(cholesky),    ARGS(part_args),     .shapes = factor_shapes,
    .vjp = cholesky_vjp, .jvp = cholesky_jvp, .vmap = linalg_vmap,
};

mx mx_cholesky(mx x, bool upper)
{
    if (!linalg_square("linalg.cholesky", &x))
        return MX_NIL;
    return mx_infer(&op_cholesky, &(struct part_args){ .part = upper ? PART_UPPER : PART_LOWER }, 1, &x);
}

/* ---- QR: A = Q R with Q (m, k), R (k, n), k the smaller of m and n.
 *
 * If m >= n and R is invertible, dA R^-1 = dQ + Q (dR R^-1): Q^H dQ is skew and dR R^-1 is upper,
 * which tells them apart.  If m < n the first m columns settle Q, and R2 = Q^H A2 the others. */

static int qr_shapes(const struct call *c, struct spec out[])
{
    mx x = c->x[0];
    int m = dim(x, -2), n = dim(x, -1), k = m < n ? m : n;
    linalg_spec(&out[0], x->dtype, x, 2, (int[]){ m, k });
    return linalg_spec(&out[1], x->dtype, x, 2, (int[]){ k, n });
}

static mx columns(mx x, int from, int to) { return linalg_block(x, 0, dim(x, -2), from, to); }

/* The cotangent of A for m >= n; those of Q and R may be NULL. */
static mx qr_pull(mx q, mx r, mx gq, mx gr)
{
    mx m = gr ? mx_matmul(r, linalg_adjoint(mx_triu(gr, 0))) : NULL;
    if (gq)
        m = linalg_sum(m, mx_negative(mx_matmul(linalg_adjoint(gq), q)));
    mx sum = linalg_sum(gq, mx_matmul(q, linalg_hermitian(m, PART_LOWER)));
    return right_solve(sum, linalg_adjoint(r), false);
}

static void qr_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    mx a = linalg_sized(c->x[0]), q = c->y[0], r = c->y[1], gq = ct[0], gr = ct[1];
    int m = dim(a, -2), n = dim(a, -1);
    if (m >= n) {
        dx[0] = linalg_sized(qr_pull(q, r, gq, gr));
        return;
    }
    mx other = NULL;
    if (gr) {
        mx g2 = columns(gr, m, n);
        gq = linalg_sum(gq, mx_matmul(columns(a, m, n), linalg_adjoint(g2)));
        other = mx_matmul(q, g2);
        gr = columns(gr, 0, m);
    }
    mx first = qr_pull(q, columns(r, 0, m), gq, gr);
    mx both[2] = { first, other ? other : zeros_of(columns(a, m, n)) };
    dx[0] = mx_concatenate(2, both, -1);
}

static void qr_push(mx q, mx r, mx t, mx *dq, mx *dr)
{
    mx x = right_solve(t, r, true), s = mx_matmul(linalg_adjoint(q), x);
    mx low = mx_tril(s, -1), skew = mx_subtract(low, linalg_adjoint(low));
    if (dtype_is_complex(s->dtype)) {
        mx d = mx_diagonal(s, 0, -2, -1);
        mx turn = mx_subtract(d, mx_astype(mx_real(d), s->dtype));
        skew = mx_add(skew, linalg_diagonal(turn));
    }
    mx upper = mx_subtract(s, skew);
    *dq = mx_subtract(x, mx_matmul(q, upper));
    *dr = mx_triu(mx_matmul(upper, r), 0);
}

static void qr_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx a = linalg_sized(c->x[0]), q = c->y[0], r = c->y[1];
    int m = dim(a, -2), n = dim(a, -1);
    if (m >= n) {
        qr_push(q, r, linalg_sized(t[0]), &dy[0], &dy[1]);
        return;
    }
    mx both[2];
    qr_push(q, columns(r, 0, m), columns(t[0], 0, m), &dy[0], &both[0]);
    both[1] =
        mx_add(mx_matmul(linalg_adjoint(dy[0]), columns(a, m, n)), mx_matmul(linalg_adjoint(q), columns(t[0], m, n)));
    dy[1] = mx_concatenate(2, both, -1);
}

const struct op op_qr = {
    OP_ROW(qr), .shapes = qr_shapes, .vjp = qr_vjp, .jvp = qr_jvp, .vmap = linalg_vmap,
};

void mx_qr(mx x, mx out[2])
{
    out[0] = out[1] = MX_NIL;
    if (linalg_matrix("linalg.qr", &x))
        mx_infer_n(&op_qr, NULL, 1, &x, 2, out);
}

/* ---- LU: the rows of A in another order are L U, both kept in one matrix (L has ones on its
 * diagonal); then the exchanges that gave the order, and for each row of A its row of L.
 *
 * With both made square by parts of the identity, L^-1 dA U^-1 = (L^-1 dL) + (dU U^-1), where the
 * first is strictly lower and the second upper. */

static int lu_shapes(const struct call *c, struct spec out[])
{
    mx x = c->x[0];
    int m = dim(x, -2), n = dim(x, -1), k = m < n ? m : n;
    spec_like(&out[0], x);
    linalg_spec(&out[1], DT_uint32, x, 1, &k);
    return linalg_spec(&out[2], DT_uint32, x, 1, &m);
}

/* The corner of an identity that a factor of size k lacks of size n, with zeros before it. */
static mx block_corner(mx like, int k, int n)
{
    mx d = mx_astype(mx_greater_equal(mx_arange(0, n, 1, DT_int32), array_of_int(k, DT_int32)), like->dtype);
    return linalg_diagonal(d);
}

/* x with rows or columns of zeros up to n by n. */
static mx squared(mx x, int n)
{
    int more[2] = { n - dim(x, -2), n - dim(x, -1) };
    if (more[0] == 0 && more[1] == 0)
        return x;
    return mx_pad(x, (int[]){ -2, -1 }, 2, (int[]){ 0, 0 }, more, mx_scalar_like(0, x), PAD_CONSTANT);
}

static void square_factors(mx lu, mx *l, mx *u)
{
    int m = dim(lu, -2), n = dim(lu, -1), k = m < n ? m : n;
    lu = linalg_sized(lu);
    *l = mx_add(mx_tril(squared(linalg_block(lu, 0, m, 0, k), m), -1), mx_eye(m, m, 0, lu->dtype));
    *u = mx_add(mx_triu(squared(linalg_block(lu, 0, k, 0, n), n), 0), block_corner(lu, k, n));
}

/* Rows of x by an array of row numbers for each matrix. */
static mx permuted(mx x, mx rows)
{
    mx i = mx_expand_dims(rows, (int[]){ -1 }, 1);
    if (is_nil(i) || is_nil(x))
        return MX_NIL;
    return mx_take_along_axis(x, mx_broadcast_like(i, x), -2);
}

static void lu_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    mx l, u;
    if (!ct[0])
        return;
    square_factors(c->y[0], &l, &u);
    mx lh = linalg_adjoint(l), uh = linalg_adjoint(u);
    mx low = mx_tril(mx_matmul(lh, mx_tril(ct[0], -1)), -1);
    mx up = mx_triu(mx_matmul(mx_triu(ct[0], 0), uh), 0);
    mx d = right_solve(left_solve(lh, mx_add(low, up), true), uh, false);
    dx[0] = permuted(d, c->y[2]);
}

static void lu_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx l, u;
    square_factors(c->y[0], &l, &u);
    mx d = permuted(t[0], mx_argsort(c->y[2], -1)); /* the order of rows whose inverse that is */
    mx inside = right_solve(left_solve(l, d, false), u, true);
    dy[0] = mx_add(mx_matmul(l, mx_tril(inside, -1)), mx_matmul(mx_triu(inside, 0), u));
}

static bool lu_fits(const struct call *c) { return call_has(c, 1, 3) && linalg_fits(c); }

const struct op op_lu = {
    OP_ROW(lu), .shapes = lu_shapes, .vjp = lu_vjp, .jvp = lu_jvp, .vmap = linalg_vmap, .fits = lu_fits,
};

static bool factor(const char *name, mx x, mx out[3])
{
    if (linalg_matrix(name, &x))
        mx_infer_n(&op_lu, NULL, 1, &x, 3, out);
    else
        out[0] = out[1] = out[2] = MX_NIL;
    return !is_nil(out[0]);
}

void mx_lu_factor(mx x, mx out[2])
{
    mx y[3];
    factor("linalg.lu_factor", x, y);
    out[0] = y[0];
    out[1] = y[1];
}

void mx_lu(mx x, mx out[3])
{
    mx y[3];
    out[0] = out[1] = out[2] = MX_NIL;
    if (!is_nil(x) && x->ndim >= 2)
        x = linalg_sized(x);
    if (!factor("linalg.lu", x, y))
        return;
    int m = dim(x, -2), n = dim(x, -1), k = m < n ? m : n;
    mx ones = mx_eye(m, k, 0, y[0]->dtype);
    out[0] = y[2];
    out[1] = mx_add(mx_tril(linalg_block(y[0], 0, m, 0, k), -1), ones);
    out[2] = mx_triu(linalg_block(y[0], 0, k, 0, n), 0);
}
