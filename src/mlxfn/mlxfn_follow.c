/* mlxfn_follow.c: operations of graphs for any shape, put in terms of what exported files can say.
 *
 * Files know no sizes but numbers, -1 and those that arrays lend to a broadcast.  A size that is needed as
 * a number is a NumberOfElements; one that is needed as an extent, a row of ones that is as long, which
 * comes from broadcasting a one; 0, 1, 2, ... along it are the running sums of those.  A shorter row is what
 * a convolution makes of it.  What cannot be said in this way says that shapes matter. */
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "mlxfn/mlxfn.h"
#include "mlxfn/mlxfn_compose.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/rules.h"
#include "ops/slice.h"
#include "ops/special_products.h"

#define COMPOSE(name) void compose_##name(const struct call *c, mx y[])

static const int first[] = { 0 }, last[] = { -1 };

static struct ints ints_at(const struct call *c, const char *name) { return *(const struct ints *)wire_field(c, name); }

/* What an entry of SIZES is. */
static struct size size_at(const struct call *c, int64_t v)
{
    return size_is_lent(v) ? size_of(c->x[size_lender(v)], size_axis(v)) : size_is((int)v);
}

static mx whole_number(int64_t n) { return array_of_int(n, DT_int64); }
static mx plus(mx x, int64_t n) { return n ? mx_add(x, whole_number(n)) : x; }
static mx times(mx x, int64_t n) { return n == 1 ? x : mx_multiply(x, whole_number(n)); }

/* As many ones as there are places along the axis. */
static mx ones_along(struct size s)
{
    mx one = whole_number(1), x = s.of;
    int all[MX_MAX_NDIM], others[MX_MAX_NDIM], from_end[MX_MAX_NDIM], n = 0;
    if (!x)
        return mx_broadcast_to(one, 1, &s.now);
    for (int i = 0; i < x->ndim; i++) {
        all[i] = i;
        others[n] = i;
        from_end[n] = i - x->ndim;
        n += i != s.axis;
    }
    mx row = mx_broadcast_with(2, (mx[]){ mx_expand_dims(one, all, x->ndim), x }, from_end, n);
    return mx_squeeze(row, others, n);
}

/* What a row of ones sees of another; an error where it is longer. */
static mx seen_by(const char *op, mx ones, mx by, int stride, int apart)
{
    int low = 0, one = 1;
    mx row = mx_expand_dims(mx_astype(ones, DT_float32), (int[]){ 0, 2 }, 2);
    mx taps = mx_expand_dims(mx_astype(by, DT_float32), (int[]){ 0, 2 }, 2);
    mx seen = mx_conv(op, row, taps,
                      &(struct conv){ .n = 1,
                                      .stride = &stride,
                                      .low = &low,
                                      .high = &low,
                                      .dilation = &apart,
                                      .input_dilation = &one,
                                      .groups = 1 });
    return mx_squeeze(seen, (int[]){ 0, 2 }, 2);
}

/* The same of every step-th place, those at the end left out, `less` of them.  An error where there are not
 * more of them. */
static mx windows(struct size s, int64_t less, int64_t step)
{
    if (less > INT32_MAX || step > INT32_MAX)
        return mx_fail("[slice] expected bounds and steps that an int holds");
    mx taps = mx_ones(1, (int[]){ less ? 2 : 1 }, DT_float32);
    mx seen = seen_by("slice", ones_along(s), taps, (int)step, less > 1 ? (int)less : 1);
    return mx_broadcast_with(2, (mx[]){ whole_number(1), seen }, NULL, 0);
}

/* The same; of all places there may be none. */
static mx fewer_ones(struct size s, int64_t less, int64_t step)
{
    return less == 0 && step == 1 ? ones_along(s) : windows(s, less, step);
}

/* 0, 1, 2, ... along a row of ones. */
static mx counted(mx ones) { return plus(mx_cumsum(ones, 0, false, true), -1); }

static mx numbered(struct size s) { return s.of ? counted(ones_along(s)) : mx_arange(0, s.now, 1, DT_int64); }

static mx number_of_size(struct size s)
{
    return s.of ? mx_number_of_elements(s.of, &s.axis, 1, false, DT_int64) : whole_number(s.now);
}

