/* reduce.c: folding axes away: sums, products, extremes, and what is built on them.
 *
 * A reduce node keeps every axis, with size 1 where it folds; dropping them is a view.  Softmax and
 * logsumexp work on the last axis; builders move other axes there.  Half types accumulate in
 * float32 or more, and a reduce may hand its result out wider than it came in (`dtype`), so that a
 * mean of float16 does not overflow in its sum. */
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "ops/reduce.h"
#include "ops/rules.h"

static const struct field reduce_args_fields[] = {
    ENUM(reduce_args, fold, FOLD_ANY), FIELD(reduce_args, axes), ENUM(reduce_args, dtype, DT_COUNT - 1), { 0 }
};

const char *fold_name(enum fold f) { return (const char *[]){ "sum", "prod", "min", "max", "all", "any" }[f]; }

static int to_int(struct ints v, int *out)
{
    for (int i = 0; i < v.n; i++) out[i] = (int)v.v[i];
    return v.n;
}

static void keep_shape(mx x, struct ints axes, int *shape)
{
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof(int));
    for (int i = 0; i < axes.n; i++) shape[axes.v[i]] = 1;
}

static int reduce_shapes(const struct call *c, struct spec out[])
{
    const struct reduce_args *a = c->args;
    if (a->fold == FOLD_MIN || a->fold == FOLD_MAX)
        for (int i = 0; i < a->axes.n; i++)
            if (dim(c->x[0], (int)a->axes.v[i]) == 0)
                return mx_fail("[%s] expected at least one element along axis %d, got shape %s", fold_name(a->fold),
                               (int)a->axes.v[i], shape_of(c->x[0])),
                       1;
    out->dtype = a->dtype;
    out->ndim = c->x[0]->ndim;
    keep_shape(c->x[0], a->axes, out->shape);
    return 0;
}

/* Brings the axes to the end, several as one; perm and the shape of `spread` undo it. */
struct moved {
    int ndim, perm[MX_MAX_NDIM];
    mx spread;
    bool trivial;
};

static mx axes_last(const char *name, mx x, const int *axes, int n, struct moved *m)
{
    int a[MX_MAX_NDIM], kept = 0;
    if (is_nil(x) || (n = axes_of(name, axes, n, x->ndim, a)) < 0)
        return MX_NIL;
    bool folded[MX_MAX_NDIM] = { 0 };
    for (int i = 0; i < n; i++) folded[a[i]] = true;
    m->ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++)
        if (!folded[i])
            m->perm[kept++] = i;
    for (int i = 0; i < n; i++) m->perm[kept + i] = a[i];
    m->trivial = n == 1 && a[0] == x->ndim - 1;
    if (m->trivial)
        return x;
    mx y = m->spread = mx_transpose(x, m->perm, x->ndim);
    return n == 0 ? mx_expand_dims(y, (int[]){ -1 }, 1) : mx_flatten(y, kept, -1);
}

static mx axes_back(mx y, const struct moved *m)
{
    if (is_nil(y) || m->trivial)
        return y;
    int inverse[MX_MAX_NDIM];
    for (int i = 0; i < m->ndim; i++) inverse[m->perm[i]] = i;
    if (y->ndim != m->ndim)
        y = y->ndim > m->ndim ? mx_squeeze(y, (int[]){ -1 }, 1) : mx_reshape_like(y, m->spread);
    return mx_transpose(y, inverse, m->ndim);
}

/* dy/dx of a product: that of the factors before times that of those after, whatever is zero. */
static mx product_of_others(mx x, const int *axes, int n)
{
    struct moved m;
    mx z = axes_last("prod", x, axes, n, &m);
    mx before = mx_scan(z, SCAN_PROD, -1, false, false), after = mx_scan(z, SCAN_PROD, -1, true, false);
    return axes_back(mx_multiply(before, after), &m);
}

