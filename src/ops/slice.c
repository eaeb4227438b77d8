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

static const struct field slice_args_fields[] = {
    FIELD(slice_args, start), FIELD(slice_args, stop), FIELD(slice_args, step), { 0 }
};
static const struct field slice_update_args_fields[] = { FIELD(slice_update_args, start),
                                                         FIELD(slice_update_args, stop),
                                                         FIELD(slice_update_args, step),
                                                         ENUM(slice_update_args, fold, SCATTER_MIN),
                                                         { 0 } };

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
static int sliced_shape(const char *op, mx x, struct ints start, struct ints stop, struct ints step, int *shape)
{
    if (start.n != x->ndim)
        return failed(mx_fail("[%s] expected a start for each of %d dimensions, got %d", op, x->ndim, start.n));
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

static struct slice_args bounds_of(struct bounds *b, int n, const int *start, const int *stop, const int *step)
{
    struct slice_args a = { ints_of(n, start, b->start), ints_of(n, stop, b->stop), { n, b->step } };
    for (int i = 0; i < n; i++) b->step[i] = step ? step[i] : 1;
    return a;
}

/* The same slice behind a batch axis. */
static struct slice_args bounds_batched(struct bounds *b, struct ints start, struct ints stop, struct ints step)
{
    b->start[0] = 0;
    b->stop[0] = TO_END;
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
static mx put_slice_back(const struct slice_args *a, mx x, mx update, enum scatter_fold f)
{
    struct slice_update_args to = { a->start, a->stop, a->step, f };
    mx in[2] = { x, update };
    return mx_infer(&op_slice_update, &to, 2, in);
}

static void slice_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = put_slice_back(c->args, zeros_of(c->x[0]), ct[0], SCATTER_SET);
}

static void slice_jvp(const struct call *c, const mx t[], mx dy[]) { dy[0] = mx_infer(&op_slice, c->args, 1, t); }

static void slice_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct slice_args *a = c->args;
    struct bounds b;
    mx x = batch_first(c->x[0], axis[0]);
    struct slice_args batched = bounds_batched(&b, a->start, a->stop, a->step);
    y[0] = mx_infer(&op_slice, &batched, 1, &x);
    yaxis[0] = 0;
}

static bool takes_axis(mx x, const struct slice_args *a, int i)
{
    bool any_size = a->start.v[i] == 0 && a->stop.v[i] == TO_END && a->step.v[i] == 1;
    if (any_size || (x->tracer && shapeless()))
        return any_size;
    return a->step.v[i] == 1 && range_of(x->shape[i], a->start.v[i], a->stop.v[i], 1).count == x->shape[i];
}

static bool takes_all(mx x, const struct slice_args *a)
{
    for (int i = 0; i < x->ndim; i++)
        if (!takes_axis(x, a, i))
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
        to[i] = it ? stop : TO_END;
        by[i] = it ? step : 1;
    }
    return mx_slice(x, from, to, by);
}

/* Bounds for every axis of x? */
static bool bounds_fit(mx x, struct ints start, struct ints stop, struct ints step)
{
    return numbers_within(start, x->ndim, INT32_MIN, INT32_MAX) &&
           numbers_within(stop, x->ndim, INT32_MIN, INT32_MAX) && numbers_within(step, x->ndim, INT32_MIN, INT32_MAX);
}

static bool slice_fits(const struct call *c)
{
    const struct slice_args *a = c->args;
    return call_has(c, 1, 1) && bounds_fit(c->x[0], a->start, a->stop, a->step);
}

const struct op op_slice = {
    OP_ROW(slice),    ARGS(slice_args), .shapes = slice_shapes, .view = slice_view,
    .vjp = slice_vjp, .jvp = slice_jvp, .vmap = slice_vmap,     .fits = slice_fits,
};

/* ---- diagonal: of two axes, as the last axis of the result */

static const struct field diagonal_args_fields[] = {
    FIELD(diagonal_args, offset), FIELD(diagonal_args, axis1), FIELD(diagonal_args, axis2), { 0 }
};

struct line line_of(const struct diagonal_args *a, mx x)
{
    struct line l = { a->offset < 0 ? -(int64_t)a->offset : 0, a->offset > 0 ? a->offset : 0, 0 };
    int64_t rows = x->shape[a->axis1] - l.down, columns = x->shape[a->axis2] - l.right;
    l.count = rows < columns ? rows : columns;
    return l.count > 0 ? l : (struct line){ 0 };
}

static int diagonal_shapes(const struct call *c, struct spec out[])
{
    const struct diagonal_args *a = c->args;
    int shape[MX_MAX_NDIM], n = 0;
    for (int i = 0; i < c->x[0]->ndim; i++)
        if (i != a->axis1 && i != a->axis2)
            shape[n++] = c->x[0]->shape[i];
    shape[n++] = (int)line_of(a, c->x[0]).count;
    return spec_set(out, c->x[0]->dtype, n, shape);
}

