/* matmul.c: matrix products, and products with something added.
 *
 * A node takes operands of at least two dimensions whose batch dimensions are equal: the builder
 * gives 1-d operands an axis and broadcasts batches, both without copying.  A plain matrix on the
 * right serves every matrix of the batch on the left, so those are stacked into one tall matrix;
 * the derivative of the plain one is then one product as well. */
#include <limits.h>
#include <string.h>

#include "ops/matmul.h"
#include "ops/rules.h"

static const struct field addmm_args_fields[] = { FIELD(addmm_args, alpha), FIELD(addmm_args, beta), { 0 } };

/* ---- rules of a node: a (..., m, k), b (..., k, n), and c (..., m, n) of addmm */

static int matmul_shapes(const struct call *c, struct spec out[])
{
    mx a = c->x[0], b = c->x[1];
    bool fit = a->ndim >= 2 && b->ndim == a->ndim && dim(a, -1) == dim(b, -2);
    for (int i = 0; fit && i < a->ndim - 2; i++) fit = a->shape[i] == b->shape[i];
    if (!fit)
        return failed(mx_fail("[matmul] expected the last dimension of the first operand to equal the second to last "
                              "of the second, got shapes %s and %s",
                              shape_of(a), shape_of(b)));
    spec_like(out, a);
    out->shape[a->ndim - 1] = dim(b, -1);
    if (c->nin > 2 &&
        (c->x[2]->ndim != out->ndim || memcmp(c->x[2]->shape, out->shape, (size_t)out->ndim * sizeof *out->shape)))
        return failed(mx_fail("[addmm] expected a first operand of the product's shape, got shapes %s, %s and %s",
                              shape_of(c->x[2]), shape_of(a), shape_of(b)));
    return 0;
}

/* Adjoint of x as a matrix. */
static mx adjoint(mx x) { return conjugated(mx_swapaxes(x, -1, -2)); }

static mx scaled(double s, mx x) { return s == 1 ? x : mx_multiply(mx_scalar_like(s, x), x); }

static mx sum_of(mx a, mx b) { return !a ? b : !b ? a : mx_add(a, b); }

/* x y, lying in memory as `like` does: a gradient is met by its parameter, element by element. */
static mx product_lying_as(mx like, mx x, mx y)
{
    return is_matrix_transpose(like) ? mx_swapaxes(mx_matmul(mx_swapaxes(y, -1, -2), mx_swapaxes(x, -1, -2)), -1, -2)
                                     : mx_matmul(x, y);
}

/* y = alpha a b, so that da = alpha ct b^H and db = alpha a^H ct. */
static void product_vjp(const struct call *c, double alpha, mx ct, const bool want[], mx dx[])
{
    if (ct->dtype == DT_bool_)
        return;
    if (want[0])
        dx[0] = scaled(alpha, product_lying_as(c->x[0], ct, adjoint(c->x[1])));
    if (want[1])
        dx[1] = scaled(alpha, product_lying_as(c->x[1], adjoint(c->x[0]), ct));
}

static mx product_tangent(const struct call *c, const mx t[])
{
    return sum_of(t[0] ? mx_matmul(t[0], c->x[1]) : NULL, t[1] ? mx_matmul(c->x[0], t[1]) : NULL);
}

static void matmul_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    product_vjp(c, 1, ct[0], want, dx);
}

static void matmul_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (c->x[0]->dtype != DT_bool_)
        dy[0] = product_tangent(c, t);
}

static void addmm_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct addmm_args *g = c->args;
    product_vjp(c, g->alpha, ct[0], want, dx);
    if (want[2])
        dx[2] = scaled(g->beta, ct[0]);
}

static void addmm_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct addmm_args *g = c->args;
    mx product = product_tangent(c, t);
    dy[0] = sum_of(product ? scaled(g->alpha, product) : NULL, t[2] ? scaled(g->beta, t[2]) : NULL);
}

/* The batch goes to the front; an operand without it is broadcast by the builder. */
static void matmul_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    y[0] = mx_matmul(batch_first(c->x[0], axis[0]), batch_first(c->x[1], axis[1]));
    yaxis[0] = 0;
}

