/* slice.c: parts of arrays: taking them out, putting them back, cutting up and joining.
 *
 * Slices follow NumPy: a negative start or stop counts from the end, what lies outside is cut off,
 * and a negative step walks backwards (a stop of -n - 1 or less then means "through the first").
 * The arguments of a node keep start and stop as they were given, so that a node means the same for
 * an operand of another size. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "ops/index.h"
#include "ops/load.h"
#include "ops/slice.h"

const struct field slice_args_fields[] = {
    FIELD(slice_args, start), FIELD(slice_args, stop), FIELD(slice_args, step), { 0 }
};
const struct field slice_update_args_fields[] = {
    FIELD(slice_update_args, start), FIELD(slice_update_args, stop), FIELD(slice_update_args, step),
    FIELD(slice_update_args, fold), { 0 }
};

struct range range_of(int size, int64_t start, int64_t stop, int64_t step)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    start += start < 0 ? size : 0;
    stop += stop < 0 ? size : 0;
    start = start < low ? low : start > high ? high : start;
    stop = stop < low ? low : stop > high ? high : stop;
    int64_t span = step < 0 ? start - stop : stop - start, stride = step < 0 ? -step : step;
    return (struct range){ start, span > 0 ? (span + stride - 1) / stride : 0, step };
}

/* The shape of x[start:stop:step]. */
static int sliced_shape(const char *op, mx x, struct ints start, struct ints stop, struct ints step,
                        int *shape)
{
    if (start.n != x->ndim)
        return failed(mx_fail("[%s] expected a start for each of %d dimensions, got %d", op,
                              x->ndim, start.n));
    for (int i = 0; i < x->ndim; i++) {
        if (step.v[i] == 0)
            return failed(mx_fail("[%s] the step of axis %d is zero", op, i));
        shape[i] = (int)range_of(x->shape[i], start.v[i], stop.v[i], step.v[i]).count;
    }
    return 0;
}

/* start, stop and step of one builder call as arguments: storage and description. */
struct bounds {
    int64_t start[MX_MAX_NDIM + 1], stop[MX_MAX_NDIM + 1], step[MX_MAX_NDIM + 1];
};

static struct slice_args bounds_of(struct bounds *b, int n, const int *start, const int *stop,
                                   const int *step)
{
    struct slice_args a = { ints_of(n, start, b->start),
                            ints_of(n, stop, b->stop),
                            { n, b->step } };
    for (int i = 0; i < n; i++)
        b->step[i] = step ? step[i] : 1;
    return a;
}

/* The same slice behind a batch axis of n. */
static struct slice_args bounds_batched(struct bounds *b, int n, struct ints start,
                                        struct ints stop, struct ints step)
{
    b->start[0] = 0;
    b->stop[0] = n;
    b->step[0] = 1;
    for (int i = 0; i < start.n; i++) {
        b->start[1 + i] = start.v[i];
        b->stop[1 + i] = stop.v[i];
        b->step[1 + i] = step.v[i];
    }
    int m = 1 + start.n;
    return (struct slice_args){ { m, b->start }, { m, b->stop }, { m, b->step } };
}

/* ---- slice */

static int slice_shapes(const struct call *c, struct spec out[])
{
    const struct slice_args *a = c->args;
    int shape[MX_MAX_NDIM];
    return sliced_shape("slice", c->x[0], a->start, a->stop, a->step, shape) ||
           spec_set(out, c->x[0]->dtype, c->x[0]->ndim, shape);
}

static bool slice_view(const struct call *c, mx y)
{
    const struct slice_args *a = c->args;
    mx x = c->x[0];
    y->offset = x->offset;
    for (int i = 0; i < x->ndim; i++) {
        struct range r = range_of(x->shape[i], a->start.v[i], a->stop.v[i], a->step.v[i]);
        y->strides[i] = r.count > 1 ? x->strides[i] * r.step : x->strides[i];
        y->offset += r.count ? r.first * x->strides[i] : 0;
    }
    if (y->size == 0)
        y->offset = x->offset;
    return true;
}

/* Writes `update` into that part of `x`. */
static mx put_back(const struct slice_args *a, mx x, mx update, enum scatter_fold f)
{
    struct slice_update_args to = { a->start, a->stop, a->step, f };
    mx in[2] = { x, update };
    return mx_infer(&op_slice_update, &to, 2, in);
}

static void slice_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = put_back(c->args, zeros_of(c->x[0]), ct[0], SCATTER_SET);
}

static void slice_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = mx_infer(&op_slice, c->args, 1, t);
}

static void slice_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct slice_args *a = c->args;
    struct bounds b;
    mx x = batch_first(c->x[0], axis[0]);
    struct slice_args batched = bounds_batched(&b, dim(x, 0), a->start, a->stop, a->step);
    y[0] = mx_infer(&op_slice, &batched, 1, &x);
    yaxis[0] = 0;
}