/* Each element's share of the result's derivative. */
static mx reduce_partial(const struct call *c)
{
    const struct reduce_args *a = c->args;
    int axes[MX_MAX_NDIM], n = to_int(a->axes, axes);
    mx x = c->x[0];
    if (a->fold == FOLD_PROD)
        return product_of_others(x, axes, n);
    mx hit = mx_astype(mx_equal(x, mx_astype(c->y[0], x->dtype)), x->dtype); /* ties share */
    return mx_divide(hit, mx_sum(hit, axes, n, true));
}

static void reduce_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    const struct reduce_args *a = c->args;
    mx x = c->x[0];
    if (x->dtype == DT_bool_ || a->fold == FOLD_ALL || a->fold == FOLD_ANY)
        return;
    mx d = mx_astype(ct[0], x->dtype);
    if (a->fold == FOLD_SUM) {
        dx[0] = mx_broadcast_like(d, x);
        return;
    }
    mx p = reduce_partial(c);
    dx[0] = mx_astype(mx_multiply(d, dtype_is_complex(x->dtype) ? mx_conjugate(p) : p), x->dtype);
}

static void reduce_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct reduce_args *a = c->args;
    if (c->x[0]->dtype == DT_bool_ || a->fold == FOLD_ALL || a->fold == FOLD_ANY)
        return;
    mx v = a->fold == FOLD_SUM ? t[0] : mx_astype(mx_multiply(t[0], reduce_partial(c)), c->x[0]->dtype);
    struct reduce_args sum = { FOLD_SUM, a->axes, a->dtype };
    dy[0] = mx_infer(&op_reduce, &sum, 1, &v);
}

/* The batch goes to the front, the axes move up by one. */
static void reduce_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct reduce_args *a = c->args;
    int64_t axes[MX_MAX_NDIM];
    for (int i = 0; i < a->axes.n; i++) axes[i] = a->axes.v[i] + 1;
    mx x = mx_moveaxis(c->x[0], axis[0], 0);
    y[0] = mx_infer(c->op, &(struct reduce_args){ a->fold, { a->axes.n, axes }, a->dtype }, 1, &x);
    yaxis[0] = 0;
}

const struct op op_reduce = {
    OP_ROW(reduce),    ARGS(reduce_args), .shapes = reduce_shapes,
    .vjp = reduce_vjp, .jvp = reduce_jvp, .vmap = reduce_vmap,
};

/* ---- builders */

static mx drop_axes(mx y, const int *axes, int n, bool keepdims)
{
    return keepdims || n == 0 ? y : mx_squeeze(y, axes, n);
}

static mx reduce_as(const char *name, mx x, enum fold f, const int *axes, int n, bool keepdims, enum dtype out)
{
    if (is_nil(x))
        return x;
    int a[MX_MAX_NDIM];
    if ((n = axes_of(name, axes, n, x->ndim, a)) < 0)
        return MX_NIL;
    if (f == FOLD_MIN || f == FOLD_MAX)
        for (int i = 0; i < n; i++)
            if (x->shape[a[i]] == 0)
                return mx_fail("[%s] expected at least one element along axis %d, got shape %s", name, a[i],
                               shape_of(x));
    if (n == 0)
        return mx_astype(x, out);
    int64_t v[MX_MAX_NDIM];
    for (int i = 0; i < n; i++) v[i] = a[i];
    mx y = mx_infer(&op_reduce, &(struct reduce_args){ f, { n, v }, out }, 1, &x);
    return drop_axes(y, a, n, keepdims);
}

/* Sums of narrow integers have 32 bits, and their sign; those of bool are int32. */
static enum dtype sum_dtype(enum dtype t)
{
    if (t == DT_uint8 || t == DT_uint16)
        return DT_uint32;
    return t == DT_bool_ || t == DT_int8 || t == DT_int16 ? DT_int32 : t;
}