static void addmm_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct addmm_args *g = c->args;
    mx a = batch_first(c->x[0], axis[0]), b = batch_first(c->x[1], axis[1]), plus = batch_first(c->x[2], axis[2]);
    if (axis[0] < 0 && axis[1] < 0) /* the sum alone is batched, and broadcasts no product */
        a = batch_all(a, -1, batch_size(c, axis));
    y[0] = mx_addmm(plus, a, b, g->alpha, g->beta);
    yaxis[0] = 0;
}

const struct op op_matmul = {
    OP_ROW(matmul), .shapes = matmul_shapes, .vjp = matmul_vjp, .jvp = matmul_jvp, .vmap = matmul_vmap,
};

const struct op op_addmm = {
    OP_ROW(addmm), ARGS(addmm_args), .shapes = matmul_shapes, .vjp = addmm_vjp, .jvp = addmm_jvp, .vmap = addmm_vmap,
};

/* ---- builders */

/* What stands before the last two sizes, of both; fails and returns -1 where they do not
 * broadcast. */
static int batch_shape(const char *name, mx a, mx b, int *shape)
{
    int na = a->ndim - 2, nb = b->ndim - 2, n = na > nb ? na : nb;
    for (int i = 0; i < n; i++) {
        int da = i < n - na ? 1 : a->shape[i - (n - na)], db = i < n - nb ? 1 : b->shape[i - (n - nb)];
        if (da != db && da != 1 && db != 1) {
            mx_fail("[%s] expected batch dimensions that broadcast, got shapes %s and %s", name, shape_of(a),
                    shape_of(b));
            return -1;
        }
        shape[i] = da == 1 ? db : da;
    }
    return n;
}

/* x with these batch dimensions. */
static mx with_batch(mx x, int n, const int *batch)
{
    int shape[MX_MAX_NDIM];
    memcpy(shape, batch, (size_t)n * sizeof *shape);
    shape[n] = dim(x, -2);
    shape[n + 1] = dim(x, -1);
    return mx_broadcast_to(x, n + 2, shape);
}

static bool is_one_row(mx x)
{
    bool one = true;
    for (int i = 0; i < x->ndim - 1; i++) one = one && x->shape[i] == 1;
    return one;
}

/* Does c, of the result's shape or broadcasting to it, follow when a's batch is stacked?  Yes where
 * it is the same for every row, or has every row. */
static bool stacks_too(mx c, int ndim, const int *shape)
{
    bool whole = c->ndim == ndim;
    for (int i = 0; whole && i < ndim - 1; i++) whole = c->shape[i] == shape[i];
    return is_one_row(c) || whole;
}

static mx stack_rows(mx x)
{
    int rows = 1;
    for (int i = 0; i < x->ndim - 1; i++) rows *= x->shape[i];
    return mx_reshape(x, 2, (int[]){ rows, dim(x, -1) });
}

/* The number of rows of all matrices of x, if there is a number for them. */
static bool matmul_rows_fit(mx x)
{
    int64_t rows = 1;
    for (int i = 0; i < x->ndim - 1; i++)
        if ((rows *= x->shape[i]) > INT_MAX)
            return false;
    return true;
}

/* The same graph for all batches: both operands follow each other's. */
static mx product_of_any_shape(mx a, mx b, mx plus, const struct addmm_args *args)
{
    static const int matrix[] = { -2, -1 };
    mx x[2] = { mx_broadcast_with(2, (mx[]){ a, b }, matrix, 2), mx_broadcast_with(2, (mx[]){ b, a }, matrix, 2) };
    mx y = mx_infer(&op_matmul, NULL, 2, x);
    if (!plus || is_nil(y))
        return y;
    return mx_infer(&op_addmm, args, 3, (mx[]){ x[0], x[1], mx_broadcast_like(plus, y) });
}

/* Operands of one dtype and at least two dimensions; plus NULL: no sum.  A stack of rows meets a matrix as one matrix;
 * of one row there is nothing to stack, and the result has its shape without a view of it. */