static bool takes_all(mx x, const struct slice_args *a)
{
    for (int i = 0; i < x->ndim; i++)
        if (a->step.v[i] != 1 ||
            range_of(x->shape[i], a->start.v[i], a->stop.v[i], 1).count != x->shape[i])
            return false;
    return true;
}

/* The slice of an array that is not loaded yet: what it needs is loaded, then cut to size. */
static mx loaded_part(mx x, const struct slice_args *a)
{
    int first[MX_MAX_NDIM], shape[MX_MAX_NDIM], axis = 0, count, from[MX_MAX_NDIM], to[MX_MAX_NDIM], step[MX_MAX_NDIM];
    bool empty = false;
    if (x->ndim == 0 || x->size == 0)
        return NULL;
    for (int i = 0; i < x->ndim; i++) {
        if (a->step.v[i] == 0) /* refused where the node is made */
            return NULL;
        struct range r = range_of(x->shape[i], a->start.v[i], a->stop.v[i], a->step.v[i]);
        int64_t last = r.first + (r.count - 1) * r.step;
        empty |= r.count == 0;
        shape[i] = (int)r.count;
        first[i] = (int)(r.step < 0 ? last : r.first);
        from[i] = (int)r.first - (i <= axis ? first[i] : 0);
        to[i] = (int)last - (i <= axis ? first[i] : 0) + (r.step < 0 ? -1 : 1);
        to[i] = to[i] < 0 ? INT32_MIN : to[i]; /* through the first */
        step[i] = (int)r.step;
        axis += i == axis && r.count == 1 && i + 1 < x->ndim;
    }
    if (empty)
        return load_rows(x, 0, first, 0) ? zeros_shaped(x->dtype, x->ndim, shape) : NULL;
    count = from[axis] > to[axis] ? from[axis] + 1 : to[axis];
    bool all = count == x->shape[axis];
    for (int i = 0; i < axis; i++) all &= x->shape[i] == 1;
    if (all)
        return NULL;
    mx y = load_rows(x, axis, first, count);
    return y ? mx_slice(y, from, to, step) : NULL;
}

mx mx_slice(mx x, const int *start, const int *stop, const int *step)
{
    if (is_nil(x))
        return x;
    struct bounds b;
    struct slice_args a = bounds_of(&b, x->ndim, start, stop, step);
    if (takes_all(x, &a))
        return x;
    mx part = x->status == LAZY ? loaded_part(x, &a) : NULL;
    return part ? part : mx_infer(&op_slice, &a, 1, &x);
}

mx mx_slice_axis(mx x, int axis, int start, int stop, int step)
{
    int from[MX_MAX_NDIM], to[MX_MAX_NDIM], by[MX_MAX_NDIM];
    if (is_nil(x))
        return x;
    for (int i = 0; i < x->ndim; i++) {
        bool it = i == axis || i == axis + x->ndim;
        from[i] = it ? start : 0;
        to[i] = it ? stop : x->shape[i];
        by[i] = it ? step : 1;
    }
    return mx_slice(x, from, to, by);
}

const struct op op_slice = {
    OP_ROW(slice), ARGS(slice_args), .shapes = slice_shapes, .view = slice_view,
    .vjp = slice_vjp, .jvp = slice_jvp, .vmap = slice_vmap,
};

/* ---- slice_update: y = x but for x[slice], which becomes fold(x[slice], update) */

static int slice_update_shapes(const struct call *c, struct spec out[])
{
    const struct slice_update_args *a = c->args;
    mx x = c->x[0], u = c->x[1];
    int shape[MX_MAX_NDIM];
    if (sliced_shape("slice_update", x, a->start, a->stop, a->step, shape))
        return 1;
    if (u->ndim != x->ndim || memcmp(u->shape, shape, (size_t)x->ndim * sizeof *shape))
        return failed(mx_fail("[slice_update] expected an update of shape %s, got %s",
                              shape_text(x->ndim, shape), shape_of(u)));
    return spec_like(out, x);
}

/* Where x's own value stays the result of a maximum or minimum. */
mx fold_keeps(enum scatter_fold f, mx x, mx u)
{
    return f == SCATTER_MAX ? mx_greater_equal(x, u) : mx_less_equal(x, u);
}