mx mx_reduce(mx x, enum fold f, const int *axes, int n, bool keepdims)
{
    if (is_nil(x))
        return x;
    enum dtype t = x->dtype, out = t;
    if (f == FOLD_SUM || f == FOLD_PROD)
        out = sum_dtype(t);
    if (f == FOLD_ALL || f == FOLD_ANY) {
        x = mx_astype(x, DT_bool_);
        out = DT_bool_;
    }
    return reduce_as(fold_name(f), x, f, axes, n, keepdims, out);
}

mx mx_sum(mx x, const int *axes, int n, bool k) { return mx_reduce(x, FOLD_SUM, axes, n, k); }
mx mx_prod(mx x, const int *axes, int n, bool k) { return mx_reduce(x, FOLD_PROD, axes, n, k); }
mx mx_min(mx x, const int *axes, int n, bool k) { return mx_reduce(x, FOLD_MIN, axes, n, k); }
mx mx_max(mx x, const int *axes, int n, bool k) { return mx_reduce(x, FOLD_MAX, axes, n, k); }
mx mx_all(mx x, const int *axes, int n, bool k) { return mx_reduce(x, FOLD_ALL, axes, n, k); }
mx mx_any(mx x, const int *axes, int n, bool k) { return mx_reduce(x, FOLD_ANY, axes, n, k); }

static double count_along(const char *name, mx x, const int *axes, int n)
{
    int a[MX_MAX_NDIM];
    if ((n = axes_of(name, axes, n, x->ndim, a)) < 0)
        return 1;
    double m = 1;
    for (int i = 0; i < n; i++) m *= x->shape[a[i]];
    return m;
}

/* count - ddof, or 0 where that is negative, as a scalar. */
static mx count_of(const char *name, mx x, const int *axes, int n, double ddof, enum dtype t)
{
    int a[MX_MAX_NDIM];
    if (!shapeless() || !x->tracer) {
        double m = count_along(name, x, axes, n) - ddof;
        return array_of_double(m < 0 ? 0 : m, t);
    }
    if ((n = axes_of(name, axes, n, x->ndim, a)) < 0)
        return MX_NIL;
    mx m = mx_number_of_elements(x, a, n, false, t);
    return ddof ? mx_maximum(mx_subtract(m, mx_scalar_like(ddof, m)), mx_scalar_like(0, m)) : m;
}

/* The mean in the type that sums are kept in: float32 for half types. */
static mx wide_mean(const char *name, mx x, const int *axes, int n, bool keepdims)
{
    enum dtype t = dtype_is_half(x->dtype) ? DT_float32 : x->dtype;
    mx sum = reduce_as(name, x, FOLD_SUM, axes, n, keepdims, t);
    return mx_divide(sum, count_of(name, x, axes, n, 0, t));
}

static mx as_inexact(mx x) { return dtype_is_inexact(x->dtype) ? x : mx_astype(x, DT_float32); }

mx mx_mean(mx x, const int *axes, int n, bool keepdims)
{
    x = as_inexact(x);
    return is_nil(x) ? x : mx_astype(wide_mean("mean", x, axes, n, keepdims), x->dtype);
}

/* Two passes: the mean, then the mean square of what is left. */
mx mx_var(mx x, const int *axes, int n, bool keepdims, double ddof)
{
    x = as_inexact(x);
    if (is_nil(x))
        return x;
    enum dtype t = dtype_is_complex(x->dtype) ? DT_float32 : x->dtype;
    mx d = mx_subtract(x, wide_mean("var", x, axes, n, true));
    mx square = dtype_is_complex(d->dtype) ? mx_add(mx_square(mx_real(d)), mx_square(mx_imag(d))) : mx_square(d);
    mx sum = mx_sum(square, axes, n, keepdims);
    return mx_astype(mx_divide(sum, count_of("var", x, axes, n, ddof, sum->dtype)), t);
}

mx mx_std(mx x, const int *axes, int n, bool keepdims, double ddof)
{
    return mx_root(mx_var(x, axes, n, keepdims, ddof));
}

