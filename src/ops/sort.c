/* sort.c: orders along an axis, and what is built on them.
 *
 * The operations work on the last axis; builders move other axes there.  Orders are stable, and NaN
 * comes last.  A derivative is the same permutation of tangents. */
#include "ops/sort.h"

#include <string.h>

#include "core/scope.h"
#include "ops/rules.h"

static const struct field partition_args_fields[] = { FIELD(partition_args, kth), { 0 } };
static const struct field searchsorted_args_fields[] = { FIELD(searchsorted_args, right), { 0 } };

static int value_shapes(const struct call *c, struct spec out[]) { return spec_like(out, c->x[0]); }

/* Is there an element kth?  A negative one counts from the end. */
static bool has_kth(const struct call *c)
{
    int n = dim(c->x[0], -1), kth = ((const struct partition_args *)c->args)->kth;
    if (kth >= -n && kth < n)
        return true;
    mx_fail("[%s] expected kth from %d to %d for an array of shape %s, got %d", c->op->name, -n, n - 1,
            shape_of(c->x[0]), kth);
    return false;
}

static int partition_shapes(const struct call *c, struct spec out[]) { return !has_kth(c) || value_shapes(c, out); }

static int place_shapes(const struct call *c, struct spec out[])
{
    return spec_set(out, DT_uint32, c->x[0]->ndim, c->x[0]->shape);
}

static int argpartition_shapes(const struct call *c, struct spec out[]) { return !has_kth(c) || place_shapes(c, out); }

/* y = x in the order that took x's elements to y's: ties may be broken in any way, so the two orders
 * that sort both are put together. */
static mx permuted_like(mx x, mx y, mx t)
{
    mx ix = mx_infer(&op_argsort, NULL, 1, &x), iy = mx_infer(&op_argsort, NULL, 1, &y);
    return mx_put_along_axis(zeros_of(t), iy, mx_take_along_axis(t, ix, -1), -1);
}

static void sort_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    if (c->x[0]->dtype != DT_bool_)
        dx[0] = permuted_like(c->y[0], c->x[0], ct[0]);
}

static void sort_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (c->x[0]->dtype != DT_bool_)
        dy[0] = permuted_like(c->x[0], c->y[0], t[0]);
}

/* Any axis but the last may be a batch. */
static void last_axis_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx x = batch_first(c->x[0], axis[0]);
    y[0] = mx_infer(c->op, c->args, 1, &x);
    yaxis[0] = 0;
}

/* An operand with a last axis? */
static bool last_axis_fits(const struct call *c) { return call_has(c, 1, 1) && c->x[0]->ndim > 0; }

const struct op op_sort = {
    OP_ROW(sort), .shapes = value_shapes, .vjp = sort_vjp, .jvp = sort_jvp, .vmap = last_axis_vmap,
};
const struct op op_partition = {
    OP_ROW(partition), ARGS(partition_args),   .shapes = partition_shapes, .vjp = sort_vjp,
    .jvp = sort_jvp,   .vmap = last_axis_vmap, .fits = last_axis_fits,
};
const struct op op_argsort = {
    OP_ROW(argsort), .shapes = place_shapes, .vjp = no_vjp, .jvp = no_jvp, .vmap = last_axis_vmap,
};
const struct op op_argpartition = {
    OP_ROW(argpartition), ARGS(partition_args),   .shapes = argpartition_shapes, .vjp = no_vjp,
    .jvp = no_jvp,        .vmap = last_axis_vmap, .fits = last_axis_fits,
};

/* ---- builders */

/* op along an axis of x. */
static mx sorted_along(const struct op *op, const void *args, mx x, int axis)
{
    mx y = axis == x->ndim - 1 ? x : mx_moveaxis(x, axis, -1);
    y = mx_infer(op, args, 1, &y);
    return axis == x->ndim - 1 ? y : mx_moveaxis(y, -1, axis);
}

static mx flat(mx x) { return x->ndim == 1 ? x : mx_reshape(x, 1, (int[]){ -1 }); }