static void slice_update_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct slice_update_args *a = c->args;
    const struct slice_args at = { a->start, a->stop, a->step };
    mx x = c->x[0], u = c->x[1], g = mx_infer(&op_slice, &at, 1, ct), part;
    switch ((enum scatter_fold)a->fold) {
    case SCATTER_SET:
        dx[0] = want[0] ? put_back(&at, ct[0], zeros_of(u), SCATTER_SET) : NULL;
        dx[1] = g;
        break;
    case SCATTER_ADD:
        dx[0] = ct[0];
        dx[1] = g;
        break;
    case SCATTER_PROD:
        dx[0] = want[0] ? put_back(&at, ct[0], conjugated(u), SCATTER_PROD) : NULL;
        dx[1] = want[1] ? mx_multiply(g, conjugated(mx_infer(&op_slice, &at, 1, &x))) : NULL;
        break;
    case SCATTER_MAX:
    case SCATTER_MIN:
        part = fold_keeps(a->fold, mx_infer(&op_slice, &at, 1, &x), u);
        dx[0] = want[0] ? put_back(&at, ct[0], mx_where(part, g, zeros_of(g)), SCATTER_SET) : NULL;
        dx[1] = mx_where(part, zeros_of(g), g);
        break;
    }
}

static void slice_update_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct slice_update_args *a = c->args;
    const struct slice_args at = { a->start, a->stop, a->step };
    mx x = c->x[0], u = c->x[1], xs = mx_infer(&op_slice, &at, 1, &x);
    mx tx = or_zeros(t[0], x), tu = or_zeros(t[1], u);
    switch ((enum scatter_fold)a->fold) {
    case SCATTER_SET:
    case SCATTER_ADD:
        dy[0] = put_back(&at, tx, tu, a->fold);
        break;
    case SCATTER_PROD:
        dy[0] = put_back(&at, put_back(&at, tx, u, SCATTER_PROD), mx_multiply(xs, tu), SCATTER_ADD);
        break;
    case SCATTER_MAX:
    case SCATTER_MIN:
        dy[0] = put_back(&at, tx,
                         mx_where(fold_keeps(a->fold, xs, u), mx_infer(&op_slice, &at, 1, &tx), tu),
                         SCATTER_SET);
        break;
    }
}

static void slice_update_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct slice_update_args *a = c->args;
    struct bounds b;
    int n = batch_size(c, axis);
    mx x = batch_all(c->x[0], axis[0], n), u = batch_all(c->x[1], axis[1], n);
    struct slice_args at = bounds_batched(&b, n, a->start, a->stop, a->step);
    y[0] = put_back(&at, x, u, a->fold);
    yaxis[0] = 0;
}

mx mx_slice_update_fold(mx x, mx update, const int *start, const int *stop, const int *step,
                        enum scatter_fold f)
{
    if (is_nil(x) || is_nil(update))
        return MX_NIL;
    struct bounds b;
    struct slice_args a = bounds_of(&b, x->ndim, start, stop, step);
    int shape[MX_MAX_NDIM];
    if (sliced_shape("slice_update", x, a.start, a.stop, a.step, shape))
        return MX_NIL;
    /* Leading axes of one element are dropped, as an assignment in NumPy does. */
    while (update->ndim > x->ndim && update->shape[0] == 1)
        update = mx_squeeze(update, (const int[]){ 0 }, 1);
    mx u = mx_broadcast_to(mx_astype(update, x->dtype), x->ndim, shape);
    if (is_nil(u) || u->size == 0)
        return is_nil(u) ? u : x;
    return f == SCATTER_SET && takes_all(x, &a) ? u : put_back(&a, x, u, f);
}

mx mx_slice_update(mx x, mx update, const int *start, const int *stop, const int *step)
{
    return mx_slice_update_fold(x, update, start, stop, step, SCATTER_SET);
}

const struct op op_slice_update = {
    OP_ROW(slice_update), ARGS(slice_update_args), .shapes = slice_update_shapes,
    .vjp = slice_update_vjp, .jvp = slice_update_jvp, .vmap = slice_update_vmap,
};

/* ---- dynamic slices: the corner is an operand; one that leaves no room for the whole slice is as an index out of
 * range (core/outside.h) */

const struct field dynamic_args_fields[] = {
    FIELD(dynamic_args, axes), FIELD(dynamic_args, sizes), FIELD(dynamic_args, outside), { 0 }
};

static int dynamic_slice_shapes(const struct call *c, struct spec out[])
{
    const struct dynamic_args *a = c->args;
    int shape[MX_MAX_NDIM];
    for (int i = 0; i < a->sizes.n; i++) {
        shape[i] = (int)a->sizes.v[i];
        if (shape[i] < 0 || shape[i] > dim(c->x[0], i))
            return failed(mx_fail("[slice] expected a size from 0 to %d for axis %d, got %d",
                                  dim(c->x[0], i), i, shape[i]));
    }
    return spec_set(out, c->x[0]->dtype, a->sizes.n, shape);
}

static mx dynamic_slice(const struct dynamic_args *a, mx x, mx start)
{
    mx in[2] = { x, start };
    return mx_infer(&op_dynamic_slice, a, 2, in);
}