static bool diagonal_view(const struct call *c, mx y)
{
    const struct diagonal_args *a = c->args;
    mx x = c->x[0];
    struct line l = line_of(a, x);
    int n = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != a->axis1 && i != a->axis2)
            y->strides[n++] = x->strides[i];
    y->strides[n] = x->strides[a->axis1] + x->strides[a->axis2];
    y->offset = x->offset + l.down * x->strides[a->axis1] + l.right * x->strides[a->axis2];
    return true;
}

/* The elements of a diagonal at the rows that they are in; what is at others does not matter. */
static mx at_rows(const struct diagonal_args *a, mx y, mx x, mx zero)
{
    struct size rows = size_of(x, a->axis1);
    int last = y->ndim - 1, low = 0, high = 1;
    if (!rows.of) {
        struct line l = line_of(a, x);
        low = (int)l.down;
        high = (int)(rows.now - l.down - l.count);
        return mx_pad(y, &last, 1, &low, &high, zero, PAD_CONSTANT);
    }
    /* One more, so that there is one where the diagonal has none. */
    y = mx_pad(y, &last, 1, &low, &high, zero, PAD_CONSTANT);
    mx i =
        mx_subtract(mx_arange_by(1, &rows, DT_int64), array_of_int(a->offset < 0 ? -(int64_t)a->offset : 0, DT_int64));
    mx most = mx_subtract(mx_number_of_elements(y, &last, 1, false, DT_int64), array_of_int(1, DT_int64));
    return mx_take(y, mx_clip(i, array_of_int(0, DT_int64), most), last);
}

/* The cotangent along the rows, of all columns of which the mask of a diagonal takes one. */
static void diagonal_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct diagonal_args *a = c->args;
    mx x = c->x[0];
    int n = x->ndim, perm[MX_MAX_NDIM], k = 0;
    if (!want[0])
        return;
    struct size rows = size_of(x, a->axis1), columns = size_of(x, a->axis2);
    mx zero = mx_scalar_like(0, ct[0]);
    mx each = mx_expand_dims(at_rows(a, ct[0], x, zero), (int[]){ -1 }, 1);
    for (int i = 0; i < n; i++) perm[i] = i == a->axis1 ? n - 2 : i == a->axis2 ? n - 1 : k++;
    dx[0] = mx_transpose(mx_where(mx_eye_by(rows, columns, a->offset, DT_bool_), each, zero), perm, n);
}

static void diagonal_jvp(const struct call *c, const mx t[], mx dy[]) { dy[0] = mx_infer(&op_diagonal, c->args, 1, t); }

static void diagonal_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct diagonal_args a = *(const struct diagonal_args *)c->args;
    a.axis1 += a.axis1 >= axis[0];
    a.axis2 += a.axis2 >= axis[0];
    mx x = c->x[0];
    y[0] = mx_infer(&op_diagonal, &a, 1, &x);
    yaxis[0] = axis[0] - (a.axis1 < axis[0]) - (a.axis2 < axis[0]);
}

mx mx_diagonal(mx x, int offset, int axis1, int axis2)
{
    if (is_nil(x))
        return x;
    if (x->ndim < 2)
        return mx_fail("[diagonal] expected an array of at least two dimensions, got shape %s", shape_of(x));
    struct diagonal_args a = { offset, axis_of("diagonal", axis1, x->ndim), axis_of("diagonal", axis2, x->ndim) };
    if (a.axis1 < 0 || a.axis2 < 0)
        return MX_NIL;
    if (a.axis1 == a.axis2)
        return mx_fail("[diagonal] expected two different axes, got %d and %d", axis1, axis2);
    return mx_infer(&op_diagonal, &a, 1, &x);
}

const struct op op_diagonal = {
    OP_ROW(diagonal),    ARGS(diagonal_args), .shapes = diagonal_shapes, .view = diagonal_view,
    .vjp = diagonal_vjp, .jvp = diagonal_jvp, .vmap = diagonal_vmap,
};

/* ---- slice_update: y = x but for x[slice], which becomes fold(x[slice], update) */

static int slice_update_shapes(const struct call *c, struct spec out[])
{
    const struct slice_update_args *a = c->args;
    mx x = c->x[0], u = c->x[1];
    int shape[MX_MAX_NDIM];
    if (sliced_shape("slice_update", x, a->start, a->stop, a->step, shape))
        return 1;
    if (u->ndim != x->ndim || memcmp(u->shape, shape, (size_t)x->ndim * sizeof *shape) || u->dtype != x->dtype)
        return failed(mx_fail("[slice_update] expected an update of shape %s and type %s, got %s of %s",
                              shape_text(x->ndim, shape), dtype_name(x->dtype), shape_of(u), dtype_name(u->dtype)));
    return spec_like(out, x);
}

