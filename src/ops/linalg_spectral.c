/* linalg_spectral.c: singular values, eigenvalues, and the vectors that belong to them.
 *
 * A vector turns towards another by the change between them divided by the distance of their
 * values.  Where two values are equal there is no telling how their vectors turn; the rules then
 * take them as not turning, which is right for every function that does not depend on it. */
#include "core/shape.h"
#include "ops/linalg.h"
#include "ops/rules.h"

static mx real_part(mx x) { return dtype_is_complex(x->dtype) ? mx_real(x) : x; }
static mx diagonal(mx x) { return mx_diagonal(x, 0, -2, -1); }
static mx hermitian_part(mx x) { return mx_multiply(mx_add(x, linalg_adjoint(x)), mx_scalar_like(0.5, x)); }

/* ---- singular values: A = U diag(s) V^H.
 *
 * With P = U^H dA V, F_ij = 1 / (s_j^2 - s_i^2) and S = diag(s), for the first k columns:
 *     ds = Re diag(P)    dU = U (F o (P S + S P^H)) + (I - U U^H) dA V S^-1
 *                        dV = V (F o (S P + P^H S)) + (I - V V^H) dA^H U S^-1
 * and, complex, the columns of U turn by i Im diag(P) / s more (of U and V together one may choose).
 * The other columns of a full U or V span what is left: dU2 = -U dU^H U2. */

static const struct field svd_args_fields[] = { ENUM(svd_args, mode, SVD_FULL), { 0 } };

static int svd_shapes(const struct call *c, struct spec out[])
{
    const struct svd_args *g = c->args;
    mx x = c->x[0];
    int m = dim(x, -2), n = dim(x, -1), k = m < n ? m : n;
    bool full = g->mode == SVD_FULL;
    if (g->mode == SVD_VALUES)
        return linalg_spec(out, linalg_real(x->dtype), x, 1, &k);
    linalg_spec(&out[0], x->dtype, x, 2, (int[]){ m, full ? m : k });
    linalg_spec(&out[1], linalg_real(x->dtype), x, 1, &k);
    return linalg_spec(&out[2], x->dtype, x, 2, (int[]){ full ? n : k, n });
}

/* What the rules see: the first k columns of U and V, and those beyond, NULL where none. */
struct singular {
    mx u, u2, s, v, v2; /* s in the dtype of the vectors */
    mx f, inverse;      /* F, 1 / s */
};

static struct singular singular(mx u, mx s, mx vh)
{
    u = linalg_sized(u);
    vh = linalg_sized(vh);
    int m = dim(u, -2), n = dim(vh, -1), k = m < n ? m : n;
    mx v = linalg_adjoint(vh);
    struct singular x = { .s = mx_astype(s, u->dtype) };
    x.u = dim(u, -1) > k ? linalg_block(u, 0, m, 0, k) : u;
    x.u2 = dim(u, -1) > k ? linalg_block(u, 0, m, k, m) : NULL;
    x.v = dim(v, -1) > k ? linalg_block(v, 0, n, 0, k) : v;
    x.v2 = dim(v, -1) > k ? linalg_block(v, 0, n, k, n) : NULL;
    x.f = mx_astype(linalg_differences(mx_square(s)), u->dtype);
    x.inverse = mx_astype(linalg_reciprocal(s), u->dtype);
    return x;
}

/* The imaginary part of a complex vector, as i times it; NULL where it is real. */
static mx imaginary(mx x)
{
    return dtype_is_complex(x->dtype) ? mx_subtract(x, mx_astype(mx_real(x), x->dtype)) : NULL;
}

/* x - u u^H x */
static mx beside(mx u, mx x) { return mx_subtract(x, linalg_times(u, linalg_adjoint(u), x)); }

/* The cotangent of the first columns, with what the others pass on: g = (g1, g2) gives
 * g1 - u2 g2^H u1. */
static mx first_columns(mx g, mx u, mx u2)
{
    int m = dim(u, -2), k = dim(u, -1);
    if (!g || !u2)
        return g;
    mx g1 = linalg_block(g, 0, m, 0, k), g2 = linalg_block(g, 0, m, k, m);
    return mx_subtract(g1, linalg_times(u2, linalg_adjoint(g2), u));
}