static mx dynamic_update(const struct dynamic_args *a, mx x, mx update, mx start)
{
    mx in[3] = { x, update, start };
    return mx_infer(&op_dynamic_slice_update, a, 3, in);
}

static void dynamic_slice_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = dynamic_update(c->args, zeros_of(c->x[0]), ct[0], c->x[1]);
}

static void dynamic_slice_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (t[0])
        dy[0] = dynamic_slice(c->args, t[0], c->x[1]);
}

/* The corner's coordinates as index arrays: (B, n) gives n of (B,).  Batched operands are indexed
 * along their batch as well. */
static int corners(mx start, int n_axes, mx out[])
{
    for (int i = 0; i < n_axes; i++)
        out[i] = mx_squeeze(mx_slice_axis(start, 1, i, i + 1, 1), (const int[]){ 1 }, 1);
    return n_axes;
}

static struct dynamic_args dynamic_batched(int n, const struct dynamic_args *a, int64_t *axes,
                                           int64_t *sizes)
{
    sizes[0] = n;
    for (int i = 0; i < a->axes.n; i++)
        axes[i] = a->axes.v[i] + 1;
    for (int i = 0; i < a->sizes.n; i++)
        sizes[1 + i] = a->sizes.v[i];
    return (struct dynamic_args){ { a->axes.n, axes }, { 1 + a->sizes.n, sizes }, a->outside };
}

/* One corner for all is a dynamic slice again; a corner for each, a gather. */
static void dynamic_slice_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct dynamic_args *a = c->args;
    int n = batch_size(c, axis);
    yaxis[0] = 0;
    if (axis[1] < 0) {
        int64_t axes[MX_MAX_NDIM], sizes[MX_MAX_NDIM + 1];
        struct dynamic_args batched = dynamic_batched(n, a, axes, sizes);
        y[0] = dynamic_slice(&batched, batch_first(c->x[0], axis[0]), c->x[1]);
        return;
    }
    mx x = batch_first(c->x[0], axis[0]), at[MX_MAX_NDIM + 1];
    bool whole = axis[0] < 0; /* every example looks into the same x */
    int axes[MX_MAX_NDIM + 1] = { 0 }, sizes[MX_MAX_NDIM + 1] = { 1 }, k = !whole;
    if (!whole)
        at[0] = mx_arange(0, n, 1, DT_int32);
    int m = k + corners(batch_first(c->x[1], axis[1]), a->axes.n, at + k);
    for (int i = 0; i < a->axes.n; i++)
        axes[k + i] = (int)a->axes.v[i] + k;
    for (int i = 0; i < a->sizes.n; i++)
        sizes[k + i] = (int)a->sizes.v[i];
    mx g = mx_gather_as((struct asked){ ITSELF, a->outside }, x, at, axes, m, sizes);
    y[0] = whole ? g : mx_squeeze(g, (const int[]){ 1 }, 1);
}

static int check_corner(const char *op, mx x, mx start, const int *axes, int n, int *out)
{
    if (!dtype_is_integer(start->dtype))
        return failed(
            mx_fail("[%s] expected an integer start, got %s", op, dtype_name(start->dtype)));
    if (start->size != n || start->ndim > 1)
        return failed(
            mx_fail("[%s] expected a start of one number for each of %d axes, got shape %s", op, n,
                    shape_of(start)));
    for (int i = 0; i < n; i++) {
        if ((out[i] = axis_of(op, axes[i], x->ndim)) < 0)
            return 1;
        for (int k = 0; k < i; k++)
            if (out[k] == out[i])
                return failed(mx_fail("[%s] expected distinct axes, got axis %d twice", op, axes[i]));
    }
    return 0;
}

mx mx_slice_dynamic(mx x, mx start, const int *axes, int n, const int *sizes)
{
    int at[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM], w[MX_MAX_NDIM];
    if (is_nil(x) || is_nil(start) || check_corner("slice", x, start, axes, n, at))
        return MX_NIL;
    struct dynamic_args a = { ints_of(n, at, v), ints_of(x->ndim, sizes, w), OUTSIDE_NEAREST };
    return dynamic_slice(&a, x, start->ndim ? start : mx_reshape(start, 1, (const int[]){ 1 }));
}

const struct op op_dynamic_slice = {
    OP_ROW(dynamic_slice), ARGS(dynamic_args), .shapes = dynamic_slice_shapes,
    .vjp = dynamic_slice_vjp, .jvp = dynamic_slice_jvp, .vmap = dynamic_slice_vmap,
};

/* Operands: x, update, start. */
static int dynamic_slice_update_shapes(const struct call *c, struct spec out[])
{
    mx x = c->x[0], u = c->x[1];
    bool fits = u->ndim == x->ndim;
    for (int i = 0; i < x->ndim && fits; i++)
        fits = u->shape[i] <= x->shape[i];
    if (!fits)
        return failed(mx_fail("[slice_update] expected an update no larger than shape %s, got %s",
                              shape_of(x), shape_of(u)));
    return spec_like(out, x);
}