/* The same; an error where it is less than `least`. */
static mx number_at_least(struct size s, int64_t least)
{
    if (least < 1)
        return number_of_size(s);
    mx ones = windows(s, least - 1, 1);
    return plus(mx_number_of_elements(ones, first, 1, false, DT_int64), least - 1);
}

/* x, of one dimension, along dimension `at` of n. */
static mx sliced_along(mx x, int at, int n)
{
    int ones[MX_MAX_NDIM], m = 0;
    for (int i = 0; i < n; i++)
        if (i != at)
            ones[m++] = i;
    return mx_expand_dims(x, ones, m);
}

/* 0, 1, 2, ... in a shape. */
static mx place_numbers(int n, const struct size sizes[])
{
    mx sum = NULL, stride = whole_number(1);
    for (int i = n; i-- > 0;) {
        mx term = mx_multiply(sliced_along(numbered(sizes[i]), i, n), stride);
        sum = sum ? mx_add(sum, term) : term;
        stride = mx_multiply(stride, number_of_size(sizes[i]));
    }
    return sum ? sum : whole_number(0);
}

static mx flat(mx x) { return x->ndim ? mx_flatten(x, 0, -1) : mx_expand_dims(x, first, 1); }

/* The elements along one axis that have these numbers. */
static mx picked(mx x, int axis, mx at)
{
    return is_nil(x) || is_nil(at) ? MX_NIL : mx_take_along_axis(x, sliced_along(at, axis, x->ndim), axis);
}

mx composed_first(mx x, int axis, struct size n)
{
    int a = axis < 0 ? axis + x->ndim : axis;
    return n.of ? picked(x, a, numbered(n)) : mx_slice_axis(x, a, 0, n.now, 1);
}

static mx longer(mx ones, int by) { return mx_concatenate(2, (mx[]){ ones, mx_ones(1, &by, DT_int64) }, 0); }

/* The shorter of the two is the same one for any shape, which a convolution sees to. */
mx composed_diagonal(mx x, int down, int right)
{
    struct size rows = size_of(x, -2), columns = size_of(x, -1);
    if (rows.now - down > columns.now - right)
        return composed_diagonal(mx_swapaxes(x, -2, -1), right, down);
    mx ones = fewer_ones(rows, down, 1), m = number_of_size(columns);
    mx fits = seen_by("diagonal", longer(ones_along(columns), 1), longer(ones, right + 1), 1, 1);
    mx at = mx_add(mx_multiply(counted(ones), plus(m, 1)), plus(times(m, down), right));
    at = mx_add(at, times(mx_number_of_elements(fits, first, 1, false, DT_int64), 0));
    return picked(mx_flatten(x, -2, -1), x->ndim - 2, at);
}

/* ---- sizes that arrays lend */

/* The axes in front and behind stay; between them one axis becomes several, or all elements are taken one by
 * one, by their numbers. */
COMPOSE(reshape)
{
    struct ints v = ints_at(c, "shape");
    mx x = c->x[0];
    struct size sizes[MX_MAX_NDIM];
    int front = 0, back = 0, numbers[MX_MAX_NDIM];
    while (front < v.n && v.v[front] == SIZE_OF(0, front)) front++;
    while (back < v.n - front && v.v[v.n - 1 - back] == SIZE_OF(0, x->ndim - 1 - back)) back++;
    int from = x->ndim - front - back, to = v.n - front - back;
    bool lent = false;
    for (int i = 0; i < to; i++) {
        lent |= size_is_lent(v.v[front + i]);
        numbers[i] = (int)v.v[front + i];
    }
    if (!lent && from > 1 && to > 0) {
        y[0] = mx_unflatten(mx_flatten(x, front, front + from - 1), front, to, numbers);
        return;
    }
    for (int i = 0; i < v.n; i++) {
        sizes[i] = size_at(c, v.v[i]);
        if (v.v[i] == -1)
            shapes_matter("a reshape in which sizes are those of other arrays");
        sizes[i].now = c->y[0]->shape[i];
    }
    int axis = 0;
    mx at = place_numbers(v.n, sizes);
    y[0] = mx_squeeze(mx_gather(flat(x), &at, &axis, 1, (int[]){ 1 }), last, 1);
}

