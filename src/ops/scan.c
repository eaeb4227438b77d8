/* scan.c: running sums, products, extremes and logarithms of sums.
 *
 * A scan node includes each element in its own place; what excludes it is a scan of the others
 * moved on by one.  Derivatives of products and of logsumexp are linear recurrences
 *
 *     z[i] = a[i] z[i-1] + b[i],
 *
 * an operation of its own: no division, so zeros need no care, and derivatives of any order. */
#include "ops/scan.h"

#include <math.h>
#include <string.h>

#include "core/scope.h"
#include "ops/rules.h"

static const struct field scan_args_fields[] = {
    ENUM(scan_args, fold, SCAN_LOGSUMEXP), FIELD(scan_args, axis), FIELD(scan_args, reverse), { 0 }
};
static const struct field recurrence_args_fields[] = { FIELD(recurrence_args, axis),
                                                       FIELD(recurrence_args, reverse),
                                                       { 0 } };

const char *scan_fold_name(enum scan_fold f)
{
    return (const char *[]){ "cumsum", "cumprod", "cummin", "cummax", "logcumsumexp" }[f];
}

static int scan_shapes(const struct call *c, struct spec out[]) { return spec_like(out, c->x[0]); }

static mx scan(mx x, enum scan_fold f, int axis, bool reverse)
{
    return mx_infer(&op_scan, &(struct scan_args){ f, axis, reverse }, 1, &x);
}

/* Half types in float32, integers in float64. */
static mx recurrence(mx a, mx b, int axis, bool reverse)
{
    enum dtype t = dtype_is_half(b->dtype) ? DT_float32 : dtype_is_inexact(b->dtype) ? b->dtype : DT_float64;
    if (t != b->dtype)
        return mx_astype(recurrence(mx_astype(a, t), mx_astype(b, t), axis, reverse), b->dtype);
    return mx_infer(&op_recurrence, &(struct recurrence_args){ axis, reverse }, 2, (mx[]){ a, b });
}

/* x moved on by one in the direction of a scan, with `first` in the place that becomes free. */
static mx shifted(mx x, int axis, bool reverse, double first)
{
    int low = !reverse, high = reverse;
    bool any = x->tracer && shapeless();
    if (is_nil(x) || (dim(x, axis) == 0 && !any))
        return x;
    mx v = mx_scalar_like(first, x);
    if (isinf(first) && dtype_is_integer(x->dtype)) {
        int bits = (int)dtype_size(x->dtype) * 8;
        bool is_signed = dtype_kind(x->dtype) == 'i';
        uint64_t most = UINT64_MAX >> (64 - bits) >> is_signed;
        v = array_of_int((int64_t)(first > 0 ? most : is_signed ? ~most : 0), x->dtype);
    }
    if (any) /* nothing has no place to become free, and none to leave out */
        return mx_slice_axis(mx_pad(x, &axis, 1, &low, &high, v, PAD_CONSTANT), axis, high, low ? -1 : TO_END, 1);
    return mx_pad(mx_slice_axis(x, axis, high, low ? -1 : TO_END, 1), &axis, 1, &low, &high, v, PAD_CONSTANT);
}

/* Where each running extreme was met, the last of equals. */
static mx place_of_extreme(mx x, mx y, const struct scan_args *a)
{
    struct size n = size_of(x, a->axis), sizes[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++) sizes[i] = i == a->axis ? n : size_is(1);
    mx places = mx_reshape_by(mx_arange_by(1, &n, DT_int32), x->ndim, sizes);
    mx hit = mx_equal(x, y);
    if (dtype_is_inexact(x->dtype))
        hit = mx_logical_or(hit, mx_isnan(x));
    mx none = array_of_int(0, DT_int32);
    if (a->reverse)
        none = mx_subtract(mx_count(x, a->axis, 1, DT_int32), array_of_int(1, DT_int32));
    return scan(mx_where(hit, places, none), a->reverse ? SCAN_MIN : SCAN_MAX, a->axis, a->reverse);
}

/* e^(a - b) where a is at most b, and 0 where both are minus infinity. */
static mx ratio(mx a, mx b)
{
    mx none = mx_equal(mx_real(b), mx_scalar_like(-INFINITY, mx_real(b)));
    return mx_where(none, zeros_of(b), mx_exp(mx_subtract(a, mx_where(none, zeros_of(b), b))));
}

/* Weights of logcumsumexp are powers of e, which multiply the rounding of running logarithms by the size of these: they
 * are made in the next wider type. */
static mx wider(mx x)
{
    enum dtype t = dtype_is_half(x->dtype) ? DT_float32 : DT_float64;
    return dtype_is_complex(x->dtype) ? x : mx_astype(x, t);
}

static void cumulative_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    const struct scan_args *a = c->args;
    mx x = c->x[0], y = c->y[0];
    if (x->dtype == DT_bool_)
        return;
    switch ((enum scan_fold)a->fold) {
    case SCAN_SUM: dx[0] = scan(ct[0], SCAN_SUM, a->axis, !a->reverse); break;
    case SCAN_PROD: {
        /* What reaches y[i]: ct[i] and, through y[i+1] = x[i+1] y[i], what reaches y[i+1]. */
        mx g = recurrence(conjugated(shifted(x, a->axis, !a->reverse, 0)), ct[0], a->axis, !a->reverse);
        dx[0] = mx_multiply(g, conjugated(shifted(y, a->axis, a->reverse, 1)));
        break;
    }
    case SCAN_MIN:
    case SCAN_MAX: dx[0] = mx_scatter_add_axis(zeros_of(x), place_of_extreme(x, y, a), ct[0], a->axis); break;
    case SCAN_LOGSUMEXP: {
        mx w = wider(x), total = scan(w, SCAN_LOGSUMEXP, a->axis, a->reverse);
        mx next = shifted(total, a->axis, !a->reverse, INFINITY);
        mx g = recurrence(conjugated(ratio(total, next)), mx_astype(ct[0], w->dtype), a->axis, !a->reverse);
        dx[0] = mx_astype(mx_multiply(g, conjugated(ratio(w, total))), x->dtype);
    }
    }
}