/* ct: of s, and of u and v or NULL.  Of P: */
static mx svd_pull(mx a, const struct singular *x, mx gs, mx gu, mx gv)
{
    mx p = gs ? linalg_diagonal(mx_astype(gs, a->dtype)) : NULL, turn = NULL;
    if (gu) {
        mx w = mx_multiply(x->f, mx_matmul(linalg_adjoint(x->u), gu));
        p = linalg_sum(p, linalg_columns(mx_add(w, linalg_adjoint(w)), x->s));
        turn = imaginary(diagonal(mx_matmul(linalg_adjoint(x->u), gu)));
    }
    if (gv) {
        mx w = mx_multiply(x->f, mx_matmul(linalg_adjoint(x->v), gv));
        p = linalg_sum(p, linalg_rows(mx_add(w, linalg_adjoint(w)), x->s));
    }
    if (turn)
        p = mx_add(p, linalg_diagonal(mx_multiply(turn, x->inverse)));
    mx uh = linalg_adjoint(x->u), vh = linalg_adjoint(x->v);
    mx d = p ? linalg_times(x->u, p, vh) : zeros_of(a);
    if (gu && dim(a, -2) > dim(x->u, -1))
        d = mx_add(d, mx_matmul(linalg_columns(beside(x->u, gu), x->inverse), vh));
    if (gv && dim(a, -1) > dim(x->v, -1))
        d = mx_add(d, linalg_adjoint(mx_matmul(linalg_columns(beside(x->v, gv), x->inverse), uh)));
    return d;
}

static void svd_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    if (c->nout == 1) {
        mx y[3];
        mx_svd(c->x[0], SVD_THIN, y);
        dx[0] = mx_matmul(linalg_columns(y[0], mx_astype(ct[0], y[0]->dtype)), y[2]);
        return;
    }
    struct singular x = singular(c->y[0], c->y[1], c->y[2]);
    mx gu = first_columns(ct[0], x.u, x.u2);
    mx gv = first_columns(ct[2] ? linalg_adjoint(ct[2]) : NULL, x.v, x.v2);
    dx[0] = svd_pull(c->x[0], &x, ct[1], gu, gv);
}

/* All columns of a change, from those of the first. */
static mx all_columns(mx d, mx u, mx u2)
{
    if (!u2)
        return d;
    mx rest = mx_negative(linalg_times(u, linalg_adjoint(d), u2));
    return mx_concatenate(2, (mx[]){ d, rest }, -1);
}

static void svd_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx u = c->y[0], vh = c->y[c->nout - 1], thin[3];
    if (c->nout == 1) {
        mx_svd(c->x[0], SVD_THIN, thin);
        mx inside = linalg_times(linalg_adjoint(thin[0]), t[0], linalg_adjoint(thin[2]));
        dy[0] = real_part(diagonal(inside));
        return;
    }
    struct singular x = singular(u, c->y[1], vh);
    mx p = linalg_times(linalg_adjoint(x.u), t[0], x.v), ph = linalg_adjoint(p);
    dy[1] = real_part(diagonal(p));
    mx wu = mx_multiply(x.f, mx_add(linalg_columns(p, x.s), linalg_rows(ph, x.s)));
    mx wv = mx_multiply(x.f, mx_add(linalg_rows(p, x.s), linalg_columns(ph, x.s)));
    mx turn = imaginary(diagonal(p));
    if (turn)
        wu = mx_add(wu, linalg_diagonal(mx_multiply(turn, x.inverse)));
    mx du = mx_matmul(x.u, wu), dv = mx_matmul(x.v, wv);
    if (dim(u, -2) > dim(x.u, -1))
        du = mx_add(du, linalg_columns(beside(x.u, mx_matmul(t[0], x.v)), x.inverse));
    if (dim(vh, -1) > dim(x.v, -1))
        dv = mx_add(dv, linalg_columns(beside(x.v, mx_matmul(linalg_adjoint(t[0]), x.u)), x.inverse));
    dy[0] = all_columns(du, x.u, x.u2);
    dy[2] = linalg_adjoint(all_columns(dv, x.v, x.v2));
}