static void dynamic_slice_update_vjp(const struct call *c, const mx ct[], const bool want[],
                                     mx dx[])
{
    if (want[0])
        dx[0] = dynamic_update(c->args, ct[0], zeros_of(c->x[1]), c->x[2]);
    if (want[1])
        dx[1] = dynamic_slice(c->args, ct[0], c->x[2]);
}

static void dynamic_slice_update_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (t[0] || t[1])
        dy[0] = dynamic_update(c->args, or_zeros(t[0], c->x[0]), or_zeros(t[1], c->x[1]), c->x[2]);
}

static void dynamic_slice_update_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct dynamic_args *a = c->args;
    int n = batch_size(c, axis);
    mx x = batch_all(c->x[0], axis[0], n), u = batch_all(c->x[1], axis[1], n);
    yaxis[0] = 0;
    if (axis[2] < 0) {
        int64_t axes[MX_MAX_NDIM], sizes[MX_MAX_NDIM + 1];
        struct dynamic_args batched = dynamic_batched(n, a, axes, sizes);
        y[0] = dynamic_update(&batched, x, u, c->x[2]);
        return;
    }
    mx at[MX_MAX_NDIM + 1] = { mx_arange(0, n, 1, DT_int32) };
    int axes[MX_MAX_NDIM + 1] = { 0 };
    int m = 1 + corners(batch_first(c->x[2], axis[2]), a->axes.n, at + 1);
    for (int i = 0; i < a->axes.n; i++)
        axes[1 + i] = (int)a->axes.v[i] + 1;
    y[0] = mx_scatter_as((struct asked){ ITSELF, a->outside }, x, at, axes, m,
                         mx_expand_dims(u, (const int[]){ 1 }, 1), SCATTER_SET);
}

mx mx_slice_update_dynamic(mx x, mx update, mx start, const int *axes, int n)
{
    int at[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM], w[MX_MAX_NDIM];
    if (is_nil(x) || is_nil(update) || is_nil(start) ||
        check_corner("slice_update", x, start, axes, n, at))
        return MX_NIL;
    /* Axes that the update lacks in front have size 1 there. */
    int lead = x->ndim - update->ndim, ones[MX_MAX_NDIM];
    for (int i = 0; i < lead; i++)
        ones[i] = i;
    if (lead > 0)
        update = mx_expand_dims(update, ones, lead);
    struct dynamic_args a = { ints_of(n, at, v), ints_of(update->ndim, update->shape, w), OUTSIDE_NOTHING };
    return dynamic_update(&a, x, mx_astype(update, x->dtype),
                          start->ndim ? start : mx_reshape(start, 1, (const int[]){ 1 }));
}

const struct op op_dynamic_slice_update = {
    OP_ROW(dynamic_slice_update), ARGS(dynamic_args), .shapes = dynamic_slice_update_shapes,
    .vjp = dynamic_slice_update_vjp, .jvp = dynamic_slice_update_jvp,
    .vmap = dynamic_slice_update_vmap,
};

/* ---- split: part k runs from cut k - 1 to cut k */

const struct field split_args_fields[] = {
    FIELD(split_args, cuts), FIELD(split_args, axis), { 0 }
};

struct range part_of(const struct split_args *a, int k, int size)
{
    int64_t from = k ? a->cuts.v[k - 1] : 0, to = k < a->cuts.n ? a->cuts.v[k] : size;
    return (struct range){ from, to - from, 1 };
}

static int split_shapes(const struct call *c, struct spec out[])
{
    const struct split_args *a = c->args;
    mx x = c->x[0];
    int size = dim(x, a->axis);
    if (a->cuts.n && a->cuts.v[a->cuts.n - 1] > size)
        return failed(mx_fail("[split] cannot cut axis %d of size %d at %lld", a->axis, size,
                       (long long)a->cuts.v[a->cuts.n - 1]));
    for (int k = 0; k <= a->cuts.n; k++) {
        spec_like(&out[k], x);
        out[k].shape[a->axis] = (int)part_of(a, k, size).count;
    }
    return 0;
}

static bool split_view(const struct call *c, mx y)
{
    const struct split_args *a = c->args;
    mx x = c->x[0];
    memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
    y->offset = x->offset +
                (y->size ? part_of(a, y->out, x->shape[a->axis]).first * x->strides[a->axis] : 0);
    return true;
}

