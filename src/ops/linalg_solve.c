/* linalg_solve.c: inverses, linear systems and determinants.
 *
 * With d for a small change and X = A^-1:
 *     dX = -X dA X        d(A^-1 b) = A^-1 (db - dA x)        d det A = tr(adj(A) dA)
 * where adj(A) exists for a singular A too.  The vjp rules are the adjoints of these. */
#include "ops/linalg.h"
#include "ops/rules.h"

static const struct field part_args_fields[] = { ENUM(part_args, part, PART_UPPER), FIELD(part_args, factor), { 0 } };

static enum matrix_part solve_triangle(const struct call *c) { return ((const struct part_args *)c->args)->part; }

static enum matrix_part flipped_part(enum matrix_part p)
{
    return p == PART_ALL ? p : p == PART_LOWER ? PART_UPPER : PART_LOWER;
}

static int system_shapes(const struct call *c, struct spec out[])
{
    return !linalg_square_in(c, c->x[0]) || spec_like(out, c->x[0]);
}

/* ---- inverse */

static mx inverse_change(mx y, mx d) { return mx_negative(linalg_times(y, d, y)); }

static void inverse_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    dx[0] = linalg_part(inverse_change(linalg_adjoint(c->y[0]), ct[0]), solve_triangle(c));
}

static void inverse_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = inverse_change(c->y[0], linalg_part(t[0], solve_triangle(c)));
}

const struct op op_inverse = {
    OP_ROW(inverse),    ARGS(part_args),    .shapes = system_shapes,
    .vjp = inverse_vjp, .jvp = inverse_jvp, .vmap = linalg_vmap,
};

static mx inverse(const char *name, mx x, enum matrix_part part, bool factor)
{
    if (!linalg_square(name, &x))
        return MX_NIL;
    return mx_infer(&op_inverse, &(struct part_args){ part, factor }, 1, &x);
}

mx mx_inv(mx x) { return inverse("linalg.inv", x, PART_ALL, false); }

mx mx_tri_inv(mx x, bool upper) { return inverse("linalg.tri_inv", x, upper ? PART_UPPER : PART_LOWER, false); }

/* A = L L^H or U^H U, so that its inverse is L^-H L^-1 or U^-1 U^-H. */
mx mx_cholesky_inv(mx x, bool upper)
{
    mx y = inverse("linalg.cholesky_inv", x, upper ? PART_UPPER : PART_LOWER, true);
    return upper ? mx_matmul(y, linalg_adjoint(y)) : mx_matmul(linalg_adjoint(y), y);
}

/* ---- linear systems: a (..., n, n) of which a part is read, b (..., n, k) */

static mx solve_part(mx a, mx b, enum matrix_part part)
{
    return part == PART_ALL ? mx_solve(a, b) : mx_solve_triangular(a, b, part == PART_UPPER);
}

static int solve_shapes(const struct call *c, struct spec out[])
{
    mx a = c->x[0], b = c->x[1];
    bool fits = a->ndim == b->ndim && dim(b, -2) == dim(a, -1);
    for (int i = 0; fits && i < a->ndim - 2; i++) fits = a->shape[i] == b->shape[i];
    if (!fits)
        return failed(mx_fail("[%s] expected as many rows on the right as the matrices have, got shapes %s and %s",
                              c->op->name, shape_of(a), shape_of(b)));
    return !linalg_square_in(c, a) || spec_like(out, b);
}

static void solve_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    enum matrix_part part = solve_triangle(c);
    mx db = solve_part(linalg_adjoint(c->x[0]), ct[0], flipped_part(part));
    if (want[0])
        dx[0] = linalg_part(mx_negative(mx_matmul(db, linalg_adjoint(c->y[0]))), part);
    if (want[1])
        dx[1] = db;
}

static void solve_jvp(const struct call *c, const mx t[], mx dy[])
{
    enum matrix_part part = solve_triangle(c);
    mx da = t[0] ? mx_negative(mx_matmul(linalg_part(t[0], part), c->y[0])) : NULL;
    dy[0] = solve_part(c->x[0], linalg_sum(t[1], da), part);
}