const struct op op_svd = {
    OP_ROW(svd), ARGS(svd_args), .shapes = svd_shapes, .vjp = svd_vjp, .jvp = svd_jvp, .vmap = linalg_vmap,
};

void mx_svd(mx x, enum svd_mode mode, mx out[3])
{
    out[0] = out[1] = out[2] = MX_NIL;
    if (linalg_matrix("linalg.svd", &x))
        mx_infer_n(&op_svd, &(struct svd_args){ mode }, 1, &x, mode == SVD_VALUES ? 1 : 3, out);
}

/* ---- Hermitian matrices, of which a triangle is read: A = V diag(w) V^H.
 *     dw = Re diag(P)    dV = V (F o P)    with P = V^H dA V, F_ij = 1 / (w_j - w_i) */

static const struct field eigh_args_fields[] = { ENUM(eigh_args, part, PART_UPPER), FIELD(eigh_args, vectors), { 0 } };

static int eigh_shapes(const struct call *c, struct spec out[])
{
    mx x = c->x[0];
    int n = dim(x, -1);
    if (!linalg_square_in(c, x))
        return 1;
    linalg_spec(&out[0], linalg_real(x->dtype), x, 1, &n);
    return c->nout > 1 ? spec_like(&out[1], x) : 0;
}

/* Values and vectors, also where the node made values alone. */
static void eigh_of(const struct call *c, mx y[2])
{
    const struct eigh_args *g = c->args;
    y[0] = c->y[0];
    if (g->vectors)
        y[1] = c->y[1];
    else
        mx_eigh(c->x[0], g->part == PART_UPPER ? "U" : "L", y);
}

static void eigh_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    const struct eigh_args *g = c->args;
    mx y[2], p = NULL;
    eigh_of(c, y);
    mx v = y[1], vh = linalg_adjoint(v);
    if (ct[0])
        p = linalg_diagonal(mx_astype(ct[0], v->dtype));
    if (g->vectors && ct[1]) {
        mx f = mx_astype(linalg_differences(y[0]), v->dtype);
        p = linalg_sum(p, mx_multiply(f, mx_matmul(vh, ct[1])));
    }
    dx[0] = linalg_hermitian_adjoint(hermitian_part(linalg_times(v, p, vh)), g->part);
}

static void eigh_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct eigh_args *g = c->args;
    mx y[2];
    eigh_of(c, y);
    mx v = y[1], p = linalg_times(linalg_adjoint(v), linalg_hermitian(t[0], g->part), v);
    dy[0] = real_part(diagonal(p));
    if (g->vectors)
        dy[1] = mx_matmul(v, mx_multiply(mx_astype(linalg_differences(y[0]), v->dtype), p));
}

const struct op op_eigh = {
    OP_ROW(eigh), ARGS(eigh_args), .shapes = eigh_shapes, .vjp = eigh_vjp, .jvp = eigh_jvp, .vmap = linalg_vmap,
};

static void eigh(const char *name, mx x, const char *uplo, int n, mx out[])
{
    for (int k = 0; k < n; k++) out[k] = MX_NIL;
    if (!linalg_square(name, &x))
        return;
    char c = uplo[0] && !uplo[1] ? uplo[0] : 0;
    if (c != 'L' && c != 'l' && c != 'U' && c != 'u') {
        mx_fail("[%s] expected 'L' or 'U' as the triangle to read, got '%s'", name, uplo);
        return;
    }
    struct eigh_args args = { c == 'U' || c == 'u' ? PART_UPPER : PART_LOWER, n > 1 };
    mx_infer_n(&op_eigh, &args, 1, &x, n, out);
}

void mx_eigh(mx x, const char *uplo, mx out[2]) { eigh("linalg.eigh", x, uplo, 2, out); }

mx mx_eigvalsh(mx x, const char *uplo)
{
    mx y;
    eigh("linalg.eigvalsh", x, uplo, 1, &y);
    return y;
}

/* ---- any matrix: A V = V diag(w), complex.
 *
 * With P = V^-1 dA V and F as above: dw = diag(P), and vectors change by W = V (F o P) less what
 * would undo their normalization, by which v^H v = 1 and the largest entry v_k is real:
 *     dv = w - c v,    c = Re(v^H w) + i Im(w_k) / v_k */