static void split_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct split_args *a = c->args;
    mx x = c->x[0], *parts = want[0] ? mx_malloc((size_t)c->nout * sizeof *parts) : NULL;
    if (!parts)
        return;
    for (int k = 0; k < c->nout; k++) {
        int shape[MX_MAX_NDIM];
        memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
        shape[a->axis] = (int)part_of(a, k, x->shape[a->axis]).count;
        parts[k] = ct[k] ? ct[k] : zeros_shaped(x->dtype, x->ndim, shape);
    }
    dx[0] = mx_concatenate(c->nout, parts, a->axis);
    free(parts);
}

static void split_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx_infer_n(&op_split, c->args, 1, t, c->nout, dy);
}

static void split_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct split_args *a = c->args;
    struct split_args batched = { a->cuts, a->axis + 1 };
    mx x = batch_first(c->x[0], axis[0]);
    mx_infer_n(&op_split, &batched, 1, &x, c->nout, y);
    for (int k = 0; k < c->nout; k++)
        yaxis[k] = 0;
}

static int split_failed(int n, mx *out)
{
    for (int k = 0; k < n; k++)
        out[k] = MX_NIL;
    return -1;
}

/* Cuts ascend within 0..size here. */
static int split_up(mx x, struct split_args a, mx *out)
{
    int n = a.cuts.n + 1;
    if (n == 1)
        out[0] = x;
    else
        mx_infer_n(&op_split, &a, 1, &x, n, out);
    return is_nil(out[0]) ? split_failed(n, out) : n;
}

int mx_split_size(mx x, int sections, int axis)
{
    if (sections <= 0) {
        mx_fail("[split] expected a positive number of parts, got %d", sections);
        return -1;
    }
    int a = is_nil(x) ? -1 : axis_of("split", axis, x->ndim);
    if (a < 0)
        return -1;
    if (x->shape[a] % sections) {
        mx_fail("[split] expected a number of parts that divides axis %d of shape %s, got %d", axis, shape_of(x),
                sections);
        return -1;
    }
    if ((size_t)sections > memory_limit() / sizeof *x) { /* parts of nothing, by the billion */
        mx_fail_memory((size_t)sections * sizeof *x);
        return -1;
    }
    return x->shape[a] / sections;
}

int mx_split(mx x, int sections, int axis, mx *out)
{
    int size = mx_split_size(x, sections, axis);
    if (size < 0)
        return split_failed(sections, out);
    int64_t *v = mx_malloc((size_t)sections * sizeof *v);
    if (!v)
        return split_failed(sections, out);
    for (int k = 0; k < sections; k++)
        v[k] = (int64_t)(k + 1) * size;
    int a = axis < 0 ? axis + x->ndim : axis;
    int n = split_up(x, (struct split_args){ { sections - 1, v }, a }, out);
    free(v);
    return n;
}

/* NumPy's parts: x[0:i0], x[i0:i1], ..., x[in:], which may be empty or overlap. */
int mx_split_at(mx x, const int *indices, int n, int axis, mx *out)
{
    int a = is_nil(x) ? -1 : axis_of("split", axis, x->ndim);
    if (a < 0)
        return split_failed(n + 1, out);
    int64_t *v = mx_malloc((size_t)(n + 1) * sizeof *v);
    if (!v)
        return split_failed(n + 1, out);
    int size = x->shape[a];
    bool ascend = true;
    for (int k = 0; k < n; k++) {
        v[k] = range_of(size, indices[k], size, 1).first;
        ascend &= k == 0 || v[k - 1] <= v[k];
    }
    int parts = n + 1;
    if (ascend) {
        parts = split_up(x, (struct split_args){ { n, v }, a }, out);
    } else {
        v[n] = size;
        for (int k = 0; k <= n; k++) {
            out[k] = mx_slice_axis(x, a, k ? (int)v[k - 1] : 0, (int)v[k], 1);
            parts = is_nil(out[k]) ? -1 : parts;
        }
    }
    free(v);
    return parts;
}

const struct op op_split = {
    OP_ROW(split), ARGS(split_args), .shapes = split_shapes, .view = split_view,
    .vjp = split_vjp, .jvp = split_jvp, .vmap = split_vmap,
};

/* ---- concatenate */

const struct field axis_args_fields[] = { FIELD(axis_args, axis), { 0 } };

static int concatenate_shapes(const struct call *c, struct spec out[])
{
    const struct axis_args *a = c->args;
    int64_t total = 0;
    mx first = c->x[0];
    spec_like(out, first);
    for (int k = 0; k < c->nin; k++) {
        mx x = c->x[k];
        bool fits = x->ndim == first->ndim;
        for (int i = 0; i < first->ndim && fits; i++)
            fits = i == a->axis || x->shape[i] == first->shape[i];
        if (!fits)
            return failed(mx_fail(
                "[concatenate] expected shapes that differ along axis %d alone, got %s and %s",
                a->axis, shape_of(first), shape_of(x)));
        total += dim(x, a->axis);
    }
    return (out->shape[a->axis] = dim_of("concatenate", total)) < 0;
}