mx mx_sum_to_like(mx x, mx like)
{
    int axes[MX_MAX_NDIM], gone[MX_MAX_NDIM], n = 0;
    if (is_nil(x) || is_nil(like))
        return MX_NIL;
    int extra = x->ndim - like->ndim;
    bool other_sizes = shapeless() && x->tracer; /* may come, where an axis has one element now */
    for (int i = 0; i < extra; i++) gone[i] = i;
    for (int i = 0; i < x->ndim; i++)
        if ((i < extra || like->shape[i - extra] == 1) && (x->shape[i] != 1 || (i < extra && other_sizes)))
            axes[n++] = i;
    mx y = n ? reduce_as("sum", x, FOLD_SUM, axes, n, true, x->dtype) : x;
    return mx_shape_checked(extra ? mx_squeeze(y, gone, extra) : y, like);
}

/* ---- the last axis: softmax and logsumexp */

static int reduce_same_shapes(const struct call *c, struct spec out[])
{
    out->dtype = c->x[0]->dtype;
    out->ndim = c->x[0]->ndim;
    memcpy(out->shape, c->x[0]->shape, (size_t)out->ndim * sizeof(int));
    return 0;
}

static int last_shapes(const struct call *c, struct spec out[])
{
    reduce_same_shapes(c, out);
    out->shape[out->ndim - 1] = 1;
    return 0;
}

/* Any axis but the last may be a batch; the last is kept last. */
static void last_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx x = mx_moveaxis(c->x[0], axis[0], 0);
    y[0] = mx_infer(c->op, c->args, 1, &x);
    yaxis[0] = 0;
}

static const int last[] = { -1 };

/* y (t - sum(t y)): the Jacobian is symmetric. */
static mx softmax_times(mx y, mx t) { return mx_multiply(y, mx_subtract(t, mx_sum(mx_multiply(t, y), last, 1, true))); }

static void softmax_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    dx[0] = softmax_times(c->y[0], ct[0]);
}

static void softmax_jvp(const struct call *c, const mx t[], mx dy[]) { dy[0] = softmax_times(c->y[0], t[0]); }

const struct op op_softmax = {
    OP_ROW(softmax), .shapes = reduce_same_shapes, .vjp = softmax_vjp, .jvp = softmax_jvp, .vmap = last_vmap,
};

static mx as_wide(mx x) { return dtype_is_half(x->dtype) ? mx_astype(x, DT_float32) : x; }

/* softmax(x) of y = log_softmax(x), element by element, unless y was rounded to a half type. */
static mx softmax_of_log(mx x, mx y)
{
    return dtype_is_half(y->dtype) ? mx_softmax(as_wide(x), last, 1, false) : mx_exp(y);
}

/* t - softmax(x) sum(t) back, t - sum(t softmax(x)) forward; of half types in float32. */
static void log_softmax_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    mx p = softmax_of_log(c->x[0], c->y[0]), t = as_wide(ct[0]);
    dx[0] = mx_astype(mx_subtract(t, mx_multiply(p, mx_sum(t, last, 1, true))), c->x[0]->dtype);
}

static void log_softmax_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx p = softmax_of_log(c->x[0], c->y[0]), v = as_wide(t[0]);
    dy[0] = mx_astype(mx_subtract(v, mx_sum(mx_multiply(p, v), last, 1, true)), c->x[0]->dtype);
}

const struct op op_log_softmax = {
    OP_ROW(log_softmax), .shapes = reduce_same_shapes, .vjp = log_softmax_vjp, .jvp = log_softmax_jvp,
    .vmap = last_vmap,
};

static void logsumexp_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    dx[0] = mx_multiply(ct[0], mx_softmax(c->x[0], last, 1, false));
}

static void logsumexp_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = mx_sum(mx_multiply(t[0], mx_softmax(c->x[0], last, 1, false)), last, 1, true);
}

const struct op op_logsumexp = {
    OP_ROW(logsumexp), .shapes = last_shapes, .vjp = logsumexp_vjp, .jvp = logsumexp_jvp, .vmap = last_vmap,
};

/* ---- the parts of logsumexp */

