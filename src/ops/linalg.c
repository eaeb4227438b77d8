/* linalg.c: linear algebra that is made of other operations, and what its families share. */
#include "ops/linalg.h"

#include <math.h>
#include <string.h>

#include "core/shape.h"
#include "ops/rules.h"

/* ---- for builders */

bool linalg_matrix(const char *name, mx *x)
{
    if (is_nil(*x))
        return false;
    if (dtype_is_half((*x)->dtype)) {
        mx_fail("[%s] expected an array of float32, float64 or complex64, got %s", name, dtype_name((*x)->dtype));
        return false;
    }
    if ((*x)->ndim < 2) {
        mx_fail("[%s] expected an array of at least two dimensions, got shape %s", name, shape_of(*x));
        return false;
    }
    if (!dtype_is_inexact((*x)->dtype))
        *x = mx_astype(*x, DT_float32);
    return !is_nil(*x);
}

bool linalg_square(const char *name, mx *x)
{
    if (!linalg_matrix(name, x))
        return false;
    if (dim(*x, -1) == dim(*x, -2))
        return true;
    mx_fail("[%s] expected square matrices, got shape %s", name, shape_of(*x));
    return false;
}

bool linalg_square_in(const struct call *c, mx x)
{
    if (x->ndim >= 2 && dim(x, -1) == dim(x, -2))
        return true;
    mx_fail("[%s] expected square matrices, got shape %s", c->op->name, shape_of(x));
    return false;
}

bool linalg_fits(const struct call *c)
{
    bool fits = one_dtype(c, c->nin);
    for (int i = 0; i < c->nin; i++)
        fits = fits && c->x[i]->ndim >= 2 && dtype_is_inexact(c->x[i]->dtype) && !dtype_is_half(c->x[i]->dtype);
    return fits;
}

mx linalg_sized(mx x) { return mx_size_checked(mx_size_checked(x, -1), -2); }

int linalg_spec(struct spec *out, enum dtype t, mx x, int n, const int *sizes)
{
    out->dtype = t;
    out->ndim = x->ndim - 2 + n;
    memcpy(out->shape, x->shape, (size_t)(x->ndim - 2) * sizeof(int));
    for (int i = 0; i < n; i++) out->shape[x->ndim - 2 + i] = sizes[i];
    return 0;
}

enum dtype linalg_real(enum dtype t) { return dtype_is_complex(t) ? DT_float32 : t; }

/* ---- for rules */

/* All operands get a batch axis in front, which makes it one of the node's own. */
void linalg_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx x[3];
    for (int i = 0; i < c->nin; i++) x[i] = batch_all(c->x[i], axis[i], batch_size(c, axis));
    mx_infer_n(c->op, c->args, c->nin, x, c->nout, y);
    for (int k = 0; k < c->nout; k++) yaxis[k] = 0;
}

mx linalg_adjoint(mx x) { return conjugated(mx_swapaxes(x, -1, -2)); }
mx linalg_times(mx a, mx b, mx c) { return mx_matmul(mx_matmul(a, b), c); }
mx linalg_columns(mx x, mx v) { return mx_multiply(x, mx_expand_dims(v, (int[]){ -2 }, 1)); }
mx linalg_rows(mx x, mx v) { return mx_multiply(x, mx_expand_dims(v, (int[]){ -1 }, 1)); }
mx linalg_sum(mx a, mx b) { return !a ? b : !b ? a : mx_add(a, b); }

mx linalg_diagonal(mx v)
{
    struct size n = size_of(v, -1);
    return linalg_columns(mx_eye_by(n, n, 0, v->dtype), v);
}

mx linalg_part(mx x, enum matrix_part part)
{
    return part == PART_LOWER ? mx_tril(x, 0) : part == PART_UPPER ? mx_triu(x, 0) : x;
}

/* The real part of the diagonal, as a matrix. */
static mx real_diagonal(mx x)
{
    mx d = mx_astype(mx_real(mx_diagonal(x, 0, -2, -1)), x->dtype);
    return linalg_diagonal(d);
}

mx linalg_hermitian(mx x, enum matrix_part part)
{
    mx strict = part == PART_LOWER ? mx_tril(x, -1) : mx_triu(x, 1);
    return mx_add(mx_add(strict, linalg_adjoint(strict)), real_diagonal(x));
}

mx linalg_hermitian_adjoint(mx x, enum matrix_part part)
{
    mx both = mx_add(x, linalg_adjoint(x));
    mx strict = part == PART_LOWER ? mx_tril(both, -1) : mx_triu(both, 1);
    return mx_add(strict, real_diagonal(x));
}