/* The builder broadcasts, and factors a matrix once that all of the batch share. */
static void solve_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    y[0] = solve_part(batch_first(c->x[0], axis[0]), batch_first(c->x[1], axis[1]), solve_triangle(c));
    yaxis[0] = 0;
}

static bool solve_fits(const struct call *c) { return call_has(c, 2, 1) && linalg_fits(c); }

const struct op op_solve = {
    OP_ROW(solve),    ARGS(part_args),    .shapes = solve_shapes, .vjp = solve_vjp,
    .jvp = solve_jvp, .vmap = solve_vmap, .fits = solve_fits,
};

/* One matrix for a batch of right sides: they are columns of one. */
static mx solve_columns(mx a, mx b, const struct part_args *part)
{
    mx front = mx_moveaxis(b, -2, 0);
    if (is_nil(front))
        return front;
    mx x[2] = { a, mx_flatten(front, 1, -1) };
    mx y = mx_infer(&op_solve, part, 2, x);
    return mx_moveaxis(mx_reshape_like(y, front), 0, -2);
}

static mx solve(const char *name, mx a, mx b, enum matrix_part part)
{
    if (is_nil(b) || !linalg_square(name, &a))
        return MX_NIL;
    bool vector = b->ndim == 1;
    if (vector)
        b = mx_expand_dims(b, (int[]){ 1 }, 1);
    if (b->ndim == 0 || dim(b, -2) != dim(a, -1))
        return mx_fail("[%s] expected as many rows on the right as the matrices have, got shapes "
                       "%s and %s",
                       name, shape_of(a), vector ? shape_text(1, b->shape) : shape_of(b));
    enum dtype t = promote(a->dtype, b->dtype);
    struct part_args args = { .part = part };
    mx x[2] = { mx_astype(a, t), mx_astype(b, t) }, y;
    if (is_nil(x[0]) || is_nil(x[1]))
        return MX_NIL;
    if (a->ndim == 2 && b->ndim > 2 && b->size > 0) {
        y = solve_columns(x[0], x[1], &args);
    } else {
        int n = a->ndim > b->ndim ? a->ndim : b->ndim;
        for (int i = 0; i < n - 2; i++) {
            int da = i < n - a->ndim ? 1 : a->shape[i - (n - a->ndim)],
                db = i < n - b->ndim ? 1 : b->shape[i - (n - b->ndim)];
            if (da != db && da != 1 && db != 1)
                return mx_fail("[%s] expected batch dimensions that broadcast, got shapes %s and "
                               "%s",
                               name, shape_of(a), shape_of(b));
        }
        static const int matrix[] = { -2, -1 };
        mx both[2] = { mx_broadcast_with(2, x, matrix, 2), mx_broadcast_with(2, (mx[]){ x[1], x[0] }, matrix, 2) };
        y = mx_infer(&op_solve, &args, 2, both);
    }
    return vector ? mx_squeeze(y, (int[]){ -1 }, 1) : y;
}

mx mx_solve(mx a, mx b) { return solve("linalg.solve", a, b, PART_ALL); }

mx mx_solve_triangular(mx a, mx b, bool upper)
{
    return solve("linalg.solve_triangular", a, b, upper ? PART_UPPER : PART_LOWER);
}

/* ---- determinants */

static int scalar_shapes(const struct call *c, struct spec out[])
{
    mx x = c->x[0];
    if (!linalg_square_in(c, x))
        return 1;
    linalg_spec(&out[0], x->dtype, x, 0, NULL);
    if (c->nout > 1)
        linalg_spec(&out[1], linalg_real(x->dtype), x, 0, NULL);
    return 0;
}

/* The trace of a^T b: sums over both axes of products. */
static mx inner(mx a, mx b) { return mx_sum(mx_multiply(a, b), (int[]){ -2, -1 }, 2, false); }