/* Every size that operand 0 has not of its own is broadcast against an array that has it; a size of its own that is
 * not the same must be 1. */
static mx broadcast(mx x, int n, const struct size sizes[])
{
    mx all[1 + MX_MAX_NDIM] = { x }, wanted[MX_MAX_NDIM];
    int m = 1;
    bool checked = false;
    for (int i = 0; i < n; i++) {
        int own = i - (n - x->ndim);
        bool has = own >= 0 && sizes[i].of == x && sizes[i].axis == own;
        wanted[i] = sliced_along(ones_along(sizes[i]), i, n);
        checked |= own >= 0 && !has;
        if (!has && (own < 0 || sizes[i].of || sizes[i].now != 1))
            all[m++] = wanted[i];
    }
    mx y = mx_broadcast_with(m, all, NULL, 0);
    return checked ? mx_shape_checked(y, mx_broadcast_with(n, wanted, NULL, 0)) : y;
}

COMPOSE(broadcast)
{
    struct ints v = ints_at(c, "shape");
    struct size sizes[MX_MAX_NDIM];
    mx x = c->x[0], like = c->nin > 1 ? c->x[1] : NULL;
    bool whole = like && v.n == like->ndim; /* of one array, all of them? */
    for (int i = 0; i < v.n; i++) {
        sizes[i] = size_at(c, v.v[i]);
        whole = whole && sizes[i].of == like && sizes[i].axis == i;
    }
    y[0] = whole ? mx_shape_checked(mx_broadcast_with(2, (mx[]){ x, like }, NULL, 0), like) : broadcast(x, v.n, sizes);
}

COMPOSE(arange)
{
    const struct arange_args *a = c->args;
    struct size sizes[MX_MAX_NDIM];
    for (int i = 0; i < a->count.n; i++) sizes[i] = size_at(c, a->count.v[i]);
    mx at = a->count.n == 1 ? numbered(sizes[0]) : flat(place_numbers(a->count.n, sizes));
    y[0] = mx_astype(at, (enum dtype)a->dtype);
}

/* ---- parts */

/* The numbers of the elements that a slice takes along an axis.  It walks from one end, of which it leaves
 * out `skip` elements; or from a place that is so and so far from the other end.  Likewise where it stops. */
static mx sliced(struct size s, int64_t start, int64_t stop, int64_t step)
{
    struct range r = range_of(s.now, start, stop, step);
    bool down = step < 0;
    int64_t n = s.now, by = down ? -step : step;
    bool far_start = down ? start >= 0 && start < n : start < 0 && start >= -n;
    bool far_stop = down ? stop >= 0 || stop == TO_START : stop < 0 || stop == TO_END;
    bool near_start = down ? start < 0 || start == TO_END : start >= 0;
    bool near_stop = !far_stop && (down ? stop >= -n : stop <= n);
    mx at;
    if (near_start && far_stop && r.count) {
        int64_t skip = !down ? start : start == TO_END ? 0 : -1 - start;
        int64_t rest = stop == TO_END || stop == TO_START ? 0 : down ? stop + 1 : -stop;
        at = plus(times(counted(fewer_ones(s, skip + rest, by)), by), skip);
        return down ? mx_subtract(plus(number_of_size(s), -1), at) : at;
    }
    at = mx_arange(0, (double)r.count, 1, DT_int64);
    if (r.count == 0 || (!(far_start && far_stop) && !(near_start && near_stop))) {
        shapes_matter("a slice of as many elements as there are");
        return plus(times(at, r.step), r.first);
    }
    bool from_end = down == near_start; /* how far is the first from the end of the axis? */
    int64_t end = r.first + (r.count - 1) * r.step, low = down ? end : r.first, high = down ? r.first : end;
    int64_t least = from_end ? n - low : 1 + high;
    mx size = number_at_least(s, least);
    mx shift = from_end ? plus(size, r.first - n) : plus(mx_subtract(size, number_of_size(s)), r.first);
    return mx_add(times(at, r.step), shift);
}

static mx slice_of(mx x, int axis, int64_t start, int64_t stop, int64_t step)
{
    bool all = start == 0 && stop == TO_END && step == 1;
    return is_nil(x) || all ? x : picked(x, axis, sliced(size_of(x, axis), start, stop, step));
}