mx linalg_reciprocal(mx x)
{
    mx zero = mx_scalar_like(0, x), one = mx_scalar_like(1, x), none = mx_equal(x, zero);
    return mx_where(none, zero, mx_divide(one, mx_where(none, one, x)));
}

mx linalg_differences(mx v)
{
    mx column = mx_expand_dims(v, (int[]){ -1 }, 1), row = mx_expand_dims(v, (int[]){ -2 }, 1);
    return linalg_reciprocal(mx_subtract(row, column));
}

mx linalg_block(mx x, int a, int b, int c, int d)
{
    int start[MX_MAX_NDIM] = { 0 }, stop[MX_MAX_NDIM];
    if (is_nil(x))
        return x;
    for (int i = 0; i < x->ndim; i++) stop[i] = TO_END;
    start[x->ndim - 2] = a, stop[x->ndim - 2] = b;
    start[x->ndim - 1] = c, stop[x->ndim - 1] = d;
    return mx_slice(x, start, stop, NULL);
}

/* ---- norms */

/* What a norm computes in: halves in float32, integers as float32. */
static mx norm_operand(mx x)
{
    return dtype_is_half(x->dtype) || !dtype_is_inexact(x->dtype) ? mx_astype(x, DT_float32) : x;
}

static enum dtype norm_dtype(mx x)
{
    return dtype_is_half(x->dtype) ? (enum dtype)x->dtype : linalg_real(norm_operand(x)->dtype);
}

static mx l2(mx x, const int *axes, int n, bool keepdims)
{
    mx y = dtype_is_complex(x->dtype) ? mx_add(mx_square(mx_real(x)), mx_square(mx_imag(x))) : mx_square(x);
    return mx_root(mx_sum(y, axes, n, keepdims));
}

/* x^p with the derivative 0 at 0. */
static mx power_but_at_0(mx x, double p)
{
    mx none = mx_equal(x, mx_scalar_like(0, x)), safe = mx_where(none, mx_scalar_like(1, x), x);
    return mx_where(none, mx_scalar_like(p > 0 ? 0 : INFINITY, x), mx_power(safe, mx_scalar_like(p, x)));
}

static mx vector_norm(mx x, double ord, int axis, bool keepdims)
{
    if (ord == 2)
        return l2(x, &axis, 1, keepdims);
    mx a = mx_abs(x);
    if (isinf(ord))
        return ord > 0 ? mx_max(a, &axis, 1, keepdims) : mx_min(a, &axis, 1, keepdims);
    if (ord == 1)
        return mx_sum(a, &axis, 1, keepdims);
    if (ord == 0) {
        mx some = mx_not_equal(a, mx_scalar_like(0, a));
        return mx_sum(mx_astype(some, a->dtype), &axis, 1, keepdims);
    }
    /* Powers below 1 have no slope at 0, and no norm has where all is 0: 0 is taken for it. */
    mx p = ord < 1 ? power_but_at_0(a, ord) : mx_power(a, mx_scalar_like(ord, a));
    return power_but_at_0(mx_sum(p, &axis, 1, keepdims), 1 / ord);
}

/* Singular values of the matrices that two axes make. */
static mx singular_values(mx x, int row, int column)
{
    int perm[MX_MAX_NDIM], n = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != row && i != column)
            perm[n++] = i;
    perm[n] = row;
    perm[n + 1] = column;
    mx s[3];
    mx_svd(mx_transpose(x, perm, x->ndim), SVD_VALUES, s);
    return s[0];
}

enum spectral { SPECTRAL_MAX, SPECTRAL_MIN, SPECTRAL_SUM };

static mx spectral_norm(mx x, enum spectral f, int row, int column, bool keepdims)
{
    mx s = singular_values(x, row, column);
    const int last = -1;
    mx y = f == SPECTRAL_MAX   ? mx_max(s, &last, 1, false)
           : f == SPECTRAL_MIN ? mx_min(s, &last, 1, false)
                               : mx_sum(s, &last, 1, false);
    return keepdims ? mx_expand_dims(y, row < column ? (int[]){ row, column } : (int[]){ column, row }, 2) : y;
}