static mx scalar(mx x) { return mx_expand_dims(x, (int[]){ -2, -1 }, 2); }

/* The cofactors: det(A) A^-T where that exists. */
static mx cofactor(mx x) { return mx_infer(&op_cofactor, NULL, 1, &x); }

static void det_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    dx[0] = mx_multiply(scalar(ct[0]), conjugated(cofactor(c->x[0])));
}

static void det_jvp(const struct call *c, const mx t[], mx dy[]) { dy[0] = inner(cofactor(c->x[0]), t[0]); }

static bool one_fits(const struct call *c) { return call_has(c, 1, 1 + (c->op == &op_slogdet)) && linalg_fits(c); }

const struct op op_det = {
    OP_ROW(det), .shapes = scalar_shapes, .vjp = det_vjp, .jvp = det_jvp, .vmap = linalg_vmap, .fits = one_fits,
};

/* Products of all singular values but the i-th and the j-th, without dividing; 0 for i = j. */
static mx products_without_two(mx s)
{
    struct size n = size_of(s, -1);
    mx eye = mx_eye_by(n, n, 0, DT_bool_);
    mx without_i = mx_expand_dims(eye, (int[]){ 1 }, 1), without_j = mx_expand_dims(eye, (int[]){ 0 }, 1);
    mx rest = mx_where(mx_logical_or(without_i, without_j), mx_scalar_like(1, s),
                       mx_expand_dims(s, (int[]){ -2, -3 }, 2)); /* (..., i, j, m) */
    return mx_where(eye, mx_scalar_like(0, s), mx_prod(rest, (int[]){ -1 }, 1, false));
}

/* The change of the cofactors of A = U S V^H along T.  With an inverse X it is
 *     C tr(X T) - X^T T^T C;
 * put in terms of E = U^H T V the quotients of singular values cancel, and what is left,
 *     det(U V^H) conj(U) G V^T,   G_ii = sum_k P_ik E_kk,   G_ij = -P_ij E_ji,
 * with the products P above, holds for singular matrices too.  Large ones go by the inverse. */
static mx cofactor_along(mx a, mx c, mx t)
{
    enum { CUBE = 64 };
    a = linalg_sized(a);
    if (dim(a, -1) > CUBE) {
        mx x = mx_swapaxes(mx_inv(a), -1, -2);
        return mx_subtract(mx_multiply(c, scalar(inner(x, t))), linalg_times(x, mx_swapaxes(t, -1, -2), c));
    }
    mx usv[3];
    mx_svd(a, SVD_FULL, usv);
    mx u = usv[0], vh = usv[2], p = products_without_two(usv[1]);
    mx e = linalg_times(linalg_adjoint(u), t, linalg_adjoint(vh));
    mx eye = mx_eye(dim(a, -1), dim(a, -1), 0, DT_bool_), none = mx_scalar_like(0, e);
    p = mx_astype(p, e->dtype);
    mx on = mx_sum(mx_multiply(p, mx_swapaxes(mx_sum(mx_where(eye, e, none), (int[]){ -1 }, 1, true), -1, -2)),
                   (int[]){ -1 }, 1, true);
    mx g = mx_where(eye, on, mx_negative(mx_multiply(p, mx_swapaxes(e, -1, -2))));
    mx turn = mx_multiply(mx_det(u), mx_det(vh));
    return mx_multiply(scalar(turn), linalg_times(conjugated(u), g, conjugated(vh)));
}

/* The second derivative of the determinant, which this is, is symmetric. */
static void cofactor_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    dx[0] = conjugated(cofactor_along(c->x[0], c->y[0], conjugated(ct[0])));
}

static void cofactor_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = cofactor_along(c->x[0], c->y[0], t[0]);
}

const struct op op_cofactor = {
    OP_ROW(cofactor),    .shapes = system_shapes, .vjp = cofactor_vjp,
    .jvp = cofactor_jvp, .vmap = linalg_vmap,     .fits = one_fits,
};