static int parts_shapes(const struct call *c, struct spec out[])
{
    for (int k = 0; k < 2; k++) {
        last_shapes(c, &out[k]);
        out[k].dtype = c->x[0]->dtype == DT_float64 ? DT_float64 : DT_float32;
    }
    return 0;
}

/* softmax(x), element by element. */
static mx softmax_by_parts(const struct call *c)
{
    mx x = mx_astype(c->x[0], c->y[0]->dtype);
    return mx_exp(mx_subtract(mx_subtract(x, c->y[0]), c->y[1]));
}

/* The largest counts as a number: what it would add to one part it would take from the other. */
static void parts_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    if (ct[1])
        dx[0] = mx_astype(mx_multiply(ct[1], softmax_by_parts(c)), c->x[0]->dtype);
}

static void parts_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx p = softmax_by_parts(c);
    dy[1] = mx_sum(mx_multiply(mx_astype(t[0], c->y[1]->dtype), p), last, 1, true);
}

static void parts_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx x = mx_moveaxis(c->x[0], axis[0], 0);
    mx_infer_n(c->op, NULL, 1, &x, 2, y);
    yaxis[0] = yaxis[1] = 0;
}

const struct op op_logsumexp_parts = {
    OP_ROW(logsumexp_parts), .shapes = parts_shapes, .vjp = parts_vjp, .jvp = parts_jvp, .vmap = parts_vmap,
};

/* Half types always accumulate in float32, so `precise` changes nothing here. */
mx mx_softmax(mx x, const int *axes, int n, bool precise)
{
    (void)precise;
    struct moved m;
    x = as_inexact(x);
    if (dtype_is_complex(x->dtype)) {
        mx re = mx_real(x), largest = x->size ? mx_max(re, axes, n, true) : mx_sum(re, axes, n, true);
        mx e = mx_exp(mx_subtract(x, mx_astype(largest, DT_complex64)));
        return mx_divide(e, mx_sum(e, axes, n, true));
    }
    mx z = axes_last("softmax", x, axes, n, &m);
    return axes_back(mx_node(&op_softmax, NULL, 1, &z, z->ndim, z->shape, z->dtype), &m);
}

/* y, of size 1 for what axes_last brought to the end, without it or with an axis of size 1 for each. */
static mx folded_back(mx y, const struct moved *m, const int *a, int n, bool keepdims)
{
    if (m->trivial)
        return drop_axes(y, a, n, keepdims);
    y = mx_squeeze(y, last, 1);
    return keepdims ? mx_expand_dims(y, a, n) : y;
}

void mx_logsumexp_parts(mx x, const int *axes, int n, bool keepdims, mx out[2])
{
    struct moved m;
    int a[MX_MAX_NDIM];
    out[0] = out[1] = MX_NIL;
    x = as_inexact(x);
    if (is_nil(x) || (n = axes_of("logsumexp", axes, n, x->ndim, a)) < 0)
        return;
    if (dtype_is_complex(x->dtype)) {
        mx re = mx_real(x), largest = x->size ? mx_max(re, axes, n, true) : mx_sum(re, axes, n, true);
        mx most = mx_stop_gradient(mx_astype(largest, DT_complex64));
        mx sum = mx_sum(mx_exp(mx_subtract(x, most)), axes, n, true);
        out[0] = drop_axes(most, a, n, keepdims);
        out[1] = drop_axes(mx_log(sum), a, n, keepdims);
        return;
    }
    mx z = axes_last("logsumexp", x, axes, n, &m);
    mx_infer_n(&op_logsumexp_parts, NULL, 1, &z, 2, out);
    for (int k = 0; k < 2; k++) out[k] = folded_back(out[k], &m, a, n, keepdims);
}

mx mx_log_softmax(mx x, const int *axes, int n)
{
    struct moved m;
    x = as_inexact(x);
    if (dtype_is_complex(x->dtype)) {
        mx parts[2];
        mx_logsumexp_parts(x, axes, n, true, parts);
        return mx_subtract(mx_subtract(x, parts[0]), parts[1]);
    }
    mx z = axes_last("logsumexp", x, axes, n, &m);
    return axes_back(mx_node(&op_log_softmax, NULL, 1, &z, z->ndim, z->shape, z->dtype), &m);
}