mx mx_sort(mx x, int axis)
{
    if (is_nil(x) || (axis = axis_of("sort", axis, x->ndim)) < 0)
        return MX_NIL;
    return sorted_along(&op_sort, NULL, x, axis);
}

mx mx_argsort(mx x, int axis)
{
    if (is_nil(x) || (axis = axis_of("argsort", axis, x->ndim)) < 0)
        return MX_NIL;
    return sorted_along(&op_argsort, NULL, x, axis);
}

mx mx_sort_flat(mx x) { return mx_sort(flat(x), -1); }
mx mx_argsort_flat(mx x) { return mx_argsort(flat(x), -1); }

static mx partition(const struct op *op, mx x, int kth, int axis)
{
    if (is_nil(x) || (axis = axis_of(op->name, axis, x->ndim)) < 0)
        return MX_NIL;
    int n = x->shape[axis];
    if (kth < -n || kth >= n)
        return mx_fail("[%s] expected kth from %d to %d for axis %d of an array of shape %s, got %d", op->name, -n,
                       n - 1, axis, shape_of(x), kth);
    return sorted_along(op, &(struct partition_args){ kth < 0 && !(x->tracer && shapeless()) ? kth + n : kth }, x,
                        axis);
}

mx mx_partition(mx x, int kth, int axis) { return partition(&op_partition, x, kth, axis); }
mx mx_argpartition(mx x, int kth, int axis) { return partition(&op_argpartition, x, kth, axis); }
mx mx_partition_flat(mx x, int kth) { return mx_partition(flat(x), kth, -1); }
mx mx_argpartition_flat(mx x, int kth) { return mx_argpartition(flat(x), kth, -1); }

/* Ascending, as the end of a sorted array is. */
mx mx_topk(mx x, int k, int axis)
{
    if (is_nil(x) || (axis = axis_of("topk", axis, x->ndim)) < 0)
        return MX_NIL;
    int n = x->shape[axis];
    if (k < 0 || k > n)
        return mx_fail("[topk] expected k from 0 to %d for axis %d of an array of shape %s, got %d", n, axis,
                       shape_of(x), k);
    if (k > 0 && (k < n || (x->tracer && shapeless())))
        x = mx_partition(x, -k, axis);
    return mx_sort(mx_slice_axis(x, axis, k ? -k : TO_END, TO_END, 1), axis);
}

mx mx_topk_flat(mx x, int k) { return mx_topk(flat(x), k, -1); }

/* The middle of sorted rows whose length goes into the graph. */
static mx middle_by_number(mx y)
{
    mx one = array_of_int(1, DT_int64), two = array_of_int(2, DT_int64);
    mx size = mx_number_of_elements(y, (int[]){ -1 }, 1, false, DT_int64);
    mx low = mx_expand_dims(mx_floor_divide(mx_subtract(size, one), two), (int[]){ 0 }, 1);
    mx high = mx_expand_dims(mx_floor_divide(size, two), (int[]){ 0 }, 1);
    mx both = mx_take(y, mx_concatenate(2, (mx[]){ low, high }, 0), -1);
    /* Of one number no mean is made: the sum may be past the largest. */
    return mx_where(mx_equal(low, high), mx_slice_axis(both, -1, 0, 1, 1), mx_mean(both, (int[]){ -1 }, 1, true));
}