COMPOSE(slice)
{
    const struct slice_args *a = c->args;
    y[0] = c->x[0];
    for (int i = 0; i < a->start.n; i++) y[0] = slice_of(y[0], i, a->start.v[i], a->stop.v[i], a->step.v[i]);
}

COMPOSE(split)
{
    const struct split_args *a = c->args;
    mx x = c->x[0], from = whole_number(0);
    for (int k = 0; k < c->nout; k++) {
        if (a->sizes.n) {
            struct size s = size_at(c, a->sizes.v[k]);
            y[k] = picked(x, a->axis, mx_add(numbered(s), from));
            from = mx_add(from, number_of_size(s));
        } else {
            y[k] = slice_of(x, a->axis, k ? a->cuts.v[k - 1] : 0, k < a->cuts.n ? a->cuts.v[k] : TO_END, 1);
        }
    }
}

static int place_in(struct ints axes, int axis)
{
    for (int k = 0; k < axes.n; k++)
        if (axes.v[k] == axis)
            return k;
    return -1;
}

/* One of the numbers of a corner. */
static mx coordinate(mx start, int k) { return mx_squeeze(mx_slice_axis(start, 0, k, k + 1, 1), first, 1); }

/* Where a slice of `s` elements begins that is to do so at `start`: at the nearest place that leaves room for it. */
static mx clamped_start(mx start, struct size s, struct size axis)
{
    mx n = s.of ? number_of_size(axis) : number_at_least(axis, s.now), zero = whole_number(0);
    start = mx_where(mx_less(start, zero), mx_add(start, n), start);
    return mx_minimum(mx_maximum(start, zero), mx_subtract(n, number_of_size(s)));
}

COMPOSE(dynamic_slice)
{
    const struct dynamic_args *a = c->args;
    mx x = c->x[0];
    for (int i = 0; i < a->sizes.n; i++) {
        struct size s = size_at(c, a->sizes.v[i]);
        int k = place_in(a->axes, i);
        if (k < 0 && s.of == c->x[0] && s.axis == i)
            continue;
        mx start = k < 0 ? whole_number(0) : mx_astype(coordinate(c->x[1], k), DT_int64);
        x = picked(x, i, mx_add(numbered(s), clamped_start(start, s, size_of(x, i))));
    }
    y[0] = x;
}

/* With a corner that counts from the end, and what is written backwards turned round. */
COMPOSE(slice_update)
{
    const struct slice_update_args *a = c->args;
    const struct slice_args at = { a->start, a->stop, a->step };
    mx x = c->x[0], u = c->x[1], corner[MX_MAX_NDIM];
    mx old = a->fold == SCATTER_SET ? NULL : mx_infer(&op_slice, &at, 1, &x);
    int axes[MX_MAX_NDIM];
    switch ((enum scatter_fold)a->fold) {
    case SCATTER_SET: break;
    case SCATTER_ADD: u = mx_add(old, u); break;
    case SCATTER_PROD: u = mx_multiply(old, u); break;
    case SCATTER_MAX: u = mx_maximum(old, u); break;
    case SCATTER_MIN: u = mx_minimum(old, u); break;
    }
    for (int i = 0; i < a->start.n; i++) {
        int64_t start = a->start.v[i], step = a->step.v[i];
        bool turned = step == -1 && start == TO_END && a->stop.v[i] == TO_START;
        if (turned)
            u = slice_of(u, i, TO_END, TO_START, -1);
        else if (step != 1)
            shapes_matter("an update of a slice with steps");
        struct size s = size_of(x, i);
        if (start < -(int64_t)s.now && !turned) {
            shapes_matter("an update of a slice that begins before the first element");
            start = 0;
        }
        mx from = turned ? whole_number(0) : start < 0 ? plus(number_at_least(s, -start), start) : whole_number(start);
        corner[i] = mx_expand_dims(from, first, 1);
        axes[i] = i;
    }
    y[0] = mx_slice_update_dynamic(x, u, mx_concatenate(a->start.n, corner, 0), axes, a->start.n);
}