mx mx_logsumexp(mx x, const int *axes, int n, bool keepdims)
{
    struct moved m;
    x = as_inexact(x);
    int a[MX_MAX_NDIM];
    int na = axes_of("logsumexp", axes, n, x->ndim, a);
    if (is_nil(x) || na < 0)
        return MX_NIL;
    if (dtype_is_complex(x->dtype)) {
        mx most = mx_astype(mx_max(mx_real(x), axes, n, true), DT_complex64);
        mx y = mx_add(mx_log(mx_sum(mx_exp(mx_subtract(x, most)), axes, n, true)), most);
        return drop_axes(y, a, na, keepdims);
    }
    int64_t size = 1;
    for (int i = 0; i < na && size <= INT32_MAX; i++) size *= x->shape[a[i]];
    if (na > 1 && size > INT32_MAX) /* no axis is that long: one after the other */
        return drop_axes(mx_logsumexp(mx_logsumexp(x, a, na - 1, true), &a[na - 1], 1, true), a, na, keepdims);
    mx z = axes_last("logsumexp", x, axes, n, &m);
    return folded_back(mx_infer(&op_logsumexp, NULL, 1, &z), &m, a, na, keepdims);
}

/* ---- argmin and argmax */

static const struct field arg_reduce_args_fields[] = { ENUM(arg_reduce_args, fold, ARG_MAX),
                                                       FIELD(arg_reduce_args, axis),
                                                       { 0 } };

static int arg_shapes(const struct call *c, struct spec out[])
{
    reduce_same_shapes(c, out);
    if (dim(c->x[0], ((const struct arg_reduce_args *)c->args)->axis) == 0)
        return mx_fail("[argmin] expected at least one element along axis %d, got shape %s",
                       ((const struct arg_reduce_args *)c->args)->axis, shape_of(c->x[0])),
               1;
    out->dtype = DT_uint32;
    out->shape[((const struct arg_reduce_args *)c->args)->axis] = 1;
    return 0;
}

static void arg_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct arg_reduce_args *a = c->args;
    mx x = mx_moveaxis(c->x[0], axis[0], 0);
    y[0] = mx_infer(c->op, &(struct arg_reduce_args){ a->fold, a->axis + 1 }, 1, &x);
    yaxis[0] = 0;
}

const struct op op_arg_reduce = {
    OP_ROW(arg_reduce), ARGS(arg_reduce_args), .shapes = arg_shapes, .vjp = no_vjp, .jvp = no_jvp, .vmap = arg_vmap,
};

mx mx_arg_reduce(mx x, enum arg_fold f, int axis, bool keepdims)
{
    const char *name = f == ARG_MIN ? "argmin" : "argmax";
    if (is_nil(x))
        return x;
    if (x->ndim == 0) /* as NumPy: a scalar has the one place 0 */
        return axis == 0 || axis == -1 ? array_of_int(0, DT_uint32) : (axis_of(name, axis, 0), MX_NIL);
    int a = axis_of(name, axis, x->ndim);
    if (a < 0)
        return MX_NIL;
    if (x->shape[a] == 0)
        return mx_fail("[%s] expected at least one element along axis %d, got shape %s", name, axis, shape_of(x));
    mx y = mx_infer(&op_arg_reduce, &(struct arg_reduce_args){ f, a }, 1, &x);
    return drop_axes(y, &a, 1, keepdims);
}

mx mx_arg_reduce_all(mx x, enum arg_fold f, bool keepdims)
{
    if (is_nil(x))
        return x;
    mx y = mx_arg_reduce(mx_reshape(x, 1, (int[]){ -1 }), f, 0, false);
    int ones[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++) ones[i] = 1;
    return keepdims ? mx_reshape(y, x->ndim, ones) : y;
}