/* d log|det A| = Re tr(X dA), and the sign of a complex determinant turns by the imaginary part. */
static void slogdet_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    mx x = c->x[0], sum = ct[1] ? mx_astype(ct[1], x->dtype) : NULL;
    if (ct[0] && dtype_is_complex(x->dtype)) {
        mx turn = mx_imag(mx_multiply(ct[0], mx_conjugate(c->y[0])));
        sum = linalg_sum(sum, mx_multiply(turn, array_of_complex(0, 1, DT_complex64)));
    }
    if (sum)
        dx[0] = mx_multiply(scalar(sum), linalg_adjoint(mx_inv(x)));
}

static void slogdet_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx trace = inner(mx_swapaxes(mx_inv(c->x[0]), -1, -2), t[0]);
    dy[1] = mx_real(trace);
    if (dtype_is_complex(c->x[0]->dtype))
        dy[0] = mx_multiply(mx_multiply(mx_imag(trace), array_of_complex(0, 1, DT_complex64)), c->y[0]);
}

const struct op op_slogdet = {
    OP_ROW(slogdet),    .shapes = scalar_shapes, .vjp = slogdet_vjp,
    .jvp = slogdet_jvp, .vmap = linalg_vmap,     .fits = one_fits,
};

/* Determinants of half types are computed in float32. */
static mx widened(mx x) { return dtype_is_half(x->dtype) ? mx_astype(x, DT_float32) : x; }

mx mx_det(mx x)
{
    mx a = widened(x);
    if (!linalg_square("linalg.det", &a))
        return MX_NIL;
    mx y = mx_infer(&op_det, NULL, 1, &a);
    return dtype_is_half(x->dtype) ? mx_astype(y, x->dtype) : y;
}

void mx_slogdet(mx x, mx out[2])
{
    mx a = widened(x);
    out[0] = out[1] = MX_NIL;
    if (!linalg_square("linalg.slogdet", &a))
        return;
    mx_infer_n(&op_slogdet, NULL, 1, &a, 2, out);
    for (int k = 0; k < 2 && dtype_is_half(x->dtype); k++) out[k] = mx_astype(out[k], x->dtype);
}

/* ---- pseudo-inverse: where the rank stays the same,
 *     dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P */

static int pinv_shapes(const struct call *c, struct spec out[])
{
    mx x = c->x[0];
    return linalg_spec(out, x->dtype, x, 2, (int[]){ dim(x, -1), dim(x, -2) });
}

/* x - a b x, or x - x a b: what the projection a b leaves. */
static mx rest_left(mx a, mx b, mx x) { return mx_subtract(x, mx_matmul(a, mx_matmul(b, x))); }
static mx rest_right(mx x, mx a, mx b) { return mx_subtract(x, linalg_times(x, a, b)); }

static void pinv_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    mx a = c->x[0], p = c->y[0], ph = linalg_adjoint(p), gh = linalg_adjoint(ct[0]);
    mx left = linalg_times(rest_left(a, p, gh), p, ph);
    mx right = linalg_times(ph, p, rest_right(gh, p, a));
    dx[0] = mx_add(mx_negative(linalg_times(ph, ct[0], ph)), mx_add(left, right));
}

static void pinv_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx a = c->x[0], p = c->y[0], ph = linalg_adjoint(p), th = linalg_adjoint(t[0]);
    mx left = linalg_times(p, ph, rest_right(th, a, p));
    mx right = linalg_times(rest_left(p, a, th), ph, p);
    dy[0] = mx_add(mx_negative(linalg_times(p, t[0], p)), mx_add(left, right));
}

const struct op op_pinv = {
    OP_ROW(pinv), .shapes = pinv_shapes, .vjp = pinv_vjp, .jvp = pinv_jvp, .vmap = linalg_vmap, .fits = one_fits,
};

mx mx_pinv(mx x) { return linalg_matrix("linalg.pinv", &x) ? mx_infer(&op_pinv, NULL, 1, &x) : MX_NIL; }