/* Where x stays the result of max(x, u) or min(x, u): the tie goes to x. */
static mx fold_keeps(enum scatter_fold f, mx x, mx u)
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
        dx[0] = want[0] ? put_slice_back(&at, ct[0], zeros_of(u), SCATTER_SET) : NULL;
        dx[1] = g;
        break;
    case SCATTER_ADD:
        dx[0] = ct[0];
        dx[1] = g;
        break;
    case SCATTER_PROD:
        dx[0] = want[0] ? put_slice_back(&at, ct[0], conjugated(u), SCATTER_PROD) : NULL;
        dx[1] = want[1] ? mx_multiply(g, conjugated(mx_infer(&op_slice, &at, 1, &x))) : NULL;
        break;
    case SCATTER_MAX:
    case SCATTER_MIN:
        part = fold_keeps(a->fold, mx_infer(&op_slice, &at, 1, &x), u);
        dx[0] = want[0] ? put_slice_back(&at, ct[0], mx_where(part, g, zeros_of(g)), SCATTER_SET) : NULL;
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
    case SCATTER_ADD: dy[0] = put_slice_back(&at, tx, tu, a->fold); break;
    case SCATTER_PROD:
        dy[0] = put_slice_back(&at, put_slice_back(&at, tx, u, SCATTER_PROD), mx_multiply(xs, tu), SCATTER_ADD);
        break;
    case SCATTER_MAX:
    case SCATTER_MIN:
        dy[0] = put_slice_back(&at, tx, mx_where(fold_keeps(a->fold, xs, u), mx_infer(&op_slice, &at, 1, &tx), tu),
                               SCATTER_SET);
        break;
    }
}

static void slice_update_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct slice_update_args *a = c->args;
    struct bounds b;
    struct size n = batch_size(c, axis);
    mx x = batch_all(c->x[0], axis[0], n), u = batch_all(c->x[1], axis[1], n);
    struct slice_args at = bounds_batched(&b, a->start, a->stop, a->step);
    y[0] = put_slice_back(&at, x, u, a->fold);
    yaxis[0] = 0;
}

/* The sizes of x[slice]: what the bounds alone say, the rest is that of the slice. */
static void sizes_within(mx x, const struct slice_args *a, const int *shape, struct size sizes[])
{
    bool lent = x->tracer && shapeless();
    mx part = NULL;
    for (int i = 0; i < x->ndim; i++) {
        int64_t start = a->start.v[i], stop = a->stop.v[i];
        bool one = shape[i] == 1 && start < 0 && stop == (start == -1 ? TO_END : start + 1);
        bool inside = start >= 0 && stop >= 0 && (a->step.v[i] > 0 ? stop : start + 1) <= x->shape[i];
        sizes[i] = size_is(shape[i]);
        if (!lent || one || inside)
            continue;
        if (takes_axis(x, a, i)) {
            sizes[i] = size_of(x, i);
            continue;
        }
        part = part ? part : mx_infer(&op_slice, a, 1, &x);
        sizes[i] = size_of(part, i);
    }
}

bool mx_slice_sizes(mx x, const int *start, const int *stop, const int *step, struct size sizes[])
{
    struct bounds b;
    struct slice_args a = bounds_of(&b, x->ndim, start, stop, step);
    int shape[MX_MAX_NDIM];
    if (is_nil(x) || sliced_shape("slice", x, a.start, a.stop, a.step, shape))
        return false;
    sizes_within(x, &a, shape, sizes);
    return true;
}

mx mx_slice_update_fold(mx x, mx update, const int *start, const int *stop, const int *step, enum scatter_fold f)
{
    if (is_nil(x) || is_nil(update))
        return MX_NIL;
    struct bounds b;
    struct slice_args a = bounds_of(&b, x->ndim, start, stop, step);
    int shape[MX_MAX_NDIM];
    struct size sizes[MX_MAX_NDIM];
    if (sliced_shape("slice_update", x, a.start, a.stop, a.step, shape))
        return MX_NIL;
    /* Leading axes of one element are dropped, as an assignment in NumPy does. */
    while (update->ndim > x->ndim && update->shape[0] == 1) update = mx_squeeze(update, (const int[]){ 0 }, 1);
    sizes_within(x, &a, shape, sizes);
    mx u = mx_broadcast_by(mx_astype(update, x->dtype), x->ndim, sizes);
    if (is_nil(u) || (u->size == 0 && !(u->tracer && shapeless())))
        return is_nil(u) ? u : x;
    return f == SCATTER_SET && takes_all(x, &a) ? u : put_slice_back(&a, x, u, f);
}

mx mx_slice_update(mx x, mx update, const int *start, const int *stop, const int *step)
{
    return mx_slice_update_fold(x, update, start, stop, step, SCATTER_SET);
}

static bool slice_update_fits(const struct call *c)
{
    const struct slice_update_args *a = c->args;
    return call_has(c, 2, 1) && bounds_fit(c->x[0], a->start, a->stop, a->step);
}

const struct op op_slice_update = {
    OP_ROW(slice_update),    ARGS(slice_update_args),   .shapes = slice_update_shapes, .vjp = slice_update_vjp,
    .jvp = slice_update_jvp, .vmap = slice_update_vmap, .fits = slice_update_fits,
};