static mx product_node(const char *name, mx a, mx b, mx plus, const struct addmm_args *args)
{
    int shape[MX_MAX_NDIM];
    if (is_nil(a) || is_nil(b) || (plus && is_nil(plus)))
        return MX_NIL;
    int n = batch_shape(name, a, b, shape);
    if (n < 0)
        return MX_NIL;
    shape[n] = dim(a, -2);
    shape[n + 1] = dim(b, -1);
    if (shapeless())
        return product_of_any_shape(a, b, plus, args);
    bool stack =
        n > 0 && b->ndim == 2 && matmul_rows_fit(a) && (plus ? stacks_too(plus, n + 2, shape) : !is_one_row(a));
    if (stack)
        a = stack_rows(a);
    else
        a = with_batch(a, n, shape), b = with_batch(b, n, shape);
    mx x[3] = { a, b }, y;
    if (!plus) {
        y = mx_infer(&op_matmul, NULL, 2, x);
    } else {
        int rows[2] = { dim(a, -2), dim(b, -1) };
        x[2] = stack ? mx_broadcast_to(plus->ndim > 2 ? stack_rows(plus) : plus, 2, rows)
                     : mx_broadcast_to(plus, n + 2, shape);
        y = mx_infer(&op_addmm, args, 3, x);
    }
    return stack ? mx_reshape(y, n + 2, shape) : y;
}

/* Everything that can be wrong with shapes but the batches. */
static bool matmul_fits(const char *name, mx a, mx b)
{
    if (is_nil(a) || is_nil(b))
        return false;
    if (a->ndim == 0 || b->ndim == 0) {
        mx_fail("[%s] expected operands of at least one dimension, got shapes %s and %s", name, shape_of(a),
                shape_of(b));
        return false;
    }
    if (dim(a, -1) != dim(b, b->ndim == 1 ? 0 : -2)) {
        mx_fail("[%s] expected the last dimension of the first operand to equal the %s of the "
                "second, got shapes %s "
                "and %s",
                name, b->ndim == 1 ? "one" : "second to last", shape_of(a), shape_of(b));
        return false;
    }
    return true;
}

/* The product of operands of any number of dimensions: 1-d ones are a row or a column whose axis
 * the result does not have. */
static mx any_product(const char *name, mx a, mx b, mx plus, const struct addmm_args *args)
{
    bool row = a->ndim == 1, column = b->ndim == 1;
    int gone[2], vectors = vector_axes(row, column, gone);
    if (is_nil(a) || is_nil(b) || (plus && is_nil(plus)))
        return MX_NIL;
    if (row)
        a = mx_expand_dims(a, (int[]){ 0 }, 1);
    if (column)
        b = mx_expand_dims(b, (int[]){ 1 }, 1);
    if (plus) {
        int shape[MX_MAX_NDIM];
        int n = is_nil(a) || is_nil(b) ? -1 : batch_shape(name, a, b, shape);
        if (n < 0)
            return MX_NIL;
        if (!row)
            shape[n++] = dim(a, -2);
        if (!column)
            shape[n++] = dim(b, -1);
        bool ok = plus->ndim <= n;
        for (int i = 1; ok && i <= plus->ndim; i++) ok = dim(plus, -i) == 1 || dim(plus, -i) == shape[n - i];
        if (!ok)
            return mx_fail("[%s] expected a first operand that broadcasts to the product's shape %s, got %s", name,
                           shape_text(n, shape), shape_of(plus));
        if (vectors)
            shapes_matter("addmm");
        if (vectors)
            plus = mx_expand_dims(mx_broadcast_to(plus, n, shape), gone, vectors);
    }
    mx y = product_node(name, a, b, plus, args);
    return vectors ? mx_squeeze(y, gone, vectors) : y;
}

mx mx_matmul(mx a, mx b)
{
    if (!matmul_fits("matmul", a, b))
        return MX_NIL;
    enum dtype t = promote(a->dtype, b->dtype);
    return any_product("matmul", mx_astype(a, t), mx_astype(b, t), NULL, NULL);
}

/* alpha and beta are fractions, so integers become floats, as they do beside a Python float. */
mx mx_addmm(mx c, mx a, mx b, double alpha, double beta)
{
    if (is_nil(c) || !matmul_fits("addmm", a, b))
        return MX_NIL;
    enum dtype t = promote_weak(promote(c->dtype, promote(a->dtype, b->dtype)), 'f');
    return any_product("addmm", mx_astype(a, t), mx_astype(b, t), mx_astype(c, t), &(struct addmm_args){ alpha, beta });
}