COMPOSE(pad)
{
    const struct pad_args *a = c->args;
    mx x = c->x[0];
    for (int i = 0; i < a->low.n; i++) {
        mx parts[3];
        int n = 0, shape[MX_MAX_NDIM];
        for (int k = 0; k < x->ndim; k++) shape[k] = 1;
        for (int side = 0; side < 3; side++) {
            shape[i] = (int)(side == 0 ? a->low.v[i] : a->high.v[i]);
            mx all[2] = { mx_broadcast_to(c->x[1], x->ndim, shape), x };
            if (side == 1)
                parts[n++] = x;
            else if (shape[i])
                parts[n++] = mx_broadcast_with(2, all, (int[]){ i - x->ndim }, 1);
        }
        x = n > 1 ? mx_concatenate(n, parts, i) : x;
    }
    y[0] = x;
}

COMPOSE(depends)
{
    for (int k = 0; k < c->nout; k++) y[k] = c->x[c->nin - c->nout + k];
}

/* ---- indices */

/* The index array with x's shape but for the axis: what the primitives take. */
static mx broadcast_index(mx x, mx index, int axis)
{
    return mx_broadcast_with(2, (mx[]){ index, x }, (int[]){ axis - x->ndim }, 1);
}

COMPOSE(gather_axis)
{
    struct gather_axis_args a = *(const struct gather_axis_args *)c->args;
    a.whole = true;
    a.given.is = false;
    y[0] = mx_infer(c->op, &a, 2, (mx[]){ c->x[0], broadcast_index(c->x[0], c->x[1], a.axis) });
}

/* Sums and assignments have a primitive; other folds index every axis. */
COMPOSE(scatter_axis)
{
    struct scatter_axis_args a = *(const struct scatter_axis_args *)c->args;
    mx x = c->x[0], index = broadcast_index(x, c->x[1], a.axis), at[MX_MAX_NDIM];
    int n = x->ndim, axes[MX_MAX_NDIM], ones[MX_MAX_NDIM];
    a.whole = true;
    a.given.is = false;
    if (a.fold == SCATTER_SET || a.fold == SCATTER_ADD) {
        y[0] = mx_infer(c->op, &a, 3, (mx[]){ x, index, c->x[2] });
        return;
    }
    for (int i = 0; i < n; i++) {
        at[i] = i == a.axis ? mx_astype(index, DT_int64) : sliced_along(numbered(size_of(index, i)), i, n);
        axes[i] = i;
        ones[i] = n + i;
    }
    y[0] = mx_scatter(x, at, axes, n, mx_expand_dims(c->x[2], ones, n), (enum scatter_fold)a.fold);
}

/* Index arrays of one type; where sizes are lent, all axes of more than one element are indexed, by all the
 * numbers that belong to the slice. */
COMPOSE(gather)
{
    const struct gather_args *a = c->args;
    mx x = c->x[0], at[MX_MAX_NDIM];
    int n = a->axes.n, lead = c->x[1]->ndim, wide = 0, axes[MX_MAX_NDIM], ones[MX_MAX_NDIM], gone[MX_MAX_NDIM];
    struct size sizes[MX_MAX_NDIM];
    bool lent = false;
    for (int i = 0; i < x->ndim; i++) {
        sizes[i] = size_at(c, a->sizes.v[i]);
        lent |= sizes[i].of != NULL;
        wide += sizes[i].of || sizes[i].now != 1;
    }
    wide = lent ? wide : 0;
    for (int i = 0; i < wide; i++) ones[i] = lead + i;
    for (int k = 0; k < n; k++) {
        at[k] = mx_expand_dims(mx_astype(c->x[1 + k], DT_int64), ones, wide);
        axes[k] = (int)a->axes.v[k];
    }
    if (!lent) {
        y[0] = mx_gather_as((struct asked){ a->asker, a->outside }, x, at, axes, n, sizes);
        return;
    }
    int seen = 0, alone = 0;
    for (int i = 0; i < x->ndim; i++) {
        int k = place_in(a->axes, i);
        gone[i] = lead + wide + i;
        if (!sizes[i].of && sizes[i].now == 1) {
            ones[alone++] = lead + i;
            continue;
        }
        mx here = sliced_along(numbered(sizes[i]), lead + seen++, lead + wide);
        if (k < 0)
            axes[k = n++] = i;
        else
            here = mx_add(here, at[k]);
        at[k] = here;
        sizes[i] = size_is(1);
    }
    mx g = mx_gather_as((struct asked){ a->asker, a->outside }, x, at, axes, n, sizes);
    y[0] = mx_expand_dims(mx_squeeze(g, gone, x->ndim), ones, alone);
}