static void cumulative_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct scan_args *a = c->args;
    mx x = c->x[0], y = c->y[0];
    if (x->dtype == DT_bool_)
        return;
    switch ((enum scan_fold)a->fold) {
    case SCAN_SUM: dy[0] = scan(t[0], SCAN_SUM, a->axis, a->reverse); break;
    case SCAN_PROD:
        dy[0] = recurrence(x, mx_multiply(t[0], shifted(y, a->axis, a->reverse, 1)), a->axis, a->reverse);
        break;
    case SCAN_MIN:
    case SCAN_MAX: dy[0] = mx_take_along_axis(t[0], place_of_extreme(x, y, a), a->axis); break;
    case SCAN_LOGSUMEXP: {
        mx w = wider(x), total = scan(w, SCAN_LOGSUMEXP, a->axis, a->reverse);
        mx kept = ratio(shifted(total, a->axis, a->reverse, -INFINITY), total);
        dy[0] = mx_astype(recurrence(kept, mx_multiply(t[0], ratio(w, total)), a->axis, a->reverse), x->dtype);
    }
    }
}

static void cumulative_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct scan_args *a = c->args;
    y[0] = scan(batch_first(c->x[0], axis[0]), (enum scan_fold)a->fold, a->axis + 1, a->reverse);
    yaxis[0] = 0;
}

const struct op op_scan = {
    OP_ROW(scan),          ARGS(scan_args),       .shapes = scan_shapes,
    .vjp = cumulative_vjp, .jvp = cumulative_jvp, .vmap = cumulative_vmap,
};

/* ---- the recurrence */

static void recurrence_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct recurrence_args *r = c->args;
    mx g = recurrence(conjugated(shifted(c->x[0], r->axis, !r->reverse, 0)), ct[0], r->axis, !r->reverse);
    if (want[0])
        dx[0] = mx_multiply(g, conjugated(shifted(c->y[0], r->axis, r->reverse, 0)));
    if (want[1])
        dx[1] = g;
}

static void recurrence_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct recurrence_args *r = c->args;
    mx b = t[1];
    if (t[0]) {
        mx v = mx_multiply(t[0], shifted(c->y[0], r->axis, r->reverse, 0));
        b = b ? mx_add(b, v) : v;
    }
    dy[0] = recurrence(c->x[0], b, r->axis, r->reverse);
}

static void recurrence_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct recurrence_args *r = c->args;
    struct size n = batch_size(c, axis);
    y[0] = recurrence(batch_all(c->x[0], axis[0], n), batch_all(c->x[1], axis[1], n), r->axis + 1, r->reverse);
    yaxis[0] = 0;
}

static int recurrence_shapes(const struct call *c, struct spec out[])
{
    if (!same_shape(c->x[0], c->x[1]))
        return failed(mx_fail("[recurrence] expected operands of one shape, got %s and %s", shape_of(c->x[0]),
                              shape_of(c->x[1])));
    return spec_like(out, c->x[1]);
}

const struct op op_recurrence = {
    OP_ROW(recurrence),    ARGS(recurrence_args), .shapes = recurrence_shapes,
    .vjp = recurrence_vjp, .jvp = recurrence_jvp, .vmap = recurrence_vmap,
};

/* ---- builders */

static double identity(enum scan_fold f) { return (double[]){ 0, 1, INFINITY, -INFINITY, -INFINITY }[f]; }

mx mx_scan(mx x, enum scan_fold f, int axis, bool reverse, bool inclusive)
{
    if (is_nil(x) || (axis = axis_of(scan_fold_name(f), axis, x->ndim)) < 0)
        return MX_NIL;
    if (f == SCAN_SUM && x->dtype == DT_bool_)
        x = mx_astype(x, DT_int32);
    if (f == SCAN_LOGSUMEXP && !dtype_is_inexact(x->dtype))
        x = mx_astype(x, DT_float32);
    /* Columns of which there are few are better scanned as rows. */
    int64_t inner = 1;
    for (int i = axis + 1; i < x->ndim; i++) inner *= x->shape[i];
    bool any = x->tracer && shapeless() && axis < x->ndim - 1;
    if ((inner > 1 || any) && (f == SCAN_LOGSUMEXP || (inner < 16 && x->shape[axis] > 64)))
        return mx_moveaxis(mx_scan(mx_moveaxis(x, axis, -1), f, -1, reverse, inclusive), -1, axis);
    if (inclusive)
        return scan(x, f, axis, reverse);
    double first = identity(f);
    if (x->dtype == DT_bool_ && isinf(first))
        first = first > 0;
    return scan(shifted(x, axis, reverse, first), f, axis, reverse);
}

mx mx_cumsum(mx x, int axis, bool reverse, bool inclusive) { return mx_scan(x, SCAN_SUM, axis, reverse, inclusive); }