/* ---- dynamic slices: the corner is an operand; one that leaves no room for the whole slice is as an index out of
 * range (core/outside.h) */

static const struct field dynamic_args_fields[] = {
    FIELD(dynamic_args, axes), SIZES(dynamic_args, sizes), ENUM(dynamic_args, outside, OUTSIDE_FOR_MASK), { 0 }
};

/* A number for each of the axes? */
static bool corner_fits(const char *op, const struct dynamic_args *a, mx start)
{
    if (start->ndim == 1 && start->shape[0] == a->axes.n)
        return true;
    mx_fail("[%s] expected a start of one number for each of %d axes, got shape %s", op, a->axes.n, shape_of(start));
    return false;
}

static int dynamic_slice_shapes(const struct call *c, struct spec out[])
{
    const struct dynamic_args *a = c->args;
    int shape[MX_MAX_NDIM];
    if (!corner_fits("slice", a, c->x[1]))
        return 1;
    for (int i = 0; i < a->sizes.n; i++) {
        shape[i] = (int)size_in(c, a->sizes.v[i]);
        if (shape[i] < 0 || shape[i] > dim(c->x[0], i))
            return failed(
                mx_fail("[slice] expected a size from 0 to %d for axis %d, got %d", dim(c->x[0], i), i, shape[i]));
    }
    return spec_set(out, c->x[0]->dtype, a->sizes.n, shape);
}

/* As the arguments say, but for the sizes. */
static mx dynamic_slice(const struct dynamic_args *a, mx x, mx start, const struct size sizes[])
{
    mx in[2 + MX_MAX_NDIM] = { x, start };
    int64_t v[MX_MAX_NDIM];
    int n = size_operands(2, in, x->ndim, sizes, v);
    return mx_infer(&op_dynamic_slice, &(struct dynamic_args){ a->axes, { x->ndim, v }, a->outside }, n, in);
}

/* The same of an array like operand 0. */
static mx dynamic_slice_of(const struct call *c, mx x)
{
    mx in[2 + MX_MAX_NDIM];
    memcpy(in, c->x, (size_t)c->nin * sizeof *in);
    in[0] = x;
    return mx_infer(&op_dynamic_slice, c->args, c->nin, in);
}

static mx dynamic_update(const struct dynamic_args *a, mx x, mx update, mx start)
{
    mx in[3] = { x, update, start };
    return mx_infer(&op_dynamic_slice_update, &(struct dynamic_args){ a->axes, { 0 }, a->outside }, 3, in);
}

static void dynamic_slice_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = dynamic_update(c->args, zeros_of(c->x[0]), ct[0], c->x[1]);
}

static void dynamic_slice_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (t[0])
        dy[0] = dynamic_slice_of(c, t[0]);
}

/* The corner's coordinates as index arrays: (B, n) gives n of (B,).  Batched operands are indexed
 * along their batch as well. */
static int corners(mx start, int n_axes, mx out[])
{
    for (int i = 0; i < n_axes; i++) out[i] = mx_squeeze(mx_slice_axis(start, 1, i, i + 1, 1), (const int[]){ 1 }, 1);
    return n_axes;
}

/* Behind a batch axis. */
static struct dynamic_args moved_up(const struct dynamic_args *a, int64_t *axes)
{
    for (int i = 0; i < a->axes.n; i++) axes[i] = a->axes.v[i] + 1;
    return (struct dynamic_args){ .axes = { a->axes.n, axes }, .outside = a->outside };
}

/* The sizes of the slice; where they are not told by numbers, those of the operands as they are. */
static void slice_sizes(const struct call *c, struct ints v, const int axis[], struct size sizes[])
{
    for (int i = 0; i < v.n; i++) {
        int k = size_lender(v.v[i]), d = size_axis(v.v[i]);
        sizes[i] = size_is_lent(v.v[i]) ? size_of(c->x[k], d + (axis[k] >= 0 && d >= axis[k])) : size_is((int)v.v[i]);
    }
}

/* One corner for all is a dynamic slice again; a corner for each, a gather. */
static void dynamic_slice_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct dynamic_args *a = c->args;
    struct size n = batch_size(c, axis), sizes[MX_MAX_NDIM + 1] = { n };
    int64_t v[MX_MAX_NDIM];
    mx x = batch_first(c->x[0], axis[0]), at[MX_MAX_NDIM + 1];
    slice_sizes(c, a->sizes, axis, sizes + 1);
    yaxis[0] = 0;
    if (axis[0] < 0 && axis[1] < 0) {
        y[0] = dynamic_slice(a, x, c->x[1], sizes + 1);
        yaxis[0] = -1;
        return;
    }
    if (axis[1] < 0) {
        struct dynamic_args moved = moved_up(a, v);
        y[0] = dynamic_slice(&moved, x, c->x[1], sizes);
        return;
    }
    bool whole = axis[0] < 0; /* every example looks into the same x */
    int axes[MX_MAX_NDIM + 1] = { 0 }, k = !whole;
    sizes[0] = size_is(1);
    if (!whole)
        at[0] = mx_arange_by(1, &n, DT_int32);
    int m = k + corners(batch_first(c->x[1], axis[1]), a->axes.n, at + k);
    for (int i = 0; i < a->axes.n; i++) axes[k + i] = (int)a->axes.v[i] + k;
    mx g = mx_gather_as((struct asked){ ITSELF, a->outside }, x, at, axes, m, sizes + whole);
    y[0] = whole ? g : mx_squeeze(g, (const int[]){ 1 }, 1);
}