/* Where parts of n places begin, `size` of them each, counted from the first on; a part that is out of range is the
 * one that it stands for, or else begins behind all of them. */
static mx from_first(mx given, mx n, int size, unsigned outside)
{
    mx i = mx_astype(given, DT_int64), zero = whole_number(0);
    i = mx_where(mx_less(i, zero), mx_add(i, n), i);
    return outside == OUTSIDE_NEAREST ? mx_minimum(mx_maximum(i, zero), plus(n, -size))
                                      : mx_minimum(mx_where(mx_less(i, zero), n, i), n);
}

/* Index arrays of one type; for any shape, assignments and sums as a scatter along one axis: of x as it is where one
 * axis is indexed, else of all its elements. */
COMPOSE(scatter)
{
    const struct scatter_args *a = c->args;
    mx x = c->x[0], index = c->x[1], u = c->x[c->nin - 1], at[MX_MAX_NDIM];
    int lead = index->ndim, axis = (int)a->axes.v[0], axes[MX_MAX_NDIM];
    bool adds = a->fold == SCATTER_ADD, parts = false; /* of sizes of their own */
    if (!shapeless() || (!adds && a->fold != SCATTER_SET)) {
        for (int k = 0; k < a->axes.n; k++) {
            at[k] = mx_astype(c->x[1 + k], DT_int64);
            axes[k] = (int)a->axes.v[k];
        }
        y[0] = mx_scatter_as((struct asked){ a->asker, a->outside }, x, at, axes, a->axes.n, u,
                             (enum scatter_fold)a->fold);
        return;
    }
    for (int i = 0; i < x->ndim; i++)
        if (u->shape[lead + i] != (place_in(a->axes, i) >= 0 ? 1 : x->shape[i]))
            parts = true, u = mx_size_checked(u, lead + i);
        else if (place_in(a->axes, i) >= 0)
            u = mx_size_checked(u, lead + i);
        else if (x->shape[i] == 1) /* all of it, or the first of it */
            x = mx_size_checked(x, i);
    if (is_nil(x) || is_nil(u))
        return;
    if (a->axes.n == 1 && !parts) {
        index = sliced_along(flat(from_first(index, number_of_size(size_of(x, axis)), 1, a->outside)), axis, x->ndim);
        u = lead ? mx_flatten(u, 0, lead - 1) : mx_expand_dims(u, first, 1);
        u = mx_moveaxis(mx_squeeze(u, (int[]){ 1 + axis }, 1), 0, axis);
        y[0] = adds ? mx_scatter_add_axis(x, index, u, axis) : mx_put_along_axis(x, index, u, axis);
        return;
    }
    int ones[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++) ones[i] = lead + i;
    mx where = NULL, inside = NULL, stride = whole_number(1);
    for (int i = x->ndim; i-- > 0;) {
        struct size s = size_of(x, i);
        int k = place_in(a->axes, i), size = u->shape[lead + i];
        bool part = size != (k >= 0 ? 1 : x->shape[i]);
        mx here = sliced_along(k >= 0 || part ? numbered(size_is(size)) : numbered(s), lead + i, lead + x->ndim);
        mx n = part ? number_at_least(s, size) : number_of_size(s);
        if (k >= 0) {
            mx start = mx_expand_dims(from_first(c->x[1 + k], n, size, a->outside), ones, x->ndim);
            mx fits = mx_less(start, plus(n, 1 - size));
            inside = inside ? mx_logical_and(inside, fits) : fits;
            here = part ? mx_add(start, here) : start;
        }
        where = where ? mx_add(where, mx_multiply(here, stride)) : here;
        stride = mx_multiply(stride, n);
    }
    mx z = flat(x);
    where = mx_where(inside, where, stride); /* which is behind all of them */
    where = flat(mx_broadcast_with(2, (mx[]){ where, u }, NULL, 0));
    u = flat(u);
    z = adds ? mx_scatter_add_axis(z, where, u, 0) : mx_put_along_axis(z, where, u, 0);
    y[0] = mx_reshape_like(z, x);
}

