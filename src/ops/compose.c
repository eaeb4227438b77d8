/* compose.c: operations made of views, copies and products. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"

/* ---- products */

/* Axes from..from + n - 1 of x as one. */
static mx merged_axes(mx x, int from, int n)
{
    return n == 0 ? mx_expand_dims(x, &from, 1) : mx_flatten(x, from, from + n - 1);
}

/* The axes of x that are not among `axes`, then those, or the other way round; as one matrix. */
static mx folded_to_matrix(mx x, const int *axes, int n, bool folded_last, int *kept, struct size *kept_sizes)
{
    int perm[MX_MAX_NDIM], m = 0;
    bool folded[MX_MAX_NDIM] = { 0 };
    for (int i = 0; i < n; i++) folded[axes[i]] = true;
    *kept = 0;
    if (!folded_last)
        for (int i = 0; i < n; i++) perm[m++] = axes[i];
    for (int i = 0; i < x->ndim; i++)
        if (!folded[i]) {
            perm[m++] = i;
            kept_sizes[(*kept)++] = size_of(x, i);
        }
    if (folded_last)
        for (int i = 0; i < n; i++) perm[m++] = axes[i];
    int first = folded_last ? *kept : n;
    mx y = mx_transpose(x, perm, x->ndim);
    y = merged_axes(merged_axes(y, first, x->ndim - first), 0, first);
    int64_t rows = 1, cols = 1;
    for (int i = 0; i < x->ndim; i++) *(folded[i] ? &cols : &rows) *= x->shape[i];
    if (rows > INT32_MAX || cols > INT32_MAX)
        return mx_fail("[tensordot] the operand of shape %s makes a matrix of %lld by %lld, past 2^31", shape_of(x),
                       (long long)rows, (long long)cols);
    return y;
}

mx mx_tensordot(mx a, mx b, const int *axes_a, int n_a, const int *axes_b, int n_b)
{
    int fa[MX_MAX_NDIM], fb[MX_MAX_NDIM], na, nb;
    struct size sizes[2 * MX_MAX_NDIM];
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    if (n_a != n_b)
        return mx_fail("[tensordot] expected as many axes of one operand as of the other, got %d and %d", n_a, n_b);
    for (int i = 0; i < n_a; i++) {
        if ((fa[i] = axis_of("tensordot", axes_a[i], a->ndim)) < 0 ||
            (fb[i] = axis_of("tensordot", axes_b[i], b->ndim)) < 0)
            return MX_NIL;
        if (a->shape[fa[i]] != b->shape[fb[i]])
            return mx_fail("[tensordot] expected axes of one size, got axis %d of shape %s and axis %d of shape %s",
                           axes_a[i], shape_of(a), axes_b[i], shape_of(b));
        for (int k = 0; k < i; k++)
            if (fa[k] == fa[i] || fb[k] == fb[i])
                return mx_fail("[tensordot] expected distinct axes, got %d and %d twice", axes_a[i], axes_b[i]);
    }
    mx p = folded_to_matrix(a, fa, n_a, true, &na, sizes), q = folded_to_matrix(b, fb, n_b, false, &nb, sizes + na);
    if (na + nb > MX_MAX_NDIM)
        return mx_fail("[tensordot] expected at most %d dimensions of the result, got %d", MX_MAX_NDIM, na + nb);
    mx y = mx_matmul(p, q);
    return na == 1 && nb == 1 ? y : mx_reshape_by(y, na + nb, sizes);
}

mx mx_tensordot_axis(mx a, mx b, int n)
{
    int fa[MX_MAX_NDIM], fb[MX_MAX_NDIM];
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    if (n < 0 || n > a->ndim || n > b->ndim)
        return mx_fail("[tensordot] expected 0 or more axes that both operands have, got %d of shapes %s and %s", n,
                       shape_of(a), shape_of(b));
    for (int i = 0; i < n; i++) {
        fa[i] = a->ndim - n + i;
        fb[i] = i;
    }
    return mx_tensordot(a, b, fa, n, fb, n);
}

mx mx_inner(mx a, mx b)
{
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    if (a->ndim == 0 || b->ndim == 0)
        return mx_multiply(a, b);
    if (dim(a, -1) != dim(b, -1))
        return mx_fail("[inner] expected last axes of one size, got shapes %s and %s", shape_of(a), shape_of(b));
    return mx_tensordot(a, b, (int[]){ -1 }, 1, (int[]){ -1 }, 1);
}

static mx flat(mx x) { return mx_reshape(x, 1, (int[]){ -1 }); }

mx mx_outer(mx a, mx b) { return mx_multiply(mx_expand_dims(flat(a), (int[]){ 1 }, 1), flat(b)); }