static int check_corner(const char *op, mx x, mx start, const int *axes, int n, int *out)
{
    if (!dtype_is_integer(start->dtype))
        return failed(mx_fail("[%s] expected an integer start, got %s", op, dtype_name(start->dtype)));
    if (start->size != n || start->ndim > 1)
        return failed(
            mx_fail("[%s] expected a start of one number for each of %d axes, got shape %s", op, n, shape_of(start)));
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
    int64_t v[MX_MAX_NDIM];
    struct size given[MX_MAX_NDIM];
    if (is_nil(x) || is_nil(start) || check_corner("slice", x, start, axes, n, at))
        return MX_NIL;
    for (int i = 0; i < x->ndim; i++) {
        if (sizes[i] < 0) /* which would be the mark of a size that an operand lends */
            return mx_fail("[slice] expected a size from 0 to %d for axis %d, got %d", x->shape[i], i, sizes[i]);
        given[i] = size_is(sizes[i]);
    }
    struct dynamic_args a = { .axes = ints_of(n, at, v), .outside = OUTSIDE_NEAREST };
    return dynamic_slice(&a, x, start->ndim ? start : mx_reshape(start, 1, (const int[]){ 1 }), given);
}

static bool dynamic_slice_fits(const struct call *c)
{
    const struct dynamic_args *a = c->args;
    return c->nin >= 2 && c->nout == 1 && a->sizes.n == c->x[0]->ndim && numbers_are_sizes(a->sizes, 0, c) &&
           numbers_are_axes(a->axes, c->x[0]) && are_indices(1, c->x + 1);
}

const struct op op_dynamic_slice = {
    OP_ROW(dynamic_slice),          ARGS(dynamic_args),         .own = 2,
    .shapes = dynamic_slice_shapes, .vjp = dynamic_slice_vjp,   .jvp = dynamic_slice_jvp,
    .vmap = dynamic_slice_vmap,     .fits = dynamic_slice_fits,
};

/* Operands: x, update, start. */
static int dynamic_slice_update_shapes(const struct call *c, struct spec out[])
{
    mx x = c->x[0], u = c->x[1];
    bool fits = u->ndim == x->ndim && u->dtype == x->dtype;
    if (!corner_fits("slice_update", c->args, c->x[2]))
        return 1;
    for (int i = 0; i < x->ndim && fits; i++) fits = u->shape[i] <= x->shape[i];
    if (!fits)
        return failed(mx_fail("[slice_update] expected an update no larger than shape %s, of type %s, got %s of %s",
                              shape_of(x), dtype_name(x->dtype), shape_of(u), dtype_name(u->dtype)));
    return spec_like(out, x);
}

static void dynamic_slice_update_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    struct size sizes[MX_MAX_NDIM];
    sizes_like(c->x[1], sizes);
    if (want[0])
        dx[0] = dynamic_update(c->args, ct[0], zeros_of(c->x[1]), c->x[2]);
    if (want[1])
        dx[1] = dynamic_slice(c->args, ct[0], c->x[2], sizes);
}

static void dynamic_slice_update_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (t[0] || t[1])
        dy[0] = dynamic_update(c->args, or_zeros(t[0], c->x[0]), or_zeros(t[1], c->x[1]), c->x[2]);
}

static void dynamic_slice_update_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct dynamic_args *a = c->args;
    struct size n = batch_size(c, axis);
    mx x = batch_all(c->x[0], axis[0], n), u = batch_all(c->x[1], axis[1], n);
    int64_t v[MX_MAX_NDIM];
    yaxis[0] = 0;
    if (axis[2] < 0) {
        struct dynamic_args moved = moved_up(a, v);
        y[0] = dynamic_update(&moved, x, u, c->x[2]);
        return;
    }
    mx at[MX_MAX_NDIM + 1] = { mx_arange_by(1, &n, DT_int32) };
    int axes[MX_MAX_NDIM + 1] = { 0 };
    int m = 1 + corners(batch_first(c->x[2], axis[2]), a->axes.n, at + 1);
    for (int i = 0; i < a->axes.n; i++) axes[1 + i] = (int)a->axes.v[i] + 1;
    y[0] = mx_scatter_as((struct asked){ ITSELF, a->outside }, x, at, axes, m, mx_expand_dims(u, (const int[]){ 1 }, 1),
                         SCATTER_SET);
}