static const struct field eig_args_fields[] = { FIELD(eig_args, vectors), { 0 } };

static int eig_shapes(const struct call *c, struct spec out[])
{
    mx x = c->x[0];
    int n = dim(x, -1);
    if (!linalg_square_in(c, x))
        return 1;
    linalg_spec(&out[0], DT_complex64, x, 1, &n);
    return c->nout > 1 ? linalg_spec(&out[1], DT_complex64, x, 2, (int[]){ n, n }) : 0;
}

static void eig_of(const struct call *c, mx y[2])
{
    y[0] = c->y[0];
    if (((const struct eig_args *)c->args)->vectors)
        y[1] = c->y[1];
    else
        mx_eig(c->x[0], y);
}

static mx column_sums(mx x) { return mx_sum(x, (int[]){ -2 }, 1, true); }
static mx times_i(mx x) { return mx_multiply(x, array_of_complex(0, 1, DT_complex64)); }

/* 1 / v_k at the place of v_k in each column, zero elsewhere. */
static mx anchor(mx v)
{
    if (dim(v, -2) == 0) /* no largest entry */
        return mx_real(v);
    struct size rows = size_of(v, -2);
    mx at = mx_arg_reduce(mx_abs(v), ARG_MAX, -2, true), n = mx_arange_by(1, &rows, DT_uint32);
    mx hit = mx_equal(mx_expand_dims(n, (int[]){ -1 }, 1), at);
    return mx_where(hit, linalg_reciprocal(mx_real(v)), array_of_double(0, DT_float32));
}

static mx normalized_vectors(mx v, mx w)
{
    mx along = column_sums(mx_real(mx_multiply(mx_conjugate(v), w)));
    mx turn = column_sums(mx_multiply(anchor(v), mx_imag(w)));
    return mx_subtract(w, mx_multiply(v, mx_add(along, times_i(turn))));
}

/* The adjoint of that: with h = g^H v, g - Re(h) v, and i Im(h) / v_k more at k. */
static mx normalized_adjoint(mx v, mx g)
{
    mx h = column_sums(mx_multiply(mx_conjugate(g), v));
    mx w = mx_subtract(g, mx_multiply(mx_real(h), v));
    return mx_add(w, times_i(mx_multiply(mx_imag(h), anchor(v))));
}

/* A's own type: complex results of a real A pass on their real part. */
static mx as_operand(mx d, mx a) { return dtype_is_complex(a->dtype) ? d : mx_astype(mx_real(d), a->dtype); }

static void eig_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    mx y[2], p = NULL;
    eig_of(c, y);
    mx v = y[1], vh = linalg_adjoint(v);
    if (ct[0])
        p = linalg_diagonal(ct[0]);
    if (c->nout > 1 && ct[1]) {
        mx f = mx_conjugate(linalg_differences(y[0]));
        p = linalg_sum(p, mx_multiply(f, mx_matmul(vh, normalized_adjoint(v, ct[1]))));
    }
    dx[0] = as_operand(mx_solve(vh, mx_matmul(p, vh)), c->x[0]);
}

static void eig_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx y[2];
    eig_of(c, y);
    mx v = y[1], p = mx_solve(v, mx_matmul(mx_astype(t[0], DT_complex64), v));
    dy[0] = diagonal(p);
    if (c->nout > 1)
        dy[1] = normalized_vectors(v, mx_matmul(v, mx_multiply(linalg_differences(y[0]), p)));
}

const struct op op_eig = {
    OP_ROW(eig), ARGS(eig_args), .shapes = eig_shapes, .vjp = eig_vjp, .jvp = eig_jvp, .vmap = linalg_vmap,
};

static void eig(const char *name, mx x, int n, mx out[])
{
    for (int k = 0; k < n; k++) out[k] = MX_NIL;
    if (linalg_square(name, &x))
        mx_infer_n(&op_eig, &(struct eig_args){ n > 1 }, 1, &x, n, out);
}

void mx_eig(mx x, mx out[2]) { eig("linalg.eig", x, 2, out); }

mx mx_eigvals(mx x)
{
    mx y;
    eig("linalg.eigvals", x, 1, &y);
    return y;
}