/* x with n axes and one of size 1 before or behind each of them. */
static mx spread_axes(mx x, int n, bool behind)
{
    int front[MX_MAX_NDIM] = { 0 }, ones[MX_MAX_NDIM] = { 0 };
    for (int i = 0; i < n; i++) {
        front[i] = i;
        ones[i] = 2 * i + behind;
    }
    return mx_expand_dims(mx_expand_dims(x, front, n - x->ndim), ones, n);
}

/* Every two of the 2 n axes of x as one. */
static mx by_twos(mx x, int n)
{
    for (int i = 0; i < n; i++) x = mx_flatten(x, i, i + 1);
    return x;
}

/* Every axis of a beside the one of b, then merged. */
mx mx_kron(mx a, mx b)
{
    int n = a->ndim > b->ndim ? a->ndim : b->ndim;
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    if (2 * n > MX_MAX_NDIM)
        return mx_fail("[kron] expected operands of at most %d dimensions, got %d", MX_MAX_NDIM / 2, n);
    for (int i = 0; i < n; i++) {
        int x = i < n - a->ndim ? 1 : a->shape[i - (n - a->ndim)],
            y = i < n - b->ndim ? 1 : b->shape[i - (n - b->ndim)], both;
        if (__builtin_mul_overflow(x, y, &both))
            return mx_fail("[kron] axis %d of the result would have %d times %d elements, past 2^31", i, x, y);
    }
    return by_twos(mx_multiply(spread_axes(a, n, true), spread_axes(b, n, false)), n);
}

mx mx_vecdot(mx a, mx b, int axis)
{
    int ndim, shape[MX_MAX_NDIM];
    if (is_nil(a) || is_nil(b) || !broadcast_shape("vecdot", 2, (mx[]){ a, b }, &ndim, shape))
        return MX_NIL;
    return mx_sum(mx_multiply(mx_conjugate(a), b), &axis, 1, false);
}

/* ---- repeating and turning */

mx mx_repeat(mx x, int repeats, int axis)
{
    if (is_nil(x) || (axis = axis_of("repeat", axis, x->ndim)) < 0)
        return MX_NIL;
    if (repeats < 0)
        return mx_fail("[repeat] expected a number of repeats that is not negative, got %d", repeats);
    struct size sizes[MX_MAX_NDIM + 1];
    int size;
    if (__builtin_mul_overflow(repeats, x->shape[axis], &size))
        return mx_fail("[repeat] axis %d of the result would have %d times %d elements, past 2^31", axis, repeats,
                       x->shape[axis]);
    mx y = mx_expand_dims(x, (int[]){ axis + 1 }, 1);
    if (is_nil(y))
        return y;
    sizes_like(y, sizes);
    sizes[axis + 1] = size_is(repeats);
    return mx_flatten(mx_broadcast_by(y, y->ndim, sizes), axis, axis + 1);
}

mx mx_repeat_flat(mx x, int repeats) { return mx_repeat(flat(x), repeats, 0); }

/* One axis so many times.  Those before it and those behind are one each meanwhile, so that there is room for
 * another. */
static mx tile_axis(mx x, int axis, int reps)
{
    struct size wide[4], sizes[MX_MAX_NDIM];
    int m = x->ndim, at = axis > 0;
    mx y = axis < m - 2 ? mx_flatten(x, axis + 1, m - 1) : x;
    y = axis > 1 ? mx_flatten(y, 0, axis - 1) : y;
    y = mx_expand_dims(y, &at, 1);
    if (is_nil(y))
        return y;
    sizes_like(y, wide);
    wide[at] = size_is(reps);
    y = mx_flatten(mx_broadcast_by(y, y->ndim, wide), at, at + 1);
    if (is_nil(y))
        return y;
    sizes_like(x, sizes);
    sizes[axis] = size_of(y, at);
    return mx_reshape_by(y, m, sizes);
}

mx mx_tile(mx x, const int *reps, int n)
{
    int m = x->ndim > n ? x->ndim : n, front[MX_MAX_NDIM];
    struct size wide[2 * MX_MAX_NDIM];
    if (is_nil(x))
        return x;
    if (m > MX_MAX_NDIM)
        return mx_fail("[tile] expected at most %d dimensions, got %d", MX_MAX_NDIM, m);
    for (int i = 0; i < m; i++) {
        struct size size = i < m - x->ndim ? size_is(1) : size_of(x, i - (m - x->ndim));
        int r = i < m - n ? 1 : reps[i - (m - n)], all;
        if (r < 0)
            return mx_fail("[tile] expected numbers of repeats that are not negative, got %d", r);
        wide[2 * i] = size_is(r);
        wide[2 * i + 1] = size;
        if (__builtin_mul_overflow(r, size.now, &all))
            return mx_fail("[tile] axis %d of the result would have %d times %d elements, past 2^31", i, r, size.now);
    }
    if (2 * m <= MX_MAX_NDIM)
        return by_twos(mx_broadcast_by(spread_axes(x, m, false), 2 * m, wide), m);
    for (int i = 0; i < m - x->ndim; i++) front[i] = i;
    x = mx_expand_dims(x, front, m - x->ndim);
    for (int i = 0; i < n && !is_nil(x); i++)
        if (reps[i] != 1)
            x = tile_axis(x, m - n + i, reps[i]);
    return x;
}