/* The one in the middle or the mean of the two there; NaN where there is one. */
mx mx_median(mx x, const int *axes, int n, bool keepdims)
{
    int a[MX_MAX_NDIM], perm[MX_MAX_NDIM], kept = 0;
    if (is_nil(x) || (n = axes_of("median", axes, n, x->ndim, a)) < 0)
        return MX_NIL;
    bool folded[MX_MAX_NDIM] = { 0 };
    int64_t size = 1;
    for (int i = 0; i < n; i++) {
        folded[a[i]] = true;
        size *= x->shape[a[i]];
    }
    if (size == 0)
        return mx_fail("[median] expected at least one element along the axes, got an array of shape %s", shape_of(x));
    for (int i = 0; i < x->ndim; i++)
        if (!folded[i])
            perm[kept++] = i;
    for (int i = 0; i < n; i++) perm[kept + i] = a[i];
    if (!dtype_is_inexact(x->dtype))
        x = mx_astype(x, DT_float32);
    int last = dim_of("median", size);
    if (last < 0)
        return MX_NIL;
    mx y = n ? mx_flatten(mx_transpose(x, perm, x->ndim), kept, -1) : mx_expand_dims(x, (int[]){ -1 }, 1);
    y = mx_sort(y, -1);
    if (is_nil(y))
        return y;
    mx end = mx_slice_axis(y, -1, -1, TO_END, 1);
    mx middle = size_of(y, -1).of
                    ? middle_by_number(y)
                    : mx_mean(mx_slice_axis(y, -1, (last - 1) / 2, last / 2 + 1, 1), (int[]){ -1 }, 1, true);
    middle = mx_where(mx_isnan(end), end, middle);
    middle = mx_squeeze(middle, (int[]){ -1 }, 1);
    return keepdims ? mx_expand_dims(middle, a, n) : middle;
}

/* ---- searchsorted: sequences of shape (b..., n), values of shape (b..., any) */

static int searchsorted_shapes(const struct call *c, struct spec out[])
{
    return spec_set(out, DT_uint32, c->x[1]->ndim, c->x[1]->shape);
}

static void searchsorted_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx x[2] = { c->x[0], batch_all(c->x[1], axis[1], batch_size(c, axis)) };
    yaxis[0] = 0;
    if (axis[0] >= 0 || c->x[0]->ndim > 1)
        x[0] = batch_all(c->x[0], axis[0], batch_size(c, axis));
    y[0] = mx_infer(c->op, c->args, 2, x);
}

static bool searchsorted_fits(const struct call *c)
{
    if (!call_has(c, 2, 1) || !one_dtype(c, 2) || c->x[0]->ndim == 0)
        return false;
    mx x = c->x[0], v = c->x[1];
    bool fits = x->ndim == 1 || x->ndim <= v->ndim;
    for (int i = 0; i < x->ndim - 1 && fits; i++) fits = x->shape[i] == v->shape[i];
    return fits;
}

const struct op op_searchsorted = {
    OP_ROW(searchsorted), ARGS(searchsorted_args),   .shapes = searchsorted_shapes, .vjp = no_vjp,
    .jvp = no_jvp,        .vmap = searchsorted_vmap, .fits = searchsorted_fits,
};

mx mx_searchsorted(mx sorted, mx values, bool right)
{
    if (is_nil(sorted) || is_nil(values))
        return MX_NIL;
    if (sorted->ndim != 1)
        return mx_fail("[searchsorted] expected a sorted sequence of one dimension, got one of shape %s",
                       shape_of(sorted));
    enum dtype t = promote(sorted->dtype, values->dtype);
    mx x[2] = { mx_astype(sorted, t), mx_astype(values, t) };
    return mx_infer(&op_searchsorted, &(struct searchsorted_args){ right }, 2, x);
}

/* ---- unique elements, a fixed number of them */

/* Marks the first of equals among sorted elements; NaN equals nothing. */
static mx firsts(mx sorted)
{
    int n = dim(sorted, 0);
    mx first = mx_broadcast_to(array_of_int(1, DT_bool_), 1, (int[]){ n > 0 });
    if (n < 2)
        return first;
    mx differs = mx_not_equal(mx_slice_axis(sorted, 0, 1, n, 1), mx_slice_axis(sorted, 0, 0, n - 1, 1));
    return mx_concatenate(2, (mx[]){ first, differs }, 0);
}

mx mx_unique_count(mx x)
{
    if (is_nil(x))
        return x;
    if (x->tracer)
        shapes_matter("unique");
    return mx_sum(mx_astype(firsts(mx_sort_flat(x)), DT_int32), NULL, 0, false);
}