mx mx_slice_update_dynamic(mx x, mx update, mx start, const int *axes, int n)
{
    int at[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM];
    if (is_nil(x) || is_nil(update) || is_nil(start) || check_corner("slice_update", x, start, axes, n, at))
        return MX_NIL;
    /* Axes that the update lacks in front have size 1 there, or all of x's where they have no start. */
    int lead = x->ndim - update->ndim, front[MX_MAX_NDIM];
    struct size sizes[MX_MAX_NDIM];
    for (int i = 0; i < lead; i++) {
        front[i] = i;
        sizes[i] = size_of(x, i);
    }
    for (int i = 0; i < n; i++)
        if (at[i] < lead)
            sizes[at[i]] = size_is(1);
    for (int i = lead < 0 ? 0 : lead; i < x->ndim; i++) sizes[i] = size_of(update, i - lead);
    if (lead > 0)
        update = mx_broadcast_by(mx_expand_dims(update, front, lead), x->ndim, sizes);
    struct dynamic_args a = { .axes = ints_of(n, at, v), .outside = OUTSIDE_NOTHING };
    return dynamic_update(&a, x, mx_astype(update, x->dtype),
                          start->ndim ? start : mx_reshape(start, 1, (const int[]){ 1 }));
}

static bool dynamic_slice_update_fits(const struct call *c)
{
    const struct dynamic_args *a = c->args;
    return call_has(c, 3, 1) && a->sizes.n == 0 && numbers_are_axes(a->axes, c->x[0]) && are_indices(1, c->x + 2);
}

const struct op op_dynamic_slice_update = {
    OP_ROW(dynamic_slice_update),          ARGS(dynamic_args),
    .shapes = dynamic_slice_update_shapes, .vjp = dynamic_slice_update_vjp,
    .jvp = dynamic_slice_update_jvp,       .vmap = dynamic_slice_update_vmap,
    .fits = dynamic_slice_update_fits,
};

/* ---- split: part k runs from cut k - 1 to cut k */

static const struct field split_args_fields[] = {
    FIELD(split_args, cuts), FIELD(split_args, axis), SIZES(split_args, sizes), { 0 }
};

static struct range split_range(const struct call *c, int k)
{
    const struct split_args *a = c->args;
    int size = dim(c->x[0], a->axis);
    if (a->sizes.n) {
        struct range r = { 0, size_in(c, a->sizes.v[k]), 1 };
        for (int i = 0; i < k; i++) r.first += size_in(c, a->sizes.v[i]);
        return r;
    }
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
    int64_t all = 0;
    for (int k = 0; k < c->nout; k++) {
        spec_like(&out[k], x);
        all += out[k].shape[a->axis] = (int)split_range(c, k).count;
    }
    if (all != size)
        return failed(mx_fail("[split] expected parts of %d elements together, got %lld", size, (long long)all));
    return 0;
}

static bool split_view(const struct call *c, mx y)
{
    const struct split_args *a = c->args;
    mx x = c->x[0];
    memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
    y->offset = x->offset + (y->size ? split_range(c, y->out).first * x->strides[a->axis] : 0);
    return true;
}

static void split_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct split_args *a = c->args;
    mx *parts = want[0] ? mx_malloc((size_t)c->nout * sizeof *parts) : NULL;
    if (!parts)
        return;
    for (int k = 0; k < c->nout; k++) parts[k] = ct[k] ? ct[k] : zeros_of(c->y[k]);
    dx[0] = mx_concatenate(c->nout, parts, a->axis);
    free(parts);
}

/* The node with operand 0 replaced. */
static void split_other(const struct call *c, const struct split_args *a, mx first, mx y[])
{
    mx *in = mx_malloc((size_t)c->nin * sizeof *in);
    for (int k = 0; k < c->nout && !in; k++) y[k] = MX_NIL;
    if (!in)
        return;
    memcpy(in, c->x, (size_t)c->nin * sizeof *in);
    in[0] = first;
    mx_infer_n(&op_split, a, c->nin, in, c->nout, y);
    free(in);
}

static void split_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (t[0])
        split_other(c, c->args, t[0], dy);
}

static void split_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct split_args *a = c->args;
    int64_t *v = mx_malloc((size_t)c->nout * sizeof *v);
    bool batched = axis[0] >= 0;
    struct split_args moved = { a->cuts, a->axis + batched, { 0 } };
    if (v)
        moved.sizes = sizes_batched(a->sizes, 0, axis, 0, v);
    split_other(c, &moved, v ? batch_first(c->x[0], axis[0]) : MX_NIL, y);
    free(v);
    for (int k = 0; k < c->nout; k++) yaxis[k] = batched ? 0 : -1;
}