/* ---- orders: a whole one is a partition too */

COMPOSE(partition) { y[0] = mx_sort(c->x[0], -1); }
COMPOSE(argpartition) { y[0] = mx_argsort(c->x[0], -1); }

/* ---- products */

/* The padding behind x that makes `size` positions of what w sees, and those that a stride leaves out. */
static int padding_for(const struct conv *g, int i, int64_t size, mx x, mx w)
{
    int64_t whole = 1 + (dim(x, 1 + i) - (int64_t)1) * g->input_dilation[i];
    int64_t seen = 1 + (dim(w, 1 + i) - (int64_t)1) * g->dilation[i];
    return (int)((size - 1) * g->stride[i] + seen - whole - g->low[i]);
}

/* x without what negative padding cuts off, which is not negative any longer then.  An element that goes takes the
 * zeros behind it along, which input dilation put there, and the padding gives back those that stay. */
static mx cut_to_padding(const struct conv *g, mx x, int low[], int high[])
{
    int start[MX_MAX_NDIM] = { 0 }, stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    bool cut = false, empty = false, any_size = shapeless() && x->tracer;
    for (int i = 0; i < x->ndim; i++) stop[i] = TO_END, step[i] = 1;
    for (int i = 0; i < g->n; i++) {
        int apart = g->input_dilation[i];
        int front = low[i] < 0 ? (int)ceil_div(-low[i], apart) : 0;
        int back = high[i] < 0 ? (int)ceil_div(-high[i], apart) : 0;
        if ((front || back) && front + back >= dim(x, 1 + i) && dim(x, 1 + i) && !any_size) {
            /* Only such zeros stay: as many, of one element that is zero. */
            int rest = (dim(x, 1 + i) - 1) * apart + 1 + low[i] + high[i];
            empty = true, front = 0, back = dim(x, 1 + i) - 1;
            low[i] = 0, high[i] = rest - 1;
        } else {
            low[i] += front * apart;
            high[i] += back * apart;
        }
        start[1 + i] = front;
        stop[1 + i] = back ? -back : TO_END;
        cut |= front || back;
    }
    x = cut ? mx_slice(x, start, stop, step) : x;
    return empty ? mx_zeros_like(x) : x;
}

/* A convolution whose result has these sizes, of which -1 is what a padding of `high` makes.  For any shape,
 * with padding that is enough, and then the first of its results: how much is needed varies with the sizes by
 * less than the steps of the geometry. */
static mx conv_to(const struct conv *g, mx x, mx w, const struct size sizes[], struct ints high)
{
    bool vary = shapeless() && (x->tracer || w->tracer);
    int low[3], padding[3];
    for (int i = 0; i < g->n; i++) {
        low[i] = g->low[i];
        int more = vary ? g->stride[i] + g->dilation[i] + g->input_dilation[i] - 3 : 0;
        padding[i] = sizes[i].now < 0 ? (int)high.v[i] : padding_for(g, i, sizes[i].now, x, w) + more;
    }
    x = cut_to_padding(g, x, low, padding);
    struct conv padded = *g;
    padded.low = low;
    padded.high = padding;
    mx y = mx_conv("conv", x, w, &padded);
    for (int i = 0; i < g->n && vary && !is_nil(y); i++) y = sizes[i].now < 0 ? y : composed_first(y, 1 + i, sizes[i]);
    return y;
}

bool composed_conv_by_group(const struct call *c)
{
    const struct conv_args *a = c->args;
    return a->size.n == 3 && a->groups > 1;
}

/* The groups of the channels of x, on an axis of their own. */
static mx grouped(mx x, int groups) { return mx_unflatten(x, -1, 2, (int[]){ groups, -1 }); }