mx mx_roll_by(mx x, mx by, int axis)
{
    if (is_nil(x) || is_nil(by))
        return MX_NIL;
    struct size n = size_of(x, axis);
    mx place = mx_subtract(mx_arange_by(1, &n, DT_int64), by);
    return mx_take(x, mx_remainder(place, mx_number_of_elements(x, &axis, 1, false, DT_int64)), axis);
}

static mx rolled(mx x, int axis, int64_t by)
{
    if (size_of(x, axis).of)
        return mx_roll_by(x, array_of_int(by, DT_int64), axis);
    int size = dim(x, axis);
    by = size ? by % size : 0;
    int at = (int)(by > 0 ? size - by : -by);
    if (!at)
        return x;
    return mx_concatenate(2, (mx[]){ mx_slice_axis(x, axis, at, size, 1), mx_slice_axis(x, axis, 0, at, 1) }, axis);
}

mx mx_roll(mx x, const int *shift, int n_shift, const int *axes, int n)
{
    if (is_nil(x))
        return x;
    if (!axes) {
        int64_t sum = 0;
        for (int i = 0; i < n_shift; i++) sum += shift[i];
        return mx_reshape_like(rolled(flat(x), 0, sum), x);
    }
    if (n_shift != n && n_shift != 1 && n != 1)
        return mx_fail("[roll] expected one shift or one for each of the %d axes, got %d", n, n_shift);
    int64_t sum[MX_MAX_NDIM] = { 0 }; /* several shifts of one axis add up */
    bool moved[MX_MAX_NDIM] = { false };
    for (int i = 0; i < n || (n == 1 && i < n_shift); i++) {
        int a = axis_of("roll", axes[n == 1 ? 0 : i], x->ndim);
        if (a < 0)
            return MX_NIL;
        sum[a] += shift[n_shift == 1 ? 0 : i];
        moved[a] = true;
    }
    for (int a = 0; a < x->ndim; a++)
        if (moved[a])
            x = rolled(x, a, sum[a]);
    return x;
}

bool mx_meshgrid(int n, const mx x[], bool sparse, bool xy, mx y[])
{
    struct size full[MX_MAX_NDIM];
    if (n > MX_MAX_NDIM)
        return mx_fail("[meshgrid] expected at most %d arrays, for as many dimensions of the results, got %d",
                       MX_MAX_NDIM, n),
               false;
    for (int i = 0; i < n; i++) {
        int at = xy && i < 2 && n > 1 ? 1 - i : i, ones[MX_MAX_NDIM];
        for (int k = 0; k < n - 1; k++) ones[k] = k < at ? k : k + 1;
        y[i] = flat(x[i]);
        full[at] = size_of(y[i], 0);
        y[i] = mx_expand_dims(y[i], ones, n - 1);
    }
    for (int i = 0; i < n && !sparse; i++) y[i] = mx_broadcast_by(y[i], n, full);
    return !mx_failed();
}

/* ---- diagonals */

mx mx_diag(mx x, int k)
{
    if (is_nil(x))
        return x;
    if (x->ndim == 2)
        return mx_diagonal(x, k, 0, 1);
    if (x->ndim != 1)
        return mx_fail("[diag] expected an array of one or two dimensions, got shape %s", shape_of(x));
    int64_t size = (int64_t)x->shape[0] + llabs(k);
    if (size > INT32_MAX)
        return mx_fail("[diag] the matrix would have %lld rows, past 2^31", (long long)size);
    int zero = 0, more = (int)size - x->shape[0];
    mx padded = mx_pad(x, &zero, 1, &zero, &more, mx_scalar_like(0, x), PAD_CONSTANT);
    /* Element (i, i + k) is v[i], or v[i + k] below the main diagonal. */
    mx lines = mx_expand_dims(padded, (int[]){ k >= 0 }, 1);
    struct size n = size_of(padded, 0);
    return mx_where(mx_eye_by(n, n, k, DT_bool_), lines, mx_scalar_like(0, x));
}

mx mx_trace(mx x, int offset, int axis1, int axis2, enum dtype t)
{
    mx d = mx_diagonal(x, offset, axis1, axis2);
    return mx_sum(mx_astype(d, t), (int[]){ -1 }, 1, false);
}