static void concatenate_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct axis_args *a = c->args;
    int64_t at = 0;
    for (int k = 0; k < c->nin; k++) {
        int64_t end = at + dim(c->x[k], a->axis);
        if (want[k])
            dx[k] = mx_slice_axis(ct[0], a->axis, (int)at, (int)end, 1);
        at = end;
    }
}

/* The operands, each through f, joined along `axis`. */
static mx joined(const struct call *c, const mx t[], const int axis[], int along)
{
    mx *parts = mx_malloc((size_t)c->nin * sizeof *parts);
    if (!parts)
        return MX_NIL;
    int n = axis ? batch_size(c, axis) : 0;
    for (int k = 0; k < c->nin; k++)
        parts[k] = axis ? batch_all(c->x[k], axis[k], n) : or_zeros(t[k], c->x[k]);
    mx y = mx_concatenate(c->nin, parts, along);
    free(parts);
    return y;
}

static void concatenate_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = joined(c, t, NULL, ((const struct axis_args *)c->args)->axis);
}

static void concatenate_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    y[0] = joined(c, NULL, axis, 1 + ((const struct axis_args *)c->args)->axis);
    yaxis[0] = 0;
}

mx mx_concatenate(int n, const mx x[], int axis)
{
    if (n < 1)
        return mx_fail("[concatenate] expected at least one array, got none");
    for (int k = 0; k < n; k++)
        if (is_nil(x[k]))
            return MX_NIL;
    struct axis_args a = { axis_of("concatenate", axis, x[0]->ndim) };
    if (a.axis < 0 || n == 1)
        return a.axis < 0 ? MX_NIL : x[0];
    enum dtype t = x[0]->dtype;
    for (int k = 1; k < n; k++)
        t = promote(t, x[k]->dtype);
    mx few[16], *in = n <= 16 ? few : mx_malloc((size_t)n * sizeof *in);
    if (!in)
        return MX_NIL;
    for (int k = 0; k < n; k++)
        in[k] = mx_astype(x[k], t);
    mx y = mx_infer(&op_concatenate, &a, n, in);
    if (in != few)
        free(in);
    return y;
}

mx mx_stack(int n, const mx x[], int axis)
{
    if (n < 1)
        return mx_fail("[stack] expected at least one array, got none");
    for (int k = 0; k < n; k++) {
        if (is_nil(x[k]))
            return MX_NIL;
        if (!same_shape(x[k], x[0]))
            return mx_fail("[stack] expected arrays of one shape, got %s and %s", shape_of(x[0]),
                           shape_of(x[k]));
    }
    int a = axis_of("stack", axis, x[0]->ndim + 1);
    mx few[16], *in = n <= 16 ? few : mx_malloc((size_t)n * sizeof *in);
    if (!in)
        return MX_NIL;
    for (int k = 0; k < n; k++)
        in[k] = a < 0 ? MX_NIL : mx_expand_dims(x[k], &a, 1);
    mx y = mx_concatenate(n, in, a);
    if (in != few)
        free(in);
    return y;
}

const struct op op_concatenate = {
    OP_ROW(concatenate), ARGS(axis_args), .shapes = concatenate_shapes,
    .vjp = concatenate_vjp, .jvp = concatenate_jvp, .vmap = concatenate_vmap,
};

/* ---- pad: x, then the value around it */

const struct field pad_args_fields[] = { FIELD(pad_args, low), FIELD(pad_args, high), { 0 } };

static int pad_shapes(const struct call *c, struct spec out[])
{
    const struct pad_args *a = c->args;
    mx x = c->x[0];
    spec_like(out, x);
    for (int i = 0; i < x->ndim; i++)
        if ((out->shape[i] = dim_of("pad", a->low.v[i] + x->shape[i] + a->high.v[i])) < 0)
            return 1;
    return 0;
}

/* Where x lies in the result, of an array with `lead` axes before x's. */
static struct slice_args inside(struct bounds *b, const struct pad_args *a, mx x)
{
    for (int i = 0; i < a->low.n; i++) {
        b->start[i] = a->low.v[i];
        b->stop[i] = a->low.v[i] + x->shape[i];
        b->step[i] = 1;
    }
    int n = a->low.n;
    return (struct slice_args){ { n, b->start }, { n, b->stop }, { n, b->step } };
}

/* The value takes the sum of what arrives at the padding; taking x's part out of the full sum
 * instead would cancel. */
static void pad_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    struct bounds b;
    mx x = c->x[0];
    struct slice_args at = inside(&b, c->args, x);
    if (want[0])
        dx[0] = mx_infer(&op_slice, &at, 1, ct);
    if (want[1])
        dx[1] = mx_sum(put_back(&at, ct[0], zeros_of(x), SCATTER_SET), NULL, 0, false);
}