/* One convolution for each group of x, which is grouped(). */
static mx conv_by_group(const struct conv *g, mx x, mx w, const struct size sizes[], struct ints high)
{
    mx y = MX_NIL, *part = mx_malloc(2 * (size_t)g->groups * sizeof *part), *weights = part ? part + g->groups : NULL;
    if (!part)
        return y;
    mx_split(x, g->groups, -2, part);
    mx_split(w, g->groups, 0, weights);
    struct conv one = *g;
    one.groups = 1;
    for (int k = 0; k < g->groups && !mx_failed(); k++)
        part[k] = conv_to(&one, mx_squeeze(part[k], (int[]){ -2 }, 1), weights[k], sizes, high);
    y = mx_failed() ? y : mx_concatenate(g->groups, part, -1);
    free(part);
    return y;
}

static void numbers_in(struct ints v, int out[])
{
    for (int i = 0; i < v.n; i++) out[i] = (int)v.v[i];
}

COMPOSE(conv)
{
    const struct conv_args *a = c->args;
    int v[4][3];
    struct size sizes[3];
    numbers_in(a->stride, v[0]);
    numbers_in(a->low, v[1]);
    numbers_in(a->dilation, v[2]);
    numbers_in(a->input_dilation, v[3]);
    for (int i = 0; i < a->size.n; i++) sizes[i] = size_at(c, a->size.v[i]);
    struct conv g = {
        .n = a->size.n, .stride = v[0], .low = v[1], .dilation = v[2], .input_dilation = v[3], .groups = a->groups
    };
    if (composed_conv_by_group(c))
        y[0] = conv_by_group(&g, grouped(c->x[0], a->groups), c->x[1], sizes, a->high);
    else
        y[0] = conv_to(&g, c->x[0], c->x[1], sizes, a->high);
}

/* dw[f, k, c] = sum over n, o of x[n, o stride - low + k dilation, c] y[n, o, f]: a convolution of the
 * channels of x, as images, with those of y, in which stride and dilation have changed places. */
COMPOSE(conv_weight)
{
    const struct conv_args *a = c->args;
    int n = a->size.n, g = a->groups, v[4][3];
    struct size sizes[3];
    mx x = c->x[0], w = mx_moveaxis(c->x[1], -1, 0); /* (F, o, N) */
    w = mx_moveaxis(w, 1, -1);
    x = mx_moveaxis(mx_moveaxis(grouped(x, g), -1, 0), 1, -1); /* (N, s, G, C) to (C, s, G, N) */
    bool by_group = composed_conv_by_group(c);
    x = by_group ? x : mx_flatten(x, -2, -1);
    if (is_nil(x) || is_nil(w))
        return;
    numbers_in(a->dilation, v[0]);
    numbers_in(a->low, v[1]);
    numbers_in(a->stride, v[2]);
    numbers_in(a->input_dilation, v[3]);
    for (int i = 0; i < n; i++) sizes[i] = size_at(c, a->size.v[i]);
    struct conv geometry = {
        .n = n, .stride = v[0], .low = v[1], .dilation = v[2], .input_dilation = v[3], .groups = g
    };
    y[0] = by_group ? conv_by_group(&geometry, x, w, sizes, a->high) : conv_to(&geometry, x, w, sizes, a->high);
    y[0] = mx_moveaxis(mx_moveaxis(y[0], 0, -1), -2, 0); /* (C, k, F) to (F, k, C) */
}

/* The matrices of a batch by their flat numbers. */
static mx matrices_by_number(mx x, mx index)
{
    return mx_take(x->ndim == 2 ? mx_expand_dims(x, first, 1) : mx_flatten(x, 0, -3), index, 0);
}

/* y[rhs[p]] += a[la[p]]^T c[lc[p]] */
COMPOSE(scatter_mm)
{
    struct ints batch = ints_at(c, "batch");
    mx a = matrices_by_number(c->x[0], c->x[2]), b = matrices_by_number(c->x[1], c->x[3]);
    struct size sizes[MX_MAX_NDIM];
    for (int i = 0; i < batch.n; i++) sizes[i] = size_at(c, batch.v[i]);
    sizes[batch.n] = size_of(c->x[0], -1);
    sizes[batch.n + 1] = size_of(c->x[1], -1);
    mx like = mx_broadcast_by(array_of_int(0, a->dtype), batch.n + 2, sizes);
    y[0] = mx_add_matrices(mx_matmul(mx_swapaxes(a, -1, -2), b), c->x[4], like);
}