mx mx_diff(mx x, int n, int axis)
{
    if (is_nil(x))
        return x;
    if (n < 0)
        return mx_fail("[diff] expected an order that is not negative, got %d", n);
    if (x->ndim == 0)
        return mx_fail_as(MX_AXIS, "[diff] expected at least one dimension, got a scalar");
    if ((axis = axis_of("diff", axis, x->ndim)) < 0)
        return MX_NIL;
    enum { MANY = 64 }; /* nodes where the axis may have been used up long before */
    bool any = x->tracer && shapeless();
    if (any && n > MANY && n > x->shape[axis]) {
        shapes_matter("diff");
        any = false;
    }
    for (; n > 0 && !is_nil(x) && (any || x->shape[axis] > 0); n--) {
        mx after = mx_slice_axis(x, axis, 1, TO_END, 1), before = mx_slice_axis(x, axis, 0, -1, 1);
        x = x->dtype == DT_bool_ ? mx_not_equal(after, before) : mx_subtract(after, before);
    }
    return x;
}

/* ---- windows: sums of cosines, and a triangle */

/* What is small is there at once. */
enum { WINDOW_AT_ONCE = 1 << 16 };

static mx lazy_window(int n, double a0, double a1, double a2, bool triangle)
{
#define NUMBER(v) array_of_double(v, DT_float64)
    mx t = mx_divide(mx_arange(0, n, 1, DT_float64), NUMBER(n - 1)), y;
    if (triangle) {
        y = mx_subtract(NUMBER(1), mx_abs(mx_subtract(mx_multiply(t, NUMBER(2)), NUMBER(1))));
    } else {
        y = mx_subtract(NUMBER(a0), mx_multiply(NUMBER(a1), mx_cos(mx_multiply(t, NUMBER(2 * M_PI)))));
        if (a2 != 0)
            y = mx_add(y, mx_multiply(NUMBER(a2), mx_cos(mx_multiply(t, NUMBER(4 * M_PI)))));
    }
    return mx_astype(y, DT_float32);
#undef NUMBER
}

static mx window(int n, double a0, double a1, double a2, bool triangle)
{
    n = n < 0 ? 0 : n; /* as NumPy */
    if (n > WINDOW_AT_ONCE)
        return lazy_window(n, a0, a1, a2, triangle);
    struct buffer *b = buffer_new((size_t)n * sizeof(float)); /* refused beyond the limit, before the work */
    if (!b)
        return MX_NIL;
    float *v = b->host;
    for (int i = 0; i < n; i++) {
        double t = n == 1 ? 0.5 : (double)i / (n - 1);
        v[i] = (float)(n == 1     ? 1
                       : triangle ? 1 - fabs(2 * t - 1)
                                  : a0 - a1 * cos(2 * M_PI * t) + a2 * cos(4 * M_PI * t));
    }
    return array_of_buffer(DT_float32, 1, &n, b);
}

mx mx_bartlett(int n) { return window(n, 0, 0, 0, true); }
mx mx_hanning(int n) { return window(n, 0.5, 0.5, 0, false); }
mx mx_hamming(int n) { return window(n, 0.54, 0.46, 0, false); }
mx mx_blackman(int n) { return window(n, 0.42, 0.5, 0.08, false); }

/* ---- elements to the places of a mask */

mx mx_mask_order(mx mask, int axis)
{
    mx order = mx_cumsum(mx_astype(mask, DT_int32), axis, false, true);
    return mx_maximum(mx_subtract(order, array_of_int(1, DT_int32)), array_of_int(0, DT_int32));
}

mx mx_masked_scatter(mx x, mx mask, mx from)
{
    if (is_nil(x) || is_nil(mask) || is_nil(from))
        return MX_NIL;
    if (mask->ndim > x->ndim || (mask->ndim && memcmp(mask->shape, x->shape, (size_t)mask->ndim * sizeof(int))))
        return mx_fail("[masked_scatter] expected a mask of the array's shape %s or that of its first dimensions, "
                       "got %s",
                       shape_of(x), shape_of(mask));
    if ((x->size == 0 || from->size == 0) && !(shapeless() && (x->tracer || from->tracer)))
        return x;
    int ones[MX_MAX_NDIM];
    for (int i = mask->ndim; i < x->ndim; i++) ones[i - mask->ndim] = i;
    mask = mx_expand_dims(mx_astype(mask, DT_bool_), ones, x->ndim - mask->ndim);
    mask = mx_broadcast_like(mask, x);
    mx taken = mx_take(flat(mx_astype(from, x->dtype)), mx_mask_order(flat(mask), 0), 0);
    return mx_where(mask, mx_reshape_like(taken, x), x);
}