/* What is written to the place of its rank; ranks past the end are dropped. */
static mx by_rank(mx like, mx ranks, mx values, int size, enum scatter_fold f)
{
    int n = dim(ranks, 0);
    mx to = mx_minimum(ranks, array_of_int(size, DT_int32)), y = mx_broadcast_to(like, 1, (int[]){ size + 1 });
    y = mx_scatter(y, &to, (int[]){ 0 }, 1, mx_reshape(values, 2, (int[]){ n, 1 }), f);
    return mx_slice_axis(y, 0, 0, size, 1);
}

void mx_unique(mx x, int size, mx fill, mx out[4])
{
    out[0] = out[1] = out[2] = out[3] = MX_NIL;
    if (size == INT32_MAX) {
        mx_fail("[unique] expected a size below %d, got %d", INT32_MAX, size);
        return;
    }
    if (is_nil(x) || (fill && is_nil(fill)))
        return;
    if (size < 0) {
        mx_fail("[unique] expected a size that is not negative, got %d", size);
        return;
    }
    if (fill && fill->size != 1) {
        mx_fail("[unique] expected one fill value, got an array of shape %s", shape_of(fill));
        return;
    }
    if (x->size == 0 && size > 0 && !fill) {
        mx_fail("[unique] expected a fill value, for an array of shape %s has no element to take in its place",
                shape_of(x));
        return;
    }
    if (x->tracer)
        shapes_matter("unique");
    mx all = flat(x), order = mx_argsort(all, 0), sorted = mx_take(all, order, 0);
    mx first = firsts(sorted);
    mx rank = mx_subtract(mx_cumsum(mx_astype(first, DT_int32), 0, false, true), array_of_int(1, DT_int32));
    mx head = mx_where(first, rank, array_of_int(size, DT_int32));
    mx least = x->size ? mx_slice_axis(sorted, 0, 0, 1, 1) : NULL;
    mx other = fill ? mx_reshape(mx_astype(fill, x->dtype), 1, (int[]){ 1 }) : least;
    if (!other)
        other = array_of_int(0, x->dtype);
    out[0] = by_rank(other, head, sorted, size, SCATTER_SET);
    mx none = x->size ? mx_slice_axis(order, 0, 0, 1, 1) : array_of_int(0, DT_uint32);
    out[1] = by_rank(none, head, order, size, SCATTER_SET);
    mx most = array_of_int(size > 0 ? size - 1 : 0, DT_int32);
    mx inverse = mx_put_along_axis(zeros_shaped(DT_uint32, 1, (int[]){ dim(all, 0) }), order,
                                   mx_astype(mx_minimum(rank, most), DT_uint32), 0);
    out[2] = mx_reshape(inverse, x->ndim, x->shape);
    out[3] = by_rank(array_of_int(0, DT_int32), rank, ones_of(rank), size, SCATTER_ADD);
}

/* ---- the places of elements that are not zero, their number known */

static const struct field nonzero_args_fields[] = { FIELD(nonzero_args, count), { 0 } };

/* Of an array of n axes (n, count): the index along each. */
static int nonzero_shapes(const struct call *c, struct spec out[])
{
    const struct nonzero_args *a = c->args;
    int count = dim_of("nonzero", a->count);
    return count < 0 ? 1 : spec_set(out, DT_int32, 2, (int[]){ c->x[0]->ndim, count });
}

/* Its operand has been evaluated, so it is in no batch. */
static void nonzero_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    (void)c, (void)axis;
    y[0] = mx_fail("[nonzero] the shape of the result depends on the elements, which differ over the batch");
    yaxis[0] = 0;
}

const struct op op_nonzero = {
    OP_ROW(nonzero), ARGS(nonzero_args), .shapes = nonzero_shapes, .vjp = no_vjp, .jvp = no_jvp, .vmap = nonzero_vmap,
};

mx mx_nonzero(mx x, int64_t count)
{
    if (is_nil(x))
        return x;
    x = mx_astype(x, DT_bool_);
    return mx_infer(&op_nonzero, &(struct nonzero_args){ count }, 1, &x);
}