static void pad_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx in[2] = { or_zeros(t[0], c->x[0]), or_zeros(t[1], c->x[1]) };
    dy[0] = mx_infer(&op_pad, c->args, 2, in);
}

static void pad_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct pad_args *a = c->args;
    struct bounds b;
    int64_t low[MX_MAX_NDIM + 1] = { 0 }, high[MX_MAX_NDIM + 1] = { 0 };
    int m = a->low.n, n = batch_size(c, axis);
    for (int i = 0; i < m; i++) {
        low[1 + i] = a->low.v[i];
        high[1 + i] = a->high.v[i];
    }
    struct pad_args batched = { { m + 1, low }, { m + 1, high } };
    mx in[2] = { batch_all(c->x[0], axis[0], n), c->x[1] };
    yaxis[0] = 0;
    if (axis[1] < 0) {
        y[0] = mx_infer(&op_pad, &batched, 2, in);
        return;
    }
    /* A value for each example: the padded shape filled with them, x written in. */
    struct spec whole;
    struct call c2 = { .op = &op_pad, .args = &batched, .nin = 2, .nout = 1, .x = in };
    int ones[MX_MAX_NDIM];
    for (int i = 0; i < m; i++)
        ones[i] = 1 + i;
    struct slice_args at = inside(&b, &batched, in[0]);
    if (is_nil(in[0]) || pad_shapes(&c2, &whole)) {
        y[0] = MX_NIL;
        return;
    }
    mx filled = mx_broadcast_to(mx_expand_dims(c->x[1], ones, m), whole.ndim, whole.shape);
    y[0] = put_back(&at, filled, in[0], SCATTER_SET);
}

/* Which element of an axis of n stands at place i, before, inside or behind it. */
static int64_t mirrored(enum pad_mode mode, int64_t i, int64_t n)
{
    if (mode == PAD_EDGE || n == 1)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    int64_t period = mode == PAD_REFLECT ? 2 * (n - 1) : 2 * n;
    i %= period;
    i += i < 0 ? period : 0;
    return i < n ? i : period - (mode == PAD_SYMMETRIC) - i;
}

/* The other modes take elements of x again, axis by axis. */
static mx pad_with_own(mx x, int axis, int low, int high, enum pad_mode mode)
{
    int n = dim(x, axis);
    if (is_nil(x) || (low == 0 && high == 0))
        return x;
    if (n == 0)
        return mx_fail(
            "[pad] an axis of size 0 can be padded with a constant only; axis %d of shape %s", axis,
            shape_of(x));
    int total = dim_of("pad", (int64_t)low + n + high);
    int32_t *v = total < 0 ? NULL : mx_malloc((size_t)total * sizeof *v);
    if (!v)
        return MX_NIL;
    for (int i = 0; i < total; i++)
        v[i] = (int32_t)mirrored(mode, (int64_t)i - low, n);
    mx y = mx_take(x, array_of_data(DT_int32, 1, &total, v), axis);
    free(v);
    return y;
}

mx mx_pad(mx x, const int *axes, int n, const int *low, const int *high, mx value,
          enum pad_mode mode)
{
    int64_t lo[MX_MAX_NDIM] = { 0 }, hi[MX_MAX_NDIM] = { 0 };
    bool seen[MX_MAX_NDIM] = { 0 }, grows = false;
    if (is_nil(x) || is_nil(value))
        return MX_NIL;
    for (int i = 0; i < n; i++) {
        int a = axis_of("pad", axes ? axes[i] : i, x->ndim);
        if (a < 0)
            return MX_NIL;
        if (seen[a])
            return mx_fail("[pad] expected distinct axes, got axis %d twice", a);
        if (low[i] < 0 || high[i] < 0)
            return mx_fail("[pad] expected padding of 0 or more, got %d and %d for axis %d", low[i],
                           high[i], a);
        seen[a] = true;
        lo[a] = low[i];
        hi[a] = high[i];
        grows |= low[i] || high[i];
    }
    if (!grows)
        return x;
    if (mode != PAD_CONSTANT) {
        for (int a = 0; a < x->ndim; a++)
            x = pad_with_own(x, a, (int)lo[a], (int)hi[a], mode);
        return x;
    }
    if (value && value->size != 1)
        return mx_fail("[pad] expected a scalar to pad with, got shape %s", shape_of(value));
    struct pad_args a = { { x->ndim, lo }, { x->ndim, hi } };
    mx in[2] = { x, value ? mx_astype(mx_reshape(value, 0, NULL), x->dtype)
                          : array_of_int(0, x->dtype) };
    return mx_infer(&op_pad, &a, 2, in);
}

const struct op op_pad = {
    OP_ROW(pad), ARGS(pad_args), .shapes = pad_shapes,
    .vjp = pad_vjp, .jvp = pad_jvp, .vmap = pad_vmap,
};