static int split_failed(int n, mx *out)
{
    for (int k = 0; k < n; k++) out[k] = MX_NIL;
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

/* The parts have these sizes. */
static void split_by(mx x, int axis, int n, const struct size sizes[], mx *out)
{
    mx *in = mx_malloc(((size_t)n + 1) * (sizeof *in + sizeof(int64_t)));
    if (!in) {
        split_failed(n, out);
        return;
    }
    int64_t *v = (int64_t *)(in + n + 1);
    in[0] = x;
    int m = size_operands(1, in, n, sizes, v);
    mx_infer_n(&op_split, &(struct split_args){ { 0 }, axis, { n, v } }, m, in, n, out);
    free(in);
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
    for (int k = 0; k < sections; k++) v[k] = (int64_t)(k + 1) * size;
    int a = axis < 0 ? axis + x->ndim : axis, n;
    if (x->tracer && shapeless()) { /* as rows of one more axis */
        for (int k = 0; k < sections; k++) v[k] = k + 1;
        mx rows = mx_unflatten_by(x, a, 2, (struct size[]){ size_is(sections), size_is(-1) });
        n = split_up(rows, (struct split_args){ { sections - 1, v }, a, { 0 } }, out);
        for (int k = 0; k < n; k++) out[k] = mx_squeeze(out[k], &a, 1);
    } else {
        n = split_up(x, (struct split_args){ { sections - 1, v }, a, { 0 } }, out);
    }
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
    bool ascend = true, settled = true;
    for (int k = 0; k < n; k++) {
        v[k] = range_of(size, indices[k], size, 1).first;
        ascend &= k == 0 || v[k - 1] <= v[k];
        settled &= v[k] == indices[k];
    }
    int parts = n + 1;
    if (ascend && (settled || !(x->tracer && shapeless()))) {
        parts = split_up(x, (struct split_args){ { n, v }, a, { 0 } }, out);
    } else {
        for (int k = 0; k <= n; k++) {
            out[k] = mx_slice_axis(x, a, k ? indices[k - 1] : 0, k < n ? indices[k] : TO_END, 1);
            parts = is_nil(out[k]) ? -1 : parts;
        }
    }
    free(v);
    return parts;
}

static bool split_fits(const struct call *c)
{
    const struct split_args *a = c->args;
    bool ascend = true;
    for (int i = 1; i < a->cuts.n; i++) ascend &= a->cuts.v[i] >= a->cuts.v[i - 1];
    return c->nin >= 1 && a->axis >= 0 && a->axis < c->x[0]->ndim && ascend &&
           c->nout == (a->sizes.n ? a->sizes.n : a->cuts.n + 1) && numbers_within(a->cuts, a->cuts.n, 0, INT32_MAX) &&
           numbers_are_sizes(a->sizes, 0, c);
}

const struct op op_split = {
    OP_ROW(split),    ARGS(split_args), .own = 1,           .shapes = split_shapes, .view = split_view,
    .vjp = split_vjp, .jvp = split_jvp, .vmap = split_vmap, .fits = split_fits,
};

/* ---- concatenate */

static const struct field axis_args_fields[] = { FIELD(axis_args, axis), { 0 } };

static int concatenate_shapes(const struct call *c, struct spec out[])
{
    const struct axis_args *a = c->args;
    int64_t total = 0;
    mx first = c->x[0];
    spec_like(out, first);
    for (int k = 0; k < c->nin; k++) {
        mx x = c->x[k];
        bool fits = x->ndim == first->ndim;
        for (int i = 0; i < first->ndim && fits; i++) fits = i == a->axis || x->shape[i] == first->shape[i];
        if (!fits)
            return failed(mx_fail("[concatenate] expected shapes that differ along axis %d alone, got %s and %s",
                                  a->axis, shape_of(first), shape_of(x)));
        total += dim(x, a->axis);
    }
    return (out->shape[a->axis] = dim_of("concatenate", total)) < 0;
}

static void concatenate_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct axis_args *a = c->args;
    int64_t at = 0;
    if (shapeless() && ct[0]->tracer) {
        struct size *sizes = mx_malloc((size_t)c->nin * sizeof *sizes);
        for (int k = 0; k < c->nin && sizes; k++) sizes[k] = size_of(c->x[k], a->axis);
        if (sizes)
            split_by(ct[0], a->axis, c->nin, sizes, dx);
        free(sizes);
        return;
    }
    for (int k = 0; k < c->nin; k++) {
        int64_t end = at + dim(c->x[k], a->axis);
        if (want[k])
            dx[k] = mx_slice_axis(ct[0], a->axis, (int)at, (int)end, 1);
        at = end;
    }
}

/* The operands, each through f, joined along `axis`. */
static mx joined_operands(const struct call *c, const mx t[], const int axis[], int along)
{
    mx *parts = mx_malloc((size_t)c->nin * sizeof *parts);
    if (!parts)
        return MX_NIL;
    struct size n = axis ? batch_size(c, axis) : size_is(0);
    for (int k = 0; k < c->nin; k++) parts[k] = axis ? batch_all(c->x[k], axis[k], n) : or_zeros(t[k], c->x[k]);
    mx y = mx_concatenate(c->nin, parts, along);
    free(parts);
    return y;
}