static mx matrix_norm(mx x, double ord, int row, int column, bool keepdims)
{
    if (fabs(ord) == 2)
        return spectral_norm(x, ord > 0 ? SPECTRAL_MAX : SPECTRAL_MIN, row, column, keepdims);
    if (!isinf(ord) && fabs(ord) != 1)
        return mx_fail("[linalg.norm] expected an order of 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc' "
                       "for matrices, got %g",
                       ord);
    /* The sums over columns, or for infinity over rows, and the largest or smallest of them. */
    int sum = isinf(ord) ? column : row, fold = isinf(ord) ? row : column;
    mx y = mx_sum(mx_abs(x), &sum, 1, true);
    y = ord > 0 ? mx_max(y, &fold, 1, true) : mx_min(y, &fold, 1, true);
    return keepdims ? y : mx_squeeze(y, (int[]){ row, column }, 2);
}

/* The axes a norm is over, as given; NULL: all there are.  Their number, or -1. */
static int norm_axes(mx x, const int *axes, int n, bool few, int *out)
{
    int sorted[MX_MAX_NDIM];
    if (is_nil(x))
        return -1;
    if (!axes)
        n = x->ndim;
    if (few && (n < 1 || n > 2)) {
        mx_fail("[linalg.norm] expected one axis, or two for the norm of matrices, got %d of an "
                "array of shape %s",
                n, shape_of(x));
        return -1;
    }
    if (axes && axes_of("linalg.norm", axes, n, x->ndim, sorted) < 0)
        return -1;
    for (int i = 0; i < n; i++) out[i] = axes ? (axes[i] + x->ndim) % x->ndim : i;
    return n;
}

mx mx_norm(mx x, double ord, const int *axes, int n, bool keepdims)
{
    int a[MX_MAX_NDIM];
    if ((n = norm_axes(x, axes, n, true, a)) < 0)
        return MX_NIL;
    enum dtype t = norm_dtype(x);
    x = norm_operand(x);
    return mx_astype(n == 1 ? vector_norm(x, ord, a[0], keepdims) : matrix_norm(x, ord, a[0], a[1], keepdims), t);
}

mx mx_norm_l2(mx x, const int *axes, int n, bool keepdims)
{
    int a[MX_MAX_NDIM];
    if ((n = norm_axes(x, axes, n, false, a)) < 0)
        return MX_NIL;
    return mx_astype(l2(norm_operand(x), a, n, keepdims), norm_dtype(x));
}

mx mx_norm_named(mx x, const char *ord, const int *axes, int n, bool keepdims)
{
    int a[MX_MAX_NDIM];
    bool fro = !strcmp(ord, "fro") || !strcmp(ord, "f"), nuc = !strcmp(ord, "nuc");
    if (is_nil(x))
        return x;
    if (!fro && !nuc)
        return mx_fail("[linalg.norm] expected a number, 'fro' or 'nuc' as the order, got '%s'", ord);
    if ((n = norm_axes(x, axes, n, false, a)) < 0)
        return MX_NIL;
    if (n != 2)
        return mx_fail("[linalg.norm] expected two axes for the order '%s', got %d of an array of "
                       "shape %s",
                       ord, n, shape_of(x));
    enum dtype t = norm_dtype(x);
    x = norm_operand(x);
    return mx_astype(fro ? l2(x, a, n, keepdims) : spectral_norm(x, SPECTRAL_SUM, a[0], a[1], keepdims), t);
}

/* ---- the cross product */

/* Component i of a vector along an axis; zero where a plane vector has none. */
static mx component(mx x, int axis, int i)
{
    return dim(x, axis) > i ? mx_take(x, array_of_int(i, DT_int32), axis)
                            : mx_zeros_like(mx_take(x, array_of_int(0, DT_int32), axis));
}

mx mx_cross(mx a, mx b, int axis)
{
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    enum dtype t = promote(a->dtype, b->dtype);
    int ia = axis_of("linalg.cross", axis, a->ndim), ib = axis_of("linalg.cross", axis, b->ndim);
    if (ia < 0 || ib < 0)
        return MX_NIL;
    int na = dim(a, ia), nb = dim(b, ib);
    if (na < 2 || na > 3 || nb < 2 || nb > 3)
        return mx_fail("[linalg.cross] expected size 2 or 3 along axis %d, got shapes %s and %s", axis, shape_of(a),
                       shape_of(b));
    mx p[3], q[3], y[3];
    a = mx_size_checked(a, ia);
    b = mx_size_checked(b, ib);
    for (int i = 0; i < 3; i++) {
        p[i] = mx_astype(component(a, ia, i), t);
        q[i] = mx_astype(component(b, ib, i), t);
    }
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        y[i] = mx_subtract(mx_multiply(p[j], q[k]), mx_multiply(p[k], q[j]));
    }
    return mx_stack(3, y, axis);
}