static void concatenate_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = joined_operands(c, t, NULL, ((const struct axis_args *)c->args)->axis);
}

static void concatenate_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    y[0] = joined_operands(c, NULL, axis, 1 + ((const struct axis_args *)c->args)->axis);
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
    for (int k = 1; k < n; k++) t = promote(t, x[k]->dtype);
    mx few[16], *in = n <= 16 ? few : mx_malloc((size_t)n * sizeof *in);
    if (!in)
        return MX_NIL;
    for (int k = 0; k < n; k++) in[k] = mx_astype(x[k], t);
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
            return mx_fail("[stack] expected arrays of one shape, got %s and %s", shape_of(x[0]), shape_of(x[k]));
    }
    int a = axis_of("stack", axis, x[0]->ndim + 1);
    mx few[16], *in = n <= 16 ? few : mx_malloc((size_t)n * sizeof *in);
    if (!in)
        return MX_NIL;
    for (int k = 0; k < n; k++) in[k] = a < 0 ? MX_NIL : mx_expand_dims(x[k], &a, 1);
    mx y = mx_concatenate(n, in, a);
    if (in != few)
        free(in);
    return y;
}

const struct op op_concatenate = {
    OP_ROW(concatenate),    ARGS(axis_args),        .shapes = concatenate_shapes,
    .vjp = concatenate_vjp, .jvp = concatenate_jvp, .vmap = concatenate_vmap,
};

/* ---- pad: x, then the value around it */

static const struct field pad_args_fields[] = { FIELD(pad_args, low), FIELD(pad_args, high), { 0 } };

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

/* Where x lies in the result. */
static struct slice_args inside(struct bounds *b, const struct pad_args *a)
{
    for (int i = 0; i < a->low.n; i++) {
        b->start[i] = a->low.v[i];
        b->stop[i] = a->high.v[i] ? -a->high.v[i] : TO_END;
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
    struct slice_args at = inside(&b, c->args);
    if (want[0])
        dx[0] = mx_infer(&op_slice, &at, 1, ct);
    if (want[1])
        dx[1] = mx_sum(put_slice_back(&at, ct[0], zeros_of(c->x[0]), SCATTER_SET), NULL, 0, false);
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
    int m = a->low.n;
    struct size n = batch_size(c, axis);
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
    int ones[MX_MAX_NDIM];
    for (int i = 0; i < m; i++) ones[i] = 1 + i;
    struct slice_args at = inside(&b, &batched);
    mx whole = mx_infer(&op_pad, &batched, 2, (mx[]){ in[0], array_of_int(0, in[0]->dtype) });
    y[0] = put_slice_back(&at, mx_broadcast_like(mx_expand_dims(c->x[1], ones, m), whole), in[0], SCATTER_SET);
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
    if (x->tracer)
        shapes_matter("pad");
    if (n == 0)
        return mx_fail("[pad] an axis of size 0 can be padded with a constant only; axis %d of shape %s", axis,
                       shape_of(x));
    int total = dim_of("pad", (int64_t)low + n + high);
    int32_t *v = total < 0 ? NULL : mx_malloc((size_t)total * sizeof *v);
    if (!v)
        return MX_NIL;
    for (int i = 0; i < total; i++) v[i] = (int32_t)mirrored(mode, (int64_t)i - low, n);
    mx y = mx_take(x, array_of_data(DT_int32, 1, &total, v), axis);
    free(v);
    return y;
}

mx mx_pad(mx x, const int *axes, int n, const int *low, const int *high, mx value, enum pad_mode mode)
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
            return mx_fail("[pad] expected padding of 0 or more, got %d and %d for axis %d", low[i], high[i], a);
        seen[a] = true;
        lo[a] = low[i];
        hi[a] = high[i];
        grows |= low[i] || high[i];
    }
    if (!grows)
        return x;
    if (mode != PAD_CONSTANT) {
        for (int a = 0; a < x->ndim; a++) x = pad_with_own(x, a, (int)lo[a], (int)hi[a], mode);
        return x;
    }
    if (value && value->size != 1)
        return mx_fail("[pad] expected a scalar to pad with, got shape %s", shape_of(value));
    if (value && dtype_is_complex(value->dtype) && !dtype_is_complex(x->dtype))
        return mx_fail("[pad] expected a real number to pad %s with, got complex64", dtype_name(x->dtype));
    struct pad_args a = { { x->ndim, lo }, { x->ndim, hi } };
    mx in[2] = { x, value ? mx_astype(mx_reshape(value, 0, NULL), x->dtype) : array_of_int(0, x->dtype) };
    return mx_infer(&op_pad, &a, 2, in);
}

const struct op op_pad = {
    OP_ROW(pad), ARGS(pad_args), .shapes = pad_shapes, .vjp = pad_vjp, .jvp = pad_jvp, .vmap = pad_vmap,
};
